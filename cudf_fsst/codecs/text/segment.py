"""A segment of a column of text: rows stored whole in two buffers (docs/format.md, sections 1-4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..part import Buffers
from ..table import Table
from .layout import SegmentLayout


@dataclass(frozen=True, eq=False)
class Segment(Buffers):
    """Consecutive rows of text, compressed. Columns share segments.

    Attributes
    ----------
    layout : SegmentLayout
    """

    layout: SegmentLayout
    null_count: int
    table: Table
    meta: Any = field(repr=False)
    codes: Any = field(repr=False)
    codes_nbytes: int

    @property
    def codec(self) -> str:
        """The name of the codec that made it, which its table says."""
        return self.table.codec

    @property
    def rows(self) -> int:
        return self.layout.rows

    @property
    def chars(self) -> int:
        """Bytes of its rows' strings."""
        return self.layout.chars

    values_nbytes = chars

    @property
    def meta_nbytes(self) -> int:
        return self.layout.meta_nbytes

    def section(self, name: str) -> npt.NDArray[Any]:
        """A section of ``meta`` as a numpy view (host segments only)."""
        place = self.layout.sections[name]
        view = self.meta[place.offset : place.offset + place.nbytes]
        return view.view(np.dtype(f"<u{place.itemsize}"))


class Segments(tuple[Segment, ...]):
    """Segments of a column. Immutable, but for what is kept here so as not to be found again by every call."""

    #: A `Reading` of cuda_reading.py.
    reading: Any = None
    #: Of a copy on a GPU that a call reads once: those in host memory, which keep what reading it needs.
    source: Segments | None = None
    #: Of those, a `Reading` of the first such copy.
    copied: Any = None
    #: Of each segment, whether bytes of its rows continue a character of UTF-8; None: nobody has looked.
    continued: tuple[bool, ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Segments, (tuple(self),)
