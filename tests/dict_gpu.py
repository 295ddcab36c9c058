"""Dictionaries on an emulated GPU: what their tests share (see tests/emulation)."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checker import same_parts
from cudf_fsst.buffers import ColumnBuffers, DeviceStrings
from cudf_fsst.codecs import host
from cudf_fsst.codecs.dict import plan
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.part import Part
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.interop.arrow import from_arrow
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator


class Gpu:
    """Kernels of dictionaries on an emulated GPU."""

    def __init__(self, device: FakeDevice) -> None:
        self.device, self.emulator = device, device.emulator
        self.find: Any = importlib.import_module("cudf_fsst.codecs.dict.cuda_find")
        self.text: Any = importlib.import_module("cudf_fsst.codecs.dict.cuda_text")
        self.tables: Any = importlib.import_module("cudf_fsst.codecs.cuda_tables")
        self.memory: Any = importlib.import_module("cudf_fsst.device.memory")
        self.waits: Any = importlib.import_module("cudf_fsst.device.waits")

    def upload(
        self, rows: Sequence[bytes | None], *, wide: bool = False, shift: int = 0, bit: int = 0
    ) -> DeviceStrings:
        """A column in buffers of exactly its size; the characters `shift` bytes off, offsets from there."""
        data = b"".join(row or b"" for row in rows)
        offsets = np.cumsum([shift, *(len(row or b"") for row in rows)]).astype(np.int64 if wide else np.int32)
        chars = self.emulator.buffer(np.frombuffer(data, np.uint8), offset=shift % 16)
        valid = np.array([False] * bit + [row is not None for row in rows])
        valid = np.pad(valid, (0, -valid.size % 32))  # as in cuDF, where masks are whole words
        nulls = sum(row is None for row in rows)
        mask = self.emulator.buffer(np.packbits(valid, bitorder="little")).address if nulls else 0
        return DeviceStrings(
            len(rows), chars.address - shift, self.emulator.buffer(offsets).address, offsets.itemsize, mask, bit, nulls
        )

    def number(
        self, rows: Sequence[bytes | None], *, limit: int = 10_000, guess: int = 1, room: int = 1 << 30, **how: Any
    ) -> Any:
        """First rows and codes."""
        strings = self.upload(rows, **how)
        with self.memory.Lane(self.device.stream()) as lane:
            scope = self.find.ScopeRange(strings, 0, len(rows), sum(len(row or b"") for row in rows), limit, guess)
            ((found,),) = self.waits.run(lane, self.find.number([scope], lane, scratch_nbytes=room))
            if found is None:
                return None
            nbytes, keep, tables = plan.itemsize(found.values), [], self.tables.JobTables()
            if found.keeps_codes:
                jobs = self.find.Jobs()
                at = found.codes(jobs, keep)
                jobs.place(tables)
                tables.launch(lane)
            else:
                keep.append(lane.allocate(nbytes * len(rows)))
                at, window = keep[0].ptr, 1 + len(rows) // 2
                for first in range(0, len(rows), window):
                    tables = self.tables.JobTables()
                    found.look_up(tables, first, min(window, len(rows) - first), at + nbytes * first)
                    tables.launch(lane)
            lane.synchronize()
            firsts = np.frombuffer(self.emulator.read(found.firsts, 4 * found.values), np.uint32).tolist()
            codes = np.frombuffer(self.emulator.read(at, nbytes * len(rows)), f"u{nbytes}").tolist()
            found.release()
            assert found.null_count == sum(row is None for row in rows)
            assert found.longest == max((len(row) for row in rows if row is not None), default=0)
            return firsts, codes

    def write(
        self, codes: Any, values: Sequence[bytes], *, valid: Any = None, wide: bool = False, shift: int = 0
    ) -> list[bytes]:
        """Strings of codes, in buffers of exactly their size; other values' characters are not touched."""
        dictionary, emulator = self.upload(values, shift=shift), self.emulator
        rows, longest = len(codes), max(map(len, values), default=0)
        there = emulator.buffer(codes)
        mask = 0 if valid is None else emulator.buffer(np.packbits(np.r_[False, valid], bitorder="little")).address
        with self.memory.Lane(self.device.stream()) as lane:
            own = self.text.Dictionary(dictionary.chars, dictionary.offsets, 4, len(values), longest)
            job = self.text.Writing(own, rows, lane)
            offsets = emulator.buffer((8 if wide else 4) * (rows + 1))
            held = self.text.Codes(there.address, codes.itemsize, rows, mask, 1)
            tables = self.tables.JobTables()
            self.text.measure(tables, [self.text.WritingPiece(job, held)])
            job.place(tables)
            tables.launch(lane)
            (total,) = lane.read(job.total, 1, np.int64).tolist()
            chars = emulator.buffer(total, offset=shift % 16)
            to = self.text.Target(offsets.address, 8 if wide else 4, 7, chars.address, total)
            tables = self.tables.JobTables()
            self.text.write(tables, [self.text.WritingPiece(job, held, 0, to)])
            tables.launch(lane)
            lane.synchronize()
        places = offsets.read(np.int64 if wide else np.int32).astype(np.int64) - 7
        data = chars.read().tobytes()
        assert places[[0, -1]].tolist() == [0, len(data)]
        return [data[a:b] for a, b in zip(places[:-1].tolist(), places[1:].tolist(), strict=True)]


@pytest.fixture
def gpu(emulator: Emulator) -> Iterator[Gpu]:
    device = FakeDevice(emulator)
    with emulated(device, "raw"):
        yield Gpu(device)


def expected(rows: Sequence[bytes | None]) -> tuple[list[int], list[int | None]]:
    """First rows of all values, and every row's number."""
    number: dict[bytes, int] = {}
    firsts = []
    for i, row in enumerate(rows):
        if row is not None and row not in number:
            number[row] = len(number)
            firsts.append(i)
    return firsts, [None if row is None else number[row] for row in rows]


def some_rows(rng: np.random.Generator, count: int, values: Sequence[bytes], nulls: float = 0) -> list[bytes | None]:
    rows: list[bytes | None] = [values[i] for i in rng.integers(0, len(values), count)]
    for i in np.flatnonzero(rng.random(count) < nulls):
        rows[i] = None
    return rows


class Whole:
    """Columns of strings on an emulated GPU, beside those of the host."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.device = gpu, gpu.device
        self.there: Any = importlib.import_module("cudf_fsst.codecs.device")

    def compress(self, *columns: Sequence[bytes | None], codec: str | None = None, **how: Any) -> list[Node]:
        wanted = [
            ColumnTask(ColumnBuffers(pa.string(), len(rows), 0, strings=self.gpu.upload(rows, **how)), codec)
            for rows in columns
        ]
        with self.gpu.memory.Lane(self.device.stream()) as lane:
            found: list[Node] = self.there.compress(wanted, lane=lane)
            lane.synchronize()
        return found

    def download(self, node: Node) -> Node:
        def part(one: Any) -> Any:
            self.device.default.synchronize()
            host = {
                name: np.frombuffer(
                    self.device.emulator.read(getattr(one, name).ptr, getattr(one, name).size), np.uint8
                )
                for name in ("meta", "codes")
            }
            return dataclasses.replace(one, **host)

        return node.with_parts(map(part, node.parts))

    def merge(self, *columns: Sequence[Part]) -> list[list[Part]]:
        with self.gpu.memory.Lane(self.device.stream()) as lane:
            found: list[list[Part]] = self.there.merge(columns, lane=lane)
            lane.synchronize()
        return found

    def strings(self, found: ColumnBuffers) -> list[bytes | None]:
        """What a column that was read holds."""
        self.device.default.synchronize()
        strings, emulator = found.strings, self.device.emulator
        assert isinstance(strings, DeviceStrings)
        count = strings.rows + 1
        offsets = np.frombuffer(
            emulator.read(strings.offsets, strings.offsets_itemsize * count), f"i{strings.offsets_itemsize}"
        ).tolist()
        data = emulator.read(strings.chars, offsets[-1]) if offsets[-1] else b""
        valid = np.ones(strings.rows, bool)
        if strings.null_count:
            bits = np.frombuffer(emulator.read(strings.validity, -(-strings.rows // 8)), np.uint8)
            valid = np.unpackbits(bits, bitorder="little")[: strings.rows].astype(bool)
        assert strings.null_count == found.null_count == np.count_nonzero(~valid)
        assert all(a == b for a, b, ok in zip(offsets[:-1], offsets[1:], valid, strict=True) if not ok)
        return [data[a:b] if ok else None for a, b, ok in zip(offsets[:-1], offsets[1:], valid, strict=True)]

    def read(self, node: Node, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        with self.gpu.memory.Lane(self.device.stream()) as lane:
            (found,) = self.there.read([node], lane=lane, start=start, stop=stop)
            lane.synchronize()
            return self.strings(found)

    def take(self, node: Node, rows: Any, order: int = 0) -> list[bytes | None]:
        with self.gpu.memory.Lane(self.device.stream()) as lane:
            (found,) = self.there.take([node], rows, lane=lane, order=order)
            lane.synchronize()
            return self.strings(found)


def of_host(rows: Sequence[bytes | None], codec: str | None = None) -> Node:
    array = pa.array([None if row is None else row.decode() for row in rows], pa.string())
    strings = from_arrow(array)
    (node,) = host.compress(
        [ColumnTask(ColumnBuffers(pa.string(), len(rows), array.null_count, strings=strings), codec)]
    )
    return node


def same(found: Node, expected: Node) -> None:
    """The same tree, with the same bytes."""
    assert (found.type, found.rows, found.null_count, found.codec) == (
        expected.type,
        expected.rows,
        expected.null_count,
        expected.codec,
    )
    for one, other in zip(found.segments, expected.segments, strict=True):
        assert (one.codec, one.rows, one.null_count, one.chars) == (
            other.codec,
            other.rows,
            other.null_count,
            other.chars,
        )
        for child, wanted in zip(one.children, other.children, strict=True):
            same(child, wanted)
    same_parts(found.parts, expected.parts)


WORDS = [b"REG AIR", b"AIR", b"RAIL", b"SHIP", b"TRUCK", b"MAIL", b"FOB"]


@pytest.fixture
def whole(gpu: Gpu) -> Whole:
    return Whole(gpu)
