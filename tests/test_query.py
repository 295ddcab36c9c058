"""Questions about columns: the same answers as the decompressed Series gives, whichever way they go."""

from __future__ import annotations

import inspect
import logging
import pickle
import re
import weakref
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudf_fsst
from checker import rows_of
from column_cases import DTYPES
from cudf_fsst import selection
from cudf_fsst.backend import HostBackend
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.text import cpu_match, plan
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.search import Plan
from cudf_fsst.index import CompressedIndex
from cudf_fsst.query import StringMethods, decoded
from cudf_fsst.query.source import LOGGER
from cudf_fsst.query.text import has_python_strings
from frame_cases import COLUMNS, INDEXES
from query_cases import (
    COMPARISONS,
    ITEMS,
    METHODS,
    asked,
    check,
    compared,
    method,
    name_of,
    others,
    same,
    small_pieces,
    ways,
)
from reference_match import answers, is_like
from test_column import of_any_bytes

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


def by_definition(backend: HostBackend, node: Node, wanted: Plan, *, stream: Any = None) -> Any:
    """`HostBackend.match`, by another codec of strings: candidates are what they may be."""
    rows = rows_of(backend.host_strings(node, 0, None))
    found = backend.validity(node)
    found.values = answers(rows, wanted.question)
    found.type, found.itemsize = pa.from_numpy_dtype(found.values.dtype), found.values.itemsize
    if not wanted.exact:
        found.values[::50] = True
    found.values[[row is None for row in rows]] = 1  # as it may be
    return found, wanted.exact


#: Methods that the codec may answer.
QUESTIONS = {"contains", "count", "endswith", "find", "fullmatch", "len", "match", "startswith"}
#: How the host answers questions, of columns of which shape.
WAYS = [*(("codes", shape) for shape in SHAPES), ("definition", "nulls"), ("decoded", "nulls"), ("decoded", "ascii")]


#: Of some dtypes not all, for they are like another one.
CASES = [
    pytest.param(dtype, way, shape, id=f"{name}-{way}-{shape}")
    for name, dtype in DTYPES.items()
    for way, shape in WAYS
    if name in ("str", "string[pyarrow]", "object")
    or (way == "codes" and shape in ("nulls", "all null", "nulls at the end"))
]


def go(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "definition":
        monkeypatch.setattr(HostBackend, "match", by_definition)
    elif way == "decoded":
        monkeypatch.setattr(HostBackend, "match", lambda *args, **options: None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dtype", "way", "shape"), CASES)
def test_methods(
    dtype: Any, way: str, shape: str, small_pieces: None, monkeypatch: pytest.MonkeyPatch, subtests: Any
) -> None:
    column = series_of(SHAPES[shape], dtype).fsst.compress()
    go(way, monkeypatch)
    for name, calls in METHODS.items():
        if way != "codes" and name not in QUESTIONS:
            continue
        with subtests.test(name):
            for call in calls:
                check(column, call, name_of(call))
    with subtests.test("items"):
        for call in ITEMS:
            check(column, call)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dtype", "way", "shape"), CASES)
def test_comparisons(
    dtype: Any, way: str, shape: str, small_pieces: None, monkeypatch: pytest.MonkeyPatch, subtests: Any
) -> None:
    column = series_of(SHAPES[shape], dtype).fsst.compress()
    go(way, monkeypatch)
    for call in COMPARISONS:
        with subtests.test(name_of(call)):
            check(column, call, name_of(call))


def test_every_method_is_in_the_table() -> None:
    public = {name for name in dir(pd.Series([""]).str) if not name.startswith("_")}
    assert public == set(METHODS)
    column = pd.Series([""]).fsst.compress()
    assert public | {"like", "byte_count"} <= set(dir(column.str))
    assert column.str.upper.__doc__ == pd.Series([""]).str.upper.__doc__


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COLUMNS)
def test_other_dtypes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = COLUMNS[name]().iloc[:2100].rename("n")
    column = series.fsst.compress()
    monkeypatch.setattr(selection, "_PIECE_NBYTES", column.uncompressed_nbytes // 2)
    for number, call in enumerate(others(series)):
        check(column, call, f"{number}: {name_of(call)}")


def test_columns_with_columns(small_pieces: None) -> None:
    for values in (texts(800), np.arange(3000.0)):
        series = pd.Series(values, name="a")
        column, other = series.fsst.compress(), series.shift(1).rename("b").fsst.compress()
        for way in (lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a >= b):
            wanted = way(column.decompress(), other.decompress())
            for found in (
                way(column, other),
                way(column.decompress(), other),
                way(column, other.decompress()),
            ):
                same(found.rename(None), wanted.rename(None))
            same(way(column, other), wanted)
        shorter = series.iloc[:-1].fsst.compress()
        with pytest.raises(ValueError, match="identically-labeled"):
            column == shorter  # noqa: B015
        reversed_labels = series.set_axis(series.index[::-1]).fsst.compress()
        with pytest.raises(ValueError, match="identically-labeled"):
            column == reversed_labels  # noqa: B015
        values = np.array(series)
        same(values == column, values == series)
        same("the" == column, "the" == series)  # noqa: SIM300
        with pytest.raises(ValueError, match="Lengths must match"):
            np.arange(3) == column  # noqa: B015
        frame = pd.DataFrame({0: [1]})
        same(outcome_of(partial(eq, column, frame)), outcome_of(partial(eq, series, frame)))
        with pytest.raises(TypeError, match="unhashable"):
            hash(column)


def outcome_of(call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # an error is an outcome, whatever it is
        return type(error), str(error)


# Which way ----------------------------------------------------------------------------------------------------------


def test_which_way() -> None:
    """The log says it."""
    column = pd.Series(["red apple", "green", None, "apple"] * 300, name="n").fsst.compress()
    on_codes = {
        "contains": method("contains", "apple"),
        "match": method("match", "app"),
        "fullmatch": method("fullmatch", "green"),
        "startswith": method("startswith", ("a", "g")),
        "endswith": method("endswith", "n"),
        "count": method("count", "p"),
        "find": method("find", "p"),
        "like": method("like", "%e%e%"),
        "<": compared("<", "green"),
        ">=": compared(">=", "green"),
        "between": asked("between", "a", "b"),
        "len": method("len"),
        "byte_count": method("byte_count"),
        "==": compared("==", "green"),
        "!=": compared("!=", "green"),
        "isin": asked("isin", ["green", None]),
    }
    for name, call in on_codes.items():
        with ways() as said:
            call(column)
        assert said == [f"{name}: codes"]
    expressions = [
        method("contains", "gr.*n"),
        method("contains", "GREEN", case=False),
        method("contains", "GREEN", case=False, regex=False),
        method("contains", re.compile("^(?:red|green)$", re.MULTILINE)),
        method("match", "[a-g]", flags=re.IGNORECASE),
        method("fullmatch", ".{5}"),
        method("startswith", tuple("abcdefghijklm")),
        method("endswith", tuple("abcdefghijklm")),
        method("like", "gr_en"),
    ]
    for call in expressions:
        with ways() as said:
            call(column)
        assert said[0].split(": ")[1] == "codes", name_of(call)
    others = {
        "contains: decoded in 1 piece": method("contains", "(?=g)"),
        "upper: decoded, all of it ASCII": method("upper"),
        "title: decoded in 1 piece": method("title"),
        "cat: decoded as a whole": method("cat"),
        "split: decoded as a whole": method("split", expand=True),
        "partition: decoded as a whole": method("partition"),
        "isna: validity": asked("isna"),
        "[]: decoded in 1 piece": ITEMS[0],
        "count: decoded in 1 piece": method("count", "[a-z]"),
    }
    for line, call in others.items():
        with ways() as said:
            call(column)
        assert said == [line]


@pytest.mark.parametrize("way", ["codes", "definition"])
def test_candidates(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library looks at what the codec is not sure of, if that is not too much."""
    go(way, monkeypatch)
    long = "deposits " * 9
    values = [f"{i} {long}" if i % 90 == 1 else None if i % 7 == 0 else f"{i} row" for i in range(1000)]
    column = pd.Series(values, dtype="str").fsst.compress()
    some = values[1]
    # Whole values are compared: of them nothing is left to look at.
    of_values = "" if way == "codes" else r", \d+ candidates"
    for call, line in (
        (method("contains", long, regex=False), r"contains: codes, \d+ candidates"),
        (method("contains", long, regex=False, na=True), r"contains: codes, \d+ candidates"),
        (compared("==", some), f"==: codes{of_values}"),
        (compared("!=", some), f"!=: codes{of_values}"),
        (asked("isin", [some, "2 row", "3"]), f"isin: codes{of_values}"),
        (asked("isin", [some, "2 row", None]), f"isin: codes{of_values}"),
        (method("startswith", (some, "2 row")), r"startswith: codes, \d+ candidates"),
    ):
        (said,) = check(column, call, name_of(call))
        assert re.fullmatch(line, said), said
    assert likes(column, "%sits_deposits%") == likes(column, "%_ row") == "like: codes"
    objects = pd.Series(values, dtype=object).fsst.compress()
    # pandas itself refuses this NA where no value is missing.
    for name in ("contains", "startswith", "endswith", "match", "fullmatch"):
        (said,) = check(objects, method(name, long, na=pd.NA), name)
        ending = of_values if name == "fullmatch" else r", \d+ candidates"
        assert re.fullmatch(f"{name}: codes{ending}", said), said


def test_candidates_are_taken_in_pieces(small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows may have most of the bytes."""
    long = "deposits " * 9
    values = [f"{i} {long}" if i % 90 == 1 else f"{i} row" for i in range(3000)]
    column = pd.Series(values, dtype="str").fsst.compress()
    spans: list[tuple[int, int]] = []
    take = HostBackend.take

    def seen(self: HostBackend, nodes: Any, rows: Any, **more: Any) -> Any:
        spans.append((int(rows[0]), int(rows[-1])))
        return take(self, nodes, rows, **more)

    monkeypatch.setattr(HostBackend, "take", seen)
    assert re.fullmatch(r"contains: codes, 34 candidates", check(column, method("contains", long, regex=False))[0])
    assert len(spans) == len(column._default_pieces()) == 12
    assert all(first // 256 == last // 256 for first, last in spans)


def likes(column: Any, pattern: str, escape: str | None = None) -> str:
    """Compare `like` with its definition; returns which way it went."""
    given = () if escape is None else (escape,)
    with ways() as said:
        answers = column.str.like(pattern, *given)
    wanted = [value is not None and is_like(value, pattern, escape) for value in column.to_arrow().to_pylist()]
    plain = column.str.contains("a", regex=False)
    assert answers.dtype == plain.dtype
    assert answers.fillna(False).astype(bool).tolist() == wanted
    assert answers.isna().equals(plain.isna())
    return said[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("dtype", "way", "shape"), CASES)
def test_like(dtype: Any, way: str, shape: str, small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    series = series_of([None if value is None else value.replace("12", "5%_") for value in SHAPES[shape]], dtype)
    column = series.fsst.compress()
    go(way, monkeypatch)
    for pattern in (
        "%ea%",
        "",
        "%",
        "%%",
        "s%p",
        "_",
        "%_",
        "___",
        "th_ %",
        "%\n%",
        "%é%日_%",
        "e%e%e",
        "%a%a%",
        "the",
    ):
        likes(column, pattern)
    for pattern, escape in (("%\\%%", "\\"), ("%!_%", "!"), ("5!%!_%", "!"), ("%!", "!"), ("!!%", "!"), ("%aa", "a")):
        likes(column, pattern, escape)
    for wrong, error in (((3,), TypeError), (("a", 3), TypeError), (("a", "bc"), ValueError)):
        with pytest.raises(error, match="expected"):
            column.str.like(*wrong)


def test_byte_count(small_pieces: None) -> None:
    for dtype in DTYPES.values():
        for values in SHAPES.values():
            column = series_of(values, dtype).fsst.compress()
            found, lengths = column.str.byte_count(), column.str.len()
            assert found.dtype == lengths.dtype
            assert [None if pd.isna(one) else int(one) for one in found] == [
                None if value is None else len(value.encode()) for value in values
            ]


# Any rows -----------------------------------------------------------------------------------------------------------

_TEXT = st.text(st.sampled_from("aab é日.\x00%_"), max_size=12)
_LONG = st.builds(lambda text, times: text * times, _TEXT, st.integers(1, 40))


@given(
    rows=st.lists(st.one_of(st.none(), _TEXT, _LONG), max_size=30),
    copies=st.integers(1, 20),
    dtype=st.sampled_from(list(DTYPES.values())),
    pattern=st.one_of(_TEXT, _LONG),
    more=st.lists(_TEXT, max_size=4),
    na=st.sampled_from([None, True, False, np.nan]),
    options=st.fixed_dictionaries(
        {"level": st.sampled_from(LEVELS), "tile_size": st.sampled_from([*TILE_SIZES, "auto"])}
    ),
    small=st.booleans(),
    data=st.data(),
)
@settings(max_examples=150)
def test_any_rows(
    rows: list[str | None],
    copies: int,
    dtype: Any,
    pattern: str,
    more: list[str],
    na: Any,
    options: dict[str, Any],
    small: bool,
    data: Any,
) -> None:
    values = rows * copies
    present = [value for value in rows if value]
    if present and data.draw(st.booleans()):  # a part of a row
        row = data.draw(st.sampled_from(present))
        first = data.draw(st.integers(0, len(row) - 1))
        pattern = row[first : data.draw(st.integers(first, len(row)))]
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(plan, "segment_size", lambda chars: 3000)
            patch.setattr(plan, "TABLE_SCOPE", 6000)
            patch.setattr(selection, "_PIECE_NBYTES", 1)
        column = pd.Series(values, dtype=dtype, name="n").fsst.compress(**options)
        for call in (
            method("contains", pattern, regex=False),
            method("contains", re.escape(pattern)),
            method("contains", pattern, regex=False, na=na),
            method("startswith", pattern),
            method("endswith", pattern),
            method("endswith", (pattern, *more)),
            method("match", re.escape(pattern)),
            method("fullmatch", re.escape(pattern)),
            method("count", re.escape(pattern)),
            method("count", pattern.replace(".", "a").replace("%", "b")),
            method("find", pattern),
            method("len"),
            method("upper"),
            method("swapcase"),
            compared("==", pattern),
            compared("!=", pattern),
            compared("<", pattern),
            asked("isin", [pattern, *more]),
            asked("isin", [pattern, None]),
            asked("isna"),
        ):
            check(column, call, name_of(call))
        likes(column, pattern)
        likes(column, "%".join([pattern, *more]), "_")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_bytes_that_are_not_utf8(dtype: Any, small_pieces: None) -> None:
    """Answers, or errors, are those of the Series, whichever way they go; but Arrow's errors name no row."""
    column = of_any_bytes(dtype, pd.Index([f"label {i}" for i in range(1500)]))
    for call in (
        method("contains", "o", regex=False),
        method("startswith", "o"),
        method("find", "o"),
        method("len"),
        method("upper"),
        compared("==", "ok"),
        asked("isin", ["ok"]),
        asked("isna"),
    ):
        if call.__name__.startswith("isna") and has_python_strings(dtype):
            assert call(column).tolist() == ([False, False, True, False, False] * 300)
        elif call.__name__.startswith(("find", "upper")):
            with pytest.raises(UnicodeDecodeError, match=r"in row 3$|in the row labelled label 3 of 'n'$"):
                call(column)
        else:
            check(column, call, name_of(call))


# Labels -------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_labels(index: Any, small_pieces: None) -> None:
    labels = index()
    data = pd.DataFrame({"text": [*"abcde"] * (len(labels) // 5), "number": np.arange(len(labels))}, index=labels)
    frame = data.fsst.compress()
    for call in (method("contains", "b"), method("upper"), asked("isna"), compared("==", "b"), method("cat", sep="-")):
        check(data["text"].fsst.compress(), call)
        check(frame.column("text"), call)
    check(frame.column("number"), compared(">", 7))
    check(frame.column("number"), asked("isna"))


def test_a_decoded_index_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is decoded once while a result has it, and renaming one renames no other."""
    data = pd.DataFrame({"a": ["x", "yx", None] * 100, "b": range(300)}, index=pd.Index([*"abc"] * 100, name="label"))
    data.fsst.compress().save(tmp_path / "frame")
    frame = cudf_fsst.load(tmp_path / "frame")
    decoded: list[int] = []
    to_library = CompressedIndex.to_library
    monkeypatch.setattr(CompressedIndex, "to_library", lambda *args: (decoded.append(1), to_library(*args))[1])
    column = frame.column("a")
    masks = [column.str.contains("x"), frame.column("b") > 3, column == "x", column.isna(), column.str.upper()]
    assert decoded == [1]
    masks[0].index.name = "other"
    assert masks[1].index.name == frame.index.name == column.isin(["x"]).index.name == "label"
    del masks[1:]
    decoded.clear()
    masks.append(column.isna())
    assert decoded == []
    assert masks[1].index.name == "label"
    del masks
    column.isna()
    assert decoded == [1]


def test_masks_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = texts(2000)
    for index in (None, [f"r{i}" for i in range(2000)]):
        data = pd.DataFrame({"a": rows, "b": np.arange(2000) % 9}, index=index)
        frame = data.fsst.compress()
        mask = frame.column("a").str.contains("ea") & (frame.column("b") > 3)
        pd.testing.assert_frame_equal(frame[mask], data[data["a"].str.contains("ea") & (data["b"] > 3)])
        pd.testing.assert_frame_equal(frame[frame.column("a").isna()], data[data["a"].isna()])
        column = frame.column("a")
        pd.testing.assert_series_equal(column[column.str.contains("sleep")], data["a"][data["a"].str.contains("sleep")])
        nullable = data.astype({"a": "string"}).fsst.compress()
        mask = nullable.column("a").str.contains("ea")  # with missing booleans
        assert len(nullable[mask]) == data["a"].str.contains("ea").sum()


def test_answers_that_32_bits_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def match(*args: Any) -> Any:
        raise OverflowError("3 billion")

    monkeypatch.setattr(cpu_match, "match", match)
    assert check(pd.Series(["a"]).fsst.compress(), method("len")) == ["len: decoded in 1 piece"]


def test_loaded_and_pickled(tmp_path: Path, small_pieces: None) -> None:
    column = pd.Series(texts(900), name="n", dtype=object).fsst.compress()
    column.save(tmp_path / "column")
    for one in (cudf_fsst.load(tmp_path / "column"), pickle.loads(pickle.dumps(column)), column.copy()):
        for call in (method("contains", "é"), method("find", "日"), compared("==", "the"), asked("isna")):
            check(one, call)


# Pieces -------------------------------------------------------------------------------------------------------------


def test_sizes_of_pieces() -> None:
    """At least 64 MiB; on a GPU enough of a large column to fill it."""
    for nbytes in (0, 1000, 64 << 20, 10 << 30):
        assert selection.piece_nbytes(nbytes, on_gpu=False) == 64 << 20
        assert selection.piece_nbytes(nbytes, on_gpu=True) == max(64 << 20, nbytes // 4)


def test_memory_of_pieces(small_pieces: None) -> None:
    """No more than two pieces are there at a time, and the results."""
    alive: list[Any] = []
    most = 0

    def look(piece: Any) -> Any:
        nonlocal most
        alive.append(weakref.ref(piece))
        most = max(most, sum(one() is not None for one in alive))
        return piece.str.len()

    column = pd.Series(texts(5000, nulls=False)).fsst.compress()
    found = decoded.in_pieces(column, "look", look)
    assert len(alive) > 10
    assert most <= 2
    pd.testing.assert_series_equal(found, column.decompress().str.len())


def test_labels_and_truth() -> None:
    """As of a Series: ``in`` looks at labels, and there is no one truth value."""
    series = pd.Series(["a", "b"], index=["x", "y"])
    column = series.fsst.compress()
    for value in ("a", "x", "y", "z"):
        assert (value in column) == (value in series)
    with pytest.raises(ValueError, match="truth value of a column is ambiguous"):
        bool(column)


@pytest.mark.parametrize("name", ["contains", "startswith", "endswith", "count", "find"])
def test_signatures(name: str) -> None:
    """Those of pandas, but for what its parameters are called to be."""
    ours, theirs = (inspect.signature(getattr(one, name)) for one in (StringMethods, pd.Series(["a"]).str))
    wanted = [(one.name, one.default) for one in theirs.parameters.values()]
    assert [(one.name, one.default) for one in ours.parameters.values()][1:] == wanted


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_isin_of_categories(dtype: Any) -> None:
    column = series_of(SHAPES["nulls"], dtype).fsst.compress()
    for values in (pd.Categorical(["sleep", None]), pd.CategoricalIndex(["sleep"]), pd.Series(["e"], dtype="category")):
        check(column, asked("isin", values))


def test_pieces_without_results(small_pieces: None, subtests: Any) -> None:
    """What pandas makes of objects depends on whether any of them has a result."""
    for number, values in enumerate(
        (
            ["", None] * 128 + [None] * 256 + ["ab", ""] * 128 + [""] * 256 + ["x", None] * 128,
            [""] * 256 + [None] * 256,
            [None] * 256 + ["", None] * 128,
            ["ab"] * 256 + [""] * 256 + [None] * 256,
        )
    ):
        column = pd.Series(values, dtype=object).fsst.compress()
        for call in (method("get", 0), method("get", 7), method("contains", "(?=a)."), method("isalpha"), ITEMS[0]):
            with subtests.test(f"{number} {name_of(call)}"):
                (said,) = check(column, call, name_of(call))
                assert re.search(r"in \d+ pieces", said)


def test_pieces_of_tiny_rows() -> None:
    """Offsets count: rows without characters are no single piece."""
    column = pd.Series([""] * 5000 + ["a"] * 1000).fsst.compress()
    found = column.map_chunks(lambda piece: [len(piece)], chunk_bytes=4096)
    assert [rows for (rows,) in found] == [1024] * 5 + [880]


def test_hard_patterns_of_like(caplog: pytest.LogCaptureFixture) -> None:
    """Of many parts, or of more characters than any row has: no row is looked at by itself."""
    column = pd.Series(["abc" * 3, "x", None, "x" * 50] * 100).fsst.compress()
    caplog.set_level(logging.DEBUG, LOGGER.name)
    for pattern in ("%" + "%".join(map(str, range(20_000))) + "%", "_" * 20_000, "a%" + "_" * 60 + "%", "%a%" * 20_000):
        caplog.clear()
        assert not column.str.like(pattern).any()
        assert caplog.messages in (["like: codes"], ["like: codes, 0 candidates"])
    assert column.str.like("_" * 50).sum() == 100


@pytest.mark.parametrize("dtype", ["str", object, "string", pd.ArrowDtype(pa.string())], ids=str)
def test_isin_of_texts_with_nul(dtype: Any) -> None:
    """Whatever the codec: of arrays of NumPy's texts, Arrow's types take less."""
    series = pd.Series(["a", "a\0", "\0a", "a\0b", "b", "", "\0", None] * 40, dtype=dtype)
    columns = [series.fsst.compress(codec=codec) for codec in (None, "fsst", "dict")]
    texts = ["a\0b", "\0a", "b"]
    for values in (
        np.array(texts),
        np.array(texts, object),
        texts,
        pd.Series(texts),
        pd.Index(texts),
        np.array(["b\0"]),
    ):
        for column in columns:
            pd.testing.assert_series_equal(column.isin(values), series.isin(values))
