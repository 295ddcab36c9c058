"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

from .cuda_compress import Source, Task, compress, compress_as
from .cuda_read import Job, decompress, take

__all__ = ["Job", "Source", "Task", "compress", "compress_as", "decompress", "take"]
