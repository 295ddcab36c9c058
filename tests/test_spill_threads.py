"""SpillPool used by several threads at once; many rounds of it are in test_spill_soak.py."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst import SpillPool
from cudf_fsst.spill.entry import Entry
from cudf_fsst.spill.tiers import Tiers
from fake_gpu import FakePacked, FakeSeries, World, files_under
from spill_cases import PACKED, check_books, fake, same, text


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


def test_threads_with_streams_of_their_own(world: World) -> None:
    """Whoever goes on with what another thread put, brought or compressed does not overtake that thread's stream."""

    def elsewhere(call: Callable[[], Any]) -> Any:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(call).result(20)

    with ThreadPoolExecutor(1) as user:  # alive all the time, or its number could become another thread's
        pool = SpillPool(device_limit=2500)

        def put(seed: int) -> None:
            pool[seed] = fake(world, seed)

        for seed in range(3):
            user.submit(put, seed).result(20)
        elsewhere(lambda: pool.make_room(10**6))  # compresses what `user` made
        pool.prefetch(0).result(20)
        pool[0].memory.use()
        elsewhere(lambda: pool[1]).memory.use()
        user.submit(lambda: pool[1].memory.use()).result(20)
        put(4)
        elsewhere(lambda: pool.make_room(10**6))
        for seed in (0, 1, 2, 4):
            assert pool[seed].payload == f"payload {seed}"
    assert pool.stats.failed == 0


def test_the_same_entry_comes_back_once_and_others_at_the_same_time(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = SpillPool()
    for name in "ab":
        pool[name] = fake(world, ord(name))
    pool.make_room(10**6)
    world.done.clear()
    both = threading.Barrier(2, timeout=300)
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
        thread.join(300)
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
    pool = SpillPool(host_limit=PACKED // 2, directory=tmp_path)
    real, others = Tiers.oldest_first, iter([1, 2])

    def oldest_first(tiers: Tiers, step: str, tier: str) -> Iterator[Entry]:
        yield from real(tiers, step, tier)
        if (step, tier) == ("write", "host"):
            for number in others:
                with tiers.lock:
                    tiers.put(number, Entry(number, text(number), tiers))

    with monkeypatch.context() as patched:
        patched.setattr(Tiers, "oldest_first", oldest_first)
        pool["a"] = text(0)
    assert pool.where("a") == "disk"
    pool["b"] = text(3)
    assert pool.host_nbytes <= PACKED // 2
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
