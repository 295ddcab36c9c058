"""Interrupts what it does, again and again: ``python tests/interrupts.py KIND SEED COUNT [OPERATION]``.

It is a process of its own, for a crash ends it. KIND says when interrupts come:

* ``signals``: from the system, up to three of them, at a time that is drawn;
* ``starts``: where a thread has been started, and where one is about to be;
* ``steps``: after a function that is called or has returned, wherever threads are dealt with;
* ``all``: COUNT of each.

After each, no thread is at work, nobody writes into memory that was let go of, and the operation gives what it should.
It prints how many interrupts each operation met. What goes wrong ends it with a message, a hang with all stacks.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["CUDF_FSST_NUM_THREADS"] = "4"
os.environ["CUDF_FSST_QUIET"] = "1"

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst.codecs import work
from cudf_fsst.codecs.text import cpu_read, cpu_take, plan
from cudf_fsst.codecs.values import plan as values_plan
from cudf_fsst.files import sections

try:
    from cudf_fsst import workers
except ImportError:
    workers = None
#: An operation hangs if it takes longer (seconds).
HANGS = 60
ROWS = 12_000

Operation = Callable[[], Any]


def small_parts() -> None:
    """Many work items in small columns."""
    plan.segment_size = lambda chars: 40_000
    plan.TABLE_SCOPE = 80_000
    cpu_read.CHUNK_BLOCKS = 2
    cpu_read._CHUNK_ROW_BLOCKS = 4
    cpu_take._CHUNK_ROWS = 1024
    work._FEW_ROWS = work._FEW_CHARS = 1000
    values_plan.PART_NBYTES = 2**14
    sections.WORTH_THREADS = 2**12


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted)
    elif isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted)
    else:
        assert found == wanted, (found, wanted)


def operations(folder: Path) -> dict[str, Operation]:
    """What is interrupted, by name; each checks what it gives."""
    rng = np.random.default_rng(1)
    words = np.array([f"some text {number * 7919 % 10007} of a row" for number in range(3000)], dtype=object)
    text = pd.Series(words[rng.integers(0, 3000, ROWS)] + pd.Series(rng.integers(0, 10**6, ROWS)).astype(str), name="t")
    frame = pd.DataFrame(
        {
            "text": text,
            "few": words[rng.integers(0, 20, ROWS)],
            "number": rng.integers(0, 10**6, ROWS),
            "float": rng.integers(0, 1000, ROWS) / 8,
            "nulls": pd.array(rng.integers(0, 50, ROWS), "Int32"),
        }
    )
    frame.loc[::7, "nulls"] = pd.NA
    number = frame["number"]
    column, numbers, compressed = text.fsst.compress(), number.fsst.compress(), frame.fsst.compress()
    half = ROWS // 2
    pieces = [frame.iloc[:half], frame.iloc[half:]]
    halves = [one.fsst.compress() for one in pieces]
    chosen = rng.integers(0, ROWS, ROWS // 2)
    path, parquet, out = folder / "frame.fsst", folder / "in.parquet", folder / "out.parquet"
    compressed.save(path)
    frame.to_parquet(parquet, row_group_size=ROWS // 6)
    stored = path.read_bytes()
    contains, equal = text.str.contains("77"), number < 5000

    def compressor() -> None:
        made = cudf_fsst.Compressor()
        for one in pieces:
            made.append(one)
        same(made.finish().decompress(), frame)

    def save() -> None:
        target = folder / "saved.fsst"
        target.unlink(missing_ok=True)
        compressed.save(target)
        assert target.read_bytes() == stored

    def to_parquet() -> None:
        out.unlink(missing_ok=True)
        compressed.to_parquet(out)
        same(pd.read_parquet(out), frame)

    pool = cudf_fsst.SpillPool(host_limit="1 MiB", directory=folder / "pool")
    for key in range(3):
        pool[key] = frame

    def spill() -> None:
        for key in range(3):
            same(pool[key], frame)
        pool["other"] = text
        same(pool["other"], text)
        del pool["other"]
        assert len(pool) == 3
        assert pool.host_nbytes <= 1 << 20

    def prefetch() -> None:
        pool.prefetch(1)
        pool.prefetch(2)
        same(pool[2], frame)
        same(pool[1], frame)

    def closing() -> None:
        with cudf_fsst.SpillPool(host_limit="256 KiB", directory=folder / "other") as other:
            other["a"] = frame
            other.prefetch("a")

    return {
        "compress": lambda: same(text.fsst.compress().nbytes, column.nbytes),
        "compress_max": lambda: same(text[:1500].fsst.compress(level="max").decompress(), text[:1500]),
        "compress_numbers": lambda: same(number.fsst.compress().nbytes, numbers.nbytes),
        "compress_frame": lambda: same(frame.fsst.compress().nbytes, compressed.nbytes),
        "decompress": lambda: same(column.decompress(), text),
        "decompress_numbers": lambda: same(numbers.decompress(), number),
        "decompress_frame": lambda: same(compressed.decompress(), frame),
        "take": lambda: same(column.iloc[chosen], text.iloc[chosen]),
        "take_frame": lambda: same(compressed.iloc[chosen], frame.iloc[chosen]),
        "contains": lambda: same(column.str.contains("77"), contains),
        "less": lambda: same(numbers < 5000, equal),
        "value_counts": lambda: same(int(compressed["few"].value_counts().sum()), ROWS),
        "save": save,
        "load": lambda: same(cudf_fsst.load(path).nbytes, compressed.nbytes),
        "concat": lambda: same(cudf_fsst.concat(halves).decompress(), frame),
        "compressor": compressor,
        "read_parquet": lambda: same(cudf_fsst.read_parquet(parquet, device="cpu").decompress(), frame),
        "to_parquet": to_parquet,
        "spill": spill,
        "prefetch": prefetch,
        "closing": closing,
    }


class Interrupts:
    """Signals that come after a while, and raise while they are wanted."""

    def __init__(self) -> None:
        self.left = self.raised = 0
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, *_: object) -> None:
        if self.left > 0:
            self.left -= 1
            self.raised += 1
            raise KeyboardInterrupt

    def during(self, operation: Operation, count: int, after: float, apart: float) -> bool:
        """Whether the operation was interrupted."""
        before = self.raised
        try:
            try:
                self.left = count
                signal.setitimer(signal.ITIMER_REAL, after, apart)
                operation()
            finally:
                self.left = 0
        except KeyboardInterrupt:
            self.left = 0
        except SystemError as error:  # Python's own, where a signal comes while C code handles an error
            self.left = 0
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
        signal.setitimer(signal.ITIMER_REAL, 0)
        return self.raised > before


def at_work() -> list[Any]:
    """Threads that are still at work."""
    if workers is None:
        return [one for one in threading.enumerate() if one is not threading.main_thread()]
    return list(workers._pool.busy)


class Canary:
    """Memory that was free a moment ago."""

    def __init__(self) -> None:
        self._areas = [np.full(size, 0xA5, np.uint8) for size in (1 << 10, 1 << 16, ROWS * 8, 2 << 20, 3 << 20) * 2]

    def check(self) -> None:
        for area in self._areas:
            assert (area == 0xA5).all(), f"{np.count_nonzero(area != 0xA5)} bytes were written into another array"


def check_after(name: str, operation: Operation, running: list[Any]) -> None:
    canary = Canary()
    assert not running, f"{name}: {len(running)} threads are still at work: {running}"
    faulthandler.dump_traceback_later(HANGS, exit=True)
    operation()
    canary.check()


def settled(name: str) -> list[Any]:
    """Threads that are at work though nothing waits for them; what a pool prefetches may go on."""
    while name in ("prefetch", "spill") and at_work():
        time.sleep(0.001)
    return at_work()


def seconds_of(operation: Operation) -> float:
    operation()
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


def signals(rng: np.random.Generator, count: int, chosen: dict[str, Operation], met: Counter[str]) -> None:
    interrupts = Interrupts()
    took = {name: seconds_of(operation) for name, operation in chosen.items()}
    often = np.array(list(took.values())) ** -0.5
    for number, name in enumerate(rng.choice(list(chosen), count, p=often / often.sum()).tolist()):
        after = max(float(rng.random()) * took[name], 1e-5)
        again, apart = int(rng.integers(1, 4)), float(10 ** rng.uniform(-5, -2.5))
        faulthandler.dump_traceback_later(HANGS, exit=True)
        met[name] += interrupts.during(chosen[name], again, after, apart)
        check_after(f"{name}, signals {number}", chosen[name], settled(name))


def starts(rng: np.random.Generator, count: int, chosen: dict[str, Operation], met: Counter[str]) -> None:
    """Threads are few again each time, or they would be started once."""
    interrupts = Interrupts()
    for number in range(count):
        name = str(rng.choice(list(chosen)))
        left = [int(rng.integers(1, 5))]
        late = bool(rng.integers(2))

        def interrupted(start: Callable[..., Any], left: list[int] = left, late: bool = late) -> Callable[..., Any]:
            def begin(*args: Any) -> Any:
                left[0] -= threading.current_thread() is threading.main_thread()
                if left[0] == 0 and not late:
                    raise KeyboardInterrupt
                made = start(*args)
                if left[0] == 0:
                    raise KeyboardInterrupt
                return made

            return begin

        faulthandler.dump_traceback_later(HANGS, exit=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted(threading.Thread.start))
            if workers is not None:
                patch.setattr(workers, "_pool", workers._Pool())
                patch.setattr(workers, "_start_thread", interrupted(workers._start_thread))
            # And another one by a signal, mostly while it waits for the threads.
            interrupts.during(chosen[name], int(rng.integers(3)), 1e-3, 5e-4)
            met[name] += left[0] <= 0
            running = settled(name)
        check_after(f"{name}, start {number}", chosen[name], running)


def steps(rng: np.random.Generator, count: int, chosen: dict[str, Operation], met: Counter[str]) -> None:
    """After each function that is called or returns in the modules that know of threads, as a signal can."""
    interrupts = Interrupts()
    modules = [f"cudf_fsst/{name}" for name in ("workers", "parquet/reads", "spill/")]
    noted = [0, 0]

    def profile(frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_return") and any(name in frame.f_code.co_filename for name in modules):
            noted[0] += 1
            if noted[0] == noted[1]:
                raise KeyboardInterrupt

    def profiled(operation: Operation, at: int) -> None:
        noted[:] = 0, at
        sys.setprofile(profile)
        try:
            operation()
        finally:
            sys.setprofile(None)

    totals = {}
    for name, operation in chosen.items():
        operation()
        profiled(operation, -1)
        totals[name] = noted[0]
    chosen = {name: operation for name, operation in chosen.items() if totals[name]}
    for number in range(count):
        name = list(chosen)[number % len(chosen)]
        faulthandler.dump_traceback_later(HANGS, exit=True)
        at = int(rng.integers(totals[name])) + 1
        interrupts.during(lambda name=name, at=at: profiled(chosen[name], at), 0, 1, 0)
        met[name] += noted[0] >= at
        check_after(f"{name}, step {at}", chosen[name], settled(name))


def main() -> None:
    kind, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    small_parts()
    met: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        found = operations(Path(folder))
        chosen = {name: found[name] for name in sys.argv[4:] or found}
        kinds = {"signals": signals, "starts": starts, "steps": steps}
        for one in kinds if kind == "all" else [kind]:
            kinds[one](np.random.default_rng(seed), count, chosen, met)
    faulthandler.cancel_dump_traceback_later()
    print(dict(met))


if __name__ == "__main__":
    faulthandler.enable()
    main()
