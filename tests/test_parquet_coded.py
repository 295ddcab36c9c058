"""Columns that Parquet files keep with dictionaries get theirs without becoming strings, and the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst.parquet import coded, host
from values_gpu import same_nodes

pytestmark = pytest.mark.usefixtures("automatic")

ROWS = 4000
MODES = ["REG AIR", "AIR", "RAIL", "", "TRUCK", "ü" * 40, "FOB"]


def columns() -> dict[str, list[str | None]]:
    rng = np.random.default_rng(5)
    ends = "the same first bytes of each", "and the same last ones, behind what differs"
    return {
        "few": [MODES[i] for i in rng.integers(0, 7, ROWS)],
        "nulls": [None if i % 5 == 0 else MODES[i * i % 7] for i in range(ROWS)],
        "nulls at the end": [MODES[i % 3] if i < ROWS // 3 else None for i in range(ROWS)],
        "others later": [f"value {i // 500} {i % 3}" for i in range(ROWS)],
        "alike in the sample": [f"{ends[0]}{i % 1500:05}{ends[1]}" for i in range(ROWS)],
        "different": [f"row {i * 7919 % ROWS}" for i in range(ROWS)],
        "one": ["x" * 20] * ROWS,
        "none": [None] * ROWS,
    }


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Columns that were read with their dictionaries."""
    seen: list[str] = []
    read = coded.coded_columns

    def noted(*args: Any) -> dict[str, Any]:
        made = read(*args)
        seen.extend(made)
        return made

    monkeypatch.setattr(host, "coded_columns", noted)
    monkeypatch.setattr(coded, "_CODE_NBYTES", 1000)  # a column of these sizes is more than its codes
    return seen


def same_frames(one: cudf_fsst.CompressedFrame, other: cudf_fsst.CompressedFrame) -> None:
    pd.testing.assert_frame_equal(one.decompress(), other.decompress())
    for content, wanted in zip(one._contents, other._contents, strict=True):
        assert content.stored == wanted.stored
        assert content.node.codec == wanted.node.codec
        same_nodes(content.node, wanted.node)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("group", [ROWS, 1500])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("codec", [None, "dict"])
@pytest.mark.parametrize("page", [1 << 20, 100])
def test_same_bytes(
    page: int,
    codec: str | None,
    kind: Any,
    group: int,
    tmp_path: Path,
    found: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As without dictionaries in the file, also where a page has strings since its dictionary is full."""
    table = pa.table({name: pa.array(values, kind) for name, values in columns().items()})
    options: dict[str, Any] = {"row_group_size": group, "dictionary_pagesize_limit": page, "data_page_size": 200}
    pq.write_table(table, tmp_path / "in.parquet", **options)
    codecs = None if codec is None else dict.fromkeys(table.column_names, codec)
    made = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu", codecs=codecs)
    # A column of nulls alone has no dictionary.
    assert set(table.column_names) - {"none"} <= set(found)
    monkeypatch.setattr(host, "coded_columns", lambda *_: {})
    same_frames(made, cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu", codecs=codecs))
    assert "dict" in made.codecs["few"]  # the last row group may be too short for one
    if codec is None:
        assert made.codecs["different"] == "fsst"


def test_row_groups_read_together(tmp_path: Path, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of many row groups, each with a dictionary of its own."""
    table = pa.table(columns())
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=100)
    made = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu")
    assert set(found) >= {"few", "nulls", "others later"}
    pd.testing.assert_frame_equal(made.decompress(), pd.read_parquet(tmp_path / "in.parquet"))
    monkeypatch.setattr(host, "coded_columns", lambda *_: {})
    same_frames(made, cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu"))


def test_what_is_read_as_strings(tmp_path: Path, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(columns()).assign(**{"a.b": MODES[1], "struct": [{"b": "x"}] * ROWS})
    frame = frame.set_index("few")
    path = tmp_path / "in.parquet"
    frame.to_parquet(path)
    for options in (
        {"filters": [("one", "==", "x" * 20)]},  # which are asked of strings
        {"codecs": dict.fromkeys(frame.columns.drop("struct"), "fsst")},
        {"columns": ["a.b", "struct"]},
    ):
        made = cudf_fsst.read_parquet(path, device="cpu", **options)
        options.pop("codecs", None)
        pd.testing.assert_frame_equal(made.decompress(), pd.read_parquet(path, **options))
    monkeypatch.setattr(coded, "_CODE_NBYTES", 3)  # as it is: strings and not codes are most of it
    cudf_fsst.read_parquet(path, device="cpu", columns=["different", "alike in the sample"])
    assert not found
    cudf_fsst.read_parquet(path, device="cpu")
    assert set(found) == {"nulls", "nulls at the end", "others later", "one"}  # the index is none of them


def test_codes_outside_of_the_dictionary() -> None:
    values = pa.array(["a", "b"])
    for codes in ([0, 2], [-1, 1]):
        damaged = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), values, safe=False)
        sound = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int32()), values)
        with pytest.raises(ValueError, match="none of the 2 values"):
            coded._coded(pa.chunked_array([sound, damaged]))
    empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), values[:0])
    assert coded._coded(pa.chunked_array([empty])) is None
    kept = coded._coded(pa.chunked_array([sound, empty, sound[1:]]))
    assert kept is not None
    assert (kept.rows, kept.null_count, kept.chars_nbytes) == (5, 4, 1)
