"""The labels of a frame's columns: any that pandas has, from memory and from files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
import reference_frame_reader
from cudf_fsst.files import storage
from frame_cases import (
    same,
    same_when_loaded,
)


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


@pytest.mark.parametrize("make", [pd.DataFrame, pd.Series, np.asarray, np.array], ids=lambda make: make.__name__)
def test_labels_are_not_taken_for_data(make: Callable[[Any], Any]) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]}).fsst.compress()
    with pytest.raises(TypeError, match=r"frame\.decompress\(\)"):
        make(frame)
    assert list(frame) == ["a", "b"]


def test_codecs_of_labels_with_levels() -> None:
    data = pd.DataFrame({("a", "x"): np.arange(9), ("b", "y"): np.arange(9)})
    assert data.fsst.compress(codecs={("a", "x"): "raw"}).codecs.tolist() == ["raw", "gfc"]
    with pytest.raises(KeyError, match="'a'"):
        data.fsst.compress(codecs={"a": "raw"})
