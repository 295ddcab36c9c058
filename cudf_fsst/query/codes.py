"""Answers from codes: the codec searches them, and what it finds becomes a Series."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .. import selection
from ..buffers import ColumnBuffers
from ..codecs.text import search
from .asked import Request
from .meaning import meaning_of
from .source import LOGGER, ColumnSource
from .text import bytes_named, is_text, must_be_text

#: Candidates that are looked at by themselves: at most this part of the rows. Of more, decoding all costs less.
CANDIDATE_DIVISOR = 8


def answer(column: ColumnSource, name: str, request: Request | None) -> Any:
    """The answer as a Series without its proxy; None where the column is to be decoded.

    Parameters
    ----------
    column
    name
        What the log calls the call.
    request
        None: nothing that the codec knows.
    """
    rows = len(column)
    # What the library makes of missing values alone can differ, and costs nothing.
    if request is None or not column._is_text or column.null_count == rows:
        return None
    plans = [search.plan(question) for question in request.questions]
    if any(plan is None for plan in plans):
        return None
    meaning = meaning_of(column, request.example, request.key)
    if meaning is None:
        return None
    if any(must_be_text(column, question) for question in request.questions) and not is_text(column):
        return None
    backend, node = column._backend, column._content.node
    with backend.current():
        answers: ColumnBuffers | None = None
        exact = request.exact
        for plan in plans:
            assert plan is not None
            matched = backend.match(node, plan)
            if matched is None:
                return None
            more, is_answer = matched
            exact = exact and is_answer
            if answers is None:
                answers = more
            else:
                values = _booleans(column, answers)
                values |= _booleans(column, more)
        assert answers is not None
        how = "codes"
        if not exact:
            candidates = _check(column, request, answers)
            if candidates is None:
                return None
            how = f"codes, {candidates} candidates"
        if request.negated:
            values = _booleans(column, answers)
            backend.arrays.logical_not(values, out=values)
        index = column._index.shared(backend)
        LOGGER.debug("%s: %s", name, how)
        return backend.interop.answers(answers, *meaning, column._name, index)


def _booleans(column: ColumnSource, answers: ColumnBuffers) -> Any:
    return column._backend.as_array(answers).view(np.bool_)


def _check(column: ColumnSource, request: Request, candidates: ColumnBuffers) -> int | None:
    """Have the library check the candidates, and keep those that match; returns how many they were, None: too many."""
    backend, rows = column._backend, len(column)
    values = _booleans(column, candidates)
    if candidates.null_count:  # answers about null rows mean nothing
        values &= backend.as_bits(candidates).view(np.bool_)
    numbers = selection.mask_rows(values, rows)
    if numbers.size > rows // CANDIDATE_DIVISOR:
        return None
    ask_rows(column, request.check, numbers, values)
    return int(numbers.size)


@bytes_named
def ask_rows(column: ColumnSource, check: Callable[[Any], Any], numbers: Any, values: Any) -> None:
    """Take rows, have the library check them, and write its answers among the booleans of all rows.

    Parameters
    ----------
    column
    check
        The call, of a Series.
    numbers : array of int64
        The rows, in order.
    values : array of bool, (rows,)
    """
    backend = column._backend
    # Few rows may be most of the bytes: so many are taken together as would be decoded together.
    pieces = column._default_pieces() if numbers.size else ()
    ends = backend.arrays.searchsorted(numbers, backend.arrays.asarray([stop for _, stop in pieces])).tolist()
    for begin, end in pairwise([0, *ends]):
        if begin < end:
            part = numbers[begin:end]
            (buffers,) = backend.take([column._content.node], part)
            counts = check(column._series_of(buffers))
            values[part] = backend.interop.row_values(counts)
