"""Comparisons on the codes of bitpack: the real kernels, emulated under the sanitizers, against NumPy."""

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
from cudf_fsst.codecs.span import Span
from emulation.conftest import emulator
from test_bitpack_emulated import Gpu, gpu

__all__ = ["emulator", "gpu"]


def answers(gpu: Gpu, parts: tuple[Packed, ...], span: Span, offset: int = 0) -> npt.NDArray[np.bool_]:
    """Whether values lie in a range."""
    read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
    out = gpu.emulator.buffer(sum(part.rows for part in parts), offset=offset)
    with gpu.cuda.Lane(gpu.device.stream()) as lane:
        read.compare(parts, span, out.address, lane=lane)
        lane.synchronize()
    found = out.read().view(np.bool_).copy()
    out.free()
    return found


def among(gpu: Gpu, parts: tuple[Packed, ...], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
    """Whether values are among others; None: their range is too wide."""
    read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
    out, there = gpu.emulator.buffer(sum(part.rows for part in parts)), gpu.emulator.buffer(others)
    with gpu.cuda.Lane() as lane:
        answered = read.is_in(parts, there.address, others.size, out.address, lane=lane)
        lane.synchronize()
    found = out.read().view(np.bool_).copy() if answered else None
    out.free()
    there.free()
    return found


def spans(values: npt.NDArray[Any]) -> Iterator[Span]:
    """Ranges: of nothing, one value, some of them, almost all, and everything."""
    least, most = int(values.min()), int(values.max())
    middle = int(np.sort(values)[values.size // 2])
    limits = np.iinfo(values.dtype)
    yield Span(1, 0)
    yield Span(1, 0, True)
    yield Span(middle, middle)
    yield Span(middle, middle, True)
    yield Span(limits.min, middle)
    yield Span(middle, limits.max)
    yield Span(least, most)
    yield Span(min(least + 1, most), most)
    yield Span(limits.min, limits.max)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_ranges(itemsize: int, gpu: Gpu) -> None:
    """Beside each other the cases' blocks begin at any address; each value is compared as NumPy does it."""
    for signed in (False, True):
        kind = f"{'i' if signed else 'u'}{itemsize}"
        found = {
            name: values.view(kind) for name, (values, is_signed) in cases(itemsize).items() if is_signed is signed
        }
        parts = [
            gpu.upload(cpu.encode(values.view(f"u{itemsize}"), signed=signed, divide=1)) for values in found.values()
        ]
        values = np.concatenate(list(found.values()))
        for i, span in enumerate(spans(values)):
            inside = (values >= span.low) & (values <= span.high)
            wanted = inside ^ span.outside
            np.testing.assert_array_equal(answers(gpu, tuple(parts), span, i % 3), wanted)
            np.testing.assert_array_equal(span.of(values.view(f"u{itemsize}")), wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_values_among_others(itemsize: int, gpu: Gpu) -> None:
    rng = np.random.default_rng(itemsize)
    answered = 0
    for name, (case, signed) in cases(itemsize).items():
        values = case.view(f"{'i' if signed else 'u'}{itemsize}")
        parts = (gpu.upload(cpu.encode(case, signed=signed, divide=1)),)
        limits = np.iinfo(values.dtype)
        others = np.concatenate([rng.choice(values, 9), np.array([limits.min, limits.max], values.dtype)])
        found = among(gpu, parts, others)
        if found is not None:
            answered += 1
            np.testing.assert_array_equal(found, np.isin(values, others), err_msg=name)
            none = among(gpu, parts, others[:0])
            assert none is not None
            assert not none.any()
    assert answered >= (len(cases(itemsize)) if itemsize < 4 else 5)


@pytest.mark.parametrize("itemsize", launch.ITEMSIZES)
def test_bounds_hold_all_values(itemsize: int) -> None:
    narrow = 0
    for case, signed in cases(itemsize).values():
        values = case.view(f"{'i' if signed else 'u'}{itemsize}")
        packed = cpu.encode(case, signed=signed, divide=1)
        span = launch.bounds(launch.layout(packed), packed.meta, signed)
        limits = np.iinfo(values.dtype)
        assert limits.min <= span.low <= values.min()
        assert values.max() <= span.high <= limits.max
        narrow += span.high - span.low < int(limits.max) - int(limits.min)
    assert narrow >= 5


def test_damaged_entries(gpu: Gpu) -> None:
    """Whatever the entries say, nothing outside the buffers is read or written."""
    rng = np.random.default_rng(4)
    values = np.cumsum(rng.integers(0, 900, 5 * launch.BLOCK)).astype(np.uint64)
    packed = cpu.encode(values, divide=1)
    for _ in range(12):
        meta = packed.meta.copy()
        meta[rng.integers(0, meta.size, 40)] = rng.integers(0, 256, 40)
        damaged = gpu.upload(dataclasses.replace(packed, meta=meta))
        assert answers(gpu, (damaged,), Span(100, 10**6)).size == values.size
        among(gpu, (damaged,), values[::7])
