"""Fixed-width values in GPU memory: what `cpu` does on the host, with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...device.memory import Lane, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..part import Packed
from .cuda_compress import Source, Task, codec_module, compress, compress_as
from .launch import DEFINES

__all__ = ["Source", "Task", "compress", "compress_as", "decompress", "decompress_wide"]

_u32, _u64 = np.uint32, np.uint64
_THREADS = 256


def _grid(rows: int) -> int:
    return min(blocks(rows, _THREADS), 16 * device_attributes()["multiprocessors"])


def join_wide(low: int, high: int, rows: int, *, out: int, lane: Lane) -> None:
    """Put low and high halves together."""
    kernel = get_kernel("values", "join_wide", DEFINES)
    lane.launch(kernel, _grid(rows), _THREADS, (_u64(low), _u64(high), _u64(rows), _u64(out)))


def place_wide(values: int, rows: int, half: int, *, out: int, lane: Lane) -> None:
    """Write `values` to where numbers of 16 bytes have their low (`half` 0) or high (1) 64 bits."""
    kernel = get_kernel("values", "place_wide", DEFINES)
    lane.launch(kernel, _grid(rows), _THREADS, (_u64(values), _u64(rows), _u32(half), _u64(out)))


def decompress_wide(low: Sequence[Packed], high: Sequence[Packed], address: int, *, lane: Lane) -> None:
    """Write numbers of 16 bytes, of which these are the halves, to an address.

    Halves that are cut at the same rows, as this package cuts them, are put together piece by piece. Cut at others,
    which a file may as well, each half is written by itself.
    """
    longest = max(piece.rows for piece in (*low, *high))
    together = [piece.rows for piece in low] == [piece.rows for piece in high]
    rooms = [lane.allocate(8 * longest) for _ in range(2 if together else 1)]
    if together:
        for pieces in zip(low, high, strict=True):
            for piece, room in zip(pieces, rooms, strict=True):
                codec_module(piece.codec).decompress(piece, room.ptr, lane=lane)
            join_wide(rooms[0].ptr, rooms[1].ptr, pieces[0].rows, out=address, lane=lane)
            address += 16 * pieces[0].rows
        return
    for half, stream in enumerate((low, high)):
        out = address
        for piece in stream:
            codec_module(piece.codec).decompress(piece, rooms[0].ptr, lane=lane)
            place_wide(rooms[0].ptr, piece.rows, half, out=out, lane=lane)
            out += 16 * piece.rows


def decompress(stream: Sequence[Packed], address: int, *, lane: Lane) -> None:
    """Write the values of a stream to an address."""
    for piece in stream:
        codec_module(piece.codec).decompress(piece, address, lane=lane)
        address += piece.values_nbytes
