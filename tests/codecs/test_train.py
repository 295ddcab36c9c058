"""Training: a pure function of the sample, tables that fit the encoder, ratios on the FSST paper's files."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst.symbols import hash_slot
from cudf_fsst.codecs.fsst.train import MAX_SAMPLE, train_table
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.layout import LEVELS

#: Characters / codes that the original FSST library (scalar C++, string by string) reaches.
ORIGINAL_RATIO = {
    "c_name": 3.578,
    "chinese": 1.674,
    "city": 1.948,
    "faust": 1.779,
    "genome": 3.000,
    "hex": 1.874,
    "l_comment": 2.909,
    "movies": 1.593,
    "urls2": 1.955,
    "uuid": 2.345,
}


def words(seed: int, nbytes: int) -> np.ndarray:
    """Text of some hundred invented words."""
    source = random.Random(seed)
    lexicon = ["".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(300)]
    return np.frombuffer(" ".join(source.choices(lexicon, k=nbytes)).encode()[:nbytes], np.uint8)


def chunks(size: int) -> np.ndarray:
    return np.arange(0, size, plan.SAMPLE_CHUNK, dtype=np.int64)


def test_finds_what_repeats() -> None:
    sample = np.frombuffer(b"http://www." * 400, np.uint8)
    table = train_table(sample, chunks(sample.size))
    assert max(map(len, table.symbols)) == 8
    assert all(symbol in bytes(sample[:100]) for symbol in table.symbols)


def test_empty_sample() -> None:
    assert len(train_table(np.empty(0, np.uint8), np.empty(0, np.int64))) == 0


@given(st.binary(min_size=1, max_size=2000))
def test_any_sample(data: bytes) -> None:
    sample = np.frombuffer(data, np.uint8)
    table = train_table(sample, chunks(sample.size))
    slots = [hash_slot(int.from_bytes(symbol[:3], "little")) for symbol in table.symbols if len(symbol) > 2]
    assert len(set(slots)) == len(slots), "one symbol a slot"
    assert len(set(table.symbols)) == len(table)
    assert all(any(symbol in data[a : a + 512] for a in range(0, len(data), 512)) for symbol in table.symbols)


def test_chunks_do_not_join() -> None:
    sample = np.frombuffer(b"ab" * 1000, np.uint8)
    table = train_table(sample, np.arange(0, sample.size, dtype=np.int64))
    assert set(table.symbols) == {b"a", b"b"}


def test_same_table_from_every_thread() -> None:
    samples = [words(seed, 30000) for seed in range(4)]
    expected = [train_table(sample, chunks(sample.size)) for sample in samples]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: train_table(samples[i % 4], chunks(30000)), range(32)))
    assert found == expected * 8


def test_largest_sample() -> None:
    sample = np.random.default_rng(0).integers(0, 256, MAX_SAMPLE, np.uint8)
    assert len(train_table(sample, chunks(sample.size))) <= 255
    assert len(train_table(np.zeros(MAX_SAMPLE, np.uint8), np.zeros(1, np.int64))) > 0


@pytest.mark.parametrize(
    ("size", "starts", "message"),
    [(MAX_SAMPLE + 1, [0], "at most"), (10, [1], "start at 0"), (10, [], "start at 0"), (10, [0, 11], "ascend")],
)
def test_wrong_samples(size: int, starts: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_table(np.zeros(size, np.uint8), np.array(starts, np.int64))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("chars", [0, 1, 511, 512, 513, 32767, 32768, 32769, 131073, 10**6, 2**31 + 7, 2**40])
def test_sample_positions(chars: int, level: str) -> None:
    starts, length = plan.sample_positions(1000, chars, level)
    nbytes = plan.SAMPLE_CHUNKS[level] * plan.SAMPLE_CHUNK
    ends = np.minimum(starts + length, 1000 + chars)
    assert (starts[1:] >= ends[:-1]).all()
    assert (ends > starts).all()
    if chars <= nbytes:
        assert (ends - starts).sum() == chars
    else:
        assert (ends - starts).sum() == nbytes
        assert starts[0] >= 1000
        assert ends[-1] <= 1000 + chars


def test_plan() -> None:
    mib = plan.MIB
    assert plan.segment_size(0) == plan.segment_size(504 * mib) == 28 * mib
    assert plan.segment_size(504 * mib + 1) == 29 * mib
    assert plan.segment_size(2**40) == 256 * mib
    assert plan.segment_count(0) == plan.segment_count(28 * mib) == 1
    assert plan.segment_count(28 * mib + 1) == 2
    assert plan.segments_per_table(0) == 18
    assert plan.segments_per_table(2**40) == 2


def test_ratio_of_the_papers_files(dbtext: Path) -> None:
    relative = {}
    for name, original in ORIGINAL_RATIO.items():
        chars = np.frombuffer((dbtext / name).read_bytes().replace(b"\n", b""), np.uint8)
        segments = cpu.compress(HostStrings(1, chars, np.array([0, chars.size], np.int64)))
        relative[name] = chars.size / sum(segment.codes_nbytes for segment in segments) / original
    assert min(relative.values()) >= 0.99, relative
    assert math.prod(relative.values()) >= 1.00, relative
    assert relative["l_comment"] * ORIGINAL_RATIO["l_comment"] >= 2.95
