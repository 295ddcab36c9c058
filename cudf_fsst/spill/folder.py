"""A pool's folder on disk, which is removed with it, or by the next pool there if its process was killed.

A folder lies in the directory that the user named, with the name of its host and the number of its process, and holds a
file that this process keeps locked. The system lets go of the lock when the process ends, however it does: so a folder
of this host whose lock can be had is nobody's.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import socket
import tempfile
from contextlib import suppress
from typing import Any

try:
    import fcntl as _module

    fcntl: Any = _module
except ImportError:  # this system has no such locks: what a killed process leaves, stays
    fcntl = None

logger = logging.getLogger(__name__)

_PREFIX = "cudf-fsst-spill-"
_LOCK = "lock"
#: Descriptors of this process' locks.
_locks: set[int] = set()


class Folder:
    """A folder for the files of one pool.

    Parameters
    ----------
    directory
        Where to make it; it is made itself where there is none, but not the folder that it is in. Folders that
        processes of this host have left there are removed.

    Attributes
    ----------
    path : str
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        where = os.path.abspath(os.fsdecode(directory))
        if not os.path.isdir(where):
            with suppress(FileExistsError):  # another pool has been faster; if it is a file, the next step says so
                os.mkdir(where)
        _clean(where)
        self._owner = os.getpid()
        self._lock: int | None = None
        # It has its own name when it is locked: until then others would take it for left behind.
        fresh = tempfile.mkdtemp(prefix=".cudf-fsst-new-", dir=where)
        try:
            self._lock = _locked(os.path.join(fresh, _LOCK))
            self.path = os.path.join(where, f"{_own_prefix()}{self._owner}-{secrets.token_hex(8)}")
            os.rename(fresh, self.path)
        except BaseException:
            self._unlock()
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Remove it with all that is in it, or log what cannot be removed. A forked process leaves it to its parent."""
        if os.getpid() != self._owner:
            return
        try:
            _remove(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("%s cannot be removed; the next pool in its directory tries again: %s", self.path, error)
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            _locks.discard(lock)
            os.close(lock)


def discard(path: str) -> None:
    """Remove a file that may be gone already; where that is impossible say so in the log, and leave it to the end."""
    error = _unlink(path)
    if error is not None:
        logger.warning("a spilled file cannot be removed now; when its pool is closed this is tried again: %s", error)


def _own_prefix() -> str:
    host = re.sub("[^A-Za-z0-9._-]", "_", socket.gethostname())
    return f"{_PREFIX}{host}-"


def _locked(path: str) -> int | None:
    """A descriptor of a new file that holds its lock; None, and no file, where there are no locks."""
    if fcntl is None:
        return None
    lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    _locks.add(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the file system has none
        _locks.discard(lock)
        os.close(lock)
        os.unlink(path)
        return None
    return lock


def _clean(directory: str) -> None:
    """Remove folders that processes of this host and user have left; nothing here is worth an error."""
    if fcntl is None:
        return
    name = re.compile(re.escape(_own_prefix()) + "[0-9]+-[0-9a-f]+")
    with suppress(OSError):
        for folder in os.listdir(directory):
            if name.fullmatch(folder):
                with suppress(OSError):
                    _remove(os.path.join(directory, folder), if_left=True)
                    logger.info("removed %s in %s, which a process that is gone had left", folder, directory)


def _remove(path: str, *, if_left: bool = False) -> None:
    """Remove a folder; `if_left`: unless its process lives.

    Its lock goes last, so that the folder can be found again if this is interrupted or fails.

    Raises
    ------
    OSError
        It is not ours, or its process lives; or the first of what kept it, and the rest is gone.
    """
    if fcntl is None:
        shutil.rmtree(path)
        return
    # By descriptors, so that nobody can put another folder in its place meanwhile.
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    opened = [folder]
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to somebody else")
        if if_left:
            opened.append(os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder))
            fcntl.flock(opened[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        errors = [error for name in os.listdir(folder) if name != _LOCK and (error := _unlink(name, folder))]
        if errors:
            raise errors[0]
        _unlink(_LOCK, folder)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    os.rmdir(path)


def _unlink(name: str, folder: int | None = None) -> OSError | None:
    """Remove a file that may be gone already; what is in the way."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        return error
    return None


def _close_locks() -> None:
    """A folder is its process' own, and must not seem in use for as long as a forked one lives."""
    for lock in _locks:
        with suppress(OSError):
            os.close(lock)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_locks)
