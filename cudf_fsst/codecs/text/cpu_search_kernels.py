"""Numba kernels that search the codes of a segment, a byte each, and set bits where matches end.

They take addresses, as those of ``cpu_kernels.py`` do, release the GIL, and trust nothing that is stored.

A segment is searched in *windows*: consecutive tiles, whose planes stay in the CPU's cache. Bit i of a plane is
character i of the window. The automata go on into the next window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load64, store8, store64
from .cpu_places_kernels import tile_length
from .layout import TILE_BLOCK

#: Parts of a window that are searched in turns.
LANES = 4
#: Codes of consecutive tiles, all raw or none, that a lane runs over at once, where a tile has not more.
BATCH = 512

# An entry of an automaton of codes has, from its lowest byte: a bit for every byte of the symbol, set where a match of
# the first plane ends, the next state, and such bits of the second plane; then whether there is any such bit, and the
# bytes of the symbol. Entries of a batch are summed up, and no field's sum reaches the fields that are read of it: the
# last two. States come three times: in the second part the next byte stands for itself, behind an escape; in the third
# one so do all, in raw tiles. So one lookup a code does for every kind of tile.
_STATE_BITS = np.uint64(0xFF00)
_SECOND_SHIFT = np.uint64(16)
_FOUND_SHIFT = np.uint64(34)
_LENGTH_SHIFT = np.uint64(45)
_FOUND_BITS = np.uint64((1 << 45) - (1 << 34))
_LOW = np.uint64(0xFF)

# State of a lane, by place in an array: the first tile of its batch, of the next one, and of the next lane; the
# address of its next code, where this code's sum of entries goes, and the codes left in the batch; its state, shifted
# as in an entry, and the sum of entries.
_TILE, _BATCH, _LAST, _AT, _TO, _LEFT, _STATE, _TOTAL = range(8)
LANE_FIELDS = 8
# Codes with bits in a tile, up to which they are searched for.
_FEW = 2

# State of the window that is open: the first tile behind it, where its codes begin, the characters of the window,
# then of every search its state, and whether any window had bits.
NEXT, POSITION, BEGIN, END = range(4)
KEPT = 4

# State of a search, by place in an array: the address of its automaton, the states of that, for how many
# characters a lane runs on, and its planes.
AUTOMATON, STATES, BEHIND, PLANES = range(4)


@njit(inline="always")
def entry_of(state: int, length: int, ends: int) -> Any:
    """An entry; `ends`: bits of both planes, a byte each."""
    entry = np.uint64(ends & 0xFF | state << 8 | ends >> 8 << 16)
    return entry | np.uint64(ends != 0) << _FOUND_SHIFT | np.uint64(length) << _LENGTH_SHIFT


@njit()
def lift_bytes(following: Any, accepts: Any, classes: Any, entries: Any) -> None:
    """Make the automaton that reads raw tiles in the form above; what it has for other tiles is left as it is."""
    states = accepts.size
    for state in range(states):
        for byte in range(256):
            at = np.int64(following[state, byte])
            found = np.int64(accepts[at] | classes[byte])
            entries[2 * states + state, byte] = entry_of(2 * states + at, 1, found & 1 | (found & 2) << 7)


# --- search ---------------------------------------------------------------------------------------------------------


@njit()
def first_position(tiles: Any, tile: int) -> int:
    """Where the codes of a tile begin, or ``-1 - tile`` of one that is damaged."""
    _, codes_nbytes, block_starts, lengths, _, tile_size = tiles
    block = tile // TILE_BLOCK
    position = np.int64(load64(block_starts + 8 * block))
    if position < 0 or position > codes_nbytes:
        return -1 - tile
    for before in range(block * TILE_BLOCK, tile):
        length = tile_length(lengths, tile_size, before)
        if length > tile_size or length > codes_nbytes - position:
            return -1 - before
        position += length
    return position


@njit()
def _place_tiles(tiles: Any, first: int, last: int, places: Any) -> int:
    """Check the lengths of a window's tiles, and write where their codes begin behind those of the first one.

    ``places[0]`` is known. Returns -1, or a tile that is damaged.
    """
    _, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
    position = places[0]
    for tile in range(first, last):
        length = tile_length(lengths, tile_size, tile)
        if length > min(tile_size, chars - tile * tile_size) or length > codes_nbytes - position:
            return tile
        position += length
        places[tile - first + 1] = position
        ends_block = (tile + 1) % TILE_BLOCK == 0 or (tile + 1) * tile_size >= chars
        if ends_block and position != np.int64(load64(block_starts + 8 * (tile // TILE_BLOCK + 1))):
            return tile
    return -1


def runners(load: Any, nbytes: int, state_bits: Any) -> tuple[Any, Any]:
    """Make what runs over the codes of a lane, and what does over those of all, of so many bytes as `load` reads.

    `state_bits`: those of an entry that are the next state.
    """

    @njit()
    def run(lanes: Any, i: int, count: int, automaton: int) -> None:
        """Run over the next codes of a lane, and write the sums of their entries."""
        at, to, state, total = lanes[i, _AT], lanes[i, _TO], lanes[i, _STATE], np.uint64(lanes[i, _TOTAL])
        for j in range(count):
            entry = load64(automaton + 8 * (state | np.int64(load(at + nbytes * j))))
            total += entry
            store64(to + 8 * j, total)
            state = np.int64(entry & state_bits)
        lanes[i, _STATE], lanes[i, _TOTAL] = state, np.int64(total)

    @njit()
    def run_in_turns(lanes: Any, count: int, automaton: int) -> None:
        """Run over the next codes of all lanes.

        A state depends on the one before, so one lane alone waits for its lookups most of the time: on a Zen 4, a code
        takes 1.9 ns in one lane and 0.58 ns in four. More lanes lack registers.
        """
        at_a, to_a, state_a, total_a = lanes[0, _AT], lanes[0, _TO], lanes[0, _STATE], np.uint64(lanes[0, _TOTAL])
        at_b, to_b, state_b, total_b = lanes[1, _AT], lanes[1, _TO], lanes[1, _STATE], np.uint64(lanes[1, _TOTAL])
        at_c, to_c, state_c, total_c = lanes[2, _AT], lanes[2, _TO], lanes[2, _STATE], np.uint64(lanes[2, _TOTAL])
        at_d, to_d, state_d, total_d = lanes[3, _AT], lanes[3, _TO], lanes[3, _STATE], np.uint64(lanes[3, _TOTAL])
        for i in range(count):
            entry = load64(automaton + 8 * (state_a | np.int64(load(at_a + nbytes * i))))
            total_a += entry
            store64(to_a + 8 * i, total_a)
            state_a = np.int64(entry & state_bits)
            entry = load64(automaton + 8 * (state_b | np.int64(load(at_b + nbytes * i))))
            total_b += entry
            store64(to_b + 8 * i, total_b)
            state_b = np.int64(entry & state_bits)
            entry = load64(automaton + 8 * (state_c | np.int64(load(at_c + nbytes * i))))
            total_c += entry
            store64(to_c + 8 * i, total_c)
            state_c = np.int64(entry & state_bits)
            entry = load64(automaton + 8 * (state_d | np.int64(load(at_d + nbytes * i))))
            total_d += entry
            store64(to_d + 8 * i, total_d)
            state_d = np.int64(entry & state_bits)
        lanes[0, _STATE], lanes[0, _TOTAL] = state_a, np.int64(total_a)
        lanes[1, _STATE], lanes[1, _TOTAL] = state_b, np.int64(total_b)
        lanes[2, _STATE], lanes[2, _TOTAL] = state_c, np.int64(total_c)
        lanes[3, _STATE], lanes[3, _TOTAL] = state_d, np.int64(total_d)

    return run, run_in_turns


_run, _run_in_turns = runners(load8, 1, _STATE_BITS)


@njit()
def _fill(before: Any, sums: int, end: int, plane: int, limit: int, shift: Any) -> None:
    """Write bits of codes from a byte on, by the sums of their entries, which end at `end`.

    `before` is the sum before them, and `shift` says which byte of an entry has the plane's bits. Behind the bits up
    to eight bytes become 0, but none from `limit` on.
    """
    bits = np.uint64(0)
    used = np.uint64(0)
    while sums < end:  # at most 7 bits of the step before, and 7 symbols of at most 8 bytes
        stop = min(sums + 56, end)
        if stop == sums + 56:
            for i in range(7):
                total = load64(sums + 8 * i)
                entry = total - before
                before = total
                bits |= ((entry >> shift) & _LOW) << used
                used += entry >> _LENGTH_SHIFT
        else:
            for at in range(sums, stop, 8):
                total = load64(at)
                entry = total - before
                before = total
                bits |= ((entry >> shift) & _LOW) << used
                used += entry >> _LENGTH_SHIFT
        sums = stop
        whole: Any = np.int64(used >> np.uint64(3))
        if plane + 8 <= limit:
            store64(plane, bits)
        else:
            for i in range(min(whole + 1, limit - plane)):
                store8(plane + i, np.uint8((bits >> np.uint64(8 * i)) & _LOW))
        plane += whole
        bits >>= used & ~np.uint64(7)
        used &= np.uint64(7)


@njit()
def _mark(plane: int, place: int, ends: int) -> None:
    """Set the bits of a symbol that begins at bit `place`."""
    at = plane + (place >> 3)
    ends <<= place & 7
    store8(at, np.uint8(load8(at) | np.uint8(ends & 0xFF)))
    if ends >> 8:
        store8(at + 1, np.uint8(load8(at + 1) | np.uint8(ends >> 8)))


@njit()
def _mark_some(before: Any, sums: int, count: int, hits: int, plane: int, second: int) -> None:
    """Set the bits of the `hits` codes of a tile that have any; where these are is looked up by halving."""
    target = before & _FOUND_BITS
    for _ in range(hits):
        at, left = sums, count
        while left > 1:  # the first sum with more than `target`
            half = left >> 1
            at += 8 * half * np.int64((load64(at + 8 * half - 8) & _FOUND_BITS) <= target)
            left -= half
        last = load64(at - 8) if at > sums else before
        entry = load64(at) - last
        place = np.int64((last - before) >> _LENGTH_SHIFT)
        _mark(plane, place, np.int64(entry & _LOW))
        if second:
            _mark(plane + second, place, np.int64((entry >> _SECOND_SHIFT) & _LOW))
        target = load64(at) & _FOUND_BITS


@njit()
def _run_on(at: int, count: int, state: int, idle: int, behind: int, automaton: int, plane: int, second: int) -> None:
    """Run over codes of a tile until the state is `idle` or `behind` characters are read, and set their bits."""
    place = 0
    for i in range(count):
        if state == idle or place >= behind:
            break
        entry = load64(automaton + 8 * (state | np.int64(load8(at + i))))
        if entry & _FOUND_BITS:
            _mark(plane, place, np.int64(entry & _LOW))
            if second:
                _mark(plane + second, place, np.int64((entry >> _SECOND_SHIFT) & _LOW))
        place += np.int64(entry >> _LENGTH_SHIFT)
        state = np.int64(entry & _STATE_BITS)


@njit()
def _open_batch(lanes: Any, i: int, tiles: Any, first: int, places: Any, batch: int, to: int, raw: int) -> None:
    """Let a lane begin a batch of at most `batch` codes, with its state as one for codes or for bytes."""
    chars, tile_size = tiles[4], tiles[5]
    begin = lanes[i, _BATCH]
    tile = begin
    position = places[begin - first]
    kind = places[begin - first + 1] - position == min(tile_size, chars - begin * tile_size)
    while tile < lanes[i, _LAST] and places[tile - first + 1] - position <= batch:
        length = places[tile - first + 1] - places[tile - first]
        if (length == min(tile_size, chars - tile * tile_size)) != kind:
            break
        tile += 1
    lanes[i, _TILE], lanes[i, _BATCH] = begin, tile
    lanes[i, _TO], lanes[i, _TOTAL] = to, 0
    lanes[i, _LEFT] = places[tile - first] - position
    if kind:
        lanes[i, _STATE] += raw


@njit()
def _close_batch(
    lanes: Any, i: int, tiles: Any, first: int, places: Any, sums: int, raw: int, plane: int, second: int
) -> tuple[bool, int]:
    """Write the bits of a batch's tiles; returns whether there are any, and -1 or a tile that is damaged.

    A bit that is set at once, in a branch, costs a misprediction: "e" took 169 ms in l_comment, now 78.
    """
    chars, tile_size = tiles[4], tiles[5]
    if lanes[i, _STATE] >= raw:
        lanes[i, _STATE] -= raw
    limit = plane + (lanes[i, _LAST] - first) * tile_size // 8
    marked = False
    before = np.uint64(0)
    run, run_sums, run_before = np.int64(-1), sums, before  # tiles with many bits, from this one on
    for tile in range(lanes[i, _TILE], lanes[i, _BATCH] + 1):
        many, found, count, total = False, 0, 0, before
        if tile < lanes[i, _BATCH]:
            count = places[tile - first + 1] - places[tile - first]
            total = load64(sums + 8 * count - 8)
            state = np.int64((total - (load64(sums + 8 * count - 16) if count > 1 else before)) & _STATE_BITS)
            nbytes = np.int64((total - before) >> _LENGTH_SHIFT)
            if nbytes != min(tile_size, chars - tile * tile_size) or raw <= 2 * state < 2 * raw:
                return False, tile
            found = np.int64(((total - before) & _FOUND_BITS) >> _FOUND_SHIFT)
            many = found > _FEW
            marked = marked or found > 0
        if run >= 0 and not many:
            to = plane + (run - first) * tile_size // 8
            _fill(run_before, run_sums, sums, to, limit, np.uint64(0))
            if second:
                _fill(run_before, run_sums, sums, to + second, limit + second, _SECOND_SHIFT)
            run = np.int64(-1)
        if many:
            if run < 0:
                run, run_sums, run_before = tile, sums, before
        elif found > 0:
            _mark_some(before, sums, count, found, plane + (tile - first) * tile_size // 8, second)
        before = total
        sums += 8 * count
    return marked, -1


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
    """Set the bits of one search in a window, in planes that are zero.

    Lanes begin in state 0, the first one in that of the window before. Each runs on into the next lane for as many
    characters as a match can have there, so that a match is found by the lane that it begins in.

    Parameters
    ----------
    room : ndarray of uint64, (LANES, codes of a batch and 2)
        For sums of entries.
    plane, second
        Address of the first plane, and how far behind it the second one is (0: there is none).

    Returns
    -------
    tuple
        The state behind the window, whether there are bits, and -1 or a tile that is damaged.
    """
    codes, tile_size = tiles[0], tiles[5]
    automaton, behind = search[AUTOMATON], search[BEHIND]
    raw = 2 * search[STATES] << 8
    sums, batch = np.int64(room.ctypes.data), room.shape[1] - 2
    count = last - first
    used = LANES if count >= 4 * LANES else 1
    tile = first
    for i in range(used):
        lanes[i, _BATCH] = tile
        lanes[i, _AT] = codes + places[tile - first]
        lanes[i, _STATE] = state if i == 0 else 0
        # About as many codes for each, and a tile at least.
        share = places[0] + (i + 1) * (places[count] - places[0]) // used
        tile += 1
        while tile < last + i + 1 - used and places[tile - first] < share:
            tile += 1
        lanes[i, _LAST] = tile
        _open_batch(lanes, i, tiles, first, places, batch, sums + 8 * batch * i, raw)
    marked = False
    alone = used == 1
    current = 0
    while current < used:
        if alone:
            count = lanes[current, _LEFT]
            _run(lanes, current, count, automaton)
        else:
            count = min(lanes[0, _LEFT], lanes[1, _LEFT], lanes[2, _LEFT], lanes[3, _LEFT])
            _run_in_turns(lanes, count, automaton)
        for i in range(current, current + 1 if alone else LANES):
            lanes[i, _AT] += count
            lanes[i, _TO] += 8 * count
            lanes[i, _LEFT] -= count
            if lanes[i, _LEFT] > 0:
                continue
            to = sums + 8 * batch * i
            found, bad = _close_batch(lanes, i, tiles, first, places, to, raw, plane, second)
            if bad >= 0:
                return 0, False, bad
            marked = marked or found
            if lanes[i, _BATCH] < lanes[i, _LAST]:
                _open_batch(lanes, i, tiles, first, places, batch, to, raw)
            else:
                alone = True
        while alone and current < used and lanes[current, _LEFT] == 0:
            current += 1
    for i in range(used - 1):
        state = lanes[i, _STATE]
        if behind > 0 and state > 0:
            tile = lanes[i, _LAST]
            count = places[tile - first + 1] - places[tile - first]
            idle = raw if count == tile_size else 0
            to = plane + (tile - first) * tile_size // 8
            _run_on(codes + places[tile - first], count, state + idle, idle, behind, automaton, to, second)
    return lanes[used - 1, _STATE], marked, -1


@njit(inline="always")
def count_planes(searches: Any) -> int:
    """Planes of all searches."""
    count = np.int64(0)
    for i in range(searches.shape[0]):
        count += searches[i, PLANES]
    return count


def windows_of(search_window: Any) -> Any:
    """Make `next_window` of what searches the codes of a window, as `search_window` does."""

    @njit()
    def next_window(
        tiles: Any, last: int, searches: Any, places: Any, lanes: Any, room: Any, planes: Any, window: Any
    ) -> int:
        """Fill the planes of the window behind the last one, as large as `places` and none from tile `last` on.

        Returns -1, or a tile that is damaged.
        """
        chars, tile_size = tiles[4], tiles[5]
        first = window[NEXT]
        last = min(first + places.size - 1, last)
        places[0] = window[POSITION]
        bad = _place_tiles(tiles, first, last, places)
        if bad >= 0:
            return bad
        for i in range(planes.size):
            planes[i] = 0
        plane_nbytes = planes.size // count_planes(searches)
        plane = np.int64(planes.ctypes.data)
        for i in range(searches.shape[0]):
            second = plane_nbytes if searches[i, PLANES] == 2 else 0
            state = window[KEPT + 2 * i]
            state, marked, bad = search_window(
                tiles, first, last, places, lanes, searches[i], state, room, plane, second
            )
            if bad >= 0:
                return bad
            window[KEPT + 2 * i] = state
            window[KEPT + 2 * i + 1] |= marked
            plane += plane_nbytes * searches[i, PLANES]
        window[NEXT], window[POSITION] = last, places[last - first]
        window[BEGIN], window[END] = first * tile_size, min(last * tile_size, chars)
        return -1

    return next_window
