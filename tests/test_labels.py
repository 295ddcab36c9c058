"""A column's name and index: exact in memory and from files; what a file cannot hold exactly is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import Any

import dateutil.tz
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
from column_cases import INDEXES, STR, words
from stored_file import save_column


def in_zone(zone) -> pd.Timestamp:
    return pd.Timestamp("2020-01-01 05:00", tz=zone)


# Indexes back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_exact_index(index: pd.Index, tmp_path: Path) -> None:
    series = pd.Series(["a", None, "ccc", "", "e", "f"], index=index, dtype="str")
    column = series.fsst.compress()
    pd.testing.assert_series_equal(column.decompress(), series)
    pd.testing.assert_series_equal(column[[4, 1, 1]], series.take([4, 1, 1]))
    pd.testing.assert_series_equal(column[1:5], series.iloc[1:5])
    column.save(tmp_path / "column")
    fresh.same_series(tmp_path / "column", series)


def test_range_in_multi_index(tmp_path: Path) -> None:
    """What ``set_index(append=True)`` makes; as a level, a range is stored as its integers."""
    index = pd.DataFrame({"k": ["a", "b"]}).set_index("k", append=True).index
    for series in (pd.Series(["x", None], index=index, dtype="str"), pd.Series([], index=index[:0], dtype="str")):
        series.fsst.compress().save(tmp_path / "column")
        fresh.same_series(tmp_path / "column", series)


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_index_without_rows(index: pd.Index, tmp_path: Path) -> None:
    series = pd.Series("a", index=index, dtype="str")[:0]
    if isinstance(index, pd.MultiIndex):  # labels that no row uses are not kept
        series.index = series.index.remove_unused_levels()
    series.fsst.compress().save(tmp_path / "column")
    fresh.same_series(tmp_path / "column", series)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("rows", [6, 0])
@pytest.mark.parametrize("loaded", [False, True])
def test_index_is_not_shared(index: pd.Index, rows: int, loaded: bool, tmp_path: Path) -> None:
    series = pd.Series("a", index=index, dtype="str")[:rows]
    names = list(index.names)
    column = series.fsst.compress()
    if loaded:
        column.save(tmp_path / "column")
        column = cudf_fsst.load(tmp_path / "column")
    copy, joined = column.copy(), cudf_fsst.concat([column])
    pieces: list[pd.Series] = []
    column.map_chunks(pieces.append)
    given = [column.index, copy.index, joined.index]
    for result in (
        column.decompress(),
        column.to_pandas(),
        column[:],
        column[::1],
        column[::-1],
        column[list(range(rows))],
        column.filter([True] * rows),
        *pieces,
        series,
    ):
        given.append(result.index)
    for labels in given:
        labels.names = [("new", number) for number in range(labels.nlevels)]
    for kept in (column, copy, joined):
        assert kept.index.names == names
        assert kept.decompress().index.names == names
    other = pd.Series("a", index=index, dtype="str")[:rows]
    other.fsst.compress().index.names = ["new"] * index.nlevels
    assert other.index.names == names


# Names in files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [None, "a", 5, 2.5, True, ("a", (1, None)), np.int64(3), pd.Timestamp("2020-01-01 05:00", tz="Europe/Paris")],
)
def test_saved_name(name, tmp_path: Path) -> None:
    pd.Series(["a"], name=name).fsst.compress().save(tmp_path / "column")
    assert cudf_fsst.load(tmp_path / "column").name == name


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (frozenset(), "frozenset"),
        (10**5000, "type int cannot be stored: .*digits"),
        (np.datetime64("2020", "ns"), "datetime64"),
        (Colour.RED, "Colour cannot be stored exactly"),
        (in_zone(dateutil.tz.gettz("Europe/Paris")), "No time zone"),
        (in_zone(dateutil.tz.tzutc()), "No time zone"),
        (in_zone(dateutil.tz.tzlocal()), "this machine's time zone"),
        (in_zone(timezone(timedelta(hours=2), "ours")), "No time zone"),
        (in_zone(timezone(timedelta(hours=2, seconds=3))), "type Timestamp cannot be stored"),
        (in_zone(timezone(timedelta(hours=2), "EST5EDT")), "Timestamp cannot be stored exactly"),
        (in_zone(timezone(timedelta(hours=-5), "EST5EDT")), "Timestamp cannot be stored exactly"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_name_that_cannot_be_saved(name, message: str, tmp_path: Path) -> None:
    column = pd.Series(["a"], name=name).fsst.compress()
    with pytest.raises(TypeError, match=message):
        column.save(tmp_path / "column")
    for series in (
        pd.Series(["a"], name=("x", (name,))),
        pd.Series(["a"], index=pd.RangeIndex(1, name=name)),
        pd.Series(["a"], index=pd.Index([5], name=(1, name))),
        pd.Series(["a"], index=pd.MultiIndex.from_arrays([[1], [2]], names=["x", name])),
    ):
        column = series.fsst.compress()
        with pytest.raises(TypeError, match=r"a name .*cannot be stored"):
            column.save(tmp_path / "column")
    assert list(tmp_path.iterdir()) == []


def test_name_without_utf8(tmp_path: Path) -> None:
    column = pd.Series(["a"], name="\ud800").fsst.compress()
    with pytest.raises(TypeError, match=r"the name '\\ud800' cannot be stored"):
        column.save(tmp_path / "column")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        in_zone("UTC"),
        in_zone("+02:00"),
        pd.Timestamp("2020-10-25 02:30+02:00").tz_convert("Europe/Paris"),
        pd.Timestamp("2020-10-25 02:30+01:00").tz_convert("Europe/Paris"),
        pd.Timestamp(1, unit="ns"),
        pd.Timestamp("2020").as_unit("s"),
    ],
    ids=str,
)
def test_saved_time_as_name(name: pd.Timestamp, tmp_path: Path) -> None:
    pd.Series(["a"], name=name).fsst.compress().save(tmp_path / "column")
    found = cudf_fsst.load(tmp_path / "column").name
    assert (found, repr(found), found.unit) == (name, repr(name), name.unit)


# Indexes in files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([1, "x"], dtype=object),
        pd.Index([1j, 2]),
        pd.MultiIndex(levels=[[2**60 + 1]], codes=[[0, -1]]),  # its column is of floats
        pd.Index([2**63, 0], dtype=object),
        pd.Index([2**70, 0], dtype=object),
        # Equal labels would come back, but of other types.
        pd.Index([1, None], dtype=object),
        pd.Index([1, 2.5], dtype=object),
        pd.Index([datetime(2020, 1, 1), datetime(2021, 1, 1)], dtype=object),
        pd.Index([np.int8(1), np.int8(2)], dtype=object),
        pd.Index([in_zone("UTC"), in_zone("Europe/Paris")], dtype=object),
        pd.date_range("2020", periods=2, tz=timezone(timedelta(hours=2), "ours")),
        pd.CategoricalIndex(pd.date_range("2020", periods=2, tz=timezone(timedelta(hours=2), "EST5EDT"))),
        pd.MultiIndex.from_arrays([pd.Index([1, 2.5], dtype=object), ["a", "b"]]),
        pd.CategoricalIndex(pd.Index([1, 2.5], dtype=object)),
    ],
    ids=[
        "mixed",
        "complex",
        "big_integers_with_missing",
        "2**63",
        "2**70",
        "integer_with_missing_object",
        "numbers",
        "datetimes",
        "numpy_integers",
        "zones",
        "named_offset",
        "categories_with_named_offset",
        "level_of_numbers",
        "categories_of_numbers",
    ],
)
def test_index_that_cannot_be_saved(index: pd.Index, tmp_path: Path) -> None:
    column = pd.Series(["a", "b"], index=index).fsst.compress()
    with pytest.raises(TypeError, match=r"cannot be stored(?!: \().*reset_index"):
        column.save(tmp_path / "column")
    assert list(tmp_path.iterdir()) == []


def test_levels_named_by_numbers(tmp_path: Path) -> None:
    """Which pandas takes for a level's number where another level has none of its own."""
    for names in ([1, 0], [1, "x"], [0, 0]):
        index = pd.MultiIndex.from_arrays([[5, 6], pd.Index(["a", "b"], dtype=object)], names=names)
        series = pd.Series(["x", None], index=index, dtype=STR)
        series.fsst.compress().save(tmp_path / "column")
        fresh.same_series(tmp_path / "column", series)
        mixed = pd.MultiIndex.from_arrays([[5, 6], pd.Index([1, 2.5], dtype=object)], names=names)
        with pytest.raises(TypeError, match="cannot be stored exactly"):
            pd.Series(["a", "b"], index=mixed).fsst.compress().save(tmp_path / "column")


def test_multi_index_is_named_with_its_dtypes(tmp_path: Path) -> None:
    index = pd.MultiIndex.from_arrays([pd.Index([1, 2.5], dtype=object), [1, 2]])
    with pytest.raises(TypeError, match=r"^a MultiIndex of dtypes object, int64 cannot be stored exactly"):
        pd.Series(["a", "b"], index=index).fsst.compress().save(tmp_path / "column")


@pytest.mark.parametrize(
    "labels",
    [[1, 2], [True, None], [date(2020, 1, 1), None], [in_zone("Europe/Paris"), None], [pd.Timedelta("1s"), None]],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_object_labels_keep_their_types(labels: list, tmp_path: Path) -> None:
    index = pd.Index(labels, dtype=object)
    pd.Series(["a", "b"], index=index).fsst.compress().save(tmp_path / "column")
    found = cudf_fsst.load(tmp_path / "column").index
    assert found.dtype == object
    assert list(map(repr, found)) == list(map(repr, labels))


@pytest.mark.parametrize("missing", [np.nan, pd.NA, pd.NaT], ids=repr)
def test_missing_labels_of_objects_become_none(missing, tmp_path: Path) -> None:
    index = pd.Index(["a", missing], dtype=object)
    pd.Series(["x", "y"], index=index).fsst.compress().save(tmp_path / "column")
    assert cudf_fsst.load(tmp_path / "column").index.tolist() == ["a", None]


@pytest.mark.parametrize(
    "freq",
    [
        pd.offsets.CustomBusinessDay(holidays=["2020-01-02"]),
        pd.offsets.DateOffset(months=1),
        pd.offsets.Easter(),
        pd.offsets.BusinessHour(start="10:00"),
    ],
    ids=repr,
)
def test_frequency_that_its_name_does_not_tell(freq: pd.offsets.BaseOffset, tmp_path: Path) -> None:
    """The dates survive, not the frequency."""
    index = pd.date_range("2020", periods=3, freq=freq)
    pd.Series(["a", "b", "c"], index=index).fsst.compress().save(tmp_path / "column")
    loaded = cudf_fsst.load(tmp_path / "column").index
    assert loaded.equals(index)
    assert loaded.freq is None


# Indexes of files are made when they are asked for -------------------------------------------------------------------


def with_index_stream(path: Path, series: pd.Series, stream: bytes) -> None:
    """A stored column with another IPC stream as its index."""
    from cudf_fsst.interop import schema

    column = series.fsst.compress()
    described, _ = schema.to_bytes(column.name, column.dtype, series.index)
    save_column(path, segments=column.segments, schema=described, index=stream)


def stream_of(*batches: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def peak_of_load(path: Path) -> int:
    """Bytes by which loading a file raises the most memory that a fresh process has had."""
    program = """
import sys
import cudf_fsst

def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

cudf_fsst.load(sys.argv[2])  # what that imports and compiles does not count
before = peak()
try:
    cudf_fsst.load(sys.argv[1])
except ValueError as error:
    assert "labels" in str(error), error
print(peak() - before)
"""
    small = path.with_name("small")
    pd.Series(["a", None], index=pd.Index([3, 4])).fsst.compress().save(small)
    folder = Path(cudf_fsst.__file__).parents[1]
    command = [sys.executable, "-c", program, str(path), str(small)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout)


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' account of a process' memory")
@pytest.mark.parametrize("kind", ["nulls", "compressed", "growing dictionary"])
def test_memory_of_load(kind: str, tmp_path: Path) -> None:
    """In proportion to the file, whatever index it says it has."""
    rows = 2**22 if kind == "compressed" else 3
    series = pd.Series([None] * rows, index=pd.Index([0]).repeat(rows), dtype="str")
    if kind == "nulls":
        batch = pa.record_batch([pa.nulls(2**29)], ["0"])
        with_index_stream(tmp_path / "column", series, stream_of(batch))
    elif kind == "compressed":
        batch = pa.record_batch([pa.array(np.zeros(rows, "i8"))], ["0"])
        with_index_stream(tmp_path / "column", series, stream_of(batch, compression="zstd"))
    else:
        # Each batch adds a word to the dictionary: all of them together would have rows**2 / 2 words.
        words = [f"{number:0100}" for number in range(1000)]
        dictionaries = [pa.array(words[: number + 1]) for number in range(1000)]
        batches = [
            pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([i], pa.int32()), d)], ["0"])
            for i, d in enumerate(dictionaries)
        ]
        series = pd.Series(["x"] * 1000, index=pd.Index(words))
        series.index = pd.CategoricalIndex(words)
        with_index_stream(tmp_path / "column", series, stream_of(*batches, emit_dictionary_deltas=True))
    size = (tmp_path / "column").stat().st_size
    assert size < 2**21
    assert peak_of_load(tmp_path / "column") < 2**23 + 4 * size
    if kind in ("compressed", "growing dictionary"):  # legal ones
        loaded = cudf_fsst.load(tmp_path / "column")
        assert len(loaded) == len(series)
        assert loaded.index.equals(series.index)


def test_a_compressed_index_of_far_more_bytes(tmp_path: Path) -> None:
    """A few kilobytes that would become 64 MiB are refused before they are made."""
    series = pd.Series(["x"], index=pd.Index(["a" * 2**26]))
    with_index_stream(
        tmp_path / "column", series, stream_of(pa.record_batch([series.index], ["0"]), compression="zstd")
    )
    assert (tmp_path / "column").stat().st_size < 2**14
    with pytest.raises(ValueError, match=r"buffers of 67108\d{3} bytes"):
        cudf_fsst.load(tmp_path / "column")


def test_a_compressed_index_that_cannot_be_read(tmp_path: Path) -> None:
    """Is found when it is asked for."""
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7] * 500, pa.int32()), ["a", "b"], safe=False)
    batch = pa.record_batch([bad], ["0"])
    series = pd.Series(["x"] * 1000, index=pd.CategoricalIndex(["a", "b"] * 500))
    with_index_stream(tmp_path / "column", series, stream_of(batch))
    with pytest.raises(ValueError, match="index cannot be read"):
        cudf_fsst.load(tmp_path / "column")
    with_index_stream(tmp_path / "column", series, stream_of(batch, compression="zstd"))
    loaded = cudf_fsst.load(tmp_path / "column")
    assert loaded[0] == "x"
    assert loaded.to_arrow().to_pylist() == ["x"] * 1000
    for ask in (lambda: loaded.index, loaded.decompress, lambda: loaded.save(tmp_path / "other")):
        with pytest.raises(ValueError, match="the stored index cannot be read"):
            ask()
    assert not (tmp_path / "other").exists()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_streams_of_others(index: pd.Index, compression: str | None, tmp_path: Path) -> None:
    """Of several batches, compressed or not."""
    if isinstance(index, pd.RangeIndex):
        return
    from cudf_fsst.interop import schema

    series = pd.Series(["a", None, "ccc", "", "e", "f"], index=index, dtype="str")
    _, stream = schema.to_bytes(None, STR, index)
    assert stream is not None
    with pa.ipc.open_stream(stream) as reader:
        batch = reader.read_all().combine_chunks().to_batches()[0]
    pieces = [batch.slice(0, 2), batch.slice(2, 0), batch.slice(2)]
    with_index_stream(tmp_path / "column", series, stream_of(*pieces, compression=compression))
    loaded = cudf_fsst.load(tmp_path / "column")
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(loaded)).decompress(), series)
    pd.testing.assert_series_equal(loaded[1:5], series.iloc[1:5])
    fresh.same_series(tmp_path / "column", series)
    loaded.save(tmp_path / "again")
    series.fsst.compress().save(tmp_path / "ours")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "ours").read_bytes()


def test_load_wants_as_many_labels_as_rows(tmp_path: Path) -> None:
    from cudf_fsst.interop import schema

    column = words(10).fsst.compress()
    described, index = schema.to_bytes("n", STR, pd.RangeIndex(11))
    save_column(tmp_path / "column", segments=column.segments, schema=described, index=index)
    with pytest.raises(ValueError, match="10 rows, but its stored index has 11 labels"):
        cudf_fsst.load(tmp_path / "column")
