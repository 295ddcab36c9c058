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
import pytest

from cudf_fsst import SpillPool
from cudf_fsst.spill import held
from fake_gpu import World, files_under
from spill_cases import check_books, check_noted, fake, same, text

#: Rounds of the soak test, over all threads; CUDF_FSST_SOAK_ROUNDS=10000 for the long one.
SOAK_ROUNDS = int(os.environ.get("CUDF_FSST_SOAK_ROUNDS", "800"))


def _soak(
    pool: SpillPool,
    make: Callable[[int], Any],
    check: Callable[[Any, int], None],
    rounds: int,
    *,
    look: Callable[[Any], object] = str,
    nbytes: int = 1000,
) -> dict[tuple[int, int], int]:
    """Four threads put, read, prefetch and delete at random; each knows what its own names must hold.

    What another thread has put is given to `look`, which is true of it. Values are of about `nbytes`. Returned is what
    the pool holds in the end, by name.
    """
    failures: list[BaseException] = []
    held: dict[tuple[int, int], int] = {}

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
                    pool.make_room(int(rng.integers(4 * nbytes)))
                elif what < 0.95:
                    check(pool.pop(name), mine.pop(name))
                else:
                    shared = pool.get((int(rng.integers(4)), int(rng.integers(4))))
                    assert shared is None or look(shared)
            for name, payload in mine.items():
                check(pool[name], payload)
            held.update(mine)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool._prefetching.close()  # what is still being prefetched
    assert failures == []
    return held


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
            check_noted(pool)
            pool.clear()
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[2] - used[1] < 4 * size
    assert (pool.host_nbytes, pool.disk_nbytes) == (0, 0)
    assert files_under(tmp_path) == []
    assert pool.stats.failed == 0


# On a GPU --------------------------------------------------------------------------------------------------------

#: Rows of the frames: of some all buffers are small, down to a few bytes; of others one, `noise`, has more than a MiB.
ROWS = (150_000, 150_000, 20_000, 150_000, 150_000, 300)


def _frame(seed: int) -> pd.DataFrame:
    """A frame of several dtypes, with nulls; number `seed` of its columns is missing."""
    rng = np.random.default_rng(seed)
    rows = ROWS[seed]
    missing = rng.random(rows) < 0.1
    columns = {
        "text": pd.concat([text(seed, rows=rows // 100)] * 100, ignore_index=True).mask(missing),
        "sorted": pd.Series(np.cumsum(rng.integers(0, 9, rows))),
        "small": pd.Series(rng.integers(-100, 100, rows).astype("i2")),
        "price": pd.Series(np.cumsum(rng.random(rows)).astype("f4")),
        "kind": pd.Series(pd.Categorical(rng.choice(["rail", "truck", "ship"], rows), ordered=True)).mask(missing),
        "when": pd.Series(pd.Timestamp("2020") + pd.to_timedelta(rng.integers(0, 10**6, rows), "s")).mask(missing),
        "noise": pd.Series(rng.normal(size=rows)),
    }
    del columns[list(columns)[seed]]
    made = pd.DataFrame(columns)
    return made if seed % 2 else made.set_index("sorted")


@pytest.mark.gpu
@pytest.mark.slow
def test_soak_of_cudf_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through all tiers: RMM's bytes, pinned bytes and files are after every part what they were before it."""
    import cudf
    import rmm

    from cudf_fsst.device.pinned import pinned_nbytes

    # A pool gives memory out again at once: work on what was freed too early would show.
    upstream = rmm.mr.get_current_device_resource()
    counting = rmm.mr.StatisticsResourceAdaptor(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=256 << 20)
    )
    rmm.mr.set_current_device_resource(counting)
    try:
        frames = [cudf.from_pandas(_frame(seed), nan_as_null=False) for seed in range(6)]
        _soak_of_frames(frames, tmp_path, lambda: counting.allocation_counts.current_bytes, pinned_nbytes)
    finally:
        rmm.mr.set_current_device_resource(upstream)


def _soak_of_frames(
    frames: list[Any], folder: Path, device_nbytes: Callable[[], int], pinned_nbytes: Callable[[], int]
) -> None:
    """The soak; `device_nbytes` and `pinned_nbytes` say how much memory anything has taken."""
    tables = [frame.to_arrow() for frame in frames]
    plain = packed = 0
    buffers: list[int] = []
    for frame, table in zip(frames, tables, strict=True):
        compressed = frame.fsst.compress()
        plain, packed = max(plain, held.nbytes_of(frame)), max(packed, compressed.nbytes)
        buffers += [part.codes.size for column in compressed._everything for part in column.node.parts]
        # Whatever is made once and kept is made here.
        assert compressed.to_host().to_device().decompress().to_arrow().equals(table, check_metadata=True)
    assert min(buffers) < 1000 < 1 << 20 < max(buffers)
    del frame, compressed
    gc.collect()
    before, pinned = device_nbytes(), pinned_nbytes()
    slack = 1 << 20  # paddings

    def check(found: Any, seed: int) -> None:
        assert found.to_arrow().equals(tables[seed], check_metadata=True)

    def look(found: Any) -> bool:
        table = found.to_arrow()
        return any(table.equals(one, check_metadata=True) for one in tables)

    pool = SpillPool(device_limit=3 * plain, host_limit=3 * packed, directory=folder)
    try:
        for _ in range(3):
            kept = _soak(pool, lambda seed: frames[seed].copy(), check, SOAK_ROUNDS // 3, look=look, nbytes=plain)
            gc.collect()
            assert set(pool) == set(kept)
            assert pool.device_nbytes <= 3 * plain
            assert pool.host_nbytes <= 3 * packed
            assert device_nbytes() <= before + pool.device_nbytes + slack
            assert pinned_nbytes() <= pinned + pool.host_nbytes + slack
            assert len(files_under(folder)) <= len(pool)

            kept[4, 0] = 0  # the last one to leave the GPU stays in host memory
            pool[4, 0] = frames[0].copy()
            pool.make_room(10**12)
            gc.collect()
            assert pool.device_nbytes == 0
            assert device_nbytes() <= before + slack
            assert pinned < pinned_nbytes() <= pinned + pool.host_nbytes + slack
            for name, seed in kept.items():
                check(pool[name], seed)

            pool.clear()
            gc.collect()
            assert (pool.device_nbytes, pool.host_nbytes, pool.disk_nbytes) == (0, 0, 0)
            assert device_nbytes() <= before
            assert pinned_nbytes() <= pinned
            assert files_under(folder) == []
        stats = pool.stats
        assert stats.failed == 0
        assert all(moves.count for moves in stats.moves.values()), stats
    finally:
        pool.close()
    assert list(folder.iterdir()) == []
