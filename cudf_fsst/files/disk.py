"""Files that are whole or not there, and where the bytes of files come from: paths, URLs, file objects.

Files of this machine are read and written in threads. From the page cache that is limited by memory alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import secrets
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from io import BufferedWriter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..remote import FileObject, Ranges, Remote, fill, located, send
from ..workers import Promise, TaskGroup

#: Bytes that a thread reads or writes at once.
_JOB_NBYTES = 8 << 20
#: From linux/fs.h.
_SYNC_FILE_RANGE_WRITE = 2
#: Files from so many bytes on are let go of in a thread.
_LARGE = 64 << 20
_freeing = TaskGroup(1)
#: Buffers of `WrittenBehind`, each of `_JOB_NBYTES`, and threads that write them.
_BUFFERS, _WRITERS = 8, 2
#: Pieces that one call of the system writes, at most.
_AT_ONCE = 1024


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[BufferedWriter]:
    """Write a file at once or not at all.

    Hands out a new file in the same folder, which takes the name `path` when the block has ended and all of it is on
    disk. If anything fails before, an older file at `path` stays as it was and the new one is removed. A process that
    is killed may leave the new file, named ``.cudf-fsst-*.tmp``.

    A symbolic link is followed: what it leads to is replaced. An older file's permissions stay, also its owner and
    group where the system lets us set them; while it is being written only its owner may read the new one. Without an
    older file the permissions are those of any new file.

    Parameters
    ----------
    path
        Where to.
    sync
        Wait until it is on disk. Else that is left to the system: a machine that loses its power may lose the file.

    Raises
    ------
    OSError
        The file cannot be written; `path` is a folder or a device, or a link that leads to itself.
    """
    target = os.path.realpath(os.fsdecode(path))
    temporary = os.path.join(os.path.dirname(target), f".cudf-fsst-{secrets.token_hex(8)}.tmp")
    try:
        old = _stat_of_file(target)
        mode = 0o666 if old is None else 0o600
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if old is not None:
                _permit_like(file.fileno(), old)
            if sync:
                os.fsync(file.fileno())
        with _freed_later(target, 0 if old is None else old.st_size):
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:  # it names the new file, or none
            raise OSError(error.errno, error.strerror, os.fsdecode(path)) from None
        raise
    if sync:
        _sync_folder(os.path.dirname(target))


@contextlib.contextmanager
def _freed_later(target: str, nbytes: int) -> Iterator[None]:
    """A large file that is replaced here is let go of in a thread: that takes the system 0.3 s for a GB."""
    descriptor = -1
    if nbytes >= _LARGE:
        with contextlib.suppress(OSError):
            descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield
    finally:
        if descriptor >= 0:
            try:
                _freeing.begin(partial(os.close, descriptor))
            except RuntimeError:  # there is no thread
                os.close(descriptor)


def _stat_of_file(target: str) -> os.stat_result | None:
    """What the system knows of a regular file, None where there is none; OSError for anything else."""
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file, and would be replaced by one", target)
    return status


def _permit_like(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of another; without the group, its members are others."""
    if sys.platform == "win32":
        return
    mode = old.st_mode & 0o777
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except OSError:
                mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _sync_folder(folder: str) -> None:
    """Put the new name on disk too, where the system can: the file is complete either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def writing(target: Any, storage_options: Mapping[str, Any] | None = None, *, sync: bool = True) -> Iterator[Any]:
    """A file to write, which is `target` when the block has ended; if anything fails before, nothing has changed.

    Of a path it is that of `replacing`. What a URL or a file object is to have is written to a temporary file of this
    machine, and sent when it is complete. A connection that breaks meanwhile leaves an older object as it was.

    Parameters
    ----------
    target
        A path, a URL or a file object.
    storage_options
        For URLs, as fsspec takes them.
    sync
        As `replacing` has it.

    Raises
    ------
    OSError
        It cannot be written; the path or the URL is named.
    TypeError
        This is something else.
    """
    location = located(target, storage_options)
    if isinstance(location, (str, bytes, os.PathLike)):
        with replacing(os.fsdecode(location), sync=sync) as file:
            yield file
        return
    if not isinstance(location, Remote) and not hasattr(location, "write"):
        raise TypeError(f"expected a path, a URL or a file object, not {type(target).__name__}")
    with tempfile.NamedTemporaryFile(prefix="cudf-fsst-", suffix=".tmp") as unsent:
        yield unsent
        unsent.flush()
        send(unsent.name, location)


@contextlib.contextmanager
def folder_of(target: Any) -> Iterator[str]:
    """A new folder, whose files are in the folder `target` when the block has ended, each of them complete.

    Parameters
    ----------
    target
        A path or a `Remote`. What is there stays.

    Raises
    ------
    OSError
        They cannot be written.
    """
    if isinstance(target, Remote):
        with tempfile.TemporaryDirectory(prefix="cudf-fsst-") as folder:
            yield folder
            _send_folder(folder, target)
        return
    name = os.path.realpath(os.fsdecode(target))
    os.makedirs(name, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".cudf-fsst-", suffix=".tmp", dir=name) as folder:
        yield folder
        for relative in _files_below(folder):
            path = os.path.join(name, relative)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(os.path.join(folder, relative), path)


def _files_below(folder: str) -> list[str]:
    """Files of a folder and of those in it, by their paths from there."""
    paths = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in paths)


def _send_folder(folder: str, target: Remote) -> None:
    """Send all files of a folder; if one does not arrive, those before it are removed."""
    sent: list[Remote] = []
    try:
        for relative in _files_below(folder):
            sent.append(target.sibling("/".join([target.path.rstrip("/"), *relative.split(os.sep)])))
            sent[-1].put(os.path.join(folder, relative))
    except BaseException:
        for arrived in sent:
            with contextlib.suppress(Exception):
                arrived.remove()
        raise


# lineitem of scale factor 10, 1.53 GB, from an H200 to an ext4, 16 cores: 0.79 s. One write and fsync took 1.50. What
# the disk takes is 0.77: as many bytes past the cache, into reserved blocks. A save past the cache, in pieces that 2 to
# 16 threads copied together, took 0.80 to 1.31, and the next load 1.2 instead of 0.12. Blocks that are reserved before,
# runs of 8 or 32 MiB, 2 or 8 writers: nothing, or less. Since then parts are written while others still leave the GPU:
# the first write begins after 10 to 14 ms instead of 36, and two saves took 0.74 and 0.75.
def write_at(descriptor: int, place: int, pieces: Sequence[Any]) -> None:
    """Write pieces one after another, from a place in a file on, and have the disk begin with them."""
    left = [view for piece in pieces if (view := memoryview(piece).cast("B")).nbytes]
    at = place
    while left:
        written = os.pwritev(descriptor, left[:_AT_ONCE], at)
        at += written
        done = 0
        while done < len(left) and written >= left[done].nbytes:
            written -= left[done].nbytes
            done += 1
        del left[:done]
        if written:
            left[0] = left[0][written:]
    if (begin := _sync_file_range()) is not None:
        begin(descriptor, place, at - place, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Any:
    """The system's function that has the disk begin with bytes of a file, and does not wait; None without one."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):  # no Linux
        return None
    function.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    return function


class WrittenBehind(io.RawIOBase):
    """A file that threads write, while who gives the bytes makes the next ones; use it as a context.

    Bytes are copied before `write` returns, into at most 64 MiB. An error is kept, what is given after it is dropped,
    and `check` raises it: callers in C++ take no exception of Python's, not even an interrupt.

    Parameters
    ----------
    file
        A file of this machine that was just made. It stays open.
    """

    def __init__(self, file: Any) -> None:
        super().__init__()
        file.flush()
        self._descriptor = file.fileno()
        self._group = TaskGroup(_WRITERS)
        self._under_way: deque[Promise[npt.NDArray[np.uint8]]] = deque()
        self._buffer = np.empty(_JOB_NBYTES, np.uint8)
        self._filled = self._at = 0
        self._error: BaseException | None = None

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """How many bytes `write` was given."""
        return self._at

    def write(self, piece: Any) -> int:
        """Take bytes, to be written by threads; returns how many there were."""
        given = np.asarray(memoryview(piece).cast("B"))
        try:
            left = given if self._error is None else given[:0]
            while left.size:
                taken = left[: self._buffer.size - self._filled]
                self._buffer[self._filled : self._filled + taken.size] = taken
                self._filled += taken.size
                left = left[taken.size :]
                if self._filled == self._buffer.size:
                    self._send(self._at + given.size - left.size)
        except BaseException as error:  # raised by `check`
            self._error = error
        self._at += given.size
        return given.size

    def _send(self, end: int) -> None:
        """Have the buffer written, whose last byte lies before `end` in the file, and take another one."""
        buffer, start, filled = self._buffer, end - self._filled, self._filled

        def put() -> npt.NDArray[np.uint8]:
            at = 0
            while at < filled:
                at += os.pwrite(self._descriptor, memoryview(buffer)[at:filled], start + at)
            return buffer

        self._under_way.append(Promise(self._group, put))
        self._filled = 0
        full = len(self._under_way) >= _BUFFERS
        self._buffer = self._under_way.popleft().result() if full else np.empty(_JOB_NBYTES, np.uint8)

    def check(self) -> None:
        """Raise the error of a write that failed."""
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Wait until the system has all bytes.

        Raises
        ------
        OSError
            They could not be written.
        """
        self.check()
        if self._filled:
            self._send(self._at)
        while self._under_way:
            self._under_way.popleft().result()

    def close(self) -> None:
        """Drop what was not written yet. No thread has the file after this."""
        self._group.close()
        self._under_way.clear()
        super().close()


class Source(Protocol):
    """What a stored file's bytes come from."""

    @property
    def name(self) -> str | None:
        """What errors call it; None: nothing."""

    @property
    def size(self) -> int:
        """How many bytes it has."""

    @property
    def is_far(self) -> bool:
        """Whether it takes long to ask for something, so that much is asked for at once."""

    def fill(self, targets: Sequence[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Read into arrays, each from a place on.

        Raises
        ------
        ValueError
            It ends before.
        OSError
            It cannot be read.
        """


class _Disk:
    """A file of this machine."""

    is_far = False

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self.name, self.size = descriptor, name, os.fstat(descriptor).st_size

    def fill(self, targets: Sequence[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Read into arrays."""
        for start, array in targets:
            view, at = memoryview(array), 0
            while at < view.nbytes:
                count = os.preadv(self._descriptor, [view[at : at + _JOB_NBYTES]], start + at)
                if not count:
                    raise ValueError("the file ends inside it")
                at += count


class _FileInMemory:
    """The bytes of a file."""

    is_far, name = False, None

    def __init__(self, content: Any) -> None:
        self._content = np.frombuffer(content, np.uint8)
        self.size = self._content.size

    def fill(self, targets: Sequence[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Copy into arrays."""
        for start, array in targets:
            array[:] = self._content[start : start + array.size]


class _Elsewhere:
    """A URL or a file object."""

    is_far = True

    def __init__(self, ranges: Ranges) -> None:
        self._ranges, self.name, self.size = ranges, ranges.name, ranges.size

    def fill(self, targets: Sequence[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Read into arrays."""
        fill(self._ranges, targets)


@contextlib.contextmanager
def source_of(target: Any, storage_options: Mapping[str, Any] | None = None) -> Iterator[Source]:
    """A stored file to read, of a path, a URL, a file object or bytes in a BytesIO.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is no regular file.
    TypeError
        This is something else.
    """
    location = located(target, storage_options)
    if isinstance(location, io.BytesIO):
        with location.getbuffer() as content:
            memory = _FileInMemory(content)
            try:
                yield memory
            finally:
                del memory._content
        return
    if not isinstance(location, (str, bytes, os.PathLike)):
        if not isinstance(location, Remote) and not hasattr(location, "read"):
            raise TypeError(f"expected a path, a URL or a file object, not {type(target).__name__}")
        yield _Elsewhere(location if isinstance(location, Remote) else FileObject(location))
        return
    name = os.fsdecode(location)
    # Looked at before it is opened: opening a pipe would wait for its writer.
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ValueError(f"{name}: not a cudf_fsst file: not a regular file")
    descriptor = os.open(name, os.O_RDONLY)
    try:
        yield _Disk(descriptor, name)
    finally:
        os.close(descriptor)
