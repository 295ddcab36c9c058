"""Columns and frames that go through Arrow compressed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.flight
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst import exchange
from cudf_fsst.interop.arrow_extension import ColumnType
from test_frame_refused import ROWS, whole


@pytest.fixture
def data() -> pd.DataFrame:
    frame = whole()
    assert len(frame) == ROWS
    return frame


def through_ipc(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


class Keeper(pyarrow.flight.FlightServerBase):
    """A Flight server that keeps one table."""

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        del context, descriptor, writer
        self.table = reader.read_all()

    def do_get(self, context: Any, ticket: Any) -> Any:
        del context, ticket
        return pyarrow.flight.RecordBatchStream(self.table)


def through_flight(table: pa.Table) -> pa.Table:
    with Keeper("grpc://127.0.0.1:0") as keeper, pyarrow.flight.connect(("127.0.0.1", keeper.port)) as client:
        writer, _ = client.do_put(pyarrow.flight.FlightDescriptor.for_path("kept"), table.schema)
        writer.write_table(table)
        writer.close()
        return client.do_get(pyarrow.flight.Ticket(b"kept")).read_all()


def through_parquet(table: pa.Table, path: Path) -> pa.Table:
    pq.write_table(table, path)
    return pq.read_table(path)


def test_a_column(tmp_path: Path) -> None:
    index = pd.date_range("2026", periods=1000, freq="h", name="when")
    for data in (
        pd.Series([f"row {i % 9}" if i % 5 else None for i in range(1000)], index=index, name=("a", 1)),
        pd.Series(np.arange(1000) / 3, index=index, name="real"),
    ):
        column = data.fsst.compress()
        array = column.to_arrow(compressed=True)
        assert array.type == ColumnType()
        assert len(array) == 1
        assert array.nbytes < column.memory_usage() + 6000
        for found in (
            array,
            through_ipc(pa.table({"x": array}))["x"],
            through_flight(pa.table({"x": array}))["x"],
            through_parquet(pa.table({"x": array}), tmp_path / "p")["x"],
        ):
            again = cudf_fsst.from_arrow(found)
            pd.testing.assert_series_equal(again.decompress(), data)
            assert again.codec == column.codec
            assert again.nbytes == column.nbytes


def test_nothing_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pd.Series(["a text"] * 100).fsst.compress()
    monkeypatch.setattr("cudf_fsst.codecs.host.HostCompressor.compress_strings", None)
    again = cudf_fsst.from_arrow(column.to_arrow(compressed=True))
    assert [bytes(memoryview(one.codes)) for one in again.segments] == [
        bytes(memoryview(one.codes)) for one in column.segments
    ]


def test_a_frame(data: pd.DataFrame, tmp_path: Path) -> None:
    frame = data.fsst.compress()
    table = frame.to_arrow(compressed=True)
    assert table.shape == (1, frame.shape[1])
    there = through_ipc(table), through_flight(table), through_parquet(table, tmp_path / "p")
    for found in (table, *there, table.to_batches()[0]):
        again = cudf_fsst.from_arrow(found)
        pd.testing.assert_frame_equal(again.decompress(), data.reset_index(drop=True))
        assert again.codecs.equals(frame.codecs)
    twice = cudf_fsst.from_arrow(pa.concat_tables([table, through_ipc(table)]))
    pd.testing.assert_frame_equal(twice.decompress(), pd.concat([data, data], ignore_index=True))


@pytest.mark.parametrize(
    "labels",
    [
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", None]),
        pd.Index(["a", "b"], name="n"),
        pd.RangeIndex(2, 6, 2),
        pd.Index([1, 2], dtype="uint8"),
        pd.date_range("2020", periods=2, freq="D"),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_of_a_frame(labels: Any, tmp_path: Path) -> None:
    """What they are, but of a table of other columns."""
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=labels)
    table = frame.fsst.compress().to_arrow(compressed=True)
    for there in (table, through_ipc(table), through_parquet(table, tmp_path / "p")):
        pd.testing.assert_frame_equal(cudf_fsst.from_arrow(there).decompress(), frame)
    one = cudf_fsst.from_arrow(table.select([1]))
    assert list(one.columns) == list(labels[1:])
    damaged = table.replace_schema_metadata({b"cudf_fsst": b"{"})
    with pytest.raises(ValueError, match="labels in the schema cannot be read"):
        cudf_fsst.from_arrow(damaged)


def test_other_programs_drop_the_name(data: pd.DataFrame) -> None:
    carried = data.iloc[:, :2].fsst.compress().to_arrow(compressed=True)
    for kind in (pa.large_binary(), pa.binary(), pa.binary_view()):
        plain = pa.table({name: carried[name].combine_chunks().storage.cast(kind) for name in carried.column_names})
        assert cudf_fsst.from_arrow(plain).equals(cudf_fsst.from_arrow(carried))
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql("select * from carried").to_arrow_table()
    assert cudf_fsst.from_arrow(found).equals(cudf_fsst.from_arrow(carried))


def test_a_process_that_has_not_the_package(tmp_path: Path) -> None:
    """Reads binary values, and writes what the package reads."""
    column = pd.Series(["a", None, "b"] * 100, name="x").fsst.compress()
    pq.write_table(pa.table({"x": column.to_arrow(compressed=True)}), tmp_path / "in.parquet")
    code = """
import sys, pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
assert table.schema.types == [pa.large_binary()], table.schema
pq.write_table(table, sys.argv[2])
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "in.parquet", tmp_path / "out.parquet"], check=True)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.types == [ColumnType()]
    assert cudf_fsst.from_arrow(table["x"]).equals(column)
    assert list(cudf_fsst.from_arrow(table)) == ["x"]


def test_mistakes() -> None:
    array = pd.Series(["a"] * 5).fsst.compress().to_arrow(compressed=True)
    other = pd.Series(["a"] * 6, name="b").fsst.compress().to_arrow(compressed=True)
    content = array.storage[0].as_py()
    cases: list[tuple[Any, type[Exception], str]] = [
        (pa.array([1]), TypeError, "int64 is no cudf_fsst.column"),
        (pa.table({"a": array, "b": [1]}), TypeError, "column 'b': Arrow type int64"),
        (pd.Series(["a"]), TypeError, "not Series"),
        (array[:0], ValueError, "without values"),
        (pa.array([content, None]), ValueError, "value 1 is missing"),
        (pa.array([b"some bytes"]), ValueError, "not a cudf_fsst file"),
        (pa.array([content[:-1]]), ValueError, "the file should have"),
        (pa.array([content[:200] + b"\xff" + content[201:]]), ValueError, "checksum"),
        (pa.table({"a": array, "b": other}), ValueError, "different numbers of rows: 5, 6"),
    ]
    for data, error, message in cases:
        with pytest.raises(error, match=message):
            cudf_fsst.from_arrow(data)
    with pytest.raises(TypeError, match="not as int64"):
        ColumnType(pa.int64())


@pytest.mark.gpu
def test_from_the_gpu() -> None:
    import cudf

    data = cudf.DataFrame({"n": np.arange(1000), "text": [f"row {i % 9}" for i in range(1000)]})
    found = cudf_fsst.from_arrow(data.fsst.compress().to_arrow(compressed=True))
    assert found.device == "cpu"
    assert found.to_device().decompress().equals(data)


# compress(data) -------------------------------------------------------------------------------------------------------


def codes_of(frame: Any) -> list[bytes]:
    return [bytes(memoryview(part.codes)) for content in frame._columns for part in content.node.parts]


def polars_frame() -> Any:
    import polars

    return polars.DataFrame(
        {
            "n": [1, None, 3] * 5,
            "s": ["x", "y", None] * 5,
            "c": polars.Series(["u", "v", "u"] * 5, dtype=polars.Categorical),
            "l": [[1], [2, 3], None] * 5,
            "d": polars.Series([1, 2, 3] * 5).cast(polars.Date),
        }
    )


def test_compress_what_speaks_arrow() -> None:
    import duckdb
    import polars

    data = polars_frame()
    found = cudf_fsst.compress(data, codecs={"n": "raw"})
    assert polars.DataFrame(found).equals(data)
    assert found.codecs["n"] == "raw"
    relation = duckdb.sql("select i, 'n' || i % 7 as t from range(9) x(i)")
    assert cudf_fsst.compress(relation).to_arrow().to_pylist() == [{"i": i, "t": f"n{i % 7}"} for i in range(9)]
    column = cudf_fsst.compress(data["s"], codecs="fsst")
    assert (column.name, column.codec, column.to_arrow().to_pylist()) == ("s", "fsst", data["s"].to_list())
    structs = polars.Series("p", [{"a": 1, "b": "x"}, None])
    assert cudf_fsst.compress(structs).to_arrow().to_pylist() == structs.to_list()
    batch = pa.record_batch({"a": [1, 2]})
    for table in (batch, pa.table(batch), pa.RecordBatchReader.from_batches(batch.schema, [batch, batch][:1])):
        assert cudf_fsst.compress(table).to_arrow().equals(pa.table(batch))
    assert cudf_fsst.compress(pa.array(["a", None])).to_arrow().to_pylist() == ["a", None]
    assert cudf_fsst.compress(pa.table(batch).slice(0, 0)).shape == (0, 1)
    assert len(cudf_fsst.compress(pa.chunked_array([], pa.int8()))) == 0


def test_compress_what_pandas_has_made() -> None:
    data = pd.DataFrame({"n": [1, 2], "s": ["a", None]}, index=pd.Index(["p", "q"], name="k"))
    for some in (data, pa.Table.from_pandas(data)):
        pd.testing.assert_frame_equal(cudf_fsst.compress(some, device="cpu").decompress(), data)
    pd.testing.assert_series_equal(cudf_fsst.compress(data["s"], codecs="dict").decompress(), data["s"])


def test_compress_streams_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PIECE_ROWS", 10_000)
    rows = 25_000
    texts = [f"v{i % 300}" if i < 20_000 else f"{i} other" for i in range(rows)]
    table = pa.table({"n": range(rows), "t": texts, "c": pa.array(texts).dictionary_encode()})
    found = []
    for size in (rows, 10_000, 777):
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))
        found.append(cudf_fsst.compress(reader))
        assert found[-1].to_arrow().equals(table.cast(found[-1].to_arrow().schema))
    assert codes_of(found[0]) == codes_of(found[1]) == codes_of(found[2])
    pd.testing.assert_index_equal(found[-1].index, pd.RangeIndex(rows), exact=True)
    column = cudf_fsst.compress(table["t"])
    assert column.to_arrow().to_pylist() == texts
    pd.testing.assert_index_equal(column.index, pd.RangeIndex(rows), exact=True)


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(30),
        pd.RangeIndex(60, 0, -2, name="k"),
        pd.Index([*"abcde"] * 6, name="k"),
        pd.MultiIndex.from_product([range(5), [*"abcdef"]]),
    ],
    ids=repr,
)
def test_compress_in_pieces_keeps_the_index(index: pd.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pandas reads it; of a range, also of other rows than it was noted of."""
    monkeypatch.setattr(exchange, "_PIECE_ROWS", 8)
    table = pa.Table.from_pandas(pd.DataFrame({"n": range(30)}, index=index))
    for some in (table, table.slice(3), pa.concat_tables([table, table])):
        pd.testing.assert_frame_equal(cudf_fsst.compress(some).decompress(), some.to_pandas(), check_index_type=True)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([1], {}, TypeError, "__arrow_c_array__, not list"),
        ("x", {}, TypeError, "not str"),
        (pa.array([1]), {"device": "tpu"}, ValueError, "'tpu'"),
        (pa.array([1]), {"codecs": {"a": "raw"}}, TypeError, "must be the name of one"),
        (pa.array([1]), {"codecs": "zip"}, ValueError, "'zip'"),
        (pa.table({"a": [1]}), {"codecs": "raw"}, TypeError, "must be a dict"),
        (pa.table({"a": [1]}), {"codecs": {"b": "raw"}}, KeyError, "'b'"),
        (pa.table({"a": [1]}), {"level": "best"}, ValueError, "level"),
    ],
)
def test_compress_refuses(data: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cudf_fsst.compress(data, **options)


def test_compress_refuses_what_is_compressed() -> None:
    frame = pd.DataFrame({"a": ["x"]}).fsst.compress()
    for data in (frame, frame.column("a"), frame.to_arrow(compressed=True)):
        with pytest.raises(TypeError, match="compressed already"):
            cudf_fsst.compress(data)


def test_compress_damaged_tables() -> None:
    array = pa.array(["abc", "def"])
    wrong = pa.Array.from_buffers(
        array.type, 2, [None, pa.py_buffer(np.array([0, 1 << 20, 6], "i4")), array.buffers()[2]]
    )
    for data in (wrong, pa.table({"a": wrong})):
        with pytest.raises(ValueError, match="ffsets"):
            cudf_fsst.compress(data)
