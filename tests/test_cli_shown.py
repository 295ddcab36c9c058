"""What the command line shows: tables, names and progress."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli_cases import run_bad, run_ok
from cudf_fsst import batches, cli, progress
from cudf_fsst.cli import demo, terminal
from cudf_fsst.parquet import sources


def test_tables_fit_into_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cutting a number short."""
    text = io.StringIO()
    monkeypatch.setattr(terminal, "out", Console(width=80, file=text, markup=False, emoji=False))
    rows = 59_999_989
    size = rows * 13
    big = demo.Report("l_shipinstruct", rows, size, size, size // 8, 17.996, 0.00099, 0.00076, 1000, 0.1234)
    monkeypatch.setattr(demo, "make_table", lambda *_: tmp_path)
    monkeypatch.setattr(demo, "run_column", lambda *_: big)
    run_ok("demo", "--device", "cpu")
    pd.DataFrame({"number": range(300_000), "text": "x" * 200}).to_parquet(tmp_path / "in.parquet")
    for options in ((), ("-c", "text")):
        run_ok("compress", tmp_path / "in.parquet", "-o", tmp_path / "out.fsst", "--force", "--device", "cpu", *options)
        run_ok("inspect", tmp_path / "out.fsst")
    shown = text.getvalue()
    numbers = ("59,999,989", "780 MB", "97.5 MB", "18.00", "788", "1,026", "123.40")
    assert all(number in shown for number in numbers)
    assert "Too small" not in shown
    assert "60,000,000" in shown
    assert "…" not in shown


def test_paragraphs_of_the_help_are_wrapped_anew() -> None:
    shown = CliRunner().invoke(cli.app, ["compress", "--help"], env={"COLUMNS": "80"}).stdout
    assert "The file is read in pieces, so it need not fit into memory uncompressed. Its" in shown


#: A colour, a title of the terminal, a bell, an 8-bit escape, markup, an emoji's name, text from right to left.
HOSTILE = "\x1b[31m\x1b]0;title\x07\x9b1m[bold]b[/bold][/x]:cat:\u202e\\"


SHOWN = "\\x1b[31m\\x1b]0;title\\x07\\x9b1m[bold]b[/bold][/x]:cat:\\u202e\\"


def plain(shown: str) -> str:
    """What a command showed, which must be safe to print, without the spaces and ends of lines that tables put in."""
    assert all(char.isprintable() or char == "\n" for char in shown), ascii(shown)
    return re.sub(r"\s+", "", shown)


def test_names_from_files_are_shown_without_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.out, "width", 300)
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


def progress_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What a terminal was sent, without Rich's own escapes (colours, the cursor)."""
    sent = io.StringIO()
    terminal = Console(file=sent, force_terminal=True, width=150, markup=False, emoji=False)
    monkeypatch.setattr(progress, "console", lambda: terminal)
    return lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.getvalue())


@pytest.mark.parametrize(("rows", "counted"), [(1000, False), (90, True)], ids=["one piece", "pieces"])
def test_progress_stands_at_no_0_of_1(
    rows: int, counted: bool, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one piece nothing is known until it is done: the bar moves, and nothing is counted."""
    pq.write_table(pq.read_table(parquet), parquet, row_group_size=rows)
    shown = progress_of(monkeypatch)
    monkeypatch.setattr(batches, "PIECE_NBYTES", 10**9 if rows == 1000 else 10_000)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 90)
    monkeypatch.setattr(sources, "_FEW_ROWS", 90)
    run_ok("compress", parquet, "-c", "text", "-o", tmp_path / "c.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "c.fsst", "-o", tmp_path / "out.parquet")
    assert "reading Parquet" in shown()
    assert "writing Parquet" in shown()
    assert len(re.findall(r"\b0/4\b", shown())) == (2 if counted else 0)
    assert not re.search(r"\b0/(1|\?)", shown())
