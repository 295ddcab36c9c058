"""``replace``, ``extract``, ``findall`` with a pattern, of rows that match it, and ``split``: as pandas answers."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

import cudf_fsst
from column_cases import DTYPES
from cudf_fsst.query.text import has_python_strings
from query_cases import Call, check, method, name_of, small_pieces

__all__ = ["small_pieces"]

PATTERNS = ("f[a-z]+y", r"(?P<one>f\w+) (\d*)", r"\bé\w*$", "(?i)(FUR|x)", r"q{,2}\d$", "no such text", ".", r"^$")
CALLS: list[Call] = [
    *(method("replace", pattern, r"<\g<0>>", regex=True) for pattern in PATTERNS),
    *(method("replace", pattern, "", n=1, regex=True) for pattern in PATTERNS),
    *(method("extract", pattern) for pattern in PATTERNS),
    *(method("extract", pattern, expand=False) for pattern in PATTERNS),
    *(method("findall", pattern) for pattern in PATTERNS),
    *(method("split", pattern, regex=True) for pattern in PATTERNS[:-1]),  # Arrow's splits by nothing have no end
    *(method("split", pattern, n=1) for pattern in PATTERNS[:-1]),
    method("replace", "FURRY", "x", case=False, regex=True),
    method("replace", re.compile("FURRY", re.IGNORECASE), "x", regex=True),
    method("replace", re.compile("a"), "x", case=False, regex=True),
    method("replace", "f(.*)y", lambda found: found[1].upper(), regex=True),
    method("replace", "f(urry", "", regex=True),
    method("extract", "(furry)", flags=re.IGNORECASE),
    method("extract", re.compile("(f.*) (.*)", re.DOTALL)),
    method("findall", "FURRY", re.IGNORECASE),
    method("split", "f", regex=True),
    method("split", "rr"),
    method("split", re.compile("u.")),
    method("split", "rr", expand=True),
]
TEXTS: list[str | None] = ["furry 12", "", "the quick fox", "qqq7", "éa", "FURRY\n", "x", "flay ", "lazy dogs"]


def of_dtype(rows: list[str | None], dtype: Any) -> pd.Series:
    index = pd.Index([f"r{i}" for i in range(len(rows))], name="labels")
    return pd.Series(rows, index=index, dtype=dtype, name="text")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [[*TEXTS, *["more of the same"] * 30] * 20, [*TEXTS, None] * 40, ["fury"], []])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_answers(dtype: Any, rows: list[str | None], subtests: Any) -> None:
    series = of_dtype(rows, dtype)
    for column in (series.fsst.compress(codec="fsst"), cudf_fsst.concat([series.fsst.compress(codec="dict")] * 2)):
        for call in CALLS:
            with subtests.test(name_of(call)):
                check(column, call, name_of(call))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_rows_that_do_not_match_are_not_asked(dtype: Any) -> None:
    series = of_dtype(["a furry dog", None, "a lazy dog", "none"] * 300, dtype)
    column = series.fsst.compress(codec="fsst")
    python = has_python_strings(series.dtype)
    calls = [method("replace", "fur+y", "x", regex=True)] if python else []
    calls += [] if isinstance(series.dtype, pd.ArrowDtype) else [method("findall", "fur+y")]
    calls += [] if python and series.dtype != object else [method("extract", "(fur+y)")]
    for call in calls:
        (way,) = check(column, call, name_of(call))
        assert way.endswith(": codes, 300 rows that may match"), way
    for call in (method("replace", "[a-z]", "x", regex=True), method("findall", "[a-z]"), method("extract", "(.)")):
        (way,) = check(column, call, name_of(call))
        assert "decoded" in way, way


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_rows_are_taken_piece_by_piece(dtype: Any) -> None:
    """As many rows at a time as a piece has; the answer is that of all."""
    rows: list[str | None] = [None, "a lazy dog", "fury one", "none", "a furry dog", "nothing"] * 3000
    column = of_dtype(rows, dtype).fsst.compress(codec="fsst")
    assert len(column._default_pieces()) > 2
    ways = []
    for call in [*CALLS[:32:8], method("extract", "(fur+y) (d.*)?"), method("findall", "fur+y")]:
        ways += check(column, call, name_of(call))
    if dtype == DTYPES["object"]:
        assert sum("codes, 6000 rows" in way for way in ways) >= 2, ways
