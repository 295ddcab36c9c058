"""A toy codec of values, each byte plus one: what ``docs/architecture.md`` explains, and no part of the package."""

from __future__ import annotations

from collections.abc import Sequence

from cudf_fsst.codecs import part
from cudf_fsst.codecs.contract import DeviceCodec, Host, Options

NAME = "toyvals"
ITEMSIZES = part.ITEMSIZES
PARAMETERS = 0


def since(parameters: Sequence[int] = ()) -> int:
    """See `contract.Codec`."""
    del parameters
    return 4


def of_floats(parameters: Sequence[int]) -> bool:
    """See `contract.Codec`."""
    del parameters
    return False


def plan(itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
    """See `contract.Codec`; it makes nothing smaller, so only on demand."""
    del itemsize, floats
    return ({},) if named else ()


def host() -> Host:
    """The host side."""
    from . import cpu

    return cpu


def device() -> DeviceCodec:
    """The GPU side."""
    from . import cuda

    return cuda
