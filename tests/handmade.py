"""Texts, and segments made by hand from docs/format.md: any parse that is allowed, not only that of our encoder."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Sequence

import numpy as np

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text.layout import SegmentLayout
from cudf_fsst.codecs.text.segment import Segment

Choose = Callable[[list[int]], int]


def words(seed: int, nbytes: int) -> bytes:
    """Text of so many bytes: words of few letters, the same ones for a seed."""
    source = random.Random(seed)
    lexicon = ["".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(300)]
    return " ".join(source.choices(lexicon, k=nbytes)).encode()[:nbytes]


def noise(nbytes: int, values: int = 256) -> bytes:
    """So many bytes in no order, of so many values."""
    return np.random.default_rng(nbytes).integers(0, values, nbytes, np.uint8).tobytes()


def longest(codes: list[int]) -> int:
    """The choice of a parse that takes the longest symbol."""
    return codes[-1]


def handmade_segment(
    rows: Sequence[bytes | None], table: SymbolTable, *, tile_size: int = 128, choose: Choose = longest, spare: int = 0
) -> Segment:
    """A segment of `rows`.

    Where several symbols match, `choose` gets their codes, shortest symbol first (255, the escape, before all), and
    returns one. Row lengths are stored with minima that are `spare` too small and `spare` more bits than needed.
    """
    characters = b"".join(row for row in rows if row is not None)
    tiles = [characters[at : at + tile_size] for at in range(0, len(characters), tile_size)]
    coded = [_encode(tile, table, choose) for tile in tiles]
    has_nulls = None in rows

    row_minima, row_words, row_bits = [], [0], []
    row_starts = [0]
    lengths = [len(row or b"") for row in rows]
    for at in range(0, len(rows), 256):
        block = lengths[at : at + 256]
        minimum = max(0, min(block) - spare)
        width = (max(block) - minimum).bit_length() + spare
        packed = sum(length - minimum << i * width for i, length in enumerate(block))
        row_minima.append(minimum)
        row_words.append(row_words[-1] + 8 * width)
        row_bits += [packed >> 32 * i & 0xFFFFFFFF for i in range(8 * width)]
        row_starts.append(row_starts[-1] + sum(block))
    ends = np.cumsum([0, *map(len, coded)], dtype=np.uint64)
    block_starts = [int(end) for end in ends[:-1:128]] + [int(ends[-1])]
    valid = sum(1 << i for i, row in enumerate(rows) if row is not None)

    layout = SegmentLayout(len(rows), len(characters), tile_size, has_nulls, len(row_bits))
    meta = b""
    for code, values in (
        ("Q", block_starts),
        ("Q", row_starts),
        ("I", row_minima),
        ("I", row_words),
        ("B" if tile_size <= 256 else "H", [len(tile) - 1 for tile in coded]),
        ("I", row_bits),
        ("B", valid.to_bytes(-(-len(rows) // 8), "little") if has_nulls else b""),
    ):
        meta += struct.pack(f"<{len(values)}{code}", *values)
        meta += bytes(-len(meta) % 16)
    codes = b"".join(coded)
    return Segment(
        layout=layout,
        null_count=rows.count(None),
        table=table,
        meta=np.frombuffer(meta, np.uint8).copy(),
        codes=np.frombuffer(codes, np.uint8).copy(),
        codes_nbytes=len(codes),
    )


def _encode(tile: bytes, table: SymbolTable, choose: Choose) -> bytes:
    codes = bytearray()
    at = 0
    while at < len(tile):
        matching = [code for code, symbol in enumerate(table.symbols) if tile.startswith(symbol, at)]
        code = choose([255, *sorted(matching, key=lambda code: len(table.symbols[code]))])
        codes.append(code)
        if code == 255:
            codes.append(tile[at])
            at += 1
        else:
            at += len(table.symbols[code])
    return bytes(codes) if len(codes) < len(tile) else tile


def strings_of(rows: Sequence[bytes | None]) -> HostStrings:
    """Rows as the codecs take them."""
    ends = np.cumsum([0, *(len(row or b"") for row in rows)], dtype=np.int32)
    valid = np.array([row is not None for row in rows], bool)
    chars = np.frombuffer(b"".join(row for row in rows if row is not None), np.uint8)
    null_count = len(rows) - int(valid.sum())
    validity = np.packbits(valid, bitorder="little") if null_count else None
    return HostStrings(len(rows), chars, ends, validity, 0, null_count)


def rows_of(strings: HostStrings) -> list[bytes | None]:
    """Rows of what the codecs return."""
    chars = strings.chars.tobytes()
    offsets = strings.offsets.tolist()
    rows: list[bytes | None] = [chars[start:end] for start, end in itertools.pairwise(offsets)]
    if strings.validity is not None:
        for row in range(strings.rows):
            bit = strings.validity_offset + row
            if not strings.validity[bit >> 3] >> (bit & 7) & 1:
                rows[row] = None
    return rows
