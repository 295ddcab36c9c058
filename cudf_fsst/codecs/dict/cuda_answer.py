"""Answers to questions about the values of a dictionary, as answers for its rows; and how many rows have each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device.memory import Lane, device_attributes
from ...lazy import weakly_cached
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..node import DictPart
from ..scratch import scratch_limit
from ..values import cuda_read as fixed
from . import cuda_packed, launch
from .cuda import read_kernel
from .cuda_read import whole_mask
from .cuda_values import CODES_NBYTES, is_packed

_u32, _u64 = np.uint32, np.uint64


def remap(
    part: DictPart, table: int, nbytes: int, out: int, *, lane: Lane, start: int = 0, stop: int | None = None
) -> None:
    """Write, for each row of a part with a dictionary, the entry of a table that its code has; of null rows any.

    Parameters
    ----------
    table, nbytes : int
        Address, and bytes of an entry: 1, 2, 4 or 8.
    out : int
        Address of the first row's.
    """
    tables = JobTables()
    lookups = look_up(part, table, nbytes, out, lane=lane, start=start, stop=part.rows if stop is None else stop)
    if lookups:
        cuda_packed.answer(tables, lookups)
        tables.launch(lane)


def look_up(
    part: DictPart, table: int, nbytes: int, out: int, *, lane: Lane, start: int, stop: int
) -> list[cuda_packed.LookUp]:
    """What writes the same as `remap`, where codes are packed; of others it is written at once, and this is empty."""
    itemsize, values = part.itemsize, part.values.rows
    if values == 0:
        lane.zero(out, (stop - start) * nbytes)
        return []
    if is_packed(part):
        return [cuda_packed.LookUp(_codes(part, start, stop), table, nbytes, out)] if start < stop else []
    step = max(CODES_NBYTES, scratch_limit(part.chars + 4 * part.rows)) // itemsize
    codes = lane.allocate(min(step, stop - start) * itemsize)
    for first in range(start, stop, step):
        rows = min(step, stop - first)
        fixed.decompress([fixed.ReadRequest(part.indices.values, codes.ptr, first, first + rows)], lane=lane)
        grid = min(blocks(rows, 16 * launch.READ_THREADS), 8 * device_attributes()["multiprocessors"])
        to = out + (first - start) * nbytes
        tables = JobTables()
        job = launch.MapJob(codes.ptr, itemsize, rows, table, values, to, nbytes, grid)
        tables.add_jobs(read_kernel("dict_map"), launch.READ_THREADS, [grid], job)
        tables.launch(lane)
    return []


def count(part: DictPart, *, lane: Lane) -> Any:
    """How many rows of a part with a dictionary have each value: a buffer of int64; None where codes are not packed.

    Damaged codes of no value are not counted. Nothing is waited for.
    """
    if not is_packed(part):
        return None
    values = part.values.rows
    out = lane.allocate(8 * values)
    lane.zero(out.ptr, 8 * values)
    if values and part.rows:
        mask = whole_mask(part, lane)
        tables = JobTables()
        cuda_packed.count(tables, part.packed, values, out.ptr, validity=0 if mask is None else int(mask.ptr))
        tables.launch(lane)
    return out


def _codes(part: DictPart, start: int, stop: int) -> cuda_packed.SharedCodes:
    if (start, stop) == (0, part.rows):
        return whole_codes(part)
    return cuda_packed.SharedCodes(part.packed, start, stop, part.values.rows)


@weakly_cached()
def whole_codes(part: DictPart) -> cuda_packed.SharedCodes:
    return cuda_packed.SharedCodes(part.packed, 0, part.rows, part.values.rows)
