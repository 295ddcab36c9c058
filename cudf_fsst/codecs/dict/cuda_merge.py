"""Parts with dictionaries that become one, in GPU memory: the bytes of `cpu_merge.merge`.

Values are few, so the host decides and numbers them, those of all columns behind one wait. Codes stay on the GPU, where
they are renumbered and packed: those of several columns together, as long as the memory rule has room for them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...buffers import DeviceStrings, HostStrings
from ...device import waits
from ...device.memory import Lane
from ...device.transfer import to_host
from .. import device_strings
from ..cuda_tables import JobTables
from ..node import DictPart, Node, Parts, dict_part, of_parts, of_validity
from ..part import Part
from ..scratch import scratch_limit
from ..text import cuda as text
from ..text.choose import codec_of
from ..text.cuda_task import TextTask
from ..values import cuda as fixed
from . import cpu_merge, cuda_answer, cuda_pack, cuda_packed, plan

#: Bytes of the memory rule that are for all else than codes on their way.
_OTHERS_NBYTES = 16 << 20


def merge(columns: Sequence[Sequence[Part]], *, lane: Lane) -> list[list[Part]]:
    """Parts of columns, of each consecutive ones; neighbours with dictionaries are one where that is smaller.

    Raises
    ------
    ValueError
        A part is damaged.
    """
    runs_of = [list(cpu_merge.runs(parts)) for parts in columns]
    longer = [run for runs in runs_of for run in runs if len(run) > 1]
    leaves = [leaf for run in longer for part in run for leaf in part.values.parts]
    moved = iter(to_host(leaves, stream=lane.given) if leaves else ())
    planned = [[member for run in runs for member in _planned(run, moved, lane)] for runs in runs_of]
    merges = [member for column in planned for member in column if isinstance(member, _Merge)]
    limit = scratch_limit(sum(part.chars + 4 * part.rows for run in longer for part in run)) - _OTHERS_NBYTES
    merged: dict[_Merge, DictPart] = {}
    for batch in _batches(merges, limit):
        merged |= zip(batch, _merged(batch, limit, lane), strict=True)
    return [[merged[member] if isinstance(member, _Merge) else member for member in column] for column in planned]


def _planned(run: Sequence[Any], moved: Iterator[Part], lane: Lane) -> Iterator[_Merge | Part]:
    """What becomes of neighbours; the parts of their values in host memory are the next ones of `moved`."""
    if len(run) == 1:
        yield run[0]
        return
    with_host_values = [replace(part, values=part.values.with_parts(moved)) for part in run]
    first = 0
    while first < len(run):
        members, values = cpu_merge.next_merge(with_host_values[first:])
        parts = run[first : first + len(members)]
        yield _Merge(parts, [member.numbers for member in members], values, lane) if len(parts) > 1 else parts[0]
        first += len(parts)


class _Merge:
    """Consecutive parts that become one; their codes, renumbered, are `cuda_pack.CodedRows`.

    Attributes
    ----------
    values : HostStrings
    nbytes : int
        Of memory that all codes take on their way, and of what else is made of all rows or values.
    """

    def __init__(self, parts: Sequence[DictPart], numbers: Sequence[Any], values: HostStrings, lane: Lane) -> None:
        self._parts, self._numbers, self.values, self._lane = parts, numbers, values, lane
        self._edges = list(accumulate((part.rows for part in parts), initial=0))
        self.rows, self.itemsize, self.validity = self._edges[-1], plan.itemsize(values.rows), (0, 0)
        self.null_count = sum(part.null_count for part in parts)
        self._owners: list[Any] = []
        self.nbytes = self.rows * self.itemsize + (self.rows // 8 if self.null_count else 0)
        if self.grows:
            self.nbytes += 2 * (values.chars.nbytes + values.offsets.nbytes)

    @property
    def first_values(self) -> Node:
        """The values of the first part, which may be those of all."""
        return self._parts[0].values

    @property
    def grows(self) -> bool:
        """Whether there are more values than those of the first part."""
        return self.first_values.rows < self.values.rows

    def begin(self) -> None:
        """Have on the GPU what looking up codes takes."""
        lane = self._lane
        mask = device_strings.validity(of_parts(self.first_values.type, self._parts), lane=lane)
        self.validity = 0 if mask is None else int(mask.ptr), 0
        tables = [np.append(numbers, 0).astype(f"<u{self.itemsize}") for numbers in self._numbers]
        buffer = lane.allocate(sum(table.nbytes for table in tables))
        lane.upload(int(buffer.ptr), np.concatenate(tables))
        self._tables_at = list(accumulate((table.nbytes for table in tables), initial=int(buffer.ptr)))
        self._owners = [mask, buffer]

    def look_ups(self, first: int, rows: int, out: int) -> list[cuda_packed.LookUp]:
        """What writes the codes of some rows; what is not packed is written at once."""
        found = []
        for part, table, (begin, end) in zip(self._parts, self._tables_at, pairwise(self._edges), strict=False):
            start, stop = max(begin, first), min(end, first + rows)
            if start < stop:
                to = out + (start - first) * self.itemsize
                place = {"start": start - begin, "stop": stop - begin}
                found += cuda_answer.look_up(part, table, self.itemsize, to, lane=self._lane, **place)
        return found

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows, now or when `tables` are launched."""
        if lookups := self.look_ups(first, rows, out):
            cuda_packed.answer(tables, lookups)

    def merged(self, values: Node, codes: Parts, validity: Parts) -> DictPart:
        """The part that these make."""
        self._owners.clear()
        chars, longest = sum(part.chars for part in self._parts), int(np.diff(self.values.offsets).max(initial=0))
        return dict_part(values, codes, validity, self.null_count, chars, longest)


def _batches(merges: Sequence[_Merge], limit: int) -> Iterator[list[_Merge]]:
    """Consecutive merges that take no more memory together; one that takes more by itself."""
    batch: list[_Merge] = []
    for merge in merges:
        if batch and sum(other.nbytes for other in batch) + merge.nbytes > limit:
            yield batch
            batch = []
        batch.append(merge)
    if batch:
        yield batch


def _merged(batch: Sequence[_Merge], limit: int, lane: Lane) -> list[DictPart]:
    """Parts of the rows of consecutive ones."""
    tasks: list[fixed.StreamTask] = []
    owners: list[tuple[int, int]] = []  # which merge's, and whether codes
    lookups, buffers = [], []
    kept = batch[0].nbytes <= limit
    for number, merge in enumerate(batch):
        merge.begin()
        own = []
        if merge.null_count:
            bits = fixed.StreamSource.bitmap(merge.validity[0], 0, merge.rows)
            own.append((fixed.StreamTask(bits, what=of_validity(None)), 0))
        if kept:
            buffers.append(lane.allocate(merge.rows * merge.itemsize))
            lookups += merge.look_ups(0, merge.rows, int(buffers[-1].ptr))
            own += [(task, 1) for task in cuda_pack.code_tasks(merge, int(buffers[-1].ptr))]
        tasks += [task for task, _ in own]
        owners += [(number, place) for _, place in own]
    if lookups:
        tables = JobTables()
        cuda_packed.answer(tables, lookups)
        tables.launch(lane)
    steps: list[waits.Steps] = [fixed.compress(tasks, lane=lane), _compress(batch, lane)]
    if not kept:
        steps.append(cuda_pack.pack_pieces(batch[0], limit, lane))
    streams, values, *packed = waits.run(lane, *steps)
    found: list[list[Parts]] = [[(), ()] for _ in batch]
    for (number, place), parts in zip(owners, streams, strict=True):
        found[number][place] += parts
    if packed:
        found[0][1] = tuple(packed[0])
    return [
        merge.merged(own_values, codes, validity)
        for merge, own_values, (validity, codes) in zip(batch, values, found, strict=True)
    ]


def _compress(batch: Sequence[_Merge], lane: Lane) -> Generator[None, None, list[Node]]:
    """The values of merges, compressed unless they are those of their first part."""
    tasks: list[TextTask] = []
    for merge in batch:
        if merge.grows:
            offsets, chars = merge.values.offsets.astype(np.int32), merge.values.chars
            buffers = lane.allocate(offsets.nbytes), lane.allocate(chars.nbytes)
            lane.upload(int(buffers[0].ptr), offsets)
            lane.upload(int(buffers[1].ptr), chars)
            places = int(buffers[1].ptr), int(buffers[0].ptr), 4
            strings = DeviceStrings(merge.values.rows, *places, owners=(*buffers, None), chars_limit=chars.nbytes)
            segments = merge.first_values.segments
            tasks.append(TextTask(strings, tile_size=segments[0].layout.tile_size) if segments else TextTask(strings))
    encoded = iter((yield from text.steps([codec_of()], tasks, lane=lane)) if tasks else ())
    return [of_parts(merge.first_values.type, next(encoded)) if merge.grows else merge.first_values for merge in batch]
