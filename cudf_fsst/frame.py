"""What ``df.fsst.compress()`` returns: a DataFrame whose columns stay compressed until they are asked for."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import compute, selection
from .backend import Backend, HostBackend
from .codecs.node import Content, Node
from .column import CompressedColumn
from .files import columns as files
from .frame_arrow import ArrowFrame
from .index import CompressedIndex
from .interop import cudf as interop_cudf
from .naming import naming
from .tables import as_html

#: Columns that a notebook shows.
_SHOWN = 60
#: Frames of some columns that a frame keeps.
_KEPT_PARTS = 8


class CompressedFrame(ArrowFrame, compute.Refused):
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
        frame = object.__new__(cls)
        frame._backend, frame._columns, frame._labels = backend, tuple(columns), labels
        frame._index, frame._proxied, frame._parts = index, proxied, {}
        return frame

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
        sizes = pd.Series([column.node.nbytes for column in self._columns], index=self.columns, dtype="int64")
        return pd.concat([pd.Series([self._index.nbytes], index=["Index"]), sizes]) if index else sizes

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
        not_shown = len(self._columns) - len(sizes)
        more = f"<p>... and {not_shown:,} more columns</p>" if not_shown > 0 else ""
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
            series = []
            for place, (content, own) in enumerate(zip(self._columns, coded, strict=True)):
                with naming(partial(self._column_name, place)):
                    if own:
                        column = CompressedColumn._make(content, backend, None, index)
                        series.append(column._as_categories())
                    else:
                        series.append(_series(backend, next(rest), content))
            return backend.interop.frame(series, self.columns, labels)

    def _built(self, buffers: Sequence[Any], labels: Any) -> Any:
        columns = []
        for place, (column, values) in enumerate(zip(self._columns, buffers, strict=True)):
            with naming(partial(self._column_name, place)):
                columns.append(_series(self._backend, values, column))
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
            return self._columns_at([self._place(label) for label in key])
        if isinstance(key, CompressedColumn):
            return self.filter(key)
        inner, _ = interop_cudf.unwrap_proxy(key)
        if interop_cudf.is_cudf(inner):
            if inner.dtype.kind == "b":
                return self.filter(inner)
            return self._columns_at([self._place(label) for label in inner.to_pandas()])
        lists = (list, np.ndarray, pd.Index, pd.Series, pd.api.extensions.ExtensionArray)
        if isinstance(inner, lists) or hasattr(inner, "__cuda_array_interface__"):
            if selection.is_mask(inner) and pd.api.types.infer_dtype(self._labels) != "boolean":
                return self.filter(inner)
            return self._columns_at([self._place(label) for label in inner])
        place = self._place(key)  # whose label the key may only mean, as a text does a time
        return self._out(self._series_at(place))

    def _series_at(self, place: int) -> Any:
        """A column as a Series."""
        backend, column, label = self._backend, self._columns[place], self._labels[place]
        with backend.current():
            *levels, values = backend.read([*self._index.nodes, column.node])
            index = self._index.build(backend, levels)
            with naming(partial(self._column_name, place)):
                return backend.interop.series(_series(backend, values, column), label, index)

    def _columns_at(self, places: Sequence[int]) -> CompressedFrame:
        """A frame of some columns, which it shares.

        A few are kept, for short queries that ask for the same columns: 2 us instead of 31, most of it for the labels.
        """
        key = tuple(places)
        part = self._parts.get(key)
        if part is None:
            columns, labels = [self._columns[place] for place in key], self._labels.take(list(key))
            part = self._make(self._backend, columns, labels, self._index, self._proxied)
            if len(self._parts) >= _KEPT_PARTS:
                self._parts.clear()
            self._parts[key] = part
        return part

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
            column = self.column_at(int(places))
            return column[rows] if not isinstance(rows, slice) or rows != slice(None) else column.decompress()
        part = self._columns_at([int(place) for place in places])
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
        return self._missing("isna")

    def notna(self) -> Any:
        """Whether values are not missing: a DataFrame of booleans, as the decompressed frame gives it."""
        return self._missing("notna")

    def _missing(self, question: str) -> Any:
        """The answer of ``isna`` or ``notna``; in host memory of each column, for the null mask may say all."""
        if self._backend.device != "cpu" or self._proxied or not self._columns:
            return self.map_chunks(lambda piece: getattr(piece, question)())
        answers = [getattr(self.column_at(place), question)() for place in range(len(self._columns))]
        return self._backend.interop.frame(answers, self._labels, self._index.shared(self._backend))

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

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def _save(self, path: Any, **options: Any) -> None:
        files.save(path, "frame", self._labels, self._columns, *self._index.described(), len(self), **options)

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        there = self.to_host()
        state = (there._columns, self._labels, there._index)
        return _restore, (on_gpu, self._proxied, *state)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _series(backend: Backend, column: Any, content: Content) -> Any:
    """Rows of a column that were read: of pandas a Series without name and labels, of cuDF a column."""
    nullable = content.node.null_count > 0
    return backend.interop.build(column, content.type, content.stored, nullable=nullable)


def replace_proxied(frame: CompressedFrame, proxied: bool) -> CompressedFrame:
    """A frame of the same columns that gives cudf.pandas proxies back, or does not."""
    return CompressedFrame._make(frame._backend, frame._columns, frame._labels, frame._index, proxied)


def _restore(on_gpu: bool, proxied: bool, *state: Any) -> CompressedFrame:
    """Unpickle a frame; one that was on a GPU goes to the current one."""
    frame = CompressedFrame._make(HostBackend(), *state)
    return replace_proxied(frame.to_device() if on_gpu else frame, proxied)


def of_column(column: CompressedColumn, label: Any = None) -> CompressedFrame:
    """A frame of one column, with its index; `label` instead of the column's name."""
    labels = pd.Index([column.name if label is None else label], dtype=object, tupleize_cols=False)
    return CompressedFrame._make(column._backend, [column._content], labels, column._index, column._proxied)
