"""Comparisons of numbers, times and decimals, answered on their codes: a value becomes a range of stored integers.

Only what the library compares exactly is answered here. All else is decoded, and the library looks at it.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ..buffers import ColumnBuffers
from ..codecs.span import Span
from ..interop import cudf as interop_cudf
from .meaning import CallMeaning, meaning_of
from .source import LOGGER, ColumnSource

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: Signs of both ends, as ``Series.between`` names them.
_INCLUSIVE = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "neither": (">", "<")}
#: Of answers about columns without nulls.
_EXACT = CallMeaning(np.dtype(np.bool_), None)


class _Number(NamedTuple):
    """A value in the unit of the stored integers, exactly: ``over / under``."""

    over: int
    under: int = 1


def compare(column: ColumnSource, sign: str, value: Any) -> Any:
    """Compare rows with a value: a Series without its proxy; None where the column is to be decoded."""
    limits = _limits(column)
    number = None if limits is None else _number(column, value)
    if limits is None or number is None:
        return None
    operation = _SIGNS[sign]
    return _answer(column, sign, _span(sign, number, limits), value, lambda series: operation(series, value))


def between(column: ColumnSource, left: Any, right: Any, inclusive: Any) -> Any:
    """Whether rows lie between two values, as `compare`."""
    limits = _limits(column)
    if limits is None or type(inclusive) is not str or inclusive not in _INCLUSIVE:
        return None
    ends = _number(column, left), _number(column, right)
    if ends[0] is None or ends[1] is None:
        return None
    low = _span(_INCLUSIVE[inclusive][0], ends[0], limits)
    high = _span(_INCLUSIVE[inclusive][1], ends[1], limits)
    span = Span(max(low.low, high.low), min(low.high, high.high))
    return _answer(column, "between", span, left, lambda series: series.between(left, right, inclusive=inclusive))


def isin(column: ColumnSource, values: Any) -> Any:
    """Whether rows are among integers, as `compare`."""
    answers = is_among(column, values)
    return None if answers is None else _series(column, "isin", answers, _EXACT)


def is_among(column: ColumnSource, values: Any) -> ColumnBuffers | None:
    """Whether rows of a column on a GPU are among integers, a byte each; None where the column is to be decoded."""
    backend = column._backend
    if backend.device == "cpu" or not _holds_numbers(column) or not _is_integers(column.dtype):
        return None
    kind = column.dtype
    inner, _ = interop_cudf.unwrap_proxy(values)
    with backend.current():
        if interop_cudf.is_cudf(inner):
            array = interop_cudf.present_values(inner, kind)
        elif isinstance(inner, (list, tuple)) and inner and all(type(value) is int for value in inner):
            limits = np.iinfo(kind)
            if min(inner) < limits.min or limits.max < max(inner):
                return None
            array = backend.arrays.asarray(np.array(inner, kind))
        else:
            return None
        answers = None if array is None else backend.is_in(column._content.node, array)
        if answers is not None and answers.null_count:  # a missing value is none of them
            booleans = backend.as_array(answers).view(np.bool_)
            booleans &= backend.as_bits(answers).view(np.bool_)
            answers.validity, answers.null_count, answers.owners = None, 0, (None, answers.owners[1])
    return answers


def _holds_numbers(column: ColumnSource) -> bool:
    """Whether there are rows of 64 bits or less each; the dtype of other columns may take time, or cuDF may lack it."""
    node = column._content.node
    return bool(node.rows) and len(node.values) == 1 and not node.children


def _is_integers(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iu"


def _limits(column: ColumnSource) -> tuple[int, int] | None:
    """The lowest and the highest of the stored integers that are values; None where they are no such numbers."""
    if not _holds_numbers(column):
        return None
    dtype, on_gpu = column.dtype, column._backend.device != "cpu"
    bits = 8 * column._content.node.values[0][0].itemsize
    if _is_integers(dtype):
        if dtype.itemsize != bits // 8:
            return None
        return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if isinstance(dtype, np.dtype) and dtype.kind in "mM" and bits == 64:
        # The lowest number is NaT, in pandas, which is not even equal to itself.
        return -(2**63) + (not on_gpu), 2**63 - 1
    if on_gpu and pa.types.is_decimal(column._content.type):
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return None


def _number(column: ColumnSource, value: Any) -> _Number | None:
    """A value that the library compares with such a column exactly; None for others."""
    dtype, kind = column.dtype, column._content.type
    if _is_integers(dtype):
        exact = isinstance(value, np.integer) and value.dtype.kind in "iu"  # a timedelta64 is one of them
        if type(value) is int or (exact and np.result_type(dtype, value.dtype).kind in "iu"):
            return _Number(int(value))
        if type(value) is float and dtype.itemsize <= 4 and np.isfinite(value):
            return _Number(*value.as_integer_ratio())
        return None
    if isinstance(dtype, np.dtype):
        return _time(dtype, value)
    if type(value) not in (int, Decimal) or (isinstance(value, Decimal) and not value.is_finite()):
        return None
    over, under = value.as_integer_ratio()
    over *= 10**kind.scale
    exact = over % under == 0 and abs(over // under) < 10**kind.precision
    return _Number(over // under) if exact else None


def _time(dtype: Any, value: Any) -> _Number | None:
    is_time = dtype.kind == "M"
    try:
        if is_time and (type(value) in (str, datetime.datetime) or isinstance(value, pd.Timestamp)):
            stamp = pd.Timestamp(value)
            value = None if stamp.tz is not None else stamp.to_datetime64()
        elif not is_time and (type(value) is datetime.timedelta or isinstance(value, pd.Timedelta)):
            value = pd.Timedelta(value).to_timedelta64()
    except (ValueError, TypeError, OverflowError):
        return None
    if type(value) is not (np.datetime64 if is_time else np.timedelta64) or np.isnat(value):
        return None
    unit, column_unit = np.datetime_data(value), np.datetime_data(dtype)
    if unit[1] != 1 or column_unit[1] != 1 or unit[0] not in _NANOSECONDS or column_unit[0] not in _NANOSECONDS:
        return None
    return _Number(int(value.astype(np.int64)) * _NANOSECONDS[unit[0]], _NANOSECONDS[column_unit[0]])


def _span(sign: str, number: _Number, limits: tuple[int, int]) -> Span:
    """Stored integers that compare so with a number."""
    lowest, highest = limits
    floor = number.over // number.under
    ceiling = -(-number.over // number.under)
    if sign == "<":
        return Span(lowest, min(ceiling - 1, highest))
    if sign == "<=":
        return Span(lowest, min(floor, highest))
    if sign == ">":
        return Span(max(floor + 1, lowest), highest)
    if sign == ">=":
        return Span(max(ceiling, lowest), highest)
    is_stored = floor == ceiling and lowest <= floor <= highest
    return Span(floor, floor, sign == "!=") if is_stored else Span(1, 0, sign == "!=")


def _answer(column: ColumnSource, name: str, span: Span, value: Any, ask: Callable[[Any], Any]) -> Any:
    backend = column._backend
    meaning: CallMeaning | None = _EXACT
    if column.null_count and backend.device == "cpu":
        # Of NumPy's dtypes those of times alone have missing values. NaT equals nothing and comes before nothing.
        meaning = CallMeaning(_EXACT.dtype, name == "!=")
    elif column.null_count:
        meaning = meaning_of(column, ask, (name, type(value)), lambda: interop_cudf.one_missing(column.dtype))
    if meaning is None:
        return None
    with backend.current():
        answers = backend.compare(column._content.node, span)
    return None if answers is None else _series(column, name, answers, meaning)


def _series(column: ColumnSource, name: str, answers: ColumnBuffers, meaning: CallMeaning) -> Any:
    backend = column._backend
    with backend.current():
        LOGGER.debug("%s: codes", name)
        return backend.interop.answers(answers, *meaning, column._name, column._index.shared(backend))
