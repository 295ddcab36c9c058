"""A part of a column of strings that has a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..part import Packed, Part
from . import NAME

if TYPE_CHECKING:  # nodes have parts
    from ..node import Node
    from .few import Few


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
class DictPart(Part):
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
    codec: ClassVar[str] = NAME  # type: ignore[misc]  # a fact of the class
    table: ClassVar[None] = None  # type: ignore[misc]  # a fact of the class

    @property
    def children(self) -> tuple[Node, Node]:  # type: ignore[override]  # read alone, as in all parts
        return self.indices, self.values

    @property
    def rows(self) -> int:  # type: ignore[override]  # read alone, as in all parts
        return self.indices.rows

    @property
    def null_count(self) -> int:  # type: ignore[override]  # read alone, as in all parts
        return self.indices.null_count

    @property
    def values_nbytes(self) -> int:  # type: ignore[override]  # read alone, as in all parts
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
    def leaves(self) -> Iterator[Part]:
        for child in self.children:
            yield from child.parts

    def with_leaves(self, parts: Iterator[Part]) -> DictPart:
        return DictPart(self.indices.with_parts(parts), self.values.with_parts(parts), self.chars, self.known)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.leaves)

    @property
    def meta_nbytes(self) -> int:  # type: ignore[override]  # read alone, as in all parts
        return sum(part.meta_nbytes for part in self.leaves)

    @property
    def codes_nbytes(self) -> int:  # type: ignore[override]  # read alone, as in all parts
        return sum(part.codes_nbytes for part in self.leaves)

    def check_buffers(self) -> None:
        for part in self.leaves:
            part.check_buffers()
