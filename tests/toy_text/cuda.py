"""The toy codec of text on a GPU: tiles are decoded there, and encoded on the host."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cudf_fsst.buffers import DeviceStrings, HostStrings
from cudf_fsst.codecs.fsst.launch import defines
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.device.kernels import kernel
from cudf_fsst.device.memory import Lane

from . import ToyTable

#: Rows are taken of what is decoded.
TAKES = False
_FILE = str(Path(__file__).with_name("toy_text"))


class Shape(NamedTuple):
    """See `contract.DeviceTextCodec`."""

    threads: int = 128
    shared: int = 0
    codes_capacity: int = 0
    resident: int = 8


def choices(tile_size: int) -> None:
    """Nothing to choose."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, tables_nbytes: int) -> Shape:
    """Always the same."""
    del tile_size, codes_nbytes, tiles, tables_nbytes
    return Shape()


def decode_kernel(tile_size: int) -> Any:
    """The kernel for a tile size."""
    return kernel(_FILE, "toy_decode", defines(tile_size))


def decode_table(table: ToyTable) -> npt.NDArray[np.uint8]:
    """What is added to a byte, in 16 bytes."""
    return np.array([table.plus, 0, 0, 0], "<u4").view(np.uint8)


def _to_host(strings: DeviceStrings, lane: Lane) -> HostStrings:
    if not strings.rows:
        return HostStrings(0, np.empty(0, np.uint8), np.zeros(1, np.int32))
    offsets = lane.read(strings.offsets, strings.rows + 1, f"<i{strings.offsets_itemsize}")
    first, last = int(offsets[0]), int(offsets[-1])
    chars = lane.read(strings.chars + first, last - first, np.uint8) if last > first else np.empty(0, np.uint8)
    made = HostStrings(strings.rows, chars, offsets - offsets[0])
    if strings.null_count:
        nbytes = -(-(strings.validity_offset + strings.rows) // 8)
        made.validity, made.null_count = lane.read(strings.validity, nbytes, np.uint8), strings.null_count
        made.validity_offset = strings.validity_offset
    return made


def compress(tasks: Sequence[Any], *, lane: Lane, outbox: Any = None) -> Generator[None, None, list[list[Segment]]]:
    """Compress columns on the host, and bring what is made to the GPU unless it is to be on the host."""
    import toy_text

    made = []
    for task in tasks:
        strings = _to_host(task.strings, lane)
        segments = cpu.compress(strings, toy_text, table=task.table, tile_size=task.tile_size, level=task.level)
        if outbox is None:
            for i, segment in enumerate(segments):
                meta, codes = lane.allocate(segment.meta.size), lane.allocate(segment.codes.size)
                lane.upload(meta.ptr, segment.meta)
                lane.upload(codes.ptr, segment.codes)
                own = segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes
                segments[i] = Segment(*own)
        made.append(segments)
    yield
    return made


def train(strings: DeviceStrings, *, level: str, stream: Any) -> ToyTable:
    """Nothing is learnt."""
    del strings, level, stream
    return ToyTable()
