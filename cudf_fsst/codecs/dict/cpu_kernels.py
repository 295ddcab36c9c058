"""Numba kernels of dictionaries on the host: find distinct strings, look them up, expand codes.

A hash table has a number for each slot, which is a power of two of them: 0, or 1 + the number of a value. `hashes` and
`firsts` have the hash of every value and the row where it first is. Equal hashes are not enough: bytes are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load16, load32, load64, store64
from .plan import HASH_MULTIPLIERS, SAMPLE_ENDS

_FIRST, _SECOND = map(np.uint64, HASH_MULTIPLIERS)
_HALF, _LESS = np.uint64(32), np.uint64(29)
#: Bytes that are copied at once, where there is room for as many.
_COPIED = 8


@njit(inline="always")
def _tail(at: int, size: int) -> Any:
    """The 1 to 7 bytes from `at` on as a number."""
    word = np.uint64(0)
    done = 0
    if size & 4:
        word = np.uint64(load32(at))
        done = 4
    if size & 2:
        word |= np.uint64(load16(at + done)) << np.uint64(8 * done)
        done += 2
    if size & 1:
        word |= np.uint64(load8(at + done)) << np.uint64(8 * done)
    return word


@njit(inline="always")
def _mixed(found: Any, word: Any) -> Any:
    found = (found ^ word) * _SECOND
    return found ^ found >> _HALF


@njit()
def _mix_bytes(found: Any, at: int, size: int) -> Any:
    end = at + size
    while at + 8 <= end:
        found = _mixed(found, load64(at))
        at += 8
    if at < end:
        found = _mixed(found, _tail(at, end - at))
    return found


@njit(inline="always")
def _finished(found: Any) -> Any:
    found = (found ^ found >> _LESS) * _FIRST
    return found ^ found >> _HALF


@njit(inline="always")
def _hash(at: int, size: int) -> Any:
    return _finished(_mix_bytes(np.uint64(size) * _FIRST, at, size))


@njit(inline="always")
def _same(one: int, other: int, size: int) -> bool:
    end = one + size
    while one + 8 <= end:
        if load64(one) != load64(other):
            return False
        one += 8
        other += 8
    return one >= end or _tail(one, end - one) == _tail(other, end - one)


@njit(inline="always")
def _valid(validity: Any, offset: int, row: int) -> bool:
    bit = offset + row
    return validity.size == 0 or validity[bit >> 3] >> (bit & 7) & 1 != 0


@njit()
def sample_hashes(chars: int, offsets: Any, validity: Any, offset: int, starts: Any, run: int, out: Any) -> int:
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
                mixed = _mix_bytes(mixed, at, size)
            else:
                mixed = _mix_bytes(mixed, at, SAMPLE_ENDS)
                mixed = _mix_bytes(mixed, at + size - SAMPLE_ENDS, SAMPLE_ENDS)
            out[found] = _finished(mixed)
            found += 1
    return found


@njit(inline="always")
def _slot(chars: int, offsets: Any, row: int, hashed: Any, table: Any, hashes: Any, firsts: Any) -> int:
    """The slot in which the value of a row is, or would be."""
    mask = table.size - 1
    slot = np.int64(hashed & np.uint64(mask))
    start = np.int64(offsets[row])
    size = np.int64(offsets[row + 1]) - start
    while True:
        number = np.int64(table[slot])
        if number == 0:
            return slot
        if hashes[number - 1] == hashed:
            first = firsts[number - 1]
            other = np.int64(offsets[first])
            if np.int64(offsets[first + 1]) - other == size and _same(chars + start, chars + other, size):
                return slot
        slot = (slot + 1) & mask


@njit()
def insert(
    chars: int,
    offsets: Any,
    validity: Any,
    offset: int,
    rows: Any,
    first: int,
    last: int,
    table: Any,
    hashes: Any,
    firsts: Any,
    count: int,
    most: int,
) -> tuple[int, int]:
    """Put rows into a table until half of it is full, or there are `most` values; where it stopped, and their number.

    The rows are those from `first` to ``last - 1``, or, where there are `rows`, these with such numbers.
    """
    for i in range(first, last):
        row = rows[i] if rows.size else i
        if not _valid(validity, offset, row):
            continue
        start = np.int64(offsets[row])
        hashed = _hash(chars + start, np.int64(offsets[row + 1]) - start)
        slot = _slot(chars, offsets, row, hashed, table, hashes, firsts)
        if table[slot] != 0:
            continue
        if 2 * count >= table.size or count == most:
            return i, count
        hashes[count] = hashed
        firsts[count] = row
        count += 1
        table[slot] = count
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
    offsets: Any,
    validity: Any,
    offset: int,
    first: int,
    last: int,
    table: Any,
    hashes: Any,
    firsts: Any,
    out: Any,
) -> None:
    """Write the numbers of the values of rows `first` to ``last - 1``; 0 for null ones."""
    for row in range(first, last):
        number = 1
        if _valid(validity, offset, row):
            start = np.int64(offsets[row])
            hashed = _hash(chars + start, np.int64(offsets[row + 1]) - start)
            number = np.int64(table[_slot(chars, offsets, row, hashed, table, hashes, firsts)])
        out[row - first] = number - 1


@njit()
def expanded_chars(codes: Any, validity: Any, first: int, values: Any) -> int:
    """Bytes of the strings of codes, of which code i is of row ``first + i``; -1: there is no such value.

    `values` are offsets of the distinct values.
    """
    total = np.int64(0)
    count = values.size - 1
    for i in range(codes.size):
        if _valid(validity, first, i):
            code = np.int64(codes[i])
            if code >= count:
                return -1
            total += values[code + 1] - values[code]
    return total


@njit()
def expand(
    codes: Any, validity: Any, first: int, values: Any, values_chars: int, position: int, offsets: Any, out: int
) -> None:
    """Write where the strings of codes end, the first of which begins at `position`, and their characters.

    Codes were looked at (`expanded_chars`); the distinct values have 8 bytes more behind them.
    """
    end = position
    for i in range(codes.size):
        if _valid(validity, first, i):
            code = np.int64(codes[i])
            end += values[code + 1] - values[code]
        offsets[i] = end
    if out == 0:
        return
    # Others write behind the last one.
    limit = end - _COPIED
    at = position
    for i in range(codes.size):
        size = np.int64(offsets[i]) - at
        if size:
            source = values_chars + values[np.int64(codes[i])]
            if size <= 2 * _COPIED and at + _COPIED <= limit:
                store64(out + at, load64(source))
                if size > _COPIED:
                    store64(out + at + _COPIED, load64(source + _COPIED))
            else:
                copy(out + at, source, size)
        at += size
