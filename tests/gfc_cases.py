"""Values that the codec gfc is tested with, on the CPU and on the emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Short chunks, so that few values have many.
CHUNK = 160


def cases() -> dict[str, npt.NDArray[Any]]:
    """Named arrays of every kind."""
    rng = np.random.default_rng(7)
    walk = 1000 + np.cumsum(rng.normal(0, 0.01, 1300))
    keys = np.cumsum(rng.integers(0, 2, 1500))
    strange = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -1.7e308, 1.0])
    extremes64 = np.array([0, -1, 1, -(2**63), 2**63 - 1, 255, 256, 2**40, 2**48 - 1, 2**48], np.int64)
    extremes32 = np.array([0, -1, 1, -(2**31), 2**31 - 1, 255, 256, 65535, 65536, 2**24], np.int32)
    lengths = [value for bits in range(64) for value in (2**bits, 2**64 - 2**bits)]
    found: dict[str, npt.NDArray[Any]] = {
        "one": walk[:1],
        "two": keys[:2].astype(np.int32),
        "constant": np.full(700, 3.25),
        "zeros": np.zeros(500, np.int32),
        "walk": walk,
        "walk of float32": walk.astype(np.float32),
        "prices": rng.integers(90_000, 10_000_000, 1000) / 100,
        "few numbers": rng.integers(1, 51, 1000).astype(np.float64),
        "sorted": keys.astype(np.int64),
        "sorted uint32": keys.astype(np.uint32) * 3,
        "descending": -keys.astype(np.int64) * 1000,
        "random": rng.integers(0, 2**64, 1100, dtype=np.uint64),
        "random 4 bytes": rng.integers(0, 2**32, 1100, dtype=np.uint32),
        "extremes": rng.choice(extremes64, 900),
        "extremes of 4 bytes": rng.choice(extremes32, 900),
        "every length": rng.permutation(np.array(lengths * 5, np.uint64)),
        "every length of 4 bytes": (rng.permutation(np.array(lengths * 5, np.uint64)) >> np.uint64(32)).astype("<u4"),
        "NaN, inf, -0.0": rng.choice(strange, 400),
        "NaN, inf, -0.0 of float32": rng.choice(strange[:6].astype(np.float32), 400),
        "triples": np.column_stack([walk, 7 * walk, keys[:1300]]).ravel(),
        "dates": np.arange(600).astype("datetime64[ns]"),
    }
    for rows in (CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 2 * CHUNK + 128, 31, 32, 33):
        found[f"{rows} values"] = walk[:rows]
        found[f"{rows} values of 4 bytes"] = keys[:rows].astype(np.int32)
    return found


CASES = tuple(cases())
DIMS = (1, 2, 3, 7, 16, 31, 32)
