"""What is compiled ahead is what calls need: the same kernels with the same options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator
from values_gpu import Gpu

__all__ = ["emulator"]

ROWS = 3000
Made = set[tuple[str, str, tuple[tuple[str, int], ...]]]


@pytest.fixture
def gpu(emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator)
    device.made: Made = set()
    kernel = device.kernel

    def noted(file: str, name: str, defines: Any, *shared: int) -> Any:
        device.made.add((file, name, tuple(sorted(defines.items()))))
        return kernel(file, name, defines, *shared)

    device.kernel = noted
    with emulated(device, "values"):
        yield Gpu(device)


@pytest.mark.slow
def test_a_first_frame_needs_no_other_kernels(gpu: Gpu, automatic: None) -> None:
    modules: dict[str, Any] = dict(sys.modules)
    wanted = [
        make()
        for need in modules["cudf_fsst.codecs.ahead"].NEEDS
        for make in modules["cudf_fsst.codecs.ahead"].makers(need)
    ]
    ahead: Made = gpu.device.made
    assert len(wanted) == len(ahead), "each is another kernel, or has other options"

    columns = [
        pa.array([None if i % 9 == 0 else f"a text of {i} words" for i in range(ROWS)]),
        pa.array(range(ROWS), pa.int64(), mask=np.arange(ROWS) % 7 == 0),
        pa.array(np.arange(ROWS) * 0.37),
        pa.array(np.arange(ROWS, dtype="f4") * 0.37),
        pa.array(np.arange(ROWS, dtype="i2")),
        pa.array(np.arange(ROWS) % 3 == 0),
    ]
    for module in ("codecs", "codecs.fsst", "codecs.text"):
        for function in vars(modules[f"cudf_fsst.{module}.cuda_kernels"]).values():
            getattr(function, "cache_clear", lambda: None)()
    gpu.device.made = needed = set()
    with gpu.memory.Lane() as lane:
        options = {"tile_size": "auto", "level": "default"}
        described = [
            modules["cudf_fsst.codecs.task"].ColumnTask(gpu.upload(arrow_columns.describe(column)), None, options)
            for column in columns
        ]
        nodes = modules["cudf_fsst.codecs.device"].compress(described, lane=lane)
        modules["cudf_fsst.codecs.device"].read(nodes, lane=lane)
        lane.synchronize()
        assert needed <= ahead, needed - ahead
        repeated = gpu.upload(arrow_columns.describe(pa.array(["one", "two", None] * ROWS)))
        wanted = [modules["cudf_fsst.codecs.task"].ColumnTask(repeated, None, options)]
        (node,) = modules["cudf_fsst.codecs.device"].compress(wanted, lane=lane)
        lane.synchronize()
        assert node.coded
    assert needed <= ahead, needed - ahead
    assert {file for file, _, _ in needed} >= {"fsst_encode", "fsst_decode", "bitpack", "values", "row_lengths"}
