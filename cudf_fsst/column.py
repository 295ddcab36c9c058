"""What ``series.fsst.compress()`` returns: a column that stays compressed, and gives any of its rows back."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import pyarrow as pa

from . import compute, query, selection
from . import index as indexes
from .arrow_types import is_strings
from .backend import Backend, HostBackend
from .codecs.node import Content
from .codecs.table import Table
from .codecs.text.segment import Segment
from .column_arrow import ArrowColumn
from .files import columns as files
from .index import CompressedIndex
from .interop import pandas as interop_pandas
from .interop.arrow import decoding, to_arrow
from .tables import as_html, size_bar


class CompressedColumn(ArrowColumn, compute.Columns, compute.Refused):
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
        if name in ("array", "to_numpy", "values"):
            way = "np.asarray(c) is an array, c.decompress() the Series"
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

    def _columns_at(self, places: Sequence[int]) -> CompressedColumn:
        return self

    def _series_of(self, values: Any) -> Any:
        """What was read of the column as a Series that is labelled from 0."""
        return self._built([values], None)

    def _row(self, number: int) -> Any:
        if not self._is_text:
            with self._backend.current():
                found = self._backend.read(self._nodes, number, number + 1)
                return self._built(found, None).iloc[0]
        strings = self._host_strings(number, number + 1)
        if strings.null_count == 0:
            with suppress(UnicodeDecodeError):  # which is raised below, as for any number of rows
                begin, end = strings.offsets.tolist()
                return strings.chars[begin:end].tobytes().decode()  # a Series of it takes a millisecond at first
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

    def _save(self, path: Any, **options: Any) -> None:
        in_version_1 = self._is_text and self._content.node.codec == files.FIRST_TEXT and options["compression"] is None
        index = self._index.for_version_1() if in_version_1 else None
        if index is not None:
            del options["compression"]
            files.save_text(path, self.segments, self._name, self.dtype, index, **options)
            return
        labels = pd.Index([self._name], dtype=object, tupleize_cols=False)
        files.save(path, "column", labels, [self._content], *self._index.described(), len(self), **options)

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
