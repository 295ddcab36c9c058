"""Columns of all types on an emulated GPU, against the host: the same bytes, and back."""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cudf_fsst import compressing as compressing_module
from cudf_fsst.backend import DeviceBackend
from cudf_fsst.backend import device as device_backend
from cudf_fsst.backend.content import SeriesTask
from cudf_fsst.buffers import ColumnBuffers, HostStrings
from cudf_fsst.codecs import host as on_host
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.compressing import compress_frame
from cudf_fsst.interop import arrow_columns
from cudf_fsst.interop import cudf as interop_cudf
from cudf_fsst.interop import pandas as interop_pandas
from emulation.conftest import emulator
from emulation.device import ORDERS, failing_every_allocation
from fsst_gpu import TextCalls
from values_gpu import (
    CASES,
    OPTIONS,
    Gpu,
    arrays,
    compress_one,
    cut_at,
    decompressed,
    gpu,
    on_device,
    own_stream_gpu,
    same_nodes,
    values_on_gpu,
    waits,
)

__all__ = ["emulator", "gpu", "own_stream_gpu"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("case", CASES)
def test_same_as_on_the_host(case: str, order: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    assert order in ORDERS
    gpu.device.order = order
    monkeypatch.setattr(plan, "PART_NBYTES", 8192)
    monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
    monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    whole = arrays()[case]
    parts = [whole, whole[70:2201]] if not pa.types.is_nested(whole.type) else [whole]
    for array in parts:
        column = arrow_columns.describe(array)
        wanted = on_host.HostCompressor(None, OPTIONS).node(column)
        with gpu.memory.Lane() as lane:
            node = compress_one(gpu.upload(column), None, lane)
            with gpu.transfer.Outbox() as outbox:
                host = node.with_parts(iter(outbox.send_parts(list(node.parts), lane)))
            same_nodes(host, wanted)
            found = on_device().read([node], lane=lane)[0]
            lane.synchronize()
        assert arrow_columns.rebuild(gpu.download(found), array.type).equals(array)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ["int32 with nulls", "float64 with nulls", "decimal128 with nulls", "list", "strings"])
def test_choices_are_logged_as_on_the_host(
    case: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same sizes of the same candidates, once each, under the column's name."""
    monkeypatch.setattr(plan, "SAMPLE_RUNS", 2)
    monkeypatch.setattr(plan, "RUN_ROWS", 1024)
    monkeypatch.setattr(plan, "PART_NBYTES", 8192)
    column = arrow_columns.describe(arrays()[case])
    with caplog.at_level(logging.DEBUG, "cudf_fsst.codecs"):
        on_host.compress([ColumnTask(column, None, OPTIONS, "column 'c'")])
        wanted = sorted(caplog.messages)
        caplog.clear()
        with gpu.memory.Lane() as lane:
            on_device().compress([ColumnTask(gpu.upload(column), None, OPTIONS, "column 'c'")], lane=lane)
    assert sorted(caplog.messages) == wanted
    assert all("column 'c'" in message for message in wanted)
    assert bool(wanted) == (case != "strings")


def test_stages_are_ranges(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ends before the GPU is waited for, so columns of strings and of values do not tear each other's."""
    opened: list[str] = []
    seen: list[str] = []

    class Domain:
        get_event_attributes = staticmethod(lambda message: message)
        pop_range = staticmethod(opened.pop)

        @staticmethod
        def push_range(name: str) -> None:
            opened.append(name)
            seen.append(name)

    profiling: Any = sys.modules["cudf_fsst.profiling"]
    monkeypatch.setattr(profiling, "_domain", Domain)
    for stage in (profiling.MEASURE, profiling.ENCODE, profiling.COMPACT):
        monkeypatch.setattr(stage, "_attributes", None)
    synchronize = gpu.memory.Lane.synchronize

    def closed(lane: Any) -> None:
        assert not opened
        synchronize(lane)

    monkeypatch.setattr(gpu.memory.Lane, "synchronize", closed)
    columns = [gpu.upload(arrow_columns.describe(arrays()[case])) for case in ("strings", "int32 with nulls")]
    with gpu.memory.Lane() as lane:
        on_device().compress([ColumnTask(column, None, OPTIONS) for column in columns], lane=lane)
    assert {"measure", "encode", "compact"} == set(seen)
    assert not opened


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
def test_halves_cut_at_different_rows(codec: str, order: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Low and high 64 bits of decimals are streams of their own, and a file may cut each where it likes."""
    gpu.device.order = order
    numbers = [int(high) * 10**18 + int(low) for high, low in rng.integers(-(10**9), 10**9, (2000, 2))]
    whole = pa.array(numbers, pa.decimal128(38, 0))
    some = pa.array([None if i % 3 == 0 else x for i, x in enumerate(numbers)], whole.type)
    cuts = [([500], [1500]), ([1500], [500]), ([], [1, 1999]), ([1024], [1024])]
    for _ in range(4):
        cuts.append(tuple(sorted(rng.integers(1, 2000, n).tolist()) for n in rng.integers(0, 9, 2)))
    for array in (whole, some, some[7:1900]):
        node = on_host.HostCompressor(codec, OPTIONS).node(arrow_columns.describe(array))
        for low, high in cuts:
            other = cut_at(node, *([row for row in rows if row < len(array)] for rows in (low, high)))
            assert arrow_columns.rebuild(decompressed(gpu, other), array.type).equals(array)
            assert arrow_columns.rebuild(on_host.read([other])[0], array.type).equals(array)


@pytest.mark.parametrize("case", ["int8 with nulls", "float64 with nulls", "bool with nulls", "list"])
def test_validity_cut_at_other_rows_than_values(case: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Each stream has cuts of its own, of any length."""
    array = arrays()[case]
    node = on_host.HostCompressor("bitpack", OPTIONS).node(arrow_columns.describe(array))
    for _ in range(3):
        cuts = [sorted({*rng.integers(1, 2500, 5).tolist()}) for _ in node.values]
        other = cut_at(node, *cuts)
        bits = replace(node, values=(node.validity,))
        (validity,) = cut_at(bits, sorted({*rng.integers(1, 312, 5).tolist()})).values
        found = decompressed(gpu, replace(other, validity=validity))
        assert arrow_columns.rebuild(found, array.type).equals(array)


def test_halves_need_no_workspace(gpu: Gpu) -> None:
    array = pa.array(range(2000), pa.int64()).cast(pa.decimal128(38, 0))
    node = cut_at(
        on_host.HostCompressor(None, OPTIONS).node(arrow_columns.describe(array)), [*range(100, 2000, 100)], [1950]
    )
    decompressed(gpu, cut_at(node, [500], [1500]))
    gpu.device.allocations.clear()
    decompressed(gpu, node)
    parts = sum(2 for _ in node.parts)
    assert gpu.device.allocations[parts:] == [16 * 2000, 8 * 12 * (parts // 2)], "values, and the table of jobs"


@pytest.mark.parametrize("forked", [False, True])
def test_thousands_of_pieces(forked: bool, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PART_NBYTES", 1024)
    array = pa.array(np.arange(140_000).astype("i8"))
    column = arrow_columns.describe(array)
    wanted = on_host.HostCompressor("raw", OPTIONS).node(column)
    assert len(list(wanted.parts)) > 1000
    uploaded = gpu.upload(column)
    with gpu.memory.Lane(gpu.device.stream() if forked else None) as lane, gpu.transfer.Outbox() as outbox:
        host = compress_one(uploaded, "raw", lane, outbox)
    same_nodes(host, wanted)
    assert arrow_columns.rebuild(decompressed(gpu, wanted), array.type).equals(array)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", ["decimal128 with nulls", "strings", "list", "dictionary"])
def test_default_stream_of_the_thread(case: str, order: str, own_stream_gpu: Gpu) -> None:
    """All work is in it, or ordered by it, and none in the legacy one, which other threads use."""
    gpu = own_stream_gpu
    gpu.device.order = order
    array = arrays()[case]
    column = arrow_columns.describe(array)
    wanted = on_host.HostCompressor(None, OPTIONS).node(column)
    uploaded = gpu.upload(column)
    for stream in (None, gpu.device.stream()):
        with gpu.memory.Lane(stream) as lane:
            node = compress_one(uploaded, None, lane)
        with gpu.memory.Lane(stream) as lane, gpu.transfer.Outbox() as outbox:
            host = node.with_parts(iter(outbox.send_parts(list(node.parts), lane)))
        same_nodes(host, wanted)
        with gpu.memory.Lane(stream) as lane:
            found = on_device().read([node], lane=lane)[0]
        gpu.memory.hand_over()
        assert arrow_columns.rebuild(gpu.download(found), array.type).equals(array)
        if node.segments:
            cuda = TextCalls()
            rows = np.array([2499, 0, 7, 7, 1300])
            for strings in (
                cuda.take(node.segments, rows, stream=stream),
                cuda.take_range(node.segments, 5, 2001, stream=stream),
            ):
                taken = ColumnBuffers(array.type, strings.rows, strings.null_count, strings=strings)
                gpu.memory.hand_over()
                expected = array.take(rows) if strings.rows == rows.size else array[5:2001]
                assert arrow_columns.rebuild(gpu.download(taken), array.type).equals(expected)


def test_hand_over(gpu: Gpu) -> None:
    """Threads that share a default stream wait for nothing."""
    done: list[int] = []
    gpu.device.default.enqueue(lambda: done.append(1))
    gpu.memory.hand_over()
    assert not done


@pytest.mark.sampled(5)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("offset", [0, 1, 31, 40])
def test_fill_nulls(itemsize: int, offset: int, gpu: Gpu) -> None:
    rng = np.random.default_rng(offset)
    tasks, wanted = [], []
    for rows in (1, 31, 32, 33, 1023, 1024, 1025, 2100):
        values = rng.integers(0, 255, rows).astype(f"u{itemsize}")
        for share in (0.0, 0.02, 0.5, 1.0):
            bits = rng.random(offset + rows) < share
            validity = np.packbits(np.pad(bits, (0, -bits.size % 32)), bitorder="little")
            source = values_on_gpu().StreamSource(gpu.place(values), rows, itemsize, None, gpu.place(validity), offset)
            tasks.append(values_on_gpu().StreamTask(source, codec="raw"))
            wanted.append(cpu.fill_nulls(values, validity, offset))
    with gpu.memory.Lane() as lane:
        (made,) = waits().run(lane, values_on_gpu().compress(tasks, lane=lane))
        lane.synchronize()
    for (part,), expected in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(gpu.read(part.codes).view(expected.dtype), expected)


@pytest.mark.parametrize("name", ["meta", "codes"])
@pytest.mark.parametrize("codec", [one.NAME for one in registry.values()])
def test_truncated_buffers(codec: str, name: str, gpu: Gpu) -> None:
    """Nothing is launched or copied that would read behind their ends."""
    (packed,) = cpu.compress(np.arange(3000, dtype="u8") ** 2, codec=codec)
    if not getattr(packed, name).size:
        return  # raw has no meta
    for nbytes in (0, getattr(packed, name).size - 1):
        short = replace(packed, **{name: getattr(packed, name)[:nbytes]})
        with pytest.raises(ValueError, match=f"{name} has {nbytes} bytes, not {getattr(packed, name).size}"):
            cpu.read([short], 8)
        with pytest.raises(ValueError, match=f"{name} has {nbytes} bytes, not {getattr(packed, name).size}"):
            cpu.check([short])
        with gpu.memory.Lane() as lane:
            out = lane.allocate(packed.values_nbytes)
            node = Node(pa.uint64(), 3000, 0, values=(tuple(gpu.transfer.to_device([short])),))
            with pytest.raises(ValueError, match=f"{name} has {nbytes} bytes, not {getattr(packed, name).size}"):
                on_device().read([node], lane=lane)[0]
            del out
    assert gpu.device.launches == []
    gpu.device.default.synchronize()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", ["decimal128 with nulls", "struct"])
def test_out_of_memory(case: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever allocation fails, nothing stays behind and nothing else suffers."""
    monkeypatch.setattr(plan, "PART_NBYTES", 8192)
    device = gpu.device
    device.order = "random"
    column = arrow_columns.describe(arrays()[case])
    wanted = on_host.HostCompressor(None, OPTIONS).node(column)
    uploaded = gpu.upload(column)

    def compress() -> Any:
        with gpu.memory.Lane() as lane:
            return compress_one(uploaded, None, lane)

    def to_host() -> Any:
        with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
            return compress_one(uploaded, None, lane, outbox)

    node, host = compress(), to_host()
    same_nodes(host, wanted)

    def decompress() -> Any:
        with gpu.memory.Lane() as lane:
            return on_device().read([node], lane=lane)[0]

    def receive() -> Any:
        with gpu.memory.Lane() as lane, gpu.transfer.Inbox(lane) as inbox:
            parts = inbox.receive_parts(list(host.parts))
            lane.stream.wait_event(inbox.fill(parts, list(host.parts)))
            return on_device().read([host.with_parts(iter(parts))], lane=lane)[0]

    for call in (compress, to_host, decompress, receive):
        failing_every_allocation(device, call)
    same_nodes(to_host(), wanted)


def frames(patch: pytest.MonkeyPatch, **functions: Any) -> Any:
    """`DeviceBackend` without cuDF, but for some functions of its adapter."""
    made: Any = object.__new__(DeviceBackend)
    adapter = SimpleNamespace(on_device=lambda _device: nullcontext(), Access=ExitStack, **functions)
    patch.setattr(device_backend, "cudf", adapter)
    made.interop, made.device = adapter, "cuda:0"
    return made


WORDS = [None if i % 11 == 0 else f"label {i * i % 1009} of many" for i in range(600)]
#: Indexes of 600 labels.
INDEXES = {
    "range": pd.RangeIndex(600),
    "int64": pd.Index(np.arange(600)[::-1] * 7),
    "str": pd.Index(WORDS, dtype="str", name="s"),
    "category": pd.CategoricalIndex(WORDS),
    "dates": pd.date_range("2020", periods=600, freq="h"),
    "levels": pd.MultiIndex.from_arrays([WORDS, np.arange(600), pd.Categorical(WORDS[::-1])], names=["a", "b", None]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("index", INDEXES)
def test_files_of_frames_are_the_same(
    index: str, gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Whatever options the call names, of columns and index."""

    def describe(data: Any, opened: Any) -> Any:
        of_index = isinstance(data, tuple)
        buffers, kind, stored = (*data, None) if of_index else interop_pandas.describe(data)
        # In cuDF the levels of an index come as columns do, with a dtype.
        return gpu.upload(buffers), kind, {"kind": "of a level"} if of_index else stored

    data = pd.DataFrame({"n": rng.integers(0, 99, 600), "s": WORDS, "c": pd.Categorical(WORDS)}, index=INDEXES[index])
    functions = {
        "describe": describe,
        **{name: getattr(interop_pandas, name) for name in ("columns", "describe_index", "view", "with_names")},
    }
    made = tmp_path / "host", tmp_path / "gpu"
    for tile_size in ("auto", *TILE_SIZES) if index == "str" else TILE_SIZES[:1]:
        for level in LEVELS:
            options = {"tile_size": tile_size, "level": level}
            frame = compress_frame(data, **options)
            frame.save(made[0])
            with monkeypatch.context() as patch:
                patch.setattr(compressing_module, "of_frame", lambda _: frames(patch, **functions))
                patch.setattr(interop_cudf, "range_of", lambda _: None)
                compress_frame(data, to_host=True, **options).save(made[1])
            assert made[0].read_bytes() == made[1].read_bytes(), options
            if index == "str":
                (part,) = frame._index.levels[0].node.segments
                assert part.layout.tile_size == 256, "an index has the defaults"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", ["int64", "list", "decimal128 with nulls", "dictionary"])
def test_cudf_beside_a_stream(case: str, order: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cuDF does before and after, in the default stream, does not meet the work of the stream that was given."""
    gpu.device.order = order
    rmm: Any = sys.modules["rmm"]
    array = arrays()[case]
    column = arrow_columns.describe(array)
    wanted = on_host.HostCompressor(None, OPTIONS).node(column)

    def describe(_series: str, opened: ExitStack) -> Any:
        """A copy that cuDF makes, and frees at the end."""
        copy = gpu.upload(column)
        assert column.values is not None
        values = rmm.DeviceBuffer(size=column.values.nbytes)
        gpu.device.default.enqueue(partial(gpu.emulator.write, values.ptr, column.values.tobytes()))
        copy.values = values.ptr
        opened.callback(lambda _: None, values)  # which holds it
        del values
        return copy, array.type, None

    backend = frames(monkeypatch, describe=describe)
    stream = gpu.device.stream()
    asked = [SeriesTask(name, strings=OPTIONS) for name in "ab"]
    written = [content.node for content in backend.compress(asked, stream=stream)[0]]
    with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
        hosts = [node.with_parts(iter(outbox.send_parts(list(node.parts), lane))) for node in written]
    for host in hosts:
        same_nodes(host, wanted)
    made = backend.read(written, stream=stream)
    gpu.device.default.synchronize()  # all that cuDF waits for
    for found in made:
        assert arrow_columns.rebuild(gpu.download(found), array.type).equals(array)


def test_host_memory_outlives_the_copy(gpu: Gpu) -> None:
    """Whoever sends something may fail and forget it before the copy is done."""
    with gpu.memory.Lane() as lane, gpu.transfer.Outbox() as outbox:
        buffer = lane.allocate(1000)
        lane.zero(buffer.ptr, 1000)
        outbox.send(buffer, lane)
        gc.collect()


def test_received_columns_are_let_go_of(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was received is gone when it is decompressed."""
    array = arrays()["int64"]
    column = arrow_columns.describe(array)
    nodes = [on_host.HostCompressor(None, OPTIONS).node(column) for _ in range(5)]
    before = len(gpu.device.live)
    received = frames(monkeypatch).receive(nodes)
    gc.collect()
    assert len(gpu.device.live) == before + len(nodes)
    gpu.device.default.synchronize()
    for made in received:
        assert arrow_columns.rebuild(gpu.download(made), array.type).equals(array)


def test_characters_under_nulls_are_tried_again(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    column = arrow_columns.describe(pa.array(["a", None, "ccc"] * 100))
    strings = column.strings
    assert isinstance(strings, HostStrings)
    full = replace(strings, chars=np.full(300, ord("x"), np.uint8), offsets=np.arange(301, dtype=np.int32))
    asked = []

    def describe(_series: str, _opened: ExitStack, *, drop_null_chars: bool = False) -> Any:
        asked.append(drop_null_chars)
        return gpu.upload(column if drop_null_chars else replace(column, strings=full)), column.type, None

    backend = frames(monkeypatch, describe=describe)
    (content,), _ = backend.compress([SeriesTask("a", strings=OPTIONS)], to_host=True)
    assert asked == [False, True]
    same_nodes(content.node, on_host.HostCompressor(None, OPTIONS).node(column))


def test_errors_name_their_column(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that are compressed at once."""
    columns = {
        name: arrow_columns.describe(pa.array([1, 2], kind)) for name, kind in (("a", pa.int64()), ("b", pa.int8()))
    }

    def describe(name: str, _opened: ExitStack) -> Any:
        return gpu.upload(columns[name]), columns[name].type, None

    asked = [SeriesTask(name, "gfc", what=f"column {name!r}") for name in columns]
    with pytest.raises(ValueError, match="column 'b': codec 'gfc' takes values of 4 or 8 bytes, not 1"):
        frames(monkeypatch, describe=describe).compress(asked)
    assert gpu.device.allocations == []
    assert gpu.device.launches == []
