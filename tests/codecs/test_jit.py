"""What Numba compiled, on disk: never mixed up, and said when it takes long."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
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


def test_constants_are_no_types(path: Path) -> None:
    path.write_text(f"""{SOURCE}
@njit()
def more(number):
    return number + 1

@njit()
def both(number):
    return more(1) + more(number) + more(2)
""")
    made = module(path)
    assert made.both(5) == 11
    assert len(made.more.signatures) == 1


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


OTHER = """
import numpy as np
from cudf_fsst.codecs.jit import njit

STEP, TABLE, PAIR = 1, np.array([1, 2]), (1, 2)

@njit()
def step(value):
    return value + 1
"""
IMPORTING = """
import other
from cudf_fsst.codecs.jit import njit
from other import PAIR, STEP, TABLE, step

@njit()
def inner(value):
    return step(value) * STEP

@njit()
def total(values):
    found = TABLE[1] - PAIR[1]
    for value in values:
        found += inner(value)
    return found
"""


@pytest.mark.parametrize(
    ("change", "to", "expected"),
    [
        ("STEP, TABLE, PAIR = 1,", "STEP, TABLE, PAIR = 2,", 10_100),
        ("array([1, 2])", "array([1, 7])", 5055),
        ("(1, 2)", "(1, 4)", 5048),
        ("value + 1", "value + 3", 5250),
    ],
)
def test_what_is_imported_decides_too(
    path: Path, change: str, to: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants and functions of another file, as where a package is replaced whose files keep their times."""
    for again in (False, True):
        assert _imported(path, OTHER, monkeypatch)(WORDS) == 5050
        function = _imported(path, OTHER, monkeypatch)
        assert function(WORDS) == 5050
        assert hits(function) == 1
        changed = _imported(path, OTHER.replace(change, to), monkeypatch)
        assert changed(WORDS) == expected
        assert hits(changed) == again


def _imported(path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of a file that imports another one, as another process would have it. All files keep their times."""
    other = path.with_name("other.py")
    for file, text in (path, IMPORTING), (other, source):
        file.write_text(text)
        os.utime(file, (1e9, 1e9))
    made = ModuleType("other")
    exec(compile(source, other, "exec"), vars(made))  # Python keeps no bytecode of it
    monkeypatch.setitem(sys.modules, "other", made)
    some = module(path)
    monkeypatch.setitem(sys.modules, "some", some)
    return some.total


def test_functions_of_one_name_are_not_linked_as_one(path: Path) -> None:
    """Two processes give functions that they compile the same numbers; a third one may load both, and links by name."""
    path.write_text(
        "from cudf_fsst.codecs.jit import njit\n"
        "def made(step):\n"
        "    @njit()\n"
        "    def total(values):\n"
        "        return step * len(values)\n"
        "    return total\n"
    )
    made = module(path).made
    functions = [made(1), made(2), made(1)]
    assert [function(BYTES) for function in functions] == [100, 200, 100]
    names = [[one.fndesc.qualname for one in function.overloads.values()] for function in functions]
    assert names[0] == names[2] != names[1]


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
    monkeypatch.setattr(compiled, "_is_first", lambda: False)
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
    (message,) = caplog.messages
    assert message.startswith("compiling for the CPU")
    assert ("in every process: see NUMBA_CACHE_DIR" in message) is not kept


@pytest.mark.slow
def test_first_calls_on_a_machine(tmp_path: Path) -> None:
    """A line on stderr; nothing once all is on disk; another one where a later process needs more."""
    code = "import pandas as pd, cudf_fsst; pd.Series(['a', 'bc']).fsst.compress().decompress()"
    environment = os.environ | {"PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path), "CUDF_FSST_QUIET": ""}

    def said(code: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stderr

    first = "compiling for the CPU, once: some 5 s for a first call, half a minute for all kinds of calls"
    assert said(code) == f"cudf_fsst: {first}\n"
    assert said(code) == ""
    more = "pd.Series(range(9000)).fsst.compress()"
    assert said(f"{code}; {more}") == "cudf_fsst: compiling for the CPU what no call needed before\n"


@pytest.mark.parametrize("part", compile_ahead.PARTS)
def test_all_parts_run(part: Callable[[], None]) -> None:
    assert compile_ahead._stored().to_arrow().to_pylist() == compile_ahead.TEXT
    part()
