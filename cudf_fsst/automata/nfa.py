"""A pattern's tree (`re._parser`) -> a nondeterministic automaton of characters (Thompson, CACM 1968).

A node has one edge that reads a character, or edges that read none. Such an edge may have a condition: what stands
before and behind it.
"""

from __future__ import annotations

import re
from re import _constants as ops  # type: ignore[attr-defined]  # not in typeshed
from re import _parser as parser  # type: ignore[attr-defined]  # not in typeshed
from typing import Any

from . import meanings
from .machine import TooLarge
from .meanings import Meaning, Set, exactly
from .ranges import ASCII, EVERY, Ranges, intersection, single, union

#: Nodes that an automaton may have.
MAX_NODES = 1500

#: Conditions of edges: the row's start; that, or behind a newline; the row's end, and there also before a last newline;
#: the row's end; that, or before a newline; an end of a word, or none; the same for words of ASCII.
START, LINE_START, END, LAST_END, LINE_END, WORD_EDGE, NO_WORD_EDGE, ASCII_EDGE, NO_ASCII_EDGE = range(9)


class Unknown(Exception):
    """A pattern has something that is not known here, or not to mean the same everywhere."""


class Nfa:
    """An automaton of characters. `start` and `stop` are nodes.

    Attributes
    ----------
    empty : list of list of (int, int or None)
        Edges that read no character: node, condition.
    reads : list of (Set, int) or None
        The edge that reads one: characters, node.
    """

    def __init__(self) -> None:
        self.empty: list[list[tuple[int, int | None]]] = []
        self.reads: list[tuple[Set, int] | None] = []
        self.start = self.node()
        self.stop = self.start

    def node(self) -> int:
        """A new node."""
        if len(self.empty) >= MAX_NODES:
            raise TooLarge(f"more than {MAX_NODES} nodes")
        self.empty.append([])
        self.reads.append(None)
        return len(self.empty) - 1

    def skip(self, source: int, target: int, condition: int | None = None) -> None:
        """Add an edge that reads no character."""
        self.empty[source].append((target, condition))

    def read(self, source: int, characters: Set) -> int:
        """A node behind `source` and one of some characters."""
        target = self.node()
        self.reads[source] = characters, target
        hop = self.node()
        self.skip(target, hop)
        return hop

    def condition(self, source: int, condition: int) -> int:
        """A node behind `source` and a condition."""
        target = self.node()
        self.skip(source, target, condition)
        return target

    @property
    def conditions(self) -> frozenset[int]:
        """The conditions that edges have."""
        return frozenset(condition for edges in self.empty for _, condition in edges if condition is not None)


def sets_of(nfa: Nfa) -> tuple[bytes, ...]:
    """Sets of ASCII characters, if an automaton reads one of each, one behind the other, and does nothing else."""
    sets, node = list[bytes](), nfa.start
    while node != nfa.stop:
        edge, edges = nfa.reads[node], nfa.empty[node]
        if edge is None:
            if len(edges) != 1 or edges[0][1] is not None:
                return ()
            node = edges[0][0]
            continue
        sure, may = (intersection(ranges, ASCII) for ranges in (edge[0].sure, edge[0].may))
        if edges or sure != may:
            return ()
        sets.append(bytes(point for low, high in sure for point in range(low, high + 1)))
        node = edge[1]
    return tuple(sets)


def beginning_of(nfa: Nfa) -> str:
    """The characters that an automaton reads first, whatever it reads behind them."""
    text, node = "", nfa.start
    while node != nfa.stop:
        edge, edges = nfa.reads[node], nfa.empty[node]
        if edge is None:
            if len(edges) != 1 or edges[0][1] is not None:
                break
            node = edges[0][0]
            continue
        if edges or edge[0].sure != edge[0].may or len(edge[0].sure) != 1 or edge[0].sure[0][0] != edge[0].sure[0][1]:
            break
        code = edge[0].sure[0][0]
        if 0xD800 <= code <= 0xDFFF:  # of a surrogate, which no UTF-8 has
            break
        text += chr(code)
        node = edge[1]
    return text


_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII | re.UNICODE | re.VERBOSE
#: Flags that a portable parser takes, too.
_PORTABLE_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE
_EDGES = {
    ops.AT_BEGINNING: (START, LINE_START),
    ops.AT_BEGINNING_STRING: (START, START),
    ops.AT_END: (END, LINE_END),
    ops.AT_END_STRING: (LAST_END, LAST_END),
}


def of_pattern(pattern: str, flags: int, meaning: Meaning) -> Nfa:
    """The automaton of a pattern.

    Raises
    ------
    Unknown, TooLarge
    re.error
        It is no pattern.
    """
    if flags & ~(_PORTABLE_FLAGS if meaning.portable else _FLAGS):
        raise Unknown(f"flags {flags}")
    try:
        tree = parser.parse(pattern, flags)
    except (RecursionError, OverflowError) as error:
        raise TooLarge(str(error)) from error
    if tree.state.flags & ~_FLAGS:
        raise Unknown(f"flags {tree.state.flags}")
    nfa = Nfa()
    nfa.stop = _Builder(nfa, meaning).sequence(tree, nfa.start, tree.state.flags, 0)
    return nfa


class _Builder:
    def __init__(self, nfa: Nfa, meaning: Meaning) -> None:
        self.nfa, self.meaning = nfa, meaning

    def sequence(self, items: Any, source: int, flags: int, depth: int) -> int:
        if depth > 50:
            raise TooLarge("groups in groups")
        for op, argument in items:
            source = self.item(op, argument, source, flags, depth)
        return source

    def item(self, op: Any, argument: Any, source: int, flags: int, depth: int) -> int:
        nfa = self.nfa
        if op is ops.LITERAL:
            return nfa.read(source, self.literals(single(argument), flags))
        if op is ops.NOT_LITERAL:
            return nfa.read(source, self.literals(single(argument), flags).negated())
        if op is ops.ANY:
            return nfa.read(source, exactly(EVERY) if flags & re.DOTALL else meanings.DOT)
        if op is ops.IN:
            return nfa.read(source, self.set(argument, flags))
        if op is ops.AT:
            return nfa.condition(source, self.edge(argument, flags))
        if op is ops.BRANCH:
            end = nfa.node()
            for branch in argument[1]:
                begin = nfa.node()
                nfa.skip(source, begin)
                nfa.skip(self.sequence(branch, begin, flags, depth + 1), end)
            return end
        if op is ops.SUBPATTERN:
            _, added, removed, inner = argument
            return self.sequence(inner, source, (flags | added) & ~removed, depth + 1)
        if op is ops.MAX_REPEAT or op is ops.MIN_REPEAT:
            least, most, inner = argument
            return self.repeat(least, most, inner, source, flags, depth)
        raise Unknown(str(op))

    def repeat(self, least: int, most: int, inner: Any, source: int, flags: int, depth: int) -> int:
        nfa = self.nfa
        if most is not ops.MAXREPEAT and least > most:
            raise Unknown("a repetition")
        if most is ops.MAXREPEAT or most > 1:
            low, _ = inner.getwidth()
            if low == 0:  # libraries end such loops in ways of their own
                raise Unknown("a repetition of nothing")
        for _ in range(least):
            source = self.sequence(inner, source, flags, depth + 1)
        if most is ops.MAXREPEAT:
            loop, out = nfa.node(), nfa.node()
            nfa.skip(source, loop)
            nfa.skip(loop, out)
            nfa.skip(self.sequence(inner, self.behind(loop), flags, depth + 1), loop)
            return out
        out = nfa.node()
        for _ in range(most - least):
            nfa.skip(source, out)
            source = self.sequence(inner, self.behind(source), flags, depth + 1)
        nfa.skip(source, out)
        return out

    def behind(self, source: int) -> int:
        node = self.nfa.node()
        self.nfa.skip(source, node)
        return node

    def edge(self, argument: Any, flags: int) -> int:
        if argument is ops.AT_BOUNDARY:
            return ASCII_EDGE if flags & re.ASCII else WORD_EDGE
        if argument is ops.AT_NON_BOUNDARY:
            return NO_ASCII_EDGE if flags & re.ASCII else NO_WORD_EDGE
        if argument not in _EDGES:
            raise Unknown(str(argument))
        return _EDGES[argument][bool(flags & re.MULTILINE)]

    def literals(self, characters: Ranges, flags: int) -> Set:
        return meanings.folded(characters) if flags & re.IGNORECASE else exactly(characters)

    def set(self, items: Any, flags: int) -> Set:
        negated, ranges, characters = False, [], exactly(())
        for op, argument in items:
            if op is ops.NEGATE:
                negated = True
            elif op is ops.LITERAL:
                ranges.append((argument, argument))
            elif op is ops.RANGE:
                if flags & re.IGNORECASE and not meanings.is_plain_range(*argument):
                    raise Unknown(f"a range from {argument[0]:#x} to {argument[1]:#x} without case")
                ranges.append(argument)
            elif op is ops.CATEGORY:
                characters = characters.joined(self.category(argument, flags))
            else:
                raise Unknown(str(op))
        characters = characters.joined(self.literals(union(ranges), flags))
        return characters.negated() if negated else characters

    def category(self, argument: Any, flags: int) -> Set:
        name = str(argument)
        meaning = self.meaning
        sets = meanings.ASCII_SETS if flags & re.ASCII else (meaning.words, meaning.digits, meaning.spaces)
        kinds = {"WORD": sets[0], "DIGIT": sets[1], "SPACE": sets[2]}
        characters = kinds.get(name.rsplit("_", 1)[-1])
        if characters is None:
            raise Unknown(name)
        if flags & re.IGNORECASE and name.endswith("WORD"):  # RE2 has letters in it that differ by case alone
            characters = characters.joined(meanings.LETTERS_BEYOND)
        if "NOT" not in name:
            return characters
        others = characters.negated()
        if not meaning.negated_newline and not name.endswith("SPACE"):
            others = others.without_surety(meanings.NEWLINE)
        return others
