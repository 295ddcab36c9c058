"""A column of any type, compressed: a tree of nodes as its Arrow type has them, whose buffers the codecs made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa

from ..arrow_types import child_types, is_strings, plain
from ..lazy import lazy
from ..naming import What, named
from .dict import NAME
from .dict.few import Few
from .part import Leaf, Packed, edges_of
from .registry import PLAIN, string_names, texts
from .text.segment import Segment, Segments

#: Consecutive parts, of the values of one column.
Parts = tuple[Packed, ...]
#: Of numbers of a dictionary's values, by their bytes.
INDEX_TYPES = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32()}


@dataclass(frozen=True, eq=False)
class Node:
    """A column, or a part of a nested one. Immutable; equal to itself alone.

    Attributes
    ----------
    type : pyarrow.DataType
    rows, null_count : int
    validity : tuple of Packed
        Arrow validity bitmap, row 0 at bit 0, as bytes; () without nulls, and for strings, whose parts have it.
    values : tuple of tuple of Packed
        One, of the values (`ColumnBuffers.values`); two of numbers of 16 bytes, the low halves and the high ones, four
        of those of 32; none of strings, structs, lists of a fixed size and nulls.
    segments : tuple of Segment and DictPart
        Of strings: consecutive rows, in order, each by its own codec.
    children : tuple of Node
        None of strings.
    """

    type: Any
    rows: int
    null_count: int
    validity: Parts = ()
    values: tuple[Parts, ...] = ()
    segments: tuple[Any, ...] = ()
    children: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        if self.segments.__class__ is not Segments:
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
    def coded(self) -> bool:
        """Whether some of its rows, which are strings, have a dictionary."""
        return any(part.children for part in self.segments)

    @property
    def all_coded(self) -> bool:
        """Whether all of its rows have a dictionary, and there are some."""
        return self.coded and all(part.children for part in self.segments)

    @property
    def runs(self) -> tuple[Node | DictPart, ...]:
        """Rows of strings, in order: each part with a dictionary, and neighbours that have none as one column."""
        return self._runs if self.coded else (self,)

    @lazy
    def _runs(self) -> tuple[Node | DictPart, ...]:
        runs: list[Node | DictPart] = []
        for coded, group in groupby(self.segments, lambda part: bool(part.children)):
            members = tuple(group)
            runs += members if coded else (of_parts(self.type, members),)
        return tuple(runs)

    @lazy
    def run_edges(self) -> Any:
        """`edges_of` its runs."""
        return edges_of(self.runs)

    @property
    def texts(self) -> tuple[Segment, ...]:
        """Parts of all strings in it: of nested ones, of categories, and of the values of dictionaries, too."""
        return tuple(part for part in self.parts if isinstance(part, Segment))

    @lazy
    def chars_nbytes(self) -> int:
        """Bytes of strings; 0 of other values."""
        return sum(part.chars for part in self.segments)

    @property
    def parts(self) -> Iterator[Leaf]:
        """Everything that has buffers, in stored order."""
        yield from self.validity
        for parts in self.values:
            yield from parts
        for part in self.segments:
            yield from part.leaves
        for child in self.children:
            yield from child.parts

    def with_parts(self, parts: Iterator[Leaf]) -> Node:
        """A node of the same shape whose parts are the next ones of an iterator, in the order of `parts`."""

        def following(old: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(next(parts) for _ in old)

        return Node(
            self.type,
            self.rows,
            self.null_count,
            following(self.validity),
            tuple(following(stream) for stream in self.values),
            tuple(part.with_leaves(parts) for part in self.segments),
            tuple(child.with_parts(parts) for child in self.children),
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
            return ", ".join(dict.fromkeys(part.codec for part in self.segments)) or texts()[0].NAME
        own = [parts[0].codec for parts in self.values if parts]
        return ", ".join(dict.fromkeys([*own, *(child.codec for child in self.children if child.rows)])) or PLAIN.NAME


class Known:
    """Facts about the values of a dictionary, found out once, in host memory; copies of a part share them."""

    #: Bytes of the longest; None: nobody has looked.
    longest: int | None = None
    #: If they are a few short ones, these, as a GPU has read them.
    few: Few | None = None
    #: If they are a few, these, as the host has read them: longer ones, too, so that no GPU may rely on it.
    few_on_host: Few | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Known, ()


@dataclass(frozen=True, eq=False)
class DictPart:
    """Consecutive rows of strings that repeat: the number of each row's value, and the distinct values.

    Its children are columns, so whatever reads a column reads them.

    Attributes
    ----------
    indices : Node
        Unsigned integers of 1, 2 or 4 bytes, with the nulls of the rows.
    values : Node
        Strings, different from each other, in order of first appearance, none null.
    chars : int
        Bytes of its rows' strings.
    known : Known
    """

    indices: Node
    values: Node
    chars: int
    known: Known = field(default_factory=Known, repr=False)
    codec: ClassVar[str] = NAME
    table: ClassVar[None] = None

    @property
    def children(self) -> tuple[Node, Node]:
        return self.indices, self.values

    @property
    def rows(self) -> int:
        return self.indices.rows

    @property
    def null_count(self) -> int:
        return self.indices.null_count

    @property
    def values_nbytes(self) -> int:
        return self.chars

    @property
    def packed(self) -> tuple[Packed, ...]:
        """The parts of the indices."""
        return self.indices.values[0]

    @property
    def itemsize(self) -> int:
        """Bytes of an index."""
        return self.packed[0].itemsize

    @property
    def leaves(self) -> Iterator[Leaf]:
        for child in self.children:
            yield from child.parts

    def with_leaves(self, parts: Iterator[Leaf]) -> DictPart:
        return DictPart(self.indices.with_parts(parts), self.values.with_parts(parts), self.chars, self.known)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.leaves)

    @property
    def meta_nbytes(self) -> int:
        return sum(part.meta_nbytes for part in self.leaves)

    @property
    def codes_nbytes(self) -> int:
        return sum(part.codes_nbytes for part in self.leaves)

    def check_buffers(self) -> None:
        for part in self.leaves:
            part.check_buffers()


def of_parts(kind: Any, parts: Sequence[Any]) -> Node:
    """Strings of a type whose rows are those of parts, one after another."""
    rows, nulls = sum([part.rows for part in parts]), sum([part.null_count for part in parts])
    return Node(kind, rows, nulls, segments=Segments(parts))


def form(node: Node) -> tuple[Any, ...]:
    """All of a column but the bytes of its buffers: those of one form have as many `Node.parts`, of the same sizes."""

    def of(part: Any) -> tuple[Any, ...]:
        if isinstance(part, DictPart):
            return part.chars, form(part.indices), form(part.values)
        return tuple(getattr(part, field.name) for field in fields(part) if field.name not in ("meta", "codes"))

    parts = (*node.values, node.validity, node.segments)
    own = tuple(tuple(map(of, group)) for group in parts)
    return node.type, node.rows, node.null_count, own, tuple(map(form, node.children))


def dict_part(
    values: Node, codes: Parts, validity: Parts, nulls: int, chars: int, longest: int | None = None
) -> DictPart:
    """A part with a dictionary, of its values, their numbers in rows, and the rows that are null; see `Known`."""
    kind = INDEX_TYPES[codes[0].itemsize]
    part = DictPart(Node(kind, sum(part.rows for part in codes), nulls, validity, (codes,)), values, chars)
    part.known.longest = longest
    return part


def check_codec(codec: str | None, kind: Any) -> None:
    """Raise ValueError where a codec that the user names does not take a column of this Arrow type."""
    if codec is None or pa.types.is_null(kind := plain(kind)):
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
    """The name of a column's validity in the log."""
    return lambda: f"validity of {named(what)}"


def is_signed(arrow_type: Any) -> bool:
    """Whether values, as integers, have a sign."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return bool(types.is_signed_integer(arrow_type.index_type))
    return bool(types.is_signed_integer(arrow_type) or types.is_temporal(arrow_type) or types.is_decimal(arrow_type))


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
