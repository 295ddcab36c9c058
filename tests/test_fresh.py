"""What the package reads in a process that has made nothing yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
import fresh

KINDS: dict[str, pd.Index] = {
    "periods": pd.period_range("2020", periods=3, freq="M"),
    "intervals": pd.interval_range(0, 3),
    "intervals of times": pd.interval_range(pd.Timestamp("2020", tz="Europe/Paris"), periods=3, closed="both"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_pandas_registers_late(kind: str, tmp_path: Path) -> None:
    values = KINDS[kind]
    levels = pd.MultiIndex.from_arrays([values, [1, 2, 3], values], names=["a", None, "c"])
    for index in (pd.RangeIndex(3), values, levels):
        data = pd.DataFrame({"a": values, "b": ["x", None, "z"]}, index=index)
        data.fsst.compress().save(tmp_path / "frame")
        fresh.same_frame(tmp_path / "frame", data)
        data["b"].fsst.compress().save(tmp_path / "column")
        fresh.same_series(tmp_path / "column", data["b"])


@pytest.mark.parametrize(
    ("values", "kind"), [(["1", None], pa.json_()), ([True, None], pa.bool8())], ids=["json", "bool8"]
)
def test_types_of_arrow_itself(values: list[Any], kind: Any, tmp_path: Path) -> None:
    storage = pa.array(values, kind.storage_type) if kind == pa.json_() else pa.array([1, None], pa.int8())
    column = pa.chunked_array([pa.ExtensionArray.from_storage(kind, storage)])
    data = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(column)})
    data.fsst.compress().save(tmp_path / "frame")
    fresh.same_frame(tmp_path / "frame", data)


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    """Each command in a process of its own: into a file, out of it, and what it says of it."""
    data = pd.DataFrame({"month": KINDS["periods"], "bin": KINDS["intervals"]}, index=KINDS["periods"])
    data.to_parquet(tmp_path / "in.parquet")

    def run(*arguments: Any) -> str:
        command = [sys.executable, "-c", "from cudf_fsst.cli import app; app()", *map(str, arguments)]
        folder = Path(cudf_fsst.__file__).parents[1]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout

    run("compress", tmp_path / "in.parquet", "-o", tmp_path / "frame", "--device", "cpu")
    said = run("inspect", tmp_path / "frame")
    assert "period[M]" in said
    assert "interval[int64, right]" in said
    run("decompress", tmp_path / "frame", "-o", tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), data, check_freq=False)
    assert pq.read_schema(tmp_path / "out.parquet") == pq.read_schema(tmp_path / "in.parquet")
