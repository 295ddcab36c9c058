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
    """Rows that are decoded already, as `Unwritten`."""

    def __init__(self, strings: HostStrings) -> None:
        self._strings, self.rows, self.chars = strings, strings.rows, strings.chars.size

    def write(self, position: int, offsets: npt.NDArray[Any], chars: npt.NDArray[np.uint8]) -> tuple[Any, int]:
        strings = self._strings
        np.add(strings.offsets[1:], position, out=offsets, dtype=offsets.dtype, casting="same_kind")
        chars[position : position + self.chars] = strings.chars
        return strings.validity, strings.null_count


def joined(pieces: Sequence[Unwritten]) -> HostStrings:
    """Strings one after another."""
    total, rows = sum(piece.chars for piece in pieces), sum(piece.rows for piece in pieces)
    chars, offsets = np.empty(total, np.uint8), np.zeros(rows + 1, offset_dtype(total))
    bitmap = np.zeros(-(-rows // 8), np.uint8)
    row = position = nulls = 0
    for piece in pieces:
        bits, count = piece.write(position, offsets[row + 1 : row + 1 + piece.rows], chars)
        put_valid(bitmap, row, piece.rows, bits)
        nulls += count
        row += piece.rows
        position += piece.chars
    return HostStrings(rows, chars, offsets, bitmap if nulls else None, 0, nulls)


def put_valid(bitmap: npt.NDArray[np.uint8], row: int, rows: int, bits: npt.NDArray[np.uint8] | None) -> None:
    """Put the validity of some rows, from bit 0, into a bitmap; None, or empty: none of them is null."""
    if bits is None or not bits.size:
        bits = np.full(-(-rows // 8), 255, np.uint8)
    put(bitmap, row, rebased(bits, 0, rows))
