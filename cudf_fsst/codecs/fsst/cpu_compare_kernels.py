"""Numba kernels that compare values with codes of a symbol table, which are not decoded.

`table` is a tuple of addresses, of a `SymbolTable`'s ``decode_symbols``, ``decode_lengths`` and ``length_limits``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, equal_to, fill64, load8, load16, load64, place64, store8, store16, store64, trailing_zeros


@njit()
def place_codes(at: int, end: int, limit: int, nbytes: int, places: int, table: tuple[int, int, int]) -> int:
    """Where the symbols of a tile end that is not raw; see `text.cpu_places_kernels.CodeComparer`."""
    limits = table[2]
    count, source = end - at, at
    if at + 256 > limit:  # read from where places go, each before it is written
        copy(places, at, count)
        source = places
    first, second = np.int64(load8(source + 63)), np.int64(load8(source + 127))
    total = place64(source, count, np.int64(0), limits, np.int64(0), places)
    wrong = total
    total = place64(source + 64, max(count - 64, 0), first, limits, total, places + 64)
    wrong |= total
    # Most tiles have fewer codes than 128: no loop, which may end earlier and is mispredicted.
    if count > 128:
        third = np.int64(load8(source + 191))
        total = place64(source + 128, count - 128, second, limits, total, places + 128)
        wrong |= total
        if count > 192:
            total = place64(source + 192, count - 192, third, limits, total, places + 192)
            wrong |= total
        else:
            fill64(places + 192)
    else:
        fill64(places + 128)
        fill64(places + 192)
    if wrong < 0:
        return 0
    dangling = load8(end - 1) == 255 and (count == 1 or load8(end - 2) != 255)
    return count if total == nbytes and not dangling else -1


@njit()
def mark_codes(value: int, nbytes: int, yes: Any, maybe: Any, out: int, table: tuple[int, int, int]) -> None:
    """Which codes may begin a value; see `text.cpu_places_kernels.CodeComparer`."""
    symbols, symbol_lengths, _ = table
    word = load64(value)
    for code in range(256):
        length = np.int64(load8(symbol_lengths + code))
        symbol = load64(symbols + 8 * code)
        for have in range(1, length + 1):
            shared = min(have, nbytes)
            different = (symbol >> np.uint64(8 * (length - have))) ^ word
            if shared == 0 or different << np.uint64(64 - 8 * shared) == np.uint64(0):
                at = out + 8 * (8 * code + have - 1)
                store64(at, load64(at) | (yes if have >= nbytes else maybe))
    at = out + 8 * 8 * 255
    store64(at, load64(at) | maybe)


@njit()
def mark_second(
    value: int, nbytes: int, yes: Any, maybe: Any, escaped: Any, out: int, table: tuple[int, int, int]
) -> None:
    """Which codes may be behind those; see `text.cpu_places_kernels.CodeComparer`."""
    symbols, symbol_lengths, _ = table
    for have in range(1, min(nbytes - 1, 8) + 1):
        word, left = load64(value + have), np.int64(nbytes - have)
        for code in range(256):
            length = min(np.int64(load8(symbol_lengths + code)), left)
            different = load64(symbols + 8 * code) ^ word
            if code == 255 or (length > 0 and different << np.uint64(64 - 8 * length) == np.uint64(0)):
                at = out + 8 * (8 * code + have - 1)
                store64(at, load64(at) | (yes if length == left and code != 255 else maybe))
    at = out + 8 * 8 * np.int64(load8(value))
    store64(at, load64(at) | escaped)


@njit()
def same_codes(at: int, end: int, have: int, value: int, nbytes: int, table: tuple[int, int, int]) -> int:
    """Compare what codes stand for with a value; see `text.cpu_places_kernels.CodeComparer`."""
    symbols, symbol_lengths, _ = table
    done = np.int64(0)
    while at < end and done < nbytes:
        code = np.int64(load8(at))
        at += 1
        word, length = load64(symbols + 8 * code), np.int64(load8(symbol_lengths + code))
        if code == 255:
            if at == end:
                break
            word, length = np.uint64(load8(at)), 1
            at += 1
        if 0 < have < length:
            word >>= np.uint64(8 * (length - have))
            length = have
        have = 0
        length = min(length, nbytes - done)
        if length <= 0:
            break
        if (word ^ load64(value + done)) << np.uint64(64 - 8 * length) != np.uint64(0):
            return -1
        done += length
    return done


#: Bytes of a value at which it is tried to cut it; codes that are looked for there, at most: of those that end at one
#: place, and behind these.
_CUTS, _MOST_ALIKE, _MOST_BEHIND = 12, 64, 24
#: What it takes to look for one of these in a tile, to compare codes that may be part of a value, and to open a tile;
#: codes of a tile.
_LOOK_NS, _AGAIN_NS, _OPEN_NS, _TILE_CODES = 2.0, 20.0, 150.0, 100.0
#: Codes that are counted.
_SAMPLE_NBYTES = 2**13


@njit()
def _cut_value(value: int, nbytes: int, cut: int, counts: Any, out: int, table: tuple[int, int, int]) -> Any:
    """Write what `may_have` looks for: codes that have byte `cut` of a value, and those behind them.

    Returns what that costs a tile, about, in ns: what is looked for, and what is found by chance.
    """
    symbols, symbol_lengths, _ = table
    to, compared, chance, groups = out + 1, 0, 0.0, 0
    for stop in range(cut + 1, cut + 9):  # where the code ends
        number, ahead, behind = 0, 0, counts.sum()
        for code in range(255):
            length = np.int64(load8(symbol_lengths + code))
            begin = stop - length
            if length == 0 or begin > cut:
                continue
            low, high = max(begin, 0), min(stop, nbytes)
            word = load64(symbols + 8 * code) >> np.uint64(8 * (low - begin))
            if (word ^ load64(value + low)) << np.uint64(64 - 8 * (high - low)) == np.uint64(0):
                store8(to + 4 + number, np.uint8(code))
                ahead += counts[code]
                number += 1
        if stop == cut + 1:  # behind an escape
            literal = load8(value + cut)
            store8(to + 4 + number, literal)
            ahead += counts[literal]
            number += 1
        if number == 0:
            continue
        if number > _MOST_ALIKE:
            return np.inf
        more = 0
        if stop < nbytes:
            word, behind, left = load64(value + stop), counts[255], np.int64(nbytes - stop)
            store8(to + 4 + number, np.uint8(255))
            more = 1
            for code in range(255):
                length = min(np.int64(load8(symbol_lengths + code)), left)
                if length == 0 or (load64(symbols + 8 * code) ^ word) << np.uint64(64 - 8 * length) != np.uint64(0):
                    continue
                if more <= _MOST_BEHIND:
                    store8(to + 4 + number + more, np.uint8(code))
                behind += counts[code]
                more += 1
            if more > _MOST_BEHIND:
                more, behind = 0, counts.sum()
        store8(to, np.uint8(number))
        store8(to + 1, np.uint8(more))
        store16(to + 2, np.uint16(stop))
        to += 4 + number + more
        compared += number + more
        chance += ahead * behind
        groups += 1
    store8(out, np.uint8(groups))
    total = 1.0 * max(counts.sum(), 1)
    again = _AGAIN_NS + _OPEN_NS * np.exp(min(8 - nbytes, 0) / 4.0)
    return _LOOK_NS * compared + again * _TILE_CODES * chance / total / total


@njit()
def plan_value(value: int, nbytes: int, tiles: Any, out: int, table: tuple[int, int, int]) -> Any:
    """What `may_have` looks for; see `text.cpu_places_kernels.CodeComparer`."""
    counts = np.zeros(256, np.int64)
    for i in range(min(tiles[1], _SAMPLE_NBYTES)):
        counts[load8(tiles[0] + i)] += 1
    cuts: Any = min(nbytes, _CUTS)
    best, least = 0, np.inf
    for i in range(cuts):
        cut = i * (nbytes - 1) // max(cuts - 1, 1)
        cost = _cut_value(value, nbytes, cut, counts, out, table)
        if cost < least:
            best, least = cut, cost
    _cut_value(value, nbytes, best, counts, out, table)
    return least


@njit()
def _same_before(begin: int, at: int, value: int, stop: int, nbytes: int, table: tuple[int, int, int]) -> bool:
    """Whether codes from address `begin` to `at` may end with the first `stop` bytes of a value, or all and more."""
    symbols, symbol_lengths, _ = table
    left = np.int64(stop)
    while left > 0:
        if at == begin:
            return False
        code = load8(at - 1)
        if left > nbytes or (at - begin >= 2 and load8(at - 2) == 255):
            return True  # not looked into: a symbol in which the value ends, and what may be behind an escape
        symbol_nbytes = np.int64(load8(symbol_lengths + code))
        length = min(symbol_nbytes, left)
        word = load64(symbols + 8 * np.int64(code)) >> np.uint64(8 * (symbol_nbytes - length))
        if length == 0 or (word ^ load64(value + left - length)) << np.uint64(64 - 8 * length) != np.uint64(0):
            return False
        at -= 1
        left -= length
    return True


@njit()
def may_have(at: int, end: int, limit: int, plan: int, value: int, nbytes: int, table: tuple[int, int, int]) -> bool:
    """Whether codes may have a value; see `text.cpu_places_kernels.CodeComparer`."""
    if end + 64 > limit:
        return True
    groups, begin = np.int64(load8(plan)), at
    while at < end:
        where = plan + 1
        for _ in range(groups):
            number, more, stop = np.int64(load8(where)), np.int64(load8(where + 1)), np.int64(load16(where + 2))
            where += 4
            found, behind = np.uint64(0), np.uint64(0)
            for _ in range(number):
                found |= equal_to(at, load8(where))
                where += 1
            for _ in range(more):
                behind |= equal_to(at + 1, load8(where))
                where += 1
            found &= behind if more else ~np.uint64(0)
            if end - at < 64:
                found &= (np.uint64(1) << np.uint64(end - at)) - np.uint64(1)
            while found != np.uint64(0):
                following = at + trailing_zeros(found) + 1
                forward = stop >= nbytes or same_codes(following, end, 0, value + stop, nbytes - stop, table) >= 0
                if forward and _same_before(begin, following, value, stop, nbytes, table):
                    return True
                found &= found - np.uint64(1)
        at += 64
    return False


@njit()
def may_end(at: int, end: int, value: int, nbytes: int, table: tuple[int, int, int]) -> bool:
    """Whether codes may end with the last bytes of a value; see `text.cpu_places_kernels.CodeComparer`."""
    symbols, symbol_lengths, _ = table
    code = load8(end - 1)
    symbol_nbytes = np.int64(load8(symbol_lengths + code))
    length = min(symbol_nbytes, nbytes)
    word = load64(symbols + 8 * np.int64(code)) >> np.uint64(8 * (symbol_nbytes - length))
    same = length > 0 and (word ^ load64(value + nbytes - length)) << np.uint64(64 - 8 * length) == np.uint64(0)
    return same or (end - at >= 2 and load8(end - 2) == 255 and code == load8(value + nbytes - 1))
