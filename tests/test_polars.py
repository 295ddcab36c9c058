"""Compressed frames as LazyFrames of Polars: the answers are those of Polars on the plain frame."""

from __future__ import annotations

import datetime
import logging
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import sound_files
from cudf_fsst.engines import polars_filter, polars_types, tables
from cudf_fsst.engines import polars_source as engine
from cudf_fsst.files import columns as files

pl = pytest.importorskip("polars")
assert_frame_equal = pytest.importorskip("polars.testing").assert_frame_equal
c = pl.col
ROWS = 3000
ENGINES = ("in-memory", "streaming")
#: What a source raises; Polars 1 has an error of its own for it.
FAILED = (ValueError, pl.exceptions.ComputeError)


def table() -> pa.Table:
    """Columns of all types that a filter may be about, with nulls and the ends of their ranges."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(-5, 30, ROWS)
    hole = rng.random(ROWS) < 0.1
    words = [f"row {i % 97} special old\nrequests" if i % 2 else f"ünder {i}" for i in range(ROWS)]
    words[7], words[8] = "", "row 5"
    days = numbers + 18_000
    edge = numbers.astype(np.int64)
    edge[:6] = [2**63 - 1, -(2**63), 2**53, 2**53 + 1, -(2**53) - 1, 0]
    large = edge.view(np.uint64)

    def array(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=hole)

    decimals = [Decimal(int(n)) / 100 for n in numbers]
    decimals[:3] = [Decimal("9" * 30) / 100, -Decimal("9" * 30) / 100, Decimal(2**64)]
    return pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "i8": array(numbers.astype("i1"), pa.int8()),
            "i64": array(edge, pa.int64()),
            "u64": array(large, pa.uint64()),
            "f": array(rng.random(ROWS), pa.float64()),
            "b": array(numbers % 2 == 0, pa.bool_()),
            "s": array(words, pa.string()),
            "ls": pa.array([f"k{i % 7}" for i in range(ROWS)], pa.large_string()),
            "bin": array([b"\xff", b"a"] * (ROWS // 2), pa.binary()),
            "day": array(days.astype("i4"), pa.int32()).cast(pa.date32()),
            "ms": array(days * 86_400_000 + numbers, pa.int64()).cast(pa.timestamp("ms")),
            "us": array(days * 86_400_000_000 + 500 * numbers, pa.int64()).cast(pa.timestamp("us")),
            "ns": array(days * 86_400_000_000_000 - numbers, pa.int64()).cast(pa.timestamp("ns")),
            "zone": array(days * 86_400_000_000, pa.int64()).cast(pa.timestamp("us", "Europe/Berlin")),
            "took": array(numbers * 1000, pa.int64()).cast(pa.duration("us")),
            "dec": array(decimals, pa.decimal128(38, 2)),
            "kind": array([f"k{i % 3}" for i in range(ROWS)], pa.string()).dictionary_encode(),
            "list": array([[i, None][: i % 3] for i in range(ROWS)], pa.list_(pa.int16())),
            "all": pa.nulls(ROWS, pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def frame() -> cudf_fsst.CompressedFrame:
    data = table().to_pandas(types_mapper=pd.ArrowDtype)
    return data.fsst.compress(codecs={"ls": "dict"})


@pytest.fixture(scope="module")
def plain(frame: cudf_fsst.CompressedFrame) -> pl.DataFrame:
    return pl.DataFrame(table())


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_NBYTES", 50_000)


def day(number: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(18_000 + number)


def time(number: int, micro: int = 0) -> datetime.datetime:
    return datetime.datetime.combine(day(number), datetime.time()) + datetime.timedelta(microseconds=micro)


def comparisons() -> list[tuple[pl.Expr, bool]]:
    """Filters, and whether all of them is to be answered on the codes."""
    known: list[pl.Expr] = []
    for value in (3, -5, 29.5, 0, 2**40):
        known += [c.n == value, c.n != value, c.n < value, c.i8 <= value, c.i64 > value]
        if value >= 0 or int(pl.__version__[0]) > 1:  # which leaves a cast that gives null
            known.append(c.u64 >= value)
    known += [pl.lit(3) < c.n, pl.lit(3).cast(pl.Int64) >= c.i64, c.i64 == 2**52, c.i64 > 2**52, c.u64 > 2**52]
    known += [c.b, ~c.b, c.b == True, c.b != True]  # noqa: E712  # what Polars is to be asked
    for value in (day(3), day(-100), day(29)):
        known += [c.day == value, c.day < value, c.day >= value, c.us < value, c.ns >= value, c.ms == value]
    for value in (time(3), time(3, 1500), time(3, 1), time(0), time(-4, -2000)):
        known += [c.us == value, c.us != value, c.ms < value, c.ms >= value, c.ns == value, c.ns <= value, c.ns > value]
        known += [c.zone > pl.lit(value).dt.cast_time_unit("us").cast(pl.Datetime("us", "Europe/Berlin"))]
    for value in (datetime.timedelta(milliseconds=3), datetime.timedelta()):
        known += [c.took == value, c.took < value, c.took.is_between(-value, value)]
    for value in (Decimal("0.07"), Decimal("-0.05"), 0.07, 0, Decimal(2**64), Decimal("9" * 30) / 100, 0.29):
        known += [c.dec == value, c.dec != value, c.dec < value, c.dec <= value, c.dec > value, c.dec >= value]
    for closed in ("both", "left", "right", "none"):
        known.append(c.n.is_between(2, 7, closed=closed))
    known += [c.n.is_in([1, 5, 77]), c.n.is_in([5]), c.n.is_null(), c.i8.is_null(), c.i8.is_not_null()]
    known += [c("all").is_null(), c("all").is_not_null(), c("all") == 3]
    known += [c.s == "row 5", c.s != "row 5", c.s == "", c.s.is_in(["row 5", "", "no"]), c.ls.is_in(["k1", "k9"])]
    known += [c.s.str.contains("special", literal=True), ~c.s.str.contains("special", literal=True), c.ls == "k3"]
    known += [c.s.str.contains("spec"), c.s.str.contains("special.*requests"), c.s.str.contains("^row 5$")]
    known += [c.s.str.contains("^row 1"), c.s.str.contains("ts$"), c.s.str.contains("ünd"), c.s.str.ends_with("1")]
    known += [c.s.str.starts_with("ünder 1"), c.s.str.len_chars() == 7, c.s.str.len_bytes() < 8]
    known += [c.s.str.len_chars() != 7, c.s.str.len_bytes() >= 8]
    known += [~((c.n < 5) | c.s.is_null()), ~((c.i8 < 5) & (c.s != "row 5")), (c.i8 < 0) | (c.s == "row 5")]
    known += [~(c.b | (c.i8 > 3)), ~~c.b, (c.n < 5) & (c.day > day(1)) & c.s.is_not_null()]
    unknown = [c.f < 0.5, c.s < "row 5", ~c.s.str.contains("special.*requests"), c.s.str.contains("r[ow]+ 5")]
    unknown += [c.i64 == 2**53 + 1, c.i8 + 1 == 5, c.n == c.i8, c.bin == b"a", c.kind == "k1", c.s.str.contains("")]
    unknown += [c.n.eq_missing(5), c.i8.is_in([5, None], nulls_equal=True)]
    unknown += [c.s.str.contains("(?i)ROW"), c.n.map_elements(lambda n: n > 3, return_dtype=pl.Boolean)]
    unknown += [
        c.us.cast(pl.Date) == day(3),
        c.n.cast(pl.Int8, wrap_numerical=True) == 3,
        c.dec.cast(pl.Decimal(38, 1)) == 0,
    ]
    unknown += [c.list.list.len() > 1, (c.f < 0.1) | (c.n == 3), c.u64 < pl.lit(2**63, pl.UInt64), c.f.is_nan()]
    return [(one, True) for one in known] + [(one, False) for one in unknown]


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
@pytest.mark.parametrize("number", range(8))
def test_filters(
    number: int, frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    lazy = frame.lazy()
    for i, (asked, known) in enumerate(comparisons()):
        if i % 8 != number:
            continue
        wanted = plain.filter(asked)
        with caplog.at_level(logging.DEBUG, "cudf_fsst.query"):
            found = lazy.filter(asked).collect(engine=ENGINES[i % 2])
        ways = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
        caplog.clear()
        assert found.equals(wanted), asked
        assert found.schema == plain.schema
        if known:
            assert ways, asked
            assert set(ways) == {"codes"}, (asked, ways)
        assert lazy.filter(asked).select("f", "ls").collect().equals(wanted.select("f", "ls")), asked
        assert frame.lazy(where=asked).select("s").collect().equals(wanted.select("s")), asked


def test_what_polars_would_not_keep_is_not_decoded(
    frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither other columns, nor other rows than the codes leave."""
    read: list[tuple[str, ...]] = []
    rows = []
    array = engine.array

    def seen(some: Any, kind: Any, name: str) -> Any:
        read.append(name)
        rows.append(some.rows)
        return array(some, kind, name)

    monkeypatch.setattr(engine, "array", seen)
    asked = (c.s == "row 5") & (c.f > 0)
    found = frame.lazy().filter(asked).select("n").collect()
    assert found.equals(plain.filter(asked).select("n"))
    assert set(read) == {"n", "s", "f"}
    assert sum(rows) == 3 * plain.filter(c.s == "row 5").height
    rows.clear()
    assert frame.lazy().select("list").head(10).collect().equals(plain.select("list").head(10))
    assert sum(rows) == 10


@pytest.mark.parametrize("which", ENGINES)
def test_queries(which: str, frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame) -> None:
    lazy, data = frame.lazy(), plain.lazy()

    def same(ask: Any) -> None:
        assert ask(lazy).collect(engine=which).equals(ask(data).collect(engine=which))

    same(lambda one: one)
    same(lambda one: one.select(pl.len()))
    same(lambda one: one.head(5).filter(c.n > 3))
    same(lambda one: one.filter(c.n > 3).head(5))
    same(lambda one: one.tail(5))
    same(lambda one: one.slice(1000, 7).select("s"))
    same(lambda one: one.filter(c.n > 1000))
    same(lambda one: one.group_by("ls").agg(c.n.sum(), c.f.max()).sort("ls"))
    same(lambda one: one.filter(c.n < 0).join(one.filter(c.n > 25), on="ls", how="inner").select(pl.len()))
    same(lambda one: one.with_columns(x=c.n + 1).filter(c.x > 20).select("x", "day"))


def test_threads(frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame) -> None:
    lazy, wanted = frame.lazy(), plain.filter(c.n == 3)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda i: lazy.filter(c.n == 3).collect(engine=ENGINES[i % 2]).equals(wanted), range(40)))


def test_types_are_those_of_polars() -> None:
    """Of all types that Polars itself reads out of Arrow; what it cannot hold is refused by name."""
    refused = []
    for name, data in [*sound_files.frames(), ("more", sound_files.more_types(18))]:
        if data.columns.nlevels > 1 or not all(isinstance(label, str) for label in data.columns):
            continue
        compressed = data.fsst.compress()
        for label in data:
            one = compressed[[label]]
            try:
                lazy = one.lazy()
            except TypeError as error:
                said = str(error)
                assert f"column {label!r}: Polars has no type for {one.to_arrow().schema.types[0]}" in said
                refused.append(label)
                continue
            found = lazy.collect()
            arrow = one.to_arrow()
            kind = arrow.schema.types[0]
            if pa.types.is_run_end_encoded(kind) or "view" in str(kind):
                assert found[label].to_list() == arrow[label].to_pylist(), (name, label)
                continue
            wanted = pl.DataFrame(arrow)
            if pa.types.is_dictionary(kind) and kind.ordered and pa.types.is_string(kind.value_type):
                assert isinstance(found.dtypes[0], pl.Enum)
                wanted = wanted.cast(found.schema)
            assert found.schema == wanted.schema == lazy.collect_schema(), (name, label)
            assert found.equals(wanted), (name, label)
    assert sorted(set(refused)) == ["big", "interval", "period"]


def columns_of_polars() -> dict[str, pl.Series]:
    """Each type of Polars that Arrow carries."""
    noon, kind = datetime.datetime(2020, 1, 1, 12), pl.Enum(["b", "a", "z"])
    values: dict[Any, list[Any]] = {
        pl.String(): ["a", None, "ü"],
        pl.Categorical(): ["a", None, "b"],
        kind: ["a", None, "b"],
        pl.Date(): [noon.date(), None, datetime.date(1900, 1, 1)],
        pl.Time(): [noon.time(), None, None],
        pl.Datetime("us", "Europe/Berlin"): [noon, None, noon],
        pl.Datetime("ns"): [noon, None, noon],
        pl.Datetime("ms"): [noon, None, noon],
        pl.Duration("ms"): [datetime.timedelta(1), None, None],
        pl.Decimal(10, 2): [Decimal("1.5"), None, None],
        pl.Binary(): [b"\xff", None, b""],
        pl.Null(): [None, None, None],
        pl.Boolean(): [True, None, False],
        pl.UInt8(): [1, None, 2],
        pl.Float32(): [1.5, None, -2.25],
        pl.List(pl.Int16): [[1], None, []],
        pl.List(pl.List(pl.String)): [[["a"], []], None, [None]],
        pl.List(pl.Categorical()): [["a"], None, ["b", "a"]],
        pl.List(kind): [["a"], None, ["b", "a"]],
        pl.Array(pl.Int8, 2): [[1, 2], None, [3, 4]],
        pl.Struct({"d": pl.Date, "k": kind}): [{"d": noon.date(), "k": "z"}, None, {"d": None, "k": None}],
    }
    return {str(dtype): pl.Series(some, dtype=dtype) for dtype, some in values.items()}


@pytest.mark.parametrize("name", columns_of_polars())
def test_types_of_polars_come_back(name: str, tmp_path: Path) -> None:
    data = pl.DataFrame({"c": columns_of_polars()[name]})
    frame = cudf_fsst.compress(data)
    frame.save(tmp_path / "f")
    for lazy in (frame.lazy(), cudf_fsst.scan(tmp_path / "f")):
        assert lazy.collect_schema() == data.schema
        assert lazy.collect().equals(data)
    assert pl.DataFrame(frame.dataset().to_table()).to_series().to_list() == data.to_series().to_list()


@pytest.mark.parametrize("dtype", [pl.Object(), pl.Int128(), pl.List(pl.Int128), pl.Struct({"n": pl.Int128})])
def test_what_arrow_cannot_carry_is_refused(dtype: pl.DataType) -> None:
    some = [object()] if dtype == pl.Object() else [None]
    for data in (pl.DataFrame({"c": pl.Series(some, dtype=dtype)}), pl.Series("c", some, dtype=dtype)):
        with pytest.raises(TypeError, match=r"column 'c': Arrow has no type for (Object|Int128)"):
            cudf_fsst.compress(data)


def test_ordered_categories_are_an_enum(tmp_path: Path) -> None:
    values = pd.Categorical(["b", None, "a", "b"], categories=["b", "a", "never"], ordered=True)
    frame = pd.DataFrame({"o": values, "u": values.as_unordered()}).fsst.compress()
    frame.save(tmp_path / "f")
    for lazy in (frame.lazy(), cudf_fsst.scan(tmp_path / "f")):
        assert lazy.collect_schema() == pl.Schema({"o": pl.Enum(["b", "a", "never"]), "u": pl.Categorical()})
        assert lazy.collect()["o"].to_list() == ["b", None, "a", "b"]
        assert lazy.filter(c.o < "a").collect()["u"].to_list() == ["b", "b"]


def test_refused(frame: cudf_fsst.CompressedFrame) -> None:
    with pytest.raises(ValueError, match="two columns are called '1'"):
        pd.DataFrame([[1, 2]], columns=[1, "1"]).fsst.compress().lazy()
    with pytest.raises(TypeError, match="where must be an expression of Polars, not str"):
        frame.lazy(where="n > 3")
    no_text = pd.DataFrame({"b": pd.Series([b"\xff"], dtype=pd.ArrowDtype(pa.binary()))}).fsst.compress()
    text = pa.array([b"\xff"], pa.binary()).view(pa.string())
    wrong = pd.DataFrame({"b": pd.arrays.ArrowExtensionArray(pa.chunked_array([text]))}).fsst.compress()
    assert no_text.lazy().collect().item() == b"\xff"
    with pytest.raises(FAILED, match=r"column 'b': .*UTF-?8"):
        wrong.lazy().collect()


def test_without_rows_or_columns() -> None:
    empty = pd.DataFrame({"a": pd.Series([], dtype="int64"), "s": pd.Series([], dtype="str")}).fsst.compress()
    for lazy in (empty.lazy(), empty.lazy(where=c.a > 3)):
        assert lazy.collect().schema == {"a": pl.Int64, "s": pl.String}
        assert lazy.filter(c.s == "x").collect().shape == (0, 2)


def test_without_columns(tmp_path: Path) -> None:
    """As many rows as Polars itself has of such a table of Arrow's."""
    none = pd.DataFrame(index=range(5)).fsst.compress()
    none.save(tmp_path / "none")
    plain = pl.DataFrame(none.to_arrow()).lazy()
    for lazy in (none.lazy(), cudf_fsst.scan(tmp_path / "none")):
        for ask in (lambda one: one, lambda one: one.select(pl.len()), lambda one: one.head(2)):
            assert ask(lazy).collect().equals(ask(plain).collect())
        assert lazy.with_columns(a=pl.lit(1)).collect().equals(plain.with_columns(a=pl.lit(1)).collect())


def test_what_needs_no_column(frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame) -> None:
    ask = (pl.int_range(pl.len()) > 2).alias("later")
    assert frame.lazy().select(ask).collect().equals(plain.select(ask))


def test_an_enum_without_a_name() -> None:
    """Polars casts no column whose name is empty, and says nothing of it."""
    table = pl.DataFrame({"": pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a", "never"])), "n": [1, 2, 3]})
    lazy = cudf_fsst.compress(table, device="cpu").lazy()
    assert_frame_equal(lazy.collect(), table)
    assert_frame_equal(lazy.filter(pl.col("") == "b").collect(), table.filter(pl.col("") == "b"))


def test_a_column_without_a_name() -> None:
    plain = pl.DataFrame({"": [1, 2, 3], "s": ["a", None, "c"]})
    lazy = cudf_fsst.compress(plain).lazy()
    assert lazy.collect().equals(plain)
    assert lazy.filter(pl.col("") > 1).select("").collect().equals(plain.filter(pl.col("") > 1).select(""))


def test_an_enum_without_rows(tmp_path: Path) -> None:
    kind = pl.Enum(["b", "a", "never"])
    plain = pl.DataFrame({"e": pl.Series(["a", None], dtype=kind), "l": pl.Series([["b"], []], dtype=pl.List(kind))})
    paths = [tmp_path / "empty", tmp_path / "full"]
    for path, data in zip(paths, (plain.clear(), plain), strict=True):
        frame = cudf_fsst.compress(data)
        assert frame.lazy().collect_schema() == plain.schema
        frame.save(path)
    assert cudf_fsst.scan(paths).collect().equals(plain)
    assert cudf_fsst.concat(list(map(cudf_fsst.load, paths))).lazy().collect().equals(plain)


def test_a_lazy_frame_is_no_data() -> None:
    with pytest.raises(TypeError, match="not LazyFrame"):
        cudf_fsst.compress(pl.LazyFrame({"a": [1]}))


def test_scan(tmp_path: Path, frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame) -> None:
    for number in range(3):
        frame.save(tmp_path / f"part-{number}.fsst")
    lazy = cudf_fsst.scan(str(tmp_path / "part-*.fsst"))
    three = pl.concat([plain] * 3)
    for which in ENGINES:
        assert lazy.filter(c.n == 3).select("s").collect(engine=which).equals(three.filter(c.n == 3).select("s"))
    assert lazy.head(ROWS + 5).select("n", "s").collect().equals(three.head(ROWS + 5).select("n", "s"))
    paths = [tmp_path / "part-1.fsst", str(tmp_path / "part-0.fsst")]
    assert cudf_fsst.scan(paths, where=c.s == "row 5").collect().equals(three.head(2 * ROWS).filter(c.s == "row 5"))


@pytest.mark.parametrize("where", [None, c.s == "row 5", c.n > 1000])
def test_every_row_is_read_by_one_of_several(
    tmp_path: Path, frame: cudf_fsst.CompressedFrame, plain: pl.DataFrame, where: Any
) -> None:
    """As an engine asks that runs in several processes."""
    frame.save(tmp_path / "a")
    frame.save(tmp_path / "b")
    table = frame._engine_table()
    files_of = [engine.FileFrame(str(tmp_path / name)) for name in "ab"]
    schema = polars_types.schema_of(table)
    for source, wanted in (
        (engine.PolarsSource(schema, (table,), where), plain),
        (engine.PolarsSource(schema, files_of, where), pl.concat([plain] * 2)),
    ):
        for nranks in (1, 2, 7):
            shares = [
                pl.concat(source(["s", "n"], None, None, None, rank=rank, nranks=nranks)) for rank in range(nranks)
            ]
            found, want = pl.concat(shares), wanted.select("s", "n")
            if where is not None:
                found, want = found.filter(where), want.filter(where)
            else:
                assert max(share.height for share in shares) == -(-wanted.height // nranks)
            assert found.equals(want)


def test_scan_reads_what_a_query_needs(
    tmp_path: Path, frame: cudf_fsst.CompressedFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame.save(tmp_path / "a")
    frame.save(tmp_path / "b")
    lazy = cudf_fsst.scan([tmp_path / "a", tmp_path / "b"])
    read: list[tuple[str, list[str]]] = []
    load = files.load

    def seen(path: Any, choose: Any = None, **options: Any) -> Any:
        found = load(path, choose, **options)
        read.append((Path(path).name, sorted(found.labels)))
        return found

    monkeypatch.setattr(engine.files, "load", seen)
    lazy.filter(c.n > 1000).select("s").collect()
    assert read == [("a", []), ("a", ["n"]), ("b", []), ("b", ["n"])]
    read.clear()
    lazy.select("s").head(5).collect()
    assert {name for name, _ in read} == {"a"}


def test_scan_refused(tmp_path: Path, frame: cudf_fsst.CompressedFrame) -> None:
    frame[["n", "s"]].save(tmp_path / "f")
    frame[["s", "n"]].save(tmp_path / "other")
    pd.Series([1]).fsst.compress().save(tmp_path / "column")
    for asked, error, text in (
        (tmp_path / "nothing", FileNotFoundError, "nothing"),
        (str(tmp_path / "no*"), FileNotFoundError, r"no\*"),
        ([], ValueError, "no files"),
        (5, TypeError, "int"),
        (tmp_path / "column", ValueError, "holds a column"),
        ([tmp_path / "f", tmp_path / "other"], ValueError, "other: its columns are"),
    ):
        with pytest.raises(error, match=text):
            cudf_fsst.scan(asked)
    lazy = cudf_fsst.scan(tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FAILED, match=r"f: .*checksum"):
        lazy.collect()


def test_constants_that_are_no_numbers() -> None:
    plain = pl.DataFrame({"r": [1.5, float("nan"), float("-inf"), None], "n": [1, 2, 3, None]})
    lazy = cudf_fsst.compress(plain).lazy()
    r, n = pl.col("r"), pl.col("n")
    for asked in (r < float("inf"), r == float("nan"), r > float("-inf"), n < float("inf"), n != float("nan")):
        assert_frame_equal(lazy.filter(asked).collect(), plain.filter(asked))


def test_where_that_looks_at_other_rows() -> None:
    """No row is left out before such an expression is asked."""
    plain = pl.DataFrame({"k": range(10), "s": ["a", "b"] * 5})
    k, a = pl.col("k"), pl.col("s") == "a"
    wheres = [
        (k >= 6) & a & (k > k.mean()),
        a & (k.shift(1) > 3),
        a & (k.cum_sum() > 9),
        a & (k > k.max().over("s") - 3),
        a & k.is_first_distinct(),
        a & k.is_in(pl.col("k").filter(~a).implode()),
    ]
    for where in wheres:
        assert_frame_equal(cudf_fsst.compress(plain).lazy(where=where).collect(), plain.filter(where))
    length = pl.col("s").str.len_bytes()
    known = [a, a & k.is_in([2, 4]), a.not_() | k.is_between(2, 5), length == 1, k.cast(pl.Int8) > 3]
    assert all(polars_filter.is_row_by_row(where) for where in known)
    assert not any(polars_filter.is_row_by_row(where) for where in wheres)
