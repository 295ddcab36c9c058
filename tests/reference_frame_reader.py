"""A slow reader of stored frames, written from docs/format.md (sections 8, 11-17 and 19-23) alone.

It shares nothing with the package. Arrow reads the schema; all else is plain Python, the codecs in the other
`reference_*` modules.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import reference_bitpack
import reference_gfc
import reference_gpulz
import reference_onpair
from reference_reader import checksum, decode_tile, need, rows_of_segment, symbols_of_table, u32, u64

CODECS = ("fsst", "onpair", "bitpack", "gfc", "gpulz", "raw")
TEXTS = CODECS[:2]
Stream = tuple[str, list[Any]]


def read(path: Any) -> list[tuple[str, list[Any]]]:
    """Names of the fields and their values: of all columns, then of the levels of the index, then of the labels."""
    with open(path, "rb") as file:
        return frame_of_file(file.read())


def frame_of_file(data: bytes) -> list[tuple[str, list[Any]]]:
    """All values of the frame that `data`, a file's bytes, holds (sections 16 to 18)."""
    streams, schema = streams_of_file(data)
    arrow_schema = pa.ipc.read_schema(pa.py_buffer(schema))
    frame = json.loads(arrow_schema.metadata[b"cudf_fsst"])["frame"]
    described = [*frame["columns"], *frame["levels"]]
    labels = []
    if u32(data, 8) >= 3:
        labels = frame["label_levels"]
        need(frame["holds"] in ("frame", "column"), "what the file holds")
        need(frame["holds"] == "frame" or len(frame["columns"]) == 1, "columns of a column")
        need(not labels or not {"labels", "range"} & set(frame["labels"]), "labels")
    need(len(described) + len(labels) == len(arrow_schema), "fields of the schema")
    reader = Trees(streams, u32(data, 8) >= 3)
    values = []
    for field, one in zip(arrow_schema, [*described, *labels], strict=True):
        rows = frame["rows"]
        if len(values) >= len(described):
            rows = len(frame["columns"])
            codecs = {codec for codec, _ in streams[reader.used :]}
            need(codecs <= {"raw", "fsst"}, "codecs of labels")
        need(one["tree"]["rows"] == rows, "rows of a column or a level")
        values.append((field.name, reader.values(one["tree"], field.type)))
    need(reader.used == len(streams), "streams that nothing uses")
    return values


def streams_of_file(data: bytes) -> tuple[list[Stream], bytes]:
    """Streams with their decoded values (bytes, or rows of strings), and the schema (sections 8 and 16)."""
    need(data[:8] == bytes.fromhex("89 46 53 54 0D 0A 1A 0A"), "magic")
    need(len(data) >= 64 and u32(data, 8) in (2, 3, 4), "version")
    need(checksum(data[:56]) == u64(data, 56), "checksum of the preamble")
    need(u64(data, 16) == len(data), "size of the file")
    need(not any(data[12:16]) and not any(data[36:40]) and not any(data[48:56]), "zero bytes of the preamble")
    columns, segments, sections = u32(data, 24), u32(data, 28), u32(data, 32)
    first_segment = 64 + 64 * columns
    directory = first_segment + 64 * segments
    end = directory + 32 * sections
    need(end <= len(data), "records are cut off")
    need(checksum(data[64:end]) == u64(data, 40), "checksum of the records")

    content = {}
    for at in range(directory, directory + 32 * sections, 32):
        kind, number, offset, size, expected = struct.unpack_from("<IIQQQ", data, at)
        need(offset == -(-end // 64) * 64 and offset + size <= len(data), "place of a section")
        need(not any(data[end:offset]), "bytes between sections")
        end = offset + size
        stored = data[offset:end]
        need(checksum(stored) == expected, f"checksum of section {kind}, {number}")
        if u32(data, 8) >= 4 and kind >> 16:
            kind, outer = kind & 0xFFFF, kind >> 16
            need(kind in (3, 4, 5) and outer == 1 and size > 8 and u64(stored, 0) <= 1024 * size, "outer codec")
            stored = pa.decompress(stored[8:], u64(stored, 0), codec="zstd", asbytes=True)
        content[kind, number] = stored
    need(end == len(data) and len(content) == sections, "sections")

    streams: list[Stream] = []
    next_segment = next_table = 0
    for column in range(64, first_segment, 64):
        codec = data[column : column + 8].rstrip(b"\0").decode()
        rows, nbytes, nulls, segment, count, table, tables = struct.unpack_from("<QQQIIII", data, column + 8)
        need(codec in CODECS and not any(data[column + 48 : column + 64]), "codec, zero bytes of a stream")
        need(segment == next_segment and table == next_table, "first segment and table of a stream")
        need(codec != "onpair" or u32(data, 8) >= 4, "version of a codec")
        need(codec in TEXTS or tables == 0, "tables of a stream")
        decoders = [decoder(codec, content[3, number]) for number in range(table, table + tables)]
        parts: list[Any] = []
        totals = [0, 0, 0]
        for number in range(segment, segment + count):
            record = data[first_segment + 64 * number :][:64]
            totals = [total + u64(record, 8 * field) for field, total in enumerate(totals)]
            meta, codes = content[4, number], content[5, number]
            if codec in TEXTS:
                need(not any(record[36:]) and table <= u32(record, 28) < table + tables, "record of a segment")
                parts.append(rows_of_segment(record, decoders[u32(record, 28) - table], meta, codes))
            else:
                parts.append(values_of_segment(u32(data, 8), codec, record, meta, codes))
        need(totals == [rows, nbytes, nulls], "sums of a stream")
        streams.append((codec, parts))
        next_segment, next_table = segment + count, table + tables
    need(next_segment == segments, "segments")
    per_segment = [(kind, number) for kind in (4, 5) for number in range(segments)]
    need(list(content) == [(1, 0), *((3, number) for number in range(next_table)), *per_segment], "order of sections")
    return streams, content[1, 0]


def decoder(codec: str, table: bytes) -> Callable[[bytes, int], bytes]:
    """What decodes tiles of a codec of text with a stored table."""
    if codec == "onpair":
        return reference_onpair.Table(table).decode
    return functools.partial(decode_tile, symbols=symbols_of_table(table))


def values_of_segment(version: int, codec: str, record: bytes, meta: bytes, codes: bytes) -> tuple[int, bytes, bool]:
    """Itemsize and the values' bytes of a segment of a codec for values, and whether it has a NaN (section 24)."""
    rows, nbytes, zero, itemsize, *parameters = struct.unpack_from("<QQQI4I", record)
    need(1 <= rows < 2**32 and itemsize in (1, 2, 4, 8) and nbytes == rows * itemsize, "size of a segment")
    need(zero == 0 and not any(record[44:]), "zero bytes of a segment")
    two, rest = tuple(parameters[:2]), parameters[2:]
    need(codec != "raw" or two == (0, 0), "parameters")
    need(not any(rest) or (codec == "bitpack" and version >= 3), "parameters")
    need(two[1] < 2 or codec != "bitpack" or version >= 4, "a NaN")
    if codec == "bitpack":
        values = reference_bitpack.decode(rows, itemsize, tuple(parameters), meta, codes)
    elif codec == "gfc":
        numbers = reference_gfc.values(rows, itemsize, two, meta, codes)
        values = b"".join(number.to_bytes(itemsize, "little") for number in numbers)
    elif codec == "gpulz":
        values = reference_gpulz.decode(meta, codes, nbytes, *two)
    else:
        need(not meta, "meta of raw values")
        values = codes
    need(len(values) == nbytes, "values of a segment")
    return itemsize, values, codec == "bitpack" and two[1] >= 2


class Trees:
    """Values of the trees, which use the streams in their order."""

    def __init__(self, streams: list[Stream], dictionaries: bool) -> None:
        self.streams, self.used, self.dictionaries = streams, 0, dictionaries

    def stream(self, number: int) -> Stream:
        need(number == self.used, "number of a stream")
        self.used += 1
        return self.streams[number]

    def numbers(self, number: int, count: int, itemsize: int, floats: bool = False) -> list[int]:
        """All values of a stream, as unsigned numbers."""
        codec, parts = self.stream(number)
        need(codec not in TEXTS and all(size == itemsize for size, *_ in parts), "itemsize of a stream")
        need(floats or not any(has_nan for *_, has_nan in parts), "a NaN of other values")
        data = b"".join(values for _, values, _ in parts)
        need(len(data) == count * itemsize, "values of a stream")
        return [int.from_bytes(data[at : at + itemsize], "little") for at in range(0, len(data), itemsize)]

    def values(self, tree: dict[str, Any], kind: pa.DataType) -> list[Any]:
        """Values of a tree as Python's, None where they are null."""
        kind = layout(kind)
        rows, nulls = tree["rows"], tree["nulls"]
        types = pa.types
        if types.is_null(kind):
            return [None] * rows
        if types.is_map(kind):
            lists = self.values(tree, pa.list_(pa.struct([kind.key_field, kind.item_field])))
            return [row if row is None else [tuple(entry.values()) for entry in row] for row in lists]
        valid = [True] * rows
        if tree["validity"] is not None:
            bits = self.numbers(tree["validity"], -(-rows // 8), 1)
            valid = [bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]
            need(valid.count(False) == nulls, "nulls")
            need(rows % 8 == 0 or bits[-1] >> rows % 8 == 0, "validity past the last row")

        if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            strings = []
            if tree.get("scopes"):
                need(self.dictionaries and tree["strings"] is None and not tree["values"], "a tree with scopes")
                return self.scopes(tree, kind)
            if tree["strings"] is not None:
                listed = isinstance(tree["strings"], list)  # segments of several codecs (section 21)
                found = [self.stream(number) for number in (tree["strings"] if listed else [tree["strings"]])]
                codecs = [codec for codec, _ in found]
                need(set(codecs) <= set(TEXTS), "codec of strings")
                need(not listed or len(codecs) >= 2, "streams of strings")
                need(all(one != other for one, other in itertools.pairwise(codecs)), "neighbours of one codec")
                strings = [row for _, parts in found for part in parts for row in part]
            need(len(strings) == rows and strings.count(None) == nulls, "rows of strings")
            text = types.is_string(kind) or types.is_large_string(kind)
            return [row.decode() if text and row is not None else row for row in strings]
        if types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            need(len(fields) == len(tree["children"]), "fields of a struct")
            columns = [self.values(child, field.type) for child, field in zip(tree["children"], fields, strict=True)]
            need(all(len(column) == rows for column in columns), "rows of a struct")
            names = [field.name for field in fields]
            return [
                {name: column[row] for name, column in zip(names, columns, strict=True)} if valid[row] else None
                for row in range(rows)
            ]
        if types.is_fixed_size_list(kind) or types.is_fixed_size_binary(kind):
            binary = types.is_fixed_size_binary(kind)
            size = kind.byte_width if binary else kind.list_size
            [child] = tree["children"]
            inside = self.values(child, pa.uint8() if binary else kind.value_type)
            need(len(inside) == size * rows, "values of rows of a fixed size")
            each = [inside[size * row : size * (row + 1)] for row in range(rows)]
            return [(bytes(one) if binary else one) if here else None for one, here in zip(each, valid, strict=True)]
        if types.is_list(kind) or types.is_large_list(kind):
            offsets = [0]
            if rows:
                [number] = tree["values"]
                offsets = self.numbers(number, rows + 1, 4 if types.is_list(kind) else 8)
            [child] = tree["children"]
            inside = self.values(child, kind.value_type)
            need(offsets[0] == 0 and offsets[-1] == len(inside) and offsets == sorted(offsets), "offsets")
            return [inside[offsets[row] : offsets[row + 1]] if valid[row] else None for row in range(rows)]

        indices = kind.index_type if types.is_dictionary(kind) else kind
        width = 1 if types.is_boolean(kind) else indices.bit_width // 8
        numbers = [0] * rows
        if rows:
            floats = types.is_floating(kind)
            halves = [self.numbers(number, rows, min(width, 8), floats) for number in tree["values"]]
            need(len(halves) == max(1, width // 8), "streams of values")
            numbers = [sum(half << 64 * i for i, half in enumerate(parts)) for parts in zip(*halves, strict=True)]
        if types.is_dictionary(kind):
            [child] = tree["children"]
            dictionary = self.values(child, kind.value_type)
            need(nulls == rows or all(index < len(dictionary) for index in numbers), "indices")
            return [dictionary[index] if here else None for index, here in zip(numbers, valid, strict=True)]
        return [value_of(kind, number, width) if here else None for number, here in zip(numbers, valid, strict=True)]

    def scopes(self, tree: dict[str, Any], kind: pa.DataType) -> list[Any]:
        """Strings of which some have dictionaries (section 19)."""
        scopes, found = tree["scopes"], []
        need(len(scopes) == len(tree["children"]) and set(scopes) <= {0, 1, 2, 4} and any(scopes), "scopes")
        need(all(one or other for one, other in itertools.pairwise(scopes)), "neighbours without a dictionary")
        for size, child in zip(scopes, tree["children"], strict=True):
            need(child["rows"] > 0 and not child.get("scopes"), "a scope")
            if not size:
                found += self.values(child, kind)
                continue
            rows = child["rows"]
            valid = [1] * rows
            if child["validity"] is not None:
                bits = self.numbers(child["validity"], -(-rows // 8), 1)
                valid = [bits[row // 8] >> row % 8 & 1 for row in range(rows)]
                need(rows % 8 == 0 or bits[-1] >> rows % 8 == 0, "validity past the last row")
            need(valid.count(0) == child["nulls"], "nulls of a scope")
            [number], [values] = child["values"], child["children"]
            codes = self.numbers(number, rows, size)
            need(not values["nulls"] and not values.get("scopes"), "distinct values")
            strings = self.values(values, kind)
            need(len(set(strings)) == len(strings), "values that are equal")
            seen = 0
            for code, here in zip(codes, valid, strict=True):
                need(not here or code <= seen, "order of distinct values")
                seen += bool(here and code == seen)
            need(seen == len(strings), "values of no row")
            found += [strings[code] if here else None for code, here in zip(codes, valid, strict=True)]
        need(len(found) == tree["rows"] and found.count(None) == tree["nulls"], "rows of scopes")
        return found


def layout(kind: pa.DataType) -> pa.DataType:
    """The type that a tree is of (sections 16 and 20)."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return layout(kind.storage_type)
    if types.is_run_end_encoded(kind):
        return layout(kind.value_type)
    if types.is_list_view(kind):
        return pa.list_(kind.value_field)
    if types.is_large_list_view(kind):
        return pa.large_list(kind.value_field)
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def value_of(kind: pa.DataType, number: int, width: int) -> Any:
    """A value, as Python has it, of the unsigned number that its bytes make."""
    types = pa.types
    if types.is_boolean(kind):
        need(number <= 1, "a boolean")
        return bool(number)
    if types.is_floating(kind):
        return struct.unpack("<" + {2: "e", 4: "f", 8: "d"}[width], number.to_bytes(width, "little"))[0]
    if types.is_unsigned_integer(kind):
        return number
    signed = number - (1 << 8 * width) if number >> 8 * width - 1 else number
    if types.is_signed_integer(kind):
        return signed
    if types.is_decimal(kind):
        return decimal.Decimal(signed).scaleb(-kind.scale, decimal.Context(prec=80))
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    epoch = datetime.datetime(1970, 1, 1)
    if types.is_date(kind):
        days = signed if types.is_date32(kind) else signed // 86_400_000
        return (epoch + datetime.timedelta(days=days)).date()
    since = datetime.timedelta(microseconds=signed * 10**6 // ticks[kind.unit])
    if types.is_duration(kind):
        return since
    need(types.is_timestamp(kind) or types.is_time(kind), f"the type {kind}")
    if types.is_time(kind):
        return (epoch + since).time()
    return epoch + since if kind.tz is None else (epoch + since).replace(tzinfo=datetime.UTC)


if __name__ == "__main__":
    for name, values in read(sys.argv[1]):
        print(name, values[:10])
