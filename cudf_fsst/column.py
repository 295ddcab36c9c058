"""What ``series.fsst.compress()`` returns: a column that stays compressed, and gives any of its rows back."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from . import batches, compute, query, selection
from . import index as indexes
from .backend import Asked, Backend, HostBackend, check_options, of_data
from .codecs import registry
from .codecs.contract import Table
from .codecs.node import Content, is_strings
from .codecs.text.segment import Segment
from .files import columns as files
from .index import CompressedIndex
from .interop import arrow_columns, arrow_extension, dtypes
from .interop import cudf as interop_cudf
from .interop import pandas as interop_pandas
from .interop.arrow import decoding, to_arrow
from .tables import as_html, size_bar


class CompressedColumn(compute.Columns, compute.Refused, query.Questions):
    """A compressed column, in host memory or on a GPU.

    ``series.fsst.compress()``, ``frame.column(label)``, `concat`, `load` and `Compressor` make one. The class itself
    cannot be called. A column does not change: methods return new columns, which share what they can.

    Rows are selected by position, as with ``iloc``, and not by label as in pandas. ``c[5]`` is a value, or the dtype's
    missing value. ``c[2:9]``, ``c[[4, 1]]`` and ``c[mask]`` are a Series with the index labels of these rows: a pandas
    Series for a column in host memory, a cuDF Series for one on a GPU. A selection decodes only what it touches: tiles
    of characters, or blocks of other values.
    """

    __slots__ = ("_backend", "_content", "_dtype", "_index", "_name", "_proxied")

    _content: Content
    _backend: Backend
    _name: Any
    _index: CompressedIndex
    _dtype: Any
    _proxied: bool

    def __init__(self) -> None:
        raise TypeError("make a CompressedColumn with series.fsst.compress() or cudf_fsst.load(path)")

    @classmethod
    def _make(
        cls,
        content: Content,
        backend: Backend,
        name: Any,
        index: CompressedIndex,
        dtype: Any = None,
        proxied: bool = False,
    ) -> CompressedColumn:
        column = object.__new__(cls)
        column._content, column._backend, column._name, column._index = content, backend, name, index
        # None: made of the content when it is asked for.
        column._dtype = dtype
        column._proxied = proxied
        return column

    @property
    def _contents(self) -> Sequence[Content]:
        return (self._content,)

    def _made_of(self, contents: Sequence[Content], backend: Backend, index: CompressedIndex) -> CompressedColumn:
        (content,) = contents
        return self._make(content, backend, self._name, index, self._dtype)

    def copy(self) -> CompressedColumn:
        """A new column, which shares everything with this one."""
        return self._make(self._content, self._backend, self._name, self._index, self._dtype, self._proxied)

    def _is_like(self, other: CompressedColumn) -> bool:
        return bool(self.dtype == other.dtype)

    def __getattr__(self, name: str) -> Any:
        """Say which way there is, where a Series has the attribute."""
        if name in ("dt", "str"):  # of other values: a property's own error would not be seen
            getattr(self._range(0, min(len(self), 1)), name)
        way = "c.map_chunks(...) goes piece by piece, c.decompress() gives the Series"
        raise compute.no_attribute(self, name, pd.Series, way)

    # What it is ---------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Refused, as a Series refuses it; see `len`."""
        raise ValueError("the truth value of a column is ambiguous; len(column) is its number of rows")

    def _instead_of(self, before: str, after: str) -> str:
        label = f"f[{self._name!r}]" if isinstance(self._name, str) else 'f["x"]'
        return f"write {before}c.decompress(){after}, or {before}{label}{after} for a column of a frame"

    def _instead_of_setting(self, key: Any) -> str:
        return "c.decompress() is a Series that changes"

    def __contains__(self, label: object) -> bool:
        """Whether a label is in the index, as a Series has it; ``column.isin([value])`` looks for values."""
        return label in self.index

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as a tuple of one."""
        return (len(self),)

    @property
    def name(self) -> Any:
        """Name of the Series."""
        return self._name

    @property
    def dtype(self) -> Any:
        """Dtype of the Series."""
        if self._dtype is None:
            with self._backend.current():
                self._dtype = dtype_of(self._content, self._backend)
        return self._dtype

    @property
    def codec(self) -> str:
        """Name of the codec of the values; of a nested column, that of its leaves."""
        return self._content.node.codec

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of all strings in the column, nested ones too, each in buffers of its own; () where there are none.

        They hold consecutive rows, or the distinct values of rows that have a dictionary.
        """
        return self._content.node.texts

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables that the segments use (`SymbolTable` or `OnPairTable`), each once, in order of first use."""
        return tuple(dict.fromkeys(segment.table for segment in self.segments))

    @property
    def null_count(self) -> int:
        """Number of missing values, as Arrow counts them: a NaN of pandas or cuDF is a value."""
        return self._content.node.null_count

    @property
    def chars_nbytes(self) -> int:
        """Bytes of the characters of all strings; 0 for other values."""
        return self._content.node.chars_nbytes if is_strings(self._content.node.type) else 0

    @property
    def codes_nbytes(self) -> int:
        """Bytes of the codes alone, of strings or other values."""
        return sum(part.codes_nbytes for part in self._content.node.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept except the index: codes, their places, row lengths, null mask, symbol tables."""
        return self._content.node.nbytes

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the same column in Arrow. Offsets of strings have 4 bytes, or 8 from 2^31 characters on."""
        return self._content.node.uncompressed_nbytes if len(self) else 0

    @property
    def ratio(self) -> float:
        """``uncompressed_nbytes / nbytes``; 1.0 for a column without rows."""
        return self.uncompressed_nbytes / self.nbytes if len(self) and self.nbytes else 1.0

    def memory_usage(self, index: bool = True, deep: bool = False) -> int:
        """Bytes that the compressed column takes.

        Parameters
        ----------
        index : bool
            Count its index too, which other columns may share.
        deep : bool
            Makes no difference. It is there because pandas has it.

        Returns
        -------
        int
        """
        del deep
        return self.nbytes + (self._index.nbytes if index else 0)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.memory_usage()

    def _facts(self) -> list[tuple[str, str]]:
        node, tables = self._content.node, self.tables
        symbols = ", ".join(str(len(table)) for table in tables[:4]) + (", ..." if len(tables) > 4 else "")
        facts = [
            ("name", repr(self._name)),
            ("dtype", str(self.dtype)),
            ("device", self.device),
            ("rows", f"{len(self):,}"),
            ("nulls", f"{self.null_count:,}"),
            ("column", f"{self.uncompressed_nbytes:,} B in Arrow as {self.nbytes:,} B"),
            ("ratio", f"{self.ratio:.2f}"),
        ]
        if not self._is_text:
            return [*facts, ("codec", node.codec), ("parts", str(len(list(node.parts))))]
        facts.insert(5, ("characters", f"{self.chars_nbytes:,} B as {self.codes_nbytes:,} B of codes"))
        return [
            *facts,
            ("codec", node.codec),
            ("segments", str(len(self.segments))),
            ("symbol tables", f"{len(tables)} ({symbols} symbols)" if tables else "0"),
        ]

    @property
    def _is_text(self) -> bool:
        return holds_text(self._content)

    def __repr__(self) -> str:
        lines = [f"  {label}: {value}" for label, value in self._facts()]
        return "\n".join(["CompressedColumn", *lines])

    def _repr_html_(self) -> str:
        sizes = self.nbytes, self.uncompressed_nbytes
        return as_html("CompressedColumn", [("", ""), *self._facts()]) + size_bar(*sizes, max(1, *sizes))

    # Back to Series -----------------------------------------------------------------------------------------------

    def decompress(self, *, stream: Any = None) -> Any:
        """Give the whole column back.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            The stream to work on. Only for a column on a GPU.

        Returns
        -------
        pandas.Series or cudf.Series
            A cuDF Series for a column on a GPU. Values, nulls, name, index and dtype are those of the Series that was
            compressed. An Index comes back as a Series with a RangeIndex.

        Raises
        ------
        UnicodeDecodeError
            The dtype is ``object`` or ``string[python]``, and some bytes are not UTF-8. No Python string can be made
            of them. `to_arrow` gives any bytes.

        Notes
        -----
        cuDF has integer and boolean labels with missing ones. In pandas these are of a nullable dtype, such as
        ``Int64``, and never floats. Back on a GPU they are as they were.
        """
        self._backend.check_stream(stream)
        return self._out(self._range(0, None, stream=stream))

    def _built(self, buffers: Sequence[Any], labels: Any) -> Any:
        (values,) = buffers
        content = self._content
        return self._backend.interop.column_series(
            values,
            content.type,
            content.stored,
            self._dtype if self._is_text else None,
            self._name,
            labels,
            nullable=self.null_count > 0,
        )

    def to_arrow(self, *, compressed: bool = False) -> Any:
        """The column as an Arrow array.

        Parameters
        ----------
        compressed : bool
            True: an array of one value, the column as it is, with its name, dtype and index. Its type is the extension
            type ``cudf_fsst.column``, which IPC, Flight and Parquet files of other programs carry;
            `cudf_fsst.from_arrow` makes the column of it.

        Returns
        -------
        pyarrow.Array
            It has the Arrow type of the values. Strings have the type that their dtype names. Else they are string,
            or large_string from 2^31 characters on. The result is a `pyarrow.ChunkedArray` where the dtype names
            string and one array cannot hold the characters.
        """
        if compressed:
            file = io.BytesIO()
            self._save(file)
            return arrow_extension.array_of([file.getvalue()])
        if not self._is_text:
            host = self.to_host()
            (values,) = host._backend.read([host._content.node])
            made = host._backend.interop.to_chunked(values, self._content.type)
            return made.combine_chunks() if made.num_chunks != 1 else made.chunk(0)
        return to_arrow(self._host_strings(0, None), interop_pandas.arrow_type(self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """What ``numpy.asarray`` makes of the column: the array that it makes of the pandas.Series.

        Parameters
        ----------
        dtype : numpy dtype, optional
            The dtype of the array. None takes that of the pandas.Series as an array. Strings become ``object``, with
            the missing values of the column's dtype.
        copy : bool, optional
            False is refused, because the values must be decoded.

        Returns
        -------
        numpy.ndarray
            One dimension, a value for each row.

        Raises
        ------
        UnicodeDecodeError
            Some bytes are not UTF-8, so that no Python string can be made of them.
        """
        if copy is False:
            raise ValueError("a compressed column has no array to share; np.asarray(column) decodes it")
        series = self.to_pandas()
        try:
            return np.asarray(series, dtype=dtype)
        except pa.ArrowException:
            with decoding(self.to_arrow()):
                raise

    def __arrow_array__(self, type: Any = None) -> Any:
        """What ``pyarrow.array`` makes of the column: `to_arrow`, cast to the type that is asked for."""
        array = self.to_arrow()
        return array if type is None else array.cast(type)

    def __arrow_c_schema__(self) -> Any:
        """The type, for libraries that speak Arrow; without a name, as arrays and streams of arrays have none."""
        return pa.field("", self._arrow_type()).__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The whole column, for libraries that speak Arrow and want one array; see `__arrow_c_stream__`."""
        array = self.to_arrow()
        if isinstance(array, pa.ChunkedArray):  # more characters than the type can count
            array = array.cast(pa.large_string()).combine_chunks()
        else:
            array = array.cast(self._arrow_type())
        found: tuple[Any, Any] = array.__arrow_c_array__(requested_schema)
        return found

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The column, for libraries that speak Arrow: ``pyarrow.chunked_array(c)``, ``polars.Series(c)``.

        It is decoded into arrays of some 64 MiB, all of them before the first is handed over; they are not copied. The
        stream of a frame, of one column say, is decoded as it is read. A column on a GPU moves to host memory,
        compressed, first.

        Parameters
        ----------
        requested_schema : PyCapsule, optional
            Of the type that the reader would like; arrays are cast where Arrow can.
        """
        there, kind = self.to_host()._content, self._arrow_type()
        found = [
            chunk
            for piece in batches.pieces([there], len(self))
            for chunk in batches.arrays([there], *piece)[0].cast(kind).chunks
        ]
        return pa.chunked_array(found, kind).__arrow_c_stream__(requested_schema)

    def _arrow_type(self) -> Any:
        """The type that arrays of an Arrow stream have."""
        return (interop_pandas.arrow_type(self.dtype) if self._is_text else None) or self._content.type

    def _host_strings(self, start: int, stop: int | None) -> Any:
        backend = self._backend
        with backend.current():
            return backend.host_strings(self._content.node, start, stop)

    # Parts --------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Select rows by position.

        Parameters
        ----------
        key : int, slice, sequence of int, or mask
            Negative numbers count from the end. A mask has one boolean for each row. Missing ones are False, and the
            index of a Series is not looked at.

        Returns
        -------
        value, missing value, or Series
            A value for an int, a Series for anything else.

        Raises
        ------
        IndexError
            There is no such row, or the mask has another length.
        TypeError
            The key is none of these.
        UnicodeDecodeError
            One row was asked for, and its bytes are not UTF-8. A Series holds any bytes, unless its dtype is made of
            Python strings; see `decompress`.
        """
        return self._at(key)

    @property
    def iloc(self) -> Any:
        """Rows by position: ``c.iloc[key]`` is ``c[key]``."""
        return selection.Positions(self.__getitem__)

    def __iter__(self) -> Iterator[Any]:
        """Values one after another, decoded piece by piece; UnicodeDecodeError where one is not UTF-8."""
        if not self._is_text:
            host = self.to_host()
            for start, stop in host._pieces(1 << 20):
                yield from host._range(start, stop)
            return
        for start, stop in self._pieces(1 << 20):
            yield from self._host_range(start, stop)

    def _unlabelled(self, start: int, stop: int | None) -> Any:
        """Rows as a Series that is labelled from 0."""
        with self._backend.current():
            (values,) = self._backend.read([self._content.node], start, stop)
            return self._series_of(values)

    def _as_categories(self) -> Any:
        """All rows as categories: of pandas a Series without name and labels, of cuDF a column."""
        return query.categorical(self)

    def _series_of(self, values: Any) -> Any:
        """What was read of the column as a Series that is labelled from 0."""
        return self._built([values], None)

    def _row(self, number: int) -> Any:
        if not self._is_text:
            with self._backend.current():
                found = self._backend.read(self._nodes, number, number + 1)
                return self._built(found, None).iloc[0]
        strings = self._host_strings(number, number + 1)
        try:
            return interop_pandas.to_series(strings, self.dtype, None, None).iloc[0]
        except UnicodeDecodeError as error:
            reason = f"{error.reason}, in row {number}"
            raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from error

    def _host_range(self, start: int, stop: int) -> Iterator[Any]:
        """Strings of rows, as a pandas Series has them; an error names the row."""
        strings = self._host_strings(start, stop)
        with decoding(to_arrow(strings, pa.large_string()), lambda row: f"in row {start + row}"):
            yield from interop_pandas.to_series(strings, self.dtype, None, None)

    def _pieces(self, chunk_bytes: int) -> list[tuple[int, int]]:
        """Row ranges of about `chunk_bytes`: of strings one row block at least, or whole segments."""
        if not self._is_text:
            return super()._pieces(chunk_bytes)
        with self._backend.current():
            return selection.text_pieces(self._content.node, chunk_bytes, self._backend.row_starts)

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def save(
        self, path: Any, *, compression: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        """Write the column to a file, from which `cudf_fsst.load` reads it.

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
            A file cannot give back the name or the index: an object index of mixed types, for example, or a name in a
            time zone without a name of its own.
        ValueError
            There is no such `compression`.
        OSError
            The file cannot be written.

        Notes
        -----
        docs/format.md defines the file. It is of version 1, or of version 3 for values other than strings, for strings
        with a dictionary and for an index that version 1 cannot say exactly. Missing labels of an object index become
        None, and NumPy's numbers in names become Python's.
        """
        self._save(path, compression, storage_options)

    def _save(
        self, path: Any, compression: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        """Write to a path, a URL or a file object."""
        host = self.to_host()
        in_version_1 = host._is_text and host._content.node.codec == files.FIRST_TEXT and compression is None
        index = host._index.for_version_1() if in_version_1 else None
        if index is not None:
            files.save_text(path, host.segments, host._name, host.dtype, index, storage_options=storage_options)
            return
        labels = pd.Index([host._name], dtype=object, tupleize_cols=False)
        described = host._index.described()
        files.save(
            path,
            "column",
            labels,
            [host._content],
            *described,
            len(host),
            compression=compression,
            storage_options=storage_options,
        )

    @classmethod
    def load(cls, path: Any, *, storage_options: Mapping[str, Any] | None = None) -> CompressedColumn:
        """Read a column that `save` wrote into host memory, as `cudf_fsst.load` does."""
        shown = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else "the file"
        return _loaded(path, f"{shown}: ", storage_options)

    @classmethod
    def _from_bytes(cls, data: Any) -> CompressedColumn:
        """The column whose file has these bytes."""
        return _loaded(io.BytesIO(data), "")

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        host = self.to_host()
        return _restore, (on_gpu, host._content, self._name, host._index, self._dtype, self._proxied)


def _restore(
    on_gpu: bool, content: Content, name: Any, index: CompressedIndex, dtype: Any, proxied: bool
) -> CompressedColumn:
    """Unpickle a column; one that was on a GPU goes to the current one."""
    column = CompressedColumn._make(content, HostBackend(), name, index, dtype)
    column = column.to_device() if on_gpu else column
    column._proxied = proxied
    return column


def _loaded(path: Any, what: str, storage_options: Mapping[str, Any] | None = None) -> CompressedColumn:
    loaded = files.load(path, storage_options=storage_options)
    if loaded.holds != "column":
        raise ValueError(f"{what}holds a {loaded.holds}, not a column")
    return of_loaded(loaded)


def of_loaded(loaded: files.Loaded) -> CompressedColumn:
    """The column of a file."""
    (content,) = loaded.columns
    return CompressedColumn._make(content, HostBackend(), loaded.labels[0], indexes.of_loaded(loaded), loaded.dtype)


_TEXT_IDS = frozenset(kind.id for kind in (pa.string(), pa.large_string()))


def holds_text(content: Content) -> bool:
    """Whether a column's values are strings of a dtype of strings."""
    kind, stored = content.type, content.stored
    if kind.id not in _TEXT_IDS or stored is None:
        return False
    return stored["kind"] in ("string", "object") or (
        stored["kind"] == "arrow" and stored["type"] in ("string", "large_string")
    )


def dtype_of(content: Content, backend: Backend, *, categories: bool = True) -> Any:
    """Dtype of a column, as decompressing gives it; without `categories`, those of categories have none."""
    kind, node = content.type, content.node
    if holds_text(content):
        return dtypes.decode_string_dtype(content.stored)
    is_dictionary = pa.types.is_dictionary(kind)
    if backend.device != "cpu" and not is_dictionary:
        return interop_cudf.plain_dtype(kind, content.stored)
    # pandas' dtype of integers depends on whether there are nulls.
    nulls = node.null_count > 0 and backend.device == "cpu" and not is_dictionary
    some = arrow_columns.describe(pa.nulls(1, kind) if nulls else arrow_columns.no_rows(kind))
    if is_dictionary and categories:  # they are part of the dtype
        some.children = tuple(backend.read(node.children))
    return backend.interop.build(some, kind, content.stored).dtype


def compress(data: Any, **options: Any) -> CompressedColumn:
    """Compress a Series or Index; what ``data.fsst.compress()`` does (see there)."""
    return compress_checked(*checked(data), **options)


def checked(data: Any) -> tuple[Backend, Any, bool]:
    """Backend for a Series or Index, the data without a cudf.pandas proxy around it, and whether it had one.

    Raises
    ------
    AttributeError
        Nothing takes such values.
    TypeError
        It is no Series, Index or Arrow array.
    """
    data, proxied = interop_cudf.unwrap_proxy(data)
    backend, data = of_data(data)
    backend.interop.check_dtype(data)
    return backend, data, proxied


def compress_checked(
    backend: Backend,
    data: Any,
    proxied: bool,
    *,
    table: Any = None,
    tile_size: Any = "auto",
    level: Any = "default",
    codec: str | None = None,
    stream: Any = None,
    to_host: bool = False,
) -> CompressedColumn:
    """Compress what `checked` returned; `to_host`: into host memory, wherever the data is."""
    check_options(table, tile_size, level)
    if codec is not None and codec not in registry.names():
        raise ValueError(f"codec must be one of {registry.names()}, not {codec!r}")
    name, index = backend.interop.labels(data)
    asked = Asked(data, codec, {"table": table, "tile_size": tile_size, "level": level}, lenient=True)
    if backend.device == "cpu":
        [content], _ = backend.compress([asked], stream=stream)
        kept = indexes.keep(index)
    else:
        found = indexes.of_range(index, backend)
        plain, names = (None, []) if found is not None else indexes.unnamed(index, backend)
        [content], described = backend.compress([asked], plain, stream=stream, to_host=to_host)
        kept = found if found is not None else indexes.of_described(described, len(index), names)
        if to_host:
            backend = HostBackend()
    dtype = data.dtype if holds_text(content) else None
    if dtype is not None and isinstance(data, (pd.Series, pd.Index)):
        query.made_of_text(content.node, dtype)
    return CompressedColumn._make(content, backend, name, kept, dtype, proxied and backend.device != "cpu")


def train(data: Any, *, codec: str = "fsst", level: str = "default", stream: Any = None) -> Any:
    """Train a symbol table, for compressing other data that is like this.

    Parameters
    ----------
    data : pandas or cudf Series or Index, or pyarrow.Array
        Strings.
    codec : str
        A codec of text, whose table it is.
    level : {"default", "max"}
        The level at which the table will be used. Any table works at any level, but fits its own best.
    stream : rmm or CuPy stream, optional
        The stream to work on. Only for data on a GPU.

    Returns
    -------
    SymbolTable or OnPairTable
        Of codec ``"fsst"`` or ``"onpair"``. Equal strings give equal tables, on a GPU and on the host.

    Raises
    ------
    AttributeError
        The data is not of strings.
    ValueError
        There is no such `level`, or no such `codec` of text.
    """
    check_options(None, "auto", level)
    registry.of_text(codec)
    backend, data, _ = checked(data)
    if not backend.interop.holds_strings(data):
        raise AttributeError(f"a symbol table is trained on strings, not on {data.dtype}")
    return backend.train(data, codec, level=level, stream=stream)
