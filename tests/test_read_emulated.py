"""Ranges and rows of columns on an emulated GPU: what pyarrow takes of the same columns."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bitpack_cases import cases
from cudf_fsst.buffers import ColumnBuffers
from cudf_fsst.codecs import host as on_host
from cudf_fsst.codecs.node import Node, is_strings
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.values import cpu
from cudf_fsst.interop import arrow_columns
from emulation.conftest import emulator
from emulation.device import failing_every_allocation
from emulation.emulator import SCHEDULES
from values_gpu import OPTIONS, ROWS, Gpu, arrays, cut_at, gpu, on_device, own_stream_gpu

__all__ = ["emulator", "gpu", "own_stream_gpu"]


def nested() -> dict[str, Any]:
    """Columns of lists of all kinds of values."""
    some = np.arange(ROWS)
    words = [None if i % 7 == 0 else f"word {i % 90}" for i in some]
    return {
        "lists of strings": pa.array([None if i % 5 == 0 else words[i : i + i % 3] for i in some]),
        "lists of lists": pa.array([[[int(i)] * (i % 3), None, []][: i % 4] for i in some]),
        "lists of structs": pa.array([[{"a": int(i), "b": None}] * (i % 3) for i in some]),
        "large lists": pa.array([[int(i)] * (i % 3) for i in some], pa.large_list(pa.int16())),
        "empty lists": pa.array([[]] * ROWS, pa.list_(pa.int64())),
        "structs of lists": pa.array([None if i % 4 == 0 else {"x": [1.5] * (i % 3)} for i in some]),
        "dictionary of decimals": pa.array([i % 9 for i in some]).cast(pa.decimal128(24, 2)).dictionary_encode(),
        "nulls": pa.nulls(ROWS),
    }


COLUMNS = arrays() | nested()


def nodes(gpu: Gpu, *hosts: Node) -> list[Node]:
    """Nodes of the host, on the GPU."""
    with gpu.memory.Lane() as lane, gpu.transfer.Inbox(lane) as inbox:
        moved = []
        for host in hosts:
            parts = inbox.receive_parts(list(host.parts))
            lane.stream.wait_event(inbox.fill(parts, list(host.parts)))
            moved.append(host.with_parts(iter(parts)))
    return moved


def compressed(array: Any, codec: str | None = None) -> Node:
    return on_host.HostCompressor(codec, OPTIONS).node(arrow_columns.describe(array))


def arrow(gpu: Gpu, found: ColumnBuffers, kind: Any) -> Any:
    made = arrow_columns.rebuild(gpu.download(found), kind)
    made.validate(full=True)
    return made


def ranged(gpu: Gpu, moved: list[Node], start: int, stop: int) -> list[ColumnBuffers]:
    with gpu.memory.Lane() as lane:
        found: list[ColumnBuffers] = on_device().read(moved, lane=lane, start=start, stop=stop)
        lane.synchronize()
    return found


def taken(gpu: Gpu, moved: list[Node], rows: Any, on_host: bool = False) -> list[ColumnBuffers]:
    with gpu.memory.Lane() as lane:
        there = rows if on_host else gpu.device.array(rows)
        found: list[ColumnBuffers] = on_device().take(moved, there, lane=lane)
        lane.synchronize()
    return found


def selections(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    return {
        "random": rng.integers(0, rows, 700),
        "sorted": np.sort(rng.choice(rows, rows // 3, replace=False)),
        "backwards": np.arange(rows)[::-1].copy(),
        "one again and again": np.full(70, rows - 1),
        "one": np.array([rows // 2]),
        "none": np.array([], np.int64),
    }


RANGES = ((0, ROWS), (0, 1), (7, 7), (ROWS - 1, ROWS), (1, 1024), (1023, 1025), (70, 2201), (100, 1300))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("case", COLUMNS)
def test_ranges(case: str, order: str, gpu: Gpu) -> None:
    gpu.device.order = order
    array = COLUMNS[case]
    moved = nodes(gpu, compressed(array))
    for start, stop in RANGES:
        (found,) = ranged(gpu, moved, start, stop)
        wanted = array[start:stop]
        assert (found.rows, found.null_count) == (stop - start, wanted.null_count)
        assert arrow(gpu, found, array.type).equals(wanted), (start, stop)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", COLUMNS)
def test_validity_alone(case: str, gpu: Gpu) -> None:
    """A node without values and children, as `DeviceBackend.validity` reads it."""
    array = COLUMNS[case]
    (node,) = nodes(gpu, compressed(array))
    if node.segments or pa.types.is_null(node.type):
        pytest.skip("has no validity of its own")
    (found,) = ranged(gpu, [replace(node, values=(), children=())], 0, ROWS)
    assert found.null_count == array.null_count
    assert found.owners[1] is None
    if array.null_count:
        bits = np.frombuffer(gpu.read(found.owners[0]), np.uint8)
        assert np.unpackbits(bits, count=ROWS, bitorder="little").tolist() == array.is_valid().to_pylist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ["lazy", "random"])
@pytest.mark.parametrize("case", COLUMNS)
def test_rows(case: str, order: str, gpu: Gpu, rng: np.random.Generator) -> None:
    gpu.device.order = order
    array = COLUMNS[case]
    moved = nodes(gpu, compressed(array))
    for name, rows in selections(rng, ROWS).items():
        (found,) = taken(gpu, moved, rows, on_host=order == "lazy")
        wanted = array.take(rows)
        assert (found.rows, found.null_count) == (rows.size, wanted.null_count)
        assert arrow(gpu, found, array.type).equals(wanted), name


@pytest.mark.sampled(4)
@pytest.mark.covering(1)
@pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "f4", "f8", "decimal"])
@pytest.mark.parametrize("few", [600, 4096])
def test_codecs(
    few: int, dtype: str, codec: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself, cut into parts of any length, with nulls; row by row, and in rooms of a few chunks."""
    read: Any = sys.modules["cudf_fsst.codecs.values.cuda_read"]
    monkeypatch.setattr(read, "ROOM_NBYTES", 9000)
    monkeypatch.setattr(read, "_FEW_ROWS", few)
    if few > 600 and codec != "gfc":
        pytest.skip("only gfc has another way for a few rows")
    if codec == "gfc" and dtype in ("u1", "i2"):
        pytest.skip("gfc takes values of 4 or 8 bytes")
    numbers = np.cumsum(rng.integers(0, 9, ROWS)) % 120
    numbers[1024:2048] = np.arange(1024) % 100
    mask = rng.random(ROWS) < 0.2
    if dtype == "decimal":
        wide = [
            None if k else int(x) ** 9 * (1 - 2 * (i % 2)) for i, (x, k) in enumerate(zip(numbers, mask, strict=True))
        ]
        array = pa.array(wide, pa.decimal128(38, 0))
    else:
        array = pa.array(numbers.astype(dtype), mask=mask)
    host = compressed(array, codec)
    (bits,) = cut_at(replace(host, values=(host.validity,)), [100, 101, 300]).values
    cuts = [sorted({*rng.integers(1, ROWS, 4).tolist()}) for _ in host.values]
    for one in (host, cut_at(host, *cuts), replace(cut_at(host, *cuts[:1] * len(cuts)), validity=bits)):
        moved = nodes(gpu, one)
        for start, stop in ((0, ROWS), (1, 2), (33, 2400), *np.sort(rng.integers(0, ROWS, (3, 2))).tolist()):
            assert arrow(gpu, ranged(gpu, moved, start, stop)[0], array.type).equals(array[start:stop])
        for rows in selections(rng, ROWS).values():
            assert arrow(gpu, taken(gpu, moved, rows)[0], array.type).equals(array.take(rows))


@pytest.mark.parametrize("codec", ["bitpack", "gpulz", "raw"])
def test_bitmaps_of_any_codec(codec: str, gpu: Gpu, rng: np.random.Generator) -> None:
    array = COLUMNS["int32 with nulls"]
    host = compressed(array)
    (other,) = cut_at(
        replace(
            host,
            values=(
                tuple(part for piece in (cpu.read(host.validity, 1),) for part in cpu.compress(piece, codec=codec)),
            ),
        ),
        [17, 200],
    ).values
    mixed = (*cpu.compress(cpu.read(other[:1], 1), codec="raw"), *other[1:])
    for validity in (other, mixed):
        moved = nodes(gpu, replace(host, validity=validity))
        rows = rng.integers(0, ROWS, 900)
        assert arrow(gpu, taken(gpu, moved, rows)[0], array.type).equals(array.take(rows))
        assert arrow(gpu, ranged(gpu, moved, 77, 2002)[0], array.type).equals(array[77:2002])
        assert arrow(gpu, ranged(gpu, moved, 0, ROWS)[0], array.type).equals(array)


def test_masks_end_in_zeros(gpu: Gpu) -> None:
    array = pa.array([None if i % 3 == 0 else i for i in range(ROWS)])
    moved = nodes(gpu, compressed(array))
    for found in (ranged(gpu, moved, 0, ROWS)[0], ranged(gpu, moved, 5, 500)[0], taken(gpu, moved, np.arange(513))[0]):
        mask = gpu.read(found.owners[0])
        assert mask.size == -(-found.rows // 512) * 64
        assert not np.unpackbits(mask, bitorder="little")[found.rows :].any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_cases_of_bitpack(itemsize: int, gpu: Gpu, rng: np.random.Generator) -> None:
    for name, (values, signed) in cases(itemsize).items():
        host = Node(pa.uint8(), values.size, 0, values=(cpu.compress(values, signed=signed, codec="bitpack"),))
        moved = nodes(gpu, host)
        rows = rng.integers(0, values.size, 100)
        edges = np.sort(rng.integers(0, values.size + 1, 2)).tolist()
        for found, wanted in (
            (taken(gpu, moved, rows)[0], values[rows]),
            (taken(gpu, moved, np.sort(rows))[0], values[np.sort(rows)]),
            (ranged(gpu, moved, *edges)[0], values[slice(*edges)]),
        ):
            if wanted.size:
                np.testing.assert_array_equal(gpu.read(found.owners[1]).view(wanted.dtype), wanted, name)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_many_columns(schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """One launch for each kernel and item size, however many columns."""
    gpu.emulator.schedule = schedule
    flat = {name: array for name, array in arrays().items() if not pa.types.is_nested(array.type) and name != "strings"}
    some = [array for _ in range(4) for name, array in flat.items() if name != "dictionary"]
    moved = nodes(gpu, *(compressed(array, "bitpack") for array in some))
    gpu.device.launches.clear()
    found = ranged(gpu, moved, 0, ROWS)
    assert sorted(gpu.device.launches) == ["bitpack_unpack"] * 4 + ["bitpack_unpack_wide"]
    for one, array in zip(found, some, strict=True):
        assert arrow(gpu, one, array.type).equals(array)
    rows = rng.integers(0, ROWS, 300)
    gpu.device.launches.clear()
    found = taken(gpu, moved, rows)
    assert sorted(gpu.device.launches) == ["bitpack_take"] * 4 + ["bitpack_take_bits", "take_plain_bits"]
    for one, array in zip(found, some, strict=True):
        assert arrow(gpu, one, array.type).equals(array.take(rows))


def damaged(packed: Packed, rng: np.random.Generator) -> Packed:
    """With other bytes, of the same sizes."""
    meta, codes = packed.meta.copy(), packed.codes.copy()
    for array in (meta, codes):
        if array.size:
            array[rng.integers(0, min(array.size, 60), 5)] ^= rng.integers(1, 256, 5).astype(np.uint8)
    if rng.random() < 0.2:
        meta[:] = 255
    return replace(packed, meta=meta, codes=codes)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
@pytest.mark.parametrize("case", ["int64", "float64 with nulls", "decimal128 with nulls", "int32 with nulls"])
def test_damage(case: str, codec: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """No report by a sanitizer, whatever the bytes."""
    host = compressed(COLUMNS[case], codec)
    rows = np.concatenate([rng.integers(0, ROWS, 200), np.arange(1000, 1200)])
    for _ in range(8):
        moved = nodes(gpu, host.with_parts(iter([damaged(part, rng) for part in host.parts])))
        taken(gpu, moved, rows)
        ranged(gpu, moved, 33, 2099)


def test_damaged_lists(gpu: Gpu, rng: np.random.Generator) -> None:
    """Offsets that lead elsewhere: an error, or other values of the list's."""
    array = COLUMNS["list"]
    host = compressed(array)
    (stream,) = host.values
    offsets = cpu.read(stream, 4)
    for _ in range(10):
        wrong = offsets.copy()
        wrong[rng.integers(0, wrong.size, 40)] = rng.integers(0, 2**32, 40, dtype=np.uint32)
        moved = nodes(gpu, replace(host, values=(cpu.compress(wrong),)))
        taken(gpu, moved, rng.integers(0, ROWS, 50))
        first = np.flatnonzero(wrong[:-1] > offsets[-1])[0]
        with pytest.raises(ValueError, match="damaged offsets: a list of values"):
            ranged(gpu, moved, int(first), ROWS)


@pytest.mark.parametrize("case", ["decimal128 with nulls", "lists of strings"])
def test_out_of_memory(case: str, gpu: Gpu) -> None:
    moved = nodes(gpu, compressed(COLUMNS[case]))
    gpu.device.order = "random"

    def some() -> Any:
        with gpu.memory.Lane() as lane:
            return on_device().read(moved, lane=lane, start=100, stop=1000)

    def chosen() -> Any:
        with gpu.memory.Lane() as lane:
            return on_device().take(moved, gpu.device.array(np.arange(50, 500, 7)), lane=lane)

    for call in (some, chosen):
        failing_every_allocation(gpu.device, call)


@pytest.mark.parametrize("batch", [1, 20_000, 1 << 30])
@pytest.mark.parametrize("order", ["lazy", "random"])
def test_received(order: str, batch: int, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of all types, in batches of one, of some, and all at once."""
    gpu.device.order = order
    monkeypatch.setattr(sys.modules["cudf_fsst.codecs.device_read"], "_BATCH_NBYTES", batch)
    with gpu.memory.Lane() as lane:
        made = on_device().receive([compressed(array) for array in COLUMNS.values()], lane=lane)
        lane.synchronize()
    for found, array in zip(made, COLUMNS.values(), strict=True):
        assert arrow(gpu, found, array.type).equals(array)


def test_received_again(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found out about reading strings is kept with the columns in host memory, wherever copies of them lie."""
    launch = importlib.import_module("cudf_fsst.codecs.text.launch")
    dictionary: Any = sys.modules["cudf_fsst.codecs.dict.cuda_values"]
    decoded: list[int] = []
    keep = dictionary._keep_few
    monkeypatch.setattr(dictionary, "_keep_few", lambda found, lane: (decoded.append(len(found)), keep(found, lane))[1])
    described: list[int] = []
    describe = launch.describe
    monkeypatch.setattr(launch, "describe", lambda some: (described.append(len(some)), describe(some))[1])
    arrays = [array for array in COLUMNS.values() if is_strings(array.type) or pa.types.is_list(array.type)]
    repeated = pa.array([None if i % 7 == 0 else f"value {i % 5}" for i in range(ROWS)])
    arrays += [repeated, pa.array([[one] for one in repeated])]
    nodes = [compressed(array) for array in arrays[:-2]] + [compressed(array, "dict") for array in arrays[-2:]]
    kept: list[Any] = []  # so that every copy lies elsewhere
    for some in (slice(None), slice(None), slice(1, None)):
        described.clear()
        decoded.clear()
        with gpu.memory.Lane() as lane:
            made = on_device().receive(nodes[some], lane=lane)
            lane.synchronize()
        assert bool(described) == any(decoded) == (not kept)
        kept.append(made)
        for found, array in zip(made, arrays[some], strict=True):
            assert arrow(gpu, found, array.type).equals(array)


@pytest.mark.parametrize("given", [False, True])
def test_default_stream_of_the_thread(given: bool, own_stream_gpu: Gpu, rng: np.random.Generator) -> None:
    gpu = own_stream_gpu
    some = ["decimal128 with nulls", "list", "lists of strings", "dictionary", "float64 with nulls"]
    moved = nodes(gpu, *(compressed(COLUMNS[name]) for name in some))
    rows = rng.integers(0, ROWS, 99)
    with gpu.memory.Lane(gpu.device.stream() if given else None) as lane:
        taken = on_device().take(moved, gpu.device.array(rows), lane=lane)
        ranged = on_device().read(moved, lane=lane, start=3, stop=1700)
    gpu.memory.hand_over()
    for name, one, other in zip(some, taken, ranged, strict=True):
        assert arrow(gpu, one, COLUMNS[name].type).equals(COLUMNS[name].take(rows))
        assert arrow(gpu, other, COLUMNS[name].type).equals(COLUMNS[name][3:1700])


def test_nulls_are_counted_with_one_wait(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many columns have some; without any there is no wait."""
    with_nulls = nodes(gpu, *[compressed(COLUMNS["int32 with nulls"])] * 70)
    without = nodes(gpu, *[compressed(COLUMNS["int64"])] * 3)
    waits = []
    wait = gpu.memory.Lane.synchronize
    monkeypatch.setattr(gpu.memory.Lane, "synchronize", lambda lane: waits.append(1) or wait(lane))
    rows = gpu.device.array(rng.integers(0, ROWS, 30))
    with gpu.memory.Lane() as lane:
        for moved, wanted in ((with_nulls, 1), (without, 0)):
            for call in (
                lambda moved=moved: on_device().take(moved, rows, lane=lane),
                lambda moved=moved: on_device().read(moved, lane=lane, start=1, stop=9),
            ):
                waits.clear()
                call()
                assert len(waits) == wanted
        waits.clear()
        on_device().read(with_nulls, lane=lane)
        assert not waits
