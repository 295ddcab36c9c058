"""Distinct values of a column: as they are, counted, and as categories.

Of strings with a dictionary these are the dictionary's values, which are decoded once, and the codes of rows. Where
some rows have none, these are decoded, and the library finds their distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..buffers import ColumnBuffers
from ..codecs.node import DictPart, Node
from ..lazy import WeakCache
from . import decoded
from .source import LOGGER, ColumnSource
from .text import naming_bytes

#: Rows whose codes are held at a time on the host.
_WINDOW_ROWS = 1 << 20
#: Categories of columns of at most so many values: codes of each run's values, and the dtype.
_MOST_KEPT = 1 << 16
_categories_of: WeakCache[Node, tuple[list[Any], Any]] = WeakCache()


class _RunValues(NamedTuple):
    """The distinct values of a run of rows.

    Attributes
    ----------
    first : int
        The first one in the column.
    of : Node or DictPart
        See `Node.runs`.
    values : Series
        Distinct values in order of first appearance.
    codes : array or None
        Numbers of rows' values, -1 of missing ones; None: the part has them.
    """

    first: int
    of: Node | DictPart
    values: Any
    codes: Any


def to_categorical(column: ColumnSource) -> Any:
    """The column as categories: what ``column.decompress().astype("category")`` gives."""
    if not column._content.node.coded:
        return decoded.as_a_whole(column, "to_categorical", lambda series: series.astype("category"))
    LOGGER.debug("to_categorical: codes")
    backend = column._backend
    with backend.current():
        categories = categorical(column)
        return column._out(backend.interop.series(categories, column._name, column._index.shared(backend)))


def categorical(column: ColumnSource) -> Any:
    """Strings, some of which have a dictionary, as categories, as the adapter's ``build`` gives them."""
    backend, node = column._backend, column._content.node
    values, dtype = coded(column)
    return backend.interop.categorical(backend.with_values(backend.validity(node), values), dtype)


def coded(column: ColumnSource) -> tuple[Any, Any]:
    """Codes of strings, some of which have a dictionary, any of missing ones, and the dtype of their categories."""
    backend, node = column._backend, column._content.node
    known = _categories_of.get(node)
    runs = _runs(column) if known is None or not node.all_coded else []
    if known is None:
        with naming_bytes(column):
            numbers, dtype = backend.interop.categories(_values_of_runs(column, runs))
        ends = np.cumsum([0, *(len(run.values) for run in runs)]).tolist()
        known = [numbers[start:stop] for start, stop in pairwise(ends)], dtype
        if len(numbers) <= _MOST_KEPT:
            _categories_of.put(node, known)
    tables, dtype = known
    pieces = []
    for place, (part, table) in enumerate(zip(node.runs, tables, strict=True)):
        if not table.size:  # nulls alone
            pieces.append(backend.arrays.full(part.rows, -1, table.dtype))
        elif isinstance(part, Node):
            pieces.append(table[runs[place].codes])
        else:
            pieces.append(backend.remap(part, table))
    return pieces[0] if len(pieces) == 1 else backend.arrays.concatenate(pieces), dtype


def unique(column: ColumnSource) -> Any:
    """Distinct values in order of first appearance: what ``column.decompress().unique()`` gives."""
    runs = _runs(column)
    if not runs:
        return decoded.as_a_whole(column, "unique", lambda series: series.unique())
    LOGGER.debug("unique: codes")
    with column._backend.current():
        values = _values_of_runs(column, runs, missing=True).unique()
    return column._out(values)


def distinct_values(column: ColumnSource) -> Any:
    """A Series of the values of strings some of which have a dictionary, a missing one with them.

    Some of them may be there twice.
    """
    with column._backend.current():
        return _values_of_runs(column, _runs(column), missing=True)


def nunique(column: ColumnSource, dropna: bool = True) -> int:
    """How many distinct values there are: what ``column.decompress().nunique()`` gives."""
    runs = _runs(column)
    if not runs:
        return decoded.as_a_whole(column, "nunique", lambda series: series.nunique(dropna=dropna))
    LOGGER.debug("nunique: codes")
    with column._backend.current():
        return int(_values_of_runs(column, runs).nunique()) + (not dropna and column.null_count > 0)


def value_counts(column: ColumnSource, normalize: bool, sort: bool, ascending: bool, bins: Any, dropna: bool) -> Any:
    """How often each value is there: what ``column.decompress().value_counts(...)`` gives."""
    options = {"normalize": normalize, "sort": sort, "ascending": ascending}
    runs = _runs(column) if bins is None else []
    if not runs:
        return decoded.as_a_whole(
            column, "value_counts", lambda series: series.value_counts(bins=bins, dropna=dropna, **options)
        )
    LOGGER.debug("value_counts: codes")
    backend = column._backend
    array = backend.arrays
    with backend.current():
        values = _values_of_runs(column, runs, missing=not dropna)
        if len(runs) == 1:
            numbers, count = array.arange(len(runs[0].values)), len(runs[0].values)
        else:  # the same values in several runs
            numbers, distinct_values_of_runs = backend.interop.factorized(_values_of_runs(column, runs))
            count = len(distinct_values_of_runs)
        counts = array.zeros(count, np.int64)
        first = 0
        for run in runs:
            run_numbers = numbers[first : first + len(run.values)]
            first += len(run.values)
            # Every value of a run is there once, so no two of these are added to the same number.
            if not run_numbers.size:  # nulls alone
                continue
            run_counts = None if isinstance(run.of, Node) else backend.count(run.of)
            if run_counts is not None:
                counts[run_numbers] += run_counts
                continue
            for _, codes, valid in _codes(column, run):
                valid_codes = codes if valid is None else codes[valid]
                if valid_codes.size:
                    counts[run_numbers] += array.bincount(valid_codes, minlength=run_numbers.size)
        # In the order of the values, of which a missing one has its own count.
        if len(runs) > 1:
            values = backend.interop.distinct(values)
            # They are in the order of the numbers, but for a missing one, which has the last count.
            missing = array.asarray(backend.interop.row_values(values.isna()))
            numbers = array.cumsum(~missing) - 1
            numbers[missing] = count
            counts = array.concatenate([counts, array.full(1, column.null_count, np.int64)])[numbers]
        elif len(values) > count:
            first = int(array.argmax(array.asarray(backend.interop.row_values(values.isna()))))
            counts = array.concatenate([counts[:first], array.full(1, column.null_count, np.int64), counts[first:]])
        return column._out(backend.interop.counted(values, counts, **options))


def _runs(column: ColumnSource) -> list[_RunValues]:
    """Distinct values of each run of a column of strings; an empty list where no run has a dictionary."""
    backend = column._backend
    runs: list[_RunValues] = []
    first = 0
    with backend.current():
        for run in column._content.node.runs if column._content.node.coded else ():
            if isinstance(run, Node):
                series = column._unlabelled(first, first + run.rows)
                codes, values = backend.interop.factorized(series)
                runs.append(_RunValues(first, run, values, codes))
            else:
                (values,) = backend.read([run.values])
                runs.append(_RunValues(first, run, column._series_of(values), None))
            first += run.rows
    return runs


def _codes(column: ColumnSource, run: _RunValues) -> Iterator[tuple[int, Any, Any]]:
    """Codes of a run's rows, some at a time: their first row, and which of them are not missing, or None."""
    backend, rows = column._backend, run.of.rows
    if isinstance(run.of, Node):
        valid = run.codes >= 0
        yield run.first, run.codes, valid
        return
    step = _WINDOW_ROWS if backend.device == "cpu" else rows
    for start in range(0, rows, step):
        column_codes = backend.read([run.of.indices], start, min(start + step, rows))[0]
        valid = backend.as_bits(column_codes).view(np.bool_) if column_codes.null_count else None
        yield run.first + start, backend.as_array(column_codes).view(f"<u{column_codes.itemsize}"), valid


def _values_of_runs(column: ColumnSource, runs: list[_RunValues], *, missing: bool = False) -> Any:
    """Distinct values of all runs, one after another; with the first missing value where that is."""
    interop = column._backend.interop
    missing_row = _first_missing(column) if missing and column.null_count else -1
    pieces = []
    for run in runs:
        if not run.first <= missing_row < run.first + run.of.rows:
            pieces.append(run.values)
            continue
        count_before = 0  # values that are there before the missing one
        for first, codes, valid in _codes(column, run):
            codes_before = codes[: max(0, missing_row - first)]
            codes_before = codes_before if valid is None else codes_before[valid[: codes_before.size]]
            count_before = max(count_before, int(codes_before.max()) + 1 if codes_before.size else 0)
        pieces += [
            run.values.iloc[:count_before],
            column._unlabelled(missing_row, missing_row + 1),
            run.values.iloc[count_before:],
        ]
    pieces = [piece for piece in pieces if len(piece)] or pieces[:1]
    return pieces[0] if len(pieces) == 1 else interop.concat_values(pieces)


def _first_missing(column: ColumnSource) -> int:
    """The first row whose value is missing."""
    backend = column._backend
    validity: ColumnBuffers = backend.validity(column._content.node)
    return int(backend.as_bits(validity).argmin())
