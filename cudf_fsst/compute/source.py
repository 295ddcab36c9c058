"""What the methods of this room need of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..backend import Backend
from ..codecs.node import Content
from ..index import CompressedIndex


class FrameSource(Protocol):
    """A compressed frame."""

    _backend: Backend
    _columns: tuple[Content, ...]
    _labels: Any
    _index: CompressedIndex
    _proxied: bool

    def __len__(self) -> int: ...

    def __contains__(self, label: object) -> bool: ...

    def _columns_at(self, places: Sequence[int]) -> Any:
        """A frame of some columns."""

    @property
    def columns(self) -> Any:
        """Labels of the columns."""

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the columns and the index in Arrow."""

    def _range(self, start: int, stop: int | None) -> Any:
        """Rows one after another, as a DataFrame."""

    def decompress(self) -> Any:
        """The DataFrame."""
