"""Scopes with dictionaries that become one, on the host: values once each, codes renumbered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..bitmap import put, rebased
from ..node import Node, dictionary_of, is_strings, of_validity
from ..part import Packed
from ..registry import of_text
from ..text import cpu as text
from ..text.choose import codec_of
from ..values import cpu as fixed
from ..work import cut, run
from . import cpu_kernels as kernels
from . import plan
from .cpu import Codes, ValueTable, bits_of, codes_of, damaged, joined

#: Characters of values that are decoded together.
_VALUES_NBYTES = 2**26
_STEP_ROWS = 2**16


class Member(NamedTuple):
    """A scope, and the number of each of its values among those of all."""

    scope: Node
    numbers: Codes


def merge(scopes: Sequence[Node]) -> list[Node]:
    """Consecutive scopes of a column; neighbours with dictionaries are one where that is smaller (`plan.merges`).

    Raises
    ------
    ValueError
        A part is damaged.
    """
    found: list[Node] = []
    for plain, some in groupby(scopes, lambda scope: is_strings(scope.type)):
        one = list(some)
        found += one if plain else _merged(one)
    return found


def _merged(scopes: list[Node]) -> list[Node]:
    found: list[Node] = []
    while scopes:
        members, values = together(scopes)
        found.append(_one(members, values) if len(members) > 1 else scopes[0])
        scopes = scopes[len(members) :]
    return found


def _size(scope: Node) -> plan.Size:
    return plan.Size(scope.rows, scope.children[0].rows, scope.children[0].chars_nbytes)


def together(scopes: Sequence[Node]) -> tuple[list[Member], HostStrings]:
    """The scopes from the first one on that become one, at least that one, and their values.

    Of their parts only those of their values are read.
    """
    first = scopes[0]
    size, chars = _size(first), first.chars
    members = [Member(first, np.arange(size.values, dtype=np.uint32))]
    values = text.read(first.children[0].segments)
    while len(members) < len(scopes):
        batch, nbytes = list[Node](), 0
        for scope in scopes[len(members) :]:
            nbytes += scope.children[0].chars_nbytes
            if batch and nbytes > _VALUES_NBYTES:
                break
            batch.append(scope)
        strings = joined([values, *(text.read(scope.children[0].segments) for scope in batch)])
        table, sizes = ValueTable(strings), np.diff(strings.offsets.astype(np.int64))
        table.insert(0, values.rows, strings.rows + 1)
        ends = np.cumsum([values.rows, *(scope.children[0].rows for scope in batch)]).tolist()
        for scope, (start, stop) in zip(batch, pairwise(ends), strict=True):
            numbers = table.insert(start, stop, strings.rows + 1)
            assert numbers is not None
            more = int(sizes[table.firsts[size.values :]].sum())
            union = plan.Size(size.rows + scope.rows, table.count, size.chars + more)
            if not plan.merges(size, _size(scope), union.rows, chars + scope.chars, union):
                return members, text.gather(strings, table.firsts[: size.values])
            members.append(Member(scope, numbers))
            size, chars = union, chars + scope.chars
        values = text.gather(strings, table.firsts)
    return members, values


def _one(members: Sequence[Member], values: HostStrings) -> Node:
    """The scope that some become."""
    first = members[0].scope
    rows, nulls = sum(one.scope.rows for one in members), sum(one.scope.null_count for one in members)
    edges = np.cumsum([0, *(one.scope.rows for one in members)]).tolist()
    validity: tuple[Packed, ...] = ()
    bitmap: npt.NDArray[np.uint8] | None = None
    if nulls:
        bitmap = np.zeros(-(-rows // 8), np.uint8)
        for one, start in zip(members, edges, strict=False):
            bits = bits_of(one.scope, 0, one.scope.rows)
            if not bits.size:  # no nulls
                bits = rebased(np.full(-(-one.scope.rows // 8), 255, np.uint8), 0, one.scope.rows)
            put(bitmap, start, bits)
        validity = fixed.compress(bitmap, what=of_validity(None))
    itemsize = plan.itemsize(values.rows)
    codes: list[Packed] = []
    for start, stop in cut(0, rows, plan.PIECE_CODES):
        piece = np.empty(stop - start, f"<u{itemsize}")
        for one, (begin, end) in zip(members, pairwise(edges), strict=True):
            a, b = max(begin, start), min(end, stop)
            if a < b:
                _renumber(one, a - begin, b - begin, piece[a - start : b - start])
        codes += fixed.compress(piece if bitmap is None else fixed.fill_nulls(piece, bitmap, start), choice=plan.CODES)
    own = first.children[0]
    if own.rows < values.rows:
        sizes: dict[str, Any] = {"tile_size": own.segments[0].layout.tile_size} if own.segments else {}
        codec = of_text(own.segments[0].codec) if own.segments else codec_of()
        own = Node(own.type, values.rows, 0, segments=tuple(text.compress(values, codec, **sizes)))
    chars = sum(one.scope.chars for one in members)
    return Node(dictionary_of(own.type, itemsize), rows, nulls, validity, (tuple(codes),), (), (own,), chars)


def _renumber(member: Member, first: int, last: int, out: Codes) -> None:
    """Write codes of rows `first` to ``last - 1`` of a scope."""
    if not member.numbers.size:  # nulls alone
        out[:] = 0
        return
    codes, numbers = codes_of(member.scope, first, last), member.numbers.astype(out.dtype)
    work = [partial(kernels.look_up_codes, codes[a:b], numbers, out[a:b]) for a, b in cut(0, last - first, _STEP_ROWS)]
    if not all(run(work, last - first, 0)):
        raise damaged()
