"""Aggregates of groups, piece by piece of the values, in host memory: see `aggregate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..arrow_types import may_have_nan
from ..codecs.node import Content
from ..workers import map_items, num_threads
from . import tallies
from .source import FrameSource

#: Names of the aggregates that `aggregate` computes.
NAMES = frozenset("sum min max mean std var median count size nunique first last any all".split())
#: Aggregates of which that of some rows and that of the others give, by the same name, that of all.
_THE_SAME_AGAIN = frozenset(("sum", "min", "max", "any", "all"))


class Aggregate(NamedTuple):
    """An aggregate of a column: the column's position, and the aggregate's name."""

    place: int
    how: str


class Aggregates(NamedTuple):
    """Aggregates of the groups that have rows, in the order of the groups' numbers.

    Attributes
    ----------
    firsts : ndarray of int64
        The first row of each.
    columns : dict
        Of each aggregate a Series with one value for each group.
    """

    firsts: npt.NDArray[np.int64]
    columns: dict[Aggregate, Any]


def aggregate(
    frame: FrameSource, numbers: npt.NDArray[Any], count: int, aggregates: Sequence[Aggregate], as_frame: bool
) -> Aggregates:
    """Aggregates of a compressed frame's columns.

    Decodes a piece of all these columns at a time. Columns whose aggregates cannot be made of those of pieces are
    decoded as a whole afterwards, one after another: medians, distinct values, times' means, text as truth.

    Parameters
    ----------
    frame : CompressedFrame
        In host memory.
    numbers : ndarray of int8 or int32
        The group of each row, from 0; below it of rows in no group.
    count
        More than the highest of these numbers.
    wanted
    as_frame : bool
        Whether the library is asked for the aggregates of DataFrames, whose objects stay objects, or of Series.
    """
    rows = tallies.TalliedRows(count)
    places = dict.fromkeys(column_aggregate.place for column_aggregate in aggregates)
    columns = {place: _Column(frame, place, count, rows, as_frame) for place in places}
    answers = {
        column_aggregate: columns[column_aggregate.place].ask(column_aggregate.how) for column_aggregate in aggregates
    }
    decoded = [place for place, column in columns.items() if column.reads]
    part = frame._columns_at(decoded)
    labels = (
        pd.RangeIndex(count).astype("category").dtype
        if any(column_aggregate.by_library for column_aggregate in columns.values())
        else None
    )
    for start, stop in part._default_pieces() if decoded else [(0, len(frame))]:
        piece_numbers = numbers[start:stop]
        keys = None if labels is None else pd.Categorical.from_codes(piece_numbers, dtype=labels)
        jobs: list[Callable[[], None]] = [partial(rows.add, piece_numbers, start)]
        floats: list[tuple[tallies.Floats, npt.NDArray[Any]]] = []
        for place, buffers in zip(decoded, part._backend.read(part._nodes, start, stop), strict=True):
            column = columns[place]
            series = column.series(buffers)
            jobs += column.jobs(piece_numbers, keys, series, start)
            floats += [(sums, series.to_numpy()) for sums in column.floats.values()]
        map_items(_call, [*tallies.adding_floats(piece_numbers, floats, num_threads()), *jobs])
    del part
    map_items(_call, [partial(column.mark, numbers) for column in columns.values() if column.marks])
    observed = np.flatnonzero(rows.sizes)
    return Aggregates(
        rows.firsts[observed], {column_aggregate: ask(numbers, observed) for column_aggregate, ask in answers.items()}
    )


def _call(job: Callable[[], None]) -> None:
    job()


#: Gives the answer, of the numbers of all rows and those of the groups that have rows.
_Answer = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]


class _Column:
    """Tallies of the groups' values in a column, to which pieces are added.

    Attributes
    ----------
    reads : bool
        Its values are needed.
    by_library : bool
        The library aggregates pieces.
    marks : bool
        Which values are missing is needed, and known without decoding any.
    floats : dict
        Sums that are kept, by their dtypes.
    """

    def __init__(self, frame: FrameSource, place: int, count: int, rows: tallies.TalliedRows, as_frame: bool) -> None:
        self._frame, self._place, self._count, self._rows = frame, place, count, rows
        self._as_frame = as_frame
        self._content: Content = frame._columns[place]
        (self._dtype,) = frame._columns_at([place])._dtypes()
        # NumPy's numbers and booleans. Its smallest floats are no type of Numba's.
        self._kind = self._dtype.kind if isinstance(self._dtype, np.dtype) and self._dtype != np.float16 else "O"
        self._tallies: dict[str, tuple[Any, Callable[..., None]]] = {}  # what is kept, and what adds a piece to it
        self._bits: tallies.Marked | None = None
        self.floats: dict[Any, tallies.Floats] = {}
        self.by_library = False

    @property
    def marks(self) -> bool:
        return self._bits is not None

    @property
    def reads(self) -> bool:
        return bool(self._tallies or self.floats)

    @property
    def _may_have_nan(self) -> bool:
        return may_have_nan(self._content.type)

    @property
    def _is_full(self) -> bool:
        """No value is missing."""
        return not (self._content.node.null_count or self._may_have_nan)

    def mark(self, numbers: Any) -> None:
        """Tally which rows are valid, of all rows at once."""
        backend, node = self._frame._backend, self._content.node
        if self._bits is None or node.null_count == node.rows:
            return
        valid = backend.as_bits(backend.validity(node)).view(np.bool_)
        self._bits.add(numbers, valid, 0)

    def series(self, buffers: Any) -> Any:
        """Rows that were read, a Series labelled from 0."""
        content = self._content
        nullable = content.node.null_count > 0
        return self._frame._backend.interop.build(buffers, content.type, content.stored, nullable=nullable)

    def jobs(self, numbers: Any, keys: Any, series: Any, start: int) -> list[Callable[[], None]]:
        """Calls that add a piece to all tallies but `floats`."""
        return [partial(add, tally, numbers, keys, series, start) for tally, add in self._tallies.values()]

    def ask(self, how: str) -> _Answer:
        """Begin the tallies that an aggregate needs; returns the function that gives the aggregate in the end."""
        answer: _Answer | None = None
        if how == "size":
            return lambda _, observed: pd.Series(self._rows.sizes[observed])
        if how in ("first", "last"):
            answer = self._end(how)
        elif how == "count" and not pa.types.is_nested(self._content.type):
            answer = self._count_of_values()
        elif self._kind in "iufb":
            answer = self._numeric(how)
        if answer is None and how in _THE_SAME_AGAIN and self._can_be_combined(how):
            self.by_library = True
            tally = self._tally(
                how, lambda: _ByLibrary(how), lambda tally, _, keys, series, __: tally.add(keys, series)
            )
            return lambda _, __: tally.made
        return answer or partial(self._of_whole_column, how)

    def _tally(self, name: str, make: Callable[[], Any], add: Callable[..., None]) -> Any:
        """The tally of this name, which is made if there is none."""
        if name not in self._tallies:
            self._tallies[name] = make(), add
        return self._tallies[name][0]

    # Aggregates of pieces -----------------------------------------------------------------------------------------

    def _marked(self) -> Any:
        """The tally of valid rows."""
        if self._content.node.null_count and not self._may_have_nan:
            self._bits = self._bits or tallies.Marked(self._count)
            return self._bits
        return self._tally("there", lambda: tallies.Marked(self._count), _add_valid)

    def _count_of_values(self) -> _Answer:
        if self._is_full:
            counts = self._rows.sizes
        elif self._kind == "f":
            counts = self._floats(self._dtype).counts
        else:
            counts = self._marked().counts
        return lambda _, observed: pd.Series(counts[observed])

    def _end(self, how: str) -> _Answer | None:
        """The first or the last value that is not missing, by its row."""
        if pa.types.is_nested(self._content.type) or self._dtype == np.dtype(object):
            return None  # missing ones of several kinds
        if self._is_full and how == "first":
            rows, counts = self._rows.firsts, self._rows.sizes
        else:
            marked = self._marked()
            rows, counts = (marked.firsts if how == "first" else marked.lasts), marked.counts

        def answer(_: Any, observed: Any) -> Any:
            part = self._frame._columns_at([self._place])
            values = part._take(part._numbers(rows[observed])).iloc[:, 0].reset_index(drop=True)
            valid = counts[observed] > 0
            return values if valid.all() else values.where(valid)

        return answer

    def _floats(self, dtype: Any) -> tallies.Floats:
        return self.floats.setdefault(np.dtype(dtype), tallies.Floats(self._count, dtype))

    def _numeric(self, how: str) -> _Answer | None:
        """An aggregate of NumPy's numbers or booleans; None where it is not known how."""
        count, dtype = self._count, self._dtype
        exact = self._kind != "f"
        if how == "sum" and exact:
            tally = self._tally("integers", lambda: tallies.Integers(count), _add_values)
            kind = np.uint64 if self._kind == "u" else np.int64
            return lambda _, observed: pd.Series(tally.sums.view(kind)[observed])
        if how == "sum":
            tally = self._floats(dtype)
            return lambda _, observed: pd.Series(tally.sums[observed])
        if how == "mean":
            tally = self._floats(np.float64 if exact else dtype)
            return lambda _, observed: pd.Series(tally.means()[observed])
        if how in ("var", "std") and (exact or dtype == np.float64):
            tally = self._tally("spread", lambda: tallies.Spread(count, np.float64), _add_values)
            root: Callable[[Any], Any] = np.sqrt if how == "std" else np.array
            return lambda _, observed: pd.Series(root(tally.variances()[observed]))
        if how in ("min", "max"):
            tally = self._tally(how, lambda: tallies.Extremes(count, dtype, how == "min"), _add_values)
            return lambda _, observed: pd.Series(tally.best[observed]).where(tally.counts[observed] > 0)
        if how in ("any", "all"):
            tally = self._tally("true", lambda: tallies.Marked(count), _add_true)
            if how == "any":
                return lambda _, observed: pd.Series(tally.counts[observed] > 0)
            counts = self._rows.sizes if exact else self._floats(dtype).counts
            return lambda _, observed: pd.Series(tally.counts[observed] == counts[observed])
        return None

    def _can_be_combined(self, how: str) -> bool:
        """Whether the library's aggregates of pieces are combined by the library."""
        dtype, kind = self._dtype, self._content.type
        if how in ("min", "max"):
            if isinstance(dtype, pd.CategoricalDtype):
                return bool(dtype.ordered)
            natural = isinstance(dtype, (pd.StringDtype, pd.DatetimeTZDtype)) or self._kind in "mM"
            return natural or pa.types.is_integer(kind)
        return dtype != np.dtype(object) and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))

    # Of whole columns ---------------------------------------------------------------------------------------------

    def _of_whole_column(self, how: str, numbers: Any, observed: Any) -> Any:
        del observed
        (buffers,) = self._frame._backend.read([self._content.node])
        keys = pd.Categorical.from_codes(numbers, categories=range(self._count))
        series = self.series(buffers)
        result = getattr((series.to_frame() if self._as_frame else series).groupby(keys, observed=True), how)()
        return (result.iloc[:, 0] if self._as_frame else result).reset_index(drop=True)


class _ByLibrary:
    """The library's aggregates of pieces, combined after each."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._made: Any = None

    def add(self, keys: Any, series: Any) -> None:
        """A Series, and categories of its groups."""
        combined = getattr(series.groupby(keys, observed=True), self._how)()
        if self._made is not None:
            combined = pd.concat([self._made, combined])
            combined = getattr(combined.groupby(level=0, observed=True), self._how)()
        self._made = combined

    @property
    def made(self) -> Any:
        return self._made.reset_index(drop=True)


def _add_valid(tally: Any, numbers: Any, keys: Any, series: Any, start: int) -> None:
    del keys
    tally.add(numbers, series.notna().to_numpy(), start)


def _add_true(tally: Any, numbers: Any, keys: Any, series: Any, start: int) -> None:
    del keys
    values = series.to_numpy()
    tally.add(numbers, (values != 0) & (values == values), start)


def _add_values(tally: Any, numbers: Any, keys: Any, series: Any, start: int) -> None:
    del keys, start
    tally.add(numbers, series.to_numpy())
