"""Speed and ratio of the CPU codec on one core, beside pyarrow's LZ4 in the same run.

Usage: CUDF_FSST_DBTEXT=DIR python benchmarks/bench_cpu.py [--mb 16] [--repeat 5] [--out RESULTS.json] [FILE ...]

DIR holds the ten text files of the FSST paper (Boncz, Neumann, Leis, VLDB 2020), one string a line. Encode is
`compress` with a table that is trained before, row lengths included; decode is `decompress`, offsets included. LZ4
takes the whole file with its newlines, as one block. MB/s count characters (for LZ4: bytes of the file), the best of
the repetitions. The last columns divide our speed relative to LZ4 by the original library's (measured once, together
with LZ4, on another machine): 0.6 is the target. The results have the same of `onpair`, of the same run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.registry import of_text
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.layout import TILE_SIZES

#: File: the original library's ratio, encode and decode MB/s, and LZ4's encode and decode MB/s beside it.
ORIGINAL = {
    "c_name": (3.578, 359, 2297, 829, 7792),
    "chinese": (1.674, 399, 2279, 507, 4584),
    "city": (1.948, 261, 1195, 588, 5675),
    "faust": (1.779, 348, 1597, 470, 4692),
    "genome": (3.000, 387, 3283, 504, 2554),
    "hex": (1.874, 551, 1476, 2374, 36142),
    "l_comment": (2.909, 460, 1786, 465, 3717),
    "movies": (1.593, 246, 860, 594, 3838),
    "urls2": (1.955, 422, 2056, 605, 3786),
    "uuid": (2.345, 361, 2575, 616, 4769),
}
#: What the figures of a file are, in their order.
FIGURES = (
    ("cudf_fsst.cpu", "compress_mbps"),
    ("pyarrow.lz4_raw", "compress_mbps"),
    ("cudf_fsst.cpu", "decompress_mbps"),
    ("pyarrow.lz4_raw", "decompress_mbps"),
)


def best(function: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest of `repeat` calls, after one that is not timed."""
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def read(path: Path) -> tuple[bytes, HostStrings]:
    """Return the file's bytes and its lines as a string column."""
    data = path.read_bytes()
    lines = data.removesuffix(b"\n").split(b"\n")
    chars = np.frombuffer(b"".join(lines), np.uint8)
    return data, HostStrings(len(lines), chars, np.cumsum([0, *map(len, lines)], dtype=np.int64))


def repeated(strings: HostStrings, times: int) -> HostStrings:
    """Return the column `times` times over."""
    lengths = np.tile(np.diff(strings.offsets), times)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return HostStrings(strings.rows * times, np.tile(strings.chars, times), offsets)


def onpair(path: Path, mb: float, repeat: int) -> dict[str, float]:
    """The ratio, milliseconds to train a table, and MB/s, of codec ``onpair`` with its own size of tiles."""
    codec, (_, once) = of_text("onpair"), read(path)
    train = best(lambda: cpu.train(once, codec), repeat)
    table = cpu.train(once, codec)
    strings = repeated(once, int(-(-mb * 1e6 // once.chars.size)))
    segments = cpu.compress(strings, codec, table=table)
    if not np.array_equal(cpu.read(segments).chars, strings.chars):
        sys.exit(f"{path.name} does not survive onpair")
    nbytes = strings.chars.size
    return {
        "compress_mbps": nbytes / best(lambda: cpu.compress(strings, codec, table=table), repeat) / 1e6,
        "decompress_mbps": nbytes / best(lambda: cpu.read(segments), repeat) / 1e6,
        "ratio_chars": nbytes / sum(one.codes_nbytes for one in segments),
        "train_ms": train * 1e3,
    }


def measure(path: Path, mb: float, repeat: int, tile_size: int) -> tuple[float, float, list[float]]:
    """Ratio of characters, seconds to train a table, and the `FIGURES` of a file in MB/s."""
    codec = pa.Codec("lz4_raw")
    data, once = read(path)
    train = best(lambda: cpu.train(once), repeat)
    ratio = once.chars.size / sum(s.codes_nbytes for s in cpu.compress(once, tile_size=tile_size))

    times = int(-(-mb * 1e6 // once.chars.size))
    strings = repeated(once, times)
    table = cpu.train(once)
    segments = cpu.compress(strings, table=table, tile_size=tile_size)
    if not np.array_equal(cpu.read(segments).chars, strings.chars):
        sys.exit(f"{path.name} does not survive")
    plain = data * times
    packed = codec.compress(plain)
    calls: list[tuple[Callable[[], Any], int]] = [
        (lambda: cpu.compress(strings, table=table, tile_size=tile_size), strings.chars.size),
        (lambda: codec.compress(plain), len(plain)),
        (lambda: cpu.read(segments), strings.chars.size),
        (lambda: codec.decompress(packed, len(plain)), len(plain)),
    ]
    return ratio, train, [nbytes / best(call, repeat) / 1e6 for call, nbytes in calls]


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=list(ORIGINAL), help="names of files; all if none")
    parser.add_argument("--mb", type=float, default=16, help="repeat each file to at least this many MB")
    parser.add_argument("--repeat", type=int, default=5, help="timed repetitions")
    parser.add_argument("--out", type=Path, help="results file to write")
    parser.add_argument("--tile-size", type=int, default=256, choices=TILE_SIZES)
    options = parser.parse_args()
    folder = os.environ.get("CUDF_FSST_DBTEXT")
    if folder is None:
        sys.exit("set CUDF_FSST_DBTEXT to the folder of the text files")
    os.environ["CUDF_FSST_NUM_THREADS"] = "1"

    print(
        f"{'file':10} {'ratio':>6} {'/orig':>6} {'train ms':>8} | {'encode':>6} {'LZ4':>6} {'/LZ4':>6} {'/orig':>6}",
        end="",
    )
    print(f" | {'decode':>6} {'LZ4':>6} {'/LZ4':>6} {'/orig':>6}")
    logs = []
    records: list[dict[str, Any]] = []
    for name in options.files:
        ratio, *speeds = ORIGINAL[name]
        ours, train, figures = measure(Path(folder) / name, options.mb, options.repeat, options.tile_size)
        logs.append(np.log(ours / ratio))
        for (who, what), value in zip(FIGURES, figures, strict=True):
            records.append({"dataset": f"dbtext.{name}", "codec": who, "measure": what, "value": value})
        mine = {"dataset": f"dbtext.{name}", "codec": "cudf_fsst.cpu", "tile_size": options.tile_size}
        records.append({**mine, "measure": "ratio_chars", "value": ours})
        records.append({**mine, "measure": "train_ms", "value": train * 1e3})
        for what, value in onpair(Path(folder) / name, options.mb, options.repeat).items():
            records.append(
                {"dataset": mine["dataset"], "codec": "cudf_fsst.cpu.onpair", "measure": what, "value": value}
            )
        line = f"{name:10} {ours:6.3f} {ours / ratio:6.3f} {train * 1e3:8.2f}"
        for i in (0, 1):
            fsst, lz4 = figures[2 * i : 2 * i + 2]
            line += f" | {fsst:6.0f} {lz4:6.0f} {fsst / lz4:6.3f} {fsst / lz4 / (speeds[i] / speeds[i + 2]):6.2f}"
        print(line, flush=True)
    print(f"geometric mean of ratio / original: {np.exp(np.mean(logs)):.4f}")
    if options.out:
        result = {
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", "benchmarks/bench_cpu.py", *sys.argv[1:]]),
            "records": records,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on; one core of it was used."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    packages = ("numba", "numpy", "pyarrow")
    return {
        "gpu": None,
        "cpu": models[0] if models else platform.processor(),
        "python": platform.python_version(),
        "versions": {package: metadata.version(package) for package in packages},
    }


if __name__ == "__main__":
    main()
