"""A frame's columns as numbered streams and JSON, and back, checked (docs/format.md, section 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrow_types import (
    MOST_VALUES,
    child_types,
    has_offsets,
    is_strings,
    list_size,
    offset_width,
    plain,
    values_of_a_row,
)
from ..codecs.bitmap import bits_at
from ..codecs.dict import cpu as dictionary
from ..codecs.dict.plan import least_chars
from ..codecs.node import INDEX_TYPES, DictPart, Node, dict_part, of_parts
from ..codecs.part import Packed, Part
from ..codecs.registry import PLAIN, is_text, of_values
from ..codecs.text import cpu as text
from ..codecs.text.segment import Segment
from ..codecs.values import cpu
from ..interop.arrow_columns import fixed_width
from ..naming import naming
from .storage import FIRST_TEXT, Opened, Stream
from .versions import EXACT_VERSION, NEWEST_VERSION

_types = pa.types
#: Rows that are looked at together; a multiple of 8.
_WINDOW_ROWS = 1 << 20
RAW = PLAIN.NAME


def describe(node: Node, streams: list[Stream]) -> dict[str, Any]:
    """JSON of a node; its streams are put behind those there are."""

    def number(parts: Sequence[Part], codec: str) -> int:
        streams.append((codec, parts))
        return len(streams) - 1

    described: dict[str, Any] = {
        "rows": node.rows,
        "nulls": node.null_count,
        "validity": number(_of_one_codec(node.validity), node.validity[0].codec) if node.validity else None,
        "values": [number(_of_one_codec(parts), parts[0].codec) for parts in node.values],
        "strings": None,
        "children": [],
    }
    if node.coded:
        described["children"] = [_described_run(run, streams) for run in node.runs]
        described["scopes"] = [0 if isinstance(run, Node) else run.itemsize for run in node.runs]
        return described
    texts = [number(list(run), codec) for codec, run in groupby(node.segments, lambda segment: segment.codec)]
    if texts:
        described["strings"] = texts if len(texts) > 1 else texts[0]
    described["children"] = [describe(child, streams) for child in node.children]
    return described


def _described_run(run: Node | DictPart, streams: list[Stream]) -> dict[str, Any]:
    """JSON of one of `Node.runs`; with a dictionary it is that of a column of categories."""
    if isinstance(run, Node):
        return describe(run, streams)
    return describe(run.indices, streams) | {"children": [describe(run.values, streams)]}


def has_dictionary(node: Node) -> bool:
    """Whether there are strings with a dictionary in a node, which only version 3 can say."""
    return node.coded or any(map(has_dictionary, node.children))


def _of_one_codec(parts: Sequence[Packed]) -> Sequence[Packed]:
    """Parts with equal values, all of the first one's codec: a stream has one, joined columns several."""
    codec = parts[0].codec
    if all(part.codec == codec for part in parts):
        return parts
    return cpu.compress(cpu.read(parts, parts[0].itemsize), codec=codec)


def edges(described: Sequence[Any], count: int) -> list[int]:
    """At which stream each of these trees begins, and where the last one ends: there are `count` streams.

    Raises
    ------
    ValueError
        A tree does not begin where the one before ends, or streams are left. That the streams within a tree follow each
        other is found out when it is read.
    """
    ends = [0]
    for tree in described:
        ends.append(ends[-1] + _streams(tree))
    if ends[-1] != count:
        raise ValueError(f"{count} streams, of which {ends[-1]} are used")
    return ends


def _streams(tree: Any) -> int:
    """How many streams a described tree has."""
    texts = tree["strings"]
    own = (tree["validity"] is not None) + len(tree["values"])
    own += len(texts) if isinstance(texts, list) else (texts is not None)
    return own + sum(map(_streams, tree["children"]))


class TreeReader:
    """Put nodes together of a file's streams; each is used once, in their order.

    Parameters
    ----------
    streams : mapping of int to Stream
        By number: those that are used, of all.
    codecs : sequence of str
        Of all streams.
    first : int
        The stream to begin with.
    version : int
        Of the file.
    outline_of : Opened, optional
        The file, of whose streams these are an outline. Then no value is looked at, but codes of dictionaries: they
        alone say how many characters the rows have.
    count_chars : callable
        As `codecs.dict.cpu.count_chars`.
    """

    def __init__(
        self,
        streams: Mapping[int, Stream],
        codecs: Sequence[str],
        first: int,
        *,
        version: int,
        outline_of: Opened | None = None,
        count_chars: Callable[[DictPart], int] = dictionary.count_chars,
    ) -> None:
        self._count = count_chars
        self._streams, self._codecs, self._next, self._file = streams, codecs, first, outline_of
        self._version = version
        self._dictionaries, self._newest = version >= EXACT_VERSION, version >= NEWEST_VERSION

    def check_plain(self) -> None:
        """Raise ValueError unless the streams that are left take memory in proportion to the file when decoded."""
        for number, codec in enumerate(self._codecs[self._next :], self._next):
            if codec not in (RAW, FIRST_TEXT):
                raise ValueError(f"stream {number}, of labels, is of codec {codec}, not {RAW} or {FIRST_TEXT}")

    def _stream(self, number: Any, where: str) -> Stream:
        if number != self._next or number not in self._streams:
            raise ValueError(f"{where}: stream {number!r} is not the next one, {self._next}")
        self._next += 1
        return self._streams[self._next - 1]

    def _values(self, number: Any, rows: int, itemsize: int, where: str, floats: bool = False) -> tuple[Packed, ...]:
        codec, parts = self._stream(number, where)
        if is_text(codec) or any(part.itemsize != itemsize for part in parts):
            raise ValueError(f"{where}: stream {number} does not hold values of {itemsize} bytes")
        if not floats and any(of_values(codec).of_floats(part.parameters) for part in parts):
            raise ValueError(f"{where}: stream {number} has a NaN, which only floating point numbers have")
        if sum(part.rows for part in parts) != rows:
            raise ValueError(f"{where}: stream {number} holds {sum(part.rows for part in parts)} values, not {rows}")
        return tuple(parts)

    def node(self, stored: Any, kind: Any, where: str, *, of_scope: bool = False) -> Node:
        """A node of this Arrow type; `of_scope`: strings with a dictionary, for `_count_chars`.

        Raises
        ------
        ValueError
            The streams do not fit the type, or decoding them would give offsets, codes or bits that Arrow could not
            follow.
        """
        kind = plain(kind)
        if not (fixed_width(kind) or has_offsets(kind) or is_strings(kind) or _plain(kind)):
            raise ValueError(f"{where}: no column can be of type {kind}")
        if values_of_a_row(kind) > MOST_VALUES:
            raise ValueError(f"{where}: a row of type {kind} has more than {MOST_VALUES} values")
        first, rows, nulls = self._next, stored["rows"], stored["nulls"]
        if not (type(rows) is int and type(nulls) is int and 0 <= nulls <= rows < 2**63):
            raise ValueError(f"{where}: {nulls!r} nulls in {rows!r} rows")
        validity: tuple[Packed, ...] = ()
        if stored["validity"] is not None:
            validity = self._values(stored["validity"], -(-rows // 8), 1, where)
        if validity and self._file is None:
            surveyed = cpu.survey(
                validity, lambda bits: (int(np.bitwise_count(bits).sum(dtype=np.int64)), int(bits[-1]))
            )
            past = surveyed[-1][1] >> rows % 8 if rows % 8 else 0
            if past or sum(ones for ones, _ in surveyed) != rows - nulls:
                raise ValueError(f"{where}: its validity does not have {nulls} nulls in {rows} rows")
        elif nulls and not (validity or is_strings(kind) or _types.is_null(kind)):
            raise ValueError(f"{where}: {nulls} nulls without a validity")
        width = fixed_width(kind) or offset_width(kind)
        numbers = max(1, width // 8)  # streams of values
        has_values = bool(fixed_width(kind) or has_offsets(kind)) and rows > 0
        if len(stored["values"]) != numbers * has_values:
            raise ValueError(f"{where}: {len(stored['values'])} streams of values for type {kind}")
        streams = tuple(
            self._values(number, rows + has_offsets(kind), min(width, 8), where, _types.is_floating(kind))
            for number in stored["values"]
        )
        segments = self._text(stored["strings"], kind, where)
        if (
            is_strings(kind)
            and not stored.get("scopes")
            and (sum(part.rows for part in segments) != rows or sum(part.null_count for part in segments) != nulls)
        ):
            raise ValueError(f"{where}: its segments do not have {rows} rows with {nulls} nulls")
        scopes = stored.get("scopes", []) if is_strings(kind) else []
        if scopes:
            return self._coded(stored, kind, scopes, segments, where)
        kinds = child_types(kind)
        if len(stored["children"]) != len(kinds):
            raise ValueError(f"{where}: {len(stored['children'])} children for type {kind}")
        children = tuple(
            self.node(child, child_kind, f"{where}, child {i}")
            for i, (child, child_kind) in enumerate(zip(stored["children"], kinds, strict=True))
        )
        node = Node(kind, rows, nulls, validity, streams, segments, children)
        if of_scope:  # whose codes are counted besides
            return node
        odd = _types.is_dictionary(kind) and children[0].null_count and nulls < rows
        if self._file is None:
            _check_references(node, where)
            return _with_nulls_of_values(node) if odd else node
        return self._whole(first, stored, kind, where) if odd else node

    def _whole(self, first: int, stored: Any, kind: Any, where: str, *, of_scope: bool = False) -> Node:
        """A node as `load` reads it, of which this has read the outline, from this stream on."""
        assert self._file is not None
        streams = self._file.read(range(first, self._next))
        reader = TreeReader(streams, self._codecs, first, version=self._version)
        return reader.node(stored, kind, where, of_scope=of_scope)

    def _text(self, numbers: Any, kind: Any, where: str) -> tuple[Segment, ...]:
        """The segments of strings; a list of streams is of several codecs."""
        several = isinstance(numbers, list)
        listed = numbers if several else [] if numbers is None else [numbers]
        streams = [self._stream(number, where) for number in listed]
        codecs = [codec for codec, _ in streams]
        if several and (not self._newest or len(codecs) < 2 or any(a == b for a, b in pairwise(codecs))):
            raise ValueError(f"{where}: strings in streams of codecs {', '.join(codecs)}")
        for codec in codecs:
            if not is_text(codec) or not is_strings(kind):
                raise ValueError(f"{where}: strings of codec {codec} for type {kind}")
        return tuple(part for _, parts in streams for part in parts)

    def _coded(self, stored: Any, kind: Any, scopes: Any, segments: Any, where: str) -> Node:
        """Strings of which some have dictionaries; `scopes`: bytes of their codes, or 0."""
        if not self._dictionaries:
            raise ValueError(f"{where}: dictionaries of strings, which versions before {EXACT_VERSION} do not have")
        trees = stored["children"]
        if segments or len(trees) != len(scopes) or any(size not in (0, 1, 2, 4) for size in scopes):
            raise ValueError(f"{where}: scopes {scopes!r} for {len(trees)} children")
        if not any(scopes) or any(not size and not other for size, other in pairwise(scopes)):
            raise ValueError(f"{where}: scopes {scopes!r}, of which neighbours have no dictionary")
        parts: list[Part] = []
        for i, (tree, size) in enumerate(zip(trees, scopes, strict=True)):
            place = f"{where}, scope {i}"
            if tree.get("scopes"):
                raise ValueError(f"{place}: has scopes itself")
            first, own = self._next, pa.dictionary(INDEX_TYPES[size], kind) if size else kind
            scope = self.node(tree, own, place, of_scope=size > 0)
            if not scope.rows:
                raise ValueError(f"{place}: no rows")
            if not size:
                parts += scope.segments
                continue
            whole = scope if self._file is None else self._whole(first, tree, own, place, of_scope=True)
            parts.append(replace(_dict_part(scope), chars=self._count_chars(whole, place)))
        node = of_parts(kind, parts)
        if (node.rows, node.null_count) != (stored["rows"], stored["nulls"]) or node.rows >= 2**63:
            raise ValueError(f"{where}: its scopes do not have {stored['rows']} rows with {stored['nulls']} nulls")
        return node

    def _count_chars(self, coded: Node, where: str) -> int:
        """How many characters the rows have, of strings that were stored as a column of categories."""
        (values,) = coded.children
        if values.coded or values.null_count or values.chars_nbytes < least_chars(values.rows):
            raise ValueError(f"{where}: its {values.rows} values are not different strings")
        with naming(where):
            chars = self._count(_dict_part(coded))
        if chars >= 2**63:
            raise ValueError(f"{where}: {chars} characters")
        return chars


def _dict_part(coded: Node) -> DictPart:
    """A column of categories as a part of strings, of whose characters nothing is known."""
    (values,), (codes,) = coded.children, coded.values
    return dict_part(values, codes, coded.validity, coded.null_count, 0)


def _with_nulls_of_values(node: Node) -> Node:
    """A dictionary whose rows are null where their values are, which files have that were written before 0.1.0."""
    (child,), (codes,) = node.children, node.values
    validity: list[Packed] = []
    nulls = 0
    for start in range(0, node.rows, _WINDOW_ROWS):
        stop = min(start + _WINDOW_ROWS, node.rows)
        valid = np.ones(stop - start, np.bool_)
        if node.validity:
            bits = cpu.read(node.validity, 1, start // 8, -(-stop // 8), edges=node.validity_edges)
            valid = np.unpackbits(bits, count=stop - start, bitorder="little").view(np.bool_)
        numbers, places = np.unique(cpu.read(codes, codes[0].itemsize, start, stop), return_inverse=True)
        valid &= _validity_of(child, numbers.astype(np.int64))[places]
        nulls += valid.size - int(valid.sum())
        validity += cpu.compress(np.packbits(valid, bitorder="little"))
    return replace(node, null_count=nulls, validity=tuple(validity))


def _validity_of(node: Node, rows: Any) -> Any:
    """For each of some rows, in ascending order, whether it is not null; an array of booleans."""
    if node.null_count in (0, node.rows):
        return np.full(rows.size, not node.null_count)
    if node.coded:
        cuts = np.searchsorted(rows, node.run_edges)
        parts = zip(node.runs, node.run_edges, cuts, cuts[1:], strict=False)
        runs = [(run if isinstance(run, Node) else run.indices, first, a, b) for run, first, a, b in parts]
        return np.concatenate([_validity_of(part, rows[a:b] - first) for part, first, a, b in runs])
    if node.segments:
        bits, _ = text.validity(node.segments)
        assert bits is not None
        return bits_at(bits, rows).view(np.bool_)
    return np.unpackbits(cpu.take_bits(node.validity, rows), count=rows.size, bitorder="little").view(np.bool_)


def survey(node: Node, visit: Callable[[Any], None]) -> None:
    """Show all the values of a node, as unsigned integers, some at a time."""
    for stream in node.values:
        cpu.survey(stream, visit)


def _plain(kind: Any) -> bool:
    """Whether columns of a type have no values of their own: structs, nulls, lists of one size."""
    return bool(_types.is_struct(kind) or _types.is_null(kind) or list_size(kind) is not None)


def _check_references(node: Node, where: str) -> None:
    """Raise ValueError where offsets, codes or fields lead out of the children."""
    size = list_size(node.type)
    if size is not None and node.children[0].rows != size * node.rows:
        raise ValueError(f"{where}: {node.children[0].rows} values in {node.rows} rows of {size}")
    if _types.is_struct(node.type):
        for child in node.children:
            if child.rows != node.rows:
                raise ValueError(f"{where}: a field has {child.rows} rows, not {node.rows}")
        return
    if _types.is_boolean(node.type) and node.values:
        largest = max(cpu.survey(node.values[0], _largest))
        if largest > 1:
            raise ValueError(f"{where}: a boolean of {largest}")
    if not node.children or not node.values:
        return
    rows = node.children[0].rows
    if has_offsets(node.type):
        ranges = cpu.survey(node.values[0], _ascent)
        edges = [edge for first, last, _ in ranges for edge in (first, last)]
        ascending = edges == sorted(edges) and all(ascends for _, _, ascends in ranges)
        if not ascending or edges[0] != 0 or edges[-1] != rows:
            raise ValueError(f"{where}: its offsets do not ascend from 0 to {rows}")
        return
    if node.null_count < node.rows:
        # Codes under nulls were filled in from others, or are 0.
        largest = max(cpu.survey(node.values[0], _largest))
        if largest >= rows:
            raise ValueError(f"{where}: code {largest} of {rows} categories")


def _largest(values: Any) -> int:
    return int(values.max())


def _ascent(offsets: Any) -> tuple[int, int, bool]:
    """The first and the last offset, and whether none is smaller than the one before it (differences could wrap)."""
    signed = offsets.view(f"<i{offsets.itemsize}")
    return int(signed[0]), int(signed[-1]), not bool((signed[1:] < signed[:-1]).any())
