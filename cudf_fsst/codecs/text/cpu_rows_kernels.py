"""Numba kernels that run an automaton of rows over the codes of a segment, a byte each (`rows`).

They take addresses, as those of ``cpu_kernels.py`` do, release the GIL, and trust nothing that is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...automata import RowAutomaton
from ..jit import njit
from ..unaligned import address, load8, load16, load32, load64, store8
from .cpu_places_kernels import tile_length
from .cpu_search_kernels import first_position
from .layout import ROW_BLOCK, TILE_BLOCK
from .row_lengths import unpack_ends
from .rows import STATE_PLACE, UNDECIDED_SHIFT, Lifted

#: What may be found wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)

# State of the rows, by place in an array: the row block that is unpacked next, the rows that are, the next of them,
# the row that is under way, and where in the symbol the row begins that goes on behind it.
BLOCK, HAVE, NEXT, ROW, BEGIN = range(5)
# What `open_row` says instead of an end: there is no row any more; less by n + 1: row block n is damaged.
DONE = -1


@njit()
def open_row(
    row_state: Any,
    ends: Any,
    rows: Any,
    last: int,
    end: int,
    pos: int,
    after: int,
    symbol: int,
    following: int,
    verdicts: int,
    out: int,
) -> int:
    """The end of the row that is open behind a symbol; writes the answers of rows that end within the symbol.

    Parameters
    ----------
    end
        Where the row before ended.
    pos, after
        Where the symbol begins and ends.
    symbol
        Address of its bytes.
    following, verdicts
        Addresses of a `RowAutomaton`'s.
    """
    while True:
        if row_state[NEXT] == row_state[HAVE]:
            block = row_state[BLOCK]
            if block == last:
                return DONE
            row = block * ROW_BLOCK
            stop = min(row + ROW_BLOCK, rows[5])
            if unpack_ends(*rows, row, stop, 0, np.int64(ends.ctypes.data), 8) < 0:
                return DONE - 1 - block
            if ends[0] < end:
                return DONE - 1 - block
            row_state[BLOCK], row_state[HAVE], row_state[NEXT] = block + 1, stop - row, 0
        row_end = ends[row_state[NEXT]]
        row_state[NEXT] += 1
        row_state[ROW] += 1
        if row_end > after:
            row_state[BEGIN] = end - pos
            return row_end
        state = np.int64(0)
        for place in range(end - pos, row_end - pos):
            state = np.int64(load16(following + 2 * (state << 8 | np.int64(load8(symbol + place)))))
        store8(out + row_state[ROW], load8(verdicts + state))
        end = row_end


@njit()
def answer_rows(
    tiles: Any,
    rows: Any,
    first: int,
    last: int,
    table: int,
    states: int,
    restarts: int,
    symbols: int,
    symbol_nbytes: int,
    escape: int,
    machine: tuple[int, int],
    out: int,
) -> tuple[int, int]:
    """Answer for the rows of row blocks `first` to ``last - 1``.

    Parameters
    ----------
    tiles, rows : tuple of int
        What `cpu_read.SegmentReader` says of a segment.
    table : int
        Address of `rows.Lifted.entries`.
    states : int
        Of the automaton that reads bytes.
    restarts : int
        Address of `rows.Lifted.restarts`.
    symbols, symbol_nbytes : int
        Addresses of `rows.Lifted.symbols` and ``lengths``.
    escape : int
    machine : tuple of int
        Addresses of the ``following`` and ``verdicts`` of the automaton that reads bytes.
    out : int
        Address of the answers, a byte each.

    Returns
    -------
    tuple of int
        What was found wrong, and the number of the tile or row block.
    """
    codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
    start = np.int64(load64(rows[0] + 8 * first))
    limit = np.int64(load64(rows[0] + 8 * last))
    if start < 0 or start > limit:
        return BAD_ROWS, first
    if limit > chars:
        return BAD_ROWS, last - 1
    ends = np.empty(ROW_BLOCK, np.int64)
    ends_at = np.int64(ends.ctypes.data)
    row_state = np.zeros(5, np.int64)
    row_state[BLOCK] = first
    row_state[ROW] = -1
    literal = table + 1024 * states
    # What begins in an earlier row block counts as a row whose answer goes nowhere.
    end = start
    first_tile = start // tile_size
    pos = first_tile * tile_size
    if start in (pos, limit):
        end = open_row(row_state, ends, rows, last, start, start, start, symbols, *machine, out)
        if end < 0:
            return (FINE, 0) if end == DONE else (BAD_ROWS, DONE - 1 - end)
    position = first_position(tiles, first_tile)
    if position < 0:
        return BAD_TILE, -1 - position
    place = np.int64(0)  # the state, times 256
    row, following, have = row_state[ROW], row_state[NEXT], row_state[HAVE]
    for tile in range(first_tile, (limit + tile_size - 1) // tile_size):
        if tile % TILE_BLOCK == 0 and position != np.int64(load64(block_starts + 8 * (tile // TILE_BLOCK))):
            return BAD_TILE, tile
        count = tile_length(lengths, tile_size, tile)
        nbytes = min(tile_size, chars - tile * tile_size)
        if count > nbytes or count > codes_nbytes - position:
            return BAD_TILE, tile
        stop = tile * tile_size + nbytes
        raw = np.int64(256) if count == nbytes else np.int64(0)
        itself = raw  # 256 where the next code is a byte that stands for itself
        for at in range(codes + position, codes + position + count):
            code = np.int64(load8(at)) | itself
            # Neither where a row ends nor what a code is depends on states: rows overlap in the CPU.
            after = pos + np.int64(load8(symbol_nbytes + code))
            entry = np.int64(load32((literal if itself else table) + 4 * (place | (code & 0xFF))))
            itself = np.int64(256) if code == escape else raw
            if after < end:
                place = entry & STATE_PLACE
                pos = after
                continue
            if after > stop:
                return BAD_TILE, tile
            behind = end - pos
            if row >= 0:
                found = entry >> (behind - 1)
                store8(out + row, np.uint8((found & 1) | (found >> (UNDECIDED_SHIFT - 1) & 2)))
            if following < have:
                last_end = end
                end = np.int64(load64(ends_at + 8 * following))
                if end > after:
                    row += 1
                    following += 1
                    place = np.int64(load16(restarts + 16 * code + 2 * (behind - 1))) << 8
                    pos = after
                    continue
                end = last_end
            row_state[ROW], row_state[NEXT] = row, following
            end = open_row(row_state, ends, rows, last, end, pos, after, symbols + 8 * code, *machine, out)
            if end < 0:
                return (FINE, 0) if end == DONE else (BAD_ROWS, DONE - 1 - end)
            row, following, have = row_state[ROW], row_state[NEXT], row_state[HAVE]
            place = np.int64(load16(restarts + 16 * code + 2 * (row_state[BEGIN] - 1))) << 8
            pos = after
        if pos != stop or itself != raw:
            return BAD_TILE, tile
        position += count
    return BAD_ROWS, last - 1


def addresses(machine: RowAutomaton) -> tuple[int, int]:
    """Addresses of the transitions and verdicts of an automaton that reads bytes."""
    return address(machine.following), address(machine.verdicts)


def answer(
    lifted: Lifted, machine: RowAutomaton, tiles: Any, rows: Any, first: int, last: int, out: int
) -> tuple[int, int]:
    """`answer_rows`, given what is lifted of an automaton, and that."""
    return answer_rows(
        tiles,
        rows,
        first,
        last,
        address(lifted.entries),
        machine.states,
        address(lifted.restarts),
        address(lifted.symbols),
        address(lifted.lengths),
        lifted.escape,
        addresses(machine),
        out,
    )
