"""What ``df.fsst.compress()`` returns: a DataFrame whose columns stay compressed until they are asked for."""

from __future__ import annotations

import html
import operator
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from . import index as indexes
from . import selection
from .backend import Asked, Backend, DeviceBackend, HostBackend, check_options, of_frame
from .backend.content import move
from .codecs import host
from .codecs.node import Content, Node, Wanted, check_codec
from .codecs.registry import NAMES
from .column import CompressedColumn, dtype_of
from .column import of_loaded as column_of
from .files import columns as files
from .index import CompressedIndex
from .interop import arrow_columns, schema
from .interop import cudf as interop_cudf
from .interop import pandas as interop_pandas
from .naming import naming

#: Rows of a piece are a multiple of this.
_PIECE_ROWS = 1024


class CompressedFrame:
    """A compressed DataFrame, in host memory or on a GPU.

    Made by ``df.fsst.compress()``, `concat`, `load` and `Compressor`, not by calling the class. It does not change:
    methods return new frames, which share what they can.

    ``f["a"]`` is a Series, decompressed; ``f[["a", "b"]]`` is a CompressedFrame of these columns; ``f[mask]`` is a
    DataFrame of the rows where the mask is true. Rows go by position, as with ``f.iloc``: a mask's index is not looked
    at, where pandas would align it.
    """

    __slots__ = ("_backend", "_columns", "_index", "_labels", "_proxied")

    _backend: Backend
    _columns: tuple[Content, ...]
    _labels: Any
    _index: CompressedIndex
    _proxied: bool

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
        made._index, made._proxied = index, proxied
        return made

    # What it is ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._index)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self._columns)

    @property
    def columns(self) -> Any:
        """Labels of the columns: a pandas.Index."""
        return self._labels.view()

    @property
    def index(self) -> Any:
        """Index of the DataFrame, decompressed."""
        with self._backend.current():
            return self._out(self._index.whole(self._backend))

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
    def device(self) -> str:
        """Where the frame is: ``"cpu"``, or ``"cuda:0"`` and so on."""
        return self._backend.device

    @property
    def _everything(self) -> tuple[Content, ...]:
        return self._columns + self._index.levels

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept, the index included."""
        return sum(column.node.nbytes for column in self._everything)

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the same columns and index in Arrow."""
        return sum(column.node.uncompressed_nbytes for column in self._everything)

    @property
    def ratio(self) -> float:
        """``uncompressed_nbytes / nbytes``; 1.0 for a frame that has no bytes."""
        return self.uncompressed_nbytes / self.nbytes if self.nbytes else 1.0

    @property
    def null_count(self) -> pd.Series:
        """Missing values of each column, as Arrow counts them: a NaN of pandas or cuDF is a value."""
        return pd.Series([column.node.null_count for column in self._columns], index=self.columns, dtype="int64")

    def memory_usage(self, index: bool = True, deep: bool = False) -> pd.Series:
        """Bytes that the columns take, compressed.

        Parameters
        ----------
        index : bool
            Begin with the index, which columns and other frames may share.
        deep : bool
            Makes no difference; pandas has it.

        Returns
        -------
        pandas.Series
            Of each column; of the index under the label ``"Index"``.
        """
        del deep
        made = pd.Series([column.node.nbytes for column in self._columns], index=self.columns, dtype="int64")
        return pd.concat([pd.Series([self._index.nbytes], index=["Index"]), made]) if index else made

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    @property
    def codecs(self) -> pd.Series:
        """Codec of each column (of a nested one, of its leaves)."""
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
        return f"<p>{html.escape(self._headline())}</p>{self._table().to_html()}"

    def __iter__(self) -> Iterator[Hashable]:
        """Labels of the columns, as a DataFrame gives them."""
        return iter(self._labels)

    def __contains__(self, label: object) -> bool:
        return label in self._labels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Refused with a TypeError: an array would drop index, labels and dtypes, or hold the labels alone.

        `pandas.DataFrame` calls this as well; ``frame.decompress()`` is the DataFrame.
        """
        del dtype, copy
        raise TypeError("a CompressedFrame is no array and no DataFrame; frame.decompress() is one")

    # Back ---------------------------------------------------------------------------------------------------------

    def decompress(self, *, categories: bool = False, stream: Any = None) -> Any:
        """Give the frame back.

        Parameters
        ----------
        categories : bool
            Strings that have a dictionary (codec ``"dict"``) come as categories, as ``astype("category")`` makes them,
            without decoding a string more than once.
        stream : rmm or CuPy stream, optional
            What to work on; only for a frame on a GPU.

        Returns
        -------
        pandas.DataFrame or cudf.DataFrame
            cuDF's for a frame on a GPU. Same values, nulls, labels, index and dtypes as what was compressed.
        """
        self._backend.check_stream(stream)
        if categories:
            return self._out(self._categories(stream))
        return self._out(self._range(0, None, stream=stream))

    def _categories(self, stream: Any) -> Any:
        """A DataFrame in which strings that have a dictionary are categories."""
        backend, index = self._backend, self._index
        with backend.current():
            coded = [bool(column.node.scopes) for column in self._columns]
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

    def _range(self, start: int, stop: int | None, stream: Any = None) -> Any:
        """A DataFrame of rows one after another; all of them without a `stop`."""
        backend, index = self._backend, self._index
        with backend.current():
            buffers = backend.read(self._nodes, start, stop, stream=stream)
            count = len(index.levels)
            return self._built(backend, buffers[count:], index.build(backend, buffers[:count], start, stop))

    def _take(self, rows: Any, *, key: slice | None = None, stream: Any = None) -> Any:
        """A DataFrame of chosen rows; `key`: the slice that they come from."""
        backend, index = self._backend, self._index
        backend.check_stream(stream)
        with backend.current():
            labels = index.chosen(backend, rows, key)
            if labels is not None:
                columns = [column.node for column in self._columns]
                return self._built(backend, backend.take(columns, rows, stream=stream), labels)
            buffers, count = backend.take(self._nodes, rows, stream=stream), len(index.levels)
            return self._built(backend, buffers[count:], index.build(backend, buffers[:count]))

    @property
    def _nodes(self) -> list[Node]:
        """Of the index' levels, then of the columns."""
        return [*self._index.nodes, *(column.node for column in self._columns)]

    def _built(self, backend: Backend, buffers: Sequence[Any], index: Any) -> Any:
        """A DataFrame of what was read of the columns."""
        columns = []
        for place, (column, some) in enumerate(zip(self._columns, buffers, strict=True)):
            with naming(partial(self._column_name, place)):
                columns.append(_series(backend, some, column))
        return backend.interop.frame(columns, self.columns, index)

    def _column_name(self, place: int) -> str:
        """What errors call a column."""
        return f"column {self._labels[place]!r}"

    def __getitem__(self, key: Any) -> Any:
        """Columns, or the rows of a mask.

        Parameters
        ----------
        key : label; list, array or Index of labels; or list, array, Series or column of bool

        Returns
        -------
        Series, CompressedFrame or DataFrame
            Of one label the decompressed column, with the frame's index; of several a frame that shares these columns;
            of a mask the rows where it is true (see `filter`). Where the labels are booleans themselves, a list of
            booleans names columns.

        Raises
        ------
        KeyError
            There is no such column.
        TypeError
            A slice: ``f.iloc`` takes rows by position.
        """
        if isinstance(key, slice):
            raise TypeError(f"a CompressedFrame is indexed by labels of columns or a mask, not by {key!r}; see f.iloc")
        if isinstance(key, CompressedColumn):
            return self.filter(key)
        inner, _ = interop_cudf.unwrap_proxy(key)
        lists = (list, np.ndarray, pd.Index, pd.Series, pd.api.extensions.ExtensionArray)
        if isinstance(inner, lists) or hasattr(inner, "__cuda_array_interface__"):
            if selection.is_mask(inner) and pd.api.types.infer_dtype(self._labels) != "boolean":
                return self.filter(inner)
            return self._of_places([self._place(label) for label in inner])
        if interop_cudf.is_cudf(inner):
            if inner.dtype.kind == "b":
                return self.filter(inner)
            return self._of_places([self._place(label) for label in inner.to_pandas()])
        place = self._place(key)  # whose label the key may only mean, as a text does a time
        one = self._of_places([place])
        return one._out(one._range_series(self._labels[place]))

    def _range_series(self, label: Any) -> Any:
        """The only column as a Series."""
        backend, (column,) = self._backend, self._columns
        with backend.current():
            *levels, some = backend.read(self._nodes)
            index = self._index.build(backend, levels)
            with naming(f"column {label!r}"):
                return backend.interop.series(_series(backend, some, column), label, index)

    def _of_places(self, places: Sequence[int]) -> CompressedFrame:
        """A frame of some columns, which it shares."""
        columns = [self._columns[place] for place in places]
        return self._make(self._backend, columns, self._labels.take(list(places)), self._index, self._proxied)

    # Rows ---------------------------------------------------------------------------------------------------------

    @property
    def iloc(self) -> Any:
        """Rows, and columns, by position, decompressed.

        ``f.iloc[5]`` is a Series of one row; ``f.iloc[2:9]``, ``f.iloc[[4, 1]]`` and ``f.iloc[mask]`` are a DataFrame;
        ``f.iloc[rows, columns]`` selects columns, too, before anything is decompressed.
        """
        return selection.Positions(self._iloc)

    def _iloc(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return self._out(self._rows_at(key))
        if len(key) != 2:
            raise IndexError(f"a frame has rows and columns; {len(key)} positions were given")
        rows, columns = key
        places = np.asarray(np.arange(len(self._columns))[columns])
        if places.ndim == 0:
            found = self.column_at(int(places))
            return found[rows] if not isinstance(rows, slice) or rows != slice(None) else found.decompress()
        part = self._of_places([int(place) for place in places])
        return part._out(part._rows_at(rows))

    def column_at(self, place: int) -> CompressedColumn:
        """A column by position, still compressed."""
        content, label = self._columns[place], self._labels[place]
        return CompressedColumn._make(content, self._backend, label, self._index, None, self._proxied)

    def _rows_at(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._range(start, max(start, stop))
            return self._take(np.arange(start, stop, step, dtype=np.int64), key=key)
        if not isinstance(key, (bool, np.bool_)):
            try:
                number = operator.index(key)
            except TypeError:
                pass
            else:
                number = selection.row_number(number, len(self))
                with self._backend.current():
                    return self._range(number, number + 1).iloc[0]
        return self._take(self._numbers(key))

    def head(self, n: int = 5) -> Any:
        """The first `n` rows as a DataFrame; with a negative number all but the last ``-n``."""
        return self._out(self._rows_at(slice(operator.index(n))))

    def tail(self, n: int = 5) -> Any:
        """The last `n` rows as a DataFrame; with a negative number all but the first ``-n``."""
        return self._out(self._rows_at(selection.last_rows(n, len(self))))

    def take(self, rows: Any, *, stream: Any = None) -> Any:
        """Rows by number, in any order, repeated or not.

        Parameters
        ----------
        rows : sequence of int, array or Series
            Negative numbers count from the end.
        stream : rmm or CuPy stream, optional
            What to work on; only for a frame on a GPU.

        Returns
        -------
        DataFrame
            With the index labels of these rows.

        Raises
        ------
        IndexError
            A row that is not there.
        """
        return self._out(self._take(self._numbers(rows, selection.row_numbers), stream=stream))

    def filter(self, mask: Any, *, stream: Any = None) -> Any:
        """Rows where a mask is true; what ``f[mask]`` gives.

        This is not `pandas.DataFrame.filter`, which selects labels.

        Parameters
        ----------
        mask : sequence of bool, array or Series
            One a row; missing ones are False. The index of a Series is not looked at.
        stream : rmm or CuPy stream, optional
            What to work on; only for a frame on a GPU.

        Returns
        -------
        DataFrame
            With the index labels of these rows.
        """
        return self._out(self._take(self._numbers(mask, selection.mask_rows), stream=stream))

    def _numbers(self, key: Any, how: Callable[[Any, int], Any] | None = None) -> Any:
        """Numbers of the rows that are selected; without `how`, the key's type says whether it is a mask."""
        return selection.numbers(key, len(self), self._backend, how)

    def map_chunks(self, func: Callable[[Any], Any], *, chunk_bytes: int | None = None) -> Any:
        """Call a function on piece after piece of the decompressed frame, and join the results.

        The memory needed beyond the result is that of two pieces, and of the result once more where pieces are joined.

        Parameters
        ----------
        func : callable
            Gets a DataFrame (pandas or cuDF, as `decompress` gives) of consecutive rows with their index labels.
        chunk_bytes : int, optional
            Arrow bytes of a piece, about. A piece ends at a multiple of 1,024 rows. None: 64 MiB, on a GPU an eighth of
            the uncompressed bytes if that is more.

        Returns
        -------
        Series, DataFrame or list
            Series and DataFrames are joined, labels kept; other results come as a list, one a piece. A frame without
            rows is one piece.
        """
        # Proxies are joined by pandas, which is a proxy itself then.
        interop = interop_pandas if self._proxied else self._backend.interop
        with self._backend.current():
            if chunk_bytes is None:
                size = selection.piece_nbytes(self.uncompressed_nbytes, on_gpu=self.device != "cpu")
            else:
                size = selection.positive(chunk_bytes)
            return selection.map_pieces(func, self._piece, self._pieces(size), interop)

    def _piece(self, start: int, stop: int) -> Any:
        return self._out(self._range(start, stop))

    def _pieces(self, chunk_bytes: int) -> list[tuple[int, int]]:
        """Row ranges of about `chunk_bytes`."""
        return selection.row_pieces(len(self), self.uncompressed_nbytes, chunk_bytes, _PIECE_ROWS)

    def isna(self) -> Any:
        """Whether values are missing: a DataFrame of booleans, as that of the decompressed frame."""
        return self.map_chunks(lambda piece: piece.isna())

    def notna(self) -> Any:
        """Whether values are not missing: a DataFrame of booleans, as that of the decompressed frame."""
        return self.map_chunks(lambda piece: piece.notna())

    def equals(self, other: Any) -> bool:
        """Whether another frame has the same labels, dtypes, values, nulls and index.

        Parameters
        ----------
        other : object
            Anything but a frame on the same device is not equal.
        """
        if not isinstance(other, CompressedFrame) or (self.shape, self.device) != (other.shape, other.device):
            return False
        if not self._labels.equals(other._labels) or self._dtypes() != other._dtypes():
            return False
        pieces = self._pieces(64 << 20) or [(0, 0)]
        with self._backend.current():
            same = self._backend.interop.same
            return all(same(self._range(*piece), other._range(*piece)) for piece in pieces)

    def __eq__(self, other: object) -> Any:
        """Refused with a TypeError: it would have to answer for every value, as a DataFrame does; see `equals`."""
        raise TypeError("a CompressedFrame cannot be compared with ==; f.equals(other) compares frames")

    # NumPy and pandas leave `array == compressed` to the method above.
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

    def to_pandas(self) -> Any:
        """The frame as a pandas.DataFrame."""
        return self.to_host().decompress()

    def to_cudf(self) -> Any:
        """The frame as a cudf.DataFrame; a frame in host memory moves to the current GPU compressed."""
        if self.device != "cpu":
            return self._range(0, None)
        device = DeviceBackend()
        index = self._index.for_device(device)
        count = len(index.levels)
        buffers = device.receive([*index.nodes, *(column.node for column in self._columns)])
        return self._built(device, buffers[count:], index.build(device, buffers[:count]))

    def to_arrow(self) -> Any:
        """The columns, without the index, as a pyarrow.Table."""
        there = self.to_host()
        read = there._backend.read([column.node for column in there._columns])
        arrays = [
            there._backend.interop.to_chunked(some, column.type)
            for some, column in zip(read, there._columns, strict=True)
        ]
        fields = [(str(label), array.type) for label, array in zip(self._labels, arrays, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema.of_fields(fields))

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def to_host(self, *, stream: Any = None) -> CompressedFrame:
        """The frame in (pinned) host memory, moved compressed; itself if it is there.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            What to work on; only for a frame on a GPU.
        """
        backend = self._backend
        backend.check_stream(stream)
        if isinstance(backend, HostBackend):
            return self
        return self._moved(HostBackend(), lambda parts: backend.to_host(parts, stream=stream))

    def to_device(self, *, stream: Any = None) -> CompressedFrame:
        """The frame in the memory of the current GPU, moved compressed; itself if it is on a GPU.

        Raises
        ------
        ImportError
            cuDF or CuPy is missing; the message says what to install.
        """
        if self.device != "cpu":
            return self
        device = DeviceBackend()
        return self._moved(device, lambda parts: device.to_device(parts, stream=stream))

    def _moved(self, backend: Backend, mover: Callable[[Any], Any]) -> CompressedFrame:
        contents, count = move(self._everything, mover), len(self._columns)
        index = self._index.with_levels(contents[count:])
        return self._make(backend, contents[:count], self._labels, index)

    def copy(self) -> CompressedFrame:
        """A new frame; what does not change is shared."""
        return replace_proxied(self, self._proxied)

    def __copy__(self) -> CompressedFrame:
        return self.copy()

    def __deepcopy__(self, memo: object) -> CompressedFrame:
        return self.copy()  # nothing in it can change

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the frame to a file, from which `cudf_fsst.load` reads it; see docs/format.md.

        Format version 2, or 3 for labels of columns that version 2 cannot say exactly.

        Parameters
        ----------
        path
            Where to. The file is complete or, if anything fails, as it was. A symbolic link is followed; the
            permissions of an older file stay. A process that is killed meanwhile may leave a file ``.cudf-fsst-*.tmp``
            beside it, which can be deleted.

        Raises
        ------
        TypeError
            Labels of columns that a file cannot give back.
        OSError
            The file cannot be written.
        """
        there = self.to_host()
        files.save(path, "frame", self._labels, there._columns, *there._index.described(), len(self))

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        there = self.to_host()
        state = (there._columns, self._labels, there._index)
        return _restore, (on_gpu, self._proxied, *state)

    def _out(self, data: Any) -> Any:
        return interop_cudf.wrap_proxy(data) if self._proxied else data


def _series(backend: Backend, some: Any, content: Content) -> Any:
    """Rows of a column that were read: of pandas a Series without name and labels, of cuDF a column."""
    nullable = content.node.null_count > 0
    return backend.interop.build(some, content.type, content.stored, nullable=nullable)


def replace_proxied(frame: CompressedFrame, proxied: bool) -> CompressedFrame:
    """The same frame, giving cudf.pandas proxies back or not."""
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
        for label, series in zip(labels.astype(object).tolist(), backend.interop.columns(data), strict=True)
    ]
    found = None if backend.device == "cpu" else indexes.of_range(data.index, backend)
    plain, names = (None, []) if found is not None else indexes.unnamed(data.index, backend)
    columns, described = backend.compress(asked, plain, stream=stream, to_host=to_host)
    index = found if found is not None else indexes.of_described(described, len(data), names)
    if to_host:
        backend, proxied = HostBackend(), False
    return CompressedFrame._make(backend, columns, labels, index, proxied and backend.device != "cpu")


def compress_table(table: Any, *, codecs: Mapping[Any, str] | None = None, level: str = "default") -> CompressedFrame:
    """Compress a pyarrow.Table: the frame pandas makes of it, but with columns' values and nulls exactly Arrow's.

    pandas itself would make floats of integers with nulls, and Python objects of decimals and lists. `codecs` takes the
    table's names, which are texts, or the frame's labels.
    """
    check_options(None, "auto", level)
    empty = table.slice(0, 0).to_pandas()  # labels and dtypes
    noted = (table.schema.pandas_metadata or {}).get("index_columns", [])  # a RangeIndex is no column
    levels = [name for name in table.column_names if name in noted]
    nulls = {table[name].type for name in levels if table[name].null_count}
    masked = {kind: dtype for kind, dtype in schema.NULLABLE.items() if kind in nulls}  # else they would become floats
    # Given a mapper, pyarrow asks extension types (periods, intervals) no more.
    index = table.select(levels).to_pandas(types_mapper=lambda kind: masked.get(kind) or _extension_dtype(kind)).index
    names = [name for name in table.column_names if name not in levels]
    labels = dict(zip(names, empty.columns, strict=True))
    wanted = check_codecs({labels.get(name, name): codec for name, codec in (codecs or {}).items()}, empty.columns)
    columns = []
    for name, label, dtype in zip(names, empty.columns, empty.dtypes, strict=True):
        with naming(f"column {label!r}"):
            array, stored = schema.encode_arrow(table[name], dtype)
            check_codec(wanted.get(label), array.type)
            some = Wanted(arrow_columns.describe(array), wanted.get(label), {"tile_size": "auto", "level": level})
            [node] = host.compress([some])
            columns.append(Content(node, array.type, stored))
    kept = indexes.compress(index, HostBackend())
    return CompressedFrame._make(HostBackend(), columns, empty.columns, kept)


def _extension_dtype(kind: Any) -> Any:
    """pandas' own dtype for an Arrow type, None if it has none."""
    if not isinstance(kind, pa.BaseExtensionType):
        return None
    try:
        dtype = kind.to_pandas_dtype()
    except NotImplementedError:  # Arrow's way to say that there is none
        return None
    return dtype if hasattr(dtype, "__from_arrow__") else None


def of_column(column: CompressedColumn) -> CompressedFrame:
    """A frame of one column, with its index."""
    labels = pd.Index([column.name], dtype=object, tupleize_cols=False)
    return CompressedFrame._make(column._backend, [column._content], labels, column._index, column._proxied)


def check_codecs(codecs: Mapping[Any, str] | None, labels: Any) -> dict[Any, str]:
    """`codecs` as a dict; raise where they are no codecs of columns with these labels."""
    if codecs is not None and not isinstance(codecs, Mapping):
        raise TypeError(f"codecs must be a dict of column labels and codecs, not {type(codecs).__name__}")
    wanted, known = dict(codecs or {}), set(labels)  # not the index itself, which has parts of a MultiIndex' labels too
    for label, codec in wanted.items():
        if label not in known:
            raise KeyError(f"codecs names a column that the frame does not have: {label!r}")
        if codec not in NAMES:
            raise ValueError(f"codec of column {label!r} must be one of {NAMES}, not {codec!r}")
    return wanted


def load(path: str | os.PathLike[str]) -> CompressedColumn | CompressedFrame:
    """Read a column or a frame that ``save`` wrote.

    Parameters
    ----------
    path
        The file. All of it is checked before it is used.

    Returns
    -------
    CompressedColumn or CompressedFrame
        In host memory, whatever it was saved from; ``to_device()`` moves it. Loading takes memory in proportion to the
        file: an index, which may be larger, is made when it is asked for.

    Raises
    ------
    ValueError
        Damaged bytes, something else than a stored column or frame, or another format version; the message says what
        is wrong.
    OSError
        The file cannot be read.
    """
    loaded = files.load(path)
    if loaded.holds == "column":
        return column_of(loaded)
    return CompressedFrame._make(HostBackend(), loaded.columns, loaded.labels, indexes.of_loaded(loaded))
