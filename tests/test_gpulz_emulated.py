"""The real kernels and launches of codec gpulz, emulated under the sanitizers, against the CPU side."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gpulz_cases
from cudf_fsst.codecs.gpulz import cpu, launch
from cudf_fsst.codecs.part import Packed
from emulation.conftest import emulator
from emulation.device import GPUS, ORDERS, FakeDevice, compress_as, emulated
from emulation.emulator import SCHEDULES, Buffer, Emulator

__all__ = ["emulator"]

CASES = list(gpulz_cases.columns(np.random.default_rng(0)))


class Gpu:
    """The codec on an emulated GPU."""

    def __init__(self, device: FakeDevice, cuda: Any) -> None:
        self.device, self.emulator, self.cuda = device, device.emulator, cuda

    def upload(self, array: npt.NDArray[Any], offset: int = 0) -> Buffer:
        return self.emulator.buffer(array.view(np.uint8), offset=offset)

    def read(self, buffer: Any, nbytes: int) -> npt.NDArray[np.uint8]:
        assert buffer.size == nbytes
        return np.frombuffer(self.emulator.read(buffer.ptr, nbytes), np.uint8)

    def compress(self, values: npt.NDArray[Any], offset: int = 0, stream: Any = None, **options: int) -> Packed:
        """On the GPU."""
        there = self.upload(values, offset)
        with self.cuda.Lane(stream) as lane:
            made: Packed = compress_as("gpulz", there.address, values, lane=lane, **options)
        self.device.default.synchronize()
        there.free()
        return made

    def decompress(self, packed: Packed, offset: int = 0, stream: Any = None) -> npt.NDArray[np.uint8]:
        read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
        out = self.emulator.buffer(packed.values_nbytes, offset=offset)
        with self.cuda.Lane(stream) as lane:
            read.decompress([read.ReadRequest(((packed,),), out.address)], lane=lane)
        self.device.default.synchronize()
        found = out.read()
        out.free()
        return found

    def to_device(self, packed: Packed) -> Packed:
        with self.cuda.Lane() as lane:
            meta, codes = lane.allocate(packed.meta_nbytes), lane.allocate(packed.codes_nbytes)
            lane.upload(meta.ptr, packed.meta)
            lane.upload(codes.ptr, packed.codes)
        return dataclasses.replace(packed, meta=meta, codes=codes)

    def same(self, found: Packed, expected: Packed) -> None:
        assert found.parameters == expected.parameters
        assert np.array_equal(self.read(found.meta, found.meta_nbytes), expected.meta)
        assert np.array_equal(self.read(found.codes, found.codes_nbytes), expected.codes)


@pytest.fixture
def gpu(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator, getattr(request, "param", "sm_90"))
    with emulated(device, "gpulz") as cuda:
        yield Gpu(device, cuda)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", gpulz_cases.OPTIONS, ids=str)
def test_same_bytes(options: dict[str, int], gpu: Gpu, rng: np.random.Generator) -> None:
    for name, whole in gpulz_cases.columns(rng).items():
        values = whole[: 4500 // whole.itemsize]
        expected = cpu.encode(values, **options)
        found = gpu.compress(values, **options)
        gpu.same(found, expected)
        assert gpu.decompress(found).tobytes() == values.tobytes(), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("symbol", launch.SYMBOLS)
@pytest.mark.parametrize(("chunk", "window"), [(16384, 255), (2048, 128), (4096, 64)])
def test_shapes(symbol: int, chunk: int, window: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Every number of warps a chunk; matches across their borders, and the last chunk partly filled."""
    piece = rng.integers(0, 3, 700).astype(f"<u{symbol}")
    values = np.concatenate([np.tile(piece[:150], chunk // symbol // 150), piece, piece])
    values[len(values) // 2] += 1
    expected = cpu.encode(values, symbol=symbol, chunk=chunk, window=window)
    found = gpu.compress(values, symbol=symbol, chunk=chunk, window=window)
    gpu.same(found, expected)
    assert gpu.decompress(found).tobytes() == values.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("symbol", [1, 8])
@pytest.mark.parametrize("gpu", GPUS, indirect=True)
def test_largest_chunks_on_every_gpu(gpu: Gpu, symbol: int, rng: np.random.Generator) -> None:
    """Four warps with chunks of 16384 bytes take 128 KiB of shared memory, which only some have."""
    values = np.concatenate([np.tile(rng.integers(0, 9, 300), 30), rng.integers(0, 2**60, 2500)])
    packed = cpu.encode(values, symbol=symbol, chunk=16384, window=64)
    assert gpu.decompress(gpu.to_device(packed)).tobytes() == values.tobytes()


def test_shared_memory() -> None:
    """The least that a GPU has (sm_75) is enough for every choice, and where there is more it is used."""
    for chunk in launch.CHUNKS:
        for shared, _ in GPUS.values():
            assert launch.decode_shared(chunk, launch.decode_warps(chunk, shared)) <= shared
        for symbol in launch.SYMBOLS:
            for window in launch.WINDOWS:
                assert launch.encode_shape(symbol, chunk, window)[2] <= 64 << 10
    assert [launch.decode_warps(16384, shared) for shared, _ in GPUS.values()] == [3, 2, 3, 4]
    assert {launch.decode_warps(8192, shared) for shared, _ in GPUS.values()} == {4}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", ORDERS)
def test_orders(schedule: str, order: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Nothing depends on the order of threads, blocks and streams; enough chunks for several blocks of them."""
    gpu.emulator.schedule, gpu.device.order = schedule, order
    values = np.sort(rng.integers(0, 6000, 18_000)).astype(np.int32)
    stream = gpu.device.stream() if order != "lazy" else None
    found = gpu.compress(values, stream=stream, symbol=4)
    gpu.same(found, cpu.encode(values, symbol=4))
    assert gpu.decompress(found, stream=stream).tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<i4", "<f8"])
def test_slices(dtype: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Values that are aligned to their own size only."""
    values = rng.integers(0, 5, 2500).astype(dtype)
    for offset in {values.itemsize, 3 * values.itemsize, 24, 4 * values.itemsize}:
        for options in ({}, {"symbol": 4}):
            found = gpu.compress(values, offset, **options)
            gpu.same(found, cpu.encode(values, **options))
            assert gpu.decompress(found, offset).tobytes() == values.tobytes()


def test_fallback(gpu: Gpu, rng: np.random.Generator) -> None:
    """Symbols of one byte, where those of the values' size are not worth it."""
    good, poor = np.zeros(3000, np.int64), rng.integers(0, 2**62, 3000)
    assert gpu.compress(good).parameters == (8, 2048)
    assert gpu.compress(poor).parameters == (1, 2048)


def test_out_of_memory(gpu: Gpu, rng: np.random.Generator) -> None:
    values = np.sort(rng.integers(0, 900, 2000))
    before = set(gpu.device.live)
    for position in (1, 2, 3):
        gpu.device.allocations.clear()
        gpu.device.fail_at = position
        with pytest.raises(MemoryError):
            gpu.compress(values)
        assert gpu.device.live == before
    gpu.device.fail_at = 0
    gpu.same(gpu.compress(values), cpu.encode(values))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", gpulz_cases.OPTIONS, ids=str)
def test_damage(options: dict[str, int], gpu: Gpu, rng: np.random.Generator) -> None:
    """Wrong values are fine; memory of others is not, and the sanitizers watch."""
    gpu.device.order = "eager"
    values = np.concatenate([np.sort(rng.integers(0, 99, 2100)), rng.integers(0, 2**40, 301)])
    packed = cpu.encode(values, **options)
    counts_at = launch.GpulzLayout(values.nbytes, packed.parameters[1]).counts_at
    for round_ in range(40):
        meta, codes = packed.meta.copy(), packed.codes.copy()
        target = (meta[:counts_at], meta[counts_at:], codes, codes)[round_ % 4]
        if round_ < 12:
            target[:] = (0, 255, 127)[round_ // 4]
        else:
            hit = rng.integers(0, target.size, 1 + target.size // int(rng.choice([1, 9, 200])))
            target[hit] = rng.integers(0, 256, hit.size)
        if round_ % 5 == 0:
            codes = codes[: rng.integers(1, codes.size)]
        damaged = dataclasses.replace(packed, meta=meta, codes=codes, codes_nbytes=codes.size)
        gpu.decompress(gpu.to_device(damaged), values.itemsize * (round_ % 3))
    with pytest.raises(ValueError, match="2 parameters"):
        gpu.decompress(dataclasses.replace(packed, parameters=()))
