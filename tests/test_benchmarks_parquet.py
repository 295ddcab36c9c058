"""What of bench_parquet.py runs without a GPU; pandas stands for cuDF."""

from __future__ import annotations

import argparse
import importlib
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst

MACHINE = {"gpu": "Some GPU", "driver": "1"}
RUN = {"date": "2026-01-02", "command": "python bench_parquet.py"}


def limited(call: Callable[[], Any], limit: int) -> float:
    call()
    return 0.5 if limit > 1000 else 0.0


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parent.parent / "benchmarks")
    return importlib.import_module("bench_parquet")


@pytest.fixture
def lineitem(tmp_path: Path) -> Path:
    rows = 2000
    table = pa.table({"l_orderkey": np.arange(rows), "l_comment": [f"a special one {i % 9}" for i in range(rows)]})
    pq.write_table(table, tmp_path / "lineitem.parquet", row_group_size=700)
    return tmp_path / "lineitem.parquet"


def measured(bench: Any, path: Path, out: Path, read: Callable[[Path], Any], **more: Any) -> dict[str, Any]:
    def clock(call: Callable[[], Any], repeat: int) -> float:
        call()
        return 0.001

    ours = partial(cudf_fsst.read_parquet, device="cpu")

    def rewrite(path: Path, to: Path, rows: int) -> None:
        pq.write_table(pq.read_table(path), to, row_group_size=rows)

    tools = bench.Tools(read, ours, clock, lambda call: len(call()), limited, rewrite, 2)
    file = importlib.import_module("records").ResultsFile(out, MACHINE, **RUN)
    given = {"deadline": math.inf, "scale": 10, "missing": False, "limit": 10**9, "sf100_limit": 10**9, **more}
    given.setdefault("parts", list(bench.USUAL))
    assert bench.run(path, tools, file, argparse.Namespace(**given), lambda: True) == 0
    return json.loads(out.read_text())


def test_both_are_measured(bench: Any, lineitem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "MILLION", 1000)
    content = measured(bench, lineitem, tmp_path / "parquet.json", pd.read_parquet)
    assert not [part for part in content["parts"].values() if "failed" in part], content["parts"]
    found = {(one["dataset"], one["codec"], one["measure"]): one for one in content["records"]}
    for codec in ("cudf_fsst", "cudf"):
        for measure in ("read_parquet_gbps", "peak_bytes", "result_bytes", "limited_read_seconds"):
            assert ("tpch.lineitem.sf10", codec, measure) in found
    one = found["tpch.lineitem.sf10", "cudf_fsst", "read_parquet_gbps"]
    assert (one["rows"], one["row_groups"], one["part"]) == (2000, 3, "read:tpch.lineitem.sf10")
    assert one["value"] == pytest.approx(one["bytes"] / 1e6)
    larger = found["tpch.lineitem.sf10.groups1m", "cudf_fsst", "read_parquet_gbps"]
    assert (larger["rows"], larger["row_groups"]) == (2000, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"lineitem.parquet", "parquet.json"}
    assert {codec for _, codec, _ in found} == {"cudf_fsst", "cudf", "cudf_fsst.cpu", "pyarrow"}


def test_a_table_that_the_gpu_has_no_room_for(
    bench: Any, lineitem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are made when they are not there."""
    commands = []

    def generate(command: list[str], check: bool) -> None:
        commands.append(command)
        folder = tmp_path / "sf100" / "lineitem"
        folder.mkdir(parents=True)
        for part in (1, 2):
            pq.write_table(pq.read_table(lineitem), folder / f"lineitem.{part}.parquet")

    monkeypatch.setattr(bench.subprocess, "run", generate)
    for _ in range(2):
        content = measured(bench, lineitem, tmp_path / "parquet.json", pd.read_parquet, parts=["sf100"])
        assert not [part for part in content["parts"].values() if "failed" in part], content["parts"]
        assert {(one["dataset"], one["rows"]) for one in content["records"]} == {("tpch.lineitem.sf100", 4000)}
        found = {(one["codec"], one["measure"]): one["value"] for one in content["records"]}
        times = [(codec, f"limited_{what}_seconds") for codec in ("cudf_fsst", "cudf") for what in ("read", "query")]
        sizes = [("cudf_fsst", "result_bytes"), ("cudf_fsst", "peak_bytes")]
        assert set(found) == {*times, *sizes}
        assert {found[one] for one in times} == {0.5}
    (command,) = commands
    assert command[command.index("-o") + 1] == str(tmp_path / "sf100")


def test_wrong_values_are_not_timed(bench: Any, lineitem: Path, tmp_path: Path) -> None:
    def wrong(path: Path) -> pd.DataFrame:
        return pd.read_parquet(path).assign(l_orderkey=1)

    content = measured(bench, lineitem, tmp_path / "parquet.json", wrong, parts=["read"])
    (part,) = content["parts"].values()
    assert "'l_orderkey' was not read as it is" in part["failed"][0]
    assert not content["records"]
