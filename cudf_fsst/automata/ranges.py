"""Sets of characters: ascending, separate ranges of code points, both ends inside."""

from __future__ import annotations

from collections.abc import Iterable

#: The largest code point there is.
LAST = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]

EMPTY: Ranges = ()
EVERY: Ranges = ((0, LAST),)
ASCII: Ranges = ((0, 0x7F),)
BEYOND_ASCII: Ranges = ((0x80, LAST),)


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Characters that are in one of some sets, whose ranges may come in any order."""
    made: list[tuple[int, int]] = []
    for low, high in sorted(one for some in sets for one in some):
        if made and low <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(made[-1][1], high)
        else:
            made.append((low, high))
    return tuple(made)


def complement(some: Ranges) -> Ranges:
    """All other characters."""
    made, at = [], 0
    for low, high in some:
        if at < low:
            made.append((at, low - 1))
        at = high + 1
    if at <= LAST:
        made.append((at, LAST))
    return tuple(made)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """Characters that are in both sets."""
    return complement(union(complement(one), complement(other)))


def single(point: int) -> Ranges:
    """One character."""
    return ((point, point),)


def of(text: str) -> Ranges:
    """The characters of a text."""
    return union((ord(one), ord(one)) for one in text)
