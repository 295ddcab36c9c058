"""Questions about columns: the same answers as the decompressed Series gives, whichever way they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from column_cases import DTYPES
from query_cases import COMPARISONS, ITEMS, METHODS, check, name_of, small_pieces

__all__ = ["small_pieces"]

WORDS = ["the", "quick", "sleep", "easy", "e", "", "é", "日本語", "tea", "aaa", "ababa", "a\nb", "x\x00y", "THE", "12"]


def texts(rows: int, *, nulls: bool = True, ascii_only: bool = False) -> list[str | None]:
    rng = np.random.default_rng(7)
    words = [word for word in WORDS if word.isascii()] if ascii_only else WORDS
    made: list[str | None] = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(rows)]
    if nulls:
        made[1::5] = [None] * len(made[1::5])
    return made


SHAPES: dict[str, Any] = {
    "nulls": texts(900),
    "no nulls": texts(700, nulls=False),
    "ascii": texts(900, ascii_only=True),
    "nulls at the end": [*texts(520, nulls=False), *[None] * 520],
    "all null": [None] * 300,
    "empty": [],
    "one": ["sleep"],
}


def series_of(values: list[str | None], dtype: Any) -> pd.Series:
    labels = pd.Index([f"row {i}" for i in range(len(values))], name="label")
    return pd.Series(values, dtype=dtype, index=labels, name="words")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_methods(dtype: Any, shape: str, small_pieces: None, subtests: Any) -> None:
    column = series_of(SHAPES[shape], dtype).fsst.compress()
    for name, calls in METHODS.items():
        with subtests.test(name):
            for call in calls:
                check(column, call, name_of(call))
    with subtests.test("items"):
        for call in ITEMS:
            check(column, call)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_comparisons(dtype: Any, shape: str, small_pieces: None, subtests: Any) -> None:
    column = series_of(SHAPES[shape], dtype).fsst.compress()
    for call in COMPARISONS:
        with subtests.test(name_of(call)):
            check(column, call, name_of(call))


def test_every_method_is_in_the_table() -> None:
    public = {name for name in dir(pd.Series([""]).str) if not name.startswith("_")}
    assert public == set(METHODS)
    column = pd.Series([""]).fsst.compress()
    assert public | {"like", "byte_count"} <= set(dir(column.str))
