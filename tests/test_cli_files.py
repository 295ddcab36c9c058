"""The command line with files of several kinds, and with several files."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cli_cases import run, run_bad, run_ok
from cudf_fsst.cli import files as cli_files
from cudf_fsst.cli.facts import facts_of
from cudf_fsst.files import disk

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
    line = run_bad("decompress", *columns, tmp_path / "all.fsst", "-o", tmp_path / "no")
    assert line.endswith(f"all.fsst is a frame, and {columns[0]} a column; decompress them apart")


def test_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which those of the first block alone are looked at as it is read."""
    monkeypatch.setattr(cli_files, "_BLOCK_NBYTES", 64)
    given = tmp_path / "in.csv"
    given.write_text("a,b\n" + "1,\n" * 100 + "1.5,NA\n")
    run_ok("compress", given, "-o", tmp_path / "f.fsst", "--device", "cpu")
    frame = cudf_fsst.load(tmp_path / "f.fsst").to_arrow()
    assert frame["a"].to_pylist() == [1.0] * 100 + [1.5]
    assert frame["b"].to_pylist() == [None] * 100 + ["NA"], "a text is no null"


@pytest.mark.parametrize(
    ("suffix", "unpacked"),
    [
        ("csv.gz", gzip.decompress),
        ("csv.bz2", bz2.decompress),
        ("csv.zst", None),
        ("tsv", bytes),
        ("TSV.GZ", gzip.decompress),
    ],
)
def test_packed_and_separated_files(suffix: str, unpacked: Callable[[bytes], bytes] | None, tmp_path: Path) -> None:
    given, made, back = tmp_path / "in.v2.parquet", tmp_path / "f.fsst", tmp_path / f"out.v2.{suffix}"
    table = pa.table({"a": ["x", None, "y,z"], "b": [1, 2, None]})
    pq.write_table(table, given)
    run_ok("compress", given, "-o", made, "--device", "cpu")
    run_ok("decompress", made, "-o", back)
    if unpacked is not None:
        delimiter = "\t" if "tsv" in suffix.lower() else ","
        expected = '"a","b"\n"x",1\n,2\n"y;z",\n'.replace(",", delimiter).replace(";", ",")
        assert unpacked(back.read_bytes()).decode() == expected
    run_ok("compress", back, "-o", made, "--device", "cpu", "--force")
    assert cudf_fsst.load(made).to_arrow().cast(table.schema).equals(table)


def test_other_suffixes_are_refused_by_name(tmp_path: Path) -> None:
    taken = ".parquet, .pq, .arrow, .feather, .ipc, .csv, .tsv, or .csv or .tsv with .gz, .bz2, .zst after it"
    for name, suffix in (("in.xlsx", ".xlsx"), ("in.csv.xz", ".xz"), ("in.parquet.gz", ".gz")):
        (tmp_path / name).write_text("")
        line = run_bad("compress", tmp_path / name, "-o", tmp_path / "f.fsst")
        assert line.endswith(f"{name}: suffix {suffix!r} must be one of {taken}")
    pd.Series(["a"]).fsst.compress().save(tmp_path / "f.fsst")
    for name in ("out.xlsx", "out.fsst"):
        assert f"{name}: suffix" in run_bad("decompress", tmp_path / "f.fsst", "-o", tmp_path / name)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".pq", ".arrow", ".Feather", ".ipc", ".csv.gz"])
def test_nothing_is_compressed_into_a_file_of_another_format(suffix: str, tmp_path: Path) -> None:
    given, output = tmp_path / "in.csv", tmp_path / f"out{suffix}"
    given.write_bytes(b"no \xff table")  # which is not read
    line = run_bad("compress", given, "-o", output, "--force")
    assert f"out{suffix}: what is written is no {suffix.lower()} file; call it " in line
    assert line.endswith(".fsst")
    assert not output.exists()


def test_columns_that_are_kept_as_text(tmp_path: Path) -> None:
    given, made = tmp_path / "in.csv", tmp_path / "f.fsst"
    given.write_text("zip,n,day\n007,01,2026-01-01\n,2,\n")
    some, every = ("--text", "zip", "--text", "zip"), ("--all-text",)
    for options, expected in (
        ((), [7, None, 1, 2, dt.date(2026, 1, 1)]),
        (some, ["007", None, 1, 2, dt.date(2026, 1, 1)]),
        (every, ["007", None, "01", "2", "2026-01-01"]),
    ):
        run_ok("compress", given, *options, "-o", made, "--device", "cpu", "--force")
        found = cudf_fsst.load(made).to_arrow()
        assert [*found["zip"].to_pylist(), *found["n"].to_pylist(), found["day"][0].as_py()] == expected
    given.with_suffix(".parquet").write_bytes(b"not read")
    assert "no CSV file has a column 'x'" in run_bad("compress", given, "--text", "x", "-o", made, "--force")
    for option in (some, every, ("--delimiter", ";"), ("--encoding", "latin-1")):
        line = run_bad("compress", given.with_suffix(".parquet"), *option, "-o", made, "--force")
        assert line == f"error: {option[0]} is for CSV files, of which there is none"


def test_delimiters(tmp_path: Path) -> None:
    given, made = tmp_path / "in.csv", tmp_path / "f.fsst"
    for delimiter, named in ((";", ";"), ("|", "|"), ("\t", r"\t")):
        given.write_text("a;b\n1;x\n".replace(";", delimiter))
        line = run_bad("compress", given, "-o", made, "--device", "cpu")
        assert f"in.csv: its only column is {f'a{delimiter}b'!r}; is it --delimiter '{named}'?" in line
        run_ok("compress", given, "--delimiter", named, "-o", made, "--device", "cpu", "--force")
        assert cudf_fsst.load(made).to_arrow().to_pydict() == {"a": [1], "b": ["x"]}
        made.unlink()
    run_ok("compress", given, "--delimiter", ",", "-o", made, "--device", "cpu")
    assert cudf_fsst.load(made).to_arrow().to_pydict() == {"a\tb": ["1\tx"]}
    given.write_text("a;b\n1,5;x\n")
    assert "has it another --delimiter?" in run_bad("compress", given, "-o", made, "--device", "cpu", "--force")
    for delimiter in ("", ";;", "é", "\n", '"'):
        line = run_bad("compress", given, "--delimiter", delimiter, "-o", made, "--force")
        assert rf"--delimiter must be one ASCII character, or \t, not {delimiter!r}" in line


def test_other_encodings_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_files, "_BLOCK_NBYTES", 64)
    made = tmp_path / "f.fsst"
    for number, (lines, encoding, place) in enumerate(
        (
            (["name,n", "café,1"], "latin-1", "byte 0xe9 at 10, in line 2,"),
            (["name,n", *["ok,1"] * 50, "café,1"], "latin-1", "byte 0xe9 at 260, in line 52,"),
            (["café,n", "ok,1"], "latin-1", "byte 0xe9 at 3, in line 1,"),
            (["name,n", "café,1"], "utf-16", "byte 0xff at 0, in line 1,"),
        )
    ):
        for suffix in ("csv", "csv.gz"):
            given = tmp_path / f"{number}.{suffix}"
            content = "\n".join([*lines, ""]).encode(encoding)
            given.write_bytes(content if suffix == "csv" else gzip.compress(content))
            for option in ((), ("--all-text",)):
                line = run_bad("compress", given, *option, "-o", made, "--device", "cpu")
                assert f"{given}: {place} is not utf-8" in line
                assert line.endswith(f"--encoding {encoding}")
            assert not made.exists()
            run_ok("compress", given, "--encoding", encoding, "-o", made, "--device", "cpu")
            assert "café" in [*cudf_fsst.load(made).columns, *cudf_fsst.load(made).to_arrow()[0].to_pylist()]
            made.unlink()
    line = run_bad("compress", tmp_path / "0.csv", "--encoding", "ascii", "-o", made, "--device", "cpu")
    assert "0.csv: byte 0xe9 at 10, in line 2, is not ascii" in line
    for name in ("nothing", "rot13"):
        assert "--encoding: " in run_bad("compress", tmp_path / "0.csv", "--encoding", name, "-o", made)


@pytest.mark.parametrize(
    ("first", "second", "type", "values"),
    [
        ("1", "1.5", "double", [1.0, 1.5]),
        ("1.5", "1", "double", [1.5, 1.0]),
        ("", "1", "int64", [None, 1]),
        ("2026-01-01", "2026-01-02 03:04", "timestamp[ms]", [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2, 3, 4)]),
        ("007", "x", "text", ["007", "x"]),
        ("x", "1.50", "text", ["x", "1.50"]),
        ("true", "2", "text", ["true", "2"]),
        ("", "", "null", [None, None]),
    ],
)
def test_types_of_csv_files_are_those_that_fit_all(
    first: str, second: str, type: str, values: list[Any], tmp_path: Path
) -> None:
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    for file, value in zip(files, (first, second), strict=True):
        file.write_text(f"a,b\n{value},x\n")
    done = run("compress", *files, "-o", tmp_path / "f.fsst", "--device", "cpu")
    assert done.exit_code == 0, done.output
    found = cudf_fsst.load(tmp_path / "f.fsst").to_arrow()["a"]
    assert found.to_pylist() == values
    if type == "text":
        assert re.search(r"^column 'a' becomes text: (int64|bool|double) in .*, (string|int64) in ", done.stderr)
    else:
        assert str(found.type) == type
        assert done.stderr == ""


def test_files_of_other_kinds_say_which_types_csv_files_have(tmp_path: Path) -> None:
    texts, typed = tmp_path / "in.csv", tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": ["x"], "n": [5]}), typed)
    texts.write_text("a,n\n007,6\n")
    for files in ((typed, texts), (texts, typed)):
        run_ok("compress", *files, "-o", tmp_path / "f.fsst", "--device", "cpu", "--force")
        assert sorted(cudf_fsst.load(tmp_path / "f.fsst").to_arrow()["a"].to_pylist()) == ["007", "x"]
    texts.write_text("a,n\n007,6.5\n")
    for files in ((typed, texts), (texts, typed)):
        line = run_bad("compress", *files, "-o", tmp_path / "f.fsst", "--device", "cpu", "--force")
        assert "in.csv: other files have other types: column 'a' is int64, not string, 'n' is double, not int64" in line
        assert "in.csv.parquet" not in line


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


def test_inspect_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 50_000
    numbers = np.random.default_rng(1).integers(0, 2**40, rows)
    data = pd.DataFrame({"n": numbers, "t": [f"row {i}" for i in range(rows)]})
    data["kind"], data["few"] = pd.Categorical(data["t"].str[-1]), data["t"].str[-1]
    whole = data.set_index(data["t"].rename("key")).fsst.compress()
    for name, one in (("frame", whole), ("text", data["t"].fsst.compress()), ("kind", whole.column("kind"))):
        for compression in (None, "zstd"):
            path = tmp_path / f"{name}-{compression}"
            one.save(path, compression=compression)
            read = 0

            def counted(self: Any, targets: Any, fill: Any = disk._Disk.fill) -> None:
                nonlocal read
                read += sum(array.nbytes for _, array in targets)
                fill(self, targets)

            with monkeypatch.context() as patch:
                patch.setattr(disk._Disk, "fill", counted)
                facts = facts_of(path, symbols=True)
            assert facts == facts_of(path, symbols=True, check=True)
            assert name == "kind" or facts["uncompressed_nbytes"] == one.uncompressed_nbytes
            assert read < 20_000 + path.stat().st_size // 10
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
            run_ok("inspect", path)
            assert "codes of segment" in run_bad("inspect", path, "--check")


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
    assert of_frame["columns"][0]["symbols"] == []
    assert len(of_frame["index"][0]["symbols"]) == 1
    assert run_ok("inspect", tmp_path / "c", tmp_path / "f").count("bytes of the file") == 2


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    first, more, days, times = (tmp_path / name for name in ("first.csv", "more.csv", "days.parquet", "times.parquet"))
    first.write_text("a\n1\n")
    more.write_text("a,b\n5,6\n")
    pq.write_table(pa.table({"a": [dt.date(2026, 1, 1)]}), days)
    pq.write_table(pa.table({"a": [dt.datetime(2026, 1, 1, 5)]}), times)
    for files, message in (
        ((first, more), "more.csv has a column 'b', which .*first.csv has not"),
        ((more, first), "more.csv has a column 'b', which .*first.csv has not"),
        ((days, times), "times.parquet: column 'a' is of type timestamp.*, and date32.* in .*days.parquet"),
    ):
        shown = run_bad("compress", *files, "-o", tmp_path / "out.fsst")
        assert re.search(message, shown), shown
        assert not (tmp_path / "out.fsst").exists()


def test_missing_values_of_a_csv_file_of_one_column(tmp_path: Path) -> None:
    table = pa.table({"note": ["a", None, "", "b", None]})
    file = write(table, tmp_path / "in.csv")
    run_ok("compress", file, "-o", tmp_path / "out.fsst")
    assert pa.table(cudf_fsst.load(tmp_path / "out.fsst"))["note"].to_pylist() == table["note"].to_pylist()


def test_symbols_of_frames(tmp_path: Path) -> None:
    words = [f"a word, and another {number % 70}" for number in range(700)]
    whole = pd.DataFrame({"n": range(700), "text": words, "kind": pd.Categorical(words)})
    frame = whole.fsst.compress(codecs={"text": "fsst"})
    frame.save(tmp_path / "f")
    whole[["text"]].fsst.compress(codecs={"text": "onpair"}).save(tmp_path / "onpair")
    whole[["n"]].fsst.compress().save(tmp_path / "numbers")
    shown = run_ok("inspect", tmp_path / "f", "--symbols")
    assert re.findall(r"^(\w+), table (\d): 0='", shown, re.MULTILINE) == [("text", "0"), ("kind", "0")]
    symbol = frame.column("text").tables[0].symbols[5]
    assert f"  5={repr(symbol)[1:]}  " in shown
    assert re.search("^text, table 0: 256='", run_ok("inspect", tmp_path / "onpair", "--symbols"), re.MULTILINE)
    assert run_ok("inspect", tmp_path / "numbers", "--symbols").endswith("No column has a symbol table.\n")
    assert "table" not in run_ok("inspect", tmp_path / "f", tmp_path / "numbers")


def test_missing_files_and_folders_have_one_wording(tmp_path: Path) -> None:
    output = tmp_path / "out"
    for name in ("missing", "missing.csv", "missing.parquet", "missing.arrow"):
        for arguments in (("compress", tmp_path / name, "-o", output), ("inspect", tmp_path / name)):
            assert run_bad(*arguments) == f"error: {tmp_path / name}: no such file"
        assert run_bad("decompress", tmp_path / name, "-o", output) == f"error: {tmp_path / name}: no such file"
    assert run_bad("compress", "memory://x.parquet", "-o", output).endswith(
        "; URLs are for cudf_fsst.read_parquet, in Python"
    )
    for arguments in (("compress", "-o", output), ("decompress", "-o", output), ("inspect",)):
        assert run_bad(*arguments, tmp_path) == f"error: {tmp_path}: a folder, not a file"


def test_errors_name_the_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("number,text\n1,x\n2,y\n")
    assert run_bad("compress", path, "-o", tmp_path / "us.fsst", "--codec", "number=fsst") == (
        f"error: {path}: column 'number': codec 'fsst' takes strings, not int64"
    )
