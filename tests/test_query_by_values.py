"""Methods of columns with dictionaries: asked once a distinct value, with the answers of all rows."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from column_cases import DTYPES
from cudf_fsst.query import decoded
from query_cases import COMPARISONS, ITEMS, METHODS, Call, check, compared, method, name_of
from test_query import SHAPES, series_of

#: What is not a value for each row, or is asked of the codes, or of rows that are all missing.
CALLS: list[Call] = [*(call for calls in METHODS.values() for call in calls), *ITEMS, *COMPARISONS]


def coded(shape: str, dtype: Any, pieces: int) -> Any:
    """A column of dictionaries: as many as there are pieces."""
    series = series_of(SHAPES[shape], dtype)
    step = -(-len(series) // pieces) or 1
    parts = [series.iloc[at : at + step].fsst.compress(codec="dict") for at in range(0, max(len(series), 1), step)]
    return parts[0] if pieces == 1 else cudf_fsst.concat(parts)


@pytest.mark.sampled(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("shape", ["nulls", "no nulls", "nulls at the end", "all null", "one"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_answers(dtype: Any, shape: str, pieces: int, monkeypatch: pytest.MonkeyPatch, subtests: Any) -> None:
    monkeypatch.setattr(decoded, "_HOST_ROWS", 129)  # of several windows
    column = coded(shape, dtype, pieces)
    for call in CALLS:
        with subtests.test(name_of(call)):
            check(column, call, name_of(call))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_values_are_decoded_once(dtype: Any) -> None:
    for shape in ("nulls", "no nulls"):
        column = coded(shape, dtype, 1)
        values = column.nunique()
        for call in (
            method("upper"),
            method("findall", "q.*k"),
            method("count", "[a-t]"),
            method("split", " "),
            method("slice", 1, 5),
            lambda data: data.str[-1],
        ):
            (way,) = check(column, call, name_of(call))
            assert way.endswith(f"decoded {values} distinct values"), way
        for call in (
            method("contains", "q.*k"),
            method("contains", "THE", case=False),
            method("match", "[a-t]"),
            compared("<", "o"),
            lambda data: data.between("b", "t"),
        ):
            (way,) = check(column, call, name_of(call))
            assert way.endswith(": codes"), way


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_dictionary_for_each_scope(dtype: Any, rng: np.random.Generator) -> None:
    words = np.array([f"word {number:04}" for number in range(60)], object)
    rows = np.concatenate([words[first + rng.integers(0, 20, 800)] for first in (0, 20, 40)])
    rows[5::17] = None
    column = pd.Series(rows).astype(dtype).fsst.compress(codec="dict")
    counts = [part.values.rows for part in column._content.node.segments]
    assert len(counts) >= 3
    assert max(counts) < 60
    for call in (method("upper"), method("slice", 5, 8), method("findall", "[1-3]"), method("count", "0")):
        check(column, call, name_of(call))


def test_functions_are_called_for_every_row() -> None:
    column = coded("nulls", "str", 1)
    calls = 0

    def count(found: Any) -> str:
        nonlocal calls
        calls += 1
        return str(calls)

    found = column.str.replace("e", count, regex=True)
    calls = 0
    pd.testing.assert_series_equal(found, column.decompress().str.replace("e", count, regex=True))


def test_rows_share_no_list() -> None:
    series = pd.Series(["a b", "c", "a b", None] * 50)
    found = series.fsst.compress(codec="dict").str.split(" ")
    found.iloc[0].append("more")
    assert found.iloc[2] == ["a", "b"]


def test_categories_are_let_go_of() -> None:
    def ask() -> None:
        column = pd.Series([f"category {number}" for number in range(997)], dtype="category").fsst.compress()
        assert len(column.str.upper()) == len(column)

    ask()
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is pd.Index and len(one) == 997]


def test_bytes() -> None:
    series = pd.Series([b"\xff", b"", None, b"\xff\x00"] * 50, dtype=pd.ArrowDtype(pa.binary()))
    column = series.fsst.compress(codec="dict")
    check(column, compared("<", b"\xff\x00"))
    check(column, lambda data: data.between(b"", b"\xff"))
