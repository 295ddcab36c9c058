"""The kernel fsst_train, emulated under the sanitizers, against the training on the CPU."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.codecs.fsst import kernel_tables, launch, train
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import plan
from cudf_fsst.codecs.text.views import ScopeView
from cudf_fsst.codecs.text.views import words as view_words
from emulation.conftest import emulator
from emulation.device import GPUS
from emulation.emulator import SCHEDULES, Emulator
from emulation.trained import table_of
from emulation.trained import train as train_on_host
from fsst_gpu import found_segments
from handmade import noise, words

__all__ = ["emulator"]

TEN_FILES = ("c_name", "chinese", "city", "faust", "genome", "hex", "l_comment", "movies", "urls2", "uuid")
WHOLE = plan.SAMPLE_CHUNK * plan.SAMPLE_CHUNKS["default"]


def same_tables(
    emulator: Emulator,
    scopes: Sequence[bytes],
    *,
    per_table: int = 1,
    shared: int = GPUS["sm_90"][0],
    offset: int = 0,
    cluster: bool = False,
    on_host: bool = False,
) -> None:
    """Train a table for every `per_table` of `scopes`, on both sides; compare what is exported, and for the encoder.

    `cluster`: by fsst_train_cluster. `on_host`: by what stands for the kernels in tests of other things.
    """
    kept = [scope for scope in scopes if scope]
    joined = [b"".join(kept[i : i + per_table]) for i in range(0, len(kept), per_table)]
    blocks = max(1, -(-len(scopes) // per_table))
    room = launch.train_places(shared)
    _, found = found_segments(emulator, scopes, offset)
    mixed = len(scopes) % 2 == 1  # both kinds of tables occur
    views = view_words(ScopeView(found.address, len(scopes), per_table * i, per_table, mixed) for i in range(blocks))
    counts = np.zeros(blocks * launch.TRAIN_COUNTS_NBYTES // 4, np.uint32)
    scratch = np.zeros(blocks * room.scratch, np.uint8)
    tables = np.zeros(blocks * kernel_tables.ENCODE_TABLES_NBYTES, np.uint8)
    exported = np.zeros(blocks, kernel_tables.TRAINED_TABLE)
    defines = {name: f"{value}u" for name, value in launch.train_defines(shared).items()}
    if on_host:
        written = [emulator.buffer(one) for one in (views, tables, exported)]
        addresses = [np.uint64(one.address) for one in written]
        train_on_host(emulator, "fsst_train", blocks, addresses)
        train_on_host(emulator, "fsst_train_cluster", launch.TRAIN_CLUSTER * blocks, addresses)
        tables, exported = written[1].read(), written[2].read(kernel_tables.TRAINED_TABLE)
    elif cluster:
        emulator.load("fsst_train_cluster.cu", defines).launch(
            "fsst_train_cluster",
            launch.TRAIN_CLUSTER * blocks,
            launch.TRAIN_THREADS,
            (views, tables, exported),
            shared_mem=launch.TRAIN_CLUSTER_NBYTES,
        )
    else:
        emulator.load("fsst_train.cu", defines).launch(
            "fsst_train",
            blocks,
            launch.TRAIN_THREADS,
            (views, counts, scratch, tables, exported),
            shared_mem=room.shared,
        )
    assert not counts.any(), "the counts are left as they were found"
    for block in range(blocks):
        expected = table_of(joined[block] if block < len(joined) else b"")
        found = kernel_tables.trained_tables(exported)[block]
        assert found == expected
        assert SymbolTable.from_symbols(found.symbols) == found
        for_encoder = tables.reshape(blocks, -1)[block]
        np.testing.assert_array_equal(for_encoder, kernel_tables.encode_tables(expected, mixed))


def ties() -> bytes:
    """Words and letters that all occur equally often."""
    lexicon = ["".join(letters) for letters in itertools.product("abcdefgh", repeat=4)]
    return "".join(random.Random(3).sample(lexicon * 2, 8192)).encode()


def pairs_at_the_end() -> bytes:
    """Pairs that are frequent in the last generation alone, which finds it in the last chunk."""
    chunks = np.random.default_rng(5).integers(0, 200, (plan.SAMPLE_CHUNKS["default"], plan.SAMPLE_CHUNK), np.uint8)
    chunks[[1, 11, 21, 31]] = chunks[63]
    return chunks.tobytes()


CASES = {
    "no characters": b"",
    "one byte": b"x",
    "two bytes": b"\0\0",
    "text": words(1, WHOLE),
    "a sample of more": words(2, 100_000),
    "shorter chunks": words(3, 5000),
    "a chunk and a byte": words(4, plan.SAMPLE_CHUNK + 1),
    "noise": noise(WHOLE),
    "noise of 16 values": noise(WHOLE, 16),
    "noise of 3 values": noise(WHOLE, 3),
    "zeros": bytes(WHOLE),
    "zeros and ones": noise(20_000, 2),
    "0xff": b"\xff" * WHOLE,
    "0x00 and 0xff": bytes(255 * b for b in noise(30_000, 2)),
    "sparse zeros": bytes(b if b < 4 else 0 for b in noise(WHOLE, 64)),
    "ties": ties(),
    "pairs at the end": pairs_at_the_end(),
    "every byte in turn": bytes(range(256)) * 128,
    "noise, then one letter": noise(9 * 512) + b"a" * (55 * 512),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, cluster: bool, emulator: Emulator) -> None:
    same_tables(emulator, [CASES[name]], cluster=cluster)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shared", [64 << 10, 163 << 10, 227 << 10, 0])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gpus_and_schedules(shared: int, schedule: str, emulator: Emulator) -> None:
    """Where the large arrays lie, and the order of threads, change nothing; nor does a cluster (0)."""
    emulator.schedule = schedule
    scopes = [words(5, 12_345), noise(WHOLE)]
    same_tables(emulator, scopes, shared=shared or GPUS["sm_90"][0], offset=3, cluster=shared == 0)


def test_places_on_gpus() -> None:
    for shared, _ in GPUS.values():
        assert launch.train_places(shared).shared <= shared
    assert not launch.train_places(64 << 10).matches_in_shared
    assert launch.train_places(163 << 10).matches_in_shared
    assert not launch.train_places(163 << 10).candidates_in_shared
    assert launch.train_places(227 << 10).candidates_in_shared
    assert [launch.train_in_clusters(14, shared) for shared, _ in GPUS.values()] == [False, False, False, True]
    assert not launch.train_in_clusters(15, 227 << 10)


@pytest.mark.parametrize("per_table", [1, 2, 40])
def test_scopes(per_table: int, emulator: Emulator) -> None:
    """Segments without rows do not count."""
    texts = [words(seed, 700) for seed in range(3)]
    scopes = [b"", texts[0], b"", b"", texts[1], b"z", texts[2], b""]
    same_tables(emulator, scopes, per_table=per_table, offset=1)
    same_tables(emulator, [b""] * 35 + scopes[:5], per_table=40)


@pytest.mark.parametrize("per_table", [1, 2, 40])
def test_what_stands_for_the_kernels(per_table: int, emulator: Emulator) -> None:
    scopes = [b"", *(CASES[name] for name in ("text", "noise", "one byte", "a sample of more")), b"", words(4, 900)]
    same_tables(emulator, scopes, per_table=per_table, offset=3, on_host=True)
    same_tables(emulator, [*scopes, b""], per_table=per_table, on_host=True)


@given(
    st.lists(st.one_of(st.binary(max_size=12), st.sampled_from([b"ab", b"the ", b"\0" * 9, b"http://"])), max_size=400)
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_characters(emulator: Emulator, pieces: list[bytes]) -> None:
    same_tables(emulator, [b"".join(pieces)])


def test_the_papers_files(dbtext: Path, emulator: Emulator) -> None:
    same_tables(emulator, [(dbtext / name).read_bytes() for name in TEN_FILES])


def test_room_for_candidates() -> None:
    """A generation never has more than fit: a parsed byte adds one pair at most."""
    slots = launch.train_defines(GPUS["sm_90"][0])["TRAIN_CANDIDATES_NBYTES"] // 8
    for part in train.GENERATIONS:
        threshold = max(1, (train.MIN_COUNT * part + 127) // 128)
        taken = sum((chunk * int(train.SPREAD) >> 7 & 127) < part for chunk in range(plan.SAMPLE_CHUNKS["default"]))
        assert taken * plan.SAMPLE_CHUNK // threshold + 511 < slots
