"""Automata of rows, lifted from bytes to the codes of a symbol table (`text.rows`)."""

from __future__ import annotations

import numpy as np

from ...automata import RowAutomaton
from ..text.rows import LENGTH_SHIFT, STATE_SHIFT, Lifted, of_bytes, verdicts, with_bytes
from .symbols import ESCAPE, MAX_SYMBOL_LENGTH, SymbolTable


def lift(machine: RowAutomaton, table: SymbolTable) -> Lifted:
    """The automaton that reads a table's codes. Codes without a symbol leave the state, and stand for no bytes."""
    states = machine.states
    following = machine.following.astype(np.int64)
    says = verdicts(machine)
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
    entries[:states] = state << STATE_SHIFT | found | lengths << LENGTH_SHIFT
    entries[states:] = of_bytes(machine)
    both = np.zeros((512, MAX_SYMBOL_LENGTH), np.uint16)
    both[:256] = restarts
    return Lifted(entries.astype(np.uint32), both, *with_bytes(symbols, lengths), ESCAPE)
