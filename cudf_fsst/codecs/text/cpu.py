"""Strings to segments and back on the host, in Numba without the GIL, for every codec of text.

Work is cut into chunks of whole blocks of tiles, for the threads of the process (Numba's own thread pools must not be
entered from several Python threads at once; plain threads over nogil kernels may). What is stored does not depend on
the number of threads.

Kernels take addresses: one compiled version serves every kind of array. Addresses are taken where a kernel is called,
of arrays that the work item holds. Decoding checks every code, so damaged codes end in `ValueError`, never in a read or
write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...workers import map_items
from ..bitmap import put, rebased
from ..chosen import Chosen, Selected, chosen, parts_of, shares_of
from ..contract import Table, TextCodec
from ..part import edges_of
from ..registry import of_text
from ..unaligned import address
from ..work import cut, run
from . import choose, cpu_select, plan
from . import cpu_kernels as kernels
from .choose import codec_of
from .layout import LEVELS, ROW_BLOCK, TILE_BLOCK, TILE_SIZES, SegmentLayout
from .row_lengths import check_ascending, measure, pack, unpack_ends
from .segment import Segment
from .validate import check

__all__ = ["check", "compress", "read", "take", "train", "validity"]

#: Blocks of tiles a thread takes at once.
_CHUNK_BLOCKS = 16
#: Row blocks a thread takes at once.
_CHUNK_ROW_BLOCKS = 256
#: Chosen rows a thread takes at once.
_CHUNK_ROWS = 2**15
#: Rows in order are taken from all those between, decoded, where they are at least such a part of them.
_DENSE = 0.6
#: So many at least.
_FEW_DENSE = 2**12
#: Bytes of strings that are decoded at once, of rows in no order, if nobody knows that there may be more.
_ROOM_NBYTES = 64 << 20
#: Characters of a row from which threads share it.
_LONG_ROW = 2**20

# --- encoding -------------------------------------------------------------------------------------------------------


def checked(strings: HostStrings) -> HostStrings:
    """Check bounds of a column, drop characters under its nulls; without nulls, drop its validity."""
    offsets = np.ascontiguousarray(strings.offsets[: strings.rows + 1])
    if offsets.size != strings.rows + 1 or offsets.dtype not in (np.int32, np.int64):
        raise ValueError(f"{strings.rows} rows need as many offsets and one more, int32 or int64")
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= strings.chars.size:
        raise ValueError(f"offsets {first} to {last} are outside the {strings.chars.size} characters")
    check_ascending(offsets)
    if strings.null_count == 0 or strings.validity is None:
        return HostStrings(strings.rows, strings.chars, offsets)
    validity = np.ascontiguousarray(strings.validity).view(np.uint8)
    if strings.validity_offset < 0 or 8 * validity.size < strings.validity_offset + strings.rows:
        raise ValueError(f"validity has {validity.size} bytes for {strings.rows} rows from {strings.validity_offset}")
    chars = strings.chars
    where = address(offsets), offsets.itemsize, strings.rows, address(validity), strings.validity_offset
    if kernels.nulls_have_chars(*where):
        kept = np.empty(strings.rows + 1, np.int64)
        chars = np.ascontiguousarray(chars)
        compact = np.empty(kernels.drop_null_chars(*where, address(chars), kept, 0), np.uint8)
        if compact.size:
            kernels.drop_null_chars(*where, address(chars), kept, address(compact))
        chars, offsets = compact, kept
    return HostStrings(strings.rows, chars, offsets, validity, strings.validity_offset, strings.null_count)


#: Writes tiles of a segment's characters; see `contract.HostTextCodec.encoder`.
Encoder = Callable[..., int]
#: Segments that share a table: their row ranges.
Scope = list[tuple[int, int]]


def scopes_of(offsets: npt.NDArray[Any]) -> list[Scope]:
    """Segments that have rows, as they share tables (docs/format.md, section 7)."""
    rows = offsets.size - 1
    base, chars = int(offsets[0]), int(offsets[-1] - offsets[0])
    size = plan.segment_size(chars)
    cuts = [base + k * size for k in range(1, plan.segment_count(chars))]
    edges = [0, *np.searchsorted(offsets[:-1], np.array(cuts, offsets.dtype)).tolist(), rows]
    parts = [(first, last) for first, last in pairwise(edges) if first < last]
    per_table = plan.segments_per_table(chars)
    return [parts[i : i + per_table] for i in range(0, len(parts), per_table)]


def train(strings: HostStrings, codec: TextCodec | None = None, *, level: str = "default") -> Table:
    """Train one table on all the characters of a column, for one of `LEVELS`.

    Raises
    ------
    ValueError
        An unknown level, or offsets that decrease or lie outside the characters.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    strings = checked(strings)
    chars = strings.chars[int(strings.offsets[0]) : int(strings.offsets[-1])]
    return (codec or codec_of()).host().train(chars, 0, chars.size, level)


def check_options(tile_size: int | str, level: str) -> None:
    """Raise ValueError for a tile size or a level that there is not."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    if tile_size != "auto" and tile_size not in TILE_SIZES:
        raise ValueError(f"tile_size must be 'auto' or one of {TILE_SIZES}, not {tile_size!r}")


def compress(
    strings: HostStrings,
    *codecs: TextCodec,
    table: Table | None = None,
    tile_size: int | Literal["auto"] = "auto",
    level: str = "default",
) -> list[Segment]:
    """Compress a column.

    Parameters
    ----------
    strings
        The column; its characters under nulls are dropped.
    *codecs
        Of several, each scope gets the one with which it is expected to be smallest. None: that of the table, or the
        one that is taken at level ``default``.
    table
        One of the codec's, used for all segments; None trains tables on the column.
    tile_size
        One of `TILE_SIZES`, or ``"auto"``.
    level
        One of `LEVELS`.

    Returns
    -------
    list of Segment
        Host segments; none for a column without rows.

    Raises
    ------
    ValueError
        A wrong argument, or offsets that decrease or lie outside the characters.
    """
    check_options(tile_size, level)
    if strings.rows == 0:
        return []
    strings = checked(strings)
    codecs = codecs or (codec_of(table=table),)
    return encode(strings, scopes_of(strings.offsets), codecs, table=table, tile_size=tile_size, level=level)


def encode(
    strings: HostStrings,
    scopes: Sequence[Scope],
    codecs: Sequence[TextCodec],
    *,
    table: Table | None = None,
    tile_size: int | Literal["auto"] = "auto",
    level: str = "default",
) -> list[Segment]:
    """Compress some of the `scopes_of` a column that was `checked`; see `compress`."""
    offsets = strings.offsets
    base, nbytes = int(offsets[0]), int(offsets[-1] - offsets[0])
    chars = np.ascontiguousarray(strings.chars[base : base + nbytes])
    if table is None:
        spans = [(int(offsets[scope[0][0]]) - base, int(offsets[scope[-1][1]]) - base) for scope in scopes]
        tables = map_items(lambda span: choose.train(codecs, chars, span[0], span[1] - span[0], level), spans)
    else:
        tables = [table] * len(scopes)
    made = {own: _encoder(own, level, tile_size) for own in tables}
    return [
        _compress_segment(strings, chars, base, first, last, own, *made[own])
        for scope, own in zip(scopes, tables, strict=True)
        for first, last in scope
    ]


def _encoder(table: Table, level: str, tile_size: int | Literal["auto"]) -> tuple[int, Encoder]:
    """The tile size, and what encodes such tiles."""
    codec = of_text(table.codec)
    tile = codec.TILE_SIZE if tile_size == "auto" else int(tile_size)
    return tile, codec.host().encoder(table, level, tile)


def _compress_segment(
    strings: HostStrings,
    chars: npt.NDArray[np.uint8],
    base: int,
    first: int,
    last: int,
    table: Table,
    tile_size: int,
    encoder: Encoder,
) -> Segment:
    rows = last - first
    offsets = strings.offsets[first : last + 1]
    start, end = int(offsets[0]) - base, int(offsets[-1]) - base
    lengths = measure(offsets)
    null_count = 0
    if strings.validity is not None:
        validity = rebased(strings.validity, strings.validity_offset + first, rows)
        null_count = rows - int(np.bitwise_count(validity).sum(dtype=np.int64))
    layout = SegmentLayout(rows, end - start, tile_size, null_count > 0, lengths.words)
    meta = np.zeros(layout.meta_nbytes, np.uint8)
    segment = Segment(layout, null_count, table, meta, np.empty(0, np.uint8), 0)  # gives views of the sections
    segment.section("row_starts")[:] = lengths.row_starts
    segment.section("row_minima")[:] = lengths.row_minima
    segment.section("row_words")[:] = lengths.row_words
    pack(offsets, lengths, segment.section("row_bits"))
    if null_count:
        segment.section("validity")[:] = validity

    block_starts = segment.section("block_starts")
    tiles = layout.tiles
    own_chars, tile_lengths = chars[start:end], segment.section("tile_lengths")

    def encode(chunk: tuple[int, int]) -> npt.NDArray[np.uint8]:
        tile_first, tile_last = chunk[0] * TILE_BLOCK, min(chunk[1] * TILE_BLOCK, tiles)
        codes = np.empty((tile_last - tile_first) * tile_size, np.uint8)
        nbytes = encoder(own_chars, tile_first, tile_last, codes, tile_lengths, block_starts[1:])
        return codes[:nbytes].copy()

    chunks = cut(0, layout.blocks, _CHUNK_BLOCKS)
    pieces = map_items(encode, chunks)
    for (first_block, last_block), before in zip(chunks, accumulate([0, *map(len, pieces)]), strict=False):
        block_starts[1:][first_block:last_block] += np.uint64(before)
    codes = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
    return Segment(layout, null_count, table, meta, codes, codes.size)


# --- decoding -------------------------------------------------------------------------------------------------------


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

    def decode_rows(
        self, starts: Any, places: Any, offsets: Any, out: npt.NDArray[np.uint8], *, long: int = _LONG_ROW
    ) -> None:
        """Decode rows but the long ones (`Decoder.decode_rows`)."""
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
        for a, b in cut(first_char, last_char, _CHUNK_BLOCKS * TILE_BLOCK * reader.segment.layout.tile_size):
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


def take(
    segments: Sequence[Segment],
    rows: Selected,
    *,
    edges: npt.NDArray[np.int64] | None = None,
    room: int = _ROOM_NBYTES,
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
    room : int
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
    wanted = chosen(rows, int(edges[-1]))
    if wanted.a_range:
        return read(segments, wanted.lowest, wanted.highest + 1, edges=edges)
    span = wanted.highest - wanted.lowest + 1
    if wanted.ascending or wanted.descending:
        if wanted.rows.size >= max(_DENSE * span, _FEW_DENSE):
            readers = {
                number: SegmentReader(segments[number])
                for number in range(*parts_of(edges, wanted.lowest, wanted.highest + 1))
            }
            items = cpu_select.items(readers, edges, wanted)
            if items is not None:
                return _in_order(items, wanted.rows)
    else:
        some = segments[slice(*parts_of(edges, wanted.lowest, wanted.highest + 1))]
        if sum(segment.layout.tiles for segment in some) <= wanted.rows.size:
            return _from_parts(segments, wanted, edges, room)
    rows, places = wanted.sorted()
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
            bits, local = reader.segment.section("validity"), rows[first:last] - base
            found = bits[local >> 3] >> (local & 7).astype(np.uint8) & 1
            valid[places[first:last] if places.size else slice(first, last)] = found
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
        partial(reader.decode_rows, starts[part], places[part], offsets[to], chars) for reader, _, part, to in pieces
    ]
    copying: list[Callable[[], Any]] = []
    if max(longest, default=0) >= _LONG_ROW:
        for reader, _, part, to in pieces:
            decoding, copies = _long_rows(reader, starts[part], places[part], offsets[to], chars)
            work += decoding
            copying += copies
    run(work, count, chars.size)
    run(copying, count, chars.size)

    null_count = 0 if valid is None else count - int(np.count_nonzero(valid))
    validity = np.packbits(valid, bitorder="little") if valid is not None and null_count else None
    return HostStrings(count, chars, offsets.astype(offset_dtype(chars.size), copy=False), validity, 0, null_count)


def _in_order(items: Sequence[cpu_select.Item], rows: npt.NDArray[np.int64]) -> HostStrings:
    """Rows that ascend or descend, of work items."""
    count = rows.size
    offsets = np.zeros(count + 1, np.int64)
    run([partial(item.measure, rows, offsets[1:]) for item in items], count, 0)
    np.cumsum(offsets, out=offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    run([partial(item.copy, rows, offsets, chars) for item in items], count, chars.size)
    validity, null_count = None, 0
    if any(item.reader.segment.null_count for item in items):
        valid = np.ones(count, np.bool_)
        for item in items:
            if item.reader.segment.null_count:
                bits, local = item.reader.segment.section("validity"), rows[item.chosen] - item.base
                valid[item.chosen] = bits[local >> 3] >> (local & 7).astype(np.uint8) & 1
        null_count = count - int(np.count_nonzero(valid))
        validity = np.packbits(valid, bitorder="little") if null_count else None
    return HostStrings(count, chars, offsets.astype(offset_dtype(chars.size), copy=False), validity, 0, null_count)


def _from_parts(segments: Sequence[Segment], wanted: Chosen, edges: npt.NDArray[np.int64], room: int) -> HostStrings:
    """Rows in no order, of the rows between the lowest and the highest, which are decoded some at a time."""
    first, last = wanted.lowest, wanted.highest + 1
    numbers = range(*parts_of(edges, first, last))
    nbytes = sum(segments[number].chars + 4 * segments[number].rows for number in numbers)
    if nbytes <= room:
        return gather(read(segments, first, last, edges=edges), wanted.rows, first)
    step = max(room * (last - first) // nbytes // ROW_BLOCK, 1) * ROW_BLOCK
    parts = [(a, min(a + step, last)) for a in range(first, last, step)]
    rows, count = wanted.rows, wanted.rows.size
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
            local = rows[here] - start
            valid[here] = strings.validity[local >> 3] >> (local & 7).astype(np.uint8) & 1
        del strings
    np.cumsum(offsets, out=offsets)
    chars = np.empty(int(offsets[-1]), np.uint8)
    for start, stop in parts:
        strings = read(segments, start, stop, edges=edges)
        work = [partial(cpu_select.copy_part, strings, start, rows[a:b], offsets[a : b + 1], chars) for a, b in pieces]
        run(work, count, chars.size)
        del strings, work
    null_count = 0 if valid is None else count - int(np.count_nonzero(valid))
    validity = np.packbits(valid, bitorder="little") if valid is not None and null_count else None
    return HostStrings(count, chars, offsets.astype(offset_dtype(chars.size), copy=False), validity, 0, null_count)


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
    validity, null_count = None, 0
    if strings.validity is not None:
        local = rows - base
        valid = strings.validity[local >> 3] >> (local & 7).astype(np.uint8) & 1
        null_count = rows.size - int(np.count_nonzero(valid))
        validity = np.packbits(valid, bitorder="little") if null_count else None
    return HostStrings(rows.size, chars, offsets.astype(offset_dtype(chars.size), copy=False), validity, 0, null_count)


def _copy_rows(
    strings: HostStrings, rows: npt.NDArray[np.int64], base: int, offsets: Any, chars: npt.NDArray[np.uint8]
) -> None:
    kernels.copy_rows(strings.offsets, address(strings.chars), rows, base, offsets, address(chars))


def _long_rows(
    reader: SegmentReader, starts: npt.NDArray[np.int64], places: Any, offsets: Any, chars: npt.NDArray[np.uint8]
) -> tuple[list[Callable[[], Any]], list[Callable[[], Any]]]:
    """What decodes the long ones of rows, cut for threads, and what copies those that are wanted again, after that."""
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
        for a, b in cut(start, start + size, _CHUNK_BLOCKS * TILE_BLOCK * reader.segment.layout.tile_size):
            decoding.append(partial(reader.decode, a, b, chars[to - start + a : to - start + b]))
    return decoding, copying
