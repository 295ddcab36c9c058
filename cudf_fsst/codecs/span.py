"""A range of integers, which values are compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Span(NamedTuple):
    """Values from `low` to `high`, both inside, or, `outside`, all others.

    Without any value between them, `low` is above `high`.
    """

    low: int
    high: int
    outside: bool = False

    def fields(self, itemsize: int) -> tuple[int, int, int]:
        """``Range`` of kernels/bitpack_compare.cu: the bits of `low`, what lies behind it, and `outside`.

        Both ends fit values of so many bytes.
        """
        mask = (1 << 8 * itemsize) - 1
        if self.low > self.high:  # nothing is all that is not everything
            return 0, mask, int(not self.outside)
        return self.low & mask, self.high - self.low, int(self.outside)

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each value is in it, an array of bool; `values` are unsigned integers with the bits of the values."""
        low, reach, outside = self.fields(values.itemsize)
        kind = values.dtype.type
        inside: npt.NDArray[np.bool_] = (values - kind(low)) <= kind(reach)
        return ~inside if outside else inside
