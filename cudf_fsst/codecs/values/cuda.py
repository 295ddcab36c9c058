"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device.memory import Lane, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..fsst import launch as fsst
from ..part import Packed
from . import plan
from .cuda_read import Job, decompress, take
from .launch import DEFINES, FILL_BLOCK

__all__ = ["Job", "Source", "choose", "compress", "copy_bits", "decompress", "fill_nulls", "take"]

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


@dataclass(frozen=True)
class Source:
    """Where a stream's values come from.

    Attributes
    ----------
    address : int
    rows, itemsize : int
        Values of the stream, and bytes of one.
    half : int or None
        0 or 1: the low or high 64 bits of numbers of 16 bytes, which lie at `address`; None: all of the values.
    validity, validity_offset : int
        Bitmap of values that are not null, 0: none are; nulls are filled in.
    """

    address: int
    rows: int
    itemsize: int
    half: int | None = None
    validity: int = 0
    validity_offset: int = 0

    @property
    def in_place(self) -> bool:
        """Whether the values lie there as the codecs want them."""
        return self.half is None and not self.validity

    def place(self, start: int, stop: int, *, room: int, lane: Lane) -> int:
        """Address of rows `start` (a multiple of `FILL_BLOCK`) to `stop`, made in `room` unless they lie there."""
        address = self.address + start * self.itemsize
        if self.in_place:
            return address
        rows = stop - start
        if self.half is not None:
            split_wide(self.address + 16 * start, rows, self.half, out=room, lane=lane)
            address = room
        if self.validity:
            bit = self.validity_offset + start
            # In place, too: only nulls change, and they take the values of others.
            fill_nulls(address, rows, self.itemsize, self.validity, bit, out=room, lane=lane)
        return room


def choose(source: Source, *, floats: bool, signed: bool, codec: str | None, lane: Lane) -> plan.Choice:
    """The codec for a stream of values; waits for sizes where there is a choice."""
    itemsize = source.itemsize
    found = plan.candidates(itemsize, floats=floats, codec=codec)
    if (len(found) == 1 and codec is not None) or not found:
        return found[0] if found else plan.Choice("raw")
    runs = plan.sample_runs(source.rows)
    sampled = sum(stop - start for start, stop in runs)
    modules = [codec_module(choice.codec) for choice in found]
    options = [dict(choice.options) for choice in found]
    workspace = lane.allocate(
        max(module.workspace_nbytes(sampled, itemsize, **more) for module, more in zip(modules, options, strict=True))
    )
    sample = lane.allocate(sampled * itemsize)
    sizes = lane.allocate(8 * len(found))
    if source.in_place:
        distance = runs[1][0] * itemsize if len(runs) > 1 else 0
        lane.copy_rows(sample.ptr, source.address, distance, runs[0][1] * itemsize, len(runs))
    else:
        room = sample.ptr
        for start, stop in runs:
            source.place(start, stop, room=room, lane=lane)
            room += (stop - start) * itemsize
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
    source: Source, *, floats: bool = False, signed: bool = False, codec: str | None = None, lane: Lane
) -> tuple[Packed, ...]:
    """Compress a stream of values; see `cpu.compress`."""
    if source.rows == 0:
        return ()
    itemsize = source.itemsize
    choice = choose(source, floats=floats, signed=signed, codec=codec, lane=lane)
    module, options = codec_module(choice.codec), dict(choice.options)
    cut = plan.pieces(source.rows, itemsize)
    longest = cut[0][1]
    workspace = lane.allocate(module.workspace_nbytes(longest, itemsize, **options))
    room = lane.allocate(0 if source.in_place else longest * itemsize)
    return tuple(
        module.compress(
            source.place(start, stop, room=room.ptr, lane=lane),
            stop - start,
            itemsize,
            signed=signed,
            lane=lane,
            workspace=workspace.ptr,
            **options,
        )
        for start, stop in cut
    )
