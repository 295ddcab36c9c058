"""GFC on the GPU: the same bytes as `cpu` (kernels/gfc.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import ALIGNMENT, Lane
from ...lazy import kept
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Piece, Tables
from ..part import Packed, align
from . import launch
from .cpu import packed_layout
from .launch import Layout, layout

__all__ = ["chunk_rows", "compress", "decompress", "measure", "workspace_nbytes"]

_u32, _u64 = np.uint32, np.uint64


def _kernel(name: str, plan: Layout) -> Any:
    return get_kernel("gfc", name, launch.defines(plan.itemsize))


def _plan_arguments(plan: Layout) -> tuple[Any, ...]:
    return _u64(plan.rows), _u32(plan.dim), _u32(plan.chunk), _u32(plan.chunks)


def workspace_nbytes(rows: int, itemsize: int, *, dim: int = 1, chunk: int = 0) -> int:
    """Bytes of temporary memory that `compress` and `measure` need: the size of every chunk."""
    return align(4 * layout(rows, itemsize, dim, chunk).chunks, ALIGNMENT)


def _measure_chunks(plan: Layout, address: int, lane: Lane, workspace: int, starts: int, total: int) -> None:
    """Start to find the chunks' places, for the address `starts`, and `Packed.nbytes`, for `total`; 0: not wanted."""
    lane.launch(
        _kernel("gfc_measure", plan),
        blocks(plan.chunks, launch.WARPS),
        32 * launch.WARPS,
        (_u64(address), *_plan_arguments(plan), _u64(workspace)),
    )
    lane.launch(
        _kernel("gfc_scan", plan),
        1,
        launch.SCAN_THREADS,
        (_u64(workspace), _u32(plan.chunks), _u64(starts), _u64(plan.meta_nbytes), _u64(total)),
    )


def compress(
    address: int,
    rows: int,
    itemsize: int,
    *,
    signed: bool = False,
    lane: Lane,
    workspace: int,
    dim: int = 1,
    chunk: int = 0,
) -> Packed:
    """Compress values in GPU memory; waits once, for the size.

    Parameters
    ----------
    address
        Of the values, a multiple of `itemsize`.
    rows, itemsize
        How many there are, and bytes of one: 4 or 8.
    signed
        Makes no difference to this codec.
    workspace
        Address of `workspace_nbytes` bytes.
    dim, chunk
        See `launch.layout`.

    Raises
    ------
    ValueError
        As `cpu.compress`.
    """
    plan = layout(rows, itemsize, dim, chunk)
    meta = lane.allocate(plan.meta_nbytes)
    _measure_chunks(plan, address, lane, workspace, meta.ptr, 0)
    nbytes = int(lane.read(meta.ptr + 8 * plan.chunks, 1, np.uint64)[0])
    codes = lane.allocate(nbytes)
    lane.launch(
        _kernel("gfc_encode", plan),
        blocks(plan.chunks, launch.WARPS),
        32 * launch.WARPS,
        (_u64(address), *_plan_arguments(plan), _u64(meta.ptr), _u64(codes.ptr)),
    )
    return Packed("gfc", rows, itemsize, (plan.dim, plan.chunk), meta, codes, plan.meta_nbytes, nbytes)


def measure(
    address: int,
    rows: int,
    itemsize: int,
    *,
    signed: bool = False,
    lane: Lane,
    workspace: int,
    out: int,
    dim: int = 1,
    chunk: int = 0,
) -> None:
    """Start to write the bytes (`Packed.nbytes`) that `compress` would make, as u64, to the GPU address `out`."""
    plan = layout(rows, itemsize, dim, chunk)
    _measure_chunks(plan, address, lane, workspace, 0, out)


@kept
def _layout(packed: Packed) -> Layout:
    return packed_layout(packed)


def chunk_rows(packed: Packed) -> int:
    """Values that are decompressed together; ValueError as `decompress`."""
    return _layout(packed).chunk


def decompress(pieces: Sequence[Piece], tables: Tables, lane: Lane, *, touched: int = 0) -> None:
    """Add the launches that decompress to `tables`. Damaged bytes give some values.

    Parameters
    ----------
    touched
        Not 0: address of a byte for each chunk, from the first wanted one on; those of 0 are left out.

    Raises
    ------
    ValueError
        The sizes and parameters are impossible, or disagree.
    """
    del lane
    for itemsize in launch.ITEMSIZES:
        fields: list[int] = []
        grids = []
        for piece in pieces:
            packed = piece.packed
            if packed.itemsize == itemsize:
                plan = _layout(packed)
                fields += (packed.meta.ptr, packed.codes.ptr, packed.codes_nbytes, plan.dim, plan.chunk, touched)
                fields += piece.wanted
                grids.append(blocks(blocks(piece.end, plan.chunk) - piece.begin // plan.chunk, launch.WARPS))
        if grids:
            kernel = get_kernel("gfc", "gfc_decode", launch.defines(itemsize))
            tables.add_jobs(kernel, 32 * launch.WARPS, grids, fields)
