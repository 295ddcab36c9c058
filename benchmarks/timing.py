"""How every benchmark here measures on the GPU (one written protocol).

A call is warmed up, then repeated; medians are reported. Kernels have their best code from the first call on, and no
thread compiles others meanwhile. Whole calls are timed by the host's clock around a synchronised call (that is what a
user waits for), kernels by CUDA events around every launch. GB/s are uncompressed characters / 1e9 / seconds.

A call of less than a millisecond is mostly the host's work. Cores of a machine that others use, too, differ by a factor
of up to two. So repeated calls stay on the core that is fastest when they begin: ours and others'.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import cupy
import rmm.mr

from cudf_fsst.codecs.text import cuda_compress, cuda_long
from cudf_fsst.device import kernels
from cudf_fsst.device.timing import Launches, recorded_launches

kernels.QUICK_FIRST = False

#: How the names of kernels begin that encode, compact and decode text.
CODEC_KERNELS = "text_compact", *(f"{codec}_{stage}" for codec in ("fsst", "onpair") for stage in ("encode", "decode"))


def fastest_core() -> int:
    """The core, of those that this process may use, that a short loop takes the least time on."""
    usable = os.sched_getaffinity(0)
    seconds = {}
    try:
        for core in usable:
            os.sched_setaffinity(0, {core})
            seconds[core] = min(timeit.repeat("sum(range(20_000))", number=1, repeat=9))
    finally:
        os.sched_setaffinity(0, usable)
    return min(usable, key=seconds.__getitem__)


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread on the fastest core. Threads that are there already go on where they are."""
    core, usable = fastest_core(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def wall_seconds(call: Callable[[], Any], repeat: int = 7, warmup: int = 2, *, threads: bool = False) -> float:
    """Median seconds of a call, from a synchronised device to a synchronised device.

    With `threads`, a call that begins threads of its own: they would stay on the core of the one that begins them.
    """
    times = []
    for _ in range(warmup):
        call()
    with contextlib.nullcontext() if threads else on_one_core():
        for _ in range(repeat):
            cupy.cuda.runtime.deviceSynchronize()
            start = time.perf_counter()
            result = call()
            cupy.cuda.runtime.deviceSynchronize()
            times.append(time.perf_counter() - start)
            del result
    return statistics.median(times)


class CountedMemory:
    """What the current RMM resource gives is counted from here on."""

    def __init__(self) -> None:
        self._counted = rmm.mr.StatisticsResourceAdaptor(rmm.mr.get_current_device_resource())
        rmm.mr.set_current_device_resource(self._counted)

    def in_use(self) -> int:
        """Bytes that are allocated."""
        return int(self._counted.allocation_counts.current_bytes)

    def peak(self, call: Callable[[], Any]) -> int:
        """The most bytes that a call allocates, beyond what there was."""
        self._counted.push_counters()
        call()
        return int(self._counted.pop_counters().peak_bytes)

    def limited_seconds(self, call: Callable[[], Any], limit: int, repeat: int = 1) -> float:
        """Seconds of a call that may allocate so many bytes beyond what there is; 0 where they do not suffice."""
        rmm.mr.set_current_device_resource(rmm.mr.LimitingResourceAdaptor(self._counted, max(limit, 0)))
        try:
            return wall_seconds(call, repeat, 1, threads=True)
        except MemoryError:
            return 0.0
        finally:
            rmm.mr.set_current_device_resource(self._counted)


def alive() -> bool:
    """Whether the GPU still answers: an error may have ended the process' context."""
    try:
        cupy.cuda.runtime.deviceSynchronize()
    except cupy.cuda.runtime.CUDARuntimeError:
        return False
    return True


def event_seconds(call: Callable[[], Any], repeat: int) -> float:
    """Median seconds of a call by CUDA events in the default stream, which the call's other streams follow and join."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    times = []
    for _ in range(2):
        call()
    with on_one_core():
        for _ in range(repeat):
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return statistics.median(times)


def kernel_milliseconds(call: Callable[[], Any], repeat: int = 7, warmup: int = 2) -> dict[str, float]:
    """Median milliseconds of a call's kernels.

    By kernel name, the sum over its launches; and under ``"span"`` the time from the first launch of an encode or
    decode kernel to the end of the last: less than the sums where streams overlap, and it contains the gaps between
    launches.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    for i in range(warmup + repeat):
        launches: Launches = []
        with recorded_launches(launches):
            call()
        if i < warmup:
            continue
        sums: dict[str, float] = defaultdict(float)
        for name, begin, end in launches:
            sums[name] += end - begin
        codec = [one for one in launches if one[0].startswith(CODEC_KERNELS)]
        sums["span"] = max(end for _, _, end in codec) - min(begin for _, begin, _ in codec)
        for name, value in sums.items():
            samples[name].append(value)
    return {name: statistics.median(values) for name, values in samples.items()}


def encode_milliseconds(call: Callable[[], Any], repeat: int = 7, warmup: int = 2) -> float:
    """Median milliseconds of stages 2 to 5 of a `compress` call of a column of several segments, host included.

    From when the tables are there, the device idle, to when all codes are in their places: CUDA events in the call's
    stream, which its other streams follow and join. Row lengths, which are packed meanwhile, are left out.
    """
    samples: list[float] = []
    plain = cuda_long.compress_long

    def timed(room: Any, *rest: Any) -> None:
        cupy.cuda.runtime.deviceSynchronize()
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(room.lane.stream)
        plain(room, *rest)
        end.record(room.lane.stream)
        end.synchronize()
        samples.append(cupy.cuda.get_elapsed_time(begin, end))

    with (
        mock.patch.object(cuda_compress, "compress_long", timed),
        mock.patch.object(cuda_compress, "first_waves", return_value=cuda_long.First((), [])),
        mock.patch.object(cuda_long, "_pack"),
    ):
        for _ in range(warmup + repeat):
            call()
    return statistics.median(samples[warmup:])


@contextlib.contextmanager
def survived(what: str, failed: list[str]) -> Iterator[None]:
    """Write an error down in `failed`, so that what comes next is measured all the same."""
    try:
        yield
    except Exception as error:  # libraries raise many kinds; none may cost the rest of a run its results
        failed.append(f"{what}: {error!r}")
        cupy.cuda.runtime.deviceSynchronize()  # raises if the GPU's context is lost


def copy_gbps(nbytes: int = 1 << 31) -> float:
    """The GPU's own copy rate, bytes read plus bytes written."""
    source = cupy.random.randint(0, 255, nbytes, dtype=cupy.uint8)
    target = cupy.empty_like(source)
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    cupy.copyto(target, source)
    rates = []
    for _ in range(7):
        begin.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        rates.append(2 * nbytes / 1e6 / cupy.cuda.get_elapsed_time(begin, end))
    return statistics.median(rates)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    versions = {}
    for package in (
        "cudf-cu12",
        "cudf-cu13",
        "rmm-cu13",
        "cupy-cuda12x",
        "cupy-cuda13x",
        "numba",
        "numpy",
        "pandas",
        "pyarrow",
        "nvidia-nvcomp-cu13",
        "polars",
        "cudf-polars-cu13",
    ):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    runtime = cupy.cuda.runtime.runtimeGetVersion()
    return {
        "gpu": properties["name"].decode(),
        "driver": driver.splitlines()[0] if driver else "unknown",
        "cuda": f"{runtime // 1000}.{runtime % 1000 // 10}",
        "python": platform.python_version(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "versions": versions,
    }


def run() -> dict[str, str]:
    """Date and command of this run; absolute paths are cut to their last part."""
    arguments = [Path(part).name if Path(part).is_absolute() else part for part in sys.argv]
    return {"date": datetime.date.today().isoformat(), "command": " ".join(["python", *arguments])}


def report(records: list[dict[str, Any]]) -> dict[str, Any]:
    """A results file: machine, date, command and records."""
    return {"machine": machine(), **run(), "records": records}
