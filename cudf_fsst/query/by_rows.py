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


def answer(column: ColumnSource, name: str, request: RowRequest | None) -> Any:
    """See `codes.answer`; a `request` of None: nothing that an automaton answers."""
    # What the library makes of missing values alone can differ, and costs nothing.
    if request is None or not column._is_text or column.null_count == len(column):
        return None
    if request.by_content and request.counts:
        return None
    meaning = meaning_of(column, request.example, request.key)
    if meaning is None:
        return None
    backend = column._backend
    if backend.device == "cpu" and has_python_strings(column.dtype) and not is_text(column):
        return None
    with backend.current():
        accepted = backend.accept(column._content.node, request.machine)
        if accepted is None:
            return None
        answers, some_undecided = accepted
        if request.by_content and some_undecided:
            return None
        how = "codes"
        if request.counts or some_undecided:
            verdicts = backend.as_array(answers)
            to_check = verdicts != NO if request.counts else verdicts == UNDECIDED
            if answers.null_count:  # answers about null rows mean nothing
                to_check &= backend.as_bits(answers).view(np.bool_)
            numbers = selection.mask_rows(to_check, len(column))
            if numbers.size > len(column) // codes.CANDIDATE_DIVISOR:
                return None
            if request.counts:
                values = backend.arrays.zeros(len(column), np.int32)
                answers = backend.with_values(answers, values)
            else:
                verdicts &= 1
                values = verdicts.view(np.bool_)
            if numbers.size:
                how = f"codes, {numbers.size} candidates"
                codes.ask_rows(column, request.check, numbers, values)
        if request.warns and backend.device == "cpu":
            request.check(column._unlabelled(0, 0))
        if backend.device == "cpu" and not request.counts:
            answers.values = answers.values.view(np.bool_)
        index = column._index.shared(backend)
        LOGGER.debug("%s: %s", name, how)
        return backend.interop.answers(answers, *meaning, column._name, index)
