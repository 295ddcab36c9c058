"""Measures compress and decompress of single string columns on one GPU: ours alone, while the codec is worked on.

    python benchmarks/bench_column.py --tpch DIR --dbtext DIR --out column.json

``--tpch`` names a folder with lineitem.parquet, orders.parquet, customer.parquet and part.parquet (tpchgen-cli parquet
-s 10); ``--dbtext`` one with the FSST paper's text files. Every dataset is repeated to at least ``--min-chars``
characters. What is published comes from compare.py, which measures with the same functions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cudf
import cupy
import datasets
import rmm
import rmm.mr
import rmm.statistics
import timing
from datasets import characters

import cudf_fsst  # noqa: F401 - registers the accessor
from cudf_fsst.codecs.text import plan

STAGES = {
    "fsst_train": "1 tables",
    "fsst_train_cluster": "1 tables",
    "fsst_encode": "2-4 encode, transpose, gather",
    "text_compact": "5 compact",
    "fsst_decode": "decode",
    **{f"onpair_{name}": "1 tables" for name in ("sample", "count", "collect", "filter", "select", "rank", "index")},
    "onpair_encode": "2-4 encode, transpose, gather",
    "onpair_decode": "decode",
}


def use_pool() -> None:
    """Take memory from a pool, as programs with cuDF do."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=min(64 << 30, free // 2 >> 20 << 20))
    )


def peak_extra(call: Callable[[], Any], result_nbytes: Callable[[Any], int]) -> int:
    """Bytes of RMM's memory at the peak of a call beyond its result (its input was there before)."""
    pool = rmm.mr.get_current_device_resource()
    rmm.statistics.enable_statistics()  # counting slows every allocation, so not while times are taken
    try:
        rmm.statistics.push_statistics()
        result = call()
        cupy.cuda.runtime.deviceSynchronize()
        return int(rmm.statistics.pop_statistics().peak_bytes - result_nbytes(result))
    finally:
        rmm.mr.set_current_device_resource(pool)


def measure_column(series: Any, repeat: int, codec: str = "fsst", **options: Any) -> Iterator[dict[str, Any]]:
    """Every measure of one column by a codec of text; options as `compress` takes them."""

    def compress() -> Any:
        return series.fsst.compress(codec=codec, **options)

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
        span = kernels.pop("span")
        if call is compress and len(column.segments) > 1:
            span = timing.encode_milliseconds(call, repeat)
        yield record(measure, chars / 1e6 / span)
        stages: dict[str, float] = defaultdict(float)
        for name, milliseconds in kernels.items():
            stages[STAGES.get(name, name)] += milliseconds
        for stage, milliseconds in stages.items():
            yield record("stage_ms", milliseconds, stage=stage)
    nbytes = sum(segment.nbytes for segment in column.segments)
    yield record("compress_peak_extra_bytes", peak_extra(compress, lambda result: nbytes))
    yield record(
        "decompress_peak_extra_bytes", peak_extra(column.decompress, lambda result: result.memory_usage(index=False))
    )


def measure_latency(series: Any, codec: str | None = None) -> Iterator[dict[str, Any]]:
    """Latency of small columns cut from a large one; None: as users get them, and read by FSST."""
    per_row = characters(series).size / len(series)
    for nbytes in (10**6, 10**7, 10**8):
        small = series.iloc[: int(nbytes / per_row)].copy(deep=True)
        column = small.fsst.compress(codec=codec or "fsst")
        common = {"bytes": column.chars_nbytes, "rows": len(small)}

        def compress(data: Any = small) -> Any:
            return data.fsst.compress(codec=codec)

        yield {
            "measure": "compress_latency_ms",
            "value": 1e3 * timing.wall_seconds(compress, 31, 5),
            **common,
        }
        yield {
            "measure": "decompress_latency_ms",
            "value": 1e3 * timing.wall_seconds(column.decompress, 31, 5),
            **common,
        }


def measure_reads(series: Any, codec: str) -> Iterator[dict[str, Any]]:
    """Ten rows, whose numbers the host has, and a search for a word, as bench_latency.py and bench_query.py measure."""
    column = series.fsst.compress(codec=codec)
    rows = cupy.random.randint(0, len(series), 10).get()
    common = {"bytes": column.chars_nbytes, "rows": len(series)}
    yield {"measure": "take_10_ms", "value": 1e3 * timing.wall_seconds(lambda: column.take(rows), 31, 5), **common}
    seconds = timing.wall_seconds(lambda: column.str.contains("special", regex=False), 31, 5)
    yield {"measure": "contains_gbps", "value": column.chars_nbytes / 1e9 / seconds, **common}


def measure_take(series: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """One million random rows, of the compressed column and of the plain one."""
    rows = cudf.Series(cupy.random.randint(0, len(series), 1_000_000))
    column = series.fsst.compress(codec="fsst")
    common = {"bytes": column.chars_nbytes, "rows": 1_000_000}
    yield (
        "cudf_fsst",
        {"measure": "take_1m_ms", "value": 1e3 * timing.wall_seconds(lambda: column.take(rows), 7), **common},
    )
    yield "cudf", {"measure": "take_1m_ms", "value": 1e3 * timing.wall_seconds(lambda: series.take(rows), 7), **common}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    datasets.add_options(parser)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--level", default="default")
    parser.add_argument("--out", help="results file")
    options = parser.parse_args()

    use_pool()
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
        records.append({"dataset": dataset, "codec": codec, "level": options.level, **record})

    for name, make in datasets.wanted(options):
        series = make()
        for record in measure_column(series, options.repeat, level=options.level):
            add(name, "cudf_fsst", record)
        if name.startswith("tpch.l_comment"):
            for record in measure_latency(series):
                add(name, "cudf_fsst", record)
            for codec, record in measure_take(series):
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
