"""What a column computes: over its distinct values, piece by piece, or as a whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from .. import query
from ..backend import Backend, SeriesTask
from ..callers import at_caller
from ..codecs.node import Content
from ..index import CompressedIndex
from .labelled import Labelled

_C = TypeVar("_C", bound="Columns")


class Columns(Labelled, query.Questions):
    """What `CompressedColumn` computes: the base of it.

    Every answer is that of ``column.decompress()`` with the same call: pandas' for a column in host memory, cuDF's for
    one on a GPU.
    """

    __slots__ = ()

    @classmethod
    @abstractmethod
    def _make(
        cls: type[_C],
        content: Content,
        backend: Backend,
        name: Any,
        index: CompressedIndex,
        dtype: Any = None,
        proxied: bool = False,
    ) -> _C: ...

    # One value --------------------------------------------------------------------------------------------------------

    def count(self) -> Any:
        """How many values are not missing; decoded piece by piece where that is not known."""
        if self._may_have_nan:
            return sum(self._over_pieces(lambda piece: piece.count()))
        count = len(self) - self._content.node.null_count
        return np.int64(count) if self.device == "cpu" else count  # as the library has it

    def min(self, **options: Any) -> Any:
        """The least value; of the distinct values, or piece by piece."""
        return self._extreme("min", options)

    def max(self, **options: Any) -> Any:
        """The greatest value; of the distinct values, or piece by piece."""
        return self._extreme("max", options)

    def any(self, **options: Any) -> Any:
        """Whether some value is true; of the distinct values, or piece by piece."""
        return self._extreme("any", options)

    def all(self, **options: Any) -> Any:
        """Whether all values are true; of the distinct values, or piece by piece."""
        return self._extreme("all", options)

    def sum(self, **options: Any) -> Any:
        """The sum: of integers and booleans piece by piece, of others of all values, whose order counts."""
        dtype = self.dtype
        if not options and isinstance(dtype, np.dtype) and dtype.kind in "iub" and len(self):
            parts = self._over_pieces(lambda piece: piece.sum())
            with np.errstate(over="ignore"):
                return np.sum(np.array(parts, np.asarray(parts[0]).dtype)) if len(parts) > 1 else parts[0]
        return self._whole("sum", options)

    def mean(self, **options: Any) -> Any:
        """The mean; decodes all values at once, for the library rounds by their order."""
        return self._whole("mean", options)

    def std(self, **options: Any) -> Any:
        """Standard deviation; decodes all values at once."""
        return self._whole("std", options)

    def var(self, **options: Any) -> Any:
        """Variance; decodes all values at once."""
        return self._whole("var", options)

    def median(self, **options: Any) -> Any:
        """Median; decodes all values at once."""
        return self._whole("median", options)

    def quantile(self, q: Any = 0.5, **options: Any) -> Any:
        """Quantiles, a Series for several; decodes all values at once."""
        return self._whole("quantile", {"q": q, **options})

    def describe(self, **options: Any) -> Any:
        """Statistics, as the library's ``describe`` gives them; decodes all values at once."""
        return self._whole("describe", options)

    def mode(self, dropna: bool = True) -> Any:
        """The most frequent values, a Series; of strings with a dictionary these are counted as codes."""
        if not self._has_dictionary:
            return self._whole("mode", {"dropna": dropna})
        with self._backend.current():
            counts = self.value_counts(dropna=dropna)
            most = counts[counts == counts.max()].index.to_series().astype(self.dtype)
            most.name = self._name
            return most.mode(dropna=dropna)

    # Rows -------------------------------------------------------------------------------------------------------------

    def dropna(self, *, ignore_index: bool = False) -> Any:
        """The rows that are not missing, a Series."""
        with self._backend.current():
            values = self.filter(self.notna())
            return values.reset_index(drop=True) if ignore_index else values

    def duplicated(self, keep: Any = "first") -> Any:
        """Whether the value was there before (or comes again: ``keep="last"``), a Series of booleans."""
        if self._has_dictionary:
            return self.to_categorical().duplicated(keep=keep)
        return self._whole("duplicated", {"keep": keep})

    def drop_duplicates(self, *, keep: Any = "first", ignore_index: bool = False) -> Any:
        """The rows whose value is not that of another row, a Series."""
        if not self._has_dictionary:
            return self._whole("drop_duplicates", {"keep": keep, "ignore_index": ignore_index})
        with self._backend.current():
            values = self.filter(~self.duplicated(keep))
            return values.reset_index(drop=True) if ignore_index else values

    @at_caller
    def map(self, func: Any, na_action: Any = None, **options: Any) -> Any:
        """Other values in the place of each, as the library's ``map`` gives them; a Series.

        Parameters
        ----------
        func : dict, Series or function
            A dict or a Series is asked once for each distinct value, where all rows have a dictionary.
        na_action : {None, "ignore"}
        """
        options = {"na_action": na_action, **options}
        if self._has_dictionary and (isinstance(func, Mapping) or hasattr(func, "iloc")):
            return query.row_by_row(self, "map", lambda series: series.map(func, **options))
        with query.naming_bytes(self):
            return self._out(self._range(0, None)).map(func, **options)

    def to_list(self) -> list[Any]:
        """The values, a list."""
        return self._whole("to_list", {})

    tolist = to_list

    @property
    def dt(self) -> Times:
        """Parts of dates and times, as ``Series.dt`` gives them; decoded piece by piece.

        Columns of other values raise AttributeError, as a Series does.
        """
        return Times(self)

    # Columns ----------------------------------------------------------------------------------------------------------

    def fillna(self: _C, value: Any, **options: Any) -> _C:
        """A compressed column without missing values, as the library's ``fillna`` makes it.

        A column that has none and keeps its dtype is returned itself.
        """
        with self._backend.current():
            none = self._range(0, 0)
            may_have_missing = self._content.node.null_count > 0 or self._may_have_nan
            if none.fillna(value, **options).dtype == none.dtype and not may_have_missing:
                return self
        return self._changed(lambda series: series.fillna(value, **options))

    def astype(self: _C, dtype: Any, **options: Any) -> _C:
        """A compressed column of another dtype, as the library's ``astype`` makes it; of the same one itself."""
        with self._backend.current():
            none = self._range(0, 0)
            if none.astype(dtype, **options).dtype == none.dtype:
                return self
        return self._changed(lambda series: series.astype(dtype, **options))

    # How --------------------------------------------------------------------------------------------------------------

    @at_caller
    def _changed(self: _C, change: Callable[[Any], Any]) -> _C:
        """The result of a call of the library on the decompressed column, compressed, with the same name and index."""
        backend = self._backend
        with backend.current(), query.naming_bytes(self):
            series = change(self._range(0, None))
            options = {"table": None, "tile_size": "auto", "level": "default"}
            ((content,), _) = backend.compress([SeriesTask(series, None, options, lenient=True)])
        return self._make(content, backend, self._name, self._index, None, self._proxied)

    @property
    def _has_dictionary(self) -> bool:
        """Whether there are distinct values to ask instead of rows."""
        return self._content.node.coded and not self._proxied

    @property
    def _may_have_nan(self) -> bool:
        """Whether values may be missing that are no nulls of Arrow."""
        return bool(pa.types.is_floating(self._content.type))

    @at_caller
    def _whole(self, name: str, options: Mapping[str, Any]) -> Any:
        """The answer of the decompressed column."""
        with query.naming_bytes(self):
            return getattr(self._out(self._range(0, None)), name)(**options)

    @at_caller
    def _over_pieces(self, ask: Callable[[Any], Any]) -> list[Any]:
        """Answers of pieces, one after another."""
        with self._backend.current():
            return [ask(self._range(start, stop)) for start, stop in self._default_pieces() or [(0, 0)]]

    def _extreme(self, name: str, options: Mapping[str, Any]) -> Any:
        """An answer that some rows give as all do: the first missing one, and of each piece the one that answers."""
        if self._has_dictionary and self._content.node.null_count < len(self):
            with self._backend.current():
                return getattr(query.distinct_values(self), name)(**options)
        kind, pieces = self._content.type, self._default_pieces()
        ordered = pa.types.is_boolean(kind) if name in ("any", "all") else is_ordered(kind)
        if not ordered or len(pieces) < 2 or self._proxied:
            return self._whole(name, options)
        least = name in ("min", "all")
        kept: list[Any] = []
        with self._backend.current():
            for start, stop in pieces:
                piece = self._range(start, stop)
                gone = piece.isna()
                present = piece[~gone]
                kept.append(piece[gone].iloc[:1])
                if len(present):
                    kept.append(present[present == (present.min() if least else present.max())].iloc[:1])
            candidates = self._backend.interop.concat_values([values for values in kept if len(values)])
            return getattr(candidates, name)(**options)


class Times:
    """Parts of dates and times of a column: ``column.dt``."""

    __slots__ = ("_column", "_none")

    def __init__(self, column: Columns) -> None:
        self._column = column
        with column._backend.current():
            self._none = column._range(0, 0).dt

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._none) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        example = getattr(self._none, name)
        if callable(example):

            def call(*args: Any, **options: Any) -> Any:
                if name in _NO_SERIES or not all(map(_is_for_each_row, (*args, *options.values()))):
                    return getattr(self._whole, name)(*args, **options)
                return self._column.map_chunks(lambda piece: getattr(piece.dt, name)(*args, **options))

            return call
        if not hasattr(example, "iloc"):  # a time zone, a unit; or a frequency, which is inferred of all values
            return self._whole.freq if name == "freq" and example is None else example
        return self._column.map_chunks(lambda piece: getattr(piece.dt, name))

    @property
    def _whole(self) -> Any:
        """The library's ``dt`` of the decompressed column."""
        return self._column.decompress().dt


#: Methods of ``dt`` that give no Series.
_NO_SERIES = ("to_pytimedelta",)


def _is_for_each_row(value: Any) -> bool:
    """Whether an argument of a method of ``dt`` is for each row by itself: none of arrays, and "infer" is not."""
    return bool(pd.api.types.is_scalar(value)) and not (isinstance(value, str) and value == "infer")


def is_ordered(kind: pa.DataType) -> bool:
    """Whether values are numbers or times, of which one is the least."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_temporal(kind))
