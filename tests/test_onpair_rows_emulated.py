"""Automata of rows over OnPair's codes on an emulated GPU, against what they say of plain bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cudf_fsst import automata
from cudf_fsst.codecs.text import launch
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.segment import Segments
from emulation.conftest import emulator
from fsst_gpu import SEGMENT, Gpu, damaged_in_many_places, gpu, text
from test_match_emulated import mixed
from test_onpair_match_emulated import compressed
from test_rows_emulated import answers, check, machines

__all__ = ["emulator", "gpu"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bits", [10, 11, 12])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_rows(tile_size: int, bits: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Several segments and tables, nulls, raw tiles, rows over tiles, in symbols, of nothing, and one too long."""
    rows = mixed(rng, 3 * SEGMENT, nulls=True)
    rows[40] = b" ".join(text(rng, 900))
    rows[60] = b" ".join(text(rng, 9000))[: launch.MOST_ROW + 1]
    rows += [rng.integers(0, 256, int(size), dtype=np.uint8).tobytes() for size in rng.integers(0, 4000, 4)]
    rows += [b""] * 700 + [b"final"] * 50 + [b"fi", b"n", b"al", b""] * 50
    half = len(rows) // 2
    host = [*compressed(rows[:half], bits, tile_size), *compressed(rows[half:], 10, tile_size)]
    there = Segments(gpu.cuda.to_device(host))
    for machine in machines():
        check(gpu, rows, there, machine)
    assert "onpair_decode" not in gpu.device.launches


@pytest.mark.parametrize("rows", [[b""], [b"", b""], [b"a"], [b"final deposits"] * 300, [b"ab"] * 5000, [None] * 300])
def test_few_rows(rows: list[bytes | None], gpu: Gpu) -> None:
    there = Segments(gpu.cuda.to_device(compressed(rows, 11, 256)))
    large = automata.ends_with(tuple([b"final deposits"[:i] + b"ab" * 60 for i in range(3)]))
    for machine in (*machines()[:3], large):
        check(gpu, rows, there, machine)


def test_damaged(gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever the bytes, nothing outside is read or written; the sanitizer sees it."""
    rows = [row and row[: 40 if i % 2 else 4000] for i, row in enumerate(mixed(rng, SEGMENT // 2, nulls=True))]
    for bits, tile_size in ((10, 128), (11, 256), (12, 512)):
        [whole] = compressed(rows, bits, tile_size)
        for machine in machines()[:4]:
            answers(gpu, gpu.cuda.to_device([damaged_in_many_places(whole, rng, 0.6)]), machine)


@pytest.mark.parametrize("wide", [True, False])
def test_lengths_whose_sums_wrap(wide: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    """Rows that seem to begin and end in a bundle, and lie far outside of it."""
    rows = [b"x" * (220 if i % 97 == 0 else int(n)) for i, n in enumerate(rng.integers(8, 16, 3000))]
    whole = compressed(rows, 11, 256)[0]
    damaged = dataclasses.replace(whole, meta=whole.meta.copy())
    if wide:
        damaged.section("row_words")[1] = 8 * 63
        lengths = sum((2**62 - int(damaged.section("row_minima")[0])) << 63 * k for k in range(4))
        damaged.section("row_bits")[:16] = np.frombuffer(lengths.to_bytes(64, "little"), np.uint32)
    else:
        damaged.section("row_words")[1] = 8 * 9
        damaged.section("row_starts")[0] = 2**63 - 20
    answers(gpu, gpu.cuda.to_device([damaged]), machines()[0])
