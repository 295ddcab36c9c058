"""Parts: what every codec makes, two buffers that lie in host memory or on a GPU with the same bytes.

A part has one life on the host, where ``meta`` and ``codes`` are arrays, and one on a GPU, where they are
`rmm.DeviceBuffer`; moving it is two copies. Codecs of fixed-width values make `Packed`, codecs of text `Segment`. A
part with a dictionary (`DictPart`) has no buffers of its own, but two columns as children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from .table import Table

#: Numbers of a codec's own in a stored segment record.
PARAMETERS = 4
#: Bytes that a value of fixed width may have.
ITEMSIZES = (1, 2, 4, 8)
#: Start of every section of ``meta`` (bytes).
ALIGNMENT = 16


def align(nbytes: int, to: int = ALIGNMENT) -> int:
    """Round `nbytes` up to a multiple of `to`."""
    return -(-nbytes // to) * to


class Part(Protocol):
    """Consecutive rows, compressed by one codec; in host or GPU memory. Immutable; equal to itself alone.

    What moves, counts and stores parts knows no more of them than this.
    """

    @property
    def codec(self) -> str:
        """The name of its codec."""

    @property
    def children(self) -> tuple[Any, ...]:
        """Columns (`Node`) that it consists of, instead of buffers; () of most parts."""

    @property
    def rows(self) -> int:
        """At least 1."""

    @property
    def null_count(self) -> int:
        """0 of values, whose nulls are a bitmap beside them."""

    @property
    def table(self) -> Table | None:
        """What the part shares with others; None of values."""

    @property
    def values_nbytes(self) -> int:
        """Bytes of what was compressed: of values, or characters."""

    @property
    def meta_nbytes(self) -> int:
        """Bytes of ``meta``."""

    @property
    def codes_nbytes(self) -> int:
        """Bytes of ``codes``."""

    @property
    def nbytes(self) -> int:
        """Bytes of the two buffers. The table is not counted: parts share it."""

    @property
    def leaves(self) -> Iterator[Leaf]:
        """The parts that have its buffers, in stored order: itself, or those of its children."""

    def with_leaves(self, parts: Iterator[Leaf]) -> Part:
        """A part of these rows with other buffers: its `leaves` are the next of `parts`."""

    def check_buffers(self) -> None:
        """Raise ValueError unless the buffers, on the host or on a GPU, have the sizes that are stated."""


class Leaf(Part, Protocol):
    """A part with buffers, of exactly the sizes that are stated.

    On the host they are `numpy.ndarray` of uint8, on a GPU `rmm.DeviceBuffer`.
    """

    @property
    def meta(self) -> Any:
        """What is stored beside the codes."""

    @property
    def codes(self) -> Any:
        """The codes."""


class Buffers:
    """The methods of a leaf that follow from its fields, for all classes of leaves."""

    children: ClassVar[tuple[Any, ...]] = ()

    @property
    def nbytes(self: Leaf) -> int:
        return self.meta_nbytes + self.codes_nbytes

    @property
    def leaves(self: Leaf) -> Iterator[Leaf]:
        yield self

    def with_leaves(self, parts: Iterator[Leaf]) -> Leaf:
        return next(parts)

    def check_buffers(self: Leaf) -> None:
        for name, buffer, nbytes in (("meta", self.meta, self.meta_nbytes), ("codes", self.codes, self.codes_nbytes)):
            if buffer.size != nbytes:
                raise ValueError(f"damaged segment: {name} has {buffer.size} bytes, not {nbytes}")


@dataclass(frozen=True, eq=False)
class Packed(Buffers):
    """Consecutive values of one width, compressed.

    The values are bits to a codec: rows times `itemsize` bytes. What lies under nulls is filled in before
    (``codecs/values``).

    Attributes
    ----------
    itemsize : int
        Bytes of a value, one of `ITEMSIZES`.
    parameters : tuple of int
        At most `PARAMETERS` numbers below 2^32, with which the codec wrote (docs/format.md says which).
    """

    codec: str
    rows: int
    itemsize: int
    parameters: tuple[int, ...]
    meta: Any = field(repr=False)
    codes: Any = field(repr=False)
    meta_nbytes: int
    codes_nbytes: int
    null_count: ClassVar[int] = 0
    table: ClassVar[None] = None

    @property
    def values_nbytes(self) -> int:
        """Bytes of the values."""
        return self.rows * self.itemsize


def edges_of(parts: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The first row of every part, and behind them how many rows there are."""
    return np.cumsum([0, *(part.rows for part in parts)], dtype=np.int64)
