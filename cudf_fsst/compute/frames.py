"""Methods of a frame that give rows, found by the library on the columns they ask about."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from .. import selection
from ..callers import at_caller
from ..index import CompressedIndex
from .changing import Changing, refuse
from .columns import is_ordered
from .groups import Groups
from .labelled import ByLabels
from .merging import merge
from .written import Written

#: Rows that tell which values are among the largest: so many, or this part of all, up to a limit.
_SEEN_ROWS, _SEEN_PART, _MOST_SEEN_ROWS = 1 << 16, 32, 1 << 20


class Frames(Changing, ByLabels, Written):
    """What `CompressedFrame` computes: the base of it."""

    __slots__ = ()

    def groupby(self, by: Any = None, **options: Any) -> Groups:
        """Group rows by columns, as the library's ``groupby`` does.

        Parameters
        ----------
        by : label or list of labels
            Anything else that the library takes, and compressed columns, are answered by ``decompress()``.
        **options
            ``sort``, ``dropna``, ``observed``, ``as_index``; with ``level``, instead of `by`, the answer is by
            ``decompress()``, too.

        Returns
        -------
        Groups
            Its methods give a Series or a DataFrame of the library. They decode keys, then piece by piece the columns
            that they aggregate.
        """
        return Groups(self, by, options)

    def sort_values(self, by: Any, *, ignore_index: bool = False, **options: Any) -> Any:
        """The rows in the order of some columns, as the library's ``sort_values`` gives them.

        Parameters
        ----------
        by : label or list of labels
            Columns, which are decoded. The library sorts these, and all rows are taken in this order.
        ignore_index : bool
            Label the result from 0.
        **options
            ``ascending``, ``na_position`` and others of the library.

        Returns
        -------
        DataFrame

        Raises
        ------
        TypeError
            Columns are to be sorted, by ``axis=1``, or the frame itself, by ``inplace=True``.
        """
        refuse(options, axis=(0, "index"))
        labels = by if isinstance(by, list) else [by]
        return self._rows_of(labels, lambda keys: keys.sort_values(by, **options), ignore_index)

    def nlargest(self, n: int, columns: Any, keep: str = "first") -> Any:
        """The `n` rows with the largest values of some columns, as the library's ``nlargest`` gives them.

        The first rows tell which values are large enough. Rows that have none of them are left out on the codes.
        """
        return self._first_rows(n, columns, True, lambda keys: keys.nlargest(n, columns, keep=keep))

    def nsmallest(self, n: int, columns: Any, keep: str = "first") -> Any:
        """The `n` rows with the smallest values of some columns; see `nlargest`."""
        return self._first_rows(n, columns, False, lambda keys: keys.nsmallest(n, columns, keep=keep))

    def drop_duplicates(self, subset: Any = None, *, keep: Any = "first", ignore_index: bool = False) -> Any:
        """The rows whose values of some columns, or of all, are not those of another row; a DataFrame."""
        labels = None if subset is None else subset if isinstance(subset, list) else [subset]
        if self.device == "cpu" and not (len(self) and self._columns):
            ignore_index = False  # as pandas, which gives a copy of what is empty
        return self._rows_of(labels, lambda keys: keys.drop_duplicates(subset, keep=keep), ignore_index)

    def dropna(self, *, subset: Any = None, ignore_index: bool = False, **options: Any) -> Any:
        """The rows without missing values in some columns, or in all; ``how`` and ``thresh`` as the library's."""
        if options.get("axis", 0) not in (0, "index"):
            raise TypeError("dropna drops rows; f.decompress().dropna(axis=...) drops columns")
        refuse(options, axis=(0, "index"))
        labels = None if subset is None else subset if isinstance(subset, list) else [subset]
        known, plain = self._labels, set(options) <= {"axis", "how"} and options.get("how", "any") == "any"
        every = labels is None or (bool(labels) and all(isinstance(key, Hashable) and key in known for key in labels))
        if plain and every and self._backend.device == "cpu" and known.nlevels == 1 and known.is_unique:
            places = range(len(known)) if labels is None else [int(known.get_loc(label)) for label in labels]
            missing = self._columns_at(list(places)).isna()
            rows = self.filter(~missing.any(axis=1).to_numpy())
            return rows.reset_index(drop=True) if ignore_index else rows
        return self._rows_of(labels, lambda keys: keys.dropna(subset=subset, **options), ignore_index)

    @at_caller
    def merge(self, right: Any, how: str = "inner", **options: Any) -> Any:
        """Join with the rows of another frame, as the library's ``merge`` does it.

        The library joins the key columns and the numbers of the rows. Then the other columns are decoded, of the rows
        that were found. Memory is needed for the keys, the numbers and the result.

        Parameters
        ----------
        right : DataFrame, Series with a name, or CompressedFrame
        how : str
            ``"inner"``, ``"left"`` and the others that the library has.
        **options
            ``on``, ``left_on``, ``right_on``, ``left_index``, ``right_index``, ``sort``, ``suffixes``, ``indicator``
            and ``validate``, as the library takes them. Keys that are no labels of columns (arrays, levels of the
            index), and labels of columns that are not unique, are joined by ``decompress()``.

        Returns
        -------
        DataFrame
        """
        return merge(self, right, how, options)

    def _first_rows(self, n: Any, columns: Any, largest: bool, ask: Callable[[Any], Any]) -> Any:
        """Rows that the library chooses, of those whose value in the first of some columns is good enough."""
        labels = columns if isinstance(columns, list) else [columns]
        candidates = self._candidates(n, labels, largest)
        if candidates is None:
            return self._rows_of(labels, ask)
        backend = self._backend
        with backend.current():
            places = [int(self._labels.get_loc(label)) for label in dict.fromkeys(labels)]
            keys = self._columns_at(places)._take(candidates).reset_index(drop=True)
            chosen = ask(keys)
            rows = backend.arrays.asarray(selection.row_array(candidates))[chosen.index.values]
            return self._out(self._take(self._numbers(rows, selection.row_numbers)))

    def _candidates(self, n: Any, labels: Any, largest: bool) -> Any:
        """Numbers of the rows whose value is one of the `n` best in the first column; None where all are to be seen."""
        known = self._labels
        seen_rows = min(max(_SEEN_ROWS, len(self) // _SEEN_PART), _MOST_SEEN_ROWS)
        if not (isinstance(n, int) and 0 < n < seen_rows // 4 and len(self) > 4 * seen_rows):
            return None
        if known.nlevels > 1 or not known.is_unique or not all(isinstance(a, Hashable) and a in known for a in labels):
            return None
        if not labels or any(name is not None and name in labels for name in self._index.names):
            return None
        column = self.column_at(int(known.get_loc(labels[0])))
        if not is_ordered(column._content.type) or pa.types.is_boolean(column._content.type):
            return None
        with self._backend.current():
            mask = _best_floats(column, n, largest, seen_rows)
            if mask is None:
                if self._backend.device != "cpu" and pa.types.is_floating(column._content.type):
                    return None  # NaN is the largest to cuDF, and no answer to `>=`
                seen = column._unlabelled(0, seen_rows).dropna()
                if len(seen) < n:
                    return None
                edge = (seen.nlargest(n) if largest else seen.nsmallest(n)).iloc[-1]
                mask = column >= edge if largest else column <= edge
            numbers = self._numbers(mask, selection.mask_rows)
            return numbers if len(selection.row_array(numbers)) < len(self) // 4 else None

    @at_caller
    def _rows_of(self, labels: Any, ask: Callable[[Any], Any], ignore_index: bool = False) -> Any:
        """Rows that the library chooses, by the labels from 0 of the rows of `labels`' columns (None: of all)."""
        known = self._labels
        simple = known.nlevels == 1 and known.is_unique
        if labels is None:
            places = list(range(len(self._columns)))
        elif simple and all(isinstance(label, Hashable) and label in known for label in labels):
            places = list(dict.fromkeys(int(known.get_loc(label)) for label in labels))
        else:
            places = []
        ambiguous = labels is not None and any(name is not None and name in labels for name in self._index.names)
        if not places or not simple or ambiguous or not len(self):  # levels of the index, mistakes: the library knows
            if simple and labels is not None and not places:
                with suppress(ValueError, TypeError, IndexError, AttributeError):  # also a key function's own
                    ask(self._range(0, 0))  # a label that is not there needs no rows
            rows = ask(self._range(0, None))
            return self._out(rows.reset_index(drop=True) if ignore_index else rows)
        part = self._columns_at(places)
        with self._backend.current():
            numbers = CompressedIndex({"names": [None], "range": [0, len(self), 1]}, len(self))
            keys = part._made_of(part._columns, self._backend, numbers)._range(0, None)
            chosen = ask(keys)
            rows = self._numbers(chosen.index.values, selection.row_numbers)
            del keys, chosen
            result = self._take(rows)
        return self._out(result.reset_index(drop=True) if ignore_index else result)


def _best_floats(column: Any, n: int, largest: bool, seen_rows: int) -> Any:
    """Which rows of floats on a GPU are as good as the `n`-th best of the first ones; None of other columns.

    cuDF, which compares piece by piece, makes a Series of each and joins the answers. That takes longer than decoding.
    """
    backend, node, kind = column._backend, column._content.node, column._content.type
    if backend.device == "cpu" or kind not in (pa.float32(), pa.float64()) or node.null_count:
        return None
    array, dtype = backend.arrays, np.dtype(kind.to_pandas_dtype())

    def values(start: int, stop: int) -> Any:
        (column_buffers,) = backend.read([node], start, stop)
        return backend.as_array(column_buffers).view(dtype)

    seen = values(0, seen_rows)
    seen = seen[seen == seen]
    if seen.size < n:
        return None
    edge = array.sort(seen)[-n if largest else n - 1]
    mask = array.empty(node.rows, np.bool_)
    for start, stop in column._default_pieces():
        (array.less if largest else array.less_equal)(values(start, stop), edge, out=mask[start:stop])
    return ~mask if largest else mask  # NaN is the largest, as cuDF sorts
