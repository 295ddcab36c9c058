"""Numba kernels that compare values with codes of a table of pairs, which are not decoded.

`table` is a tuple of addresses: an `OnPairTable`'s ``words``, ``lengths`` and ``head``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.cpu_places_kernels import tile_length
from ..unaligned import load8, load32, load64, store32, trailing_zeros

#: Bytes that a symbol has at most.
_SYMBOL_NBYTES = 16
#: Bytes of a value at which it is tried to cut it.
_CUTS = 4
#: What it takes to compare codes that may be part of a value, and to open a tile that may have it; codes of a tile, and
#: tiles whose codes are counted.
_AGAIN_NS, _OPEN_NS, _TILE_CODES, _SAMPLE_TILES = 10.0, 150.0, 70.0, 64
#: Of the entry of a code in a plan: for each place where a symbol that has byte `cut` may end, a bit that says that the
#: code's does, and as many above these that say that it may be behind one that does.
_BEHIND_SHIFT = np.uint32(_SYMBOL_NBYTES)
_LOW = np.uint32(0xFFFF)
#: Where they are: behind where the first of these places is.
_ENTRIES = 8


@njit(inline="always")
def code_at_bit(at: int, end: int, place: int, mask: Any) -> Any:
    """The code at bit `place` behind an address; no byte from `end` on is read."""
    where = at + (place >> 3)
    window = np.uint64(0)
    if where + 4 <= end:
        window = np.uint64(load32(where))
    else:
        for i in range(min(end - where, 3)):
            window |= np.uint64(load8(where + i)) << np.uint64(8 * i)
    return np.int64((window >> np.uint64(place & 7)) & mask)


@njit(inline="always")
def _alike(words: int, code: int, skip: int, value: int, nbytes: Any) -> Any:
    """Whether bytes of a code's symbol behind its first `skip` are those of a value; eight more of it can be read."""
    symbol = words + _SYMBOL_NBYTES * code
    first = min(skip, 8)  # nothing behind the symbol is read
    word, compared = load64(symbol + first) >> np.uint64(8 * (skip - first)), min(nbytes, 8)
    same = (word ^ load64(value)) << np.uint64(64 - 8 * compared) == np.uint64(0)
    if nbytes > 8:
        same &= load64(symbol + skip + nbytes - 8) == load64(value + nbytes - 8)
    return same


@njit()
def _same_from(at: int, end: int, place: int, value: int, nbytes: int, table: tuple[int, int, int]) -> int:
    """How many of a value's bytes codes stand for from bit `place` on; -1: another byte comes before its end."""
    words, lengths = table[0], table[1]
    bits = np.int64(load64(table[2]))
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    done: Any = np.int64(0)
    while done < nbytes and place + bits <= 8 * (end - at):
        code = code_at_bit(at, end, place, mask)
        length: Any = min(np.int64(load8(lengths + code)), nbytes - done)
        if length <= 0:
            break
        if not _alike(words, code, 0, value + done, length):
            return -1
        done += length
        place += bits
    return done


@njit()
def same_codes(at: int, end: int, have: int, value: int, nbytes: int, table: tuple[int, int, int]) -> int:
    """Compare what codes stand for with a value; see `text.cpu_places_kernels.CodeComparer`."""
    return 0 if have else _same_from(at, end, 0, value, nbytes, table)


@njit()
def may_end(at: int, end: int, value: int, nbytes: int, table: tuple[int, int, int]) -> bool:
    """Whether codes may end with the last bytes of a value; see `text.cpu_places_kernels.CodeComparer`."""
    words, lengths = table[0], table[1]
    bits = np.int64(load64(table[2]))
    count = 8 * (end - at) // bits
    if count == 0:
        return True  # damaged
    code = code_at_bit(at, end, (count - 1) * bits, (np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    symbol_nbytes: Any = np.int64(load8(lengths + code))
    length: Any = min(symbol_nbytes, nbytes)
    return length > 0 and _alike(words, code, symbol_nbytes - length, value + nbytes - length, length)


@njit()
def _cut_value(value: int, nbytes: int, cut: int, counts: Any, out: int, table: tuple[int, int, int]) -> Any:
    """Write entries of codes; returns what that costs a tile, about, beside looking at its codes."""
    words, lengths = table[0], table[1]
    codes = counts.size
    total = 1.0 * max(counts.sum(), 1)
    ahead = np.zeros(_SYMBOL_NBYTES, np.int64)
    for code in range(codes):
        length: Any = np.int64(load8(lengths + code))
        symbol, entry = words + _SYMBOL_NBYTES * code, np.uint32(0)
        for begin in range(cut + 1 - length, cut + 1):
            low: Any = max(begin, 0)
            place = begin + length - cut - 1
            if load8(symbol + low - begin) == load8(value + low) and _alike(
                words, code, low - begin, value + low, min(begin + length, nbytes) - low
            ):
                entry |= np.uint32(1) << np.uint32(place)
                ahead[place] += counts[code] + 1
        store32(out + 4 * code, entry)
    cost = 0.0
    for place in range(_SYMBOL_NBYTES):
        if ahead[place] == 0:
            continue
        stop, behind = cut + 1 + place, 0
        bit = np.uint32(1) << np.uint32(place) << _BEHIND_SHIFT
        for code in range(codes):
            symbol, length = words + _SYMBOL_NBYTES * code, np.int64(load8(lengths + code))
            if stop >= nbytes or (
                length > 0
                and load8(symbol) == load8(value + stop)
                and _alike(words, code, 0, value + stop, min(length, nbytes - stop))
            ):
                store32(out + 4 * code, load32(out + 4 * code) | bit)
                behind += counts[code]
        cost += ahead[place] * behind * (_AGAIN_NS + _OPEN_NS * np.exp(min(stop - nbytes, 0) / 4.0))
    return _TILE_CODES * cost / total / total


@njit()
def _count_codes(tiles: Any, counts: Any) -> None:
    """Count the codes of the first tiles."""
    codes, codes_nbytes, _, lengths, chars, tile_size = tiles
    bits = trailing_zeros(np.uint64(counts.size))
    mask, position = np.uint64(counts.size - 1), 0
    for tile in range(min(_SAMPLE_TILES, (chars + tile_size - 1) // tile_size)):
        length = tile_length(lengths, tile_size, tile)
        if length > codes_nbytes - position:
            return  # damaged
        if length < tile_size:
            for i in range(8 * length // bits):
                counts[code_at_bit(codes + position, codes + position + length, i * bits, mask)] += 1
        position += length


@njit()
def plan_value(value: int, nbytes: int, tiles: Any, out: int, table: tuple[int, int, int]) -> Any:
    """What `may_have` looks for; see `text.cpu_places_kernels.CodeComparer`."""
    counts = np.zeros(1 << np.int64(load64(table[2])), np.int64)
    _count_codes(tiles, counts)
    cuts: Any = min(nbytes, _CUTS)
    best, least = 0, np.inf
    for i in range(cuts):
        cut = i * (nbytes - 1) // max(cuts - 1, 1)
        cost = _cut_value(value, nbytes, cut, counts, out + _ENTRIES, table)
        if cost < least:
            best, least = cut, cost
    _cut_value(value, nbytes, best, counts, out + _ENTRIES, table)
    store32(out, np.uint32(best + 1))
    return least


@njit()
def _goes_on(
    at: int, end: int, first: int, number: int, plan: int, value: int, nbytes: int, table: tuple[int, int, int]
) -> bool:
    """Whether a value may have byte `cut` in the codes `first` to ``first + number - 1``, and what is behind these."""
    bits = np.int64(load64(table[2]))
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    count = 8 * (end - at) // bits
    first_stop = np.int64(load32(plan))
    last: Any = min(first + number, count)
    for i in range(first, last):
        ends = np.uint64(load32(plan + _ENTRIES + 4 * code_at_bit(at, end, i * bits, mask)) & _LOW)
        while ends != np.uint64(0):
            stop = first_stop + trailing_zeros(ends)
            if stop >= nbytes:
                return True
            if i + 1 < count and _same_from(at, end, (i + 1) * bits, value + stop, nbytes - stop, table) >= 0:
                return True
            ends &= ends - np.uint64(1)
    return False


@njit()
def may_have(at: int, end: int, limit: int, plan: int, value: int, nbytes: int, table: tuple[int, int, int]) -> bool:
    """Whether codes may have a value; see `text.cpu_places_kernels.CodeComparer`."""
    bits = np.int64(load64(table[2]))
    wide = np.uint64(bits)
    mask = (np.uint64(1) << wide) - np.uint64(1)
    count = 8 * (end - at) // bits
    entries = plan + _ENTRIES
    before = np.uint32(0)
    i: Any = 0
    while i + 4 <= count and at + (i * bits >> 3) + 8 <= limit:
        window = load64(at + (i * bits >> 3)) >> np.uint64(i * bits & 7)
        a = load32(entries + 4 * np.int64(window & mask))
        b = load32(entries + 4 * np.int64(window >> wide & mask))
        c = load32(entries + 4 * np.int64(window >> (wide + wide) & mask))
        d = load32(entries + 4 * np.int64(window >> (wide + wide + wide) & mask))
        found = before & (a >> _BEHIND_SHIFT) | a & (b >> _BEHIND_SHIFT)  # shifted ones have no bits above
        found |= b & (c >> _BEHIND_SHIFT) | c & (d >> _BEHIND_SHIFT)
        if found != np.uint32(0) and _goes_on(at, end, max(i - 1, 0), 4, plan, value, nbytes, table):
            return True
        before = d
        i += 4
    return _goes_on(at, end, max(i - 1, 0), count - i + 1, plan, value, nbytes, table)
