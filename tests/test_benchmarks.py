"""What of the benchmarks runs without a GPU: parts and their file, generated columns, reading Nsight Compute."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst

ROOT = Path(__file__).resolve().parent.parent
MACHINE = {"gpu": "Some GPU", "driver": "1"}
RUN = {"date": "2026-01-02", "command": "python compare.py"}


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        names = ("bench_dictionaries", "bench_latency", "compare", "datasets", "measured", "profile_kernels", "records")
        yield {name: importlib.import_module(name) for name in names}


def names_of(path: Path) -> set[str]:
    """What a module defines or imports, found without running it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {one.asname or one.name for one in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_what_they_use_of_ours_is_there(path: Path) -> None:
    """Most of them run on a GPU only."""
    tree = ast.parse(path.read_text())
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cudf_fsst"):
            place = ROOT.joinpath(*node.module.split("."))
            known = names_of(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"))
            for one in node.names:
                beside = place / f"{one.name}.py"
                if beside.exists():
                    modules[one.asname or one.name] = beside
                else:
                    assert one.name in known, f"{node.module} has no {one.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert node.attr in names_of(modules[node.value.id]), ast.unparse(node)


def record(**more: Any) -> dict[str, Any]:
    return {"codec": "c", "measure": "m", "value": 1.0, **more}


def test_a_part_replaces_its_records_and_no_others(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    results_file = modules["records"].ResultsFile
    file = results_file(path, MACHINE, **RUN)
    file.replace("a:1", [record(value=1.0)], 2.0, [])
    file.replace("b:1", [record(value=2.0)], 3.0, ["b broke"])
    file = results_file(path, MACHINE | {"driver": "2"}, "2026-01-03", "python compare.py --missing")
    assert [file.missing(part) for part in ("a:1", "b:1", "c:1")] == [False, False, True]
    assert [file.seconds(kind) for kind in ("a", "b", "c")] == [2.0, 3.0, 0.0]
    file.replace("a:1", [record(value=3.0), record(value=4.0)], 1.0, [])
    content = json.loads(path.read_text())
    assert [(one["part"], one["value"]) for one in content["records"]] == [("a:1", 3.0), ("a:1", 4.0), ("b:1", 2.0)]
    assert content["parts"]["a:1"]["machine"] == {"driver": "2"}
    assert content["parts"]["b:1"]["failed"] == ["b broke"]
    assert content["machine"] == MACHINE
    assert content["date"] == "2026-01-03"
    assert content["command"] == "python compare.py --missing; python compare.py"
    assert [one.name for one in tmp_path.iterdir()] == ["compare.json"]


def test_results_of_several_gpus_are_not_mixed(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    results_file = modules["records"].ResultsFile
    results_file(tmp_path / "compare.json", MACHINE, **RUN).replace("a:1", [], 1.0, [])
    with pytest.raises(ValueError, match="results of Some GPU, this is Other"):
        results_file(tmp_path / "compare.json", MACHINE | {"gpu": "Other"}, **RUN)


def test_order_of_parts(modules: dict[str, ModuleType]) -> None:
    """All of the compared column comes first, and nothing is measured on a dataset that is not asked for."""
    compare, main = modules["compare"], modules["measured"].DATASET
    ordered = compare.parts(["tpch.o_comment.sf10", main, "generated.log_lines"], list(compare.KINDS))
    assert ordered[0] == "copy:none"
    assert ordered[1 : len(compare.KINDS)] == [f"{kind}:{main}" for kind in compare.KINDS if kind != "copy"]
    assert ordered[len(compare.KINDS) :][:2] == ["ours:tpch.o_comment.sf10", "ours:generated.log_lines"]
    assert "tile:generated.log_lines" in ordered
    assert "size:tpch.o_comment.sf10" not in ordered
    assert compare.parts(["dbtext.hex"], ["size", "cpu"]) == ["cpu:dbtext.hex"]


def options(**more: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"deadline": math.inf, "repeat": 7, **more})


def test_a_failure_is_written_down_and_the_rest_goes_on(
    modules: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(series: Any, options: Any, failed: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "c", {"measure": "m", "value": 12345.0, "bytes": 7, "chunk_bytes": 9}
        failed.append("a chunk size")
        raise RuntimeError("no more")

    def works(series: Any, options: Any, failed: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "c", {"measure": "m", "value": float(series), "level": "max"}

    file = modules["records"].ResultsFile(tmp_path / "compare.json", MACHINE, **RUN)
    found = {"ours": breaks, "cpu": works}
    run = modules["compare"].run
    assert run(["ours:d", "cpu:d"], lambda name: "7.5", found, file, options(), lambda: True) == 0
    content = json.loads(file.path.read_text())
    assert [one["value"] for one in content["records"]] == [12345.0, 7.5]
    assert content["records"][0]["level"] == "default"
    assert content["parts"]["ours:d"]["failed"] == ["a chunk size", "RuntimeError('no more')"]
    printed = capsys.readouterr().out
    assert "d c m 12,345 chunk_bytes=9\n" in printed
    assert "d c max m 7.5\n" in printed
    assert "FAILED ours:d: a chunk size" in printed
    # A dead context ends the run; what is there stays.
    assert run(["ours:d", "cpu:d"], lambda name: "8.5", found, file, options(), lambda: False) == 3
    assert [one["value"] for one in json.loads(file.path.read_text())["records"]] == [12345.0, 7.5]


def test_no_part_begins_that_would_end_too_late(
    modules: dict[str, ModuleType],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compare, now = modules["compare"], [0.0]
    monkeypatch.setattr(compare.time, "perf_counter", lambda: now[0])

    def takes(seconds: float) -> Any:
        def measure(series: Any, options: Any, failed: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
            now[0] += seconds
            yield "c", {"measure": "m", "value": 1.0}

        return measure

    file = modules["records"].ResultsFile(tmp_path / "compare.json", MACHINE, **RUN)
    found = {"ours": takes(40.0), "cpu": takes(15.0)}
    wanted = ["ours:a", "cpu:a", "ours:b", "ours:c", "cpu:b", "cpu:c"]
    compare.run(wanted, lambda name: None, found, file, options(deadline=100.0), lambda: True)
    assert list(file.content["parts"]) == ["ours:a", "cpu:a", "ours:b"]
    assert "no time for 3 parts, --missing measures them: ours:c cpu:b cpu:c" in capsys.readouterr().out


def test_best_chunk_is_that_of_all_three_figures(modules: dict[str, ModuleType]) -> None:
    rows = ((16, 2.0, 10.0, 50.0), (64, 2.2, 12.0, 45.0), (256, 2.3, 5.0, 60.0))
    names = ("ratio_column", "compress_call_gbps", "decompress_call_gbps")
    found = [
        record(chunk_bytes=chunk, measure=name, value=value)
        for chunk, *values in rows
        for name, value in zip((*names, "compress_peak_extra_bytes"), (*values, 1e9 / chunk), strict=True)
    ]
    assert modules["records"].best_chunk(found) == 64


def test_log_lines_are_the_same_everywhere(modules: dict[str, ModuleType]) -> None:
    lines = modules["datasets"].log_lines(5000)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "f923ba77543ae7a50a63d557ccc1bb7dddb49964f5a0751d7ed76f101d06ae3f"
    assert lines == sorted(lines, key=lambda line: line[:24])
    assert len(set(lines)) == len(lines)
    assert {line.split()[1] for line in lines} == {"INFO", "DEBUG", "WARN", "ERROR"}
    assert modules["datasets"].log_lines(10, seed=1) != lines[:10]


def test_random_rows(modules: dict[str, ModuleType]) -> None:
    chars, offsets = modules["datasets"].random_rows(1 << 20)
    again, _ = modules["datasets"].random_rows(1 << 20)
    assert np.array_equal(chars, again)
    assert offsets[0] == 0
    assert (1 << 20) - 112 <= offsets[-1] == chars.size <= 1 << 20
    lengths = np.diff(offsets)
    assert (lengths.min(), lengths.max()) == (16, 112)
    # As many of every byte as chance gives.
    assert abs(np.bincount(chars, minlength=256) - chars.size / 256).max() < 6 * math.sqrt(chars.size / 256)


def lineitem(rows: int) -> pd.DataFrame:
    """A small table with some of the columns of TPC-H's."""
    random = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "l_orderkey": np.arange(rows),
            "l_tax": random.integers(0, 9, rows) / 100,
            "l_shipdate": pd.Timestamp("1994") + pd.to_timedelta(random.integers(0, 900, rows), "D"),
            "l_comment": [f"the deposits of {number} sleep" for number in random.integers(0, 999, rows)],
        }
    )


def clock(call: Callable[[], Any], repeat: int, *, threads: bool = False) -> float:
    """Stands for both clocks: the call is made, and takes a millisecond."""
    call()
    assert repeat > 0
    return 0.001


FRAME_MEASURES = ("ratio", "compress_gbps", "decompress_gbps")
#: What is measured, by part.
LATENCY = {
    "frame16:tpch.lineitem.100k": [
        f"frame16_100k_{call}_ms" for call in ("compress", "decompress", "to_host", "to_cudf")
    ],
    "column:tpch.l_comment.sf10": [
        *(f"col_1mb_{call}_ms" for call in ("compress", "compress_given_table", "decompress")),
        *(f"col_100mb_{call}_ms" for call in ("compress", "decompress")),
    ],
    "rows:tpch.l_comment.sf10": ["take10_ms", "filter_ms"],
    "frame:tpch.lineitem.sf10": [
        *(f"frame{text}_{measure}" for text in ("", "_onpair") for measure in FRAME_MEASURES),
        "frame_mask_ms",
        "frame_take1m_ms",
        "mask_half_ms",
        "take_all_ms",
    ],
    "first:tpch.lineitem.sf10": ["first_to_host_gbps"],
}


@pytest.mark.parametrize("part", LATENCY)
def test_latency(part: str, modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas stands for cuDF, whose frames go to host memory by themselves."""
    frame = lineitem(2000)
    monkeypatch.setattr(pd.DataFrame, "host_serialize", lambda self: ({}, [self]), raising=False)
    monkeypatch.setattr(pd.DataFrame, "host_deserialize", lambda header, frames: frames[0], raising=False)
    monkeypatch.setattr(cudf_fsst.CompressedFrame, "to_cudf", cudf_fsst.CompressedFrame.decompress)
    bench, first = modules["bench_latency"], []
    tools = bench.Tools(pd, clock, clock, lambda codec: first.append(codec) or 0.5, repeat=3)
    file = modules["records"].ResultsFile(tmp_path / "latency.json", MACHINE, **RUN)
    kind, _, dataset = part.partition(":")
    monkeypatch.setattr(bench, "KINDS", {kind: bench.KINDS[kind]})
    asked = options(scale=10, missing=True)
    assert bench.run(frame, tools, file, asked, lambda: True) == 0
    content = json.loads(file.path.read_text())
    assert "failed" not in content["parts"][part]
    found = [(one["dataset"], one["codec"], one["measure"]) for one in content["records"]]
    assert found == [(dataset, codec, measure) for measure in LATENCY[part] for codec in ("cudf_fsst", "cudf")]
    milliseconds = {one["value"] for one in content["records"] if one["measure"].endswith("_ms")}
    assert milliseconds <= {1.0}
    assert first == (["cudf_fsst", "cudf"] if kind == "first" else [])
    assert bench.run(frame, tools, file, asked, lambda: True) == 0
    assert json.loads(file.path.read_text()) == content, "nothing is missing"


def test_wrong_rows_are_not_timed(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    series = lineitem(100)["l_comment"]
    monkeypatch.setattr(cudf_fsst.CompressedColumn, "take", lambda self, rows: series.iloc[:10])
    bench = modules["bench_latency"]
    tools = bench.Tools(pd, clock, clock, lambda codec: 0.5, repeat=3)
    with pytest.raises(AssertionError, match=r"take\(\) did not give the same values"):
        list(bench.measure_rows(series, tools, []))


def test_first_call_of_a_process(modules: dict[str, ModuleType]) -> None:
    waits = []
    seconds = modules["bench_latency"].first_seconds(lineitem(100), "cudf_fsst", lambda: waits.append(1))
    assert seconds > 0
    assert len(waits) == 2


NCU = """==PROF== Connected to process 1
"a line of the program"
"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","ns","byte","%"
"0","fsst_encode(unsigned long)","1,000","64","40"
"1","fsst_compact","500","32","n/a"
"2","fsst_encode(unsigned long)","3,000","128","80"
"""


def test_counters_of_launches_are_put_together(modules: dict[str, ModuleType]) -> None:
    profile = modules["profile_kernels"]
    rows = profile.launches(NCU)
    found = {(one["kernel"], one["measure"]): one["value"] for one in profile.summarized(rows)}
    assert found == {
        ("fsst_encode", "duration_ns"): 4000,
        ("fsst_encode", "dram_read_bytes"): 192,
        ("fsst_encode", "occupancy_pct"): 70,  # weighted by duration
        ("fsst_compact", "duration_ns"): 500,
        ("fsst_compact", "dram_read_bytes"): 32,
    }


def test_unknown_counters_are_dropped(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(
        "#!/bin/sh\n"
        'case "$*" in *launch__registers_per_thread*)\n'
        '  echo "==ERROR== Failed to find metric launch__registers_per_thread"; exit 1;; esac\n'
        "[ $# = 12 ] || exit 2\n"
        f"cat <<'EOF'\n{NCU}EOF\n"
    )
    ncu.chmod(0o755)
    assert modules["profile_kernels"].profiled(["program"], str(ncu)) == NCU
    ncu.write_text("#!/bin/sh\necho no permission; exit 1\n")
    with pytest.raises(RuntimeError, match="ncu gave 1: no permission"):
        modules["profile_kernels"].profiled(["program"], str(ncu))


def test_dictionaries(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, of few rows; what is measured of pieces."""
    bench = modules["bench_dictionaries"]
    monkeypatch.setattr(bench, "ROWS", 60_000)
    monkeypatch.setattr(bench, "median_ms", lambda call, repeat, wait: call() is not None)
    found = list(bench.measure(lineitem(5000), lambda values: pd.Series(values, dtype="str"), lambda: None, gpu=False))
    over = {
        (one["dataset"], one["measure"]): one["value"] for one in found if "pieces" not in one or one["pieces"] == 10
    }
    for name in ("paths", "cities", "last_names", "titles"):
        assert over[f"made.{name}", "concat_over_one_call"] == pytest.approx(1, abs=0.03)
        assert over[f"made.{name}", "compressor_over_one_call"] == pytest.approx(1, abs=0.03)
        assert over[f"made.{name}.duckdb", "file_over_one_call"] == pytest.approx(1, abs=0.03)
