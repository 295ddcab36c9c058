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
    del itemsize, floats, named
    return {}, {"divide": 1}


def since(parameters: Sequence[int] = ()) -> int:
    """See `contract.Codec`; codes that are divided are of version 3."""
    return 3 if any(parameters[2:]) else 2


def host() -> Host:
    """The host side."""
    from . import cpu

    return cpu


def device() -> DeviceCodec:
    """The GPU side."""
    from . import cuda

    return cuda
