"""What ``df.fsst.compress()`` returns: a DataFrame whose columns stay compressed until they are asked for."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from . import frame_backend
from .backend import check_options
from .codecs import host
from .codecs.host import Compressor
from .codecs.node import Node, is_strings
from .codecs.registry import NAMES
from .codecs.values import cpu
from .column import CompressedColumn
from .files import storage, trees
from .files.versions import EXACT_VERSION, FRAME_VERSION
from .interop import arrow_columns, pandas_frame, schema
from .interop import cudf as interop_cudf
from .stored_index import StoredIndex


@dataclass(frozen=True, eq=False)
class _Column:
    """A compressed column: its buffers, its exact Arrow type, and what says its dtype (`interop.schema`)."""

    node: Node = field(repr=False)
    type: Any
    stored: Any


class CompressedFrame:
    """A compressed DataFrame, in host memory or on a GPU.

    Made by ``df.fsst.compress()`` and `load`, not by calling the class. It does not change: methods return new frames,
    which share what they can.

    ``f["a"]`` is a Series, decompressed; ``f[["a", "b"]]`` is a CompressedFrame of these columns.
    """

    __slots__ = ("_backend", "_columns", "_index", "_labels", "_levels", "_proxied", "_rows")

    _backend: frame_backend.FrameBackend
    _columns: tuple[_Column, ...]
    _labels: Any
    _index: dict[str, Any]
    _levels: tuple[_Column, ...]
    _rows: int
    _proxied: bool

    def __init__(self) -> None:
        raise TypeError("make a CompressedFrame with df.fsst.compress() or cudf_fsst.load(path)")

    @classmethod
    def _make(
        cls,
        backend: frame_backend.FrameBackend,
        columns: Sequence[_Column],
        labels: Any,
        index: dict[str, Any],
        levels: Sequence[_Column],
        rows: int,
        proxied: bool = False,
    ) -> CompressedFrame:
        made = object.__new__(cls)
        made._backend, made._columns, made._labels, made._rows = backend, tuple(columns), labels, rows
        made._index, made._levels, made._proxied = index, tuple(levels), proxied
        return made

    # What it is ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._rows, len(self._columns)

    @property
    def columns(self) -> Any:
        """Labels of the columns: a pandas.Index."""
        return self._labels.view()

    @property
    def index(self) -> Any:
        """Index of the DataFrame, decompressed."""
        with self._backend.reading(None) as read:
            return self._out(self._build_index(self._backend, read))

    @property
    def dtypes(self) -> pd.Series:
        """Dtype of each column, as `decompress` gives it."""
        with self._backend.reading(None) as read:
            return pd.Series(self._dtypes(read), index=self.columns, dtype=object)

    def _dtypes(self, read: Callable[[Node], Any] | None) -> list[Any]:
        """Dtype of each column; without what reads them, those of categories have none."""
        interop = self._backend.interop
        found = []
        for label, column in zip(self._labels, self._columns, strict=True):
            categories = pa.types.is_dictionary(column.type)
            # pandas' dtype of integers depends on whether there are nulls.
            nulls = column.node.null_count > 0 and self.device == "cpu" and not categories
            few = pa.nulls(1, column.type) if nulls else arrow_columns.no_rows(column.type)
            some = arrow_columns.describe(few)
            with _naming(f"column {label!r}"):
                if categories and read is not None:  # they are part of the dtype
                    some.children = tuple(map(read, column.node.children))
                found.append(interop.build(some, column.type, column.stored).dtype)
        return found

    @property
    def device(self) -> str:
        """Where the frame is: ``"cpu"``, or ``"cuda:0"`` and so on."""
        return self._backend.device

    @property
    def _everything(self) -> tuple[_Column, ...]:
        return self._columns + self._levels

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
        for label, dtype, column in zip(self._labels, self._dtypes(None), self._columns, strict=True):
            yield str(label), f"object: {column.type}" if dtype == np.dtype(object) else str(dtype), column.node
        for name, level in zip(self._index["names"], self._levels, strict=False):  # a RangeIndex has no levels
            yield "(index)" if name is None else f"(index) {schema.decode_name(name)}", str(level.type), level.node

    def _headline(self) -> str:
        return (
            f"CompressedFrame of {self._rows:,} rows and {len(self._columns)} columns on {self.device}: "
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

    def decompress(self, *, stream: Any = None) -> Any:
        """Give the frame back.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            What to work on; only for a frame on a GPU.

        Returns
        -------
        pandas.DataFrame or cudf.DataFrame
            cuDF's for a frame on a GPU. Same values, nulls, labels, index and dtypes as what was compressed.
        """
        backend = self._backend
        with backend.reading(stream) as read:
            return self._out(self._build(backend, read))

    def _build(self, backend: Any, read: Callable[[Node], Any]) -> Any:
        """The frame, of what `read` gives for the nodes of index and columns, in this order."""
        index = self._build_index(backend, read)
        columns = []
        for label, column in zip(self._labels, self._columns, strict=True):
            with _naming(f"column {label!r}"):
                columns.append(backend.interop.build(read(column.node), column.type, column.stored))
        return backend.interop.frame(columns, self.columns, index)

    def _build_index(self, backend: Any, read: Callable[[Node], Any]) -> Any:
        with _naming("the index"):
            levels = [(read(level.node), level.type, level.stored) for level in self._levels]
            return backend.interop.build_index(self._index, levels)

    def __getitem__(self, key: Any) -> Any:
        """Columns.

        Parameters
        ----------
        key : label, or list, array or Index of labels

        Returns
        -------
        Series or CompressedFrame
            Of one label the decompressed column, with the frame's index; of a list a frame that shares these columns.

        Raises
        ------
        KeyError
            There is no such column.
        TypeError
            Rows: a frame is read column by column.
        """
        if isinstance(key, slice):
            raise TypeError(f"a CompressedFrame is indexed by labels of columns, not by rows: {key!r}")
        if isinstance(key, (list, np.ndarray, pd.Index, pd.Series)):
            kind = pd.api.types.infer_dtype
            if kind(key) == "boolean" and kind(self._labels) != "boolean":
                raise TypeError("a CompressedFrame is indexed by labels of columns, not by a mask of rows")
            places = [self._place(label) for label in key]
            labels = self._labels.take(places)
            columns = [self._columns[place] for place in places]
            return self._make(self._backend, columns, labels, self._index, self._levels, self._rows, self._proxied)
        place = self._place(key)
        column, label = self._columns[place], self._labels[place]  # which the key may only mean, as a text does a time
        backend = self._backend
        with backend.reading(None) as read:
            index = self._build_index(backend, read)
            with _naming(f"column {label!r}"):
                values = backend.interop.build(read(column.node), column.type, column.stored)
            return self._out(backend.interop.series(values, label, index))

    def _place(self, label: Any) -> int:
        try:
            place = self._labels.get_loc(label)
        except pd.errors.InvalidIndexError as error:
            raise KeyError(label) from error
        if not isinstance(place, (int, np.integer)):
            raise KeyError(f"{label!r} names several columns")
        return int(place)

    def column(self, label: Any) -> CompressedColumn:
        """A column of strings, still compressed.

        Raises
        ------
        KeyError
            There is no such column.
        TypeError
            It does not hold strings.
        """
        place = self._place(label)
        column, label = self._columns[place], self._labels[place]
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or column.stored is None:
            raise TypeError(f"column {label!r} holds {column.type}, not strings; frame[{label!r}] decompresses it")
        if column.stored.get("type") == "string_view":
            raise TypeError(f"column {label!r} holds string_view, which is for frames only; convert it to string")
        backend = self._backend
        if self.device == "cpu" and self._levels:
            levels = tuple((level.node, level.type, level.stored) for level in self._levels)
            index: Any = StoredIndex(self._index, self._rows, levels)
        else:
            with backend.reading(None) as read:
                index = self._build_index(backend, read)
        dtype = schema.decode_string_dtype(column.stored)
        return CompressedColumn._make(column.node.segments, backend.strings, label, index, dtype, self._proxied)

    def to_pandas(self) -> Any:
        """The frame as a pandas.DataFrame."""
        return self.to_host().decompress()

    def to_cudf(self) -> Any:
        """The frame as a cudf.DataFrame; a frame in host memory moves to the current GPU compressed."""
        if self.device != "cpu":
            return replace_proxied(self, False).decompress()
        device = frame_backend.DeviceFrames()
        nodes = [column.node for column in (*self._levels, *self._columns)]
        with device.receiving(nodes) as read:
            return self._build(device, read)

    def to_arrow(self) -> Any:
        """The columns, without the index, as a pyarrow.Table."""
        host = self.to_host()
        with host._backend.reading(None) as read:
            arrays = [host._backend.interop.to_arrow(read(column.node), column.type) for column in host._columns]
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
        self._backend.strings.check_stream(stream)
        if self.device == "cpu":
            return self
        return self._moved(frame_backend.HostFrames(), self._backend, "to_host", stream)

    def to_device(self, *, stream: Any = None) -> CompressedFrame:
        """The frame in the memory of the current GPU, moved compressed; itself if it is on a GPU.

        Raises
        ------
        ImportError
            cuDF or CuPy is missing; the message says what to install.
        """
        if self.device != "cpu":
            return self
        device = frame_backend.DeviceFrames()
        return self._moved(device, device, "to_device", stream)

    def _moved(self, target: Any, mover: Any, how: str, stream: Any) -> CompressedFrame:
        parts = [part for column in self._everything for part in column.node.parts]
        moved = iter(getattr(mover, how)(parts, stream=stream))
        columns = [replace(column, node=column.node.with_parts(moved)) for column in self._columns]
        levels = [replace(level, node=level.node.with_parts(moved)) for level in self._levels]
        return self._make(target, columns, self._labels, self._index, levels, self._rows)

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
        host = self.to_host()
        save(path, "frame", self._labels, host._columns, self._index, host._levels, self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        on_gpu = self.device != "cpu"
        host = self.to_host()
        state = (host._columns, self._labels, self._index, host._levels, self._rows)
        return _restore, (on_gpu, self._proxied, *state)

    def _out(self, data: Any) -> Any:
        return interop_cudf.wrap_proxy(data) if self._proxied else data


def replace_proxied(frame: CompressedFrame, proxied: bool) -> CompressedFrame:
    """The same frame, giving cudf.pandas proxies back or not."""
    return CompressedFrame._make(
        frame._backend, frame._columns, frame._labels, frame._index, frame._levels, frame._rows, proxied
    )


def _restore(on_gpu: bool, proxied: bool, *state: Any) -> CompressedFrame:
    """Unpickle a frame; one that was on a GPU goes to the current one."""
    frame = CompressedFrame._make(frame_backend.HostFrames(), *state)
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
    backend = frame_backend.of_frame(data)
    labels = pd.Index(data.columns) if not isinstance(data.columns, pd.Index) else data.columns.view()
    wanted = check_codecs(codecs, labels)
    strings = {"tile_size": tile_size, "level": level}
    with backend.writing(strings, stream, to_host) as write:
        columns = []
        for label, series in zip(labels, backend.interop.columns(data), strict=True):
            with _naming(f"column {label!r}"):
                columns.append(_Column(*write(series, wanted.get(label))))
        with _naming("the index"):
            notes, levels = backend.index(data.index, write)
    if to_host:
        backend, proxied = frame_backend.HostFrames(), False
    made_levels = [_Column(*level) for level in levels]
    proxied = proxied and backend.device != "cpu"
    return CompressedFrame._make(backend, columns, labels, notes, made_levels, len(data), proxied)


def compress_table(table: Any, *, codecs: Mapping[Any, str] | None = None, level: str = "default") -> CompressedFrame:
    """Compress a pyarrow.Table: the frame pandas makes of it, but with columns' values and nulls exactly Arrow's.

    pandas itself would make floats of integers with nulls, and Python objects of decimals and lists. `codecs` takes the
    table's names, which are texts, or the frame's labels.
    """
    check_options(None, "auto", level)
    backend = frame_backend.HostFrames()
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
        with _naming(f"column {label!r}"):
            array, stored = schema.encode_arrow(table[name], dtype)
            compressor = Compressor(wanted.get(label), {"tile_size": "auto", "level": level})
            columns.append(_Column(compressor.node(arrow_columns.describe(array)), array.type, stored))
    with _naming("the index"), backend.writing({}, None, False) as write:
        described, made = backend.index(index, write)
    made_levels = [_Column(*level) for level in made]
    return CompressedFrame._make(backend, columns, empty.columns, described, made_levels, len(index))


def _extension_dtype(kind: Any) -> Any:
    """pandas' own dtype for an Arrow type, None if it has none."""
    if not isinstance(kind, pa.BaseExtensionType):
        return None
    try:
        dtype = kind.to_pandas_dtype()
    except NotImplementedError:  # Arrow's way to say that there is none
        return None
    return dtype if hasattr(dtype, "__from_arrow__") else None


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Errors say which column they are about.

    What pandas and Arrow raise of values that Python's types do not have, as dates of the year 10,000, are ValueErrors.
    """
    kinds = (TypeError, MemoryError, ValueError)
    try:
        yield
    except UnicodeDecodeError as error:
        reason = f"{error.reason}, {what}"
        raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from error
    except (*kinds, pa.ArrowException, ArithmeticError, LookupError, NotImplementedError) as error:
        kind = next((kind for kind in kinds if isinstance(error, kind)), ValueError)
        raise kind(f"{what}: {error}") from error


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


def save(
    path: Any,
    holds: str,
    labels: Any,
    columns: Sequence[_Column],
    index: dict[str, Any],
    levels: Sequence[_Column],
    rows: int,
) -> None:
    """Write columns in host memory as a file of version 2, or of version 3 where that needs it.

    `holds` is ``"frame"`` or ``"column"``; the label of a column is its name.
    """
    named: Sequence[_Column] = ()
    try:
        described = schema.encode_labels(labels)
    except TypeError as error:
        described, named = _label_levels(labels, error)
    everything = [*columns, *levels, *named]
    streams: list[storage.Stream] = []
    forests = [{"dtype": one.stored, "tree": trees.describe(one.node, streams)} for one in everything]
    notes = {"labels": described, "index": index, "rows": rows}
    notes["columns"], notes["levels"] = forests[: len(columns)], forests[len(columns) : len(columns) + len(levels)]
    version = FRAME_VERSION
    if named or holds != "frame":
        version = EXACT_VERSION
        notes |= {"holds": holds, "label_levels": forests[len(columns) + len(levels) :]}
    names = [*map(str, labels), *(f"index {i}" for i in range(len(levels))), *(f"label {i}" for i in range(len(named)))]
    fields = [(name, one.type) for name, one in zip(names, everything, strict=True)]
    storage.save_streams(path, streams=streams, schema=schema.frame_to_bytes(fields, notes), version=version)


def save_column(path: Any, segments: Sequence[Any], name: Any, dtype: Any, index: Any, levels: Sequence[Any]) -> None:
    """Write a column in host memory as a file of version 3; `index` and `levels` are its index'."""
    kind, rows = schema.arrow_type(dtype), sum(segment.rows for segment in segments)
    node = Node(kind, rows, sum(segment.null_count for segment in segments), segments=tuple(segments))
    column = _Column(node, kind, schema.encode_dtype(dtype))
    labels = pd.Index([name], dtype=object, tupleize_cols=False)
    save(path, "column", labels, [column], index, [_Column(*level) for level in levels], rows)


class _Plain(Compressor):
    """Store values as they are, so that reading labels takes memory in proportion to the file."""

    def compress_validity(self, column: Any) -> Any:
        bits = np.unpackbits(column.validity, bitorder="little")[column.validity_offset :][: column.rows]
        return cpu.compress(np.packbits(bits, bitorder="little"), codec=trees.RAW)

    def wanted(self, column: Any) -> dict[str, Any]:
        return super().wanted(column) | {"codec": trees.RAW}


def _label_levels(labels: Any, error: TypeError) -> tuple[dict[str, Any], list[_Column]]:
    """Labels as version 3 keeps those that version 2 cannot say, which `error` tells."""
    try:
        described, arrays = schema.describe_labels(labels)
    except TypeError:
        raise TypeError(f"the labels of the columns: {error}; rename the columns first") from error
    store = _Plain(None, {})
    return described, [_Column(store.node(arrow_columns.describe(array)), array.type, None) for array in arrays]


def from_stored(stored: storage.Stored) -> CompressedFrame | CompressedColumn:
    """The frame of a file, or the column of one of version 3; ValueError names what does not fit together."""
    types, notes = schema.frame_from_bytes(stored.schema)
    if stored.index is not None:
        raise ValueError("the file of a frame has no section of its index")
    try:
        rows, holds, named = notes["rows"], "frame", []
        if type(rows) is not int or not 0 <= rows < 2**63:
            raise ValueError(f"a frame of {rows!r} rows")
        if stored.version == EXACT_VERSION:
            holds, named = notes["holds"], notes["label_levels"]
            if holds not in ("frame", "column"):
                raise ValueError(f"the file holds {holds!r}, not a frame or a column")
        described = [*notes["columns"], *notes["levels"]]
        if len(described) + len(named) != len(types):
            raise ValueError(f"{len(described) + len(named)} columns and levels for {len(types)} fields")
        reader = trees.Reader(stored.streams)
        columns = [
            _Column(reader.node(one["tree"], kind, f"column {i}"), kind, one["dtype"])
            for i, (one, kind) in enumerate(zip(described, types[: len(described)], strict=True))
        ]
        labels = _read_labels(notes["labels"], named, types[len(described) :], reader, len(notes["columns"]))
        reader.finish()
        if len(labels) != len(notes["columns"]):
            raise ValueError(f"{len(labels)} labels for {len(notes['columns'])} columns")
        index = notes["index"]
        schema.check_dtypes(
            [(column.type, column.stored) for column in columns[: len(notes["columns"])]],
            index,
            [column.type for column in columns[len(notes["columns"]) :]],
        )
        for i, column in enumerate(columns):
            if column.node.rows != rows:
                raise ValueError(f"column {i}: {column.node.rows} rows, the frame has {rows}")
            with _naming(f"column {i}"):
                schema.check_values(column.type, column.stored, partial(trees.survey, column.node))
        if "range" in index and schema.range_length(index) != rows:
            raise ValueError(f"the frame has {rows} rows, its index {schema.range_length(index)} labels")
    except (LookupError, TypeError, AttributeError, OverflowError, NotImplementedError, RecursionError) as error:
        # JSON of another shape than `save` writes, or an Arrow type that no column has.
        raise ValueError(f"the frame's schema cannot be read: {type(error).__name__}: {error}") from error
    count = len(notes["columns"])
    if holds == "column":
        return _stored_column(columns[:count], labels, index, columns[count:], rows)
    return CompressedFrame._make(frame_backend.HostFrames(), columns[:count], labels, index, columns[count:], rows)


def _read_labels(
    stored: dict[str, Any], levels: Sequence[Any], types: Sequence[Any], reader: trees.Reader, count: int
) -> Any:
    """Labels of `count` columns, in memory in proportion to the file."""
    if "range" in stored and schema.range_length(stored) != count:
        raise ValueError(f"{schema.range_length(stored)} labels for {count} columns")
    if "labels" in stored or "range" in stored:
        if levels:
            raise ValueError(f"{len(levels)} levels of labels that have none")
        return schema.decode_labels(stored)
    reader.check_plain()
    nodes = []
    for i, (one, kind) in enumerate(zip(levels, types, strict=True)):
        node = reader.node(one["tree"], kind, f"labels, level {i}")
        if node.rows != count:
            raise ValueError(f"labels, level {i}: {node.rows} rows for {count} columns")
        for inner in _nulls_and_strings(node):
            # Categories are all different, so one may have no characters; only a damaged file has more rows than this.
            if inner.rows > count + 1 + sum(segment.chars for segment in inner.segments):
                raise ValueError(f"labels, level {i}: {inner.rows} rows of {inner.type} for {count} columns")
        nodes.append(node)
    try:
        columns = [pandas_frame.to_arrow(host.read([node])[0], kind) for node, kind in zip(nodes, types, strict=True)]
        for column in columns:
            column.validate(full=True)  # labels are shown, so their texts have to be some
        return schema.assemble_index(stored, columns)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the labels cannot be read: {type(error).__name__}: {error}") from error


def _nulls_and_strings(node: Node) -> Iterator[Node]:
    """A node and those below it whose rows may take next to no bytes."""
    if pa.types.is_null(node.type) or is_strings(node.type):
        yield node
    for child in node.children:
        yield from _nulls_and_strings(child)


def _stored_column(
    columns: Sequence[_Column], labels: Any, index: dict[str, Any], levels: Sequence[_Column], rows: int
) -> CompressedColumn:
    if len(columns) != 1:
        raise ValueError(f"the file of a column holds {len(columns)}")
    [column] = columns
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or column.stored is None:
        raise ValueError(f"the file of a column holds {column.type}, not strings")
    try:
        dtype = schema.decode_string_dtype(column.stored)
    except KeyError as error:
        raise ValueError(f"the file of a column holds strings of dtype {column.stored!r}") from error
    parts = tuple((level.node, level.type, level.stored) for level in levels)
    made = schema.assemble_index(index, []) if "range" in index else StoredIndex(index, rows, parts)
    backend = frame_backend.HostFrames().strings
    return CompressedColumn._make(column.node.segments, backend, labels[0], made, dtype)
