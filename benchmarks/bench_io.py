"""Time files of a frame on a GPU: load, save, Parquet out, and the first calls of a process.

    python benchmarks/bench_io.py --lineitem DIR --out benchmarks/results/io.json

``--lineitem`` names a folder with lineitem as one Parquet file (tpchgen-cli parquet -s 10). Files are in the page
cache; what is written goes to ``--scratch``. Seconds are medians of whole calls. ``to_parquet_gbps`` counts Arrow's
bytes, and its record with ``codec`` "cudf" is cuDF's ``to_parquet`` of the plain frame; that of
``load_to_device_seconds`` is cuDF's ``read_parquet``. First calls are those of new processes, with an empty cache of
kernels, then once more (``_cached``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records import as_text

_FIRST = """
import sys, time
import cudf, cupy
import cudf_fsst
series = cudf.read_parquet(sys.argv[1], columns=["l_comment"])["l_comment"]
cupy.cuda.runtime.deviceSynchronize()
what = sys.argv[2]
column = None if what == "compress" else cudf_fsst.load(sys.argv[3]).to_device()
call = {
    "compress": lambda: series.fsst.compress(),
    "contains": lambda: column.str.contains("special"),
    "row": lambda: column[5],
}[what]
cupy.cuda.runtime.deviceSynchronize()
begin = time.perf_counter()
made = call()
cupy.cuda.runtime.deviceSynchronize()
print(1e3 * (time.perf_counter() - begin))
"""


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median of whole calls, behind one that does not count."""
    import cupy

    times = []
    for number in range(repeats + 1):
        cupy.cuda.runtime.deviceSynchronize()
        begin = time.perf_counter()
        made = call()
        cupy.cuda.runtime.deviceSynchronize()
        times += [time.perf_counter() - begin] if number else []
        del made
    return statistics.median(times)


def first_calls(parquet: Path, scratch: Path) -> list[dict[str, Any]]:
    """Milliseconds of the first call of a process."""
    found = []
    for what in ("compress", "contains", "row"):
        cache = scratch / f"cache {what}"
        shutil.rmtree(cache, ignore_errors=True)
        for name in (f"first_{what}_ms", f"first_{what}_cached_ms"):
            command = [sys.executable, "-c", _FIRST, str(parquet), what, str(scratch / "l_comment.fsst")]
            made = subprocess.run(
                command, env={**os.environ, "CUPY_CACHE_DIR": str(cache)}, capture_output=True, text=True, check=True
            )
            value = float(made.stdout.split()[-1])
            found.append(record("tpch.l_comment.sf10", "cudf_fsst", name, round(value, 1), "ms"))
    return found


def record(dataset: str, codec: str, measure: str, value: float, unit: str) -> dict[str, Any]:
    """A record, which is printed too."""
    print(f"{measure:32} {codec:10} {value:10.3f} {unit}", flush=True)
    return {"dataset": dataset, "codec": codec, "measure": measure, "value": value, "unit": unit}


def measure(folder: Path, scratch: Path, repeats: int) -> list[dict[str, Any]]:
    """All records."""
    import cudf

    import cudf_fsst

    (parquet,) = folder.glob("**/*.parquet")
    df = cudf.read_parquet(parquet)
    frame = df.fsst.compress()
    nbytes, stored, out = frame.uncompressed_nbytes, scratch / "lineitem.fsst", scratch / "out.parquet"
    name = "tpch.lineitem.sf10"
    found = [record(name, "cudf_fsst", "save_seconds", seconds(lambda: frame.save(stored), repeats), "s")]
    two = ["l_orderkey", "l_shipmode"]
    for codec, load, some in (
        (
            "cudf_fsst",
            lambda: cudf_fsst.load(stored).to_device(),
            lambda: cudf_fsst.load(stored, columns=two).to_device(),
        ),
        ("cudf", lambda: cudf.read_parquet(parquet), lambda: cudf.read_parquet(parquet, columns=two)),
    ):
        found.append(record(name, codec, "load_to_device_seconds", seconds(load, repeats), "s"))
        found.append(record(name, codec, "load_columns_seconds", seconds(some, repeats), "s"))
    found.append(record(name, "cudf_fsst", "load_seconds", seconds(lambda: cudf_fsst.load(stored), repeats), "s"))
    for codec, write in (("cudf_fsst", lambda: frame.to_parquet(out)), ("cudf", lambda: df.to_parquet(out))):
        taken = seconds(write, repeats)
        found.append(record(name, codec, "to_parquet_gbps", round(nbytes / taken / 1e9, 3), "GB/s"))
    if not cudf.read_parquet(out, columns=two).equals(df[two]):
        raise AssertionError("the Parquet file holds something else")
    frame.to_parquet(out)
    if not cudf.read_parquet(out, columns=two).equals(df[two]):
        raise AssertionError("the Parquet file holds something else")
    frame.column("l_comment").save(scratch / "l_comment.fsst")
    return [*found, *first_calls(parquet, scratch)]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, help="a folder for files; default: a temporary one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import timing
    from bench_column import use_pool

    use_pool()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        records = measure(options.lineitem, Path(scratch), options.repeats)
    if options.out:
        options.out.write_text(as_text({"machine": timing.machine(), **timing.run(), "records": records}))


if __name__ == "__main__":
    main()
