"""What a pool notes of its entries: always right, and the same work for few entries and for many."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from cudf_fsst import SpillPool
from cudf_fsst.spill.books import Books
from fake_gpu import FakeSeries, World
from spill_cases import PLAIN, SLACK, check_books, check_noted, fake, text


def _steps(pool: SpillPool, world: World) -> list[Callable[[], Any]]:
    """Uses of a pool whose entries go through all tiers."""
    return [
        *[lambda seed=seed: pool.__setitem__(seed, fake(world, seed)) for seed in range(8)],
        *[lambda seed=seed: pool[seed] for seed in (0, 3, 1, 7, 2, 0, 6)],
        lambda: pool.__setitem__(3, fake(world, 13)),
        lambda: pool.__setitem__("noise", FakeSeries(world, "random", 1000)),
        lambda: pool.pop(2),
        lambda: pool.make_room(700),
        lambda: pool.prefetch(4).result(20),
        lambda: pool.__delitem__(5),
        lambda: pool["noise"],
        lambda: pool.clear(),
        lambda: pool.__setitem__("a", fake(world, 1)),
    ]


def test_notes_are_right_after_every_step(world: World, tmp_path: Path) -> None:
    pool = SpillPool(device_limit=2000, host_limit=600, directory=tmp_path)
    for step in _steps(pool, world):
        step()
        check_books(pool, world, tmp_path)
    pool.close()
    check_noted(pool)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["_count", "_queue", "_take_out"])
def test_interrupted_while_something_is_noted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """At every point once: nothing is lost or counted twice, and the next use finds all as it is."""
    real = getattr(Books, name)
    calls = failing = 0

    def work(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise KeyboardInterrupt
        real(*args)

    monkeypatch.setattr(Books, name, work)
    position = 0
    while position == 0 or calls >= position:
        position += 1
        calls, failing = 0, position
        folder = tmp_path / str(position)
        with SpillPool(device_limit=2000, host_limit=600, directory=folder) as pool:
            for step in _steps(pool, world):
                try:
                    step()
                except (KeyboardInterrupt, KeyError):  # what could not be put is not there later
                    failing = 0
                    calls = max(calls, position)
                check_noted(pool)
                assert all(entry.forms and not entry.pending for entry in pool._tiers.all())
        assert sum(world.used.values()) == 0
    assert position > 2


def test_order_of_use_survives_other_moves(tmp_path: Path) -> None:
    """What is compressed later than others was used before them, say."""
    pool = SpillPool(host_limit=10**9, directory=tmp_path)
    for seed in range(6):
        pool[seed] = text(seed)
    entries = pool._tiers.entries
    for seed in (4, 1, 5, 0):
        with entries[seed].lock:
            entries[seed].compress()
    check_noted(pool)
    pool[1]
    check_noted(pool)
    pool._tiers.limits["host"] = 0
    pool.make_room(0)
    pool[6] = text(6)
    assert [pool.where(name) for name in pool] == ["disk"] * 7
    check_noted(pool)


# Many entries -----------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """Of a call, in the best round: lines of Python, and processor seconds, which C takes too."""

    lines: float
    seconds: float


def _cost(work: Callable[[int], object], rounds: int = 4, calls: int = 20, timed: int = 4) -> Cost:
    """No other work of the machine changes the number of lines; time is for what grows many times as large."""
    number = itertools.count()
    lines: list[int] = []
    seconds: list[float] = []

    def count(_frame: Any, event: str, _argument: Any) -> Any:
        lines[-1] += event == "line"
        return count

    for _ in range(timed):
        start = time.thread_time()
        for _ in range(calls):
            work(next(number))
        seconds.append((time.thread_time() - start) / calls)
    before = sys.gettrace()
    for _ in range(rounds):
        lines.append(0)
        sys.settrace(count)
        try:
            for _ in range(calls):
                work(next(number))
        finally:
            sys.settrace(before)
    return Cost(min(lines) / calls, min(seconds, default=0))


def _put_that_fits(world: World, entries: int, folder: Path) -> Cost:
    pool = SpillPool(device_limit=10**12, host_limit=10**12, directory=folder)
    for name in range(entries):
        pool[name] = fake(world, name)
    return _cost(lambda number: pool.__setitem__(("new", number), fake(world, number)))


def _put_that_makes_another_leave(world: World, entries: int, folder: Path) -> Cost:
    del folder
    pool = SpillPool(device_limit=4000)
    for name in range(entries):
        pool[name] = fake(world, name)
    assert pool.stats.moves["to_host"].count > entries - 20
    return _cost(lambda number: pool.__setitem__(("new", number), fake(world, number)))


def _put_among_what_cannot_shrink(world: World, entries: int, folder: Path) -> Cost:
    del folder
    pool = SpillPool(device_limit=1000 * entries)
    for name in range(entries):
        pool[name] = FakeSeries(world, "random", 1000)
    return _cost(lambda number: pool.__setitem__(("new", number), FakeSeries(world, "random", 1000)))


def _read(world: World, entries: int, folder: Path) -> Cost:
    del folder
    pool = SpillPool(device_limit=4000)
    for name in range(entries):
        pool[name] = fake(world, name)
    return _cost(lambda number: pool[number])


def _replace(world: World, entries: int, folder: Path) -> Cost:
    del folder
    pool = SpillPool(device_limit=4000)
    for name in range(entries):
        pool[name] = fake(world, name)
    return _cost(lambda number: pool.__setitem__(number, fake(world, number)))


def _clear(world: World, entries: int, folder: Path) -> Cost:
    """An entry's part of it."""
    del folder
    pool = SpillPool()
    for name in range(entries):
        pool[name] = fake(world, name)
    cost = _cost(lambda _: pool.clear(), rounds=1, calls=1, timed=0)
    return Cost(cost.lines / entries, 0)


MEASURED = [_put_that_fits, _put_that_makes_another_leave, _put_among_what_cannot_shrink, _read, _replace, _clear]


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURED, ids=lambda measure: measure.__name__)
def test_work_does_not_grow_with_the_entries(
    world: World, tmp_path: Path, measure: Callable[[World, int, Path], Cost]
) -> None:
    few, many = measure(world, 200, tmp_path), measure(world, 3200, tmp_path)
    assert 0 < many.lines < 1.5 * few.lines
    assert many.seconds < 4 * few.seconds + 100e-6


def test_pandas_data_by_the_thousand(tmp_path: Path) -> None:
    series = pd.Series(np.arange(10))
    found = []
    for entries in (10, 1000):
        with SpillPool(host_limit=10**9, directory=tmp_path) as pool:
            for name in range(entries):
                pool[name] = series
            found.append(_cost(lambda number, pool=pool: pool.__setitem__(("new", number), series)).lines)
    assert 0 < found[1] < 1.5 * found[0]


def test_limits_hold_with_many_entries(tmp_path: Path) -> None:
    with SpillPool(host_limit=4 * PLAIN + SLACK, directory=tmp_path) as pool:
        for seed in range(60):
            pool[seed] = text(seed % 7)
            assert pool.host_nbytes <= 4 * PLAIN + SLACK
        check_noted(pool)
        for seed in range(0, 60, 7):
            assert pool[seed].equals(text(seed % 7))
        check_noted(pool)
