"""``frame.merge``: the library joins keys and numbers of rows, `take` decodes the other columns of what it found."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import selection
from ..interop import cudf as interop_cudf
from ..rows import Rows

#: Labels of the numbers of rows: none of them is a text of a user's, as all columns get numbers for labels.
_LEFT, _RIGHT = "left row", "right row"
#: Joins for which rows of a side that find nothing need not be there.
_LEAVES_OUT = {_LEFT: ("inner", "right", "leftsemi"), _RIGHT: ("inner", "left", "leftsemi")}
#: Joins whose results have the columns of both.
_BOTH_SIDES = ("inner", "left", "right", "outer")
#: How many times fewer rows make it worth while to look for them first.
_LESS = 4


class _Side(NamedTuple):
    """One of the two frames.

    Attributes
    ----------
    data : CompressedFrame or DataFrame
    keys : list of int
        Places of the columns that are joined; none where the index is.
    labels : list of int or str
        What columns are called while they are joined.
    number : str
        Label of the numbers of rows.
    """

    data: Any
    keys: Sequence[int]
    labels: Sequence[Any]
    number: str

    def rows(self, start: int, stop: int | None) -> Any:
        """Rows as a DataFrame."""
        return self.data._range(start, stop) if isinstance(self.data, Rows) else self.data.iloc[start:stop]

    def column(self, place: int) -> Any:
        """A column as a Series."""
        return self.data._series_at(place) if isinstance(self.data, Rows) else self.data.iloc[:, place]  # type: ignore[attr-defined]

    def joined(self, other: _Side, how: str, *, fewer: bool) -> Any:
        """A DataFrame of the keys and the numbers of rows, with the index; `fewer`: without rows that find nothing."""
        if isinstance(self.data, Rows):
            part = self.data._of_places(list(self.keys))  # type: ignore[attr-defined]  # of a frame
            rows = self._candidates(other) if fewer and how in _LEAVES_OUT[self.number] else None
            if rows is None:
                made, numbers = part._range(0, None), self.data._row_numbers()  # type: ignore[attr-defined]
            else:
                made, numbers = part._take(rows), getattr(rows, "rows", rows)
        else:
            made = self.data.iloc[:, list(self.keys)].copy(deep=False)
            numbers = np.arange(len(made))
        made.columns = [self.labels[place] for place in self.keys]
        made[self.number] = numbers
        return made

    def _candidates(self, other: _Side) -> Any:
        """Numbers of the rows whose first key the other side has, asked of the codes; None: all rows."""
        if not (self.keys and other.keys) or _LESS * len(other.data) > len(self.data):
            return None
        column = self.data.column_at(self.keys[0])  # of a frame
        key = other.column(other.keys[0])
        if key.dtype != column.dtype or isinstance(key.dtype, pd.CategoricalDtype) or bool(key.isna().any()):
            return None
        found = self.data._numbers(column.isin(key), selection.mask_rows)
        return found if _LESS * len(getattr(found, "rows", found)) < len(self.data) else None

    def take(self, places: Sequence[int], numbers: Any, whole: Any) -> Any:
        """Columns of rows by number, labelled from 0; `whole`: a Series of booleans, which numbers there are, or None.

        What is not there is missing, and dtypes are what the library makes of it.
        """
        if isinstance(self.data, Rows):
            part = self.data._of_places(list(places))  # type: ignore[attr-defined]
            backend = part._backend
            # On a GPU without a look at them: they are right.
            rows = part._numbers(numbers, selection.row_numbers) if backend.device == "cpu" else numbers
            labels = backend.interop.build_index({"names": [None], "range": [0, len(numbers), 1]}, [])
            made = part._built(backend.take(part._nodes, rows), labels)
        else:
            made = self.data.iloc[:, list(places)].take(numbers).reset_index(drop=True)
        if whole is None:
            return made
        # The numbers of the rows that were taken, in their places.
        return made.reindex((whole.cumsum() - 1).where(whole, -1).values)


def merge(left: Any, right: Any, how: str, options: Mapping[str, Any]) -> Any:
    """What ``left.decompress().merge(right, how, **options)`` gives."""
    right, _ = interop_cudf.unwrap_proxy(right)
    with left._backend.current():
        sides = _sides(left, right, how, options)
        labels = None if sides is None else _labels(*sides, how, options)
        if sides is None or labels is None:
            other = right._range(0, None) if isinstance(right, Rows) else right
            return left._out(left._range(0, None).merge(other, how=how, **options))
        return left._out(_merged(*sides, how, options, labels))


def _sides(left: Any, right: Any, how: str, options: Mapping[str, Any]) -> tuple[_Side, _Side] | None:
    """The two sides; None where the library has to see all columns."""
    if not isinstance(right, Rows) and getattr(right, "ndim", 0) != 2:
        return None
    labels = [left.columns, right.columns]
    if any(one.nlevels > 1 or not one.is_unique for one in labels):
        return None
    on, keys = options.get("on"), [options.get("left_on"), options.get("right_on")]
    by_index = [bool(options.get("left_index")), bool(options.get("right_index"))]
    if on is not None:
        if any(by_index) or any(one is not None for one in keys):
            return None  # the library's error
        keys = [on, on]
    elif all(one is None for one in keys) and not any(by_index) and how != "cross":
        shared = labels[0].intersection(labels[1])
        if not len(shared):
            return None  # the library's error
        keys = [[label for label in labels[0] if label in shared]] * 2
    indexes = [_index_names(left), _index_names(right)]
    places: list[list[int]] = []
    for one, known, names in zip(keys, labels, indexes, strict=True):
        some = [] if one is None else list(one) if isinstance(one, (list, tuple)) else [one]
        if not all(isinstance(key, Hashable) and key in known and key not in names for key in some):
            return None
        places.append([int(known.get_loc(key)) for key in some])
    if any(len(set(one)) < len(one) for one in places):
        return None
    if any(by_index) and any(
        mine[place] in other for own, mine, other in zip(places, labels, reversed(labels), strict=True) for place in own
    ):
        return None  # a key that is a label of the other side becomes a third column
    counts = len(labels[0]), len(labels[1])
    called = [[f"l{place}" for place in range(counts[0])], [f"r{place}" for place in range(counts[1])]]
    for first, second in zip(*places, strict=False):
        if labels[0][first] == labels[1][second]:  # one column of the result
            # The library's errors name a key: by its label, where that is no name given above.
            label = labels[0][first]
            free = isinstance(label, str) and label not in (_LEFT, _RIGHT) and not re.fullmatch("[lrk][0-9]+", label)
            called[0][first] = called[1][second] = label if free else f"k{first}"
    return _Side(left, places[0], called[0], _LEFT), _Side(right, places[1], called[1], _RIGHT)


def _labels(left: _Side, right: _Side, how: str, options: Mapping[str, Any]) -> Any:
    """Labels of the result; None where the library may look at values to see whether it can join."""
    first, second = left.data.columns, right.data.columns
    own = second[[name not in left.labels for name in right.labels]]
    if not options.get("indicator") and how in _BOTH_SIDES and not len(first.intersection(own)):
        return first.append(own)
    some = [left.rows(0, 0), right.rows(0, 0)]
    try:
        return some[0].merge(some[1], how=how, **options).columns
    except ValueError:
        return None


def _index_names(data: Any) -> list[Any]:
    return [name for name in (data._index if isinstance(data, Rows) else data.index).names if name is not None]


def _merged(left: _Side, right: _Side, how: str, options: Mapping[str, Any], labels: Any) -> Any:
    given = {name: value for name, value in options.items() if name not in ("on", "left_on", "right_on", "suffixes")}
    if left.keys:
        given["left_on"] = [left.labels[place] for place in left.keys]
    if right.keys:
        given["right_on"] = [right.labels[place] for place in right.keys]
    if given.get("left_on") == given.get("right_on") and left.keys:
        given["on"] = given.pop("left_on")
        del given["right_on"]
    fewer = not options.get("validate")  # which looks at all keys
    found = left.joined(right, how, fewer=fewer).merge(right.joined(left, how, fewer=fewer), how=how, **given)
    interop, columns = left.data._backend.interop, list[Any]()
    joined = dict(zip(found.columns, interop.columns(found), strict=True))
    for side, other in ((left, None), (right, left)):
        if side.number not in joined:  # the rows of one side alone are asked for
            continue
        del joined[side.number]
        own = [name for name in side.labels if other is None or name not in other.labels]
        taken = [place for place, name in enumerate(side.labels) if name in own and name not in joined]
        numbers, whole = found[side.number], None
        if how != "inner" and numbers.isna().any():
            whole = numbers.notna().reset_index(drop=True)
            numbers = numbers.dropna()
        payload = interop.columns(side.take(taken, numbers.astype("int64").values, whole)) if taken else []
        by_name = dict(zip((side.labels[place] for place in taken), payload, strict=True))
        columns += [by_name[name] if name in by_name else joined.pop(name) for name in own]
    return interop.frame([*columns, *joined.values()], labels, found.index)  # last is the indicator
