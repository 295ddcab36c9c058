"""Parts between an emulated GPU and the host: small buffers travel together, large ones by themselves."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.codecs import host
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.interop import arrow_columns
from cudf_fsst.interop import cudf as interop_cudf
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, emulated, failing_every_allocation
from emulation.emulator import Emulator

__all__ = ["emulator"]

SMALL, TOGETHER = 700, 4000
#: Bytes of ``meta`` and ``codes``; at most SMALL of each travel with others.
SIZES = [(16, 700), (0, 300), (701, 5), (1, 5000), (700, 700), (33, 0), (640, 640), (700, 700), (256, 257), (3, 4)]


@pytest.fixture(params=ORDERS)
def device(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[FakeDevice]:
    made = FakeDevice(emulator, order=request.param)
    with emulated(made, "raw"):
        yield made


@pytest.fixture
def transfer(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = sys.modules["cudf_fsst.device.transfer"]
    monkeypatch.setattr(module, "SMALL", SMALL)
    monkeypatch.setattr(module, "TOGETHER", TOGETHER)
    monkeypatch.setattr(module, "_PER_BLOCK", 256)
    return module


def parts(sizes: list[tuple[int, int]]) -> list[Packed]:
    """In pageable memory, with random bytes, some of them not contiguous, none of them aligned."""
    rng = np.random.default_rng(len(sizes))

    def array(nbytes: int) -> Any:
        step = int(rng.integers(1, 3))
        return rng.integers(0, 256, step * nbytes + 1, np.uint8)[1 : 1 + step * nbytes : step]

    return [Packed("raw", 1, 1, (), array(meta), array(codes), meta, codes) for meta, codes in sizes]


def buffers(some: list[Any]) -> list[Any]:
    return [buffer for part in some for buffer in (part.meta, part.codes)]


def same(found: list[Packed], wanted: list[Packed]) -> None:
    for one, other in zip(buffers(found), buffers(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def test_there_and_back(transfer: Any, device: FakeDevice) -> None:
    wanted = parts(SIZES)
    there = transfer.to_device(wanted)
    assert [buffer.size for buffer in buffers(there)] == [array.size for array in buffers(wanted)]
    assert all(buffer.ptr % 256 == 0 for buffer in buffers(there) if buffer.size)
    for one, array in zip(buffers(there), buffers(wanted), strict=True):
        assert device.emulator.read(one.ptr, one.size) == array.tobytes() if one.size else True
    device.launches.clear()
    host = transfer.to_host(there)
    same(host, wanted)
    groups = Counter(id(buffer.base) for buffer in buffers(host) if 0 < buffer.size <= SMALL)
    assert device.launches == ["gather_buffers"] * sum(count > 1 for count in groups.values())
    assert 1 < len(groups) < len(SIZES) / 2


def test_each_is_there_when_it_was_waited_for(transfer: Any, device: FakeDevice) -> None:
    wanted = parts(SIZES)
    there = transfer.to_device(wanted)
    for backwards in (False, True):
        with transfer.Lane() as lane, transfer.Outbox() as outbox:
            host = outbox.send_in_order(there, lane)
            sent = list(zip(buffers(host), buffers(wanted), strict=True))
            # Of an array that is gone nothing is known: another one may have its id, and not be there yet.
            assert set(outbox._copied) == {id(array) for array in buffers(host)}
            for one, other in sent[::-1] if backwards else sent:
                outbox.wait(one)
                np.testing.assert_array_equal(one, other)


def test_all_are_there_when_something_else_was_waited_for(transfer: Any, device: FakeDevice) -> None:
    """As a copy of what was sent, which has another id."""
    wanted = parts(SIZES)
    there = transfer.to_device(wanted)
    with transfer.Lane() as lane, transfer.Outbox() as outbox:
        host = outbox.send_in_order(there, lane)
        outbox.wait(np.array(host[-1].codes))
        same(host, wanted)


def test_what_came_out_together_goes_back_in_one_copy(
    transfer: Any, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = parts([(100, 200), (300, 0), (64, 5000)])
    host = transfer.to_host(transfer.to_device(wanted))
    copies: list[int] = []
    upload = transfer.Lane.upload

    def counted(lane: Any, address: int, array: Any) -> None:
        copies.append(array.nbytes)
        upload(lane, address, array)

    monkeypatch.setattr(transfer.Lane, "upload", counted)
    monkeypatch.setattr(transfer, "host_buffer", None)  # nothing is staged
    device.allocations.clear()
    there = transfer.to_device(host)
    assert copies == [3 * 256 + 256 + 64, 5000]
    assert sorted(device.allocations) == [0, 3 * 256 + 256 + 64, 5000]
    copies.clear()
    backwards = transfer.to_device(host[::-1])
    assert copies == [3 * 256 + 256 + 64, 5000]
    monkeypatch.undo()
    monkeypatch.setattr(transfer, "SMALL", SMALL)
    same(transfer.to_host(there), wanted)
    same(transfer.to_host(backwards), wanted[::-1])
    # Some of them, and one twice, lie otherwise.
    some = [host[2], host[0]]
    same(transfer.to_host(transfer.to_device(some)), [wanted[2], wanted[0]])
    same(transfer.to_host(transfer.to_device([*host, host[1]])), [*wanted, wanted[1]])


def test_memory_lives_as_long_as_one_of_them(transfer: Any, device: FakeDevice) -> None:
    before = set(device.live)
    there = transfer.to_device(parts([(10, 20), (30, 40)]))
    last = there[1].codes
    assert len(device.live - before) == 1
    del there
    gc.collect()
    assert len(device.live - before) == 1
    assert last.nbytes == last.__cuda_array_interface__["shape"][0] == 40
    device.emulator.read(last.ptr, last.size)
    del last
    gc.collect()
    assert device.live == before


def test_one_small_buffer_travels_alone(transfer: Any, device: FakeDevice) -> None:
    wanted = parts([(0, 10), (0, 5000)])
    there = transfer.to_device(wanted)
    device.launches.clear()
    device.allocations.clear()
    same(transfer.to_host(there), wanted)
    assert device.launches == device.allocations == []


def test_a_full_gpu_can_be_left(transfer: Any, device: FakeDevice) -> None:
    """What is gathered needs memory; without any, everything is copied by itself."""
    wanted = parts(SIZES)
    there = transfer.to_device(wanted)
    device.allocations.clear()
    device.fail_at = 1
    device.launches.clear()
    host = transfer.to_host(there)
    same(host, wanted)
    assert device.launches == ["gather_buffers"] * (len(device.allocations) - 1)


def test_out_of_memory_on_the_way_in(transfer: Any, device: FakeDevice) -> None:
    host = parts(SIZES)
    failing_every_allocation(device, lambda: transfer.to_device(host))


def test_what_is_sent_is_let_go_of_when_it_has_been_copied(transfer: Any, device: FakeDevice) -> None:
    """What was gathered, too; one parcel is collected still."""
    memory: Any = sys.modules["cudf_fsst.device.memory"]
    with memory.Lane() as lane, transfer.Outbox() as outbox:
        for _ in range(5):
            outbox.send_parts(transfer.to_device(parts([(SMALL, SMALL)] * 3)), lane)
            outbox._lane.synchronize()
        gc.collect()
        assert 0 < len(device.live) <= 5  # of 12 and more
    gc.collect()
    assert not device.live


def test_small_buffers_sent_one_by_one_travel_together(transfer: Any, device: FakeDevice) -> None:
    """From several streams; and whoever looks at sizes sees what is taken, not what could have been."""
    memory: Any = sys.modules["cudf_fsst.device.memory"]
    pinned: Any = sys.modules["cudf_fsst.device.pinned"]
    wanted = parts([(10, 20), (30, 5000), (256, 0)])
    there = buffers(transfer.to_device(wanted))
    device.launches.clear()
    with transfer.Outbox() as outbox:
        sent = []
        for number, buffer in enumerate(there):
            with memory.Lane(device.stream() if number % 2 else None) as lane:
                sent.append(outbox.send(buffer, lane))
    assert device.launches == ["gather_buffers"]
    for one, array in zip(sent, buffers(wanted), strict=True):
        np.testing.assert_array_equal(one, array)
    assert pinned.pinned_nbytes() == 4 * 256 + 5120
    del sent, one
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_nothing_is_sent_after_an_error(transfer: Any, device: FakeDevice) -> None:
    memory: Any = sys.modules["cudf_fsst.device.memory"]
    there = transfer.to_device(parts([(10, 20)]))
    before = set(device.live)
    with pytest.raises(KeyError), memory.Lane() as lane, transfer.Outbox() as outbox:  # noqa: PT012
        outbox.send_parts(there, lane)
        raise KeyError("the caller's own")
    assert device.launches == []
    gc.collect()
    assert device.live == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("limit", [0, 1000, TOGETHER + 95, 10_000])
def test_past_the_pinned_limit(limit: int, transfer: Any) -> None:
    pinned: Any = sys.modules["cudf_fsst.device.pinned"]
    wanted = parts(SIZES)
    there = transfer.to_device(wanted)
    pinned.set_pinned_limit(limit)
    host = transfer.to_host(there)
    assert pinned.pinned_nbytes() <= limit
    same(host, wanted)
    same(transfer.to_host(transfer.to_device(host)), wanted)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("group", [1, 3000, 1 << 24])
def test_columns_arrive_in_groups(group: int, transfer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are let go of when they are decompressed."""
    from cudf_fsst.backend import device as backend

    read: Any = sys.modules["cudf_fsst.codecs.device_read"]
    monkeypatch.setattr(read, "_BATCH_NBYTES", group)
    memory: Any = sys.modules["cudf_fsst.device.memory"]
    rng = np.random.default_rng(0)
    wanted = [rng.integers(0, 256, 900 if number % 3 else 300).astype("u4") for number in range(9)]
    nodes = host.compress([ColumnTask(arrow_columns.describe(pa.array(values)), "raw") for values in wanted])
    groups: list[int] = []
    real = read.read

    def counted(some: Any, **options: Any) -> Any:
        groups.append(len(some))
        return real(some, **options)

    monkeypatch.setattr(read, "read", counted)
    receiver: Any = object.__new__(backend.DeviceBackend)
    receiver.device = "cuda:0"
    monkeypatch.setattr(interop_cudf, "on_device", lambda _device: nullcontext())
    made = receiver.receive(nodes)
    assert groups == {1: [1] * 9, 3000: [2, 1] * 3, 1 << 24: [9]}[group]
    for column, values in zip(made, wanted, strict=True):
        with memory.Lane() as lane:
            np.testing.assert_array_equal(lane.read(column.values, values.size, "u4"), values)


def test_small_pinned_arrays_share_areas(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    memory: Any = sys.modules["cudf_fsst.device.memory"]
    monkeypatch.setattr(memory, "_AREA", 4096)
    before = len(device._pinned)
    held = [memory.pinned(count, np.int64) for count in (1, 9, 0, 100, 3, 127, 128, 100, 100, 100, 100, 5)]
    for number, one in enumerate(held):
        one[:] = number
    assert [set(one.tolist()) for one in held] == [{number} if one.size else set() for number, one in enumerate(held)]
    assert all(one.ctypes.data % 8 == 0 for one in held)
    assert len(device._pinned) - before == 3  # one that is large, and two areas
    last = held[1]
    del held, one
    memory.pinned(100, np.int64)
    gc.collect()
    assert len(device._pinned) - before == 2
    assert set(last) == {1}

    def elsewhere() -> None:
        memory.pinned(1, np.int64)[:] = 99

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert set(last) == {1}
