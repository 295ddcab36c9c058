"""Layouts: Arrow, pandas and cuDF columns as buffers and back, and what a file says about a column.

cuDF's part runs on objects that only look like cuDF's, so the arithmetic on addresses is checked without a GPU;
test_column.py and test_column_device.py run it on real ones.
"""

from __future__ import annotations

import datetime as dt
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from checker import rows_of, sliced, strings_of
from cudf_fsst.buffers import DeviceStrings
from cudf_fsst.interop import arrow, cudf, cudf_columns, indexes, pandas, schema

ROWS = [b"a", None, b"", b"ccc", "ü".encode(), None, b"x" * 40]
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def as_python(rows: list[bytes | None], arrow_type: Any) -> list[Any]:
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return rows
    return [None if row is None else row.decode() for row in rows]


class TestArrow:
    @pytest.mark.parametrize("arrow_type", TYPES, ids=str)
    def test_from_arrow(self, arrow_type) -> None:
        array = pa.array(as_python(ROWS, arrow_type), arrow_type)
        for start in range(len(ROWS) + 1):
            for stop in range(start, len(ROWS) + 1):
                strings = arrow.from_arrow(array[start:stop])
                assert rows_of(strings) == ROWS[start:stop]
                assert strings.null_count == ROWS[start:stop].count(None)

    def test_is_a_view(self) -> None:
        array = pa.array(["abc", None, "d"] * 100)[7:]
        strings = arrow.from_arrow(array)
        validity, offsets, chars = array.buffers()
        assert strings.chars.ctypes.data == chars.address
        assert strings.offsets.ctypes.data == offsets.address + 4 * 7
        assert strings.validity.ctypes.data == validity.address
        assert strings.validity_offset == 7

    def test_keeps_buffers_alive(self) -> None:
        strings = arrow.from_arrow(pa.array(["abc", None, "d"] * 1000))
        pa.array(["zzz"] * 3000)
        assert rows_of(strings) == [b"abc", None, b"d"] * 1000

    @pytest.mark.parametrize("arrow_type", TYPES, ids=str)
    def test_chunks(self, arrow_type, monkeypatch) -> None:
        rows = as_python(ROWS, arrow_type)
        chunked = pa.chunked_array([rows[:3], [], rows[2:5], rows], arrow_type)
        expected = ROWS[:3] + ROWS[2:5] + ROWS
        assert rows_of(arrow.from_arrow(chunked)) == expected
        assert rows_of(arrow.from_arrow(pa.chunked_array([rows], arrow_type))) == ROWS
        assert rows_of(arrow.from_arrow(pa.chunked_array([], arrow_type))) == []
        monkeypatch.setattr(arrow, "LARGE", 20)
        strings = arrow.from_arrow(chunked)
        assert strings.offsets.dtype == np.int64
        assert rows_of(strings) == expected

    def test_empty_array_without_offsets(self) -> None:
        array = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
        assert rows_of(arrow.from_arrow(array)) == []

    @pytest.mark.parametrize(
        "array", [pa.array([1]), pa.array(["a"]).dictionary_encode(), pa.nulls(2)], ids=lambda a: str(a.type)
    )
    def test_wrong_type(self, array) -> None:
        with pytest.raises(TypeError, match=r"got (int64|dictionary|null)"):
            arrow.from_arrow(array)

    @pytest.mark.parametrize("arrow_type", [None, pa.string(), pa.large_string()], ids=str)
    @pytest.mark.parametrize("offset_dtype", [np.int32, np.int64])
    def test_to_arrow(self, arrow_type, offset_dtype) -> None:
        strings = strings_of(ROWS, offset_dtype)
        for part in (strings, sliced(strings, 0, 0), sliced(strings, 1, 6), sliced(strings, 3, 5)):
            array = arrow.to_arrow(part, arrow_type)
            array.validate(full=True)
            assert array.type == (arrow_type or pa.string())
            assert rows_of(arrow.from_arrow(array)) == rows_of(part)
            assert array.null_count == part.null_count

    def test_more_than_offsets_can_say(self, monkeypatch) -> None:
        monkeypatch.setattr(arrow, "LARGE", 12)
        rows = [b"aaaa", b"bbbbb", b"cc", b"", None, b"dddddddd", b"eee", b"fffffffffff", None]
        strings = strings_of(rows, np.int64)
        assert arrow.to_arrow(strings).type == pa.large_string()
        chunked = arrow.to_arrow(strings, pa.string())
        chunked.validate(full=True)
        assert chunked.type == pa.string()
        assert chunked.to_pylist() == as_python(rows, pa.string())
        assert all(sum(map(len, filter(None, chunk.to_pylist()))) < 12 for chunk in chunked.chunks)
        with pytest.raises(pa.ArrowInvalid, match="row 1 is longer"):
            arrow.to_arrow(strings_of([b"a", b"b" * 12], np.int64), pa.string())


def buffers_of(series: pd.Series) -> Any:
    """Buffers of a Series of strings."""
    buffers, _, _ = pandas.describe(series, lenient=True)
    return buffers.strings


class TestPandas:
    @pytest.mark.parametrize(
        "dtype", ["str", "string", "object", pd.ArrowDtype(pa.string()), pd.StringDtype("python")], ids=str
    )
    def test_pieces_of_series(self, dtype) -> None:
        series = pd.Series(["a", None, "", "ccc"], dtype=dtype)
        for part, rows in (
            (series, [b"a", None, b"", b"ccc"]),
            (series[1:3], [None, b""]),
            (series[::-2], [b"ccc", None]),
            (pd.concat([series, series[3:]]), [b"a", None, b"", b"ccc", b"ccc"]),
            (series[:0], []),
        ):
            assert rows_of(buffers_of(part)) == rows

    def test_arrow_backed_is_a_view(self) -> None:
        series = pd.Series(["abc", "d"], dtype="str")
        chars = pa.array(series.array).buffers()[2]
        strings = buffers_of(series)
        assert strings.chars.ctypes.data == chars.address
        back = pandas.to_series(strings, series.dtype, None, series.index)
        assert pa.array(back.array).buffers()[2].address == chars.address

    def test_surrogates_are_refused(self) -> None:
        with pytest.raises(UnicodeEncodeError):
            buffers_of(pd.Series(["\ud800"], dtype=object))

    def test_long_arrow_string_column_comes_back_in_chunks(self, monkeypatch) -> None:
        monkeypatch.setattr(arrow, "LARGE", 10)
        series = pd.Series(["aaaa", "bbbb", "cccc", None, "dd"], dtype=pd.ArrowDtype(pa.string()))
        back = pandas.to_series(buffers_of(series), series.dtype, None, series.index)
        assert pa.array(back.array).num_chunks == 2
        pd.testing.assert_series_equal(back, series)


def index_of(notes: dict[str, Any], stream: bytes | None, rows: int) -> pd.Index:
    """The index of a file of version 1."""
    from cudf_fsst.files import columns
    from cudf_fsst.index import CompressedIndex

    return CompressedIndex(notes, rows, stream=columns.check_index(notes, stream, rows)).to_pandas()


class TestSchema:
    def test_other_readers_understand_it(self) -> None:
        index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", None])
        described, data = schema.to_bytes("comment", pd.StringDtype(na_value=np.nan), index)
        found = pa.ipc.read_schema(pa.py_buffer(described))
        assert found.names[0] == "comment"
        assert found.field(0).type == pa.large_string()
        assert found.pandas_metadata["columns"][0]["name"] == "comment"
        with pa.ipc.open_stream(data) as reader:
            assert reader.read_all().schema.remove_metadata() == pa.schema(list(found)[1:])

    def test_does_not_depend_on_library_versions(self) -> None:
        described, data = schema.to_bytes("comment", pd.StringDtype(na_value=np.nan), pd.Index(["a", "b"]))
        assert data is not None
        for blob in (described, data):
            assert b"version" not in blob
            assert b"creator" not in blob

    def test_range_is_three_numbers(self) -> None:
        described, data = schema.to_bytes(None, np.dtype(object), pd.RangeIndex(3, 10**12, 7, name="r"))
        assert data is None
        assert len(described) < 2000
        name, dtype, notes = schema.from_bytes(described)
        index = index_of(notes, data, len(range(3, 10**12, 7)))
        assert (name, dtype) == (None, np.dtype(object))
        assert isinstance(index, pd.RangeIndex)
        assert (index.start, index.stop, index.step, index.name) == (3, 10**12, 7, "r")

    def test_damage_is_a_value_error_or_another_label(self) -> None:
        index = pd.MultiIndex.from_arrays([["a", None, "c"], pd.Categorical([1, 2, 1])], names=["x", None])
        described, data = schema.to_bytes("comment", pd.StringDtype(na_value=np.nan), index)
        assert data is not None
        rng = np.random.default_rng(5)
        refused = 0
        for number in range(300):
            blobs = [bytearray(described), bytearray(data)]
            blob = blobs[number % 2]
            blob[rng.integers(len(blob))] ^= 1 << int(rng.integers(8))
            if number % 7 == 0:
                del blob[rng.integers(len(blob)) :]
            try:
                _, _, notes = schema.from_bytes(bytes(blobs[0]))
                assert len(index_of(notes, bytes(blobs[1]), 3)) == 3
            except ValueError:
                refused += 1
        assert refused > 100


# cuDF without a GPU -------------------------------------------------------------------------------------------------


@dataclass
class Span:
    """What pylibcudf calls a span, with cuDF's rule that an address is only good inside an access context."""

    address: int
    size: int = 1 << 20
    opened: int = 0

    @property
    def ptr(self) -> int:
        assert self.opened, "read outside of an access context: cuDF would never spill this buffer again"
        return self.address


@dataclass
class Column:
    """A pylibcudf column as far as interop looks at it."""

    rows: int
    spans: tuple[Span | None, Span | None] = (None, None)
    start: int = 0
    nulls: int = 0
    type_id: str = "STRING"
    children: list[Column] = field(default_factory=list)

    def size(self) -> int:
        return self.rows

    def offset(self) -> int:
        return self.start

    def null_count(self) -> int:
        return self.nulls

    def data(self) -> Span | None:
        return self.spans[0]

    def null_mask(self) -> Span | None:
        return self.spans[1]

    def num_children(self) -> int:
        return len(self.children)

    def child(self, number: int) -> Column:
        return self.children[number]

    def type(self) -> Any:
        return SimpleNamespace(id=lambda: self.type_id)

    @contextmanager
    def opened(self) -> Any:
        spans = [span for part in (self, *self.children) for span in part.spans if span is not None]
        for span in spans:
            span.opened += 1
        try:
            yield SimpleNamespace(plc_column=self)
        finally:
            for span in spans:
                span.opened -= 1


def strings_column(
    rows: int, *, start: int = 0, nulls: int = 0, wide: bool = False, child_start: int = 0, base: int = 0x1000
) -> Column:
    child = Column(10_000, (Span(base + 0x100), None), child_start, type_id="INT64" if wide else "INT32")
    return Column(rows, (Span(base), Span(base + 0x200)), start, nulls, children=[child])


class TestCudfAddresses:
    @pytest.fixture(autouse=True)
    def pylibcudf(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The one name that `describe` needs, where there is no pylibcudf."""
        module = ModuleType("pylibcudf")
        module.TypeId = SimpleNamespace(INT32="INT32", INT64="INT64")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pylibcudf", module)

    @pytest.mark.parametrize(("wide", "itemsize"), [(False, 4), (True, 8)])
    @pytest.mark.parametrize("start", [0, 7])
    @pytest.mark.parametrize("child_start", [0, 3])
    def test_slice(self, wide: bool, itemsize: int, start: int, child_start: int) -> None:
        column = strings_column(5, start=start, nulls=2, wide=wide, child_start=child_start)
        with column.opened():
            strings = cudf_columns.describe_strings(column)
            assert strings == DeviceStrings(
                rows=5,
                chars=0x1000,  # never moved by the slice
                offsets=0x1100 + (start + child_start) * itemsize,
                offsets_itemsize=itemsize,
                validity=0x1200,
                validity_offset=start,
                null_count=2,
                owners=strings.owners,
            )

    @pytest.mark.parametrize(("rows", "limit"), [(9_999, 1 << 20), (9_998, None)])
    def test_limit_of_characters(self, rows: int, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
        """The buffer's size, unless rows of it may belong to others, and they may be many."""
        column = strings_column(rows)
        with column.opened():
            assert cudf_columns.describe_strings(column).chars_limit == 1 << 20
            monkeypatch.setattr(cudf_columns, "_FEW_CHARS", (1 << 20) - 1)
            assert cudf_columns.describe_strings(column).chars_limit == limit

    def test_mask_without_nulls_is_left_out(self) -> None:
        column = strings_column(5, start=2)
        with column.opened():
            strings = cudf_columns.describe_strings(column)
        assert (strings.validity, strings.validity_offset, strings.null_count) == (0, 0, 0)

    def test_no_rows_no_children(self) -> None:
        strings = cudf_columns.describe_strings(Column(0))
        assert (strings.rows, strings.chars, strings.offsets, strings.validity) == (0, 0, 0, 0)

    def test_no_characters(self) -> None:
        column = strings_column(3)
        column.spans = (None, None)
        with column.opened():
            strings = cudf_columns.describe_strings(column)
        assert (strings.rows, strings.chars, strings.offsets) == (3, 0, 0x1100)

    def test_characters_under_nulls_are_dropped_by_cudf(self, monkeypatch: pytest.MonkeyPatch) -> None:
        filled, column = strings_column(5, base=0x9000), strings_column(5, start=7, nulls=2)
        plc: Any = sys.modules["pylibcudf"]
        plc.replace = SimpleNamespace(replace_nulls=lambda found, _: filled if found is column else None)
        plc.Scalar, plc.DataType = SimpleNamespace(from_py=lambda *_: None), lambda kind: kind
        plc.TypeId.STRING = "STRING"
        with column.opened(), filled.opened():
            strings = cudf_columns.describe_without_null_chars(column)
            assert (strings.chars, strings.offsets) == (0x9000, 0x9100)
            assert (strings.validity, strings.validity_offset, strings.null_count) == (0x1200, 7, 2)
            assert filled in strings.owners
        plain = strings_column(5)
        with plain.opened():
            assert cudf_columns.describe_without_null_chars(plain).chars == 0x1000  # no nulls, no copy


def test_characters_under_nulls_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudf_fsst.backend import DeviceBackend
    from cudf_fsst.buffers import CharactersUnderNulls

    tried = []

    def compress(*_: Any, drop_null_chars: bool = False) -> Any:
        tried.append(drop_null_chars)
        if not drop_null_chars:
            raise CharactersUnderNulls("5 characters under nulls")
        return [], None

    device = object.__new__(DeviceBackend)
    monkeypatch.setattr(device, "_compress", compress, raising=False)
    assert device.compress([]) == ([], None)
    assert tried == [False, True]


def test_what_cudf_has_of_arrow_types() -> None:
    """Of days times, of large lists lists, wherever they are; the rest as it is, and names and nullability, too."""
    field = pa.field("d", pa.date32(), nullable=False)
    deep = pa.large_list(pa.struct([field, pa.field("l", pa.list_(pa.date64()))]))
    time = field.with_type(pa.timestamp("s"))
    wanted = pa.list_(pa.struct([time, pa.field("l", pa.list_(pa.timestamp("ms")))]))
    assert cudf_columns.in_cudf(deep) == wanted
    for same in (pa.int8(), pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.struct([("a", pa.bool_())])):
        assert cudf_columns.in_cudf(same) == same


def test_missing_gpu_stack_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import cudf_fsst  # noqa: F401  # registers the accessor

    monkeypatch.setitem(sys.modules, "cudf", None)
    column = pd.Series(["a"]).fsst.compress()
    for move in (column.to_device, column.to_cudf):
        with pytest.raises(ImportError, match=r"pip install '\.\[cuda12\]' \(or '\.\[cuda13\]'\)"):
            move()


class Proxy:
    """A cudf.pandas proxy as far as `unwrap_proxy` looks at it."""

    def __init__(self, gpu: Any, cpu: Any) -> None:
        self.gpu, self.cpu = gpu, cpu

    def as_gpu_object(self) -> Any:
        if self.gpu is None:
            raise TypeError("cuDF cannot hold this")
        return self.gpu

    def as_cpu_object(self) -> Any:
        return self.cpu


def test_proxies_are_unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cudf.unwrap_proxy("data") == ("data", False)
    accelerator = ModuleType("cudf.pandas")
    accelerator.is_proxy_object = lambda data: isinstance(data, Proxy)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cudf.pandas", accelerator)
    assert cudf.unwrap_proxy("data") == ("data", False)
    assert cudf.unwrap_proxy(Proxy("on GPU", "on CPU")) == ("on GPU", True)
    assert cudf.unwrap_proxy(Proxy(None, "on CPU")) == ("on CPU", True)


ODD_LABELS = [
    ([Decimal("-0.0"), Decimal(1)], "exactly"),
    ([Decimal("1.250"), Decimal("2.5")], "exactly"),
    ([Decimal("1E+3"), None], "exactly"),
    ([dt.time(1, fold=1), dt.time(2)], "exactly"),
    ([Decimal("Infinity"), Decimal(1)], r"Arrow has no Decimal\('Infinity'\)"),
    ([Decimal("sNaN"), Decimal(1)], r"Arrow has no Decimal\('sNaN'\)"),
]


@pytest.mark.parametrize(("labels", "why"), ODD_LABELS, ids=str)
@pytest.mark.parametrize("kind", ["index", "categories", "level"])
def test_labels_that_are_equal_to_others(labels: list[Any], why: str, kind: str) -> None:
    index = pd.Index(labels, dtype=object)
    if kind != "index":
        if "sNaN" in why:
            pytest.skip("pandas makes no such index")
        index = pd.CategoricalIndex(index) if kind == "categories" else pd.MultiIndex.from_arrays([index, [1, 2]])
    with pytest.raises(TypeError, match=f"cannot be stored.*{why}.*reset_index"):
        schema.to_bytes("who", pd.Series([], dtype="str").dtype, index)
    with pytest.raises(TypeError, match=f"cannot be stored.*{why}.*reset_index"):
        indexes.describe_index(index)


def test_decimals_as_labels() -> None:
    labels = [Decimal("-1.50"), Decimal("0.00"), None]
    described, data = schema.to_bytes("who", pd.Series([], dtype="str").dtype, pd.Index(labels, dtype=object))
    found = index_of(schema.from_bytes(described)[2], data, 3)
    assert list(map(repr, found)) == list(map(repr, labels))


def test_out_of_memory_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    index = pd.Index(["a", "b"], name="n")
    stored, labels = schema.to_bytes("who", pd.Series([], dtype="str").dtype, index)

    def fail(*_: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(indexes, "assemble_index", fail)
    with pytest.raises(MemoryError, match="no more"):
        index_of(schema.from_bytes(stored)[2], labels, 2)
    with pytest.raises(MemoryError, match="no more"):
        schema.to_bytes("who", pd.Series([], dtype="str").dtype, index)


def test_labels_that_pandas_cannot_compare() -> None:
    labels = pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(["a", "b"], pa.string_view())])))
    for write in (
        indexes.describe_index,
        lambda index: schema.to_bytes("who", pd.Series([], dtype="str").dtype, index),
    ):
        with pytest.raises(TypeError, match=r"string_view\[pyarrow\] cannot be stored: .*reset_index"):
            write(labels)
