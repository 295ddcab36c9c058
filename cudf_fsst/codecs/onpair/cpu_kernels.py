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
from .prefixes import OTHER, find_by_trie, find_longest, try_four, try_nine, try_one, try_two

_CODE = np.uint64(4095)
_WORD = np.uint64(32)
#: Tiles encoded in turns.
_LANES = 4


def encode_scratch(tile_size: int) -> int:
    """Bytes of scratch that `encode_tiles` needs: 12 bits for every byte, and what a store may write beyond."""
    return _LANES * (tile_size + tile_size // 2 + 16)


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
def _finish(
    at: Any,
    end: int,
    readable: int,
    out: int,
    waiting: Any,
    have: Any,
    bits: Any,
    words: int,
    buckets: int,
    best: int,
    shift: Any,
    mask: Any,
    pairs: Any,
    edges: Any,
    limit: int,
) -> Any:
    """Encode the rest of a tile that ends at `end`; returns where its codes end, `limit` at most."""
    while at < end and out < limit:
        found = find_longest(at, end - at, words, buckets, best, shift, mask) if at + 16 <= readable else OTHER
        if found == OTHER:
            found = find_by_trie(at, end - at, pairs, edges)
        at += np.int64(found >> np.uint64(12)) + 1
        out, waiting, have = _put(found, out, waiting, have, bits)
    return out + ((np.int64(have) + 7) >> 3) if at >= end else limit


@njit()
def encode_tiles(
    chars: int,
    nbytes: int,
    tile_size: int,
    first: int,
    last: int,
    words: int,
    buckets: int,
    best: int,
    shift: Any,
    mask: Any,
    pairs: Any,
    edges: Any,
    code_bits: int,
    out: int,
    tile_lengths: int,
    block_ends: Any,
    scratch: int,
) -> int:
    """Encode tiles `first` to ``last - 1`` of the `nbytes` characters at an address; `first` starts a block.

    Four tiles are encoded in turns, symbol by symbol: a symbol's place depends on the length of the one before, so one
    tile alone waits for its look-ups. `out` has room for the tiles' bytes, `scratch` for `encode_scratch(tile_size)`
    bytes. Returns the bytes of the codes.
    """
    bits = np.uint64(code_bits)
    none = np.uint64(0)
    start = out
    room = tile_size + tile_size // 2 + 16
    readable = chars + nbytes
    for group in range(first, last, _LANES):
        a: Any = chars + group * tile_size
        b, c, d = a + tile_size, a + 2 * tile_size, a + 3 * tile_size
        to_a, to_b, to_c, to_d = scratch, scratch + room, scratch + 2 * room, scratch + 3 * room
        wait_a, wait_b, wait_c, wait_d = none, none, none, none
        have_a, have_b, have_c, have_d = none, none, none, none
        end_a = a + tile_size
        end_b, end_c, end_d = end_a + tile_size, end_a + 2 * tile_size, end_a + 3 * tile_size
        if group + _LANES <= last and end_d + 16 <= readable:
            while (a < end_a) & (b < end_b) & (c < end_c) & (d < end_d):
                left_a, low_a, high_a = np.uint64(end_a - a), load64(a), load64(a + 8)
                left_b, low_b, high_b = np.uint64(end_b - b), load64(b), load64(b + 8)
                left_c, low_c, high_c = np.uint64(end_c - c), load64(c), load64(c + 8)
                left_d, low_d, high_d = np.uint64(end_d - d), load64(d), load64(d + 8)
                is_a, found_a = try_nine(low_a, high_a, left_a, buckets, shift, mask)
                is_b, found_b = try_nine(low_b, high_b, left_b, buckets, shift, mask)
                is_c, found_c = try_nine(low_c, high_c, left_c, buckets, shift, mask)
                is_d, found_d = try_nine(low_d, high_d, left_d, buckets, shift, mask)
                found_a, size_a, base_a, word_a, by_a = try_four(
                    low_a, high_a, is_a, found_a, left_a, buckets, shift, mask
                )
                found_b, size_b, base_b, word_b, by_b = try_four(
                    low_b, high_b, is_b, found_b, left_b, buckets, shift, mask
                )
                found_c, size_c, base_c, word_c, by_c = try_four(
                    low_c, high_c, is_c, found_c, left_c, buckets, shift, mask
                )
                found_d, size_d, base_d, word_d, by_d = try_four(
                    low_d, high_d, is_d, found_d, left_d, buckets, shift, mask
                )
                found_a, size_a, base_a = try_two(found_a, size_a, base_a, word_a, by_a, left_a, buckets, shift, mask)
                found_b, size_b, base_b = try_two(found_b, size_b, base_b, word_b, by_b, left_b, buckets, shift, mask)
                found_c, size_c, base_c = try_two(found_c, size_c, base_c, word_c, by_c, left_c, buckets, shift, mask)
                found_d, size_d, base_d = try_two(found_d, size_d, base_d, word_d, by_d, left_d, buckets, shift, mask)
                found_a = try_one(low_a, high_a, found_a, size_a, base_a, left_a, words, buckets, best, shift, mask)
                found_b = try_one(low_b, high_b, found_b, size_b, base_b, left_b, words, buckets, best, shift, mask)
                found_c = try_one(low_c, high_c, found_c, size_c, base_c, left_c, words, buckets, best, shift, mask)
                found_d = try_one(low_d, high_d, found_d, size_d, base_d, left_d, words, buckets, best, shift, mask)
                if (found_a == OTHER) | (found_b == OTHER) | (found_c == OTHER) | (found_d == OTHER):
                    break
                a += np.int64(found_a >> np.uint64(12)) + 1
                to_a, wait_a, have_a = _put(found_a, to_a, wait_a, have_a, bits)
                b += np.int64(found_b >> np.uint64(12)) + 1
                to_b, wait_b, have_b = _put(found_b, to_b, wait_b, have_b, bits)
                c += np.int64(found_c >> np.uint64(12)) + 1
                to_c, wait_c, have_c = _put(found_c, to_c, wait_c, have_c, bits)
                d += np.int64(found_d >> np.uint64(12)) + 1
                to_d, wait_d, have_d = _put(found_d, to_d, wait_d, have_d, bits)
        for tile in range(group, min(group + _LANES, last)):
            lane = tile - group
            at = a if lane == 0 else b if lane == 1 else c if lane == 2 else d
            to = to_a if lane == 0 else to_b if lane == 1 else to_c if lane == 2 else to_d
            waiting = wait_a if lane == 0 else wait_b if lane == 1 else wait_c if lane == 2 else wait_d
            have = have_a if lane == 0 else have_b if lane == 1 else have_c if lane == 2 else have_d
            begin = chars + tile * tile_size
            expected = min(tile_size, nbytes - tile * tile_size)
            own = scratch + lane * room
            to = _finish(
                at,
                begin + expected,
                readable,
                to,
                waiting,
                have,
                bits,
                words,
                buckets,
                best,
                shift,
                mask,
                pairs,
                edges,
                own + expected,
            )
            size = to - own
            if size < expected:
                copy(out, own, size)
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
