"""CompressedColumn on a GPU with cuDF: the same bytes and answers as on the host, and moves between the two."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from checker import rows_of, strings_of
from column_cases import DTYPES, INDEXES, words
from cudf_fsst.codecs.text.layout import LEVELS
from cudf_fsst.interop.arrow import to_arrow
from cudf_fsst.interop.cudf_columns import in_cudf

NESTED = {
    "list": pa.array([[1, None], None, []] * 3, pa.list_(pa.int16())),
    "struct": pa.array([{"n": 1, "s": "a"}, None, {"n": None, "s": None}] * 3),
    "list of structs": pa.array([[{"s": "a", "t": datetime(2026, 1, 2)}], None, [None]] * 3),
}
#: What cuDF has not: of days it makes times.
DAYS = {
    "days": pa.array([date(2026, 1, 2), None, date(1900, 2, 3)] * 3),
    "days in milliseconds": pa.array([date(2026, 1, 2), None, date(1900, 2, 3)] * 3, pa.date64()),
    "days in lists of structs": pa.array([[{"d": date(2026, 1, 2)}], None, []] * 3),
    "large list": pa.array([["a"], None, []] * 3, pa.large_list(pa.string())),
}


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

    @pytest.mark.parametrize("name", ["k", None])
    @pytest.mark.parametrize(
        ("values", "dtype", "nullable"),
        [
            ([1, None, 2**60 + 1, -3], "int64", "Int64"),
            ([1, None, 0, 255], "uint8", "UInt8"),
            ([True, None, False, True], "bool", "boolean"),
        ],
        ids=["int64", "uint8", "bool"],
    )
    def test_index_with_missing_labels(self, values: list, dtype: str, nullable: str, name, tmp_path: Path) -> None:
        """pandas would make floats and objects of them."""
        import cudf

        index = cudf.Index(cudf.Series(values, dtype=dtype), name=name)
        series = cudf.Series(["a", None, "ccc", "d"], index=index)
        wanted = pd.Index(values, dtype=nullable, name=name)
        column = series.fsst.compress()
        for host in (column.to_host(), series.fsst.to_host()):
            pd.testing.assert_index_equal(host.index, wanted, exact=True)
        pd.testing.assert_index_equal(column.to_pandas().index, wanted, exact=True)
        column.save(tmp_path / "column")
        loaded = cudf_fsst.load(tmp_path / "column")
        pd.testing.assert_index_equal(loaded.index, wanted, exact=True)
        for back in (column.to_host().to_device(), loaded.to_device(), pickle.loads(pickle.dumps(column))):
            assert back.index.dtype == index.dtype
            assert back.index.to_arrow().to_pylist() == values
            assert back.index.name == name
        for back in (column.to_host().to_cudf(), loaded.to_cudf(), column.decompress()):
            assert back.index.to_arrow().to_pylist() == values

    def test_levels_with_missing_labels(self, tmp_path: Path) -> None:
        import cudf

        levels = {"x": cudf.Series([1, None, 2**60 + 1]), "y": cudf.Series(["a", "b", None])}
        index = cudf.MultiIndex.from_frame(cudf.DataFrame(levels))
        column = cudf.Series(["a", None, "ccc"], index=index).fsst.compress()
        wanted = pd.MultiIndex.from_arrays([pd.Index([1, None, 2**60 + 1], dtype="Int64"), ["a", "b", None]])
        wanted.names = ["x", "y"]
        column.save(tmp_path / "column")
        for host in (column.to_host(), cudf_fsst.load(tmp_path / "column")):
            pd.testing.assert_index_equal(host.index, wanted)
            back = host.to_device().index
            assert list(back.names) == ["x", "y"]
            assert back.get_level_values(0).to_arrow().to_pylist() == [1, None, 2**60 + 1]

    @pytest.mark.parametrize("kind", ["range_with_step", "integers", "str", "dates", "categories", "tuples"])
    def test_index_is_not_shared(self, kind: str) -> None:
        import cudf

        values = ["a", None, "ccc", "", "e", "f"]
        series = cudf.from_pandas(pd.Series(values, index=INDEXES[kind], dtype="str"))
        names = list(series.index.names)
        column = series.fsst.compress()
        frame = series.to_frame("c").fsst.compress()
        copy = column.copy()
        given = [series.index, column.index, copy.index, column[:].index, column[1:3].index, column[[4, 1]].index]
        given += [column.decompress().index, copy.decompress().index, frame.index, frame["c"].index]
        given += [frame.decompress().index, column.to_host().to_cudf().index, column.to_host().index]
        for labels in given:
            labels.names = [("new", number) for number in range(labels.nlevels)]
        for kept in (column, copy, column.to_host(), frame):
            assert list(kept.index.names) == names
            assert list(kept.decompress().index.names) == names

    def test_index_keeps_its_frequency(self, tmp_path: Path) -> None:
        import cudf

        for freq in ("D", "ME"):
            labels = pd.date_range("2020", periods=6, freq=freq, name="day")
            series = cudf.from_pandas(pd.Series(list("abcdef"), index=labels, dtype="str"))
            for data in (series, series.to_frame("c")):
                packed = data.fsst.compress()
                packed.save(tmp_path / "gpu")
                data.to_pandas().fsst.compress().save(tmp_path / "host")
                for host in (packed.to_host(), cudf_fsst.load(tmp_path / "gpu")):
                    pd.testing.assert_index_equal(host.index, series.index.to_pandas())
                    assert host.index.freq == series.index.to_pandas().freq
                assert packed.to_host().to_device().index.freq == series.index.freq
                if data is series:
                    assert (tmp_path / "gpu").read_bytes() == (tmp_path / "host").read_bytes()

    def test_frequency_that_cudf_does_not_have(self) -> None:
        """The dates survive."""
        labels = pd.date_range("2020", periods=6, freq="B")
        for data in (pd.Series(list("abcdef"), index=labels), pd.DataFrame({"c": range(6)}, index=labels)):
            for back in (data.fsst.compress().to_cudf(), data.fsst.compress().to_device().decompress()):
                assert back.index.to_pandas().tolist() == labels.tolist()
                assert data.index.freq == "B"

    def test_levels_named_by_numbers(self) -> None:
        import cudf

        index = pd.MultiIndex.from_arrays([[5, 6, 7], ["a", "b", "c"]], names=[1, 0])
        for data in (pd.Series(["x", None, "z"], index=index), pd.DataFrame({"c": range(3)}, index=index)):
            packed = cudf.from_pandas(data).fsst.compress()
            for found in (packed.to_host().index, packed.to_host().to_device().index.to_pandas()):
                pd.testing.assert_index_equal(found, index)

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

    @pytest.mark.parametrize("name", NESTED)
    @pytest.mark.parametrize("rows", [slice(None), slice(0)], ids=["rows", "no rows"])
    def test_nested_dtypes(self, name: str, rows: slice) -> None:
        """Of Arrow's dtypes, which are those of pandas, and of cuDF's own."""
        import cudf

        array = NESTED[name][rows]
        host = pd.Series(array, dtype=pd.ArrowDtype(array.type), name="x").fsst.compress()
        for column in (host.to_device(), cudf.Series.from_arrow(array).fsst.compress()):
            back = column.decompress()
            assert column.dtype == back.dtype
            assert back.to_arrow().to_pylist() == array.to_pylist()

    @pytest.mark.parametrize("name", DAYS)
    @pytest.mark.parametrize("rows", [slice(None), slice(0)], ids=["rows", "no rows"])
    def test_days(self, name: str, rows: slice) -> None:
        """In Arrow's dtypes, wherever they are; on the host they are days again."""
        array = DAYS[name][rows]
        dtype = pd.ArrowDtype(array.type)
        column = pd.Series(array, dtype=dtype, name="x").fsst.compress().to_device()
        back = column.decompress()
        assert column.dtype == back.dtype == pd.ArrowDtype(in_cudf(array.type))
        assert back.to_arrow().to_pylist() == array.cast(in_cudf(array.type)).to_pylist()
        pd.testing.assert_series_equal(column.to_host().decompress(), pd.Series(array, dtype=dtype, name="x"))

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
