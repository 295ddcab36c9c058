"""Numba kernels that run an automaton of rows over the codes of a segment, of several rows in turns.

A state depends on the one before, so rows that are run one after another wait for their look-ups, and where a row ends
is not foreseen. So where rows end in the codes is found first, for a window of some tiles at a time. Then codes are run
in six lanes, which begin behind the ends of rows, without a branch: a code in which a row ends is taken for another
one, which leads to the state in which the next row is behind it. At last every row looks at the state before its last
code. Entries lie by code, then by state, so that all of a step but one look-up is known before.

Where a row's first codes decide of most rows, as for ``^car`` and ``<``, rows are looked at where they begin
(`cpu_rows_first`).

Kernels take addresses, as those of ``cpu_kernels.py`` do, release the GIL, and trust nothing that is stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...automata import NO, RowAutomaton
from ..jit import njit
from ..unaligned import (
    address,
    load8,
    prefetch,
    store8,
    store16,
    store64,
    trailing_zeros,
)
from .cpu_places_kernels import AHEAD, NO_CODES, CodeComparer, tile_length
from .cpu_rows_first import NOTE_NBYTES, SLOT_NBYTES, first_answerer
from .cpu_rows_lift import LiftedRows, RowSymbols, addresses
from .cpu_rows_runs import (
    BAD_ROWS,
    BAD_TILE,
    FINE,
    GROUP_ROWS,
    LANES,
    OPEN_SLOTS,
    SLOT,
    RowCodes,
    answer_in_turns,
    group_ends,
)
from .cpu_search_kernels import first_position
from .layout import TILE_BLOCK
from .row_lengths import number_at

# A text is looked for in a group's tiles while no more than one in so many may have it, and first until so many may.
_RARE, _RARE_TRIED = 4, 16
# Groups in which that was given up, from which on it is not tried again.
_MOST_GIVEN_UP = 3


class RowAnswerer(NamedTuple):
    """Compiled functions that answer for rows of segments of a codec, which `answer` calls: `row_answerer` makes them.

    Attributes
    ----------
    in_turns
        By all codes, of several rows in turns.
    first
        By the first codes of each row.
    """

    in_turns: Any
    first: Any


def answer(
    answerer: RowAnswerer,
    lifted: LiftedRows,
    machine: RowAutomaton,
    symbols: RowSymbols,
    finding: tuple[int, int, int],
    segment: tuple[Any, Any, Any],
    blocks: tuple[int, int],
    out: int,
) -> tuple[int, int]:
    """Answer for the rows of row blocks, the first and behind the last of which are `blocks`.

    Parameters
    ----------
    answerer
    lifted
        What `lift` makes of `machine` and `symbols`.
    finding
        Addresses of what `CodeComparer.plan` made of `RowAutomaton.text`, and of that, and its bytes. The first of them
        is 0: all tiles are looked at.
    segment : tuple of tuple of int
        What `cpu_read.SegmentReader` says of a segment: tiles, rows and table.
    out
        Address of the answers, a byte each.

    Returns
    -------
    tuple of int
        What was found wrong, and the number of the tile or row block.
    """
    automaton = (
        address(lifted.following),
        address(lifted.verdicts),
        address(lifted.steps),
        address(lifted.restarts),
        address(lifted.known),
        *addresses(machine),
        machine.states,
    )
    of_codes = symbols.lengths.size, address(symbols.words), 8 * symbols.words.shape[1], address(symbols.lengths)
    how = automaton, of_codes, symbols.literals
    tile_size = segment[0][5]
    arrays = [np.empty(SLOT * OPEN_SLOTS + 64, np.uint8)]
    if lifted.early:
        arrays += [
            np.empty(SLOT_NBYTES * OPEN_SLOTS, np.uint8),
            np.empty(SLOT * OPEN_SLOTS, np.uint8),
            np.empty(NOTE_NBYTES * (GROUP_ROWS + 1), np.uint8),
        ]
    else:
        arrays += [
            np.empty(SLOT * OPEN_SLOTS + 128, np.uint16),
            np.empty(OPEN_SLOTS + 1, np.int64),
            np.empty(SLOT * OPEN_SLOTS + 128, np.uint32),
            np.empty(GROUP_ROWS + 1, np.uint32),
            np.empty(2 * LANES + 1, np.int64),
        ]
    arrays += [np.empty(tile_size + 64, np.uint8), np.empty(GROUP_ROWS + 1, np.int64)]
    room = tuple(map(address, arrays))
    if lifted.early:
        return answerer.first(*segment, blocks, how, room, out)
    return answerer.in_turns(*segment, blocks, how, finding, room, out)


def row_answerer(codes_of: RowCodes, decode_tile: Any, comparer: CodeComparer = NO_CODES) -> RowAnswerer:
    """What answers for rows of segments of a codec.

    Parameters
    ----------
    codes_of
        How its codes are read.
    decode_tile, comparer
        As `cpu_decode.decoder` takes them.
    """
    unpack = codes_of.unpack
    same, may_have, may_end = comparer.same, comparer.may_have, comparer.may_end

    @njit()
    def open_tiles(tiles: Any, table: Any, literals: int, first: int, last: int, position: int, room: Any) -> int:
        """Unpack tiles, whose codes begin at `position`; where the codes end, or ``-1 - tile`` of a damaged one."""
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        places, numbers, slots, spare = room[0], room[1], room[2], room[6]
        slot: Any = 0
        count: Any = np.int64(0)
        for tile in range(first, last):
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return -1 - tile
            nbytes, length = min(tile_size, chars - tile * tile_size), tile_length(lengths, tile_size, tile)
            if length > nbytes or length > codes_nbytes - position:
                return -1 - tile
            at = codes + position
            for line in range(0, length, 64):
                prefetch(at + AHEAD + line)
            position += length
            opened: Any = np.int64(0)
            if length < nbytes and tile_size <= SLOT:
                limit = codes + codes_nbytes
                opened = unpack(at, at + length, limit, nbytes, numbers + 2 * count, places + SLOT * slot, table)
                if opened < 0:
                    return -1 - tile
            if opened > 0:
                store64(slots + 8 * slot, np.uint64(count))
                count += opened
                slot += 1
                continue
            if length < nbytes:
                if not decode_tile(at, at + length, spare, nbytes, spare + tile_size + 64, table):
                    return -1 - tile
                at = spare
            for begin in range(0, nbytes, SLOT):
                store64(slots + 8 * slot, np.uint64(count))
                opened = min(nbytes - begin, SLOT)
                for i in range(SLOT):
                    store8(places + SLOT * slot + i, np.uint8(i))
                for i in range(opened):
                    store16(numbers + 2 * (count + i), np.uint16(literals + np.int64(load8(at + begin + i))))
                count += opened
                slot += 1
        store64(slots + 8 * slot, np.uint64(count))
        return position

    @njit()
    def answer_some(tiles: Any, table: Any, how: Any, room: Any, of_rows: Any, position: int, out: int) -> int:
        """Answer for rows, in whose first tile codes begin at `position` (-1: it is not known); -1, or a bad tile."""
        ends, number = of_rows
        automaton, of_codes, literals = how
        chars, tile_size = tiles[4], tiles[5]
        shift, slot_shift = trailing_zeros(np.uint64(tile_size)), trailing_zeros(np.uint64(min(tile_size, SLOT)))
        begin, stop = number_at(ends), number_at(ends + 8 * number)
        tile, behind = begin >> shift, ((stop + tile_size - 1) >> shift) if begin < stop else begin >> shift
        row, state = np.int64(-1 if begin & (tile_size - 1) and begin < stop else 0), np.int64(0)
        if position < 0 and begin < stop:
            position = first_position(tiles, tile)
            if position < 0:
                return -1 - position
        while tile < behind:
            after = min(tile + (OPEN_SLOTS << slot_shift >> shift), behind)
            position = open_tiles(tiles, table, literals, tile, after, position, room)
            if position < 0:
                return -1 - position
            window = tile << shift, min(after << shift, chars), slot_shift
            row, state = answer_in_turns(window, of_rows, (row, state), automaton, of_codes, room, out)
            if row < -1:
                return tile
            tile = after
        for empty in range(row, number):
            store8(out + empty, load8(automaton[6]))
        return -1

    @njit()
    def next_rows(
        tiles: Any, table: Any, finding: Any, ends: int, number: int, row: Any, before: Any
    ) -> tuple[Any, Any, Any, Any]:
        """The next rows that may have a text, none before `row`: the first one, and one more than the last.

        `finding`: addresses of what `may_have` looks for, and of the text, and its bytes; `before`: the tile that is
        looked at next, where its codes begin, and those of the tile before it, or -1. Then follow where the codes of
        the first row's tile begin, or -1, and `before` for the next call. The first row is -1: a tile is damaged.
        """
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        plan, value, nbytes = finding
        shift = trailing_zeros(np.uint64(tile_size))
        tile, position, earlier = before
        stop = number_at(ends + 8 * number)
        while tile << shift < stop:
            start, length = tile << shift, tile_length(lengths, tile_size, tile)
            end, at = min(start + tile_size, chars), codes + position
            if length > end - start or length > codes_nbytes - position:
                return np.int64(-1), tile, position, before
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return np.int64(-1), tile, position, before
            for line in range(0, length, 64):
                prefetch(at + AHEAD + line)
            has = length == end - start or may_have(at, at + length, codes + codes_nbytes, plan, value, nbytes, table)
            crosses = False
            if not has and end < stop:
                following = min(at + length + tile_length(lengths, tile_size, tile + 1), codes + codes_nbytes)
                raw = following - at - length >= min(tile_size, chars - end)
                for split in range(1, nbytes):
                    if not crosses and may_end(at, at + length, value, split, table):
                        rest = nbytes - split
                        crosses = raw or same(at + length, following, 0, value + split, rest, table) >= 0
            if has or crosses:
                first = start if has else end - 1  # the text is in a row that ends behind this
                while row + 8 <= number and number_at(ends + 8 * row + 64) <= first:
                    row += 8
                while row < number and number_at(ends + 8 * row + 8) <= first:
                    row += 1
                last = row
                while last < number and number_at(ends + 8 * last) < end:
                    last += 1
                if last > row:
                    first = number_at(ends + 8 * row) >> shift
                    where = position if first == tile else earlier if first == tile - 1 else np.int64(-1)
                    return row, last, where, (tile + 1, position + length, position)
            earlier, position, tile = position, position + length, tile + 1
        return np.int64(number), np.int64(number), position, before

    @njit()
    def in_turns(
        tiles: Any, rows: Any, table: Any, blocks: tuple[int, int], how: Any, finding: Any, room: Any, out: int
    ) -> tuple[int, int]:
        """See `answer`, which makes the other arguments."""
        ends, shift = room[7], trailing_zeros(np.uint64(tiles[5]))
        block, last = blocks
        given_up = 0
        while block < last:
            number, block = group_ends(rows, block, last, ends)
            if number < 0:
                return BAD_ROWS, block
            tile, rare = number_at(ends) >> shift, finding[0] != 0 and given_up < _MOST_GIVEN_UP
            row: Any = np.int64(0)
            having: Any = np.int64(0)
            before = tile, np.int64(-1), np.int64(-1)
            if rare:
                for i in range(number):
                    store8(out + i, np.uint8(NO))
                position = first_position(tiles, tile) if number_at(ends) < number_at(ends + 8 * number) else 0
                if position < 0:
                    return BAD_TILE, -1 - position
                before = tile, np.int64(position), np.int64(-1)
            while row < number:
                if rare and having >= _RARE_TRIED and _RARE * having > before[0] - tile:
                    rare = False
                    given_up += 1
                stop, where = number, np.int64(-1)
                if rare:
                    row, stop, where, before = next_rows(tiles, table, finding, ends, number, row, before)
                    if row < 0:
                        return BAD_TILE, stop
                    having += 1
                bad = answer_some(tiles, table, how, room, (ends + 8 * row, stop - row), where, out + row)
                if bad >= 0:
                    return BAD_TILE, bad
                row = stop
            out += number
        return FINE, 0

    return RowAnswerer(in_turns, first_answerer(codes_of, decode_tile))


@njit()
def _unpack_none(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: Any) -> int:
    return 0


@njit()
def _reading_none(table: Any) -> int:
    return 0


@njit()
def _code_none(at: int, limit: int, index: Any, reading: Any) -> tuple[Any, Any]:
    return np.int64(0), index + 1


@njit()
def _decode_none(at: int, end: int, out: int, nbytes: int, limit: int, table: Any) -> bool:
    return False


#: Of segments all of whose tiles are raw.
answer_bytes = row_answerer(RowCodes(_unpack_none, NO_CODES.place, _reading_none, _code_none), _decode_none)
