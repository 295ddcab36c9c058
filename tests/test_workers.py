"""The threads of the process: how many, for whom, and what becomes of them when calls fail, nest, fork or end."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba.core.dispatcher import Dispatcher

import cudf_fsst
from cudf_fsst import workers
from cudf_fsst.codecs import work
from cudf_fsst.codecs.text import cpu, cpu_read, cpu_take, plan
from cudf_fsst.codecs.values import cpu as values
from cudf_fsst.codecs.values import plan as values_plan
from cudf_fsst.files import sections, storage
from cudf_fsst.workers import Promise, TaskGroup, map_items


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No threads yet; four a call."""
    monkeypatch.setattr(workers, "_pool", workers._Pool())
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "4")
    yield
    assert workers.at_work() == 0


def limit_threads(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The system has no more than so many."""

    def start(*args: Any) -> Any:
        if len(workers._pool.threads) == most:
            raise RuntimeError("can't start new thread")
        return _thread.start_new_thread(*args)

    monkeypatch.setattr(workers, "_start_thread", start)


class Together:
    """How many are inside at the same time."""

    def __init__(self) -> None:
        self._lock, self._inside, self.most = threading.Lock(), 0, 0

    def __call__(self, item: Any = None) -> Any:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        time.sleep(0.002)
        with self._lock:
            self._inside -= 1
        return item


# How many -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_as_many_as_are_asked_for(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", str(threads))
    barrier = threading.Barrier(threads)
    map_items(lambda _: barrier.wait(20), range(threads))
    together = Together()
    assert map_items(together, range(40)) == list(range(40))
    assert together.most <= threads
    assert len(workers._pool.threads) == (threads if threads > 1 else 0)
    together = Together()
    assert map_items(together, range(8), 2) == list(range(8))
    assert together.most <= 2


def test_threads_stay() -> None:
    before = set(threading.enumerate())  # not their numbers, which the next threads get
    for _ in range(300):
        map_items(lambda item: item, range(9))
    assert len(workers._pool.threads) == 4
    assert len(set(threading.enumerate()) - before) == 4
    assert workers._pool.wanted == []


def test_threads_of_several_users() -> None:
    """Each call has its own number, and none waits for another."""
    inside = threading.Barrier(12)
    found: list[Any] = []

    def use(number: int) -> None:
        map_items(lambda _: inside.wait(20), range(4))
        found.append([map_items(lambda item: item * number, range(200)) for _ in range(20)])

    users = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for one in users:
        one.start()
    for one in users:
        one.join()
    assert sorted(one[0][1] for one in found) == [0, 1, 2]
    assert all(one == [[item * one[0][1] for item in range(200)]] * 20 for one in found)
    assert len(workers._pool.threads) <= 14, "two may start the last one at the same time"


@pytest.mark.parametrize("started", [0, 1, 2, 3])
def test_fewer_threads_than_wanted(monkeypatch: pytest.MonkeyPatch, started: int) -> None:
    limit_threads(monkeypatch, started)
    together = Together()
    assert map_items(lambda item: map_items(together, range(item)), range(6)) == [list(range(n)) for n in range(6)]
    assert together.most <= 4
    assert len(workers._pool.threads) == started
    text = pd.Series([f"some text {number * 7919 % 10007}" for number in range(30_000)])
    pd.testing.assert_series_equal(text.fsst.compress().decompress(), text)


# Calls that nest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 4])
def test_calls_nest(threads: int) -> None:
    together = Together()

    def nested(depth: int) -> int:
        if depth == 0:
            return int(together(1))
        return sum(map_items(nested, [depth - 1] * 4))

    assert map_items(nested, [2] * 3, threads) == [16] * 3
    assert together.most <= threads, "an item's items take threads of its call"


def test_a_group_whose_tasks_call() -> None:
    found: list[Any] = []
    group = TaskGroup(2)
    with group, group, group:
        for number in range(6):
            group.begin(lambda number=number: found.append(map_items(lambda item: item + number, range(20))))
        while len(found) < 6:
            time.sleep(0.001)
    assert sorted(one[0] for one in found) == list(range(6))


# Errors -------------------------------------------------------------------------------------------------------------


def test_the_first_error_is_raised() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        time.sleep(0.001 * (10 - item) if item < 10 else 0)
        done.append(item)
        if item in (3, 5, 6):
            raise ValueError(f"item {item}")

    for _ in range(5):
        done.clear()
        with pytest.raises(ValueError, match="item 3"):
            map_items(work, range(100))
        assert len(done) < 20, "items behind do not begin"
    assert map_items(str, range(3)) == ["0", "1", "2"]


class Held:
    pass


def test_nothing_is_held() -> None:
    """Neither by threads that wait, nor by an error when it has been let go of."""
    made: list[weakref.ref[Held]] = []

    def work(fails: bool, held: Held) -> Held:
        if fails:
            raise ValueError
        result = Held()
        made.append(weakref.ref(result))
        return result

    gc.disable()
    try:
        for fails in (False, True):
            held = Held()
            made.append(weakref.ref(held))
            try:
                map_items(partial(work, fails), [held] * 9)
            except ValueError:
                assert fails
            del held
            until = time.monotonic() + 300
            while any(one() for one in made) and time.monotonic() < until:
                time.sleep(0.001)  # a thread may be at its last line
            assert not any(one() for one in made), fails
    finally:
        gc.enable()


# Interrupts, beside test_interrupts.py --------------------------------------------------------------------------------


def interrupting(at: int) -> Callable[[Any, str, Any], None]:
    """Raise an interrupt in this thread where the `at`-th call begins or C function has returned."""
    seen = 0

    def profile(_frame: Any, event: str, _: Any) -> None:
        nonlocal seen
        seen += event in ("call", "c_return")
        if seen == at:
            seen += 1
            raise KeyboardInterrupt

    return profile


def test_interrupted_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs on, threads are there for the next call, and it is no slower to come to its end."""
    running: list[int] = []

    def work(item: int) -> int:
        running.append(item)
        time.sleep(0.0002)
        running.remove(item)
        return item

    interrupts, at = 0, 0
    while interrupts == at:
        at += 1
        if at % 3 == 0:
            monkeypatch.setattr(workers, "_pool", workers._Pool())  # where threads start, too
        gc.disable()  # Python prints what is raised in a callback of a collection (hypothesis has one), and goes on
        try:
            sys.setprofile(interrupting(at))
            map_items(work, range(6))
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.setprofile(None)
            gc.enable()
        assert not running
        assert workers.at_work() == 0
        assert workers._pool.wanted == []
        assert map_items(work, range(6)) == list(range(6))
    assert at > 40


def test_interrupted_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits for what has begun."""
    begun, may_end, ended = threading.Semaphore(0), threading.Event(), list[int]()
    main = threading.main_thread().ident
    assert main is not None

    def work(item: int) -> None:
        begun.release()
        may_end.wait(20)
        ended.append(item)

    def interrupt() -> None:
        for _ in range(4):
            begun.acquire()
        for _ in range(5):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.01)
        may_end.set()

    thread, before = threading.Thread(target=interrupt), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            map_items(work, range(100))
        assert len(ended) == 4
    finally:
        may_end.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_items_hold_what_they_write_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where nobody waits for them, as if interrupts had come in all the gaps that there are."""
    begun, may_end = threading.Semaphore(0), threading.Event()
    written: list[weakref.ref[Any]] = []
    decode = cpu_read.SegmentReader.decode

    def slow(self: cpu_read.SegmentReader, first: int, last: int, out: Any) -> None:
        written.append(weakref.ref(out.base))
        begun.release()
        may_end.wait(20)
        decode(self, first, last, out)

    def interrupted(_: Any) -> None:
        begun.acquire()
        raise KeyboardInterrupt

    column = pd.Series([f"text {number * 7919}" for number in range(200_000)]).fsst.compress()
    monkeypatch.setattr(cpu_read.SegmentReader, "decode", slow)
    monkeypatch.setattr(workers._ItemsCall, "wait", interrupted)
    with monkeypatch.context() as patch:
        patch.setattr(workers._Work, "settle", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            column.decompress()
        gc.collect()
        assert written[0]() is not None
    may_end.set()
    while workers.at_work():
        time.sleep(0.001)
    for _ in range(1000):
        if not any(one() is not None for one in written):
            break
        time.sleep(0.001)
    assert not any(one() is not None for one in written), "nothing holds them any more"


def reached(start: Any) -> tuple[list[int], list[tuple[int, int]]]:
    """Numbers that may be addresses, and the memory of arrays, that can be reached from an object."""
    numbers, areas, seen, left = list[int](), list[tuple[int, int]](), set[int](), [start]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, int):
            if 1 << 40 < one < 1 << 47:
                numbers.append(one)
        elif isinstance(one, np.ndarray):
            begin = one.__array_interface__["data"][0]
            areas.append((begin, begin + one.nbytes))
            left.append(one.base)
        elif isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, tuple | list | set | frozenset):
            left.extend(one)
        elif isinstance(one, partial):
            left.extend((one.func, one.args, one.keywords))
        elif isinstance(one, FunctionType):
            left.extend(cell.cell_contents for cell in one.__closure__ or ())
            left.append(one.__defaults__)
        elif hasattr(one, "__self__"):
            left.append(one.__self__)
        elif not isinstance(one, type | ModuleType | Dispatcher):
            left.append(getattr(one, "__dict__", None))
            left.extend(getattr(one, name, None) for name in getattr(type(one), "__slots__", ()))
    return numbers, areas


def test_no_bare_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, automatic: None, rng: np.random.Generator
) -> None:
    """Every address in an item is of an array that the item holds."""
    seen: dict[str, int] = {}

    def checked(function: Callable[[Any], Any], items: Any, *threads: int) -> list[Any]:
        for item in items:
            numbers, areas = reached((function, item))
            for number in numbers:
                assert any(begin <= number <= end for begin, end in areas), (function, item, hex(number))
            name = f"{function.__module__}.{function.__qualname__}"
            seen[name] = seen.get(name, 0) + len(areas)
        return map_items(function, items, *threads)

    for module in (cpu, values, storage, work):
        monkeypatch.setattr(module, "map_items", checked)
    monkeypatch.setattr(cpu_read, "CHUNK_BLOCKS", 2)
    for name, value in {"_CHUNK_ROWS": 512, "_LONG_ROW": 10_000}.items():
        monkeypatch.setattr(cpu_take, name, value)
    monkeypatch.setattr(work, "_FEW_ROWS", 100)
    monkeypatch.setattr(plan, "segment_size", lambda chars: 40_000)
    monkeypatch.setattr(values_plan, "PART_NBYTES", 2**14)
    monkeypatch.setattr(values, "_JOB_NBYTES", 2**12)
    monkeypatch.setattr(sections, "WORTH_THREADS", 2**12)
    rows = 9000
    text = [f"row {number * 7919 % 10007} of some" for number in range(rows)]
    text[10], text[500] = "long" * 5000, "longer" * 9000
    frame = pd.DataFrame(
        {"text": text, "few": [f"value {number % 30}" for number in range(rows)], "number": rng.integers(0, 99, rows)}
    )
    frame.loc[::7, "few"] = None
    packed = frame.fsst.compress()
    chosen = rng.integers(0, rows, rows // 3)
    pd.testing.assert_frame_equal(packed.decompress(), frame)
    pd.testing.assert_frame_equal(packed.iloc[chosen], frame.iloc[chosen])
    pd.testing.assert_frame_equal(packed.iloc[5:8000:3], frame.iloc[5:8000:3])
    assert packed["text"].str.contains("77").sum() > 10
    assert packed["few"].str.len().sum() > 10
    assert (packed["number"] < 5).sum() > 10
    frame["text"].fsst.compress(level="max")
    packed.save(tmp_path / "frame.fsst")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "frame.fsst").decompress(), frame)
    assert len(seen) > 6, seen
    assert min(seen.values()) > 0, seen


# Groups and promises ------------------------------------------------------------------------------------------------


def test_a_group_drops_what_has_not_begun() -> None:
    group, begun, may_end, done = TaskGroup(2), threading.Semaphore(0), threading.Event(), list[int]()

    def work(number: int) -> None:
        begun.release()
        may_end.wait(20)
        done.append(number)

    with group, group, group:
        for number in range(5):
            group.begin(partial(work, number))
        for _ in range(2):
            begun.acquire()
        threading.Timer(0.02, may_end.set).start()
    assert sorted(done) == [0, 1]
    assert not group.items


@pytest.mark.parametrize("started", [0, 1, 9])
def test_promises(monkeypatch: pytest.MonkeyPatch, started: int) -> None:
    """Kept in a thread, or by who asks; also where all threads ask."""
    limit_threads(monkeypatch, started)
    group = TaskGroup(2)
    with group, group, group:
        inner = [Promise(group, partial(int, number)) for number in range(3)]
        assert [one.result() for one in inner] == [0, 1, 2]

        def ask() -> int:
            return Promise(group, lambda: 7).result() + inner[2].result()

        other = TaskGroup(2)
        with other, other, other:
            outer = [Promise(other, ask) for _ in range(3)]
            assert [one.result() for one in outer] == [9] * 3
            with pytest.raises(ZeroDivisionError):
                Promise(other, lambda: 1 // 0).result()


def test_a_group_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_threads(monkeypatch, 0)
    group = TaskGroup(2)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        group.begin(int)
    assert not group.items
    assert workers._pool.wanted == []


# Forks and the end --------------------------------------------------------------------------------------------------

SCRIPT = """
import atexit, os, sys, threading, time, warnings
os.environ["CUDF_FSST_NUM_THREADS"] = "3"
warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads
from cudf_fsst import workers
from cudf_fsst.workers import TaskGroup, map_items
"""


def run(script: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT + script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork() -> None:
    """Also of a thread whose process is in the middle of a call, and of an item."""
    script = """
def child(what):
    if os.fork() == 0:
        assert workers.at_work() == 0 == len(workers._pool.threads)
        barrier = threading.Barrier(3)
        map_items(lambda item: barrier.wait(20), range(3))
        assert map_items(lambda item: map_items(str, range(item)), range(9))[8] == list("01234567")
        print(what, len(workers._pool.threads), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0

barrier = threading.Barrier(3)
map_items(lambda item: barrier.wait(20), range(3))
child("idle")
begun, may_end = threading.Event(), threading.Event()
busy = threading.Thread(target=map_items, args=(lambda item: begun.set() or may_end.wait(20), range(9)))
busy.start()
begun.wait()
child("busy")
may_end.set()
busy.join()
map_items(lambda item: item == 2 and child("item"), range(4))
"""
    assert run(script) == ["idle", "3", "busy", "3", "item", "3"]


def test_the_end_waits_for_what_has_begun() -> None:
    script = """
group = TaskGroup(2)
begun = threading.Semaphore(0)
def work(number):
    begun.release()
    while not workers._pool.stopped:
        time.sleep(0.001)
    time.sleep(0.1)
    os.write(1, f"{number}\\n".encode())  # print would write the number and the end of the line apart
for number in range(9):
    group.begin(lambda number=number: work(number))
begun.acquire()
begun.acquire()
atexit.register(lambda: print(*map_items(str, "end"), flush=True))
"""
    assert sorted(run(script)) == ["0", "1", "d", "e", "n"]


def test_calls_at_the_very_end() -> None:
    """When threads begin nothing new, who calls does all of it."""
    script = """
atexit.register(lambda: print(*map_items(str, "end"), workers._pool.stopped, flush=True))
map_items(str, range(9))  # registers after that
"""
    assert run(script) == ["e", "n", "d", "True"]


def test_a_daemon_in_the_middle_of_a_call() -> None:
    script = """
import numpy as np
begun = threading.Semaphore(0)
def work(item):
    begun.release()
    np.ones(1000).sum()
def call():
    while True:
        map_items(work, range(50))
threading.Thread(target=call, daemon=True).start()
for _ in range(200):
    begun.acquire()
print("end")
"""
    assert run(script) == ["end"]
