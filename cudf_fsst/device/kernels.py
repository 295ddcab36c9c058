"""CUDA C++ sources and their compilation (NVRTC through CuPy, cached on disk by CuPy).

Each kernel is compiled by itself, so a call waits for those that it launches, not for their whole files. The code is
the same (``tests/test_kernels_nvrtc.py``). By NVRTC 12.9 on one core, a first ``contains`` has 1.0 s to compile where
its files take 3.7; of a first ``compress()`` of strings the longest kernel takes 0.6 s, beside the others, where the
longest file takes 1.0. Whoever waits for the compiler is told why (`notices.tell`). `ahead` compiles in threads what
nobody waits for yet.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from ..notices import tell
from ..workers import TaskGroup

#: Options every kernel is compiled with, beside the constants of its codec.
OPTIONS = ("-std=c++17",)

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
#: A kernel's head, up to its name; one written by a macro is called ``name`` there.
_KERNEL = re.compile(
    r'extern "C" __global__ void(?:\s+__(?:cluster_dims|launch_bounds)__\([^()]*\))*[\s\\]+(?!__)(\w+)\('
)
#: A macro that writes kernels.
_MACRO = re.compile(r"^#define (\w+)\(name\b(?:.*\\\n)*?.*__global__", re.MULTILINE)
#: Seconds of waiting for a kernel that are worth a line.
_LONG = 0.2
_log = logging.getLogger("cudf_fsst")
#: One lock a kernel and its options, so that it is compiled once, by whoever comes first.
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


def alone(text: str, name: str) -> str:
    """A source text with one kernel: the others become functions that nobody calls, for which there is no code."""
    for macro in _MACRO.findall(text):
        text = re.sub(rf"^{macro}\((?!{name}\b).*\)$", "", text, flags=re.MULTILINE)

    def keep(match: re.Match[str]) -> str:
        return match[0] if match[1] in (name, "name") else f"static __device__ void {match[1]}("

    return _KERNEL.sub(keep, text)


@cache
def _alone(file: str, name: str) -> str:
    return alone(source(file), name)


def options(defines: Mapping[str, int]) -> tuple[str, ...]:
    """Compiler options with the constants that host and device share."""
    return (*OPTIONS, *(f"-D{name}={value}u" for name, value in sorted(defines.items())))


class Kernel(NamedTuple):
    """A kernel on one device.

    Attributes
    ----------
    name : str
    raw : cupy.RawKernel
    run : cupy.cuda.Function
        Launches it there. `raw` does so by looking for it first.
    """

    name: str
    raw: Any
    run: Any


def kernel(file: str, name: str, defines: Mapping[str, int]) -> Kernel:
    """A kernel, compiled for the current device unless CuPy's cache on disk has it.

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

    key = name, options(defines)
    made = cupy.RawKernel(_alone(file, name), name, key[1])
    lock = _locks.setdefault(key, threading.Lock())
    start = time.perf_counter()
    waited = lock.locked()
    with lock:
        _output.written = False
        made.compile(log_stream=_output)
        if _output.written:
            _compiled.add(key)
    if key in _compiled and (waited or _output.written) and not _ahead.here:
        _tell(name, time.perf_counter() - start)
    return Kernel(name, made, made.kernel)


class _Ahead(threading.local):
    """Whether this thread compiles what nobody waits for."""

    here = False


_ahead = _Ahead()


def ahead(needed: Sequence[Callable[[], object]], then: Sequence[Callable[[], object]] = ()) -> None:
    """Make kernels in threads, for the current device.

    Parameters
    ----------
    needed
        Each makes a kernel, and is called once. The first come first. What one raises is left to who needs the kernel.
    then
        The same of others, when all that is needed has been made: compilers beside each other take longer.
    """
    import cupy

    device = cupy.cuda.Device()
    # The compiler must not run while the process takes its libraries down: `workers` sees to that.
    group = TaskGroup(min(_MOST_THREADS, os.cpu_count() or 1))
    #: One is taken for each kernel that was made, the last of them says so.
    last = deque([False] * (len(needed) - 1) + [True])

    def begin(makes: Sequence[Callable[[], object]], ended: Callable[[], None]) -> None:
        for make in makes:
            try:
                group.begin(partial(_make, make, device, ended))
            except RuntimeError:  # there is no thread for it
                return

    def ended() -> None:
        if last.popleft():
            begin(then, lambda: None)

    begin(needed or then, ended if needed else lambda: None)


def _make(make: Callable[[], object], device: Any, ended: Callable[[], None]) -> None:
    _ahead.here = True
    try:
        with device:
            make()
    except Exception as error:  # whatever CuPy and the compiler raise: who needs the kernel gets it again
        _log.debug("could not compile ahead: %r", error)
    finally:
        _ahead.here = False
        ended()


def _tell(name: str, seconds: float) -> None:
    if seconds < _LONG:
        return
    from .memory import gpu_model

    tell(f"compiled {name} for {gpu_model()} in {seconds:.1f} s (once per machine: CuPy keeps it on disk)")
