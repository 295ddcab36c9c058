"""Files written by earlier versions are still read (tests/golden/make.py made them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cudf_fsst
import fresh
import reference_frame_reader
import reference_onpair
import reference_reader
from cudf_fsst.arrow_types import is_strings
from cudf_fsst.codecs import bitpack
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.text import cpu
from cudf_fsst.files import storage
from handmade import rows_of
from stored_file import load_stored

FRAMES = Path(__file__).parent / "golden" / "frames"
FRAME_NAMES = sorted(path.stem for path in FRAMES.glob("*.fsst"))
FOLDER = Path(__file__).parent / "golden"
VERSION_3 = sorted(path.stem for path in (FOLDER / "version3").glob("*.fsst"))
VERSION_4 = sorted(path.stem for path in (FOLDER / "version4").glob("*.fsst"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.fsst"))


def expected_rows(name: str) -> list[bytes | None]:
    rows = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return [None if row is None else row.encode("latin-1") for row in rows]


def test_there_are_golden_files() -> None:
    assert len(NAMES) >= 14
    assert all((FOLDER / f"{name}.fsst").stat().st_size < 20_000 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_load_reads_it(name: str) -> None:
    stored = load_stored(FOLDER / f"{name}.fsst")
    assert rows_of(cpu.read(stored.segments)) == expected_rows(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_reader_reads_it(name: str) -> None:
    assert reference_reader.read(FOLDER / f"{name}.fsst") == expected_rows(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "any_parse"])
def test_our_encoder_still_writes_it(name: str) -> None:
    """With the table of the file, so that training may get better."""
    for segment in load_stored(FOLDER / f"{name}.fsst").segments:
        rows = cpu.read([segment])
        level = "max" if name.startswith("level_max") else "default"
        [again] = cpu.compress(rows, table=segment.table, tile_size=segment.layout.tile_size, level=level)
        assert again.layout == segment.layout
        assert again.meta.tobytes() == segment.meta.tobytes()
        assert again.codes.tobytes() == segment.codes.tobytes()


@pytest.mark.parametrize("name", FRAME_NAMES)
def test_frame(name: str, tmp_path: Path) -> None:
    """Read as before, and still written with the same bytes, but for values that have a divisor (version 3)."""
    frame = cudf_fsst.load(FRAMES / f"{name}.fsst")
    rows = frame.to_arrow().to_pylist()[:200]
    assert "\n".join(map(repr, rows)) + "\n" == (FRAMES / f"{name}.txt").read_text(encoding="utf-8")
    codecs = dict.fromkeys(frame, name)
    if name in ("types", "lists"):  # strings had no dictionaries then
        codecs = {label: "fsst" for label, column in zip(frame, frame._columns, strict=True) if is_strings(column.type)}
    again = frame.decompress().fsst.compress(codecs=codecs)
    divided = []
    for label, column, other in zip(frame, again._columns, frame._columns, strict=True):
        parts, others = list(column.node.parts), list(other.node.parts)
        if any(isinstance(part, Packed) and is_divided(part) for part in parts):
            divided.append(label)
            continue
        assert len(parts) == len(others)
        for part, expected in zip(parts, others, strict=True):
            if isinstance(part, Packed):  # how symbol tables are trained may change
                assert (part.codec, part.parameters) == (expected.codec, expected.parameters)
                assert part.meta.tobytes() == expected.meta.tobytes()
                assert part.codes.tobytes() == expected.codes.tobytes()
    assert divided == (["day"] if name == "types" else [])


def is_divided(part: Packed) -> bool:
    """Whether only version 3 can hold it."""
    return part.codec == "bitpack" and bitpack.since(part.parameters) == 3


@pytest.mark.parametrize("name", FRAME_NAMES)
def test_the_reference_reader_reads_the_frame(name: str) -> None:
    frame = cudf_fsst.load(FRAMES / f"{name}.fsst")
    assert reference_frame_reader.read(FRAMES / f"{name}.fsst") == list(frame.to_arrow().to_pydict().items())


def test_there_are_golden_frames() -> None:
    assert len(FRAME_NAMES) >= 6


def shows(loaded: Any, wanted: str) -> None:
    """Check what a file of version 3 holds; for a fresh process."""
    from golden.make import shown

    assert shown(loaded) == wanted


@pytest.mark.parametrize("name", VERSION_3)
def test_version_3(name: str, tmp_path: Path) -> None:
    """Read as before, and still written with the same bytes."""
    path = FOLDER / "version3" / f"{name}.fsst"
    assert storage.version_of(path) == 3
    fresh.check(path, shows, path.with_suffix(".txt").read_text(encoding="utf-8"))
    cudf_fsst.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", VERSION_3)
def test_the_reference_reader_reads_version_3(name: str) -> None:
    path = FOLDER / "version3" / f"{name}.fsst"
    loaded = cudf_fsst.load(path)
    found = reference_frame_reader.read(path)
    if isinstance(loaded, cudf_fsst.CompressedColumn):
        assert found[0][1] == loaded.to_arrow().to_pylist()
        assert [len(values) for _, values in found] == [len(loaded)] * len(found)
        return
    _, columns = loaded.shape
    assert found[:columns] == list(loaded.to_arrow().to_pydict().items())
    if "dictionary" in name:  # labels as version 2 has them
        assert found[columns:] == [("index 0", loaded.index.tolist())]
        return
    assert len(found) == columns + (0 if name == "divided" else loaded.columns.nlevels)
    for number, (_, values) in enumerate(found[columns:]):
        labels = [None if pd.isna(label) else label for label in loaded.columns.get_level_values(number)]
        if isinstance(values[0], dict):
            values = [pd.Interval(value["left"], value["right"]) for value in values]
        elif isinstance(labels[0], pd.Period):
            labels = [label.ordinal for label in labels]
        assert values == labels


def test_values_are_divided_as_before(tmp_path: Path) -> None:
    loaded = cudf_fsst.load(FOLDER / "version3" / "divided.fsst")
    found = [[part.parameters[2] for part in column.node.parts if is_divided(part)] for column in loaded._columns]
    assert found == [[86400], [2500], [10], [100], [60], [250], [0]], "2^32 and more is in the other number"
    loaded.decompress().fsst.compress(codecs={"whole": "bitpack"}).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (FOLDER / "version3" / "divided.fsst").read_bytes()


@pytest.mark.parametrize("name", VERSION_4)
def test_version_4(name: str, tmp_path: Path) -> None:
    """Read as before, and still written with the same bytes; those of an outer codec depend on Zstandard's release."""
    path = FOLDER / "version4" / f"{name}.fsst"
    assert storage.version_of(path) == 4
    fresh.check(path, shows, path.with_suffix(".txt").read_text(encoding="utf-8"))
    loaded, found = cudf_fsst.load(path), reference_frame_reader.read(path)
    if isinstance(loaded, cudf_fsst.CompressedColumn):
        assert found[0][1] == loaded.to_arrow().to_pylist()
    else:  # as text, for NaN is not equal to itself
        assert repr(found[: len(loaded.columns)]) == repr(list(loaded.to_arrow().to_pydict().items()))
    if loaded.index.name == "i":
        assert found[-1][1] == loaded.index.tolist()
    if not name.startswith("outer"):
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_nan_is_packed_as_before(tmp_path: Path) -> None:
    loaded = cudf_fsst.load(FOLDER / "version4" / "nan.fsst")
    found = [part.parameters for column in loaded._columns for part in column.node.values[0]]
    assert [parameters[1] for parameters in found] == [2, 2, 3, 1024]
    loaded.decompress().fsst.compress().save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (FOLDER / "version4" / "nan.fsst").read_bytes()


@pytest.mark.parametrize("name", [name for name in VERSION_4 if name.startswith("onpair")])
def test_onpair_still_writes_its_codes(name: str) -> None:
    """With the tables of the file, so that training may get better; the reader in plain Python writes the same."""
    streams = [segments for codec, segments in load_stored(FOLDER / "version4" / f"{name}.fsst").streams]
    found = [segment for segments in streams for segment in segments if getattr(segment, "codec", "") == "onpair"]
    assert found
    for segment in found:
        rows, size = cpu.read([segment]), segment.layout.tile_size
        [again] = cpu.compress(rows, table=segment.table, tile_size=size)
        assert again.layout == segment.layout
        assert again.meta.tobytes() == segment.meta.tobytes()
        assert again.codes.tobytes() == segment.codes.tobytes()
        table, chars = reference_onpair.Table(segment.table.to_bytes()), rows.chars.tobytes()
        tiles = (chars[at : at + size] for at in range(0, len(chars), size))
        assert b"".join(map(table.encode, tiles)) == segment.codes.tobytes()


def test_there_are_golden_files_of_version_4() -> None:
    assert len(VERSION_4) >= 6


def test_there_are_golden_files_of_version_3() -> None:
    assert len(VERSION_3) >= 8
