"""Generators that wait together, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pytest

from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator

__all__ = ["emulator"]


class FakeLane:
    """One that notes what happens."""

    def __init__(self, done: list[str], failing: bool = False) -> None:
        self.done, self.failing, self.stream = done, failing, self

    def synchronize(self) -> None:
        self.done.append("wait")
        if self.failing:
            raise RuntimeError("the GPU is gone")


@pytest.fixture
def waits(emulator: Emulator) -> Iterator[Any]:
    with emulated(FakeDevice(emulator), "values"):
        yield sys.modules["cudf_fsst.device.waits"]


@pytest.fixture
def run(waits: Any) -> Any:
    return waits.run


@pytest.fixture
def together(waits: Any) -> Any:
    return waits.together


def steps(name: str, count: int, done: list[str], error: BaseException | None = None) -> Generator[None, None, str]:
    try:
        for number in range(count):
            done.append(f"{name}{number}")
            yield
        if error is not None:
            raise error
    finally:
        done.append(f"{name} ends")
    return name


def test_one_wait_for_all(run: Any) -> None:
    done: list[str] = []
    made = run(FakeLane(done), steps("a", 2, done), steps("b", 0, done), steps("c", 1, done))
    assert made == ["a", "b", "c"]
    assert done == ["a0", "b ends", "c0", "wait", "a1", "c ends", "wait", "a ends"]


def test_nothing_to_wait_for(run: Any) -> None:
    done: list[str] = []
    assert run(FakeLane(done)) == []
    assert run(FakeLane(done), steps("a", 0, done)) == ["a"]
    assert done == ["a ends"]


def test_an_error_closes_the_others(run: Any) -> None:
    """After what they have under way has ended."""
    done: list[str] = []
    with pytest.raises(MemoryError, match="b is too large"):
        run(
            FakeLane(done), steps("a", 2, done), steps("b", 1, done, MemoryError("b is too large")), steps("c", 2, done)
        )
    assert done == ["a0", "b0", "c0", "wait", "a1", "b ends", "wait", "a ends", "c ends"]


def test_a_failing_wait(run: Any) -> None:
    done: list[str] = []
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        run(FakeLane(done, failing=True), steps("a", 1, done), steps("b", 1, done))
    assert done[-2:] == ["a ends", "b ends"]


def test_steps_within_steps(run: Any, together: Any) -> None:
    """Share the waits of the others."""
    done: list[str] = []
    made = run(FakeLane(done), steps("a", 1, done), together(steps("b", 2, done), steps("c", 1, done)))
    assert made == ["a", ["b", "c"]]
    assert done == ["a0", "b0", "c0", "wait", "a ends", "b1", "c ends", "wait", "b ends"]


def test_an_error_within_steps(run: Any, together: Any) -> None:
    """Closes those beside it after one more wait."""
    done: list[str] = []
    with pytest.raises(MemoryError, match="c is too large"):
        run(FakeLane(done), together(steps("b", 3, done), steps("c", 1, done, MemoryError("c is too large"))))
    assert done == ["b0", "c0", "wait", "b1", "c ends", "wait", "b ends", "wait"]


def test_steps_within_steps_are_closed(run: Any, together: Any) -> None:
    done: list[str] = []
    with pytest.raises(MemoryError, match="a is too large"):
        run(FakeLane(done), steps("a", 1, done, MemoryError("a is too large")), together(steps("b", 3, done)))
    assert done == ["a0", "b0", "wait", "a ends", "wait", "b ends"]


def test_what_the_host_does_meanwhile(emulator: Emulator) -> None:
    """Once, before the first wait."""
    device, done = FakeDevice(emulator), list[int]()
    with emulated(device, "values"), sys.modules["cudf_fsst.device.memory"].Lane() as lane:
        buffer = lane.allocate(8)
        lane.zero(buffer.ptr, 8)
        lane.meanwhile = lambda: done.append(device.waits)
        assert lane.read(buffer.ptr, 1, np.uint64).tolist() == [0]
        lane.synchronize()
        del buffer
    assert done == [0]
    assert device.waits >= 2
