"""Stand-ins for cuDF data and its compressed form, which count the memory they take and fail when told to."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst.interop import cudf as interop_cudf
from cudf_fsst.spill import held

#: How much smaller data is compressed.
RATIO = 4


class World:
    """Memory in use by place, operations in the order in which they were done, and the one that fails."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used: Counter[str] = Counter()
        self.done: list[str] = []
        self.failing: int | None = None
        self.error: Callable[[], BaseException] = MemoryError
        # Every thread has a default stream of its own: how much it was asked to do, and how much is done for sure.
        self.asked: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()

    def hand_over(self) -> None:
        """Wait for the stream of this thread."""
        thread = threading.get_ident()
        self.ended[thread] = self.asked[thread]

    def fail(self, position: int | None, error: Callable[[], BaseException] = MemoryError) -> None:
        """Let the operation at this position from now on fail; None: none."""
        self.done.clear()
        self.failing = position
        self.error = error

    def do(self, kind: str) -> None:
        with self.lock:
            self.done.append(kind)
            if self.failing == len(self.done) - 1:
                raise self.error()

    def take(self, place: str, nbytes: int) -> None:
        with self.lock:
            self.used[place] += nbytes


class _Memory:
    """Bytes somewhere, until nobody holds them."""

    def __init__(self, world: World, place: str, nbytes: int) -> None:
        self.world, self.place, self.nbytes = world, place, nbytes
        self.maker = threading.get_ident()
        world.asked[self.maker] += place != "cpu"
        self.number = world.asked[self.maker]
        world.take(place, nbytes)

    def use(self) -> None:
        """In this thread's stream, which is behind another's work only when that has been waited for."""
        if self.place != "cpu" and self.maker != threading.get_ident():
            assert self.number <= self.world.ended[self.maker], "another thread may still be writing it"

    def __del__(self) -> None:
        self.world.take(self.place, -self.nbytes)


class FakeSeries:
    """A cuDF Series of `nbytes`; equal if its payload is."""

    index = range(0)

    def __init__(self, world: World, payload: str, nbytes: int, memory: _Memory | None = None) -> None:
        self.world, self.payload, self.nbytes = world, payload, nbytes
        self.memory = memory or _Memory(world, "cuda:0", nbytes)

    def copy(self, *, deep: bool) -> FakeSeries:
        assert not deep
        return FakeSeries(self.world, self.payload, self.nbytes, self.memory)

    def memory_usage(self, *, deep: bool = False) -> int:
        assert not deep  # cuDF warns that it ignores it
        return self.nbytes

    @property
    def fsst(self) -> FakeSeries:
        return self

    def compress(self) -> FakePacked:
        self.memory.use()
        self.world.do("compress")
        size = self.nbytes if self.payload.startswith("random") else self.nbytes // RATIO
        return FakePacked(self.world, self.payload, self.nbytes, size, "cuda:0")


FakeSeries.__module__ = "cudf.fake"


class FakePacked:
    """A compressed column."""

    def __init__(self, world: World, payload: str, plain_nbytes: int, nbytes: int, device: str) -> None:
        self.world, self.payload, self.plain_nbytes = world, payload, plain_nbytes
        self.nbytes, self.device = nbytes, device
        self.memory = _Memory(world, device, nbytes)

    def _at(self, device: str) -> FakePacked:
        return FakePacked(self.world, self.payload, self.plain_nbytes, self.nbytes, device)

    def to_host(self) -> FakePacked:
        self.memory.use()
        self.world.do("to_host")
        return self._at("cpu")

    def to_device(self) -> FakePacked:
        self.memory.use()
        self.world.do("to_device")
        return self._at("cuda:0")

    def decompress(self) -> FakeSeries:
        self.memory.use()
        self.world.do("decompress")
        return FakeSeries(self.world, self.payload, self.plain_nbytes)

    def save(self, path: str) -> None:
        Path(path).write_text(json.dumps([self.payload, self.plain_nbytes, self.nbytes]))
        self.world.do("save")  # after writing: a mover must not rely on a failed save's leaving nothing

    @classmethod
    def load(cls, world: World, path: str) -> FakePacked:
        world.do("load")
        try:
            return cls(world, *json.loads(Path(path).read_text()), "cpu")
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: {error}") from error


def install(monkeypatch: pytest.MonkeyPatch) -> World:
    """Make the stand-ins' GPU the current one."""
    made = World()
    real_load = held.load

    def load(path: str) -> Any:
        with open(path, "rb") as file:
            return real_load(path) if file.read(4) == b"\x89FST" else FakePacked.load(made, path)

    monkeypatch.setattr(held, "load", load)
    monkeypatch.setattr(interop_cudf, "current_device", lambda: "cuda:0")
    monkeypatch.setattr(interop_cudf, "on_device", lambda device: nullcontext())
    monkeypatch.setattr(interop_cudf, "hand_over", made.hand_over)
    return made


def files_under(folder: Path) -> list[str]:
    """Names of all files below a folder, but for the locks of pools."""
    return sorted(name for _, _, names in os.walk(folder) for name in names if name != "lock")
