"""Rows of parts with a dictionary in GPU memory, all or a range of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device.memory import Lane
from ...lazy import WeakCache
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables, RowNumbers
from ..node import DictPart, Node
from ..scratch import scratch_limit
from ..values import cuda_read as fixed
from . import cuda_packed, cuda_text, launch
from .cuda_values import CODES_NBYTES, decoded, is_packed

_u32, _u64 = np.uint32, np.uint64


@dataclass(eq=False)
class Share:
    """Rows of a part that are wanted.

    Attributes
    ----------
    part : DictPart
    start, stop : int
        Rows of the part.
    chars : int or None
        Characters of them, where they are known.
    null_count : int or None
        Likewise.
    mask : rmm.DeviceBuffer or None
        Their validity, from bit 0.
    spelling : cuda_packed.Spelling or None
        Of short values.
    writing : cuda_text.Writing or None
        Of others.
    values
        What keeps the dictionary's values.
    """

    part: DictPart
    start: int
    stop: int
    chars: int | None = None
    null_count: int | None = None
    mask: Any = None
    spelling: cuda_packed.Spelling | None = None
    writing: cuda_text.Writing | None = None
    values: Any = None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        return self.rows == self.part.rows

    @property
    def kept(self) -> bool:
        """Whether what a call finds out is kept: of all rows, whose values have their own lengths."""
        return self.whole and self.chars is not None

    def codes(self, address: int, first: int, rows: int) -> cuda_text.Codes:
        validity = 0 if self.mask is None else self.mask.ptr
        return cuda_text.Codes(address, self.part.itemsize, rows, validity, first if validity else 0)


def mask(shares: Sequence[Share], lane: Lane) -> None:
    """Validity of all shares that may have nulls, and characters of whole parts."""
    counted: list[tuple[Share, Any]] = []
    for share in shares:
        part = share.part
        if share.whole:
            share.chars = part.chars
        if not part.null_count:
            share.null_count = 0
            continue
        share.mask = lane.allocate(blocks(share.rows, 512) * 64)
        if share.whole:
            share.null_count = part.null_count
            lane.zero(share.mask.ptr + share.mask.size - 64, 64)
            fixed.decompress([fixed.ReadRequest((part.indices.validity,), share.mask.ptr)], lane=lane)
            continue
        counter = lane.allocate(8)
        lane.zero(counter.ptr, 8)
        job = fixed.ReadRequest((part.indices.validity,), share.mask.ptr, nulls=counter.ptr)
        fixed.take([job], RowNumbers(0, share.rows, share.start), lane=lane)
        counted.append((share, counter))
    if counted:
        found = [lane.fetch(counter.ptr, 1, np.int64) for _, counter in counted]
        lane.synchronize()
        for (share, _), number in zip(counted, found, strict=True):
            share.null_count = int(number[0])


def whole_mask(part: DictPart, lane: Lane) -> Any:
    """The validity of all rows, or None without nulls."""
    share = Share(part, 0, part.rows)
    mask([share], lane)
    return share.mask


class Batch:
    """Rows of parts on their way: their values are decoded, and it is known, with a wait if need be, how long they are.

    Parameters
    ----------
    shares
        Whose `mask` has been made. Their characters are set.
    dictionaries
        Other values than those of the parts, as many: of each share, and what keeps them. Characters of shares are set
        to None where these are not as long.
    """

    def __init__(
        self, shares: Sequence[Share], lane: Lane, dictionaries: Sequence[tuple[cuda_text.Dictionary, Any]] = ()
    ) -> None:
        self._lane = lane
        values = dictionaries or decoded([share.part for share in shares], lane)
        self._measured = any(share.chars is None for share in shares)
        self._spelled: list[tuple[Share, cuda_packed.Spelling]] = []
        self._new: list[cuda_packed.Spelling] = []  # what is found of these is kept
        unpacked: list[tuple[Share, cuda_text.Writing]] = []
        for share, (dictionary, owner) in zip(shares, values, strict=True):
            share.values = owner
            if is_packed(share.part) and cuda_packed.short(dictionary):
                address = 0 if share.mask is None else share.mask.ptr
                layout = _layout(share, dictionary)
                begins = layout.begins if share.kept and dictionary.image is not None else None
                share.spelling = cuda_packed.Spelling(dictionary, layout, validity=address, begins=begins, lane=lane)
                self._spelled.append((share, share.spelling))
                if share.kept and share.part.known.few is not None and begins is None:
                    self._new.append(share.spelling)
            else:
                share.writing = cuda_text.Writing(dictionary, share.rows, lane)
                unpacked.append((share, share.writing))
        if self._measured:
            tables = JobTables()
            self._measure(tables)
            tables.launch(lane)
        self._windows = _Windows([share for share, _ in unpacked], lane)
        for pieces in self._windows:
            measured = JobTables()
            cuda_text.measure(measured, pieces)
            measured.launch(lane)
        if unpacked:
            placed = JobTables()
            first, *others = (writing for _, writing in unpacked)
            first.place(placed, *others)
            placed.launch(lane)
        _sizes(shares, lane)

    def _measure(self, tables: JobTables) -> None:
        cuda_packed.Spelling.measure(tables, (spelling for _, spelling in self._spelled))

    def write(self, targets: Mapping[Any, cuda_text.Target]) -> None:
        """Write the strings of each share."""
        tables = JobTables()
        if not self._measured:
            self._measure(tables)
        cuda_packed.Spelling.write(tables, ((spelling, targets[share]) for share, spelling in self._spelled))
        tables.launch(self._lane)
        for spelling in self._new:
            spelling.layout.keep(spelling.sums, self._lane)
        for pieces in self._windows:
            tables = JobTables()
            cuda_text.write(tables, [piece._replace(to=targets[self._windows.share(piece)]) for piece in pieces])
            tables.launch(self._lane)


def _layout(share: Share, dictionary: cuda_text.Dictionary) -> cuda_packed.SpellLayout:
    if share.kept:
        return whole_layout(share.part)
    return cuda_packed.SpellLayout.packed(
        dictionary.values, dictionary.longest, share.part.packed, share.start, share.stop
    )


#: By the codes: all parts that have these have values of the same lengths.
_layouts: WeakCache[Node, cuda_packed.SpellLayout] = WeakCache()


def whole_layout(part: DictPart) -> cuda_packed.SpellLayout:
    """The layout for all rows of a part whose values have been read."""
    longest = part.known.longest or 0
    layout = _layouts.get(part.indices)
    if layout is None:
        layout = cuda_packed.SpellLayout.packed(part.values.rows, longest, part.packed, 0, part.rows)
        _layouts.put(part.indices, layout)
    return layout


class _Windows:
    """Codes of shares, unpacked so many at a time as there is room for: all of them, or some rows of one.

    Iterated twice: what is there already is not unpacked again.
    """

    def __init__(self, shares: Sequence[Share], lane: Lane) -> None:
        self._lane = lane
        self._of = {share.writing: share for share in shares}
        plain_nbytes = sum(share.part.chars + 4 * share.rows for share in shares)
        most = max(scratch_limit(plain_nbytes) - (CODES_NBYTES if plain_nbytes >= 2**29 else 0), CODES_NBYTES)
        sizes = [share.rows * share.part.itemsize for share in shares]
        #: Shares with the rows that are unpacked together.
        self._turns: list[list[tuple[Share, int, int]]] = [[]]
        used = 0
        for share, nbytes in zip(shares, sizes, strict=True):
            if used and used + nbytes > most:
                self._turns.append([])
                used = 0
            step = most // share.part.itemsize // launch.READ_TILE * launch.READ_TILE
            for first in range(0, share.rows, step):
                if first:
                    self._turns.append([])
                    used = 0
                count = min(step, share.rows - first)
                self._turns[-1].append((share, first, count))
                used += -(-count * share.part.itemsize // 256) * 256
        self._turns = [turn for turn in self._turns if turn]
        sizes = [sum(-(-count * share.part.itemsize // 256) * 256 for share, _, count in turn) for turn in self._turns]
        self._room = lane.allocate(max(sizes, default=0))
        self._there: int | None = None

    def share(self, piece: cuda_text.WritingPiece) -> Share:
        return self._of[piece.writing]

    def __iter__(self) -> Any:
        for number, turn in enumerate(self._turns):
            at, jobs, pieces = int(self._room.ptr), [], []
            for share, first, count in turn:
                begin = share.start + first
                jobs.append(fixed.ReadRequest(share.part.indices.values, at, begin, begin + count))
                assert share.writing is not None
                pieces.append(cuda_text.WritingPiece(share.writing, share.codes(at, first, count), first))
                at += -(-count * share.part.itemsize // 256) * 256
            if self._there != number:
                fixed.decompress(jobs, lane=self._lane)
                self._there = number
            yield pieces


def _sizes(shares: Sequence[Share], lane: Lane) -> None:
    """Characters of the shares where they are not known: with a wait."""
    found = []
    for share in shares:
        if share.chars is not None:
            continue
        if share.spelling is not None:
            numbers = share.spelling.download()
        else:
            assert share.writing is not None
            numbers = lane.fetch(share.writing.total, 1, np.int64)
        found.append((share, numbers))
    if found:
        lane.synchronize()
    for share, numbers in found:
        share.chars = int(numbers.sum())
