"""Random regular expressions and bounds, asked of random columns: what the library answers about the Series."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import pattern_cases as cases
from cudf_fsst import automata
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.text import cpu, cpu_rows, plan
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.query import by_rows, codes
from query_cases import Call, asked, compared, method, same, ways

#: Patterns that the slow test asks of columns; the quick one takes a fiftieth.
PATTERNS = int(os.environ.get("CUDF_FSST_PATTERNS", "20000"))
DTYPES: list[Any] = [
    object,
    "str",
    "string[python]",
    "string[pyarrow]",
    pd.ArrowDtype(pa.string()),
    pd.ArrowDtype(pa.large_string()),
]


def a_series(random: Random, dtype: Any) -> pd.Series:
    """Rows of all kinds: nulls, empty ones, such as are longer than a tile, some that many share."""
    count = random.choice((1, 40, 300, 700))
    beyond = random.choice((0.0, 0.05, 0.3))
    rows: list[Any] = [cases.a_row(random, beyond=beyond, most=random.choice((3, 12, 40))) for _ in range(count)]
    for _ in range(random.randint(0, 3)):
        rows[random.randrange(count)] = cases.a_row(random, beyond=beyond) * 20
    if random.random() < 0.4:
        rows = random.choices(rows[: random.choice((1, 5, 50))], k=count)
    step = random.choice((0, 0, 2, 7))
    if step:
        rows[::step] = [None] * len(rows[::step])
    return pd.Series(rows, dtype=dtype, name="n")


def a_column(random: Random, series: pd.Series) -> Any:
    """Of segments and tiles of all sizes, or of dictionaries."""
    options: dict[str, Any] = {"level": random.choice(LEVELS), "tile_size": random.choice(TILE_SIZES)}
    if random.random() < 0.5:
        options = random.choice(({"codec": "dict"}, options | {"codec": "onpair"}))
    half = len(series) // 2
    if half and random.random() < 0.3:
        return cudf_fsst.concat([part.fsst.compress(**options) for part in (series.iloc[:half], series.iloc[half:])])
    return series.fsst.compress(**options)


#: Repetitions without an end, and such of groups: `re`, which pandas asks, may try all ways to share a row among them.
_WITHOUT_END = re.compile(r"[*+]|\{1,\}")
_GROUP_WITHOUT_END = re.compile(r"\)(?:[*+]|\{1,\})")


def a_call(random: Random) -> Call:
    kind = random.random()
    if kind < 0.1:
        return compared(random.choice(("<", "<=", ">", ">=")), cases.a_row(random))
    if kind < 0.15:
        inclusive = random.choice(("both", "left", "right", "neither"))
        return asked("between", cases.a_row(random, most=2), cases.a_row(random, most=4), inclusive)
    if kind < 0.2:
        some = tuple(cases.a_row(random, most=3) for _ in range(random.choice((1, 3, 12))))
        return method(random.choice(("startswith", "endswith")), some)
    if kind < 0.25:
        return method("contains", cases.a_row(random, most=3), case=False, regex=False)
    pattern, flags = cases.a_pattern(random), cases.some_flags(random)
    while len(_WITHOUT_END.findall(pattern)) > 2 or _GROUP_WITHOUT_END.search(pattern):
        pattern = cases.a_pattern(random)
    name = random.choice(("contains", "match", "fullmatch", "count"))
    how = random.random()
    if how < 0.1:
        try:
            return method(name, re.compile(pattern, flags))
        except re.error:
            return method(name, pattern)
    if how < 0.25 and name != "count":
        return method(name, pattern, case=False)
    return method(name, pattern, flags=flags) if flags and how < 0.8 else method(name, pattern)


def outcome(call: Call, data: Any) -> Any:
    """What a call gives, or the kind of error that it raises, and whether it warns."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = call(data)
        except Exception as error:
            found = type(error), str(error)
    return found, [str(one.message) for one in warned][:1]


def check_many(count: int, seed: int, monkeypatch: pytest.MonkeyPatch, *, on_gpu: bool = False) -> None:
    random, went = Random(seed), dict[str, int]()
    each = 20
    for number in range(-(-count // each)):
        series = a_series(random, "str" if on_gpu else DTYPES[number % len(DTYPES)])
        if on_gpu:
            import cudf

            series = cudf.from_pandas(series)
        with monkeypatch.context() as patch:
            if random.random() < 0.4:
                patch.setattr(plan, "segment_size", lambda chars: 1500)
                patch.setattr(plan, "TABLE_SCOPE", 3000)
            column = a_column(random, series)
        plain = column.decompress()
        for _ in range(each):
            call = a_call(random)
            if on_gpu and not is_known(column, call):
                continue  # cuDF may do anything with a pattern that it does not know
            wanted, warned = outcome(call, plain)
            with ways() as said:
                found, also_warned = outcome(call, column)
            what = f"{call.__name__} of {series.dtype}, seed {seed}, number {number}: {said}"
            if isinstance(wanted, tuple):
                assert found == wanted, what
            else:
                assert not isinstance(found, tuple), (what, found)
                same(found, wanted, what)
            assert warned == also_warned, what
            for line in said:
                way = line.split(": ")[1].split()[0].rstrip(",")
                went[way] = went.get(way, 0) + 1
    assert went["codes"] > (0.3 if on_gpu else 0.5) * count, went


def is_known(column: Any, call: Call) -> bool:
    """Whether a call is answered by an automaton."""
    known = False

    def answer(column: Any, name: str, asked: Any) -> Any:
        nonlocal known
        known = asked is not None
        raise _Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_rows, "answer", answer)
        patch.setattr(codes, "answer", lambda *_: None)
        with contextlib.suppress(_Stop, Exception):
            call(column)
    return known


class _Stop(Exception):
    pass


def test_random_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    check_many(PATTERNS // 50, 1, monkeypatch)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_patterns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_many(PATTERNS // 4, seed, monkeypatch)


@pytest.mark.gpu
def test_random_patterns_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    check_many(PATTERNS // 10, 7, monkeypatch, on_gpu=True)


@pytest.mark.parametrize("pattern", [r"a\ud800", r"[\ud800]b", r"ab\ud800?"])
def test_surrogates_in_patterns(pattern: str) -> None:
    rows = pd.Series(["ab", None, "xab"], dtype=object)
    assert rows.fsst.compress().str.contains(pattern).equals(rows.str.contains(pattern))


def test_a_text_that_codes_do_not_tell() -> None:
    """More codes end with its first byte, and begin with its second, than are told apart."""
    letters = [chr(number) for number in range(58, 128)]
    symbols = [*(f"{one}-" for one in letters), *(f"-{one}" for one in letters), *letters, "-"]
    table = cudf_fsst.SymbolTable.from_symbols([one.encode() for one in symbols])
    dice = Random(5)
    rows = ["-".join(dice.choices(letters, k=40)) + "a" for _ in range(4000)]
    rows[7], rows[3210] = "x--yza", "q-r--a-"
    series = pd.Series(rows, dtype="str")
    assert series.fsst.compress(table=table).str.contains("--.*a").equals(series.str.contains("--.*a"))


def segments_of(rows: list[bytes], *codecs: Any, **options: Any) -> list[Any]:
    ends = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return cpu.compress(HostStrings(len(rows), np.frombuffer(b"".join(rows), np.uint8), ends), *codecs, **options)


@pytest.mark.parametrize("codec", ["fsst", "onpair"])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_rows_of_any_bytes(tile_size: int, codec: str) -> None:
    """Escapes, raw tiles, rows over many tiles, many rows in a symbol; what an automaton says of their bytes."""
    random = Random(tile_size)
    kinds: list[list[bytes]] = [
        [random.randbytes(random.randint(0, 30)) for _ in range(1500)],
        [b"the quick brown fox "[: random.randint(0, 20)] for _ in range(3000)],
        [b"ab"[: random.randint(0, 2)] for _ in range(5000)],
        [b""] * 700,
        [b"quick " * 5000, b"", b"fox", b"the " * 900],
        [random.choice((b"abcabc", random.randbytes(200), "é龥".encode() * 9)) for _ in range(900)],
    ]
    machines = [
        automata.compile_pattern(pattern, 0, "contains", automata.PYTHON)
        for pattern in (
            "q.*k",
            "^[a-e]",
            "^(quick )+the",
            "x$",
            r"\bfox",
            "",
            "[à-ü]",
            "(ab)+c?$",
            "the q",
            "fox|é",
            "é龥+é",
        )
    ]
    machines += [
        automata.between(b"b", b"the"),
        automata.ends_with(
            (
                b"k",
                b"ab",
                b"",
            )
        ),
    ]
    for rows in kinds:
        segments = segments_of(rows, registry.of_text(codec), tile_size=tile_size)
        for machine in machines:
            assert machine is not None
            for row, verdict in zip(rows, cpu_rows.answer(segments, machine).tolist(), strict=True):
                assert verdict == machine.verdict(row) or (verdict == automata.NO and machine.text not in row)


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]"])
def test_rows_are_not_asked_apart_where_all_decide_how(dtype: str) -> None:
    """pandas takes Python's `re`, for which "İ" has the letter i, where any row has characters beyond ASCII."""
    many = ["x"] * 40
    for rows in (["bi", *many, "é"], ["bi", *many], ["bi\n", "bi", *many], ["\u0131", "é\n", *many]):
        series = pd.Series(rows, dtype=dtype)
        column = series.fsst.compress()
        for call in (
            method("contains", "\\w\u0130", case=False),
            method("match", "b\u0130\\b", case=False),
            method("fullmatch", "$|i|b\u0130", case=False),
            method("count", "i$|\u0130", flags=0),
        ):
            same(call(column), call(series), f"{call.__name__} of {rows}")
