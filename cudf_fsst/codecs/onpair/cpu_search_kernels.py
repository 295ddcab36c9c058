"""Numba kernels that search the codes of a segment, of 10 to 12 bits each, and set bits where matches end.

They do for OnPair what ``text/cpu_search_kernels.py`` does for codes of a byte. It says what windows, planes and lanes
are. Here a lane unpacks the codes of a batch of tiles first. A byte of a raw tile is the code of that byte, so one
automaton serves all tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.cpu_search_kernels import AUTOMATON, BEHIND, LANES, STATES, runners
from ..unaligned import load8, load16, load32, load64, store16, store32, store64

# What `lift` makes begins with the bits of a code. Entries follow, one for each state and code, then for each of them
# the bits that are set where a match ends behind a byte of the symbol: 16 of the first plane, 16 of the second one.
#
# An entry has, from its lowest bit: the next state, shifted by the bits of a code; whether a match ends in the symbol;
# and the symbol's bytes. Entries of a batch are summed up. No field's sum reaches the next field.
_STATE_BITS = np.uint64((1 << 18) - 1)
_FOUND_SHIFT = np.uint64(28)
_LENGTH_SHIFT = np.uint64(40)
_FOUND_BITS = np.uint64((1 << 40) - (1 << 28))
_PLANE = np.uint64(0xFFFF)

# State of a lane, by place in an array, as text/cpu_search_kernels.py has it.
_TILE, _BATCH, _LAST, _AT, _TO, _LEFT, _STATE, _TOTAL = range(8)
#: Codes that `unpack` may write behind those of a tile.
SPARE = 7
# Codes with bits in a tile, up to which they are searched for.
_FEW = 2


@njit()
def lift_codes(following: Any, accepts: Any, classes: Any, words: Any, lengths: Any, bits: int, lifted: Any) -> None:
    """Make the automaton that reads a table's codes, of one that reads bytes (`text.search.Automaton`).

    Parameters
    ----------
    following, accepts, classes : ndarray of uint8
        Of that one.
    words : ndarray of uint64, (2^bits, 2)
    lengths : ndarray of uint8, (2^bits,)
    bits : int
        Of a code.
    lifted : ndarray of uint64, (1 + states * 2^bits * 3 / 2,)
    """
    states = np.int64(accepts.size)
    lifted[0] = np.uint64(bits)
    entries = np.int64(lifted.ctypes.data) + 8
    all_ends = entries + 8 * (states << bits)
    symbol = np.empty(16, np.int64)
    reached = np.empty(16, np.int64)  # state 0 leads to these
    for code in range(1 << bits):
        length = np.int64(lengths[code])
        first, first_ends = np.int64(0), np.int64(0)
        for place in range(length):
            byte = np.int64((words[code, place >> 3] >> np.uint64(8 * (place & 7))) & np.uint64(0xFF))
            first = np.int64(following[first, byte])
            symbol[place], reached[place] = byte, first
            found = np.int64(accepts[first] | classes[byte])
            first_ends |= (found & 1 | (found & 2) << 15) << place
        for state in range(states):
            at, ends = np.int64(state), np.int64(0)
            for place in range(length):
                byte = symbol[place]
                at = np.int64(following[at, byte])
                if at == reached[place]:  # and so does every byte from here on
                    found = np.int64(accepts[at] | classes[byte])
                    keep = np.int64(0xFFFF) >> place << place
                    ends |= first_ends & (keep | keep << 16)
                    at = first
                    break
                found = np.int64(accepts[at] | classes[byte])
                ends |= (found & 1 | (found & 2) << 15) << place
            entry = np.uint64(at << bits) | np.uint64(length) << _LENGTH_SHIFT
            entry |= np.uint64(ends != 0) << _FOUND_SHIFT
            store64(entries + 8 * (state << bits | code), entry)
            store32(all_ends + 4 * (state << bits | code), np.uint32(ends))


@njit(inline="always")
def codes_of(size: int, nbytes: int, bits: int) -> int:
    """How many codes a tile of `nbytes` bytes has whose codes are `size` bytes."""
    return size if size == nbytes else 8 * size // bits


@njit(inline="always")
def _spread(window: Any, bits: int) -> Any:
    """Four codes of `bits` bits, the lowest of a word, as codes of 16 bits."""
    wide = np.uint64(bits)
    single = (np.uint64(1) << wide) - np.uint64(1)
    double = (np.uint64(1) << (wide + wide)) - np.uint64(1)
    pairs = window & double | (window >> (wide + wide) & double) << np.uint64(32)
    ones = single | single << np.uint64(32)
    return pairs & ones | (pairs >> wide & ones) << np.uint64(16)


@njit()
def unpack(at: int, size: int, nbytes: int, end: int, bits: int, out: int) -> None:
    """Write the codes of a tile to `out`, two bytes each, as many as `codes_of` says, and up to `SPARE` of any value.

    They begin at address `at`, and are `size` bytes. No byte from `end` on is read, where all codes end.
    """
    if size == nbytes:  # raw
        for i in range(size):
            store16(out + 2 * i, np.uint16(load8(at + i)))
        return
    count = 8 * size // bits
    # Eight codes are `bits` bytes.
    half, shift = bits >> 1, np.uint64(4 * bits & 7)
    i = 0
    while i < count and at + half + 8 <= end:
        store64(out + 2 * i, _spread(load64(at), bits))
        store64(out + 2 * i + 8, _spread(load64(at + half) >> shift, bits))
        at += bits
        i += 8
    size -= i * bits >> 3
    mask, place = (np.uint64(1) << np.uint64(bits)) - np.uint64(1), 0
    while i < count:
        window = np.uint64(0)
        for k in range(3):
            if (place >> 3) + k < size:
                window |= np.uint64(load8(at + (place >> 3) + k)) << np.uint64(8 * k)
        store16(out + 2 * i, np.uint16(window >> np.uint64(place & 7) & mask))
        place += bits
        i += 1


_run, _run_in_turns = runners(load16, 2, _STATE_BITS)


@njit()
def _mark(plane: int, place: int, ends: Any) -> None:
    """Set the bits of a symbol that begins at bit `place`. Four bytes from that of the bit on can be written."""
    at = plane + (place >> 3)
    bits = np.uint64(load32(at)) | (ends & _PLANE) << np.uint64(place & 7)
    store32(at, np.uint32(bits))


@njit(inline="always")
def _ends_of(sums: int, codes: int, j: int, ends: int) -> Any:
    """Bits of code `j`. The two sums before the first one are those that its state follows from."""
    last = load64(sums + 8 * j - 8)
    state = np.int64((last - load64(sums + 8 * j - 16)) & _STATE_BITS)
    return np.uint64(load32(ends + 4 * (state | np.int64(load16(codes + 2 * j)))))


@njit()
def _fill(sums: int, codes: int, count: int, ends: int, plane: int, second: int) -> None:
    """Write the bits of a tile, 32 at once. The tile begins at a multiple of 32 bits."""
    bits, bits_too, used = np.uint64(0), np.uint64(0), np.uint64(0)
    for j in range(count):
        found = _ends_of(sums, codes, j, ends)
        bits |= (found & _PLANE) << used
        bits_too |= (found >> np.uint64(16)) << used
        used += (load64(sums + 8 * j) - load64(sums + 8 * j - 8)) >> _LENGTH_SHIFT
        if used >= np.uint64(32):
            store32(plane, np.uint32(bits & np.uint64(0xFFFFFFFF)))
            if second:
                store32(plane + second, np.uint32(bits_too & np.uint64(0xFFFFFFFF)))
            plane += 4
            bits >>= np.uint64(32)
            bits_too >>= np.uint64(32)
            used -= np.uint64(32)
    if used > np.uint64(0):  # the last tile of a segment
        store32(plane, np.uint32(bits))
        if second:
            store32(plane + second, np.uint32(bits_too))


@njit()
def _mark_some(sums: int, codes: int, count: int, hits: int, ends: int, plane: int, second: int) -> None:
    """Set the bits of the `hits` codes of a tile that have any; where these are is looked up by halving."""
    before = load64(sums - 8)
    target = before & _FOUND_BITS
    for _ in range(hits):
        at, left = np.int64(0), count
        while left > 1:  # the first sum with more than `target`
            half = left >> 1
            at += half * np.int64((load64(sums + 8 * (at + half) - 8) & _FOUND_BITS) <= target)
            left -= half
        bits = _ends_of(sums, codes, at, ends)
        place = np.int64((load64(sums + 8 * at - 8) - before) >> _LENGTH_SHIFT)
        _mark(plane, place, bits)
        if second:
            _mark(plane + second, place, bits >> np.uint64(16))
        target = load64(sums + 8 * at) & _FOUND_BITS


@njit()
def _open_batch(
    lanes: Any, i: int, tiles: Any, first: int, places: Any, batch: int, bits: int, codes: int, sums: int
) -> int:
    """Let a lane begin a batch of at most `batch` codes; returns -1, or a tile without a code."""
    begin, end, chars, tile_size = tiles[0], tiles[0] + tiles[1], tiles[4], tiles[5]
    tile = lanes[i, _BATCH]
    lanes[i, _TILE], lanes[i, _AT], lanes[i, _TO], lanes[i, _TOTAL] = tile, codes, sums, 0
    # Such that the state of the first code is what its sums say.
    store64(sums - 16, np.uint64(0) - np.uint64(lanes[i, _STATE]))
    store64(sums - 8, np.uint64(0))
    count = np.int64(0)
    while tile < lanes[i, _LAST]:
        position = places[tile - first]
        size, nbytes = places[tile - first + 1] - position, min(tile_size, chars - tile * tile_size)
        more = codes_of(size, nbytes, bits)
        if more == 0:
            return tile
        if count + more > batch:
            break
        unpack(begin + position, size, nbytes, end, bits, codes + 2 * count)
        count += more
        tile += 1
    lanes[i, _BATCH], lanes[i, _LEFT] = tile, count
    return -1


@njit()
def _close_batch(
    lanes: Any,
    i: int,
    tiles: Any,
    first: int,
    places: Any,
    bits: int,
    codes: int,
    sums: int,
    ends: int,
    plane: int,
    second: int,
) -> tuple[bool, int]:
    """Write the bits of a batch's tiles; returns whether there are any, and -1 or a tile that is damaged."""
    chars, tile_size = tiles[4], tiles[5]
    marked: Any = False
    for tile in range(lanes[i, _TILE], lanes[i, _BATCH]):
        nbytes = min(tile_size, chars - tile * tile_size)
        count = codes_of(places[tile - first + 1] - places[tile - first], nbytes, bits)
        before, total = load64(sums - 8), load64(sums + 8 * count - 8)
        if np.int64((total - before) >> _LENGTH_SHIFT) != nbytes:
            return False, tile
        found = np.int64(((total - before) & _FOUND_BITS) >> _FOUND_SHIFT)
        to = plane + (tile - first) * tile_size // 8
        if found > _FEW:
            _fill(sums, codes, count, ends, to, second)
        elif found > 0:
            _mark_some(sums, codes, count, found, ends, to, second)
        marked = marked or found > 0
        sums += 8 * count
        codes += 2 * count
    return marked, -1


@njit()
def _run_on(codes: int, count: int, state: Any, behind: int, entries: int, ends: int, plane: int, second: int) -> None:
    """Run over codes of a tile until the state is 0 or `behind` characters are read, and set their bits."""
    place: Any = 0
    for i in range(count):
        if state == 0 or place >= behind:
            break
        index = state | np.int64(load16(codes + 2 * i))
        entry = load64(entries + 8 * index)
        if entry & _FOUND_BITS:
            bits = np.uint64(load32(ends + 4 * index))
            _mark(plane, place, bits)
            if second:
                _mark(plane + second, place, bits >> np.uint64(16))
        place += np.int64(entry >> _LENGTH_SHIFT)
        state = np.int64(entry & _STATE_BITS)


@njit()
def search_window(
    tiles: Any,
    first: int,
    last: int,
    places: Any,
    lanes: Any,
    search: Any,
    state: int,
    room: Any,
    plane: int,
    second: int,
) -> tuple[int, bool, int]:
    """Set the bits of one search in a window: `text.cpu_search_kernels.search_window` for these codes."""
    begin, end, chars, tile_size = tiles[0], tiles[0] + tiles[1], tiles[4], tiles[5]
    bits = np.int64(load64(search[AUTOMATON]))
    entries, behind = search[AUTOMATON] + 8, search[BEHIND]
    ends = entries + 8 * (search[STATES] << bits)
    batch, row = room.shape[1] - 2, 8 * room.shape[1]
    sums = np.int64(room.ctypes.data) + 16
    unpacked = np.empty((LANES, batch + SPARE), np.uint16)
    codes, codes_row = np.int64(unpacked.ctypes.data), 2 * (batch + SPARE)
    count = last - first
    used = LANES if count >= 4 * LANES else 1
    tile = first
    for i in range(used):
        lanes[i, _BATCH] = tile
        lanes[i, _STATE] = state if i == 0 else 0
        # About as many bytes of codes for each, and a tile at least.
        share = places[0] + (i + 1) * (places[count] - places[0]) // used
        tile += 1
        while tile < last + i + 1 - used and places[tile - first] < share:
            tile += 1
        lanes[i, _LAST] = tile
        bad = _open_batch(lanes, i, tiles, first, places, batch, bits, codes + codes_row * i, sums + row * i)
        if bad >= 0:
            return 0, False, bad
    marked = False
    alone = used == 1
    current = 0
    while current < used:
        if alone:
            count = lanes[current, _LEFT]
            _run(lanes, current, count, entries)
        else:
            count = min(lanes[0, _LEFT], lanes[1, _LEFT], lanes[2, _LEFT], lanes[3, _LEFT])
            _run_in_turns(lanes, count, entries)
        for i in range(current, current + 1 if alone else LANES):
            lanes[i, _AT] += 2 * count
            lanes[i, _TO] += 8 * count
            lanes[i, _LEFT] -= count
            if lanes[i, _LEFT] > 0:
                continue
            mine, to = codes + codes_row * i, sums + row * i
            found, bad = _close_batch(lanes, i, tiles, first, places, bits, mine, to, ends, plane, second)
            if bad >= 0:
                return 0, False, bad
            marked = marked or found
            if lanes[i, _BATCH] < lanes[i, _LAST]:
                bad = _open_batch(lanes, i, tiles, first, places, batch, bits, mine, to)
                if bad >= 0:
                    return 0, False, bad
            else:
                alone = True
        while alone and current < used and lanes[current, _LEFT] == 0:
            current += 1
    for i in range(used - 1):
        state = lanes[i, _STATE]
        if behind > 0 and state > 0:
            tile = lanes[i, _LAST]
            codes = np.int64(unpacked.ctypes.data)  # here, too: Numba frees an array behind the last use of it
            position = places[tile - first]
            size, nbytes = places[tile - first + 1] - position, min(tile_size, chars - tile * tile_size)
            unpack(begin + position, size, nbytes, end, bits, codes)
            count = codes_of(size, nbytes, bits)
            to = plane + (tile - first) * tile_size // 8
            _run_on(codes, count, state, behind, entries, ends, to, second)
    return lanes[used - 1, _STATE], marked, -1
