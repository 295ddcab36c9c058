"""How the FSST kernels are launched on an emulated GPU: choices of launches, streams, memory that runs out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudf_fsst.codecs.fsst import tuning
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.layout import TILE_SIZES
from emulation.conftest import emulator
from emulation.device import GPU_NAME, ORDERS, failing_every_allocation
from fsst_gpu import ODD, SEGMENT, Gpu, column, forked, gpu, same_segments, same_strings, text

__all__ = ["emulator", "forked", "gpu"]

#: What makes an entry useless: a change of a valid one's text.
USELESS: dict[str, Callable[[str], str]] = {
    "empty": lambda entry: "",
    "cut": lambda entry: entry[: len(entry) // 2],
    "not JSON": lambda entry: "one warp, please",
    "another GPU": lambda entry: entry.replace(GPU_NAME, "Imagined GPU"),
    "old kernels": lambda entry: re.sub('"kernels": "....', '"kernels": "0000', entry),
    "no warps": lambda entry: entry.replace('"encode_warps": 5', '"encode_warps": 0'),
    "too many warps": lambda entry: entry.replace('"decode_warps": 3', '"decode_warps": 9'),
    "too little room": lambda entry: entry.replace('"decode_capacity": 0.3', '"decode_capacity": 0.0'),
    "no number": lambda entry: entry.replace('"encode_blocks": 1.5', '"encode_blocks": NaN'),
}


@pytest.mark.sampled(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"], indirect=True)
@pytest.mark.parametrize("case", [*ODD, *USELESS])
def test_launch_choices_change_no_byte(
    case: str, gpu: Gpu, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv(tuning.CACHE_VARIABLE, str(tmp_path))
    model = f"{GPU_NAME} sm_00"
    tile_sizes = (TILE_SIZES[0], TILE_SIZES[-1])
    chosen = ODD.get(case, ODD["five warps, little room"])
    file = tuning.save(model, dict.fromkeys(tile_sizes, chosen), {})
    if case in USELESS:
        whole = file.read_text()
        file.write_text(USELESS[case](whole))
        assert file.read_text() != whole
    noise = rng.integers(0, 256, 9_000, dtype=np.uint8).tobytes()
    strings = column([*text(rng, SEGMENT), noise, *text(rng, SEGMENT // 2)])
    for tile_size in tile_sizes:
        expected = cpu.compress(strings, tile_size=tile_size)
        gpu.device.shapes.clear()
        segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size)
        same_segments(gpu.cuda.to_host(segments), expected)
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
        same_strings(gpu.download(gpu.cuda.take_range(segments, 3, 900)), cpu.read(expected, 3, 900))
        shapes = gpu.device.shapes
        if case.startswith("one warp"):
            assert {block for _, block in shapes["fsst_encode"] | shapes["fsst_decode"]} == {(32,)}
        if case == "one warp":
            assert {grid for grid, _ in shapes["fsst_encode"]} == {(1, 1)}
    ignored = [record.getMessage() for record in caplog.records if record.name == "cudf_fsst"]
    assert len(ignored) == (case in USELESS), "one warning, not one a call"
    assert all(str(file) in line for line in ignored)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("giant", [False, True])
def test_order_on_the_callers_stream(giant: bool, order: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """What the caller enqueues on the stream after compress() comes after all that reads input or writes results."""
    gpu.device.order = order
    stream = gpu.device.stream()
    rows: list[bytes | None] = [*text(rng, 5 * SEGMENT)]
    if giant:  # encoded in two passes, of which nobody waits for the second
        rows.append(b" ".join(text(rng, 2 * SEGMENT)))
    strings = column(rows)
    expected = cpu.compress(strings)
    uploaded = gpu.upload(strings)
    segments = gpu.cuda.compress(uploaded, stream=stream)
    stream.enqueue(partial(gpu.emulator.write, uploaded.chars, b"\xee" * strings.chars.size))
    stream.synchronize()
    for found, wanted in zip(segments, expected, strict=True):
        codes = np.frombuffer(gpu.emulator.read(found.codes.ptr, found.codes.size), np.uint8)
        assert np.array_equal(codes, wanted.codes)
    same_segments(gpu.cuda.to_host(segments), expected)


@pytest.mark.parametrize("giant", [False, True])
def test_encoding_begins_before_memory_is_taken(
    giant: bool, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of long columns, before the rows are known; `giant`: in vain, as there is one segment with rows."""
    from cudf_fsst.codecs.text import cuda_long

    taken: list[int] = []
    encode = cuda_long.encode
    monkeypatch.setattr(cuda_long, "encode", lambda *args: (taken.append(len(allocations)), encode(*args))[1])
    rows: list[bytes | None] = [*text(rng, 5 * SEGMENT + 999)]
    strings = column([b" ".join(filter(None, rows))] if giant else rows)
    uploaded, allocations = gpu.upload(strings), gpu.device.allocations
    allocations.clear()
    gpu.device.launches.clear()
    segments = gpu.cuda.compress(uploaded)
    count, workspace = len(segments), len(allocations) - 2 * len(segments)
    assert count == (1 if giant else 6)
    # Two before any memory is taken. Then a slot is two: whenever one is free, two are encoded.
    assert taken[:2] == [workspace, workspace]
    if giant:
        assert set(taken[2:]) == {workspace + 1, workspace + 2}
    else:
        assert taken[2:] == [workspace + count + done for done in (1, 1, 2, 2)]
    train = gpu.device.launches[1]
    assert train in ("fsst_train", "fsst_train_cluster")
    looked = ["segment_begins", train, "row_lengths_measure", "row_lengths_scan"]
    assert gpu.device.launches[:6] == [*looked, "fsst_encode", "fsst_encode"]
    assert gpu.device.launches.count("row_lengths_pack") == 1
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings))


def test_codes_outgrow_a_part_of_a_slot(gpu: Gpu, rng: np.random.Generator) -> None:
    """The first segment says that two fit a slot, and later ones do not: these are encoded in steps."""
    random = rng.integers(0, 256, 3 * SEGMENT, dtype=np.uint8).tobytes()
    rows: list[bytes | None] = [*text(rng, 2 * SEGMENT), *(random[i : i + 50] for i in range(0, len(random), 50))]
    strings = column([*rows, *text(rng, 2 * SEGMENT)])
    gpu.device.launches.clear()
    segments = gpu.cuda.compress(gpu.upload(strings))
    assert gpu.device.launches.count("fsst_encode") > len(segments) + 2
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings))


def test_codes_that_need_whole_slots(gpu: Gpu, rng: np.random.Generator) -> None:
    """The first segment says so."""
    random = rng.integers(0, 256, 4 * SEGMENT, dtype=np.uint8).tobytes()
    strings = column([random[i : i + 50] for i in range(0, len(random), 50)])
    gpu.device.launches.clear()
    segments = gpu.cuda.compress(gpu.upload(strings))
    assert gpu.device.launches.count("fsst_encode") == len(segments)
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings))


@pytest.mark.trains
@pytest.mark.sampled(2)
@pytest.mark.parametrize("forked", [False, True], indirect=True, ids=["default stream", "own stream"])
@pytest.mark.parametrize("order", ORDERS)
def test_streams(order: str, forked: Any, gpu: Gpu, rng: np.random.Generator) -> None:
    """Nothing but what is waited for is sure to have happened."""
    gpu.device.order = order
    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, 3 * SEGMENT)]
    rows[5] = b" ".join(text(rng, 2 * SEGMENT))  # encoded in two passes
    strings = column(rows)
    expected = cpu.compress(strings)
    uploaded = gpu.upload(strings)
    segments = gpu.cuda.compress(uploaded, stream=forked)
    assert gpu.cuda.train(uploaded, stream=forked) == cpu.train(strings)
    on_host = gpu.cuda.to_host(segments, stream=forked)
    same_segments(on_host, expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments, stream=forked)), strings)
    again = gpu.cuda.to_device(on_host, stream=forked)
    found = gpu.cuda.take_range(again, 3, len(rows) - 3, stream=forked)
    same_strings(gpu.download(found), cpu.read(expected, 3, len(rows) - 3))
    wanted = rng.integers(0, len(rows), 50)
    same_strings(gpu.download(gpu.cuda.take(again, wanted, stream=forked)), cpu.take(expected, wanted))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("forked", [False, True], indirect=True, ids=["default stream", "own stream"])
def test_out_of_memory(forked: Any, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whichever allocation fails, nothing stays behind and nothing else suffers."""
    device, cuda = gpu.device, gpu.cuda
    device.order = "random"
    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, SEGMENT)]
    rows[5] = b" ".join(text(rng, SEGMENT + 9000))
    strings = column(rows)
    uploaded = gpu.upload(strings)
    segments = cuda.compress(uploaded)
    on_host = cuda.to_host(segments)
    wanted = rng.integers(0, len(rows), 50)
    calls: list[Callable[[], Any]] = [
        lambda: cuda.compress(uploaded, stream=forked),
        lambda: cuda.train(uploaded, stream=forked),
        lambda: cuda.decompress(segments, stream=forked),
        lambda: cuda.take(segments, wanted, stream=forked),
        lambda: cuda.take_range(segments, 5, 900, stream=forked),
        lambda: cuda.to_device(on_host, stream=forked),
    ]

    def look(left: set[int]) -> None:
        assert len(left) <= 1, "the traceback keeps what has been made"

    failing_every_allocation(device, calls[0], look)
    for call in calls[1:]:
        failing_every_allocation(device, call)
    same_segments(cuda.to_host(cuda.compress(uploaded)), cpu.compress(strings))
    same_strings(gpu.download(cuda.decompress(segments)), strings)
