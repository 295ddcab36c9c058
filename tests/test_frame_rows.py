"""Rows of frames and of columns of every dtype, against pandas; frames put together."""

from __future__ import annotations

import datetime
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
from cudf_fsst.backend import HostBackend
from frame_cases import COLUMNS, ROWS, same, whole

#: Ways to say rows, of a frame of `ROWS`, by position.
KEYS = {
    "first": slice(5),
    "middle": slice(17, 290),
    "none": slice(7, 7),
    "steps": slice(3, 280, 7),
    "backwards": slice(None, None, -1),
    "last": slice(-9, None),
    "numbers": [5, -1, 5, 0, ROWS - 1],
    "array": np.arange(ROWS)[::-3],
    "mask": np.arange(ROWS) % 5 == 1,
    "no mask": np.zeros(ROWS, bool),
    "no numbers": [],
}
#: Indexes of a frame.
INDEXES: dict[str, Any] = {
    "range": pd.RangeIndex(10, 10 + 3 * ROWS, 3, name="r"),
    "numbers": pd.Index(np.arange(ROWS)[::-1] * 7),
    "nulls": pd.Index([None if i == 4 else i for i in range(ROWS)], dtype="Int64"),
    "texts": pd.Index([f"row {i}" for i in range(ROWS)], name=("a", 1)),
    "hours": pd.date_range("2020", periods=ROWS, freq="h"),
    "categories": pd.CategoricalIndex([f"c{i % 7}" for i in range(ROWS)]),
    "levels": pd.MultiIndex.from_arrays([np.arange(ROWS) // 9, [f"x{i}" for i in range(ROWS)]], names=["a", None]),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_rows_of_all_dtypes(key: Any) -> None:
    data = whole()
    same(data.fsst.compress().iloc[key], data.iloc[key])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_labels_of_rows(index: Any) -> None:
    data = whole()[["int8", "str"]].set_axis(index)
    frame, column = data.fsst.compress(), data["int8"].fsst.compress()
    for name, key in KEYS.items():
        pd.testing.assert_frame_equal(frame.iloc[key], data.iloc[key], obj=name)
        pd.testing.assert_series_equal(column.iloc[key], data["int8"].iloc[key], obj=name)
        pd.testing.assert_series_equal(frame.column("str")[key], data["str"].iloc[key], obj=name)


SLICES = [slice(a, b, step) for a in (None, 0, 3, 20, -3) for b in (None, 0, 3, 1, -9) for step in (None, 1, 2, -1, -3)]


@pytest.mark.parametrize("labels", [pd.RangeIndex(10), pd.RangeIndex(5, 55, 5), pd.Index(list("abcdefghij"))], ids=str)
def test_labels_of_slices(labels: pd.Index) -> None:
    """Exactly those of pandas, where there are no rows, too."""
    series = pd.Series(np.arange(10), index=labels, name="a")
    for compressed, plain in ((series.fsst.compress(), series), (series.to_frame().fsst.compress(), series.to_frame())):
        for key in SLICES:
            pd.testing.assert_index_equal(compressed.iloc[key].index, plain.iloc[key].index, exact=True)
            assert getattr(compressed.iloc[key].index, "stop", 0) == getattr(plain.iloc[key].index, "stop", 0)
        for n in (0, 3, 30, -3, -30):
            for found, wanted in ((compressed.head(n), plain.head(n)), (compressed.tail(n), plain.tail(n))):
                pd.testing.assert_index_equal(found.index, wanted.index, exact=True)
                assert getattr(found.index, "start", 0) == getattr(wanted.index, "start", 0)


@pytest.mark.parametrize("labels", [["a", "b"], ["a", None], [b"a", b"b"], [None, None]], ids=str)
def test_an_index_of_objects(labels: list[Any]) -> None:
    """It stays one in pieces; put together, it is what pandas makes of it."""
    index = pd.Index(labels * 2000, dtype=object, name="key")
    frame = pd.DataFrame({"a": np.arange(4000), "b": np.arange(4000.0)}, index=index)
    compressed = frame.fsst.compress()
    for some, plain in (
        (compressed, frame),
        (compressed.column("a"), frame["a"]),
        (frame["a"].fsst.compress(), frame["a"]),
    ):
        found = some.map_chunks(lambda piece: piece.isna(), chunk_bytes=9000)
        (pd.testing.assert_frame_equal if plain is frame else pd.testing.assert_series_equal)(found, plain.isna())
    short = frame[:6]
    for pieces in ([short], [short, short], [short[:0], short], [short[:0], short[:0]]):
        joined = cudf_fsst.concat([piece.fsst.compress() for piece in pieces])
        pd.testing.assert_frame_equal(joined.decompress(), pd.concat(pieces))
        pd.testing.assert_series_equal(joined.column("a").decompress(), pd.concat(pieces)["a"])
        joined = cudf_fsst.concat([piece["a"].fsst.compress() for piece in pieces])
        pd.testing.assert_series_equal(joined.decompress(), pd.concat([piece["a"] for piece in pieces]))


def test_masks_and_numbers() -> None:
    data = whole()
    frame = data.fsst.compress()
    mask = pd.Series(np.arange(ROWS) % 3 == 0, index=data.index[::-1])  # by position, whatever its labels
    for one in (mask, mask.to_numpy(), mask.tolist(), mask.astype("boolean"), pd.Index(mask)):
        for found in (frame[one], frame.filter(one)):
            same(found, data[mask.to_numpy()])
    missing = pd.array([True, None, False] * ROWS, dtype="boolean")[:ROWS]
    same(frame[pd.Index(missing)], data[missing.fillna(False).to_numpy()])
    same(frame.take([4, -2]), data.take([4, -2]))
    same(frame.head(), data.head())
    same(frame.tail(3), data.tail(3))
    same(frame.head(-ROWS + 2), data.head(-ROWS + 2))
    same(frame.tail(-ROWS + 2), data.tail(-ROWS + 2))
    for wrong, error in ((slice(3), TypeError), ([True, False], IndexError), ("nobody", KeyError)):
        with pytest.raises(error):
            frame[wrong]
    for wrong in ([ROWS], [-ROWS - 1], ROWS):
        with pytest.raises(IndexError, match=f"of {ROWS} rows"):
            frame.iloc[wrong]
    with pytest.raises(TypeError, match="rows are selected by position"):
        frame.iloc["int8"]
    with pytest.raises(IndexError, match="3 positions"):
        frame.iloc[1, 2, 3]


def test_positions_of_columns() -> None:
    data = whole()[["int8", "str", "float32"]]
    frame = data.fsst.compress()
    same(frame.iloc[3:9, [2, 0]], data.iloc[3:9, [2, 0]])
    same(frame.iloc[[5, 1], 1:], data.iloc[[5, 1], 1:])
    same(frame.iloc[:, :2], data.iloc[:, :2])
    same(frame.iloc[4:6, [True, False, True]], data.iloc[4:6, [True, False, True]])
    pd.testing.assert_series_equal(frame.iloc[:, 1], data.iloc[:, 1])
    pd.testing.assert_series_equal(frame.iloc[2:5, -1], data.iloc[2:5, -1])
    assert frame.iloc[7, 1] == data.iloc[7, 1]
    pd.testing.assert_series_equal(frame.iloc[7], data.iloc[7])
    for key in (None, True, np.False_):
        with pytest.raises(TypeError, match="columns are chosen by positions, not by"):
            frame.iloc[3, key]
    assert frame.column_at(np.int64(-1)).name == "float32"
    for place in (3, -4):
        with pytest.raises(IndexError, match=f"column {place} of a frame of 3 columns"):
            frame.column_at(place)
    for odd in ("str", slice(0, 1)):
        with pytest.raises(TypeError, match="integer"):
            frame.column_at(odd)
    with pytest.raises(ValueError, match="truth value of a frame"):
        bool(frame)


def test_values_of_columns() -> None:
    for name, make in COLUMNS.items():
        series = make()
        column = series.to_frame("n").fsst.compress().column("n")
        for row in (0, 3, -1):
            wanted = series.iloc[row]
            assert repr(column[row]) == repr(wanted), name


# What frames and columns can be asked -------------------------------------------------------------------------------


def test_rows_without_missing_values_are_found_by_the_null_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pd.DataFrame({"text": ["a", None, "b"], "n": [1, 2, 3], "x": [1.5, 2.5, np.nan]}, index=list("pqr"))
    data["day"] = [datetime.date(2026, 1, 1), None, None]
    data["paid"] = [Decimal("1.50"), Decimal("2.25"), None]
    frame = data.fsst.compress()
    calls: list[dict[str, Any]] = [{}, {"how": "all"}, {"thresh": 3}, {"ignore_index": True}]
    for given in [*calls, {"subset": "text"}, {"subset": ["x", "n"]}, {"subset": ["n"]}]:
        pd.testing.assert_frame_equal(frame.dropna(**given), data.dropna(**given))
    pd.testing.assert_frame_equal(frame.notna(), data.notna())
    some = data.drop(columns="x").reset_index(drop=True)
    frame = some.fsst.compress()
    monkeypatch.setattr(type(frame._backend), "read", lambda *_, **__: pytest.fail("values were decoded"))
    pd.testing.assert_frame_equal(frame.isna(), some.isna())


def test_missing_values_and_sizes() -> None:
    data = whole()
    frame = data.fsst.compress()
    pd.testing.assert_frame_equal(frame.isna(), data.isna())
    pd.testing.assert_frame_equal(frame.notna(), data.notna())
    pd.testing.assert_series_equal(frame.column("str").isna(), data["str"].isna())
    assert frame.null_count["str"] == frame.column("str").null_count == data["str"].isna().sum()
    used = frame.memory_usage()
    assert used.sum() == frame.nbytes
    assert used["Index"] + frame.memory_usage(index=False).sum() == frame.nbytes
    assert frame.column("str").memory_usage(index=False) == used["str"]
    assert sys.getsizeof(frame) > frame.nbytes
    assert frame.shape == data.shape
    assert frame.column("str").shape == (ROWS,)


def test_equals() -> None:
    data = whole()
    frame, again = data.fsst.compress(), pickle.loads(pickle.dumps(data.fsst.compress(level="max")))
    assert frame.equals(again)
    assert frame.column("str").equals(data["str"].fsst.compress())
    other = data.copy()
    other.loc[other.index[250], "int8"] += 1
    assert not frame.equals(other.fsst.compress())
    assert not frame.equals(data.rename(columns={"int8": "eight"}).fsst.compress())
    assert not frame.equals(data.set_axis(data.index[::-1]).fsst.compress())
    assert not frame.column("int8").equals(other.fsst.compress().column("int8"))
    assert not frame.equals(data)
    with pytest.raises(TypeError, match="cannot be compared with =="):
        frame == frame  # noqa: B015
    with pytest.raises(TypeError, match="cannot be compared with =="):
        frame != 3  # noqa: B015
    with pytest.raises(TypeError):
        np.arange(3) == frame  # noqa: B015
    for one in (frame, frame.column("str")):
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)


def test_columns_that_are_the_same_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those that may have a NaN, which pandas compares by dtype."""
    data = whole()[["int8", "str", "float64 with nan and inf"]]
    frame, again = data.fsst.compress(), data.fsst.compress()
    read: list[int] = []
    plain = HostBackend.read

    def counted(self: HostBackend, nodes: Any, *rows: Any, **how: Any) -> Any:
        read.append(len(nodes))
        return plain(self, nodes, *rows, **how)

    monkeypatch.setattr(HostBackend, "read", counted)
    for other, columns in ((frame, 1), (frame.copy(), 1), (again, 1)):
        read.clear()
        assert frame.equals(other)
        assert set(read) == {columns}
    read.clear()
    some = frame[["int8", "str"]]
    assert some.equals(some.copy())
    assert some.column("str").equals(frame.column("str"))
    assert not some.equals(frame)
    assert not some.equals(frame[["str", "int8"]])
    assert not read


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_view(pa.float64())], ids=str)
def test_lists_with_a_nan_differ_from_themselves_as_for_pandas(kind: Any) -> None:
    data = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([[1.0, float("nan")]], kind)))
    column = data.fsst.compress()
    assert not data.equals(data.copy())
    assert not column.equals(column)


def test_map_chunks() -> None:
    data = pd.concat([whole()[["int8", "str", "float32"]]] * 9)
    frame = data.fsst.compress()
    sizes = frame.map_chunks(len, chunk_bytes=frame.uncompressed_nbytes // 3)
    assert len(sizes) > 1
    assert sum(sizes) == len(data)
    pd.testing.assert_frame_equal(frame.map_chunks(lambda piece: piece[["str"]], chunk_bytes=1), data[["str"]])
    pd.testing.assert_series_equal(frame.map_chunks(lambda piece: piece["float32"] * 2), data["float32"] * 2)
    pd.testing.assert_series_equal(frame.column("int8").map_chunks(lambda s: s + 1, chunk_bytes=1), data["int8"] + 1)
    assert frame.iloc[:0].fsst.compress().map_chunks(len) == [0]
    with pytest.raises(ValueError, match="chunk_bytes must be positive"):
        frame.map_chunks(len, chunk_bytes=0)


# Put together -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("cuts", [[8, 64], [1, 14, 14, 77], [255, 256]], ids=str)
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_concat(cuts: list[int], index: Any, tmp_path: Path) -> None:
    # Arrow's type of such objects is what a piece of them needs.
    data = whole().drop(columns=["object of decimals", "object of lists", "object of dicts"]).set_axis(index)
    pieces = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, ROWS], strict=True)]
    frames = [piece.fsst.compress() for piece in pieces]
    joined, wanted = cudf_fsst.concat(frames), pd.concat(pieces)
    same(joined.decompress(), wanted)
    same(joined[wanted["int8"] > 3], wanted[wanted["int8"] > 3])
    same(joined.iloc[5:200], wanted.iloc[5:200])
    shared = {id(part) for frame in frames for column in frame._columns for part in column.node.parts}
    (numbers,) = joined[["int8"]]._columns
    assert all(id(part) in shared for parts in numbers.node.values for part in parts)
    joined.save(tmp_path / "frame")
    fresh.same_frame(tmp_path / "frame", joined.decompress())
    compressor = cudf_fsst.Compressor()
    for piece in pieces:
        compressor.append(piece)
    assert compressor.finish().equals(joined)
    assert cudf_fsst.concat([joined]).equals(joined)


def test_concat_of_several_codecs(tmp_path: Path) -> None:
    """A file has one codec for a stream, so what differs is encoded again when it is written."""
    noise = pd.DataFrame({"a": np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 999)})
    plain = pd.DataFrame({"a": np.arange(999)})
    joined = cudf_fsst.concat([noise.fsst.compress(), plain.fsst.compress(), noise.fsst.compress()])
    wanted = pd.concat([noise, plain, noise])
    pd.testing.assert_frame_equal(joined.decompress(), wanted)
    joined.save(tmp_path / "frame")
    fresh.same_frame(tmp_path / "frame", wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    "values",
    [["b", "a", "c"], [3, 1, 2], list(pd.interval_range(0, 3)), list(pd.date_range("2020", periods=3, tz="UTC"))],
    ids=["texts", "numbers", "intervals", "times"],
)
def test_concat_of_categories_in_another_order(values: list[Any], stored: bool, tmp_path: Path) -> None:
    """To pandas, dtypes of categories without an order are equal whichever way round these are."""
    one = pd.Series(pd.Categorical([values[0], values[1], None, values[2]], categories=values), name="x")
    other = pd.Series(pd.Categorical([values[0], None, *values], categories=values[::-1]), name="x")
    for pieces in ([one, other], [other, one, other], [one[:0], other], [one, other[:0]]):
        wanted = pd.concat(pieces)
        column = cudf_fsst.concat([piece.fsst.compress() for piece in pieces])
        frame = cudf_fsst.concat([piece.to_frame().fsst.compress() for piece in pieces])
        if stored:
            column.save(tmp_path / "column")
            column = cudf_fsst.CompressedColumn.load(tmp_path / "column")
        pd.testing.assert_series_equal(column.decompress(), wanted)
        pd.testing.assert_frame_equal(frame.decompress(), wanted.to_frame())


def test_concat_of_dictionaries_of_arrow() -> None:
    def series(texts: list[str], nested: bool) -> pd.Series:
        array = pa.array([*texts, None], pa.string()).dictionary_encode()
        if nested:
            array = pa.ListArray.from_arrays(pa.array([0, 1, len(array)], pa.int32()), array)
        return pd.Series(pd.arrays.ArrowExtensionArray(array))

    for nested in (False, True):
        pieces = [series(texts, nested) for texts in (["a", "b"], ["c", "a", "c"], [], ["a", "b"])]
        joined = cudf_fsst.concat([piece.fsst.compress() for piece in pieces]).decompress()
        assert pa.array(joined).to_pylist() == [value for piece in pieces for value in pa.array(piece).to_pylist()]

    arrays = [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), [f"{first}{i}" for i in range(100)])
        for first in "xy"
    ]
    with pytest.raises(TypeError, match=r"columns: dictionaries of dictionary<.* that cannot become one: "):
        cudf_fsst.concat([pd.Series(pd.arrays.ArrowExtensionArray(array)).fsst.compress() for array in arrays])


@pytest.mark.parametrize(
    "values",
    [[None, 1, None, 2], [None, True, None, False], [None, [1], None, [2]], [None, b"x", None, b""], [None, "x", None]],
    ids=["numbers", "booleans", "lists", "bytes", "texts"],
)
def test_concat_of_objects_of_which_pieces_have_none(values: list[Any], tmp_path: Path) -> None:
    data = pd.Series(values, dtype=object)
    for cuts in ([0, 0, 1, 2, 3], [1, 1], [2, 3], [3]):
        pieces = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        joined = cudf_fsst.concat([piece.fsst.compress() for piece in pieces])
        pd.testing.assert_series_equal(joined.decompress(), data)
        joined.save(tmp_path / "column")
        pd.testing.assert_series_equal(cudf_fsst.CompressedColumn.load(tmp_path / "column").decompress(), data)


def test_concat_of_labels_with_several_names() -> None:
    pieces = [pd.DataFrame([[1]], columns=pd.Index(["a"], name=name)) for name in ("n", "n", "m")]
    for some in (pieces, pieces[:2]):
        joined = cudf_fsst.concat([piece.fsst.compress() for piece in some])
        pd.testing.assert_frame_equal(joined.decompress(), pd.concat(some))


def test_types_without_a_codec_have_no_accessor() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    for values in (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), union):
        series = pd.Series(pd.arrays.ArrowExtensionArray(values))
        assert not hasattr(series, "fsst")
        with pytest.raises(AttributeError, match="cannot be compressed"):
            _ = series.fsst


def test_a_mask_that_is_an_array_of_pandas() -> None:
    data = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")})
    frame = data.fsst.compress()
    mask = pd.array([True, None, True], dtype="boolean")
    pd.testing.assert_frame_equal(frame[mask], data[mask])
    pd.testing.assert_frame_equal(frame[pd.array(["b"])].decompress(), data[["b"]])


def test_concat_refuses() -> None:
    data = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    frame = data.fsst.compress()
    with pytest.raises(TypeError, match="a list of columns or frames, not a CompressedFrame"):
        cudf_fsst.concat(frame)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="expected CompressedColumn or CompressedFrame objects, got DataFrame"):
        cudf_fsst.concat([data, frame])  # type: ignore[list-item]  # what is refused
    with pytest.raises(TypeError, match="expected CompressedFrame objects, got CompressedColumn"):
        cudf_fsst.concat([frame, frame.column("a")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="different columns"):
        cudf_fsst.concat([frame, frame[["b", "a"]]])
    with pytest.raises(TypeError, match="column 'a': frames have it of several dtypes, int64 and float64"):
        cudf_fsst.concat([frame, data.astype({"a": float}).fsst.compress()])
    with pytest.raises(TypeError, match="of several dtypes"):
        cudf_fsst.concat([pd.DataFrame({"c": pd.Categorical(list(text))}).fsst.compress() for text in ("ab", "cd")])


# Columns of other dtypes --------------------------------------------------------------------------------------------


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", COLUMNS)
def test_files_of_columns(name: str, tmp_path: Path) -> None:
    series = COLUMNS[name]().rename(("a", 1))
    column = series.to_frame("n").fsst.compress().column("n")
    column.save(tmp_path / "column")
    loaded = cudf_fsst.load(tmp_path / "column")
    assert isinstance(loaded, cudf_fsst.CompressedColumn)
    assert loaded.codec == column.codec
    same(loaded.decompress().to_frame(), column.decompress().to_frame())
    assert cudf_fsst.CompressedColumn.load(tmp_path / "column").equals(loaded)


def test_a_codec_of_its_own() -> None:
    series = pd.Series(np.arange(5000) % 7)
    for codec in ("bitpack", "gfc", "gpulz", "raw"):
        column = series.fsst.compress(codec=codec)
        assert column.codec == codec
        pd.testing.assert_series_equal(column.decompress(), series)
    for codec, message in (("fsst", "takes strings, not int64"), ("zip", "codec must be one of")):
        with pytest.raises(ValueError, match=message):
            series.fsst.compress(codec=codec)
    array = pa.array([1, None, 3])
    assert array.equals(pa.array(pd.Series(array.to_pandas(), dtype="Int64").fsst.compress()))


def test_pieces_of_several_arrow_types_are_refused_at_once() -> None:
    compressor = cudf_fsst.Compressor()
    compressor.append(pd.Series([None, None], dtype=object))
    compressor.append(pd.Series([[1], None], dtype=object))
    with pytest.raises(TypeError, match=r"Arrow type list<.*>, this one is (large_)?string"):
        compressor.append(pd.Series(["a"], dtype=object))
    assert len(compressor.finish()) == 4


def test_everything_is_done_on_the_device_of_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDF works on the current one, whatever its data is on."""
    frame = whole()[["int8", "str"]].fsst.compress()
    current: list[str] = []

    @contextmanager
    def on_device() -> Iterator[None]:
        current.append("the frame's")
        yield
        current.pop()

    def same_there(one: Any, other: Any) -> bool:
        assert current
        return bool(one.equals(other))

    def length(piece: Any) -> int:
        assert current
        return len(piece)

    for one in (frame, frame.column("int8")):
        monkeypatch.setattr(one._backend, "current", on_device)
        monkeypatch.setattr("cudf_fsst.interop.pandas.same", same_there)
        assert sum(one.map_chunks(length, chunk_bytes=1000)) == ROWS
        assert one.equals(one.copy())
        assert not current


def test_a_compressed_column_of_booleans_is_a_mask() -> None:
    data = pd.DataFrame({"flag": [True, False, True] * 100, "text": ["a", "b", "c"] * 100})
    frame = data.fsst.compress()
    pd.testing.assert_frame_equal(frame[frame.column("flag")], data[data["flag"]])
    with pytest.raises(TypeError, match="a mask must be one dimension of booleans"):
        frame[frame.column("text")]
