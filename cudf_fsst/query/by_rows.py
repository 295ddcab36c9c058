"""Answers by an automaton that reads each row's codes; rows that it leaves undecided are decoded and asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import selection
from ..automata import NO, UNDECIDED
from . import codes
from .meaning import meaning_of
from .patterns import RowRequest
from .source import LOGGER, ColumnSource
from .text import has_python_strings, is_text


def answer(column: ColumnSource, name: str, asked: RowRequest | None) -> Any:
    """The answer as a Series without its proxy; None where the column is to be decoded.

    Parameters
    ----------
    column
    name
        What the log calls the call.
    asked
        None: nothing that an automaton answers.
    """
    # What the library makes of missing values alone can differ, and costs nothing.
    if asked is None or not column._is_text or column.null_count == len(column):
        return None
    if asked.by_content and asked.counts:
        return None
    meaning = meaning_of(column, asked.example, asked.key)
    if meaning is None:
        return None
    backend = column._backend
    if backend.device == "cpu" and has_python_strings(column.dtype) and not is_text(column):
        return None
    with backend.current():
        accepted = backend.accept(column._content.node, asked.machine)
        if accepted is None:
            return None
        found, some_undecided = accepted
        if asked.by_content and some_undecided:
            return None
        way = "codes"
        if asked.counts or some_undecided:
            verdicts = backend.as_array(found)
            wanted = verdicts != NO if asked.counts else verdicts == UNDECIDED
            if found.null_count:  # what was found of them means nothing
                wanted &= backend.as_bits(found).view(np.bool_)
            numbers = selection.mask_rows(wanted, len(column))
            if numbers.size > len(column) // codes.CANDIDATE_DIVISOR:
                return None
            if asked.counts:
                values = backend.arrays.zeros(len(column), np.int32)
                found = backend.with_values(found, values)
            else:
                verdicts &= 1
                values = verdicts.view(np.bool_)
            if numbers.size:
                way = f"codes, {numbers.size} candidates"
                codes.ask_rows(column, asked.check, numbers, values)
        if asked.warns and backend.device == "cpu":
            asked.check(column._unlabelled(0, 0))
        if backend.device == "cpu" and not asked.counts:
            found.values = found.values.view(np.bool_)
        index = column._index.shared(backend)
        LOGGER.debug("%s: %s", name, way)
        return backend.interop.answers(found, *meaning, column._name, index)
