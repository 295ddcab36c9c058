"""Numba kernels of dictionaries on the host: find distinct strings, look them up, expand codes.

A hash table has a number for each slot, which is a power of two of them: 0, or 1 + the number of a value. `hashes`,
`places`, `sizes` and `firsts` have the hash of every value, its address, its bytes and the row where it first is. Equal
hashes are not enough: bytes are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load64, store64
from .plan import HASH_MULTIPLIERS, SAMPLE_ENDS

_FIRST, _SECOND = map(np.uint64, HASH_MULTIPLIERS)
_ALL = np.uint64(2**64 - 1)
_HALF, _LESS = np.uint64(32), np.uint64(29)
#: Bytes that are copied at once; short values take two such steps, whatever their size.
_COPIED = 8


@njit(inline="always")
def _word(at: int, size: int, end: int) -> Any:
    """The 1 to 8 bytes from `at` on as a number; `end`: where bytes end that can be read."""
    if at + 8 <= end:
        return load64(at) & _ALL >> np.uint64(64 - 8 * size)
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(load8(at + i)) << np.uint64(8 * i)
    return word


@njit(inline="always")
def _mixed(found: Any, word: Any) -> Any:
    found = (found ^ word) * _SECOND
    return found ^ found >> _HALF


@njit(inline="always")
def _mix_bytes(found: Any, at: int, size: int, end: int) -> Any:
    while size > 8:
        found = _mixed(found, load64(at))
        at += 8
        size -= 8
    if size:
        found = _mixed(found, _word(at, size, end))
    return found


@njit(inline="always")
def _finished(found: Any) -> Any:
    found = (found ^ found >> _LESS) * _FIRST
    return found ^ found >> _HALF


@njit(inline="always")
def _same(one: int, other: int, size: int, end: int) -> bool:
    while size > 8:
        if load64(one) != load64(other):
            return False
        one += 8
        other += 8
        size -= 8
    return _word(one, size, end) == _word(other, size, end)


@njit(inline="always")
def _valid(validity: Any, offset: int, row: int) -> bool:
    bit = offset + row
    return validity.size == 0 or validity[bit >> 3] >> (bit & 7) & 1 != 0


@njit()
def sample_hashes(
    chars: int, end: int, offsets: Any, validity: Any, offset: int, starts: Any, run: int, out: Any
) -> int:
    """Hashes of the rows of the sample that are not null, into `out`; their number."""
    found = 0
    for first in starts:
        for row in range(first, first + run):
            if not _valid(validity, offset, row):
                continue
            at = chars + np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - np.int64(offsets[row])
            mixed = np.uint64(size) * _FIRST
            if size <= 2 * SAMPLE_ENDS:
                mixed = _mix_bytes(mixed, at, size, end)
            else:
                mixed = _mix_bytes(mixed, at, SAMPLE_ENDS, end)
                mixed = _mix_bytes(mixed, at + size - SAMPLE_ENDS, SAMPLE_ENDS, end)
            out[found] = _finished(mixed)
            found += 1
    return found


@njit(inline="always")
def _slot(at: int, size: int, end: int, hashed: Any, table: Any, hashes: Any, places: Any, sizes: Any) -> Any:
    """The slot in which a value is, or would be."""
    mask = table.size - 1
    slot = np.int64(hashed & np.uint64(mask))
    while True:
        number = np.int64(table[slot])
        if number == 0:
            return slot
        # Of up to 8 bytes no two have the same hash.
        if (
            hashes[number - 1] == hashed
            and sizes[number - 1] == size
            and (size <= 8 or _same(at, places[number - 1], size, end))
        ):
            return slot
        slot = (slot + 1) & mask


@njit()
def insert(
    chars: int,
    end: int,
    offsets: Any,
    validity: Any,
    offset: int,
    rows: Any,
    first: int,
    last: int,
    table: Any,
    hashes: Any,
    places: Any,
    sizes: Any,
    firsts: Any,
    count: int,
    most: int,
    out: Any,
) -> tuple[int, int]:
    """Put rows into a table until half of it is full, or there are `most` values; where it stopped, and their number.

    The rows are those from `first` to ``last - 1``, or, where there are `rows`, these of them. Numbers of their values
    go to `out`, the last entry of which is that of the last row; null ones get 0.
    """
    to = out.size - last
    for i in range(first, last):
        row = rows[i] if rows.size else i
        if not _valid(validity, offset, row):
            out[to + i] = 0
            continue
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        hashed = _mix_bytes(np.uint64(size) * _FIRST, chars + start, size, end)
        slot = _slot(chars + start, size, end, hashed, table, hashes, places, sizes)
        number = np.int64(table[slot])
        if number == 0:
            if 2 * count >= table.size or count == most:
                return i, count
            hashes[count] = hashed
            places[count] = chars + start
            sizes[count] = size
            firsts[count] = row
            count += 1
            table[slot] = count
            number = np.int64(count)
        out[to + i] = number - 1
    return last, count


@njit()
def rehash(hashes: Any, count: int, table: Any) -> None:
    """Put values, which are all different, into an empty table."""
    mask = table.size - 1
    for number in range(count):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = number + 1


@njit()
def look_up(
    chars: int,
    end: int,
    offsets: Any,
    validity: Any,
    offset: int,
    first: int,
    last: int,
    table: Any,
    hashes: Any,
    places: Any,
    sizes: Any,
    out: Any,
) -> None:
    """Write the numbers of the values of rows `first` to ``last - 1``; 0 for null ones."""
    for row in range(first, last):
        number = np.int64(1)
        if _valid(validity, offset, row):
            start = np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - start
            hashed = _mix_bytes(np.uint64(size) * _FIRST, chars + start, size, end)
            number = np.int64(table[_slot(chars + start, size, end, hashed, table, hashes, places, sizes)])
        out[row - first] = number - 1


@njit()
def renumber(codes: Any, numbers: Any, out: Any) -> None:
    """Write ``numbers[code]`` for every code."""
    for i in range(codes.size):
        out[i] = numbers[codes[i]]


@njit()
def look_up_codes(codes: Any, answers: Any, out: Any) -> bool:
    """Write ``answers[code]`` for every code; False where there is a larger one."""
    bad, count = False, answers.size
    for i in range(codes.size):
        code = np.int64(codes[i])
        known = code < count
        bad |= not known
        out[i] = answers[code if known else 0]
    return not bad


@njit()
def first_seen(codes: Any, validity: Any, seen: int) -> Any:
    """How many values were seen, after `seen` before; -1: one came before others that have smaller numbers."""
    number = np.int64(seen)
    for i in range(codes.size):
        code = np.int64(codes[i])
        if code >= number and _valid(validity, 0, i):
            if code > number:
                return np.int64(-1)
            number += 1
    return number


@njit()
def expanded_chars(codes: Any, validity: Any, first: int, sizes: Any) -> Any:
    """Bytes of the strings of codes, of which code i is of row ``first + i``; -1: there is no such value.

    `sizes` are those of the distinct values.
    """
    total, count, bad = np.int64(0), sizes.size, False
    if validity.size == 0:
        for i in range(codes.size):
            code = np.int64(codes[i])
            known = code < count
            bad |= not known
            total += sizes[code if known else 0]
    else:
        for i in range(codes.size):
            if _valid(validity, first, i):
                code = np.int64(codes[i])
                known = code < count
                bad |= not known
                total += sizes[code if known else 0]
    return np.int64(-1) if bad else total


@njit()
def expand(
    codes: Any,
    validity: Any,
    first: int,
    starts: Any,
    sizes: Any,
    position: int,
    end: int,
    offsets: Any,
    out: int,
) -> None:
    """Write where the strings of codes end, and their characters, from `position` to `end`.

    Codes were looked at (`expanded_chars`); `starts` are addresses of the distinct values, each of which has 16 bytes
    that can be read.
    """
    # Behind the end others write.
    limit = end - 2 * _COPIED
    at = position
    for i in range(codes.size):
        if validity.size == 0 or _valid(validity, first, i):
            code = np.int64(codes[i])
            source, size = starts[code], sizes[code]
            if size <= 2 * _COPIED and at <= limit:
                store64(out + at, load64(source))
                store64(out + at + _COPIED, load64(source + _COPIED))
            else:
                copy(out + at, source, size)
            at += size
        offsets[i] = at
