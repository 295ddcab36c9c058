"""Numba kernels that compare rows of a segment with values: by lengths, then by bytes.

Where few rows have a value's length, these are looked at by themselves, where they begin in the codes, and those that
may be one of many values of their length are decoded, to a room that stays in the CPU's cache. Where many do, they are
looked at as they lie (`cpu_find_kernels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load64, popcount, store8, store64, trailing_zeros
from .cpu_compare_kernels import BAD_ROWS, BAD_TILE, ENOUGH, FINE, GROUP_ROWS, WHOLE
from .cpu_find_kernels import finders
from .cpu_places_kernels import (
    AT,
    BEFORE,
    CHARS,
    DECODED,
    HASHES,
    MARKS,
    PLACES,
    SLOT_NBYTES,
    SLOTS,
    CodeComparer,
    aligned,
    code_at,
    fetch,
    low_bits,
    open_none,
    scratch_nbytes,
)
from .layout import ROW_BLOCK
from .row_lengths import number_at, row_ends, sizes_within

#: Rows that are at least one character of so many are decoded with all between them.
_DENSE = 4
#: Values of a size, of a word at most, that rows are compared with one after another; of more it is halved.
_IN_TURN = 8
#: Rows that have a value's length are looked at as they lie if there is one to so many tiles.
_DENSE_ROWS = 6
#: Values that are told by bits of a word.
_MOST_BITS = 64
#: Tiles whose codes are searched for a value together, at most.
_MOST_TILES = 2**13


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
def _note_flagged(ends: int, number: int, size: int, candidates: Any, starts: Any, sizes: Any, flags: int) -> Any:
    """Make rows that have a byte 1 candidates, of one size, and these bytes 0. Returns how many there are."""
    count: Any = np.int64(0)
    for i in range(0, number, 8):
        matching = load64(flags + i)
        store64(flags + i, np.uint64(0))
        while matching != np.uint64(0):
            row: Any = i + (trailing_zeros(matching) >> 3)
            candidates[count], starts[count], sizes[count] = row, np.int64(load64(ends + 8 * row)), size
            count += 1
            matching &= matching - np.uint64(1)
    return count


@njit()
def _count_flagged(flags: int, number: int) -> Any:
    """How many of some bytes, a multiple of 8, are 1; the others are 0."""
    count: Any = np.int64(0)
    for i in range(0, number, 8):
        count += popcount(load64(flags + i))
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


def untuned() -> Any:
    """What `compare_values` takes as `tuned` for new values."""
    return np.array([0, 0, 0, WHOLE + 1], np.int64)


def value_comparer(decode_chars: Any, decode_rows: Any, open_tiles: Any, is_at: Any, codes_of: CodeComparer) -> Any:
    """A function that compares rows of segments of a codec with values.

    Parameters
    ----------
    decode_chars, decode_rows
        As `cpu_decode.Decoder` has them.
    open_tiles, is_at, codes_of
        As `cpu_compare_kernels.edge_comparer` takes them.
    """
    mark = codes_of.mark
    mark_values, find_values, find_value = finders(open_tiles, is_at, codes_of)

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
            slot, tile = np.int64(-1), np.int64(-1)
            stop = i
            while stop < count:
                if sizes[stop] > 0 and starts[stop] >> shift != tile:
                    if slot == SLOTS - 1:
                        break
                    tile = starts[stop] >> shift
                    slot += 1
                    opened = open_tiles(tiles, table, tile, tile + 1, slot, 0, scratch)
                    if opened < 0:
                        return 0, -1 - opened
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
                    index = code_at(places, begin)
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
                    verdict = is_at(tiles, table, start >> shift, slot, start & inside, value, size, scratch)
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
    def compare_values(
        tiles: Any,
        rows: Any,
        table: Any,
        first_block: int,
        last_block: int,
        size_groups: Any,
        values: Any,
        tuned: Any,
        plan: int,
        first_bytes: Any,
        room_nbytes: int,
        out: int,
    ) -> tuple[int, int]:
        """Tell of the rows of row blocks `first_block` to ``last_block - 1`` which are one of some values.

        Parameters
        ----------
        tiles, rows, table
            As `compare_edges` takes them.
        size_groups : ndarray of int16
            Sizes from the smallest of the values on: number of each among the values' sizes, or -1. Empty: they are too
            far from each other.
        values : tuple of ndarray
            Sizes of values, ascending. Those of size i are ``firsts[i]`` to ``firsts[i + 1] - 1``. Values as
            little-endian words, the last one filled up with zeros: those of a size ascend. Where each value's begin.
        tuned : ndarray of int64, (4,)
            Trials of places where rows are looked at first, the next one, the best one, and its share of rows that were
            looked at twice. Calls for the same values share it, in any thread.
        plan
            Address of what the codec's `may_have` looks for, of one value, or 0.
        first_bytes : ndarray of uint64, (256,)
            For each byte a bit for each of the values' sizes, in turn: whether a value begins with it.
        room_nbytes
            Of rows that are decoded together: of the longest value, or more, and 8.
        out
            Address of the answers, a byte each. They are 0.

        Returns
        -------
        tuple of int
            As `compare_edges` does.
        """
        least, most = values[0][0], values[0][-1]
        sizes_of = least, most, size_groups
        shift = trailing_zeros(np.uint64(tiles[5]))
        ends, candidates = np.empty(GROUP_ROWS + 1, np.int64), np.empty(GROUP_ROWS + 1, np.int64)
        starts, sizes = np.empty(GROUP_ROWS + 1, np.int64), np.empty(GROUP_ROWS + 1, np.int64)
        offsets, positions = np.empty(GROUP_ROWS + 1, np.int64), np.empty(_MOST_TILES + 1, np.int64)
        flags, bits = np.empty(GROUP_ROWS + 8, np.uint8), np.empty(GROUP_ROWS, np.uint64)
        slots, buffer = np.empty(GROUP_ROWS + 1, np.uint8), np.empty(room_nbytes, np.uint8)
        scratch = np.empty(scratch_nbytes(tiles[5]), np.uint8)
        marks, dense_marks = np.empty(MARKS + first_bytes.size, np.uint64), np.empty(MARKS + HASHES + MARKS, np.uint64)
        with_marks = False
        no_places = offsets[:0]
        words_at = np.int64(values[2].ctypes.data)
        told_by_bits = values[1][-1] <= _MOST_BITS and least > 0 and (least == most or size_groups.size > 0)
        every = ~np.uint64(0) >> np.uint64(64 - min(values[1][-1], 64))
        bits_of_sizes = np.zeros(size_groups.size, np.uint64)
        if told_by_bits:
            for size in range(size_groups.size):
                group = np.int64(size_groups[size])
                for value in range(values[1][group], values[1][group + 1] if group >= 0 else 0):
                    bits_of_sizes[size] |= np.uint64(1) << np.uint64(value)
        trials, choice, best, best_share = tuned[0], tuned[1], tuned[2], tuned[3]
        marked = np.int64(-1)
        probe = True, np.int64(0), np.int64(0)
        open_none(scratch)
        block = first_block
        while block < last_block:
            # Numba frees an array behind the last use of it, whatever is done with its address.
            ends_at, buffer_at, scratch_at = np.int64(ends.ctypes.data), np.int64(buffer.ctypes.data), aligned(scratch)
            flags_at, slots_at = np.int64(flags.ctypes.data), np.int64(slots.ctypes.data)
            bits_at, of_sizes = np.int64(bits.ctypes.data), np.int64(bits_of_sizes.ctypes.data)
            marks_at, dense_at = np.int64(marks.ctypes.data) + BEFORE, np.int64(dense_marks.ctypes.data) + BEFORE
            spare_at = scratch_at + DECODED + SLOTS * (tiles[5] + 64)  # tiles stay open, and what is known of the next
            size_bits = least, most, of_sizes if least != most else 0, every
            count: Any = np.int64(0)
            number = 0
            settled = trials >= ENOUGH
            while block < last_block and number + ROW_BLOCK <= (GROUP_ROWS if settled else 2 * ROW_BLOCK):
                block_rows: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, block_rows, ends_at + 8 * number):
                    return BAD_ROWS, block
                number += block_rows
                block += 1
            if least == most:
                sizes_within(ends_at, number, least, least, flags_at)
                store64(flags_at + number, np.uint64(0))
                count = _count_flagged(flags_at, number)
            else:
                count = _note_sizes(ends_at, number, 0, sizes_of, candidates, starts, sizes, count)
            spanned = ((number_at(ends_at + 8 * number) - number_at(ends_at)) >> shift) + 1
            if plan and spanned < positions.size and count > 0:
                rare = count < 1 * spanned and count < number
                if rare:
                    count = _note_flagged(ends_at, number, least, candidates, starts, sizes, flags_at)
                if marked != choice:
                    probe = mark_values(values, choice, table, dense_at)
                    marked = choice
                how = probe, size_bits, values, dense_at, scratch_at
                bad = find_value(
                    tiles,
                    table,
                    ends_at,
                    number,
                    rare,
                    how,
                    candidates,
                    count,
                    positions,
                    plan,
                    flags_at,
                    bits_at,
                    out,
                )
                if bad >= 0:
                    return BAD_TILE, bad
                out += number
                continue
            if told_by_bits and _DENSE_ROWS * count >= spanned:
                if least != most:
                    for i in range(0, number + 8, 8):
                        store64(flags_at + i, np.uint64(0))
                    for i in range(count):
                        store8(flags_at + candidates[i], np.uint8(1))
                if marked != choice:
                    probe = mark_values(values, choice, table, dense_at)
                    marked = choice
                bad, twice = find_values(
                    tiles,
                    table,
                    ends_at,
                    number,
                    probe,
                    size_bits,
                    values,
                    dense_at,
                    scratch_at,
                    flags_at,
                    bits_at,
                    out,
                )
                if bad >= 0:
                    return BAD_TILE, bad
                if not settled:
                    if twice * WHOLE // number < best_share:
                        best, best_share = choice, twice * WHOLE // number
                    choice, trials = choice + 1, trials + 1
                    if trials == ENOUGH or 64 * best_share <= WHOLE:
                        trials, choice = np.int64(ENOUGH), best
                        tuned[0], tuned[1] = trials, choice
                out += number
                continue
            if least == most:
                count = _note_flagged(ends_at, number, least, candidates, starts, sizes, flags_at)
            if not with_marks:
                with_marks = True
                for i in range(marks.size):  # Numba compiles a second for an assignment of slices
                    marks[i] = first_bytes[i - MARKS] if i >= MARKS else np.uint64(0)
                for number_of_size in range(values[0].size):
                    bit = np.uint64(1) << np.uint64(number_of_size & 63)
                    for value in range(values[1][number_of_size], values[1][number_of_size + 1]):
                        mark(words_at + 8 * values[3][value], values[0][number_of_size], bit, bit, marks_at, table)
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
                while end < count and (end == begin or _DENSE * (nbytes + sizes[end]) <= room_nbytes - 8):
                    nbytes += sizes[end]
                    end += 1
                    offsets[end - begin] = nbytes
                lowest, highest = starts[begin], starts[end - 1] + sizes[end - 1]
                if highest - lowest <= _DENSE * nbytes and highest - lowest <= room_nbytes - 8:
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
                    for i in range(begin, end):
                        starts[i] = offsets[i - begin]
                    _compare_decoded(candidates, begin, end, starts, sizes, buffer_at, size_groups, values, out)
                begin = end
            out += number
        return FINE, 0

    return compare_values
