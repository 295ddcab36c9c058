"""Compressed columns and frames as Arrow's streams, read by the real libraries."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from cudf_fsst import batches
from cudf_fsst.frame import of_column
from test_cli_frames import table_of_many_types

ROWS = 20_000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PIECE_NBYTES", 50_000)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    numbers = np.arange(ROWS)
    return pd.DataFrame(
        {
            "n": pd.array(np.where(numbers % 9, numbers, None), "Int64"),
            "text": [f"row {i % 100}" if i % 7 else None for i in range(ROWS)],
            "kind": pd.Categorical([f"k{i % 5}" for i in range(ROWS)]),
            "parts": [[i, None] for i in range(ROWS)],
            "real": numbers / 7,
        },
        index=pd.Index(numbers[::-1], name="key"),
    )


@pytest.fixture(scope="module")
def frame(data: pd.DataFrame) -> cudf_fsst.CompressedFrame:
    return data.fsst.compress()


def test_tables(frame: cudf_fsst.CompressedFrame) -> None:
    found = pa.table(frame)
    assert found.equals(frame.to_arrow())
    assert found["n"].num_chunks > 10
    assert pa.schema(frame) == found.schema
    wanted = found.schema.set(1, pa.field("text", pa.string()))
    assert pa.table(frame, schema=wanted).schema == wanted


def test_polars(data: pd.DataFrame, frame: cudf_fsst.CompressedFrame) -> None:
    polars = pytest.importorskip("polars")
    found = polars.DataFrame(frame)
    assert found["text"].to_list() == [None if text is np.nan else text for text in data["text"]]
    assert found["n"].sum() == data["n"].sum()
    assert found["parts"][5].to_list() == [5, None]
    assert polars.Series(frame.column("kind")).to_list() == list(data["kind"])


def test_duckdb(data: pd.DataFrame, frame: cudf_fsst.CompressedFrame) -> None:
    duckdb = pytest.importorskip("duckdb")
    asked = "select text, sum(n), count(*) from frame where text is not null group by text order by text"
    found = duckdb.sql(asked).fetchall()
    wanted = data.groupby("text", observed=True)["n"].agg(["sum", "size"])
    assert [(text, int(total), count) for text, total, count in found] == [
        (text, int(row["sum"]), int(row["size"])) for text, row in wanted.iterrows()
    ]


def test_duckdb_reads_a_column_that_has_a_name() -> None:
    duckdb = pytest.importorskip("duckdb")
    words = pd.Series(["a", None, "c"], name="b").fsst.compress()
    assert words.name == "b"
    assert duckdb.sql("select * from words").fetchall() == [("a",), (None,), ("c",)]


@pytest.mark.parametrize("name", ["n", "text", "kind", "parts", "real"])
def test_columns(name: str, frame: cudf_fsst.CompressedFrame) -> None:
    column = frame.column(name)
    found = pa.chunked_array(column)
    assert found.num_chunks > (name != "kind")
    assert found.to_pylist() == column.to_arrow().to_pylist()
    kind = pa.field(column).type
    assert found.type == kind
    assert pa.array(column).to_pylist() == found.to_pylist()
    one = pa.Array._import_from_c_capsule(*column.__arrow_c_array__())
    assert one.type == kind
    assert one.to_pylist() == found.to_pylist()
    if name == "text":
        assert pa.chunked_array(column, pa.string_view()).type == pa.string_view()
        assert pd.Series.from_arrow(column).dtype == "str"


def test_many_types() -> None:
    table = table_of_many_types()
    frame = table.to_pandas(types_mapper=pd.ArrowDtype).fsst.compress()
    assert pa.table(frame).cast(table.schema).equals(table)
    for name in table.column_names:
        assert pa.chunked_array(frame.column(name)).to_pylist() == table[name].to_pylist()


@pytest.mark.parametrize("rows", [0, 1])
def test_little(rows: int) -> None:
    data = pd.DataFrame({"a": ["x"], "b": [1]})[:rows]
    frame = data.fsst.compress()
    assert pa.table(frame).num_rows == rows
    assert len(pa.chunked_array(frame.column("a"))) == rows
    assert pa.table(pd.DataFrame(index=range(rows)).fsst.compress()).num_columns == 0


def test_memory_is_bounded() -> None:
    """While one piece after another is read, none is kept."""
    column = pd.Series(np.random.default_rng(1).integers(0, 2**40, 1_000_000)).fsst.compress()
    tracemalloc.start()
    rows = most = 0
    for array in pa.ipc.RecordBatchReader.from_stream(of_column(column, "n")):
        rows += len(array)
        most = max(most, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert rows == 1_000_000
    assert most < 1_000_000, "of 8,000,000"


def test_errors_reach_the_reader(frame: cudf_fsst.CompressedFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("segment 3 is damaged")

    with pytest.raises(ValueError, match="row "):
        pa.chunked_array(frame.column("text"), pa.int64())
    monkeypatch.setattr(batches, "arrays", broken)
    with pytest.raises(ValueError, match="segment 3 is damaged"):
        pa.table(frame)
    with pytest.raises(ValueError, match="segment 3 is damaged"):
        pa.chunked_array(frame.column("n"))
