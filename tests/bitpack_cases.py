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
    return made | divided(itemsize, rng)


def divided(itemsize: int, rng: np.random.Generator) -> dict[str, tuple[npt.NDArray[Any], bool]]:
    """Values that have a common divisor, all of them or some."""
    signed, unsigned = np.dtype(f"i{itemsize}"), np.dtype(f"u{itemsize}")
    low, high = np.iinfo(signed).min, np.iinfo(signed).max
    top = np.iinfo(unsigned).max
    bits = 8 * itemsize
    made: dict[str, tuple[npt.NDArray[Any], bool]] = {}
    for divisor in (2, 3, 10, 12, 86400, 2**20, 1000**3 + 7, 3 * 2**40, 2**62 + 1, 2**63, 2**64 - 59):
        if divisor > top:
            continue
        most = min(top // divisor, 4000)
        some = rng.integers(0, most, 2 * BLOCK + 70, np.uint64, endpoint=True) * np.uint64(divisor)
        made[f"multiples of {divisor}"] = some.astype(unsigned), False
        start = np.uint64(rng.integers(0, top, dtype=np.uint64, endpoint=True))
        made[f"multiples of {divisor} and a rest, signed"] = (some + start).astype(unsigned), True
        steps = rng.integers(0, 3, 3 * BLOCK + 5, np.uint64, endpoint=True) * np.uint64(divisor)
        made[f"steps of {divisor}"] = np.cumsum(steps, dtype=np.uint64).astype(unsigned), divisor % 2 == 0
    near = 100 * rng.integers(-9000 if itemsize > 2 else -1, 9000 if itemsize > 2 else 2, 2 * BLOCK)
    made["around zero, in hundreds"] = near.astype(signed), False
    made["full range"] = (rng.integers(0, top // 5, 2 * BLOCK, np.uint64) * np.uint64(5)).astype(unsigned), False
    made["full range, signed"] = (rng.integers(low // 7, high // 7, 2 * BLOCK) * 7).astype(signed), True
    made["wrapping line"] = (np.arange(3 * BLOCK, dtype=np.uint64) * np.uint64(top // 3 & ~3)).astype(unsigned), False
    made["two values"] = rng.choice(np.array([7, 97], unsigned), 2 * BLOCK + 1), False
    # What the sample shows does not hold everywhere: every third block, one value in a block, the last block.
    many = (rng.integers(0, min(top // 6, 10**6), 40 * BLOCK + 9) * 6).astype(unsigned)
    third, one, last = many.copy(), many.copy(), many.copy()
    third.reshape(-1)[: 40 * BLOCK].reshape(40, BLOCK)[2::3, 5] += unsigned.type(1)
    one[33 * BLOCK + 100] += unsigned.type(3)
    last[-4] += unsigned.type(1)
    made |= {"every third block": (third, False), "one block not": (one, True), "last block not": (last, False)}
    halves = np.concatenate([many, rng.integers(0, top, many.size, unsigned, endpoint=True)])
    made["half of the blocks"] = halves, bits == 8
    if itemsize >= 4:
        numbers = rng.integers(-500, 500, 3 * BLOCK + 1).astype(f"f{itemsize}")
        made["whole numbers as floats"] = numbers, False
        days = rng.integers(8000, 10600, 2 * BLOCK) * (86400 if itemsize == 8 else 3600)
        made["days"] = days.astype(signed), True
    return made
