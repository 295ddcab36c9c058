"""A column on its way to be compressed: one record, in host memory and on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..buffers import ColumnBuffers
from ..naming import What
from .contract import TextCodec
from .dict import plan
from .registry import DICTIONARIES, is_text
from .text.choose import codecs_of


class ColumnTask(NamedTuple):
    """A column to compress: buffers, codec, options, and its name in the log.

    Attributes
    ----------
    column : ColumnBuffers
    codec : str or None
        What the user wants for the leaves (of categoricals for the codes); None: the best on a sample.
    options : mapping
        Of strings: ``table``, ``tile_size``, ``level``.
    what : str, callable or None
        What the log calls it.
    """

    column: ColumnBuffers
    codec: str | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    what: What = None

    @property
    def strings(self) -> Any:
        """The buffers of a column of strings."""
        return self.column.strings

    @property
    def texts(self) -> tuple[TextCodec, ...]:
        """The codecs of text of which each scope of strings without a dictionary gets the smallest."""
        return codecs_of(self.codec, self.options.get("table"), self.options.get("level", "default"))

    @property
    def may_have(self) -> bool:
        """Whether a scope of strings may have a dictionary."""
        plain = self.options.get("table") is not None or is_text(self.codec)
        return not plain and plan.eligible(self.strings.rows, named=self.named)

    @property
    def named(self) -> bool:
        """Whether the user wants dictionaries."""
        return self.codec == DICTIONARIES.NAME
