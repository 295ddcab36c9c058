"""GFC on the GPU: the same bytes as `cpu` (kernels/gfc.cu)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...device.kernels import Kernel
from ...device.memory import Lane, Workspace
from ...lazy import weakly_cached
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, PartRange, RowNumbers, Taking
from ..part import Packed
from ..values.launch import ScanJob
from . import launch
from .cpu import packed_layout
from .launch import GfcLayout, layout

_u32, _u64 = np.uint32, np.uint64
THREADS = 32 * launch.WARPS
#: A few rows are taken by themselves: of each, its chunk is decompressed. See `contract.DeviceCodec`.
TAKES, TAKES_BITS, READS_WIDE, COMPARES, ALONE = 4096, False, False, False, False
SCAN_THREADS = launch.SCAN_THREADS
#: What `take` has of each part: `describe`, and its rows.
Part = launch.GfcPart


def _kernel(name: str, itemsize: int) -> Any:
    return get_kernel("gfc", name, launch.defines(itemsize))


def measure_kernel(itemsize: int) -> Any:
    """The kernel that finds the bytes of chunks; it takes an array of `GfcJob.measure`."""
    return _kernel("gfc_measure", itemsize)


def scan_kernel() -> Any:
    """The kernel that sums these up; it takes an array of `GfcJob.scan`, of any item sizes."""
    return _kernel("gfc_scan", 8)


def pack_kernel(itemsize: int) -> Any:
    """The kernel that writes the codes; it takes an array of `GfcJob.pack`."""
    return _kernel("gfc_encode", itemsize)


def unpack_kernel(itemsize: int) -> Any:
    """The kernel that writes decoded values."""
    return _kernel("gfc_decode", itemsize)


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    of_itemsize = {"measure": measure_kernel, "encode": pack_kernel, "read": unpack_kernel}.get(step)
    if of_itemsize is not None:
        yield from (partial(of_itemsize, itemsize) for itemsize in (8, 4))
    if step == "measure":
        yield scan_kernel


class GfcJob:
    """Values that are measured and, once their size is known, packed; as `bitpack.cuda.BitpackJob`.

    Parameters
    ----------
    rows, itemsize
        How many values there are, and bytes of one: 4 or 8.
    signed
        Makes no difference to this codec.
    work
        Gets what `place` needs, less than 0.3 % of the values' bytes.
    dim, chunk
        See `launch.layout`.

    Raises
    ------
    ValueError
        As `cpu.compress`.
    """

    codec = "gfc"
    variant = ()
    sample_rows = 0

    def __init__(
        self, rows: int, itemsize: int, signed: bool, work: Workspace, *, dim: int = 1, chunk: int = 0
    ) -> None:
        self._layout = layout(rows, itemsize, dim, chunk)
        self.itemsize, self.unit = itemsize, self._layout.chunk
        self._chunks = self._layout.chunks
        self._offsets = work.reserve(4 * self._chunks), work.reserve(8 * self._chunks)

    def place(self, work: Workspace, totals: int) -> None:
        self._totals = totals
        self._sizes, self._starts = (work[offset] for offset in self._offsets)

    def measure(self, values: int, first: int, rows: int) -> tuple[int, tuple[int, ...]]:
        _, _, dim, chunk = self._layout
        chunks = blocks(rows, chunk)
        sizes = self._sizes + 4 * (first // chunk)
        return blocks(chunks, launch.WARPS), launch.MeasureChunksJob(values, rows, dim, chunk, chunks, sizes)

    def scan(self) -> tuple[int, ...]:
        return ScanJob(self._sizes, self._chunks, self._starts, self._totals)

    def measured(self, nbytes: int, *_unused: int) -> int:
        self.meta_nbytes, self.codes_nbytes = self._layout.meta_nbytes, nbytes
        return self.meta_nbytes + nbytes

    def pack(self, values: int, first: int, rows: int, meta: int, codes: int) -> tuple[int, tuple[int, ...]]:
        all_rows, _, dim, chunk = self._layout
        chunks, at = blocks(rows, chunk), 8 * (first // chunk)
        last = first + rows == all_rows
        gap = meta + 8 * (self._chunks + 1) if last and self._chunks % 2 == 0 else 0
        places = self._starts + at, meta + at, codes
        end = self.codes_nbytes + 1 if last else 0
        return blocks(chunks, launch.WARPS), launch.EncodeJob(values, rows, dim, chunk, chunks, *places, end, gap)

    def packed(self, meta: Any, codes: Any) -> Packed:
        rows, itemsize, dim, chunk = self._layout
        return Packed("gfc", rows, itemsize, (dim, chunk), meta, codes, self.meta_nbytes, self.codes_nbytes)


#: As every codec of values names it.
Job = GfcJob


@weakly_cached()
def _layout(packed: Packed) -> GfcLayout:
    return packed_layout(packed)


def chunk_rows(packed: Packed) -> int:
    """Values that are decompressed together; ValueError as `decompress`."""
    return _layout(packed).chunk


@weakly_cached()
def describe(packed: Packed) -> tuple[int, ...]:
    """A part as kernels read it.

    Raises
    ------
    ValueError
        The sizes and parameters are impossible, or disagree.
    """
    plan = _layout(packed)
    return launch.GfcSegment(int(packed.meta.ptr), int(packed.codes.ptr), packed.codes_nbytes, plan.dim, plan.chunk)


def decompress(parts: Sequence[PartRange], tables: JobTables, lane: Lane, *, touched: Sequence[int] = ()) -> None:
    """Add the launches that decompress to `tables`. Damaged bytes give some values.

    Parameters
    ----------
    touched
        Of each part, the address of a byte for each chunk, from the first wanted one on; those of 0 are left out.

    Raises
    ------
    ValueError
        As `describe`.
    """
    for itemsize in launch.ITEMSIZES:
        fields: list[int] = []
        grids = []
        for part, marks in zip(parts, touched or [0] * len(parts), strict=True):
            packed = part.packed
            if packed.itemsize == itemsize:
                plan = _layout(packed)
                fields += launch.DecodeJob._make((*describe(packed), marks, *part.output))
                grids.append(blocks(blocks(part.end, plan.chunk) - part.begin // plan.chunk, launch.WARPS))
        if grids:
            tables.add_jobs(unpack_kernel(itemsize), 32 * launch.WARPS, grids, fields)


def take(columns: Sequence[Taking], itemsize: int, rows: RowNumbers, tables: JobTables, *, bits: bool = False) -> None:
    """Add the launch that takes a few rows: for each, its chunk is decompressed up to it."""
    tables.add_taken(_kernel("gfc_take", itemsize), THREADS, columns, rows, per_block=launch.WARPS)


def row_costs(packed: Packed) -> tuple[float, float]:
    """See `contract.DeviceCodec`; chunks are decompressed."""
    return 100e-12, 100e-12
