"""A compressed frame as others read it: Arrow tables and streams, query engines, Parquet files."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from . import batches, compute
from . import index as indexes
from .backend import HostBackend
from .column import CompressedColumn
from .content_dtype import dtype_of
from .interop import schema
from .interop.arrow import table_of
from .naming import naming

if TYPE_CHECKING:
    from .engines.tables import EngineTable


class ArrowFrame(compute.Frames):
    """What types the columns of a frame have, and the frame as tables: the base of `CompressedFrame`."""

    __slots__ = ()

    @property
    def dtypes(self) -> pd.Series:
        """Dtype of each column, as `decompress` gives it."""
        return pd.Series(self._dtypes(), index=self._labels.view(), dtype=object)

    def _dtypes(self, *, categories: bool = True) -> list[Any]:
        """Dtype of each column; without `categories`, those of categories have none."""
        dtypes = []
        with self._backend.current():
            for label, column in zip(self._labels, self._columns, strict=True):
                with naming(f"column {label!r}"):
                    dtypes.append(dtype_of(column, self._backend, categories=categories))
        return dtypes

    def to_arrow(self, *, compressed: bool = False) -> Any:
        """The columns, without the index, as a pyarrow.Table.

        Parameters
        ----------
        compressed : bool
            True: a table of one row, in which each value is a column as it is, of the extension type
            ``cudf_fsst.column``; see `CompressedColumn.to_arrow`.
        """
        if compressed:
            index = indexes.compress(pd.RangeIndex(len(self)), HostBackend())
            whole = self.to_host()
            columns = [
                CompressedColumn._make(content, whole._backend, label, index).to_arrow(compressed=True)
                for label, content in zip(self._labels, whole._columns, strict=True)
            ]
            fields = [(field.name, column.type) for field, column in zip(self._arrow_schema(), columns, strict=True)]
            return pa.Table.from_arrays(columns, schema=schema.with_labels(fields, self._labels, len(self)))
        there = self.to_host()
        return table_of(batches.arrays(there._columns, 0, len(self)), self._arrow_schema(), len(self))

    def __arrow_c_schema__(self) -> Any:
        """The types of the columns, without the index, for libraries that speak Arrow."""
        return self._arrow_schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The columns, without the index, for libraries that speak Arrow: ``pa.table(f)``, ``polars.DataFrame(f)``.

        Rows are decoded as the stream is read, some 64 MiB at a time. A frame on a GPU moves to host memory,
        compressed, first.

        Parameters
        ----------
        requested_schema : PyCapsule, optional
            Of the types that the reader would like; columns are cast where Arrow can.
        """
        there = self.to_host()
        reader = batches.reader(there._columns, self._arrow_schema(), len(self))
        return reader.__arrow_c_stream__(requested_schema)

    def lazy(self, where: Any = None) -> Any:
        """The columns, without the index, as a LazyFrame of Polars, which decodes what a query needs, piece by piece.

        What Polars filters by is answered on the codes where that can be: comparisons of integers, booleans, dates,
        times, durations and decimals with a constant, ``is_between``, ``is_in`` and ``is_null``; of strings ``==``,
        ``is_in``, ``str.starts_with``, ``str.ends_with``, ``str.contains`` of literals and ``str.len_*``; joined by
        ``&``, ``|`` and ``~``. The rows that are left are decoded, of the columns that the query uses alone, and Polars
        filters again. The logger ``cudf_fsst.query`` says at DEBUG which parts of a filter were answered so.

        Polars' GPU engine gets pieces in GPU memory, of which one is there at a time. A frame in host memory moves its
        columns there, compressed. Of several GPUs each gets other rows. For Polars' CPU engine a frame on a GPU moves
        the columns that a query uses to host memory, compressed.

        Parameters
        ----------
        where : polars.Expr, optional
            Rows for which it is not true are left out, as ``lazy().filter(where)`` does it. Polars' GPU engine does not
            tell what it filters by. There this is the way to have it answered on the codes.

        Returns
        -------
        polars.LazyFrame
            Its columns have the labels as texts. Values and types are those that Polars makes of `to_arrow`, but
            ordered categories are an Enum.

        Raises
        ------
        ImportError
            Polars is missing.
        TypeError
            Polars has no such type; the column is named. Or `where` is no expression.
        ValueError
            Two columns have the same label as a text.
        """
        from .engines import polars as engines

        return engines.lazy(self._engine_table(), where)

    def dataset(self) -> Any:
        """The columns, without the index, as a `pyarrow.dataset.Dataset`, which decodes what it is asked for.

        DuckDB scans it, and Polars by ``polars.scan_pyarrow_dataset``; they say which columns they want and what they
        filter by. Filters are answered on the codes where that can be: comparisons of integers, booleans, dates, times,
        durations and decimals with a constant, ``isin``, ``is_null`` and ``is_valid``; of strings ``==``, ``isin``,
        ``starts_with``, ``ends_with``, ``match_substring`` and comparisons of ``utf8_length`` and ``binary_length``;
        joined by ``&``, ``|`` and ``~``. The rows that are left are decoded, piece by piece, and Arrow filters again.
        The logger ``cudf_fsst.query`` says at DEBUG which parts of a filter were answered so.

        ``scanner``, ``to_table``, ``to_batches``, ``head``, ``count_rows``, ``take`` and ``filter`` work so. ``join``,
        ``join_asof``, ``sort_by``, ``get_fragments`` and ``replace_schema`` are Arrow's own, which go through all rows
        of all columns. A frame on a GPU moves what is asked for to host memory, compressed.

        Returns
        -------
        pyarrow.dataset.Dataset
            Its columns have the labels as texts, and the types of `to_arrow`; run-end encoded columns and views of
            lists have those of their values, and of lists.

        Raises
        ------
        ValueError
            Two columns have the same label as a text. Or, while it is scanned, a text is not UTF-8.
        """
        from .engines.arrow_dataset import dataset  # which takes long to import

        return dataset(self._engine_table())

    def _engine_table(self) -> EngineTable:
        from .engines.tables import EngineTable

        return EngineTable(self._backend, tuple(map(str, self._labels)), self._columns, len(self))

    def _arrow_schema(self) -> Any:
        """The schema of what `to_arrow` makes."""
        fields = zip(map(str, self._labels), (column.type for column in self._columns), strict=True)
        return schema.of_fields(fields)

    def to_parquet(
        self,
        path: Any,
        *,
        compression: str | None = "snappy",
        index: bool | None = None,
        row_group_size: int | None = None,
        partition_cols: Sequence[Hashable] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the frame to a Parquet file, piece by piece: it is never in memory uncompressed as a whole.

        Values, nulls and types are those of `to_arrow`; labels, dtypes and index are noted as pandas does it. On a
        terminal a bar shows how far it has come. A frame on a GPU is written by libcudf, if its columns are integers,
        floats, decimals, booleans, strings, dates and times; others, and folders, by pyarrow.

        Parameters
        ----------
        path : path, URL or file object
            Where to. The file is complete or, if anything fails, as it was; see `save`. Unlike `save`, this does not
            wait for the disk.
        compression : str or None
            As `pyarrow.parquet.ParquetWriter` takes it.
        index : bool, optional
            Whether labels of rows are written. None: they are, but a RangeIndex is only noted, as pandas does it.
        row_group_size : int, optional
            Rows of a row group. None: so many as have about 64 MiB, as Arrow counts them; on a GPU 2^20.
        partition_cols : sequence of labels, optional
            Columns whose values name folders, as ``year=2026``; `path` is the folder that these are in. Files that are
            there stay.
        storage_options : dict, optional
            For a URL: what fsspec's file system takes, as in `pandas.DataFrame.to_parquet`.

        Raises
        ------
        NotImplementedError, TypeError, ValueError
            A type, a label or an index that Parquet does not have. Or options that are none.
        KeyError
            `partition_cols` names a column that there is not.
        OSError
            The file cannot be written; the path or the URL is named.
        """
        if index not in (None, True, False):
            raise ValueError(f"index must be True, False or None, not {index!r}")
        if row_group_size is not None:
            row_group_size = operator.index(row_group_size)
            if row_group_size < 1:
                raise ValueError(f"row_group_size must be at least 1, not {row_group_size}")
        if isinstance(partition_cols, str):
            partition_cols = [partition_cols]
        if not (compression is None or isinstance(compression, str)):
            raise TypeError(f"compression must be a str or None, not {type(compression).__name__}")
        options = batches.ParquetOptions(compression, index, row_group_size, partition_cols, storage_options)
        levels = () if index is False else self._index.levels
        plain = partition_cols is None and (levels or index is not True)
        on_gpu = self.device != "cpu" and len(self) > 0 and plain
        if on_gpu and batches.writes_on_gpu([*self._columns, *levels], compression):
            labels = self._columns_at([]).to_host()._index
            dtypes = [dtype_of(content, HostBackend()) for content in self._columns]
            batches.write_parquet_on_gpu(
                path, self._backend, self._columns, self._labels, dtypes, levels, labels, options
            )
            return
        there = self.to_host()
        batches.write_parquet(path, there._columns, self._labels, there._dtypes(), there._index, options)
