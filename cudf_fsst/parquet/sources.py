"""Which row groups of which files are read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import footer

Path = str | os.PathLike[str]

#: Files of more row groups have larger pieces.
_FEW = 32
#: Rows, and bytes in Parquet's encodings, of a piece of several row groups.
_PIECE_ROWS, _PIECE_NBYTES = 1 << 24, 640 << 20
#: The same of files of few row groups, which are small, or were written in large ones.
_FEW_ROWS, _FEW_NBYTES = 1 << 21, 128 << 20


def bounds_of(noted: dict[str, Any]) -> range:
    """A range that is noted as a level of the index."""
    return range(noted["start"], noted["stop"], noted["step"])


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A Parquet file is read here: what goes wrong names it, as an OSError or a ValueError."""
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{os.fsdecode(path)}: no such file or folder") from error
    except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:  # cuDF's are RuntimeErrors
        kind = OSError if isinstance(error, OSError) else ValueError
        if isinstance(error, kind) and os.fsdecode(path) in str(error):
            raise
        raise kind(f"{os.fsdecode(path)}: {error}") from error


@dataclass(frozen=True)
class Piece:
    """Row groups of a file that are read, and compressed, together.

    Attributes
    ----------
    fragment : pyarrow.dataset.ParquetFileFragment
        Of these row groups alone.
    path : str
    file : int
        Which of the files that are read; one may be there twice.
    groups : list of int
        Their numbers in the file.
    rows : int
        Before any filter.
    keys : dict
        Of the folders that the file lies in, as ``year=2026``.
    """

    fragment: Any
    path: str
    file: int
    groups: list[int]
    rows: int
    keys: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Parquet files of one schema.

    Attributes
    ----------
    whole : pyarrow.Schema
        Of the files.
    schema : pyarrow.Schema
        Of the columns that are read, those of the index included, with pandas' notes if the files have some.
    columns : sequence of str or None
        Those that were asked for.
    filters : list or None
        Which rows are read, as they were asked for.
    expression : pyarrow.compute.Expression or None
        The same.
    pieces : tuple of Piece
        Of the row groups that may have such rows.
    keys : dict
        Of folders like ``year=2026``: name -> values in the order of the files.
    paths : tuple of str
        The files.
    """

    whole: Any
    schema: Any
    columns: Sequence[str] | None
    filters: Any
    expression: Any
    pieces: tuple[Piece, ...]
    keys: dict[str, list[Any]]
    paths: tuple[str, ...]

    @property
    def noted(self) -> list[Any]:
        """What the notes say of the levels of the index: names of columns, and of ranges a dict."""
        found = (self.schema.pandas_metadata or {}).get("index_columns", [])
        return [one for one in found if isinstance(one, dict) or one in self.schema.names]

    @property
    def levels(self) -> list[str]:
        """Names of the columns that are the index, or levels of it."""
        return [one for one in self.noted if isinstance(one, str)]


def find(source: Path | Sequence[Path], columns: Sequence[str] | None, filters: Any) -> Source:
    """Look at the files, and read what they say of themselves; see `read_parquet`."""
    import pyarrow.dataset as ds  # these take long to import
    import pyarrow.parquet as pq

    where = _files(source)
    shown = os.fsdecode(where) if isinstance(where, (str, bytes, os.PathLike)) else os.fsdecode(where[0])
    with reading(shown):
        dataset = pq.ParquetDataset(where)
        fragments = dataset.fragments
        _check_notes(dataset.schema.pandas_metadata)
    if not fragments:
        raise FileNotFoundError(f"{shown}: no Parquet file in this folder")
    expression = None if filters is None else pq.filters_to_expression(filters)
    keys: dict[str, list[Any]] = {}
    found = []
    for file, fragment in enumerate(fragments):
        own = ds.get_partition_keys(fragment.partition_expression)
        for name, value in own.items():
            values = keys.setdefault(name, [])
            if value not in values:
                values.append(value)
        with reading(fragment.path):
            footer.check(fragment.path, fragment.metadata)
            split = fragment.split_by_row_group(expression, schema=dataset.schema)
            for some in _together([one.row_groups[0] for one in split]):
                numbers, rows = [group.id for group in some], sum(group.num_rows for group in some)
                found.append(Piece(fragment.subset(row_group_ids=numbers), fragment.path, file, numbers, rows, own))
    schema = _selected(dataset.schema, columns, shown)
    paths = tuple(fragment.path for fragment in fragments)
    return Source(dataset.schema, schema, columns, filters, expression, tuple(found), keys, paths)


def _check_notes(notes: Any) -> None:
    """Raise ValueError where pandas' notes are not what pandas writes, which pyarrow and we look things up in."""
    if notes is None:
        return
    columns, levels = (
        (notes.get("columns"), notes.get("index_columns", [])) if isinstance(notes, dict) else (None, None)
    )
    if not isinstance(columns, list) or not isinstance(levels, list):
        raise ValueError("the notes that pandas leaves are damaged: they list no columns")
    for one in columns:
        if not isinstance(one, dict) or not {"name", "pandas_type", "numpy_type", "metadata"} <= one.keys():
            raise ValueError(f"the notes that pandas leaves are damaged: {one!r:.100} describes no column")
    for one in levels:
        if isinstance(one, dict):
            numbers = [one.get(name) for name in ("start", "stop", "step")]
            if not all(isinstance(number, int) for number in numbers) or numbers[2] == 0 or "name" not in one:
                raise ValueError(f"the notes that pandas leaves are damaged: {one!r:.100} is no range")
        elif not isinstance(one, str):
            raise ValueError(f"the notes that pandas leaves are damaged: {one!r:.100} names no column")


def _together(groups: Sequence[Any]) -> Iterator[list[Any]]:
    """Which row groups of a file are a piece: one that is large by itself, else several.

    Small pieces take long to compress, each has symbol tables of its own, and in few rows fewer values repeat. The rule
    knows nothing but what the file says of its row groups.
    """
    few = len(groups) <= _FEW
    most_rows, most_nbytes = (_FEW_ROWS, _FEW_NBYTES) if few else (_PIECE_ROWS, _PIECE_NBYTES)
    piece: list[Any] = []
    rows = nbytes = 0
    for group in groups:
        own_rows, own_nbytes = group.num_rows, group.total_byte_size
        if piece and (rows + own_rows > most_rows or nbytes + own_nbytes > most_nbytes):
            yield piece
            piece, rows, nbytes = [], 0, 0
        piece.append(group)
        rows += own_rows
        nbytes += own_nbytes
    if piece:
        yield piece


def _files(source: Path | Sequence[Path]) -> Any:
    """A file or folder, or a list of files, all there."""
    if isinstance(source, (str, bytes, os.PathLike)):
        path = os.fsdecode(source)
        if os.path.exists(path):
            return path
        if not glob.has_magic(path):
            raise FileNotFoundError(f"{path}: no such file or folder")
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise FileNotFoundError(f"{path}: no file has such a name")
        return matches[0] if len(matches) == 1 else _files(matches)
    # Lines of a file are no paths, and a set has no order.
    if hasattr(source, "read") or isinstance(source, Set) or not isinstance(source, Iterable):
        raise TypeError(f"read_parquet takes a path or a list of paths, not {type(source).__name__}")
    paths = [os.fsdecode(one) for one in source]
    if not paths:
        raise ValueError("read_parquet was given an empty list of files")
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: a folder; several sources have to be files")
    return paths[0] if len(paths) == 1 else paths


def _selected(schema: Any, columns: Sequence[str] | None, shown: str) -> Any:
    """The fields of these columns, then those of the index."""
    names = schema.names
    for name in names if columns is None else columns:
        if names.count(name) > 1:
            raise ValueError(f"{shown}: {names.count(name)} columns are named {name!r}")
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not {columns!r}")
    wanted = list(columns)
    for name in wanted:
        if wanted.count(name) > 1:
            raise ValueError(f"column {name!r} is asked for {wanted.count(name)} times")
        if name not in names:
            raise ValueError(f"{shown}: no column {name!r}; columns: {', '.join(names)}")
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    wanted += [name for name in noted if isinstance(name, str) and name in names and name not in wanted]
    return pa.schema([schema.field(name) for name in wanted], metadata=schema.metadata)
