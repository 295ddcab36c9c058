"""FSST on the host: strings to segments and back, in Numba without the GIL.

Work is cut into chunks of whole blocks of tiles, which threads take from a pool of their own (Numba's own thread
pools must not be entered from several Python threads at once; plain threads over nogil kernels may). What is stored
does not depend on the number of threads.

Kernels take addresses: one compiled version serves every kind of array. Decoding checks every code, so damaged codes
end in `ValueError`, never in a read or write out of bounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from typing import Any, Literal, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...format import ROW_BLOCK, TILE_BLOCK, TILE_SIZES, SegmentLayout
from ..bitpack.cpu import measure, pack, unpack_ends
from ..unaligned import (
    address,
    copy,
    load8,
    load16,
    load32,
    load64,
    store8,
    store16,
    store64,
    trailing_zeros,
)
from . import plan
from .segment import Segment
from .symbols import HASH_MULTIPLIER, HASH_SHIFT, SymbolTable
from .train import train_table
from .validate import check

__all__ = ["check", "compress", "decompress", "num_threads", "take", "take_range", "train"]

#: Compression levels there are.
LEVELS = ("default",)
#: Blocks of tiles a thread takes at once.
_CHUNK_BLOCKS = 16
#: Row blocks a thread takes at once.
_CHUNK_ROW_BLOCKS = 256
#: Rows a thread takes at once.
_CHUNK_ROWS = 4096

_T = TypeVar("_T")
_R = TypeVar("_R")

_ESCAPE = np.uint64(255)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_MULTIPLIER = np.uint64(HASH_MULTIPLIER)
_SHIFT = np.uint64(HASH_SHIFT)


def num_threads() -> int:
    """Threads a call may use: environment variable CUDF_FSST_NUM_THREADS, else the CPUs this process may run on.

    Raises
    ------
    ValueError
        The variable is not a positive number.
    """
    text = os.environ.get("CUDF_FSST_NUM_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"CUDF_FSST_NUM_THREADS must be a positive number, not {text!r}")
    return int(text)


def _map(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """``[function(item) for item in items]`` in threads."""
    threads = min(num_threads(), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="cudf_fsst") as pool:
        return list(pool.map(function, items))


def _ranges(count: int, step: int) -> list[tuple[int, int]]:
    return [(first, min(first + step, count)) for first in range(0, count, step)]


# --- encoding -------------------------------------------------------------------------------------------------------


@numba.njit(nogil=True, cache=True)
def _encode_tiles(
    chars: int,
    chars_end: int,
    tile_size: int,
    first: int,
    last: int,
    hash_symbols: Any,
    hash_meta: Any,
    pair_codes: Any,
    byte_codes: Any,
    two_byte_limit: int,
    out: int,
    lengths: int,
    block_ends: Any,
) -> int:
    """Encode tiles `first` to ``last - 1`` of the characters at address `chars`; `first` starts a block.

    `out` has room for the tiles' bytes and one more tile and eight bytes. Returns the bytes of the codes.
    """
    limit = np.uint64(two_byte_limit)
    start = out
    for tile in range(first, last):
        at = chars + tile * tile_size
        end = min(at + tile_size, chars_end)
        nbytes = end - at
        tile_start = out
        while at + 8 <= end:
            window = load64(at)
            slot = np.int64((((window & np.uint64(0xFFFFFF)) * _MULTIPLIER) & np.uint64(0xFFFFFFFF)) >> _SHIFT)
            meta = np.uint64(hash_meta[slot])
            length = meta & np.uint64(0xFF)
            code = np.uint64(pair_codes[np.int64(window & np.uint64(0xFFFF))])
            if ((window ^ hash_symbols[slot]) << (np.uint64(64) - (length << np.uint64(3)))) == np.uint64(0):
                store8(out, np.uint8(meta >> np.uint64(8)))
                out += 1
                at += np.int64(length)
            else:
                store16(out, np.uint16(code | (window & np.uint64(0xFF)) << np.uint64(8)))
                out += 1 + np.int64(code == _ESCAPE)
                at += 1 + np.int64(code < limit)
        # The last bytes of the tile, held in `window`, zero bytes above them.
        rest = end - at
        window = np.uint64(0)
        if rest > 0:
            if nbytes >= 8:
                window = load64(end - 8) >> np.uint64(8 * (8 - rest))
            else:
                for i in range(rest):
                    window |= np.uint64(load8(at + i)) << np.uint64(8 * i)
        while rest > 0:
            slot = np.int64((((window & np.uint64(0xFFFFFF)) * _MULTIPLIER) & np.uint64(0xFFFFFFFF)) >> _SHIFT)
            meta = np.uint64(hash_meta[slot])
            length = np.int64(meta & np.uint64(0xFF))
            code = np.uint64(pair_codes[np.int64(window & np.uint64(0xFFFF))])
            if length <= rest and (
                (window ^ hash_symbols[slot]) << (np.uint64(64) - np.uint64(8 * length))
            ) == np.uint64(0):
                code = meta >> np.uint64(8)
            elif rest >= 2 and code < limit:
                length = 2
            else:
                code = np.uint64(byte_codes[np.int64(window & np.uint64(0xFF))])
                length = 1
            store16(out, np.uint16(code | (window & np.uint64(0xFF)) << np.uint64(8)))
            out += 1 + np.int64(code == _ESCAPE)
            rest -= length
            if rest > 0:
                window >>= np.uint64(8 * length)
        if out - tile_start >= nbytes:
            copy(tile_start, end - nbytes, nbytes)
            out = tile_start + nbytes
        if tile_size <= 256:
            store8(lengths + tile, np.uint8(out - tile_start - 1))
        else:
            store16(lengths + 2 * tile, np.uint16(out - tile_start - 1))
        if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
            block_ends[tile // TILE_BLOCK] = np.uint64(out - start)
    return out - start


@numba.njit(nogil=True, cache=True)
def _drop_null_chars(
    offsets: int, itemsize: int, rows: int, validity: int, validity_offset: int, chars: int, kept: Any, out: int
) -> int:
    """Offsets without the characters of null rows into `kept`; where `out` is not 0, the other characters to it."""
    position = np.int64(0)
    kept[0] = 0
    for row in range(rows):
        bit = validity_offset + row
        if itemsize == 4:
            start = np.int64(np.int32(load32(offsets + 4 * row)))
            end = np.int64(np.int32(load32(offsets + 4 * row + 4)))
        else:
            start = np.int64(load64(offsets + 8 * row))
            end = np.int64(load64(offsets + 8 * row + 8))
        if (load8(validity + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) != 0 and end > start:
            if out != 0:
                copy(out + position, chars + start, end - start)
            position += end - start
        kept[row + 1] = position
    return position


@numba.njit(nogil=True, cache=True)
def _nulls_have_chars(offsets: int, itemsize: int, rows: int, validity: int, validity_offset: int) -> bool:
    for row in range(rows):
        bit = validity_offset + row
        if (load8(validity + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) == 0:
            if itemsize == 4:
                if load32(offsets + 4 * row) != load32(offsets + 4 * row + 4):
                    return True
            elif load64(offsets + 8 * row) != load64(offsets + 8 * row + 8):
                return True
    return False


def _checked(strings: HostStrings) -> HostStrings:
    """Check bounds of a column, drop characters under its nulls; without nulls, drop its validity."""
    offsets = np.ascontiguousarray(strings.offsets[: strings.rows + 1])
    if offsets.size != strings.rows + 1 or offsets.dtype not in (np.int32, np.int64):
        raise ValueError(f"{strings.rows} rows need as many offsets and one more, int32 or int64")
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= strings.chars.size:
        raise ValueError(f"offsets {first} to {last} are outside the {strings.chars.size} characters")
    if strings.null_count == 0 or strings.validity is None:
        return HostStrings(strings.rows, strings.chars, offsets)
    validity = np.ascontiguousarray(strings.validity).view(np.uint8)
    if strings.validity_offset < 0 or 8 * validity.size < strings.validity_offset + strings.rows:
        raise ValueError(f"validity has {validity.size} bytes for {strings.rows} rows from {strings.validity_offset}")
    chars = strings.chars
    where = address(offsets), offsets.itemsize, strings.rows, address(validity), strings.validity_offset
    if _nulls_have_chars(*where):
        if np.any(np.diff(offsets) < 0):
            raise ValueError("offsets decrease")
        kept = np.empty(strings.rows + 1, np.int64)
        chars = np.ascontiguousarray(chars)
        compact = np.empty(_drop_null_chars(*where, address(chars), kept, 0), np.uint8)
        if compact.size:
            _drop_null_chars(*where, address(chars), kept, address(compact))
        chars, offsets = compact, kept
    return HostStrings(strings.rows, chars, offsets, validity, strings.validity_offset, strings.null_count)


def _bits(validity: npt.NDArray[np.uint8], first: int, rows: int) -> npt.NDArray[np.uint8]:
    """Bits `first` to ``first + rows - 1`` as a bitmap that starts at bit 0, zero bits after the last."""
    part = validity[first // 8 : -(-(first + rows) // 8)]
    shift = first % 8
    result = part.copy()
    if shift:
        result >>= shift
        result[:-1] |= part[1:] << (8 - shift)
    result = result[: -(-rows // 8)]
    if rows % 8:
        result[-1] &= (1 << rows % 8) - 1
    return result


def _segment_rows(offsets: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Row ranges of the segments that have rows (docs/format.md, section 7)."""
    rows = offsets.size - 1
    base, chars = int(offsets[0]), int(offsets[-1] - offsets[0])
    size = plan.segment_size(chars)
    cuts = [base + k * size for k in range(1, plan.segment_count(chars))]
    edges = [0, *np.searchsorted(offsets[:-1], np.array(cuts, offsets.dtype)).tolist(), rows]
    return [(first, last) for first, last in zip(edges, edges[1:], strict=False) if first < last]


def train(strings: HostStrings) -> SymbolTable:
    """Train one table on all the characters of a column."""
    strings = _checked(strings)
    chars = strings.chars[int(strings.offsets[0]) : int(strings.offsets[-1])]
    return _train_scope(chars, 0, chars.size)


def _train_scope(chars: npt.NDArray[np.uint8], start: int, nbytes: int) -> SymbolTable:
    """Train the table of a scope of a call's characters."""
    starts, length = plan.sample_positions(start, nbytes)
    ends = np.minimum(starts + length, start + nbytes)
    sample = np.concatenate([chars[a:b] for a, b in zip(starts, ends, strict=True)] or [chars[:0]])
    return train_table(sample, np.concatenate([[0], np.cumsum(ends - starts)[:-1]]).astype(np.int64)[: starts.size])


def compress(
    strings: HostStrings,
    *,
    table: SymbolTable | None = None,
    tile_size: int | Literal["auto"] = "auto",
    level: str = "default",
) -> list[Segment]:
    """Compress a column.

    Parameters
    ----------
    strings
        The column; its characters under nulls are dropped.
    table
        Used for all segments; None trains tables on the column.
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
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    if tile_size != "auto" and tile_size not in TILE_SIZES:
        raise ValueError(f"tile_size must be 'auto' or one of {TILE_SIZES}, not {tile_size!r}")
    if strings.rows == 0:
        return []
    strings = _checked(strings)
    offsets = strings.offsets
    base, nbytes = int(offsets[0]), int(offsets[-1] - offsets[0])
    chars = np.ascontiguousarray(strings.chars[base : base + nbytes])
    tile = plan.auto_tile_size(nbytes) if tile_size == "auto" else int(tile_size)
    parts = _segment_rows(offsets)
    per_table = plan.segments_per_table(nbytes)
    if table is None:
        scopes = [parts[i : i + per_table] for i in range(0, len(parts), per_table)]
        spans = [(int(offsets[scope[0][0]]) - base, int(offsets[scope[-1][1]]) - base) for scope in scopes]
        tables = _map(lambda span: _train_scope(chars, span[0], span[1] - span[0]), spans)
    else:
        tables = [table] * -(-len(parts) // per_table)
    return [
        _compress_segment(strings, chars, base, first, last, tables[i // per_table], tile)
        for i, (first, last) in enumerate(parts)
    ]


def _compress_segment(
    strings: HostStrings,
    chars: npt.NDArray[np.uint8],
    base: int,
    first: int,
    last: int,
    table: SymbolTable,
    tile_size: int,
) -> Segment:
    rows = last - first
    offsets = strings.offsets[first : last + 1]
    start, end = int(offsets[0]) - base, int(offsets[-1]) - base
    lengths = measure(offsets)
    null_count = 0
    if strings.validity is not None:
        validity = _bits(strings.validity, strings.validity_offset + first, rows)
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
    chars_address = address(chars) + start
    lengths_address = address(meta) + layout.sections["tile_lengths"].offset

    def encode(chunk: tuple[int, int]) -> npt.NDArray[np.uint8]:
        tile_first, tile_last = chunk[0] * TILE_BLOCK, min(chunk[1] * TILE_BLOCK, tiles)
        scratch = np.empty((tile_last - tile_first + 1) * tile_size + 8, np.uint8)
        nbytes = _encode_tiles(
            chars_address,
            chars_address + layout.chars,
            tile_size,
            tile_first,
            tile_last,
            table.hash_symbols,
            table.hash_meta,
            table.pair_codes,
            table.byte_codes,
            table.two_byte_limit,
            address(scratch),
            lengths_address,
            block_starts[1:],
        )
        return scratch[:nbytes].copy()

    chunks = _ranges(layout.blocks, _CHUNK_BLOCKS)
    pieces = _map(encode, chunks)
    for (first_block, last_block), before in zip(chunks, accumulate([0, *map(len, pieces)]), strict=False):
        block_starts[1:][first_block:last_block] += np.uint64(before)
    codes = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
    return Segment(layout, null_count, table, meta, codes, codes.size)


# --- decoding -------------------------------------------------------------------------------------------------------


@numba.njit(nogil=True, cache=True)
def _decode_tile(
    at: int, end: int, codes_end: int, out: int, nbytes: int, limit: int, symbols: Any, symbol_lengths: Any
) -> bool:
    """Decode the codes at addresses `at` to `end` to the `nbytes` bytes at `out`; False where they do not fit.

    Reads stay below `codes_end`, writes below `limit`; up to `limit` bytes after the tile may get any value.
    """
    if end - at == nbytes:
        copy(out, at, nbytes)
        return True
    stop = out + nbytes
    # A step of the fast loop consumes 8 codes and writes at most 64 bytes.
    while at + 8 <= end and out + 64 <= limit:
        window = load64(at)
        inverse = ~window
        escapes = (inverse - _ONES) & window & _HIGH  # the lowest bit is right: it marks the first byte 0xFF
        if escapes == np.uint64(0):
            for _ in range(8):
                code = np.int64(window & np.uint64(0xFF))
                store64(out, symbols[code])
                out += np.int64(symbol_lengths[code])
                window >>= np.uint64(8)
            at += 8
        else:
            count = trailing_zeros(escapes) >> 3
            for _ in range(count):
                code = np.int64(window & np.uint64(0xFF))
                store64(out, symbols[code])
                out += np.int64(symbol_lengths[code])
                window >>= np.uint64(8)
            if count < 7:
                store8(out, np.uint8((window >> np.uint64(8)) & np.uint64(0xFF)))
                out += 1
                at += 2
            at += count
    while at < end:
        code = np.int64(load8(at))
        at += 1
        if code == 255:
            if at == end or out >= stop:
                return False
            store8(out, load8(at))
            at += 1
            out += 1
        else:
            length = np.int64(symbol_lengths[code])
            if out + 8 <= limit:
                store64(out, symbols[code])
            elif out + length <= limit:
                symbol = symbols[code]
                for i in range(length):
                    store8(out + i, np.uint8((symbol >> np.uint64(8 * i)) & np.uint64(0xFF)))
            else:
                return False
            out += length
    return out == stop


@numba.njit(nogil=True, cache=True)
def _decode_tiles(
    codes: int,
    codes_nbytes: int,
    block_starts: int,
    lengths: int,
    chars: int,
    tile_size: int,
    first: int,
    last: int,
    out: int,
    limit: int,
    symbols: Any,
    symbol_lengths: Any,
) -> int:
    """Decode tiles `first` to ``last - 1`` to `out` (which ends at `limit`); -1, or a tile that is damaged."""
    tile = first // TILE_BLOCK * TILE_BLOCK
    position = np.int64(0)
    while tile < last:
        if tile % TILE_BLOCK == 0:
            block = tile // TILE_BLOCK
            position = np.int64(load64(block_starts + 8 * block))
            if position < 0 or position > codes_nbytes:
                return tile
        nbytes = min(tile_size, chars - tile * tile_size)
        if tile_size <= 256:
            length = np.int64(load8(lengths + tile)) + 1
        else:
            length = np.int64(load16(lengths + 2 * tile)) + 1
        if length > nbytes or length > codes_nbytes - position:
            return tile
        if tile >= first:
            at = codes + position
            end = at + length
            if not _decode_tile(at, end, end, out, nbytes, limit, symbols, symbol_lengths):
                return tile
            out += nbytes
        position += length
        tile += 1
        if tile % TILE_BLOCK == 0 or tile * tile_size >= chars:
            block = (tile + TILE_BLOCK - 1) // TILE_BLOCK
            if position != np.int64(load64(block_starts + 8 * block)):
                return tile - 1
    return -1


@numba.njit(nogil=True, cache=True)
def _decode_chars(
    codes: int,
    codes_nbytes: int,
    block_starts: int,
    lengths: int,
    chars: int,
    tile_size: int,
    first: int,
    last: int,
    out: int,
    scratch: int,
    symbols: Any,
    symbol_lengths: Any,
) -> int:
    """Decode characters `first` to ``last - 1`` to `out`; -1, or a tile that is damaged.

    `scratch` has room for a tile and 64 bytes: tiles that are wanted in part go there first.
    """
    while first < last:
        tile = first // tile_size
        skip = first - tile * tile_size
        nbytes = min(tile_size, chars - tile * tile_size)
        if skip == 0 and last - first >= nbytes:
            tiles = max(1, (last - first) // tile_size)
            nbytes = min(tiles * tile_size, last - first)
            bad = _decode_tiles(
                codes,
                codes_nbytes,
                block_starts,
                lengths,
                chars,
                tile_size,
                tile,
                tile + tiles,
                out,
                out + nbytes,
                symbols,
                symbol_lengths,
            )
        else:
            bad = _decode_tiles(
                codes,
                codes_nbytes,
                block_starts,
                lengths,
                chars,
                tile_size,
                tile,
                tile + 1,
                scratch,
                scratch + tile_size + 64,
                symbols,
                symbol_lengths,
            )
            nbytes = min(nbytes - skip, last - first)
            if bad < 0:
                copy(out, scratch + skip, nbytes)
        if bad >= 0:
            return bad
        first += nbytes
        out += nbytes
    return -1


@numba.njit(nogil=True, cache=True)
def _decode_rows(
    codes: int,
    codes_nbytes: int,
    block_starts: int,
    lengths: int,
    chars: int,
    tile_size: int,
    starts: Any,
    ends: Any,
    to: Any,
    out: int,
    scratch: int,
    symbols: Any,
    symbol_lengths: Any,
) -> int:
    """Decode characters ``starts[i]`` to ``ends[i] - 1`` to ``out + to[i]`` for every i; -1, or a damaged tile.

    `scratch` has room for a tile and 64 bytes. The tile in it is kept: neighbouring rows need it again.
    """
    held = -1
    for i in range(starts.size):
        at = starts[i]
        where = out + to[i]
        while at < ends[i]:
            tile = at // tile_size
            if tile != held:
                held = tile
                bad = _decode_tiles(
                    codes,
                    codes_nbytes,
                    block_starts,
                    lengths,
                    chars,
                    tile_size,
                    tile,
                    tile + 1,
                    scratch,
                    scratch + tile_size + 64,
                    symbols,
                    symbol_lengths,
                )
                if bad >= 0:
                    return bad
            nbytes = min((tile + 1) * tile_size, ends[i]) - at
            copy(where, scratch + at - tile * tile_size, nbytes)
            at += nbytes
            where += nbytes
    return -1


@numba.njit(nogil=True, cache=True)
def _row_spans(
    row_starts: int,
    row_minima: int,
    row_words: int,
    row_bits: int,
    bits_words: int,
    segment_rows: int,
    chars: int,
    rows: Any,
    starts: Any,
    ends: Any,
    scratch: Any,
) -> int:
    """Start and end of every row of `rows` in the segment's characters; -1, or a damaged row block."""
    held = -1
    for i in range(rows.size):
        block = rows[i] // ROW_BLOCK
        if block != held:
            held = block
            first = block * ROW_BLOCK
            last = min(segment_rows, first + ROW_BLOCK)
            scratch[0] = np.int64(load64(row_starts + 8 * block))
            end = unpack_ends(
                row_starts,
                row_minima,
                row_words,
                row_bits,
                bits_words,
                segment_rows,
                chars,
                first,
                last,
                0,
                scratch.ctypes.data + 8,
                8,
            )
            if end < 0:
                return block
        starts[i] = scratch[rows[i] - block * ROW_BLOCK]
        ends[i] = scratch[rows[i] - block * ROW_BLOCK + 1]
    return -1


class _Reader:
    """Addresses of a host segment's sections, as the decoding kernels take them."""

    def __init__(self, segment: Segment) -> None:
        layout = segment.layout
        if segment.meta.size != layout.meta_nbytes or segment.codes.size != segment.codes_nbytes:
            raise ValueError(
                f"a segment has {segment.meta.size} + {segment.codes.size} bytes, "
                f"needs {layout.meta_nbytes} + {segment.codes_nbytes}"
            )
        self.segment = segment
        meta = address(segment.meta)
        at = {name: meta + section.offset for name, section in layout.sections.items()}
        table = segment.table
        self.symbols = table.decode_symbols, table.decode_lengths
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

    def damaged_rows(self, block: int) -> int:
        raise ValueError(f"damaged segment: the lengths of row block {block} do not fit its characters")

    def damaged_tile(self, tile: int) -> None:
        raise ValueError(f"damaged segment: the codes of tile {tile} do not decode to its bytes")


def _offset_dtype(chars: int) -> type[np.signedinteger[Any]]:
    return np.int32 if chars < 2**31 else np.int64


def _put_bits(to: npt.NDArray[np.uint8], first: int, bits: npt.NDArray[np.uint8]) -> None:
    """OR a bitmap that starts at bit 0 into `to` from bit `first`."""
    at, shift = first // 8, first % 8
    if shift == 0:
        to[at : at + bits.size] |= bits
        return
    to[at : at + bits.size] |= bits << shift
    tail = to[at + 1 : at + 1 + bits.size]
    tail |= (bits >> (8 - shift))[: tail.size]


def decompress(segments: Sequence[Segment]) -> HostStrings:
    """Decode all rows of host segments.

    Raises
    ------
    ValueError
        A segment is damaged.
    """
    return take_range(segments, 0, sum(segment.rows for segment in segments))


def take_range(segments: Sequence[Segment], start: int, stop: int) -> HostStrings:
    """Decode rows `start` to ``stop - 1``, and only the tiles they touch.

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
    total = sum(segment.rows for segment in segments)
    if not 0 <= start <= stop <= total:
        raise IndexError(f"rows {start} to {stop} of {total}")
    parts = []  # reader, its first and last row, its first and last character
    before = 0
    for segment in segments:
        first, last = max(start - before, 0), min(stop - before, segment.rows)
        if first < last:
            reader = _Reader(segment)
            parts.append((reader, first, last, reader.row_start(first), reader.row_start(last)))
        before += segment.rows

    chars = np.empty(sum(part[4] - part[3] for part in parts), np.uint8)
    offsets = np.zeros(stop - start + 1, _offset_dtype(chars.size))
    chars_address, offsets_address, itemsize = address(chars), address(offsets), offsets.itemsize
    work: list[Callable[[], None]] = []

    def unpack(reader: _Reader, first: int, last: int, end: int, shift: int, row: int) -> None:
        found = unpack_ends(*reader.rows, first, last, shift, offsets_address + itemsize * (row + 1), itemsize)
        if found < 0:
            reader.damaged_rows(-1 - found)
        if end >= 0 and found != end:
            reader.damaged_rows((last - 1) // ROW_BLOCK)

    def decode(reader: _Reader, first: int, last: int, out: int) -> None:
        scratch = reader.scratch()
        bad = _decode_chars(*reader.tiles, first, last, chars_address + out, address(scratch), *reader.symbols)
        if bad >= 0:
            reader.damaged_tile(bad)

    row, position = 0, 0
    for reader, first, last, first_char, last_char in parts:
        for a, b in _chunks(first, last, _CHUNK_ROW_BLOCKS * ROW_BLOCK):
            end = last_char if b == last else -1
            work.append(partial(unpack, reader, a, b, end, position - first_char, row + a - first))
        for a, b in _chunks(first_char, last_char, _CHUNK_BLOCKS * TILE_BLOCK * reader.segment.layout.tile_size):
            work.append(partial(decode, reader, a, b, position + a - first_char))
        row += last - first
        position += last_char - first_char
    _map(lambda step: step(), work)

    validity = None
    null_count = 0
    if any(part[0].segment.null_count for part in parts):
        validity = np.zeros(-(-(stop - start) // 8), np.uint8)
        row = 0
        for reader, first, last, _, _ in parts:
            if reader.segment.null_count:
                bits = _bits(reader.segment.section("validity"), first, last - first)
            else:
                bits = _bits(np.full(-(-(last - first) // 8), 255, np.uint8), 0, last - first)
            _put_bits(validity, row, bits)
            row += last - first
        null_count = stop - start - int(np.bitwise_count(validity).sum(dtype=np.int64))
    return HostStrings(stop - start, chars, offsets, validity if null_count else None, 0, null_count)


def _chunks(first: int, last: int, step: int) -> Iterable[tuple[int, int]]:
    """Cut a range at the multiples of `step`."""
    while first < last:
        end = min(last, (first // step + 1) * step)
        yield first, end
        first = end


def take(segments: Sequence[Segment], rows: npt.NDArray[np.int64]) -> HostStrings:
    """Decode rows in any order, repeated or not, and only the tiles they touch.

    Parameters
    ----------
    segments
        Host segments.
    rows : ndarray of int64
        From 0 to the column's rows less 1.

    Returns
    -------
    HostStrings
        As `take_range`.

    Raises
    ------
    IndexError
        A row is not there.
    ValueError
        A segment is damaged.
    """
    rows = np.ascontiguousarray(rows, np.int64)
    edges = np.cumsum([0] + [segment.rows for segment in segments], dtype=np.int64)
    if rows.size and not (0 <= rows.min() and rows.max() < edges[-1]):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {edges[-1]}")
    which = np.searchsorted(edges, rows, side="right") - 1
    starts = np.empty(rows.size, np.int64)
    ends = np.empty(rows.size, np.int64)
    valid = np.ones(rows.size, np.bool_)
    parts = []  # reader, places in `rows` (None: all), rows of the segment
    for i, segment in enumerate(segments):
        places = None if len(segments) == 1 else np.flatnonzero(which == i)
        if rows.size if places is None else places.size:
            parts.append((_Reader(segment), places, (rows if places is None else rows[places]) - edges[i]))

    for reader, places, local in parts:
        if places is None:
            local_starts, local_ends = starts, ends
        else:
            local_starts, local_ends = np.empty_like(local), np.empty_like(local)

        spans = local, local_starts, local_ends

        def find(chunk: tuple[int, int], reader: Any = reader, spans: Any = spans) -> None:
            a, b = chunk
            ends_of_block = np.empty(ROW_BLOCK + 1, np.int64)
            bad = _row_spans(*reader.rows, *(span[a:b] for span in spans), ends_of_block)
            if bad >= 0:
                reader.damaged_rows(bad)

        _map(find, _ranges(local.size, _CHUNK_ROWS))
        if places is not None:
            starts[places], ends[places] = local_starts, local_ends
        if reader.segment.null_count:
            bits = reader.segment.section("validity")
            found = (bits[local >> 3] >> (local & 7).astype(np.uint8) & 1).astype(np.bool_)
            valid[slice(None) if places is None else places] = found

    lengths = ends - starts
    total = int(lengths.sum()) if rows.size else 0
    to = np.zeros(rows.size + 1, np.int64)
    np.cumsum(lengths, out=to[1:])
    chars = np.empty(total, np.uint8)
    chars_address = address(chars)
    for reader, places, _ in parts:
        where = slice(None) if places is None else places
        spans = starts[where], ends[where], to[:-1][where]

        def decode(chunk: tuple[int, int], reader: Any = reader, spans: Any = spans) -> None:
            a, b = chunk
            scratch = reader.scratch()
            bad = _decode_rows(
                *reader.tiles, *(span[a:b] for span in spans), chars_address, address(scratch), *reader.symbols
            )
            if bad >= 0:
                reader.damaged_tile(bad)

        _map(decode, _ranges(spans[0].size, _CHUNK_ROWS))

    null_count = rows.size - int(np.count_nonzero(valid))
    validity = np.packbits(valid, bitorder="little") if null_count else None
    return HostStrings(rows.size, chars, to.astype(_offset_dtype(total), copy=False), validity, 0, null_count)
