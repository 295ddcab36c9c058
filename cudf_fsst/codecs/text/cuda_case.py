"""The ASCII letters of strings in GPU memory in the other case, where they lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane, device_attributes
from ..cuda_kernels import blocks
from .cuda_kernels import get_kernel

_u32, _u64 = np.uint32, np.uint64
_THREADS = 256
#: Bytes of a thread of a full grid, at least, and thread blocks on a multiprocessor.
_NBYTES, _BLOCKS = 64, 8


def change(strings: DeviceStrings, *, small: bool, large: bool, lane: Lane) -> Callable[[], bool]:
    """Make small letters large, and large ones small, or both.

    Parameters
    ----------
    strings
        In buffers that nobody else has. What is not ASCII in them stays.

    Returns
    -------
    callable
        Waits for the GPU, and says whether all bytes are ASCII.
    """
    nbytes = strings.owners[1].size
    seen = lane.allocate(4)
    lane.zero(seen.ptr, 4)
    grid = min(max(blocks(nbytes, _NBYTES * _THREADS), 1), _BLOCKS * device_attributes()["multiprocessors"])
    masks = (_u32(0xFFFFFFFF * wanted) for wanted in (small, large))
    kernel = get_kernel("text_case", "text_case")
    lane.launch(kernel, grid, _THREADS, (_u64(strings.chars), _u64(nbytes), *masks, _u64(seen.ptr)))
    found, event = lane.fetch(seen.ptr, 1, _u32), lane.event()

    def all_ascii() -> bool:
        event.synchronize()
        return not found[0]

    return all_ascii
