"""Strings with dictionaries: through the shared checker, which get one, and all that a column does with one."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
import fresh
from checker import CASES, REPEATED, Case, CudfColumn, HostNodes, PandasColumn, check, rows_of, strings_of
from column_cases import DTYPES, STR
from cudf_fsst.codecs import host_strings
from cudf_fsst.codecs.dict import cpu, distinct, plan
from cudf_fsst.codecs.node import DictPart, Node, of_parts
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.text import search
from cudf_fsst.files import storage, trees
from reference_match import answers

pytestmark = pytest.mark.usefixtures("automatic")

MODES = ["TRUCK", "AIR", "", "REG AIR", "naïve", "SHIP"]
#: Which cases have a dictionary where none is asked for.
CHOSEN = {case.name for case in REPEATED} - {"all_different", "sample_repeats_too_much", "sample_repeats_too_little"}


def modes(rows: int = 3000, dtype: Any = STR, nulls: bool = True, seed: int = 0) -> pd.Series:
    """A few values, again and again."""
    dice = np.random.default_rng(seed)
    values = np.array([*MODES, None] if nulls else MODES, dtype=object)
    chosen = values[dice.integers(0, len(values), rows)]
    return pd.Series(chosen, dtype=dtype, name="mode", index=np.arange(rows) * 3)


def node_of(column: Any) -> Node:
    return column._content.node


def kinds(column: Any) -> list[str]:
    return ["dict" if isinstance(run, DictPart) else "fsst" for run in node_of(column).runs]


def characters(series: pd.Series) -> int:
    return sum(len(row.encode()) for row in series.dropna())


def test_answer_for_one_row() -> None:
    """What is said of a few values that are kept, by plain Python."""
    rows = [b"", b"a", b"aa", b"aba", b"abab", b"ab ab", "grün ab".encode(), b"\xff\x80a", b"b" * 64]
    ends = [b"", b"a", b"ab", b"aba", b"b"]
    asked: list[search.Question] = [search.Like((end,)) for end in ends]
    asked += [search.Like((first, last)) for first in ends for last in ends]
    asked += [
        search.Like((first, *inner, last)) for first in ends for inner in ((b"a",), (b"b", b"a")) for last in ends
    ]
    asked += [search.IsIn((b"", b"aa", b"zz")), search.IsIn(()), search.Length(), search.ByteCount()]
    asked += [kind(pattern) for kind in (search.Count, search.Find) for pattern in (b"a", b"ab", b"aba", b" ", b"b")]
    for question in asked:
        found = [search.answer(question, row) for row in rows]
        np.testing.assert_array_equal(found, answers(rows, question), err_msg=str(question))
    found = [search.answer(search.Like((b"a", b""), 2), row) for row in rows]
    assert found == [row.startswith(b"a") and len(row) >= 3 for row in rows]


# The checker --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("codec", [None, "dict"])
@pytest.mark.parametrize("case", REPEATED, ids=lambda case: case.name)
def test_repeated(case: Case, codec: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(HostNodes(codec), case)
    if codec is None:
        made = HostNodes().compress(case.build(), None, "auto", "default")
        assert made.coded == (case.name in CHOSEN)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_column_can_have_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(HostNodes("dict"), case)
    if case.name in ("non_null", "random_bytes", "multi_segment"):
        check(HostNodes("dict"), case, level="max")


@pytest.mark.parametrize("dtype", [DTYPES["str"], DTYPES["object"]], ids=str)
def test_pandas(dtype: Any, monkeypatch: pytest.MonkeyPatch, subtests: Any) -> None:
    for case in REPEATED:
        if (case.utf8 or dtype == STR) and "655" not in case.name:
            with subtests.test(case.name), monkeypatch.context() as patched:
                case.patch(patched)
                check(PandasColumn(dtype), case)


@pytest.mark.gpu
@pytest.mark.parametrize("codec", [None, "dict"])
@pytest.mark.parametrize("case", [*REPEATED, *CASES], ids=lambda case: case.name)
def test_cudf(case: Case, codec: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    case.patch(monkeypatch)
    check(CudfColumn(codec), case)


def test_threads_and_room_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = strings_of([None if i % 5 == 0 else b"value %d" % (i * i % 70_001) for i in range(200_000)])
    wanted = list(host_strings.compress(rows, pa.string(), codec="dict").parts)
    monkeypatch.setattr(distinct, "_CHUNK_ROWS", 1 << 13)
    for threads, held in (("1", 1 << 25), ("3", 1 << 25), ("3", 1)):
        monkeypatch.setenv("CUDF_FSST_NUM_THREADS", threads)
        monkeypatch.setattr(distinct, "_HELD_NBYTES", held)
        made = host_strings.compress(rows, pa.string(), codec="dict")
        for part, other in zip(made.parts, wanted, strict=True):
            assert part.meta.tobytes() == other.meta.tobytes()
            assert part.codes.tobytes() == other.codes.tobytes()
    monkeypatch.setattr(cpu, "_WINDOW_ROWS", 1 << 12)
    monkeypatch.setattr(plan, "PIECE_CODES", 1 << 14)
    made = host_strings.compress(rows, pa.string(), codec="dict")
    assert len(made.segments[0].packed) == 13
    expected = rows_of(rows)
    assert rows_of(host_strings.read(made, 0, rows.rows)) == expected
    assert rows_of(host_strings.read(made, 7, 100_001)) == expected[7:100_001]


# Which get one ------------------------------------------------------------------------------------------------------


def python_hash(row: bytes) -> int:
    """The hash of docs/format.md, section 19."""
    first, second = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD
    found = len(row) * first % 2**64
    for part in [row] if len(row) <= 128 else [row[:64], row[-64:]]:
        for at in range(0, len(part), 8):
            found = (found ^ int.from_bytes(part[at : at + 8], "little")) * second % 2**64
            found ^= found >> 32
    found ^= found >> 29
    found = found * first % 2**64
    return found ^ found >> 32


def test_sample() -> None:
    dice = np.random.default_rng(3)
    rows = [None if i % 9 == 0 else dice.bytes(int(dice.integers(0, 300)) % 150)[:2] * (i % 80) for i in range(17_000)]
    starts, run = plan.sample_runs(len(rows))
    assert (len(starts), run) == (2048, 8)
    assert starts[0] >= 0
    assert starts[-1] + run <= len(rows)
    assert (np.diff(starts) >= run).all()
    sample = [rows[row] for start in starts.tolist() for row in range(start, start + run)]
    hashes = [python_hash(row) for row in sample if row is not None]
    assert distinct.sampled(strings_of(rows)) == (len(hashes), len(set(hashes)))
    few = rows[:16_384]
    assert plan.sample_runs(len(few))[0].tolist() == [0]
    hashes = [python_hash(row) for row in few if row is not None]
    assert distinct.sampled(strings_of(few)) == (len(hashes), len(set(hashes)))
    assert distinct.sampled(strings_of([None] * 2000)) == (0, 0)
    assert not plan.repeats(0, 0)


def test_limits() -> None:
    assert [plan.itemsize(count) for count in (0, 1, 256, 257, 65536, 65537)] == [1, 1, 1, 2, 2, 4]
    assert [plan.least_chars(count) for count in (0, 1, 2, 257, 258, 65793, 65794)] == [
        0,
        0,
        1,
        256,
        258,
        131328,
        131331,
    ]
    assert (plan.has_rows(1023), plan.has_rows(1024), plan.has_rows(2**31)) == (False, True, False)
    assert (plan.eligible(1023), plan.eligible(1024), plan.eligible(2**40)) == (False, True, True)
    assert (plan.eligible(1, named=True), plan.eligible(0, named=True)) == (True, False)
    for rows, chars in ((1024, 100), (10**6, 10**7), (6 * 10**7, 26 * 10**7), (10**7, 10**7), (10**8, 6 * 10**9)):
        most = plan.most_values(rows, chars)
        assert most <= max(2**20, (chars + 4 * rows) // 256) == plan.most_values(rows, chars, named=True)
        assert most == 0 or plan.pays(rows, chars, most, 0)
        assert most == plan.most_values(rows, chars, named=True) or not plan.pays(rows, chars, most + 1, 0)


def test_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MIN_MOST", 99)
    rows = [f"value {i % 100}" for i in range(1000)]
    assert pd.Series(rows).fsst.compress(codec="dict").codec == "fsst"
    assert pd.Series(rows[:99]).fsst.compress(codec="dict").codec == "dict"
    size = sum(map(len, rows[:99]))
    monkeypatch.setattr(plan, "MOST_CHARS", size)
    assert pd.Series(rows[:99]).fsst.compress(codec="dict").codec == "dict"
    monkeypatch.setattr(plan, "MOST_CHARS", size - 1)
    assert pd.Series(rows[:99]).fsst.compress(codec="dict").codec == "fsst"


def test_row_groups_beside_categories(tmp_path: Path) -> None:
    """Pieces of a Parquet file get the last piece's categories; dictionaries of strings stay their own."""
    kinds = ["b", "a", None, "c"]
    values = [{"k": kinds[i // 999 % 4], "mode": f"{i // 1700} {i % 3}"} for i in range(3400)]
    kind = pa.struct({"k": pa.dictionary(pa.int32(), pa.string()), "mode": pa.string()})
    table = pa.table({"inside": pa.array(values, kind)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=1700)
    found = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu")
    assert found.codecs["inside"] == "bitpack, fsst, dict"
    assert found.to_arrow()["inside"].to_pylist() == values


@pytest.mark.parametrize("rows", [3000, 70])
def test_short_columns_only_by_name(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LEAST_ROWS", 10_000)
    frame = pd.DataFrame({"a": modes(rows), "b": modes(rows)}, index=pd.Index(modes(rows, nulls=False)))
    made = frame.fsst.compress(codecs={"b": "dict"})
    assert made.codecs.to_dict() == {"a": "fsst", "b": "dict"}
    assert not any(node.coded for node in made._index.nodes)
    pd.testing.assert_frame_equal(made.decompress(), frame)


def test_what_users_name() -> None:
    series = modes()
    table = cudf_fsst.train(series)
    assert series.fsst.compress().codec == "dict"
    for options in ({"codec": "fsst"}, {"table": table}, {"table": table, "codec": "fsst"}):
        column = series.fsst.compress(**options)
        assert column.codec == "fsst"
        assert not node_of(column).coded
    with pytest.raises(ValueError, match="table is for codec 'fsst', not for 'dict'"):
        series.fsst.compress(table=table, codec="dict")
    with pytest.raises(ValueError, match="'dict' takes strings, not int64"):
        pd.Series([1]).fsst.compress(codec="dict")
    with pytest.raises(ValueError, match="'raw' does not take strings, only 'fsst', 'onpair' and 'dict' do"):
        series.fsst.compress(codec="raw")
    frame = pd.DataFrame({"a": series, "b": series, "n": 1})
    made = frame.fsst.compress(codecs={"a": "fsst"})
    assert made.codecs.to_dict() == {"a": "fsst", "b": "dict", "n": "bitpack"}
    assert "dict" in repr(made.column("b"))
    (part,) = node_of(series.fsst.compress(tile_size=512)).segments
    assert {segment.layout.tile_size for segment in part.values.segments} == {512}
    compressor = cudf_fsst.Compressor(codec="fsst")
    compressor.append(series)
    assert compressor.finish().codec == "fsst"
    compressor = cudf_fsst.Compressor(codec="fsst")
    with pytest.raises(TypeError, match="codecs="):
        compressor.append(frame)


# A column -----------------------------------------------------------------------------------------------------------


def mixed(dtype: Any = STR) -> tuple[Any, pd.Series]:
    """A column of parts of both kinds, whose dictionaries have no value in common, and its rows."""
    pieces = [modes(700, dtype, seed=1), modes(900, dtype, nulls=False, seed=2)[::-1], modes(300, dtype, seed=3)]
    pieces[2] = pieces[2].str.lower().astype(dtype)
    codecs = ["fsst", "dict", "dict"]
    parts = [piece.fsst.compress(codec=codec) for piece, codec in zip(pieces, codecs, strict=True)]
    return cudf_fsst.concat([*parts, parts[0], parts[0]]), pd.concat([*pieces, pieces[0], pieces[0]])


def test_sizes() -> None:
    series = modes()
    column = series.fsst.compress()
    (part,) = node_of(column).segments
    chars = characters(series)
    assert column.chars_nbytes == part.chars == chars
    assert (part.nbytes, part.meta_nbytes + part.codes_nbytes) == (sum(one.nbytes for one in part.leaves),) * 2
    assert column.uncompressed_nbytes == chars + 4 * (len(series) + 1) + len(series) // 8
    parts = list(node_of(column).parts)
    kept = sum(part.meta.nbytes + part.codes.nbytes for part in parts)
    assert column.nbytes == kept + sum(table.nbytes for table in column.tables)
    assert column.codes_nbytes == sum(part.codes.nbytes for part in parts)
    assert sum(isinstance(part, Packed) for part in parts) == 2
    assert [segment.rows for segment in column.segments] == [len(MODES)]
    assert column.null_count == series.isna().sum()


def test_joined() -> None:
    column, expected = mixed()
    assert kinds(column) == ["fsst", "dict", "dict", "fsst"]
    assert column.codec == "fsst, dict"
    pd.testing.assert_series_equal(column.decompress(), expected)
    dice = np.random.default_rng(0)
    for rows in (dice.integers(0, len(expected), 50), np.arange(len(expected))[::-7], [1650, 3, 3, 3299], []):
        pd.testing.assert_series_equal(column.take(rows), expected.iloc[rows])
    for start, stop in ((0, 1), (650, 2500), (1600, 1900), (2000, 2000), (1899, 1901)):
        pd.testing.assert_series_equal(column[start:stop], expected[start:stop])
    mask = dice.random(len(expected)) < 0.3
    pd.testing.assert_series_equal(column.filter(mask), expected[mask])
    joined = column.map_chunks(lambda piece: piece.str.upper(), chunk_bytes=500)
    pd.testing.assert_series_equal(joined, expected.str.upper())
    each = pd.Series(list(column), expected.index, expected.dtype, "mode")
    pd.testing.assert_series_equal(each, expected)
    row = int(np.flatnonzero(expected.notna())[1234])
    assert column[row] == expected.iloc[row]
    assert column.to_arrow().to_pylist() == pa.array(expected, from_pandas=True).to_pylist()
    assert column.equals(column.copy())
    assert pickle.loads(pickle.dumps(column)).equals(column)


def same(loaded: Any, expected: pd.Series, scopes: list[str]) -> None:
    """Look at a loaded column; for a fresh process."""
    assert kinds(loaded) == scopes
    pd.testing.assert_series_equal(loaded.decompress(), expected)
    assert node_of(loaded).chars_nbytes == characters(expected)


@pytest.mark.parametrize("dtype", [DTYPES["str"], DTYPES["arrow_string"]], ids=str)
def test_files(dtype: Any, tmp_path: Path) -> None:
    column, expected = mixed(dtype)
    column.save(tmp_path / "c")
    assert storage.version_of(tmp_path / "c") == 3
    fresh.check(tmp_path / "c", same, expected, kinds(column))
    cudf_fsst.load(tmp_path / "c").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "c").read_bytes()
    modes(dtype=dtype).fsst.compress(codec="fsst").save(tmp_path / "plain")
    assert storage.version_of(tmp_path / "plain") == 1


def test_frames(tmp_path: Path) -> None:
    series = modes(nulls=False)
    frame = pd.DataFrame({"mode": series, "n": range(len(series)), "list": [["a", mode] for mode in series]})
    frame = frame.set_index(series.rename("label"))
    compressed = frame.fsst.compress()
    assert compressed.codecs.to_dict() == {"mode": "dict", "n": "bitpack", "list": "bitpack, dict"}
    compressed.save(tmp_path / "f")
    loaded = cudf_fsst.load(tmp_path / "f")
    pd.testing.assert_frame_equal(loaded.decompress(), frame)
    pd.testing.assert_frame_equal(loaded.iloc[5:900:7], frame.iloc[5:900:7])
    expected = frame.astype({"mode": "category"})
    pd.testing.assert_frame_equal(loaded.decompress(categories=True), expected)
    joined = cudf_fsst.concat([loaded, loaded])
    pd.testing.assert_frame_equal(joined.decompress(), pd.concat([frame, frame]))


def damaged(path: Path, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Save a column whose tree is changed."""
    describe = trees.describe

    def described(node: Node, streams: Any) -> Any:
        tree = describe(node, streams)
        if "scopes" in tree:
            change(tree)
        return tree

    with monkeypatch.context() as patched:
        patched.setattr(trees, "describe", described)
        mixed()[0].save(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda tree: tree.update(scopes=[0, 1, 1]), "scopes"),
        (lambda tree: tree.update(scopes=[0, 1, 3, 0]), "scopes"),
        (lambda tree: tree.update(scopes=[0, 2, 1, 0]), "does not hold values of 2 bytes"),
        (lambda tree: tree.update(rows=3299), "rows"),
        (lambda tree: tree.update(nulls=1), "nulls"),
        (lambda tree: tree["children"][1].update(rows=899), "values, not 899"),
        (lambda tree: tree["children"][1]["children"][0].update(rows=5), "rows"),
        (lambda tree: tree["children"].append(tree["children"][0]), "8 streams, of which 9 are used"),
    ],
)
def test_damaged_trees(change: Any, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged(tmp_path / "c", monkeypatch, change)
    with pytest.raises(ValueError, match=match):
        cudf_fsst.load(tmp_path / "c")


def test_damaged_codes(tmp_path: Path) -> None:
    column = modes().fsst.compress()
    node = node_of(column)
    (part,) = node.segments
    values = modes(seed=5).drop_duplicates().fsst.compress(codec="fsst")
    more = pd.Series([*MODES, "one", "more"]).fsst.compress(codec="fsst")
    other = pd.Series(MODES[:-1]).fsst.compress(codec="fsst")
    assert values.null_count
    for child, match in (
        (values, "not different"),
        (more, "8 values, of which rows have 6"),
        (other, "code 5 of 5"),
    ):
        wrong = dataclasses.replace(part, values=node_of(child))
        one = cudf_fsst.concat([column])
        one._content = type(one._content)(of_parts(node.type, [wrong]), node.type, one._content.stored)
        one.save(tmp_path / "c")
        with pytest.raises(ValueError, match=match):
            cudf_fsst.load(tmp_path / "c")


def test_dask() -> None:
    protocol = pytest.importorskip("distributed.protocol")
    column, expected = mixed()
    found = protocol.deserialize(*protocol.serialize(column))
    pd.testing.assert_series_equal(found.decompress(), expected)
    frame = pd.DataFrame({"mode": modes(nulls=False), "n": 1})
    again = protocol.deserialize(*protocol.serialize(frame.fsst.compress()))
    assert again.codecs["mode"] == "dict"
    pd.testing.assert_frame_equal(again.decompress(), frame)


# Questions ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_questions(dtype: Any, caplog: pytest.LogCaptureFixture) -> None:
    whole = modes(1500, dtype)
    for column, series in ((whole.fsst.compress(), whole), mixed(dtype)):
        with caplog.at_level("DEBUG", "cudf_fsst.query"):
            for ask in (
                lambda one: one == "AIR",
                lambda one: one != "AIR",
                lambda one: one.isin(["SHIP", "", None]),
                lambda one: one.str.contains("AI"),
                lambda one: one.str.startswith(("T", "R")),
                lambda one: one.str.endswith("R"),
                lambda one: one.str.len(),
                lambda one: one.str.count("A"),
                lambda one: one.str.find("R"),
                lambda one: one.isna(),
            ):
                pd.testing.assert_series_equal(ask(column), ask(series))
        assert caplog.messages
        assert not [text for text in caplog.messages if "decoded" in text]
        caplog.clear()
        pd.testing.assert_series_equal(column.str.upper(), series.str.upper())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_distinct_values(dtype: Any, caplog: pytest.LogCaptureFixture) -> None:
    none = pd.Series([None] * 40, dtype=dtype, name="mode")
    columns = [(one.fsst.compress(codec="dict"), one) for one in (modes(1500, dtype), modes(90, dtype, False), none)]
    columns.append((cudf_fsst.concat([columns[-1][0]] * 2), pd.concat([none] * 2)))
    with caplog.at_level("DEBUG", "cudf_fsst.query"):
        for column, series in [*columns, mixed(dtype)]:
            pd.testing.assert_series_equal(column.to_categorical(), series.astype("category"))
            found, wanted = column.unique(), series.unique()
            assert type(found) is type(wanted)
            pd.testing.assert_series_equal(pd.Series(found), pd.Series(wanted))
            for dropna in (True, False):
                assert column.nunique(dropna=dropna) == series.nunique(dropna=dropna)
                for options in ({}, {"sort": False}, {"ascending": True}, {"normalize": True}):
                    counts = column.value_counts(dropna=dropna, **options)
                    pd.testing.assert_series_equal(counts, series.value_counts(dropna=dropna, **options))
    assert not [text for text in caplog.messages if "decoded" in text]


def test_distinct_values_of_other_columns() -> None:
    for series in (pd.Series([3, 1, 3, None], dtype="Int64"), modes(20), pd.Series([1.5, 2.5, 1.5])):
        column = series.fsst.compress(codec=None if series.name is None else "fsst")
        pd.testing.assert_series_equal(column.to_categorical(), series.astype("category"))
        pd.testing.assert_series_equal(pd.Series(column.unique()), pd.Series(series.unique()))
        assert column.nunique() == series.nunique()
        pd.testing.assert_series_equal(column.value_counts(), series.value_counts())
    numbers = pd.Series(np.arange(100.0))
    pd.testing.assert_series_equal(numbers.fsst.compress().value_counts(bins=3), numbers.value_counts(bins=3))


def test_bytes() -> None:
    series = pd.Series([b"\xff", b"", None, b"\xff\x00"] * 500, dtype=pd.ArrowDtype(pa.binary()))
    column = series.fsst.compress(codec="dict")
    pd.testing.assert_series_equal(column.decompress(), series)
    assert column.nunique() == 3
    assert column.value_counts().to_dict() == series.value_counts().to_dict()


def texts_of(values: list[Any]) -> pa.Array:
    """Bytes that Arrow takes for texts without a look at them."""
    array = pa.array(values, pa.large_binary())
    return pa.Array.from_buffers(pa.large_string(), len(array), array.buffers(), array.null_count)


@pytest.mark.parametrize("dtype", ["str", "string", pd.ArrowDtype(pa.large_string())], ids=str)
def test_distinct_texts_that_are_no_utf8(dtype: Any) -> None:
    """Counts are those of pandas, which cannot make categories of them."""
    kind = pd.Series([], dtype=dtype).dtype
    values = [b"\xff\xfe", b"ab", None, b"ab", b"\x80", b"c"] * 300
    series = pd.Series(kind.construct_array_type()(pa.chunked_array([texts_of(values)])).astype(kind))
    coded, plain = (series.fsst.compress(codec=codec) for codec in ("dict", "fsst"))
    for pieces in ([coded], [coded, coded], [coded, plain], [plain]):
        column = pieces[0] if len(pieces) == 1 else cudf_fsst.concat(pieces)
        whole = pd.concat([series] * len(pieces), ignore_index=True)
        for options in ({}, {"dropna": False}, {"sort": False}, {"normalize": True}):
            found, wanted = column.value_counts(**options), whole.value_counts(**options)
            assert found.dtype == wanted.dtype
            assert found.to_list() == wanted.to_list()
            assert [*map(as_bytes, (found.index, column.unique()))] == [*map(as_bytes, (wanted.index, whole.unique()))]
        assert column.nunique() == whole.nunique() == 4
        with pytest.raises(UnicodeDecodeError, match="in row 0"):
            column.to_categorical()
    with pytest.raises(UnicodeDecodeError, match="in row 0"):
        pd.DataFrame({"a": series}).fsst.compress(codecs={"a": "dict"}).decompress(categories=True)


def as_bytes(values: Any) -> list[Any]:
    """What an Index or an array of texts has."""
    array = pa.chunked_array([pa.array(getattr(values, "array", values))])
    return [None if value is None else bytes(value) for value in array.cast(pa.large_binary()).to_pylist()]


def test_categories_decode_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    series = modes()
    column = series.fsst.compress()
    monkeypatch.setattr(cpu, "Coded", None)  # what decodes rows
    monkeypatch.setattr(cpu, "take", None)
    pd.testing.assert_series_equal(column.to_categorical(), series.astype("category"))
    pd.testing.assert_series_equal(column.value_counts(), series.value_counts())
