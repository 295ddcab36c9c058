"""OnPair on a GPU: what differs from other codecs of text (`contract.DeviceTextCodec`).

Tiles are decoded there. The host trains and encodes: kernels that do both on a GPU are there, checked and timed
(onpair_train.cu, onpair_encode.cu), but nothing launches them for columns yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...device.memory import device_attributes
from ..cuda_kernels import get_kernel
from . import launch
from .launch import decode_table
from .symbols import BITS

__all__ = ["ENCODES", "TAKES", "choices", "decode_kernel", "decode_shape", "decode_table", "kernels"]

#: Rows are taken of what is decoded.
TAKES = False
#: Questions are answered on what is decoded.
MATCHES = False
#: The host does.
ENCODES = False


def kernels(step: str) -> tuple[Callable[[], object], ...]:
    """See `contract.DeviceTextCodec`; it is only taken where it is named."""
    del step
    return ()


class DecodeLaunch(NamedTuple):
    """See `contract.DeviceTextCodec`; `codes_capacity` is what of the shared memory is for the table."""

    threads: int
    shared: int
    codes_capacity: int
    resident: int


def choices(tile_size: int) -> None:
    """Nothing decides but the device."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, tables_nbytes: int) -> DecodeLaunch:
    """See `contract.DeviceTextCodec`. No table is larger than all of them together."""
    del tile_size, codes_nbytes, tiles
    attributes = device_attributes()
    bits = next((bits for bits in BITS if launch.table_nbytes(bits) >= tables_nbytes), BITS[-1])
    shape = launch.decode_shape(attributes["shared_per_block"], bits if _staged() else BITS[-1])
    blocks = min(2, attributes["shared_per_multiprocessor"] // (shape.shared + 1024))
    return DecodeLaunch(shape.threads, shape.shared, shape.table, max(1, blocks) * shape.threads // 32)


def _staged() -> bool:
    """Whether tables lie in shared memory: where those of the most bits fit."""
    return launch.decode_shape(device_attributes()["shared_per_block"], BITS[-1]).table > 0


def decode_kernel(tile_size: int) -> Any:
    """See `contract.DeviceTextCodec`."""
    return get_kernel("onpair_decode", "onpair_decode", launch.defines(tile_size, _staged()), shared=True)
