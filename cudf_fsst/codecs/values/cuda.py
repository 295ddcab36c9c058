"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import Lane, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..fsst import launch as fsst
from ..packed import Packed
from . import plan
from .launch import DEFINES, FILL_BLOCK

_u32, _u64 = np.uint32, np.uint64
_THREADS = 256


def codec_module(name: str) -> Any:
    """The GPU side of a codec."""
    return importlib.import_module(f"...codecs.{name}.cuda", __package__)


def fill_nulls(
    address: int, rows: int, itemsize: int, validity: int, validity_offset: int, *, out: int, lane: Lane
) -> None:
    """Write a copy to `out` in which nulls are filled as `cpu.fill_nulls` says."""
    lane.launch(
        get_kernel("values", "fill_nulls", DEFINES),
        blocks(blocks(rows, FILL_BLOCK), _THREADS // 32),
        _THREADS,
        (_u64(address), _u64(validity), _u64(validity_offset), _u64(rows), _u32(itemsize), _u64(out)),
    )


def copy_bits(bits: int, offset: int, rows: int, *, out: int, lane: Lane) -> None:
    """Copy `rows` bits, from bit `offset` on, to the front of `out`, which is zero."""
    kernel = get_kernel("row_lengths", "copy_bits", fsst.DEFINES)
    lane.launch(kernel, blocks(rows, 32 * _THREADS), _THREADS, (_u64(bits), _u64(offset), _u64(rows), _u64(out)))


def _grid(rows: int) -> int:
    return min(blocks(rows, _THREADS), 16 * device_attributes()["multiprocessors"])


def split_wide(address: int, rows: int, half: int, *, out: int, lane: Lane) -> None:
    """Write the low (`half` 0) or high (1) 64 bits of numbers of 16 bytes to `out`."""
    kernel = get_kernel("values", "split_wide", DEFINES)
    lane.launch(kernel, _grid(rows), _THREADS, (_u64(address), _u64(rows), _u32(half), _u64(out)))


def join_wide(low: int, high: int, rows: int, *, out: int, lane: Lane) -> None:
    """Put low and high halves together."""
    kernel = get_kernel("values", "join_wide", DEFINES)
    lane.launch(kernel, _grid(rows), _THREADS, (_u64(low), _u64(high), _u64(rows), _u64(out)))


def choose(address: int, rows: int, itemsize: int, *, floats: bool, signed: bool, codec: str | None, lane: Lane) -> Any:
    """The codec for a stream of values; waits for sizes where there is a choice."""
    found = plan.candidates(itemsize, floats=floats, codec=codec)
    if (len(found) == 1 and codec is not None) or not found:
        return found[0] if found else plan.Choice("raw")
    runs = plan.sample_runs(rows)
    sampled = sum(stop - start for start, stop in runs)
    modules = [codec_module(choice.codec) for choice in found]
    options = [dict(choice.options) for choice in found]
    workspace = lane.allocate(
        max(module.workspace_nbytes(sampled, itemsize, **more) for module, more in zip(modules, options, strict=True))
    )
    sample = lane.allocate(sampled * itemsize)
    sizes = lane.allocate(8 * len(found))
    distance = runs[1][0] * itemsize if len(runs) > 1 else 0
    lane.copy_rows(sample.ptr, address, distance, runs[0][1] * itemsize, len(runs))
    for i, (module, more) in enumerate(zip(modules, options, strict=True)):
        module.measure(
            sample.ptr,
            sampled,
            itemsize,
            signed=signed,
            lane=lane,
            workspace=workspace.ptr,
            out=sizes.ptr + 8 * i,
            **more,
        )
    measured = dict(zip(found, lane.read(sizes.ptr, len(found), np.uint64).tolist(), strict=True))
    return plan.choose(sampled * itemsize, measured, wanted=codec is not None)


def compress(
    address: int, rows: int, itemsize: int, *, floats: bool = False, signed: bool = False, codec: str | None, lane: Lane
) -> tuple[Packed, ...]:
    """Compress a stream of values; see `cpu.compress`."""
    if rows == 0:
        return ()
    choice = choose(address, rows, itemsize, floats=floats, signed=signed, codec=codec, lane=lane)
    module, options = codec_module(choice.codec), dict(choice.options)
    cut = plan.pieces(rows, itemsize)
    workspace = lane.allocate(module.workspace_nbytes(cut[0][1], itemsize, **options))
    return tuple(
        module.compress(
            address + start * itemsize,
            stop - start,
            itemsize,
            signed=signed,
            lane=lane,
            workspace=workspace.ptr,
            **options,
        )
        for start, stop in cut
    )


def decompress(stream: Sequence[Packed], address: int, *, lane: Lane) -> None:
    """Write the values of a stream to an address."""
    for piece in stream:
        codec_module(piece.codec).decompress(piece, address, lane=lane)
        address += piece.values_nbytes
