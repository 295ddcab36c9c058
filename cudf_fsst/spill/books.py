"""Which entries a pool has, what they take where, and in which order they give way.

All of it follows from the entries' forms, and could be found out by going through them; with many entries that would be
what a pool does most. So it is noted as forms come and go, in one place. Where that is interrupted at any point, who
looks next goes through the entries after all.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from .entry import DEVICE, DISK, HOST, PLAIN, Counters, Entry

#: What can be done to make room in a tier, and for which entries; those that have refused it aside.
APPLIES: dict[tuple[str, str], Callable[[Entry], bool]] = {
    # It is on the GPU, and needs not be in host memory as well.
    ("spare", HOST): lambda entry: entry.home != "cpu" and entry.has(HOST) and entry.has(PLAIN, DEVICE),
    ("shrink", DEVICE): lambda entry: entry.home != "cpu" and entry.has(PLAIN),
    ("shrink", HOST): lambda entry: entry.home == "cpu" and entry.has(PLAIN),
    ("leave", DEVICE): lambda entry: entry.nbytes_in(DEVICE) > 0,
    ("write", HOST): lambda entry: entry.nbytes_in(HOST) > 0,
}
# Mostly one of the first makes the room.
_FEW = 32


class Books:
    """The entries of a pool.

    Attributes
    ----------
    entries : dict
        By name, in the order in which they were put. Changed by `put`, `remove` and `remove_all` only.
    counters : Counters
    lock
        Held shortly, and never while memory is allocated or freed. Who holds it waits for no entry's.
    """

    def __init__(self) -> None:
        self.counters = Counters()
        self.entries: dict[Hashable, Entry] = {}
        self.lock = threading.Lock()
        self._sound = False

    # Who holds the lock calls these -------------------------------------------------------------------------------

    def put(self, name: Hashable, entry: Entry) -> Entry | None:
        """List an entry; the one that it takes the place of."""
        old = self.entries.get(name)
        self._make_sound()
        self._sound = False
        if old is not None:
            self._take_out(old)
        self.entries[name] = entry
        self._count(entry, 1)
        self._queue(entry)
        self._sound = True
        return old

    def remove(self, name: Hashable) -> Entry:
        """Take an entry from the list; KeyError where there is none."""
        entry = self.entries[name]
        self._make_sound()
        self._sound = False
        self._take_out(entry)
        del self.entries[name]
        self._sound = True
        return entry

    def remove_all(self) -> list[Entry]:
        """Take all entries from the list."""
        self._sound = False
        removed = list(self.entries.values())
        self.entries.clear()
        return removed

    def touch(self, entry: Entry) -> None:
        """Note that an entry was used now, so that it gives way last."""
        self._make_sound()
        self._sound = False
        entry.touch()
        for queue in self._queues.values():
            if entry in queue:
                queue.move_to_end(entry)
        self._sound = True

    # Anybody calls these -------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, entry: Entry) -> Iterator[None]:
        """Change forms of an entry, listed or not, or what else decides where it stands.

        Who calls holds the lock by a ``with`` of its own: this is a generator, which an interrupt may leave half run.
        """
        listed = self.entries.get(entry.name) is entry
        if listed:
            self._make_sound()
            self._sound = False
            self._count(entry, -1)
        yield
        if listed:
            self._count(entry, 1)
            self._queue(entry)
            self._sound = True

    def doubt(self) -> None:
        """Go through all entries before the next look: one was changed without the lock, by who was interrupted."""
        self._sound = False

    def all(self) -> list[Entry]:
        """Entries in the order in which they were put."""
        with self.lock:
            return list(self.entries.values())

    def nbytes(self, tier: str) -> int:
        """Bytes in a tier, those included that are on their way to it."""
        with self.lock:
            self._make_sound()
            return self._sums[tier]

    def oldest_first(self, step: str, tier: str) -> Iterator[Entry]:
        """Entries that may make room in a tier by a step, in the order in which they were used."""
        seen = set()
        for count in (_FEW, None):
            with self.lock:
                self._make_sound()
                oldest = list(itertools.islice(self._sorted(step, tier), count))
            for entry in oldest:
                if entry not in seen:
                    seen.add(entry)
                    yield entry

    # Sums and queues -----------------------------------------------------------------------------------------------

    def _make_sound(self) -> None:
        """Note everything anew if a change was interrupted."""
        if self._sound:
            return
        self._sums = dict.fromkeys((DEVICE, HOST, DISK), 0)
        self._queues: dict[tuple[str, str], OrderedDict[Entry, None]] = {key: OrderedDict() for key in APPLIES}
        self._unsorted: set[tuple[str, str]] = set()
        for entry in self.entries.values():
            self._count(entry, 1)
            self._queue(entry)
        self._sound = True

    def _count(self, entry: Entry, sign: int) -> None:
        for tier, nbytes in entry.nbytes_by_tier().items():
            self._sums[tier] += sign * nbytes

    def _queue(self, entry: Entry) -> None:
        for (step, tier), applies in APPLIES.items():
            queue = self._queues[step, tier]
            if step in entry.refused or not applies(entry):
                queue.pop(entry, None)
            elif entry not in queue:
                if queue and next(reversed(queue)).used > entry.used:
                    self._unsorted.add((step, tier))
                queue[entry] = None

    def _take_out(self, entry: Entry) -> None:
        self._count(entry, -1)
        for queue in self._queues.values():
            queue.pop(entry, None)

    def _sorted(self, step: str, tier: str) -> Iterable[Entry]:
        if (step, tier) in self._unsorted:
            by_use = sorted(self._queues[step, tier], key=lambda entry: entry.used)
            self._queues[step, tier] = OrderedDict.fromkeys(by_use)
            self._unsorted.discard((step, tier))
        return self._queues[step, tier]
