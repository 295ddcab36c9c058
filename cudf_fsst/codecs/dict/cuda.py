"""The kernels that find values and read rows, on the current device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...device.kernels import Kernel
from ..cuda_kernels import get_kernel
from . import launch

_FILES = {name: file for file, names in launch.FINDING.items() for name in names}


def find_kernel(name: str) -> Any:
    """A kernel of one of the files of ``launch.FINDING``."""
    return get_kernel(_FILES[name], name, launch.FIND_DEFINES)


def read_kernel(name: str) -> Any:
    """A kernel of dict_read.cu."""
    return get_kernel("dict_read", name, launch.READ_DEFINES)


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    """What usual calls need, as `contract.DeviceCodec` has it."""
    finds = {
        "sample": ("dict_sample",),
        "sample short": ("dict_begins",),
        "find": ("dict_find_few", "dict_find_long", "dict_rank_few", "dict_renumber"),
    }
    yield from (partial(find_kernel, name) for name in finds.get(step, ()))
    if step == "read":
        yield partial(read_kernel, "dict_gather")
