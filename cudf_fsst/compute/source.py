"""What the methods of this room need of a frame."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from ..backend import Backend
from ..codecs.node import Content
from ..index import CompressedIndex
from ..rows import Rows

_F = TypeVar("_F", bound="FrameSource")


class FrameSource(Rows):
    """Rows of a frame: the base of what frames compute. `CompressedFrame` says all of this of itself."""

    __slots__ = ()

    _columns: tuple[Content, ...]
    _labels: Any

    @classmethod
    @abstractmethod
    def _make(
        cls: type[_F],
        backend: Backend,
        columns: Sequence[Content],
        labels: Any,
        index: CompressedIndex,
        proxied: bool = False,
    ) -> _F: ...

    @abstractmethod
    def _columns_at(self: _F, places: Sequence[int]) -> _F:
        """A frame of some columns."""

    @abstractmethod
    def _dtypes(self, *, categories: bool = True) -> list[Any]:
        """Dtype of each column; without `categories`, those of categories have none."""

    @abstractmethod
    def _categories(self, stream: Any, places: Sequence[int] | None = None) -> Any:
        """A DataFrame in which strings that have a dictionary are categories; `places`: of these columns alone."""

    @abstractmethod
    def __contains__(self, label: object) -> bool: ...

    @abstractmethod
    def __getitem__(self, key: Any) -> Any: ...

    @abstractmethod
    def column_at(self, place: int) -> Any:
        """A compressed column, by its place."""

    @abstractmethod
    def isna(self) -> Any:
        """Whether values are missing: a DataFrame of booleans."""

    @property
    @abstractmethod
    def columns(self) -> Any:
        """Labels of the columns."""

    @property
    @abstractmethod
    def dtypes(self) -> Any:
        """Dtype of each column."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of everything kept."""
