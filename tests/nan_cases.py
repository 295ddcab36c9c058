"""Floating point numbers with NaN of several bits, for the host's tests and those of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: By bytes: NumPy's, what x86 makes of 0 / 0, R's missing value, the least one, and the largest.
NANS = {
    4: [0x7FC00000, 0xFFC00000, 0x7FC007A2, 0x7F800001, 0xFFFFFFFF],
    8: [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF00000000007A2, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF],
}
KINDS = ("minutes", "cents", "halves", "random", "signed", "line", "constant", "zeros", "bits")


def floats(
    kind: str, rows: int, itemsize: int, nans: Sequence[int], share: float, rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Numbers of a kind, of which a share is one of the NaNs each."""
    made = {
        "minutes": lambda: rng.integers(1, 2400, rows),
        "cents": lambda: rng.integers(100, 50_000, rows) / 100,
        "halves": lambda: rng.integers(1, 400, rows) / 2,
        "random": lambda: rng.random(rows) + 1,
        "signed": lambda: rng.normal(size=rows),
        "line": lambda: np.arange(rows) / 4 + 256,
        "constant": lambda: np.full(rows, 7.25),
        "zeros": lambda: rng.choice([0.0, -0.0, np.inf], rows),
        "bits": lambda: rng.integers(0, 2**63, rows).view("f8"),
    }[kind]()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = made.astype(f"f{itemsize}")
    if nans:
        missing = rng.random(rows) < share
        unsigned = values.view(f"u{itemsize}")
        unsigned[missing] = rng.choice(np.array(nans, unsigned.dtype), int(missing.sum()))
    return values
