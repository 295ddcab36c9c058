"""Automata of rows (`automata.RowAutomaton`), lifted from bytes to codes of a byte.

An entry of 32 bits has, from its lowest bit: 12 of the next state, 8 that are set where a row counts that ends behind
the first, second ... byte of the code, 8 where such a row is left undecided, and 4 of how many bytes the code stands
for. There are two sets of states: in the second one the code is a byte that stands for itself, behind an escape or in a
raw tile.

A row may begin inside a code's bytes. `restarts` has the state in which it is behind them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import UNDECIDED, YES, RowAutomaton

#: Shifts of an entry's parts.
YES_SHIFT, UNDECIDED_SHIFT, LENGTH_SHIFT = 12, 20, 28
STATE_BITS = (1 << YES_SHIFT) - 1
#: Bytes that a code stands for at most.
MAX_BYTES = 8


class Lifted(NamedTuple):
    """An automaton that reads codes.

    Attributes
    ----------
    entries : ndarray of uint32, (2 * states, 256)
    restarts : ndarray of uint16, (256, 8)
        Code, byte of its symbol behind which the row begins, less 1 -> state behind the symbol.
    symbols : ndarray of uint64, (256,)
        Code -> its bytes as a little-endian number.
    """

    entries: npt.NDArray[np.uint32]
    restarts: npt.NDArray[np.uint16]
    symbols: npt.NDArray[np.uint64]


def verdicts(machine: RowAutomaton) -> npt.NDArray[np.int64]:
    """What an entry says of rows that end in each state, behind the code's first byte."""
    says = (machine.verdicts == YES).astype(np.int64) << YES_SHIFT
    return says | (machine.verdicts == UNDECIDED).astype(np.int64) << UNDECIDED_SHIFT


def of_bytes(machine: RowAutomaton) -> npt.NDArray[np.int64]:
    """Entries of the second set of states."""
    following = machine.following.astype(np.int64)
    return following | verdicts(machine)[following] | 1 << LENGTH_SHIFT


def lift_bytes(machine: RowAutomaton) -> Lifted:
    """The automaton that reads raw tiles alone."""
    entries = np.zeros((2 * machine.states, 256), np.uint32)
    entries[machine.states :] = of_bytes(machine)
    return Lifted(entries, np.zeros((256, MAX_BYTES), np.uint16), np.zeros(256, np.uint64))
