"""Parts of an engine's filter that codes may answer, made of what the engines say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import pyarrow as pa

from ..codecs.node import Node, is_signed
from ..codecs.text import search
from ..query.asked import MOST_VALUES

#: A comparison whose sides are exchanged.
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Nanoseconds of a unit of time.
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: Integers below it are the same in 64 bits and as floats.
EXACT = 1 << 53
#: By how much of itself a decimal may be rounded that is compared as a float: more than is rounded off.
ROUNDED = Fraction(1, 1 << 40)
#: Numbers that are asked one by one; of more, whether a value lies between the least and the largest.
_MOST_NUMBERS = 16


class Range(NamedTuple):
    """Values between two others, in the unit of the stored integers; None: no such end.

    Attributes
    ----------
    column : int
    low, high : Fraction or None
    loose : Fraction
        The engine may round what it compares by up to so much.
    outside : bool
        The ends themselves are not among them.
    """

    column: int
    low: Fraction | None
    high: Fraction | None
    loose: Fraction = Fraction(0)
    outside: bool = False

    def integers(self, *, most: bool) -> tuple[int | None, int | None]:
        """The least and the largest integer that may be meant, or, without `most`, that are meant for sure."""
        loose, own = (self.loose if most else -self.loose), int(self.outside)
        low = None if self.low is None else math.ceil(self.low - loose)
        high = None if self.high is None else math.floor(self.high + loose)
        # An end that is an integer itself and is not meant.
        if low is not None and own and self.low is not None and low == self.low - loose:
            low += 1
        if high is not None and own and self.high is not None and high == self.high + loose:
            high -= 1
        return low, high


class Text(NamedTuple):
    """Strings of which one of some questions says yes; `length`: its answers are numbers between these two."""

    column: int
    questions: tuple[search.Question, ...]
    length: tuple[int, int] | None = None


class IsNull(NamedTuple):
    """Values that are null."""

    column: int


class Both(NamedTuple):
    """All of several parts (AND), or, `either`, one of them at least (OR)."""

    parts: tuple[Part | None, ...]
    either: bool = False


class Not(NamedTuple):
    """What is false, true; null stays null."""

    part: Part


Part = Range | Text | IsNull | Both | Not


class PartsReader:
    """What makes parts of an engine's filter of columns, by their names."""

    def __init__(self, names: Sequence[str], nodes: Sequence[Node]) -> None:
        self._places: Mapping[str, int] = {name: place for place, name in enumerate(names)}
        self._nodes = nodes

    def _is_text(self, place: int | None) -> bool:
        return place is not None and self._is_string(self._nodes[place].type)

    def _is_true(self, place: int | None) -> Part | None:
        """That a column of booleans is true; None for other columns, and none."""
        if place is None or not pa.types.is_boolean(self._nodes[place].type):
            return None
        return Range(place, Fraction(1), Fraction(1))

    @staticmethod
    def _is_string(kind: pa.DataType) -> bool:
        """Whether a type is one of strings, and not of views."""
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    @staticmethod
    def _comparing(place: int, sign: str, number: Fraction, loose: Fraction = Fraction(0)) -> Part:
        """Stored integers that compare so with a number."""
        if sign in ("<", "<="):
            return Range(place, None, number, loose, sign == "<")
        if sign in (">", ">="):
            return Range(place, number, None, loose, sign == ">")
        equal = Range(place, number, number, loose)
        return equal if sign == "==" else Not(equal)

    @staticmethod
    def _one_of(place: int, numbers: Sequence[tuple[Fraction, Fraction]]) -> Part:
        """Stored integers that are among numbers, each with what the engine may round by."""
        if len(numbers) > _MOST_NUMBERS:
            low, high = min(number for number, _ in numbers), max(number for number, _ in numbers)
            return Both((Range(place, low, high, max(loose for _, loose in numbers)), None))
        return Both(tuple(Range(place, number, number, loose) for number, loose in numbers), True)

    @staticmethod
    def _equal_text(place: int, sign: str, value: str) -> Part | None:
        """Strings that equal another one, or do not; None: nothing is known of ``<`` and the like."""
        if sign not in ("==", "!="):
            return None
        part = Text(place, (search.Like((value.encode(),)),))
        return part if sign == "==" else Not(part)

    @staticmethod
    def _one_of_texts(place: int, values: Sequence[str]) -> Part | None:
        """Strings that are among others; None of too many."""
        return Text(place, (search.IsIn(tuple(map(str.encode, values))),)) if 0 < len(values) <= MOST_VALUES else None

    @classmethod
    def _with_length(
        cls, place: int, question: search.Length | search.ByteCount, sign: str, number: int
    ) -> Part | None:
        """Strings whose length compares so with a number; None where that is no length of a string."""
        if not abs(number) < 2**31 - 1:
            return None
        asked = cls._comparing(0, sign, Fraction(number))
        inner = asked.part if isinstance(asked, Not) else asked
        assert isinstance(inner, Range)
        low, high = inner.integers(most=True)
        part = Text(place, (question,), (-1 if low is None else low, 2**31 - 1 if high is None else high))
        return part if inner is asked else Not(part)


def limits_of(node: Node) -> tuple[int, int] | None:
    """The lowest and the highest integer that a column of integers, times or decimals may store; None of others."""
    kind, types = node.type, pa.types
    known = types.is_integer, types.is_boolean, types.is_date32, types.is_timestamp, types.is_duration, types.is_decimal
    if not any(is_kind(kind) for is_kind in known) or not node.rows or not 0 < len(node.values) <= 2:
        return None
    if types.is_boolean(kind):
        return 0, 1
    bits = 8 * sum(parts[0].itemsize for parts in node.values)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(kind) else (0, (1 << bits) - 1)
