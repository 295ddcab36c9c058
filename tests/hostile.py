"""Hostile files: sound ones in which some fields were changed, and every checksum was made good again.

``hostile(number)`` is case `number`, the same in every run; ``tests/hostile_reader.py`` puts it through all that reads
a file. A file of another kind is one more entry of `subjects`; nothing here knows what a format version is.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import functools
import itertools
import json
import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from column_cases import DTYPES, INDEXES
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.values import cpu
from cudf_fsst.files import storage
from cudf_fsst.files.versions import EXACT_VERSION, FRAME_VERSION
from cudf_fsst.interop import schema
from cudf_fsst.interop.labels import encode_labels

GOLDEN = Path(__file__).parent / "golden"
SCHEMA, INDEX, TABLE, META, CODES = range(1, 6)
KEY = b"cudf_fsst"


class File:
    """A file's fields. `to_bytes` recomputes counts, places and checksums, but for those that are to lie."""

    def __init__(self, data: bytes) -> None:
        (self.version,) = struct.unpack_from("<I", data, 8)
        columns, segments, sections = struct.unpack_from("<III", data, 24)
        records = [bytearray(data[at : at + 64]) for at in range(64, 64 + 64 * (columns + segments), 64)]
        self.columns, self.segments = records[:columns], records[columns:]
        self.sections: list[tuple[int, int, bytearray]] = []
        first = 64 + 64 * (columns + segments)
        for kind, number, offset, size, _ in struct.iter_unpack("<IIQQQ", data[first : first + 32 * sections]):
            self.sections.append((kind, number, bytearray(data[offset : offset + size])))
        #: Offset in the preamble or in a directory record, and what stands there instead.
        self.preamble: list[tuple[int, str, int]] = []
        self.places: list[tuple[int, int, str, int]] = []

    def section(self, kind: int, number: int = 0) -> bytearray | None:
        """The content of a section, which may be changed."""
        return next((content for one, other, content in self.sections if (one, other) == (kind, number)), None)

    def to_bytes(self) -> bytes:
        head = b"".join(self.columns) + b"".join(self.segments)
        end = 64 + len(head) + 32 * len(self.sections)
        directory, body = bytearray(), bytearray()
        for kind, number, content in self.sections:
            gap = bytes(-end % 64)
            checksum = xxhash.xxh3_64_intdigest(content)
            directory += struct.pack("<IIQQQ", kind, number, end + len(gap), len(content), checksum)
            body += gap + content
            end += len(gap) + len(content)
        for number, offset, code, value in self.places:
            struct.pack_into(f"<{code}", directory, 32 * (number % len(self.sections)) + offset, value)
        head += directory
        preamble = bytearray(64)
        counts = len(self.columns), len(self.segments), len(self.sections)
        struct.pack_into("<8sI4xQIII", preamble, 0, storage.MAGIC, self.version, end, *counts)
        struct.pack_into("<Q", preamble, 40, xxhash.xxh3_64_intdigest(head))
        for offset, code, value in self.preamble:
            struct.pack_into(f"<{code}", preamble, offset, value)
        struct.pack_into("<Q", preamble, 56, xxhash.xxh3_64_intdigest(preamble[:56]))
        return bytes(preamble + head + body)


# What is changed ----------------------------------------------------------------------------------------------------


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
        for name, values in columns():
            values.fsst.compress().save(path)
            made.append((f"column of {name}", path.read_bytes()))
        codecs = {"long": {"a": "gpulz", "b": "gfc", "d": "bitpack"}, "numbers": {"ni4": "gpulz", "nf8": "gfc"}}
        for name, frame in frames():
            frame.fsst.compress(codecs=codecs.get(name)).save(path)
            made.append((f"frame of {name}", path.read_bytes()))
        for name, streams, kind, tree in much():
            index = {"names": [None], "range": [0, tree["rows"], 1]}
            labels = encode_labels(pd.Index(["a"]))
            notes = {"labels": labels, "index": index, "rows": tree["rows"], "levels": []}
            notes |= {"holds": "frame", "label_levels": []}
            described = schema.frame_to_bytes([("a", kind)], notes | {"columns": [{"dtype": None, "tree": tree}]})
            version = EXACT_VERSION if "scopes" in tree else FRAME_VERSION
            storage.save_streams(path, streams=streams, schema=described, version=version)
            made.append((f"frame of many {name}", path.read_bytes()))
        for name, labels in nested_labels():
            packed = pd.DataFrame(np.arange(6).reshape(2, 3)).fsst.compress()
            packed._labels = pd.Index(pd.arrays.ArrowExtensionArray(labels))
            packed.save(path)
            made.append((f"frame with {name} as labels", path.read_bytes()))
    return made


# How it is changed --------------------------------------------------------------------------------------------------

Mutation = Callable[[random.Random, File], None]


def near(dice: random.Random, old: int, bits: int) -> int:
    """A number that may go wrong where `old` was right."""
    choices = (
        *(0, 1, 2, 3, 7, 8, 9, 255, 256, 2**15, 2**16, 2**61),
        *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
        *(old + 1, old - 1, old + 8, old - 8, 2 * old, old // 2, -old, old ^ 1 << dice.randrange(bits)),
        *(dice.getrandbits(bits), dice.getrandbits(1 + dice.randrange(bits))),
    )
    return dice.choice(choices) % 2**bits


def change_number(dice: random.Random, data: bytearray) -> None:
    """Another number somewhere, of 1, 2, 4 or 8 bytes."""
    width = dice.choice([size for size in (1, 2, 4, 8, 8) if size <= len(data)] or [0])
    if width:
        # Often near the front or the end, where what says most stands.
        places = len(data) // width
        place = dice.choice([0, 1, places - 1, *(dice.randrange(places) for _ in range(5))]) % places * width
        old = int.from_bytes(data[place : place + width], "little")
        data[place : place + width] = near(dice, old, 8 * width).to_bytes(width, "little")


def change_numbers(dice: random.Random, data: bytearray, width: int) -> None:
    """Numbers one after another whose differences, modulo what there is, are those of an ascending sequence."""
    half, places = 2 ** (8 * width - 1), len(data) // width
    wrapping = [half - 1, half, 2 * half - 1]
    first = max(0, dice.randrange(places) - 3)
    for place, value in zip(range(first, places - 1), wrapping, strict=False):
        data[place * width : (place + 1) * width] = value.to_bytes(width, "little")


def change_bytes(dice: random.Random, data: bytearray) -> None:
    """A run of bytes that is set, copied from elsewhere, cut out or put in."""
    start = dice.randrange(len(data) + 1)
    stop = min(len(data), start + dice.choice([1, 2, 4, 8, 16, 64, 1000]))
    how = dice.randrange(4)
    if how == 0:
        data[start:stop] = bytes([dice.choice([0, 255, dice.randrange(256)])]) * (stop - start)
    elif how == 1:
        other = dice.randrange(len(data) + 1)
        data[start:stop] = data[other : other + stop - start]
    elif how == 2:
        del data[start:stop]
    else:
        data[start:start] = dice.randbytes(dice.choice([1, 4, 16, 64]))


def in_preamble(dice: random.Random, file: File) -> None:
    offset, code = dice.choice([(8, "I"), (12, "I"), (16, "Q"), (24, "I"), (28, "I"), (32, "I"), (36, "I"), (48, "Q")])
    old = {24: len(file.columns), 28: len(file.segments), 32: len(file.sections), 8: file.version}.get(offset, 0)
    file.preamble.append((offset, code, near(dice, old, 64 if code == "Q" else 32)))


def in_record(dice: random.Random, file: File) -> None:
    records = dice.choice([file.columns, file.segments, file.segments])
    if records:
        change_number(dice, dice.choice(records))


def in_directory(dice: random.Random, file: File) -> None:
    offset, code = dice.choice([(0, "I"), (4, "I"), (8, "Q"), (16, "Q")])
    file.places.append((dice.randrange(2**16), offset, code, near(dice, len(file.sections), 32 if code == "I" else 64)))


def in_section(dice: random.Random, file: File) -> None:
    kinds = [kind for kind in (INDEX, TABLE, META, META, META, CODES, CODES) if file.section(kind) is not None]
    if kinds:
        chosen = dice.choice(kinds)
        content = dice.choice([content for kind, _, content in file.sections if kind == chosen])
        dice.choice([change_number, change_number, change_bytes])(dice, content)


def rows_everywhere(dice: random.Random, file: File) -> None:
    """Rows (or bytes, or nulls) of a column and one of its segments, so that their sums hold."""
    offset = dice.choice([0, 8, 16])
    for record in file.columns:
        first, count = struct.unpack_from("<II", record, 32)
        if 0 < count <= len(file.segments) - first and dice.random() < 0.5:
            segment = file.segments[first + dice.randrange(count)]
            (old,) = struct.unpack_from("<Q", segment, offset)
            (total,) = struct.unpack_from("<Q", record, 8 + offset)
            new = near(dice, old, 64)
            struct.pack_into("<Q", segment, offset, new)
            struct.pack_into("<Q", record, 8 + offset, (total - old + new) % 2**64)
            if record[0:4] != b"fsst" and offset == 0 and dice.random() < 0.8:
                (itemsize,) = struct.unpack_from("<I", segment, 24)
                struct.pack_into("<Q", segment, 8, new * itemsize % 2**64)
                struct.pack_into("<Q", record, 16, (total - old + new) * itemsize % 2**64)
            return


def exchange(dice: random.Random, file: File) -> None:
    """Two records or sections of a kind change places, or one stands for both."""
    places = dice.choice([file.columns, file.segments, [content for kind, _, content in file.sections if kind > INDEX]])
    if len(places) > 1:
        one, other = dice.sample(range(len(places)), 2)
        first, second = bytes(places[one]), bytes(places[other])
        places[one][:] = second
        if dice.random() < 0.7:
            places[other][:] = first


# The schema: Arrow types and JSON

_SIMPLE = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", tz="Europe/Rome"), pa.timestamp("ms", tz="+07:30")),
    *(pa.timestamp("s", tz="No/Where"), pa.duration("s"), pa.duration("ns"), pa.month_day_nano_interval()),
    *(pa.decimal32(5, 2), pa.decimal64(12, -3), pa.decimal128(38, 10), pa.decimal128(3, 1), pa.decimal256(50)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary(4)),
]


def some_type(dice: random.Random, depth: int = 0) -> pa.DataType:
    """Any type."""
    how = dice.random()
    if depth > 2 or how < 0.6:
        return dice.choice(_SIMPLE)
    inner = some_type(dice, depth + 1)
    if how < 0.7:
        return dice.choice([pa.list_, pa.large_list, pa.list_view, lambda kind: pa.list_(kind, 2)])(inner)
    if how < 0.8:
        index = dice.choice([pa.int8(), pa.uint8(), pa.int32(), pa.uint64()])
        return pa.dictionary(index, inner, ordered=dice.random() < 0.5)
    other = dice.choice([inner, some_type(dice, depth + 1)])
    if how < 0.85:
        many = dice.choice([3, 2**20, 2**31 - 1])
        return dice.choice([pa.map_(inner, other), pa.list_(inner, many), pa.binary(many), pa.decimal256(70, 3)])
    return pa.struct([(dice.choice(["left", "right", "", "x"]), inner), ("right", other)][: dice.randrange(3)])


#: Types whose values have as many bytes.
_LIKE = (
    (pa.int8(), pa.uint8(), pa.bool_()),
    (pa.int16(), pa.uint16(), pa.float16()),
    (pa.int32(), pa.float32(), pa.date32(), pa.time32("s"), pa.decimal32(9, 1)),
    (pa.int64(), pa.float64(), pa.date64(), pa.time64("us"), pa.timestamp("ns", "UTC"), pa.duration("ms")),
    (pa.decimal128(38, 0), pa.decimal128(2, 1), pa.decimal128(5, -9)),
    (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
)


def like(dice: random.Random, kind: pa.DataType) -> pa.DataType:
    """A type that is laid out as this one, if there are others, so that its streams fit."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type if dice.random() < 0.5 else like(dice, kind.storage_type)
    for family in _LIKE:
        if any(kind.id == one.id for one in family):
            return dice.choice(family)
    if pa.types.is_dictionary(kind):
        index = dice.choice([kind.index_type, pa.int8(), pa.uint8()])
        return pa.dictionary(index, like(dice, kind.value_type), ordered=dice.random() < 0.5)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        views = [pa.list_view] if pa.types.is_list(kind) else [pa.large_list_view]
        return dice.choice([pa.list_, pa.large_list, *views])(like(dice, kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(like(dice, kind.value_type), kind.list_size + dice.choice([0, 0, 1]))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, like(dice, field.type)) for field in kind])
    return some_type(dice)


def change_schema(content: bytearray, change: Callable[[list[Any], Any], Any]) -> None:
    """Write the schema with other fields and JSON."""
    try:
        old = pa.ipc.read_schema(pa.py_buffer(bytes(content)))
        metadata = dict(old.metadata or {})
        notes = change(fields := list(old), json.loads(metadata[KEY]))
        metadata[KEY] = json.dumps(notes).encode()
        content[:] = pa.schema(fields, metadata=metadata).serialize().to_pybytes()
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
        pass  # another mutation was there before, or Arrow has no such schema: 1 or 2 of a hundred


def in_types(dice: random.Random, file: File) -> None:
    def change(fields: list[Any], notes: Any) -> Any:
        if not fields:
            return notes
        place = dice.randrange(len(fields))
        how = dice.random()
        if how < 0.6:
            fields[place] = fields[place].with_type(like(dice, fields[place].type))
        elif how < 0.85:
            fields[place] = fields[place].with_type(some_type(dice))
        elif how < 0.95:
            fields[place] = dice.choice(fields)
        else:
            del fields[place]
        return notes

    content = file.section(SCHEMA)
    assert content is not None
    change_schema(content, change)


_DTYPES = """arrow string object masked numpy category cudf interval period int64 bool str boolean Int8 UInt64 Float32
datetime64[ns] M8[ns,Europe/Paris] timedelta64[s] period[M] interval[int64,right] S1000000000 string_view binary_view
large_string pyarrow python nan NA left both D ME -1h 0s B M 2020-01-01T00:00:00 UTC ns s""".split()
_TEXTS = [*_DTYPES, "", "\ud800", "\x1b[2J", "a" * 1000]
_VALUES = [None, True, False, 0, 1, -1, 0.5, float("nan"), float("inf"), 10**400, [], {}, [None], *_DTYPES[:12]]


def change_json(dice: random.Random, notes: Any, graft: Any) -> Any:
    """Another value somewhere."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            places.append((value, key))
            walk(value[key])

    walk(notes)
    if not places:
        return notes
    holder, key = dice.choice(places)
    old, how = holder[key], dice.random()
    if how < 0.05:
        del holder[key]
    elif how < 0.1 and isinstance(old, (list, dict)) and old:
        if isinstance(old, list):
            old.insert(dice.randrange(len(old)), copy.deepcopy(dice.choice(old)))
        else:
            old[dice.choice(_TEXTS)] = copy.deepcopy(dice.choice(list(old.values())))
    elif how < 0.25:  # something from elsewhere under the same key, or from anywhere
        others: list[tuple[Any, Any]] = []
        places, kept = others, places
        walk(graft)
        same = [(one, name) for one, name in others if name == key] or others
        places = kept
        if same:
            one, name = dice.choice(same)
            holder[key] = copy.deepcopy(one[name])
    elif type(old) is int and how < 0.8:
        holder[key] = dice.choice([near(dice, old, 64), old + 1, old - 1, -old, 2**64, 2**70, float(old % 2**60)])
    elif isinstance(old, str) and how < 0.8:
        holder[key] = dice.choice([*_TEXTS, old.upper(), old * 2, old[:-1]])
    else:
        inside = [{"tuple": [old]}, {"timestamp": "2020", "unit": "s", "tz": None}, [old], {"kind": old}]
        holder[key] = copy.deepcopy(dice.choice([*_VALUES, *inside]))
    return notes


def in_json(dice: random.Random, file: File) -> None:
    other = File(dice.choice(subjects())[1]).section(SCHEMA)
    assert other is not None
    graft = json.loads(pa.ipc.read_schema(pa.py_buffer(bytes(other))).metadata[KEY])
    content = file.section(SCHEMA)
    assert content is not None
    change_schema(content, lambda _fields, notes: change_json(dice, notes, graft))


def rows_of_a_tree(dice: random.Random, file: File) -> None:
    """The rows of the frame, of its range and of some trees."""

    def change(_fields: list[Any], notes: Any) -> Any:
        frame = notes.get("frame")
        if not isinstance(frame, dict):
            notes["index"]["range"] = [0, near(dice, 6, 64), 1]
            return notes
        rows = near(dice, int(frame["rows"]), dice.choice([6, 20, 34, 64]))
        frame["rows"] = rows
        if "range" in frame["index"]:
            frame["index"]["range"] = [0, rows, 1]
        for one in [*frame["columns"], *frame["levels"], *frame.get("label_levels", [])]:
            if dice.random() < 0.9:
                one["tree"]["rows"] = rows
                if one["tree"]["nulls"]:
                    one["tree"]["nulls"] = dice.choice([rows, one["tree"]["nulls"]])
        return notes

    content = file.section(SCHEMA)
    assert content is not None
    change_schema(content, change)


def in_arrow_bytes(dice: random.Random, file: File) -> None:
    """Bytes of the schema's message itself."""
    content = file.section(SCHEMA)
    assert content is not None
    dice.choice([change_number, change_bytes])(dice, content)


def hostile_arrays(rows: int) -> list[Any]:
    """Arrays that Arrow makes without a look at what is in them."""
    wrapping = np.array([0, 2**31 - 1, -(2**31), -1, *[1] * rows], "<i4")[: rows + 1]
    wrapping[-1:] = 1
    text, codes = pa.py_buffer(b"\xff"), pa.array(([0, 7, -1] * rows)[:rows], pa.int8())
    texts, binaries = (
        pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.arange(rows + 1, dtype="<i4").clip(max=1)), text])
        for kind in (pa.string(), pa.binary())
    )
    return [
        pa.DictionaryArray.from_arrays(codes, pa.array(["a"]), safe=False),
        *(pa.nulls(rows, kind) for kind in (pa.null(), pa.list_(pa.int8()), pa.timestamp("s", "No/Where"))),
        *(texts, binaries),
        *(pa.array([2**63 - 1] * rows).cast(kind) for kind in (pa.date64(), pa.timestamp("s"), pa.duration("ns"))),
        *(
            pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(wrapping), *more], children=children)
            for kind, more, children in ((pa.string(), [text], None), (pa.list_(pa.int8()), [], [codes[:1]]))
            if rows
        ),
    ]


def in_index(dice: random.Random, file: File) -> None:
    """Other labels in a column's index, the schema's fields left as they are or changed, too."""
    content = file.section(INDEX)
    if content is None:
        in_json(dice, file)
        return
    try:
        with pa.ipc.open_stream(pa.py_buffer(bytes(content))) as reader:
            table = reader.read_all()
        place = dice.randrange(table.num_columns)
        rows = dice.choice([table.num_rows, table.num_rows, near(dice, table.num_rows, 6)])
        array = dice.choice(hostile_arrays(rows))
        columns = [*table.columns]
        columns[place] = array
        columns = [column if len(column) == rows else array for column in columns]
        names = [table.field(i).with_type(column.type) for i, column in enumerate(columns)]
        made = pa.RecordBatch.from_arrays(
            [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns],
            schema=pa.schema(names, metadata=table.schema.metadata),
        )
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=dice.choice([None, None, "zstd", "lz4"]))
        with pa.ipc.new_stream(sink, made.schema, options=options) as writer:
            writer.write_batch(made)
    except (pa.ArrowException, OSError, TypeError, ValueError):
        return  # another mutation was there before
    content[:] = sink.getvalue().to_pybytes()
    if dice.random() < 0.7:
        types = dict(zip(made.schema.names, made.schema.types, strict=True))

        def change(fields: list[Any], notes: Any) -> Any:
            fields[1:] = [field.with_type(types.get(field.name, field.type)) for field in fields[1:]]
            return notes

        schema_content = file.section(SCHEMA)
        assert schema_content is not None
        change_schema(schema_content, change)


ANYWHERE: list[Mutation] = [
    *(in_preamble, in_directory, in_arrow_bytes),
    *2 * [in_record, rows_everywhere, exchange, rows_of_a_tree, in_index],
    *5 * [in_section, in_json, in_types],
]
#: What the codecs see.
SEGMENTS: list[Mutation] = [in_record, rows_everywhere, exchange, *7 * [in_section]]


def change_values(dice: random.Random, data: bytes) -> bytes:
    """Compress a frame's streams again, other values among them: what the codecs' own checks let pass."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        stored = storage.load(file.name)
    streams = list(stored.streams)
    places = [i for i, (codec, parts) in enumerate(streams) if not registry.is_text(codec) and parts]
    for place in dice.sample(places, min(len(places), dice.choice([1, 1, 2, 5]))):
        codec, parts = streams[place]
        itemsize = parts[0].itemsize
        content = bytearray(cpu.read(parts, itemsize).tobytes())
        if dice.random() < 0.3:
            change_numbers(dice, content, itemsize)
        else:
            for _ in range(dice.choice([1, 1, 3, 10])):
                change_number(dice, content)
        if dice.random() < 0.3:
            codec = dice.choice([one.NAME for one in registry.values() if itemsize in one.ITEMSIZES])
        values = np.frombuffer(content, f"<u{itemsize}")
        cuts = sorted({0, values.size, *(dice.randrange(values.size) for _ in range(dice.choice([0, 0, 2])))})
        cut = [values[start:stop] for start, stop in itertools.pairwise(cuts)]
        streams[place] = codec, [piece for some in cut for piece in cpu.compress(some, codec=codec)]
    return b"".join(bytes(piece) for piece in storage._pieces(stored.version, streams, stored.schema, stored.index))


def hostile(number: int) -> tuple[str, bytes]:
    """The name of a sound file, and what became of it."""
    dice = random.Random(number)
    name, data = choose(dice)
    if "frame" in name and "many" not in name and dice.random() < 0.4:
        data = change_values(dice, data)
        if dice.random() < 0.7:
            return name, data
    return name, changed(dice, data, ANYWHERE)


def hostile_segments(number: int) -> tuple[str, bytes]:
    """The same, of which only columns and segments were changed."""
    dice = random.Random(number)
    name, data = choose(dice)
    return name, changed(dice, data, SEGMENTS)


def choose(dice: random.Random) -> tuple[str, bytes]:
    kind = dice.choices(["column", "frame", "many"], [38, 60, 2])[0]
    kinds = ["many" if "many" in name else "frame" if "frame" in name else "column" for name, _ in subjects()]
    return dice.choice([subject for subject, found in zip(subjects(), kinds, strict=True) if found == kind])


def changed(dice: random.Random, data: bytes, mutations: list[Mutation]) -> bytes:
    file = File(data)
    for mutation in dice.choices(mutations, k=dice.choice([1, 1, 1, 2, 2, 3])):
        mutation(dice, file)
    return file.to_bytes()
