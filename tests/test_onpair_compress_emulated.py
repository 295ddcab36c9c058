"""Columns that an emulated GPU compresses by ``onpair``, in the pipeline of all text: the same bytes as on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cudf_fsst.buffers import CharactersUnderNulls, DeviceStrings, HostStrings
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.onpair import plan as onpair_plan
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.text import choose, cpu, plan
from cudf_fsst.codecs.text.layout import TILE_SIZES
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, emulated, failing_every_allocation
from emulation.emulator import Emulator
from fsst_gpu import CASES, SEGMENT, Gpu, column, columns, same_segments, text

__all__ = ["emulator", "gpu"]
FSST, ONPAIR = registry.texts()


@pytest.fixture(params=["sm_90"])
def gpu(request: pytest.FixtureRequest, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 2 * SEGMENT)
    device = FakeDevice(emulator, request.param)
    with emulated(device, "text"):
        yield Gpu(device)


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes of a few KB are longer than their samples."""
    monkeypatch.setattr(onpair_plan, "SAMPLE_MIN", 8192)
    monkeypatch.setattr(onpair_plan, "SAMPLE_MAX", 32768)
    monkeypatch.setattr(plan, "CHOICE_CHUNKS", 16)


def compressed(gpu: Gpu, tasks: list[tuple[HostStrings, dict[str, Any]]], *codecs: Any) -> list[Any]:
    """Segments of columns, in host memory; by the smallest of several codecs."""
    from cudf_fsst.codecs.text.cuda_task import TextTask
    from cudf_fsst.device import waits
    from cudf_fsst.device.memory import Lane

    wanted = [TextTask(gpu.upload(strings), **options) for strings, options in tasks]
    with Lane() as lane:
        (found,) = waits.run(lane, gpu.cuda.steps(codecs, wanted, lane=lane))
    return [gpu.cuda.to_host(segments) for segments in found]


def long_words(rng: np.random.Generator, nbytes: int) -> list[bytes]:
    """Text of 200 words that are too long for FSST's symbols."""
    words = [rng.integers(97, 123, 12, dtype=np.uint8).tobytes() for _ in range(200)]
    return [b" ".join(words[i] for i in rng.integers(0, 200, 4)) for _ in range(nbytes // 51)]


@pytest.mark.sampled(4)
@pytest.mark.covering(1)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("case", CASES)
def test_one_column(case: str, tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    strings = columns(rng)[case]
    [found] = compressed(gpu, [(strings, {"tile_size": tile_size})], ONPAIR)
    same_segments(found, cpu.compress(strings, ONPAIR, tile_size=tile_size))


@pytest.mark.parametrize("gpu", ["sm_75"], indirect=True)
def test_many_columns(gpu: Gpu, rng: np.random.Generator) -> None:
    """Short and long ones, with tables of other bits, in few launches."""
    every = columns(rng)
    table = cpu.train(every["nulls"], ONPAIR)
    assert isinstance(table, OnPairTable)
    given = [OnPairTable(bits, table.symbols[: (1 << bits) - 256]) for bits in (10, 11, 12)]
    tasks: list[tuple[HostStrings, dict[str, Any]]] = [(strings, {}) for strings in every.values()]
    tasks += [(every["nulls"], {"table": one}) for one in given]
    tasks += [(every["three segments, two tables"], {"table": given[2], "tile_size": 128})]
    for found, (strings, options) in zip(compressed(gpu, tasks, ONPAIR), tasks, strict=True):
        same_segments(found, cpu.compress(strings, ONPAIR, **options))
    assert compressed(gpu, [(column([]), {})], ONPAIR) == [[]]


def test_samples_are_fetched(gpu: Gpu, small_samples: None, rng: np.random.Generator) -> None:
    """Chunks from all of a scope, for training and for the choice."""
    strings = column([*text(rng, 2 * SEGMENT), b"x" * 300, *text(rng, 3 * SEGMENT)])
    for level in "default", "max":
        [found] = compressed(gpu, [(strings, {"level": level})], ONPAIR)
        expected = cpu.compress(strings, ONPAIR, level=level)
        assert len({segment.table for segment in expected}) > 1
        same_segments(found, expected)
    assert gpu.cuda.train(gpu.upload(strings), "onpair") == cpu.train(strings, ONPAIR)
    assert gpu.cuda.train(DeviceStrings(0, 0, 0, 4), "onpair") == cpu.train(column([]), ONPAIR)


def test_the_smallest_of_each_scope(gpu: Gpu, small_samples: None, rng: np.random.Generator) -> None:
    """Scopes of both codecs in one column, in the order of its rows; some of its scopes alone."""
    digits: list[bytes | None] = [f"{one:08x}".encode() for one in rng.integers(0, 2**32, SEGMENT // 4)]
    strings = column([*long_words(rng, 2 * SEGMENT), *digits, None, *long_words(rng, 2 * SEGMENT)])
    expected = cpu.compress(strings, FSST, ONPAIR, level="max")
    assert {segment.codec for segment in expected} == {"fsst", "onpair"}
    other = columns(rng)["nulls"]
    tasks: list[tuple[HostStrings, dict[str, Any]]] = [(strings, {"level": "max"}), (other, {"level": "max"})]
    first, second = compressed(gpu, tasks, FSST, ONPAIR)
    same_segments(first, expected)
    same_segments(second, cpu.compress(other, FSST, ONPAIR, level="max"))
    tables = list(dict.fromkeys(segment.table for segment in expected))
    [some] = compressed(gpu, [(strings, {"level": "max", "only": frozenset({1, 2})})], FSST, ONPAIR)
    same_segments(some, [segment for segment in expected if segment.table in tables[1:3]])


@pytest.mark.parametrize(("codecs", "waits"), [((ONPAIR,), 1), ((FSST, ONPAIR), 2)], ids=["onpair", "all"])
def test_tables_are_compared_there(
    codecs: tuple[Any, ...],
    waits: int,
    gpu: Gpu,
    small_samples: None,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host neither encodes samples nor makes again what an encoder reads, and waits once for all scopes.

    Once more for tables of which it makes what an encoder reads.
    """
    strings = column([*long_words(rng, 4 * SEGMENT)])
    expected = cpu.compress(strings, *codecs, level="max")
    assert {segment.codec for segment in expected} == {"onpair"}
    tables = [segment.table for segment in expected][::2]
    [found] = compressed(gpu, [(strings, {"level": "max", "tables": tables})], ONPAIR)
    same_segments(found, expected)
    with_tables, gpu.device.waits = gpu.device.waits, 0
    monkeypatch.setattr(type(ONPAIR.device().encoders("max")[0]), "lookup", None)
    monkeypatch.setattr(choose, "scope_nbytes", None)
    [found] = compressed(gpu, [(strings, {"level": "max"})], *codecs)
    same_segments(found, expected)
    assert gpu.device.waits == with_tables + waits
    assert gpu.device.launches.count("text_sample") == 1


@pytest.mark.parametrize("rows", ["few", "many"])
def test_many_segments(rows: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are described while others are encoded; many rows are measured before training takes all the GPU."""
    monkeypatch.setattr("cudf_fsst.codecs.onpair.launch.FEW_BUNDLES", 0)
    if rows == "many":
        monkeypatch.setattr("cudf_fsst.codecs.text.cuda_tables._MANY_ROW_BLOCKS", 0)
    strings = column([*text(rng, 9 * SEGMENT)])
    [found] = compressed(gpu, [(strings, {})], ONPAIR)
    same_segments(found, cpu.compress(strings, ONPAIR))
    launches = gpu.device.launches
    assert (launches.index("row_lengths_measure") < launches.index("onpair_train")) == (rows == "many")
    assert launches.count("onpair_encode") == len(found) > 8
    begun = launches.index("row_lengths_pack")
    assert launches[:begun].count("onpair_encode") > 4  # there is memory for all rows by then


@pytest.mark.parametrize(
    ("order", "level"), [*((order, "default") for order in ORDERS), ("lazy", "max"), ("random", "max")]
)
def test_any_order_of_streams(order: str, level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    gpu.device.order = order
    strings = column([*text(rng, 3 * SEGMENT)])
    [found] = compressed(gpu, [(strings, {"level": level})], FSST, ONPAIR)
    same_segments(found, cpu.compress(strings, FSST, ONPAIR, level=level))


def test_what_is_refused(gpu: Gpu) -> None:
    strings = column([b"abc", None, b"de"])
    strings.offsets[2:] += 1
    strings.chars = np.concatenate([strings.chars, strings.chars])
    with pytest.raises(CharactersUnderNulls):
        compressed(gpu, [(strings, {})], ONPAIR)
    for options in {"tile_size": 100}, {"level": "most"}:
        with pytest.raises(ValueError, match="must be one of"):
            compressed(gpu, [(column([b"abc"]), options)], ONPAIR)


def test_memory_is_given_back(gpu: Gpu, rng: np.random.Generator) -> None:
    """Whichever allocation fails."""
    tasks: list[tuple[HostStrings, dict[str, Any]]] = [(column([*text(rng, 700)]), {"level": "max"})]
    compressed(gpu, tasks, ONPAIR)
    failing_every_allocation(gpu.device, lambda: compressed(gpu, tasks, ONPAIR))


@pytest.mark.parametrize(
    "sizes", [[1 << 20], [1 << 20] * 50, [90 << 20] * 3, [600 << 20], [3 << 29, 5], [1 << 34]], ids=len
)
def test_memory_of_the_choice(sizes: list[int], emulator: Emulator) -> None:
    """What is taken to train and compare all tables is an eighth of the characters, or 64 MiB.

    Where that has room for them, tables of two numbers of bits are trained side by side.
    """
    with emulated(FakeDevice(emulator), "text"):
        from cudf_fsst.codecs.text import cuda_choice, cuda_room
        from cudf_fsst.codecs.text.cuda_task import TextTask
        from cudf_fsst.device import waits
        from cudf_fsst.device.memory import Lane, Workspace

        class Measured(Workspace):
            def take(self, lane: Lane) -> None:
                """Take nothing."""

        encoders = [*FSST.device().encoders("max"), *ONPAIR.device().encoders("max")]
        tasks = [TextTask(DeviceStrings(1 + size // 30, 0, 0, 4), chars=size, encoder=encoders[0]) for size in sizes]
        with Lane() as lane:
            (columns,) = waits.run(lane, cuda_room.plan_columns(tasks, lane))
            together = list(cuda_choice._rounds(encoders, columns))
            assert sum(map(len, together)) == len(sizes)
            assert len(together) <= 1 + len(sizes) // 5
            for some in together:
                made = cuda_choice._Round(encoders, some, lane, [lane, lane], work := Measured())
                assert work.nbytes <= max(64 << 20, sum(sizes) // 8)
                at_a_time = [len(group) for group in made.groups]
                assert at_a_time == ([2, 1] if sizes in ([1 << 20], [1 << 34]) else [1, 1, 1])
