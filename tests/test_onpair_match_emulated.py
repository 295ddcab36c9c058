"""Questions about columns of codec ``onpair`` on an emulated GPU, answered on the codes, against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cudf_fsst.codecs import registry
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.search import Count, Find, IsIn, Length, Like, answer_dtype
from cudf_fsst.codecs.text.segment import Segment, Segments
from emulation.conftest import emulator
from emulation.device import GPUS
from fsst_gpu import SEGMENT, Gpu, column, damaged_in_many_places, gpu
from test_match_emulated import Rows, ask, check, contains, mixed, questions

__all__ = ["emulator", "gpu"]
ONPAIR = registry.of_text("onpair")


def compressed(rows: Rows, bits: int, tile_size: int) -> list[Segment]:
    """With a table of so many bits."""
    strings = column(list(rows))
    table = cpu.train(strings, ONPAIR)
    assert isinstance(table, OnPairTable)
    table = OnPairTable(bits, table.symbols[: (1 << bits) - 256])
    return list(cpu.compress(strings, ONPAIR, table=table, tile_size=tile_size))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bits", [10, 11, 12])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_questions(tile_size: int, bits: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of every kind, of two tables, one of which has codes of ten bits; noise makes raw tiles."""
    noise: Rows = [rng.integers(0, 256, int(size), dtype=np.uint8).tobytes() for size in rng.integers(0, 4000, 8)]
    rows = [*mixed(rng, 2 * SEGMENT, nulls=True), *noise, *mixed(rng, 2 * SEGMENT, nulls=True)]
    half = len(rows) // 2
    host = [*compressed(rows[:half], bits, tile_size), *compressed(rows[half:], 10, tile_size)]
    there = Segments(gpu.cuda.to_device(host))
    for question in questions(rows):
        check(gpu, rows, there, question)
    assert "onpair_search" in gpu.device.launches
    assert "onpair_decode" not in gpu.device.launches


@pytest.mark.parametrize("gpu", GPUS, indirect=True)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("tile_size", [128, 512])
def test_patterns_at_every_place(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Across tiles, bundles and segments, at rows' ends, up to the longest, whose automata fit no shared memory."""
    long = b"a pattern of as many bytes as a state machine takes: sixty-three"
    patterns = (b"q", b"ab", b"aba", b"final deposits", long[:40], long[:63])
    pieces = [
        patterns[i % len(patterns)] if i % 3 else bytes(rng.integers(97, 100, int(rng.integers(0, 40))))
        for i in range(2 * SEGMENT // 60)
    ]
    whole = b"".join(pieces)
    cuts = np.unique(np.concatenate([[0, len(whole)], rng.integers(0, len(whole), 300)]))
    rows = [whole[begin:end] for begin, end in itertools.pairwise(cuts)]
    there = Segments(gpu.cuda.to_device(compressed(rows, 12, tile_size)))
    for pattern in patterns:
        for question in (contains(pattern[:40]), Count(pattern), Find(pattern), Like((b"", pattern[:40]))):
            check(gpu, rows, there, question)
    check(gpu, rows, there, Like((b"", patterns[3], b"q", b"")))
    assert {"onpair_search", "onpair_search_alone", "onpair_search_large"} <= set(gpu.device.launches)


def test_damaged_columns_harm_nothing(gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever codes, lengths and places say; the walls of the emulated memory see it."""
    rows = mixed(rng, SEGMENT // 2, nulls=True)
    [whole] = compressed(rows, 11, 128)
    asked = (contains(b"final"), Find(b"e"), Length(), IsIn((b"final", b"deposits")), Like((b"", b"a", b"b", b"")))
    for number in range(12):
        damaged = damaged_in_many_places(whole, rng, 0.6)
        ask(gpu, gpu.cuda.to_device([damaged]), asked[number % len(asked)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bits", [10, 11, 12])
@pytest.mark.parametrize("tile_size", [128, 512])
def test_values(tile_size: int, bits: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Rows as long as a value are compared, and where that is most rows, a search says which; some tiles are raw."""
    noise = [rng.integers(0, 256, int(size), dtype=np.uint8).tobytes() for size in rng.integers(0, 1024, 9)]
    rows: Rows = [*mixed(rng, SEGMENT, nulls=True), *noise, *mixed(rng, SEGMENT // 2), b"x" * 1024, b""]
    there = Segments(gpu.cuda.to_device(compressed(rows, bits, tile_size)))
    some = [row for row in (*rows[::40], *noise) if row is not None]
    for values in (some, [*some, *(row[:-1] + b"?" for row in some if row)], [b"x" * 1024], [b"y" * 1024]):
        check(gpu, rows, there, IsIn(tuple(values)), exact=True)
    ids = [b"id %04d, of one length" % i for i in rng.integers(0, 200, 1500)]
    same = Segments(gpu.cuda.to_device(compressed(ids, bits, tile_size)))
    check(gpu, ids, same, IsIn(tuple(ids[:9])), exact=True)
    assert {"onpair_match_values", "onpair_match_values_searched"} <= set(gpu.device.launches)


def test_what_is_left_to_decoding(gpu: Gpu, rng: np.random.Generator) -> None:
    """Values that are too long to be compared, and too many to be searched."""
    there = Segments(gpu.cuda.to_device(compressed(mixed(rng, 3000), 11, 256)))
    assert ask(gpu, there, IsIn(tuple(b"%04d" % i * 300 for i in range(100)))) is None


def test_columns_of_several_codecs(gpu: Gpu, rng: np.random.Generator) -> None:
    """Each run of segments is asked by its codec, and once for all calls."""
    parts = [mixed(rng, SEGMENT, nulls=True) for _ in range(3)]
    host = [*compressed(parts[0], 11, 256), *cpu.compress(column(list(parts[1]))), *compressed(parts[2], 12, 256)]
    rows = [row for part in parts for row in part]
    there = Segments(gpu.cuda.to_device(host))
    for question in questions(rows):
        if ask(gpu, there, question) is not None:
            check(gpu, rows, there, question)
    check(gpu, rows, there, contains(b"final"))
    assert {"onpair_search", "fsst_search"} <= set(gpu.device.launches)


def test_rounds(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes no more memory than it may."""
    from cudf_fsst.codecs.text import cuda_match_layout

    rows = mixed(rng, 8 * SEGMENT, nulls=True)
    segments = Segments(gpu.cuda.to_device(compressed(rows, 11, 256)))
    rounds = set()
    for limit in (1 << 20, 250_000):
        monkeypatch.setattr(cuda_match_layout, "scratch_limit", lambda _plain, limit=limit: limit)
        segments.reading = None
        for question in (contains(b"final"), Find(b"e"), Length(), Like((b"", b"a", b"bc", b"final", b""))):
            gpu.device.allocations.clear()
            gpu.device.launches.clear()
            check(gpu, rows, segments, question)
            result = np.dtype(answer_dtype(question)).itemsize * len(rows)
            assert sum(gpu.device.allocations) - result <= limit
            rounds.add((limit, gpu.device.launches.count("onpair_automata")))
    assert {(1 << 20, 1), (250_000, 2)} <= rounds
