"""Compressing with the real kernels and the real launches, emulated under the sanitizers: the CPU codec's bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.buffers import DeviceStrings
from cudf_fsst.codecs.fsst import kernel_tables, launch
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text import launch as text_launch
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment
from emulation.conftest import emulator
from emulation.device import GPUS
from emulation.emulator import SCHEDULES
from fsst_gpu import CASES, SEGMENT, WORDS, Gpu, any_rows, column, columns, gpu, same_segments, same_strings, text

__all__ = ["emulator", "gpu"]


@pytest.mark.trains
@pytest.mark.sampled(5)
@pytest.mark.covering(1)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str, level: str, gpu: Gpu) -> None:
    strings = columns(np.random.default_rng(1))[case]
    expected = cpu.compress(strings, level=level)
    segments = gpu.cuda.compress(gpu.upload(strings), level=level)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), cpu.read(expected))


@pytest.mark.parametrize("case", ["one segment", "int64 offsets", "nulls", "all null", "empty rows", "one byte"])
def test_given_table(case: str, gpu: Gpu) -> None:
    """Nothing is trained, and one launch looks at all rows."""
    strings = columns(np.random.default_rng(1))[case]
    table = SymbolTable.from_symbols([b"deposits", b"the", b"re", b" "])
    gpu.device.launches.clear()
    segments = gpu.cuda.compress(gpu.upload(strings, offset=3), table=table)
    compacted = ["text_compact"] * (strings.chars.size > 0)
    assert gpu.device.launches == ["row_lengths_look", "fsst_encode", "row_lengths_pack", *compacted]
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings, table=table))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("case", ["three segments, two tables", "nulls", "a row longer than a segment", "empty rows"])
def test_through_host_memory(case: str, order: str, gpu: Gpu) -> None:
    """Copied out while the next segment is encoded, and decoded while the next ones arrive."""
    from cudf_fsst.device import transfer

    gpu.device.order = order
    strings = columns(np.random.default_rng(1))[case]
    expected = cpu.compress(strings)
    with transfer.Outbox() as outbox:
        segments = gpu.cuda.compress(gpu.upload(strings), outbox=outbox)
    same_segments(segments, expected)
    same_strings(gpu.download(gpu.cuda.receive(segments)), cpu.read(expected))


@given(rows=any_rows, copies=st.integers(1, 12), tile_size=st.sampled_from(TILE_SIZES), level=st.sampled_from(LEVELS))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(rows: list[bytes | None], copies: int, tile_size: int, level: str, gpu: Gpu) -> None:
    strings = column(rows * copies)
    expected = cpu.compress(strings, tile_size=tile_size, level=level)
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size, level=level)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.sampled(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("gpu", GPUS, indirect=True)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("level", LEVELS)
def test_tile_sizes_and_gpus(level: str, tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Shared memory decides how many warps a block has and how many codes are staged at once."""
    noise = rng.integers(0, 256, 30_000, dtype=np.uint8).tobytes()
    strings = column([*text(rng, SEGMENT), noise, *text(rng, SEGMENT // 2)])
    expected = cpu.compress(strings, tile_size=tile_size, level=level)
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size, level=level)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("escapes", [0, 9, 20, 60])
def test_tiles_that_are_almost_raw(tile_size: int, escapes: int, gpu: Gpu) -> None:
    """Codes of about as many bytes as the tile has, behind so many escapes that they overtake the characters."""
    table = SymbolTable.from_symbols([b"ab", b"c"])
    tiles = []
    for more in range(-4, 4):  # code bytes beyond those of the tile
        for end in (b"", b"c", b"ab", b"?"):
            pairs = max(escapes + end.count(b"?") - end.count(b"ab") - more, 0)
            start = b"!" * escapes + b"ab" * pairs
            tiles.append(start + b"c" * (tile_size - len(start) - len(end)) + end)
    strings = column([b"".join(tiles), tiles[5][:-7]])
    segments = gpu.cuda.compress(gpu.upload(strings, offset=1), table=table, tile_size=tile_size)
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings, table=table, tile_size=tile_size))
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bundles", [2, 4])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_bundles_a_warp(
    tile_size: int, bundles: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large columns are decoded several bundles a warp; whole and from any row to any other."""
    noise = rng.integers(0, 256, 30_000, dtype=np.uint8).tobytes()
    strings = column([*text(rng, SEGMENT), noise, *text(rng, SEGMENT // 2)])
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size)
    monkeypatch.setattr(text_launch, "decode_bundles", lambda *_: bundles)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
    host = gpu.cuda.to_host(segments)
    for start, stop in [
        (1, strings.rows - 1),
        (strings.rows // 3, strings.rows // 2),
        (strings.rows // 2, strings.rows),
    ]:
        same_strings(gpu.download(gpu.cuda.take_range(segments, start, stop)), cpu.read(host, start, stop))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("level", LEVELS)
def test_other_schedules(level: str, schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever order blocks, warps and lanes run in."""
    gpu.emulator.schedule = schedule
    rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in text(rng, SEGMENT + 5000)]
    strings = column(rows)
    segments = gpu.cuda.compress(gpu.upload(strings), level=level)
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings, level=level))
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("offset", [1, 2, 7, 8, 15])
@pytest.mark.parametrize("level", LEVELS)
def test_slices(level: str, offset: int, gpu: Gpu, rng: np.random.Generator) -> None:
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
    segments = gpu.cuda.compress(gpu.upload(sliced, offset=offset), level=level)
    same_segments(gpu.cuda.to_host(segments), cpu.compress(sliced, level=level))
    same_strings(gpu.download(gpu.cuda.decompress(segments)), column(rows[offset : whole.rows - offset]))


@pytest.mark.parametrize("level", LEVELS)
def test_a_given_table(level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Tables that our training does not make: prefixes of each other, symbols that share a hash slot."""
    for symbols in ([b"a"], [b"th", b"the", b"the q", b"the qu", b" ", b"e", b"\xff", b"de", b"deposits"], []):
        table = SymbolTable.from_symbols(symbols)
        strings = column(list(text(rng, 6000)))
        segments = gpu.cuda.compress(gpu.upload(strings), table=table, level=level)
        same_segments(gpu.cuda.to_host(segments), cpu.compress(strings, table=table, level=level))
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_largest_tables_of_level_max(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """They do not fit into shared memory; smaller ones do."""
    rows = [*text(rng, 6000), rng.integers(0, 256, 3000, dtype=np.uint8).tobytes()]
    joined = b"".join(rows)
    symbols = [joined[i : i + 8] for i in range(0, 8 * 150, 8)]
    large = SymbolTable.from_symbols([*symbols, *(rng.bytes(7) + bytes([i]) for i in range(105))])
    strings = column(list(rows))
    staged = []
    for table in (large, cpu.train(column(list(rows[:-1])), level="max")):
        nbytes = kernel_tables.max_tables(table).nbytes
        assert nbytes <= kernel_tables.MAX_TABLES_NBYTES
        shape = launch.encode_max_shape(tile_size, gpu.device.shared_per_block, nbytes)
        assert shape.shared <= gpu.device.shared_per_block
        staged.append(shape.staged == nbytes)
        segments = gpu.cuda.compress(gpu.upload(strings), table=table, tile_size=tile_size, level="max")
        expected = cpu.compress(strings, table=table, tile_size=tile_size, level="max")
        same_segments(gpu.cuda.to_host(segments), expected)
    assert staged == [False, True]


@pytest.mark.trains
@pytest.mark.parametrize("level", LEVELS)
def test_train(level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    for rows in ([b""] * 5, text(rng, 500), text(rng, 3 * SEGMENT)):
        gpu.device.allocations.clear()
        assert gpu.cuda.train(gpu.upload(column(list(rows))), level=level) == cpu.train(column(list(rows)), level=level)
        needed = kernel_tables.ENCODE_TABLES_NBYTES + launch.TRAIN_COUNTS_NBYTES
        if level == "max":  # with room for what an encoder would read of the table
            needed += launch.SEARCH_NBYTES + kernel_tables.MAX_TABLES_NBYTES
        assert sum(gpu.device.allocations) < needed + 8192, "no room for codes"
    none = gpu.cuda.train(DeviceStrings(0, 0, 0, 4), level=level)
    assert none == cpu.train(column([]), level=level), "no rows: no offsets either"


@pytest.mark.slow
def test_thousands_of_segments(gpu: Gpu, rng: np.random.Generator) -> None:
    """Such as a `Compressor` has that gets small pieces; some with tables, nulls and tile sizes of their own."""
    from cudf_fsst.device import transfer

    table = cpu.train(column(list(text(rng, 3000))))
    rows: list[bytes | None] = []
    segments: list[Segment] = []
    for i in range(2000):
        piece: list[bytes | None] = [b"%d %s" % (i, WORDS[i % 14]), *([None] * (i % 50 == 7)), b"", WORDS[i % 7]]
        own_table, tile_size = None if i % 100 == 3 else table, 512 if i % 200 == 5 else 256
        segments += cpu.compress(column(piece), table=own_table, tile_size=tile_size)
        rows += piece
    expected = column(rows)
    assert len(segments) == 2000
    there = transfer.to_device(segments)
    same_segments(gpu.cuda.to_host(there), segments)
    for found in (gpu.cuda.decompress(there), gpu.cuda.receive(segments)):
        same_strings(gpu.download(found), expected)
    wanted = rng.integers(0, len(rows), 3000)
    same_strings(gpu.download(gpu.cuda.take(there, wanted)), cpu.take(segments, wanted))
    for start, stop in ((0, 1), (3000, 3001), (17, len(rows) - 3), (len(rows) - 1, len(rows))):
        same_strings(gpu.download(gpu.cuda.take_range(there, start, stop)), cpu.read(segments, start, stop))
    alike = [segment for segment in segments if segment.layout.tile_size == 256]
    same_strings(gpu.download(gpu.cuda.receive(alike)), cpu.read(alike))


@pytest.mark.slow
def test_a_call_that_makes_many_segments(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "segment_size", lambda chars: 30)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 30 * 1500)
    strings = column([None if i % 9 == 0 else WORDS[i % 14] for i in range(6000)])
    expected = cpu.compress(strings)
    assert len(expected) > 800
    segments = gpu.cuda.compress(gpu.upload(strings))
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
