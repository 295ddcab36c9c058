"""Training of symbol tables for ``level="max"``: a search for the symbols with which a sample takes the fewest codes.

The search begins with the table of the default level, which it improves in rounds. Each parses the sample with as few
codes as can be, from both ends, so that for every place the fewest codes before and behind it are known. From these
follows

* what a string that is no symbol would save: for each place where it stands, the codes of the whole stretch less those
  before it, less those behind it, less one;
* what a symbol is worth: for each place where the parse uses it, how many more codes the stretch takes if it is cut
  somewhere within the symbol (a single byte: one more, for its escape).

The strings that save most join the table, and the symbols that are worth least leave it, in two steps with a parse
between: joined strings often save the same codes, and only one of them is needed. The best table of all rounds is kept:
the fewest bytes of codes and, which matters where the sample is a small column, table. (Pruning by optimal parses:
PathPiece, Schmidt et al., EMNLP 2024; dynamic programming for FSST: BtrFSST.)

There are many strings, and few are good. So savings are first added up in buckets, by a hash, and then for each string
of the best buckets alone.

At last the table is compared with that of the default level on another sample, as it has been fitted to its own. Where
it is not clearly better, the default level's table is the result, so that the level does not make a column larger.

Everything is integer arithmetic with total orders, so the result is a pure function of the samples, on every device.
This module defines it; kernels/fsst_train_max.cu does the same on a GPU.

Measured on the FSST paper's ten text files, 256-byte tiles, as the geometric mean of the default level's code bytes
against ours: 1.119 for their lines as rows, 1.097 for the files as they are, line ends included. Differences
below 0.003 are within what another sample does. Both, with

* only the parse of this level, and the default level's tables: 1.016, 1.014;
* a start without symbols: 1.119, 1.096, but consecutive numbers as text take 6 % more, which is more than by default;
* samples of 32, 64, 256 and 512 KiB, not 128: 1.108, 1.117, 1.121, 1.122, and 1.086, 1.094, 1.100, 1.100;
* 4 and 20 first rounds, not 10: 1.118, 1.120, and 1.093, 1.098 (60 and 170 % of the time);
* 48 and 192 strings in a round, not 96: 1.118, 1.118, and 1.098, 1.095;
* strings that also end where a best parse may be cut: 1.110, 1.096;
* all strings in one hash table, without buckets: 1.118, 1.097, with 13 MB of memory, not 0.4;
* whole chunks parsed, not halves: 1.119, 1.098.

"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..text.plan import SAMPLE_CHUNK
from ..unaligned import address, load8, load64, padded_copy, trailing_zeros
from .automaton import build
from .symbols import MAX_SYMBOL_LENGTH, MAX_SYMBOLS, SymbolTable
from .train import chunk_bounds

#: Strings that join the table in each round.
ROUNDS = (*[96] * 10, 48, 24, 8)
#: Symbols of a table at most, before some leave it.
MOST_SYMBOLS = MAX_SYMBOLS + max(ROUNDS)
#: Bytes of a stretch, half a chunk, which is parsed by itself as a tile is.
STRETCH = SAMPLE_CHUNK // 2
#: Bytes of the sample in which a round looks for strings; the rounds take turns through the sample.
SHARE = 32768
#: Savings are added up in 2^16 buckets; strings of the best 512 at most are looked at. Where these are more than 6144,
#: which takes a text that was made for it, none joins.
BUCKET_BITS = 16
MOST_BUCKETS = 512
MOST_STRINGS = 6144
#: Places of the hash table that these strings have.
STRING_SLOTS = 8192
#: Where samples are drawn, the table found must be better than the default level's by this part.
CHECK_MARGIN = 256

_KEY = np.uint64(0x9E3779B97F4A7C15)
_CLASSES = 256


@njit()
def _fewest(text: int, nbytes: int, following: Any, masks: Any, states: Any, begin: Any, ahead: Any) -> Any:
    """Parse the stretch at `text` from its end: state and mask at each place, and the fewest codes from there on."""
    ahead[nbytes] = 0
    state = np.int64(0)
    for i in range(nbytes - 1, -1, -1):
        state = np.int64(following[state, np.int64(load8(text + i))])
        states[i] = state
        mask = np.uint64(masks[state])
        begin[i] = mask
        best = ahead[i + 1] + 2
        while mask != 0:
            best = min(best, ahead[i + 1 + trailing_zeros(mask)] + 1)
            mask &= mask - np.uint64(1)
        ahead[i] = best
    return ahead[0]


@njit()
def _weigh(nbytes: int, codes: Any, states: Any, begin: Any, behind: Any, ahead: Any, worth: Any, uses: Any) -> None:
    """Fill `behind`, the fewest codes before each place, and add what each symbol that the parse uses is worth."""
    behind[: nbytes + 1] = 2 * nbytes
    behind[0] = 0
    for i in range(nbytes):
        cost = behind[i] + 1
        behind[i + 1] = min(behind[i + 1], cost + 1)
        mask = begin[i]
        while mask != 0:
            end = i + 1 + trailing_zeros(mask)
            behind[end] = min(behind[end], cost)
            mask &= mask - np.uint64(1)
    i = 0
    while i < nbytes:
        longest = -1
        mask = begin[i]
        while mask != 0:
            k = trailing_zeros(mask)
            if ahead[i + 1 + k] + 1 == ahead[i]:
                longest = k
            mask &= mask - np.uint64(1)
        if longest >= 0:
            code = codes[states[i], longest]
            least = np.int32(1 if longest == 0 else MAX_SYMBOL_LENGTH * 2)
            for cut in range(i + 1, i + 1 + longest):
                least = min(least, behind[cut] + ahead[cut] - ahead[0])
            worth[code] += least
            uses[code] += 1
        i += max(longest, 0) + 1


@njit(inline="always")
def _hash(window: Any, length: int) -> Any:
    """The hash of the first `length` bytes of `window`; its highest bits depend on all of them."""
    return ((window << np.uint64(64 - 8 * length)) + np.uint64(length)) * _KEY


@njit(inline="always")
def _bucket(hashed: Any) -> Any:
    return np.int64(hashed >> np.uint64(64 - BUCKET_BITS))


@njit()
def _offer(text: int, nbytes: int, behind: Any, ahead: Any, sums: Any) -> None:
    """Add to `sums` what each string of the stretch would save that begins where a best parse may be cut.

    The places where none is are marked in `behind`, by -1.
    """
    for i in range(nbytes):
        if behind[i] + ahead[i] != ahead[0]:
            behind[i] = -1
            continue
        window = load64(text + i)
        for length in range(1, min(MAX_SYMBOL_LENGTH, nbytes - i) + 1):
            saved = ahead[i] - ahead[i + length] - 1
            if saved > 0:
                sums[_bucket(_hash(window, length))] += saved


@njit()
def _classes(sums: Any, counts: Any) -> None:
    """Replace sums by their classes, eight for each power of two, and count these."""
    counts[:] = 0
    for i in range(sums.size):
        total = np.int64(sums[i])
        shift = 0
        while total >= 16:
            total >>= 1
            shift += 1
        sums[i] = 8 * shift + total
        counts[sums[i]] += 1


@njit()
def _collect(
    text: int, nbytes: int, behind: Any, ahead: Any, classes: Any, lowest: int, entries: Any, lengths: Any, savings: Any
) -> int:
    """Add up what each string of `_offer` would save that lies in a bucket of class `lowest` or above.

    `savings` (0: a free place), `entries` and `lengths` are a hash table of strings. Returns how many have joined it.
    """
    count = 0
    for i in range(nbytes):
        if behind[i] < 0:
            continue
        window = load64(text + i)
        for length in range(1, min(MAX_SYMBOL_LENGTH, nbytes - i) + 1):
            saved = ahead[i] - ahead[i + length] - 1
            if saved <= 0:
                continue
            hashed = _hash(window, length)
            if classes[_bucket(hashed)] < lowest:
                continue
            string = window & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * length))
            place = np.int64(((hashed ^ (hashed >> np.uint64(29))) * _KEY) >> np.uint64(32)) & (savings.size - 1)
            while savings[place] != 0 and (entries[place] != string or lengths[place] != length):
                place = (place + 1) & (savings.size - 1)
            if savings[place] == 0:
                entries[place] = string
                lengths[place] = length
                count += 1
            savings[place] += saved
    return count


@njit()
def _measure(
    sample: int,
    starts: Any,
    ends: Any,
    chunks: Any,
    following: Any,
    codes: Any,
    share: int,
    shares: int,
    worth: Any,
    uses: Any,
    sums: Any,
    ahead: Any,
    behind: Any,
) -> int:
    """Parse all stretches; fill `worth` and `uses` of every symbol and, unless `share` is negative, `sums`.

    Returns the bytes of codes; stretches that take more than their bytes are stored as they are. Rows of `ahead` and
    `behind` are those of the share's stretches; the last row is for all others.
    """
    states, begin = np.empty(STRETCH, np.int64), np.empty(STRETCH, np.uint64)
    # Bit k: a symbol of k + 1 bytes begins there. (It ends within the stretch: the automaton starts anew at every end.)
    masks = np.zeros(codes.shape[0], np.uint8)
    for state in range(codes.shape[0]):
        for k in range(MAX_SYMBOL_LENGTH):
            if codes[state, k] >= 0:
                masks[state] |= np.uint8(1 << k)
    worth[:] = 0
    uses[:] = 0
    sums[:] = 0
    total = 0
    rows = 0
    for stretch in range(starts.size):
        text, nbytes = sample + starts[stretch], ends[stretch] - starts[stretch]
        offered = share >= 0 and chunks[stretch] % shares == share
        row = rows if offered else ahead.shape[0] - 1
        total += min(_fewest(text, nbytes, following, masks, states, begin, ahead[row]), nbytes)
        _weigh(nbytes, codes, states, begin, behind[row], ahead[row], worth, uses)
        if offered:
            _offer(text, nbytes, behind[row], ahead[row], sums)
            rows += 1
    return total


@njit()
def _find(
    sample: int,
    starts: Any,
    ends: Any,
    chunks: Any,
    share: int,
    shares: int,
    sums: Any,
    ahead: Any,
    behind: Any,
    entries: Any,
    lengths: Any,
    savings: Any,
    most: int,
) -> bool:
    """Fill the hash table of `_collect` after a `_measure` of a share; False if there are more than `most` strings."""
    counts = np.empty(_CLASSES, np.int64)
    _classes(sums, counts)
    lowest, buckets = _CLASSES, 0
    while lowest > 1 and buckets + counts[lowest - 1] <= MOST_BUCKETS:
        lowest -= 1
        buckets += counts[lowest]
    savings[:] = 0
    row, strings = 0, 0
    for stretch in range(starts.size):
        if chunks[stretch] % shares == share:
            text, nbytes = sample + starts[stretch], ends[stretch] - starts[stretch]
            strings += _collect(text, nbytes, behind[row], ahead[row], sums, lowest, entries, lengths, savings)
            if strings > most:
                return False
            row += 1
    return True


class _Sample:
    """A sample, cut into stretches, and the memory of its parses."""

    def __init__(self, sample: npt.NDArray[np.uint8], chunk_starts: npt.NDArray[np.int64]) -> None:
        starts, ends = chunk_bounds(sample, chunk_starts)
        self.sample = padded_copy(sample, 8)  # eight bytes are read at every place
        self.shares = max(1, -(-sample.size // SHARE))
        stretches = -(-(ends - starts) // STRETCH)
        self.chunks = np.repeat(np.arange(starts.size), stretches)
        before = np.cumsum(stretches) - stretches
        self.starts = starts[self.chunks] + STRETCH * (np.arange(self.chunks.size) - before[self.chunks])
        self.ends = np.minimum(self.starts + STRETCH, ends[self.chunks])
        self.classes = np.arange(256, dtype=np.uint8)  # every byte is one
        self.following = np.empty((MOST_SYMBOLS * MAX_SYMBOL_LENGTH + 1, 256), np.uint16)
        self.codes = np.empty((MOST_SYMBOLS * MAX_SYMBOL_LENGTH + 1, MAX_SYMBOL_LENGTH), np.int16)
        rows = int(np.bincount(self.chunks % self.shares).max(initial=0)) + 1
        self.ahead = np.empty((rows, STRETCH + 1), np.int32)
        self.behind = np.empty((rows, STRETCH + 1), np.int32)
        self.sums = np.empty(1 << BUCKET_BITS, np.int32)
        self.entries = np.empty(STRING_SLOTS, np.uint64)
        self.lengths = np.empty(STRING_SLOTS, np.int64)
        self.savings = np.zeros(STRING_SLOTS, np.int64)

    @property
    def stretches(self) -> tuple[Any, ...]:
        return address(self.sample), self.starts, self.ends, self.chunks

    def measure(
        self, symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], share: int = -1
    ) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Bytes of codes; what each symbol is worth, and how often it is used."""
        states = build(symbols, lengths, self.classes, self.following, self.codes)
        worth, uses = np.empty(symbols.size, np.int64), np.empty(symbols.size, np.int64)
        automaton = self.following[:states], self.codes[:states]
        sums = self.sums if share >= 0 else self.sums[:0]
        total = _measure(*self.stretches, *automaton, share, self.shares, worth, uses, sums, self.ahead, self.behind)
        return total, worth, uses

    def best_strings(self, share: int, count: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The strings that save most, after a `measure` of a share.

        A string must save more than its own bytes, which it takes in the stored table. Of equal savings the longer
        string is better, then the smaller little-endian number.
        """
        table = self.entries, self.lengths, self.savings, MOST_STRINGS
        if not _find(*self.stretches, share, self.shares, self.sums, self.ahead, self.behind, *table):
            return self.entries[:0], self.lengths[:0]
        places = np.flatnonzero((self.savings > 0) & (self.savings > self.lengths))
        strings, lengths = self.entries[places], self.lengths[places]
        best = np.lexsort((strings, -lengths, -self.savings[places]))[:count]
        return strings[best], lengths[best]


def train_table_max(
    sample: npt.NDArray[np.uint8],
    chunk_starts: npt.NDArray[np.int64],
    first: SymbolTable | None = None,
    check: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]] | None = None,
) -> SymbolTable:
    """Train a symbol table for `level="max"`.

    Parameters
    ----------
    sample : ndarray of uint8
        Chunks one after another.
    chunk_starts : ndarray of int64
        Where each chunk starts, ascending from 0. No symbol is sought across the start of a chunk.
    first
        The table to begin with, that of the default level; None: one without symbols.
    check
        Another sample, its chunks and their starts, on which the result is compared with `first`; None: they are
        compared on `sample`, which is all there is.

    Returns
    -------
    SymbolTable
        Several symbols may share their first three bytes, which a table for the default level's encoder avoids. Empty
        for an empty sample.

    Raises
    ------
    ValueError
        The chunks do not cover the sample in order.
    """
    if sample.size == 0:
        return SymbolTable(())
    first = first or SymbolTable(())
    search = _Sample(sample, chunk_starts)
    begin = first.decode_symbols[: len(first)], first.decode_lengths[: len(first)].astype(np.int64)
    symbols, lengths = begin
    best, fewest = begin, None
    for number, joining in enumerate((*ROUNDS, 0)):
        share = number % search.shares
        total, _, uses = search.measure(symbols, lengths, share if joining else -1)
        used = uses > 0
        total += int(lengths[used].sum())
        if fewest is None or total < fewest:
            best, fewest = (symbols[used], lengths[used]), total
        if joining:
            strings, string_lengths = search.best_strings(share, joining + MAX_SYMBOLS - symbols.size)
            symbols, lengths = np.append(symbols, strings), np.append(lengths, string_lengths)
            for limit in (MAX_SYMBOLS + (symbols.size - MAX_SYMBOLS) // 4, MAX_SYMBOLS):
                if symbols.size > limit:
                    _, worth, _ = search.measure(symbols, lengths)
                    kept = np.lexsort((symbols, -lengths, -worth))[:limit]
                    symbols, lengths = symbols[kept], lengths[kept]
    compared = search if check is None else _Sample(*check)
    costs = [compared.measure(*table)[0] + int(table[1].sum()) for table in (begin, best)]
    margin = costs[0] // CHECK_MARGIN if check is not None else 0
    return in_order(*(best if costs[1] + margin < costs[0] else begin))


def in_order(symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[Any]) -> SymbolTable:
    """The table of symbols that were found in any order: of equal rank in code order the smaller number first."""
    words, sizes = symbols.astype(np.uint64), lengths.astype(np.uint8)
    _sort(words, sizes)
    return SymbolTable._of_words(words.tobytes(), sizes.tobytes())


@njit()
def _sort(symbols: Any, lengths: Any) -> None:
    """Sort symbols into code order, and their lengths: few enough for each to look for its place."""
    ranks = np.empty(symbols.size, np.int64)
    for i in range(symbols.size):
        begins = False  # whether it begins a longer symbol, of which it is the first two bytes
        for k in range(symbols.size if lengths[i] == 2 else 0):
            begins |= lengths[k] > 2 and symbols[k] & np.uint64(0xFFFF) == symbols[i]
        length = np.int64(lengths[i])
        ranks[i] = 2 * (MAX_SYMBOL_LENGTH + 1 if length == 1 else length) + (1 if begins else 0)
    for i in range(1, symbols.size):
        rank, symbol, length = ranks[i], symbols[i], lengths[i]
        at = i
        while at > 0 and (ranks[at - 1] > rank or (ranks[at - 1] == rank and symbols[at - 1] > symbol)):
            ranks[at], symbols[at], lengths[at] = ranks[at - 1], symbols[at - 1], lengths[at - 1]
            at -= 1
        ranks[at], symbols[at], lengths[at] = rank, symbol, length
