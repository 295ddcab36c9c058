"""FSST: frequent symbols of strings as codes of a byte (docs/format.md, sections 1-7)."""

from __future__ import annotations

from ..contract import DeviceTextCodec, HostTextCodec
from .symbols import SymbolTable

NAME = "fsst"
# TPC-H l_comment on an H200: 128 decodes a tenth faster and has a 2 % lower ratio; 512 decodes a tenth slower and has a
# 1 % higher one. At 128 the ratio on genome falls below 0.99 of the original library's.
TILE_SIZE = 256
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
