"""What can be asked of rows of strings, and the automata that find the answers in their codes.

Patterns are searched in the characters of a segment as if rows had no ends. A search fills *planes*: a bit for each
character, set where a match ends. Then each row looks at its own bits, so that a match across two rows is none.

An automaton reads bytes (Knuth, Morris, Pratt, SIAM J. Comput. 1977; several patterns: Aho, Corasick, CACM 1975). A
codec may lift it to one that reads codes: for a state and a code, it has run over the bytes that the code stands for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .values import words_of

#: States that an automaton of bytes may have.
MAX_STATES = 64
#: Planes that one search can fill.
MAX_PLANES = 2
#: Bytes that are searched of a longer pattern. Rows found by them are candidates only.
MAX_PATTERN = 40
#: Parts of a `Like` that differ and are searched. Rows found by fewer than all are candidates only.
MAX_PARTS = 16
#: Bytes of the ends of values of several lengths that are searched. TPC-H l_comment SF 10 on an H200, ten values: 60
#: bytes took 0.87 ms, for few warps fit beside such an automaton; 30 leave some more rows to look at.
CANDIDATE_STATES = 30
#: Bytes of each value's end that are searched at least, or the whole value.
LEAST_END = 3
#: Bytes of the patterns of a question whose plan is kept.
_KEPT_NBYTES = 4096
#: Values whose ends are searched together.
MAX_VALUES = 32


@dataclass(frozen=True)
class Like:
    """Whether a row is these parts in this order, with anything between them: what ``LIKE '%a%b'`` is with "%" split.

    The first part begins the row and the last one ends it, so empty ones there leave it open: ``(b"", b"a", b"")`` is
    *contains*, ``(b"a", b"")`` *starts with*, ``(b"", b"a")`` *ends with*, and ``(b"a",)`` *equals*.

    Attributes
    ----------
    parts : tuple of bytes
    more : int
        Bytes that a row has at least beside those of the parts, of which there are two or more then.
    """

    parts: tuple[bytes, ...]
    more: int = 0


@dataclass(frozen=True)
class IsIn:
    """Whether a row is one of these values."""

    values: tuple[bytes, ...]


@dataclass(frozen=True)
class Sets:
    """Whether a row has one byte of each of these sets, one behind the other; of one set at least."""

    sets: tuple[bytes, ...]


@dataclass(frozen=True)
class Count:
    """How often a pattern of at least a byte occurs, without overlaps, from the left."""

    pattern: bytes


@dataclass(frozen=True)
class Find:
    """At which character (of UTF-8) a pattern of at least a byte first begins, or -1."""

    pattern: bytes


@dataclass(frozen=True)
class Length:
    """Characters of each row, of UTF-8: its bytes that continue none."""


@dataclass(frozen=True)
class ByteCount:
    """Bytes of each row."""


Question = Like | IsIn | Sets | Count | Find | Length | ByteCount


def answer_dtype(question: Question) -> type[np.generic]:
    """What the answers of rows are: booleans, a byte each, or numbers."""
    return np.bool_ if isinstance(question, Like | IsIn | Sets) else np.int32


def values_of(question: Question) -> tuple[bytes, ...] | None:
    """The values, one of which a row has to be; None where that is not the question."""
    if isinstance(question, IsIn):
        return question.values
    return question.parts if isinstance(question, Like) and len(question.parts) == 1 else None


def answer(question: Question, row: bytes) -> int:
    """The answer for one row whose bytes are there: what all ways of searching have to find."""
    if isinstance(question, IsIn):
        return row in question.values
    if isinstance(question, Sets):
        ends = range(len(question.sets), len(row) + 1)
        return any(all(map(bytes.__contains__, question.sets, row[end - len(question.sets) : end])) for end in ends)
    if isinstance(question, Count):
        return row.count(question.pattern)
    if isinstance(question, Find):
        found = row.find(question.pattern)
        return found if found < 0 else _characters(row[:found])
    if isinstance(question, Length):
        return _characters(row)
    return len(row) if isinstance(question, ByteCount) else _is_like(question, row)


def _characters(row: bytes) -> int:
    return len(row) - sum(0x80 <= byte < 0xC0 for byte in row)


def _is_like(question: Like, row: bytes) -> bool:
    first, *inner = question.parts
    if not inner:
        return row == first
    last = inner.pop()
    if len(row) < sum(map(len, question.parts)) + question.more:
        return False
    at, end = len(first), len(row) - len(last)
    for part in inner:
        found = row.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return row.startswith(first) and row.endswith(last)


class Automaton(NamedTuple):
    """An automaton that reads bytes. It begins in state 0.

    Attributes
    ----------
    following : ndarray of uint8, (states, 256)
        State, byte -> the next state.
    accepts : ndarray of uint8, (states,)
        Bit p: a match of plane p ends where this state is entered.
    classes : ndarray of uint8, (256,)
        Bit p: a match of plane p ends behind this byte, whatever the state.
    longest : int
        Bytes of the longest pattern, 0 without any.
    """

    following: npt.NDArray[np.uint8]
    accepts: npt.NDArray[np.uint8]
    classes: npt.NDArray[np.uint8]
    longest: int

    @property
    def states(self) -> int:
        return int(self.accepts.size)


@dataclass(frozen=True)
class RowTest:
    """What a row must be for a `Like`, given planes.

    Attributes
    ----------
    planes, lengths : tuple of int
        Of the parts that are searched, in order: the plane of each, and its bytes.
    prefix, suffix : bool
        Whether the first of them begins the row, and the last one ends it. With `equal` only the last one counts.
    least : int
        Bytes that a row has at least.
    equal : int
        Bytes that a row has, or -1.
    """

    planes: tuple[int, ...]
    lengths: tuple[int, ...]
    prefix: bool
    suffix: bool
    least: int
    equal: int


@dataclass(frozen=True)
class Plan:
    """How a question is answered.

    Attributes
    ----------
    question : Question
    searches : tuple of Automaton
        Each fills the next plane, or the next two.
    counts : tuple of int
        Planes of each search.
    exact : bool
        False: the rows found are candidates, among which are all that count.
    test : RowTest or None
        Of a `Like`.
    lengths : tuple of int
        Of an `IsIn`: bytes of rows that count, ascending. A plane has where their last bytes are; there is none where
        rows with these lengths are all that can be told.
    beginning : int
        Of an `IsIn`: the plane has where the first so many bytes of rows end instead, or all bytes of shorter ones.
    """

    question: Question
    searches: tuple[Automaton, ...]
    counts: tuple[int, ...]
    exact: bool = True
    test: RowTest | None = None
    lengths: tuple[int, ...] = ()
    beginning: int = 0

    @property
    def planes(self) -> int:
        """Planes that a row's answer needs."""
        return sum(self.counts)


def plan(question: Question) -> Plan | None:
    """How to answer a question; None where decoding has to.

    `Length` and `Find` have a plane of the bytes that continue a character, the last one. Where a segment has none of
    them, it can be left out.
    """
    return _kept_plan(question) if is_small(question) else _plan(question)


def is_small(question: Question) -> bool:
    """Whether it, and what follows from it, may be kept for other calls."""
    return _nbytes(question) <= _KEPT_NBYTES


def _nbytes(question: Question) -> int:
    """Bytes of what is searched."""
    if isinstance(question, Like | IsIn):
        return sum(map(len, question.parts if isinstance(question, Like) else question.values))
    if isinstance(question, Sets):
        return sum(map(len, question.sets))
    return len(question.pattern) if isinstance(question, Count | Find) else 0


def _plan(question: Question) -> Plan | None:
    if isinstance(question, Like):
        return _plan_like(question)
    if isinstance(question, IsIn):
        return _plan_values(question)
    if isinstance(question, Sets):
        machine = automaton_of_sets(question.sets)
        return None if machine is None else Plan(question, (machine,), (1,))
    if isinstance(question, ByteCount):
        return Plan(question, (), ())
    if isinstance(question, Length):
        return Plan(question, (automaton([], continuing=0),), (1,))
    if not 0 < len(question.pattern) < MAX_STATES:
        return None
    if isinstance(question, Find):
        return Plan(question, (automaton([(question.pattern, 0)], continuing=1),), (2,))
    return Plan(question, (automaton([(question.pattern, 0)]),), (1,))


#: Plans of short questions are kept.
_kept_plan = lru_cache(64)(_plan)


def _plan_like(question: Like) -> Plan:
    parts = question.parts
    wanted = [part for part in parts if part]
    prefix, suffix = bool(parts[0]), bool(parts[-1])
    shown: list[bytes] = []
    planes: dict[bytes, int] = {}
    for i, part in enumerate(wanted):
        is_end = suffix and i == len(wanted) - 1
        edge = part[-MAX_PATTERN:] if is_end else part[:MAX_PATTERN]
        if is_end or edge in planes or len(planes) < MAX_PARTS - 1:
            planes.setdefault(edge, len(planes))
            shown.append(edge)
    distinct = list(planes)
    searches, counts, at = [], [], 0
    while at < len(distinct):
        batch = distinct[at : at + MAX_PLANES]
        if sum(map(len, batch)) >= MAX_STATES:
            batch = batch[:1]
        searches.append(automaton([(part, plane) for plane, part in enumerate(batch)]))
        counts.append(len(batch))
        at += len(batch)
    least = sum(map(len, wanted)) + question.more
    test = RowTest(
        tuple(planes[part] for part in shown),
        tuple(map(len, shown)),
        prefix,
        suffix,
        least,
        least if len(parts) == 1 else -1,
    )
    return Plan(question, tuple(searches), tuple(counts), shown == wanted, test)


def _plan_values(question: IsIn) -> Plan:
    values = list(dict.fromkeys(question.values))
    lengths = tuple(sorted({len(value) for value in values}))
    filled = [value for value in values if value]
    by_length = Plan(question, (), (), False, lengths=lengths)
    if len(filled) > MAX_VALUES:
        return by_length
    if len({len(value) for value in filled}) <= 1 and sum(map(len, filled)) < MAX_STATES:
        # Every byte is worth a state: then rows need no second look.
        searches = (automaton([(value, 0) for value in filled]),)
        return Plan(question, searches, (1,), lengths=lengths)
    # A match of another length may end where a row of a length that counts does.
    ends, begins = (_kept_bytes(filled, backwards) for backwards in (True, False))
    # Rows begin alike more often than they end alike. Only what compares rows with values knows of beginnings.
    from_start = 2 * len(set(ends)) <= len(set(begins)) and words_of(values) is not None
    searched = begins if from_start else ends
    if not searched:
        return by_length  # too many rows would be candidates
    machine = automaton([(value, 0) for value in searched])
    if machine.states > CANDIDATE_STATES + 1:
        machine = _least_states(machine)
    if machine.states > MAX_STATES:
        return by_length
    return Plan(question, (machine,), (1,), False, lengths=lengths, beginning=machine.longest if from_start else 0)


def _kept_bytes(values: Sequence[bytes], backwards: bool) -> list[bytes]:
    """What is searched of values that are not empty: their ends, or their beginnings; nothing where that is too little.

    What all have in common there tells none of them from the others, and has one state a byte for all.
    """
    if backwards:
        return [chosen[::-1] for chosen in _kept_bytes([value[::-1] for value in values], False)]
    longest, least = max(map(len, values)), MAX_STATES - 1 - CANDIDATE_STATES
    alike = 0
    if len(values) > 1:
        alike = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*values, strict=False)))
        alike = min(alike, least, (255 - MAX_STATES) // (len(values) - 1))  # `automaton` has bytes
    most = min(MAX_STATES - 1, max(CANDIDATE_STATES, LEAST_END * len(values)) + alike) + alike * (len(values) - 1)
    lengths = range(min(longest, most), alike, -1)
    kept = next((n for n in lengths if sum(min(len(value), n) for value in values) <= most), 0)
    return [value[:kept] for value in values] if kept - alike >= min(longest - alike, LEAST_END) else []


def _least_states(machine: Automaton) -> Automaton:
    """An automaton that finds the same, with as few states as it takes."""
    classes, count = machine.accepts, 0
    while True:  # states of a class accept the same, and lead to states of the same classes
        numbers: dict[bytes, int] = {}
        rows = np.column_stack([classes, classes[machine.following]])
        classes = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.uint8)
        if len(numbers) == count:
            first = np.unique(classes, return_index=True)[1]
            return machine._replace(following=classes[machine.following[first]], accepts=machine.accepts[first])
        count = len(numbers)


def automaton(patterns: Sequence[tuple[bytes, int]], continuing: int = -1) -> Automaton:
    """An automaton of patterns, none of them empty.

    Parameters
    ----------
    patterns
        Each with its plane.
    continuing
        Plane of the bytes that continue a character of UTF-8, or -1.
    """
    children: list[dict[int, int]] = [{}]
    accepts = bytearray(1)
    for pattern, plane in patterns:
        state = 0
        for byte in pattern:
            if byte not in children[state]:
                children[state][byte] = len(children)
                children.append({})
                accepts.append(0)
            state = children[state][byte]
        accepts[state] |= 1 << plane
    rows = [bytes(256)] * len(children)
    failure = [0] * len(children)
    waiting = deque([0])
    while waiting:  # states by the length of what they stand for, so that where one fails to is known
        state = waiting.popleft()
        back = failure[state]
        accepts[state] |= accepts[back]
        row = bytearray(rows[back])
        for byte, child in children[state].items():
            failure[child] = row[byte] if state else 0
            row[byte] = child
            waiting.append(child)
        rows[state] = bytes(row)
    following = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 256)
    classes = np.zeros(256, np.uint8)
    if continuing >= 0:
        classes[0x80:0xC0] = 1 << continuing
    longest = max((len(pattern) for pattern, _ in patterns), default=0)
    return Automaton(following, np.frombuffer(bytes(accepts), np.uint8), classes, longest)


def without_states(machine: Automaton) -> Automaton:
    """An automaton as it is, or with one state if its patterns have no more than a byte each."""
    if machine.longest > 1:
        return machine
    classes = machine.accepts[machine.following[0]] | machine.classes
    return machine._replace(following=machine.following[:1] * 0, accepts=machine.accepts[:1], classes=classes)


def automaton_of_sets(sets: Sequence[bytes]) -> Automaton | None:
    """An automaton that finds one byte of each of some sets, one behind the other; None: it would be too large.

    A state is a number: bit i says that the last bytes are of the sets up to number i.
    """
    if not 0 < len(sets) <= MAX_PATTERN:
        return None
    fits = [sum((byte in allowed) << i for i, allowed in enumerate(sets)) for byte in range(256)]
    states, rows = [0], list[list[int]]()
    for state in states:  # which grows
        rows.append([(state << 1 | 1) & mask for mask in fits])
        states += [state for state in dict.fromkeys(rows[-1]) if state not in states]
        if len(states) >= MAX_STATES:
            return None
    number = {state: i for i, state in enumerate(states)}
    following = np.array([[number[state] for state in row] for row in rows], np.uint8)
    accepts = np.array([state >> (len(sets) - 1) & 1 for state in states], np.uint8)
    return Automaton(following, accepts, np.zeros(256, np.uint8), len(sets))
