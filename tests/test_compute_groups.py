"""Groups are aggregated piece by piece, and give what the library gives of all rows at once, to the last digit."""

from __future__ import annotations

import decimal
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cudf_fsst import selection
from cudf_fsst.compute import partials
from cudf_fsst.compute.pieces import Aggregate
from test_compute_drawn import outcome

METHODS = "sum min max mean std var median count size nunique first last any all".split()


def drawn_frame(rng: np.random.Generator) -> pd.DataFrame:
    """Some columns of many kinds, with few or many missing values; few rows or some pieces of them."""
    rows = int(rng.choice([6000, 1, 20, 200, 5000]))
    missing = rng.random() * 0.9

    def some(values: Any) -> Any:
        return np.where(rng.random(rows) < missing, None, values)

    def arrow(values: Any, kind: pa.DataType, make: Callable[[Any], Any]) -> Any:
        return pd.array([None if x is None else make(x) for x in some(values)], dtype=pd.ArrowDtype(kind))

    days = np.where(rng.random(rows) < missing, np.nan, rng.integers(0, 9, rows))
    small, floats = rng.integers(0, 9, rows), rng.normal(size=rows) * 10.0 ** rng.integers(-8, 8, rows)
    every = {
        "s": pd.Series(rng.choice(["b", "a", "", None, "é"], rows), dtype="str"),
        "o": pd.Series(rng.choice(["x", "y", None], rows), dtype=object),
        "w": pd.Series(pd.array(rng.choice(["z", "u", None], rows), dtype=pd.ArrowDtype(pa.string()))),
        "k": pd.Categorical(rng.choice(list("abc"), rows), list("dcba"), ordered=bool(rng.integers(2))),
        "k2": pd.Categorical(rng.choice([1, 2, None], rows), [1, 2, 3]),
        "i": rng.integers(0, 5, rows),
        "ascending": np.sort(rng.integers(0, rows, rows)),
        "days": pd.Timestamp("2026") + pd.to_timedelta(np.sort(days), "D"),  # the missing ones last
        "i8": rng.integers(-128, 128, rows).astype(np.int8),
        "u8": rng.integers(0, 256, rows).astype(np.uint64) << np.uint64(56),  # sums are too large
        "large": rng.integers(-(2**62), 2**62, rows),
        "n": pd.array(some(small), dtype="Int64"),
        "n8": pd.array(some(rng.integers(-128, 128, rows)), dtype="Int8"),
        "f": np.where(rng.random(rows) < missing, np.nan, floats),
        "f4": np.where(rng.random(rows) < missing, np.nan, floats).astype(np.float32),
        "inf": rng.choice([np.inf, -np.inf, 1, np.nan, -0.0, 0.0], rows),
        "n64": pd.array(some(floats), dtype="Float64"),
        "b": rng.integers(0, 2, rows).astype(bool),
        "nb": pd.array(some(rng.integers(0, 2, rows).astype(bool)), dtype="boolean"),
        "t": pd.Timestamp("2026") + pd.to_timedelta(days, "D"),
        "tz": pd.Series(pd.Timestamp("2026", tz="Europe/Zurich") + pd.to_timedelta(days, "D")),
        "td": pd.to_timedelta(days, "D"),
        "ai": arrow(small, pa.int32(), int),
        "af": arrow(floats, pa.float64(), float),
        "ad": arrow(small, pa.decimal128(12, 2), lambda value: decimal.Decimal(int(value)) / 4),
        "u": [f"u{i * 7919 % rows}" for i in range(rows)],
    }
    labels = rng.permutation(list(every)).tolist()[: int(rng.integers(4, len(every)))]
    made = pd.DataFrame({label: every[label] for label in labels})
    if rng.random() < 0.15:
        made.index = pd.Index(rng.integers(0, 50, rows), name=str(rng.choice(["label", labels[0]])))
    elif rng.random() < 0.1:
        made.index = pd.MultiIndex.from_arrays([rng.integers(0, 5, rows), rng.integers(0, 5, rows)], names=["q", None])
    if rng.random() < 0.2:
        made.columns = pd.Index([5, *labels[1:]], dtype=object, name="columns")
    elif rng.random() < 0.1:
        made.columns = pd.RangeIndex(len(labels))
    return made


def drawn_call(rng: np.random.Generator, labels: list[Any]) -> tuple[Callable[[Any], Any], Any]:
    """A call, and what it is."""

    def draw(some: list[Any], count: int) -> list[Any]:
        return [some[place] for place in rng.choice(len(some), count, replace=False)]

    keys, values, names = draw(labels, int(rng.integers(1, 4))), draw(labels, int(rng.integers(1, 4))), draw(METHODS, 3)
    by = keys if len(keys) > 1 or rng.random() < 0.5 else keys[0]
    options = {name: bool(rng.integers(2)) for name in ("sort", "dropna", "as_index") if rng.random() < 0.5}
    options |= {"observed": bool(rng.integers(2))} if rng.random() < 0.7 else {}
    more: dict[str, Any] = {"numeric_only": True} if rng.random() < 0.3 and names[0] in ("sum", "max", "first") else {}
    more |= {"min_count": 2} if rng.random() < 0.1 and names[0] == "sum" else {}
    way = int(rng.integers(8))

    def call(data: Any) -> Any:
        found = data.groupby(by, **options)
        if way < 3:
            some = (found, found[values], found[values[0]])[way]
            return getattr(some, names[0])(**more)
        if way == 3:
            return found.agg(dict.fromkeys(values, names[0]))
        if way == 4:
            return found.agg(**{f"r{number}": (label, names[number]) for number, label in enumerate(values)})
        if way == 5:
            return found[values].agg(names)
        if way == 6:
            return found[values[0]].agg(names)
        return found.agg({label: names[: 1 + number] for number, label in enumerate(values)})

    return call, (by, options, way, values, names, more)


@pytest.mark.filterwarnings("ignore")  # of pandas, on what it will do otherwise
@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_drawn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 8192)
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", ["2", "8"][seed % 2])  # few threads add columns together
    rng = np.random.default_rng(seed)
    for _ in range(5):
        compressed = drawn_frame(rng).fsst.compress()
        frame = compressed.decompress()
        for _ in range(20):
            call, what = drawn_call(rng, list(frame.columns))
            found, wanted = outcome(call, compressed), outcome(call, frame)
            if isinstance(wanted, Exception):
                assert type(found) is type(wanted), (what, found, wanted)
            elif isinstance(wanted, pd.Series):
                pd.testing.assert_series_equal(found, wanted, rtol=0, atol=0, obj=str(what))
            else:
                pd.testing.assert_frame_equal(found, wanted, rtol=0, atol=0, obj=str(what))


def many_rows(rows: int = 600_000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "key": pd.Series(rng.choice(["a", "b", "c"], rows), dtype="str"),
            "day": rng.integers(0, 300, rows),
            **{f"x{number}": rng.normal(size=rows) for number in range(10)},
            "n": rng.integers(0, 1000, rows),
        }
    )


def test_memory_is_that_of_keys_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the columns, which take 53 MB."""
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 1 << 20)
    df = many_rows()
    f = df.fsst.compress()
    for by in ("key", ["key", "day"]):

        def call(data: Any, by: Any = by) -> Any:
            names = ["sum", "mean", "var", "min", "last"]
            return data.groupby(by).agg(dict.fromkeys(data.columns[2:], names))

        wanted = call(df)
        call(f)  # which compiles
        tracemalloc.start()
        found = call(f)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pd.testing.assert_frame_equal(found, wanted, rtol=0, atol=0)
        keys = len(df) * (48 if isinstance(by, list) else 3)  # what makes one number of them
        assert peak < keys + 4 * (1 << 20), by


def test_what_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of values that cannot be missing need none; keys with a dictionary are not decoded."""
    f = many_rows(9000).fsst.compress()
    read, seen = type(f._backend).read, []
    monkeypatch.setattr(
        type(f._backend), "read", lambda self, nodes, *a, **k: seen.extend(nodes) or read(self, nodes, *a, **k)
    )
    f.groupby("key").agg({"x0": "sum", "n": "count"})
    nodes = [f.column(label)._content.node for label in ("x0", "n", "key")]
    assert [sum(one is node for one in seen) for node in nodes] == [2, 1, 0]  # the first row, and all


@pytest.mark.parametrize("keys", [["i"], ["s", "i"], ["f"], ["k", "s"]])
def test_aggregates_of_pieces_by_the_library(keys: list[str]) -> None:
    """The way of a GPU, with pandas."""
    rng = np.random.default_rng(5)
    rows = 6000
    df = pd.DataFrame(
        {
            "x": np.where(rng.random(rows) < 0.5, np.nan, rng.normal(size=rows)),
            "s": pd.Series(rng.choice(["a", "b", None], rows), dtype="str"),
            "i": rng.integers(0, 900, rows),
            "f": rng.choice([0.5, np.nan, 1, 2], rows),
            "k": pd.Categorical(rng.choice(["u", "v"], rows), ["v", "w", "u"]),
            "n": rng.integers(-(2**62), 2**62, rows),
        }
    )
    f = df.fsst.compress()
    wanted = {"x": ["sum", "mean", "min", "max", "count"], "n": ["sum", "count", "max"]}
    asked = [Aggregate(list(df).index(label), how) for label, names in wanted.items() for how in names]
    for options in ({}, {"dropna": False, "sort": False}):
        for pieces in ([(0, rows)], [(start, start + 1000) for start in range(0, rows, 1000)]):
            found = partials.aggregate(f, pieces, [list(df).index(key) for key in keys], asked, options)
            expected = df.groupby(keys, **options).agg(wanted).sort_index()
            found.columns = expected.columns
            pd.testing.assert_frame_equal(found.sort_index(), expected, rtol=1e-12, atol=1e-12)


def test_groups_are_not_iterated_over() -> None:
    """Python would ask for columns 0, 1, ... instead."""
    frame = pd.DataFrame({0: [1, 1], 1: [2, 3]}).fsst.compress()
    with pytest.raises(TypeError, match=r"f\.decompress\(\)\.groupby"):
        list(frame.groupby(0))
