"""Compressed frames as datasets of Arrow, which DuckDB and others scan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.dataset as arrow
from pyarrow import fs

from ..interop.arrow import table_of
from . import arrow_filter
from .tables import EngineTable, PieceRows, array, cuts, readable


class Dataset(arrow.FileSystemDataset):
    """A compressed frame as a `pyarrow.dataset.Dataset`; ``f.dataset()`` makes one.

    ``scanner``, and with it ``to_table``, ``to_batches``, ``head`` and ``count_rows``, answer filters on the codes as
    far as they can, decode the columns that are asked for, of the rows that are left, and let Arrow filter again.
    ``take`` decodes the rows that it is asked for. ``filter`` gives a dataset of the same kind. ``get_fragments``,
    ``join``, ``join_asof``, ``sort_by`` and ``replace_schema`` are Arrow's own. They go through all rows of all
    columns, which are decoded as they come.

    Parameters
    ----------
    table : EngineTable
    where : pyarrow.compute.Expression, optional
        Rows for which it is not true are left out.
    """

    def __init__(self, table: EngineTable, where: Any = None) -> None:
        self._table = table
        super().__init__(*_files(table, _pieces(table), _schema(table)))
        self._scan_options = {} if where is None else {"filter": where}

    def __reduce__(self) -> Any:
        return Dataset, (self._table, self._where)

    @property
    def _where(self) -> Any:
        return self._scan_options.get("filter")

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """A `pyarrow.dataset.Scanner`, whose filter was answered on the codes when this returns.

        Parameters
        ----------
        columns : list of str, dict of str to Expression, or None
            None: all. Others are not decoded.
        filter : pyarrow.compute.Expression, optional
            Rows for which it is not true are left out, besides those that the dataset leaves out.
        **options
            As `pyarrow.dataset.Dataset.scanner` takes them.
        """
        return self._scanner(columns, filter, self._table.rows, options)

    def _scanner(self, columns: Any, expression: Any, rows: int, options: Any) -> Any:
        where = self._where if expression is None else expression if self._where is None else self._where & expression
        tree = None if where is None else arrow_filter.tree_of(where)
        read = _read(columns, where, tree, self._table.names)
        mask = None
        if tree is not None:
            used = arrow_filter.columns_of(tree)
            filter_table = self._table.select([name for name in self._table.names if name in used]).on_host()
            nodes = [content.node for content in filter_table.contents]
            mask = filter_table.mask(arrow_filter.predicates(tree, filter_table.names, nodes))
        output_table = self._table.select(read).on_host()
        pieces = list(cuts(output_table, range(rows), mask))
        scanned = arrow.FileSystemDataset(*_files(output_table, pieces, _schema(self._table)))
        return arrow.Scanner.from_dataset(scanned, columns=columns, filter=where, **options)

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """The first rows, a `pyarrow.Table`; without a filter no others are decoded."""
        if filter is None and self._where is None and num_rows >= 0:
            return self._scanner(columns, None, num_rows, options).to_table()
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """Number of rows; without a filter nothing is decoded."""
        if filter is None and self._where is None:
            return self._table.rows
        return int(self.scanner([], filter, **options).count_rows())

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Rows by number, a `pyarrow.Table`; without a filter no others are decoded."""
        numbers = pa.array(indices) if not isinstance(indices, pa.Array) else indices
        plain = filter is None and self._where is None and (columns is None or isinstance(columns, list))
        if not plain or numbers.null_count or not pa.types.is_integer(numbers.type):
            return self.scanner(columns, filter, **options).take(indices)
        rows = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._table.rows:
            raise pa.ArrowIndexError(f"a row of {indices!r} is not there: the dataset has {self._table.rows}")
        table = self._table.select(self._table.names if columns is None else columns).on_host()
        return _decoded(table, PieceRows(0, table.rows, rows))

    def filter(self, expression: Any) -> Dataset:
        """A dataset of the rows for which an expression is true, too."""
        if not isinstance(expression, arrow.Expression):
            raise TypeError(f"a filter is an expression of pyarrow.compute, not {type(expression).__name__}")
        return Dataset(self._table, expression if self._where is None else self._where & expression)


def dataset(table: EngineTable) -> Dataset:
    """See `CompressedFrame.dataset`."""
    for place, name in enumerate(table.names):
        if name in table.names[:place]:
            raise ValueError(f"two columns are called {name!r}; datasets tell columns by their names")
    return Dataset(table)


def _read(columns: Any, where: Any, tree: Any, names: Sequence[str]) -> list[str]:
    """Columns that are decoded."""
    if columns is None:
        return list(names)
    used = set(columns) if not isinstance(columns, dict) else set()
    expressions = [*columns.values()] if isinstance(columns, dict) else []
    for expression in [*map(arrow_filter.tree_of, expressions), *([] if where is None else [tree])]:
        if expression is None:
            return list(names)
        used |= arrow_filter.columns_of(expression)
    return [name for name in names if name in used] or list(names[:1])


# Pieces of a table are files of Arrow's, which are made when they are opened. So all that Arrow does with files works.


def _pieces(table: EngineTable) -> list[PieceRows]:
    return list(cuts(table, range(table.rows), None))


def _files(table: EngineTable, pieces: Sequence[PieceRows], fields: Any) -> tuple[Any, ...]:
    """Arguments of `pyarrow.dataset.FileSystemDataset` for pieces of a table; `fields`: the schema of all columns."""
    kind = arrow.IpcFileFormat()
    system = fs.PyFileSystem(_Pieces(table, pieces))
    return [kind.make_fragment(f"piece {i}", system) for i in range(len(pieces))], fields, kind, system


def _schema(table: EngineTable) -> Any:
    fields = zip(table.names, table.contents, strict=True)
    return pa.schema([pa.field(name, readable(content.type)) for name, content in fields])


def _decoded(table: EngineTable, rows: PieceRows) -> Any:
    """Rows as a pyarrow.Table."""
    arrays = [
        array(values, content.type, name)
        for name, values, content in zip(table.names, table.read(rows), table.contents, strict=True)
    ]
    return table_of(arrays, _schema(table), len(rows))


class _Opened(pa.BufferReader):
    """A file that is open, and what is in it."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


class _Pieces(fs.FileSystemHandler):
    """A file system of the pieces of a table, which are decoded when they are opened."""

    def __init__(self, table: EngineTable, pieces: Sequence[PieceRows]) -> None:
        self._table, self._all = table, pieces
        self._opened: WeakValueDictionary[str, _Opened] = WeakValueDictionary()

    def open_input_file(self, path: str) -> Any:
        """The file of a piece, which Arrow opens a second time before it closes it."""
        opened = self._opened.get(path)
        buffer = self._made(path) if opened is None else opened.buffer
        self._opened[path] = file = _Opened(buffer)
        return pa.PythonFile(file, mode="r")

    @cached_property
    def _there(self) -> EngineTable:
        """The table in host memory."""
        return self._table.on_host()

    def _made(self, path: str) -> Any:
        table = _decoded(self._there, self._all[int(path.removeprefix("piece "))])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    open_input_stream = open_input_file

    def get_type_name(self) -> str:
        """The name of the file system in Arrow."""
        return "cudf_fsst"

    def normalize_path(self, path: str) -> str:
        """The path itself."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        """Every piece is a file."""
        return [fs.FileInfo(path, fs.FileType.File) for path in paths]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the pieces of a compressed frame can only be read")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
