"""gpuLZ: what was there before, in chunks (docs/format.md, section 13)."""

from __future__ import annotations

from collections.abc import Sequence

from .. import part
from ..contract import DeviceCodec, Host, Options

NAME = "gpulz"
ITEMSIZES = part.ITEMSIZES
PARAMETERS = 2


def since(parameters: Sequence[int] = ()) -> int:
    return 2


def of_floats(parameters: Sequence[int]) -> bool:
    return False


def plan(itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
    """See `contract.Codec`; slow, so only on demand."""
    return ({},) if named else ()


def host() -> Host:
    from . import cpu

    return cpu


def device() -> DeviceCodec:
    from . import cuda

    return cuda
