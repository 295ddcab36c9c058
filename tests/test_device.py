"""On a GPU with cuDF: memory, streams, threads, spilled and very large columns."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cudf_fsst
from cudf_fsst.codecs.fsst import plan
from cudf_fsst.format import LEVELS

pytestmark = pytest.mark.gpu

MIB = 2**20


def sentences(rows: int, seed: int = 1) -> Any:
    """A cuDF column of `rows` sentences of a few words, about 30 characters each, without nulls."""
    import cudf
    import cupy

    words = cudf.Series("the quick brown fox jumps over lazy dogs carefully final deposits sleep above ironic".split())
    random = cupy.random.RandomState(seed)
    parts = [words.take(random.randint(0, len(words), rows)).reset_index(drop=True) for _ in range(5)]
    text = parts[0]
    for part in parts[1:]:
        text = text.str.cat(part, sep=" ")
    return text


def arrow_nbytes(series: Any) -> int:
    return int(series.memory_usage(index=False))


@pytest.fixture
def statistics() -> Iterator[Any]:
    """`rmm.statistics`, counting."""
    import rmm.statistics

    rmm.statistics.enable_statistics()
    yield rmm.statistics
    rmm.mr.set_current_device_resource(rmm.mr.get_current_device_resource().upstream_mr)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1_000, 3_000_000, 30_000_000])
def test_memory_rule(statistics: Any, rows: int, level: str) -> None:
    """Peak = input + result + one workspace of at most max(64 MiB, an eighth of the input)."""
    series = sentences(rows)
    limit = max(64 * MIB, arrow_nbytes(series) // 8)
    statistics.push_statistics()
    column = series.fsst.compress(level=level)
    counts = statistics.pop_statistics()
    kept = sum(segment.nbytes for segment in column.segments)
    assert counts.peak_bytes - kept <= limit
    assert counts.current_bytes == kept
    assert counts.total_count == 1 + 2 * len(column.segments), "one workspace, and two buffers a segment"

    statistics.push_statistics()
    back = column.decompress()
    counts = statistics.pop_statistics()
    assert counts.peak_bytes - arrow_nbytes(back) <= limit
    assert counts.current_bytes == arrow_nbytes(back)
    assert counts.total_count <= 4, "offsets, characters, validity and one workspace"
    assert back.equals(series)


@pytest.mark.slow
def test_user_resource_and_out_of_memory(statistics: Any) -> None:
    """Whatever resource is set is allocated from; its MemoryError leaves nothing behind, wherever it comes."""
    import rmm

    series = sentences(2_000_000)
    column = series.fsst.compress()
    before = rmm.mr.get_current_device_resource()
    for call in (series.fsst.compress, column.decompress, lambda: column.take(np.arange(0, 2_000_000, 3))):
        limit, failures = MIB, 0
        while True:
            limited = rmm.mr.LimitingResourceAdaptor(before, allocation_limit=limit)
            rmm.mr.set_current_device_resource(limited)
            result = None
            with contextlib.suppress(MemoryError):
                result = call()
                assert limited.get_allocated_bytes() > 0
            failed, result = result is None, None
            gc.collect()  # the exception's frames may form cycles
            rmm.mr.set_current_device_resource(before)
            assert limited.get_allocated_bytes() == 0
            if not failed:
                break
            failures += 1
            limit += 4 * MIB
        assert failures > 3
    assert column.decompress().equals(series)


def test_threads_and_streams() -> None:
    import cupy

    columns = [sentences(200_000 + 1000 * i, seed=i) for i in range(6)]
    wanted = [column.fsst.compress().to_host() for column in columns]
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            stream = cupy.cuda.Stream(non_blocking=True) if i % 2 else None
            for _ in range(5):
                compressed = columns[i].fsst.compress(stream=stream)
                back = compressed.decompress(stream=stream)
                picked = compressed.take(np.arange(0, len(columns[i]), 7), stream=stream)
                assert back.equals(columns[i])
                assert picked.equals(columns[i].iloc[::7])
                for a, b in zip(compressed.to_host(stream=stream).segments, wanted[i].segments, strict=True):
                    assert np.array_equal(a.codes, b.codes)
                    assert np.array_equal(a.meta, b.meta)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(columns))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_spilled_input() -> None:
    """cuDF's spilling has to be on before its first buffer."""
    code = """
import cudf, cudf_fsst
cudf.set_option("spill", True)
series = cudf.Series(["a", None, "sentence"] * 1000)
buffer = series._column.data
buffer.owner.spill("cpu")
assert buffer.owner.is_spilled
column = series.fsst.compress()
assert column.decompress().equals(series)
series._column.data.owner.spill("cpu")  # and it can be spilled again: nothing was exposed
assert cudf_fsst.train(series) == column.tables[0]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_row_longer_than_a_segment() -> None:
    """Its segment is encoded in two passes."""
    import cudf

    rows = ["x" * 10, "abcdefgh " * (5 * MIB), None, "tail"]
    series = cudf.Series(rows)
    column = series.fsst.compress()
    assert max(segment.chars for segment in column.segments) > plan.SEGMENT_MIN * 17 // 16
    assert column.decompress().equals(series)
    assert column[3] == "tail"
    host = series.to_pandas().fsst.compress()
    for a, b in zip(column.to_host().segments, host.segments, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.meta, b.meta)


def test_characters_under_nulls() -> None:
    """Arrow allows them; cuDF takes such buffers over as they are."""
    import cudf
    import cupy
    import pylibcudf as plc

    words = ["one", "two", "three", "four"] * 100
    series = cudf.Series(words)
    column, _ = series.to_pylibcudf()
    mask = cupy.full(64, 0b01010101, dtype=cupy.uint8)
    masked = cudf.Series.from_pylibcudf(
        plc.Column(column.type(), column.size(), column.data(), plc.gpumemoryview(mask), 200, 0, [column.child(0)])
    )
    wanted = [word if i % 2 == 0 else None for i, word in enumerate(words)]
    compressed = masked.fsst.compress()
    assert compressed.chars_nbytes == sum(len(word) for word in wanted if word)
    assert compressed.to_arrow().to_pylist() == wanted


@pytest.mark.slow
def test_more_than_2_to_31_characters() -> None:
    import cudf

    piece = sentences(1_000_000)
    series = cudf.concat([piece] * 76, ignore_index=True)
    column = series.fsst.compress()
    assert column.chars_nbytes > 2**31
    assert column.decompress().equals(series)
    middle = len(series) // 2
    assert column[middle : middle + 10].equals(series.iloc[middle : middle + 10])
    rows = np.random.default_rng(0).integers(0, len(series), 10_000)
    assert column.take(rows).equals(series.take(rows))
    assert cudf_fsst.concat([column, column])[len(series) : len(series) + 3].equals(series.iloc[:3])
