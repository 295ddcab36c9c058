"""Files written by earlier versions are still read (tests/golden/make.py made them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cudf_fsst
import reference_frame_reader
import reference_reader
from cudf_fsst import storage
from cudf_fsst.codecs.fsst import cpu
from cudf_fsst.codecs.packed import Packed
from handmade import rows_of

FRAMES = Path(__file__).parent / "golden" / "frames"
FRAME_NAMES = sorted(path.stem for path in FRAMES.glob("*.fsst"))
FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.fsst"))


def expected_rows(name: str) -> list[bytes | None]:
    rows = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return [None if row is None else row.encode("latin-1") for row in rows]


def test_there_are_golden_files() -> None:
    assert len(NAMES) >= 14
    assert all((FOLDER / f"{name}.fsst").stat().st_size < 20_000 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_load_reads_it(name: str) -> None:
    stored = storage.load(FOLDER / f"{name}.fsst")
    assert rows_of(cpu.decompress(stored.segments)) == expected_rows(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_reader_reads_it(name: str) -> None:
    assert reference_reader.read(FOLDER / f"{name}.fsst") == expected_rows(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "any_parse"])
def test_our_encoder_still_writes_it(name: str) -> None:
    """With the table of the file, so that training may get better."""
    for segment in storage.load(FOLDER / f"{name}.fsst").segments:
        rows = cpu.decompress([segment])
        level = "max" if name == "level_max" else "default"
        [again] = cpu.compress(rows, table=segment.table, tile_size=segment.layout.tile_size, level=level)
        assert again.layout == segment.layout
        assert again.meta.tobytes() == segment.meta.tobytes()
        assert again.codes.tobytes() == segment.codes.tobytes()


@pytest.mark.parametrize("name", FRAME_NAMES)
def test_frame(name: str, tmp_path: Path) -> None:
    """Read as before, and still written with the same bytes."""
    frame = cudf_fsst.load(FRAMES / f"{name}.fsst")
    rows = frame.to_arrow().to_pylist()[:200]
    assert "\n".join(map(repr, rows)) + "\n" == (FRAMES / f"{name}.txt").read_text(encoding="utf-8")
    codecs = {} if name in ("types", "lists") else dict.fromkeys(frame, name)
    again = frame.decompress().fsst.compress(codecs=codecs)
    for column, other in zip(again._columns, frame._columns, strict=True):
        parts, others = list(column.node.parts), list(other.node.parts)
        assert len(parts) == len(others)
        for part, expected in zip(parts, others, strict=True):
            if isinstance(part, Packed):  # how symbol tables are trained may change
                assert (part.codec, part.parameters) == (expected.codec, expected.parameters)
                assert part.meta.tobytes() == expected.meta.tobytes()
                assert part.codes.tobytes() == expected.codes.tobytes()


@pytest.mark.parametrize("name", FRAME_NAMES)
def test_the_reference_reader_reads_the_frame(name: str) -> None:
    frame = cudf_fsst.load(FRAMES / f"{name}.fsst")
    assert reference_frame_reader.read(FRAMES / f"{name}.fsst") == list(frame.to_arrow().to_pydict().items())


def test_there_are_golden_frames() -> None:
    assert len(FRAME_NAMES) >= 6
