"""Limits, and who gives way when one is passed."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..sizes import format_bytes
from . import held
from .books import APPLIES, Books
from .entry import DEVICE, DISK, HOST, PLAIN, Entry

logger = logging.getLogger(__name__)

_LIMITS = {DEVICE: "device_limit", HOST: "host_limit"}


class _NoRoom(Exception):
    """Nothing failed; there is no place to move to."""


@dataclass
class Trouble:
    """Why there is not enough room: an entry that another thread is at work with, and the first error."""

    busy: Entry | None = None
    error: Exception | None = None


class Step(NamedTuple):
    """Something that makes room: `work` is done with each of `entries` that `applies`, until there is enough."""

    name: str
    applies: Callable[[Entry], bool]
    work: Callable[[Entry], None]
    entries: Iterable[Entry]


class Tiers(Books):
    """The entries of a pool, and the room they may take.

    The least recently used gives way first: it is compressed where it lies; when all are, moved to host memory, from
    there to disk. The one that is being put or read comes last.

    An entry that another thread is at work with is passed over, so that no thread holds one and waits for another; that
    thread looks after the limits when it is done.
    """

    def __init__(self, device_limit: int | None, host_limit: int | None, folder: str | None) -> None:
        super().__init__()
        self.limits = {DEVICE: device_limit, HOST: host_limit}
        self.folder = folder

    def fits(self, tier: str, extra: int = 0) -> bool:
        """Whether a tier is within its limit, with some more bytes in it."""
        limit = self.limits[tier]
        return limit is None or self.nbytes(tier) + extra <= limit

    # Reading -------------------------------------------------------------------------------------------------------

    def bring(self, entry: Entry, *, keep: bool = True) -> tuple[Any] | None:
        """The entry's value in a tuple, or None if it has left the pool meanwhile."""
        tier = entry.tier(entry.top)
        limit = self.limits[tier]
        keep = keep and (limit is None or entry.nbytes <= limit)
        if keep and not entry.has(entry.top) and limit is not None:
            self._make_ready(entry, tier)
        with entry.lock:
            if entry.dead:
                return None
            hit = entry.has(entry.top)
            value = entry.bring(keep=keep)
        self.counters.add(**{"hits" if hit else "misses": 1})
        if not hit:
            self.settle(entry, strict=False)
        return (entry.out(value),)

    def _make_ready(self, entry: Entry, tier: str) -> None:
        """Make room for an entry that comes back; where that fails it comes back all the same, but is not kept."""
        source = dict(entry.forms).get(entry.packed_at_home)
        extra = entry.nbytes - (0 if source is None else source.nbytes)  # the source gives way to the value
        self._sweep(tier, self._steps(tier, skip=entry), lambda _: self.fits(tier, extra))

    # Limits --------------------------------------------------------------------------------------------------------

    def settle(self, entry: Entry, *, strict: bool) -> None:
        """Bring the tiers within their limits; `entry` was put or read just now.

        Parameters
        ----------
        entry
            It gives way last.
        strict
            Raise what kept entries from moving. Otherwise only `SpillStats.failed` and the log tell: what was read can
            always give way by itself, since it lies elsewhere too.

        Raises
        ------
        MemoryError
            There is no room, and no directory.
        """
        for tier in (DEVICE, HOST):
            self._settle_tier(tier, entry, strict)

    def _settle_tier(self, tier: str, entry: Entry, strict: bool) -> None:
        trouble = Trouble()
        while True:
            # Compressed forms that it has beside the value go before others have to leave the tier.
            twice = Step("twice", lambda entry: entry.has(PLAIN) and entry.has(tier), self._drop_source, [entry])
            *first, leave = self._steps(tier, skip=entry)
            steps = [*first, twice, leave, *self._steps(tier, only=entry)]
            try:
                if self._sweep(tier, steps, lambda _: self.fits(tier), trouble) or not strict:
                    return
                if trouble.busy is None:
                    if trouble.error is None and entry.nbytes_in(tier) == 0:
                        return  # what is too much came meanwhile; the thread that brought it looks after it
                    raise trouble.error or self._no_room(entry)
            finally:
                trouble.error = None  # it holds the frames it went through, and those hold `trouble`
            with trouble.busy.lock:  # nothing is held here, so waiting for it is safe
                trouble.busy = None

    def _no_room(self, entry: Entry) -> MemoryError:
        limits = [f"{_LIMITS[tier]} {format_bytes(limit)}" for tier, limit in self.limits.items() if limit is not None]
        how = "the pool has no directory" if self.folder is None else "nothing can move"
        return MemoryError(f"{entry.name!r}: {format_bytes(entry.nbytes)} do not fit {' and '.join(limits)}, and {how}")

    def make_room(self, nbytes: int, device: str | None, *, compress: bool) -> int:
        """Free `nbytes` of GPU memory, or as many as can be without waiting. Returns how many were freed."""
        entries = sorted(self.all(), key=lambda entry: entry.used)
        steps = [
            Step("drop", self._has_copy, self._drop_copy, entries),
            Step("leave", lambda entry: entry.has(DEVICE), self._leave_device, entries),
        ]
        if compress:
            steps += self._steps(DEVICE)
        if device is not None:
            steps = [step._replace(entries=(entry for entry in step.entries if entry.home == device)) for step in steps]
        freed = 0

        def enough(more: int) -> bool:
            nonlocal freed
            freed += more
            return freed >= nbytes

        self._sweep(DEVICE, steps, enough)
        return freed

    def _sweep(
        self, tier: str, steps: Iterable[Step], enough: Callable[[int], bool], trouble: Trouble | None = None
    ) -> bool:
        """Go through steps until there is enough room; False if there is not in the end.

        `enough` is told the bytes that were freed since it was asked. An entry that cannot move stays as it is, and the
        next one is tried; the log and `trouble` tell why. That is so for any error, since what moves is the user's, and
        reading one value must not fail because another one does.
        """
        if enough(0):
            return True
        for step in steps:
            for entry in step.entries:
                if step.name in entry.refused or not step.applies(entry):
                    continue
                before, held = 0, list[bool]()
                try:
                    # One step, so that no interrupt comes between the lock and the note of it.
                    held.extend(map(entry.lock.acquire, (False,)))
                    if not held[0]:
                        if trouble is not None:
                            trouble.busy = entry
                        continue
                    before = entry.nbytes_in(tier)
                    if entry.dead or not step.applies(entry):
                        continue
                    step.work(entry)
                except _NoRoom:
                    pass
                except Exception as error:  # this one stays where it is; another may make the room
                    _log(entry, step, error)
                    if not isinstance(error, (OSError, MemoryError)):
                        entry.refuse(step.name)
                    _forget_locals(error)
                    if trouble is not None:
                        trouble.error = trouble.error or error
                finally:
                    try:
                        freed = before - entry.nbytes_in(tier)
                    finally:
                        if True in held:
                            entry.lock.release()
                if freed > 0 and enough(freed):
                    return True
        return False

    def _steps(self, tier: str, *, skip: Entry | None = None, only: Entry | None = None) -> list[Step]:
        """The steps that make room in a tier, at the cost of all entries, all but one, or one."""

        def step(name: str, work: Callable[[Entry], None]) -> Step:
            others = (entry for entry in self.oldest_first(name, tier) if entry is not skip)
            return Step(name, APPLIES[name, tier], work, others if only is None else [only])

        if tier == DEVICE:
            return [step("shrink", self._shrink), step("leave", self._leave_device)]
        return [step("spare", self._drop_spare), step("shrink", self._shrink), step("write", self._leave_host)]

    # Steps ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _has_copy(entry: Entry) -> bool:
        on_device = entry.home != "cpu" and entry.has(PLAIN, DEVICE)
        return on_device and (entry.has(HOST, DISK) or (entry.has(PLAIN) and entry.has(DEVICE)))

    def _drop_copy(self, entry: Entry) -> None:
        """Keep one form on the GPU, or none if another lies elsewhere."""
        self._drop(entry, *([PLAIN, DEVICE] if entry.has(HOST, DISK) else [PLAIN]))

    def _drop_spare(self, entry: Entry) -> None:
        """Drop the form in host memory of an entry that is on the GPU, too."""
        self._drop(entry, HOST)

    def _drop_source(self, entry: Entry) -> None:
        """Drop the compressed form of an entry that is there uncompressed, too."""
        self._drop(entry, entry.packed_at_home)

    def _shrink(self, entry: Entry) -> None:
        """Keep the compressed forms of an entry alone."""
        if entry.has(DEVICE, HOST, DISK):
            self._drop(entry, PLAIN)
        else:
            entry.compress()

    def _leave_device(self, entry: Entry) -> None:
        """Move an entry from the GPU to host memory, or to disk if that is full."""
        if entry.has(HOST, DISK):
            self._drop(entry, PLAIN, DEVICE)
            return
        packed = entry.forms.get(DEVICE) or entry.compress()
        if self._room_in_host(packed.nbytes, entry):
            with entry.reserved(HOST, packed.nbytes):
                entry.to_host(packed)
        elif self.folder is not None:
            entry.save(packed, self.folder)
        else:
            raise _NoRoom
        entry.drop(PLAIN, DEVICE)

    def _leave_host(self, entry: Entry) -> None:
        """Move an entry from host memory to disk."""
        forms = [HOST] if entry.home != "cpu" else [PLAIN, HOST]
        if entry.has(DISK):
            self._drop(entry, *forms)
            return
        if self.folder is None:
            raise _NoRoom
        entry.save(entry.forms.get(HOST) or entry.compress(), self.folder)
        entry.drop(*forms)

    def _room_in_host(self, nbytes: int, entry: Entry) -> bool:
        """Make room for an entry that comes from the GPU."""
        limit = self.limits[HOST]
        if limit is None:
            return True
        if nbytes > limit:
            return False
        return self._sweep(HOST, self._steps(HOST, skip=entry), lambda _: self.fits(HOST, nbytes))

    def _drop(self, entry: Entry, *forms: str) -> None:
        entry.drop(*forms)
        self.counters.add(dropped=1)


def _log(entry: Entry, step: Step, error: Exception) -> None:
    """Say in the log why an entry cannot give way, once for each step; of errors that nobody expects, say where."""
    if step.name in entry.told:
        return
    entry.told.add(step.name)
    told = str(error)
    if not isinstance(error, held.NAMED):
        told = f"{getattr(error, '__notes__', [repr(entry.name)])[-1]}: {type(error).__name__}: {error}"
    if not isinstance(error, held.NAMED) or logger.isEnabledFor(logging.DEBUG):
        # As text: a record with the error would keep what its frames hold for as long as a handler keeps the record.
        told = "\n".join([told, *traceback.format_exception(error)])
    logger.warning("a value stays where it is in its SpillPool: %s", told)


def _forget_locals(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold (buffers, half of a result), but not of where it came from."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        traceback.clear_frames(error.__traceback__)
        seen.append(error)
        error = error.__cause__ or error.__context__
