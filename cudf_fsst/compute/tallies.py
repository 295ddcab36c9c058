"""What is kept of each group while pieces of rows go by, in host memory.

The loops are those of pandas' groupby: the same sums of differences for floats (Kahan), the same moving mean for
variances (Welford), row after row. What they keep is carried from piece to piece, so that the pieces make no difference
to the last digit. A group's number below 0 is that of a row which belongs to none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codecs.jit import njit

#: Columns of floats that are added in one loop, at most.
_TOGETHER = 3


@njit()
def _count(numbers: Any, start: int, sizes: Any, firsts: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        if group >= 0:
            if sizes[group] == 0:
                firsts[group] = start + row
            sizes[group] += 1


@njit()
def _mark(numbers: Any, flags: Any, start: int, counts: Any, firsts: Any, lasts: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        if group >= 0 and flags[row]:
            if counts[group] == 0:
                firsts[group] = start + row
            counts[group] += 1
            lasts[group] = start + row


@njit()
def _add(numbers: Any, values: Any, sums: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        if group >= 0:
            sums[group] += values[row]


@njit()
def _add_floats(numbers: Any, values: Any, sums: Any, lost: Any, counts: Any) -> None:
    """Add a piece to sums of columns: `values`, `sums`, `lost` and `counts` have an array for each column."""
    for row in range(numbers.size):
        group = numbers[row]
        if group >= 0:
            for column in range(len(values)):
                value = values[column][row]
                if value == value:
                    counts[column][group] += 1
                    addend = value - lost[column][group]
                    total = sums[column][group] + addend
                    error = total - sums[column][group] - addend
                    lost[column][group] = error if error == error else 0  # of infinite sums
                    sums[column][group] = total


@njit()
def _vary(numbers: Any, values: Any, means: Any, squares: Any, counts: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        value = values[row]
        if group >= 0 and value == value:
            counts[group] += 1
            before = means[group]
            means[group] += (value - before) / counts[group]
            squares[group] += (value - means[group]) * (value - before)


@njit()
def _least(numbers: Any, values: Any, best: Any, counts: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        value = values[row]
        if group >= 0 and value == value:
            if counts[group] == 0 or value < best[group]:
                best[group] = value
            counts[group] += 1


@njit()
def _greatest(numbers: Any, values: Any, best: Any, counts: Any) -> None:
    for row in range(numbers.size):
        group = numbers[row]
        value = values[row]
        if group >= 0 and value == value:
            if counts[group] == 0 or value > best[group]:
                best[group] = value
            counts[group] += 1


class TalliedRows:
    """How many rows of each group there were, and the first of them."""

    def __init__(self, groups: int) -> None:
        self.sizes, self.firsts = np.zeros(groups, np.int64), np.zeros(groups, np.int64)

    def add(self, numbers: Any, start: int) -> None:
        """Rows from `start` on."""
        _count(numbers, start, self.sizes, self.firsts)


class Marked:
    """How many rows of each group were true, and the first and the last of them."""

    def __init__(self, groups: int) -> None:
        self.counts, self.firsts, self.lasts = (np.zeros(groups, np.int64) for _ in range(3))

    def add(self, numbers: Any, flags: Any, start: int) -> None:
        """Booleans of the rows from `start` on."""
        _mark(numbers, flags, start, self.counts, self.firsts, self.lasts)


class Integers:
    """Sums of integers, modulo 2^64."""

    def __init__(self, groups: int) -> None:
        self.sums = np.zeros(groups, np.int64)

    def add(self, numbers: Any, values: Any) -> None:
        """Integers or booleans."""
        _add(numbers, values.astype(np.int64, copy=False), self.sums)


class Floats:
    """Sums and counts of what is no NaN."""

    def __init__(self, groups: int, dtype: Any) -> None:
        self.sums, self.lost, self.counts = np.zeros(groups, dtype), np.zeros(groups, dtype), np.zeros(groups, np.int64)

    def means(self) -> Any:
        """NaN of groups without values."""
        with np.errstate(invalid="ignore"):
            return self.sums / self.counts.astype(self.sums.dtype)


def adding_floats(
    numbers: Any, columns: Sequence[tuple[Floats, npt.NDArray[Any]]], threads: int
) -> list[Callable[[], None]]:
    """Calls that add rows of columns of numbers.

    An addition waits for the one before it in its group, but not for those of other columns. So few threads add several
    columns together: of three, where rows of a group follow each other, in 0.43 of the time.
    """
    by_layout: dict[Any, list[tuple[Floats, npt.NDArray[Any]]]] = {}
    for tally, values in columns:
        new = values.dtype != tally.sums.dtype
        layout = tally.sums.dtype, new or values.flags.writeable, new or values.flags.c_contiguous
        by_layout.setdefault(layout, []).append((tally, values))
    size = max(min(-(-len(columns) // max(threads // 2, 1)), _TOGETHER), 1)
    return [
        partial(_add_columns, numbers, group[start : start + size])
        for group in by_layout.values()
        for start in range(0, len(group), size)
    ]


def _add_columns(numbers: Any, columns: Sequence[tuple[Floats, npt.NDArray[Any]]]) -> None:
    tallies = [tally for tally, _ in columns]
    values = tuple(values.astype(tally.sums.dtype, copy=False) for tally, values in columns)
    sums, lost, counts = (tuple(getattr(tally, name) for tally in tallies) for name in ("sums", "lost", "counts"))
    _add_floats(numbers, values, sums, lost, counts)


class Spread:
    """Means and sums of squared differences of groups, of which variances are made."""

    def __init__(self, groups: int, dtype: Any) -> None:
        self.means, self.squares = np.zeros(groups, dtype), np.zeros(groups, dtype)
        self.counts = np.zeros(groups, np.int64)

    def add(self, numbers: Any, values: Any) -> None:
        """Add values, each to the group whose number it has."""
        _vary(numbers, values.astype(self.means.dtype, copy=False), self.means, self.squares, self.counts)

    def variances(self) -> Any:
        """Sample variances of the groups (``ddof=1``); NaN where a group has less than two values."""
        with np.errstate(invalid="ignore", divide="ignore"):
            result = self.squares / (self.counts - 1).astype(self.squares.dtype)
        result[self.counts < 2] = np.nan
        return result


class Extremes:
    """The least or the greatest value of each group."""

    def __init__(self, groups: int, dtype: Any, least: bool) -> None:
        self.best, self.counts = np.zeros(groups, dtype), np.zeros(groups, np.int64)
        self._of = _least if least else _greatest

    def add(self, numbers: Any, values: Any) -> None:
        """Numbers of the dtype; NaN is left out."""
        self._of(numbers, values, self.best, self.counts)
