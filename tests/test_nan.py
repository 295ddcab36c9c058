"""A NaN costs about what a null costs, and every NaN keeps its bits: columns of floats against plain ones."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudf_fsst
import reference_bitpack
import reference_frame_reader
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.bitpack import cpu as bitpack
from cudf_fsst.codecs.bitpack import launch
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.files import storage
from nan_cases import KINDS, NANS, floats
from test_stored_frame import save_frame, stream, tree

Values = npt.NDArray[Any]


@st.composite
def columns(draw: st.DrawFn, most: int = 5000) -> Values:
    """Floats of some kind, of which some are NaN of a few kinds."""
    itemsize = draw(st.sampled_from([4, 8]))
    nans = draw(st.lists(st.sampled_from(NANS[itemsize]), max_size=3))
    share = draw(st.sampled_from([0.001, 0.03, 0.5, 1.0]))
    return floats(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(1, most)),
        itemsize,
        nans,
        share,
        np.random.default_rng(draw(st.integers(0, 99))),
    )


def bits(values: Any) -> Values:
    """What tells one NaN from another."""
    array = np.ascontiguousarray(values)
    return array.view(f"u{array.itemsize}")


def has_nan(node: Node) -> bool:
    return any(registry.of_values(part.codec).of_floats(part.parameters) for part in node.values[0])


def same(found: Any, wanted: Any) -> None:
    """The same labels, name and dtype, and the same bits."""
    pd.testing.assert_series_equal(found, wanted)
    np.testing.assert_array_equal(bits(found.to_numpy()), bits(wanted.to_numpy()))


@given(columns(), st.data())
def test_every_nan_keeps_its_bits(values: Values, data: st.DataObject) -> None:
    nan = data.draw(st.sampled_from([*NANS[values.itemsize], cpu.least_nan(bits(values)) or 1]))
    divide = data.draw(st.integers(0, 1))
    packed = bitpack.encode(bits(values), divide=divide, nan=nan)
    assert packed.nbytes == bitpack.measure(bits(values), divide=divide, nan=nan)
    out = np.empty(values.nbytes, np.uint8)
    bitpack.decode(packed, out)
    np.testing.assert_array_equal(out.view(bits(values).dtype), bits(values))
    rows = np.array(data.draw(st.lists(st.integers(0, values.size - 1), min_size=1, max_size=9)))
    taken = np.empty(rows.size, bits(values).dtype)
    bitpack.take(packed, rows, taken)
    np.testing.assert_array_equal(taken, bits(values)[rows])


@given(columns(1500))
def test_the_reference_decodes_it(values: Values) -> None:
    packed = bitpack.encode(bits(values), divide=1, nan=cpu.least_nan(bits(values)) or NANS[values.itemsize][0])
    bitpack.check(packed)
    stored = packed.meta.tobytes(), packed.codes.tobytes()
    assert reference_bitpack.decode(packed.rows, packed.itemsize, packed.parameters, *stored) == values.tobytes()


@given(columns(), st.data())
def test_columns_are_as_in_pandas(values: Values, data: st.DataObject) -> None:
    plain = pd.Series(values, name="x")
    made = plain.fsst.compress()
    same(made.decompress(), plain)
    start = data.draw(st.integers(0, values.size))
    same(made.iloc[start : start + 1500], plain.iloc[start : start + 1500])
    rows = data.draw(st.lists(st.integers(0, values.size - 1), max_size=9))
    same(made.take(rows), plain.take(rows))
    mask = np.arange(values.size) % 3 == data.draw(st.integers(0, 2))
    same(made[mask], plain[mask])
    other = pd.Series(np.roll(values, 7)[::2], name="x")
    same(cudf_fsst.concat([made, other.fsst.compress()]).decompress(), pd.concat([plain, other]))
    number = next((value for value in values if not np.isnan(value)), 100.0)
    for found, wanted in (
        (made == number, plain == number),
        (made != number, plain != number),
        (made < number, plain < number),
        (made >= 100, plain >= 100),
        (made.isin([number, 100.0]), plain.isin([number, 100.0])),
        (made.isin([np.nan]), plain.isin([np.nan])),
        (made.between(1, 1000), plain.between(1, 1000)),
        (made.isna(), plain.isna()),
        (made.notna(), plain.notna()),
    ):
        pd.testing.assert_series_equal(found, wanted)
    assert made.count() == plain.count()
    same(made.dropna(), plain.dropna())


@given(columns())
def test_files(values: Values) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.fsst")
        frame = pd.DataFrame({"a": values})
        made = frame.fsst.compress()
        made.save(path)
        assert (storage.version_of(path) == 4) == has_nan(made._columns[0].node)
        same(cudf_fsst.load(path).decompress()["a"], frame["a"])
        if values.size < 1500:
            [(_, found)] = reference_frame_reader.read(path)[:1]
            np.testing.assert_array_equal(np.array(found, values.dtype), values)


def test_nulls_and_nan(tmp_path: Path) -> None:
    """Both are kept apart, here and in Parquet."""
    rng = np.random.default_rng(3)
    values = floats("minutes", 5000, 8, NANS[8][:1], 0.05, rng)
    nulls = rng.random(5000) < 0.2
    array = pa.array(values, mask=nulls)
    plain = pd.Series(array, dtype="double[pyarrow]")
    made = plain.fsst.compress()
    assert has_nan(made._content.node)
    assert made.null_count == nulls.sum()
    found = made.to_arrow()
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    assert found.view(pa.int64()).equals(array.view(pa.int64()))
    pq.write_table(pa.table({"x": array}), tmp_path / "in.parquet")
    read = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu")
    read.to_parquet(tmp_path / "out.parquet")
    again = pq.read_table(tmp_path / "out.parquet")["x"].combine_chunks()
    assert again.view(pa.int64()).equals(array.view(pa.int64()))


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("kind", ["minutes", "cents", "halves", "random"])
def test_it_costs_no_more_than_a_null(kind: str, itemsize: int) -> None:
    values = floats(kind, 30_000, itemsize, NANS[itemsize][:1], 0.025, np.random.default_rng(1))
    missing = np.isnan(values)
    made = pd.Series(values).fsst.compress()
    nulls = pd.Series(pa.array(values, from_pandas=True), dtype=pd.ArrowDtype(pa.from_numpy_dtype(values.dtype)))
    assert nulls.isna().sum() == missing.sum() > 0
    assert made.nbytes <= nulls.fsst.compress().nbytes
    assert made.nbytes < 0.97 * cpu_without(values)


def cpu_without(values: Values) -> int:
    """Bytes of the smallest of the codecs that know no NaN."""
    sizes = [
        cpu.side(choice.codec).measure(bits(values), signed=False, **dict(choice.options))
        for choice in plan.candidates(values.itemsize, floats=True)
    ]
    return min(*sizes, values.nbytes)


def test_it_is_not_taken_for_nothing() -> None:
    """Not without a NaN, where all are NaN, and where values need all bits anyway."""
    rng = np.random.default_rng(2)
    for kind, share in ("minutes", 0.0), ("minutes", 1.0), ("bits", 0.02):
        made = pd.Series(floats(kind, 4000, 8, NANS[8][:1], share, rng)).fsst.compress()
        assert not has_nan(made._content.node)
    integers = pd.Series(np.array(NANS[8] * 200, np.uint64)).fsst.compress()
    assert not has_nan(integers._content.node)


def test_where_nothing_can_stand_in() -> None:
    """A block without the NaN, one of nothing else, one whose largest value has none above it, and one like others."""
    block, nan = launch.BLOCK, NANS[8][0]
    values = np.full(4 * block + 3, nan, np.uint64)
    values[:block] = 5
    values[2 * block : 3 * block : 2] = 2**64 - 1
    values[3 * block : 4 * block : 2] = 48
    packed = bitpack.encode(values, nan=nan)
    stand_ins = packed.meta[launch.layout(packed).nan + launch.NAN_NBYTES :].view(np.uint64)
    assert stand_ins[:5].tolist() == [nan, nan, nan, 64, nan]
    out = np.empty(values.nbytes, np.uint8)
    bitpack.decode(packed, out)
    np.testing.assert_array_equal(out.view(np.uint64), values)


def test_damage() -> None:
    values = floats("minutes", 3000, 8, NANS[8][:1], 0.1, np.random.default_rng(4))
    packed = bitpack.encode(bits(values), divide=1, nan=NANS[8][0])
    at = launch.layout(packed).nan

    def damaged(place: int, *new: int) -> Any:
        meta = packed.meta.copy()
        meta[place : place + len(new)] = new
        return dataclasses.replace(packed, meta=meta)

    for wrong, what in (
        (damaged(at + 7, 0x3F), "0x3ff8000000000000 is no NaN of 8 bytes"),
        (damaged(at, 0, 0, 0, 0, 0, 0, 0xF0, 0x7F), "0x7ff0000000000000 is no NaN"),
        (damaged(at + 9, 1), rf"bytes {at + 8} to {at + 16} of meta are not zero"),
        (damaged(packed.meta.size - 1, 1), "of meta are not zero"),
        (dataclasses.replace(packed, parameters=(0, 4, *packed.parameters[2:])), "parameters"),
        (dataclasses.replace(packed, parameters=(0, 0, *packed.parameters[2:])), "meta has"),
    ):
        with pytest.raises(ValueError, match=what):
            bitpack.check(wrong)
    halves = dataclasses.replace(bitpack.encode(np.arange(9, dtype="u2")), parameters=(0, 2, 0, 0))
    with pytest.raises(ValueError, match="a NaN among values of 2 bytes"):
        bitpack.check(halves)
    bitpack.check(damaged(at + launch.NAN_NBYTES, 1))  # any number may stand in


def test_files_that_may_not_have_it(tmp_path: Path) -> None:
    values = floats("minutes", 3000, 8, NANS[8][:1], 0.1, np.random.default_rng(4))
    some = "bitpack", [bitpack.encode(bits(values), divide=1, nan=NANS[8][0])]
    path = tmp_path / "frame.fsst"
    column = tree(3000, values=[0])
    save_frame(path, [some], pa.float64(), column, version=3)
    with pytest.raises(ValueError, match=r"segment 0: bitpack as version 3 does not have it, but 4"):
        cudf_fsst.load(path)
    with pytest.raises(ValueError, match="wrong"):
        reference_frame_reader.read(path)
    dictionary = tree(3000, values=[0], children=[tree(3, values=[1])])
    for kind, stored, more in (
        (pa.int64(), column, []),
        (pa.timestamp("us"), column, []),
        (pa.dictionary(pa.int64(), pa.int8()), dictionary, [stream(np.arange(3, dtype="i1"))]),
    ):
        save_frame(path, [some, *more], kind, stored, version=4)
        with pytest.raises(ValueError, match=r"stream 0 has a NaN, which only floating point numbers have"):
            cudf_fsst.load(path)
        with pytest.raises(ValueError, match="wrong"):
            reference_frame_reader.read(path)
    save_frame(path, [some], pa.float64(), column, version=4)
    same(cudf_fsst.load(path).decompress()["a"], pd.Series(values, name="a"))
