"""Dictionaries of pieces that become one, where that is smaller."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudf_fsst
from column_cases import DTYPES
from cudf_fsst.codecs.dict import cpu_merge, plan
from cudf_fsst.parquet import sources

STR = pd.StringDtype(na_value=np.nan)


def paths(rows: int, count: int = 500, first: int = 0, seed: int = 0) -> list[str | None]:
    """Rows of at most `count` values, a few of them missing."""
    numbers = np.random.default_rng(seed).integers(first, first + count, rows)
    return [None if i % 61 == 60 else f"/usr/share/doc/package-{n % 37}/{n}.txt" for i, n in enumerate(numbers)]


def parts_of(column: Any) -> list[Any]:
    return list(column._content.node.segments)


def concat(parts: list[pd.Series], codec: str | None = None) -> Any:
    return cudf_fsst.concat([part.fsst.compress(codec=codec) for part in parts])


@pytest.mark.parametrize("dtype", [*DTYPES.values(), pd.ArrowDtype(pa.binary())], ids=[*DTYPES, "binary"])
def test_pieces_take_what_one_call_takes(dtype: Any) -> None:
    rows = [
        value if value is None or dtype != pd.ArrowDtype(pa.binary()) else value.encode() for value in paths(60_000)
    ]
    whole = pd.Series(rows, dtype=dtype, name="path")
    one = whole.fsst.compress()
    assert one.codec == "dict"
    parts = [whole.iloc[at : at + 6000] for at in range(0, 60_000, 6000)]
    compressor = cudf_fsst.Compressor()
    for part in parts:
        compressor.append(part)
    for joined in (concat(parts), compressor.finish(), concat([parts[0], concat(parts[1:]).decompress()])):
        assert len(parts_of(joined)) == 1
        assert joined.nbytes <= 1.01 * one.nbytes
        pd.testing.assert_series_equal(joined.decompress(), whole)
        pd.testing.assert_series_equal(joined.value_counts(), whole.value_counts())


def test_values_that_are_known_are_shared() -> None:
    """Nothing is encoded again but codes."""
    parts = [pd.Series(["AIR", "MAIL", "SHIP"] * 2000), pd.Series(["SHIP", "AIR", None, "MAIL"] * 2000)]
    columns = [part.fsst.compress() for part in parts]
    (part,) = parts_of(cudf_fsst.concat(columns))
    (first,) = parts_of(columns[0])
    assert part.values is first.values
    assert part.null_count == 2000


def test_codes_grow() -> None:
    """From one byte to two and four, which pays as long as the values repeat."""
    sizes = {200: 2000, 5000: 20_000, 90_000: 200_000}
    parts = [pd.Series(paths(rows, count, seed=count)) for count, rows in sizes.items()]
    joined = concat(parts, "dict")
    kinds = [part.indices.type for part in parts_of(joined)]
    assert kinds == [pa.uint32()], kinds
    assert joined.decompress().equals(pd.concat(parts))


def test_what_would_be_larger_stays_apart() -> None:
    """Two dictionaries without a common value, and a piece that does not repeat."""
    few, others = pd.Series(paths(6000, 4)), pd.Series(paths(6000, 4, first=100))
    unique = pd.Series([f"{i} of {i * i}" for i in range(6000)])
    joined = concat([few, others, few, unique, few, few])
    assert [not part.children for part in parts_of(joined)] == [False, False, False, True, False]
    assert joined.decompress().equals(pd.concat([few, others, few, unique, few, few]))


def test_bytes_do_not_depend_on_how_many_values_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [pd.Series(paths(5000, 300, first=50 * at, seed=at)) for at in range(12)]
    found = []
    for nbytes in (1, 20_000, 1 << 26):
        monkeypatch.setattr(cpu_merge, "_VALUES_NBYTES", nbytes)
        joined = concat(parts)
        found.append([bytes(memoryview(part.codes)) for part in joined._content.node.parts])
        assert joined.decompress().equals(pd.concat(parts))
    assert found[0] == found[1] == found[2]


@settings(max_examples=60)
@given(st.data())
def test_any_pieces(data: st.DataObject) -> None:
    """Random values, nulls and cuts, merged and merged again, are the rows of one call; sizes never grow."""
    words = data.draw(st.lists(st.text(max_size=9) | st.none(), min_size=1, max_size=40))
    sizes = data.draw(st.lists(st.integers(0, 700), min_size=1, max_size=8))
    numbers = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, len(words), sum(sizes))
    whole = pd.Series([words[i] for i in numbers], dtype=STR)
    edges = np.cumsum([0, *sizes]).tolist()
    parts = [whole.iloc[a:b] for a, b in pairwise(edges)]
    columns = [part.fsst.compress(codec="dict") for part in parts]
    joined = cudf_fsst.concat(columns)
    at = data.draw(st.integers(1, len(columns)))
    again = cudf_fsst.concat([cudf_fsst.concat(columns[:at]), *columns[at:]])
    for one in (joined, again):
        pd.testing.assert_series_equal(one.decompress(), whole)
        assert one.nbytes <= sum(column.nbytes for column in columns) + 300
    rows = np.random.default_rng(1).permutation(len(whole))[:50]
    pd.testing.assert_series_equal(joined.take(rows), whole.iloc[rows])
    pd.testing.assert_series_equal(joined == "a", whole == "a")


def test_nested_strings_and_labels(tmp_path: Path) -> None:
    texts = paths(12_000)
    frame = pd.DataFrame(
        {
            "lists": pd.Series([[value] for value in texts], dtype=pd.ArrowDtype(pa.list_(pa.string()))),
            "structs": pd.Series([{"a": value} for value in texts], dtype=pd.ArrowDtype(pa.struct({"a": pa.string()}))),
        },
    )
    frame.index = pd.Index([value or "none" for value in texts], name="label")
    joined = cudf_fsst.concat([frame.iloc[:6000].fsst.compress(), frame.iloc[6000:].fsst.compress()])
    whole = frame.fsst.compress()
    assert joined.codecs.to_dict() == whole.codecs.to_dict()
    assert joined.nbytes <= 1.02 * whole.nbytes
    joined.save(tmp_path / "f")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "f").decompress(), frame)


@pytest.mark.parametrize("rows", [5000, 12_288, 30_000])
def test_row_groups_of_any_size(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file takes what one call takes, however it was written, and pieces were cut."""
    table = pa.table({"path": paths(30_000), "n": range(30_000)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=rows)
    one = table.to_pandas().fsst.compress()
    for most in (1, 1 << 21):
        monkeypatch.setattr(sources, "_FEW_ROWS", most)
        found = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu")
        assert found.codecs["path"] == "dict"
        assert found.column("path").nbytes <= 1.03 * one.column("path").nbytes
        assert found.to_arrow()["path"].to_pylist() == table["path"].to_pylist()


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [pd.Series(paths(5000, seed=seed)).fsst.compress() for seed in (1, 2, 3)]
    chars = parts_of(columns[0])[0].chars
    for name, limit in (("_MOST_MERGED_CHARS", int(2.5 * chars)), ("_MAX_ROWS", 12_000)):
        with monkeypatch.context() as patched:
            patched.setattr(plan, name, limit)
            assert [part.rows for part in parts_of(cudf_fsst.concat(columns))] == [10_000, 5000]
