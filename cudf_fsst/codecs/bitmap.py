"""Arrow bitmaps on the host: bytes whose bits count from the lowest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def rebased(bitmap: npt.NDArray[np.uint8], first: int, rows: int) -> npt.NDArray[np.uint8]:
    """Bits `first` to ``first + rows - 1`` as a bitmap that starts at bit 0, zero bits after the last."""
    part = bitmap[first // 8 : -(-(first + rows) // 8)]
    shift = first % 8
    result = part.copy()
    if shift:
        result >>= shift
        result[:-1] |= part[1:] << (8 - shift)
    result = result[: -(-rows // 8)]
    if rows % 8:
        result[-1] &= (1 << rows % 8) - 1
    return result


def put(to: npt.NDArray[np.uint8], first: int, bits: npt.NDArray[np.uint8]) -> None:
    """OR a bitmap that starts at bit 0 into `to` from bit `first`."""
    at, shift = first // 8, first % 8
    if shift == 0:
        to[at : at + bits.size] |= bits
        return
    to[at : at + bits.size] |= bits << shift
    tail = to[at + 1 : at + 1 + bits.size]
    tail |= (bits >> (8 - shift))[: tail.size]


def bits_at(bitmap: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Bits at some places, 0 or 1 each."""
    return bitmap[places >> 3] >> (places & 7).astype(np.uint8) & 1
