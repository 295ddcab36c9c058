"""Measures how our codec behaves as one thing changes: the column's size, tiles, table scopes, blocks over PCIe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import cudf
import cupy
import timing
from bench_column import measure_column
from bench_others import (
    Found,
    arrow_nbytes,
    both_rates,
    check,
    measure_nvcomp,
    nvcomp_module,
    pinned_copy,
)
from datasets import characters

from cudf_fsst.codecs.text import plan
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.device.memory import pinned

#: Characters of the columns of a sweep over sizes.
SIZES = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30, 1 << 33)
#: Codecs of nvCOMP beside ours there, up to this size.
BESIDE, BESIDE_MAX = ("LZ4", "Zstd", "ANS"), 1 << 30
SCOPES = tuple(plan.MIB << shift for shift in range(5, 12))
BLOCKS = (1, 2, 4, 8, 16, 32)
RATES = ("compress_call_gbps", "decompress_call_gbps")
SWEPT = ("ratio_chars", "ratio_column", *RATES)
KERNELS = ("encode_kernel_gbps", "decode_kernel_gbps")


def of_size(series: Any, nbytes: int) -> Any:
    """About so many characters of a column, repeated if it has fewer."""
    chars = characters(series).size
    if nbytes > chars:
        series = cudf.concat([series] * -(-nbytes // chars), ignore_index=True)
        chars = characters(series).size
    return series.iloc[: max(1, int(len(series) * nbytes / chars))].copy(deep=True)


def size_sweep(series: Any, repeat: int, failed: list[str]) -> Iterator[Found]:
    """Both calls on columns from 64 KB to 8 GB, and nvCOMP beside."""
    for nbytes in SIZES:
        with timing.survived(f"{nbytes} bytes", failed):
            part = of_size(series, nbytes)
            column = part.fsst.compress(codec="fsst")
            check(column.decompress(), part)
            times = repeat if nbytes > 1 << 28 else 3 * repeat
            common = {"bytes": column.chars_nbytes, "rows": len(part), "sweep": "size"}
            rates = both_rates(part.fsst.compress, lambda made: made.decompress(), column, column.chars_nbytes, times)
            for record in rates:
                yield "cudf_fsst", {**record, **common}
            del column
            for algorithm in BESIDE if nbytes <= BESIDE_MAX else ():
                for record in measure_nvcomp(part, algorithm, 1 << 16, times, 0):
                    if record["measure"] in RATES:
                        yield f"nvcomp.{algorithm.lower()}", {**record, "sweep": "size"}


def tile_sweep(series: Any, repeat: int, failed: list[str]) -> Iterator[Found]:
    """Every tile size."""
    for tile_size in TILE_SIZES:
        with timing.survived(f"tiles of {tile_size}", failed):
            for record in measure_column(series, repeat, tile_size=tile_size):
                if record["measure"] in (*SWEPT, *KERNELS, "stage_ms"):
                    yield "cudf_fsst", {**record, "sweep": "tile"}


def scope_sweep(series: Any, repeat: int, failed: list[str]) -> Iterator[Found]:
    """Tables for parts of 32 MiB to 2 GiB: what the plan would be with other constants (segments get smaller too)."""
    for scope in SCOPES:
        constants = {"TABLE_SCOPE": scope, "SEGMENT_MAX": min(plan.SEGMENT_MAX, scope)}
        with timing.survived(f"scopes of {scope}", failed), mock.patch.multiple(plan, **constants):
            for record in measure_column(series, repeat):
                if record["measure"] in (*SWEPT, *KERNELS):
                    yield "cudf_fsst", {**record, "sweep": "scope", "scope_limit": scope}


def arriving(call: Callable[[], Any], chars: int, repeat: int, **more: Any) -> dict[str, Any]:
    """A record of characters that arrive in GPU memory, uncompressed, a second."""
    return {
        "measure": "arrive_gbps",
        "value": chars / 1e9 / timing.wall_seconds(call, repeat, 2),
        "bytes": chars,
        "sweep": "ingestion",
        **more,
    }


def ingestion(series: Any, repeat: int, failed: list[str]) -> Iterator[Found]:
    """How fast a column arrives over PCIe: plain; compressed, then decompressed; the same in blocks, overlapped."""
    chars = int(characters(series).size)
    out, back = pinned_copy(series)
    plain = arrow_nbytes(series)
    host = out()
    yield "copy", arriving(lambda: back(host), chars, repeat, moved_bytes=plain, blocks=1)

    for blocks in BLOCKS:
        with timing.survived(f"{blocks} blocks", failed):
            pieces = cut(series, blocks)
            columns = [piece.fsst.compress(codec="fsst") for piece in pieces]
            hosts = [column.to_host() for column in columns]
            more = {"moved_bytes": sum(column.nbytes for column in columns), "blocks": blocks}
            del columns
            yield "cudf_fsst", arriving(partial(one_by_one, hosts), chars, repeat, **more)
            if blocks > 1:
                with ThreadPoolExecutor(1) as copier:
                    for got, piece in zip(overlapped(hosts, copier), pieces, strict=True):
                        check(got, piece)
                    yield (
                        "cudf_fsst",
                        arriving(partial(overlapped, hosts, copier), chars, repeat, overlapped=True, **more),
                    )

    for algorithm in ("LZ4", "Snappy", "Zstd", "ANS"):
        with timing.survived(algorithm, failed):
            yield f"nvcomp.{algorithm.lower()}", nvcomp_arriving(series, algorithm, repeat)


def cut(series: Any, blocks: int) -> list[Any]:
    """Blocks of equal numbers of rows, each a column of its own."""
    if blocks == 1:
        return [series]
    ends = [len(series) * i // blocks for i in range(blocks + 1)]
    return [series.iloc[start:stop].copy(deep=True) for start, stop in pairwise(ends)]


def one_by_one(hosts: list[Any]) -> list[Any]:
    """Copy a block and decompress it before the next is copied."""
    made = []
    for host in hosts:
        made.append(host.to_device().decompress())
        cupy.cuda.runtime.deviceSynchronize()
    return made


def overlapped(hosts: list[Any], copier: ThreadPoolExecutor) -> list[Any]:
    """Copy a block while that before it is decompressed.

    `to_device` waits for its copy, so it is called by a thread of its own, on a stream of its own.
    """
    stream = cupy.cuda.Stream(non_blocking=True)
    made = []
    coming = copier.submit(hosts[0].to_device, stream=stream)
    for i in range(len(hosts)):
        here = coming.result()
        if i + 1 < len(hosts):
            coming = copier.submit(hosts[i + 1].to_device, stream=stream)
        made.append(here.decompress())
    return made


def nvcomp_arriving(series: Any, algorithm: str, repeat: int) -> dict[str, Any]:
    """The characters, compressed by nvCOMP, from pinned memory; the offsets are not moved."""
    nvcomp = nvcomp_module()
    runtime = cupy.cuda.runtime
    codec = nvcomp.Codec(algorithm=algorithm)
    encoded = codec.encode(nvcomp.as_array(characters(series)))
    nbytes = int(encoded.buffer_size)
    cupy.cuda.runtime.deviceSynchronize()
    packed = cupy.asarray(encoded).view(cupy.uint8)[:nbytes]
    host, landed = pinned(packed.nbytes, "u1"), cupy.empty(packed.nbytes, cupy.uint8)
    runtime.memcpy(host.ctypes.data, packed.data.ptr, packed.nbytes, runtime.memcpyDeviceToHost)

    def arrive() -> Any:
        runtime.memcpyAsync(landed.data.ptr, host.ctypes.data, landed.nbytes, runtime.memcpyHostToDevice, 0)
        runtime.deviceSynchronize()
        return codec.decode(nvcomp.as_array(landed))

    return arriving(arrive, int(characters(series).size), repeat, moved_bytes=int(landed.nbytes), blocks=1)
