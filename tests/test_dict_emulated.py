"""Dictionaries of strings: the real kernels and launches, emulated under the sanitizers, against plain Python."""

from __future__ import annotations

import dataclasses
import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reference_match
from checker import same_parts
from cudf_fsst.buffers import ColumnBuffers, DeviceStrings
from cudf_fsst.codecs import host, host_strings
from cudf_fsst.codecs.dict import cpu_merge, launch, plan
from cudf_fsst.codecs.dict.part import DictPart
from cudf_fsst.codecs.node import Node, of_parts
from cudf_fsst.codecs.part import Part
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text import plan as fsst_plan
from cudf_fsst.codecs.text import search
from cudf_fsst.interop.arrow import from_arrow
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, emulated, failing_every_allocation
from emulation.emulator import SCHEDULES, Emulator

__all__ = ["emulator"]

pytestmark = pytest.mark.usefixtures("automatic")


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
            ((found,),) = self.waits.run(lane, self.find.number([scope], lane, room=room))
            if found is None:
                return None
            nbytes, keep, tables = plan.itemsize(found.values), [], self.tables.JobTables()
            if found.kept:
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


def check(found: Any, rows: Sequence[bytes | None]) -> None:
    firsts, codes = expected(rows)
    assert found is not None
    assert found[0] == firsts
    assert [code if row is not None else None for code, row in zip(found[1], rows, strict=True)] == codes


def some_rows(rng: np.random.Generator, count: int, values: Sequence[bytes], nulls: float = 0) -> list[bytes | None]:
    rows: list[bytes | None] = [values[i] for i in rng.integers(0, len(values), count)]
    for i in np.flatnonzero(rng.random(count) < nulls):
        rows[i] = None
    return rows


#: Values of lengths around those of words, of what is kept in shared memory, and of what a thread block does.
EDGES = [
    b"x" * n + t for n in (0, 1, 7, 8, 16, 22, 23, 32, 33, 53, 54, 55, 128, 511, 512, 5000) for t in (b"", b"a", b"\0")
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("room", [0, 1 << 30])
def test_numbers(schedule: str, room: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """By first appearance, whatever the order in which rows are looked at."""
    gpu.emulator.schedule = schedule
    for wide, shift, bit, nulls in ((False, 0, 0, 0.0), (True, 3, 5, 0.2), (False, 13, 0, 0.0)):
        rows = some_rows(rng, 900, EDGES, nulls)
        check(gpu.number(rows, wide=wide, shift=shift, bit=bit, room=room), rows)


@pytest.fixture
def large(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of all columns are those of long ones: with the bytes of values."""
    monkeypatch.setattr(
        gpu.find, "_stride", lambda scope, slots: launch.SLOT_WORDS if slots > launch.FIND_THREADS else 1
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("room", [0, 1 << 30])
def test_numbers_of_long_columns(room: int, schedule: str, gpu: Gpu, large: None, rng: np.random.Generator) -> None:
    """Words of a key that would be 0 are not one."""
    gpu.emulator.schedule = schedule
    zero = plan.HASH_MULTIPLIERS[0].to_bytes(8, "little")
    values = [*EDGES, zero, zero + b"x" * 15, b"x" * 24 + zero, b"y" * 16 + zero[:7], zero * 5]
    for wide, shift, bit, nulls in ((False, 0, 0, 0.0), (True, 3, 5, 0.2), (False, 13, 0, 0.0)):
        rows = some_rows(rng, 900, values, nulls)
        check(gpu.number(rows, guess=500, wide=wide, shift=shift, bit=bit, room=room), rows)
        assert {"dict_find", "dict_number"} <= set(gpu.device.launches)


@pytest.mark.parametrize("room", [0, 1 << 30])
def test_hashes_that_are_equal(room: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values of a length have the same hash: rows are compared wherever they are looked up."""
    monkeypatch.setitem(launch.FIND_DEFINES, "HASH_NEXT", 0)
    values = [*EDGES, *(b"%03d" % i for i in range(60))]
    for wide in (False, True):
        monkeypatch.setattr(gpu.find, "_stride", lambda scope, slots, wide=wide: launch.SLOT_WORDS if wide else 1)
        rows = some_rows(rng, 700, values, 0.1)
        check(gpu.number(rows, guess=500, room=room), rows)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("guess", [1, 500])
def test_tables_that_are_too_small(schedule: str, guess: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Are followed by larger ones; more values than the limit are none."""
    gpu.emulator.schedule = schedule
    rows = some_rows(rng, 700, [b"%d" % (i * i) for i in range(300)])
    check(gpu.number(rows, guess=guess), rows)
    different = len(set(rows))
    check(gpu.number(rows, guess=guess, limit=different), rows)
    assert gpu.number(rows, guess=guess, limit=different - 1) is None


def test_many_values(gpu: Gpu, rng: np.random.Generator) -> None:
    """Numbers of two bytes, and firsts in several chunks of rows."""
    rows = some_rows(rng, 3 * launch.RANK_CHUNK, [b"value %d" % i for i in range(2000)])
    check(gpu.number(rows, guess=1000), rows)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("longest", [3, 8, 20, 40])
def test_few_values(longest: int, schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of as many words as are kept in shared memory, or more; some values come late, so they are taken in later."""
    gpu.emulator.schedule = schedule
    values = [bytes([65 + n]) * (n % longest) + t for n in range(longest + 1) for t in (b"", b"\0")]
    early = launch.FIND_THREADS * launch.FEW_ROWS * 3
    late = launch.FIND_THREADS * launch.FEW_ROWS * launch.FEW_TURNS
    rows = some_rows(rng, early, values[:3]) + some_rows(rng, late, values, 0.05 if longest == 8 else 0)
    check(gpu.number(rows, shift=5, bit=3, wide=longest == 20, room=0 if longest == 3 else 1 << 30), rows)


def test_no_values(gpu: Gpu) -> None:
    """Of nulls alone, and of rows without characters."""
    rows: list[bytes | None] = [None] * 40
    found = gpu.number(rows)
    assert found is not None
    assert found[0] == []
    check(gpu.number([b""] * 40), [b""] * 40)


def test_characters_under_nulls(gpu: Gpu) -> None:
    from cudf_fsst.buffers import CharactersUnderNulls

    rows = [b"a", b"b", b"c"] * 30
    strings = gpu.upload(rows)
    mask = gpu.emulator.buffer(np.full(12, 0xFD, np.uint8))
    strings.validity, strings.null_count = mask.address, 12
    with gpu.memory.Lane() as lane, pytest.raises(CharactersUnderNulls):
        gpu.waits.run(lane, gpu.find.number([gpu.find.ScopeRange(strings, 0, 90, 90, 9, 3)], lane, room=90))


def code_array(rng: np.random.Generator, count: int, values: int, itemsize: int) -> Any:
    return rng.integers(0, values, count).astype(f"u{itemsize}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_strings(itemsize: int, schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of short values and of long ones, of any number of rows, wherever they begin."""
    gpu.emulator.schedule = schedule
    short = [b"", b"a", b"REG AIR", b"TRUCK", b"0123456789abcdef", b"x" * 64]
    for values in (short, [*short, b"y" * 65, b"z" * (2 * launch.CHARS_PIECE + 1)]):
        for rows in (1, 7, 8, launch.READ_TILE + 3):
            codes = code_array(rng, rows if values is short else min(rows, 40), len(values), itemsize)
            for valid, wide, shift in ((None, False, 0), (rng.random(codes.size) < 0.8, True, 5)):
                found = gpu.write(codes, values, valid=valid, wide=wide, shift=shift)
                there = np.ones(codes.size, bool) if valid is None else valid
                assert found == [values[c] if ok else b"" for c, ok in zip(codes.tolist(), there, strict=True)]


def test_strings_of_many_values(gpu: Gpu, rng: np.random.Generator) -> None:
    """Whose image, and lengths, a thread block does not keep."""
    values = [b"Clerk#%09d" % i for i in range(launch.READ_KEPT + 200)]
    codes = code_array(rng, launch.READ_TILE + 100, len(values), 2)
    assert gpu.write(codes, values) == [values[c] for c in codes.tolist()]


# ---- whole columns


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

    def merge(self, parts: Sequence[Part]) -> list[Part]:
        with self.gpu.memory.Lane(self.device.stream()) as lane:
            found: list[Part] = self.there.merge(parts, lane=lane)
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


def columns_of(rng: np.random.Generator) -> dict[str, list[bytes | None]]:
    numbers = rng.integers(0, 1 << 30, 1500)
    return {
        "few": some_rows(rng, 3000, WORDS),
        "nulls": some_rows(rng, 2500, [*WORDS, b""], 0.3),
        "many": some_rows(rng, 6000, [b"Clerk#%09d" % i for i in range(400)]),
        "large sample": some_rows(rng, 20_000, WORDS),
        "different": [b"%d" % number for number in numbers],
        "short": some_rows(rng, 900, WORDS),
        "long": some_rows(rng, 1100, [b"x" * 700, b"y" * 300, b"z" * 3]),
    }


def test_same_bytes_as_on_the_host(whole: Whole, rng: np.random.Generator) -> None:
    """Of many columns at once; some get a dictionary."""
    every = columns_of(rng)
    found = whole.compress(*every.values())
    for (name, rows), node in zip(every.items(), found, strict=True):
        same(whole.download(node), of_host(rows))
        assert node.coded == (name not in ("different", "short"))
        assert whole.read(node) == rows


@pytest.mark.parametrize("nbytes", [0, 60_000])
def test_no_room_for_all_searches(
    nbytes: int, whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that do not fit are looked at afterwards."""
    monkeypatch.setattr(importlib.import_module("cudf_fsst.codecs.dict.cuda_short"), "_SEARCH_NBYTES", nbytes)
    some = columns_of(rng)
    for rows, node in zip(some.values(), whole.compress(*some.values()), strict=True):
        same(whole.download(node), of_host(rows))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("codec", [None, "dict"])
def test_scopes_of_a_column(codec: str | None, whole: Whole, small_segments: None, rng: np.random.Generator) -> None:
    """Each is decided by itself; segments without rows, behind a long one, are left out."""
    different: list[bytes | None] = [b"%08d" % i for i in rng.integers(0, 1 << 26, 1500)]
    words = some_rows(rng, 3000, WORDS, 0.1)
    for rows in ([*words, *different, *words], [*different, *words, b"x" * 9500, *words]):
        (node,) = whole.compress(rows, codec=codec)
        same(whole.download(node), of_host(rows, codec))
        assert len(node.runs) > 2
        assert whole.read(node) == rows


@pytest.mark.sampled(1)
@pytest.mark.parametrize("values", [100, 300, 70_000])
def test_no_room_for_codes(values: int, whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they are looked up window by window, once to be measured and once to be packed."""
    module: Any = importlib.import_module("cudf_fsst.codecs.dict.cuda_compress")
    monkeypatch.setattr(module, "scratch", lambda *_: 0)
    monkeypatch.setattr(importlib.import_module("cudf_fsst.codecs.dict.cuda_pack"), "_WINDOW_NBYTES", 16 << 10)
    rows: list[bytes | None] = [b"%d" % (i * i % values) for i in range(min(values, 9000))]
    if values == 70_000:
        rows = [b"%d" % i for i in range(values)]
    nulls = [None if i % 7 == 3 else row for i, row in enumerate(rows)]
    for some in (rows, nulls):
        (node,) = whole.compress(some, codec="dict")
        same(whole.download(node), of_host(some, "dict"))


def test_one_column_has_none(whole: Whole, rng: np.random.Generator) -> None:
    """Codes are numbered before it is known which columns have a dictionary; they are not numbered again."""
    words = some_rows(rng, 3000, [b"AIR", b"", b"TRUCK", b"RAIL", b"SHIP"])
    count = 3 * plan.SAMPLE_RUNS * plan.RUN_ROWS
    different: list[bytes | None] = [b"%d" % i for i in range(count)]
    starts, run = plan.sample_runs(count)
    for row in (starts[:, None] + np.arange(run)).ravel().tolist():  # only the sample repeats
        different[row] = b"sampled"
    found = whole.compress(words, different)
    assert [node.coded for node in found] == [True, False]
    for rows, node in zip((words, different), found, strict=True):
        same(whole.download(node), of_host(rows))


def test_samples_beside_fsst(whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of long rows the samples come with a wait that FSST has anyway; where they repeat, it has begun in vain."""
    monkeypatch.setattr(fsst_plan, "segment_size", lambda chars: 40_000)
    monkeypatch.setattr(fsst_plan, "TABLE_SCOPE", 80_000)
    waits: list[None] = []
    synchronize = whole.gpu.memory.Lane.synchronize

    def count(lane: Any) -> None:
        waits.append(None)
        synchronize(lane)

    monkeypatch.setattr(whole.gpu.memory.Lane, "synchronize", count)
    different: list[bytes | None] = [b"%036d" % i for i in rng.integers(0, 1 << 60, 1700)]
    repeated = some_rows(rng, 2000, [b"%050d" % i for i in range(9)], 0.1)
    for rows, has in ((different[:1030], False), (different, False), ([*different, *repeated], True)):
        made = []
        for codec in ("fsst", None):
            waits.clear()
            (node,) = whole.compress(rows, codec=codec)
            same(whole.download(node), of_host(rows, codec))
            made.append((node.coded, len(waits)))
        (_, plain), (found, own) = made
        assert found == has
        assert has or own == plain
    # A segment without rows: scopes are not where the samples were taken.
    rows = [*different[:1030], b"x" * 90_000, *repeated]
    same(whole.download(whole.compress(rows)[0]), of_host(rows))


def test_short_columns_only_by_name(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LEAST_ROWS", 10_000)
    rows = [b"AIR", b"RAIL", None] * 500
    for codec, has in ((None, False), ("dict", True)):
        (node,) = whole.compress(rows, codec=codec)
        assert node.coded == has
        same(whole.download(node), of_host(rows, codec))


@pytest.mark.parametrize("codec", ["dict", "fsst"])
def test_codecs_by_name(codec: str, whole: Whole, rng: np.random.Generator) -> None:
    every = columns_of(rng)
    del every["large sample"]
    every["nothing"], every["nulls alone"] = [], [None] * 30
    for rows, node in zip(every.values(), whole.compress(*every.values(), codec=codec), strict=True):
        same(whole.download(node), of_host(rows, codec))
        assert whole.read(node) == rows


def test_rows(whole: Whole, rng: np.random.Generator) -> None:
    """Ranges, and rows by number."""
    for rows in (some_rows(rng, 5000, WORDS), some_rows(rng, 5000, [*WORDS, b"x" * 100], 0.2)):
        (node,) = whole.compress(rows)
        assert node.coded
        for start, stop in ((0, 1), (17, 18), (1000, 3500), (512, 5000), (4999, 5000), (3, 3)):
            assert whole.read(node, start, stop) == rows[start:stop]
        for count in (1, 100, 4000):
            numbers = rng.integers(0, len(rows), count)
            assert whole.take(node, numbers) == [rows[i] for i in numbers]
            assert whole.take(node, whole.device.array(numbers)) == [rows[i] for i in numbers]


@pytest.mark.parametrize("windows", [False, True])
def test_rows_of_which_most_are_wanted(
    windows: bool, whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values are decoded, and codes are taken: short values are spelled, others gathered."""
    gather: Any = importlib.import_module("cudf_fsst.codecs.text.cuda_gather")
    monkeypatch.setattr(gather, "_TILE_COST", 1.0)
    if windows:
        take: Any = importlib.import_module("cudf_fsst.codecs.dict.cuda_take")
        monkeypatch.setattr(take, "CODES_NBYTES", 600)
        monkeypatch.setattr(take, "_TAKEN_ROWS", 512)
    many = [b"Clerk#%09d" % i for i in range(400)]
    columns = {
        "few": (some_rows(rng, 2500, WORDS), "dict_spell"),
        "nulls": (some_rows(rng, 2000, [*WORDS, b""], 0.3), "dict_spell"),
        "two bytes": (some_rows(rng, 3000, many, 0.1), "dict_spell"),
        "long values": (some_rows(rng, 1500, [*WORDS, b"x" * 100, b"y" * 300], 0.2), "gather_chars"),
    }
    nodes = {name: whole.compress(rows, codec="dict")[0] for name, (rows, _) in columns.items()}
    (nothing,) = whole.compress([None] * 700, codec="dict")
    assert whole.take(nothing, np.arange(700)) == [None] * 700
    for name, (rows, kernel) in columns.items():
        every = np.arange(len(rows))
        mask = np.flatnonzero(rng.random(len(rows)) < 0.6)
        for numbers, order in ((rng.permutation(every), 0), (mask, 1), (every[::-1].copy(), -1), (mask[:300], 0)):
            whole.device.launches.clear()
            assert whole.take(nodes[name], whole.device.array(numbers), order) == [rows[i] for i in numbers]
            assert kernel in whole.device.launches
    # Together, in one launch for codes of each size.
    some = [name for name in nodes if name != "long values"]
    numbers = rng.integers(0, 2000, 700)
    whole.device.launches.clear()
    with whole.gpu.memory.Lane(whole.device.stream()) as lane:
        found = whole.there.take([nodes[name] for name in some], whole.device.array(numbers), lane=lane)
        lane.synchronize()
        assert windows or whole.device.launches.count("dict_spell") == 2
        for name, strings in zip(some, found, strict=True):
            assert whole.strings(strings) == [columns[name][0][i] for i in numbers]


def test_scopes(whole: Whole, rng: np.random.Generator) -> None:
    """A column some of whose scopes have dictionaries, as `concat` makes them."""
    some = [
        some_rows(rng, 1500, WORDS),
        [b"%d" % i for i in rng.integers(0, 1 << 40, 1111)],
        some_rows(rng, 2000, [b"north", b"south"], 0.1),
    ]
    node = of_parts(pa.string(), [part for one in whole.compress(*some) for part in one.segments])
    rows = [row for one in some for row in one]
    assert len(node.runs) == 3
    assert whole.read(node) == rows
    for start, stop in ((0, 4611), (10, 1400), (1400, 1600), (1600, 2000), (2000, 4000), (2700, 4611)):
        assert whole.read(node, start, stop) == rows[start:stop]
    numbers = rng.integers(0, len(rows), 3000)
    assert whole.take(node, numbers) == [rows[i] for i in numbers]


def test_questions(whole: Whole, rng: np.random.Generator) -> None:
    """Are asked of the values, and looked up by code; nulls are said beside."""
    rows = some_rows(rng, 3000, WORDS, 0.1) + [b"%d AIR" % i for i in rng.integers(0, 1 << 40, 1200)]
    one, other = rows[:3000], rows[3000:]
    node = of_parts(pa.string(), [part for made in whole.compress(one, other) for part in made.segments])
    assert len(node.runs) == 2
    asked: list[tuple[search.Question, Callable[[bytes], int]]] = [
        (search.Like((b"AIR",)), lambda row: row == b"AIR"),
        (search.Like((b"", b"AI", b"")), lambda row: b"AI" in row),
        (search.Length(), len),
        (search.IsIn((b"AIR", b"RAIL", b"")), lambda row: row in (b"AIR", b"RAIL", b"")),
    ]
    for question, answer in asked:
        made = search.plan(question)
        assert made is not None
        with whole.gpu.memory.Lane(whole.device.stream()) as lane:
            answers, exact = whole.there.match(node, made, lane=lane)
            assert exact
            mask = whole.there.validity(node, lane=lane)
            lane.synchronize()
            found = np.frombuffer(whole.device.emulator.read(answers.ptr, answers.size), search.answer_dtype(question))
            bits = np.frombuffer(whole.device.emulator.read(mask.ptr, -(-len(rows) // 8)), np.uint8)
        valid = np.unpackbits(bits, bitorder="little")[: len(rows)].astype(bool)
        assert valid.tolist() == [row is not None for row in rows]
        assert found[valid].tolist() == [answer(row) for row in rows if row is not None]


def test_questions_of_few_values(whole: Whole, rng: np.random.Generator) -> None:
    """Of short ones questions are answered in host memory: rows take one launch, and the first call alone waits."""
    shift = int(rng.integers(1, 16))  # scopes begin anywhere
    rows = [*some_rows(rng, 2000 + shift, WORDS, 0.1), *some_rows(rng, 2000, [b"", "grün".encode(), b"north"])]
    parts = whole.compress(rows[: 2000 + shift], rows[2000 + shift :])
    node = of_parts(pa.string(), [part for one in parts for part in one.segments])
    asked: list[search.Question] = [
        search.Like((b"AIR",)),
        search.Like((b"", b"R", b"")),
        search.IsIn((b"north", b"")),
        search.Count(b"r"),
        search.Find(b"n"),
        search.Length(),
        search.ByteCount(),
    ]
    valid = np.array([row is not None for row in rows])
    for number, question in enumerate([*asked, *asked]):
        made = search.plan(question)
        assert made is not None
        device = whole.device
        device.launches.clear()
        with whole.gpu.memory.Lane(device.stream()) as lane:
            waits = device.waits
            answers, exact = whole.there.match(node, made, lane=lane)
            if number:
                assert (device.launches, device.waits) == (["dict_answer"], waits)
            lane.synchronize()
            found = np.frombuffer(device.emulator.read(answers.ptr, answers.size), search.answer_dtype(question))
        assert exact
        np.testing.assert_array_equal(found[valid], reference_match.answers(rows, question)[valid])


@pytest.mark.parametrize("longest", [8, 24, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 13, 17, 40, 64))])
def test_sizes_of_values(longest: int, whole: Whole, rng: np.random.Generator) -> None:
    """Words of values, and of rows that have few characters; images in shared memory and elsewhere."""
    values = [bytes(rng.integers(97, 123, int(size), np.uint8)) for size in rng.integers(0, longest + 1, 9)]
    values = [*dict.fromkeys([*values, b"x" * longest])]
    many = [b"%03d" % i + b"y" * (longest - 3) for i in range(400)] if longest > 20 else values
    for rows in (
        some_rows(rng, 1700, values),
        [values[-1], *some_rows(rng, 1500, [b"", *values], 0.95)],
        some_rows(rng, 3000, many, 0.05),
    ):
        (node,) = whole.compress(rows, codec="dict")
        assert whole.read(node) == rows
        assert whole.read(node, 7, 1400) == rows[7:1400]


def test_lanes_that_fill_the_stage(whole: Whole) -> None:
    """16 lanes have 513 bytes each: the 8,208 that a warp's stage has, and the next warp's begins right behind."""
    rows = [*[b"a" * 32] * 15, b"b" * 33] * 1200
    (node,) = whole.compress(rows, codec="dict")
    assert whole.read(node) == rows
    assert whole.read(node, 16, len(rows)) == rows[16:]


@pytest.mark.parametrize("room", [False, True])
def test_merging(room: bool, whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes become one as they do on the host, with the same bytes, and rows stay what they are."""
    if not room:  # windows of codes, and several pieces
        monkeypatch.setattr(plan, "PIECE_CODES", 4096)
        monkeypatch.setattr(importlib.import_module("cudf_fsst.codecs.dict.cuda_pack"), "_WINDOW_NBYTES", 4 << 10)
    many = [b"Clerk#%09d" % i for i in range(500)]
    pieces = [
        *(some_rows(rng, 1500, WORDS, 0.1), some_rows(rng, 1300, [*WORDS, b"BIKE"]), some_rows(rng, 2100, WORDS[:3])),
        [b"%d" % i for i in rng.integers(0, 1 << 40, 900)],
        *(some_rows(rng, 1900, many[:90]), some_rows(rng, 3000, many, 0.2), some_rows(rng, 2000, many[200:])),
        *([None] * 1100, some_rows(rng, 1700, many[:30])),
    ]
    found: list[Part] = []
    for piece in pieces:
        (node,) = whole.compress(piece, codec="fsst" if len(piece) == 900 else "dict")
        found += node.segments
    merged = whole.merge(found)
    node = of_parts(pa.string(), merged)
    of_host = cpu_merge.merge(whole.download(of_parts(pa.string(), found)).segments)
    assert len(merged) == len(of_host) < len(found) - 2
    same(whole.download(node), of_parts(pa.string(), of_host))
    rows = [row for piece in pieces for row in piece]
    assert whole.read(node) == rows
    assert whole.take(node, np.arange(0, len(rows), 7)) == rows[::7]
    failing_every_allocation(whole.device, lambda: bool(whole.merge(merged[:1] + found[:2])))


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_entries_by_code(itemsize: int, whole: Whole, rng: np.random.Generator) -> None:
    for values in (WORDS, [b"Clerk#%09d" % i for i in range(600)]):
        rows = some_rows(rng, 6000, values)
        (node,) = whole.compress(rows)
        (coded,) = node.segments
        firsts, codes = expected(rows)
        table = rng.integers(0, 200, len(firsts)).astype(f"u{itemsize}")
        there = whole.device.emulator.buffer(table)
        with whole.gpu.memory.Lane(whole.device.stream()) as lane:
            made = whole.there.remap(coded, there.address, itemsize, lane=lane, start=3, stop=5001)
            lane.synchronize()
            found = np.frombuffer(whole.device.emulator.read(made.ptr, made.size), table.dtype)
        np.testing.assert_array_equal(found, table[np.array(codes[3:5001])])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("values", [1, 7, 40, 600, 9000])
def test_counts(values: int, whole: Whole, rng: np.random.Generator) -> None:
    """Counters of each lane, of some lanes together, of all; and more values than a thread block has counters."""
    rows = some_rows(rng, 3000 + values, [b"value %d" % i for i in range(values)], 0.1)
    rows[:values] = [b"value %d" % i for i in range(values)]  # all of them are there
    for column in (rows, [row for row in rows if row is not None], [rows[0]] * 5, [None] * 40):
        (node,) = whole.compress(column, codec="dict")
        (coded,) = node.segments
        whole.device.launches.clear()
        with whole.gpu.memory.Lane(whole.device.stream()) as lane:
            made = whole.there.count(coded, lane=lane)
            assert "dict_count" in whole.device.launches or not coded.values.rows
            lane.synchronize()
            found = np.frombuffer(whole.device.emulator.read(made.ptr, made.size), np.int64) if made.size else []
        wanted = Counter(row for row in column if row is not None)  # in order of first appearance
        assert list(found[: coded.values.rows]) == list(wanted.values())


@pytest.mark.parametrize("values", [7, 400])
def test_damaged_codes(values: int, whole: Whole, rng: np.random.Generator) -> None:
    """Give wrong rows, and nothing outside of the memory that there is: the sanitizers look."""
    rows = some_rows(rng, 3000, [b"value %d" % (i * i) for i in range(values)], 0.1)
    (node,) = whole.compress(rows, codec="dict")
    (coded,) = node.segments
    (part,) = coded.packed
    emulator = whole.device.emulator
    table = emulator.buffer(np.arange(coded.values.rows, dtype=np.uint8))
    whole.read(node)  # and keeps the image of a few values
    for buffer in (part.codes, part.meta):
        sound = emulator.read(buffer.ptr, buffer.size)
        for _ in range(6):
            damaged = np.frombuffer(sound, np.uint8).copy()
            places = rng.integers(0, damaged.size, 9)
            damaged[places] = rng.integers(0, 256, places.size)
            emulator.write(buffer.ptr, damaged.tobytes())
            with whole.gpu.memory.Lane(whole.device.stream()) as lane:
                whole.there.read([node], lane=lane)
                whole.there.read([node], lane=lane, start=5, stop=2900)
                whole.there.remap(coded, table.address, 1, lane=lane)
                whole.there.count(coded, lane=lane)
                lane.synchronize()
        emulator.write(buffer.ptr, sound)
    assert whole.read(node) == rows


def test_no_memory(whole: Whole, rng: np.random.Generator) -> None:
    """Nothing is kept when there is none, at whichever allocation."""
    rows = some_rows(rng, 60, WORDS, 0.2)

    def compress() -> bool:
        whole.compress(rows, codec="dict")
        return True

    whole.compress(rows, codec="dict")
    failing_every_allocation(whole.device, compress)


def test_order_of_streams(whole: Whole, rng: np.random.Generator) -> None:
    rows = some_rows(rng, 1500, WORDS, 0.1)
    for order in ORDERS:
        whole.device.order = order
        (node,) = whole.compress(rows)
        same(whole.download(node), of_host(rows))
        assert whole.read(node, 1, 1400) == rows[1:1400]
        assert whole.take(node, np.arange(0, 1500, 7)) == rows[::7]


@pytest.mark.parametrize("word", [b"rail", b"r" * 100, b"r" * 300])
@pytest.mark.parametrize("longest_is_known", [True, False])
def test_questions_on_the_host_change_nothing_on_the_gpu(word: bytes, longest_is_known: bool, whole: Whole) -> None:
    """The host keeps values of any length; a GPU reads short ones from what it keeps, and others from memory."""
    rows = [word, b"b", None] * 1500
    (node,) = whole.compress(rows, codec="dict")
    (part,) = node.segments
    assert isinstance(part, DictPart)
    if not longest_is_known:
        part.known.longest = None
    asked = whole.download(node)
    host_strings.match(asked, search.plan(search.Like((b"", b"r", b""))))
    (there,) = asked.segments
    assert isinstance(there, DictPart)
    assert there.known.few_on_host is not None
    assert whole.read(node) == rows
    assert whole.take(node, np.array([0, 4, 5])) == [word, b"b", None]
