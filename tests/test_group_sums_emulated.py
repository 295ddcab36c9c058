"""Sums and extremes of groups of rows, by the real kernels on the emulated GPU."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from cudf_fsst.codecs.group_sums import launch
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import SCHEDULES, Emulator

__all__ = ["emulator"]

KINDS = {"i": launch.SIGNED, "u": launch.UNSIGNED, "f": launch.FLOAT}


@pytest.fixture
def device(emulator: Emulator) -> FakeDevice:
    return FakeDevice(emulator)


def answered(device: FakeDevice, numbers: Any, values: Any, valid: Any, groups: int, hows: list[str]) -> Any:
    """(values, counts) of each `how`."""
    from cudf_fsst.device.memory import Lane

    cuda = importlib.import_module("cudf_fsst.codecs.group_sums.cuda")
    held = [device.array(numbers), device.array(values)]
    bits = 0
    if valid is not None:
        held.append(device.array(np.packbits(valid, bitorder="little")))
        bits = held[-1].data.ptr
    column = cuda.GroupValues(held[1].data.ptr, bits, KINDS[values.dtype.kind], values.itemsize)
    with Lane() as lane:
        room = lane.allocate(16 * groups * len(hows))
        lane.zero(room.ptr, room.size)
        jobs = []
        for number, how in enumerate(hows):
            out = room.ptr + 16 * groups * number
            around = jobs[-1].out if how == "squares" else 0
            jobs.append(cuda.GroupJob("floats" if how == "squares" else how, column, out, around))
        cuda.run(held[0].data.ptr, numbers.size, groups, jobs, lane=lane)
        return lane.read(room.ptr, room.size // 8, np.uint64).reshape(len(hows), 2, groups)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_as_numpy(dtype: str, schedule: str, device: FakeDevice, rng: np.random.Generator) -> None:
    device.emulator.schedule = schedule
    kind = np.dtype(dtype)
    with emulated(device, "raw"):
        for rows, groups in ((1, 1), (130, 3), (5000, launch.MOST_GROUPS)):
            numbers = rng.integers(-1, groups, rows).astype(np.int8)
            values = rng.integers(0, 256, rows * kind.itemsize, np.uint8).view(kind)
            if kind.kind == "f":
                values = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows)).astype(kind)
            valid = None if rows == 130 else rng.random(rows) < 0.7
            hows = ["floats", "squares", "least", "greatest"] + ["integers"] * (kind.kind != "f")
            found = dict(zip(hows, answered(device, numbers, values, valid, groups, hows), strict=True))
            for group in range(groups):
                own = values[(numbers == group) & (True if valid is None else valid) & (values == values)]
                assert {int(one[1, group]) for one in found.values()} == {own.size}
                if not own.size:
                    continue
                with np.errstate(over="ignore"):
                    wide = own.astype(np.float64)
                    assert found["floats"][0, group].view(np.float64) == pytest.approx(wide.sum(), rel=1e-9, abs=1e-6)
                    squares = ((wide - wide.mean()) ** 2).sum()
                    assert found["squares"][0, group].view(np.float64) == pytest.approx(squares, rel=1e-9, abs=1e-9)
                    if kind.kind != "f":
                        assert found["integers"][0, group] == own.astype(np.int64).sum().astype(np.uint64)
                assert ~found["least"][0, group] == rank(own.min())
                assert found["greatest"][0, group] == rank(own.max())


def rank(value: Any) -> np.uint64:
    top = np.uint64(1 << 63)
    if value.dtype.kind == "u":
        return np.uint64(value)
    if value.dtype.kind == "i":
        return np.int64(value).view(np.uint64) ^ top
    bits = np.float64(value).view(np.uint64)
    return ~bits if bits & top else bits | top


def test_no_rows(device: FakeDevice) -> None:
    with emulated(device, "raw"):
        assert not answered(device, np.zeros(0, np.int8), np.zeros(0), None, 3, ["floats", "least"]).any()
    assert device.launches == []
