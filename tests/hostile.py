"""Hostile files: sound ones in which some fields were changed, and every checksum was made good again.

``hostile(number)`` is case `number`, the same in every run; ``tests/hostile_reader.py`` puts it through all that reads
a file. What they were is in ``tests/sound_files.py``.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import struct
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from cudf_fsst.codecs import registry
from cudf_fsst.codecs.values import cpu
from cudf_fsst.files import outer, records, sections
from sound_files import subjects
from stored_file import load_stored

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
        found = (content for one, other, content in self.sections if (one & 0xFFFF, other) == (kind, number))
        return next(found, None)

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
        struct.pack_into("<8sI4xQIII", preamble, 0, records.MAGIC, self.version, end, *counts)
        struct.pack_into("<Q", preamble, 40, xxhash.xxh3_64_intdigest(head))
        for offset, code, value in self.preamble:
            struct.pack_into(f"<{code}", preamble, offset, value)
        struct.pack_into("<Q", preamble, 56, xxhash.xxh3_64_intdigest(preamble[:56]))
        return bytes(preamble + head + body)


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
        kind, content = dice.choice([(kind, some) for kind, _, some in file.sections if kind & 0xFFFF == chosen])
        change = dice.choice([change_number, change_number, change_bytes])
        if kind == chosen or dice.random() < 0.3:
            change(dice, content)
        else:
            within_outer(content, lambda inner: change(dice, inner))


def within_outer(stored: bytearray, change: Callable[[bytearray], None]) -> None:
    """Change what a section holds below its outer codec; where another mutation has broken that, nothing."""
    try:
        inner = np.empty(outer.nbytes_of(np.frombuffer(bytes(stored), np.uint8), len(stored)), np.uint8)
        outer.unwrap(np.frombuffer(bytes(stored), np.uint8), 1, inner)
    except ValueError:
        return
    content = bytearray(inner.tobytes())
    change(content)
    stored[:] = struct.pack("<Q", len(content)) + pa.Codec("zstd").compress(bytes(content), asbytes=True)


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
        stored = load_stored(file.name)
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
    made = sections.Sections(stored.version, streams, stored.schema, stored.index, None)
    return b"".join(bytes(piece) for piece in made.pieces())


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
