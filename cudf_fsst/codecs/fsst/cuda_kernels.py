"""Kernels of the FSST codec on the current device, and how to launch them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from ...device.kernels import Kernel
from ...device.memory import current_device, device_attributes, gpu_model
from . import launch, tuning
from .tuning import Choices

#: Kernels that are launched with more dynamic shared memory than any kernel may have without asking.
_MUCH_SHARED = ("fsst_encode", "fsst_encode_max", "fsst_decode", "fsst_train", "fsst_train_cluster")


@cache
def _kernel_on(device: int, file: str, name: str, tile_size: int, encode_warps: int | None) -> Kernel:
    shared_per_block = device_attributes()["shared_per_block"]
    much = file in ("fsst_edges", "fsst_search", "fsst_rows") or name in _MUCH_SHARED
    defines = launch.file_defines(file, tile_size, shared_per_block, encode_warps)
    return Kernel(file, name, defines, shared_per_block if much else 0)


def get_kernel(file: str, name: str, tile_size: int = 0, encode_warps: int | None = None) -> Kernel:
    """A kernel for the current device; with a tile size, compiled for it, and fsst_encode.cu for so many warps."""
    return _kernel_on(current_device(), file, name, tile_size, encode_warps)


_tried: Choices | None = None


@cache
def _measured(device: int) -> Mapping[int, Choices]:
    return tuning.load(gpu_model())


def choices(tile_size: int) -> Choices:
    """Launch choices for the current device: measured ones where this machine has them, else the defaults."""
    return _tried or _measured(current_device()).get(tile_size, tuning.DEFAULT)


@contextmanager
def trying(tried: Choices) -> Iterator[None]:
    """Launch everything, in all threads, by these choices."""
    global _tried
    before, _tried = _tried, tried
    try:
        yield
    finally:
        _tried = before
