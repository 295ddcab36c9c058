"""The queries of TPC-H as peers have them, on compressed frames: the answers are the engines' own on Parquet."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cudf_fsst

ROOT = Path(__file__).resolve().parent.parent
SCALE_FACTOR = 0.05
#: Sums of floats, which are added in another order where the pieces are cut otherwise.
FLOATS = 1e-9

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def pdsh() -> Iterator[ModuleType]:
    """What takes the queries out of the wheel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("pdsh")


@pytest.fixture(scope="module")
def queries(pdsh: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of the wheel, which is downloaded if it is not there yet."""
    given = os.environ.get(pdsh.VARIABLE)
    if given:
        return pdsh.load(Path(given))
    try:
        return pdsh.load(pdsh.download(tmp_path_factory.mktemp("wheel")))
    except subprocess.CalledProcessError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no wheel of {pdsh.REQUIREMENT} can be downloaded, and {pdsh.VARIABLE} names none")


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of TPC-H, as Parquet."""
    folder = tmp_path_factory.mktemp("tpch")
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    assert program, "tpchgen-cli is missing"
    subprocess.run([program, "parquet", "-s", str(SCALE_FACTOR), "-o", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def frames(pdsh: ModuleType, tpch: Path) -> dict[str, Any]:
    return {name: cudf_fsst.read_parquet(tpch / f"{name}.parquet", device="cpu") for name in pdsh.TABLES}


def test_the_module_leaves_nothing_behind(pdsh: ModuleType, queries: ModuleType) -> None:
    """It sets variables of the environment, and finds no cudf-polars."""
    assert queries.QueryResult is pdsh.QueryResult
    assert "RAPIDSMPF_NUM_STREAMING_THREADS" not in os.environ


@pytest.mark.sampled(7)
@pytest.mark.parametrize("number", range(1, 23))
def test_polars(number: int, pdsh: ModuleType, queries: ModuleType, frames: dict[str, Any], tpch: Path) -> None:
    found = pdsh.query(queries, number, lambda name: frames[name].lazy(), SCALE_FACTOR).collect()
    wanted = pdsh.query(queries, number, lambda name: pl.scan_parquet(tpch / f"{name}.parquet"), SCALE_FACTOR).collect()
    assert wanted.height
    from polars.testing import assert_frame_equal

    assert_frame_equal(found, wanted, rel_tol=FLOATS, abs_tol=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [1, 3, 6, 12, 14, 19])
def test_duckdb(number: int, pdsh: ModuleType, queries: ModuleType, frames: dict[str, Any], tpch: Path) -> None:
    text, answers = pdsh.sql(queries, number, SCALE_FACTOR), []
    for way in ("dataset", "parquet"):
        with duckdb.connect() as connection:
            for name in pdsh.TABLES:
                if way == "dataset":
                    connection.register(name, frames[name].dataset())
                else:
                    connection.execute(f"create view {name} as from read_parquet('{tpch / name}.parquet')")
            answers.append(connection.execute(text).fetchall())
    found, wanted = answers
    assert wanted
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert list(map(type, one)) == list(map(type, other))
        for a, b in zip(one, other, strict=True):
            assert a == (pytest.approx(b, rel=FLOATS) if isinstance(b, float) else b)


def test_benchmark(pdsh: ModuleType, queries: ModuleType, frames: dict[str, Any], tpch: Path, tmp_path: Path) -> None:
    """`bench_pdsh.py` with Polars' CPU engine; once with all queries asked, its mean stands for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        bench, records = importlib.import_module("bench_pdsh"), importlib.import_module("records")
    limits = []

    @contextmanager
    def limited(limit: int) -> Iterator[Any]:
        limits.append(limit)

        def collect(frame: Any) -> Any:
            if len(limits) == 2:
                raise MemoryError("out of memory")
            return frame.collect()

        yield collect

    ways = {
        bench.OURS: lambda name: frames[name].lazy(),
        bench.THEIRS: lambda name: pl.scan_parquet(tpch / f"{name}.parquet"),
    }
    tables = bench.Tables(ways, {bench.OURS: 100, bench.THEIRS: 0}, 1000)

    def peak(call: Any) -> int:
        call()
        return 7

    tools = bench.Tools(lambda frame: frame.collect(), peak, limited, 3)
    file = records.ResultsFile(tmp_path / "pdsh.json", {"gpu": "none"}, "2026-01-02", "python bench_pdsh.py")
    options = argparse.Namespace(queries=[6, 14], scale=SCALE_FACTOR, no_limit=False, missing=False, deadline=math.inf)
    assert bench.run(queries, tables, tools, file, options, lambda: True) == 0
    content = json.loads(file.path.read_text())
    assert not [part for part in content["parts"].values() if "failed" in part], content["parts"]
    found = {(one["codec"], one.get("query"), one["measure"]): one["value"] for one in content["records"]}
    assert found[bench.OURS, "q6", "peak_bytes"] == 107
    assert found["arrow", "q14", "plain_bytes"] == 1000
    assert found[bench.OURS, "q6", "limited_seconds"] > 0 == found[bench.THEIRS, "q6", "limited_seconds"]
    assert limits == [650, 750]
    assert not [one for one in content["records"] if one["measure"] == "geomean_seconds"]
    seconds = [{"codec": codec, "measure": "seconds", "value": value} for codec in ways for value in [1.0, 4.0] * 11]
    assert [record["value"] for _, record in bench.geomean(seconds)] == [pytest.approx(2.0)] * 2
    with pytest.raises(AssertionError):
        bench.check(pl.DataFrame({"a": [1.0]}), pl.DataFrame({"a": [1.1]}))
