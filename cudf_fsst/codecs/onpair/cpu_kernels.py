"""Numba kernels of OnPair's host side: tiles to codes and back (docs/format.md, section 23).

They take addresses and release the GIL. Decoding trusts nothing that is stored: damage is a return value, and no code
makes a read or write outside the bounds that are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.layout import TILE_BLOCK
from ..unaligned import copy, load8, load64, store8, store16, store64
from .groups import find_longest
from .trie import find_by_trie

_CODE = np.uint64(4095)
_WORD = np.uint64(32)
_ALL = np.uint64(16)


def encode_scratch(tile_size: int) -> int:
    """Bytes of scratch that `encode_tiles` needs: 12 bits for every byte, and what a store may write beyond."""
    return tile_size + tile_size // 2 + 16


@njit(inline="always")
def _put(found: Any, out: Any, waiting: Any, have: Any, bits: Any) -> tuple[Any, Any, Any]:
    """Write a code; returns where to go on. Fewer than 32 bits wait between two."""
    waiting |= (found & _CODE) << have
    have += bits
    # What waits is written each time; words that are not complete again later.
    store64(out, waiting)
    more = have >= _WORD
    return out + 4 * np.int64(more), waiting >> _WORD if more else waiting, have - _WORD if more else have


@njit()
def encode_tiles(
    chars: int,
    nbytes: int,
    tile_size: int,
    first: int,
    last: int,
    groups: Any,
    pairs: Any,
    edges: Any,
    code_bits: int,
    out: int,
    tile_lengths: int,
    block_ends: Any,
    scratch: int,
) -> int:
    """Encode tiles `first` to ``last - 1`` of the `nbytes` characters at an address; `first` starts a block.

    `groups`: `SymbolGroups.places`. `out` has room for the bytes of the tiles, `scratch` for `encode_scratch`
    bytes. Returns the bytes of the codes.
    """
    bits = np.uint64(code_bits)
    start = out
    readable = chars + nbytes - 16
    # Of symbols of 8 bytes and more, 4 and 3: the table, what hashes are shifted by, the last slot.
    e, e_by, e_last, f, f_by, f_last, t, t_by, t_last, pairs_at, chains = groups
    for tile in range(first, last):
        begin = chars + tile * tile_size
        expected = min(tile_size, nbytes - tile * tile_size)
        at: Any = begin
        end = begin + expected
        to: Any = scratch
        limit = scratch + expected
        waiting = have = np.uint64(0)
        while at <= end - 16:
            low, high = load64(at), load64(at + 8)
            found = find_longest(
                low, high, _ALL, False, e, e_by, e_last, f, f_by, f_last, t, t_by, t_last, pairs_at, chains
            )
            at += np.int64(found >> np.uint64(12)) + 1
            to, waiting, have = _put(found, to, waiting, have, bits)
        while at < end and to < limit:
            if at <= readable:
                low, high, left = load64(at), load64(at + 8), np.uint64(end - at)
                found = find_longest(
                    low, high, left, True, e, e_by, e_last, f, f_by, f_last, t, t_by, t_last, pairs_at, chains
                )
            else:
                found = find_by_trie(at, end - at, pairs, edges)
            at += np.int64(found >> np.uint64(12)) + 1
            to, waiting, have = _put(found, to, waiting, have, bits)
        size = to + ((np.int64(have) + 7) >> 3) - scratch if at >= end else expected
        if size < expected:
            copy(out, scratch, size)
        else:
            size = expected
            copy(out, begin, size)
        out += size
        if tile_size <= 256:
            store8(tile_lengths + tile, np.uint8(size - 1))
        else:
            store16(tile_lengths + 2 * tile, np.uint16(size - 1))
        if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
            block_ends[tile // TILE_BLOCK] = np.uint64(out - start)
    return out - start


@njit()
def decode_tile(at: int, end: int, out: Any, nbytes: int, limit: int, table: Any) -> bool:
    """Decode the codes at addresses `at` to `end` to the `nbytes` bytes at `out`; False where they do not fit.

    See `text.cpu_decode.decoder`. `table`: addresses of an `OnPairTable`'s ``words``, ``lengths`` and ``head``.
    """
    size = end - at
    words, lengths = table[0], table[1]
    bits = np.int64(load64(table[2]))
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    left = 8 * size // bits
    stop = out + nbytes
    place: Any = 0  # of the next code, in bits
    # A step of the fast loop takes 4 codes and writes at most 64 bytes.
    while left >= 4 and at + (place >> 3) + 8 <= end and out + 64 <= limit:
        window = load64(at + (place >> 3)) >> np.uint64(place & 7)
        for _ in range(4):
            code = np.int64(window & mask)
            store64(out, load64(words + 16 * code))
            store64(out + 8, load64(words + 16 * code + 8))
            out += np.int64(load8(lengths + code))
            window >>= np.uint64(bits)
        place += 4 * bits
        left -= 4
    while left > 0:
        window = np.uint64(0)
        for i in range(3):
            if at + (place >> 3) + i < end:
                window |= np.uint64(load8(at + (place >> 3) + i)) << np.uint64(8 * i)
        code = np.int64((window >> np.uint64(place & 7)) & mask)
        length = np.int64(load8(lengths + code))
        if length > stop - out:
            return False
        if out + 16 <= limit:
            store64(out, load64(words + 16 * code))
            store64(out + 8, load64(words + 16 * code + 8))
        else:
            copy(out, words + 16 * code, length)
        out += length
        place += bits
        left -= 1
    return out == stop


@njit()
def find_damage(codes: Any, tile_lengths: Any, table: Any, chars: int, tile_size: int) -> tuple[int, int]:
    """A reason (0: none) and the first tile whose codes do not decode to its bytes; the tile lengths were checked."""
    lengths = table[1]
    bits = np.int64(load64(table[2]))
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    at = codes
    for tile in range(tile_lengths.size):
        size: Any = np.int64(tile_lengths[tile]) + 1
        expected = min(tile_size, chars - tile * tile_size)
        if size != expected:
            count = 8 * size // bits
            if (count * bits + 7) >> 3 != size:
                return 1, tile
            decoded: Any = 0
            waiting = np.uint64(0)
            have: Any = 0
            for i in range(size):
                waiting |= np.uint64(load8(at + i)) << np.uint64(have)
                have += 8
                if have >= bits:
                    length = np.int64(load8(lengths + np.int64(waiting & mask)))
                    if length == 0:
                        return 2, tile
                    decoded += length
                    waiting >>= np.uint64(bits)
                    have -= bits
            if waiting != np.uint64(0):
                return 3, tile
            if decoded != expected:
                return 4, tile
        at += size
    return 0, 0
