"""Comparisons of numbers and times with values: what the library's own Series answers, and which way they go."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst  # noqa: F401 - registers the accessor
from query_cases import Call, asked, check, compared, name_of

ROWS = 2600
SIGNS = ("==", "!=", "<", "<=", ">", ">=")
KINDS = [f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)]
TIMES = [f"{kind}8[{unit}]" for kind in "Mm" for unit in ("s", "ms", "us", "ns")]


def integers(kind: str) -> dict[str, pd.Series]:
    """Series of a dtype: of few values, of all that there are, and ascending."""
    rng, limits = np.random.default_rng(3), np.iinfo(kind)
    everything = rng.integers(limits.min, limits.max, ROWS, kind, endpoint=True)
    everything[:2] = limits.min, limits.max
    return {
        "few": pd.Series(rng.integers(max(limits.min, -90), 100, ROWS).astype(kind), name="n"),
        "all": pd.Series(everything),
        "ascending": pd.Series(np.sort(everything)),
    }


def times(kind: str) -> pd.Series:
    made = pd.Series(np.random.default_rng(4).integers(-(10**9), 10**9, ROWS).astype("i8").view(kind))
    made[3] = pd.NaT
    return made


def values_of(series: Any, kind: str) -> list[Any]:
    """What a column is compared with: its own values, others of many types, and nothing that could be one."""
    own = [series.iloc[7], series.iloc[-1], series.max()]
    if kind[0] in "iu":
        own += [int(value) for value in own]
        own += [0, 1, -1, 2**40, 10**30, -(10**30), 2.5, -2.5, 2.0**60, np.nan, np.inf, True]
        return [*own, np.int8(3), np.uint64(7), np.float32(1.5), np.timedelta64(3, "s"), None, "x"]
    own += [None, pd.NaT, 3, "zz", np.timedelta64(5, "h"), pd.Timedelta(5), datetime.timedelta(0, 5)]
    own += ["1970-01-05", "1970-01-05 00:00:00.0000005", datetime.datetime(1970, 1, 2), datetime.date(1970, 1, 2)]
    return [*own, np.datetime64("1970-01-02"), np.datetime64(5, "ns"), pd.Timestamp("1970-01-02", tz="UTC")]


def calls(series: Any, kind: str) -> list[Call]:
    values = values_of(series, kind)
    made = [compared(sign, value) for sign in SIGNS for value in values]
    ends = [value for value in values[:5] if value is not pd.NaT]
    for inclusive in ("both", "left", "right", "neither"):
        made += [asked("between", *pair, inclusive=inclusive) for pair in itertools.product(ends, ends)]
    own = [int(value) for value in series.iloc[:9].tolist()] if kind[0] in "iu" else list(series.iloc[5:9])
    made += [asked("isin", some) for some in (own, own[:1], tuple(own), [], [*own, 10**25], [*own, 2.5])]
    return [*made, asked("between", 1, 2, inclusive="odd")]


def ways_of(column: Any, some: list[Call], what: str) -> set[str]:
    """Compare all calls with those of the Series; which ways they went, of those that have a way of their own."""
    said: set[str] = set()
    for call in some:
        said.update(check(column, call, f"{what}: {name_of(call)}"))
    return said


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind: str) -> None:
    for name, series in integers(kind).items():
        said = ways_of(series.fsst.compress(), calls(series, kind), f"{kind}, {name}")
        assert {f"{sign}: codes" for sign in (*SIGNS, "between")} <= said


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", TIMES)
def test_times(kind: str) -> None:
    said = ways_of(times(kind).fsst.compress(), calls(times(kind), kind), kind)
    assert {f"{sign}: codes" for sign in SIGNS} <= said


def test_what_is_decoded() -> None:
    """Values that the library does not compare exactly, and columns that have more than such numbers."""
    numbers = pd.Series(np.arange(ROWS))
    for series, value in (
        (numbers, 2.5),
        (numbers, True),
        (numbers.astype("Int64"), 3),
        (numbers.astype("f8"), 3),
        (numbers.astype("int64[pyarrow]"), 3),
        (numbers % 2 == 0, True),
        (numbers.astype("category"), 3),
    ):
        column = series.fsst.compress()
        for sign in ("==", "!="):
            assert check(column, compared(sign, value)) == [f"{sign}: decoded in 1 piece"]


@pytest.mark.gpu
class TestGpu:
    @pytest.mark.parametrize("kind", KINDS)
    def test_integers(self, kind: str) -> None:
        import cudf

        for name, plain in integers(kind).items():
            series = cudf.from_pandas(plain)
            said = ways_of(series.fsst.compress(codec="bitpack"), calls(plain, kind), f"{kind}, {name}")
            if name == "few":
                assert {f"{sign}: codes" for sign in (*SIGNS, "between", "isin")} <= said
            series[5:9] = None
            ways_of(series.fsst.compress(codec="bitpack"), calls(plain, kind), f"{kind}, {name}, with nulls")

    @pytest.mark.parametrize("kind", TIMES)
    def test_times(self, kind: str) -> None:
        import cudf

        plain = times(kind)
        ways_of(cudf.from_pandas(plain).fsst.compress(codec="bitpack"), calls(plain, kind), f"{kind}, with nulls")
        said = ways_of(cudf.from_pandas(plain.dropna()).fsst.compress(codec="bitpack"), calls(plain, kind), kind)
        assert {f"{sign}: codes" for sign in SIGNS} <= said

    @pytest.mark.parametrize("precision", [7, 15])
    def test_decimals(self, precision: int) -> None:
        import cudf

        cents = np.random.default_rng(5).integers(-900, 900, ROWS).tolist()
        values = pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(precision, 2))
        kind = cudf.Decimal32Dtype if precision < 10 else cudf.Decimal64Dtype
        series = cudf.Series.from_arrow(values).astype(kind(precision, 2))
        some = [compared(sign, value) for sign in SIGNS for value in (3, Decimal("1.25"), Decimal("-2.5"), 10**30)]
        said = ways_of(series.fsst.compress(), [*some, compared("==", Decimal("1.255"))], "decimals")
        assert {f"{sign}: codes" for sign in SIGNS} <= said
        series[5:9] = None
        ways_of(series.fsst.compress(), some, "decimals with nulls")

    def test_values_of_a_series(self) -> None:
        """Of the same type they are looked for in the codes, of others in what is decoded."""
        import cudf

        rng = np.random.default_rng(6)
        plain = cudf.Series(rng.integers(0, 10**6, 200_000))
        missing = plain.copy()
        missing[5:900] = None
        for series in (plain, plain.sort_values(ignore_index=True), plain.astype("int32"), plain + 2**45, missing):
            column = series.fsst.compress()
            own = series.sample(5000, random_state=1).dropna()
            for values, way in (
                (own, "codes"),
                (own.head(0), "codes"),
                (own.to_numpy().tolist(), "codes"),
                (cudf.Index(own), "codes"),
                (own.astype("float64"), "decoded in 1 piece"),
                (missing.astype(series.dtype).head(1000), "decoded in 1 piece"),
            ):
                assert check(column, asked("isin", values)) == [f"isin: {way}"]
        wide = cudf.Series(rng.integers(-(2**62), 2**62, 5000))
        assert check(wide.fsst.compress(), asked("isin", wide.head(9))) == ["isin: decoded in 1 piece"]
