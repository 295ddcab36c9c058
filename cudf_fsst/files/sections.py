"""What a file has: sections one after another, and before them what describes them (docs/format.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from ..codecs.part import PARAMETERS, align
from ..codecs.table import Table
from ..workers import map_items
from . import outer, records
from .records import CODES, INDEX, META, SCHEMA, TABLE

#: Waits until a buffer of a part holds what is to be written. None: all of them do.
Arrived = Callable[[Any], None] | None

#: Fewer bytes than this are checked before a thread would have started.
WORTH_THREADS = 2**20
#: Codec and consecutive parts: what a column record describes.
Stream = tuple[str, Sequence[Any]]


class Sections:
    """The sections of a file that is written, and where they lie in it.

    Attributes
    ----------
    nbytes : int
        Of the file.
    runs : list of list of int
        Numbers of sections, those of a run to be written together.
    """

    def __init__(
        self,
        version: int,
        streams: Sequence[Stream],
        schema: bytes,
        index: bytes | None,
        arrived: Arrived,
        compression: str | None = None,
    ) -> None:
        tables: dict[tuple[int, Table], int] = {}
        columns: list[bytes] = []
        described: list[bytes] = []
        parts: list[Any] = []
        for number, (codec, own) in enumerate(streams):
            first_table, first_part = len(tables), len(parts)
            for part in own:
                parts.append(part)
                if part.table is None:
                    numbers = (*part.parameters, *[0] * (PARAMETERS - len(part.parameters)))
                    described.append(records.PACKED.pack(part.rows, part.values_nbytes, 0, part.itemsize, *numbers))
                    continue
                layout = part.layout
                table = tables.setdefault((number, part.table), len(tables))
                numbers = layout.rows, layout.chars, part.null_count, layout.tile_size, table, layout.row_bits_words
                described.append(records.SEGMENT.pack(*numbers))
            column = records.COLUMN.pack(
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
        self._version, self._counts = version, (len(streams), len(parts))
        self._described = b"".join((*columns, *described))

        contents: list[tuple[int, int, Any]] = [(SCHEMA, 0, schema)]
        if index is not None:
            contents.append((INDEX, 0, index))
        contents += [(TABLE, number, table.to_bytes()) for (_, table), number in tables.items()]
        contents += [(META, number, np.ascontiguousarray(part.meta)) for number, part in enumerate(parts)]
        contents += [(CODES, number, np.ascontiguousarray(part.codes)) for number, part in enumerate(parts)]
        self._contents, self._arrived = contents, arrived
        # Of sections whose bytes may be on their way what is waited for, once: no copy of it, and nothing else.
        awaited = [*(part.meta for part in parts), *(part.codes for part in parts)] if arrived is not None else []
        self._awaited: dict[int, Any] = dict(enumerate(awaited, len(contents) - len(awaited)))
        if compression is not None:
            sizes = [memoryview(content).nbytes for _, _, content in contents]
            share_out(lambda number: self._wrap(number, compression), range(len(contents)), sizes)
        self._checksums: list[int | None] = [None] * len(contents)
        self._offsets: list[int] = []
        self._sizes = [memoryview(content).nbytes for _, _, content in contents]
        self.nbytes = records.PREAMBLE_NBYTES + records.nbytes(len(streams), len(parts), len(contents))
        for nbytes in self._sizes:
            self._offsets.append(align(self.nbytes, records.FILE_ALIGNMENT))
            self.nbytes = self._offsets[-1] + nbytes
        self.runs = cut_runs(range(len(contents)), self._sizes)

    def _wrap(self, number: int, compression: str) -> None:
        """Put an outer codec over a section that may have one, if that makes it smaller."""
        kind, of, content = self._there(number)
        stored = outer.wrap(content, compression) if kind in records.WRAPPED else None
        if stored is not None:
            self._contents[number] = kind | outer.NUMBERS[compression] << records.OUTER_SHIFT, of, stored

    def sum_up(self, number: int) -> None:
        """Compute the checksum of a section, which `head` wants of each."""
        self._checksums[number] = xxhash.xxh3_64_intdigest(self._there(number)[2])

    def _there(self, number: int) -> tuple[int, int, Any]:
        """Kind, number and bytes of a section, all of which are there."""
        if self._arrived is not None and number in self._awaited:
            self._arrived(self._awaited[number])
            del self._awaited[number]
        return self._contents[number]

    def together(self, run: Sequence[int]) -> tuple[int, list[Any]]:
        """Where consecutive sections lie in the file, and their bytes, with what is between them."""
        start = end = self._offsets[run[0]]
        contents = []
        for number in run:
            contents += [bytes(self._offsets[number] - end), self._contents[number][2]]
            end = self._offsets[number] + self._sizes[number]
        return start, contents

    def head(self) -> bytes:
        """The bytes before the sections."""
        directory = [
            records.SECTION.pack(kind, number, offset, nbytes, checksum)
            for (kind, number, _), offset, nbytes, checksum in zip(
                self._contents, self._offsets, self._sizes, self._checksums, strict=True
            )
        ]
        head = b"".join((self._described, *directory))
        numbers = self.nbytes, *self._counts, len(directory), xxhash.xxh3_64_intdigest(head)
        preamble = records.PREAMBLE.pack(records.MAGIC, self._version, *numbers)
        return preamble + records.CHECKSUM.pack(xxhash.xxh3_64_intdigest(preamble)) + head

    def pieces(self) -> Iterator[Any]:
        """The bytes of the file, piece by piece."""
        every = range(len(self._contents))
        share_out(self.sum_up, every, self._sizes)
        head = self.head()
        start, contents = self.together(every)
        yield from (head, bytes(start - len(head)), *contents)


def cut_runs(items: Sequence[Any], sizes: Sequence[int], least: int | None = None) -> list[list[Any]]:
    """Items cut into lists, each but the last of at least `least` bytes (`WORTH_THREADS`); none is empty."""
    least = WORTH_THREADS if least is None else least
    runs: list[list[Any]] = []
    nbytes = least
    for item, size in zip(items, sizes, strict=True):
        if nbytes >= least:
            runs.append([])
            nbytes = 0
        runs[-1].append(item)
        nbytes += size
    return runs


def share_out(function: Callable[[Any], None], items: Sequence[Any], sizes: Sequence[int]) -> None:
    """Call the function for every item, in threads that take so many of them at a time that it is worth it."""

    def work(run: list[Any]) -> None:
        for item in run:
            function(item)

    map_items(work, cut_runs(items, sizes))
