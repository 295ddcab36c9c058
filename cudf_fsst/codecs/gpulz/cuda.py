"""gpuLZ in GPU memory: the same bytes as `cpu` (kernels/gpulz.cu)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ...device.kernels import Kernel
from ...device.memory import ALIGNMENT, Lane, device_attributes, pinned
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, PartRange
from ..part import Packed, align
from . import launch
from .launch import GpulzLayout, Options

_u64 = np.uint64
#: Its parts are compressed one after another, and chunks decompressed to take rows. See `contract.DeviceCodec`.
TAKES, TAKES_BITS, READS_WIDE, COMPARES, ALONE = 0, False, False, False, True


def kernels(step: str) -> tuple[Callable[[], Kernel], ...]:
    """See `contract.DeviceCodec`; it is only taken where it is named."""
    return ()


class _Places:
    """Where things lie in a workspace: slots of chunks, sums of their blocks, the total."""

    def __init__(self, layout: GpulzLayout, workspace: int = 0) -> None:
        self.slots = workspace
        self.sums = self.slots + align(layout.chunks * layout.chunk, ALIGNMENT)
        self.sums_nbytes = align(4 * layout.blocks, ALIGNMENT)
        self.total = self.sums + self.sums_nbytes
        self.end = self.total + ALIGNMENT


def _encode(address: int, options: Options, layout: GpulzLayout, places: _Places, meta: int, lane: Lane) -> None:
    """Kernels I and II."""
    lane.zero(places.sums, places.sums_nbytes)
    shape = options.symbol, options.chunk, options.window
    chunks, threads, shared = launch.encode_shape(*shape)
    kernel = get_kernel("gpulz", "gpulz_encode", launch.defines(*shape), shared=True)
    counts = _u64(meta + layout.counts_at)
    args = (_u64(address), _u64(layout.values_nbytes), _u64(places.slots), counts, _u64(places.sums))
    lane.launch(kernel, blocks(layout.chunks, chunks), threads, args, shared)
    kernel = get_kernel("gpulz", "gpulz_scan", launch.defines(options.symbol, options.chunk))
    sums = _u64(places.sums), _u64(layout.blocks), _u64(meta), _u64(places.total)
    lane.launch(kernel, 1, launch.SCAN_THREADS, sums)


def compress(address: int, rows: int, itemsize: int, *, lane: Lane, **options: Any) -> Generator[None, None, Packed]:
    """Compress `rows` values at `address`.

    Yields to wait for the size, and once more where the symbols fall back to bytes.

    Parameters
    ----------
    address
        Of the values, a multiple of their size.
    **options
        As `launch.options`.
    """
    chosen = launch.options(itemsize, **options)
    layout = GpulzLayout(rows * itemsize, chosen.chunk)
    workspace = lane.allocate(_Places(layout).end)
    places = _Places(layout, int(workspace.ptr))
    meta = lane.allocate(layout.meta_nbytes)
    starts, counts = int(meta.ptr), int(meta.ptr) + layout.counts_at
    lane.zero(starts, layout.meta_nbytes)
    total = pinned(1, _u64)
    _encode(address, chosen, layout, places, starts, lane)
    lane.download(total, places.total)
    yield
    if chosen.fallback and layout.meta_nbytes + int(total[0]) > launch.most_nbytes(layout.values_nbytes):
        chosen = chosen.bytewise
        _encode(address, chosen, layout, places, starts, lane)
        lane.download(total, places.total)
        yield
    codes_nbytes = int(total[0])
    codes = lane.allocate(codes_nbytes)
    shape = chosen.symbol, chosen.chunk
    kernel = get_kernel("gpulz", "gpulz_compact", launch.defines(*shape))
    sizes = _u64(layout.values_nbytes), _u64(layout.chunks)
    args = (_u64(places.slots), *sizes, _u64(starts), _u64(counts), _u64(int(codes.ptr)))
    lane.launch(kernel, layout.blocks, 32 * launch.COMPACT_WARPS, args)
    return Packed("gpulz", rows, itemsize, shape, meta, codes, layout.meta_nbytes, codes_nbytes)


def chunk_rows(packed: Packed) -> int:
    """Values that are decompressed together; ValueError as `decompress`."""
    return launch.layout_of(packed).chunk // packed.itemsize


def decompress(parts: Sequence[PartRange], tables: JobTables, lane: Lane, *, touched: Sequence[int] = ()) -> None:
    """Start to decompress. Does not wait; damaged codes give wrong values.

    Parameters
    ----------
    touched
        Of each part, the address of a byte for each chunk, from the first wanted one on; those of 0 are left out.

    Raises
    ------
    ValueError
        The sizes and parameters of a part are none of this codec.
    """
    for part, marks in zip(parts, touched or [0] * len(parts), strict=True):
        packed = part.packed
        layout = launch.layout_of(packed)
        symbol, chunk = packed.parameters
        warps = launch.decode_warps(chunk, device_attributes()["shared_per_block"])
        kernel = get_kernel("gpulz", "gpulz_decode", launch.defines(symbol, chunk, warps=warps), shared=True)
        starts = int(packed.meta.ptr)
        begin, end = part.begin * packed.itemsize, part.end * packed.itemsize
        args = (
            *(_u64(int(packed.codes.ptr)), _u64(packed.codes_nbytes), _u64(starts), _u64(starts + layout.counts_at)),
            *(_u64(layout.chunks), _u64(layout.values_nbytes), _u64(marks), _u64(begin), _u64(end)),
            *(_u64(part.address), np.uint32(part.stride // packed.itemsize)),
        )
        grid = blocks(blocks(end, chunk) - begin // chunk, warps)
        lane.launch(kernel, grid, 32 * warps, args, launch.decode_shared(chunk, warps))


def row_costs(packed: Packed) -> tuple[float, float]:
    """See `contract.DeviceCodec`; chunks are decompressed."""
    return 100e-12, 100e-12
