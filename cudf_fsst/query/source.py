"""What questions want to know of a column."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..backend import Backend
from ..codecs.node import Content
from ..index import CompressedIndex

LOGGER = logging.getLogger("cudf_fsst.query")


class ColumnSource:
    """A compressed column: what this room uses of `CompressedColumn`, which says it of itself."""

    __slots__ = ()

    _backend: Backend
    _content: Content
    _index: CompressedIndex
    _name: Any
    _proxied: bool

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Dtype of the Series."""

    @property
    @abstractmethod
    def null_count(self) -> int:
        """Missing values, as Arrow counts them."""

    @property
    @abstractmethod
    def _is_text(self) -> bool:
        """Whether it holds strings, of a dtype of strings."""

    @abstractmethod
    def decompress(self) -> Any:
        """The Series, or a proxy of cudf.pandas around it."""

    @abstractmethod
    def _range(self, start: int, stop: int | None) -> Any:
        """Rows as a Series."""

    @abstractmethod
    def _unlabelled(self, start: int, stop: int | None) -> Any:
        """Rows as a Series that is labelled from 0."""

    @abstractmethod
    def _built(self, buffers: Sequence[Any], labels: Any) -> Any:
        """What was read of the column as a Series with an index."""

    @abstractmethod
    def _series_of(self, values: Any) -> Any:
        """What was read of the column as a Series that is labelled from 0."""

    @abstractmethod
    def _default_pieces(self) -> Sequence[tuple[int, int]]:
        """Row ranges of pieces that are decoded one after another; none without rows."""

    @abstractmethod
    def _out(self, data: Any) -> Any:
        """A proxy of cudf.pandas around data, if the column came from one."""
