"""The command line's one-line errors, and what it leaves on disk."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cli_cases import parquet_files_that_cannot_be_read, run_bad, run_ok
from column_cases import VALUES


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


@pytest.mark.sampled(1)
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
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
from cudf_fsst import cli
from cudf_fsst.cli import demo
def slow(*_):
    print("writing", flush=True)
    time.sleep(900)
os.replace = slow  # what makes the file complete
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
        _, said = process.communicate(timeout=300)
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


@pytest.mark.parametrize("columns", [(), ("-c", "l_comment"), ("-c", "number")], ids=str)
def test_parquet_errors_name_the_file(columns: tuple[str, ...], tmp_path: Path) -> None:
    for file in parquet_files_that_cannot_be_read(tmp_path):
        line = run_bad("compress", file, *columns, "-o", tmp_path / "out.fsst", "--device", "cpu")
        assert str(file) in line
    assert not (tmp_path / "out.fsst").exists()


def test_damaged_file(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    whole = (tmp_path / "text.fsst").read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], whole[: len(whole) // 2] + b"\xff" + whole[len(whole) // 2 + 1 :]):
        (tmp_path / "damaged.fsst").write_bytes(damaged)
        run_bad("decompress", tmp_path / "damaged.fsst", "-o", tmp_path / "out.parquet")
        run_bad("inspect", tmp_path / "damaged.fsst", "--check")
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "text.fsst", "damaged.fsst"}


def test_gpu_asked_for_where_there_is_none(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("no cuDF here; install it with: pip install 'cudf-fsst[cuda12]'")

    monkeypatch.setattr("cudf_fsst.interop.cudf.cudf_module", fail)
    line = run_bad("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "gpu")
    assert "cudf-fsst[cuda12]" in line
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "auto")
