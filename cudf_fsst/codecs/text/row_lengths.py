"""Row lengths of a segment, packed in blocks of 256 rows (docs/format.md, section 3), on the host.

All kernels take addresses, so one compiled version serves int32 and int64 offsets, read-only and writable buffers.
Unpacking trusts no stored number: it stays inside the words it is told of and reports damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, ends8, load32, load64, store8, store32, store64, within8
from .layout import ROW_BLOCK, ROW_MINIMUM_LIMIT

_MAX_WIDTH = 63
# Bits of a row's length up to which four are unpacked from a word.
_FOUR_WIDTH = 15
_MAX_WORDS = 2**32 - 1
_BITS_LOW = np.uint64(0xFFFFFFFF)


@njit(inline="always")
def _offset(offsets: int, itemsize: int, index: int) -> int:
    if itemsize == 4:
        return np.int64(np.int32(load32(offsets + 4 * index)))
    return np.int64(load64(offsets + 8 * index))


@njit()
def _first_decrease(offsets: int, itemsize: int, rows: int) -> int:
    """The first row that ends before it starts, or -1. A difference of untrusted offsets could wrap."""
    start = _offset(offsets, itemsize, 0)
    for row in range(rows):
        end = _offset(offsets, itemsize, row + 1)
        if end < start:
            return row
        start = end
    return -1


@njit()
def _measure(offsets: int, itemsize: int, rows: int, minima: Any, words: Any, starts: Any) -> None:
    """Fill minimum, word count and start of every row block."""
    base = _offset(offsets, itemsize, 0)
    start = base
    for block in range(minima.size):
        starts[block] = np.uint64(start - base)
        smallest = np.int64(ROW_MINIMUM_LIMIT)
        largest = np.int64(0)
        for row in range(block * ROW_BLOCK, min((block + 1) * ROW_BLOCK, rows)):
            end = _offset(offsets, itemsize, row + 1)
            length = end - start
            start = end
            smallest = min(smallest, length)
            largest = max(largest, length)
        minima[block] = np.uint32(smallest)
        width = 0
        while (largest - smallest) >> width != 0:
            width += 1
        words[block] = 8 * width
    starts[minima.size] = np.uint64(start - base)


@njit()
def _pack(offsets: int, itemsize: int, rows: int, minima: Any, row_words: Any, row_bits: int) -> None:
    for block in range(minima.size):
        first = np.int64(row_words[block])
        width = (np.int64(row_words[block + 1]) - first) // 8
        if width == 0:
            continue
        minimum = np.int64(minima[block])
        to = row_bits + 4 * first
        waiting = np.uint64(0)  # bits not stored yet, fewer than 32 between two rows
        have = 0
        start = _offset(offsets, itemsize, block * ROW_BLOCK)
        for i in range(ROW_BLOCK):
            row = block * ROW_BLOCK + i
            difference = np.uint64(0)
            if row < rows:
                end = _offset(offsets, itemsize, row + 1)
                difference = np.uint64(end - start - minimum)
                start = end
            waiting |= (difference & _BITS_LOW) << np.uint64(have)
            have += min(width, 32)
            if have >= 32:
                store32(to, np.uint32(waiting & _BITS_LOW))
                to += 4
                waiting >>= np.uint64(32)
                have -= 32
            if width > 32:
                waiting |= (difference >> np.uint64(32)) << np.uint64(have)
                have += width - 32
                if have >= 32:
                    store32(to, np.uint32(waiting & _BITS_LOW))
                    to += 4
                    waiting >>= np.uint64(32)
                    have -= 32


@njit()
def unpack_ends(
    row_starts: int,
    row_minima: int,
    row_words: int,
    row_bits: int,
    bits_words: int,
    rows: int,
    chars: int,
    first: int,
    last: int,
    shift: int,
    out: int,
    itemsize: int,
) -> int:
    """Where rows ``first`` to ``last - 1`` end: characters of the segment before it, plus `shift`.

    Parameters
    ----------
    row_starts, row_minima, row_words, row_bits
        Addresses of the sections of that name.
    bits_words, rows, chars
        Sizes of the segment.
    out, itemsize
        Where the ends go, one after another, `itemsize` (4 or 8) bytes each. Address 0: nothing is written.

    Returns
    -------
    int
        Where row `last` starts (without `shift`), or ``-1 - block`` where the row block is damaged.
    """
    position = np.int64(0)
    for block in range(first // ROW_BLOCK, (last + ROW_BLOCK - 1) // ROW_BLOCK):
        position = np.int64(load64(row_starts + 8 * block))
        word = np.int64(load32(row_words + 4 * block))
        width = (np.int64(load32(row_words + 4 * block + 4)) - word) // 8
        if width < 0 or width > _MAX_WIDTH or word + 8 * width > bits_words or position < 0 or position > chars:
            return -1 - block
        minimum = np.uint64(load32(row_minima + 4 * block))
        source = row_bits + 4 * word
        mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
        block_first = block * ROW_BLOCK
        waiting = np.uint64(0)
        have = 0
        for row in range(block_first, min(last, block_first + ROW_BLOCK)):
            difference = waiting
            if have < width:
                following = np.uint64(load32(source))
                source += 4
                difference |= following << np.uint64(have)
                used = width - have
                if used > 32:
                    following = np.uint64(load32(source))
                    source += 4
                    difference |= following << np.uint64(have + 32)
                    used -= 32
                waiting = following >> np.uint64(used)
                have = 32 - used
            else:
                waiting >>= np.uint64(width)
                have -= width
            length = minimum + (difference & mask)
            if length > np.uint64(chars - position):
                return -1 - block
            position += np.int64(length)
            if out != 0 and row >= first:
                if itemsize == 4:
                    store32(out + 4 * (row - first), np.uint32(position + shift))
                else:
                    store64(out + 8 * (row - first), np.uint64(position + shift))
        if min(rows, block_first + ROW_BLOCK) <= last and position != np.int64(load64(row_starts + 8 * block + 8)):
            return -1 - block
    return position


@dataclass(frozen=True, eq=False)
class PackedLengths:
    """Row lengths of a segment: the sections of docs/format.md with these names.

    Attributes
    ----------
    row_starts : ndarray of uint64, shape (row_blocks + 1,)
    row_minima : ndarray of uint32, shape (row_blocks,)
    row_words : ndarray of uint32, shape (row_blocks + 1,)
    """

    row_starts: npt.NDArray[np.uint64]
    row_minima: npt.NDArray[np.uint32]
    row_words: npt.NDArray[np.uint32]

    @property
    def words(self) -> int:
        """32-bit words of packed differences."""
        return int(self.row_words[-1])


def check_ascending(offsets: npt.NDArray[Any]) -> None:
    """Raise ValueError if an offset (int32 or int64) is smaller than the one before it."""
    bad = _first_decrease(address(offsets), offsets.itemsize, offsets.size - 1)
    if bad >= 0:
        raise ValueError(f"row {bad} ends before it starts: offsets {offsets[bad]} and {offsets[bad + 1]}")


def measure(offsets: npt.NDArray[Any]) -> PackedLengths:
    """Choose minimum and width of every row block.

    Parameters
    ----------
    offsets : ndarray of int32 or int64, shape (rows + 1,)
        Need not start at 0, and must not decrease (`check_ascending`).

    Raises
    ------
    ValueError
        The lengths need more than 2^32 - 1 words.
    """
    rows = offsets.size - 1
    blocks = -(-rows // ROW_BLOCK)
    starts = np.zeros(blocks + 1, np.uint64)
    minima = np.zeros(blocks, np.uint32)
    words = np.zeros(blocks + 1, np.int64)
    if rows:
        _measure(address(offsets), offsets.itemsize, rows, minima, words[1:], starts)
    np.cumsum(words, out=words)
    if words[-1] > _MAX_WORDS:
        raise ValueError(f"row lengths of one segment need {words[-1]} words, the format allows {_MAX_WORDS}")
    return PackedLengths(starts, minima, words.astype(np.uint32))


def pack(offsets: npt.NDArray[Any], lengths: PackedLengths, row_bits: npt.NDArray[np.uint32]) -> None:
    """Write the packed differences into `row_bits` (``lengths.words`` words)."""
    if row_bits.size != lengths.words:
        raise ValueError(f"the differences need {lengths.words} words, not {row_bits.size}")
    if lengths.words:
        rows = offsets.size - 1
        _pack(address(offsets), offsets.itemsize, rows, lengths.row_minima, lengths.row_words, address(row_bits))


@njit(inline="always")
def number_at(at: int) -> Any:
    """The int64 at an address."""
    return np.int64(load64(at))


@njit()
def row_ends(rows: Any, block: int, number: int, ends: int) -> bool:
    """Where a row block's rows begin and end: an int64 more than there are `number`; False where it is damaged.

    `ends` is the address of room for `ROW_BLOCK` and one. Lengths of a usual width are taken from words together, by
    shifts that do not depend on each other: `unpack_ends` takes 1.4 ns a row, this 0.2.
    """
    row_starts, row_minima, row_words, row_bits, bits_words, _, chars = rows
    start = np.int64(load64(row_starts + 8 * block))
    stop = np.int64(load64(row_starts + 8 * block + 8))
    word = np.int64(load32(row_words + 4 * block))
    width = (np.int64(load32(row_words + 4 * block + 4)) - word) // 8
    store64(ends, np.uint64(start))
    if start < 0 or stop < start or stop > chars:
        return False
    # A word that is read ends up to eight bytes behind the lengths; none is where all rows have one length.
    if width < 0 or width > _FOUR_WIDTH or (width > 0 and word + 8 * width + 2 > bits_words):
        first = block * ROW_BLOCK
        return unpack_ends(*rows, first, first + number, 0, ends + 8, 8) == stop
    minimum, source = np.uint64(load32(row_minima + 4 * block)), row_bits + 4 * word
    # No length is negative, and their sum is small: if it is right, so is every one before.
    end, bits = np.uint64(start), np.uint64(width)
    for i in range((number + 7) // 8):
        low, high = np.uint64(0), np.uint64(0)
        if width > 0:
            low = load64(source + i * width)
            high = load64(source + i * width + (width >> 1)) >> np.uint64(4 * (width & 1))
        end = ends8(low, high, bits, minimum, end, ends + 8 + 64 * i)
    return number_at(ends + 8 * number) == stop


@njit()
def sizes_within(ends: int, number: int, least: int, most: int, out: int) -> None:
    """Tell of rows whether they have at least `least` and at most `most` bytes, a byte each."""
    full = number // 8 * 8
    for row in range(0, full, 8):
        within8(ends + 8 * row, least, most, out + row)
    for row in range(full, number):
        size = number_at(ends + 8 * row + 8) - number_at(ends + 8 * row)
        store8(out + row, np.uint8(least <= size <= most))
