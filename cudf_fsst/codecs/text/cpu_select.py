"""Chosen rows on the host of which many are neighbours: rows around them are decoded together, and copied from there.

A work item has rows of whole row blocks of a segment, few enough for the cache of a core, and those of the chosen ones
that are among them. `measure` comes first, for all, then `copy`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..chosen import Chosen, shares_of
from ..jit import njit
from ..unaligned import address, copy
from . import cpu_kernels as kernels
from .layout import ROW_BLOCK
from .row_lengths import unpack_ends

#: Characters of a work item, about, and at most.
_ITEM_CHARS = 2**20
_MOST_CHARS = 2**23


class Item(NamedTuple):
    """Rows ``first:last`` of a segment, and which of the chosen rows they have.

    Attributes
    ----------
    reader
        `cpu_read.SegmentReader` of the segment.
    base : int
        Number of its first row in the column.
    chosen : slice
    """

    reader: Any
    base: int
    first: int
    last: int
    chosen: slice

    def _starts(self) -> npt.NDArray[np.int64]:
        """Where rows begin, and the last one ends, in the segment."""
        starts = np.empty(self.last - self.first + 1, np.int64)
        starts[0] = self.reader.row_start(self.first)
        found = unpack_ends(*self.reader.rows, self.first, self.last, 0, address(starts) + 8, 8)
        if found < 0:
            self.reader.damaged_rows(-1 - found)
        return starts

    def measure(self, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
        """Write how many characters chosen rows have."""
        _sizes(self._starts(), rows[self.chosen], self.base + self.first, sizes[self.chosen])

    def copy(self, rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> None:
        """Write the characters of chosen rows, whose offsets are known."""
        starts, reader = self._starts(), self.reader
        begin, end = int(starts[0]), int(starts[-1])
        room, scratch = np.empty(end - begin, np.uint8), reader.scratch()
        to = address(room), address(scratch)
        bad = reader.decoder.decode_chars(*reader.tiles, begin, end, *to, reader.table)
        if bad >= 0:
            reader.damaged_tile(bad)
        starts -= begin
        ends_to = offsets[self.chosen.start : self.chosen.stop + 1]
        kernels.copy_rows(starts, to[0], rows[self.chosen], self.base + self.first, ends_to, address(out))


def items(readers: dict[int, Any], edges: npt.NDArray[np.int64], chosen: Chosen) -> list[Item] | None:
    """Work items of rows that ascend or descend; None where rows are so long that others should share them.

    `readers`: of the segments that have some, by number.
    """
    rows, work = chosen.rows, list[Item]()
    up = rows if chosen.ascending else rows[::-1]
    for number, first, last in shares_of(up, edges):
        reader, base = readers[number], int(edges[number])
        block_chars = reader.segment.section("row_starts").astype(np.int64)
        step = max(_ITEM_CHARS * (block_chars.size - 1) // max(int(block_chars[-1]), 1), 1)
        step = min(step, _ITEM_CHARS // (8 * ROW_BLOCK))
        cuts = np.append(np.arange(0, block_chars.size - 1, step), block_chars.size - 1)
        if (np.diff(block_chars[cuts]) > _MOST_CHARS).any():
            return None
        limits = np.minimum(cuts * ROW_BLOCK, reader.segment.rows)
        ends = (np.searchsorted(up[first:last], limits + base) + first).tolist()
        for a, b, begin, end in zip(ends, ends[1:], limits.tolist(), limits[1:].tolist(), strict=False):
            if a < b:
                outputs = slice(a, b) if up is rows else slice(rows.size - b, rows.size - a)
                work.append(Item(reader, base, begin, end, outputs))
    return work


@njit()
def _sizes(starts: Any, rows: Any, base: int, sizes: Any) -> None:
    for i in range(rows.size):
        row = rows[i] - base
        sizes[i] = starts[row + 1] - starts[row]


def measure_part(strings: HostStrings, first: int, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
    """Write sizes of those of `rows`, in any order, that are among the strings, whose first has the number `first`."""
    _sizes_of_part(strings.offsets, rows, first, sizes)


def copy_part(
    strings: HostStrings,
    first: int,
    rows: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    """Write their characters."""
    _copy_of_part(strings.offsets, address(strings.chars), rows, first, offsets, address(out))


@njit()
def _sizes_of_part(offsets: Any, rows: Any, first: int, sizes: Any) -> None:
    for i in range(rows.size):
        row = rows[i] - first
        if 0 <= row < offsets.size - 1:
            sizes[i] = np.int64(offsets[row + 1]) - np.int64(offsets[row])


@njit()
def _copy_of_part(offsets: Any, chars: int, rows: Any, first: int, to: Any, out: int) -> None:
    for i in range(rows.size):
        row = rows[i] - first
        if 0 <= row < offsets.size - 1:
            copy(out + to[i], chars + np.int64(offsets[row]), to[i + 1] - to[i])
