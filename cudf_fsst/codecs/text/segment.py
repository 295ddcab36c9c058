"""A segment of a column of text: rows stored whole in two buffers (docs/format.md, sections 1-4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import Table
from .layout import SegmentLayout


@dataclass(frozen=True, eq=False)
class Segment:
    """One segment, in host or GPU memory. Immutable: columns share segments. Equal to itself alone.

    Attributes
    ----------
    layout : SegmentLayout
    null_count : int
    table : Table
        Of the codec that made it.
    meta, codes
        On the host `numpy.ndarray` of uint8, on the GPU `rmm.DeviceBuffer`; exactly ``layout.meta_nbytes`` and
        ``codes_nbytes`` bytes.
    codes_nbytes : int
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
        return self.layout.chars

    @property
    def nbytes(self) -> int:
        """Bytes of the two buffers (the table, which segments share, is not counted)."""
        return self.layout.meta_nbytes + self.codes_nbytes

    def check_buffers(self) -> None:
        """Raise ValueError unless the buffers, on the host or on a GPU, have the sizes that are stated."""
        if self.meta.size != self.layout.meta_nbytes or self.codes.size != self.codes_nbytes:
            raise ValueError(
                f"a segment has {self.meta.size} + {self.codes.size} bytes, "
                f"needs {self.layout.meta_nbytes} + {self.codes_nbytes}"
            )

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
    #: Bytes of the longest row; None: nobody has looked.
    longest: int | None = None
    #: Of the few short values of a dictionary, a `cudf_fsst.codecs.dict.few.Few`.
    few: Any = None

    @property
    def original(self) -> Segments:
        """These, or those that they are a copy of: where `longest` and `few` are kept."""
        return self if self.source is None else self.source

    def __reduce__(self) -> tuple[Any, ...]:
        return Segments, (tuple(self),)
