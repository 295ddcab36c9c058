"""Calls on columns, and the one checker that compares them with the same calls on the decompressed Series.

The same tables serve pandas and cuDF.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cudf_fsst import selection
from cudf_fsst.query.source import LOGGER

Call = Callable[[Any], Any]


@dataclass
class Outcome:
    """What a call gave, or the error it raised, and which ways it went."""

    value: Any = None
    error: Exception | None = None
    ways: list[str] = field(default_factory=list)


@contextmanager
def ways() -> Iterator[list[str]]:
    """What the logger says of calls: "name: way"."""
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler, level = Handler(), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield said
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def outcome(call: Call, data: Any) -> Outcome:
    with ways() as said:
        try:
            return Outcome(call(data), ways=said)
        except Exception as error:
            return Outcome(error=error, ways=said)


def without_addresses(error: BaseException) -> str:
    """The text of an error, which may name objects by where they are."""
    return re.sub("0x[0-9a-f]+", "0x", str(error))


def check(column: Any, call: Call, what: str = "") -> list[str]:
    """Compare a call on a column with one on its Series; returns which way it went."""
    wanted, found = outcome(lambda packed: call(packed.decompress()), column), outcome(call, column)
    if wanted.error is not None:
        assert found.error is not None, (what, wanted.error)
        assert type(found.error) is type(wanted.error), (what, found.error, wanted.error)
        assert without_addresses(found.error) == without_addresses(wanted.error), what
        return found.ways
    if found.error is not None:
        raise AssertionError(f"{what}: {found.error!r}") from found.error
    same(found.value, wanted.value, what)
    return found.ways


def same(found: Any, wanted: Any, what: str = "") -> None:
    """Of the same type, dtype and values, missing values of the same kind, with equal labels and names."""
    assert type(found) is type(wanted), (what, type(found), type(wanted))
    if not hasattr(wanted, "dtype") and not hasattr(wanted, "dtypes"):
        assert found == wanted, what
        return
    if type(wanted).__module__.startswith("cudf"):
        for one in ("dtype", "name") if hasattr(wanted, "dtype") else ():
            assert repr(getattr(found, one)) == repr(getattr(wanted, one)), what
        found, wanted = found.to_pandas(), wanted.to_pandas()
    if isinstance(wanted, pd.Series):
        assert repr(found.dtype) == repr(wanted.dtype), (what, found.dtype, wanted.dtype)
        # pandas compares labels one by one, which takes longer than all else here.
        alike = type(found.index) is type(wanted.index) and found.index.identical(wanted.index)
        pd.testing.assert_series_equal(found, wanted, check_index=not alike, obj=what)
        if wanted.dtype == object:
            assert [type(value) for value in found] == [type(value) for value in wanted], what
        if not alike:
            pd.testing.assert_index_equal(found.index, wanted.index, exact=True)
        assert list(found.index.names) == list(wanted.index.names)
    elif isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted, obj=what)
    elif isinstance(wanted, pd.Index):
        pd.testing.assert_index_equal(found, wanted, obj=what)
    else:
        assert np.array_equal(found, wanted), what


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded pieces are as short as they can be."""
    monkeypatch.setattr(selection, "_PIECE_NBYTES", 1)
    monkeypatch.setattr(selection, "_PIECES", 1 << 60)


# Calls --------------------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    if isinstance(value, (str, int, float, tuple, dict, list, type(None))):
        return "(" + ", ".join(map(shown, value)) + ")" if isinstance(value, tuple) else repr(value)[:60]
    return type(value).__name__


def method(name: str, *args: Any, **options: Any) -> Call:
    def call(data: Any) -> Any:
        return getattr(data.str, name)(*args, **options)

    call.__name__ = f"{name}{shown(args)}{shown(options)}"
    return call


def compared(sign: str, other: Any) -> Call:
    how = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}.get(
        sign, operator.ge
    )

    def call(data: Any) -> Any:
        return how(data, other(data) if callable(other) else other)

    call.__name__ = f"{sign} {shown(other)}"
    return call


def asked(name: str, *args: Any, **options: Any) -> Call:
    def call(data: Any) -> Any:
        return getattr(data, name)(*args, **options)

    call.__name__ = f"{name}{shown(args)}{shown(options)}"
    return call


#: Of patterns: "ea" is in many rows, "zq" in none.
PATTERNS = [
    "ea",
    "e",
    "",
    "zq",
    "é",
    "日本",
    "a.",
    "^s",
    "[",
    "(e)",
    "x" * 60,
    "the quick",
    "\x00",
    "aa",
    "aba",
    "\n",
    "$",
]
#: Arguments of every public method of strings that one of the libraries has.
METHODS: dict[str, list[Call]] = {
    "capitalize": [method("capitalize")],
    "casefold": [method("casefold")],
    "cat": [
        method("cat"),
        method("cat", sep="-"),
        method("cat", sep="-", na_rep="?"),
        lambda data: data.str.cat(["x"] * len(data), sep="-"),
    ],
    "center": [method("center", 12), method("center", 12, "*"), method("center", "no")],
    "contains": [
        *(method("contains", pattern, regex=regex) for pattern in PATTERNS for regex in (True, False)),
        method("contains", "EA", case=False),
        method("contains", "EA", case=False, regex=False),
        method("contains", "ea", flags=re.IGNORECASE),
        method("contains", "ea", na=True),
        method("contains", "ea", na=False),
        method("contains", "ea", na=None),
        method("contains", "ea", na=np.nan),
        method("contains", "ea", na="odd"),
        method("contains", "ea", True, 0, False, False),
        method("contains", re.compile("ea")),
        method("contains", re.compile("EA", re.IGNORECASE)),
        method("contains", 3),
        method("contains", None),
        method("contains"),
        method("contains", "ea", what=1),
        method("contains", "ea", pat="ea"),
        method("contains", b"ea"),
        method("contains", ["ea", "e"]),
        method("contains", "\ud800"),
        method("contains", pat="ea"),
        method("contains", np.str_("ea")),
    ],
    "count": [
        *(method("count", pattern) for pattern in PATTERNS),
        method("count", "EA", flags=re.IGNORECASE),
        method("count", 3),
    ],
    "decode": [method("decode", "utf-8")],
    "encode": [method("encode", "utf-8"), method("encode", "ascii", "ignore"), method("encode", "ascii")],
    "endswith": [
        *(method("endswith", pattern) for pattern in PATTERNS),
        method("endswith", ("s", ".", "é")),
        method("endswith", ("s", "")),
        method("endswith", ()),
        method("endswith", ["s"]),
        method("endswith", "s", na=True),
        method("endswith", "s", na=False),
        method("endswith", 3),
        method("endswith", ("s", 3)),
    ],
    "extract": [method("extract", "(e)(.)"), method("extract", "(e)", expand=False), method("extract", "e")],
    "extractall": [method("extractall", "(e)(.)")],
    "find": [
        *(method("find", pattern) for pattern in PATTERNS),
        method("find", "e", 2),
        method("find", "e", 1, 5),
        method("find", "e", start=0, end=None),
        method("find", "e", None),
        method("find", 3),
        method("find", "e", "x"),
    ],
    "findall": [method("findall", "e"), method("findall", "e."), method("findall", "E", flags=re.IGNORECASE)],
    "fullmatch": [
        *(method("fullmatch", pattern) for pattern in [*PATTERNS, "sleep", "s.*"]),
        method("fullmatch", "SLEEP", case=False),
        method("fullmatch", "sleep", na=False),
        method("fullmatch", 3),
    ],
    "get": [method("get", 0), method("get", -1), method("get", 400), method("get", "x")],
    "get_dummies": [method("get_dummies", " ")],
    "index": [method("index", "e"), method("index", "")],
    **{
        name: [method(name)]
        for name in ("isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper".split())
    },
    "join": [method("join", "-"), method("join", 3)],
    "len": [method("len"), method("len", 3)],
    "ljust": [method("ljust", 9, "*")],
    "lower": [method("lower")],
    "lstrip": [method("lstrip"), method("lstrip", "at")],
    "match": [
        *(method("match", pattern) for pattern in PATTERNS),
        method("match", "THE", case=False),
        method("match", "the", na=True),
        method("match", 3),
    ],
    "normalize": [method("normalize", "NFC"), method("normalize", "NFD"), method("normalize", "odd")],
    "pad": [method("pad", 9), method("pad", 9, side="both", fillchar="-"), method("pad", 9, side="odd")],
    "partition": [method("partition", " "), method("partition", " ", expand=False), method("partition", "")],
    "removeprefix": [method("removeprefix", "the")],
    "removesuffix": [method("removesuffix", "s")],
    "repeat": [method("repeat", 2), lambda data: data.str.repeat([1] * len(data))],
    "replace": [
        method("replace", "e", "EE"),
        method("replace", "e.", "?", regex=True),
        method("replace", "e", lambda found: found[0] * 2, regex=True),
        method("replace", {"e": "a", "q": "kw"}),
        method("replace", "E", "?", case=False),
    ],
    "rfind": [method("rfind", "e")],
    "rindex": [method("rindex", "")],
    "rjust": [method("rjust", 9)],
    "rpartition": [method("rpartition"), method("rpartition", expand=False)],
    "rsplit": [method("rsplit", " ", n=1), method("rsplit", " ", n=1, expand=True)],
    "rstrip": [method("rstrip"), method("rstrip", "s")],
    "slice": [method("slice", 1, 5), method("slice", step=2), method("slice", -3)],
    "slice_replace": [method("slice_replace", 1, 3, "-")],
    "split": [
        method("split"),
        method("split", " "),
        method("split", "e", n=1),
        method("split", " ", expand=True),
        method("split", "e.", regex=True),
    ],
    "startswith": [
        *(method("startswith", pattern) for pattern in PATTERNS),
        method("startswith", ("the", "a")),
        method("startswith", tuple("abcdefghijklm")),
        method("startswith", "the", na=False),
        method("startswith", pat="the"),
        method("startswith", None),
    ],
    "strip": [method("strip"), method("strip", "ts")],
    "swapcase": [method("swapcase")],
    "title": [method("title")],
    "translate": [method("translate", {101: "3", 97: None}), method("translate", str.maketrans("ae", "43"))],
    "upper": [method("upper")],
    "wrap": [method("wrap", 9)],
    "zfill": [method("zfill", 9)],
}
#: Others that go by ``.str``.
ITEMS: list[Call] = [
    lambda data: data.str[0],
    lambda data: data.str[-1],
    lambda data: data.str[1:7:2],
    lambda data: data.str["x"],
    lambda data: data.str.nobody,
    lambda data: data.str._private,
    lambda data: list(data.str),
]
#: Comparisons of strings.
COMPARISONS: list[Call] = [
    *(
        compared(sign, value)
        for sign in ("==", "!=")
        for value in (
            "sleep",
            "",
            "é",
            "x" * 60,
            "the quick",
            "zq",
            None,
            np.nan,
            pd.NA,
            pd.NaT,
            3,
            1.5,
            b"sleep",
            "\ud800",
            "\x00",
            np.str_("sleep"),
        )
    ),
    *(compared(sign, value) for sign in ("<", "<=", ">", ">=") for value in ("o", "", "日", None, np.nan, 3)),
    compared("==", lambda data: np.array(["sleep"] * len(data), dtype=object)),
    compared("!=", lambda data: ["sleep"] * len(data)),
    compared("==", lambda data: ("sleep",) * len(data)),
    compared("==", ["sleep"]),
    compared("<", lambda data: np.array(["o"] * len(data), dtype=object)),
    compared("==", np.array("sleep")),
    asked("isin", ["sleep"]),
    asked("isin", ["sleep", "", "é", "the quick brown", "zq"]),
    asked("isin", ["sleep", "slept", "slack"]),
    asked("isin", ["sleep", None]),
    asked("isin", ["sleep", np.nan]),
    asked("isin", ["sleep", pd.NA]),
    asked("isin", ["sleep", None, np.nan]),
    asked("isin", [None]),
    asked("isin", []),
    asked("isin", [3, 4]),
    asked("isin", ["sleep", 3]),
    asked("isin", {"sleep", "e"}),
    asked("isin", ("sleep", "e")),
    asked("isin", {"sleep": 1}),
    asked("isin", np.array(["sleep", "e"])),
    asked("isin", np.array(["sleep", None], dtype=object)),
    asked("isin", pd.Index(["sleep", "e"])),
    asked("isin", pd.Series(["sleep", None])),
    asked("isin", [f"w{i}" for i in range(100)] + ["sleep"]),
    asked("isin", "sleep"),
    asked("isin", 3),
    lambda data: data.isin(word for word in ("sleep", "e")),
    asked("isna"),
    asked("notna"),
    asked("between", "b", "t"),
    asked("between", "b", "t", "left"),
    asked("between", "b", "t", inclusive="odd"),
    asked("between", "b", 3),
    lambda data: data.between(["b"] * len(data), "t"),
]


def others(series: Any) -> list[Call]:
    """Comparisons of a Series of any dtype, with values of its own."""
    value, rest = series.iloc[len(series) // 2], series.iloc[[3, 7, len(series) - 1]]
    some = rest.to_pandas().tolist() if hasattr(rest, "to_pandas") else rest.tolist()
    later = series.iloc[::-1].reset_index(drop=True)
    return [
        *(compared(sign, value) for sign in ("==", "!=", "<", "<=", ">", ">=")),
        *(compared(sign, odd) for sign in ("==", "<") for odd in ("text", None, 2.5)),
        asked("isin", some),
        asked("isin", [*some, None]),
        asked("isin", ["text"]),
        asked("isin", rest),
        asked("between", value, value),
        asked("between", value, some[0], inclusive="neither"),
        asked("between", series, value),
        asked("isna"),
        asked("notna"),
        compared("==", series),
        compared("!=", series.array if isinstance(series, pd.Series) else series),
        compared(">", series.to_numpy() if isinstance(series, pd.Series) else series),
        compared("==", later),
        compared("==", series.iloc[:-1]),
        compared("==", series.rename("other name")),
        method("upper"),
        method("len"),
    ]


def name_of(call: Call) -> str:
    return getattr(call, "__name__", repr(call))
