"""SpillPool's tier of the GPU: with stand-ins, and, marked gpu, with cuDF."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from cudf_fsst import CompressedColumn, SpillPool
from fake_gpu import FakePacked, FakeSeries, World
from spill_cases import PLAIN, SLACK, check_books, equal, fake, same, text, words


class TestDevice:
    def test_compressed_then_host_then_disk(self, world: World, tmp_path: Path) -> None:
        pool = SpillPool(device_limit=1600, host_limit=500, directory=tmp_path)
        seen = []
        for seed in range(6):
            pool[seed] = fake(world, seed)
            seen.append([pool.where(name) for name in pool])
            assert pool.device_nbytes <= 1600
            assert pool.host_nbytes <= 500
            check_books(pool, world, tmp_path)
        plain, packed, host, disk = "cuda:0", "cuda:0, compressed", "host, compressed", "disk"
        assert seen == [
            [plain],
            [packed, plain],
            [packed, packed, plain],
            [host, packed, packed, plain],
            [host, host, packed, packed, plain],
            [disk, host, host, packed, packed, plain],
        ]
        for seed in (0, 3, 1, 5, 2, 4, 0, 0):
            assert pool[seed].payload == f"payload {seed}"
            assert pool.where(seed) == plain
            assert pool.device_nbytes <= 1600
            assert pool.host_nbytes <= 500
            check_books(pool, world, tmp_path)
        pool.close()
        check_books(pool, world, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_leaves_again_without_a_move(self, world: World) -> None:
        pool = SpillPool(device_limit=1000)
        pool["a"], pool["b"] = fake(world, 1), fake(world, 2)
        world.done.clear()
        for name in "abab":
            assert pool[name].payload
        # Compressed for the first time, and moved; from then on only read.
        assert world.done[:2] == ["compress", "to_host"] or world.done.count("compress") <= 1
        world.done.clear()
        for name in "abab":
            pool[name]
        assert world.done == ["to_device", "decompress"] * 4
        assert pool.device_nbytes <= 1000

    def test_compressed_form_stays_beside_the_value_while_there_is_room(self, world: World) -> None:
        pool = SpillPool(device_limit=1500)
        pool["a"], pool["b"] = fake(world, 1), fake(world, 2)
        pool["a"]
        pool["b"]
        world.done.clear()
        for name in "abab":
            pool[name]
        assert world.done == ["decompress"] * 4
        assert pool.device_nbytes == 1500

    def test_host_copies_give_way_before_anything_is_written(self, world: World, tmp_path: Path) -> None:
        pool = SpillPool(device_limit=500, host_limit=500, directory=tmp_path)
        for name in "abcd":
            pool[name] = FakePacked(world, name, 1000, 250, "cuda:0")
        pool["a"]
        assert [pool.where(name) for name in "bc"] == ["disk", "host, compressed"]
        pool["c"]  # d goes where the copy of a was
        assert [pool.where(name) for name in "abcd"] == [
            "cuda:0, compressed",
            "disk",
            "cuda:0, compressed",
            "host, compressed",
        ]
        assert pool.stats.moves["save"].count == 1
        check_books(pool, world, tmp_path)

    def test_past_the_host(self, world: World, tmp_path: Path) -> None:
        pool = SpillPool(device_limit=0, host_limit=0, directory=tmp_path)
        pool["a"] = fake(world, 1)
        assert pool.where("a") == "disk"
        assert pool["a"].payload == "payload 1"
        assert pool.where("a") == "disk"
        check_books(pool, world, tmp_path)

    def test_no_room_anywhere(self, world: World) -> None:
        pool = SpillPool(device_limit=1000, host_limit=100)
        pool["a"] = fake(world, 1)
        wanted = "'b': 1000 B do not fit device_limit 1000 B and host_limit 100 B, and the pool has no directory"
        with pytest.raises(MemoryError, match=wanted):
            pool["b"] = FakeSeries(world, "random", 1000)
        assert list(pool) == ["a"]
        assert pool["a"].payload == "payload 1"
        check_books(pool, world)

    def test_incompressible(self, world: World, tmp_path: Path) -> None:
        pool = SpillPool(device_limit=1500, directory=tmp_path)
        pool["a"] = FakeSeries(world, "random a", 1000)
        pool["b"] = fake(world, 2)
        assert [pool.where(name) for name in "ab"] == ["host, compressed", "cuda:0"]
        assert pool["a"].payload == "random a"
        check_books(pool, world)

    def test_compressed_on_the_gpu(self, world: World) -> None:
        pool = SpillPool(device_limit=500)
        for name in "abc":
            pool[name] = FakePacked(world, name, 1000, 250, "cuda:0")
        assert [pool.where(name) for name in "abc"] == ["host, compressed", "cuda:0, compressed", "cuda:0, compressed"]
        assert pool["a"].payload == "a"
        assert pool["a"].device == "cuda:0"
        assert "decompress" not in world.done
        check_books(pool, world)

    def test_beside_pandas(self, world: World, tmp_path: Path) -> None:
        pool = SpillPool(device_limit=1000, host_limit=PLAIN + SLACK, directory=tmp_path)
        pool["gpu"] = fake(world, 1)
        pool["host"] = text(1)
        pool["more"] = fake(world, 2)
        assert pool["gpu"].payload == "payload 1"
        same(pool["host"], text(1))
        assert pool.host_nbytes <= PLAIN + SLACK

    def test_make_room(self, world: World) -> None:
        pool = SpillPool()
        for seed in range(3):
            pool[seed] = fake(world, seed)
        assert pool.make_room(100, compress=False) == 0
        assert pool.make_room(100, device="cuda:1") == 0
        assert pool.make_room(700) == 750
        assert [pool.where(seed) for seed in range(3)] == ["cuda:0, compressed", "cuda:0", "cuda:0"]
        assert pool.make_room(200, compress=False) == 250
        assert pool.where(0) == "host, compressed"
        pool[0]
        world.done.clear()
        assert pool.make_room("1 kB", compress=False) == 1000  # it lies on the host as well
        assert world.done == []
        assert pool.make_room("1 TB") == 2000
        assert pool.device_nbytes == 0
        assert [pool[seed].payload for seed in range(3)] == [f"payload {seed}" for seed in range(3)]
        check_books(pool, world)

    def test_make_room_waits_for_nothing(self, world: World) -> None:
        pool = SpillPool()
        pool["a"], pool["b"] = fake(world, 1), fake(world, 2)
        with pool._tiers.entries["a"].lock:
            assert pool.make_room(10**6) == 1000
        assert [pool.where(name) for name in "ab"] == ["cuda:0", "host, compressed"]


# On a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_cudf_series(tmp_path: Path) -> None:
    made = [words(seed) for seed in range(6)]
    size = int(made[0].memory_usage(deep=True))
    pool = SpillPool(device_limit=int(1.6 * size), host_limit=size, directory=tmp_path)
    for seed, series in enumerate(made):
        pool[seed] = series
        assert pool.device_nbytes <= 1.6 * size
    assert {pool.where(seed) for seed in pool} >= {"cuda:0", "cuda:0, compressed", "host, compressed"}
    for seed in (0, 5, 3, 1, 0, 2, 4):
        equal(pool[seed], made[seed])
        assert pool.device_nbytes <= 1.6 * size
        assert pool.host_nbytes <= size
    pool.prefetch(1).result(60)
    assert pool.where(1) == "cuda:0"
    changed = pool[1]
    changed.iloc[0] = "changed"
    equal(pool[1], made[1])
    pool["compressed"] = made[0].fsst.compress()
    pool.make_room(10**12)
    assert pool.device_nbytes == 0
    assert isinstance(pool["compressed"], CompressedColumn)
    assert pool["compressed"].device == "cuda:0"
    for seed in range(6):
        equal(pool[seed], made[seed])
    pool.close()


@pytest.mark.gpu
def test_cudf_dataframe(tmp_path: Path) -> None:
    import cudf

    frame = cudf.DataFrame({"text": words(1), "number": range(200_000)})
    size = int(frame.memory_usage(deep=True).sum())
    pool = SpillPool(device_limit=int(1.2 * size), host_limit=size // 2, directory=tmp_path)
    for name in "abcd":
        pool[name] = frame
    for name in "abcdba":
        equal(pool[name], frame)
        assert pool.device_nbytes <= 1.2 * size


@pytest.mark.gpu
def test_cudf_frees_memory() -> None:
    import rmm.statistics

    slack = 1 << 20  # symbol tables that the codec keeps on the GPU
    pool = SpillPool()
    with rmm.statistics.statistics():
        for seed in range(4):
            pool[seed] = words(seed)
        before = rmm.statistics.get_statistics().current_bytes
        held = pool.device_nbytes
        assert before >= held
        assert pool.make_room(10**12) == held
        assert rmm.statistics.get_statistics().current_bytes <= before - held + slack
        for seed in range(4):
            equal(pool[seed], words(seed))
        pool.close()
        gc.collect()
        assert rmm.statistics.get_statistics().current_bytes <= before - held + slack
