"""Types that pandas has by Arrow alone: lists of a fixed size, maps, views, runs and so on."""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cudf_fsst
import fresh
import reference_frame_reader
from cudf_fsst.codecs.part import Packed
from cudf_fsst.files import storage
from test_stored_frame import save_frame, stream, tree

UUIDS = [uuid.UUID(int=i**9).bytes if i % 4 else None for i in range(90)]
TEXTS = ["", "a view of more than twelve bytes", None, "short"]

STRUCT = pa.struct({"e": pa.list_(pa.int8(), 2), "m": pa.map_(pa.binary(1), pa.int8())})

ARRAYS: dict[str, pa.Array] = {
    "vectors": pa.array([[1, 2, 3], None, [4, 5, None]] * 30, pa.list_(pa.float32(), 3)),
    "vectors of nothing": pa.array([[], None, []] * 3, pa.list_(pa.float32(), 0)),
    "matrices": pa.array([[[1, 2], None], None, [[3, 4], [5, None]]] * 9, pa.list_(pa.list_(pa.int64(), 2), 2)),
    "texts of a fixed number": pa.array([["a", None], None, ["bc", "d"]] * 9, pa.list_(pa.string(), 2)),
    "map": pa.array([[("a", 1)], None, [("b", 2), ("c", None)], []] * 9, pa.map_(pa.string(), pa.int32())),
    "map of maps": pa.array([[(1, [("x", "y")])], [], None], pa.map_(pa.int8(), pa.map_(pa.string(), pa.string()))),
    "uuids": pa.ExtensionArray.from_storage(pa.uuid(), pa.array(UUIDS, pa.binary(16))),
    "bytes": pa.array([b"abcde", None, b"\xff\x00\x01\x02\x03"] * 9, pa.binary(5)),
    "no bytes": pa.array([b"", None] * 4, pa.binary(0)),
    "lists of bytes": pa.array([[b"ab"], None, [b"cd", None]], pa.list_(pa.binary(2))),
    "decimal256": pa.array([Decimal("1.25"), None, Decimal(-10) ** 51, Decimal(0)] * 9, pa.decimal256(60, 2)),
    "decimal32": pa.array([Decimal("1.25"), None, Decimal("-3.5")], pa.decimal32(7, 2)),
    "decimal64": pa.array([Decimal("1.25"), None, Decimal("-3.5")], pa.decimal64(15, 2)),
    "string_view": pa.array(TEXTS * 5, pa.string_view()),
    "binary_view": pa.array([b"x" * i for i in range(20)], pa.binary_view()),
    "lists of views": pa.array([TEXTS, None, []] * 3, pa.list_(pa.string_view())),
    "list_view": pa.array([[1, None], None, [], [3]] * 5, pa.list_view(pa.int32())),
    "large_list_view": pa.array([TEXTS, None, []] * 3, pa.large_list_view(pa.string_view())),
    "runs": pc.run_end_encode(pa.array(["a", "a", None, None, "b"] * 9)),
    "short runs": pc.run_end_encode(pa.array([*range(30)]), run_end_type=pa.int16()),
    "runs of decimals": pc.run_end_encode(pa.array([None, Decimal("1.5"), Decimal("1.5")])),
    "lists of runs": pa.ListArray.from_arrays(
        pa.array([0, 2, None, 5]), pc.run_end_encode(pa.array([1, 1, None, 2, 2]))
    ),
    "struct of uuids": pa.StructArray.from_arrays(
        [pa.ExtensionArray.from_storage(pa.uuid(), pa.array(UUIDS[:5], pa.binary(16)))], ["a"]
    ),
    "codes of lists": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([[1], [2, 3]])),
    "codes of decimals": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([Decimal(1), Decimal(2)])),
    "large": pa.array([["a"], None], pa.large_list(pa.large_binary())),
    "struct": pa.array([{"e": [1, 2], "m": [(b"k", 1)]}, None], STRUCT),
}
NOT_IN_PARQUET = {"no bytes", "vectors of nothing"} | {name for name in ARRAYS if "runs" in name or "codes" in name}


def series(array: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])), name="x")


@pytest.mark.parametrize("name", ARRAYS)
def test_exactly_back(name: str, tmp_path: Path) -> None:
    for array in (ARRAYS[name], ARRAYS[name].slice(1), ARRAYS[name][:0]):
        data = series(array)
        column, wanted = data.fsst.compress(), array.to_pylist()
        assert column.dtype == data.dtype
        assert column.decompress().array._pa_array.combine_chunks().equals(array) or not len(array)
        assert pa.chunked_array(column).to_pylist() == wanted
        column.to_arrow().validate(full=True)
        if len(array):
            rows = np.random.default_rng(1).integers(0, len(array), 7)
            assert pa.array(column.take(rows).array).to_pylist() == [wanted[row] for row in rows]
            assert pa.array(column[1:].array).to_pylist() == wanted[1:]
        frame = pd.DataFrame({"x": data, "n": np.arange(len(array))}).fsst.compress()
        assert pa.table(frame)["x"].to_pylist() == wanted
        joined = cudf_fsst.concat([frame, frame])
        assert joined.to_arrow()["x"].to_pylist() == 2 * wanted
        assert pa.array(joined.decompress()["x"].array).to_pylist() == 2 * wanted


@pytest.mark.parametrize("name", ARRAYS)
def test_files(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    frame = pd.DataFrame({"x": series(array)}).fsst.compress()
    frame.save(tmp_path / "frame.fsst")
    same_values(cudf_fsst.load(tmp_path / "frame.fsst"), str(array.type), array.to_pylist())
    if name in ("vectors", "map", "uuids", "lists of views", "runs"):
        fresh.check(tmp_path / "frame.fsst", same_values, str(array.type), array.to_pylist())
    [(_, found)] = reference_frame_reader.read(tmp_path / "frame.fsst")
    assert found == storage_of(array).to_pylist()
    series(array).fsst.compress().save(tmp_path / "column.fsst")
    assert cudf_fsst.load(tmp_path / "column.fsst").to_arrow().to_pylist() == array.to_pylist()


def storage_of(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.StructArray):
        fields = [storage_of(array.field(i)) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, array.type.names, mask=array.is_null())
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def same_values(loaded: Any, kind: str, values: list[Any]) -> None:
    """Of a frame's only column; for a fresh process."""
    (dtype,) = loaded.dtypes
    assert dtype == f"{kind}[pyarrow]" or str(dtype.pyarrow_dtype) == kind
    assert loaded.to_arrow()["x"].to_pylist() == values
    found = loaded.decompress()["x"].array._pa_array
    assert str(found.type) == kind
    assert found.to_pylist() == values


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(set(ARRAYS) - NOT_IN_PARQUET))
def test_parquet(name: str, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"x": ARRAYS[name], "n": range(len(ARRAYS[name]))}), path, row_group_size=2)
    table = pq.read_table(path)
    frame = cudf_fsst.read_parquet(path, device="cpu")
    assert frame.to_arrow().to_pydict() == table.to_pydict()
    try:
        wanted = pd.read_parquet(path)
    except NotImplementedError:  # which pandas does not take by itself
        assert isinstance(frame.dtypes["x"], pd.ArrowDtype)
    else:
        if not isinstance(frame.dtypes["x"], pd.ArrowDtype):
            pd.testing.assert_frame_equal(frame.decompress(), wanted)
    frame.save(tmp_path / "frame.fsst")
    assert cudf_fsst.load(tmp_path / "frame.fsst").to_arrow().equals(frame.to_arrow())
    frame.to_parquet(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == table.to_pydict()


def test_leaf_by_leaf() -> None:
    """Vectors are numbers to the codecs."""
    numbers = np.repeat(np.arange(4000), 8).astype("i4")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 16)
    column = series(vectors).fsst.compress()
    assert column.codec == "bitpack"
    assert column.ratio > 5
    assert series(vectors).fsst.compress(codec="raw").codec == "raw"
    with pytest.raises(ValueError, match="codec 'fsst' takes strings, not int32"):
        series(vectors).fsst.compress(codec="fsst")


def test_bytes_do_not_depend_on_what_lies_under_nulls() -> None:
    valid = pa.py_buffer(b"\x05")
    arrays = [
        pa.Array.from_buffers(pa.binary(2), 3, [valid, pa.py_buffer(b"ab" + under + b"cd")]) for under in (b"xx", b"yy")
    ]
    one, other = (series(array).fsst.compress()._content.node.children[0].values[0][0] for array in arrays)
    assert bytes(memoryview(one.codes)) == bytes(memoryview(other.codes)) == b"ab\0\0cd"


def test_versions(tmp_path: Path) -> None:
    for name, version in (("vectors", 3), ("map", 3), ("lists of views", 3), ("decimal64", 2), ("string_view", 2)):
        pd.DataFrame({"x": series(ARRAYS[name])}).fsst.compress().save(tmp_path / "f")
        assert storage.version_of(tmp_path / "f") == version, name


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        (pa.list_(pa.int8(), 2), tree(3, children=[tree(5, values=[0])]), "5 values in 3 rows of 2"),
        (pa.binary(2), tree(3, children=[tree(5, values=[0])]), "5 values in 3 rows of 2"),
        (pa.binary(2**21), tree(0, children=[tree(0)]), "more than 1048576 values"),
        (pa.list_(pa.list_(pa.int8(), 2048), 1024), tree(0, children=[tree(0, children=[tree(0)])]), "more than"),
        (pa.map_(pa.int8(), pa.int8()), tree(1, values=[0], children=[tree(4)]), "does not hold values of 4 bytes"),
        (pa.decimal256(40, 1), tree(5, values=[0]), "1 streams of values"),
        (pa.list_(pa.int8(), 5), tree(1, children=[tree(5, values=[0])]), "version 2 has no columns of types"),
    ],
    ids=str,
)
def test_trees_that_lie(kind: pa.DataType, column: dict[str, Any], message: str, tmp_path: Path) -> None:
    streams = [stream(np.arange(5, dtype="u1"))] if "values" in str(column) and column["rows"] else []
    save_frame(tmp_path / "f", streams, kind, column, version=2 if "version 2" in message else 3)
    with pytest.raises(ValueError, match=message):
        cudf_fsst.load(tmp_path / "f")


def test_rows_that_are_too_long() -> None:
    with pytest.raises(AttributeError, match="has more than 1048576 values"):
        series(pa.array([None], pa.binary(2**20 + 1))).fsst.compress()


GOLDEN = Path(__file__).parent / "golden" / "more_types"


@pytest.mark.parametrize("name", ["frame", "column"])
def test_golden_files(name: str, tmp_path: Path) -> None:
    """Read as before, and still written with the same bytes."""
    path = GOLDEN / f"{name}.fsst"
    loaded = cudf_fsst.load(path)
    rows = loaded.to_arrow().to_pylist()
    assert "\n".join(map(repr, rows)) == path.with_suffix(".txt").read_text(encoding="utf-8")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    read = dict(reference_frame_reader.read(path))
    assert read == (loaded.to_arrow().to_pydict() if name == "frame" else {"vectors": rows})
    again = loaded.decompress().fsst.compress()
    columns = [again] if name == "column" else [again.column(label) for label in again]
    others = [loaded] if name == "column" else [loaded.column(label) for label in loaded]
    for column, other in zip(columns, others, strict=True):
        for part, wanted in zip(column._content.node.parts, other._content.node.parts, strict=True):
            if isinstance(part, Packed):  # how symbol tables are trained may change
                assert bytes(memoryview(part.meta)) == bytes(memoryview(wanted.meta))
                assert bytes(memoryview(part.codes)) == bytes(memoryview(wanted.codes))


def test_list_views_of_rows_in_any_order_whose_values_have_views() -> None:
    """pyarrow takes no rows of such values."""
    values = pa.array([["a"], ["b", None], [], None, ["c" * 20]], pa.list_(pa.string_view()))
    views = pa.ListViewArray.from_arrays(pa.array([3, 0, 1, 0], pa.int32()), pa.array([2, 3, 2, 0], pa.int32()), values)
    column = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([views]))).fsst.compress()
    found = column.to_arrow()
    assert found.type == views.type
    assert found.to_pylist() == views.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3], pa.float16()),
        pa.array([1, None, 3], pa.int64()),
        pa.array([1, None, 3], pa.decimal128(9)),
        pa.array([[1], None, [2, 3]], pa.list_(pa.int8())),
        pa.array(["a", None, "b"], pa.string_view()),
    ],
    ids=lambda array: str(array.type),
)
def test_buffers_of_any_size(array: pa.Array) -> None:
    """What is behind the rows is nobody's, and need not be as much as a row."""
    validity, rows = array.buffers()[:2]
    children = [array.values] if pa.types.is_list(array.type) else None
    longer = pa.py_buffer(rows.to_pybytes() + b"m")
    made = pa.Array.from_buffers(array.type, 3, [validity, longer], children=children)
    for one in (made, made.slice(1)):
        assert cudf_fsst.compress(one).to_arrow().to_pylist() == one.to_pylist()
