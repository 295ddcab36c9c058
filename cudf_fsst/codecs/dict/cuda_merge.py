"""Scopes with dictionaries that become one, in GPU memory: the bytes of `cpu_merge.merge`.

Values are few, so the host decides and numbers them. Codes stay on the GPU, where they are renumbered and packed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from ...buffers import DeviceStrings, HostStrings
from ...device import waits
from ...device.memory import Lane
from ...device.transfer import to_host
from ..cuda_tables import JobTables
from ..fsst import cuda_compress as fsst
from ..node import Node, Parts, dictionary_of, is_strings, of_scopes, of_validity
from ..values import cuda as fixed
from . import cpu_merge, cuda_pack, cuda_read, plan

#: Bytes for codes on their way.
_ROOM = 48 << 20


def merge(scopes: Sequence[Node], *, lane: Lane) -> list[Node]:
    """Consecutive scopes of a column; neighbours with dictionaries are one where that is smaller.

    Raises
    ------
    ValueError
        A part is damaged.
    """
    found: list[Node] = []
    for plain, some in groupby(scopes, lambda scope: is_strings(scope.type)):
        every = list(some)
        found += every if plain or len(every) == 1 else _merged(every, lane)
    return found


def _merged(scopes: Sequence[Node], lane: Lane) -> Iterator[Node]:
    there = _with_values(scopes, lane)
    first = 0
    while first < len(scopes):
        members, values = cpu_merge.together(there[first:])
        some = scopes[first : first + len(members)]
        yield _one(some, [one.numbers for one in members], values, lane) if len(some) > 1 else some[0]
        first += len(some)


def _with_values(scopes: Sequence[Node], lane: Lane) -> list[Node]:
    """The scopes, with their values in host memory, and without other parts."""
    moved = iter(to_host([part for scope in scopes for part in scope.children[0].parts], stream=lane.given))
    return [
        Node(scope.type, scope.rows, 0, (), (), (), (scope.children[0].with_parts(moved),), scope.chars)
        for scope in scopes
    ]


class _Codes:
    """Codes of scopes one after another, renumbered: `cuda_pack.CodedRows`."""

    def __init__(self, scopes: Sequence[Node], numbers: Sequence[Any], itemsize: int, mask: int, lane: Lane) -> None:
        self._scopes, self._lane = scopes, lane
        self._edges = list(accumulate((scope.rows for scope in scopes), initial=0))
        self.rows, self.itemsize, self.validity = self._edges[-1], itemsize, (mask, 0)
        self.null_count = sum(scope.null_count for scope in scopes)
        self._host = [np.append(one, 0).astype(f"<u{itemsize}") for one in numbers]
        self._tables = lane.allocate(sum(one.nbytes for one in self._host))
        self._places = list(accumulate((one.nbytes for one in self._host), initial=int(self._tables.ptr)))
        for at, one in zip(self._places, self._host, strict=False):
            lane.upload(at, one)

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows, at once."""
        last = first + rows
        for number, scope in enumerate(self._scopes):
            begin, end = self._edges[number], self._edges[number + 1]
            a, b = max(begin, first), min(end, last)
            if a < b:
                to = out + (a - first) * self.itemsize
                table = self._places[number], self.itemsize
                cuda_read.remap(scope, *table, to, lane=self._lane, start=a - begin, stop=b - begin)


def _one(scopes: Sequence[Node], numbers: Sequence[Any], values: HostStrings, lane: Lane) -> Node:
    """The scope that some become; `numbers`: of the values of each among `values`."""
    own, kind = scopes[0].children[0], scopes[0].children[0].type
    mask = cuda_read.validity(of_scopes(kind, list(scopes)), lane=lane)
    itemsize = plan.itemsize(values.rows)
    codes = _Codes(scopes, numbers, itemsize, 0 if mask is None else int(mask.ptr), lane)
    steps: list[waits.Steps] = [_compress(own, values, lane), cuda_pack.pack_pieces(codes, _ROOM, lane)]
    if mask is not None:
        bits = fixed.StreamSource.bitmap(int(mask.ptr), 0, codes.rows)
        steps.append(fixed.compress([fixed.StreamTask(bits, what=of_validity(None))], lane=lane))
    own, packed, *made = waits.run(lane, *steps)
    validity: Parts = made[0][0] if made else ()
    chars = sum(scope.chars for scope in scopes)
    type_ = dictionary_of(kind, itemsize)
    return Node(type_, codes.rows, codes.null_count, validity, (tuple(packed),), (), (own,), chars)


def _compress(own: Node, values: HostStrings, lane: Lane) -> Generator[None, None, Node]:
    """Compress values, unless they are those of the first scope, `own`."""
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
    (segments,) = yield from fsst.compress([fsst.TextTask(strings, **sizes)], lane=lane)
    made = Node(own.type, values.rows, 0, segments=tuple(segments))
    cuda_read.know_longest(made, int(np.diff(offsets).max()))
    return made
