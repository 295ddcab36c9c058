"""The toy codec of text on a GPU: tiles are decoded there, and encoded on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.text.cuda_task import TileEncoder
from cudf_fsst.codecs.text.launch import defines
from cudf_fsst.device.kernels import kernel

from . import ToyTable
from .launch import FILE

#: Rows are taken of what is decoded.
TAKES = False
#: Questions are answered on what is decoded.
MATCHES = False


class Shape(NamedTuple):
    """See `contract.DeviceTextCodec`."""

    threads: int = 128
    shared: int = 0
    codes_capacity: int = 0
    resident: int = 8


def kernels(step: str) -> tuple[Callable[[], object], ...]:
    """None is compiled before a call asks for it."""
    del step
    return ()


def encoders(level: str) -> tuple[TileEncoder, ...]:
    """None: the host encodes."""
    del level
    return ()


def choices(tile_size: int) -> None:
    """Nothing to choose."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, table_nbytes: int) -> Shape:
    """Always the same."""
    del tile_size, codes_nbytes, tiles, table_nbytes
    return Shape()


def decode_kernel(tile_size: int) -> Any:
    """The kernel for a tile size."""
    return kernel(FILE, "toy_decode", defines(tile_size))


def decode_table(table: ToyTable) -> npt.NDArray[np.uint8]:
    """What is added to a byte, in 16 bytes."""
    return np.array([table.plus, 0, 0, 0], "<u4").view(np.uint8)
