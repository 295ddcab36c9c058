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
#: ``memcpy(to, source, nbytes)``, ``memmove``, of 16 bytes ``copy16(to, source)``; zero bits below the lowest one bit,
#: 64 of 0; one bits.
copy, move, copy16, trailing_zeros, popcount = map(Intrinsic, ("copy", "move", "copy16", "trailing_zeros", "popcount"))

#: ``place64(at, left, before, limits, base, out)``: where the symbols of up to 64 codes of `fsst` end, of which `left`
#: are a tile's: to `out` 64 bytes, of each the place of its symbol's last byte, the low 8 bits of it. An escape stands
#: for a byte, and the one behind it for none. `base` bytes are before them, and the code `before`; `limits` is the
#: address of a table's `length_limits`. 64 bytes from `at` are read. Returns the bytes with them, or -1: an escape is
#: behind an escape. ``sum64(at, left, base, out)``: the same of 64 lengths, which are at most 31 bytes, of which `left`
#: count. ``count_below(at, value)``: how many of the 64 bytes at an address are below it. ``fill64(at)``:
#: let them be 255. ``equal_to(at, value)``: a bit for each of them, 1 where it is a value, a uint8. ``prefetch(at)``:
#: have what is there on its way into the caches. ``widen64(at, before, out)``: to `out` 64 codes of
#: `fsst` as uint16; an escape is the byte behind it, and 256 more, and that one is 255. 65 bytes from `at` are read.
#: ``scale64(at, factor, out)``: to `out` 64 uint32, of uint16 times `factor`.
place64, sum64, count_below, fill64, equal_to, prefetch, widen64, scale64 = map(
    Intrinsic, ("place64", "sum64", "count_below", "fill64", "equal_to", "prefetch", "widen64", "scale64")
)

#: ``ends8(low, high, width, minimum, base, out)``: where 8 rows end, as int64 to `out`, and the last of these. Lengths
#: less `minimum` are `width` bits each, four from the lowest bit of `low` on, and four of `high`; `base` is where the
#: first row begins. ``within8(ends, least, most, out)``: to `out` a byte for each of 8 rows, 1 where it has at least
#: `least` and at most `most` bytes; at the address `ends` is where the first row begins, then where the rows end.
ends8, within8 = map(Intrinsic, ("ends8", "within8"))


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
