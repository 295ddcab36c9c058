"""Columns of pandas as Arrow's, and back with the same values and dtypes."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrow_types import is_string_type, is_view, within
from .arrow import decoding
from .arrow_columns import cast_views, check, holds_dictionary, no_rows, one_row
from .dtypes import MASKED, NULLABLE, VIEWS, decode_string_dtype, encode_dtype, is_interval
from .objects import changed_objects, one_missing, reason

#: Objects that Arrow gives back as they were, unless it has been given others as well.
_EXACT = frozenset([str, bytes, int, bool, dt.date])
#: What the libraries raise on values that Arrow has no form of.
NO_FORM = (pa.ArrowException, OverflowError, TypeError, ValueError, decimal.InvalidOperation)


def encode_column(series: Any) -> tuple[Any, dict[str, Any] | None]:
    """A pandas Series as an Arrow array, and its dtype as `decode_column` wants it.

    Raises
    ------
    TypeError
        It has no Arrow form that would give back the same values.
    """
    dtype = series.dtype
    try:
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            return pa.array(series.to_numpy(), from_pandas=False), None  # a NaN is a value
        array = pa.array(series, from_pandas=True)
        plain = dtype != np.dtype(object) or _of_one_exact_type(series, array.type)
    except NO_FORM as error:
        raise TypeError(f"dtype {dtype} cannot be compressed: {reason(error, pd.Index(series))}") from error
    stored = encode_dtype(dtype)
    array = _without_views(array)
    array = column = plain_categories(pa.chunked_array([array]) if isinstance(array, pa.Array) else array)
    decoded = decode_column(column[:0] if plain else column, stored)
    if str(decoded.dtype) != str(dtype) or decoded.dtype != dtype:
        raise TypeError(f"dtype {dtype} cannot be compressed: it would come back as {decoded.dtype}")
    changed: list[Any] = []
    if not plain:
        changed, values = changed_objects(pd.Index(decoded, dtype=object), pd.Index(series, dtype=object)), series
    elif isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype == np.dtype(object):
        changed, values = changed_objects(decoded.cat.categories, dtype.categories), dtype.categories
    if changed:
        what = f"dtype {dtype} holding {pd.api.types.infer_dtype(values, skipna=True)} values cannot be compressed"
        raise TypeError(f"{what}: as {array.type} they would change; the first is {changed[0]!r:.100}")
    return array, stored


def encode_arrow(column: Any, dtype: Any) -> tuple[Any, dict[str, Any] | None]:
    """`encode_column` for a ChunkedArray that pandas would read as `dtype`; values stay exactly Arrow's.

    Raises
    ------
    TypeError
        It could not be read again.
    """
    column = plain_categories(_without_views(column))
    strings = is_string_type(column.type)
    stored = encode_dtype(dtype) if strings or dtype != np.dtype(object) else None
    try:
        decode_column(pa.chunked_array([no_rows(column.type)]), stored)
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError) as error:  # what pandas and Arrow raise here
        raise TypeError(f"Arrow type {column.type} cannot be compressed: {error}") from error
    return column, stored


def _without_views(array: Any) -> Any:
    """Views of strings as the strings that columns of them are stored as; those inside others stay."""
    view_type = VIEWS.get(str(array.type))
    if view_type is None:
        return array
    check(array)
    return cast_views(array, view_type)


def _of_one_exact_type(series: Any, kind: Any) -> bool:
    """Whether objects, missing ones aside, are all of one type whose values this Arrow type gives back as they are."""
    values = series.to_numpy()
    values = values[~pd.isna(values)]
    types = set(map(type, values))
    if types == {decimal.Decimal}:  # Arrow has one exponent for all, and no sign of a zero
        alike = decimal.Decimal((0, (1,), -kind.scale)).same_quantum
        return all(map(alike, values)) and not any(value.is_signed() for value in values if not value)
    return len(types) <= 1 and types <= _EXACT


def plain_categories(column: Any) -> Any:
    """A ChunkedArray whose dictionaries are no extension types: as such Arrow's files do not keep them."""
    kind = column.type
    if not (pa.types.is_dictionary(kind) and isinstance(kind.value_type, pa.BaseExtensionType)):
        return column
    kind = pa.dictionary(kind.index_type, kind.value_type.storage_type, ordered=kind.ordered)
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.storage, ordered=kind.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, kind)


def decode_column(column: Any, stored: dict[str, Any] | None) -> Any:
    """A pandas Series, without name and labels, of an Arrow ChunkedArray and what `encode_column` says of its dtype.

    Raises
    ------
    UnicodeDecodeError
        The dtype or its categories hold Python's strings, and some bytes are not UTF-8.
    """
    with decoding(column):
        return _decode_column(column, stored)


def _decode_column(column: Any, stored: dict[str, Any] | None) -> Any:
    if stored is None or stored["kind"] == "cudf":
        return pd.Series(_zoned_intervals(column), copy=False) if _has_zoned_intervals(column) else column.to_pandas()
    if stored["kind"] == "object":
        values = np.empty(len(column), object)
        values[:] = column.to_pylist()
        return pd.Series(values, dtype=object, copy=False)
    if stored["kind"] == "string":
        _refuse_bytes(column.type)
        return pd.Series(decode_string_dtype(stored).__from_arrow__(column), copy=False)
    return pd.Series(exact_index(column, stored), copy=False)


def _refuse_bytes(kind: Any) -> None:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        raise ValueError(f"values of Arrow type {kind} are bytes, not strings")


def try_dtype(kind: Any, stored: dict[str, Any] | None) -> None:
    """Decode a row of zeros: reading no rows says nothing of how values are converted."""
    if stored is not None and stored["kind"] in ("object", "string") and holds_dictionary(kind):
        raise ValueError("each row would be a copy of its category")
    if (stored is None or stored["kind"] != "arrow") and any(map(is_view, within(kind))):
        raise ValueError("only ArrowDtype has views")
    decoded = decode_column(pa.chunked_array([one_row(kind)]), stored)
    if stored is not None and stored["kind"] == "masked" and str(decoded.dtype) != stored["type"]:
        raise ValueError(f"it would be {decoded.dtype}")


def check_values(kind: Any, stored: dict[str, Any] | None, survey: Callable[[Callable[[Any], None]], Any]) -> None:
    """Raise ValueError where numbers of this Arrow type cannot be of a nullable dtype, which is of another type.

    Parameters
    ----------
    survey
        Calls what it is given with all the values, as unsigned integers, some at a time.
    """
    if stored is None or stored["kind"] != "masked":
        return
    dtype = pd.api.types.pandas_dtype(stored["type"])
    if pa.types.is_null(kind) or kind == pa.from_numpy_dtype(dtype.numpy_dtype):
        return

    def convert(values: Any) -> None:
        decode_column(pa.chunked_array([pa.array(values.view(kind.to_pandas_dtype()))]), stored)

    try:
        survey(convert)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"values of Arrow type {kind} do not fit dtype {dtype}: {error}") from error


def exact_index(column: Any, stored: Any) -> Any:
    """Make an Arrow column an Index of exactly the dtype that `encode_dtype` wrote."""
    kind = None if stored is None else stored["kind"]
    if kind == "arrow":
        if stored["type"] in VIEWS:
            column = column.cast(getattr(pa, stored["type"])())
        return pd.Index(pd.arrays.ArrowExtensionArray(column))
    if kind == "masked":
        if stored["type"] not in MASKED:
            raise ValueError(f"unknown dtype {stored!r}")
        dtype = pd.api.types.pandas_dtype(stored["type"])
        if dtype.kind == "f":  # by itself pandas makes NaN, which is a value here, a missing one
            missing = column.is_null().to_numpy()
            return pd.Index(pd.arrays.FloatingArray(column.fill_null(1).to_numpy(), missing))
        return pd.Index(dtype.__from_arrow__(column))
    if kind == "category":
        # Not by pyarrow's own conversion, which drops the categories' time zone.
        joined = column.unify_dictionaries().combine_chunks()
        joined = joined if isinstance(joined, pa.Array) else joined.chunk(0)
        categories = exact_index(pa.chunked_array([joined.dictionary]), stored["categories"])
        codes = joined.indices  # not all cast, which would take eight bytes a row for one
        codes = codes if pa.types.is_signed_integer(codes.type) else codes.cast(pa.int64())
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        return pd.CategoricalIndex(pd.Categorical.from_codes(codes, categories, ordered=joined.type.ordered))
    if kind == "interval":
        return _intervals(column, stored["closed"])
    if kind == "period":
        if column.type != pa.int64():
            raise ValueError(f"ordinals of periods of Arrow type {column.type}")
        return pd.PeriodIndex.from_ordinals(column.to_numpy(), freq=stored["freq"])
    natural = kind in (None, "cudf")
    if natural and column.null_count and column.type in NULLABLE:
        return pd.Index(NULLABLE[column.type].__from_arrow__(column))
    if natural and _has_zoned_intervals(column):
        return _zoned_intervals(column)
    values = column.to_pandas()
    if natural or kind == "numpy":
        return pd.Index(values, dtype=values.dtype)
    dtype = decode_string_dtype(stored)
    if dtype == np.dtype(object):
        return one_missing(values)
    _refuse_bytes(column.type)
    return pd.Index(values.astype(dtype), dtype=dtype)


def _intervals(column: Any, closed: str) -> Any:
    left, right = (pd.Index(end.to_pandas()) for end in column.combine_chunks().flatten())
    return pd.IntervalIndex.from_arrays(left, right, closed=closed)


def _has_zoned_intervals(column: Any) -> bool:
    """Whether a column holds intervals of times with a zone, of which pandas makes an error if there are no rows."""
    return is_interval(column.type) and getattr(column.type.subtype, "tz", None) is not None


def _zoned_intervals(column: Any) -> Any:
    kind = column.type
    return _intervals(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type), kind.closed)
