"""Files that are whole or not there, and large buffers to and from them.

Large buffers go by KvikIO, in parallel, where it is installed, else as files always are. KvikIO uses GPUDirect Storage
where the system has it. Whatever it cannot do is done the plain way, whose errors are the built-in ones: nothing
depends on it but speed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from functools import cache
from io import BufferedIOBase, BufferedWriter
from typing import Any

import numpy as np
import numpy.typing as npt

#: Buffers of fewer bytes go the plain way.
LARGE = 16 << 20


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BufferedWriter]:
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
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:  # it names the new file, or none
            raise OSError(error.errno, error.strerror, os.fsdecode(path)) from None
        raise
    _sync_folder(os.path.dirname(target))


def _stat_of_file(target: str) -> os.stat_result | None:
    """What the system knows of a regular file, None where there is none; OSError for anything else."""
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file, and would be replaced by one", target)
    return found


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


@cache
def kvikio() -> Any:
    """The KvikIO module; None where it is not installed or does not find the driver's libraries."""
    try:
        import kvikio
    except Exception:  # its shared libraries raise errors of their own kinds
        return None
    return kvikio


def _opened(path: str | None, flags: str) -> Any:
    library = None if path is None else kvikio()
    if library is None:
        return None
    try:
        return library.CuFile(path, flags)
    except Exception:  # a file system that it cannot work on
        return None


class Writer:
    """Write pieces one after another to a file that was just made; they are all written when `finish` returns.

    Pieces must not change until then.
    """

    def __init__(self, file: BufferedWriter, path: str) -> None:
        self._file, self._path = file, path
        self._parallel: Any = None
        self._waiting: list[tuple[Any, int, npt.NDArray[np.uint8]]] = []

    def write(self, piece: Any) -> None:
        """Append a piece."""
        if memoryview(piece).nbytes < LARGE or kvikio() is None:
            self._file.write(piece)
            return
        array = np.frombuffer(piece, np.uint8)
        self._file.flush()
        offset = self._file.tell()
        if self._parallel is None:
            self._parallel = _opened(self._path, "r+") or False
        try:
            future = self._parallel.pwrite(array, file_offset=offset) if self._parallel else None
        except Exception:  # without the driver's library it opens files, but neither reads nor writes them
            future = None
        if future is None:
            self._file.write(piece)
            return
        self._waiting.append((future, offset, array))
        self._file.seek(offset + array.size)

    def finish(self) -> None:
        """Wait for what is under way; what did not arrive whole is written the plain way."""
        try:
            for future, offset, array in self._waiting:
                try:
                    written = future.get()
                except Exception:  # its own kinds of errors; the plain way says what is wrong
                    written = 0
                if written != array.size:
                    self._file.seek(offset)
                    self._file.write(array)
        finally:
            self._waiting.clear()
            if self._parallel:
                self._parallel.close()


class Reader:
    """Read pieces of a file into new arrays, one after another; without a path the file is in memory."""

    def __init__(self, file: BufferedIOBase, path: str | None) -> None:
        self._file, self._path = file, path
        self._parallel: Any = None

    def read(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """The next bytes; fewer only where the file ends."""
        content = np.empty(nbytes, np.uint8)
        if nbytes >= LARGE and self._read_parallel(content):
            return content
        view = memoryview(content)
        got = 0
        while got < nbytes:
            count = self._file.readinto(view[got:])
            if not count:
                break
            got += count
        return content[:got]

    def skip(self, nbytes: int) -> None:
        """Go on so many bytes further, or, if it is negative, back."""
        if nbytes:
            self._file.seek(nbytes, os.SEEK_CUR)

    def _read_parallel(self, content: npt.NDArray[np.uint8]) -> bool:
        if self._parallel is None:
            self._parallel = _opened(self._path, "r") or False
        if not self._parallel:
            return False
        offset = self._file.tell()
        try:
            done = self._parallel.pread(content, file_offset=offset).get() == content.size
        except Exception:  # its own kinds of errors; the plain way says what is wrong
            return False
        if done:
            self._file.seek(offset + content.size)
        return bool(done)

    def close(self) -> None:
        """Let go of what `read` opened."""
        if self._parallel:
            self._parallel.close()
