"""CompressedColumn: every path through the shared checker, then its methods one by one."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from threading import Thread

import dateutil.tz
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from checker import Case, CudfColumn, HostCodec, PandasColumn, cases_for, check, rows_of, strings_of
from cudf_fsst import column as column_module
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst import plan
from cudf_fsst.format import LEVELS
from cudf_fsst.interop.arrow import from_arrow, to_arrow
from cudf_fsst.interop.pandas import is_object

STR = pd.StringDtype("pyarrow", na_value=np.nan)
DTYPES = {
    "str": STR,
    "str[python]": pd.StringDtype("python", na_value=np.nan),
    "string[pyarrow]": pd.StringDtype("pyarrow"),
    "string[python]": pd.StringDtype("python"),
    "arrow_string": pd.ArrowDtype(pa.string()),
    "arrow_large_string": pd.ArrowDtype(pa.large_string()),
    "object": np.dtype(object),
}

INDEXES = {
    "range": pd.RangeIndex(6),
    "range_with_step": pd.RangeIndex(20, 2, -3, name="r"),
    "integers": pd.Index([5, 3, 3, 9, -1, 0], name=7),
    "int8": pd.Index([5, 3, 3, 9, -1, 0], dtype="int8"),
    "uint64": pd.Index([5, 3, 3, 9, 2**64 - 1, 0], dtype="uint64"),
    "floats": pd.Index([1.5, np.nan, 2, -0.0, np.inf, 3]),
    "booleans": pd.Index([True, False, True, True, False, False]),
    "nullable_integers": pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype="Int64"),
    "arrow_integers": pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype=pd.ArrowDtype(pa.int64())),
    "str": pd.Index(["a", None, "c", "", "e", "f"], name=("a", 1)),
    "string": pd.Index(["a", None, "c", "", "e", "f"], dtype="string"),
    "python_string": pd.Index(["a", None, "c", "", "e", "f"], dtype=pd.StringDtype("python")),
    "arrow_string": pd.Index(["a", None, "c", "", "e", "f"], dtype=pd.ArrowDtype(pa.string())),
    "object": pd.Index(["a", None, "c", "", "e", "f"], dtype=object),
    "dates": pd.date_range("2020", periods=6, freq="D", name="day"),
    "dates_with_zone": pd.date_range("2020", periods=6, freq="ME", tz="Europe/Paris"),
    "dates_without_frequency": pd.DatetimeIndex(["2020", "2024", "2021", None, "2000", "1999"]).as_unit("s"),
    "durations": pd.timedelta_range("1s", periods=6),
    "periods": pd.period_range("2020", periods=6, freq="M"),
    "intervals": pd.interval_range(0, 6),
    "categories": pd.CategoricalIndex(list("abacca"), categories=list("czab"), ordered=True),
    "integer_categories": pd.CategoricalIndex(pd.Index([1, 2, 1, 1, 2, 2], dtype="Int64")),
    "date_categories": pd.CategoricalIndex(
        pd.DatetimeIndex(["2020", "2021", "2020", "2019", "2020", None], tz="Europe/Paris")
    ),
    "arrow_categories": pd.CategoricalIndex(pd.Index(list("abacca"), dtype=pd.ArrowDtype(pa.string()))),
    "arrow_dictionary": pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array([list("abacca")]).dictionary_encode())),
    "bytes": pd.Index([b"a", None, b"\xff", b"", b"e", b"f"], dtype=object),
    "tuples": pd.MultiIndex.from_product([["u", "v", "w"], [1, 2]], names=["x", None]),
    "tuples_of_kinds": pd.MultiIndex.from_arrays(
        [
            pd.Index(["a", None, "c", "", "e", "f"], dtype=object),
            pd.date_range("2020", periods=6),
            pd.Index([1, None, 2**60 + 1, 4, 5, 6], dtype="Int64"),
        ],
        names=["x", "x", ("t", 2)],
    ),
    "tuples_with_missing": pd.MultiIndex(
        levels=[[7, 8], pd.Index([True]), ["u"]], codes=[[0, 1, -1, 0, 0, 1], [0, -1, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]]
    ),
    "tuples_of_one": pd.MultiIndex.from_arrays([[1, 2, 3, 4, 5, 6]]),
}


def words(count: int = 1000, *, seed: int = 1, nulls: bool = True) -> pd.Series:
    rng = np.random.default_rng(seed)
    parts = np.array(["deposits", "haggle", "slyly", "Größe", "", "final requests"], object)
    rows = [" ".join(parts[rng.integers(0, len(parts), 3)]) for _ in range(count)]
    if nulls:
        rows = [None if hide else row for row, hide in zip(rows, rng.random(count) < 0.2, strict=True)]
    return pd.Series(rows, index=pd.RangeIndex(100, 100 + count), name="words", dtype="str")


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments and tables in a short column."""
    monkeypatch.setattr(plan, "segment_size", lambda chars: 3000)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 6000)


# Every path, every edge case ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", cases_for(any_bytes=True))
def test_host_codec(case: Case, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(HostCodec(), case, level=level)


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
    huge = column_module.CompressedColumn._make(
        [type(segment)(_with_chars(segment.layout, 2**31), 0, segment.table, segment.meta, segment.codes, 1)],
        column._backend,
        None,
        column.index,
        column.dtype,
    )
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


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_exact_index(index: pd.Index, tmp_path: Path) -> None:
    series = pd.Series(["a", None, "ccc", "", "e", "f"], index=index, dtype="str")
    column = series.fsst.compress()
    pd.testing.assert_series_equal(column.decompress(), series)
    pd.testing.assert_series_equal(column[[4, 1, 1]], series.take([4, 1, 1]))
    pd.testing.assert_series_equal(column[1:5], series.iloc[1:5])
    column.save(tmp_path / "column")
    loaded = cudf_fsst.load(tmp_path / "column")
    pd.testing.assert_series_equal(loaded.decompress(), series, check_index_type="exact")
    assert loaded.index.names == series.index.names
    assert type(loaded.index) is type(series.index)
    if isinstance(index, pd.MultiIndex):
        assert [level.dtype for level in loaded.index.levels] == [level.dtype for level in index.levels]


def test_range_in_multi_index(tmp_path: Path) -> None:
    """What ``set_index(append=True)`` makes; as a level, a range is stored as its integers."""
    index = pd.DataFrame({"k": ["a", "b"]}).set_index("k", append=True).index
    for series in (pd.Series(["x", None], index=index, dtype="str"), pd.Series([], index=index[:0], dtype="str")):
        series.fsst.compress().save(tmp_path / "column")
        pd.testing.assert_series_equal(cudf_fsst.load(tmp_path / "column").decompress(), series)


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_index_without_rows(index: pd.Index, tmp_path: Path) -> None:
    series = pd.Series("a", index=index, dtype="str")[:0]
    if isinstance(index, pd.MultiIndex):  # labels that no row uses are not kept
        series.index = series.index.remove_unused_levels()
    series.fsst.compress().save(tmp_path / "column")
    pd.testing.assert_series_equal(cudf_fsst.load(tmp_path / "column").decompress(), series, check_index_type="exact")


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


def test_arrow_array() -> None:
    column = pd.Series(["a", None, ""], dtype="str").fsst.compress()
    assert pa.array(column).equals(pa.array(["a", None, ""]))
    assert pa.array(column, type=pa.large_string()).equals(pa.array(["a", None, ""], pa.large_string()))
    assert pa.table({"c": column})["c"].to_pylist() == ["a", None, ""]


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("rows", [6, 0])
def test_index_is_not_shared(index: pd.Index, rows: int) -> None:
    series = pd.Series("a", index=index, dtype="str")[:rows]
    names = list(index.names)
    column = series.fsst.compress()
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


# Selections ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
class TestSelection:
    series = words()

    @pytest.fixture
    def column(self) -> cudf_fsst.CompressedColumn:
        return self.series.fsst.compress()

    @pytest.mark.parametrize(
        "key",
        [
            slice(None),
            slice(10, 20),
            slice(-20, -10),
            slice(990, 5000),
            slice(20, 10),
            slice(3, 900, 7),
            slice(None, None, -1),
            slice(900, 3, -13),
            slice(5, 5),
        ],
        ids=str,
    )
    def test_slices(self, column, key: slice) -> None:
        pd.testing.assert_series_equal(column[key], self.series.iloc[key])

    @pytest.mark.parametrize("row", [0, 5, 999, -1, -1000, np.int64(17), np.uint8(3), True + 1])
    def test_scalars(self, column, row) -> None:
        expected = self.series.iloc[row]
        assert column[row] == expected or (pd.isna(column[row]) and pd.isna(expected))

    @pytest.mark.parametrize(("dtype", "missing"), [("str", np.nan), ("string", pd.NA), ("object", None)])
    def test_missing_scalar(self, dtype: str, missing) -> None:
        column = pd.Series(["a", None], dtype=dtype).fsst.compress()
        assert column[0] == "a"
        assert type(column[0]) is str
        assert column[1] is missing

    @pytest.mark.parametrize(
        "rows",
        [
            [3, 1, 2],
            [-1, 0, -1000, 999],
            np.array([7, 7, 7], np.uint16),
            np.array([], float),
            [],
            range(0, 1000, 3),
            pd.Series([4, 2], index=[9, 8]),
            pd.Index([1, 999]),
            pd.array([1, 2], dtype="Int64"),
        ],
        ids=lambda rows: type(rows).__name__,
    )
    def test_rows(self, column, rows) -> None:
        expected = self.series.iloc[list(np.asarray(rows, np.int64))]
        pd.testing.assert_series_equal(column[rows], expected)
        pd.testing.assert_series_equal(column.take(rows), expected)

    @pytest.mark.parametrize("make", [list, np.array, pd.Series, lambda mask: pd.array(mask, dtype="boolean")])
    def test_masks(self, column, make) -> None:
        chosen = np.random.default_rng(3).random(1000) < 0.1
        mask = make(chosen)
        expected = self.series[chosen]
        pd.testing.assert_series_equal(column[mask], expected)
        pd.testing.assert_series_equal(column.filter(mask), expected)

    def test_missing_in_mask_is_false(self, column) -> None:
        for mask in (
            pd.array([True, None] * 500, dtype="boolean"),
            pd.Series([True, None] * 500, dtype=object),
            pd.Series([True, None] * 500, dtype="bool[pyarrow]"),
            pa.array([True, None] * 500),
            [True, None] * 500,
        ):
            pd.testing.assert_series_equal(column[mask], self.series.iloc[::2])
            pd.testing.assert_series_equal(column.filter(mask), self.series.iloc[::2])

    @pytest.mark.parametrize("make", [list, lambda mask: pd.Series(mask, dtype=object)], ids=["list", "Series"])
    def test_mask_of_missing_values_only(self, column, make) -> None:
        pd.testing.assert_series_equal(column.filter(make([None] * 1000)), self.series.iloc[:0])
        with pytest.raises(IndexError, match="mask of 3 rows"):
            column.filter(make([None] * 3))

    def test_mask_of_nothing_and_everything(self, column) -> None:
        pd.testing.assert_series_equal(column.filter(np.zeros(1000, bool)), self.series.iloc[:0])
        pd.testing.assert_series_equal(column.filter(np.ones(1000, bool)), self.series)

    @pytest.mark.parametrize(
        ("select", "wrong"),
        [
            (lambda c: c[1000], "row 1000"),
            (lambda c: c[-1001], "row -1001"),
            (lambda c: c[[0, 1000]], "row 1000"),
            (lambda c: c.take([0, -1001, 5]), "row -1001"),
            (lambda c: c.take(np.array([2**63], np.uint64)), f"row {2**63}"),
            (lambda c: c[2**70], f"row {2**70}"),
            (lambda c: c[[10**30]], f"row {10**30}"),
            (lambda c: c.take([0, -(10**30)]), f"row -{10**30}"),
        ],
    )
    def test_out_of_range(self, column, select, wrong: str) -> None:
        with pytest.raises(IndexError, match=f"^{wrong} is out of range for a column of 1000 rows$"):
            select(column)

    def test_mask_of_wrong_length(self, column) -> None:
        for select in (column.filter, column.__getitem__):
            with pytest.raises(IndexError, match="mask of 3 rows does not fit a column of 1000 rows"):
                select([True, False, True])

    @pytest.mark.parametrize(
        "key", ["label", None, True, ..., (1, 2), b"x", 1.5, [1.5], ["a"], {}, np.zeros((2, 2), int)], ids=repr
    )
    def test_wrong_keys(self, column, key) -> None:
        with pytest.raises(TypeError):
            column[key]

    def test_filter_wants_booleans(self, column) -> None:
        with pytest.raises(TypeError, match="booleans"):
            column.filter([0] * 1000)

    def test_rows_have_no_missing_numbers(self, column) -> None:
        for rows in (pd.array([1, None], dtype="Int64"), pd.Series([1, None], dtype="Int64"), [1, None], [1, np.nan]):
            for select in (column.take, column.__getitem__):
                with pytest.raises(TypeError, match=r"^rows must be selected by integers, not missing values$"):
                    select(rows)

    @pytest.mark.parametrize(
        ("key", "shown"),
        [(1.0, "1.0"), (pd.NA, "<NA>"), ((i for i in range(3)), "a generator"), ({1, 2}, "{1, 2}")],
        ids=["float", "missing", "generator", "set"],
    )
    def test_wrong_key_is_named(self, column, key, shown: str) -> None:
        with pytest.raises(TypeError, match=f"an int, a slice, integers or a mask, not {shown}$"):
            column[key]

    def test_iteration(self, column) -> None:
        assert pd.Series(list(column), dtype="str").equals(self.series.reset_index(drop=True))

    def test_one_row_decodes_little(self, column, monkeypatch) -> None:
        backend = type(column._backend)
        monkeypatch.setattr(backend, "decompress", lambda *_, **__: pytest.fail("decoded the whole column"))
        row = int(self.series.notna().to_numpy().argmax())
        assert column[row] == self.series.iloc[row]
        assert len(column[10:20]) == len(column.take([5] * 10)) == 10


# map_chunks ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
class TestMapChunks:
    def test_joins_series(self) -> None:
        series = words()
        sizes = []

        def upper(piece: pd.Series) -> pd.Series:
            sizes.append(len(piece))
            return piece.str.upper()

        result = series.fsst.compress().map_chunks(upper, chunk_bytes=2000)
        pd.testing.assert_series_equal(result, series.str.upper())
        assert len(sizes) > 3
        assert sum(sizes) == 1000

    def test_pieces_are_as_long_as_asked(self) -> None:
        column = pd.Series(["abcdefgh"] * 4096).fsst.compress()
        # A segment is 3000 characters, 375 rows: one whole block of 256 rows and the rest of one.
        assert column.map_chunks(len, chunk_bytes=1) == [256, 119] * 10 + [256, 90]
        assert column.map_chunks(len, chunk_bytes=256 * 8 + 1) == [256, 119] * 10 + [256, 90]
        assert column.map_chunks(len, chunk_bytes=10**9) == [segment.rows for segment in column.segments]

    def test_joins_frames(self) -> None:
        series = words()
        result = series.fsst.compress().map_chunks(lambda piece: piece.to_frame("a"), chunk_bytes=2000)
        pd.testing.assert_frame_equal(result, series.to_frame("a"))

    def test_other_results_are_listed(self) -> None:
        counts = words().fsst.compress().map_chunks(len, chunk_bytes=2000)
        assert sum(counts) == 1000

    def test_rows_without_characters(self) -> None:
        series = pd.Series([None] * 700 + ["a"] + [""] * 900, dtype="str")
        result = series.fsst.compress().map_chunks(lambda piece: piece.isna(), chunk_bytes=1)
        pd.testing.assert_series_equal(result, series.isna())

    def test_no_rows(self) -> None:
        result = pd.Series([], dtype="str", name="n").fsst.compress().map_chunks(lambda piece: piece.str.len())
        pd.testing.assert_series_equal(result, pd.Series([], dtype="str", name="n").str.len())

    @pytest.mark.parametrize("chunk_bytes", [0, -5])
    def test_chunk_bytes(self, chunk_bytes: int) -> None:
        with pytest.raises(ValueError, match=str(chunk_bytes)):
            words().fsst.compress().map_chunks(len, chunk_bytes=chunk_bytes)


# Elsewhere ----------------------------------------------------------------------------------------------------------


def test_host_column_is_on_host() -> None:
    column = words().fsst.compress()
    assert column.to_host() is column


@pytest.mark.usefixtures("small_segments")
def test_copy_shares_segments() -> None:
    column = words().fsst.compress()
    copy = column.copy()
    assert copy is not column
    assert all(a is b for a, b in zip(copy.segments, column.segments, strict=True))
    pd.testing.assert_series_equal(copy.decompress(), column.decompress())


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    series = words()
    column = series.fsst.compress()
    data = pickle.dumps(column, protocol)
    again = pickle.loads(data)
    pd.testing.assert_series_equal(again.decompress(), series)
    assert again.nbytes == column.nbytes
    assert len(data) < column.nbytes + 4096


def test_pickle_out_of_band() -> None:
    column = words().fsst.compress()
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(column, 5, buffer_callback=buffers.append)
    assert len(data) < column.nbytes
    pd.testing.assert_series_equal(pickle.loads(data, buffers=buffers).decompress(), column.decompress())


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


# save, load ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_save_and_load(dtype, tmp_path: Path) -> None:
    series = words().astype(dtype)
    column = series.fsst.compress()
    column.save(tmp_path / "column.fsst")
    loaded = cudf_fsst.load(tmp_path / "column.fsst")
    pd.testing.assert_series_equal(loaded.decompress(), column.decompress())
    assert repr(loaded.dtype) == repr(series.dtype)
    assert loaded.nbytes == column.nbytes
    assert loaded.tables == column.tables
    assert repr(cudf_fsst.CompressedColumn.load(str(tmp_path / "column.fsst"))) == repr(column)


@pytest.mark.parametrize(
    "name",
    [None, "a", 5, 2.5, True, ("a", (1, None)), np.int64(3), pd.Timestamp("2020-01-01 05:00", tz="Europe/Paris")],
)
def test_saved_name(name, tmp_path: Path) -> None:
    pd.Series(["a"], name=name).fsst.compress().save(tmp_path / "column")
    assert cudf_fsst.load(tmp_path / "column").name == name


class Colour(StrEnum):
    RED = "red"


def in_zone(zone) -> pd.Timestamp:
    return pd.Timestamp("2020-01-01 05:00", tz=zone)


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


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([1, "x"], dtype=object),
        pd.Index([1j, 2]),
        pd.CategoricalIndex(pd.interval_range(0, 2)),
        pd.CategoricalIndex(pd.period_range("2020", periods=2, freq="M")),
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
        "interval_categories",
        "period_categories",
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
    with pytest.raises(TypeError, match=r"cannot be stored.*reset_index"):
        column.save(tmp_path / "column")
    assert list(tmp_path.iterdir()) == []


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


def test_load_wants_as_many_labels_as_rows(tmp_path: Path) -> None:
    from cudf_fsst import storage
    from cudf_fsst.interop import schema

    column = words(10).fsst.compress()
    described, index = schema.to_bytes("n", STR, pd.RangeIndex(11))
    storage.save(tmp_path / "column", segments=column.segments, schema=described, index=index)
    with pytest.raises(ValueError, match="10 rows, but its stored index has 11 labels"):
        cudf_fsst.load(tmp_path / "column")


def test_load_of_foreign_schema(tmp_path: Path) -> None:
    from cudf_fsst import storage

    column = words(10).fsst.compress()
    foreign = pa.schema([("a", pa.string())]).serialize().to_pybytes()
    for described in (b"", b"\x00" * 40, foreign):
        storage.save(tmp_path / "column", segments=column.segments, schema=described)
        with pytest.raises(ValueError, match="schema cannot be read"):
            cudf_fsst.load(tmp_path / "column")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", []),
        ("name", {"tuple": [[]]}),
        ("dtype", None),
        ("dtype", {"kind": "arrow", "type": "int8"}),
        ("index", {}),
    ],
    ids=str,
)
def test_load_of_a_schema_that_lies(key: str, value, tmp_path: Path) -> None:
    from cudf_fsst import storage
    from cudf_fsst.interop import schema

    column = words(10).fsst.compress()
    described = pa.ipc.read_schema(pa.py_buffer(schema.to_bytes("n", STR, pd.RangeIndex(10))[0]))
    notes = json.loads(described.metadata[b"cudf_fsst"]) | {key: value}
    lying = described.with_metadata({b"cudf_fsst": json.dumps(notes).encode()})
    storage.save(tmp_path / "column", segments=column.segments, schema=lying.serialize().to_pybytes())
    with pytest.raises(ValueError, match="schema cannot be read"):
        cudf_fsst.load(tmp_path / "column")


# concat, Compressor, train ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
def test_concat_shares_segments() -> None:
    parts = [words(700, seed=1), words(500, seed=2), words(0)]
    columns = [part.fsst.compress() for part in parts]
    joined = cudf_fsst.concat(columns)
    pd.testing.assert_series_equal(joined.decompress(), pd.concat(parts))
    assert [id(s) for s in joined.segments] == [id(s) for column in columns for s in column.segments]
    pd.testing.assert_series_equal(joined[690:710], pd.concat(parts).iloc[690:710])


def test_concat_twice_counts_tables_once() -> None:
    column = words().fsst.compress()
    double = cudf_fsst.concat([column, column])
    assert double.tables == column.tables
    assert double.nbytes < 2 * column.nbytes


@pytest.mark.parametrize(
    "parts",
    [
        [pd.Series(["a"], name="x"), pd.Series(["b"], name="x")],
        [pd.Series(["a"], name="x"), pd.Series(["b"], name="y")],
        [pd.Series(["a"], index=[0]), pd.Series(["b"], index=["k"])],
        [pd.Series(["a", "b"]), pd.Series(["c"], index=pd.RangeIndex(2, 3))],
        [
            pd.Series(["a"], index=pd.date_range("2020", periods=1)),
            pd.Series(["b"], index=pd.date_range("2021", periods=1)),
        ],
        [pd.Series(["a"], index=pd.Index([1], name="i")), pd.Series(["b"], index=pd.Index([1], name="j"))],
        [
            pd.Series(["a"], index=pd.MultiIndex.from_tuples([(1, "x")])),
            pd.Series(["b"], index=pd.MultiIndex.from_tuples([(2, "y")])),
        ],
    ],
    ids=["names", "other_names", "kinds", "ranges", "dates", "index_names", "tuples"],
)
def test_concat_labels_as_pandas(parts: list[pd.Series]) -> None:
    joined = cudf_fsst.concat([part.fsst.compress() for part in parts])
    expected = pd.concat(parts)
    pd.testing.assert_series_equal(joined.decompress(), expected)
    assert type(joined.index) is type(expected.index)


def test_concat_refuses() -> None:
    column = words(5).fsst.compress()
    with pytest.raises(ValueError, match="no columns"):
        cudf_fsst.concat([])
    with pytest.raises(TypeError, match="Series"):
        cudf_fsst.concat([column, words(5)])
    with pytest.raises(TypeError, match="str and object"):
        cudf_fsst.concat([column, words(5).astype(object).fsst.compress()])


def test_concat_refuses_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    column, other = words(5).fsst.compress(), words(5).fsst.compress()
    monkeypatch.setattr(other._backend, "device", "cuda:0")
    with pytest.raises(ValueError, match="cpu and cuda:0"):
        cudf_fsst.concat([column, other])


def test_compressor() -> None:
    parts = [words(600, seed=1), words(0), words(300, seed=2)]
    compressor = cudf_fsst.Compressor()
    for part in parts:
        compressor.append(part)
    column = compressor.finish()
    pd.testing.assert_series_equal(column.decompress(), pd.concat(parts))
    assert len(column.segments) == len(column.tables) == 2


def test_compressor_with_table_and_tile_size() -> None:
    table = cudf_fsst.train(words())
    compressor = cudf_fsst.Compressor(table=table, tile_size=512)
    for seed in range(3):
        compressor.append(words(200, seed=seed))
    column = compressor.finish()
    assert column.tables == (table,)
    assert {segment.layout.tile_size for segment in column.segments} == {512}


def test_level_max() -> None:
    series = words(3000)
    table = cudf_fsst.train(series, level="max")
    assert table == cudf_fsst.train(pd.Index(series), level="max") != cudf_fsst.train(series)
    column, default = series.fsst.compress(level="max"), series.fsst.compress()
    pd.testing.assert_series_equal(column.decompress(), series)
    assert column.tables == (table,)
    assert column.codes_nbytes < default.codes_nbytes
    compressor = cudf_fsst.Compressor(level="max")
    compressor.append(series)
    assert compressor.finish().codes_nbytes == column.codes_nbytes
    with pytest.raises(ValueError, match="'best'"):
        cudf_fsst.train(series, level="best")


def test_compressor_takes_arrow() -> None:
    compressor = cudf_fsst.Compressor()
    compressor.append(pa.chunked_array([["a", None], ["b"]]))
    compressor.append(pa.array(["c"]))
    column = compressor.finish()
    assert column.to_arrow().to_pylist() == ["a", None, "b", "c"]
    assert column.dtype == pd.ArrowDtype(pa.string())


def test_compressor_refuses() -> None:
    with pytest.raises(ValueError, match="'best'"):
        cudf_fsst.Compressor(level="best")
    with pytest.raises(ValueError, match="nothing was appended"):
        cudf_fsst.Compressor().finish()
    compressor = cudf_fsst.Compressor()
    compressor.append(words(5))
    with pytest.raises(TypeError, match="dtype str, this one is object"):
        compressor.append(words(5).astype(object))
    with pytest.raises(AttributeError, match="int64"):
        compressor.append(pd.Series([1]))
    with pytest.raises(TypeError, match="not list"):
        compressor.append(["a"])
    assert len(compressor.finish()) == 5
    for method in (compressor.finish, lambda: compressor.append(words(5))):
        with pytest.raises(ValueError, match="finished"):
            method()


def test_train() -> None:
    series = words()
    table = cudf_fsst.train(series)
    assert table == cudf_fsst.train(series.astype(object)) == cudf_fsst.train(pd.Index(series))
    assert table == series.fsst.compress().tables[0]
    assert cudf_fsst.SymbolTable.from_bytes(table.to_bytes()) == table
    other = words(seed=9)
    column = other.fsst.compress(table=table)
    assert column.tables == (table,)
    pd.testing.assert_series_equal(column.decompress(), other)
    assert cudf_fsst.train(pd.Series([], dtype="str")).symbols == ()
    with pytest.raises(AttributeError, match="float64"):
        cudf_fsst.train(pd.Series([1.5]))


# On a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
class TestGpu:
    @pytest.fixture
    def series(self):
        import cudf

        return cudf.from_pandas(words())

    def test_moves(self, series, tmp_path: Path) -> None:
        import cudf

        column = series.fsst.compress()
        assert column.device == "cuda:0"
        host = column.to_host()
        pd.testing.assert_series_equal(host.decompress(), words())
        back = host.to_device()
        assert back.device == "cuda:0"
        assert back.to_device() is back
        cudf.testing.assert_series_equal(back.decompress(), series)
        cudf.testing.assert_series_equal(words().fsst.compress().to_cudf(), series)
        pd.testing.assert_series_equal(column.to_pandas(), words())
        assert column.to_arrow().to_pylist() == host.to_arrow().to_pylist()
        column.save(tmp_path / "column")
        pd.testing.assert_series_equal(cudf_fsst.load(tmp_path / "column").decompress(), words())

    @pytest.mark.parametrize("level", LEVELS)
    def test_same_bytes_as_host(self, series, level: str, small_segments: None) -> None:
        host, device = words().fsst.compress(level=level), series.fsst.compress(level=level)
        assert device.nbytes == host.nbytes
        for a, b in zip(device.to_host().segments, host.segments, strict=True):
            assert np.array_equal(a.meta, b.meta)
            assert np.array_equal(a.codes, b.codes)
        assert cudf_fsst.train(series, level=level) == cudf_fsst.train(words(), level=level)

    @pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
    def test_exact_dtype(self, series, dtype) -> None:
        import cudf

        series = series.astype(dtype)
        back = series.fsst.compress().decompress()
        cudf.testing.assert_series_equal(back, series)
        assert repr(back.dtype) == repr(series.dtype)

    @pytest.mark.parametrize("kind", ["range_with_step", "integers", "floats", "str", "dates", "categories", "tuples"])
    def test_exact_index(self, kind: str) -> None:
        import cudf

        series = cudf.from_pandas(pd.Series(["a", None, "ccc", "", "e", "f"], index=INDEXES[kind], dtype="str"))
        column = series.fsst.compress()
        cudf.testing.assert_series_equal(column.decompress(), series)
        cudf.testing.assert_series_equal(column[[4, 1, 1]], series.take([4, 1, 1]))
        cudf.testing.assert_series_equal(column[1:5], series.iloc[1:5])
        cudf.testing.assert_series_equal(pickle.loads(pickle.dumps(column)).decompress(), series)

    def test_selections(self, series) -> None:
        import cudf
        import cupy

        column = series.fsst.compress()
        mask = words().notna().to_numpy()
        for key in (mask, cupy.asarray(mask), cudf.Series(mask), list(mask)):
            cudf.testing.assert_series_equal(column[key], series[mask])
            cudf.testing.assert_series_equal(column.filter(key), series[mask])
        rows = [5, -1, 17]
        for key in (rows, np.array(rows), cupy.asarray(rows), cudf.Series(rows), pd.Series(rows)):
            cudf.testing.assert_series_equal(column[key], series.take([5, 999, 17]))
        cudf.testing.assert_series_equal(column[::-3], series.iloc[::-3])
        assert column[int(np.flatnonzero(mask)[0])] == words()[mask].iloc[0]
        assert pd.isna(column[int(np.flatnonzero(~mask)[0])])
        pd.testing.assert_series_equal(column[:20].to_pandas(), words()[:20])
        with pytest.raises(IndexError, match="row 1000 is out of range for a column of 1000 rows"):
            column.take(cupy.asarray([1000]))

    def test_map_chunks(self, series, small_segments: None) -> None:
        import cudf

        column = series.fsst.compress()
        cudf.testing.assert_series_equal(
            column.map_chunks(lambda piece: piece.str.len(), chunk_bytes=2000), series.str.len()
        )

    def test_pickle(self, series) -> None:
        import cudf

        again = pickle.loads(pickle.dumps(series.fsst.compress()))
        assert again.device == "cuda:0"
        cudf.testing.assert_series_equal(again.decompress(), series)

    def test_concat_and_compressor(self, series) -> None:
        import cudf

        compressor = cudf_fsst.Compressor()
        for piece in (series[:300], series[300:]):
            compressor.append(piece)
        column = compressor.finish()
        cudf.testing.assert_series_equal(column.decompress(), series)
        with pytest.raises(ValueError, match="several devices"):
            cudf_fsst.concat([column, words().fsst.compress()])
        both = cudf_fsst.Compressor()
        both.append(series)
        with pytest.raises(ValueError, match="this one is on cpu"):
            both.append(words())

    def test_no_rows(self, series) -> None:
        import cudf

        none = series[:0]
        column = none.fsst.compress()
        for result in (column.decompress(), column[:], column.take([]), column.to_host().to_device().decompress()):
            cudf.testing.assert_series_equal(result, none)
        assert column.to_arrow().to_pylist() == []

    def test_index(self) -> None:
        import cudf

        index = cudf.Index(["x", None, "z"], name="n")
        assert index.fsst.compress().to_arrow().to_pylist() == ["x", None, "z"]

    def test_arrays(self, series) -> None:
        column = series.fsst.compress()
        assert np.asarray(column).dtype == object
        assert np.asarray(column)[pd.notna(words())].tolist() == words().dropna().tolist()
        assert pa.array(column).equals(column.to_arrow())

    def test_int64_offsets(self) -> None:
        import cudf

        rows = strings_of([b"abc", None, b"", b"d"] * 300, np.int64)
        series = cudf.Series.from_arrow(to_arrow(rows, pa.large_string()))
        assert series.fsst.compress().to_arrow().to_pylist() == [
            None if r is None else r.decode() for r in rows_of(rows)
        ]
