"""``frame.merge``: the library joins keys and numbers of rows, `take` decodes the other columns of what it found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import query, selection
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
#: Options of joins that libcudf answers by itself.
_PLAIN = {"on", "left_on", "right_on", "suffixes"}


def _is_compressed(data: Any) -> bool:
    """Whether it is a CompressedFrame, no DataFrame."""
    return isinstance(data, Rows)


class _Side(NamedTuple):
    """One of the two frames.

    Attributes
    ----------
    data : CompressedFrame or DataFrame
    columns : pandas.Index
        Labels of its columns.
    keys : list of int
        Places of the columns that are joined; none where the index is.
    labels : list of int or str
        What columns are called while they are joined.
    number : str
        Label of the numbers of rows.
    """

    data: Any
    columns: pd.Index
    keys: Sequence[int]
    labels: Sequence[Any]
    number: str

    @property
    def is_compressed(self) -> bool:
        """Whether it is a CompressedFrame."""
        return _is_compressed(self.data)

    def rows(self, start: int, stop: int | None) -> Any:
        """Rows as a DataFrame."""
        return self.data._range(start, stop) if self.is_compressed else self.data.iloc[start:stop]

    def named_keys(self) -> Any:
        """A DataFrame of the keys by their own labels, with the index."""
        if self.is_compressed:
            return self.data._columns_at(list(self.keys))._range(0, None)
        return self.data.iloc[:, list(self.keys)]

    def column(self, place: int) -> Any:
        """A column as a Series."""
        if self.is_compressed:
            return self.data._series_at(place)
        if interop_cudf.is_cudf_frame(self.data):
            return interop_cudf.series(interop_cudf.columns(self.data)[place], None, None)
        return self.data.iloc[:, place]

    def joined(self, other: _Side, how: str, *, fewer: bool) -> Any:
        """A DataFrame of the keys and the numbers of rows, with the index; `fewer`: without rows that find nothing."""
        if self.is_compressed:
            key_columns = self.data._columns_at(list(self.keys))
            rows = self._candidates(other) if fewer and how in _LEAVES_OUT[self.number] else None
            if rows is None:
                table, numbers = key_columns._range(0, None), self.data._row_numbers()
            else:
                table, numbers = key_columns._take(rows), selection.row_array(rows)
        else:
            table = self.data.iloc[:, list(self.keys)].copy(deep=False)
            numbers = np.arange(len(table))
        table.columns = [self.labels[place] for place in self.keys]
        table[self.number] = numbers
        return table

    def _candidates(self, other: _Side) -> Any:
        """Numbers of the rows whose first key the other side has, asked of the codes; None: all rows."""
        if not (self.keys and other.keys) or _LESS * len(other.data) > len(self.data):
            return None
        column = self.data.column_at(self.keys[0])  # of a frame
        key = other.column(other.keys[0])
        matches = query.is_among(column, key)
        if matches is not None:
            mask = column._backend.as_array(matches).view(np.bool_)
        elif key.dtype != column.dtype or isinstance(key.dtype, pd.CategoricalDtype) or bool(key.isna().any()):
            return None
        else:
            mask = column.isin(key)
        rows = self.data._numbers(mask, selection.mask_rows)
        return rows if _LESS * len(selection.row_array(rows)) < len(self.data) else None

    def dtypes_on(self, device: str) -> list[Any] | None:
        """Dtypes of the keys, if these are on a GPU, None of categories; None where they are elsewhere."""
        if self.is_compressed:
            if self.data.device != device:
                return None
            part = self.data._columns_at(list(self.keys))
            return list(part._dtypes(categories=False))
        if not interop_cudf.is_cudf_frame(self.data):
            return None
        columns = interop_cudf.columns(self.data)
        return [columns[place].dtype for place in self.keys]

    def columns_of(self, places: Sequence[int], rows: Any) -> list[Any]:
        """Columns of cuDF's; `rows`: of a compressed frame, numbers of those that are read, or None."""
        if not self.is_compressed:
            columns = interop_cudf.columns(self.data)
            return [columns[place] for place in places]
        part, backend = self.data._columns_at(list(places)), self.data._backend
        read = backend.read(part._nodes) if rows is None else backend.take(part._nodes, rows)
        return [
            interop_cudf.build(buffers, content.type, content.stored)
            for buffers, content in zip(read, part._contents, strict=True)
        ]

    def take(self, places: Sequence[int], numbers: Any, present: Any) -> Any:
        """Columns of rows by number, a DataFrame labelled from 0.

        `present` is None, or a Series of booleans, one for each row of the result: each true one gets the next of
        `numbers`. Other rows are missing, and dtypes are what the library makes of that.
        """
        if self.is_compressed:
            part = self.data._columns_at(list(places))
            backend = part._backend
            # On a GPU without a look at them: they are right.
            rows = part._numbers(numbers, selection.row_numbers) if backend.device == "cpu" else numbers
            labels = backend.interop.build_index({"names": [None], "range": [0, len(numbers), 1]}, [])
            taken = part._built(backend.take(part._nodes, rows), labels)
        else:
            taken = self.data.iloc[:, list(places)].take(numbers).reset_index(drop=True)
        if present is None:
            return taken
        # The numbers of the rows that were taken, in their places.
        return taken.reindex((present.cumsum() - 1).where(present, -1).values)


def merge(left: Any, right: Any, how: str, options: Mapping[str, Any]) -> Any:
    """The result of ``left.decompress().merge(right, how, **options)``."""
    right, _ = interop_cudf.unwrap_proxy(right)
    with left._backend.current():
        _refuse(left, right, how, options)
        sides = _sides(left, right, how, options)
        labels = None if sides is None else _labels(*sides, how, options)
        result = None
        if sides is not None and labels is not None:
            result = _inner(*sides, options, labels) if how == "inner" else None
            try:
                result = _merged(*sides, how, options, labels) if result is None else result
            except (TypeError, ValueError):
                labels = None
            if labels is None:  # the library says why not, of columns that have the user's labels
                sides[0].named_keys().merge(sides[1].named_keys(), how=how, **options)
        if result is None:
            right_data = right._range(0, None) if _is_compressed(right) else right
            result = left._range(0, None).merge(right_data, how=how, **options)
        return left._out(result)


def _refuse(left: Any, right: Any, how: str, options: Mapping[str, Any]) -> None:
    """Let the library refuse what needs no rows: what is no frame, and strings that are no labels."""
    if not hasattr(right, "iloc"):
        left._range(0, 0).merge(right, how=how, **options)
    named = [options.get(name) for name in ("on", "left_on", "right_on")]
    keys = [key for names in named for key in (names if isinstance(names, list) else [names]) if key is not None]
    if all(isinstance(key, str) for key in keys) and any(key not in left.columns for key in keys):
        empty = right._range(0, 0) if _is_compressed(right) else right.iloc[:0]
        with suppress(ValueError, TypeError):
            left._range(0, 0).merge(empty, how=how, **options)


def _sides(left: Any, right: Any, how: str, options: Mapping[str, Any]) -> tuple[_Side, _Side] | None:
    """The two sides; None where the library has to see all columns."""
    if getattr(right, "columns", None) is None:
        return None
    labels = [left.columns, right.columns]
    if any(columns.nlevels > 1 or not columns.is_unique for columns in labels):
        return None
    on, keys = options.get("on"), [options.get("left_on"), options.get("right_on")]
    by_index = [bool(options.get("left_index")), bool(options.get("right_index"))]
    if on is not None:
        if any(by_index) or any(key is not None for key in keys):
            return None  # the library's error
        keys = [on, on]
    elif all(key is None for key in keys) and not any(by_index) and how != "cross":
        shared = labels[0].intersection(labels[1])
        if not len(shared):
            return None  # the library's error
        keys = [[label for label in labels[0] if label in shared]] * 2
    indexes = [_index_names(left), _index_names(right)]
    places: list[list[int]] = []
    for key, columns, names in zip(keys, labels, indexes, strict=True):
        on_labels = [] if key is None else list(key) if isinstance(key, (list, tuple)) else [key]
        if not all(isinstance(label, Hashable) and label in columns and label not in names for label in on_labels):
            return None
        places.append([int(columns.get_loc(label)) for label in on_labels])
    if any(len(set(of_side)) < len(of_side) for of_side in places):
        return None
    if any(by_index) and any(
        columns[place] in others
        for of_side, columns, others in zip(places, labels, reversed(labels), strict=True)
        for place in of_side
    ):
        return None  # a key that is a label of the other side becomes a third column
    counts = len(labels[0]), len(labels[1])
    called = [[f"l{place}" for place in range(counts[0])], [f"r{place}" for place in range(counts[1])]]
    for first, second in zip(*places, strict=False):
        pair = labels[0][first], labels[1][second]
        if pair[0] != pair[1] and not all(isinstance(label, str) for label in pair):
            return None  # pandas fills such keys by other rules
        if pair[0] == pair[1]:  # one column of the result
            called[0][first] = called[1][second] = f"k{first}"
        elif left.device == "cpu" and pair[0] in labels[1] and _dtype_at(left, first) != _dtype_at(right, second):
            return None  # pandas changes the dtype of the other side's column of this label as well
    return _Side(left, labels[0], places[0], called[0], _LEFT), _Side(right, labels[1], places[1], called[1], _RIGHT)


def _labels(left: _Side, right: _Side, how: str, options: Mapping[str, Any]) -> Any:
    """Labels of the result; None where the library may look at values to see whether it can join."""
    first, second = left.columns, right.columns
    new = [name not in left.labels for name in right.labels]
    shared = any(label in first for label, is_new in zip(second, new, strict=True) if is_new)
    plain = isinstance(options.get("suffixes", ()), tuple) and not (first.hasnans or second.hasnans)
    plain = plain and not options.get("indicator") and how in _BOTH_SIDES and not _cudf_swaps(left, how)
    if plain and not shared:
        same = not any(new) and (first.dtype, first.name) == (second.dtype, second.name)
        return first if same else first.append(second[new])
    empty = [left.rows(0, 0), right.rows(0, 0)]
    try:
        return empty[0].merge(empty[1], how=how, **options).columns
    except ValueError:
        return None


def _dtype_at(data: Any, place: int) -> Any:
    """Dtype of a column of a CompressedFrame or a DataFrame."""
    return data._columns_at([place])._dtypes()[0] if _is_compressed(data) else data.dtypes.iloc[place]


def _are_alike(left: _Side, right: _Side) -> bool:
    """Whether keys have the same dtypes, or are integers."""
    dtypes = [[_dtype_at(side.data, place) for place in side.keys] for side in (left, right)]
    return all(left == other or {left.kind, other.kind} <= {"i", "u"} for left, other in zip(*dtypes, strict=False))


def _index_names(data: Any) -> list[Any]:
    return [name for name in (data._index if _is_compressed(data) else data.index).names if name is not None]


def _inner(left: _Side, right: _Side, options: Mapping[str, Any], labels: Any) -> Any:
    """An inner join of columns of the same dtypes on a GPU, whose rows libcudf finds; None of others."""
    backend = left.data._backend
    used_options = {name for name, value in options.items() if value is not None and value is not False}
    if backend.device == "cpu" or not used_options <= _PLAIN or not left.keys or len(left.keys) != len(right.keys):
        return None
    interop = backend.interop
    dtypes = [side.dtypes_on(backend.device) for side in (left, right)]
    if interop.mode() or not all(dtypes) or not all(len(side.data) for side in (left, right)):
        return None
    for left_dtype, other in zip(*dtypes, strict=True):
        if not isinstance(left_dtype, (np.dtype, pd.StringDtype)) or left_dtype != other:
            return None
    rows = [side._candidates(other) if side.is_compressed else None for side, other in ((left, right), (right, left))]
    keys = [side.columns_of(side.keys, candidates) for side, candidates in zip((left, right), rows, strict=True)]
    matches = interop_cudf.matching_rows(*keys)
    count, columns = matches[0].size(), list[Any]()
    for side, candidates, own_keys, matched in zip((left, right), rows, keys, matches, strict=True):
        contributed = [place for place, name in enumerate(side.labels) if side is left or name not in left.labels]
        packed = side.is_compressed
        loaded = dict(zip(side.keys, own_keys, strict=True) if packed else enumerate(interop.columns(side.data)))
        loaded_places = [place for place in contributed if place in loaded]
        payload = dict(
            zip(loaded_places, interop_cudf.gathered([loaded[place] for place in loaded_places], matched), strict=True)
        )
        if to_read := [place for place in contributed if place not in loaded]:
            numbers = interop_cudf.positions(matched)
            numbers = numbers.astype(np.int64) if candidates is None else selection.row_array(candidates)[numbers]
            payload |= zip(to_read, side.columns_of(to_read, numbers), strict=True)
        columns += [payload[place] for place in contributed]
    return interop.frame(columns, labels, interop.build_index({"names": [None], "range": [0, count, 1]}, []))


def _merged(left: _Side, right: _Side, how: str, options: Mapping[str, Any], labels: Any) -> Any:
    join_options = {
        name: value for name, value in options.items() if name not in ("on", "left_on", "right_on", "suffixes")
    }
    if left.keys:
        join_options["left_on"] = [left.labels[place] for place in left.keys]
    if right.keys:
        join_options["right_on"] = [right.labels[place] for place in right.keys]
    if join_options.get("left_on") == join_options.get("right_on") and left.keys:
        join_options["on"] = join_options.pop("left_on")
        del join_options["right_on"]
    # pandas looks at all keys to validate them, and where their dtypes differ, at least whether there are some.
    fewer = not options.get("validate") and (left.data.device != "cpu" or _are_alike(left, right))
    matches = left.joined(right, how, fewer=fewer).merge(right.joined(left, how, fewer=fewer), how=how, **join_options)
    interop, columns = left.data._backend.interop, dict[str, Any]()
    joined = dict(zip(matches.columns, interop.columns(matches), strict=True))
    for side, first_side in ((left, None), (right, left)):
        if side.number not in joined:  # the rows of one side alone are asked for
            continue
        del joined[side.number]
        contributed = [name for name in side.labels if first_side is None or name not in first_side.labels]
        taken = [place for place, name in enumerate(side.labels) if name in contributed and name not in joined]
        numbers, present = matches[side.number], None
        if how != "inner" and numbers.isna().any():
            present = numbers.notna().reset_index(drop=True)
            numbers = numbers.dropna()
        payload = interop.columns(side.take(taken, numbers.astype("int64").values, present)) if taken else []
        by_name = dict(zip((side.labels[place] for place in taken), payload, strict=True))
        columns |= {name: by_name[name] if name in by_name else joined.pop(name) for name in contributed}
    if _cudf_swaps(left, how):
        columns = {name: columns[name] for name in _swapped(left, right, options)}
    return interop.frame([*columns.values(), *joined.values()], labels, matches.index)  # last is the indicator


def _cudf_swaps(left: _Side, how: str) -> bool:
    """Whether cuDF joins the right frame with the left one, which changes the order of the columns."""
    return how == "right" and left.data.device != "cpu"


def _swapped(left: _Side, right: _Side, options: Mapping[str, Any]) -> Any:
    """What columns of a right join are called while they are joined, in cuDF's order."""
    keys: dict[str, Any] = {"on": left, "left_on": left, "right_on": right}
    options = {name: value for name, value in options.items() if name != "suffixes" and value is not None}
    options |= {name: [side.labels[place] for place in side.keys] for name, side in keys.items() if name in options}
    tables = [side.rows(0, 0) for side in (left, right)]
    for table, side in zip(tables, (left, right), strict=True):
        table.columns = side.labels
    return tables[0].merge(tables[1], how="right", **options).columns
