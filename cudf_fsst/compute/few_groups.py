"""Aggregates of few groups on a GPU, piece by piece of the values.

Keys are strings with a dictionary, so a group has a small number, which is made of their codes. For so few groups the
kernels of ``group_sums.cu`` add without atomics: of 60 million rows one column takes 0.2 ms on an H200, where cuDF's
group-by of a plain integer takes 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import query
from .pieces import WantedColumn

#: What `aggregate` knows.
NAMES = frozenset("sum mean var std count size min max".split())


class GroupNumbers(NamedTuple):
    """A number for each row's group, in the order of the keys.

    Attributes
    ----------
    of_rows : cupy.ndarray of int8
        -1 of rows in no group.
    sizes : list of int
        Of each key, how many codes there are: of its values, then of missing ones.
    values : list
        Of each key, an Index of its values.
    """

    of_rows: Any
    sizes: list[int]
    values: list[Any]


def number_rows(frame: Any, places: Sequence[int], dropna: bool, most: int) -> GroupNumbers | None:
    """Numbers of the groups of a frame's rows; None where there may be more than `most`.

    Parameters
    ----------
    frame : CompressedFrame
        On a GPU.
    places
        Of the keys, strings with a dictionary.
    dropna : bool
        Rows with a missing key are in no group.
    """
    backend = frame._backend
    array, numbers, sizes, values, count = backend.arrays, None, list[int](), [], 1
    for place in places:
        node = frame._columns[place].node
        if node.null_count == node.rows:
            return None
        codes, dtype = query.coded(frame.column_at(place))
        size = len(dtype.categories) + 1
        count *= size
        if count > most:
            return None
        own = codes.astype(np.int8)
        if node.null_count:
            there = backend.as_bits(backend.validity(node))
            own = array.where(there, own, np.int8(-1 if dropna else size - 1))
        if numbers is None:
            numbers = own
        elif dropna:
            numbers = array.where((numbers < 0) | (own < 0), np.int8(-1), numbers * np.int8(size) + own)
        else:
            numbers = numbers * np.int8(size) + own
        sizes.append(size)
        values.append(dtype.categories)
    return GroupNumbers(numbers, sizes, values)


class GroupSums(NamedTuple):
    """Sums of the groups that have rows, in the order of their numbers.

    Attributes
    ----------
    numbers : ndarray of int64
        Theirs.
    found : dict
        Of what was wanted, an array with one value for each.
    """

    numbers: npt.NDArray[np.int64]
    found: dict[WantedColumn, npt.NDArray[Any]]


def can(frame: Any, wanted: WantedColumn) -> bool:
    """Whether `aggregate` gives this."""
    content = frame._columns[wanted.place]
    plain = pa.types.is_integer(content.type) or (pa.types.is_floating(content.type) and content.type.bit_width > 16)
    if content.node.null_count == content.node.rows and wanted.how != "size":
        return False
    full = not content.node.null_count and not pa.types.is_nested(content.type)
    if wanted.how == "mean" and pa.types.is_uint64(content.type):
        return False  # whose sums cuDF may take for signed ones
    return wanted.how in NAMES and (
        plain or wanted.how == "size" or (wanted.how == "count" and full and not pa.types.is_floating(content.type))
    )


def aggregate(frame: Any, numbers: GroupNumbers, wanted: Sequence[WantedColumn], limit: int) -> GroupSums | None:
    """Aggregates of a compressed frame's columns; None where a group has too few values for one.

    Parameters
    ----------
    frame : CompressedFrame
        On a GPU, with rows.
    numbers
    wanted
        See `can`.
    limit : int
        Bytes of values to decode at a time.
    """
    count = int(np.prod(numbers.sizes))
    read = [place for place in dict.fromkeys(one.place for one in wanted) if _needs_values(frame, place, wanted)]
    asked: list[tuple[int, str]] = [(-1, "integers")]  # rows
    for number, place in enumerate(read):
        hows = {one.how for one in wanted if one.place == place}
        spread = bool(hows & {"var", "std"})
        exact = pa.types.is_integer(frame._columns[place].type)
        if exact and hows & {"sum", "mean", "count"}:
            asked.append((number, "integers"))
        if spread or not exact:
            asked.append((number, "floats"))
        asked += [(number, "squares")] if spread else []
        asked += [(number, how) for how, name in (("least", "min"), ("greatest", "max")) if name in hows]
    part = frame._of_places(read)
    pieces = part._pieces(limit) if read else [(0, len(frame))]
    made = frame._backend.group_sums(part._nodes, pieces, numbers.of_rows, count, asked)
    answers = {one: made[:, place] for place, one in enumerate(asked)}
    sizes = answers[-1, "integers"][:, 1].sum(axis=0)
    observed = np.flatnonzero(sizes)
    found: dict[WantedColumn, npt.NDArray[Any]] = {}
    if not observed.size:
        return None  # dtypes of answers without groups are others
    for one in wanted:
        if one.place not in read or one.how == "size":
            found[one] = sizes[observed].astype(np.int64)
            continue
        number, kind = read.index(one.place), frame._columns[one.place].type
        column = _SummedColumn({how: some for (place, how), some in answers.items() if place == number}, kind)
        values, counts, least = column.answer(one.how)
        if (counts[observed] < least).any():
            return None
        found[one] = values[observed]
    return GroupSums(observed, found)


def _needs_values(frame: Any, place: int, wanted: Sequence[WantedColumn]) -> bool:
    content = frame._columns[place]
    full = not content.node.null_count and not pa.types.is_floating(content.type)
    hows = {one.how for one in wanted if one.place == place}
    return bool(hows - ({"size", "count"} if full else {"size"}))


class _SummedColumn(NamedTuple):
    """What the pieces of a column gave: of each `how` values and counts, by piece, which of the two, and group."""

    answers: dict[str, npt.NDArray[np.uint64]]
    kind: pa.DataType

    def answer(self, how: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], int]:
        """An aggregate of each group, how many values it is made of, and how many these must be."""
        if how in ("min", "max"):
            found = self.answers["least" if how == "min" else "greatest"]
            ranks = found[:, 0].max(axis=0)
            return _of_ranks(~ranks if how == "min" else ranks, self.kind), found[:, 1].sum(axis=0), 1
        sums = self.answers.get("integers")
        if how in ("var", "std"):
            return self._spread(how)
        if sums is None:
            sums = self.answers["floats"]
            total: npt.NDArray[Any] = sums[:, 0].view(np.float64).sum(axis=0)
        else:
            signed = not pa.types.is_unsigned_integer(self.kind)
            total = sums[:, 0].sum(axis=0).view(np.int64 if signed else np.uint64)
        counts = sums[:, 1].sum(axis=0)
        if how == "mean":
            with np.errstate(invalid="ignore", divide="ignore"):
                return total / counts, counts, 1
        return (counts.astype(np.int64), counts, 0) if how == "count" else (total, counts, 1)

    def _spread(self, how: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], int]:
        """Spread of each group, by that of its pieces and of their means (Chan, Golub and LeVeque)."""
        sums, squares = (self.answers[name][:, 0].view(np.float64) for name in ("floats", "squares"))
        counts = self.answers["floats"][:, 1]
        count = counts.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(counts > 0, sums / counts - sums.sum(axis=0) / count, 0)
            some = np.where(counts > 0, squares, 0).sum(axis=0) + (counts * apart**2).sum(axis=0)
            values = some / (count.astype(np.float64) - 1)
        return np.sqrt(values) if how == "std" else values, count, 2


def _of_ranks(ranks: npt.NDArray[np.uint64], kind: pa.DataType) -> npt.NDArray[Any]:
    """The numbers that the kernels rank so."""
    top = np.uint64(1 << 63)
    if pa.types.is_unsigned_integer(kind):
        return ranks
    if pa.types.is_integer(kind):
        return (ranks ^ top).view(np.int64)
    return np.where(ranks & top, ranks ^ top, ~ranks).view(np.float64)
