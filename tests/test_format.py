"""docs/format.md against the package: a reader written from the text alone agrees with the codec."""

from __future__ import annotations

import json
import re
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_reader
from cudf_fsst.codecs import fsst
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.files.versions import FORMAT_VERSION, NEWEST_VERSION
from handmade import handmade_segment, longest, rows_of, strings_of
from stored_file import load_stored, save_column

Rows = list[bytes | None]

TEXT = (Path(__file__).parents[1] / "docs" / "format.md").read_text()

WORDS = [b"the ", b"quick ", b"brown ", b"fox", b"\0\0\0", b"\xff", b"http://", b"1997-", b"", b"a"]
rows_of_bytes = st.lists(st.none() | st.binary(max_size=40), max_size=60)
rows_of_words = st.lists(st.none() | st.lists(st.sampled_from(WORDS), max_size=20).map(b"".join), max_size=600)
tables = st.lists(st.binary(min_size=1, max_size=8), max_size=40).map(SymbolTable.from_symbols)

NAMED: dict[str, Rows] = {
    "one empty row": [b""],
    "one null": [None],
    "all nulls": [None] * 300,
    "empty strings": [b""] * 257,
    "nulls and empty strings": [None, b""] * 128,
    "exactly a row block": [b"ab"] * 256,
    "a row block and one": [b"ab"] * 256 + [b"abc" * 100],
    "exactly a tile": [b"a" * 128],
    "every byte": [bytes([byte]) for byte in range(256)],
    "a long row": [b"", b"lorem ipsum dolor " * 3000, None],
    "incompressible": [np.random.default_rng(7).bytes(5000)],
    "more than a block of tiles": [b"ab cd ef %d" % i for i in range(3000)],
}


def assert_agrees(rows: Rows, segments: list[Segment]) -> None:
    """The reference reader, `load` and the CPU codec all read `rows` from a file with `segments`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.fsst"
        save_column(path, segments=segments, schema=b"")
        assert reference_reader.read(path) == rows
        assert rows_of(cpu.read(load_stored(path).segments)) == rows


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_named_columns(name: str, tile_size: int) -> None:
    rows = NAMED[name]
    assert_agrees(rows, cpu.compress(strings_of(rows), tile_size=tile_size))


@given(rows=rows_of_bytes | rows_of_words, tile_size=st.sampled_from(TILE_SIZES))
def test_our_parse(rows: Rows, tile_size: int) -> None:
    assert_agrees(rows, cpu.compress(strings_of(rows), tile_size=tile_size))


@given(rows=rows_of_bytes | rows_of_words, table=tables)
def test_our_parse_with_any_table(rows: Rows, table: SymbolTable) -> None:
    assert_agrees(rows, cpu.compress(strings_of(rows), table=table))


@given(
    rows=rows_of_bytes.filter(bool) | rows_of_words.filter(bool),
    table=tables,
    tile_size=st.sampled_from(TILE_SIZES),
    spare=st.integers(0, 20),
    random=st.randoms(use_true_random=False),
)
def test_any_parse(rows: Rows, table: SymbolTable, tile_size: int, spare: int, random: object) -> None:
    """Not only the codes that our encoder would write are read."""
    choose = random.choice  # type: ignore[attr-defined]
    assert_agrees(rows, [handmade_segment(rows, table, tile_size=tile_size, choose=choose, spare=spare)])


@given(pieces=st.lists(rows_of_bytes.filter(bool), max_size=4), table=tables)
def test_segments_follow_one_another(pieces: list[Rows], table: SymbolTable) -> None:
    segments = [handmade_segment(rows, table, tile_size=TILE_SIZES[i]) for i, rows in enumerate(pieces)]
    assert_agrees([row for rows in pieces for row in rows], segments)


@given(rows=rows_of_words.filter(bool), table=tables, tile_size=st.sampled_from(TILE_SIZES))
def test_our_encoder_writes_the_parse_of_section_6(rows: Rows, table: SymbolTable, tile_size: int) -> None:
    """Byte for byte, for tables that hold one candidate for each slot and for those that do not."""
    slots: dict[int, int] = {}
    for code, symbol in enumerate(table.symbols):
        if len(symbol) >= 3:
            slot = slot_of(symbol)
            if slot not in slots or len(symbol) > len(table.symbols[slots[slot]]):
                slots[slot] = code

    def choose(codes: list[int]) -> int:
        symbols = {code: table.symbols[code] for code in codes if code != 255}
        long = [code for code, symbol in symbols.items() if len(symbol) >= 3 and slots[slot_of(symbol)] == code]
        for candidates in (long, *([c for c in symbols if len(symbols[c]) == n] for n in (2, 1))):
            if candidates:
                return min(candidates)
        return 255

    [segment] = cpu.compress(strings_of(rows), table=table, tile_size=tile_size)
    expected = handmade_segment(rows, table, tile_size=tile_size, choose=choose)
    assert segment.layout == expected.layout
    assert segment.codes.tobytes() == expected.codes.tobytes()
    assert segment.meta.tobytes() == expected.meta.tobytes()


def slot_of(symbol: bytes) -> int:
    return (int.from_bytes(symbol[:3], "little") * 0xDDB001B7 % 2**32) >> 22


@given(n=st.integers(0, 2**36) | st.integers(0, 1000).map(lambda k: 20 * 2**20 * k))
def test_the_cut_is_the_written_one(n: int) -> None:
    """Section 7: segments and table scopes."""
    mib = 2**20
    size = min(max(-(-n // (18 * mib)) * mib, 28 * mib), 256 * mib)
    assert plan.segment_size(n) == size
    assert plan.segment_count(n) == max(1, -(-n // size))
    assert plan.segments_per_table(n) == max(1, 512 * mib // size)
    assert fsst.TILE_SIZE == 256


@given(m=st.integers(0, 300_000) | st.integers(0, 2**40), start=st.integers(0, 2**40), level=st.sampled_from(LEVELS))
def test_the_sample_is_the_written_one(m: int, start: int, level: str) -> None:
    """Section 7: where the chunks of a scope's sample begin."""
    most = {"default": 64, "max": 256}[level]
    if m <= 512 * most:
        expected = list(range(0, m, 512))
    else:
        expected = []
        for i in range(most):
            a, b = i * m // most, (i + 1) * m // most
            x = (i + 1) * 0x9E3779B9 % 2**32
            for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
                x = (x ^ x >> shift) * factor % 2**32
            expected.append(a + x * (b - a - 511) // 2**32)
    starts, nbytes = plan.sample_positions(start, m, level)
    assert (starts - start).tolist() == expected
    assert nbytes == 512


def test_the_text_names_the_version() -> None:
    assert TEXT.startswith(f"# The stored format, versions {FORMAT_VERSION} to {NEWEST_VERSION}\n")
    assert f"| 8-11 | u32 | version: {FORMAT_VERSION} |" in TEXT


def test_the_example_is_what_is_stored() -> None:
    """The bytes of the page's example: its table, codes and sections of ``meta``."""
    rows = ["a cat", "a dog", None, "a cat and a dog"]
    column = pd.Series(rows).fsst.compress(table=SymbolTable.from_symbols([b"a ", b"cat", b"dog", b"and "]))
    [segment] = column.segments
    example = re.search(r"^```text\nrows .*?^```", TEXT, re.MULTILINE | re.DOTALL)[0]
    table, codes, meta = re.split(r"^(?:table|codes|meta) \(\d+\)", example, flags=re.MULTILINE)[1:]
    assert bytes.fromhex("".join(hex_of(table))) == segment.table.to_bytes()
    assert bytes.fromhex("".join(hex_of(codes))) == segment.codes.tobytes()
    stored = bytearray(segment.meta.nbytes)
    lines = re.findall(r"^ *(\d+) (\w+)", meta, re.MULTILINE)
    for (at, name), content in zip(lines, hex_of(meta), strict=True):
        assert segment.layout.sections[name].offset == int(at)
        stored[int(at) : int(at) + len(bytes.fromhex(content))] = bytes.fromhex(content)
    assert stored == segment.meta.tobytes()
    assert [int(size) for size in re.findall(r"^(?:table|codes|meta) \((\d+)\)", example, re.MULTILINE)] == [
        len(segment.table.to_bytes()),
        segment.codes.nbytes,
        segment.meta.nbytes,
    ]


def hex_of(lines: str) -> list[str]:
    """The bytes of each line: what stands before the next two spaces."""
    found = re.findall(r"^(?: *\d* \w*?)? {2,}((?:[0-9a-f]{2}\b ?)+)(?= {2}|,|$)", lines, re.MULTILINE)
    return [one.replace(" ", "") for one in found]


def test_the_objects_are_what_is_stored(tmp_path: Path) -> None:
    """The page's JSON: of a column, and of a frame."""
    column, frame = (json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
    pd.Series(["a cat"], name="pet").fsst.compress().save(tmp_path / "column")
    pd.DataFrame({"a": [1, 2], "b": ["x", None]}).fsst.compress().save(tmp_path / "frame")
    assert object_of(tmp_path / "column") == column
    assert object_of(tmp_path / "frame")["frame"] == frame


def object_of(path: Path) -> dict[str, Any]:
    """The metadata `cudf_fsst` of a file's schema, its first section."""
    data = path.read_bytes()
    columns, segments = struct.unpack_from("<II", data, 24)
    start, nbytes = struct.unpack_from("<QQ", data, 64 + 64 * columns + 64 * segments + 8)
    schema = pa.ipc.read_schema(pa.py_buffer(data[start : start + nbytes]))
    return json.loads(schema.metadata[b"cudf_fsst"])


@pytest.mark.parametrize("damage", ["escape", "unknown code", "short", "long"])
def test_the_reference_reader_refuses_bad_codes(damage: str) -> None:
    codes = {"escape": b"\0\xff", "unknown code": b"\1", "short": b"\0", "long": b"\0\0\0"}[damage]
    with pytest.raises(ValueError, match="wrong: "):
        reference_reader.decode_tile(codes, 5, [b"ab"])


def test_longest_is_the_default_choice() -> None:
    table = SymbolTable.from_symbols([b"a", b"ab", b"abc"])
    segment = handmade_segment([b"abcaba" * 3], table, choose=longest)
    assert bytes(segment.codes) == bytes([1, 0, 2] * 3)
