"""Codecs that are not in the package, each a folder and a registration: nothing in the package knows their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import toy_text
import toy_values
from checker import Case, HostNodes, PandasColumn, cases_for, check
from column_cases import PHRASES, phrases
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.text import cpu
from cudf_fsst.files import storage
from stored_file import load_stored


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registry.registered(values=[toy_values], texts=[toy_text]):
        yield


def test_a_codec_says_since_which_version(tmp_path: Path) -> None:
    """A file has the first version that has all of its codecs, and one of a version before has none of its streams."""
    path = tmp_path / "frame.fsst"
    frame = pd.DataFrame({"a": np.arange(1000) ** 2, "b": np.arange(1000.0)})
    for codec, version in ("bitpack", 2), (toy_values.NAME, 4):
        frame.fsst.compress(codecs={"a": codec, "b": "raw"}).save(path)
        assert storage.version_of(path) == version
        pd.testing.assert_frame_equal(cudf_fsst.load(path).decompress(), frame)
    frame["a"].fsst.compress(codec=toy_values.NAME).save(path)
    assert storage.version_of(path) == 4
    pd.testing.assert_series_equal(cudf_fsst.load(path).decompress(), frame["a"])
    stored = load_stored(path)
    storage.save(path, streams=stored.streams, schema=stored.schema, version=3)
    with pytest.raises(ValueError, match=f"codec b'{toy_values.NAME}' is not known"):
        cudf_fsst.load(path)


def test_names() -> None:
    assert toy_values.NAME in registry.names()
    for more in {"values": [toy_values]}, {"texts": [toy_text]}:
        with pytest.raises(ValueError, match="already"), registry.registered(**more):
            pass
    assert toy_values.NAME not in registry.streams(3)
    assert toy_values.NAME in registry.streams(4)


def test_text(tmp_path: Path) -> None:
    """Compressed, read and taken, stored, and asked."""
    series = phrases(3000)
    column = series.fsst.compress(codec=toy_text.NAME)
    assert column.codec == toy_text.NAME
    assert {segment.codec for segment in column.segments} == {toy_text.NAME}
    assert column.codes_nbytes < column.chars_nbytes
    pd.testing.assert_series_equal(column.decompress(), series)
    rows = np.random.default_rng(1).integers(0, len(series), 500)
    pd.testing.assert_series_equal(column[rows], series.iloc[rows])
    pd.testing.assert_series_equal(column[700:1900], series[700:1900])
    assert column[5] == series[5]
    column.save(tmp_path / "column.fsst")
    assert storage.version_of(tmp_path / "column.fsst") == 4
    loaded = cudf_fsst.load(tmp_path / "column.fsst")
    assert loaded.codec == toy_text.NAME
    pd.testing.assert_series_equal(loaded.decompress(), series)


@pytest.mark.parametrize("tile_size", [128, 1024])
def test_questions(tile_size: int) -> None:
    """Answered without a search of the codec's own."""
    series = phrases(5000)
    column = series.fsst.compress(codec=toy_text.NAME, tile_size=tile_size)
    for ask in (
        lambda one: one.str.contains("ee", regex=False),
        lambda one: one.str.contains("bccdd", regex=False),
        lambda one: one.str.startswith("a b"),
        lambda one: one.str.endswith("zz"),
        lambda one: one.str.count("oo"),
        lambda one: one.str.find("l"),
        lambda one: one.str.len(),
        lambda one: one == "zz",
        lambda one: one.isin(["zz", "", PHRASES[5]]),
        lambda one: one.str.contains("e{2}|[o]l"),
        lambda one: one.str.fullmatch("(a|b)+.*e"),
        lambda one: one < "b",
    ):
        pd.testing.assert_series_equal(ask(column), ask(series))


def test_codecs_of_one_column(tmp_path: Path) -> None:
    """A column whose rows have several codecs of text: read, taken, asked and stored."""
    pieces = [phrases(1000, seed) for seed in range(4)]
    pieces = [piece.set_axis(range(1000 * i, 1000 * i + 1000)) for i, piece in enumerate(pieces)]
    names = [toy_text.NAME, "fsst", "fsst", toy_text.NAME]
    made = [piece.fsst.compress(codec=name) for piece, name in zip(pieces, names, strict=True)]
    column, series = cudf_fsst.concat(made), pd.concat(pieces)
    assert column.codec == f"{toy_text.NAME}, fsst"
    column.save(tmp_path / "column.fsst")
    loaded = cudf_fsst.load(tmp_path / "column.fsst")
    assert [segment.codec for segment in loaded.segments] == [segment.codec for segment in column.segments]
    rows = np.random.default_rng(1).integers(0, len(series), 800)
    for one in column, loaded:
        pd.testing.assert_series_equal(one.decompress(), series)
        pd.testing.assert_series_equal(one[rows], series.iloc[rows])
        pd.testing.assert_series_equal(one.str.contains("ee", regex=False), series.str.contains("ee", regex=False))
        pd.testing.assert_series_equal(one.str.len(), series.str.len())


def test_given_tables() -> None:
    series = phrases(500)
    table = cudf_fsst.train(series, codec=toy_text.NAME)
    assert table == toy_text.ToyTable()
    assert table.expand(bytes([98, 98 + 128, 0, 255])) == b"aaa\xff"
    column = series.fsst.compress(table=table)
    assert (column.codec, column.tables) == (toy_text.NAME, (table,))
    for other in "fsst", "dict":
        with pytest.raises(ValueError, match=f"table is for codec '{toy_text.NAME}', not for '{other}'"):
            series.fsst.compress(table=table, codec=other)
    with pytest.raises(TypeError, match=r"table must be a SymbolTable, .*ToyTable or None, not bytes"):
        series.fsst.compress(table=b"")


def test_compressor_and_frames(tmp_path: Path) -> None:
    """Data that comes piece by piece, frames of all kinds of columns, and their files."""
    compressor = cudf_fsst.Compressor(codec=toy_text.NAME)
    for seed in range(3):
        compressor.append(phrases(700, seed))
    column = compressor.finish()
    assert column.codec == toy_text.NAME
    series = pd.concat([phrases(700, seed) for seed in range(3)])
    assert column.decompress().tolist() == series.tolist()
    lists = pd.Series(pd.array([["aa", None], [], None] * 700, dtype=pd.ArrowDtype(pa.list_(pa.string()))))
    frame = pd.DataFrame({"text": series.array, "lists": lists, "numbers": np.arange(2100)})
    names = {"text": toy_text.NAME, "lists": toy_text.NAME, "numbers": toy_values.NAME}
    frame.fsst.compress(codecs=names).save(tmp_path / "frame.fsst")
    assert storage.version_of(tmp_path / "frame.fsst") == 4
    loaded = cudf_fsst.load(tmp_path / "frame.fsst")
    pd.testing.assert_frame_equal(loaded.decompress(), frame)
    found = [loaded.column(label).codec for label in names]
    assert found == [toy_text.NAME, f"bitpack, {toy_text.NAME}", toy_values.NAME]


@pytest.mark.parametrize("case", cases_for(any_bytes=True))
def test_checker(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every way of compressing strings passes."""
    case.patch(monkeypatch)
    check(HostNodes(toy_text.NAME), case)
    if case.utf8:
        check(PandasColumn(pd.StringDtype("pyarrow", np.nan), toy_text.NAME), case, tile_size=512, level="max")


def test_parquet(tmp_path: Path) -> None:
    """Read from, and written to."""
    frame = pd.DataFrame({"text": phrases(4000), "numbers": np.arange(4000)})
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=1500)
    codecs = {"text": toy_text.NAME, "numbers": toy_values.NAME}
    found = cudf_fsst.read_parquet(tmp_path / "in.parquet", codecs=codecs, device="cpu")
    assert {label: found.column(label).codec for label in codecs} == codecs
    pd.testing.assert_frame_equal(found.decompress(), frame)
    found.to_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame)


def test_spill_pool(tmp_path: Path) -> None:
    """Kept in memory, and on disk."""
    frame = pd.DataFrame({"text": phrases(20_000), "numbers": np.arange(20_000)})
    compressed = frame.fsst.compress(codecs={"text": toy_text.NAME, "numbers": toy_values.NAME})
    with cudf_fsst.SpillPool(host_limit="100 KiB", directory=tmp_path) as pool:
        for name in "abc":
            pool[name] = compressed
        assert list(tmp_path.rglob("*"))
        for name in "abc":
            pd.testing.assert_frame_equal(pool[name].decompress(), frame)


def test_damaged_codes(tmp_path: Path) -> None:
    """Refused where a file is read, and where rows are."""
    column = phrases(300).fsst.compress(codec=toy_text.NAME)
    [segment] = column.segments
    codes = segment.codes.copy()
    codes[:] = 0
    damaged = replace(segment, codes=codes)
    storage.save(tmp_path / "a", streams=[(toy_text.NAME, [damaged])], schema=b"", version=4)
    with pytest.raises(ValueError, match=r"segment 0: codes: tile \d+ does not decode"):
        load_stored(tmp_path / "a")
    with pytest.raises(ValueError, match=r"the codes of tile \d+ do not decode"):
        cpu.read([damaged])
