"""The GPU side of the FSST codec: what `cpu` is for host memory, with the same bytes."""

from __future__ import annotations

from ...device.transfer import to_device, to_host
from .cuda_compress import compress_one as compress
from .cuda_compress import train
from .cuda_read import decompress, receive, take, take_range

__all__ = ["compress", "decompress", "receive", "take", "take_range", "to_device", "to_host", "train"]
