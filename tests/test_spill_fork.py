"""SpillPool in processes that were forked from the one that made it: data loaders, multiprocessing."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cudf_fsst
from cudf_fsst import SpillPool
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.spill import oom
from fake_gpu import World, files_under
from spill_cases import PACKED, PLAIN, SLACK, fake, same, text

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked process, as JSON has it; its exception's type and text if it raises.

    A process that waits for ever is ended, and then there is an AssertionError.
    """
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            said = work()
        except BaseException as error:
            said = [type(error).__name__, str(error)]
        os.write(its, json.dumps(said).encode())
        os._exit(0)
    os.close(its)
    with open(ours, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child ended with status {status}"
    return json.loads(answer)


def _uses(pool: SpillPool) -> dict[str, Callable[[], Any]]:
    """Everything that asks a pool for something."""
    return {
        "get": lambda: pool["a"],
        "get()": lambda: pool.get("a"),
        "put": lambda: pool.__setitem__("a", text(9)),
        "put new": lambda: pool.__setitem__("new", text(9)),
        "del": lambda: pool.__delitem__("a"),
        "pop": lambda: pool.pop("a"),
        "pop with default": lambda: pool.pop("none", None),
        "popitem": lambda: pool.popitem(),
        "setdefault": lambda: pool.setdefault("a", text(9)),
        "update": lambda: pool.update(a=text(9)),
        "clear": lambda: pool.clear(),
        "in": lambda: "a" in pool,
        "len": lambda: len(pool),
        "iter": lambda: list(pool),
        "items": lambda: list(pool.items()),
        "prefetch": lambda: pool.prefetch("a"),
        "make_room": lambda: pool.make_room(10**9),
        "where": lambda: pool.where("a"),
        "device_nbytes": lambda: pool.device_nbytes,
        "host_nbytes": lambda: pool.host_nbytes,
        "disk_nbytes": lambda: pool.disk_nbytes,
        "stats": lambda: pool.stats,
        "closed": lambda: pool.closed,
        "with": lambda: pool.__enter__(),
        "completions": lambda: pool._ipython_key_completions_(),
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize("use", _uses(SpillPool()))
def test_what_a_forked_process_asks_is_refused_at_once(tmp_path: Path, use: str) -> None:
    """Even if a thread of the parent held every lock of the pool when it was forked."""
    pool = SpillPool(host_limit=PLAIN + PACKED + SLACK, directory=tmp_path)
    pool["a"], pool["b"] = text(1), text(2)
    assert pool.where("a") == "host, compressed"
    tiers = pool._tiers
    with tiers.lock, tiers.counters.lock, tiers.entries["a"].lock, tiers.entries["b"].lock:
        kind, message = in_child(_uses(pool)[use])
    assert kind == "RuntimeError"
    assert f"belongs to process {os.getpid()}" in message
    assert "forked" in message
    same(pool["a"], text(1))
    same(pool["b"], text(2))


def test_a_forked_process_can_show_it(tmp_path: Path) -> None:
    """Tracebacks and logs do."""
    pool = SpillPool(directory=tmp_path)
    with pool._tiers.lock:
        shown = in_child(lambda: [repr(pool), pool._repr_html_()])
    assert shown == [f"SpillPool of process {os.getpid()}, from which this one was forked"] * 2


def test_reading_in_a_child_changes_nothing(tmp_path: Path) -> None:
    """Reading makes others give way, to files: a child's would have the names of its parent's next ones."""
    pool = SpillPool(host_limit=1, directory=tmp_path)
    for seed in range(3):
        pool[seed] = text(seed)
    before = files_under(tmp_path)
    for seed in range(3):
        kind, _ = in_child(lambda seed=seed: len(pool[seed]))
        assert kind == "RuntimeError"
    assert files_under(tmp_path) == before
    pool[3] = text(3)
    for seed in range(4):
        same(pool[seed], text(seed))


def test_a_child_lets_go_of_a_pool_and_its_files_stay(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)

    def finalize() -> None:
        assert pool._finalizer is not None
        pool._finalizer()

    def end_of_with() -> None:
        with pytest.raises(KeyError), pool_at_its_end(pool):
            raise KeyError("the child's own")

    for let_go in (pool.close, finalize, end_of_with):
        with pool._tiers.lock, pool._tiers.entries["a"].lock:
            assert in_child(let_go) is None
        assert len(files_under(tmp_path)) == 1
    same(pool["a"], text(1))


class pool_at_its_end:
    """The end of a ``with`` block that was entered before the fork."""

    def __init__(self, pool: SpillPool) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._pool.__exit__(*error)


def test_fork_inside_a_with_block(tmp_path: Path) -> None:
    """A child that leaves the block by an error of its own shows that error, and its parent's files stay."""
    with SpillPool(host_limit=0, directory=tmp_path) as pool:
        pool["a"] = text(1)

        def work() -> None:
            with pool_at_its_end(pool):
                raise LookupError("the child's own")

        assert in_child(work) == ["LookupError", "the child's own"]
        same(pool["a"], text(1))
    assert list(tmp_path.iterdir()) == []


def _child_of_multiprocessing(pool: SpillPool, said: Any) -> None:
    try:
        pool["a"]
    except RuntimeError as error:
        said.send(str(error))
    del pool
    with SpillPool(host_limit=0) as own:
        said.send(len(own))


def test_multiprocessing(tmp_path: Path) -> None:
    """A child that ends normally, after a thread of the parent has prefetched; it may have a pool of its own."""
    context = multiprocessing.get_context("fork")
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    for name in "abc":
        pool[name] = text(ord(name))
    pool.prefetch("a").result(20)
    ours, its = context.Pipe()
    process = context.Process(target=_child_of_multiprocessing, args=(pool, its))
    process.start()
    assert ours.poll(20)
    assert "belongs to process" in ours.recv()
    assert ours.poll(20)
    assert ours.recv() == 0
    process.join(300)
    assert process.exitcode == 0
    for name in "abc":
        same(pool[name], text(ord(name)))


def test_a_pool_of_the_childs_own_in_the_same_directory(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)

    def work() -> list[Any]:
        with SpillPool(host_limit=0, directory=tmp_path) as own:
            own["a"] = text(2)
            return [own["a"].equals(text(2)), len(files_under(tmp_path))]

    assert in_child(work) == [True, 2]
    same(pool["a"], text(1))
    assert len(files_under(tmp_path)) == 1


@pytest.mark.slow
def test_forked_while_threads_use_it(tmp_path: Path) -> None:
    """Whatever the threads hold at that moment, every child ends."""
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    for seed in range(3):
        pool[seed] = text(seed)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for seed in range(3):
                same(pool[seed], text(seed))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_child(lambda: len(pool[0]))[0] == "RuntimeError"
            assert in_child(pool.close) is None
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for seed in range(3):
        same(pool[seed], text(seed))


def test_forked_while_a_thread_makes_a_table() -> None:
    """What one table makes of itself when it is asked, no other waits for: nobody would ever let go of it here."""
    started, go = threading.Event(), threading.Event()

    class Slow(tuple[bytes, ...]):
        def __iter__(self) -> Any:
            started.set()
            go.wait()
            return super().__iter__()

    table = SymbolTable.from_symbols([b"a"])
    table.__dict__["symbols"] = Slow([b"a"])
    thread = threading.Thread(target=lambda: table.decode_symbols)
    thread.start()
    started.wait()
    try:
        assert in_child(lambda: SymbolTable.from_symbols([b"b"]).decode_symbols.tolist()[:2]) == [98, 0]
    finally:
        go.set()
        thread.join()


def test_rmm_asks_in_a_child(world: World) -> None:
    """RMM's callback is inherited, and so is its lock."""
    pool = SpillPool()
    pool["a"] = fake(world, 1)
    answer = oom.Answer(pool, 0, lambda nbytes: None, "cuda:0")
    with answer._lock:
        assert in_child(lambda: answer(100)) is False
    assert answer(100)
    assert pool.where("a") != "cuda:0"
    assert in_child(lambda: cudf_fsst.spilling(pool).__enter__())[0] == "RuntimeError"


def test_no_copies() -> None:
    pool = SpillPool()
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a SpillPool cannot be copied or pickled"):
            make(pool)


def test_a_file_that_is_another_entrys(tmp_path: Path) -> None:
    """Files that were exchanged have valid checksums, and are of the wrong rows."""
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"], pool["b"] = text(1), text(2)
    first, second = sorted(tmp_path.rglob("*.fsst"))
    first.rename(tmp_path / "other")
    second.rename(first)
    (tmp_path / "other").rename(second)
    for name in "ab":
        with pytest.raises(ValueError, match=rf"'{name}', while it was read from disk: .*\.fsst: not the file that"):
            pool[name]


def test_names_of_files_do_not_repeat(tmp_path: Path) -> None:
    """Two pools that count alike name their files differently, in whatever folder they lie."""
    with SpillPool(host_limit=0, directory=tmp_path) as one, SpillPool(host_limit=0, directory=tmp_path) as other:
        one["a"], other["a"] = text(1), text(1)
        assert len(set(files_under(tmp_path))) == 2
