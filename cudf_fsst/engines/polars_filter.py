"""What Polars filters by, as predicates that the codes can answer.

Polars writes an expression down as JSON. That is no stable format: what is not as it is known here is left to Polars.
Constants are evaluated by Polars itself.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ..codecs.node import Node
from ..codecs.text.search import ByteCount, Length, Like
from ..query.asked import literal
from .predicates import (
    EXACT,
    MIRRORED,
    NANOSECONDS,
    ROUNDED,
    IsNull,
    Junction,
    Not,
    Predicate,
    PredicateReader,
    TextPredicate,
    limits_of,
)

_SIGNS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_CLOSED = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_NONE = Fraction(0)


def predicates(expression: Any, names: Sequence[str], nodes: Sequence[Node]) -> list[tuple[str, Predicate | None]]:
    """The predicates of a conjunction, each with its text; None: nothing that is known.

    Parameters
    ----------
    expression : polars.Expr
    names, nodes
        Of the columns.
    """
    tree = _tree_of(expression)
    if tree is None:
        return [(str(expression), None)]
    reader = _FilterReader(names, nodes)
    return [(_text(conjunct), reader.predicate(conjunct)) for conjunct in _conjunction(tree)]


def _tree_of(expression: Any) -> Any:
    """An expression as JSON; None of one with Python functions, which Polars cannot write down."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the format is not stable
            return json.loads(expression.meta.serialize(format="json"))
    except Exception:  # whatever Polars raises
        return None


def _conjunction(tree: Any) -> Iterator[Any]:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _conjunction(left)
            yield from _conjunction(right)
        case _:
            yield tree


def _expression(tree: Any) -> Any:
    """The expression that JSON says."""
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _text(tree: Any) -> str:
    try:
        return str(_expression(tree))
    except Exception:  # Polars cannot read infinity and NaN, which it writes as null
        return json.dumps(tree)


#: Functions of the kind Boolean whose answer for a row depends on that row alone; `IsIn` if its values are a constant.
_OF_A_ROW = {
    "Not", "IsNull", "IsNotNull", "IsFinite", "IsInfinite", "IsNan", "IsNotNan", "IsBetween", "IsIn",
    "AllHorizontal", "AnyHorizontal",
}  # fmt: skip


def is_row_by_row(expression: Any) -> bool:
    """Whether the answer of an expression for a row is known to depend on that row alone.

    Else no row may be left out before Polars has asked it: ``col("n") > col("n").mean()``.
    """
    return _is_of_a_row(_tree_of(expression))


def _is_of_a_row(tree: Any) -> bool:
    match tree:
        case {"Column": _} | {"Literal": _}:
            return True
        case {"BinaryExpr": {"left": left, "right": right}}:
            return _is_of_a_row(left) and _is_of_a_row(right)
        case {"Cast": {"expr": inner}} | {"Alias": [inner, _]}:
            return _is_of_a_row(inner)
        case {"Ternary": {"predicate": condition, "truthy": then, "falsy": otherwise}}:
            return all(map(_is_of_a_row, (condition, then, otherwise)))
        case {"Function": {"input": list(inputs), "function": {"Boolean": str() | dict() as function}}}:
            name = function if isinstance(function, str) else next(iter(function), "")
            is_known = name in _OF_A_ROW and (name != "IsIn" or "Literal" in inputs[-1])
            return is_known and all(map(_is_of_a_row, inputs))
        case {"Function": {"input": list(inputs), "function": {"StringExpr": str() | dict() as function}}}:
            return "ConcatVertical" not in function and all(map(_is_of_a_row, inputs))
    return False


class _FilterReader(PredicateReader):
    """Reads predicates out of JSON."""

    def predicate(self, tree: Any) -> Predicate | None:
        """The predicate that a tree states; None: it is not known."""
        match tree:
            case {"BinaryExpr": {"left": left, "op": "And" | "Or" as op, "right": right}}:
                return Junction((self.predicate(left), self.predicate(right)), op == "Or")
            case {"BinaryExpr": {"left": left, "op": str(op), "right": right}} if op in _SIGNS:
                return self._compared(left, _SIGNS[op], right)
            case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
                predicate = self.predicate(inner)
                return None if predicate is None else Not(predicate)
            case {"Function": {"input": [inner], "function": {"Boolean": "IsNull" | "IsNotNull" as name}}}:
                place = self._place(inner)
                if place is None:
                    return None
                return IsNull(place) if name == "IsNull" else Not(IsNull(place))
            case {
                "Function": {"input": [inner, low, high], "function": {"Boolean": {"IsBetween": {"closed": closed}}}}
            }:
                signs = _CLOSED.get(closed)
                if signs is None:
                    return None
                return Junction((self._compared(inner, signs[0], low), self._compared(inner, signs[1], high)))
            case {"Function": {"input": [inner, values], "function": {"Boolean": {"IsIn": {"nulls_equal": False}}}}}:
                return self._is_in(inner, values)
            case {"Function": {"input": [inner, pattern], "function": {"StringExpr": function}}}:
                return self._string(inner, function, pattern)
            # What Polars makes of a comparison that a type's range decides.
            case {
                "Ternary": {
                    "predicate": {"Function": {"input": [inner], "function": {"Boolean": "IsNotNull"}}},
                    "truthy": {"Literal": {"Scalar": {"Boolean": bool(answer)}}},
                    "falsy": {"Literal": {"Scalar": {"Null": _}}},
                }
            }:
                place = self._place(inner)
                if place is None:
                    return None
                valid = Not(IsNull(place))
                return valid if answer else Junction((valid, IsNull(place)))
            case {"Column": _}:
                return self._is_true(self._place(tree))
        return None

    def _place(self, tree: Any) -> int | None:
        """The place of the column that a tree names; None of other trees."""
        match tree:
            case {"Column": str(name)}:
                return self._places.get(name)
        return None

    def _cast_place(self, tree: Any, dtype: Any) -> int | None:
        """The place of the column that a tree names, or casts as Polars does where constants are of another type."""
        match tree:
            case {"Cast": {"expr": {"Column": _} as inner}}:
                place = self._place(inner)
                known = place is not None and _keeps_order(self._nodes[place].type, _target(tree), dtype)
                return place if known else None
        return self._place(tree)

    def _compared(self, left: Any, sign: str, right: Any) -> Predicate | None:
        if _is_constant(left):
            left, sign, right = right, MIRRORED[sign], left
        value = _constant(right)
        if value is None or len(value) != 1 or value.null_count():
            return None
        match left:
            case {"Function": {"input": [inner], "function": {"StringExpr": "LenChars" | "LenBytes" as name}}}:
                place = self._place(inner)
                if place is None or not self._is_text(place) or not value.dtype.is_integer():
                    return None
                return self._with_length(place, Length() if name == "LenChars" else ByteCount(), sign, value[0])
        place = self._cast_place(left, value.dtype)
        if place is None:
            return None
        if self._is_text(place):
            return self._equal_text(place, sign, value[0]) if _is_texts(value) else None
        number = _number(self._nodes[place], value)
        if number is None:
            return None
        return self._comparing(place, sign, *number)

    def _is_in(self, inner: Any, values: Any) -> Predicate | None:
        constant = _constant(values)
        if constant is None or len(constant) != 1 or constant.null_count() or not constant.dtype.is_nested():
            return None
        members = constant[0].drop_nulls()
        place = self._cast_place(inner, members.dtype)
        if place is None:
            return None
        if self._is_text(place):
            return self._one_of_texts(place, members.to_list()) if _is_texts(members) else None
        numbers = [_number(self._nodes[place], members[i : i + 1]) for i in range(len(members))]
        if not numbers or None in numbers:
            return None
        return self._one_of(place, [number for number in numbers if number is not None])

    def _string(self, inner: Any, function: Any, pattern: Any) -> Predicate | None:
        place, value = self._place(inner), _constant(pattern)
        if place is None or not self._is_text(place) or value is None or len(value) != 1 or not _is_texts(value):
            return None
        text = value[0]
        if not text:
            return None
        match function:
            case "StartsWith":
                return TextPredicate(place, (Like((text.encode(), b"")),))
            case "EndsWith":
                return TextPredicate(place, (Like((b"", text.encode())),))
            case {"Contains": {"literal": True}}:
                return TextPredicate(place, (Like((b"", text.encode(), b"")),))
            case {"Contains": {"literal": False}}:
                return _expression_of(place, text)
        return None


def _is_constant(tree: Any) -> bool:
    match tree:
        case {"Literal": _}:
            return True
        case {"Cast": {"expr": inner}}:
            return _is_constant(inner)
        case {"Function": {"input": [inner], "function": {"TemporalExpr": _}}}:
            return _is_constant(inner)  # which Polars 1 does not evaluate itself
    return False


def _constant(tree: Any) -> Any:
    """A constant as a Series of polars; None of anything else."""
    import polars as pl

    if not _is_constant(tree):
        return None
    try:
        return pl.select(_expression(tree).alias("")).to_series()
    except pl.exceptions.PolarsError:  # a value that its type cannot hold; Polars says so itself
        return None


def _target(tree: Any) -> Any:
    """The type to which a cast casts."""
    import polars as pl

    return _constant({"Cast": {**tree["Cast"], "expr": json.loads(pl.lit(None).meta.serialize(format="json"))}}).dtype


def _keeps_order(kind: Any, target: Any, dtype: Any) -> bool:
    """Whether values cast to the type of a constant compare with it as they are, but for what `_number` says."""
    types = pa.types
    if target != dtype:
        return False
    if types.is_integer(kind):
        name = str(target)
        if not target.is_integer():
            return name == "Float64"
        bits, signed = int(name.lstrip("UInt")), not name.startswith("U")
        same = signed == types.is_signed_integer(kind)
        return bits >= kind.bit_width if same else signed and bits > kind.bit_width
    if types.is_decimal(kind):
        return bool(str(target) == "Float64" or (target.is_decimal() and target.scale >= kind.scale))
    if types.is_timestamp(kind) or types.is_duration(kind):
        return 0 < _unit(kind) <= _unit_of(target)
    return False


def _is_texts(values: Any) -> bool:
    import polars as pl

    return bool(values.dtype == pl.String and not values.null_count())


def _expression_of(place: int, text: str) -> Predicate | None:
    """A regular expression of literals with ``.*`` between them; ``^`` and ``$`` are the ends of the string."""
    begins, ends = text.startswith("^"), text.endswith("$")
    inner = [literal(piece) for piece in text[begins : len(text) - ends].split(".*")]
    literals = [piece for piece in inner if piece is not None]
    if len(literals) < len(inner):
        return None
    if len(literals) == 1 and begins and ends:
        return TextPredicate(place, (Like((literals[0],)),))
    predicate = TextPredicate(place, (Like((*([] if begins else [b""]), *literals, *([] if ends else [b""]))),))
    return predicate if len(literals) == 1 else Junction((predicate, None))  # a dot is no end of a line


def _number(node: Node, value: Any) -> tuple[Fraction, Fraction] | None:
    """A constant in the unit of the integers that a column stores, and by how much Polars may round it or them."""
    if limits_of(node) is None:
        return None
    kind, dtype, types = node.type, value.dtype, pa.types
    if dtype.is_temporal():
        time = _time(kind, dtype, value.to_physical()[0])
        return None if time is None else (time, _NONE if _unit(kind) == _unit_of(dtype) else _slack(kind, dtype))
    plain = value[0]
    if types.is_boolean(kind):
        return (Fraction(plain), _NONE) if type(plain) is bool else None
    if type(plain) is float and (plain != plain or abs(plain) == float("inf")):
        return None
    if types.is_integer(kind) and (dtype.is_integer() or str(dtype) == "Float64") and abs(plain) < EXACT:
        return Fraction(plain), _NONE
    if types.is_decimal(kind) and kind.scale >= 0 and dtype.is_numeric() and str(dtype) != "Float32":
        number = Fraction(plain) * 10**kind.scale
        return number, _NONE if dtype.is_decimal() else abs(number) * ROUNDED
    return None


def _unit(kind: Any) -> int:
    """Nanoseconds of a column's unit; 0 of dates."""
    return 0 if pa.types.is_date32(kind) else NANOSECONDS.get(kind.unit, 0)


def _unit_of(dtype: Any) -> int:
    return NANOSECONDS[dtype.time_unit] if hasattr(dtype, "time_unit") else 0


def _slack(kind: Any, dtype: Any) -> Fraction:
    """Polars compares times of two units in the coarser one, so it rounds a time of the other."""
    return Fraction(max(_unit(kind), _unit_of(dtype)), _unit(kind)) if _unit_of(dtype) else _NONE


def _time(kind: Any, dtype: Any, value: int) -> Fraction | None:
    """A date, a time or a duration in the unit of a column."""
    import polars as pl

    types = pa.types
    if types.is_date32(kind):
        return Fraction(value) if dtype == pl.Date else None
    if not (types.is_timestamp(kind) or types.is_duration(kind)) or not _unit(kind):
        return None
    if types.is_duration(kind) or isinstance(dtype, pl.Duration):
        are_durations = types.is_duration(kind) and isinstance(dtype, pl.Duration)
        return Fraction(value * _unit_of(dtype), _unit(kind)) if are_durations else None
    if dtype == pl.Date:
        time = Fraction(value * 86_400 * 10**9, _unit(kind)) if kind.tz is None else None
    elif isinstance(dtype, pl.Datetime) and dtype.time_zone == kind.tz:
        time = Fraction(value * _unit_of(dtype), _unit(kind))
    else:
        return None
    return time if time is not None and abs(time) < 2**63 else None
