"""Time groupby, merge, nlargest and sort_values of a compressed frame, beside the library on the plain frame.

    python benchmarks/bench_analytics.py --lineitem DIR --out benchmarks/results/analytics.json

``--lineitem`` names a folder with lineitem as Parquet (tpchgen-cli parquet -s 10). On a GPU it works with cuDF, with
``--cpu`` in host memory with pandas. Both take turns, after one call of each; milliseconds are medians. Answers are
compared before anything is timed. ``merge_peak_bytes`` and ``groupby_q1_peak_bytes`` are RMM's memory beyond the
inputs, with the result, in a call of its own. Records with ``codec`` "cudf" (or "pandas") are those of the plain frame.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from records import as_text

import cudf_fsst  # noqa: F401 - registers the accessor

FLAGS = ["l_returnflag", "l_linestatus"]
Q1 = {"l_quantity": "sum", "l_extendedprice": "sum", "l_discount": "mean", "l_orderkey": "count"}
#: Each gets a frame, and distinct order keys.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "groupby_flag_ms": lambda f, _: f.groupby("l_shipmode")["l_quantity"].sum(),
    "groupby_q1_ms": lambda f, _: f.groupby(FLAGS).agg(Q1),
    "nlargest_ms": lambda f, _: f.nlargest(1000, "l_extendedprice"),
    "merge_ms": lambda f, keys: f.merge(keys, on="l_orderkey"),
    "sort_ms": lambda f, _: f.sort_values("l_shipdate", kind="stable"),
}
_KEYS = 100_000


def read(folder: Path, on_gpu: bool) -> Any:
    """The table, with floats for decimals and times for dates, which pandas would make objects of."""
    files = sorted(folder.glob("*.parquet"))
    named = [file for file in files if "lineitem" in file.name] or files
    if on_gpu:
        import cudf

        df = cudf.read_parquet(named)
        for label in df.columns:
            if "Decimal" in type(df[label].dtype).__name__:
                df[label] = df[label].astype("float64")
        return df
    df = pd.concat([pd.read_parquet(file) for file in named], ignore_index=True)
    for label in ("l_quantity", "l_extendedprice", "l_discount", "l_tax"):
        df[label] = df[label].astype("float64")
    for label in ("l_shipdate", "l_commitdate", "l_receiptdate"):
        df[label] = pd.to_datetime(df[label])
    return df


def check(found: Any, wanted: Any, on_gpu: bool) -> None:
    """Raise AssertionError where answers differ; rows of equal keys may be in another order on a GPU."""
    if on_gpu:
        found, wanted = found.to_pandas(), wanted.to_pandas()
        if len(wanted) < 1000:  # groups, whose order cuDF leaves open
            found, wanted = found.sort_index(), wanted.sort_index()
    if len(wanted) < 20 * _KEYS and len(wanted) > 1000:  # joined rows, whose order it leaves open too
        by = ["l_orderkey", "l_linenumber"]
        found, wanted = (one.sort_values(by, ignore_index=True) for one in (found, wanted))
        pd.testing.assert_frame_equal(found, wanted)
    elif len(wanted) <= 1000:
        compare = pd.testing.assert_series_equal if wanted.ndim == 1 else pd.testing.assert_frame_equal
        compare(found, wanted, check_index_type="equiv")
    elif len(found) != len(wanted) or not found["l_shipdate"].equals(wanted["l_shipdate"]):
        raise AssertionError("sorted frames differ")


def synchronize(on_gpu: bool) -> None:
    if on_gpu:
        import cupy

        cupy.cuda.runtime.deviceSynchronize()


def timed(call: Callable[[], Any], on_gpu: bool) -> float:
    """Milliseconds."""
    synchronize(on_gpu)
    begin = time.perf_counter()
    made = call()
    synchronize(on_gpu)
    found = time.perf_counter() - begin
    del made
    return found * 1e3


def peak_of(call: Callable[[], Any]) -> int:
    """Bytes that RMM gave at most, beyond those that were taken before."""
    import rmm
    import rmm.statistics

    before = rmm.mr.get_current_device_resource()
    rmm.statistics.enable_statistics()
    try:
        rmm.statistics.push_statistics()
        made = call()
        synchronize(True)
        del made
        return int(rmm.statistics.pop_statistics().peak_bytes)
    finally:
        rmm.mr.set_current_device_resource(before)


def measure(df: Any, dataset: str, repeats: int, on_gpu: bool) -> list[dict[str, Any]]:
    """Records of all measures."""
    f = df.fsst.compress()
    names = ("cudf_fsst", "cudf" if on_gpu else "pandas")
    keys = df[["l_orderkey"]].drop_duplicates()
    keys = keys.iloc[:: max(len(keys) // _KEYS, 1)].reset_index(drop=True)
    records = []
    for name, call in CALLS.items():
        if name != "sort_ms" or not on_gpu:
            check(call(f, keys), call(df, keys), on_gpu)
        times: dict[str, list[float]] = {one: [] for one in names}
        for number in range(repeats + 1):
            for one, data in zip(names, (f, df), strict=True):
                taken = timed(lambda data=data, call=call: call(data, keys), on_gpu)  # type: ignore[misc]
                times[one] += [taken] if number else []
        medians = {one: statistics.median(some) for one, some in times.items()}
        for one, value in medians.items():
            records.append({"dataset": dataset, "codec": one, "measure": name, "value": round(value, 3), "unit": "ms"})
        if name in ("groupby_q1_ms", "merge_ms") and on_gpu:
            measure = name.replace("_ms", "_peak_bytes")
            for one, data in zip(names, (f, df), strict=True):
                peak = peak_of(lambda data=data, call=call: call(data, keys))  # type: ignore[misc]
                records.append({"dataset": dataset, "codec": one, "measure": measure, "value": peak, "unit": "B"})
                print(f"{measure} {one} {peak:,}", flush=True)
        print(f"{name:18} {names[0]} {medians[names[0]]:9.2f}  {names[1]} {medians[names[1]]:9.2f}", flush=True)
    return records


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineitem", type=Path, required=True)
    parser.add_argument("--dataset", default="tpch.lineitem.sf10")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="pandas, in host memory")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.cpu:
        from bench_column import use_pool

        use_pool()
    df = read(options.lineitem, not options.cpu)
    print(f"{len(df):,} rows, {len(df.columns)} columns")
    records = measure(df, options.dataset, options.repeats, not options.cpu)
    if options.out:
        arguments = [Path(part).name if Path(part).is_absolute() else part for part in sys.argv]
        head: dict[str, Any] = {
            "machine": {"python": platform.python_version(), "pandas": pd.__version__},
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", *arguments]),
        }
        if not options.cpu:
            import timing

            head = {"machine": timing.machine(), **timing.run()}
        options.out.write_text(as_text({**head, "rows": len(df), "records": records}))


if __name__ == "__main__":
    main()
