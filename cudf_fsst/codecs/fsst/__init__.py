"""FSST: frequent symbols of strings as codes of a byte (docs/format.md, sections 1-7)."""

from __future__ import annotations

from types import ModuleType

from ..contract import HostOfStrings

NAME = "fsst"


def since() -> int:
    """See `contract.StringCodec`."""
    return 1


def host() -> HostOfStrings:
    """The host side."""
    from ..text import cpu

    return cpu


def device() -> ModuleType:
    """The GPU side."""
    from . import cuda

    return cuda
