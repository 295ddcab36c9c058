"""The GPU side of the FSST codec: what `cpu` is for host memory, with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...device.memory import Lane, pinned
from .cuda_compress import compress, train
from .cuda_read import decompress, take, take_range
from .segment import Segment

__all__ = ["compress", "decompress", "take", "take_range", "to_device", "to_host", "train"]


def to_host(segments: Sequence[Segment], *, stream: Any = None) -> list[Segment]:
    """Copy segments to pinned host memory."""
    with Lane(stream) as lane:
        moved = []
        for segment in segments:
            meta, codes = pinned(segment.meta.size, np.uint8), pinned(segment.codes.size, np.uint8)
            lane.download(meta, segment.meta.ptr)
            lane.download(codes, segment.codes.ptr)
            moved.append(Segment(segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes))
        lane.synchronize()
        return moved


def to_device(segments: Sequence[Segment], *, stream: Any = None) -> list[Segment]:
    """Copy segments from host memory to the current device."""
    with Lane(stream) as lane:
        moved = []
        for segment in segments:
            meta, codes = lane.allocate(segment.meta.size), lane.allocate(segment.codes.size)
            lane.upload(meta.ptr, np.ascontiguousarray(segment.meta))
            lane.upload(codes.ptr, np.ascontiguousarray(segment.codes))
            moved.append(Segment(segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes))
        lane.synchronize()
        return moved
