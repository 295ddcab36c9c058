"""Row numbers of a mask in GPU memory."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ...device.memory import Lane
from ..cuda_kernels import blocks, get_kernel
from . import launch


class _Rows:
    """A buffer of row numbers, as CuPy takes it."""

    def __init__(self, buffer: Any, count: int) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "data": (buffer.ptr, False),
            "shape": (count,),
            "typestr": "<i8",
            "version": 3,
        }


def mask_rows(mask: Any, *, lane: Lane) -> Any:
    """Numbers of the rows where a mask is true, ascending. The GPU is waited for once.

    Parameters
    ----------
    mask : cupy.ndarray of bool
        One dimension.
    lane

    Returns
    -------
    cupy.ndarray of int64
    """
    with lane.stream:
        mask = cupy.ascontiguousarray(mask)
    begin = int(mask.data.ptr)
    end = begin + int(mask.size)
    grid = blocks(end - begin // 4 * 4, launch.MASK_BLOCK)
    work = lane.allocate(16 + 8 * grid)
    lane.zero(work.ptr, 16)
    arguments = np.uint64(begin), np.uint64(end), np.uint64(work.ptr + 16)
    counted = (*arguments, np.uint64(work.ptr))
    lane.launch(get_kernel("mask_rows", "mask_count", launch.DEFINES), grid, launch.MASK_THREADS, counted)
    count = int(lane.read(work.ptr, 1, np.int64)[0])
    rows = lane.allocate(8 * count)
    if count:
        written = (*arguments, np.uint64(rows.ptr))
        lane.launch(get_kernel("mask_rows", "mask_rows", launch.DEFINES), grid, launch.MASK_THREADS, written)
    with lane.stream:
        return cupy.asarray(_Rows(rows, count))
