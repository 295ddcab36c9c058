"""Row numbers of a mask in GPU memory, by kernels/mask_rows.cu."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .kernels import Kernel
from .launch import MASK_BLOCK, MASK_DEFINES, MASK_THREADS

if TYPE_CHECKING:
    from .memory import Lane


@cache
def _kernel_on(_device: int, name: str) -> Any:
    return Kernel("mask_rows", name, MASK_DEFINES)


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
    import cupy

    from .memory import DeviceInts, current_device

    with lane.stream:
        mask = cupy.ascontiguousarray(mask)
    begin, device = int(mask.data.ptr), current_device()
    end = begin + int(mask.size)
    grid = -(-(end - begin // 4 * 4) // MASK_BLOCK)
    work = lane.allocate(16 + 8 * grid)
    lane.zero(work.ptr, 16)
    arguments = np.uint64(begin), np.uint64(end), np.uint64(work.ptr + 16)
    lane.launch(_kernel_on(device, "mask_count"), grid, MASK_THREADS, (*arguments, np.uint64(work.ptr)))
    count = int(lane.read(work.ptr, 1, np.int64)[0])
    rows = lane.allocate(8 * count)
    if count:
        lane.launch(_kernel_on(device, "mask_rows"), grid, MASK_THREADS, (*arguments, np.uint64(rows.ptr)))
    with lane.stream:
        return cupy.asarray(DeviceInts(rows, 0, 8 * count))
