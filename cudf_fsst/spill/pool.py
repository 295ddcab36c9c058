"""`SpillPool`: a dict of columns and frames that keeps to limits."""

from __future__ import annotations

import copy
import os
import time
import weakref
from collections.abc import Hashable, Iterator, MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..sizes import format_bytes, parse_bytes, parse_limit
from ..tables import as_html
from ..workers import TaskGroup
from .entry import DEVICE, DISK, HOST, Entry
from .folder import Folder
from .stats import SpillStats, as_text, moves_table
from .tiers import Tiers

#: Values that are brought back in the background at the same time.
_PREFETCHED = 2
#: Lines of the table that ``repr`` shows.
_SHOWN = 20
_NO_DEFAULT = object()


@dataclass(frozen=True, eq=False)
class _Prefetch:
    """A task of `SpillPool.prefetch`, in a thread."""

    pool: SpillPool
    name: Hashable
    future: Future[None]

    def __call__(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.pool._bring(self.name)
        except BaseException as error:  # raised by who asks for the result
            self.future.set_exception(error)
            del self  # it has the error, and that this frame
        else:
            self.future.set_result(None)


class SpillPool(MutableMapping[Hashable, Any]):
    """A dict of Series and DataFrames that gives way when there is no room.

    ``pool[name] = df`` keeps a value. ``pool[name]`` gives it back as it was put: on the device where it came from,
    with its ``attrs`` and flags, and compressed only if it was put compressed.

    Parameters
    ----------
    device_limit : int or str, optional
        Bytes of GPU memory for all entries, such as ``"4 GiB"``. None is no limit. It counts what the pool keeps, on
        all GPUs together. It does not count what a move needs while it lasts.
    host_limit : int or str, optional
        Bytes of host memory for all entries, in the same way.
    directory : path, optional
        Where the pool makes a folder of its own for files. The directory itself is made where there is none, if there
        is the one that it is in. The folder is removed by `close`, when the pool is no longer
        used, or when Python ends. If the process is killed, the next pool in the same directory on the same host
        removes it. None means that nothing goes to disk.

    Raises
    ------
    ValueError, TypeError
        A limit is no size.
    FileNotFoundError
        `directory` is in a directory that there is not.
    OSError
        The folder cannot be made.

    Notes
    -----
    *What moves first.* The least recently used entry. Data on a GPU is compressed in place, then moves to pinned host
    memory, then to disk. pandas data is compressed in host memory, then moves to disk. All entries on the GPU are
    compressed before one leaves it.

    *What does not move.* Values that compression would change stay in memory: pandas data of a subclass, and objects
    with missing values other than None.

    *What is kept.* A snapshot: later changes to `df`, or to what ``pool[name]`` gave, do not reach the pool. Memory
    that someone else still holds is not freed. A value that was read keeps its other form while there is room, so it
    can leave again without a new move.

    *Threads and processes.* Threads may share a pool. A forked process may not: all but `repr` raises RuntimeError
    there, and `close` does nothing. A pool is neither copied nor pickled.
    """

    def __init__(
        self,
        *,
        device_limit: int | str | None = None,
        host_limit: int | str | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        limits = parse_limit("device_limit", device_limit), parse_limit("host_limit", host_limit)
        folder = None if directory is None else Folder(directory)
        self._finalizer = None if folder is None else weakref.finalize(self, folder.remove)
        self._owner = os.getpid()
        self._of_owner = Tiers(*limits, None if folder is None else folder.path)
        self._discarded: dict[Entry, None] = {}  # entries that were replaced, until all their forms are dropped
        self._prefetching = TaskGroup(_PREFETCHED)
        self._dropped: list[_Prefetch] = []  # of these, what will not be done, until who waits is told
        self._closed = False

    @property
    def _tiers(self) -> Tiers:
        """The entries. Of a forked process they are not: a lock that a thread held then would be held for ever."""
        self._check_owner()
        return self._of_owner

    def _check_owner(self) -> None:
        if not self._is_owner():
            raise RuntimeError(
                f"this SpillPool belongs to process {self._owner}, which made it, and cannot be used in process "
                f"{os.getpid()}, which was forked from that; make a pool here, or get the values from there"
            )

    def _is_owner(self) -> bool:
        return os.getpid() == self._owner

    # As a dict -----------------------------------------------------------------------------------------------------

    def __setitem__(self, name: Hashable, value: Any) -> None:
        """Keep a value.

        Parameters
        ----------
        name : hashable
            Anything that a dict takes.
        value : Series, DataFrame, CompressedColumn or CompressedFrame
            Of pandas or cuDF.

        Raises
        ------
        TypeError
            The value is something else. Or only this value could move, and it would come back changed: it is of a
            subclass, has objects that would change, or has a name or an index that a file cannot give back. The message
            says which.
        MemoryError
            There is no room and no directory, or a move found no memory. The message names the entry.
        OSError
            A file cannot be written, because the disk is full, for example.

        Notes
        -----
        After an error the pool has what it had under this name before.
        """
        entry = Entry(name, value, self._tiers)
        del value
        old: Entry | None = None
        try:
            with self._tiers.lock:
                self._check_open()
                old = self._tiers.put(name, entry)
            self._tiers.settle(entry, strict=True)
        except BaseException:
            with self._tiers.lock:
                if self._tiers.entries.get(name) is entry:
                    if old is not None and not old.dead:
                        self._tiers.put(name, old)
                    else:
                        self._tiers.remove(name)
                elif old is not None:  # another thread has put or removed something since
                    self._discarded[old] = None
                self._discarded[entry] = None
            self._clear_discarded()
            raise
        if old is not None:
            with self._tiers.lock:
                self._discarded[old] = None
            self._clear_discarded()

    def __getitem__(self, name: Hashable) -> Any:
        """Give a value back as it was put, on the device where it came from.

        Raises
        ------
        KeyError
            There is no value of this name.
        ValueError
            The pool is closed, or the value's file is damaged.
        OSError
            The value's file cannot be read. FileNotFoundError says that it is gone.
        MemoryError
            There is no memory to bring the value back. The entry stays as it was.

        Notes
        -----
        The value counts as used, and room is made for it. Reading does not fail because something else cannot move out
        of its way. The limits may then be passed, or the value not kept where it was brought to.

        The value is complete, whichever thread brought it here. Threads may have default streams of their own
        (``CUDF_PER_THREAD_STREAM=1``). Then a thread has to wait for its work with the value
        (``cupy.cuda.Stream.ptds``) before it lets go of it, because the pool may free it in another thread.
        """
        return self._bring(name)

    def _bring(self, name: Hashable) -> Any:
        while True:
            brought = self._tiers.bring(self._entry(name))
            if brought is not None:
                return brought[0]

    def _entry(self, name: Hashable) -> Entry:
        with self._tiers.lock:
            self._check_open()
            entry = self._tiers.entries[name]
            self._tiers.touch(entry)
            return entry

    def __delitem__(self, name: Hashable) -> None:
        with self._tiers.lock:
            self._check_open()
            self._discarded[self._tiers.remove(name)] = None
        self._clear_discarded()

    def pop(self, name: Hashable, default: Any = _NO_DEFAULT) -> Any:
        """Remove a value and return it. Where there is none, return the default, or raise KeyError without one."""
        while True:
            try:
                entry = self._entry(name)
            except KeyError:
                if default is _NO_DEFAULT:
                    raise
                return default
            found = self._tiers.bring(entry, keep=False)
            with self._tiers.lock:
                if found is None or self._tiers.entries.get(name) is not entry:
                    continue  # another thread put one
                self._discarded[self._tiers.remove(name)] = None
            self._clear_discarded()
            return found[0]

    def clear(self) -> None:
        """Remove all values."""
        with self._tiers.lock:
            self._check_open()
            self._discarded.update(dict.fromkeys(self._tiers.remove_all()))
        self._clear_discarded()

    def __contains__(self, name: object) -> bool:
        return name in self._tiers.entries

    def __len__(self) -> int:
        return len(self._tiers.entries)

    def __iter__(self) -> Iterator[Hashable]:
        with self._tiers.lock:
            return iter(list(self._tiers.entries))

    # Two pools are equal if they are the same, as two open files are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _clear_discarded(self) -> None:
        """Drop what has left the pool; what an interruption leaves of it goes the next time."""
        while True:
            with self._tiers.lock:
                if not self._discarded:
                    return
                entry = next(reversed(self._discarded))
            entry.discard()
            with self._tiers.lock:
                self._discarded.pop(entry, None)

    # What a dict cannot do -----------------------------------------------------------------------------------------

    def prefetch(self, name: Hashable) -> Future[None]:
        """Bring a value back in a background thread, so that ``pool[name]`` finds it at hand.

        Returns
        -------
        concurrent.futures.Future
            It is done when all of the value is there. Its exception, if any, is what ``pool[name]`` would raise.

        Raises
        ------
        KeyError
            There is no value of this name.
        RuntimeError
            There is no thread, and none can be started.
        """
        future: Future[None] = Future()
        with self._tiers.lock:
            self._check_open()
            self._tiers.entries[name]
            self._prefetching.begin(_Prefetch(self, name, future))
        return future

    def make_room(self, nbytes: int | str, *, device: str | None = None, compress: bool = True) -> int:
        """Free GPU memory now. `spilling` calls it when RMM has none left.

        An entry that another thread works with, or that cannot move, stays where it is.

        Parameters
        ----------
        nbytes : int or str
            Bytes to free. Less may be freed, down to none.
        device : str, optional
            The GPU, such as ``"cuda:0"``. None is any.
        compress : bool
            Whether uncompressed entries may leave too. They are compressed on the way, which takes GPU memory.

        Returns
        -------
        int
            Bytes that were freed.
        """
        return self._tiers.make_room(parse_bytes("nbytes", nbytes), device, compress=compress)

    def where(self, name: Hashable) -> str:
        """Where a value lies: ``"cuda:0"`` or ``"host"``, either with ``", compressed"`` behind it, or ``"disk"``."""
        with self._tiers.lock:
            self._check_open()
            return self._tiers.entries[name].where

    @property
    def device_nbytes(self) -> int:
        """Bytes of GPU memory that the pool keeps."""
        return self._tiers.nbytes(DEVICE)

    @property
    def host_nbytes(self) -> int:
        """Bytes of host memory that the pool keeps."""
        return self._tiers.nbytes(HOST)

    @property
    def disk_nbytes(self) -> int:
        """Bytes of the pool's files."""
        return self._tiers.nbytes(DISK)

    @property
    def stats(self) -> SpillStats:
        """What the pool did since it was made."""
        counters = self._tiers.counters
        with counters.lock:
            return copy.deepcopy(counters.stats)

    # Its end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of all values and remove the files. The pool cannot be used afterwards.

        A file that cannot be removed is no error: the log names it. In a forked process nothing happens.
        """
        if not self._is_owner():
            return
        with self._tiers.lock:
            self._closed = True
            self._dropped.extend(self._prefetching.items)
            self._discarded.update(dict.fromkeys(self._tiers.remove_all()))
        self._prefetching.close()
        while self._dropped:
            self._dropped[-1].future.cancel()
            self._dropped.pop()
        self._clear_discarded()
        if self._finalizer is not None:
            self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        self._check_owner()
        return self._closed

    def _check_open(self) -> None:
        self._check_owner()
        if self._closed:
            raise ValueError("this SpillPool is closed")

    def __enter__(self) -> SpillPool:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a SpillPool cannot be copied or pickled: its files are its own; hand its values over instead")

    # Its looks -----------------------------------------------------------------------------------------------------

    def _summary(self) -> str:
        parts = []
        for tier, label in ((DEVICE, "GPU"), (HOST, "host")):
            limit = self._tiers.limits[tier]
            of = "" if limit is None else f" of {format_bytes(limit)}"
            parts.append(f"{label} {format_bytes(self._tiers.nbytes(tier))}{of}")
        parts.append(f"disk {format_bytes(self.disk_nbytes)}" if self._tiers.folder else "no directory")
        stats = self.stats
        reads = f"{stats.hits:,} hits, {stats.misses:,} misses" + (f", {stats.failed:,} failed" if stats.failed else "")
        closed = "closed; " if self._closed else ""
        return f"SpillPool: {closed}{len(self)} entries; {', '.join(parts)}; {reads}"

    def _entries_table(self) -> list[list[str]]:
        lines = [["name", "where", "size", "compressed", "ratio", "used"]]
        now = time.monotonic()
        entries = self._tiers.all()
        for entry in entries[:_SHOWN]:
            packed = entry.compressed_nbytes
            small = ["-", "-"] if packed is None else [format_bytes(packed), f"{entry.nbytes / max(packed, 1):.2f}"]
            used = f"{now - entry.used_at:.1f} s ago"
            lines.append([repr(entry.name), entry.where, format_bytes(entry.nbytes), *small, used])
        if len(entries) > _SHOWN:
            lines.append([f"... {len(entries) - _SHOWN:,} more", "", "", "", "", ""])
        return lines

    def _tables(self) -> list[list[list[str]]]:
        return [table for table in (self._entries_table(), moves_table(self.stats)) if len(table) > 1]

    def __repr__(self) -> str:
        if not self._is_owner():  # a traceback or a log may ask for it
            return f"SpillPool of process {self._owner}, from which this one was forked"
        lines = [self._summary()]
        for table in self._tables():
            lines += ["", *("  " + line for line in as_text(table))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if not self._is_owner():
            return repr(self)
        captions = iter([self._summary(), "moves"])
        tables = self._tables() or [[["empty"]]]
        return "".join(as_html(next(captions), table) for table in tables)

    def _ipython_key_completions_(self) -> list[Hashable]:
        return list(self)
