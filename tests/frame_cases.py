"""Columns of every dtype, indexes, and comparisons that the tests of CompressedFrame share."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import cudf_fsst
import fresh

ROWS = 3000


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def holes(series: pd.Series) -> pd.Series:
    """A tenth of the values missing."""
    return series.where(rng().random(len(series)) < 0.9)


def arrow(values: list[Any], kind: pa.DataType) -> pd.Series:
    return arrow_series(pa.array(values, kind))


def arrow_series(array: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))


#: Columns by name; every one is of `ROWS` rows.
COLUMNS: dict[str, Callable[[], pd.Series]] = {
    "int8": lambda: pd.Series(rng().integers(-100, 100, ROWS).astype("i1")),
    "uint16": lambda: pd.Series(rng().integers(0, 2**16, ROWS).astype("u2")),
    "int32 sorted": lambda: pd.Series(np.sort(rng().integers(0, 10**6, ROWS)).astype("i4")),
    "int64 extremes": lambda: pd.Series(np.tile(np.array([-(2**63), 2**63 - 1, 0], "i8"), ROWS // 3)),
    "uint64": lambda: pd.Series(rng().integers(0, 2**64, ROWS, dtype="u8")),
    "float16": lambda: pd.Series(rng().random(ROWS).astype("f2")),
    "float32": lambda: pd.Series(np.cumsum(rng().random(ROWS)).astype("f4")),
    "float64 with nan and inf": lambda: pd.Series(np.tile([np.nan, np.inf, -np.inf, -0.0, 1.5], ROWS // 5)),
    "bool": lambda: pd.Series(rng().random(ROWS) < 0.5),
    "datetime": lambda: holes(pd.Series(pd.date_range("2020", periods=ROWS, freq="h"))),
    "datetime with zone": lambda: pd.Series(pd.date_range("2020", periods=ROWS, freq="h", tz="Europe/Berlin")),
    "timedelta": lambda: holes(pd.Series(pd.timedelta_range("1s", periods=ROWS))),
    "period": lambda: pd.Series(pd.period_range("2020", periods=ROWS, freq="D")),
    "interval": lambda: pd.Series(pd.interval_range(0, ROWS)),
    "category": lambda: holes(pd.Series(pd.Categorical(rng().choice(list("abc"), ROWS), ordered=True))),
    "category of numbers": lambda: pd.Series(pd.Categorical(rng().integers(0, 500, ROWS))),
    "category of times": lambda: pd.Series(pd.Categorical(pd.to_timedelta(np.arange(ROWS) % 7, "D"))),
    "category of intervals": lambda: pd.Series(pd.cut(rng().random(ROWS), 5)),
    "category of intervals of dates": lambda: pd.Series(
        pd.cut(pd.Series(pd.date_range("2020", periods=ROWS, tz="Europe/Berlin")), 7, right=False)
    ),
    "category of periods": lambda: pd.Series(pd.Categorical(pd.period_range("2020", periods=ROWS, freq="M"))),
    "category without any": lambda: pd.Series(pd.Categorical([None] * ROWS)),
    "category without any object": lambda: pd.Series(
        [None] * ROWS, dtype=pd.CategoricalDtype(pd.Index([], dtype=object))
    ),
    "Float64 with NaN": lambda: pd.Series(
        pd.arrays.FloatingArray(np.tile([1.5, np.nan, 2.0], ROWS // 3), np.tile([False, False, True], ROWS // 3))
    ),
    "Int64": lambda: holes(pd.Series(rng().integers(0, 9, ROWS), dtype="Int64")),
    "boolean": lambda: holes(pd.Series(rng().random(ROWS) < 0.5, dtype="boolean")),
    "str": lambda: holes(pd.Series([f"row {i}" for i in range(ROWS)])),
    "string[python]": lambda: pd.Series([f"row {i}" for i in range(ROWS)], dtype="string[python]"),
    "object of strings": lambda: pd.Series(["b", None, "ccc"] * (ROWS // 3), dtype=object),
    "object of decimals": lambda: pd.Series([decimal.Decimal("-1.5"), None] * (ROWS // 2), dtype=object),
    "object of lists": lambda: pd.Series([[1, 2], [], None] * (ROWS // 3), dtype=object),
    "object of dicts": lambda: pd.Series([{"a": 1, "b": "x"}, None] * (ROWS // 2), dtype=object),
    "object of bytes": lambda: pd.Series([b"\xff\x00", None] * (ROWS // 2), dtype=object),
    "object of dates": lambda: pd.Series([datetime.date(2020, 1, 1)] * ROWS, dtype=object),
    "all missing": lambda: pd.Series([None] * ROWS, dtype=object),
    "arrow decimal": lambda: arrow(
        [decimal.Decimal(i) / 4 if i % 7 else None for i in range(-1000, 2000)], pa.decimal128(20, 2)
    ),
    "arrow list": lambda: arrow(
        [None if i % 5 == 0 else list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int64())
    ),
    "arrow list of lists": lambda: arrow(
        [[[str(i)] * (i % 3)] for i in range(ROWS)], pa.large_list(pa.list_(pa.string()))
    ),
    "arrow struct": lambda: arrow(
        [None if i % 9 == 0 else {"a": i, "b": {"c": "x" * (i % 3)}} for i in range(ROWS)],
        pa.struct([("a", pa.int16()), ("b", pa.struct([("c", pa.string())]))]),
    ),
    "arrow time": lambda: arrow(list(range(ROWS)), pa.time64("us")),
    "arrow dictionary": lambda: arrow(
        [f"k{i % 11}" if i % 3 else None for i in range(ROWS)], pa.dictionary(pa.int8(), pa.string())
    ),
}


#: Those that cuDF has a dtype for, which can be compressed.
ON_GPU = [
    name
    for name in COLUMNS
    if name not in ("float16", "period", "all missing", "Float64 with NaN")
    and (name == "category of numbers" or not name.startswith(("object of", "arrow", "category ")))
]


INDEXES: dict[str, Callable[[], pd.Index]] = {
    "range": lambda: pd.RangeIndex(5, 5 + 2 * ROWS, 2, name="n"),
    "numbers": lambda: pd.Index(rng().permutation(ROWS), name="i"),
    "strings": lambda: pd.Index([f"label {i}" for i in range(ROWS)]),
    "dates": lambda: pd.date_range("2020", periods=ROWS, freq="D"),
    "several levels": lambda: pd.MultiIndex.from_arrays(
        [np.arange(ROWS) % 7, [f"a{i}" for i in range(ROWS)]], names=["p", None]
    ),
}


def whole() -> pd.DataFrame:
    return pd.DataFrame({name: make() for name, make in COLUMNS.items()})


def same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, wanted, check_freq=True)
    assert list(map(str, found.dtypes)) == list(map(str, wanted.dtypes))


def saved_and_loaded(frame: Any, folder: Path) -> Any:
    frame.save(folder / "frame.fsst")
    return cudf_fsst.load(folder / "frame.fsst")


def same_when_loaded(frame: Any, wanted: pd.DataFrame, folder: Path) -> None:
    """Save the frame and load it in another process."""
    frame.save(folder / "frame.fsst")
    fresh.same_frame(folder / "frame.fsst", wanted)


def same_values(found: Any, wanted: Any) -> bool:
    """Python's values; NaN is equal to itself."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same_values, found, wanted))
    return bool(found == wanted) or (found != found and wanted != wanted)
