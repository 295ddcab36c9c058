"""Files of frames that are damaged, or that nobody writes."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xxhash

import cudf_fsst
from cudf_fsst.files import storage
from frame_cases import (
    whole,
)


def sealed(data: bytearray) -> bytes:
    """The file with checksums that hold."""
    columns, segments, sections = struct.unpack_from("<III", data, 24)
    end = 64 + 64 * (columns + segments) + 32 * sections
    for at in range(end - 32 * sections, end, 32):
        offset, size = struct.unpack_from("<QQ", data, at + 8)
        struct.pack_into("<Q", data, at + 24, xxhash.xxh3_64_intdigest(data[offset : offset + size]))
    struct.pack_into("<Q", data, 40, xxhash.xxh3_64_intdigest(data[64:end]))
    struct.pack_into("<Q", data, 56, xxhash.xxh3_64_intdigest(data[:56]))
    return bytes(data)


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_damaged_bytes_are_refused_or_harmless(seed: int, tmp_path: Path) -> None:
    """Flipped bytes under checksums that hold: an error, or a frame that can be read."""
    names = ["int32 sorted", "float32", "category", "arrow list", "arrow struct", "arrow decimal", "boolean", "str"]
    path = tmp_path / "frame.fsst"
    whole()[names].fsst.compress(codecs={"float32": "gfc"}).save(path)
    good = path.read_bytes()
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(200):
        data = bytearray(good)
        for at in random.integers(64, len(data), random.integers(1, 4)):
            data[at] ^= 1 << int(random.integers(0, 8))
        try:
            text = sealed(data)
        except struct.error:
            continue
        path.write_bytes(text)
        try:
            found = cudf_fsst.load(path)
        except ValueError:
            refused += 1
        else:
            found.to_arrow().validate()
            labels = list(found)  # which may be damaged
            read = found[labels[:-1]].decompress()  # strings may be any bytes
            read.pop(labels[names.index("arrow list")]).to_list()  # to_csv() takes most of the test's time for lists
            read.to_csv(io.StringIO())
    assert refused > 50


def test_a_frame_without_columns_of_too_many_rows(tmp_path: Path) -> None:
    """Nobody else counts the rows of such a frame."""
    from cudf_fsst.files.columns import save

    for rows, fine in ((2**63 - 1, True), (2**63, False)):
        index = {"names": [None], "range": [0, rows, 1]}
        save(tmp_path / "frame.fsst", "frame", pd.Index([], dtype="str"), [], index, [], rows)
        if fine:
            assert len(cudf_fsst.load(tmp_path / "frame.fsst")) == rows
            continue
        with pytest.raises(ValueError, match=f"frame.fsst: a frame of {rows} rows"):
            cudf_fsst.load(tmp_path / "frame.fsst")


#: What a file says of the labels of a frame with a column "a".
STORED_LABELS = {"names": [None], "multi": False, "dtypes": ["str"], "freqs": [None], "labels": ["a"]}


@pytest.mark.parametrize(
    "change",
    [
        {},  # the others change what is read
        {"type": pa.binary(100)},
        {"type": pa.string_view()},
        {"type": pa.list_(pa.int32(), 3)},
        {"type": pa.list_view(pa.int32())},  # of which Arrow makes nothing but an abort
        {"type": pa.list_(pa.list_view(pa.int32()))},
        {"type": pa.map_(pa.int32(), pa.int32())},
        {"type": pa.decimal256(50)},
        {"type": pa.month_day_nano_interval()},
        {"rows": float("inf")},
        {"index": {"names": [None], "range": [0, 2**70, 1]}},
        {"index": {"names": [None], "range": [0, 2**63, 1]}},
        {"index": {"names": [None], "range": [0, 9, 0]}},
        {"index": {"names": [None], "range": [0, 9.0, 1]}},
        {"labels": {"names": [None], "range": [0, 2**63, 1]}},
        {"labels": STORED_LABELS | {"dtypes": ["S1000000000"]}},
        {"labels": STORED_LABELS | {"dtypes": ["V1000000000"]}},
        {"labels": STORED_LABELS | {"dtypes": [["U", 10**9]]}},
        {"labels": STORED_LABELS | {"dtypes": []}},
        {"labels": STORED_LABELS | {"multi": True}},
        {"labels": STORED_LABELS | {"multi": True, "labels": [{"tuple": ["a", "b"]}], "dtypes": ["str", "S9"]}},
    ],
    ids=str,
)
def test_schemas_that_nobody_writes(change: dict[str, Any], tmp_path: Path) -> None:
    from cudf_fsst.interop import schema

    path = tmp_path / "frame.fsst"
    tree = {"rows": 9, "nulls": 9, "validity": None, "values": [], "strings": None, "children": []}
    notes = {
        "labels": STORED_LABELS,
        "index": {"names": [None], "range": [0, 9, 1]},
        "rows": 9,
        "columns": [{"dtype": None, "tree": tree}],
        "levels": [],
    }
    notes |= change
    fields = [("a", notes.pop("type", pa.null()))]
    if not change:
        storage.save(path, streams=[], schema=schema.frame_to_bytes(fields, notes))
        assert cudf_fsst.load(path).shape == (9, 1)
        return
    storage.save(path, streams=[], schema=schema.frame_to_bytes(fields, notes))
    with pytest.raises(ValueError, match=r"frame\.fsst: "):
        cudf_fsst.load(path)
