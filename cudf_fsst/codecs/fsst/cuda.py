"""The GPU side of the FSST codec: what `cpu` is for host memory, with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...buffers import DeviceStrings
from ...device.memory import Lane
from ...device.transfer import to_device, to_host
from ..text.segment import Segment
from . import cuda_gather, cuda_read
from .cuda_compress import compress_one as compress
from .cuda_compress import train
from .cuda_read import receive

__all__ = ["compress", "decompress", "receive", "take", "take_range", "to_device", "to_host", "train"]


def decompress(segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
    """All rows; see `cuda_read.read`."""
    with Lane(stream) as lane:
        return cuda_read.read([segments], lane=lane)[0]


def take_range(segments: Sequence[Segment], start: int, stop: int, *, stream: Any = None) -> DeviceStrings:
    """Rows ``start:stop``; see `cuda_read.read`."""
    with Lane(stream) as lane:
        return cuda_read.read([segments], lane=lane, start=start, stop=stop)[0]


def take(segments: Sequence[Segment], rows: Any, *, stream: Any = None) -> DeviceStrings:
    """Rows by number; see `cuda_gather.take`."""
    with Lane(stream) as lane:
        return cuda_gather.take([segments], rows, lane=lane)[0]
