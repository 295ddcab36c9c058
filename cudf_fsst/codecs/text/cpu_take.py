"""Segments to strings on the host: chosen rows, by every codec of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..bitmap import bits_at
from ..chosen import Chosen, Selected, chosen, parts_of, shares_of
from ..part import edges_of
from ..unaligned import address
from ..work import cut, run
from . import cpu_kernels as kernels
from . import cpu_read, cpu_select
from .cpu_read import SegmentReader, offset_dtype, read
from .layout import ROW_BLOCK, TILE_BLOCK
from .segment import Segment

#: Chosen rows a thread takes at once.
_CHUNK_ROWS = 2**15
#: Characters of a row from which threads share it.
_LONG_ROW = 2**20
#: Rows in order are taken from all those between, decoded, where they are at least such a part of them.
_DENSE = 0.6
#: So many at least.
_FEW_DENSE = 2**12
#: Bytes of strings that are decoded at once, of rows in no order, if nobody knows that there may be more.
_ROOM_NBYTES = 64 << 20


def take(
    segments: Sequence[Segment],
    rows: Selected,
    *,
    edges: npt.NDArray[np.int64] | None = None,
    scratch_nbytes: int = _ROOM_NBYTES,
) -> HostStrings:
    """Decode rows in any order, repeated or not, and only the tiles they touch, each once.

    Where they touch most, what lies between is decoded, too.

    Parameters
    ----------
    segments
        Host segments.
    rows : ndarray of int64, Chosen or range
        From 0 to the column's rows less 1.
    edges : ndarray of int64
        `edges_of` the segments, if that is at hand.
    scratch_nbytes : int
        Bytes of strings that are decoded at once, of rows in no order.

    Returns
    -------
    HostStrings
        As `read` gives.

    Raises
    ------
    IndexError
        A row is not there.
    ValueError
        A segment is damaged.
    """
    edges = edges_of(segments) if edges is None else edges
    selected = chosen(rows, int(edges[-1]))
    if selected.a_range:
        return read(segments, selected.lowest, selected.highest + 1, edges=edges)
    span = selected.highest - selected.lowest + 1
    if selected.ascending or selected.descending:
        if selected.rows.size >= max(_DENSE * span, _FEW_DENSE):
            readers = {
                number: SegmentReader(segments[number])
                for number in range(*parts_of(edges, selected.lowest, selected.highest + 1))
            }
            items = cpu_select.items(readers, edges, selected)
            if items is not None:
                return _in_order(items, selected.rows)
    else:
        touched = segments[slice(*parts_of(edges, selected.lowest, selected.highest + 1))]
        if sum(segment.layout.tiles for segment in touched) <= selected.rows.size:
            return _from_parts(segments, selected, edges, scratch_nbytes)
    rows, places = selected.sorted()
    count = rows.size
    starts, offsets = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    valid: npt.NDArray[np.bool_] | None = None
    # Which rows, and which offsets if these are in the same order.
    pieces: list[tuple[SegmentReader, int, slice, slice]] = []
    for number, first, last in shares_of(rows, edges):
        reader, base = SegmentReader(segments[number]), int(edges[number])
        for a, b in cut(first, last, _CHUNK_ROWS):
            pieces.append((reader, base, slice(a, b), slice(0, None) if places.size else slice(a, b + 1)))
        if reader.segment.null_count:
            valid = np.ones(count, np.bool_) if valid is None else valid
            to = places[first:last] if places.size else slice(first, last)
            valid[to] = bits_at(reader.segment.section("validity"), rows[first:last] - base)
    longest = run(
        [
            partial(reader.spans, rows[part], base, places[part], starts[part], offsets[1:][to])
            for reader, base, part, to in pieces
        ],
        count,
        0,
    )
    np.cumsum(offsets, out=offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    work: list[Callable[[], Any]] = [
        partial(reader.decode_rows, starts[part], places[part], offsets[to], chars, long=_LONG_ROW)
        for reader, _, part, to in pieces
    ]
    copying: list[Callable[[], Any]] = []
    if max(longest, default=0) >= _LONG_ROW:
        for reader, _, part, to in pieces:
            decoding, copies = _long_rows(reader, starts[part], places[part], offsets[to], chars)
            work += decoding
            copying += copies
    run(work, count, chars.size)
    run(copying, count, chars.size)

    return _strings(chars, offsets, valid)


def _strings(chars: Any, offsets: npt.NDArray[np.int64], valid: npt.NDArray[Any] | None) -> HostStrings:
    """Strings of characters and offsets; `valid`: of each whether it is not null, None: all are."""
    rows = offsets.size - 1
    null_count = 0 if valid is None else rows - int(np.count_nonzero(valid))
    validity = np.packbits(valid, bitorder="little") if valid is not None and null_count else None
    return HostStrings(rows, chars, offsets.astype(offset_dtype(chars.size), copy=False), validity, 0, null_count)


def _in_order(items: Sequence[cpu_select.Item], rows: npt.NDArray[np.int64]) -> HostStrings:
    """Rows that ascend or descend, of work items."""
    count = rows.size
    offsets = np.zeros(count + 1, np.int64)
    run([partial(item.measure, rows, offsets[1:]) for item in items], count, 0)
    np.cumsum(offsets, out=offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    run([partial(item.copy, rows, offsets, chars) for item in items], count, chars.size)
    valid = None
    for item in items:
        if item.reader.segment.null_count:
            valid = np.ones(count, np.bool_) if valid is None else valid
            valid[item.chosen] = bits_at(item.reader.segment.section("validity"), rows[item.chosen] - item.base)
    return _strings(chars, offsets, valid)


def _from_parts(
    segments: Sequence[Segment], selected: Chosen, edges: npt.NDArray[np.int64], scratch_nbytes: int
) -> HostStrings:
    """Rows in no order, of the rows between the lowest and the highest, which are decoded some at a time."""
    first, last = selected.lowest, selected.highest + 1
    numbers = range(*parts_of(edges, first, last))
    nbytes = sum(segments[number].chars + 4 * segments[number].rows for number in numbers)
    if nbytes <= scratch_nbytes:
        return gather(read(segments, first, last, edges=edges), selected.rows, first)
    step = max(scratch_nbytes * (last - first) // nbytes // ROW_BLOCK, 1) * ROW_BLOCK
    parts = [(a, min(a + step, last)) for a in range(first, last, step)]
    rows, count = selected.rows, selected.rows.size
    offsets, valid = np.zeros(count + 1, np.int64), None
    pieces = cut(0, count, _CHUNK_ROWS)
    for start, stop in parts:
        strings = read(segments, start, stop, edges=edges)
        run(
            [partial(cpu_select.measure_part, strings, start, rows[a:b], offsets[1:][a:b]) for a, b in pieces], count, 0
        )
        if strings.validity is not None:
            valid = np.ones(count, np.bool_) if valid is None else valid
            here = np.flatnonzero((rows >= start) & (rows < stop))
            valid[here] = bits_at(strings.validity, rows[here] - start)
        del strings
    np.cumsum(offsets, out=offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    for start, stop in parts:
        strings = read(segments, start, stop, edges=edges)
        work = [partial(cpu_select.copy_part, strings, start, rows[a:b], offsets[a : b + 1], chars) for a, b in pieces]
        run(work, count, chars.size)
        del strings, work
    return _strings(chars, offsets, valid)


def gather(strings: HostStrings, rows: npt.NDArray[np.int64], base: int = 0) -> HostStrings:
    """Rows of strings, the first of which has the number `base`; validity from bit 0."""
    offsets = np.empty(rows.size + 1, np.int64)
    kernels.chosen_offsets(strings.offsets, rows, base, offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    work = [
        partial(_copy_rows, strings, rows[a:b], base, offsets[a : b + 1], chars)
        for a, b in cut(0, rows.size, _CHUNK_ROWS)
    ]
    run(work, rows.size, chars.size)
    return _strings(chars, offsets, None if strings.validity is None else bits_at(strings.validity, rows - base))


def _copy_rows(
    strings: HostStrings, rows: npt.NDArray[np.int64], base: int, offsets: Any, chars: npt.NDArray[np.uint8]
) -> None:
    kernels.copy_rows(strings.offsets, address(strings.chars), rows, base, offsets, address(chars))


def _long_rows(
    reader: SegmentReader, starts: npt.NDArray[np.int64], places: Any, offsets: Any, chars: npt.NDArray[np.uint8]
) -> tuple[list[Callable[[], Any]], list[Callable[[], Any]]]:
    """Calls that decode long rows, cut for threads; and calls that then copy rows which are repeated."""
    decoding: list[Callable[[], Any]] = []
    copying: list[Callable[[], Any]] = []
    places = places if places.size else np.arange(starts.size)
    sizes = offsets[places + 1] - offsets[places]
    before = (-1, -1, -1)
    for row in np.flatnonzero(sizes >= _LONG_ROW):
        start, size, to = int(starts[row]), int(sizes[row]), int(offsets[places[row]])
        if (start, size) == before[:2]:
            copying.append(partial(np.copyto, chars[to : to + size], chars[before[2] :][:size]))
            continue
        before = start, size, to
        for a, b in cut(start, start + size, cpu_read.CHUNK_BLOCKS * TILE_BLOCK * reader.segment.layout.tile_size):
            decoding.append(partial(reader.decode, a, b, chars[to - start + a : to - start + b]))
    return decoding, copying
