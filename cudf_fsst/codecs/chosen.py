"""Chosen rows on the host, brought into an order in which nothing is decoded twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import njit

#: Bits of a row number that one pass sorts by.
_BITS = 11


@njit()
def _facts(rows: Any) -> tuple[int, int, bool, bool, bool]:
    """The lowest and the highest row; whether they ascend, descend, and go up by one."""
    lowest = highest = rows[0]
    up = down = steps = True
    for i in range(1, rows.size):
        difference = rows[i] - rows[i - 1]
        up &= difference >= 0
        down &= difference <= 0
        steps &= difference == 1
        lowest = min(lowest, rows[i])
        highest = max(highest, rows[i])
    return lowest, highest, up, down, steps


@njit()
def _pass(rows: Any, places: Any, shift: int, to_rows: Any, to_places: Any, counts: Any) -> None:
    """Sort by the bits from `shift` on for which `counts` has room; of equal ones the first stays first.

    `places` is empty where they are 0, 1, 2, ...; `counts` are zeros, and in the end where each group ends.
    """
    mask = counts.size - 1
    for i in range(rows.size):
        counts[rows[i] >> shift & mask] += 1
    before = 0
    for group in range(counts.size):
        count = counts[group]
        counts[group] = before
        before += count
    for i in range(rows.size):
        group = rows[i] >> shift & mask
        slot = counts[group]
        counts[group] = slot + 1
        to_rows[slot] = rows[i]
        to_places[slot] = i if places.size == 0 else places[i]


class Chosen(NamedTuple):
    """Row numbers in host memory, with facts about them.

    Attributes
    ----------
    rows : ndarray of int64
    lowest, highest : int
        -1 without rows.
    ascending, descending : bool
        No row is smaller, or larger, than the one before it.
    a_range : bool
        Each row follows the one before it; not said of no rows.
    """

    rows: npt.NDArray[np.int64]
    lowest: int
    highest: int
    ascending: bool
    descending: bool
    a_range: bool

    @property
    def order(self) -> int:
        """1: ascending; -1: descending; 0: neither, as `Ordered.order` has it."""
        return 1 if self.ascending else -1 if self.descending else 0

    def sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows in ascending order, and where each of them was; () where it is where it was."""
        rows, places = self.rows, np.empty(0, np.int64)
        if self.ascending:
            return rows, places
        if self.descending:
            return np.ascontiguousarray(rows[::-1]), np.arange(rows.size - 1, -1, -1)
        for shift in range(0, self.highest.bit_length(), _BITS):
            rows, places, _ = _sorted_by(rows, places, shift, _BITS)
        return rows, places

    def grouped(self, shift: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows in groups of ``2**shift`` numbers; where each of them was; where each group ends."""
        return _sorted_by(self.rows, np.empty(0, np.int64), shift, (self.highest >> shift).bit_length())


class Ordered(NamedTuple):
    """Row numbers in GPU memory, or few of them, of which something is known.

    Attributes
    ----------
    rows : cupy.ndarray or numpy.ndarray of int64
    order : int
        1: no row is smaller than the one before it; -1: none is larger; 0: nobody knows.
    """

    rows: Any
    order: int


#: Selected rows: their numbers, numbers with facts about them, or numbers at equal distances, which were checked.
Selected = npt.NDArray[np.int64] | Chosen | range


def row_array(rows: Selected) -> npt.NDArray[np.int64]:
    """The numbers of selected rows, an array of int64."""
    if isinstance(rows, Chosen):
        return rows.rows
    return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64) if isinstance(rows, range) else rows


def chosen(rows: Selected, count: int) -> Chosen:
    """Selected rows of a column of `count`, with facts about them; IndexError where the column has not all of them."""
    if isinstance(rows, Chosen):
        if rows.highest >= count:
            raise IndexError(f"rows {rows.lowest} to {rows.highest} of {count}")
        return rows
    if isinstance(rows, range):
        up, ends = rows.step > 0, (-1, -1) if not rows else (min(rows[0], rows[-1]), max(rows[0], rows[-1]))
        rows_chosen = Chosen(
            row_array(rows), *ends, up or not rows, not up or not rows, rows.step == 1 and len(rows) > 0
        )
        return chosen(rows_chosen, count)
    rows_chosen = summarize(np.ascontiguousarray(rows, np.int64))
    if rows_chosen.rows.size and (rows_chosen.lowest < 0 or rows_chosen.highest >= count):
        raise IndexError(f"rows {rows_chosen.lowest} to {rows_chosen.highest} of {count}")
    return rows_chosen


def summarize(rows: npt.NDArray[np.int64]) -> Chosen:
    """Row numbers, contiguous, with facts about them. Whether a column has such rows is not checked."""
    if rows.size == 0:
        return Chosen(rows, -1, -1, True, True, False)
    lowest, highest, up, down, steps = _facts(rows)
    return Chosen(rows, int(lowest), int(highest), bool(up), bool(down), bool(steps))


def ascending(rows: npt.NDArray[np.int64]) -> Chosen:
    """Rows that are known to ascend, each once, as those of a mask."""
    if rows.size == 0:
        return summarize(rows)
    lowest, highest = int(rows[0]), int(rows[-1])
    return Chosen(rows, lowest, highest, True, rows.size == 1, highest - lowest + 1 == rows.size)


def _sorted_by(
    rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], shift: int, bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    to_rows, to_places, counts = np.empty_like(rows), np.empty_like(rows), np.zeros(1 << bits, np.int64)
    _pass(rows, places, shift, to_rows, to_places, counts)
    return to_rows, to_places, counts


def parts_of(edges: npt.NDArray[np.int64], start: int, stop: int) -> tuple[int, int]:
    """The first and last (exclusive) part that have rows of a range."""
    if start == stop:
        return 0, 0
    return int(np.searchsorted(edges, start, side="right")) - 1, int(np.searchsorted(edges, stop))


def shares_of(rows: npt.NDArray[np.int64], edges: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield, for each part that has some of the ascending rows, its number and the range of those rows."""
    numbers = np.arange(edges.size - 1)
    if rows.size < numbers.size:
        numbers = np.unique(np.searchsorted(edges, rows, side="right") - 1)
    firsts, lasts = np.searchsorted(rows, edges[numbers]), np.searchsorted(rows, edges[numbers + 1])
    for number, first, last in zip(numbers.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        if first < last:
            yield number, first, last
