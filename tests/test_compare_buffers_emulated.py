"""Which buffers have the same bytes, by the real kernel on the emulated GPU."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator

__all__ = ["emulator"]


def test_one_byte_is_different(emulator: Emulator, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of buffers of any size, and from any byte of the memory on; in several launches."""
    device = FakeDevice(emulator)
    with emulated(device, "raw"):
        module = importlib.import_module("cudf_fsst.device.compare_buffers")
        monkeypatch.setattr(module, "_PAIRS", 7)
        pairs, expected = [], []
        for size in (0, 1, 15, 16, 17, 4096, 200_003):
            for offsets in ((0, 0), (0, 3), (5, 5)):
                data = rng.integers(0, 256, size, dtype=np.uint8)
                for place in (None, 0, size // 2, size - 1):
                    other = data.copy()
                    if place is not None and size:
                        other[place] ^= 1 << int(rng.integers(8))
                    buffers = [emulator.buffer(one, offset=at) for one, at in zip((data, other), offsets, strict=True)]
                    pairs.append([SimpleNamespace(ptr=one.address, size=size) for one in buffers])
                    expected.append(place is not None and size > 0)
        from cudf_fsst.device.memory import Lane

        with Lane() as lane:
            assert module.different(pairs, lane=lane).tolist() == expected
            assert module.different([], lane=lane).tolist() == []
        assert device.waits == 1
        assert device.launches == ["compare_buffers"] * (-(-len(pairs) // 7) - 1)  # the first pairs have no bytes
