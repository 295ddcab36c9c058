"""The part of `benchmarks/bench_io.py` that needs no GPU, on few rows."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

BENCH = Path(__file__).parents[1] / "benchmarks"
PACKAGES = """Package: one
Version: 1.0
Description: the first
 which has two lines

Package: two
Version: 2.0
Depends: one (>= 1.0)
"""


def test_sizes_with_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = pd.DataFrame({"o_orderkey": range(3000), "o_clerk": [f"Clerk#{i % 100:09}" for i in range(3000)]})
    orders.to_parquet(tmp_path / "orders.parquet")
    with pa.output_stream(str(tmp_path / "list.lz4"), compression="lz4") as file:
        file.write(PACKAGES.encode())
    monkeypatch.syspath_prepend(str(BENCH))
    module = runpy.run_path(str(BENCH / "bench_io.py"), run_name="bench_io")
    found = module["packages"](tmp_path / "list.lz4")
    assert found["Package"].tolist() == ["one", "two"]
    assert found["Description"][0] == "the first\nwhich has two lines"
    monkeypatch.setitem(module["lines_of_source"].__globals__, "LINES", 2000)
    out = tmp_path / "io.json"
    arguments = ["--tpch", tmp_path, "--parts", "zstd", "--packages", tmp_path / "list.lz4", "--out", out]
    monkeypatch.setattr(sys, "argv", ["bench_io.py", *map(str, arguments)])
    module["main"]()
    records = json.loads(out.read_text())["records"]
    ratios = {one["dataset"]: one["value"] for one in records if one["measure"] == "zstd_ratio"}
    assert ratios.keys() == {"debian.packages", "source.lines", "tpch.orders"}
    sizes = {one["codec"]: one["value"] for one in records if one["dataset"] == "source.lines" and one["unit"] == "MB"}
    assert sizes["cudf_fsst.zstd"] < sizes["cudf_fsst"]


def test_pages_show_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    page = runpy.run_path(str(BENCH / "io_page.py"), run_name="io_page")
    results = page["Results"](json.loads((BENCH / "results" / "io.json").read_text()))
    for name in page["PAGES"]:
        text = (BENCH.parent / "docs" / f"{name}.md").read_text()
        assert page["filled"](text, results) == text, "python benchmarks/io_page.py"
        assert text.count("by benchmarks/io_page.py") >= 1
