"""Time what one call costs: a frame of 16 columns, small columns, chosen rows; beside what cuDF takes for as much.

    python benchmarks/bench_latency.py --tpch DIR --out benchmarks/results/latency.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10). Milliseconds are the host's: medians of
many calls, from a synchronised device to a synchronised device. GB/s count Arrow bytes, by CUDA events around whole
calls; the first `to_host` of a process is timed by the host's clock, in a process of its own. cuDF's figures are those
of ``copy(deep=True)`` beside `compress` and `decompress`, of ``host_serialize`` and ``host_deserialize`` beside
`to_host` and `to_cudf`, and of the same rows of the plain column or frame. The file is written part by part;
`--budget` and `--missing` are those of compare.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import compare
import numpy as np
from records import Record, ResultsFile

import cudf_fsst

Found = tuple[str, Record]
Call = Callable[[], Any]

#: Datasets, two of them with their scale factor.
SMALL, COLUMN, FRAME = "tpch.lineitem.100k", "tpch.l_comment.sf{}", "tpch.lineitem.sf{}"
#: Kind of part -> its dataset.
KINDS = {"frame16": SMALL, "column": COLUMN, "rows": COLUMN, "frame": FRAME, "first": FRAME}
#: Rows of the small frame.
SMALL_ROWS = 100_000
#: Share of the rows that a mask selects: 2.7 of 60 million.
SELECTED = 0.045
SEED = 20261121


@dataclass(frozen=True)
class Tools:
    """What measures: cuDF, seconds of a call by the host's clock and by the GPU's, each of so many calls."""

    library: Any
    wall: Callable[..., float]
    events: Callable[[Call, int], float]
    first: Callable[[str], float]
    repeat: int


def same(found: Any, wanted: Any) -> bool:
    """cuDF itself does not compare decimals."""
    try:
        return bool(found.equals(wanted))
    except TypeError:
        return bool(found.to_arrow().equals(wanted.to_arrow()))


def check(found: Any, wanted: Any, what: str) -> None:
    """Nothing is timed that gives other values."""
    if not same(found, wanted):
        raise AssertionError(f"{what} did not give the same values")


def milliseconds(
    measure: str, ours: Call, plain: Call, tools: Tools, repeat: int, *, threads: bool = False, **common: Any
) -> Iterator[Found]:
    """A measure of ours and of cuDF; with `threads`, of calls that begin some."""
    for codec, call in (("cudf_fsst", ours), ("cudf", plain)):
        yield codec, {"measure": measure, "value": 1e3 * tools.wall(call, repeat, threads=threads), **common}


def measure_frame16(frame: Any, tools: Tools, failed: list[str]) -> Iterator[Found]:
    """A small frame, compressed, back, out of the GPU and back."""
    compressed, host = frame.fsst.compress(), frame.fsst.to_host()
    check(compressed.decompress(), frame, "decompress()")
    check(host.to_cudf(), frame, "to_cudf()")
    common = {"bytes": compressed.uncompressed_nbytes, "rows": len(frame)}
    header, buffers = frame.host_serialize()
    copy, back = partial(frame.copy, deep=True), partial(type(frame).host_deserialize, header, buffers)
    for measure, ours, plain in (
        ("compress", frame.fsst.compress, copy),
        ("decompress", compressed.decompress, copy),
        ("to_host", frame.fsst.to_host, frame.host_serialize),
        ("to_cudf", host.to_cudf, back),
    ):
        threads = measure in ("to_host", "to_cudf")
        yield from milliseconds(
            f"frame16_100k_{measure}_ms", ours, plain, tools, tools.repeat, threads=threads, **common
        )


def measure_column(series: Any, tools: Tools, failed: list[str]) -> Iterator[Found]:
    """Small columns, cut from a large one."""
    column = series.fsst.compress()
    per_row = column.chars_nbytes / len(series)
    del column
    for name, nbytes, repeat in (("1mb", 10**6, tools.repeat), ("100mb", 10**8, -(-tools.repeat // 3))):
        small = series.iloc[: int(nbytes / per_row)].copy(deep=True)
        column, table = small.fsst.compress(), cudf_fsst.train(small)
        check(column.decompress(), small, "decompress()")
        common = {"bytes": column.chars_nbytes, "rows": len(small)}
        calls = {
            "compress": small.fsst.compress,
            "compress_given_table": partial(small.fsst.compress, table=table),
            "decompress": column.decompress,
        }
        if name != "1mb":
            del calls["compress_given_table"]
        for measure, ours in calls.items():
            copy = partial(small.copy, deep=True)
            yield from milliseconds(f"col_{name}_{measure}_ms", ours, copy, tools, repeat, **common)


def measure_rows(series: Any, tools: Tools, failed: list[str]) -> Iterator[Found]:
    """Ten rows, whose numbers the host has, and those of a mask."""
    column, random = series.fsst.compress(), np.random.default_rng(SEED)
    rows = random.integers(0, len(series), 10)
    check(column.take(rows), series.take(rows), "take()")
    plain = partial(series.take, rows)
    yield from milliseconds("take10_ms", partial(column.take, rows), plain, tools, tools.repeat, rows=rows.size)
    mask = tools.library.Series(random.random(len(series)) < SELECTED)
    check(column.filter(mask), series[mask], "filter()")
    ours, plain = partial(column.filter, mask), partial(series.__getitem__, mask)
    yield from milliseconds("filter_ms", ours, plain, tools, -(-tools.repeat // 3), rows=int(mask.sum()))


def measure_frame(frame: Any, tools: Tools, failed: list[str]) -> Iterator[Found]:
    """A large frame: both calls, with each codec of text, then rows of it."""
    compressed, random = frame.fsst.compress(), np.random.default_rng(SEED)
    nbytes, few = compressed.uncompressed_nbytes, -(-tools.repeat // 10)
    copy = partial(frame.copy, deep=True)
    for name, codecs in (("frame", None), ("frame_onpair", {"l_comment": "onpair"})):
        compress = partial(frame.fsst.compress, codecs)
        chosen = compress()
        check(chosen.decompress(), frame, "decompress()")
        for codec, ratio in (("cudf_fsst", nbytes / chosen.nbytes), ("cudf", 1.0)):
            yield codec, {"measure": f"{name}_ratio", "value": ratio, "bytes": nbytes, "rows": len(frame)}
        for measure, ours in (("compress", compress), ("decompress", chosen.decompress)):
            for codec, call in (("cudf_fsst", ours), ("cudf", copy)):
                rate = nbytes / 1e9 / tools.events(call, few)
                yield codec, {"measure": f"{name}_{measure}_gbps", "value": rate, "bytes": nbytes, "rows": len(frame)}
        del chosen, ours, call  # it takes memory that the next one needs
    library = tools.library
    mask, half = (library.Series(random.random(len(frame)) < share) for share in (SELECTED, 0.5))
    rows = library.Series(random.integers(0, len(frame), 1_000_000))
    every = library.Series(random.permutation(len(frame)))
    for measure, ours, plain, count in (
        ("frame_mask_ms", partial(compressed.__getitem__, mask), partial(frame.__getitem__, mask), int(mask.sum())),
        ("frame_take1m_ms", partial(compressed.take, rows), partial(frame.take, rows), len(rows)),
        ("mask_half_ms", partial(compressed.__getitem__, half), partial(frame.__getitem__, half), int(half.sum())),
        ("take_all_ms", partial(compressed.take, every), partial(frame.take, every), len(every)),
    ):
        found, wanted = ours(), plain()
        for label in frame:
            check(found[label], wanted[label], measure)
        del found, wanted
        yield from milliseconds(
            measure, ours, plain, tools, -(-tools.repeat // (3 if count < 10**7 else 9)), rows=count
        )


def measure_first(frame: Any, tools: Tools, failed: list[str]) -> Iterator[Found]:
    """The first time that a process sends a frame to host memory."""
    nbytes = frame.fsst.compress().uncompressed_nbytes
    for codec in ("cudf_fsst", "cudf"):
        rate = nbytes / 1e9 / tools.first(codec)
        yield codec, {"measure": "first_to_host_gbps", "value": rate, "bytes": nbytes, "rows": len(frame)}


MEASURES = {
    "frame16": measure_frame16,
    "column": measure_column,
    "rows": measure_rows,
    "frame": measure_frame,
    "first": measure_first,
}


def data_of(frame: Any) -> Callable[[str], Any]:
    """Dataset -> its data, cut from the whole table."""

    @cache
    def made(dataset: str) -> Any:
        if dataset == SMALL:
            return frame.iloc[:SMALL_ROWS].copy(deep=True)
        return frame["l_comment"].copy(deep=True) if "l_comment" in dataset else frame

    return made


def run(frame: Any, tools: Tools, file: ResultsFile, options: argparse.Namespace, alive: Callable[[], bool]) -> int:
    """Measure all parts, or those that are missing; an exit status."""
    wanted = [f"{kind}:{name.format(options.scale)}" for kind, name in KINDS.items()]
    wanted = [part for part in wanted if not options.missing or file.missing(part)]
    found = {
        kind: lambda data, options, failed, measure=measure: measure(data, tools, failed)
        for kind, measure in MEASURES.items()
    }
    return compare.run(wanted, data_of(frame), found, file, options, alive)


def first_seconds(frame: Any, codec: str, synchronize: Call) -> float:
    """Seconds of a call that is the first of its kind in this process."""
    call = frame.fsst.to_host if codec == "cudf_fsst" else frame.host_serialize
    synchronize()
    start = time.perf_counter()
    kept = call()
    synchronize()
    seconds = time.perf_counter() - start
    del kept
    return seconds


def main() -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--scale", type=int, default=10, help="its scale factor, for the names")
    parser.add_argument("--first", choices=("cudf_fsst", "cudf"), help="print the seconds of one first call, no more")
    options = compare.parsed(parser, started, repeat=99, out=False)
    if not options.first and not options.out:
        parser.error("--out is needed")

    import bench_column
    import cudf
    import cupy
    import timing

    synchronize = cupy.cuda.runtime.deviceSynchronize
    bench_column.use_pool()
    frame = cudf.read_parquet(options.tpch / "lineitem.parquet")
    if options.first:
        print(first_seconds(frame, options.first, synchronize))
        return

    def first(codec: str) -> float:
        command = [sys.executable, __file__, "--tpch", str(options.tpch), "--first", codec]
        return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

    tools = Tools(cudf, timing.wall_seconds, timing.event_seconds, first, options.repeat)
    sys.exit(run(frame, tools, ResultsFile(options.out, timing.machine(), **timing.run()), options, timing.alive))


if __name__ == "__main__":
    main()
