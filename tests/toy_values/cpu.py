"""The toy codec of values on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.part import Packed

from . import NAME


def measure(values: npt.NDArray[Any], *, signed: bool = False) -> int:
    """Bytes that `encode` makes."""
    del signed
    return values.nbytes


def encode(values: npt.NDArray[Any], *, signed: bool = False) -> Packed:
    """Add one to every byte."""
    del signed
    codes = values.view(np.uint8) + np.uint8(1)
    return Packed(NAME, values.size, values.itemsize, (), np.empty(0, np.uint8), codes, 0, codes.size)


def check(packed: Packed) -> None:
    """Raise ValueError unless there are as many bytes as the values have, and no others."""
    if packed.parameters:
        raise ValueError(f"{NAME} has no parameters, not {packed.parameters}")
    if packed.meta_nbytes or packed.codes_nbytes != packed.values_nbytes:
        raise ValueError(f"{packed.rows} values of {packed.itemsize} bytes in {packed.codes_nbytes} bytes")
    packed.check_buffers()


def unit(packed: Packed) -> int:
    """Rows that are decoded together."""
    del packed
    return 1


def decode(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    """Write the bytes of values `first` to ``last - 1`` (default: all) to `out`."""
    check(packed)
    last = packed.rows if last is None else last
    codes = packed.codes[first * packed.itemsize : last * packed.itemsize]
    if codes.size != out.size:
        raise ValueError(f"{codes.size} bytes of values do not go into {out.size}")
    np.subtract(codes, 1, out=out)


def take(packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write values `rows` to `out`."""
    check(packed)
    out[:] = (packed.codes - np.uint8(1)).view(out.dtype)[rows]
