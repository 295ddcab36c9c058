"""Fresh pinned host memory: huge pages, filled in by several threads, then registered with CUDA.

``cudaHostAlloc`` fills in small pages in one thread. 2.5 to 3.2 GB/s were seen of it, and 7.5 of what is done here; 3.5
without huge pages. Where a step is refused (an old kernel, a limit of the container), ``cudaHostAlloc`` remains.

A forked process reads what its parent had there. The kernels that can fill in pages on demand (Linux 5.14) copy pinned
ones when a process forks. Older ones copy a page when one of the two next writes to it, and the GPU may be left with
the other's page.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..workers import map_items

_HUGE_PAGE = 2 << 20
# From linux/mman.h.
_MADV_HUGEPAGE, _MADV_POPULATE_WRITE = 14, 23
# Portable and mapped, of cudaHostRegister and cudaHostAlloc: every GPU may read and write it.
_FLAGS = 1 | 2
#: Threads that fill in pages, and what each has at least to do.
_THREADS, _SHARE = 4, 8 << 20

# Whether pages of our own can be pinned; found out by trying.
_own_pages = True


class Pages:
    """Pinned memory that was taken in one piece; it stays until `release`, or as long as somebody holds this object."""

    _registered = False  # or about to be

    def __init__(self, address: int, nbytes: int, area: Any = None) -> None:
        self.address, self.nbytes = address, nbytes
        self._area = area  # keeps the mapping, of pages of our own
        self._owner = os.getpid()

    def register(self) -> bool:
        """Pin pages of our own; False where that is refused."""
        from cupy.cuda import runtime

        self._registered = True  # no interrupt comes between this and the call
        try:
            runtime.hostRegister(self.address, self.nbytes, _FLAGS)
        except runtime.CUDARuntimeError:
            self._registered = False
        return self._registered

    def release(self) -> None:
        """Give the memory back to the system; nothing uses it any more."""
        from cupy.cuda import runtime

        if self._area is None:
            runtime.freeHost(self.address)
        elif self._registered:
            self._registered = False
            runtime.hostUnregister(self.address)
            self._area = None

    def __del__(self) -> None:
        # Whoever made it was interrupted. What is registered must not become somebody else's memory.
        if self._registered and not sys.is_finalizing() and os.getpid() == self._owner:
            self.release()


def pin(nbytes: int) -> Pages:
    """Pinned memory of at least `nbytes`; MemoryError if there is none."""
    global _own_pages
    from cupy.cuda import runtime

    unit = _HUGE_PAGE if nbytes >= _HUGE_PAGE else mmap.PAGESIZE
    nbytes = -(-nbytes // unit) * unit
    if _own_pages:
        area = _filled_in(nbytes)
        if area is not None:
            pages = Pages(area.ctypes.data, nbytes, area)
            if pages.register():
                return pages
        _own_pages = False
    try:
        return Pages(runtime.hostAlloc(nbytes, _FLAGS), nbytes)
    except runtime.CUDARuntimeError as error:
        raise MemoryError(f"no {nbytes} bytes of pinned memory: {error}") from None


def _filled_in(nbytes: int) -> npt.NDArray[np.uint8] | None:
    """Pages of our own, huge ones where the system has them, that are there and not only promised."""
    try:
        area = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, AttributeError):  # AttributeError: not a Unix
        return None
    mapped = np.frombuffer(area, np.uint8)
    first = -mapped.ctypes.data % _HUGE_PAGE
    pages = mapped[first : first + nbytes]
    address = pages.ctypes.data
    _madvise(address, nbytes, _MADV_HUGEPAGE)  # refused where there are none
    share = max(-(-nbytes // _THREADS), _SHARE)
    share = -(-share // _HUGE_PAGE) * _HUGE_PAGE

    def fill_in(start: int) -> int:
        part = pages[start : start + share]
        return _madvise(part.ctypes.data, part.size, _MADV_POPULATE_WRITE)

    errors = map_items(fill_in, range(0, nbytes, share), _THREADS)
    return None if any(errors) else pages


def _madvise(address: int, nbytes: int, advice: int) -> int:
    """0, or the number of the error."""
    libc = _libc()
    while libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), advice):
        error = ctypes.get_errno()
        if error not in (errno.EINTR, errno.EAGAIN):
            return error
    return 0


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def memory_nbytes() -> int:
    """Bytes of memory of this machine, or of this container if it may use less."""
    nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                nbytes = min(nbytes, int(file.read()))
        except (OSError, ValueError):  # another kind of container, or no limit
            pass
    return int(nbytes)
