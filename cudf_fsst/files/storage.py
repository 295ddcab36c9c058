"""Columns and frames as files: write, read, verify (docs/format.md, sections 8, 9 and 16)."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from ..codecs.contract import Table
from ..codecs.part import PARAMETERS, Packed, align
from ..codecs.registry import is_text, of_text, of_values, texts
from ..codecs.registry import streams as codecs_of
from ..codecs.text.layout import TILE_SIZES, SegmentLayout
from ..codecs.text.segment import Segment
from ..codecs.text.validate import check
from ..codecs.values import cpu as values
from ..naming import naming
from ..workers import map_items
from . import outer
from .disk import Source, source_of, write_pieces, writing
from .versions import FORMAT_VERSION, FRAME_VERSION, NEWEST_VERSION, VERSIONS

#: A file's path, a URL, a file object, or a BytesIO with its bytes.
Target = Any
#: For URLs, as fsspec takes them.
Options = Mapping[str, Any] | None

#: The first byte is not ASCII, and the line ends and Control-Z show what a text-mode transfer did.
MAGIC = b"\x89FST\r\n\x1a\n"
#: Start of every section of a file (bytes).
FILE_ALIGNMENT = 64
#: The codec of text whose streams version 1 has, and the labels of a frame.
FIRST_TEXT = texts()[0].NAME
#: What is read of a file at first; of one that takes long to ask.
_HEAD_NBYTES, _FAR_HEAD_NBYTES = 4 << 10, 64 << 10
#: Fewer bytes than this are checked before a thread would have started.
_WORTH_THREADS = 2**20

# magic, version, -, bytes of the file, columns, segments, sections, -, checksum of the records, -
_PREAMBLE = struct.Struct("<8sI4xQIII4xQ8x")
# codec, rows, uncompressed bytes, null_count, first segment, segments, first table, tables, -
_COLUMN = struct.Struct("<8sQQQIIII16x")
# rows, chars, null_count, tile_size, table, words in row_bits, -
_SEGMENT = struct.Struct("<QQQIII28x")
# The same of a codec for fixed-width values: rows, bytes, 0, itemsize, the codec's own numbers, -
_PACKED = struct.Struct(f"<QQQI{PARAMETERS}I20x")
# kind, number, offset, bytes, checksum
_SECTION = struct.Struct("<IIQQQ")
_CHECKSUM = struct.Struct("<Q")
_PREAMBLE_NBYTES = _PREAMBLE.size + _CHECKSUM.size

_SCHEMA, _INDEX, _TABLE, _META, _CODES = range(1, 6)
#: Kinds that may have an outer codec, whose number is in the upper half of the kind's number.
_WRAPPED = {_TABLE, _META, _CODES}
_OUTER_SHIFT, _KIND_MASK = 16, 0xFFFF
_KINDS = {
    _SCHEMA: "schema",
    _INDEX: "index",
    _TABLE: "symbol table {}",
    _META: "meta of segment {}",
    _CODES: "codes of segment {}",
}


#: Codec and consecutive parts: what a column record describes.
Stream = tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class Stored:
    """What a file holds, in host memory.

    Attributes
    ----------
    version : int
        1: a column; 2: a frame; others: either.
    streams : list of (str, list of Part)
        Of version 1 one; of others those that `cudf_fsst.files.trees` puts together.
    schema : bytes
        Names, exact dtypes and pandas metadata, as `cudf_fsst.interop` made them.
    index : bytes or None
        A column's index, unless the schema describes it.
    """

    version: int
    streams: list[Stream]
    schema: bytes
    index: bytes | None

    @property
    def segments(self) -> list[Segment]:
        """Segments of a column.

        Raises
        ------
        ValueError
            This is something else.
        """
        codecs = [codec for codec, _ in self.streams]
        if codecs != [FIRST_TEXT]:
            raise ValueError(f"a column has one stream, of codec {FIRST_TEXT}, not {codecs}")
        return list(self.streams[0][1])


@dataclass(frozen=True)
class _Place:
    """A section of the file, as its directory has it."""

    name: str
    kind: int
    number: int
    offset: int
    nbytes: int
    checksum: int
    outer: int


def save(
    path: Target,
    *,
    segments: Sequence[Segment],
    schema: bytes,
    index: bytes | None = None,
    storage_options: Options = None,
) -> None:
    """Write a column to a file, at once or not at all (see `cudf_fsst.files.disk.writing`).

    Parameters
    ----------
    path
        Where to; a symbolic link is followed. A BytesIO gets the bytes of the file from where it stands on.
    segments
        In host memory.
    schema, index
        Stored as they are.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    _write(path, _pieces(FORMAT_VERSION, [(FIRST_TEXT, segments)], schema, index), storage_options)


def save_streams(
    path: Target,
    *,
    streams: Sequence[Stream],
    schema: bytes,
    version: int = FRAME_VERSION,
    storage_options: Options = None,
    compression: str | None = None,
) -> None:
    """Write the streams of a file of a version after the first, at once or not at all; see `save`.

    `compression`: an outer codec of the sections, with which the version is `NEWEST_VERSION`.
    """
    _write(path, _pieces(version, streams, schema, None, compression), storage_options)


def needed_version(streams: Sequence[Stream]) -> int:
    """The first version after that of a column alone that can hold streams: their codecs say it."""
    needed = {FRAME_VERSION}
    for codec, own in streams:
        if is_text(codec):
            needed.add(of_text(codec).since())
        else:
            needed |= {of_values(codec).since(part.parameters) for part in own}
    return max(needed)


def _write(path: Target, pieces: Iterator[Any], storage_options: Options) -> None:
    if isinstance(path, io.BytesIO):
        for piece in pieces:
            path.write(piece)
        return
    with writing(path, storage_options) as file:
        write_pieces(file, list(pieces))


def _pieces(
    version: int, streams: Sequence[Stream], schema: bytes, index: bytes | None, compression: str | None = None
) -> Iterator[Any]:
    """The bytes of a file, piece by piece."""
    tables: dict[tuple[int, Table], int] = {}
    columns: list[bytes] = []
    records: list[bytes] = []
    parts: list[Any] = []
    for number, (codec, own) in enumerate(streams):
        first_table, first_part = len(tables), len(parts)
        for part in own:
            parts.append(part)
            if part.table is None:
                numbers = (*part.parameters, *[0] * (PARAMETERS - len(part.parameters)))
                records.append(_PACKED.pack(part.rows, part.values_nbytes, 0, part.itemsize, *numbers))
                continue
            layout = part.layout
            table = tables.setdefault((number, part.table), len(tables))
            numbers = layout.rows, layout.chars, part.null_count, layout.tile_size, table, layout.row_bits_words
            records.append(_SEGMENT.pack(*numbers))
        column = _COLUMN.pack(
            codec.encode(),
            sum(part.rows for part in own),
            sum(part.values_nbytes for part in own),
            sum(part.null_count for part in own),
            first_part,
            len(own),
            first_table,
            len(tables) - first_table,
        )
        columns.append(column)

    contents: list[tuple[int, int, Any]] = [(_SCHEMA, 0, schema)]
    if index is not None:
        contents.append((_INDEX, 0, index))
    contents += [(_TABLE, number, table.to_bytes()) for (_, table), number in tables.items()]
    contents += [(_META, number, np.ascontiguousarray(part.meta)) for number, part in enumerate(parts)]
    contents += [(_CODES, number, np.ascontiguousarray(part.codes)) for number, part in enumerate(parts)]

    end = _PREAMBLE_NBYTES + _COLUMN.size * len(streams) + _SEGMENT.size * len(parts) + _SECTION.size * len(contents)
    gaps = []
    directory = []
    sizes = [memoryview(content).nbytes for _, _, content in contents]
    checksums = [0] * len(contents)

    def sum_up(i: int) -> None:
        kind, number, content = contents[i]
        if compression is not None and kind in _WRAPPED and (stored := outer.wrap(content, compression)) is not None:
            content = stored
            contents[i] = kind | outer.NUMBERS[compression] << _OUTER_SHIFT, number, content
            sizes[i] = len(content)
        checksums[i] = xxhash.xxh3_64_intdigest(content)

    _share(sum_up, range(len(contents)), sizes)
    for (kind, number, _), nbytes, checksum in zip(contents, sizes, checksums, strict=True):
        offset = align(end, FILE_ALIGNMENT)
        gaps.append(bytes(offset - end))
        directory.append(_SECTION.pack(kind, number, offset, nbytes, checksum))
        end = offset + nbytes

    head = b"".join((*columns, *records, *directory))
    preamble = _PREAMBLE.pack(
        MAGIC, version, end, len(streams), len(parts), len(contents), xxhash.xxh3_64_intdigest(head)
    )
    yield preamble + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(preamble))
    yield head
    for gap, (_, _, content) in zip(gaps, contents, strict=True):
        yield gap
        yield content


class Opened:
    """A file whose head was checked: preamble, records, directory and schema. What else it holds is read when asked.

    Attributes
    ----------
    version : int
    schema : bytes
    index : bytes or None
        As in `Stored`.
    codecs : list of str
        Of each stream.
    """

    def __init__(self, source: Source, buffers: Callable[[Sequence[int]], Sequence[Any]] | None = None) -> None:
        self._source, file_nbytes = source, source.size
        self._buffers = buffers or (lambda sizes: [np.empty(nbytes, np.uint8) for nbytes in sizes])
        start = self._first(min(file_nbytes, _HEAD_NBYTES if source.in_threads else _FAR_HEAD_NBYTES))
        version, columns, segments, sections, records_checksum = _read_preamble(start, file_nbytes)
        if version == FORMAT_VERSION and columns != 1:
            raise ValueError(f"preamble: {columns} columns; version {FORMAT_VERSION} has one")
        head_nbytes = columns * _COLUMN.size + segments * _SEGMENT.size + sections * _SECTION.size
        if _PREAMBLE_NBYTES + head_nbytes > file_nbytes:
            raise ValueError(
                f"preamble: {columns} columns, {segments} segments and {sections} sections need more than the file's "
                f"{file_nbytes} bytes"
            )
        if _PREAMBLE_NBYTES + head_nbytes > len(start):
            start = self._first(_PREAMBLE_NBYTES + head_nbytes)
        head = start[_PREAMBLE_NBYTES : _PREAMBLE_NBYTES + head_nbytes]
        if xxhash.xxh3_64_intdigest(head) != records_checksum:
            raise ValueError("records: checksum does not match")

        self._records = _column_records(head[: columns * _COLUMN.size], segments, codecs_of(version))
        tables_count = sum(record.tables for record in self._records)
        place = columns * _COLUMN.size
        self._described: list[list[_Described]] = []
        for number, record in enumerate(self._records):
            nbytes = record.segments * _SEGMENT.size
            self._described.append(_part_records(version, head[place : place + nbytes], record))
            _check_sums(number, record, [one.part for one in self._described[-1]])
            place += nbytes
        described = [part for some in self._described for part in some]
        places = _read_directory(head[place:], columns, tables_count, segments, file_nbytes, version)
        for one in places:
            part = described[one.number].part if one.kind == _META and not one.outer else None
            if isinstance(part, Segment) and one.nbytes != part.meta_nbytes:  # other codecs check theirs
                raise ValueError(f"{one.name}: has {one.nbytes} bytes, its segment needs {part.meta_nbytes}")
        self._places = places
        self._firsts = [0, *accumulate(record.segments for record in self._records)]
        ends = [_PREAMBLE_NBYTES + head_nbytes, *(one.offset + one.nbytes for one in places)]
        self._gaps = dict(zip(((one.kind, one.number) for one in places), ends, strict=False))
        self.version, self.codecs = version, [record.codec for record in self._records]
        # The directory has them first; they say what there is to choose from.
        found = self._contents([one for one in places if one.kind in (_SCHEMA, _INDEX)])
        schema, index = found[_SCHEMA, 0], found.get((_INDEX, 0))
        self.schema, self.index = schema.tobytes(), None if index is None else index.tobytes()

    def read(self, numbers: Collection[int]) -> dict[int, Stream]:
        """Some streams by number, read and checked as `load` does it; nothing of the others is read."""
        segments = {part for number in numbers for part in range(self._firsts[number], self._firsts[number + 1])}
        tables = self._tables(numbers)
        wanted = {_TABLE: tables, _META: segments, _CODES: segments}
        contents = self._contents([one for one in self._places if one.number in wanted.get(one.kind, ())])
        made = {number: _read_table(tables[number], number, contents[_TABLE, number]) for number in sorted(tables)}
        loaded: dict[int, Any] = {}
        for number in sorted(numbers):
            for part, described in enumerate(self._described[number], self._firsts[number]):
                meta, codes = contents[_META, part], contents[_CODES, part]
                loaded[part] = described.make(made, meta.nbytes, codes.nbytes, meta, codes)
        _share(lambda numbered: _check_part(*numbered), list(loaded.items()), [one.nbytes for one in loaded.values()])
        return {
            number: (self.codecs[number], [loaded[i] for i in range(self._firsts[number], self._firsts[number + 1])])
            for number in sorted(numbers)
        }

    def outline(self, numbers: Collection[int]) -> dict[int, Stream]:
        """Some streams by number, whose parts have sizes but no buffers: of what is stored, tables alone are read."""
        tables = self._tables(numbers)
        contents = self._contents([one for one in self._places if one.kind == _TABLE and one.number in tables])
        made = {number: _read_table(tables[number], number, contents[_TABLE, number]) for number in sorted(tables)}
        parts = {part for number in numbers for part in range(self._firsts[number], self._firsts[number + 1])}
        places = [one for one in self._places if one.kind in (_META, _CODES) and one.number in parts]
        sizes = {(one.kind, one.number): one.nbytes for one in places}
        wrapped = [(one, np.empty(min(outer.HEAD_NBYTES, one.nbytes), np.uint8)) for one in places if one.outer]
        self._source.fill([(one.offset, head) for one, head in wrapped])
        for one, head in wrapped:
            with naming(one.name):
                sizes[one.kind, one.number] = outer.nbytes_of(head, one.nbytes)
        return {
            number: (
                self.codecs[number],
                [
                    described.make(made, sizes[_META, part], sizes[_CODES, part])
                    for part, described in enumerate(self._described[number], self._firsts[number])
                ],
            )
            for number in sorted(numbers)
        }

    def _tables(self, numbers: Collection[int]) -> dict[int, str]:
        """The symbol tables of some streams, by number, and their codecs."""
        records = [(self.codecs[number], self._records[number]) for number in numbers]
        return {first + i: codec for codec, one in records for first in [one.first_table] for i in range(one.tables)}

    def _first(self, nbytes: int) -> bytes:
        """The first bytes of the file."""
        content = np.empty(nbytes, np.uint8)
        self._source.fill([(0, content)])
        return content.tobytes()

    def _contents(self, places: Sequence[_Place]) -> dict[tuple[int, int], npt.NDArray[np.uint8]]:
        """Sections, and that there are zeros before each of them, checked."""
        gaps = [self._gaps[place.kind, place.number] for place in places]
        padding = [np.empty(place.offset - gap, np.uint8) for place, gap in zip(places, gaps, strict=True)]
        contents = list(self._buffers([0 if place.outer else place.nbytes for place in places]))
        for i, place in enumerate(places):
            if place.outer:
                contents[i] = np.empty(place.nbytes, np.uint8)
        if not self._source.in_threads:
            pairs = zip(places, gaps, padding, contents, strict=True)
            self._source.fill([one for place, gap, a, b in pairs for one in ((gap, a), (place.offset, b))])

        def check(i: int) -> None:
            place = places[i]
            with naming(place.name):
                if self._source.in_threads:
                    self._source.fill([(gaps[i], padding[i]), (place.offset, contents[i])])
            if padding[i].any():
                raise ValueError(f"padding before {place.name}: not zero")
            _check_checksum(place, contents[i])
            if place.outer:
                with naming(place.name):
                    (content,) = self._buffers([outer.nbytes_of(contents[i], place.nbytes)])
                    outer.unwrap(contents[i], place.outer, content)
                contents[i] = content

        # The system and the checksums let go of the interpreter, so threads share them.
        _share(check, range(len(places)), [place.nbytes for place in places])
        return {(place.kind, place.number): content for place, content in zip(places, contents, strict=True)}


@contextlib.contextmanager
def opened(
    path: Target, storage_options: Options = None, buffers: Callable[[Sequence[int]], Sequence[Any]] | None = None
) -> Iterator[Opened]:
    """Open a file to read all or some of it; ValueErrors within the block name it.

    Parameters
    ----------
    path
        Of a file that `save` or `save_streams` wrote; or a URL, a file object, a BytesIO with its bytes.
    storage_options
        For URLs, as fsspec takes them.
    buffers : callable, optional
        Makes arrays of bytes of these sizes for what is read.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged (the message names the section and what is wrong), not a cudf_fsst file, or of a format
        version that this package does not read.
    """
    with source_of(path, storage_options) as source:
        try:
            yield Opened(source, buffers)
        except ValueError as error:
            if source.name is None:
                raise
            raise ValueError(f"{source.name}: {error}") from error


def load(path: Target) -> Stored:
    """Read a column, or the streams of a frame, from a file and check all of it.

    Checked are every size against the file's, before memory is taken for it, every checksum, and then that each
    segment is consistent, so that decoding what `load` returns never leaves its buffers, whatever the file held.
    Errors are those of `opened`.
    """
    with opened(path) as file:
        streams = file.read(range(len(file.codecs)))
        return Stored(file.version, list(streams.values()), file.schema, file.index)


def version_of(path: str | os.PathLike[str]) -> int:
    """The format version of a file that `load` reads."""
    with open(path, "rb") as file:
        return int.from_bytes(file.read(len(MAGIC) + 4)[len(MAGIC) :], "little")


def _share(function: Callable[[Any], None], items: Sequence[Any], sizes: Sequence[int]) -> None:
    """Call the function for every item, in threads that take so many of them at a time that it is worth it."""
    runs: list[list[Any]] = [[]]
    nbytes = 0
    for item, size in zip(items, sizes, strict=True):
        if nbytes >= _WORTH_THREADS:
            runs.append([])
            nbytes = 0
        runs[-1].append(item)
        nbytes += size

    def work(run: list[Any]) -> None:
        for item in run:
            function(item)

    map_items(work, runs)


def _read_preamble(start: bytes, file_nbytes: int) -> tuple[int, int, int, int, int]:
    if start[: len(MAGIC)] != MAGIC:
        raise ValueError("not a cudf_fsst file: it does not begin with its magic bytes")
    if len(start) >= 12:
        version = int.from_bytes(start[8:12], "little")
        if version not in VERSIONS:
            known = f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}"
            raise ValueError(f"stored in format version {version}; this cudf_fsst reads versions {known}")
    preamble = start[:_PREAMBLE_NBYTES]
    if len(preamble) < _PREAMBLE_NBYTES:
        raise ValueError("preamble: the file ends inside it")
    fields = preamble[: _PREAMBLE.size]
    (checksum,) = _CHECKSUM.unpack(preamble[_PREAMBLE.size :])
    if xxhash.xxh3_64_intdigest(fields) != checksum:
        raise ValueError("preamble: checksum does not match")
    _, version, wanted_nbytes, columns, segments, sections, records_checksum = values = _PREAMBLE.unpack(fields)
    if _PREAMBLE.pack(*values) != fields:
        raise ValueError("preamble: reserved bytes are not zero")
    if wanted_nbytes != file_nbytes:
        raise ValueError(f"preamble: the file should have {wanted_nbytes} bytes, it has {file_nbytes}")
    return version, columns, segments, sections, records_checksum


@dataclass(frozen=True)
class _Record:
    """A column record."""

    codec: str
    rows: int
    nbytes: int
    null_count: int
    segments: int
    first_table: int
    tables: int


def _column_records(text: bytes, segments: int, codecs: Sequence[str]) -> list[_Record]:
    """The column records, whose segments and tables follow each other."""
    records: list[_Record] = []
    next_segment = next_table = 0
    for number in range(len(text) // _COLUMN.size):
        record = text[number * _COLUMN.size : (number + 1) * _COLUMN.size]
        codec, rows, nbytes, nulls, first_segment, count, first_table, tables = stored = _COLUMN.unpack(record)
        name = codec.rstrip(b"\0").decode("ascii", "replace")
        if name not in codecs:
            raise ValueError(f"column {number}: codec {codec.rstrip(bytes(1))!r} is not known")
        if _COLUMN.pack(*stored) != record:
            raise ValueError(f"column {number}: reserved bytes are not zero")
        if first_segment != next_segment or next_segment + count > segments:
            raise ValueError(f"column {number}: its {count} segments from {first_segment} are not the next ones")
        if first_table != next_table or (tables and not is_text(name)):
            raise ValueError(f"column {number}: its {tables} symbol tables from {first_table} are not the next ones")
        next_segment, next_table = first_segment + count, first_table + tables
        records.append(_Record(name, rows, nbytes, nulls, count, first_table, tables))
    if next_segment != segments:
        raise ValueError(f"the columns have {next_segment} segments, the file has {segments}")
    return records


class _Described(NamedTuple):
    """A part whose bytes are not there yet, and the number of its table, or None."""

    part: Packed | Segment
    table: int | None = None

    def make(
        self, tables: Mapping[int, Table], meta_nbytes: int, codes_nbytes: int, meta: Any = None, codes: Any = None
    ) -> Packed | Segment:
        """The part, with its bytes or without."""
        if isinstance(self.part, Segment):  # whose layout says how many bytes `meta` has
            assert self.table is not None
            return replace(self.part, table=tables[self.table], meta=meta, codes=codes, codes_nbytes=codes_nbytes)
        return replace(self.part, meta=meta, codes=codes, meta_nbytes=meta_nbytes, codes_nbytes=codes_nbytes)


def _part_records(version: int, records: bytes, column: _Record) -> list[_Described]:
    """What the segment records of a column say."""
    parts: list[_Described] = []
    later: Any = None  # the table
    for number in range(column.segments):
        record = records[number * _SEGMENT.size : (number + 1) * _SEGMENT.size]
        form = _SEGMENT if is_text(column.codec) else _PACKED
        fields = form.unpack(record)
        if form.pack(*fields) != record:
            raise ValueError(f"segment {number}: reserved bytes are not zero")
        if not is_text(column.codec):
            rows, nbytes, zero, itemsize, *numbers = fields
            codec = of_values(column.codec)
            if zero or itemsize not in codec.ITEMSIZES or nbytes != rows * itemsize or not 1 <= rows < 2**32:
                raise ValueError(f"segment {number}: {rows} values of {itemsize} bytes in {nbytes} bytes")
            count = codec.PARAMETERS
            if any(numbers[count:]):
                raise ValueError(f"segment {number}: more than the {count} parameters of {column.codec}")
            if (since := codec.since(numbers[:count])) > version:
                raise ValueError(f"segment {number}: {column.codec} as version {version} does not have it, but {since}")
            parts.append(_Described(Packed(column.codec, rows, itemsize, tuple(numbers[:count]), None, None, 0, 0)))
            continue
        rows, chars, null_count, tile_size, table, row_bits_words = fields
        if tile_size not in TILE_SIZES:
            raise ValueError(f"segment {number}: tile size {tile_size} is not one of {TILE_SIZES}")
        if not column.first_table <= table < column.first_table + column.tables:
            raise ValueError(f"segment {number}: wants symbol table {table}, the column has {column.tables}")
        layout = SegmentLayout(rows, chars, tile_size, null_count > 0, row_bits_words)
        parts.append(_Described(Segment(layout, null_count, later, None, None, 0), table))
    return parts


def _check_sums(number: int, column: _Record, parts: Sequence[Any]) -> None:
    for what, stated, summed in (
        ("rows", column.rows, sum(part.rows for part in parts)),
        ("uncompressed bytes", column.nbytes, sum(part.values_nbytes for part in parts)),
        ("nulls", column.null_count, sum(part.null_count for part in parts)),
    ):
        if stated != summed:
            raise ValueError(f"column {number}: states {stated} {what}, its segments have {summed}")


def _read_directory(
    directory: bytes, columns: int, tables: int, segments: int, file_nbytes: int, version: int
) -> list[_Place]:
    """The sections; they lie in the file one after another and end where it ends."""
    records = list(_SECTION.iter_unpack(directory))
    has_index = len(records) > 1 and records[1][0] == _INDEX
    wanted = [(_SCHEMA, 0)] + [(_INDEX, 0)] * has_index
    if len(records) != len(wanted) + tables + 2 * segments:  # before a list is made as long as `tables` says
        raise ValueError(f"directory: {len(records)} sections do not fit {tables} symbol tables, {segments} segments")
    wanted += [(_TABLE, number) for number in range(tables)]
    wanted += [(kind, number) for kind in (_META, _CODES) for number in range(segments)]

    places = []
    end = _PREAMBLE_NBYTES + columns * _COLUMN.size + segments * _SEGMENT.size + len(directory)
    for position, (wanted_one, record) in enumerate(zip(wanted, records, strict=True)):
        kind, number, offset, nbytes, checksum = record
        outside = 0
        if version >= NEWEST_VERSION and kind & _KIND_MASK in _WRAPPED:
            kind, outside = kind & _KIND_MASK, kind >> _OUTER_SHIFT
            if outside not in (0, *outer.NUMBERS.values()):
                raise ValueError(f"directory: section {position} has outer codec {outside}, which is not known")
        if (kind, number) != wanted_one:
            raise ValueError(f"directory: section {position} is of kind {kind}, number {number}, not {wanted_one}")
        name = _KINDS[kind].format(number)
        if offset != align(end, FILE_ALIGNMENT):
            raise ValueError(f"{name}: starts at byte {offset}, not {align(end, FILE_ALIGNMENT)}")
        end = offset + nbytes
        if end > file_nbytes:
            raise ValueError(f"{name}: ends at byte {end}, the file has {file_nbytes}")
        places.append(_Place(name, kind, number, offset, nbytes, checksum, outside))
    if end != file_nbytes:
        raise ValueError(f"directory: the sections end at byte {end}, the file has {file_nbytes}")
    return places


def _check_checksum(place: _Place, content: npt.NDArray[np.uint8]) -> None:
    if xxhash.xxh3_64_intdigest(content) != place.checksum:
        raise ValueError(f"{place.name}: checksum does not match")


def _read_table(codec: str, number: int, content: npt.NDArray[np.uint8]) -> Table:
    try:
        return of_text(codec).TABLE.from_bytes(content.tobytes())
    except ValueError as error:
        raise ValueError(f"symbol table {number}: {error}") from None


def _check_part(number: int, part: Any) -> None:
    try:
        if part.table is None:
            values.check([part])
        else:
            check(part)
    except ValueError as error:
        raise ValueError(f"segment {number}: {error}") from None
