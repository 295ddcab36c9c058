"""Dictionaries with nulls among their values: such rows are null to all that asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cudf_fsst
import reference_frame_reader
from cudf_fsst.cli.facts import facts_of
from cudf_fsst.codecs.node import Node
from cudf_fsst.files import trees
from cudf_fsst.frame import of_column
from cudf_fsst.interop import arrow_columns

CODES = pa.array([0, 1, None, 2, 1] * 300, pa.int16())
VALUES: dict[str, pa.Array] = {
    "texts": pa.array(["a", None, "b"]),
    "numbers": pa.array([5, None, 7]),
    "several": pa.array([None, "b", None]),
    "one": pa.array(["a", "b", None]),
    "all": pa.nulls(3, pa.string()),
    "no type": pa.nulls(3),
    "views": pa.array(["a", None, "b"], pa.string_view()),
    "lists": pa.array([[1], None, []]),
    "structs": pa.array([{"a": None}, None, {"a": "b"}]),
}
NOT_IN_PARQUET = {"views", "lists", "structs"}  # nor are their dictionaries without nulls


def array_of(name: str) -> Any:
    return pa.DictionaryArray.from_arrays(CODES, VALUES[name], ordered=name == "texts")


@pytest.mark.parametrize("name", VALUES)
def test_every_question(name: str, tmp_path: Path) -> None:
    array = array_of(name)
    values = array.to_pylist()
    missing = [value is None for value in values]
    chunks = pa.chunked_array([array[:700], array[700:700], array[700:]])
    data = pd.Series(pd.arrays.ArrowExtensionArray(chunks), name="k")
    for column in (cudf_fsst.compress(array), cudf_fsst.compress(chunks), data.fsst.compress()):
        assert column.null_count == sum(missing)
        assert list(column.isna()) == missing
        assert list(column.notna()) == [not one for one in missing]
        assert column.count() == len(values) - sum(missing)
        assert column.to_arrow().to_pylist() == values
        assert column.to_arrow().type == array.type
        assert column.decompress().isna().to_list() == missing

    frame = cudf_fsst.compress(pa.table({"k": chunks, "n": range(len(values))}))
    frame.save(tmp_path / "frame.fsst")
    every = [frame, cudf_fsst.load(tmp_path / "frame.fsst")]
    if name not in NOT_IN_PARQUET:
        frame.to_parquet(tmp_path / "ours.parquet")
        every.append(cudf_fsst.read_parquet(tmp_path / "ours.parquet"))
    for one in every:
        assert one.to_arrow()["k"].to_pylist() == values
        assert one.to_arrow()["k"].null_count == sum(missing)
        assert one.null_count["k"] == sum(missing)
        assert one.groupby(one.column("k").isna())["n"].count().to_list() == [
            count for count in (missing.count(False), missing.count(True)) if count
        ]
        dataset = one.dataset()
        assert dataset.count_rows(pc.field("k").is_null()) == sum(missing)
        assert dataset.count_rows(pc.field("k").is_valid()) == missing.count(False)


def test_engines() -> None:
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    table = pa.table({"k": array_of("texts"), "n": range(len(CODES))})
    frame = cudf_fsst.compress(table)
    there = pl.col("k").is_null(), pl.col("k").eq_missing(None), pl.col("k").is_not_null(), pl.col("k") == "a"
    for asked in there:
        wanted = pl.DataFrame(table).filter(asked)["n"].to_list()
        assert frame.lazy().filter(asked).select("n").collect()["n"].to_list() == wanted
        assert frame.lazy(where=asked).select("n").collect()["n"].to_list() == wanted
    asked = "select k, count(*), count(k) from data where k is null or k = 'a' group by k order by k"
    found, wanted = (duckdb.from_arrow(one).query("data", asked).fetchall() for one in (frame.dataset(), table))
    assert found == wanted


def test_group_by_and_sort() -> None:
    """As of the same rows whose dictionary has no nulls."""
    plain = array_of("texts").cast(pa.string()).dictionary_encode()
    plain = pa.DictionaryArray.from_arrays(plain.indices.cast(pa.int16()), plain.dictionary, ordered=True)
    frame, wanted = (
        pd.DataFrame({"k": pd.arrays.ArrowExtensionArray(one), "n": range(len(CODES))}).fsst.compress()
        for one in (array_of("texts"), plain)
    )
    for dropna in (True, False):
        found = frame.groupby("k", dropna=dropna)["n"].sum()
        pd.testing.assert_series_equal(found, wanted.groupby("k", dropna=dropna)["n"].sum())
    assert frame.column("k").value_counts().equals(wanted.column("k").value_counts())
    assert frame.column("k").nunique() == wanted.column("k").nunique() == 2
    assert len(frame.dropna()) == len(wanted.dropna()) == 600


@pytest.mark.parametrize("nested", ["list", "struct", "categories"])
def test_within_others(nested: str) -> None:
    codes = array_of("texts")
    if nested == "list":
        array: Any = pa.ListArray.from_arrays(pa.array(range(len(codes) + 1), pa.int32()), codes)
    elif nested == "struct":
        array = pa.StructArray.from_arrays([codes], ["k"])
    else:
        array = pa.DictionaryArray.from_arrays(pa.array(range(len(codes)), pa.int32()), codes)
    values = array.to_pylist()
    column = cudf_fsst.compress(array)
    assert column.to_arrow().to_pylist() == values
    assert not any(
        one.children[0].null_count for one in nodes(column._content.node) if pa.types.is_dictionary(one.type)
    )
    assert list(column.isna()) == [value is None for value in values]


def nodes(node: Node) -> list[Node]:
    return [node, *(one for child in node.children for one in nodes(child))]


@pytest.mark.parametrize("rows", [5, 3000])
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "b"]),
        pa.array([5, None, 7]),
        pa.nulls(3),
        pa.array([None, [1], None]),
        pa.array([*(f"word {i % 90}" for i in range(5000)), *[None] * 50, "end"]),
    ],
    ids=["texts", "numbers", "no type", "lists", "scopes"],
)
def test_files_that_have_such(values: Any, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as they were written before rows became null on their way in."""
    monkeypatch.setattr(trees, "_WINDOW_ROWS", 1024)
    codes = pa.array([None if i % 7 == 0 else i * 11 % len(values) for i in range(rows)], pa.int16())
    array = pa.DictionaryArray.from_arrays(codes, values)
    with monkeypatch.context() as before:
        before.setattr(arrow_columns, "without_null_values", lambda one: one)
        column = cudf_fsst.compress(array)
    assert column.null_count == codes.null_count
    column.save(tmp_path / "old.fsst")
    found, wanted = cudf_fsst.load(tmp_path / "old.fsst"), array.to_pylist()
    missing = [value is None for value in wanted]
    assert found.to_arrow().to_pylist() == wanted
    assert found.null_count == sum(missing)
    assert sum(missing) > codes.null_count or len(values) > rows
    assert list(found.isna()) == missing
    assert facts_of(tmp_path / "old.fsst") == facts_of(tmp_path / "old.fsst", check=True)
    [(_, read)] = reference_frame_reader.read(tmp_path / "old.fsst")
    assert read == wanted
    frame = of_column(found, "k")
    assert frame.dataset().count_rows(pc.field("k").is_null()) == sum(missing)
    found.save(tmp_path / "new.fsst")
    assert cudf_fsst.load(tmp_path / "new.fsst").null_count == sum(missing)
