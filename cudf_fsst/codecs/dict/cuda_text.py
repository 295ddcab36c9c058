"""Strings of numbers in GPU memory: rows of a dictionary one after another, by kernels/dict_read.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...device.memory import Lane, Workspace, device_attributes
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from . import launch
from .cuda import read_kernel


class Dictionary(NamedTuple):
    """Values in GPU memory: address of characters and offsets, bytes of an offset, how many values, the longest.

    Or in host memory: then there are no addresses, but their `image`.
    """

    chars: int
    offsets: int
    itemsize: int
    values: int
    longest: int
    image: Any = None


class Codes(NamedTuple):
    """Codes of consecutive rows.

    Attributes
    ----------
    address, nbytes, rows : int
        Bytes of a code; how many.
    validity, validity_offset : int
        Bitmap of the rows that are not null, 0: none are; the bit of the first.
    """

    address: int
    nbytes: int
    rows: int
    validity: int = 0
    validity_offset: int = 0


class Target(NamedTuple):
    """Memory into which offsets and characters of rows are written.

    Attributes
    ----------
    offsets, itemsize : int
        Address of the first row's, bytes of an offset.
    first_char : int
        What offsets begin with.
    chars, limit : int
        Address of the first row's characters, and bytes that may be written there.
    """

    offsets: int
    itemsize: int
    first_char: int
    chars: int
    limit: int


_NOWHERE = Target(0, 4, 0, 0, 0)


class Writing:
    """Rows whose values of one dictionary are written: `measure`, `place`, then `write`. Codes may come piece by piece.

    Pieces are of whole `launch.READ_TILE` rows, but for the last.
    """

    def __init__(self, dictionary: Dictionary, rows: int, lane: Lane) -> None:
        self.dictionary, self.rows = dictionary, rows
        work = self._work = Workspace()
        tiles = self._tiles = blocks(rows, launch.READ_TILE)
        sums = work.reserve(8 * (tiles + 1))
        work.take(lane)
        self._sums = work[sums]
        lane.zero(self._sums, 8 * tiles)

    @property
    def total(self) -> int:
        """Address of the number of characters, once placed."""
        return self._sums + 8 * self._tiles

    def fields(self, codes: Codes, first: int, to: Target, grid: int) -> tuple[int, ...]:
        """The job that writes rows from `first` on."""
        dictionary = self.dictionary
        return launch.WriteJob(
            *(codes.address, codes.nbytes, codes.rows, codes.validity, codes.validity_offset),
            *(
                dictionary.chars,
                dictionary.offsets,
                dictionary.itemsize == 8,
                dictionary.values,
                self._sums + 8 * (first // launch.READ_TILE),
            ),
            *(to.offsets + first * to.itemsize, to.itemsize == 8, to.first_char, to.chars, to.limit),
            *(first + codes.rows == self.rows, grid),
        )

    def place(self, tables: JobTables, *others: Writing) -> None:
        """Add the launch that sums up where the rows of this and others go, once all are measured."""
        writings = (self, *others)
        fields = [field for writing in writings for field in writing.fields(Codes(0, 1, writing.rows), 0, _NOWHERE, 1)]
        tables.add_jobs(read_kernel("dict_places"), launch.SCAN_THREADS, [1] * len(writings), fields)


class WritingPiece(NamedTuple):
    """Rows of a `Writing` from `first` on, and where its rows go."""

    writing: Writing
    codes: Codes
    first: int = 0
    to: Target = _NOWHERE


def _add(tables: JobTables, name: str, pieces: Sequence[WritingPiece], grids: Sequence[int]) -> None:
    fields = [
        field
        for piece, grid in zip(pieces, grids, strict=True)
        for field in piece.writing.fields(piece.codes, piece.first, piece.to, grid)
    ]
    tables.add_jobs(read_kernel(name), launch.READ_THREADS, grids, fields)


def _grids(pieces: Sequence[WritingPiece], limit: int) -> list[int]:
    return [min(blocks(piece.codes.rows, launch.READ_TILE), limit) for piece in pieces]


def measure(tables: JobTables, pieces: Sequence[WritingPiece]) -> None:
    """Add launches that sum up how many characters the rows have."""
    _add(tables, "dict_sums", pieces, _grids(pieces, 8 * device_attributes()["multiprocessors"]))


def write(tables: JobTables, pieces: Sequence[WritingPiece]) -> None:
    """Write offsets and characters of rows; of the last one its end too."""
    multiprocessors = device_attributes()["multiprocessors"]
    _add(tables, "dict_write", pieces, _grids(pieces, launch.WRITE_BLOCKS * multiprocessors))
    with_chars = [piece for piece in pieces if piece.to.limit]
    if with_chars:
        of_block, limit = launch.CHARS_STRETCH * (launch.READ_THREADS // 32), 8 * multiprocessors
        _add(tables, "dict_chars", with_chars, [min(blocks(piece.to.limit, of_block), limit) for piece in with_chars])


#: Values, and characters, that one thread block gathers.
_GATHERED, _GATHERED_NBYTES = 4096, 64 << 10


class Gathering(NamedTuple):
    """Rows of strings in GPU memory that are wanted one after another.

    Attributes
    ----------
    source : Dictionary
        The strings.
    rows, strings : int
        Address of u32 row numbers, how many.
    offsets, chars, nbytes : int
        Addresses where u32 offsets and characters go, and bytes of these.
    """

    source: Dictionary
    rows: int
    strings: int
    offsets: int
    chars: int
    nbytes: int


def gather(gatherings: Sequence[Gathering], lane: Lane) -> None:
    """Write strings."""
    tables, fields, pieces = JobTables(), list[int](), list[WritingPiece]()
    for gathering in gatherings:
        source = gathering.source
        if gathering.strings <= _GATHERED and gathering.nbytes <= _GATHERED_NBYTES:
            fields += launch.GatherStringsJob(
                source.chars,
                source.offsets,
                source.itemsize == 8,
                gathering.rows,
                gathering.strings,
                gathering.offsets,
                gathering.chars,
            )
        else:
            to = Target(gathering.offsets, 4, 0, gathering.chars, gathering.nbytes)
            pieces.append(
                WritingPiece(
                    Writing(source, gathering.strings, lane), Codes(gathering.rows, 4, gathering.strings), 0, to
                )
            )
    if fields:
        count = len(gatherings) - len(pieces)
        tables.add_jobs(read_kernel("dict_gather"), launch.SCAN_THREADS, [1] * count, fields)
    if pieces:
        measure(tables, pieces)
        writing, *others = [piece.writing for piece in pieces]
        writing.place(tables, *others)
        write(tables, pieces)
    tables.launch(lane)
