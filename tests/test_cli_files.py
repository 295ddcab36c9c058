"""The command line with files of several kinds, and with several files."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cli_cases import run_bad, run_ok
from cudf_fsst import cli_files

TABLE = pa.table(
    {
        "n": [1, None, 3],
        "real": [0.5, None, -1e300],
        "flag": [True, None, False],
        "text": ['a, "b"\nc', None, ""],
        "day": [dt.date(2026, 1, 1), None, dt.date(1969, 12, 31)],
        "when": pa.array([0, None, 10**9], pa.timestamp("s")),
    }
)


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path)
    elif path.suffix == ".ipc":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


@pytest.mark.parametrize("suffix", ["csv", "arrow", "feather", "ipc", "parquet"])
def test_every_kind_goes_in_and_out(suffix: str, tmp_path: Path) -> None:
    given, made, back = write(TABLE, tmp_path / f"in.{suffix}"), tmp_path / "f.fsst", tmp_path / f"out.{suffix}"
    shown = run_ok("compress", given, "-o", made, "--device", "cpu")
    assert "3 rows, 6 columns" in shown
    frame = cudf_fsst.load(made)
    assert frame.to_arrow().cast(TABLE.schema).equals(TABLE)
    assert [str(dtype) for dtype in frame.dtypes[["n", "text"]]] == ["float64", "str"]
    run_ok("decompress", made, "-o", back)
    again = tmp_path / "again.fsst"
    run_ok("compress", back, "-o", again, "--device", "cpu")
    assert cudf_fsst.load(again).to_arrow().cast(TABLE.schema).equals(TABLE)
    assert {path.suffix for path in tmp_path.iterdir()} == {f".{suffix}", ".fsst"}


def test_sizes_are_those_of_the_files_and_the_frame(tmp_path: Path) -> None:
    given, made = tmp_path / "in.csv", tmp_path / "f.fsst"
    pd.DataFrame({"text": ["the same again"] * 5000, "n": range(5000)}).to_csv(given, index=False)
    shown = run_ok("compress", given, given, "-o", made, "--device", "cpu")
    frame = cudf_fsst.load(made)
    lines = "2 input files: +(.*)\n +in Arrow: +(.*)\n +in memory: +(.*), ratio (.*)\n +on disk: +(.*)\n"
    found = re.search(lines, shown)
    sizes = (2 * given.stat().st_size, frame.uncompressed_nbytes, frame.nbytes, made.stat().st_size)
    assert len(frame) == 10_000
    for text, size in zip((*found.groups()[:3], found[5]), sizes, strict=True):
        number, unit = text.split()
        assert float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit] == pytest.approx(size, rel=0.01)
    assert float(found[4]) == pytest.approx(frame.ratio, abs=0.005)


def test_files_of_several_kinds_become_one(tmp_path: Path) -> None:
    kinds = enumerate(("csv", "parquet", "arrow"))
    files = [write(TABLE.slice(row, 1), tmp_path / f"{row}.{kind}") for row, kind in kinds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_files, "_GROUP_ROWS", 1)
        run_ok("compress", *files, "-o", tmp_path / "all.fsst", "--device", "cpu")
    assert cudf_fsst.load(tmp_path / "all.fsst").to_arrow().cast(TABLE.schema).equals(TABLE)
    for row, file in enumerate(files):
        run_ok("compress", file, "-c", "text", "-o", tmp_path / f"{row}.fsst", "--device", "cpu")
    columns = [tmp_path / f"{row}.fsst" for row in range(3)]
    assert "3 rows, column 'text'" in run_ok("decompress", *columns, "-o", tmp_path / "text.parquet")
    assert pq.read_table(tmp_path / "text.parquet")["text"].to_pylist() == TABLE["text"].to_pylist()
    assert "expected CompressedColumn" in run_bad("decompress", *columns, tmp_path / "all.fsst", "-o", tmp_path / "no")


def test_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which those of the first block alone are looked at as it is read."""
    monkeypatch.setattr(cli_files, "_BLOCK_NBYTES", 64)
    given = tmp_path / "in.csv"
    given.write_text("a,b\n" + "1,\n" * 100 + "1.5,NA\n")
    run_ok("compress", given, "-o", tmp_path / "f.fsst", "--device", "cpu")
    frame = cudf_fsst.load(tmp_path / "f.fsst").to_arrow()
    assert frame["a"].to_pylist() == [1.0] * 100 + [1.5]
    assert frame["b"].to_pylist() == [None] * 100 + ["NA"], "a text is no null"


def test_a_packed_csv_file(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "in.v2.csv.gz", "wt") as file:
        file.write("a\nx\n")
    run_ok("compress", tmp_path / "in.v2.csv.gz", "-o", tmp_path / "f.fsst", "--device", "cpu")
    assert cudf_fsst.load(tmp_path / "f.fsst").to_arrow().to_pydict() == {"a": ["x"]}
    assert "suffix '.gz'" in run_bad("decompress", tmp_path / "f.fsst", "-o", tmp_path / "out.csv.gz")


def test_other_suffixes_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "in.xlsx").write_text("")
    line = run_bad("compress", tmp_path / "in.xlsx", "-o", tmp_path / "f.fsst")
    assert line.endswith("in.xlsx: suffix '.xlsx' must be one of .parquet, .pq, .csv, .arrow, .feather, .ipc")
    assert not (tmp_path / "f.fsst").exists()


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("csv", b""),
        ("csv", b"a,b\n1\n2,3,4\n"),
        ("arrow", b""),
        ("arrow", b"ARROW1\0\0damaged"),
        ("feather", b"a,b\n1\n2,3,4\n"),
    ],
)
def test_damaged_files_are_named(content: bytes, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"in.{suffix}"
    file.write_bytes(content)
    assert str(file) in run_bad("compress", file, "-o", tmp_path / "f.fsst", "--device", "cpu")
    file.unlink()
    assert str(file) in run_bad("compress", file, "-o", tmp_path / "f.fsst", "--device", "cpu")


def test_inspect_as_json(tmp_path: Path) -> None:
    column = pd.Series(["one", None, "three"], name="text").fsst.compress(codec="fsst")
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="key")).fsst.compress()
    for one, name in ((column, "c"), (frame, "f")):
        one.save(tmp_path / name)
    shown = run_ok("inspect", tmp_path / "c", tmp_path / "f", "--json", "--symbols")
    of_column, of_frame = map(json.loads, shown.splitlines())
    for facts, one, name in ((of_column, column, "c"), (of_frame, frame, "f")):
        assert facts["file"] == str(tmp_path / name)
        assert facts["file_nbytes"] == (tmp_path / name).stat().st_size
        for size in ("nbytes", "uncompressed_nbytes", "ratio"):
            assert facts[size] == getattr(one, size)
    assert (of_column["kind"], of_column["rows"], of_column["nulls"], of_column["name"]) == ("column", 3, 1, "text")
    assert [[bytes.fromhex(one) for one in table] for table in of_column["symbols"]] == [
        list(table.symbols) for table in column.tables
    ]
    assert of_column["segments"][0]["codes_nbytes"] == column.codes_nbytes
    assert [one["name"] for one in of_frame["columns"]] == ["n"]
    assert [one["name"] for one in of_frame["index"]] == ["(index) key"]
    assert "symbols" not in json.loads(run_ok("inspect", tmp_path / "c", "--json"))
    assert run_ok("inspect", tmp_path / "c", tmp_path / "f").count("bytes of the file") == 2


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    first, more, other = (tmp_path / name for name in ("first.csv", "more.csv", "other.parquet"))
    first.write_text("a\n1\n")
    more.write_text("a,b\n5,6\n")
    pq.write_table(pa.table({"a": ["text"]}), other)
    for files, message in (
        ((first, more), "more.csv has a column 'b', which .*first.csv has not"),
        ((more, first), "more.csv has a column 'b', which .*first.csv has not"),
        ((first, other), "other.parquet: column 'a' is of type string, and int64 in .*first.csv"),
    ):
        shown = run_bad("compress", *files, "-o", tmp_path / "out.fsst")
        assert re.search(message, shown), shown
        assert not (tmp_path / "out.fsst").exists()


def test_missing_values_of_a_csv_file_of_one_column(tmp_path: Path) -> None:
    table = pa.table({"note": ["a", None, "", "b", None]})
    file = write(table, tmp_path / "in.csv")
    run_ok("compress", file, "-o", tmp_path / "out.fsst")
    assert pa.table(cudf_fsst.load(tmp_path / "out.fsst"))["note"].to_pylist() == table["note"].to_pylist()
