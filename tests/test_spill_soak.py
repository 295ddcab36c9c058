"""SpillPool used by four threads for many rounds: the same values, and nothing grows."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cudf_fsst import SpillPool
from fake_gpu import World, files_under
from spill_cases import check_books, fake, same, text

#: Rounds of the soak test, over all threads; CUDF_FSST_SOAK_ROUNDS=10000 for the long one.
SOAK_ROUNDS = int(os.environ.get("CUDF_FSST_SOAK_ROUNDS", "800"))


def _soak(pool: SpillPool, make: Callable[[int], Any], check: Callable[[Any, int], None], rounds: int) -> None:
    """Four threads put, read, prefetch and delete at random; each knows what its own names must hold."""
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        rng = np.random.default_rng(thread)
        mine: dict[tuple[int, int], int] = {}
        try:
            for _ in range(rounds // 4):
                name = (thread, int(rng.integers(4)))
                what = rng.random()
                if name not in mine or what < 0.2:
                    mine[name] = int(rng.integers(6))
                    pool[name] = make(mine[name])
                elif what < 0.75:
                    check(pool[name], mine[name])
                elif what < 0.85:
                    pool.prefetch(name)
                elif what < 0.9:
                    pool.make_room(int(rng.integers(4000)))
                elif what < 0.95:
                    check(pool.pop(name), mine.pop(name))
                else:
                    shared = pool.get((int(rng.integers(4)), int(rng.integers(4))))
                    assert shared is None or len(str(shared)) > 0
            for name, payload in mine.items():
                check(pool[name], payload)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if pool._executor is not None:  # what is still being prefetched
        pool._executor.shutdown(wait=True, cancel_futures=True)
        pool._executor = None
    assert failures == []


def test_soak_of_the_gpu_tier(world: World, tmp_path: Path) -> None:
    pool = SpillPool(device_limit=4000, host_limit=1000, directory=tmp_path)

    def check(found: Any, seed: int) -> None:
        assert found.payload == f"payload {seed}"

    for part in range(3):
        _soak(pool, lambda seed: fake(world, seed), check, SOAK_ROUNDS // 3)
        assert pool.device_nbytes <= 4000, part
        assert pool.host_nbytes <= 1000
        check_books(pool, world, tmp_path)
        assert len(files_under(tmp_path)) <= len(pool)
    assert pool.stats.failed == 0
    pool.close()
    check_books(pool, world, tmp_path)


def test_soak_of_pandas_data(tmp_path: Path) -> None:
    made = [text(seed, rows=100) for seed in range(6)]
    strings = [series.to_list() for series in made]
    size = int(made[0].memory_usage(deep=True))
    pool = SpillPool(host_limit=4 * size, directory=tmp_path)

    def make(seed: int) -> pd.Series:  # anew each time: pandas keeps a list of what shares with a Series
        return pd.Series(strings[seed], name="text", dtype="str")

    rounds = max(100, SOAK_ROUNDS // 4)
    tracemalloc.start()
    used = []
    try:
        for _ in range(3):
            _soak(pool, make, lambda found, seed: same(found, made[seed]), rounds)
            assert pool.host_nbytes <= 4 * size
            assert len(files_under(tmp_path)) <= len(pool)
            assert pool.disk_nbytes == sum(path.stat().st_size for path in tmp_path.rglob("*.fsst"))
            pool.clear()
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[2] - used[1] < 4 * size
    assert (pool.host_nbytes, pool.disk_nbytes) == (0, 0)
    assert files_under(tmp_path) == []
    assert pool.stats.failed == 0
