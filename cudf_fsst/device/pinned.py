"""Pinned host memory for what leaves the GPU: a pool, since pinning is slow (about 3 GB/s), with a limit.

All of it comes from RMM's pinned resource under one pool of RMM's, which is made once and kept. Bytes in use are
counted here, so that the limit can change while there are some. Past the limit memory is pageable: copies are slower
then, and nothing else changes.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

#: With 256 MiB the first `to_host` of a process took 161 ms instead of 10, and one of 500 MB 486 instead of 333.
_INITIAL = 16 << 20
#: What RMM rounds sizes up to.
_ALIGNMENT = 256

_lock = threading.Lock()
_pool: Any = None
_limit: int | None = None
_in_use = 0
# Bytes that were given back. Memory is let go of anywhere, also where this thread holds the lock.
_returned: deque[int] = deque()


class _Claim:
    """Bytes that count as in use as long as this lives."""

    def __init__(self, nbytes: int, returned: deque[int]) -> None:
        self._nbytes, self._returned = nbytes, returned

    def __del__(self) -> None:
        self._returned.append(self._nbytes)


class _Memory:
    """What a numpy array of pinned memory is based on; the memory goes back to the pool with it."""

    def __init__(self, buffer: Any, claim: _Claim) -> None:
        self._buffer, self._claim = buffer, claim
        shape = (int(buffer.size),)
        self.__array_interface__ = {"shape": shape, "typestr": "|u1", "data": (int(buffer.ptr), False), "version": 3}


def _claim(nbytes: int) -> _Claim | None:
    """Count bytes as in use, if the limit allows that."""
    global _in_use
    rounded = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    with _lock:
        if _count() + rounded > _current_limit():
            return None
        _in_use += rounded
        return _Claim(rounded, _returned)


def _count() -> int:
    """Bytes in use; who calls holds the lock."""
    global _in_use
    while _returned:
        _in_use -= _returned.popleft()
    return _in_use


def _resource() -> Any:
    global _pool
    with _lock:
        if _pool is None:
            import rmm.mr

            initial = min(_INITIAL, _current_limit() // _ALIGNMENT * _ALIGNMENT)
            _pool = rmm.mr.PoolMemoryResource(rmm.mr.PinnedHostMemoryResource(), initial_pool_size=initial)
        return _pool


def _current_limit() -> int:
    return _default_limit() if _limit is None else _limit


def _default_limit() -> int:
    """Half of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def set_pinned_limit(nbytes: int | str | None) -> None:
    """Say how much pinned host memory compressed columns and frames may take together.

    Parameters
    ----------
    nbytes : int, str or None
        A number, or a text such as ``"4 GiB"``. None: half of the machine's memory, which is the default. Beyond the
        limit, `to_host` takes pageable memory, to and from which copies are slower. What is in use when the limit
        changes counts on, and is not moved. What was pinned once stays pinned for later use, even if the limit is
        lowered; the pool doubles when it grows, so up to twice what was in use at a time.

    Raises
    ------
    ValueError, TypeError
        A limit that is no size.
    """
    global _limit
    from ..spill.sizes import parse_limit  # needs all of the package

    limit = parse_limit("the limit", nbytes)
    with _lock:
        _limit = limit


def pinned_nbytes() -> int:
    """Bytes of the pool's pinned memory that are in use."""
    with _lock:
        return _count()


def host_buffer(nbytes: int) -> npt.NDArray[np.uint8]:
    """Uninitialised host memory, pinned unless the limit is reached."""
    claim = _claim(nbytes) if nbytes else None
    if claim is None:
        return np.empty(nbytes, np.uint8)
    import rmm

    from .memory import default_stream  # needs CuPy

    _, stream = default_stream()
    try:
        buffer = rmm.DeviceBuffer(size=nbytes, stream=stream, mr=_resource())
    except MemoryError:
        return np.empty(nbytes, np.uint8)
    return np.asarray(_Memory(buffer, claim))
