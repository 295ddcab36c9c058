"""Whether codes that were read from a file are of values that the dictionary has, counted in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ...device.memory import Lane
from ..cuda_tables import JobTables
from ..node import DictPart
from ..text import cpu as text
from . import cpu, cuda_packed
from .cuda_read import whole_mask


def count_chars(part: DictPart, indices: Callable[[], Iterable[Any]], *, lane: Lane) -> int:
    """Characters of all rows of a part with a dictionary, in host memory; ValueError where a code has no value.

    `indices` gives the parts of its indices in GPU memory.

    Rows of each value are counted on the GPU: if these are all rows, no code is of another value. The host looks for
    the order in which values appear, as long as one is missing; where one is for long it does all.
    """
    if not part.values.rows or not cuda_packed.packed(part.packed) or not cpu.appear_early(part):
        return cpu.count_chars(part)
    there = replace(part, indices=part.indices.with_parts(iter(indices())))
    values = part.values.rows
    mask = whole_mask(there, lane)
    validities = [0] if mask is None else [0, int(mask.ptr)]  # codes under nulls have to be of values, too
    out = lane.allocate(8 * values * len(validities))
    lane.zero(out.ptr, out.size)
    tables = JobTables()
    for number, validity in enumerate(validities):
        cuda_packed.count(tables, there.packed, values, out.ptr + 8 * values * number, validity=validity)
    tables.launch(lane)
    counts: Any = lane.read(out.ptr, values * len(validities), np.uint64).reshape(-1, values)
    if int(counts[0].sum()) != part.rows:
        return cpu.count_chars(part)  # which says what is wrong
    ends = text.row_ends(part.values.segments)
    # Python's numbers: a file may say any lengths.
    return sum(map(int.__mul__, counts[-1].tolist(), np.diff(ends, prepend=0).tolist()))
