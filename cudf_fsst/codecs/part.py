"""Parts: what every codec makes, two buffers that lie in host memory or on a GPU with the same bytes.

A part has one life on the host, where ``meta`` and ``codes`` are arrays, and one on a GPU, where they are
`rmm.DeviceBuffer`; moving it is two copies. Codecs of fixed-width values make `Packed`, codecs of text `Segment`. A
part with a dictionary (`DictPart`) has no buffers of its own, but two columns as children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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


class Part:
    """Consecutive rows, compressed by one codec; in host or GPU memory. Immutable; equal to itself alone.

    What moves, counts and stores parts knows no more of them than this.

    Attributes
    ----------
    codec : str
    children : tuple of Node
        Columns that it consists of, instead of buffers; () of most parts.
    rows : int
        At least 1.
    null_count : int
        0 of values, whose nulls are a bitmap beside them.
    table
        A `table.Table` that the part shares with others; None of values.
    values_nbytes : int
        Bytes of what was compressed: of values, or characters.
    meta, codes
        On the host `numpy.ndarray` of uint8, on the GPU `rmm.DeviceBuffer`; of exactly the sizes that follow.
    meta_nbytes, codes_nbytes : int
    """

    codec: str
    children: tuple[Any, ...] = ()
    rows: int
    null_count: int
    table: Table | None
    values_nbytes: int
    meta: Any
    codes: Any
    meta_nbytes: int
    codes_nbytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the two buffers. The table is not counted: parts share it."""
        return self.meta_nbytes + self.codes_nbytes

    @property
    def leaves(self) -> Iterator[Part]:
        """The parts that have its buffers, in stored order: itself, or those of its children."""
        yield self

    def with_leaves(self, parts: Iterator[Part]) -> Part:
        """A part of these rows with other buffers: its `leaves` are the next of `parts`."""
        return next(parts)

    def check_buffers(self) -> None:
        """Raise ValueError unless the buffers, on the host or on a GPU, have the sizes that are stated."""
        for name in ("meta", "codes"):
            found, stated = getattr(self, name).size, getattr(self, f"{name}_nbytes")
            if found != stated:
                raise ValueError(f"damaged segment: {name} has {found} bytes, not {stated}")


@dataclass(frozen=True, eq=False)
class Packed(Part):
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
    # What all parts have is a fact of the class here, and no field, which mypy does not let a subclass say.
    null_count: ClassVar[int] = 0  # type: ignore[misc]  # a fact of the class
    table: ClassVar[None] = None  # type: ignore[misc]  # a fact of the class

    @property
    def values_nbytes(self) -> int:  # type: ignore[override]  # read alone, as in all parts
        """Bytes of the values."""
        return self.rows * self.itemsize


def edges_of(parts: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The first row of every part, and behind them how many rows there are."""
    return np.cumsum([0, *(part.rows for part in parts)], dtype=np.int64)
