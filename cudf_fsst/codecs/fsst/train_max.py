"""Training of symbol tables for ``level="max"``: a search for the symbols with which a sample takes the fewest codes.

The table is improved in rounds. Each parses the sample with as few codes as can be, from both ends, so that for every
place the fewest codes before and behind it are known. From these follows

* what a string that is no symbol would save: for each place where it stands, the codes of the whole chunk less those
  before it, less those behind it, less one;
* what a symbol is worth: for each place where the parse uses it, how many more codes the chunk takes if it is cut
  somewhere within the symbol (a single byte: one more, for its escape).

The strings that save most join the table, and the symbols that are worth least leave it, in two steps with a parse
between: joined strings often save the same codes, and only one of them is needed. The best table of all rounds is the
result: the fewest bytes of codes and, which matters where the sample is a small column, table. (Pruning by optimal
parses: PathPiece, Schmidt et al., EMNLP 2024; dynamic programming for FSST: BtrFSST.) Everything is integer arithmetic
with a total order, so the result is a pure function of the sample.

Measured on the FSST paper's ten text files, 256-byte tiles, as the geometric mean of the default level's code bytes
against ours: 1.118 for their lines as rows, 1.097 for the files as they are, line ends included. Differences
below 0.003 are within what another sample does. The files as they are with

* only the parse of this level, and the default level's tables: 1.014;
* samples of 32, 64, 256 and 512 KiB, not 128: 1.085, 1.091, 1.097, 1.100 (half to three times the training time);
* 4 and 20 first rounds, not 10: 1.086, 1.098;
* 48 and 192 strings in a round, not 96: 1.093, 1.092;
* symbols that leave in one step and in three: 1.083, 1.098;
* strings sought at every place, not only where a best parse may be cut: 1.064;
* a start with the default level's table, where the sample is large too: 1.097.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, load8, load64, padded_copy, trailing_zeros
from .automaton import build
from .symbols import MAX_SYMBOL_LENGTH, MAX_SYMBOLS, SymbolTable
from .train import chunk_bounds, train_table

#: Strings that join the table in each round.
ROUNDS = (*[96] * 10, 48, 24, 8)
#: Bytes of the sample in which a round looks for strings; the rounds take turns through the sample.
PART = 32768
#: Up to so many bytes the search starts with the default level's table, else with none.
SMALL = 32768

_MOST = MAX_SYMBOLS + max(ROUNDS)
_KEY = np.uint64(0x9E3779B97F4A7C15)


@njit()
def _fewest(text: int, nbytes: int, following: Any, masks: Any, states: Any, ahead: Any) -> int:
    """Parse the chunk at `text` from its end: the state at each place, and the fewest codes from there to the end."""
    ahead[nbytes] = 0
    state = np.int64(0)
    for i in range(nbytes - 1, -1, -1):
        state = np.int64(following[state, np.int64(load8(text + i))])
        states[i] = state
        best = ahead[i + 1] + 2
        mask = masks[state]
        while mask != 0:
            best = min(best, ahead[i + 1 + trailing_zeros(mask)] + 1)
            mask &= mask - np.uint64(1)
        ahead[i] = best
    return ahead[0]


@njit()
def _weigh(nbytes: int, codes: Any, masks: Any, states: Any, behind: Any, ahead: Any, worth: Any, uses: Any) -> None:
    """Fill `behind`, the fewest codes before each place, and add what each symbol that the parse uses is worth."""
    behind[: nbytes + 1] = 2 * nbytes
    behind[0] = 0
    for i in range(nbytes):
        behind[i + 1] = min(behind[i + 1], behind[i] + 2)
        mask = masks[states[i]]
        while mask != 0:
            end = i + 1 + trailing_zeros(mask)
            behind[end] = min(behind[end], behind[i] + 1)
            mask &= mask - np.uint64(1)
    i = 0
    while i < nbytes:
        k = min(MAX_SYMBOL_LENGTH, nbytes - i) - 1
        while k >= 0 and (codes[states[i], k] < 0 or ahead[i + 1 + k] + 1 != ahead[i]):
            k -= 1
        if k >= 0:
            code = codes[states[i], k]
            least = np.int32(1 if k == 0 else MAX_SYMBOL_LENGTH * 2)
            for cut in range(i + 1, i + 1 + k):
                least = min(least, behind[cut] + ahead[cut] - ahead[0])
            worth[code] += least
            uses[code] += 1
        i += max(k, 0) + 1


@njit()
def _offer(text: int, nbytes: int, behind: Any, ahead: Any, found: Any, lengths: Any, savings: Any) -> None:
    """Add to `savings` what each string of the chunk would save that begins where a best parse may be cut."""
    mask = savings.size - 1
    for i in range(nbytes):
        if behind[i] + ahead[i] != ahead[0]:
            continue
        window = load64(text + i)
        for length in range(1, min(MAX_SYMBOL_LENGTH, nbytes - i) + 1):
            saved = ahead[i] - ahead[i + length] - 1
            if saved > 0:
                symbol = window & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * length))
                key = (symbol ^ (np.uint64(length) << np.uint64(59))) * _KEY
                place = np.int64((key ^ (key >> np.uint64(29))) >> np.uint64(20)) & mask
                while savings[place] != 0 and (found[place] != symbol or lengths[place] != length):
                    place = (place + 1) & mask
                found[place] = symbol
                lengths[place] = length
                savings[place] += saved


@njit()
def _measure(
    sample: int,
    starts: Any,
    ends: Any,
    following: Any,
    codes: Any,
    part: int,
    parts: int,
    worth: Any,
    uses: Any,
    found: Any,
    lengths: Any,
    savings: Any,
) -> int:
    """Parse all chunks; fill `worth` and `uses` of every symbol and, unless `part` is negative, `savings`.

    Returns the number of codes. `savings` (0: a free place), `found` and `lengths` are a hash table of strings.
    """
    longest = np.int64(0)
    for chunk in range(starts.size):
        longest = max(longest, ends[chunk] - starts[chunk])
    states = np.empty(longest, np.int64)
    ahead = np.empty(longest + 1, np.int32)
    behind = np.empty(longest + 1, np.int32)
    # Bit k: a symbol of k + 1 bytes begins there. (It ends within the chunk: the automaton starts anew at every end.)
    masks = np.zeros(codes.shape[0], np.uint64)
    for state in range(codes.shape[0]):
        for k in range(MAX_SYMBOL_LENGTH):
            if codes[state, k] >= 0:
                masks[state] |= np.uint64(1 << k)
    worth[:] = 0
    uses[:] = 0
    if part >= 0:
        savings[:] = 0
    total = 0
    for chunk in range(starts.size):
        text, nbytes = sample + starts[chunk], ends[chunk] - starts[chunk]
        total += _fewest(text, nbytes, following, masks, states, ahead)
        _weigh(nbytes, codes, masks, states, behind, ahead, worth, uses)
        if part >= 0 and chunk % parts == part:
            _offer(text, nbytes, behind, ahead, found, lengths, savings)
    return total


class _Search:
    """The sample, and the memory of its parses."""

    def __init__(self, sample: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> None:
        self.sample = padded_copy(sample, 8)  # eight bytes are read at every place
        self.starts, self.ends = chunk_bounds(sample, starts)
        self.parts = max(1, -(-sample.size // PART))
        self.following = np.empty((_MOST * MAX_SYMBOL_LENGTH + 1, 256), np.uint16)
        self.codes = np.empty((_MOST * MAX_SYMBOL_LENGTH + 1, MAX_SYMBOL_LENGTH), np.int16)
        longest = int((self.ends - self.starts).max())
        chunks = -(-self.starts.size // self.parts)
        places = 2 * MAX_SYMBOL_LENGTH * min(sample.size, chunks * longest)
        self.found = np.empty(1 << places.bit_length(), np.uint64)
        self.lengths = np.empty(self.found.size, np.uint8)
        self.savings = np.zeros(self.found.size, np.int32)

    def measure(
        self, symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], part: int = -1
    ) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Codes of the sample; what each symbol is worth, and how often it is used."""
        states = build(symbols, lengths, self.following, self.codes)
        worth, uses = np.empty(symbols.size, np.int64), np.empty(symbols.size, np.int64)
        total = _measure(
            address(self.sample),
            self.starts,
            self.ends,
            self.following[:states],
            self.codes[:states],
            part,
            self.parts,
            worth,
            uses,
            self.found,
            self.lengths,
            self.savings,
        )
        return total, worth, uses

    def best_strings(self, count: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The strings that save most, after a `measure` of a part.

        A string must save more than its own bytes, which it takes in the stored table. Of equal savings the longer
        string is better, then the smaller little-endian number.
        """
        places = np.flatnonzero(self.savings > self.lengths)
        savings = self.savings[places]
        if places.size > count:
            enough = np.partition(savings, places.size - count)[places.size - count]
            places = places[savings >= enough]
        strings, lengths = self.found[places], self.lengths[places].astype(np.int64)
        best = np.lexsort((strings, -lengths, -self.savings[places]))[:count]
        return strings[best], lengths[best]


def train_table_max(sample: npt.NDArray[np.uint8], chunk_starts: npt.NDArray[np.int64]) -> SymbolTable:
    """Train a symbol table for `level="max"`.

    Parameters
    ----------
    sample : ndarray of uint8
        Chunks one after another.
    chunk_starts : ndarray of int64
        Where each chunk starts, ascending from 0. No symbol is sought across the start of a chunk.

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
    search = _Search(sample, chunk_starts)
    first = train_table(sample, chunk_starts) if sample.size <= SMALL else SymbolTable(())
    symbols, lengths = first.decode_symbols[: len(first)], first.decode_lengths[: len(first)].astype(np.int64)
    best, fewest = (symbols, lengths), 2 * sample.size + 1
    for number, joining in enumerate((*ROUNDS, 0)):
        total, _, uses = search.measure(symbols, lengths, number % search.parts if joining else -1)
        used = uses > 0
        total += int(lengths[used].sum())
        if total < fewest:
            best, fewest = (symbols[used], lengths[used]), total
        if joining:
            strings, string_lengths = search.best_strings(joining + MAX_SYMBOLS - symbols.size)
            symbols, lengths = np.append(symbols, strings), np.append(lengths, string_lengths)
            for limit in (MAX_SYMBOLS + (symbols.size - MAX_SYMBOLS) // 4, MAX_SYMBOLS):
                if symbols.size > limit:
                    _, worth, _ = search.measure(symbols, lengths)
                    kept = np.sort(np.lexsort((symbols, -lengths, -worth))[:limit])
                    symbols, lengths = symbols[kept], lengths[kept]
    joined = best[0].astype("<u8").tobytes()
    return SymbolTable.from_symbols(joined[8 * i : 8 * i + length] for i, length in enumerate(best[1].tolist()))
