"""Compressed frames with other columns, labels or an other index: what did not change is shared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from .. import index as indexes
from ..arrow_types import may_have_nan
from ..backend import SeriesTask
from ..callers import at_caller
from ..codecs.node import Content
from ..interop import cudf as interop_cudf
from ..rows import Rows
from .source import FrameSource

#: Options of strings, as frames have them.
_STRINGS = {"tile_size": "auto", "level": "default"}

_F = TypeVar("_F", bound="Changing")


class Changing(FrameSource):
    """Methods that make other frames of a frame: the base of `CompressedFrame`."""

    __slots__ = ()

    def drop(
        self: _F, labels: Any = None, *, axis: Any = 0, index: Any = None, columns: Any = None, errors: Any = "raise"
    ) -> _F:
        """A compressed frame without some columns; it shares the others.

        Parameters
        ----------
        columns : label or list of labels
            Or `labels` with ``axis=1``.
        errors : {'raise', 'ignore'}
            Whether a label that there is not is an error.

        Raises
        ------
        TypeError
            Rows are named, by `index` or by `labels` without ``axis=1``.
        ValueError
            `labels` comes with `index` or `columns`, as the library has it.
        """
        if labels is not None and (index is not None or columns is not None):
            raise ValueError("Cannot specify both 'labels' and 'index'/'columns'")
        if labels is not None and axis in (1, "columns"):
            columns = labels
        elif labels is not None or index is not None:
            raise TypeError("drop(columns=...) leaves out columns, no rows; f.decompress().drop(...) leaves out rows")
        return self._planned(lambda plan: plan.drop(columns=columns, errors=errors))

    def rename(self: _F, *, columns: Any, errors: Any = "ignore") -> _F:
        """A compressed frame with other labels, by a dict or a function; it shares the columns."""
        return self._planned(lambda plan: plan.rename(columns=columns, errors=errors))

    @at_caller
    def assign(self: _F, **columns: Any) -> _F:
        """A compressed frame with new columns, or with others in the place of some.

        Parameters
        ----------
        **columns
            What the library's ``assign`` takes: Series, which are aligned to the index as the library does it, arrays,
            values, or functions of the compressed frame. A compressed column of the same index is shared. All others
            are compressed.

        Returns
        -------
        CompressedFrame
        """
        frame = self
        for label, column in columns.items():
            value = column(frame) if callable(column) else column
            if isinstance(value, Rows):
                same_rows = value._index is frame._index and value.device == frame.device
                if same_rows and hasattr(value, "_content"):
                    frame = frame._with(label, value._content)
                    continue
                value = value.decompress()
            with frame._backend.current():
                if label in frame._labels and not frame._labels.is_unique:
                    frame = frame._compressed_frame(frame._range(0, None).assign(**{label: value}))
                    continue
                index_frame = (frame if not len(frame) else frame._columns_at([]))._range(0, None)
                index_frame[label] = value
                if len(index_frame) != len(frame):  # one without rows takes those of the value
                    frame = frame._compressed_frame(index_frame)
                else:
                    frame = frame._with(label, frame._compressed([index_frame[label]], [label])[0])
        return frame

    @at_caller
    def fillna(self: _F, value: Any, **options: Any) -> _F:
        """A compressed frame without missing values, as the library's ``fillna`` makes it.

        Parameters
        ----------
        value : object, dict, Series or DataFrame
            What stands in for them: for all columns, for each label, or for each value.
        **options
            ``limit``.

        Returns
        -------
        CompressedFrame
            Columns without missing values are shared. The others are decoded and compressed again one at a time.
        """
        refuse(options, axis=(0, "index", None))
        value, _ = interop_cudf.unwrap_proxy(value)
        if not self._labels.is_unique or getattr(value, "ndim", 0) > 1:
            return self._compressed_frame(self._range(0, None).fillna(value, **options))
        values: Mapping[Any, Any] | None = None
        if isinstance(value, Mapping) or getattr(value, "ndim", 0) == 1:
            values = value if isinstance(value, Mapping) else dict(_on_host(value).items())

        def change(label: Any, column: Any) -> Any:
            if values is None:
                return column.fillna(value, **options)
            return column.fillna(values[label], **options) if label in values else column

        return self._changed(change, lambda content: not (content.node.null_count or may_have_nan(content.type)))

    def astype(self: _F, dtype: Any, **options: Any) -> _F:
        """A compressed frame with other dtypes, as the library's ``astype`` makes it.

        Parameters
        ----------
        dtype : dtype or dict
            For all columns, or for some labels.
        **options
            ``errors``.

        Returns
        -------
        CompressedFrame
            Columns that have the dtype already are shared. The others are decoded and compressed again one at a time.
        """
        if not self._labels.is_unique:
            return self._compressed_frame(self._range(0, None).astype(dtype, **options))
        dtypes = dict(dtype) if isinstance(dtype, (Mapping, pd.Series)) else None
        self._range(0, 0).astype(dtype, **options)  # labels that are not there are the library's error

        def change(label: Any, column: Any) -> Any:
            if dtypes is None:
                return column.astype(dtype, **options)
            return column.astype(dtypes[label], **options) if label in dtypes else column

        return self._changed(change, lambda _: True)

    def set_index(self: _F, keys: Any, *, drop: bool = True, append: bool = False, **options: Any) -> _F:
        """A compressed frame whose index is made of columns, or of labels that are given; it shares the other columns.

        Parameters
        ----------
        keys : label, array or a list of these
        drop : bool
            Leave these columns out.
        append : bool
            Keep the levels that there are.
        **options
            ``verify_integrity``.

        Returns
        -------
        CompressedFrame
        """
        refuse(options)
        if not self._labels.is_unique or self._labels.nlevels > 1:
            return self._compressed_frame(self._range(0, None).set_index(keys, drop=drop, append=append, **options))
        key_list = keys if isinstance(keys, list) else [keys]
        label_keys = [key for key in key_list if isinstance(key, Hashable) and key in self._labels]
        places = list(dict.fromkeys(int(self._labels.get_loc(key)) for key in label_keys))
        with self._backend.current():
            part = self._columns_at(places)._range(0, None)
            index = indexes.compress(part.set_index(keys, drop=drop, append=append, **options).index, self._backend)
        remaining = [place for place in range(len(self._columns)) if not (drop and place in places)]
        columns = [self._columns[place] for place in remaining]
        return self._make(self._backend, columns, self._labels.take(remaining), index, self._proxied)

    def reset_index(self: _F, level: Any = None, *, drop: bool = False, **options: Any) -> _F:
        """A compressed frame whose rows are labelled from 0; levels of its index become columns.

        Parameters
        ----------
        level : int, name or a list of these, optional
            Of the index; None: all.
        drop : bool
            Forget them instead.
        **options
            ``names``, ``allow_duplicates``, ``col_level`` and ``col_fill`` of the library.

        Returns
        -------
        CompressedFrame
        """
        refuse(options)
        with self._backend.current():
            labels = _on_host(self._range(0, 0).reset_index(level, drop=drop, **options).columns)
            index_frame = self._columns_at([])._range(0, None).reset_index(level, drop=drop)
            new = [index_frame.iloc[:, place] for place in range(index_frame.shape[1])]
            columns = [*self._compressed(new, labels), *self._columns]
            index = indexes.compress(index_frame.index, self._backend)
        return self._make(self._backend, columns, labels, index, self._proxied)

    # How ----------------------------------------------------------------------------------------------------------

    def _planned(self: _F, change: Callable[[Any], Any]) -> _F:
        """A frame of the columns that the library's call leaves of a DataFrame, by their labels, in its order."""
        plan = change(pd.DataFrame([np.arange(len(self._columns))], columns=self._labels))
        columns = [self._columns[place] for place in plan.iloc[0]]
        return self._make(self._backend, columns, plan.columns, self._index, self._proxied)

    def _with(self: _F, label: Any, content: Content) -> _F:
        """A frame with one more column, or another in the place of one."""
        plan = pd.DataFrame([np.arange(len(self._columns))], columns=self._labels)
        plan[label] = len(self._columns)
        all_columns = (*self._columns, content)
        columns = [all_columns[place] for place in plan.iloc[0]]
        return self._make(self._backend, columns, plan.columns, self._index, self._proxied)

    def _compressed(self, columns: Sequence[Any], labels: Iterable[Any]) -> list[Content]:
        """Series of the library, compressed as columns of a frame are."""
        tasks = [
            SeriesTask(column, None, _STRINGS, partial("column {!r}".format, label))
            for label, column in zip(labels, columns, strict=False)  # of labels there may be more
        ]
        return self._backend.compress(tasks)[0]

    @at_caller
    def _changed(self: _F, change: Callable[[Any, Any], Any], keeps: Callable[[Content], bool]) -> _F:
        """Change columns, decoded one at a time.

        Parameters
        ----------
        change
            Gets the label and a Series.
        keeps
            Whether a column whose dtype does not change stays as it is, and is shared.
        """
        columns = list(self._columns)
        with self._backend.current():
            no_rows = self._range(0, 0)
            for place, (label, content) in enumerate(zip(self._labels, self._columns, strict=True)):
                before = no_rows.iloc[:, place]
                after = change(label, before)
                if after is before or (after.dtype == before.dtype and keeps(content)):
                    continue
                series = self._columns_at([place])._range(0, None).iloc[:, 0]
                columns[place] = self._compressed([change(label, series)], [label])[0]
        return self._make(self._backend, columns, self._labels, self._index, self._proxied)

    def _compressed_frame(self: _F, data: Any) -> _F:
        """A DataFrame of the library, compressed."""
        with self._backend.current():
            columns = self._compressed([data.iloc[:, place] for place in range(data.shape[1])], data.columns)
            index = indexes.compress(data.index, self._backend)
        return self._make(self._backend, columns, _on_host(data.columns), index, self._proxied)


def refuse(options: Mapping[str, Any], axis: Sequence[Any] = (0,)) -> None:
    """Raise TypeError for options that no compressed frame has."""
    if options.get("inplace") is True:
        raise TypeError("a compressed frame does not change, so there is no inplace=True")
    if options.get("axis", 0) not in axis:
        raise TypeError(f"axis is one of {axis} here, not {options['axis']!r}; f.decompress() has the others")


def _on_host(data: Any) -> Any:
    return data.to_pandas() if hasattr(data, "to_pandas") else data
