"""FSST on a GPU: what differs from other codecs of text (`contract.DeviceTextCodec`)."""

from __future__ import annotations

from typing import Any

from ...device.memory import device_attributes
from . import launch
from .cuda_compress import compress, train
from .cuda_kernels import choices, get_kernel
from .launch import decode_table

__all__ = ["ENCODES", "TAKES", "choices", "compress", "decode_kernel", "decode_shape", "decode_table", "train"]

#: fsst_take.cu decodes the tiles of single rows.
TAKES = True
#: fsst_encode.cu and its like.
ENCODES = True


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, tables_nbytes: int) -> launch.Shape:
    """See `contract.DeviceTextCodec`."""
    del tables_nbytes
    attributes, how = device_attributes(), choices(tile_size)
    return launch.decode_shape(
        tile_size,
        launch.decode_codes_capacity(tile_size, codes_nbytes, tiles, how.decode_capacity),
        attributes["shared_per_block"],
        attributes["shared_per_multiprocessor"],
        how.decode_warps,
    )


def decode_kernel(tile_size: int) -> Any:
    """See `contract.DeviceTextCodec`."""
    return get_kernel("fsst_decode", "fsst_decode", tile_size)
