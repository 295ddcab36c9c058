"""Kernels of the codecs for fixed-width values on the current device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..device.kernels import Kernel
from ..device.memory import current_device, device_attributes


@cache
def _kernel_on(device: int, file: str, name: str, defines: tuple[tuple[str, int], ...], shared: bool) -> Kernel:
    return Kernel(file, name, dict(defines), device_attributes()["shared_per_block"] if shared else 0)


def get_kernel(file: str, name: str, defines: Mapping[str, int], *, shared: bool = False) -> Kernel:
    """A kernel for the current device; `shared`: it may use more than 48 KiB of dynamic shared memory."""
    return _kernel_on(current_device(), file, name, tuple(defines.items()), shared)


def blocks(count: int, per_block: int) -> int:
    return -(-count // per_block)
