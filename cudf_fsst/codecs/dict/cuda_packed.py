"""Packed codes of dictionaries in GPU memory become strings, answers or counts in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Coming, Lane, Workspace, device_attributes
from ..bitpack import NAME as BITPACK
from ..bitpack import cuda as bitpack
from ..bitpack.launch import BLOCK, BitpackSegment
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, KeptTables
from ..node import Parts
from ..part import Packed, align
from . import launch
from .cuda_text import Dictionary, Target
from .few import SHORT

_u32, _u64 = np.uint32, np.uint64
_WORD = 8
#: Bytes of an image that `dict_spell` reads.
_IMAGE_NBYTES = 8 << 20
#: Shared memory that a thread block takes beside what is asked for.
_STATIC_NBYTES = 2048
#: Numbers that `SpellJob` has, and which of them are addresses.
_SPELL_FIELDS = len(launch.SpellJob._fields)
_IMAGE_FIELD, _SUMS_FIELD, _OFFSETS_FIELD, _CHARS_FIELD = map(
    launch.SpellJob._fields.index, ("image", "sums", "out_offsets", "out_chars")
)
_MAP_FIELD = launch.AnswerJob._fields.index("map")
_NOWHERE = Target(0, 4, 0, 0, 0)


class _PackedPiece(NamedTuple):
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
        return launch.CodesJob._make((*bitpack.describe(self.packed), self.begin, self.end, *place, values, grid))


class _PlainCodes(NamedTuple):
    """Codes that are not packed, at an address; `before` as of `_PackedPiece`; the bit of the first one's validity."""

    address: int
    rows: int
    first_bit: int
    before: int = 0

    @property
    def blocks(self) -> int:
        return blocks(self.rows, BLOCK)

    def fields(self, validity: int, values: int, grid: int) -> tuple[int, ...]:
        segment = BitpackSegment(0, 0, 0, self.address, 0, self.rows, 1)
        first_bit = self.first_bit if validity else 0
        return launch.CodesJob(*segment, 0, self.rows, validity, first_bit, values, grid)


def plain_nbytes(rows: int, itemsize: int) -> int:
    """Bytes of codes that are not packed, as the kernels read them."""
    return align(rows, BLOCK) * itemsize


def _pieces(parts: Parts, start: int, stop: int) -> Iterator[_PackedPiece]:
    first = 0
    for packed in parts:
        begin, end = max(start - first, 0), min(stop - first, packed.rows)
        if begin < end:
            yield _PackedPiece(packed, begin, end, first + begin - start)
        first += packed.rows


def packed(parts: Parts) -> bool:
    """Whether the kernels read these codes: other writers may have stored them by another codec."""
    return all(part.codec == BITPACK for part in parts)


def short(dictionary: Dictionary) -> bool:
    """Whether the kernels write these values."""
    return 0 < dictionary.longest <= SHORT and _stride(dictionary) * (dictionary.values + 1) <= _IMAGE_NBYTES


def image_limit(values: int) -> int:
    """Bytes that the image of so many values has at most."""
    return min(SHORT * (values + 1), _IMAGE_NBYTES)


def _stride(dictionary: Dictionary) -> int:
    return align(dictionary.longest, 8)


def _grids(pieces: Sequence[_PackedPiece | _PlainCodes], resident: int) -> list[int]:
    """Thread blocks of pieces that are on the GPU together."""
    every = sum(piece.blocks for piece in pieces)
    wanted = min(resident, blocks(every, launch.PACKED_WARPS))
    return [max(wanted * piece.blocks // every, 1) for piece in pieces]


class SpellLayout:
    """How the kernels share rows: all that does not change from call to call.

    Parameters
    ----------
    values, longest : int
        Of the dictionary: how many, and bytes of the longest.
    itemsize : int
        Bytes of a code.
    pieces
    """

    def __init__(self, values: int, longest: int, itemsize: int, pieces: Sequence[_PackedPiece | _PlainCodes]) -> None:
        self.itemsize, self.values, self.stride = itemsize, values, align(longest, 8)
        self.pieces = pieces
        #: Of which kernels: those for codes of so many bytes, packed or not.
        self.kind = itemsize, isinstance(pieces[0], _PlainCodes)
        row = 32 * (16 // self.itemsize)  # rows that a warp has at a time
        self.image_nbytes = self.stride * (values + 1)
        self.staged = min(row * self.stride, launch.PACKED_STAGED) + 16
        self.near = self.image_nbytes if self.image_nbytes <= launch.PACKED_IMAGE else 0
        self.kept = min(values + 1, launch.PACKED_KEPT)
        self.grids = _grids(self.pieces, _resident(shared_nbytes(self.staged, self.near, self.kept)))
        self.sums_count = launch.LENGTHS_PARTS * launch.PACKED_WARPS * sum(self.grids)
        self._jobs = [piece.fields(0, values, grid) for piece, grid in zip(pieces, self.grids, strict=True)]
        self._sums: Coming | None = None
        self._begins: npt.NDArray[np.uint64] | None = None

    @classmethod
    def packed(cls, values: int, longest: int, parts: Parts, start: int, stop: int) -> SpellLayout:
        """The layout for rows ``start:stop`` of packed codes."""
        return cls(values, longest, parts[0].itemsize, list(_pieces(parts, start, stop)))

    @classmethod
    def plain(cls, values: int, longest: int, itemsize: int, address: int, rows: int, first_bit: int) -> SpellLayout:
        """The layout for codes in `plain_nbytes` at a multiple of 16; `first_bit` of the validity is the first's."""
        return cls(values, longest, itemsize, [_PlainCodes(address, rows, first_bit)])

    @property
    def begins(self) -> npt.NDArray[np.uint64] | None:
        """How many characters stand before each warp's rows, once the sums that `keep` was told of have come."""
        coming = self._sums  # another thread may find them, too
        if coming is not None and (sums := coming.array) is not None:
            self._begins, self._sums = (np.cumsum(sums) - sums)[:: launch.LENGTHS_PARTS].astype(_u64), None
        return self._begins

    def keep(self, sums: int, lane: Lane) -> None:
        """Keep what `dict_lengths` has found at an address, unless that is done. Nothing is waited for."""
        if self._sums is None and self._begins is None:
            self._sums = Coming(lane, sums, self.sums_count, np.int64)

    def fields(
        self, validity: int, dictionary: Dictionary, image: int, sums: int, placed: bool, to: Target
    ) -> list[int]:
        """``SpellJob`` of each piece."""
        fields, first = list[int](), 0
        source = dictionary.chars, dictionary.offsets, dictionary.itemsize == 8, image, self.stride, sums
        target = to.itemsize == 8, to.first_char, to.chars, to.limit
        for piece, job, grid in zip(self.pieces, self._jobs, self.grids, strict=True):
            codes = piece.fields(validity, self.values, grid) if validity else job
            at = to.offsets + piece.before * to.itemsize
            fields += (*codes, *source, first, placed, at, *target, piece is self.pieces[-1])  # a `SpellJob`
            first += grid * launch.PACKED_WARPS
        return fields


def shared_nbytes(staged: int, near: int, kept_values: int) -> int:
    """Dynamic shared memory of `dict_spell`."""
    return launch.PACKED_WARPS * staged + align(near) + kept_values


def _resident(shared: int) -> int:
    attributes = device_attributes()
    fit = attributes["shared_per_multiprocessor"] // (shared + _STATIC_NBYTES)
    return max(min(fit, launch.SPELL_BLOCKS), 1) * attributes["multiprocessors"]


class Spelling:
    """Rows of a scope, which become strings: `measure`, unless they are `placed`, then `write`.

    Parameters
    ----------
    dictionary : Dictionary
        Its values are `short`.
    layout : SpellLayout
    validity : int
        Bitmap of the rows, 0: no nulls.
    begins : ndarray of uint64, optional
        ``SpellLayout.begins``, where the dictionary has an image, and values as long as when these were found.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        layout: SpellLayout,
        *,
        validity: int = 0,
        begins: npt.NDArray[np.uint64] | None = None,
        lane: Lane,
    ) -> None:
        self.dictionary, self.layout, self._validity, self._lane = dictionary, layout, validity, lane
        self.begins, self.sums, self._image = begins, 0, 0
        if begins is None:
            makes_image = dictionary.image is None
            work = self._work = Workspace()
            sums = work.reserve(_WORD * layout.sums_count)
            image = work.reserve(layout.image_nbytes + layout.values + 1 if makes_image else 0)
            work.take(lane)
            self.sums, self._image = work[sums], work[image] if makes_image else 0

    @property
    def placed(self) -> bool:
        """Whether it is known where each warp's characters go."""
        return self.begins is not None

    def _fields(self, to: Target) -> list[int]:
        return self.layout.fields(self._validity, self.dictionary, self._image, self.sums, self.placed, to)

    @classmethod
    def measure(cls, tables: JobTables, every: Iterable[Spelling]) -> None:
        """Find the characters of rows, and make what `write` reads; of those that are not placed."""
        for kind, spellings in _by_kind(spelling for spelling in every if not spelling.placed):
            fields, data = _jobs((spelling, _NOWHERE) for spelling in spellings)
            grids = [launch.LENGTHS_PARTS * grid for spelling in spellings for grid in spelling.layout.grids]
            kept, kernel = max(spelling.layout.kept for spelling in spellings), _kernel("dict_lengths", *kind)
            tables.add_jobs(kernel, launch.PACKED_THREADS, grids, fields, _u32(kept), shared=kept, data=data)

    @classmethod
    def write(cls, tables: JobTables, every: Iterable[tuple[Spelling, Target]]) -> None:
        """Write offsets and characters of rows; of the last row its end too."""
        targets = dict(every)
        for kind, spellings in _by_kind(targets):
            fields, data = _jobs((spelling, targets[spelling]) for spelling in spellings)
            layouts = [spelling.layout for spelling in spellings]
            grids = [grid for layout in layouts for grid in layout.grids]
            staged, near, kept = (max(map(attrgetter(name), layouts)) for name in ("staged", "near", "kept"))
            shared, sizes = shared_nbytes(staged, near, kept), (_u32(staged), _u32(align(near)), _u32(kept))
            kernel = _kernel("dict_spell", *kind)
            tables.add_jobs(kernel, launch.PACKED_THREADS, grids, fields, *sizes, shared=shared, data=data)

    def download(self) -> Any:
        """Numbers whose sum is the characters of all rows; valid after a wait."""
        return self._lane.fetch(self.sums, self.layout.sums_count, np.int64)


def _jobs(every: Iterable[tuple[Spelling, Target]]) -> tuple[list[int], list[tuple[int, npt.NDArray[Any]]]]:
    """Fields of `SpellJob`, and those of them that are addresses of what is in host memory."""
    fields, data = list[int](), list[tuple[int, npt.NDArray[Any]]]()
    for spelling, to in every:
        begin = len(fields)
        fields += spelling._fields(to)
        for place, array in ((_IMAGE_FIELD, spelling.dictionary.image), (_SUMS_FIELD, spelling.begins)):
            if array is not None:
                data += ((field + place, array) for field in range(begin, len(fields), _SPELL_FIELDS))
    return fields, data


def _by_kind(every: Iterable[Spelling]) -> Iterator[tuple[tuple[int, bool], list[Spelling]]]:
    groups: dict[tuple[int, bool], list[Spelling]] = {}
    for spelling in every:
        groups.setdefault(spelling.layout.kind, []).append(spelling)
    yield from groups.items()


def kept(targets: Mapping[Spelling, Target]) -> KeptTables | None:
    """The launch that writes rows that are placed, for any memory: addresses of targets count from 0.

    It is launched with those of offsets and of characters. None where it were more than one.
    """
    if len({spelling.layout.kind for spelling in targets}) > 1:
        return None
    tables = JobTables()
    Spelling.write(tables, targets.items())
    count = sum(len(spelling.layout.pieces) for spelling in targets)
    jobs = count + _SPELL_FIELDS * np.arange(count)
    return tables.kept(jobs + _OFFSETS_FIELD, jobs + _CHARS_FIELD)


class SharedCodes:
    """How thread blocks share codes of rows ``start:stop``, of which each has the same to do: as in every call.

    Parameters
    ----------
    values : int
        Of the dictionary.
    resident : int
        Thread blocks for a multiprocessor.
    """

    def __init__(self, parts: Parts, start: int, stop: int, values: int, resident: int = launch.ANSWER_BLOCKS) -> None:
        self.itemsize, self.values = parts[0].itemsize, values
        pieces = list(_pieces(parts, start, stop))
        self.grids = _grids(pieces, resident * device_attributes()["multiprocessors"])
        #: ``CodesJob`` of each piece, and how many rows stand before it.
        self.jobs = [
            (piece.fields(0, values, grid), piece.before) for piece, grid in zip(pieces, self.grids, strict=True)
        ]

    def table_nbytes(self, entry_nbytes: int) -> int:
        """Bytes of shared memory of a table with an entry a value; 0: it does not fit. Codes of a byte reach 256."""
        most = 256 if self.itemsize == 1 else launch.PACKED_IMAGE
        total = align((min(self.values, most) + 1) * entry_nbytes)
        return total if total <= launch.PACKED_IMAGE else 0


class LookUp(NamedTuple):
    """Rows that get, each, the entry of a table that its code has, or the first one.

    Attributes
    ----------
    codes : SharedCodes
    table : int or ndarray
        Address of the entries, or the entries: at least one.
    nbytes : int
        Bytes of an entry: 1, 2, 4 or 8.
    out : int
        Address of the first row's.
    """

    codes: SharedCodes
    table: int | npt.NDArray[np.generic]
    nbytes: int
    out: int


def answer(tables: JobTables, every: Sequence[LookUp]) -> None:
    """Add what looks up entries: a launch for codes of each size."""
    for itemsize in sorted({lookup.codes.itemsize for lookup in every}):
        same_size = [lookup for lookup in every if lookup.codes.itemsize == itemsize]
        fields, data = list[int](), []
        for codes, table, nbytes, out in same_size:
            for job, before in codes.jobs:
                if not isinstance(table, int):
                    data.append((len(fields) + _MAP_FIELD, table))
                table_at = table if isinstance(table, int) else 0
                fields += launch.AnswerJob._make((*job, table_at, out + before * nbytes, nbytes))
        grids = [grid for lookup in same_size for grid in lookup.codes.grids]
        table_nbytes = max(lookup.codes.table_nbytes(lookup.nbytes) for lookup in same_size)
        kernel = _kernel("dict_answer", itemsize)
        tables.add_jobs(
            kernel, launch.PACKED_THREADS, grids, fields, _u32(table_nbytes), shared=table_nbytes, data=data
        )


def count(tables: JobTables, parts: Parts, values: int, out: int, *, validity: int = 0) -> None:
    """Add what adds to numbers of 8 bytes, one for each value, how often codes have it.

    Parameters
    ----------
    validity : int
        Bitmap of the rows, 0: no nulls.
    """
    few = values <= launch.COUNT_COPIED
    rows = sum(part.rows for part in parts)
    codes = SharedCodes(parts, 0, rows, values, launch.ANSWER_BLOCKS if few else launch.COUNT_BLOCKS)
    fields = list[int]()
    for piece, grid in zip(_pieces(parts, 0, rows), codes.grids, strict=True):
        fields += launch.CountJob._make((*piece.fields(validity, values, grid), out))
    counters = min(32 * values, launch.COUNT_COPIED) if few else min(values, launch.COUNT_KEPT)
    kernel = get_kernel("dict_count", "dict_count", launch.packed_defines(codes.itemsize))
    tables.add_jobs(kernel, launch.PACKED_THREADS, codes.grids, fields, _u32(counters), shared=4 * counters)


def _kernel(name: str, itemsize: int, plain: bool = False) -> Any:
    return get_kernel("dict_packed", name, launch.packed_defines(itemsize, plain), shared=name == "dict_spell")
