"""Automata of rows (`automata.RowAutomaton`), lifted from bytes to codes of a byte.

An entry of 32 bits has, from its lowest bit: 8 that are set where a row counts that ends behind the first, second ...
byte of the code, 12 of the next state, 8 where such a row is left undecided, and 4 of how many bytes the code stands
for. There are two sets of states: in the second one the code is a byte that stands for itself, behind an escape or in a
raw tile. An escape leaves the state, and stands for no bytes.

A row may begin inside a code's bytes. `restarts` has the state in which it is behind them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import UNDECIDED, YES, RowAutomaton

#: Shifts of an entry's parts.
STATE_SHIFT, UNDECIDED_SHIFT, LENGTH_SHIFT = 8, 20, 28
#: Bits of the next state: times 256 where they are.
STATE_PLACE = 0xFFF00
#: Bytes that a code stands for at most.
MAX_BYTES = 8


class Lifted(NamedTuple):
    """An automaton that reads codes.

    Attributes
    ----------
    entries : ndarray of uint32, (2 * states, 256)
    restarts : ndarray of uint16, (512, 8)
        Code, byte of its symbol behind which the row begins, less 1 -> state behind the symbol. In the second half for
        bytes that stand for themselves.
    symbols : ndarray of uint64, (512,)
        Code -> its bytes as a little-endian number; in the second half for bytes that stand for themselves.
    lengths : ndarray of uint8, (512,)
        Code -> how many they are; in the second half for bytes that stand for themselves.
    escape : int
        The code behind which a byte stands for itself; -1: there is none.
    """

    entries: npt.NDArray[np.uint32]
    restarts: npt.NDArray[np.uint16]
    symbols: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]
    escape: int


def verdicts(machine: RowAutomaton) -> npt.NDArray[np.int64]:
    """Verdicts on rows that end in each state, behind the code's first byte."""
    says = (machine.verdicts == YES).astype(np.int64)
    return says | (machine.verdicts == UNDECIDED).astype(np.int64) << UNDECIDED_SHIFT


def of_bytes(machine: RowAutomaton) -> npt.NDArray[np.int64]:
    """Entries of the second set of states."""
    following = machine.following.astype(np.int64)
    return following << STATE_SHIFT | verdicts(machine)[following] | 1 << LENGTH_SHIFT


def lift_bytes(machine: RowAutomaton) -> Lifted:
    """The automaton that reads raw tiles alone."""
    entries = np.zeros((2 * machine.states, 256), np.uint32)
    entries[machine.states :] = of_bytes(machine)
    none = np.zeros((512, MAX_BYTES), np.uint16)
    return Lifted(entries, none, *with_bytes(np.zeros(256, np.uint64), np.zeros(256, np.uint8)), -1)


def with_bytes(
    symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """`Lifted.symbols` and ``lengths``, of those of codes."""
    every = np.arange(256, dtype=np.uint64)
    return np.concatenate([symbols, every]), np.concatenate([lengths.astype(np.uint8), np.ones(256, np.uint8)])
