"""Count what our kernels do, by Nsight Compute (``ncu``), over one compress() and one decompress().

    python benchmarks/profile_kernels.py --tpch DIR --out benchmarks/results/kernels.json

Each call runs in a process of its own under ``ncu --clock-control none``, which replays every kernel until it has read
all counters; so the column is smaller than where times are taken, and memory comes from no pool (ncu keeps a copy of
what a kernel may write).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
from measured import DATASET

#: Measure: the counter, and how launches of a kernel are put together: their sum, or their mean weighted by duration.
COUNTERS = {
    "duration_ns": ("gpu__time_duration.sum", "sum"),
    "dram_read_bytes": ("dram__bytes_read.sum", "sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "sum"),
    "instructions": ("smsp__inst_executed.sum", "sum"),
    "thread_instructions": ("smsp__thread_inst_executed.sum", "sum"),
    "active_lanes": ("smsp__thread_inst_executed_per_inst_executed.ratio", "mean"),
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "sum"),
    "shared_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "sum"),
    "issue_slots_pct": ("smsp__issue_active.avg.pct_of_peak_sustained_active", "mean"),
    "occupancy_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active", "mean"),
    "alu_pct": ("sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", "mean"),
    "fma_pct": ("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "mean"),
    "lsu_pct": ("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active", "mean"),
    "shared_pipe_pct": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active", "mean"),
    "dram_pct": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "mean"),
    "registers": ("launch__registers_per_thread", "mean"),
    "block_threads": ("launch__block_size", "mean"),
}
CALLS = ("compress", "decompress")


def child(options: argparse.Namespace) -> None:
    """In the profiled process: one call between the marks that ncu waits for."""
    import cupy
    from bench_sweeps import of_size
    from cupyx.profiler import profile

    import cudf_fsst  # noqa: F401 - registers the accessor

    options.only, options.dbtext, options.generated = [DATASET], None, False
    (_, make), *_ = datasets.wanted(options)
    series = of_size(make(), options.min_chars)
    compress = series.fsst.compress
    column = compress()
    column.decompress()  # kernels are compiled, tables are made
    call = compress if options.call == "compress" else column.decompress
    cupy.cuda.runtime.deviceSynchronize()
    with profile():
        result = call()
        cupy.cuda.runtime.deviceSynchronize()
    del result
    sizes = {"bytes": column.chars_nbytes, "codes_bytes": column.codes_nbytes}
    options.sizes.write_text(json.dumps(sizes))


def launches(text: str) -> list[dict[str, str]]:
    """Rows of ``ncu --csv --page raw``: one a launch; what ncu and the program say before, and the units, left out."""
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    return list(csv.DictReader(io.StringIO("\n".join([lines[header], *lines[header + 2 :]]))))


def number(text: str) -> float:
    return float(text.replace(",", ""))


def summarized(rows: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """One record a kernel and measure, in order of the first launches; counters that ncu did not give are left out."""
    kernels: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        kernels.setdefault(row["Kernel Name"].partition("(")[0], []).append(row)
    for kernel, launched in kernels.items():
        weights = [number(row["gpu__time_duration.sum"]) for row in launched]
        for measure, (counter, how) in COUNTERS.items():
            texts = [row.get(counter, "") for row in launched]
            if all(re.fullmatch(r"[\d.,e+-]+", text) for text in texts):
                values = [number(text) for text in texts]
                value = sum(values)
                if how == "mean":
                    value = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
                yield {"kernel": kernel, "launches": len(launched), "measure": measure, "value": value}


def profiled(command: list[str], ncu: str) -> str:
    """What ncu prints over a program; counters that this GPU does not have are dropped.

    Raises
    ------
    RuntimeError
        It did not work; the message holds the end of what was printed.
    """
    counters = [counter for counter, _ in COUNTERS.values()]
    while True:
        fixed = ["--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw"]
        shown = ["--print-units", "base", "--metrics", ",".join(counters)]
        done = subprocess.run([ncu, *fixed, *shown, *command], capture_output=True, text=True, check=False)
        printed = done.stdout + done.stderr
        unknown = [
            counter for counter in counters if re.search(rf"(?i)(fail|invalid|unknown|not ).*{counter}", printed)
        ]
        if done.returncode == 0 and '"ID"' in done.stdout:
            return done.stdout
        if not unknown:
            raise RuntimeError(f"ncu gave {done.returncode}: {printed[-2000:]}")
        print("not on this GPU:", *unknown, flush=True)
        counters = [counter for counter in counters if counter not in unknown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", required=True, help="folder with TPC-H Parquet files")
    parser.add_argument("--scale", type=int, default=10, help="their scale factor, for the names")
    parser.add_argument("--min-chars", type=lambda text: int(float(text)), default=256e6, help="characters to work on")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--out", type=Path, required=True, help="results file")
    parser.add_argument("--call", choices=CALLS, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.min_chars = int(options.min_chars)
    if options.call:
        child(options)
        return

    import timing

    records = []
    for call in CALLS:
        sizes = options.out.with_suffix(".sizes")
        command = [sys.executable, *sys.argv, f"--call={call}", f"--sizes={sizes}"]
        rows = launches(profiled(command, options.ncu))
        common = {"dataset": DATASET, "codec": "cudf_fsst", "level": "default", "call": call}
        common |= json.loads(sizes.read_text())
        sizes.unlink()
        for record in summarized(rows):
            records.append({**common, **record})
            print(call, record["kernel"], record["measure"], f"{record['value']:,.4g}", flush=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    kept.pop("note", None)  # it was about the records that are replaced
    options.out.write_text(json.dumps({**kept, **timing.report(records)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
