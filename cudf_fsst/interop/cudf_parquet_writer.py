"""Pieces of columns on a GPU as a Parquet file, by libcudf's chunked writer."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from ..buffers import ColumnBuffers
from . import parquet_times
from .cudf_columns import plain_column

_types = pa.types
#: Most bytes of a page, and of a dictionary, which is one page; libcudf's own are 512 KiB and 1 MiB. A warp compresses
#: a page, so a piece waits for its largest: 92 ms of lineitem's (Snappy, H200), 19 with these. The file is 6 % larger.
_PAGE_NBYTES = 128 << 10
#: What users call a compression, and pylibcudf.
_COMPRESSIONS = {None: "NONE", "none": "NONE", "snappy": "SNAPPY", "zstd": "ZSTD"}


def writes(types: Sequence[pa.DataType], compression: Any) -> bool:
    """Whether libcudf writes all columns as pyarrow does."""
    if compression is not None and not isinstance(compression, str):
        return False
    known = compression if compression is None else compression.lower()
    return known in _COMPRESSIONS and bool(types) and all(map(_writes, types))


def _writes(kind: pa.DataType) -> bool:
    simple = (_types.is_integer, _types.is_boolean, _types.is_string, _types.is_large_string, _types.is_timestamp)
    floats = kind in (pa.float32(), pa.float64())
    return floats or kind == pa.date32() or _is_decimal(kind) or any(is_simple(kind) for is_simple in simple)


class ParquetWriter:
    """A Parquet file that is being written; use it as a context.

    Parameters
    ----------
    sink : io.RawIOBase
        What is to have the bytes. What it raises is lost in libcudf, so it keeps that.
    fields : pyarrow.Schema
        Of all columns, with the notes of pandas.
    compression : str or None
        One that `writes` knows.
    group_rows : int
        Rows of a row group.
    """

    def __init__(self, sink: Any, fields: pa.Schema, compression: str | None, group_rows: int) -> None:
        self._sink, self._fields, self._group_rows = sink, fields, group_rows
        self._compression = _COMPRESSIONS[compression if compression is None else compression.lower()]
        self._writer: Any = None
        self._options: Any = None  # which hold what libcudf writes to

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close([])
            self._writer = None

    def write(self, columns: Sequence[ColumnBuffers]) -> None:
        """Write rows of all columns."""
        import pylibcudf as plc

        plc_columns = [_column(buffers, field.type) for buffers, field in zip(columns, self._fields, strict=True)]
        table = plc.Table(plc_columns)
        if self._writer is None:
            self._writer = self._begin(table)
        self._writer.write(table)

    def _begin(self, table: Any) -> Any:
        import pylibcudf as plc

        metadata = plc.io.types.TableInputMetadata(table)
        for field, column_metadata in zip(self._fields, metadata.column_metadata, strict=True):
            column_metadata.set_name(field.name)
            column_metadata.set_nullability(True)
            if _is_decimal(field.type):
                column_metadata.set_decimal_precision(field.type.precision)
        # pyarrow's own note of types that Parquet does not have, and those that are noted beside it.
        notes = {key.decode(): value.decode() for key, value in (self._fields.metadata or {}).items()}
        notes["ARROW:schema"] = base64.b64encode(self._fields.serialize().to_pybytes()).decode()
        self._options = (
            plc.io.parquet.ChunkedParquetWriterOptions.builder(plc.io.types.SinkInfo([self._sink]))
            .metadata(metadata)
            .key_value_metadata([notes])
            .compression(getattr(plc.io.types.CompressionType, self._compression))
            .stats_level(plc.io.types.StatisticsFreq.STATISTICS_ROWGROUP)
            .row_group_size_bytes(1 << 40)
            .row_group_size_rows(self._group_rows)
            .max_page_size_bytes(_PAGE_NBYTES)
            .max_dictionary_size(_PAGE_NBYTES)
            .write_arrow_schema(False)
            .build()
        )
        return plc.io.parquet.ChunkedParquetWriter.from_options(self._options)


def make_local(path: str, fields: pa.Schema) -> None:
    """Note in a file that `ParquetWriter` has written which times have no zone."""
    local = {field.name for field in fields if _types.is_timestamp(field.type) and field.type.tz is None}
    if local:
        with open(path, "r+b") as file:
            parquet_times.make_local(file, lambda name: name in local)


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(_types.is_decimal(kind)) and not _types.is_decimal256(kind)


def _column(buffers: ColumnBuffers, kind: pa.DataType) -> Any:
    """A column of libcudf's, of a type that Parquet has.

    Of seconds milliseconds, as pyarrow writes them, and decimals as narrow as their precision allows, so that cuDF
    reads the dtype that it reads of pyarrow's file.
    """
    import pylibcudf as plc

    column = plain_column(buffers, kind)
    if _types.is_timestamp(kind) and kind.unit == "s":
        return plc.unary.cast(column, plc.DataType(plc.TypeId.TIMESTAMP_MILLISECONDS))
    if _is_decimal(kind):
        bits = 32 if kind.precision <= 9 else 64 if kind.precision <= 18 else 128
        decimal_type = plc.DataType(getattr(plc.TypeId, f"DECIMAL{bits}"), -kind.scale)
        return column if column.type() == decimal_type else plc.unary.cast(column, decimal_type)
    return column
