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
from ..node import Node, Parts, dict_part, of_parts, of_validity
from ..part import Part
from ..text import cuda as text
from ..text.choose import codec_of
from ..text.cuda_task import TextTask
from ..values import cuda as fixed
from . import cpu_merge, cuda_answer, cuda_pack, plan
from .part import DictPart

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
    there = [replace(part, values=part.values.with_parts(moved)) for part in parts]
    first = 0
    while first < len(parts):
        members, values = cpu_merge.together(there[first:])
        some = parts[first : first + len(members)]
        yield _merged_part(some, [one.numbers for one in members], values, lane) if len(some) > 1 else some[0]
        first += len(some)


class _Codes:
    """Codes of parts one after another, renumbered: `cuda_pack.CodedRows`."""

    def __init__(self, parts: Sequence[DictPart], numbers: Sequence[Any], itemsize: int, mask: int, lane: Lane) -> None:
        self._parts, self._lane = parts, lane
        self._edges = list(accumulate((part.rows for part in parts), initial=0))
        self.rows, self.itemsize, self.validity = self._edges[-1], itemsize, (mask, 0)
        self.null_count = sum(part.null_count for part in parts)
        self._host = [np.append(one, 0).astype(f"<u{itemsize}") for one in numbers]
        self._tables = lane.allocate(sum(one.nbytes for one in self._host))
        self._places = list(accumulate((one.nbytes for one in self._host), initial=int(self._tables.ptr)))
        for at, one in zip(self._places, self._host, strict=False):
            lane.upload(at, one)

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows, at once."""
        last = first + rows
        for number, part in enumerate(self._parts):
            begin, end = self._edges[number], self._edges[number + 1]
            a, b = max(begin, first), min(end, last)
            if a < b:
                to = out + (a - first) * self.itemsize
                table = self._places[number], self.itemsize
                cuda_answer.remap(part, *table, to, lane=self._lane, start=a - begin, stop=b - begin)


def _merged_part(parts: Sequence[DictPart], numbers: Sequence[Any], values: HostStrings, lane: Lane) -> DictPart:
    """One part of the rows of consecutive ones; `numbers`: of the values of each among `values`."""
    own = parts[0].values
    mask = device_strings.validity(of_parts(own.type, parts), lane=lane)
    itemsize = plan.itemsize(values.rows)
    codes = _Codes(parts, numbers, itemsize, 0 if mask is None else int(mask.ptr), lane)
    steps: list[waits.Steps] = [_compress(own, values, lane), cuda_pack.pack_pieces(codes, _ROOM, lane)]
    if mask is not None:
        bits = fixed.StreamSource.bitmap(int(mask.ptr), 0, codes.rows)
        steps.append(fixed.compress([fixed.StreamTask(bits, what=of_validity(None))], lane=lane))
    own, packed, *made = waits.run(lane, *steps)
    validity: Parts = made[0][0] if made else ()
    chars, longest = sum(part.chars for part in parts), int(np.diff(values.offsets).max(initial=0))
    return dict_part(own, tuple(packed), validity, codes.null_count, chars, longest)


def _compress(own: Node, values: HostStrings, lane: Lane) -> Generator[None, None, Node]:
    """Compress values, unless they are those of the first part, `own`."""
    if own.rows == values.rows:
        return own
    offsets, chars = values.offsets.astype(np.int32), values.chars
    there = lane.allocate(offsets.nbytes), lane.allocate(chars.nbytes)
    lane.upload(int(there[0].ptr), offsets)
    lane.upload(int(there[1].ptr), chars)
    strings = DeviceStrings(
        values.rows, int(there[1].ptr), int(there[0].ptr), 4, owners=(*there, None), chars_limit=chars.nbytes
    )
    sizes: dict[str, Any] = {"tile_size": own.segments[0].layout.tile_size} if own.segments else {}
    (segments,) = yield from text.steps([codec_of()], [TextTask(strings, **sizes)], lane=lane)
    return of_parts(own.type, segments)
