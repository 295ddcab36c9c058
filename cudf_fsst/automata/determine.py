"""A nondeterministic automaton of characters -> a deterministic one of bytes of UTF-8.

Characters that no set of the pattern tells apart are one *class*. Subsets of nodes are made over these classes, for
what matches for sure and for what may match. A condition that looks ahead sees the class that is read next, or the
row's end. ``$`` before a last newline looks further: behind it a thread is in another *layer*, where only a newline may
follow, and then in one where nothing may.

Then a character's class becomes its bytes. Bytes that are no UTF-8, as far as they are told apart, leave a row
undecided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import nfa as conditions
from .machine import NO, UNDECIDED, YES, RowAutomaton, TooLarge, smallest
from .meanings import ASCII_SETS, NEWLINE, Meaning, Set
from .nfa import Nfa
from .ranges import LAST

#: States of characters, classes, and steps of nodes: what a hostile pattern may cost, some ten milliseconds.
_MAX_STATES, _MAX_CLASSES, _MAX_STEPS = 512, 160, 60_000
#: Layers, see above.
_LAYERS = 3
_ROW_END = -1

#: What has to be there for a match: it may lie anywhere, begin the row, or be all of it.
SEARCH, MATCH, FULL = range(3)


class _Alphabet:
    """Classes of characters.

    Attributes
    ----------
    starts, of_start : list of int
        Where ranges of one class begin, and which.
    newline, word, ascii_word : list
        Of each class: whether it is the newline; whether its characters are words (`NO`, `YES`, `UNDECIDED`).
    """

    def __init__(self, nfa: Nfa, meaning: Meaning) -> None:
        known = {edge[0]: i for i, edge in enumerate(edge for edge in nfa.reads if edge is not None)}
        self.sets: list[Set] = list(known)
        needed = list(self.sets)
        conditions_used = nfa.conditions
        if conditions_used & {
            conditions.WORD_EDGE,
            conditions.NO_WORD_EDGE,
            conditions.ASCII_EDGE,
            conditions.NO_ASCII_EDGE,
        }:
            needed += [meaning.words, ASCII_SETS[0]]
        if conditions_used & {conditions.LINE_START, conditions.LINE_END, conditions.END}:
            needed.append(Set(NEWLINE, NEWLINE))
        sides = list(dict.fromkeys(side for characters in needed for side in (characters.sure, characters.may)))
        edges: dict[int, int] = {0: 0, 0x80: 0}
        for bit, side in enumerate(sides):
            for low, high in side:
                edges[low] = edges.get(low, 0) ^ 1 << bit
                edges[high + 1] = edges.get(high + 1, 0) ^ 1 << bit
        edges.pop(LAST + 1, None)
        if len(edges) > 4 * _MAX_CLASSES:
            raise TooLarge(f"{len(edges)} ranges of characters")
        self.starts = sorted(edges)
        signature, numbers = 0, dict[int, int]()
        self.of_start: list[int] = []
        for start in self.starts:
            signature ^= edges[start]
            self.of_start.append(numbers.setdefault(signature, len(numbers)))
        if len(numbers) > _MAX_CLASSES:
            raise TooLarge(f"{len(numbers)} classes of characters")
        self.signatures = list(numbers)
        self.place = {side: bit for bit, side in enumerate(sides)}
        every = range(len(self.signatures))
        self.newline = [self._has(i, NEWLINE) for i in every]
        self.word = [self.contains(i, meaning.words) for i in every]
        self.ascii_word = [self.contains(i, ASCII_SETS[0]) for i in every]

    def _has(self, number: int, side: Any) -> bool:
        bit = self.place.get(side)
        return bit is not None and bool(self.signatures[number] >> bit & 1)

    def contains(self, number: int, characters: Set) -> int:
        """Whether characters of a class are in a set: `YES`, `NO`, or `UNDECIDED` where they only may be."""
        return YES if self._has(number, characters.sure) else UNDECIDED if self._has(number, characters.may) else NO

    def class_of(self, point: int) -> int:
        return self.of_start[bisect_right(self.starts, point) - 1]

    def is_one_class(self, low: int, high: int) -> bool:
        """Whether all characters from `low` to `high` are of one class."""
        first, last = bisect_right(self.starts, low) - 1, bisect_right(self.starts, high) - 1
        return len(set(self.of_start[first : last + 1])) == 1


#: What stands before a place: whether it is the row's start, whether that is a newline, whether it is of a word, twice.
_Before = tuple[bool, bool, int, int]
_AT_START: _Before = (True, False, NO, NO)
_NOWHERE: _Before = (False, False, NO, NO)
#: What stands for all states behind a match.
_ACCEPTED = (None, -1, -1)


class _Subsets:
    """Sets of nodes, as bits: those that are reached for sure, and those that may be."""

    def __init__(self, nfa: Nfa, mode: int, meaning: Meaning) -> None:
        self.nfa, self.mode, self.meaning = nfa, mode, meaning
        self.alphabet = _Alphabet(nfa, meaning)
        self.conditions = nfa.conditions
        self.count = len(nfa.empty)
        self.steps = 0
        self.stop = 1 << nfa.stop
        self.by_class = [[0, 0] for _ in self.alphabet.signatures]
        for node, edge in enumerate(nfa.reads):
            if edge is not None:
                for number, masks in enumerate(self.by_class):
                    verdict = self.alphabet.contains(number, edge[0])
                    masks[0] |= (verdict == YES) << node
                    masks[1] |= (verdict != NO) << node
        self.layer = (1 << self.count) - 1
        self.reached: dict[Any, dict[int, int]] = {}
        self.moved: dict[tuple[int, int], int] = {}

    def spend(self) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise TooLarge(f"more than {_MAX_STEPS} steps")

    def before(self, number: int) -> _Before:
        """What conditions can tell of a class that was read."""
        used, alphabet = self.conditions, self.alphabet
        words = used & {conditions.WORD_EDGE, conditions.NO_WORD_EDGE}
        ascii_words = used & {conditions.ASCII_EDGE, conditions.NO_ASCII_EDGE}
        return (
            False,
            conditions.LINE_START in used and alphabet.newline[number],
            alphabet.word[number] if words else NO,
            alphabet.ascii_word[number] if ascii_words else NO,
        )

    def holds(self, condition: int, before: _Before | None, number: int) -> int:
        """Whether a condition holds between what stands before and a class, or the row's end."""
        before = before or _NOWHERE
        ends = number == _ROW_END
        newline = not ends and self.alphabet.newline[number]
        if condition == conditions.START:
            return int(before[0])
        if condition == conditions.LINE_START:
            return int(before[0] or before[1])
        if condition in (conditions.END, conditions.LAST_END):
            return int(ends)
        if condition == conditions.LINE_END:
            return int(ends or newline)
        if before[0] and ends:  # of no characters: some find no edge there, and others that there is none
            return NO if condition in (conditions.WORD_EDGE, conditions.ASCII_EDGE) else UNDECIDED
        is_ascii = condition in (conditions.ASCII_EDGE, conditions.NO_ASCII_EDGE)
        words = self.alphabet.ascii_word if is_ascii else self.alphabet.word
        behind, ahead = before[3] if is_ascii else before[2], NO if ends else words[number]
        if UNDECIDED in (behind, ahead):
            return UNDECIDED
        return int((behind != ahead) == (condition in (conditions.WORD_EDGE, conditions.ASCII_EDGE)))

    def lookahead(self, number: int) -> Any:
        """What conditions can tell of the class that is read next, or of the row's end; None without conditions."""
        if not self.conditions:
            return None
        if number == _ROW_END:
            return _ROW_END
        alphabet = self.alphabet
        return alphabet.newline[number], alphabet.word[number], alphabet.ascii_word[number]

    def closure(self, nodes: int, may: bool, before: _Before | None, number: int, lookahead: Any) -> int:
        """Nodes that are reached without reading; of those without conditions only such that read, and the last."""
        reached = self.reached.setdefault((may, before, lookahead), {})
        closed = 0
        if nodes < 0:
            return self.stop
        while nodes:
            low = nodes & -nodes
            nodes ^= low
            reachable = reached.get(low)
            if reachable is None:
                reachable = reached[low] = self.reach(low.bit_length() - 1, may, before, number)
            self.spend()
            closed |= reachable
        return closed

    def reach(self, node: int, may: bool, before: _Before | None, number: int) -> int:
        count, empty = self.count, self.nfa.empty
        seen, waiting, reached = {node}, [node], 0
        while waiting:
            current = waiting.pop()
            layer, nfa_node = divmod(current, count)
            self.spend()
            if self.nfa.reads[nfa_node] is not None or nfa_node == self.nfa.stop:
                reached |= 1 << current
            for target, condition in empty[nfa_node]:
                to = layer
                if condition is not None:
                    verdict = self.holds(condition, before, number)
                    if layer == 1:  # a newline follows, and then nothing
                        verdict = YES if condition == conditions.END else verdict
                    elif condition == conditions.END and verdict == NO and self.newline_is_last(layer, number):
                        verdict, to = self.meaning.last_newline, 1
                    if verdict == NO or (verdict == UNDECIDED and not may):
                        continue
                target += to * count
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return reached

    def newline_is_last(self, layer: int, number: int) -> bool:
        return layer == 0 and number != _ROW_END and self.alphabet.newline[number]

    def move(self, nodes: int, side: int, number: int) -> int:
        """Nodes behind a character of a class."""
        count = self.count
        readers = self.by_class[number][side]
        targets = 0
        for layer in range(_LAYERS):
            in_layer = nodes >> layer * count & self.layer
            if not in_layer:
                continue
            if layer == 1 and not self.alphabet.newline[number]:
                continue
            if layer == 2:
                continue
            to = 0 if layer == 0 else 2
            if self.mode != FULL and in_layer & self.stop:
                targets |= self.stop << to * count
            moving = in_layer & readers
            moved = self.moved.get((moving, to))
            if moved is None:
                moved, pending = 0, moving
                while pending:
                    low = pending & -pending
                    pending ^= low
                    edge = self.nfa.reads[low.bit_length() - 1]
                    assert edge is not None
                    moved |= 1 << edge[1] + to * count
                    self.spend()
                self.moved[moving, to] = moved
            targets |= moved
        return targets

    def stops(self, nodes: int) -> bool:
        """Whether a thread is behind the whole pattern, where the row ends."""
        return any(nodes >> layer * self.count & self.stop for layer in (0, 2))


def determined(nfa: Nfa, mode: int, meaning: Meaning, *, ascii_alone: bool = False) -> RowAutomaton:
    """The automaton of bytes.

    Parameters
    ----------
    nfa
    mode : int
        `SEARCH`, `MATCH` or `FULL`.
    meaning
    ascii_alone : bool
        Characters beyond ASCII leave a row undecided.

    Raises
    ------
    TooLarge
    """
    subsets = _Subsets(nfa, mode, meaning)
    classes = range(len(subsets.alphabet.signatures))
    lookaheads = [subsets.lookahead(number) for number in (_ROW_END, *classes)]
    kinds = dict(zip(lookaheads, (_ROW_END, *classes), strict=True))  # of each, one number
    closure_numbers = [list(kinds).index(lookahead) for lookahead in lookaheads]
    start = 1 << nfa.start
    numbers: dict[Any, int] = {}
    waiting: list[tuple[_Before | None, list[tuple[int, int]]]] = []
    verdicts: list[int] = []

    def number_of(before: _Before | None, sure: int, may: int) -> int:
        """The state of nodes that are reached, with a number of its own where it is new."""
        key = before, sure, may
        known = numbers.get(key)
        if known is not None:
            return known
        closures = []
        for lookahead, number in kinds.items():
            sure_closure = subsets.closure(sure, False, before, number, lookahead)
            may_closure = (
                sure_closure
                if may == sure and not subsets.conditions
                else subsets.closure(may, True, before, number, lookahead)
            )
            closures.append((sure_closure, may_closure))
        if mode != FULL and all(sure_closure & subsets.stop for sure_closure, _ in closures):
            key, before, closures = _ACCEPTED, None, []
            if key in numbers:
                return numbers.setdefault((before, sure, may), numbers[key])
        if len(waiting) >= _MAX_STATES:
            raise TooLarge(f"more than {_MAX_STATES} states")
        state = numbers[key] = len(waiting)
        waiting.append((before, closures))
        sure_closure, may_closure = closures[0] if closures else (subsets.stop, 0)
        verdicts.append(YES if subsets.stops(sure_closure) else UNDECIDED if subsets.stops(may_closure) else NO)
        return state

    number_of(_AT_START, start, start)
    rows: list[list[int]] = []
    for state, (_, closures) in enumerate(waiting):
        if not closures:
            rows.append([state] * len(classes))
            continue
        known_targets: dict[tuple[int, int, _Before | None], int] = {}
        row = []
        for number in classes:
            subsets.spend()
            sure_nodes, may_nodes = closures[closure_numbers[number + 1]]
            if mode != FULL and sure_nodes & subsets.stop:  # only where this class follows
                row.append(number_of(*_ACCEPTED))
                continue
            sure_nodes, may_nodes = subsets.move(sure_nodes, 0, number), subsets.move(may_nodes, 1, number)
            if mode == SEARCH:
                sure_nodes, may_nodes = sure_nodes | start, may_nodes | start
            target = sure_nodes, may_nodes, subsets.before(number) if sure_nodes or may_nodes else None
            if target not in known_targets:
                known_targets[target] = number_of(target[2], sure_nodes, may_nodes)
            row.append(known_targets[target])
        rows.append(row)
    return smallest(*_of_bytes(rows, verdicts, subsets.alphabet, meaning, ascii_alone))


def _of_bytes(
    rows: Sequence[Sequence[int]], verdicts: Sequence[int], alphabet: _Alphabet, meaning: Meaning, ascii_alone: bool
) -> tuple[Any, Any]:
    """Transitions by bytes; states of characters come first, then one that leaves a row undecided."""
    count = len(rows)
    undecided = count
    tables: list[Any] = [None] * (count + 1)
    known: dict[Any, int] = {}
    seen: dict[Any, int] = {}
    ascii_classes = [alphabet.class_of(byte) for byte in range(0x80)]
    leads: list[tuple[Any, list[int]]] = [] if ascii_alone else _leads(alphabet)
    beyond = sorted({number for node, _ in leads for number in _classes(node)})

    def continued(node: Any, row: Sequence[int], others: tuple[int, ...]) -> int:
        """The state that waits for the rest of a character."""
        if (node, others) in seen:
            return seen[node, others]
        depth, inner = node
        if isinstance(inner, int):
            key: Any = depth, row[inner]
        else:
            key = depth, tuple([continued(part, row, others) if depth > 1 else row[part] for part in inner])
        if key not in known:
            table = np.full(256, undecided, np.int64)
            if isinstance(inner, int):
                table[0x80:0xC0] = row[inner] if depth == 1 else continued((depth - 1, inner), row, others)
            else:
                table[0x80:0xC0] = key[1]
            known[key] = len(tables)
            tables.append(table)
        seen[node, others] = known[key]
        return known[key]

    for number, row in enumerate(rows):
        table = np.full(256, undecided, np.int64)
        if all(target == number for target in row) and verdicts[number] != UNDECIDED:
            table[:] = number  # whatever follows
        else:
            table[:0x80] = [row[class_number] for class_number in ascii_classes]
            others = tuple([row[class_number] for class_number in beyond])
            for node, lead_bytes in leads:
                table[lead_bytes] = continued(node, row, others)
            if not meaning.whole_characters:
                table[0] = undecided
        tables[number] = table
    tables[undecided] = np.full(256, undecided, np.int64)
    byte_verdicts = np.full(len(tables), UNDECIDED, np.uint8)
    byte_verdicts[:count] = verdicts
    return np.array(tables), byte_verdicts


class _Node(tuple[Any, Any]):
    """The rest of a character: how many bytes follow, and their class, or for each of 64 next bytes a node or class."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _classes(node: Any) -> set[int]:
    depth, inner = node
    if isinstance(inner, int):
        return {inner}
    return set(inner) if depth == 1 else {number for part in inner for number in _classes(part)}


def _leads(alphabet: _Alphabet) -> list[tuple[Any, list[int]]]:
    """What follows first bytes of characters beyond ASCII, each with those bytes."""
    nodes: dict[Any, _Node] = {}

    def node(low: int, depth: int) -> _Node:
        size = 1 << 6 * depth
        key: Any
        if alphabet.is_one_class(max(low, 0x80), min(low + size, LAST + 1) - 1):
            key = depth, alphabet.class_of(max(low, 0x80))
        elif depth == 1:
            key = depth, tuple([alphabet.class_of(low + i) for i in range(64)])
        else:
            each = size >> 6
            key = depth, tuple([node(min(low + i * each, LAST + 1 - each), depth - 1) for i in range(64)])
        return nodes.setdefault(key, _Node(key))

    leads: dict[_Node, list[int]] = {}
    for first, count, depth in ((0xC2, 30, 1), (0xE0, 16, 2), (0xF0, 5, 3)):
        for i in range(count):
            low = (first + i & (0x1F, 0x0F, 0x07)[depth - 1]) << 6 * depth
            leads.setdefault(node(low, depth), []).append(first + i)
    return list(leads.items())
