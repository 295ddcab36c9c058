"""Which rows of a column of text on the host are equal to values, or begin and end with them, in threads.

A codec may find in its codes where a row begins, without decoding them (`cpu_places_kernels.CodeComparer`). The first
codes then refuse most rows. Rows that can be equal by their lengths are looked at, and for beginnings and ends all are.
Where rows have one length, as identifiers do, `cpu_find_kernels` looks at them, or leaves whole tiles out.

Nothing here knows how codes were chosen: a reader takes every way to parse a tile.

Ways that lost. Searching all codes by an automaton took 1.5 to 4 times as long as decoding them (TPC-H l_comment), and
left rows to be looked at. Decoding all of them for a beginning took 1.4 to 1.7 times as long as finding where rows
begin. Looking at each row of a value's length by itself, by its first code, took 3 to 11 times as long as
`cpu_find_kernels` in columns of identifiers of one length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ..part import edges_of
from ..unaligned import address
from ..work import cut, run
from . import cpu_compare_kernels as kernels
from .cpu_places_kernels import MARKS, PLAN_NBYTES, scratch_nbytes
from .cpu_read import SegmentReader
from .cpu_values_kernels import untuned
from .layout import ROW_BLOCK
from .segment import Segment

#: Characters, and row blocks, that a thread looks at together.
_CHUNK_CHARS, _CHUNK_ROW_BLOCKS = 2**22, 1024
#: Characters that a thread decodes at once, at most, unless a value has more.
_ROOM_CHARS = 2**18
#: What it may cost to look for a value's codes in a tile, about, in ns.
_MOST_NS = 60
#: Sizes of values are told apart by a table if they are at most so far from each other.
_SIZES = 2**12


class Values:
    """Values that rows are compared with.

    Attributes
    ----------
    words : tuple of ndarray
        As `Decoder.compare_values` takes values.
    size_groups : ndarray of int16
        Likewise.
    longest : int
        Bytes of the longest one.
    """

    def __init__(self, values: Collection[bytes]) -> None:
        padded = {value: np.frombuffer(value.ljust(-(-len(value) // 8) * 8, b"\0"), "<u8") for value in values}
        ordered = sorted(padded, key=lambda value: (len(value), padded[value].tolist()))
        groups = {size: len(list(of_size)) for size, of_size in groupby(ordered, len)}
        sizes = np.array(list(groups), np.int64)
        self.size_groups = np.zeros(0, np.int16)
        if sizes.size > 1 and sizes[-1] - sizes[0] < _SIZES:
            self.size_groups = np.full(sizes[-1] - sizes[0] + 1, -1, np.int16)
            self.size_groups[sizes - sizes[0]] = np.arange(sizes.size)
        self.words = (
            sizes,
            np.cumsum([0, *groups.values()]),
            np.concatenate([*(padded[value] for value in ordered), np.zeros(1, np.uint64)]),
            np.cumsum([0, *(padded[value].size for value in ordered)]),
        )
        self._firsts = np.zeros(256, np.uint64)
        places = {size: number for number, size in enumerate(sizes.tolist())}
        for value in values:
            self._firsts[value[0] if value else 0] |= np.uint64(1 << places[len(value)] % 64)
        self.longest = int(sizes[-1])
        self._tuned = untuned()
        self._plans: dict[Any, npt.NDArray[np.uint8]] = {}
        self._lock = threading.Lock()

    def compare(self, reader: SegmentReader, first: int, last: int, answers: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Compare the rows of row blocks."""
        reason, where = reader.decoder.compare_values(
            reader.tiles,
            reader.rows,
            reader.table,
            first,
            last,
            self.size_groups,
            self.words,
            self._tuned,
            self._plan(reader),
            self._firsts,
            max(_ROOM_CHARS, min(self.longest, reader.segment.chars)) + 8,
            address(answers),
        )
        return reason, where

    def _plan(self, reader: SegmentReader) -> int:
        """The address of what a single value's codes may be, in segments with a table, or 0; made once for each."""
        size = int(self.words[0][0])
        if self.words[1][-1] > 1 or not 1 < size <= reader.segment.layout.tile_size:
            return 0
        with self._lock:
            table = reader.segment.table
            if table not in self._plans:
                plan = np.zeros(PLAN_NBYTES, np.uint8)
                cost = reader.decoder.plan_value(
                    address(self.words[2]), size, reader.tiles, address(plan), reader.table
                )
                self._plans[table] = plan if cost < _MOST_NS else plan[:0]
            return address(self._plans[table]) if self._plans[table].size else 0


class Edges:
    """A beginning and an end that rows are compared with.

    Parameters
    ----------
    first, last
        Both may be empty.
    least
        Bytes that a row has at least.
    """

    def __init__(self, first: bytes, last: bytes, least: int) -> None:
        self._sizes = len(first), len(last)
        self._bytes = np.frombuffer(first.ljust(len(first) + 8, b"\0") + last.ljust(len(last) + 8, b"\0"), np.uint8)
        self._least = max(least, sum(self._sizes))

    def compare(self, reader: SegmentReader, first: int, last: int, answers: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Compare the rows of row blocks."""
        first_at, (first_nbytes, last_nbytes) = address(self._bytes), self._sizes
        reason, where = reader.decoder.compare_edges(
            reader.tiles,
            reader.rows,
            reader.table,
            first,
            last,
            first_at,
            first_nbytes,
            first_at + first_nbytes + 8,
            last_nbytes,
            self._least,
            np.empty(kernels.GROUP_ROWS + 1, np.int64),
            np.zeros((2, 2 * MARKS), np.uint64),
            _scratch(reader),
            address(answers),
        )
        return reason, where


def _scratch(reader: SegmentReader) -> npt.NDArray[np.uint8]:
    return np.empty(scratch_nbytes(reader.segment.layout.tile_size), np.uint8)


def equal(segments: Sequence[Segment], values: Collection[bytes]) -> npt.NDArray[np.bool_]:
    """Tell of every row whether it is one of some values.

    Parameters
    ----------
    segments
        Host segments.
    values

    Returns
    -------
    ndarray of bool, shape (rows,)
        False for null rows.

    Raises
    ------
    ValueError
        A segment is damaged, as far as was looked at.
    """
    return _compared(segments, Values(values).compare if values else None)


def begin_and_end(segments: Sequence[Segment], first: bytes, last: bytes, least: int) -> npt.NDArray[np.bool_]:
    """Tell of every row whether it begins with a value, ends with another, and has so many bytes and both of them.

    Takes, gives and raises what `equal` does.
    """
    return _compared(segments, Edges(first, last, least).compare)


def _compared(segments: Sequence[Segment], compare: Callable[..., tuple[int, int]] | None) -> npt.NDArray[np.bool_]:
    edges = edges_of(segments)
    answers = np.zeros(int(edges[-1]), np.bool_)
    if compare is None:
        return answers
    work: list[Callable[[], None]] = []
    for segment, base in zip(segments, edges.tolist(), strict=False):
        reader, blocks = SegmentReader(segment), segment.layout.row_blocks
        step = min(max(1, _CHUNK_CHARS * blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            work.append(partial(_compare_blocks, reader, first, last, compare, out))
    run(work, answers.size, sum(segment.chars for segment in segments))
    return answers


def _compare_blocks(reader: SegmentReader, first: int, last: int, compare: Any, answers: npt.NDArray[np.bool_]) -> None:
    """Compare the rows of row blocks `first` to ``last - 1``."""
    reason, where = compare(reader, first, last, answers)
    if reason == kernels.BAD_TILE:
        reader.damaged_tile(where)
    if reason == kernels.BAD_ROWS:
        reader.damaged_rows(where)
    if reader.segment.null_count:
        bits = reader.segment.section("validity")[first * ROW_BLOCK // 8 :]
        answers &= np.unpackbits(bits, count=answers.size, bitorder="little").view(np.bool_)
