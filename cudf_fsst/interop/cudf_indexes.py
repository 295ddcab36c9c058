"""Indexes of cuDF: their labels, and what a stored index says of them. What is private in cuDF is listed in `cudf`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from ..buffers import ColumnBuffers
from .cudf_columns import build, dtype_notes
from .indexes import frequency_name
from .names import decode_name, encode_name


def labels(data: Any) -> tuple[Any, Any]:
    import cudf

    if isinstance(data, cudf.Index):
        return data.name, cudf.RangeIndex(len(data))
    return data.name, data.index


def view(index: Any) -> Any:
    # cuDF itself hands out the very index of a Series.
    return index.copy(deep=False)


def range_of(index: Any) -> list[int] | None:
    """Start, stop and step of a RangeIndex; None for another index."""
    import cudf

    if not isinstance(index, cudf.RangeIndex):
        return None
    return [index.start, index.stop, index.step]


def with_names(index: Any, names: Sequence[Any]) -> Any:
    index.names = names
    return index


def with_level_dtypes(index: Any, dtypes: Sequence[Any]) -> Any:
    import cudf

    levels = [
        column if dtype is None else column.astype(dtype) for column, dtype in zip(index._columns, dtypes, strict=True)
    ]
    if len(levels) == 1:
        return cudf.Index._from_column(levels[0], name=index.name)
    names, index = list(index.names), cudf.MultiIndex._from_data(dict(enumerate(levels)))
    return with_names(index, names)


def index_to_device(index: Any) -> Any:
    """An index of cuDF with the labels of pandas', without a frequency that cuDF does not have, as business days."""
    import cudf

    try:
        return cudf.from_pandas(index)
    except ValueError:
        if getattr(index, "freq", None) is None:
            raise
    plain = index.copy(deep=True)
    plain.freq = None
    return cudf.from_pandas(plain)


def take_labels(index: Any, rows: Any) -> Any:
    import cudf

    if isinstance(index, cudf.RangeIndex):
        # cuDF would make, and keep, the labels of all rows first.
        if (index.start, index.step) != (0, 1):
            rows = index.start + index.step * rows
        if rows.size and rows.dtype == np.int64:
            return cudf.Index._from_column(_column_of(rows), name=index.name)
        import cupy

        return cudf.Index(cupy.asarray(rows), name=index.name)
    return index.take(rows)


def _column_of(numbers: Any) -> Any:
    """A column of int64, which share an array on the GPU, or come there by one copy; cuDF would look at the array."""
    import pylibcudf as plc
    from cudf.core.column import ColumnBase

    if isinstance(numbers, np.ndarray):
        from ..device.memory import Lane

        with Lane() as lane:
            buffer = lane.allocate(numbers.nbytes)
            lane.upload(buffer.ptr, np.ascontiguousarray(numbers))
    else:
        import cupy

        buffer = plc.gpumemoryview(cupy.ascontiguousarray(numbers))
    column = plc.Column(plc.DataType(plc.TypeId.INT64), numbers.size, buffer, None, 0, 0, [])
    return ColumnBase.create(column, np.dtype(np.int64))


def column_of(values: Any, dtype: Any) -> Any:
    """A column of an array in host memory, of a dtype of numbers, NumPy's or pandas' nullable ones."""
    import pylibcudf as plc
    from cudf.core.column import ColumnBase

    plain = values.astype(getattr(dtype, "numpy_dtype", dtype))
    return ColumnBase.create(plc.Column.from_array(np.ascontiguousarray(plain)), dtype)


def concat_labels(names: Sequence[Any], indexes: Sequence[Any]) -> tuple[Any, Any]:
    """Name and index of ``cudf.concat`` of Series with these names and indexes."""
    import cudf
    import cupy

    # cuDF itself decides, on rows of one byte.
    parts = [
        cudf.Series(cupy.zeros(len(index), np.int8), index=index, name=name)
        for name, index in zip(names, indexes, strict=True)
    ]
    joined = cudf.concat(parts)
    return joined.name, joined.index


def index_of_codes(codes: Sequence[Any], values: Sequence[Any], dtypes: Sequence[Any], names: Sequence[Any]) -> Any:
    """An index of codes of values, one behind the last of missing ones, with levels of these dtypes."""
    import cudf

    levels = [
        level_values._column.take(column_of(level_codes.astype(np.int32), np.dtype(np.int32)), nullify=True).astype(
            dtype
        )
        for level_codes, level_values, dtype in zip(codes, values, dtypes, strict=True)
    ]
    if len(levels) == 1:
        return cudf.Index._from_column(levels[0], name=names[0])
    return with_names(cudf.MultiIndex._from_data(dict(enumerate(levels))), list(names))


def describe_index(index: Any) -> tuple[dict[str, Any], list[Any]]:
    """Notes on an index' kind, names and dtypes, and its levels as columns (none of a RangeIndex)."""
    import cudf

    names = [encode_name(name) for name in index.names]
    if isinstance(index, cudf.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}, []
    multi = isinstance(index, cudf.MultiIndex)
    levels = [view(index)]
    if multi:
        index = levels.pop()
        # A level is found by its name first, which may be a number, and only names that differ replace older ones.
        index.names = [f"level {i}" for i in range(index.nlevels)]
        levels = [index.get_level_values(name) for name in index.names]
    columns = [level._column for level in levels]
    dtypes = [dtype_notes(column.dtype) for column in columns]
    freqs = [None if multi else frequency_name(getattr(level, "freq", None)) for level in levels]
    return {"names": names, "multi": multi, "dtypes": dtypes, "freqs": freqs}, columns


def build_index(notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, bool]]) -> Any:
    """An index of what `describe_index` gave or a host frame holds."""
    import cudf

    names = [decode_name(name) for name in notes["names"]]
    if "range" in notes:
        start, stop, step = notes["range"]
        return cudf.RangeIndex(start, stop, step, name=names[0])
    series = [
        cudf.Series._from_column(build(buffers, kind, stored))
        for (buffers, kind, _), stored in zip(levels, notes["dtypes"], strict=True)
    ]
    if not notes["multi"]:
        index = cudf.Index(series[0], name=names[0])
        freq = pd.tseries.frequencies.to_offset(notes["freqs"][0])
        if freq is not None and isinstance(index, cudf.DatetimeIndex):
            with suppress(ValueError):  # of one that cuDF does not have, as business days
                # Its constructor would look at all labels, and refuse months of several lengths.
                index = cudf.DatetimeIndex._from_column(index._column, name=names[0], freq=freq)
        return index
    index = cudf.MultiIndex.from_frame(cudf.DataFrame(dict(enumerate(series))))
    index.names = names
    return index
