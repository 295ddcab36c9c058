"""Columns, dtypes and indexes that the tests of CompressedColumn share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

STR = pd.StringDtype("pyarrow", na_value=np.nan)
#: Texts and nulls.
VALUES = ["", "plain", None, "naïve café", "日本語", "x" * 5000, "a\x00b", None, "fluffily ironic deposits"] * 40

DTYPES = {
    "str": STR,
    "str[python]": pd.StringDtype("python", na_value=np.nan),
    "string[pyarrow]": pd.StringDtype("pyarrow"),
    "string[python]": pd.StringDtype("python"),
    "arrow_string": pd.ArrowDtype(pa.string()),
    "arrow_large_string": pd.ArrowDtype(pa.large_string()),
    "object": np.dtype(object),
}

INDEXES = {
    "range": pd.RangeIndex(6),
    "range_with_step": pd.RangeIndex(20, 2, -3, name="r"),
    "integers": pd.Index([5, 3, 3, 9, -1, 0], name=7),
    "int8": pd.Index([5, 3, 3, 9, -1, 0], dtype="int8"),
    "uint64": pd.Index([5, 3, 3, 9, 2**64 - 1, 0], dtype="uint64"),
    "floats": pd.Index([1.5, np.nan, 2, -0.0, np.inf, 3]),
    "booleans": pd.Index([True, False, True, True, False, False]),
    "nullable_integers": pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype="Int64"),
    "arrow_integers": pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype=pd.ArrowDtype(pa.int64())),
    "str": pd.Index(["a", None, "c", "", "e", "f"], name=("a", 1)),
    "string": pd.Index(["a", None, "c", "", "e", "f"], dtype="string"),
    "python_string": pd.Index(["a", None, "c", "", "e", "f"], dtype=pd.StringDtype("python")),
    "arrow_string": pd.Index(["a", None, "c", "", "e", "f"], dtype=pd.ArrowDtype(pa.string())),
    "object": pd.Index(["a", None, "c", "", "e", "f"], dtype=object),
    "dates": pd.date_range("2020", periods=6, freq="D", name="day"),
    "dates_with_zone": pd.date_range("2020", periods=6, freq="ME", tz="Europe/Paris"),
    "dates_without_frequency": pd.DatetimeIndex(["2020", "2024", "2021", None, "2000", "1999"]).as_unit("s"),
    "durations": pd.timedelta_range("1s", periods=6),
    "periods": pd.period_range("2020", periods=6, freq="M"),
    "intervals": pd.interval_range(0, 6),
    "categories": pd.CategoricalIndex(list("abacca"), categories=list("czab"), ordered=True),
    "integer_categories": pd.CategoricalIndex(pd.Index([1, 2, 1, 1, 2, 2], dtype="Int64")),
    "date_categories": pd.CategoricalIndex(
        pd.DatetimeIndex(["2020", "2021", "2020", "2019", "2020", None], tz="Europe/Paris")
    ),
    "arrow_categories": pd.CategoricalIndex(pd.Index(list("abacca"), dtype=pd.ArrowDtype(pa.string()))),
    "arrow_dictionary": pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array([list("abacca")]).dictionary_encode())),
    "bytes": pd.Index([b"a", None, b"\xff", b"", b"e", b"f"], dtype=object),
    "tuples": pd.MultiIndex.from_product([["u", "v", "w"], [1, 2]], names=["x", None]),
    "tuples_of_kinds": pd.MultiIndex.from_arrays(
        [
            pd.Index(["a", None, "c", "", "e", "f"], dtype=object),
            pd.date_range("2020", periods=6),
            pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype="Int64"),
        ],
        names=["x", "x", ("t", 2)],
    ),
    "tuples_with_missing": pd.MultiIndex(
        levels=[[7, 8], pd.Index([True]), ["u"]], codes=[[0, 1, -1, 0, 0, 1], [0, -1, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]]
    ),
    "tuples_of_one": pd.MultiIndex.from_arrays([[1, 2, 3, 4, 5, 6]]),
}


#: Texts and nulls, one of them of many tiles.
PHRASES = ["a bottle of coffee", "  goodness  ", "", None, "Grüße, all of you", "aabbccddee" * 60, "\0\0\x7f\x7f", "zz"]


def phrases(count: int, seed: int = 0) -> pd.Series:
    """Of `PHRASES`; the first one has the row's number."""
    picked = np.random.default_rng(seed).integers(0, len(PHRASES), count).tolist()
    return pd.Series([PHRASES[i] if i else f"{PHRASES[0]} {row}" for row, i in enumerate(picked)], dtype="str")


def words(count: int = 1000, *, seed: int = 1, nulls: bool = True) -> pd.Series:
    rng = np.random.default_rng(seed)
    parts = np.array(["deposits", "haggle", "slyly", "Größe", "", "final requests"], object)
    rows = [" ".join(parts[rng.integers(0, len(parts), 3)]) for _ in range(count)]
    if nulls:
        rows = [None if hide else row for row, hide in zip(rows, rng.random(count) < 0.2, strict=True)]
    return pd.Series(rows, index=pd.RangeIndex(100, 100 + count), name="words", dtype="str")
