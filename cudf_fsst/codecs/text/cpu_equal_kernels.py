"""Numba kernels that find rows of an FSST segment that are equal to values: by their lengths, then by their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load32, load64, store8
from .layout import ROW_BLOCK
from .row_lengths import unpack_ends

#: Bits of a row's size that are read at once; those of 256 rows can be added up.
_QUICK_WIDTH = 48


@njit()
def rows_of_sizes(
    rows: Any, first: int, last: int, least: int, most: int, wanted: Any, found: Any, starts: Any, sizes: Any
) -> int:
    """Find the rows of row blocks `first` to ``last - 1`` that have one of some sizes.

    Parameters
    ----------
    rows : tuple of int
        What `cpu.SegmentReader` says of a segment.
    least, most : int
        Bytes that a row has at least, and at most.
    wanted : ndarray of bool
        Which sizes from `least` on count; empty: all.
    found, starts, sizes : ndarray of int64
        For one more than there are rows: their numbers, counted from the first one, at which character of the segment
        they begin, and their sizes.

    Returns
    -------
    int
        How many were found, or ``-1 - block`` of a damaged row block.
    """
    row_starts, row_minima, row_words, row_bits, bits_words, segment_rows, chars = rows
    ends = np.empty(ROW_BLOCK, np.int64)
    count: Any = np.int64(0)
    for block in range(first, last):
        row = block * ROW_BLOCK
        number = min(segment_rows - row, ROW_BLOCK)
        row -= first * ROW_BLOCK
        start = np.int64(load64(row_starts + 8 * block))
        word = np.int64(load32(row_words + 4 * block))
        width = (np.int64(load32(row_words + 4 * block + 4)) - word) // 8
        quick = start >= 0 and 0 <= width <= _QUICK_WIDTH and word + 8 * width + 2 <= bits_words
        minimum, source = np.int64(load32(row_minima + 4 * block)), row_bits + 4 * word
        mask = (np.int64(1) << np.int64(width if quick else 0)) - 1
        if not quick and unpack_ends(*rows, block * ROW_BLOCK, block * ROW_BLOCK + number, 0, ends.ctypes.data, 8) < 0:
            return -1 - block
        for i in range(number):
            if quick:
                bit = i * width
                size = minimum + (np.int64(load64(source + (bit >> 3)) >> np.uint64(bit & 7)) & mask)
            else:
                size = ends[i] - start
            # Without a branch: which rows count is not foreseen.
            found[count] = row + i
            starts[count] = start
            sizes[count] = size
            counts = (size >= least) & (size <= most)
            if wanted.size:
                nearest: Any = min(max(size, least), most)
                counts &= wanted[nearest - least]
            count += np.int64(counts)
            start += size
        if start != np.int64(load64(row_starts + 8 * block + 8)) or start > chars:
            return -1 - block
    return count


@njit()
def equal_rows(
    found: Any, starts: Any, row_sizes: Any, chars: int, sizes: Any, firsts: Any, words: Any, word_starts: Any, out: int
) -> None:
    """Write 1 for those rows that are one of some values.

    Parameters
    ----------
    found, starts, row_sizes : ndarray of int64
        Numbers of rows, where the characters of each lie behind `chars`, and how many they are. Eight bytes from any of
        them can be read.
    sizes : ndarray of int64
        Bytes that values have, ascending; those of ``sizes[i]`` bytes are `firsts[i]` to ``firsts[i + 1] - 1``.
    words, word_starts : ndarray of uint64, of int64
        Values as little-endian words, the last one filled up with zeros. Those of a size ascend.
    out
        Address of the answers, a byte each. They are 0.
    """
    for i in range(found.size):
        size, row = row_sizes[i], chars + starts[i]
        group = np.searchsorted(sizes, size) if sizes.size > 1 else 0
        if group == sizes.size or sizes[group] != size:
            continue
        low, high = firsts[group], firsts[group + 1]
        full = size // 8
        rest = (np.uint64(1) << np.uint64(8 * (size - 8 * full))) - np.uint64(1)
        while low < high:
            middle = (low + high) // 2
            at = word_starts[middle]
            word, wanted, place = np.uint64(0), np.uint64(0), 0
            while place < full and word == wanted:
                word, wanted = load64(row + 8 * place), words[at + place]
                place += 1
            if word == wanted and rest != np.uint64(0):
                word, wanted = load64(row + 8 * full) & rest, words[at + full]
            if word == wanted:
                store8(out + found[i], np.uint8(1))
                break
            if word < wanted:
                high = middle
            else:
                low = middle + 1
