"""What Arrow's datasets are filtered by, as predicates that the codes can answer.

Arrow writes an expression down as a record batch: the calls in its schema's metadata, one after another, the constants
and options of calls as columns. That is no stable format: what is not as it is known here is left to Arrow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ..arrow_types import is_string_type
from ..codecs.node import Node
from ..codecs.text.search import ByteCount, Length, Like
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

_SIGNS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_DAY = 86_400 * 10**9
#: What nulls among the values of ``is_in`` are: null rows are then not among them, and the answer is false.
_MATCH, _SKIP = 0, 1


@dataclass(frozen=True)
class Call:
    """A function of an expression."""

    name: str
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.inputs))})"


@dataclass(frozen=True)
class Field:
    """A column, or, with several names, a field within it."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class Constant:
    """A value: a scalar of Arrow's."""

    value: Any

    def __str__(self) -> str:
        return str(self.value)


Tree = Call | Field | Constant


def tree_of(expression: Any) -> Tree | None:
    """The tree of an expression of Arrow; None: it cannot be read."""
    try:
        (buffer,) = expression.__reduce__()[1]
        with pa.ipc.open_file(buffer) as file:
            (constants,) = (file.get_batch(i) for i in range(file.num_record_batches))
        items = iter(_metadata(constants.schema))
        tree = _read(*next(items), items, constants)
        return tree if next(items, None) is None else None
    except (pa.ArrowException, ValueError, TypeError, KeyError, StopIteration, RuntimeError):
        return None


def columns_of(tree: Tree) -> set[str]:
    """Columns that an expression reads."""
    if isinstance(tree, Field):
        return {tree.path[0]}
    return set().union(*map(columns_of, tree.inputs)) if isinstance(tree, Call) else set()


def predicates(tree: Tree, names: Sequence[str], nodes: Sequence[Node]) -> list[tuple[str, Predicate | None]]:
    """The predicates of a conjunction, each with its text; None: nothing that is known.

    Parameters
    ----------
    tree
    names, nodes
        Of the columns.
    """
    reader = _Reader(names, nodes)
    return [(str(conjunct), reader.predicate(conjunct)) for conjunct in _conjunction(tree)]


def _conjunction(tree: Tree) -> Iterator[Tree]:
    if isinstance(tree, Call) and tree.name in ("and_kleene", "and"):
        for conjunct in tree.inputs:
            yield from _conjunction(conjunct)
    else:
        yield tree


class _Schema(ctypes.Structure):
    """The beginning of Arrow's C structure ``ArrowSchema``."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: Any) -> list[tuple[str, str]]:
    """Keys and values of a schema's metadata in their order, of which pyarrow's dict keeps one of each key."""
    capsule = schema.__arrow_c_schema__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _Schema.from_address(get(capsule, b"arrow_schema")).metadata

    def number() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def text() -> str:
        nonlocal address
        size = number()
        value = ctypes.string_at(address, size).decode()
        address += size
        return value

    return [(text(), text()) for _ in range(number())] if address else []


def _read(key: str, value: str, items: Iterator[tuple[str, str]], constants: Any) -> Tree:
    if key == "literal":
        return Constant(constants.column(int(value))[0])
    if key == "field_ref":
        return Field((value,))
    if key == "nested_field_ref":
        inner = [next(items) for _ in range(int(value))]
        if any(name != "field_ref" for name, _ in inner):
            raise ValueError(inner)
        return Field(tuple(name for _, name in inner))
    if key != "call":
        raise ValueError(key)
    inputs: list[Tree] = []
    options: Any = None
    for key, inner_value in items:
        if key == "end":
            return Call(value, tuple(inputs), options or {})
        if key == "options":
            options = dict(constants.column(int(inner_value))[0])
        else:
            inputs.append(_read(key, inner_value, items, constants))
    raise ValueError(value)


class _Reader(PredicateReader):
    """Reads predicates out of trees."""

    def predicate(self, tree: Tree) -> Predicate | None:
        """The predicate that a tree states; None: it is not known."""
        place = self._place(tree)
        if place is not None:
            return self._is_true(place)
        if not isinstance(tree, Call):
            return None
        match tree.name, tree.inputs:
            case ("and_kleene" | "or_kleene" | "and" | "or", (left, right)):
                return Junction((self.predicate(left), self.predicate(right)), tree.name.startswith("or"))
            case ("invert", (inner,)):
                predicate = self.predicate(inner)
                return None if predicate is None else Not(predicate)
            case ("is_valid" | "is_null", (inner,)):
                return self._is_null(inner, tree)
            case ("if_else", (Call("is_valid", (Field(),)), inner, Constant(value=pa.BooleanScalar(is_valid=False)))):
                return self.predicate(inner)  # as DuckDB says it: what is null may be false here, not true
            case (name, (left, right)) if name in _SIGNS:
                return self._compared(left, _SIGNS[name], right)
            case ("is_in", (inner,)):
                return self._is_in(inner, tree.options)
            case ("starts_with" | "ends_with" | "match_substring", (inner,)):
                return self._like(inner, tree)
        return None

    def _place(self, tree: Any) -> int | None:
        """The place of the column that a tree names; None of other trees."""
        return self._places.get(tree.path[0]) if isinstance(tree, Field) and len(tree.path) == 1 else None

    def _text_place(self, tree: Any) -> int | None:
        place = self._place(tree)
        return place if self._is_text(place) else None

    def _is_null(self, inner: Tree, tree: Call) -> Predicate | None:
        place = self._place(inner)
        if place is None:
            return None
        if tree.name == "is_valid":
            return Not(IsNull(place))
        nan = tree.options.get("nan_is_null")
        return None if nan is None or (nan.as_py() and limits_of(self._nodes[place]) is None) else IsNull(place)

    def _compared(self, left: Tree, sign: str, right: Tree) -> Predicate | None:
        if isinstance(left, Constant):
            left, sign, right = right, MIRRORED[sign], left
        if not isinstance(right, Constant) or not right.value.is_valid:
            return None
        value = right.value
        if isinstance(left, Call) and left.name in ("utf8_length", "binary_length"):
            return self._length(left, sign, value)
        place = self._place(left)
        if place is None:
            return None
        if self._is_text(place):
            return self._equal_text(place, sign, value.as_py()) if is_string_type(value.type) else None
        number = _number(self._nodes[place], value)
        return None if number is None else self._comparing(place, sign, *number)

    def _length(self, call: Call, sign: str, value: Any) -> Predicate | None:
        place = self._text_place(call.inputs[0])
        if place is None or not pa.types.is_integer(value.type):
            return None
        return self._with_length(place, Length() if call.name == "utf8_length" else ByteCount(), sign, value.as_py())

    def _is_in(self, inner: Tree, options: Mapping[str, Any]) -> Predicate | None:
        place, values, nulls = self._place(inner), options.get("value_set"), options.get("null_matching_behavior")
        if place is None or values is None or nulls is None or nulls.as_py() not in (_MATCH, _SKIP):
            return None
        members = values.values
        if members is None or members.null_count or not len(members):
            return None
        if not self._is_text(place):
            predicate = self._number_in(place, members)
        else:
            predicate = self._one_of_texts(place, members.to_pylist()) if is_string_type(members.type) else None
        return None if predicate is None else Junction((predicate, Not(IsNull(place))))  # of null rows it is false

    def _number_in(self, place: int, members: Any) -> Predicate | None:
        numbers = [_number(self._nodes[place], value) for value in members]
        known = [number for number in numbers if number is not None]
        return self._one_of(place, known) if len(known) == len(numbers) else None

    def _like(self, inner: Tree, tree: Call) -> Predicate | None:
        place, pattern = self._text_place(inner), tree.options.get("pattern")
        ignore = tree.options.get("ignore_case")
        text = None if pattern is None else pattern.as_py()
        if place is None or not text or ignore is None or ignore.as_py():
            return None
        encoded = text if isinstance(text, bytes) else text.encode()
        before = () if tree.name == "starts_with" else (b"",)
        after = () if tree.name == "ends_with" else (b"",)
        return TextPredicate(place, (Like((*before, encoded, *after)),))


def _number(node: Node, value: Any) -> tuple[Fraction, Fraction] | None:
    """A constant in the unit of the integers that a column stores, and by how much Arrow may round it or them."""
    kind, value_type, types, exact = node.type, value.type, pa.types, Fraction(0)
    if limits_of(node) is None or not value.is_valid:
        return None
    if types.is_temporal(kind) or types.is_temporal(value_type):
        time = _time(kind, value_type, value)
        return None if time is None else (time, exact)
    plain = value.as_py()
    if types.is_boolean(kind):
        return (Fraction(plain), exact) if types.is_boolean(value_type) else None
    if not (types.is_integer(value_type) or types.is_float64(value_type) or types.is_decimal(value_type)):
        return None
    if types.is_float64(value_type) and (plain != plain or abs(plain) == float("inf")):
        return None
    if types.is_integer(kind) and not types.is_decimal(value_type) and abs(plain) < EXACT:
        return Fraction(plain), exact
    if types.is_decimal(kind) and kind.scale >= 0:
        number = Fraction(plain) * 10**kind.scale
        return number, abs(number) * ROUNDED if types.is_float64(value_type) else exact
    return None


def _time(kind: Any, value_type: Any, value: Any) -> Fraction | None:
    """A date, a time or a duration in the unit of a column."""
    types = pa.types
    units = []
    for side in (kind, value_type):
        if types.is_date32(side):
            units.append(_DAY)
        elif types.is_timestamp(side) or types.is_duration(side):
            units.append(NANOSECONDS[side.unit])
        else:
            return None
    zones = [getattr(side, "tz", None) for side in (kind, value_type)]
    if types.is_duration(kind) != types.is_duration(value_type) or zones[0] != zones[1]:
        return None
    time = Fraction(value.value * units[1], units[0])
    return time if abs(time) < 2**63 else None
