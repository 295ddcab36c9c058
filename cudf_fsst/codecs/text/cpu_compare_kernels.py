"""Numba kernels that compare rows of a segment with a beginning and an end: by lengths, then by bytes.

Rows are looked at some row blocks at a time, where they begin in the codes (`cpu_places_kernels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load64, store8, trailing_zeros
from .cpu_places_kernels import (
    AHEAD,
    AT,
    BEFORE,
    MARKS,
    PLACES,
    SLOT_NBYTES,
    SLOTS,
    CodeComparer,
    filter_by_chars,
    filter_by_code,
    look_behind,
    open_none,
)
from .layout import ROW_BLOCK
from .row_lengths import number_at, row_ends, sizes_within

#: What kernels that compare rows may find wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)
#: Rows, a multiple of `ROW_BLOCK`, of which those that have a value's length are found at once.
GROUP_ROWS = 16 * ROW_BLOCK

# Many rows may begin as a value does: URLs. So bytes of it are skipped, at most so many, to have these last ones before
# which a row's code is looked at, if fewer rows are looked at twice then.
BEHIND = (8, 4, 2, 1)
MOST_SKIPPED = 64
ENOUGH = len(BEHIND) + 1
#: Places of what is kept of this, and a share of all rows.
_TRIALS, _SKIP, _BEST, _SHARE = range(4)
WHOLE = 1 << 16
# Of eight answers, the bits of a 2.
_UNSURE = np.uint64(0x0202020202020202)


@njit()
def _tune(state: Any, nbytes: int, share: int) -> bool:
    """Note the share of rows that were compared twice, and choose how many bytes to skip next; whether that changed."""
    before = state[_SKIP]
    if share < state[_SHARE]:
        state[_SHARE], state[_BEST] = share, before
    if state[_TRIALS] == len(BEHIND) or (state[_TRIALS] == 0 and 16 * share <= WHOLE):
        state[_TRIALS], state[_SKIP] = ENOUGH, state[_BEST]
    else:
        state[_SKIP] = max(min(nbytes, MOST_SKIPPED) - BEHIND[state[_TRIALS]], 0)
        state[_TRIALS] += 1
    return state[_SKIP] != before


def edge_comparer(open_tiles: Any, is_at: Any, codes_of: CodeComparer) -> Any:
    """A function that compares rows of segments of a codec with a beginning and an end.

    Parameters
    ----------
    open_tiles, is_at
        What `cpu_places_kernels.openers` makes.
    codes_of
        What the codec can do.
    """
    mark, mark_second = codes_of.mark, codes_of.mark_second

    @njit()
    def find_edge(
        tiles: Any,
        table: Any,
        ends: int,
        number: int,
        back: int,
        skip: int,
        value: int,
        nbytes: int,
        marks: int,
        scratch: int,
        out: int,
    ) -> tuple[int, int]:
        """Filter rows by whether they have a value `back` bytes before their end, or at their beginning.

        `back` is 0 for beginnings. What is looked at first of a row is behind `skip` bytes of the value, of which there
        are fewer than a tile has. Returns -1 or a damaged tile, and how many rows had to be looked at twice.
        """
        tile_size, chars_end = tiles[5], tiles[4]
        shift = trailing_zeros(np.uint64(tile_size))
        word = load64(value + skip)
        at_once = SLOTS if number_at(ends + 8 * number) - number_at(ends) <= number * tile_size else 2
        if back:
            ends += 8
        row: Any = 0
        twice: Any = 0
        while row < number:
            begin: Any = number_at(ends + 8 * row) - back
            if begin < 0:
                row += 1  # too short a row, as all are that are left behind here
                continue
            if begin + skip >= chars_end:
                break
            first = begin >> shift
            last = min(first + at_once, (min(number_at(ends + 8 * number - 8) + skip, chars_end - 1) >> shift) + 1)
            last = max(last, ((begin + skip) >> shift) + 1)
            with_chars: Any = open_tiles(tiles, table, first, last, 0, AHEAD, scratch)
            if with_chars < 0:
                return -1 - with_chars, 0
            base = first << shift
            stop = min((last - first) << shift, chars_end - base)
            first_row = row
            window = ends, back - skip + base, row, number, stop, tile_size
            if not with_chars:
                row = filter_by_code(*window, marks, scratch, out)
            else:
                row = filter_by_chars(*window, word, nbytes - skip, skip == 0, marks, scratch, out)
            unsure = first_row
            while unsure < row:
                if unsure + 8 <= number:
                    flagged = load64(out + unsure) & _UNSURE
                    if flagged == np.uint64(0):
                        unsure += 8
                        continue
                    unsure += trailing_zeros(flagged) >> 3
                    if unsure >= row:
                        break
                elif load8(out + unsure) != 2:
                    unsure += 1
                    continue
                begin = number_at(ends + 8 * unsure) - back - base
                slot, behind = begin >> shift, begin + skip
                begin &= tile_size - 1
                says = np.uint64(2)
                if not with_chars:
                    of_slot = behind >> shift
                    last_byte = min(tile_size, chars_end - base - (of_slot << shift)) - 1
                    places = scratch + PLACES + 256 * of_slot
                    codes = number_at(scratch + AT + SLOT_NBYTES * of_slot)
                    says = look_behind(
                        places, codes, behind & (tile_size - 1), last_byte, nbytes - skip, marks + 8 * MARKS
                    )
                if says == np.uint64(2):
                    verdict = is_at(tiles, table, first + slot, slot, begin, value, nbytes, scratch)
                    if verdict < 0:
                        return -1 - verdict, 0
                    says = np.uint64(verdict)
                    twice += 1
                store8(out + unsure, np.uint8(says))
                unsure += 1
        return -1, twice

    @njit()
    def compare_edges(
        tiles: Any,
        rows: Any,
        table: Any,
        first_block: int,
        last_block: int,
        first: int,
        first_nbytes: int,
        last: int,
        last_nbytes: int,
        least: int,
        ends: Any,
        marks: Any,
        scratch: Any,
        out: int,
    ) -> tuple[int, int]:
        """Tell of the rows of row blocks `first_block` to ``last_block - 1`` whether they begin and end with values.

        Parameters
        ----------
        tiles, rows, table
            What `cpu_read.SegmentReader` says of a segment.
        first, first_nbytes, last, last_nbytes
            Addresses and sizes of the values. Eight bytes from any of their bytes can be read, or from their end.
        least
            Bytes that a row has at least, as many as the two values.
        ends : ndarray of int64, (GROUP_ROWS + 1,)
        marks : ndarray of uint64, (2, 2 * MARKS)
            Zeros.
        scratch : ndarray of uint8
            `scratch_nbytes`.
        out
            Address of the answers, a byte each.

        Returns
        -------
        tuple of int
            What was found wrong, and the number of the tile or row block.
        """
        ends_at, scratch_at = np.int64(ends.ctypes.data), open_none(scratch)
        marks_at = np.int64(marks.ctypes.data) + BEFORE
        # Of both values: trials, bytes that are skipped, and the best of these with the share of rows looked at twice.
        tuned = np.zeros((2, 4), np.int64)
        for i, value, nbytes in ((0, first, first_nbytes), (1, last, last_nbytes)):
            if nbytes:
                marks_of = marks_at + 16 * MARKS * i
                mark(value, nbytes, np.uint64(1), np.uint64(2), marks_of, table)
                mark_second(value, nbytes, np.uint64(1), np.uint64(2), np.uint64(0), marks_of + 8 * MARKS, table)
            tuned[i, _TRIALS] = 0 if nbytes > 1 else ENOUGH
            tuned[i, _SHARE] = WHOLE
        block = first_block
        while block < last_block:
            number = 0
            settled = tuned[0, _TRIALS] + tuned[1, _TRIALS] == 2 * ENOUGH
            while block < last_block and number + ROW_BLOCK <= (GROUP_ROWS if settled else ROW_BLOCK):
                block_rows: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, block_rows, ends_at + 8 * number):
                    return BAD_ROWS, block
                number += block_rows
                block += 1
            sizes_within(ends_at, number, least, 1 << 62, out)
            for i, value, nbytes, back in ((0, first, first_nbytes, 0), (1, last, last_nbytes, last_nbytes)):
                if nbytes == 0:
                    continue
                marks_of, skip = marks_at + 16 * MARKS * i, tuned[i, _SKIP]
                bad, twice = find_edge(
                    tiles, table, ends_at, number, back, skip, value, nbytes, marks_of, scratch_at, out
                )
                if bad >= 0:
                    return BAD_TILE, bad
                if tuned[i, _TRIALS] < ENOUGH and _tune(tuned[i], nbytes, twice * WHOLE // number):
                    marks[i] = 0
                    skip = tuned[i, _SKIP]
                    yes = np.uint64(2 if skip else 1)
                    mark(value + skip, nbytes - skip, yes, np.uint64(2), marks_of, table)
                    mark_second(
                        value + skip, nbytes - skip, yes, np.uint64(2), np.uint64(0), marks_of + 8 * MARKS, table
                    )
            out += number
        return FINE, 0

    return compare_edges
