"""The real kernels and the real launches, emulated under the sanitizers, against the CPU codec.

No GPU: see tests/emulation. Segments are made much smaller than the format's rule, so that a small column has many.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.buffers import DeviceStrings, HostStrings
from cudf_fsst.codecs.fsst import cpu, launch, plan, row_lengths, tuning
from cudf_fsst.codecs.fsst.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.fsst.segment import Segment, Segments
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.fsst.tuning import Choices
from cudf_fsst.codecs.part import align
from emulation.conftest import emulator
from emulation.device import GPU_NAME, GPUS, ORDERS, FakeDevice, emulated, failing_every_allocation
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
    monkeypatch.setattr(launch, "row_grid", lambda *_: 1)  # small columns too have runs of row blocks
    device = FakeDevice(emulator, request.param)
    with emulated(device, "fsst") as cuda:
        yield Gpu(device, cuda)
        if emulator.alive:
            device.default.synchronize()  # what nobody waited for


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


@pytest.mark.sampled(7)
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
    compacted = ["fsst_compact"] * (strings.chars.size > 0)
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


_pieces = st.one_of(
    st.binary(max_size=20), st.sampled_from(WORDS), st.sampled_from([b"\0" * 300, b"ab" * 200, b"\xff"])
)
_rows = st.lists(st.one_of(st.none(), st.lists(_pieces, max_size=8).map(b"".join)), max_size=60)


@given(rows=_rows, copies=st.integers(1, 12), tile_size=st.sampled_from(TILE_SIZES), level=st.sampled_from(LEVELS))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(rows: list[bytes | None], copies: int, tile_size: int, level: str, gpu: Gpu) -> None:
    strings = column(rows * copies)
    expected = cpu.compress(strings, tile_size=tile_size, level=level)
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size, level=level)
    same_segments(gpu.cuda.to_host(segments), expected)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)


@pytest.mark.sampled(6)
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


@pytest.mark.parametrize("pieces", [2, 4])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_pieces_a_warp(
    tile_size: int, pieces: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large columns are decoded several pieces a warp; whole and from any row to any other."""
    noise = rng.integers(0, 256, 30_000, dtype=np.uint8).tobytes()
    strings = column([*text(rng, SEGMENT), noise, *text(rng, SEGMENT // 2)])
    segments = gpu.cuda.compress(gpu.upload(strings), tile_size=tile_size)
    monkeypatch.setattr(launch, "decode_pieces", lambda *_: pieces)
    same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
    host = gpu.cuda.to_host(segments)
    for start, stop in [
        (1, strings.rows - 1),
        (strings.rows // 3, strings.rows // 2),
        (strings.rows // 2, strings.rows),
    ]:
        same_strings(gpu.download(gpu.cuda.take_range(segments, start, stop)), cpu.read(host, start, stop))


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
        nbytes = launch.max_tables(table).nbytes
        assert nbytes <= launch.MAX_TABLES_NBYTES
        shape = launch.encode_max_shape(tile_size, gpu.device.shared_per_block, nbytes)
        assert shape.shared <= gpu.device.shared_per_block
        staged.append(shape.staged == nbytes)
        segments = gpu.cuda.compress(gpu.upload(strings), table=table, tile_size=tile_size, level="max")
        expected = cpu.compress(strings, table=table, tile_size=tile_size, level="max")
        same_segments(gpu.cuda.to_host(segments), expected)
    assert staged == [False, True]


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
        same_strings(gpu.download(gpu.cuda.take_range(on_gpu, start, stop)), cpu.read(segments, start, stop))


@pytest.mark.parametrize("step", [-1, 2])
def test_take_by_a_view(step: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Row numbers on the GPU that do not lie one behind another."""
    rows = text(rng, 8000)
    segments = cpu.compress(column(list(rows)))
    wanted = rng.integers(0, len(rows), 60)[::step]
    taken = gpu.cuda.take(gpu.cuda.to_device(segments), gpu.device.array(wanted))
    same_strings(gpu.download(taken), cpu.take(segments, wanted))


@pytest.mark.parametrize("level", LEVELS)
def test_train(level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    for rows in ([b""] * 5, text(rng, 500), text(rng, 3 * SEGMENT)):
        gpu.device.allocations.clear()
        assert gpu.cuda.train(gpu.upload(column(list(rows))), level=level) == cpu.train(column(list(rows)), level=level)
        needed = launch.ENCODE_TABLES_NBYTES + launch.TRAIN_COUNTS_NBYTES
        if level == "max":
            needed += launch.SEARCH_NBYTES
        assert sum(gpu.device.allocations) < needed + 8192, "no room for codes"
    none = gpu.cuda.train(DeviceStrings(0, 0, 0, 4), level=level)
    assert none == cpu.train(column([]), level=level), "no rows: no offsets either"


_gigabytes = [
    {3: 2**33 + 7, 300: 2**32 - 1, 301: 2**31},
    dict.fromkeys(range(256), 2**33 + 5),
    {i: 2**22 - 3 + i % 6 for i in range(257)},
    {i: 2**32 - 3 + i % 6 for i in range(600)},
]


@pytest.mark.parametrize("wide", [False, True])
def test_row_lengths(wide: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of any number of bits; the characters are never touched."""
    module = gpu.emulator.load("row_lengths.cu", {name: f"{value}u" for name, value in launch.DEFINES.items()})
    take = gpu.emulator.load("fsst_take.cu", {name: f"{value}u" for name, value in launch.DEFINES.items()})
    buffer, u32, u64 = gpu.emulator.buffer, np.uint32, np.uint64
    cases = [rng.integers(0, 2**bits, int(rng.choice([1, 255, 256, 257, 5000]))) + bits for bits in range(20)]
    cases += [rng.integers(0, 2**bits, 256 + int(rng.integers(256))) + 7 for bits in range(1, 10)]
    mixed = np.repeat(rng.permutation(40) % 10, 256)  # the bits of a row block's rows
    cases.append(rng.integers(0, 2**mixed))
    if wide:
        for special in _gigabytes:
            lengths = rng.integers(0, 5000, max(len(special), 302))
            lengths[list(special)] = list(special.values())
            cases.append(lengths)
    for lengths in cases:
        rows, units, begin = lengths.size, lengths.size // 256 + 1, 13
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        strings = buffer((offsets + begin).astype(np.int64 if wide else np.int32))
        view = np.zeros(1, launch.DESCRIPTOR)
        view["rows"], view["chars"], view["tile_shift"] = rows, offsets[-1], 8
        places, words = launch.found_places(0, 1), buffer(4 * units)
        found_at = buffer(8 * places.end)
        one = launch.ColumnView(0, strings.address, wide, rows, 0, 0, 2**60, 1, found_at.address, words.address, 0)
        one_column = buffer(launch.words([one]))
        there = (buffer(view.view(np.uint8)), u32(1))
        module.launch("segment_begins", 1, 128, (one_column, None, np.uint64(0)))
        module.launch("row_lengths_measure", 1, 256, (one_column, u32(1), u64(units)))
        module.launch("row_lengths_scan", 1, 1024, (one_column,))
        numbers = found_at.read(np.int64).tolist()
        assert numbers[: places.nulls] == [0, rows, 0, offsets[-1]]
        assert (numbers[places.null_chars], numbers[places.first_char]) == (0, begin)
        row_blocks = -(-rows // 256)
        scanned = words.read(np.uint32)[:row_blocks].tolist()
        module.launch("row_lengths_look", 1, 1024, (one_column,))  # all three at once
        assert found_at.read(np.int64).tolist() == numbers
        assert words.read(np.uint32)[:row_blocks].tolist() == scanned
        view["row_bits_words"] = numbers[places.words]
        sizes = {"row_starts": 8 * (row_blocks + 1), "row_minima": 4 * row_blocks, "row_words": 4 * (row_blocks + 1)}
        sizes["row_bits"] = 4 * int(view["row_bits_words"][0])
        stored = {name: buffer(align(nbytes)) for name, nbytes in sizes.items()}
        for name, section in stored.items():
            view[name] = section.address
        pack = launch.PackView(
            offsets=strings.address,
            wide=wide,
            rows=rows,
            chars=int(offsets[-1]),
            words=words.address,
            first_row_block=0,
            validity=0,
            validity_offset=0,
            tile_shift=62,  # of the codes' sections there is hardly anything
            row_bits_words=numbers[places.words],
            block_starts=buffer(16).address,
            tile_lengths=buffer(16).address,
            stored_validity=0,
            **{name: int(view[name][0]) for name in sizes},
        )
        module.launch("row_lengths_pack", 1, 256, (buffer(launch.words([pack])), u32(1), u64(row_blocks)))
        packed = row_lengths.measure(offsets)
        row_bits = np.empty(packed.words, np.uint32)
        row_lengths.pack(offsets, packed, row_bits)
        for name in sizes:
            expected = row_bits if name == "row_bits" else getattr(packed, name)
            found = stored[name].read(expected.dtype)[: expected.size]
            np.testing.assert_array_equal(found, expected, name)
        for first, last in ((0, rows), (rows // 3, rows - rows // 5)):
            view["row_begin"], view["row_end"] = first, last
            view["char_begin"], view["char_end"] = offsets[first], offsets[last]
            expected = (offsets[first : last + 1] - offsets[first]).astype(np.int64 if wide else np.int32)
            found, touched = buffer(expected.nbytes), -(-last // 256) - first // 256
            view["offsets_to"], view["wide_offsets"], view["last"] = found.address, wide, 1
            there[0].write(view.view(np.uint8))
            module.launch("row_lengths_unpack", 1, 256, (*there, u64(touched)))
            np.testing.assert_array_equal(found.read(expected.dtype), expected)
            edges, begins = buffer(np.array([[0, first], [0, last]], np.uint64)), buffer(16)
            module.launch("locate_edges", 1, 256, (there[0], edges, u64(2), begins))
            np.testing.assert_array_equal(begins.read(np.int64), offsets[[first, last]])
        # Chosen rows: where they lie, and offsets, by take_measure and by fsst_take, which has no characters to decode.
        groups = -(-rows // launch.TAKE_ROWS)
        places, sums, totals = buffer(8 * rows), buffer(8 * groups), buffer(np.zeros(5, np.uint64))
        view["row_begin"], view["row_end"], view["char_begin"], view["char_end"] = 0, rows, 0, offsets[-1]
        there[0].write(view.view(np.uint8))
        chosen = np.zeros(1, launch.TAKE_COLUMN)
        chosen["segments"], chosen["segment_count"] = there[0].address, 1
        chosen["groups"], chosen["totals"] = sums.address, totals.address
        near = offsets[-1] < 1 << launch.PLACE_BITS
        chosen["places"] = places.address if near else 0
        numbers = buffer(np.arange(rows, dtype=np.uint64))
        columns = buffer(chosen.view(np.uint8))
        take.launch("take_measure", (groups, 1), launch.TAKE_THREADS, (columns, numbers, u64(rows)))
        if near:
            found_places, long = places.read(np.uint64), (1 << 64 - launch.PLACE_BITS) - 1
            np.testing.assert_array_equal(found_places & u64((1 << launch.PLACE_BITS) - 1), offsets[:-1])
            np.testing.assert_array_equal(found_places >> u64(launch.PLACE_BITS), np.minimum(lengths, long))
        np.testing.assert_array_equal(sums.read(np.int64), offsets[:-1][:: launch.TAKE_ROWS])
        chars, nulls, tiles, most, done = totals.read(np.int64)
        assert (chars, nulls, done) == (offsets[-1], 0, groups)
        assert offsets[-1] // 256 <= tiles <= offsets[-1] // 256 + rows
        assert tiles // groups <= most <= tiles


def several(rng: np.random.Generator, count: int) -> list[list[bytes | None]]:
    """Columns of so many rows: with few nulls, of single characters, of nothing, of many nulls and giant rows."""
    words = (text(rng, 60 * count) * 9)[:count]
    return [
        [None if i % 700 == 9 else row for i, row in enumerate(words)],
        [b"ANR"[i % 3 : i % 3 + 1] for i in rng.integers(0, 99, count)],
        [b"" for _ in range(count)],
        [None if i % 3 == 0 else row * (1 + 1000 * (i % 500 == 1)) for i, row in enumerate(words)],
    ]


def test_several_columns_in_one_call(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same rows: all, or a range; one launch for all that share a tile size, one wait for a range."""
    from cudf_fsst.codecs.fsst import cuda_read
    from cudf_fsst.device.memory import Lane

    gpu.device.order = "random"
    count = 1500
    columns = several(rng, count)
    on_host = [cpu.compress(column(rows), tile_size=256 if i else 512) for i, rows in enumerate(columns)]
    assert max(map(len, on_host)) > 2
    there = [Segments(gpu.cuda.to_device(segments)) for segments in on_host]
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    for start, stop in ((0, None), (0, count), (0, 1), (3, None), (10, 10), (count - 1, None), (300, 1203), (511, 513)):
        for some in (slice(0, 4), slice(1, 2), slice(3, None), slice(2, 3)):
            waits.clear()
            gpu.device.launches.clear()
            with Lane() as lane:
                found = cuda_read.read(there[some], lane=lane, start=start, stop=stop)
            assert len(waits) == (start < (stop or count) and (start, stop or count) != (0, count))
            assert gpu.device.launches.count("fsst_decode") <= 2
            assert gpu.device.launches.count("row_lengths_unpack") <= 1
            assert gpu.device.launches.count("gather_validity") <= 1
            for one, rows in zip(found, columns[some], strict=True):
                same_strings(gpu.download(one), column(rows[start:stop]))


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


@given(
    rows=_rows,
    copies=st.integers(1, 12),
    edges=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    tile_size=st.sampled_from(TILE_SIZES),
    level=st.sampled_from(LEVELS),
    few=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_range(
    rows: list[bytes | None],
    copies: int,
    edges: tuple[int, int],
    tile_size: int,
    level: str,
    few: bool,
    gpu: Gpu,
) -> None:
    """Of few rows, too, in the way of many."""
    from cudf_fsst.codecs.fsst import cuda_read

    strings = column([*(rows * copies), b"end"])
    start, stop = sorted(edge % (strings.rows + 1) for edge in edges)
    segments = cpu.compress(strings, tile_size=tile_size, level=level)
    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(cuda_read, "_read_few", lambda *_: None)
        found = gpu.cuda.take_range(gpu.cuda.to_device(segments), start, stop)
    same_strings(gpu.download(found), cpu.read(segments, start, stop))


@pytest.mark.parametrize("nulls", [False, True])
def test_whole_segments(nulls: bool, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that are read without a wait, and validity by itself."""
    from cudf_fsst.codecs.fsst import cuda_read
    from cudf_fsst.device.memory import Lane

    rows: list[bytes | None] = list(text(rng, 4 * SEGMENT))
    if nulls:
        half = len(rows) // 2
        rows = [None if i < half and rng.random() < 0.2 else row for i, row in enumerate(rows)]
    host = cpu.compress(column(rows))
    there = Segments(gpu.cuda.to_device(host))
    edges = np.cumsum([0, *(segment.rows for segment in host)]).tolist()
    assert len(host) > 3
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    monkeypatch.setattr(cuda_read, "_read_few", lambda *_: None)
    for first, last in combinations(range(len(edges)), 2):
        start, stop = edges[first], edges[last]
        waits.clear()
        with Lane() as lane:
            both = cuda_read.read([there, there], lane=lane, start=start, stop=stop)
        assert waits == []
        for found in both:
            same_strings(gpu.download(found), cpu.read(host, start, stop))
        if stop > start + 1:
            found = gpu.cuda.take_range(there, start + 1, stop)
            assert waits
            same_strings(gpu.download(found), cpu.read(host, start + 1, stop))
    with Lane() as lane:
        mask = cuda_read.validity(there, lane=lane)
    assert (mask is None) == (not nulls)
    if nulls:
        gpu.device.default.synchronize()
        bits = np.frombuffer(gpu.emulator.read(mask.ptr, mask.size), np.uint8)
        assert np.unpackbits(bits, count=len(rows), bitorder="little").tolist() == [row is not None for row in rows]


# -------------------------------------------------------------------------------------------------------- chosen rows


#: Ways to take rows: constants of cuda_read.py, and of the kernels' launch.
WAYS: dict[str, dict[str, float]] = {
    "few": {},
    "few do not fit": {"_FEW_CHARS": 1},
    "tiles": {"_TILE_COST": 0},
    "tiles, looked up twice": {"_TILE_COST": 0, "_SCRATCH": 1024, "_SCRATCH_PART": 1 << 40},
    "whole": {"_TILE_COST": 1},
    "windows": {"_TILE_COST": 1, "_SCRATCH": SEGMENT, "_SCRATCH_PART": 1 << 40},
}


def take_in_a_way(
    way: str, gpu: Gpu, columns: list[list[Segment]], rows: npt.NDArray[np.int64], shares: int | None = None
) -> list[DeviceStrings]:
    """All but the first two with the kernels for many rows, however few there are."""
    from cudf_fsst.codecs.fsst import cuda_read
    from cudf_fsst.device.memory import Lane

    with pytest.MonkeyPatch.context() as patch, Lane() as lane:
        for name, value in WAYS[way].items():
            patch.setattr(cuda_read, name, value)
        if shares is not None:
            patch.setattr(cuda_read, "_shares", lambda *_: shares)
        if way in ("few", "few do not fit"):
            return cuda_read.take(columns, rows, lane=lane)
        readings = [cuda_read.Reading(segments) for segments in columns]
        return cuda_read._Take(readings, rows, lane).many()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_take_from_several_columns(way: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever the order of the rows; and the same through host memory where they are few."""
    from cudf_fsst.codecs.fsst import cuda_read
    from cudf_fsst.device.memory import Lane

    gpu.device.order = "random"
    count = 1500
    columns = [column(rows) for rows in several(rng, count)]
    on_host = [
        cpu.compress(one, tile_size=size, level=level)
        for one, size, level in zip(columns, (256, 1024, 512, 128), ("default", "max", "default", "max"), strict=True)
    ]
    there = [Segments(gpu.cuda.to_device(segments)) for segments in on_host]
    every, some = np.arange(count), rng.integers(0, count, 700)
    chosen = {
        "mask": np.flatnonzero(rng.random(count) < 0.15),
        "dense mask": np.flatnonzero(rng.random(count) < 0.9),
        "descending": every[::-1],
        "repeated": np.repeat(some[:90], 7),
        "any": some,
        "one": some[:1],
        "the last": every[-1:],
        "giant rows": every[1::500],
        "ten": some[:10],
        "a group": every[100 : 100 + launch.TAKE_ROWS],
        "more than a group": every[100 : 101 + launch.TAKE_ROWS],
    }
    for name, rows in chosen.items():
        expected = [cpu.take(segments, rows) for segments in on_host]
        for one, wanted in zip(take_in_a_way(way, gpu, there, rows), expected, strict=True):
            same_strings(gpu.download(one), wanted)
        if way == "few":
            with Lane() as lane:
                fetched = cuda_read.fetch(there, rows.tolist(), lane=lane)
            fits = max(wanted.chars.size for wanted in expected) <= cuda_read._FEW_CHARS
            fits = fits and rows.size <= launch.TAKE_ROWS
            assert (fetched is not None) == fits, name
            for one, wanted in zip(fetched or [], expected, strict=False):
                same_strings(one, wanted)


@given(
    rows=_rows,
    copies=st.integers(1, 12),
    chosen=st.lists(st.integers(0, 10**6), min_size=1, max_size=600),
    way=st.sampled_from(sorted(WAYS)),
    tile_size=st.sampled_from(TILE_SIZES),
    ascending=st.booleans(),
    shares=st.sampled_from([None, 1, 3]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_take_any_rows(
    rows: list[bytes | None],
    copies: int,
    chosen: list[int],
    way: str,
    tile_size: int,
    ascending: bool,
    shares: int | None,
    gpu: Gpu,
) -> None:
    strings = column([*(rows * copies), b"end"])
    numbers = np.array(sorted(chosen) if ascending else chosen, np.int64) % strings.rows
    segments = cpu.compress(strings, tile_size=tile_size)
    (found,) = take_in_a_way(way, gpu, [gpu.cuda.to_device(segments)], numbers, shares)
    same_strings(gpu.download(found), cpu.take(segments, numbers))


def test_waits_and_launches_of_a_take(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wait, however many columns there are, and two launches, or one for few rows."""
    from cudf_fsst.codecs.fsst import cuda_read
    from cudf_fsst.device.memory import Lane

    columns = [column(rows) for rows in several(rng, 1500)[:3]]
    there = [Segments(gpu.cuda.to_device(cpu.compress(one))) for one in columns]
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    monkeypatch.setattr(cuda_read, "_TILE_COST", 0)
    for rows, launches in ((10, ["take_few"]), (900, ["take_measure", "fsst_take"])):
        waits.clear()
        gpu.device.launches.clear()
        with Lane() as lane:
            cuda_read.take(there, rng.integers(0, 1500, rows), lane=lane)
        assert waits == [1]
        assert gpu.device.launches == launches


def test_what_a_column_keeps(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors and tables are made once for `Segments`, and not for another device or other launch choices."""
    import pickle

    from cudf_fsst.codecs.fsst import cuda_kernels, cuda_read

    strings = column(list(text(rng, 2 * SEGMENT)))
    segments = Segments(gpu.cuda.to_device(cpu.compress(strings)))
    made: list[int] = []
    describe = launch.describe
    monkeypatch.setattr(launch, "describe", lambda some: (made.append(1), describe(some))[1])
    for _ in range(3):
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
        gpu.cuda.take_range(segments, 5, 90)
        gpu.cuda.take(segments, np.array([7, 3]))
    assert made == [1]
    plan_before = segments.reading.whole()
    assert segments.reading.whole() is plan_before
    with cuda_kernels.trying(ODD["one warp"]):
        assert segments.reading.whole() is not plan_before
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
    assert isinstance(segments.reading, cuda_read.Reading)
    assert pickle.loads(pickle.dumps(Segments(()))).reading is None


# ------------------------------------------------------------------------------------------------------ launch choices


#: Entries that are valid, however odd.
ODD = {
    "one warp": Choices(1, 0.125, 1, 0.25),
    "one warp, many blocks": Choices(1, 8, 1, 4),
    "all that fits": Choices(32, 8, 8, 4),
    "five warps, little room": Choices(5, 1.5, 3, 0.3),
}
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


@pytest.mark.sampled(6)
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


# --------------------------------------------------------------------------------------------------- streams and memory


@pytest.fixture
def forked(request: pytest.FixtureRequest, gpu: Gpu) -> Any:
    """A stream of the caller's own, or None."""
    return gpu.device.stream() if request.param else None


@pytest.mark.sampled(4)
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
    """Of long columns, as soon as the rows are known; `giant`: in a slot less, as there is one segment with rows."""
    from cudf_fsst.codecs.fsst import cuda_encode

    taken: list[int] = []
    start = cuda_encode._start
    monkeypatch.setattr(cuda_encode, "_start", lambda *args: (taken.append(len(allocations)), start(*args))[1])
    rows: list[bytes | None] = [*text(rng, 5 * SEGMENT)]
    strings = column([b" ".join(filter(None, rows))] if giant else rows)
    uploaded, allocations = gpu.upload(strings), gpu.device.allocations
    allocations.clear()
    gpu.device.launches.clear()
    segments = gpu.cuda.compress(uploaded)
    count, workspace = len(segments), len(allocations) - 2 * len(segments)
    assert (count == 1) == giant
    first = min(2, count)  # then one is encoded whenever one gets its codes
    assert taken == [*[workspace] * first, *(workspace + count + done for done in range(1, count - first + 1))]
    looked = ["segment_begins", "fsst_train", "row_lengths_measure", "row_lengths_scan"]
    assert gpu.device.launches[: 4 + first] == [*looked, *["fsst_encode"] * first]
    assert gpu.device.launches.count("row_lengths_pack") == 1
    same_segments(gpu.cuda.to_host(segments), cpu.compress(strings))


@pytest.mark.sampled(4)
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


# ------------------------------------------------------------------------------------------------------ damaged input


@pytest.mark.sampled(4)
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
    (segment,) = cpu.compress(column(list(text(rng, 3000))))
    for nbytes in (0, getattr(segment, name).size - 1):
        short = dataclasses.replace(segment, **{name: getattr(segment, name)[:nbytes]})
        with pytest.raises(ValueError, match=r"a segment has \d+ \+ \d+ bytes, needs"):
            cpu.read([short])
        segments = gpu.cuda.to_device([segment, short])
        for read, *arguments in (
            (gpu.cuda.decompress, segments),
            (gpu.cuda.take, segments, np.array([1, segment.rows])),
            (gpu.cuda.take_range, segments, 0, segment.rows + 1),
            (gpu.cuda.receive, [segment, short]),
        ):
            with pytest.raises(ValueError, match=r"a segment has \d+ \+ \d+ bytes, needs"):
                read(*arguments)
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
    monkeypatch.setattr(launch, "decode_pieces", lambda *_: 1 << seed)
    gpu.emulator.schedule = SCHEDULES[seed]
    gpu.device.order = "eager"
    for _ in range(6):
        words = text(rng, int(rng.integers(1, 40_000)))
        rows: list[bytes | None] = [None if rng.random() < 0.1 else row for row in words]
        noise = rng.integers(0, 256, int(rng.integers(0, 9000)), dtype=np.uint8)
        rows[int(rng.integers(0, len(rows)))] = noise.tobytes()
        whole, *_ = cpu.compress(column(rows), tile_size=int(rng.choice(TILE_SIZES)))
        (other,) = cpu.compress(column(list(text(rng, 3000))), tile_size=int(rng.choice(TILE_SIZES)))
        codes = whole.codes[: whole.codes.size if rng.random() < 0.5 else rng.integers(0, whole.codes.size + 1)].copy()
        damaged = dataclasses.replace(whole, meta=whole.meta.copy(), codes=codes, codes_nbytes=codes.size)
        for name in damaged.layout.sections:
            values = damaged.section(name)
            if values.size == 0 or rng.random() < 0.6:
                continue
            hit = rng.integers(0, values.size, 1 + values.size // int(rng.choice([1, 5, 100])))
            most = int(np.iinfo(values.dtype).max)
            near = [0, most, most // 2 + 1, codes.size & most, whole.chars & most, int(values[hit[0]]) ^ 1]
            values[hit] = rng.choice(np.array(near, np.uint64), hit.size).astype(values.dtype)
        codes[rng.random(codes.size) < 0.2] = rng.choice([0, 254, 255])
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
