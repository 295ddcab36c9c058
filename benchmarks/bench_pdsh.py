"""The 22 queries of TPC-H by Polars' GPU engine, on compressed frames and on Parquet files.

    tpchgen-cli parquet -s 10 -o tpch
    python benchmarks/bench_pdsh.py --tpch tpch --out benchmarks/results/pdsh.json

The queries are those of ``cudf_polars.streaming.benchmarks.pdsh``. ``cudf_fsst`` asks frames that lie compressed in GPU
memory, all eight tables with all columns. ``cudf_polars`` asks ``polars.scan_parquet`` of files in the page cache. Both
ask the same streaming engine of one GPU, with its defaults, and with the variables that the queries' own script sets.
Answers are compared before anything is timed; sums of floats may differ in their last digits.

``seconds`` are medians of the host's clock, the answer in host memory; both take turns. ``resident_bytes`` is what lies
in GPU memory before a query, ``peak_bytes`` that and the most that the engine takes for it, as RMM counts.
``plain_bytes`` is what the tables take in Arrow. ``limited_seconds`` is one run, after one that is not timed, where all
together may take ``limit_bytes``, half of the plain tables; 0 where that did not suffice. ``geomean_seconds`` is the
geometric mean of the seconds of all queries.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import compare
import pdsh
from records import Record, ResultsFile

Found = tuple[str, Record]
OURS, THEIRS = "cudf_fsst", "cudf_polars"
_WARMUP = 2
_FLOATS = 1e-9
#: As the queries' own script sets them.
VARIABLES = {"KVIKIO_COMPAT_MODE": "on", "RAPIDSMPF_NUM_STREAMING_THREADS": "8"}


@dataclass(frozen=True)
class Tables:
    """The tables of both ways.

    Attributes
    ----------
    ways : mapping of str to callable
        Of each way a LazyFrame for a table's name.
    resident : mapping of str to int
        Bytes in GPU memory before a query.
    plain_nbytes : int
        Bytes of all tables in Arrow.
    """

    ways: Mapping[str, Callable[[str], Any]]
    resident: Mapping[str, int]
    plain_nbytes: int


@dataclass(frozen=True)
class Tools:
    """What asks and measures: an answer, bytes at the peak of a call, an engine with a limit, and how often."""

    collect: Callable[[Any], Any]
    peak: Callable[[Callable[[], Any]], int]
    limited: Callable[[int], Any]
    repeat: int


def measure(module: Any, number: int, tables: Tables, scale: float, tools: Tools) -> Iterator[Found]:
    """A query, both ways."""
    calls = {}
    for codec, table in tables.ways.items():
        frame = pdsh.query(module, number, table, scale)
        calls[codec] = partial(tools.collect, frame)
    check(calls[OURS](), calls[THEIRS]())
    times: dict[str, list[float]] = {codec: [] for codec in calls}
    for turn in range(_WARMUP + tools.repeat):
        for codec, call in calls.items():
            begin = time.perf_counter()
            call()
            if turn >= _WARMUP:
                times[codec].append(time.perf_counter() - begin)
    for codec, call in calls.items():
        resident = tables.resident[codec]
        yield codec, {"measure": "seconds", "value": statistics.median(times[codec])}
        yield codec, {"measure": "resident_bytes", "value": resident}
        yield codec, {"measure": "peak_bytes", "value": resident + tools.peak(call)}
    yield "arrow", {"measure": "plain_bytes", "value": tables.plain_nbytes}


def check(found: Any, wanted: Any) -> None:
    """Raise AssertionError where answers differ."""
    from polars.testing import assert_frame_equal

    assert_frame_equal(found, wanted, rel_tol=_FLOATS, abs_tol=0)


def limited(module: Any, tables: Tables, scale: float, tools: Tools, numbers: list[int]) -> Iterator[Found]:
    """All queries within three quarters of the plain tables' bytes."""
    limit = tables.plain_nbytes // 4 * 3
    for codec, table in tables.ways.items():
        with tools.limited(limit - tables.resident[codec]) as collect:
            for number in numbers:
                seconds = 0.0
                try:
                    for _ in range(2):
                        begin = time.perf_counter()
                        collect(pdsh.query(module, number, table, scale))
                        seconds = time.perf_counter() - begin
                except Exception as error:  # of memory, which comes through Polars, the engine and RMM
                    if "memory" not in str(error).lower() and "out_of_memory" not in repr(error):
                        raise
                    seconds = 0.0
                record = {"measure": "limited_seconds", "value": seconds, "limit_bytes": limit}
                yield codec, {"query": f"q{number}", **record}


def geomean(records: list[Record]) -> Iterator[Found]:
    """The geometric mean of both ways' seconds, once all queries are measured."""
    for codec in (OURS, THEIRS):
        some = [one["value"] for one in records if one["measure"] == "seconds" and one["codec"] == codec]
        if len(some) == len(pdsh.NUMBERS):
            yield codec, {"measure": "geomean_seconds", "value": statistics.geometric_mean(some)}


def run(
    module: Any,
    tables: Tables,
    tools: Tools,
    file: ResultsFile,
    options: argparse.Namespace,
    alive: Callable[[], bool],
) -> int:
    """Measure all queries, or those that are missing; an exit status."""
    dataset = f"tpch.sf{options.scale}"
    wanted = [f"q{number}:{dataset}" for number in options.queries]
    wanted += [] if options.no_limit else [f"limited:{dataset}"]
    wanted = [part for part in wanted if not options.missing or file.missing(part)]
    found: dict[str, Any] = {
        f"q{number}": lambda data, options, failed, number=number: (
            (codec, {"query": f"q{number}", **record})
            for codec, record in measure(module, number, tables, options.scale, tools)
        )
        for number in pdsh.NUMBERS
    }
    found["limited"] = lambda data, options, failed: limited(module, tables, options.scale, tools, options.queries)
    found["geomean"] = lambda data, options, failed: geomean(file.content["records"])
    status = compare.run(wanted, lambda dataset: None, found, file, options, alive)
    if not status:  # it takes no time
        options = argparse.Namespace(**{**vars(options), "deadline": math.inf})
        compare.run([f"geomean:{dataset}"], lambda dataset: None, found, file, options, alive)
    return status


class Engine:
    """Polars' streaming engine of one GPU, whose memory is counted and may be limited."""

    def __init__(self, limit: int | None = None) -> None:
        import engine_memory
        from cudf_polars.engine.spmd import SPMDEngine
        from cudf_polars.utils.config import MemoryResourceConfig

        options = {} if limit is None else {"limit": limit}
        memory = MemoryResourceConfig("engine_memory.Counted", options)
        self._engine = SPMDEngine(engine_options={"memory_resource_config": memory, "raise_on_fail": True})
        self._memory = engine_memory.last()

    def collect(self, frame: Any) -> Any:
        """An answer."""
        return frame.collect(engine=self._engine)

    def peak(self, call: Callable[[], Any]) -> int:
        """The most bytes that a call allocates."""
        self._memory.push_counters()
        call()
        return int(self._memory.pop_counters().peak_bytes)

    def close(self) -> None:
        """Give all back."""
        self._engine.shutdown()


def main() -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with the tables' Parquet files")
    parser.add_argument("--scale", type=int, default=10, help="their scale factor")
    parser.add_argument("--queries", nargs="*", type=int, choices=pdsh.NUMBERS, default=list(pdsh.NUMBERS))
    parser.add_argument("--no-limit", action="store_true", help="do not ask within a limit of memory")
    options = compare.parsed(parser, started, repeat=5)
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)

    import polars as pl
    import timing

    import cudf_fsst

    # On the host, where types stay those of the file: cuDF reads days as seconds, and decimals of 15 digits as of 18.
    frames = {
        name: cudf_fsst.read_parquet(options.tpch / f"{name}.parquet", device="cpu").to_device() for name in pdsh.TABLES
    }
    print(f"tables read in {time.perf_counter() - started:.1f} s", flush=True)
    tables = Tables(
        {
            OURS: lambda name: frames[name].lazy(),
            THEIRS: lambda name: pl.scan_parquet(options.tpch / f"{name}.parquet"),
        },
        {OURS: sum(frame.nbytes for frame in frames.values()), THEIRS: 0},
        sum(frame.uncompressed_nbytes for frame in frames.values()),
    )
    engine = Engine()
    closed = False

    @contextmanager
    def within(limit: int) -> Iterator[Callable[[Any], Any]]:
        nonlocal closed
        if not closed:
            engine.close()  # one after another, for each sets the memory of the whole process
            closed = True
        narrow = Engine(limit)
        try:
            yield narrow.collect
        finally:
            narrow.close()

    tools = Tools(engine.collect, engine.peak, within, options.repeat)
    file = ResultsFile(options.out, timing.machine(), **timing.run())
    status = run(pdsh.load(), tables, tools, file, options, timing.alive)
    if not closed:
        engine.close()
    sys.exit(status)


if __name__ == "__main__":
    main()
