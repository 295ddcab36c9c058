"""bitpack in GPU memory: the same bytes as `cpu`, by kernels/bitpack.cu and kernels/bitpack_read.cu."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...device.kernels import Kernel
from ...device.memory import Lane, Workspace
from ...lazy import weakly_cached
from ..contract import ANY_ROWS
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, PartRange, RowNumbers, Taking
from ..part import Packed, align
from ..span import Span
from ..values.launch import ScanJob
from . import launch

_u32, _u64 = np.uint32, np.uint64
THREADS = 32 * launch.WARPS
#: What its kernels do: take any number of rows, also of bitmaps; read two halves; compare. See `contract.DeviceCodec`.
TAKES, TAKES_BITS, READS_WIDE, COMPARES, ALONE = ANY_ROWS, True, True, True, False
SCAN_THREADS = launch.SCAN_THREADS
#: What `take` has of each part: `describe`, and its rows.
Part = launch.BitpackPart
SAMPLE_THREADS = 32 * launch.SAMPLE_BLOCKS
nan_nbytes = launch.nan_nbytes


def _kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack", name, launch.defines(itemsize))


def _read_kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack_read", name, launch.defines(itemsize))


def sample_kernel() -> Any:
    """The kernel that finds divisors; it takes an array of `BitpackJob.find_divisor`, of any item sizes."""
    return _kernel("bitpack_divisor", 8)


def measure_kernel(itemsize: int, divide: bool = False) -> Any:
    """The kernel that fills the blocks' entries; it takes an array of `BitpackJob.measure`."""
    return _kernel("bitpack_measure_divided" if divide else "bitpack_measure", itemsize)


def scan_kernel(divide: bool = False) -> Any:
    """The kernel that sums the entries up; it takes an array of `BitpackJob.scan`, of any item sizes."""
    return _kernel("bitpack_scan_divided" if divide else "bitpack_scan", 8)


def pack_kernel(itemsize: int, divide: bool = False) -> Any:
    """The kernel that writes packed values; it takes an array of `BitpackJob.pack`."""
    return _kernel("bitpack_pack_divided" if divide else "bitpack_pack", itemsize)


def unpack_kernel(itemsize: int) -> Any:
    """The kernel that writes unpacked values."""
    return _read_kernel("bitpack_unpack", itemsize)


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    if step == "measure":
        for itemsize in (8, 4, 1, 2):
            yield partial(measure_kernel, itemsize, divide=True)
            yield partial(measure_kernel, itemsize)
        yield sample_kernel
        yield from (partial(find_nan_kernel, itemsize) for itemsize in launch.NAN_ITEMSIZES)
        yield partial(scan_kernel, divide=True)
        yield scan_kernel
    elif step == "encode":
        for itemsize in (8, 4, 1, 2):
            yield partial(pack_kernel, itemsize, divide=True)
            yield partial(pack_kernel, itemsize)
    elif step == "read":
        yield from (partial(unpack_kernel, itemsize) for itemsize in (8, 4, 1, 2))


def _nan_kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack_nan", name, launch.defines(itemsize))


def find_nan_kernel(itemsize: int) -> Any:
    """The kernel that finds the least NaN; it takes an array of `find_nan`."""
    return _nan_kernel("bitpack_find_nan", itemsize)


def find_nan(values: int, rows: int, least: int) -> tuple[int, tuple[int, ...]]:
    """Thread blocks and fields of the job that looks for a NaN among values at an address.

    `least`: address of 8 bytes, 0 before, where the complement of the least NaN's bits goes.
    """
    return blocks(rows, launch.BLOCK * launch.WARPS), launch.FindNanJob(values, rows, least)


def stand_in_kernel(itemsize: int) -> Any:
    """The kernel that puts stand-ins in the place of a NaN; it takes an array of `stand_in`."""
    return _nan_kernel("bitpack_stand_in", itemsize)


def stand_in(values: int, rows: int, nan: int, out: int = 0, first: int = 0) -> tuple[int, tuple[int, ...]]:
    """Thread blocks and fields of the job that does so in values at an address, of which the first is number `first`.

    `out`: address of `nan_nbytes` for all values, zeros before, where the NaN and its stand-ins go; 0: they do not.
    """
    job = launch.StandInJob(values, rows, nan, out, first // launch.BLOCK)
    return blocks(rows, launch.BLOCK * launch.WARPS), job


def _compare_kernel(name: str, itemsize: int) -> Any:
    return get_kernel("bitpack_compare", name, launch.defines(itemsize))


class BitpackJob:
    """Values that are measured and, once their size is known, packed.

    Parameters
    ----------
    rows, itemsize
        At least one value, of 1, 2, 4 or 8 bytes.
    signed
        How the values are ordered, for their minimum.
    work
        Gets what `place` needs, less than 1 % of the values' bytes.
    divide
        1: look for a divisor of the differences.
    nan
        Not 0: bits of a NaN, in whose place values have stand-ins (`stand_in`).

    Attributes
    ----------
    unit : int
        Values that are measured or packed by themselves begin at a multiple of this.
    meta_nbytes, codes_nbytes : int
        Of the result; known when it was `measured`.
    variant : tuple of bool
        Which kernels it needs: those that divide, or those that do not.
    sample_rows : int
        Values of a sample that has to be looked at before any are measured: at most so many.
    nan_at : int
        Where in ``meta`` the NaN and its stand-ins belong; known when it was `measured`.
    """

    codec = "bitpack"
    unit = launch.BLOCK

    def __init__(
        self, rows: int, itemsize: int, signed: bool, work: Workspace, *, divide: int = 0, nan: int = 0
    ) -> None:
        self.variant: tuple[bool] = (bool(divide),)
        self.sample_rows = launch.SAMPLE_BLOCKS * launch.BLOCK if divide else 0
        self.rows, self.itemsize, self._signed, self._has_nan = rows, itemsize, signed, nan != 0
        self._blocks = count = blocks(rows, launch.BLOCK)
        # bitpack_scan reads and writes 16 entries at once.
        sizes = align(count), 4 * align(count), itemsize * count, itemsize * count
        self._offsets = [work.reserve(nbytes) for nbytes in sizes]

    def place(self, work: Workspace, totals: int) -> None:
        """Call when the workspace has been taken; `totals`: address of the 24 bytes for `measured`."""
        self._totals = totals
        self._kinds, self._starts, self._bases, self._slopes = (work[offset] for offset in self._offsets)

    @property
    def sample_step(self) -> int:
        """Distance of the runs of `unit` values of which the sample consists."""
        return launch.BLOCK * launch.sample_step(self._blocks)

    def find_divisor(self, values: int, step: int) -> tuple[int, ...]:
        """Fields of the job that finds a divisor in a sample: runs of `unit` values, `step` values apart."""
        rows = self.rows if step == self.sample_step else min(self.rows, self.sample_rows)
        return launch.DivisorJob(values, rows, self.itemsize, self._signed, step // launch.BLOCK, self._totals + 16)

    def measure(self, values: int, first: int, rows: int) -> tuple[int, tuple[int, ...]]:
        """Thread blocks and fields of the job that measures values `first` to ``first + rows - 1`` at an address."""
        block = first // launch.BLOCK
        at = self.itemsize * block
        entries = self._kinds + block, self._bases + at, self._slopes + at
        fields: tuple[int, ...] = launch.MeasureJob(values, rows, self._signed, *entries)
        if self.variant[0]:
            fields = launch.MeasureDividedJob._make((*fields, self._totals + 16))
        return blocks(rows, launch.BLOCK * launch.WARPS), fields

    def scan(self) -> tuple[int, ...]:
        """Fields of the job that sums up."""
        return ScanJob(self._kinds, self._blocks, self._starts, self._totals)

    def measured(self, units: int, flags: int, divisor: int) -> int:
        """Take the totals; `Packed.nbytes` that they mean."""
        divisor = divisor if flags & 2 else 1
        self.variant = (divisor != 1,)
        layout = launch.BitpackLayout(self.rows, self.itemsize, bool(flags & 1), divisor, self._has_nan)
        self._units, self._layout, self.nan_at = units, layout, layout.nan
        self.meta_nbytes, self.codes_nbytes = self._layout.nbytes, launch.UNIT_NBYTES * units
        return self.meta_nbytes + self.codes_nbytes

    def pack(self, values: int, first: int, rows: int, meta: int, codes: int) -> tuple[int, tuple[int, ...]]:
        """Thread blocks and fields of the job that packs the same values, into buffers at these addresses."""
        block, layout = first // launch.BLOCK, self._layout
        at = self.itemsize * block
        fields: tuple[int, ...] = launch.PackJob(
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
        if self.variant[0]:
            fields = launch.PackDividedJob._make((*fields, *launch.inverse(layout.divisor)))
        return blocks(rows, launch.BLOCK * launch.WARPS), fields

    def packed(self, meta: Any, codes: Any) -> Packed:
        """The result in its buffers."""
        return self._layout.packed(self._units, self._signed, meta, codes)


#: As every codec of values names it.
Job = BitpackJob


@weakly_cached()
def describe(packed: Packed) -> tuple[int, ...]:
    """A part as kernels read it: ``BitpackSegment`` of kernels/bitpack.cuh.

    Raises
    ------
    ValueError
        The sizes of the part do not fit together. What its bytes say is not checked: damage makes wrong values.
    """
    layout, meta = launch.layout(packed), int(packed.meta.ptr)
    slopes = meta + layout.slopes if layout.has_delta else 0
    units = packed.codes_nbytes // launch.UNIT_NBYTES
    codes = int(packed.codes.ptr)
    return launch.BitpackSegment(meta, meta + layout.bases, slopes, codes, units, packed.rows, layout.divisor)


@weakly_cached()
def nan_of(packed: Packed) -> int:
    """Address of a part's NaN, with its stand-ins behind it; 0: it has none."""
    layout = launch.layout(packed)
    return int(packed.meta.ptr) + layout.nan if layout.has_nan else 0


def _grid(part: PartRange, group: int) -> int:
    first, last = part.begin // launch.BLOCK, blocks(part.end, launch.BLOCK)
    return blocks(last - first, launch.WARPS * group)


def _unpack_jobs(parts: Iterable[PartRange]) -> list[int]:
    jobs = [launch.UnpackJob._make((*describe(part.packed), *part.output)) for part in parts]
    return [field for job in jobs for field in job]


def decompress(parts: Sequence[PartRange], tables: JobTables, lane: Lane) -> None:
    """Add the launches that decompress to `tables`; see `describe`."""
    for itemsize in launch.ITEMSIZES:
        if same_size := [part for part in parts if part.packed.itemsize == itemsize]:
            grids = [_grid(part, launch.group(itemsize)) for part in same_size]
            tables.add_jobs(unpack_kernel(itemsize), THREADS, grids, _unpack_jobs(same_size))
        if same_size := [part for part in same_size if nan_of(part.packed)]:
            fields = [word for part in same_size for word in launch.PutNanJob(nan_of(part.packed), *part.output)]
            grids = [blocks(part.end - part.begin, THREADS) for part in same_size]
            tables.add_jobs(_nan_kernel("bitpack_put_nan", itemsize), THREADS, grids, fields)


def decompress_wide(pairs: Sequence[tuple[PartRange, PartRange]], tables: JobTables) -> None:
    """Add the launch for numbers of 16 bytes: pairs of parts have the low and the high halves of equal rows."""
    fields = _unpack_jobs(part for pair in pairs for part in pair)
    grids = [_grid(low, 1) for low, _ in pairs]
    tables.add_jobs(_read_kernel("bitpack_unpack_wide", 8), THREADS, grids, fields)


def compare(parts: Sequence[PartRange], span: Span, tables: JobTables, *, bits: int = 0) -> None:
    """Add the launches that write whether values lie in a range, a byte each, to `tables`.

    Parameters
    ----------
    parts
        Where the answers go, with a stride of 1.
    span
    tables
    bits
        Not 0: address of the bits of `set_members`, of which a value in the range must have one.
    """
    kernel = "bitpack_is_in" if bits else "bitpack_compare"
    for itemsize in launch.ITEMSIZES:
        if same_size := [part for part in parts if part.packed.itemsize == itemsize]:
            low, reach, outside = span.fields(itemsize)
            comparison = low, reach, outside, bits
            jobs = [launch.CompareJob._make((*describe(part.packed), *part.output, *comparison)) for part in same_size]
            fields = [field for job in jobs for field in job]
            grids = [_grid(part, launch.group(itemsize)) for part in same_size]
            tables.add_jobs(_compare_kernel(kernel, itemsize), THREADS, grids, fields)


def set_members(values: int, count: int, itemsize: int, span: Span, bits: int, lane: Lane) -> None:
    """Set bit ``value - low`` at address `bits`, where zeros are, for each of `count` values that lies in a range."""
    if not count:
        return
    low, reach, _ = span.fields(itemsize)
    arguments = _u64(values), _u64(count), _u64(low), _u64(reach), _u64(bits)
    grid = min(blocks(count, THREADS), launch.MEMBER_BLOCKS)
    lane.launch(_compare_kernel("bitpack_set_members", itemsize), grid, THREADS, arguments)


@weakly_cached()
def bounds(packed: Packed) -> Span:
    """Between which values those of a part in GPU memory lie (`launch.bounds`); the GPU is waited for."""
    layout = launch.layout(packed)
    with Lane() as lane:
        meta = lane.read(packed.meta.ptr, layout.nbytes, np.uint8)
    return launch.bounds(layout, meta, bool(packed.parameters[0]))


def nan_part(packed: Packed, first_row: int) -> tuple[int, ...]:
    """``NanPart`` of a part, for `take`; see `Taking.nan`."""
    return launch.NanPart(nan_of(packed), first_row, packed.rows)


def take(columns: Sequence[Taking], itemsize: int, rows: RowNumbers, tables: JobTables, *, bits: bool = False) -> None:
    """Add the launch that takes rows; `bits`: of bitmaps."""
    kernel = _read_kernel("bitpack_take_bits" if bits else "bitpack_take", itemsize)
    tables.add_taken(kernel, THREADS, columns, rows, bits=bits)
    if with_nan := [column._replace(parts=column.nan) for column in columns if column.nan]:
        tables.add_taken(_nan_kernel("bitpack_take_nan", itemsize), THREADS, with_nan, rows)


def row_costs(packed: Packed) -> tuple[float, float]:
    """See `contract.DeviceCodec`; with differences, of those before a row, too."""
    return (630e-12, 55e-12) if packed.parameters[1] else (37e-12, 22e-12)
