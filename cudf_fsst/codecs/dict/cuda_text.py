"""Strings of numbers in GPU memory: rows of a dictionary one after another, by kernels/dict_read.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...device.memory import Lane, Workspace, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Tables
from ..part import align
from . import launch

#: Bytes of a value up to which `dict_write` writes characters, and bytes of an image.
_SHORT, _IMAGE_NBYTES = 64, 8 << 20
#: Shared memory that a thread block of `dict_write` takes beside what is asked for.
_STATIC_NBYTES = 6144


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
    """Where all rows go.

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
    """Rows to write, of one dictionary: `measure`, `place`, then `write`. Codes may come piece by piece.

    Pieces are of whole `launch.READ_TILE` rows, but for the last.
    """

    def __init__(self, dictionary: Dictionary, rows: int, lane: Lane) -> None:
        self.dictionary, self.rows = dictionary, rows
        stride = align(dictionary.longest, 8)
        short = 0 < dictionary.longest <= _SHORT and stride * dictionary.values <= _IMAGE_NBYTES
        self.stride = stride if short else 0
        work = self._work = Workspace()
        tiles = self._tiles = blocks(rows, launch.READ_TILE)
        sums, image = work.reserve(8 * (tiles + 1)), work.reserve(self.stride * dictionary.values)
        work.take(lane)
        self._sums, self._image = work[sums], work[image] if short else 0
        lane.zero(self._sums, 8 * tiles)

    @property
    def total(self) -> int:
        """Address of the number of characters, once placed."""
        return self._sums + 8 * self._tiles

    def fields(self, codes: Codes, first: int, to: Target, grid: int) -> tuple[int, ...]:
        """A ``WriteJob`` for rows from `first` on."""
        one = self.dictionary
        return (
            *(codes.address, codes.nbytes, codes.rows, codes.validity, codes.validity_offset),
            *(one.chars, one.offsets, one.itemsize == 8, one.values, self._sums + 8 * (first // launch.READ_TILE)),
            *(to.offsets + first * to.itemsize, to.itemsize == 8, to.first_char, to.chars, to.limit),
            *(self._image, self.stride, first + codes.rows == self.rows, grid),
        )

    def place(self, tables: Tables, *others: Writing) -> None:
        """Find where rows go, once all are measured, and make what `write` reads; for others as well."""
        every = (self, *others)
        fields = [field for one in every for field in one.fields(Codes(0, 1, one.rows), 0, _NOWHERE, 1)]
        tables.add_jobs(_kernel("dict_places"), launch.SCAN_THREADS, [1] * len(every), fields)
        short = [one for one in every if one.stride]
        if short:
            grids = [blocks(one.stride * one.dictionary.values // 4, launch.READ_THREADS) for one in short]
            fields = [field for one in short for field in one.fields(Codes(0, 1, one.rows), 0, _NOWHERE, 1)]
            tables.add_jobs(_kernel("dict_image"), launch.READ_THREADS, grids, fields)

    def release(self) -> None:
        """Give the memory back."""
        self._work.release()


class Piece(NamedTuple):
    """Rows of a `Writing` from `first` on, and where its rows go."""

    writing: Writing
    codes: Codes
    first: int = 0
    to: Target = _NOWHERE


def _add(tables: Tables, name: str, pieces: Sequence[Piece], grids: Sequence[int], *more: Any, shared: int = 0) -> None:
    fields = [
        field
        for piece, grid in zip(pieces, grids, strict=True)
        for field in piece.writing.fields(piece.codes, piece.first, piece.to, grid)
    ]
    tables.add_jobs(_kernel(name), launch.READ_THREADS, grids, fields, *more, shared=shared)


def _grids(pieces: Sequence[Piece], most: int) -> list[int]:
    return [min(blocks(piece.codes.rows, launch.READ_TILE), most) for piece in pieces]


def measure(tables: Tables, pieces: Sequence[Piece]) -> None:
    """Find the characters of rows."""
    _add(tables, "dict_sums", pieces, _grids(pieces, 8 * device_attributes()["multiprocessors"]))


def write(tables: Tables, pieces: Sequence[Piece]) -> None:
    """Write offsets and characters of rows; of the last one its end too."""
    stride, attributes = max(piece.writing.stride for piece in pieces), device_attributes()
    staged = align(stride * 32 * launch.READ_ROWS + 16) if stride else 0
    shared = launch.READ_IMAGE + staged * (launch.READ_THREADS // 32)
    resident = max(min(attributes["shared_per_multiprocessor"] // (shared + _STATIC_NBYTES), 5), 1)
    grids = _grids(pieces, resident * attributes["multiprocessors"])
    _add(tables, "dict_write", pieces, grids, np.uint32(staged), shared=shared)
    long = [piece for piece in pieces if not piece.writing.stride and piece.to.limit]
    if long:
        of_block, most = launch.CHARS_PIECE * (launch.READ_THREADS // 32), 8 * attributes["multiprocessors"]
        _add(tables, "dict_chars", long, [min(blocks(piece.to.limit, of_block), most) for piece in long])


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


def gather(every: Sequence[Gathering], lane: Lane) -> None:
    """Write strings."""
    tables, fields, pieces = Tables(), list[int](), list[Piece]()
    for one in every:
        source = one.source
        if one.strings <= _GATHERED and one.nbytes <= _GATHERED_NBYTES:
            fields += (
                source.chars,
                source.offsets,
                source.itemsize == 8,
                one.rows,
                one.strings,
                one.offsets,
                one.chars,
            )
        else:
            to = Target(one.offsets, 4, 0, one.chars, one.nbytes)
            pieces.append(Piece(Writing(source, one.strings, lane), Codes(one.rows, 4, one.strings), 0, to))
    if fields:
        count = len(every) - len(pieces)
        tables.add_jobs(_kernel("dict_gather"), launch.SCAN_THREADS, [1] * count, fields)
    if pieces:
        measure(tables, pieces)
        writing, *others = [piece.writing for piece in pieces]
        writing.place(tables, *others)
        write(tables, pieces)
    tables.launch(lane)


def _kernel(name: str) -> Any:
    return get_kernel("dict_read", name, launch.READ_DEFINES, shared=name == "dict_write")
