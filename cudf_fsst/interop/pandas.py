"""pandas Series, Index and DataFrame <-> buffers of their columns in host memory.

`adapter.Adapter` says what functions do that have no words here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..arrow_types import is_string_type
from ..buffers import ColumnBuffers, HostStrings
from . import arrow_columns, dtypes, indexes
from .arrow import decoding, from_arrow, to_arrow
from .like import expression_of
from .pandas_columns import decode_column, encode_column
from .pandas_indexes import concat_labels as concat_labels
from .pandas_indexes import labels as labels
from .pandas_indexes import nbytes as nbytes
from .pandas_indexes import take_labels as take_labels
from .pandas_indexes import view as view
from .pandas_indexes import with_level_dtypes as with_level_dtypes
from .pandas_indexes import with_names as with_names

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
    inferred = pd.api.types.infer_dtype(data, skipna=True)
    if inferred not in ("string", "empty"):
        # A missing value that the inference does not skip (NaT) must not decide.
        inferred = pd.api.types.infer_dtype(data[data.notna()], skipna=True)
    return inferred in ("string", "empty")


def is_object(dtype: Any) -> bool:
    """Whether a dtype is numpy's ``object``."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def check_dtype(data: Any) -> None:
    """Raise AttributeError, naming the dtype, where nothing takes a Series or Index of this dtype.

    Of dtype ``object`` the values decide, which are looked at when they are compressed.
    """
    if isinstance(data, pd.MultiIndex):
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {type(data).__name__}")
    if is_object(data.dtype) or holds_strings(data):
        return
    try:
        array, _ = encode_column(pd.Series(data[:0], copy=False))
        arrow_columns.describe(array[:0])
    except TypeError as error:
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {data.dtype}: {error}") from error


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


def concat(results: Sequence[Any]) -> Any:
    joined = pd.concat(results)
    labels = [result.index for result in results]
    if not is_object(joined.index.dtype) and all(is_object(index.dtype) and index.nlevels == 1 for index in labels):
        # pandas would have them `str`. They were not when they were together.
        joined.index = pd.Index(np.concatenate(labels), dtype=object, name=joined.index.name)
    return joined


def joined_dtype(dtype: dict[str, Any] | None) -> dict[str, Any] | None:
    """The stored dtype of the labels that ``pandas.concat`` gives for labels of strings of a stored dtype."""
    if dtype != {"kind": "object"}:
        return dtype
    labels = pd.Index(["a"], dtype=object)
    _, joined = concat_labels([None, None], [labels, labels])
    return dtypes.encode_dtype(joined.dtype)


def concat_values(results: Sequence[Any]) -> Any:
    return pd.concat(results, ignore_index=True)


def rows_of(series: Any, numbers: npt.NDArray[Any]) -> Any:
    """Values at some positions, some of them often; labels are left out. No two rows share a list."""
    rows = series.iloc[numbers].reset_index(drop=True)
    if rows.dtype == object and any(isinstance(value, list) for value in series):
        values = [value[:] if isinstance(value, list) else value for value in rows]
        rows = pd.Series(values, dtype=object, name=rows.name)
    return rows


def all_missing(series: Any) -> bool:
    return len(series) > 0 and bool(series.isna().all())


def with_labels(series: Any, index: Any) -> Any:
    series.index = index
    return series


def of_array(values: npt.NDArray[Any], name: Any, index: Any) -> Any:
    return pd.Series(values, index=index, name=name, copy=False)


def answers(column: ColumnBuffers, dtype: Any, missing: Any, name: Any, index: Any) -> Any:
    values, missing_rows = column.values, None
    if column.null_count:
        missing_rows = np.unpackbits(column.validity, count=column.rows, bitorder="little") == 0
        if not isinstance(dtype, np.dtype) and not pd.isna(missing):
            values[missing_rows], missing_rows = missing, None
    if isinstance(dtype, pd.ArrowDtype):
        array = (
            _bits(values) if values.dtype == np.bool_ and missing_rows is None else pa.array(values, mask=missing_rows)
        )
        array = array.cast(dtype.pyarrow_dtype)
        return pd.Series(pd.arrays.ArrowExtensionArray(_chunked(array)), index=index, name=name, copy=False)
    if isinstance(dtype, np.dtype):
        values = values.astype(dtype, copy=False)
        if missing_rows is not None:
            values[missing_rows] = missing
        return pd.Series(values, index=index, name=name, copy=False)
    missing_rows = np.zeros(column.rows, bool) if missing_rows is None else missing_rows
    array = dtype.construct_array_type()(values.astype(dtype.numpy_dtype, copy=False), missing_rows)
    return pd.Series(array, index=index, name=name, copy=False)


def _bits(values: npt.NDArray[np.bool_]) -> Any:
    """An Arrow array of booleans: `pyarrow.array` takes a tenth of an ``==``."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), values.size, [None, pa.py_buffer(bits)])


def categories(values: Any) -> tuple[npt.NDArray[Any], Any]:
    """The codes of values as categories, -1 of missing ones, and their dtype."""
    converted = values.astype("category")
    return converted.cat.codes.to_numpy(), converted.dtype


def categorical(column: ColumnBuffers, dtype: Any) -> Any:
    """A Series of categories, of codes in an array that is the caller's own, and which rows have none."""
    codes = column.values
    if column.null_count:
        codes[np.unpackbits(column.validity, count=column.rows, bitorder="little") == 0] = -1
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype, validate=False), copy=False)


def codes_of(series: Any) -> tuple[npt.NDArray[Any], Any]:
    """The codes of categories, -1 of missing ones, and an Index of the categories."""
    return series.array.codes, series.array.categories


def factorized(series: Any) -> tuple[npt.NDArray[np.int64], Any]:
    codes, _ = pd.factorize(series)
    return codes, distinct(series[series.notna()])


def distinct(series: Any) -> Any:
    # Not `drop_duplicates`, which makes Python's strings, and cannot of bytes that are not UTF-8.
    codes, _ = pd.factorize(series, use_na_sentinel=False)
    _, firsts = np.unique(codes, return_index=True)
    return series.iloc[np.sort(firsts)].reset_index(drop=True)


def counted(values: Any, counts: npt.NDArray[np.int64], *, normalize: bool, sort: bool, ascending: bool) -> Any:
    example = values.value_counts(sort=False, dropna=False)  # whose order and dtype the library decides
    # Where each of them is among the values. Not by an index, which would decode bytes that are not UTF-8.
    values_twice = pd.concat([values, pd.Series(example.index, dtype=values.dtype)], ignore_index=True)
    codes, _ = pd.factorize(values_twice, use_na_sentinel=False)
    positions = np.empty(len(values), np.int64)
    positions[codes[: len(values)]] = np.arange(len(values))
    counts_in_order = counts[positions[codes[len(values) :]]]
    result = pd.Series(counts_in_order, index=example.index, name="proportion" if normalize else "count").astype(
        example.dtype
    )
    if sort:
        result = result.sort_values(ascending=ascending, kind="stable")
    return result / result.sum() if normalize else result


def scalars(series: Any) -> list[Any]:
    """The values of a short Series."""
    return list(series)


def sample(values: Sequence[str | None], dtype: Any, kind: Any, stored: dict[str, Any] | None) -> Any:
    del kind, stored
    return pd.Series(values, dtype=dtype)


def mode() -> Any:
    return None


def like(series: Any, pat: str, esc: str | None = None) -> Any:
    matches = pc.match_substring_regex(_as_arrow(series).cast(pa.large_binary()), expression_of(pat, esc))
    return _as_method(series, matches, lambda strings: strings.str.contains("a", regex=False))


def byte_count(series: Any) -> Any:
    """Bytes of strings, in UTF-8; dtype and missing values are those of ``str.len``."""
    return _as_method(series, pc.binary_length(_as_arrow(series)), lambda strings: strings.str.len())


def _as_method(series: Any, array: Any, method: Callable[[Any], Any]) -> Any:
    """A Series of an Arrow array, with the dtype and the missing values that a method would give it."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    nulls, has_values = array.null_count > 0, array.null_count < len(array)
    example = method(pd.Series(["a"] * has_values + [None] * nulls, dtype=series.dtype))
    values = array.fill_null(pa.scalar(0).cast(array.type)).to_numpy(zero_copy_only=False).copy()
    column = ColumnBuffers(array.type, len(array), array.null_count, values=values)
    if nulls:
        column.validity = np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return answers(column, example.dtype, example.iloc[-1] if nulls else None, series.name, series.index)


def is_frame(value: Any) -> bool:
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
        kind = dtypes.arrow_type(series.dtype)
        buffers = ColumnBuffers(kind, strings.rows, strings.null_count, strings=strings)
        return buffers, kind, dtypes.encode_dtype(series.dtype)
    array, stored = encode_column(series)
    return arrow_columns.describe(array), array.type, stored


def build(column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None, *, nullable: bool = False) -> Any:
    if nullable and not column.null_count and _depends_on_nulls(kind, stored):
        whole = pa.chunked_array([*to_chunked(column, kind).chunks, pa.nulls(1, kind)], kind)
        return decode_column(whole, stored).iloc[:-1].copy()
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if stored is None and plain and column.values is not None and not column.null_count:
        # Not through Arrow, whose arrays cannot be written to.
        return pd.Series(column.values.view(kind.to_pandas_dtype()), copy=False)
    values = decode_column(to_chunked(column, kind), stored)
    behind = getattr(values.array, "_ndarray", None)
    return values if behind is None or behind.flags.writeable else values.copy()


def to_chunked(column: ColumnBuffers, kind: Any) -> Any:
    """A ChunkedArray of what `describe` gave."""
    array = arrow_columns.rebuild(column, kind)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def describe_index(index: Any) -> tuple[dict[str, Any], list[tuple[ColumnBuffers, Any]]]:
    """Notes on an index' kind, names and dtypes, and buffers and types of its levels (none of a RangeIndex)."""
    notes, columns = indexes.describe_index(index)
    return notes, [(arrow_columns.describe(column), column.type) for column in columns]


def _depends_on_nulls(kind: Any, stored: dict[str, Any] | None) -> bool:
    """Whether the dtype that pandas has for a column depends on whether it has nulls."""
    return (stored is None or stored["kind"] == "cudf") and dtypes.has_integers(kind)


def build_index(notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, bool]]) -> Any:
    columns = [to_chunked(column, kind) for column, kind, _ in levels]
    if not any(nullable and not column.null_count and dtypes.has_integers(kind) for column, kind, nullable in levels):
        return indexes.assemble_index(notes, columns)
    longer = [pa.chunked_array([*column.chunks, pa.nulls(1, column.type)], column.type) for column in columns]
    return indexes.assemble_index(notes, longer)[:-1]


def frame(columns: Sequence[Any], labels: Any, index: Any) -> Any:
    """A DataFrame of Series, the labels of its columns, and an index."""
    for series in columns:
        series.index = index
    # By number, lest two columns of the same name become one.
    result = pd.DataFrame(dict(enumerate(columns)), index=index, copy=False)
    result.columns = labels
    return result


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
    if dtype is not None and isinstance(column.strings, HostStrings):
        if column.rows == 0:
            return empty(dtype, name, index)
        return to_series(column.strings, dtype, name, index)
    values = build(column, kind, stored, nullable=nullable)
    return values.rename(name) if index is None else series(values, name, index)


def same(left: Any, right: Any) -> bool:
    return bool(left.equals(right))


def columns(data: Any) -> list[Any]:
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
