"""Small sound files of every kind, which tests of hostile files begin with.

A file of another kind is one more entry of `subjects`; nothing here knows what a format version is.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import cudf_fsst
from column_cases import DTYPES, INDEXES
from cudf_fsst.codecs.values import cpu
from cudf_fsst.files import storage
from cudf_fsst.files.versions import EXACT_VERSION, FRAME_VERSION
from cudf_fsst.interop import schema
from cudf_fsst.interop.labels import encode_labels

GOLDEN = Path(__file__).parent / "golden"


def arrow(values: list[Any], kind: pa.DataType) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(values, kind)])))


def frames() -> Iterator[tuple[str, pd.DataFrame]]:
    """Small frames with columns and indexes of every kind."""
    rows = 18
    some = np.arange(rows) % 5
    hole = some == 3
    numbers = {f"n{code}": (some * 17).astype(code) for code in ("i1", "u2", "i4", "u8", "f2", "f4", "f8", "?")}
    yield "numbers", pd.DataFrame(numbers)
    yield (
        "times",
        pd.DataFrame(
            {
                "date": pd.Series(pd.date_range("2020", periods=rows, unit="ns")).mask(hole),
                "zone": pd.date_range("2020", periods=rows, freq="h", tz="Europe/Berlin", unit="s"),
                "duration": pd.Series(pd.timedelta_range("1s", periods=rows)).mask(hole),
                "period": pd.period_range("2020", periods=rows, freq="M"),
                "interval": pd.interval_range(0.0, float(rows)),
                "day": pd.Series([datetime.date(2020, 1, 1)] * rows, dtype=object),
                "clock": arrow(list(range(rows)), pa.time64("us")),
                "day64": arrow([datetime.date(2020, 1, 1), None] * (rows // 2), pa.date64()),
            },
            index=pd.date_range("2021", periods=rows, freq="D", name="when"),
        ),
    )
    yield (
        "nullable",
        pd.DataFrame(
            {
                "Int16": pd.Series(some, dtype="Int16").mask(hole),
                "UInt64": pd.Series(some, dtype="UInt64").mask(hole),
                "Float64": pd.Series(some / 3, dtype="Float64").mask(hole),
                "boolean": pd.Series(some > 1, dtype="boolean").mask(hole),
                "decimal": arrow([decimal.Decimal(i) / 4 for i in range(rows)], pa.decimal128(20, 2)).mask(hole),
                "nulls": arrow([None] * rows, pa.null()),
                "object": pd.Series([None] * rows, dtype=object),
            },
            index=pd.MultiIndex.from_arrays([some, [f"x{i}" for i in range(rows)]], names=["p", None]),
        ),
    )
    yield (
        "texts",
        pd.DataFrame(
            {
                "str": pd.Series([f"text {i}" for i in range(rows)]).mask(hole),
                "python": pd.Series(["a"] * rows, dtype="string[python]"),
                "object": pd.Series(["b", None] * (rows // 2), dtype=object),
                "bytes": pd.Series([b"\xff\x00", None] * (rows // 2), dtype=object),
                "arrow": arrow(["ö"] * rows, pa.large_string()),
                "binary": arrow([b"\xfe"] * rows, pa.binary()),
            },
            index=pd.Index([f"label {i}" for i in range(rows)]),
        ),
    )
    yield (
        "categories",
        pd.DataFrame(
            {
                "texts": pd.Series(pd.Categorical(np.where(hole, None, "k" + pd.Series(some).astype(str)))),
                "ordered": pd.Categorical(some, ordered=True),
                "intervals": pd.cut(some, 3),
                "periods": pd.Categorical(pd.period_range("2020", periods=rows, freq="M")),
                "zones": pd.Categorical(pd.date_range("2020", periods=rows, tz="Asia/Tokyo")),
                "arrow": arrow([f"k{i % 3}" for i in range(rows)], pa.dictionary(pa.int8(), pa.string())),
            },
            index=pd.CategoricalIndex(list("abc") * (rows // 3)),
        ),
    )
    yield (
        "nested",
        pd.DataFrame(
            {
                "list": arrow([None if hole[i] else list(range(i % 4)) for i in range(rows)], pa.list_(pa.int64())),
                "lists": arrow([[[str(i)] * (i % 3)] for i in range(rows)], pa.large_list(pa.list_(pa.string()))),
                "struct": arrow(
                    [None if hole[i] else {"a": i, "b": {"c": "x" * (i % 3)}, "d": bool(i % 2)} for i in range(rows)],
                    pa.struct([("a", pa.int16()), ("b", pa.struct([("c", pa.string())])), ("d", pa.bool_())]),
                ),
                "objects": pd.Series([[1, 2], [], None] * (rows // 3), dtype=object),
                "dicts": pd.Series([{"a": 1, "b": "x"}, None] * (rows // 2), dtype=object),
                "nulls": arrow([[None], []] * (rows // 2), pa.list_(pa.null())),
                "codes": arrow([["k"], []] * (rows // 2), pa.list_(pa.dictionary(pa.int8(), pa.string()))),
            },
            index=pd.Index(some / 2, name="half"),
        ),
    )
    yield "more types", more_types(rows)
    labels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["u", None])
    yield "labels", pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=labels, index=pd.interval_range(0, 4))
    intervals = pd.interval_range(0, 3)  # labels of version 3
    yield "intervals as labels", pd.DataFrame(np.arange(6).reshape(2, 3), columns=intervals, index=list("ab"))
    kinds = [pd.Categorical(["x", None, "y"]), pd.period_range("2020", periods=3, freq="M"), [b"a", b"\xff", None]]
    yield "levels of labels", pd.DataFrame(np.arange(6).reshape(2, 3), columns=pd.MultiIndex.from_arrays(kinds))
    yield "dates as labels", pd.DataFrame(np.arange(6).reshape(2, 3), columns=pd.date_range("2020", periods=3))
    days = pd.date_range("2020", periods=2)
    names = pd.MultiIndex(
        levels=[pd.interval_range(0.0, 3), pd.CategoricalIndex(["y", "x"], ordered=True), days],
        codes=[[0, -1, 2], [1, 0, -1], [0, 1, 1]],
        names=["u", None, ("v", 1)],
    )
    yield "labels of several types", pd.DataFrame(np.arange(12).reshape(4, 3), columns=names)
    yield "no columns", pd.DataFrame(index=pd.RangeIndex(3, 9, 2, name="r"))
    yield "no rows", pd.DataFrame({"a": np.empty(0), "b": pd.Series([], dtype="str")})
    long = np.arange(5000)
    words = [f"word {i % 50}" for i in long]
    yield "long", pd.DataFrame({"a": long**2, "b": np.sqrt(long), "c": words, "d": long % 3 > 0})


def more_types(rows: int) -> pd.DataFrame:
    """What only version 3 of the format has."""
    pairs = [[("a", i), ("b" * i, None)][: i % 3] if i % 4 else None for i in range(rows)]
    big = [decimal.Decimal(i) * 10**40 - 1 if i % 5 else None for i in range(rows)]
    vectors = pa.list_(pa.float32(), 3)
    return pd.DataFrame(
        {
            "map": arrow(pairs, pa.map_(pa.string(), pa.int32())),
            "vectors": arrow([[i, 0.5, None] if i % 3 else None for i in range(rows)], vectors),
            "bytes": arrow([bytes([i] * 7) if i % 4 else None for i in range(rows)], pa.binary(7)),
            "big": arrow(big, pa.decimal256(60, 1)),
            "matrices": arrow(
                [[[i, 1], None] if i % 5 else None for i in range(rows)], pa.list_(pa.list_(pa.int8(), 2), 2)
            ),
            "views": arrow([["x" * i, None][: i % 3] for i in range(rows)], pa.list_(pa.string_view())),
            "list views": arrow([[i] * (i % 3) for i in range(rows)], pa.large_list_view(pa.int16())),
            "runs": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([runs(rows)]))),
        }
    )


def runs(rows: int) -> pa.Array:
    return pc.run_end_encode(pa.array([f"run {i // 5}" if i // 5 % 3 else None for i in range(rows)]))


def much() -> Iterator[tuple[str, list[storage.Stream], pa.DataType, dict[str, Any]]]:
    """Columns of which a few bytes stand for very many values: name, streams, type and tree."""
    count = 2**22

    def tree(rows: int, **keys: Any) -> dict[str, Any]:
        return {"rows": rows, "nulls": 0, "validity": None, "values": [], "strings": None, "children": []} | keys

    for codec, options in (("bitpack", {}), ("gpulz", {"chunk": 16384, "window": 255})):
        packed = {width: [cpu.side(codec).encode(np.zeros(count // 8, f"u{width}"), **options)] * 8 for width in (1, 4)}
        yield (
            f"nulls, {codec}",
            [(codec, packed[1])],
            pa.struct([]),
            tree(8 * count, nulls=8 * count, validity=0),
        )
        lists = tree(count - 1, values=[0], children=[tree(0)])
        yield f"lists, {codec}", [(codec, packed[4])], pa.list_(pa.null()), lists
        one = storage.FIRST_TEXT, pd.Series(["a"]).fsst.compress().segments
        codes = tree(count, values=[0], children=[tree(1, strings=1)])
        yield f"codes, {codec}", [(codec, packed[1]), one], pa.dictionary(pa.int8(), pa.string()), codes
    yield "null", [], pa.null(), tree(count, nulls=count)
    packed = [cpu.side("bitpack").encode(np.zeros(count // 8, np.uint8))] * 8
    coded = tree(count, values=[0], children=[tree(1, strings=1)])
    rows = tree(count, children=[coded], scopes=[1])
    yield "codes of strings", [("bitpack", packed), one], pa.string(), rows


def columns() -> Iterator[tuple[str, pd.Series]]:
    """Columns of values that are no strings, which a file of version 3 holds."""
    yield "integers with nulls", pd.Series([1, None, 3, 3, 2**60, -1] * 3, dtype="Int64", name="a")
    yield "categories", pd.Series(pd.Categorical(["x", None, "y", "x"] * 4), index=pd.Index(list("abcd") * 4))
    yield "lists of strings", arrow([["a", None], [], None, ["bc"] * 3], pa.list_(pa.string()))
    yield "decimals", arrow([decimal.Decimal("1.25"), None, decimal.Decimal("-7.00")], pa.decimal128(30, 2))


def nested_labels() -> Iterator[tuple[str, pa.Array]]:
    """Labels of columns that a file may have, though pandas does little with them."""
    yield "lists", pa.array([[1, None], [], None], pa.list_(pa.int8()))
    yield "nulls", pa.array([[None], [], [None, None]], pa.large_list(pa.null()))
    yield "structs", pa.array([{"a": 1, "b": "x"}, None, {}], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    yield "codes", pa.array(["k", None, "l"]).dictionary_encode()


@functools.cache
def subjects() -> list[tuple[str, bytes]]:
    """Sound files by name."""
    golden = [path for path in sorted(GOLDEN.rglob("*.fsst")) if path.stat().st_size < 40_000]
    made = [(f"golden {path.relative_to(GOLDEN).with_suffix('')}", path.read_bytes()) for path in golden]
    words = ["fish", None, "", "bird", "fish and bird", "z" * 40]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "c.fsst")
        for name, dtype in DTYPES.items():
            pd.Series(words, dtype=dtype, name=("a", 1)).fsst.compress().save(path)
            made.append((f"column of {name}", path.read_bytes()))
        for name, index in INDEXES.items():
            if len(index) == len(words):
                pd.Series(words, index=index, dtype="str").fsst.compress().save(path)
                made.append((f"column with {name}", path.read_bytes()))
        repeated = pd.Series(words * 40, dtype="str")
        for tile_size in 128, 1024:
            repeated.fsst.compress(codec="onpair", tile_size=tile_size).save(path)
            made.append((f"column of onpair, tiles of {tile_size}", path.read_bytes()))
        mixed = cudf_fsst.concat([repeated.fsst.compress(codec=codec) for codec in ("fsst", "dict", "onpair")])
        for compression in None, "zstd":
            mixed.save(path, compression=compression)
            made.append((f"column of several codecs, {compression}", path.read_bytes()))
        for name, values in columns():
            values.fsst.compress().save(path)
            made.append((f"column of {name}", path.read_bytes()))
        codecs = {"long": {"a": "gpulz", "b": "gfc", "d": "bitpack"}, "numbers": {"ni4": "gpulz", "nf8": "gfc"}}
        for name, frame in frames():
            frame.fsst.compress(codecs=codecs.get(name)).save(path)
            made.append((f"frame of {name}", path.read_bytes()))
            if name in {"texts", "nested", "long"}:
                frame.fsst.compress(codecs=codecs.get(name)).save(path, compression="zstd")
                made.append((f"frame of {name} with zstd", path.read_bytes()))
        for name, streams, kind, tree in much():
            index = {"names": [None], "range": [0, tree["rows"], 1]}
            labels = encode_labels(pd.Index(["a"]))
            notes = {"labels": labels, "index": index, "rows": tree["rows"], "levels": []}
            notes |= {"holds": "frame", "label_levels": []}
            described = schema.frame_to_bytes([("a", kind)], notes | {"columns": [{"dtype": None, "tree": tree}]})
            version = EXACT_VERSION if "scopes" in tree else FRAME_VERSION
            storage.save(path, streams=streams, schema=described, version=version)
            made.append((f"frame of many {name}", path.read_bytes()))
        for name, labels in nested_labels():
            packed = pd.DataFrame(np.arange(6).reshape(2, 3)).fsst.compress()
            packed._labels = pd.Index(pd.arrays.ArrowExtensionArray(labels))
            packed.save(path)
            made.append((f"frame with {name} as labels", path.read_bytes()))
    return made
