"""Numba kernels that compare rows of a segment with values, or their beginnings and ends: by lengths, then by bytes.

Rows are looked at some row blocks at a time, where they begin in the codes (`cpu_places_kernels`). Those that may be
one of many values of their length are decoded, to a room that stays in the CPU's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load64, store8, store64, trailing_zeros
from .cpu_places_kernels import (
    AT,
    BEFORE,
    CHARS,
    DECODED,
    MARKS,
    PLACES,
    SLOT_NBYTES,
    SLOTS,
    WITH_CHARS,
    CodeComparer,
    code_at,
    fetch,
    filter_by_chars,
    filter_by_code,
    low_bits,
    open_none,
    openers,
)
from .layout import ROW_BLOCK
from .row_lengths import number_at, row_ends, sizes_within

#: What the functions that `comparers` makes may find wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)
#: Rows, a multiple of `ROW_BLOCK`, of which those that have a value's length are found at once.
GROUP_ROWS = 16 * ROW_BLOCK
#: Rows that are at least one character of so many are decoded with all between them.
_DENSE = 4
#: Values of a size, of a word at most, that rows are compared with one after another; of more it is halved.
_IN_TURN = 8


@njit()
def _note_sizes(
    ends: int, number: int, row: int, sizes_of: Any, candidates: Any, starts: Any, sizes: Any, count: Any
) -> Any:
    """Append rows that have one of some sizes to the `count` candidates, numbered from `row`; returns the new count.

    `sizes_of`: the smallest of the sizes, the largest, and `size_groups` of `compare_values`.
    """
    least, most, size_groups = sizes_of
    start = np.int64(load64(ends))
    for i in range(number):
        end = np.int64(load64(ends + 8 * i + 8))
        size = end - start
        # Without a branch, as above.
        candidates[count] = row + i
        starts[count] = start
        sizes[count] = size
        counts = (size >= least) & (size <= most)
        if size_groups.size:
            nearest: Any = min(max(size, least), most)
            counts &= size_groups[nearest - least] >= 0
        count += np.int64(counts)
        start = end
    return count


@njit()
def _note_size(
    ends: int, number: int, row: int, size: int, candidates: Any, starts: Any, sizes: Any, flags: int, count: int
) -> int:
    """Append rows that have one size, which few rows have, as `_note_sizes`; `flags`: a byte a row, and eight more."""
    sizes_within(ends, number, size, size, flags)
    store64(flags + number, np.uint64(0))
    for i in range(0, number, 8):
        matching = load64(flags + i)
        while matching != np.uint64(0):
            place: Any = i + (trailing_zeros(matching) >> 3)
            candidates[count] = row + place
            starts[count] = np.int64(load64(ends + 8 * place))
            sizes[count] = size
            count += 1
            matching &= matching - np.uint64(1)
    return count


@njit(inline="always")
def _group(size: int, size_groups: Any, sizes: Any) -> Any:
    """The number of a row's size among the values' sizes, or -1; the size is neither below nor above all of them."""
    if size_groups.size:
        return np.int64(size_groups[size - sizes[0]])
    group: Any = np.searchsorted(sizes, size) if sizes.size > 1 else 0
    return group if sizes[group] == size else -1


@njit()
def _compare_decoded(
    candidates: Any,
    begin: int,
    end: int,
    starts: Any,
    row_sizes: Any,
    chars: int,
    size_groups: Any,
    values: Any,
    out: int,
) -> None:
    """Write for each candidate whether it is one of some values, 1 or 0; its characters are at ``chars + starts[i]``.

    Eight bytes from any of their bytes can be read.
    """
    sizes, firsts, words, word_starts = values
    for i in range(begin, end):
        size, row = row_sizes[i], chars + starts[i]
        group = _group(size, size_groups, sizes)
        if group < 0:
            continue
        low, high = firsts[group], firsts[group + 1]
        if size <= 8 and high - low <= _IN_TURN:  # without a branch
            mask = low_bits(size) if size < 8 else ~np.uint64(0)
            word, equal = load64(row) & mask, size == 0
            for word_at in range(word_starts[low], word_starts[high]):
                equal |= word == words[word_at]
            store8(out + candidates[i], np.uint8(equal))
            continue
        full = size // 8
        last_mask = low_bits(size - 8 * full)
        while low < high:
            middle = (low + high) // 2
            word_at = word_starts[middle]
            word, other, place = np.uint64(0), np.uint64(0), 0
            while place < full and word == other:
                word, other = load64(row + 8 * place), words[word_at + place]
                place += 1
            if word == other and last_mask != np.uint64(0):
                word, other = load64(row + 8 * full) & last_mask, words[word_at + full]
            if word == other:
                store8(out + candidates[i], np.uint8(1))
                break
            if word < other:
                high = middle
            else:
                low = middle + 1


# Many rows may begin as a value does: URLs. So bytes of it are skipped, at most so many, to have these last ones before
# which a row's code is looked at, if fewer rows are looked at twice then.
_BEHIND = (8, 4, 2, 1)
_MOST_SKIPPED = 64
_ENOUGH = len(_BEHIND) + 1
#: Places of what is kept of this, and a share of all rows.
_TRIALS, _SKIP, _BEST, _SHARE = range(4)
_WHOLE = 1 << 16


@njit()
def _tune(state: Any, nbytes: int, share: int) -> bool:
    """Note the share of rows that were compared twice, and choose how many bytes to skip next; whether that changed."""
    before = state[_SKIP]
    if share < state[_SHARE]:
        state[_SHARE], state[_BEST] = share, before
    if state[_TRIALS] == len(_BEHIND) or (state[_TRIALS] == 0 and 16 * share <= _WHOLE):
        state[_TRIALS], state[_SKIP] = _ENOUGH, state[_BEST]
    else:
        state[_SKIP] = max(min(nbytes, _MOST_SKIPPED) - _BEHIND[state[_TRIALS]], 0)
        state[_TRIALS] += 1
    return state[_SKIP] != before


def comparers(decode_any: Any, decode_chars: Any, decode_rows: Any, codes_of: CodeComparer) -> tuple[Any, Any]:
    """Functions that compare rows of segments of a codec: with a beginning and an end, and with values.

    Parameters
    ----------
    decode_any
        What decodes a tile of any kind, as `cpu_decode.decoder` takes that of one that is not raw.
    decode_chars, decode_rows
        As `cpu_decode.Decoder` has them.
    codes_of
        What the codec can do.
    """
    mark = codes_of.mark
    open_tiles, is_at = openers(decode_any, codes_of)

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
        row, twice = 0, 0
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
            wide: Any = open_tiles(tiles, table, first, last, 0, scratch)
            if wide < 0:
                return -1 - wide, 0
            base = first << shift
            stop = min((last - first) << shift, chars_end - base)
            first_row = row
            window = ends, back - skip + base, row, number, stop, tile_size
            if wide < WITH_CHARS:
                row = filter_by_code(*window, wide, marks, scratch, out)
            else:
                row = filter_by_chars(*window, wide, word, nbytes - skip, skip == 0, marks, scratch, out)
            for unsure in range(first_row, row):
                if load8(out + unsure) == 2:
                    begin = number_at(ends + 8 * unsure) - back - base
                    slot = begin >> shift
                    begin &= tile_size - 1
                    verdict = is_at(tiles, table, first + slot, slot, begin, wide, value, nbytes, scratch)
                    if verdict < 0:
                        return -1 - verdict, 0
                    store8(out + unsure, np.uint8(verdict))
                    twice += 1
        return -1, twice

    @njit()
    def compare_candidates(
        tiles: Any,
        table: Any,
        starts: Any,
        sizes: Any,
        candidates: Any,
        count: int,
        size_groups: Any,
        values: Any,
        marks: int,
        slots: int,
        scratch: int,
        out: int,
    ) -> tuple[int, int]:
        """Compare candidates by codes. Those that have to be decoded stay; returns their count, and -1 or a bad tile.

        `slots`: address of room for a byte for each row.
        """
        value_sizes, firsts, words, word_starts = values
        words_at = np.int64(words.ctypes.data)
        shift = trailing_zeros(np.uint64(tiles[5]))
        inside: Any = tiles[5] - 1
        to_decode: Any = 0
        i = 0
        while i < count:
            # Open tiles, as many as there are slots; then look at the rows that begin in them.
            slot, tile, wide = np.int64(-1), np.int64(-1), np.int64(0)
            stop = i
            while stop < count:
                if sizes[stop] > 0 and starts[stop] >> shift != tile:
                    if slot == SLOTS - 1:
                        break
                    tile = starts[stop] >> shift
                    slot += 1
                    opened = open_tiles(tiles, table, tile, tile + 1, slot, scratch)
                    if opened < 0:
                        return 0, -1 - opened
                    wide = opened if opened > wide else wide
                store8(slots + stop, np.uint8(slot if slot > 0 else 0))
                stop += 1
            kept_rows: Any = to_decode  # rows that may be a value
            for candidate in range(i, stop):
                size, start = sizes[candidate], starts[candidate]
                group = _group(size, size_groups, value_sizes)
                begin = start & inside
                slot = np.int64(load8(slots + candidate))
                slot_at = scratch + SLOT_NBYTES * slot
                chars = number_at(slot_at + CHARS)
                bits = ~np.uint64(0)
                if size == 0:
                    store8(out + candidates[candidate], np.uint8(group >= 0))
                    bits = np.uint64(0)
                elif chars:
                    bits = load64(marks - BEFORE + 8 * MARKS + 8 * np.int64(load8(chars + begin)))
                else:
                    places = scratch + PLACES + 256 * slot
                    index = code_at(places, begin, wide)
                    code = np.int64(load8(number_at(slot_at + AT) + index))
                    symbol_nbytes = np.int64(load8(places + index)) + 1 - begin
                    bits = load64(marks + 8 * (8 * code + symbol_nbytes - 1))
                candidates[kept_rows], starts[kept_rows], sizes[kept_rows] = candidates[candidate], start, size
                store8(slots + kept_rows, np.uint8(slot))
                kept_rows += np.int64(group >= 0) & np.int64((bits >> np.uint64(group & 63)) & np.uint64(1))
            for candidate in range(to_decode, kept_rows):
                size, start = sizes[candidate], starts[candidate]
                group = _group(size, size_groups, value_sizes)
                low, high = firsts[group], firsts[group + 1]
                if high - low > _IN_TURN:
                    candidates[to_decode], starts[to_decode], sizes[to_decode] = candidates[candidate], start, size
                    to_decode += 1
                    continue
                slot = np.int64(load8(slots + candidate))
                for index in range(low, high):
                    value = words_at + 8 * word_starts[index]
                    verdict = is_at(tiles, table, start >> shift, slot, start & inside, wide, value, size, scratch)
                    if verdict < 0:
                        return 0, -1 - verdict
                    if verdict:
                        store8(out + candidates[candidate], np.uint8(1))
                        break
            i = stop
        return to_decode, -1

    @njit()
    def decode_between(tiles: Any, table: Any, begin: int, end: int, buffer: int, spare: int) -> int:
        return decode_chars(*tiles, begin, end, buffer, spare, table)

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
        marks : ndarray of uint64, (2, MARKS)
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
            mark(value, nbytes, np.uint64(1), np.uint64(2), marks_at + 8 * MARKS * i, table)
            tuned[i, _TRIALS] = 0 if nbytes > 1 else _ENOUGH
            tuned[i, _SHARE] = _WHOLE
        block = first_block
        while block < last_block:
            number = 0
            settled = tuned[0, _TRIALS] + tuned[1, _TRIALS] == 2 * _ENOUGH
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
                marks_of, skip = marks_at + 8 * MARKS * i, tuned[i, _SKIP]
                bad, twice = find_edge(
                    tiles, table, ends_at, number, back, skip, value, nbytes, marks_of, scratch_at, out
                )
                if bad >= 0:
                    return BAD_TILE, bad
                if tuned[i, _TRIALS] < _ENOUGH and _tune(tuned[i], nbytes, twice * _WHOLE // number):
                    marks[i] = 0
                    skip = tuned[i, _SKIP]
                    yes = np.uint64(2 if skip else 1)
                    mark(value + skip, nbytes - skip, yes, np.uint64(2), marks_of, table)
            out += number
        return FINE, 0

    @njit()
    def compare_values(
        tiles: Any,
        rows: Any,
        table: Any,
        first_block: int,
        last_block: int,
        size_groups: Any,
        values: Any,
        ends: Any,
        candidates: Any,
        starts: Any,
        sizes: Any,
        offsets: Any,
        marks: Any,
        buffer: Any,
        scratch: Any,
        out: int,
    ) -> tuple[int, int]:
        """Tell of the rows of row blocks `first_block` to ``last_block - 1`` which are one of some values.

        Parameters
        ----------
        tiles, rows, table, scratch
            As `compare_edges` takes them.
        size_groups : ndarray of int16
            Sizes from the smallest of the values on: number of each among the values' sizes, or -1. Empty: they are too
            far from each other.
        values : tuple of ndarray
            Sizes of values, ascending. Those of size i are ``firsts[i]`` to ``firsts[i + 1] - 1``. Values as
            little-endian words, the last one filled up with zeros: those of a size ascend. Where each value's begin.
        ends : ndarray of int64, (ROW_BLOCK + 1,)
        candidates, starts, sizes, offsets : ndarray of int64, (GROUP_ROWS + 1,)
        marks : ndarray of uint64, (MARKS + 256,)
            Zeros; then for each byte a bit for each of the values' sizes, in turn: whether a value begins with it.
        buffer : ndarray of uint8
            For the longest value, or more, and 8.
        out
            Address of the answers, a byte each. They are 0.

        Returns
        -------
        tuple of int
            As `compare_edges` does.
        """
        buffer_at, ends_at = np.int64(buffer.ctypes.data), np.int64(ends.ctypes.data)
        least, most = values[0][0], values[0][-1]
        sizes_of = least, most, size_groups
        scratch_at = open_none(scratch)
        spare_at = scratch_at + DECODED + SLOTS * (tiles[5] + 64)  # tiles stay open, and what is known of the next ones
        flags = np.empty(ROW_BLOCK + 8, np.uint8)
        no_places = offsets[:0]
        slots = np.empty(GROUP_ROWS + 1, np.uint8)
        marks_at = np.int64(marks.ctypes.data) + BEFORE
        words_at = np.int64(values[2].ctypes.data)
        for group in range(values[0].size):
            bit = np.uint64(1) << np.uint64(group & 63)
            for value in range(values[1][group], values[1][group + 1]):
                mark(words_at + 8 * values[3][value], values[0][group], bit, bit, marks_at, table)
        block = first_block
        while block < last_block:
            # Numba frees an array behind the last use of it, whatever is done with its address.
            flags_at, slots_at = np.int64(flags.ctypes.data), np.int64(slots.ctypes.data)
            count = 0
            number = 0
            while block < last_block and number + ROW_BLOCK <= GROUP_ROWS:
                block_rows: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, block_rows, ends_at):
                    return BAD_ROWS, block
                if least == most:
                    count = _note_size(ends_at, block_rows, number, least, candidates, starts, sizes, flags_at, count)
                else:
                    count = _note_sizes(ends_at, block_rows, number, sizes_of, candidates, starts, sizes, count)
                number += block_rows
                block += 1
            fetch(tiles, starts, sizes, count)
            count, bad = compare_candidates(
                tiles, table, starts, sizes, candidates, count, size_groups, values, marks_at, slots_at, scratch_at, out
            )
            if bad >= 0:
                return BAD_TILE, bad
            begin = 0
            while begin < count:
                end, nbytes = begin, np.int64(0)
                offsets[0] = 0
                while end < count and (end == begin or _DENSE * (nbytes + sizes[end]) <= buffer.size - 8):
                    nbytes += sizes[end]
                    end += 1
                    offsets[end - begin] = nbytes
                lowest, highest = starts[begin], starts[end - 1] + sizes[end - 1]
                if highest - lowest <= _DENSE * nbytes and highest - lowest <= buffer.size - 8:
                    bad = decode_between(tiles, table, lowest, highest, buffer_at, spare_at)
                    if bad >= 0:
                        return BAD_TILE, bad
                    _compare_decoded(
                        candidates, begin, end, starts, sizes, buffer_at - lowest, size_groups, values, out
                    )
                else:
                    bad = decode_rows(
                        *tiles,
                        starts[begin:end],
                        no_places,
                        offsets,
                        nbytes + 1,
                        buffer_at,
                        spare_at,
                        table,
                    )
                    if bad >= 0:
                        return BAD_TILE, bad
                    starts[begin:end] = offsets[: end - begin]
                    _compare_decoded(candidates, begin, end, starts, sizes, buffer_at, size_groups, values, out)
                begin = end
            out += number
        return FINE, 0

    return compare_edges, compare_values
