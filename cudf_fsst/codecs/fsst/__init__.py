"""FSST: frequent symbols of strings as codes of a byte (docs/format.md, sections 1-7)."""

from __future__ import annotations

from ..contract import DeviceTextCodec, HostTextCodec
from .symbols import TILE_SIZE as TILE_SIZE
from .symbols import SymbolTable

NAME = "fsst"
TABLE = SymbolTable


def since() -> int:
    """See `contract.TextCodec`."""
    return 1


def host() -> HostTextCodec:
    """The host side."""
    from . import cpu

    return cpu


def device() -> DeviceTextCodec:
    """The GPU side."""
    from . import cuda

    return cuda
