"""Packed codes of dictionaries in GPU memory become strings or answers in one pass: kernels/dict_packed.cu."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...device.memory import Lane, Workspace, device_attributes, pinned
from ..bitpack import NAME as BITPACK
from ..bitpack import cuda as bitpack
from ..bitpack.launch import BLOCK
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Tables
from ..node import Parts
from ..part import Packed, align
from . import launch
from .cuda_text import Dictionary, Target

_u32 = np.uint32
_WORD = 8
#: Bytes of a value, and of an image, that `dict_spell` writes.
SHORT, _IMAGE_NBYTES = 64, 8 << 20
#: Shared memory that a thread block takes beside what is asked for.
_STATIC_NBYTES = 2048


class _Piece(NamedTuple):
    """Rows ``begin:end`` of a part, `before` rows of those that are wanted stand before."""

    packed: Packed
    begin: int
    end: int
    before: int

    @property
    def blocks(self) -> int:
        """Blocks of values that have wanted rows."""
        return blocks(self.end, BLOCK) - self.begin // BLOCK

    def fields(self, validity: int, values: int, grid: int) -> tuple[int, ...]:
        """``CodesJob``; `validity`: of the first wanted row."""
        place = validity, self.before if validity else 0
        return (*bitpack.describe(self.packed), self.begin, self.end, *place, values, grid)


def _pieces(parts: Parts, start: int, stop: int) -> Iterator[_Piece]:
    at = 0
    for packed in parts:
        begin, end = max(start - at, 0), min(stop - at, packed.rows)
        if begin < end:
            yield _Piece(packed, begin, end, at + begin - start)
        at += packed.rows


def packed(parts: Parts) -> bool:
    """Whether the kernels read these codes: other writers may have stored them by another codec."""
    return all(part.codec == BITPACK for part in parts)


def short(dictionary: Dictionary) -> bool:
    """Whether the kernels write these values."""
    return 0 < dictionary.longest <= SHORT and _stride(dictionary) * dictionary.values <= _IMAGE_NBYTES


def image_limit(values: int) -> int:
    """Bytes that the image of so many values has at most."""
    return min(SHORT * values, _IMAGE_NBYTES)


def _stride(dictionary: Dictionary) -> int:
    return align(dictionary.longest, 8)


def image_of(strings: HostStrings) -> npt.NDArray[np.uint8]:
    """The image of strings, each of which is short, as the kernels have it: then they need not make it."""
    sizes = np.diff(strings.offsets).astype(np.int64)
    stride = align(int(sizes.max()), 8)
    image = np.zeros((sizes.size, stride), np.uint8)
    image[np.arange(stride) < sizes[:, None]] = strings.chars[strings.offsets[0] : strings.offsets[-1]]
    return np.concatenate((image.ravel(), sizes.astype(np.uint8)))


def _grids(pieces: Sequence[_Piece], resident: int) -> list[int]:
    """Thread blocks of pieces that are on the GPU together."""
    every = sum(piece.blocks for piece in pieces)
    wanted = min(resident, blocks(every, launch.PACKED_WARPS))
    return [max(wanted * piece.blocks // every, 1) for piece in pieces]


class Spelling:
    """Rows ``start:stop`` of a scope, which become strings: `measure`, then `write`.

    Attributes
    ----------
    dictionary : Dictionary
        Its values are `short`.
    """

    def __init__(
        self, dictionary: Dictionary, parts: Parts, start: int, stop: int, *, validity: int = 0, lane: Lane
    ) -> None:
        self.dictionary, self.itemsize, self._validity = dictionary, parts[0].itemsize, validity
        self._stride, self._lane, self._rows = _stride(dictionary), lane, stop - start
        self._pieces = list(_pieces(parts, start, stop))
        row = 32 * (16 // self.itemsize)  # rows that a warp has at a time
        image = self._stride * dictionary.values
        self._staged = min(row * self._stride, launch.PACKED_STAGED) + 16
        self._near = image if image <= launch.PACKED_IMAGE else 0
        self._kept = min(dictionary.values, launch.PACKED_KEPT)
        self._grids = _grids(self._pieces, self._resident(self._shared(self._staged, self._near, self._kept)))
        self._sums_count = launch.LENGTHS_PARTS * launch.PACKED_WARPS * sum(self._grids)
        work = self._work = Workspace()
        sums, there = work.reserve(_WORD * self._sums_count), work.reserve(image + dictionary.values)
        work.take(lane)
        self._sums, self._image = work[sums], work[there]
        if dictionary.image is not None:
            lane.upload(self._image, dictionary.image)

    def _shared(self, staged: int, near: int, kept: int) -> int:
        return launch.PACKED_WARPS * (staged + 8 * 32 * (16 // self.itemsize)) + align(near) + kept

    @staticmethod
    def _resident(shared: int) -> int:
        attributes = device_attributes()
        fit = attributes["shared_per_multiprocessor"] // (shared + _STATIC_NBYTES)
        return max(min(fit, launch.SPELL_BLOCKS), 1) * attributes["multiprocessors"]

    def _fields(self, to: Target) -> list[int]:
        one, fields, first = self.dictionary, list[int](), 0
        for piece, grid in zip(self._pieces, self._grids, strict=True):
            fields += piece.fields(self._validity, one.values, grid)
            fields += (one.chars, one.offsets, one.itemsize == 8, self._image, self._stride, self._sums, first)
            fields += (to.offsets + piece.before * to.itemsize, to.itemsize == 8, to.first_char, to.chars, to.limit)
            fields.append(piece is self._pieces[-1])
            first += grid * launch.PACKED_WARPS
        return fields

    @classmethod
    def measure(cls, tables: Tables, every: Iterable[Spelling]) -> None:
        """Find the characters of rows, and make what `write` reads."""
        for itemsize, some in _by_itemsize(every):
            fields = [field for one in some for field in one._fields(Target(0, 4, 0, 0, 0))]
            grids = [launch.LENGTHS_PARTS * grid for one in some for grid in one._grids]
            kept = max(one._kept for one in some)
            kernel = _kernel("dict_lengths", itemsize)
            tables.add_jobs(kernel, launch.PACKED_THREADS, grids, fields, _u32(kept), shared=kept)

    @classmethod
    def write(cls, tables: Tables, every: Iterable[tuple[Spelling, Target]]) -> None:
        """Write offsets and characters of rows that are measured; of the last row its end too."""
        targets = dict(every)
        for itemsize, some in _by_itemsize(targets):
            fields = [field for one in some for field in one._fields(targets[one])]
            grids = [grid for one in some for grid in one._grids]
            staged, near, kept = (max(map(attrgetter(name), some)) for name in ("_staged", "_near", "_kept"))
            shared = some[0]._shared(staged, near, kept)
            room = _u32(staged), _u32(align(near)), _u32(kept)
            tables.add_jobs(_kernel("dict_spell", itemsize), launch.PACKED_THREADS, grids, fields, *room, shared=shared)

    def download(self) -> Any:
        """What the characters are the sum of, which arrives with a wait."""
        sums = pinned(self._sums_count, np.int64)
        self._lane.download(sums, self._sums)
        return sums


def _by_itemsize(every: Iterable[Spelling]) -> Iterator[tuple[int, list[Spelling]]]:
    found: dict[int, list[Spelling]] = {}
    for one in every:
        found.setdefault(one.itemsize, []).append(one)
    yield from found.items()


def answer(
    tables: Tables, parts: Parts, start: int, stop: int, *, table: int, values: int, nbytes: int, out: int
) -> None:
    """Write for each of the rows ``start:stop`` the entry of a table that its code has.

    Parameters
    ----------
    table, values, nbytes : int
        Address of the entries, how many, at least one, and bytes of each: 1, 2, 4 or 8. Other codes get the first.
    out : int
        Address of the first row's.
    """
    pieces = list(_pieces(parts, start, stop))
    grids = _grids(pieces, launch.ANSWER_BLOCKS * device_attributes()["multiprocessors"])
    fields: list[int] = []
    for piece, grid in zip(pieces, grids, strict=True):
        fields += (*piece.fields(0, values, grid), table, out + piece.before * nbytes, nbytes)
    kept = align(values * nbytes) if values * nbytes <= launch.PACKED_IMAGE else 0
    kernel = _kernel("dict_answer", parts[0].itemsize)
    tables.add_jobs(kernel, launch.PACKED_THREADS, grids, fields, _u32(kept), shared=kept)


def _kernel(name: str, itemsize: int) -> Any:
    return get_kernel("dict_packed", name, launch.packed_defines(itemsize), shared=name == "dict_spell")
