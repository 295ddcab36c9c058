"""Numba kernels of OnPair's host side: tiles to codes and back (docs/format.md, section 23).

They take addresses and release the GIL. Decoding trusts nothing that is stored: damage is a return value, and no code
makes a read or write outside the bounds that are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.layout import TILE_BLOCK
from ..unaligned import copy, copy16, load8, load16, load64, move, store8, store16, store64
from .patricia import LONG_STEPS, enter_all, find_longest, go_on_all, is_open_all, leave, step_all

#: Tiles that are encoded in turns.
_LANES = 8
#: Of packing: codes of even and of odd places.
_EVEN, _ODD = np.uint64(0x00000FFF00000FFF), np.uint64(0x0FFF00000FFF0000)
# What a lane has: its next tile and its last one, where their codes go, and may go; room for what is found in a tile;
# where that tile's bytes are.
_NEXT, _LAST, _OUT, _LIMIT, _FOUND, _BEGIN = range(6)


#: Scratch of a lane, in tiles: codes of 16 bits, packed codes, bytes; behind each 16 bytes that are read or written.
_SCRATCH_TILES, _SCRATCH_MORE = 5, 48


def encode_scratch(tile_size: int) -> int:
    """Bytes of scratch that `encode_tiles` needs."""
    return _LANES * (_SCRATCH_TILES * tile_size + _SCRATCH_MORE)


@njit(inline="always")
def _four(codes: Any, bits: Any) -> Any:
    """Four codes of 16 bits, of which 12 count, as codes of `bits` bits."""
    pairs = codes & _EVEN | (codes & _ODD) >> (np.uint64(16) - bits)
    return pairs & np.uint64(0xFFFFFFFF) | pairs >> np.uint64(32) << (bits + bits)


@njit()
def _pack(codes: int, count: int, code_bits: int, out: int) -> None:
    """Write codes of 16 bits as codes of `code_bits` bits, 8 at a time: up to 16 bytes more than they have."""
    bits = np.uint64(code_bits)
    half = bits << np.uint64(2)
    for _ in range(0, count, 8):
        low, high = _four(load64(codes), bits), _four(load64(codes + 8), bits)
        store64(out, low | high << half)
        store64(out + 8, high >> (np.uint64(64) - half))
        codes += 16
        out += code_bits


@njit()
def _next_tile(
    lanes: Any, i: int, to: int, chars: int, nbytes: int, tile_size: int, bits: int, tile_lengths: int
) -> tuple[int, int, int]:
    """Store the tile of lane `i`: what is found in it ends at `to`, or 0: there is none yet.

    Returns where the next one begins and ends, 0 if there is none, and where what is found in it goes.
    """
    tile, found, out = lanes[i, _NEXT], lanes[i, _FOUND], lanes[i, _OUT]
    packed = found + 2 * tile_size + 16
    if to:
        expected = min(tile_size, nbytes - (tile - 1) * tile_size)
        count = (to - found) >> 1
        size = min((count * bits + 7) >> 3, expected)
        store64(to, np.uint64(0))
        store64(to + 8, np.uint64(0))
        if size == expected:
            copy(out, lanes[i, _BEGIN], size)
        elif out + size + 16 <= lanes[i, _LIMIT]:
            _pack(found, count, bits, out)
        else:
            _pack(found, count, bits, packed)
            copy(out, packed, size)
        lanes[i, _OUT] = out + size
        if tile_size <= 256:
            store8(tile_lengths + tile - 1, np.uint8(size - 1))
        else:
            store16(tile_lengths + 2 * (tile - 1), np.uint16(size - 1))
    if tile == lanes[i, _LAST]:
        return 0, 0, 0
    lanes[i, _NEXT] = tile + 1
    begin = chars + tile * tile_size
    size = min(tile_size, nbytes - tile * tile_size)
    if begin + size + 16 > chars + nbytes:  # 16 bytes behind it are read
        copied = packed + 2 * tile_size + 16
        copy(copied, begin, size)
        begin = copied
    lanes[i, _BEGIN] = begin
    return begin, begin + size, found


# Of four lanes: where they are (`at`), where their tiles end, where the next code goes (`to`), nodes of the trie.


@njit(inline="always")
def _write(at: int, end: int, to: int, node: Any, records: int) -> Any:
    """Write the code that a way ends at; where to go on."""
    found = leave(at, end - at, node, records)
    store16(to, np.uint16(found))
    return at + np.int64(found >> np.uint64(12)) + 1, to + 2


@njit(inline="always")
def _write_all(at: Any, ends: Any, to: Any, nodes: Any, records: int) -> Any:
    a, to_a = _write(at[0], ends[0], to[0], nodes[0], records)
    b, to_b = _write(at[1], ends[1], to[1], nodes[1], records)
    c, to_c = _write(at[2], ends[2], to[2], nodes[2], records)
    d, to_d = _write(at[3], ends[3], to[3], nodes[3], records)
    return (a, b, c, d), (to_a, to_b, to_c, to_d)


@njit(inline="always")
def _is_done(at: Any, ends: Any) -> Any:
    """Whether a lane is at the end of its tile."""
    return (at[0] == ends[0]) | (at[1] == ends[1]) | (at[2] == ends[2]) | (at[3] == ends[3])


@njit(inline="always")
def _next_of(at: int, end: int, to: int, lanes: Any, i: int, tiles: Any) -> tuple[int, int, int]:
    return _next_tile(lanes, i, to, *tiles) if at == end else (at, end, to)


@njit()
def _next_tiles(at: Any, ends: Any, to: Any, lanes: Any, first: int, tiles: Any) -> Any:
    """Give lanes whose tile is done another one; 0 where there is none. `first`: which lane the first one is."""
    a, end_a, to_a = _next_of(at[0], ends[0], to[0], lanes, first, tiles)
    b, end_b, to_b = _next_of(at[1], ends[1], to[1], lanes, first + 1, tiles)
    c, end_c, to_c = _next_of(at[2], ends[2], to[2], lanes, first + 2, tiles)
    d, end_d, to_d = _next_of(at[3], ends[3], to[3], lanes, first + 3, tiles)
    return (a, b, c, d), (end_a, end_b, end_c, end_d), (to_a, to_b, to_c, to_d)


@njit()
def encode_tiles(
    chars: int,
    nbytes: int,
    tile_size: int,
    first: int,
    last: int,
    trie: Any,
    bits: int,
    out: int,
    tile_lengths: int,
    block_ends: Any,
    scratch: int,
) -> int:
    """Encode tiles `first` to ``last - 1`` of the `nbytes` characters at an address; `first` starts a block.

    Each lane has a part of the tiles. All lanes take a step together: a symbol's place depends on the length of the one
    before, so one alone waits for what it looks up most of the time. `trie`: `PatriciaTrie.places`. `out` has room for
    the bytes of the tiles, `scratch` for `encode_scratch` bytes. Returns the bytes of the codes.
    """
    lanes = np.empty((_LANES, 6), np.int64)
    cuts = np.empty(_LANES + 1, np.int64)
    for i in range(_LANES + 1):
        cuts[i] = first + (last - first) * i // _LANES
    for i in range(_LANES):
        lanes[i, _NEXT], lanes[i, _LAST] = cuts[i], cuts[i + 1]
        lanes[i, _OUT] = out + (cuts[i] - first) * tile_size
        lanes[i, _LIMIT] = out + min(cuts[i + 1] * tile_size, nbytes) - first * tile_size
        lanes[i, _FOUND] = scratch + i * (_SCRATCH_TILES * tile_size + _SCRATCH_MORE)
    own = chars, nbytes, tile_size, bits, tile_lengths
    zero = np.int64(0)
    nowhere = zero, zero, zero, zero
    at, ends, to = _next_tiles(nowhere, nowhere, nowhere, lanes, 0, own)
    at_2, ends_2, to_2 = _next_tiles(nowhere, nowhere, nowhere, lanes, 4, own)
    edges, records, long = trie[3], trie[4], trie[8]
    running = min(at) != 0 and min(at_2) != 0
    while running:
        nodes, nodes_2 = enter_all(at, trie), enter_all(at_2, trie)
        if long:
            for _ in range(LONG_STEPS):
                nodes, nodes_2 = step_all(at, nodes, edges), step_all(at_2, nodes_2, edges)
        before, before_2 = step_all(at, nodes, edges), step_all(at_2, nodes_2, edges)
        nodes, nodes_2 = step_all(at, before, edges), step_all(at_2, before_2, edges)
        if is_open_all(before, nodes) | is_open_all(before_2, nodes_2):
            nodes, nodes_2 = go_on_all(at, before, nodes, trie), go_on_all(at_2, before_2, nodes_2, trie)
        at, to = _write_all(at, ends, to, nodes, records)
        at_2, to_2 = _write_all(at_2, ends_2, to_2, nodes_2, records)
        if _is_done(at, ends):
            at, ends, to = _next_tiles(at, ends, to, lanes, 0, own)
            running = running and min(at) != 0
        if _is_done(at_2, ends_2):
            at_2, ends_2, to_2 = _next_tiles(at_2, ends_2, to_2, lanes, 4, own)
            running = running and min(at_2) != 0
    end = out
    for i in range(_LANES):  # what is left of each, and all together
        place, stop, into = (at[i], ends[i], to[i]) if i < 4 else (at_2[i - 4], ends_2[i - 4], to_2[i - 4])
        while place:
            while place < stop:
                found = find_longest(place, stop - place, trie)
                store16(into, np.uint16(found))
                place += np.int64(found >> np.uint64(12)) + 1
                into += 2
            place, stop, into = _next_tile(lanes, i, into, *own)
        begin = out + (cuts[i] - first) * tile_size
        move(end, begin, lanes[i, _OUT] - begin)
        end += lanes[i, _OUT] - begin
    size: Any = 0
    for tile in range(first, last):
        if tile_size <= 256:
            size += np.int64(load8(tile_lengths + tile)) + 1
        else:
            size += np.int64(load16(tile_lengths + 2 * tile)) + 1
        if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
            block_ends[tile // TILE_BLOCK] = np.uint64(size)
    return size


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
            copy16(out, words + 16 * code)
            out += np.int64(load8(lengths + code))
            window >>= np.uint64(bits)
        place += 4 * bits
        left -= 4
    while left > 0:
        first = min(place >> 3, max(size - 8, 0))  # of eight bytes that have the code
        window = np.uint64(0)
        if size >= 8:
            window = load64(at + first)
        else:
            for i in range(size):
                window |= np.uint64(load8(at + i)) << np.uint64(8 * i)
        code = np.int64((window >> np.uint64(place - 8 * first)) & mask)
        length = np.int64(load8(lengths + code))
        if length > stop - out:
            return False
        if out + 16 <= limit:
            copy16(out, words + 16 * code)
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
