"""Row groups read with pyarrow, and compressed in host memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .. import index as indexes
from ..backend import HostBackend
from ..codecs import host, host_strings
from ..codecs.dict import plan
from ..codecs.node import Content, Node, check_codec
from ..codecs.registry import DICTIONARIES
from ..codecs.task import ColumnTask
from ..compressing import check_codecs
from ..index import CompressedIndex
from ..interop import arrow_columns
from ..interop.dtypes import NULLABLE, natural_dtype
from ..interop.pandas_columns import encode_arrow
from ..naming import naming
from .coded import CodedColumn, coded_columns
from .reads import Ahead, Compressed, Read, shares, sizes
from .sources import ParquetSource, Piece, bounds_of, reading

#: Rows of a batch that Arrow reads: all of a piece at once.
_ALL = 2**31 - 1


class HostReader:
    """Read pieces, and compress what was read.

    The columns are what pandas makes of them, but with values and nulls exactly Arrow's: pandas itself would make
    floats of integers with nulls, and Python objects of decimals and lists.

    Parameters
    ----------
    source : ParquetSource
    codecs : mapping or None
        By the files' names, which are texts, or the frame's labels.
    level : str
    """

    backend = HostBackend()
    #: One piece is read while another is used; pyarrow reads its columns in threads.
    ahead = Ahead(threads=1, nbytes=2, at_once=1)

    def __init__(self, source: ParquetSource, codecs: Mapping[Any, str] | None, level: str) -> None:
        self._source = source
        template, nested = _without_nested_dtypes(source.schema)
        #: What pandas noted of the files, as `_index` wants it.
        self._notes = _without_ranges(template)
        for i, field in enumerate(template):
            if not _is_text(field.type) and isinstance(natural_dtype(field.type), pd.ArrowDtype):
                template = template.set(i, pa.field(field.name, pa.null()))  # which is for the labels alone
        with reading(source.paths[0]):
            try:
                arrays = [arrow_columns.no_rows(field.type) for field in template]
                empty = pa.table(arrays, schema=template).to_pandas()
            except (LookupError, TypeError, AttributeError) as error:
                raise ValueError(f"the notes that pandas leaves are damaged: {error!r}") from error
        #: Of the frame's columns.
        self.labels = empty.columns
        self._levels = source.levels
        names = [name for name in source.schema.names if name not in self._levels]
        kinds = [source.schema.field(name).type for name in names]
        by_name = dict(zip(names, self.labels, strict=True))
        codec_of = check_codecs(codecs, self.labels, by_name)
        self._columns = [
            (name, label, self._dtype(name, dtype, kind, template, nested), codec_of.get(label))
            for name, label, dtype, kind in zip(names, self.labels, empty.dtypes, kinds, strict=True)
        ]
        self._strings = {"tile_size": "auto", "level": level}
        self._dictionaries: dict[str, Any] = {}
        self._rows = 0  # whose index is made
        #: Reads of each piece in turn, each of some columns where a piece is large; without pieces one of no rows.
        shared = self._shares()
        self.reads = [
            Read(number, share, 1, partial(self._read, piece, names))
            for number, piece in enumerate(source.pieces)
            for share, names in enumerate(shared)
        ]
        if not source.pieces:
            self.reads = [Read(0, 0, 1, lambda: (source.schema.empty_table(), {}))]

    def _dtype(self, name: str, dtype: Any, kind: Any, template: Any, nested: set[str]) -> Any:
        """The dtype of a column of which pandas makes `dtype` in the template."""
        if name in nested:
            return pd.ArrowDtype(kind)
        return dtype if template.field(name) == self._source.schema.field(name) else natural_dtype(kind)

    def _shares(self) -> list[list[str]]:
        """Names of columns that are read together; the first ones with those of the index and of the folders."""
        source = self._source
        names = source.schema.names
        if not source.pieces or source.expression is not None:
            return [names]
        largest = max(source.pieces, key=lambda piece: piece.rows)
        sizes_of_columns = sizes(largest, [name for name in source.file_schema.names if name not in source.keys])
        in_first = {*source.keys, *source.levels}
        first, *others = shares([name for name in names if name not in in_first], sizes_of_columns, largest.rows)
        return [[*(name for name in names if name in in_first), *first], *others]

    def _read(self, piece: Piece, names: Sequence[str]) -> tuple[Any, dict[str, CodedColumn]]:
        """Columns of a piece, and those of them that come with a dictionary."""
        source = self._source
        with reading(piece.path):
            piece = piece.fetched(None if source.expression is not None else names)
            coded = coded_columns(piece, self._may_be_coded(piece, names), source.schema)
            # A table without columns forgets how many rows it has.
            names_read = [name for name in names if name not in coded] or {"": pc.scalar(None)}
            table = piece.fragment.to_table(source.file_schema, names_read, source.expression, batch_size=_ALL)
        return table.replace_schema_metadata(self._notes), coded

    def _may_be_coded(self, piece: Piece, names: Sequence[str]) -> list[str]:
        """Columns that may get a dictionary, so that those of the file are worth to be read."""
        if self._source.expression is not None:
            return []
        codecs = {name: codec for name, _, _, codec in self._columns}
        candidates = [name for name in names if name in codecs and codecs[name] in (None, DICTIONARIES.NAME)]
        return [name for name in candidates if plan.eligible(piece.rows, named=codecs[name] is not None)]

    @contextmanager
    def working(self) -> Iterator[None]:
        """Afterwards Arrow keeps no memory of the tables that were read: its pool would keep all of it for later."""
        try:
            yield
        finally:
            pa.default_memory_pool().release_unused()

    def compress(self, tables: Sequence[tuple[Read, Any]]) -> list[Compressed]:
        """Compress tables that were read."""
        compressed = []
        for read, (table, coded) in tables:
            with reading(self._source.pieces[read.piece].path) if self._source.pieces else nullcontext():
                compressed.append(self._compressed(table, coded, read.share == 0))
        return compressed

    def _compressed(self, table: Any, coded: Mapping[str, CodedColumn], first: bool) -> Compressed:
        """Compress columns of a piece, and its index if they are the first."""
        columns, names_read = {}, {*table.column_names, *coded}
        for place, (name, label, dtype, codec) in enumerate(self._columns):
            if name not in names_read:
                continue
            with naming(f"column {label!r}"):
                if name in coded:
                    columns[place] = self._coded_content(coded[name], dtype, codec)
                    continue
                values = table[name] if name not in self._source.keys else _without_null_values(table[name])
                values = self._with_one_dictionary(name, values)
                if pa.types.is_dictionary(values.type):  # pandas' dtype has the categories
                    dtype = pa.table({"": values[:0]}).to_pandas().dtypes.iloc[0]
                if isinstance(dtype, pd.ArrowDtype) and pa.types.is_temporal(values.type):
                    values = values.cast(dtype.pyarrow_dtype)  # Parquet has no date64, and no seconds
                array, stored = encode_arrow(values, dtype)
                check_codec(codec, array.type)
                [node] = host.compress([ColumnTask(arrow_columns.describe(array), codec, self._strings)])
                columns[place] = Content(node, array.type, stored)
        return Compressed(columns, self._index(table) if first and self._levels else None, table.num_rows * first)

    def _coded_content(self, column: CodedColumn, dtype: Any, codec: str | None) -> Content:
        """A column that comes with a dictionary, which it keeps if it would have got one; else it is decoded."""
        empty, stored = encode_arrow(pa.chunked_array([], column.type), dtype)
        node = host_strings.compress_coded(column.coded, empty.type, codec=codec, **self._strings)
        if node is None:
            array, stored = encode_arrow(column.strings(), dtype)
            [node] = host.compress([ColumnTask(arrow_columns.describe(array), codec, self._strings)])
        return Content(node, empty.type, stored)

    def _index(self, table: Any) -> CompressedIndex:
        nulls = {table[name].type for name in self._levels if table[name].null_count}
        masked = {kind: dtype for kind, dtype in NULLABLE.items() if kind in nulls}  # else they would be floats
        # Given a mapper, pyarrow asks extension types (periods, intervals) no more, nor what pandas noted.
        mapper = (lambda kind: masked.get(kind) or _extension_dtype(kind)) if masked else None
        labels = table.select(self._levels).to_pandas(types_mapper=mapper)
        return indexes.compress(self._with_ranges(labels.index), self.backend)

    def _with_ranges(self, index: Any) -> Any:
        """The index with the levels of a MultiIndex that are ranges, of which pandas notes three numbers."""
        start, self._rows = self._rows, self._rows + len(index)
        # As pandas has it, ranges of another length are no levels. A filter leaves a length that is not known yet.
        rows = sum(level.rows for level in self._source.pieces) if self._source.expression is None else -1
        columns, levels = iter(range(index.nlevels)), []
        for level in self._source.noted:
            if isinstance(level, str):
                levels.append(index.get_level_values(next(columns)))
            elif len(bounds := bounds_of(level)) == rows:
                levels.append(pd.RangeIndex(bounds[start : self._rows], name=level["name"]))
        return pd.MultiIndex.from_arrays(levels) if len(levels) > index.nlevels else index

    def _with_one_dictionary(self, name: str, column: Any) -> Any:
        """A column of equal values with codes for the dictionary of all pieces so far, which only grows."""
        if not arrow_columns.holds_dictionary(column.type):
            return column
        known = self._dictionaries.get(name, [])
        joined = pa.chunked_array([*known, *column.chunks], column.type).unify_dictionaries()
        self._dictionaries[name] = [joined.chunk(joined.num_chunks - 1)[:0]] if joined.num_chunks else []
        return pa.chunked_array(joined.chunks[len(known) :], column.type)

    def join(self, contents: Sequence[Content], node: Node) -> Content:
        """A column of its pieces, whose nodes were joined; their last dictionaries are those of all."""
        first, last = contents[0], contents[-1]
        if arrow_columns.holds_dictionary(first.type):
            node = _with_dictionaries(node, last.node)
        return Content(node, last.type, last.stored)

    def ranges(self, levels: Sequence[tuple[range, Any]]) -> CompressedIndex:
        """An index whose levels are ranges, with their names."""
        range_indexes = [pd.RangeIndex(bounds, name=name) for bounds, name in levels]
        return indexes.compress(
            range_indexes[0] if len(range_indexes) == 1 else pd.MultiIndex.from_arrays(range_indexes), self.backend
        )


def _without_nested_dtypes(schema: Any) -> tuple[Any, set[str]]:
    """The schema without ArrowDtypes that pandas writes down, but cannot read; and the names of such columns."""
    notes = schema.pandas_metadata
    nested: set[str] = set()
    if notes is None:
        return schema, nested
    for column in notes["columns"]:
        try:
            pd.api.types.pandas_dtype(column["numpy_type"])
        except (TypeError, NotImplementedError):  # what pandas raises for "list<item: int64>[pyarrow]" and others
            if str(column["numpy_type"]).endswith("[pyarrow]"):
                nested.add(column["field_name"])
                column["numpy_type"] = "object"
    return schema.with_metadata({**schema.metadata, b"pandas": json.dumps(notes).encode()}), nested


def _without_ranges(schema: Any) -> Any:
    """The schema's metadata without levels of the index that are ranges.

    pandas makes them where a table has as many rows, and a piece may have so many by chance.
    """
    notes = schema.pandas_metadata
    if notes is None:
        return schema.metadata
    notes["index_columns"] = [level for level in notes.get("index_columns", []) if isinstance(level, str)]
    return {**schema.metadata, b"pandas": json.dumps(notes).encode()}


def _without_null_values(column: Any) -> Any:
    """A column of a folder's name; where that means a null, pyarrow has one in the dictionary, which pandas refuses."""
    if not any(chunk.dictionary.null_count for chunk in column.chunks):
        return column
    return column.cast(column.type.value_type).dictionary_encode().cast(column.type)


def _is_text(kind: Any) -> bool:
    """Whether a column of views becomes one of strings."""
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _with_dictionaries(node: Node, of: Node) -> Node:
    if pa.types.is_dictionary(node.type):
        return replace(node, children=of.children)
    if node.coded:  # whose dictionaries are their own
        return node
    pairs = zip(node.children, of.children, strict=True)
    return replace(node, children=tuple(_with_dictionaries(child, other) for child, other in pairs))


def _extension_dtype(kind: Any) -> Any:
    """pandas' own dtype for an Arrow type, None if it has none."""
    if not isinstance(kind, pa.BaseExtensionType):
        return None
    try:
        dtype = kind.to_pandas_dtype()
    except NotImplementedError:  # Arrow's way to say that there is none
        return None
    return dtype if hasattr(dtype, "__from_arrow__") else None
