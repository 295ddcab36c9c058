"""The FSST codec on an emulated GPU: what its tests share (see tests/emulation).

Segments are made much smaller than the format's rule, so that a small column has many.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from cudf_fsst.buffers import DeviceStrings, HostStrings
from cudf_fsst.codecs.fsst.tuning import Choices
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text import launch as text_launch
from cudf_fsst.codecs.text.choose import codec_of
from cudf_fsst.codecs.text.segment import Segment, Segments
from cudf_fsst.codecs.text.views import count_places
from emulation.device import FakeDevice, emulated
from emulation.emulator import Buffer, Emulator

SEGMENT = 40_000
WORDS = b"the quick brown fox jumps over lazy dogs carefully final deposits sleep above ironic requests".split()


class TextCalls:
    """Calls for one column of text in GPU memory, beside those of `codecs.text.cuda` and of copies."""

    def __init__(self) -> None:
        text = ("cuda", "cuda_read", "cuda_gather", "cuda_task")
        names = *(f"codecs.text.{name}" for name in text), "device.transfer", "device.memory", "device.waits"
        modules: Any = (importlib.import_module(f"cudf_fsst.{name}") for name in names)
        self._text, self._read, self._gather, self._task, self._transfer, self._memory, self._waits = modules

    def __getattr__(self, name: str) -> Any:
        return next(getattr(one, name) for one in (self._text, self._read, self._transfer) if hasattr(one, name))

    def compress(
        self,
        strings: DeviceStrings,
        codec: str | None = None,
        *,
        stream: Any = None,
        outbox: Any = None,
        **options: Any,
    ) -> list[Segment]:
        """Compress by a codec, or that of a table; `options` are ``table``, ``tile_size`` and ``level``."""
        given: dict[str, Any] = {"table": None, "tile_size": "auto", "level": "default"} | options
        task = self._task.TextTask(strings, **given)
        with self._memory.Lane(stream) as lane:
            steps = self._text.steps([codec_of(codec, given["table"])], [task], lane=lane, outbox=outbox)
            ((segments,),) = self._waits.run(lane, steps)
            return list(segments)

    def decompress(self, segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
        """All rows."""
        with self._memory.Lane(stream) as lane:
            return self._read.read([segments], lane=lane)[0]

    def take_range(self, segments: Sequence[Segment], start: int, stop: int, *, stream: Any = None) -> DeviceStrings:
        """Rows ``start:stop``."""
        with self._memory.Lane(stream) as lane:
            return self._read.read([segments], lane=lane, start=start, stop=stop)[0]

    def take(self, segments: Sequence[Segment], rows: Any, *, stream: Any = None) -> DeviceStrings:
        """Rows by number."""
        with self._memory.Lane(stream) as lane:
            return self._gather.take([segments], rows, lane=lane)[0]


class Gpu:
    """The FSST codec on an emulated GPU."""

    def __init__(self, device: FakeDevice) -> None:
        self.device, self.emulator, self.cuda = device, device.emulator, TextCalls()
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
            chars_limit=strings.chars.size if strings.offsets[-1] - strings.offsets[0] == strings.chars.size else None,
        )

    def download(self, strings: DeviceStrings) -> HostStrings:
        self.device.default.synchronize()
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
    monkeypatch.setattr(text_launch, "row_grid", lambda *_: 1)  # small columns too have runs of row blocks
    device = FakeDevice(emulator, request.param)
    with emulated(device, "text"):
        yield Gpu(device)


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


_pieces = st.one_of(
    st.binary(max_size=20), st.sampled_from(WORDS), st.sampled_from([b"\0" * 300, b"ab" * 200, b"\xff"])
)
any_rows = st.lists(st.one_of(st.none(), st.lists(_pieces, max_size=8).map(b"".join)), max_size=60)


def check_reads(gpu: Gpu, segments: Sequence[Segment], host: Sequence[Segment]) -> None:
    """All rows, ranges, whole segments, and chosen rows, few and many."""
    rows = sum(segment.rows for segment in segments)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), cpu.read(host))
    kept = Segments(segments)
    for start, stop in (0, rows), (5, rows // 2), (rows - 1, rows), (segments[0].rows, rows), (7, 7):
        same_strings(gpu.download(gpu.cuda.take_range(kept, start, stop)), cpu.read(host, start, stop))
    rng = np.random.default_rng(3)
    for count in 0, 1, 40, 700:
        chosen = rng.integers(0, rows, count)
        same_strings(gpu.download(gpu.cuda.take(kept, chosen)), cpu.take(host, chosen))


def several(rng: np.random.Generator, count: int) -> list[list[bytes | None]]:
    """Columns of so many rows: with few nulls, of single characters, of nothing, of many nulls and giant rows."""
    words = (text(rng, 60 * count) * 9)[:count]
    return [
        [None if i % 700 == 9 else row for i, row in enumerate(words)],
        [b"ANR"[i % 3 : i % 3 + 1] for i in rng.integers(0, 99, count)],
        [b"" for _ in range(count)],
        [None if i % 3 == 0 else row * (1 + 1000 * (i % 500 == 1)) for i, row in enumerate(words)],
    ]


def found_segments(emulator: Emulator, segments: Sequence[bytes], offset: int = 0) -> tuple[Buffer, Buffer]:
    """Characters of segments, `offset` bytes off an aligned address, and what the kernels find of them: a row each."""
    chars = emulator.buffer(np.frombuffer(b"".join(segments), np.uint8), offset=offset)
    places = count_places(0, len(segments))
    numbers = np.zeros(places.end, np.uint64)
    numbers[places.rows_begin : places.chars_begin] = np.cumsum([0, *(len(one) > 0 for one in segments)])
    numbers[places.chars_begin : places.nulls] = np.cumsum([0, *map(len, segments)])
    numbers[places.first_char] = chars.address
    return chars, emulator.buffer(numbers)


def damaged_in_many_places(whole: Segment, rng: np.random.Generator, spared: float) -> Segment:
    """Some sections have values close to the limits, and codes may end too early; `spared`: the share of sections."""
    codes = whole.codes[: whole.codes.size if rng.random() < 0.5 else rng.integers(0, whole.codes.size + 1)].copy()
    damaged = dataclasses.replace(whole, meta=whole.meta.copy(), codes=codes, codes_nbytes=codes.size)
    for name in damaged.layout.sections:
        values = damaged.section(name)
        if values.size == 0 or rng.random() < spared:
            continue
        hit = rng.integers(0, values.size, 1 + values.size // int(rng.choice([1, 5, 100])))
        most = int(np.iinfo(values.dtype).max)
        near = [0, most, most // 2 + 1, codes.size & most, whole.chars & most, int(values[hit[0]]) ^ 1]
        values[hit] = rng.choice(np.array(near, np.uint64), hit.size).astype(values.dtype)
    codes[rng.random(codes.size) < 0.2] = rng.choice([0, 254, 255])
    return damaged


#: Ways to take rows: constants of scratch.py, cuda_take.py and cuda_gather.py.
WAYS: dict[str, dict[str, float]] = {
    "few": {},
    "few do not fit": {"FEW_CHARS": 1},
    "tiles": {},
    "tiles, looked up twice": {"SCRATCH": 1024, "SCRATCH_PART": 1 << 40},
    "whole": {"_TILE_COST": 1},
    "pieces": {"_TILE_COST": 1, "SCRATCH": 2 * SEGMENT, "SCRATCH_PART": 1 << 40, "_LEFT": 0},
}


def order_of(rows: npt.NDArray[np.int64]) -> int:
    """As `cudf_fsst.codecs.chosen.Ordered` has it."""
    return 1 if (np.diff(rows) >= 0).all() else -1 if (np.diff(rows) <= 0).all() else 0


def take_in_a_way(
    way: str, gpu: Gpu, columns: list[list[Segment]], rows: npt.NDArray[np.int64], shares: int | None = None
) -> list[DeviceStrings]:
    """All but the first two with the kernels for many rows, however few there are."""
    from cudf_fsst.codecs import scratch
    from cudf_fsst.codecs.text import cuda_gather, cuda_readings, cuda_take
    from cudf_fsst.device.memory import Lane

    with pytest.MonkeyPatch.context() as patch, Lane() as lane:
        for name, value in WAYS[way].items():
            patch.setattr(next(one for one in (scratch, cuda_take, cuda_gather) if hasattr(one, name)), name, value)
        if shares is not None:
            patch.setattr(cuda_take, "_shares", lambda *_: shares)
            patch.setattr(cuda_gather, "_shares", lambda *_: shares)
        if way in ("few", "few do not fit"):
            return cuda_take.take(columns, rows, lane=lane)
        if way in ("whole", "pieces"):
            patch.setattr(text_launch, "TAKE_ROWS", 0)
            launches = len(gpu.device.launches)
            found = cuda_gather.take(columns, rows, lane=lane, order=order_of(rows))
            assert not rows.size or {"gather_chars", "gather_rows"} & set(gpu.device.launches[launches:])
            return found
        readings = [cuda_readings.reading_of(segments) for segments in columns]
        return cuda_take.Take(readings, rows, lane).many()


#: Choices of launches that are valid, however odd.
ODD = {
    "one warp": Choices(1, 0.125, 1, 0.25),
    "one warp, many blocks": Choices(1, 8, 1, 4),
    "all that fits": Choices(32, 8, 8, 4),
    "five warps, little room": Choices(5, 1.5, 3, 0.3),
}


@pytest.fixture
def forked(request: pytest.FixtureRequest, gpu: Gpu) -> Any:
    """A stream of the caller's own, or None."""
    return gpu.device.stream() if request.param else None
