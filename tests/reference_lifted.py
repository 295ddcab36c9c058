"""Automata that read the codes of a symbol table, made of those that read bytes (`text.search`), as a GPU makes them.

A state and a code lead to the state behind the bytes of the code's symbol. There are twice as many states as before: in
the upper half, a byte follows that stands for itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.fsst.symbols import ESCAPE, MAX_SYMBOL_LENGTH, SymbolTable
from cudf_fsst.codecs.text.search import Automaton

# An entry of an automaton of codes, from its lowest byte: the next state, the bytes of the symbol, and for each plane a
# bit for every byte of the symbol, set where a match ends behind it.
LENGTH_SHIFT = 8
ENDS_SHIFT = 16


def lift(machine: Automaton, table: SymbolTable) -> npt.NDArray[np.uint32]:
    """The automaton that reads a table's codes, (2 * states, 256).

    State ``states + s`` is state s where the next byte stands for itself: behind an escape, and in raw tiles. Codes
    without a symbol leave the state, and stand for no bytes.
    """
    states = machine.states
    symbols, lengths = table.decode_symbols, table.decode_lengths.astype(np.int64)
    entries = np.zeros((2 * states, 256), np.uint32)
    state = np.repeat(np.arange(states)[:, None], 256, axis=1)
    ends = np.zeros((states, 256), np.uint32)
    for place in range(MAX_SYMBOL_LENGTH):
        some = np.flatnonzero(lengths > place)
        if not some.size:
            break
        byte = (symbols[some] >> np.uint64(8 * place)).astype(np.int64) & 0xFF
        state[:, some] = machine.following[state[:, some], byte]
        ends[:, some] |= _ends(machine, state[:, some], byte) << np.uint32(place)
    state[:, ESCAPE] = states + np.arange(states)
    entries[:states] = state | lengths << LENGTH_SHIFT | ends.astype(np.int64) << ENDS_SHIFT
    every = np.arange(256)
    after = machine.following.astype(np.int64)
    ends = _ends(machine, after, every)
    entries[states:] = after | 1 << LENGTH_SHIFT | ends.astype(np.int64) << ENDS_SHIFT
    return entries


def _ends(machine: Automaton, state: Any, byte: Any) -> npt.NDArray[np.uint32]:
    """For each plane a byte, 1 where a match ends behind a byte that led to a state."""
    bits = (machine.accepts[state] | machine.classes[byte]).astype(np.uint32)
    return bits & np.uint32(1) | (bits & np.uint32(2)) << np.uint32(MAX_SYMBOL_LENGTH - 1)
