"""Parquet files into frames, row group by row group, and back."""

from __future__ import annotations

import datetime as dt
import os
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cudf_fsst
import fresh
from cli_cases import parquet_files_that_cannot_be_read
from cudf_fsst import batches, workers
from cudf_fsst.interop import arrow_columns, cudf_parquet_writer
from cudf_fsst.parquet import host, reads, sources
from test_cli_frames import table_of_many_types


def read(path: Any, **options: Any) -> cudf_fsst.CompressedFrame:
    return cudf_fsst.read_parquet(path, device="cpu", **options)


def same(found: cudf_fsst.CompressedFrame, wanted: pd.DataFrame) -> None:
    """The frame is what pandas reads."""
    made = found.decompress()
    pd.testing.assert_frame_equal(made, wanted)
    fresh.same_index(made.index, wanted.index)
    assert found.dtypes.equals(wanted.dtypes)


def bytes_of(column: Any) -> list[tuple[Any, ...]]:
    """The buffers of a column, and what its tables are."""
    found = []
    for part in column._content.node.parts:
        table = None if part.table is None else part.table.symbols
        found.append((part.rows, bytes(memoryview(part.meta)), bytes(memoryview(part.codes)), table))
    return found


# What is read -----------------------------------------------------------------------------------------------------


def test_types_and_nulls(tmp_path: Path) -> None:
    table = pa.concat_tables([table_of_many_types()] * 3)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    found = read(tmp_path / "in.parquet")
    same(found, pd.read_parquet(tmp_path / "in.parquet"))
    stored = pq.read_table(tmp_path / "in.parquet")
    for name in ("key", "day", "price", "text", "flag", "real", "parts", "point"):
        assert found.to_arrow()[name].to_pylist() == stored[name].to_pylist()
    found.save(tmp_path / "frame.fsst")
    fresh.same_frame(tmp_path / "frame.fsst", pd.read_parquet(tmp_path / "in.parquet"))


INDEXES = {
    "plain": pd.RangeIndex(9),
    "range": pd.RangeIndex(20, 2, -2, name="r"),
    "integers": pd.Index(range(9, 0, -1), name="n"),
    "texts": pd.Index(["x", None, "z"] * 3, name="text"),
    "dates": pd.date_range("2026", periods=9, tz="Europe/Berlin"),
    "categories": pd.CategoricalIndex(list("aabbccdda"), name="k"),
    "pairs": pd.MultiIndex.from_arrays([list("aaabbbccc"), range(9)], names=["k", None]),
    "range and texts": pd.MultiIndex.from_arrays([pd.RangeIndex(9), list("aaabbbccc")], names=[None, "k"]),
    "ranges": pd.MultiIndex.from_arrays([pd.RangeIndex(9), pd.RangeIndex(30, 3, -3)], names=["p", "q"]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", INDEXES)
def test_index(name: str, tmp_path: Path) -> None:
    index = INDEXES[name]
    frame = pd.DataFrame({"n": range(9), "text": list("abcdefghi")}, index=index)
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=4)
    wanted = pd.read_parquet(tmp_path / "in.parquet")
    for columns in (None, ["text"]):
        same(read(tmp_path / "in.parquet", columns=columns), wanted if columns is None else wanted[columns])
    for filters in ([("n", ">", 2)], [("n", ">", 99)]):
        same(read(tmp_path / "in.parquet", filters=filters), pd.read_parquet(tmp_path / "in.parquet", filters=filters))
    frame.to_parquet(tmp_path / "in.parquet")  # as many rows as a range in one row group
    same(read(tmp_path / "in.parquet"), wanted)
    read(tmp_path / "in.parquet").to_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), wanted)


def test_integer_labels_of_which_some_are_missing(tmp_path: Path) -> None:
    """They stay integers, where pandas reads floats."""
    keys = [*range(7), None, 2**60 + 1]
    table = pa.Table.from_pandas(pd.DataFrame({"a": range(9)}, index=pd.Index([0] * 9, name="key")))
    pq.write_table(table.set_column(1, "key", pa.array(keys)), tmp_path / "in.parquet", row_group_size=4)
    found = read(tmp_path / "in.parquet")
    pd.testing.assert_index_equal(found.index, pd.Index(keys, dtype="Int64", name="key"), exact=True)


def test_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(9), "a.b": 1.5, "c": list("abcdefghi")})
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=2)
    same(read(tmp_path / "in.parquet", columns=["c", "a.b"]), frame[["c", "a.b"]])
    same(read(tmp_path / "in.parquet", columns=[]), pd.read_parquet(tmp_path / "in.parquet", columns=[]))


@pytest.mark.parametrize("labels", [[0, 1], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])], ids=["numbers", "pairs"])
def test_labels_and_codecs(labels: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame([[i, f"a{i}"] for i in range(6)], columns=labels)
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=4)
    names = pq.read_schema(tmp_path / "in.parquet").names
    for key in (names[0], labels[0]):
        found = read(tmp_path / "in.parquet", codecs={key: "raw"})
        same(found, frame)
        assert found.codecs.tolist() == ["raw", "fsst"]


@pytest.fixture
def row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row group of a file is a piece."""
    monkeypatch.setattr(sources, "_FEW_ROWS", 1)


@pytest.mark.usefixtures("row_groups")
def test_rows_of_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"n": range(100), "text": [f"row {i}" for i in range(100)]})
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=10)
    numbers = []
    reader = host.HostReader._read
    monkeypatch.setattr(
        host.HostReader, "_read", lambda self, piece, names: numbers.append(piece) or reader(self, piece, names)
    )
    filters = [("n", ">=", 35), ("n", "<", 52)]
    found = read(tmp_path / "in.parquet", columns=["text"], filters=filters)
    same(found, pd.read_parquet(tmp_path / "in.parquet", columns=["text"], filters=filters))
    assert [one.groups for one in numbers] == [[3], [4], [5]]
    same(read(tmp_path / "in.parquet", filters=[("n", ">", 1000)]), frame[:0])
    with pytest.raises(TypeError, match=r"filters must be a list of .*, not \('n', '>', 3\)"):
        read(tmp_path / "in.parquet", filters=("n", ">", 3))


@pytest.mark.parametrize("filters", [None, pc.scalar(True), pc.field("n") > 35, [("n", "<", 0)]], ids=str)
def test_no_columns(filters: Any, tmp_path: Path) -> None:
    """How many rows there are is all that is read."""
    frame = pd.DataFrame({"n": range(100), "kind": list("ab") * 50})
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=30)
    frame.to_parquet(tmp_path / "parts", partition_cols=["kind"])
    for path in (tmp_path / "in.parquet", tmp_path / "parts"):
        options = {"columns": [], "filters": filters}
        assert read(path, **options).shape == pd.read_parquet(path, **options).shape
    options = {"columns": [], "filters": [("kind", "==", "b")]}
    assert read(tmp_path / "parts", **options).shape == (50, 0)


def test_folder_of_files_with_a_range_and_a_column_as_index(tmp_path: Path) -> None:
    for number, rows in enumerate([3, 5, 3]):
        frame = pd.DataFrame({"who": [f"{number}{i}" for i in range(rows)], "n": range(rows)})
        frame.set_index("who", append=True).to_parquet(tmp_path / f"{number}.parquet")
    same(read(tmp_path), pd.read_parquet(tmp_path))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.int64()), [[1], None]),
        (pa.list_(pa.int64(), 2), [[1, 2], None]),
        (pa.struct([("a", pa.string())]), [{"a": "x"}, None]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None]),
    ],
    ids=str,
)
def test_nested_arrow_dtypes(kind: Any, values: list[Any], tmp_path: Path) -> None:
    """pandas notes names of dtypes that it does not read itself."""
    frame = pd.DataFrame({"nested": pd.Series(values, dtype=pd.ArrowDtype(kind)), "n": [1, 2]})
    frame.fsst.compress().to_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(read(tmp_path / "out.parquet").decompress(), frame)


def test_folders_lists_and_patterns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": range(90), "kind": list("abc") * 30, "text": [f"row {i}" for i in range(90)]})
    frame.to_parquet(tmp_path / "parts", partition_cols=["kind"])
    same(read(tmp_path / "parts"), pd.read_parquet(tmp_path / "parts"))
    same(read(tmp_path / "parts", columns=["kind", "n"]), pd.read_parquet(tmp_path / "parts", columns=["kind", "n"]))
    filters = [("kind", "==", "b"), ("n", "<", 50)]
    same(read(tmp_path / "parts", filters=filters), pd.read_parquet(tmp_path / "parts", filters=filters))

    paths = [tmp_path / f"part {i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        frame[30 * i : 30 * i + 30].to_parquet(path)
    wanted = pd.read_parquet(paths)
    same(read(paths), wanted)
    same(read(tmp_path / "part*.parquet"), wanted)
    same(read([str(paths[0])]), pd.read_parquet(paths[0]))
    same(read(tmp_path / "*0.parquet"), pd.read_parquet(paths[0]))
    (tmp_path / "part[0-9]").mkdir()
    frame.to_parquet(tmp_path / "part[0-9]" / "one.parquet")
    same(read(tmp_path / "part[0-9]"), frame)


@pytest.mark.parametrize("columns", [1, 0], ids=["no rows", "no columns"])
def test_nothing(columns: int, tmp_path: Path) -> None:
    for number, frame in enumerate([pd.DataFrame({"a": ["x"]})[:0], pd.DataFrame(index=range(3))]):
        path = tmp_path / f"{number}.parquet"
        frame.to_parquet(path)
        same(read(path), pd.read_parquet(path))
        read(path).to_parquet(tmp_path / "out.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), pd.read_parquet(path))
    with pq.ParquetWriter(tmp_path / "none.parquet", pa.schema({"a": pa.string()})):
        pass
    assert read(tmp_path / "none.parquet").shape == (0, 1)


# How it is read ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("row_groups")
def test_bytes_are_those_of_each_row_group(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    words = ["alpha", "beta", "gamma", "delta"]
    frame = pd.DataFrame(
        {
            "n": random.integers(0, 1000, 5000),
            "real": random.normal(size=5000).round(2),
            "text": [" ".join(random.choice(words, 5)) for _ in range(5000)],
            "maybe": pd.array(np.where(np.arange(5000) % 9, random.integers(0, 50, 5000), None), "Int64"),
        },
        index=pd.Index(np.arange(5000) * 3, name="key"),
    )
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=1300)
    for level in ("default", "max"):
        found = read(tmp_path / "in.parquet", level=level)
        pieces = [frame[start : start + 1300].fsst.compress(level=level) for start in range(0, 5000, 1300)]
        wanted = cudf_fsst.concat(pieces)
        for label in frame:
            assert bytes_of(found.column(label)) == bytes_of(wanted.column(label)), label
        assert bytes_of_levels(found) == bytes_of_levels(wanted)


def bytes_of_levels(frame: Any) -> list[bytes]:
    return [bytes(memoryview(part.codes)) for level in frame._index.levels for part in level.node.parts]


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("row_groups")
@pytest.mark.parametrize("nbytes", [1, 12_000])
@pytest.mark.parametrize("name", ["plain", "texts", "pairs"])
def test_columns_are_read_apart(name: str, nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many columns of a piece are read together, they and the index are the same."""
    frame = pd.DataFrame({"n": range(900), "text": ["a", "b", None] * 300, "real": np.arange(900) / 7})
    frame.index = INDEXES[name].repeat(100) if name != "plain" else pd.RangeIndex(900)
    for key in ("2025", "2026"):
        (tmp_path / f"year={key}").mkdir()
        frame.to_parquet(tmp_path / f"year={key}" / "in.parquet", row_group_size=400)
    whole = read(tmp_path)
    seen = []
    reader = host.HostReader._read
    monkeypatch.setattr(reads, "_SHARE_NBYTES", nbytes)
    monkeypatch.setattr(host.HostReader, "_read", lambda *of: seen.append(of[2]) or reader(*of))
    found = read(tmp_path)
    assert len({tuple(names) for names in seen}) == (3 if nbytes == 1 else 2)
    same(found, whole.decompress())
    for label in found.columns:
        assert bytes_of(found.column(label)) == bytes_of(whole.column(label))
    same(read(tmp_path, columns=["real", "n"]), pd.read_parquet(tmp_path, columns=["real", "n"]))


def test_many_small_row_groups_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"n": range(500)}), tmp_path / "in.parquet", row_group_size=10)
    seen = []
    reader = host.HostReader._read

    def seeing(self: Any, piece: Any, names: Any) -> Any:
        seen.append(piece.groups)
        return reader(self, piece, names)

    monkeypatch.setattr(host.HostReader, "_read", seeing)
    assert read(tmp_path / "in.parquet").to_arrow()["n"].to_pylist() == list(range(500))
    assert seen == [list(range(50))]
    seen.clear()
    monkeypatch.setattr(sources, "_PIECE_ROWS", 199)
    found = read(tmp_path / "in.parquet")
    assert seen == [list(range(19)), list(range(19, 38)), list(range(38, 50))]
    wanted = [pd.DataFrame({"n": range(a, b)}).fsst.compress() for a, b in ((0, 190), (190, 380), (380, 500))]
    assert bytes_of(found.column("n")) == bytes_of(cudf_fsst.concat(wanted).column("n"))
    seen.clear()
    monkeypatch.setattr(sources, "_PIECE_NBYTES", 1)
    assert len(read(tmp_path / "in.parquet")) == 500
    assert len(seen) == 50
    monkeypatch.setattr(sources, "_FEW_ROWS", 20)
    read(tmp_path / "in.parquet", filters=[("n", "<", 25)])
    assert seen[50:] == [[0, 1], [2]], "few that have such rows"


def test_notes_for_other_readers(tmp_path: Path) -> None:
    """cuDF asks pandas' notes for the precision of decimals."""
    frame = pd.DataFrame({"price": [Decimal("1.25"), None], "day": [dt.date(2026, 1, 1), None], "o": ["a", None]})
    frame["o"] = frame["o"].astype(object)
    frame.to_parquet(tmp_path / "pandas.parquet")
    frame.fsst.compress().to_parquet(tmp_path / "ours.parquet")
    one, other = (pq.read_schema(tmp_path / f"{name}.parquet").pandas_metadata for name in ("pandas", "ours"))
    assert one["columns"] == other["columns"]


def test_dictionaries_that_differ(tmp_path: Path) -> None:
    """pandas has one list of categories for all row groups, in the order in which they appear."""
    kinds = ["b", "a", None, "b", "c", "c", "a", "d", None]
    table = pa.table(
        {
            "kind": pa.array(kinds).dictionary_encode(),
            "inside": pa.array([{"k": kind} for kind in kinds], pa.struct({"k": pa.string()})),
            "ordered": pa.DictionaryArray.from_arrays(
                pa.array([0, 1, 2] * 3, pa.int8()), pa.array(["low", "mid", "high"]), ordered=True
            ),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    found = read(tmp_path / "in.parquet")
    same(found, pd.read_parquet(tmp_path / "in.parquet"))
    assert list(found["kind"].cat.categories) == ["b", "a", "c", "d"]
    assert found.to_arrow()["kind"].to_pylist() == kinds
    found.save(tmp_path / "frame.fsst")
    fresh.same_frame(tmp_path / "frame.fsst", pd.read_parquet(tmp_path / "in.parquet"))


def test_nulls_that_appear_late(tmp_path: Path) -> None:
    """A column of integers is one of floats to pandas as soon as any is missing."""
    table = pa.table({"n": pa.array([1, 2, 3, 4, None], pa.int32()), "flag": [True, False, True, None, True]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    found = read(tmp_path / "in.parquet")
    same(found, pd.read_parquet(tmp_path / "in.parquet"))
    assert found.column("n").to_arrow().equals(table["n"].combine_chunks())


@pytest.mark.usefixtures("row_groups")
def test_the_next_row_group_is_read_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"n": range(40)}).to_parquet(tmp_path / "in.parquet", row_group_size=10)
    began = [threading.Event() for _ in range(4)]
    reader, compress = host.HostReader._read, host.HostReader.compress
    threads = set()

    def watched_read(self: Any, piece: Any, names: Any) -> Any:
        began[piece.groups[0]].set()
        threads.add(threading.current_thread())
        return reader(self, piece, names)

    def watched_compress(self: Any, found: Any) -> Any:
        ((_, (table, _)),) = found
        number = table["n"][0].as_py() // 10
        assert began[min(number + 1, 3)].wait(300)
        assert not any(one.is_set() for one in began[number + 2 :]), "more than one piece ahead"
        return compress(self, found)

    monkeypatch.setattr(host.HostReader, "_read", watched_read)
    monkeypatch.setattr(host.HostReader, "compress", watched_compress)
    assert len(read(tmp_path / "in.parquet")) == 40
    assert threading.current_thread() not in threads
    assert workers.at_work() == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """32 MB in 32 row groups."""
    path = tmp_path_factory.mktemp("large") / "in.parquet"
    rows = 1_000_000
    table = pa.table({f"c{i}": np.random.default_rng(i).integers(0, 2**20, rows) for i in range(4)})
    assert table.nbytes == 32_000_000
    pq.write_table(table, path, row_group_size=rows // 32, compression="none", use_dictionary=False)
    return path


#: Kept, for who has memory of one gives it back there.
POOLS: list[pa.MemoryPool] = []


def arrow_peak(call: Any) -> int:
    """The most bytes that Arrow held at once."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        call()
    finally:
        pa.set_memory_pool(before)
    return int(pool.max_memory())


@pytest.mark.usefixtures("row_groups")
def test_memory_of_reading(large: Path) -> None:
    found = []
    assert arrow_peak(lambda: found.append(read(large))) < 8_000_000
    assert len(found[0]) == 1_000_000


def test_memory_of_writing(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = read(large)
    monkeypatch.setattr(batches, "PIECE_NBYTES", 1 << 20)
    assert arrow_peak(lambda: frame.to_parquet(tmp_path / "out.parquet")) < 12_000_000
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups > 25
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(large))


def test_the_whole_is_never_there(large: Path) -> None:
    """As the test above, of all memory of a fresh process: numbers, not Arrow's alone."""
    code = """
import resource, sys, cudf_fsst, pandas as pd
cudf_fsst.read_parquet(sys.argv[2], device="cpu")  # what is loaded once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
frame = cudf_fsst.read_parquet(sys.argv[1], device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, frame.nbytes // 1024)
"""
    small = large.parent / "small.parquet"
    table = pq.ParquetFile(large).read_row_group(0)
    pq.write_table(table, small)
    grown, result = map(int, fresh_output(code, large, small).split())
    assert grown < result + 12_000


def test_memory_that_is_left(tmp_path: Path) -> None:
    """Of a fresh process: Arrow's pool keeps nothing of the tables that were read."""
    code = """
import re, sys, cudf_fsst
def memory():
    return int(re.search(r"Anonymous: +(\\d+)", open("/proc/self/smaps_rollup").read())[1])
cudf_fsst.read_parquet(sys.argv[2], device="cpu")  # what is loaded once
before = memory()
frame = cudf_fsst.read_parquet(sys.argv[1], device="cpu")
print(memory() - before, frame.nbytes // 1024)
"""
    drawn = np.random.default_rng(0).random((4, 1_000_000))
    table = pa.table({str(number): column for number, column in enumerate(drawn)})
    pq.write_table(table, tmp_path / "large.parquet", use_dictionary=False, compression=None)
    pq.write_table(table[:1000], tmp_path / "small.parquet")
    grown, result = map(int, fresh_output(code, tmp_path / "large.parquet", tmp_path / "small.parquet").split())
    assert result > 25_000
    assert grown < 1.5 * result


def fresh_output(code: str, *arguments: Any) -> str:
    import os
    import subprocess
    import sys

    package = str(Path(cudf_fsst.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


# Mistakes ---------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in parquet_files_that_cannot_be_read(tmp_path):
        with pytest.raises((OSError, ValueError)) as raised:
            read(path)
        assert str(path) in str(raised.value)
        assert isinstance(raised.value, FileNotFoundError) == (path.name in ("missing", "folder"))


def test_a_damaged_file_of_several_is_named(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(pa.table({"a": range(1000)}), tmp_path / f"{i}.parquet")
    path = tmp_path / "1.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(500) + content[504:])
    with pytest.raises(OSError, match=r"1\.parquet"):
        read(tmp_path)
    path.write_bytes(content[:-10])
    with pytest.raises(ValueError, match=r"1\.parquet"):
        read(tmp_path / "*.parquet")
    assert not [thread for thread in threading.enumerate() if "parquet" in thread.name]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": ["n", "m"]}, ValueError, r"in\.parquet: no column 'm'; columns: n, text"),
        ({"columns": "text"}, TypeError, "a list of names, not 'text'"),
        ({"columns": ["n", "text", "n"]}, ValueError, "column 'n' is asked for 2 times"),
        ({"codecs": {"m": "raw"}}, KeyError, "does not have: 'm'"),
        ({"codecs": {"n": "fsst"}}, ValueError, "column 'n': codec 'fsst' takes strings"),
        ({"codecs": "fsst"}, TypeError, "codecs must be a dict of column labels and codecs, not str"),
        ({"level": "best"}, ValueError, "level must be one of"),
        ({"filters": [("m", ">", 1)]}, ValueError, r"in\.parquet: .*m"),
    ],
    ids=str,
)
def test_mistakes(options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2], "text": ["a", "b"]}), tmp_path / "in.parquet")
    with pytest.raises(error, match=message):
        read(tmp_path / "in.parquet", **options)


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty list"):
        read([])
    with (tmp_path / "text").open("w+") as file, pytest.raises(TypeError, match="open for text"):
        read(file)
    with pytest.raises(TypeError, match="or a list, not set"):
        read({tmp_path / "a.parquet", tmp_path / "b.parquet"})
    with pytest.raises(FileNotFoundError, match="no file has such a name"):
        read(tmp_path / "*.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    assert len(read(os.fsencode(tmp_path / "a.parquet"))) == 1
    with pytest.raises(ValueError, match=r"compression 'bad': .*bad"):
        read(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet", compression="bad")
    assert not (tmp_path / "b.parquet").exists()
    with pytest.raises(IsADirectoryError, match="folder"):
        read([tmp_path / "a.parquet", tmp_path / "folder"])
    with pytest.raises(ValueError, match="device must be"):
        cudf_fsst.read_parquet(tmp_path / "a.parquet", device="tpu")
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"twice\.parquet: 2 columns are named 'a'"):
        read(tmp_path / "twice.parquet")


def test_no_file_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"n": range(5000), "price": [Decimal(1)] * 5000, "day": dt.date(2026, 1, 1)}).fsst.compress()
    path = tmp_path / "out.parquet"
    path.write_text("precious")
    monkeypatch.setattr(batches, "PIECE_NBYTES", 40_000)
    write, calls = pq.ParquetWriter.write_table, []

    def fails(self: Any, table: Any, **options: Any) -> None:
        if calls:
            raise OSError("no space left on device")
        calls.append(write(self, table, **options))

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", fails)
        with pytest.raises(OSError, match="no space left"):
            frame.to_parquet(path)
    assert path.read_text() == "precious"
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]
    frame.to_parquet(path, compression="zstd")
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    pd.testing.assert_frame_equal(pd.read_parquet(path), frame.decompress())


def test_pieces_are_smaller_where_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what libcudf writes, of which no more than the sizes is looked at here."""
    frame = pd.DataFrame({"n": range(5000)}).fsst.compress()
    options = batches.ParquetOptions("snappy")
    tried = []

    def write(_path: Any, _backend: Any, _nodes: Any, rows: int, count: int, *_: Any) -> None:
        tried.append((rows, count))
        if len(tried) % 2:
            raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(batches, "_write_pieces_on_gpu", write)
    columns, dtypes = frame._columns, frame._dtypes()
    batches.write_parquet_on_gpu("p", frame._backend, columns, frame._labels, dtypes, [], frame._index, options)
    assert tried == [(5000, 1), (5000, 8)]
    monkeypatch.setattr(batches, "_GPU_PIECE_NBYTES", 1000)
    batches.write_parquet_on_gpu("p", frame._backend, columns, frame._labels, dtypes, [], frame._index, options)
    assert tried[2:] == [(5000, 22), (5000, 176)]


@pytest.mark.parametrize("size", [None, 1000, 7000])
def test_pieces_that_a_gpu_writes(size: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Piece by piece, by a stand-in for libcudf that cuts row groups as it does."""
    frame = pd.DataFrame({"n": range(50_000)}).fsst.compress()
    pieces = []

    class Writer:
        def __init__(self, sink: Any, fields: pa.Schema, _: Any, group_rows: int) -> None:
            self.writer, self.fields, self.group_rows = pq.ParquetWriter(sink, fields), fields, group_rows

        def write(self, columns: Any) -> None:
            table = pa.Table.from_arrays([arrow_columns.rebuild(one) for one in columns], schema=self.fields)
            pieces.append(len(table))
            self.writer.write_table(table, row_group_size=self.group_rows)

        def __enter__(self) -> Writer:
            return self

        def __exit__(self, *_: Any) -> None:
            self.writer.close()

    monkeypatch.setattr(batches, "_GPU_PIECE_NBYTES", 1000)
    monkeypatch.setattr(batches, "_GPU_GROUP_ROWS", 900)
    monkeypatch.setattr(cudf_parquet_writer, "ParquetWriter", Writer)
    path, options = tmp_path / "out.parquet", batches.ParquetOptions("snappy", row_group_size=size)
    columns, dtypes = frame._columns, frame._dtypes()
    batches.write_parquet_on_gpu(path, frame._backend, columns, frame._labels, dtypes, [], frame._index, options)
    assert pd.read_parquet(path)["n"].to_list() == list(range(50_000))
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if size is None:
        assert len(pieces) == 22
        assert set(groups[:-3]) == {768}
        assert max(groups) <= 900
    else:
        assert set(groups[:-1]) == {size}
        assert max(pieces) <= max(size, 50_000 // 22)


def test_pieces_of_many_rows() -> None:
    """lineitem of scale factor 10: pieces are not rounded to whole row groups of 2^20 rows, which would be 29."""
    rows = 59_986_052
    step, group_rows = batches._cut(rows, 22, None)
    assert -(-rows // step) == 22
    assert 2**19 < group_rows <= 2**20
    assert batches._cut(rows, 22, 10**6) == (2 * 10**6, 10**6)
    assert batches._cut(10, 22, None) == batches._cut(0, 1, None) == (32, 32)
