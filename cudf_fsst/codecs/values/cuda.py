"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

from .cuda_compress import StreamSource, StreamTask, compress, compress_as
from .cuda_read import ReadRequest, decompress, take

__all__ = ["ReadRequest", "StreamSource", "StreamTask", "compress", "compress_as", "decompress", "take"]
