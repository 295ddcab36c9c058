"""Time what leaves the GPU and comes back: a column of strings and a whole table, against plain pinned copies.

    python benchmarks/bench_spill.py --tpch DIR --out benchmarks/results/spill.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10). Times are whole calls, host included, of a
warm pinned pool; the plain copy moves the same buffers, one by one, between GPU memory and pinned memory that is there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cudf
import cupy
import numpy as np
import rmm.mr
import timing
from cupy.cuda import runtime

import cudf_fsst
from cudf_fsst.device.pinned import host_buffer

Record = dict[str, Any]
#: Frames are copied to and from host memory by several threads.
wall_seconds = partial(timing.wall_seconds, threads=True)


def buffers(frame: Any) -> list[tuple[int, int]]:
    """Address and bytes of every buffer of a frame's columns."""
    found = []

    def visit(column: Any) -> None:
        for buffer in (column.data(), column.null_mask()):
            if buffer is not None and buffer.size:
                found.append((buffer.ptr, buffer.size))
        for child in column.children():
            visit(child)

    for column in frame._columns:
        visit(column.plc_column)
    return found


def same(found: Any, wanted: Any) -> bool:
    """Whether the buffers of two frames without nulls have the same bytes."""
    pairs = zip(buffers(found), buffers(wanted), strict=True)
    return all(one[1] == other[1] and bool((view(*one) == view(*other)).all()) for one, other in pairs)


def view(address: int, nbytes: int) -> Any:
    """Device memory as an array of bytes."""
    memory = cupy.cuda.UnownedMemory(address, nbytes, None)
    return cupy.ndarray((nbytes,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))


def plain(frame: Any, repeat: int) -> tuple[float, float, int]:
    """Seconds to pinned memory and back of a frame's buffers as they are, and their bytes."""
    device = buffers(frame)
    host = [host_buffer(nbytes) for _, nbytes in device]
    back = [cupy.empty(nbytes, np.uint8) for _, nbytes in device]

    def out() -> None:
        for (address, nbytes), target in zip(device, host, strict=True):
            runtime.memcpyAsync(target.ctypes.data, address, nbytes, runtime.memcpyDeviceToHost, 0)

    def home() -> None:
        for source, target in zip(host, back, strict=True):
            runtime.memcpyAsync(target.data.ptr, source.ctypes.data, source.size, runtime.memcpyHostToDevice, 0)

    return wall_seconds(out, repeat), wall_seconds(home, repeat), sum(nbytes for _, nbytes in device)


def both(name: str, data: Any, nbytes: int, repeat: int) -> Iterator[Record]:
    """Out and back, compressed on the way; in place; and plain."""
    common = {"dataset": name, "bytes": nbytes}
    host = data.fsst.to_host()
    frame = data.to_frame() if isinstance(data, cudf.Series) else data
    back = host.to_cudf()
    assert same(back.to_frame() if isinstance(back, cudf.Series) else back, frame), f"{name}: not the same"
    del back
    seconds = {
        "to_host": wall_seconds(data.fsst.to_host, repeat),
        "to_cudf": wall_seconds(host.to_cudf, repeat),
        "compress": wall_seconds(data.fsst.compress, repeat),
    }
    column = data.fsst.compress()
    seconds["decompress"] = wall_seconds(column.decompress, repeat)
    seconds["compressed_to_host"] = wall_seconds(column.to_host, repeat)
    seconds["compressed_to_device"] = wall_seconds(host.to_device, repeat)
    seconds["plain_to_host"], seconds["plain_to_device"], raw = plain(frame, repeat)
    for measure, value in seconds.items():
        yield {**common, "measure": f"{measure}_seconds", "value": value}
        yield {**common, "measure": f"{measure}_gbps", "value": nbytes / 1e9 / value}
    yield {**common, "measure": "device_nbytes", "value": raw}
    yield {**common, "measure": "compressed_nbytes", "value": column.nbytes}
    yield {**common, "measure": "memory_freed", "value": 1 - column.nbytes / raw}
    out, back = seconds["to_host"] + seconds["to_cudf"], seconds["plain_to_host"] + seconds["plain_to_device"]
    yield {**common, "measure": "round_trip_against_plain", "value": back / out}


def columns(frame: Any, repeat: int) -> Iterator[Record]:
    """Ratio and rates of every column of a table by itself."""
    for label in frame.columns:
        one = frame[[label]]
        compressed = one.fsst.compress()
        raw = sum(nbytes for _, nbytes in buffers(one))
        common = {"dataset": f"tpch.lineitem.{label}", "bytes": raw, "codec": compressed.codecs[label]}
        for measure, call in (("compress", one.fsst.compress), ("decompress", compressed.decompress)):
            yield {**common, "measure": f"{measure}_gbps", "value": raw / 1e9 / wall_seconds(call, repeat)}
        yield {**common, "measure": "ratio", "value": raw / compressed.nbytes}


def host_serialize(series: Any, nbytes: int, name: str) -> Iterator[Record]:
    """What dask-cuda's spilling calls today."""
    header, frames = series.host_serialize()
    common = {"dataset": name, "bytes": nbytes}
    out = wall_seconds(series.host_serialize, 2, 0)
    back = wall_seconds(lambda: cudf.Series.host_deserialize(header, frames), 2, 0)
    yield {**common, "measure": "host_serialize_gbps", "value": nbytes / 1e9 / out}
    yield {**common, "measure": "host_deserialize_gbps", "value": nbytes / 1e9 / back}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--scale", type=int, default=10, help="its scale factor, for the names")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True, help="results file")
    options = parser.parse_args()
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cudf_fsst.set_pinned_limit(40 << 30)

    frame = cudf.read_parquet(options.tpch / "lineitem.parquet")
    comment = frame["l_comment"]
    chars = comment.fsst.compress().chars_nbytes
    name = f"tpch.l_comment.sf{options.scale}"
    records = []

    def take(found: Iterator[Record]) -> None:
        for record in found:
            value = record["value"]
            record["value"] = float(f"{value:.6g}") if isinstance(value, float) else value
            records.append(record)
            print(*(record[key] for key in ("dataset", "measure")), f"{math.fsum([value]):,.4g}", flush=True)

    take(both(name, comment, chars, options.repeat))
    take(host_serialize(comment, chars, name))
    raw = sum(nbytes for _, nbytes in buffers(frame))
    take(both(f"tpch.lineitem.sf{options.scale}", frame, raw, options.repeat))
    take(columns(frame, 3))
    options.out.write_text(json.dumps(timing.report(records), indent=1) + "\n")


if __name__ == "__main__":
    main()
