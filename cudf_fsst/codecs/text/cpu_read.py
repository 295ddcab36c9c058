"""Segments to strings on the host: whole ranges of rows, by every codec of text.

Decoding checks every code, so damaged codes end in `ValueError`, never in a read or write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..bitmap import put, rebased
from ..chosen import parts_of
from ..part import edges_of
from ..registry import of_text
from ..unaligned import address
from ..work import cut, run
from . import cpu_kernels as kernels
from .layout import ROW_BLOCK, TILE_BLOCK
from .row_lengths import unpack_ends
from .segment import Segment

#: Blocks of tiles a thread takes at once.
CHUNK_BLOCKS = 16
#: Row blocks a thread takes at once.
_CHUNK_ROW_BLOCKS = 256


class SegmentReader:
    """Addresses of a host segment's sections, as the decoding kernels take them."""

    def __init__(self, segment: Segment) -> None:
        layout = segment.layout
        segment.check_buffers()
        self.segment = segment
        meta = address(segment.meta)
        at = {name: meta + section.offset for name, section in layout.sections.items()}
        self.decoder = of_text(segment.codec).host().DECODER
        self.table = self.decoder.addresses(segment.table)
        self.tiles = (
            address(segment.codes),
            segment.codes_nbytes,
            at["block_starts"],
            at["tile_lengths"],
            layout.chars,
            layout.tile_size,
        )
        self.rows = (
            at["row_starts"],
            at["row_minima"],
            at["row_words"],
            at["row_bits"],
            layout.row_bits_words,
            layout.rows,
            layout.chars,
        )

    def scratch(self) -> npt.NDArray[np.uint8]:
        return np.empty(self.segment.layout.tile_size + 64, np.uint8)

    def row_start(self, row: int) -> int:
        """Character of the segment that `row` starts at; for `row` = rows, where the last one ends."""
        if row == self.segment.rows:
            return self.segment.chars
        first = row // ROW_BLOCK * ROW_BLOCK
        if row == first:
            start = int(self.segment.section("row_starts")[row // ROW_BLOCK])
            return start if start <= self.segment.chars else self.damaged_rows(row // ROW_BLOCK)
        end: int = unpack_ends(*self.rows, first, row, 0, 0, 8)
        return end if end >= 0 else self.damaged_rows(-1 - end)

    def unpack(self, first: int, last: int, end: int, shift: int, out: npt.NDArray[Any]) -> None:
        """Write where rows end; `end`: what is known of where the last one does, or -1."""
        if out.size != last - first:
            self.damaged_rows(first // ROW_BLOCK)
        found = unpack_ends(*self.rows, first, last, shift, address(out), out.itemsize)
        if found < 0:
            self.damaged_rows(-1 - found)
        if end >= 0 and found != end:
            self.damaged_rows((last - 1) // ROW_BLOCK)

    def decode(self, first: int, last: int, out: npt.NDArray[np.uint8]) -> None:
        """Write characters `first` to ``last - 1``."""
        if out.size != last - first:
            self.damaged_tile(first // self.segment.layout.tile_size)
        scratch = self.scratch()
        bad = self.decoder.decode_chars(*self.tiles, first, last, address(out), address(scratch), self.table)
        if bad >= 0:
            self.damaged_tile(bad)

    def spans(self, rows: npt.NDArray[np.int64], base: int, places: Any, starts: Any, sizes: Any) -> int:
        """Find starts and sizes of rows (`kernels.row_spans`); the largest size."""
        scratch = np.empty(ROW_BLOCK + 2, np.int64)
        bad = kernels.row_spans(*self.rows, rows, base, places, starts, sizes, scratch)
        return self.damaged_rows(bad) if bad >= 0 else int(scratch[-1])

    def decode_rows(self, starts: Any, places: Any, offsets: Any, out: npt.NDArray[np.uint8], *, long: int) -> None:
        """Decode rows of fewer than `long` bytes (`Decoder.decode_rows`)."""
        scratch = self.scratch()
        to = address(out), address(scratch)
        bad = self.decoder.decode_rows(*self.tiles, starts, places, offsets, long, *to, self.table)
        if bad >= 0:
            self.damaged_tile(bad)

    def damaged_rows(self, block: int) -> int:
        raise ValueError(f"damaged segment: the lengths of row block {block} do not fit its characters")

    def damaged_tile(self, tile: int) -> None:
        raise ValueError(f"damaged segment: the codes of tile {tile} do not decode to its bytes")


def offset_dtype(chars: int) -> type[np.signedinteger[Any]]:
    return np.int32 if chars < 2**31 else np.int64


def read(
    segments: Sequence[Segment],
    start: int = 0,
    stop: int | None = None,
    *,
    edges: npt.NDArray[np.int64] | None = None,
) -> HostStrings:
    """Decode rows `start` to ``stop - 1`` (default: all), and only the tiles they touch.

    Parameters
    ----------
    segments
        Host segments.
    edges : ndarray of int64
        `edges_of` them, if that is at hand.

    Returns
    -------
    HostStrings
        Offsets from 0, int32 where the characters are fewer than 2^31; validity only where there are nulls.

    Raises
    ------
    IndexError
        The rows are not there.
    ValueError
        A segment is damaged.
    """
    edges = edges_of(segments) if edges is None else edges
    total = int(edges[-1])
    stop = total if stop is None else stop
    if not 0 <= start <= stop <= total:
        raise IndexError(f"rows {start} to {stop} of {total}")
    parts = []  # reader, its first and last row, its first and last character
    for number in range(*parts_of(edges, start, stop)):
        reader, before = SegmentReader(segments[number]), int(edges[number])
        first, last = max(start - before, 0), min(stop - before, segments[number].rows)
        parts.append((reader, first, last, reader.row_start(first), reader.row_start(last)))

    chars = np.empty(sum(part[4] - part[3] for part in parts), np.uint8)
    offsets = np.zeros(stop - start + 1, offset_dtype(chars.size))
    work: list[Callable[[], None]] = []
    row, position = 0, 0
    for reader, first, last, first_char, last_char in parts:
        for a, b in cut(first, last, _CHUNK_ROW_BLOCKS * ROW_BLOCK):
            end = last_char if b == last else -1
            to = row - first + 1
            work.append(partial(reader.unpack, a, b, end, position - first_char, offsets[to + a : to + b]))
        for a, b in cut(first_char, last_char, CHUNK_BLOCKS * TILE_BLOCK * reader.segment.layout.tile_size):
            to = position - first_char
            work.append(partial(reader.decode, a, b, chars[to + a : to + b]))
        row += last - first
        position += last_char - first_char
    run(work, stop - start, chars.size)

    bitmap, null_count = _validity([(reader.segment, first, last) for reader, first, last, _, _ in parts])
    return HostStrings(stop - start, chars, offsets, bitmap, 0, null_count)


def row_ends(segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
    """Where every row ends in the characters of all, which are not decoded; ValueError where a segment is damaged."""
    ends = np.empty(sum(segment.rows for segment in segments), np.int64)
    row = position = 0
    for segment in segments:
        to = ends[row : row + segment.rows]
        SegmentReader(segment).unpack(0, segment.rows, segment.chars, position, to)
        row += segment.rows
        position += segment.chars
    return ends


def validity(segments: Sequence[Segment]) -> tuple[npt.NDArray[np.uint8] | None, int]:
    """The validity bitmap of all rows, or None where there are no nulls, and how many there are.

    Parameters
    ----------
    segments
        Host segments.

    Returns
    -------
    bitmap : ndarray of uint8 or None
        Row r is bit ``r & 7`` of byte ``r >> 3``; bits past the last row are 0.
    null_count : int

    Raises
    ------
    ValueError
        Buffers do not have the sizes that are stated.
    """
    for segment in segments:
        segment.check_buffers()
    return _validity([(segment, 0, segment.rows) for segment in segments])


def _validity(parts: Sequence[tuple[Segment, int, int]]) -> tuple[npt.NDArray[np.uint8] | None, int]:
    """The validity bitmap of ranges of rows of segments, or None, and their nulls."""
    if not any(segment.null_count for segment, _, _ in parts):
        return None, 0
    rows = sum(last - first for _, first, last in parts)
    bitmap = np.zeros(-(-rows // 8), np.uint8)
    row = 0
    for segment, first, last in parts:
        if segment.null_count:
            bits = rebased(segment.section("validity"), first, last - first)
        else:
            bits = rebased(np.full(-(-(last - first) // 8), 255, np.uint8), 0, last - first)
        put(bitmap, row, bits)
        row += last - first
    null_count = rows - int(np.bitwise_count(bitmap).sum(dtype=np.int64))
    return bitmap if null_count else None, null_count
