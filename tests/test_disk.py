"""Threads write and read the bytes of a file, whatever the system gives or takes of them at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst.files import disk


@pytest.fixture(params=[None, 1000, 1])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small jobs, and a system that does no more than so many bytes of one; None: it does all."""
    monkeypatch.setattr(disk, "_JOB_NBYTES", 4096)
    monkeypatch.setattr(disk, "_AT_ONCE", 3)
    most = request.param
    if most is None:
        return
    read, write = os.preadv, os.pwritev

    def short(views: Any) -> list[memoryview]:
        return [memoryview(views[0])[: max(most, 64 if most == 1 else 0)]]

    monkeypatch.setattr(os, "preadv", lambda file, views, at: read(file, short(views), at))
    monkeypatch.setattr(os, "pwritev", lambda file, views, at: write(file, short(views), at))


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    words = pd.Series(["one", None, "three"] * 3000)
    return pd.DataFrame({"n": rng.integers(0, 2**60, 9_000), "f": rng.random(9_000), "s": words, "x": "x"})


def test_round_trip(tmp_path: Path, at_once: None) -> None:
    data = frame()
    made = data.fsst.compress()
    made.save(tmp_path / "f.fsst")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "f.fsst").decompress(), data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_JOB_NBYTES", 1 << 20)
        made.save(tmp_path / "whole.fsst")
    assert (tmp_path / "f.fsst").read_bytes() == (tmp_path / "whole.fsst").read_bytes()


def test_damage_is_named(tmp_path: Path, at_once: None) -> None:
    path = tmp_path / "frame.fsst"
    frame().fsst.compress().save(path)
    content = path.read_bytes()
    path.write_bytes(content[:-5000])
    with pytest.raises(ValueError, match=r"frame\.fsst: "):
        cudf_fsst.load(path)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        cudf_fsst.load(path)


def test_a_file_that_shrinks_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "frame.fsst"
    frame().fsst.compress().save(path)
    source = disk._Disk.fill

    def cut(self: Any, targets: Any) -> None:
        source(self, targets)
        os.truncate(path, 100_000)

    monkeypatch.setattr(disk._Disk, "fill", cut)
    with pytest.raises(ValueError, match=r"frame\.fsst: [a-z ]+ \d+: the file ends inside it"):
        cudf_fsst.load(path)


@pytest.mark.parametrize("call", ["fsync", "pwritev"])
def test_a_full_disk_leaves_nothing(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match=r"No space left on device: .*frame\.fsst"):
        frame().fsst.compress().save(tmp_path / "frame.fsst")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sizes", [[], [0], [1, 4096, 0, 4095, 1], [100_000] * 5])
def test_a_file_that_is_written_behind(sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is given at a time and the system takes, in order; it may be changed when `write` has returned."""
    monkeypatch.setattr(disk, "_JOB_NBYTES", 4096)
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, view, at: write(file, view[:1000], at))
    rng, expected = np.random.default_rng(2), b""
    with open(tmp_path / "f", "xb") as file, disk.WrittenBehind(file) as sink:
        for size in sizes:
            piece = bytearray(rng.bytes(size))
            expected += piece
            assert sink.write(memoryview(piece)) == size
            piece[:] = bytes(size)
            assert sink.tell() == len(expected)
        sink.finish()
        assert (tmp_path / "f").read_bytes() == expected


def test_what_is_written_behind_keeps_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who write take none; no thread has the file when it is closed."""
    monkeypatch.setattr(disk, "_JOB_NBYTES", 4096)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with open(tmp_path / "f", "xb") as file, disk.WrittenBehind(file) as sink:
        for _ in range(20):
            assert sink.write(bytes(4096)) == 4096
        with pytest.raises(OSError, match="No space left"):
            sink.check()
        with pytest.raises(OSError, match="No space left"):
            sink.finish()
    with open(tmp_path / "g", "xb") as file, disk.WrittenBehind(file) as sink:
        sink.write(bytes(10))
        with pytest.raises(OSError, match="No space left"):
            sink.finish()
