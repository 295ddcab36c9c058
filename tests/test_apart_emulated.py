"""Work apart from cuDF's default stream: the same bytes, whatever runs first, and memory that nobody takes early."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.codecs import host
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, emulated
from emulation.emulator import Emulator
from values_gpu import Gpu

__all__ = ["emulator"]


@pytest.fixture(params=ORDERS)
def device(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[FakeDevice]:
    made = FakeDevice(emulator, order=request.param)
    with emulated(made, "raw"):
        yield made


def module(name: str) -> Any:
    return sys.modules[f"cudf_fsst.{name}"]


def test_memory_is_given_back_behind_what_used_it(device: FakeDevice) -> None:
    """The default stream reads, later than anyone expects, a buffer that was made apart, and is dropped at once."""
    memory = module("device.memory")
    values = np.arange(1000, dtype=np.uint8)
    with memory.Apart() as apart:
        with apart.work(beside=True), memory.Lane() as lane:
            made = lane.allocate(values.nbytes)
            lane.upload(made.ptr, values)
            del lane
        kept = apart.keep(made)
        del made
    lane = memory.Lane()
    copy = lane.allocate(values.nbytes)
    lane.copy(copy.ptr, kept.ptr, kept.size)
    del kept
    with memory.Apart() as apart, apart.work(beside=True), memory.Lane() as other:
        other.allocate(values.nbytes)
    found = memory.pinned(values.size, np.uint8)
    lane.download(found, copy.ptr)
    lane.synchronize()
    np.testing.assert_array_equal(found, values)


def test_small_pinned_arrays_share_an_area(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each where no other is, the first of a thread without values, too."""
    memory = module("device.memory")
    monkeypatch.setattr(memory, "_AREA", 4096)
    values = np.arange(400, dtype=np.uint64)
    lane = memory.Lane()
    there = lane.allocate(values.nbytes)
    lane.upload(there.ptr, values)
    counts = [0, 1, 0, 100, 3, 120, 120, 120, 120, 0, 400]
    found = [lane.fetch(there.ptr, count, np.uint64) for count in counts]
    lane.synchronize()
    for one, count in zip(found, counts, strict=True):
        np.testing.assert_array_equal(one, values[:count])
    places = sorted((one.ctypes.data, one.nbytes) for one in found if one.size)
    assert all(begin + nbytes <= following for (begin, nbytes), (following, _) in pairwise(places))


@pytest.mark.parametrize("beside", [True, False])
def test_the_default_stream_has_no_part_in_it(device: FakeDevice, beside: bool) -> None:
    memory = module("device.memory")
    enqueued = device.default._enqueued
    with memory.Apart() as apart:
        with apart.work(beside=beside), memory.Lane() as lane:
            buffer = lane.allocate(100)
            lane.zero(buffer.ptr, 100)
            lane.synchronize()
            assert memory.Lane().default is not device.default
        assert (device.default._enqueued == enqueued) == beside
        del buffer
    assert memory.Lane().default is device.default


def test_columns_are_compressed_apart(device: FakeDevice) -> None:
    rng = np.random.default_rng(2)
    columns = [
        pa.array(rng.integers(0, 1000, 3000), mask=rng.random(3000) < 0.1),
        pa.array([f"some text, number {i % 321}" for i in range(3000)]),
        pa.array(rng.random(3000)),
    ]
    wanted = host.compress([ColumnTask(arrow_columns.describe(column)) for column in columns])
    memory, codecs = module("device.memory"), module("codecs.device")
    gpu = Gpu(device)
    there = [ColumnTask(gpu.upload(arrow_columns.describe(column))) for column in columns]
    with memory.Apart() as apart:
        with apart.work(beside=True), memory.Lane() as lane:
            nodes = codecs.compress(there, lane=lane)
        with_buffers = module("device.transfer").with_buffers
        nodes = [
            node.with_parts(with_buffers(part, apart.keep(part.meta), apart.keep(part.codes)) for part in node.parts)
            for node in nodes
        ]
    parts = [part for node in nodes for part in node.parts]
    for one, other in zip(module("device.transfer").to_host(parts), (p for n in wanted for p in n.parts), strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)
        np.testing.assert_array_equal(one.meta, other.meta)
