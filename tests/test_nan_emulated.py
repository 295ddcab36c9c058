"""A NaN on an emulated GPU, against the host: the same bytes, and its bits back, in ranges and by number."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from cudf_fsst.codecs import host as on_host
from cudf_fsst.codecs.bitpack import cpu as bitpack
from cudf_fsst.codecs.bitpack import launch
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.emulator import SCHEDULES
from nan_cases import KINDS, NANS, floats
from values_gpu import OPTIONS, Gpu, gpu, on_device, same_nodes

__all__ = ["emulator", "gpu"]

Values = npt.NDArray[Any]


def compressed(gpu: Gpu, arrays: list[pa.Array], codec: str | None = None) -> list[Node]:
    """On the GPU, all at once; the same bytes as on the host, which are returned."""
    columns = [arrow_columns.describe(array) for array in arrays]
    wanted = [on_host.HostCompressor(codec, OPTIONS).node(column) for column in columns]
    with gpu.memory.Lane() as lane:
        tasks = [ColumnTask(gpu.upload(column), codec, OPTIONS) for column in columns]
        nodes = on_device().compress(tasks, lane=lane)
        with gpu.transfer.Outbox() as outbox:
            hosts = [node.with_parts(iter(outbox.send_parts(list(node.parts), lane))) for node in nodes]
    for host, expected in zip(hosts, wanted, strict=True):
        same_nodes(host, expected)
    return nodes


def has_nan(node: Node) -> bool:
    return any(part.codec == "bitpack" and part.parameters[1] & launch.HAS_NAN for part in node.values[0])


def bits(gpu: Gpu, column: Any) -> Values:
    """Bits of values that were read, those under nulls as they are."""
    found: Values = gpu.download(column).values
    return found


def filled(array: pa.Array) -> Values:
    """What is stored of an array: its bits, nulls filled."""
    column = arrow_columns.describe(array)
    if not column.null_count:
        return np.asarray(column.values)
    return cpu.fill_nulls(column.values, column.validity, column.validity_offset)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_same_as_on_the_host(schedule: str, itemsize: int, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of all kinds in one call: whole ones, and ones of which a sample tells the codec, cut into pieces."""
    gpu.emulator.schedule = schedule
    rng = np.random.default_rng(itemsize)
    for small in (False, True):
        if small:
            monkeypatch.setattr(plan, "PART_NBYTES", 8192 * itemsize // 8)
            monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
            monkeypatch.setattr(plan, "RUN_ROWS", 1024)
            monkeypatch.setattr(sys.modules["cudf_fsst.codecs.values.cuda_batch"], "_ROOM_NBYTES", 20_000)
        arrays = []
        several = (NANS[itemsize][:1], 0.03), (NANS[itemsize], 0.2), (NANS[itemsize][1:2], 1.0), ([], 0)
        for kind, (nans, share) in zip(KINDS * 2, several * 5, strict=False):
            values = floats(kind, int(rng.integers(1600, 4000)), itemsize, nans, share, rng)
            array = pa.array(values, mask=rng.random(values.size) < rng.choice([0.0, 0.3]))
            arrays.append(array[int(rng.integers(0, 9)) :])
        nodes = compressed(gpu, arrays)
        assert any(map(has_nan, nodes))
        assert not all(map(has_nan, nodes))
        if small:
            assert any(len(node.values[0]) > 1 for node in nodes if has_nan(node))
        with gpu.memory.Lane() as lane:
            read = on_device().read(nodes, lane=lane)
            lane.synchronize()
        for array, found in zip(arrays, read, strict=True):
            np.testing.assert_array_equal(bits(gpu, found), filled(array))
        some = [(array, node) for array, node in zip(arrays, nodes, strict=True) if has_nan(node)][:6]
        rows = min(len(array) for array, _ in some)
        for start, stop in (0, 1), (5, 1500), (1024, rows), (rows - 1, rows):
            with gpu.memory.Lane() as lane:
                read = on_device().read([node for _, node in some], lane=lane, start=start, stop=stop)
                lane.synchronize()
            for (array, _), found in zip(some, read, strict=True):
                np.testing.assert_array_equal(bits(gpu, found), filled(array)[start:stop])
        for count in 7, 600:
            wanted = rng.integers(0, rows, count)
            with gpu.memory.Lane() as lane:
                taken = on_device().take([node for _, node in some], wanted, lane=lane)
                lane.synchronize()
            for (array, _), found in zip(some, taken, strict=True):
                np.testing.assert_array_equal(bits(gpu, found), filled(array)[wanted])


def test_a_codec_that_is_named(gpu: Gpu) -> None:
    values = floats("minutes", 2500, 8, NANS[8][:1], 0.1, np.random.default_rng(1))
    for codec in "bitpack", "gfc", "gpulz", "raw":
        (node,) = compressed(gpu, [pa.array(values)], codec)
        assert has_nan(node) == (codec == "bitpack")


def test_parts_of_several_kinds(gpu: Gpu) -> None:
    """What concat puts together: other NaNs, none, another codec."""
    rng = np.random.default_rng(2)
    pieces = [floats("minutes", 1500, 8, NANS[8][i : i + 1], 0.1, rng) for i in (0, 1)]
    pieces += [floats("minutes", 700, 8, [], 0, rng), floats("bits", 300, 8, NANS[8], 0.5, rng)]
    nodes = compressed(gpu, list(map(pa.array, pieces)))
    assert [has_nan(node) for node in nodes] == [True, True, False, False]
    whole = np.concatenate(pieces).view("u8")
    joined = Node(pa.float64(), whole.size, 0, values=(tuple(part for node in nodes for part in node.values[0]),))
    rows = np.array([3999, 0, 1499, 1500, 1501, 2999, 3000, 3700, 7, 7, *range(1000, 2000)])
    with gpu.memory.Lane() as lane:
        (read,), (taken,) = on_device().read([joined], lane=lane), on_device().take([joined], rows, lane=lane)
        lane.synchronize()
    np.testing.assert_array_equal(bits(gpu, read), whole)
    np.testing.assert_array_equal(bits(gpu, taken), whole[rows])


def test_what_it_costs(gpu: Gpu) -> None:
    """A launch more where floats are compressed; nothing where they are read. Integers cost what they did."""
    gpu.device.launches.clear()
    (node,) = compressed(gpu, [pa.array(np.arange(3000) * 0.5)])
    assert [name for name in gpu.device.launches if "nan" in name] == ["bitpack_find_nan"]
    gpu.device.launches.clear()
    with gpu.memory.Lane() as lane:
        on_device().read([node], lane=lane)
        on_device().take([node], np.array([5, 7]), lane=lane)
        lane.synchronize()
    compressed(gpu, [pa.array(np.arange(3000)), pa.array(["a", None] * 900)])
    assert not [name for name in gpu.device.launches if "nan" in name]
    (node,) = compressed(gpu, [pa.array(floats("minutes", 3000, 8, NANS[8][:1], 0.1, np.random.default_rng(1)))])
    gpu.device.launches.clear()
    with gpu.memory.Lane() as lane:
        on_device().read([node], lane=lane)
        on_device().take([node], np.array([5, 7]), lane=lane)
        lane.synchronize()
    assert gpu.device.launches == ["bitpack_unpack", "bitpack_put_nan", "bitpack_take", "bitpack_take_nan"]


@pytest.mark.parametrize("itemsize", [4, 8])
def test_damage(itemsize: int, gpu: Gpu) -> None:
    """No report by a sanitizer, and what the host makes of it, whatever the NaN and its stand-ins are."""
    rng = np.random.default_rng(itemsize)
    kind = {4: pa.float32(), 8: pa.float64()}[itemsize]
    values = floats("minutes", 3000, itemsize, NANS[itemsize][:2], 0.1, rng).view(f"u{itemsize}")
    packed = bitpack.encode(values, divide=1, nan=cpu.least_nan(values))
    at = launch.layout(packed).nan
    for _ in range(6):
        meta = packed.meta.copy()
        meta[at + rng.integers(0, meta.size - at, 5)] ^= rng.integers(0, 256, 5).astype(np.uint8)
        damaged = dataclasses.replace(packed, meta=meta)
        wanted = np.empty(values.nbytes, np.uint8)
        bitpack.decode(damaged, wanted)
        with gpu.memory.Lane() as lane:
            node = Node(kind, 3000, 0, values=(tuple(gpu.transfer.to_device([damaged])),))
            (found,) = on_device().read([node], lane=lane)
            lane.synchronize()
        np.testing.assert_array_equal(bits(gpu, found), wanted.view(values.dtype))
    for parameters in (0, 4, 0, 0), (0, 0, 0, 0), (2, 2, 0, 0):
        node = Node(kind, 3000, 0, values=(tuple(gpu.transfer.to_device([packed])),))
        node = dataclasses.replace(node, values=((dataclasses.replace(node.values[0][0], parameters=parameters),),))
        with gpu.memory.Lane() as lane, pytest.raises(ValueError, match="damaged segment"):
            on_device().read([node], lane=lane)
    gpu.device.default.synchronize()
