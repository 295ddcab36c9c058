"""Parts of a CompressedColumn: rows, slices and masks, and map_chunks piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from column_cases import words
from cudf_fsst import selection
from cudf_fsst.codecs.text import cpu_read
from cudf_fsst.interop import pandas as interop_pandas

# Selections ---------------------------------------------------------------------------------------------------------


def test_keys_and_pieces_are_looked_at_on_the_columns_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several GPUs another one may be the current one, whose kernels cannot read the column's memory."""
    column = words().fsst.compress()
    current = []

    @contextmanager
    def on_device() -> Iterator[None]:
        current.append("the column's")
        yield
        current.pop()

    def here(key: Any) -> Any:
        assert current
        return np.asarray(key)

    monkeypatch.setattr(column._backend, "current", on_device)
    monkeypatch.setattr(interop_pandas, "row_values", here)
    rows = selection.row_numbers

    def numbers(values: Any, length: int) -> Any:
        assert current
        return rows(values, length)

    monkeypatch.setattr(selection, "row_numbers", numbers)
    mask = np.arange(1000) < 5
    for found in (column[[0, 1, 2, 3, 4]], column.take([0, 1, 2, 3, 4]), column[mask], column.filter(mask)):
        assert len(found) == 5

    def count(piece: pd.Series) -> pd.Series:
        assert current
        return piece

    pd.testing.assert_series_equal(column.map_chunks(count, chunk_bytes=1000), words())
    assert not current


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
        decoded = []
        decode = cpu_read.SegmentReader.decode

        def counted(reader: Any, first: int, last: int, out: int) -> None:
            decoded.append(last - first)
            decode(reader, first, last, out)

        monkeypatch.setattr(cpu_read.SegmentReader, "decode", counted)
        row = int(self.series.notna().to_numpy().argmax())
        assert column[row] == self.series.iloc[row]
        assert decoded == [len(self.series.iloc[row].encode())]
        assert len(column[10:20]) == 10
        assert sum(decoded[1:]) == sum(len(text.encode()) for text in self.series[10:20].dropna())


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
        for huge in (10**9, 2**63, 2**70):
            assert column.map_chunks(len, chunk_bytes=huge) == [4096]
        assert column.map_chunks(len) == [4096]
        # As many whole segments as do not pass the size, else one of them.
        assert column.map_chunks(len, chunk_bytes=6001) == [750] * 5 + [346]
        assert column.map_chunks(len, chunk_bytes=3000) == [375] * 10 + [346]

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
