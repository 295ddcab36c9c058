"""pandas Series, Index and DataFrame <-> buffers of their columns in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..buffers import ColumnBuffers, HostStrings
from . import arrow_columns, schema
from .arrow import decoding, from_arrow, is_string_type, to_arrow

#: What the accessor's error says it wants.
WANTED = "values that Arrow holds exactly (strings, numbers, dates, categories, lists, ...)"


def holds_strings(data: Any) -> bool:
    """Whether a Series or Index holds strings; of dtype ``object``, the values decide."""
    dtype = data.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return is_string_type(dtype.pyarrow_dtype)
    if isinstance(dtype, pd.StringDtype):
        return True
    if not is_object(dtype):
        return False
    found = pd.api.types.infer_dtype(data, skipna=True)
    if found not in ("string", "empty"):
        # A missing value that the inference does not skip (NaT) must not decide.
        found = pd.api.types.infer_dtype(data[data.notna()], skipna=True)
    return found in ("string", "empty")


def is_object(dtype: Any) -> bool:
    """Whether a dtype is numpy's ``object``."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def check_dtype(data: Any) -> None:
    """Raise AttributeError, naming the dtype, where a Series or Index cannot be compressed.

    Of dtype ``object`` the values decide; all others are told by the dtype.
    """
    if isinstance(data, pd.MultiIndex):
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {type(data).__name__}")
    if holds_strings(data):
        return
    try:
        array, _ = schema.encode_column(pd.Series(data if is_object(data.dtype) else data[:0], copy=False))
        arrow_columns.describe(array[:0])
    except TypeError as error:
        found = data.dtype
        if is_object(found):
            found = f"object holding {pd.api.types.infer_dtype(data, skipna=True)} values"
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {found}: {error}") from error


def labels(data: Any) -> tuple[Any, Any]:
    """Name and index of a Series; an Index counts as a Series with a RangeIndex."""
    if isinstance(data, pd.Index):
        return data.name, pd.RangeIndex(len(data))
    return data.name, data.index


def view(index: Any) -> Any:
    """The same labels as an Index of its own, whose names can be set without changing the other's; nothing is copied.

    pandas does this wherever an index is handed over.
    """
    return index.view()


def nbytes(index: Any) -> int:
    """Bytes that an index takes, Python's strings included."""
    try:
        return int(index.memory_usage(deep=True))
    except NotImplementedError:  # pandas cannot count string views deeply
        return int(index.nbytes)


def with_names(index: Any, names: Sequence[Any]) -> Any:
    """The same labels with other names."""
    return index.set_names(names)


def to_series(strings: HostStrings, dtype: Any, name: Any, index: Any) -> Any:
    """Build a Series of exactly this dtype around host buffers (characters are copied only for object storage).

    Raises
    ------
    UnicodeDecodeError
        The dtype holds Python's strings, and some bytes are not UTF-8.
    """
    if isinstance(dtype, pd.ArrowDtype):
        array = pd.arrays.ArrowExtensionArray(_chunked(to_arrow(strings, dtype.pyarrow_dtype)))
        return pd.Series(array, index=index, name=name, copy=False)
    arrow = to_arrow(strings, pa.large_string())
    with decoding(arrow, lambda row: "" if index is None else f"in the row labelled {index[row]} of {name!r}"):
        if isinstance(dtype, pd.StringDtype):
            return pd.Series(dtype.__from_arrow__(arrow), index=index, name=name, copy=False)
        values = arrow.to_numpy(zero_copy_only=False)
    return pd.Series(values, index=index, name=name, dtype=object, copy=False)


def arrow_type(dtype: Any) -> Any:
    """Arrow type that a dtype names, None where it leaves the choice between string and large_string."""
    return dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else None


def from_arrow_column(array: Any) -> Any:
    """Wrap an Arrow array as a Series of ArrowDtype, without a copy."""
    return pd.Series(pd.arrays.ArrowExtensionArray(_chunked(array)), copy=False)


def row_values(key: Any) -> npt.NDArray[Any]:
    """Numbers or booleans of a selection as a numpy array; missing booleans are False, as in pandas."""
    if isinstance(key, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        if pd.api.types.is_bool_dtype(key.dtype):
            return key.to_numpy(dtype=bool, na_value=False)
        key = key.to_numpy()
    values = np.asarray(key)
    if values.dtype.kind == "O" and pd.api.types.infer_dtype(values.ravel(), skipna=True) == "boolean":
        return np.where(pd.isna(values), False, values).astype(bool)
    return values


def take_labels(index: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Labels of some rows."""
    return index.take(rows)


def concat_labels(names: Sequence[Any], indexes: Sequence[Any]) -> tuple[Any, Any]:
    """Name and index of ``pandas.concat`` of Series with these names and indexes."""
    # pandas itself decides, on rows of one byte.
    parts = [
        pd.Series(np.zeros(len(index), np.int8), index=index, name=name)
        for name, index in zip(names, indexes, strict=True)
    ]
    joined = pd.concat(parts)
    return joined.name, joined.index


def concat(results: Sequence[Any]) -> Any:
    """Join the results of a function called on consecutive pieces, labels kept."""
    return pd.concat(results)


def is_frame(value: Any) -> bool:
    """Whether `concat` can join such values."""
    return isinstance(value, (pd.Series, pd.DataFrame))


def empty(dtype: Any, name: Any, index: Any) -> Any:
    """A Series of this dtype without rows."""
    return pd.Series([], dtype=dtype, name=name, index=index)


def describe(series: Any, *, lenient: bool = False) -> tuple[ColumnBuffers, Any, dict[str, Any] | None]:
    """Buffers of a Series, its Arrow type and what says its dtype.

    Parameters
    ----------
    lenient
        Strings of an object Series may be of subclasses; they come back as plain ones.

    Raises
    ------
    TypeError
        It cannot be compressed so that the same values come back.
    """
    if lenient and holds_strings(series):
        strings = from_arrow(_as_arrow(series))
        kind = schema.arrow_type(series.dtype)
        buffers = ColumnBuffers(kind, strings.rows, strings.null_count, strings=strings)
        return buffers, kind, schema.encode_dtype(series.dtype)
    array, stored = schema.encode_column(series)
    return arrow_columns.describe(array), array.type, stored


def build(column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None, *, nullable: bool = False) -> Any:
    """A Series of what `describe` gave, without name and labels.

    Parameters
    ----------
    nullable
        These are rows of a column that has nulls in it. pandas' dtype of integers and booleans depends on whether
        there are any, and is the whole column's.
    """
    if nullable and not column.null_count and _depends_on_nulls(kind, stored):
        whole = pa.chunked_array([*to_chunked(column, kind).chunks, pa.nulls(1, kind)], kind)
        return schema.decode_column(whole, stored).iloc[:-1].copy()
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if stored is None and plain and column.values is not None and not column.null_count:
        # Not through Arrow, whose arrays cannot be written to.
        return pd.Series(column.values.view(kind.to_pandas_dtype()), copy=False)
    made = schema.decode_column(to_chunked(column, kind), stored)
    behind = getattr(made.array, "_ndarray", None)
    return made if behind is None or behind.flags.writeable else made.copy()


def to_chunked(column: ColumnBuffers, kind: Any) -> Any:
    """A ChunkedArray of what `describe` gave."""
    array = arrow_columns.rebuild(column, kind)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def describe_index(index: Any) -> tuple[dict[str, Any], list[tuple[ColumnBuffers, Any]]]:
    """What says an index' kind, names and dtypes, and buffers and types of its levels (none of a RangeIndex)."""
    notes, columns = schema.describe_index(index)
    return notes, [(arrow_columns.describe(column), column.type) for column in columns]


def _depends_on_nulls(kind: Any, stored: dict[str, Any] | None) -> bool:
    """Whether the dtype that pandas has for a column depends on whether it has nulls."""
    return (stored is None or stored["kind"] == "cudf") and schema.has_integers(kind)


def build_index(notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, bool]]) -> Any:
    """An index of what `describe_index` gave: buffers, type, and whether they are rows of a level that has nulls."""
    columns = [to_chunked(column, kind) for column, kind, _ in levels]
    if not any(nullable and not column.null_count and schema.has_integers(kind) for column, kind, nullable in levels):
        return schema.assemble_index(notes, columns)
    longer = [pa.chunked_array([*column.chunks, pa.nulls(1, column.type)], column.type) for column in columns]
    return schema.assemble_index(notes, longer)[:-1]


def frame(columns: Sequence[Any], labels: Any, index: Any) -> Any:
    """A DataFrame of Series, the labels of its columns, and an index."""
    for series in columns:
        series.index = index
    # By number, lest two columns of the same name become one.
    made = pd.DataFrame(dict(enumerate(columns)), index=index, copy=False)
    made.columns = labels
    return made


def series(values: Any, name: Any, index: Any) -> Any:
    """Give a Series its name and labels."""
    values.index = index
    return values.rename(name)


def column_series(
    column: ColumnBuffers,
    kind: Any,
    stored: dict[str, Any] | None,
    dtype: Any,
    name: Any,
    index: Any,
    *,
    nullable: bool = False,
) -> Any:
    """A Series of what `describe` gave.

    Parameters
    ----------
    dtype
        Of a column of strings; None: what `stored` says.
    nullable
        See `build`.

    Raises
    ------
    UnicodeDecodeError
        The dtype holds Python's strings, and some bytes are not UTF-8; it names the row.
    """
    if dtype is not None and isinstance(column.strings, HostStrings):
        if column.rows == 0:
            return empty(dtype, name, index)
        return to_series(column.strings, dtype, name, index)
    made = build(column, kind, stored, nullable=nullable)
    return made.rename(name) if index is None else series(made, name, index)


def same(one: Any, other: Any) -> bool:
    """Whether two Series or DataFrames have equal labels and values."""
    return bool(one.equals(other))


def columns(data: Any) -> list[Any]:
    """The columns of a DataFrame."""
    return [data.iloc[:, i] for i in range(data.shape[1])]


def _as_arrow(data: Any) -> Any:
    dtype = data.dtype
    if is_object(dtype):
        return _objects_as_arrow(np.asarray(data, dtype=object))
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        return _objects_as_arrow(data.to_numpy(dtype=object))
    return pa.array(data.array)


def _objects_as_arrow(values: npt.NDArray[Any]) -> Any:
    missing = pd.isna(values)
    return pa.array(values, type=pa.large_string(), mask=missing if missing.any() else None, from_pandas=True)


def _chunked(array: Any) -> Any:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array], type=array.type)
