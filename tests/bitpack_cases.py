"""Named inputs that every side of bitpack passes through."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 1024


def cases(itemsize: int) -> dict[str, tuple[npt.NDArray[Any], bool]]:
    """Name -> values of so many bytes, and how they are ordered."""
    rng = np.random.default_rng(itemsize)
    signed, unsigned = np.dtype(f"i{itemsize}"), np.dtype(f"u{itemsize}")
    low, high = np.iinfo(signed).min, np.iinfo(signed).max
    top = np.iinfo(unsigned).max
    bits = 8 * itemsize

    def random(count: int, width: int = bits) -> npt.NDArray[Any]:
        return rng.integers(0, 2**width - 1, count, unsigned, endpoint=True)

    made: dict[str, tuple[npt.NDArray[Any], bool]] = {}
    for count in (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 9 * BLOCK + 17):
        made[f"{count} random"] = random(count), False
        made[f"{count} small"] = random(count, 5), True
    for width in (1, 2, 7, 8, 13, 26, 27, 31, 32, 33, 47, 63, 64):
        if width <= bits:
            made[f"{width} bits"] = random(BLOCK + 100, width) + unsigned.type(top // 3), False
            steps = random(3 * BLOCK, width)
            made[f"{width} bits of differences"] = np.cumsum(steps, dtype=unsigned), False
    made["constant"] = np.full(3 * BLOCK + 5, high - 3, signed), True
    made["line"] = (np.arange(3 * BLOCK + 5) * 3).astype(unsigned), False
    made["falling line"] = (-7 * np.arange(2 * BLOCK)).astype(signed), True
    made["sorted"] = np.sort(random(5 * BLOCK)), False
    made["extremes, signed"] = rng.choice(np.array([low, high, 0, -1], signed), 2 * BLOCK), True
    made["extremes, unsigned"] = rng.choice(np.array([0, top, top - 1], unsigned), 2 * BLOCK), False
    made["around zero, signed"] = rng.integers(-5, 5, 2 * BLOCK + 1).astype(signed), True
    made["around zero, unsigned"] = rng.integers(-5, 5, 2 * BLOCK + 1).astype(signed), False
    blocks = [np.full(BLOCK, 9), random(BLOCK), np.arange(BLOCK), np.arange(BLOCK) // 9, random(3)]
    made["kinds of blocks"] = np.concatenate([block.astype(unsigned) for block in blocks]), False
    if itemsize >= 4:
        floats = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, np.finfo(f"f{itemsize}").tiny / 4], f"f{itemsize}")
        made["floats"] = rng.choice(floats, BLOCK + 50), True
        made["dates"] = np.sort(rng.integers(8000, 10600, 4 * BLOCK)).astype(signed), True
    return made
