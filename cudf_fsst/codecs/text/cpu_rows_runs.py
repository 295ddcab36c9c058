"""Codes of a window of tiles run by an automaton of rows, of several rows in turns: what ``cpu_rows_kernels`` calls."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from .cpu_rows_lift import UNDECIDED_SHIFT
from .layout import ROW_BLOCK
from .row_lengths import number_at, row_ends

#: What may be found wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)
#: Rows, a multiple of `ROW_BLOCK`, of which it is known at once where they end.
GROUP_ROWS = 16 * ROW_BLOCK
#: Bytes of a tile that have a slot, and slots that are open at a time.
SLOT, OPEN_SLOTS = 256, 32
#: Parts of a window's codes that are run in turns: 0.6 ns a code in four, 0.45 in six, and no less in eight.
LANES = 6
# Rows that end in a window, and more, from which on there are lanes.
_MANY = 8
# What stands for the last byte of a row that needs no state.
_ANSWERED = 255


class RowCodes(NamedTuple):
    """How automata of rows read the codes of a tile of at most 256 bytes that is not raw, by compiled functions.

    Attributes
    ----------
    unpack
        ``unpack(at, end, limit, nbytes, numbers, places, table) -> int``: the codes at addresses `at` to `end` as
        numbers below 2^16 of `RowSymbols`, and `places`, as `cpu_places_kernels.CodeComparer.place` has them. 256
        numbers may be written. Returns how many there are; 0: the tile is to be decoded; -1: it is damaged.
    place
        As `CodeComparer.place`; it returns how many codes there are.
    reading
        ``reading(table)``: what `code` takes of a table.
    code
        ``code(at, limit, index, reading) -> (int, int)``: one of the codes as such a number, and the index of the next
        one. It reads nothing from `limit` on.
    """

    unpack: Any
    place: Any
    reading: Any
    code: Any


@njit()
def group_ends(rows: Any, block: int, last: int, ends: int) -> tuple[Any, Any]:
    """Where rows of the next row blocks end: how many rows, and the next block; -1, and a damaged block."""
    number: Any = np.int64(0)
    while block < last and number + ROW_BLOCK <= GROUP_ROWS:
        block_rows: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
        if not row_ends(rows, block, block_rows, ends + 8 * number):
            return np.int64(-1), block
        number += block_rows
        block += 1
    return number, block


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
def run_bytes(state: Any, at: int, nbytes: Any, of_bytes: int) -> Any:
    """Run over bytes."""
    for i in range(nbytes):
        state = np.int64(load16(of_bytes + 2 * (state << 8 | np.int64(load8(at + i)))))
    return state


@njit()
def answer_in_turns(
    window: Any, of_rows: Any, going_on: Any, automaton: Any, of_codes: Any, room: Any, out: int
) -> tuple[Any, Any]:
    """Answer for rows that end in a window of tiles; row -1 is the one before, whose answer goes nowhere.

    `window`: where the open tiles begin and end, and the shift of bytes of a slot; `of_rows`: address of where rows
    begin and end, and how many there are; `going_on`: the first row that is not answered, and the state of one that
    began before. Returns these two for the next window; less than -1: a tile is damaged.
    """
    base, end, shift = window
    ends, number = of_rows
    row, state = going_on
    following, entry_verdicts, restarts, _, _, of_bytes, verdicts, states = automaton
    codes, symbols, symbol_nbytes, lengths = of_codes
    places, numbers, slots, steps, found, lanes = room[0], room[1], room[2], room[3], room[4], room[5]
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
        index = code_at(places + SLOT * slot, place)
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
            inner = run_bytes(0, symbols + code + size - nbytes, nbytes, of_bytes)
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
    for ended in range(max(first_row, 0), row):
        place = np.int64(load32(found + 4 * (ended - first_row)))
        left, index = place >> 16, place & 0xFFFF
        if left != _ANSWERED:
            entry = states * np.int64(load16(numbers + 2 * index)) + np.int64(load16(steps + 4 * index))
            says = np.int64(load32(entry_verdicts + 4 * entry)) >> left
            store8(out + ended, np.uint8((says & 1) | (says >> (UNDECIDED_SHIFT - 1) & 2)))
    return row, state
