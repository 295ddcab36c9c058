"""Drawn frames, asked drawn queries: by Polars and DuckDB, beside the plain table."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import cudf_fsst
from cudf_fsst.engines import tables

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

BERLIN = ZoneInfo("Europe/Berlin")
WORDS = ["", "a", "row 1", "mail", "MAIL", "é世", "%_\\.", "a\nb", "İ"]
KINDS = pl.Enum(["never", "mail", "", "a"])
CODECS = [None, "fsst", "dict", "onpair"]
Draw = Callable[[random.Random], Any]

TYPES: dict[str, tuple[Any, Draw]] = {
    "i8": (pl.Int8, lambda dice: dice.choice([-128, 127, 0, 1, 2])),
    "i64": (pl.Int64, lambda dice: dice.choice([-(2**63), 2**63 - 1, dice.randint(-3, 9)])),
    "u64": (pl.UInt64, lambda dice: dice.choice([2**64 - 1, dice.randint(0, 9)])),
    "b": (pl.Boolean, lambda dice: dice.random() < 0.5),
    "f": (pl.Float64, lambda dice: dice.choice([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf])),
    "s": (pl.String, lambda dice: dice.choice(WORDS)),
    "t": (pl.String, lambda dice: f"row {dice.randint(0, 9999)}"),
    "kind": (KINDS, lambda dice: dice.choice(KINDS.categories.to_list()[1:])),
    "cat": (pl.Categorical, lambda dice: dice.choice(WORDS)),
    "bytes": (pl.Binary, lambda dice: bytes([dice.randint(0, 255)] * dice.randint(0, 2))),
    "day": (pl.Date, lambda dice: date(1969, 12, 20) + timedelta(dice.randint(0, 30))),
    "us": (pl.Datetime("us"), lambda dice: datetime(1969, 12, 31) + timedelta(hours=dice.randint(0, 60))),
    "zone": (
        pl.Datetime("ms", BERLIN.key),
        lambda dice: datetime(2021, 10, 30, tzinfo=BERLIN) + timedelta(hours=dice.randint(0, 60)),
    ),
    "long": (pl.Duration("ns"), lambda dice: timedelta(hours=dice.randint(-9, 9))),
    "dec": (pl.Decimal(12, 2), lambda dice: Decimal(dice.randint(-300, 300)) / 100),
    "list": (pl.List(pl.String), lambda dice: dice.choices([*WORDS, None], k=dice.randint(0, 3))),
    "both": (pl.Struct({"a": pl.Int32, "b": pl.String}), lambda dice: {"a": dice.choice([None, 1]), "b": "x"}),
    "none": (pl.Null, lambda dice: None),
}


def drawn(dice: random.Random) -> Any:
    rows, missing = dice.choice([0, 1, 2, 60, 500, 2000]), dice.choice([0, 0.1, 0.5, 1])
    names = dice.sample(sorted(TYPES), dice.randint(1, 8))
    columns = []
    for name in names:
        kind, draw = TYPES[name]
        values = [None if dice.random() < missing else draw(dice) for _ in range(rows)]
        columns.append(pl.Series(name, values, dtype=kind))
    return pl.DataFrame(columns)


def predicate(dice: random.Random, plain: Any, depth: int = 0) -> Any:
    if depth < 3 and dice.random() < 0.4:
        one, other = predicate(dice, plain, depth + 1), predicate(dice, plain, depth + 1)
        return dice.choice(
            [one & other, one | other, ~one, one ^ other, one.fill_null(True), one.is_null(), one.eq_missing(other)]
        )
    name = dice.choice(plain.columns)
    kind, draw = TYPES[name]
    column, value, other = pl.col(name), pl.lit(draw(dice), dtype=kind), pl.lit(draw(dice), dtype=kind)
    asked = [column.is_null(), column.is_not_null(), column.eq_missing(value), pl.lit(True), pl.len() > 5]
    if kind.is_nested():
        return dice.choice(asked)
    asked += [column == value, column != value, value < column, column <= value, column.is_between(value, other)]
    asked += [column.is_in([draw(dice) for _ in range(dice.choice([0, 1, 20]))]), column.is_first_distinct()]
    if kind == pl.String:
        text = dice.choice([*WORDS, "[a-c]", "^row", "(?i)mail"])
        asked += 2 * [
            column.str.contains(text, literal=dice.random() < 0.5),
            column.str.starts_with(text),
            column.str.ends_with(text),
            column.str.len_chars() > dice.randint(0, 6),
            column.str.len_bytes().is_between(1, dice.randint(0, 6)),
            column.str.to_lowercase() == "mail",
        ]
    elif kind.is_numeric():
        number = dice.choice([0, -1, 2.5, 2**31, 2**63, 2**64, 1e300, math.nan, Decimal("1.5")])
        asked += [column == number, column < number, column >= number, column % 2 == 0, column.is_in([1, 2, 300])]
    return dice.choice(asked)


def query(dice: random.Random, plain: Any, asked: Any) -> Callable[[Any], Any]:
    some = dice.sample(plain.columns, min(2, plain.width))
    found: Callable[[Any], Any] = dice.choice(
        [
            lambda lazy: lazy.filter(asked),
            lambda lazy: lazy.filter(asked).select(some).head(5),
            lambda lazy: lazy.slice(3, 300).filter(asked).select(pl.len()),
            lambda lazy: lazy.select(pl.len()),
            lambda lazy: lazy.select(asked.alias("asked")),
            lambda lazy: lazy.with_row_index("row").filter(asked).select("row", *some),
            lambda lazy: lazy.filter(asked).tail(3),
            lambda lazy: lazy.remove(asked).select(some),
            lambda lazy: lazy.filter(asked).select(some).rename({some[0]: "new"}).filter(pl.col("new").is_null()),
        ]
    )
    return found


def compared(found: Callable[[], Any], wanted: Callable[[], Any], what: str) -> None:
    """Equal, or both a mistake; what a filter leaves nothing for may be no mistake."""
    try:
        right = wanted()
    except pl.exceptions.PolarsError:
        with suppress(pl.exceptions.PolarsError):
            assert found().height == 0, what
        return
    pl.testing.assert_frame_equal(found(), right, check_exact=True)


@pytest.mark.parametrize("seed", range(7))
def test_polars(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars.testing  # noqa: F401

    monkeypatch.setattr(tables, "PIECE_NBYTES", 3000)
    dice = random.Random(seed)
    for number in range(2):
        plain = drawn(dice)
        frame = cudf_fsst.compress(plain)
        edges = [0, *sorted(dice.randint(0, plain.height) for _ in range(2)), plain.height]
        paths = [tmp_path / f"{number}-{part}.fsst" for part in range(3)]
        for path, first, last in zip(paths, edges[:-1], edges[1:], strict=True):
            texts = {name: dice.choice(CODECS) for name in plain.columns if plain.schema[name] == pl.String}
            codecs = {name: codec for name, codec in texts.items() if codec is not None}
            cudf_fsst.compress(plain[first:last], codecs=codecs).save(path, compression=dice.choice([None, "zstd"]))
        for _ in range(5):
            asked = predicate(dice, plain)
            ask, what = query(dice, plain, asked), f"seed {seed}: {asked}"
            for lazy in (frame.lazy(), cudf_fsst.scan(paths)):
                compared(ask(lazy).collect, ask(plain.lazy()).collect, what)
            for lazy in (frame.lazy(where=asked), cudf_fsst.scan(paths, where=asked)):
                compared(lazy.collect, plain.lazy().filter(asked).collect, what)


def condition(dice: random.Random, plain: Any, depth: int = 0) -> str:
    if depth < 3 and dice.random() < 0.4:
        one, other = condition(dice, plain, depth + 1), condition(dice, plain, depth + 1)
        return dice.choice([f"({one} and {other})", f"({one} or {other})", f"not ({one})", f"({one}) is null"])
    name = dice.choice(plain.columns)
    kind, draw = TYPES[name]
    values = [constant(draw(dice)) for _ in range(9)]
    if kind.is_nested() or kind == pl.Null:
        return f'"{name}" is null'
    sign = dice.choice(["=", "<>", "<", "<=", ">", ">=", "is distinct from"])
    asked = [f'"{name}" {sign} {values[0]}', f'{values[0]} {sign} "{name}"', f'"{name}" is not null']
    asked += [f'"{name}" between {values[0]} and {values[1]}', f'"{name}" in ({", ".join(values)})']
    if kind == pl.String:
        asked += [f"\"{name}\" like {values[0]} || '%'", f'contains("{name}", {values[0]})', f'length("{name}") > 2']
    return dice.choice(asked)


def constant(value: Any) -> str:
    if isinstance(value, (bool, int, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::blob"
    if isinstance(value, timedelta):
        return f"interval '{value.total_seconds():.0f}' second"
    kinds = {float: "double", datetime: "timestamptz" if getattr(value, "tzinfo", None) else "timestamp", date: "date"}
    kind, text = kinds.get(type(value), "varchar"), str(value).replace("'", "''")
    return f"'{text}'::{kind}"


@pytest.mark.parametrize("seed", range(5))
def test_duckdb(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_NBYTES", 3000)
    dice = random.Random(seed)
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'; set threads = 1")
    for _ in range(6):
        plain = drawn(dice)
        frame = cudf_fsst.compress(plain)
        connection.register("ours", frame.dataset())
        connection.register("theirs", frame.to_arrow())
        for _ in range(6):
            name, asked = dice.choice(plain.columns), condition(dice, plain)
            text = dice.choice(
                [
                    f'select "{name}" from {{}} where {asked}',
                    f"select count(*) from {{}} where {asked}",
                    f'select "{name}", count(*) from {{}} where {asked} group by 1 order by all nulls first',
                    f"select * from {{}} where {asked} limit 7",
                    f'select count("{name}"), min("{name}") from {{}} where {asked}',
                ]
            )
            found, wanted = (repr(connection.execute(text.format(one)).fetchall()) for one in ("ours", "theirs"))
            assert found == wanted, f"seed {seed}: {text}"
