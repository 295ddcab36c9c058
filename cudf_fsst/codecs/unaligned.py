"""Loads and stores at addresses, for Numba: any alignment, arrays that are read-only or not, one compiled version.

The CPU codecs read eight bytes at a time from wherever they stand. Nothing here checks bounds: callers do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .jit import Intrinsic

#: At an address; by bits. See `intrinsics`.
load8, load16, load32, load64 = (Intrinsic(f"load{bits}") for bits in (8, 16, 32, 64))
store8, store16, store32, store64 = (Intrinsic(f"store{bits}") for bits in (8, 16, 32, 64))
#: ``memcpy(to, source, nbytes)``, ``memmove``; zero bits below the lowest one bit, 64 of 0; one bits.
copy, move, trailing_zeros, popcount = map(Intrinsic, ("copy", "move", "trailing_zeros", "popcount"))


def address(array: npt.NDArray[Any]) -> int:
    """Address of a C-contiguous array's first byte."""
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous")
    return int(array.__array_interface__["data"][0])


def padded_copy(array: npt.NDArray[np.uint8], padding: int) -> npt.NDArray[np.uint8]:
    """Copy bytes into a new array with `padding` zero bytes after them."""
    result = np.zeros(array.size + padding, np.uint8)
    result[: array.size] = array
    return result
