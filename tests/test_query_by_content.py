"""Calls that pandas answers by what all rows have, asked piece by piece and of distinct values."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

import cudf_fsst
from column_cases import DTYPES
from cudf_fsst import selection
from query_cases import Call, check, method, name_of

#: With each reason that pandas has to look at all rows, and some without. RE2 and `re` differ about plain rows as well:
#: in what a repetition without a least number is, in matches of nothing, and in brackets in brackets.
PATTERNS = (r"^\w$", r"\bx\b", "a$", "(?i)k", r"x\.", r"\w*", r"x{,1}\d", r"x{,1}$", r"\b", r"[[:alpha:]]\w")
CALLS: list[Call] = [
    *(method(name, pattern) for name in ("contains", "match", "fullmatch", "count") for pattern in PATTERNS),
    *(method("replace", pattern, "<>", regex=True) for pattern in PATTERNS),
    method("replace", r"\w", lambda found: found[0].upper(), regex=True),
    method("replace", re.compile(r"\w$"), "<>", regex=True),
    method("contains", re.compile(r"\d$")),
    method("contains", re.compile(r"\w"), case=False),
    method("contains", r"a$|\d", case=False),
    method("find", "x", 1, 3),
    method("findall", r"\w"),
    method("split", r"\W", regex=True),
]
#: Rows about which RE2 and `re` differ, and others; then what the last row alone has.
ODD = ["a\n", "x", "ax", "xa x.", "a", "1", "", "K", "\u212a"]
LAST = {"ascii": "a", "character": "é1", "newline": "\n", "both": "٣a\n"}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 1024)


@pytest.mark.sampled(4)
@pytest.mark.covering(2)
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
@pytest.mark.parametrize("odd", [False, True], ids=["plain", "odd"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_the_last_row_alone(dtype: Any, odd: bool, last: str, subtests: Any) -> None:
    """Its piece is answered as all others are."""
    rows: list[str | None] = [row for row in ODD if odd or (row.isascii() and "\n" not in row)]
    series = pd.Series([*rows, None] * 90 + [last], dtype=dtype, name="text")
    column = series.fsst.compress(codec="fsst")
    assert len(column._default_pieces()) > 1
    for call in CALLS:
        with subtests.test(name_of(call)):
            check(column, call, name_of(call))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_dictionaries(last: str, subtests: Any) -> None:
    """Rows with one, and rows of which some have one."""
    rows: list[str | None] = [*(row for row in ODD if row.isascii() and "\n" not in row), None] * 90
    first = pd.Series([*rows, last], dtype="str", name="text").fsst.compress(codec="dict")
    plain = pd.Series(rows, dtype="str", name="text").fsst.compress(codec="fsst")
    for column in (first, cudf_fsst.concat([plain, first])):
        for call in CALLS:
            with subtests.test(name_of(call)):
                check(column, call, name_of(call))
