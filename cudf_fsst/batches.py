"""What is compressed as Arrow's tables, a bounded piece at a time: for Arrow's C streams and for Parquet files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from . import selection
from .backend import Backend, HostBackend
from .codecs.node import Content, Node
from .files.disk import WrittenBehind, folder_of, writing
from .index import CompressedIndex
from .interop import arrow_columns, cudf_parquet_writer, schema
from .interop import pandas as interop_pandas
from .interop.arrow import table_of
from .progress import Progress
from .remote import is_file_object, located

#: Arrow bytes of a piece, about; of a Parquet file's row group.
PIECE_NBYTES = 64 << 20
#: Rows of a piece are a multiple of this.
_PIECE_ROWS = 1024
#: Pieces of a frame that a GPU writes: each takes libcudf up to 2.7 times its own memory, and a call may have an eighth
#: of the frame, or 64 MiB. lineitem of scale factor 10 on an H200, GB/s of
#: whole calls: 2.2 as libcudf writes them to a path, 3.9 where threads write to the disk beside it (`WrittenBehind`)
#: and pages are smaller.
_GPU_PIECES, _GPU_PIECE_NBYTES, _GPU_MORE = 22, 25 << 20, 8
#: Most rows of a row group that a GPU writes: libcudf's own choice, with which it takes 10 % less time than with half.
_GPU_GROUP_ROWS = 1 << 20
#: Pieces begin where a word of the validity does.
_GPU_UNIT = 32


def pieces(contents: Sequence[Content], rows: int) -> list[tuple[int, int]]:
    """Row ranges of about `PIECE_NBYTES`; one without rows where there are none."""
    nbytes = sum(content.node.uncompressed_nbytes for content in contents)
    return selection.row_pieces(rows, nbytes, PIECE_NBYTES, _PIECE_ROWS) or [(0, 0)]


def arrays(contents: Sequence[Content], start: int, stop: int) -> list[Any]:
    """Rows of columns in host memory, a ChunkedArray each."""
    read = HostBackend().read([content.node for content in contents], start, stop)
    return [interop_pandas.to_chunked(buffers, content.type) for buffers, content in zip(read, contents, strict=True)]


def reader(contents: Sequence[Content], fields: Any, rows: int) -> Any:
    """A pyarrow.RecordBatchReader of columns in host memory, which are decoded as it is read.

    Parameters
    ----------
    fields : pyarrow.Schema
    """

    def batches() -> Iterator[Any]:
        for start, stop in pieces(contents, rows):
            yield from table_of(arrays(contents, start, stop), fields, stop - start).to_batches()

    return pa.RecordBatchReader.from_batches(fields, batches())


class ParquetOptions(NamedTuple):
    """How a Parquet file is written; see `CompressedFrame.to_parquet`."""

    compression: Any
    keep_index: bool | None = None
    row_group_size: int | None = None
    partition_cols: Sequence[Any] | None = None
    storage_options: Mapping[str, Any] | None = None


def write_parquet(
    path: Any,
    contents: Sequence[Content],
    labels: Any,
    dtypes: Sequence[Any],
    index: CompressedIndex,
    options: ParquetOptions,
) -> None:
    """Write columns in host memory as Parquet, piece by piece; see `CompressedFrame.to_parquet`."""
    rows = len(index)
    levels = _Levels(index, options.keep_index)
    fields = _schema(contents, labels, dtypes, levels)
    written = [*contents, *levels.contents]
    ranges = pieces(written, rows)
    if (size := options.row_group_size) is not None:
        nbytes = sum(content.node.uncompressed_nbytes for content in written)
        ranges = selection.row_pieces(rows, nbytes, max(PIECE_NBYTES, nbytes * size // max(rows, 1)), size) or [(0, 0)]

    def tables() -> Iterator[Any]:
        with Progress("writing Parquet", len(ranges)) as progress:
            for start, stop in ranges:
                columns = [*arrays(contents, start, stop), *levels.arrays(start, stop)]
                yield pa.Table.from_arrays(columns, schema=fields)
                progress.step()

    if options.partition_cols is not None:
        _write_partitioned(path, tables(), fields, labels, options)
        return
    with (
        writing(path, options.storage_options, sync=False) as unfinished,
        _writer(unfinished, fields, options.compression) as writer,
    ):
        for table in tables():
            writer.write_table(table, row_group_size=max(size or len(table), 1))


def _write_partitioned(path: Any, tables: Iterator[Any], fields: Any, labels: Any, options: ParquetOptions) -> None:
    """Write tables into files of folders like ``year=2026``, all of them when all are complete."""
    import pyarrow.dataset as ds  # which takes long to import

    key_labels = options.partition_cols or []
    for label in key_labels:
        if label not in labels:
            raise KeyError(f"partition_cols names a column that the frame does not have: {label!r}")
    if len(set(key_labels)) < len(key_labels):
        raise ValueError(f"partition_cols names a column twice: {list(key_labels)}")
    if key_labels and len(key_labels) >= len(labels):
        raise ValueError("partition_cols names all columns; no data is left to save")
    place = located(path, options.storage_options)
    if is_file_object(path):
        raise ValueError(f"partition_cols needs a folder, not a {type(path).__name__}")
    format_ = ds.ParquetFileFormat()
    try:
        file_options = format_.make_write_options(compression=options.compression)
    except pa.ArrowException as error:
        raise ValueError(f"compression {options.compression!r}: {error}") from error
    keys = pa.schema([fields.field(str(label)) for label in key_labels])
    places = [fields.get_field_index(name) for name in keys.names if pa.types.is_floating(keys.field(name).type)]

    def with_nulls(table: Any) -> Any:
        """The table with nulls for NaN in what names folders, as pandas has it."""
        for place in places:
            values = pc.if_else(pc.is_nan(table.column(place)), None, table.column(place))
            table = table.set_column(place, fields.field(place), values)
        return table

    batches_ = (batch for table in tables for batch in with_nulls(table).to_batches())
    with folder_of(place) as unfinished:
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(fields, batches_),
            unfinished,
            basename_template=f"{uuid.uuid4().hex}-{{i}}.parquet",
            format=format_,
            file_options=file_options,
            partitioning=ds.partitioning(keys, flavor="hive"),
            max_rows_per_group=options.row_group_size or 1 << 20,
            existing_data_behavior="overwrite_or_ignore",
        )


def writes_on_gpu(contents: Sequence[Content], compression: Any) -> bool:
    """Whether libcudf writes columns to Parquet as pyarrow does."""
    return cudf_parquet_writer.writes([content.type for content in contents], compression)


def write_parquet_on_gpu(
    path: Any,
    backend: Backend,
    contents: Sequence[Content],
    labels: Any,
    dtypes: Sequence[Any],
    levels: Sequence[Content],
    index: CompressedIndex,
    options: ParquetOptions,
) -> None:
    """`write_parquet` of columns on a GPU, by libcudf, which `writes_on_gpu`.

    Parameters
    ----------
    dtypes
        Those of the columns in host memory.
    levels, index
        Levels of the index on the GPU, none of a RangeIndex; and the index in host memory.
    """
    rows, written = len(index), [*contents, *levels]
    fields = _schema(contents, labels, dtypes, _Levels(index, options.keep_index))
    nodes, nbytes = [content.node for content in written], sum(content.node.uncompressed_nbytes for content in written)
    count = max(min(_GPU_PIECES, -(-nbytes // _GPU_PIECE_NBYTES)), 1)
    try:
        _write_pieces_on_gpu(path, backend, nodes, rows, count, fields, options)
    except MemoryError:
        _write_pieces_on_gpu(path, backend, nodes, rows, _GPU_MORE * count, fields, options)


def _write_pieces_on_gpu(
    path: Any,
    backend: Backend,
    nodes: Sequence[Node],
    rows: int,
    count: int,
    fields: Any,
    options: ParquetOptions,
) -> None:
    """Write rows of columns on a GPU in about so many pieces, each of whole row groups."""
    step, group_rows = _cut(rows, count, options.row_group_size)
    with (
        backend.current(),
        writing(path, options.storage_options, sync=False) as unfinished,
        Progress("writing Parquet", -(-rows // step)) as progress,
        WrittenBehind(unfinished) as sink,
    ):
        with cudf_parquet_writer.ParquetWriter(sink, fields, options.compression, group_rows) as writer:
            for start in range(0, max(rows, 1), step):
                writer.write(backend.read(nodes, start, min(start + step, rows)))
                sink.check()
                progress.step()
        sink.finish()
        cudf_parquet_writer.make_local(unfinished.name, fields)


def _cut(rows: int, count: int, row_group_size: int | None) -> tuple[int, int]:
    """Rows of each of so many pieces, and of its row groups: of equal ones, or of those that the user wants."""
    step = max(-(-rows // count), 1)
    if row_group_size is not None:
        return max(step // row_group_size, 1) * row_group_size, row_group_size
    step = -(-step // _GPU_UNIT) * _GPU_UNIT
    return step, -(-step // -(-step // _GPU_GROUP_ROWS))


def _writer(path: Any, fields: Any, compression: Any) -> Any:
    import pyarrow.parquet as pq  # which takes long to import

    try:
        return pq.ParquetWriter(path, fields, compression=compression)
    except pa.ArrowException as error:
        if isinstance(error, (ValueError, TypeError, NotImplementedError)):
            raise
        raise ValueError(f"compression {compression!r}: {error}") from error


class _Levels:
    """The labels of rows as columns; none of a RangeIndex, which is noted.

    Levels that are compressed are decoded piece by piece. An index of pandas is in memory as it is.

    Parameters
    ----------
    index : CompressedIndex
    preserve : bool or None
        As pandas' ``index=``. True: a RangeIndex is a column, too; False: there are no labels, and no note of them.
    """

    def __init__(self, index: CompressedIndex, preserve: bool | None) -> None:
        self.preserve = preserve
        self.contents = index.levels
        backend = HostBackend()
        names = [None if name is None else str(name) for name in index.names]  # Parquet has no others
        #: An index without labels, or a RangeIndex with all of them.
        self.empty: Any
        self._columns: Sequence[Any] = ()
        self._range: Any = None
        self.types: Sequence[Any] = ()
        if preserve is False:
            self.contents, self.empty = (), pd.RangeIndex(0)
        elif index.levels:
            self.empty = index.build(backend, backend.read(index.nodes, 0, 0), 0, 0).set_names(names)
            self.types = [level.type for level in index.levels]
        else:
            labels = self.empty = index.to_library(backend).set_names(names)
            if not isinstance(labels, pd.RangeIndex):
                self.empty = labels[:0]
                self._columns = pa.Table.from_pandas(pd.DataFrame(index=labels), preserve_index=True).columns
            elif preserve:
                self._range, self.empty = labels, labels[:0]
            self.types = [pa.int64()] if self._range is not None else [column.type for column in self._columns]

    def arrays(self, start: int, stop: int) -> list[Any]:
        """Labels of some rows."""
        if self.contents:
            return arrays(self.contents, start, stop)
        if self._range is not None:
            return [pa.chunked_array([self._range[start:stop].to_numpy()], pa.int64())]
        return [column.slice(start, stop - start) for column in self._columns]


def _schema(contents: Sequence[Content], labels: Any, dtypes: Sequence[Any], levels: _Levels) -> Any:
    """Fields of columns and levels, with the notes that pandas puts into a Parquet file."""
    from pyarrow.pandas_compat import get_logical_type

    no_labels = levels.empty[:0]
    empty = pd.DataFrame({i: _without_rows(dtype, no_labels) for i, dtype in enumerate(dtypes)}, index=no_labels)
    empty.columns = labels
    arrow_schema = pa.Schema.from_pandas(empty, preserve_index=levels.preserve)
    notes = json.loads(arrow_schema.metadata[b"pandas"])
    for column, content in zip(notes["columns"], contents, strict=False):
        if column["pandas_type"] == "empty":  # objects, of which the frame without rows has none to tell their type
            column["pandas_type"] = get_logical_type(content.type)
        if pa.types.is_decimal(content.type):
            column["metadata"] = {"precision": content.type.precision, "scale": content.type.scale}
    if isinstance(levels.empty, pd.RangeIndex) and levels.preserve is None:
        place = levels.empty
        notes["index_columns"][0] |= {"start": place.start, "stop": place.stop, "step": place.step}
    metadata = {**arrow_schema.metadata, b"pandas": json.dumps(notes).encode()}
    types = [*(content.type for content in contents), *levels.types]
    return schema.of_fields(zip(arrow_schema.names, types, strict=True)).with_metadata(metadata)


def _without_rows(dtype: Any, index: Any) -> Any:
    """A Series; of ArrowDtype made of an array, for pandas itself takes rows that are not there, of not all types."""
    if isinstance(dtype, pd.ArrowDtype):
        return interop_pandas.from_arrow_column(arrow_columns.no_rows(dtype.pyarrow_dtype)).set_axis(index)
    return pd.Series(dtype=dtype, index=index)
