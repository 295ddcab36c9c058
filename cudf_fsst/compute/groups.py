"""What ``frame.groupby`` gives: the library's answer, made of aggregates of pieces where that can be.

The library itself says what an answer looks like: its labels by two rows, the groups' order and index by a row of each
group. What stands in the answer is aggregated piece by piece (``pieces.py``). Calls that the library has to answer as a
whole get the columns that they need, decompressed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.dtypes.dtypes import BaseMaskedDtype

from ..callers import at_caller
from ..index import CompressedIndex
from ..rows import Rows
from . import few_groups, numbering, partials, pieces
from .pieces import WantedColumn
from .source import FrameSource

#: Options of ``groupby`` that answers made of pieces have.
_OPTIONS = frozenset(("sort", "dropna", "observed", "as_index"))
#: Bytes of values that are decoded at a time on a GPU: at least this, or this part of what the frame is uncompressed.
_PIECE_NBYTES, _PIECE_PART = 32 << 20, 12
#: Aggregates whose dtype is that of the column's kind, and not their values'.
_COUNTS = ("size", "count", "nunique")
#: Floats whose aggregates have one of two dtypes in pandas.
_NARROW = (pa.float16(), pa.float32())


class Groups:
    """Groups of a compressed frame's rows: ``f.groupby(by)``. Its methods give what those of pandas or cuDF do.

    A call decodes the keys; of strings with a dictionary it reads the codes. The columns that it aggregates are decoded
    piece by piece, and what is kept of a piece is one value for each group. Decoded as a whole, one after another, are
    columns of ``median`` and ``nunique``; of ``mean``, ``std`` and ``var`` those that are no numbers of NumPy's; of
    ``sum``, ``any`` and ``all`` texts, objects, decimals and nullable floats; and lists and structs. On a GPU, ``sum``,
    ``mean``, ``min``, ``max`` and ``count`` of numbers go piece by piece, and ``var`` and ``std`` of at most 40 groups
    by strings with a dictionary; other calls decode the columns that they need. So do functions of users, and keys that
    are no labels of columns. ``groups["x"]`` and ``groups[["x", "y"]]`` select columns.

    Sums of floats are those of pandas to the last digit, unless the rows lie in the order of their groups: there pandas
    adds in another way. On a GPU the last digits differ from call to call, as cuDF's do.

    ``apply``, ``transform`` and the others are those of ``f.decompress().groupby(by)``.
    """

    __slots__ = ("_by", "_frame", "_options", "_selected")

    def __init__(self, frame: FrameSource, by: Any, options: Mapping[str, Any], selected: Any = None) -> None:
        by = [_decompressed(key) for key in by] if isinstance(by, list) else _decompressed(by)
        self._frame, self._by, self._options, self._selected = frame, by, dict(options), selected

    def __getitem__(self, key: Any) -> Groups:
        """Select a column, which gives Series, or a list of columns."""
        for label in key if isinstance(key, list) else [key]:
            if label not in self._frame:
                raise KeyError(f"Column not found: {label!r}")
        return Groups(self._frame, self._by, self._options, [key])

    def __getattr__(self, name: str) -> Any:
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_"):
            way = "see f.decompress().groupby(...), or f[[...]] with fewer columns before"
            said += f"; a column is f.groupby(...)[{name!r}]" if name in self._frame else f"; {way}"
        raise AttributeError(said, name=name, obj=self)

    def agg(self, func: Any = None, **options: Any) -> Any:
        """Aggregate by a name, a list of names, a dict of columns, or ``result=(column, name)``, as the library."""
        return self._ask("agg", *(() if func is None else (func,)), **options)

    aggregate = agg

    def size(self) -> Any:
        """Rows of each group."""
        return self._ask("size")

    def sum(self, **options: Any) -> Any:
        """Sum of each group."""
        return self._ask("sum", **options)

    def min(self, **options: Any) -> Any:
        """The least value of each group."""
        return self._ask("min", **options)

    def max(self, **options: Any) -> Any:
        """The greatest value of each group."""
        return self._ask("max", **options)

    def mean(self, **options: Any) -> Any:
        """Mean of each group."""
        return self._ask("mean", **options)

    def std(self, **options: Any) -> Any:
        """Standard deviation of each group."""
        return self._ask("std", **options)

    def var(self, **options: Any) -> Any:
        """Variance of each group."""
        return self._ask("var", **options)

    def median(self, **options: Any) -> Any:
        """Median of each group."""
        return self._ask("median", **options)

    def count(self) -> Any:
        """Values of each group that are not missing."""
        return self._ask("count")

    def nunique(self, **options: Any) -> Any:
        """Distinct values of each group."""
        return self._ask("nunique", **options)

    def first(self, **options: Any) -> Any:
        """The first value of each group that is not missing."""
        return self._ask("first", **options)

    def last(self, **options: Any) -> Any:
        """The last value of each group that is not missing."""
        return self._ask("last", **options)

    def any(self, **options: Any) -> Any:
        """Whether some value of each group is true."""
        return self._ask("any", **options)

    def all(self, **options: Any) -> Any:
        """Whether all values of each group are true."""
        return self._ask("all", **options)

    @at_caller
    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        frame = self._frame
        labels = frame.columns
        keys = self._by if isinstance(self._by, list) else [self._by]
        known = (
            labels.is_unique
            and labels.nlevels == 1
            and all(isinstance(key, Hashable) and key in labels for key in keys)
        )
        if not known or not len(frame):  # labels of rows, arrays, functions
            if len(keys) != len(frame) and all(isinstance(key, str) for key in keys):
                with suppress(ValueError, TypeError):
                    frame._range(0, 0).groupby(self._by, **self._options)  # a label that is not there needs no rows
            return self._called(frame.decompress(), method, args, options)
        columns = self._columns_of(method, args, options)
        # What is not there is the library's error.
        needed = list(labels) if columns is None else [label for label in labels if label in {*keys, *columns}]
        part = frame._of_places([place for place, label in enumerate(labels) if label in needed])
        simple = (
            not frame._proxied
            and len(set(keys)) == len(keys)
            and not (columns and set(keys) & set(columns))
            and set(self._options) <= _OPTIONS
            and not any(name in keys for name in frame._index.names if name is not None)
            and not any(isinstance(label, tuple) for label in needed)
            and (method == "agg" or set(options) <= {"numeric_only"})
        )
        places = [needed.index(key) for key in keys]
        made = None
        if simple and frame._backend.device == "cpu":
            made = self._in_pieces(part, places, method, args, options)
        elif simple and _asked(method, args, options) is not None:
            made = self._on_gpu(part, places, method, args, options)
            if made is None:
                made = self._by_categories(part, places, method, args, options)
        if made is not None:
            return made
        return self._called(part.decompress(), method, args, options)

    def _columns_of(self, method: str, args: Any, options: Mapping[str, Any]) -> list[Any] | None:
        """Labels of the columns that a call aggregates; None: all."""
        if self._selected is not None:
            (key,) = self._selected
            return key if isinstance(key, list) else [key]
        if method == "size":
            return []
        if method == "agg" and args and isinstance(args[0], Mapping):
            return list(args[0])
        if method == "agg" and not args:
            columns = [spec[0] for spec in options.values() if isinstance(spec, tuple) and len(spec) == 2]
            return columns if len(columns) == len(options) else None
        return None

    def _in_pieces(self, part: Any, places: list[int], method: str, args: Any, options: Mapping[str, Any]) -> Any:
        """The answer of aggregates of pieces; None where the library has to see all rows."""
        asked = _asked(method, args, options)
        if asked is None:
            return None
        labels = list(part.columns)
        keys = [labels[place] for place in places]
        with part._backend.current():
            example = part._of_places([place for place in range(len(labels)) if place not in places])._range(0, 1)
            example = example.take([0, 0])
            try:
                by = np.array([1, 0])
                shape = self._called(example, method, args, options, by=by, as_index=True, sort=True)
            except Exception:  # the library's error, which it raises again
                return None
            wanted = self._wanted(shape, asked, labels)
            as_index = self._options.get("as_index", True)
            # pandas mixes up keys whose labels are numbers with their places, so it has to see these.
            named = as_index or all(isinstance(key, str) for key in keys)
            if wanted is None or not named or not (as_index or _can_be_columns(shape, keys)):
                return None
            # Of several keys with categories the library pairs all values, of rows that it leaves out as well.
            paired = len(places) > 1 and any(pa.types.is_dictionary(part._columns[place].type) for place in places)
            dropna = self._options.get("dropna", True) and not paired
            numbers, count = numbering.of_rows(part, places, dropna)
            narrow = {one.how for one in wanted if part._columns[one.place].type in _NARROW}
            if paired and narrow & {"var", "std", "median"}:
                return None  # pandas' dtype depends on the values
            if "mean" in narrow and numbering.is_sorted(numbers, count):
                return None  # or on the rows' order
            as_frame = isinstance(asked, str) and (self._selected is None or isinstance(self._selected[0], list))
            firsts, found = pieces.aggregate(part, numbers, count, wanted, as_frame)
            del numbers
            if not len(firsts):
                return None
            # A row of each group, in the order in which the groups appear.
            order = np.argsort(firsts)
            rows = _unlabelled(part._of_places(places))._take(firsts[order])
            number = "number"
            while number in labels:
                number += "'"
            rows[number] = order
            groups = rows.groupby(self._by, **self._options)[number].max()
            del rows[number]
            numbered = groups if as_index else groups[number]
            there = numbered.notna().to_numpy()
            at = numbered.to_numpy()[there].astype(np.int64)
            kinds = [shape.dtype] if shape.ndim == 1 else list(shape.dtypes)
            answers = [
                _narrowed(found[one].take(at), example[labels[one.place]].dtype)
                if one.how == "sum"
                else (found[one].astype(kind) if one.how in _COUNTS else found[one]).take(at)
                for one, kind in zip(wanted, kinds, strict=True)
            ]
            if not there.all():  # categories that no row has: the library says what stands for them
                values = example.take(np.zeros(len(rows), np.int64)).set_axis(rows.index)
                alike = pd.concat([rows, values], axis=1)[labels]
                whole = self._called(alike, method, args, options)
                columns = [whole] if whole.ndim == 1 else [whole.iloc[:, place] for place in range(whole.shape[1])]
                answers = [
                    _put(column, there, values, example[labels[one.place]].dtype if one.how != "size" else None)
                    for column, values, one in zip(columns[-len(wanted) :], answers, wanted, strict=True)
                ]
            made = part._backend.interop.frame(answers, pd.RangeIndex(len(answers)), numbered.index)
            if as_index and shape.ndim == 1:
                return made[0].rename(shape.name)
            made.columns = shape.columns if shape.ndim == 2 else ["size" if asked == "size" else shape.name]
            for place, key in enumerate([] if as_index else keys):
                made.insert(place, key, groups[key].array)
            return made

    def _wanted(self, shape: Any, asked: Any, labels: list[Any]) -> list[WantedColumn] | None:
        """What stands in the columns of an answer of this shape; None if that is not known."""
        (selected,) = self._selected or (None,)
        one = self._selected is not None and not isinstance(selected, list)
        pairs: list[tuple[Any, Any]]
        if asked == "size":
            return [WantedColumn(0, "size")] if shape.ndim == 1 else None
        if shape.ndim == 1:
            pairs = [(selected, asked)] if one else []
        elif isinstance(asked, str):
            pairs = [(label, asked) for label in shape.columns]
        elif isinstance(asked, list) and one:
            pairs = [(selected, name) for name in shape.columns]
        elif shape.columns.nlevels == 2:
            pairs = list(shape.columns)
        elif isinstance(asked, list):
            pairs = []
        else:
            named = [(label, asked[label]) for label in shape.columns]
            pairs = [spec if isinstance(spec, tuple) else (label, spec) for label, spec in named]
            if one:
                pairs = [(selected, name) for _, name in pairs]
        if not pairs or any(label not in labels or name not in pieces.NAMES for label, name in pairs):
            return None
        return [WantedColumn(labels.index(label), name) for label, name in pairs]

    def _on_gpu(self, part: Any, places: list[int], method: str, args: Any, options: Mapping[str, Any]) -> Any:
        """On a GPU, the answer of aggregates of pieces; None where the library has to see all rows."""
        backend, labels = part._backend, list(part.columns)
        interop = backend.interop
        with backend.current():
            if interop.mode() or not self._options.get("as_index", True):
                return None
            asked = _asked(method, args, options)
            shape = self._shape_on_gpu(part, places, asked, method, args, options)
            if shape is None:
                return None
            wanted, kinds = self._wanted(shape, asked, labels), shape.kinds
            if wanted is None or not all(isinstance(kind, (np.dtype, BaseMaskedDtype)) for kind in kinds):
                return None
            limit = max(_PIECE_NBYTES, self._frame.uncompressed_nbytes // _PIECE_PART)
            columns = self._of_few(part, places, wanted, kinds, limit)
            if columns is None:
                pieces = _unlabelled(part)._pieces(limit)
                if len(pieces) < 2 or not all(partials.can(part, one) for one in wanted):
                    return None
                found = partials.aggregate(_unlabelled(part), pieces, places, wanted, self._options)
                if not len(found):
                    return None  # dtypes of answers without groups are others
                columns = interop.columns(found.astype(dict(enumerate(kinds)))), found.index
            if shape.ndim == 1:
                return interop.series(columns[0][0], shape.name, columns[1])
            return interop.frame(columns[0], shape.columns, columns[1])

    def _shape_on_gpu(
        self, part: Any, places: list[int], asked: Any, method: str, args: Any, options: Mapping[str, Any]
    ) -> _AnswerShape | None:
        """What cuDF's answer looks like, of a call like one before without asking it again: that takes 1.5 ms."""
        others = part._of_places([place for place in range(len(part._columns)) if place not in places])
        named = tuple(zip(others.columns, others._dtypes(categories=False), strict=True))
        selected = None if self._selected is None else _frozen(self._selected[0])
        call = selected, method, _frozen(asked), _frozen(options), _frozen(self._options)
        key = named, others.columns.name, call
        made = _shapes.get(key)
        if made is not None:
            return made
        interop = part._backend.interop
        example = others._range(0, 1)
        by = interop.of_array(part._backend.arrays.zeros(1, np.int8), None, example.index)
        try:
            found = self._called(example, method, args, options, by=by)
        except Exception:  # cuDF's error, which it raises again
            return None
        series = found.ndim == 1
        kinds = [found.dtype] if series else list(found.dtypes)
        made = _AnswerShape(found.ndim, None if series else found.columns, kinds, found.name if series else None)
        # Of categories, which are no part of it, there is no dtype. (NumPy's float64 equals None.)
        if all(dtype is not None for _, dtype in named):
            if len(_shapes) >= _MOST_SHAPES:
                _shapes.clear()
            _shapes[key] = made
        return made

    def _of_few(self, part: Any, places: list[int], wanted: list[WantedColumn], kinds: list[Any], limit: int) -> Any:
        """Columns of an answer, and its index, of few groups by the codes of their keys; None of others."""
        if not all(few_groups.can(part, one) for one in wanted):
            return None
        dtypes = part._dtypes(categories=False)
        interop = part._backend.interop
        if not all(part._columns[place].node.coded and dtypes[place] is not None for place in places):
            return None
        dropna, most = self._options.get("dropna", True), part._backend.most_groups
        numbers = few_groups.number_rows(part, places, dropna, most)
        made = None if numbers is None else few_groups.aggregate(part, numbers, wanted, limit)
        if numbers is None or made is None:
            return None
        codes, left = list[Any](), made.numbers
        for size in reversed(numbers.sizes):
            codes.insert(0, left % size)
            left = left // size
        names = [part.columns[place] for place in places]
        index = interop.index_of_codes(codes, numbers.values, [dtypes[place] for place in places], names)
        return [interop.column_of(made.found[one], kind) for one, kind in zip(wanted, kinds, strict=True)], index

    def _by_categories(self, part: Any, places: list[int], method: str, args: Any, options: Mapping[str, Any]) -> Any:
        """The answer of categories for strings with a dictionary; None where there are none, or other categories."""
        dtypes = part._dtypes(categories=False)
        coded = [place for place in places if part._columns[place].node.coded]
        if not coded or any(dtypes[place] is None for place in places):
            return None
        labels = part.columns
        made = self._called(part._categories(None, coded), method, args, options, observed=True)
        keys = [labels[place] for place in places]
        return _with_keys(made, keys, {labels[place]: dtypes[place] for place in coded}, part._backend.interop)

    def _called(self, data: Any, method: str, args: Any, options: Any, by: Any = None, **others: Any) -> Any:
        groups = data.groupby(self._by if by is None else by, **self._options | others)
        if self._selected is not None:
            groups = groups[self._selected[0]]
        return getattr(groups, method)(*args, **options)


def _decompressed(key: Any) -> Any:
    """A compressed column as a Series; any other key."""
    return key._out(key._range(0, None)) if isinstance(key, Rows) else key


class _AnswerShape(NamedTuple):
    """What an answer looks like.

    Attributes
    ----------
    ndim : int
    columns : Index or None
    kinds : list
        Dtypes.
    name : label
        Of a Series.
    """

    ndim: int
    columns: Any
    kinds: list[Any]
    name: Any


#: Of calls on a GPU, by the dtypes of the columns and what was asked.
_shapes: dict[Any, _AnswerShape] = {}
_MOST_SHAPES = 256


def _frozen(asked: Any) -> Any:
    """What may be hashed of names, and lists and dicts of them; 1 and True are two."""
    if isinstance(asked, Mapping):
        return tuple((_frozen(label), _frozen(value)) for label, value in asked.items())
    return tuple(map(_frozen, asked)) if isinstance(asked, (list, tuple)) else (type(asked), asked)


def _asked(method: str, args: Any, options: Mapping[str, Any]) -> Any:
    """Names of aggregates: one, a list of them, or a dict of labels; None where there are others.

    A user's functions may see labels and values of any kind.
    """
    if method != "agg":
        return method
    if len(args) + bool(options) != 1:
        return None
    asked = args[0] if args else options
    names = list(asked.values()) if isinstance(asked, Mapping) else [asked]
    if options:
        names = [spec[1] if isinstance(spec, tuple) and len(spec) == 2 else spec for spec in names]
    flat = [name for spec in names for name in (spec if isinstance(spec, list) else [spec])]
    return asked if flat and all(isinstance(name, str) and name in pieces.NAMES for name in flat) else None


def _can_be_columns(shape: Any, keys: list[Any]) -> bool:
    """Whether an answer stands beside its keys by plain labels of its own."""
    return bool(shape.ndim == 1 or (shape.columns.nlevels == 1 and not any(key in shape.columns for key in keys)))


def _narrowed(sums: Any, dtype: Any) -> Any:
    """Sums, of the dtype of the integers that were added if all fit, as pandas has it."""
    if not (dtype.kind in "iu" and isinstance(dtype, (np.dtype, BaseMaskedDtype))):
        return sums
    limits = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    fits = not len(sums) or bool((sums.min() >= limits.min) and (sums.max() <= limits.max))
    return sums.astype(dtype) if fits else sums


def _put(column: Any, there: Any, values: Any, source: Any) -> Any:
    """A column of an answer, with values in the rows of groups that are there; `source`: dtype of the rows."""
    alike = values.dtype == object or values.dtype.kind == column.dtype.kind
    dtype = values.dtype if alike else column.dtype  # which has room for what is missing
    if isinstance(source, np.dtype) and isinstance(dtype, pd.StringDtype):
        dtype = source
    made = column.astype(dtype).array.copy()
    made[there] = values.astype(dtype).array
    return pd.Series(made, dtype=dtype)


def _unlabelled(frame: Any) -> Any:
    """A frame of the same columns whose rows are labelled from 0."""
    index = CompressedIndex({"names": [None], "range": [0, len(frame), 1]}, len(frame))
    return frame._made_of(frame._columns, frame._backend, index)


def _with_keys(made: Any, keys: list[Any], dtypes: Mapping[Any, Any], interop: Any) -> Any:
    """The result with keys of their own dtypes instead of categories."""
    labelled = list(made.index.names) == keys
    if labelled and (len(keys) > 1 or made.ndim == 1 or keys[0] not in made.columns):
        made.index = interop.with_level_dtypes(made.index, [dtypes.get(key) for key in keys])
        return made
    for key, dtype in dtypes.items():
        if key in made.columns:
            made[key] = made[key].astype(dtype)
    return made
