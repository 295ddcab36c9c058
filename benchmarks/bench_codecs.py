"""Time the codecs of values on the GPU beside the figures of their authors' programs, and strings with each codec.

    python benchmarks/bench_codecs.py --tpch DIR --out benchmarks/results/codecs.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10); columns are cut or repeated to 268 MB.
Columns of strings are whole, their times those of calls, in GB/s of characters. The other times are CUDA events around
whole calls (gfc's encoding contains the packing into one buffer, gpulz's all three kernels), the host's wait for the
size included; every result is decoded and compared first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cudf
import cupy
import rmm.mr
import timing

from cudf_fsst.codecs.values import cuda as values_cuda
from cudf_fsst.codecs.values import cuda_read as fixed
from cudf_fsst.codecs.values import plan
from cudf_fsst.device import waits
from cudf_fsst.device.memory import Lane

NBYTES = 1 << 28
#: Codec, column, its type here, options; the authors' programs on an H200: ratio, encode and decode GB/s.
CASES = (
    ("gfc", "l_extendedprice", "float64", {"dim": 1}, (1.071, 536, 882)),
    ("gfc", "l_quantity", "float64", {"dim": 1}, (1.088, 544, 864)),
    ("gfc", "l_discount", "float64", {"dim": 1}, (1.137, 454, 666)),
    ("gfc", "random walk", "float64", {"dim": 1}, (1.453, 727, 915)),
    ("gfc", "l_orderkey", "int64", {"dim": 1}, (5.524, 1091, 1240)),
    ("gpulz", "l_orderkey", "int32", {"symbol": 4, "window": 32, "chunk": 2048}, (1.89, 61, 140)),
    ("gpulz", "l_orderkey", "int32", {"symbol": 2, "window": 128, "chunk": 4096}, (2.18, 10.5, 111)),
    ("gpulz", "l_quantity", "float64", {"symbol": 4, "window": 128, "chunk": 2048}, (2.55, 24, 97)),
    ("gpulz", "l_orderkey", "int64", {"symbol": 4, "window": 32, "chunk": 2048}, (3.36, 69, 164)),
    ("bitpack", "l_orderkey", "int64", {}, None),
    ("bitpack", "l_orderkey", "int32", {}, None),
    ("bitpack", "l_suppkey", "int32", {}, None),
    ("bitpack", "l_shipdate", "int32", {}, None),
    ("bitpack", "l_extendedprice", "int64", {}, None),
    ("bitpack", "l_quantity", "int64", {}, None),
    ("bitpack", "random", "int64", {}, None),
)

#: Columns of strings, whole, with each codec and with the one that is chosen.
STRINGS = ("l_shipmode", "l_shipinstruct", "l_returnflag", "l_comment")
STRING_CODECS = ("dict", "fsst", None)

Record = dict[str, Any]


def values(path: Path) -> Callable[[str, str], Any]:
    """Column and type -> 268 MB of its values; decimals as numbers, or as hundredths where integers are wanted."""
    names = ["l_extendedprice", "l_quantity", "l_discount", "l_orderkey", "l_suppkey", "l_shipdate"]
    frame = cudf.read_parquet(path / "lineitem.parquet", columns=names)

    def made(name: str, kind: str) -> Any:
        rows = NBYTES // cupy.dtype(kind).itemsize
        if name == "random walk":
            found = 1000 + cupy.cumsum(cupy.random.RandomState(1).normal(0, 0.01, rows))
        elif name == "random":
            return cupy.random.RandomState(1).randint(0, 2**32, 2 * rows, dtype="u4").view("i8")
        elif name == "l_shipdate":
            found = frame[name].astype("datetime64[s]").astype("int64").values // 86400
        elif kind == "float64":
            found = frame[name].astype("float64").values
        elif name in ("l_extendedprice", "l_quantity"):
            found = cupy.rint(frame[name].astype("float64").values * 100)
        else:
            found = frame[name].values
        return cupy.ascontiguousarray(cupy.resize(found.astype(kind), rows))

    return made


def measure(codec: str, array: Any, options: dict[str, int], repeat: int) -> Iterator[tuple[str, float]]:
    rows, itemsize = array.size, array.dtype.itemsize
    signed = array.dtype.kind == "i"
    back = cupy.empty_like(array)
    with Lane() as lane:
        source, choice = (
            values_cuda.StreamSource(array.data.ptr, rows, itemsize),
            plan.Choice(codec, tuple(options.items())),
        )

        def compress() -> Any:
            (made,) = waits.run(lane, values_cuda.compress_as(source, choice, signed=signed, lane=lane))
            return made

        packed = compress()

        def decompress() -> None:
            fixed.decompress([fixed.ReadRequest(((packed,),), back.data.ptr)], lane=lane)

        decompress()
        assert bool((back.view("u1") == array.view("u1")).all()), f"{codec}: not the same after a round trip"
        yield "ratio", array.nbytes / packed.nbytes
        yield "compress_gbps", array.nbytes / 1e9 / timing.event_seconds(compress, repeat)
        yield "decompress_gbps", array.nbytes / 1e9 / timing.event_seconds(decompress, repeat)


def measure_strings(series: Any, codec: str | None, repeat: int) -> Iterator[tuple[str, float]]:
    """The ratio of a column of strings, and calls in GB/s of characters."""

    def compress() -> Any:
        return series.fsst.compress(codec=codec)

    column = compress()
    assert bool((column.decompress() == series).all()), f"{codec}: not the same after a round trip"
    yield "ratio", column.ratio
    yield "compress_gbps", column.chars_nbytes / 1e9 / timing.wall_seconds(compress, repeat)
    yield "decompress_gbps", column.chars_nbytes / 1e9 / timing.wall_seconds(column.decompress, repeat)


def strings(path: Path, repeat: int) -> Iterator[Record]:
    """Records of columns of strings that repeat, and of one that does not."""
    for name in STRINGS:
        series = cudf.read_parquet(path / "lineitem.parquet", columns=[name])[name]
        for codec in STRING_CODECS:
            chosen = "" if codec is not None else ", chosen: " + series.fsst.compress().codec
            found = dict(measure_strings(series, codec, repeat))
            print(name, codec, chosen, "  ".join(f"{one} {value:,.4g}" for one, value in found.items()), flush=True)
            for one, value in found.items():
                shown = {"codec": codec or "chosen", "dataset": name, "dtype": f"str{chosen}", "rows": len(series)}
                yield {**shown, "measure": one, "value": float(f"{value:.6g}")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--scale", type=int, default=10, help="its scale factor, for the names")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--out", type=Path, required=True, help="results file")
    options = parser.parse_args()
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    made = values(options.tpch)
    records: list[Record] = []
    for codec, name, kind, codec_options, authors in CASES:
        array = made(name, kind)
        common: Record = {"codec": codec, "dataset": name, "dtype": kind, "bytes": array.nbytes, **codec_options}
        found = dict(measure(codec, array, codec_options, options.repeat))
        for number, (one, value) in enumerate(found.items()):
            records.append({**common, "measure": one, "value": float(f"{value:.6g}")})
            if authors is not None:
                records[-1]["authors"] = authors[number]
        shown = "  ".join(f"{one} {value:,.4g}" for one, value in found.items())
        print(codec, name, kind, *codec_options.values(), shown, f"authors {authors}" if authors else "", flush=True)
    records += strings(options.tpch, options.repeat)
    options.out.write_text(json.dumps(timing.report(records), indent=1) + "\n")


if __name__ == "__main__":
    main()
