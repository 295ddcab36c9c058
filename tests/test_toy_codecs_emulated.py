"""The toy codecs on an emulated GPU: that of text alone and beside another codec in one column, that of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import toy_text
import toy_values
from cudf_fsst.buffers import CharactersUnderNulls, ColumnBuffers, HostStrings
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.span import Span
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text import cpu, plan, search
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment, Segments
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator
from fsst_gpu import SEGMENT, Gpu, check_reads, column, same_segments, text

__all__ = ["emulator", "gpu"]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registry.registered(values=[toy_values], texts=[toy_text]):
        yield


@pytest.fixture
def gpu(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT)
    device = FakeDevice(emulator)
    with emulated(device, "text"):
        yield Gpu(device)


def rows_of(count: int, seed: int = 0) -> HostStrings:
    """Strings with nulls, rows of several tiles and bytes that have no code."""
    rng = np.random.default_rng(seed)
    rows: list[bytes | None] = [*text(rng, count), None, b"", b"aabbcc" * 300, bytes(range(256)), b"\0\0\0"]
    order = rng.permutation(len(rows))
    return column([None if i % 11 == 0 else rows[i] for i in order])


def of_codecs(gpu: Gpu, names: list[str], tile_size: int) -> list[Segment]:
    """Segments of several codecs, in GPU memory."""
    host: list[Segment] = []
    for seed, name in enumerate(names):
        host += cpu.compress(rows_of(SEGMENT, seed), registry.of_text(name), tile_size=tile_size)
    return list(gpu.cuda.to_device(host))


@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("names", [[toy_text.NAME], [toy_text.NAME, "fsst", toy_text.NAME, "fsst"]], ids=len)
def test_reads(gpu: Gpu, names: list[str], tile_size: int) -> None:
    """All rows, ranges, whole segments, and chosen rows, few and many."""
    segments = of_codecs(gpu, names, tile_size)
    host = gpu.cuda.to_host(segments)
    check_reads(gpu, segments, host)


def test_compress(gpu: Gpu) -> None:
    """Through the codec's name and its table, beside columns of other codecs; the same bytes as on the host."""
    strings = [rows_of(1000 * (seed + 1), seed) for seed in range(4)]
    table = toy_text.ToyTable()
    options = {"tile_size": 256, "level": "default"}
    wanted = [
        ColumnTask(buffers(gpu, strings[0]), toy_text.NAME, {**options, "table": None}),
        ColumnTask(buffers(gpu, strings[1]), None, {**options, "table": None}),
        ColumnTask(buffers(gpu, strings[2]), None, {**options, "table": table}),
        ColumnTask(buffers(gpu, strings[3]), "fsst", {**options, "table": None}),
    ]
    import cudf_fsst.codecs.device as on_device
    from cudf_fsst.device.memory import Lane

    with Lane() as lane:
        nodes = on_device.compress(wanted, lane=lane)
    codecs = [toy_text.NAME, "fsst", toy_text.NAME, "fsst"]
    assert [node.codec for node in nodes] == codecs
    for node, one, name in zip(nodes, strings, codecs, strict=True):
        expected = cpu.compress(one, registry.of_text(name), tile_size=256)
        for segment, other in zip(gpu.cuda.to_host(list(node.segments)), expected, strict=True):
            assert segment.table == other.table
            assert segment.meta.tobytes() == other.meta.tobytes()
            assert segment.codes.tobytes() == other.codes.tobytes()
    assert gpu.cuda.train(gpu.upload(strings[0]), toy_text.NAME) == table


def test_characters_under_nulls(gpu: Gpu) -> None:
    """Whoever has them is told, as by codecs that encode on the GPU."""
    strings = column([b"a", b"bc", None])
    strings.offsets = np.array([0, 1, 2, 3], np.int32)  # "c" is under the null
    with pytest.raises(CharactersUnderNulls):
        gpu.cuda.compress(gpu.upload(strings), toy_text.NAME)


def buffers(gpu: Gpu, strings: HostStrings) -> ColumnBuffers:
    return ColumnBuffers(pa.string(), strings.rows, strings.null_count, strings=gpu.upload(strings))


def test_questions_are_left_to_decoding(gpu: Gpu) -> None:
    from cudf_fsst.codecs.device import match
    from cudf_fsst.codecs.node import Node
    from cudf_fsst.device.memory import Lane

    segments = of_codecs(gpu, [toy_text.NAME, "fsst"], 256)
    node = Node(pa.string(), sum(segment.rows for segment in segments), 0, segments=tuple(segments))
    asked = search.plan(search.Count(b"ab"))
    assert asked is not None
    with Lane() as lane:
        assert match(node, asked, lane=lane) is None


def test_questions_go_to_the_codec_of_all_segments(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it answers them on its codes."""
    from cudf_fsst import automata
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    asked, machine = search.plan(search.Count(b"ab")), automata.compile_pattern("a.*b", 0, "contains", automata.PYTHON)
    assert asked is not None
    assert machine is not None
    seen: list[Any] = []

    def match(reading: Any, plan: Any, *, kept: bool, lane: Any) -> Any:
        seen.append((reading.column.rows, plan, kept))
        return "answers", False

    def answer(reading: Any, machine: Any, *, lane: Any) -> Any:
        seen.append((reading.column.rows, machine))
        return "answers"

    side: Any = toy_text.device()
    monkeypatch.setattr(side, "MATCHES", True)
    monkeypatch.setattr(side, "match", match, raising=False)
    monkeypatch.setattr(side, "answer", answer, raising=False)
    alone, mixed = of_codecs(gpu, [toy_text.NAME], 256), of_codecs(gpu, [toy_text.NAME, "fsst"], 256)
    rows = sum(segment.rows for segment in alone)
    with Lane() as lane:
        assert cuda_match.match(alone, asked, lane=lane) == ("answers", False)
        assert cuda_match.match(Segments(alone), asked, lane=lane) == ("answers", False)
        assert cuda_match.answer(alone, machine, lane=lane) == ("answers", False)
        assert seen == [(rows, asked, False), (rows, asked, True), (rows, machine)]
        assert cuda_match.answer(mixed, machine, lane=lane) is None
    assert len(seen) == 3


def test_damaged_codes(gpu: Gpu) -> None:
    """Nothing is touched outside; the walls of the emulated memory say so."""
    rng = np.random.default_rng(5)
    for name in toy_text.NAME, "fsst":
        [host] = cpu.compress(rows_of(9000), registry.of_text(name), tile_size=128)
        for _ in range(10):
            meta, codes = host.meta.copy(), host.codes.copy()
            for array in meta, codes:
                array[rng.integers(0, array.size, 5)] = rng.integers(0, 256, 5)
            damaged: Any = Segment(host.layout, host.null_count, host.table, meta, codes, codes.size)
            segments = gpu.cuda.to_device([damaged])
            gpu.cuda.decompress(segments)
            gpu.device.default.synchronize()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.float64(), pa.decimal128(30, 2), pa.bool_()], ids=str)
def test_values(gpu: Gpu, kind: Any) -> None:
    """Compressed, read and taken as those of other codecs: all rows, a range, few rows and many."""
    import cudf_fsst.codecs.device as on_device
    from cudf_fsst.device.memory import Lane
    from values_gpu import Gpu as Buffers

    rng, rows = np.random.default_rng(2), 9000
    array = pa.array(rng.integers(0, 2, rows).astype(bool) if kind == pa.bool_() else rng.integers(-9, 90, rows))
    array = pc.if_else(pa.array(rng.random(rows) < 0.1), pa.scalar(None, array.type), array).cast(kind)
    there = Buffers(gpu.device)
    column, options = arrow_columns.describe(array), {"table": None, "tile_size": "auto", "level": "default"}
    with Lane() as lane:
        [node] = on_device.compress([ColumnTask(there.upload(column), toy_values.NAME, options)], lane=lane)
    assert {part.codec for parts in node.values for part in parts} == {toy_values.NAME}
    for start, stop in (0, rows), (700, 5001):
        with Lane() as lane:
            [found] = on_device.read([node], lane=lane, start=start, stop=stop)
            lane.synchronize()
        assert arrow_columns.rebuild(there.download(found), kind).equals(array[start:stop])
    for count in 3, 5000:
        chosen = rng.integers(0, rows, count)
        with Lane() as lane:
            [found] = on_device.take([node], chosen, lane=lane)
            lane.synchronize()
        assert arrow_columns.rebuild(there.download(found), kind).equals(array.take(chosen))
    with Lane() as lane:
        assert on_device.compare(node, Span(1, 5), lane=lane) is None


@pytest.mark.parametrize("encodes", [True, False])
def test_level_max(encodes: bool, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all codecs, each scope gets the smallest; the host compresses where one of them has no encoder."""
    from cudf_fsst.codecs.text.cuda_task import TextTask
    from cudf_fsst.device import waits
    from cudf_fsst.device.memory import Lane

    monkeypatch.setattr(plan, "TABLE_SCOPE", SEGMENT)
    if not encodes:
        monkeypatch.setattr(toy_text.device(), "encoders", lambda level: ())
    doubled = column([bytes(byte for one in row for byte in (one, one)) for row in random_rows(SEGMENT)])
    expected = [cpu.compress(one, *registry.texts(), level="max") for one in (doubled, rows_of(2000))]
    assert {segment.codec for segments in expected for segment in segments} >= {toy_text.NAME, "fsst"}
    with Lane() as lane:
        tasks = [TextTask(gpu.upload(one), level="max") for one in (doubled, rows_of(2000))]
        (found,) = waits.run(lane, gpu.cuda.steps(registry.texts(), tasks, lane=lane))
    for segments, wanted in zip(found, expected, strict=True):
        same_segments(gpu.cuda.to_host(segments), wanted)


def random_rows(nbytes: int) -> list[bytes]:
    """Rows of which no codec makes fewer bytes, but that each byte has a code in the toy."""
    rng = np.random.default_rng(5)
    return [rng.integers(0, 127, 50, np.uint8).tobytes() for _ in range(nbytes // 50)]


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_encodes(tile_size: int, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short and long columns, in the pipeline of all codecs of text: the host's bytes."""
    monkeypatch.setattr(plan, "TABLE_SCOPE", 2 * SEGMENT)
    for count in (0, 300, 5 * SEGMENT):
        strings = rows_of(count)
        found = gpu.cuda.compress(gpu.upload(strings), toy_text.NAME, tile_size=tile_size)
        same_segments(gpu.cuda.to_host(found), cpu.compress(strings, toy_text, tile_size=tile_size))
    assert {"toy_train", "toy_encode", "text_compact"} <= set(gpu.device.launches)
