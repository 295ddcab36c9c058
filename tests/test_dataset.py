"""Compressed frames as Arrow's datasets: the answers are those of Arrow, and of DuckDB, on the plain table."""

from __future__ import annotations

import datetime
import logging
import pickle
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import cudf_fsst
from cudf_fsst.engines import arrow_filter, tables
from test_polars import ROWS, day, table, time

duckdb = pytest.importorskip("duckdb")
f = pc.field


@pytest.fixture(scope="module")
def plain() -> pa.Table:
    return table()


@pytest.fixture(scope="module")
def frame(plain: pa.Table) -> cudf_fsst.CompressedFrame:
    return plain.to_pandas(types_mapper=pd.ArrowDtype).fsst.compress(codecs={"ls": "dict"})


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_NBYTES", 50_000)


def atoms() -> list[tuple[Any, bool]]:
    """Filters, and whether the codes are to answer them."""
    known: list[Any] = []
    for value in (3, -5, 29, 0):
        known += [f("n") == value, f("n") != value, f("i8") <= value, f("i64") > value, pc.scalar(value) >= f("n")]
    known += [f("n") < 2.5, f("i64") >= 2**52, f("u64") >= pa.scalar(7, pa.uint64()), f("b"), ~f("b"), f("b") == True]  # noqa: E712
    for value in (day(3), day(-100), time(3), time(3, 1500), time(-4, -2000)):
        known += [f("us") == value, f("ms") < value, f("ns") >= value, f("day") > value, f("day") != value]
    known += [f("took") <= datetime.timedelta(milliseconds=3), f("took") == datetime.timedelta()]
    for number in (Decimal("0.07"), Decimal("-0.05"), 0.07, 0.29):
        known += [f("dec") == number, f("dec") != number, f("dec") < number, f("dec") >= number]
    known += [f("s") == "row 5", f("s") != "row 5", f("s") == "", f("ls") == "k3", pc.scalar("k3") == f("ls")]
    known += [f("s").isin(["row 5", "", "no"]), f("ls").isin(["k1"]), f("n").isin([1, 5, 77]), f("day").isin([day(3)])]
    known += [f("n").isin(range(40)), f("s").is_null(), f("s").is_valid(), f("all").is_null(), f("n").is_null()]
    known += [pc.starts_with(f("s"), "row 1"), pc.ends_with(f("s"), "ts"), pc.match_substring(f("s"), "ünd")]
    known += [pc.utf8_length(f("s")) == 7, pc.utf8_length(f("s")) != 7, pc.binary_length(f("s")) < 8]
    known += [pc.if_else(f("s").is_valid(), f("s").isin(["row 5"]), pa.scalar(None, pa.bool_()))]
    unknown = [f("f") < 0.5, f("s") < "row 5", f("i64") == 2**53 + 1, f("i8") + 1 == 5, f("n") == f("i8")]
    unknown += [f("bin") == b"a", f("n").isin([5, None]), f("i8").isin([5, None]), f("f").is_null(nan_is_null=True)]
    unknown += [pc.match_substring(f("s"), "ROW", ignore_case=True), pc.match_substring_regex(f("s"), "r[ow]+ 5")]
    unknown += [pc.list_value_length(f("list")) > 1, pc.scalar(True), f("n").cast(pa.int64()) == 3, f("n") == None]  # noqa: E711
    return [(one, True) for one in known] + [(one, False) for one in unknown]


def test_filters(frame: cudf_fsst.CompressedFrame, plain: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    data, wanted = frame.dataset(), ds.dataset(plain)
    for asked, known in atoms():
        with caplog.at_level(logging.DEBUG, "cudf_fsst.query"):
            found = data.to_table(filter=asked)
        ways = {record.getMessage().rpartition(": ")[2] for record in caplog.records}
        caplog.clear()
        assert found.equals(wanted.to_table(filter=asked)), asked
        assert (ways == {"codes"}) == known, (asked, ways)
        assert data.count_rows(asked) == found.num_rows


def test_drawn_filters(frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    """Parts joined by AND, OR and NOT: of what is null, the answer is neither true nor false."""
    rng, known = np.random.default_rng(8), [one for one, _ in atoms()]
    data, wanted = frame.dataset(), ds.dataset(plain)
    for _ in range(150):
        some = [known[i] if rng.random() < 0.6 else ~known[i] for i in rng.integers(0, len(known), rng.integers(2, 5))]
        asked = reduce(lambda one, other: one & other if rng.random() < 0.5 else ~(one | ~other), some)
        found = data.to_table(filter=asked, columns=["n", "s"])
        assert found.equals(wanted.to_table(filter=asked, columns=["n", "s"])), asked


def test_what_is_asked(frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    """Each method gives what that of Arrow's own dataset gives."""
    data, wanted = frame.dataset(), ds.dataset(plain)
    assert isinstance(data, ds.Dataset)
    assert data.schema == plain.schema
    assert data.to_table() == plain
    few = f("s") == "row 5"
    for ask in (
        lambda one: one.to_table(columns=["s", "n"]),
        lambda one: one.to_table(columns={"twice": f("n") * 2, "s": f("s"), "three": pc.scalar(3)}, filter=few),
        lambda one: one.head(7),
        lambda one: one.head(0),
        lambda one: one.head(3, columns=["n"], filter=few),
        lambda one: one.take([7, 2, 2999]),
        lambda one: one.take(pa.array([1], pa.uint8()), columns=["ls", "n"]),
        lambda one: one.take([1, 0], filter=f("n") == 3),
        lambda one: one.filter(few).to_table(columns=["n"]),
        lambda one: one.filter(few).filter(f("n") > 2).to_table(),
        lambda one: one.filter(few).head(1),
        lambda one: one.filter((f("n") > 3) & f("f").is_valid()).sort_by([("f", "ascending")]).to_table(),
        lambda one: one.sort_by("f").head(5),
        lambda one: one.scanner(columns=["n"], batch_size=100).to_reader().read_all(),
        lambda one: pa.Table.from_batches(one.to_batches(columns=["n"], filter=f("n") > 3)),
        lambda one: one.to_table(columns=[]),
        lambda one: one.replace_schema(pa.schema([("n", pa.int32()), ("new", pa.int8())])).to_table(),
    ):
        assert ask(data).equals(ask(wanted)), ask
    some = ["n", "s", "f"]
    joined = [
        one.join(one.filter(few), "f", join_type="left semi").to_table().sort_by("f")
        for one in (frame[some].dataset(), ds.dataset(plain.select(some)))
    ]
    assert joined[0] == joined[1]
    assert joined[0].num_rows == wanted.count_rows(few)
    assert data.count_rows() == ROWS
    assert data.count_rows(few) == wanted.count_rows(few)
    assert data.filter(few).count_rows() == wanted.count_rows(few)
    assert sum(part.count_rows() for part in data.get_fragments()) == ROWS
    again = data.scanner(columns=["n"], filter=few)
    assert again.to_table() == again.to_table(), "a scanner can be used again"
    assert ds.Scanner.from_dataset(data, filter=few).to_table() == wanted.to_table(filter=few)
    assert pickle.loads(pickle.dumps(data.filter(few))).to_table() == wanted.to_table(filter=few)


def test_what_is_not_asked_is_not_decoded(frame: cudf_fsst.CompressedFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[tuple[str, ...], int]] = []
    ask = tables.EngineTable.read

    def seen(self: Any, rows: Any) -> Any:
        read.append((self.names, len(rows)))
        return ask(self, rows)

    monkeypatch.setattr(tables.EngineTable, "read", seen)
    data = frame.dataset()
    assert data.count_rows() == ROWS
    assert data.schema
    assert read == []
    found = data.to_table(columns=["n"], filter=(f("s") == "row 5") & (f("f") > 0))
    assert {names for names, _ in read} == {("n", "f", "s")}
    assert sum(rows for _, rows in read) == data.count_rows(f("s") == "row 5") >= found.num_rows > 0
    read.clear()
    data.head(10, columns=["ls"])
    data.take([5], columns=["n"])
    assert read == [(("ls",), 10), (("n",), 1)]


def test_mistakes(frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    data = frame.dataset()
    with pytest.raises(ValueError, match="two columns are called '1'"):
        pd.DataFrame([[1, 2]], columns=[1, "1"]).fsst.compress().dataset()
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        data.to_table(columns=["none"])
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        data.to_table(filter=f("none") == 3)
    with pytest.raises(TypeError, match="expression"):
        data.filter("n > 3")
    with pytest.raises(IndexError):
        data.take([ROWS])
    with pytest.raises(TypeError, match="no_such"):
        data.to_table(no_such=3)
    text = pa.chunked_array([pa.array([b"\xff"]).view(pa.string())])
    wrong = pd.DataFrame({"b": pd.arrays.ArrowExtensionArray(text)})
    with pytest.raises(ValueError, match=r"column 'b': .*UTF-?8"):
        wrong.fsst.compress().dataset().to_table()


def test_an_expression_that_cannot_be_read_is_arrows(
    frame: cudf_fsst.CompressedFrame, plain: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How Arrow writes expressions down may change: then all columns are decoded."""
    monkeypatch.setattr(arrow_filter, "_metadata", lambda schema: [("new", "format")])
    assert arrow_filter.tree_of(f("n") == 3) is None
    found = frame.dataset().to_table(columns=["s"], filter=f("n") == 3)
    assert found == ds.dataset(plain).to_table(columns=["s"], filter=f("n") == 3)


def test_without_rows() -> None:
    empty = pd.DataFrame({"a": pd.Series([], dtype="int64"), "s": pd.Series([], dtype="str")}).fsst.compress().dataset()
    assert empty.to_table().shape == empty.to_table(filter=f("a") > 3).shape == empty.head(3).shape == (0, 2)
    assert empty.count_rows() == 0


def test_without_columns() -> None:
    none = pd.DataFrame(index=range(5)).fsst.compress()
    data, plain = none.dataset(), none.to_arrow()
    assert plain.num_rows == pa.table(none).num_rows == len(cudf_fsst.compress(plain)) == 5
    assert data.to_table().num_rows == data.count_rows() == sum(batch.num_rows for batch in data.to_batches()) == 5
    assert data.head(2).num_rows == data.take([0, 4]).num_rows == 2
    assert data.scanner(columns={"one": pc.scalar(1)}).to_table()["one"].to_pylist() == [1] * 5


def test_a_scanner_knows_all_columns(frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    for columns in (["n"], [], {"m": f("n") + 1}):
        found, wanted = (one.scanner(columns=columns) for one in (frame.dataset(), ds.dataset(plain)))
        assert found.dataset_schema == wanted.dataset_schema
        assert found.projected_schema == wanted.projected_schema


SQL = (
    "select sum(n), count(*) from data",
    "select n, s from data where s = 'row 5' and day > date '2019-04-20' order by all",
    "select n from data where s in ('row 5', 'row 7 special old') or i8 = 3 order by all",
    "select n, i8 from data where i8 in (1, 3, 25) and b order by all",
    "select count(*) from data where s like 'row 1%' and s is not null and not b",
    "select count(*) from data where dec between 0.02 and 0.07 and us >= timestamp '2019-04-20 00:00:00'",
    "select ls, sum(i8), max(f) from data where ms < timestamp '2019-05-01' group by ls order by ls",
    "select count(*) from data where s > 'row 5' and zone < timestamptz '2019-05-01 00:00:00+00'",
    "select a.n, count(*) from data a join data b on a.ls = b.ls where a.s = 'row 5' and b.n < 0 group by a.n",
    "select list, kind from data where n = 3 limit 20",
    'select count(*) from data where "all" is null',
)


@pytest.mark.parametrize("query", SQL)
def test_duckdb(query: str, frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    found, wanted = duckdb.connect(), duckdb.connect()
    for one in (found, wanted):
        one.execute("set timezone = 'UTC'")
    found.register("data", frame.dataset())
    wanted.register("data", plain)
    assert found.execute(query).fetchall() == wanted.execute(query).fetchall()


def test_duckdb_pushes_its_filters_down(frame: cudf_fsst.CompressedFrame, caplog: pytest.LogCaptureFixture) -> None:
    data = frame.dataset()
    with caplog.at_level(logging.DEBUG, "cudf_fsst.query"):
        duckdb.sql("select f from data where s = 'row 5' and day > date '2019-04-20' and n in (1, 2, 5)").fetchall()
    assert data is not None
    ways = [record.getMessage() for record in caplog.records]
    assert len(ways) == 3
    assert all(way.endswith(": codes") for way in ways)


def test_polars_scans_it(frame: cudf_fsst.CompressedFrame, plain: pa.Table) -> None:
    pl = pytest.importorskip("polars")
    wanted = pl.DataFrame(plain.select(["n", "s"])).filter(pl.col("n") == 3)
    found = pl.scan_pyarrow_dataset(frame.dataset()).filter(pl.col("n") == 3).select("n", "s").collect()
    assert found.equals(wanted)


@pytest.mark.gpu
def test_of_a_frame_on_a_gpu(plain: pa.Table) -> None:
    table = plain.select(["n", "i8", "f", "b", "s", "us", "dec", "list"])
    made = cudf_fsst.compress(table).to_device()
    data, plain_data = made.dataset(), ds.dataset(table)
    few = (f("s") == "row 5") & (f("n") > 2)
    assert data.to_table(filter=few) == plain_data.to_table(filter=few)
    assert data.take([5, 1]) == plain_data.take([5, 1])
    assert ds.Scanner.from_dataset(data, columns=["s"]).to_table() == table.select(["s"])
    assert pickle.loads(pickle.dumps(data)).to_table() == table
    assert duckdb.sql("select count(*) from data where s like 'row 1%' and n < 10").fetchall() == (
        duckdb.sql("select count(*) from plain_data where s like 'row 1%' and n < 10").fetchall()
    )
