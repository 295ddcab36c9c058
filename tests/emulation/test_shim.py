"""The shim itself: what it computes, and that it catches what it is there to catch."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from . import build
from .emulator import SCHEDULES, Emulator, EmulatorError, Module, SanitizerError

TOYS = Path(__file__).parent / "toys.cu"


@pytest.fixture
def toys(emulator: Emulator) -> Module:
    return emulator.load(TOYS)


# ---------------------------------------------------------------------------------------------------- it computes


@pytest.mark.sampled(2)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("block", [32, 128, 1024])
def test_block_scan(toys: Module, schedule: str, block: int, rng: np.random.Generator) -> None:
    values = rng.integers(0, 2**20, 4 * block - 3, dtype=np.uint32)
    narrow, wide = np.zeros_like(values), np.zeros(values.size, np.uint64)
    toys.launch("scan", 4, block, [values, narrow, wide, np.uint32(values.size)], schedule=schedule)
    for begin in range(0, values.size, block):
        expected = np.cumsum(values[begin : begin + block], dtype=np.uint64)
        np.testing.assert_array_equal(narrow[begin : begin + block], expected)
        np.testing.assert_array_equal(wide[begin : begin + block], expected << np.uint64(32))


@pytest.mark.parametrize("block", [1, 33, 100, 512])
def test_dynamic_shared_memory(toys: Module, block: int, rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, (3, block), dtype=np.uint8)
    expected = data[:, ::-1].copy()
    toys.launch("reverse", 3, block, [data], shared_mem=block)
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_collectives_under_partial_masks(toys: Module, schedule: str) -> None:
    split = 12
    ballots, shuffled = np.zeros(31, np.uint32), np.zeros(31, np.uint32)
    toys.launch("partial_masks", 1, 32, [np.uint32(split), ballots, shuffled], schedule=schedule)
    low = sum(1 << lane for lane in range(split) if lane % 2)
    high = sum(1 << lane for lane in range(split, 31) if lane % 3 == 0)
    np.testing.assert_array_equal(ballots, [low] * split + [high] * (31 - split))
    # Lane 30's partner has left; what it reads is undefined.
    expected = [10 * (split - 1)] * split + [10 * (lane ^ 1) for lane in range(split, 30)]
    np.testing.assert_array_equal(shuffled[:30], np.array(expected) + 3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_addresses_inside_structures(emulator: Emulator, schedule: str, rng: np.random.Generator) -> None:
    toys = emulator.load(TOYS)
    inputs = [rng.integers(0, 2**32, n, dtype=np.uint32) for n in (7, 100, 33)]
    sources = [emulator.buffer(array) for array in inputs]
    targets = [emulator.buffer(array.nbytes) for array in inputs]
    dtype = np.dtype([("from", "<u8"), ("to", "<u8"), ("count", "<u8")])
    pieces = np.array(
        [(source.address, target.address, a.size) for source, target, a in zip(sources, targets, inputs, strict=True)],
        dtype,
    )
    total = np.zeros(1, np.uint64)
    toys.launch("copy_pieces", (3, 2), 32, [pieces[:2].copy(), pieces[2], total], schedule=schedule)
    for array, target in zip(inputs, targets, strict=True):
        np.testing.assert_array_equal(target.read(np.uint32), array)
    assert total[0] == sum(int(array.sum(dtype=np.uint64)) for array in inputs)


def test_integer_functions(toys: Module) -> None:
    a, b, wide = 0x12345678, 0x9ABCDEF0, 0xFF00000001
    out = np.zeros(12, np.uint64)
    toys.launch("integers", 1, 1, [out, np.uint32(a), np.uint32(b), np.uint64(wide)])
    pair = b << 32 | a
    expected = [
        pair << 8 >> 32 & 0xFFFFFFFF,
        pair << 8 >> 32 & 0xFFFFFFFF,
        pair >> 8 & 0xFFFFFFFF,
        b,
        0x9AF05678,
        int(f"{a:032b}"[::-1], 2),
        a * b >> 32,
        0x12 + 0x34 + 0x56 + 0x78 + 5,
        0,
        a.bit_count() | wide.bit_count() << 8 | 3 << 16 | 24 << 24,
        4 | 33 << 8,
        a + 2,
    ]
    assert [hex(value) for value in out.tolist()] == [hex(value) for value in expected]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warp_that_waits_for_another(schedule: str) -> None:
    """However long lanes go on among themselves, others get their turn."""
    out = np.zeros(33, np.uint32)
    with Emulator() as one:
        one.load(TOYS).launch("wait_for_another_warp", 1, 64, [out], schedule=schedule)
    np.testing.assert_array_equal(out, [1, *range(32)])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_clusters(toys: Module, schedule: str, rng: np.random.Generator) -> None:
    values = rng.integers(0, 2**20, (3, 4, 64), dtype=np.uint32)
    sums = np.zeros_like(values)
    toys.launch("cluster_sums", 12, 64, [values, sums], shared_mem=4 * (65 + 64), schedule=schedule)
    expected = (values << np.arange(4, dtype=np.uint32)[:, None]).sum(1, keepdims=True, dtype=np.uint32)
    swapped = expected.reshape(3, 32, 2)[:, :, ::-1].reshape(3, 1, 64)
    np.testing.assert_array_equal(sums, np.broadcast_to(swapped, sums.shape))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_that_wait_for_each_other(toys: Module, schedule: str) -> None:
    seen = np.zeros(6, np.uint32)
    toys.launch("blocks_together", (3, 2), 40, [np.zeros(1, np.uint32), seen], together=True, schedule=schedule)
    assert (seen == 6).all()


def test_unwritten_memory_is_garbage(emulator: Emulator) -> None:
    assert np.unique(emulator.buffer(1000).read()).size > 100


# --------------------------------------------------------------------------------------------------- it catches


def test_write_past_a_buffer(toys: Module) -> None:
    with pytest.raises(SanitizerError, match=r"(?s)heap-buffer-overflow.*WRITE of size 1.*thread \(31, 0, 0\)"):
        toys.launch("past_the_end", 1, 32, [np.zeros(37, np.uint8), np.uint32(37)])


@pytest.mark.parametrize("index", [101, -1])
def test_write_past_dynamic_shared_memory(toys: Module, index: int) -> None:
    toys.launch("past_dynamic_shared", 1, 1, [np.uint32(100)], shared_mem=101)
    with pytest.raises(SanitizerError, match="AddressSanitizer"):
        toys.launch("past_dynamic_shared", 1, 1, [np.int32(index).view(np.uint32)], shared_mem=101)


def test_write_past_static_shared_memory(toys: Module) -> None:
    toys.launch("past_static_shared", 1, 1, [np.uint32(4)])
    with pytest.raises(SanitizerError, match="heap-buffer-overflow"):
        toys.launch("past_static_shared", 1, 1, [np.uint32(5)])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="swapcontext under ASan forgets the red zones of stacks")
def test_write_past_a_local_array(toys: Module) -> None:
    out = np.zeros(1, np.uint32)
    toys.launch("past_local", 2, 64, [np.uint32(7), out])
    with pytest.raises(SanitizerError, match="stack-buffer-overflow"):
        toys.launch("past_local", 2, 64, [np.uint32(8), out])


def test_misaligned_vector(toys: Module) -> None:
    data, out = np.arange(64, dtype=np.uint8), np.zeros(16, np.uint8)
    toys.launch("load16", 1, 1, [data, np.uint32(48), out])
    np.testing.assert_array_equal(out, data[48:])
    with pytest.raises(SanitizerError, match=r"toys\.cu.*misaligned address"):
        toys.launch("load16", 1, 1, [data, np.uint32(8), out])


def test_vector_that_sticks_out(toys: Module) -> None:
    with pytest.raises(SanitizerError, match="heap-buffer-overflow"):
        toys.launch("load16", 1, 1, [np.zeros(63, np.uint8), np.uint32(48), np.zeros(16, np.uint8)])


def test_shift_by_32(toys: Module) -> None:
    with pytest.raises(SanitizerError, match="shift exponent 32 is too large"):
        toys.launch("shift", 1, 1, [np.zeros(1, np.uint32), np.uint32(32)])


def test_barrier_in_a_branch(toys: Module) -> None:
    with pytest.raises(SanitizerError, match="different barriers"):
        toys.launch("barrier_in_branch", 1, 64, [np.zeros(1, np.uint32)])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_deadlock(toys: Module, schedule: str) -> None:
    with pytest.raises(SanitizerError, match=r"(?s)deadlock.*threads 0 to 0: __syncwarp.*threads 1 to 31: __syncthr"):
        toys.launch("deadlock", 1, 32, [], schedule=schedule)


def test_wrong_clusters(emulator: Emulator) -> None:
    cases: list[tuple[str, list[object], str]] = [
        ("left_too_early", [np.zeros(1, np.uint32)], "shared memory of a block that has ended"),
        ("past_the_cluster", [np.zeros(1, np.uint32)], "a block that the cluster does not have"),
        ("past_the_block", [np.zeros(1, np.uint32), np.uint32(1)], "AddressSanitizer"),
        ("cluster_deadlock", [], r"(?s)0 to 1: a barrier of the cluster.*\(1, 0, 0\).*threads 1 to 1: __syncthr"),
    ]
    for kernel, arguments, match in cases:
        with Emulator() as one, pytest.raises(SanitizerError, match=match):
            one.load(TOYS).launch(kernel, 2, 2, arguments, shared_mem=4)
    with pytest.raises(EmulatorError, match="no whole number of clusters"):
        emulator.load(TOYS).launch("cluster_deadlock", 3, 2, [])


def test_lane_outside_its_mask(toys: Module) -> None:
    with pytest.raises(SanitizerError, match="mask does not name it"):
        toys.launch("not_in_mask", 1, 2, [])


def test_missing_barrier_depends_on_the_schedule(toys: Module) -> None:
    """Each schedule is legal, so what differs between them is a race; garbage in shared memory shows it too."""
    results = {}
    for schedule in SCHEDULES:
        results[schedule] = np.zeros(64, np.uint32)
        toys.launch("missing_barrier", 1, 64, [results[schedule]], schedule=schedule)
    expected = np.arange(64)[::-1]
    assert any((result != expected).any() for result in results.values())
    assert (results["forward"] != results["reverse"]).any()


def test_endless_loop(emulator: Emulator) -> None:
    emulator.timeout = 0.5
    toys = emulator.load(TOYS)
    with pytest.raises(SanitizerError, match="endless loop"):
        toys.launch("endless", 1, 1, [np.zeros(1, np.uint32)])


@pytest.mark.parametrize(
    ("kernel", "block", "arguments", "match"),
    [
        ("nothing", 1, [], "no kernel nothing"),
        ("scan", 2048, [None, None, None, np.uint32(0)], "2048 threads"),
        ("deadlock", 32, [np.uint32(0)], "takes 0 arguments, not 1"),
        ("shift", 1, [None, np.uint64(1)], "argument 1 has 8 bytes, its parameter is a number of 4"),
    ],
)
def test_wrong_launches(toys: Module, kernel: str, block: int, arguments: list[object], match: str) -> None:
    with pytest.raises(EmulatorError, match=match):
        toys.launch(kernel, 1, block, arguments)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("__global__ void k() {}", "the shim knows kernels written"),
        ("template <int n> __global__ void k() {}", "the shim knows kernels written"),
        ('extern "C" __global__ void k() { extern __shared__ int x[]; }', "DYNAMIC_SHARED"),
        ('extern "C" __global__ void k() { __shared__ int x[3], y; }', "one __shared__ variable"),
        ("int x;", "no kernels"),
        ('extern "C" __global__ void k() { error; }', "error"),
    ],
)
def test_sources_the_shim_refuses(emulator: Emulator, tmp_path: Path, source: str, match: str) -> None:
    file = tmp_path / "k.cu"
    file.write_text(source + "\n")
    with pytest.raises(build.BuildError, match=match):
        emulator.load(file)
