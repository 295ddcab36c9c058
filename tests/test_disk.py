"""Large buffers go to files and come back by KvikIO where it is there, and whatever it does not do is done plainly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst.files import disk


class FakeKvikIO:
    """As much of KvikIO's module as is used; `fault` makes it fail in a way of its own."""

    def __init__(self, fault: str = "") -> None:
        self.fault, self.written, self.read, self.opened = fault, 0, 0, 0
        self._threads = ThreadPoolExecutor(4)
        self.CuFile = lambda path, flags: FakeFile(self, path, flags)

    def submit(self, work: Any) -> Any:
        future: Future[int] = self._threads.submit(work)
        return SimpleNamespace(get=future.result)


class FakeFile:
    def __init__(self, library: FakeKvikIO, path: str, flags: str) -> None:
        if library.fault == "open":
            raise RuntimeError("no such thing here")
        self._library = library
        self._descriptor = os.open(path, {"r": os.O_RDONLY, "r+": os.O_RDWR}[flags])
        library.opened += 1

    def pwrite(self, buffer: Any, *, file_offset: int) -> Any:
        if self._library.fault == "call":
            raise RuntimeError("libcuda.so.1: cannot open shared object file")

        def work() -> int:
            if self._library.fault == "error":
                raise RuntimeError("an error of its own")
            data = memoryview(buffer).cast("B")
            part = data[: len(data) // 2] if self._library.fault == "short" else data
            self._library.written += len(part)
            return os.pwrite(self._descriptor, part, file_offset)

        return self._library.submit(work)

    def pread(self, buffer: Any, *, file_offset: int) -> Any:
        if self._library.fault == "call":
            raise RuntimeError("libcuda.so.1: cannot open shared object file")

        def work() -> int:
            if self._library.fault == "error":
                raise RuntimeError("an error of its own")
            data = os.pread(self._descriptor, buffer.size // (2 if self._library.fault == "short" else 1), file_offset)
            buffer[: len(data)] = np.frombuffer(data, np.uint8)
            self._library.read += len(data)
            return len(data)

        return self._library.submit(work)

    def close(self) -> None:
        os.close(self._descriptor)
        self._library.opened -= 1


@pytest.fixture(params=["", "open", "call", "error", "short"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKvikIO]:
    fake = FakeKvikIO(request.param)
    monkeypatch.setattr(disk, "kvikio", lambda: fake)
    monkeypatch.setattr(disk, "LARGE", 4096)
    yield fake
    assert fake.opened == 0, "files are closed"


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"n": rng.integers(0, 2**60, 9_000), "f": rng.random(5), "s": "x"} | {"f": rng.random(9_000)})


def test_round_trip(library: FakeKvikIO, tmp_path: Path) -> None:
    data = frame()
    plain = data.fsst.compress()
    plain.save(tmp_path / "parallel.fsst")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "parallel.fsst").decompress(), data)
    if not library.fault:
        assert library.written > 100_000
        assert library.read > 100_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "kvikio", lambda: None)
        plain.save(tmp_path / "plain.fsst")
    assert (tmp_path / "plain.fsst").read_bytes() == (tmp_path / "parallel.fsst").read_bytes()


def test_damage_is_named(library: FakeKvikIO, tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    frame().fsst.compress().save(path)
    content = path.read_bytes()
    path.write_bytes(content[:-5000])
    with pytest.raises(ValueError, match=r"frame\.fsst: "):
        cudf_fsst.load(path)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        cudf_fsst.load(path)


def test_a_full_disk_leaves_nothing(library: FakeKvikIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        frame().fsst.compress().save(tmp_path / "frame.fsst")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_imported_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kvikio", None)
    disk.kvikio.cache_clear()
    assert disk.kvikio() is None
    disk.kvikio.cache_clear()


# On a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_kvikio_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame from GPU memory, which has a buffer that is large enough, to a file and back."""
    kvikio = pytest.importorskip("kvikio", reason="no KvikIO here")  # one that is there and broken fails
    import cudf

    moved = {"pwrite": 0, "pread": 0}

    class CountingFile(kvikio.CuFile):
        """Count what has arrived."""

        def pwrite(self, *args: Any, **kwargs: Any) -> Any:
            return counted("pwrite", super().pwrite(*args, **kwargs))

        def pread(self, *args: Any, **kwargs: Any) -> Any:
            return counted("pread", super().pread(*args, **kwargs))

    def counted(kind: str, future: Any) -> Any:
        def get() -> int:
            nbytes = future.get()
            moved[kind] += nbytes
            return int(nbytes)

        return SimpleNamespace(get=get)

    monkeypatch.setattr(kvikio, "CuFile", CountingFile)
    disk.kvikio.cache_clear()
    rows = disk.LARGE // 8 + 1000
    rng = np.random.default_rng(1)
    words = pd.Series(["one", None, "three"] * (rows // 3)).reindex(range(rows))
    data = cudf.from_pandas(pd.DataFrame({"noise": rng.integers(0, 2**63, rows), "n": np.arange(rows), "s": words}))
    compressed = data.fsst.compress()
    compressed.save(tmp_path / "parallel.fsst")
    found = cudf_fsst.load(tmp_path / "parallel.fsst").to_cudf()
    assert found.to_arrow().equals(data.to_arrow())
    assert moved["pwrite"] == moved["pread"] >= 8 * rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "kvikio", lambda: None)
        compressed.save(tmp_path / "plain.fsst")
    assert (tmp_path / "plain.fsst").read_bytes() == (tmp_path / "parallel.fsst").read_bytes()
