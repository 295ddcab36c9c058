"""One value of a pool: the forms it is kept in, and the moves that make one of another.

A form is added when it is complete and dropped when another is there, each in one assignment. So whatever fails, at
whatever point, the value is as it was. What its pool notes of it (`Books`) is made of the forms and follows them.

A form is kept until its room is needed, though it may not be the only one: a value that was read from the host and not
touched leaves the GPU again without a move.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from ..interop import cudf as interop_cudf
from . import held
from .folder import discard
from .stats import MOVES, SpillStats

#: Forms: uncompressed; compressed in GPU memory, in host memory, in a file. The first that is there says where it lies.
PLAIN, DEVICE, HOST, DISK = FORMS = ("plain", "device", "host", "disk")


class Form(NamedTuple):
    """A value as it lies somewhere; on disk, a `SpillFile`."""

    value: Any
    nbytes: int


class SpillFile(NamedTuple):
    """The file that a value was written to, and its first bytes, which have checksums of all that follows."""

    path: str
    head: bytes


class Counters:
    """`SpillStats` that several threads count in, and the clock and the file names they share."""

    def __init__(self) -> None:
        self.stats = SpillStats()
        self.lock = threading.Lock()
        self.ticks = itertools.count()
        self._files = itertools.count()
        self._token = secrets.token_hex(8)

    def file_name(self) -> str:
        """A name that no file has had, of this pool or another."""
        return f"{self._token}-{next(self._files):08d}.fsst"

    def add(self, **counts: int) -> None:
        """Add to the plain numbers."""
        with self.lock:
            for name, count in counts.items():
                setattr(self.stats, name, getattr(self.stats, name) + count)

    def moved(self, move: str, nbytes: int, seconds: float) -> None:
        """Count a completed move."""
        with self.lock:
            moves = self.stats.moves[move]
            moves.count += 1
            moves.nbytes += nbytes
            moves.seconds += seconds


class Notes(Protocol):
    """What is noted of a pool's entries: `books.Books`, as entries see them."""

    counters: Counters
    lock: threading.Lock

    def changing(self, entry: Entry) -> AbstractContextManager[None]:
        """Change forms of an entry within the block."""

    def doubt(self) -> None:
        """An entry was changed without the lock."""


class Entry:
    """A value of a pool; `books` are told of its changes, whether they list it or not.

    All but the properties is called by whoever holds `lock`. Who holds one entry's lock never waits for another's.
    """

    def __init__(self, name: Any, value: Any, books: Notes) -> None:
        value, self.proxied = interop_cudf.unwrap_proxy(value)
        #: Whether it was put compressed, and comes back so.
        self.packed = held.is_compressed(value)
        if not self.packed:
            held.check(name, value)
        #: Whether a compressed value gives cudf.pandas proxies.
        self._gives_proxies = self.packed and getattr(value, "_proxied", False)
        self.name = name
        self.home = held.device_of(value)
        held.hand_over(self.home)
        #: Bytes as the user has it.
        self.nbytes = held.nbytes_of(value)
        self.lock = threading.Lock()
        #: Bytes that are being brought to a tier, by tier.
        self.pending: dict[str, int] = {}
        #: Steps that failed in a way that would fail again.
        self.refused: set[str] = set()
        #: Steps whose failure the log tells.
        self.told: set[str] = set()
        self.dead = False
        self._books, self._counters = books, books.counters
        value = held.snapshot(value)
        self._extras = held.extras(value)
        self.forms: dict[str, Form] = {self.top: Form(value, self.nbytes)}
        self.touch()

    # Seen from outside ---------------------------------------------------------------------------------------------

    @property
    def top(self) -> str:
        """The form that the user gets."""
        if not self.packed:
            return PLAIN
        return self.packed_at_home

    @property
    def packed_at_home(self) -> str:
        """The compressed form that lies where the value came from."""
        return HOST if self.home == "cpu" else DEVICE

    def tier(self, form: str) -> str:
        """Where a form lies: DEVICE, HOST or DISK."""
        return self.packed_at_home if form == PLAIN else form

    def nbytes_by_tier(self) -> dict[str, int]:
        """Bytes in the tiers where there are any, those included that are on their way there."""
        nbytes = dict(self.pending)
        for form_name, form in dict(self.forms).items():
            tier = self.tier(form_name)
            nbytes[tier] = nbytes.get(tier, 0) + form.nbytes
        return nbytes

    def nbytes_in(self, tier: str) -> int:
        """Bytes in a tier, those included that are on their way to it."""
        return self.nbytes_by_tier().get(tier, 0)

    @property
    def compressed_nbytes(self) -> int | None:
        """Bytes of its compressed forms, where there is one."""
        forms = dict(self.forms)
        return next((forms[form_name].nbytes for form_name in (DEVICE, HOST, DISK) if form_name in forms), None)

    @property
    def where(self) -> str:
        """Its place, in words."""
        forms = dict(self.forms)
        best = next((form_name for form_name in FORMS if form_name in forms), DISK)
        if best == DISK:
            return "disk"
        tier = "host" if self.tier(best) == HOST else self.home
        return tier if best == PLAIN else f"{tier}, compressed"

    def touch(self) -> None:
        """Note that it was used now."""
        self.used = next(self._counters.ticks)
        self.used_at = time.monotonic()

    # Forms ---------------------------------------------------------------------------------------------------------

    def has(self, *forms: str) -> bool:
        """Whether it has one of these forms."""
        return any(form in self.forms for form in forms)

    def _add(self, form_name: str, form: Form) -> None:
        with self._books.lock, self._books.changing(self):
            self.forms[form_name] = form

    def drop(self, *forms: str) -> None:
        """Drop forms; another is there."""
        dropped = []  # memory is freed when the books have been let go of
        with self._books.lock, self._books.changing(self):
            for form in forms:
                dropped.append(self.forms.pop(form, None))

    def refuse(self, step: str) -> None:
        """A step failed in a way that would fail again."""
        with self._books.lock, self._books.changing(self):
            self.refused.add(step)

    def discard(self) -> None:
        """Drop everything: the entry has left its pool."""
        with self.lock:
            self.dead = True
            if DISK in self.forms:
                discard(self.forms[DISK].value.path)
            self.forms.clear()

    @contextmanager
    def reserved(self, tier: str, nbytes: int) -> Iterator[None]:
        """Count bytes as there while they are brought there."""
        try:
            with self._books.lock, self._books.changing(self):
                self.pending[tier] = nbytes
            yield
        finally:
            try:
                with self._books.lock, self._books.changing(self):
                    self.pending.pop(tier, None)
            finally:
                if tier in self.pending:  # that was interrupted
                    self.pending.pop(tier, None)
                    self._books.doubt()

    # Moves ---------------------------------------------------------------------------------------------------------

    def _move(self, move: str, nbytes: int, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            with held.on_device(self.home):
                result = work()
            held.hand_over(self.home)
        except Exception as error:  # counted and named, then raised again, whatever it is
            self._counters.add(failed=1)
            what = f"{self.name!r}, {MOVES[move]}"
            if not isinstance(error, held.NAMED):
                error.add_note(what)
                raise
            # No variable holds the new error: its frames would hold it, and it them, and so what was being moved.
            raise held.named(error, what) from error
        self._counters.moved(move, nbytes, time.perf_counter() - started)
        return result

    def compress(self) -> Form:
        """The uncompressed form compressed where it lies; takes its place, unless that saves nothing."""
        plain = self.forms[PLAIN]
        packed = self._move("compress", plain.nbytes, lambda: held.compress(plain.value))
        form = Form(packed, held.nbytes_of(packed))
        if form.nbytes < plain.nbytes:
            self._add(self.packed_at_home, form)
            self.drop(PLAIN)
        else:
            self.refuse("shrink")
        return form

    def to_host(self, packed: Form) -> None:
        """Add the form in host memory."""
        moved = self._move("to_host", packed.nbytes, packed.value.to_host)
        self._add(HOST, Form(moved, packed.nbytes))

    def save(self, packed: Form, folder: str) -> None:
        """Add the form on disk."""
        path = os.path.join(folder, self._counters.file_name())

        def work() -> SpillFile:
            if self.packed:
                held.check_file(packed.value)
            packed.value.save(path)
            return SpillFile(path, held.head(path))

        try:
            file = self._move("save", packed.nbytes, work)
            self._add(DISK, Form(file, os.path.getsize(path)))
        except BaseException:
            self.drop(DISK)
            discard(path)
            raise

    def bring(self, *, keep: bool) -> Any:
        """The value as it was put; `keep` adds it to the forms."""
        if self.top in self.forms:
            return self.forms[self.top].value
        with self.reserved(self.tier(self.top), self.nbytes if keep else 0):
            value = self._packed_home()
            if not self.packed:
                packed = value
                value = self._move("decompress", self.nbytes, lambda: held.decompress(packed, self._extras))
            if keep:
                self._add(self.top, Form(held.snapshot(value), self.nbytes))
        return value

    def _packed_home(self) -> Any:
        """The compressed form where the value came from, on a GPU or the host; it is brought there if need be."""
        if self.packed_at_home in self.forms:
            return self.forms[self.packed_at_home].value
        if HOST in self.forms:
            packed, nbytes = self.forms[HOST]
        else:
            file, nbytes = self.forms[DISK]
            packed = self._move("load", nbytes, lambda: self._load(file))
        if self.home == "cpu":
            return packed
        moved = self._move("to_device", nbytes, packed.to_device)
        return held.proxied(moved, self._gives_proxies)

    @staticmethod
    def _load(file: SpillFile) -> Any:
        if held.head(file.path) != file.head:
            raise ValueError(f"{file.path}: not the file that was written for this entry")
        return held.load(file.path)

    def out(self, value: Any) -> Any:
        """A value as the user gets it."""
        value = held.snapshot(value)
        return interop_cudf.wrap_proxy(value) if self.proxied and not self.packed else value
