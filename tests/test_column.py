"""CompressedColumn: every path through the shared checker, sizes and facts, and all rows back in every form."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from checker import Case, CudfColumn, HostCodec, PandasColumn, cases_for, check, strings_of
from column_cases import DTYPES, STR, words
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.text.layout import LEVELS
from cudf_fsst.interop import dtypes
from cudf_fsst.interop.arrow import from_arrow, to_arrow
from cudf_fsst.interop.pandas import is_object

# Every path, every edge case ----------------------------------------------------------------------------------------


@pytest.mark.sampled(25)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", cases_for(any_bytes=True))
def test_host_codec(case: Case, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(HostCodec(), case, level=level)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_pandas(dtype, monkeypatch, subtests) -> None:
    variant = PandasColumn(dtype)
    for parameter in cases_for(variant.any_bytes):
        (case,) = parameter.values
        with subtests.test(case.name), monkeypatch.context() as patched:
            case.patch(patched)
            check(variant, case)


@pytest.mark.gpu
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", cases_for(any_bytes=True))
def test_cudf(case: Case, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(CudfColumn(), case, level=level)


@pytest.mark.parametrize("tile_size", [128, 256, 512, 1024])
def test_tile_sizes(tile_size: int) -> None:
    for case in (
        Case("text", lambda: strings_of([b"tile " * i for i in range(150)])),
        Case("none", lambda: strings_of([])),
    ):
        for level in LEVELS:
            check(PandasColumn(STR), case, tile_size=tile_size, level=level)


# Sizes and facts ----------------------------------------------------------------------------------------------------


def test_sizes(small_segments: None) -> None:
    series = words()
    column = series.fsst.compress()
    chars = sum(len(row.encode()) for row in series.dropna())
    assert len(column) == len(series)
    assert column.null_count == series.isna().sum()
    assert column.chars_nbytes == chars
    assert column.codes_nbytes == sum(segment.codes.nbytes for segment in column.segments)
    assert column.uncompressed_nbytes == chars + 4 * (len(series) + 1) + len(series) // 8
    kept = sum(segment.codes.nbytes + segment.meta.nbytes for segment in column.segments)
    assert column.nbytes == kept + sum(table.nbytes for table in column.tables)
    assert column.ratio == column.uncompressed_nbytes / column.nbytes
    assert len(column.segments) > 3
    assert 1 < len(column.tables) < len(column.segments)
    assert column.name == "words"
    assert column.dtype == series.dtype
    assert column.index.identical(series.index)
    assert column.device == "cpu"


@pytest.mark.slow
def test_more_than_two_gib_of_characters() -> None:
    """Five GB of memory."""
    piece = " ".join(words(60_000, nulls=False)).encode("ascii", "replace")[: 2**20]
    rows = 2**11 + 3
    offsets = np.arange(rows + 1, dtype=np.int64) * len(piece)
    chars = np.tile(np.frombuffer(piece, np.uint8), rows)
    strings = HostStrings(rows, chars, offsets)
    column = pd.Series(to_arrow(strings).to_pandas(types_mapper=pd.ArrowDtype)).fsst.compress()
    assert column.chars_nbytes == chars.size > 2**31
    assert column.uncompressed_nbytes == chars.size + 8 * (rows + 1)
    assert column[2**11 + 1] == column[-1] == piece.decode()
    back = from_arrow(column.to_arrow())
    assert np.array_equal(back.offsets, offsets)
    # Row by row: a mask of all characters would be 2 GB more.
    assert back.chars.shape == chars.shape
    assert all(np.array_equal(row, chars[: len(piece)]) for row in back.chars.reshape(rows, -1))


def test_segments_print_no_arrays() -> None:
    (segment,) = words().fsst.compress().segments
    assert "rows=1000" in repr(segment)
    assert "array" not in repr(segment)


def test_segments_are_equal_to_themselves_alone() -> None:
    column = words().fsst.compress()
    (segment,) = column.segments
    (other,) = words().fsst.compress().segments
    assert segment in column.copy().segments
    assert segment != other
    assert len({segment, other, *column.copy().segments}) == 2


def test_no_nulls_no_mask() -> None:
    column = words(800, nulls=False).fsst.compress()
    assert column.uncompressed_nbytes == column.chars_nbytes + 4 * 801


def test_no_rows() -> None:
    series = pd.Series([], dtype="str", name="none")
    column = series.fsst.compress()
    assert column.segments == ()
    assert column.tables == ()
    assert (len(column), column.nbytes, column.uncompressed_nbytes, column.null_count) == (0, 0, 0, 0)
    assert column.ratio == 1.0
    pd.testing.assert_series_equal(column.decompress(), series)
    pd.testing.assert_series_equal(column[:], series)
    pd.testing.assert_series_equal(column.take([]), series)
    pd.testing.assert_series_equal(column.filter([]), series)
    assert list(column) == []
    assert column.to_arrow().to_pylist() == []
    assert "rows: 0" in repr(column)


def test_offsets_count_eight_bytes_from_two_gib_of_characters_on() -> None:
    column = words(10, nulls=False).fsst.compress()
    (segment,) = column.segments
    longer = type(segment)(_with_chars(segment.layout, 2**31), 0, segment.table, segment.meta, segment.codes, 1)
    content = replace(column._content, node=column._content.node.with_parts(iter([longer])))
    huge = column._make(content, column._backend, None, column._index, column.dtype)
    assert huge.uncompressed_nbytes == 2**31 + 8 * 11


def _with_chars(layout, chars):
    return type(layout)(layout.rows, chars, layout.tile_size, layout.has_nulls, layout.row_bits_words)


def test_repr() -> None:
    column = words().rename("<b>&").fsst.compress()
    text = repr(column)
    assert text.startswith("CompressedColumn\n")
    for part in ("'<b>&'", "str", "cpu", "1,000", f"{column.nbytes:,}", f"{column.ratio:.2f}", "symbol tables: 1"):
        assert part in text
    page = column._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page
    assert f"{column.nbytes:,}" in page


def test_class_is_not_called() -> None:
    with pytest.raises(TypeError, match="compress"):
        cudf_fsst.CompressedColumn()


# Back ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_exact_dtype(dtype) -> None:
    series = words().astype(dtype)
    column = series.fsst.compress()
    back = column.decompress()
    pd.testing.assert_series_equal(back, series.where(series.notna(), None) if is_object(dtype) else series)
    assert type(back.array) is type(series.array)
    assert repr(back.dtype) == repr(column.dtype) == repr(series.dtype)
    pd.testing.assert_series_equal(column.to_pandas(), back)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=["None", "nan", "NA", "NaT"])
def test_missing_values_of_objects_become_none(missing) -> None:
    back = pd.Series(["a", missing], dtype=object).fsst.compress().decompress()
    assert back.tolist() == ["a", None]
    assert pd.Series([missing], dtype=object).fsst.compress()[0] is None


def test_to_arrow() -> None:
    series = words()
    rows = series.where(series.notna(), None).astype(object).where(series.notna(), None).tolist()
    array = series.fsst.compress().to_arrow()
    assert isinstance(array, pa.StringArray)
    array.validate(full=True)
    assert array.to_pylist() == rows
    for arrow_type in (pa.string(), pa.large_string()):
        array = series.astype(pd.ArrowDtype(arrow_type)).fsst.compress().to_arrow()
        assert array.type == arrow_type
        assert array.to_pylist() == rows


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_numpy_array(dtype) -> None:
    column = pd.Series(["a", None, ""], dtype=dtype).fsst.compress()
    series = column.decompress()
    for array in (np.asarray(column), np.array(column), np.array(column, dtype=object)):
        assert array.dtype == object
        assert [type(value) for value in array] == [type(value) for value in np.asarray(series)]
        assert array[0] == "a"
        assert array[1] is np.asarray(series)[1]
    assert np.asarray(column[[0, 2]]).tolist() == ["a", ""]
    assert np.asarray(pd.Series(["a"], dtype=dtype).fsst.compress(), dtype="U").dtype == "<U1"
    assert np.asarray(column.copy()[:0].fsst.compress()).shape == (0,)
    with pytest.raises(ValueError, match="decodes it"):
        np.array(column, copy=False)


ANY_BYTES = [b"ok", "é".encode(), None, b"\xff\xfe", b"\x80"] * 300


def of_any_bytes(dtype: Any, index: Any = None) -> cudf_fsst.CompressedColumn:
    """A column of bytes that are not UTF-8 everywhere, of a dtype whose Series need not be able to hold them."""
    array = pa.array(ANY_BYTES).view(pa.string())
    column = pd.Series(pd.array(array, dtype=STR), index=index, name="n").fsst.compress()
    content = replace(column._content, type=dtypes.arrow_type(dtype), stored=dtypes.encode_dtype(dtype))
    return column._make(content, column._backend, column.name, column._index, dtype)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_bytes_that_are_not_utf8(dtype) -> None:
    column = of_any_bytes(dtype, pd.Index([f"label {i}" for i in range(1500)]))
    assert column.to_arrow().cast(pa.large_binary()).to_pylist() == ANY_BYTES
    keeps_bytes = getattr(dtype, "storage", "pyarrow" if isinstance(dtype, pd.ArrowDtype) else None) == "pyarrow"
    for series in (column.decompress, column.to_pandas, lambda: column[:], lambda: column[0:1500:1]):
        if keeps_bytes:
            assert pa.array(series().array).cast(pa.large_binary()).to_pylist() == ANY_BYTES
            continue
        with pytest.raises(UnicodeDecodeError, match="start byte, in the row labelled label 3 of 'n'") as error:
            series()
        assert error.value.object == b"\xff\xfe"
    with pytest.raises(UnicodeDecodeError, match=r"invalid start byte, in (row 3|the row labelled label 3 of 'n')$"):
        np.asarray(column)
    for row, some in ((3, lambda: list(column)), (4, lambda: column[4]), (1499, lambda: column[-1])):
        with pytest.raises(UnicodeDecodeError, match=f"invalid start byte, in row {row}$"):
            some()
    assert column[1] == "é"
    assert column[:3].tolist()[:2] == ["ok", "é"]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.str.find("é"),
        lambda c: c.str.upper(),
        lambda c: c.str.split(),
        lambda c: c.str.extract("(o)"),
        lambda c: c.str[0],
        lambda c: c.map({"ok": "x"}),
        lambda c: c.describe(),
        lambda c: c.to_list(),
        lambda c: c.astype("category"),
    ],
)
def test_calls_that_make_strings_of_bytes_that_are_not_utf8(call) -> None:
    """What Arrow raises there is of several types, and names no row."""
    with pytest.raises(UnicodeDecodeError, match=r"in row 3$"):
        call(of_any_bytes(STR, pd.RangeIndex(1500)))


def test_arrow_array() -> None:
    column = pd.Series(["a", None, ""], dtype="str").fsst.compress()
    assert pa.array(column).equals(pa.array(["a", None, ""]))
    assert pa.array(column, type=pa.large_string()).equals(pa.array(["a", None, ""], pa.large_string()))
    assert pa.table({"c": column})["c"].to_pylist() == ["a", None, ""]


def test_input_is_untouched() -> None:
    series = words()
    array = pa.array(series.array)
    before = [None if buffer is None else buffer.to_pybytes() for buffer in array.buffers()]
    series.fsst.compress().decompress()
    assert [None if buffer is None else buffer.to_pybytes() for buffer in array.buffers()] == before


def test_index_compresses_as_series() -> None:
    index = pd.Index(["x", None, "z"], name="n", dtype="str")
    column = index.fsst.compress()
    pd.testing.assert_series_equal(column.decompress(), pd.Series(["x", None, "z"], name="n", dtype="str"))


# Threads ------------------------------------------------------------------------------------------------------------


def test_threads() -> None:
    """Several threads compress and read at once, and all get what one alone gets."""
    series = words(20_000)
    expected = series.fsst.compress()
    failures = []

    def work() -> None:
        try:
            column = series.fsst.compress()
            assert all(
                np.array_equal(a.codes, b.codes) for a, b in zip(column.segments, expected.segments, strict=True)
            )
            pd.testing.assert_series_equal(column.decompress(), series)
            pd.testing.assert_series_equal(column.take([5, 19_999]), series.iloc[[5, 19_999]])
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
