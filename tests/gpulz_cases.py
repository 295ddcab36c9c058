"""Named columns of fixed-width values for the tests of gpulz."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Options worth trying: every symbol, window and chunk, one warp and many a chunk, the fallback.
OPTIONS: tuple[dict[str, int], ...] = (
    {},
    {"symbol": 1, "chunk": 4096, "window": 255},
    {"symbol": 2, "chunk": 8192, "level": 3},
    {"symbol": 4},
    {"symbol": 4, "level": 2},
    {"symbol": 8, "window": 255},
)


def columns(rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    lines = np.repeat(np.arange(1, 900), rng.integers(1, 8, 899))
    walk = 1000 + np.cumsum(rng.normal(0, 0.01, 700))
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -1.0])
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    long = rng.integers(0, 2**32, 120, dtype=np.uint32)
    return {
        "one value": np.array([-3], np.int32),
        "one byte": np.array([0], np.uint8),
        "chunk less one": rng.integers(0, 4, 511, dtype=np.int32),
        "chunk": rng.integers(0, 4, 512, dtype=np.int32),
        "chunk and one": rng.integers(0, 4, 513, dtype=np.int32),
        "odd bytes": rng.integers(0, 3, 4101, dtype=np.int8),
        "constant": np.full(900, 7, np.int64),
        "zeros": np.zeros(3000, np.uint16),
        "sorted": np.sort(rng.integers(0, 300, 1400)).astype(np.int32),
        "random": rng.integers(0, 2**32, 1300, dtype=np.uint32),
        "extremes": rng.choice(np.array([low, high, -1, 0, 1]), 620),
        "extremes, unsigned": rng.choice(np.array([0, 2**64 - 1, 2**63], np.uint64), 620),
        "odd floats": rng.choice(odd, 600),
        "orders": lines.astype(np.int32),
        "orders, 64 bits": lines[:700],
        "walk": walk,
        "long matches": np.concatenate([long, long[:100], long[40:], long, long[:33], long[:32], long[1:]]),
        "bool": rng.random(4500) < 0.05,
    }
