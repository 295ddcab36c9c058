"""bitpack in GPU memory: the same bytes as `cpu`, by kernels/bitpack.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import Lane, Workspace
from ...lazy import kept_with
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Piece, Rows, Tables, TakenColumn
from ..part import Packed, align
from . import launch

_u32, _u64 = np.uint32, np.uint64
THREADS = 32 * launch.WARPS
SCAN_THREADS = launch.SCAN_THREADS


def _kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack", name, launch.defines(itemsize))


def measure_kernel(itemsize: int) -> Any:
    """What fills the entries of blocks; an array of `Job.measure`."""
    return _kernel("bitpack_measure", itemsize)


def scan_kernel() -> Any:
    """What sums them up; an array of `Job.scan`, of any item sizes."""
    return _kernel("bitpack_scan", 8)


def pack_kernel(itemsize: int) -> Any:
    """What writes the result; an array of `Job.pack`."""
    return _kernel("bitpack_pack", itemsize)


def unpack_kernel(itemsize: int) -> Any:
    """What writes the values."""
    return _kernel("bitpack_unpack", itemsize)


class Job:
    """Values that are measured and, once their size is known, packed.

    Parameters
    ----------
    rows, itemsize
        At least one value, of 1, 2, 4 or 8 bytes.
    signed
        How the values are ordered, for their minimum.
    work
        Gets what `place` needs, less than 1 % of the values' bytes.

    Attributes
    ----------
    unit : int
        Values that are measured or packed by themselves begin at a multiple of this.
    meta_nbytes, codes_nbytes : int
        Of the result; known when it was `measured`.
    """

    codec = "bitpack"
    unit = launch.BLOCK

    def __init__(self, rows: int, itemsize: int, signed: bool, work: Workspace) -> None:
        self.rows, self.itemsize, self._signed = rows, itemsize, signed
        self._blocks = count = blocks(rows, launch.BLOCK)
        # bitpack_scan reads and writes 16 entries at once.
        sizes = align(count), 4 * align(count), itemsize * count, itemsize * count
        self._offsets = [work.reserve(nbytes) for nbytes in sizes]

    def place(self, work: Workspace) -> None:
        """Call when the workspace has been taken."""
        self._kinds, self._starts, self._bases, self._slopes = (work[offset] for offset in self._offsets)

    def measure(self, values: int, first: int, rows: int) -> tuple[int, tuple[int, ...]]:
        """Thread blocks and fields of the job that measures values `first` to ``first + rows - 1`` at an address."""
        block = first // launch.BLOCK
        at = self.itemsize * block
        fields = (values, rows, self._signed, self._kinds + block, self._bases + at, self._slopes + at)
        return blocks(rows, launch.BLOCK * launch.WARPS), fields

    def scan(self, totals: int) -> tuple[int, ...]:
        """Fields of the job that writes 16 bytes for `measured` to an address."""
        return self._kinds, self._blocks, self._starts, totals

    def measured(self, units: int, has_delta: int) -> int:
        """Take the totals; `Packed.nbytes` that they mean."""
        self._units, self._layout = units, launch.Layout(self.rows, self.itemsize, bool(has_delta))
        self.meta_nbytes, self.codes_nbytes = self._layout.nbytes, launch.UNIT_NBYTES * units
        return self.meta_nbytes + self.codes_nbytes

    def pack(self, values: int, first: int, rows: int, meta: int, codes: int) -> tuple[int, tuple[int, ...]]:
        """Thread blocks and fields of the job that packs the same values, into buffers at these addresses."""
        block, layout = first // launch.BLOCK, self._layout
        at = self.itemsize * block
        fields = (
            values,
            rows,
            self._kinds + block,
            self._bases + at,
            self._slopes + at,
            self._starts + 4 * block,
            meta + 4 * block,
            meta + layout.bases + at,
            meta + layout.slopes + at if layout.has_delta else 0,
            codes,
            self._units + 1 if first + rows == self.rows else 0,
        )
        return blocks(rows, launch.BLOCK * launch.WARPS), fields

    def packed(self, meta: Any, codes: Any) -> Packed:
        """The result in its buffers."""
        return self._layout.packed(self._units, self._signed, meta, codes)


@kept_with()
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
            tables.add_jobs(unpack_kernel(itemsize), THREADS, grids, fields)


def decompress_wide(pairs: Sequence[tuple[Piece, Piece]], tables: Tables) -> None:
    """The same for numbers of 16 bytes, whose low and high halves are the same rows of two parts."""
    fields = [field for pair in pairs for piece in pair for field in (*describe(piece.packed), *piece.wanted)]
    grids = [_grid(low, 1) for low, _ in pairs]
    tables.add_jobs(_kernel("bitpack_unpack_wide", 8), THREADS, grids, fields)


def take(columns: Sequence[TakenColumn], itemsize: int, rows: Rows, tables: Tables, *, bits: bool = False) -> None:
    """Add the launch that takes rows; `bits`: of bitmaps."""
    kernel = _kernel("bitpack_take_bits" if bits else "bitpack_take", itemsize)
    tables.add_taken(kernel, THREADS, columns, rows, bits=bits)
