"""Kernels of all codecs of text on the current device."""

from __future__ import annotations

from functools import cache

from ...device.kernels import Kernel
from ...device.memory import current_device
from . import launch


@cache
def _kernel_on(device: int, file: str, name: str, tile_size: int) -> Kernel:
    return Kernel(file, name, launch.file_defines(file, tile_size))


def get_kernel(file: str, name: str, tile_size: int = 0) -> Kernel:
    """A kernel for the current device; with a tile size, compiled for it."""
    return _kernel_on(current_device(), file, name, tile_size)
