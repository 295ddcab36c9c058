"""Strings of numbers in GPU memory: rows of a dictionary one after another, by kernels/dict_read.cu."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...device.memory import Lane, Workspace, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Tables
from ..part import align
from . import launch

#: Bytes of a value up to which `dict_write` writes characters, and bytes of an image.
_SHORT, _IMAGE_NBYTES = 64, 8 << 20


class Dictionary(NamedTuple):
    """Values in GPU memory: address of characters and offsets, bytes of an offset, how many values, the longest."""

    chars: int
    offsets: int
    itemsize: int
    values: int
    longest: int


class Written(NamedTuple):
    """Rows to write.

    Attributes
    ----------
    codes, code_nbytes, rows : int
        Address, bytes of a code, how many.
    validity, validity_offset : int
        0: no nulls.
    offsets, offsets_itemsize : int
        Address of the first row's.
    first_char : int
        What the offsets begin with.
    chars, limit : int
        Address of the first row's characters, and bytes that may be written there.
    last : bool
        Whether the end of the last row is an offset too.
    """

    codes: int
    code_nbytes: int
    rows: int
    validity: int
    validity_offset: int
    offsets: int
    offsets_itemsize: int
    first_char: int
    chars: int
    limit: int
    last: bool


class Writing:
    """Writes rows: `measure`, which is enough to know how many characters there are, then `write`."""

    def __init__(self, dictionary: Dictionary, rows: int, lane: Lane) -> None:
        self._dictionary = dictionary
        stride = align(max(dictionary.longest, 1), 4)
        self._tiles = blocks(rows, launch.READ_TILE)
        short = stride <= _SHORT and stride * dictionary.values <= _IMAGE_NBYTES
        self._stride = stride if short else 0
        work = self._work = Workspace()
        sums, image = work.reserve(8 * (self._tiles + 1)), work.reserve(self._stride * dictionary.values)
        work.take(lane)
        self._sums, self._image = work[sums], work[image] if short else 0

    @property
    def total(self) -> int:
        """Address of the number of characters, once measured."""
        return self._sums + 8 * self._tiles

    def _add(
        self, tables: Tables, name: str, threads: int, grid: int, rows: Written, *more: Any, shared: int = 0
    ) -> None:
        one = self._dictionary
        fields = (
            *(rows.codes, rows.code_nbytes, rows.rows, rows.validity, rows.validity_offset),
            *(one.chars, one.offsets, one.itemsize == 8, one.values, self._sums),
            *(rows.offsets, rows.offsets_itemsize == 8, rows.first_char, rows.chars, rows.limit),
            *(self._image, self._stride, rows.last, grid),
        )
        tables.add_jobs(_kernel(name), threads, [grid], fields, *more, shared=shared)

    def measure(self, tables: Tables, rows: Written) -> None:
        grid = min(self._tiles, 8 * device_attributes()["multiprocessors"])
        self._add(tables, "dict_sums", launch.READ_THREADS, grid, rows)
        self._add(tables, "dict_places", launch.SCAN_THREADS, 1, rows)
        if self._stride:
            words = self._stride * self._dictionary.values // 4
            self._add(tables, "dict_image", launch.READ_THREADS, blocks(words, launch.READ_THREADS), rows)

    def write(self, tables: Tables, rows: Written) -> None:
        """Offsets and characters."""
        staged = align(self._stride * 32 * launch.READ_ROWS + 16) if self._stride else 0
        shared = launch.READ_IMAGE + staged * (launch.READ_THREADS // 32)
        attributes = device_attributes()
        resident = max(min(attributes["shared_per_multiprocessor"] // (shared + 6144), 5), 1)
        grid = min(self._tiles, resident * attributes["multiprocessors"])
        self._add(tables, "dict_write", launch.READ_THREADS, grid, rows, np.uint32(staged), shared=shared)
        if not self._stride:
            pieces = blocks(rows.limit, launch.CHARS_PIECE * (launch.READ_THREADS // 32))
            self._add(tables, "dict_chars", launch.READ_THREADS, pieces, rows)


def _kernel(name: str) -> Any:
    return get_kernel("dict_read", name, launch.READ_DEFINES, shared=name == "dict_write")
