"""Numba kernels of dictionaries on the host: find distinct strings, look them up, expand codes.

A hash table has a number for each slot, which is a power of two of them: 0, or 1 + the number of a value. `facts` has
of every value its first 8 bytes, its last 8 (a shorter one has zeros behind it, and none), its size and its address.
Hashes only say where to look: bytes are compared. `firsts` has the row where a value is first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load64, store64, trailing_zeros
from .plan import HASH_MULTIPLIERS, SAMPLE_ENDS

_FIRST, _SECOND = map(np.uint64, HASH_MULTIPLIERS)
_ALL = np.uint64(2**64 - 1)
_HALF, _LESS = np.uint64(32), np.uint64(29)
#: Bytes that are copied of values that have no more, whatever their size: no branch depends on it.
COPIED = 32


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
def _mixed(hashed: Any, word: Any) -> Any:
    hashed = (hashed ^ word) * _SECOND
    return hashed ^ hashed >> _HALF


@njit(inline="always")
def _mix_bytes(hashed: Any, at: int, size: int, end: int) -> Any:
    while size > 8:
        hashed = _mixed(hashed, load64(at))
        at += 8
        size -= 8
    if size:
        hashed = _mixed(hashed, _word(at, size, end))
    return hashed


@njit(inline="always")
def _finished(hashed: Any) -> Any:
    hashed = (hashed ^ hashed >> _LESS) * _FIRST
    return hashed ^ hashed >> _HALF


@njit(inline="always")
def _ends(at: int, size: int, end: int) -> Any:
    """The first 8 bytes of a value and the last 8, which may be some of the same; of a shorter one itself, and 0."""
    if size >= 8:
        return load64(at), load64(at + size - 8)
    if size == 0:
        return np.uint64(0), np.uint64(0)
    return _word(at, size, end), np.uint64(0)


@njit(inline="always")
def _hash(at: int, size: int, first: Any, last: Any) -> Any:
    hashed = _mixed(_mixed(np.uint64(size) * _FIRST, first), last)
    for i in range(8, size - 8, 8):  # what is between them
        hashed = _mixed(hashed, load64(at + i))
    return hashed * _FIRST  # the highest bits of which are the slot


@njit(inline="always")
def _shift(table: Any) -> Any:
    """By how many bits a hash is shifted to be a slot."""
    return np.uint64(64) - np.uint64(trailing_zeros(np.uint64(table.size)))


@njit()
def _same_between(left: int, right: int, size: int) -> bool:
    """Whether two values of more than 16 bytes, whose ends are the same, are the same between these."""
    at = 8
    while at < size - 8 and load64(left + at) == load64(right + at):
        at += 8
    return at >= size - 8


@njit(inline="always")
def _valid(validity: Any, offset: int, row: int) -> bool:
    bit = offset + row
    return validity.size == 0 or validity[bit >> 3] >> (bit & 7) & 1 != 0


@njit()
def sample(
    chars: int, end: int, offsets: Any, validity: Any, offset: int, starts: Any, run: int, table: Any
) -> tuple[int, int]:
    """Rows of the sample that are not null, and how many different hashes they have.

    `table` has zeros, at least twice as many as there are rows in the sample, and a power of two.
    """
    rows, distinct, zero = 0, 0, 0
    mask = table.size - 1
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
            mixed = _finished(mixed)
            rows += 1
            if mixed == np.uint64(0):
                zero = 1
                continue
            slot = np.int64(mixed & np.uint64(mask))
            while table[slot] != np.uint64(0) and table[slot] != mixed:
                slot = (slot + 1) & mask
            distinct += table[slot] == np.uint64(0)
            table[slot] = mixed
    return rows, distinct + zero


@njit(inline="always")
def _slot(at: int, size: int, end: int, table: Any, facts: Any) -> Any:
    """The slot in which a value is, or would be, and the value's ends."""
    first, last = _ends(at, size, end)
    mask = np.uint64(table.size - 1)
    slot = _hash(at, size, first, last) >> _shift(table)
    while True:
        number = np.uint64(table[slot])
        if number == np.uint64(0):
            return slot, first, last
        number -= np.uint64(1)
        if (
            facts[number, 0] == first
            and facts[number, 1] == last
            and facts[number, 2] == np.uint64(size)
            and (size <= 16 or _same_between(at, np.int64(facts[number, 3]), size))
        ):
            return slot, first, last
        slot = (slot + np.uint64(1)) & mask


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
    facts: Any,
    firsts: Any,
    count: int,
    most: int,
    out: Any,
) -> Any:
    """Put rows into a table until half of it is full, or there are `most` values; where it stopped, and their number.

    The rows are those from `first` to ``last - 1``, or, where there are `rows`, these of them. Numbers of their values
    go to `out`, the last entry of which is that of the last row; null ones get 0.
    """
    to = np.uint64(out.size - last)
    plain = rows.size == 0 and validity.size == 0
    stop = np.int64(offsets[first]) if plain and first < last else np.int64(0)
    for i in range(np.uint64(first), np.uint64(last)):
        row: Any = i
        start = stop
        if plain:
            stop = np.int64(offsets[i + np.uint64(1)])
        else:
            row = np.uint64(rows[i]) if rows.size else i
            if not _valid(validity, offset, np.int64(row)):
                out[to + i] = 0
                continue
            start, stop = np.int64(offsets[row]), np.int64(offsets[row + np.uint64(1)])
        size = stop - start
        slot, head, tail = _slot(chars + start, size, end, table, facts)
        number = np.int64(table[slot])
        if number == 0:
            if 2 * count >= table.size or count == most:
                return np.int64(i), count
            facts[count, 0], facts[count, 1] = head, tail
            facts[count, 2], facts[count, 3] = np.uint64(size), np.uint64(chars + start)
            firsts[count] = row
            count += 1
            table[slot] = count
            number = np.int64(count)
        out[to + i] = number - 1
    return last, count


@njit()
def rehash(facts: Any, count: int, table: Any) -> None:
    """Put values, which are all different, into an empty table."""
    mask = np.uint64(table.size - 1)
    for number in range(count):
        size, at = np.int64(facts[number, 2]), np.int64(facts[number, 3])
        slot = _hash(at, size, facts[number, 0], facts[number, 1]) >> _shift(table)
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
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
    facts: Any,
    out: Any,
) -> None:
    """Write the numbers of the values of rows `first` to ``last - 1``; 0 for null ones."""
    for row in range(first, last):
        number = np.int64(1)
        if _valid(validity, offset, row):
            start = np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - start
            number = np.int64(table[_slot(chars + start, size, end, table, facts)[0]])
        out[row - first] = number - 1


@njit()
def take_codes(codes: Any, validity: Any, offset: int, base: int, counts: Any, out: Any) -> bool:
    """Write ``base + code`` of rows, and 0 of null ones, and count them; False where a code is too large or negative.

    `counts`: one for each value of the dictionary.
    """
    for row in range(codes.size):
        code = 0
        if _valid(validity, offset, row):
            code = codes[row]
            if not 0 <= code < counts.size:
                return False
            counts[code] += 1
            code += base
        out[row] = code
    return True


@njit()
def number_by_first_row(codes: Any, validity: Any, same: Any, numbers: Any, order: Any) -> int:
    """Number the values of rows by first appearance.

    Parameters
    ----------
    same
        Of each value of the dictionary which one it is among the distinct ones.
    numbers
        Zeros: gets 1 + the number of each of these that a row has.
    order
        Gets these by their numbers.

    Returns
    -------
    int
        How many, or -1 if they are more than `order` has room for.
    """
    count = 0
    for row in range(codes.size):
        if not _valid(validity, 0, row):
            continue
        value = same[codes[row]]
        if numbers[value] == 0:
            if count == order.size:
                return -1
            order[count] = value
            count += 1
            numbers[value] = count
    return count


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
        in_range = code < count
        bad |= not in_range
        out[i] = answers[code if in_range else 0]
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
def code_facts(codes: Any, validity: Any, sizes: Any) -> Any:
    """The largest code of some rows, that of valid rows (-1: all are null), and the bytes of their strings.

    A code that has none of the `sizes` counts as no bytes.
    """
    largest = last = np.int64(-1)
    total, count = np.int64(0), np.int64(sizes.size)
    if validity.size == 0:
        for i in range(codes.size):
            code = np.int64(codes[i])
            largest = max(largest, code)
            total += sizes[code] if code < count else np.int64(0)
        return largest, largest, total
    for i in range(codes.size):
        code = np.int64(codes[i])
        largest = max(largest, code)
        if _valid(validity, 0, i):
            last = max(last, code)
            total += sizes[code] if code < count else np.int64(0)
    return largest, last, total


@njit()
def expanded_chars(codes: Any, validity: Any, first: int, sizes: Any) -> Any:
    """Bytes of the strings of codes, of which code i is of row ``first + i``; -1: there is no such value.

    `sizes` are those of the distinct values.
    """
    total, count, bad = np.int64(0), sizes.size, False
    if validity.size == 0:
        for i in range(codes.size):
            code = np.int64(codes[i])
            in_range = code < count
            bad |= not in_range
            total += sizes[code if in_range else 0]
    else:
        for i in range(codes.size):
            if _valid(validity, first, i):
                code = np.int64(codes[i])
                in_range = code < count
                bad |= not in_range
                total += sizes[code if in_range else 0]
    return np.int64(-1) if bad else total


@njit()
def expand(
    codes: Any,
    validity: Any,
    first: int,
    starts: Any,
    sizes: Any,
    longest: int,
    position: int,
    end: int,
    offsets: Any,
    out: int,
) -> None:
    """Write where the strings of codes end, and their characters, from `position` to `end`.

    Codes were looked at (`expanded_chars`); `starts` are addresses of the distinct values, each of which has `COPIED`
    bytes that can be read, and `longest` is the largest of their sizes.
    """
    # Behind the end others write.
    limit = end - COPIED
    at, done = position, 0
    if validity.size == 0 and longest <= COPIED:
        while done < codes.size and at <= limit:
            code = np.uint64(codes[done])
            source, to = starts[code], out + at
            store64(to, load64(source))
            if longest > 8:
                store64(to + 8, load64(source + 8))
            if longest > 16:
                store64(to + 16, load64(source + 16))
                store64(to + 24, load64(source + 24))
            at += sizes[code]
            offsets[done] = at
            done += 1
    for i in range(done, codes.size):
        if validity.size == 0 or _valid(validity, first, i):
            code = np.uint64(codes[i])
            source, size = starts[code], sizes[code]
            if size <= 16 and at <= limit:
                store64(out + at, load64(source))
                store64(out + at + 8, load64(source + 8))
            else:
                copy(out + at, source, size)
            at += size
        offsets[i] = at
