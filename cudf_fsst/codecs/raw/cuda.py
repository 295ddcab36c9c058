"""Values as they are, in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...device.kernels import Kernel
from ...device.memory import Lane
from ...lazy import weakly_cached
from ..contract import ANY_ROWS
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, PartRange
from ..part import Packed
from ..values.launch import DEFINES, PlacedHalf, PlainPart
from .cpu import check

_THREADS = 256
#: Rows are read where they lie. See `contract.DeviceCodec`.
TAKES, TAKES_BITS, READS_WIDE, COMPARES, ALONE = ANY_ROWS, True, False, False, False
#: What `take` of values.cu has of each part: `describe`, and its rows.
Part = PlainPart


def _halves_kernel() -> Any:
    return get_kernel("values", "place_halves", DEFINES)


@weakly_cached()
def describe(packed: Packed) -> tuple[int, ...]:
    """A part as kernels read it; ValueError where there are not as many bytes as the values have."""
    check(packed)
    return (int(packed.codes.ptr),)


def decompress(parts: Sequence[PartRange], tables: JobTables, lane: Lane) -> None:
    """Copy values, or add the launch that does to `tables`; see `describe`."""
    halves = []
    for part in parts:
        (address,), itemsize = describe(part.packed), part.packed.itemsize
        if part.stride == itemsize:
            lane.copy(part.address, address + part.begin * itemsize, (part.end - part.begin) * itemsize)
        else:
            halves.append((address, part))
    if halves:
        grids = [blocks(part.end - part.begin, _THREADS) for _, part in halves]
        fields = [field for address, part in halves for field in PlacedHalf(address, *part.output)]
        tables.add_jobs(_halves_kernel(), _THREADS, grids, fields)


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    if step == "read":
        yield _halves_kernel


def row_costs(packed: Packed) -> tuple[float, float]:
    return 0.0, 0.0
