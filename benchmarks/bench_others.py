"""Measures what else a column of strings can be compressed with: nvCOMP, cuDF's categories and Parquet, our CPU codec.

All take their GPU memory from RMM's current resource, so that its peak can be counted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import cudf
import cupy
import rmm
import timing
from bench_column import peak_extra
from datasets import characters, offsets
from records import best_chunk
from rmm.pylibrmm.stream import Stream as RmmStream

from cudf_fsst.device.memory import pinned
from cudf_fsst.workers import num_threads

#: What nvCOMP has for bytes. Gzip is Deflate in another envelope.
NVCOMP = ("LZ4", "Snappy", "Zstd", "Deflate", "GDeflate", "ANS", "Bitcomp", "Cascaded")
CHUNKS = (1 << 14, 1 << 16, 1 << 18, 1 << 20)
CPU_SAMPLE = 64 << 20

Found = tuple[str, dict[str, Any]]


class Wrong(AssertionError):
    """A codec did not give the column back."""


def arrow_nbytes(series: Any) -> int:
    """Characters and offsets (the columns measured here have no nulls)."""
    return int(characters(series).size + offsets(series).nbytes)


def check(back: Any, series: Any) -> None:
    """Raise `Wrong` if a column came back changed."""
    if len(back) != len(series) or not bool((characters(back) == characters(series)).all()):
        raise Wrong("the column came back changed")


class Stream:
    """A CUDA stream as RMM takes it."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


@cache
def nvcomp_module() -> Any:
    """Import nvCOMP, and make it take memory from RMM on the stream that it names."""
    from nvidia import nvcomp
    from nvidia.nvcomp.external_memory import ExternalMemory

    def allocate(nbytes: int, stream: Any) -> Any:
        ordered = RmmStream(Stream(stream.ptr))
        return ExternalMemory(rmm.DeviceBuffer(size=nbytes, stream=ordered), stream)

    nvcomp.set_device_allocator(allocate)
    return nvcomp


def both_rates(
    compress: Callable[[], Any], decompress: Callable[[Any], Any], compressed: Any, nbytes: int, repeat: int
) -> Iterator[dict[str, Any]]:
    """GB/s of both calls, which have been warmed up."""
    yield {"measure": "compress_call_gbps", "value": nbytes / 1e9 / timing.wall_seconds(compress, repeat, 0)}
    seconds = timing.wall_seconds(lambda: decompress(compressed), repeat, 0)
    yield {"measure": "decompress_call_gbps", "value": nbytes / 1e9 / seconds}


def packed_offsets(series: Any) -> int:
    """Bytes of the offsets in the codec that nvCOMP has for sorted integers: Cascaded, with deltas."""
    ends = offsets(series)
    nvcomp = nvcomp_module()
    codec = nvcomp.Codec(
        algorithm="Cascaded", data_type=f"<i{ends.itemsize}", num_rles=0, num_deltas=1, use_bitpack=True
    )
    return min(int(codec.encode(nvcomp.as_array(ends)).buffer_size), ends.nbytes)


def nvcomp_codec(algorithm: str, chunk: int) -> Any:
    # Cascaded takes integers of four bytes, and pads to them, unless told otherwise.
    more = {"data_type": "|u1"} if algorithm == "Cascaded" else {}
    return nvcomp_module().Codec(algorithm=algorithm, uncomp_chunk_size=chunk, **more)


def measure_nvcomp(series: Any, algorithm: str, chunk: int, repeat: int, ends: int) -> Iterator[dict[str, Any]]:
    """One of nvCOMP's codecs on the characters, in chunks of so many bytes; `ends` is the size of the packed offsets.

    The codec is made once and keeps what it allocates, so its first calls are not timed.
    """
    chars = characters(series)
    source = nvcomp_module().as_array(chars)
    codec = nvcomp_codec(algorithm, chunk)
    encoded = codec.encode(source)
    decoded = codec.decode(encoded)
    cupy.cuda.runtime.deviceSynchronize()
    if not bool((cupy.asarray(decoded).view(cupy.uint8) == chars).all()):
        raise Wrong("the characters came back changed")
    del decoded
    common = {"bytes": int(chars.size), "chunk_bytes": chunk}
    nbytes = int(encoded.buffer_size)
    yield {"measure": "ratio_chars", "value": chars.size / nbytes, **common}
    yield {"measure": "ratio_column", "value": arrow_nbytes(series) / (nbytes + ends), **common}
    for record in both_rates(lambda: codec.encode(source), codec.decode, encoded, int(chars.size), repeat):
        yield {**record, **common}


def nvcomp_peaks(series: Any, algorithm: str, chunk: int) -> Iterator[dict[str, Any]]:
    """Memory of both calls with a new codec, which has to allocate all that it keeps between calls."""
    chars = characters(series)
    source = nvcomp_module().as_array(chars)
    encoded = nvcomp_codec(algorithm, chunk).encode(source)
    nbytes = int(encoded.buffer_size)
    common = {"bytes": int(chars.size), "chunk_bytes": chunk}
    peak = peak_extra(lambda: nvcomp_codec(algorithm, chunk).encode(source), lambda _: nbytes)
    yield {"measure": "compress_peak_extra_bytes", "value": peak, **common}
    peak = peak_extra(lambda: nvcomp_codec(algorithm, chunk).decode(encoded), lambda _: int(chars.size))
    yield {"measure": "decompress_peak_extra_bytes", "value": peak, **common}


def nvcomp_sweep(series: Any, chunks: Sequence[int], repeat: int, failed: list[str]) -> Iterator[Found]:
    """All of nvCOMP in these chunk sizes: the sweep, and of each codec the best once more without that mark.

    What fails (a codec may not take a size) is told in `failed`. Best is the highest ratio times both rates.
    """
    ends = int(offsets(series).nbytes)
    with timing.survived("offsets, which count uncompressed now", failed):
        ends = packed_offsets(series)
    for algorithm in NVCOMP:
        found: list[dict[str, Any]] = []
        for chunk in chunks:
            with timing.survived(f"{algorithm}, chunks of {chunk}", failed):
                found += list(measure_nvcomp(series, algorithm, chunk, repeat, ends))
        name = f"nvcomp.{algorithm.lower()}"
        if found:
            best = best_chunk(found)
            yield from ((name, record) for record in found if record["chunk_bytes"] == best)
            yield from ((name, record) for record in nvcomp_peaks(series, algorithm, best))
            yield from ((name, {**record, "sweep": "chunk"}) for record in found)


def measure_way(
    series: Any,
    compress: Callable[[], Any],
    decompress: Callable[[Any], Any],
    sizes: tuple[Callable[[Any], int], Callable[[Any], int]],
    repeat: int,
) -> Iterator[dict[str, Any]]:
    """One of cuDF's ways; `sizes` are the bytes of what `compress` gives, all of them and those in GPU memory."""
    nbytes, device_nbytes = sizes
    compressed = compress()
    check(decompress(compressed), series)
    common = {"bytes": int(characters(series).size)}
    yield {"measure": "ratio_column", "value": arrow_nbytes(series) / nbytes(compressed), **common}
    for record in both_rates(compress, decompress, compressed, common["bytes"], repeat):
        yield {**record, **common}
    yield {"measure": "compress_peak_extra_bytes", "value": peak_extra(compress, device_nbytes), **common}
    peak = peak_extra(lambda: decompress(compressed), lambda result: arrow_nbytes(result))
    yield {"measure": "decompress_peak_extra_bytes", "value": peak, **common}


def parquet(series: Any, compression: str | None) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Write Parquet to a buffer in host memory, and read it."""
    frame = series.to_frame("c")

    def write() -> Any:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, compression=compression, index=False)
        return buffer

    def read(buffer: Any) -> Any:
        buffer.seek(0)
        return cudf.read_parquet(buffer)["c"]

    return write, read


def pinned_copy(series: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Copy the plain column to pinned host memory, and back; the column that comes back is not put together."""
    buffers = [characters(series), offsets(series).view(cupy.uint8)]
    host = [pinned(one.size, "u1") for one in buffers]
    runtime = cupy.cuda.runtime

    def out() -> Any:
        for one, to in zip(buffers, host, strict=True):
            runtime.memcpyAsync(to.ctypes.data, one.data.ptr, one.size, runtime.memcpyDeviceToHost, 0)
        return host

    def back(source: Any) -> Any:
        made = []
        for one in source:
            to = rmm.DeviceBuffer(size=one.size)
            runtime.memcpyAsync(to.ptr, one.ctypes.data, one.size, runtime.memcpyHostToDevice, 0)
            made.append(to)
        return made

    return out, back


def measure_cudf(series: Any, repeat: int, failed: list[str]) -> Iterator[Found]:
    """Parquet, categories and the plain copy."""
    to_host = (lambda buffer: buffer.getbuffer().nbytes, lambda _: 0)
    category = (lambda made: int(made.memory_usage(index=False)),) * 2
    ways: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "parquet_snappy": lambda: measure_way(series, *parquet(series, "snappy"), to_host, repeat),
        "parquet_zstd": lambda: measure_way(series, *parquet(series, "zstd"), to_host, repeat),
        "category": lambda: measure_way(
            series, lambda: series.astype("category"), lambda made: made.astype(series.dtype), category, repeat
        ),
        "pinned_copy": lambda: measure_copy(series, repeat),
    }
    for name, measure in ways.items():
        with timing.survived(name, failed):  # out of memory, say: the next way may do with less
            yield from ((f"cudf.{name}", record) for record in list(measure()))


def measure_copy(series: Any, repeat: int) -> Iterator[dict[str, Any]]:
    """The plain column out and in."""
    out, back = pinned_copy(series)
    host = out()
    returned = back(host)
    if not bool((cupy.asarray(returned[0]) == characters(series)).all()):
        raise Wrong("the characters came back changed")
    del returned
    common = {"bytes": int(characters(series).size), "moved_bytes": arrow_nbytes(series)}
    yield {"measure": "ratio_column", "value": 1.0, **common}
    for record in both_rates(out, back, host, common["bytes"], repeat):
        yield {**record, **common}


def measure_cpu(series: Any, repeat: int) -> Iterator[Found]:
    """Our codec on the CPU, on the first rows of the column."""
    rows = max(1, int(CPU_SAMPLE * len(series) / characters(series).size))
    sample = series.iloc[:rows].to_pandas()
    column = sample.fsst.compress(codec="fsst")
    if not column.decompress().equals(sample):
        raise Wrong("the column came back changed")
    common = {"bytes": column.chars_nbytes, "rows": len(sample), "threads": num_threads()}
    yield "cudf_fsst.cpu", {"measure": "ratio_chars", "value": column.chars_nbytes / column.codes_nbytes, **common}
    yield "cudf_fsst.cpu", {"measure": "ratio_column", "value": column.ratio, **common}
    rates = both_rates(sample.fsst.compress, lambda made: made.decompress(), column, column.chars_nbytes, repeat)
    yield from (("cudf_fsst.cpu", {**record, **common}) for record in rates)
