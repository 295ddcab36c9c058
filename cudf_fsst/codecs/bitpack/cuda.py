"""bitpack in GPU memory: the same bytes as `cpu`, by kernels/bitpack.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device.memory import Lane
from ..cuda_kernels import blocks, get_kernel
from ..part import Packed
from . import launch

_u32, _u64 = np.uint32, np.uint64
_THREADS = 32 * launch.WARPS


def _kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack", name, launch.defines(itemsize))


def workspace_nbytes(rows: int, itemsize: int) -> int:
    """Bytes of workspace that `compress` and `measure` need: less than 1 % of the values', and 1.5 KiB."""
    return launch.Scratch(rows, itemsize).nbytes


def _measure(address: int, rows: int, itemsize: int, signed: bool, lane: Lane, workspace: int, out: int) -> None:
    """Fill the workspace; its first two u64 are the units and whether any block has differences."""
    scratch = launch.Scratch(rows, itemsize)
    count = blocks(rows, launch.BLOCK)
    kinds = _u64(workspace + scratch.kinds)
    lane.launch(
        _kernel("bitpack_measure", itemsize),
        blocks(count, launch.WARPS),
        _THREADS,
        (
            _u64(address),
            _u64(rows),
            _u32(signed),
            kinds,
            _u64(workspace + scratch.bases),
            _u64(workspace + scratch.slopes),
        ),
    )
    meta = [launch.Layout(rows, itemsize, has_delta).nbytes for has_delta in (False, True)]
    lane.launch(
        _kernel("bitpack_scan", itemsize),
        1,
        launch.SCAN_THREADS,
        (
            kinds,
            _u32(count),
            _u64(meta[0]),
            _u64(meta[1]),
            _u64(workspace + scratch.starts),
            _u64(workspace),
            _u64(out),
        ),
    )


def measure(
    address: int, rows: int, itemsize: int, *, signed: bool = False, lane: Lane, workspace: int, out: int
) -> None:
    """Write `Packed.nbytes` that `compress` would make, a u64, to the device address `out`; does not wait."""
    _measure(address, rows, itemsize, signed, lane, workspace, out)


def compress(address: int, rows: int, itemsize: int, *, signed: bool = False, lane: Lane, workspace: int) -> Packed:
    """Compress values in GPU memory.

    Parameters
    ----------
    address, rows, itemsize
        At least one value; the address is a multiple of `itemsize`.
    signed
        How the values are ordered, for their minimum.
    workspace
        Address of `workspace_nbytes` bytes, a multiple of 256.
    """
    _measure(address, rows, itemsize, signed, lane, workspace, 0)
    units, has_delta = lane.read(workspace, 2, np.uint64).tolist()
    made, scratch = launch.Layout(rows, itemsize, bool(has_delta)), launch.Scratch(rows, itemsize)
    meta, codes = lane.allocate(made.nbytes), lane.allocate(launch.UNIT_NBYTES * units)
    lane.launch(
        _kernel("bitpack_pack", itemsize),
        blocks(made.blocks, launch.WARPS),
        _THREADS,
        (
            _u64(address),
            _u64(rows),
            _u64(workspace + scratch.kinds),
            _u64(workspace + scratch.starts),
            _u64(workspace + scratch.bases),
            _u64(workspace + scratch.slopes),
            _u32(units),
            _u32(has_delta),
            _u64(meta.ptr),
            _u64(made.bases),
            _u64(made.slopes),
            _u64(codes.ptr),
        ),
    )
    return made.packed(units, signed, meta, codes)


def decompress(packed: Packed, address: int, *, lane: Lane) -> None:
    """Write the values to `address`, a multiple of `itemsize`; does not wait.

    Raises
    ------
    ValueError
        The sizes of the segment do not fit together. What its bytes say is not checked: damage makes wrong values.
    """
    made = launch.layout(packed)
    lane.launch(
        _kernel("bitpack_unpack", packed.itemsize),
        blocks(made.blocks, launch.WARPS * launch.group(packed.itemsize)),
        _THREADS,
        (
            _u64(packed.meta.ptr),
            _u64(packed.meta.ptr + made.bases),
            _u64(packed.meta.ptr + made.slopes if made.has_delta else 0),
            _u64(packed.codes.ptr),
            _u32(packed.codes_nbytes // launch.UNIT_NBYTES),
            _u64(address),
            _u64(packed.rows),
        ),
    )
