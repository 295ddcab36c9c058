"""Values taken from units that are decoded whole, for the host sides of codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


def take(
    rows: npt.NDArray[np.int64],
    unit: int,
    out: npt.NDArray[Any],
    decode: Callable[[npt.NDArray[np.int64], npt.NDArray[Any]], None],
) -> None:
    """Write values `rows` to `out`.

    Parameters
    ----------
    rows
        At least one.
    unit
        Rows that are decoded together.
    out
        Unsigned integers, as many as `rows`.
    decode
        Called once, with the numbers of the units that are needed, ascending, and room for all their values, one unit
        after another; the last unit may have fewer.
    """
    units = rows // unit
    first = int(units.min())
    touched = np.zeros(int(units.max()) - first + 1, np.bool_)
    touched[units - first] = True
    unit_values = np.empty(np.count_nonzero(touched) * unit, out.dtype)
    decode(np.flatnonzero(touched) + first, unit_values)
    slots = np.cumsum(touched) - 1
    np.take(unit_values, (slots[units - first] - units) * unit + rows, out=out, mode="clip")  # the others make a copy
