"""On a GPU with cuDF: memory, streams, threads, spilled and very large columns."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudf_fsst
from cudf_fsst.codecs.text import plan
from cudf_fsst.codecs.text.layout import LEVELS

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
    from cudf_fsst.device.memory import ALIGNMENT

    series = sentences(rows)
    limit = max(64 * MIB, arrow_nbytes(series) // 8)
    statistics.push_statistics()
    column = series.fsst.compress(level=level, codec="fsst")
    counts = statistics.pop_statistics()
    kept = sum(segment.nbytes for segment in column.segments)
    assert counts.peak_bytes - kept <= limit
    small = rows == 1_000  # small buffers share memory, of whole alignments each
    assert kept <= counts.current_bytes <= kept + small * ALIGNMENT
    assert 2 * len(column.segments) + (not small) <= counts.total_count <= 1 + 2 * len(column.segments), (
        "one workspace, and two buffers a segment"
    )

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
    codecs = ["fsst", "onpair"] * 3
    wanted = [column.fsst.compress(codec=codec).to_host() for column, codec in zip(columns, codecs, strict=True)]
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            stream = cupy.cuda.Stream(non_blocking=True) if i in (1, 2, 5) else None
            for _ in range(5):
                compressed = columns[i].fsst.compress(stream=stream, codec=codecs[i])
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


def test_thousands_of_segments(tmp_path: Path) -> None:
    import cudf

    pieces = [f"row {i}\n{'final deposits sleep ' * (i % 5)}".split("\n") + [None] * (i % 3) for i in range(3000)]
    table = cudf_fsst.train(sentences(1000))
    compressor = cudf_fsst.Compressor(table=table)
    for piece in pieces:
        compressor.append(cudf.Series(piece))
    column = compressor.finish()
    assert len(column.segments) == 3000
    wanted = [row for piece in pieces for row in piece]
    assert column.to_arrow().to_pylist() == wanted
    rows = np.random.default_rng(0).integers(0, len(wanted), 20_000)
    assert column.take(rows).to_arrow().to_pylist() == [wanted[row] for row in rows]
    assert column[5000:5003].to_arrow().to_pylist() == wanted[5000:5003]
    column.save(tmp_path / "column.fsst")
    loaded = cudf_fsst.load(tmp_path / "column.fsst")
    for other in (column.to_host(), column.to_host().to_device(), loaded):
        assert other.to_arrow().to_pylist() == wanted
    assert loaded.to_cudf().to_arrow().to_pylist() == wanted


#: Threads that have default streams of their own and memory that is given out again at once: what overtakes another
#: thread's work shows.
OWN_STREAMS = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cudf
import cupy
import numpy as np
import pandas as pd
import rmm

import cudf_fsst
from cudf_fsst.device.memory import default_stream

assert default_stream()[0].ptr == cupy.cuda.Stream.ptds.ptr != cupy.cuda.Stream.null.ptr
rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=2 << 30))
ROWS, THREADS = 200_000, 4


def frame(seed):
    rng = np.random.default_rng(seed)
    words = np.array(["carefully", "final", "deposits", "sleep", None], object)
    text = pd.Series(words[rng.integers(0, 5, ROWS)], dtype="str") + pd.Series(rng.integers(0, 99, ROWS)).astype("str")
    return pd.DataFrame({"n": np.cumsum(rng.integers(0, 9, ROWS)), "t": text, "f": rng.random(ROWS)})


frames = [frame(seed) for seed in range(2 * THREADS)]
tables = [cudf.from_pandas(one).to_arrow() for one in frames]
hosts = [one["t"].fsst.compress() for one in frames]
together = threading.Barrier(THREADS)


def codec(thread):
    together.wait()
    mine = cudf.from_pandas(frames[thread])
    stream = cupy.cuda.Stream(non_blocking=True) if thread % 2 else None
    for _ in range(10):
        column = mine["t"].fsst.compress(stream=stream)
        for one, other in zip(column.to_host(stream=stream).segments, hosts[thread].segments, strict=True):
            assert np.array_equal(one.meta, other.meta) and np.array_equal(one.codes, other.codes)
        rows = np.arange(0, ROWS, 7)
        assert column.decompress(stream=stream).to_arrow().equals(mine["t"].to_arrow())
        assert column.take(rows, stream=stream).to_arrow().equals(mine["t"].take(rows).to_arrow())
        assert mine.fsst.compress(stream=stream).decompress(stream=stream).to_arrow().equals(tables[thread])
        assert mine.fsst.to_host(stream=stream).to_cudf().to_arrow().equals(tables[thread])


def pool_user(thread):
    rng = np.random.default_rng(thread)
    together.wait()
    for number in range(60):
        name, seed = int(rng.integers(0, 6)), int(rng.integers(0, len(frames)))
        choice = rng.integers(0, 4)
        if choice == 0:
            # Made on this thread's stream, and maybe not done when it is put.
            made = cudf.from_pandas(frames[seed])
            made["n"] = made["n"] + 1
            pool[name] = made
        elif choice == 1:
            pool.prefetch(name).result(60)
        else:
            found = pool[name]
            table = found.to_arrow()  # waits for this thread's stream
            assert any(table.equals(one) for one in plus_one), f"{name} in thread {thread}"


plus_one = []
for one in frames:
    made = cudf.from_pandas(one)
    made["n"] = made["n"] + 1
    plus_one.append(made.to_arrow())
del made
with ThreadPoolExecutor(THREADS) as threads:
    list(threads.map(codec, range(THREADS)))
    size = int(cudf.from_pandas(frames[0]).memory_usage(deep=True).sum())
    with cudf_fsst.SpillPool(device_limit=3 * size, host_limit=size, directory=sys.argv[1]) as pool:
        for name in range(6):
            made = cudf.from_pandas(frames[name])
            made["n"] = made["n"] + 1
            pool[name] = made
        del made
        list(threads.map(pool_user, range(THREADS)))
        assert pool.stats.failed == 0, pool
        assert pool.stats.moves["compress"].count and pool.stats.moves["decompress"].count, pool
print("done")
"""


@pytest.mark.slow
def test_default_streams_of_threads(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_STREAMS, str(tmp_path)],
        env={**os.environ, "CUDF_PER_THREAD_STREAM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


def test_two_gpus() -> None:
    """Each column is read, moved and let go of on its own GPU, whichever is the current one."""
    import cudf
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("this machine has one GPU")
    columns, frames, wanted = [], [], []
    for number in range(2):
        with cupy.cuda.Device(number):
            series = sentences(100_000 + number, seed=number)
            data = cudf.DataFrame({"text": series, "number": cupy.arange(len(series)) % 1000})
            columns.append(series.fsst.compress())
            frames.append(data.fsst.compress())
            wanted.append(data.to_arrow().to_pandas())
    rows = np.random.default_rng(0).integers(0, 100_000, 5000)
    with cupy.cuda.Device(0):
        cupy_rows = cupy.asarray(rows)
    for current in (0, 1):
        with cupy.cuda.Device(current):
            for number, (column, frame) in enumerate(zip(columns, frames, strict=True)):
                text, data = wanted[number]["text"], wanted[number]
                here = f"cuda:{number}"
                assert column.device == frame.device == here
                # Comparing is done on the host: cuDF works with data of the current GPU only.
                assert column.to_arrow().to_pylist() == text.tolist()
                assert column.to_host().decompress().tolist() == text.tolist()
                assert column[7] == text[7]
                assert frame.to_host().to_pandas()["number"].tolist() == data["number"].tolist()
                assert frame.to_arrow().to_pydict() == data.to_dict("list")
                for key in (rows, cupy_rows):
                    taken = column.take(key)
                    with cupy.cuda.Device(number):
                        assert taken.to_arrow().to_pylist() == text.iloc[rows].tolist()
                picked = column.filter(text.str.startswith("the").to_numpy())
                lengths = column.map_chunks(lambda piece: piece.str.len(), chunk_bytes=100_000)
                back, series = frame.decompress(), frame["text"]
                with cupy.cuda.Device(number):
                    assert picked.to_arrow().to_pylist() == text[text.str.startswith("the")].tolist()
                    assert lengths.to_arrow().to_pylist() == text.str.len().tolist()
                    assert back.to_arrow().to_pydict() == data.to_dict("list")
                    assert series.to_arrow().to_pylist() == text.tolist()
                again = column.to_host().to_device()
                assert again.device == f"cuda:{current}"
                assert again.to_arrow().to_pylist() == text.tolist()
                assert pickle.loads(pickle.dumps(column)).device == f"cuda:{current}"
                joined = cudf_fsst.concat([column, column])
                assert joined.device == here
                assert joined.to_arrow().to_pylist() == 2 * text.tolist()
                assert cupy.cuda.runtime.getDevice() == current
            with pytest.raises(ValueError, match="columns are on several devices, cuda:0 and cuda:1"):
                cudf_fsst.concat(columns)
    compressor = cudf_fsst.Compressor()
    for number in range(2):
        with cupy.cuda.Device(number):
            made = cudf.Series(["a", "b"])
            if number == 0:
                compressor.append(made)
                continue
            with pytest.raises(ValueError, match="so far are on cuda:0, this one is on cuda:1"):
                compressor.append(made)
    assert compressor.finish().to_arrow().to_pylist() == ["a", "b"]


def test_a_pool_with_two_gpus(tmp_path: Path) -> None:
    import cudf
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("this machine has one GPU")
    wanted = {}
    with cudf_fsst.SpillPool(directory=tmp_path) as pool:
        for name in range(6):
            with cupy.cuda.Device(name % 2):
                data = cudf.DataFrame({"text": sentences(50_000, seed=name), "number": cupy.arange(50_000)})
                wanted[name] = data.to_arrow()
                pool[name] = data
        del data

        def check() -> None:
            for name, table in wanted.items():
                found = pool[name]
                assert pool.where(name) == f"cuda:{name % 2}"
                with cupy.cuda.Device(name % 2):
                    assert found.to_arrow().equals(table)
                    del found

        check()
        held = pool.device_nbytes
        assert pool.make_room(10**12, device="cuda:1") > 0
        assert {pool.where(name) for name in (0, 2, 4)} == {"cuda:0"}
        assert {pool.where(name) for name in (1, 3, 5)} == {"host, compressed"}
        assert pool.device_nbytes < held
        check()
        pool.make_room(10**12)
        assert pool.device_nbytes == 0
        with cupy.cuda.Device(1):
            for future in [pool.prefetch(name) for name in wanted]:
                future.result(60)
            check()
        assert cupy.cuda.runtime.getDevice() == 0
        assert pool.stats.failed == 0


def test_spilled_input() -> None:
    """cuDF's spilling has to be on before its first buffer."""
    code = """
import cudf, cudf_fsst
cudf.set_option("spill", True)
series = cudf.Series(["a", None, "sentence"] * 300)  # so few have no dictionary
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
