"""Compilation through CuPy: who waits for it is told, who finds the kernels on disk is not. CuPy is a stand-in."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst.device import kernels

DISK: set[tuple[str, tuple[str, ...]]] = set()


class RawKernel:
    """As in CuPy, the compiler's output is written where the compiler ran."""

    def __init__(self, code: str, name: str, options: tuple[str, ...]) -> None:
        self.key, self.name = (code, options), name

    def compile(self, log_stream: Any) -> None:
        if self.key not in DISK:
            DISK.add(self.key)
            log_stream.write("")


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    DISK.clear()
    memory = types.ModuleType("cudf_fsst.device.memory")
    memory.gpu_model = lambda: "NVIDIA Test sm_90"
    cupy = types.ModuleType("cupy")
    cupy.RawKernel = RawKernel
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, memory.__name__, memory)


@pytest.fixture
def unhandled(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The package's logger in a program that has not set up logging: pytest has, on every other logger."""
    logger = logging.Logger("cudf_fsst", logging.WARNING)
    monkeypatch.setattr(kernels, "_log", logger)
    monkeypatch.delenv("CUDF_FSST_QUIET", raising=False)
    return logger


def compile_some() -> None:
    for name in ("fsst_encode", "fsst_compact"):
        assert kernels.kernel("fsst_encode", name, {"TILE": 256}).name == name
    kernels.kernel("fsst_encode", "fsst_encode", {"TILE": 512})


def test_a_line_for_every_compilation(unhandled: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    compile_some()
    out, err = capfd.readouterr()
    assert not out
    assert len(err.splitlines()) == 2
    assert all(line.startswith("cudf_fsst: compiled fsst_encode.cu for NVIDIA Test sm_90") for line in err.splitlines())
    compile_some()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["variable", "null handler", "own handler"])
def test_silenced(
    how: str, unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("CUDF_FSST_QUIET", "1")
    else:
        unhandled.addHandler(logging.NullHandler() if how == "null handler" else logging.StreamHandler())
    compile_some()
    assert capfd.readouterr() == ("", "")


def test_a_record_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cudf_fsst"):
        compile_some()
        compile_some()
    assert [record.levelname for record in caplog.records] == ["INFO"] * 2
    assert "once per machine" in caplog.text


@pytest.mark.gpu
@pytest.mark.slow
def test_paid_once_per_machine(tmp_path: Path) -> None:
    code = 'import cudf, cudf_fsst; cudf.Series(["some", "text"] * 9).fsst.compress().decompress()'

    def errors(**more: str) -> list[str]:
        environment = {**os.environ, "CUPY_CACHE_DIR": str(tmp_path / "first"), **more}
        if "CUDF_FSST_QUIET" not in more:
            environment.pop("CUDF_FSST_QUIET", None)
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [line for line in result.stderr.splitlines() if line.startswith("cudf_fsst: ")]

    files = sorted(line.split()[2] for line in errors())
    assert files == ["fsst_decode.cu", "fsst_encode.cu", "fsst_train.cu", "row_lengths.cu"]
    assert errors() == []
    assert errors(CUPY_CACHE_DIR=str(tmp_path / "second"), CUDF_FSST_QUIET="1") == []
