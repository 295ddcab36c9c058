"""What Polars asks for rows: those of tables in memory, and of files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..backend import HostBackend
from ..codecs.node import Content
from ..files import columns as files
from ..interop.arrow import table_of
from ..naming import naming
from . import polars_filter
from .polars_types import is_ordered, polars_module, schema
from .tables import EngineTable, PieceRows, array, cuts


class FileFrame:
    """The frame of a file, whose columns are read when they are wanted, and kept by it.

    Parameters
    ----------
    path : str or file object
    storage_options : mapping or None
        For a URL.
    """

    def __init__(self, path: Any, storage_options: Mapping[str, Any] | None = None) -> None:
        self.path, self._options = path, storage_options
        self._known: dict[str, Content] = {}
        self._rows: int | None = None

    def begin(self) -> FileFrame:
        """The file, to go through once."""
        return FileFrame(self.path, self._options)

    def end(self) -> None:
        """Forget the columns."""
        self._known.clear()

    def schema(self) -> dict[str, Any]:
        """Polars' types by name. Only ordered categories are read from the file, because they are part of a type."""

        def coded(labels: Any, types: Sequence[Any]) -> list[int]:
            return [place for place in range(len(labels)) if is_ordered(types[place])]

        loaded = files.load(self.path, coded, levels=False, storage_options=self._options)
        names = tuple(map(str, loaded.every))
        contents = iter(loaded.columns)
        given = [next(contents) if is_ordered(kind) else kind for kind in loaded.types]
        with naming(str(self.path)):
            return schema(names, given)

    @property
    def rows(self) -> int:
        """Rows of the frame."""
        if self._rows is None:
            self._read(())
        assert self._rows is not None
        return self._rows

    def select(self, names: Sequence[str]) -> EngineTable:
        """The table of some columns."""
        missing = [name for name in names if name not in self._known]
        if missing:
            self._read(missing)
        return EngineTable(HostBackend(), tuple(names), tuple(self._known[name] for name in names), self.rows)

    def _read(self, names: Sequence[str]) -> None:
        def choose(labels: Any, types: Sequence[Any]) -> list[int]:
            places = {str(label): place for place, label in enumerate(labels)}
            missing = [name for name in names if name not in places]
            if missing:
                raise ValueError(f"{self.path}: has no column {missing[0]!r} any more")
            return [places[name] for name in names]

        loaded = files.load(self.path, choose, levels=False, storage_options=self._options)
        self._known |= dict(zip(names, loaded.columns, strict=True))
        self._rows = loaded.rows


class PolarsSource:
    """The callable of ``register_io_source`` by which Polars gets the rows of tables. It does not change.

    Parameters
    ----------
    schema : dict of str to polars dtype
    tables : sequence of EngineTable or File
        One after another.
    where : polars.Expr or None
        Rows for which it is not true need not come.
    """

    def __init__(self, schema: dict[str, Any], tables: Sequence[EngineTable | FileFrame], where: Any = None) -> None:
        self._schema, self._tables, self._filter = schema, tables, where
        #: The filter, if it may be answered before Polars filters.
        self._where = where if where is not None and polars_filter.is_row_by_row(where) else None

    def lazy(self) -> Any:
        """The LazyFrame."""
        from polars.io.plugins import register_io_source

        frame = register_io_source(self, schema=self._schema, validate_schema=True, is_pure=True)
        return frame if self._filter is None else frame.filter(self._filter)

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
        rank: int = 0,
        nranks: int = 1,
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
        rank, nranks : int
            Of several processes which one asks. All rows come, each to one of them.
        """
        del batch_size
        rows = self._share(rank, nranks, n_rows)
        return self._pieces(list(self._schema) if with_columns is None else with_columns, predicate, rows)

    def _share(self, rank: int, nranks: int, n_rows: int | None = None) -> range:
        """The rows that a process reads, numbered through all tables."""
        if nranks == 1:
            return range(sys.maxsize if n_rows is None else n_rows)
        total = sum(table.begin().rows for table in self._tables)
        total = total if n_rows is None else min(total, n_rows)
        step = -(-total // nranks)
        return range(min(rank * step, total), min((rank + 1) * step, total))

    def _tables_of(self, rows: range) -> Iterator[tuple[EngineTable | FileFrame, range]]:
        """The tables that have some of these rows, each with the range of its own rows."""
        before = 0
        for table in self._tables:
            if before >= rows.stop:
                return
            opened = table.begin()
            first, last = max(rows.start - before, 0), min(rows.stop - before, opened.rows)
            before += opened.rows
            if first < last:
                yield opened, range(first, last)

    def _used(self, expression: Any) -> list[str]:
        """The columns that an expression reads."""
        return [] if expression is None else [name for name in expression.meta.root_names() if name in self._schema]

    def _pieces(self, names: Sequence[str], predicate: Any, rows: range) -> Iterator[Any]:
        # Polars' CPU engine makes `where` a part of the predicate.
        expression = self._where if predicate is None else predicate
        read = list(dict.fromkeys([*names, *self._used(predicate)]))
        if not read and predicate is not None:  # of no column: which says of each row the same, or looks at its number
            read = list(self._schema)[:1]
        empty = True
        for opened, own_rows in self._tables_of(rows):
            mask = mask_of(opened.select(self._used(expression)).on_host(), expression)
            if mask is not None and not bool(mask.any()):
                continue  # no other column of a file is read
            table = opened.select(read).on_host()
            for piece in cuts(table, own_rows, mask):
                frame = self._read(table, piece)
                if predicate is not None:
                    frame = frame.filter(predicate)
                empty = False
                yield frame.select(names) if names else _without_columns(frame.height)
        if empty:  # where the predicate may be wrong all the same
            frame = self._no_rows(read)
            yield (frame if predicate is None else frame.filter(predicate)).select(names)

    def _no_rows(self, names: Sequence[str]) -> Any:
        return polars_module().DataFrame(schema={name: self._schema[name] for name in names})

    def _read(self, table: EngineTable, rows: PieceRows) -> Any:
        """Rows of a table as a DataFrame of Polars."""
        if not table.names:
            return _without_columns(len(rows))
        arrays = [
            array(column, content.type, name)
            for name, column, content in zip(table.names, table.read(rows), table.contents, strict=True)
        ]
        # Polars takes no column whose name is empty, but gives it one; nor does it cast one that is named so.
        fields = pa.schema([(str(place), values.type) for place, values in enumerate(arrays)])
        frame = polars_module().DataFrame(pa.Table.from_arrays(arrays, schema=fields))
        types = [self._schema[name] for name in table.names]
        casts = {str(place): kind for place, kind in enumerate(types) if frame.dtypes[place] != kind}
        frame = frame.cast(casts) if casts else frame
        frame.columns = list(table.names)
        return frame


def _without_columns(rows: int) -> Any:
    """A DataFrame of Polars of so many rows; of Polars 1, which has no such, of none."""
    return polars_module().DataFrame(table_of([], pa.schema([]), rows))


def mask_of(table: EngineTable, expression: Any) -> Any:
    """A mask of the rows for which an expression may be true; None: any may be."""
    if expression is None:
        return None
    return table.mask(polars_filter.predicates(expression, table.names, [content.node for content in table.contents]))
