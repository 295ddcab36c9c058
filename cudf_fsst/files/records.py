"""The head of a file: preamble, records and directory, as they are written, and checked when they are read.

docs/format.md, section 8, has the layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import xxhash

from ..codecs.part import PARAMETERS, Packed, align
from ..codecs.registry import is_text, of_values
from ..codecs.table import Table
from ..codecs.text.layout import TILE_SIZES, SegmentLayout
from ..codecs.text.segment import Segment
from . import outer
from .versions import NEWEST_VERSION, VERSIONS

#: The first byte is not ASCII, and the line ends and Control-Z show what a text-mode transfer did.
MAGIC = b"\x89FST\r\n\x1a\n"
#: Start of every section of a file (bytes).
FILE_ALIGNMENT = 64

# magic, version, -, bytes of the file, columns, segments, sections, -, checksum of the records, -
PREAMBLE = struct.Struct("<8sI4xQIII4xQ8x")
# codec, rows, uncompressed bytes, null_count, first segment, segments, first table, tables, -
COLUMN = struct.Struct("<8sQQQIIII16x")
# rows, chars, null_count, tile_size, table, words in row_bits, -
SEGMENT = struct.Struct("<QQQIII28x")
# The same of a codec for fixed-width values: rows, bytes, 0, itemsize, the codec's own numbers, -
PACKED = struct.Struct(f"<QQQI{PARAMETERS}I20x")
# kind, number, offset, bytes, checksum
SECTION = struct.Struct("<IIQQQ")
CHECKSUM = struct.Struct("<Q")
PREAMBLE_NBYTES = PREAMBLE.size + CHECKSUM.size

SCHEMA, INDEX, TABLE, META, CODES = range(1, 6)
#: Kinds that may have an outer codec, whose number is in the upper half of the kind's number.
WRAPPED = {TABLE, META, CODES}
OUTER_SHIFT, _KIND_MASK = 16, 0xFFFF
_KINDS = {
    SCHEMA: "schema",
    INDEX: "index",
    TABLE: "symbol table {}",
    META: "meta of segment {}",
    CODES: "codes of segment {}",
}


@dataclass(frozen=True)
class StoredSection:
    """A section of the file, as its directory has it."""

    name: str
    kind: int
    number: int
    offset: int
    nbytes: int
    checksum: int
    outer: int

    @property
    def key(self) -> tuple[int, int]:
        """Kind and number."""
        return self.kind, self.number


def nbytes(columns: int, segments: int, sections: int) -> int:
    """Bytes of the records between preamble and sections."""
    return columns * COLUMN.size + segments * SEGMENT.size + sections * SECTION.size


def read_preamble(start: bytes, file_nbytes: int) -> tuple[int, int, int, int, int]:
    """Version, columns, segments and sections of a file, and the checksum of its records; ValueError if it is none."""
    if start[: len(MAGIC)] != MAGIC:
        raise ValueError("not a cudf_fsst file: it does not begin with its magic bytes")
    if len(start) >= 12:
        version = int.from_bytes(start[8:12], "little")
        if version not in VERSIONS:
            known = f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}"
            raise ValueError(f"stored in format version {version}; this cudf_fsst reads versions {known}")
    preamble = start[:PREAMBLE_NBYTES]
    if len(preamble) < PREAMBLE_NBYTES:
        raise ValueError("preamble: the file ends inside it")
    fields = preamble[: PREAMBLE.size]
    (checksum,) = CHECKSUM.unpack(preamble[PREAMBLE.size :])
    if xxhash.xxh3_64_intdigest(fields) != checksum:
        raise ValueError("preamble: checksum does not match")
    _, version, wanted_nbytes, columns, segments, sections, records_checksum = values = PREAMBLE.unpack(fields)
    if PREAMBLE.pack(*values) != fields:
        raise ValueError("preamble: reserved bytes are not zero")
    if wanted_nbytes != file_nbytes:
        raise ValueError(f"preamble: the file should have {wanted_nbytes} bytes, it has {file_nbytes}")
    return version, columns, segments, sections, records_checksum


@dataclass(frozen=True)
class ColumnRecord:
    """A column record."""

    codec: str
    rows: int
    nbytes: int
    null_count: int
    segments: int
    first_table: int
    tables: int


def column_records(text: bytes, segments: int, codecs: Sequence[str]) -> list[ColumnRecord]:
    """The column records, whose segments and tables follow each other."""
    records: list[ColumnRecord] = []
    next_segment = next_table = 0
    for number in range(len(text) // COLUMN.size):
        record = text[number * COLUMN.size : (number + 1) * COLUMN.size]
        codec, rows, nbytes, nulls, first_segment, count, first_table, tables = stored = COLUMN.unpack(record)
        name = codec.rstrip(b"\0").decode("ascii", "replace")
        if name not in codecs:
            raise ValueError(f"column {number}: codec {codec.rstrip(bytes(1))!r} is not known")
        if COLUMN.pack(*stored) != record:
            raise ValueError(f"column {number}: reserved bytes are not zero")
        if first_segment != next_segment or next_segment + count > segments:
            raise ValueError(f"column {number}: its {count} segments from {first_segment} are not the next ones")
        if first_table != next_table or (tables and not is_text(name)):
            raise ValueError(f"column {number}: its {tables} symbol tables from {first_table} are not the next ones")
        next_segment, next_table = first_segment + count, first_table + tables
        records.append(ColumnRecord(name, rows, nbytes, nulls, count, first_table, tables))
    if next_segment != segments:
        raise ValueError(f"the columns have {next_segment} segments, the file has {segments}")
    return records


class DescribedPart(NamedTuple):
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


def part_records(version: int, records: bytes, column: ColumnRecord) -> list[DescribedPart]:
    """What the segment records of a column say."""
    parts: list[DescribedPart] = []
    later: Any = None  # the table
    for number in range(column.segments):
        record = records[number * SEGMENT.size : (number + 1) * SEGMENT.size]
        form = SEGMENT if is_text(column.codec) else PACKED
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
            parts.append(DescribedPart(Packed(column.codec, rows, itemsize, tuple(numbers[:count]), None, None, 0, 0)))
            continue
        rows, chars, null_count, tile_size, table, row_bits_words = fields
        if tile_size not in TILE_SIZES:
            raise ValueError(f"segment {number}: tile size {tile_size} is not one of {TILE_SIZES}")
        if not column.first_table <= table < column.first_table + column.tables:
            raise ValueError(f"segment {number}: wants symbol table {table}, the column has {column.tables}")
        layout = SegmentLayout(rows, chars, tile_size, null_count > 0, row_bits_words)
        parts.append(DescribedPart(Segment(layout, null_count, later, None, None, 0), table))
    return parts


def check_sums(number: int, column: ColumnRecord, parts: Sequence[Any]) -> None:
    """Raise ValueError unless a column's numbers are the sums of those of its segments."""
    for what, stated, summed in (
        ("rows", column.rows, sum(part.rows for part in parts)),
        ("uncompressed bytes", column.nbytes, sum(part.values_nbytes for part in parts)),
        ("nulls", column.null_count, sum(part.null_count for part in parts)),
    ):
        if stated != summed:
            raise ValueError(f"column {number}: states {stated} {what}, its segments have {summed}")


def read_directory(
    directory: bytes, columns: int, tables: int, segments: int, file_nbytes: int, version: int
) -> list[StoredSection]:
    """The sections; they lie in the file one after another and end where it ends."""
    records = list(SECTION.iter_unpack(directory))
    has_index = len(records) > 1 and records[1][0] == INDEX
    wanted = [(SCHEMA, 0)] + [(INDEX, 0)] * has_index
    if len(records) != len(wanted) + tables + 2 * segments:  # before a list is made as long as `tables` says
        raise ValueError(f"directory: {len(records)} sections do not fit {tables} symbol tables, {segments} segments")
    wanted += [(TABLE, number) for number in range(tables)]
    wanted += [(kind, number) for kind in (META, CODES) for number in range(segments)]

    sections = []
    end = PREAMBLE_NBYTES + columns * COLUMN.size + segments * SEGMENT.size + len(directory)
    for position, (wanted_one, record) in enumerate(zip(wanted, records, strict=True)):
        kind, number, offset, nbytes, checksum = record
        outside = 0
        if version >= NEWEST_VERSION and kind & _KIND_MASK in WRAPPED:
            kind, outside = kind & _KIND_MASK, kind >> OUTER_SHIFT
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
        sections.append(StoredSection(name, kind, number, offset, nbytes, checksum, outside))
    if end != file_nbytes:
        raise ValueError(f"directory: the sections end at byte {end}, the file has {file_nbytes}")
    return sections
