"""What `jit.njit` makes with Numba, which takes long to import.

What was compiled is kept on disk. Numba's own files for that can be mixed up by processes that compile one function for
several types at the same time: each takes the first free number for its file, and the index of one then leads to the
code of another, which reads its arguments as what they are not. Here a file's name says what is in it.

The first call of a process that has to compile says so (`notices.tell`). All kernels together take half a minute of one
core, and Numba has one lock for all threads. So other processes compile the kernels of later calls meanwhile
(`compile_ahead`); what they keep on disk is found there when it is needed. When they are done, that is said too.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, event

from ..notices import tell
from ..workers import num_threads
from . import intrinsics

__all__ = ["compiled", "intrinsics"]

#: Seconds of compiling after which a process says so.
_LONG = 0.5
#: Processes that compile ahead, at most: parts of `compile_ahead` that take about as long as each other.
_MOST_PROCESSES = 3
#: Variable: 0 where no other processes shall compile; which these have set.
AHEAD = "CUDF_FSST_COMPILE_AHEAD"


class _DataFile(caching.IndexDataCacheFile):
    """An index, and a data file for each of its keys whose name is made of all that decides what is in it."""

    def save(self, key: Any, data: Any) -> None:
        # Data first: whoever finds it in the index can read it. Of two indexes that are written at the same time one
        # is lost, and a later process compiles some of it again.
        name = self._name_of(key)
        overloads = self._load_index()
        if not overloads:  # what there is was compiled of another source
            for old in Path(self._cache_path).glob(f"{escape(self._base)}*.nbc"):
                old.unlink(missing_ok=True)
        self._save_data(name, data)
        overloads = self._load_index()
        overloads[key] = name
        self._save_index(overloads)

    def _name_of(self, key: Any) -> str:
        text = repr((self._version, self._source_stamp, key))
        return f"{self._base}{hashlib.sha256(text.encode()).hexdigest()[:16]}.nbc"

    @property
    def _base(self) -> str:
        return str(self._index_name.removesuffix("nbi"))


def _outer(function: Any) -> list[Any]:
    """What tells the functions that one refers to in the function it was made in, from others of the same names."""
    told = []
    for cell in function.__closure__ or ():
        one = cell.cell_contents.__wrapped__
        made_at = Path(one.__code__.co_filename).stat().st_mtime_ns
        told.append((one.__module__, one.__qualname__, made_at, _outer(one)))
    return told


class _Cache(caching.FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _DataFile(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Numba would pickle what a function made in another refers to. Here these are functions, told by their source.
        own = self._py_func.__code__.co_code, _outer(self._py_func)
        return sig, codegen.magic_tuple(), hashlib.sha256(repr(own).encode()).hexdigest()


def compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Numba's function, which is compiled when it is called; kept where there is a place for it."""
    made = numba.njit(nogil=True, **options)(function)
    with suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        made._cache = _Cache(function)
    return made


class _CompiledAhead:
    """Other processes that compile what this one may need next. They are ended with this one."""

    def __init__(self) -> None:
        self._begun = False

    def begin(self, cache: Any) -> None:
        """Start them, once, if there are CPUs to spare and a cache, whose folder has what they make; else None."""
        if self._begun:
            return
        self._begun = True
        wanted = min(num_threads() - 1, _MOST_PROCESSES)
        if cache is None or wanted < 1 or not sys.executable or os.environ.get(AHEAD, "1") == "0":
            return
        processes = []
        for number in range(wanted):
            with suppress(OSError):  # no memory, or no process more is allowed
                processes.append(self._start(number, cache.cache_path))
        if processes:
            start = time.perf_counter()
            threading.Thread(target=self._wait, args=(processes, start), daemon=True).start()

    def _start(self, number: int, folder: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(path for path in sys.path if path)
        ours = {AHEAD: "0", "PYTHONPATH": paths, "CUDF_FSST_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        environment = os.environ | ours
        # One process on a machine has a part: others that started at the same time find what it makes.
        lock = os.path.join(folder, f"cudf_fsst-{number}.lock")
        code = f"""
import fcntl, os, runpy, sys
os.nice(5)  # where CPUs are busy, the process that waits goes first
lock = os.open({lock!r}, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
sys.argv[1:] = [{str(number)!r}]
runpy.run_module("{__name__.partition(".")[0]}.compile_ahead", run_name="__main__")
"""
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-P", "-c", code],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env=environment,
        )
        atexit.register(_end, process)
        return process

    def _wait(self, processes: Sequence[subprocess.Popen[bytes]], start: float) -> None:
        codes = [process.wait() for process in processes]
        if not any(codes):
            tell(f"compiled for the CPU in {time.perf_counter() - start:.0f} s; later processes need not")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


ahead = _CompiledAhead()


class _Waiting(event.Listener):
    """Counts the time that functions of this package take to compile. Numba has a lock: one thread compiles at once."""

    def __init__(self) -> None:
        self._depth = 0
        self._start = self._seconds = 0.0
        self._told = self._kept = False

    def on_start(self, found: Any) -> None:
        if self._depth == 0 and _is_ours(found):
            self._start = time.perf_counter()
            self._kept = isinstance(getattr(found.data["dispatcher"], "_cache", None), caching.Cache)
            self._depth = 1
            ahead.begin(found.data["dispatcher"]._cache if self._kept else None)
        elif self._depth:  # functions that it calls are compiled meanwhile
            self._depth += 1

    def on_end(self, found: Any) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        seconds = self._seconds + time.perf_counter() - self._start
        if self._depth == 0:
            self._seconds = seconds
        if seconds > _LONG and not self._told:
            self._told = True
            how_often = "once on a machine; Numba keeps it on disk"
            if not self._kept:
                how_often = "in every process: see NUMBA_CACHE_DIR"
            tell(f"compiling for the CPU; first calls take some seconds longer ({how_often})")


def _is_ours(found: Any) -> bool:
    function = getattr(found.data["dispatcher"], "py_func", None)
    return getattr(function, "__module__", "").startswith(f"{__package__}.")


event.register("numba:compile", _Waiting())
