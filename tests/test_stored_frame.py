"""Files of frames whose checksums hold and whose contents lie, and Arrow arrays that nobody validated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
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


# Memory -------------------------------------------------------------------------------------------------------------

MANY = 2**26
#: What few bytes can hold: streams, type and tree of a column.
LARGE: dict[str, Callable[[Callable[..., storage.Stream]], tuple[list[storage.Stream], Any, dict[str, Any]]]] = {
    "nulls": lambda some: ([some(0, "u1")], pa.struct([]), tree(8 * MANY, nulls=8 * MANY, validity=0)),
    "lists": lambda some: ([some(0, "u4")], pa.list_(pa.null()), tree(MANY - 1, values=[0], children=[tree(0)])),
    "categories": lambda some: (
        [some(0, "u1"), stream(np.ones(1, "u1"))],
        pa.dictionary(pa.uint8(), pa.int8()),
        tree(MANY, values=[0], children=[tree(1, values=[1])]),
    ),
    "booleans": lambda some: ([some(1, "u1")], pa.bool_(), tree(MANY, values=[0])),
}


@pytest.mark.parametrize("codec", ["bitpack", "gpulz"])
@pytest.mark.parametrize("what", LARGE)
def test_load_takes_memory_in_proportion_to_the_file(what: str, codec: str, tmp_path: Path) -> None:
    options = {"chunk": 16384, "window": 255} if codec == "gpulz" else {}

    def some(value: int, dtype: str) -> storage.Stream:
        piece = cpu.codec_module(codec).compress(np.full(MANY // 8, value, dtype), **options)
        return codec, [piece] * 8

    path = tmp_path / "frame.fsst"
    save_frame(path, *LARGE[what](some))
    cudf_fsst.load(path)  # what is compiled for that does not count
    tracemalloc.start()
    try:
        found = cudf_fsst.load(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * path.stat().st_size + 4 * 2**20
    finally:
        tracemalloc.stop()
    assert len(found) >= MANY - 1
    if what != "booleans":  # a byte each as a value, a bit in Arrow
        assert found.uncompressed_nbytes > 64 * path.stat().st_size


@pytest.mark.parametrize("piece_nbytes", [plan.PIECE_NBYTES, 1])
@pytest.mark.parametrize(
    ("bits", "nulls"), [(b"\xff\x0f", 1), (b"\xff\x1f", 0), (b"\xff\x17", 1), (b"\xef\x07", 1), (b"\xff\xff", 0)]
)
def test_validity_that_lies(
    bits: bytes, nulls: int, piece_nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PIECE_NBYTES", piece_nbytes)
    path = tmp_path / "frame.fsst"
    save_frame(path, [stream(np.frombuffer(bits, "u1"))], pa.struct([]), tree(12, nulls=nulls, validity=0))
    with pytest.raises(ValueError, match=f"column 0: its validity does not have {nulls} nulls in 12 rows"):
        cudf_fsst.load(path)
    save_frame(path, [stream(np.frombuffer(b"\xff\x07", "u1"))], pa.struct([]), tree(12, nulls=1, validity=0))
    assert cudf_fsst.load(path).to_arrow()["a"].null_count == 1


def test_all_nulls_are_announced(tmp_path: Path) -> None:
    """A column of nulls has no buffers in Arrow, but pandas and cuDF make some of it."""
    data = pd.DataFrame({"a": [None] * 1000, "b": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.nulls(1000)]))})
    strings = pd.DataFrame({"a": pd.array([None] * 1000, dtype="str")})
    assert data.fsst.compress().uncompressed_nbytes == 2 * strings.fsst.compress().uncompressed_nbytes > 8000
