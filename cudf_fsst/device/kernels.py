"""CUDA C++ sources and their compilation (NVRTC through CuPy), and compiled kernels on disk.

What is on disk is found by its sources, options and GPU alone: no compiler is loaded to look for it, as CuPy's own
cache does for each set of options. A kernel is loaded when it is first launched. Where somebody waits for the compiler,
it is told to be `QUICK`, and the code is replaced by the best as soon as that is there.

Each kernel is compiled by itself, so a call waits for those that it launches, not for their whole files. The code is
the same (``tests/test_kernels_nvrtc.py``). By NVRTC 12.9 on one core, a first ``contains`` has 1.0 s to compile where
its files take 3.7; of a first ``compress()`` of strings the longest kernel takes 0.6 s, beside the others, where the
longest file takes 1.0. Whoever waits for the compiler is told why (`notices.tell`). `ahead` compiles in threads what
nobody waits for yet.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from ..notices import tell
from ..workers import TaskGroup

#: Options every kernel is compiled with, beside the constants of its codec.
OPTIONS = ("-std=c++17", "-ftz=true")
#: What makes code in half the time, which takes up to a half longer. With "max" that is a third, and 50 times longer.
QUICK = "--Ofast-compile=mid"
#: Whether who waits for a kernel gets quick code first, and threads compile what nobody waits for yet. Benchmarks turn
#: it off: they time the best code, and no Python but a call's own.
QUICK_FIRST = True

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
#: One lock for each kernel's code, so that it is compiled once, by whoever comes first.
_locks: dict[str, threading.Lock] = {}
#: Where the code is for which the compiler ran.
_compiled: dict[str, Path] = {}
#: Threads that compile ahead; most of a machine's cores have nothing else to do then.
_MOST_THREADS = 8
#: Seconds after which they go about what no call has asked for.
LATER = 0.5


@cache
def folder() -> Path:
    """Where the sources lie: inside the package when installed, beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "kernels"
    return installed if installed.is_dir() else package.parent / "kernels"


@cache
def source(name: str) -> str:
    """Full text of ``kernels/<name>.cu``, own headers inlined."""
    inlined: set[str] = set()

    def inline(match: re.Match[str]) -> str:
        if match[1] in inlined:
            return ""
        inlined.add(match[1])
        return _INCLUDE.sub(inline, _text(match[1]))

    return _INCLUDE.sub(inline, _text(f"{name}.cu"))


@cache
def _text(file: str) -> str:
    return (folder() / file).read_text()


def alone(text: str, name: str) -> str:
    """A source text with one kernel: the others become functions that nobody calls, for which there is no code."""
    for macro in _MACRO.findall(text):
        text = re.sub(rf"^{macro}\((?!{name}\b).*\)$", "", text, flags=re.MULTILINE)

    def keep(match: re.Match[str]) -> str:
        return match[0] if match[1] in (name, "name") else f"static __device__ void {match[1]}("

    return _KERNEL.sub(keep, text)


def options(defines: Mapping[str, int]) -> tuple[str, ...]:
    """Compiler options with the constants that host and device share."""
    return (*OPTIONS, *(f"-D{name}={value}u" for name, value in sorted(defines.items())))


@cache
def _made_of(file: str) -> str:
    """What code of a file is made of, besides options: this module, CuPy, CUDA and the source."""
    import cupy

    version = f"{cupy.__version__} {cupy.cuda.runtime.runtimeGetVersion()}"
    return _sha1("\0".join((Path(__file__).read_text(), version, source(file))).encode())


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


class Kernel:
    """A kernel on one device.

    Parameters
    ----------
    file
        Name of the source in ``kernels/``, without its ending.
    name
        The kernel's name.
    defines
        Constants shared with the host.
    shared
        Bytes of shared memory that a thread block may have; 0: 48 KiB, for which nobody has to ask.
    """

    #: What launches it on the current device, a `cupy.cuda.Function`; made when it is first asked for.
    run: Any

    def __init__(self, file: str, name: str, defines: Mapping[str, int], shared: int = 0) -> None:
        self.name, self._file, self._options, self._shared = name, file, options(defines), shared
        self._lock, self._code = threading.Lock(), Path()

    def __getattr__(self, name: str) -> Any:
        if name != "run":
            raise AttributeError(name, name=name, obj=self)
        self.load()
        return self.run

    def load(self) -> None:
        """Have something to launch."""
        with self._lock:
            while "run" not in vars(self):
                code = self._ready()
                try:
                    self._load(code)
                except Exception as error:  # whatever CuPy raises
                    if code in _compiled.values() or "OUT_OF_MEMORY" in str(error):
                        raise
                    # This GPU, or its driver, may not take what another compiler has made.
                    with suppress(OSError):
                        code.unlink()
                        continue
                    raise

    def _load(self, code: Path) -> None:
        import cupy

        raw = cupy.RawModule(path=str(code)).get_function(self.name)
        if self._shared:
            # Once, to the most there is: threads that launch with different amounts share the kernel.
            raw.max_dynamic_shared_size_bytes = self._shared - raw.shared_size_bytes
        self._code, self.run = code, raw.kernel

    def _ready(self) -> Path:
        """Code on disk for the current device: the best, or what the compiler makes `QUICK`."""
        code = _find(self.name, self._key(self._options))
        if code is not None:
            return code
        if not QUICK_FIRST:
            return self._made(self._options)
        try:
            code = self._made((*self._options, QUICK))
        except Exception:  # a compiler that does not know the option; anything else comes again
            return self._made(self._options)
        if not _ahead.here:  # later: a first call may wait for the compiler, which others would hold up
            _AheadThreads().begin_later(self.best)
        return code

    def best(self) -> None:
        """Compile the best code unless it is on disk, and have it launched from now on."""
        code = self._made(self._options)
        with self._lock:
            if "run" in vars(self) and self._code != code:
                self._load(code)

    def _key(self, options: tuple[str, ...]) -> str:
        import cupy

        device = cupy.cuda.Device().compute_capability
        return _sha1("\0".join((_made_of(self._file), self.name, device, *options)).encode())

    def _made(self, options: tuple[str, ...]) -> Path:
        """Code on disk by these options; whoever waits for the compiler is told."""
        import cupy

        key = self._key(options)
        lock = _locks.setdefault(key, threading.Lock())
        start = time.perf_counter()
        waited = lock.locked()
        with lock:
            path = _find(self.name, key)
            if ran := path is None:
                text = alone(source(self._file), self.name)
                code, _ = cupy.cuda.compiler.compile_using_nvrtc(text, options, cache_in_memory=True)
                path = _compiled[key] = _keep(self.name, key, code)
        if key in _compiled and (waited or ran) and not _ahead.here:
            _tell(self.name, time.perf_counter() - start)
        return path


def _disk() -> Path:
    """Where compiled kernels are: beside CuPy's own."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache") / "cudf_fsst"


def _find(name: str, key: str) -> Path | None:
    """Code that was compiled; the file's name says its bytes, too, of which a machine that failed may have lost some.

    What cannot be read is not there: a folder of somebody else, a home that nobody knows, a file that is gone by now.
    """
    with suppress(OSError):
        if key in _compiled and _compiled[key].is_file():
            return _compiled[key]
    with suppress(OSError, RuntimeError):
        place = _disk() / name
        for file in os.listdir(place):
            with suppress(OSError):
                if file.startswith(key) and file == f"{key}-{_sha1((place / file).read_bytes())}":
                    return place / file
    return None


def _keep(name: str, key: str, code: bytes) -> Path:
    """Put code on disk, for all who may read the folder; where nothing can be written, for this process alone."""
    file = f"{key}-{_sha1(code)}"
    with suppress(OSError, RuntimeError):
        place = _disk() / name
        place.mkdir(parents=True, exist_ok=True)
        written = place / secrets.token_hex(16)
        try:
            written.write_bytes(code)
            return written.replace(place / file)
        finally:
            written.unlink(missing_ok=True)
    path = Path(_temporary().name) / file
    path.parent.mkdir(exist_ok=True)  # a forked process that ended has taken it down
    path.write_bytes(code)
    return path


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cudf-fsst-")


class _CompilesAhead(threading.local):
    """Whether this thread compiles what nobody waits for."""

    here = False


_ahead = _CompilesAhead()


def ahead(needed: Iterable[Callable[[], Kernel]], then: Iterable[Callable[[], Kernel]] = ()) -> None:
    """Compile kernels in threads, for the current device, where they are not on disk.

    Parameters
    ----------
    needed
        Each makes a kernel, which is compiled `QUICK` and loaded; the first come first. When all are there, their best
        code is compiled. Who needs one that cannot be is told then.
    then
        The same of kernels of which only the best code is compiled, `LATER`: what compilers, and Python, do beside each
        other takes longer.
    """
    if QUICK_FIRST:
        threads = _AheadThreads(needed, then)
        threads.begin(threads.start)


class _AheadThreads:
    """Threads that compile; they ask what there is to compile, too, for which Python may have to import more."""

    def __init__(self, needed: Iterable[Callable[[], Kernel]] = (), then: Iterable[Callable[[], Kernel]] = ()) -> None:
        import cupy

        self._device = cupy.cuda.Device()
        # The compiler must not run while the process takes its libraries down: `workers` sees to that.
        self._group = TaskGroup(min(_MOST_THREADS, os.cpu_count() or 1))
        self._needed, self._then = needed, then
        self._made: list[Kernel] = []
        self._left, self._lock = 1, threading.Lock()

    def begin(self, work: Callable[..., object], *arguments: Any) -> None:
        """Have something done."""
        with suppress(RuntimeError):  # there is no thread for it
            self._group.begin(partial(self._do, work, *arguments))

    def _do(self, work: Callable[..., object], *arguments: Any) -> None:
        _ahead.here = True
        try:
            with self._device:
                work(*arguments)
        except Exception as error:  # whatever CuPy and the compiler raise: who needs the kernel gets it again
            _log.debug("could not compile ahead: %r", error)
        finally:
            _ahead.here = False

    def start(self) -> None:
        """Have all that is needed loaded."""
        try:
            for make in self._needed:
                with self._lock:
                    self._left += 1
                self.begin(self._load, make)
        finally:
            self._ended()

    def _load(self, make: Callable[[], Kernel]) -> None:
        try:
            kernel = make()
            self._made.append(kernel)
            kernel.load()
        finally:
            self._ended()

    def _ended(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        for kernel in self._made:
            self.begin(kernel.best)
        self.begin_later(self._rest)

    def begin_later(self, work: Callable[[], object]) -> None:
        """Have something done `LATER`."""
        timer = threading.Timer(LATER, self.begin, (work,))
        timer.daemon = True
        timer.start()

    def _rest(self) -> None:
        for make in self._then:
            self.begin(make().best)


def _tell(name: str, seconds: float) -> None:
    if seconds < _LONG:
        return
    from .memory import gpu_model

    tell(f"compiled {name} for {gpu_model()} in {seconds:.1f} s (once per machine: it is kept on disk)")
