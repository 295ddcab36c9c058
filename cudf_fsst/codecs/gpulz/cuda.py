"""gpuLZ in GPU memory: the same bytes as `cpu` (kernels/gpulz.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import ALIGNMENT, Lane, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Piece, Tables
from ..part import Packed, align
from . import launch
from .launch import Layout, Options

_u64 = np.uint64


class _Places:
    """Where things lie in a workspace: slots of chunks, sums of their blocks (for two passes), the total, counts."""

    def __init__(self, layout: Layout, workspace: int = 0) -> None:
        self.slots = workspace
        self.sums = self.slots + align(layout.chunks * layout.chunk, ALIGNMENT)
        self.sums_nbytes = align(4 * layout.blocks, ALIGNMENT)
        self.total = self.sums + 2 * self.sums_nbytes
        self.counts = self.total + ALIGNMENT
        self.end = self.counts + align(4 * layout.chunks, ALIGNMENT)


def workspace_nbytes(rows: int, itemsize: int, **options: Any) -> int:
    """Bytes that `compress` and `measure` need."""
    return _Places(Layout(rows * itemsize, launch.options(itemsize, **options).chunk)).end


def _encode(
    address: int,
    options: Options,
    layout: Layout,
    lane: Lane,
    *,
    slots: int,
    counts: int,
    sums: int,
    unless: int = 0,
) -> None:
    """Kernel I. `unless`: address of a size at which this pass need not happen (0: none)."""
    shape = options.symbol, options.chunk, options.window
    chunks, threads, shared = launch.encode_shape(*shape)
    kernel = get_kernel("gpulz", "gpulz_encode", launch.defines(*shape), shared=True)
    limit = _u64(launch.most_nbytes(layout.values_nbytes))
    args = (_u64(address), _u64(layout.values_nbytes), _u64(slots), _u64(counts), _u64(sums), _u64(unless), limit)
    lane.launch(kernel, blocks(layout.chunks, chunks), threads, args, shared)


def _scan(
    options: Options, layout: Layout, lane: Lane, *, sums: int, starts: int, total: int, more: int, unless: int = 0
) -> None:
    """Kernel II."""
    kernel = get_kernel("gpulz", "gpulz_scan", launch.defines(options.symbol, options.chunk))
    limit = _u64(launch.most_nbytes(layout.values_nbytes))
    args = (_u64(sums), _u64(layout.blocks), _u64(starts), _u64(total), _u64(more), _u64(unless), limit)
    lane.launch(kernel, 1, launch.SCAN_THREADS, args)


def compress(
    address: int, rows: int, itemsize: int, *, signed: bool = False, lane: Lane, workspace: int, **options: Any
) -> Packed:
    """Compress `rows` values at `address`.

    Waits for the size, and once more where the symbols fall back to bytes.

    Parameters
    ----------
    address
        Of the values, a multiple of their size.
    signed
        Makes no difference.
    workspace
        Address of `workspace_nbytes` bytes, a multiple of 256.
    **options
        As `launch.options`.
    """
    chosen = launch.options(itemsize, **options)
    layout = Layout(rows * itemsize, chosen.chunk)
    places = _Places(layout, workspace)
    meta = lane.allocate(layout.meta_nbytes)
    starts, counts = int(meta.ptr), int(meta.ptr) + layout.counts_at
    lane.zero(starts, layout.meta_nbytes)

    def encode(options: Options) -> int:
        lane.zero(places.sums, places.sums_nbytes)
        _encode(address, options, layout, lane, slots=places.slots, counts=counts, sums=places.sums)
        _scan(options, layout, lane, sums=places.sums, starts=starts, total=places.total, more=0)
        return int(lane.read(places.total, 1, _u64)[0])

    codes_nbytes = encode(chosen)
    if chosen.fallback and layout.meta_nbytes + codes_nbytes > launch.most_nbytes(layout.values_nbytes):
        chosen = chosen.bytewise
        codes_nbytes = encode(chosen)
    codes = lane.allocate(codes_nbytes)
    shape = chosen.symbol, chosen.chunk
    kernel = get_kernel("gpulz", "gpulz_compact", launch.defines(*shape))
    sizes = _u64(layout.values_nbytes), _u64(layout.chunks)
    args = (_u64(places.slots), *sizes, _u64(starts), _u64(counts), _u64(int(codes.ptr)))
    lane.launch(kernel, layout.blocks, 32 * launch.COMPACT_WARPS, args)
    return Packed("gpulz", rows, itemsize, shape, meta, codes, layout.meta_nbytes, codes_nbytes)


def measure(
    address: int,
    rows: int,
    itemsize: int,
    *,
    signed: bool = False,
    lane: Lane,
    workspace: int,
    out: int,
    **options: Any,
) -> None:
    """Write the `Packed.nbytes` that `compress` would make to `out`, as u64 on the GPU. Does not wait."""
    chosen = launch.options(itemsize, **options)
    layout = Layout(rows * itemsize, chosen.chunk)
    places = _Places(layout, workspace)
    lane.zero(places.sums, 2 * places.sums_nbytes)
    passes = [(chosen, places.sums, 0)]
    if chosen.fallback:
        passes.append((chosen.bytewise, places.sums + places.sums_nbytes, out))
    for one, sums, unless in passes:
        _encode(address, one, layout, lane, slots=0, counts=places.counts, sums=sums, unless=unless)
        _scan(one, layout, lane, sums=sums, starts=0, total=out, more=layout.meta_nbytes, unless=unless)


def chunk_rows(packed: Packed) -> int:
    """Values that are decompressed together; ValueError as `decompress`."""
    return launch.layout_of(packed).chunk // packed.itemsize


def decompress(pieces: Sequence[Piece], tables: Tables, lane: Lane, *, touched: int = 0) -> None:
    """Start to decompress. Does not wait; damaged codes give wrong values.

    Parameters
    ----------
    touched
        Not 0: address of a byte for each chunk, from the first wanted one on; those of 0 are left out.

    Raises
    ------
    ValueError
        The sizes and parameters of a part are none of this codec.
    """
    del tables
    for piece in pieces:
        packed = piece.packed
        layout = launch.layout_of(packed)
        symbol, chunk = packed.parameters
        warps = launch.decode_warps(chunk, device_attributes()["shared_per_block"])
        kernel = get_kernel("gpulz", "gpulz_decode", launch.defines(symbol, chunk, warps=warps), shared=True)
        starts = int(packed.meta.ptr)
        begin, end = piece.begin * packed.itemsize, piece.end * packed.itemsize
        args = (
            *(_u64(int(packed.codes.ptr)), _u64(packed.codes_nbytes), _u64(starts), _u64(starts + layout.counts_at)),
            *(_u64(layout.chunks), _u64(layout.values_nbytes), _u64(touched), _u64(begin), _u64(end)),
            *(_u64(piece.address), np.uint32(piece.stride // packed.itemsize)),
        )
        grid = blocks(blocks(end, chunk) - begin // chunk, warps)
        lane.launch(kernel, grid, 32 * warps, args, launch.decode_shared(chunk, warps))
