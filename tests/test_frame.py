"""``df.fsst.compress()``: every dtype comes back, from memory and from files, on the host and on a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import gc
import io
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import cudf_fsst
import fresh
import reference_frame_reader
from cudf_fsst.codecs.fsst.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.values import cpu as values_cpu
from cudf_fsst.codecs.values import plan
from cudf_fsst.files import storage

ROWS = 3000


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def holes(series: pd.Series) -> pd.Series:
    """A tenth of the values missing."""
    return series.where(rng().random(len(series)) < 0.9)


def arrow(values: list[Any], kind: pa.DataType) -> pd.Series:
    return arrow_series(pa.array(values, kind))


def arrow_series(array: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))


#: Columns by name; every one is of `ROWS` rows.
COLUMNS: dict[str, Callable[[], pd.Series]] = {
    "int8": lambda: pd.Series(rng().integers(-100, 100, ROWS).astype("i1")),
    "uint16": lambda: pd.Series(rng().integers(0, 2**16, ROWS).astype("u2")),
    "int32 sorted": lambda: pd.Series(np.sort(rng().integers(0, 10**6, ROWS)).astype("i4")),
    "int64 extremes": lambda: pd.Series(np.tile(np.array([-(2**63), 2**63 - 1, 0], "i8"), ROWS // 3)),
    "uint64": lambda: pd.Series(rng().integers(0, 2**64, ROWS, dtype="u8")),
    "float16": lambda: pd.Series(rng().random(ROWS).astype("f2")),
    "float32": lambda: pd.Series(np.cumsum(rng().random(ROWS)).astype("f4")),
    "float64 with nan and inf": lambda: pd.Series(np.tile([np.nan, np.inf, -np.inf, -0.0, 1.5], ROWS // 5)),
    "bool": lambda: pd.Series(rng().random(ROWS) < 0.5),
    "datetime": lambda: holes(pd.Series(pd.date_range("2020", periods=ROWS, freq="h"))),
    "datetime with zone": lambda: pd.Series(pd.date_range("2020", periods=ROWS, freq="h", tz="Europe/Berlin")),
    "timedelta": lambda: holes(pd.Series(pd.timedelta_range("1s", periods=ROWS))),
    "period": lambda: pd.Series(pd.period_range("2020", periods=ROWS, freq="D")),
    "interval": lambda: pd.Series(pd.interval_range(0, ROWS)),
    "category": lambda: holes(pd.Series(pd.Categorical(rng().choice(list("abc"), ROWS), ordered=True))),
    "category of numbers": lambda: pd.Series(pd.Categorical(rng().integers(0, 500, ROWS))),
    "category of times": lambda: pd.Series(pd.Categorical(pd.to_timedelta(np.arange(ROWS) % 7, "D"))),
    "category of intervals": lambda: pd.Series(pd.cut(rng().random(ROWS), 5)),
    "category of intervals of dates": lambda: pd.Series(
        pd.cut(pd.Series(pd.date_range("2020", periods=ROWS, tz="Europe/Berlin")), 7, right=False)
    ),
    "category of periods": lambda: pd.Series(pd.Categorical(pd.period_range("2020", periods=ROWS, freq="M"))),
    "category without any": lambda: pd.Series(pd.Categorical([None] * ROWS)),
    "category without any object": lambda: pd.Series(
        [None] * ROWS, dtype=pd.CategoricalDtype(pd.Index([], dtype=object))
    ),
    "Float64 with NaN": lambda: pd.Series(
        pd.arrays.FloatingArray(np.tile([1.5, np.nan, 2.0], ROWS // 3), np.tile([False, False, True], ROWS // 3))
    ),
    "Int64": lambda: holes(pd.Series(rng().integers(0, 9, ROWS), dtype="Int64")),
    "boolean": lambda: holes(pd.Series(rng().random(ROWS) < 0.5, dtype="boolean")),
    "str": lambda: holes(pd.Series([f"row {i}" for i in range(ROWS)])),
    "string[python]": lambda: pd.Series([f"row {i}" for i in range(ROWS)], dtype="string[python]"),
    "object of strings": lambda: pd.Series(["b", None, "ccc"] * (ROWS // 3), dtype=object),
    "object of decimals": lambda: pd.Series([decimal.Decimal("-1.5"), None] * (ROWS // 2), dtype=object),
    "object of lists": lambda: pd.Series([[1, 2], [], None] * (ROWS // 3), dtype=object),
    "object of dicts": lambda: pd.Series([{"a": 1, "b": "x"}, None] * (ROWS // 2), dtype=object),
    "object of bytes": lambda: pd.Series([b"\xff\x00", None] * (ROWS // 2), dtype=object),
    "object of dates": lambda: pd.Series([datetime.date(2020, 1, 1)] * ROWS, dtype=object),
    "all missing": lambda: pd.Series([None] * ROWS, dtype=object),
    "arrow decimal": lambda: arrow(
        [decimal.Decimal(i) / 4 if i % 7 else None for i in range(-1000, 2000)], pa.decimal128(20, 2)
    ),
    "arrow list": lambda: arrow(
        [None if i % 5 == 0 else list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int64())
    ),
    "arrow list of lists": lambda: arrow(
        [[[str(i)] * (i % 3)] for i in range(ROWS)], pa.large_list(pa.list_(pa.string()))
    ),
    "arrow struct": lambda: arrow(
        [None if i % 9 == 0 else {"a": i, "b": {"c": "x" * (i % 3)}} for i in range(ROWS)],
        pa.struct([("a", pa.int16()), ("b", pa.struct([("c", pa.string())]))]),
    ),
    "arrow time": lambda: arrow(list(range(ROWS)), pa.time64("us")),
    "arrow dictionary": lambda: arrow(
        [f"k{i % 11}" if i % 3 else None for i in range(ROWS)], pa.dictionary(pa.int8(), pa.string())
    ),
}

INDEXES: dict[str, Callable[[], pd.Index]] = {
    "range": lambda: pd.RangeIndex(5, 5 + 2 * ROWS, 2, name="n"),
    "numbers": lambda: pd.Index(rng().permutation(ROWS), name="i"),
    "strings": lambda: pd.Index([f"label {i}" for i in range(ROWS)]),
    "dates": lambda: pd.date_range("2020", periods=ROWS, freq="D"),
    "several levels": lambda: pd.MultiIndex.from_arrays(
        [np.arange(ROWS) % 7, [f"a{i}" for i in range(ROWS)]], names=["p", None]
    ),
}


def whole() -> pd.DataFrame:
    return pd.DataFrame({name: make() for name, make in COLUMNS.items()})


def same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, wanted, check_freq=True)
    assert list(map(str, found.dtypes)) == list(map(str, wanted.dtypes))


def saved_and_loaded(frame: Any, folder: Path) -> Any:
    frame.save(folder / "frame.fsst")
    return cudf_fsst.load(folder / "frame.fsst")


def same_when_loaded(frame: Any, wanted: pd.DataFrame, folder: Path) -> None:
    """Save the frame and load it in another process."""
    frame.save(folder / "frame.fsst")
    fresh.same_frame(folder / "frame.fsst", wanted)


def same_values(found: Any, wanted: Any) -> bool:
    """Python's values; NaN is equal to itself."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same_values, found, wanted))
    return bool(found == wanted) or (found != found and wanted != wanted)


# On the host --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "labels",
    [
        pd.RangeIndex(2),
        pd.Index(["a", "a"]),
        pd.Index([1, "x"], dtype=object, name="who"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["p", "q"]),
        pd.Index([1.5, np.nan]),
        pd.date_range("2020", periods=2, tz="Europe/Berlin"),
    ],
    ids=str,
)
def test_labels_of_columns(labels: pd.Index, tmp_path: Path) -> None:
    data = pd.DataFrame({0: [1, 2, 3], 1: ["a", "b", None]}).set_axis(labels, axis=1)
    frame = data.fsst.compress()
    same(frame.decompress(), data)
    same_when_loaded(frame, data, tmp_path)
    pd.testing.assert_index_equal(frame.columns, data.columns)


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        (pd.interval_range(0, 2), pd.Interval(0, 1)),
        (pd.interval_range(0, 2), 0.5),
        (pd.date_range("2020", periods=2), "2020-01-01"),
        (pd.period_range("2020", periods=2, freq="D"), "2020-01-01"),
        (pd.timedelta_range("1s", periods=2), "1s"),
        (pd.CategoricalIndex(["a", "b"]), "a"),
        (pd.Index([1, 2], dtype="uint8"), 1),
        (pd.Index([1, 2], dtype="Int64"), 1),
        (pd.MultiIndex.from_arrays([pd.interval_range(0, 2), ["a", "b"]]), (pd.Interval(0, 1), "a")),
    ],
    ids=str,
)
def test_a_column_has_its_label(labels: pd.Index, key: Any) -> None:
    """Whatever names it."""
    data = pd.DataFrame([["a", 1], ["b", 2]]).set_axis(labels, axis=1)
    frame = data.fsst.compress()
    pd.testing.assert_series_equal(frame[key], data[key])
    for name in (frame[key].name, frame.column(key).name, frame.column(key).decompress().name):
        assert type(name) is type(data[key].name)
        assert name == labels[0]
    pd.testing.assert_frame_equal(frame[[key]].decompress(), data[[labels[0]]])


@pytest.mark.parametrize(
    "labels", [pd.Index(["a", "b"]), pd.RangeIndex(2), pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])], ids=str
)
def test_labels_are_not_shared(labels: pd.Index) -> None:
    """Who gets some may rename them, and the rows' as well."""
    data = pd.DataFrame([[1, 2]], columns=labels, index=pd.Index([5]))
    frame = data.fsst.compress()
    data.columns.names = ["theirs"] * labels.nlevels
    for some in (
        frame.columns,
        frame.codecs.index,
        frame.dtypes.index,
        frame._table().index,
        frame[list(labels)].columns,
        frame.copy().columns,
        frame.decompress().columns,
    ):
        assert some.names == [None] * labels.nlevels
        some.names = ["theirs"] * labels.nlevels
    for some in (frame.index, frame.decompress().index, frame[labels[0]].index):
        assert some.name is None
        some.name = "theirs"
    assert frame.columns.names == [None] * labels.nlevels


def test_a_label_of_several_columns() -> None:
    intervals = pd.interval_range(0, 2)
    for labels, key in (
        (pd.Index(["a", "a"]), "a"),
        (intervals.take([0, 0]), intervals[0]),
        (pd.CategoricalIndex(["a", "a"]), "a"),
        (pd.date_range("2020", periods=2), "2020"),
    ):
        frame = pd.DataFrame([["a", 1], ["b", 2]]).set_axis(labels, axis=1).fsst.compress()
        for ask in (frame.__getitem__, frame.column, lambda key, frame=frame: frame[[key]]):
            with pytest.raises(KeyError, match="names several columns"):
                ask(key)


def test_no_columns_and_no_rows(tmp_path: Path) -> None:
    for data in (pd.DataFrame(index=range(3)), pd.DataFrame(), pd.DataFrame({"a": []})):
        frame = data.fsst.compress()
        same(frame.decompress(), data)
        same_when_loaded(frame, data, tmp_path)
        assert frame.ratio == 1.0
        assert repr(frame)


def test_labels_without_utf8(tmp_path: Path) -> None:
    """Lone surrogates, in labels and in names of labels."""
    frame = pd.DataFrame([[1, 2]], columns=pd.Index(["a", "\ud800"], dtype=object)).fsst.compress()
    for call in (lambda: frame.save(tmp_path / "frame"), frame.to_arrow):
        with pytest.raises(TypeError, match=r"the name '\\ud800' cannot be stored"):
            call()
    assert list(tmp_path.iterdir()) == []
    data = pd.DataFrame([[1, 2]], index=pd.Index(["\ud800"], dtype=object))
    with pytest.raises(TypeError, match=r"the index: an index of dtype object cannot be stored: .*'\\ud800'"):
        data.fsst.compress()


@pytest.mark.parametrize(
    "labels",
    [
        pd.MultiIndex.from_arrays([pd.Index([1, 2], dtype="uint8"), pd.Index([1.5, 2], dtype="float32")]),
        pd.MultiIndex.from_arrays([pd.Index(["a", "b"], dtype="string"), pd.Index(["a", "b"], dtype=object)]),
        pd.MultiIndex.from_arrays([pd.DatetimeIndex(["2020", "2021"]).as_unit("s"), [True, False]]),
        pd.MultiIndex(levels=[[2], ["a"]], codes=[[0, -1], [-1, 0]]),
    ],
    ids=str,
)
def test_levels_of_labels_have_their_dtypes(labels: pd.MultiIndex, tmp_path: Path) -> None:
    """Which files of version 2 name."""
    data = pd.DataFrame([[1, 2]], columns=labels)
    same_when_loaded(data.fsst.compress(), data, tmp_path)


def intervals_and_times() -> pd.MultiIndex:
    times = pd.date_range("2020", periods=3, unit="s", tz="Europe/Paris")
    return pd.MultiIndex.from_arrays([pd.interval_range(0, 3), times, ["a", "b", "c"]], names=["i", None, ("t", 1)])


#: Labels of three columns that version 2 of the format cannot say.
EXACT_LABELS: dict[str, Callable[[], pd.Index]] = {
    "intervals": lambda: pd.interval_range(0, 3, name="bin"),
    "intervals of times": lambda: pd.interval_range(pd.Timestamp("2020", tz="Europe/Paris"), periods=3),
    "periods": lambda: pd.period_range("2020", periods=3, freq="M"),
    "durations": lambda: pd.timedelta_range("1s", periods=3),
    "categories": lambda: pd.CategoricalIndex(list("aba"), categories=list("cab"), ordered=True, name="c"),
    "categories of intervals": lambda: pd.CategoricalIndex(pd.cut([1, 2, 3], 2)),
    "categories of nothing": lambda: pd.CategoricalIndex([None] * 3),
    "nullable integers": lambda: pd.Index([1, None, 2**60 + 1], dtype="Int64"),
    "arrow strings": lambda: pd.Index(["a", None, "c"], dtype=pd.ArrowDtype(pa.string())),
    "arrow dictionary": lambda: pd.Index(
        pd.arrays.ArrowExtensionArray(pa.chunked_array([["a", "b", "a"]]).dictionary_encode())
    ),
    "python strings": lambda: pd.Index(["a", "b", "c"], dtype=pd.StringDtype("python")),
    "dates": lambda: pd.Index([datetime.date(2020, 1, day) for day in (1, 2, 3)], dtype=object),
    "bytes": lambda: pd.Index([b"a", b"\xff", b""], dtype=object),
    "not a time": lambda: pd.DatetimeIndex(["2020", None, "2021"]),
    "level of categories": lambda: pd.MultiIndex.from_arrays([pd.Categorical(list("aba")), [1, 2, 3]], names=["x", 5]),
    "level with frequency": lambda: pd.MultiIndex.from_arrays([pd.date_range("2020", periods=3), [1, 2, 3]]),
    "levels of kinds": intervals_and_times,
}


def version(path: Path) -> int:
    return storage.version_of(path)


@pytest.mark.parametrize("name", EXACT_LABELS)
def test_exact_labels(name: str, tmp_path: Path) -> None:
    """Which only version 3 can say."""
    labels = EXACT_LABELS[name]()
    data = pd.DataFrame([[1, "a", 1.5], [2, None, 2.5]]).set_axis(labels, axis=1)
    frame = data.fsst.compress()
    same_when_loaded(frame, data, tmp_path)
    assert version(tmp_path / "frame.fsst") == 3
    fresh.same_index(cudf_fsst.load(tmp_path / "frame.fsst").columns, labels)
    cudf_fsst.load(tmp_path / "frame.fsst").save(tmp_path / "again.fsst")
    assert (tmp_path / "again.fsst").read_bytes() == (tmp_path / "frame.fsst").read_bytes()
    # Label levels come behind the columns; all are as they are.
    read = reference_frame_reader.read(tmp_path / "frame.fsst")
    assert [field for field, _ in read[3:]] == [f"label {level}" for level in range(labels.nlevels)]
    if not isinstance(labels, pd.MultiIndex):
        kept = frame[labels[[0, 2]]] if labels.is_unique else frame
        same_when_loaded(kept, data[labels[[0, 2]]] if labels.is_unique else data, tmp_path)


def test_labels_that_pandas_makes(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": list("xyxz"), "b": pd.Categorical(list("ppqq")), "c": pd.cut([1, 2, 3, 9], 3)})
    for data in (
        pd.get_dummies(rows["b"]),
        pd.get_dummies(rows),
        pd.crosstab(rows["a"], rows["b"]),
        pd.crosstab(rows["a"], rows["c"]),
        pd.crosstab(rows["a"], [rows["b"], rows["c"]]),
        rows.groupby(["a", "b"], observed=False).size().unstack(),
    ):
        same_when_loaded(data.fsst.compress(), data, tmp_path)


def test_labels_that_version_2_says_are_written_so(tmp_path: Path) -> None:
    for labels in (
        pd.RangeIndex(2),
        pd.Index(["a", "a"]),
        pd.Index(["a", None]),
        pd.Index([1, "x"], dtype=object, name="who"),
        pd.Index([np.int64(1), np.int64(2)], dtype=object),
        pd.Index([1, 2], dtype="uint8"),
        pd.Index([1.5, np.nan], dtype="float32"),
        pd.Index(["a", "b"], dtype="string"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["p", "q"]),
        pd.date_range("2020", periods=2, tz="Europe/Berlin"),
        pd.Index([("a", 1), ("b", 2)], tupleize_cols=False),
    ):
        data = pd.DataFrame([[1, 2]], columns=labels)
        data.fsst.compress().save(tmp_path / "frame.fsst")
        assert version(tmp_path / "frame.fsst") == 2
        pd.testing.assert_index_equal(cudf_fsst.load(tmp_path / "frame.fsst").columns, labels, exact=True)


@pytest.mark.parametrize("dtype", ["timedelta64[s]", "period[M]", "interval[float64, both]", "complex128"])
def test_no_labels_of_any_dtype_are_written_in_version_2(dtype: str, tmp_path: Path) -> None:
    """That version has a dtype for them, and says all there is to say."""
    data = pd.DataFrame(index=range(3), columns=pd.Index([], dtype=dtype, name="n"))
    data.fsst.compress().save(tmp_path / "frame.fsst")
    assert version(tmp_path / "frame.fsst") == 2
    fresh.same_frame(tmp_path / "frame.fsst", data)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Index([object(), "a"], dtype=object),
        pd.Index([1j, 2]),
        pd.CategoricalIndex([1, "x"]),
        pd.MultiIndex.from_arrays([pd.CategoricalIndex([1, "x"]), [1, 2]]),
        pd.Index(["a", "b"], name=frozenset()),
    ],
    ids=["objects", "complex", "categories", "level", "name"],
)
def test_labels_that_no_version_says(labels: pd.Index, tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2]], columns=labels).fsst.compress()
    with pytest.raises(TypeError, match=r"^the labels of the columns: .*; rename the columns first"):
        frame.save(tmp_path / "frame.fsst")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("make", [pd.DataFrame, pd.Series, np.asarray, np.array], ids=lambda make: make.__name__)
def test_labels_are_not_taken_for_data(make: Callable[[Any], Any]) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]}).fsst.compress()
    with pytest.raises(TypeError, match=r"frame\.decompress\(\)"):
        make(frame)
    assert list(frame) == ["a", "b"]


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
    with pytest.raises(TypeError, match="'int8' holds int8, not strings"):
        frame.column("int8")
    same(frame[np.array(["str"])].decompress(), data[["str"]])
    for missing in ("nobody", {}):
        with pytest.raises(KeyError, match=str(missing)):
            frame[missing]
    for mask in (
        data["int8"] > 0,
        (data["int8"] > 0).to_numpy(),
        [True] * ROWS,
        pd.array([True, None], dtype="boolean"),
    ):
        with pytest.raises(TypeError, match="not by a mask of rows"):
            frame[pd.Index(mask) if isinstance(mask, pd.arrays.BooleanArray) else mask]
    assert pd.DataFrame({True: [1], False: [2]}).fsst.compress()[[False, True]].columns.tolist() == [False, True]
    with pytest.raises(TypeError, match="not by rows"):
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
    with pytest.raises(TypeError, match=r"column 'a' holds .*; "):
        frame.column("a")


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
        part = part._make(
            part._backend, [replace(part._columns[0], stored=stored)], part.columns, part._index, part._levels, 300
        )
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


def test_a_file_replaces_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"not a regular file.*pipe"):
        pd.DataFrame({"a": [1]}).fsst.compress().save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


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


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1, "a"], "could not convert|Could not convert"),
        ([1, 2.5], "mixed-integer-float"),
        ([1j, 2j], "complex128"),
        (pd.arrays.SparseArray([0, 1]), "Sparse"),
        ([object(), None], "object"),
        ([{"a": 1}, {"a": 1, "b": 2}], "as struct<.*> they would change"),
        ([[1, 2.5]], "as list<.*> they would change"),
        ([[float("nan")]], "they would change"),
        ([datetime.time(1, tzinfo=datetime.UTC)], "holding time values"),
        ([datetime.time(1, fold=1)], "would change; the first is .*fold=1"),
        ([None, datetime.datetime(2020, 1, 1, fold=1)], "would change; the first is .*fold=1"),
        ([[datetime.time(1)], [datetime.time(1, fold=1)]], "would change; the first is .*fold=1"),
        ([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], "would change"),
        (arrow([["a"]], pa.list_(pa.string_view())), "string_view"),
    ],
    ids=("mixed numbers complex sparse objects dicts list nan time fold datetime folds zones view".split()),
)
def test_what_arrow_cannot_hold_is_named(values: Any, why: str) -> None:
    series = pd.Series(values, dtype=object if isinstance(values, list) and why != "complex128" else None)
    with pytest.raises(TypeError, match=f"column 'odd': .*({why})"):
        series.to_frame("odd").assign(fine=1)[["fine", "odd"]].fsst.compress()


DECIMALS = [
    # values, and the first that Arrow would change
    (["-0.0", "1.5"], "-0.0"),
    (["1.25", "1.250", "1.2500"], "1.25"),
    (["1.5", None, "0E+1"], "0E+1"),
    (["1E+3", "2E+3"], "1E+3"),
    (["1.5", "Infinity"], "Infinity"),
    (["1.5", "-Infinity"], "-Infinity"),
    (["sNaN", "1.5"], "sNaN"),
    (["-sNaN12"], "-sNaN12"),
]


@pytest.mark.parametrize(("texts", "first"), DECIMALS, ids=lambda value: str(value))
@pytest.mark.parametrize("inside", [lambda value: value, lambda value: [value], lambda value: {"a": value}])
def test_decimals_that_would_change(texts: list[str | None], first: str, inside: Callable[[Any], Any]) -> None:
    values = [None if text is None else inside(decimal.Decimal(text)) for text in texts]
    data = pd.DataFrame({"fine": 1, "odd": pd.Series(values, dtype=object)})
    with pytest.raises(TypeError, match=r"^column 'odd': dtype object.* cannot be compressed: ") as error:
        data.fsst.compress()
    if not isinstance(values[0], list | dict) or "n" not in first:
        assert repr(inside(decimal.Decimal(first))) in str(error.value)


@pytest.mark.parametrize(
    "texts",
    [["-1.50", "0.00", None, "99999999999999.99"], ["0E-10", "-1E-10"], ["0", "-7"], ["1.5", "NaN"], ["NaN"]],
    ids=str,
)
def test_decimals_that_arrow_holds(texts: list[str | None], tmp_path: Path) -> None:
    values = [None if text is None else decimal.Decimal(text) for text in texts]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)}).fsst.compress()
    wanted = [None if text in (None, "NaN") else decimal.Decimal(text).as_tuple() for text in texts]
    for one in (frame, saved_and_loaded(frame, tmp_path)):
        assert [value if value is None else value.as_tuple() for value in one["a"]] == wanted


@pytest.mark.parametrize(
    "values",
    [
        [decimal.Decimal("1.250"), decimal.Decimal("2.5")],
        [decimal.Decimal("-0"), decimal.Decimal(1)],
        [datetime.time(1, fold=1)],
    ],
    ids=str,
)
def test_categories_that_would_change(values: list[Any]) -> None:
    """Their dtype is equal to the one that would come back."""
    data = pd.DataFrame({"odd": pd.Categorical(values)})
    with pytest.raises(TypeError, match=r"column 'odd': dtype category holding .*; the first is .*(2\.5|-0|fold=1)"):
        data.fsst.compress()


def test_bad_arguments() -> None:
    data = pd.DataFrame({"a": [1, 2], "s": ["x", "y"], "f": np.array([1, 2], "f2")})
    with pytest.raises(KeyError, match="'b'"):
        data.fsst.compress(codecs={"b": "raw"})
    with pytest.raises(TypeError, match=r"codecs must be a dict .*, not str"):
        data.fsst.compress(codecs="gfc")
    with pytest.raises(KeyError, match="'s'"):  # a part of the labels
        data.set_axis(pd.MultiIndex.from_product([["s"], list("xyz")]), axis=1).fsst.compress(codecs={"s": "raw"})
    with pytest.raises(ValueError, match=r"'a' must be one of .*not 'zip'"):
        data.fsst.compress(codecs={"a": "zip"})
    with pytest.raises(ValueError, match="column 's': codec 'gfc' does not take strings"):
        data.fsst.compress(codecs={"s": "gfc"})
    with pytest.raises(ValueError, match="column 'a': codec 'fsst' takes strings, not int64"):
        data.fsst.compress(codecs={"a": "fsst"})
    with pytest.raises(ValueError, match="column 'f': codec 'gfc' takes values of 4 or 8 bytes, not 2"):
        data.fsst.compress(codecs={"f": "gfc"})
    with pytest.raises(ValueError, match="level"):
        data.fsst.compress(level="best")
    with pytest.raises(ValueError, match="stream"):
        data.fsst.compress(stream="s")
    with pytest.raises(TypeError, match="make a CompressedFrame"):
        cudf_fsst.CompressedFrame()


def test_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Long streams are cut."""
    monkeypatch.setattr(plan, "PIECE_NBYTES", 4096)
    data = whole()
    frame = data.fsst.compress()
    same_when_loaded(frame, data, tmp_path)


@given(st.data())
def test_any_frame(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.integers(0, ROWS - 1), max_size=40))
    part = pd.DataFrame({name: COLUMNS[name]() for name in names}).iloc[rows]
    same(part.fsst.compress().decompress(), part)


# Damaged files ------------------------------------------------------------------------------------------------------


def sealed(data: bytearray) -> bytes:
    """The file with checksums that hold."""
    columns, segments, sections = struct.unpack_from("<III", data, 24)
    end = 64 + 64 * (columns + segments) + 32 * sections
    for at in range(end - 32 * sections, end, 32):
        offset, size = struct.unpack_from("<QQ", data, at + 8)
        struct.pack_into("<Q", data, at + 24, xxhash.xxh3_64_intdigest(data[offset : offset + size]))
    struct.pack_into("<Q", data, 40, xxhash.xxh3_64_intdigest(data[64:end]))
    struct.pack_into("<Q", data, 56, xxhash.xxh3_64_intdigest(data[:56]))
    return bytes(data)


def test_damaged_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """Flipped bytes under checksums that hold: an error, or a frame that can be read."""
    names = ["int32 sorted", "float32", "category", "arrow list", "arrow struct", "arrow decimal", "boolean", "str"]
    path = tmp_path / "frame.fsst"
    whole()[names].fsst.compress(codecs={"float32": "gfc"}).save(path)
    good = path.read_bytes()
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for at in random.integers(64, len(data), random.integers(1, 4)):
            data[at] ^= 1 << int(random.integers(0, 8))
        try:
            text = sealed(data)
        except struct.error:
            continue
        path.write_bytes(text)
        try:
            found = cudf_fsst.load(path)
        except ValueError:
            refused += 1
        else:
            found.to_arrow().validate()
            read = found[names[:-1]].decompress()  # strings may be any bytes
            read.pop("arrow list").to_list()  # to_csv() takes most of the test's time for lists
            read.to_csv(io.StringIO())
    assert refused > 100


def test_a_frame_without_columns_of_too_many_rows(tmp_path: Path) -> None:
    """Nobody else counts the rows of such a frame."""
    from cudf_fsst.frame import save

    for rows, fine in ((2**63 - 1, True), (2**63, False)):
        index = {"names": [None], "range": [0, rows, 1]}
        save(tmp_path / "frame.fsst", "frame", pd.Index([], dtype="str"), [], index, [], rows)
        if fine:
            assert len(cudf_fsst.load(tmp_path / "frame.fsst")) == rows
            continue
        with pytest.raises(ValueError, match=f"frame.fsst: a frame of {rows} rows"):
            cudf_fsst.load(tmp_path / "frame.fsst")


#: What a file says of the labels of a frame with a column "a".
STORED_LABELS = {"names": [None], "multi": False, "dtypes": ["str"], "freqs": [None], "labels": ["a"]}


@pytest.mark.parametrize(
    "change",
    [
        {},  # the others change what is read
        {"type": pa.binary(100)},
        {"type": pa.string_view()},
        {"type": pa.list_(pa.int32(), 3)},
        {"type": pa.list_view(pa.int32())},  # of which Arrow makes nothing but an abort
        {"type": pa.list_(pa.list_view(pa.int32()))},
        {"type": pa.map_(pa.int32(), pa.int32())},
        {"type": pa.decimal256(50)},
        {"type": pa.month_day_nano_interval()},
        {"rows": float("inf")},
        {"index": {"names": [None], "range": [0, 2**70, 1]}},
        {"index": {"names": [None], "range": [0, 2**63, 1]}},
        {"index": {"names": [None], "range": [0, 9, 0]}},
        {"index": {"names": [None], "range": [0, 9.0, 1]}},
        {"labels": {"names": [None], "range": [0, 2**63, 1]}},
        {"labels": STORED_LABELS | {"dtypes": ["S1000000000"]}},
        {"labels": STORED_LABELS | {"dtypes": ["V1000000000"]}},
        {"labels": STORED_LABELS | {"dtypes": [["U", 10**9]]}},
        {"labels": STORED_LABELS | {"dtypes": []}},
        {"labels": STORED_LABELS | {"multi": True}},
        {"labels": STORED_LABELS | {"multi": True, "labels": [{"tuple": ["a", "b"]}], "dtypes": ["str", "S9"]}},
    ],
    ids=str,
)
def test_schemas_that_nobody_writes(change: dict[str, Any], tmp_path: Path) -> None:
    from cudf_fsst.interop import schema

    path = tmp_path / "frame.fsst"
    tree = {"rows": 9, "nulls": 9, "validity": None, "values": [], "strings": None, "children": []}
    notes = {
        "labels": STORED_LABELS,
        "index": {"names": [None], "range": [0, 9, 1]},
        "rows": 9,
        "columns": [{"dtype": None, "tree": tree}],
        "levels": [],
    }
    notes |= change
    fields = [("a", notes.pop("type", pa.null()))]
    if not change:
        storage.save_streams(path, streams=[], schema=schema.frame_to_bytes(fields, notes))
        assert cudf_fsst.load(path).shape == (9, 1)
        return
    storage.save_streams(path, streams=[], schema=schema.frame_to_bytes(fields, notes))
    with pytest.raises(ValueError, match=r"frame\.fsst: "):
        cudf_fsst.load(path)


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


def test_codecs_of_labels_with_levels() -> None:
    data = pd.DataFrame({("a", "x"): np.arange(9), ("b", "y"): np.arange(9)})
    assert data.fsst.compress(codecs={("a", "x"): "raw"}).codecs.tolist() == ["raw", "gfc"]
    with pytest.raises(KeyError, match="'a'"):
        data.fsst.compress(codecs={"a": "raw"})


def test_errors_name_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    data = whole()[["int8", "str"]].set_axis(["only label"] * ROWS)
    frame = data.fsst.compress()

    def fails(*_: Any) -> Any:
        raise MemoryError("no memory")

    monkeypatch.setattr("cudf_fsst.interop.pandas_frame.build", fails)
    for call in (frame.decompress, lambda: frame["int8"]):
        with pytest.raises(MemoryError, match=r"^column 'int8': no memory$"):
            call()
    monkeypatch.setattr("cudf_fsst.interop.pandas_frame.build_index", fails)
    monkeypatch.setattr("cudf_fsst.interop.pandas_frame.describe_index", fails)
    for call in (frame.decompress, data.fsst.compress):
        with pytest.raises(MemoryError, match=r"^the index: no memory$"):
            call()


def test_a_stream_needs_a_gpu() -> None:
    data = whole()[["int8", "str"]]
    frame = data.fsst.compress()
    for call in (
        data.fsst.compress,
        data.fsst.to_host,
        data.iloc[:0, :0].fsst.compress,
        frame.decompress,
        frame.to_host,
        data.iloc[:0, :0].fsst.compress().to_host,
        frame.column("str").to_host,
    ):
        with pytest.raises(ValueError, match=r"stream='s' needs data in GPU memory"):
            call(stream="s")
    compressor = cudf_fsst.Compressor(stream="s")
    with pytest.raises(ValueError, match=r"stream='s' needs data in GPU memory"):
        compressor.append(data["str"])


# On a GPU -----------------------------------------------------------------------------------------------------------


def same_on_gpu(found: Any, wanted: Any) -> None:
    """cuDF frames; its own comparison does not know decimals, lists and slices of structs."""
    assert list(map(str, found.dtypes)) == list(map(str, wanted.dtypes))
    pd.testing.assert_index_equal(found.index.to_pandas(), wanted.index.to_pandas())
    assert repr(found.to_arrow(preserve_index=False).to_pylist()) == repr(
        wanted.to_arrow(preserve_index=False).to_pylist()
    )


ON_GPU = [
    name
    for name in COLUMNS
    if name not in ("float16", "period", "all missing", "Float64 with NaN")
    and (name == "category of numbers" or not name.startswith(("object of", "arrow", "category ")))
]


#: Indexes whose strings, categories and nulls are compressed.
LABELS: dict[str, Callable[[], Any]] = {
    **INDEXES,
    "strings with nulls": lambda: pd.Index([None if i % 11 == 0 else f"label {i}" for i in range(ROWS)]),
    "categories": lambda: pd.CategoricalIndex([f"kind {i % 40}" for i in range(ROWS)], name="k"),
}


def same_streams(paths: Sequence[Path]) -> None:
    """Two files of frames hold the same compressed bytes."""
    sections = [storage.load(path).streams for path in paths]
    assert len(sections[0]) == len(sections[1])
    for (codec, parts), (other, others) in zip(*sections, strict=True):
        assert codec == other
        for part, same_part in zip(parts, others, strict=True):
            np.testing.assert_array_equal(part.meta, same_part.meta)
            np.testing.assert_array_equal(part.codes, same_part.codes)


@pytest.mark.gpu
class TestGpu:
    @pytest.mark.parametrize("name", ON_GPU)
    def test_dtype(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = cudf.from_pandas(COLUMNS[name]().to_frame("the column"), nan_as_null=False)
        for part in (data, data.iloc[7:1999], data.iloc[:0], data.iloc[5:6], data.iloc[3:2500:2]):
            frame = part.fsst.compress()
            assert frame.device.startswith("cuda:")
            same_on_gpu(frame.decompress(), part)
            assert str(frame["the column"].dtype) == str(part["the column"].dtype)
            assert list(map(str, frame.dtypes)) == list(map(str, part.dtypes))
            for host in (frame.to_host(), part.fsst.to_host()):
                assert host.device == "cpu"
                same_on_gpu(host.to_cudf(), part)
                same_on_gpu(host.to_device().decompress(), part)
                pd.testing.assert_frame_equal(
                    host.to_pandas(), part.to_pandas(), check_dtype=False, check_column_type=False
                )
            same_on_gpu(saved_and_loaded(frame, tmp_path).to_cudf(), part)

    @pytest.mark.parametrize(
        "name",
        [
            "int8",
            "uint16",
            "int32 sorted",
            "int64 extremes",
            "float32",
            "bool",
            "datetime",
            "str",
            "timedelta",
            "float64 with nan and inf",
        ],
    )
    def test_same_bytes_as_on_the_host(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = pd.DataFrame({"c": COLUMNS[name]()})
        made = [tmp_path / "host", tmp_path / "gpu"]
        data.fsst.compress().save(made[0])
        cudf.from_pandas(data, nan_as_null=False).fsst.compress().save(made[1])
        same_streams(made)

    @pytest.mark.parametrize("name", LABELS)
    def test_same_bytes_for_all_options(self, name: str, tmp_path: Path) -> None:
        """Of columns, which the options are for, and of the index, which has none."""
        import cudf

        data = whole()[["int8", "str", "category"]].set_axis(LABELS[name]())
        there = cudf.from_pandas(data)
        made = [tmp_path / "host", tmp_path / "gpu"]
        for tile_size in ("auto", *TILE_SIZES):
            for level in LEVELS:
                options = {"tile_size": tile_size, "level": level}
                data.fsst.compress(**options).save(made[0])
                for frame in (there.fsst.compress(**options), there.fsst.to_host(**options)):
                    frame.save(made[1])
                    same_streams(made)

    def test_halves_of_decimals_cut_at_different_rows(self) -> None:
        """A file may have them so, though none of ours has."""
        import cudf

        numbers = [decimal.Decimal(i**9) * (-1) ** i if i % 7 else None for i in range(2000)]
        table = pa.table({"a": pa.array(numbers, pa.decimal128(38, 0))})
        frame = cudf.DataFrame.from_arrow(table).fsst.to_host()
        (column,) = frame._columns
        for cuts in (([500], [1500]), ([1500], [500]), ([1, 1999], [])):
            streams = []
            for stream, rows in zip(column.node.values, cuts, strict=True):
                codec, values = stream[0].codec, values_cpu.read(stream, 8)
                pieces = [values_cpu.compress(piece, codec=codec) for piece in np.split(values, rows)]
                streams.append(tuple(part for piece in pieces for part in piece))
            node = dataclasses.replace(column.node, values=tuple(streams))
            frame._columns = (dataclasses.replace(column, node=node),)
            for found in (frame.to_cudf(), frame.to_device().decompress()):
                assert found["a"].to_arrow().to_pylist() == numbers

    def test_decimals_lists_and_structs(self) -> None:
        import cudf

        table = pa.table(
            {
                "decimal64": pa.array(
                    [decimal.Decimal(i) / 4 if i % 7 else None for i in range(ROWS)], pa.decimal64(12, 2)
                ),
                "list": pa.array([None if i % 5 == 0 else list(range(i % 4)) for i in range(ROWS)]),
                "struct": pa.array([{"a": i, "b": {"c": "x" * (i % 3)}} if i % 9 else None for i in range(ROWS)]),
                "lists of strings": pa.array([[[str(i)] * (i % 3)] for i in range(ROWS)]),
            }
        )
        data = cudf.DataFrame.from_arrow(table)
        for part in (data, data.iloc[100:2000], data.iloc[:10], data.iloc[:0]):
            frame = part.fsst.compress()
            same_on_gpu(frame.decompress(), part)
            same_on_gpu(frame.to_host().to_cudf(), part)
            assert [str(dtype) for dtype in frame.decompress().dtypes] == [str(dtype) for dtype in part.dtypes]

    @pytest.mark.parametrize("name", INDEXES)
    def test_index(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = cudf.from_pandas(whole()[["int8", "str"]].set_axis(INDEXES[name]()))
        frame = data.fsst.compress()
        same_on_gpu(frame.decompress(), data)
        same_on_gpu(saved_and_loaded(frame, tmp_path).to_cudf(), data)
        same_on_gpu(pickle.loads(pickle.dumps(frame)).decompress(), data)

    @pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
    def test_named_codec(self, codec: str) -> None:
        import cudf

        data = cudf.from_pandas(whole()[["int64 extremes", "int32 sorted", "datetime"]])
        host = data.to_pandas().fsst.compress(codecs=dict.fromkeys(data, codec))
        frame = data.fsst.compress(codecs=dict.fromkeys(data, codec))
        assert frame.nbytes == host.nbytes
        same_on_gpu(frame.decompress(), data)
        same_on_gpu(host.to_cudf(), data)

    def test_big(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Several pieces and segments a column, with nulls and on a stream."""
        import cudf
        import cupy
        from cudf.testing import assert_frame_equal

        monkeypatch.setattr(plan, "PIECE_NBYTES", 1 << 20)
        data = cudf.from_pandas(pd.concat([whole()[["int32 sorted", "Int64", "datetime", "str", "float32"]]] * 200))
        stream = cupy.cuda.Stream(non_blocking=True)
        for frame in (data.fsst.compress(), data.fsst.compress(stream=stream), data.fsst.to_host().to_device()):
            assert_frame_equal(frame.decompress(), data)

    def test_characters_under_nulls(self) -> None:
        """Of columns, categories' strings and strings in lists, whole and cut."""
        import cudf
        import cupy
        import pylibcudf as plc

        words = ["one", "two", "three", "four"] * 100
        full, _ = cudf.Series(words).to_pylibcudf()
        mask = plc.gpumemoryview(cupy.full(64, 0b01010101, dtype=cupy.uint8))
        column = plc.Column(full.type(), full.size(), full.data(), mask, 200, 0, [full.child(0)])
        offsets, _ = cudf.Series(np.arange(0, 401, 4, dtype="i4")).to_pylibcudf()
        lists = plc.Column(plc.DataType(plc.TypeId.LIST), 100, None, None, 0, 0, [offsets, column])
        wanted = [word if i % 2 == 0 else None for i, word in enumerate(words)]
        plain = cudf.DataFrame({"a": cudf.Series.from_pylibcudf(column)})
        nested = cudf.DataFrame({"a": cudf.Series.from_pylibcudf(lists)})
        for data, values in ((plain, wanted), (nested, [wanted[i : i + 4] for i in range(0, 400, 4)])):
            for cut in (slice(None), slice(3, 90)):
                for frame in (data.iloc[cut].fsst.compress(), data.iloc[cut].fsst.to_host()):
                    assert frame.to_cudf()["a"].to_arrow().to_pylist() == values[cut]

    def test_stream(self) -> None:
        """cuDF's own work on what a stream of the user's makes waits for it."""
        import cudf
        import cupy

        names = ["int32 sorted", "Int64", "datetime", "str", "category"]
        data = cudf.from_pandas(pd.concat([whole()[names]] * 200))
        data = data.set_index(["int32 sorted", "datetime"])
        stream = cupy.cuda.Stream(non_blocking=True)
        for part in (data, data.iloc[1000:-1000]):
            same_on_gpu(part.fsst.compress(stream=stream).decompress(stream=stream), part)

    @pytest.mark.slow
    def test_out_of_memory_at_every_allocation(self) -> None:
        """Of GPU memory: the error names the column, the data stays, nothing is kept, no pinned memory either."""
        import cudf
        import rmm

        from cudf_fsst.device.pinned import pinned_nbytes

        data = cudf.from_pandas(whole()[["int32 sorted", "Int64", "float32", "str", "category"]])
        data = cudf.concat([data] * 40, ignore_index=True)
        host = data.fsst.to_host()
        before, pinned = rmm.mr.get_current_device_resource(), pinned_nbytes()

        class Failing:
            """Fails the allocation of this number."""

            def __init__(self, number: int) -> None:
                self.left, self.held = number, 0
                self.resource = rmm.mr.CallbackMemoryResource(self.allocate, self.free)

            def allocate(self, nbytes: int, stream: Any) -> int:
                if self.left == 0:
                    raise MemoryError("this one fails")
                self.left -= 1
                self.held += nbytes
                return before.allocate(nbytes, stream)

            def free(self, address: int, nbytes: int, stream: Any) -> None:
                self.held -= nbytes
                before.deallocate(address, nbytes, stream)

        for call in (data.fsst.compress, data.fsst.to_host, host.to_cudf, host.to_device):
            for number in range(10_000):
                failing = Failing(number)
                rmm.mr.set_current_device_resource(failing.resource)
                result = None
                with contextlib.suppress(MemoryError):
                    result = call()
                failed, result = result is None, None
                gc.collect()
                rmm.mr.set_current_device_resource(before)
                assert failing.held == 0, (call, number)
                assert pinned_nbytes() == pinned
                if not failed:
                    break
            assert number > 5
        same_on_gpu(host.to_cudf(), data)
