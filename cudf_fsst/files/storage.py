"""Columns and frames as files: write, read, verify (docs/format.md, sections 8, 9 and 16)."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from ..codecs.registry import is_text, of_text, of_values, texts
from ..codecs.registry import streams as codecs_of
from ..codecs.table import Table
from ..codecs.text.segment import Segment
from ..codecs.text.validate import check
from ..codecs.values import cpu as values
from ..naming import naming
from ..workers import map_items, num_threads
from . import outer, records
from .disk import Source, source_of, write_at, writing
from .records import CODES, INDEX, META, SCHEMA, TABLE, StoredSection
from .sections import Arrived, Sections, cut_runs, share_out
from .sections import Stream as Stream
from .versions import FORMAT_VERSION, FRAME_VERSION

#: A file's path, a URL, a file object, or a BytesIO with its bytes.
Target = Any
#: For URLs, as fsspec takes them.
Options = Mapping[str, Any] | None
#: The codec of text whose streams version 1 has, and the labels of a frame.
FIRST_TEXT = texts()[0].NAME
#: What is read of a file at first; of one that takes long to ask.
_HEAD_NBYTES, _FAR_HEAD_NBYTES = 4 << 10, 64 << 10
#: Bytes of what takes long to ask that a thread reads at once, and threads: while some wait, others check.
_FAR_NBYTES, _FAR_THREADS = 32 << 20, 4
#: Threads that write: a file has one writer at a time, and the others sum up what they write next.
_WRITERS = 4


def save(
    path: Target,
    *,
    streams: Sequence[Stream],
    schema: bytes,
    index: bytes | None = None,
    version: int = FRAME_VERSION,
    storage_options: Options = None,
    arrived: Arrived = None,
    compression: str | None = None,
) -> None:
    """Write the streams of a file, at once or not at all (see `cudf_fsst.files.disk.writing`).

    Parameters
    ----------
    path
        Where to; a symbolic link is followed. A BytesIO gets the bytes of the file from where it stands on.
    streams
        In host memory: of version 1 one, of others those that `cudf_fsst.files.trees` puts together.
    schema
        Names, exact dtypes and pandas metadata, as `cudf_fsst.interop` made them.
    index
        Of version 1, a column's index, unless the schema describes it.
    version
        1: a column; 2: a frame; others: either.
    storage_options
        For URLs.
    arrived : callable or None
        Waits until a buffer of a part, which is contiguous, holds what is to be written. None: all of them do.
    compression
        An outer codec of the sections, with which the version is `NEWEST_VERSION`.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    sections = Sections(version, streams, schema, index, arrived, compression)
    if isinstance(path, io.BytesIO):
        for piece in sections.pieces():  # `writelines` would pass over the `write` of a subclass
            path.write(piece)
        return
    with writing(path, storage_options) as file:
        os.ftruncate(file.fileno(), sections.nbytes)  # the last sections may be empty

        def write(run: Sequence[int]) -> None:
            for number in run:
                sections.sum_up(number)
            write_at(file.fileno(), *sections.together(run))

        map_items(write, sections.runs, min(_WRITERS, num_threads()))
        write_at(file.fileno(), 0, [sections.head()])


def needed_version(streams: Sequence[Stream]) -> int:
    """The first version after that of a column alone that can hold streams: their codecs say it."""
    needed = {FRAME_VERSION}
    for codec, own in streams:
        if is_text(codec):
            needed.add(of_text(codec).since())
        else:
            needed |= {of_values(codec).since(part.parameters) for part in own}
    return max(needed)


class Destination(Protocol):
    """Where what is read goes to, if that is not pageable host memory."""

    def buffers(self, sizes: Sequence[int]) -> Sequence[Any]:
        """Arrays of bytes of these sizes, to read into."""

    def checks_codes(self, codec: str) -> bool:
        """Whether codes of a codec of text are checked there, so that they need not be here."""

    def begin(self, parts: Sequence[Any]) -> None:
        """Called with parts when they were read, but not checked."""

    def count_chars(self, part: Any) -> int:
        """Characters of all rows of a part with a dictionary, in host memory; ValueError where a code has no value."""


class Opened:
    """A file whose head was checked: preamble, records, directory and schema. What else it holds is read when asked.

    Attributes
    ----------
    version : int
    schema : bytes
    index : bytes or None
        As `save` was given them.
    codecs : list of str
        Of each stream.
    destination : Destination or None
    unchecked : list of (str, Segment)
        Segments that were read whose codes are to be checked at the destination, and what errors call them.
    """

    def __init__(self, source: Source, destination: Destination | None = None) -> None:
        self._source, file_nbytes = source, source.size
        self._prefix = "" if source.name is None else f"{source.name}: "
        self.destination, self.unchecked = destination, list[tuple[str, Segment]]()
        start = self._first(min(file_nbytes, _FAR_HEAD_NBYTES if source.is_far else _HEAD_NBYTES))
        version, columns, segments, count, records_checksum = records.read_preamble(start, file_nbytes)
        if version == FORMAT_VERSION and columns != 1:
            raise ValueError(f"preamble: {columns} columns; version {FORMAT_VERSION} has one")
        head_nbytes = records.nbytes(columns, segments, count)
        if records.PREAMBLE_NBYTES + head_nbytes > file_nbytes:
            raise ValueError(
                f"preamble: {columns} columns, {segments} segments and {count} sections need more than the file's "
                f"{file_nbytes} bytes"
            )
        if records.PREAMBLE_NBYTES + head_nbytes > len(start):
            start = self._first(records.PREAMBLE_NBYTES + head_nbytes)
        head = start[records.PREAMBLE_NBYTES : records.PREAMBLE_NBYTES + head_nbytes]
        if xxhash.xxh3_64_intdigest(head) != records_checksum:
            raise ValueError("records: checksum does not match")

        self._records = records.column_records(head[: columns * records.COLUMN.size], segments, codecs_of(version))
        tables_count = sum(record.tables for record in self._records)
        offset = columns * records.COLUMN.size
        self._described: list[list[records.DescribedPart]] = []
        for number, record in enumerate(self._records):
            nbytes = record.segments * records.SEGMENT.size
            self._described.append(records.part_records(version, head[offset : offset + nbytes], record))
            records.check_sums(number, record, [described.part for described in self._described[-1]])
            offset += nbytes
        described = [part for parts_of in self._described for part in parts_of]
        sections = records.read_directory(head[offset:], columns, tables_count, segments, file_nbytes, version)
        for section in sections:
            part = described[section.number].part if section.kind == META and not section.outer else None
            if isinstance(part, Segment) and section.nbytes != part.meta_nbytes:  # other codecs check theirs
                raise ValueError(f"{section.name}: has {section.nbytes} bytes, its segment needs {part.meta_nbytes}")
        self._sections = sections
        self._firsts = [0, *accumulate(record.segments for record in self._records)]
        ends = [records.PREAMBLE_NBYTES + head_nbytes, *(section.offset + section.nbytes for section in sections)]
        self._gaps = dict(zip((section.key for section in sections), ends, strict=False))
        self.version, self.codecs = version, [record.codec for record in self._records]
        # The directory has them first; they say what there is to choose from.
        contents = self._contents([section for section in sections if section.kind in (SCHEMA, INDEX)])
        schema, index = contents[SCHEMA, 0], contents.get((INDEX, 0))
        self.schema, self.index = schema.tobytes(), None if index is None else index.tobytes()

    def _buffers(self, sizes: Sequence[int]) -> Sequence[Any]:
        if self.destination is not None:
            return self.destination.buffers(sizes)
        return [np.empty(nbytes, np.uint8) for nbytes in sizes]

    def read(self, numbers: Collection[int], later: Collection[int] = ()) -> dict[int, Stream]:
        """Some streams by number, read and checked as `load` does it; nothing of the others is read.

        Codes of streams `later` are not checked where the destination does it, but are `unchecked` then.
        """
        segments = {part for number in numbers for part in range(self._firsts[number], self._firsts[number + 1])}
        tables = self._tables(numbers)
        contents = self._contents(self._sections_of({TABLE: tables, META: segments, CODES: segments}))
        table_of = {number: _read_table(tables[number], number, contents[TABLE, number]) for number in sorted(tables)}
        loaded: dict[int, Any] = {}
        for number in sorted(numbers):
            for part, described in enumerate(self._described[number], self._firsts[number]):
                meta, codes = contents[META, part], contents[CODES, part]
                loaded[part] = described.make(table_of, meta.nbytes, codes.nbytes, meta, codes)
        there = self.destination
        if there is not None:
            there.begin(list(loaded.values()))
        left = [number for number in numbers if number in later and there is not None and is_text(self.codecs[number])]
        left = [number for number in left if there is not None and there.checks_codes(self.codecs[number])]
        unchecked = {i for number in left for i in range(self._firsts[number], self._firsts[number + 1])}
        self.unchecked += [(f"{self._prefix}segment {part}: codes", loaded[part]) for part in sorted(unchecked)]
        checked = [(i, part, i not in unchecked) for i, part in loaded.items()]
        share_out(lambda job: _check_part(*job), checked, [part.nbytes for part in loaded.values()])
        return {
            number: (self.codecs[number], [loaded[i] for i in range(self._firsts[number], self._firsts[number + 1])])
            for number in sorted(numbers)
        }

    def outline(self, numbers: Collection[int]) -> dict[int, Stream]:
        """Some streams by number, whose parts have sizes but no buffers: of what is stored, tables alone are read."""
        tables = self._tables(numbers)
        contents = self._contents(self._sections_of({TABLE: tables}))
        table_of = {number: _read_table(tables[number], number, contents[TABLE, number]) for number in sorted(tables)}
        parts = {part for number in numbers for part in range(self._firsts[number], self._firsts[number + 1])}
        sections = self._sections_of({META: parts, CODES: parts})
        sizes = {section.key: section.nbytes for section in sections}
        wrapped = [section for section in sections if section.outer]
        heads = [np.empty(min(outer.HEAD_NBYTES, section.nbytes), np.uint8) for section in wrapped]
        self._source.fill([(section.offset, head) for section, head in zip(wrapped, heads, strict=True)])
        for section, head in zip(wrapped, heads, strict=True):
            with naming(section.name):
                sizes[section.key] = outer.nbytes_of(head, section.nbytes)
        return {
            number: (
                self.codecs[number],
                [
                    described.make(table_of, sizes[META, part], sizes[CODES, part])
                    for part, described in enumerate(self._described[number], self._firsts[number])
                ],
            )
            for number in sorted(numbers)
        }

    def _tables(self, numbers: Collection[int]) -> dict[int, str]:
        """The symbol tables of some streams, by number, and their codecs."""
        codecs: dict[int, str] = {}
        for number in numbers:
            record = self._records[number]
            codecs |= dict.fromkeys(range(record.first_table, record.first_table + record.tables), self.codecs[number])
        return codecs

    def _sections_of(self, numbers: Mapping[int, Collection[int]]) -> list[StoredSection]:
        """Sections by their kinds and numbers, in stored order."""
        return [section for section in self._sections if section.number in numbers.get(section.kind, ())]

    def _first(self, nbytes: int) -> bytes:
        """The first bytes of the file."""
        content = np.empty(nbytes, np.uint8)
        self._source.fill([(0, content)])
        return content.tobytes()

    def _contents(self, sections: Sequence[StoredSection]) -> dict[tuple[int, int], npt.NDArray[np.uint8]]:
        """Sections, and that there are zeros before each of them, checked."""
        gaps = [self._gaps[section.key] for section in sections]
        padding = [np.empty(section.offset - gap, np.uint8) for section, gap in zip(sections, gaps, strict=True)]
        contents = list(self._buffers([0 if section.outer else section.nbytes for section in sections]))
        for i, section in enumerate(sections):
            if section.outer:
                contents[i] = np.empty(section.nbytes, np.uint8)

        def check_section(i: int) -> None:
            section = sections[i]
            if padding[i].any():
                raise ValueError(f"padding before {section.name}: not zero")
            if xxhash.xxh3_64_intdigest(contents[i]) != section.checksum:
                raise ValueError(f"{section.name}: checksum does not match")
            if section.outer:
                with naming(section.name):
                    (content,) = self._buffers([outer.nbytes_of(contents[i], section.nbytes)])
                    outer.unwrap(contents[i], section.outer, content)
                contents[i] = content

        def read(run: Sequence[int]) -> None:
            with naming(sections[run[0]].name):
                pairs = [((gaps[i], padding[i]), (sections[i].offset, contents[i])) for i in run]
                self._source.fill([target for pair in pairs for target in pair])
            for i in run:
                check_section(i)

        # The system, the connections and the checksums let go of the interpreter, so threads share them.
        least, threads = (_FAR_NBYTES, _FAR_THREADS) if self._source.is_far else (None, None)
        runs = cut_runs(range(len(sections)), [section.nbytes for section in sections], least)
        if not self._source.is_far:  # so that all threads end at about the same time
            runs.sort(key=lambda run: -sum(sections[i].nbytes for i in run))
        map_items(read, runs, threads)
        return {section.key: content for section, content in zip(sections, contents, strict=True)}


@contextlib.contextmanager
def opened(path: Target, storage_options: Options = None, destination: Destination | None = None) -> Iterator[Opened]:
    """Open a file to read all or some of it; ValueErrors within the block name it.

    Parameters
    ----------
    path
        Of a file that `save` wrote; or a URL, a file object, a BytesIO with its bytes.
    storage_options
        For URLs, as fsspec takes them.
    destination : Destination, optional

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
            yield Opened(source, destination)
        except ValueError as error:
            if source.name is None:
                raise
            raise ValueError(f"{source.name}: {error}") from error


def version_of(path: str | os.PathLike[str]) -> int:
    """The format version of a file that `load` reads."""
    with open(path, "rb") as file:
        return int.from_bytes(file.read(len(records.MAGIC) + 4)[len(records.MAGIC) :], "little")


def _read_table(codec: str, number: int, content: npt.NDArray[np.uint8]) -> Table:
    try:
        return of_text(codec).TABLE.from_bytes(content.tobytes())
    except ValueError as error:
        raise ValueError(f"symbol table {number}: {error}") from None


def _check_part(number: int, part: Any, codes: bool) -> None:
    try:
        if part.table is None:
            values.check([part])
        else:
            check(part, codes=codes)
    except ValueError as error:
        raise ValueError(f"segment {number}: {error}") from None
