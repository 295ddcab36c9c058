"""Parts of an engine's filter that codes may answer, made of what the engines say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import pyarrow as pa

from ..arrow_types import is_string_type
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


class RangePredicate(NamedTuple):
    """A value lies between two others, in the unit of the stored integers; None: no such end.

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
        loose, open_ends = (self.loose if most else -self.loose), int(self.outside)
        low = None if self.low is None else math.ceil(self.low - loose)
        high = None if self.high is None else math.floor(self.high + loose)
        # An end that is an integer itself and is not meant.
        if low is not None and open_ends and self.low is not None and low == self.low - loose:
            low += 1
        if high is not None and open_ends and self.high is not None and high == self.high + loose:
            high -= 1
        return low, high


class TextPredicate(NamedTuple):
    """One of some questions about a string is answered by yes, or, with a `length`, by a number between these two."""

    column: int
    questions: tuple[search.Question, ...]
    length: tuple[int, int] | None = None


class IsNull(NamedTuple):
    """A value is null."""

    column: int


class Junction(NamedTuple):
    """All of several predicates (AND), or, `either`, one of them at least (OR); None: one that is not known."""

    predicates: tuple[Predicate | None, ...]
    either: bool = False


class Not(NamedTuple):
    """A predicate is false; null stays null."""

    predicate: Predicate


Predicate = RangePredicate | TextPredicate | IsNull | Junction | Not


class PredicateReader:
    """Reads predicates out of an engine's filter of columns, which it knows by their names."""

    def __init__(self, names: Sequence[str], nodes: Sequence[Node]) -> None:
        self._places: Mapping[str, int] = {name: place for place, name in enumerate(names)}
        self._nodes = nodes

    def _is_text(self, place: int | None) -> bool:
        return place is not None and is_string_type(self._nodes[place].type)

    def _is_true(self, place: int | None) -> Predicate | None:
        """A column of booleans is true; None for other columns, or without one."""
        if place is None or not pa.types.is_boolean(self._nodes[place].type):
            return None
        return RangePredicate(place, Fraction(1), Fraction(1))

    @staticmethod
    def _comparing(place: int, sign: str, number: Fraction, loose: Fraction = Fraction(0)) -> Predicate:
        """A stored integer compares so with a number."""
        if sign in ("<", "<="):
            return RangePredicate(place, None, number, loose, sign == "<")
        if sign in (">", ">="):
            return RangePredicate(place, number, None, loose, sign == ">")
        equal = RangePredicate(place, number, number, loose)
        return equal if sign == "==" else Not(equal)

    @staticmethod
    def _one_of(place: int, numbers: Sequence[tuple[Fraction, Fraction]]) -> Predicate:
        """A stored integer is among numbers, each with what the engine may round by."""
        if len(numbers) > _MOST_NUMBERS:
            low, high = min(number for number, _ in numbers), max(number for number, _ in numbers)
            return Junction((RangePredicate(place, low, high, max(loose for _, loose in numbers)), None))
        return Junction(tuple(RangePredicate(place, number, number, loose) for number, loose in numbers), True)

    @staticmethod
    def _equal_text(place: int, sign: str, value: str) -> Predicate | None:
        """A string equals another one, or does not; None: nothing is known of ``<`` and the like."""
        if sign not in ("==", "!="):
            return None
        predicate = TextPredicate(place, (search.Like((value.encode(),)),))
        return predicate if sign == "==" else Not(predicate)

    @staticmethod
    def _one_of_texts(place: int, values: Sequence[str]) -> Predicate | None:
        """A string is among others; None of too many."""
        return (
            TextPredicate(place, (search.IsIn(tuple(map(str.encode, values))),))
            if 0 < len(values) <= MOST_VALUES
            else None
        )

    @classmethod
    def _with_length(
        cls, place: int, question: search.Length | search.ByteCount, sign: str, number: int
    ) -> Predicate | None:
        """A string's length compares so with a number; None where no string has such a length."""
        if not abs(number) < 2**31 - 1:
            return None
        comparison = cls._comparing(0, sign, Fraction(number))
        inner = comparison.predicate if isinstance(comparison, Not) else comparison
        assert isinstance(inner, RangePredicate)
        low, high = inner.integers(most=True)
        predicate = TextPredicate(place, (question,), (-1 if low is None else low, 2**31 - 1 if high is None else high))
        return predicate if inner is comparison else Not(predicate)


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
