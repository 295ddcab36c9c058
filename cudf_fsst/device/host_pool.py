"""A pool of pinned host memory: ranges of what `pin` gave, best fit first, neighbours joined when given back.

The pool grows by what is asked for, not by its own size: pinning is slow, and what is pinned too much is waited for.
RMM's pool doubles. It would also order what is given back by streams; here nothing is given back while the GPU uses it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any

from .pages import Pages, pin

#: What sizes are rounded up to.
ALIGNMENT = 256
# For small buffers it grows by so much, by less at first: a first call waits for it.
_FIRST, _GROWTH = 4 << 20, 32 << 20
# From here on it grows by exactly what is missing.
_LARGE = 8 << 20


def rounded(nbytes: int) -> int:
    """Bytes that a buffer takes of the pool."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class HostPool:
    """Ranges of pinned memory. Not for several threads at once.

    After an interrupt, or any other error, it is to be put right by `restore`.

    Attributes
    ----------
    nbytes : int
        Bytes that are pinned.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._pages: list[Pages] = []
        self._taken = self._peak = 0
        self._free: list[Any] = []  # (bytes, address, where it lies), in order
        self._starts: dict[int, tuple[int, int, Pages]] = {}
        self._ends: dict[int, tuple[int, int, Pages]] = {}

    def take(self, sizes: Sequence[int], limit: int) -> list[tuple[int, Pages] | None]:
        """Addresses of ranges of these sizes, and what they lie in, which is to be kept with them.

        None where the system gives no more. If the pool must grow, it grows once for all of them.

        Parameters
        ----------
        sizes : sequence of int
            Multiples of `ALIGNMENT`.
        limit : int
            Bytes to be pinned at most, if what is free can be given back to the system for that.
        """
        ranges = [self._fit(size) for size in sizes]
        missing = sum(size for size, fitted in zip(sizes, ranges, strict=True) if fitted is None)
        self._peak = max(self._peak, self._taken + missing)
        if missing:
            try:
                self._grow(missing, limit)
            except MemoryError:
                return ranges
            ranges = [fitted or self._fit(size) for size, fitted in zip(sizes, ranges, strict=True)]
        return ranges

    def give(self, address: int, pages: Pages, nbytes: int) -> None:
        """Take a range back."""
        self._taken -= nbytes
        before, after = self._ends.get(address), self._starts.get(address + nbytes)
        # Others may lie beside, but nothing can be copied across what was registered by itself.
        if before is not None and before[2] is pages:
            self._drop(before)
            address, nbytes = before[1], nbytes + before[0]
        if after is not None and after[2] is pages:
            self._drop(after)
            nbytes += after[0]
        self._add((nbytes, address, pages))

    def restore(self, taken: Iterable[tuple[int, Pages, int]]) -> None:
        """Find out anew what is free: all but these ranges, each as `give` takes it."""
        self.nbytes = self._taken = 0
        self._free, self._starts, self._ends = [], {}, {}
        within: dict[int, list[tuple[int, int]]] = {id(pages): [] for pages in self._pages}
        for address, pages, nbytes in taken:
            within[id(pages)].append((address, nbytes))
            self._taken += nbytes
        for pages in self._pages:
            self.nbytes += pages.nbytes
            begin = pages.address
            for address, nbytes in [*sorted(within[id(pages)]), (pages.address + pages.nbytes, 0)]:
                if address > begin:
                    self._add((address - begin, begin, pages))
                begin = address + nbytes

    def _fit(self, nbytes: int) -> tuple[int, Pages] | None:
        """The smallest free range that holds so much, if there is one."""
        place = bisect_left(self._free, (nbytes,))
        if place == len(self._free):
            return None
        free = self._free[place]
        self._drop(free)
        free_nbytes, address, pages = free
        if free_nbytes > nbytes:
            self._add((free_nbytes - nbytes, address + nbytes, pages))
        self._taken += nbytes
        return address, pages

    def _add(self, free: tuple[int, int, Pages]) -> None:
        insort(self._free, free)
        self._starts[free[1]] = self._ends[free[0] + free[1]] = free

    def _drop(self, free: tuple[int, int, Pages]) -> None:
        del self._free[bisect_left(self._free, free)]
        del self._starts[free[1]], self._ends[free[0] + free[1]]

    def _grow(self, nbytes: int, limit: int) -> None:
        """Pin at least so much."""
        if nbytes < _LARGE:
            nbytes = max(nbytes, min(_GROWTH, max(_FIRST, self.nbytes), limit - self.nbytes))
        self._release(nbytes, min(limit, 2 * self._peak))
        pages = pin(nbytes)
        self._pages.append(pages)
        self.nbytes += pages.nbytes
        self._add((pages.nbytes, pages.address, pages))

    def _release(self, nbytes: int, bound: int) -> None:
        """Give back what is wholly free until `nbytes` more keep to the bound; all of it is too small for them."""
        for size, address, pages in list(self._free):
            if self.nbytes + nbytes <= bound:
                return
            if address == pages.address and size == pages.nbytes:
                self._drop((size, address, pages))
                self.nbytes -= size
                self._pages.remove(pages)
                pages.release()
