"""Rows of parts with a dictionary by number, in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables, RowNumbers
from ..text import cuda_gather
from ..values import cuda_read as fixed
from . import cuda_packed, cuda_text
from .cuda_values import CODES_NBYTES, VALUES_NBYTES, decoded, values_nbytes
from .part import DictPart

#: Codes that are taken at a time are a multiple of this.
_TAKEN_ROWS = 1 << 16


def spelled(
    some: Sequence[tuple[int, DictPart]], rows: RowNumbers, lane: Lane, scratch_nbytes: int
) -> dict[int, DeviceStrings]:
    """Rows of parts with a dictionary, all values of which are decoded, by their place."""
    limit = max(scratch_nbytes // 2, CODES_NBYTES)
    found: dict[int, DeviceStrings] = {}
    turn: list[_Taking] = []
    used = 0
    for place, part in some:
        nbytes = values_nbytes(part)
        dictionary, owner = decoded([part], lane)[0] if nbytes <= VALUES_NBYTES else (None, None)
        if dictionary is None or not cuda_packed.short(dictionary):
            found[place] = gathered(part, rows, lane, scratch_nbytes)
            continue
        one = _Taking(place, part, dictionary, owner, rows, limit, lane)
        nbytes += one.codes_nbytes
        if turn and used + nbytes > limit:
            found.update(_spell(turn, lane))
            turn, used = [], 0
        turn.append(one)
        used += nbytes
    if turn:
        found.update(_spell(turn, lane))
    return found


class _Taking:
    """Rows of a part with a dictionary of short values that are taken: their codes, as many at a time as have room."""

    def __init__(
        self, place: int, part: DictPart, dictionary: Any, owner: Any, rows: RowNumbers, limit: int, lane: Lane
    ) -> None:
        self.place, self.part, self.dictionary, self.owner = place, part, dictionary, owner
        self.rows, self.lane, self.limit = rows, lane, limit
        self.itemsize = part.itemsize
        self.step = min(max(limit // self.itemsize // _TAKEN_ROWS, 1) * _TAKEN_ROWS, rows.count)
        self.firsts = range(0, rows.count, self.step)
        self.codes_nbytes = cuda_packed.plain_nbytes(self.step, self.itemsize)
        self.mask, self.counter = _taken_mask(part, rows, lane)
        self._room: Any = None
        self._there: int | None = None
        self.spellings: list[cuda_packed.Spelling] = []

    def request(self, first: int) -> fixed.ReadRequest:
        """What brings the codes of rows from `first` on."""
        if self._room is None:
            self._room = self.lane.allocate(self.codes_nbytes)
        self._there = first
        return fixed.ReadRequest(self.part.indices.values, int(self._room.ptr))

    def codes(self, first: int) -> cuda_packed.Spelling:
        """Take the codes of rows from `first` on, unless they are there."""
        count = min(self.step, self.rows.count - first)
        if self._there != first:
            some = RowNumbers(self.rows.address + 8 * first, count, self.rows.shift, self.rows.order)
            fixed.take([self.request(first)], some, lane=self.lane, scratch_nbytes=self.limit)
        address = int(self._room.ptr)
        number = first // self.step
        if number == len(self.spellings):
            one = self.dictionary
            layout = cuda_packed.SpellLayout.plain(one.values, one.longest, self.itemsize, address, count, first)
            validity = 0 if self.mask is None else int(self.mask.ptr)
            self.spellings.append(cuda_packed.Spelling(one, layout, validity=validity, lane=self.lane))
        return self.spellings[number]


def _taken_mask(part: DictPart, rows: RowNumbers, lane: Lane) -> tuple[Any, Any]:
    """The validity of rows of a part that are taken, and what counts nulls; or None."""
    if not part.null_count:
        return None, None
    counter, mask = lane.allocate(8), lane.allocate(blocks(rows.count, 512) * 64)
    lane.zero(counter.ptr, 8)
    lane.zero(mask.ptr, mask.size)
    fixed.take([fixed.ReadRequest((part.indices.validity,), mask.ptr, nulls=counter.ptr)], rows, lane=lane)
    return mask, counter


def _spell(turn: Sequence[_Taking], lane: Lane) -> dict[int, DeviceStrings]:
    """Strings by their place. Codes of which there are several windows are taken twice."""
    several = any(len(one.firsts) > 1 for one in turn)

    def launched(add: Callable[[JobTables, Sequence[Any]], None], some: Sequence[Any]) -> None:
        tables = JobTables()
        add(tables, some)
        tables.launch(lane)

    every = []
    if not several:
        fixed.take([one.request(0) for one in turn], turn[0].rows, lane=lane, scratch_nbytes=turn[0].limit)
    for one in turn:
        for first in one.firsts:
            every.append(one.codes(first))
            if several:
                launched(cuda_packed.Spelling.measure, every[-1:])
    if not several:
        launched(cuda_packed.Spelling.measure, every)
    sums = [[spelling.download() for spelling in one.spellings] for one in turn]
    nulls = [None if one.counter is None else lane.fetch(one.counter.ptr, 1, np.int64) for one in turn]
    lane.synchronize()
    found: dict[int, DeviceStrings] = {}
    targets = []
    for one, own, missing in zip(turn, sums, nulls, strict=True):
        chars = [int(some.sum()) for some in own]
        count, itemsize = one.rows.count, 4 if sum(chars) < 2**31 else 8
        offsets, out = lane.allocate(itemsize * (count + 1)), lane.allocate(sum(chars))
        before = 0
        for first, size in zip(one.firsts, chars, strict=True):
            to = cuda_text.Target(offsets.ptr + first * itemsize, itemsize, before, out.ptr + before, size)
            targets.append((one.codes(first), to))
            if several:
                launched(cuda_packed.Spelling.write, targets[-1:])
            before += size
        null_count = 0 if missing is None else int(missing[0])
        mask = one.mask if null_count else None
        address = 0 if mask is None else int(mask.ptr)
        found[one.place] = DeviceStrings(
            count, out.ptr, offsets.ptr, itemsize, address, 0, null_count, owners=(offsets, out, mask)
        )
    if not several:
        launched(cuda_packed.Spelling.write, targets)
    return found


def gathered(part: DictPart, rows: RowNumbers, lane: Lane, scratch_nbytes: int) -> DeviceStrings:
    """Rows of a part, whose codes are numbers of rows of the values."""
    keep: list[Any] = []
    codes, mask, counter = codes_of(part, rows, keep, lane, scratch_nbytes)
    numbers = cuda_gather.Numbers(codes, part.itemsize, rows.count, mask)
    made = cuda_gather.gather(part.values.segments, numbers, lane=lane, scratch_nbytes=scratch_nbytes)
    if mask:
        nulls = int(lane.read(counter, 1, np.int64)[0])
        if nulls:
            made.validity, made.null_count = mask, nulls
            made.owners = (*made.owners[:2], keep[-1])
    return made


def codes_of(
    part: DictPart, rows: RowNumbers, keep: list[Any], lane: Lane, scratch_nbytes: int
) -> tuple[int, int, int]:
    """Addresses of the codes of rows of a part, of their validity or 0, and of how many are null.

    Rows that the part does not have have the code 0. `keep`: gets what keeps these.
    """
    count, itemsize = rows.count, part.itemsize
    keep.append(lane.allocate(count * itemsize))
    codes, mask, counter = int(keep[-1].ptr), 0, 0
    lane.zero(codes, count * itemsize)
    fixed.take([fixed.ReadRequest(part.indices.values, codes)], rows, lane=lane, scratch_nbytes=scratch_nbytes)
    if part.null_count:
        keep += reversed(_taken_mask(part, rows, lane))
        counter, mask = int(keep[-2].ptr), int(keep[-1].ptr)
    return codes, mask, counter
