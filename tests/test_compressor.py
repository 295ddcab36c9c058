"""Columns of parts: concat, Compressor, and tables trained before they are used."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from column_cases import words
from cudf_fsst import SymbolTable, joining


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


def multi(values: list[str], dtype: str, names: list[str | None]) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([pd.Index(values, dtype=dtype), range(len(values))], names=names)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pd.Index(["a"], name="i"), pd.Index(["b"], name="j")),
        (pd.Index(["a"], name="i"), pd.Index(["b"])),
        (pd.Index(["a"], dtype=object), pd.Index(["b"], dtype="str")),
        (pd.Index(["a"], dtype="string"), pd.Index(["b"], dtype="str")),
        (multi(["a"], "object", ["x", "y"]), multi(["b"], "object", ["x", "z"])),
        (multi(["a"], "object", ["x", "y"]), multi(["b"], "object", ["x", "y"])),
        (multi(["a"], "str", ["x", None]), multi(["b"], "object", ["x", None])),
        (pd.date_range("2020", periods=2), pd.date_range("2020-01-03", periods=2)),
        (pd.timedelta_range(0, periods=2, freq="D"), pd.timedelta_range(0, periods=2, freq="h")),
        (pd.Index([1], dtype="Int64"), pd.Index([1], dtype="int64")),
        (pd.Index([1], dtype="int64"), pd.Index([1], dtype="int64[pyarrow]")),
        (pd.Index(["a"], dtype=pd.StringDtype("python")), pd.Index(["a"], dtype=pd.StringDtype("pyarrow"))),
    ],
    ids=str,
)
def test_concat_of_frames_labels_as_pandas(first: pd.Index, second: pd.Index) -> None:
    """Whose indexes are compressed: levels are put together only where they are alike."""
    parts = [pd.DataFrame({"n": range(len(index))}, index=index) for index in (first, second)]
    found, expected = cudf_fsst.concat([part.fsst.compress() for part in parts]).index, pd.concat(parts).index
    pd.testing.assert_index_equal(found, expected)
    assert getattr(found, "freq", None) == getattr(expected, "freq", None)
    if isinstance(expected, pd.MultiIndex):
        assert found.dtypes.tolist() == expected.dtypes.tolist()


def test_concat_refuses() -> None:
    column = words(5).fsst.compress()
    with pytest.raises(ValueError, match="no columns"):
        cudf_fsst.concat([])
    with pytest.raises(TypeError, match=r"concat takes a list .*, not a int"):
        cudf_fsst.concat(5)
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
    column, default = (series.fsst.compress(level=level, codec="fsst") for level in ("max", "default"))
    pd.testing.assert_series_equal(column.decompress(), series)
    assert column.tables == (table,)
    assert column.codes_nbytes < default.codes_nbytes
    compressor = cudf_fsst.Compressor(level="max", codec="fsst")
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
    with pytest.raises(TypeError, match="dtype str, this one is int64"):
        compressor.append(pd.Series([1]))
    with pytest.raises(AttributeError, match="complex128"):
        compressor.append(pd.Series([1j]))
    with pytest.raises(TypeError, match="make a CompressedColumn, this one a CompressedFrame"):
        compressor.append(pd.DataFrame({"a": [1]}))
    with pytest.raises(TypeError, match="codecs is for DataFrames"):
        cudf_fsst.Compressor(codecs={}).append(words(5))
    with pytest.raises(TypeError, match="not list"):
        compressor.append(["a"])
    assert len(compressor.finish()) == 5
    for method in (compressor.finish, lambda: compressor.append(words(5))):
        with pytest.raises(ValueError, match="finished"):
            method()


@pytest.mark.parametrize(
    ("pieces", "options", "error", "message"),
    [
        ([{"a": [1]}, {"b": [1]}], {}, ValueError, r"so far have columns \['a'\], this one has \['b'\]"),
        ([{"a": [1]}, {"a": [1.5]}], {}, TypeError, "column 'a': the pieces so far are of dtype int64, this one is f"),
        (
            [{"a": [Decimal(1)]}, {"a": [date(2020, 1, 1)]}],
            {},
            TypeError,
            "^column 'a': the pieces so far are of Arrow",
        ),
        ([{"a": ["x"]}], {"codec": "onpair"}, TypeError, "codecs= names those of a DataFrame"),
        ([{"a": ["x"]}], {"table": SymbolTable((b"x",))}, TypeError, "table is for columns of strings"),
    ],
)
def test_compressor_refuses_frames(pieces, options, error, message: str) -> None:
    *first, last = (pd.DataFrame(piece) for piece in pieces)
    compressor = cudf_fsst.Compressor(**options)
    for piece in first:
        compressor.append(piece)
    with pytest.raises(error, match=message):
        compressor.append(last)


def test_objects_of_several_arrow_types() -> None:
    """What is missing alone is of any type, also behind other pieces; equal categories may be of several, too."""
    nothing, one, other = ([None], [Decimal(1)], [date(2020, 1, 1)])
    compressor = cudf_fsst.Compressor()
    for values in (nothing, one, nothing, one):
        compressor.append(pd.Series(values, dtype=object))
    with pytest.raises(TypeError, match=r"^the pieces so far are of Arrow type decimal.*, this one is date32"):
        compressor.append(pd.Series(other, dtype=object))
    assert compressor.finish().decompress().tolist() == [None, Decimal(1), None, Decimal(1)]
    for pair in ((one, other), map(pd.Categorical, (one, [Decimal("1.0")]))):
        columns = [pd.Series(values, dtype=getattr(values, "dtype", object)).fsst.compress() for values in pair]
        assert columns[0].dtype == columns[1].dtype
        with pytest.raises(TypeError, match=r"^columns: several Arrow types, "):
            cudf_fsst.concat(columns)


def test_lists_of_too_many_values() -> None:
    lists = pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int8()))).fsst.compress()
    node = lists._content.node
    long = replace(node, children=(replace(node.children[0], rows=2**31 - 2),))
    with pytest.raises(ValueError, match=r"^some: lists of 2147483648 values together"):
        joining.join_columns([[node, long]], lists._backend, ["some"])


def test_pieces_outlive_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of work are in them: whatever fails, it can be tried again."""
    parts = [words(60, seed=1), words(30, seed=2)]
    compressor = cudf_fsst.Compressor()
    compressor.append(parts[0])

    def no_memory(*_args: object, **_options: object) -> None:
        raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr("cudf_fsst.codecs.text.cpu.compress", no_memory)
        with pytest.raises(MemoryError, match="none left"):
            compressor.append(parts[1])
    compressor.append(parts[1])
    with monkeypatch.context() as patch:
        patch.setattr("cudf_fsst.interop.pandas.concat_labels", no_memory)
        with pytest.raises(MemoryError, match="none left"):
            compressor.finish()
    pd.testing.assert_series_equal(compressor.finish().decompress(), pd.concat(parts))


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
