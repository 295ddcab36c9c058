"""Training of OnPair tables in rounds of counting.

OnPair (Gargiulo, Rossano, Venturini, arXiv 2508.02280, 2025) looks at one row after another and merges pairs as it
goes, so every merge changes what follows. Here a table is bred in rounds instead. Each parses a part of the sample with
the current table, counts what every symbol saves, what every pair of neighbours would save, and what every symbol would
save if it took one byte more; the best of all are the next table. Everything is sums of integers, and which strings are
kept does not depend on their order: the table is a pure function of the sample, on every device. This module defines
it; kernels/onpair_train.cu does the same on a GPU.

A round. ``m1`` is the longest symbol at a place, ``m2`` the next shorter symbol that begins it; no symbol crosses a
chunk's end.

1. Every chunk is parsed by ``m1`` to tokens. ``inverse`` is ``16 * tokens / bytes`` of the chunk.
2. What a token (p, c) of more than a byte saves, in sixteenths of a code: from p + len(m2) and from p + len(c) both go
   on by ``m1`` (where that is c: by ``m2``), the one behind first, until they meet or have made `STEPS` steps. Each
   step of the first adds 16, of the second takes 16; what still lies between them counts ``inverse`` a byte.
3. Neighbours of 16 bytes at most together count 16 if they are met twice or more. Where the second has more than a
   byte and the first fewer than 16, the first with one byte more counts what it would save, by the same walk, times
   12/16.
4. What spells the same is added up. A string must pay for its place in the table (`pay`).
5. The best by ``gain << 12 | (length - 1) << 8 | hash`` are kept: those above the first that has no place any more, so
   that nothing depends on the order of equal ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...workers import map_items, num_threads
from ..jit import njit
from ..unaligned import address, load8, padded_copy
from .patricia import build, find_longest_of_four
from .symbols import BYTES, MAX_SYMBOL_LENGTH, OnPairTable

#: Of each round: it parses the chunks whose number is `first` modulo `step`.
ROUNDS = ((8, 0), (8, 4), (4, 1), (4, 3), (2, 0), (2, 1), (2, 0), (1, 0), (1, 0), (1, 0))
#: Steps of a walk.
STEPS = 16
#: Symbols, in 1/64 of the codes, that the last round but one keeps: the last one only leaves some out.
SPARE = 73
#: Threads that count, at most, each with some megabytes of sums; bytes of a sample for each.
MOST_THREADS, THREAD_NBYTES = 8, 1 << 16
#: Bytes of a sample: its sums fit into 32 bits.
MAX_SAMPLE = 1 << 20
#: Of the hash that decides between strings of equal gain and length.
HASH_LOW, HASH_HIGH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
#: Of what `_count` finds at a place: bits of the code, where lengths - 1 are.
_CODE, _LENGTH, _SHORTER = 8191, 13, 17
_LOW, _HIGH, _ZERO = np.uint64(HASH_LOW), np.uint64(HASH_HIGH), np.uint64(0)


class TrainingRound(NamedTuple):
    """What a round counts.

    Attributes
    ----------
    step, first : int
        It parses chunks whose number is `first` modulo `step`.
    keep : int
        Codes of the next table at most.
    grows : bool
        Whether strings that are no symbols yet may get into it.
    """

    step: int
    first: int
    keep: int
    grows: bool


def rounds(bits: int) -> list[TrainingRound]:
    """The rounds in which a table for codes of `bits` bits is trained."""
    codes = 1 << bits
    last = len(ROUNDS) - 1
    return [
        TrainingRound(step, first, codes * SPARE // 64 if i == last - 1 else codes, i < last)
        for i, (step, first) in enumerate(ROUNDS)
    ]


def pay(bits: int, part: int, column: int) -> npt.NDArray[np.int32]:
    """What strings of 0 to 16 bytes must gain more than, in `part` bytes of a sample of a column, to be stored."""
    costs = [(length + 1) * 128 * part // (bits * max(column, part, 1)) for length in range(MAX_SYMBOL_LENGTH + 1)]
    return np.array(costs, np.int32)


@njit(inline="always")
def _walk(tokens: Any, ahead: int, behind: int, without: Any, inverse: Any) -> Any:
    """Sixteenths of codes that going on from `behind` takes more than going on from `ahead`, until both meet.

    `tokens`: see `_count`. `without`: a code that the former may not use, or -1.
    """
    low: Any = behind
    high: Any = ahead
    more, sign = np.int64(0), np.int64(16)
    for _ in range(STEPS):
        if low == high:
            break
        token = np.int64(tokens[low])
        shorter = sign > 0 and token & _CODE == without
        after = low + (token >> _SHORTER if shorter else token >> _LENGTH & 15) + 1
        more += sign
        sign = -sign if after > high else sign
        low, high = min(after, high), max(after, high)
    return more + (high - low if sign > 0 else low - high) * inverse


@njit()
def _count(
    sample: int,
    starts: Any,
    ends: Any,
    chunks: Any,
    grows: bool,
    trie: Any,
    lengths: Any,
    parents: Any,
    gains: Any,
    extended: Any,
    met: Any,
) -> int:
    """Fill gains of symbols, of symbols with one byte more (``code << 8 | byte``), and neighbours; how many these are.

    `chunks`: their numbers. Behind the sample 20 bytes can be read.
    """
    room = np.int64(0)
    for chunk in range(starts.size):
        room = max(room, ends[chunk] - starts[chunk])
    # Of each place the longest symbol, its length - 1, that of the next shorter one.
    tokens = np.empty(room + 4, np.uint32)
    neighbours = 0
    for chunk in chunks:
        begin = sample + starts[chunk]
        size = ends[chunk] - starts[chunk]
        for first in range(0, size, 4):
            at = begin + first, begin + first + 1, begin + first + 2, begin + first + 3
            for i, code in enumerate(find_longest_of_four(at, begin + size, trie)):
                length, shorter = np.int64(lengths[code]) - 1, np.int64(lengths[parents[code]]) - 1
                tokens[first + i] = np.uint32(code | length << _LENGTH | shorter << _SHORTER)
        count = 0
        place = np.int64(0)
        while place < size:
            place += (np.int64(tokens[place]) >> _LENGTH & 15) + 1
            count += 1
        inverse = np.int64(16 * count // size) if size else 0
        place = np.int64(0)
        while place < size:
            token = np.int64(tokens[place])
            code, length = token & _CODE, (token >> _LENGTH & 15) + 1
            after = place + length
            if length > 1:
                gains[code] += _walk(tokens, after, place + (token >> _SHORTER) + 1, code, inverse)
            if grows and after < size:
                following = np.int64(tokens[after])
                more = (following >> _LENGTH & 15) + 1
                if length + more <= MAX_SYMBOL_LENGTH:
                    met[neighbours] = np.uint32(code << 13 | following & _CODE)
                    neighbours += 1
                if more > 1 and length < MAX_SYMBOL_LENGTH:
                    # The token with one byte more, and what follows it, against both tokens.
                    saved = 16 - _walk(tokens, after + more, after + 1, -1, inverse)
                    extended[code << 8 | np.int64(load8(begin + after))] += saved
            place = after
    return neighbours


@njit()
def _count_pairs(met: Any, pairs: Any) -> int:
    """Count neighbours: to a hash table of ``key + 1`` and how often. How many were met twice or more."""
    slots = pairs.shape[0]
    shift = np.uint32(32)
    while 1 << (np.uint32(32) - shift) < slots:
        shift -= np.uint32(1)
    twice = 0
    for i in range(met.size):
        key = met[i] + np.uint32(1)
        slot: Any = np.int64(np.uint32(key * np.uint32(0x9E3779B1)) >> shift)
        while pairs[slot, 0] != key and pairs[slot, 0] != 0:
            slot += 1
            if slot == slots:
                slot = 0
        pairs[slot, 0] = key
        pairs[slot, 1] += np.uint32(1)
        twice += pairs[slot, 1] == 2
    return twice


@njit(inline="always")
def _join(low: Any, high: Any, length: Any, low_more: Any, high_more: Any) -> tuple[Any, Any]:
    """The words of a string of 1 to 15 bytes with another one behind it."""
    bits = np.uint64(8 * length)
    if length < 8:
        return low | low_more << bits, high | high_more << bits | low_more >> (np.uint64(64) - bits)
    if length == 8:
        return low, high | low_more
    return low, high | low_more << (bits - np.uint64(64))


@njit(inline="always")
def _add(
    low: Any, high: Any, length: Any, gain: Any, count: Any, slots: Any, words: Any, lengths: Any, gains: Any
) -> Any:
    """Add a string to the candidates, or its gain to the one that spells the same; how many there are then."""
    x = low * _LOW ^ (high + np.uint64(length)) * _HIGH
    x ^= x >> np.uint64(32)
    slot = np.int64((x * _LOW) >> np.uint64(32)) & (slots.size - 1)
    while slots[slot] >= 0:
        same = slots[slot]
        if words[same, 0] == low and words[same, 1] == high and np.int64(lengths[same]) == length:
            gains[same] += gain
            return count
        slot = (slot + 1) & (slots.size - 1)
    slots[slot] = count
    words[count, 0] = low
    words[count, 1] = high
    lengths[count] = length
    gains[count] = gain
    return count + 1


@njit()
def _candidates(
    count: int,
    grows: bool,
    words: Any,
    lengths: Any,
    gains: Any,
    extended: Any,
    pairs: Any,
    slots: Any,
    to_words: Any,
    to_lengths: Any,
    to_gains: Any,
) -> int:
    """All strings that could be symbols of the next table, each once, with the sum of what it gains."""
    total = 0
    for code in range(BYTES, count):
        low, high, length = words[code, 0], words[code, 1], np.int64(lengths[code])
        total = _add(low, high, length, gains[code], total, slots, to_words, to_lengths, to_gains)
    if not grows:
        return total
    for slot in range(pairs.shape[0]):
        if pairs[slot, 1] >= 2:
            key = np.int64(pairs[slot, 0]) - 1
            a, b = key >> 13, key & 8191
            low, high = _join(words[a, 0], words[a, 1], np.int64(lengths[a]), words[b, 0], words[b, 1])
            length = np.int64(lengths[a]) + np.int64(lengths[b])
            gain = np.int64(pairs[slot, 1]) * 16
            total = _add(low, high, length, gain, total, slots, to_words, to_lengths, to_gains)
    for extension in range(count << 8):
        if extended[extension] == 0:
            continue
        more = np.int64(extended[extension]) * 12 >> 4
        extended[extension] = 0
        if more > 0:
            a = np.int64(extension >> 8)
            low, high = _join(words[a, 0], words[a, 1], np.int64(lengths[a]), np.uint64(extension & 255), _ZERO)
            total = _add(low, high, np.int64(lengths[a]) + 1, more, total, slots, to_words, to_lengths, to_gains)
    return total


def _ranks(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], gains: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """By what strings are kept: gain, length, 8 bits of a hash."""
    mixed = words[:, 0] * _LOW ^ words[:, 1] * _HIGH
    mixed = (mixed ^ mixed >> np.uint64(32)) * _LOW >> np.uint64(56)
    return gains.astype(np.uint64) << np.uint64(12) | (lengths.astype(np.uint64) - np.uint64(1)) << np.uint64(8) | mixed


class _Growing(NamedTuple):
    """A table in training: words, lengths, and how many codes it has."""

    words: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]

    @property
    def codes(self) -> int:
        return self.lengths.size


def _single_bytes() -> _Growing:
    words = np.zeros((BYTES, 2), np.uint64)
    words[:, 0] = np.arange(BYTES)
    return _Growing(words, np.ones(BYTES, np.uint8))


def _next(
    table: _Growing, sample: npt.NDArray[np.uint8], starts: Any, ends: Any, rules: TrainingRound, costs: Any, rooms: Any
) -> _Growing:
    """The table that a round makes of one. `rooms`: of each thread zeros for `_count`, which they are again then."""
    trie = build(table.words, table.lengths, table.codes, sizes=False)
    # Of a symbol's own bytes but the last one, the longest symbol.
    parents = trie.records[np.arange(table.codes), 6 + np.maximum(table.lengths, 2)]
    symbols = trie.places, table.lengths, parents

    def count(share: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        chunks = shares[share]
        gains = np.zeros(table.codes, np.int64)
        met = np.empty(int((ends - starts)[chunks].sum()) if rules.grows else 0, np.uint32)
        length = _count(address(sample), starts, ends, chunks, rules.grows, *symbols, gains, rooms[share], met)
        return gains, met[:length]

    shares = np.array_split(np.arange(rules.first, starts.size, rules.step), len(rooms))
    counted = map_items(count, range(len(rooms)))
    extended = rooms[0][: table.codes << 8 if rules.grows else 0]
    for other in rooms[1:]:
        extended += other[: extended.size]
        other[: extended.size] = 0
    gains = sum(share_gains for share_gains, _ in counted)
    met = np.concatenate([share_met for _, share_met in counted])
    pairs = np.zeros((1 << max(8, (3 * met.size // 2).bit_length()) if rules.grows else 1, 2), np.uint32)
    most = table.codes + _count_pairs(met, pairs) + int(np.count_nonzero(extended))
    slots = np.full(1 << max(8, (2 * most).bit_length()), -1, np.int32)
    words, lengths, sums = np.empty((most, 2), np.uint64), np.empty(most, np.uint8), np.empty(most, np.int64)
    counts = gains, extended, pairs
    candidates = _candidates(table.codes, rules.grows, table.words, table.lengths, *counts, slots, words, lengths, sums)
    kept = np.flatnonzero(sums[:candidates] > costs[lengths[:candidates]])
    words, lengths, sums = words[kept], lengths[kept], sums[kept]
    most = rules.keep - BYTES
    if kept.size > most:
        ranks = _ranks(words, lengths, sums)
        best = ranks > np.partition(ranks, kept.size - most - 1)[kept.size - most - 1]
        words, lengths = words[best], lengths[best]
    order = np.argsort(lengths, kind="stable")
    first = _single_bytes()
    return _Growing(np.concatenate([first.words, words[order]]), np.concatenate([first.lengths, lengths[order]]))


def train_table(
    sample: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], column: int, bits: int = 12
) -> OnPairTable:
    """Train a table.

    Parameters
    ----------
    sample : ndarray of uint8
        At most `MAX_SAMPLE` bytes: chunks, one after another.
    starts : ndarray of int64
        Where they begin.
    column : int
        Bytes of the column that the table is for.
    bits : int
        Of a code.

    Returns
    -------
    OnPairTable
    """
    if sample.size > MAX_SAMPLE:
        raise ValueError(f"the sample has {sample.size} bytes, more than {MAX_SAMPLE}")
    ends = np.append(starts[1:], sample.size)
    sample = padded_copy(sample, 20)
    table = _single_bytes()
    threads = max(1, min(num_threads(), MOST_THREADS, sample.size // THREAD_NBYTES))
    rooms = [np.zeros(max(rules.keep for rules in rounds(bits)) << 8, np.int32) for _ in range(threads)]
    for rules in rounds(bits):
        part = int((ends - starts)[rules.first :: rules.step].sum())
        table = _next(table, sample, starts, ends, rules, pay(bits, part, column), rooms)
    return to_table(table, bits)


def to_table(table: _Growing, bits: int) -> OnPairTable:
    """The finished one: symbols of a length ascend by their bytes."""
    rows = table.words[BYTES:].astype("<u8").tobytes()
    strings = [rows[16 * i : 16 * i + n] for i, n in enumerate(table.lengths[BYTES:].tolist())]
    return OnPairTable.from_symbols(bits, strings)
