"""The ASCII letters of strings in host memory in the other case, where they lie."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...workers import map_items
from ..jit import njit

#: Bytes that a thread changes at a time.
_CHUNK_NBYTES = 1 << 20


@njit()
def _change(chars: Any, small: Any, large: Any) -> int:
    """Give all bits that the bytes of `chars` had. `small`, `large`: whether these letters change, 0x20 or 0."""
    seen = np.uint8(0)
    for i in range(chars.size):
        byte = chars[i]
        seen |= byte
        is_small = np.uint8(byte - np.uint8(97)) < np.uint8(26)
        is_large = np.uint8(byte - np.uint8(65)) < np.uint8(26)
        chars[i] = byte ^ ((small if is_small else np.uint8(0)) | (large if is_large else np.uint8(0)))
    return int(seen)


def change(chars: npt.NDArray[np.uint8], *, small: bool, large: bool) -> bool:
    """Make small letters large, and large ones small, or both; says whether all bytes are ASCII.

    `chars` is the caller's own; what is not ASCII in it stays.
    """
    chunks = [chars[first : first + _CHUNK_NBYTES] for first in range(0, chars.size, _CHUNK_NBYTES)]
    masks = np.uint8(0x20 * small), np.uint8(0x20 * large)
    return all(seen < 0x80 for seen in map_items(partial(_changed, masks), chunks))


def _changed(masks: tuple[np.uint8, np.uint8], chars: npt.NDArray[np.uint8]) -> int:
    return int(_change(chars, *masks))
