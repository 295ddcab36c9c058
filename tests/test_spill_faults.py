"""SpillPool when something fails: out of memory, full disks, damaged files, a killed process."""

from __future__ import annotations

import errno
import gc
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cudf_fsst
from cudf_fsst import CompressedColumn, SpillPool, spill
from cudf_fsst.files import storage
from cudf_fsst.interop import cudf as interop_cudf
from cudf_fsst.spill import oom
from fake_gpu import FakePacked, FakeSeries, World, files_under
from spill_cases import PACKED, PLAIN, SLACK, check_books, equal, fake, same, text, words

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

    def test_without_cudf(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cudf", None)
        with pytest.raises(ImportError, match="cudf-fsst"), cudf_fsst.spilling(SpillPool()):
            pass


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
        patch.setattr("cudf_fsst.files.storage.os.fsync", full)
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


class TestLog:
    """What cannot move is told in the log, once for each value and step, whoever goes on all the same."""

    def records(self, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "cudf_fsst.spill.tiers"]

    def test_a_full_disk_while_reading(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
        for seed in range(3):
            pool[seed] = text(seed)
        assert self.records(caplog) == []
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(CompressedColumn, "save", lambda *_: (_ for _ in ()).throw(full))
        for _ in range(3):
            same(pool[0], text(0))
        told = self.records(caplog)
        assert [record.levelname for record in told] == ["WARNING"]
        assert "2, while it was written to disk: No space left" in told[0].getMessage()
        assert "Traceback" not in told[0].getMessage()
        assert pool.stats.failed > 1

    def test_where_is_told_on_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(spill.held, "compress", lambda *_: (_ for _ in ()).throw(MemoryError("no memory")))
        pool = SpillPool(host_limit=0, directory=tmp_path)
        with caplog.at_level(logging.DEBUG, "cudf_fsst.spill.tiers"), pytest.raises(MemoryError, match="'a', while"):
            pool["a"] = text(1)
        assert "Traceback" in caplog.text

    def test_errors_that_nobody_expects(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A mistake of this package, say: reading goes on, and the log says where it was made."""
        pool = SpillPool(device_limit=1500)
        pool["a"], pool["b"] = fake(world, 1), fake(world, 2)
        pool._tiers.limits["device"] = 0

        def wrong(series: FakeSeries) -> FakePacked:
            raise AttributeError("no such thing")

        monkeypatch.setattr(FakeSeries, "compress", wrong)
        for name in "cd":
            with pytest.raises(AttributeError, match="no such thing"):
                pool[name] = fake(world, 3)
        assert pool["a"].payload == "payload 1"
        told = [record.getMessage() for record in self.records(caplog)]
        # That they be compressed, and that they leave; "a" was compressed when "b" came.
        for name in "bcd":
            assert sum(f"'{name}', while it was compressed: AttributeError" in one for one in told) == 2
        assert len(told) == 6
        assert all("in wrong" in one for one in told)


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


@pytest.mark.sampled(2)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compress", "save", "load", "decompress"])
@pytest.mark.parametrize("error", ["memory", "disk_full", "interrupt"])
def test_every_move_of_pandas_data_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: str
) -> None:
    count = 0
    failing: int | None = None
    owner, name = {
        "compress": (spill.held, "compress"),
        "save": (CompressedColumn, "save"),
        "load": (storage, "opened"),
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


@pytest.mark.slow
def test_a_process_killed_while_it_spills_leaves_no_half_file(tmp_path: Path) -> None:
    """Whatever a killed process leaves under its final name is whole; the rest has a name that nobody reads."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}

    def finished() -> list[Path]:
        return [path for path in tmp_path.rglob("*") if path.suffix == ".fsst"]

    for wait in (0.05, 0.2, 0.4, 600):  # the last one until a file is there, however slow the machine is
        command = [sys.executable, "-c", SPILLS_FOR_EVER, str(tmp_path)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            end = time.monotonic() + wait
            while time.monotonic() < end and not (wait == 600 and finished()):
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    found = finished()
    assert found
    for path in found:
        assert len(cudf_fsst.load(path).decompress()) == 60_000
    with SpillPool(host_limit=1, directory=tmp_path) as pool:  # what is left is in nobody's way
        pool["a"] = text(1)
        same(pool["a"], text(1))


# On a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_cudf_out_of_memory() -> None:
    """More than there is memory for, under a limit of RMM's, with no limit of the pool's own."""
    import rmm

    rows = 400_000
    size = int(words(0, rows).memory_usage(deep=True))
    before = rmm.mr.get_current_device_resource()
    limiting = rmm.mr.LimitingResourceAdaptor(before, 12 * size)
    pool = SpillPool()
    rmm.mr.set_current_device_resource(limiting)
    try:
        with cudf_fsst.spilling(pool, reserve=2 * size):
            for seed in range(40):
                pool[seed] = words(seed % 4, rows)
            for seed in range(40):
                equal(pool[seed], words(seed % 4, rows))
            with pytest.raises(MemoryError):
                rmm.DeviceBuffer(size=13 * size)
            assert pool.device_nbytes == 0
            equal(pool[0], words(0, rows))
        assert rmm.mr.get_current_device_resource() is limiting
        assert pool.stats.moves["to_host"].count > 0
        assert pool.stats.moves["compress"].count > 0
    finally:
        pool.close()
        gc.collect()
        rmm.mr.set_current_device_resource(before)
