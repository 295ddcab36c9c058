"""Files of frames whose checksums hold and whose contents lie, and Arrow arrays that nobody validated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from cudf_fsst import storage
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.frame import compress_table
from cudf_fsst.interop import schema

WRAPPING = {
    pa.int32(): np.array([0, 2**31 - 1, -(2**31), -1, 4], "<i4"),
    pa.int64(): np.array([0, 2**63 - 1, -(2**63), -1, 4], "<i8"),
}


def stream(values: Any, codec: str = "raw") -> storage.Stream:
    """Values, as bits, in a stream of a file."""
    array = np.ascontiguousarray(values)
    return codec, cpu.compress(array.view(f"<u{array.itemsize}"), codec=codec)


def tree(rows: int, **keys: Any) -> dict[str, Any]:
    """What a file says of a column."""
    return {"rows": rows, "nulls": 0, "validity": None, "values": [], "strings": None, "children": []} | keys


def save_frame(
    path: Path,
    streams: Sequence[storage.Stream],
    kind: pa.DataType,
    column: dict[str, Any],
    dtype: dict[str, Any] | None = None,
) -> None:
    """A file of a frame with one column, named ``a``, of these streams."""
    notes = {
        "labels": schema.encode_labels(pd.Index(["a"])),
        "index": {"names": [None], "range": [0, column["rows"], 1]},
        "rows": column["rows"],
        "columns": [{"dtype": dtype, "tree": column}],
        "levels": [],
    }
    storage.save_streams(path, streams=streams, schema=schema.frame_to_bytes([("a", kind)], notes))


# Offsets and codes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece_nbytes", [plan.PIECE_NBYTES, 16])
@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.large_list(pa.int8())], ids=str)
def test_list_offsets_that_wrap(
    kind: pa.DataType, piece_nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken modulo 2^32 or 2^64, the differences of neighbours are positive."""
    monkeypatch.setattr(plan, "PIECE_NBYTES", piece_nbytes)
    offsets = WRAPPING[pa.int32() if kind == pa.list_(pa.int8()) else pa.int64()]
    path = tmp_path / "frame.fsst"
    column = tree(4, values=[0], children=[tree(4, values=[1])])
    save_frame(path, [stream(offsets), stream(np.zeros(4, "u1"))], kind, column)
    with pytest.raises(ValueError, match=r"frame\.fsst: column 0: its offsets do not ascend from 0 to 4"):
        cudf_fsst.load(path)
    sound = np.array([0, 1, 1, 3, 4], offsets.dtype)
    save_frame(path, [stream(sound), stream(np.zeros(4, "u1"))], kind, column)
    assert cudf_fsst.load(path).to_arrow()["a"].to_pylist() == [[0], [], [0, 0], [0]]


def unvalidated_list(width: type[pa.Array] = pa.ListArray) -> pa.Array:
    large = width is pa.LargeListArray
    kind = pa.large_list(pa.int8()) if large else pa.list_(pa.int8())
    offsets = WRAPPING[pa.int64() if large else pa.int32()]
    return pa.Array.from_buffers(kind, 4, [None, pa.py_buffer(offsets)], children=[pa.array([1, 2, 3, 4], pa.int8())])


UNVALIDATED = {
    "list": (unvalidated_list, "offsets of lists decrease"),
    "large list": (lambda: unvalidated_list(pa.LargeListArray), "offsets of lists decrease"),
    "list in a struct": (lambda: pa.StructArray.from_arrays([unvalidated_list()], ["x"]), "offsets of lists decrease"),
    "list of lists": (
        lambda: pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), unvalidated_list()),
        "offsets of lists decrease",
    ),
    "dictionary": (
        lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 7, 0], "i4"), pa.array(["a", "b"]), safe=False),
        "dictionary of 2 values lies outside",
    ),
    "dictionary below 0": (
        lambda: pa.DictionaryArray.from_arrays(pa.array([0, -1, 1, None], "i4"), pa.array(["a", "b"]), safe=False),
        "dictionary of 2 values lies outside",
    ),
    "strings": (
        lambda: pa.Array.from_buffers(
            pa.string(), 4, [None, pa.py_buffer(WRAPPING[pa.int32()]), pa.py_buffer(b"abcd")], null_count=0
        ),
        "row 1 ends before it starts",
    ),
    "strings with nulls": (
        lambda: pa.Array.from_buffers(
            pa.string(), 4, [pa.py_buffer(b"\x0e"), pa.py_buffer(WRAPPING[pa.int32()]), pa.py_buffer(b"abcd")]
        ),
        "row 1 ends before it starts",
    ),
}


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("name", UNVALIDATED)
def test_arrays_that_nobody_validated(name: str, chunks: int) -> None:
    make, message = UNVALIDATED[name]
    column = pa.chunked_array([make()] * chunks)
    data = pd.DataFrame({"a": pd.Series(pd.arrays.ArrowExtensionArray(column))})
    with pytest.raises(ValueError, match=f"column 'a': .*{message}"):
        data.fsst.compress()
    with pytest.raises(ValueError, match=f"column 'a': .*{message}"):
        compress_table(pa.table({"a": column}))
    if name.startswith("strings"):
        with pytest.raises(ValueError, match=message):
            data["a"].fsst.compress()


def test_indices_of_null_rows_may_be_anything() -> None:
    indices = pa.Array.from_buffers(
        pa.int32(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([1, -9, 0], "<i4"))], null_count=1
    )
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    data = pd.DataFrame({"a": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))})
    assert data.fsst.compress().to_arrow()["a"].to_pylist() == ["b", None, "a"]
