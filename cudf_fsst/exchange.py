"""Compressed columns and frames out of Arrow's arrays and tables that carry them compressed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import pyarrow as pa

from . import index as indexes
from .backend import HostBackend
from .column import CompressedColumn
from .frame import CompressedFrame
from .interop import arrow_extension, schema
from .joining import concat
from .naming import naming


def from_arrow(data: Any) -> CompressedColumn | CompressedFrame:
    """The column, or frame, that ``to_arrow(compressed=True)`` made an array, or a table, of.

    What went through Arrow's IPC or Flight, or through Parquet files of other programs, comes back without being
    encoded again. All of it is checked before it is used, as by `load`.

    Parameters
    ----------
    data : pyarrow.Array, ChunkedArray, RecordBatch or Table, or what has ``__arrow_c_stream__``
        Of the extension type ``cudf_fsst.column``, or of binary values where another program has dropped its name.
        Several values of an array, or rows of a table, are put together as `concat` does it.

    Returns
    -------
    CompressedColumn or CompressedFrame
        In host memory: of an array a column, of a table a frame with its columns and a RangeIndex.

    Raises
    ------
    TypeError
        Something else; a column of a table is named.
    ValueError
        Damaged bytes, a missing value, no value at all, or columns of a table that do not have the same rows.
    """
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return _column(data)
    if isinstance(data, pa.RecordBatch) or (hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.Table)):
        with suppress(pa.ArrowInvalid):  # a stream of something else than tables
            data = pa.table(data)
    if not isinstance(data, pa.Table):
        raise TypeError(f"expected an array or a table of Arrow's, not {type(data).__name__}")
    columns = []
    for name, array in zip(data.column_names, data.columns, strict=True):
        with naming(f"column {name!r}"):
            columns.append(_column(array))
    return _frame(columns, *schema.labels_of(data.schema))


def _column(array: Any) -> CompressedColumn:
    values = arrow_extension.values_of(array)
    if values is None:
        raise TypeError(f"Arrow type {array.type} is no cudf_fsst.column; series.fsst.compress() compresses values")
    if not values:
        raise ValueError("an array without values holds no column")
    missing = [number for number, value in enumerate(values) if value is None]
    if missing:
        raise ValueError(f"value {missing[0]} is missing")
    found = [CompressedColumn._from_bytes(value) for value in values]
    return found[0] if len(found) == 1 else concat(found)


def _frame(columns: Sequence[CompressedColumn], noted: Any, noted_rows: int) -> CompressedFrame:
    rows = {len(column) for column in columns}
    if len(rows) > 1:
        raise ValueError(f"the columns have different numbers of rows: {', '.join(map(str, sorted(rows)))}")
    names = [column.name for column in columns]
    # Of a table whose columns were chosen anew, what was noted of all of them says nothing.
    kept = noted is not None and list(noted) == names
    labels = noted if kept else pd.Index(names, tupleize_cols=False)
    backend, count = HostBackend(), max(rows, default=noted_rows)
    index = indexes.compress(pd.RangeIndex(count), backend)
    return CompressedFrame._make(backend, [column._content for column in columns], labels, index)
