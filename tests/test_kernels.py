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
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst import notices, workers
from cudf_fsst.device import kernels

#: What was compiled, in this order: the option that says the tile size, the kernel's name, and whether it was quick.
MADE: list[tuple[str, str, bool]] = []
#: Where as many compilations as it has parties wait for each other.
BESIDE: threading.Barrier | None = None


def compile_using_nvrtc(text: str, options: tuple[str, ...], *, cache_in_memory: bool) -> tuple[bytes, None]:
    """As CuPy's: code, and no names."""
    assert cache_in_memory, "nothing is written beside what is kept"
    found = re.search(r"__global__ void(?:\s+__\w+__\([^()]*\))*\s+(\w+)\(", text)
    if found is None:
        raise RuntimeError("the compiler failed")
    if BESIDE is not None:
        BESIDE.wait(300)
    key = next(option for option in options if option.startswith("-DTILE")), found[1], kernels.QUICK in options
    assert key not in MADE, "compiled twice"
    MADE.append(key)
    return repr(key).encode(), None


class RawModule:
    """CuPy's, of code on disk."""

    def __init__(self, *, path: str) -> None:
        self.code = Path(path).read_bytes()

    def get_function(self, name: str) -> types.SimpleNamespace:
        assert f"'{name}'".encode() in self.code
        return types.SimpleNamespace(kernel=self.code, shared_size_bytes=24, max_dynamic_shared_size_bytes=49152)


class Device(nullcontext[None]):
    """CuPy's, which can be made the current one."""

    compute_capability = "90"


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    MADE.clear()
    kernels._made_of.cache_clear()
    memory = types.ModuleType("cudf_fsst.device.memory")
    memory.gpu_model = lambda: "NVIDIA Test sm_90"
    cupy = types.ModuleType("cupy")
    cupy.RawModule, cupy.__version__ = RawModule, "14.2.0"
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        compiler=types.SimpleNamespace(compile_using_nvrtc=compile_using_nvrtc),
        runtime=types.SimpleNamespace(runtimeGetVersion=lambda: 13020),
    )
    monkeypatch.setattr(kernels, "_LONG", 0)
    monkeypatch.setattr(kernels, "LATER", 0.01)
    monkeypatch.setattr(kernels, "_locks", {})
    monkeypatch.setattr(kernels, "_compiled", {})
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, memory.__name__, memory)
    yield
    settle()
    kernels._made_of.cache_clear()


@pytest.fixture
def unhandled(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The package's logger in a program that has not set up logging: pytest has, on every other logger."""
    logger = logging.Logger("cudf_fsst", logging.WARNING)
    monkeypatch.setattr(notices, "_log", logger)
    monkeypatch.delenv("CUDF_FSST_QUIET", raising=False)
    return logger


def settle() -> None:
    """Wait for what is compiled in threads."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        if not workers._pool.wanted and not any(isinstance(one, threading.Timer) for one in threading.enumerate()):
            return
        time.sleep(0.001)
    raise AssertionError("threads are still at work")


def code(name: str, tile: int, *, quick: bool) -> bytes:
    return repr((f"-DTILE={tile}u", name, quick)).encode()


def compile_some(*, quick: bool = True) -> None:
    """Have kernels launched; `quick`: none of them is on disk."""
    for name, tile in (("fsst_encode", 256), ("text_compact", 256), ("fsst_encode", 512)):
        kernel = kernels.Kernel(name, name, {"TILE": tile})
        assert kernel.run == code(name, tile, quick=quick)
        settle()
        assert kernel.run == code(name, tile, quick=False)


def test_a_line_for_every_compilation(unhandled: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    compile_some()
    out, err = capfd.readouterr()
    assert not out
    names = [
        re.fullmatch(r"cudf_fsst: compiled (\w+) for NVIDIA Test sm_90 in .*", line)[1] for line in err.splitlines()
    ]
    assert names == ["fsst_encode", "text_compact", "fsst_encode"]
    compile_some(quick=False)
    assert capfd.readouterr() == ("", "")


def test_the_best_code_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As benchmarks want it."""
    monkeypatch.setattr(kernels, "QUICK_FIRST", False)
    compile_some(quick=False)
    assert len(MADE) == 3


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
        compile_some(quick=False)
    assert [record.levelname for record in caplog.records] == ["INFO"] * 3
    assert "once per machine" in caplog.text


def test_ahead(unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(sys.modules[__name__], "BESIDE", threading.Barrier(3))
    made = [kernels.Kernel("fsst_encode", "fsst_encode", {"TILE": tile}) for tile in (128, 256, 512)]
    broken = kernels.Kernel("fsst_encode", "broken", {"TILE": 1024})
    kernels.ahead([lambda one=one: one for one in (*made, broken)])
    settle()
    # Beside each other, or the barrier would have broken.
    every = [(f"-DTILE={tile}u", "fsst_encode", quick) for tile in (128, 256, 512) for quick in (False, True)]
    assert sorted(MADE) == sorted(every)
    assert [one[2] for one in MADE] == [True] * 3 + [False] * 3
    assert [one.run for one in made] == [code("fsst_encode", tile, quick=False) for tile in (128, 256, 512)]
    assert capfd.readouterr() == ("", "")  # nobody waited
    with pytest.raises(RuntimeError, match="the compiler failed"):
        _ = broken.run


def test_what_is_needed_comes_first_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    done: list[str] = []

    def load(kernel: kernels.Kernel) -> None:
        time.sleep(0.02)
        done.append(kernel.name)
        if kernel.name == "broken":
            raise RuntimeError("the compiler failed")

    def make(name: str) -> kernels.Kernel:
        if name == "none":
            raise RuntimeError("no such kernel")
        return kernels.Kernel("fsst_encode", name, {})

    monkeypatch.setattr(kernels.Kernel, "load", load)
    monkeypatch.setattr(kernels.Kernel, "best", lambda kernel: done.append("best"))

    needed = [partial(make, name) for name in ("one", "broken", "none", "two", "three")]
    kernels.ahead(needed, [partial(make, "other")] * 3)
    settle()
    assert sorted(done[:4]) == ["broken", "one", "three", "two"]
    assert done[4:] == ["best"] * 7


def test_waiting_for_what_is_compiled_ahead(
    unhandled: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = threading.Barrier(2)
    monkeypatch.setattr(sys.modules[__name__], "BESIDE", barrier)
    kernels.ahead([partial(kernels.Kernel, "fsst_encode", "fsst_encode", {"TILE": 256})])
    while not barrier.n_waiting:
        threading.Event().wait(0.001)

    def go_on() -> None:
        barrier.wait()
        monkeypatch.setattr(sys.modules[__name__], "BESIDE", None)

    threading.Timer(0.1, go_on).start()
    assert kernels.Kernel("fsst_encode", "fsst_encode", {"TILE": 256}).run
    settle()
    assert capfd.readouterr().err.count("compiled fsst_encode for") == 1
    assert len(MADE) == 2


def test_a_compiler_that_is_never_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = sys.modules["cupy"].cuda.compiler

    def older(text: str, options: tuple[str, ...], *, cache_in_memory: bool) -> tuple[bytes, None]:
        if kernels.QUICK in options:
            raise ValueError(f"unrecognized option {kernels.QUICK}")
        return compile_using_nvrtc(text, options, cache_in_memory=cache_in_memory)

    monkeypatch.setattr(compiler, "compile_using_nvrtc", older)
    compile_some(quick=False)
    assert len(MADE) == 3


def test_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*, quick: bool) -> list[tuple[str, str, bool]]:
        """What is compiled in another process."""
        MADE.clear()
        kernels._compiled.clear()
        compile_some(quick=quick)
        return list(MADE)

    assert len(again(quick=True)) == 6
    assert again(quick=False) == []
    for path in (tmp_path / "cudf_fsst" / "text_compact").iterdir():
        path.write_bytes(path.read_bytes()[:-1])  # the machine failed before all was written
    kernels._compiled.clear()
    MADE.clear()
    assert kernels.Kernel("text_compact", "text_compact", {"TILE": 256}).run == code("text_compact", 256, quick=True)
    settle()
    assert [one[1:] for one in MADE] == [("text_compact", True), ("text_compact", False)]
    monkeypatch.setattr(Device, "compute_capability", "100")
    assert len(again(quick=True)) == 6
    monkeypatch.setattr(sys.modules["cupy"], "__version__", "14.3.0")
    kernels._made_of.cache_clear()
    assert len(again(quick=True)) == 6


@pytest.mark.parametrize("why", ["a file", "no home", "no right to look"])
def test_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    def refuse(*_: object) -> Any:
        raise RuntimeError("no home") if why == "no home" else PermissionError(13, "Permission denied")

    (tmp_path / "file").touch()
    if why == "a file":
        monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file"))
    elif why == "no home":
        monkeypatch.delenv("CUPY_CACHE_DIR")
        monkeypatch.setattr(Path, "home", refuse)
    else:
        monkeypatch.setattr(os, "listdir", refuse)
    compile_some()
    compile_some(quick=False)
    assert len(MADE) == 6


def test_code_that_is_gone_or_not_for_us(tmp_path: Path) -> None:
    compile_some()
    files = [path for path in (tmp_path / "cudf_fsst").glob("*/*") if path.stat().st_mode & 0o044 == 0o044]
    assert len(files) == 6  # others may read them as far as the process lets them
    for path in files:  # somebody clears the disk while the process goes on, and leaves what cannot be read
        path.unlink()
        path.mkdir()
    MADE.clear()
    compile_some()
    assert len(MADE) == 6


@pytest.mark.parametrize("why", ["CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_OUT_OF_MEMORY"])
def test_code_on_disk_that_does_not_load(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_some()
    kernels._compiled.clear()
    old = {str(path) for path in (tmp_path / "cudf_fsst").glob("*/*")}
    load = RawModule.__init__

    def refuse(self: RawModule, *, path: str) -> None:
        if path in old:
            if "MEMORY" not in why:
                old.remove(path)
            raise RuntimeError(why)
        load(self, path=path)

    monkeypatch.setattr(RawModule, "__init__", refuse)
    MADE.clear()
    if "MEMORY" in why:
        with pytest.raises(RuntimeError, match=why):
            compile_some(quick=False)
        assert MADE == []
        assert all(Path(path).exists() for path in old)
    else:
        kernel = kernels.Kernel("text_compact", "text_compact", {"TILE": 256})
        assert kernel.run
        settle()
        assert kernel.run == code("text_compact", 256, quick=False)
        assert ("-DTILE=256u", "text_compact", False) in MADE


def test_a_full_disk_keeps_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, place = Path.write_bytes, tmp_path / "cudf_fsst"

    def full(path: Path, data: bytes) -> int:
        if place in path.parents:
            write(path, data[:3])
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    compile_some()
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_shared_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def get_function(self: RawModule, name: str) -> Any:
        asked.append(types.SimpleNamespace(kernel="launches", shared_size_bytes=24))
        return asked[-1]

    monkeypatch.setattr(RawModule, "get_function", get_function)
    kernel = kernels.Kernel("fsst_encode", "fsst_encode", {"TILE": 256}, 232448)
    assert kernel.run == "launches"
    settle()
    assert [one.max_dynamic_shared_size_bytes for one in asked] == [232448 - 24] * 2


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

    # Of kernels that it waited for long; others are compiled before they are asked for, perhaps all.
    assert all(line.split()[1] == "compiled" for line in errors())
    assert [path for path in (tmp_path / "first" / "cudf_fsst").rglob("*") if path.is_file()], "nothing is kept"
    assert errors() == []
    assert errors(CUPY_CACHE_DIR=str(tmp_path / "second"), CUDF_FSST_QUIET="1") == []
