"""Computing on a compressed frame on a GPU gives what cuDF gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import test_compute
import test_compute_columns
from cudf_fsst import CompressedFrame, selection
from test_compute import CALLS, frame

pytestmark = pytest.mark.gpu
NAMES = [
    "sum of one", "nulls are a group", "two keys", "named", "no index", "size", "dict of lists", "key of numbers too",
    "sort", "sort, from 0", "nlargest", "nsmallest", "duplicates", "dropna of some",
    "merge", "merge, left", "merge, right", "merge, outer", "merge, two keys", "merge, other names",
    "merge, what is shared", "merge with itself", "query", "query of the index", "loc of a slice", "loc of labels",
    "loc of a mask", "loc of a column", "loc of columns", "describe", "assign", "fillna", "fillna of all",
    "astype of all", "set_index", "set_index, appended", "reset_index", "reset_index of a level",
    "reset_index, forgotten",
]  # fmt: skip
#: Whose order cuDF leaves open.
OPEN = {*NAMES[:4], *NAMES[5:8], "duplicates"}
ROWS_OPEN = {name for name in NAMES if name.startswith("merge")}


def on_host(made: Any) -> Any:
    made = made.decompress() if isinstance(made, CompressedFrame) else made
    made = made.to_pandas() if hasattr(made, "to_pandas") else made
    return made.to_frame() if isinstance(made, pd.Series) else made


@pytest.mark.parametrize("name", NAMES)
def test_as_cudf(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cudf = pytest.importorskip("cudf")
    df = cudf.from_pandas(frame().drop(columns=[7]))
    monkeypatch.setattr(test_compute, "OTHER", cudf.from_pandas(test_compute.OTHER))
    f = df.fsst.compress()
    try:
        wanted = on_host(CALLS[name](df))
    except Exception as error:
        with pytest.raises(type(error)):
            CALLS[name](f)
        return
    found = on_host(CALLS[name](f))
    if name in OPEN:
        found, wanted = (one.sort_index() for one in (found, wanted))
    elif name in ROWS_OPEN:
        found, wanted = (one.astype(str).sort_values(list(one.columns), ignore_index=True) for one in (found, wanted))
    elif name == "no index":
        found, wanted = (one.sort_values("mode", ignore_index=True) for one in (found, wanted))
    pd.testing.assert_frame_equal(found, wanted, check_index_type="equiv", check_column_type=False)


def test_the_largest_of_many_rows() -> None:
    cudf = pytest.importorskip("cudf")
    rng = np.random.default_rng(3)
    rows = 300_000
    df = cudf.DataFrame(
        {"x": rng.random(rows), "i": rng.integers(0, 1000, rows), "s": [f"row {i}" for i in range(rows)]}
    )
    df["x"] = df["x"].where(df["i"] != 7)
    f = df.fsst.compress()
    for name in ("nlargest", "nsmallest"):
        for by in ("x", "i", ["i", "x"]):
            found, wanted = getattr(f, name)(50, by), getattr(df, name)(50, by)
            columns = ["i", "x"] if by != "i" else ["i"]
            assert found[columns].reset_index(drop=True).equals(wanted[columns].reset_index(drop=True)), (name, by)


COLUMN_CALLS = (
    "sum min max mean std var median any all count quantile dropna drop_duplicates mode describe quantiles "
    "dt.year fillna sample"
).split()


@pytest.mark.parametrize("name", ["s", "many", "i", "i8", "large", "n", "f", "b", "t", "td", "no floats"])
def test_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cudf = pytest.importorskip("cudf")
    monkeypatch.setattr(selection, "_PIECES", 1 << 20)
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 8192)
    series = cudf.from_pandas(test_compute_columns.COLUMNS[name].reset_index(drop=True))
    column = series.fsst.compress()
    for what in COLUMN_CALLS:
        call = test_compute_columns.CALLS[what]
        wanted, found = (test_compute_columns.outcome(call, one) for one in (series, column))
        if isinstance(wanted, Exception):
            assert isinstance(found, type(wanted)), (what, found, wanted)
            continue
        if hasattr(wanted, "to_pandas"):
            found, wanted = (one.to_pandas() for one in (found, wanted))
            if what in ("mode", "drop_duplicates"):
                found, wanted = (one.sort_values(ignore_index=True) for one in (found, wanted))
            pd.testing.assert_series_equal(found, wanted, obj=what)
        else:
            assert found == wanted or (pd.isna(found) and pd.isna(wanted)), (what, found, wanted)
