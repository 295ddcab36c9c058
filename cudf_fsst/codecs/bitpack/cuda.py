"""bitpack in GPU memory: the same bytes as `cpu`, by kernels/bitpack.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import Lane
from ...lazy import kept
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Piece, Rows, Tables, TakenColumn
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


@kept
def describe(packed: Packed) -> tuple[int, ...]:
    """What kernels know of a part (``Segment`` in kernels/bitpack.cu).

    Raises
    ------
    ValueError
        The sizes of the part do not fit together. What its bytes say is not checked: damage makes wrong values.
    """
    made, meta = launch.layout(packed), int(packed.meta.ptr)
    slopes = meta + made.slopes if made.has_delta else 0
    units = packed.codes_nbytes // launch.UNIT_NBYTES
    return meta, meta + made.bases, slopes, int(packed.codes.ptr), units, packed.rows


def _grid(piece: Piece, group: int) -> int:
    first, last = piece.begin // launch.BLOCK, blocks(piece.end, launch.BLOCK)
    return blocks(last - first, launch.WARPS * group)


def decompress(pieces: Sequence[Piece], tables: Tables, lane: Lane) -> None:
    """Add the launches that decompress to `tables`; see `describe`."""
    del lane
    for itemsize in launch.ITEMSIZES:
        if some := [piece for piece in pieces if piece.packed.itemsize == itemsize]:
            fields = [field for piece in some for field in (*describe(piece.packed), *piece.wanted)]
            grids = [_grid(piece, launch.group(itemsize)) for piece in some]
            tables.add_jobs(_kernel("bitpack_unpack", itemsize), _THREADS, grids, fields)


def decompress_wide(pairs: Sequence[tuple[Piece, Piece]], tables: Tables) -> None:
    """The same for numbers of 16 bytes, whose low and high halves are the same rows of two parts."""
    fields = [field for pair in pairs for piece in pair for field in (*describe(piece.packed), *piece.wanted)]
    grids = [_grid(low, 1) for low, _ in pairs]
    tables.add_jobs(_kernel("bitpack_unpack_wide", 8), _THREADS, grids, fields)


def take(columns: Sequence[TakenColumn], itemsize: int, rows: Rows, tables: Tables, *, bits: bool = False) -> None:
    """Add the launch that takes rows; `bits`: of bitmaps."""
    kernel = _kernel("bitpack_take_bits" if bits else "bitpack_take", itemsize)
    tables.add_taken(kernel, _THREADS, columns, rows, bits=bits)
