"""Codes of a window of tiles run by an automaton of rows, of several rows in turns: what ``cpu_rows_kernels`` calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import (
    load8,
    load16,
    load32,
    scale64,
    store8,
    store16,
    store32,
    store64,
)
from .cpu_places_kernels import code_at
from .cpu_rows_lift import UNDECIDED_SHIFT, UNSURE
from .row_lengths import number_at

#: Bytes of a tile that have a slot.
SLOT = 256
#: Parts of a window's codes that are run in turns: 0.6 ns a code in four, 0.45 in six, and no less in eight.
LANES = 6
# Rows that end in a window, and more, from which on there are lanes.
_MANY = 8
# Codes of a row, and one, that are looked at of all rows before the next one is.
_TURNS = 4
# What stands for the last byte of a row that needs no state.
_ANSWERED = 255


@njit()
def _run(at: int, end: int, state: Any, following: int) -> Any:
    """Run over codes; `at`, `end`: addresses of what `_run_in_turns` takes."""
    while at < end:
        entry = following + np.int64(load32(at)) + 2 * state
        store16(at, np.uint16(state))
        state = np.int64(load16(entry))
        at += 4
    return state


@njit()
def _run_in_turns(lanes: int, following: int) -> None:
    """Run over the codes of all lanes.

    Parameters
    ----------
    lanes
        Address of where lanes begin, and the last one ends, and of the states in which they begin, int64 each. They
        begin at the address of a uint32 for each code: where its entries begin. The state before the code is written
        there. The last of the states becomes the one behind all codes.
    following
        Address of entries.
    """
    at_a, at_b, at_c = number_at(lanes), number_at(lanes + 8), number_at(lanes + 16)
    at_d, at_e, at_f = number_at(lanes + 24), number_at(lanes + 32), number_at(lanes + 40)
    states, end = lanes + 56, number_at(lanes + 48)
    a, b, c = number_at(states), number_at(states + 8), number_at(states + 16)
    d, e, f = number_at(states + 24), number_at(states + 32), number_at(states + 40)
    nbytes = min(min(min(at_b - at_a, at_c - at_b), min(at_d - at_c, at_e - at_d)), min(at_f - at_e, end - at_f))
    for i in range(0, nbytes, 4):
        entry = following + np.int64(load32(at_a + i)) + 2 * a
        store16(at_a + i, np.uint16(a))
        a = np.int64(load16(entry))
        entry = following + np.int64(load32(at_b + i)) + 2 * b
        store16(at_b + i, np.uint16(b))
        b = np.int64(load16(entry))
        entry = following + np.int64(load32(at_c + i)) + 2 * c
        store16(at_c + i, np.uint16(c))
        c = np.int64(load16(entry))
        entry = following + np.int64(load32(at_d + i)) + 2 * d
        store16(at_d + i, np.uint16(d))
        d = np.int64(load16(entry))
        entry = following + np.int64(load32(at_e + i)) + 2 * e
        store16(at_e + i, np.uint16(e))
        e = np.int64(load16(entry))
        entry = following + np.int64(load32(at_f + i)) + 2 * f
        store16(at_f + i, np.uint16(f))
        f = np.int64(load16(entry))
    _run(at_a + nbytes, at_b, a, following)
    _run(at_b + nbytes, at_c, b, following)
    _run(at_c + nbytes, at_d, c, following)
    _run(at_d + nbytes, at_e, d, following)
    _run(at_e + nbytes, at_f, e, following)
    store64(states + 40, np.uint64(_run(at_f + nbytes, end, f, following)))


@njit()
def _run_bytes(state: Any, at: int, nbytes: Any, of_bytes: int) -> Any:
    """Run over bytes."""
    for i in range(nbytes):
        state = np.int64(load16(of_bytes + 2 * (state << 8 | np.int64(load8(at + i)))))
    return state


# Windows. `base`, `end`: where the open tiles begin and end; `shift`: of bytes of a slot; `wide`: how many places of
# one count; `ends`: address of where the rows begin and end; `row`: the first that is not answered; `state`: of the row
# that goes on from the window before. Functions return these two for the next window; less than -1: a tile is damaged.


@njit()
def answer_in_turns(
    base: int,
    end: int,
    shift: int,
    wide: int,
    ends: int,
    row: Any,
    number: int,
    automaton: Any,
    of_codes: Any,
    room: Any,
    state: Any,
    out: int,
) -> tuple[Any, Any]:
    """Answer for rows that end in a window; row -1 is the one before, whose answer goes nowhere."""
    following, entry_verdicts, restarts, _, _, of_bytes, verdicts, states = automaton
    codes, symbols, symbol_nbytes, lengths = of_codes
    numbers, places, slots, steps, found, lanes = room[0], room[1], room[2], room[3], room[4], room[5]
    inside, count = (1 << shift) - 1, number_at(slots + 8 * ((end - base + (1 << shift) - 1) >> shift))
    step, none = 2 * states, load8(verdicts)
    for i in range(0, count, 64):
        scale64(numbers + 2 * i, step, steps + 4 * i)
    # Of each row: where its last code is, 16 bits, and how many bytes of that are behind the row.
    first_row, to, before = row, found, np.int64(-1)
    start: Any = number_at(ends + 8 * row) if row >= 0 else np.int64(-1)
    while row < number:
        stop: Any = number_at(ends + 8 * row + 8)
        place = stop - 1 - base
        if place >= end - base:
            break
        if stop == start:  # an empty row
            store32(to, np.uint32(before & 0xFFFF | _ANSWERED << 16))
            store8(out + row, none)
            row += 1
            to += 4
            continue
        slot, place = place >> shift, place & inside
        index = code_at(places + SLOT * slot, place, wide)
        # Bytes of the symbol behind the row; too many in damaged tiles alone.
        left = (np.int64(load8(places + SLOT * slot + index)) - place) & (symbol_nbytes - 1)
        index += number_at(slots + 8 * slot)
        code = symbol_nbytes * np.int64(load16(numbers + 2 * index))
        store32(steps + 4 * index, load32(restarts + 4 * (code + left)))
        store32(to, np.uint32(index | left << 16))
        if index == before:  # the row begins in this symbol
            nbytes = stop - start
            size = np.int64(load8(lengths + code // symbol_nbytes)) - left
            if size < nbytes:
                return -2, 0
            inner = _run_bytes(0, symbols + code + size - nbytes, nbytes, of_bytes)
            store8(out + row, load8(verdicts + inner))
            store32(to, np.uint32(index | _ANSWERED << 16))
        before, start = index, stop
        row += 1
        to += 4
    begin: Any = np.int64(0)
    if first_row < 0:
        begin = np.int64(load16(found)) + 1
        state = np.int64(load32(steps + 4 * begin - 4)) // step - codes
    store64(lanes, np.uint64(steps + 4 * begin))
    store64(lanes + 8 * LANES, np.uint64(steps + 4 * count))
    store64(lanes + 8 * LANES + 8, np.uint64(state))
    usable: Any = row - first_row >= _MANY
    lane_begin = begin
    for lane in range(1, LANES):
        # Behind the last row that ends before the lane's part of the codes.
        target, low, high = begin + lane * (count - begin) // LANES, 0, row - first_row
        while high - low > 1:
            middle = (low + high) // 2
            if np.int64(np.int16(load16(found + 4 * middle))) < target:
                low = middle
            else:
                high = middle
        index = np.int64(np.int16(load16(found + 4 * low)))
        usable = usable and index >= lane_begin
        if usable:
            lane_begin = index + 1
            store64(lanes + 8 * lane, np.uint64(steps + 4 * lane_begin))
            after = np.int64(load32(steps + 4 * index)) // step - codes
            store64(lanes + 8 * LANES + 8 + 8 * lane, np.uint64(after))
    if usable:
        _run_in_turns(lanes, following)
        state = number_at(lanes + 16 * LANES)
    else:
        state = _run(steps + 4 * begin, steps + 4 * count, state, following)
    for one in range(max(first_row, 0), row):
        place = np.int64(load32(found + 4 * (one - first_row)))
        left, index = place >> 16, place & 0xFFFF
        if left != _ANSWERED:
            entry = states * np.int64(load16(numbers + 2 * index)) + np.int64(load16(steps + 4 * index))
            says = np.int64(load32(entry_verdicts + 4 * entry)) >> left
            store8(out + one, np.uint8((says & 1) | (says >> (UNDECIDED_SHIFT - 1) & 2)))
    return row, state


@njit()
def answer_early(
    base: int,
    end: int,
    shift: int,
    wide: int,
    ends: int,
    row: Any,
    number: int,
    automaton: Any,
    of_codes: Any,
    room: Any,
    state: Any,
    out: int,
) -> tuple[Any, Any]:
    """Answer for rows that begin in a window, where a row's first codes decide of most rows.

    Each of the first codes is looked at of all rows before the next one is, and rows that it leaves unsure are noted,
    without a branch.
    """
    following, _, _, restarts, known, of_bytes, verdicts, states = automaton
    _, symbols, symbol_nbytes, lengths = of_codes
    numbers, places, slots, notes = room[0], room[1], room[2], room[3]
    inside, count = (1 << shift) - 1, number_at(slots + 8 * ((end - base + (1 << shift) - 1) >> shift))
    # Of a row that is noted: its number, the next code, the state before it, and the bytes that are left.
    unsure = np.int64(0)
    if row < number and number_at(ends + 8 * row) < base:  # it goes on
        store32(notes, np.uint32(row))
        store64(notes + 8, np.uint64(state))
        store32(notes + 4, np.uint32(0))
        store64(notes + 16, np.uint64(number_at(ends + 8 * row + 8) - base))
        unsure += 1
        row += 1
    while row < number:
        start = number_at(ends + 8 * row)
        if start >= end:
            break
        size, place, slot = number_at(ends + 8 * row + 8) - start, (start - base) & inside, (start - base) >> shift
        index = code_at(places + SLOT * slot, place, wide)
        # Bytes of the symbol in the row; too many in damaged tiles alone.
        have = ((np.int64(load8(places + SLOT * slot + index)) - place) & (symbol_nbytes - 1)) + 1
        index += number_at(slots + 8 * slot)
        code = np.int64(load16(numbers + 2 * index))
        if size < have:  # the row ends in this symbol
            before = max(np.int64(load8(lengths + code)) - have, 0)
            store8(out + row, load8(verdicts + _run_bytes(0, symbols + symbol_nbytes * code + before, size, of_bytes)))
            row += 1
            continue
        state = np.int64(load16(restarts + 2 * (symbol_nbytes * code + have - 1)))
        says = load8(known + state) if size > have else load8(verdicts + state)
        store8(out + row, says)
        note = notes + 24 * unsure
        store32(note, np.uint32(row))
        store32(note + 4, np.uint32(index + 1))
        store64(note + 8, np.uint64(state))
        store64(note + 16, np.uint64(size - have))
        unsure += np.int64(says == UNSURE)
        row += 1
    at_once = np.int64(1)
    for turn in range(_TURNS):
        if turn == _TURNS - 1:
            at_once = count
        kept = np.int64(0)
        for one in range(unsure):
            note = notes + 24 * one
            where, index = np.int64(load32(note)), np.int64(load32(note + 4))
            state, left = number_at(note + 8), number_at(note + 16)
            says = np.uint8(UNSURE)
            for _ in range(min(at_once, count - index)):
                code = np.int64(load16(numbers + 2 * index))
                nbytes = np.int64(load8(lengths + code))
                if nbytes < left:
                    state = np.int64(load16(following + 2 * (states * code + state)))
                    says = load8(known + state)
                else:
                    state = _run_bytes(state, symbols + symbol_nbytes * code, left, of_bytes)
                    says = load8(verdicts + state)
                left -= nbytes
                index += 1
                if at_once > 1 and says != UNSURE:
                    break
            store8(out + where, says)
            note = notes + 24 * kept
            store32(note, np.uint32(where))
            store32(note + 4, np.uint32(index))
            store64(note + 8, np.uint64(state))
            store64(note + 16, np.uint64(left))
            kept += np.int64(says == UNSURE)
        unsure = kept
    if unsure > 0:  # the last row goes on
        return np.int64(load32(notes)), number_at(notes + 8)
    return row, np.int64(0)
