"""All symbols of a table that begin at a place: what ``level="max"`` parses with, on every device.

An automaton (Aho, Corasick, CACM 1975) of the reversed symbols reads a tile from its end to its start, one table lookup
a byte. A state stands for the longest beginning of the text there that is the end of a symbol, so it knows every symbol
that begins there and, as it starts anew at the tile's end, none that would cross that end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...lazy import weakly_cached
from ..jit import njit
from .symbols import MAX_SYMBOL_LENGTH, MAX_SYMBOLS, SymbolTable

#: States an automaton has at most: one for each byte of each symbol, and the start.
MAX_STATES = MAX_SYMBOLS * MAX_SYMBOL_LENGTH + 1
#: Bits of a parse's key below its cost: of these, 8 are the code and 3 are 8 - length, so that of equal costs the
#: smallest key is the longest symbol.
COST_SHIFT = 11
#: Entry of a length that no symbol has: so much that the escape always costs less (costs of places that are at most 8
#: bytes apart differ by 16 at most).
NO_MATCH = 0xFFFF


class ParseAutomaton(NamedTuple):
    """The automaton of a symbol table.

    Attributes
    ----------
    classes : ndarray of uint8, (256,)
        Byte -> its class: bytes that no symbol has are one class, every other byte is a class of its own.
    following : ndarray of uint16, (states, number of classes)
        State, class of the byte before it -> state. The start is state 0.
    entries : ndarray of uint16, (states, 8)
        State, length - 1 -> ``(8 - length) << 8 | code`` of the symbol of that length that begins there, or `NO_MATCH`.
    """

    classes: npt.NDArray[np.uint8]
    following: npt.NDArray[np.uint16]
    entries: npt.NDArray[np.uint16]


@njit()
def classify(symbols: Any, lengths: Any, classes: Any) -> int:
    """Fill ``classes[256]``, see `ParseAutomaton`; returns how many there are."""
    classes[:] = 0
    for code in range(symbols.size):
        for place in range(lengths[code]):
            classes[np.int64((symbols[code] >> np.uint64(8 * place)) & np.uint64(0xFF))] = 1
    count: Any = np.int64(0)
    for byte in range(256):
        count += np.int64(classes[byte])
    number: Any = np.int64(0)
    for byte in range(256):
        has = np.int64(classes[byte])
        classes[byte] = number if has else count
        number += has
    return int(min(count + 1, 256))


@njit()
def build(symbols: Any, lengths: Any, classes: Any, following: Any, codes: Any) -> int:
    """Fill ``following[states, number of classes]`` and ``codes[states, 8]``, -1 for none.

    Of equal symbols the first counts. Returns the number of states.
    """
    letters = following.shape[1]
    following[0, :] = 0
    codes[0, :] = -1
    states = 1
    for code in range(symbols.size):
        node = np.int64(0)
        for place in range(lengths[code] - 1, -1, -1):
            letter = np.int64(classes[np.int64((symbols[code] >> np.uint64(8 * place)) & np.uint64(0xFF))])
            if following[node, letter] == 0:
                following[states, :] = 0
                codes[states, :] = -1
                following[node, letter] = states
                states += 1
            node = np.int64(following[node, letter])
        if codes[node, lengths[code] - 1] < 0:
            codes[node, lengths[code] - 1] = code
    # From short to long: what a state lacks it takes from the state of its longest beginning.
    shorter = np.zeros(states, np.int64)
    queue = np.empty(states, np.int64)
    first, last = 0, 0
    for first_letter in range(letters):
        if following[0, first_letter] != 0:
            queue[last] = following[0, first_letter]
            last += 1
    while first < last:
        node = queue[first]
        first += 1
        fallback = shorter[node]
        for i in range(MAX_SYMBOL_LENGTH):
            if codes[node, i] < 0:
                codes[node, i] = codes[fallback, i]
        for behind in range(letters):
            child = np.int64(following[node, behind])
            if child != 0:
                shorter[child] = following[fallback, behind]
                queue[last] = child
                last += 1
            else:
                following[node, behind] = following[fallback, behind]
    return states


@weakly_cached(16)
def automaton(table: SymbolTable) -> ParseAutomaton:
    """The automaton of a table, with read-only arrays."""
    count = len(table)
    symbols, lengths = table.decode_symbols[:count], table.decode_lengths[:count].astype(np.int64)
    classes, most = np.empty(256, np.uint8), int(lengths.sum()) + 1
    following = np.empty((most, classify(symbols, lengths, classes)), np.uint16)
    codes = np.empty((most, MAX_SYMBOL_LENGTH), np.int16)
    states = build(symbols, lengths, classes, following, codes)
    codes = codes[:states]
    shorter = np.arange(MAX_SYMBOL_LENGTH - 1, -1, -1, dtype=np.uint16) << 8
    entries = np.where(codes >= 0, shorter | codes.view(np.uint16), np.uint16(NO_MATCH))
    following = following[:states]
    for array in (classes, following, entries):
        array.flags.writeable = False
    return ParseAutomaton(classes, following, entries)
