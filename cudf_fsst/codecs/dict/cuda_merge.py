"""Parts with dictionaries that become one, in GPU memory: the bytes of `cpu_merge.merge`.

Values are few, so the host decides and numbers them. Codes stay on the GPU, where they are renumbered and packed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
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
from ..text import cuda as text
from ..text.choose import codec_of
from ..text.cuda_task import TextTask
from ..values import cuda as fixed
from . import cpu_merge, cuda_answer, cuda_pack, plan

#: Bytes for codes on their way.
_ROOM = 48 << 20


def merge(parts: Sequence[Part], *, lane: Lane) -> list[Part]:
    """Consecutive parts of a column; neighbours with dictionaries are one where that is smaller.

    Raises
    ------
    ValueError
        A part is damaged.
    """
    return cpu_merge.merge(parts, partial(_merged, lane=lane))


def _merged(parts: Sequence[DictPart], lane: Lane) -> Iterator[DictPart]:
    moved = iter(to_host([leaf for part in parts for leaf in part.values.parts], stream=lane.given))
    with_host_values = [replace(part, values=part.values.with_parts(moved)) for part in parts]
    first = 0
    while first < len(parts):
        members, values = cpu_merge.next_merge(with_host_values[first:])
        run = parts[first : first + len(members)]
        yield _merged_part(run, [member.numbers for member in members], values, lane) if len(run) > 1 else run[0]
        first += len(run)


class _Codes:
    """The codes of consecutive parts, renumbered for one dictionary; they are `cuda_pack.CodedRows`."""

    def __init__(self, parts: Sequence[DictPart], numbers: Sequence[Any], itemsize: int, mask: int, lane: Lane) -> None:
        self._parts, self._lane = parts, lane
        self._edges = list(accumulate((part.rows for part in parts), initial=0))
        self.rows, self.itemsize, self.validity = self._edges[-1], itemsize, (mask, 0)
        self.null_count = sum(part.null_count for part in parts)
        self._host_tables = [np.append(table, 0).astype(f"<u{itemsize}") for table in numbers]
        self._tables = lane.allocate(sum(table.nbytes for table in self._host_tables))
        self._tables_at = list(accumulate((table.nbytes for table in self._host_tables), initial=int(self._tables.ptr)))
        for address, table in zip(self._tables_at, self._host_tables, strict=False):
            lane.upload(address, table)

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows, at once."""
        last = first + rows
        for number, part in enumerate(self._parts):
            begin, end = self._edges[number], self._edges[number + 1]
            a, b = max(begin, first), min(end, last)
            if a < b:
                to = out + (a - first) * self.itemsize
                table = self._tables_at[number], self.itemsize
                cuda_answer.remap(part, *table, to, lane=self._lane, start=a - begin, stop=b - begin)


def _merged_part(parts: Sequence[DictPart], numbers: Sequence[Any], values: HostStrings, lane: Lane) -> DictPart:
    """One part of the rows of consecutive ones; `numbers`: of the values of each among `values`."""
    first_values = parts[0].values
    mask = device_strings.validity(of_parts(first_values.type, parts), lane=lane)
    itemsize = plan.itemsize(values.rows)
    codes = _Codes(parts, numbers, itemsize, 0 if mask is None else int(mask.ptr), lane)
    steps: list[waits.Steps] = [_compress(first_values, values, lane), cuda_pack.pack_pieces(codes, _ROOM, lane)]
    if mask is not None:
        bits = fixed.StreamSource.bitmap(int(mask.ptr), 0, codes.rows)
        steps.append(fixed.compress([fixed.StreamTask(bits, what=of_validity(None))], lane=lane))
    first_values, packed, *validity_streams = waits.run(lane, *steps)
    validity: Parts = validity_streams[0][0] if validity_streams else ()
    chars, longest = sum(part.chars for part in parts), int(np.diff(values.offsets).max(initial=0))
    return dict_part(first_values, tuple(packed), validity, codes.null_count, chars, longest)


def _compress(first_values: Node, values: HostStrings, lane: Lane) -> Generator[None, None, Node]:
    """Compress values, unless they are those of the first part, `first_values`."""
    if first_values.rows == values.rows:
        return first_values
    offsets, chars = values.offsets.astype(np.int32), values.chars
    buffers = lane.allocate(offsets.nbytes), lane.allocate(chars.nbytes)
    lane.upload(int(buffers[0].ptr), offsets)
    lane.upload(int(buffers[1].ptr), chars)
    strings = DeviceStrings(
        values.rows, int(buffers[1].ptr), int(buffers[0].ptr), 4, owners=(*buffers, None), chars_limit=chars.nbytes
    )
    sizes: dict[str, Any] = {"tile_size": first_values.segments[0].layout.tile_size} if first_values.segments else {}
    (segments,) = yield from text.steps([codec_of()], [TextTask(strings, **sizes)], lane=lane)
    return of_parts(first_values.type, segments)
