"""Pinned host memory for what leaves the GPU: a pool, since pinning is slow, with a limit.

Bytes in use are counted here, so that the limit can change while there are some. Past the limit memory is pageable:
copies are slower then, and nothing else changes.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..sizes import parse_limit
from .host_pool import HostPool, rounded
from .pages import Pages, memory_nbytes

#: Address, what it lies in, bytes.
Range = tuple[int, Pages, int]

_lock = threading.Lock()
_pool = HostPool()
_limit: int | None = None
_in_use = 0
# Ranges in use, by their addresses. An interrupt may leave the pool half changed; then it is made anew of these.
_held: dict[int, Range] = {}
_sound = True
# Ranges that were given back. Memory is let go of anywhere, also where this thread holds the lock.
_returned: deque[Range] = deque()


def _start_anew() -> None:
    """In a forked process: what its parent pinned is the parent's, and arrays that it has may only be read."""
    global _lock, _pool, _in_use, _held, _sound, _returned
    _lock, _pool, _in_use, _held, _sound, _returned = threading.Lock(), HostPool(), 0, {}, True, deque()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


class _PinnedMemory:
    """The base of a numpy array of pinned memory; the memory goes back to the pool with it."""

    __slots__ = ("__array_interface__", "_held", "_range", "_returned")

    def __init__(self, address: int, pages: Pages, nbytes: int) -> None:
        self._range, self._held, self._returned = (address, pages, rounded(nbytes)), _held, _returned
        _held[address] = self._range
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}

    def keep(self, nbytes: int) -> None:
        """Give all but the first bytes back to the pool."""
        address, pages, taken = self._range
        if rounded(nbytes) < taken:
            rest = address + rounded(nbytes), pages, taken - rounded(nbytes)
            self._held[rest[0]] = rest
            self._held[address] = self._range = address, pages, rounded(nbytes)
            self._returned.append(rest)

    def __del__(self) -> None:
        with suppress(AttributeError):  # whoever made it was interrupted
            self._returned.append(self._range)


def _count() -> int:
    """Bytes in use, what was given back in the pool; who calls holds the lock."""
    global _in_use, _sound
    if not _sound:
        _pool.restore(_held.values())
        _in_use = sum(nbytes for _, _, nbytes in _held.values())
    _sound = False
    while _returned:
        given = _returned[0]
        if _held.get(given[0]) is given:  # else that was interrupted when it had been given
            _pool.give(*given)
            _in_use -= given[2]
            del _held[given[0]]
        _returned.popleft()
    _sound = True
    return _in_use


@cache
def _default_limit() -> int:
    """Half of the machine's memory."""
    return memory_nbytes() // 2


def set_pinned_limit(nbytes: int | str | None) -> None:
    """Say how much pinned host memory compressed columns and frames may take together.

    Parameters
    ----------
    nbytes : int, str or None
        Bytes, such as ``4 * 2**30`` or ``"4 GiB"``. None is the default: half of the memory of the machine, or of the
        container if it may use less.

    Raises
    ------
    ValueError, TypeError
        The limit is no size.

    Notes
    -----
    Past the limit, `CompressedColumn.to_host` takes pageable memory, whose copies are slower. What is in use when the
    limit changes is not moved, and counts. What was pinned stays pinned for later use, up to twice what was in use at
    a time.
    """
    global _limit
    limit = parse_limit("the limit", nbytes)
    with _lock:
        _limit = limit


def pinned_nbytes() -> int:
    """Bytes of the pool's pinned memory that are in use."""
    with _lock:
        return _count()


def host_buffer(nbytes: int) -> npt.NDArray[np.uint8]:
    """Uninitialised host memory, pinned unless the limit is reached."""
    return host_buffers((nbytes,))[0]


def host_buffers(sizes: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
    """Uninitialised host memory of these sizes, pinned unless the limit is reached, each to be let go of by itself.

    If the pool must grow, it grows once for all of them.
    """
    global _in_use, _sound
    buffers = []
    with _lock:
        count, limit = _count(), _default_limit() if _limit is None else _limit
        _sound = False
        pinned_sizes = []
        for nbytes in sizes:
            fits = nbytes > 0 and count + rounded(nbytes) <= limit
            count += rounded(nbytes) if fits else 0
            pinned_sizes.append(rounded(nbytes) if fits else 0)
        ranges = iter(_pool.take([size for size in pinned_sizes if size], limit))
        for nbytes, size in zip(sizes, pinned_sizes, strict=True):
            pinned_range = next(ranges) if size else None
            if pinned_range is None:
                buffers.append(np.empty(nbytes, np.uint8))
            else:
                _in_use += size
                buffers.append(np.asarray(_PinnedMemory(*pinned_range, nbytes)))
        _sound = True
    return buffers


def is_pinned(array: npt.NDArray[np.uint8]) -> bool:
    """Whether an array is one of `host_buffers` and lies in the pool."""
    return isinstance(array.base, _PinnedMemory)


def keep(array: npt.NDArray[np.uint8], nbytes: int) -> npt.NDArray[np.uint8]:
    """The first bytes of an array for which `is_pinned` holds; the rest goes back to the pool."""
    base: Any = array.base
    base.keep(max(nbytes, 1))
    return array[:nbytes]
