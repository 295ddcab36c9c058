"""``level="max"``: the parse with the fewest codes, tables trained for it, ratios on the FSST paper's files."""

from __future__ import annotations

import itertools
import math
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst.automaton import MAX_STATES, NO_MATCH, automaton
from cudf_fsst.codecs.fsst.symbols import SymbolTable, hash_slot
from cudf_fsst.codecs.fsst.train_max import train_table_max
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from handmade import words

#: Where few letters meet, symbols overlap in every way.
few_letters = st.text("abc", min_size=1, max_size=8).map(str.encode)
tables = st.lists(few_letters | st.binary(min_size=1, max_size=8), max_size=40).map(SymbolTable.from_symbols)
texts = st.lists(few_letters | st.binary(max_size=6), max_size=60).map(b"".join)


def one_row(chars: bytes) -> HostStrings:
    return HostStrings(1, np.frombuffer(chars, np.uint8), np.array([0, len(chars)], np.int64))


def written_parse(tile: bytes, table: SymbolTable) -> bytes:
    """The parse of docs/format.md, section 6, in plain Python."""
    codes = {symbol: code for code, symbol in reversed(list(enumerate(table.symbols)))}

    @cache
    def best(i: int) -> tuple[int, int]:
        """Fewest codes from place i on, and minus the length of the symbol there (0: an escape)."""
        if i == len(tile):
            return 0, 0
        choices = [(1 + best(i + n)[0], -n) for n in range(1, min(8, len(tile) - i) + 1) if tile[i : i + n] in codes]
        return min([*choices, (2 + best(i + 1)[0], 0)])

    written, i = bytearray(), 0
    for j in range(len(tile), -1, -1):
        best(j)  # from the end, so that no call goes deep
    while i < len(tile):
        length = -best(i)[1]
        written += bytes([codes[tile[i : i + length]]]) if length else bytes([255, tile[i]])
        i += length or 1
    return bytes(written) if len(written) < len(tile) else tile


def fewest_codes(text: bytes, table: SymbolTable) -> int:
    """By trying every way to cut the text."""
    fewest = 2 * len(text)
    for cuts in itertools.product((False, True), repeat=max(len(text) - 1, 0)):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(text)]
        parts = [text[a:b] for a, b in itertools.pairwise(edges)]
        if all(part in table.symbols or len(part) == 1 for part in parts):
            fewest = min(fewest, sum(1 if part in table.symbols else 2 for part in parts))
    return fewest


@given(st.text("ab", min_size=1, max_size=11).map(str.encode), st.lists(st.text("ab", min_size=1, max_size=4)))
def test_parse_is_optimal(text: bytes, symbols: list[str]) -> None:
    table = SymbolTable.from_symbols([symbol.encode() for symbol in symbols][:9])
    (segment,) = cpu.compress(one_row(text), table=table, level="max")
    assert segment.codes_nbytes == min(fewest_codes(text, table), len(text))


@given(texts, tables, st.sampled_from(TILE_SIZES))
def test_parse_is_the_written_one(text: bytes, table: SymbolTable, tile_size: int) -> None:
    segments = cpu.compress(one_row(text), table=table, tile_size=tile_size, level="max")
    tiles = [written_parse(text[a : a + tile_size], table) for a in range(0, len(text), tile_size)]
    (segment,) = segments
    assert segment.codes.tobytes() == b"".join(tiles)
    assert (segment.section("tile_lengths").astype(int) + 1).tolist() == [len(tile) for tile in tiles]
    assert cpu.read(segments).chars.tobytes() == text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_parse_with_a_trained_table(tile_size: int) -> None:
    text = words(0, 9000) + np.random.default_rng(0).bytes(1500) + words(0, 700)
    table = cpu.train(one_row(text), level="max")
    (segment,) = cpu.compress(one_row(text), tile_size=tile_size, level="max")
    assert segment.table == table
    expected = b"".join(written_parse(text[a : a + tile_size], table) for a in range(0, len(text), tile_size))
    assert segment.codes.tobytes() == expected
    assert cpu.read([segment]).chars.tobytes() == text


@given(tables, texts)
def test_automaton_knows_all_symbols(table: SymbolTable, text: bytes) -> None:
    classes, following, entries = automaton(table)
    codes = {symbol: code for code, symbol in reversed(list(enumerate(table.symbols)))}
    state = 0
    for i in range(len(text) - 1, -1, -1):
        state = following[state, classes[text[i]]]
        for length in range(1, 9):
            code = codes.get(text[i : i + length]) if i + length <= len(text) else None
            assert entries[state, length - 1] == (NO_MATCH if code is None else (8 - length) << 8 | code)


def test_largest_automaton() -> None:
    table = SymbolTable.from_symbols([i.to_bytes(4, "big") * 2 for i in range(0x01010101, 0xFFFFFFFF, 0x01010101)])
    different = SymbolTable.from_symbols([bytes([i]) * 8 for i in range(255)])
    scattered = SymbolTable.from_symbols([random.Random(i).randbytes(7) + bytes([i]) for i in range(255)])
    assert len(automaton(table).entries) <= len(automaton(different).entries) == MAX_STATES
    assert len(automaton(scattered).entries) == MAX_STATES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trained", LEVELS)
def test_tables_work_at_every_level(trained: str, level: str) -> None:
    text = words(1, 30000)
    table = cpu.train(one_row(text), level=trained)
    segments = cpu.compress(one_row(text), table=table, level=level)
    assert cpu.read(segments).chars.tobytes() == text
    assert segments[0].codes_nbytes < len(text) / 2


def test_table_may_share_beginnings() -> None:
    """That is what the default level's tables cannot do."""
    table = train_table_max(np.frombuffer(words(1, 60000), np.uint8), np.arange(0, 60000, 512))
    slots = [hash_slot(int.from_bytes(symbol[:3], "little")) for symbol in table.symbols if len(symbol) > 2]
    assert len(set(slots)) < len(slots)


# Training -----------------------------------------------------------------------------------------------------------


def chunks(size: int, chunk: int = 512) -> np.ndarray:
    return np.arange(0, size, chunk, dtype=np.int64)


@given(st.binary(min_size=1, max_size=2000) | texts.filter(bool))
def test_any_sample(data: bytes) -> None:
    table = train_table_max(np.frombuffer(data, np.uint8), chunks(len(data)))
    assert len(set(table.symbols)) == len(table)
    assert all(any(symbol in data[a : a + 512] for a in range(0, len(data), 512)) for symbol in table.symbols)


def test_empty_sample() -> None:
    assert len(train_table_max(np.empty(0, np.uint8), np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("starts", [[1], [], [0, 11], [0, 7, 3]])
def test_wrong_chunks(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="start at 0 and ascend"):
        train_table_max(np.zeros(10, np.uint8), np.array(starts, np.int64))


@pytest.mark.parametrize("chunk", [512, 131072])
def test_samples_without_text(chunk: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, 131072, np.uint8)
    assert len(train_table_max(noise, chunks(131072, chunk))) == 0, "tiles are stored as they are"
    assert b"\0" * 8 in train_table_max(np.zeros(131072, np.uint8), chunks(131072, chunk)).symbols


def test_chunks_do_not_join() -> None:
    table = train_table_max(np.frombuffer(b"abc" * 700, np.uint8), chunks(2100, 3))
    assert b"abc" in table.symbols
    assert all(symbol in b"abc" for symbol in table.symbols)


def test_same_table_from_every_thread() -> None:
    samples = [np.frombuffer(words(seed, 40000), np.uint8) for seed in range(3)]
    expected = [train_table_max(sample, chunks(40000)) for sample in samples]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda i: train_table_max(samples[i % 3], chunks(40000)), range(9)))
    assert found == expected * 3


def kinds_of_text() -> dict[str, bytes]:
    source = random.Random(4)
    return {
        "words": words(2, 300_000),
        "numbers in order": "".join(map(str, range(60_000))).encode(),
        "numbers": "".join(str(source.randrange(10**6)) for _ in range(50_000)).encode(),
        "uuid": "".join(str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(8000)).encode(),
        "hex": source.randbytes(150_000).hex().encode(),
        "letters": "".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=300_000)).encode(),
        "noise": source.randbytes(200_000),
        "words, then numbers": words(3, 150_000) + "".join(map(str, range(30_000))).encode(),
    }


def bytes_at(level: str, text: bytes) -> int:
    """Codes and tables."""
    segments = cpu.compress(one_row(text), level=level)
    return sum(segment.codes_nbytes for segment in segments) + sum(one.nbytes for one in {s.table for s in segments})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", kinds_of_text())
def test_never_larger_than_by_default(kind: str) -> None:
    text = kinds_of_text()[kind]
    for nbytes in (1, 20, 300, 1000, 3001, 10_000, 131_072, len(text)):
        assert bytes_at("max", text[:nbytes]) <= bytes_at("default", text[:nbytes]), nbytes


def test_default_table_is_taken() -> None:
    """Where nothing better is found that another sample agrees with."""
    text = np.random.default_rng(3).bytes(400_000)
    table = cpu.train(one_row(text), level="max")
    assert set(table.symbols) == set(cpu.train(one_row(text)).symbols) != set()


def test_ratio_of_the_papers_files(dbtext: Path) -> None:
    quotients = {}
    for path in sorted(dbtext.iterdir()):
        chars = path.read_bytes().replace(b"\n", b"")
        nbytes = {
            level: sum(segment.codes_nbytes for segment in cpu.compress(one_row(chars), level=level))
            for level in LEVELS
        }
        quotients[path.name] = nbytes["default"] / nbytes["max"]
    assert len(quotients) == 10
    assert min(quotients.values()) >= 1.01, quotients
    assert math.prod(quotients.values()) >= 1.08 ** len(quotients), quotients
