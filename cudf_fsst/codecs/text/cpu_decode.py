"""What decodes tiles, characters and rows of a codec of text on the host, made of what decodes one of its tiles.

Kernels take addresses, so one compiled version serves every kind of array, and release the GIL. They trust nothing that
is stored: every length and start is checked before a byte is read or written by it, and damage is a return value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, copy, load8, load16, load64, trailing_zeros
from .cpu_compare_kernels import edge_comparer
from .cpu_places_kernels import NO_CODES, CodeComparer, openers
from .cpu_values_kernels import value_comparer
from .layout import TILE_BLOCK


class Decoder(NamedTuple):
    """The compiled functions that decode segments of a codec.

    Attributes
    ----------
    decode_chars, decode_rows, compare_edges, compare_values
        Compiled functions.
    plan_value
        `CodeComparer.plan`.
    arrays : callable
        What decoding reads of a table, arrays that the table keeps.
    """

    decode_chars: Any
    decode_rows: Any
    compare_edges: Any
    compare_values: Any
    plan_value: Any
    arrays: Callable[[Any], tuple[npt.NDArray[Any], ...]]

    def addresses(self, table: Any) -> tuple[int, ...]:
        """The argument `table` of the functions."""
        return tuple(map(address, self.arrays(table)))


def decoder(
    decode_tile: Any, arrays: Callable[[Any], tuple[npt.NDArray[Any], ...]], codes_of: CodeComparer = NO_CODES
) -> Decoder:
    """Make a decoder of a codec of text.

    Parameters
    ----------
    decode_tile
        What `njit` made of ``decode_tile(at, end, out, nbytes, limit, table) -> bool``. It decodes the codes at
        addresses `at` to `end` to the `nbytes` bytes at `out`, and returns False where they do not fit. It reads no
        byte outside the codes, and writes none from `limit` on; bytes between the tile and `limit` may get any value.
        `table` is a tuple of addresses. Raw tiles are copied by others.
    arrays
        What `table` has the addresses of, given a table.
    codes_of
        What compares codes that are not decoded.
    """

    @njit()
    def decode_any(at: int, end: int, out: int, nbytes: int, limit: int, table: Any) -> bool:
        if end - at == nbytes:  # raw
            copy(out, at, nbytes)
            return True
        return decode_tile(at, end, out, nbytes, limit, table)

    @njit()
    def decode_tiles(
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
        table: Any,
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
                if not decode_any(at, end, out, nbytes, limit, table):
                    return tile
                out += nbytes
            position += length
            tile += 1
            if tile % TILE_BLOCK == 0 or tile * tile_size >= chars:
                block = (tile + TILE_BLOCK - 1) // TILE_BLOCK
                if position != np.int64(load64(block_starts + 8 * block)):
                    return tile - 1
        return -1

    @njit()
    def decode_chars(
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
        table: Any,
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
                bad = decode_tiles(
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
                    table,
                )
            else:
                bad = decode_tiles(
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
                    table,
                )
                nbytes = min(nbytes - skip, last - first)
                if bad < 0:
                    copy(out, scratch + skip, nbytes)
            if bad >= 0:
                return bad
            first += nbytes
            out += nbytes
        return -1

    @njit()
    def decode_rows(
        codes: int,
        codes_nbytes: int,
        block_starts: int,
        lengths: int,
        chars: int,
        tile_size: int,
        starts: Any,
        places: Any,
        offsets: Any,
        long: int,
        out: int,
        scratch: int,
        table: Any,
    ) -> int:
        """Decode the row that begins at character ``starts[i]`` for every i; -1, or a damaged tile.

        It is number ``places[i]`` (empty: i) of those whose characters in `out` begin and end at `offsets`. Rows of
        `long` characters and more are left out.

        Where `starts` ascend, each tile is decoded once: the last one is kept in `scratch`, which has room for a tile
        and 64 bytes, and a row that is wanted again is copied.
        """
        shift = trailing_zeros(np.uint64(tile_size))
        held = -1
        following, position = -1, np.int64(0)  # the codes of this tile begin there
        before, size_before, start_before = np.int64(0), np.int64(-1), np.int64(-1)
        for i in range(starts.size):
            place = places[i] if places.size else i
            size = offsets[place + 1] - offsets[place]
            if size >= long:
                continue
            at = starts[i]
            where = out + offsets[place]
            end, stop = at + size, where + size
            if at == start_before and size == size_before:
                copy(where, before, size)
                continue
            before, size_before, start_before = where, size, at
            while at < end:
                tile = at >> shift
                skip = at - (tile << shift)
                nbytes = min(tile_size, chars - (tile << shift))
                if tile != held:
                    if tile < following or tile // TILE_BLOCK != following // TILE_BLOCK:
                        following = tile // TILE_BLOCK * TILE_BLOCK
                        position = np.int64(load64(block_starts + 8 * (tile // TILE_BLOCK)))
                        if position < 0 or position > codes_nbytes:
                            return tile
                    begin = position
                    while following <= tile:
                        if tile_size <= 256:
                            length = np.int64(load8(lengths + following)) + 1
                        else:
                            length = np.int64(load16(lengths + 2 * following)) + 1
                        begin = position
                        if length > tile_size or length > codes_nbytes - begin:
                            return following
                        position += length
                        following += 1
                    if length > nbytes:
                        return tile
                    if following % TILE_BLOCK == 0 or following << shift >= chars:
                        block = (following + TILE_BLOCK - 1) // TILE_BLOCK
                        if position != np.int64(load64(block_starts + 8 * block)):
                            return tile
                    first, last = codes + begin, codes + position
                    if skip == 0 and end - at >= nbytes:
                        if not decode_any(first, last, where, nbytes, stop, table):
                            return tile
                        at += nbytes
                        where += nbytes
                        continue
                    room = scratch + tile_size + 64
                    if not decode_any(first, last, scratch, nbytes, room, table):
                        return tile
                    held = tile
                wanted = min(nbytes - skip, end - at)
                copy(where, scratch + skip, wanted)
                at += wanted
                where += wanted
        return -1

    how = *openers(decode_any, codes_of), codes_of
    compare = edge_comparer(*how), value_comparer(decode_chars, decode_rows, *how)
    return Decoder(decode_chars, decode_rows, *compare, codes_of.plan, arrays)
