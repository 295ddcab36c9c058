"""Numba kernels that answer questions about rows of a segment, by the bits that a search of its codes set.

A range of row blocks is answered window by window (``cpu_search_kernels.py``). A row that is not over goes on in the
next window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import load8, load64, popcount, store8, store32, trailing_zeros
from .cpu_rows_lift import RowSymbols
from .cpu_search_kernels import (
    BEGIN,
    END,
    LANE_FIELDS,
    LANES,
    NEXT,
    POSITION,
    count_planes,
    first_position,
    search_window,
    windows_of,
)
from .layout import ROW_BLOCK
from .row_lengths import unpack_ends

#: Questions of rows; how many bytes they have is `LENGTH` without a search.
LIKE, COUNT, FIND, LENGTH = range(4)
#: What `match_rows` may find wrong.
FINE, BAD_TILE, BAD_ROWS, TOO_LARGE = range(4)

_INT32_MAX = 2**31 - 1


class Search(NamedTuple):
    """How a codec searches its codes.

    Attributes
    ----------
    lift : callable
        ``lift(automaton, table) -> ndarray of uint64``: what `match_rows` reads at the address of an automaton.
    match_rows
        What answers a question for rows: that below for codes of a byte, or what `matcher` makes of a codec's search.
    row_symbols : callable
        ``row_symbols(table) -> RowSymbols``: what codes stand for, for automata of rows.
    row_answerer
        What `cpu_rows_kernels.row_answerer` makes.
    plan
        `CodeComparer.plan`, where looking for a text in codes takes much less time than an automaton, or None.
    """

    lift: Callable[[Any, Any], npt.NDArray[np.uint64]]
    match_rows: Any
    row_symbols: Callable[[Any], RowSymbols]
    row_answerer: Any
    plan: Any = None


@njit()
def _first_bit(plane: int, first: int, last: int) -> int:
    """The first bit set among bits `first` to ``last - 1``, or -1. Eight bytes from that of any bit can be read."""
    while first < last:
        shift = first & 7
        bits = load64(plane + (first >> 3)) >> np.uint64(shift)
        if bits != np.uint64(0):
            first += trailing_zeros(bits)
            return first if first < last else -1
        first += 64 - shift
    return -1


@njit()
def _count_bits(plane: int, first: int, last: int) -> int:
    """Bits set among bits `first` to ``last - 1``. Eight bytes from that of any bit can be read."""
    count = 0
    while first < last:
        shift = first & 7
        bits = load64(plane + (first >> 3)) >> np.uint64(shift)
        if last - first < 64 - shift:
            bits &= (np.uint64(1) << np.uint64(last - first)) - np.uint64(1)
        count += popcount(bits)
        first += 64 - shift
    return count


@njit(inline="always")
def _bit(plane: int, place: int) -> bool:
    return (load8(plane + (place >> 3)) >> np.uint8(place & 7)) & np.uint8(1) != 0


@njit()
def _no_bits(planes: int, plane_nbytes: int, count: int, first: int, last: int) -> bool:
    """Whether one of the planes has no bits from `first` to ``last - 1``."""
    missing = False
    for i in range(count):
        missing = missing or _first_bit(planes + i * plane_nbytes, first, last) < 0
    return missing


@njit()
def _contains(ends: Any, count: int, start: int, plane: int, begin: int, size: int, out: int) -> None:
    """Whether rows have one part of `size` bytes, rows that the window has; without a branch in short ones."""
    for row in range(count):
        end = ends[row]
        first = min(start + size - 1, end) - begin
        bits = end - begin - first
        if bits <= 57:  # the eight bytes from that of the first bit on have all of them
            word = load64(plane + (first >> 3)) >> np.uint64(first & 7)
            word &= (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
            store8(out + row, np.uint8(word != np.uint64(0)))
        else:
            store8(out + row, np.uint8(_first_bit(plane, first, end - begin) >= 0))
        start = end


@njit()
def _begins_or_ends(
    ends: Any, count: int, start: int, plane: int, begin: int, numbers: Any, size: int, out: int
) -> None:
    """Whether one part of `size` bytes begins or ends rows that the window has; without a branch."""
    prefix, least = numbers[0] > 0, numbers[2]
    for row in range(count):
        end = ends[row]
        at = min(start + size, end) if prefix else end
        fits = (end - start >= least) & _bit(plane, max(at - 1 - begin, 0))
        store8(out + row, np.uint8(fits))
        start = end


# What answers questions of a row block's rows takes where they end, `count` characters of the segment, and where the
# first of them begins; `planes` and `plane_nbytes` say where the bits are, `windows` is what `next_window` takes.
# It returns what was found wrong, and its number. A row may go on in the next window, and then so does its test.


def matcher(search_window: Any) -> Any:
    """Make `match_rows` of what searches the codes of a window, as `cpu_search_kernels.search_window` does."""
    next_window = windows_of(search_window)

    @njit()
    def answer_like(
        ends: Any,
        count: int,
        start: int,
        planes: int,
        plane_nbytes: int,
        windows: Any,
        numbers: Any,
        parts: Any,
        out: int,
    ) -> tuple[int, int]:
        window = windows[-1]
        prefix, suffix, least = numbers[0] > 0, numbers[1] > 0, numbers[2]
        middle = parts.shape[0] - np.int64(suffix)
        for row in range(count):
            end = ends[row]
            size = end - start
            if size >= least:
                part, place = 0, start  # the part that is missing, and where it may begin
                fits = True
                while True:
                    begin, stop = window[BEGIN], min(end, window[END])
                    if prefix and part == 0:
                        at = start + parts[0, 1] - 1
                        if at < stop:
                            fits = _bit(planes + parts[0, 0] * plane_nbytes, at - begin)
                            if not fits:
                                break
                            part, place = 1, at + 1
                    if part > 0 or not prefix:
                        while part < middle:
                            plane = planes + parts[part, 0] * plane_nbytes
                            at = _first_bit(plane, max(place + parts[part, 1] - 1 - begin, 0), stop - begin)
                            if at < 0:
                                break
                            part, place = part + 1, begin + at + 1
                    if end <= window[END] or (part == middle and not suffix):
                        break
                    bad = next_window(*windows)
                    if bad >= 0:
                        return BAD_TILE, bad
                fits = fits and part == middle
                if fits and suffix:
                    plane = planes + parts[middle, 0] * plane_nbytes
                    fits = end - parts[middle, 1] >= place and _bit(plane, end - 1 - window[BEGIN])
                if fits:
                    store8(out + row, np.uint8(1))
            start = end
        return FINE, 0

    @njit()
    def answer_count(
        ends: Any, count: int, start: int, planes: int, windows: Any, numbers: Any, out: int
    ) -> tuple[int, int]:
        window = windows[-1]
        size = numbers[0]
        for row in range(count):
            end = ends[row]
            found = np.int64(0)
            last = start + size - 1  # where the next match may end
            while True:
                begin = window[BEGIN]
                while True:
                    at = _first_bit(planes, max(last - begin, 0), min(end, window[END]) - begin)
                    if at < 0:
                        break
                    found += 1
                    last = begin + at + size
                if end <= window[END]:
                    break
                bad = next_window(*windows)
                if bad >= 0:
                    return BAD_TILE, bad
            if found > _INT32_MAX:
                return TOO_LARGE, row
            store32(out + 4 * row, np.uint32(found))
            start = end
        return FINE, 0

    @njit()
    def answer_find(
        ends: Any, count: int, start: int, planes: int, second: int, windows: Any, numbers: Any, out: int
    ) -> tuple[int, int]:
        window = windows[-1]
        size, continuing = numbers[0], numbers[1]
        for row in range(count):
            end = ends[row]
            answer = np.int64(-1)
            skipped = np.int64(0)  # bytes that continue a character, in windows before
            while True:
                begin, stop = window[BEGIN], min(end, window[END])
                first = max(start - begin, 0)
                at = _first_bit(planes, max(start + size - 1 - begin, 0), stop - begin)
                if at >= 0:  # those in the match are counted as well, and known
                    if second:
                        skipped += _count_bits(second, first, at + 1) - continuing
                    answer = begin + at + 1 - size - start - skipped
                    break
                if end <= window[END]:
                    break
                if second:
                    skipped += _count_bits(second, first, stop - begin)
                bad = next_window(*windows)
                if bad >= 0:
                    return BAD_TILE, bad
            if answer > _INT32_MAX:
                return TOO_LARGE, row
            store32(out + 4 * row, np.uint32(answer & 0xFFFFFFFF))
            start = end
        return FINE, 0

    @njit()
    def answer_length(ends: Any, count: int, start: int, planes: int, windows: Any, out: int) -> tuple[int, int]:
        window = windows[-1]
        for row in range(count):
            end = ends[row]
            answer = end - start
            while planes:
                begin = window[BEGIN]
                answer -= _count_bits(planes, max(start - begin, 0), min(end, window[END]) - begin)
                if end <= window[END]:
                    break
                bad = next_window(*windows)
                if bad >= 0:
                    return BAD_TILE, bad
            if answer > _INT32_MAX:
                return TOO_LARGE, row
            store32(out + 4 * row, np.uint32(answer))
            start = end
        return FINE, 0

    @njit()
    def match_rows(
        tiles: Any,
        rows: Any,
        first: int,
        last: int,
        question: int,
        numbers: Any,
        parts: Any,
        searches: Any,
        places: Any,
        room: Any,
        planes: Any,
        window: Any,
        out: int,
    ) -> tuple[int, int]:
        """Answer a question for the rows of row blocks `first` to ``last - 1``.

        Parameters
        ----------
        tiles, rows : tuple of int
            What `cpu_read.SegmentReader` says of a segment.
        question : int
            `LIKE`, `COUNT`, `FIND` or `LENGTH`.
        numbers : ndarray of int64
            `LIKE`: whether the first part begins a row, and the last one ends it, and the bytes of a row at least.
            `COUNT`: those of the pattern. `FIND`: these, and how many of them continue no character.
        parts : ndarray of int64, (parts, 2)
            `LIKE`: plane and bytes of every part.
        searches : ndarray of int64, (searches, 4)
            Address of the automaton of each, its states, for how many characters a lane runs on, and its planes.
        places : ndarray of int64
            For as many tiles as a window has, and one.
        room : ndarray of uint64, (LANES, BATCH or more, and 2)
            As many as a tile has codes, and 2.
        planes : ndarray of uint8
            For the planes of a window, 8 bytes more for each.
        window : ndarray of int64, (4 + 2 * searches,)
            Zeros. Afterwards its last ones say whether a search set any bit.
        out
            Address of the answers: a byte each for `LIKE`, else an int32. They are 0.

        Returns
        -------
        tuple of int
            What was found wrong, and the number of the tile, row block or row.
        """
        chars, tile_size = tiles[4], tiles[5]
        row_starts, segment_rows = rows[0], rows[5]
        count = count_planes(searches)
        plane = np.int64(planes.ctypes.data)
        plane_nbytes = planes.size // max(count, 1)
        stop = np.int64(load64(row_starts + 8 * first))
        limit = np.int64(load64(row_starts + 8 * last))
        if stop < 0 or stop > limit:
            return BAD_ROWS, first
        if limit > chars:
            return BAD_ROWS, last - 1
        window[END] = limit
        if count > 0 and limit > stop:
            window[NEXT] = stop // tile_size
            window[BEGIN] = window[END] = window[NEXT] * tile_size
            window[POSITION] = first_position(tiles, window[NEXT])
            if window[POSITION] < 0:
                return BAD_TILE, -1 - window[POSITION]
        lanes = np.empty((LANES, LANE_FIELDS), np.int64)
        ends = np.empty(ROW_BLOCK, np.int64)
        last_tile = (limit + tile_size - 1) // tile_size
        windows = tiles, last_tile, searches, places, lanes, room, planes, window
        # Row blocks without a match need not be unpacked.
        skipping = 0 if question == LENGTH else 1 if question == FIND else count
        single = question == LIKE and parts.shape[0] == 1
        for block in range(first, last):
            start = stop
            stop = np.int64(load64(row_starts + 8 * block + 8))
            if stop < start or stop > limit:
                return BAD_ROWS, block
            row = block * ROW_BLOCK
            number = min(segment_rows - row, ROW_BLOCK)
            if skipping > 0 and stop > start:
                while start >= window[END]:
                    bad = next_window(*windows)
                    if bad >= 0:
                        return BAD_TILE, bad
                begin = window[BEGIN]
                if stop <= window[END] and _no_bits(plane, plane_nbytes, skipping, start - begin, stop - begin):
                    if question == FIND:
                        for i in range(number):
                            store32(out + 4 * i, np.uint32(0xFFFFFFFF))
                    out += number if question == LIKE else 4 * number
                    continue
            if unpack_ends(*rows, row, row + number, 0, np.int64(ends.ctypes.data), 8) < 0:
                return BAD_ROWS, block
            if single and start >= window[BEGIN] and stop <= window[END]:
                reason, where = FINE, 0
                begin = window[BEGIN]
                if numbers[0] == 0 and numbers[1] == 0:
                    _contains(ends, number, start, plane, begin, parts[0, 1], out)
                else:
                    _begins_or_ends(ends, number, start, plane, begin, numbers, parts[0, 1], out)
            elif question == LIKE:
                reason, where = answer_like(ends, number, start, plane, plane_nbytes, windows, numbers, parts, out)
            elif question == COUNT:
                reason, where = answer_count(ends, number, start, plane, windows, numbers, out)
            elif question == FIND:
                second = plane + plane_nbytes if count > 1 else 0
                reason, where = answer_find(ends, number, start, plane, second, windows, numbers, out)
            else:
                reason, where = answer_length(ends, number, start, plane if count > 0 else 0, windows, out)
            if reason != FINE:
                return reason, row + where if reason == TOO_LARGE else where
            out += number if question == LIKE else 4 * number
        return FINE, 0

    return match_rows


#: What answers a question for rows by automata that read codes of a byte.
match_rows = matcher(search_window)
