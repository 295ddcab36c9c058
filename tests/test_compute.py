"""Computing on a compressed frame gives what the library gives on the decompressed one."""

from __future__ import annotations

import functools
import gzip
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from cudf_fsst import CompressedFrame
from cudf_fsst.compute import frames

ROWS = 9000


def frame(seed: int = 3, rows: int = ROWS, index: Any = None) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "mode": pd.Series(rng.choice(["AIR", "RAIL", "SHIP", None, ""], rows), dtype="str"),
            "flag": pd.Series(rng.choice(["N", "R", "Zürich"], rows), dtype=object),
            "kind": pd.Categorical(rng.choice(list("abc"), rows), categories=list("dcba")),
            "day": rng.integers(0, 40, rows),
            "price": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(0, 500, rows) / 4),
            "note": [f"note {i * 7919 % 5003} of {i}" for i in range(rows)],
            7: rng.integers(0, 2, rows).astype(bool),
        }
    )
    made.columns = pd.Index(list(made.columns), dtype=object)
    made.index = pd.RangeIndex(rows) if index is None else index
    return made


def same(found: Any, wanted: Any) -> None:
    found = found.decompress() if isinstance(found, CompressedFrame) else found
    wanted = wanted.decompress() if isinstance(wanted, CompressedFrame) else wanted
    assert type(found) is type(wanted)
    if isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted, check_index_type="equiv")
    else:
        pd.testing.assert_frame_equal(found, wanted, check_index_type="equiv", check_column_type=False)


CALLS: dict[str, Callable[[Any], Any]] = {
    "sum of one": lambda f: f.groupby("mode")["price"].sum(),
    "nulls are a group": lambda f: f.groupby("mode", dropna=False)["price"].sum(),
    "first appearance": lambda f: f.groupby("mode", sort=False)["price"].mean(),
    "first appearance with nulls": lambda f: f.groupby("mode", sort=False, dropna=False)[["price", "day"]].max(),
    "two keys": lambda f: f.groupby(["mode", "flag"]).agg({"price": "sum", "day": "mean"}),
    "two keys, unsorted": lambda f: f.groupby(["flag", "mode"], sort=False, dropna=False)["day"].sum(),
    "key of numbers too": lambda f: f.groupby(["mode", "day"])["price"].count(),
    "named": lambda f: f.groupby(["flag", "mode"]).agg(total=("price", "sum"), n=("day", "count")),
    "no index": lambda f: f.groupby("mode", as_index=False)["price"].sum(),
    "no index, two keys": lambda f: f.groupby(["mode", "flag"], as_index=False).agg(a=("price", "sum")),
    "size": lambda f: f.groupby("mode").size(),
    "size, no index": lambda f: f.groupby("mode", as_index=False).size(),
    "lists": lambda f: f.groupby("mode")["price"].agg(["sum", "mean"]),
    "dict of lists": lambda f: f.groupby("mode").agg({"price": ["sum", "min"], "day": ["max"]}),
    "categories": lambda f: f.groupby("kind", observed=False)["price"].sum(),
    "categories and strings": lambda f: f.groupby(["kind", "mode"], observed=False)["price"].sum(),
    "label of a number": lambda f: f.groupby(7)["price"].median(),
    "first of all": lambda f: f.groupby("flag").first(),
    "last of all": lambda f: f.groupby(["flag", "mode"]).last(),
    "count of all": lambda f: f.groupby("mode").count(),
    "nunique": lambda f: f.groupby("flag").nunique(),
    "any": lambda f: f.groupby("flag")[[7]].any(),
    "all": lambda f: f.groupby("flag")[7].all(),
    "numbers alone": lambda f: f.groupby("mode").std(numeric_only=True),
    "key among the values": lambda f: f.groupby("mode")[["mode", "price"]].first(),
    "level": lambda f: f.groupby(lambda label: 1)["day"].var(),
    "sort": lambda f: f.sort_values("price", kind="stable"),
    "sort, descending": lambda f: f.sort_values(["mode", "price"], ascending=[False, True]),
    "sort, from 0": lambda f: f.sort_values(["note"], ignore_index=True, na_position="first"),
    "nlargest": lambda f: f.nlargest(10, "price"),
    "nlargest of two": lambda f: f.nlargest(10, ["price", "day"], keep="all"),
    "nsmallest": lambda f: f.nsmallest(10, "price"),
    "duplicates": lambda f: f.drop_duplicates(["mode", "flag"]),
    "duplicates of all": lambda f: f.drop_duplicates(),
    "duplicates, none kept": lambda f: f.drop_duplicates("note", keep=False, ignore_index=True),
    "dropna": lambda f: f.dropna(),
    "dropna of some": lambda f: f.dropna(subset=["price"], ignore_index=True),
    "dropna how": lambda f: f.dropna(how="all", subset=["price", "mode"]),
    "query": lambda f: f.query("price > 50 and mode == 'AIR'"),
    "query of the index": lambda f: f.query("day == 3 and index != 7") if f.index.nlevels == 1 else f[f["day"] == 3],
    "merge": lambda f: f.merge(OTHER, on="mode"),
    "merge, left": lambda f: f.merge(OTHER, on="mode", how="left", suffixes=("", "_of mode")),
    "merge, right": lambda f: f.merge(OTHER, on="mode", how="right", indicator=True),
    "merge, outer": lambda f: f.merge(OTHER, how="outer", on=["mode"], sort=True),
    "merge, others alone": lambda f: f.merge(OTHER, on="mode", how="left_anti"),
    "merge, cross": lambda f: f.merge(OTHER.iloc[:1], how="cross"),
    "merge, two keys": lambda f: f.merge(OTHER, left_on=["mode", "day"], right_on=["mode", "z"], validate="m:m"),
    "merge, other names": lambda f: f.merge(OTHER, left_on="day", right_on="z", how="left"),
    "merge, what is shared": lambda f: f.merge(OTHER[["mode", "z"]]),
    "merge with the index": lambda f: f.merge(OTHER.set_index("z"), left_on="day", right_index=True),
    "merge by the index": lambda f: (
        f.merge(OTHER, left_index=True, right_on="z" if f.index.nlevels == 1 else None)
        if f.index.nlevels == 1 and f.index.dtype == "int64"
        else f.merge(OTHER, on="mode")
    ),
    "merge with itself": lambda f: f.merge(f[["note", "price"]], on="note", suffixes=(None, "_too")),
    "loc of a slice": lambda f: f.loc[5:9] if f.index.dtype == "int64" else f.loc[:],
    "loc of labels": lambda f: f.loc[list(f.index[:3]), ["mode", "day"]],
    "loc of a row": lambda f: f.loc[f.index[3]] if len(f) > 3 else f.iloc[:0],
    "loc of columns": lambda f: f.loc[:, ["price", "mode"]],
    "loc of a mask": lambda f: f.loc[f["day"] > 5, "mode":"day"],
    "loc of a column": lambda f: f.loc[:, "day"],
    "sample": lambda f: f.sample(7 * bool(len(f)), random_state=3),
    "sample, weighted": lambda f: f.sample(
        frac=0.1, weights="day" if len(f) else None, random_state=5, ignore_index=True
    ),
    "describe": lambda f: f.describe(),
    "describe of all": lambda f: f.describe(include="all"),
    "assign": lambda f: f.assign(a=1, b=lambda d: d["day"] * 2, day="x"),
    "assign, aligned": lambda f: (
        f.assign(day=pd.Series([1.5, 2])) if type(f.index) is pd.RangeIndex and len(f) else f.assign(day=1)
    ),
    "fillna": lambda f: f.fillna({"price": 0, "mode": "none"}),
    "fillna of all": lambda f: f[["price", "day"]].fillna(0, limit=3),
    "astype": lambda f: f.astype({"day": "float32", "flag": "category"}),
    "astype of all": lambda f: f[["day", "price"]].astype("float64"),
    "set_index": lambda f: f.set_index("mode"),
    "set_index, appended": lambda f: f.set_index(["mode", "day"], append=True, drop=False),
    "set_index of an array": lambda f: f.set_index([np.arange(len(f)) % 7, "day"]),
    "reset_index": lambda f: f.reset_index(),
    "reset_index of a level": lambda f: f.set_index(["mode", "day"]).reset_index("mode", names="new"),
    "reset_index, forgotten": lambda f: f.reset_index(drop=True),
}
WIDE = pd.DataFrame([[1, 2], [3, 4]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")], names=["G", None]))
OTHER = pd.DataFrame(
    {"mode": ["RAIL", "AIR", "BOAT", None, "AIR"], "z": [1, 2, 3, 4, 3], "price": [1.5, 2, 3, 4, 5], "ok": [True] * 5}
)
INDEXES: dict[str, Callable[[int], Any]] = {
    "range": pd.RangeIndex,
    "text": lambda rows: pd.Index([f"r{i % 50}" for i in range(rows)], name="row"),
    "multi": lambda rows: pd.MultiIndex.from_arrays([np.arange(rows) % 3, np.arange(rows)], names=["a", None]),
}


@functools.cache
def compressed(rows: int, index: str) -> Any:
    return frame(rows=rows, index=INDEXES[index](rows)).fsst.compress()


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", CALLS)
def test_as_the_library(name: str, index: str) -> None:
    for rows in (0, 50, ROWS) if index == "range" else (ROWS // 2,):
        f = compressed(rows, index)
        if rows > 5000:
            assert f.codecs["mode"] == "dict"
        same(CALLS[name](f), CALLS[name](f.decompress()))


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.groupby("none")["price"].sum(),
        lambda f: f.groupby("mode")["none"].sum(),
        lambda f: f.groupby("mode").agg({"none": "sum"}),
        lambda f: f.groupby("mode").agg(a=("none", "sum")),
        lambda f: f.groupby("mode")["price"].agg("none"),
        lambda f: f.groupby(["mode", "none"]).size(),
        lambda f: f.sort_values("none"),
        lambda f: f.sort_values(["price", "none"]),
        lambda f: f.merge(pd.DataFrame({"mode": ["AIR"]}), on="none"),
        lambda f: f.merge(pd.DataFrame({"mode": ["AIR"]}), left_on="mode", right_on="none"),
        lambda f: f.merge("none"),
        lambda f: f.merge(pa.table({"mode": ["AIR"]}), on="mode"),
        lambda f: f.query("none > 3"),
        lambda f: f.nlargest(3, "note"),
        lambda f: f.drop_duplicates("none"),
        lambda f: f.dropna(subset=["none"]),
        lambda f: f.drop(columns=["none"]),
        lambda f: f.rename(columns={"none": "some"}, errors="raise"),
    ],
)
def test_errors(call: Callable[[Any], Any]) -> None:
    f = frame(rows=5000).fsst.compress()
    with pytest.raises(Exception) as wanted:  # noqa: PT011 - whichever the library raises
        call(f.decompress())
    with pytest.raises(type(wanted.value)):
        call(f)


def test_a_label_that_is_not_there_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    f = frame(rows=5000).fsst.compress()
    other = pd.DataFrame({"mode": ["AIR"]})
    read = f._backend.read

    def short(self: Any, nodes: Any, start: int = 0, stop: int | None = None, **options: Any) -> Any:
        if nodes and (stop is None or stop > start):
            pytest.fail("rows were decoded")
        return read(nodes, start, stop, **options)

    monkeypatch.setattr(type(f._backend), "read", short)
    for call in (
        lambda: f.groupby("none").size(),
        lambda: f.groupby(["mode", "none"])["price"].sum(),
        lambda: f.sort_values("none"),
        lambda: f.dropna(subset=["none"]),
        lambda: f.merge(other, on="none"),
        lambda: f.merge(other, left_on="mode", right_on="none"),
    ):
        with pytest.raises(KeyError, match="none"):
            call()
    with pytest.raises(TypeError, match="Can only merge"):
        f.merge(pa.table(other), on="mode")
    with pytest.raises(NameError, match="none"):
        f.query("none > 3")


def test_frames_that_share() -> None:
    f = frame().fsst.compress()
    less, other = f.drop(columns=["note", 7]), f.rename(columns={"note": "text"})
    assert isinstance(less, cudf_fsst.CompressedFrame)
    same(less.decompress(), f.decompress().drop(columns=["note", 7]))
    same(other.decompress(), f.decompress().rename(columns={"note": "text"}))
    assert other.column("text")._content is f.column("note")._content


def test_what_is_not_there_names_the_way() -> None:
    f = frame(rows=50).fsst.compress()
    for name, way in (("pivot_table", "decompress"), ("price", r"f\['price'\]"), ("nothing_such", "nothing_such")):
        with pytest.raises(AttributeError, match=way):
            getattr(f, name)
    with pytest.raises(AttributeError, match="decompress"):
        _ = f.groupby("mode").transform
    with pytest.raises(AttributeError, match=r"a column is f.groupby\(...\)\['price'\]"):
        _ = f.groupby("mode").price
    for name, way in (("isnull", "isna is the same"), ("to_numpy", r"np.asarray\(c\)")):
        with pytest.raises(AttributeError, match=way):
            getattr(f.column("price"), name)
    assert not hasattr(f, "pivot")
    assert not hasattr(f, "_no_such")


def test_groups_by_a_compressed_column() -> None:
    """A frame takes one; pandas takes it for a function, and gets what it makes categories of."""
    f = frame().fsst.compress()
    df, modes = f.decompress(), f.column("mode")
    for by in (modes, [modes], [modes, "day"]):
        plain = [one if isinstance(one, str) else df["mode"] for one in by] if isinstance(by, list) else df["mode"]
        same(f.groupby(by)["price"].sum(), df.groupby(plain)["price"].sum())
    with pytest.raises(TypeError, match="'CompressedColumn' object is not callable"):
        df.groupby(modes)
    found = df.groupby(modes.to_categorical(), observed=True)["price"].sum()
    assert found.tolist() == df.groupby("mode")["price"].sum().tolist()
    assert np.asarray(f.column("day")).tolist() == df["day"].tolist()


def test_only_what_is_needed_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    f = frame().fsst.compress()
    read, seen = f._backend.read, []
    monkeypatch.setattr(
        type(f._backend), "read", lambda self, nodes, *a, **k: seen.extend(nodes) or read(nodes, *a, **k)
    )
    f.groupby("mode")["price"].sum()
    f.nlargest(5, "price")
    assert f.column("price")._content.node in seen
    assert f.column("note")._content.node not in seen
    assert f.column("mode")._content.node not in seen  # its codes are


@pytest.mark.parametrize("options", [{}, {"index": False, "sep": ";"}, {"header": list("abcdefg"), "columns": None}])
@pytest.mark.parametrize("rows", [0, 3, ROWS])
def test_csv(rows: int, options: dict[str, Any], tmp_path: Path) -> None:
    """The library's bytes, whatever the pieces."""
    df = frame(rows=rows)
    f = df.fsst.compress()
    plain = f.decompress()
    plain.to_csv(tmp_path / "plain.csv", **options)
    f.to_csv(tmp_path / "ours.csv", chunk_bytes=20_000, **options)
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
    assert f.to_csv(chunk_bytes=20_000, **options) == plain.to_csv(**options)
    data = io.BytesIO()
    f.to_csv(data, chunk_bytes=20_000, encoding="utf-16", **options)
    assert data.getvalue().decode("utf-16") == plain.to_csv(**options)
    with gzip.open(tmp_path / "x.csv.gz", "wt", newline="", encoding="utf-8") as file:
        f.to_csv(file, **options)
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()) == (tmp_path / "plain.csv").read_bytes()


def test_csv_of_days() -> None:
    """pandas leaves out the time where all of a chunk are days."""
    days = pd.Series(pd.date_range("2026", periods=3000))
    later = pd.to_timedelta(np.arange(3000) // 1300, "h")
    for df in (pd.DataFrame({"t": days + later}), pd.DataFrame({"n": range(3000)}, pd.Index(days - days[0] + later))):
        f = df.fsst.compress()
        assert len(f._pieces(1)) > 1
        for options in ({}, {"chunksize": 100}, {"chunksize": 2000}):
            assert f.to_csv(chunk_bytes=1, **options) == df.to_csv(**options)


def test_csv_mistakes(tmp_path: Path) -> None:
    f = frame(rows=50).fsst.compress()
    path = tmp_path / "x.csv"
    path.write_text("as it was")
    with pytest.raises(TypeError, match="mode"):
        f.to_csv(path, mode="a")
    with pytest.raises(ValueError, match=r"x\.csv\.gz"):
        f.to_csv(tmp_path / "x.csv.gz")
    with pytest.raises(UnicodeEncodeError):
        f.to_csv(path, encoding="ascii")
    with pytest.raises(LookupError, match="no such"):
        f.to_csv(encoding="no such")
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        f.to_csv(storage_options={"key": "x"})
    assert path.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["x.csv"]


def test_info() -> None:
    f = frame(rows=5000).fsst.compress()
    text = io.StringIO()
    f.info(text)
    (line,) = (line.split() for line in text.getvalue().splitlines() if " price " in line)
    assert line[2:5] == [str(f["price"].count()), "float64", f.codecs["price"]]
    assert f"{f.nbytes:,} bytes" in text.getvalue()
    short = io.StringIO()
    f.info(short, show_counts=False)
    assert "Non-Null" not in short.getvalue()


def test_arguments_of_another_kind() -> None:
    f = frame(rows=50).fsst.compress()
    same(f.sample(5, axis="rows", random_state=1), f.decompress().sample(5, random_state=1))
    with pytest.raises(ValueError, match="No axis named 7"):
        f.sample(5, axis=7)
    with pytest.raises(ValueError, match="must be a string to be evaluated, not 5"):
        f.query(5)


def test_frames_do_not_change() -> None:
    f = frame(rows=50).fsst.compress()
    for call in (
        lambda: f.set_index("mode", inplace=True),
        lambda: f.fillna(0, inplace=True),
        lambda: f.reset_index(inplace=True),
        lambda: f.fillna({"price": 0}, axis=1),
        lambda: f.sample(2, axis=1),
        lambda: f.query("price > 1", inplace=True),
        lambda: f.dropna(inplace=True),
        lambda: f.sort_values("price", inplace=True),
        lambda: f.rename(columns={"price": 0}).sort_values(0, axis=1),
    ):
        with pytest.raises(TypeError, match=r"inplace|axis|change"):
            call()


def test_what_did_not_change_is_shared() -> None:
    f = frame().fsst.compress()
    made = f.assign(more=f.column("note"), day=1).fillna({"price": 0.0}).astype({"kind": "str"}).set_index("flag")
    for label in ("mode", "note", 7):
        assert made.column(label)._content is f.column(label)._content, label
    assert made.column("more")._content is f.column("note")._content
    assert f.reset_index().column("note")._content is f.column("note")._content


def test_query_sees_the_callers_names() -> None:
    f = frame().fsst.compress()
    least = 100  # noqa: F841 - in the expression
    same(f.query("price > @least and day == @ROWS - 8995"), f.decompress().query("price > @least and day == 5"))
    with pytest.raises(Exception, match="nothing_such"):
        f.query("price > @nothing_such")
    same(f.query("price > @least", local_dict={"least": 120}), f.decompress().query("price > 120"))


def test_payload_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a join the rows that were found alone are decoded, but for the keys."""
    f = frame().fsst.compress()
    read, seen = f._backend.read, []
    monkeypatch.setattr(
        type(f._backend), "read", lambda self, nodes, *a, **k: seen.extend((nodes, a)) or read(nodes, *a, **k)
    )
    f.merge(OTHER[OTHER["mode"] == "BOAT"].astype({"z": float}), left_on=["mode", "price"], right_on=["mode", "z"])
    f.query("day == 5")
    f.loc[5:9]
    whole = [node for nodes, rows in zip(seen[::2], seen[1::2], strict=True) if rows[1:] == (None,) for node in nodes]
    assert f.column("day")._content.node in whole
    assert f.column("note")._content.node not in whole


@pytest.mark.parametrize("kind", ["float64", "int16", "Int64", "datetime64[us]", "str", "bool"])
def test_joins_ask_the_codes_which_rows_there_may_be(kind: str) -> None:
    """Of the side with more rows; missing keys, other dtypes and keys that are nowhere."""
    rng = np.random.default_rng(5)
    df = pd.DataFrame({"x": pd.Series(rng.integers(0, 500, ROWS)).astype(kind), "y": np.arange(ROWS)})
    other = pd.DataFrame({"x": pd.Series([3, 900, 7, 3]).astype(kind), "z": list("abcd")})
    if kind not in ("int16", "bool"):
        df["x"] = df["x"].where(rng.random(ROWS) < 0.8)
    f, g = df.fsst.compress(), other.fsst.compress()
    others = [other, other.astype({"x": object}), other.iloc[:0]]
    if kind == "float64":
        others += [other.astype({"x": "int64"}), pd.concat([other, pd.DataFrame({"x": [np.nan], "z": ["e"]})])]
    for how in ("inner", "left", "right", "outer", "left_anti"):
        for one in others:
            try:
                wanted = df.merge(one, how, "x")
            except ValueError:
                with pytest.raises(ValueError, match="merge"):
                    f.merge(one, how, on="x")
                continue
            same(f.merge(one, how, on="x"), wanted)
        same(g.merge(f, how, on="x"), other.merge(df, how, "x"))


@pytest.mark.parametrize("kind", ["float64", "int32", "Int64", "datetime64[us]", "str", "bool"])
@pytest.mark.parametrize("order", ["any", "up", "ties"])
def test_the_largest_of_many_rows(kind: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows tell which values are too small; with ties, missing values, and rows that were misleading."""
    monkeypatch.setattr(frames, "_SEEN_ROWS", 512)
    monkeypatch.setattr(frames, "_MOST_SEEN_ROWS", 512)
    rng = np.random.default_rng(5)
    values = rng.permutation(ROWS) if order == "any" else np.arange(ROWS) if order == "up" else np.arange(ROWS) % 7
    df = pd.DataFrame(
        {"x": pd.Series(values).astype(kind), "y": rng.integers(0, 3, ROWS), "z": [f"r{i}" for i in values]}
    )
    if kind in ("float64", "Int64", "datetime64[us]"):
        df["x"] = df["x"].where(rng.random(ROWS) < 0.8)
    f = df.fsst.compress()
    for keep in ("first", "last", "all"):
        for by in ("x", ["x", "y"], ["y", "x"]):
            for name in ("nlargest", "nsmallest"):
                try:
                    wanted = getattr(df, name)(20, by, keep=keep)
                except TypeError:
                    with pytest.raises(TypeError):
                        getattr(f, name)(20, by, keep=keep)
                    continue
                same(getattr(f, name)(20, by, keep=keep), wanted)


JOINS: dict[str, dict[str, Any]] = {
    "on": {"on": "a"},
    "two": {"on": ["a", "b"]},
    "tuple": {"on": ("a", "b")},
    "other names": {"left_on": "a", "right_on": "b"},
    "crossed names": {"left_on": ["a", "b"], "right_on": ["b", "a"]},
    "index of the other": {"left_on": "b", "right_index": True},
    "own index": {"left_index": True, "right_on": "a"},
    "both indexes": {"left_index": True, "right_index": True},
    "none": {"on": []},
    "what is shared": {},
    "no such": {"on": "zz"},
    "one side alone": {"left_on": "a"},
    "no suffixes": {"on": "a", "suffixes": (None, None)},
    "equal suffixes": {"on": "a", "suffixes": ("_a", "_a")},
    "not unique": {"on": "a", "validate": "1:1"},
    "unique": {"on": "a", "validate": "m:1"},
    "indicator": {"on": "a", "indicator": "who"},
    "indicator of a name that is there": {"on": "a", "indicator": "c"},
    "sorted": {"on": "a", "sort": True},
    "strings": {"left_on": "s", "right_on": "c"},
    "strings and numbers": {"left_on": "s", "right_on": "a"},
    "both ways": {"on": "a", "left_on": "a"},
    "an array": {"left_on": np.arange(600) % 7, "right_on": "a"},
}


def test_errors_of_a_join_are_those_of_the_library() -> None:
    """With its words, which name labels of the user's."""
    left = pd.DataFrame({"name": ["x", "x"], "left row": [1, 1], "l0": [1, 1], "v": [1, 2]})
    for given in (
        {"on": ["name"], "validate": "1:1"},
        {"on": ["l0", "left row"], "validate": "m:1"},
        {"left_on": "name", "right_on": "l0"},
        {"left_on": "l0", "right_on": "left row", "validate": "1:m"},
        {"left_on": "v", "right_index": True, "suffixes": "ab"},
    ):
        with pytest.raises((ValueError, TypeError)) as wanted:
            left.merge(left, **given)  # type: ignore[arg-type]  # what is refused
        with pytest.raises(type(wanted.value), match=re.escape(str(wanted.value))):
            left.fsst.compress().merge(left, **given)


def test_joins_of_keys_of_other_dtypes() -> None:
    """Whether rows are left on a side makes an error of some, and objects of columns of others in pandas."""
    left = pd.DataFrame({"a": np.arange(600), "b": ["x"] * 600, "v": 1})
    f = left.fsst.compress()
    for other in (
        pd.DataFrame({"a": [1, 700], "b": [1, 2]}),
        pd.DataFrame({"a": [700], "b": [1]}),
        pd.DataFrame({"a": [700], "b": ["x"]}, dtype=object),
    ):
        for keys in (["a", "b"], ["b", "a"]):
            try:
                wanted = left.merge(other, on=keys)
            except ValueError as error:
                with pytest.raises(ValueError, match=re.escape(str(error))):
                    f.merge(other, on=keys)
            else:
                same(f.merge(other, on=keys), wanted)
    names = pd.DataFrame({"c": pd.Series(["x"], dtype=object), "b": pd.Series(["y"], dtype="str")})
    same(f.merge(names, left_on="b", right_on="c"), left.merge(names, left_on="b", right_on="c"))


ODD: dict[str, tuple[pd.DataFrame, Callable[[Any], Any]]] = {
    "a key that is missing everywhere": (
        pd.DataFrame({"a": pd.Series([None] * 300, dtype="str"), "b": range(300)}),
        lambda f: f.groupby(["a", "b"]).size(),
    ),
    "a key that is True": (pd.DataFrame({True: [1, 1, 2], "v": [1, 2, 3]}), lambda f: f.groupby([True]).size()),
    "levels of labels, reset": (WIDE, lambda f: f.reset_index()),
    "levels of labels, set": (WIDE, lambda f: f.set_index([("a", "x")])),
    "no rows to number anew": (
        pd.DataFrame({"a": [1]}, index=["x"]).iloc[:0],
        lambda f: f.drop_duplicates("a", ignore_index=True),
    ),
    "a label twice": (
        pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
        lambda f: f.assign(a=pd.Categorical(["x", "y"])),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_labels_and_keys(name: str) -> None:
    data, call = ODD[name]
    same(call(data.fsst.compress()), call(data))


def test_keys_whose_labels_are_no_strings() -> None:
    left = pd.DataFrame({"a": [1.0, 2.0, 3.0], 2024: [1, 5, 2], "v": list("xyz")})
    right = pd.DataFrame({0: [1, 3], "b": [1, 2], 2024: [7, 8]})
    for keys in (("a", 0), (2024, "b"), (2024, 0), (2024, 2024)):
        for how in ("inner", "left", "right", "outer"):
            given: dict[str, Any] = {"how": how, "left_on": keys[0], "right_on": keys[1]}
            same(left.fsst.compress().merge(right, **given), left.merge(right, **given))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", JOINS)
def test_joins_and_their_mistakes(name: str) -> None:
    rng = np.random.default_rng(1)
    left = pd.DataFrame({label: rng.integers(0, 20, 600) for label in "ab"})
    left = left.assign(s=[f"x{i % 300}" for i in range(600)], v=rng.random(600))
    right = pd.DataFrame({"a": [1, 2, 3, 3], "b": [2, 1, 9, 9], "c": list("pqrs"), "v": [1.0, 2, 3, 4]})
    f = left.fsst.compress()
    for how in ("inner", "left", "right", "outer", "cross", "left_anti", "right_anti", "bogus"):
        for other in (right, right["c"], right.rename(columns={"c": "s"}), right.iloc[:0], right[["a", "c"]]):
            for packed in (other, other.fsst.compress()) if other.ndim == 2 else (other,):
                try:
                    wanted = left.merge(other, how, **JOINS[name])  # type: ignore[arg-type]
                except Exception as error:
                    with pytest.raises(type(error)):
                        f.merge(packed, how, **JOINS[name])
                    continue
                same(f.merge(packed, how, **JOINS[name]), wanted)
