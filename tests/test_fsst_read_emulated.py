"""Ranges and chosen rows of strings on an emulated GPU, against the CPU codec."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.codecs import onpair
from cudf_fsst.codecs.text import cpu, launch
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.segment import Segments
from emulation.conftest import emulator
from fsst_gpu import (
    ODD,
    SEGMENT,
    WAYS,
    Gpu,
    any_rows,
    column,
    damaged_in_many_places,
    gpu,
    same_strings,
    several,
    take_in_a_way,
    text,
)

__all__ = ["emulator", "gpu"]


@pytest.mark.parametrize("nulls", [False, True])
def test_take(nulls: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    rows: list[bytes | None] = [None if nulls and rng.random() < 0.2 else row for row in text(rng, 2 * SEGMENT)]
    rows[10] = b"final deposits sleep " * 200
    segments = cpu.compress(column(rows))
    on_gpu = gpu.cuda.to_device(segments)
    wanted = np.array([10, 10, 0, len(rows) - 1, *rng.integers(0, len(rows), 60)], np.int64)
    for chosen in (wanted, wanted[:1], wanted[:0], np.sort(wanted)):
        same_strings(gpu.download(gpu.cuda.take(on_gpu, chosen)), cpu.take(segments, chosen))
    for start, stop in ((0, len(rows)), (3, 900), (10, 11), (len(rows) - 5, len(rows)), (7, 7), (1, len(rows) - 1)):
        same_strings(gpu.download(gpu.cuda.take_range(on_gpu, start, stop)), cpu.read(segments, start, stop))


@pytest.mark.parametrize("step", [-1, 2])
def test_take_by_a_view(step: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Row numbers on the GPU that do not lie one behind another."""
    rows = text(rng, 8000)
    segments = cpu.compress(column(list(rows)))
    wanted = rng.integers(0, len(rows), 60)[::step]
    taken = gpu.cuda.take(gpu.cuda.to_device(segments), gpu.device.array(wanted))
    same_strings(gpu.download(taken), cpu.take(segments, wanted))


def test_several_columns_in_one_call(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same rows: all, or a range; one launch for all that share a tile size, one wait for a range."""
    from cudf_fsst.codecs.text import cuda_read
    from cudf_fsst.device.memory import Lane

    gpu.device.order = "random"
    count = 1500
    columns = several(rng, count)
    on_host = [cpu.compress(column(rows), tile_size=256 if i else 512) for i, rows in enumerate(columns)]
    assert max(map(len, on_host)) > 2
    there = [Segments(gpu.cuda.to_device(segments)) for segments in on_host]
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    for start, stop in ((0, None), (0, count), (0, 1), (3, None), (10, 10), (count - 1, None), (300, 1203), (511, 513)):
        for some in (slice(0, 4), slice(1, 2), slice(3, None), slice(2, 3)):
            waits.clear()
            gpu.device.launches.clear()
            with Lane() as lane:
                found = cuda_read.read(there[some], lane=lane, start=start, stop=stop)
            assert len(waits) == (start < (stop or count) and (start, stop or count) != (0, count))
            assert gpu.device.launches.count("fsst_decode") <= 2
            assert gpu.device.launches.count("row_lengths_unpack") <= 1
            assert gpu.device.launches.count("gather_validity") <= 1
            for one, rows in zip(found, columns[some], strict=True):
                same_strings(gpu.download(one), column(rows[start:stop]))


@given(
    rows=any_rows,
    copies=st.integers(1, 12),
    edges=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    tile_size=st.sampled_from(TILE_SIZES),
    level=st.sampled_from(LEVELS),
    few=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_range(
    rows: list[bytes | None],
    copies: int,
    edges: tuple[int, int],
    tile_size: int,
    level: str,
    few: bool,
    gpu: Gpu,
) -> None:
    """Of few rows, too, in the way of many."""
    from cudf_fsst.codecs.text import cuda_read

    strings = column([*(rows * copies), b"end"])
    start, stop = sorted(edge % (strings.rows + 1) for edge in edges)
    segments = cpu.compress(strings, tile_size=tile_size, level=level)
    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(cuda_read, "_read_few", lambda *_: None)
        found = gpu.cuda.take_range(gpu.cuda.to_device(segments), start, stop)
    same_strings(gpu.download(found), cpu.read(segments, start, stop))


@pytest.mark.parametrize("nulls", [False, True])
def test_whole_segments(nulls: bool, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that are read without a wait, and validity by itself."""
    from cudf_fsst.codecs.text import cuda_read
    from cudf_fsst.device.memory import Lane

    rows: list[bytes | None] = list(text(rng, 4 * SEGMENT))
    if nulls:
        half = len(rows) // 2
        rows = [None if i < half and rng.random() < 0.2 else row for i, row in enumerate(rows)]
    host = cpu.compress(column(rows))
    there = Segments(gpu.cuda.to_device(host))
    edges = np.cumsum([0, *(segment.rows for segment in host)]).tolist()
    assert len(host) > 3
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    monkeypatch.setattr(cuda_read, "_read_few", lambda *_: None)
    for first, last in combinations(range(len(edges)), 2):
        start, stop = edges[first], edges[last]
        waits.clear()
        with Lane() as lane:
            (found,) = cuda_read.read([there], lane=lane, start=start, stop=stop)
        assert waits == []
        same_strings(gpu.download(found), cpu.read(host, start, stop))
        if stop > start + 1:
            found = gpu.cuda.take_range(there, start + 1, stop)
            assert waits
            same_strings(gpu.download(found), cpu.read(host, start + 1, stop))
    with Lane() as lane:
        mask = cuda_read.validity(there, lane=lane)
    assert (mask is None) == (not nulls)
    if nulls:
        gpu.device.default.synchronize()
        bits = np.frombuffer(gpu.emulator.read(mask.ptr, mask.size), np.uint8)
        assert np.unpackbits(bits, count=len(rows), bitorder="little").tolist() == [row is not None for row in rows]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_take_from_several_columns(way: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Whatever the order of the rows; and the same through host memory where they are few."""
    from cudf_fsst.codecs.text import cuda_take
    from cudf_fsst.device.memory import Lane

    gpu.device.order = "random"
    count = 1500
    columns = [column(rows) for rows in several(rng, count)]
    on_host = [
        cpu.compress(one, tile_size=size, level=level)
        for one, size, level in zip(columns, (256, 1024, 512, 128), ("default", "max", "default", "max"), strict=True)
    ]
    there = [Segments(gpu.cuda.to_device(segments)) for segments in on_host]
    every, some = np.arange(count), rng.integers(0, count, 700)
    chosen = {
        "mask": np.flatnonzero(rng.random(count) < 0.15),
        "dense mask": np.flatnonzero(rng.random(count) < 0.9),
        "descending": every[::-1],
        "repeated": np.repeat(some[:90], 7),
        "any": some,
        "one": some[:1],
        "the last": every[-1:],
        "giant rows": every[1::500],
        "ten": some[:10],
        "a group": every[100 : 100 + launch.TAKE_ROWS],
        "more than a group": every[100 : 101 + launch.TAKE_ROWS],
    }
    for name, rows in chosen.items():
        expected = [cpu.take(segments, rows) for segments in on_host]
        for one, wanted in zip(take_in_a_way(way, gpu, there, rows), expected, strict=True):
            same_strings(gpu.download(one), wanted)
        if way == "few":
            with Lane() as lane:
                fetched = cuda_take.fetch(there, rows.tolist(), lane=lane)
            fits = max(wanted.chars.size for wanted in expected) <= cuda_take.FEW_CHARS
            fits = fits and rows.size <= launch.TAKE_ROWS
            assert (fetched is not None) == fits, name
            for one, wanted in zip(fetched or [], expected, strict=False):
                same_strings(one, wanted)


def test_single_rows_by_python(gpu: Gpu, rng: np.random.Generator) -> None:
    """All but long rows, and damaged ones."""
    from cudf_fsst.codecs.text import cuda_row
    from cudf_fsst.device.memory import Lane

    count = 1500
    columns = [column(rows) for rows in several(rng, count)]
    sizes = zip(columns, (256, 1024, 512, 128), ("default", "max", "default", "max"), strict=True)
    on_host = [cpu.compress(one, tile_size=size, level=level) for one, size, level in sizes]
    on_host += [cpu.compress(columns[0], onpair, tile_size=256), [*on_host[0], *on_host[2], *on_host[3]]]
    for segments in on_host:
        there = Segments(gpu.cuda.to_device(segments))
        rows = sum(segment.rows for segment in segments)
        for row in {0, rows - 1, *rng.integers(0, rows, 30).tolist()}:
            wanted = cpu.take(segments, np.array([row]))
            with Lane() as lane:
                found = cuda_row.read_row(there, row, lane)
            assert (found is None) == (wanted.chars.size > cuda_row.MOST_CHARS)
            if found is not None:
                same_strings(found, wanted)
    for _ in range(60):
        damaged = damaged_in_many_places(on_host[0][0], rng, 0.5)
        there = gpu.cuda.to_device([damaged])
        with Lane() as lane:
            for row in rng.integers(0, damaged.rows, 5).tolist():
                found = cuda_row.read_row(there, row, lane)
                assert found is None or found.chars.size <= cuda_row.MOST_CHARS


@given(
    rows=any_rows,
    copies=st.integers(1, 12),
    chosen=st.lists(st.integers(0, 10**6), min_size=1, max_size=600),
    way=st.sampled_from(sorted(WAYS)),
    tile_size=st.sampled_from(TILE_SIZES),
    ascending=st.booleans(),
    shares=st.sampled_from([None, 1, 3]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_take_any_rows(
    rows: list[bytes | None],
    copies: int,
    chosen: list[int],
    way: str,
    tile_size: int,
    ascending: bool,
    shares: int | None,
    gpu: Gpu,
) -> None:
    strings = column([*(rows * copies), b"end"])
    numbers = np.array(sorted(chosen) if ascending else chosen, np.int64) % strings.rows
    segments = cpu.compress(strings, tile_size=tile_size)
    (found,) = take_in_a_way(way, gpu, [gpu.cuda.to_device(segments)], numbers, shares)
    same_strings(gpu.download(found), cpu.take(segments, numbers))


def test_waits_and_launches_of_a_take(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wait, however many columns there are, and two launches, or one for few rows."""
    from cudf_fsst.codecs.text import cuda_take
    from cudf_fsst.device.memory import Lane

    columns = [column(rows) for rows in several(rng, 1500)[:3]]
    there = [Segments(gpu.cuda.to_device(cpu.compress(one))) for one in columns]
    waits: list[int] = []
    monkeypatch.setattr(Lane, "synchronize", lambda lane: (waits.append(1), lane.stream.synchronize()))
    for rows, launches in ((10, ["fsst_take_few"]), (900, ["take_measure", "fsst_take_many"])):
        waits.clear()
        gpu.device.launches.clear()
        with Lane() as lane:
            cuda_take.take(there, rng.integers(0, 1500, rows), lane=lane)
        assert waits == [1]
        assert gpu.device.launches == launches


def test_what_a_column_keeps(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors and tables are made once for `Segments`, and not for another device or other launch choices."""
    import pickle

    from cudf_fsst.codecs.fsst import cuda_kernels
    from cudf_fsst.codecs.text import cuda_reading

    strings = column(list(text(rng, 2 * SEGMENT)))
    segments = Segments(gpu.cuda.to_device(cpu.compress(strings)))
    made: list[int] = []
    describe = launch.describe
    monkeypatch.setattr(launch, "describe", lambda some: (made.append(1), describe(some))[1])
    for _ in range(3):
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
        gpu.cuda.take_range(segments, 5, 90)
        gpu.cuda.take(segments, np.array([7, 3]))
    assert made == [1]
    plan_before = segments.reading.whole()
    assert segments.reading.whole() is plan_before
    with cuda_kernels.trying(ODD["one warp"]):
        assert segments.reading.whole() is not plan_before
        same_strings(gpu.download(gpu.cuda.decompress(segments)), strings)
    assert isinstance(segments.reading, cuda_reading.Reading)
    assert pickle.loads(pickle.dumps(Segments(()))).reading is None
