"""The CPU codec: round trips, random access, damage."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst import workers
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs import work
from cudf_fsst.codecs.fsst.symbols import SymbolTable, hash_slot
from cudf_fsst.codecs.text import cpu, cpu_read, cpu_take, plan, row_lengths
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment

Rows = list[bytes | None]

SOME_TABLE = SymbolTable.from_symbols([b"abc", b"de", b"f", b"abcde", b"gh", b"aa", b"hgfedcba", b"\0\0", b"\0", b"a"])


def column(rows: Rows, dtype: type = np.int32) -> HostStrings:
    offsets = np.cumsum([0] + [len(row or b"") for row in rows]).astype(dtype)
    chars = np.frombuffer(b"".join(row or b"" for row in rows), np.uint8)
    nulls = sum(row is None for row in rows)
    validity = np.packbits([row is not None for row in rows], bitorder="little") if nulls else None
    return HostStrings(len(rows), chars, offsets, validity, 0, nulls)


def values(strings: HostStrings) -> Rows:
    assert strings.offsets.size == strings.rows + 1
    assert strings.offsets[0] == 0
    assert strings.offsets[-1] == strings.chars.size
    assert strings.offsets.dtype == np.int32
    valid = np.ones(strings.rows, bool)
    if strings.validity is not None:
        assert strings.validity_offset == 0
        assert strings.validity.size == -(-strings.rows // 8)
        valid = np.unpackbits(strings.validity, count=strings.rows, bitorder="little").astype(bool)
    assert strings.null_count == strings.rows - valid.sum()
    assert (strings.validity is None) == (strings.null_count == 0)
    data = strings.chars.tobytes()
    ends = strings.offsets.tolist()
    return [data[a:b] if ok else None for a, b, ok in zip(ends, ends[1:], valid, strict=False)]


def compress(rows: Rows, **options) -> list[Segment]:
    segments = cpu.compress(column(rows), **options)
    for segment in segments:
        cpu.check(segment)
    return segments


def mixed_rows(count: int = 3000, seed: int = 0) -> Rows:
    source = np.random.default_rng(seed)
    words = [bytes(source.integers(97, 105, source.integers(1, 12), np.uint8)) for _ in range(100)]
    rows: Rows = []
    for _ in range(count):
        kind = source.random()
        if kind < 0.1:
            rows.append(None)
        elif kind < 0.2:
            rows.append(b"")
        else:
            rows.append(b" ".join(words[i] for i in source.integers(0, 100, source.integers(1, 12))))
    return rows


EDGE_CASES: dict[str, Rows] = {
    "one_row": [b"hello"],
    "one_byte": [b"x"],
    "one_empty": [b""],
    "one_null": [None],
    "empty_strings": [b""] * 1000,
    "all_nulls": [None] * 1000,
    "nulls_and_empty": [None, b""] * 300,
    "every_byte": [bytes([i]) for i in range(256)] * 3,
    "every_pair": [bytes([i, j]) for i in range(256) for j in range(0, 256, 5)],
    "zero_bytes": [b"\0" * i for i in range(70)],
    "escapes": [b"\xff" * i for i in range(70)],
    "invalid_utf8": [b"\xc3\x28", b"\xf0\x28\x8c\xbc", b"\xed\xa0\x80"] * 100,
    "random": [np.random.default_rng(i).bytes(i) for i in range(300)],
    "long_row": [b"abc", np.random.default_rng(0).integers(97, 105, 200_000, np.uint8).tobytes(), b"def"],
    "mixed": mixed_rows(),
    "row_block": [b"ab"] * 256,
    "row_block_and_one": [b"ab"] * 256 + [b"abc"],
}


@pytest.mark.sampled(70)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("table", [None, SOME_TABLE, SymbolTable(())], ids=["trained", "given", "no_symbols"])
@pytest.mark.parametrize("name", EDGE_CASES)
def test_round_trip(name: str, table: SymbolTable | None, tile_size: int) -> None:
    rows = EDGE_CASES[name]
    segments = compress(rows, table=table, tile_size=tile_size)
    assert values(cpu.read(segments)) == rows
    assert sum(segment.null_count for segment in segments) == rows.count(None)
    assert all(segment.codes_nbytes <= segment.chars for segment in segments)
    some = np.random.default_rng(1).integers(0, len(rows), 40)
    assert values(cpu.take(segments, some)) == [rows[i] for i in some]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.sampled_from(TILE_SIZES), st.integers(1, 40))
def test_any_rows(rows: Rows, tile_size: int, times: int) -> None:
    rows = rows * times
    for table in (None, SOME_TABLE):
        segments = compress(rows, table=table, tile_size=tile_size)
        assert values(cpu.read(segments)) == rows


@pytest.mark.parametrize("length", [*range(1, 20), *range(120, 140), 255, 256, 257, 511, 512, 513])
def test_tile_ends(length: int) -> None:
    """Symbols that the end of a tile or of the characters cuts, at every place."""
    chars = (b"abcdefghabcdeaahgfedcba" * 30)[:length]
    for data in (chars, chars[::-1], b"x" + chars[1:]):
        segments = compress([data], table=SOME_TABLE, tile_size=128)
        assert values(cpu.read(segments)) == [data]


def reference_codes(chars: bytes, table: SymbolTable, tile_size: int) -> list[bytes]:
    """The parse of docs/format.md, section 6, a byte at a time."""
    tiles = []
    for start in range(0, len(chars), tile_size):
        tile = chars[start : start + tile_size]
        codes = bytearray()
        at = 0
        while at < len(tile):
            rest = len(tile) - at
            window = tile[at:]
            symbol = b""
            if rest >= 3:
                key = int.from_bytes(window[:3], "little")
                slot = hash_slot(key)
                meta = int(table.hash_meta[slot])
                held = int(table.hash_symbols[slot]).to_bytes(8, "little")[: meta & 255]
                if len(held) <= rest and window.startswith(held):
                    symbol = held
                    codes.append(meta >> 8)
            if not symbol and rest >= 2 and window[:2] in table.symbols:
                symbol = window[:2]
                codes.append(table.symbols.index(symbol))
            if not symbol and window[:1] in table.symbols:
                symbol = window[:1]
                codes.append(table.symbols.index(symbol))
            if not symbol:
                symbol = window[:1]
                codes += b"\xff" + symbol
            at += len(symbol)
        tiles.append(bytes(codes) if len(codes) < len(tile) else tile)
    return tiles


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_parse_is_the_written_one(tile_size: int) -> None:
    chars = b"".join(row or b"" for row in mixed_rows(300)) + np.random.default_rng(0).bytes(700)
    trained = cpu.train(column([chars]))
    for table in (SOME_TABLE, trained):
        (segment,) = compress([chars], table=table, tile_size=tile_size)
        tiles = reference_codes(chars, table, tile_size)
        assert segment.codes.tobytes() == b"".join(tiles)
        assert (segment.section("tile_lengths").astype(int) + 1).tolist() == [len(tile) for tile in tiles]


def test_no_rows() -> None:
    assert cpu.compress(column([])) == []
    assert values(cpu.read([])) == []
    assert values(cpu.take([], np.empty(0, np.int64))) == []


def test_sliced_input() -> None:
    rows = mixed_rows(500)
    whole = column(rows, np.int64)
    for first, last in ((0, 500), (3, 400), (499, 500), (17, 17), (250, 506 - 8)):
        validity = np.packbits([False] * 5 + [row is not None for row in rows], bitorder="little")
        part = HostStrings(
            last - first,
            whole.chars,
            whole.offsets[first : last + 1],
            validity,
            first + 5,
            rows[first:last].count(None),
        )
        assert values(cpu.read(cpu.compress(part))) == rows[first:last]


def test_same_bytes_for_both_offset_types() -> None:
    rows = mixed_rows(700)
    (a,), (b,) = cpu.compress(column(rows, np.int32)), cpu.compress(column(rows, np.int64))
    assert a.meta.tobytes() == b.meta.tobytes()
    assert a.codes.tobytes() == b.codes.tobytes()


def test_chars_under_nulls_are_dropped() -> None:
    rows = [b"abc", b"secret", b"", b"def", b"hidden"]
    strings = column([*rows])
    strings.validity = np.array([0b01101], np.uint8)
    strings.null_count = 2
    segments = cpu.compress(strings)
    expected: Rows = [b"abc", None, b"", b"def", None]
    assert values(cpu.read(segments)) == expected
    (same,) = compress(expected)
    assert segments[0].codes.tobytes() == same.codes.tobytes()
    assert segments[0].meta.tobytes() == same.meta.tobytes()


def test_read_only_input_and_segment() -> None:
    rows = mixed_rows(100)
    strings = column(rows)
    for array in (strings.chars, strings.offsets, strings.validity):
        assert array is not None
        array.flags.writeable = False
    (segment,) = cpu.compress(strings)
    meta = np.frombuffer(segment.meta.tobytes(), np.uint8)
    codes = np.frombuffer(segment.codes.tobytes(), np.uint8)
    frozen = dataclasses.replace(segment, meta=meta, codes=codes)
    assert values(cpu.read([frozen])) == rows


@pytest.mark.parametrize("parts", [1, 3])
def test_take_range(parts: int) -> None:
    rows = mixed_rows(1500)
    segments = compress(rows) * parts
    everything = rows * parts
    for start, stop in ((0, 0), (0, 1), (255, 257), (1499, 1500 * parts), (100, 1400), (0, 1500 * parts), (700, 700)):
        assert values(cpu.read(segments, start, stop)) == everything[start:stop]


def test_take() -> None:
    rows = mixed_rows(1500)
    segments = compress(rows) + compress([b"x", b"y"]) + compress(rows, tile_size=1024)
    everything = [*rows, b"x", b"y", *rows]
    for picked in (np.arange(len(everything)), np.arange(len(everything))[::-1], np.zeros(9, np.int64), [1501, 1500]):
        assert values(cpu.take(segments, np.array(picked))) == [everything[i] for i in picked]


def test_rows_that_are_not_there() -> None:
    segments = compress([b"a", b"b"])
    with pytest.raises(IndexError, match="of 2"):
        cpu.take(segments, np.array([2]))
    with pytest.raises(IndexError, match="rows -1"):
        cpu.take(segments, np.array([-1]))
    with pytest.raises(IndexError, match="of 2"):
        cpu.read(segments, 0, 3)


def test_take_reads_only_the_tiles_it_touches() -> None:
    """Damage elsewhere goes unseen."""
    rows: Rows = [b"%08d" % (i * 7919 % 100000) for i in range(1024)]
    (segment,) = compress(rows, tile_size=128)
    codes = segment.codes.copy()
    lengths = segment.section("tile_lengths").astype(int) + 1
    codes[lengths[:2].sum() :] = 255
    damaged = dataclasses.replace(segment, codes=codes)
    assert values(cpu.read([damaged], 0, 32)) == rows[:32]
    assert values(cpu.take([damaged], np.array([31, 0]))) == [rows[31], rows[0]]
    with pytest.raises(ValueError, match="tile 2"):
        cpu.take([damaged], np.array([32]))
    with pytest.raises(ValueError, match="tile 2"):
        cpu.read([damaged])


def test_same_bytes_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    strings = column([*mixed_rows(40000), b"abcdef" * 200_000])
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "1")
    one = cpu.compress(strings, tile_size=128)
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "4")
    four = cpu.compress(strings, tile_size=128)
    for a, b in zip(one, four, strict=True):
        assert a.meta.tobytes() == b.meta.tobytes()
        assert a.codes.tobytes() == b.codes.tobytes()
        assert a.table == b.table
    assert cpu.read(four).chars.tobytes() == strings.chars.tobytes()


def test_few_rows_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = compress([*mixed_rows(40000), b"abcdef" * 200_000])
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "4")
    monkeypatch.setattr(work, "map_items", lambda *_: pytest.fail("started threads"))
    assert values(cpu.read(segments, 39, 40)) == mixed_rows(40000)[39:40]
    with pytest.raises(pytest.fail.Exception, match="started threads"):
        cpu.read(segments)


def test_calls_from_several_threads() -> None:
    columns = [mixed_rows(800, seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda rows: values(cpu.read(compress(rows))), columns * 4))
    assert found == columns * 4


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDF_FSST_NUM_THREADS", raising=False)
    unset = workers.num_threads()
    assert unset >= 1
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "")
    assert workers.num_threads() == unset
    for wrong in ("0", "-1", "many", " "):
        monkeypatch.setenv("CUDF_FSST_NUM_THREADS", wrong)
        with pytest.raises(ValueError, match="CUDF_FSST_NUM_THREADS"):
            workers.num_threads()


def test_import_where_nothing_can_be_cached() -> None:
    """As in a container whose file system is read-only; kernels then compile, without a cache."""
    code = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
import cudf_fsst
from cudf_fsst.codecs.text import row_lengths
from cudf_fsst.codecs.jit import njit
assert njit()(lambda number: number + 1)(1) == 2
assert type(row_lengths.unpack_ends._cache).__name__ == "NullCache"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_several_segments_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MIB", 1 << 10)
    monkeypatch.setattr(plan, "SEGMENT_MIN", 8 << 10)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 32 << 10)
    rows = [*mixed_rows(2000), b"z" * 30_000, b"", None, b"q", *mixed_rows(2000, 1)]
    segments = compress(rows)
    size = plan.segment_size(sum(len(row or b"") for row in rows))
    start = 0
    numbers = []
    for row in rows:
        numbers.append(start // size)
        start += len(row or b"")
    expected = [numbers.count(k) for k in sorted(set(numbers))]
    assert [segment.rows for segment in segments] == expected
    per_table = plan.segments_per_table(start)
    assert len({segment.table for segment in segments}) == -(-len(segments) // per_table) > 1
    assert values(cpu.read(segments)) == rows
    assert values(cpu.read(segments, 1500, 2500)) == rows[1500:2500]
    picked = np.random.default_rng(0).integers(0, len(rows), 500)
    assert values(cpu.take(segments, picked)) == [rows[i] for i in picked]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tile_size": 100}, "tile_size"), ({"tile_size": "big"}, "tile_size"), ({"level": "best"}, "level")],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cpu.compress(column([b"a"]), **options)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    ("offsets", "dtype", "message"),
    [
        ([0, 11], np.int64, "outside"),
        ([-1, 5], np.int64, "outside"),
        ([0, 5, 3, 8], np.int64, "row 1 ends before it starts: offsets 5 and 3"),
        # Every difference, taken modulo 2^32 or 2^64, is positive.
        ([0, 2**31 - 1, -(2**31), -1, 10], np.int32, "row 1 ends before it starts"),
        ([0, 2**63 - 1, -(2**63), -1, 10], np.int64, "row 1 ends before it starts"),
    ],
)
def test_wrong_offsets(offsets: list[int], dtype: type, message: str, nulls: bool) -> None:
    validity = np.array([0b11110], np.uint8) if nulls else None
    strings = HostStrings(len(offsets) - 1, np.zeros(10, np.uint8), np.array(offsets, dtype), validity, 0, int(nulls))
    for call in (cpu.compress, cpu.train):
        with pytest.raises(ValueError, match=message):
            call(strings)


@given(st.data())
def test_damaged_segments(data: st.DataObject) -> None:
    """Any bytes: a ValueError or some rows, and nothing outside the buffers (the guards around them hold)."""
    rows = mixed_rows(300)
    (segment,) = compress(rows, tile_size=data.draw(st.sampled_from(TILE_SIZES)))
    guarded = {}
    for name in ("meta", "codes"):
        array = getattr(segment, name)
        room = np.full(array.size + 256, 0xA5, np.uint8)
        room[128:-128] = array
        guarded[name] = room
    which = data.draw(st.sampled_from(["meta", "codes"]))
    body = guarded[which][128:-128]
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(0, body.size - 1))] = data.draw(st.integers(0, 255))
    damaged = dataclasses.replace(segment, **{name: room[128:-128] for name, room in guarded.items()})
    for read in (
        lambda: cpu.read([damaged]),
        lambda: cpu.read([damaged], 10, 290),
        lambda: cpu.take([damaged], np.arange(0, 300, 7)),
    ):
        try:
            result = read()
        except ValueError as error:
            assert "damaged" in str(error)  # noqa: PT017 - damage need not be noticed, so no pytest.raises
        else:
            assert result.offsets[-1] == result.chars.size
    for room in guarded.values():
        assert (room[:128] == 0xA5).all()
        assert (room[-128:] == 0xA5).all()


def test_codes_that_do_not_fit_their_tile() -> None:
    (segment,) = compress([b"abcdefgh" * 100], table=SOME_TABLE)
    shorter = SymbolTable.from_symbols([symbol[:2] if len(symbol) > 2 else symbol for symbol in SOME_TABLE.symbols])
    for table in (SymbolTable(()), shorter):
        with pytest.raises(ValueError, match="damaged segment: the codes of tile 0"):
            cpu.read([dataclasses.replace(segment, table=table)])


def test_buffers_of_the_wrong_size() -> None:
    (segment,) = compress([b"abcdefgh" * 100])
    for name in ("meta", "codes"):
        with pytest.raises(ValueError, match=f"damaged segment: {name} has"):
            cpu.read([dataclasses.replace(segment, **{name: getattr(segment, name)[:-1]})])


lengths_lists = st.lists(st.integers(0, 70) | st.integers(0, 2**45), min_size=1, max_size=600)


@given(lengths_lists, st.integers(0, 1000))
def test_row_lengths(lengths: list[int], base: int) -> None:
    """Packing against the definition (docs/format.md, section 3), lengths up to 2^45 included."""
    offsets = np.cumsum([base, *lengths], dtype=np.int64)
    packed = row_lengths.measure(offsets)
    bits = np.zeros(packed.words, np.uint32)
    row_lengths.pack(offsets, packed, bits)
    for block in range(-(-len(lengths) // 256)):
        part = lengths[256 * block : 256 * block + 256]
        minimum = min(*part, 2**32 - 1)
        width = max(length - minimum for length in part).bit_length()
        first, last = int(packed.row_words[block]), int(packed.row_words[block + 1])
        assert packed.row_minima[block] == minimum
        assert last - first == 8 * width
        number = int.from_bytes(bits[first:last].tobytes(), "little")
        assert [number >> width * i & (1 << width) - 1 for i in range(256)] == [length - minimum for length in part] + [
            0
        ] * (256 - len(part))
    total = int(offsets[-1]) - base
    arrays = (packed.row_starts, packed.row_minima, packed.row_words, bits)
    addresses = [array.__array_interface__["data"][0] for array in arrays]
    ends = np.zeros(len(lengths), np.int64)
    end = row_lengths.unpack_ends(
        *addresses, bits.size, len(lengths), total, 0, len(lengths), base, ends.__array_interface__["data"][0], 8
    )
    assert end == total
    assert ends.tolist() == offsets[1:].tolist()


def test_take_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which threads share, and of which those that are wanted again are copied."""
    monkeypatch.setattr(cpu_take, "_LONG_ROW", 500)
    monkeypatch.setattr(cpu_read, "CHUNK_BLOCKS", 1)
    rng = np.random.default_rng(8)
    words = b"the quick brown fox jumps over the lazy dog "
    rows = [
        None if i % 7 == 3 else words * int(n) for i, n in enumerate(rng.integers(0, 900, 30) * (rng.random(30) < 0.7))
    ]
    segments = compress(rows)
    for wanted in ([29, 0, 29, 29, 5, 3, 3, 12], [4] * 5, sorted(rng.integers(0, 30, 20)), rng.permutation(30)):
        assert values(cpu.take(segments, np.array(wanted, np.int64))) == [rows[row] for row in wanted]
