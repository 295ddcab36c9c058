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
from ..backend import DeviceBackend
from .pieces import Aggregate
from .source import FrameSource

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


def number_rows(frame: FrameSource, places: Sequence[int], dropna: bool, limit: int) -> GroupNumbers | None:
    """Numbers of the groups of a frame's rows; None where there may be more than `limit`.

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
        if count > limit:
            return None
        key_codes = codes.astype(np.int8)
        if node.null_count:
            valid = backend.as_bits(backend.validity(node))
            key_codes = array.where(valid, key_codes, np.int8(-1 if dropna else size - 1))
        if numbers is None:
            numbers = key_codes
        elif dropna:
            numbers = array.where((numbers < 0) | (key_codes < 0), np.int8(-1), numbers * np.int8(size) + key_codes)
        else:
            numbers = numbers * np.int8(size) + key_codes
        sizes.append(size)
        values.append(dtype.categories)
    return GroupNumbers(numbers, sizes, values)


class GroupSums(NamedTuple):
    """Sums of the groups that have rows, in the order of their numbers.

    Attributes
    ----------
    numbers : ndarray of int64
        Theirs.
    columns : dict
        Of each aggregate an array with one value for each group.
    """

    numbers: npt.NDArray[np.int64]
    columns: dict[Aggregate, npt.NDArray[Any]]


def supports(frame: FrameSource, column_aggregate: Aggregate) -> bool:
    """Whether `aggregate` computes such an aggregate of such a column; else the library does."""
    content = frame._columns[column_aggregate.place]
    plain = pa.types.is_integer(content.type) or (pa.types.is_floating(content.type) and content.type.bit_width > 16)
    if content.node.null_count == content.node.rows and column_aggregate.how != "size":
        return False
    full = not content.node.null_count and not pa.types.is_nested(content.type)
    if column_aggregate.how == "mean" and pa.types.is_uint64(content.type):
        return False  # whose sums cuDF may take for signed ones
    return column_aggregate.how in NAMES and (
        plain
        or column_aggregate.how == "size"
        or (column_aggregate.how == "count" and full and not pa.types.is_floating(content.type))
    )


def aggregate(
    frame: FrameSource, numbers: GroupNumbers, aggregates: Sequence[Aggregate], limit: int
) -> GroupSums | None:
    """Aggregates of a compressed frame's columns; None where a group has too few values for one.

    Parameters
    ----------
    frame : CompressedFrame
        On a GPU, with rows.
    numbers
    aggregates
        See `supports`.
    limit : int
        Bytes of values to decode at a time.
    """
    count = int(np.prod(numbers.sizes))
    read_places = [
        place
        for place in dict.fromkeys(column_aggregate.place for column_aggregate in aggregates)
        if _needs_values(frame, place, aggregates)
    ]
    requests: list[tuple[int, str]] = [(-1, "integers")]  # rows
    for number, place in enumerate(read_places):
        names = {column_aggregate.how for column_aggregate in aggregates if column_aggregate.place == place}
        spread = bool(names & {"var", "std"})
        is_integer = pa.types.is_integer(frame._columns[place].type)
        if is_integer and names & {"sum", "mean", "count"}:
            requests.append((number, "integers"))
        if spread or not is_integer:
            requests.append((number, "floats"))
        requests += [(number, "squares")] if spread else []
        requests += [(number, how) for how, name in (("least", "min"), ("greatest", "max")) if name in names]
    part = frame._columns_at(read_places)
    pieces = part._pieces(limit) if read_places else [(0, len(frame))]
    assert isinstance(frame._backend, DeviceBackend)
    partials = frame._backend.group_sums(part._nodes, pieces, numbers.of_rows, count, requests)
    answers = {column_aggregate: partials[:, place] for place, column_aggregate in enumerate(requests)}
    sizes = answers[-1, "integers"][:, 1].sum(axis=0)
    observed = np.flatnonzero(sizes)
    columns: dict[Aggregate, npt.NDArray[Any]] = {}
    if not observed.size:
        return None  # dtypes of answers without groups are others
    for column_aggregate in aggregates:
        if column_aggregate.place not in read_places or column_aggregate.how == "size":
            columns[column_aggregate] = sizes[observed].astype(np.int64)
            continue
        number, kind = read_places.index(column_aggregate.place), frame._columns[column_aggregate.place].type
        column = _SummedColumn({how: sums for (place, how), sums in answers.items() if place == number}, kind)
        values, counts, least = column.answer(column_aggregate.how)
        if (counts[observed] < least).any():
            return None
        columns[column_aggregate] = values[observed]
    return GroupSums(observed, columns)


def _needs_values(frame: FrameSource, place: int, aggregates: Sequence[Aggregate]) -> bool:
    content = frame._columns[place]
    full = not content.node.null_count and not pa.types.is_floating(content.type)
    names = {column_aggregate.how for column_aggregate in aggregates if column_aggregate.place == place}
    return bool(names - ({"size", "count"} if full else {"size"}))


class _SummedColumn(NamedTuple):
    """Results of the kernels for a column, by their names: arrays of shape (pieces, 2, groups), values and counts."""

    answers: dict[str, npt.NDArray[np.uint64]]
    kind: pa.DataType

    def answer(self, how: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], int]:
        """An aggregate of each group, the number of values behind it, and the least number that it needs."""
        if how in ("min", "max"):
            extremes = self.answers["least" if how == "min" else "greatest"]
            ranks = extremes[:, 0].max(axis=0)
            return _from_ranks(~ranks if how == "min" else ranks, self.kind), extremes[:, 1].sum(axis=0), 1
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
            distances = np.where(counts > 0, sums / counts - sums.sum(axis=0) / count, 0)
            squares_sum = np.where(counts > 0, squares, 0).sum(axis=0) + (counts * distances**2).sum(axis=0)
            values = squares_sum / (count.astype(np.float64) - 1)
        return np.sqrt(values) if how == "std" else values, count, 2


def _from_ranks(ranks: npt.NDArray[np.uint64], kind: pa.DataType) -> npt.NDArray[Any]:
    """The numbers whose ranks, unsigned integers in the same order, the kernels gave."""
    top = np.uint64(1 << 63)
    if pa.types.is_unsigned_integer(kind):
        return ranks
    if pa.types.is_integer(kind):
        return (ranks ^ top).view(np.int64)
    return np.where(ranks & top, ranks ^ top, ~ranks).view(np.float64)
