"""Compilation through CuPy: who waits for it is told, who finds the kernels on disk is not. CuPy is a stand-in."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
import types
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst import notices, workers
from cudf_fsst.device import kernels

DISK: set[tuple[str, tuple[str, ...]]] = set()


class RawKernel:
    """As in CuPy, the compiler's output is written where the compiler ran."""

    def __init__(self, code: str, name: str, options: tuple[str, ...]) -> None:
        self.key, self.name, self.kernel = (code, options), name, None

    def compile(self, log_stream: Any) -> None:
        if "broken" in self.name:
            raise RuntimeError("the compiler failed")
        if self.key not in DISK:
            if BESIDE is not None:
                BESIDE.wait(10)
            assert self.key not in DISK, "compiled twice"
            DISK.add(self.key)
            log_stream.write("")


#: Where as many compilations as it has parties wait for each other.
BESIDE: threading.Barrier | None = None


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    DISK.clear()
    memory = types.ModuleType("cudf_fsst.device.memory")
    memory.gpu_model = lambda: "NVIDIA Test sm_90"
    cupy = types.ModuleType("cupy")
    cupy.RawKernel = RawKernel
    cupy.cuda = types.SimpleNamespace(Device=nullcontext)
    monkeypatch.setattr(kernels, "_LONG", 0)
    monkeypatch.setattr(kernels, "_locks", {})
    monkeypatch.setattr(kernels, "_compiled", set())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, memory.__name__, memory)


@pytest.fixture
def unhandled(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The package's logger in a program that has not set up logging: pytest has, on every other logger."""
    logger = logging.Logger("cudf_fsst", logging.WARNING)
    monkeypatch.setattr(notices, "_log", logger)
    monkeypatch.delenv("CUDF_FSST_QUIET", raising=False)
    return logger


def compile_some() -> None:
    for name in ("fsst_encode", "text_compact"):
        assert kernels.kernel(name, name, {"TILE": 256}).name == name
    kernels.kernel("fsst_encode", "fsst_encode", {"TILE": 512})


def test_a_line_for_every_compilation(unhandled: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    compile_some()
    out, err = capfd.readouterr()
    assert not out
    names = [
        re.fullmatch(r"cudf_fsst: compiled (\w+) for NVIDIA Test sm_90 in .*", line)[1] for line in err.splitlines()
    ]
    assert names == ["fsst_encode", "text_compact", "fsst_encode"]
    compile_some()
    assert capfd.readouterr() == ("", "")


def test_waits_that_nobody_minds(
    unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_LONG", 60)
    compile_some()
    assert capfd.readouterr() == ("", "")


def test_one_kernel_of_a_file() -> None:
    """Whatever the form of its head; those of macros, too."""
    for path in sorted(kernels.folder().glob("*.cu")):
        text = kernels.source(path.stem)
        macros = re.findall(r"^#define (\w+)\(name\b", text, re.MULTILINE)
        written = [name for macro in macros for name in re.findall(rf"^{macro}\((?!name)(\w+)", text, re.MULTILINE)]
        heads = re.findall(r"__global__ void(?:\s+__\w+__\([^()]*\))*[\s\\]+((?!__)\w+)\(", text)
        names = [*(name for name in heads if name != "name"), *written]
        assert len(names) == len(set(names)) >= text.count('extern "C" __global__ void') - len(macros)
        for name in names:
            one = kernels.alone(text, name)
            left = [found for found in names if re.search(rf"__global__ void[^;{{}}]*?\b{found}\(", one)]
            calls = [found for macro in macros for found in re.findall(rf"^{macro}\((?!name)(\w+)", one, re.MULTILINE)]
            assert [*left, *calls] == [name], path.stem


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
    assert [record.levelname for record in caplog.records] == ["INFO"] * 3
    assert "once per machine" in caplog.text


def test_ahead(unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(sys.modules[__name__], "BESIDE", threading.Barrier(3))
    made = [partial(kernels.kernel, "fsst_encode", "fsst_encode", {"TILE": tile}) for tile in (128, 256, 512)]
    kernels.ahead([*made, partial(kernels.kernel, "fsst_encode", "broken", {"TILE": 1024})])
    until = time.monotonic() + 20
    while workers._pool.wanted and time.monotonic() < until:
        time.sleep(0.001)
    assert not workers._pool.wanted
    assert len(DISK) == 3  # beside each other, or the barrier would have broken
    made[0]()
    assert capfd.readouterr() == ("", "")  # nobody waited
    with pytest.raises(RuntimeError, match="the compiler failed"):
        kernels.kernel("fsst_encode", "broken", {"TILE": 1024})


def test_what_is_needed_comes_first_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    done: list[str] = []
    last = threading.Event()

    def slow(name: str) -> None:
        time.sleep(0.02)
        done.append(name)
        if name == "broken":
            raise RuntimeError("the compiler failed")

    def quick(number: int) -> None:
        done.append("then")
        if number == 3:
            last.set()

    needed = [partial(slow, name) for name in ("one", "broken", "two", "three")]
    kernels.ahead(needed, [partial(quick, number) for number in range(4)])
    assert last.wait(20)
    assert sorted(done[:4]) == ["broken", "one", "three", "two"]
    last.clear()
    kernels.ahead([], [partial(quick, 3)])
    assert last.wait(20)


def test_waiting_for_what_is_compiled_ahead(
    unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = threading.Barrier(2)
    monkeypatch.setattr(sys.modules[__name__], "BESIDE", barrier)
    make = partial(kernels.kernel, "fsst_encode", "fsst_encode", {"TILE": 256})
    kernels.ahead([make])
    while not barrier.n_waiting:
        threading.Event().wait(0.001)
    threading.Timer(0.1, barrier.wait).start()
    make()
    assert capfd.readouterr().err.count("compiled fsst_encode for") == 1
    assert len(DISK) == 1


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

    said = errors()  # of kernels that it waited for; others are compiled before they are asked for
    assert said
    assert all(line.split()[1] == "compiled" for line in said)
    assert errors() == []
    assert errors(CUPY_CACHE_DIR=str(tmp_path / "second"), CUDF_FSST_QUIET="1") == []
