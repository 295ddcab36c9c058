"""Strings that repeat, as codes of their distinct values (docs/format.md, section 19)."""

from __future__ import annotations

from types import ModuleType

NAME = "dict"


def host() -> ModuleType:
    """The host side."""
    from . import cpu

    return cpu


def device() -> ModuleType:
    """The GPU side."""
    from . import cuda

    return cuda
