"""Compressed frames as LazyFrames of Polars."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .. import selection
from ..arrow_types import plain, within
from ..backend import Backend, HostBackend
from ..codecs.node import Content
from ..files import columns as files
from ..interop import arrow_columns
from ..naming import naming
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

    def begin(self) -> Table:
        """The table itself, which is in memory."""
        return self

    def some(self, names: Sequence[str]) -> Table:
        """A table of some columns."""
        places = [self.names.index(name) for name in names]
        return Table(self.backend, tuple(names), tuple(self.contents[place] for place in places), self.rows)


def polars_module() -> Any:
    """Polars; ImportError says what to install."""
    try:
        import polars
    except ImportError as error:
        raise ImportError(
            f"this needs Polars ({error}); in a clone of cudf-fsst: pip install '.[polars]'", name="polars"
        ) from error
    return polars


def lazy(table: Table, where: Any = None) -> Any:
    """A LazyFrame of a table; see `CompressedFrame.lazy`."""
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    return Source(schema_of(table), (table,), where).lazy()


def scan(path: Any, where: Any = None) -> Any:
    """Query stored frames with Polars: a LazyFrame that reads the columns that a query uses, file by file.

    Of a file whose rows a filter leaves out altogether, by the codes of the columns that it is about, no other column
    is read; and none of it where a query ends before it (``head``). See `CompressedFrame.lazy` for what is answered on
    the codes. All that is read is checked as by `load`.

    Parameters
    ----------
    path : path, pattern, or list of them
        Files that `CompressedFrame.save` wrote, as ``"part-*.fsst"``: the rows of one after those of another, those of
        a pattern in the order of their names. All have the same columns. Their types are read at once, their rows when
        the query runs.
    where : polars.Expr, optional
        Rows for which it is not true are left out; see `CompressedFrame.lazy`.

    Returns
    -------
    polars.LazyFrame

    Raises
    ------
    ImportError
        Polars is missing.
    TypeError
        Polars has no type for a column, which is named. Or `path` or `where` is something else.
    ValueError
        A file is damaged, holds a column, or has other columns than the first; it is named.
    FileNotFoundError
        There is no such file.
    """
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    tables = [File(one) for one in _paths(path)]
    schema = tables[0].schema()
    for one in tables[1:]:
        if (found := one.schema()) != schema or list(found) != list(schema):
            raise ValueError(f"{one.path}: its columns are {found}, those of {tables[0].path} are {schema}")
    return Source(schema, tables, where).lazy()


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


class File:
    """The frame of a file, whose columns are read when they are wanted, and kept by it.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: dict[str, Content] = {}
        self._rows: int | None = None

    def begin(self) -> File:
        """The file, to go through once."""
        return File(self.path)

    def schema(self) -> dict[str, Any]:
        """As `schema_of`. Ordered categories are read, for they are part of their type; of others, types alone."""

        def coded(labels: Any, types: Sequence[Any]) -> list[int]:
            return [place for place in range(len(labels)) if _is_ordered(types[place])]

        loaded = files.load(self.path, coded, levels=False)
        names = tuple(map(str, loaded.every))
        contents = iter(loaded.columns)
        given = [next(contents) if _is_ordered(kind) else kind for kind in loaded.types]
        with naming(self.path):
            return _schema(HostBackend(), names, given)

    @property
    def rows(self) -> int:
        """Rows of the frame."""
        if self._rows is None:
            self._read(())
        assert self._rows is not None
        return self._rows

    def some(self, names: Sequence[str]) -> Table:
        """The table of some columns."""
        missing = [name for name in names if name not in self._known]
        if missing:
            self._read(missing)
        return Table(HostBackend(), tuple(names), tuple(self._known[name] for name in names), self.rows)

    def _read(self, names: Sequence[str]) -> None:
        def choose(labels: Any, types: Sequence[Any]) -> list[int]:
            places = {str(label): place for place, label in enumerate(labels)}
            missing = [name for name in names if name not in places]
            if missing:
                raise ValueError(f"{self.path}: has no column {missing[0]!r} any more")
            return [places[name] for name in names]

        loaded = files.load(self.path, choose, levels=False)
        self._known |= dict(zip(names, loaded.columns, strict=True))
        self._rows = loaded.rows


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
    return _schema(table.backend, table.names, table.contents)


def _schema(backend: Backend, names: Sequence[str], contents: Sequence[Any]) -> dict[str, Any]:
    """As `schema_of`; of columns that are not read yet, their Arrow types."""
    schema: dict[str, Any] = {}
    for name, content in zip(names, contents, strict=True):
        if name in schema:
            raise ValueError(f"two columns are called {name!r}; Polars tells columns by their names")
        with naming(f"column {name!r}"):
            kind = content.type if isinstance(content, Content) else content
            schema[name] = _enum(backend, content) if _is_ordered(kind) else _dtype(kind)
    return schema


def _dtype(kind: Any) -> Any:
    pl, readable = polars_module(), _readable(kind)
    for one in within(readable):
        if isinstance(one, pa.BaseExtensionType) or pa.types.is_interval(one):
            raise TypeError(f"Polars has no type for {kind}")
    try:
        found = pl.DataFrame(pa.table({"": arrow_columns.no_rows(readable)})).dtypes[0]
        pl.LazyFrame(schema={"": found}).collect()  # of decimals it reads more than it has
        return found
    except pl.exceptions.PolarsError as error:
        raise TypeError(f"Polars has no type for {kind}: {error}") from None


def _is_ordered(kind: Any) -> bool:
    """Whether a type is that of ordered categories of strings."""
    types = pa.types
    return bool(types.is_dictionary(kind) and kind.ordered and any(map(_is_text, [plain(kind.value_type)])))


def _enum(backend: Backend, content: Content) -> Any:
    """An Enum of ordered categories; a Categorical where one is missing or there twice."""
    pl, values = polars_module(), _categories(backend, content)
    return _dtype(content.type) if values.null_count() or values.n_unique() < len(values) else pl.Enum(values)


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
    tables : sequence of Table or File
        One after another.
    where : polars.Expr or None
        Rows for which it is not true need not come.
    """

    def __init__(self, schema: dict[str, Any], tables: Sequence[Table | File], where: Any = None) -> None:
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
        # On the CPU `where` is part of the predicate. A GPU engine tells none.
        asked = self._where if predicate is None else predicate
        read = [*wanted, *(() if predicate is None else predicate.meta.root_names())]
        read = [name for name in dict.fromkeys(read) if name in self._schema] or list(self._schema)[:1]
        used = [] if asked is None else [name for name in asked.meta.root_names() if name in self._schema]
        left, empty = n_rows, True
        for one in self._tables:
            table = one.begin()
            rows = table.rows if left is None else min(left, table.rows)
            left = None if left is None else left - rows
            mask = None if asked is None or not rows else _mask(table.some(used), asked)
            if mask is not None and not bool(mask.any()):
                continue  # no other column of a file is read
            for start, stop, numbers in _cuts(table.some(read), rows, mask):
                found = self._read(table.some(read), start, stop, numbers)
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


def _cuts(table: Table, rows: int, mask: Any) -> Iterator[tuple[int, int, Any]]:
    """Pieces of the first rows of a table, and numbers of the rows of each that may be meant; None: all are read."""
    nbytes = sum(content.node.uncompressed_nbytes for content in table.contents)
    for start, stop in selection.row_pieces(table.rows, nbytes, PIECE_NBYTES, _PIECE_ROWS):
        if start >= rows:
            return
        stop = min(stop, rows)
        numbers = None
        if mask is not None:
            with table.backend.current():
                numbers = selection.mask_rows(mask[start:stop], stop - start) + start
            if not len(numbers):
                continue
            if len(numbers) * _TAKEN_DIVISOR > stop - start:
                numbers = None
        yield start, stop, numbers


def _mask(table: Table, asked: Any) -> Any:
    """Rows that may be meant; None: all."""
    nodes = [content.node for content in table.contents]
    with table.backend.current():
        parts = polars_filter.parts(asked, table.names, nodes)
        return Filter(table.backend, nodes).rows(parts)


def _array(backend: Backend, read: Any, kind: Any, name: str) -> Any:
    """What was read of a column as an array that Polars reads: strings that are not UTF-8 are refused."""
    array = arrow_columns.rebuild(read, _readable(kind))
    if any(map(_is_text, within(kind))):
        try:
            array.validate(full=True)  # Polars itself takes Arrow at its word
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r}: {error}") from None
    return array


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
