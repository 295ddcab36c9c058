"""What ``frame.groupby`` gives: the library's answer, made of aggregates of pieces where that can be.

The library itself says what an answer looks like: its labels by two rows, the groups' order and index by a row of each
group. What stands in the answer is aggregated piece by piece (``pieces.py``). Calls that the library has to answer as a
whole get the columns that they need, decompressed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.dtypes.dtypes import BaseMaskedDtype

from ..backend import DeviceBackend
from ..callers import at_caller
from ..index import CompressedIndex
from ..interop import cudf as interop_cudf
from ..interop.adapter import Adapter
from ..rows import Rows
from . import answer_shape, few_groups, numbering, partials, pieces
from .answer_shape import AnswerShape, aggregate_spec, can_be_columns, frozen
from .pieces import Aggregate
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

    def __iter__(self) -> Any:
        raise TypeError("rows of groups are not given; iterate over f.decompress().groupby(...)")

    def __getattr__(self, name: str) -> Any:
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_"):
            hint = "see f.decompress().groupby(...), or f[[...]] with fewer columns before"
            message += f"; a column is f.groupby(...)[{name!r}]" if name in self._frame else f"; {hint}"
        raise AttributeError(message, name=name, obj=self)

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
        by_columns = (
            labels.is_unique
            and labels.nlevels == 1
            and all(isinstance(key, Hashable) and key in labels for key in keys)
        )
        if not by_columns or not len(frame):  # labels of rows, arrays, functions
            if len(keys) != len(frame) and all(isinstance(key, str) for key in keys):
                with suppress(ValueError, TypeError):
                    frame._range(0, 0).groupby(self._by, **self._options)  # a label that is not there needs no rows
            return self._called(frame.decompress(), method, args, options)
        columns = self._columns_of(method, args, options)
        # What is not there is the library's error.
        needed = list(labels) if columns is None else [label for label in labels if label in {*keys, *columns}]
        part = frame._columns_at([place for place, label in enumerate(labels) if label in needed])
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
        answer = None
        if simple and frame._backend.device == "cpu":
            answer = self._in_pieces(part, places, method, args, options)
        elif simple and aggregate_spec(method, args, options) is not None:
            answer = self._on_gpu(part, places, method, args, options)
            if answer is None:
                answer = self._by_categories(part, places, method, args, options)
        if answer is not None:
            return answer
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

    def _in_pieces(
        self, part: FrameSource, places: list[int], method: str, args: Any, options: Mapping[str, Any]
    ) -> Any:
        """The answer of aggregates of pieces; None where the library has to see all rows."""
        spec = aggregate_spec(method, args, options)
        if spec is None:
            return None
        labels = list(part.columns)
        keys = [labels[place] for place in places]
        with part._backend.current():
            example = part._columns_at([place for place in range(len(labels)) if place not in places])._range(0, 1)
            example = example.take([0, 0])
            try:
                by = np.array([1, 0])
                shape = self._called(example, method, args, options, by=by, as_index=True, sort=True)
            except Exception:  # the library's error, which it raises again
                return None
            aggregates = self._aggregates(shape, spec, labels)
            as_index = self._options.get("as_index", True)
            # pandas mixes up keys whose labels are numbers with their places, so it has to see these.
            label_keys = as_index or all(isinstance(key, str) for key in keys)
            if aggregates is None or not label_keys or not (as_index or can_be_columns(shape, keys)):
                return None
            # Of several keys with categories the library pairs all values, of rows that it leaves out as well.
            paired = len(places) > 1 and any(pa.types.is_dictionary(part._columns[place].type) for place in places)
            dropna = self._options.get("dropna", True) and not paired
            numbers, count = numbering.of_rows(part, places, dropna)
            narrow = {aggregate.how for aggregate in aggregates if part._columns[aggregate.place].type in _NARROW}
            if paired and narrow & {"var", "std", "median"}:
                return None  # pandas' dtype depends on the values
            if "mean" in narrow and numbering.is_sorted(numbers, count):
                return None  # or on the rows' order
            as_frame = isinstance(spec, str) and (self._selected is None or isinstance(self._selected[0], list))
            firsts, columns_by_aggregate = pieces.aggregate(part, numbers, count, aggregates, as_frame)
            del numbers
            if not len(firsts):
                return None
            # A row of each group, in the order in which the groups appear.
            order = np.argsort(firsts)
            rows = _unlabelled(part._columns_at(places))._take(firsts[order])
            number = "number"
            while number in labels:
                number += "'"
            rows[number] = order
            groups = rows.groupby(self._by, **self._options)[number].max()
            del rows[number]
            numbered = groups if as_index else groups[number]
            has_rows = numbered.notna().to_numpy()
            positions = numbered.to_numpy()[has_rows].astype(np.int64)
            dtypes = [shape.dtype] if shape.ndim == 1 else list(shape.dtypes)
            answers = [
                _narrowed(columns_by_aggregate[aggregate].take(positions), example[labels[aggregate.place]].dtype)
                if aggregate.how == "sum"
                else (
                    columns_by_aggregate[aggregate].astype(dtype)
                    if aggregate.how in _COUNTS
                    else columns_by_aggregate[aggregate]
                ).take(positions)
                for aggregate, dtype in zip(aggregates, dtypes, strict=True)
            ]
            if not has_rows.all():  # categories that no row has: the library says what stands for them
                values = example.take(np.zeros(len(rows), np.int64)).set_axis(rows.index)
                with_values = pd.concat([rows, values], axis=1)[labels]
                padded = self._called(with_values, method, args, options)
                columns = [padded] if padded.ndim == 1 else [padded.iloc[:, place] for place in range(padded.shape[1])]
                answers = [
                    _padded(
                        column,
                        has_rows,
                        values,
                        example[labels[aggregate.place]].dtype if aggregate.how != "size" else None,
                    )
                    for column, values, aggregate in zip(columns[-len(aggregates) :], answers, aggregates, strict=True)
                ]
            result = part._backend.interop.frame(answers, pd.RangeIndex(len(answers)), numbered.index)
            if as_index and shape.ndim == 1:
                return result[0].rename(shape.name)
            result.columns = shape.columns if shape.ndim == 2 else ["size" if spec == "size" else shape.name]
            for place, key in enumerate([] if as_index else keys):
                result.insert(place, key, groups[key].array)
            return result

    def _aggregates(self, shape: Any, spec: Any, labels: list[Any]) -> list[Aggregate] | None:
        """The aggregates in the columns of an answer of this shape; None if that is not known."""
        (selected,) = self._selected or (None,)
        one_column = self._selected is not None and not isinstance(selected, list)
        pairs: list[tuple[Any, Any]]
        if spec == "size":
            return [Aggregate(0, "size")] if shape.ndim == 1 else None
        if shape.ndim == 1:
            pairs = [(selected, spec)] if one_column else []
        elif isinstance(spec, str):
            pairs = [(label, spec) for label in shape.columns]
        elif isinstance(spec, list) and one_column:
            pairs = [(selected, name) for name in shape.columns]
        elif shape.columns.nlevels == 2:
            pairs = list(shape.columns)
        elif isinstance(spec, list):
            pairs = []
        else:
            named = [(label, spec[label]) for label in shape.columns]
            pairs = [pair if isinstance(pair, tuple) else (label, pair) for label, pair in named]
            if one_column:
                pairs = [(selected, name) for _, name in pairs]
        if not pairs or any(label not in labels or name not in pieces.NAMES for label, name in pairs):
            return None
        return [Aggregate(labels.index(label), name) for label, name in pairs]

    def _on_gpu(self, part: FrameSource, places: list[int], method: str, args: Any, options: Mapping[str, Any]) -> Any:
        """On a GPU, the answer of aggregates of pieces; None where the library has to see all rows."""
        backend, labels = part._backend, list(part.columns)
        interop = backend.interop
        with backend.current():
            if interop.mode() or not self._options.get("as_index", True):
                return None
            spec = aggregate_spec(method, args, options)
            shape = self._shape_on_gpu(part, places, spec, method, args, options)
            if shape is None:
                return None
            aggregates, dtypes = self._aggregates(shape, spec, labels), shape.dtypes
            if aggregates is None or not all(isinstance(dtype, (np.dtype, BaseMaskedDtype)) for dtype in dtypes):
                return None
            limit = max(_PIECE_NBYTES, self._frame.uncompressed_nbytes // _PIECE_PART)
            columns = self._few_groups(part, places, aggregates, dtypes, limit)
            if columns is None:
                pieces = _unlabelled(part)._pieces(limit)
                if len(pieces) < 2 or not all(partials.supports(part, aggregate) for aggregate in aggregates):
                    return None
                result = partials.aggregate(_unlabelled(part), pieces, places, aggregates, self._options)
                if not len(result):
                    return None  # dtypes of answers without groups are others
                columns = interop.columns(result.astype(dict(enumerate(dtypes)))), result.index
            if shape.ndim == 1:
                return interop.series(columns[0][0], shape.name, columns[1])
            return interop.frame(columns[0], shape.columns, columns[1])

    def _shape_on_gpu(
        self, part: FrameSource, places: list[int], spec: Any, method: str, args: Any, options: Mapping[str, Any]
    ) -> AnswerShape | None:
        """Shape, labels and dtypes of cuDF's answer. Those of earlier calls are cached: asking cuDF takes 1.5 ms."""
        others = part._columns_at([place for place in range(len(part._columns)) if place not in places])
        dtypes = tuple(zip(others.columns, others._dtypes(categories=False), strict=True))
        selected = None if self._selected is None else frozen(self._selected[0])
        call = selected, method, frozen(spec), frozen(options), frozen(self._options)
        key = dtypes, others.columns.name, call
        shape = answer_shape.KNOWN.get(key)
        if shape is not None:
            return shape
        interop = part._backend.interop
        example = others._range(0, 1)
        by = interop.of_array(part._backend.arrays.zeros(1, np.int8), None, example.index)
        try:
            answer = self._called(example, method, args, options, by=by)
        except Exception:  # cuDF's error, which it raises again
            return None
        series = answer.ndim == 1
        answer_dtypes = [answer.dtype] if series else list(answer.dtypes)
        shape = AnswerShape(
            answer.ndim, None if series else answer.columns, answer_dtypes, answer.name if series else None
        )
        # Of categories, which are no part of it, there is no dtype. (NumPy's float64 equals None.)
        if all(dtype is not None for _, dtype in dtypes):
            answer_shape.keep(key, shape)
        return shape

    def _few_groups(
        self, part: FrameSource, places: list[int], aggregates: list[Aggregate], answer_dtypes: list[Any], limit: int
    ) -> Any:
        """Columns of an answer, and its index, of few groups by the codes of their keys; None of others."""
        if not all(few_groups.supports(part, aggregate) for aggregate in aggregates):
            return None
        dtypes = part._dtypes(categories=False)
        if not all(part._columns[place].node.coded and dtypes[place] is not None for place in places):
            return None
        assert isinstance(part._backend, DeviceBackend)
        dropna = self._options.get("dropna", True)
        numbers = few_groups.number_rows(part, places, dropna, part._backend.most_groups)
        sums = None if numbers is None else few_groups.aggregate(part, numbers, aggregates, limit)
        if numbers is None or sums is None:
            return None
        codes, rest = list[Any](), sums.numbers
        for size in reversed(numbers.sizes):
            codes.insert(0, rest % size)
            rest = rest // size
        names = [part.columns[place] for place in places]
        index = interop_cudf.index_of_codes(codes, numbers.values, [dtypes[place] for place in places], names)
        columns = zip((sums.columns[aggregate] for aggregate in aggregates), answer_dtypes, strict=True)
        return [interop_cudf.column_of(column, dtype) for column, dtype in columns], index

    def _by_categories(
        self, part: FrameSource, places: list[int], method: str, args: Any, options: Mapping[str, Any]
    ) -> Any:
        """The answer of categories for strings with a dictionary; None where there are none, or other categories."""
        dtypes = part._dtypes(categories=False)
        coded = [place for place in places if part._columns[place].node.coded]
        if not coded or any(dtypes[place] is None for place in places):
            return None
        labels = part.columns
        answer = self._called(part._categories(None, coded), method, args, options, observed=True)
        keys = [labels[place] for place in places]
        return _with_keys(answer, keys, {labels[place]: dtypes[place] for place in coded}, part._backend.interop)

    def _called(self, data: Any, method: str, args: Any, options: Any, by: Any = None, **others: Any) -> Any:
        groups = data.groupby(self._by if by is None else by, **self._options | others)
        if self._selected is not None:
            groups = groups[self._selected[0]]
        return getattr(groups, method)(*args, **options)


def _decompressed(key: Any) -> Any:
    """A compressed column as a Series; any other key."""
    return key._out(key._range(0, None)) if isinstance(key, Rows) else key


def _narrowed(sums: Any, dtype: Any) -> Any:
    """Sums, of the dtype of the integers that were added if all fit, as pandas has it."""
    if not (dtype.kind in "iu" and isinstance(dtype, (np.dtype, BaseMaskedDtype))):
        return sums
    limits = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    fits = not len(sums) or bool((sums.min() >= limits.min) and (sums.max() <= limits.max))
    return sums.astype(dtype) if fits else sums


def _padded(column: Any, has_rows: Any, values: Any, source: Any) -> Any:
    """A column of an answer, with values in the rows of groups that are there; `source`: dtype of the rows."""
    same_kind = values.dtype == object or values.dtype.kind == column.dtype.kind
    dtype = values.dtype if same_kind else column.dtype  # which has room for what is missing
    if isinstance(source, np.dtype) and isinstance(dtype, pd.StringDtype):
        dtype = source
    result = column.astype(dtype).array.copy()
    result[has_rows] = values.astype(dtype).array
    return pd.Series(result, dtype=dtype)


def _unlabelled(frame: Any) -> Any:
    """A frame of the same columns whose rows are labelled from 0."""
    index = CompressedIndex({"names": [None], "range": [0, len(frame), 1]}, len(frame))
    return frame._made_of(frame._columns, frame._backend, index)


def _with_keys(answer: Any, keys: list[Any], dtypes: Mapping[Any, Any], interop: Adapter) -> Any:
    """The result with keys of their own dtypes instead of categories."""
    labelled = list(answer.index.names) == keys
    if labelled and (len(keys) > 1 or answer.ndim == 1 or keys[0] not in answer.columns):
        answer.index = interop.with_level_dtypes(answer.index, [dtypes.get(key) for key in keys])
        return answer
    for key, dtype in dtypes.items():
        if key in answer.columns:
            answer[key] = answer[key].astype(dtype)
    return answer
