"""What the tests of the command line share: how it is run, and files that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from cudf_fsst import cli


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
