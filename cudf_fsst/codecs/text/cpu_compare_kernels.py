"""Numba kernels that compare rows of a segment with values, or their beginnings and ends: by lengths, then by bytes.

Rows are looked at some row blocks at a time. Where few of them can be equal, by their lengths, those are decoded; else
all are, to a room that stays in the CPU's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load16, load32, load64, store8, store64, trailing_zeros
from .layout import ROW_BLOCK, TILE_BLOCK
from .row_lengths import unpack_ends

#: What the functions that `comparers` makes may find wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)
#: Rows, a multiple of `ROW_BLOCK`, of which those that have a value's length are found at once.
GROUP_ROWS = 16 * ROW_BLOCK
#: Characters of all rows that are decoded at once, about.
_TOGETHER_CHARS = 2**15
#: Rows that are at least one character of so many are decoded with all between them.
_DENSE = 4
#: Values of a size, of a word at most, that rows are compared with one after another; of more it is halved.
_IN_TURN = 8
#: Rows that are one in more characters are first told by their first characters: finding a place in a tile takes as
#: long as decoding so many.
_FEW_CHARS = 160

# Bits of a row's length up to which eight, or four, are unpacked from one word.
_EIGHT_WIDTH, _FOUR_WIDTH = 8, 15


@njit()
def row_ends(rows: Any, block: int, number: int, ends: int) -> bool:
    """Where a row block's rows begin and end: an int64 more than there are `number`; False where it is damaged.

    `ends` is the address of room for `ROW_BLOCK` and one. Lengths of a usual width are taken from words together, by
    shifts that do not depend on each other: `unpack_ends` takes 1.4 ns a row, this 0.6.
    """
    row_starts, row_minima, row_words, row_bits, bits_words, _, chars = rows
    start = np.int64(load64(row_starts + 8 * block))
    stop = np.int64(load64(row_starts + 8 * block + 8))
    word = np.int64(load32(row_words + 4 * block))
    width = (np.int64(load32(row_words + 4 * block + 4)) - word) // 8
    store64(ends, np.uint64(start))
    if start < 0 or stop < start or stop > chars:
        return False
    # A word that is read ends up to eight bytes behind the lengths.
    if width < 0 or width > _FOUR_WIDTH or word + 8 * width + 2 > bits_words:
        first = block * ROW_BLOCK
        return unpack_ends(*rows, first, first + number, 0, ends + 8, 8) == stop
    minimum, source = np.uint64(load32(row_minima + 4 * block)), row_bits + 4 * word
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    bits, at = np.uint64(width), ends + 8
    if width <= _EIGHT_WIDTH:
        for i in range(ROW_BLOCK // 8):
            some = load64(source + i * width)
            for j in range(8):
                store64(at + 8 * j, minimum + ((some >> (bits * np.uint64(j))) & mask))
            at += 64
    else:
        for i in range(ROW_BLOCK // 4):
            bit = 4 * i * width
            some = load64(source + (bit >> 3)) >> np.uint64(bit & 7)
            for j in range(4):
                store64(at + 8 * j, minimum + ((some >> (bits * np.uint64(j))) & mask))
            at += 32
    # No length is negative, and their sum is small: if it is right, so is every one before.
    end = np.uint64(start)
    for i in range(number):
        end += load64(ends + 8 * i + 8)
        store64(ends + 8 * i + 8, end)
    return np.int64(end) == stop


@njit(inline="always")
def tile_length(lengths: int, tile_size: int, tile: int) -> Any:
    """Bytes of a tile's codes, as stored."""
    if tile_size <= 256:
        return np.int64(load8(lengths + tile)) + 1
    return np.int64(load16(lengths + 2 * tile)) + 1


@njit()
def _same(row: int, value: int, nbytes: int) -> bool:
    """Whether bytes are the same. Eight bytes from any of them can be read."""
    while nbytes >= 8:
        if load64(row) != load64(value):
            return False
        row += 8
        value += 8
        nbytes -= 8
    return ((load64(row) ^ load64(value)) & _low(nbytes)) == np.uint64(0)


@njit()
def same_bytes(row: int, value: int, nbytes: int) -> bool:
    """As `_same`, where no byte behind the first ones can be read."""
    while nbytes >= 8:
        if load64(row) != load64(value):
            return False
        row += 8
        value += 8
        nbytes -= 8
    different = np.uint8(0)
    for i in range(nbytes):
        different |= load8(row + i) ^ load8(value + i)
    return different == 0


@njit(inline="always")
def _low(nbytes: int) -> Any:
    """The bits of the first bytes of a word, fewer than eight."""
    return (np.uint64(1) << np.uint64(8 * nbytes)) - np.uint64(1)


@njit()
def _find_edges(
    ends: int, number: int, chars: int, first: int, first_nbytes: int, last: int, last_nbytes: int, least: int, out: int
) -> None:
    """Tell of rows that are decoded whether they begin and end with two values; `chars`: where character 0 would be."""
    first_word, last_word = load64(first), load64(last)
    first_mask = _low(first_nbytes) if first_nbytes < 8 else ~np.uint64(0)
    last_mask = _low(last_nbytes) if last_nbytes < 8 else ~np.uint64(0)
    first_word &= first_mask
    last_word &= last_mask
    long = first_nbytes > 8 or last_nbytes > 8
    start = np.int64(load64(ends))
    for row in range(number):
        end = np.int64(load64(ends + 8 * row + 8))
        at = max(end - last_nbytes, start)
        # Without a branch: which rows count is not foreseen.
        fits = (load64(chars + start) & first_mask) == first_word
        fits &= (load64(chars + at) & last_mask) == last_word
        fits &= end - start >= least
        if long and fits:
            fits = _same(chars + start, first, first_nbytes) and _same(chars + at, last, last_nbytes)
        store8(out + row, np.uint8(fits))
        start = end


@njit()
def _of_sizes(ends: int, number: int, row: int, sizes_of: Any, found: Any, starts: Any, sizes: Any, count: Any) -> Any:
    """Note rows that have one of some sizes behind the `count` that are noted, numbered from `row`; how many are.

    `sizes_of`: the smallest of the sizes, the largest, and `wanted` of `compare_values`.
    """
    least, most, wanted = sizes_of
    start = np.int64(load64(ends))
    for i in range(number):
        end = np.int64(load64(ends + 8 * i + 8))
        size = end - start
        # Without a branch, as above.
        found[count] = row + i
        starts[count] = start
        sizes[count] = size
        counts = (size >= least) & (size <= most)
        if wanted.size:
            nearest: Any = min(max(size, least), most)
            counts &= wanted[nearest - least] >= 0
        count += np.int64(counts)
        start = end
    return count


@njit()
def _of_size(
    ends: int, number: int, row: int, size: int, found: Any, starts: Any, sizes: Any, flags: int, count: int
) -> int:
    """As `_of_sizes` of one size, which few rows have; `flags`: room for a byte a row, and eight more."""
    for i in range(number):
        store8(flags + i, np.uint8(load64(ends + 8 * i + 8) - load64(ends + 8 * i) == np.uint64(size)))
    store64(flags + number, np.uint64(0))
    for i in range(0, number, 8):
        some = load64(flags + i)
        while some != np.uint64(0):
            place: Any = i + (trailing_zeros(some) >> 3)
            found[count] = row + place
            starts[count] = np.int64(load64(ends + 8 * place))
            sizes[count] = size
            count += 1
            some &= some - np.uint64(1)
    return count


@njit(inline="always")
def _group(size: int, wanted: Any, sizes: Any) -> Any:
    """Which of the values' sizes, between the smallest and the largest of them, a row has, or -1."""
    if wanted.size:
        return np.int64(wanted[size - sizes[0]])
    group: Any = np.searchsorted(sizes, size) if sizes.size > 1 else 0
    return group if sizes[group] == size else -1


@njit()
def _find_values(
    found: Any, begin: int, end: int, starts: Any, row_sizes: Any, chars: int, wanted: Any, values: Any, out: int
) -> None:
    """Write 1 for those of the rows noted that are one of some values, or 0; ``chars + starts[i]``: where they are.

    Eight bytes from any of their bytes can be read.
    """
    sizes, firsts, words, word_starts = values
    for i in range(begin, end):
        size, row = row_sizes[i], chars + starts[i]
        group = _group(size, wanted, sizes)
        if group < 0:
            continue
        low, high = firsts[group], firsts[group + 1]
        if size <= 8 and high - low <= _IN_TURN:  # without a branch
            mask = _low(size) if size < 8 else ~np.uint64(0)
            word, equal = load64(row) & mask, size == 0
            for at in range(word_starts[low], word_starts[high]):
                equal |= word == words[at]
            store8(out + found[i], np.uint8(equal))
            continue
        full = size // 8
        rest = _low(size - 8 * full)
        while low < high:
            middle = (low + high) // 2
            at = word_starts[middle]
            word, other, place = np.uint64(0), np.uint64(0), 0
            while place < full and word == other:
                word, other = load64(row + 8 * place), words[at + place]
                place += 1
            if word == other and rest != np.uint64(0):
                word, other = load64(row + 8 * full) & rest, words[at + full]
            if word == other:
                store8(out + found[i], np.uint8(1))
                break
            if word < other:
                high = middle
            else:
                low = middle + 1


@njit()
def same_unknown(at: int, end: int, skip: int, value: int, nbytes: int, table: Any) -> int:
    """What `comparers` takes of a codec that cannot compare characters of a tile without decoding it."""
    return 0


def comparers(decode_chars: Any, decode_rows: Any, same: Any) -> tuple[Any, Any]:
    """Functions that compare rows of segments of a codec: with a beginning and an end, and with values.

    Parameters
    ----------
    decode_chars, decode_rows
        As `cpu_decode.Decoder` has them.
    same
        As `cpu_decode.decoder` takes it.
    """

    @njit()
    def keep(
        tiles: Any,
        table: Any,
        starts: Any,
        sizes: Any,
        found: Any,
        count: int,
        wanted: Any,
        values: Any,
        places: Any,
        out: int,
    ) -> int:
        """Compare the rows noted as far as they lie in one tile; those that may go on are noted, how many they are.

        Rows of damaged tiles are noted, too. `places`: room for where the codes of each row's tile begin and end.
        """
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        value_sizes, firsts, words, word_starts = values
        words_at = np.int64(words.ctypes.data)
        shift = trailing_zeros(np.uint64(tile_size))
        following, position = -1, np.int64(0)  # the codes of this tile begin there
        begin = np.int64(0)
        touched = np.int64(0)
        for i in range(count):
            tile = starts[i] >> shift
            block = tile // TILE_BLOCK
            if sizes[i] > 0 and (tile >= following or block != following // TILE_BLOCK):
                if following < 0 or block != following // TILE_BLOCK:
                    following = block * TILE_BLOCK
                    position = np.int64(load64(block_starts + 8 * block))
                while following <= tile:
                    begin = position
                    position += tile_length(lengths, tile_size, following)
                    following += 1
            places[i, 0], places[i, 1] = begin, position
            # The codes of all these tiles are on their way before the first are looked at.
            if 0 <= begin < position <= codes_nbytes:
                touched += np.int64(load8(codes + begin)) + np.int64(load8(codes + position - 1))
        places[count, 0] = touched
        kept: Any = 0
        for i in range(count):
            start, size = starts[i], sizes[i]
            group = _group(size, wanted, value_sizes)
            if group < 0:
                continue
            begin, position = places[i, 0], places[i, 1]
            goes_on = True
            if size > 0 and 0 <= begin < position <= codes_nbytes:
                goes_on = False
                tile = start >> shift
                nbytes, skip = min(tile_size, chars - (tile << shift)), start - (tile << shift)
                at = codes + begin
                for one in range(firsts[group], firsts[group + 1]):
                    value = words_at + 8 * word_starts[one]
                    if position - begin == nbytes:
                        alike = min(size, nbytes - skip)
                        if not same_bytes(at + skip, value, alike):
                            alike = -1
                    else:
                        alike = same(at, codes + position, skip, value, size, table)
                    if alike == size:
                        store8(out + found[i], np.uint8(1))
                        goes_on = False
                        break
                    goes_on = goes_on or alike >= 0
            found[kept] = found[i]
            starts[kept] = start
            sizes[kept] = size
            kept += np.int64(goes_on)
        return kept

    @njit()
    def decode_room(tiles: Any, table: Any, begin: int, end: int, room: Any, scratch: Any) -> int:
        return decode_chars(*tiles, begin, end, np.int64(room.ctypes.data), np.int64(scratch.ctypes.data), table)

    @njit()
    def long_is(
        tiles: Any, table: Any, begin: int, value: int, nbytes: int, room: Any, scratch: Any
    ) -> tuple[bool, int]:
        """Whether characters from `begin` on are a value's, decoded some at a time; and -1, or a damaged tile."""
        done = 0
        while done < nbytes:
            some: Any = min(nbytes - done, room.size - 8 if done else 64)
            bad = decode_room(tiles, table, begin + done, begin + done + some, room, scratch)
            if bad >= 0:
                return False, bad
            if not _same(np.int64(room.ctypes.data), value + done, some):
                return False, -1
            done += some
        return True, -1

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
        room: Any,
        scratch: Any,
        out: int,
    ) -> tuple[int, int]:
        """Tell of the rows of row blocks `first_block` to ``last_block - 1`` whether they begin and end with values.

        Parameters
        ----------
        tiles, rows, table
            What `cpu.SegmentReader` says of a segment.
        first, first_nbytes, last, last_nbytes
            Addresses and sizes of the values. Eight bytes from any of their bytes can be read, or from their end.
        least
            Bytes that a row has at least, as many as the two values.
        ends : ndarray of int64, (GROUP_ROWS + 1,)
        room : ndarray of uint8, (72 or more,)
            Of row blocks with more characters rows are decoded one by one, as far as they are compared.
        scratch : ndarray of uint8
            For a tile and 64 bytes.
        out
            Address of the answers, a byte each.

        Returns
        -------
        tuple of int
            What was found wrong, and the number of the tile or row block.
        """
        room_at, ends_at = np.int64(room.ctypes.data), np.int64(ends.ctypes.data)
        block = first_block
        while block < last_block:
            number = 0
            while block < last_block and number + ROW_BLOCK <= GROUP_ROWS:
                if number and np.int64(load64(rows[0] + 8 * block + 8)) - ends[0] > _TOGETHER_CHARS:
                    break
                some: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, some, ends_at + 8 * number):
                    return BAD_ROWS, block
                number += some
                block += 1
            begin, end = ends[0], ends[number]
            if end - begin <= room.size - 8:
                bad = decode_room(tiles, table, begin, end, room, scratch)
                if bad >= 0:
                    return BAD_TILE, bad
                _find_edges(ends_at, number, room_at - begin, first, first_nbytes, last, last_nbytes, least, out)
            else:
                for row in range(number):
                    fits = ends[row + 1] - ends[row] >= least
                    if fits:
                        fits, bad = long_is(tiles, table, ends[row], first, first_nbytes, room, scratch)
                        if bad >= 0:
                            return BAD_TILE, bad
                    if fits:
                        at = ends[row + 1] - last_nbytes
                        fits, bad = long_is(tiles, table, at, last, last_nbytes, room, scratch)
                        if bad >= 0:
                            return BAD_TILE, bad
                    store8(out + row, np.uint8(fits))
            out += number
        return FINE, 0

    @njit()
    def compare_values(
        tiles: Any,
        rows: Any,
        table: Any,
        first_block: int,
        last_block: int,
        wanted: Any,
        values: Any,
        ends: Any,
        found: Any,
        starts: Any,
        sizes: Any,
        offsets: Any,
        room: Any,
        scratch: Any,
        out: int,
    ) -> tuple[int, int]:
        """Tell of the rows of row blocks `first_block` to ``last_block - 1`` which are one of some values.

        Parameters
        ----------
        tiles, rows, table, scratch
            As `compare_edges` takes them.
        wanted : ndarray of int16
            Sizes from the smallest of the values on: number of each among the values' sizes, or -1. Empty: they are too
            far from each other.
        values : tuple of ndarray
            Sizes of values, ascending. Those of size i are ``firsts[i]`` to ``firsts[i + 1] - 1``. Values as
            little-endian words, the last one filled up with zeros: those of a size ascend. Where each value's begin.
        ends : ndarray of int64, (ROW_BLOCK + 1,)
        found, starts, sizes, offsets : ndarray of int64, (GROUP_ROWS + 1,)
        room : ndarray of uint8
            For the longest value, or more, and 8.
        out
            Address of the answers, a byte each. They are 0.

        Returns
        -------
        tuple of int
            As `compare_edges` does.
        """
        room_at, ends_at = np.int64(room.ctypes.data), np.int64(ends.ctypes.data)
        least, most = values[0][0], values[0][-1]
        sizes_of = least, most, wanted
        places = np.empty((GROUP_ROWS + 1, 2), np.int64)
        flags = np.empty(ROW_BLOCK + 8, np.uint8)
        flags_at = np.int64(flags.ctypes.data)
        none = offsets[:0]
        block = first_block
        while block < last_block:
            count = 0
            number = 0
            while block < last_block and number + ROW_BLOCK <= GROUP_ROWS:
                some: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, some, ends_at):
                    return BAD_ROWS, block
                if least == most:
                    count = _of_size(ends_at, some, number, least, found, starts, sizes, flags_at, count)
                else:
                    count = _of_sizes(ends_at, some, number, sizes_of, found, starts, sizes, count)
                number += some
                block += 1
            few = count > 0 and starts[count - 1] - starts[0] > _FEW_CHARS * count
            if few:
                count = keep(tiles, table, starts, sizes, found, count, wanted, values, places, out)
            begin = 0
            while begin < count:
                end, nbytes = begin, np.int64(0)
                offsets[0] = 0
                while end < count and (end == begin or _DENSE * (nbytes + sizes[end]) <= room.size - 8):
                    nbytes += sizes[end]
                    end += 1
                    offsets[end - begin] = nbytes
                lowest, highest = starts[begin], starts[end - 1] + sizes[end - 1]
                if (not few or highest - lowest <= _DENSE * nbytes) and highest - lowest <= room.size - 8:
                    bad = decode_room(tiles, table, lowest, highest, room, scratch)
                    if bad >= 0:
                        return BAD_TILE, bad
                    _find_values(found, begin, end, starts, sizes, room_at - lowest, wanted, values, out)
                else:
                    bad = decode_rows(
                        *tiles,
                        starts[begin:end],
                        none,
                        offsets,
                        nbytes + 1,
                        room_at,
                        np.int64(scratch.ctypes.data),
                        table,
                    )
                    if bad >= 0:
                        return BAD_TILE, bad
                    starts[begin:end] = offsets[: end - begin]
                    _find_values(found, begin, end, starts, sizes, room_at, wanted, values, out)
                begin = end
            out += number
        return FINE, 0

    return compare_edges, compare_values
