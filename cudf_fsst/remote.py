"""Files that are no files of this machine: URLs, through fsspec, and file objects.

Both are read in ranges, and no more of them than is wanted. What a file system or a connection raises becomes an
OSError that has the URL.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from .workers import dropped

#: First and last byte, exclusive.
Range = tuple[int, int]
#: How pandas tells URLs from paths.
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+\-.]*(::[A-Za-z0-9+\-.]+)*://")
#: Ranges with fewer bytes between them are one: asking once more takes longer.
_NEAR = 64 << 10
#: Bytes that are asked for at once, so that several connections share a large range.
_PART = 16 << 20
#: Bytes that are in memory twice, at most, while a thread copies them to where they are to be.
_BATCH = 64 << 20
#: Bytes at the end that are kept: the footers of most Parquet files.
_TAIL = 64 << 10
#: File systems of objects that are there as a whole or not at all.
_ATOMIC = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2", "memory", "http", "https"}

#: File systems that one thread at a time may ask.
_turns: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
#: Seconds after which a thread that waits looks whether somebody waits for it.
_LOOKED_UP = 0.2


class Ranges(Protocol):
    """A source of bytes that is read in ranges."""

    @property
    def name(self) -> str:
        """Its name in errors."""

    @property
    def size(self) -> int:
        """Its bytes."""

    def read(self, ranges: Sequence[Range]) -> list[Any]:
        """The bytes of ranges, which lie within it.

        Raises
        ------
        OSError
            They cannot be read, all of them.
        """


def is_url(name: Any) -> bool:
    """Whether a text is a URL, as pandas tells them from paths."""
    return isinstance(name, str) and _URL.match(name) is not None


def is_file_object(value: Any) -> bool:
    """Whether something is read or written as files are."""
    return hasattr(value, "read") or hasattr(value, "write")


def located(target: Any, storage_options: Mapping[str, Any] | None = None) -> Any:
    """A URL as a `Remote`, a path with its ``~`` expanded as pandas does it, a file object as it is.

    Raises
    ------
    ValueError
        No file system has such URLs; or `storage_options` and this is no URL.
    ImportError
        fsspec, or what it needs for these URLs, is missing.
    """
    if not is_url(target):
        if storage_options:
            raise ValueError(f"storage_options are for URLs, not for {_shown(target)}")
        return os.path.expanduser(target) if isinstance(target, (str, bytes, os.PathLike)) else target
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(
            f"{target}: URLs need fsspec ({error}); in a clone of cudf-fsst: pip install '.[remote]'", name="fsspec"
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(target, **(storage_options or {}))
    except ImportError as error:
        raise ImportError(f"{target}: {error}; in a clone of cudf-fsst: pip install '.[remote]'") from error
    except ValueError as error:
        raise ValueError(f"{target}: {error}") from error
    if system.protocol in ("file", "local") or "file" in system.protocol:
        return path
    return Remote(system, path, target)


def _ranges_of(system: Any, *ranges: Any) -> list[Any]:
    """The results of ``cat_ranges`` of a file system: for each range bytes, or an error.

    Most file systems have one connection or file, and mix up two threads that ask. Those of fsspec's that are
    asynchronous are made for it, unless they hand on to another one. They need not be waited for by who is interrupted.
    """
    import asyncio

    from fsspec.asyn import AsyncFileSystem

    if not isinstance(system, AsyncFileSystem) or hasattr(system, "fs"):
        with _turns.setdefault(system, threading.Lock()):
            return list(system.cat_ranges(*ranges, on_error="return"))
    future = asyncio.run_coroutine_threadsafe(system._cat_ranges(*ranges, on_error="return"), system.loop)
    try:
        while not wait([future], _LOOKED_UP).done:
            if dropped():
                raise InterruptedError("nobody waits for it")
        return list(future.result())
    finally:
        future.cancel()


def _shown(target: Any) -> str:
    if isinstance(target, (str, bytes, os.PathLike)):
        return f"the path {os.fsdecode(target)!r}"
    return f"a {type(target).__name__}"


@contextmanager
def _of(url: str) -> Iterator[None]:
    """Errors of a file system, of whatever kind, are OSErrors with the URL."""
    try:
        yield
    except (MemoryError, IsADirectoryError):
        raise
    except FileNotFoundError as error:
        why = error.__cause__  # fsspec says so too where no server answers
        if isinstance(why, OSError) and not isinstance(why, FileNotFoundError):
            raise OSError(f"{url}: {type(why).__name__}: {why}") from error
        raise FileNotFoundError(f"{url}: no such file or folder") from error
    except PermissionError as error:
        raise PermissionError(f"{url}: {error}") from error
    except Exception as error:
        raise OSError(f"{url}: {type(error).__name__}: {error}") from error


class Remote:
    """A file of one of fsspec's file systems.

    Parameters
    ----------
    system : fsspec.AbstractFileSystem
    path : str
        Within it.
    url : str
        Its name in errors.
    """

    def __init__(self, system: Any, path: str, url: str) -> None:
        self.system, self.path, self.name = system, path, url
        self._size: int | None = None
        #: The last bytes, or all of a file that cannot be read in ranges; and where they begin.
        self._cached: tuple[int, bytes] | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        if self._size is None:
            with _of(self.name):
                info = self.system.info(self.path)
                if info["type"] == "directory":
                    raise IsADirectoryError(f"{self.name}: a folder")
                nbytes = info.get("size")
                if nbytes is None:  # a server that does not tell sends all
                    self._cached = 0, self.system.cat_file(self.path)
                    nbytes = len(self._cached[1])
            self._size = int(nbytes)
        return self._size

    def read(self, ranges: Sequence[Range]) -> list[Any]:
        """The bytes of ranges."""
        if self._cached is None and ranges and max(stop for _, stop in ranges) > self.size - _TAIL:
            begin = max(self.size - _TAIL, 0)
            tail = b"".join(self._fetch([(begin, self.size)]))
            self._cached = self._cached or (begin, tail)  # else all has come
        begin, cached = self._cached or (self.size, b"")
        missing = [(start, min(stop, begin)) for start, stop in ranges if start < begin]
        fetched = iter(self._fetch(missing))
        return [
            cached[start - begin : stop - begin]
            if start >= begin
            else next(fetched) + (cached[: stop - begin] if stop > begin else b"")
            for start, stop in ranges
        ]

    def _fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of ranges, asked for together."""
        if not ranges:
            return []
        joined = joined_ranges(ranges)
        parts = [(a, min(a + _PART, stop)) for start, stop in joined for a in range(start, stop, _PART)]
        with _of(self.name):
            starts, stops = zip(*parts, strict=True) if parts else ((), ())
            answers = _ranges_of(self.system, [self.path] * len(parts), list(starts), list(stops))
            pieces: dict[int, bytes] = {}
            for (start, stop), answer in zip(parts, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                if len(answer) == self.size and stop - start != self.size:  # the server knows no ranges
                    self._cached, answer = (0, answer), answer[start:stop]
                if len(answer) != stop - start:
                    raise OSError(f"{len(answer)} bytes came of {stop - start} from byte {start} on")
                pieces[start] = answer
        whole = {start: b"".join(pieces[a] for a in range(start, stop, _PART)) for start, stop in joined}
        contents = []
        for start, stop in ranges:
            first = max((begin for begin in whole if begin <= start), default=start)
            contents.append(whole[first][start - first : stop - first] if stop > start else b"")
        return contents

    def put(self, path: str) -> None:
        """Make the file of one of this machine; if anything fails, an older one stays as it was."""
        kind = self.system.protocol
        protocols = {kind} if isinstance(kind, str) else set(kind)
        with _of(self.name):
            if protocols & _ATOMIC:
                self.system.put_file(path, self.path)
                return
            folder, _, name = self.path.rpartition("/")
            unfinished = f"{folder}/.cudf-fsst-{secrets.token_hex(8)}.tmp" if name else self.path
            try:
                self.system.put_file(path, unfinished)
                self.system.mv(unfinished, self.path)
            except BaseException:
                with suppress(Exception):
                    self.system.rm_file(unfinished)
                raise

    def check_file(self) -> None:
        """Raise FileNotFoundError where there is nothing, IsADirectoryError where there is a folder."""
        _ = self.size

    def remove(self) -> None:
        """Remove the file."""
        with _of(self.name):
            self.system.rm_file(self.path)

    def matches(self) -> list[Remote]:
        """Files whose names have the pattern that this is, in the order of their names."""
        with _of(self.name):
            return [self.sibling(path) for path in sorted(self.system.glob(self.path))]

    def sibling(self, path: str) -> Remote:
        """Another file of the file system."""
        return Remote(self.system, path, self.system.unstrip_protocol(path))


def joined_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Ranges with those near each other joined, ascending; none is empty."""
    joined: list[Range] = []
    for start, stop in sorted(pair for pair in ranges if pair[0] < pair[1]):
        if joined and start - joined[-1][1] <= _NEAR:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


class FileObject:
    """What is read as a file from its beginning, and stays open.

    Parameters
    ----------
    file : file object
        Of bytes. What cannot be read at any place is read as a whole.

    Raises
    ------
    TypeError
        Its ``read`` gives texts.
    """

    def __init__(self, file: Any) -> None:
        if not hasattr(file, "read"):
            raise TypeError(f"a {type(file).__name__} has no read()")
        if isinstance(file, io.TextIOBase) or not isinstance(file.read(0), (bytes, bytearray, memoryview)):
            raise TypeError(f"a {type(file).__name__} that is open for text, not for bytes")
        seekable = getattr(file, "seekable", None)
        self._file = file if seekable is None or seekable() else io.BytesIO(file.read())
        self._lock = threading.Lock()
        name = getattr(file, "name", None)
        self.name = os.fsdecode(name) if isinstance(name, (str, bytes)) else f"a {type(file).__name__}"
        self.size: int = self._file.seek(0, os.SEEK_END)

    def read(self, ranges: Sequence[Range]) -> list[Any]:
        """The bytes of ranges."""
        contents = []
        for start, stop in ranges:
            with self._lock:
                self._file.seek(start)
                content = self._file.read(stop - start)
                while len(content) < stop - start:
                    more = self._file.read(stop - start - len(content))
                    if not more:
                        raise OSError(f"{self.name}: {len(content)} bytes came of {stop - start} from byte {start} on")
                    content += more
            contents.append(content)
        return contents


def fill(source: Ranges, targets: Sequence[tuple[int, Any]]) -> None:
    """Read into arrays of bytes, each from a place on."""
    batch: list[tuple[int, Any]] = []
    nbytes = 0
    for start, array in targets:
        for at in range(0, array.size, _BATCH):
            part = array[at : at + _BATCH]
            if batch and nbytes + part.size > _BATCH:
                _fill(source, batch)
                batch, nbytes = [], 0
            batch.append((start + at, part))
            nbytes += part.size
    if batch:
        _fill(source, batch)


def _fill(source: Ranges, targets: Sequence[tuple[int, Any]]) -> None:
    contents = source.read([(start, start + array.size) for start, array in targets])
    for (_, array), content in zip(targets, contents, strict=True):
        array[:] = np.frombuffer(content, np.uint8)


class RangeFile(io.RawIOBase):
    """Ranges as a file object that is read, for libraries that want one.

    Parameters
    ----------
    source : Ranges
    known : mapping of int to bytes
        What has been read already, by the place where it begins.
    """

    def __init__(self, source: Ranges, known: Mapping[int, Any] | None = None) -> None:
        super().__init__()
        self._source, self._at, self._known = source, 0, known or {}

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._source.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; fewer where the file ends."""
        end = self._source.size if size is None or size < 0 else min(self._at + size, self._source.size)
        start = self._at
        if start >= end:
            return b""
        self._at = end
        for begin, content in self._known.items():
            if begin <= start and end <= begin + len(content):
                return bytes(content[start - begin : end - begin])
        (content,) = self._source.read([(start, end)])
        return bytes(content)

    def readall(self) -> bytes:
        """The rest."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; how many bytes came."""
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)


def send(path: str, target: Remote | Any) -> None:
    """Put what a file of this machine holds where a URL says, or into a file object from where it stands on."""
    if isinstance(target, Remote):
        target.put(path)
        return
    with open(path, "rb") as file:
        _copy(file, target)


def _copy(file: BinaryIO, target: Any) -> None:
    """Write the bytes of a file; what takes some of them at a time says how many, as raw files do."""
    raw = isinstance(target, io.RawIOBase)
    while content := file.read(_PART):
        left: Any = content
        while left:
            written = target.write(left)
            if raw and not written:
                raise BlockingIOError(f"a {type(target).__name__} takes no more bytes now")
            # Others may say nothing, or something else.
            partly = raw or (isinstance(written, int) and 0 < written < len(left))
            left = memoryview(left)[written if partly else len(left) :]
