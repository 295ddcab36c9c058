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
from cudf_fsst.arrow_types import is_strings
from cudf_fsst.codecs.values import cpu, plan
from cudf_fsst.files import storage
from cudf_fsst.files.versions import FRAME_VERSION
from cudf_fsst.interop import schema
from cudf_fsst.interop.arrow_columns import fixed_width
from cudf_fsst.interop.labels import encode_labels

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
    version: int = FRAME_VERSION,
) -> None:
    """A file of a frame with one column, named ``a``, of these streams."""
    notes: dict[str, Any] = {"holds": "frame", "label_levels": []} if version >= 3 else {}
    notes |= {
        "labels": encode_labels(pd.Index(["a"])),
        "index": {"names": [None], "range": [0, column["rows"], 1]},
        "rows": column["rows"],
        "columns": [{"dtype": dtype, "tree": column}],
        "levels": [],
    }
    storage.save(path, streams=streams, schema=schema.frame_to_bytes([("a", kind)], notes), version=version)


# Offsets and codes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece_nbytes", [plan.PART_NBYTES, 16])
@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.large_list(pa.int8())], ids=str)
def test_list_offsets_that_wrap(
    kind: pa.DataType, piece_nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken modulo 2^32 or 2^64, the differences of neighbours are positive."""
    monkeypatch.setattr(plan, "PART_NBYTES", piece_nbytes)
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", ["bitpack", "gpulz"])
@pytest.mark.parametrize("what", LARGE)
def test_load_takes_memory_in_proportion_to_the_file(what: str, codec: str, tmp_path: Path) -> None:
    options = {"chunk": 16384, "window": 255} if codec == "gpulz" else {}

    def some(value: int, dtype: str) -> storage.Stream:
        piece = cpu.side(codec).encode(np.full(MANY // 8, value, dtype), **options)
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


def test_codes_of_categories_stay_narrow() -> None:
    """Decompressing takes a few bytes a row where the codes have one."""
    rows = 2**20
    found = pd.DataFrame({"a": pd.Categorical.from_codes(np.zeros(rows, "i1"), ["x"])}).fsst.compress()
    whole = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(whole)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        found.decompress()
        assert pool.max_memory() + tracemalloc.get_traced_memory()[1] < 7 * rows
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(whole)


@pytest.mark.parametrize("piece_nbytes", [plan.PART_NBYTES, 1])
@pytest.mark.parametrize(
    ("bits", "nulls"), [(b"\xff\x0f", 1), (b"\xff\x1f", 0), (b"\xff\x17", 1), (b"\xef\x07", 1), (b"\xff\xff", 0)]
)
def test_validity_that_lies(
    bits: bytes, nulls: int, piece_nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_NBYTES", piece_nbytes)
    path = tmp_path / "frame.fsst"
    save_frame(path, [stream(np.frombuffer(bits, "u1"))], pa.struct([]), tree(12, nulls=nulls, validity=0))
    with pytest.raises(ValueError, match=f"column 0: its validity does not have {nulls} nulls in 12 rows"):
        cudf_fsst.load(path)
    save_frame(path, [stream(np.frombuffer(b"\xff\x07", "u1"))], pa.struct([]), tree(12, nulls=1, validity=0))
    assert cudf_fsst.load(path).to_arrow()["a"].null_count == 1


@pytest.mark.parametrize("rows", [2**63, -1, 1.5, None, True])
def test_rows_that_no_frame_has(rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    index = {"names": [None], "range": [0, rows, 1]}
    notes = {"labels": encode_labels(pd.RangeIndex(0)), "index": index, "columns": [], "levels": []}
    storage.save(path, streams=[], schema=schema.frame_to_bytes([], notes | {"rows": rows}))
    with pytest.raises(ValueError, match=rf"frame\.fsst: .*{rows}"):
        cudf_fsst.load(path)


def test_all_nulls_are_announced(tmp_path: Path) -> None:
    """A column of nulls has no buffers in Arrow, but pandas and cuDF make some of it."""
    data = pd.DataFrame({"a": [None] * 1000, "b": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.nulls(1000)]))})
    strings = pd.DataFrame({"a": pd.array([None] * 1000, dtype="str")})
    assert data.fsst.compress().uncompressed_nbytes == 2 * strings.fsst.compress().uncompressed_nbytes > 8000


# Types and values that do not fit each other ------------------------------------------------------------------------


def masked(name: str) -> dict[str, str]:
    return {"kind": "masked", "type": name}


def category(**categories: str) -> dict[str, Any]:
    return {"kind": "category", "categories": categories}


INTERVAL = {"kind": "interval", "closed": "left"}
TEXT = {"kind": "string", "storage": "pyarrow", "na": "nan"}
#: Arrow type and what is said of the dtype; reading no rows of them works.
MISFITS: list[tuple[pa.DataType, dict[str, Any]]] = [
    (pa.bool_(), masked("Int8")),
    (pa.int8(), masked("boolean")),
    (pa.int8(), masked("Float32")),
    (pa.float32(), masked("Float64")),
    (pa.timestamp("ns"), masked("Int64")),
    (pa.int32(), {"kind": "period", "freq": "M"}),
    (pa.int8(), INTERVAL),
    (pa.struct([("left", pa.int8())]), INTERVAL),
    (pa.struct([("left", pa.string()), ("right", pa.string())]), INTERVAL),
    (pa.int8(), category(kind="string", storage="pyarrow", na="nan")),
    (pa.dictionary(pa.int8(), pa.float64()), category(kind="period", freq="M")),
    (pa.dictionary(pa.int8(), pa.int8()), category(**INTERVAL)),
    (pa.dictionary(pa.int8(), pa.bool_()), category(**masked("Int8"))),
    (pa.dictionary(pa.int8(), pa.string()), {"kind": "object"}),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), {"kind": "object"}),
    (pa.list_(pa.int8()), TEXT),
    (pa.large_binary(), TEXT),
    (pa.dictionary(pa.int8(), pa.large_binary()), category(**TEXT)),
    (pa.timestamp("ns", tz="No/Where"), {"kind": "object"}),
]


def filled(kind: pa.DataType, streams: list[storage.Stream], rows: int = 2) -> dict[str, Any]:
    """A tree of this type whose values are all zeros or empty."""
    children: list[dict[str, Any]] = []
    values: list[int] = []
    strings = None
    if rows == 0:
        pass
    elif is_strings(kind):
        streams.append(("fsst", pd.Series([""] * rows).fsst.compress().segments))
        strings = len(streams) - 1
    elif not pa.types.is_struct(kind):
        lists = pa.types.is_list(kind)
        width = 4 if lists else fixed_width(kind)
        streams.append(stream(np.zeros(rows + lists, f"u{width}")))
        values.append(len(streams) - 1)
    if pa.types.is_struct(kind):
        children = [filled(kind.field(i).type, streams, rows) for i in range(kind.num_fields)]
    elif pa.types.is_dictionary(kind) or pa.types.is_list(kind):
        children = [filled(kind.value_type, streams, 1 if pa.types.is_dictionary(kind) else 0)]
    return tree(rows, values=values, strings=strings, children=children)


@pytest.mark.parametrize(("kind", "dtype"), MISFITS, ids=str)
def test_dtypes_that_do_not_fit(kind: pa.DataType, dtype: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    streams: list[storage.Stream] = []
    column = filled(kind, streams)
    save_frame(path, streams, kind, column)
    if kind != pa.timestamp("ns", tz="No/Where"):
        cudf_fsst.load(path).decompress()
    save_frame(path, streams, kind, column, dtype)
    with pytest.raises(ValueError, match=r"frame\.fsst: column 0: dtype .* does not fit Arrow type"):
        cudf_fsst.load(path)


@pytest.mark.parametrize(
    ("values", "dtype", "fine"),
    [
        (np.array([1, 127], "i8"), "Int8", True),
        (np.array([1, 128], "i8"), "Int8", False),
        (np.array([-1, 5], "i8"), "UInt8", False),
        (np.array([2**64 - 1, 5], "u8"), "Int64", False),
        (np.array([1.0, 2.0]), "Int64", True),
        (np.array([1.0, 2.5]), "Int64", False),
    ],
)
def test_numbers_of_another_type_than_their_dtype(values: Any, dtype: str, fine: bool, tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    column = tree(2, values=[0])
    save_frame(path, [stream(values)], pa.from_numpy_dtype(values.dtype), column, masked(dtype))
    if fine:
        pd.testing.assert_series_equal(cudf_fsst.load(path)["a"], pd.Series(values.astype("i8"), dtype=dtype, name="a"))
        return
    with pytest.raises(ValueError, match=rf"frame\.fsst: column 0: values of Arrow type .* do not fit dtype {dtype}"):
        cudf_fsst.load(path)


@pytest.mark.parametrize("codec", ["raw", "bitpack", "gpulz"])
def test_booleans_above_one(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    bits = np.zeros(5000, "u1")
    bits[4321:4323] = 2, 1
    for kind, column in (
        (pa.bool_(), tree(5000, values=[0])),
        (pa.struct([("b", pa.bool_())]), tree(5000, children=[tree(5000, values=[0])])),
    ):
        save_frame(path, [stream(bits, codec)], kind, column)
        with pytest.raises(ValueError, match=r"frame\.fsst: column 0.*: a boolean of 2"):
            cudf_fsst.load(path)
    save_frame(path, [stream(bits // 2, codec)], pa.bool_(), tree(5000, values=[0]))
    assert cudf_fsst.load(path)["a"].sum() == 1


def test_divided_values_are_of_version_3(tmp_path: Path) -> None:
    """Only files that have some are; in one of version 2 they are refused."""
    path = tmp_path / "frame.fsst"
    rows = 3000
    frame = pd.DataFrame({"a": np.arange(rows) ** 2, "b": np.arange(rows) ** 2 * 60})
    for names, version in (["a"], 2), (["a", "b"], 3):
        frame[names].fsst.compress(codecs=dict.fromkeys(names, "bitpack")).save(path)
        assert storage.version_of(path) == version
        pd.testing.assert_frame_equal(cudf_fsst.load(path).decompress(), frame[names])
    save_frame(path, [stream(frame["b"].to_numpy(), "bitpack")], pa.int64(), tree(rows, values=[0]))
    with pytest.raises(ValueError, match=r"frame\.fsst: segment 0: bitpack as version 2 does not have it, but 3"):
        cudf_fsst.load(path)


#: Values that Arrow has and Python has not: type, bits, dtype.
EXTREMES: list[tuple[pa.DataType, Any, dict[str, Any] | None]] = [
    (pa.date32(), np.array([2**31 - 1], "i4"), None),
    (pa.date32(), np.array([-(2**31)], "i4"), {"kind": "object"}),
    (pa.date64(), np.array([2**62], "i8"), None),
    (pa.date64(), np.array([2**62], "i8"), {"kind": "object"}),
    (pa.time32("s"), np.array([2**31 - 1], "i4"), None),
    (pa.time64("ns"), np.array([2**63 - 1], "i8"), None),
    (pa.timestamp("s"), np.array([2**63 - 1], "i8"), {"kind": "object"}),
    (pa.duration("s"), np.array([2**63 - 1], "i8"), {"kind": "object"}),
]


@pytest.mark.parametrize(("kind", "values", "dtype"), EXTREMES, ids=str)
def test_values_that_python_does_not_have(kind: pa.DataType, values: Any, dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    save_frame(path, [stream(values)], kind, tree(1, values=[0]), dtype)
    found = cudf_fsst.load(path)
    assert found.to_arrow()["a"].cast(f"int{8 * values.itemsize}").to_pylist() == values.tolist()
    with pytest.raises(ValueError, match="column 'a': ") as caught:
        found.decompress()
    assert type(caught.value) is ValueError


def test_categories_that_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "frame.fsst"
    kind = pa.dictionary(pa.int8(), pa.int8())
    streams = [stream(np.array([0, 1], "i1")), stream(np.array([7, 7], "i1"))]
    save_frame(path, streams, kind, tree(2, values=[0], children=[tree(2, values=[1])]))
    with pytest.raises(ValueError, match=r"column 'a': .*unique"):
        cudf_fsst.load(path).decompress()
