"""Automata of rows that read codes: what is looked up for a code and a state, by the automaton of bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..jit import njit
from ..unaligned import (
    address,
    load8,
    load16,
)

# A row's first code decides of most rows if it does for all codes but one in so many.
_MOST = 4
# Or if no row is undecided behind so many bytes.
_FIRST_BYTES = 12
#: What is known of a row that its first code does not decide.
UNSURE = 3
#: Where an entry has the bits of rows that are left undecided.
UNDECIDED_SHIFT = 16


class RowSymbols(NamedTuple):
    """What the codes of a table stand for, as `row_answerer` takes them.

    Attributes
    ----------
    words : ndarray of uint64, (codes, 1 or 2)
        Symbols.
    lengths : ndarray of uint8, (codes,)
        Bytes of each.
    literals : int
        The code of byte 0, as a byte that stands for itself; those of the others are behind it.
    """

    words: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]
    literals: int = 0


#: Of codecs whose tiles are decoded.
BYTES = RowSymbols(np.arange(256, dtype=np.uint64)[:, None], np.ones(256, np.uint8))


class LiftedRows(NamedTuple):
    """An automaton of rows that reads codes.

    Attributes
    ----------
    following : ndarray of uint16, (codes + states, states)
        Code, state -> the next state. The codes behind those of the table lead to a state each.
    verdicts : ndarray of uint32, (codes, states)
        Bit i: whether a row counts that ends `i` bytes before the symbol does; 16 bits above, whether it is undecided.
    restarts : ndarray of uint16, (codes, bytes of a symbol)
        Code, its last bytes that begin a row, less 1 -> the state behind them.
    steps : ndarray of uint32, (codes, bytes of a symbol)
        Code, its last bytes that begin a row -> where the entries of the code are in `following` that leads to the
        state behind them, in bytes.
    known : ndarray of uint8, (states,)
        The verdict in a state that nothing leads out of, or `UNSURE`.
    early : bool
        Whether most rows are decided by their first code.
    """

    following: npt.NDArray[np.uint16]
    verdicts: npt.NDArray[np.uint32]
    restarts: npt.NDArray[np.uint16]
    steps: npt.NDArray[np.uint32]
    known: npt.NDArray[np.uint8]
    early: bool


def lift(machine: RowAutomaton, symbols: RowSymbols) -> LiftedRows:
    """The automaton that reads codes. Those without a symbol leave the state, and stand for no bytes."""
    states, lengths = machine.states, symbols.lengths
    shape = lengths.size, 8 * symbols.words.shape[1]
    following = np.empty((lengths.size + states, states), np.uint16)
    following[lengths.size :] = np.arange(states)[:, None]
    verdicts = np.empty((lengths.size, states), np.uint32)
    restarts = np.zeros(shape, np.uint16)
    settled = (machine.following == np.arange(states)[:, None]).all(axis=1)
    known = np.where(settled, machine.verdicts, np.uint8(UNSURE))
    _lift(*addresses(machine), address(symbols.words), lengths, following, verdicts, restarts)
    filled = np.flatnonzero(lengths)
    decided = np.count_nonzero(known[restarts[filled, lengths[filled] - 1]] != UNSURE)
    early = _MOST * decided >= (_MOST - 1) * filled.size or _settles(machine, settled)
    steps = np.full(shape, lengths.size, np.uint32)
    steps[:, 1:] += restarts[:, :-1]
    steps *= np.uint32(2 * states)
    return LiftedRows(following, verdicts, restarts, steps, known, bool(early))


def _settles(machine: RowAutomaton, settled: npt.NDArray[np.bool_]) -> bool:
    """Whether the first `_FIRST_BYTES` of every row decide of it."""
    reached = np.zeros(1, np.int64)
    for _ in range(_FIRST_BYTES):
        reached = np.unique(machine.following[reached])
        reached = reached[~settled[reached]]
    return reached.size == 0


def addresses(machine: RowAutomaton) -> tuple[int, int]:
    return address(machine.following), address(machine.verdicts)


@njit()
def _lift(
    of_bytes: int,
    verdicts_of_bytes: int,
    symbols: int,
    lengths: Any,
    following: Any,
    verdicts: Any,
    restarts: Any,
) -> None:
    """Fill the tables of `LiftedRows`."""
    symbol, most = np.empty(16, np.int64), restarts.shape[1]
    for code in range(lengths.size):
        length = np.int64(lengths[code])
        for place in range(length):
            byte = np.int64(load8(symbols + most * code + place))
            symbol[place] = byte
            for have in range(length - 1 - place, length):
                restarts[code, have] = load16(of_bytes + 2 * (np.int64(restarts[code, have]) << 8 | byte))
        for state in range(following.shape[1]):
            at, bits = np.int64(state), np.int64(0)
            for place in range(length):
                at = np.int64(load16(of_bytes + 2 * (at << 8 | symbol[place])))
                says = np.int64(load8(verdicts_of_bytes + at))
                bits |= (says & 1 | says >> 1 << UNDECIDED_SHIFT) << (length - 1 - place)
            following[code, state], verdicts[code, state] = at, bits
