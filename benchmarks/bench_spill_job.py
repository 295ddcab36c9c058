"""Time a group-by and join job over more data than the GPU's memory may hold: SpillPool against cuDF's own spilling.

    python benchmarks/bench_spill_job.py --tpch DIR --out benchmarks/results/spill_job.json

All of lineitem (``--tpch``: a folder with lineitem.parquet, tpchgen-cli parquet -s 10) lies in `--parts` frames. RMM
gives a third of their bytes (an adaptor limits it), for data and work together. The job goes over all parts several
times: TPC-H Q1's aggregates, revenue by nation (a join on l_suppkey), and how many comments contain a word. Each way
runs in a process of its own, and both must find the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WAYS = ("pool", "cudf")
#: Of the limit, for the work on one part; the pool gets the rest.
WORK = 0.45


def part_job(part: Any, suppliers: Any) -> tuple[Any, Any, int]:
    """What is asked of one part."""
    part = part[part["l_shipdate"] <= part["l_shipdate"].max()]
    q1 = part.groupby(["l_returnflag", "l_linestatus"]).agg(
        {"l_quantity": "sum", "l_extendedprice": "sum", "l_orderkey": "count"}
    )
    priced = part[["l_suppkey", "l_extendedprice"]].merge(suppliers, on="l_suppkey")
    return (
        q1,
        priced.groupby("nation").agg({"l_extendedprice": "sum"}),
        int(part["l_comment"].str.contains("special").sum()),
    )


def run(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """The job in this process."""
    import cudf
    import cupy
    import pyarrow.parquet as pq
    import rmm.mr

    import cudf_fsst

    path = options.tpch / "lineitem.parquet"
    groups = pq.ParquetFile(path).num_row_groups
    bounds = [groups * i // options.parts for i in range(options.parts + 1)]
    resource = rmm.mr.CudaAsyncMemoryResource()
    rmm.mr.set_current_device_resource(resource)

    def read(i: int) -> Any:
        return cudf.read_parquet(path, row_groups=list(range(bounds[i], bounds[i + 1])))

    if way == "pool":
        nbytes = options.parts * int(read(0).memory_usage(deep=True).sum())
    else:  # cuDF spills from the first buffer on, so the limit has to be there before
        nbytes = options.bytes
    limit = nbytes // 3
    limited = rmm.mr.LimitingResourceAdaptor(resource, allocation_limit=limit)
    rmm.mr.set_current_device_resource(limited)
    suppliers = cudf.DataFrame({"l_suppkey": cupy.arange(1, 100_001), "nation": cupy.arange(1, 100_001) % 25})
    cudf_fsst.set_pinned_limit(64 << 30)

    def passes(store: Any) -> tuple[list[float], Any]:
        seconds, found = [], None
        for _ in range(options.passes):
            start = time.perf_counter()
            results = [part_job(store[i], suppliers) for i in range(options.parts)]
            q1 = cudf.concat([one[0].reset_index() for one in results])
            q1 = q1.groupby(["l_returnflag", "l_linestatus"]).sum().sort_index()
            nations = cudf.concat([one[1].reset_index() for one in results]).groupby("nation").sum().sort_index()
            found = (str(q1.to_pandas().to_dict()), str(nations.to_pandas().to_dict()))
            found = (*found, sum(one[2] for one in results))
            cupy.cuda.runtime.deviceSynchronize()
            seconds.append(time.perf_counter() - start)
        return seconds, found

    more: dict[str, Any] = {}
    begin = time.perf_counter()
    if way == "cudf":
        held = {i: read(i) for i in range(options.parts)}
        load = time.perf_counter() - begin
        seconds, found = passes(held)
        from cudf.core.buffer.spill_manager import get_global_manager

        more["spilled"] = str(get_global_manager() is not None)
    else:
        with cudf_fsst.SpillPool(device_limit=int((1 - WORK) * limit), host_limit="64 GiB") as pool:
            with cudf_fsst.spilling(pool, reserve=0):
                for i in range(options.parts):
                    pool[i] = read(i)
                load = time.perf_counter() - begin
                seconds, found = passes(pool)
            print(pool, file=sys.stderr)
            more["pool_device_nbytes"], more["pool_host_nbytes"] = pool.device_nbytes, pool.host_nbytes
    return {
        "way": way,
        "bytes": nbytes,
        "limit": limit,
        "load_seconds": load,
        "seconds": seconds,
        "found": found,
        **more,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--parts", type=int, default=24)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="results file")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(run(options.way, options)))
        return

    import timing

    records, found = [], []
    for way in WAYS:
        environment = {**os.environ, "CUDF_SPILL": "on" if way == "cudf" else "off"}
        command = [sys.executable, *sys.argv, f"--way={way}", f"--bytes={records[0]['bytes'] if records else 0}"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        found.append(result.pop("found"))
        print({key: value for key, value in result.items() if key != "found"}, flush=True)
        records.append(result)
    if found[0] != found[1]:
        raise RuntimeError(f"the ways do not agree: {str(found[0])[:500]} {str(found[1])[:500]}")
    ratio = sum(records[1]["seconds"]) / sum(records[0]["seconds"])
    records.append({"measure": "pool_speedup", "value": float(f"{ratio:.4g}")})
    print(f"SpillPool is {ratio:.2f} times as fast")
    options.out.write_text(json.dumps(timing.report(records), indent=1) + "\n")


if __name__ == "__main__":
    main()
