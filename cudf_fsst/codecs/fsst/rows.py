"""Automata of rows (`automata.RowAutomaton`), lifted from bytes to the codes of a table.

An entry of 32 bits has, from its lowest bit: 12 of the next state, 8 that are set where a row counts that ends behind
the first, second ... byte of the symbol, 8 where such a row is left undecided, and 4 of the symbol's length. There are
two sets of states: in the second one the code is a byte that stands for itself, behind an escape or in a raw tile.

A row may begin inside a symbol. `restarts` has the state in which it is behind the symbol.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import UNDECIDED, YES, RowAutomaton
from .symbols import ESCAPE, MAX_SYMBOL_LENGTH, SymbolTable

#: Shifts of an entry's parts.
YES_SHIFT, UNDECIDED_SHIFT, LENGTH_SHIFT = 12, 20, 28
STATE_BITS = (1 << YES_SHIFT) - 1


class Lifted(NamedTuple):
    """An automaton that reads codes.

    Attributes
    ----------
    entries : ndarray of uint32, (2 * states, 256)
    restarts : ndarray of uint16, (256, 8)
        Code, byte of its symbol behind which the row begins, less 1 -> state behind the symbol.
    """

    entries: npt.NDArray[np.uint32]
    restarts: npt.NDArray[np.uint16]


def lift(machine: RowAutomaton, table: SymbolTable) -> Lifted:
    """The automaton that reads a table's codes. Codes without a symbol leave the state, and stand for no bytes."""
    states = machine.states
    following = machine.following.astype(np.int64)
    says = (machine.verdicts == YES).astype(np.int64) << YES_SHIFT
    says |= (machine.verdicts == UNDECIDED).astype(np.int64) << UNDECIDED_SHIFT
    symbols, lengths = table.decode_symbols, table.decode_lengths.astype(np.int64)
    some_bytes = [(symbols >> np.uint64(8 * place)).astype(np.int64) & 0xFF for place in range(MAX_SYMBOL_LENGTH)]
    entries = np.empty((2 * states, 256), np.int64)
    state = np.repeat(np.arange(states)[:, None], 256, axis=1)
    found = np.zeros((states, 256), np.int64)
    restarts = np.zeros((256, MAX_SYMBOL_LENGTH), np.int64)
    for place in range(MAX_SYMBOL_LENGTH):
        some = np.flatnonzero(lengths > place)
        if not some.size:
            break
        byte = some_bytes[place][some]
        state[:, some] = following[state[:, some], byte]
        found[:, some] |= says[state[:, some]] << place
        restarts[some, :place] = following[restarts[some, :place], byte[:, None]]
    state[:, ESCAPE] = states + np.arange(states)
    entries[:states] = state | found | lengths << LENGTH_SHIFT
    entries[states:] = following | says[following] | 1 << LENGTH_SHIFT
    return Lifted(entries.astype(np.uint32), restarts.astype(np.uint16))
