"""What ``compress()`` returns: a string column that stays compressed, and gives any of its rows back."""

from __future__ import annotations

import html
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import selection, stored_index
from .backend import Backend, DeviceBackend, check_options, of_data, of_device
from .codecs.fsst.layout import ROW_BLOCK
from .codecs.fsst.segment import Segment
from .codecs.fsst.symbols import SymbolTable
from .files import storage
from .files.versions import FORMAT_VERSION
from .interop import cudf as interop_cudf
from .interop import pandas as interop_pandas
from .interop import schema
from .interop.arrow import LARGE, decoding, to_arrow
from .stored_index import StoredIndex


class CompressedColumn:
    """A compressed string column, in host memory or on a GPU.

    Made by ``series.fsst.compress()``, `concat`, `load` and `Compressor`, not by calling the class. It does not change:
    methods return new columns, which share what they can.

    A selection decodes only the tiles of characters it touches. ``c[5]`` is a string, or the dtype's missing value;
    ``c[2:9]``, ``c[[4, 1]]`` and ``c[mask]`` are a Series with the index labels of these rows. On the host that is a
    pandas Series, on a GPU a cuDF one.
    """

    __slots__ = ("_backend", "_dtype", "_index", "_name", "_proxied", "_segments")

    _segments: tuple[Segment, ...]
    _backend: Backend
    _name: Any
    _index: Any
    _dtype: Any
    _proxied: bool

    def __init__(self) -> None:
        raise TypeError("make a CompressedColumn with series.fsst.compress() or cudf_fsst.load(path)")

    @classmethod
    def _make(
        cls, segments: Sequence[Segment], backend: Backend, name: Any, index: Any, dtype: Any, proxied: bool = False
    ) -> CompressedColumn:
        column = object.__new__(cls)
        column._segments = tuple(segments)
        column._backend = backend
        column._name = name
        column._index = index if isinstance(index, StoredIndex) else backend.interop.view(index)
        column._dtype = dtype
        # Came from a cudf.pandas proxy, so Series go back as proxies.
        column._proxied = proxied
        return column

    # What it is ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(segment.rows for segment in self._segments)

    @property
    def name(self) -> Any:
        """Name of the Series."""
        return self._name

    @property
    def index(self) -> Any:
        """Index of the Series."""
        return self._out(self._labels())

    def _labels(self) -> Any:
        """The index, to hand out: who gets it may rename it."""
        index = self._index
        return self._backend.interop.view(index.to_pandas() if isinstance(index, StoredIndex) else index)

    def _index_on_host(self) -> Any:
        """The index as a column in host memory keeps it."""
        return self._index if self.device == "cpu" else stored_index.of_cudf(self._index, self.device)

    def _index_on_device(self) -> Any:
        """The index of a column in host memory, in the memory of the current GPU."""
        index = self._index
        return index.to_cudf() if isinstance(index, StoredIndex) else interop_cudf.index_to_device(index)

    @property
    def dtype(self) -> Any:
        """Dtype of the Series."""
        return self._dtype

    @property
    def device(self) -> str:
        """Where the column is: ``"cpu"``, or ``"cuda:0"`` and so on."""
        return self._backend.device

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments: pieces of consecutive rows, each in buffers of its own; () for a column without rows."""
        return self._segments

    @property
    def tables(self) -> tuple[SymbolTable, ...]:
        """Symbol tables that the segments use, each once, in order of first use."""
        return tuple(dict.fromkeys(segment.table for segment in self._segments))

    @property
    def null_count(self) -> int:
        """Missing values."""
        return sum(segment.null_count for segment in self._segments)

    @property
    def chars_nbytes(self) -> int:
        """Bytes of the strings."""
        return sum(segment.chars for segment in self._segments)

    @property
    def codes_nbytes(self) -> int:
        """Bytes that the strings take as codes."""
        return sum(segment.codes_nbytes for segment in self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept except the index: codes, where they lie, row lengths, null mask, symbol tables."""
        return sum(segment.nbytes for segment in self._segments) + sum(table.nbytes for table in self.tables)

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the same column in Arrow: characters, offsets (4 bytes, 8 from 2^31 characters on), null mask."""
        rows = len(self)
        if rows == 0:
            return 0
        chars = self.chars_nbytes
        mask = -(-rows // 8) if self.null_count else 0
        return chars + (rows + 1) * (4 if chars < LARGE else 8) + mask

    @property
    def ratio(self) -> float:
        """``uncompressed_nbytes / nbytes``; 1.0 for a column without rows."""
        return self.uncompressed_nbytes / self.nbytes if self._segments else 1.0

    def _facts(self) -> list[tuple[str, str]]:
        tables = self.tables
        symbols = ", ".join(str(len(table.symbols)) for table in tables[:4]) + (", ..." if len(tables) > 4 else "")
        return [
            ("name", repr(self._name)),
            ("dtype", str(self._dtype)),
            ("device", self.device),
            ("rows", f"{len(self):,}"),
            ("nulls", f"{self.null_count:,}"),
            ("characters", f"{self.chars_nbytes:,} B as {self.codes_nbytes:,} B of codes"),
            ("column", f"{self.uncompressed_nbytes:,} B in Arrow as {self.nbytes:,} B"),
            ("ratio", f"{self.ratio:.2f}"),
            ("segments", str(len(self._segments))),
            ("symbol tables", f"{len(tables)} ({symbols} symbols)" if tables else "0"),
        ]

    def __repr__(self) -> str:
        lines = [f"  {label}: {value}" for label, value in self._facts()]
        return "\n".join(["CompressedColumn", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{label}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
            for label, value in self._facts()
        )
        return f"<table><caption>CompressedColumn</caption><tbody>{rows}</tbody></table>"

    # Back to Series -----------------------------------------------------------------------------------------------

    def decompress(self, *, stream: Any = None) -> Any:
        """Give the column back.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            What to work on; only for a column on a GPU.

        Returns
        -------
        pandas.Series or cudf.Series
            cuDF's for a column on a GPU. Same values, nulls, name, index and dtype as the Series that was compressed.
            In pandas, cuDF's labels that are integers or booleans with missing ones are of a nullable dtype (Int64,
            boolean, ...), never floats; back on a GPU they are as they were.
            A string Index that was compressed comes back as a Series with a RangeIndex.

        Raises
        ------
        UnicodeDecodeError
            The dtype is ``object`` or ``string[python]``, and some bytes are not UTF-8, so that no Python string can
            be made of them. `to_arrow` gives any bytes.
        """
        return self._out(self._series(stream))

    def _series(self, stream: Any = None) -> Any:
        backend = self._backend
        backend.check_stream(stream)
        with backend.current():
            if not self._segments:
                return backend.interop.empty(self._dtype, self._name, self._labels())
            strings = backend.decompress(self._segments, stream=stream)
            return backend.interop.to_series(strings, self._dtype, self._name, self._labels())

    def to_pandas(self) -> Any:
        """The column as a pandas.Series: what `decompress` gives for the column in host memory."""
        with self._backend.current():
            index = self._index_on_host()
        if isinstance(index, StoredIndex):
            index = index.to_pandas()
        index = interop_pandas.view(index)
        if not self._segments:
            return interop_pandas.empty(self._dtype, self._name, index)
        return interop_pandas.to_series(self._host_strings(), self._dtype, self._name, index)

    def to_cudf(self) -> Any:
        """The column as a cudf.Series; a column in host memory moves to the current GPU compressed."""
        if self.device != "cpu":
            return self._series()
        device = DeviceBackend()
        index = self._index_on_device()
        if not self._segments:
            return device.interop.empty(self._dtype, self._name, index)
        return device.interop.to_series(device.receive(self._segments), self._dtype, self._name, index)

    def to_arrow(self) -> Any:
        """The column as an Arrow array.

        Returns
        -------
        pyarrow.Array
            Of the Arrow type that the dtype names, else string, or large_string from 2^31 characters on. A
            `pyarrow.ChunkedArray` where the dtype names string and one array cannot hold the characters.
        """
        return to_arrow(self._host_strings(), interop_pandas.arrow_type(self._dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """What ``numpy.asarray`` makes of the column: the same as of its pandas.Series, so an array of objects.

        Parameters
        ----------
        dtype : numpy dtype, optional
            Of the array; None: object, with the missing values of the column's dtype.
        copy : bool, optional
            False is refused: the strings must be decoded.

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

    def _host_strings(self) -> Any:
        backend = self._backend
        with backend.current():
            return backend.to_host_strings(backend.decompress(self._segments, stream=None))

    # Parts --------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Select rows by position.

        Parameters
        ----------
        key : int, slice, sequence of int, or mask
            Negative numbers count from the end. A mask has one boolean a row; missing ones are False, and the index
            of a Series is not looked at.

        Returns
        -------
        str, missing value, or Series

        Raises
        ------
        IndexError
            A row that is not there, or a mask of another length.
        UnicodeDecodeError
            One row was asked for, and its bytes are not UTF-8. A Series holds any bytes, unless its dtype is one of
            Python's strings (see `decompress`).
        """
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._out(self._take_range(start, max(start, stop)))
            return self._out(self._take(np.arange(start, stop, step, dtype=np.int64), labels=self._labels()[key]))
        if not isinstance(key, (bool, np.bool_)):
            try:
                number = operator.index(key)
            except TypeError:
                pass
            else:
                return self._scalar(selection.row_number(number, len(self)))
        if key is None or isinstance(key, (str, bytes, bool, np.bool_, tuple, dict, type(Ellipsis))):
            raise TypeError(f"rows are selected by position: an int, a slice, integers or a mask, not {key!r}")
        return self._out(self._take(self._numbers(key)))

    def take(self, rows: Any, *, stream: Any = None) -> Any:
        """Rows by number, in any order, repeated or not.

        Parameters
        ----------
        rows : sequence of int, array or Series
            Negative numbers count from the end.
        stream : rmm or CuPy stream, optional
            What to work on; only for a column on a GPU.

        Returns
        -------
        Series
            With the index labels of these rows.

        Raises
        ------
        IndexError
            A row that is not there.
        """
        return self._out(self._take(self._numbers(rows, selection.row_numbers), stream=stream))

    def filter(self, mask: Any, *, stream: Any = None) -> Any:
        """Rows where a mask is true.

        Parameters
        ----------
        mask : sequence of bool, array or Series
            One a row; missing ones are False. The index of a Series is not looked at.
        stream : rmm or CuPy stream, optional
            What to work on; only for a column on a GPU.

        Returns
        -------
        Series
            With the index labels of these rows.
        """
        return self._out(self._take(self._numbers(mask, selection.mask_rows), stream=stream))

    def __iter__(self) -> Iterator[Any]:
        """Values one after another, decoded piece by piece; UnicodeDecodeError where one is not UTF-8."""
        for start, stop in self._pieces(1 << 20):
            yield from self._host_range(start, stop)

    def _numbers(self, key: Any, how: Callable[[Any, int], Any] | None = None) -> Any:
        """Numbers of the rows that are selected; without `how`, the key's type says whether it is a mask."""
        key, _ = interop_cudf.unwrap_proxy(key)
        with self._backend.current():
            values = self._backend.interop.row_values(key)
            how = how or (selection.mask_rows if values.dtype.kind == "b" else selection.row_numbers)
            return how(values, len(self))

    def _take(self, rows: Any, *, labels: Any = None, stream: Any = None) -> Any:
        backend = self._backend
        backend.check_stream(stream)
        with backend.current():
            if labels is None:
                labels = backend.interop.take_labels(self._labels(), rows)
            if rows.size == 0:
                return backend.interop.empty(self._dtype, self._name, labels)
            strings = backend.take(self._segments, rows, stream=stream)
            return backend.interop.to_series(strings, self._dtype, self._name, labels)

    def _take_range(self, start: int, stop: int) -> Any:
        backend = self._backend
        with backend.current():
            labels = self._labels()[start:stop]
            if start == stop:
                return backend.interop.empty(self._dtype, self._name, labels)
            strings = backend.take_range(self._segments, start, stop, stream=None)
            return backend.interop.to_series(strings, self._dtype, self._name, labels)

    def _host_range(self, start: int, stop: int) -> Iterator[Any]:
        """Values of rows, as a pandas Series has them; an error names the row."""
        strings = self._host_range_strings(start, stop)
        with decoding(to_arrow(strings, pa.large_string()), lambda row: f"in row {start + row}"):
            yield from interop_pandas.to_series(strings, self._dtype, None, None)

    def _arrow_range(self, start: int, stop: int, arrow_type: Any) -> Any:
        """Rows as Arrow's."""
        return to_arrow(self._host_range_strings(start, stop), arrow_type)

    def _host_range_strings(self, start: int, stop: int) -> Any:
        backend = self._backend
        with backend.current():
            return backend.to_host_strings(backend.take_range(self._segments, start, stop, stream=None))

    def _scalar(self, number: int) -> Any:
        strings = self._host_range_strings(number, number + 1)
        try:
            return interop_pandas.to_series(strings, self._dtype, None, None).iloc[0]
        except UnicodeDecodeError as error:
            reason = f"{error.reason}, in row {number}"
            raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from error

    def map_chunks(self, func: Callable[[Any], Any], *, chunk_bytes: int = 64 << 20) -> Any:
        """Call a function on piece after piece of the decompressed column, and join the results.

        The memory needed beyond the result is that of one piece.

        Parameters
        ----------
        func : callable
            Gets a Series (pandas or cuDF, as `decompress` gives) of consecutive rows with their index labels.
        chunk_bytes : int
            Characters of a piece, about. A piece ends at a multiple of 256 rows of a segment, or with the segment.

        Returns
        -------
        Series, DataFrame or list
            Series and DataFrames are joined, labels kept; other results come as a list, one a piece. A column without
            rows is one piece.
        """
        chunk_bytes = operator.index(chunk_bytes)
        if chunk_bytes <= 0:
            raise ValueError(f"chunk_bytes must be positive, not {chunk_bytes}")
        pieces = self._pieces(chunk_bytes) or [(0, 0)]
        # Proxies are joined by pandas, which is a proxy itself then.
        interop = interop_pandas if self._proxied else self._backend.interop
        with self._backend.current():
            results = [func(self._out(self._take_range(start, stop))) for start, stop in pieces]
            if all(interop.is_frame(result) for result in results):
                return results[0] if len(results) == 1 else interop.concat(results)
        return results

    def _pieces(self, chunk_bytes: int) -> list[tuple[int, int]]:
        """Row ranges of about `chunk_bytes` characters; one row block at least, none across segments."""
        pieces = []
        base = 0
        chunk_bytes = min(chunk_bytes, self.chars_nbytes)  # which no position passes
        for segment in self._segments:
            with self._backend.current():
                starts = self._backend.row_starts(segment)
            blocks = len(starts) - 1
            first = 0
            while first < blocks:
                limit = int(starts[first]) + chunk_bytes
                last = max(first + 1, int(np.searchsorted(starts, np.uint64(limit), side="right")) - 1)
                # Row blocks without characters at the end of the segment count for nothing.
                last = min(last, blocks)
                pieces.append((base + first * ROW_BLOCK, base + min(last * ROW_BLOCK, segment.rows)))
                first = last
            base += segment.rows
        return pieces

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def to_host(self, *, stream: Any = None) -> CompressedColumn:
        """The column in (pinned) host memory, moved compressed; itself if it is there."""
        backend = self._backend
        backend.check_stream(stream)
        if self.device == "cpu":
            return self
        host = of_device("cpu")
        with backend.current():
            segments = backend.codec.to_host(self._segments, stream=stream) if self._segments else []
            index = self._index_on_host()
        return self._make(segments, host, self._name, index, self._dtype)

    def to_device(self, *, stream: Any = None) -> CompressedColumn:
        """The column in the memory of the current GPU, moved compressed; itself if it is on a GPU.

        Raises
        ------
        ImportError
            cuDF or CuPy is missing; the message says what to install.
        """
        if self.device != "cpu":
            return self
        device = DeviceBackend()
        segments = device.codec.to_device(self._segments, stream=stream) if self._segments else []
        index = self._index_on_device()
        return self._make(segments, device, self._name, index, self._dtype)

    def copy(self) -> CompressedColumn:
        """A new column; what does not change is shared."""
        return self._make(self._segments, self._backend, self._name, self._index, self._dtype, self._proxied)

    def __copy__(self) -> CompressedColumn:
        return self.copy()

    def __deepcopy__(self, memo: object) -> CompressedColumn:
        return self.copy()  # nothing in it can change

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the column to a file, from which `cudf_fsst.load` reads it; see docs/format.md.

        Format version 1, or 3 for an index that version 1 cannot say exactly.

        Parameters
        ----------
        path
            Where to. The file is complete or, if anything fails, as it was. A symbolic link is followed; the
            permissions of an older file stay. A process that is killed meanwhile may leave a file ``.cudf-fsst-*.tmp``
            beside it, which can be deleted.

        Raises
        ------
        TypeError
            A name or an index that a file cannot give back, such as an object index of mixed types, or a name in a
            time zone that has no name of its own. Missing labels of an object index count as the same, and become None.
            NumPy's numbers in names become Python's.
        OSError
            The file cannot be written.
        """
        host = self.to_host()
        levels = stored_index.described(host._index)
        if levels is not None:
            from .frame import save_column

            save_column(path, host._segments, host._name, host._dtype, *levels)
            return
        described, index = schema.to_bytes(host._name, host._dtype, host._labels())
        storage.save(path, segments=host._segments, schema=described, index=index)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CompressedColumn:
        """Read a column that `save` wrote, into host memory; see `cudf_fsst.load`."""
        found = load(path)
        if not isinstance(found, cls):
            raise ValueError(f"{os.fsdecode(path)}: holds a {type(found).__name__}, not a column")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        host = self.to_host()
        return _restore, (on_gpu, host._segments, self._name, host._index, self._dtype, self._proxied)

    def _out(self, data: Any) -> Any:
        return interop_cudf.wrap_proxy(data) if self._proxied else data


def _restore(
    on_gpu: bool, segments: tuple[Segment, ...], name: Any, index: Any, dtype: Any, proxied: bool
) -> CompressedColumn:
    """Unpickle a column; one that was on a GPU goes to the current one."""
    column = CompressedColumn._make(segments, of_device("cpu"), name, index, dtype)
    column = column.to_device() if on_gpu else column
    column._proxied = proxied
    return column


def compress(
    data: Any,
    *,
    table: SymbolTable | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
) -> CompressedColumn:
    """Compress a Series or Index of strings; what ``data.fsst.compress()`` does (see there)."""
    return compress_checked(*checked(data), table=table, tile_size=tile_size, level=level, stream=stream)


def checked(data: Any) -> tuple[Backend, Any, bool]:
    """Backend for a Series or Index of strings, the data without a cudf.pandas proxy around it, and whether it had one.

    Raises
    ------
    AttributeError
        It does not hold strings.
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
    table: Any,
    tile_size: Any,
    level: Any,
    stream: Any,
    to_host: bool = False,
) -> CompressedColumn:
    """Compress what `checked` returned; `to_host`: into host memory, wherever the data is."""
    check_options(table, tile_size, level)
    options = {"table": table, "tile_size": tile_size, "level": level, "stream": stream}
    name, index = backend.interop.labels(data)
    if to_host and isinstance(backend, DeviceBackend):
        segments = backend.compress_to_host(data, **options)
        index = stored_index.of_cudf(index, backend.device)
        return CompressedColumn._make(segments, of_device("cpu"), name, index, data.dtype)
    segments = backend.compress(data, **options)
    return CompressedColumn._make(segments, backend, name, index, data.dtype, proxied and backend.device != "cpu")


def train(data: Any, *, level: str = "default", stream: Any = None) -> SymbolTable:
    """Train a symbol table, to compress other data like this with.

    Parameters
    ----------
    data : pandas or cudf Series or Index, or pyarrow.Array
        Strings.
    level : str
        The level at which it will be used, ``"default"`` or ``"max"``. Any table works at any level, but the other
        level makes less of it.
    stream : rmm or CuPy stream, optional
        What to work on; only for data on a GPU.

    Returns
    -------
    SymbolTable
        The same for the same strings, wherever they are.
    """
    check_options(None, "auto", level)
    backend, data, _ = checked(data)
    return backend.train(data, level=level, stream=stream)


def concat(columns: Sequence[CompressedColumn]) -> CompressedColumn:
    """Put columns one after another; nothing is decoded or copied, segments are shared.

    Parameters
    ----------
    columns : sequence of CompressedColumn
        All of one dtype and on one device.

    Returns
    -------
    CompressedColumn
        Name and index are what ``pandas.concat`` (``cudf.concat``) gives for the Series.

    Raises
    ------
    ValueError
        No columns, or columns on several devices.
    TypeError
        Columns of several dtypes, or something else than columns.
    """
    columns = list(columns)
    if not columns:
        raise ValueError("no columns to concatenate")
    for column in columns:
        if not isinstance(column, CompressedColumn):
            raise TypeError(f"expected CompressedColumn objects, got {type(column).__name__}")
    first = columns[0]
    for column in columns[1:]:
        if column.device != first.device:
            raise ValueError(f"columns are on several devices, {first.device} and {column.device}; move them first")
        if column.dtype != first.dtype:
            raise TypeError(f"columns are of several dtypes, {first.dtype} and {column.dtype}")
    backend = first._backend
    segments = [segment for column in columns for segment in column._segments]
    with backend.current():
        name, index = backend.interop.concat_labels(
            [column._name for column in columns], [column._labels() for column in columns]
        )
    proxied = any(column._proxied for column in columns)
    return CompressedColumn._make(segments, backend, name, index, first._dtype, proxied)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a column or a frame that ``save`` wrote.

    Parameters
    ----------
    path
        The file. All of it is checked before it is used.

    Returns
    -------
    CompressedColumn or CompressedFrame
        In host memory, whatever it was saved from; ``to_device()`` moves it. Loading takes memory in proportion to the
        file: a column's index, which may be larger, is made when it is asked for.

    Raises
    ------
    ValueError
        Damaged bytes, something else than a stored column or frame, or another format version; the message says what
        is wrong.
    OSError
        The file cannot be read.
    """
    stored = storage.load(path)
    try:
        if stored.version != FORMAT_VERSION:
            from .frame import from_stored

            return from_stored(stored)
        segments = stored.segments
        rows = sum(segment.rows for segment in segments)
        name, dtype, notes = schema.from_bytes(stored.schema)
        index = stored_index.of_file(notes, stored.index, rows)
    except ValueError as error:
        raise ValueError(f"{os.fsdecode(path)}: {error}") from error
    return CompressedColumn._make(segments, of_device("cpu"), name, index, dtype)
