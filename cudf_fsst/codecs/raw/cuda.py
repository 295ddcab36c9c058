"""Values as they are, in GPU memory."""

from __future__ import annotations

from ...device.memory import Lane
from ..part import Packed
from .cpu import check


def decompress(packed: Packed, address: int, *, lane: Lane) -> None:
    """Copy the values to an address; ValueError where there are not as many bytes as they have."""
    check(packed)
    lane.copy(address, packed.codes.ptr, packed.values_nbytes)
