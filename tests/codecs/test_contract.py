"""Every codec of the registry does what ``codecs/contract.py`` says, on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toy_text
import toy_values
from cudf_fsst import codecs
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs import part, registry
from cudf_fsst.codecs.contract import Codec, TextCodec
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.text import cpu as text
from cudf_fsst.codecs.text import validate
from cudf_fsst.codecs.values import cpu, plan

Values = npt.NDArray[Any]


def shapes(itemsize: int) -> dict[str, Values]:
    """Values of every kind: bits as unsigned integers."""
    rng = np.random.default_rng(itemsize)
    kind = np.dtype(f"<u{itemsize}")
    bits = rng.integers(0, 256, 5000 * itemsize, dtype=np.uint8).view(kind)
    nulls = np.repeat(np.arange(5), 1000).astype(kind)
    nulls[rng.random(5000) < 0.3] = 0
    made = {
        "one": bits[:1],
        "zeros": np.zeros(5000, kind),
        "ones": np.full(5000, -1, f"<i{itemsize}").view(kind),
        "random": bits,
        "ascending": np.sort(bits),
        "steps": np.cumsum(rng.integers(0, 3, 5000)).astype(kind),
        "negative": np.cumsum(rng.integers(-3, 3, 5000)).astype(f"<i{itemsize}").view(kind),
        "repeated": np.tile(bits[:7], 800),
        "nulls filled": cpu.fill_nulls(nulls, np.packbits(nulls != 0, bitorder="little"), 0),
    }
    if itemsize >= 4:
        made["floats"] = np.cumsum(rng.normal(size=5000)).astype(f"<f{itemsize}").view(kind)
    return made


#: Those of the package, and toys that are none of it.
CODECS: tuple[Codec, ...] = (*registry.values(), toy_values)
TEXTS: tuple[TextCodec, ...] = (*registry.texts(), toy_text)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registry.registered(values=[toy_values], texts=[toy_text]):
        yield


CASES = [
    pytest.param(codec, itemsize, name, id=f"{codec.NAME}-{8 * itemsize}-{name}")
    for codec in CODECS
    for itemsize in codec.ITEMSIZES
    for name in shapes(itemsize)
]
KINDS = [
    pytest.param(codec, itemsize, id=f"{codec.NAME}-{8 * itemsize}") for codec in CODECS for itemsize in codec.ITEMSIZES
]


def decoded(codec: Codec, packed: Packed, first: int = 0, last: int | None = None) -> Values:
    """Values, decoded into a room with walls."""
    count = (packed.rows if last is None else last) - first
    room = np.full(count * packed.itemsize + 256, 0xA5, np.uint8)
    try:
        codec.host().decode(packed, room[128:-128], first, last)
    finally:
        assert (room[:128] == 0xA5).all()
        assert (room[-128:] == 0xA5).all()
    return room[128:-128].view(f"<u{packed.itemsize}")


def taken(codec: Codec, packed: Packed, rows: Any) -> Values:
    rows = np.asarray(rows, np.int64)
    room = np.full((rows.size + 2) * packed.itemsize, 0xA5, np.uint8).view(f"<u{packed.itemsize}")
    try:
        codec.host().take(packed, rows, room[1:-1])
    finally:
        assert room[0] == room[-1]
        assert (room[-1:].view(np.uint8) == 0xA5).all()
    return room[1:-1]


def selections(rows: int) -> dict[str, Any]:
    """Of values, none is always empty: whoever calls a codec asks for some."""
    rng = np.random.default_rng(rows)
    return {
        "first": [0],
        "last": [rows - 1],
        "all": np.arange(rows),
        "descending": np.arange(rows)[::-1],
        "permutation": rng.permutation(rows),
        "repeated": np.repeat(rng.integers(0, rows, 9), 5),
        "one many times": np.full(3000, rows // 2),
        "dense": np.flatnonzero(rng.random(rows) < 0.9) if rows > 9 else [0],
        "sparse": np.arange(0, rows, 997),
        "edges": [0, rows - 1, 0],
    }


def test_registry() -> None:
    folder = Path(codecs.__file__).parent
    folders = {path.parent.name for path in folder.glob("*/__init__.py")} - {"text", "values", "group_sums"}
    assert {*folders, toy_values.NAME, toy_text.NAME} == {*registry.names()}
    assert len(registry.names()) == len(registry.values()) + len(registry.texts()) + 1
    assert set(registry.streams(4)) == {*registry.names()} - {registry.DICTIONARIES.NAME}
    assert all(name.isascii() and 1 <= len(name) <= 8 for name in registry.names())
    for codec in registry.values():
        assert registry.of_values(codec.NAME) is codec
        assert {*codec.ITEMSIZES} <= {*part.ITEMSIZES}
        assert codec.PARAMETERS <= part.PARAMETERS
    with pytest.raises(ValueError, match="'fsst'"):
        registry.of_values(registry.texts()[0].NAME)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("codec", "itemsize"), KINDS)
def test_plan(codec: Codec, itemsize: int) -> None:
    values = shapes(itemsize)["steps"]
    for floats in (False, True):
        for named in (False, True):
            found = codec.plan(itemsize, floats=floats, named=named)
            assert found or not named
            for options in found:
                codec.host().encode(values, **options)
        assert plan.candidates(itemsize, floats=floats, codec=codec.NAME)


def test_a_codec_takes_its_sizes_alone() -> None:
    for codec in registry.values():
        for itemsize in {*part.ITEMSIZES} - {*codec.ITEMSIZES}:
            with pytest.raises(ValueError, match=f"codec '{codec.NAME}' takes values of .* bytes, not {itemsize}"):
                plan.candidates(itemsize, floats=False, codec=codec.NAME)


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("codec", "itemsize", "name"), CASES)
def test_values(codec: Codec, itemsize: int, name: str) -> None:
    values = shapes(itemsize)[name]
    side = codec.host()
    for options in codec.plan(itemsize, floats=False, named=True):
        for signed in (False, True):
            packed = side.encode(values, signed=signed, **options)
            assert (packed.codec, packed.rows, packed.itemsize) == (codec.NAME, values.size, itemsize)
            assert len(packed.parameters) == codec.PARAMETERS
            assert (packed.meta.size, packed.codes.size) == (packed.meta_nbytes, packed.codes_nbytes)
            assert side.measure(values, signed=signed, **options) == packed.nbytes
            side.check(packed)
            np.testing.assert_array_equal(decoded(codec, packed), values)
        for rows in selections(values.size).values():
            np.testing.assert_array_equal(taken(codec, packed, rows), values[rows])


@pytest.mark.parametrize(("codec", "itemsize"), KINDS)
def test_edges_of_units(codec: Codec, itemsize: int) -> None:
    side = codec.host()
    many = np.cumsum(np.random.default_rng(3).integers(0, 9, 300_000)).astype(f"<u{itemsize}")
    unit = side.unit(side.encode(many))
    for rows in {1, max(unit - 1, 1), unit, unit + 1, 3 * unit, 3 * unit + 1}:
        values = many[:rows]
        packed = side.encode(values)
        step = side.unit(packed)
        edges = sorted({*range(0, rows, step), rows})
        for first in edges:
            for last in edges:
                if first < last:
                    np.testing.assert_array_equal(decoded(codec, packed, first, last), values[first:last])
        around = np.array([row for edge in edges for row in (edge - 1, edge, edge + 1) if 0 <= row < rows])
        np.testing.assert_array_equal(taken(codec, packed, around), values[around])
        np.testing.assert_array_equal(taken(codec, packed, around[::-1]), values[around[::-1]])


@pytest.mark.parametrize(("codec", "itemsize"), KINDS)
def test_impossible_sizes(codec: Codec, itemsize: int) -> None:
    """Each step that is given a part refuses them."""
    side = codec.host()
    packed = side.encode(shapes(itemsize)["steps"])
    wrong = [
        replace(packed, rows=0),
        replace(packed, rows=packed.rows * 100),
        replace(packed, parameters=(*packed.parameters, 1)),
        replace(packed, meta_nbytes=packed.meta_nbytes + 16),
        replace(packed, codes_nbytes=packed.codes_nbytes + 1),
        replace(packed, codes=packed.codes[:-1]),
        replace(packed, codes=np.append(packed.codes, packed.codes[:1])),
    ]
    if codec.PARAMETERS:
        wrong += [replace(packed, parameters=packed.parameters[1:]), replace(packed, parameters=(99, 99))]
        wrong += [replace(packed, meta=packed.meta[:-1]), replace(packed, meta=packed.meta[:0])]
    for damaged in wrong:
        for step in (
            lambda one: side.check(one),
            lambda one: side.decode(one, np.empty(one.values_nbytes, np.uint8)),
            lambda one: side.take(one, np.zeros(1, np.int64), np.empty(1, f"<u{one.itemsize}")),
        ):
            with pytest.raises(ValueError, match=r"bytes|parameters|rows|value|must be"):
                step(damaged)


@pytest.mark.parametrize(("codec", "itemsize"), KINDS)
def test_damaged_bytes(codec: Codec, itemsize: int) -> None:
    """A ValueError or any values; nothing is written beside them."""
    rng = np.random.default_rng(12)
    for options in codec.plan(itemsize, floats=False, named=True)[:2]:
        packed = codec.host().encode(shapes(itemsize)["negative"], **options)
        for _ in range(200):
            changed = {name: getattr(packed, name).copy() for name in ("meta", "codes")}
            for array in changed.values():
                if array.size:
                    at = rng.integers(0, array.size, rng.integers(0, 5))
                    array[at] = rng.integers(0, 256, at.size)
            damaged = replace(packed, **changed)
            with suppress(ValueError):
                decoded(codec, damaged)
            with suppress(ValueError):
                taken(codec, damaged, rng.integers(0, packed.rows, 20))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_values(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS), label="codec")
    itemsize = data.draw(st.sampled_from(codec.ITEMSIZES))
    runs = st.tuples(st.integers(0, 2 ** (8 * itemsize) - 1), st.integers(-3, 3), st.integers(1, 700))
    parts = data.draw(st.lists(runs, min_size=1, max_size=5))
    values = np.concatenate(
        [
            np.uint64(start) + np.arange(count).astype(np.uint64) * np.int64(step).astype(np.uint64)
            for start, step, count in parts
        ]
    ).astype(f"<u{itemsize}")
    packed = codec.host().encode(values, signed=data.draw(st.booleans()))
    codec.host().check(packed)
    np.testing.assert_array_equal(decoded(codec, packed), values)
    rows = data.draw(st.lists(st.integers(0, values.size - 1), min_size=1, max_size=50))
    np.testing.assert_array_equal(taken(codec, packed, rows), values[rows])
    # The same through what cuts values into pieces and windows.
    stream = cpu.compress(values, codec=codec.NAME)
    np.testing.assert_array_equal(cpu.take(stream, itemsize, np.array(rows)), values[rows])
    start = data.draw(st.integers(0, values.size))
    stop = data.draw(st.integers(start, values.size))
    np.testing.assert_array_equal(cpu.read(stream, itemsize, start, stop), values[start:stop])


def strings_of(rows: list[bytes]) -> HostStrings:
    chars = np.frombuffer(b"".join(rows), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return HostStrings(len(rows), chars, offsets)


def rows_of(strings: HostStrings) -> list[bytes]:
    chars, offsets = strings.chars.tobytes(), strings.offsets.tolist()
    return [chars[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize("count", [1, 255, 257, 5000])
@pytest.mark.parametrize("codec", TEXTS, ids=lambda codec: codec.NAME)
def test_strings(codec: TextCodec, count: int) -> None:
    """A codec of text, through what all of them share."""
    rows = [b"row %d of strings" % (i % 97) * (i % 3) for i in range(count)]
    segments = text.compress(strings_of(rows), codec)
    assert {segment.codec for segment in segments} == {codec.NAME}
    for segment in segments:
        validate.check(segment)
        assert codec.TABLE.from_bytes(segment.table.to_bytes()) == segment.table
    assert rows_of(text.read(segments)) == rows
    assert rows_of(text.read(segments, count // 3, count // 2)) == rows[count // 3 : count // 2]
    for wanted in selections(count).values():
        assert rows_of(text.take(segments, np.asarray(wanted, np.int64))) == [rows[row] for row in wanted]
    assert rows_of(text.take(segments, np.empty(0, np.int64))) == []
    assert text.compress(strings_of([]), codec) == []
