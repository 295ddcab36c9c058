"""The toy codec of text on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.text.cuda_task import TileEncoder, TrainingNbytes, TrainingRoom
from cudf_fsst.codecs.text.launch import defines
from cudf_fsst.device.kernels import Kernel
from cudf_fsst.device.memory import Lane

from . import TILE_SIZE, ToyTable
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


def kernels(step: str) -> tuple[Callable[[], Kernel], ...]:
    """None is compiled before a call asks for it."""
    del step
    return ()


class ToyEncoder(TileEncoder):
    """What trains tables and encodes tiles."""

    tile_size = TILE_SIZE

    def training_nbytes(self, scopes: int, chars_limit: int) -> TrainingNbytes:
        """See `TileEncoder`."""
        del scopes, chars_limit
        return TrainingNbytes(lookup=16, exported=1)

    def train(self, lane: Lane, room: TrainingRoom) -> None:
        """See `TileEncoder`."""
        arguments = np.uint64(room.lookup), np.uint64(room.exported), np.uint32(len(room.chars_limits))
        lane.launch(Kernel(FILE, "toy_train", defines(TILE_SIZE)), 1, 128, arguments)

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[ToyTable]:
        """See `TileEncoder`."""
        del scopes
        return list(map(ToyTable, exported.tolist()))

    def lookup(self, table: ToyTable, tables_form: int) -> npt.NDArray[np.uint8]:
        """See `TileEncoder`."""
        del tables_form
        return decode_table(table)

    def encode(
        self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, groups: int, tiles: int, per_group: int
    ) -> None:
        """See `TileEncoder`."""
        del tables_nbytes, per_group  # a group has one wave
        lane.launch(
            Kernel(FILE, "toy_encode", defines(tile_size)), (-(-tiles // 128), groups), 128, (np.uint64(waves_at),)
        )


_ENCODERS = [ToyEncoder()]


def encoders(level: str) -> Sequence[TileEncoder]:
    """The same at every level."""
    del level
    return _ENCODERS


def choices(tile_size: int) -> None:
    """Nothing to choose."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, table_nbytes: int) -> Shape:
    """Always the same."""
    del tile_size, codes_nbytes, tiles, table_nbytes
    return Shape()


def decode_kernel(tile_size: int) -> Any:
    """The kernel for a tile size."""
    return Kernel(FILE, "toy_decode", defines(tile_size))


def decode_table(table: ToyTable) -> npt.NDArray[np.uint8]:
    """What is added to a byte, in 16 bytes."""
    return np.array([table.plus, 0, 0, 0], "<u4").view(np.uint8)
