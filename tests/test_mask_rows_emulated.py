"""Row numbers of a mask, by the real kernels on the emulated GPU."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from cudf_fsst.device.mask_rows import MASK_BLOCK
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import SCHEDULES, Emulator

__all__ = ["emulator"]

SIZES = (1, 3, 4, 127, MASK_BLOCK - 1, MASK_BLOCK, MASK_BLOCK + 1, 5 * MASK_BLOCK + 77)


@pytest.fixture
def device(emulator: Emulator) -> FakeDevice:
    return FakeDevice(emulator)


def found(device: FakeDevice, mask: Any) -> Any:
    from cudf_fsst.device.memory import Lane

    with Lane() as lane:
        return importlib.import_module("cudf_fsst.device.mask_rows").mask_rows(mask, lane=lane).get()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99, 1])
def test_as_numpy(share: float, schedule: str, device: FakeDevice, rng: np.random.Generator) -> None:
    """Of any size, and from any byte of the memory on."""
    device.emulator.schedule = schedule
    with emulated(device, "raw"):
        for size in SIZES:
            mask = rng.random(size) < share
            expected = np.flatnonzero(mask)
            np.testing.assert_array_equal(found(device, device.array(mask)), expected)
        for start in (1, 2, 3, 5):
            part = mask[start : start + MASK_BLOCK]
            address = device.emulator.buffer(part.view(np.uint8), offset=start).address
            there = device.array(part)
            there._address = address
            np.testing.assert_array_equal(found(device, there), np.flatnonzero(part))


def test_more_blocks_than_are_added_up_at_once(
    device: FakeDevice, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few threads, so that few blocks are enough."""
    small = {"MASK_THREADS": 32, "MASK_BLOCK": 128}
    with emulated(device, "raw"):
        for name, value in {**small, "MASK_DEFINES": small}.items():
            monkeypatch.setattr(importlib.import_module("cudf_fsst.device.mask_rows"), name, value)
        mask = rng.random(300 * 128 + 5) < 0.1
        np.testing.assert_array_equal(found(device, device.array(mask)), np.flatnonzero(mask))


def test_no_rows(device: FakeDevice) -> None:
    """Nothing is launched for a mask of nothing."""
    with emulated(device, "raw"):
        assert found(device, device.array(np.zeros(0, bool))).size == 0
    assert device.launches == []
