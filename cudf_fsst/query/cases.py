"""Strings in another case: where all of a column is ASCII, its bytes are changed where they are decoded to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codecs.node import Node
from ..lazy import WeakCache
from .meaning import meaning_of
from .source import LOGGER, ColumnSource

#: Methods, and whether they make small letters large, and large ones small.
_METHODS = {"upper": (True, False), "lower": (False, True), "swapcase": (True, True)}
#: Columns that are known to be more than ASCII.
_beyond: WeakCache[Node, bool] = WeakCache()


def answer(column: ColumnSource, name: str, call: Callable[[Any], Any]) -> Any:
    """The Series without its proxy, which needs no memory besides; None where the library has to make it.

    Parameters
    ----------
    column
    name
        The method.
    call
        That method, as a function of a Series.
    """
    changes, node, backend = _METHODS.get(name), column._content.node, column._backend
    if changes is None or not column._is_text or column.null_count == len(column) or _beyond.get(node):
        return None
    if backend.device == "cpu" and node.all_coded:  # whose rows share what is made of their values
        return None
    # The library may make another dtype of it, or another missing value.
    there, as_it_is = meaning_of(column, call, name), meaning_of(column, lambda series: series, None)
    if there is None or repr(there) != repr(as_it_is):
        return None
    small, large = changes
    with backend.current():
        found, all_ascii = backend.in_other_case(node, small=small, large=large)

        def made() -> Any:
            return column._built([found], column._index.shared(backend))

        try:
            series = None if backend.device == "cpu" else made()  # while the GPU is at work
        finally:
            ascii_alone = all_ascii()
        if not ascii_alone:
            _beyond.put(node, True)
            return None
        LOGGER.debug("%s: decoded, all of it ASCII", name)
        return made() if series is None else series
