"""The command line: its round trips, its one-line errors, what it leaves on disk."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import cudf_fsst
from cudf_fsst import cli, demo
from cudf_fsst.codecs.fsst import tuning
from cudf_fsst.codecs.fsst.tuning import Choices
from cudf_fsst.engine import Engine

VALUES = ["", "plain", None, "naïve café", "日本語", "x" * 5000, "a\x00b", None, "fluffily ironic deposits"] * 40


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def run_ok(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_bad(*arguments: object) -> str:
    """Return the one line of an expected failure."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Strings with nulls in row groups of 100, beside a column of numbers."""
    path = tmp_path / "in.parquet"
    table = pa.table({"text": pa.array(VALUES, pa.string()), "number": range(len(VALUES))})
    pq.write_table(table, path, row_group_size=100)
    return path


# Demo


def test_demo_checks_and_shows_every_column(tmp_path: Path) -> None:
    columns = ("l_comment", "l_shipinstruct", "c_address")
    arguments = [part for name in columns for part in ("--column", name)]
    shown = run_ok("demo", "--scale", 0.001, "--device", "cpu", "--data", tmp_path, *arguments)
    assert all(name in shown for name in columns)
    assert "CPU" in shown
    assert "came back equal" in shown

    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert {path.name for path in made} == {"lineitem.parquet", "customer.parquet"}
    run_ok("demo", "--scale", 0.001, "--device", "cpu", "--data", tmp_path, "--rows", 7, "--column", "l_comment")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == made


def test_tables_fit_into_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cutting a number short."""
    text = io.StringIO()
    monkeypatch.setattr(cli, "_out", Console(width=80, file=text, markup=False, emoji=False))
    size = 5_999_989 * 123
    big = demo.Report("l_shipinstruct", 5_999_989, size, size, size // 8, 7.996, 0.99, 0.76, 1000, 0.01234)
    monkeypatch.setattr(demo, "make_table", lambda *_: tmp_path)
    monkeypatch.setattr(demo, "run_column", lambda *_: big)
    run_ok("demo", "--device", "cpu")
    pd.DataFrame({"number": range(300_000), "text": "x" * 200}).to_parquet(tmp_path / "in.parquet")
    for options in ((), ("-c", "text")):
        run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "out.fsst", "--force", "--device", "cpu", *options)
        run_ok("inspect", tmp_path / "out.fsst")
    shown = text.getvalue()
    assert "5,999,989" in shown
    assert "60,000,000" in shown
    assert "…" not in shown


def test_paragraphs_of_the_help_are_wrapped_anew() -> None:
    shown = CliRunner().invoke(cli.app, ["compress", "--help"], env={"COLUMNS": "80"}).stdout
    assert "index, if it has one, is not kept" in shown


def test_demo_notices_a_changed_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decompress = cudf_fsst.CompressedColumn.decompress

    def wrong(self: cudf_fsst.CompressedColumn, *args: object, **kwargs: object) -> pd.Series:
        series = decompress(self, *args, **kwargs)
        series.iloc[-1] += "!"
        return series

    monkeypatch.setattr(cudf_fsst.CompressedColumn, "decompress", wrong)
    message = run_bad("demo", "--scale", 0.001, "--device", "cpu", "--data", tmp_path, "--column", "o_comment")
    assert "'o_comment' did not come back as it was" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "z_comment"], "'z_comment' is not a TPC-H column"),
        (["--column", "l_nothing"], "lineitem has no column 'l_nothing'; it has l_orderkey, "),
        (["--column", "l_orderkey"], "'l_orderkey'.*int64"),
        (["--device", "tpu"], "--device must be auto, gpu or cpu, not 'tpu'"),
    ],
)
def test_demo_errors(tmp_path: Path, arguments: list[str], message: str) -> None:
    line = run_bad("demo", "--scale", 0.001, "--data", tmp_path, "--device", "cpu", *arguments)
    assert re.search(message, line)


def test_demo_without_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudf_fsst.demo.shutil.which", lambda *args, **kwargs: None)
    assert "pip install 'cudf-fsst[demo]'" in run_bad("demo", "--device", "cpu", "--data", tmp_path)


@pytest.mark.gpu
def test_demo_on_the_gpu(tmp_path: Path) -> None:
    shown = run_ok("demo", "--scale", 0.001, "--device", "gpu", "--data", tmp_path)
    assert "cudf 26" in shown
    assert "came back equal" in shown


# Compress, decompress, inspect


def test_round_trip(parquet: Path, tmp_path: Path) -> None:
    compressed, restored = tmp_path / "text.fsst", tmp_path / "out.parquet"
    shown = run_ok("compress", parquet, "--column", "text", "-o", compressed, "--device", "cpu")
    assert f"{len(VALUES):,} rows" in shown
    column = cudf_fsst.load(compressed)
    assert column.name == "text"
    assert column.to_arrow().to_pylist() == VALUES
    assert column.index.equals(pd.RangeIndex(len(VALUES)))

    run_ok("decompress", compressed, "-o", restored)
    table = pq.read_table(restored)
    assert table.column_names == ["text"]
    assert table["text"].to_pylist() == VALUES
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "text.fsst", "out.parquet"}


def test_compress_at_a_level(parquet: Path, tmp_path: Path) -> None:
    sizes = []
    for level in ("default", "max"):
        run_ok("compress", parquet, "-c", "text", "-o", tmp_path / level, "--level", level, "--device", "cpu")
        column = cudf_fsst.load(tmp_path / level)
        assert column.to_arrow().to_pylist() == VALUES
        sizes.append(column.codes_nbytes)
    assert sizes[1] < sizes[0]
    message = run_bad("compress", parquet, "-c", "text", "-o", tmp_path / "no", "--level", "best", "--device", "cpu")
    assert message == "error: level must be one of ('default', 'max'), not 'best'"


def test_compress_reads_few_row_groups_at_a_time(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    read = Engine.read

    def watched(self: Engine, path: Path, column: str, row_groups: list[int] | None = None) -> pd.Series:
        seen.append(row_groups)
        return read(self, path, column, row_groups)

    monkeypatch.setattr(Engine, "read", watched)
    for rows, expected in ((1, [[0], [1], [2], [3]]), (200, [[0, 1], [2, 3]]), (10**6, [[0, 1, 2, 3]])):
        monkeypatch.setattr(cli, "_PIECE_ROWS", rows)
        run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu", "--force")
        assert seen == expected
        assert cudf_fsst.load(tmp_path / "text.fsst").to_arrow().to_pylist() == VALUES
        seen.clear()
    monkeypatch.setattr(cli, "_PIECE_BYTES", 1)
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu", "--force")
    assert seen == [[0], [1], [2], [3]]


def test_decompress_writes_piece_by_piece(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    monkeypatch.setattr(cli, "_DECOMPRESS_CHARS", 40_000)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups > 3
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == VALUES


@pytest.mark.parametrize("values", [[], [None, None], ["", ""]], ids=["no rows", "all nulls", "empty strings"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_round_trip_of_little(tmp_path: Path, values: list[str | None], kind: pa.DataType) -> None:
    pq.write_table(pa.table({"text": pa.array(values, kind)}), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == values


def test_file_without_row_groups(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "in.parquet", pa.schema({"text": pa.string()})):
        pass
    assert pq.ParquetFile(tmp_path / "in.parquet").num_row_groups == 0
    run_ok("compress", tmp_path / "in.parquet", "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    assert len(cudf_fsst.load(tmp_path / "text.fsst")) == 0


@pytest.mark.parametrize("labels", [[5, 3, 3], range(3), range(2, 8, 2)], ids=repr)
@pytest.mark.parametrize("name", ["key", None, 7, ("a", 1)], ids=repr)
def test_decompress_keeps_an_index_of_its_own(name, labels, tmp_path: Path) -> None:
    index = pd.Index(labels, name=name)
    pd.Series(["a", None, "c"], index=index, name="text").fsst.compress().save(tmp_path / "text.fsst")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame.index.equals(index)
    assert frame.index.name == (None if name is None else str(name))
    assert frame["text"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("values", [[None] * 30 + ["a"] * 30, [None] * 30], ids=["first nulls", "only nulls"])
def test_decompress_takes_types_from_the_whole_column(
    values: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = pd.Index([None] * 30 + ["key"] * (len(values) - 30), dtype=object, name="i")
    pd.Series(values, index=index, dtype=object, name="text").fsst.compress().save(tmp_path / "text.fsst")
    monkeypatch.setattr(cli, "_DECOMPRESS_CHARS", 10)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert pa.types.is_string(table.schema.field("text").type)
    assert table["text"].to_pylist() == values
    assert table["i"].to_pylist() == index.tolist()


ANY_BYTES = [b"ok", None, b"\xff\xfe", "é".encode()] * 50


@pytest.mark.parametrize("arguments", [("-c", "text"), ()], ids=["column", "frame"])
def test_bytes_that_are_not_utf8(arguments: tuple[str, ...], tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(ANY_BYTES).view(pa.string())}), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", *arguments, "-o", tmp_path / "text.fsst", "--device", "cpu")
    assert "text" in run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["text"].cast(pa.large_binary()).to_pylist() == ANY_BYTES


@pytest.mark.parametrize("dtype", ["object", "string[python]"])
def test_bytes_that_no_python_string_holds(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = pd.Series(pd.array(pa.array(ANY_BYTES).view(pa.string()), dtype="str")).fsst.compress()
    index = pd.Index([*range(99), None, *range(100)], dtype="Int64")
    column = column._make(column.segments, column._backend, "text", index, pd.api.types.pandas_dtype(dtype))
    column.save(tmp_path / "text.fsst")
    assert "xff" in run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    monkeypatch.setattr(cli, "_DECOMPRESS_CHARS", 100)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found["text"].cast(pa.large_binary()).to_pylist() == ANY_BYTES
    assert found.column(1).to_pylist() == [*range(99), None, *range(100)]


def test_categories_that_no_python_string_holds(tmp_path: Path) -> None:
    words = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    array = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), words)])
    frame = pd.DataFrame({"kind": pd.arrays.ArrowExtensionArray(array)}).fsst.compress()
    stored = {"kind": "category", "categories": {"kind": "string", "storage": "pyarrow", "na": "nan"}}
    columns = [replace(frame._columns[0], stored=stored)]
    frame._make(frame._backend, columns, frame.columns, frame._index, (), 3).save(tmp_path / "frame.fsst")
    assert re.search(r" kind +category +", run_ok("inspect", tmp_path / "frame.fsst"))
    line = run_bad("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    assert "invalid start byte, column 'kind'" in line
    assert not (tmp_path / "out.parquet").exists()


def test_inspect(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    column = cudf_fsst.load(tmp_path / "text.fsst")
    shown = run_ok("inspect", tmp_path / "text.fsst")
    for fact in (f"{len(VALUES):,}", f"{column.nbytes:,}", f"{column.ratio:.3f}", "text", "version"):
        assert fact in shown
    assert f"{column.chars_nbytes / column.codes_nbytes:.3f}" in shown
    symbols = run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    assert len(symbols) > len(shown)
    assert "xxxxxxxx" in symbols


@pytest.mark.parametrize("values", [[], [""]], ids=repr)
def test_inspect_without_characters(tmp_path: Path, values: list[str]) -> None:
    pd.Series(values, dtype="str").fsst.compress().save(tmp_path / "text.fsst")
    shown = run_ok("inspect", tmp_path / "text.fsst")
    assert re.search(r"ratio of the characters +1\.000\b", shown)
    assert "0.000" not in shown


#: A colour, a title of the terminal, a bell, an 8-bit escape, markup, an emoji's name, text from right to left.
HOSTILE = "\x1b[31m\x1b]0;title\x07\x9b1m[bold]b[/bold][/x]:cat:\u202e\\"
SHOWN = "\\x1b[31m\\x1b]0;title\\x07\\x9b1m[bold]b[/bold][/x]:cat:\\u202e\\"


def plain(shown: str) -> str:
    """What a command showed, which must be safe to print, without the spaces and ends of lines that tables put in."""
    assert all(char.isprintable() or char == "\n" for char in shown), ascii(shown)
    return re.sub(r"\s+", "", shown)


def test_names_from_files_are_shown_without_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli._out, "width", 300)
    index = pd.Index([3, 1], name=HOSTILE)
    pd.Series(["a", "b"], name=HOSTILE, index=index).fsst.compress().save(tmp_path / "column.fsst")
    shown = plain(run_ok("inspect", tmp_path / "column.fsst", "--symbols"))
    assert shown.count(repr(HOSTILE)) == 2, "name and index"
    point = pd.arrays.ArrowExtensionArray(pa.chunked_array([[{"a": 1}, None]]))
    frame = pd.DataFrame({HOSTILE: [1, 2], "point": point}, index=index)
    frame["point"] = frame["point"].astype(pd.ArrowDtype(pa.struct([("\x1b", pa.int64())])))
    frame.fsst.compress().save(tmp_path / "frame.fsst")
    lines = plain_lines(run_ok("inspect", tmp_path / "frame.fsst"))
    assert any(line.strip().startswith(f"{SHOWN} ") for line in lines)
    assert any(line.strip().startswith(f"(index) {SHOWN} ") for line in lines)
    assert any("struct<\\x1b: int64>" in line for line in lines)
    for name in ("column", "frame"):
        plain(run_ok("decompress", tmp_path / f"{name}.fsst", "-o", tmp_path / "out.parquet", "--force"))


def plain_lines(shown: str) -> list[str]:
    plain(shown)
    return shown.splitlines()


def test_names_from_the_command_line_are_shown_without_control_characters(parquet: Path, tmp_path: Path) -> None:
    path, wanted = tmp_path / f"{HOSTILE[:-1]}\udcff".replace("/", ""), f"{SHOWN[:-1]}\\udcff".replace("/", "")
    assert wanted in plain(run_ok("compress", parquet, "-c", "text", "-o", path, "--device", "cpu"))
    assert wanted in plain(run_ok("inspect", path))
    assert wanted in plain(run_ok("decompress", path, "-o", f"{path}.parquet"))
    for arguments in (["inspect", f"{path}?"], ["compress", f"{path}?", "-o", "out"], ["inspect", f"{path}.parquet"]):
        assert wanted in plain(run_bad(*arguments))
    for command in (["compress", parquet, "-o", "out", "--device", "cpu"], ["demo", "--device", "cpu"]):
        assert repr(HOSTILE)[1:-1] in plain(run_bad(*command, "--column", HOSTILE))


def test_progress_shows_names_without_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = progress_of(monkeypatch)
    pq.write_table(pa.table({HOSTILE: ["a"] * 10}), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-c", HOSTILE, "-o", tmp_path / "c.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "c.fsst", "-o", tmp_path / "out.parquet")
    assert f"compressing {SHOWN} " in shown()
    assert f"decompressing {SHOWN} " in shown()
    assert not {"\x07", "\x9b", "\u202e"} & set(shown())


def progress_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What a terminal was sent, without Rich's own escapes (colours, the cursor)."""
    sent = io.StringIO()
    terminal = Console(file=sent, force_terminal=True, width=150, markup=False, emoji=False)
    monkeypatch.setattr(cli, "_err", terminal)
    return lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.getvalue())


@pytest.mark.parametrize(("rows", "counted"), [(1000, False), (90, True)], ids=["one piece", "pieces"])
def test_progress_stands_at_no_0_of_1(
    rows: int, counted: bool, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one piece nothing is known until it is done: the bar moves, and nothing is counted."""
    shown = progress_of(monkeypatch)
    monkeypatch.setattr(cli, "_PIECE_ROWS", rows)
    monkeypatch.setattr(cli, "_DECOMPRESS_CHARS", 10**9 if rows == 1000 else 10_000)
    run_ok("compress", parquet, "-c", "text", "-o", tmp_path / "c.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "c.fsst", "-o", tmp_path / "out.parquet")
    assert "compressing text" in shown()
    assert "decompressing text" in shown()
    assert bool(re.search(r"\b0/4\b", shown())) == bool(re.search(r" 0/360\b", shown())) == counted
    assert not re.search(r"\b0/(1|\?)", shown())


def test_version() -> None:
    assert run_ok("--version") == f"cudf-fsst {cudf_fsst.__version__}\n"
    assert "compress" in run_ok("--help")


@pytest.mark.gpu
def test_compress_writes_the_same_file_on_the_gpu(parquet: Path, tmp_path: Path) -> None:
    for device in ("cpu", "gpu"):
        run_ok("compress", parquet, "--column", "text", "-o", tmp_path / device, "--device", device)
    cpu, gpu = (cudf_fsst.load(tmp_path / device) for device in ("cpu", "gpu"))
    assert cpu.codes_nbytes == gpu.codes_nbytes
    assert cpu.to_arrow().to_pylist() == gpu.to_arrow().to_pylist() == VALUES


# Frames


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
    assert "nsupported cast" in run_bad("decompress", path, "-o", output)
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


def test_names_with_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which Parquet's paths of nested columns have too."""
    inner = [{"b": "x" * 1000, "c": 1}] * 40
    table = pa.table({"a": inner, "a.b": [str(i) for i in range(40)], "n.m": range(40)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=10)
    command = ("compress", tmp_path / "in.parquet", "--device", "cpu", "--force", "-o", tmp_path / "out.fsst")
    with monkeypatch.context() as patch:
        patch.setattr(cli, "_PIECE_BYTES", 500)
        metadata = pq.read_metadata(tmp_path / "in.parquet")
        assert cli._pieces(metadata, "a.b") == [[0, 1, 2, 3]], "the struct's field is much larger"
        run_ok(*command, "-c", "a.b")
    assert cudf_fsst.load(tmp_path / "out.fsst").to_arrow().to_pylist() == table["a.b"].to_pylist()
    run_ok(*command, "-c", "a.b", "-c", "n.m")
    frame = cudf_fsst.load(tmp_path / "out.fsst")
    assert list(frame) == ["a.b", "n.m"]
    run_ok(*command, "-c", "a")
    assert cudf_fsst.load(tmp_path / "out.fsst").to_arrow()["a"].to_pylist() == inner
    assert "no column 'a.c'" in run_bad(*command, "-c", "a.c")


def test_frame_by_the_other_engine(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas stands for cuDF: its reader's frame is compressed into host memory."""
    monkeypatch.setattr("cudf_fsst.engine._gpu_engine", lambda: Engine(pd, "NVIDIA Test", on_gpu=True))
    for number, names in enumerate([(), ("-c", "number", "-c", "text")]):
        shown = run_ok("compress", parquet, *names, "-o", tmp_path / f"{number}.fsst", "--codec", "number=raw")
        assert "on NVIDIA Test" in shown
        frame = cudf_fsst.load(tmp_path / f"{number}.fsst")
        assert frame.codecs.to_dict() == {"text": "fsst", "number": "raw"}
        pd.testing.assert_frame_equal(frame.decompress(), pd.read_parquet(parquet))


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
    assert re.search(r"format version +2\b", shown)
    assert re.search(r"rows +10,000\b", shown)
    assert re.search(r" n +int64 +bitpack +0 +80,000 +[\d,]+ +[\d.]+ ", shown)
    assert re.search(r" \[red\]s +str +fsst +5,000 ", shown)
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
        (["-c", "text", "-c", "odd"], "column 'odd': Arrow type fixed_size_binary[1] cannot be compressed"),
        ([], "column 'odd': Arrow type fixed_size_binary[1] cannot be compressed"),
        (["-c", "text", "-c", "number", "--codec", "odd=raw"], "codecs names a column .* does not have: 'odd'"),
        (["-c", "text", "-c", "number", "--codec", "number=zstd"], "codec of column 'number' must be one of .* 'zstd'"),
        (["-c", "text", "-c", "number", "--codec", "number=fsst"], "column 'number': codec 'fsst' takes strings, not "),
        (["--codec", "raw"], "--codec must be NAME=CODEC, not 'raw'"),
        (["-c", "text", "--codec", "text=fsst"], "--codec is for frames"),
        (["--level", "best"], "level must be one of"),
    ],
)
def test_frame_mistakes(tmp_path: Path, arguments: list[str], message: str) -> None:
    odd = pa.array([b"a"], pa.binary(1))
    pq.write_table(pa.table({"text": ["a"], "number": [1], "odd": odd}), tmp_path / "in.parquet")
    line = run_bad("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame.fsst", "--device", "cpu", *arguments)
    assert re.search(message.replace("[1]", r"\[1\]"), line)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet"}


def test_frame_output_is_kept(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed, restored = tmp_path / "frame.fsst", tmp_path / "out.parquet"
    for output in (compressed, restored):
        output.write_text("precious")
    assert "exists" in run_bad("compress", parquet, "-o", compressed, "--device", "cpu")
    assert compressed.read_text() == "precious"
    run_ok("compress", parquet, "-o", compressed, "--device", "cpu", "--force")
    assert "exists" in run_bad("decompress", compressed, "-o", restored)

    def full(_table: object, file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
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
        assert "damaged.fsst" in run_bad("inspect", tmp_path / "damaged.fsst")
    assert not (tmp_path / "out.parquet").exists()


# Autotune


class FastGpu:
    """Stands for the GPU under `autotune`: kernels take a time that the choices alone decide."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried: list[Choices] = []
        self._current = tuning.DEFAULT
        names = ("device.memory", "codecs.fsst.cuda_kernels", "device.timing")
        memory, kernels, timing = (ModuleType(f"cudf_fsst.{name}") for name in names)
        memory.gpu_model = lambda: "NVIDIA Test sm_90"
        memory.free_memory = lambda: 2**31
        memory.device_attributes = lambda: {"shared_per_block": 232448}
        kernels.trying = self._trying
        timing.median_span = self._median_span
        for made in (memory, kernels, timing):
            monkeypatch.setitem(sys.modules, made.__name__, made)
        monkeypatch.setattr("cudf_fsst.engine._gpu_engine", lambda: Engine(pd, "NVIDIA Test", on_gpu=False))

    @contextlib.contextmanager
    def _trying(self, choices: Choices) -> Iterator[None]:
        before, self._current = self._current, choices
        yield
        self._current = before

    def _median_span(self, _call: object, prefix: str, _repeat: int) -> float:
        self.tried.append(self._current)
        if prefix == "fsst_decode":
            return 2.0 + abs((self._current.decode_warps or 8) - 5) + abs(self._current.decode_capacity - 1.0)
        return 10.0 if self._current == tuning.DEFAULT else 9.95  # not worth a change


@pytest.fixture
def fast_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FastGpu:
    monkeypatch.setenv(tuning.CACHE_VARIABLE, str(tmp_path / "cache"))
    return FastGpu(monkeypatch)


BEST = {256: replace(tuning.DEFAULT, decode_warps=5, decode_capacity=1.0)}


def test_autotune(fast_gpu: FastGpu, parquet: Path) -> None:
    gpu = "NVIDIA Test sm_90"
    shown = run_ok("autotune", "--megabytes", 16, "--dry-run")
    assert "Nothing was kept" in shown
    assert tuning.load(gpu) == {}
    tuning.save(gpu, {128: Choices(3)}, {})
    shown = run_ok("autotune", "--megabytes", 16)
    assert str(tuning.path(gpu)) in shown
    assert re.search(r"256 +compress\(\) +the default .* \+0.0%", shown)
    assert re.search(r"256 +decompress\(\) +5 warps a block, codes x 1 .* \+158.3%", shown)
    assert tuning.load(gpu) == {128: Choices(3)} | BEST, "other tile sizes stay"
    assert len(set(fast_gpu.tried)) > 50

    run_ok("autotune", "--megabytes", 16, "--tile-size", 512, "--file", parquet, "--column", "text")
    assert set(tuning.load(gpu)) == {128, 256, 512}
    assert "would be removed" in run_ok("autotune", "--reset", "--dry-run")
    assert "removed" in run_ok("autotune", "--reset")
    assert "nothing to forget" in run_ok("autotune", "--reset")
    assert tuning.load(gpu) == {}


def test_autotunes_parquet_errors_name_the_file(fast_gpu: FastGpu, tmp_path: Path) -> None:
    for file in parquet_files_that_cannot_be_read(tmp_path):
        assert str(file) in run_bad("autotune", "--file", file, "--column", "l_comment")


def test_autotune_mistakes(fast_gpu: FastGpu, parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "go together" in run_bad("autotune", "--file", parquet)
    assert "one of (128" in run_bad("autotune", "--tile-size", 100)
    assert "not a string" in run_bad("autotune", "--file", parquet, "--column", "number")
    pq.write_table(pa.table({"text": pa.array([None, ""])}), parquet)
    assert "no characters" in run_bad("autotune", "--file", parquet, "--column", "text")

    def fail() -> Engine:
        raise RuntimeError("no CUDA-capable device is detected")

    monkeypatch.setattr("cudf_fsst.engine._gpu_engine", fail)
    assert "no usable GPU: no CUDA-capable device" in run_bad("autotune")


@pytest.mark.gpu
@pytest.mark.slow
def test_autotune_on_the_gpu(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices found here are read by the next process, which stores the same bytes."""
    monkeypatch.setenv(tuning.CACHE_VARIABLE, str(tmp_path / "cache"))
    shown = run_ok("autotune", "--megabytes", 32)
    (entry,) = (tmp_path / "cache").iterdir()
    assert entry.name in shown
    code = """
import logging, sys
import cudf, cudf_fsst
from cudf_fsst.codecs.fsst import cuda_kernels, tuning
from cudf_fsst.device.memory import gpu_model
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
print(bool(tuning.load(gpu_model())))
series = cudf.read_parquet(sys.argv[1], columns=["text"])["text"]
column = series.fsst.compress()
assert column.decompress().equals(series)
column.save(sys.argv[2])
"""

    def stored(name: str) -> tuple[bytes, str]:
        result = subprocess.run(
            [sys.executable, "-c", code, parquet, tmp_path / name], capture_output=True, text=True, check=True
        )
        return (tmp_path / name).read_bytes(), result.stdout

    tuned, said = stored("tuned")
    assert said == "True\n"
    known = tuning.load(entry_gpu := json.loads(entry.read_text())["gpu"])
    tuning.save(entry_gpu, dict.fromkeys(known, Choices(1, 0.125, 1, 0.25)), {})
    odd, said = stored("odd")
    assert said == "True\n"
    entry.write_text(entry.read_text()[:-30])
    damaged, said = stored("damaged")
    assert said.startswith("WARNING:cudf_fsst:ignored ")
    assert tuned == odd == damaged


# Mistakes


def test_existing_output_is_kept(parquet: Path, tmp_path: Path) -> None:
    compressed, restored = tmp_path / "text.fsst", tmp_path / "out.parquet"
    for output in (compressed, restored):
        output.write_text("precious")
    assert "exists" in run_bad("compress", parquet, "--column", "text", "-o", compressed, "--device", "cpu")
    assert compressed.read_text() == "precious"
    run_ok("compress", parquet, "--column", "text", "-o", compressed, "--device", "cpu", "--force")
    assert "exists" in run_bad("decompress", compressed, "-o", restored)
    assert restored.read_text() == "precious"
    run_ok("decompress", compressed, "-o", restored, "--force")
    assert pq.read_table(restored)["text"].to_pylist() == VALUES


def test_outputs_keep_permissions_and_links(parquet: Path, tmp_path: Path) -> None:
    """One rule for all that is written: columns, frames, Parquet files of either."""
    for kind, arguments in (("column", ("-c", "text")), ("frame", ())):
        compressed, restored = tmp_path / f"{kind}.fsst", tmp_path / f"{kind}.parquet"
        for command, made in (
            (("compress", parquet, *arguments, "--device", "cpu"), compressed),
            (("decompress", compressed), restored),
        ):
            run_ok(*command, "-o", made)
            assert stat.S_IMODE(made.stat().st_mode) == stat.S_IMODE(parquet.stat().st_mode)
            whole = made.read_bytes()
            made.write_text("precious")
            made.chmod(0o600)
            link = tmp_path / "link"
            link.symlink_to(made)
            assert "exists" in run_bad(*command, "-o", link)
            assert made.read_text() == "precious"
            run_ok(*command, "-o", link, "--force")
            assert link.is_symlink()
            assert made.read_bytes() == whole
            assert stat.S_IMODE(made.stat().st_mode) == 0o600
            link.unlink()
    wanted = {"in.parquet", "column.fsst", "column.parquet", "frame.fsst", "frame.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == wanted


@pytest.mark.parametrize("command", ["compress", "decompress"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_leaves_no_unfinished_file(command: str, number: int, parquet: Path, tmp_path: Path) -> None:
    """Sent while the file is written, where a slow disk stands still for this test."""
    compressed = tmp_path / "text.fsst"
    run_ok("compress", parquet, "-c", "text", "-o", compressed, "--device", "cpu")
    (tmp_path / "output").write_text("precious")
    file = parquet if command == "compress" else compressed
    options = ["-c", "text", "--device", "cpu"] if command == "compress" else []
    code = """
import os, sys, time
from cudf_fsst import cli, demo
def slow(_):
    print("writing", flush=True)
    time.sleep(60)
os.fsync = slow
sys.argv[0] = "cudf-fsst"
cli.main()
"""
    arguments = [command, str(file), *options, "-o", str(tmp_path / "output"), "--force"]
    package = {**os.environ, "PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=package
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        assert any(path.name.startswith(".cudf-fsst-") for path in tmp_path.iterdir())
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert said == b""
    assert (tmp_path / "output").read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "text.fsst", "output"}


def test_output_is_never_the_input(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    for command, file in (("compress", parquet), ("decompress", tmp_path / "text.fsst")):
        before = file.read_bytes()
        (tmp_path / f"{command}.soft").symlink_to(file)
        (tmp_path / f"{command}.hard").hardlink_to(file)
        for output in (file, tmp_path / f"{command}.soft", tmp_path / f"{command}.hard"):
            column = ("-c", "text") if command == "compress" else ()
            for force in ((), ("--force",)):
                assert "is the input too" in run_bad(command, file, *column, "-o", output, *force)
        assert file.read_bytes() == before


def test_two_columns_of_one_name(parquet: Path, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), parquet)
    message = run_bad("compress", parquet, "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    assert message == "error: the file has 2 columns named 'text'; rename all but one"


def test_wrong_column(parquet: Path, tmp_path: Path) -> None:
    line = run_bad("compress", parquet, "--column", "[red]nothing", "-o", tmp_path / "text.fsst")
    assert line == "error: no column '[red]nothing'; columns: text, number"
    assert not (tmp_path / "text.fsst").exists()


def test_wrong_files(parquet: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    missing = tmp_path / "missing"
    assert "missing" in run_bad("compress", missing, "--column", "text", "-o", output)
    assert "missing" in run_bad("decompress", missing, "-o", output)
    assert "missing" in run_bad("inspect", missing)
    assert "no folder" in run_bad("compress", parquet, "--column", "text", "-o", missing / "text.fsst")
    assert "is a folder" in run_bad("compress", parquet, "--column", "text", "-o", tmp_path)
    run_bad("decompress", parquet, "-o", output)
    run_bad("inspect", parquet)
    text = tmp_path / "text"
    text.write_text("not Parquet")
    run_bad("compress", text, "--column", "text", "-o", output)
    assert not output.exists()


def parquet_files_that_cannot_be_read(folder: Path) -> list[Path]:
    whole = folder / "whole.parquet"
    pq.write_table(pa.table({"l_comment": ["a text, and another"] * 1000, "number": range(1000)}), whole)
    content = whole.read_bytes()
    whole.unlink()
    files = {
        "empty": b"",
        "text": b"not Parquet at all",
        "cut": content[:-20],
        "pages": content[:4] + bytes(len(content) // 4) + content[4 + len(content) // 4 :],
        "schema": content[:-100] + b"\xff" * 60 + content[-40:],
    }
    for name, damaged in files.items():
        (folder / name).write_bytes(damaged)
    (folder / "folder").mkdir()
    return [folder / name for name in (*files, "folder", "missing")]


@pytest.mark.parametrize("columns", [(), ("-c", "l_comment"), ("-c", "number")], ids=str)
def test_parquet_errors_name_the_file(columns: tuple[str, ...], tmp_path: Path) -> None:
    for file in parquet_files_that_cannot_be_read(tmp_path):
        line = run_bad("compress", file, *columns, "-o", tmp_path / "out.fsst", "--device", "cpu")
        assert str(file) in line
    assert not (tmp_path / "out.fsst").exists()


def test_demos_parquet_errors_name_the_file(tmp_path: Path) -> None:
    made = tmp_path / "data" / "tpch-sf0.001" / "lineitem.parquet"
    made.parent.mkdir(parents=True)
    for file in parquet_files_that_cannot_be_read(tmp_path):
        if file.is_file():
            file.rename(made)
            options = ("--scale", 0.001, "--device", "cpu", "--data", tmp_path / "data", "--column", "l_comment")
            assert str(made) in run_bad("demo", *options)


def test_damaged_file(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    whole = (tmp_path / "text.fsst").read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], whole[: len(whole) // 2] + b"\xff" + whole[len(whole) // 2 + 1 :]):
        (tmp_path / "damaged.fsst").write_bytes(damaged)
        run_bad("decompress", tmp_path / "damaged.fsst", "-o", tmp_path / "out.parquet")
        run_bad("inspect", tmp_path / "damaged.fsst")
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "text.fsst", "damaged.fsst"}


def test_gpu_asked_for_where_there_is_none(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Engine:
        raise ImportError("no cuDF here; install it with: pip install 'cudf-fsst[cuda12]'")

    monkeypatch.setattr("cudf_fsst.engine._gpu_engine", fail)
    line = run_bad("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "gpu")
    assert "cudf-fsst[cuda12]" in line
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "auto")
