"""Which rows an engine's filter may keep, by the codes alone.

A filter is true, false or null for a row. For a part of it the codes tell which rows *may* have it true, and which may
have it false. Both may be too many, never too few, so that NOT, AND and OR of parts need no more than that. A part that
says nothing may be both for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..backend import Backend
from ..buffers import ColumnBuffers
from ..codecs.node import Node
from ..codecs.span import Span
from ..codecs.text import search
from ..query.source import LOGGER
from .parts import Both, IsNull, Not, Part, Range, Text, limits_of

#: Rows that may be meant, a boolean each, where the columns are; None: any may be.
Mask = Any


class Filter:
    """What may be kept of the rows of columns.

    Parameters
    ----------
    backend : Backend
        Of the columns.
    nodes : sequence of Node
        The columns.
    """

    def __init__(self, backend: Backend, nodes: Sequence[Node]) -> None:
        self._backend, self._nodes = backend, nodes

    def rows(self, parts: Sequence[tuple[str, Part | None]]) -> Mask:
        """Rows for which none of some parts is false or null; a record of the log says which were answered.

        Parameters
        ----------
        parts : sequence of (str, Part or None)
            With what the log calls them.
        """
        found: Mask = None
        for name, part in parts:
            mask = None if part is None else self._may(part, True)
            LOGGER.debug("filter %s: %s", name, "by the engine" if mask is None else "codes")
            found = _and(found, mask)
        return found

    def _may(self, part: Part, wanted: bool) -> Mask:
        """Rows for which a part may be true, or false."""
        if isinstance(part, Not):
            return self._may(part.part, not wanted)
        if isinstance(part, Both):
            every = part.either != wanted  # all have to be so, else one is enough
            found: Mask = None
            for number, one in enumerate(part.parts):
                mask = None if one is None else self._may(one, wanted)
                if every:
                    found = _and(found, mask)
                elif mask is None:
                    return None
                else:
                    found = mask if number == 0 else found | mask
            return found
        node = self._nodes[part.column]
        if isinstance(part, IsNull):
            return self._valid(node, not wanted)
        if isinstance(part, Text):
            found = self._text(node, part, wanted)
        else:
            found = self._range(node, part, wanted)
        return found if found is None or not node.null_count else found & self._valid(node, True)

    def _valid(self, node: Node, wanted: bool) -> Mask:
        """Rows that are not null, or that are."""
        backend = self._backend
        if not node.null_count:
            return backend.arrays.full(node.rows, wanted, np.bool_)
        if node.null_count == node.rows:
            return backend.arrays.full(node.rows, not wanted, np.bool_)
        valid = backend.as_bits(backend.validity(node)).view(np.bool_)
        return valid if wanted else ~valid

    def _booleans(self, found: ColumnBuffers) -> Mask:
        return self._backend.as_array(found).view(np.bool_)

    def _text(self, node: Node, part: Text, wanted: bool) -> Mask:
        found: Mask = None
        for question in part.questions:
            plan = search.plan(question)
            matched = None if plan is None else self._backend.match(node, plan)
            if matched is None:
                return None
            some, exact = matched
            if not (exact or wanted):
                return None
            if part.length is None:
                mask = self._booleans(some)
            else:
                numbers = self._backend.as_array(some).view(np.int32)
                mask = (numbers >= part.length[0]) & (numbers <= part.length[1])
            found = mask if found is None else found | mask
        return found if wanted else ~found

    def _range(self, node: Node, part: Range, wanted: bool) -> Mask:
        limits = limits_of(node)
        if limits is None:
            return None
        least, largest = part.integers(most=wanted)
        low = limits[0] if least is None else max(limits[0], least)
        high = limits[1] if largest is None else min(limits[1], largest)
        span = Span(low, high, not wanted) if low <= high else Span(1, 0, not wanted)
        if len(node.values) == 1:
            return self._compared(node, span)
        return self._wide(node, span)

    def _compared(self, node: Node, span: Span) -> Mask:
        found = self._backend.compare(node, span)
        return None if found is None else self._booleans(found)

    def _wide(self, node: Node, span: Span) -> Mask:
        """Numbers of 16 bytes, whose low halves have no sign."""
        halves = [
            Node(kind, node.rows, 0, values=(parts,))
            for kind, parts in zip((pa.uint64(), pa.int64()), node.values, strict=True)
        ]
        if span.low > span.high:
            return self._backend.arrays.full(node.rows, span.outside, np.bool_)
        (top, low), (end, high) = divmod(span.low, 1 << 64), divmod(span.high, 1 << 64)
        most = (1 << 64) - 1
        # Between both ends' high halves the low one may be any.
        pieces = [((top, top), (low, high))] if top == end else [((top, top), (low, most)), ((end, end), (0, high))]
        if end > top + 1:
            pieces.append(((top + 1, end - 1), (0, most)))
        found: Mask = None
        for above, below in pieces:
            mask = self._compared(halves[1], Span(*above))
            if mask is not None and below != (0, most):
                other = self._compared(halves[0], Span(*below))
                mask = None if other is None else mask & other
            if mask is None:
                return None
            found = mask if found is None else found | mask
        return ~found if span.outside else found


def _and(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return one & other
