"""A number for the group of each row, in host memory: made of the codes of the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..backend import Backend
from ..codecs.node import DictPart, Node
from ..interop import pandas as interop_pandas
from .source import FrameSource

#: Numbers of groups that may be there, whatever codes come together; of more, and of more than rows, those that are.
_MOST_LOOSE = 1 << 16
#: Groups whose numbers are of one byte.
_MOST_INT8 = 127
#: Rows that tell in most cases that groups do not lie together.
_SEEN_ROWS = 1 << 12


def of_rows(frame: FrameSource, places: Sequence[int], dropna: bool) -> tuple[npt.NDArray[Any], int]:
    """The group of each row, numbered from 0, -1 of rows in none; and a number above all of them.

    Keys of strings with a dictionary are not decoded. Some numbers may have no rows.

    Parameters
    ----------
    frame : CompressedFrame
        In host memory, with rows.
    places
        Of the keys.
    dropna : bool
        Rows with a missing key are in no group. Otherwise missing keys are equal to each other.
    """
    numbers, count = np.zeros(0, np.int8), 0
    for key, place in enumerate(places):
        codes, size = _codes_of(frame, place)
        if not dropna and bool((codes < 0).any()):
            codes = codes.astype(np.min_scalar_type(-size - 1), copy=True)
            codes[codes < 0] = size
            size += 1
        numbers, count = _combined(numbers, count, codes, size) if key else (codes, size)
    return numbers.astype(np.int8 if count <= _MOST_INT8 else np.int32, copy=False), count


def _combined(
    numbers: npt.NDArray[Any], count: int, codes: npt.NDArray[Any], size: int
) -> tuple[npt.NDArray[Any], int]:
    """The number of each row's pair of a group and the code of one more key, and a number above all of them."""
    missing = (numbers < 0) | (codes < 0)
    missing_rows = missing if missing.any() else None
    kind = np.min_scalar_type(-max(count, 1) * max(size, 1) - 1)  # also where all of one key are missing
    pairs = numbers.astype(kind) * kind.type(size) + codes.astype(kind, copy=False)
    if count * size > max(_MOST_LOOSE, len(pairs)):
        distinct = pd.unique(pairs if missing_rows is None else pairs[~missing_rows])
        pairs, count = pd.Index(distinct).get_indexer(pairs), len(distinct)
    else:
        count *= size
    if missing_rows is not None:
        pairs[missing_rows] = -1
    return pairs, count


def _codes_of(frame: FrameSource, place: int) -> tuple[npt.NDArray[Any], int]:
    """Codes of a key's rows, -1 of missing ones, and how many values there are."""
    column = frame.column_at(place)
    if column._content.node.coded:
        runs = column._content.node.runs
        if len(runs) == 1 and not isinstance(runs[0], Node):
            return _codes_of_dictionary(frame._backend, runs[0])
        codes, values = interop_pandas.codes_of(column._as_categories())
        return codes, len(values)
    series = column._unlabelled(0, None)
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.array.codes, len(series.array.categories)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufmM":
        sorted_codes = _codes_of_sorted(series.to_numpy())
        if sorted_codes is not None:
            return sorted_codes
    codes, values = pd.factorize(series)
    return codes, len(values)


def _codes_of_dictionary(backend: Backend, part: DictPart) -> tuple[npt.NDArray[Any], int]:
    """Codes as a dictionary has them, which need no other order: 3 times as fast as those of categories."""
    (read,) = backend.read([part.indices])
    count, missing = part.values.rows, None
    if part.null_count:
        missing = ~backend.as_bits(read).view(np.bool_)
        read.values[missing] = 0
    if int(read.values.max()) >= max(count, 1):
        raise ValueError("damaged segment: a code of a value that the dictionary does not have")
    codes = read.values.astype(np.min_scalar_type(-count - 1))
    if missing is not None:
        codes[missing] = -1
    return codes, count


def _codes_of_sorted(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int] | None:
    """Codes of values that ascend, none of them missing, without a hash table: 20 times as fast; None of others."""
    for part in (values[:_SEEN_ROWS], values):
        if not bool((part[1:] >= part[:-1]).all()) or part[:1].size == 0 or part[0] != part[0]:
            return None
    codes = np.zeros(len(values), np.int32)
    np.cumsum(values[1:] != values[:-1], out=codes[1:])
    return codes, int(codes[-1]) + 1


def is_sorted(numbers: npt.NDArray[Any], count: int) -> bool:
    """Whether rows of a group lie together, so that the groups may be in the rows' order."""
    return all(
        int(np.count_nonzero(part[1:] != part[:-1])) <= count for part in (numbers[: count + _SEEN_ROWS], numbers)
    )
