"""Columns as files: write, read, verify (docs/format.md, sections 8 and 9)."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from .codecs.fsst.cpu import num_threads
from .codecs.fsst.segment import Segment
from .codecs.fsst.symbols import SymbolTable
from .codecs.fsst.validate import check
from .format import FORMAT_VERSION, TILE_SIZES, SegmentLayout, align

#: The first byte is not ASCII, and the line ends and Control-Z show what a text-mode transfer did.
MAGIC = b"\x89FST\r\n\x1a\n"
#: Start of every section of a file (bytes).
FILE_ALIGNMENT = 64
CODEC = b"fsst"
#: Files smaller than this (bytes) are checked before a thread would have started.
_WORTH_THREADS = 2**20

# magic, version, -, bytes of the file, columns, segments, sections, -, checksum of the records, -
_PREAMBLE = struct.Struct("<8sI4xQIII4xQ8x")
# codec, rows, uncompressed bytes, null_count, first segment, segments, first table, tables, -
_COLUMN = struct.Struct("<8sQQQIIII16x")
# rows, chars, null_count, tile_size, table, words in row_bits, -
_SEGMENT = struct.Struct("<QQQIII28x")
# kind, number, offset, bytes, checksum
_SECTION = struct.Struct("<IIQQQ")
_CHECKSUM = struct.Struct("<Q")
_PREAMBLE_NBYTES = _PREAMBLE.size + _CHECKSUM.size

_SCHEMA, _INDEX, _TABLE, _META, _CODES = range(1, 6)
_KINDS = {
    _SCHEMA: "schema",
    _INDEX: "index",
    _TABLE: "symbol table {}",
    _META: "meta of segment {}",
    _CODES: "codes of segment {}",
}


@dataclass(frozen=True)
class StoredColumn:
    """What a file holds.

    Attributes
    ----------
    segments : list of Segment
        In host memory, in row order.
    schema : bytes
        Name, exact dtype and pandas metadata, as `cudf_fsst.interop` made them.
    index : bytes or None
        The index, unless the schema describes it.
    """

    segments: list[Segment]
    schema: bytes
    index: bytes | None


@dataclass(frozen=True)
class _Place:
    """A section of the file, as its directory has it."""

    name: str
    kind: int
    number: int
    offset: int
    nbytes: int
    checksum: int


def save(
    path: str | os.PathLike[str], *, segments: Sequence[Segment], schema: bytes, index: bytes | None = None
) -> None:
    """Write a column to a file, at once or not at all.

    The bytes go to a new file in the same folder, which takes the name `path` when all of it is on disk. If anything
    fails before, an older file at `path` stays as it was and the new one is removed.

    Parameters
    ----------
    path
        Where to; a symbolic link is followed.
    segments
        In host memory.
    schema, index
        Stored as they are.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    target = os.path.realpath(os.fsdecode(path))
    temporary = os.path.join(os.path.dirname(target), f".cudf-fsst-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            for piece in _pieces(segments, schema, index):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:  # it names the new file, or none
            raise OSError(error.errno, error.strerror, os.fsdecode(path)) from None
        raise
    _sync_folder(os.path.dirname(target))


def _sync_folder(folder: str) -> None:
    """Put the new name on disk too, where the system can: the file is complete either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _pieces(segments: Sequence[Segment], schema: bytes, index: bytes | None) -> Iterator[Any]:
    """The bytes of a file, piece by piece."""
    tables: dict[SymbolTable, int] = {}
    records = b""
    for segment in segments:
        layout = segment.layout
        table = tables.setdefault(segment.table, len(tables))
        records += _SEGMENT.pack(
            layout.rows, layout.chars, segment.null_count, layout.tile_size, table, layout.row_bits_words
        )
    column = _COLUMN.pack(
        CODEC,
        sum(segment.rows for segment in segments),
        sum(segment.chars for segment in segments),
        sum(segment.null_count for segment in segments),
        0,
        len(segments),
        0,
        len(tables),
    )

    contents: list[tuple[int, int, Any]] = [(_SCHEMA, 0, schema)]
    if index is not None:
        contents.append((_INDEX, 0, index))
    contents += [(_TABLE, number, table.to_bytes()) for table, number in tables.items()]
    contents += [(_META, number, np.ascontiguousarray(segment.meta)) for number, segment in enumerate(segments)]
    contents += [(_CODES, number, np.ascontiguousarray(segment.codes)) for number, segment in enumerate(segments)]

    end = _PREAMBLE_NBYTES + len(column) + len(records) + _SECTION.size * len(contents)
    gaps = []
    directory = b""
    for kind, number, content in contents:
        offset = align(end, FILE_ALIGNMENT)
        gaps.append(bytes(offset - end))
        nbytes = memoryview(content).nbytes
        directory += _SECTION.pack(kind, number, offset, nbytes, xxhash.xxh3_64_intdigest(content))
        end = offset + nbytes

    head = column + records + directory
    preamble = _PREAMBLE.pack(
        MAGIC, FORMAT_VERSION, end, 1, len(segments), len(contents), xxhash.xxh3_64_intdigest(head)
    )
    yield preamble + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(preamble))
    yield head
    for gap, (_, _, content) in zip(gaps, contents, strict=True):
        yield gap
        yield content


def load(path: str | os.PathLike[str]) -> StoredColumn:
    """Read a column from a file and check all of it.

    Checked are every size against the file's, before memory is taken for it, every checksum, and then that each
    segment is consistent, so that decoding what `load` returns never leaves its buffers, whatever the file held.

    Parameters
    ----------
    path
        A file that `save` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged (the message names the section and what is wrong), not a cudf_fsst file, or of a format
        version that this package does not read.
    """
    name = os.fsdecode(path)
    # Looked at before it is opened: opening a pipe would wait for its writer.
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ValueError(f"{name}: not a cudf_fsst file: not a regular file")
    with open(name, "rb") as file:
        try:
            return _load(file, os.fstat(file.fileno()).st_size)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _load(file: BufferedReader, file_nbytes: int) -> StoredColumn:
    columns, segments, sections, records_checksum = _read_preamble(file, file_nbytes)
    if columns != 1:
        raise ValueError(f"preamble: {columns} columns; version {FORMAT_VERSION} has one")
    head_nbytes = columns * _COLUMN.size + segments * _SEGMENT.size + sections * _SECTION.size
    if _PREAMBLE_NBYTES + head_nbytes > file_nbytes:
        raise ValueError(
            f"preamble: {segments} segments and {sections} sections need more than the file's {file_nbytes} bytes"
        )
    head = _read(file, head_nbytes, "records").tobytes()
    if xxhash.xxh3_64_intdigest(head) != records_checksum:
        raise ValueError("records: checksum does not match")

    tables_count = _check_column(head, segments)
    segment_records = _segment_records(head[_COLUMN.size :][: segments * _SEGMENT.size], tables_count)
    _check_sums(head, segment_records)
    places = _read_directory(head[head_nbytes - sections * _SECTION.size :], tables_count, segments, file_nbytes)
    for place in places:
        if place.kind == _META:
            expected = segment_records[place.number][0].meta_nbytes
            if place.nbytes != expected:
                raise ValueError(f"{place.name}: has {place.nbytes} bytes, its segment needs {expected}")

    contents: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
    end = _PREAMBLE_NBYTES + head_nbytes
    for place in places:
        if _read(file, place.offset - end, "padding").any():
            raise ValueError(f"padding before {place.name}: not zero")
        contents[place.kind, place.number] = _read(file, place.nbytes, place.name)
        end = place.offset + place.nbytes
    # The checks let go of the interpreter, so threads share them.
    with ThreadPoolExecutor(num_threads()) as pool:
        each: Any = pool.map if file_nbytes >= _WORTH_THREADS else map
        _run(each(lambda place: _check_checksum(place, contents[place.kind, place.number]), places))
        tables = [_read_table(number, contents[_TABLE, number]) for number in range(tables_count)]
        loaded = [
            Segment(
                layout=layout,
                null_count=null_count,
                table=tables[table],
                meta=contents[_META, number],
                codes=contents[_CODES, number],
                codes_nbytes=contents[_CODES, number].nbytes,
            )
            for number, (layout, null_count, table) in enumerate(segment_records)
        ]
        _run(each(_check_segment, range(segments), loaded))
    index = contents.get((_INDEX, 0))
    return StoredColumn(loaded, contents[_SCHEMA, 0].tobytes(), None if index is None else index.tobytes())


def _run(results: Iterable[None]) -> None:
    """Wait for all; the first error is raised."""
    for _ in results:
        pass


def _read(file: BufferedReader, nbytes: int, name: str) -> npt.NDArray[np.uint8]:
    content = np.empty(nbytes, np.uint8)
    view = memoryview(content)
    got = 0
    while got < nbytes:
        count = file.readinto(view[got:])
        if not count:
            raise ValueError(f"{name}: the file ends inside it")
        got += count
    return content


def _read_preamble(file: BufferedReader, file_nbytes: int) -> tuple[int, int, int, int]:
    start = file.read(12)
    if start[: len(MAGIC)] != MAGIC:
        raise ValueError("not a cudf_fsst file: it does not begin with its magic bytes")
    if len(start) == 12:
        version = int.from_bytes(start[8:], "little")
        if version != FORMAT_VERSION:
            raise ValueError(f"stored in format version {version}; this cudf_fsst reads version {FORMAT_VERSION}")
    preamble = start + file.read(_PREAMBLE_NBYTES - len(start))
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
    return columns, segments, sections, records_checksum


def _check_column(head: bytes, segments: int) -> int:
    """Check the column record; its number of tables."""
    record = head[: _COLUMN.size]
    codec, _, _, _, first_segment, column_segments, first_table, tables = values = _COLUMN.unpack(record)
    if codec.rstrip(b"\0") != CODEC:
        raise ValueError(f"column 0: codec {codec.rstrip(bytes(1))!r} is not known")
    if _COLUMN.pack(*values) != record:
        raise ValueError("column 0: reserved bytes are not zero")
    if (first_segment, column_segments) != (0, segments):
        raise ValueError(f"column 0: its segments are not the file's {segments}")
    if first_table != 0:
        raise ValueError(f"column 0: its first symbol table is number {first_table}, not 0")
    return int(tables)


def _segment_records(records: bytes, tables: int) -> list[tuple[SegmentLayout, int, int]]:
    """Layout, null count and table number of each segment."""
    segments = []
    for number in range(len(records) // _SEGMENT.size):
        record = records[number * _SEGMENT.size :][: _SEGMENT.size]
        rows, chars, null_count, tile_size, table, row_bits_words = values = _SEGMENT.unpack(record)
        if _SEGMENT.pack(*values) != record:
            raise ValueError(f"segment {number}: reserved bytes are not zero")
        if tile_size not in TILE_SIZES:
            raise ValueError(f"segment {number}: tile size {tile_size} is not one of {TILE_SIZES}")
        if table >= tables:
            raise ValueError(f"segment {number}: wants symbol table {table}, the column has {tables}")
        segments.append((SegmentLayout(rows, chars, tile_size, null_count > 0, row_bits_words), null_count, table))
    return segments


def _check_sums(head: bytes, segments: list[tuple[SegmentLayout, int, int]]) -> None:
    _, rows, chars, null_count, *_ = _COLUMN.unpack(head[: _COLUMN.size])
    for what, stated, summed in (
        ("rows", rows, sum(layout.rows for layout, _, _ in segments)),
        ("uncompressed bytes", chars, sum(layout.chars for layout, _, _ in segments)),
        ("nulls", null_count, sum(nulls for _, nulls, _ in segments)),
    ):
        if stated != summed:
            raise ValueError(f"column 0: states {stated} {what}, its segments have {summed}")


def _read_directory(directory: bytes, tables: int, segments: int, file_nbytes: int) -> list[_Place]:
    """The sections; they lie in the file one after another and end where it ends."""
    records = list(_SECTION.iter_unpack(directory))
    has_index = len(records) > 1 and records[1][0] == _INDEX
    wanted = [(_SCHEMA, 0)] + [(_INDEX, 0)] * has_index
    if len(records) != len(wanted) + tables + 2 * segments:  # before a list is made as long as `tables` says
        raise ValueError(f"directory: {len(records)} sections do not fit {tables} symbol tables, {segments} segments")
    wanted += [(_TABLE, number) for number in range(tables)]
    wanted += [(kind, number) for kind in (_META, _CODES) for number in range(segments)]

    places = []
    end = _PREAMBLE_NBYTES + _COLUMN.size + segments * _SEGMENT.size + len(directory)
    for position, (wanted_one, record) in enumerate(zip(wanted, records, strict=True)):
        kind, number, offset, nbytes, checksum = record
        if (kind, number) != wanted_one:
            raise ValueError(f"directory: section {position} is of kind {kind}, number {number}, not {wanted_one}")
        name = _KINDS[kind].format(number)
        if offset != align(end, FILE_ALIGNMENT):
            raise ValueError(f"{name}: starts at byte {offset}, not {align(end, FILE_ALIGNMENT)}")
        end = offset + nbytes
        if end > file_nbytes:
            raise ValueError(f"{name}: ends at byte {end}, the file has {file_nbytes}")
        places.append(_Place(name, kind, number, offset, nbytes, checksum))
    if end != file_nbytes:
        raise ValueError(f"directory: the sections end at byte {end}, the file has {file_nbytes}")
    return places


def _check_checksum(place: _Place, content: npt.NDArray[np.uint8]) -> None:
    if xxhash.xxh3_64_intdigest(content) != place.checksum:
        raise ValueError(f"{place.name}: checksum does not match")


def _read_table(number: int, content: npt.NDArray[np.uint8]) -> SymbolTable:
    try:
        return SymbolTable.from_bytes(content.tobytes())
    except ValueError as error:
        raise ValueError(f"symbol table {number}: {error}") from None


def _check_segment(number: int, segment: Segment) -> None:
    try:
        check(segment)
    except ValueError as error:
        raise ValueError(f"segment {number}: {error}") from None
