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
    file : int
        Which of the files that are read; one may be there twice.
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
    file: int
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
        wanted = []
        for chunk in chunks:
            path = chunk.path_in_schema
            if names is None or any(path == name or path.startswith(f"{name}.") for name in names):
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                    start = min(start, chunk.dictionary_page_offset)
                wanted.append((start, start + chunk.total_compressed_size))
        if any(not 0 <= start <= stop <= self.ranges.size for start, stop in wanted):
            raise ValueError(f"{self.path}: a column chunk lies outside of the file's {self.ranges.size} bytes")
        joined = joined_ranges(wanted)
        known = dict(zip((start for start, _ in joined), self.ranges.read(joined), strict=True))
        fragment = self.fragment.format.make_fragment(
            RangeFile(self.ranges, known),
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
        The files, as errors call them.
    ranges : tuple of Ranges or None
        What each is read by, see `Piece`.
    """

    whole: Any
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
        """What the notes say of the levels of the index: names of columns, and of ranges a dict."""
        found = (self.schema.pandas_metadata or {}).get("index_columns", [])
        return [one for one in found if isinstance(one, dict) or one in self.schema.names]

    @property
    def levels(self) -> list[str]:
        """Names of the columns that are the index, or levels of it."""
        return [one for one in self.noted if isinstance(one, str)]


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
        """What errors call them."""
        if isinstance(self.where, (str, list)):
            name = self.where if isinstance(self.where, str) else self.where[0]
            return name if self.system is None else str(self.system.unstrip_protocol(name))
        return str(self.where.name)


class _Handler:
    """Make pyarrow's handler of a file system whose files are read in ranges, each file's last bytes once."""

    def __init__(self, system: Any) -> None:
        self._system = system
        self.known: dict[str, Remote] = {}

    def made(self) -> Any:
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
    """Look at the files, and read what they say of themselves; see `read_parquet`."""
    import pyarrow.dataset as ds  # these take long to import
    import pyarrow.parquet as pq

    if isinstance(filters, (tuple, list)) and filters and isinstance(filters[0], str):
        raise TypeError(f"filters must be a list of (column, operator, value), not {filters!r}")
    shown, handler = files.shown, None if files.system is None else _Handler(files.system)
    with reading(shown):
        if handler is not None:
            dataset = pq.ParquetDataset(files.where, filesystem=handler.made())
        else:
            plain = isinstance(files.where, (str, list))
            dataset = pq.ParquetDataset(files.where if plain else RangeFile(files.where))
        fragments = dataset.fragments
        _check_notes(dataset.schema.pandas_metadata)
    if not fragments:
        raise FileNotFoundError(f"{shown}: no Parquet file in this folder")
    expression = None if filters is None else pq.filters_to_expression(filters)
    keys: dict[str, list[Any]] = {}
    found = []
    paths: list[str] = []
    ranges: list[Ranges | None] = []
    for file, fragment in enumerate(fragments):
        own = ds.get_partition_keys(fragment.partition_expression)
        for name, value in own.items():
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
            for some in _together([one.row_groups[0] for one in split]):
                numbers, rows = [group.id for group in some], sum(group.num_rows for group in some)
                part = fragment.subset(row_group_ids=numbers)
                found.append(Piece(part, paths[-1], file, numbers, rows, own, ranges[-1]))
    schema = _selected(dataset.schema, columns, shown)
    pieces = tuple(found)
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
    """Row groups of a file, piece by piece: a large one is a piece by itself, of small ones several are.

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


def locate(source: Any, storage_options: Mapping[str, Any] | None = None) -> Files:
    """The files of what `read_parquet` is given, all there."""
    if is_file_object(source):
        return Files(FileObject(located(source, storage_options)))
    if is_url(source):
        found = located(source, storage_options)
        if not isinstance(found, Remote):
            return locate(found)
        if not glob.has_magic(found.path):
            with suppress(IsADirectoryError):
                found.check_file()
            return Files(found.path, found.system)
        paths = [one.path for one in found.matches()]
        if not paths:
            raise FileNotFoundError(f"{source}: no file has such a name")
        return Files(paths if len(paths) > 1 else paths[0], found.system)
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
    paths = [os.fsdecode(located(one, storage_options)) for one in names]
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: a folder; several sources have to be files")
    return Files(paths[0] if len(paths) == 1 else paths)


def _of_urls(names: Sequence[Any], storage_options: Mapping[str, Any] | None) -> Files:
    """Several URLs, all of one file system."""
    found = [located(one, storage_options) for one in names]
    for name, one in zip(names, found, strict=True):
        if not isinstance(one, Remote) or one.system != found[0].system:
            raise ValueError(f"{name}: several files have to be of one file system, as {names[0]} is")
        one.check_file()
    paths = [one.path for one in found]
    return Files(paths[0] if len(paths) == 1 else paths, found[0].system)


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
