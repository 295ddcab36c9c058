"""``cudf-fsst autotune``."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_cases import parquet_files_that_cannot_be_read, run_bad, run_ok
from cudf_fsst.codecs.fsst import tuning
from cudf_fsst.codecs.fsst.tuning import Choices
from cudf_fsst.engine import Engine


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
        monkeypatch.setattr("cudf_fsst.interop.cudf.on_gpu", lambda choice: True)
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

    def fail(choice: str) -> bool:
        raise RuntimeError("no CUDA-capable device is detected")

    monkeypatch.setattr("cudf_fsst.interop.cudf.on_gpu", fail)
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
