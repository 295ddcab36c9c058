"""bitpack's real kernels and launches, emulated under the sanitizers, against its CPU side (see tests/emulation)."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bitpack_cases import cases
from cudf_fsst.codecs.bitpack import cpu, launch
from cudf_fsst.codecs.part import Packed
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, compress_as, emulated
from emulation.emulator import SCHEDULES, Emulator

__all__ = ["emulator"]


class Gpu:
    """bitpack on an emulated GPU."""

    def __init__(self, device: FakeDevice, cuda: Any) -> None:
        self.device, self.emulator, self.cuda = device, device.emulator, cuda

    def compress(self, values: npt.NDArray[Any], signed: bool, offset: int = 0, *, divide: int = 1) -> Packed:
        """Compress a copy of exactly the values' size, `offset` bytes off an aligned address."""
        source = self.emulator.buffer(values, offset=offset)
        with self.cuda.Lane(self.device.stream()) as lane:
            packed: Packed = compress_as("bitpack", source.address, values, signed=signed, lane=lane, divide=divide)
            lane.synchronize()
        assert (packed.meta.size, packed.codes.size) == (packed.meta_nbytes, packed.codes_nbytes)
        source.free()
        return packed

    def decompress(self, packed: Packed, offset: int = 0) -> bytes:
        read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
        out = self.emulator.buffer(packed.values_nbytes, offset=offset)
        with self.cuda.Lane(self.device.stream()) as lane:
            read.decompress([read.ReadRequest(((packed,),), out.address)], lane=lane)
            lane.synchronize()
        data: bytes = out.read().tobytes()
        out.free()
        return data

    def download(self, packed: Packed) -> Packed:
        self.device.default.synchronize()
        host = {
            name: np.frombuffer(self.emulator.read(getattr(packed, name).ptr, getattr(packed, name).size), np.uint8)
            for name in ("meta", "codes")
        }
        return dataclasses.replace(packed, **host)

    def upload(self, packed: Packed) -> Packed:
        with self.cuda.Lane() as lane:
            device = {name: lane.allocate(getattr(packed, name).size) for name in ("meta", "codes")}
            for name, buffer in device.items():
                lane.upload(buffer.ptr, getattr(packed, name))
            lane.synchronize()
        return dataclasses.replace(packed, **device)


@pytest.fixture(params=["sm_90"])
def gpu(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator, request.param)
    with emulated(device, "bitpack") as cuda:
        yield Gpu(device, cuda)


def same(found: Packed, expected: Packed) -> None:
    fields = [field.name for field in dataclasses.fields(Packed) if field.name not in ("meta", "codes")]
    assert [getattr(found, name) for name in fields] == [getattr(expected, name) for name in fields]
    np.testing.assert_array_equal(found.meta, expected.meta)
    np.testing.assert_array_equal(found.codes, expected.codes)


def round_trip(gpu: Gpu, values: npt.NDArray[Any], signed: bool, offset: int = 0, *, divide: int = 1) -> None:
    packed = gpu.compress(values, signed, offset, divide=divide)
    same(gpu.download(packed), cpu.encode(values, signed=signed, divide=divide))
    assert gpu.decompress(packed, offset) == values.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_cases(itemsize: int, gpu: Gpu) -> None:
    for name, (values, signed) in cases(itemsize).items():
        round_trip(gpu, values, signed)
        if not name.startswith(("multiples", "steps")):
            round_trip(gpu, values, signed, divide=0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_unaligned_addresses(itemsize: int, gpu: Gpu) -> None:
    names = "1 random", "1025 random", "1 bits", "kinds of blocks", "around zero, signed", "steps of 10", "full range"
    for name in names:
        values, signed = cases(itemsize)[name]
        for offset in {itemsize, 8}:
            round_trip(gpu, values, signed, offset)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_schedules(itemsize: int, schedule: str, gpu: Gpu) -> None:
    gpu.emulator.schedule = schedule
    for name in ("9233 small", "sorted", "kinds of blocks", "steps of 10", "every third block"):
        values, signed = cases(itemsize)[name]
        round_trip(gpu, values, signed)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_streams(order: str, gpu: Gpu) -> None:
    gpu.device.order = order
    values, signed = cases(4)["kinds of blocks"]
    round_trip(gpu, values, signed)


def test_many_blocks(gpu: Gpu) -> None:
    """More than bitpack_scan sums in one go."""
    blocks = 16 * launch.SCAN_THREADS + 21
    rng = np.random.default_rng(3)
    widths, divided = rng.integers(0, 9, blocks), rng.random(blocks) < 0.5
    divided &= widths > 0
    delta = np.arange(blocks) % 3 == 1
    kinds = (widths + 64 * divided + 128 * delta).astype(np.uint8)
    module = gpu.emulator.load("bitpack.cu", {name: f"{value}u" for name, value in launch.defines(1).items()})
    room = np.full(-(-blocks // 16) * 16, 0xA5, np.uint8)  # what follows the last block is garbage
    room[:blocks] = kinds
    kinds_at, starts_at = gpu.emulator.buffer(room), gpu.emulator.buffer(4 * room.size)
    totals_at = gpu.emulator.buffer(24)
    table = np.array([0, kinds_at.address, blocks, starts_at.address, totals_at.address], np.uint64)
    expected = np.cumsum(widths) - widths + (divided.astype(np.int64) << 30) + (delta.astype(np.int64) << 31)
    for schedule in SCHEDULES:
        module.launch("bitpack_scan_divided", 1, launch.SCAN_THREADS, [table, np.uint32(1)], schedule=schedule)
        np.testing.assert_array_equal(starts_at.read(np.uint32)[:blocks], expected)
        assert totals_at.read(np.uint64)[:2].tolist() == [widths.sum(), 3]
    room[:blocks] = widths + 128 * delta
    kinds_at.write(room)
    for schedule in SCHEDULES:
        module.launch("bitpack_scan", 1, launch.SCAN_THREADS, [table, np.uint32(1)], schedule=schedule)
        np.testing.assert_array_equal(starts_at.read(np.uint32)[:blocks], expected & ~(1 << 30))
        assert totals_at.read(np.uint64)[:2].tolist() == [widths.sum(), 1]


def test_what_it_costs(gpu: Gpu) -> None:
    """Launches and memory of each call."""
    values, signed = cases(8)["kinds of blocks"]
    before = len(gpu.device.allocations)
    packed = gpu.compress(values, signed, divide=0)
    assert gpu.device.launches == ["bitpack_measure", "bitpack_scan", "bitpack_pack"]
    beside = gpu.device.allocations[before:]
    beside.remove(packed.meta_nbytes)
    beside.remove(packed.codes_nbytes)
    assert sum(beside) < values.nbytes // 64 + 512
    gpu.decompress(packed)
    assert gpu.device.launches[3:] == ["bitpack_unpack"]
    assert gpu.device.allocations[before + len(beside) + 2 :] == [8 * 12], "the table of one job"
    gpu.device.launches.clear()
    measuring = ["bitpack_divisor", "bitpack_measure_divided", "bitpack_scan_divided"]
    gpu.compress(*cases(8)["9233 random"])
    assert gpu.device.launches == [*measuring, "bitpack_pack"], "no divisor was found"
    gpu.device.launches.clear()
    gpu.compress(*cases(8)["days"])
    assert gpu.device.launches == [*measuring, "bitpack_pack_divided"]


def test_wrong_sizes(gpu: Gpu) -> None:
    packed = cpu.encode(np.arange(3000))
    for change in ({"meta_nbytes": 16}, {"codes_nbytes": 100}, {"rows": 9000}, {"parameters": (0, 7, 0, 0)}):
        with pytest.raises(ValueError, match="damaged segment"):
            gpu.decompress(dataclasses.replace(packed, **change))


@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_damage(itemsize: int, gpu: Gpu) -> None:
    """No report by a sanitizer, whatever the bytes; and the right values where the CPU finds no damage."""
    rng = np.random.default_rng(itemsize)
    for name in ("kinds of blocks", "9233 random", "constant", "sorted", "steps of 3", "multiples of 12"):
        values, signed = cases(itemsize)[name]
        packed = cpu.encode(values, signed=signed, divide=1)
        for _ in range(6):
            damaged = dataclasses.replace(packed, meta=packed.meta.copy(), codes=packed.codes.copy())
            for array in (damaged.meta, damaged.codes):
                if array.size:
                    size = min(array.size, 60)
                    array[rng.integers(0, size, 5)] ^= rng.integers(0, 256, 5).astype(np.uint8)
            found = gpu.decompress(gpu.upload(damaged))
            out = np.empty(packed.values_nbytes, np.uint8)
            try:
                cpu.decode(damaged, out)
            except ValueError:
                continue
            assert found == out.tobytes()
        for fill in (0, 0xFF):
            meta, codes = np.full_like(packed.meta, fill), np.full_like(packed.codes, fill)
            gpu.decompress(gpu.upload(dataclasses.replace(packed, meta=meta, codes=codes)))
