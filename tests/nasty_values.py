"""pandas objects with what is easily lost on the way into a compressed form and back, and what tells the difference."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

ROWS = 60
CALENDAR = pd.offsets.CustomBusinessDay(holidays=["2020-01-03"])


class Frame(pd.DataFrame):
    """As geopandas has it: what pandas makes of it is of this class, too."""

    @property
    def _constructor(self) -> Any:
        return Frame


class Series(pd.Series):
    """Likewise."""

    @property
    def _constructor(self) -> Any:
        return Series


class Text(str):
    """A string of a class of its own."""


def objects(*values: Any) -> pd.Series:
    """These again and again."""
    found = np.empty(ROWS, object)
    found[:] = list(islice(cycle(values), ROWS))
    return pd.Series(found, dtype=object)


def frame(values: pd.Series | None = None, **axes: Any) -> pd.DataFrame:
    """A frame of a column of numbers and one of these values, with these labels."""
    made = pd.DataFrame({"number": range(ROWS), "value": range(ROWS) if values is None else values})
    for name, labels in axes.items():
        setattr(made, name, labels)
    return made


def noted(data: Any) -> Any:
    """With attrs, and without duplicates."""
    data.attrs = {"from": ["here", 1]}
    return data.set_flags(allows_duplicate_labels=False)


def labels(last: Any, name: Any = None) -> pd.Index:
    """An index of objects: texts, and this."""
    return pd.Index([*(f"row {i}" for i in range(ROWS - 1)), last], dtype=object, name=name)


def categories(*values: Any, name: Any = None) -> pd.Series:
    """A Series of these categories."""
    return pd.Series(pd.Categorical.from_codes([0, 1] * (ROWS // 2), pd.Index(values, dtype=object, name=name)))


#: What goes to disk and is the same when it comes back.
KEPT: dict[str, Callable[[], Any]] = {
    "attrs and flags of a frame": lambda: noted(frame()),
    "attrs and flags of texts": lambda: noted(objects("a", "b").astype("str").rename("t")),
    "attrs and flags of objects": lambda: noted(objects("a", None)),
    "attrs and flags of numbers": lambda: noted(pd.Series(range(ROWS))),
    "objects with None": lambda: frame(objects("a", None)),
    "booleans with None": lambda: frame(objects(True, None)),
    "only None": lambda: objects(None),
    "bytes with None": lambda: objects(b"a", b"\xff", None),
    "float objects": lambda: frame(objects(1.5, 2.5)),
    "missing texts": lambda: frame(objects("a", None).astype("str")),
    "a missing text as label": lambda: frame(index=labels(np.nan).astype("str")),
    "None as label": lambda: frame(index=labels(None)),
    "name of NumPy's": lambda: pd.Series(range(ROWS), name=np.int64(3)),
    "name of texts of NumPy's": lambda: objects("a").astype("str").rename(np.int64(3)),
    "tuple as name": lambda: objects("a").astype("str").rename((np.int64(1), "b")),
    "NaN as name": lambda: objects("a").astype("str").rename(np.nan),
    "name of the index of NumPy's": lambda: frame(index=pd.Index(range(ROWS), name=np.int64(4))),
    "name of the index of texts": lambda: pd.Series("a", pd.Index(range(ROWS), name=np.int64(4)), dtype="str"),
    "names of levels": lambda: frame(
        index=pd.MultiIndex.from_arrays([objects("a", "b"), range(ROWS)], names=["k", np.int64(4)])
    ),
    "frequency": lambda: frame(index=pd.date_range("2020", periods=ROWS, freq="h", name="t")),
    "frequency of texts": lambda: pd.Series("a", pd.timedelta_range("1h", periods=ROWS), dtype="str"),
    "frequency with holidays": lambda: frame(index=pd.date_range("2020-01-01", periods=ROWS, freq=CALENDAR)),
    "holidays and texts": lambda: pd.Series("a", pd.date_range("2020-01-01", periods=ROWS, freq=CALENDAR), dtype="str"),
    "no frequency": lambda: frame(index=pd.DatetimeIndex(pd.date_range("2020", periods=ROWS, freq="h"), freq=None)),
    "periods as index": lambda: frame(index=pd.period_range("2020", periods=ROWS, freq="M")),
    "intervals as index": lambda: frame(index=pd.interval_range(0, ROWS)),
    "categories as index": lambda: frame(index=pd.CategoricalIndex(objects("a", "b"), ordered=True)),
    "dtypes of levels of columns": lambda: frame(
        columns=pd.MultiIndex.from_arrays([np.array([1.5, 2.5], "f4"), np.array([1, 2], "u1")], names=["p", "q"])
    ),
    "columns of objects": lambda: frame(columns=pd.Index([1, "a"], dtype=object)),
    "None as column": lambda: frame(columns=pd.Index(["a", None], dtype=object)),
    "NaN as column": lambda: frame(columns=pd.Index([np.nan, "a"], dtype=object)),
    "columns of dates": lambda: frame(columns=pd.date_range("2020", periods=2, freq="D")),
    "columns of dates with holidays": lambda: frame(columns=pd.date_range("2020", periods=2, freq=CALENDAR)),
    "columns of uint8": lambda: frame(columns=pd.Index([1, 2], dtype="u1", name="z")),
    "a range of columns": lambda: frame(columns=pd.RangeIndex(2, name="z")),
    "the same column twice": lambda: frame(columns=["a", "a"]),
    "columns of Arrow's texts": lambda: frame(columns=pd.Index(["a", "b"], dtype=pd.ArrowDtype(pa.string()))),
    "columns of Python's texts": lambda: frame(columns=pd.Index(["a", "b"], dtype="string[python]")),
    "name of columns": lambda: frame(columns=pd.Index(["a", "b"], name=("x", np.int64(1)))),
    "categories": lambda: frame(categories("x", "y")),
    "categories that are booleans": lambda: frame(categories(True, False)),
    "NaN among nullable floats": lambda: frame(
        pd.Series(pd.arrays.FloatingArray(np.array([1.0, np.nan, 2.0] * 20), np.array([False, False, True] * 20)))
    ),
    "NaN among Arrow's floats": lambda: frame(
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1.0, float("nan"), None] * 20)))
    ),
    "zeros and NaN": lambda: frame(pd.Series([np.nan, -0.0, 0.0] * 20)),
    "time zones": lambda: frame(pd.Series(pd.date_range("2020", periods=ROWS, tz="Europe/Berlin"))),
    "NaT": lambda: frame(pd.Series(np.array(["2020-01-01", "NaT"] * 30, "M8[s]"))),
    # pandas warns of the `nbytes` of these.
    "periods as categories": lambda: pd.Series(pd.Categorical(pd.period_range("2020", periods=ROWS, freq="M"))),
    "times with a zone as categories": lambda: pd.Series(
        pd.Categorical(pd.DatetimeIndex(pd.date_range("2020", periods=ROWS, tz="Europe/Berlin"), freq=None))
    ),
}

#: What would change, and so is not compressed.
STAYS: dict[str, Callable[[], Any]] = {
    "NaN among texts": lambda: objects("a", np.nan),
    "NA among texts": lambda: objects("a", pd.NA),
    "NaT among texts": lambda: objects("a", pd.NaT),
    "two kinds of missing": lambda: objects("a", None, np.nan),
    "NaN among bytes": lambda: objects(b"a", np.nan),
    "NaN among dates": lambda: frame(objects(dt.date(2020, 1, 1), np.nan)),
    "NaT among times": lambda: frame(objects(dt.datetime(2020, 1, 1), pd.NaT)),
    "a decimal NaN": lambda: frame(objects(decimal.Decimal("1.5"), decimal.Decimal("NaN"))),
    "only NaN": lambda: objects(np.nan),
    "only NaT": lambda: frame(objects(pd.NaT)),
    "NaN as label": lambda: frame(index=labels(np.nan)),
    "NA as label of texts": lambda: pd.Series("a", labels(pd.NA), dtype="str"),
    "texts of NumPy": lambda: objects(np.str_("a"), "b"),
    "texts of a class of their own": lambda: frame(objects(Text("a"), "b")),
    "numbers as categories": lambda: frame(categories(1, 2.5)),
    "texts of NumPy as categories": lambda: categories(np.str_("x"), "y"),
    "categories with a name": lambda: frame(categories("x", "y", name="kinds")),
    "categories as index, with a name": lambda: frame(
        index=pd.CategoricalIndex(categories("x", "y", name="kinds"), name="i")
    ),
    "categories with a frequency": lambda: frame(pd.Series(pd.Categorical(pd.date_range("2020", periods=ROWS)))),
    "a level of categories with a frequency": lambda: frame(
        index=pd.MultiIndex.from_arrays([pd.Categorical(pd.timedelta_range(0, periods=ROWS, freq="h")), range(ROWS)])
    ),
    "a frame of a subclass": lambda: noted(Frame({"x": range(ROWS)})),
    "a series of a subclass": lambda: noted(Series(["a"] * ROWS)),
}


def same_object(found: Any, wanted: Any) -> None:
    """Of the same type, and the same where there is one of its kind."""
    assert type(found) is type(wanted)
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            same_object(one, other)
    elif wanted is None or wanted is pd.NA or wanted is pd.NaT:
        assert found is wanted


def _identical_index(found: pd.Index, wanted: pd.Index) -> None:
    assert type(found) is type(wanted)
    for one, other in zip(found.names, wanted.names, strict=True):
        same_object(one, other)
    assert getattr(found, "freq", None) == getattr(wanted, "freq", None)
    for number in range(wanted.nlevels):
        _identical_values(found.get_level_values(number), wanted.get_level_values(number))


def _identical_values(found: Any, wanted: Any) -> None:
    assert str(found.dtype) == str(wanted.dtype)
    assert found.dtype == wanted.dtype
    if isinstance(wanted.dtype, pd.CategoricalDtype):
        _identical_index(found.dtype.categories, wanted.dtype.categories)
    elif wanted.dtype == np.dtype(object):
        for one, other in zip(found, wanted, strict=True):
            same_object(one, other)
    elif wanted.dtype == np.float64:
        assert found.to_numpy().tobytes() == wanted.to_numpy().tobytes()


def identical(found: Any, wanted: Any) -> None:
    """Raise AssertionError where anything tells two pandas objects apart."""
    assert type(found) is type(wanted)
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_freq=True, check_flags=True)
        _identical_index(found.columns, wanted.columns)
        for number in range(wanted.shape[1]):
            _identical_values(found.iloc[:, number], wanted.iloc[:, number])
    else:
        pd.testing.assert_series_equal(found, wanted, check_exact=True, check_freq=True, check_flags=True)
        same_object(found.name, wanted.name)
        _identical_values(found, wanted)
    _identical_index(found.index, wanted.index)
    assert found.attrs == wanted.attrs
    assert found.flags.allows_duplicate_labels == wanted.flags.allows_duplicate_labels
