"""Computing on a compressed frame on a GPU gives what cuDF gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import test_compute
import test_compute_columns
from cudf_fsst import CompressedFrame, selection
from cudf_fsst.compute import answer_shape, few_groups, groups, partials
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
    cudf, cupy = pytest.importorskip("cudf"), pytest.importorskip("cupy")
    rng = np.random.default_rng(3)
    rows = 300_000
    df = cudf.DataFrame(
        {"x": rng.random(rows), "i": rng.integers(0, 1000, rows), "s": [f"row {i}" for i in range(rows)]}
    )
    df["x"] = df["x"].where(df["i"] != 7)
    df["y"], df["z"] = cupy.asarray(rng.normal(size=rows)), cupy.asarray(rng.permutation(rows).astype(np.float32))
    nan = np.where(rng.random(rows) < 0.1, np.nan, rng.permutation(rows))
    df["w"] = cudf.Series(cupy.asarray(nan), nan_as_null=False)
    f = df.fsst.compress()
    for name in ("nlargest", "nsmallest"):
        for by in ("x", "i", "y", "z", "w", ["i", "x"]):
            found, wanted = getattr(f, name)(50, by), getattr(df, name)(50, by)
            columns = {"i": ["i"], "w": ["w"]}.get(str(by), ["i", "x", "y", "z"])
            found, wanted = (one[columns].reset_index(drop=True).to_pandas() for one in (found, wanted))
            assert found.equals(wanted), (name, by)


@pytest.mark.parametrize("few", [False, True])
def test_joins_of_many_rows(few: bool) -> None:
    """By numbers, strings, times and several keys; against few rows, which are looked for first, and many."""
    cudf = pytest.importorskip("cudf")
    rng = np.random.default_rng(7)
    rows = 120_000
    host = pd.DataFrame(
        {
            "k": rng.integers(0, 40_000, rows),
            "mode": pd.Series(rng.choice(["AIR", "RAIL", "", None], rows), dtype="str"),
            "note": pd.Series([f"order {i % 9000}" for i in range(rows)], dtype="str"),
            "day": pd.to_datetime(rng.integers(0, 500, rows), unit="D"),
            "x": rng.normal(size=rows),
            "tax": rng.integers(0, 9, rows) / 100,
            "n": pd.array(np.where(rng.random(rows) < 0.3, None, rng.integers(0, 999, rows)), dtype="Int64"),
        }
    )
    other = host[["k", "mode", "day", "note", "n"]].iloc[rng.integers(0, rows, 300 if few else rows // 2)]
    other = other.drop_duplicates("k")
    other = other.assign(rate=other["k"] * 0.5, what=other["note"].where(other["k"] % 2 == 0, "x"))
    df, right = (cudf.from_pandas(one.reset_index(drop=True)) for one in (host, other))
    f, packed = df.fsst.compress(), right.fsst.compress()
    joins: list[tuple[list[str], dict[str, Any]]] = [
        (["k"], {"on": "k"}),
        (["k"], {}),
        (["k", "rate", "what"], {"on": "k", "suffixes": ("", "_of")}),
        (["k", "mode", "day", "rate"], {"on": ["k", "mode"]}),
        (["note", "rate"], {"on": "note"}),
        (["day", "n"], {"left_on": ["day", "n"], "right_on": ["day", "n"]}),
        (["note", "what"], {"left_on": "note", "right_on": "what"}),
    ]
    for labels, options in joins:
        some = labels if few or labels[0] not in ("day", "note") else ["k", *labels]
        if some != labels and "left_on" in options:
            continue  # many rows for each
        if some != labels:
            options = {"on": some[:2]}
        wanted = on_host(df.merge(right[some], **options))
        for one in (right[some], packed[some]):
            found = on_host(f.merge(one, **options))
            assert list(found.columns) == list(wanted.columns)
            assert (found.dtypes == wanted.dtypes).all()
            assert found.index.equals(wanted.index)
            by = list(found.columns)
            pd.testing.assert_frame_equal(
                found.sort_values(by, ignore_index=True), wanted.sort_values(by, ignore_index=True), obj=str(options)
            )
        if "left_on" not in options:
            assert len(packed[some].merge(f, **options)) == len(wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"on": "k"},
        {"on": ["k", "s"], "suffixes": ("", "_right")},
        {},
        {"left_on": ["s", "k"], "right_on": ["s", "k"]},
        {"left_on": ["s", "x"], "right_on": ["s", "y"]},
        {"left_on": "x", "right_index": True},
    ],
    ids=str,
)
def test_right_joins(options: dict[str, Any]) -> None:
    """cuDF, which swaps the frames, has their columns in another order than pandas."""
    cudf = pytest.importorskip("cudf")
    df = cudf.DataFrame({"x": [1, 2, 3, 4], "s": ["a", "b", None, "d"], "k": [7, 8, 9, 7], "z": ["u", "v", "w", None]})
    right = cudf.DataFrame({"y": [2, 1, 5], "k": [8, 7, 1], "s": ["b", "x", "d"], "z": ["r", None, "t"]})
    wanted = on_host(df.merge(right, how="right", **options))
    f = df.fsst.compress()
    for one in (right, right.fsst.compress()):
        found = on_host(f.merge(one, how="right", **options))
        assert list(found.columns) == list(wanted.columns)
        by = list(found.columns)
        found, wanted = (made.sort_values(by, ignore_index=True) for made in (found, wanted))
        pd.testing.assert_frame_equal(found, wanted)


COLUMN_CALLS = (
    "sum min max mean std var median any all count quantile dropna drop_duplicates mode describe quantiles "
    "dt.year fillna sample"
).split()


@pytest.mark.parametrize("name", ["s", "many", "i", "i8", "large", "n", "f", "b", "t", "td", "no floats"])
def test_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cudf = pytest.importorskip("cudf")
    monkeypatch.setattr(selection, "_PIECES", 1 << 20)
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 8192)
    monkeypatch.setattr(selection, "_MAPPED_NBYTES", 8192)
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


def few_groups_frame(rows: int, missing: float) -> pd.DataFrame:
    """Keys with dictionaries and numbers of all sizes, some of them missing."""
    rng = np.random.default_rng(rows)

    def some(values: Any, dtype: Any) -> Any:
        return pd.Series(pd.array(np.where(rng.random(rows) < missing, None, values), dtype=dtype))

    made = {
        "mode": pd.Series(rng.choice(["AIR", "RAIL", "", "Zürich", None], rows), dtype="str"),
        "flag": pd.Series(rng.choice(["N", "R"], rows), dtype="str"),
        "f": np.where(rng.random(rows) < missing, np.nan, rng.normal(size=rows) * 1e6),
        "f4": rng.normal(size=rows).astype(np.float32),
        "u8": rng.integers(0, 2**63, rows).astype(np.uint64) * np.uint64(2),
        "large": rng.integers(-(2**62), 2**62, rows),
    }
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        limits = np.iinfo(kind)
        made[kind] = rng.integers(limits.min, int(limits.max) + 1, rows).astype(kind)
    made["n"] = some(rng.integers(-9, 9, rows), "Int64")
    return pd.DataFrame(made)


#: Whose squares are more than cuDF adds up, so that its var and std are negative, or missing; pandas' are right.
_LARGE = ["u8", "large", "int32", "uint32"]
FEW = ["sum", "mean", "min", "max", "count", "var", "std"]
FEW_CALLS = {
    **{name: lambda g, name=name: getattr(g, name)() for name in FEW},
    "size": lambda g: g.size(),
    "one": lambda g: g["f"].sum(),
    "some": lambda g: g[["f", "int8"]].max(),
    "lists": lambda g: g[["f", "large"]].agg(["sum", "count", "min"]),
    "named": lambda g: g.agg(a=("f", "mean"), b=("uint8", "max"), c=("n", "count")),
    "dict": lambda g: g.agg({"f": "sum", "u8": "min", "f4": "var", "large": "count"}),
    "list of one": lambda g: g["int16"].agg(["min", "std"]),
}


def same_groups(found: pd.DataFrame, wanted: pd.DataFrame, what: str) -> None:
    """Sums of four bytes are added up in four bytes by cuDF, and in eight here."""
    narrow = [label == "f4" or (isinstance(label, tuple) and "f4" in label) for label in wanted.columns]
    for those, rtol, atol in ((narrow, 1e-3, 1e-6), ([not one for one in narrow], 1e-9, 1e-8)):
        some = found.loc[:, those], wanted.loc[:, those]
        pd.testing.assert_frame_equal(*some, check_index_type="equiv", obj=what, rtol=rtol, atol=atol)


@pytest.mark.parametrize("missing", [0, 0.3, 1])
def test_few_groups(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the codes of the keys, in one piece and in many; where all values of a column are missing, as cuDF does it."""
    cudf = pytest.importorskip("cudf")
    host = few_groups_frame(70_001, missing)
    df = cudf.from_pandas(host)
    numbers = list(df.columns[2:])
    f = df.fsst.compress()
    assert {f.codecs["mode"], f.codecs["flag"]} == {"dict"}
    answered = []
    aggregate = few_groups.aggregate

    def seen(*arguments: Any) -> Any:
        answered.append(aggregate(*arguments))
        return answered[-1]

    monkeypatch.setattr(few_groups, "aggregate", seen)
    monkeypatch.setattr(answer_shape, "KNOWN", {})
    for nbytes in (1 << 30, 1 << 18):
        monkeypatch.setattr(groups, "_PIECE_NBYTES", nbytes)
        monkeypatch.setattr(groups, "_PIECE_PART", 1 << 40)
        for by in (["mode"], ["flag", "mode"]):
            for options in ({}, {"dropna": False}):
                for name, call in FEW_CALLS.items():
                    spread = name in ("var", "std")
                    # Where a column has no values cuDF answers for all, so these are left out.
                    columns = [label for label in numbers if not (spread and missing == 1 and label in _LARGE)]
                    some = (call(one[by + columns].groupby(by, **options)) for one in (f, df))
                    found, wanted = (on_host(one).sort_index() for one in some)
                    if spread and missing < 1:
                        plain = call(host[by + _LARGE].groupby(by, **options)).sort_index()
                        wanted[_LARGE] = plain.to_numpy()
                    same_groups(found, wanted, str((nbytes, by, options, name)))
    if missing < 1:
        assert len(answered) >= 2 * 2 * 2 * (len(FEW_CALLS) - 2)  # cuDF answers for means of uint64
    assert all(one is not None for one in answered)
    assert answer_shape.KNOWN  # cuDF is asked once what an answer looks like


def test_memory_of_few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of the keys, numbers and pieces, and not the columns."""
    cudf = pytest.importorskip("cudf")
    import rmm
    import rmm.statistics

    rows = 4_000_000
    rng = np.random.default_rng(3)
    columns = {f"x{number}": rng.normal(size=rows) for number in range(8)}
    df = cudf.DataFrame({"key": np.array(["a", "b", "c"])[rng.integers(0, 3, rows)], **columns})
    f = df.fsst.compress()
    before = rmm.mr.get_current_device_resource()
    rmm.statistics.enable_statistics()
    try:
        names = ["sum", "mean", "var", "min"]
        f.groupby("key").agg(dict.fromkeys(columns, names))
        rmm.statistics.push_statistics()
        f.groupby("key").agg(dict.fromkeys(columns, names))
        peak = rmm.statistics.pop_statistics().peak_bytes
    finally:
        rmm.mr.set_current_device_resource(before)
    assert peak < max(64 << 20, f.uncompressed_nbytes // 8) + 3 * rows


MANY_CALLS = {name: FEW_CALLS[name] for name in ("sum", "mean", "min", "max", "count", "one", "some", "lists", "named")}


@pytest.mark.parametrize("missing", [0, 0.3, 1])
def test_many_groups_in_pieces(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregates of pieces are combined, whatever the keys."""
    cudf = pytest.importorskip("cudf")
    host = few_groups_frame(70_001, missing)
    host["k"] = (host["f"] / 1e5).round()
    host["kind"] = host["mode"].astype("category")
    df = cudf.from_pandas(host)
    f = df.fsst.compress()
    monkeypatch.setattr(groups, "_PIECE_NBYTES", 1 << 19)
    monkeypatch.setattr(groups, "_PIECE_PART", 1 << 40)
    answered = []
    aggregate = partials.aggregate

    def seen(*arguments: Any) -> Any:
        answered.append(len(arguments[1]))
        return aggregate(*arguments)

    monkeypatch.setattr(partials, "aggregate", seen)
    for by in ("k", ["mode", "k"], "kind"):
        keys = by if isinstance(by, list) else [by]
        for options in ({}, {"dropna": False}):
            for name, call in MANY_CALLS.items():
                numbers = ["f", "f4", "int8", "uint8", "n"] + ["large"] * (name != "mean")  # whose sums are too large
                columns = [*keys, *numbers]
                some = (on_host(call(one[columns].groupby(by, **options))) for one in (f, df))
                found, wanted = (one.reset_index().sort_values(keys, ignore_index=True) for one in some)
                same_groups(found, wanted, str((by, options, name)))
    assert len(answered) >= 3 * 2 * (len(MANY_CALLS) - 2)
    assert min(answered) > 1
