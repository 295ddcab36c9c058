"""Numba kernels of the FSST host side: encode tiles, decode a tile.

They take addresses, so one compiled version serves every kind of array, and release the GIL. Decoding trusts nothing
that is stored: every code, length and start is checked before a byte is read or written by it, and damage is a return
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.cpu_search_kernels import entry_of
from ..text.layout import TILE_BLOCK
from ..unaligned import copy, load8, load64, store8, store16, store64, trailing_zeros
from .automaton import COST_SHIFT
from .symbols import HASH_MULTIPLIER, HASH_SHIFT

_ESCAPE = np.uint64(255)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_MULTIPLIER = np.uint64(HASH_MULTIPLIER)
_SHIFT = np.uint64(HASH_SHIFT)

#: Tiles encoded in turns.
_LANES = 4


def encode_scratch(tile_size: int) -> int:
    """Bytes of scratch that `encode_tiles` needs: two codes for every byte, and what a store may write beyond."""
    return _LANES * (2 * tile_size + 16)


@njit(inline="always")
def slot_of(window: Any) -> int:
    """Slot of the encoder's table for the first three of some bytes; `symbols.hash_slot`, compiled."""
    return np.int64((((window & np.uint64(0xFFFFFF)) * _MULTIPLIER) & np.uint64(0xFFFFFFFF)) >> _SHIFT)


@njit(inline="always")
def _step(at: int, out: int, hash_symbols: Any, hash_meta: Any, pair_codes: Any, limit: Any) -> tuple[int, int]:
    """Encode one symbol where eight bytes are left, without a branch; returns where to go on."""
    window = load64(at)
    slot = slot_of(window)
    meta = np.uint64(hash_meta[slot])
    length = meta & np.uint64(0xFF)
    code = np.uint64(pair_codes[np.int64(window & np.uint64(0xFFFF))])
    hit = (window ^ hash_symbols[slot]) << (np.uint64(64) - (length << np.uint64(3))) == np.uint64(0)
    size = np.uint64(1) + np.uint64(code < limit)
    code = meta >> np.uint64(8) if hit else code
    size = length if hit else size
    store16(out, np.uint16(code | (window & np.uint64(0xFF)) << np.uint64(8)))
    return at + np.int64(size), out + 1 + np.int64(code == _ESCAPE)


@njit()
def _finish(
    at: int,
    end: int,
    nbytes: int,
    out: int,
    hash_symbols: Any,
    hash_meta: Any,
    pair_codes: Any,
    byte_codes: Any,
    limit: Any,
) -> int:
    """Encode the rest of a tile of `nbytes` bytes that ends at `end`; returns where its codes end."""
    while at + 8 <= end:
        at, out = _step(at, out, hash_symbols, hash_meta, pair_codes, limit)
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
        slot = slot_of(window)
        meta = np.uint64(hash_meta[slot])
        length = np.int64(meta & np.uint64(0xFF))
        code = np.uint64(pair_codes[np.int64(window & np.uint64(0xFFFF))])
        if length <= rest and (window ^ hash_symbols[slot]) << np.uint64(64 - 8 * length) == np.uint64(0):
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
    return out


@njit(inline="always")
def _store_length(lengths: int, tile: int, tile_size: int, size: int) -> None:
    """Write the `size` of a tile's codes at the address `lengths` of the section of tile lengths."""
    if tile_size <= 256:
        store8(lengths + tile, np.uint8(size - 1))
    else:
        store16(lengths + 2 * tile, np.uint16(size - 1))


@njit()
def encode_tiles(
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
    scratch: int,
) -> int:
    """Encode tiles `first` to ``last - 1`` of the characters at address `chars`; `first` starts a block.

    Four tiles are encoded in turns, symbol by symbol: a symbol's place depends on the length of the one before, so one
    tile alone waits for its table lookups most of the time. `out` has room for the tiles' bytes, `scratch` for
    `encode_scratch(tile_size)` bytes. Returns the bytes of the codes.
    """
    limit = np.uint64(two_byte_limit)
    start = out
    room = 2 * tile_size + 16
    for group in range(first, last, _LANES):
        a = chars + group * tile_size
        b = a + tile_size
        c = b + tile_size
        d = c + tile_size
        to_a = scratch
        to_b = to_a + room
        to_c = to_b + room
        to_d = to_c + room
        if d + tile_size <= chars_end and group + _LANES <= last:
            while (
                a + 8 <= chars + (group + 1) * tile_size
                and b + 8 <= chars + (group + 2) * tile_size
                and c + 8 <= chars + (group + 3) * tile_size
                and d + 8 <= chars + (group + 4) * tile_size
            ):
                a, to_a = _step(a, to_a, hash_symbols, hash_meta, pair_codes, limit)
                b, to_b = _step(b, to_b, hash_symbols, hash_meta, pair_codes, limit)
                c, to_c = _step(c, to_c, hash_symbols, hash_meta, pair_codes, limit)
                d, to_d = _step(d, to_d, hash_symbols, hash_meta, pair_codes, limit)
        for tile in range(group, min(group + _LANES, last)):
            lane = tile - group
            at = a if lane == 0 else b if lane == 1 else c if lane == 2 else d
            to = to_a if lane == 0 else to_b if lane == 1 else to_c if lane == 2 else to_d
            begin = chars + tile * tile_size
            end = min(begin + tile_size, chars_end)
            nbytes = end - begin
            to = _finish(at, end, nbytes, to, hash_symbols, hash_meta, pair_codes, byte_codes, limit)
            size = to - (scratch + lane * room)
            if size < nbytes:
                copy(out, scratch + lane * room, size)
            else:
                size = nbytes
                copy(out, begin, size)
            out += size
            _store_length(lengths, tile, tile_size, size)
            if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
                block_ends[tile // TILE_BLOCK] = np.uint64(out - start)
    return out - start


@njit()
def encode_tiles_max(
    chars: int,
    chars_end: int,
    tile_size: int,
    first: int,
    last: int,
    classes: Any,
    following: Any,
    entries: Any,
    symbol_lengths: Any,
    out: int,
    lengths: int,
    block_ends: Any,
) -> int:
    """Encode tiles, as `encode_tiles` does, with the fewest codes there can be (docs/format.md, section 6).

    A tile is read from its end, with the table's automaton. A key of a place is ``cost << COST_SHIFT`` and what to
    write there; `costs` holds ``(cost + 1) << COST_SHIFT`` of the places behind it.
    """
    unit = np.uint32(1 << COST_SHIFT)
    low = unit - np.uint32(1)
    costs = np.empty(tile_size + 8, np.uint32)
    choices = np.empty(tile_size, np.uint8)
    start = out
    for tile in range(first, last):
        begin = chars + tile * tile_size
        nbytes = min(tile_size, chars_end - begin)
        costs[nbytes : nbytes + 8] = unit
        state = np.int64(0)
        key = np.uint32(0)
        for i in range(nbytes - 1, -1, -1):
            state = np.int64(following[state, np.int64(classes[np.int64(load8(begin + i))])])
            key = costs[i + 1] + unit + low  # an escape: the last of all keys of its cost
            for k in range(8):
                key = min(key, costs[i + 1 + k] + np.uint32(entries[state, k]))
            choices[i] = np.uint8(key & np.uint32(0xFF))
            costs[i] = (key & ~low) + unit
        size = np.int64(key >> np.uint32(COST_SHIFT))
        if size >= nbytes:
            size = nbytes
            copy(out, begin, size)
            out += size
        else:
            i = 0
            while i < nbytes:
                code = choices[i]
                store8(out, code)
                out += 1
                i += np.int64(symbol_lengths[code])
                if code == 255:
                    store8(out, load8(begin + i))
                    out += 1
                    i += 1
        _store_length(lengths, tile, tile_size, size)
        if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
            block_ends[tile // TILE_BLOCK] = np.uint64(out - start)
    return out - start


@njit()
def decode_tile(at: int, end: int, out: int, nbytes: int, limit: int, table: tuple[int, int, int]) -> bool:
    """Decode a tile that is not raw; see `text.cpu_decode.decoder`."""
    symbols, symbol_lengths, _ = table
    stop = out + nbytes
    # A step of the fast loop consumes 8 codes and writes at most 64 bytes.
    while at + 8 <= end and out + 64 <= limit:
        window = load64(at)
        inverse = ~window
        escapes = (inverse - _ONES) & window & _HIGH  # the lowest bit is right: it marks the first byte 0xFF
        if escapes == np.uint64(0):
            for _ in range(8):
                code = np.int64(window & np.uint64(0xFF))
                store64(out, load64(symbols + 8 * code))
                out += np.int64(load8(symbol_lengths + code))
                window >>= np.uint64(8)
            at += 8
        else:
            count = trailing_zeros(escapes) >> 3
            for _ in range(count):
                code = np.int64(window & np.uint64(0xFF))
                store64(out, load64(symbols + 8 * code))
                out += np.int64(load8(symbol_lengths + code))
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
            length = np.int64(load8(symbol_lengths + code))
            if out + 8 <= limit:
                store64(out, load64(symbols + 8 * code))
            elif out + length <= limit:
                symbol = load64(symbols + 8 * code)
                for i in range(length):
                    store8(out + i, np.uint8((symbol >> np.uint64(8 * i)) & np.uint64(0xFF)))
            else:
                return False
            out += length
    return out == stop


@njit()
def lift_codes(following: Any, accepts: Any, classes: Any, symbols: Any, symbol_lengths: Any, entries: Any) -> None:
    """Make the automaton that reads a table's codes, as `text.cpu_search_kernels` has it: uint64[3 * states, 256]."""
    states = accepts.size
    for state in range(states):
        for code in range(256):
            at = state
            ends = 0
            length = np.int64(symbol_lengths[code])
            for place in range(length):
                byte = np.int64((symbols[code] >> np.uint64(8 * place)) & np.uint64(0xFF))
                at = np.int64(following[at, byte])
                found = np.int64(accepts[at] | classes[byte])
                ends |= (found & 1 | (found & 2) << 7) << place
            entries[state, code] = entry_of(states + state if code == 255 else at, length, ends)
            at = np.int64(following[state, code])
            found = np.int64(accepts[at] | classes[code])
            ends = found & 1 | (found & 2) << 7
            entries[states + state, code] = entry_of(at, 1, ends)
            entries[2 * states + state, code] = entry_of(2 * states + at, 1, ends)
