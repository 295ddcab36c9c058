"""The folders of pools: whose they are, what a killed process leaves of them, and files that cannot be removed."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cudf_fsst
from cudf_fsst import SpillPool
from cudf_fsst.spill import folder as folder_module
from fake_gpu import files_under
from spill_cases import same, text

Start = Callable[[str], subprocess.Popen[str]]

HOLDS = """
import os, sys, time
import pandas as pd
from cudf_fsst import SpillPool
pool = SpillPool(host_limit=0, directory=sys.argv[1])
pool["a"] = pd.Series(["some text"] * 1000)
if sys.argv[2] == "fork" and os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
    os._exit(0)
if sys.argv[2] == "half":  # as `save` is killed
    open(os.path.join(pool._tiers.folder, ".cudf-fsst-0123456789abcdef.tmp"), "wb").write(b"half a file")
os.write(1, b"ready\\n")
time.sleep(600)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where pools make their folders."""
    return tmp_path / "spill"


@pytest.fixture
def start(directory: Path) -> Iterator[Start]:
    """What starts a process with a pool, which ends with the test."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}
    started = []

    def process(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-c", HOLDS, str(directory), how]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield process
    for one in started:
        one.kill()
        one.wait(300)
        assert one.stdout is not None
        one.stdout.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_pool_removes_what_a_killed_process_left(
    directory: Path, start: Start, how: int, caplog: pytest.LogCaptureFixture
) -> None:
    process = start("half")
    assert _line(process) == "ready"
    with SpillPool(directory=directory):
        assert len(list(directory.iterdir())) == 2  # its process lives
        assert len(files_under(directory)) == 2
    process.send_signal(how)
    process.wait(300)
    assert len(files_under(directory)) == 2
    with caplog.at_level(logging.INFO, "cudf_fsst.spill.folder"), SpillPool(directory=directory):
        assert len(list(directory.iterdir())) == 1
        assert "a process that is gone" in caplog.text
    assert list(directory.iterdir()) == []


def test_a_fork_that_lives_longer_does_not_keep_the_folder(directory: Path, start: Start) -> None:
    """It inherits the descriptor that holds the lock."""
    process = start("fork")
    said = {_line(process), _line(process)}
    (child,) = (int(line) for line in said - {"ready"})
    try:
        process.kill()
        process.wait(300)
        assert files_under(directory)
        with SpillPool(directory=directory):
            assert len(list(directory.iterdir())) == 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_pools_of_one_process_leave_each_other_alone(directory: Path) -> None:
    pools = [SpillPool(host_limit=0, directory=directory) for _ in range(3)]
    for number, pool in enumerate(pools):
        pool["a"] = text(number)
    pools[0].close()
    with SpillPool(directory=directory):
        for number, pool in enumerate(pools[1:], 1):
            same(pool["a"], text(number))


def test_a_dead_folder_is_removed_and_those_that_may_live_stay(directory: Path) -> None:
    """Folders of other hosts, without a lock, of other names; and what is no folder."""
    own = folder_module._own_prefix()
    names = {
        f"{own}123-abc": True,
        "cudf-fsst-spill-elsewhere-123-abc": True,
        f"{own}12-345-abc": True,  # of a host whose name goes on with -12
        f"{own}124-abc": False,
        "cudf-fsst-spill-abcdefgh": True,  # as they were called once
        "something": True,
    }
    for name, locked in names.items():
        (directory / name).mkdir(parents=True)
        (directory / name / "00.fsst").write_text("rows")
        if locked:
            (directory / name / "lock").touch()
    (directory / f"{own}125-abc").write_text("a file")
    target = directory.parent / "mine"
    target.mkdir()
    (target / "lock").touch()
    (target / "precious").touch()
    (directory / f"{own}126-abc").symlink_to(target)
    with SpillPool(directory=directory):
        pass
    left = {path.name for path in directory.iterdir()}
    assert left == {*names, f"{own}125-abc", f"{own}126-abc"} - {f"{own}123-abc"}
    assert (target / "precious").exists()


def test_somebody_elses_folder_stays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = directory / f"{folder_module._own_prefix()}123-abc"
    left.mkdir(parents=True)
    (left / "lock").touch()
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    pool = SpillPool(directory=directory)
    assert left.exists()
    monkeypatch.undo()
    pool.close()
    with SpillPool(directory=directory):
        assert not left.exists()


def test_a_file_system_without_locks(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder cannot be told from one whose process is gone, so it stays until its own pool removes it."""

    def flock(*_: Any) -> None:
        raise OSError("no locks here")

    with monkeypatch.context() as patched:
        patched.setattr(folder_module.fcntl, "flock", flock)
        pool = SpillPool(host_limit=0, directory=directory)
        pool["a"] = text(1)
    with SpillPool(directory=directory):
        same(pool["a"], text(1))
    pool.close()
    assert list(directory.iterdir()) == []


def test_a_system_without_locks(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "fcntl", None)
    with SpillPool(host_limit=0, directory=directory) as pool, SpillPool(directory=directory):
        pool["a"] = text(1)
        same(pool["a"], text(1))
    assert list(directory.iterdir()) == []


def test_a_folder_that_cannot_be_made(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(*_: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "rename", rename)
    before = set(folder_module._locks)
    with pytest.raises(PermissionError, match="read-only"):
        SpillPool(directory=directory)
    assert list(directory.iterdir()) == []
    assert folder_module._locks == before


class Stuck:
    """Lets nobody remove some files, which it is told by the beginning of what they are called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        real = os.unlink

        def unlink(path: Any, *, dir_fd: int | None = None) -> None:
            if os.path.basename(path) in self.names:
                raise PermissionError(13, "Permission denied", path)
            real(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", unlink)


def test_a_file_that_cannot_be_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs its own entry nothing, and no other: it is logged, once, and goes when the pool is closed."""
    stuck = Stuck(monkeypatch)
    pool = SpillPool(host_limit=0, directory=directory)
    for name in "abcd":
        pool[name] = text(ord(name))
    stuck.names = set(files_under(directory))
    pool["a"] = text(1)
    del pool["b"]
    same(pool.pop("c"), text(ord("c")))
    assert list(pool) == ["a", "d"]
    same(pool["a"], text(1))
    same(pool["d"], text(ord("d")))
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 3
    assert all("Permission denied" in record.getMessage() for record in told)
    assert len(files_under(directory)) == 5
    pool["e"] = text(5)
    pool.clear()
    assert len(files_under(directory)) == 4
    assert pool.disk_nbytes == 0
    stuck.names.clear()
    pool.close()
    assert list(directory.iterdir()) == []


def test_a_file_that_can_never_be_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest goes when the pool is closed; the next pool in the directory tries again."""
    stuck = Stuck(monkeypatch)
    with SpillPool(host_limit=0, directory=directory) as pool:
        pool["a"], pool["b"] = text(1), text(2)
        stuck.names = set(files_under(directory)[:1])
        caplog.clear()
    assert files_under(directory) == list(stuck.names)
    assert "cannot be removed" in caplog.text
    with SpillPool(directory=directory):
        assert files_under(directory) == list(stuck.names)
    stuck.names.clear()
    with SpillPool(directory=directory):
        assert len(list(directory.iterdir())) == 1
    assert list(directory.iterdir()) == []


def test_a_failed_save_whose_file_cannot_be_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is the save's."""
    pool = SpillPool(host_limit=0, directory=directory)
    monkeypatch.setattr("cudf_fsst.spill.held.head", lambda path: (_ for _ in ()).throw(OSError(5, "cannot be read")))
    stuck = Stuck(monkeypatch)
    monkeypatch.setattr("cudf_fsst.spill.entry.Counters.file_name", lambda counters: "one.fsst")
    stuck.names = {"one.fsst"}
    with pytest.raises(OSError, match="'a', while it was written to disk: cannot be read"):
        pool["a"] = text(1)
    assert "one.fsst" in caplog.text
    assert pool.disk_nbytes == 0
    monkeypatch.undo()
    pool.close()
    assert list(directory.iterdir()) == []


def test_a_folder_that_somebody_has_removed(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    pool = SpillPool(host_limit=0, directory=directory)
    pool["a"] = text(1)
    shutil.rmtree(directory)
    with pytest.raises(FileNotFoundError):
        pool["a"]
    pool.close()
    assert caplog.records == []


def test_left_by_a_garbage_collected_pool(directory: Path) -> None:
    """Its finalizer gives the lock back."""
    before = set(folder_module._locks)
    pool = SpillPool(host_limit=0, directory=directory)
    assert len(folder_module._locks) == len(before) + 1
    del pool
    end = time.monotonic() + 300
    while folder_module._locks != before and time.monotonic() < end:
        time.sleep(0.01)
    assert folder_module._locks == before
    assert list(directory.iterdir()) == []
