"""Compressed parts of columns between GPU memory and pinned host memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from .memory import Lane
from .pinned import host_buffer

#: A dataclass with the buffers ``meta`` and ``codes``: a segment, or packed values.
Part = TypeVar("Part", bound=Any)


def to_host(parts: Sequence[Part], *, stream: Any = None) -> list[Part]:
    """Copy parts to pinned host memory."""
    with Lane(stream) as lane:
        moved = []
        for part in parts:
            meta, codes = host_buffer(part.meta.size), host_buffer(part.codes.size)
            lane.download(meta, part.meta.ptr)
            lane.download(codes, part.codes.ptr)
            moved.append(replace(part, meta=meta, codes=codes))
        lane.synchronize()
        return moved


def to_device(parts: Sequence[Part], *, stream: Any = None) -> list[Part]:
    """Copy parts from host memory to the current device."""
    with Lane(stream) as lane:
        moved = []
        for part in parts:
            meta, codes = lane.allocate(part.meta.size), lane.allocate(part.codes.size)
            lane.upload(meta.ptr, np.ascontiguousarray(part.meta))
            lane.upload(codes.ptr, np.ascontiguousarray(part.codes))
            moved.append(replace(part, meta=meta, codes=codes))
        lane.synchronize()
        return moved
