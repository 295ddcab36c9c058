"""Automata of rows, run over the codes of several rows in turns.

A state depends on the one before, so rows that are run one after another wait for their look-ups, and where a row ends
is not foreseen. So where rows end in the codes is found first, for some tiles at a time. Then codes are run in four
lanes, which begin behind the ends of rows, without a branch: a code in which a row ends leads to the state in which the
next one is behind it. At last every row looks at the state before its last code. TPC-H l_comment: 13 ns a row, 21 in
one lane.

Where a row's first code decides of most rows, as for ``^car`` and ``<``, rows are looked at where they begin: 7 ns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..jit import njit
from ..text import cpu_rows_kernels as in_order
from ..text.cpu_compare_kernels import GROUP_ROWS
from ..text.cpu_places_kernels import AHEAD, code_at, tile_length
from ..text.cpu_rows_kernels import BAD_ROWS, FINE
from ..text.cpu_search_kernels import first_position
from ..text.layout import ROW_BLOCK, TILE_BLOCK
from ..text.row_lengths import row_ends
from ..text.rows import STATE_PLACE, STATE_SHIFT, UNDECIDED_SHIFT, Lifted
from ..unaligned import address, load8, load16, load32, load64, prefetch, store8, store16, store32, trailing_zeros
from .cpu_compare_kernels import place_codes
from .rows import lift
from .symbols import ESCAPE, SymbolTable

# Tiles that are looked at together, and codes that they may have.
_TILES = 32
_CODES = 256 * _TILES
# Rows of them, and more, from which on there are lanes.
_MANY = 16
# A row's first code decides of most rows if it does for all codes but one in so many.
_MOST = 4
# What is known of a row that its first code does not decide.
_UNSURE = 3
# What stands for the last byte of a row that needs no state.
_ANSWERED = 255
_STATE_BITS = np.uint32(STATE_PLACE)


class LiftedTurns(NamedTuple):
    """An automaton that reads codes.

    Attributes
    ----------
    lifted : Lifted
    entries : ndarray of uint32, (2 * states, 256)
        As `Lifted.entries`, but an escape leads to the state in which the next code stands for itself.
    arrays : tuple of ndarray
        What decoding reads of the table.
    firsts : ndarray of uint8
        What `_answer_early` takes; empty: most rows are not decided by their first code.
    """

    lifted: Lifted
    entries: npt.NDArray[np.uint32]
    arrays: tuple[npt.NDArray[Any], ...]
    firsts: npt.NDArray[np.uint8]


@lru_cache(8)
def lift_turns(machine: RowAutomaton, table: SymbolTable) -> LiftedTurns:
    """The automaton that reads a table's codes; kept for calls that ask the same again."""
    lifted = lift(machine, table)
    states = machine.states
    entries = lifted.entries.copy()
    entries[:states, ESCAPE] += np.uint32(states << STATE_SHIFT)
    lengths = table.decode_lengths
    settled = (machine.following == np.arange(states)[:, None]).all(axis=1)
    # The states in which a row is behind its first code, of which it has these many last bytes.
    firsts = np.full((256, 8), _UNSURE, np.uint8)
    for have in range(1, 9):
        some = np.flatnonzero(lengths >= have)
        before = lengths[some].astype(np.int64) - have
        state = lifted.restarts[some, before - 1]
        state[before == 0] = (lifted.entries[0, some[before == 0]] & STATE_PLACE) >> STATE_SHIFT
        firsts[some, have - 1] = np.where(settled[state], machine.verdicts[state], _UNSURE)
    whole = np.flatnonzero(lengths)
    decided = np.count_nonzero(firsts[whole, lengths[whole] - 1] != _UNSURE)
    early = np.zeros(0, np.uint8)
    if _MOST * decided >= (_MOST - 1) * whole.size:
        early = np.concatenate([firsts.ravel(), settled.view(np.uint8)])
    return LiftedTurns(lifted, entries, (table.decode_symbols, lengths, table.length_limits), early)


def answer(
    lifted: LiftedTurns, machine: RowAutomaton, tiles: Any, rows: Any, first: int, last: int, out: int
) -> tuple[int, int]:
    """Answer for row blocks; see `text.cpu_rows_kernels.answer`."""
    one = lifted.lifted
    return _answer_rows(
        tiles,
        rows,
        first,
        last,
        address(lifted.entries),
        tuple(map(address, lifted.arrays)),
        address(lifted.firsts) if lifted.firsts.size else 0,
        (address(one.entries), machine.states, address(one.restarts), address(one.symbols), address(one.lengths)),
        in_order.addresses(machine),
        np.empty(GROUP_ROWS + 1, np.int64),
        (
            np.empty(256 * _TILES + 64, np.uint8),
            np.empty(_CODES + 2, np.uint32),
            np.empty(GROUP_ROWS + 1, np.uint16),
            np.empty(GROUP_ROWS + 1, np.uint8),
            np.empty(9 + _TILES, np.int64),
            np.empty(4, np.uint32),
        ),
        out,
    )


@njit(inline="always")
def _after(mark: Any, entry: Any) -> Any:
    """The state behind a code; without a branch, which would be mispredicted at most ends of rows."""
    kept = ((mark & np.uint32(1)) - np.uint32(1)) & _STATE_BITS
    return np.uint32((entry & kept) | (mark & _STATE_BITS))


@njit()
def _run(codes: int, marks: int, count: int, state: Any, entries: int) -> Any:
    """Run over codes; `marks`: addresses of what `_run_in_turns` takes."""
    for i in range(count):
        mark = load32(marks + 4 * i)
        store32(marks + 4 * i, state)
        entry = load32(entries + 4 * np.int64(state | np.uint32(load8(codes + i))))
        state = _after(mark, entry)
    return state


@njit()
def _run_in_turns(codes: int, marks: int, starts: Any, states: Any, entries: int) -> None:
    """Run over the codes of four lanes.

    Parameters
    ----------
    codes
        Address of the first one.
    marks
        Address of a uint32 for each: 0, or behind a code in which a row ends the state of the next one, and 1. What was
        the state before the code is written there.
    starts : ndarray of int64, (5,)
        Where lanes begin, and the last one ends.
    states : ndarray of uint32, (4,)
        In which they begin. Afterwards in which they end.
    """
    count = min(min(starts[1] - starts[0], starts[2] - starts[1]), min(starts[3] - starts[2], starts[4] - starts[3]))
    at_a, at_b, at_c, at_d = codes + starts[0], codes + starts[1], codes + starts[2], codes + starts[3]
    to_a, to_b, to_c, to_d = marks + 4 * starts[0], marks + 4 * starts[1], marks + 4 * starts[2], marks + 4 * starts[3]
    a, b, c, d = states[0], states[1], states[2], states[3]
    for i in range(count):
        mark = load32(to_a + 4 * i)
        store32(to_a + 4 * i, a)
        entry = load32(entries + 4 * np.int64(a | np.uint32(load8(at_a + i))))
        a = _after(mark, entry)
        mark = load32(to_b + 4 * i)
        store32(to_b + 4 * i, b)
        entry = load32(entries + 4 * np.int64(b | np.uint32(load8(at_b + i))))
        b = _after(mark, entry)
        mark = load32(to_c + 4 * i)
        store32(to_c + 4 * i, c)
        entry = load32(entries + 4 * np.int64(c | np.uint32(load8(at_c + i))))
        c = _after(mark, entry)
        mark = load32(to_d + 4 * i)
        store32(to_d + 4 * i, d)
        entry = load32(entries + 4 * np.int64(d | np.uint32(load8(at_d + i))))
        d = _after(mark, entry)
    states[0] = _run(at_a + count, to_a + 4 * count, starts[1] - starts[0] - count, a, entries)
    states[1] = _run(at_b + count, to_b + 4 * count, starts[2] - starts[1] - count, b, entries)
    states[2] = _run(at_c + count, to_c + 4 * count, starts[3] - starts[2] - count, c, entries)
    states[3] = _run(at_d + count, to_d + 4 * count, starts[4] - starts[3] - count, d, entries)


@njit()
def _open_tiles(
    tiles: Any, first: int, last: int, position: int, places: int, starts: Any, table: tuple[int, int, int]
) -> Any:
    """Find where the symbols of tiles end, whose codes begin at `position`; -1: one of them is as `_answer_group` says.

    From ``starts[8]`` on goes where the codes of each begin, and the last ones end. Returns how many places count.
    """
    codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
    wide = np.int64(0)
    for tile in range(first, last):
        if tile % TILE_BLOCK == 0 and position != np.int64(load64(block_starts + 8 * (tile // TILE_BLOCK))):
            return np.int64(-1)
        nbytes = min(tile_size, chars - tile * tile_size)
        length = tile_length(lengths, tile_size, tile)
        if length >= nbytes or length > codes_nbytes - position:
            return np.int64(-1)
        at = codes + position
        for line in range(0, length, 64):
            prefetch(at + AHEAD + line)
        some = place_codes(at, at + length, codes + codes_nbytes, nbytes, places + 256 * (tile - first), table)
        if some <= 0:
            return np.int64(-1)
        wide = max(wide, some)
        starts[8 + tile - first] = position
        position += length
    starts[8 + last - first] = position
    return wide


@njit()
def _answer_group(
    tiles: Any,
    ends: int,
    number: int,
    entries: int,
    table: Any,
    restarts: int,
    machine: Any,
    room: Any,
    out: int,
) -> bool:
    """Answer for rows that end at `ends`; False where they are to be answered in order.

    That is where a tile is raw, damaged, or has an escape behind an escape.
    """
    codes, chars, tile_size = tiles[0], tiles[4], tiles[5]
    places, marks, found, lasts, starts, states = room
    places_at = (np.int64(places.ctypes.data) + 63) & ~63
    marks_at = np.int64(marks.ctypes.data)
    found_at, lasts_at = np.int64(found.ctypes.data), np.int64(lasts.ctypes.data)
    following, verdicts = machine
    symbols, symbol_nbytes, _ = table
    shift, inside = trailing_zeros(np.uint64(tile_size)), tile_size - 1
    begin, stop = np.int64(load64(ends)), np.int64(load64(ends + 8 * number))
    none = load8(verdicts)
    if stop == begin:
        for row in range(number):
            store8(out + row, none)
        return True
    tile, behind = begin >> shift, ((stop - 1) >> shift) + 1
    position = first_position(tiles, tile)
    if position < 0:
        return False
    row = -1 if begin & inside else 0  # the row before begins in the first tile, and its answer goes nowhere
    state = np.uint32(0)
    while tile < behind:
        last = min(tile + _TILES, behind)
        wide = _open_tiles(tiles, tile, last, position, places_at, starts, table)
        if wide < 0:
            return False
        first_code, position = position, starts[8 + last - tile]
        count = position - first_code
        at = codes + first_code
        marks[:count] = 0
        # Where rows end that end in these tiles.
        base, end = tile << shift, min(last << shift, chars)
        first_row, before = row, np.int64(-1)
        while row < number:
            place = np.int64(load64(ends + 8 * row + 8)) - 1 - base
            if place >= end - base:
                break
            if row >= 0 and place + base < np.int64(load64(ends + 8 * row)):  # an empty row
                store16(found_at + 2 * (row - first_row), np.uint16(before & 0xFFFF))
                store8(lasts_at + row - first_row, np.uint8(_ANSWERED))
                store8(out + row, none)
                row += 1
                continue
            slot = place >> shift
            place &= inside
            which = code_at(places_at + 256 * slot, place, wide)
            left = np.int64(load8(places_at + 256 * slot + which)) - place  # bytes of the symbol behind the row
            which += starts[8 + slot] - first_code
            code = np.int64(load8(at + which))
            length = np.int64(load8(symbol_nbytes + code))
            escaped = code == ESCAPE
            if left < 0 or left >= max(length, np.int64(escaped)):
                return False
            size = np.int64(1) if escaped else length - left
            which += np.int64(escaped)
            restart = np.uint32(0) if escaped else np.uint32(load16(restarts + 16 * code + 2 * (size - 1)))
            store32(marks_at + 4 * which, restart << np.uint32(8) | np.uint32(1))
            store16(found_at + 2 * (row - first_row), np.uint16(which))
            store8(lasts_at + row - first_row, np.uint8(size - 1))
            if which == before:  # the row begins in this symbol
                inner = np.int64(0)
                rows_nbytes = np.int64(load64(ends + 8 * row + 8) - load64(ends + 8 * row))
                for i in range(size - rows_nbytes, size):
                    inner = np.int64(load16(following + 2 * (inner << 8 | np.int64(load8(symbols + 8 * code + i)))))
                store8(out + row, load8(verdicts + inner))
                store8(lasts_at + row - first_row, np.uint8(_ANSWERED))
            before = which
            row += 1
        # Lanes.
        start = np.int64(0)
        some_rows = row - first_row
        if first_row < 0:
            start = np.int64(load16(found_at)) + 1
            state = load32(marks_at + 4 * (start - 1)) & _STATE_BITS
        starts[0], starts[4], states[0] = start, count, state
        usable = some_rows >= _MANY
        for lane in range(1, 4):
            # Behind the first row that ends not before the lane's part of the codes.
            target: Any = start + lane * (count - start) // 4
            low: Any = 0
            high: Any = some_rows - 1
            while low < high:
                middle = (low + high) // 2
                if np.int64(np.int16(load16(found_at + 2 * middle))) < target:
                    low = middle + 1
                else:
                    high = middle
            place = np.int64(np.int16(load16(found_at + 2 * low))) + 1
            usable = usable and place > starts[lane - 1]
            if usable:
                starts[lane] = place
                states[lane] = load32(marks_at + 4 * place - 4) & _STATE_BITS
        if usable:
            _run_in_turns(at, marks_at, starts, states, entries)
            state = states[3]
        else:
            state = _run(at + start, marks_at + 4 * start, count - start, state, entries)
        for one in range(max(first_row, 0), row):
            which = np.int64(load16(found_at + 2 * (one - first_row)))
            last_byte = load8(lasts_at + one - first_row)
            if last_byte == _ANSWERED:
                continue
            entry = load32(entries + 4 * np.int64(load32(marks_at + 4 * which) | np.uint32(load8(at + which))))
            says = entry >> np.uint32(last_byte)
            store8(out + one, np.uint8((says & np.uint32(1)) | (says >> np.uint32(UNDECIDED_SHIFT - 1) & np.uint32(2))))
        tile = last
    return True


@njit()
def _answer_early(
    tiles: Any,
    ends: int,
    number: int,
    entries: int,
    table: Any,
    firsts: int,
    machine: Any,
    room: Any,
    out: int,
) -> bool:
    """As `_answer_group`, where a row's first code decides of most rows.

    `firsts`: address of a byte for each code and number of last bytes of its symbol, from 1 to 8: the answer for rows
    that begin with these, or `_UNSURE`; then of a byte for each state, whether nothing leads out of it.
    """
    codes, chars, tile_size = tiles[0], tiles[4], tiles[5]
    places, starts = room[0], room[4]
    places_at = (np.int64(places.ctypes.data) + 63) & ~63
    following, verdicts = machine
    symbols, symbol_nbytes, _ = table
    settled = firsts + 8 * 256
    shift, inside = trailing_zeros(np.uint64(tile_size)), tile_size - 1
    stop = np.int64(load64(ends + 8 * number))
    behind = ((stop - 1) >> shift) + 1
    none = load8(verdicts)
    row = 0
    while row < number:
        begin = np.int64(load64(ends + 8 * row))
        if begin == stop:  # empty rows are left
            store8(out + row, none)
            row += 1
            continue
        tile = begin >> shift
        last = min(tile + _TILES, behind)
        position = first_position(tiles, tile)
        if position < 0:
            return False
        wide = _open_tiles(tiles, tile, last, position, places_at, starts, table)
        if wide < 0:
            return False
        base, end = tile << shift, min(last << shift, chars)
        first_row = row
        while row < number:
            start, after = np.int64(load64(ends + 8 * row)), np.int64(load64(ends + 8 * row + 8))
            if after > end or start >= end:
                break
            slot, place = (start - base) >> shift, start & inside
            which = code_at(places_at + 256 * slot, place, wide)
            have = np.int64(load8(places_at + 256 * slot + which)) + 1 - place
            code = np.int64(load8(codes + starts[8 + slot] + which))
            says = load8(firsts + 8 * code + ((have - 1) & 7))
            store8(out + row, says if after - start >= have else np.uint8(_UNSURE))
            row += 1
        if row == first_row:
            return False  # a row has more tiles
        for one in range(first_row, row):
            if load8(out + one) != _UNSURE:
                continue
            start = np.int64(load64(ends + 8 * one))
            left = np.int64(load64(ends + 8 * one + 8)) - start
            if left == 0:
                store8(out + one, none)
                continue
            slot, place = (start - base) >> shift, start & inside
            which = code_at(places_at + 256 * slot, place, wide)
            have = np.int64(load8(places_at + 256 * slot + which)) + 1 - place
            at = codes + starts[8 + slot] + which
            limit = codes + starts[8 + last - tile]
            state = np.int64(0)
            while left > 0 and at < limit:
                code = np.int64(load8(at))
                length = np.int64(load8(symbol_nbytes + code))
                if code == ESCAPE:
                    state = np.int64(load16(following + 2 * (state << 8 | np.int64(load8(at + 1)))))
                    have = 1
                    at += 1
                elif (have == length or have == 0) and left >= length:
                    have = length
                    entry = load32(entries + 4 * (state << 8 | code))
                    state = np.int64(entry & _STATE_BITS) >> 8
                else:
                    have = length if have == 0 else min(have, length)
                    for i in range(length - have, length - have + min(have, left)):
                        state = np.int64(load16(following + 2 * (state << 8 | np.int64(load8(symbols + 8 * code + i)))))
                if load8(settled + state):
                    break
                left -= have
                have = np.int64(0)
                at += 1
            store8(out + one, load8(verdicts + state))
    return True


@njit()
def _answer_rows(
    tiles: Any,
    rows: Any,
    first: int,
    last: int,
    entries: int,
    table: Any,
    firsts: int,
    one_by_one: Any,
    machine: Any,
    ends: Any,
    room: Any,
    out: int,
) -> tuple[int, int]:
    """Answer for the rows of row blocks `first` to ``last - 1``, by the addresses of what `LiftedTurns` has."""
    ends_at = np.int64(ends.ctypes.data)
    block = first
    while block < last:
        number, begun = 0, block
        while block < last and number + ROW_BLOCK <= GROUP_ROWS:
            some: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
            if not row_ends(rows, block, some, ends_at + 8 * number):
                return BAD_ROWS, block
            number += some
            block += 1
        done = False
        if tiles[5] <= 256 and firsts:
            done = _answer_early(tiles, ends_at, number, entries, table, firsts, machine, room, out)
        elif tiles[5] <= 256:
            done = _answer_group(tiles, ends_at, number, entries, table, one_by_one[2], machine, room, out)
        if not done:
            reason, where = in_order.answer_rows(tiles, rows, begun, block, *one_by_one, ESCAPE, machine, out)
            if reason != FINE:
                return reason, where
        out += number
    return FINE, 0
