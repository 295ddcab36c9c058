"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...device.kernels import Kernel
from .cuda_batch import StreamSource, StreamTask, gather_kernel
from .cuda_compress import compress, compress_as
from .cuda_read import ReadRequest, decompress, take

__all__ = ["ReadRequest", "StreamSource", "StreamTask", "compress", "compress_as", "decompress", "kernels", "take"]


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    """What the codecs share, as `contract.DeviceCodec` has it."""
    if step == "measure":
        yield gather_kernel
