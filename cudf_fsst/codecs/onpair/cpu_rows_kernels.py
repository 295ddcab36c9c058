"""Automata of rows, lifted to codes of 10 to 12 bits, and the Numba kernels that run them over a segment.

They do for OnPair what ``text/rows.py`` and ``text/cpu_rows_kernels.py`` do for codes of a byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..jit import njit
from ..text.cpu_places_kernels import tile_length
from ..text.cpu_rows_kernels import (
    BAD_ROWS,
    BAD_TILE,
    BEGIN,
    DONE,
    FINE,
    HAVE,
    NEXT,
    ROW,
    addresses,
    open_row,
)
from ..text.cpu_search_kernels import first_position
from ..text.layout import ROW_BLOCK, TILE_BLOCK
from ..unaligned import address, load8, load16, load64, store8
from .cpu_search_kernels import SPARE, codes_of, unpack
from .symbols import MAX_SYMBOL_LENGTH, OnPairTable

# An entry has, from its lowest bit: the next state, shifted by the bits of a code; 16 bits that are set where a row
# counts that ends behind the first, second ... byte of the code; and 16 where such a row is left undecided.
_STATE_BITS = np.uint64((1 << 24) - 1)
_YES_SHIFT = 24
_UNDECIDED_SHIFT = 40


class LiftedWide(NamedTuple):
    """An automaton of rows that reads codes.

    Attributes
    ----------
    bits : int
        Of a code.
    entries : ndarray of uint64, (states, 2^bits)
    restarts : ndarray of uint16, (2^bits, 16)
        Code, byte of its symbol behind which the row begins, less 1 -> state behind the symbol.
    words : ndarray of uint64, (2^bits, 2)
        Code -> its symbol.
    lengths : ndarray of uint8, (2^bits,)
        Code -> bytes of its symbol.
    """

    bits: int
    entries: npt.NDArray[np.uint64]
    restarts: npt.NDArray[np.uint16]
    words: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]


def lift(machine: RowAutomaton, table: OnPairTable) -> LiftedWide:
    """The automaton that reads a table's codes. Codes without a symbol leave the state, and stand for no bytes."""
    entries = np.empty((machine.states, 1 << table.bits), np.uint64)
    restarts = np.zeros((1 << table.bits, MAX_SYMBOL_LENGTH), np.uint16)
    _lift(*addresses(machine), machine.states, table.words, table.lengths, table.bits, entries, restarts)
    return LiftedWide(table.bits, entries, restarts, table.words, table.lengths)


def answer(
    lifted: LiftedWide, machine: RowAutomaton, tiles: Any, rows: Any, first: int, last: int, out: int
) -> tuple[int, int]:
    """Answer for row blocks; see `text.cpu_rows_kernels.answer`."""
    arrays = (address(array) for array in (lifted.entries, lifted.restarts, lifted.words, lifted.lengths))
    return _answer_rows(tiles, rows, first, last, lifted.bits, *arrays, addresses(machine), out)


@njit()
def _lift(
    following: int, verdicts: int, states: int, words: Any, lengths: Any, bits: int, entries: Any, restarts: Any
) -> None:
    symbol = np.empty(MAX_SYMBOL_LENGTH, np.int64)
    for code in range(1 << bits):
        length = np.int64(lengths[code])
        for place in range(length):
            byte = np.int64((words[code, place >> 3] >> np.uint64(8 * (place & 7))) & np.uint64(0xFF))
            symbol[place] = byte
            for before in range(place):
                at = np.int64(restarts[code, before])
                restarts[code, before] = load16(following + 2 * (at << 8 | byte))
            # That of a row that begins behind this byte is state 0.
        for state in range(states):
            at = np.int64(state)
            found = np.uint64(0)
            for place in range(length):
                at = np.int64(load16(following + 2 * (at << 8 | symbol[place])))
                says = np.int64(load8(verdicts + at))
                found |= np.uint64(says & 1) << np.uint64(_YES_SHIFT + place)
                found |= np.uint64(says >> 1) << np.uint64(_UNDECIDED_SHIFT + place)
            entries[state, code] = found | np.uint64(at << bits)


@njit()
def _answer_rows(
    tiles: Any,
    rows: Any,
    first: int,
    last: int,
    bits: int,
    entries: int,
    restarts: int,
    words: int,
    symbol_nbytes: int,
    machine: tuple[int, int],
    out: int,
) -> tuple[int, int]:
    """Answer for the rows of row blocks `first` to ``last - 1``, by the addresses of what `LiftedWide` has."""
    codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
    start = np.int64(load64(rows[0] + 8 * first))
    limit = np.int64(load64(rows[0] + 8 * last))
    if start < 0 or start > limit:
        return BAD_ROWS, first
    if limit > chars:
        return BAD_ROWS, last - 1
    ends = np.empty(ROW_BLOCK, np.int64)
    ends_at = np.int64(ends.ctypes.data)
    kept = np.zeros(5, np.int64)
    kept[0] = first
    kept[ROW] = -1
    # What begins in an earlier row block counts as a row whose answer goes nowhere.
    end = start
    first_tile = start // tile_size
    pos = first_tile * tile_size
    if start in (pos, limit):
        end = open_row(kept, ends, rows, last, start, start, start, words, *machine, out)
        if end < 0:
            return (FINE, 0) if end == DONE else (BAD_ROWS, DONE - 1 - end)
    position = first_position(tiles, first_tile)
    if position < 0:
        return BAD_TILE, -1 - position
    unpacked = np.empty(tile_size + SPARE, np.uint16)
    place = np.int64(0)  # the state, shifted
    row, following, have = kept[ROW], kept[NEXT], kept[HAVE]
    for tile in range(first_tile, (limit + tile_size - 1) // tile_size):
        if tile % TILE_BLOCK == 0 and position != np.int64(load64(block_starts + 8 * (tile // TILE_BLOCK))):
            return BAD_TILE, tile
        count = tile_length(lengths, tile_size, tile)
        nbytes = min(tile_size, chars - tile * tile_size)
        if count > nbytes or count > codes_nbytes - position:
            return BAD_TILE, tile
        stop = tile * tile_size + nbytes
        unpacked_at = np.int64(unpacked.ctypes.data)  # here: Numba frees an array behind the last use of it
        unpack(codes + position, count, nbytes, codes + codes_nbytes, bits, unpacked_at)
        for i in range(codes_of(count, nbytes, bits)):
            code = np.int64(load16(unpacked_at + 2 * i))
            # Where a row ends does not depend on states: rows overlap in the CPU.
            after = pos + np.int64(load8(symbol_nbytes + code))
            entry = load64(entries + 8 * (place | code))
            if after < end:
                place = np.int64(entry & _STATE_BITS)
                pos = after
                continue
            if after > stop:
                return BAD_TILE, tile
            behind = end - pos
            if row >= 0:
                found = entry >> np.uint64(_YES_SHIFT - 1 + behind)
                undecided = found >> np.uint64(_UNDECIDED_SHIFT - _YES_SHIFT - 1)
                store8(out + row, np.uint8((found & np.uint64(1)) | (undecided & np.uint64(2))))
            if following < have:
                last_end = end
                end = np.int64(load64(ends_at + 8 * following))
                if end > after:
                    row += 1
                    following += 1
                    place = np.int64(load16(restarts + 32 * code + 2 * (behind - 1))) << bits
                    pos = after
                    continue
                end = last_end
            kept[ROW], kept[NEXT] = row, following
            end = open_row(kept, ends, rows, last, end, pos, after, words + 16 * code, *machine, out)
            if end < 0:
                return (FINE, 0) if end == DONE else (BAD_ROWS, DONE - 1 - end)
            row, following, have = kept[ROW], kept[NEXT], kept[HAVE]
            place = np.int64(load16(restarts + 32 * code + 2 * (kept[BEGIN] - 1))) << bits
            pos = after
        if pos != stop:
            return BAD_TILE, tile
        position += count
    return BAD_ROWS, last - 1
