"""Columns of strings of codec ``onpair``, as users have them, on the host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import reference_onpair
from column_cases import PHRASES, phrases
from cudf_fsst.codecs.onpair import OnPairTable
from cudf_fsst.codecs.text import cpu_match, cpu_rows, plan
from cudf_fsst.files import storage
from stored_file import load_stored


@pytest.mark.parametrize("level", ["default", "max"])
@pytest.mark.parametrize("tile_size", ["auto", 128, 1024])
def test_compress_read_and_store(level: str, tile_size: int | str, tmp_path: Path) -> None:
    series = phrases(2500)
    column = series.fsst.compress(codec="onpair", level=level, tile_size=tile_size)
    assert column.codec == "onpair"
    (table,) = column.tables
    assert isinstance(table, OnPairTable)
    assert level == "max" or table.bits == 11
    pd.testing.assert_series_equal(column.decompress(), series)
    rows = np.random.default_rng(1).integers(0, len(series), 700)
    pd.testing.assert_series_equal(column[rows], series.iloc[rows])
    pd.testing.assert_series_equal(column[3:1900], series[3:1900])
    assert column[7] == series[7]
    path = tmp_path / "column.fsst"
    column.save(path)
    assert storage.version_of(path) == 4
    loaded = cudf_fsst.load(path)
    pd.testing.assert_series_equal(loaded.decompress(), series)
    assert loaded.tables == column.tables


def test_the_stored_bytes_are_the_pages(tmp_path: Path) -> None:
    """A reader in plain Python, made from docs/format.md, decodes the codes of a file."""
    series = phrases(400)
    series.fsst.compress(codec="onpair").save(tmp_path / "column.fsst")
    expected = "".join(row for row in series.dropna()).encode()
    found = b""
    for _, segments in load_stored(tmp_path / "column.fsst").streams:
        for segment in segments:
            table = reference_onpair.Table(segment.table.to_bytes())
            codes, at, size = segment.codes.tobytes(), 0, segment.layout.tile_size
            for tile, length in enumerate(segment.section("tile_lengths").tolist()):
                nbytes = min(size, segment.chars - tile * size)
                found += table.decode(codes[at : at + length + 1], nbytes)
                at += length + 1
    assert found == expected


@pytest.mark.parametrize("level", ["default", "max"])
def test_questions(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered on the codes, of several segments and tables."""
    monkeypatch.setattr(plan, "segment_size", lambda chars: 40_000)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 80_000)
    series = phrases(3000)
    column = series.fsst.compress(codec="onpair", level=level)
    assert len(column.tables) > 1
    for module in (cpu_match, cpu_rows):
        monkeypatch.setattr(module, "Decoded", None)  # no tile is decoded to be searched
    for ask in (
        lambda one: one.str.contains("ee", regex=False),
        lambda one: one.str.startswith("a b"),
        lambda one: one.str.endswith("zz"),
        lambda one: one.str.count("oo"),
        lambda one: one.str.find("l"),
        lambda one: one.str.len(),
        lambda one: one == "zz",
        lambda one: one.isin(["zz", "", PHRASES[5]]),
        lambda one: one.str.contains("e{2}|[o]l"),
        lambda one: one < "b",
        lambda one: one.str.contains("COFFEE|good", case=False),
        lambda one: one.str.match("[a-z] .*8$"),
    ):
        pd.testing.assert_series_equal(ask(column), ask(series))
    like = column.str.like("%a_of%")
    pd.testing.assert_series_equal(like, series.str.contains("a.of"))
    monkeypatch.undo()
    pd.testing.assert_series_equal(column.str.upper(), series.str.upper())


def test_tables_are_given_and_kept() -> None:
    series = phrases(600)
    table = cudf_fsst.train(series, codec="onpair")
    assert isinstance(table, OnPairTable)
    again = OnPairTable.from_bytes(table.to_bytes())
    column = phrases(500, 3).fsst.compress(table=again)
    assert (column.codec, column.tables) == ("onpair", (table,))
    pd.testing.assert_series_equal(column.decompress(), phrases(500, 3))
    with pytest.raises(ValueError, match="table is for codec 'onpair', not for 'fsst'"):
        series.fsst.compress(table=table, codec="fsst")


def test_concat_compressor_and_frames(tmp_path: Path) -> None:
    pieces = [phrases(900, seed) for seed in range(3)]
    pieces = [piece.set_axis(range(900 * i, 900 * i + 900)) for i, piece in enumerate(pieces)]
    series = pd.concat(pieces)
    made = [piece.fsst.compress(codec=name) for piece, name in zip(pieces, ("onpair", "fsst", "onpair"), strict=True)]
    column = cudf_fsst.concat(made)
    column.save(tmp_path / "mixed.fsst")
    for one in column, cudf_fsst.load(tmp_path / "mixed.fsst"):
        pd.testing.assert_series_equal(one.decompress(), series)
        pd.testing.assert_series_equal(one.str.len(), series.str.len())
    compressor = cudf_fsst.Compressor(codec="onpair")
    for piece in pieces:
        compressor.append(piece)
    assert compressor.finish().decompress().tolist() == series.tolist()
    lists = pd.Series(pd.array([["aa", None], [], None] * 900, dtype=pd.ArrowDtype(pa.list_(pa.string()))))
    frame = pd.DataFrame({"text": series.array, "lists": lists, "numbers": np.arange(2700)})
    frame.fsst.compress(codecs={"text": "onpair", "lists": "onpair"}).save(tmp_path / "frame.fsst")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "frame.fsst").decompress(), frame)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Codes that do not decode are found when a file is loaded, although its checksums hold."""
    path = tmp_path / "column.fsst"
    phrases(3000).fsst.compress(codec="onpair").save(path)
    stored = load_stored(path)
    ((codec, (segment,)),) = stored.streams
    rng, refused = np.random.default_rng(5), 0
    for _ in range(40):
        codes = segment.codes.copy()
        codes[rng.integers(0, codes.size, 3)] ^= rng.integers(1, 256, 3, dtype=np.uint8)
        damaged = replace(segment, codes=codes)
        storage.save(path, streams=[(codec, [damaged])], schema=stored.schema, version=4)
        try:
            cudf_fsst.load(path).decompress()
        except (ValueError, UnicodeDecodeError):
            refused += 1
    assert refused > 30


def test_spill_pool(tmp_path: Path) -> None:
    """Kept in memory, and on disk, in files of version 4."""
    frame = pd.DataFrame({"text": phrases(9000), "more": phrases(9000, 4)})
    compressed = frame.fsst.compress(codecs={"text": "onpair"})
    with cudf_fsst.SpillPool(host_limit="100 KiB", directory=tmp_path) as pool:
        for name in "abc":
            pool[name] = compressed
        assert list(tmp_path.rglob("*"))
        for name in "abc":
            assert pool[name].column("text").tables == compressed.column("text").tables
            pd.testing.assert_frame_equal(pool[name].decompress(), frame)


@pytest.mark.gpu
@pytest.mark.parametrize("level", ["default", "max"])
def test_on_a_gpu(level: str) -> None:
    """The same bytes as on the host, and all that is read there."""
    import cudf

    host = phrases(20_000)
    there = cudf.Series(host)
    column, expected = there.fsst.compress(codec="onpair", level=level), host.fsst.compress(codec="onpair", level=level)
    assert column.codec == "onpair"
    assert column.tables == expected.tables
    for found, one in zip(column.to_host().segments, expected.segments, strict=True):
        assert found.meta.tobytes() == one.meta.tobytes()
        assert found.codes.tobytes() == one.codes.tobytes()
    assert column.decompress().to_arrow().equals(there.to_arrow())
    assert expected.to_device().decompress().to_arrow().equals(there.to_arrow())
    rows = np.random.default_rng(1).integers(0, len(host), 500)
    assert column[rows].to_arrow().equals(there.iloc[rows].to_arrow())
    assert column[77:9_000].to_arrow().equals(there[77:9_000].to_arrow())
    value = there.dropna().iloc[3]
    for one, plain in (
        (column, there),
        (cudf_fsst.concat([column, there.fsst.compress(codec="fsst")]), cudf.concat([there, there])),
    ):
        for ask in (
            lambda series: series.str.contains("ee", regex=False),
            lambda series: series.str.contains(" ", regex=False),
            lambda series: series.str.startswith("f"),
            lambda series: series.str.endswith("s"),
            lambda series: series.str.like("%a%e%"),
            lambda series: series.str.count("e"),
            lambda series: series.str.find("e"),
            lambda series: series.str.len(),
            lambda series: series == value,
            lambda series: series.isin([value, "ee"]),
        ):
            assert ask(one).to_arrow().equals(ask(plain).to_arrow())
    assert cudf_fsst.train(there, codec="onpair", level=level) == cudf_fsst.train(host, codec="onpair", level=level)
