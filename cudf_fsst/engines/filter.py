"""Which rows an engine's filter may keep, by the codes alone.

A filter is true, false or null for a row. For a predicate in it the codes tell which rows *may* have it true, and which
may have it false. Both may be too many, never too few, so that NOT, AND and OR of predicates need no more than that. A
predicate that is not known may be both for every row.
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
from .predicates import IsNull, Junction, Not, Predicate, RangePredicate, TextPredicate, limits_of

#: Rows that may be meant, a boolean each, where the columns are; None: any may be.
Mask = Any


class Filter:
    """Masks of the rows of columns that an engine's filter may keep.

    Parameters
    ----------
    backend : Backend
        Of the columns.
    nodes : sequence of Node
        The columns.
    """

    def __init__(self, backend: Backend, nodes: Sequence[Node]) -> None:
        self._backend, self._nodes = backend, nodes

    def rows(self, predicates: Sequence[tuple[str, Predicate | None]]) -> Mask:
        """Rows for which none of some predicates is false or null; a record of the log says which were answered.

        Parameters
        ----------
        predicates : sequence of (str, Predicate or None)
            With what the log calls them.
        """
        kept: Mask = None
        for name, predicate in predicates:
            mask = None if predicate is None else self._may(predicate, True)
            LOGGER.debug("filter %s: %s", name, "by the engine" if mask is None else "codes")
            kept = _and(kept, mask)
        return kept

    def _may(self, predicate: Predicate, value: bool) -> Mask:
        """Rows for which a predicate may have a value: true, or false."""
        if isinstance(predicate, Not):
            return self._may(predicate.predicate, not value)
        if isinstance(predicate, Junction):
            all_needed = predicate.either != value  # all have to be so, else one is enough
            rows: Mask = None
            for number, inner in enumerate(predicate.predicates):
                mask = None if inner is None else self._may(inner, value)
                if all_needed:
                    rows = _and(rows, mask)
                elif mask is None:
                    return None
                else:
                    rows = mask if number == 0 else rows | mask
            return rows
        node = self._nodes[predicate.column]
        if isinstance(predicate, IsNull):
            return self._valid(node, not value)
        if isinstance(predicate, TextPredicate):
            rows = self._text(node, predicate, value)
        else:
            rows = self._range(node, predicate, value)
        return rows if rows is None or not node.null_count else rows & self._valid(node, True)

    def _valid(self, node: Node, value: bool) -> Mask:
        """Which rows are valid, or, with `value` False, null."""
        backend = self._backend
        if not node.null_count:
            return backend.arrays.full(node.rows, value, np.bool_)
        if node.null_count == node.rows:
            return backend.arrays.full(node.rows, not value, np.bool_)
        valid = backend.as_bits(backend.validity(node)).view(np.bool_)
        return valid if value else ~valid

    def _booleans(self, column: ColumnBuffers) -> Mask:
        return self._backend.as_array(column).view(np.bool_)

    def _text(self, node: Node, predicate: TextPredicate, value: bool) -> Mask:
        rows: Mask = None
        for question in predicate.questions:
            plan = search.plan(question)
            answered = None if plan is None else self._backend.match(node, plan)
            if answered is None:
                return None
            answers, exact = answered
            if not (exact or value):
                return None
            if predicate.length is None:
                mask = self._booleans(answers)
            else:
                numbers = self._backend.as_array(answers).view(np.int32)
                mask = (numbers >= predicate.length[0]) & (numbers <= predicate.length[1])
            rows = mask if rows is None else rows | mask
        return rows if value else ~rows

    def _range(self, node: Node, predicate: RangePredicate, value: bool) -> Mask:
        limits = limits_of(node)
        if limits is None:
            return None
        least, largest = predicate.integers(most=value)
        low = limits[0] if least is None else max(limits[0], least)
        high = limits[1] if largest is None else min(limits[1], largest)
        span = Span(low, high, not value) if low <= high else Span(1, 0, not value)
        if len(node.values) == 1:
            return self._compared(node, span)
        return self._wide(node, span)

    def _compared(self, node: Node, span: Span) -> Mask:
        answers = self._backend.compare(node, span)
        return None if answers is None else self._booleans(answers)

    def _wide(self, node: Node, span: Span) -> Mask:
        """Numbers of 16 bytes, whose low halves have no sign."""
        halves = [
            Node(kind, node.rows, 0, values=(parts,))
            for kind, parts in zip((pa.uint64(), pa.int64()), node.values, strict=True)
        ]
        if span.low > span.high:
            return self._backend.arrays.full(node.rows, span.outside, np.bool_)
        (top, low), (end, high) = divmod(span.low, 1 << 64), divmod(span.high, 1 << 64)
        largest = (1 << 64) - 1
        # Between both ends' high halves the low one may be any.
        pieces = [((top, top), (low, high))] if top == end else [((top, top), (low, largest)), ((end, end), (0, high))]
        if end > top + 1:
            pieces.append(((top + 1, end - 1), (0, largest)))
        rows: Mask = None
        for high_span, low_span in pieces:
            mask = self._compared(halves[1], Span(*high_span))
            if mask is not None and low_span != (0, largest):
                low_mask = self._compared(halves[0], Span(*low_span))
                mask = None if low_mask is None else mask & low_mask
            if mask is None:
                return None
            rows = mask if rows is None else rows | mask
        return ~rows if span.outside else rows


def _and(left: Mask, right: Mask) -> Mask:
    if left is None or right is None:
        return right if left is None else left
    return left & right
