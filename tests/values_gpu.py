"""Columns of any type in the memory of an emulated GPU: what their tests share (see tests/emulation)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checker import same_parts
from cudf_fsst.buffers import ColumnBuffers, DeviceStrings
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.values import cpu
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator

ROWS = 2500
OPTIONS = {"tile_size": "auto", "level": "default"}


class Gpu:
    """Columns in the memory of an emulated GPU."""

    def __init__(self, device: FakeDevice) -> None:
        self.device, self.emulator = device, device.emulator
        self.memory: Any = sys.modules["cudf_fsst.device.memory"]
        self.transfer: Any = sys.modules["cudf_fsst.device.transfer"]
        self._kept: list[Any] = []

    def place(self, array: Any, offset: int = 0) -> int:
        """Copy an array; its address is `offset` bytes off an aligned one."""
        buffer = self.emulator.buffer(np.ascontiguousarray(array), offset=offset)
        self._kept.append(buffer)
        return int(buffer.address)

    def upload(self, column: ColumnBuffers) -> ColumnBuffers:
        """The same column in the emulated GPU's memory, with masks of whole words, as cuDF has them."""
        validity = column.validity
        if validity is not None:
            words = np.zeros(-(-(column.validity_offset + column.rows) // 32) * 4, np.uint8)
            used = validity[: words.size]
            words[: used.size] = used
            validity = self.place(words)
        strings = column.strings
        if strings is not None:
            mask = None
            if strings.validity is not None:
                words = np.zeros(-(-(strings.validity_offset + strings.rows) // 32) * 4, np.uint8)
                used = strings.validity[: words.size]
                words[: used.size] = used
                mask = self.place(words)
            strings = DeviceStrings(
                strings.rows,
                self.place(strings.chars),
                self.place(strings.offsets),
                strings.offsets.itemsize,
                mask or 0,
                strings.validity_offset,
                strings.null_count,
                chars_limit=strings.chars.size,
            )
        values = None if column.values is None else self.place(column.values, offset=column.itemsize % 16)
        children = tuple(map(self.upload, column.children))
        return ColumnBuffers(
            column.type,
            column.rows,
            column.null_count,
            validity,
            column.validity_offset,
            values,
            column.itemsize,
            strings,
            children,
        )

    def read(self, buffer: Any) -> Any:
        return (
            np.frombuffer(self.emulator.read(buffer.ptr, buffer.size), np.uint8) if buffer.size else np.empty(0, "u1")
        )

    def download(self, column: ColumnBuffers) -> ColumnBuffers:
        """A decompressed column on the host."""
        if column.strings is not None:
            offsets, chars, validity = column.strings.owners
            from cudf_fsst.buffers import HostStrings

            column.strings = HostStrings(
                column.rows,
                self.read(chars),
                self.read(offsets).view(f"<i{column.strings.offsets_itemsize}"),
                self.read(validity) if validity is not None else None,
                0,
                column.strings.null_count,
            )
        elif column.owners:
            validity, values = column.owners
            column.validity = None if validity is None else self.read(validity)
            if values is not None:
                found = self.read(values)
                column.values = (
                    found.view("<u8").reshape(-1, 2) if column.itemsize == 16 else found.view(f"<u{column.itemsize}")
                )
        column.children = tuple(map(self.download, column.children))
        return column


@pytest.fixture
def gpu(emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator)
    with emulated(device, "values"):
        yield Gpu(device)


@pytest.fixture
def own_stream_gpu(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """One whose default stream is the thread's own."""
    monkeypatch.setenv("CUDF_PER_THREAD_STREAM", "1")
    device = FakeDevice(emulator, per_thread=True)
    with emulated(device, "values"):
        yield Gpu(device)


def on_device() -> Any:
    """`cudf_fsst.codecs.device`, as it was imported for the emulated GPU."""
    return sys.modules["cudf_fsst.codecs.device"]


def values_on_gpu() -> Any:
    return sys.modules["cudf_fsst.codecs.values.cuda"]


def waits() -> Any:
    return sys.modules["cudf_fsst.device.waits"]


def compress_one(column: ColumnBuffers, codec: str | None, lane: Any, outbox: Any = None) -> Node:
    """Compress a column in GPU memory."""
    node: Node
    (node,) = on_device().compress([ColumnTask(column, codec, OPTIONS)], lane=lane, outbox=outbox)
    return node


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    mask = rng.random(ROWS) < 0.3
    mask[100:1300] = True  # a block of rows that are all null
    numbers = rng.integers(-1000, 1000, ROWS)
    return {
        "int64": pa.array(np.sort(numbers)),
        "int32 with nulls": pa.array(numbers.astype("i4"), mask=mask),
        "int8 with nulls": pa.array((numbers % 100).astype("i1"), mask=mask),
        "uint16": pa.array((numbers + 1000).astype("u2")),
        "float64 with nulls": pa.array(np.cumsum(rng.random(ROWS)), mask=mask),
        "float32": pa.array(rng.random(ROWS).astype("f4")),
        "bool with nulls": pa.array(rng.random(ROWS) < 0.5, mask=mask),
        "timestamp": pa.array(np.arange(ROWS).astype("M8[us]")),
        "decimal128 with nulls": pa.array(
            [None if k else int(x) for x, k in zip(numbers, mask, strict=True)], pa.int64()
        ).cast(pa.decimal128(20, 0)),
        "all null": pa.array([None] * ROWS, pa.int32()),
        "strings": pa.array([None if k else f"row {i % 50}" for i, k in enumerate(mask)]),
        "list": pa.array([None if k else list(range(i % 4)) for i, k in enumerate(mask)]),
        "struct": pa.array([None if k else {"a": i, "b": str(i % 9)} for i, k in enumerate(mask)]),
        "dictionary": pa.array([None if k else f"k{i % 9}" for i, k in enumerate(mask)]).dictionary_encode(),
    }


CASES = tuple(arrays())


def same_nodes(found: Node, wanted: Node) -> None:
    assert (found.type, found.rows, found.null_count) == (wanted.type, wanted.rows, wanted.null_count)
    same_parts(found.parts, wanted.parts)


def cut_at(node: Node, *streams: list[int]) -> Node:
    """The same values, the streams cut at these rows, as a file may have them."""
    made = []
    for stream, cuts in zip(node.values, streams, strict=True):
        values = cpu.read(stream, stream[0].itemsize)
        pieces = [cpu.compress(piece, signed=True, codec=stream[0].codec) for piece in np.split(values, cuts)]
        made.append(tuple(part for piece in pieces for part in piece))
    return replace(node, values=tuple(made))


def decompressed(gpu: Gpu, node: Node) -> ColumnBuffers:
    """A node of the host, decompressed on the GPU."""
    with gpu.memory.Lane() as lane, gpu.transfer.Inbox(lane) as inbox:
        parts = inbox.receive_parts(list(node.parts))
        lane.stream.wait_event(inbox.fill(parts, list(node.parts)))
        found = on_device().read([node.with_parts(iter(parts))], lane=lane)[0]
        lane.synchronize()
    return gpu.download(found)
