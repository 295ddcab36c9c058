"""Damaged segments on an emulated GPU: nothing outside the buffers is touched, and the sanitizers watch."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

from cudf_fsst.codecs import registry
from cudf_fsst.codecs.text import cpu, validate
from cudf_fsst.codecs.text import launch as text_launch
from cudf_fsst.codecs.text.layout import TILE_SIZES
from emulation.conftest import emulator
from emulation.emulator import SCHEDULES
from fsst_gpu import WAYS, Gpu, column, damaged_in_many_places, gpu, take_in_a_way, text

__all__ = ["emulator", "gpu"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile_size", [256, 512])
@pytest.mark.parametrize(
    "part", ["codes", "block_starts", "row_starts", "row_minima", "row_words", "tile_lengths", "row_bits", "validity"]
)
def test_damaged_segments(part: str, tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Wrong characters are fine, and so is ValueError; touching other memory is not, and the sanitizers watch."""
    gpu.device.order = "eager"
    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, 15_000)]
    rows[100] = rng.integers(0, 256, 3000, dtype=np.uint8).tobytes()
    (segment,) = cpu.compress(column(rows), tile_size=tile_size)
    for round_ in range(6):
        meta, codes = segment.meta.copy(), segment.codes.copy()
        if part == "codes":
            target = codes
        else:
            place = segment.layout.sections[part]
            target = meta[place.offset : place.offset + place.nbytes]
        if round_ < 3:
            target[:] = (0, 255, 127)[round_]
        elif round_ == 3:
            target[:] = rng.integers(0, 256, target.size)
        else:
            hit = rng.integers(0, target.size, 1 + target.size // 50)
            target[hit] = rng.integers(0, 256, hit.size)
        # Whole neighbours on both sides: what is wrong in one must not reach into another.
        segments = gpu.cuda.to_device([segment, dataclasses.replace(segment, meta=meta, codes=codes), segment])
        with contextlib.suppress(ValueError):
            gpu.cuda.decompress(segments)
        chosen = rng.integers(0, 3 * len(rows), 300)
        chosen[0] = len(rows) + 100
        for way in WAYS:
            for some in (chosen[:60], np.sort(chosen)):
                with contextlib.suppress(ValueError):
                    take_in_a_way(way, gpu, [segments, segments[1:] * 2], some % (2 * len(rows)))
        for start, stop in ((len(rows) + 90, len(rows) + 400), (50, len(rows) + 101), (len(rows) + 101, 3 * len(rows))):
            with contextlib.suppress(ValueError):
                gpu.cuda.take_range(segments, start, stop)


@pytest.mark.parametrize("name", ["meta", "codes"])
def test_truncated_buffers(name: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Nothing is launched that would read behind their ends."""
    from cudf_fsst.codecs.text import cuda_row
    from cudf_fsst.device.memory import Lane

    (segment,) = cpu.compress(column(list(text(rng, 3000))))
    for nbytes in (0, getattr(segment, name).size - 1):
        short = dataclasses.replace(segment, **{name: getattr(segment, name)[:nbytes]})
        with pytest.raises(ValueError, match=r"damaged segment: (meta|codes) has \d+ bytes, not"):
            cpu.read([short])
        segments = gpu.cuda.to_device([segment, short])
        for read, *arguments in (
            (gpu.cuda.decompress, segments),
            (gpu.cuda.take, segments, np.array([1, segment.rows])),
            (gpu.cuda.take_range, segments, 0, segment.rows + 1),
            (gpu.cuda.receive, [segment, short]),
        ):
            with pytest.raises(ValueError, match=r"damaged segment: (meta|codes) has \d+ bytes, not"):
                read(*arguments)
        with Lane() as lane:
            assert cuda_row.read_row(segments, 2 * segment.rows - 1, lane) is None
    assert gpu.device.launches == []


@pytest.mark.parametrize("first", [90, 3000])
def test_range_that_ends_before_it_begins(first: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """A damaged last row block sends the range's end to the segment's start; a whole segment may stand before it."""
    (segment,) = cpu.compress(column([bytes([65 + i % 20]) * (i % 11) for i in range(3500)]))
    meta = segment.meta.copy()
    dataclasses.replace(segment, meta=meta).section("row_minima")[-1] = 2**32 - 1
    damaged = dataclasses.replace(segment, meta=meta)
    with contextlib.suppress(ValueError):
        gpu.cuda.take_range(gpu.cuda.to_device([damaged]), first, segment.rows)
    with contextlib.suppress(ValueError):
        gpu.cuda.take_range(gpu.cuda.to_device([segment, damaged]), first, 2 * segment.rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"], indirect=True)
@pytest.mark.parametrize("seed", range(3))
def test_damage_in_many_places(seed: int, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several sections at once, values close to the limits, codes that end too early."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(text_launch, "decode_bundles", lambda *_: 1 << seed)
    gpu.emulator.schedule = SCHEDULES[seed]
    gpu.device.order = "eager"
    for _ in range(6):
        words = text(rng, int(rng.integers(1, 40_000)))
        rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in words]
        noise = rng.integers(0, 256, int(rng.integers(0, 9000)), dtype=np.uint8)
        rows[int(rng.integers(0, len(rows)))] = noise.tobytes()
        whole, *_ = cpu.compress(column(rows), tile_size=int(rng.choice(TILE_SIZES)))
        (other,) = cpu.compress(column(list(text(rng, 3000))), tile_size=int(rng.choice(TILE_SIZES)))
        damaged = damaged_in_many_places(whole, rng, spared=0.6)
        segments = gpu.cuda.to_device([other, damaged, whole] if rng.random() < 0.5 else [damaged])
        count = sum(segment.rows for segment in segments)
        with contextlib.suppress(ValueError):
            gpu.cuda.decompress(segments)
        for way in WAYS:
            for number in (40, 600):
                with contextlib.suppress(ValueError, MemoryError):
                    take_in_a_way(way, gpu, [segments], np.sort(rng.integers(0, count, number)))
        for _ in range(3):
            start, stop = np.sort(rng.integers(0, count + 1, 2))
            with contextlib.suppress(ValueError):
                gpu.cuda.take_range(segments, int(start), int(stop))


@pytest.mark.parametrize("codec", ["fsst", "onpair"])
@pytest.mark.parametrize("tile_size", [256, 1024])
def test_codes_are_checked_as_on_the_host(tile_size: int, codec: str, gpu: Gpu, rng: np.random.Generator) -> None:
    from cudf_fsst.codecs.text import cuda_check
    from cudf_fsst.device.memory import Lane

    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, 25_000)]
    rows[100] = rng.integers(0, 256, 9000, dtype=np.uint8).tobytes()
    (segment,) = cpu.compress(column(rows), registry.of_text(codec), tile_size=tile_size)
    (other,) = cpu.compress(column(list(text(rng, 3000))), tile_size=128)
    said = set()
    for hits in (0, 1, 1, 2, 2, 30):
        codes = segment.codes.copy()
        codes[rng.integers(0, codes.size, hits)] = rng.choice([0, 254, 255], hits)
        damaged = dataclasses.replace(segment, codes=codes)
        wanted = None
        try:
            validate.check(damaged)
        except ValueError as error:
            wanted = str(error).replace("codes: ", "second: ")
        moved = gpu.cuda.to_device([other, damaged, other])
        with Lane() as lane:
            try:
                cuda_check.check_codes(list(zip(("first", "second", "third"), moved, strict=True)), lane=lane)
                found = None
            except ValueError as error:
                found = str(error)
        assert found == wanted
        said.add(wanted and wanted.partition(" has")[0].partition(" does")[0])
    assert len(said) > 2
