"""Compressed columns and frames of what speaks Arrow, and of Arrow's tables that carry them compressed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import pyarrow as pa

from . import index as indexes
from .backend import HostBackend
from .column import CompressedColumn
from .frame import CompressedFrame
from .interop import arrow_columns, arrow_extension, schema
from .joining import Compressor, concat
from .naming import naming

#: Rows that are compressed together.
_PIECE_ROWS = 1 << 20
_DEVICES = ("auto", "cpu", "gpu")

#: Types of Polars.
_NOT_IN_ARROW = ("Object", "Int128", "UInt128")


def compress(
    data: Any, *, codecs: Mapping[Any, str] | str | None = None, level: str = "default", device: str = "auto"
) -> CompressedColumn | CompressedFrame:
    """Compress a table or a column of any library that speaks Arrow: Polars, DuckDB, pyarrow, pandas, cuDF.

    Streams are read, and compressed, 1,048,576 rows at a time, and pieces are put together as `concat` does it. So the
    result does not depend on how batches were cut.

    Parameters
    ----------
    data
        A DataFrame or Series of pandas or cuDF. Or what has ``__arrow_c_stream__`` or ``__arrow_c_array__``: a
        DataFrame or Series of Polars, a relation of DuckDB, a Table, RecordBatchReader, RecordBatch, ChunkedArray or
        Array of pyarrow.
    codecs : mapping or str, optional
        Of a table, codecs by column, as in ``df.fsst.compress()``. Of a column, its codec.
    level : str
        As in ``df.fsst.compress()``.
    device : str
        Where the result is: ``"cpu"``, ``"gpu"``, or ``"auto"``, where the data is.

    Returns
    -------
    CompressedColumn or CompressedFrame
        Columns keep Arrow's types exactly, as `pandas.ArrowDtype`. A table that pandas has made brings pandas' dtypes
        and index.

    Raises
    ------
    TypeError
        Something else, or a column of a type that cannot be compressed, which is named.
    ValueError
        Arrow data that is damaged; `level`, `device` or a codec that there is not.
    KeyError
        `codecs` names a column that there is not.
    """
    if device not in _DEVICES:
        raise ValueError(f"device must be one of {_DEVICES}, not {device!r}")
    if isinstance(data, (CompressedColumn, CompressedFrame)):
        raise TypeError(f"this is compressed already: a {type(data).__name__}")
    _check_polars(data)
    compressed: Any
    table = None
    if type(data).__module__.partition(".")[0] in ("pandas", "cudf") and hasattr(data, "fsst"):
        pieces = iter([data])
    elif isinstance(data, (pa.Array, pa.ChunkedArray)):
        pieces = _series(pa.chunked_array([data]) if isinstance(data, pa.Array) else data, None)
    elif (table := _reader(data)) is not None:
        pieces = _tables(table)
    elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        array = pa.chunked_array(data) if hasattr(data, "__arrow_c_stream__") else pa.chunked_array([pa.array(data)])
        pieces = _series(array, getattr(data, "name", None))
    else:
        what = "a DataFrame, a Series, or what has __arrow_c_stream__ or __arrow_c_array__"
        raise TypeError(f"expected {what}, not {type(data).__name__}")
    compressor: Compressor | None = None
    for piece in pieces:
        if compressor is None:
            if hasattr(piece, "columns"):
                if codecs is not None and not isinstance(codecs, Mapping):
                    raise TypeError(f"codecs of a table must be a dict of columns and codecs, not {codecs!r}")
                compressor = Compressor(codecs=codecs, level=level)
            else:
                if codecs is not None and not isinstance(codecs, str):
                    raise TypeError(f"codecs of a column must be the name of one, not {codecs!r}")
                compressor = Compressor(codec=codecs, level=level)
        compressor.append(piece)
    assert compressor is not None
    compressed = compressor.finish()
    if isinstance(compressed, CompressedFrame) and table is not None:
        noted = _noted_range(table.schema)
        if noted is not None and len(noted) != len(compressed):  # of other rows: to pandas, too, it says nothing
            compressed = compressed.reset_index(drop=True)
    if device == "auto" or device == compressed.device.partition(":")[0].replace("cuda", "gpu"):
        return compressed
    return compressed.to_host() if device == "cpu" else compressed.to_device()


def _check_polars(data: Any) -> None:
    """Raise TypeError where Polars has values that Arrow cannot carry: of objects it would give the addresses."""
    if type(data).__module__.partition(".")[0] != "polars" or not hasattr(data, "__arrow_c_stream__"):
        return  # a LazyFrame has no rows yet
    columns = data.schema.items() if hasattr(data, "schema") else [(data.name, data.dtype)]
    for name, dtype in columns:
        dtypes = [dtype]
        while dtypes:
            inner_dtype = dtypes.pop()
            if str(inner_dtype.base_type()) in _NOT_IN_ARROW:
                raise TypeError(f"column {name!r}: Arrow has no type for {inner_dtype} of Polars")
            dtypes += [field.dtype for field in getattr(inner_dtype, "fields", ())]
            dtypes += [inner_dtype.inner] if getattr(inner_dtype, "inner", None) is not None else []


def _reader(data: Any) -> Any:
    """Batches of a table, or None of something else."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    # A Series of structs streams what could be a table.
    if not hasattr(data, "__arrow_c_stream__") or (hasattr(data, "name") and not hasattr(data, "columns")):
        return None
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, TypeError):  # a stream of arrays that are no rows of a table
        return None


def _tables(reader: Any) -> Iterator[Any]:
    """DataFrames of so many rows each, whose columns are Arrow's."""
    for field in reader.schema:
        if isinstance(field.type, arrow_extension.ColumnType):
            raise TypeError(f"column {field.name!r} is compressed already; from_arrow() takes it")
    # What pandas noted says its own dtypes.
    mapper = None if reader.schema.pandas_metadata else pd.ArrowDtype
    batches: list[Any] = []
    rows, first_row = 0, 0
    without_rows: list[Any] = []  # which has the categories
    for batch in reader:
        without_rows = [batch[:0]] if not first_row else []
        while batch.num_rows:
            part = batch.slice(0, _PIECE_ROWS - rows)
            batch = batch.slice(part.num_rows)
            batches.append(part)
            rows += part.num_rows
            if rows == _PIECE_ROWS:
                yield _frame_of(batches, reader.schema, mapper, first_row)
                batches, rows, first_row = [], 0, first_row + rows
    if batches or not first_row:
        yield _frame_of(batches or without_rows, reader.schema, mapper, first_row)


def _noted_range(kind: Any) -> pd.RangeIndex | None:
    """The index that pandas has noted in a schema, if it is a range alone."""
    match kind.pandas_metadata:
        case {"index_columns": [{"kind": "range", "start": start, "stop": stop, "step": step, "name": name}]}:
            return pd.RangeIndex(start, stop, step, name=name)
    return None


def _frame_of(batches: Sequence[Any], kind: Any, mapper: Any, first_row: int) -> Any:
    """The rows from number `first_row` on as a DataFrame."""
    table = pa.Table.from_batches(batches, kind)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        with naming(f"column {name!r}"):
            arrow_columns.check(column)  # before pandas looks at it
            column = arrow_columns.without_null_values(column)
            with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # in lists; they may be one already
                column = column.unify_dictionaries()
            columns.append(column)
    if columns:  # or there would be no rows
        table = pa.Table.from_arrays(columns, schema=table.schema)
    frame = table.to_pandas(types_mapper=mapper)
    if isinstance(frame.index, pd.RangeIndex):  # labels go on from piece to piece
        noted, stop = _noted_range(kind), first_row + len(frame)
        frame.index = pd.RangeIndex(first_row, stop) if noted is None or len(noted) < stop else noted[first_row:stop]
    return frame


def _series(array: Any, name: Any) -> Iterator[Any]:
    """Series of so many rows each."""
    for start in range(0, max(len(array), 1), _PIECE_ROWS):
        part = array.slice(start, _PIECE_ROWS)
        labels = pd.RangeIndex(start, start + len(part))
        name = name if isinstance(name, str) else None
        yield pd.Series(pd.arrays.ArrowExtensionArray(part), labels, name=name, copy=False)


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
        raise TypeError(f"Arrow type {array.type} is no cudf_fsst.column; cudf_fsst.compress() compresses values")
    if not values:
        raise ValueError("an array without values holds no column")
    missing = [number for number, value in enumerate(values) if value is None]
    if missing:
        raise ValueError(f"value {missing[0]} is missing")
    columns = [CompressedColumn._from_bytes(value) for value in values]
    return columns[0] if len(columns) == 1 else concat(columns)


def _frame(columns: Sequence[CompressedColumn], noted: Any, noted_rows: int) -> CompressedFrame:
    rows = {len(column) for column in columns}
    if len(rows) > 1:
        raise ValueError(f"the columns have different numbers of rows: {', '.join(map(str, sorted(rows)))}")
    names = [column.name for column in columns]
    # Of a table whose columns were chosen anew, what was noted of all of them says nothing.
    labels_fit = noted is not None and list(noted) == names
    labels = noted if labels_fit else pd.Index(names, tupleize_cols=False)
    backend, count = HostBackend(), max(rows, default=noted_rows)
    index = indexes.compress(pd.RangeIndex(count), backend)
    return CompressedFrame._make(backend, [column._content for column in columns], labels, index)
