"""Indexes that pandas or version 1 of the format cannot say: kept exactly, on the way from a GPU and in files.

Stand-ins for cuDF's index hold Arrow columns, and a GPU's codecs are the host's; what is real is how a column keeps,
moves and stores such an index. test_column_device.py does it with cuDF.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
import reference_frame_reader
from column_cases import STR
from cudf_fsst import compressing as compressing_module
from cudf_fsst import index as index_module
from cudf_fsst import rows as rows_module
from cudf_fsst.backend import HostBackend
from cudf_fsst.codecs import host
from cudf_fsst.codecs.node import Content
from cudf_fsst.files import columns as files
from cudf_fsst.files import storage
from cudf_fsst.index import CompressedIndex
from cudf_fsst.interop import arrow_columns, schema
from cudf_fsst.interop import cudf as interop_cudf
from cudf_fsst.interop import labels as interop_labels
from cudf_fsst.interop import pandas as interop_pandas
from cudf_fsst.interop.names import decode_name, encode_name

BIG = 2**60 + 1
VALUES = ["a", None, "ccc", "d"]

# Columns with an index that only version 3 says ---------------------------------------------------------------------


def level(values: list[Any], kind: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def as_cudf_has_it(*levels: pa.ChunkedArray, names: list[Any] | None = None) -> CompressedIndex:
    """An index of such levels, as a column has it that came from a GPU."""
    made = [Content(host.HostCompressor(None, {}).node(arrow_columns.describe(one)), one.type, None) for one in levels]
    none: list[Any] = [None] * len(levels)
    notes = {"names": none, "multi": len(levels) > 1, "dtypes": none, "freqs": none}
    return CompressedIndex(notes, len(levels[0]), made, names=names)


def with_index(index: Any, values: list[str | None] = VALUES, name: Any = "n") -> cudf_fsst.CompressedColumn:
    plain = pd.Series(values, dtype=STR).fsst.compress()
    return cudf_fsst.CompressedColumn._make(plain._content, plain._backend, name, index, STR)


#: What cuDF has, and the same in pandas.
NULLS: dict[str, tuple[Any, pd.Index]] = {
    "int64": (as_cudf_has_it(level([1, None, BIG, -3], pa.int64())), pd.Index([1, None, BIG, -3], dtype="Int64")),
    "uint8": (as_cudf_has_it(level([1, None, 0, 255], pa.uint8())), pd.Index([1, None, 0, 255], dtype="UInt8")),
    "bool": (
        as_cudf_has_it(level([True, None, None, False], pa.bool_())),
        pd.Index([1, None, None, 0], dtype="boolean"),
    ),
    "levels": (
        as_cudf_has_it(level([1, None, BIG, 1], pa.int64()), level(list("abca"), pa.string()), names=["x", ("y", 2)]),
        pd.MultiIndex.from_arrays([pd.Index([1, None, BIG, 1], dtype="Int64"), list("abca")], names=["x", ("y", 2)]),
    ),
}


@pytest.mark.parametrize("kind", NULLS)
def test_integers_with_missing_labels(kind: str, tmp_path: Path) -> None:
    """Never through floats, which have no 2**60 + 1."""
    index, wanted = NULLS[kind]
    column = with_index(index, VALUES[: len(wanted)])
    series = pd.Series(VALUES[: len(wanted)], index=wanted, name="n", dtype=STR)
    for one in (column, column.copy(), pickle.loads(pickle.dumps(column)), column.to_host()):
        pd.testing.assert_series_equal(one.decompress(), series)
        pd.testing.assert_series_equal(one.to_pandas(), series)
        pd.testing.assert_series_equal(one[1:3], series.iloc[1:3])
        pd.testing.assert_series_equal(one[[2, 0]], series.iloc[[2, 0]])
        fresh.same_index(one.index, wanted)
    column.save(tmp_path / "column")
    assert storage.version_of(tmp_path / "column") == 3
    fresh.same_series(tmp_path / "column", series)
    loaded = cudf_fsst.load(tmp_path / "column")
    assert isinstance(loaded, cudf_fsst.CompressedColumn)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "column").read_bytes()
    stored, labels = (values for _, values in reference_frame_reader.read(tmp_path / "column")[:2])
    assert stored == VALUES[: len(wanted)]
    (first,) = HostBackend().read(index.nodes[:1])
    assert labels == interop_pandas.to_chunked(first, index.levels[0].type).to_pylist()


@pytest.mark.parametrize(
    "index",
    [
        pd.CategoricalIndex(pd.interval_range(0, 4), name="bin"),
        pd.CategoricalIndex(pd.period_range("2020", periods=4, freq="M")),
        pd.MultiIndex.from_arrays([pd.cut([1, 2, 3, 9], 3), ["a", "b", None, "d"]], names=["bin", 5]),
        pd.MultiIndex.from_arrays([pd.Categorical(pd.period_range("2020", periods=4, freq="D")), pd.RangeIndex(4)]),
    ],
    ids=["intervals", "periods", "level of intervals", "level of periods"],
)
@pytest.mark.parametrize("name", [None, "n", 5, ("a", (1, None)), pd.Timestamp("2020", tz="Europe/Paris")], ids=str)
def test_categories_that_only_frames_had(index: pd.Index, name: Any, tmp_path: Path) -> None:
    for part in (index, index[:0]):
        series = pd.Series(VALUES[: len(part)], index=part, name=name, dtype=STR)
        series.fsst.compress().save(tmp_path / "column")
        assert storage.version_of(tmp_path / "column") == 3
        fresh.same_series(tmp_path / "column", series)
        assert type(cudf_fsst.load(tmp_path / "column").name) is type(name)


@pytest.mark.parametrize("dtype", ["str", "string", "object", pd.ArrowDtype(pa.string()), pd.StringDtype("python")])
def test_dtypes_in_version_3(dtype: Any, tmp_path: Path) -> None:
    series = pd.Series(VALUES, index=pd.CategoricalIndex(pd.interval_range(0, 4)), dtype=dtype)
    series.fsst.compress().save(tmp_path / "column")
    fresh.same_series(tmp_path / "column", series)


@pytest.mark.parametrize("names", [[1, 0], ["k", 0], [("t", 1), 0], [True, False], [-1, 0], [None, 0], [1, 1]], ids=str)
def test_levels_that_are_named_by_numbers(names: list[Any], tmp_path: Path) -> None:
    """Names are no numbers of levels."""
    made = (
        [pd.date_range("2020", periods=4), list("uvuv")],
        [pd.Index([7, 8, 9, 7], dtype="int32"), pd.date_range("2020", periods=4, freq="D")],
    )
    for levels in made:
        index = pd.MultiIndex.from_arrays(levels, names=names)
        series = pd.Series(VALUES, index=index, dtype=STR)
        series.fsst.compress().save(tmp_path / "strings")
        fresh.same_series(tmp_path / "strings", series)
        numbers = pd.Series(range(4), index=index)
        numbers.fsst.compress().save(tmp_path / "numbers")
        fresh.same_series(tmp_path / "numbers", numbers)
        frame = pd.DataFrame({"a": range(4)}, index=index)
        frame.fsst.compress().save(tmp_path / "frame")
        fresh.same_frame(tmp_path / "frame", frame)


def test_frames_with_such_an_index(tmp_path: Path) -> None:
    """Which version 2 says; its columns may need version 3."""
    for name, (index, wanted) in NULLS.items():
        rows = len(wanted)
        plain = pd.DataFrame({"a": VALUES[:rows], "b": range(rows)}).fsst.compress()
        frame = cudf_fsst.CompressedFrame._make(plain._backend, plain._columns, plain._labels, index)
        data = pd.DataFrame({"a": VALUES[:rows], "b": range(rows)}, index=wanted)
        frame.save(tmp_path / name)
        assert storage.version_of(tmp_path / name) == 2
        fresh.same_frame(tmp_path / name, data)
        column = cudf_fsst.load(tmp_path / name).column("a")
        column.save(tmp_path / "column")
        assert storage.version_of(tmp_path / "column") == 3
        fresh.same_series(tmp_path / "column", data["a"])


# Hostile files ------------------------------------------------------------------------------------------------------


def saved_with(path: Path, labels: pd.Index, change: Any, *, codec: str = "raw", kind: Any = None) -> None:
    """A frame of version 3 with two columns and these labels, what it says changed by `change(notes)`."""
    from cudf_fsst.files import trees

    data = pd.DataFrame([[1, 2], [3, 4], [5, 6]]).fsst.compress()
    described, arrays = interop_labels.describe_labels(labels)
    made = host.HostCompressor(codec if codec != "auto" else None, {})
    nodes = [made.node(arrow_columns.describe(array)) for array in arrays]
    streams: list[Any] = []
    columns = [{"dtype": None, "tree": trees.describe(one.node, streams)} for one in data._columns]
    levels = [{"dtype": None, "tree": trees.describe(node, streams)} for node in nodes]
    index = {"names": [None], "range": [0, 3, 1]}
    notes = {"labels": described, "index": index, "rows": 3, "columns": columns, "levels": []}
    notes |= {"holds": "frame", "label_levels": levels}
    change(notes)
    fields = [("0", pa.int64()), ("1", pa.int64()), *(("label", kind or array.type) for array in arrays)]
    storage.save(path, streams=streams, schema=schema.frame_to_bytes(fields, notes), version=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"holds": "table"}, "holds 'table', not a frame or a column"),
        ({"holds": "column"}, "the file of a column holds 2"),
        ({"holds": None}, "holds None"),
        ({"label_levels": []}, "2 columns and levels for 3 fields"),
        ({"label_levels": None}, "schema cannot be read"),
        ({"labels": {"names": [None], "range": [0, 2, 1]}}, "1 levels of labels that have none"),
        ({"labels": {"names": [None], "range": [0, 2**63, 1]}}, f"{2**63} labels for 2 columns"),
        ({"labels": {"names": [None], "multi": False, "dtypes": [], "freqs": []}}, "labels cannot be read"),
        ({"labels": {"names": [None], "multi": True, "dtypes": [None] * 2, "freqs": [None]}}, "labels cannot be read"),
    ],
    ids=str,
)
def test_version_3_that_lies(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "frame"
    labels = pd.timedelta_range("1s", periods=2, name="k")
    saved_with(path, labels, lambda notes: None)
    fresh.same_index(cudf_fsst.load(path).columns, labels)
    saved_with(path, labels, lambda notes: notes.update(change))
    with pytest.raises(ValueError, match=message):
        cudf_fsst.load(path)


def test_a_column_of_version_3_that_lies(tmp_path: Path) -> None:
    data = pd.DataFrame({"a": [1, 2]}).fsst.compress()
    for labels, columns in ((["a", "b"], data._columns * 2), ([], ())):
        files.save(tmp_path / "column", "column", pd.Index(labels, dtype=object), columns, *data._index.described(), 2)
        with pytest.raises(ValueError, match=r"column: the file of a column holds (2|0)$"):
            cudf_fsst.load(tmp_path / "column")


def test_labels_of_other_rows(tmp_path: Path) -> None:
    for labels in (pd.timedelta_range("1s", periods=3), pd.timedelta_range("1s", periods=1)):
        saved_with(tmp_path / "frame", labels, lambda notes: None)
        with pytest.raises(ValueError, match=r"labels, level 0: \d rows for 2 columns"):
            cudf_fsst.load(tmp_path / "frame")


def test_labels_do_not_expand(tmp_path: Path) -> None:
    """Few bytes must not make many categories: not packed, and not of nulls."""
    labels = pd.CategoricalIndex([0, 1])
    saved_with(tmp_path / "frame", labels, lambda notes: None, codec="bitpack")
    with pytest.raises(ValueError, match="stream 2, of labels, is of codec bitpack, not raw or fsst"):
        cudf_fsst.load(tmp_path / "frame")

    def many(notes: dict[str, Any]) -> None:
        nothing = {"validity": None, "values": [], "strings": None, "children": []}
        child = nothing | {"rows": 2**40, "nulls": 2**40}
        notes["label_levels"][0]["tree"]["children"] = [child]

    labels = pd.CategoricalIndex([None, None], categories=[])
    nulls = pa.dictionary(pa.int8(), pa.null())
    saved_with(tmp_path / "frame", labels, lambda notes: None, kind=nulls)
    fresh.same_index(cudf_fsst.load(tmp_path / "frame").columns, labels)
    saved_with(tmp_path / "frame", labels, many, kind=nulls)
    with pytest.raises(ValueError, match=f"labels, level 0: {2**40} rows of null for 2 columns"):
        cudf_fsst.load(tmp_path / "frame")


def test_labels_with_categories_of_no_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One category may be empty; thousands would take no bytes in the file and many in memory."""
    described, _ = interop_labels.describe_labels(pd.CategoricalIndex(["a", "b"]))
    for categories, refused in ((["", "b"], False), (["", "b", *[""] * 998], True)):
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(categories))
        made = described, [pa.chunked_array([array])]
        monkeypatch.setattr(interop_labels, "describe_labels", lambda _, made=made: made)
        saved_with(tmp_path / "frame", pd.Index([]), lambda notes: None)
        if refused:
            with pytest.raises(ValueError, match="labels, level 0: 1000 rows of string for 2 columns"):
                cudf_fsst.load(tmp_path / "frame")
        else:
            assert list(cudf_fsst.load(tmp_path / "frame").columns) == categories


@pytest.mark.parametrize("categories", [False, True])
def test_labels_that_are_no_text(categories: bool, tmp_path: Path) -> None:
    """Labels are shown and compared, so bytes that are not UTF-8 are refused."""

    def change(notes: dict[str, Any]) -> None:
        notes["labels"]["dtypes"] = [{"kind": "arrow", "type": str(texts)}]

    labels = pa.array([b"a", b"\xff"], pa.binary())
    texts, codec = pa.string(), "auto"
    if categories:
        labels, texts, codec = labels.dictionary_encode(), pa.dictionary(pa.int32(), texts), "raw"
    index = pd.Index(pd.arrays.ArrowExtensionArray(labels))
    saved_with(tmp_path / "frame", index, change, codec=codec, kind=texts)
    with pytest.raises(ValueError, match=r"frame: the labels cannot be read: .*[Ii]nvalid UTF8"):
        cudf_fsst.load(tmp_path / "frame")


# From a GPU and back ------------------------------------------------------------------------------------------------


class Index:
    """A cudf.Index of one level: what it holds, and a name of its own."""

    nlevels = 1

    def __init__(self, column: pa.ChunkedArray, name: Any = None) -> None:
        self.column, self.name = column, name

    def copy(self, *, deep: bool) -> Index:
        assert not deep
        return Index(self.column, self.name)

    @property
    def names(self) -> list[Any]:
        return [self.name]

    @names.setter
    def names(self, values: list[Any]) -> None:
        [self.name] = values

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, key: slice) -> Index:
        return Index(self.column[key], self.name)


class Gpu(HostBackend):
    """The backend of a GPU whose memory is the host's."""

    device = "cuda:0"

    def __init__(self, device: str | None = None) -> None:
        self.interop = SimpleNamespace(
            view=interop_cudf.view,
            with_names=interop_cudf.with_names,
            labels=lambda data: (data.name, data.index),
            column_series=lambda values, kind, stored, dtype, name, index, nullable: SimpleNamespace(
                index=index, name=name
            ),
            build_index=self._build_index,
        )

    @staticmethod
    def _build_index(notes: Any, levels: Any) -> Index:
        [(buffers, kind, _)] = levels
        [name] = map(decode_name, notes["names"])
        return Index(interop_pandas.to_chunked(buffers, kind), name)

    def check_stream(self, stream: Any) -> None:
        del stream

    def current(self) -> Any:
        return nullcontext()

    def compress(self, asked: Any, index: Any = None, **options: Any) -> Any:
        notes = {"names": [encode_name(index.name)], "multi": False, "dtypes": [None], "freqs": [None]}
        node = host.HostCompressor(None, {}).node(arrow_columns.describe(index.column))
        return [one.data.content for one in asked], (notes, [Content(node, index.column.type, None)])

    def to_host(self, parts: Any, *, stream: Any = None) -> Any:
        return parts

    @contextmanager
    def leaving(self) -> Iterator[Any]:
        yield self.to_host, lambda _: None

    to_device = to_host


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cudf")
    module.RangeIndex = type("RangeIndex", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cudf", module)
    for module_of in (rows_module, index_module):
        monkeypatch.setattr(module_of, "DeviceBackend", Gpu)
    for module_of in (rows_module, compressing_module, index_module):
        # What is on the host is told by its class, which is the stand-in's base.
        monkeypatch.setattr(module_of, "HostBackend", Host)


class Host(HostBackend):
    """The backend of host memory."""


def on_gpu(index: Index) -> Any:
    """A Series on that GPU."""
    content = pd.Series(VALUES, dtype=STR).fsst.compress()._content
    return SimpleNamespace(index=index, name="n", content=content, dtype=STR)


def compress(data: Any, *, to_host: bool = False) -> cudf_fsst.CompressedColumn:
    return compressing_module.compress_checked(
        Gpu(), data, False, table=None, tile_size="auto", level="default", stream=None, to_host=to_host
    )


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", ["k", None, frozenset("k")], ids=str)
def test_from_a_gpu_and_back(name: Any, tmp_path: Path) -> None:
    labels = level([1, None, BIG, -3], pa.int64())
    column = compress(on_gpu(Index(labels, name)))
    wanted = pd.Series(VALUES, index=pd.Index([1, None, BIG, -3], dtype="Int64", name=name), name="n", dtype=STR)
    pd.testing.assert_series_equal(column.to_pandas(), wanted)
    there = column.to_host()
    pd.testing.assert_series_equal(there.decompress(), wanted)
    pickled = pickle.loads(pickle.dumps(column))
    assert pickled.device == "cuda:0"
    back = [there.to_device(), pickled]
    if not isinstance(name, frozenset):
        column.save(tmp_path / "column")
        fresh.same_series(tmp_path / "column", wanted)
        back.append(cudf_fsst.load(tmp_path / "column").to_device())
    for one in back:
        assert one.index.column.equals(labels)
        assert one.index.column.type == pa.int64()
        assert one.index.name == name


@pytest.mark.usefixtures("gpu")
def test_labels_of_a_gpu_are_not_shared() -> None:
    """cuDF hands out the very index of a Series; whoever gets one may rename it."""
    data = on_gpu(Index(level([1, 2, 3, 4], pa.int64()), "k"))
    column = compress(data)
    data.index.name = "theirs"
    copy = column.copy()
    for given in (column.index, copy.index, column.decompress().index, column[:].index, column[1:3].index):
        assert given.name == "k"
        given.name = "theirs"
    for kept in (column, copy, column.to_host(), column.to_host().to_device()):
        assert kept.index.name == "k"
