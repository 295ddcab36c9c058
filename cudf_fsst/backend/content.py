"""What goes into a backend to be compressed, and what comes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ..codecs.node import Content
from ..codecs.part import Leaf
from ..naming import What, named


class SeriesTask(NamedTuple):
    """A Series or a level of an index to compress, as the library has it; `ColumnTask` is what codecs get of it.

    Attributes
    ----------
    data : Series or Index
    codec : str or None
        What the user wants; None: the best on a sample.
    strings : mapping
        Options of strings: ``table``, ``tile_size``, ``level``.
    what : str, callable or None
        What errors call it (`naming`).
    lenient : bool
        Strings of an object Series may be of subclasses; they come back as plain ones.
    """

    data: Any
    codec: str | None = None
    strings: Mapping[str, Any] = MappingProxyType({})
    what: What = None
    lenient: bool = False


_log = logging.getLogger("cudf_fsst.codecs")


def log_compressed(tasks: Sequence[SeriesTask], contents: Sequence[Content]) -> None:
    """Log codecs and sizes of columns that were compressed."""
    if not _log.isEnabledFor(logging.DEBUG):
        return
    for task, content in zip(tasks, contents, strict=True):
        node, text = content.node, "%s of type %s: codec %s%s, %s B in Arrow as %s B"
        sizes = f"{node.uncompressed_nbytes:,}", f"{node.nbytes:,}"
        _log.debug(text, named(task.what), content.type, node.codec, ", as asked" if task.codec else "", *sizes)


#: What says an index' kind, names and dtypes, and its compressed levels (none of a RangeIndex).
Described = tuple[dict[str, Any], list[Content]]


def move(contents: Sequence[Content], mover: Callable[[Sequence[Leaf]], Sequence[Leaf]]) -> list[Content]:
    """Contents whose parts lie elsewhere; `mover` moves all parts at once."""
    moved = iter(mover([part for content in contents for part in content.node.parts]))
    return [replace(content, node=content.node.with_parts(moved)) for content in contents]
