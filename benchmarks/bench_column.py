"""Measures compress and decompress of single string columns on one GPU.

    python benchmarks/bench_column.py --tpch DIR --dbtext DIR --out benchmarks/results/column.json

``--tpch`` names a folder with lineitem.parquet, orders.parquet, customer.parquet and part.parquet (tpchgen-cli parquet
-s 10); ``--dbtext`` one with the FSST paper's text files. Every dataset is repeated to at least ``--min-chars``
characters. With ``--nvcomp`` nvCOMP's codecs run on the same characters in the same process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cudf
import cupy
import rmm
import rmm.mr
import rmm.statistics
import timing

import cudf_fsst  # noqa: F401 - registers the accessor
from cudf_fsst.codecs.fsst import plan

TPCH = {
    "l_comment": "lineitem",
    "l_shipinstruct": "lineitem",
    "o_comment": "orders",
    "c_address": "customer",
    "p_name": "part",
}
DBTEXT = ("c_name", "chinese", "city", "faust", "genome", "hex", "l_comment", "movies", "urls2", "uuid")
NVCOMP = ("LZ4", "Snappy", "GDeflate", "Zstd", "ANS", "Bitcomp", "Cascaded")
STAGES = {
    "fsst_train": "1 tables",
    "fsst_encode": "2-4 encode, transpose, gather",
    "fsst_compact": "5 compact",
    "fsst_decode": "decode",
}


def datasets(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Name and cudf.Series of every dataset, repeated to the wanted size."""
    for column, table in TPCH.items():
        if options.tpch and (not options.only or f"tpch.{column}" in options.only):
            series = cudf.read_parquet(Path(options.tpch) / f"{table}.parquet", columns=[column])[column]
            yield f"tpch.{column}.sf{options.scale}", repeated(series, options.min_chars)
    for name in DBTEXT:
        if options.dbtext and (not options.only or f"dbtext.{name}" in options.only):
            lines = (Path(options.dbtext) / name).read_bytes().decode("utf-8", "replace").split("\n")
            yield f"dbtext.{name}", repeated(cudf.Series(lines[:-1] if lines[-1] == "" else lines), options.min_chars)


def repeated(series: Any, min_chars: int) -> Any:
    chars = characters(series).size
    return cudf.concat([series] * -(-min_chars // max(chars, 1)), ignore_index=True) if chars < min_chars else series


def characters(series: Any) -> Any:
    """The characters of a whole (unsliced) series, as a CuPy array."""
    column, _ = series.to_pylibcudf()
    data = column.data()
    memory = cupy.cuda.UnownedMemory(data.ptr, data.size, column)
    return cupy.ndarray((data.size,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))


def peak_extra(call: Any, result_nbytes: Any) -> int:
    """Bytes at the peak of a call beyond its result (its input was there before)."""
    pool = rmm.mr.get_current_device_resource()
    rmm.statistics.enable_statistics()  # counting slows every allocation, so not while times are taken
    try:
        rmm.statistics.push_statistics()
        result = call()
        cupy.cuda.runtime.deviceSynchronize()
        return int(rmm.statistics.pop_statistics().peak_bytes - result_nbytes(result))
    finally:
        rmm.mr.set_current_device_resource(pool)


def measure_column(series: Any, repeat: int) -> Iterator[dict[str, Any]]:
    """Every measure of one column."""
    compress = series.fsst.compress
    column = compress()
    chars = column.chars_nbytes
    back = column.decompress()
    if not bool((characters(back) == characters(series)).all()) or len(back) != len(series):
        raise AssertionError("decompress() did not give the column back")
    common = {
        "bytes": chars,
        "rows": len(series),
        "tile_size": column.segments[0].layout.tile_size,
        "table_scope": plan.segments_per_table(chars) * plan.segment_size(chars),
    }

    def record(measure: str, value: float, **more: Any) -> dict[str, Any]:
        return {"measure": measure, "value": value, **common, **more}

    yield record("ratio_chars", chars / column.codes_nbytes)
    yield record("ratio_column", column.ratio)
    compress_seconds = timing.wall_seconds(compress, repeat)
    decompress_seconds = timing.wall_seconds(column.decompress, repeat)
    yield record("compress_call_gbps", chars / 1e9 / compress_seconds)
    yield record("decompress_call_gbps", chars / 1e9 / decompress_seconds)
    for call, measure in ((compress, "encode_kernel_gbps"), (column.decompress, "decode_kernel_gbps")):
        kernels = timing.kernel_milliseconds(call, repeat)
        yield record(measure, chars / 1e6 / kernels.pop("span"))
        for name, milliseconds in kernels.items():
            yield record("stage_ms", milliseconds, stage=STAGES.get(name, name))
    nbytes = sum(segment.nbytes for segment in column.segments)
    yield record("compress_peak_extra_bytes", peak_extra(compress, lambda result: nbytes))
    yield record(
        "decompress_peak_extra_bytes", peak_extra(column.decompress, lambda result: result.memory_usage(index=False))
    )


def measure_latency(series: Any) -> Iterator[dict[str, Any]]:
    """Latency of small columns cut from a large one."""
    per_row = characters(series).size / len(series)
    for nbytes in (10**6, 10**7, 10**8):
        small = series.iloc[: int(nbytes / per_row)].copy(deep=True)
        column = small.fsst.compress()
        common = {"bytes": column.chars_nbytes, "rows": len(small)}
        yield {
            "measure": "compress_latency_ms",
            "value": 1e3 * timing.wall_seconds(small.fsst.compress, 31, 5),
            **common,
        }
        yield {
            "measure": "decompress_latency_ms",
            "value": 1e3 * timing.wall_seconds(column.decompress, 31, 5),
            **common,
        }


def measure_take(series: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """One million random rows, of the compressed column and of the plain one."""
    rows = cudf.Series(cupy.random.randint(0, len(series), 1_000_000))
    column = series.fsst.compress()
    common = {"bytes": column.chars_nbytes, "rows": 1_000_000}
    yield (
        "cudf_fsst",
        {"measure": "take_1m_ms", "value": 1e3 * timing.wall_seconds(lambda: column.take(rows), 7), **common},
    )
    yield "cudf", {"measure": "take_1m_ms", "value": 1e3 * timing.wall_seconds(lambda: series.take(rows), 7), **common}


def measure_nvcomp(series: Any, repeat: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """nvCOMP on the same characters, default chunks."""
    from nvidia import nvcomp

    chars = characters(series)
    source = nvcomp.as_array(chars)
    for algorithm in NVCOMP:
        codec = nvcomp.Codec(algorithm=algorithm)
        encoded = codec.encode(source)
        nbytes = encoded.buffer_size
        name = f"nvcomp.{algorithm.lower()}"
        for measure, call in (
            ("compress_call_gbps", lambda codec=codec: codec.encode(source)),
            ("decompress_call_gbps", lambda codec=codec, encoded=encoded: codec.decode(encoded)),
        ):
            seconds = timing.wall_seconds(call, max(3, repeat // 2), 1)
            yield name, {"measure": measure, "value": chars.size / 1e9 / seconds, "bytes": chars.size}
        yield name, {"measure": "ratio_chars", "value": chars.size / nbytes, "bytes": chars.size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", help="folder with TPC-H Parquet files")
    parser.add_argument("--scale", type=int, default=10, help="their scale factor, for the names")
    parser.add_argument("--dbtext", help="folder with the DBText files")
    parser.add_argument("--min-chars", type=float, default=1e9)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", nargs="*", help="these datasets only, for example tpch.l_comment")
    parser.add_argument("--nvcomp", nargs="*", help="also nvCOMP, on these datasets (none named: on all)")
    parser.add_argument("--out", help="results file")
    options = parser.parse_args()
    options.min_chars = int(options.min_chars)

    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=32 << 30)
    )
    records: list[dict[str, Any]] = [
        {
            "dataset": "none",
            "codec": "copy",
            "level": "none",
            "measure": "device_copy_gbps",
            "value": timing.copy_gbps(),
        }
    ]

    def add(dataset: str, codec: str, record: dict[str, Any]) -> None:
        records.append({"dataset": dataset, "codec": codec, "level": "default", **record})

    for name, series in datasets(options):
        for record in measure_column(series, options.repeat):
            add(name, "cudf_fsst", record)
        if name.startswith("tpch.l_comment"):
            for record in measure_latency(series):
                add(name, "cudf_fsst", record)
            for codec, record in measure_take(series):
                add(name, codec, record)
        if options.nvcomp is not None and (not options.nvcomp or name in options.nvcomp):
            for codec, record in measure_nvcomp(series, options.repeat):
                add(name, codec, record)
        summary(records, name)
    result = timing.report(records)
    if options.out:
        Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    else:
        json.dump(result, sys.stdout, indent=1)


def summary(records: list[dict[str, Any]], dataset: str) -> None:
    """One line a codec, for whoever waits."""
    codecs: dict[str, list[str]] = {}
    for record in records:
        if record["dataset"] == dataset and record["measure"] != "stage_ms":
            value = record["value"]
            text = f"{value:.0f}" if value > 100 else f"{value:.3g}"
            codecs.setdefault(record["codec"], []).append(f"{record['measure']} {text}")
    for codec, parts in codecs.items():
        print(dataset, codec, "; ".join(parts), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
