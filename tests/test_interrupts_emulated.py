"""Interrupts of calls on an emulated GPU: nothing is used after it was freed, and the next call is right."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cudf_fsst
from cudf_fsst.codecs import host
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text import search
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator
from values_gpu import Gpu

__all__ = ["emulator"]

PACKAGE = str(Path(cudf_fsst.__file__).parent)
ROWS = 300


@pytest.fixture
def device(emulator: Emulator) -> Iterator[FakeDevice]:
    """Memory is freed as early as it can be, and other streams run as late."""
    made = FakeDevice(emulator, order="default first")
    with emulated(made, "raw"):
        yield made


def module(name: str) -> Any:
    return sys.modules[f"cudf_fsst.{name}"]


def interrupting(at: int) -> tuple[list[int], Callable[[Any, str, Any], None]]:
    """Raise an interrupt where a function of the package begins or what it called returns; and a count of these."""
    seen = [0]

    def profile(frame: Any, event: str, _: Any) -> None:
        of = frame if event in ("call", "c_return") else frame.f_back if event == "return" else None
        # Python prints what is raised in __del__, and goes on.
        if of is not None and of.f_code.co_filename.startswith(PACKAGE) and of.f_code.co_name != "__del__":
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt

    return seen, profile


def interrupted(operation: Callable[[], Any], at: int) -> int:
    """How many steps the operation had, or took until it was interrupted."""
    seen, profile = interrupting(at)
    gc.disable()  # Python prints what is raised in a callback of a collection (hypothesis has one), and goes on
    sys.setprofile(profile)
    try:
        operation()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen[0]


def operations(device: FakeDevice) -> dict[str, Callable[[], Any]]:
    """Each checks what it gives."""
    rng = np.random.default_rng(2)
    columns = [
        pa.array(rng.integers(0, 1000, ROWS), mask=rng.random(ROWS) < 0.1),
        pa.array([f"some text, number {i * 7919 % 321}" for i in range(ROWS)]),
        pa.array(rng.integers(0, 80, ROWS) / 8),
    ]
    wanted = host.compress([ColumnTask(arrow_columns.describe(column)) for column in columns])
    memory, codecs, transfer = module("device.memory"), module("codecs.device"), module("device.transfer")
    gpu = Gpu(device)
    plain = [ColumnTask(gpu.upload(arrow_columns.describe(column))) for column in columns]
    parts = [part for node in wanted for part in node.parts]
    stream = device.stream()

    def same(nodes: Any) -> None:
        found = transfer.to_host([part for node in nodes for part in node.parts])
        for one, other in zip(found, parts, strict=True):
            np.testing.assert_array_equal(one.codes, other.codes)
            np.testing.assert_array_equal(one.meta, other.meta)

    def compress(stream: Any = None) -> None:
        with memory.Lane(stream) as lane:
            nodes = codecs.compress(plain, lane=lane)
        same(nodes)

    def to_host() -> None:
        with memory.Lane() as lane, transfer.Outbox() as outbox:
            nodes = codecs.compress(plain, lane=lane, outbox=outbox)
        for node, other in zip(nodes, wanted, strict=True):
            for one, part in zip(node.parts, other.parts, strict=True):
                np.testing.assert_array_equal(one.codes, part.codes)

    def apart() -> None:
        with memory.Apart() as apart:
            with apart.work(beside=True), memory.Lane() as lane:
                nodes = codecs.compress(plain, lane=lane)
            kept = [
                node.with_parts(
                    transfer.with_buffers(part, apart.keep(part.meta), apart.keep(part.codes)) for part in node.parts
                )
                for node in nodes
            ]
            del nodes
        same(kept)

    def there() -> list[Any]:
        moved = iter(transfer.to_device(parts))
        return [node.with_parts(next(moved) for _ in node.parts) for node in wanted]

    nodes = there()  # as a column has them

    def read(stream: Any = None) -> None:
        with memory.Lane(stream) as lane:
            found = codecs.read(nodes, lane=lane)
        lane.synchronize()
        assert [one.rows for one in found] == [ROWS] * 3

    rows = rng.integers(0, ROWS, 50)

    def take() -> None:
        with memory.Lane() as lane:
            found = codecs.take(nodes, rows, lane=lane)
        assert [one.rows for one in found] == [50] * 3

    def match() -> None:
        plan = search.plan(search.Like((b"", b"77", b"")))
        (node,) = [node for node in nodes if pa.types.is_string(node.type)]
        with memory.Lane() as lane:
            found, exact = codecs.match(node, plan, lane=lane)
        assert exact
        lane.synchronize()
        answers = np.frombuffer(bytes(device.emulator.read(found.ptr, ROWS)), np.bool_)
        assert answers.tolist() == ["77" in value for value in columns[1].to_pylist()]

    return {
        "match": match,
        "compress": compress,
        "compress in a stream": lambda: compress(stream),
        "compress to the host": to_host,
        "compress apart": apart,
        "there and back": lambda: same(there()),
        "read": read,
        "read in a stream": lambda: read(stream),
        "take": take,
    }


NAMES = [
    "compress",
    "compress in a stream",
    "compress to the host",
    "compress apart",
    "there and back",
    "read",
    "read in a stream",
    "take",
    "match",
]


@pytest.mark.trains  # what stands for the kernels elsewhere is interrupted itself
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_interrupted(device: FakeDevice, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # an interrupt while a generator is closed is lost
    operation = operations(device)[name]
    operation()
    gc.collect()
    steps, before = interrupted(operation, 0), set(device.live)
    rng = np.random.default_rng(len(name))
    met, count = 0, 6 if name.startswith("compress") else 60
    for number, at in enumerate(rng.integers(1, steps, count)):
        met += interrupted(operation, int(at)) >= at  # there are fewer steps where something is kept
        gc.collect()
        device._synchronize()  # what still runs does so now: in memory that is there
        assert device.live <= before, f"step {at}"
        assert module("device.memory").default_stream()[0] is device.default
        assert module("device.pinned").pinned_nbytes() == 0
        if number % 6 == 5:
            operation()
            gc.collect()
    assert met > count / 2
