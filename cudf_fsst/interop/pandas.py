"""pandas Series and Index of strings <-> `HostStrings`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..buffers import HostStrings
from .arrow import decoding, from_arrow, is_string_type, to_arrow

#: What the accessor's error says it wants.
WANTED = "string values (dtype str, string, object holding only strings, or an Arrow string type)"


def is_string_dtype(dtype: Any) -> bool:
    """Whether a column can have this dtype; of ``object``, the values decide as well."""
    if isinstance(dtype, pd.ArrowDtype):
        return is_string_type(dtype.pyarrow_dtype)
    return isinstance(dtype, pd.StringDtype) or is_object(dtype)


def is_object(dtype: Any) -> bool:
    """Whether a dtype is numpy's ``object``."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def check_dtype(data: Any) -> None:
    """Raise AttributeError, naming the dtype, where a Series or Index does not hold strings."""
    dtype = data.dtype
    if isinstance(data, pd.MultiIndex) or not is_string_dtype(dtype):
        shown = type(data).__name__ if isinstance(data, pd.MultiIndex) else dtype
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {shown}")
    if is_object(dtype):
        found = pd.api.types.infer_dtype(data, skipna=True)
        if found not in ("string", "empty"):
            # A missing value that the inference does not skip (NaT) must not decide.
            found = pd.api.types.infer_dtype(data[data.notna()], skipna=True)
        if found not in ("string", "empty"):
            raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not object holding {found} values")


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


@contextmanager
def open_strings(data: Any) -> Iterator[HostStrings]:
    """Buffers of a Series or Index that passed `check_dtype`; views of the data's own where it keeps Arrow buffers."""
    yield from_arrow(_as_arrow(data))


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
    """Wrap an Arrow string array as a Series of ArrowDtype, without a copy."""
    if not is_string_type(array.type):
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {array.type}")
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
