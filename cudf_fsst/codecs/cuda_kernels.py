"""Kernels of the codecs for fixed-width values on the current device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ..device.kernels import kernel
from ..device.memory import current_device, device_attributes


@cache
def _kernel_on(device: int, file: str, name: str, defines: tuple[tuple[str, int], ...], shared: bool) -> Any:
    made = kernel(file, name, dict(defines))
    if shared:
        made.raw.max_dynamic_shared_size_bytes = device_attributes()["shared_per_block"] - made.raw.shared_size_bytes
    return made


def get_kernel(file: str, name: str, defines: Mapping[str, int], *, shared: bool = False) -> Any:
    """A kernel for the current device; `shared`: it may use more than 48 KiB of dynamic shared memory."""
    return _kernel_on(current_device(), file, name, tuple(defines.items()), shared)


def blocks(count: int, per_block: int) -> int:
    return -(-count // per_block)
