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
    merged: list[tuple[int, int]] = []
    for low, high in sorted(span for ranges in sets for span in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    gaps, begin = [], 0
    for low, high in ranges:
        if begin < low:
            gaps.append((begin, low - 1))
        begin = high + 1
    if begin <= LAST:
        gaps.append((begin, LAST))
    return tuple(gaps)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Characters that are in both sets."""
    return complement(union(complement(left), complement(right)))


def single(point: int) -> Ranges:
    """One character."""
    return ((point, point),)


def of_text(text: str) -> Ranges:
    """The characters of a text."""
    return union((ord(character), ord(character)) for character in text)
