"""Questions that fsst_edges.cu answers on an emulated GPU, against plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cudf_fsst.codecs.fsst import launch
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.launch import EdgesShape
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.search import Like
from cudf_fsst.codecs.text.segment import Segments
from emulation.conftest import emulator
from fsst_gpu import SEGMENT, Gpu, column, forked, gpu, text
from test_match_emulated import Rows, ask, check

__all__ = ["emulator", "forked", "gpu"]


def cut(data: bytes, least: int, most: int, rng: np.random.Generator) -> list[bytes]:
    """Rows of so many bytes."""
    return [data[i : i + int(rng.integers(least, most))] for i in range(0, len(data) - most, most)]


def kinds(rng: np.random.Generator) -> dict[str, Rows]:
    """Raw tiles are those of noise; bytes 255 stand for escapes and are escaped."""
    noise = rng.integers(0, 256, 30_000, dtype=np.uint8).tobytes()
    high = rng.choice([255, 255, 255, 97], 9000).astype(np.uint8).tobytes()
    words = text(rng, SEGMENT // 2)
    runs = words[:200], cut(noise, 10, 100, rng)[:90], words[200:300], cut(noise, 100, 900, rng)[:3], words[300:500]
    return {
        "text": [None if i % 9 == 4 else row for i, row in enumerate(text(rng, 2 * SEGMENT))],
        "noise": cut(noise, 0, 40, rng),
        "high": cut(high, 0, 25, rng),
        "high among text": [row + high[7 * i : 7 * i + int(rng.integers(0, 9))] for i, row in enumerate(words)],
        "runs of raw tiles": [row for run in (*runs, cut(high, 1, 300, rng)) for row in run],
        "raw here and there": [row if i % 13 else noise[i : i + 300] for i, row in enumerate(words)],
        "short": [b"ANRXYZ"[i % 6 : i % 6 + int(rng.integers(0, 2))] for i in rng.integers(0, 99, 3000)],
        "long": [b" ".join(words[i : i + int(rng.integers(1, 25))]) for i in range(0, 300, 4)],
        "long among short": [
            words[i % 300] * (900 if i % 700 == 7 else 1) + noise[: 20_000 * (i % 700 == 5)] for i in range(2000)
        ],
    }


KINDS = tuple(kinds(np.random.default_rng(1)))


@pytest.mark.sampled(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("level", LEVELS)
def test_edges(
    level: str, tile_size: int, kind: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "EDGES_LEAST_ROW", 0)
    monkeypatch.setattr(launch, "EDGES_LEAST_RAW", 0)
    rows = kinds(rng)[kind]
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)), tile_size=tile_size, level=level)))
    there = [row for row in rows if row]
    gpu.device.launches.clear()
    for length in (1, 2, 3, 7, 20, 60):
        row = there[rng.integers(0, len(there))]
        for question in (Like((row[:length], b"")), Like((b"", row[-length:]))):
            check(gpu, rows, segments, question)
    assert gpu.device.launches == ["fsst_edges"] * 12


@pytest.mark.parametrize("part", ["codes", "block_starts", "row_starts", "row_minima", "row_words", "tile_lengths"])
def test_damage(part: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one kind of bytes all, or some; wrong answers are fine, touching other memory is not."""
    for name, least in (("EDGES_LEAST_ROW", 0), ("EDGES_LEAST_RAW", 0), ("EDGES_MOST_ROW", 1 << 20)):
        monkeypatch.setattr(launch, name, least)
    noise = rng.integers(0, 256, 9000, dtype=np.uint8).tobytes()
    same = [b" " * int(n) for n in rng.integers(1, 90, 150)]
    rows = [
        *text(rng, 8000),
        *same,
        *cut(noise, 10, 200, rng),
        *same[:60],
        *text(rng, 4000),
        *cut(noise, 5, 90, rng),
    ]
    (segment,) = cpu.compress(column(list(rows)), tile_size=256)
    questions = [Like(parts) for some in (b"     ", b" " * 20, rows[0][:9]) for parts in ((some, b""), (b"", some))]
    for value in (0, 127, 255, None, "some", "some", "some"):
        damaged = replace(segment, meta=segment.meta.copy(), codes=segment.codes.copy())
        target = (damaged.codes if part == "codes" else damaged.section(part)).view(np.uint8)
        if value == "some":
            places = rng.integers(0, target.size, 1 + target.size // 30)
            target[places] = rng.choice([0, 1, 255, target[0]], places.size)
        else:
            target[:] = rng.integers(0, 256, target.size) if value is None else value
        gpu.device.launches.clear()
        for question in questions:
            ask(gpu, Segments(gpu.cuda.to_device([damaged, segment])), question)
        assert set(gpu.device.launches) == {"fsst_edges"}


def test_codes_without_symbols(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portion of codes that stand for nothing has no chunk where a row's edge is."""
    monkeypatch.setattr(launch, "EDGES_LEAST_ROW", 0)
    monkeypatch.setattr(launch, "EDGES_UNIT_CHARS", 1)
    rows: Rows = [b"a", *[b"the quick brown fox"] * 600]
    (segment,) = cpu.compress(column(list(rows)), table=SymbolTable.from_symbols([b"the quic", b"k brown ", b"fox"]))
    damaged = replace(segment, codes=np.full_like(segment.codes, 254))
    segments = Segments(gpu.cuda.to_device([damaged]))
    for length in range(2, 18):  # what is in shared memory before differs
        ask(gpu, segments, Like((b"", b"the quick brown fox"[-length:])))
    assert gpu.device.launches == ["fsst_edges"] * 16


def test_rows_that_a_search_finds_sooner() -> None:
    """Short ones, unless they are raw or the pattern is short, and very long ones."""

    def shape(row: int, codes: int = 300, most: int = 1000, length: int = 9) -> EdgesShape | None:
        return launch.edges_shape(10, 10 * row, codes, most, length, 1 << 17)

    assert shape(79) is None
    assert shape(80)
    assert shape(44, length=8) is None
    assert shape(45, length=8)
    assert shape(40, codes=400)
    assert shape(513, codes=2000) is None
    assert shape(80, most=1 << 29) is None


@pytest.mark.parametrize("singles", [0, 1, 20])
@pytest.mark.parametrize("symbols", [120, 255])
def test_what_stands_for_escaped_bytes(
    symbols: int, singles: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code without a symbol, one of a byte, or none: then single lanes answer."""
    monkeypatch.setattr(launch, "EDGES_LEAST_ROW", 0)
    rows = text(rng, 20_000)
    data = b"".join(row for row in rows if row)
    pairs = Counter(data[i : i + 2] for i in range(len(data) - 1)).most_common()
    known = [bytes([byte]) for byte, _ in Counter(data).most_common(singles)] + [pair for pair, _ in pairs]
    known += [bytes([200 + i // 16, i % 16]) for i in range(256)]
    table = SymbolTable.from_symbols(known[:symbols])
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)), table=table)))
    gpu.device.launches.clear()
    for row in (rows[0], rows[5], b"\n", rows[7][:1]):
        for question in (Like((row[:9], b"")), Like((b"", row[-9:]))):
            check(gpu, rows, segments, question)
    assert gpu.device.launches == ["fsst_edges"] * 8
