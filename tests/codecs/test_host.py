"""Rows of compressed columns of every type on the host, against Arrow's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.arrow_types import has_offsets
from cudf_fsst.buffers import ColumnBuffers, HostStrings
from cudf_fsst.codecs import host
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text.cpu_joined import DecodedRows, joined
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.interop import arrow_columns

ROWS = 5003


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    mask = rng.random(ROWS) < 0.3
    mask[100:1300] = True
    numbers = rng.integers(-1000, 1000, ROWS)
    wide = [None if null else int(number) << 40 for null, number in zip(mask, numbers, strict=True)]
    words = [None if null else f"row {i % 50}" for i, null in enumerate(mask)]
    lists = [None if null else [i % 7] * (i % 4) for i, null in enumerate(mask)]
    texts = [None if null else [f"{i % 7}"] * (i % 3) + [None] for i, null in enumerate(mask)]
    structs = [
        None if null else {"a": i, "b": words[i], "c": lists[i], "d": {"e": i % 3 == 0}} for i, null in enumerate(mask)
    ]
    return {
        "int64": pa.array(np.sort(numbers)),
        "int8": pa.array((numbers % 100).astype("i1"), mask=mask),
        "uint16": pa.array((numbers + 1000).astype("u2")),
        "float64": pa.array(np.cumsum(rng.random(ROWS)), mask=mask),
        "float32": pa.array(rng.random(ROWS).astype("f4")),
        "booleans": pa.array(rng.random(ROWS) < 0.5, mask=mask),
        "timestamps": pa.array(np.arange(ROWS).astype("M8[us]"), mask=mask),
        "decimal128": pa.array(wide, pa.decimal128(30, 0)),
        "all null": pa.array([None] * ROWS, pa.int32()),
        "few nulls": pa.array(numbers, mask=np.arange(ROWS) == 4000),
        "nulls": pa.nulls(ROWS),
        "strings": pa.array(words),
        "large strings": pa.array(words, pa.large_string()),
        "lists": pa.array(lists),
        "large lists": pa.array(lists, pa.large_list(pa.int32())),
        "lists of strings": pa.array(texts),
        "lists of lists": pa.array([None if one is None else [one, None, []] for one in lists]),
        "structs": pa.array(structs),
        "no fields": pa.array([{}] * ROWS, pa.struct([])),
        "categories": pa.array(words).dictionary_encode(),
        "lists of categories": pa.ListArray.from_arrays(
            np.arange(ROWS + 1, dtype="i4"), pa.array(words).dictionary_encode()
        ),
    }


CASES = tuple(arrays())


@pytest.fixture(autouse=True)
def _many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small columns have several pieces, windows and jobs."""
    monkeypatch.setattr(plan, "PART_NBYTES", 16384)
    monkeypatch.setattr(cpu, "_WINDOW_NBYTES", 4096)
    monkeypatch.setattr(cpu, "_JOB_NBYTES", 4096)


def compressed(array: Any) -> Node:
    (node,) = host.compress([ColumnTask(arrow_columns.describe(array))])
    return node


@cache
def made(case: str) -> tuple[Any, Node]:
    array = arrays()[case]
    return array, compressed(array)


def check(found: ColumnBuffers, wanted: Any) -> None:
    """The same values and nulls, in buffers that have their exact size."""
    assert found.rows == len(wanted)
    assert found.null_count == wanted.null_count
    made = arrow_columns.rebuild(found)
    made.validate(full=True)
    assert made.type == wanted.type
    assert made.to_pylist() == wanted.to_pylist()
    exact(found)


def exact(column: ColumnBuffers) -> None:
    if column.null_count and not (column.strings or pa.types.is_null(column.type)):
        assert column.validity.size == -(-column.rows // 8)
        assert int(np.bitwise_count(column.validity).sum()) == column.rows - column.null_count
    else:
        assert column.validity is None
    if column.values is not None:
        assert column.values.nbytes == column.itemsize * (column.rows + has_offsets(column.type))
    for child in column.children:
        exact(child)


RANGES = [(0, 0), (0, 1), (0, ROWS), (ROWS, ROWS), (7, 8), (255, 2049), (1024, 2048), (99, 1301), (4999, ROWS)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
def test_ranges(case: str) -> None:
    array = arrays()[case]
    node = compressed(array)
    for start, stop in RANGES:
        check(*host.read([node], start, stop), array[start:stop])
    check(*host.read([node], 4000), array[4000:])
    for start, stop in ((-1, 3), (3, 2), (0, ROWS + 1)):
        with pytest.raises(IndexError, match=f"{start} to {stop} of {ROWS}"):
            host.read([node], start, stop)


def takes() -> dict[str, Any]:
    rng = np.random.default_rng(6)
    return {
        "none": np.empty(0, "i8"),
        "first": [0],
        "last": [ROWS - 1],
        "few": [4002, 3, 3, 1999, 0],
        "all": np.arange(ROWS),
        "backwards": np.arange(ROWS)[::-1],
        "permutation": rng.permutation(ROWS),
        "repeated": rng.integers(0, ROWS, 3 * ROWS),
        "one many times": [2500] * 3000,
        "sparse": np.arange(0, ROWS, 997),
        "most": np.flatnonzero(rng.random(ROWS) < 0.9),
        "nulls alone": np.arange(200, 300),
    }


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
def test_takes(case: str) -> None:
    array = arrays()[case]
    node = compressed(array)
    for rows in takes().values():
        wanted = array.take(pa.array(rows, pa.int64()))
        check(*host.take([node], np.asarray(rows, np.int64)), wanted)
    for wrong in ([-1], [0, ROWS], [2**62]):
        with pytest.raises(IndexError, match=f"of {ROWS}"):
            host.take([node], np.array(wrong))


@pytest.mark.parametrize("case", CASES)
def test_no_rows(case: str) -> None:
    array = arrays()[case][:0]
    node = compressed(array)
    check(*host.read([node]), array)
    check(*host.take([node], np.empty(0, np.int64)), array)
    with pytest.raises(IndexError):
        host.take([node], np.array([0]))


def test_several_columns() -> None:
    columns = arrays().values()
    nodes = [compressed(array) for array in columns]
    rows = np.array([5, 4001, 5])
    for found, array in zip(host.take(nodes, rows), columns, strict=True):
        check(found, array.take(pa.array(rows)))
    for found, array in zip(host.read(nodes, 3, 9), columns, strict=True):
        check(found, array[3:9])
    assert host.take([], rows) == host.read([]) == []


def test_lists_that_their_offsets_cannot_count() -> None:
    node = compressed(pa.array([[0] * (1 << 20)]))
    with pytest.raises(OverflowError, match=f"{1 << 31} values in their lists"):
        host.take([node], np.zeros(1 << 11, np.int64))


def test_pieces_cut_anywhere() -> None:
    """Which a file may have, and columns that were joined."""
    values = np.arange(9000, dtype="u8") ** 2
    pieces = [values[:1], values[1:1030], values[1030:8000], values[8000:]]
    node = compressed(pa.array(values))
    for codec in ("bitpack", "gfc", "gpulz", "raw"):
        parts = tuple(part for piece in pieces for part in cpu.compress(piece, codec=codec))
        cut = replace(node, values=(parts,))
        rows = np.array([8999, 0, 1, 1029, 1030, 7999, 8000, 5, 1])
        np.testing.assert_array_equal(host.take([cut], rows)[0].values, values[rows])
        np.testing.assert_array_equal(host.read([cut], 1, 8001)[0].values, values[1:8001])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.sampled_from(CASES),
    start=st.integers(0, ROWS),
    rows=st.lists(st.integers(0, ROWS - 1), max_size=60),
    ascending=st.booleans(),
)
def test_any_rows(case: str, start: int, rows: list[int], ascending: bool) -> None:
    array, node = made(case)
    rows = sorted(rows) if ascending else rows
    check(*host.take([node], np.array(rows, np.int64)), array.take(pa.array(rows, pa.int64())))
    stop = min(ROWS, start + len(rows) ** 2)
    check(*host.read([node], start, stop), array[start:stop])


@pytest.mark.parametrize("before", [2**31 - 3, 2**31 + 5])
def test_strings_of_more_than_2_gib_together(before: int) -> None:
    """Their offsets have 64 bits, those of strings among them 32."""

    class Long:
        rows, chars = 1, before

        def write(self, position: int, offsets: Any, chars: Any) -> tuple[None, int]:
            del chars  # as the system gives them
            offsets[:] = position + before
            return None, 0

    found = joined(
        [Long(), DecodedRows(HostStrings(2, np.frombuffer(b"abcd", np.uint8), np.array([0, 2, 4], np.int32)))]
    )
    assert found.offsets.tolist() == [0, before, before + 2, before + 4]
    assert found.chars[before:].tobytes() == b"abcd"
