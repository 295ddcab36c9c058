"""Columns of strings with dictionaries: the real kernels and launches, emulated, against columns of the host."""

from __future__ import annotations

import gc
import importlib
import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hostile
import reference_match
from cudf_fsst.backend import Arrival
from cudf_fsst.backend.content import move
from cudf_fsst.buffers import ColumnBuffers
from cudf_fsst.codecs import host_strings
from cudf_fsst.codecs.dict import cpu as dict_cpu
from cudf_fsst.codecs.dict import cpu_merge, plan
from cudf_fsst.codecs.node import Content, DictPart, Node, of_parts
from cudf_fsst.codecs.part import Part
from cudf_fsst.codecs.text import plan as text_plan
from cudf_fsst.codecs.text import search
from cudf_fsst.codecs.values import cpu as values_cpu
from cudf_fsst.files import columns as files
from dict_gpu import WORDS, Whole, expected, gpu, of_host, same, some_rows, whole
from emulation.conftest import emulator
from emulation.device import ORDERS, failing_every_allocation
from emulation.emulator import SCHEDULES

__all__ = ["emulator", "gpu", "whole"]

pytestmark = pytest.mark.usefixtures("automatic")


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
    monkeypatch.setattr(text_plan, "segment_size", lambda chars: 40_000)
    monkeypatch.setattr(text_plan, "TABLE_SCOPE", 80_000)
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


def test_few_values_in_the_other_case(whole: Whole, rng: np.random.Generator) -> None:
    """Rows are spelled with other values, once these are known; the column's own stay as they are."""
    for values, is_ascii in (([*WORDS, b""], True), (["grün".encode(), b"Nord"], False)):
        rows = some_rows(rng, 2000, values, 0.1)
        (node,) = whole.compress(rows)
        assert in_other_case(whole, node, small=True, large=False) is None
        assert whole.read(node) == rows
        for change, case in (
            (bytes.upper, (True, False)),
            (bytes.lower, (False, True)),
            (bytes.swapcase, (True, True)),
        ):
            whole.device.launches.clear()
            other = in_other_case(whole, node, small=case[0], large=case[1])
            assert other == ([None if row is None else change(row) for row in rows] if is_ascii else None)
            assert not any(name.startswith(("fsst", "onpair")) for name in whole.device.launches)
        assert whole.read(node) == rows


def in_other_case(whole: Whole, node: Node, **case: bool) -> list[bytes | None] | None:
    with whole.gpu.memory.Lane(whole.device.stream()) as lane:
        strings = whole.there.in_other_case(node, **case, lane=lane)
        lane.synchronize()
    if strings is None:
        return None
    return whole.strings(ColumnBuffers(node.type, node.rows, strings.null_count, strings=strings))


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


@pytest.mark.parametrize("room", [0, 20_000, 48 << 20])
def test_merging(room: int, whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes of columns become one as they do on the host, with the same bytes, and rows stay what they are.

    Codes of all columns are there together, of some, or windows of codes of one.
    """
    dictionaries = "cudf_fsst.codecs.dict"
    monkeypatch.setattr(importlib.import_module(f"{dictionaries}.cuda_merge"), "_OTHERS_NBYTES", (64 << 20) - room)
    if not room:  # windows of codes, and several pieces
        monkeypatch.setattr(plan, "PIECE_CODES", 4096)
        monkeypatch.setattr(importlib.import_module(f"{dictionaries}.cuda_pack"), "_WINDOW_NBYTES", 4 << 10)
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
    waits = whole.device.waits
    columns = found, found[:3], found[:1]
    merged = whole.merge(*columns)
    # For the values, for codes and new values of a batch, and once more at the end; of those of each merge otherwise.
    assert whole.device.waits - waits <= (3 if room > 20_000 else 8)
    for parts, of_column in zip(merged, columns, strict=True):
        of_host = cpu_merge.merge(whole.download(of_parts(pa.string(), of_column)).segments)
        assert len(parts) == len(of_host)
        same(whole.download(of_parts(pa.string(), parts)), of_parts(pa.string(), of_host))
    assert [len(parts) for parts in merged] == [len(found) - 3, 2, 1]
    rows = [row for piece in pieces for row in piece]
    node = of_parts(pa.string(), merged[0])
    assert whole.read(node) == rows
    assert whole.take(node, np.arange(0, len(rows), 7)) == rows[::7]
    failing_every_allocation(whole.device, lambda: bool(whole.merge(merged[0][:1] + found[:2])))


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


def test_characters_are_counted_as_on_the_host(whole: Whole, rng: np.random.Generator) -> None:
    """Of parts in host memory, before they go to the GPU; of damaged ones as the host does it, too."""
    count_chars = importlib.import_module("cudf_fsst.codecs.dict.cuda_check").count_chars
    from cudf_fsst.device.memory import Lane
    from cudf_fsst.device.transfer import to_device

    said, counted = set(), 0
    for rows in columns_of(rng).values():
        for part in of_host(rows, "dict").runs:
            values, codes = part.values.rows, dict_cpu.codes_of(part)
            null = next((i for i, row in enumerate(rows) if row is None), -1)
            for place, code in ((0, codes[0]), (0, values), (-1, values - 1), (null, values), (7, values - 1)):
                changed = codes.copy()
                changed[place] = code
                streams = (tuple(values_cpu.compress(changed, codec="bitpack")),)
                some = replace(part, indices=replace(part.indices, values=streams))
                texts = []
                before = len(whole.device.launches)
                there = partial(to_device, list(some.indices.parts))
                with Lane() as lane:
                    for count in (dict_cpu.count_chars, lambda one, there=there: count_chars(one, there, lane=lane)):
                        try:
                            texts.append(count(some))
                        except ValueError as error:
                            texts.append(str(error))
                counted += "dict_count" in whole.device.launches[before:]
                assert texts[0] == texts[1]
                said.add(str(texts[0]).translate({ord(digit): None for digit in "0123456789"}))
    assert counted > 10
    assert len(said) > 2


def test_a_file_on_its_way_to_a_gpu(whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("cudf_fsst.codecs.ahead"), "start", lambda _step: None)
    texts = [f"word {number % 5000} of many" for number in range(9000)]
    data = pd.DataFrame({"s": texts, "m": ["AIR", "MAIL", None] * 3000, "n": range(9000)}, index=pd.Index(texts))
    path = tmp_path / "f"
    data.fsst.compress().save(path)
    backend: Any = SimpleNamespace(current=nullcontext, buffers=lambda sizes: [np.empty(n, np.uint8) for n in sizes])

    def arrived() -> list[Content]:
        with Arrival(backend) as arrival:
            loaded = files.load(path, destination=arrival)
            arrival.check(loaded.unchecked)
            return move(loaded.columns, arrival.moved)

    for there, host in zip(arrived(), files.load(path).columns, strict=True):
        same(whole.download(there.node), host.node)
    assert {"dict_count", "fsst_check"} <= set(whole.device.launches)
    del there, host
    file = hostile.File(path.read_bytes())
    codes = max((content for kind, _, content in file.sections if kind == hostile.CODES), key=len)
    codes[-9:] = b"\xff" * 9
    path.write_bytes(file.to_bytes())
    with pytest.raises(ValueError, match=r"segment \d+: codes: tile \d+ (does not decode|ends inside)") as wanted:
        files.load(path)
    with pytest.raises(ValueError, match=re.escape(str(wanted.value))):
        arrived()
    gc.collect()
    assert not whole.device.live


def answers_of(whole: Whole, values: list[bytes | None], kind: Any) -> ColumnBuffers:
    """A column on the GPU: strings, or the numbers that these are."""
    if kind == pa.string():
        strings = whole.gpu.upload(values, bit=3)
        return ColumnBuffers(kind, len(values), strings.null_count, strings=strings)
    dtype = kind.to_pandas_dtype()
    numbers = whole.gpu.emulator.buffer(np.array([int(value or 0) for value in values], dtype))
    valid = np.packbits([value is not None for value in values], bitorder="little")
    nulls = values.count(None)
    mask = whole.gpu.emulator.buffer(np.pad(valid, (0, -valid.size % 64))).address if nulls else None
    return ColumnBuffers(kind, len(values), nulls, mask, values=numbers.address, itemsize=np.dtype(dtype).itemsize)


def distinct(node: Any, rows: list[bytes | None]) -> list[list[bytes]]:
    """Values of each part in order of first appearance."""
    found, first = [], 0
    for part in node.segments:
        found.append(list(dict.fromkeys(row for row in rows[first : first + part.rows] if row is not None)))
        first += part.rows
    return found


@pytest.mark.parametrize("nulls", [0, 0.3])
def test_answers_of_values(
    nulls: float, whole: Whole, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What methods answer for the values of dictionaries becomes the answers of all rows: strings and numbers."""
    monkeypatch.setattr(text_plan, "TABLE_SCOPE", 12_000)  # of several parts
    calls: list[tuple[Any, Callable[[bytes], bytes]]] = [
        (pa.string(), lambda value: value * 3),
        *((pa.string(), change) for change in (bytes.lower, bytes.upper)),  # as long: it is known where rows go
        (pa.string(), lambda value: value[:1] if value[:1] == b"R" else b""),
        (pa.string(), lambda value: b""),
        (pa.string(), lambda value: value * 30),
        *((kind, lambda value: b"%d" % (len(value) % 100)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    ]
    for some in (WORDS, [b"Clerk#%09d" % i for i in range(400)], [b"x" * 700, b"y" * 300, b"z" * 3]):
        rows = some_rows(rng, 3000, some, nulls)
        (node,) = whole.compress(rows, codec="dict")
        values = distinct(node, rows)
        for kind, call in calls:
            made = [call(value) for part in values for value in part]
            answers = answers_of(whole, [*made, None] if nulls else made, kind)
            with whole.gpu.memory.Lane(whole.device.stream()) as lane:
                found = whole.there.spread(node, answers, lane=lane)
                lane.synchronize()
            expected = [None if row is None else call(row) for row in rows]
            if kind == pa.string():
                assert whole.strings(found) == expected
                continue
            numbers = np.frombuffer(
                whole.gpu.emulator.read(found.values, found.itemsize * len(rows)), kind.to_pandas_dtype()
            )
            assert found.null_count == rows.count(None)
            assert all(
                row is None or int(wanted) == number
                for row, wanted, number in zip(rows, expected, numbers, strict=True)
            )
        # Where a value has no answer, or a missing one has, they are not known here.
        for wrong in ([None, *made[1:], b"1"], [*made, b"1"]) if nulls else ([None, *made[1:]],):
            for kind in (pa.string(), pa.int32()):
                with whole.gpu.memory.Lane(whole.device.stream()) as lane:
                    assert whole.there.spread(node, answers_of(whole, wrong, kind), lane=lane) is None


def test_every_width_of_codes(whole: Whole, rng: np.random.Generator) -> None:
    """Whole blocks of codes of the same width, of less, and with a base; a range that begins and ends within blocks."""
    for count in (1, 2, 3, 5, 9, 17, 33, 65, 129, 256):
        values = [b"v" * (1 + i % 7) + b"%d" % i for i in range(count)]
        rows: list[bytes | None] = [*values, *some_rows(rng, 3000, values), *[values[0]] * 1100, *[values[-1]] * 2100]
        (node,) = whole.compress(rows, codec="dict")
        assert whole.read(node) == rows
        assert whole.read(node, 700, 6000) == rows[700:6000]


@pytest.mark.parametrize(
    "values",
    [
        [b"A", b"N", b"R"],
        [b"y", b"n"],
        [b"east", b"no", b"w"],
        WORDS,
        [b"%x" % i * (1 + i % 8) for i in range(16)],
        [b"12345678", b"abcdefgh"],
        [b"", b"full"],
        [b"q" * 9, b"r"],
        [b"DELIVER IN PERSON", b"COLLECT COD", b"NONE", b"TAKE BACK RETURN"],
        [b"z" * 16, b"y"],
        [b"z" * 21, b"y"],
    ],
)
def test_groups_of_codes(values: list[bytes], whole: Whole, rng: np.random.Generator) -> None:
    """Short values are written several at once; by warps with several blocks of codes, with any offset."""
    values = list(dict.fromkeys(values))
    often: list[bytes | None] = [values[int(len(values) * place**20)] for place in rng.random(70_000)]  # few bits
    for number, rows in enumerate((some_rows(rng, 70_000, values), often), 1):
        (node,) = whole.compress(rows, codec="dict")
        for schedule in ("forward", *SCHEDULES):  # first decodes the values; then they are known, and where rows go
            whole.device.emulator.schedule = schedule
            assert whole.read(node) == rows
        assert whole.device.launches.count("dict_lengths") == 3 * number - 2  # ranges are measured, too
        for start, stop in ((1024, 60_000), (1027, 65_536)):
            assert whole.read(node, start, stop) == rows[start:stop]


def test_values(whole: Whole, rng: np.random.Generator) -> None:
    """Of few and of many, and of a column of nulls."""
    nodes = []
    for values in (WORDS, [b"Clerk#%09d" % i for i in range(400)], [b"x" * 700, b"y"]):
        rows = some_rows(rng, 2000, values, 0.2)
        (node,) = whole.compress(rows, codec="dict")
        nodes.append((node, distinct(node, rows)))
    (nothing,) = whole.compress([None] * 50, codec="dict")
    nodes.append((nothing, [[] for _ in nothing.segments]))
    for node, wanted in nodes:
        with whole.gpu.memory.Lane(whole.device.stream()) as lane:
            found = whole.there.values_of(node.segments, lane=lane)
            lane.synchronize()
        for part, strings, values in zip(node.segments, found, wanted, strict=True):
            if values:
                assert whole.strings(ColumnBuffers(part.values.type, strings.rows, strings=strings)) == values
            else:
                assert strings.rows == 0
