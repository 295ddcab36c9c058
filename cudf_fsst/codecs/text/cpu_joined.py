"""Strings one after another, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ..bitmap import put, rebased
from .cpu_read import offset_dtype


class Unwritten(Protocol):
    """Rows that are about to be written: how many, how many characters, and how."""

    rows: int
    chars: int

    def write(self, position: int, offsets: npt.NDArray[Any], chars: npt.NDArray[np.uint8]) -> tuple[Any, int]:
        """Write where rows end, and their characters from `position` on; their validity or None, and nulls."""


class DecodedRows:
    """Rows that are there: `Unwritten`."""

    def __init__(self, found: HostStrings) -> None:
        self._found, self.rows, self.chars = found, found.rows, found.chars.size

    def write(self, position: int, offsets: npt.NDArray[Any], chars: npt.NDArray[np.uint8]) -> tuple[Any, int]:
        found = self._found
        np.add(found.offsets[1:], position, out=offsets, dtype=offsets.dtype, casting="same_kind")
        chars[position : position + self.chars] = found.chars
        return found.validity, found.null_count


def joined(found: Sequence[Unwritten]) -> HostStrings:
    """Strings one after another."""
    total, rows = sum(one.chars for one in found), sum(one.rows for one in found)
    chars, offsets = np.empty(total, np.uint8), np.zeros(rows + 1, offset_dtype(total))
    bitmap = np.zeros(-(-rows // 8), np.uint8)
    row = position = nulls = 0
    for one in found:
        bits, count = one.write(position, offsets[row + 1 : row + 1 + one.rows], chars)
        put_valid(bitmap, row, one.rows, bits)
        nulls += count
        row += one.rows
        position += one.chars
    return HostStrings(rows, chars, offsets, bitmap if nulls else None, 0, nulls)


def put_valid(bitmap: npt.NDArray[np.uint8], row: int, rows: int, bits: npt.NDArray[np.uint8] | None) -> None:
    """Put the validity of some rows, from bit 0, into a bitmap; None, or empty: none of them is null."""
    if bits is None or not bits.size:
        bits = np.full(-(-rows // 8), 255, np.uint8)
    put(bitmap, row, rebased(bits, 0, rows))
