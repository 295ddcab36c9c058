"""Make the whole comparison on one GPU: ours, nvCOMP, cuDF's categories and Parquet and our CPU codec, and the sweeps.

    python benchmarks/compare.py --tpch DIR --dbtext DIR --generated --out benchmarks/results/compare.json

``--tpch`` names a folder with lineitem.parquet, orders.parquet, customer.parquet and part.parquet (tpchgen-cli parquet
-s 10); ``--dbtext`` one with the FSST paper's text files. The work is cut into parts, most wanted first; the file is
written after each. With ``--budget SECONDS`` no part is begun that would probably end too late, and ``--missing``
measures what the file does not have yet, so a short machine time can be used several times:

    python benchmarks/compare.py ... --budget 520              # then again
    python benchmarks/compare.py ... --budget 520 --missing

An error ends its codec, is written to the file, and the rest goes on. With the results there, readme_table.py,
performance_page.py and plots.py write the README, docs/performance.md and the pictures.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import datasets
from measured import DATASET
from records import Record, ResultsFile

LOST_CONTEXT = 3
#: Kinds of parts, each with the datasets it is measured on; None: all.
KINDS: dict[str, tuple[str, ...] | None] = {
    "copy": ("none",),
    "ours": None,
    "latency": (DATASET,),
    "take": (DATASET,),
    "max": None,
    "onpair": None,
    "onpair_max": None,
    "onpair_reads": (DATASET,),
    "nvcomp": None,
    "cudf": None,
    "ingestion": (DATASET,),
    "tile": (DATASET, "generated.log_lines"),
    "scope": (DATASET, "generated.log_lines"),
    "size": (DATASET,),
    "cpu": None,
}

Found = tuple[str, Record]
Measure = Callable[[Any, argparse.Namespace, list[str]], Iterator[Found]]


def parts(names: list[str], kinds: list[str]) -> list[str]:
    """Parts in the order in which they are wanted: all kinds on the compared column, then kind by kind on the rest."""
    wanted = [(kind, name) for kind in kinds for name in (*names, "none") if name in (KINDS[kind] or names)]
    first = [f"{kind}:{name}" for kind, name in wanted if name in (DATASET, "none")]
    return first + [f"{kind}:{name}" for kind, name in wanted if name not in (DATASET, "none")]


def measures() -> dict[str, Measure]:
    """Kind of part -> what measures it; needs a GPU."""
    import bench_column
    import bench_others
    import bench_sweeps
    import timing

    def copy(_: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        yield "copy", {"level": "none", "measure": "device_copy_gbps", "value": timing.copy_gbps()}

    def ours(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        yield from (("cudf_fsst", record) for record in bench_column.measure_column(series, options.repeat))

    def slower(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        for record in bench_column.measure_column(series, few(options), level="max"):
            yield "cudf_fsst", {"level": "max", **record}

    def onpair(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        for record in bench_column.measure_column(series, few(options), "onpair"):
            yield "cudf_fsst.onpair", record

    def onpair_max(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        for record in bench_column.measure_column(series, few(options), "onpair", level="max"):
            yield "cudf_fsst.onpair", {"level": "max", **record}

    def onpair_reads(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        for record in bench_column.measure_latency(series, "onpair"):
            yield "cudf_fsst.onpair", record
        for record in bench_column.measure_reads(series, "onpair"):
            yield "cudf_fsst.onpair", record

    def latency(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        yield from (("cudf_fsst", record) for record in bench_column.measure_latency(series))

    def nvcomp(series: Any, options: argparse.Namespace, failed: list[str]) -> Iterator[Found]:
        # Calls of a tenth of a second, 32 kinds of them: all chunk sizes and more repetitions on one column only.
        chunks = bench_others.CHUNKS if options.thorough else bench_others.CHUNKS[:3]
        yield from bench_others.nvcomp_sweep(series, chunks, few(options), failed)

    def few(options: argparse.Namespace) -> int:
        return max(2, options.repeat // 2) if options.thorough else 2

    return {
        "copy": copy,
        "ours": ours,
        "latency": latency,
        "take": lambda series, options, failed: bench_column.measure_take(series),
        "max": slower,
        "onpair": onpair,
        "onpair_max": onpair_max,
        "onpair_reads": onpair_reads,
        "nvcomp": nvcomp,
        "cudf": lambda series, options, failed: bench_others.measure_cudf(series, few(options), failed),
        "cpu": lambda series, options, failed: bench_others.measure_cpu(series, options.repeat),
        "size": lambda series, options, failed: bench_sweeps.size_sweep(series, options.repeat, failed),
        "tile": lambda series, options, failed: bench_sweeps.tile_sweep(series, options.repeat, failed),
        "scope": lambda series, options, failed: bench_sweeps.scope_sweep(series, options.repeat, failed),
        "ingestion": lambda series, options, failed: bench_sweeps.ingestion(series, options.repeat, failed),
    }


def measure_part(part: str, series: Callable[[str], Any], measure: Measure, options: Any) -> tuple[list[Record], Any]:
    """Records of a part and what failed in it."""
    _, _, dataset = part.partition(":")
    records: list[Record] = []
    failed: list[str] = []
    try:
        for codec, record in measure(series(dataset), options, failed):
            if isinstance(record["value"], float):
                record["value"] = float(f"{record['value']:.6g}")
            records.append({"dataset": dataset, "codec": codec, "level": "default", **record})
            print(shown(records[-1]), flush=True)
    except Exception as error:  # whatever it is, it is written down, and the next part is measured
        failed.append(repr(error))
    return records, failed


def shown(record: Record) -> str:
    """A record in one short line."""
    value = record["value"]
    hidden = ("dataset", "codec", "level", "measure", "value", "bytes", "rows")
    level = "" if record["level"] in ("default", "none") else f" {record['level']}"
    more = "".join(f" {key}={value}" for key, value in record.items() if key not in hidden)
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{record['dataset']} {record['codec']}{level} {record['measure']} {number}{more}"


def run(
    wanted: list[str],
    series: Callable[[str], Any],
    found: dict[str, Measure],
    file: ResultsFile,
    options: argparse.Namespace,
    alive: Callable[[], bool],
) -> int:
    """Measure parts until they are done, the budget is spent, or the GPU does not answer; an exit status."""
    left_out = []
    for part in wanted:
        now = time.perf_counter()
        if now + file.seconds(part.partition(":")[0]) > options.deadline:
            left_out.append(part)
            continue
        kind, _, dataset = part.partition(":")
        options.thorough = dataset == DATASET
        records, failed = measure_part(part, series, found[kind], options)
        file.replace(part, records, time.perf_counter() - now, failed)
        for text in failed:
            print(f"FAILED {part}: {text}", flush=True)
        print(f"{part}: {len(records)} records, {time.perf_counter() - now:.1f} s", flush=True)
        if failed and not alive():
            print("the GPU's context is lost", flush=True)
            return LOST_CONTEXT
    if left_out:
        print(f"no time for {len(left_out)} parts, --missing measures them: {' '.join(left_out)}", flush=True)
    return 0


def parsed(parser: argparse.ArgumentParser, started: float, *, repeat: int, out: bool = True) -> argparse.Namespace:
    """The options of a benchmark that measures part by part, with those that all such have.

    Parameters
    ----------
    started
        When the benchmark began, by `time.perf_counter`.
    repeat
        How often it measures unless it is told.
    out
        Whether it needs a results file.

    Returns
    -------
    argparse.Namespace
        With ``deadline``, after which no part begins.
    """
    parser.add_argument("--repeat", type=int, default=repeat, help="calls of each kind (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds this call may take, data included")
    parser.add_argument("--missing", action="store_true", help="only parts that the file does not have")
    parser.add_argument("--out", type=Path, required=out, help="results file; what it has of other parts is kept")
    options = parser.parse_args()
    options.deadline = started + options.budget
    return options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    datasets.add_options(parser)
    parser.add_argument("--parts", nargs="*", choices=KINDS, default=list(KINDS), help="kinds of parts (default: all)")
    options = parsed(parser, time.perf_counter(), repeat=7)

    import bench_column
    import timing

    from cudf_fsst.codecs.text.layout import LEVELS

    makers = dict(datasets.wanted(options))
    file = ResultsFile(options.out, timing.machine(), **timing.run())
    kinds = [kind for kind in options.parts if kind != "max" or "max" in LEVELS]
    wanted = [part for part in parts(list(makers), kinds) if not options.missing or file.missing(part)]
    bench_column.use_pool()

    @cache
    def series(dataset: str) -> Any:
        if dataset == "none":
            return None
        started = time.perf_counter()
        made = makers[dataset]()
        print(f"{dataset}: read in {time.perf_counter() - started:.1f} s", flush=True)
        return made

    status = run(wanted, series, measures(), file, options, timing.alive)
    if status == LOST_CONTEXT:
        # A new process has a new context. The part that broke this one is in the file, so this comes to an end.
        left = f"--budget={options.deadline - time.perf_counter():.0f}"
        os.execv(sys.executable, [sys.executable, *sys.argv, left, "--missing"])
    sys.stdout.flush()
    if "nvidia.nvcomp" in sys.modules:
        os._exit(status)  # with nvCOMP allocating from RMM, the interpreter was seen to crash when it ends
    sys.exit(status)


if __name__ == "__main__":
    main()
