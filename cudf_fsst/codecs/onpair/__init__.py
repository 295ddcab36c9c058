"""OnPair: frequent symbols of up to 16 bytes as codes of 10 to 12 bits (docs/format.md, section 23)."""

from __future__ import annotations

from types import ModuleType

from ..contract import HostTextCodec
from .symbols import TILE_SIZE as TILE_SIZE
from .symbols import OnPairTable

NAME = "onpair"
TABLE = OnPairTable


def since() -> int:
    return 4


def host() -> HostTextCodec:
    from . import cpu

    return cpu


def device() -> ModuleType:
    from . import cuda

    return cuda
