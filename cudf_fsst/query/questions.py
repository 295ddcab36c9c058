"""What users ask a `CompressedColumn`."""

from __future__ import annotations

from typing import Any

from . import compare, distinct
from .source import ColumnSource
from .strings import StringMethods


class Questions(ColumnSource):
    """The questions that a `cudf_fsst.CompressedColumn` answers.

    Every answer is a Series with the column's name and index: of cuDF for a column on a GPU, of pandas for one in host
    memory. It equals the answer of the decompressed column. ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=`` compare
    each value.
    """

    __slots__ = ()

    # NumPy and pandas leave `array == column` to the methods below.
    __array_ufunc__ = None
    __pandas_priority__ = 5000  # above that of a DataFrame

    @property
    def str(self) -> StringMethods:
        """Methods of strings: `~cudf_fsst.query.strings.StringMethods`.

        Columns of other values raise AttributeError, as a Series does.
        """
        return StringMethods(self)

    def isna(self) -> Any:
        """Whether values are missing: a Series of booleans."""
        return compare.isna(self)

    def notna(self) -> Any:
        """Whether values are not missing: a Series of booleans."""
        return compare.isna(self, negated=True)

    def isin(self, values: Any) -> Any:
        """Whether each value is one of some others: a Series of booleans.

        Parameters
        ----------
        values : list, set, array or Series
            The values to look for.
        """
        return compare.isin(self, values)

    def between(self, left: Any, right: Any, inclusive: Any = "both") -> Any:
        """Whether each value lies between two others: a Series of booleans.

        Parameters
        ----------
        left, right : object
            The two values, or arrays with one for each row.
        inclusive : str
            Which of the two are inside: ``"both"``, ``"neither"``, ``"left"`` or ``"right"``.
        """
        return compare.between(self, left, right, inclusive)

    def unique(self) -> Any:
        """Distinct values in order of first appearance, as the library's Series gives them."""
        return distinct.unique(self)

    def nunique(self, dropna: bool = True) -> int:
        """How many distinct values there are; missing ones count as one unless `dropna`."""
        return distinct.nunique(self, dropna)

    def value_counts(
        self,
        normalize: bool = False,
        sort: bool = True,
        ascending: bool = False,
        bins: Any = None,
        dropna: bool = True,
    ) -> Any:
        """How often each value is there: a Series, labelled by the values.

        Parameters
        ----------
        normalize : bool
            Parts of all rows instead of numbers.
        sort, ascending : bool
            In the order of the numbers, largest first unless `ascending`.
        bins : int, optional
            Of numbers: count those in so many ranges.
        dropna : bool
            Leave missing values out.
        """
        return distinct.value_counts(self, normalize, sort, ascending, bins, dropna)

    def to_categorical(self) -> Any:
        """The column as categories: the Series that ``column.decompress().astype("category")`` is.

        Of strings with a dictionary each distinct value is decoded once, and rows get the codes of these.
        """
        return distinct.to_categorical(self)

    def __eq__(self, other: object) -> Any:
        """Compare each value: a Series of booleans. ``equals`` compares whole columns.

        Parameters
        ----------
        other : object
            A value. Or one value for each row: an array, a Series with the same labels, or a compressed column.
        """
        return compare.compare(self, other, "eq")

    def __ne__(self, other: object) -> Any:
        return compare.compare(self, other, "ne")

    def __lt__(self, other: Any) -> Any:
        return compare.compare(self, other, "lt")

    def __le__(self, other: Any) -> Any:
        return compare.compare(self, other, "le")

    def __gt__(self, other: Any) -> Any:
        return compare.compare(self, other, "gt")

    def __ge__(self, other: Any) -> Any:
        return compare.compare(self, other, "ge")

    __hash__ = None  # type: ignore[assignment]  # as of a Series
