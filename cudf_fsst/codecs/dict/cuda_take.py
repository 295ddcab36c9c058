"""Rows of parts with a dictionary by number, in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables, RowNumbers
from ..node import DictPart
from ..text import cuda_gather
from ..values import cuda_read as fixed
from . import cuda_packed, cuda_text
from .cuda_values import CODES_NBYTES, VALUES_NBYTES, decoded, values_nbytes

#: Codes that are taken at a time are a multiple of this.
_TAKEN_ROWS = 1 << 16


def spelled(
    parts: Sequence[tuple[int, DictPart]], rows: RowNumbers, lane: Lane, scratch_nbytes: int
) -> dict[int, DeviceStrings]:
    """Rows of parts with a dictionary, by the parts' places in a call; all values of the dictionaries are decoded."""
    limit = max(scratch_nbytes // 2, CODES_NBYTES)
    by_place: dict[int, DeviceStrings] = {}
    batch: list[_Taking] = []
    used = 0
    for place, part in parts:
        nbytes = values_nbytes(part)
        dictionary, owner = decoded([part], lane)[0] if nbytes <= VALUES_NBYTES else (None, None)
        if dictionary is None or not cuda_packed.short(dictionary):
            by_place[place] = gathered(part, rows, lane, scratch_nbytes)
            continue
        taking = _Taking(place, part, dictionary, owner, rows, limit, lane)
        nbytes += taking.codes_nbytes
        if batch and used + nbytes > limit:
            by_place.update(_spell(batch, lane))
            batch, used = [], 0
        batch.append(taking)
        used += nbytes
    if batch:
        by_place.update(_spell(batch, lane))
    return by_place


class _Taking:
    """The codes of chosen rows of a part whose values are short, `step` rows at a time."""

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
        self._codes: Any = None
        self._codes_first: int | None = None
        self.spellings: list[cuda_packed.Spelling] = []

    def request(self, first: int) -> fixed.ReadRequest:
        """The request for the codes of `step` rows from `first` on."""
        if self._codes is None:
            self._codes = self.lane.allocate(self.codes_nbytes)
        self._codes_first = first
        return fixed.ReadRequest(self.part.indices.values, int(self._codes.ptr))

    def codes(self, first: int) -> cuda_packed.Spelling:
        """Take the codes of rows from `first` on, unless they are there."""
        count = min(self.step, self.rows.count - first)
        if self._codes_first != first:
            window = RowNumbers(self.rows.address + 8 * first, count, self.rows.shift, self.rows.order)
            fixed.take([self.request(first)], window, lane=self.lane, scratch_nbytes=self.limit)
        address = int(self._codes.ptr)
        number = first // self.step
        if number == len(self.spellings):
            dictionary = self.dictionary
            layout = cuda_packed.SpellLayout.plain(
                dictionary.values, dictionary.longest, self.itemsize, address, count, first
            )
            validity = 0 if self.mask is None else int(self.mask.ptr)
            self.spellings.append(cuda_packed.Spelling(dictionary, layout, validity=validity, lane=self.lane))
        return self.spellings[number]


def _taken_mask(part: DictPart, rows: RowNumbers, lane: Lane) -> tuple[Any, Any]:
    """The validity bitmap of chosen rows of a part, and the counter of nulls; None without nulls in the part."""
    if not part.null_count:
        return None, None
    counter, mask = lane.allocate(8), lane.allocate(blocks(rows.count, 512) * 64)
    lane.zero(counter.ptr, 8)
    lane.zero(mask.ptr, mask.size)
    fixed.take([fixed.ReadRequest((part.indices.validity,), mask.ptr, nulls=counter.ptr)], rows, lane=lane)
    return mask, counter


def _spell(batch: Sequence[_Taking], lane: Lane) -> dict[int, DeviceStrings]:
    """Strings by their place. Codes of which there are several windows are taken twice."""
    several = any(len(taking.firsts) > 1 for taking in batch)

    def launched(add: Callable[[JobTables, Sequence[Any]], None], jobs: Sequence[Any]) -> None:
        tables = JobTables()
        add(tables, jobs)
        tables.launch(lane)

    spellings = []
    if not several:
        fixed.take([taking.request(0) for taking in batch], batch[0].rows, lane=lane, scratch_nbytes=batch[0].limit)
    for taking in batch:
        for first in taking.firsts:
            spellings.append(taking.codes(first))
            if several:
                launched(cuda_packed.Spelling.measure, spellings[-1:])
    if not several:
        launched(cuda_packed.Spelling.measure, spellings)
    sums = [[spelling.download() for spelling in taking.spellings] for taking in batch]
    nulls = [None if taking.counter is None else lane.fetch(taking.counter.ptr, 1, np.int64) for taking in batch]
    lane.synchronize()
    by_place: dict[int, DeviceStrings] = {}
    targets = []
    for taking, tile_sums, missing in zip(batch, sums, nulls, strict=True):
        chars = [int(sums_of.sum()) for sums_of in tile_sums]
        count, itemsize = taking.rows.count, 4 if sum(chars) < 2**31 else 8
        offsets, out = lane.allocate(itemsize * (count + 1)), lane.allocate(sum(chars))
        before = 0
        for first, size in zip(taking.firsts, chars, strict=True):
            to = cuda_text.Target(offsets.ptr + first * itemsize, itemsize, before, out.ptr + before, size)
            targets.append((taking.codes(first), to))
            if several:
                launched(cuda_packed.Spelling.write, targets[-1:])
            before += size
        null_count = 0 if missing is None else int(missing[0])
        mask = taking.mask if null_count else None
        address = 0 if mask is None else int(mask.ptr)
        by_place[taking.place] = DeviceStrings(
            count, out.ptr, offsets.ptr, itemsize, address, 0, null_count, owners=(offsets, out, mask)
        )
    if not several:
        launched(cuda_packed.Spelling.write, targets)
    return by_place


def gathered(part: DictPart, rows: RowNumbers, lane: Lane, scratch_nbytes: int) -> DeviceStrings:
    """Rows of a part, whose codes are numbers of rows of the values."""
    keep: list[Any] = []
    codes, mask, counter = codes_of(part, rows, keep, lane, scratch_nbytes)
    numbers = cuda_gather.Numbers(codes, part.itemsize, rows.count, mask)
    strings = cuda_gather.gather(part.values.segments, numbers, lane=lane, scratch_nbytes=scratch_nbytes)
    if mask:
        nulls = int(lane.read(counter, 1, np.int64)[0])
        if nulls:
            strings.validity, strings.null_count = mask, nulls
            strings.owners = (*strings.owners[:2], keep[-1])
    return strings


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
