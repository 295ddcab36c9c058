"""Data for the tests of SpillPool, on the host, as stand-ins of a GPU's and of cuDF, and what they check."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cudf_fsst import SpillPool
from cudf_fsst.spill import held
from cudf_fsst.spill.books import APPLIES
from fake_gpu import FakeSeries, World


def text(seed: int, rows: int = 400, name: Any = "text") -> pd.Series:
    """A Series of about 20 kB that compresses well."""
    rng = np.random.default_rng(seed)
    words = np.array(["carefully", "final", "deposits", "sleep", "furiously", "above", "the", "ideas"])
    return pd.Series([" ".join(rng.choice(words, 6)) for _ in range(rows)], name=name, dtype="str")


def same(found: pd.Series, wanted: pd.Series) -> None:
    pd.testing.assert_series_equal(found, wanted)


PLAIN = int(text(0).memory_usage(deep=True))
PACKED = held.nbytes_of(text(0).fsst.compress())
#: Seeds differ by less.
SLACK = PACKED // 3
assert PACKED * 2 < PLAIN


def fake(world: World, seed: int, nbytes: int = 1000) -> FakeSeries:
    return FakeSeries(world, f"payload {seed}", nbytes)


def check_books(pool: SpillPool, world: World, folder: Path | None = None) -> None:
    """What the pool says it keeps is what there is: memory is free at once, not when garbage is collected."""
    for _ in range(30_000):  # a thread that prefetched may be at its last line
        if world.used["cuda:0"] + world.used["cpu"] == pool.device_nbytes + pool.host_nbytes:
            break
        time.sleep(0.01)
    check_noted(pool)
    assert pool.device_nbytes == world.used["cuda:0"]
    assert pool.host_nbytes == world.used["cpu"]
    if folder is not None:
        assert pool.disk_nbytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check_noted(pool: SpillPool) -> None:
    """What a pool notes of its entries is what going through them gives."""
    books = pool._tiers
    for tier in ("device", "host", "disk"):
        assert books.nbytes(tier) == sum(entry.nbytes_in(tier) for entry in books.all()), tier
    for (step, tier), applies in APPLIES.items():
        wanted = [entry for entry in books.all() if step not in entry.refused and applies(entry)]
        assert list(books.oldest_first(step, tier)) == sorted(wanted, key=lambda entry: entry.used), (step, tier)


def words(seed: int, rows: int = 200_000) -> Any:
    import cudf

    few = text(seed, rows=2000)
    many = few.repeat(rows // 2000).reset_index(drop=True) + " " + pd.Series(range(rows)).astype("str")
    return cudf.Series(many.rename(few.name))  # all different, for a dictionary would take next to nothing


def equal(found: Any, wanted: Any) -> None:
    import cudf

    assert type(found) is type(wanted)
    same_values = (
        cudf.testing.assert_series_equal if isinstance(wanted, cudf.Series) else cudf.testing.assert_frame_equal
    )
    same_values(found, wanted)
