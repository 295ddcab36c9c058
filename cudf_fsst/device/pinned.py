"""Pinned host memory for what leaves the GPU: a pool, since pinning is slow (about 3 GB/s), with a limit.

Large buffers come from RMM's pinned resource under RMM's pool; small ones from CuPy's pool, which rounds up to powers
of two. Past the limit memory is pageable: copies are slower then, and nothing else changes.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

_SMALL = 1 << 20
_INITIAL = 256 << 20

_lock = threading.Lock()
_pool: Any = None
_limit: int | None = None


class _Memory:
    """What a numpy array of pinned memory is based on; the memory goes back to the pool with it."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        shape = (int(buffer.size),)
        self.__array_interface__ = {"shape": shape, "typestr": "|u1", "data": (int(buffer.ptr), False), "version": 3}


def _resource() -> Any:
    global _pool
    with _lock:
        if _pool is None:
            import rmm.mr

            limit = _default_limit() if _limit is None else _limit
            initial = min(_INITIAL, limit // 256 * 256)  # RMM's alignment
            upstream = rmm.mr.PoolMemoryResource(rmm.mr.PinnedHostMemoryResource(), initial_pool_size=initial)
            _pool = rmm.mr.LimitingResourceAdaptor(upstream, allocation_limit=limit)
        return _pool


def _default_limit() -> int:
    """Half of the machine's memory."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def set_pinned_limit(nbytes: int | str | None) -> None:
    """Say how much pinned host memory compressed columns and frames may take together.

    Parameters
    ----------
    nbytes : int, str or None
        A number, or a text such as ``"4 GiB"``. None: half of the machine's memory, which is the default. What is
        pinned stays pinned; beyond the limit, `to_host` takes pageable memory, to and from which copies are slower.

    Raises
    ------
    ValueError, TypeError
        A limit that is no size.
    """
    global _limit, _pool
    from ..spill.sizes import parse_limit  # needs all of the package

    limit = parse_limit("the limit", nbytes)
    with _lock:
        _limit, _pool = limit, None


def pinned_nbytes() -> int:
    """Bytes of the pool's pinned memory that are in use."""
    pool = _pool  # another thread may change it
    return 0 if pool is None else int(pool.get_allocated_bytes())


def host_buffer(nbytes: int) -> npt.NDArray[np.uint8]:
    """Uninitialised host memory, pinned unless the limit is reached."""
    from .memory import default_stream, pinned  # needs CuPy

    if nbytes < _SMALL:
        return pinned(nbytes, np.uint8)
    import rmm

    _, stream = default_stream()
    try:
        buffer = rmm.DeviceBuffer(size=nbytes, stream=stream, mr=_resource())
    except MemoryError:
        return np.empty(nbytes, np.uint8)
    return np.asarray(_Memory(buffer))
