"""``df.fsst.compress()`` on the host: every dtype comes back, from memory and from files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudf_fsst
import reference_frame_reader
from cudf_fsst.codecs.values import plan
from frame_cases import (
    COLUMNS,
    INDEXES,
    ROWS,
    arrow,
    arrow_series,
    same,
    same_values,
    same_when_loaded,
    saved_and_loaded,
    whole,
)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", COLUMNS)
def test_dtype(name: str, tmp_path: Path) -> None:
    data = COLUMNS[name]().to_frame("the column")
    for part in (data, data.iloc[7:1999:3], data.iloc[:0], data.iloc[5:6]):
        frame = part.fsst.compress()
        assert frame.shape == part.shape
        same(frame.decompress(), part)
        pd.testing.assert_series_equal(frame.dtypes, part.dtypes)
        pd.testing.assert_index_equal(frame.index, part.index)
        pd.testing.assert_series_equal(frame["the column"], part["the column"])
        same_when_loaded(frame, part, tmp_path)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_reference_reader_reads_it(name: str, tmp_path: Path) -> None:
    data = COLUMNS[name]().to_frame("the column").iloc[7:1999:3]
    frame = saved_and_loaded(data.fsst.compress(), tmp_path)
    [(label, values)] = reference_frame_reader.read(tmp_path / "frame.fsst")
    wanted = frame.to_arrow().column(0).combine_chunks()
    wanted = wanted.storage if isinstance(wanted.type, pa.BaseExtensionType) else wanted
    assert label == "the column"
    assert same_values(values, wanted.to_pylist())


@pytest.mark.parametrize("name", INDEXES)
def test_index(name: str, tmp_path: Path) -> None:
    data = whole()[["int8", "str"]].set_axis(INDEXES[name]())
    frame = data.fsst.compress()
    same(frame.decompress(), data)
    same_when_loaded(frame, data, tmp_path)
    pd.testing.assert_series_equal(frame["str"], data["str"])


def test_no_columns_and_no_rows(tmp_path: Path) -> None:
    for data in (pd.DataFrame(index=range(3)), pd.DataFrame(), pd.DataFrame({"a": []})):
        frame = data.fsst.compress()
        same(frame.decompress(), data)
        same_when_loaded(frame, data, tmp_path)
        assert frame.ratio == 1.0
        assert repr(frame)


def test_what_it_says() -> None:
    data = whole()
    frame = data.fsst.compress()
    assert len(frame) == ROWS
    assert list(frame) == list(data)
    assert "int8" in frame
    assert frame.nbytes < frame.uncompressed_nbytes
    assert frame.device == "cpu"
    assert frame.codecs["str"] == "fsst"
    assert frame.codecs["int32 sorted"] == "bitpack"
    assert frame.codecs["uint64"] == "raw"
    for text in (repr(frame), frame._repr_html_()):
        assert "float32" in text
        assert "bitpack" in text
    assert frame.to_host() is frame
    same(frame.to_pandas(), data)
    assert frame.to_arrow().num_rows == ROWS


def test_parts_are_equal_to_themselves_alone() -> None:
    data = pd.DataFrame({"a": range(3000), "b": [1, None, 3] * 1000, "c": ["x"] * 3000})
    frame, other = data.fsst.compress(), data.fsst.compress()
    for column, another in zip(frame._columns, other._columns, strict=True):
        parts = [(column, column.node, *column.node.parts) for column in (column, another)]
        for part, its in zip(*parts, strict=True):
            assert part == part  # which raised
            assert part != its
            assert len({part, its}) == 2


@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "bool", "datetime", "timedelta", "str", "Int64"])
def test_it_can_be_written_to(name: str) -> None:
    data = whole()[[name]].dropna()
    frame = data.fsst.compress()
    found = frame.decompress()
    found.iloc[0, 0] = found.iloc[2, 0]
    assert found.iloc[0, 0] == data.iloc[2, 0]
    same(frame.decompress(), data)


def test_columns_of_it() -> None:
    data = whole()
    frame = data.fsst.compress()
    part = frame[["str", "int8"]]
    same(part.decompress(), data[["str", "int8"]])
    column = frame.column("str")
    assert isinstance(column, cudf_fsst.CompressedColumn)
    pd.testing.assert_series_equal(column.decompress(), data["str"])
    assert column[17] == "row 17" or pd.isna(data["str"][17])
    for label in data:
        other = frame.column(label)
        assert other.dtype == data[label].dtype
        same(other.decompress().to_frame(), data[[label]])
        same(other[5:9].to_frame(), data[[label]].iloc[5:9])
        same(other.take([7, -1, 7]).to_frame(), data[[label]].iloc[[7, -1, 7]])
    same(frame[np.array(["str"])].decompress(), data[["str"]])
    for missing in ("nobody", {}):
        with pytest.raises(KeyError, match=str(missing)):
            frame[missing]
    some = data["int8"] > 0
    for mask in (some, some.to_numpy(), some.tolist(), pd.Index(some), pd.Index(some, dtype="boolean")):
        same(frame[mask], data[some])
    with pytest.raises(IndexError, match="a mask of 2 rows"):
        frame[[True, None]]
    assert pd.DataFrame({True: [1], False: [2]}).fsst.compress()[[False, True]].columns.tolist() == [False, True]
    with pytest.raises(TypeError, match="labels of columns or a mask, not by slice"):
        frame[:5]


@pytest.mark.parametrize(("value", "kind"), [("a row", pa.string_view()), (b"\xff", pa.binary_view())], ids=str)
def test_views(value: Any, kind: pa.DataType, tmp_path: Path) -> None:
    """Which Arrow's Parquet reader may give, and for which pandas itself can do little."""
    values = [value, None, value * 9] * 99
    frame = arrow(values, kind).to_frame("a").fsst.compress()
    for one in (frame, saved_and_loaded(frame, tmp_path)):
        found = one["a"]
        assert found.dtype == pd.ArrowDtype(kind)
        assert pa.array(found.array).to_pylist() == values
        assert pa.array(one.column("a")[1:3].array).to_pylist() == values[1:3]


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """pandas itself cannot make such objects and categories, so their dtypes are put in place of Arrow's."""
    values = [b"ok", None, b"\xff\xfe"] * 100
    strings = pa.array(values).view(pa.string())
    dictionary = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1] * 100, pa.int8()), pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    )
    lists = pa.ListArray.from_arrays(pa.array(range(301), pa.int32()), strings)
    data = {name: arrow_series(array) for name, array in [("s", strings), ("c", dictionary), ("l", lists)]}
    frame = pd.DataFrame(data).fsst.compress()
    python = {"kind": "string", "storage": "python", "na": "nan"}
    dtypes = {"s": [{"kind": "object"}, python], "c": [{"kind": "category", "categories": python}], "l": [None]}
    for name, stored in ((name, stored) for name, all_stored in dtypes.items() for stored in all_stored):
        assert frame[[name]].decompress().dtypes[name] == data[name].dtype
        part = frame[[name]]
        part = part._make(part._backend, [replace(part._columns[0], stored=stored)], part.columns, part._index)
        part = saved_and_loaded(part, tmp_path)
        for some in (part.decompress, lambda: part[name]):  # noqa: B023
            with pytest.raises(UnicodeDecodeError, match=f"invalid start byte.*, column '{name}'$"):
                some()
        assert part.to_arrow()[name].cast(frame.to_arrow()[name].type).equals(frame.to_arrow()[name])


def test_categories_stay_strings_when_their_codes_get_a_codec() -> None:
    data = COLUMNS["category"]().to_frame("a")
    frame = data.fsst.compress(codecs={"a": "gpulz"})
    assert frame.codecs["a"] == "gpulz, fsst"
    same(frame.decompress(), data)


def test_copies_and_pickles() -> None:
    data = whole()
    frame = data.fsst.compress()
    for other in (frame.copy(), pickle.loads(pickle.dumps(frame))):
        same(other.decompress(), data)
    same(data.fsst.to_host().decompress(), data)


@pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
def test_named_codec(codec: str, tmp_path: Path) -> None:
    names = ["int64 extremes", "int32 sorted", "datetime", "category of numbers", "arrow decimal", "arrow list"]
    data = whole()[names if codec == "bitpack" else [*names, "float32", "float64 with nan and inf"]]
    data = data.drop(columns="category of numbers") if codec == "gfc" else data
    frame = data.fsst.compress(codecs=dict.fromkeys(data, codec))
    assert all(codec in found for found in frame.codecs), frame.codecs
    same_when_loaded(frame, data, tmp_path)


def test_equal_frames_make_equal_files(tmp_path: Path) -> None:
    data = whole()
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        data.copy().fsst.compress().save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Long streams are cut."""
    monkeypatch.setattr(plan, "PART_NBYTES", 4096)
    data = whole()
    frame = data.fsst.compress()
    same_when_loaded(frame, data, tmp_path)


@given(st.data())
def test_any_frame(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.integers(0, ROWS - 1), max_size=40))
    part = pd.DataFrame({name: COLUMNS[name]() for name in names}).iloc[rows]
    same(part.fsst.compress().decompress(), part)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_more_characters_than_a_chunk_can_have(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudf_fsst.interop.arrow.LARGE", 1000)
    rows = [b"row %d" % i if i % 7 else None for i in range(400)]
    chunks = pa.chunked_array(
        [pa.array(rows[:100], pa.binary()).view(kind), pa.array(rows[100:], pa.binary()).view(kind)]
    )
    data = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(chunks)})
    frame = data.fsst.compress()
    pd.testing.assert_frame_equal(frame.decompress(), data)
    assert frame.to_arrow()["a"].num_chunks > 2
    assert frame.to_arrow()["a"].to_pylist() == chunks.to_pylist()
