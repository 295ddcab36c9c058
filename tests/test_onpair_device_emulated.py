"""Columns of codec ``onpair`` on an emulated GPU: read there, encoded by the host, alone and beside FSST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.buffers import ColumnBuffers, HostStrings
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator
from fsst_gpu import SEGMENT, WAYS, Gpu, check_reads, column, same_strings, take_in_a_way, text

__all__ = ["emulator", "gpu"]
ONPAIR = registry.of_text("onpair")


@pytest.fixture(params=["sm_90"])
def gpu(request: pytest.FixtureRequest, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT)
    device = FakeDevice(emulator, request.param)
    with emulated(device, "text"):
        yield Gpu(device)


def rows_of(count: int, seed: int = 0) -> HostStrings:
    """Strings with nulls, rows of several tiles, and bytes that no symbol has."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 256, 3000, dtype=np.uint8).tobytes()
    rows: list[bytes | None] = [*text(rng, count), None, b"", b"aabbcc" * 300, noise, b"\0\0\0"]
    order = rng.permutation(len(rows))
    return column([None if i % 11 == 0 else rows[i] for i in order])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"], indirect=True)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("names", [["onpair"], ["onpair", "fsst", "onpair"]], ids=len)
def test_reads(gpu: Gpu, names: list[str], tile_size: int) -> None:
    """All rows, ranges, whole segments, and chosen rows; tables of 11 and, of the last part, 12 bits."""
    host: list[Segment] = []
    for seed, name in enumerate(names):
        strings = rows_of(SEGMENT, seed)
        if seed == 2:
            table = cpu.train(strings, ONPAIR)
            assert isinstance(table, OnPairTable)
            host += cpu.compress(strings, ONPAIR, table=OnPairTable(12, table.symbols), tile_size=tile_size)
        else:
            host += cpu.compress(strings, registry.of_text(name), tile_size=tile_size)
    segments = list(gpu.cuda.to_device(host))
    check_reads(gpu, segments, host)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(("bits", "tile_size"), [(10, 128), (11, 256), (12, 1024)])
def test_takes(gpu: Gpu, bits: int, tile_size: int, ascending: bool, way: str) -> None:
    """Rows by number: of several segments and tables, raw tiles among them, from the tiles that they touch alone."""
    strings = [rows_of(SEGMENT // 10, seed) for seed in range(2)]
    host: list[Segment] = []
    for one in strings:
        table = cpu.train(one, ONPAIR)
        assert isinstance(table, OnPairTable)
        table = OnPairTable(bits, table.symbols[: (1 << bits) - 256])
        host += cpu.compress(one, ONPAIR, table=table, tile_size=tile_size)
    rows = sum(segment.rows for segment in host)
    numbers = np.random.default_rng(bits).integers(0, rows, 200 if way == "few" else 600)
    if ascending:
        numbers.sort()
    there = gpu.cuda.to_device(host)
    decoded = gpu.device.launches.count("onpair_decode")
    (found,) = take_in_a_way(way, gpu, [there], numbers)
    same_strings(gpu.download(found), cpu.take(host, numbers))
    assert (gpu.device.launches.count("onpair_decode") > decoded) == (way in ("whole", "pieces"))


def test_compress(gpu: Gpu) -> None:
    """By the codec's name and by a table: the same bytes as on the host, for it is the host that encodes."""
    from cudf_fsst.codecs import device
    from cudf_fsst.device.memory import Lane

    strings = [rows_of(1500, seed) for seed in range(2)]
    options = {"tile_size": 256, "level": "default"}
    table = cpu.train(strings[0], ONPAIR)
    there = [ColumnBuffers(pa.string(), one.rows, one.null_count, strings=gpu.upload(one)) for one in strings]
    given = {**options, "table": table}
    wanted = [ColumnTask(there[0], "onpair", {**options, "table": None}), ColumnTask(there[1], None, given)]
    with Lane() as lane:
        nodes = device.compress(wanted, lane=lane)
    for node, one, given in zip(nodes, strings, (None, table), strict=True):
        assert node.codec == "onpair"
        expected = cpu.compress(one, ONPAIR, table=given, tile_size=256)
        for segment, other in zip(gpu.cuda.to_host(list(node.segments)), expected, strict=True):
            assert segment.table == other.table
            assert segment.meta.tobytes() == other.meta.tobytes()
            assert segment.codes.tobytes() == other.codes.tobytes()
    assert gpu.cuda.train(gpu.upload(strings[0]), "onpair") == table


def test_the_smallest_is_chosen(gpu: Gpu) -> None:
    """At level max: of each scope what the host chooses, beside a scope with a dictionary; the same bytes."""
    from cudf_fsst.codecs import device, host
    from cudf_fsst.device.memory import Lane

    rng = np.random.default_rng(9)
    digits: list[bytes | None] = [f"{one:016x}".encode() for one in rng.integers(0, 2**63, 700)]
    columns = [rows_of(1500), column(digits), column([b"AIR", None, b"SHIP", b"TRUCK"] * 1200), rows_of(5, 2)]
    options = {"tile_size": "auto", "level": "max", "table": None}
    buffers = [ColumnBuffers(pa.string(), one.rows, one.null_count, strings=one) for one in columns]
    wanted = [ColumnTask(one, None, options) for one in buffers]
    expected = host.compress(wanted)
    assert [node.codec for node in expected[:3]] == ["onpair", "fsst", "dict"]
    there = [one._replace(column=replace(one.column, strings=gpu.upload(one.column.strings))) for one in wanted]
    with Lane() as lane:
        nodes = device.compress(there, lane=lane)
    for node, other in zip(nodes, expected, strict=True):
        assert (node.codec, node.rows, node.null_count) == (other.codec, other.rows, other.null_count)
        for segment, same_one in zip(gpu.cuda.to_host(list(node.texts)), other.texts, strict=True):
            assert segment.table == same_one.table
            assert segment.meta.tobytes() == same_one.meta.tobytes()
            assert segment.codes.tobytes() == same_one.codes.tobytes()


def test_damaged_codes(gpu: Gpu) -> None:
    """Nothing is touched outside; the walls of the emulated memory say so."""
    rng = np.random.default_rng(5)
    [host] = cpu.compress(rows_of(9000), ONPAIR, tile_size=128)
    for _ in range(10):
        meta, codes = host.meta.copy(), host.codes.copy()
        for array in meta, codes:
            array[rng.integers(0, array.size, 5)] = rng.integers(0, 256, 5)
        damaged = Segment(host.layout, host.null_count, host.table, meta, codes, codes.size)
        there = gpu.cuda.to_device([damaged])
        gpu.cuda.decompress(there)
        gpu.cuda.take(there, rng.integers(0, host.rows, 150))
        gpu.device.default.synchronize()
