"""Rows that the library finds by labels, an expression or chance, among the numbers of the rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .. import selection
from ..callers import at_caller
from ..rows import Rows
from .source import FrameSource


class Labels:
    """``frame.loc``: rows and columns by label, decompressed."""

    __slots__ = ("_frame",)

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a CompressedFrame does not change; f.assign(...) gives a new frame with other columns")

    def __getitem__(self, key: Any) -> Any:
        """``f.loc[rows]`` or ``f.loc[rows, columns]``; see `Labelled.loc`."""
        frame = self._frame
        if isinstance(key, tuple):
            key = tuple(member(frame) if callable(member) else member for member in key)
        elif callable(key):
            key = key(frame)
        if len(frame._index.names) > 1 or frame._labels.nlevels > 1 or (isinstance(key, tuple) and len(key) != 2):
            return frame.decompress().loc[key]
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        all_rows = isinstance(rows, slice) and rows == slice(None)
        places = pd.DataFrame([np.arange(len(frame._labels))], columns=frame._labels).loc[:, columns].iloc[0]
        with frame._backend.current():
            selected = None if all_rows else frame._row_numbers().loc[rows]
        if not isinstance(places, pd.Series):
            column = frame.column_at(int(places))
            return _rows(column, selected) if selected is None or hasattr(selected, "index") else column[int(selected)]
        part = frame._columns_at(places.tolist())
        return _rows(part, selected) if selected is None or hasattr(selected, "index") else part._at(int(selected))


def _rows(source: Any, selected: Any) -> Any:
    """Rows by number, a Series whose labels the result has, or None for all."""
    if selected is None:
        return source.decompress()
    result = source._take(source._numbers(selected.values, selection.row_numbers))
    result.index = selected.index
    return source._out(result)


class Labelled(Rows):
    """Rows of a column or a frame by what the library makes of labels: the base of what both compute."""

    __slots__ = ()

    def _row_numbers(self) -> Any:
        """Numbers of the rows, a Series of the library with the index."""
        backend = self._backend
        with backend.current():
            numbers = backend.arrays.arange(len(self), dtype=np.int32 if len(self) < 2**31 else np.int64)
            return backend.interop.of_array(numbers, None, self._index.shared(backend))

    def sample(
        self,
        n: int | None = None,
        frac: float | None = None,
        replace: bool = False,
        weights: Any = None,
        random_state: Any = None,
        axis: Any = None,
        ignore_index: bool = False,
    ) -> Any:
        """Rows by chance, those that the library's ``sample`` chooses.

        Parameters
        ----------
        n, frac
            How many, or which part of all; one row without both.
        replace : bool
            A row may come more than once.
        weights : array, Series or label, optional
            How likely each row is; a label names a column of a frame.
        random_state : int or random generator, optional
        axis : {0, "index", "rows"}, optional
            Rows. Of columns a TypeError: see ``f.columns``.
        ignore_index : bool
            Label the result from 0.

        Returns
        -------
        Series or DataFrame
        """
        if axis in (1, "columns") and isinstance(self, FrameSource):
            raise TypeError(f"sample chooses rows, not axis {axis!r}; f[labels] chooses columns")
        if isinstance(weights, str) and isinstance(self, FrameSource):
            weights = self[weights]
        options = {"replace": replace, "weights": weights, "random_state": random_state, "axis": axis}
        with self._backend.current():
            chosen = self._row_numbers().sample(n=n, frac=frac, **options)
            result = self._take(self._numbers(chosen.values, selection.row_numbers))
        return self._out(result.reset_index(drop=True) if ignore_index else result)


class ByLabels(Labelled, FrameSource):
    """Rows of a frame by labels and expressions: the base of `CompressedFrame`."""

    __slots__ = ()

    @property
    def loc(self) -> Labels:
        """Rows and columns by label, decompressed.

        ``f.loc["a"]`` is a Series of one row. ``f.loc["a":"c"]``, ``f.loc[["b", "a"]]`` and ``f.loc[mask]`` are a
        DataFrame, and ``f.loc[rows, columns]`` selects columns as well. The library looks for the labels in the index
        alone; of a MultiIndex it does so in the decompressed frame. Values cannot be set.
        """
        return Labels(self)

    def query(self, expr: str, **options: Any) -> Any:
        """The rows for which an expression is true, as the library's ``query`` gives them.

        Parameters
        ----------
        expr : str
            ``"price > 5 and mode == @mode"``. Columns that it names are decoded to answer it.
        **options
            Those of the library.

        Returns
        -------
        DataFrame
        """
        if not isinstance(expr, str):
            raise ValueError(f"expr must be a string to be evaluated, not {expr!r}")
        if options.get("inplace", False) is True:
            raise TypeError("a compressed frame does not change, so there is no inplace=True")
        caller = sys._getframe(1)
        local = {**caller.f_locals, **(options.pop("local_dict", None) or {})}
        global_ = options.pop("global_dict", None)
        if self._backend.device == "cpu":
            options["global_dict"] = caller.f_globals if global_ is None else global_
        names = set(re.findall(r"\w+", expr))
        places = [
            place
            for place, label in enumerate(self._labels)
            if isinstance(label, str) and (label in names or f"`{label}`" in expr)
        ]

        def ask(data: Any) -> Any:
            return data.query(expr, local_dict=local, **options)

        named = bool(places) or (self._backend.device == "cpu" and self._labels.nlevels == 1)
        if not named or not self._labels.is_unique:
            return self._out(ask(self._range(0, None)))
        return self._rows_by_query(ask, places)

    @at_caller
    def _rows_by_query(self, ask: Callable[[Any], Any], places: list[int]) -> Any:
        """Rows that the library keeps of some columns."""
        part = self._columns_at(places)
        with self._backend.current():
            keys = part._range(0, None)
            free = "row number"
            while free in self._labels or free in self._index.names:
                free += "'"
            keys[free] = self._row_numbers()
            numbers = ask(keys)[free].values
            del keys
            result = self._take(self._numbers(numbers, selection.row_numbers))
        return self._out(result)
