"""FSST: frequent symbols of strings as codes of a byte (docs/format.md, sections 1-7)."""

from __future__ import annotations

from ..contract import DeviceTextCodec, HostTextCodec
from .symbols import TILE_SIZE as TILE_SIZE
from .symbols import SymbolTable

NAME = "fsst"
TABLE = SymbolTable


def since() -> int:
    return 1


def host() -> HostTextCodec:
    from . import cpu

    return cpu


def device() -> DeviceTextCodec:
    from . import cuda

    return cuda
