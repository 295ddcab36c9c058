"""Automata of the order of bytes, which is that of characters, and of beginnings and ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from .machine import NO, UNDECIDED, YES, RowAutomaton, TooLarge, smallest

#: Bytes of a value that are compared. Rows that begin with them are left undecided.
MAX_VALUE = 100
#: Bytes of beginnings or ends together.
_MAX_TREE = 400


@lru_cache(64)
def between(
    left: bytes | None, right: bytes | None, *, with_left: bool = True, with_right: bool = True
) -> RowAutomaton:
    """Rows that lie between two others, which are among them or not; None: there is no such bound.

    States tell of how much a row is the beginning of each bound.
    """
    lows = _beginnings(left, smaller=NO, larger=YES, equal=with_left)
    highs = _beginnings(right, smaller=YES, larger=NO, equal=with_right)
    numbers = {(0, 0): 0}
    rows, verdicts = [], []
    for low, high in _growing(numbers):
        low_verdict, high_verdict = lows[1][low], highs[1][high]
        verdicts.append(
            NO if NO in (low_verdict, high_verdict) else UNDECIDED if UNDECIDED in (low_verdict, high_verdict) else YES
        )
        pairs = zip(lows[0][low], highs[0][high], strict=True)
        rows.append([numbers.setdefault(pair, len(numbers)) for pair in pairs])
    return smallest(np.array(rows), np.array(verdicts, np.uint8))


def _growing(numbers: dict[tuple[int, int], int]) -> Iterable[tuple[int, int]]:
    """Keys in the order in which they are added."""
    done = 0
    while done < len(numbers):
        yield from (added := list(numbers)[done:])
        done += len(added)


def _beginnings(value: bytes | None, *, smaller: int, larger: int, equal: bool) -> tuple[list[list[int]], list[int]]:
    """An automaton that compares a row with one value: for each state the next one by byte (256), and its verdict."""
    if value is None:
        return [[0] * 256], [YES]
    known = value[:MAX_VALUE]
    count = len(known)
    less, more = count + 1, count + 2
    rows = [[less] * byte + [i + 1] + [more] * (255 - byte) for i, byte in enumerate(known)]
    rows += [[more] * 256, [less] * 256, [more] * 256]
    verdicts = [smaller] * count + [YES if equal else NO, smaller, larger]
    if count < len(value):
        verdicts[count] = smaller
        rows[count] = [count + 3] * 256
        rows.append([count + 3] * 256)
        verdicts.append(UNDECIDED)
    return rows, verdicts


@lru_cache(32)
def starts_with(beginnings: tuple[bytes, ...]) -> RowAutomaton:
    """Rows that begin with one of some texts.

    Raises
    ------
    TooLarge
    """
    children, ends = _tree(beginnings)
    none = len(children)
    rows = [[child.get(byte, none) for byte in range(256)] for child in children] + [[none] * 256]
    for state in ends:
        rows[state] = [state] * 256
    return smallest(np.array(rows), np.array([state in ends for state in range(none + 1)], np.uint8))


@lru_cache(32)
def ends_with(endings: tuple[bytes, ...]) -> RowAutomaton:
    """Rows that end with one of some texts (Aho, Corasick, CACM 1975).

    Raises
    ------
    TooLarge
    """
    children, ends = _tree(endings)
    rows = [[0] * 256 for _ in children]
    back = [0] * len(children)
    waiting = deque([0])
    while waiting:
        state = waiting.popleft()
        rows[state] = list(rows[back[state]]) if state else [0] * 256
        if back[state] in ends:
            ends.add(state)
        for byte, child in children[state].items():
            back[child] = rows[state][byte] if state else 0
            rows[state][byte] = child
            waiting.append(child)
    return smallest(np.array(rows), np.array([state in ends for state in range(len(rows))], np.uint8))


def _tree(texts: Iterable[bytes]) -> tuple[list[dict[int, int]], set[int]]:
    """Nodes of texts by their first bytes, children of each, and those where a text ends."""
    children: list[dict[int, int]] = [{}]
    ends = set[int]()
    for text in texts:
        state = 0
        for byte in text:
            if byte not in children[state]:
                if len(children) > _MAX_TREE:
                    raise TooLarge(f"more than {_MAX_TREE} bytes")
                children[state][byte] = len(children)
                children.append({})
            state = children[state][byte]
        ends.add(state)
    return children, ends
