"""The memory of an engine that makes it by the name of a class: counted, and limited where it is asked for."""

from __future__ import annotations

from typing import Any

import cupy
import rmm.mr

_made: list[Any] = []


def Counted(limit: int | None = None) -> Any:  # engines take the name of a class
    """What CUDA's own pool gives, counted; MemoryError of more than `limit` bytes."""
    total = cupy.cuda.runtime.memGetInfo()[1]
    memory: Any = rmm.mr.CudaAsyncMemoryResource(release_threshold=total // 10 * 9)  # the engine's own default
    if limit is not None:
        memory = rmm.mr.LimitingResourceAdaptor(memory, limit)
    _made.append(rmm.mr.StatisticsResourceAdaptor(memory))
    return _made[-1]


def last() -> Any:
    """The last that was made."""
    return _made[-1]
