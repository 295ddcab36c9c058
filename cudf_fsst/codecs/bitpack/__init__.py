"""Integers as differences from a base, in as few bits as a block needs (docs/format.md, section 11)."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import DeviceCodec, Host, Options
from . import launch

NAME = "bitpack"
ITEMSIZES = launch.ITEMSIZES
PARAMETERS = 4


def plan(itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
    """See `contract.Codec`; always worth trying, and a divisor is looked for where the sample got smaller by one."""
    every: list[Options] = [{}, {"divide": 1}]
    if floats and itemsize in launch.NAN_ITEMSIZES:
        every.append({"divide": 1, "nan": 1})
    return every


def since(parameters: Sequence[int] = ()) -> int:
    """See `contract.Codec`; codes that are divided are of version 3, stand-ins for a NaN of version 4."""
    return 4 if of_floats(parameters) else 3 if any(parameters[2:]) else 2


def of_floats(parameters: Sequence[int]) -> bool:
    """See `contract.Codec`; with stand-ins for a NaN."""
    return any(parameter & launch.HAS_NAN for parameter in parameters[1:2])


def host() -> Host:
    from . import cpu

    return cpu


def device() -> DeviceCodec:
    from . import cuda

    return cuda
