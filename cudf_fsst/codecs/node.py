"""A column of any type, compressed: a tree of nodes as its Arrow type has them, whose buffers the codecs made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa

from ..arrow_types import child_types, plain
from ..lazy import lazy
from ..naming import What, named
from . import raw
from .part import Packed, Part, edges_of
from .registry import DICTIONARIES, string_names, texts
from .text.segment import Segment, Segments

#: Consecutive parts, of the values of one column.
Parts = tuple[Packed, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """A column, or a part of a nested one. Immutable; equal to itself alone.

    Attributes
    ----------
    type : pyarrow.DataType
    rows, null_count : int
    validity : tuple of Packed
        Arrow validity bitmap, row 0 at bit 0, as bytes; () without nulls, and for strings, whose segments have it.
    values : tuple of tuple of Packed
        One, of the values (`ColumnBuffers.values`); two of numbers of 16 bytes, the low halves and the high ones, four
        of those of 32; none of strings, structs, lists of a fixed size and nulls.
    segments : tuple of Segment
        Of strings without dictionaries.
    children : tuple of Node
        Of strings with dictionaries the `scopes`.
    chars : int
        Of a scope with a dictionary: bytes of its rows' strings.
    """

    type: Any
    rows: int
    null_count: int
    validity: Parts = ()
    values: tuple[Parts, ...] = ()
    segments: tuple[Segment, ...] = ()
    children: tuple[Node, ...] = ()
    chars: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", Segments(self.segments))

    # Kept with the column, so that one row is found without a look at every part.

    @lazy
    def validity_edges(self) -> Any:
        """`edges_of` its validity."""
        return edges_of(self.validity)

    @lazy
    def values_edges(self) -> tuple[Any, ...]:
        """`edges_of` its values."""
        return tuple(map(edges_of, self.values))

    @lazy
    def segment_edges(self) -> Any:
        """`edges_of` its segments."""
        return edges_of(self.segments)

    @lazy
    def scope_edges(self) -> Any:
        """`edges_of` its scopes."""
        return edges_of(self.scopes)

    @lazy
    def scopes(self) -> tuple[Node, ...]:
        """The scopes of strings of which some have dictionaries: consecutive rows, in order; () for any other column.

        One with a dictionary is a node as categories have it: codes, whose type is a dictionary type of unsigned
        integers, and a child with the distinct values in order of first appearance. Others are strings with segments;
        two of them are never neighbours.
        """
        return self.children if is_strings(self.type) else ()

    @lazy
    def numbers(self) -> Node:
        """The codes of a scope with a dictionary, without it."""
        return Node(self.type.index_type, self.rows, self.null_count, self.validity, self.values)

    @property
    def texts(self) -> tuple[Segment, ...]:
        """Parts of all strings in it: of nested ones, of categories, and of the values of dictionaries, too."""
        return tuple(part for part in self.parts if isinstance(part, Segment))

    @lazy
    def chars_nbytes(self) -> int:
        """Bytes of strings; 0 of other values."""
        return self.chars + sum(part.chars for part in self.segments) + sum(one.chars_nbytes for one in self.scopes)

    @property
    def parts(self) -> Iterator[Part]:
        """Everything that has buffers, in stored order."""
        yield from self.validity
        for parts in self.values:
            yield from parts
        yield from self.segments
        for child in self.children:
            yield from child.parts

    def with_parts(self, parts: Iterator[Part]) -> Node:
        """A node of the same shape whose parts are the next ones of an iterator, in the order of `parts`."""

        def some(old: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(next(parts) for _ in old)

        return Node(
            self.type,
            self.rows,
            self.null_count,
            some(self.validity),
            tuple(some(one) for one in self.values),
            some(self.segments),
            tuple(child.with_parts(parts) for child in self.children),
            self.chars,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers and symbol tables."""
        parts = list(self.parts)
        tables = {part.table: part.table.nbytes for part in parts if part.table is not None}
        return sum(part.nbytes for part in parts) + sum(tables.values())

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the column in Arrow (cuDF's booleans take 8 times what these do).

        Nulls without a type, and structs without fields, have no buffers in Arrow, but pandas and cuDF make some. They
        count as strings that are all null, which is what cuDF makes of nulls.
        """
        if pa.types.is_null(self.type) or (pa.types.is_struct(self.type) and not self.children):
            return -(-self.rows // 8) + (self.rows + 1) * 4
        mask = -(-self.rows // 8) if self.null_count else 0
        if is_strings(self.type) and self.rows:
            chars = self.chars_nbytes
            return mask + chars + (self.rows + 1) * (4 if chars < 2**31 else 8)
        values = sum(part.values_nbytes for parts in self.values for part in parts)
        if pa.types.is_boolean(self.type):
            values = -(-values // 8)
        return mask + values + sum(child.uncompressed_nbytes for child in self.children)

    @property
    def codec(self) -> str:
        """The codec of its values; of a nested column, of its leaves."""
        if is_strings(self.type):
            found = [name for scope in self.scopes or (self,) for name in _codecs_of_scope(scope)]
            return ", ".join(dict.fromkeys(found)) or texts()[0].NAME
        own = [parts[0].codec for parts in self.values if parts]
        return ", ".join(dict.fromkeys([*own, *(child.codec for child in self.children if child.rows)])) or raw.NAME


def _codecs_of_scope(scope: Node) -> list[str]:
    return [segment.codec for segment in scope.segments] if is_strings(scope.type) else [DICTIONARIES.NAME]


def of_scopes(kind: Any, scopes: Sequence[Node]) -> Node:
    """A node of strings of consecutive scopes, those without a dictionary that are neighbours put together.

    Parameters
    ----------
    kind : pyarrow.DataType
    scopes : sequence of Node
        As `Node.scopes` has them. Without any dictionary there is nothing but segments.
    """
    scopes = [scope for scope in scopes if scope.rows]
    found: list[Node] = []
    for without, some in groupby(scopes, lambda scope: is_strings(scope.type)):
        if not without:
            found += some
            continue
        one = list(some)
        rows, nulls = sum(scope.rows for scope in one), sum(scope.null_count for scope in one)
        found.append(Node(kind, rows, nulls, segments=tuple(part for scope in one for part in scope.segments)))
    if len(found) == 1 and is_strings(found[0].type):
        return found[0]
    return Node(kind, sum(one.rows for one in found), sum(one.null_count for one in found), children=tuple(found))


def dictionary_of(kind: Any, itemsize: int) -> Any:
    """The type of a scope with a dictionary, of strings of a type, whose codes have so many bytes."""
    return pa.dictionary({1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32()}[itemsize], kind)


def check_codec(codec: str | None, kind: Any) -> None:
    """Raise ValueError where a codec that the user names does not take a column of this Arrow type."""
    kind = plain(kind)
    if codec is None or pa.types.is_null(kind):
        return
    if not pa.types.is_dictionary(kind) and (children := child_types(kind)):
        for child in children:
            check_codec(codec, child)
    elif is_strings(kind):
        if codec not in string_names():
            *names, last = map(repr, string_names())
            raise ValueError(f"codec {codec!r} does not take strings, only {', '.join(names)} and {last} do")
    elif codec in string_names():
        raise ValueError(f"codec {codec!r} takes strings, not {kind}")


def of_validity(what: What) -> What:
    """What the log calls a column's validity."""
    return lambda: f"validity of {named(what)}"


def is_signed(arrow_type: Any) -> bool:
    """Whether values, as integers, have a sign."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return bool(types.is_signed_integer(arrow_type.index_type))
    return bool(types.is_signed_integer(arrow_type) or types.is_temporal(arrow_type) or types.is_decimal(arrow_type))


_STRING_IDS = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()))


def is_strings(arrow_type: Any) -> bool:
    """Whether a column's values are strings of bytes."""
    return arrow_type.id in _STRING_IDS


@dataclass(frozen=True, eq=False)
class Content:
    """A compressed column without name and labels.

    Attributes
    ----------
    node : Node
        Its buffers.
    type : pyarrow.DataType
        Its exact Arrow type.
    stored
        What says its dtype (`interop.dtypes`).
    """

    node: Node = field(repr=False)
    type: Any
    stored: Any
