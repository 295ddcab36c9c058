"""What Numba compiled, on disk: never mixed up, and said when it takes long."""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core import caching, event

import cudf_fsst
from cudf_fsst import compile_ahead
from cudf_fsst.codecs import compiled, jit

SOURCE = """
from cudf_fsst.codecs.jit import njit

@njit()
def total(values):
    found = 0
    for value in values:
        found += value
    return found
"""
BYTES, WORDS = np.arange(100, dtype=np.uint8), np.arange(100, dtype=np.int64)


def module(path: Path) -> ModuleType:
    """What another process would have: functions that have not been compiled yet."""
    spec = importlib.util.spec_from_file_location("some", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "some.py").write_text(SOURCE)
    return tmp_path / "some.py"


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_two_processes_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look for a free place before either has taken it; the index is of one, the last code of the other."""
    one, other = module(path).total, module(path).total
    files = one._cache._cache_file, other._cache._cache_file
    save_index, save_data, later = files[0]._save_index, files[1]._save_data, []

    def late(overloads: Any) -> None:
        if not later:
            assert other(WORDS) == 4950
        save_index(overloads)

    monkeypatch.setattr(files[0], "_save_index", late)
    monkeypatch.setattr(files[1], "_save_data", lambda *what: later.append(what))
    assert one(BYTES) == 4950
    assert later
    save_data(*later[0])
    for values in (BYTES, WORDS):
        assert module(path).total(values) == 4950  # with Numba's own files: any number, or a crash


def test_what_was_kept_is_used_until_the_source_changes(path: Path) -> None:
    assert module(path).total(WORDS) == 4950
    again = module(path).total
    assert again(WORDS) == 4950
    assert hits(again) == 1
    path.write_text(SOURCE.replace("found = 0", "found = 1  # of another size: Python looks at that, and at seconds"))
    changed = module(path).total
    assert changed(WORDS) == 4951
    assert hits(changed) == 0
    assert len(list(path.parent.rglob("*.nbc"))) == 1


MADE = """
from cudf_fsst.codecs.jit import njit

@njit()
def once(value):
    return value

@njit()
def twice(value):
    return 2 * value

def made(step):
    @njit()
    def total(values):
        found = 0
        for value in values:
            found += step(value)
        return found
    return total
"""


def test_functions_made_of_others_are_told_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the same code; what they refer to is another function, or another version of it."""
    path.write_text(MADE)
    for again in (False, True):
        some = module(path)
        monkeypatch.setitem(sys.modules, "some", some)  # where Numba looks for what it kept
        for step, total in (some.once, 4950), (some.twice, 9900):
            function = some.made(step)
            assert function(WORDS) == total
            assert hits(function) == again
    path.write_text(MADE.replace("2 * value", "value * 3  # of another size"))
    some = module(path)
    assert some.made(some.twice)(WORDS) == 14850


def test_files_that_are_gone_are_made_again(path: Path) -> None:
    assert module(path).total(WORDS) == 4950
    for file in path.parent.rglob("*.nbc"):
        file.unlink()
    assert module(path).total(WORDS) == 4950
    again = module(path).total
    assert again(WORDS) == 4950
    assert hits(again) == 1


def test_without_a_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr(caching.CompileResultCacheImpl, "__init__", none)
    assert module(path).total(WORDS) == 4950
    assert not list(path.parent.rglob("*.nbc"))


def test_every_kernel_is_kept_so() -> None:
    from cudf_fsst.codecs.fsst import cpu_kernels
    from cudf_fsst.codecs.text import cpu_search_kernels

    modules = cpu_kernels, cpu_search_kernels
    kernels = [one for module in modules for one in vars(module).values() if isinstance(one, jit._Function)]
    assert len(kernels) > 10
    assert all(isinstance(kernel._cache._cache_file, compiled._DataFile) for kernel in kernels)


class _Dispatcher:
    def __init__(self, module: str, *, kept: bool = False) -> None:
        self.py_func = type("function", (), {"__module__": module})
        self._cache = object.__new__(compiled._Cache) if kept else None


@pytest.mark.parametrize("kept", [False, True])
def test_who_waits_is_told_once(kept: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(compiled.ahead, "begin", lambda cache: None)
    listener = compiled._Waiting()

    def compile_one(module: str, seconds: float) -> None:
        data = {"dispatcher": _Dispatcher(module, kept=kept)}
        listener.on_start(event.Event("numba:compile", event.EventStatus.START, data))
        inner = {"dispatcher": _Dispatcher("numba.np")}
        listener.on_start(event.Event("numba:compile", event.EventStatus.START, inner))
        now[0] += seconds
        listener.on_end(event.Event("numba:compile", event.EventStatus.END, inner))
        listener.on_end(event.Event("numba:compile", event.EventStatus.END, data))

    with caplog.at_level(logging.INFO, "cudf_fsst"):
        compile_one("somebody.elses", 100)
        compile_one("cudf_fsst.codecs.fsst.cpu_kernels", 0.3)
        assert not caplog.messages
        compile_one("cudf_fsst.codecs.fsst.cpu_kernels", 0.3)
        compile_one("cudf_fsst.codecs.fsst.cpu_kernels", 2)
    how_often = "once on a machine; Numba keeps it on disk" if kept else "in every process: see NUMBA_CACHE_DIR"
    assert caplog.messages == [f"compiling for the CPU; first calls take some seconds longer ({how_often})"]


@pytest.mark.slow
def test_first_call_on_a_machine(tmp_path: Path) -> None:
    """A line on stderr; nothing once all is on disk."""
    code = "import pandas as pd, cudf_fsst; pd.Series(['a', 'bc']).fsst.compress().decompress()"
    environment = os.environ | {"PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}

    environment |= {"NUMBA_CACHE_DIR": str(tmp_path), "CUDF_FSST_QUIET": ""}
    command = [sys.executable, "-c", code]

    def said() -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stderr

    first = "compiling for the CPU; first calls take some seconds longer (once on a machine; Numba keeps it on disk)"
    assert said() == f"cudf_fsst: {first}\n"
    assert said() == ""


def test_all_parts_run_on_what_was_stored() -> None:
    assert compile_ahead._stored().to_arrow().to_pylist() == compile_ahead.TEXT
    compile_ahead.run(len(compile_ahead.PARTS) - 1)


class _Process:
    """What was started, and when it is asked for, has ended."""

    def __init__(self, arguments: list[str], **options: Any) -> None:
        self.arguments, self.options = arguments, options

    def wait(self) -> int:
        return 0

    poll = wait


@pytest.mark.parametrize(
    ("threads", "variable", "kept", "wanted"),
    [
        ("4", "1", True, 3),
        ("2", None, True, 1),
        ("64", "1", True, 3),
        ("1", "1", True, 0),
        ("4", "0", True, 0),
        ("4", "1", False, 0),
    ],
)
def test_processes_that_compile_ahead(
    threads: str, variable: str | None, kept: bool, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are CPUs to spare, once, and none from within one of them."""
    started: list[_Process] = []

    def start(arguments: list[str], **options: Any) -> _Process:
        started.append(_Process(arguments, **options))
        return started[-1]

    monkeypatch.setattr(compiled.subprocess, "Popen", start)
    said: list[str] = []
    monkeypatch.setattr(compiled, "tell", said.append)
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", threads)
    if variable is None:
        monkeypatch.delenv(compiled.AHEAD)
    else:
        monkeypatch.setenv(compiled.AHEAD, variable)
    ahead = compiled._CompiledAhead()
    cache = object.__new__(compiled._Cache) if kept else None
    if cache is not None:
        cache._cache_path = "x"
    ahead.begin(cache)
    ahead.begin(cache)
    for thread in threading.enumerate():
        if getattr(thread, "_target", None) == ahead._wait:
            thread.join()
    assert len(started) == wanted
    assert all(one.options["env"][compiled.AHEAD] == "0" for one in started)
    assert [message.startswith("compiled for the CPU in 0 s") for message in said] == [True] * bool(wanted)


@pytest.mark.slow
def test_what_was_compiled_ahead_is_used(tmp_path: Path) -> None:
    """By the process that waits and by later ones; with the end of a process others end too."""
    code = """
import pandas as pd, cudf_fsst, threading
cudf_fsst.codecs  # the package
column = pd.Series(["a", "bc"], dtype="str").fsst.compress()
from cudf_fsst.codecs import compiled
waiting = [thread for thread in threading.enumerate() if getattr(thread, "_target", None) == compiled.ahead._wait]
if WAIT:
    [thread.join() for thread in waiting]
    from numba.core import event
    with event.install_recorder("numba:compile") as recorder:
        column.str.contains("b"), column.decompress(), pd.DataFrame({"n": range(5000)}).fsst.compress().decompress()
    print(len(waiting), len(recorder.buffer))
"""
    environment = os.environ | {"PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1]), "CUDF_FSST_NUM_THREADS": "2"}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path), compiled.AHEAD: "1"}

    def run(wait: bool) -> str:
        command = [sys.executable, "-c", code.replace("WAIT", str(wait))]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    assert run(False) == ""
    (lock,) = tmp_path.rglob("*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    shutil.rmtree(tmp_path)
    assert run(True) == "1 0\n"
