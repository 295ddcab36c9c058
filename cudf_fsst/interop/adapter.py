"""What the adapters of pandas and cuDF have both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..buffers import ColumnBuffers


class Adapter(Protocol):
    """A library of Series and DataFrames: the modules `interop.pandas` and `interop.cudf`.

    A *column* is of pandas a Series, of cuDF what its Series have inside. Arrays are NumPy's or CuPy's.
    """

    def all_missing(self, series: Any) -> bool:
        """Whether there are rows, and none has a value."""

    def answers(self, column: ColumnBuffers, dtype: Any, missing: Any, name: Any, index: Any) -> Any:
        """A Series of the answers to a question.

        Parameters
        ----------
        column
            Booleans or integers, in an array that is the caller's own, and which rows have none.
        dtype
            Of the Series: one of NumPy's, a nullable one, or Arrow's.
        missing
            What the Series has where there is none.
        """

    def build(self, column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None, *, nullable: bool = False) -> Any:
        """A Series of what `describe` gave, without name and labels.

        Parameters
        ----------
        nullable
            These are rows of a column that has nulls in it. pandas' dtype of integers and booleans depends on whether
            there are any, and is the whole column's.
        """

    def build_index(self, notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, bool]]) -> Any:
        """An index of what `describe_index` gave: buffers, type, and whether they are of a level that has nulls."""

    def byte_count(self, series: Any) -> Any:
        """Bytes of strings, in UTF-8."""

    def categorical(self, column: ColumnBuffers, dtype: Any) -> Any:
        """A column of categories, of codes in an array that is the caller's own, and which rows have none."""

    def categories(self, values: Any) -> tuple[Any, Any]:
        """The codes of values as categories, -1 of missing ones, in an array, and their dtype."""

    def check_dtype(self, data: Any) -> None:
        """Raise AttributeError, naming the dtype, where nothing takes a Series or Index of this dtype."""

    def column_series(
        self,
        column: ColumnBuffers,
        kind: Any,
        stored: dict[str, Any] | None,
        dtype: Any,
        name: Any,
        index: Any,
        *,
        nullable: bool = False,
    ) -> Any:
        """A Series of what `describe` gave.

        Parameters
        ----------
        dtype
            Of a column of strings; None: what `stored` says.
        nullable
            See `build`.

        Raises
        ------
        UnicodeDecodeError
            The dtype holds Python's strings, and some bytes are not UTF-8; it names the row.
        """

    def columns(self, data: Any) -> list[Any]:
        """The columns of a DataFrame."""

    def concat(self, results: Sequence[Any]) -> Any:
        """Join the results of a function called on consecutive pieces, labels kept."""

    def concat_labels(self, names: Sequence[Any], indexes: Sequence[Any]) -> tuple[Any, Any]:
        """Name and index of the library's ``concat`` of Series with these names and indexes."""

    def concat_values(self, results: Sequence[Any]) -> Any:
        """Join Series of consecutive pieces; their labels are left out."""

    def counted(self, values: Any, counts: Any, *, normalize: bool, sort: bool, ascending: bool) -> Any:
        """What ``value_counts`` gives: distinct values, which may have a missing one, and how often each is there."""

    def describe_index(self, index: Any) -> tuple[dict[str, Any], list[Any]]:
        """Notes on an index' kind, names and dtypes, and its levels (none of a RangeIndex)."""

    def distinct(self, series: Any) -> Any:
        """Each value once, in order of first appearance, labelled from 0."""

    def factorized(self, series: Any) -> tuple[Any, Any]:
        """Numbers of values by first appearance, -1 of missing ones, and a Series of the values."""

    def frame(self, columns: Sequence[Any], labels: Any, index: Any) -> Any:
        """A DataFrame of columns, their labels, and an index."""

    def holds_strings(self, data: Any) -> bool:
        """Whether a Series or Index holds strings."""

    def is_frame(self, value: Any) -> bool:
        """Whether `concat` can join such values."""

    def labels(self, data: Any) -> tuple[Any, Any]:
        """Name and index of a Series; an Index counts as a Series with a RangeIndex."""

    def like(self, series: Any, pat: str, esc: str | None = None) -> Any:
        """The answers of cuDF's ``str.like``, with dtype and missing values of ``str.contains``.

        Parameters
        ----------
        pat
            "%" stands for any characters, "_" for one.
        esc
            What stands before "%", "_" and itself where they stand for themselves: one character at most.
        """

    def mode(self) -> Any:
        """What the results of methods depend on, beside their arguments."""

    def of_array(self, values: Any, name: Any, index: Any) -> Any:
        """A Series of numbers or booleans without missing ones, of an array that is the caller's own."""

    def row_values(self, key: Any) -> Any:
        """Numbers or booleans of a selection in an array; missing booleans are False."""

    def rows_of(self, series: Any, numbers: Any) -> Any:
        """Values at some positions, some of them often; labels are left out."""

    def same(self, left: Any, right: Any) -> bool:
        """Whether two Series or DataFrames have equal labels and values."""

    def sample(self, values: Sequence[str | None], dtype: Any, kind: Any, stored: dict[str, Any] | None) -> Any:
        """A short Series of strings of a dtype; `kind` and `stored` are what `describe` says of it."""

    def scalars(self, series: Any) -> list[Any]:
        """The values of a short Series, missing ones as pandas has them."""

    def series(self, values: Any, name: Any, index: Any) -> Any:
        """A Series of a column, a name and labels."""

    def take_labels(self, index: Any, rows: Any) -> Any:
        """Labels of some rows."""

    def view(self, index: Any) -> Any:
        """An Index that shares the labels, and whose names can be set without changing the other's; nothing is copied.

        pandas does this wherever an index is handed over.
        """

    def with_labels(self, series: Any, index: Any) -> Any:
        """A Series that nobody else has, with other labels."""

    def with_level_dtypes(self, index: Any, dtypes: Sequence[Any]) -> Any:
        """An index with levels of other dtypes; None: of the one they have."""

    def with_names(self, index: Any, names: Sequence[Any]) -> Any:
        """An index that nobody else has, with other names."""
