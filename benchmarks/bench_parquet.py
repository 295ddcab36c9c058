"""Time reading Parquet into compressed frames, beside the libraries that read it plain.

    tpchgen-cli parquet -s 10 -T lineitem -o tpch
    python benchmarks/bench_parquet.py --tpch tpch --out benchmarks/results/parquet.json

GB/s count the bytes of the same table in Arrow, by the host's clock, from an idle GPU to an idle GPU; medians of calls
that follow each other, so that the file is in memory. ``peak_bytes`` is the most that was allocated during a call, as
RMM counts, ``result_bytes`` what is left of it. What was read is compared before anything is timed.

read
    lineitem as tpchgen-cli writes it, in row groups of some 114,000 rows.
groups1m
    The same table in row groups of a million rows, as cuDF writes it.
limited
    With no more GPU memory than `--limit`: seconds of reading, and of reading and counting the rows with a text; 0
    where memory did not suffice.
sf100
    The same of scale factor 100, in several files, with no more than `--sf100-limit`. tpchgen-cli writes them first,
    unless they are there: 24 GB, in about 70 s on 16 cores.
cpu
    Into host memory, beside pyarrow.

The file is written part by part; `--budget` and `--missing` are those of compare.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import compare
import pyarrow.parquet as pq
from records import Record, ResultsFile

import cudf_fsst
from cudf_fsst import CompressedFrame

Found = tuple[str, Record]
Call = Callable[[], Any]

DATASET = "tpch.lineitem.sf{}"
KINDS = ("read", "groups1m", "limited", "cpu", "sf100")
#: Unless they are named; sf100 takes minutes, and room on the disk.
USUAL = KINDS[:-1]
MILLION = 1_000_000
LARGE, LARGE_FILES = 100, 16
COLUMN, TEXT = "l_comment", "special"


@dataclass(frozen=True)
class Tools:
    """What measures.

    Attributes
    ----------
    read, ours : callable
        Of a path a frame: the library's on the GPU, and ours there.
    wall : callable
        Seconds of a call, of so many.
    peak : callable
        The most bytes that a call allocates.
    limited : callable
        Seconds of a call that may allocate so many bytes; 0 where they do not suffice.
    rewrite : callable
        Writes a Parquet file as another one, in row groups of so many rows.
    repeat : int
    """

    read: Callable[[Path], Any]
    ours: Callable[[Path], CompressedFrame]
    wall: Callable[[Call, int], float]
    peak: Callable[[Call], int]
    limited: Callable[[Call, int], float]
    rewrite: Callable[[Path, Path, int], None]
    repeat: int


def check(found: CompressedFrame, wanted: Any) -> None:
    """Nothing is timed that gives other values; column by column, for both lie there."""
    for name in wanted.columns:
        one, other = found.column(name).decompress(), wanted[name]
        try:
            same = one.equals(other)
        except TypeError:  # cuDF itself does not compare decimals
            same = one.astype("float64").equals(other.astype("float64"))
        if not same:
            raise AssertionError(f"column {name!r} was not read as it is")


def measure_read(path: Path, tools: Tools) -> Iterator[Found]:
    """Rates and memory of both."""
    found = tools.ours(path)
    wanted = tools.read(path)
    check(found, wanted)
    common = {
        "bytes": found.uncompressed_nbytes,
        "rows": len(found),
        "row_groups": pq.read_metadata(path).num_row_groups,
    }
    sizes = {"cudf_fsst": found.nbytes, "cudf": int(wanted.memory_usage(deep=True).sum())}
    yield "cudf_fsst", {"measure": "ratio_frame", "value": found.ratio, **common}
    del found, wanted
    for codec, call in (("cudf_fsst", tools.ours), ("cudf", tools.read)):
        seconds = tools.wall(partial(call, path), tools.repeat)
        yield codec, {"measure": "read_parquet_gbps", "value": common["bytes"] / 1e9 / seconds, **common}
        yield codec, {"measure": "peak_bytes", "value": tools.peak(partial(call, path)), **common}
        yield codec, {"measure": "result_bytes", "value": sizes[codec], **common}


def row_count(path: Path) -> int:
    """Rows of a file, or of all files of a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return sum(pq.read_metadata(file).num_rows for file in files)


def measure_groups(path: Path, tools: Tools) -> Iterator[Found]:
    """The same of larger row groups."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        rewritten = Path(folder) / path.name
        tools.rewrite(path, rewritten, MILLION)
        yield from measure_read(rewritten, tools)


def answer(read: Callable[[Path], Any], path: Path) -> int:
    """Read, and count the rows with a text."""
    found = read(path)
    text = found.column(COLUMN) if isinstance(found, CompressedFrame) else found[COLUMN]
    return int(text.str.contains(TEXT, regex=False).sum())


def measure_limited(path: Path, limit: int, tools: Tools) -> Iterator[Found]:
    """Reading, and a question, where memory is short."""
    common = {"limit_bytes": limit, "rows": row_count(path)}

    for codec, read in (("cudf_fsst", tools.ours), ("cudf", tools.read)):
        for measure, call in (
            ("limited_read_seconds", partial(read, path)),
            ("limited_query_seconds", partial(answer, read, path)),
        ):
            yield codec, {"measure": measure, "value": tools.limited(call, limit), **common}


def measure_large(folder: Path, limit: int, tools: Tools) -> Iterator[Found]:
    """A table that the GPU has no room for."""
    if not folder.is_dir():
        command = ["tpchgen-cli", "parquet", "-s", str(LARGE), "-T", "lineitem", "-p", str(LARGE_FILES)]
        subprocess.run([*command, "-o", str(folder.parent), "--no-progress"], check=True)
    wanted = sum(answer(tools.read, file) for file in sorted(folder.iterdir()))
    if (found := answer(tools.ours, folder)) != wanted:
        raise AssertionError(f"{found} rows have the text, not {wanted}")
    frame = tools.ours(folder)
    common = {"rows": len(frame), "bytes": frame.uncompressed_nbytes, "found": wanted}
    yield "cudf_fsst", {"measure": "result_bytes", "value": frame.nbytes, **common}
    del frame
    yield "cudf_fsst", {"measure": "peak_bytes", "value": tools.peak(partial(tools.ours, folder)), **common}
    yield from measure_limited(folder, limit, tools)


def measure_cpu(path: Path, tools: Tools) -> Iterator[Found]:
    """Into host memory."""
    ours = partial(cudf_fsst.read_parquet, path, device="cpu")
    found, wanted = ours(), pq.read_table(path)
    for name in wanted.column_names:
        if not found.column(name).to_arrow().cast(wanted[name].type).equals(wanted[name].combine_chunks()):
            raise AssertionError(f"column {name!r} was not read as it is")
    common = {"bytes": found.uncompressed_nbytes, "rows": len(found)}
    del found, wanted
    for codec, call in (("cudf_fsst.cpu", ours), ("pyarrow", partial(pq.read_table, path))):
        seconds = tools.wall(call, 3)
        yield codec, {"measure": "read_parquet_gbps", "value": common["bytes"] / 1e9 / seconds, **common}


def run(path: Path, tools: Tools, file: ResultsFile, options: argparse.Namespace, alive: Callable[[], bool]) -> int:
    """Measure all parts, or those that are missing; an exit status."""
    dataset = DATASET.format(options.scale)
    of = {"groups1m": f"{dataset}.groups1m", "sf100": DATASET.format(LARGE)}
    wanted = [f"{kind}:{of.get(kind, dataset)}" for kind in options.parts]
    wanted = [part for part in wanted if not options.missing or file.missing(part)]
    large = path.parent / f"sf{LARGE}" / "lineitem"
    found = {
        "read": lambda path, options, failed: measure_read(path, tools),
        "groups1m": lambda path, options, failed: measure_groups(path, tools),
        "limited": lambda path, options, failed: measure_limited(path, options.limit, tools),
        "cpu": lambda path, options, failed: measure_cpu(path, tools),
        "sf100": lambda _, options, failed: measure_large(large, options.sf100_limit, tools),
    }
    return compare.run(wanted, lambda dataset: path, found, file, options, alive)


def main() -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--scale", type=int, default=10, help="its scale factor, for the names")
    parser.add_argument("--parts", nargs="*", choices=KINDS, default=list(USUAL), help="default: all but sf100")
    parser.add_argument("--limit", type=int, default=4 << 30, help="bytes of GPU memory of the part limited")
    parser.add_argument("--sf100-limit", type=int, default=32 * 10**9, help="bytes of GPU memory of the part sf100")
    options = compare.parsed(parser, started, repeat=7)

    import bench_column
    import cudf
    import timing

    bench_column.use_pool()
    memory = timing.CountedMemory()

    def rewrite(path: Path, to: Path, rows: int) -> None:
        cudf.read_parquet(path).to_parquet(to, row_group_size_rows=rows, index=False)

    ours = partial(cudf_fsst.read_parquet, device="gpu")
    measured = (partial(timing.wall_seconds, threads=True), memory.peak, memory.limited_seconds)
    tools = Tools(cudf.read_parquet, ours, *measured, rewrite, options.repeat)
    file = ResultsFile(options.out, timing.machine(), **timing.run())
    sys.exit(run(options.tpch / "lineitem.parquet", tools, file, options, timing.alive))


if __name__ == "__main__":
    main()
