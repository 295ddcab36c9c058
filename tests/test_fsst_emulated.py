"""The real kernels and the real launches, emulated under the sanitizers, against the CPU codec.

No GPU: see tests/emulation. Segments are made much smaller than the format's rule, so that a small column has many.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.buffers import DeviceStrings, HostStrings
from cudf_fsst.codecs.fsst import cpu, plan
from cudf_fsst.codecs.fsst.segment import Segment
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.format import TILE_SIZES
from emulation.conftest import emulator
from emulation.device import GPUS, FakeDevice, emulated_fsst
from emulation.emulator import SCHEDULES, Buffer, Emulator

__all__ = ["emulator"]

SEGMENT = 40_000
WORDS = b"the quick brown fox jumps over lazy dogs carefully final deposits sleep above ironic requests".split()


class Gpu:
    """The FSST codec on an emulated GPU."""

    def __init__(self, device: FakeDevice, cuda: Any) -> None:
        self.device, self.emulator, self.cuda = device, device.emulator, cuda
        self._inputs: list[Buffer] = []

    def upload(self, strings: HostStrings, *, offset: int = 0) -> DeviceStrings:
        """Exact-size copies; the characters start `offset` bytes off an aligned address."""
        emulator = self.emulator
        bits = strings.validity_offset + strings.rows
        validity = None
        if strings.validity is not None:
            words = np.zeros(-(-bits // 32) * 4, np.uint8)  # cuDF's masks are whole words
            words[: -(-bits // 8)] = strings.validity[: -(-bits // 8)]
            validity = emulator.buffer(words)
        chars = emulator.buffer(strings.chars, offset=offset)
        offsets = emulator.buffer(strings.offsets)
        self._inputs += [chars, offsets]
        return DeviceStrings(
            strings.rows,
            chars.address,
            offsets.address,
            strings.offsets.dtype.itemsize,
            validity.address if validity else 0,
            strings.validity_offset,
            strings.null_count,
        )

    def download(self, strings: DeviceStrings) -> HostStrings:
        offsets_buffer, chars_buffer, validity_buffer = strings.owners
        read = self.emulator.read
        offsets = np.frombuffer(read(offsets_buffer.ptr, offsets_buffer.size), f"<i{strings.offsets_itemsize}")
        chars = np.frombuffer(read(chars_buffer.ptr, chars_buffer.size), np.uint8)
        validity = None
        if validity_buffer is not None and strings.null_count:
            validity = np.frombuffer(read(validity_buffer.ptr, validity_buffer.size), np.uint8)
        return HostStrings(strings.rows, chars, offsets, validity, 0, strings.null_count)


@pytest.fixture(params=["sm_90"])
def gpu(request: pytest.FixtureRequest, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 2 * SEGMENT)
    device = FakeDevice(emulator, request.param)
    with emulated_fsst(device) as cuda:
        yield Gpu(device, cuda)


# ------------------------------------------------------------------------------------------------------------- columns


def column(rows: list[bytes | None], dtype: npt.DTypeLike = np.int32) -> HostStrings:
    lengths = np.array([len(row or b"") for row in rows], np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    chars = np.frombuffer(b"".join(row or b"" for row in rows), np.uint8)
    valid = np.array([row is not None for row in rows], bool)
    nulls = int((~valid).sum())
    validity = np.packbits(valid, bitorder="little") if nulls else None
    return HostStrings(len(rows), chars, offsets, validity, 0, nulls)


def text(rng: np.random.Generator, chars: int) -> list[bytes]:
    rows, total = [], 0
    while total < chars:
        rows.append(b" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(0, 12))))
        total += len(rows[-1])
    return rows


def columns(rng: np.random.Generator) -> dict[str, HostStrings]:
    """Named cases."""
    words = text(rng, 30_000)
    with_nulls: list[bytes | None] = [None if rng.random() < 0.3 else row for row in words]
    random = rng.integers(0, 256, 20_000, dtype=np.uint8).tobytes()
    return {
        "one segment": column(list(words)),
        "int64 offsets": column(list(words), np.int64),
        "three segments, two tables": column(list(text(rng, 2 * SEGMENT + 20_000))),
        "nulls": column(with_nulls),
        "all null": column([None] * 700),
        "empty rows": column([b""] * 300),
        "one byte": column([b"x"]),
        "rows of one byte": column([bytes([i % 7 + 65]) for i in range(3000)]),
        "random bytes": column([random[i : i + 37] for i in range(0, len(random), 37)]),
        "text, then random bytes, then text": column([words[0] * 99, random[:9000], words[1] * 99]),
        "escapes first": column([(random[:40] + b"deposits" * 27) for _ in range(60)]),
        "a row longer than a segment": column([b"a", b" ".join(text(rng, 3 * SEGMENT)), b"b", b"final deposits " * 50]),
        "rows of very different lengths": column([b"ab" * int(n) for n in rng.geometric(0.004, 300)]),
    }


CASES = tuple(columns(np.random.default_rng(1)))


def same_segments(found: list[Segment], expected: list[Segment]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.layout == other.layout
        assert one.null_count == other.null_count
        assert one.table == other.table
        np.testing.assert_array_equal(one.codes, other.codes)
        for name in one.layout.sections:
            np.testing.assert_array_equal(one.section(name), other.section(name), err_msg=name)
        np.testing.assert_array_equal(one.meta, other.meta)


def same_strings(found: HostStrings, expected: HostStrings) -> None:
    assert found.rows == expected.rows
    assert found.null_count == expected.null_count
    assert found.offsets.dtype == expected.offsets.dtype
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.chars, expected.chars)
    if expected.null_count:
        assert found.validity is not None
        assert expected.validity is not None
        one, other = (np.unpackbits(v, bitorder="little")[: found.rows] for v in (found.validity, expected.validity))
        np.testing.assert_array_equal(one, other)


# --------------------------------------------------------------------------------------------- the same as on the CPU


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str, gpu: Gpu) -> None:
    strings = columns(np.random.default_rng(1))[case]
    expected = cpu.compress(strings)
    segments = gpu.cuda.compress(gpu.upload(strings))
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), cpu.decompress(expected))


_pieces = st.one_of(
    st.binary(max_size=20), st.sampled_from(WORDS), st.sampled_from([b"\0" * 300, b"ab" * 200, b"\xff"])
)
_rows = st.lists(st.one_of(st.none(), st.lists(_pieces, max_size=8).map(b"".join)), max_size=60)


@given(rows=_rows, copies=st.integers(1, 12), tile_size=st.sampled_from(TILE_SIZES))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(rows: list[bytes | None], copies: int, tile_size: int, gpu: Gpu) -> None:
    strings = column(rows * copies)
    expected = cpu.compress(strings, tile_size=tile_size)
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.parametrize("gpu", GPUS, indirect=True)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_tile_sizes_and_gpus(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Shared memory decides how many warps a block has and how many codes are staged at once."""
    noise = rng.integers(0, 256, 30_000, dtype=np.uint8).tobytes()
    strings = column([*text(rng, SEGMENT), noise, *text(rng, SEGMENT // 2)])
    expected = cpu.compress(strings, tile_size=tile_size)
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
def test_other_schedules(schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever order blocks, warps and lanes run in."""
    gpu.emulator.schedule = schedule
    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, SEGMENT + 5000)]
    strings = column(rows)
    segments = gpu.cuda.compress(gpu.upload(strings))
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings))
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.parametrize("offset", [1, 2, 7, 8, 15])
def test_slices(offset: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Rows from the middle of a column: characters start anywhere, validity at any bit."""
    rows: list[bytes | None] = [None if rng.random() < 0.2 else row for row in text(rng, 8000)]
    whole = column(rows)
    sliced = dataclasses.replace(
        whole,
        rows=whole.rows - 2 * offset,
        offsets=whole.offsets[offset : whole.rows - offset + 1],
        validity_offset=offset,
        null_count=sum(row is None for row in rows[offset : whole.rows - offset]),
    )
    segments = gpu.cuda.compress(gpu.upload(sliced, offset=offset))
    same_segments(gpu.cuda.to_host(segments), cpu.compress(sliced))
    same_strings(gpu.download(gpu.cuda.decompress(segments)), column(rows[offset : whole.rows - offset]))


def test_a_given_table(gpu: Gpu, rng: np.random.Generator) -> None:
    """Tables that our training does not make: prefixes of each other, symbols that share a hash slot."""
    for symbols in ([b"a"], [b"th", b"the", b"the q", b"the qu", b" ", b"e", b"\xff", b"de", b"deposits"], []):
        table = SymbolTable.from_symbols(symbols)
        strings = column(list(text(rng, 6000)))
        segments = gpu.cuda.compress(gpu.upload(strings), table=table)
        same_segments(gpu.cuda.to_host(segments), cpu.compress(strings, table=table))
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.parametrize("nulls", [False, True])
def test_take(nulls: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    rows: list[bytes | None] = [None if nulls and rng.random() < 0.2 else row for row in text(rng, 2 * SEGMENT)]
    rows[10] = b"final deposits sleep " * 200
    segments = cpu.compress(column(rows))
    on_gpu = gpu.cuda.to_device(segments)
    wanted = np.array([10, 10, 0, len(rows) - 1, *rng.integers(0, len(rows), 60)], np.int64)
    for chosen in (wanted, wanted[:1], wanted[:0], np.sort(wanted)):
        same_strings(gpu.download(gpu.cuda.take(on_gpu, chosen)), cpu.take(segments, chosen))
    for start, stop in ((0, len(rows)), (3, 900), (10, 11), (len(rows) - 5, len(rows)), (7, 7), (1, len(rows) - 1)):
        same_strings(gpu.download(gpu.cuda.take_range(on_gpu, start, stop)), cpu.take_range(segments, start, stop))


def test_segments_of_different_tile_sizes(gpu: Gpu, rng: np.random.Generator) -> None:
    segments, rows = [], []
    for tile_size in (512, 128, 512, 1024):
        part = text(rng, 5000)
        rows += part
        segments += cpu.compress(column(list(part)), tile_size=tile_size)
    segments += cpu.compress(column([b""] * 5))
    strings = gpu.cuda.decompress(gpu.cuda.to_device(segments))
    same_strings(gpu.download(strings), column([*rows, *[b""] * 5]))


# ------------------------------------------------------------------------------------------------------ damaged input


@pytest.mark.parametrize("tile_size", [256, 512])
@pytest.mark.parametrize(
    "part", ["codes", "block_starts", "row_starts", "row_minima", "row_words", "tile_lengths", "row_bits", "validity"]
)
def test_damaged_segments(part: str, tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Wrong characters are fine, and so is ValueError; touching other memory is not, and the sanitizers watch."""
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
        chosen = rng.integers(0, 3 * len(rows), 60)
        chosen[0] = len(rows) + 100
        with contextlib.suppress(ValueError):
            gpu.cuda.take(segments, chosen)
        for start, stop in ((len(rows) + 90, len(rows) + 400), (50, len(rows) + 101), (len(rows) + 101, 3 * len(rows))):
            with contextlib.suppress(ValueError):
                gpu.cuda.take_range(segments, start, stop)


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
