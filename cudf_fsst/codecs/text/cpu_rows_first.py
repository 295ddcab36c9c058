"""Rows answered where they begin, by automata that a row's first codes decide: what ``cpu_rows_kernels`` calls.

Of a tile it is found where its codes' symbols end. Codes are read where rows begin alone, and behind that until it is
known what a row is. Each of the first codes is looked at of all rows before the next one is, and rows that it leaves
unsure are noted, without a branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load16, load64, prefetch, store8, store64, trailing_zeros
from .cpu_places_kernels import AHEAD, code_at, tile_length
from .cpu_rows_lift import UNSURE
from .cpu_rows_runs import BAD_ROWS, BAD_TILE, FINE, OPEN_SLOTS, SLOT, RowCodes, group_ends, run_bytes
from .cpu_search_kernels import first_position
from .layout import TILE_BLOCK
from .row_lengths import number_at

# Codes of a row, and one, that are looked at of all rows before the next one is.
_TURNS = 4
# Of each slot: where its codes begin, and where all codes end; how many there are, and whether they are bytes that
# stand for themselves.
_AT, _LIMIT, _COUNT, _RAW = 0, 8, 16, 24
SLOT_NBYTES = 32
# Of a row that is noted, in a word: its number, where its next code is, and the state before that; then the bytes left.
# Where a code is: its slot, and its place in there.
NOTE_NBYTES = 16
_WHERE_SHIFT, _STATE_SHIFT, _SLOT_SHIFT = 32, 48, 9


@njit(inline="always")
def _note(at: int, row: Any, where: Any, state: Any, left: Any) -> None:
    store64(at, np.uint64(row | where << _WHERE_SHIFT | state << _STATE_SHIFT))
    store64(at + 8, np.uint64(left))


@njit()
def _set_slot(slot_at: int, at: int, limit: int, count: int, raw: int) -> None:
    store64(slot_at + _AT, np.uint64(at))
    store64(slot_at + _LIMIT, np.uint64(limit))
    store64(slot_at + _COUNT, np.uint64(count))
    store64(slot_at + _RAW, np.uint64(raw))


@njit(inline="always")
def _slot(slot_at: int) -> Any:
    """What is known of a slot."""
    return number_at(slot_at + _AT), number_at(slot_at + _LIMIT), number_at(slot_at + _COUNT), number_at(slot_at + _RAW)


def first_answerer(codes_of: RowCodes, decode_tile: Any) -> Any:
    """A function that answers for rows by their first codes; see `cpu_rows_kernels.row_answerer`."""
    place, reading_of, code_of = codes_of.place, codes_of.reading, codes_of.code

    @njit()
    def open_places(tiles: Any, table: Any, first: int, last: int, position: int, room: Any) -> int:
        """Have tiles in slots, whose codes begin at `position`; where those end, or ``-1 - tile`` of a damaged one."""
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        places_at, slot_at, bytes_at, _, spare, _ = room
        for tile in range(first, last):
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return -1 - tile
            nbytes, length = min(tile_size, chars - tile * tile_size), tile_length(lengths, tile_size, tile)
            if length > nbytes or length > codes_nbytes - position:
                return -1 - tile
            at = codes + position
            prefetch(at + AHEAD)
            prefetch(at + AHEAD + 64)
            prefetch(at + AHEAD + 128)
            position += length
            count: Any = np.int64(0)
            if length < nbytes and tile_size <= SLOT:
                count = place(at, at + length, codes + codes_nbytes, nbytes, places_at, table)
                if count < 0:
                    return -1 - tile
            if count > 0:
                _set_slot(slot_at, at, codes + codes_nbytes, count, 0)
                slot_at += SLOT_NBYTES
                places_at += SLOT
                bytes_at += SLOT
                continue
            if length < nbytes:
                if not decode_tile(at, at + length, spare, nbytes, spare + tile_size + 64, table):
                    return -1 - tile
                at = spare
            for begin in range(0, nbytes, SLOT):
                nbytes_here, where = min(nbytes - begin, SLOT), at + begin
                if length < nbytes:
                    copy(bytes_at, where, nbytes_here)
                    where = bytes_at
                for i in range(SLOT):
                    store8(places_at + i, np.uint8(i))
                _set_slot(slot_at, where, where + nbytes_here, nbytes_here, 1)
                slot_at += SLOT_NBYTES
                places_at += SLOT
                bytes_at += SLOT
        return position

    @njit(inline="always")
    def read(slot: Any, index: Any, literals: int, reading: Any) -> Any:
        """A code of an open slot, as `RowSymbols` numbers it, and where the next one is."""
        at, limit, _, raw = slot
        if raw:
            return literals + np.int64(load8(at + index)), index + 1
        return code_of(at, limit, index, reading)

    @njit()
    def answer_window(
        window: Any, of_rows: Any, going_on: Any, how: Any, table: Any, room: Any, out: int
    ) -> tuple[Any, Any]:
        """Answer for rows that begin in the open tiles.

        `window`: where these begin and end, and the shift of bytes of a slot; `of_rows`: address of where rows begin
        and end, and how many there are; `going_on`: the first row that is not answered, and the state of one that began
        before. Returns these two for the next window.
        """
        base, end, shift = window
        ends, number = of_rows
        row, state = going_on
        (following, _, _, restarts, known, of_bytes, verdicts, states), of_codes, literals = how
        _, symbols, symbol_nbytes, lengths = of_codes
        places, slots, _, notes, _, _ = room
        reading = reading_of(table)
        inside, open_slots = (1 << shift) - 1, (end - base + (1 << shift) - 1) >> shift
        unsure = np.int64(0)
        if row < number and number_at(ends + 8 * row) < base:
            _note(notes, row, np.int64(0), np.int64(state), number_at(ends + 8 * row + 8) - base)
            unsure += 1
            row += 1
        while row < number:
            start = number_at(ends + 8 * row)
            if start >= end:
                break
            size, place_of, slot = (
                number_at(ends + 8 * row + 8) - start,
                (start - base) & inside,
                (start - base) >> shift,
            )
            places_at, slot_at = places + SLOT * slot, slots + SLOT_NBYTES * slot
            index = code_at(places_at, place_of)
            # Bytes of the symbol in the row; too many in damaged tiles alone.
            have = ((np.int64(load8(places_at + index)) - place_of) & (symbol_nbytes - 1)) + 1
            code, index = read(_slot(slot_at), index, literals, reading)
            if size <= have:  # the row ends in this symbol
                before = max(np.int64(load8(lengths + code)) - have, 0)
                symbol = symbols + symbol_nbytes * code + before
                store8(out + row, load8(verdicts + run_bytes(0, symbol, size, of_bytes)))
                row += 1
                continue
            state = np.int64(load16(restarts + 2 * (symbol_nbytes * code + have - 1)))
            says = load8(known + state)
            store8(out + row, says)
            _note(notes + NOTE_NBYTES * unsure, row, slot << _SLOT_SHIFT | index, state, size - have)
            unsure += np.int64(says == UNSURE)
            row += 1
        at_once = np.int64(1)
        for turn in range(_TURNS):
            if turn == _TURNS - 1:
                at_once = np.int64(SLOT * OPEN_SLOTS)
            kept = np.int64(0)
            for i in range(unsure):
                note = load64(notes + NOTE_NBYTES * i)
                left = number_at(notes + NOTE_NBYTES * i + 8)
                of_row = np.int64(note & np.uint64(0xFFFFFFFF))
                where = np.int64(note >> np.uint64(_WHERE_SHIFT) & np.uint64(0xFFFF))
                state = np.int64(note >> np.uint64(_STATE_SHIFT))
                slot, index = where >> _SLOT_SHIFT, where & ((1 << _SLOT_SHIFT) - 1)
                of_slot = _slot(slots + SLOT_NBYTES * slot)
                says = np.uint8(UNSURE)
                for _ in range(at_once):
                    if index >= of_slot[2]:
                        if slot + 1 >= open_slots:
                            break
                        slot, index = slot + 1, np.int64(0)
                        of_slot = _slot(slots + SLOT_NBYTES * slot)
                    code, index = read(of_slot, index, literals, reading)
                    nbytes = np.int64(load8(lengths + code))
                    if nbytes < left:
                        state = np.int64(load16(following + 2 * (states * code + state)))
                        says = load8(known + state)
                    else:
                        state = run_bytes(state, symbols + symbol_nbytes * code, left, of_bytes)
                        says = load8(verdicts + state)
                    left -= nbytes
                    if at_once > 1 and says != UNSURE:
                        break
                store8(out + of_row, says)
                _note(notes + NOTE_NBYTES * kept, of_row, slot << _SLOT_SHIFT | index, state, left)
                kept += np.int64(says == UNSURE)
            unsure = kept
        if unsure > 0:  # the last row goes on
            note = load64(notes)
            return np.int64(note & np.uint64(0xFFFFFFFF)), np.int64(note >> np.uint64(_STATE_SHIFT))
        return row, np.int64(0)

    @njit()
    def answer_group(tiles: Any, table: Any, how: Any, room: Any, of_rows: Any, out: int) -> int:
        """Answer for rows; -1, or a bad tile."""
        ends, number = of_rows
        chars, tile_size = tiles[4], tiles[5]
        shift, slot_shift = trailing_zeros(np.uint64(tile_size)), trailing_zeros(np.uint64(min(tile_size, SLOT)))
        begin, stop = number_at(ends), number_at(ends + 8 * number)
        going_on = np.int64(0), np.int64(0)
        if begin < stop:
            tile, behind = begin >> shift, (stop + tile_size - 1) >> shift
            position: Any = first_position(tiles, tile)
            if position < 0:
                return -1 - position
            while tile < behind:
                after = min(tile + (OPEN_SLOTS << slot_shift >> shift), behind)
                position = open_places(tiles, table, tile, after, position, room)
                if position < 0:
                    return -1 - position
                window = tile << shift, min(after << shift, chars), slot_shift
                going_on = answer_window(window, of_rows, going_on, how, table, room, out)
                tile = after
        for empty in range(going_on[0], number):
            store8(out + empty, load8(how[0][6]))
        return -1

    @njit()
    def answer_first(
        tiles: Any, rows: Any, table: Any, blocks: tuple[int, int], how: Any, room: Any, out: int
    ) -> tuple[int, int]:
        """See `cpu_rows_kernels.answer`, which makes the arguments."""
        block, last = blocks
        while block < last:
            number, block = group_ends(rows, block, last, room[5])
            if number < 0:
                return BAD_ROWS, block
            bad = answer_group(tiles, table, how, room, (room[5], number), out)
            if bad >= 0:
                return BAD_TILE, bad
            out += number
        return FINE, 0

    return answer_first
