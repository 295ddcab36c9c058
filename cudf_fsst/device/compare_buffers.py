"""Whether buffers in GPU memory have the same bytes, by kernels/compare_buffers.cu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .kernels import Kernel
from .memory import Lane, current_device

#: Threads of a block, what it compares at most, blocks of a pair, and pairs of a launch.
_THREADS, _PER_BLOCK, _BLOCKS, _PAIRS = 256, 64 << 10, 1024, 65535


@cache
def _kernel_on(_device: int) -> Any:
    return Kernel("compare_buffers", "compare_buffers", {})


def different(pairs: Sequence[tuple[Any, Any]], *, lane: Lane) -> npt.NDArray[np.bool_]:
    """Whether bytes differ in each pair of buffers, which are of one size. The GPU is waited for once."""
    if not pairs:
        return np.empty(0, np.bool_)
    jobs = np.array([(left.ptr, other.ptr, left.size) for left, other in pairs], np.uint64)
    table, found = lane.allocate(jobs.nbytes), lane.allocate(4 * len(pairs))
    lane.upload(table.ptr, jobs)
    lane.zero(found.ptr, found.size)
    for first in range(0, len(pairs), _PAIRS):
        batch = jobs[first : first + _PAIRS]
        grid = min(-(-int(batch[:, 2].max()) // _PER_BLOCK), _BLOCKS), len(batch)
        arguments = np.uint64(table.ptr + 24 * first), np.uint64(found.ptr + 4 * first)
        lane.launch(_kernel_on(current_device()), grid, _THREADS, arguments)
    return lane.read(found.ptr, len(pairs), np.uint32) != 0
