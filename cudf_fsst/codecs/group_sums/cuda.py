"""Sums, least and greatest values of groups of rows in GPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...buffers import ColumnBuffers
from ...device.memory import Lane
from ..cuda_kernels import blocks, get_kernel
from . import launch

#: Answers of a job: a value, then a count, of 8 bytes each, for every group.
NBYTES = 16


class GroupValues(NamedTuple):
    """Rows of a column in GPU memory.

    Attributes
    ----------
    address, validity : int
        Of the values, and of their bits in Arrow's order; no bits: 0.
    number_type : int
        `launch.SIGNED`, `launch.UNSIGNED` or `launch.FLOAT`.
    itemsize : int
    """

    address: int
    validity: int
    number_type: int
    itemsize: int


def values_of(column: ColumnBuffers) -> GroupValues:
    """The values of a column of integers or floats that was read, by their address."""
    if pa.types.is_floating(column.type):
        number_type = launch.FLOAT
    else:
        number_type = launch.UNSIGNED if pa.types.is_unsigned_integer(column.type) else launch.SIGNED
    assert column.values is not None
    return GroupValues(int(column.values), int(column.validity or 0), number_type, column.itemsize)


class GroupJob(NamedTuple):
    """One aggregate of a column.

    Attributes
    ----------
    how : {"integers", "floats", "least", "greatest"}
        Sums modulo 2^64, sums of floating point numbers, or the complement of the least rank or the greatest one: see
        the kernels.
    values : GroupValues
    out : int
        Address of the answers, zeros at first. Then for every group a value, and behind these for every group how many
        rows have one.
    around : int
        Address of the answers of "floats": of the squares of the distances from these means the sums.
    """

    how: str
    values: GroupValues
    out: int
    around: int = 0


_KERNELS = {
    "integers": "group_integers",
    "floats": "group_floats",
    "least": "group_greatest",
    "greatest": "group_greatest",
}


def run(numbers: int, rows: int, groups: int, jobs: Sequence[GroupJob], *, lane: Lane) -> None:
    """Start to answer jobs, one after another.

    Parameters
    ----------
    numbers : int
        Address of the groups' numbers, an int8 for each row; below 0 those of rows in no group.
    rows : int
    groups : int
        Above all numbers, at most `launch.MOST_GROUPS`.
    jobs
    lane
    """
    grid = min(blocks(rows, launch.GROUP_THREADS), launch.BLOCKS)
    for job in jobs:
        values, more = job.values, tuple[np.uint64, ...]()
        if job.how == "floats":
            more = (np.uint64(job.around),)
        elif job.how != "integers":
            more = (np.uint64(2**64 - 1 if job.how == "least" else 0),)
        arguments = (
            np.uint64(numbers),
            np.uint64(rows),
            np.uint64(values.address),
            np.uint64(values.validity),
            np.uint32(values.number_type),
            np.uint32(values.itemsize),
            np.uint32(groups),
            np.uint64(job.out),
            np.uint64(job.out + 8 * groups),
            *more,
        )
        kernel = get_kernel("group_sums", _KERNELS[job.how], launch.DEFINES, shared=True)
        lane.launch(kernel, grid, launch.GROUP_THREADS, arguments, shared=launch.shared_nbytes(groups))
