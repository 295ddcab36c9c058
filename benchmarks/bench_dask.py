"""Time dask-cuda on the GPUs of one host: the job of bench_spill_job.py over 3 times the device limit, both ways.

    python benchmarks/bench_dask.py --tpch DIR --out benchmarks/results/dask.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10). The job goes over all of a collection that
stays held, several times: TPC-H Q1's aggregates, revenue by nation (a join on l_suppkey), how many comments contain a
word. Both ways, plain and compressed, run on the same workers, by turns: `cudf_fsst.dask.enable` and `disable` switch.
What is spilled, while loading and in the job, is counted where dask-cuda's DeviceHostFile moves objects to the host.
The first round warms up and is not shown in medians.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import dask_cudf  # noqa: F401 - tells Dask how large cuDF's objects are
import pandas as pd
import pyarrow.parquet as pq
from distributed import Client, wait
from distributed.sizeof import safe_sizeof

import cudf_fsst.dask as fsst_dask

SETTINGS = {
    "dataframe.shuffle.method": "tasks",
    "dataframe.convert-string": False,  # what is read is strings already
    "distributed.comm.timeouts.connect": "60s",
}


def count_spilling(dask_worker: Any) -> None:
    """On a worker: count objects, seconds, device bytes and host bytes of what dask-cuda moves out and back."""
    function = dask_worker.data.device_host_func
    dump, load = function.dump, function.load
    moved: dict[str, list[float]] = {"out": [0, 0.0, 0, 0], "back": [0, 0.0, 0, 0]}
    dask_worker.cudf_fsst_moved = moved

    def note(way: str, seconds: float, device: Any, host: Any) -> None:
        for i, more in enumerate((1, seconds, safe_sizeof(device), safe_sizeof(host))):
            moved[way][i] += more

    def out(value: Any) -> Any:
        start = time.perf_counter()
        made = dump(value)
        note("out", time.perf_counter() - start, value, made)
        return made

    def back(value: Any) -> Any:
        start = time.perf_counter()
        made = load(value)
        note("back", time.perf_counter() - start, made, value)
        return made

    function.dump, function.load = out, back


def moved(dask_worker: Any) -> Any:
    """On a worker: what was counted until now."""
    return copy.deepcopy(dask_worker.cudf_fsst_moved)


def read(groups: list[int], path: str, rows: int | None = None) -> Any:
    """On a worker: row groups of a Parquet file."""
    import cudf

    found = cudf.read_parquet(path, row_groups=[groups])
    return found if rows is None else found.iloc[:rows].copy(deep=True)


def groups_of(path: str, rows: float, count: int) -> list[list[int]]:
    """Row groups with about `rows` rows, in `count` pieces."""
    meta = pq.ParquetFile(path).metadata
    kept, total = [], 0
    for i in range(meta.num_row_groups):
        if total >= rows:
            break
        kept.append(i)
        total += meta.row_group(i).num_rows
    count = min(count, len(kept))
    return [kept[len(kept) * k // count : len(kept) * (k + 1) // count] for k in range(count)]


def suppliers(_: int) -> Any:
    """On a worker: the nation of every supplier."""
    import cudf
    import cupy

    keys = cupy.arange(1, 100_001)
    return cudf.DataFrame({"l_suppkey": keys, "nation": keys % 25})


def job(lineitem: Any, nations: Any) -> list[Any]:
    """One pass over the collection: what bench_spill_job.py asks of its parts."""
    shipped = lineitem[lineitem["l_shipdate"] <= pd.Timestamp("1998-09-02")]
    # What is summed becomes float64 first; what is held stays as in the file.
    counted = shipped[["l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_orderkey"]]
    q1 = (
        counted.astype({"l_quantity": "float64", "l_extendedprice": "float64"})
        .groupby(["l_returnflag", "l_linestatus"])
        .agg({"l_quantity": "sum", "l_extendedprice": "sum", "l_orderkey": "count"})
    )
    priced = shipped[["l_suppkey", "l_extendedprice"]].astype({"l_extendedprice": "float64"})
    priced = priced.merge(nations, on="l_suppkey")
    revenue = priced.groupby("nation").agg({"l_extendedprice": "sum"})
    special = shipped["l_comment"].str.contains("special").sum()
    *tables, count = dask.compute(q1, revenue, special)
    frames = [one.to_pandas() if hasattr(one, "to_pandas") else one for one in tables]
    return [one.sort_index() for one in frames] + [pd.DataFrame({"special": [int(count)]})]


def medians(records: list[dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    """Of both ways' rounds behind the first."""
    found = []
    for way, label in (("plain", "plain dask-cuda"), ("compressed", "`cudf_fsst.dask.enable()`")):
        warm = [one for one in records if one["way"] == way and one["round"]]
        if warm:
            seconds = statistics.median(one["seconds"] for one in warm)
            load = statistics.median(one["load_seconds"] for one in warm)
            spilled = statistics.median(one["spilled"]["out"][3] for one in warm)
            summary = {"workers": workers, "rounds": len(warm), "load_seconds": load, "seconds": seconds}
            summary["spilled_nbytes"] = spilled
            found.append({"label": label, **summary})
    return found


def write(records: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write the results file: after every round, so that none is lost."""
    import timing

    content = timing.report([*records, *medians(records, options.workers)])
    content["machine"]["gpus"] = options.workers
    options.out.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--rows", type=float, default=60e6, help="of lineitem, about")
    parser.add_argument("--times", type=float, default=3, help="how many times the device limit the data is")
    parser.add_argument("--partitions", type=int, default=48, help="of lineitem")
    parser.add_argument("--passes", type=int, default=3, help="of the job")
    parser.add_argument("--workers", type=int, default=2, help="one for each GPU")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--budget", type=float, default=300, help="seconds after which no round begins")
    parser.add_argument("--out", type=Path, required=True, help="results file")
    options = parser.parse_args()
    begin = time.perf_counter()

    from dask_cuda import LocalCUDACluster

    path = str(options.tpch / "lineitem.parquet")
    groups = groups_of(path, options.rows, options.partitions)
    total = safe_sizeof(read(groups[0], path)) * len(groups)
    limit = int(total / options.times / options.workers)
    print(f"{total / 1e9:.2f} GB over {options.workers} GPUs with a limit of {limit / 1e9:.2f} GB each", flush=True)

    def lineitem(count: int | None = None, rows: int | None = None) -> Any:
        meta = read(groups[0], path, rows).head(0)
        return dd.from_map(read, groups[:count], path=path, rows=rows, meta=meta)

    records: list[dict[str, Any]] = []
    known: list[Any] = []
    with (
        dask.config.set(SETTINGS),
        LocalCUDACluster(
            n_workers=options.workers,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=tempfile.mkdtemp(prefix="dask-"),
            rmm_async=True,
            device_memory_limit=limit,
            memory_limit="100GB",
            protocol="tcp",
            pre_import="cudf,dask_cudf,cudf_fsst.dask",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(count_spilling)
        nations = dd.from_map(suppliers, [0], meta=suppliers(0).head(0)).persist()
        job(lineitem(2, 10_000), nations)  # imports and kernels
        for number in range(options.repeat + 1):
            for way in ("compressed", "plain"):
                if number > 1 and time.perf_counter() - begin > options.budget:
                    continue
                (fsst_dask.enable if way == "compressed" else fsst_dask.disable)(client)
                before = client.run(moved)
                start = time.perf_counter()
                held = lineitem().persist()
                wait(held)
                loaded = time.perf_counter()
                for _ in range(options.passes):
                    found = job(held, nations)
                seconds = time.perf_counter() - loaded
                del held
                after = client.run(moved)
                spilled = {
                    how: [sum(after[one][how][i] - before[one][how][i] for one in after) for i in range(4)]
                    for how in ("out", "back")
                }
                known = known or found
                for one, other in zip(found, known, strict=True):
                    pd.testing.assert_frame_equal(one, other, check_dtype=False, rtol=1e-9)
                common = {"way": way, "round": number, "bytes": total, "limit": limit, "passes": options.passes}
                common |= {"load_seconds": loaded - start, "seconds": seconds}
                records.append({**common, "spilled": spilled})
                print(
                    f"round {number} {way:10} load {loaded - start:.2f} s, job {seconds:.2f} s, {spilled}", flush=True
                )
                time.sleep(0.3)
                write(records, options)
    for record in medians(records, options.workers):
        print(record, flush=True)


if __name__ == "__main__":
    main()
