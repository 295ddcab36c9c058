"""Numba kernels for rows of strings: characters under nulls, where rows lie, and copies of them.

They take addresses, so one compiled version serves every kind of array, and release the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load32, load64
from .layout import ROW_BLOCK
from .row_lengths import unpack_ends


@njit()
def drop_null_chars(
    offsets: int, itemsize: int, rows: int, validity: int, validity_offset: int, chars: int, new_offsets: Any, out: int
) -> int:
    """Offsets without the characters of null rows into `new_offsets`; if `out` is not 0, the other characters to it."""
    position = np.int64(0)
    new_offsets[0] = 0
    for row in range(rows):
        bit = validity_offset + row
        if itemsize == 4:
            start = np.int64(np.int32(load32(offsets + 4 * row)))
            end = np.int64(np.int32(load32(offsets + 4 * row + 4)))
        else:
            start = np.int64(load64(offsets + 8 * row))
            end = np.int64(load64(offsets + 8 * row + 8))
        if (load8(validity + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) != 0 and end > start:
            if out != 0:
                copy(out + position, chars + start, end - start)
            position += end - start
        new_offsets[row + 1] = position
    return position


@njit()
def nulls_have_chars(offsets: int, itemsize: int, rows: int, validity: int, validity_offset: int) -> bool:
    for row in range(rows):
        bit = validity_offset + row
        if (load8(validity + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) == 0:
            if itemsize == 4:
                if load32(offsets + 4 * row) != load32(offsets + 4 * row + 4):
                    return True
            elif load64(offsets + 8 * row) != load64(offsets + 8 * row + 8):
                return True
    return False


@njit()
def chosen_offsets(offsets: Any, rows: Any, base: int, to: Any) -> None:
    """Fill `to` with the offsets of rows ``rows[i] - base`` of a column, one after another."""
    position = np.int64(0)
    to[0] = position
    for i in range(rows.size):
        row = rows[i] - base
        position += np.int64(offsets[row + 1]) - np.int64(offsets[row])
        to[i + 1] = position


@njit()
def copy_rows(offsets: Any, chars: int, rows: Any, base: int, to: Any, out: int) -> None:
    """Copy the characters of these rows to ``out + to[i]``."""
    for i in range(rows.size):
        copy(out + to[i], chars + np.int64(offsets[rows[i] - base]), to[i + 1] - to[i])


@njit()
def row_spans(
    row_starts: int,
    row_minima: int,
    row_words: int,
    row_bits: int,
    bits_words: int,
    segment_rows: int,
    chars: int,
    rows: Any,
    base: int,
    places: Any,
    starts: Any,
    sizes: Any,
    scratch: Any,
) -> int:
    """Where row ``rows[i] - base`` starts in the segment's characters, for every i; -1, or a damaged row block.

    Its characters are counted in ``sizes[places[i]]`` (`places` empty: i). The last entry of `scratch`, which has
    two more than a row block, is the longest row.
    """
    held = -1
    longest = np.int64(0)
    for i in range(rows.size):
        row = rows[i] - base
        block = row // ROW_BLOCK
        if block != held:
            held = block
            first = block * ROW_BLOCK
            last = min(segment_rows, first + ROW_BLOCK)
            scratch[0] = np.int64(load64(row_starts + 8 * block))
            end = unpack_ends(
                row_starts,
                row_minima,
                row_words,
                row_bits,
                bits_words,
                segment_rows,
                chars,
                first,
                last,
                0,
                scratch.ctypes.data + 8,
                8,
            )
            if end < 0:
                return block
        start = scratch[row - block * ROW_BLOCK]
        size = scratch[row - block * ROW_BLOCK + 1] - start
        starts[i] = start
        sizes[places[i] if places.size else i] = size
        longest = max(longest, size)
    scratch[scratch.size - 1] = longest
    return -1
