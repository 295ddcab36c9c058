"""Automata that read the bytes of a row, and say of it yes, no, or that they do not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..lazy import lazy

#: What an automaton says of a row.
NO, YES, UNDECIDED = range(3)
#: States that an automaton may have.
MAX_STATES = 512
#: All bytes but those of ASCII characters, NUL left out.
NOT_PLAIN = bytes([0, *range(0x80, 0x100)])


class TooLarge(Exception):
    """An automaton would need more states or time than it may."""


@dataclass(frozen=True, eq=False)
class RowAutomaton:
    """A deterministic automaton that reads a row from its first byte, in state 0, to its last one.

    Attributes
    ----------
    following : ndarray of uint16, (states, 256)
        State, byte -> the next state.
    verdicts : ndarray of uint8, (states,)
        What a row is whose last byte leads there: `NO`, `YES` or `UNDECIDED`.
    sets : tuple of bytes
        Rows of ASCII without a NUL count where they have one byte of each of these sets, one behind the other. Empty:
        that is not known, or not all.
    text : bytes
        No row of UTF-8 counts without it. Empty: none is known.
    """

    following: npt.NDArray[np.uint16]
    verdicts: npt.NDArray[np.uint8]
    sets: tuple[bytes, ...] = ()
    text: bytes = b""

    @property
    def states(self) -> int:
        """How many states there are."""
        return int(self.verdicts.size)

    @lazy
    def decides(self) -> bool:
        """Whether no row is `UNDECIDED`."""
        return not (self.verdicts == UNDECIDED).any()

    @lazy
    def of_plain_rows(self) -> RowAutomaton:
        """The automaton for rows of ASCII without a NUL: it has no states for other rows, and decides more often."""
        following = self.following.copy()
        following[:, list(NOT_PLAIN)] = following[:, ord("a"), None]
        return smallest(following, self.verdicts)

    def verdict(self, row: bytes) -> int:
        """The verdict on a row, one byte after another: every other way of running the automaton has to agree."""
        state = 0
        for byte in row:
            state = int(self.following[state, byte])
        return int(self.verdicts[state])


def smallest(following: npt.NDArray[Any], verdicts: npt.NDArray[np.uint8]) -> RowAutomaton:
    """The automaton with the fewest states that says the same: Moore's refinement, states in order of first reach.

    Raises
    ------
    TooLarge
        It has more than `MAX_STATES`.
    """
    byte_classes = _numbered(following.T)
    firsts = np.zeros(int(byte_classes.max()) + 1, np.int64)
    firsts[byte_classes[::-1]] = np.arange(255, -1, -1)
    columns = following[:, firsts].astype(np.int64)
    labels = _numbered(verdicts[:, None])
    count = int(labels.max()) + 1
    while True:
        labels = _numbered(np.concatenate([labels[:, None], labels[columns]], axis=1))
        refined = int(labels.max()) + 1
        if refined == count:
            break
        count = refined
    if count > MAX_STATES:
        raise TooLarge(f"{count} states, {MAX_STATES} are the most")
    examples = np.zeros(count, np.int64)
    examples[labels] = np.arange(labels.size)  # a state of each class
    table = labels[columns[examples]]
    order, seen = [int(labels[0])], {int(labels[0])}
    for state in order:
        for target in table[state].tolist():
            if target not in seen:
                seen.add(target)
                order.append(target)
    place = np.zeros(count, np.int64)
    place[order] = np.arange(len(order))
    transitions = np.ascontiguousarray(place[table[order]][:, byte_classes], np.uint16)
    decided = verdicts[examples[order]].astype(np.uint8)
    for array in (transitions, decided):
        array.flags.writeable = False
    return RowAutomaton(transitions, decided)


def _numbered(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A number for each row, the same for equal rows."""
    data, size = rows.astype(np.int32).tobytes(), 4 * rows.shape[1]
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(data[i : i + size], len(numbers)) for i in range(0, len(data), size)])
