"""Values as they are (docs/format.md, section 14)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..part import Packed, check_buffers

_NOTHING = np.empty(0, np.uint8)


def measure(values: npt.NDArray[Any], *, signed: bool = False) -> int:
    """Bytes that `compress` makes."""
    del signed
    return values.nbytes


def compress(values: npt.NDArray[Any], *, signed: bool = False) -> Packed:
    """Copy values."""
    del signed
    codes = values.view(np.uint8).copy()
    return Packed("raw", values.size, values.itemsize, (), _NOTHING, codes, 0, codes.size)


def check(packed: Packed) -> None:
    """Raise ValueError unless the bytes, on the host or on a GPU, are as many as the values'."""
    if packed.meta_nbytes or packed.codes_nbytes != packed.values_nbytes:
        raise ValueError(
            f"{packed.rows} values of {packed.itemsize} bytes stored in {packed.meta_nbytes} + {packed.codes_nbytes}"
        )
    check_buffers(packed)


def unit(packed: Packed) -> int:
    """A range of values to decompress begins at a multiple of this."""
    del packed
    return 1


def decompress(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    """Copy values `first` to ``last - 1`` (default: all) to `out`, an array of exactly their size."""
    check(packed)
    last = packed.rows if last is None else last
    values = packed.codes[first * packed.itemsize : last * packed.itemsize]
    if out.size != values.size:
        raise ValueError(f"{values.size} bytes of values do not go into {out.size}")
    out[:] = values
