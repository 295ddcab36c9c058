"""Files with an outer codec: `save(compression="zstd")` (docs/format.md, section 22)."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import reference_frame_reader
from cudf_fsst.files import outer, storage
from hostile import CODES, META, SCHEMA, File
from sound_files import frames

FRAMES = dict(frames())
ZSTD = 1 << 16


def lines() -> pd.DataFrame:
    words = [f"row {i % 977} of a text, {i}" for i in range(20_000)]
    return pd.DataFrame({"s": words, "n": np.arange(20_000) ** 2, "m": ["a", None] * 10_000})


def saved(frame: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    frame.save(file, **options)
    return file.getvalue()


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    frame = FRAMES[name].fsst.compress()
    data = saved(frame, compression="zstd")
    assert cudf_fsst.load(io.BytesIO(data)).equals(frame)
    assert saved(cudf_fsst.load(io.BytesIO(data))) == saved(frame), "nothing of it is left after loading"
    for label in frame.columns.unique()[:2]:
        if list(frame.columns).count(label) == 1:
            assert cudf_fsst.load(io.BytesIO(data), columns=[label]).equals(frame[[label]])


@pytest.mark.parametrize("codec", [None, "fsst"])
def test_columns(codec: str | None, tmp_path: Path) -> None:
    values = lines()["s"]
    column = values.fsst.compress(codec=codec)
    column.save(tmp_path / "plain")
    column.save(tmp_path / "small", compression="zstd")
    assert storage.version_of(tmp_path / "small") == 4
    assert storage.version_of(tmp_path / "plain") < 4
    assert (tmp_path / "small").stat().st_size < 0.8 * (tmp_path / "plain").stat().st_size
    assert cudf_fsst.load(tmp_path / "small").decompress().equals(values)
    assert reference_frame_reader.read(tmp_path / "small")[0][1] == values.tolist()


def test_some_columns_are_read_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines().fsst.compress().save(tmp_path / "f", compression="zstd")
    taken, unwrap = [], outer.unwrap

    def counted(stored: Any, number: int, content: Any) -> None:
        taken.append(stored.size)
        unwrap(stored, number, content)

    monkeypatch.setattr(outer, "unwrap", counted)
    cudf_fsst.load(tmp_path / "f", columns=["n"])
    few = sum(taken)
    taken.clear()
    cudf_fsst.load(tmp_path / "f")
    assert few < sum(taken) / 2


def test_mistakes() -> None:
    frame = lines().fsst.compress()
    for one in (frame, frame.column("s")):
        with pytest.raises(ValueError, match=r"compression must be one of \['zstd'\] or None, not 'gzip'"):
            one.save(io.BytesIO(), compression="gzip")
        with pytest.raises(ValueError, match="compression must be one of"):
            one.save(io.BytesIO(), compression=["zstd"])


def test_what_would_grow_too_much_is_stored_as_it_is() -> None:
    frame = pd.DataFrame({"zeros": np.zeros(4_000_000)}).fsst.compress(codecs={"zeros": "raw"})
    data = saved(frame, compression="zstd")
    assert cudf_fsst.load(io.BytesIO(data)).equals(frame)
    assert all(kind < ZSTD for kind, _, _ in File(data).sections)


def wrapped(data: bytes) -> tuple[File, int]:
    """A file, and which of its sections is the largest one with an outer codec."""
    file = File(data)
    sizes = [(len(content), i) for i, (kind, _, content) in enumerate(file.sections) if kind >= ZSTD]
    return file, max(sizes)[1]


def lie(what: str, data: bytes) -> bytes:
    """The file with a lie."""
    file, at = wrapped(data)
    kind, number, content = file.sections[at]
    (nbytes,) = struct.unpack_from("<Q", content)
    if what == "grows":
        struct.pack_into("<Q", content, 0, 1024 * len(content) + 1)
    elif what == "grows far":
        struct.pack_into("<Q", content, 0, 2**63)
    elif what == "larger":
        struct.pack_into("<Q", content, 0, nbytes + 1)
    elif what == "smaller":
        struct.pack_into("<Q", content, 0, nbytes - 1)
    elif what == "empty":
        struct.pack_into("<Q", content, 0, 0)
    elif what == "no frame":
        content[8:12] = b"none"
    elif what == "cut":
        del content[-20:]
    elif what == "short":
        del content[8:]
    elif what == "other bytes":
        inner = bytearray(pa.decompress(bytes(content[8:]), nbytes, codec="zstd", asbytes=True))
        inner[: len(inner) // 2] = bytes(len(inner) // 2)
        content[8:] = pa.compress(bytes(inner), codec="zstd", asbytes=True)
    elif what == "another codec":
        file.sections[at] = kind + ZSTD, number, content
    elif what == "a large number":
        file.sections[at] = kind | 0xFFFF0000, number, content
    elif what == "version 3":
        file.version = 3
    elif what == "schema":
        at = next(i for i, (one, _, _) in enumerate(file.sections) if one == SCHEMA)
        file.sections[at] = SCHEMA | ZSTD, 0, file.sections[at][2]
    return file.to_bytes()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("grows", "more than 1024 times as many"),
        ("grows far", "more than 1024 times as many"),
        ("larger", "outer codec zstd"),
        ("smaller", "outer codec zstd"),
        ("empty", "outer codec zstd"),
        ("no frame", "outer codec zstd"),
        ("cut", "outer codec zstd"),
        ("short", "no section with an outer codec"),
        ("other bytes", "segment"),
        ("another codec", "outer codec 2, which is not known"),
        ("a large number", "outer codec 65535, which is not known"),
        ("version 3", "is of kind"),
        ("schema", "is of kind"),
    ],
)
def test_hostile_files(what: str, message: str, tmp_path: Path) -> None:
    data = saved(lines().fsst.compress(codecs={"s": "fsst", "m": "fsst"}), compression="zstd")
    assert {META | ZSTD, CODES | ZSTD} <= {kind for kind, _, _ in File(data).sections}
    (tmp_path / "f").write_bytes(lie(what, data))
    with pytest.raises(ValueError, match=rf"{tmp_path}/f: .*{message}"):
        cudf_fsst.load(tmp_path / "f")
