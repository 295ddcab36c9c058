"""CUDA C++ sources and their compilation (NVRTC through CuPy, cached on disk by CuPy).

Whoever waits for the compiler is told why: a record at level INFO of the logger ``cudf_fsst``, and, where that logger
has no handlers at all, a line on stderr. ``CUDF_FSST_QUIET=1`` leaves the line out. `ahead` compiles in threads what
nobody waits for yet: a second for most files.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: Options every kernel is compiled with, beside the constants of its codec.
OPTIONS = ("-std=c++17",)

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
_log = logging.getLogger("cudf_fsst")
#: One lock a file and its options, so that it is compiled once, by whoever comes first.
_locks: dict[tuple[str, tuple[str, ...]], threading.Lock] = {}
#: Those for which the compiler ran.
_compiled: set[tuple[str, tuple[str, ...]]] = set()
#: Threads that compile ahead; most of a machine's cores have nothing else to do then.
_MOST_THREADS = 8


class _CompilerOutput(threading.local):
    """Where CuPy writes the compiler's output: if the compiler ran, not if CuPy's cache on disk had the kernels."""

    written = False

    def write(self, _text: str) -> None:
        self.written = True


# One for all kernels: CuPy keeps a module in memory per source, options and this.
_output = _CompilerOutput()


@cache
def folder() -> Path:
    """Where the sources lie: inside the package when installed, beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "kernels"
    return installed if installed.is_dir() else package.parent / "kernels"


@cache
def source(name: str) -> str:
    """Full text of ``kernels/<name>.cu``, own headers inlined (CuPy's cache does not look into included files)."""
    inlined: set[str] = set()

    def inline(match: re.Match[str]) -> str:
        if match[1] in inlined:
            return ""
        inlined.add(match[1])
        return _INCLUDE.sub(inline, (folder() / match[1]).read_text())

    return _INCLUDE.sub(inline, (folder() / f"{name}.cu").read_text())


def options(defines: Mapping[str, int]) -> tuple[str, ...]:
    """Compiler options with the constants that host and device share."""
    return (*OPTIONS, *(f"-D{name}={value}u" for name, value in sorted(defines.items())))


def kernel(file: str, name: str, defines: Mapping[str, int]) -> Any:
    """A `cupy.RawKernel`, compiled for the current device unless CuPy's cache on disk has it.

    Parameters
    ----------
    file
        Name of the source in ``kernels/``, without its ending.
    name
        The kernel's name.
    defines
        Constants shared with the host.
    """
    import cupy

    key = file, options(defines)
    made = cupy.RawKernel(source(file), name, key[1])
    lock = _locks.setdefault(key, threading.Lock())
    start = time.perf_counter()
    waited = lock.locked()
    with lock:
        _output.written = False
        made.compile(log_stream=_output)
        if _output.written:
            _compiled.add(key)
    if key in _compiled and (waited or _output.written) and not _ahead.here:
        _tell(file, time.perf_counter() - start)
    return made


class _Ahead(threading.local):
    """Whether this thread compiles what nobody waits for."""

    here = False


_ahead = _Ahead()


def ahead(wanted: Iterable[Callable[[], object]]) -> None:
    """Make kernels in threads, for the current device.

    Parameters
    ----------
    wanted
        Each makes a kernel, and is called once. The first come first. What one raises is left to who needs the kernel.
    """
    import cupy

    device, left = cupy.cuda.Device(), deque(wanted)
    threads = [
        threading.Thread(target=_make_all, args=(left, device), name="cudf_fsst-compile", daemon=True)
        for _ in range(min(len(left), _MOST_THREADS, os.cpu_count() or 1))
    ]

    def stop() -> None:  # the compiler must not run while the process takes its libraries down
        left.clear()
        for thread in threads:
            thread.join()

    atexit.register(stop)
    for thread in threads:
        thread.start()


def _make_all(left: deque[Callable[[], object]], device: Any) -> None:
    _ahead.here = True
    with device:
        while True:
            try:
                make = left.popleft()
            except IndexError:
                return
            try:
                make()
            except Exception as error:  # whatever CuPy and the compiler raise: who needs the kernel gets it again
                _log.debug("could not compile ahead: %r", error)


def _tell(file: str, seconds: float) -> None:
    from .memory import gpu_model

    text = f"compiled {file}.cu for {gpu_model()} in {seconds:.1f} s (once per machine: CuPy keeps it on disk)"
    _log.info(text)
    if not _log.hasHandlers() and os.environ.get("CUDF_FSST_QUIET", "0") in ("", "0"):
        print(f"cudf_fsst: {text}", file=sys.stderr)
