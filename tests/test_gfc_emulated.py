"""The kernels of gfc and their launches, emulated under the sanitizers, against the CPU side."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst.codecs.gfc import cpu
from cudf_fsst.codecs.part import Packed
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, compress_as, emulated
from emulation.emulator import SCHEDULES, Emulator
from gfc_cases import CASES, CHUNK, DIMS, cases

__all__ = ["emulator"]


class Gpu:
    """The codec on an emulated GPU."""

    def __init__(self, device: FakeDevice, cuda: Any) -> None:
        self.device, self.emulator, self.cuda = device, device.emulator, cuda
        self.lane = cuda.Lane()

    def compress(self, values: npt.NDArray[Any], offset: int = 0, **options: int) -> Packed:
        """Compress; the values lie `offset` bytes behind an aligned address."""
        with self.lane as lane:
            given = self.emulator.buffer(values, offset=offset)
            packed: Packed = compress_as("gfc", given.address, values, lane=lane, **options)
            lane.synchronize()
            given.free()
        assert packed.meta.size == packed.meta_nbytes
        assert packed.codes.size == packed.codes_nbytes
        return packed

    def decompress(self, packed: Packed, offset: int = 0) -> npt.NDArray[np.uint8]:
        read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
        with self.lane as lane:
            out = self.emulator.buffer(packed.values_nbytes, offset=offset)
            read.decompress([read.ReadRequest(((packed,),), out.address)], lane=lane)
            lane.synchronize()
            result = out.read()
            out.free()
        return result

    def to_host(self, packed: Packed) -> Packed:
        self.lane.synchronize()
        buffers = (np.frombuffer(self.emulator.read(b.ptr, b.size), np.uint8) for b in (packed.meta, packed.codes))
        meta, codes = buffers
        return dataclasses.replace(packed, meta=meta, codes=codes)

    def to_device(self, packed: Packed) -> Packed:
        with self.lane as lane:
            meta, codes = lane.allocate(packed.meta.size), lane.allocate(packed.codes.size)
            lane.upload(meta.ptr, packed.meta)
            lane.upload(codes.ptr, packed.codes)
        return dataclasses.replace(packed, meta=meta, codes=codes)

    def check(self, values: npt.NDArray[Any], offset: int = 0, **options: int) -> None:
        """Same bytes as the CPU's, and back."""
        expected, packed = cpu.encode(values, **options), self.compress(values, offset, **options)
        found = self.to_host(packed)
        said, wanted = (dataclasses.astuple(dataclasses.replace(one, meta=0, codes=0)) for one in (found, expected))
        assert said == wanted
        np.testing.assert_array_equal(found.meta, expected.meta)
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(self.decompress(packed, offset), values.view(np.uint8))


@pytest.fixture
def gpu(emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator)
    with emulated(device, "gfc") as cuda:
        yield Gpu(device, cuda)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
def test_same_as_on_the_cpu(case: str, gpu: Gpu) -> None:
    values = cases()[case]
    gpu.check(values, chunk=CHUNK)
    gpu.check(values, dim=DIMS[len(case) % len(DIMS)])


@pytest.mark.parametrize("dim", DIMS)
def test_dimensions(dim: int, gpu: Gpu) -> None:
    for case in ("triples", "sorted uint32"):
        gpu.check(cases()[case], dim=dim, chunk=1024)


@pytest.mark.parametrize("case", ["walk", "every length", "every length of 4 bytes", "sorted"])
def test_slices(case: str, gpu: Gpu) -> None:
    """Values that are aligned to their size only."""
    values = cases()[case]
    for k in (1, 3):
        gpu.check(values[k:], offset=k * values.itemsize, chunk=CHUNK)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str, gpu: Gpu) -> None:
    gpu.emulator.schedule = schedule
    for case in ("walk", "every length", "sorted uint32", "walk of float32"):
        gpu.check(cases()[case], chunk=CHUNK)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_streams(order: str, gpu: Gpu) -> None:
    gpu.device.order = order
    gpu.lane = gpu.cuda.Lane(gpu.device.stream())
    gpu.check(cases()["walk"], chunk=CHUNK)


def test_longest_chunk(gpu: Gpu, rng: np.random.Generator) -> None:
    """The ring goes round many times, and what a chunk takes does not fit 16 bits."""
    gpu.check(rng.integers(0, 2**64, 30_000, dtype=np.uint64), chunk=65536)


def test_many_chunks(gpu: Gpu) -> None:
    """More than gfc_scan takes at once."""
    values = np.repeat(np.arange(4200), 32).astype(np.int32)
    packed = gpu.to_host(gpu.compress(values, chunk=32))
    expected = cpu.encode(values, chunk=32)
    np.testing.assert_array_equal(packed.meta, expected.meta)
    np.testing.assert_array_equal(packed.codes, expected.codes)


def test_memory(gpu: Gpu) -> None:
    """Two allocations of the sizes that are needed, little beside; a table of one job to decompress."""
    values = cases()["walk"]
    gpu.device.allocations.clear()
    packed = gpu.compress(values)
    beside = list(gpu.device.allocations)
    beside.remove(packed.meta_nbytes)
    beside.remove(packed.codes_nbytes)
    assert sum(beside) < values.nbytes // 64 + 512
    gpu.decompress(packed)
    assert gpu.device.allocations[len(beside) + 2 :] == [8 * 11]


def test_refused(gpu: Gpu) -> None:
    with pytest.raises(ValueError, match="values of 4 or 8 bytes, not 2"):
        gpu.compress(np.zeros(10, np.int16))
    packed = gpu.compress(cases()["walk"])
    with pytest.raises(ValueError, match="dim must be 1 to 32, not 40"):
        gpu.decompress(dataclasses.replace(packed, parameters=(40, 1024)))


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_damage(dtype: Any, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever the bytes, the kernel stays inside its buffers."""
    packed = cpu.encode((1000 * np.cumsum(rng.normal(0, 1, 800))).astype(dtype), chunk=CHUNK)
    starts = packed.meta[: 8 * 6]
    wrong = [0, 15, packed.codes_nbytes - 1, packed.codes_nbytes, packed.codes_nbytes + 1, 2**32, 2**63, 2**64 - 1]
    for seed in range(40):
        meta, codes = packed.meta.copy(), packed.codes.copy()
        if seed % 3 == 0:
            meta.view("<u8")[rng.integers(starts.size // 8)] = wrong[rng.integers(len(wrong))]
        elif seed % 3 == 1:
            codes = rng.integers(0, 256, codes.size, dtype=np.uint8)
        for _ in range(rng.integers(1, 20)):
            codes[rng.integers(codes.size)] ^= 1 << rng.integers(8)
        if seed % 4 == 0:
            codes = codes[: rng.integers(1, codes.size)].copy()
        one = dataclasses.replace(packed, meta=meta, codes=codes, codes_nbytes=codes.size)
        gpu.decompress(gpu.to_device(one))
