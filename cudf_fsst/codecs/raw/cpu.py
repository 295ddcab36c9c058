"""Values as they are (docs/format.md, section 14)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..part import Packed

_NOTHING = np.empty(0, np.uint8)


def measure(values: npt.NDArray[Any], *, signed: bool = False) -> int:
    return values.nbytes


def encode(values: npt.NDArray[Any], *, signed: bool = False) -> Packed:
    """Copy values."""
    codes = values.view(np.uint8).copy()
    return Packed("raw", values.size, values.itemsize, (), _NOTHING, codes, 0, codes.size)


def check(packed: Packed) -> None:
    """Raise ValueError unless the bytes, on the host or on a GPU, are as many as the values'."""
    if packed.parameters:
        raise ValueError(f"raw has no parameters, not {packed.parameters}")
    if packed.meta_nbytes or packed.codes_nbytes != packed.values_nbytes:
        raise ValueError(
            f"{packed.rows} values of {packed.itemsize} bytes stored in {packed.meta_nbytes} + {packed.codes_nbytes}"
        )
    packed.check_buffers()


def unit(packed: Packed) -> int:
    return 1


def decode(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    check(packed)
    last = packed.rows if last is None else last
    values = packed.codes[first * packed.itemsize : last * packed.itemsize]
    if out.size != values.size:
        raise ValueError(f"{values.size} bytes of values do not go into {out.size}")
    out[:] = values


def take(packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write values `rows` to `out`; see `contract.Host`."""
    check(packed)
    np.take(packed.codes.view(out.dtype), rows, out=out, mode="clip")  # the others make a copy
