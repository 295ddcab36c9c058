"""Many columns compressed in one call, on an emulated GPU: in as few waits and launches as one of each kind."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.codecs import host as on_host
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.bitpack import launch as bitpack
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.values import plan
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from values_gpu import OPTIONS, Gpu, gpu, on_device, same_nodes

__all__ = ["emulator", "gpu"]


def some_columns(rows: int, rng: np.random.Generator, *, texts: bool) -> dict[str, Any]:
    """16 of the types of TPC-H's lineitem, with nulls and wide ones; and strings, if `texts`."""
    mask = rng.random(rows) < 0.1
    keys, prices = np.cumsum(rng.integers(0, 3, rows)), rng.integers(100, 10**6, rows)
    return {
        **{f"key {i}": pa.array(keys * (i + 1)) for i in range(3)},
        **{f"price {i}": pa.array(prices + i).cast(pa.decimal128(22, 2)) for i in range(2)},
        **{f"some price {i}": pa.array(prices + i, mask=mask) for i in range(2)},
        **{f"number {i}": pa.array((prices % (7 + i)).astype("i4")) for i in range(2)},
        **{f"date {i}": pa.array((keys % 2000 + i).astype("i4")).cast(pa.date32()) for i in range(3)},
        **{f"float {i}": pa.array(np.cumsum(rng.random(rows)), mask=mask if i else None) for i in range(2)},
        **{f"flag {i}": pa.array(rng.random(rows) < 0.5, mask=mask) for i in range(2)},
        **{f"text {i}": pa.array([f"{x} of {i}" for x in prices.tolist()], mask=mask) for i in range(2 * texts)},
    }


def test_small_buffers_share_memory(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a frame's parts, up to a size, in groups of a limited size; the bytes are the host's."""
    columns = [arrow_columns.describe(array) for array in some_columns(3000, rng, texts=True).values()]
    uploaded = [ColumnTask(gpu.upload(column)) for column in columns]
    wanted = [on_host.HostCompressor(None, OPTIONS).node(column) for column in columns]
    taken = []
    for small, together in ((0, 4096), (2000, 4096), (1 << 20, 1 << 20)):
        monkeypatch.setattr(gpu.memory, "SMALL", small)
        monkeypatch.setattr(gpu.memory, "TOGETHER", together)
        gpu.device.allocations.clear()
        with gpu.memory.Lane() as lane:
            nodes = on_device().compress(uploaded, lane=lane)
        taken.append(len(gpu.device.allocations))
        with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
            hosts = [node.with_parts(iter(outbox.send_parts(list(node.parts), lane))) for node in nodes]
        buffers = [buffer for node in nodes for part in node.parts for buffer in (part.meta, part.codes)]
        assert all(buffer.ptr % 256 == 0 for buffer in buffers if buffer.size)
        for host, other in zip(hosts, wanted, strict=True):
            same_nodes(host, other)
    assert taken[0] > taken[1] > taken[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_launches_and_waits_of_a_frame(
    sampled: bool, texts: bool, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many for one column of each kind as for several."""
    if sampled:
        monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
        monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    columns = {name: arrow_columns.describe(array) for name, array in some_columns(3000, rng, texts=texts).items()}
    assert len(columns) == 16 + 2 * texts
    costs = []
    for names in ([name for name in columns if not name.endswith("1")], list(columns)):
        some = [columns[name] for name in names]
        uploaded = [ColumnTask(gpu.upload(column)) for column in some]
        gpu.device.launches.clear()
        waits_before = gpu.device.waits
        with gpu.memory.Lane() as lane:
            nodes = on_device().compress(uploaded, lane=lane)
        costs.append((gpu.device.waits - waits_before, len(gpu.device.launches)))
        with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
            hosts = [node.with_parts(iter(outbox.send_parts(list(node.parts), lane))) for node in nodes]
        for host, column in zip(hosts, some, strict=True):
            same_nodes(host, on_host.HostCompressor(None, OPTIONS).node(column))
    waited, launched = costs[1]
    # A column of strings without a sample beside it takes a wait more: its rows are packed while its table is trained.
    assert costs[0] == (waited + (texts and not sampled), launched)
    assert waited == (2 if sampled else 1)
    # What is not in place is gathered; divisors are looked for; bitpack of 1, 4 and 8 bytes, with and without one,
    # and gfc of 8 are measured, summed up and packed. With a sample all but packing is done twice.
    assert launched <= (19, 31)[sampled] + 10 * texts


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("codec", [None, *(one.NAME for one in registry.values())])
def test_the_room_is_used_again(
    codec: str | None, order: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are gathered, in a room that takes neither all streams nor one of them; pieces of two rooms."""
    gpu.device.order = order
    monkeypatch.setattr(sys.modules["cudf_fsst.codecs.values.cuda_batch"], "_ROOM_NBYTES", 20_000)
    monkeypatch.setattr(plan, "PART_NBYTES", 40_960)
    monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
    monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    rows = 6000
    mask = rng.random(rows) < 0.2
    prices = rng.integers(-(10**6), 10**6, rows)
    columns = [
        arrow_columns.describe(array)
        for array in (
            pa.array(prices, mask=mask),
            pa.array(prices).cast(pa.decimal128(22, 2)),
            pa.array(np.cumsum(rng.random(rows)).astype("f4"), mask=mask)[5:],
            pa.array(np.cumsum(rng.random(rows))),
            pa.array(rng.integers(0, 2**62, rows), mask=mask),
        )
    ]
    wanted = [ColumnTask(gpu.upload(column), codec) for column in columns]
    with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
        nodes = on_device().compress(wanted, lane=lane, outbox=outbox)
    for node, column in zip(nodes, columns, strict=True):
        same_nodes(node, on_host.HostCompressor(codec, OPTIONS).node(column))


@pytest.mark.parametrize("rows", [9000, 20_000, 60_000])
def test_divisors_of_gathered_values(
    rows: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are in several windows are looked at in blocks of all of them before the first is measured."""
    monkeypatch.setattr(sys.modules["cudf_fsst.codecs.values.cuda_batch"], "_ROOM_NBYTES", 50_000)
    mask = rng.random(rows) < 0.2
    days = 86400 * rng.integers(0, 10_000, rows)
    uneven = np.where(np.arange(rows) < rows // 2, days, days + rng.integers(0, 2, rows))
    columns = [
        arrow_columns.describe(array)
        for array in (
            pa.array(days, mask=mask),
            pa.array(days % 1000 * 7 % 250).cast(pa.uint8()),
            pa.array(uneven, mask=mask)[3:],
            pa.array(uneven[::-1].copy()).cast(pa.decimal128(22, 2)),
            pa.array((days // 86400 * 5).astype("i4"), mask=mask),
        )
    ]
    with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
        wanted = [ColumnTask(gpu.upload(column), "bitpack") for column in columns]
        nodes = on_device().compress(wanted, lane=lane, outbox=outbox)
    divisors = []
    for node, column in zip(nodes, columns, strict=True):
        same_nodes(node, on_host.HostCompressor("bitpack", OPTIONS).node(column))
        divisors.append(next(iter(node.values[0])).parameters[2])
    assert divisors == [86400, 50, 86400, 86400 * 100, 5]


@pytest.mark.parametrize("codec", [None, "bitpack"])
def test_the_sample_decides_on_a_divisor(
    codec: str | None, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one there, no kernel that knows of divisors gets the pieces, whatever their divisors are."""
    monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
    monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    days = 86400 * rng.integers(0, 10_000, 9 * 1024)
    sampled = days.copy()
    for start, stop in plan.sample_runs(days.size):
        sampled[start:stop] += rng.integers(0, 1000, stop - start)
    found = []
    for values in (sampled, days):
        column = arrow_columns.describe(pa.array(values))
        gpu.device.launches.clear()
        with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
            (node,) = on_device().compress([ColumnTask(gpu.upload(column), codec)], lane=lane, outbox=outbox)
        same_nodes(node, on_host.HostCompressor(codec, OPTIONS).node(column))
        found.append((next(iter(node.values[0])).parameters[2], gpu.device.launches[-3:]))
    assert found[0] == (0, ["bitpack_measure", "bitpack_scan", "bitpack_pack"])
    assert found[1] == (86400, ["bitpack_measure_divided", "bitpack_scan_divided", "bitpack_pack_divided"])


def test_memory_of_a_batch(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little beside the room, whatever the number of streams."""
    room = 1 << 16
    monkeypatch.setattr(sys.modules["cudf_fsst.codecs.values.cuda_batch"], "_ROOM_NBYTES", room)
    rows = 20_000
    columns = [
        arrow_columns.describe(pa.array(rng.integers(0, 99, rows), mask=np.arange(rows) % 7 == i)) for i in range(5)
    ]
    wanted = [ColumnTask(gpu.upload(column), "bitpack") for column in columns]
    gpu.device.allocations.clear()
    with gpu.memory.Lane() as lane:
        nodes = on_device().compress(wanted, lane=lane)
    beside = sum(gpu.device.allocations) - sum(node.nbytes for node in nodes)
    # Beside the room: what blocks have and jobs; and a sample of one stream.
    sample = 8 * bitpack.SAMPLE_BLOCKS * bitpack.BLOCK
    assert beside <= room + sample + sum(column.values.nbytes for column in columns) // 16


def test_a_sample_has_no_more_runs(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Than on the host, also where the steps between them are short, so that one more had room."""
    monkeypatch.setattr(plan, "SAMPLE_RUNS", 3)
    monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    values = rng.integers(0, 2**63, 4200)
    values[3072:] = 5  # a run more of these, and bitpack would be taken
    column = arrow_columns.describe(pa.array(values))
    with gpu.memory.Lane() as lane:
        (node,) = on_device().compress([ColumnTask(gpu.upload(column))], lane=lane)
    (host,) = on_host.HostCompressor(None, OPTIONS).node(column).values
    assert [part.codec for part in node.values[0]] == [part.codec for part in host] == ["raw"]
