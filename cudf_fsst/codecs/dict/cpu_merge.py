"""Parts with dictionaries that become one, on the host: values once each, codes renumbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..node import DictPart, dict_part, of_parts, of_validity
from ..part import Packed, Part
from ..registry import of_text
from ..text import cpu as text
from ..text.choose import codec_of
from ..text.cpu_joined import DecodedRows, joined, put_valid
from ..values import cpu as fixed
from ..work import cut
from . import plan
from .cpu import bits_of, look_up
from .distinct import Codes, ValueTable

#: Characters of values that are decoded together.
_VALUES_NBYTES = 2**26


class Member(NamedTuple):
    """A part, and the number of each of its values among those of all."""

    part: DictPart
    numbers: Codes


def merge(parts: Sequence[Part]) -> list[Part]:
    """Consecutive parts of a column; neighbours with dictionaries are one where that is smaller (`plan.merges`).

    Raises
    ------
    ValueError
        A part is damaged.
    """
    parts_merged: list[Part] = []
    for neighbours in runs(parts):
        while len(neighbours) > 1:
            members, values = next_merge(neighbours)
            parts_merged.append(_merged_part(members, values) if len(members) > 1 else neighbours[0])
            neighbours = neighbours[len(members) :]
        parts_merged += neighbours
    return parts_merged


def runs(parts: Sequence[Part]) -> Iterator[list[Any]]:
    """Consecutive parts: neighbours with dictionaries together, each other one by itself."""
    for coded, group in groupby(parts, lambda part: isinstance(part, DictPart)):
        neighbours = list(group)
        yield from [neighbours] if coded else ([part] for part in neighbours)


def _size(part: DictPart) -> plan.Size:
    return plan.Size(part.rows, part.values.rows, part.values.chars_nbytes)


def next_merge(parts: Sequence[DictPart]) -> tuple[list[Member], HostStrings]:
    """The parts from the first one on that become one, at least that one, and their values.

    Nothing but their values is read.
    """
    first = parts[0]
    size, chars = _size(first), first.chars
    members = [Member(first, np.arange(size.values, dtype=np.uint32))]
    values = text.read(first.values.segments)
    while len(members) < len(parts):
        batch, nbytes = list[DictPart](), 0
        for part in parts[len(members) :]:
            nbytes += part.values.chars_nbytes
            if batch and nbytes > _VALUES_NBYTES:
                break
            batch.append(part)
        strings = joined([DecodedRows(values), *(DecodedRows(text.read(part.values.segments)) for part in batch)])
        table, sizes = ValueTable(strings), np.diff(strings.offsets.astype(np.int64))
        table.insert(0, values.rows, strings.rows + 1)
        ends = np.cumsum([values.rows, *(part.values.rows for part in batch)]).tolist()
        for part, (start, stop) in zip(batch, pairwise(ends), strict=True):
            numbers = table.insert(start, stop, strings.rows + 1)
            assert numbers is not None
            more = int(sizes[table.firsts[size.values :]].sum())
            union = plan.Size(size.rows + part.rows, table.count, size.chars + more)
            if not plan.merges(size, _size(part), union.rows, chars + part.chars, union):
                return members, text.gather(strings, table.firsts[: size.values])
            members.append(Member(part, numbers))
            size, chars = union, chars + part.chars
        values = text.gather(strings, table.firsts)
    return members, values


def _merged_part(members: Sequence[Member], values: HostStrings) -> DictPart:
    """One part of the rows of consecutive ones."""
    rows, nulls = sum(member.part.rows for member in members), sum(member.part.null_count for member in members)
    edges = np.cumsum([0, *(member.part.rows for member in members)]).tolist()
    validity: tuple[Packed, ...] = ()
    bitmap: npt.NDArray[np.uint8] | None = None
    if nulls:
        bitmap = np.zeros(-(-rows // 8), np.uint8)
        for member, start in zip(members, edges, strict=False):
            put_valid(bitmap, start, member.part.rows, bits_of(member.part, 0, member.part.rows))
        validity = fixed.compress(bitmap, what=of_validity(None))
    itemsize = plan.itemsize(values.rows)
    codes: list[Packed] = []
    for start, stop in cut(0, rows, plan.PIECE_CODES):
        piece = np.empty(stop - start, f"<u{itemsize}")
        for member, (begin, end) in zip(members, pairwise(edges), strict=True):
            a, b = max(begin, start), min(end, stop)
            if a < b:
                look_up(member.part, member.numbers.astype(piece.dtype), piece[a - start : b - start], a - begin)
        codes += fixed.compress(piece if bitmap is None else fixed.fill_nulls(piece, bitmap, start), choice=plan.CODES)
    merged_values = members[0].part.values
    if merged_values.rows < values.rows:
        sizes: dict[str, Any] = (
            {"tile_size": merged_values.segments[0].layout.tile_size} if merged_values.segments else {}
        )
        codec = of_text(merged_values.segments[0].codec) if merged_values.segments else codec_of()
        merged_values = of_parts(merged_values.type, text.compress(values, codec, **sizes))
    return dict_part(merged_values, tuple(codes), validity, nulls, sum(member.part.chars for member in members))
