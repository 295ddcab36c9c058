"""SpillPool: what lies where, limits, faults, threads. The GPU's tier with stand-ins, and, marked gpu, with cuDF."""

from __future__ import annotations

import errno
import gc
import importlib.util
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst import CompressedColumn, SpillPool, column
from cudf_fsst.interop import cudf as interop_cudf
from cudf_fsst.spill import oom, values
from cudf_fsst.spill.entry import Entry
from cudf_fsst.spill.sizes import format_bytes, parse_bytes
from cudf_fsst.spill.tiers import Tiers
from fake_gpu import FakePacked, FakeSeries, World, files_under, install

#: Rounds of the soak test, over all threads; CUDF_FSST_SOAK_ROUNDS=10000 for the long one.
SOAK_ROUNDS = int(os.environ.get("CUDF_FSST_SOAK_ROUNDS", "800"))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A GPU of stand-ins."""
    return install(monkeypatch)


def text(seed: int, rows: int = 400, name: Any = "text") -> pd.Series:
    """A Series of about 20 kB that compresses well."""
    rng = np.random.default_rng(seed)
    words = np.array(["carefully", "final", "deposits", "sleep", "furiously", "above", "the", "ideas"])
    return pd.Series([" ".join(rng.choice(words, 6)) for _ in range(rows)], name=name, dtype="str")


def same(found: pd.Series, wanted: pd.Series) -> None:
    pd.testing.assert_series_equal(found, wanted)


PLAIN = int(text(0).memory_usage(deep=True))
PACKED = values.nbytes_of(text(0).fsst.compress())
#: Seeds differ by less.
SLACK = PACKED // 3
assert PACKED * 2 < PLAIN


# Sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "nbytes"),
    [
        (0, 0), (np.int64(7), 7), ("12", 12), ("4 GiB", 4 << 30), ("4GiB", 4 << 30), (" 1.5 kB ", 1500),
        ("2 Mi", 2 << 20), ("1e9", 10**9), ("3 tb", 3 * 10**12), (".5 KiB", 512), ("10 B", 10),
    ],
)  # fmt: skip
def test_parse_bytes(written: Any, nbytes: int) -> None:
    assert parse_bytes("limit", written) == nbytes


@pytest.mark.parametrize(
    ("written", "error"),
    [("", ValueError), ("4 Gib it", ValueError), ("-1", ValueError), (-1, ValueError), (1.5, TypeError),
     (None, TypeError), ("1e999", ValueError), ("4 XiB", ValueError)],
)  # fmt: skip
def test_sizes_that_are_none(written: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="limit"):
        parse_bytes("limit", written)


def test_format_bytes() -> None:
    sizes = (0, 1023, 1024, 1536 << 20, 5 << 40)
    assert [format_bytes(n) for n in sizes] == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "5.0 TiB"]


# As a dict -------------------------------------------------------------------------------------------------------


def test_is_a_dict() -> None:
    pool = SpillPool()
    assert not pool
    assert list(pool) == []
    pool["a"] = text(1)
    pool[2, "b"] = text(2)
    assert len(pool) == 2
    assert "a" in pool
    assert "c" not in pool
    assert list(pool) == ["a", (2, "b")]
    same(pool["a"], text(1))
    same(pool.get((2, "b")), text(2))
    assert pool.get("c") is None
    with pytest.raises(KeyError, match="c"):
        pool["c"]
    with pytest.raises(KeyError, match="c"):
        del pool["c"]
    with pytest.raises(KeyError, match="c"):
        pool.pop("c")
    with pytest.raises(KeyError, match="c"):
        pool.prefetch("c")
    assert pool.pop("c", None) is None
    same(pool.setdefault("a", text(9)), text(1))
    pool["a"] = text(3)
    assert list(pool) == ["a", (2, "b")]
    same(pool.pop("a"), text(3))
    assert list(dict(pool.items())) == [(2, "b")]
    pool.update({"x": text(4), "y": text(5)})
    del pool["x"]
    assert list(pool) == [(2, "b"), "y"]
    pool.clear()
    assert len(pool) == 0
    assert pool != SpillPool()
    assert pool in {pool}


def test_refuses_what_it_cannot_hold() -> None:
    pool = SpillPool()
    for value in (1, "text", text(1).to_list(), pd.Index(["a"])):
        with pytest.raises(TypeError, match=r"'x': a pool holds a Series"):
            pool["x"] = value
    assert "x" not in pool


def test_series_of_any_dtype(tmp_path: Path) -> None:
    made = {
        "numbers": pd.Series(np.arange(20_000) % 100, index=pd.Index(np.arange(20_000) * 3, name="i"), name="n"),
        "dates": pd.Series(pd.date_range("2020", periods=20_000, freq="h")),
        "kinds": pd.Series(pd.Categorical(["a", "b"] * 10_000), name=("x", 1)),
    }
    with SpillPool(host_limit="100 KiB", directory=tmp_path) as pool:
        pool.update(made)
        assert pool.stats.moves["compress"].count >= 2
        for name, series in made.items():
            pd.testing.assert_series_equal(pool[name], series)
            assert pool[name].name == series.name


def test_limits_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device_limit"):
        SpillPool(device_limit="lots", directory=tmp_path)
    with pytest.raises(ValueError, match="host_limit"):
        SpillPool(host_limit=-1, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_is_a_snapshot() -> None:
    pool = SpillPool()
    series = text(1)
    pool["a"] = series
    series.iloc[0] = "changed"
    got = pool["a"]
    got.iloc[1] = "changed too"
    same(pool["a"], text(1))


def test_what_is_put_compressed_comes_back_compressed(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PACKED + SLACK, directory=tmp_path)
    pool["a"] = text(1).fsst.compress()
    assert pool.where("a") == "host, compressed"
    pool["b"] = text(2).fsst.compress()
    assert pool.where("a") == "disk"
    for name, seed in (("a", 1), ("b", 2), ("a", 1)):
        got = pool[name]
        assert isinstance(got, CompressedColumn)
        same(got.decompress(), text(seed))
    assert pool.host_nbytes <= PACKED + SLACK


# Tiers of the host -----------------------------------------------------------------------------------------------


def test_pandas_is_compressed_then_written(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PLAIN + 2 * PACKED + SLACK, directory=tmp_path)
    seen = []
    for seed in range(5):
        pool[seed] = text(seed)
        seen.append([pool.where(name) for name in pool])
        assert pool.host_nbytes <= PLAIN + 2 * PACKED + SLACK
    plain, packed, disk = "host", "host, compressed", "disk"
    assert seen == [
        [plain],
        [packed, plain],
        [packed, packed, plain],
        [disk, packed, packed, plain],
        [disk, disk, packed, packed, plain],
    ]
    same(pool[1], text(1))
    assert [pool.where(name) for name in pool] == [disk, plain, disk, packed, packed]
    same(pool[0], text(0))
    # 1 lay on disk as well, so it left without a move; and 0 does.
    same(pool[1], text(1))
    assert [pool.where(name) for name in pool] == [disk, plain, disk, packed, packed]
    assert pool.stats.dropped == 2
    assert pool.stats.moves["save"].count == 3
    for seed in (3, 0, 4, 2, 1):
        same(pool[seed], text(seed))


def test_reading_counts_as_use(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=2 * PLAIN + PACKED + SLACK, directory=tmp_path)
    for seed in range(2):
        pool[seed] = text(seed)
    assert pool.stats.hits == 0
    same(pool[0], text(0))
    assert pool.stats.hits == 1
    pool[2] = text(2)
    assert [pool.where(name) for name in pool] == ["host", "host, compressed", "host"]
    same(pool[1], text(1))
    assert pool.stats.misses == 1


def test_larger_than_the_limit(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PACKED // 2, directory=tmp_path)
    pool["a"] = text(1)
    assert pool.where("a") == "disk"
    assert pool.host_nbytes == 0
    same(pool["a"], text(1))
    assert pool.where("a") == "disk"
    assert pool.disk_nbytes == sum(path.stat().st_size for path in tmp_path.rglob("*.fsst"))


def test_no_directory() -> None:
    pool = SpillPool(host_limit=PLAIN + SLACK)
    pool["a"] = text(1)
    with pytest.raises(MemoryError, match=r"'b': .* do not fit host_limit .*no directory"):
        pool["b"] = text(2, rows=4000)
    assert list(pool) == ["a"]
    same(pool["a"], text(1))
    with pytest.raises(MemoryError, match=r"'a': .* do not fit"):
        pool["a"] = text(2, rows=4000)
    same(pool["a"], text(1))
    assert pool.host_nbytes <= PLAIN + SLACK


def test_what_a_file_cannot_give_back_stays(tmp_path: Path) -> None:
    odd = text(1)
    odd.index = pd.Index([1, "b"] * 200, dtype=object)
    pool = SpillPool(host_limit=PLAIN + PACKED, directory=tmp_path)
    with pytest.raises(TypeError, match="'odd', while it was written to disk"):
        SpillPool(host_limit=0, directory=tmp_path)["odd"] = odd
    roomy = SpillPool(host_limit=3 * PLAIN, directory=tmp_path)
    roomy["odd"] = odd
    for seed in range(6):
        roomy[seed] = text(seed)
    same(roomy["odd"], odd)
    for seed in range(6):
        same(roomy[seed], text(seed))
    pool.close()


def test_incompressible_data_goes_to_disk_all_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = pd.Series([rng.bytes(30).hex() for _ in range(3)], dtype="str")
    pool = SpillPool(host_limit=int(noise.memory_usage(deep=True)), directory=tmp_path)
    pool["noise"] = noise
    pool["more"] = noise[::-1]
    assert pool.where("noise") == "disk"
    same(pool["noise"], noise)
    same(pool["more"], noise[::-1])


# Tiers of the GPU, with stand-ins --------------------------------------------------------------------------------


def fake(world: World, seed: int, nbytes: int = 1000) -> FakeSeries:
    return FakeSeries(world, f"payload {seed}", nbytes)


def check_books(pool: SpillPool, world: World, folder: Path | None = None) -> None:
    """What the pool says it keeps is what there is: memory is free at once, not when garbage is collected."""
    for _ in range(100):  # a thread that prefetched may be at its last line
        if world.used["cuda:0"] + world.used["cpu"] == pool.device_nbytes + pool.host_nbytes:
            break
        time.sleep(0.01)
    assert pool.device_nbytes == world.used["cuda:0"]
    assert pool.host_nbytes == world.used["cpu"]
    if folder is not None:
        assert pool.disk_nbytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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


# Answers to RMM --------------------------------------------------------------------------------------------------


class FakeRmm:
    """A resource with a limit that counts the stand-ins' memory, and the adaptor that asks when it is reached."""

    class Resource:
        pass

    class FailureCallbackResourceAdaptor:
        def __init__(self, upstream: Any, callback: Callable[[int], bool]) -> None:
            self.upstream_mr, self.callback = upstream, callback

    def __init__(self, world: World, limit: int) -> None:
        self.world, self.limit = world, limit
        self.current: Any = self.Resource()
        self.mr = SimpleNamespace(
            get_current_device_resource=lambda: self.current,
            set_current_device_resource=lambda resource: setattr(self, "current", resource),
            FailureCallbackResourceAdaptor=self.FailureCallbackResourceAdaptor,
        )

    def DeviceBuffer(self, *, size: int, mr: Any) -> Any:
        if self.world.used["cuda:0"] + size > self.limit:
            raise MemoryError("std::bad_alloc: out_of_memory")
        return FakeSeries(self.world, "buffer", size)

    def allocate(self, nbytes: int) -> Any:
        """As RMM does with the adaptor on top."""
        while True:
            try:
                return self.DeviceBuffer(size=nbytes, mr=self.current)
            except MemoryError:
                if not getattr(self.current, "callback", lambda _: False)(nbytes):
                    raise


@pytest.fixture
def rmm(world: World, monkeypatch: pytest.MonkeyPatch) -> FakeRmm:
    made = FakeRmm(world, limit=4000)
    options: dict[str, Any] = {"spill": False, "spill_on_demand": True}
    monkeypatch.setattr(interop_cudf, "cudf_module", lambda: SimpleNamespace(get_option=options.get, options=options))
    monkeypatch.setitem(sys.modules, "rmm", made)
    return made


class TestSpilling:
    def test_makes_room(self, world: World, rmm: FakeRmm) -> None:
        pool = SpillPool()
        for seed in range(3):
            pool[seed] = fake(world, seed)
        before = rmm.current
        with pytest.raises(MemoryError):
            rmm.allocate(2000)
        with cudf_fsst.spilling(pool, reserve=500) as same_pool:
            assert same_pool is pool
            assert world.used["cuda:0"] == 3500
            held = rmm.allocate(1000)
            assert world.used["cuda:0"] <= 4000
            assert pool.where(0) == "cuda:0, compressed"
            assert rmm.current.callback._reserve is not None
            with pytest.raises(MemoryError):
                rmm.allocate(4001 - 1000)
            assert pool.device_nbytes == 0
            assert [pool[seed].payload for seed in range(3)] == [f"payload {seed}" for seed in range(3)]
        assert rmm.current is before
        del held
        check_books(pool, world)

    def test_compresses_in_the_reserve_and_not_recursively(
        self,
        world: World,
        rmm: FakeRmm,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Compressing takes memory itself: with a full GPU there is only the reserve for it."""
        real = FakeSeries.compress

        def compress(series: FakeSeries) -> FakePacked:
            scratch = rmm.allocate(series.nbytes // 4)
            assert scratch is not None
            return real(series)

        monkeypatch.setattr(FakeSeries, "compress", compress)
        for reserve, answered in ((300, True), (0, False)):
            pool = SpillPool()
            for seed in range(3):
                pool[seed] = fake(world, seed)
            with cudf_fsst.spilling(pool, reserve=reserve):
                ballast = rmm.allocate(1000 - reserve)
                assert world.used["cuda:0"] == 4000
                if answered:
                    assert rmm.allocate(500) is not None
                else:
                    with pytest.raises(MemoryError):
                        rmm.allocate(500)
                    assert pool.stats.failed
            assert [pool[seed].payload for seed in range(3)] == [f"payload {seed}" for seed in range(3)]
            del ballast
            check_books(pool, world)
            pool.close()

    def test_refuses_beside_cudf(self, world: World, rmm: FakeRmm) -> None:
        pool = SpillPool()
        options = interop_cudf.cudf_module().options
        before = rmm.current
        options["spill"] = True
        with pytest.raises(RuntimeError, match="cuDF's own spilling"), cudf_fsst.spilling(pool):
            pass
        options["spill_on_demand"] = False
        with cudf_fsst.spilling(pool), cudf_fsst.spilling(SpillPool()):
            pass
        options["spill"] = False
        rmm.current = rmm.mr.FailureCallbackResourceAdaptor(before, lambda _: False)
        with pytest.raises(RuntimeError, match="cuDF's own spilling"), cudf_fsst.spilling(pool):
            pass
        with pytest.raises(TypeError, match="pool must be a SpillPool"), cudf_fsst.spilling({}):
            pass

    def test_changed_inside(self, rmm: FakeRmm) -> None:
        pool = SpillPool()
        with pytest.raises(RuntimeError, match="changed inside"), cudf_fsst.spilling(pool):
            rmm.current = FakeRmm.FailureCallbackResourceAdaptor(rmm.current, lambda _: False)
        assert not rmm.current.upstream_mr.callback(10)
        rmm.current = FakeRmm.Resource()
        with pytest.raises(KeyError), cudf_fsst.spilling(SpillPool()):
            raise KeyError
        assert oom._installed == []

    def test_without_cudf(self) -> None:
        if importlib.util.find_spec("cudf") is not None:
            pytest.skip("cuDF is here")
        with pytest.raises(ImportError, match="cudf-fsst"), cudf_fsst.spilling(SpillPool()):
            pass


# Its end ---------------------------------------------------------------------------------------------------------


def test_pools_have_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "mine.fsst").write_text("of somebody else")
    folder = tmp_path / "not" / "there"
    with SpillPool(host_limit=0, directory=folder) as one, SpillPool(host_limit=0, directory=folder) as other:
        one["a"], other["a"] = text(1), text(2)
        assert len(list(folder.iterdir())) == 2
        same(one["a"], text(1))
        same(other["a"], text(2))
        one["a"] = text(3)
        assert len(files_under(folder)) == 2
        del other["a"]
        assert len(files_under(folder)) == 1
    assert list(folder.iterdir()) == []
    assert (tmp_path / "mine.fsst").exists()


def test_closed(tmp_path: Path) -> None:
    pool = SpillPool(directory=tmp_path)
    pool["a"] = text(1)
    pool.close()
    pool.close()
    assert pool.closed
    assert len(pool) == 0
    uses: list[Callable[[], Any]] = [
        lambda: pool["a"],
        lambda: pool.__setitem__("a", text(1)),
        lambda: pool.pop("a"),
        lambda: pool.prefetch("a"),
        lambda: pool.__delitem__("a"),
        lambda: pool.clear(),
        lambda: pool.where("a"),
        lambda: pool.__enter__(),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use()
    assert "closed" in repr(pool)
    assert list(tmp_path.iterdir()) == []


def test_collected(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)
    pool.prefetch("a").result()
    assert files_under(tmp_path)
    del pool
    for _ in range(50):  # the thread that prefetched lets go a moment later
        gc.collect()
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_leaves_the_files(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)
    child = os.fork()
    if child == 0:
        pool._finalizer()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    same(pool["a"], text(1))


# Its looks -------------------------------------------------------------------------------------------------------


def test_repr(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    assert "0 entries" in repr(pool)
    assert "empty" in pool._repr_html_()
    for seed in range(25):
        pool[f"<{seed}>"] = text(seed)
    pool["<3>"]
    shown = repr(pool)
    for part in ("25 entries", "name", "'<0>'", "disk", "5 more", "compress", "save", "GB/s", "1 misses"):
        assert part in shown
    page = pool._repr_html_()
    assert "&lt;3&gt;" in page
    assert "<3>" not in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert pool._ipython_key_completions_()[0] == "<0>"


def test_stats(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)
    pool["a"]
    stats = pool.stats
    assert (stats.hits, stats.misses, stats.failed) == (0, 1, 0)
    counts = {kind: moves.count for kind, moves in stats.moves.items()}
    assert counts == {"compress": 1, "to_host": 0, "save": 1, "load": 1, "to_device": 0, "decompress": 1}
    assert stats.moves["compress"].nbytes == stats.moves["decompress"].nbytes == PLAIN_OF_1
    assert all(moves.seconds > 0 for moves in stats.moves.values() if moves.count)
    stats.hits = 99
    assert pool.stats.hits == 0


PLAIN_OF_1 = int(text(1).memory_usage(deep=True))


# Faults ----------------------------------------------------------------------------------------------------------


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"], pool["b"] = text(1), text(2)
    first, second = sorted(tmp_path.rglob("*.fsst"))
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    second.unlink()
    with pytest.raises(ValueError, match=r"'a', while it was read from disk: .*checksum"):
        pool["a"]
    with pytest.raises(FileNotFoundError, match="'b', while it was read from disk"):
        pool["b"]
    assert pool.prefetch("a").exception() is not None
    pool["c"] = text(3)
    same(pool["c"], text(3))
    del pool["a"]
    pool["b"] = text(4)
    same(pool["b"], text(4))
    assert len(files_under(tmp_path)) == 2


def test_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SpillPool(host_limit=PACKED + SLACK, directory=tmp_path)
    pool["a"] = text(1)

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cudf_fsst.storage.os.fsync", full)
        with pytest.raises(OSError, match=r"'[ab]', while it was written to disk: No space left") as caught:
            pool["b"] = text(2)
        assert caught.value.errno == errno.ENOSPC
        same(pool["a"], text(1))
        assert list(pool) == ["a"]
    assert files_under(tmp_path) == []
    pool["b"] = text(2)
    same(pool["a"], text(1))
    same(pool["b"], text(2))


def test_reading_goes_on_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    for seed in range(3):
        pool[seed] = text(seed)
    monkeypatch.setattr(CompressedColumn, "save", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    for seed in (0, 1, 2, 0):
        same(pool[seed], text(seed))
        assert pool.host_nbytes <= PLAIN + SLACK
    assert pool.stats.failed > 0


# Made anew each time: an error keeps the frames it went through, and so their values.
ERRORS: dict[str, Callable[[], BaseException]] = {
    "memory": lambda: MemoryError("no memory"),
    "disk_full": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "damaged": lambda: ValueError("damaged"),
    "other": lambda: RuntimeError("something else"),
    "interrupt": KeyboardInterrupt,
}


def _scenario(pool: SpillPool, make: Callable[[int], Any]) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Steps that need every kind of move several times: what they do, with which payload, and how."""
    for name in (0, 1, 2, 3):
        yield "put", name, lambda name=name: pool.__setitem__(name, make(name))
    for name in (0, 1, 3, 0):
        yield "get", name, lambda name=name: pool[name]
    yield "put", 4, lambda: pool.__setitem__(4, make(4))
    yield "put", 1, lambda: pool.__setitem__(1, make(1))
    yield "room", 0, lambda: pool.make_room(600)
    yield "get", 2, lambda: pool.prefetch(2).result()
    yield "del", 3, lambda: pool.__delitem__(3)
    yield "get", 0, lambda: pool[0]


@pytest.mark.parametrize("error", ERRORS)
def test_every_move_fails_once(world: World, tmp_path: Path, error: str) -> None:
    """A failure anywhere costs nothing: values, books and files are right after it, and all goes on."""

    def run(position: int | None) -> int:
        folder = tmp_path / str(position)
        pool = SpillPool(device_limit=1300, host_limit=300, directory=folder)
        held: set[int] = set()
        raised: list[str] = []
        world.fail(position, ERRORS[error])
        for what, name, step in _scenario(pool, lambda seed: fake(world, seed)):
            if what in ("get", "del") and name not in held:
                continue
            try:
                step()
            except BaseException as caught:
                # Only what this step was about is without effect.
                assert type(caught) is type(ERRORS[error]())  # noqa: PT017
                raised.append(" ".join([str(caught), *getattr(caught, "__notes__", [])]))
            else:
                if what == "put":
                    held.add(name)
                if what == "del":
                    held.discard(name)
            assert set(pool) == held
            check_books(pool, world, folder)
            assert pool.device_nbytes <= 1300 or raised
        total = len(world.done)
        world.fail(None)
        for name in held:
            assert pool[name].payload == f"payload {name}"
        assert pool.device_nbytes <= 1300
        assert pool.host_nbytes <= 300
        check_books(pool, world, folder)
        assert len(raised) <= 1
        for said in raised:
            assert error == "interrupt" or any(f"{number}, while it" in said for number in range(5))
        assert pool.stats.failed == (position is not None and error != "interrupt")
        pool.close()
        assert sum(world.used.values()) == 0
        assert list(folder.iterdir()) == []
        return total

    total = run(None)
    kinds = set(world.done)
    run_kinds = {"compress", "to_host", "save", "load", "to_device", "decompress"}
    assert total > 20
    assert kinds <= run_kinds
    for position in range(total):
        run(position)


@pytest.mark.parametrize("kind", ["compress", "save", "load", "decompress"])
@pytest.mark.parametrize("error", ["memory", "disk_full", "interrupt"])
def test_every_move_of_pandas_data_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: str
) -> None:
    count = 0
    failing: int | None = None
    owner, name = {
        "compress": (values, "compress"),
        "save": (CompressedColumn, "save"),
        "load": (column.storage, "load"),
        "decompress": (CompressedColumn, "decompress"),
    }[kind]
    real = getattr(owner, name)

    def work(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count - 1 == failing:
            raise ERRORS[error]()
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, work)
    position = 0
    while position == 0 or count >= position:
        count, failing = 0, position
        folder = tmp_path / str(position)
        with SpillPool(host_limit=PLAIN + PACKED + SLACK, directory=folder) as pool:
            held = set()
            for what, seed, step in _scenario(pool, text):
                if what in ("get", "del") and seed not in held:
                    continue
                try:
                    step()
                except type(ERRORS[error]()):
                    pass
                else:
                    held = held | {seed} if what == "put" else held - {seed} if what == "del" else held
                assert set(pool) == held
                assert pool.disk_nbytes == sum(path.stat().st_size for path in folder.rglob("*.fsst"))
            failing = None
            for seed in held:
                same(pool[seed], text(seed))
            assert pool.host_nbytes <= PLAIN + PACKED + SLACK
        assert list(folder.iterdir()) == []
        position += 1
    assert position > 3


# Threads ---------------------------------------------------------------------------------------------------------


def test_prefetch(world: World) -> None:
    pool = SpillPool(device_limit=2500)
    for seed in range(4):
        pool[seed] = fake(world, seed)
    pool.make_room(10**6)
    world.done.clear()
    assert pool.prefetch(0).result(10) is None
    assert pool.where(0) == "cuda:0"
    assert world.done == ["to_device", "decompress"]
    assert pool[0].payload == "payload 0"
    assert pool.stats.hits == 1
    assert pool.device_nbytes <= 2500


def test_the_same_entry_comes_back_once_and_others_at_the_same_time(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = SpillPool()
    for name in "ab":
        pool[name] = fake(world, ord(name))
    pool.make_room(10**6)
    world.done.clear()
    both = threading.Barrier(2, timeout=20)
    real = FakePacked.decompress

    def decompress(packed: FakePacked) -> FakeSeries:
        both.wait()  # until the other entry is being decompressed, too
        return real(packed)

    monkeypatch.setattr(FakePacked, "decompress", decompress)
    got: list[str] = []
    threads = [threading.Thread(target=lambda name=name: got.append(pool[name].payload)) for name in "abab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(got) == ["payload 97", "payload 97", "payload 98", "payload 98"]
    assert world.done.count("decompress") == 2
    assert (pool.stats.hits, pool.stats.misses) == (2, 2)


def test_a_value_that_is_replaced_while_it_moves(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = SpillPool(directory=tmp_path, host_limit=0)
    pool["a"] = fake(world, 1)
    pool.make_room(10**6)
    started, go_on = threading.Event(), threading.Event()
    real = FakePacked.decompress

    def decompress(packed: FakePacked) -> FakeSeries:
        started.set()
        assert go_on.wait(20)
        return real(packed)

    monkeypatch.setattr(FakePacked, "decompress", decompress)
    reading = pool.prefetch("a")
    assert started.wait(20)
    writing = threading.Thread(target=lambda: pool.__setitem__("a", fake(world, 2)))
    writing.start()
    go_on.set()
    writing.join(20)
    reading.result(20)
    assert pool["a"].payload == "payload 2"
    check_books(pool, world, tmp_path)


def test_room_that_another_thread_takes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put while others give way is no reason to refuse what was put before."""
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    real, others = Tiers.oldest_first, iter([(), (1, 2)])  # the GPU's tier comes first

    def oldest_first(tiers: Tiers, skip: Entry | None = None) -> list[Entry]:
        found = real(tiers, skip)
        for number in next(others, ()):
            with tiers.lock:
                tiers.entries[number] = Entry(number, text(number), tiers.counters)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Tiers, "oldest_first", oldest_first)
        pool["a"] = text(0)
    assert pool.where("a") == "disk"
    pool["b"] = text(3)
    assert pool.host_nbytes <= PLAIN + SLACK
    for number, name in enumerate(["a", 1, 2, "b"]):
        same(pool[name], text(number))


def test_files_of_what_is_put_twice_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the old value goes when the first of two that take its place fails."""
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(0)

    def settle(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        pool["a"] = text(2)  # another thread
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(Tiers, "settle", settle)
    with pytest.raises(OSError, match="disk full"):
        pool["a"] = text(1)
    same(pool["a"], text(2))
    assert len(files_under(tmp_path)) == 1


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


# On a GPU --------------------------------------------------------------------------------------------------------


def _words(seed: int, rows: int = 200_000) -> Any:
    import cudf

    return cudf.Series(text(seed, rows=2000)).repeat(rows // 2000).reset_index(drop=True)


SPILLS_FOR_EVER = """
import sys
import numpy as np
import pandas as pd
from cudf_fsst import SpillPool
pool = SpillPool(host_limit=1, directory=sys.argv[1])
print("ready", flush=True)
while True:
    for seed in range(8):
        numbers = np.random.default_rng(seed).integers(0, 9, 60_000)
        pool[seed] = pd.DataFrame({"n": numbers, "s": ["some text"] * 60_000})
"""


def test_a_process_killed_while_it_spills_leaves_no_half_file(tmp_path: Path) -> None:
    """Whatever a killed process leaves under its final name is whole; the rest has a name that nobody reads."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}
    for wait in (0.05, 0.2, 0.4):
        command = [sys.executable, "-c", SPILLS_FOR_EVER, str(tmp_path)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(wait)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    found = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    assert found
    for path in found:
        assert len(cudf_fsst.load(path).decompress()) == 60_000
    with SpillPool(host_limit=1, directory=tmp_path) as pool:  # what is left is in nobody's way
        pool["a"] = text(1)
        same(pool["a"], text(1))


def _equal(found: Any, wanted: Any) -> None:
    import cudf

    assert type(found) is type(wanted)
    same_values = (
        cudf.testing.assert_series_equal if isinstance(wanted, cudf.Series) else cudf.testing.assert_frame_equal
    )
    same_values(found, wanted)


@pytest.mark.gpu
def test_cudf_series(tmp_path: Path) -> None:
    made = [_words(seed) for seed in range(6)]
    size = int(made[0].memory_usage(deep=True))
    pool = SpillPool(device_limit=int(1.6 * size), host_limit=size, directory=tmp_path)
    for seed, series in enumerate(made):
        pool[seed] = series
        assert pool.device_nbytes <= 1.6 * size
    assert {pool.where(seed) for seed in pool} >= {"cuda:0", "cuda:0, compressed", "host, compressed"}
    for seed in (0, 5, 3, 1, 0, 2, 4):
        _equal(pool[seed], made[seed])
        assert pool.device_nbytes <= 1.6 * size
        assert pool.host_nbytes <= size
    pool.prefetch(1).result(60)
    assert pool.where(1) == "cuda:0"
    changed = pool[1]
    changed.iloc[0] = "changed"
    _equal(pool[1], made[1])
    pool["compressed"] = made[0].fsst.compress()
    pool.make_room(10**12)
    assert pool.device_nbytes == 0
    assert isinstance(pool["compressed"], CompressedColumn)
    assert pool["compressed"].device == "cuda:0"
    for seed in range(6):
        _equal(pool[seed], made[seed])
    pool.close()


@pytest.mark.gpu
def test_cudf_dataframe(tmp_path: Path) -> None:
    import cudf

    frame = cudf.DataFrame({"text": _words(1), "number": range(200_000)})
    if not hasattr(frame, "fsst"):
        pytest.skip("frames are not compressed yet")
    size = int(frame.memory_usage(deep=True).sum())
    pool = SpillPool(device_limit=int(1.2 * size), host_limit=size // 2, directory=tmp_path)
    for name in "abcd":
        pool[name] = frame
    for name in "abcdba":
        _equal(pool[name], frame)
        assert pool.device_nbytes <= 1.2 * size


@pytest.mark.gpu
def test_cudf_frees_memory() -> None:
    import rmm.statistics

    slack = 1 << 20  # symbol tables that the codec keeps on the GPU
    pool = SpillPool()
    with rmm.statistics.statistics():
        for seed in range(4):
            pool[seed] = _words(seed)
        before = rmm.statistics.get_statistics().current_bytes
        held = pool.device_nbytes
        assert before >= held
        assert pool.make_room(10**12) == held
        assert rmm.statistics.get_statistics().current_bytes <= before - held + slack
        for seed in range(4):
            _equal(pool[seed], _words(seed))
        pool.close()
        gc.collect()
        assert rmm.statistics.get_statistics().current_bytes <= before - held + slack


@pytest.mark.gpu
def test_cudf_out_of_memory() -> None:
    """More than there is memory for, under a limit of RMM's, with no limit of the pool's own."""
    import rmm

    rows = 400_000
    size = int(_words(0, rows).memory_usage(deep=True))
    before = rmm.mr.get_current_device_resource()
    limiting = rmm.mr.LimitingResourceAdaptor(before, 12 * size)
    pool = SpillPool()
    rmm.mr.set_current_device_resource(limiting)
    try:
        with cudf_fsst.spilling(pool, reserve=2 * size):
            for seed in range(40):
                pool[seed] = _words(seed % 4, rows)
            for seed in range(40):
                _equal(pool[seed], _words(seed % 4, rows))
            with pytest.raises(MemoryError):
                rmm.DeviceBuffer(size=13 * size)
            assert pool.device_nbytes == 0
            _equal(pool[0], _words(0, rows))
        assert rmm.mr.get_current_device_resource() is limiting
        assert pool.stats.moves["to_host"].count > 0
        assert pool.stats.moves["compress"].count > 0
    finally:
        pool.close()
        gc.collect()
        rmm.mr.set_current_device_resource(before)


def test_pinned_limit() -> None:
    with pytest.raises(ValueError, match=r"the limit must be a number of bytes .*not 'much'"):
        cudf_fsst.set_pinned_limit("much")
    with pytest.raises(ValueError, match="must not be negative"):
        cudf_fsst.set_pinned_limit(-1)
    cudf_fsst.set_pinned_limit("1 GiB")
    cudf_fsst.set_pinned_limit(None)
