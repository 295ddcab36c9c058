"""Kernels of the FSST codec on the current device."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...device.kernels import kernel
from ...device.memory import current_device, device_attributes
from . import launch


@cache
def _kernel_on(device: int, file: str, name: str, tile_size: int) -> Any:
    # CuPy's kernel objects belong to the device that is current when they are asked for.
    shared_per_block = device_attributes()["shared_per_block"]
    if file == "fsst_encode":
        defines = launch.encode_defines(tile_size, shared_per_block)
    elif file == "fsst_encode_max":
        defines = launch.encode_max_defines(tile_size, shared_per_block)
    else:
        defines = launch.defines(tile_size) if tile_size else launch.DEFINES
    made = kernel(file, name, defines)
    if name in ("fsst_encode", "fsst_encode_max", "fsst_decode"):
        # Once, to the most there is: threads that launch with different amounts share the kernel.
        made.max_dynamic_shared_size_bytes = shared_per_block
    return made


def get_kernel(file: str, name: str, tile_size: int = 0) -> Any:
    """A kernel for the current device; with a tile size, compiled for it."""
    return _kernel_on(current_device(), file, name, tile_size)


def blocks(count: int, per_block: int) -> int:
    return -(-count // per_block)
