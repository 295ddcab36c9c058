"""A column computes what the Series does that it decompresses to."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cudf_fsst import CompressedColumn, selection

ROWS = 6000


def columns() -> dict[str, pd.Series]:
    """Of all kinds, in several pieces where `pieces` is used; with and without dictionaries and missing values."""
    rng = np.random.default_rng(3)
    days = pd.to_timedelta(rng.integers(0, 900, ROWS), "D")
    made = {
        "s": pd.Series(rng.choice(["b", "a", "", None, "é"], ROWS), dtype="str"),
        "o": pd.Series(rng.choice(["x", "y", None], ROWS), dtype=object),
        "many": pd.Series([f"v{i * 7 % 5003}" for i in range(ROWS)], dtype=object),
        "p": pd.Series(pd.array(rng.choice(["q", "r", None], ROWS), dtype="string[pyarrow]")),
        "w": pd.Series(pd.array(rng.choice(["z", "u", None], ROWS), dtype=pd.ArrowDtype(pa.string()))),
        "u": pd.Series([f"u{i * 7919 % ROWS}" for i in range(ROWS)]),
        "k": pd.Series(pd.Categorical(rng.choice(list("abc"), ROWS), list("dcba"), ordered=True)),
        "i": pd.Series(rng.integers(-5, 5, ROWS)),
        "i8": pd.Series(rng.integers(-5, 5, ROWS).astype("i1")),
        "large": pd.Series(rng.integers(2**61, 2**62, ROWS)),
        "n": pd.Series(pd.array(rng.choice([1, 2, None], ROWS), dtype="Int64")),
        "f": pd.Series(np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS))),
        "b": pd.Series(rng.integers(0, 2, ROWS).astype(bool)),
        "true": pd.Series(np.ones(ROWS, bool)),
        "t": pd.Series(pd.Timestamp("2026") + days),
        "tz": pd.Series(pd.Timestamp("2026", tz="Europe/Zurich") + days).where(rng.random(ROWS) < 0.8),
        "td": pd.Series(days),
        "d": pd.Series(
            pd.array([decimal.Decimal(i % 50) / 4 for i in range(ROWS)], dtype=pd.ArrowDtype(pa.decimal128(10, 2)))
        ),
        "l": pd.Series(pd.array([[1], [2, 3], None] * (ROWS // 3), dtype=pd.ArrowDtype(pa.list_(pa.int64())))),
        "null": pd.Series([None] * ROWS, dtype="str"),
        "no rows": pd.Series([], dtype="str"),
        "no floats": pd.Series([], dtype=float),
        "nan": pd.Series([np.nan] * ROWS),
    }
    for number, (name, series) in enumerate(made.items()):
        series.name = name
        if number % 2:
            series.index = pd.Index(rng.integers(0, 50, len(series)), name="label")
    return made


COLUMNS = columns()
CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda s, name=name: getattr(s, name)()
        for name in (
            "sum",
            "min",
            "max",
            "mean",
            "std",
            "var",
            "median",
            "any",
            "all",
            "count",
            "mode",
            "describe",
            "quantile",
            "to_list",
            "tolist",
            "dropna",
            "duplicated",
            "drop_duplicates",
        )
    },
    **{f"{name}, missing too": lambda s, name=name: getattr(s, name)(skipna=False) for name in ("sum", "min", "all")},
    **{f"dt.{name}": lambda s, name=name: getattr(s.dt, name) for name in ("year", "days", "date", "tz", "unit")},
    "dt.floor": lambda s: s.dt.floor("D"),
    "dt.isocalendar": lambda s: s.dt.isocalendar(),
    "quantiles": lambda s: s.quantile([0.1, 0.9]),
    "mode with missing": lambda s: s.mode(dropna=False),
    "duplicated, last": lambda s: s.duplicated(keep="last"),
    "no duplicates": lambda s: s.drop_duplicates(keep=False, ignore_index=True),
    "dropna, from 0": lambda s: s.dropna(ignore_index=True),
    "fillna": lambda s: s.fillna("b"),
    "fillna 0": lambda s: s.fillna(0) if s.dtype.kind in "if" else s.fillna("a", limit=2),
    "astype str": lambda s: s.astype(str),
    "astype float": lambda s: s.astype(float),
    "astype category": lambda s: s.astype("category"),
    "sample": lambda s: s.sample(7 * bool(len(s)), random_state=1),
    "sample, weighted": lambda s: s.sample(frac=0.1, weights=np.arange(len(s)), random_state=1, ignore_index=True),
    "map a dict": lambda s: s.map({"a": 1, "x": "two", 3: 5, "u7": 2.5}) if s.name != "l" else s.map({}),
    "map a Series": lambda s: s.map(pd.Series({"a": 1, "q": 2})) if s.name != "l" else s.isna(),
    "map a function": lambda s: s.map(lambda value: str(value) * 2, na_action="ignore"),
}


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 8192)


def outcome(call: Callable[[Any], Any], data: Any) -> Any:
    try:
        made = call(data)
    except Exception as error:
        return error
    return made.decompress() if isinstance(made, CompressedColumn) else made


def check(found: Any, wanted: Any) -> None:
    if isinstance(wanted, Exception):
        assert type(found) is type(wanted), (found, wanted)
    elif isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted)
    elif isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted)
    else:
        assert (type(found), repr(found)) == (type(wanted), repr(wanted))


@pytest.mark.filterwarnings("ignore")  # of pandas, on what it will do otherwise
def test_times_that_depend_on_other_rows(pieces: None) -> None:
    """Whose rows cannot be asked piece by piece."""
    twice = pd.date_range("2026-10-24 09:20", "2026-10-25 02:59", freq="min").append(
        pd.date_range("2026-10-25 02:00", "2026-10-25 05:00", freq="min")  # both hours lie across a piece's end
    )
    days, local = pd.Series(pd.date_range("2026", periods=ROWS)), pd.Series(twice)
    for series, call in (
        (days, lambda s: s.dt.freq),
        (days - days[0], lambda s: s.dt.freq),
        (days - days[0], lambda s: s.dt.to_pytimedelta()),
        (local, lambda s: s.dt.tz_localize("Europe/Berlin", ambiguous="infer")),
        (local, lambda s: s.dt.tz_localize("Europe/Berlin", ambiguous=np.arange(len(twice)) < 1060)),
    ):
        column = series.fsst.compress()
        assert len(column._default_pieces()) > 1
        check(outcome(call, column), outcome(call, series))


@pytest.mark.filterwarnings("ignore")  # of pandas, on what it will do otherwise
@pytest.mark.parametrize("name", COLUMNS)
def test_as_the_series(name: str, pieces: None) -> None:
    column = COLUMNS[name].fsst.compress()
    series = column.decompress()
    for what, call in CALLS.items():
        wanted = outcome(call, series)
        if isinstance(wanted, pd.Series) and what.startswith("fillna") and wanted.dtype == object != series.dtype:
            continue  # values of two kinds, which no column holds
        try:
            check(outcome(call, column), wanted)
        except AssertionError as error:
            raise AssertionError(f"{what} of {name}: {error}") from error


def test_dictionaries_are_asked_instead_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    column = COLUMNS["s"].fsst.compress()
    assert column.codec == "dict"

    def refused(self: CompressedColumn, *args: Any) -> Any:
        raise AssertionError("rows are decoded")

    monkeypatch.setattr(CompressedColumn, "_range", refused)
    assert (column.min(), column.max(), column.count()) == ("", "é", COLUMNS["s"].count())
    assert column.mode().tolist() == COLUMNS["s"].mode().tolist()
    assert column.duplicated().equals(COLUMNS["s"].duplicated())
    assert column.map({"a": 1}).equals(COLUMNS["s"].map({"a": 1}))


def test_what_does_not_change_is_returned() -> None:
    column = COLUMNS["u"].fsst.compress()
    assert column.fillna("x") is column
    assert column.astype("str") is column
    changed = column.astype(object)
    assert isinstance(changed, CompressedColumn)
    assert (changed.name, changed._index) == (column.name, column._index)


def test_memory_of_pieces(pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers whose order does not count are never there as a whole."""
    column = COLUMNS["large"].fsst.compress()
    plain = CompressedColumn._range
    longest = []

    def seen(self: CompressedColumn, start: int, stop: int | None, **options: Any) -> Any:
        made = plain(self, start, stop, **options)
        longest.append(len(made))
        return made

    monkeypatch.setattr(CompressedColumn, "_range", seen)
    wanted = COLUMNS["large"]
    assert (column.sum(), column.min(), column.max()) == (wanted.sum(), wanted.min(), wanted.max())
    assert max(longest) < ROWS / 2


def test_with_the_library() -> None:
    """What pandas and NumPy make of a column."""
    series = COLUMNS["s"]
    column = series.fsst.compress()
    frame = pd.DataFrame({"x": np.arange(ROWS)})
    assert np.asarray(column).tolist() == np.asarray(series).tolist()
    assert frame.groupby(column.to_categorical(), observed=True)["x"].sum().sum() == frame["x"][series.notna()].sum()
    assert pd.concat([series, column.decompress()]).count() == 2 * column.count()


def test_what_is_not_there_names_the_way() -> None:
    column = COLUMNS["s"].fsst.compress()
    with pytest.raises(AttributeError, match=r"c\.decompress\(\)"):
        _ = column.rolling
    with pytest.raises(AttributeError, match=r"\.dt accessor"):
        _ = column.dt
    assert "year" in dir(COLUMNS["t"].fsst.compress().dt)
