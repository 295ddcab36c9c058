"""CompressedColumn elsewhere: copied, pickled, saved and loaded."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
from column_cases import DTYPES, STR, words
from stored_file import save_column

# Copies and pickles -------------------------------------------------------------------------------------------------


def test_host_column_is_on_host() -> None:
    column = words().fsst.compress()
    assert column.to_host() is column


@pytest.mark.usefixtures("small_segments")
def test_copy_shares_segments() -> None:
    column = words().fsst.compress()
    copy = column.copy()
    assert copy is not column
    assert all(a is b for a, b in zip(copy.segments, column.segments, strict=True))
    pd.testing.assert_series_equal(copy.decompress(), column.decompress())


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    series = words()
    column = series.fsst.compress()
    data = pickle.dumps(column, protocol)
    again = pickle.loads(data)
    pd.testing.assert_series_equal(again.decompress(), series)
    assert again.nbytes == column.nbytes
    assert len(data) < column.nbytes + 5120


def test_pickle_out_of_band() -> None:
    column = words().fsst.compress()
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(column, 5, buffer_callback=buffers.append)
    assert len(data) < column.nbytes
    pd.testing.assert_series_equal(pickle.loads(data, buffers=buffers).decompress(), column.decompress())


# save, load ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_save_and_load(dtype, tmp_path: Path) -> None:
    series = words().astype(dtype)
    column = series.fsst.compress()
    column.save(tmp_path / "column.fsst")
    loaded = cudf_fsst.load(tmp_path / "column.fsst")
    fresh.same_series(tmp_path / "column.fsst", column.decompress())
    assert repr(loaded.dtype) == repr(series.dtype)
    assert loaded.nbytes == column.nbytes
    assert loaded.tables == column.tables
    assert repr(cudf_fsst.CompressedColumn.load(str(tmp_path / "column.fsst"))) == repr(column)


def test_load_of_foreign_schema(tmp_path: Path) -> None:
    column = words(10).fsst.compress()
    foreign = pa.schema([("a", pa.string())]).serialize().to_pybytes()
    for described in (b"", b"\x00" * 40, foreign):
        save_column(tmp_path / "column", segments=column.segments, schema=described)
        with pytest.raises(ValueError, match="schema cannot be read"):
            cudf_fsst.load(tmp_path / "column")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", []),
        ("name", {"tuple": [[]]}),
        ("dtype", None),
        ("dtype", {"kind": "arrow", "type": "int8"}),
        ("index", {}),
        ("index", {"names": [None], "range": [0, 10, 0]}),
        ("index", {"names": [None], "range": [0, 2**63, 1]}),
        ("index", {"names": [None], "range": [0, 2**70, 1]}),
    ],
    ids=str,
)
def test_load_of_a_schema_that_lies(key: str, value, tmp_path: Path) -> None:
    from cudf_fsst.interop import schema

    column = words(10).fsst.compress()
    described = pa.ipc.read_schema(pa.py_buffer(schema.to_bytes("n", STR, pd.RangeIndex(10))[0]))
    notes = json.loads(described.metadata[b"cudf_fsst"]) | {key: value}
    lying = described.with_metadata({b"cudf_fsst": json.dumps(notes).encode()})
    save_column(tmp_path / "column", segments=column.segments, schema=lying.serialize().to_pybytes())
    with pytest.raises(ValueError, match=r"(schema|index) cannot be read|10 rows, .* index has \d+ labels"):
        cudf_fsst.load(tmp_path / "column")
