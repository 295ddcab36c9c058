"""Comparisons with a compressed column: a Series of booleans, as the library's Series gives it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..interop import cudf as interop_cudf
from . import asked, by_rows, codes, decoded, numbers, patterns
from .source import LOGGER, ColumnSource

#: What `isin` takes values from.
_VALUES = (list, tuple, set, frozenset, np.ndarray, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(column: ColumnSource, other: Any, name: str) -> Any:
    """Compare a column with a value, or its rows with others of the same length and labels.

    Parameters
    ----------
    column
    other : object
        Anything that ``column.decompress()`` can be compared with, or a column.
    name : str
        Of a function of `operator`.
    """
    operation: Callable[[Any, Any], Any] = getattr(operator, name)
    sign = _SIGNS[name]
    if _is_value(other):
        request = None
        if name in ("eq", "ne"):
            request = asked.of_value(other, negated=name == "ne", compare=operation)
        answer = codes.answer(column, sign, request)
        if answer is None and column._is_text and name not in ("eq", "ne"):
            answer = by_rows.answer(column, sign, patterns.of_order(other, sign, operation))
        if answer is None:
            answer = numbers.compare(column, sign, other)
        if answer is not None:
            return column._out(answer)
        return decoded.row_by_row(column, sign, lambda piece: operation(piece, other))
    rows = _rows_of(column, other)
    if rows is not None:
        return decoded.in_pieces(column, sign, operation, rows)
    if isinstance(other, type(column)):
        other = other.decompress()
    return decoded.as_a_whole(column, sign, lambda series: operation(series, other))


def _is_value(other: Any) -> bool:
    return isinstance(other, (str, bytes)) or bool(pd.api.types.is_scalar(other))


def _rows_of(column: ColumnSource, other: Any) -> Callable[[int, int], Any] | None:
    """A function that gives rows ``start:stop`` of the other operand; None where the library has to see all of it.

    That is where lengths or labels differ, where a part would be of another dtype than the whole, as of a list, and for
    nested values, of which cuDF does not compare parts.
    """
    kind = column._content.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    if isinstance(other, type(column)):
        if len(other) != len(column) or other._backend.device != column._backend.device:
            return None
        if other._index is not column._index and not _same_labels(column, other._index.shared(other._backend)):
            return None
        return lambda start, stop: other._out(other._unlabelled(start, stop))
    inner, proxied = interop_cudf.unwrap_proxy(other)
    if proxied != column._proxied or getattr(inner, "ndim", 0) != 1 or len(inner) != len(column):
        return None
    if isinstance(inner, (np.ndarray, pd.api.extensions.ExtensionArray)):
        if column._backend.device != "cpu":
            return None  # cuDF takes few of them, and its errors tell of the whole
        return lambda start, stop: other[start:stop]
    if interop_cudf.is_cudf(inner) != (column._backend.device != "cpu"):
        return None
    if not hasattr(inner, "iloc"):
        return None
    if not _same_labels(column, inner.index):
        return None
    return lambda start, stop: other.iloc[start:stop].reset_index(drop=True)


def _same_labels(column: ColumnSource, labels: Any) -> bool:
    with column._backend.current():
        return bool(labels.equals(column._index.shared(column._backend)))


def between(column: ColumnSource, left: Any, right: Any, inclusive: str) -> Any:
    """Whether values lie between two others, which are among them as `inclusive` says."""

    def ask(piece: Any) -> Any:
        return piece.between(left, right, inclusive=inclusive)

    if _is_value(left) and _is_value(right):
        if column._is_text:
            answer = by_rows.answer(column, "between", patterns.of_between(left, right, inclusive))
        else:
            answer = numbers.between(column, left, right, inclusive)
        if answer is not None:
            return column._out(answer)
        return decoded.row_by_row(column, "between", ask)
    return decoded.as_a_whole(column, "between", ask)


def isin(column: ColumnSource, values: Any) -> Any:
    """Whether the values of a column are among others, a Series of booleans."""
    if isinstance(values, Iterator):
        values = list(values)
    if column._is_text:
        answer = codes.answer(column, "isin", _value_request(values))
    else:
        answer = numbers.isin(column, values)
    if answer is not None:
        return column._out(answer)
    return decoded.row_by_row(column, "isin", lambda piece: piece.isin(values))


def _value_request(values: Any) -> asked.Request | None:
    inner, _ = interop_cudf.unwrap_proxy(values)
    if interop_cudf.is_cudf(inner):
        return None if len(inner) > asked.MOST_VALUES else asked.of_values(inner.to_arrow().to_pylist(), inner)
    if isinstance(inner, _VALUES):
        if getattr(inner, "ndim", 1) != 1 or len(inner) > asked.MOST_VALUES:
            return None
        if isinstance(getattr(inner, "dtype", None), pd.CategoricalDtype):
            return None  # of which Arrow's types of strings take none
        if isinstance(inner, np.ndarray) and inner.dtype.kind == "U" and any("\0" in value for value in inner):
            return None  # Arrow's types of strings take them up to the NUL alone
        return asked.of_values(list(inner), inner)
    return None


def isna(column: ColumnSource, *, negated: bool = False) -> Any:
    """Whether values are missing, from the validity alone where that says all."""
    name = "notna" if negated else "isna"
    if not _validity_says_all(column):
        return decoded.in_pieces(column, name, lambda piece: piece.notna() if negated else piece.isna())
    backend = column._backend
    with backend.current():
        if column.null_count:
            values = backend.as_bits(backend.validity(column._content.node))
            if not negated:
                values ^= 1
            values = values.view(np.bool_)
        else:
            values = backend.arrays.full(len(column), negated, np.bool_)
        LOGGER.debug("%s: validity", name)
        series = backend.interop.of_array(values, column._name, column._index.shared(backend))
    return column._out(series)


def _validity_says_all(column: ColumnSource) -> bool:
    """Whether a value is missing where Arrow says that it is null, and nowhere else.

    A NaN is missing, too, and of pandas' times the lowest number.
    """
    kind, types = column._content.type, pa.types
    numbers = types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if column._is_text or numbers or types.is_date(kind):
        return True
    return bool(column._backend.device != "cpu" and types.is_temporal(kind))
