"""Values as they are, in GPU memory."""

from __future__ import annotations

import numpy as np

from ...device.memory import Lane
from ..part import Packed
from .cpu import check


def workspace_nbytes(rows: int, itemsize: int) -> int:
    """Bytes of workspace that `compress` and `measure` need."""
    del rows, itemsize
    return 0


def measure(
    address: int, rows: int, itemsize: int, *, signed: bool = False, lane: Lane, workspace: int, out: int
) -> None:
    """Write the bytes that `compress` makes to the address `out`, as u64."""
    del address, signed, workspace
    lane.upload(out, np.array([rows * itemsize], np.uint64))


def compress(address: int, rows: int, itemsize: int, *, signed: bool = False, lane: Lane, workspace: int) -> Packed:
    """Copy values."""
    del signed, workspace
    meta, codes = lane.allocate(0), lane.allocate(rows * itemsize)
    lane.copy(codes.ptr, address, rows * itemsize)
    return Packed("raw", rows, itemsize, (), meta, codes, 0, rows * itemsize)


def decompress(packed: Packed, address: int, *, lane: Lane) -> None:
    """Copy the values to an address; ValueError where there are not as many bytes as they have."""
    check(packed)
    lane.copy(address, packed.codes.ptr, packed.values_nbytes)
