"""GFC (O'Neil, Burtscher, GPGPU-4 2011): numbers of 4 or 8 bytes as differences without their leading zero bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import DeviceCodec, Host, Options
from . import launch

NAME = "gfc"
ITEMSIZES = launch.ITEMSIZES
PARAMETERS = 2


def since(parameters: Sequence[int] = ()) -> int:
    return 2


def of_floats(parameters: Sequence[int]) -> bool:
    return False


def plan(itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
    """See `contract.Codec`; of integers only those of 8 bytes, which have bytes to lose."""
    if not (named or floats or itemsize == 8):
        return ()
    return [{"dim": dim} for dim in (launch.DIMS if named or floats else launch.DIMS[:1])]


def host() -> Host:
    from . import cpu

    return cpu


def device() -> DeviceCodec:
    from . import cuda

    return cuda
