"""Which row groups of which files are read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from ..remote import FileObject, RangeFile, Ranges, Remote, is_file_object, is_url, joined_ranges, located
from . import footer

#: Of a file: a path, a URL or a file object.
Path = Any

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
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """A Parquet file is read here: what goes wrong names it, as an OSError or a ValueError."""
    path = os.fsdecode(path)
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file or folder") from error
    except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:  # cuDF's are RuntimeErrors
        kind = OSError if isinstance(error, OSError) else ValueError
        if isinstance(error, kind) and path in str(error):
            raise
        raise kind(f"{path}: {error}") from error


@dataclass(frozen=True)
class Piece:
    """Row groups of a file that are read, and compressed, together.

    Attributes
    ----------
    fragment : pyarrow.dataset.ParquetFileFragment
        Of these row groups alone.
    path : str
    groups : list of int
        Their numbers in the file.
    rows : int
        Before any filter.
    keys : dict
        Of the folders that the file lies in, as ``year=2026``.
    ranges : Ranges or None
        What the file is read by; None: it is one of this machine.
    """

    fragment: Any
    path: str
    groups: list[int]
    rows: int
    keys: dict[str, Any]
    ranges: Ranges | None = None

    def fetched(self, names: Sequence[str] | None) -> Piece:
        """The piece with what is stored of these columns in memory, read in few ranges; a file of this machine stays.

        Parameters
        ----------
        names
            Of columns; None: all.
        """
        if self.ranges is None:
            return self
        metadata = self.fragment.metadata
        chunks = [metadata.row_group(group).column(i) for group in self.groups for i in range(metadata.num_columns)]
        column_ranges = []
        for chunk in chunks:
            path = chunk.path_in_schema
            if names is None or any(path == name or path.startswith(f"{name}.") for name in names):
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                    start = min(start, chunk.dictionary_page_offset)
                column_ranges.append((start, start + chunk.total_compressed_size))
        if any(not 0 <= start <= stop <= self.ranges.size for start, stop in column_ranges):
            raise ValueError(f"{self.path}: a column chunk lies outside of the file's {self.ranges.size} bytes")
        fetched_ranges = joined_ranges(column_ranges)
        fetched_bytes = dict(zip((start for start, _ in fetched_ranges), self.ranges.read(fetched_ranges), strict=True))
        fragment = self.fragment.format.make_fragment(
            RangeFile(self.ranges, fetched_bytes),
            partition_expression=self.fragment.partition_expression,
            row_groups=self.groups,
        )
        return replace(self, fragment=fragment)

    def open(self) -> Any:
        """The file as pyarrow opens it."""
        return self.path if self.ranges is None else self.fragment.open()


@dataclass(frozen=True)
class ParquetSource:
    """Parquet files of one schema.

    Attributes
    ----------
    file_schema : pyarrow.Schema
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
        The files, as errors call them.
    ranges : tuple of Ranges or None
        What each is read by, see `Piece`.
    """

    file_schema: Any
    schema: Any
    columns: Sequence[str] | None
    filters: Any
    expression: Any
    pieces: tuple[Piece, ...]
    keys: dict[str, list[Any]]
    paths: tuple[str, ...]
    ranges: tuple[Ranges | None, ...]

    @property
    def noted(self) -> list[Any]:
        """Levels of the index by pandas' notes: the name of a column each, or a dict that describes a range."""
        levels = (self.schema.pandas_metadata or {}).get("index_columns", [])
        return [level for level in levels if isinstance(level, dict) or level in self.schema.names]

    @property
    def levels(self) -> list[str]:
        """Names of the columns that are the index, or levels of it."""
        return [level for level in self.noted if isinstance(level, str)]


class Files(NamedTuple):
    """Files that are to be read.

    Attributes
    ----------
    where : str or list of str or Ranges
        As pyarrow's datasets take it; one that is read in ranges.
    system : fsspec.AbstractFileSystem or None
        None: they are files of this machine, or a file object.
    """

    where: Any
    system: Any = None

    @property
    def shown(self) -> str:
        """Their name in errors."""
        if isinstance(self.where, (str, list)):
            name = self.where if isinstance(self.where, str) else self.where[0]
            return name if self.system is None else str(self.system.unstrip_protocol(name))
        return str(self.where.name)


class _Handler:
    """Make pyarrow's handler of a file system whose files are read in ranges, each file's last bytes once."""

    def __init__(self, system: Any) -> None:
        self._system = system
        self.known: dict[str, Remote] = {}

    def filesystem(self) -> Any:
        import pyarrow.fs as fs

        remote = self.remote

        class Handler(fs.FSSpecHandler):
            def open_input_file(self, path: str) -> Any:
                return pa.PythonFile(RangeFile(remote(path)), mode="r")

        return fs.PyFileSystem(Handler(self._system))

    def remote(self, path: str) -> Remote:
        """The file of a path."""
        if path not in self.known:
            self.known[path] = Remote(self._system, path, self._system.unstrip_protocol(path))
        return self.known[path]


def find(files: Files, columns: Sequence[str] | None, filters: Any) -> ParquetSource:
    """Read the footers of files, and plan their pieces; see `read_parquet`."""
    import pyarrow.dataset as ds  # these take long to import
    import pyarrow.parquet as pq

    if isinstance(filters, (tuple, list)) and filters and isinstance(filters[0], str):
        raise TypeError(f"filters must be a list of (column, operator, value), not {filters!r}")
    shown, handler = files.shown, None if files.system is None else _Handler(files.system)
    with reading(shown):
        if handler is not None:
            dataset = pq.ParquetDataset(files.where, filesystem=handler.filesystem())
        else:
            plain = isinstance(files.where, (str, list))
            dataset = pq.ParquetDataset(files.where if plain else RangeFile(files.where))
        fragments = dataset.fragments
        _check_notes(dataset.schema.pandas_metadata)
    if not fragments:
        raise FileNotFoundError(f"{shown}: no Parquet file in this folder")
    expression = None if filters is None else pq.filters_to_expression(filters)
    keys: dict[str, list[Any]] = {}
    pieces_found = []
    paths: list[str] = []
    ranges: list[Ranges | None] = []
    for fragment in fragments:
        folder_keys = ds.get_partition_keys(fragment.partition_expression)
        for name, value in folder_keys.items():
            values = keys.setdefault(name, [])
            if value not in values:
                values.append(value)
        ranges.append(
            handler.remote(fragment.path)
            if handler is not None
            else None
            if isinstance(files.where, (str, list))
            else files.where
        )
        paths.append(fragment.path if ranges[-1] is None else ranges[-1].name)
        with reading(paths[-1]):
            footer.check(paths[-1] if ranges[-1] is None else ranges[-1], fragment.metadata)
            split = fragment.split_by_row_group(expression, schema=dataset.schema)
            for groups in _pieces_of_groups([group_fragment.row_groups[0] for group_fragment in split]):
                numbers, rows = [group.id for group in groups], sum(group.num_rows for group in groups)
                part = fragment.subset(row_group_ids=numbers)
                pieces_found.append(Piece(part, paths[-1], numbers, rows, folder_keys, ranges[-1]))
    schema = _selected(dataset.schema, columns, shown)
    pieces = tuple(pieces_found)
    places = tuple(paths), tuple(ranges)
    return ParquetSource(dataset.schema, schema, columns, filters, expression, pieces, keys, *places)


def _check_notes(notes: Any) -> None:
    """Raise ValueError where pandas' notes are not what pandas writes, which pyarrow and we look things up in."""
    if notes is None:
        return
    columns, levels = (
        (notes.get("columns"), notes.get("index_columns", [])) if isinstance(notes, dict) else (None, None)
    )
    if not isinstance(columns, list) or not isinstance(levels, list):
        raise ValueError("the notes that pandas leaves are damaged: they list no columns")
    for entry in columns:
        if not isinstance(entry, dict) or not {"name", "pandas_type", "numpy_type", "metadata"} <= entry.keys():
            raise ValueError(f"the notes that pandas leaves are damaged: {entry!r:.100} describes no column")
    for entry in levels:
        if isinstance(entry, dict):
            numbers = [entry.get(name) for name in ("start", "stop", "step")]
            if not all(isinstance(number, int) for number in numbers) or numbers[2] == 0 or "name" not in entry:
                raise ValueError(f"the notes that pandas leaves are damaged: {entry!r:.100} is no range")
        elif not isinstance(entry, str):
            raise ValueError(f"the notes that pandas leaves are damaged: {entry!r:.100} names no column")


def _pieces_of_groups(groups: Sequence[Any]) -> Iterator[list[Any]]:
    """Row groups of a file, piece by piece: a large one is a piece by itself, of small ones several are.

    Small pieces take long to compress, each has symbol tables of its own, and in few rows fewer values repeat. The rule
    knows nothing but what the file says of its row groups.
    """
    few = len(groups) <= _FEW
    most_rows, most_nbytes = (_FEW_ROWS, _FEW_NBYTES) if few else (_PIECE_ROWS, _PIECE_NBYTES)
    piece: list[Any] = []
    rows = nbytes = 0
    for group in groups:
        group_rows, group_nbytes = group.num_rows, group.total_byte_size
        if piece and (rows + group_rows > most_rows or nbytes + group_nbytes > most_nbytes):
            yield piece
            piece, rows, nbytes = [], 0, 0
        piece.append(group)
        rows += group_rows
        nbytes += group_nbytes
    if piece:
        yield piece


def locate(source: Any, storage_options: Mapping[str, Any] | None = None) -> Files:
    """The files of what `read_parquet` is given, all there."""
    if is_file_object(source):
        return Files(FileObject(located(source, storage_options)))
    if is_url(source):
        file = located(source, storage_options)
        if not isinstance(file, Remote):
            return locate(file)
        if not glob.has_magic(file.path):
            with suppress(IsADirectoryError):
                file.check_file()
            return Files(file.path, file.system)
        paths = [match.path for match in file.matches()]
        if not paths:
            raise FileNotFoundError(f"{source}: no file has such a name")
        return Files(paths if len(paths) > 1 else paths[0], file.system)
    if isinstance(source, (str, bytes, os.PathLike)):
        path = os.fsdecode(located(source, storage_options))
        if os.path.exists(path):
            return Files(path)
        if not glob.has_magic(path):
            raise FileNotFoundError(f"{path}: no such file or folder")
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise FileNotFoundError(f"{path}: no file has such a name")
        return Files(matches[0]) if len(matches) == 1 else locate(matches)
    # A set has no order.
    if isinstance(source, (Set, Mapping)) or not isinstance(source, Iterable):
        raise TypeError(f"read_parquet takes a path, a URL, a file object or a list, not {type(source).__name__}")
    names = list(source)
    if not names:
        raise ValueError("read_parquet was given an empty list of files")
    if any(map(is_url, names)):
        return _of_urls(names, storage_options)
    paths = [os.fsdecode(located(match, storage_options)) for match in names]
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: a folder; several sources have to be files")
    return Files(paths[0] if len(paths) == 1 else paths)


def _of_urls(names: Sequence[Any], storage_options: Mapping[str, Any] | None) -> Files:
    """Several URLs, all of one file system."""
    files = [located(file, storage_options) for file in names]
    for name, file in zip(names, files, strict=True):
        if not isinstance(file, Remote) or file.system != files[0].system:
            raise ValueError(f"{name}: several files have to be of one file system, as {names[0]} is")
        file.check_file()
    paths = [file.path for file in files]
    return Files(paths[0] if len(paths) == 1 else paths, files[0].system)


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
    selected = list(columns)
    for name in selected:
        if selected.count(name) > 1:
            raise ValueError(f"column {name!r} is asked for {selected.count(name)} times")
        if name not in names:
            raise ValueError(f"{shown}: no column {name!r}; columns: {', '.join(names)}")
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    selected += [name for name in noted if isinstance(name, str) and name in names and name not in selected]
    return pa.schema([schema.field(name) for name in selected], metadata=schema.metadata)
