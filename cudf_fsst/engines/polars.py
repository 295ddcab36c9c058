"""Compressed frames as LazyFrames of Polars."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .. import selection
from ..backend import Backend, HostBackend
from ..codecs.node import Content
from ..files import columns as files
from ..interop import arrow_columns
from ..interop import pandas as interop_pandas
from . import polars_filter
from .predicate import Filter

#: Arrow bytes of a piece, about.
PIECE_NBYTES = 64 << 20
_PIECE_ROWS = 1024
#: Of a piece of which more than this part of the rows is left, all are decoded.
_TAKEN_DIVISOR = 4


@dataclass(frozen=True)
class Table:
    """Columns of an engine's table.

    Attributes
    ----------
    backend : Backend
    names : tuple of str
    contents : tuple of Content
    rows : int
    """

    backend: Backend
    names: tuple[str, ...]
    contents: tuple[Content, ...]
    rows: int

    def some(self, names: Sequence[str]) -> Table:
        """A table of some columns."""
        places = [self.names.index(name) for name in names]
        return Table(self.backend, tuple(names), tuple(self.contents[place] for place in places), self.rows)


def polars_module() -> Any:
    """Polars; ImportError says what to install."""
    try:
        import polars
    except ImportError as error:
        raise ImportError(f"Polars is missing; pip install 'cudf-fsst[polars]' ({error})", name="polars") from error
    return polars


def lazy(table: Table, where: Any = None) -> Any:
    """A LazyFrame of a table; see `CompressedFrame.lazy`."""
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    source = Source(schema_of(table), lambda names: iter([table.some(names)]), where)
    return source.lazy()


def scan(path: Any, where: Any = None) -> Any:
    """A LazyFrame of stored frames; see `cudf_fsst.scan`."""
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    paths = _paths(path)
    schemas = []
    for one in paths:
        found = _opened(one, None)
        schemas.append(schema_of(found))
        if schemas[-1] != schemas[0]:
            raise ValueError(f"{one}: has other columns than {paths[0]}: {schemas[-1]} and {schemas[0]}")

    def tables(names: Sequence[str]) -> Iterator[Table]:
        for one in paths:
            yield _opened(one, names).some(names)

    return Source(schemas[0], tables, where).lazy()


def _paths(path: Any) -> list[str]:
    """Files of a path, a pattern or a list of them, in order."""
    if isinstance(path, (str, os.PathLike)):
        name = os.fsdecode(path)
        if os.path.exists(name) or not glob.has_magic(name):
            return [name]
        found = sorted(glob.glob(name, recursive=True))
        if not found:
            raise FileNotFoundError(f"no file has a name like {name!r}")
        return found
    if not isinstance(path, Sequence) or isinstance(path, bytes):
        raise TypeError(f"expected a path, a pattern or a list of paths, not {type(path).__name__}")
    if not path:
        raise ValueError("no files to scan")
    return [name for one in path for name in _paths(one)]


def _opened(path: str, names: Sequence[str] | None) -> Table:
    """The table of a file; with `names`, of these columns alone."""
    raise NotImplementedError


# Types ----------------------------------------------------------------------------------------------------------------


def schema_of(table: Table) -> dict[str, Any]:
    """Polars' types of a table's columns, by name.

    Raises
    ------
    TypeError
        Polars has no such type; the column is named.
    ValueError
        Two columns have the same name.
    """
    schema: dict[str, Any] = {}
    for name, content in zip(table.names, table.contents, strict=True):
        if name in schema:
            raise ValueError(f"two columns are called {name!r}; Polars tells columns by their names")
        try:
            schema[name] = _dtype(table.backend, content)
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None
    return schema


def _dtype(backend: Backend, content: Content) -> Any:
    pl, kind = polars_module(), _readable(content.type)
    for one in arrow_columns.within(kind):
        if isinstance(one, pa.BaseExtensionType) or pa.types.is_interval(one):
            raise TypeError(f"Polars has no type for {content.type}")
    try:
        found = pl.DataFrame(pa.table({"": arrow_columns.no_rows(kind)})).dtypes[0]
    except pl.exceptions.PolarsError as error:
        raise TypeError(f"Polars has no type for {content.type}: {error}") from None
    if pa.types.is_dictionary(kind) and kind.ordered and found == pl.Categorical:
        values = _categories(backend, content)
        if not values.null_count() and values.n_unique() == len(values):
            return pl.Enum(values)
    return found


def _categories(backend: Backend, content: Content) -> Any:
    """Categories of a column, a Series of Polars."""
    with backend.current():
        (found,) = backend.read([content.node.children[0]])
        array = backend.interop.to_chunked(found, content.type.value_type)
    array.validate(full=True)
    return polars_module().Series(array)


def _readable(kind: Any) -> Any:
    """The type in which Polars reads a column: without runs and views of lists, whose values are the same."""
    types = pa.types
    if types.is_run_end_encoded(kind):
        return _readable(kind.value_type)
    if types.is_list_view(kind) or types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type)))
    if types.is_large_list_view(kind) or types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_readable(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_readable(field.type)) for field in kind])
    return kind


# The source -----------------------------------------------------------------------------------------------------------


class Source:
    """What Polars asks for the rows of tables, as ``register_io_source`` wants it. It does not change.

    Parameters
    ----------
    schema : dict of str to polars dtype
    tables : callable
        Given names of columns, makes the tables of these, one after another.
    where : polars.Expr or None
        Rows for which it is not true need not come.
    """

    def __init__(
        self, schema: dict[str, Any], tables: Callable[[Sequence[str]], Iterator[Table]], where: Any = None
    ) -> None:
        self._schema, self._tables, self._where = schema, tables, where

    def lazy(self) -> Any:
        """The LazyFrame."""
        from polars.io.plugins import register_io_source

        made = register_io_source(self, schema=self._schema, validate_schema=True, is_pure=True)
        return made if self._where is None else made.filter(self._where)

    def __call__(
        self, with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        """Pieces of the tables: DataFrames of Polars.

        Parameters
        ----------
        with_columns : list of str or None
            Columns, in order; None: all.
        predicate : polars.Expr or None
            Rows for which it is not true do not come.
        n_rows : int or None
            How many rows are looked at, before the predicate.
        batch_size : int or None
            What Polars would like; pieces are cut by their bytes.
        """
        del batch_size
        return self._pieces(list(self._schema) if with_columns is None else with_columns, predicate, n_rows)

    def _pieces(self, wanted: Sequence[str], predicate: Any, n_rows: int | None) -> Iterator[Any]:
        asked = [one for one in (self._where, predicate) if one is not None]
        used = [name for one in asked for name in one.meta.root_names() if name in self._schema]
        read = list(wanted) if predicate is None else [*wanted, *(n for n in predicate.meta.root_names())]
        read = list(dict.fromkeys(name for name in read if name in self._schema)) or list(self._schema)[:1]
        left, empty = n_rows, True
        for table in self._tables(list(dict.fromkeys([*read, *used]))):
            rows = table.rows if left is None else min(left, table.rows)
            left = None if left is None else left - rows
            mask = _mask(table, asked)
            some = table.some(read)
            for start, stop in _cuts(some, rows):
                numbers = _chosen(table.backend, mask, start, stop)
                if numbers is not None and not len(numbers):
                    continue
                found = self._read(some, start, stop, numbers)
                if predicate is not None:
                    found = found.filter(predicate)
                empty = False
                yield found.select(wanted)
            if left == 0:
                break
        if empty:
            yield polars_module().DataFrame(schema={name: self._schema[name] for name in wanted})

    def _read(self, table: Table, start: int, stop: int, numbers: Any) -> Any:
        """Rows of a table as a DataFrame of Polars."""
        pl, backend = polars_module(), table.backend
        nodes = [content.node for content in table.contents]
        with backend.current():
            read = backend.read(nodes, start, stop) if numbers is None else backend.take(nodes, numbers)
            arrays = [
                _array(backend, some, content.type, name)
                for name, some, content in zip(table.names, read, table.contents, strict=True)
            ]
        found = pl.DataFrame(pa.Table.from_arrays(arrays, names=list(table.names)))
        wanted = {name: self._schema[name] for name in table.names if found.schema[name] != self._schema[name]}
        return found.cast(wanted) if wanted else found


def _cuts(table: Table, rows: int) -> list[tuple[int, int]]:
    """Pieces of the first rows of a table."""
    nbytes = sum(content.node.uncompressed_nbytes for content in table.contents)
    every = selection.row_pieces(table.rows, nbytes, PIECE_NBYTES, _PIECE_ROWS)
    return [(start, min(stop, rows)) for start, stop in every if start < rows]


def _mask(table: Table, asked: Sequence[Any]) -> Any:
    """Rows that may be meant; None: all."""
    if not asked or not table.rows:
        return None
    nodes = [content.node for content in table.contents]
    parts = [part for one in asked for part in polars_filter.parts(one, table.names, nodes)]
    with table.backend.current():
        return Filter(table.backend, nodes, table.names).rows(list(dict.fromkeys(parts)))


def _chosen(backend: Backend, mask: Any, start: int, stop: int) -> Any:
    """Numbers of rows of a piece; None: it is to be read as a whole."""
    if mask is None:
        return None
    with backend.current():
        some = mask[start:stop]
        if int(some.sum()) * _TAKEN_DIVISOR > stop - start:
            return None
        return selection.mask_rows(some, stop - start) + start


def _array(backend: Backend, read: Any, kind: Any, name: str) -> Any:
    """What was read of a column as an array that Polars reads: strings that are not UTF-8 are refused."""
    array = arrow_columns.rebuild(read, _readable(kind))
    if any(map(_is_text, arrow_columns.within(kind))):
        try:
            array.validate(full=True)  # Polars itself takes Arrow at its word
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r}: {error}") from None
    return array


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
