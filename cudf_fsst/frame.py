"""What ``df.fsst.compress()`` returns: a DataFrame whose columns stay compressed until they are asked for."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from . import batches, compute, selection
from . import index as indexes
from .backend import Asked, Backend, DeviceBackend, HostBackend, check_options, of_frame
from .codecs import registry
from .codecs.node import Content, Node
from .column import CompressedColumn, dtype_of
from .column import of_loaded as column_of
from .files import columns as files
from .index import CompressedIndex
from .interop import cudf as interop_cudf
from .interop import schema
from .interop.arrow import table_of
from .naming import naming
from .tables import as_html

if TYPE_CHECKING:
    from .engines.tables import EngineTable

#: Columns that a notebook shows.
_SHOWN = 60
#: Frames of some columns that a frame keeps.
_KEPT_PARTS = 8


class CompressedFrame(compute.Frames, compute.Refused):
    """A compressed DataFrame, in host memory or on a GPU.

    ``df.fsst.compress()``, `read_parquet`, `concat`, `load` and `Compressor` make one. The class itself cannot be
    called. A frame does not change: methods return new frames, which share what they can.

    ``f["a"]`` is a Series, decompressed. ``f[["a", "b"]]`` is a CompressedFrame of these columns. ``f[mask]`` is a
    DataFrame of the rows where the mask is true. Rows are selected by position, as with ``f.iloc``. The index of a mask
    is not looked at, where pandas would align it.
    """

    __slots__ = ("_backend", "_columns", "_index", "_labels", "_parts", "_proxied")

    _backend: Backend
    _columns: tuple[Content, ...]
    _labels: Any
    _index: CompressedIndex
    _proxied: bool
    _parts: dict[tuple[int, ...], CompressedFrame]  # frames of some columns, which were asked for

    def __init__(self) -> None:
        raise TypeError("make a CompressedFrame with df.fsst.compress() or cudf_fsst.load(path)")

    @classmethod
    def _make(
        cls,
        backend: Backend,
        columns: Sequence[Content],
        labels: Any,
        index: CompressedIndex,
        proxied: bool = False,
    ) -> CompressedFrame:
        made = object.__new__(cls)
        made._backend, made._columns, made._labels = backend, tuple(columns), labels
        made._index, made._proxied, made._parts = index, proxied, {}
        return made

    @property
    def _contents(self) -> Sequence[Content]:
        return self._columns

    def _made_of(self, contents: Sequence[Content], backend: Backend, index: CompressedIndex) -> CompressedFrame:
        return self._make(backend, contents, self._labels, index)

    def copy(self) -> CompressedFrame:
        """A new frame, which shares everything with this one."""
        return replace_proxied(self, self._proxied)

    def _is_like(self, other: CompressedFrame) -> bool:
        return bool(self._labels.equals(other._labels)) and self._dtypes() == other._dtypes()

    def __getattr__(self, name: str) -> Any:
        """Say which way there is, where a DataFrame has the attribute."""
        if not name.startswith("_") and name in self._labels:
            raise AttributeError(f"a column is f[{name!r}], or compressed f.column({name!r})", name=name, obj=self)
        way = 'f["x"] is a Series, f.map_chunks(...) goes piece by piece, f.decompress() gives the DataFrame'
        raise compute.no_attribute(self, name, pd.DataFrame, way)

    # What it is ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self._columns)

    @property
    def columns(self) -> Any:
        """Labels of the columns: a pandas.Index."""
        return self._labels.view()

    @property
    def dtypes(self) -> pd.Series:
        """Dtype of each column, as `decompress` gives it."""
        return pd.Series(self._dtypes(), index=self.columns, dtype=object)

    def _dtypes(self, *, categories: bool = True) -> list[Any]:
        """Dtype of each column; without `categories`, those of categories have none."""
        found = []
        with self._backend.current():
            for label, column in zip(self._labels, self._columns, strict=True):
                with naming(f"column {label!r}"):
                    found.append(dtype_of(column, self._backend, categories=categories))
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept, the index included: the sum of `memory_usage`."""
        return sum(column.node.nbytes for column in self._columns) + self._index.nbytes

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the same columns and index in Arrow."""
        return sum(column.node.uncompressed_nbytes for column in self._columns) + self._index.uncompressed_nbytes

    @property
    def ratio(self) -> float:
        """``uncompressed_nbytes / nbytes``; 1.0 for a frame that has no bytes."""
        return self.uncompressed_nbytes / self.nbytes if self.nbytes else 1.0

    @property
    def null_count(self) -> pd.Series:
        """Number of missing values of each column, as Arrow counts them: a NaN of pandas or cuDF is a value."""
        return pd.Series([column.node.null_count for column in self._columns], index=self.columns, dtype="int64")

    def memory_usage(self, index: bool = True, deep: bool = False) -> pd.Series:
        """Bytes that each compressed column takes.

        Parameters
        ----------
        index : bool
            Begin with the index, which columns and other frames may share.
        deep : bool
            Makes no difference. It is there because pandas has it.

        Returns
        -------
        pandas.Series of int64
            One number for each column. That of the index has the label ``"Index"``.
        """
        del deep
        made = pd.Series([column.node.nbytes for column in self._columns], index=self.columns, dtype="int64")
        return pd.concat([pd.Series([self._index.nbytes], index=["Index"]), made]) if index else made

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes + int(self._labels.memory_usage(deep=True))

    @property
    def codecs(self) -> pd.Series:
        """Name of the codec of each column; of a nested column, that of its leaves."""
        return pd.Series([column.node.codec for column in self._columns], index=self.columns, dtype="str")

    def _table(self) -> pd.DataFrame:
        """Sizes of the columns."""
        nodes = [column.node for column in self._columns]
        return pd.DataFrame(
            {
                "type": [str(column.type) for column in self._columns],
                "codec": [node.codec for node in nodes],
                "nulls": [node.null_count for node in nodes],
                "bytes in Arrow": [node.uncompressed_nbytes for node in nodes],
                "bytes": [node.nbytes for node in nodes],
                "ratio": [round(node.uncompressed_nbytes / node.nbytes, 2) if node.nbytes else 1.0 for node in nodes],
            },
            index=self.columns,
        )

    def _described(self) -> Iterator[tuple[str, str, Node]]:
        """Name, dtype and buffers of every column, then of the index' levels."""
        for label, dtype, column in zip(self._labels, self._dtypes(categories=False), self._columns, strict=True):
            yield str(label), f"object: {column.type}" if dtype == np.dtype(object) else str(dtype), column.node
        for name, level in zip(self._index.names, self._index.levels, strict=False):  # a RangeIndex has no levels
            yield "(index)" if name is None else f"(index) {name}", str(level.type), level.node

    def _headline(self) -> str:
        return (
            f"CompressedFrame of {len(self):,} rows and {len(self._columns)} columns on {self.device}: "
            f"{self.uncompressed_nbytes:,} B in Arrow as {self.nbytes:,} B, ratio {self.ratio:.2f}"
        )

    def __repr__(self) -> str:
        return f"{self._headline()}\n{self._table().to_string(max_rows=60)}" if self._columns else self._headline()

    def _repr_html_(self) -> str:
        shown = self._table().iloc[:_SHOWN]
        lines = [["column", *shown], *([str(label), *map(_text, line)] for label, *line in shown.itertuples())]
        sizes = [(column.node.nbytes, column.node.uncompressed_nbytes) for column in self._columns[:_SHOWN]]
        left = len(self._columns) - len(sizes)
        more = f"<p>... and {left:,} more columns</p>" if left > 0 else ""
        return as_html(self._headline(), lines, sizes) + more

    def __iter__(self) -> Iterator[Hashable]:
        """Labels of the columns, as a DataFrame gives them."""
        return iter(self._labels)

    def __contains__(self, label: object) -> bool:
        return label in self._labels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Refuse with a TypeError: an array would drop index, labels and dtypes, or hold the labels alone.

        `pandas.DataFrame` calls this as well. ``frame.decompress()`` gives the DataFrame.
        """
        del dtype, copy
        raise TypeError("a CompressedFrame is no array and no DataFrame; frame.decompress() is one")

    # Back ---------------------------------------------------------------------------------------------------------

    def decompress(self, *, categories: bool = False, stream: Any = None) -> Any:
        """Give the whole frame back.

        Parameters
        ----------
        categories : bool
            Strings that have a dictionary (codec ``"dict"``) come as categories, as ``astype("category")`` makes them,
            without decoding a string more than once.
        stream : rmm or CuPy stream, optional
            The stream to work on. Only for a frame on a GPU.

        Returns
        -------
        pandas.DataFrame or cudf.DataFrame
            A cuDF DataFrame for a frame on a GPU. Values, nulls, labels, index and dtypes are those of the DataFrame
            that was compressed.
        """
        self._backend.check_stream(stream)
        if categories:
            return self._out(self._categories(stream))
        return self._out(self._range(0, None, stream=stream))

    def _categories(self, stream: Any, places: Sequence[int] | None = None) -> Any:
        """A DataFrame in which strings that have a dictionary are categories; `places`: of these columns alone."""
        backend, index = self._backend, self._index
        with backend.current():
            coded = [
                column.node.coded and (places is None or place in places) for place, column in enumerate(self._columns)
            ]
            plain = [column.node for column, own in zip(self._columns, coded, strict=True) if not own]
            buffers = backend.read([*index.nodes, *plain], stream=stream)
            labels = index.build(backend, buffers[: len(index.levels)])
            rest = iter(buffers[len(index.levels) :])
            made = []
            for place, (content, own) in enumerate(zip(self._columns, coded, strict=True)):
                with naming(partial(self._column_name, place)):
                    if own:
                        column = CompressedColumn._make(content, backend, None, index)
                        made.append(column._as_categories())
                    else:
                        made.append(_series(backend, next(rest), content))
            return backend.interop.frame(made, self.columns, labels)

    def _built(self, buffers: Sequence[Any], labels: Any) -> Any:
        columns = []
        for place, (column, some) in enumerate(zip(self._columns, buffers, strict=True)):
            with naming(partial(self._column_name, place)):
                columns.append(_series(self._backend, some, column))
        return self._backend.interop.frame(columns, self.columns, labels)

    def _row(self, number: int) -> Any:
        with self._backend.current():
            return self._out(self._range(number, number + 1).iloc[0])

    def _column_name(self, place: int) -> str:
        """What errors call a column."""
        return f"column {self._labels[place]!r}"

    def __getitem__(self, key: Any) -> Any:
        """Select columns, or the rows of a mask.

        Parameters
        ----------
        key : label, labels or mask
            Labels are a list, an array or an Index. A mask is a list, an array, a Series or a compressed column of
            booleans. Where the labels of the columns are booleans themselves, a list of booleans names columns.

        Returns
        -------
        Series, CompressedFrame or DataFrame
            One label gives the decompressed column as a Series with the frame's index. Several labels give a frame
            that shares these columns. A mask gives a DataFrame of the rows where it is true; see `filter`.

        Raises
        ------
        KeyError
            There is no such column.
        TypeError
            The key is a slice. ``f.iloc`` takes rows by position.
        """
        if isinstance(key, slice):
            raise TypeError(f"a CompressedFrame is indexed by labels of columns or a mask, not by {key!r}; see f.iloc")
        if type(key) is list and key and all(type(label) is str for label in key):  # certainly no mask
            return self._of_places([self._place(label) for label in key])
        if isinstance(key, CompressedColumn):
            return self.filter(key)
        inner, _ = interop_cudf.unwrap_proxy(key)
        if interop_cudf.is_cudf(inner):
            if inner.dtype.kind == "b":
                return self.filter(inner)
            return self._of_places([self._place(label) for label in inner.to_pandas()])
        lists = (list, np.ndarray, pd.Index, pd.Series, pd.api.extensions.ExtensionArray)
        if isinstance(inner, lists) or hasattr(inner, "__cuda_array_interface__"):
            if selection.is_mask(inner) and pd.api.types.infer_dtype(self._labels) != "boolean":
                return self.filter(inner)
            return self._of_places([self._place(label) for label in inner])
        place = self._place(key)  # whose label the key may only mean, as a text does a time
        return self._out(self._series_at(place))

    def _series_at(self, place: int) -> Any:
        """A column as a Series."""
        backend, column, label = self._backend, self._columns[place], self._labels[place]
        with backend.current():
            *levels, some = backend.read([*self._index.nodes, column.node])
            index = self._index.build(backend, levels)
            with naming(partial(self._column_name, place)):
                return backend.interop.series(_series(backend, some, column), label, index)

    def _of_places(self, places: Sequence[int]) -> CompressedFrame:
        """A frame of some columns, which it shares.

        A few are kept, for short queries that ask for the same columns: 2 us instead of 31, most of it for the labels.
        """
        key = tuple(places)
        made = self._parts.get(key)
        if made is None:
            columns, labels = [self._columns[place] for place in key], self._labels.take(list(key))
            made = self._make(self._backend, columns, labels, self._index, self._proxied)
            if len(self._parts) >= _KEPT_PARTS:
                self._parts.clear()
            self._parts[key] = made
        return made

    # Rows ---------------------------------------------------------------------------------------------------------

    @property
    def iloc(self) -> Any:
        """Rows and columns by position, decompressed.

        ``f.iloc[5]`` is a Series of one row. ``f.iloc[2:9]``, ``f.iloc[[4, 1]]`` and ``f.iloc[mask]`` are a DataFrame.
        ``f.iloc[rows, columns]`` selects columns as well, before anything is decompressed.
        """
        return selection.Positions(self._iloc)

    def _iloc(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return self._at(key)
        if len(key) != 2:
            raise IndexError(f"a frame has rows and columns; {len(key)} positions were given")
        rows, columns = key
        if columns is None or isinstance(columns, (bool, np.bool_)):
            raise TypeError(f"columns are chosen by positions, not by {columns!r}")
        places = np.asarray(np.arange(len(self._columns))[columns])
        if places.ndim == 0:
            found = self.column_at(int(places))
            return found[rows] if not isinstance(rows, slice) or rows != slice(None) else found.decompress()
        part = self._of_places([int(place) for place in places])
        return part._at(rows)

    def __bool__(self) -> bool:
        """Refused, as a DataFrame refuses it; see `len`."""
        raise ValueError("the truth value of a frame is ambiguous; len(frame) is its number of rows")

    def column_at(self, place: int) -> CompressedColumn:
        """A column by position, still compressed.

        Raises
        ------
        IndexError
            There is none.
        TypeError
            `place` is no integer.
        """
        number, count = operator.index(place), len(self._columns)
        if not -count <= number < count:
            raise IndexError(f"column {place} of a frame of {count} columns")
        content, label = self._columns[number], self._labels[number]
        return CompressedColumn._make(content, self._backend, label, self._index, None, self._proxied)

    def isna(self) -> Any:
        """Whether values are missing: a DataFrame of booleans, as the decompressed frame gives it."""
        return self.map_chunks(lambda piece: piece.isna())

    def notna(self) -> Any:
        """Whether values are not missing: a DataFrame of booleans, as the decompressed frame gives it."""
        return self.map_chunks(lambda piece: piece.notna())

    def __eq__(self, other: object) -> Any:
        """Refuse with a TypeError: a DataFrame answers for every value here. `equals` compares frames."""
        raise TypeError("a CompressedFrame cannot be compared with ==; f.equals(other) compares frames")

    def _instead_of(self, before: str, after: str) -> str:
        return f"write {before}f.decompress(){after}, or f.map_chunks(lambda df: {before}df{after}), piece by piece"

    def _instead_of_setting(self, key: Any) -> str:
        if not isinstance(key, str):
            return "f.assign(...) gives a new frame, f.decompress() is a DataFrame that changes"
        return f"f.assign({f'{key}=...' if key.isidentifier() else f'**{{{key!r}: ...}}'}) gives a new frame"

    def __delitem__(self, key: Any) -> NoReturn:
        raise TypeError(f"a CompressedFrame does not change; f.drop(columns=[{key!r}]) gives a new frame")

    # NumPy and pandas leave `array == compressed` to the methods above.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # as of a DataFrame

    # Columns ------------------------------------------------------------------------------------------------------

    def _place(self, label: Any) -> int:
        try:
            place = self._labels.get_loc(label)
        except pd.errors.InvalidIndexError as error:
            raise KeyError(label) from error
        if not isinstance(place, (int, np.integer)):
            raise KeyError(f"{label!r} names several columns")
        return int(place)

    def column(self, label: Any) -> CompressedColumn:
        """A column, still compressed, which shares the frame's index.

        Raises
        ------
        KeyError
            There is no such column.
        """
        return self.column_at(self._place(label))

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

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def save(
        self, path: Any, *, compression: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        """Write the frame to a file, from which `cudf_fsst.load` reads it.

        Parameters
        ----------
        path : path, URL or file object
            Where to write. If anything fails, an older file stays as it was. A symbolic link is followed, and the
            permissions of an older file stay. A process that is killed meanwhile may leave a file
            ``.cudf-fsst-*.tmp`` beside it, which can be deleted. URLs, as ``"s3://bucket/name"``, go through fsspec:
            the file is written to a temporary one of this machine, and sent when it is complete.
        compression : str, optional
            ``"zstd"``: an outer codec over each part of the file, which is smaller then, and slower to write and load.
            The file is of version 4 of the format; its bytes depend on the release of Zstandard, too.
        storage_options : dict, optional
            For a URL: what fsspec's file system takes, as in `pandas.DataFrame.to_parquet`.

        Raises
        ------
        TypeError
            A file cannot give back the labels of the columns.
        ValueError
            There is no such `compression`.
        OSError
            The file cannot be written.

        Notes
        -----
        docs/format.md defines the file. It is of version 2, or of version 3 for what version 2 cannot say: some labels
        and types, values that have a common divisor, such as dates in seconds, and strings with a dictionary.
        """
        there = self.to_host()
        index = there._index.described()
        files.save(
            path,
            "frame",
            self._labels,
            there._columns,
            *index,
            len(self),
            compression=compression,
            storage_options=storage_options,
        )

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
        options = batches.ParquetOptions(compression, index, row_group_size, partition_cols, storage_options)
        levels = () if index is False else self._index.levels
        plain = partition_cols is None and (levels or index is not True)
        on_gpu = self.device != "cpu" and len(self) > 0 and plain
        if on_gpu and batches.writes_on_gpu([*self._columns, *levels], compression):
            labels = self._of_places([]).to_host()._index
            dtypes = [dtype_of(content, HostBackend()) for content in self._columns]
            batches.write_parquet_on_gpu(
                path, self._backend, self._columns, self._labels, dtypes, levels, labels, options
            )
            return
        there = self.to_host()
        batches.write_parquet(path, there._columns, self._labels, there._dtypes(), there._index, options)

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        there = self.to_host()
        state = (there._columns, self._labels, there._index)
        return _restore, (on_gpu, self._proxied, *state)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _series(backend: Backend, some: Any, content: Content) -> Any:
    """Rows of a column that were read: of pandas a Series without name and labels, of cuDF a column."""
    nullable = content.node.null_count > 0
    return backend.interop.build(some, content.type, content.stored, nullable=nullable)


def replace_proxied(frame: CompressedFrame, proxied: bool) -> CompressedFrame:
    """A frame of the same columns that gives cudf.pandas proxies back, or does not."""
    return CompressedFrame._make(frame._backend, frame._columns, frame._labels, frame._index, proxied)


def _restore(on_gpu: bool, proxied: bool, *state: Any) -> CompressedFrame:
    """Unpickle a frame; one that was on a GPU goes to the current one."""
    frame = CompressedFrame._make(HostBackend(), *state)
    return replace_proxied(frame.to_device() if on_gpu else frame, proxied)


def compress_frame(
    data: Any,
    *,
    codecs: Mapping[Any, str] | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
    to_host: bool = False,
) -> CompressedFrame:
    """Compress a DataFrame; what ``df.fsst.compress()`` does (see there). `to_host`: into host memory."""
    check_options(None, tile_size, level)
    data, proxied = interop_cudf.unwrap_proxy(data)
    backend = of_frame(data)
    labels = pd.Index(data.columns) if not isinstance(data.columns, pd.Index) else data.columns.view()
    wanted = check_codecs(codecs, labels)
    strings = {"tile_size": tile_size, "level": level}
    asked = [
        Asked(series, wanted.get(label), strings, partial("column {!r}".format, label))
        for label, series in zip(labels.tolist(), backend.interop.columns(data), strict=True)
    ]
    found = None if backend.device == "cpu" else indexes.of_range(data.index, backend)
    plain, names = (None, []) if found is not None else indexes.unnamed(data.index, backend)
    columns, described = backend.compress(asked, plain, stream=stream, to_host=to_host)
    index = found if found is not None else indexes.of_described(described, len(data), names)
    if to_host:
        backend, proxied = HostBackend(), False
    return CompressedFrame._make(backend, columns, labels, index, proxied and backend.device != "cpu")


def of_column(column: CompressedColumn, label: Any = None) -> CompressedFrame:
    """A frame of one column, with its index; `label` instead of the column's name."""
    labels = pd.Index([column.name if label is None else label], dtype=object, tupleize_cols=False)
    return CompressedFrame._make(column._backend, [column._content], labels, column._index, column._proxied)


def check_codecs(
    codecs: Mapping[Any, str] | None, labels: Any, names: Mapping[Any, Any] | None = None
) -> dict[Any, str]:
    """`codecs` as a dict; raise where they are no codecs of columns with these labels. `names`: others -> labels."""
    if codecs is not None and not isinstance(codecs, Mapping):
        raise TypeError(f"codecs must be a dict of column labels and codecs, not {type(codecs).__name__}")
    wanted = {(names or {}).get(label, label): codec for label, codec in (codecs or {}).items()}
    known = set(labels) if wanted else ()  # not the index itself, which has parts of a MultiIndex' labels too
    for label, codec in wanted.items():
        if label not in known:
            raise KeyError(f"codecs names a column that the frame does not have: {label!r}")
        if codec not in registry.names():
            raise ValueError(f"codec of column {label!r} must be one of {registry.names()}, not {codec!r}")
    return wanted


def load(
    path: Any,
    *,
    columns: Sequence[Hashable] | None = None,
    device: str = "cpu",
    storage_options: Mapping[str, Any] | None = None,
) -> CompressedColumn | CompressedFrame:
    """Read a column or a frame that ``save`` wrote.

    Parameters
    ----------
    path : path, URL or file object
        The file. All of it that is read is checked before it is used. A file object is read from its beginning.
    columns : sequence of labels, optional
        Columns of a frame, in the order in which the result has them. They and the index alone are read, besides what
        says where they are. None: all.
    device : str
        ``"cpu"``: into host memory; ``"gpu"``: into the memory of the current GPU, by way of pinned host memory;
        ``"auto"``: to the GPU where one is found.
    storage_options : dict, optional
        For a URL: what fsspec's file system takes, as in `pandas.read_parquet`.

    Returns
    -------
    CompressedColumn or CompressedFrame
        Wherever it was when it was saved. Loading takes memory in proportion to the file. An index may be larger, and
        is made when it is asked for.

    Raises
    ------
    ValueError
        The bytes are damaged, the file holds something else, or its format version is not known. The message says
        which part is wrong, and how. Or `columns` are asked of the file of a column. Or `device` is none.
    KeyError
        The frame has no such column, or several.
    TypeError
        `columns` is a text, or no sequence.
    OSError
        The file cannot be read.
    ImportError, RuntimeError
        ``device="gpu"``, and there is no cuDF or no GPU.
    """
    buffers = DeviceBackend().buffers if interop_cudf.on_gpu(device) else None
    if columns is not None:
        if isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable):
            raise TypeError(f"columns must be labels of columns in a list, not {columns!r}")
        columns = list(columns)
    choose = None if columns is None else partial(_places_of, columns)
    made = of_loaded(files.load(path, choose, storage_options=storage_options, buffers=buffers))
    return made if buffers is None else made.to_device()


def of_loaded(loaded: files.Loaded) -> CompressedColumn | CompressedFrame:
    """The column or the frame of a file."""
    if loaded.holds == "column":
        return column_of(loaded)
    return CompressedFrame._make(HostBackend(), loaded.columns, loaded.labels, indexes.of_loaded(loaded))


def _places_of(wanted: Sequence[Hashable], labels: Any, types: Any) -> list[int]:
    """Which columns have these labels."""
    del types
    places = []
    for label in wanted:
        try:
            place = labels.get_loc(label)
        except (KeyError, TypeError, pd.errors.InvalidIndexError):
            raise KeyError(f"the frame has no column {label!r}") from None
        if not isinstance(place, (int, np.integer)):
            raise KeyError(f"{label!r} names several columns")
        places.append(int(place))
    return places
