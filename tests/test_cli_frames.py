"""The command line with frames."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cli_cases import run_bad, run_ok
from column_cases import VALUES


def table_of_many_types() -> pa.Table:
    """Types and nulls that pandas' own dtypes do not keep, beside plain ones."""
    return pa.table(
        {
            "key": pa.array([2**53 + 1, None, 3], pa.int64()),
            "day": pa.array([dt.date(2026, 1, 1), None, dt.date(1969, 1, 1)]),
            "price": pa.array([Decimal("1.25"), Decimal("10.00"), None], pa.decimal128(12, 2)),
            "text": ["a", None, "naïve"],
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "parts": [[1, None], [], None],
            "point": pa.array([{"x": 1, "y": "up"}, None, {"x": 2, "y": None}]),
            "flag": [True, None, False],
            "when": pa.array([0, None, 10**12], pa.timestamp("ms", "UTC")),
            "real": pa.array([0.5, None, 1e300]),
            "nothing": pa.nulls(3),
        }
    )


def test_frame_round_trip(tmp_path: Path) -> None:
    names = ("in.parquet", "frame.fsst", "out.parquet")
    original, compressed, restored = (tmp_path / name for name in names)
    table = table_of_many_types()
    pq.write_table(table, original, row_group_size=2)
    shown = run_ok("compress", original, "-o", compressed, "--device", "cpu")
    assert f"3 rows, {table.num_columns} columns, " in shown
    frame = cudf_fsst.load(compressed)
    pd.testing.assert_frame_equal(frame.decompress(), pd.read_parquet(original))
    assert frame.dtypes.equals(frame.decompress().dtypes)
    assert frame.column("text").to_arrow().to_pylist() == table["text"].to_pylist()

    assert "3 rows, 11 columns" in run_ok("decompress", compressed, "-o", restored)
    assert pq.read_table(restored).equals(pq.read_table(original)), "pandas would have made 2**53 of 2**53 + 1"
    pd.testing.assert_frame_equal(pd.read_parquet(restored), pd.read_parquet(original))
    assert {path.name for path in tmp_path.iterdir()} == set(names)


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(3),
        pd.RangeIndex(10, 4, -2, name="r"),
        pd.Index([3, 1, 2], name="n"),
        pd.Index(["x", None, "z"], name="text"),
        pd.date_range("2026", periods=3, tz="Europe/Berlin"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["k", None]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_frame_keeps_index_and_dtypes(index: pd.Index, tmp_path: Path) -> None:
    data = {"n": pd.array([1, None, 3], "Int64"), "text": ["a", None, "c"], "when": pd.period_range("2026", periods=3)}
    frame = pd.DataFrame(data, index=index)
    frame.to_parquet(tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu")
    wanted = pd.read_parquet(tmp_path / "in.parquet")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "frame.fsst").decompress(), wanted)
    frame.fsst.compress().save(tmp_path / "saved.fsst")
    for name in ("frame", "saved"):
        run_ok("decompress", tmp_path / f"{name}.fsst", "-o", tmp_path / f"{name}.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"{name}.parquet"), wanted)


@pytest.mark.parametrize("labels", [[0, 1], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])], ids=["numbers", "pairs"])
@pytest.mark.parametrize("rows", [0, 3])
def test_frame_with_labels_that_are_no_strings(labels: Any, rows: int, tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, "a"]] * rows, columns=labels)
    frame.to_parquet(tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    wanted = pd.read_parquet(tmp_path / "in.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), wanted)


def test_frame_with_nulls_in_an_integer_index(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([1, 2, 3], name="key")))
    keys = pa.array([1, None, 2**60 + 1])
    pq.write_table(table.set_column(table.schema.get_field_index("key"), "key", keys), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["key"].combine_chunks().equals(keys)


def test_codec_of_a_column_whose_label_is_no_string(tmp_path: Path) -> None:
    pd.DataFrame({10: [i / 7 for i in range(5000)], 20: range(5000)}).to_parquet(tmp_path / "in.parquet")
    arguments = (tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--codec", "20=raw", "--device", "cpu")
    run_ok("compress", *arguments)
    assert cudf_fsst.load(tmp_path / "frame.fsst").codecs[20] == "raw"


def test_types_that_parquet_does_not_have(tmp_path: Path) -> None:
    pd.DataFrame({"a": pd.cut(range(9), 3)}).fsst.compress().save(tmp_path / "frame.fsst")
    shown = run_bad("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    assert "not yet supported" in shown
    assert not (tmp_path / "out.parquet").exists()


def test_indexes_that_parquet_does_not_have(tmp_path: Path) -> None:
    path, output = tmp_path / "c.fsst", tmp_path / "c.parquet"
    categories = pd.CategoricalIndex(pd.interval_range(0, 3))
    pd.Series(["a", "b", "c"], index=categories, dtype="str").fsst.compress().save(path)
    assert "not yet supported" in run_bad("decompress", path, "-o", output)
    pd.DataFrame({"a": [1]}).rename_axis(columns=pd.Timestamp("2020")).fsst.compress().save(path)
    assert "Timestamp" in run_bad("decompress", path, "-o", output)
    assert not output.exists()


def test_frame_of_some_columns(tmp_path: Path) -> None:
    pq.write_table(table_of_many_types(), tmp_path / "in.parquet")
    arguments = ("-c", "key", "-c", "day", "-c", "key", "--codec", "key=gfc", "--codec", "day=raw", "--level", "max")
    run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu", *arguments)
    assert cudf_fsst.load(tmp_path / "frame.fsst").codecs.to_dict() == {"key": "gfc", "day": "raw"}
    run_ok("compress", tmp_path / "in.parquet", "-c", "text", "-c", "text", "-o", tmp_path / "text.fsst")
    assert isinstance(cudf_fsst.load(tmp_path / "text.fsst"), cudf_fsst.CompressedColumn)


@pytest.mark.parametrize("name", ["key", "price", "text", "kind", "parts", "point", "flag", "nothing"])
def test_one_column_of_any_type(name: str, tmp_path: Path) -> None:
    """Of plain strings a column, of all others a frame."""
    table = table_of_many_types()
    pq.write_table(table, tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-c", name, "-o", tmp_path / "one.fsst", "--device", "cpu")
    wanted = cudf_fsst.CompressedColumn if name == "text" else cudf_fsst.CompressedFrame
    assert isinstance(cudf_fsst.load(tmp_path / "one.fsst"), wanted)
    assert name in run_ok("inspect", tmp_path / "one.fsst")
    run_ok("decompress", tmp_path / "one.fsst", "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names == [name]
    assert found[name].cast(table[name].type).equals(table[name])


@pytest.mark.parametrize("codec", ["dict", "fsst"])
def test_the_codec_of_one_column_of_strings(codec: str, tmp_path: Path) -> None:
    pd.DataFrame({"text": ["a", "b", None] * 500}).to_parquet(tmp_path / "in.parquet")
    arguments = ("-c", "text", "--codec", f"text={codec}", "--device", "cpu", "-o", tmp_path / "text.fsst")
    run_ok("compress", tmp_path / "in.parquet", *arguments)
    column = cudf_fsst.load(tmp_path / "text.fsst")
    assert isinstance(column, cudf_fsst.CompressedColumn)
    assert column.codec == codec
    assert list(column.decompress()[:2]) == ["a", "b"]


def test_one_column_with_a_codec_and_an_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": range(1000), "m": 1.5}, index=pd.Index(range(1000, 0, -1), name="key"))
    frame.to_parquet(tmp_path / "in.parquet")
    arguments = ("-c", "n", "--codec", "n=raw", "--device", "cpu", "-o", tmp_path / "n.fsst")
    run_ok("compress", tmp_path / "in.parquet", *arguments)
    assert cudf_fsst.load(tmp_path / "n.fsst").codecs.to_dict() == {"n": "raw"}
    run_ok("decompress", tmp_path / "n.fsst", "-o", tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame[["n"]])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["key", "price", "parts", "flag"])
def test_one_column_of_any_type_on_the_gpu(name: str, tmp_path: Path) -> None:
    table = table_of_many_types()
    pq.write_table(table, tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-c", name, "-o", tmp_path / "one.fsst", "--device", "gpu")
    run_ok("decompress", tmp_path / "one.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")[name].to_pylist() == table[name].to_pylist()


def test_names_with_dots(tmp_path: Path) -> None:
    """Which Parquet's paths of nested columns have too."""
    inner = [{"b": "x" * 1000, "c": 1}] * 40
    table = pa.table({"a": inner, "a.b": [str(i) for i in range(40)], "n.m": range(40)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=10)
    command = ("compress", tmp_path / "in.parquet", "--device", "cpu", "--force", "-o", tmp_path / "out.fsst")
    run_ok(*command, "-c", "a.b")
    assert cudf_fsst.load(tmp_path / "out.fsst").to_arrow().to_pylist() == table["a.b"].to_pylist()
    run_ok(*command, "-c", "a.b", "-c", "n.m")
    frame = cudf_fsst.load(tmp_path / "out.fsst")
    assert list(frame) == ["a.b", "n.m"]
    run_ok(*command, "-c", "a")
    assert cudf_fsst.load(tmp_path / "out.fsst").to_arrow()["a"].to_pylist() == inner
    assert "no column 'a.c'" in run_bad(*command, "-c", "a.c")


@pytest.mark.gpu
def test_frame_on_the_gpu(tmp_path: Path) -> None:
    table = table_of_many_types().drop_columns(["kind", "nothing"])  # cuDF reads strings
    pq.write_table(table, tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "gpu")
    run_ok("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    restored = pq.read_table(tmp_path / "out.parquet")
    for name in ("key", "price", "text", "parts", "point", "flag", "real"):
        assert restored[name].to_pylist() == table[name].to_pylist(), name


def test_inspect_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"n": range(10_000), "[red]s": ["x", None] * 5000, "days": [dt.date(2026, 1, 1)] * 10_000}
    index = pd.Index([*range(10_000, 0, -1)], name="key")
    frame = pd.DataFrame(data, index=index).fsst.compress()
    frame.save(tmp_path / "frame.fsst")
    monkeypatch.setattr("cudf_fsst.codecs.host.read", None)
    shown = run_ok("inspect", tmp_path / "frame.fsst")
    assert re.search(r"format version +3\b", shown)
    assert re.search(r"rows +10,000\b", shown)
    assert re.search(r" n +int64 +bitpack +0 +80,000 +[\d,]+ +[\d.]+ ", shown)
    assert re.search(r" \[red\]s +str +dict +5,000 ", shown)
    assert re.search(r" days +object: date32\[day\] +bitpack +0 +40,000 ", shown)
    assert re.search(r" \(index\) key +int64 ", shown)
    total = f" total +{frame.uncompressed_nbytes:,} +{frame.nbytes:,} +{frame.ratio:.3f} "
    assert re.search(total, shown)


@pytest.mark.parametrize("columns", [["a"], []], ids=["no rows", "no columns"])
def test_inspect_a_frame_of_nothing(columns: list[str], tmp_path: Path) -> None:
    pd.DataFrame({name: pd.Series(dtype="str") for name in columns}).fsst.compress().save(tmp_path / "frame.fsst")
    assert re.search(r" total +0 +0 +1\.000 ", run_ok("inspect", tmp_path / "frame.fsst"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "text", "-c", "nothing"], "no column 'nothing'; columns: text, number, odd"),
        (["-c", "text", "-c", "number", "--codec", "odd=raw"], "codecs names a column .* does not have: 'odd'"),
        (["-c", "text", "-c", "number", "--codec", "number=zstd"], "codec of column 'number' must be one of .* 'zstd'"),
        (["-c", "text", "-c", "number", "--codec", "number=fsst"], "column 'number': codec 'fsst' takes strings, not "),
        (["--codec", "raw"], "--codec must be NAME=CODEC, not 'raw'"),
        (["-c", "text", "--codec", "text=gfc"], "column 'text': codec 'gfc' does not take strings"),
        (["--level", "best"], "level must be one of"),
    ],
)
def test_frame_mistakes(tmp_path: Path, arguments: list[str], message: str) -> None:
    odd = pa.array([b"a"], pa.binary(1))
    pq.write_table(pa.table({"text": ["a"], "number": [1], "odd": odd}), tmp_path / "in.parquet")
    line = run_bad("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu", *arguments)
    assert re.search(message, line)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet"}


def test_frame_output_is_kept(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed, restored = tmp_path / "frame.fsst", tmp_path / "out.parquet"
    for output in (compressed, restored):
        output.write_text("precious")
    assert "exists" in run_bad("compress", parquet, "-o", compressed, "--device", "cpu")
    assert compressed.read_text() == "precious"
    run_ok("compress", parquet, "-o", compressed, "--device", "cpu", "--force")
    assert "exists" in run_bad("decompress", compressed, "-o", restored)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
        assert "no space left" in run_bad("decompress", compressed, "-o", restored, "--force")
    assert restored.read_text() == "precious"
    run_ok("decompress", compressed, "-o", restored, "--force")
    assert pq.read_table(restored)["text"].to_pylist() == VALUES
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "frame.fsst", "out.parquet"}


def test_frame_columns_of_one_name(parquet: Path, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), parquet)
    message = run_bad("compress", parquet, "-o", tmp_path / "frame.fsst", "--device", "cpu")
    assert message == "error: the file has 2 columns named 'text'; rename all but one"
    pd.DataFrame([[1, 2]], columns=["a", "a"]).fsst.compress().save(tmp_path / "frame.fsst")
    message = run_bad("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    assert "Duplicate column names found: ['a', 'a']" in message


def test_damaged_frame(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "-o", tmp_path / "frame.fsst", "--device", "cpu")
    whole = (tmp_path / "frame.fsst").read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:100], whole[:-1], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]):
        (tmp_path / "damaged.fsst").write_bytes(damaged)
        assert "damaged.fsst" in run_bad("decompress", tmp_path / "damaged.fsst", "-o", tmp_path / "out.parquet")
        assert "damaged.fsst" in run_bad("inspect", tmp_path / "damaged.fsst", "--check")
    assert not (tmp_path / "out.parquet").exists()


def test_decompress_by_the_suffix(tmp_path: Path) -> None:
    data = pd.DataFrame({"n": [1, 2, 3], "s": ["a", None, "b,c"], "d": [dt.date(2026, 1, day) for day in (1, 2, 3)]})
    frame = data.fsst.compress()
    frame.save(tmp_path / "f.fsst")
    for suffix in ("parquet", "PQ", "csv", "arrow", "feather"):
        assert "3 rows, 3 columns" in run_ok("decompress", tmp_path / "f.fsst", "-o", tmp_path / f"f.{suffix}")
    assert (tmp_path / "f.csv").read_text() == '"n","s","d"\n1,"a",2026-01-01\n2,,2026-01-02\n3,"b,c",2026-01-03\n'
    with pa.ipc.open_file(tmp_path / "f.arrow") as reader:
        assert reader.read_all().equals(frame.to_arrow())
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "f.PQ"), data)
    run_ok("decompress", tmp_path / "f.fsst", "-o", tmp_path / "none")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "none"), data)
    assert ".parquet, .pq, .arrow" in run_bad("decompress", tmp_path / "f.fsst", "-o", tmp_path / "f.txt")
    assert not (tmp_path / "f.txt").exists()
    pd.DataFrame({"l": [[1], [2]]}).fsst.compress().save(tmp_path / "lists.fsst")
    (tmp_path / "old.csv").write_text("precious")
    run_bad("decompress", tmp_path / "lists.fsst", "-o", tmp_path / "old.csv", "--force")
    assert (tmp_path / "old.csv").read_text() == "precious"
