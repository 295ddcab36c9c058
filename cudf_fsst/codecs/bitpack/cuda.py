"""bitpack in GPU memory: the same bytes as `cpu`, by kernels/bitpack.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device.memory import Lane, Workspace
from ..cuda_kernels import blocks, get_kernel
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
        THREADS,
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
