"""``replace``, ``extract`` and ``findall`` with a regular expression, on the host: for rows that match it.

An automaton says on the codes which rows may match. The library is asked about those. What it answers about others is
known: the row itself, what it answers about one of them, an empty list.

Two ways lost: ``split`` takes its time for the lists (TPC-H l_comment, 0.75 to 1.1 times decoding), and ``replace``
of Arrow's strings is RE2's, which replaces as fast as the automaton reads (0.8 times).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .. import automata, selection
from ..interop.pandas import is_object
from .meaning import meaning_of
from .source import LOGGER, ColumnSource
from .text import has_python_strings, is_text

#: Arguments that are positions, and those that are not, by method.
_PARAMETERS = {
    "replace": ("pat", "repl", "n", "case", "flags", "regex"),
    "extract": ("pat", "flags", "expand"),
    "findall": ("pat", "flags"),
}
#: Rows that may match are taken by themselves where they are at most one in so many of all rows.
_FEW = 2


def answer(
    column: ColumnSource, name: str, call: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """The answer without its proxy; None where the column is to be decoded.

    Parameters
    ----------
    column
    name : str
        The method.
    call : callable
        The library's method, which takes a Series and the arguments.
    args, options
        The arguments.
    """
    rows, backend = len(column), column._backend
    if name not in _PARAMETERS or backend.device != "cpu" or column._proxied or column.null_count == rows:
        return None
    if name != "extract" and column._content.node.all_coded:
        return None  # distinct values are asked
    machine = _machine(column, name, args, options)
    if machine is None or (has_python_strings(column.dtype) and not is_text(column)):
        return None
    accepted = backend.accept(column._content.node, machine)
    if accepted is None:
        return None
    verdicts, _ = accepted
    may_match = backend.as_array(verdicts).view(np.uint8) != automata.NO
    if verdicts.null_count:  # answers about null rows mean nothing
        may_match &= backend.as_bits(verdicts).view(np.bool_)
    numbers = selection.mask_rows(may_match, rows)
    if not 0 < numbers.size <= rows // _FEW:
        return None
    if name == "findall":
        meaning = meaning_of(column, lambda series: call(series, *args, **options), (name, *map(repr, (args, options))))
        if meaning is None or meaning.dtype != object:
            return None
        missing = meaning.missing
    # Rows of a piece at a time, so that what is taken of them is bounded. Pieces without such a row are not asked.
    stops = np.array([stop for _, stop in column._default_pieces()][:-1], np.int64)
    parts = [part for part in np.split(numbers, np.searchsorted(numbers, stops)) if part.size]
    if name == "extract":
        # One of the other rows shows what all of them become, and one that is null.
        present = backend.as_bits(verdicts).view(np.bool_) if verdicts.null_count else np.ones(rows, np.bool_)
        others, nulls = np.flatnonzero(present & ~may_match)[:1], np.flatnonzero(~present)[:1]
        places = np.full(rows, numbers.size)
        places[numbers] = np.arange(numbers.size)
        places[~present] = numbers.size + others.size
        parts[-1] = np.concatenate([parts[-1], others, nulls])

    def call_rows(part: npt.NDArray[np.int64]) -> Any:
        (buffers,) = backend.take([column._content.node], part)
        return call(column._series_of(buffers), *args, **options)

    if name == "extract":
        answers = [call_rows(part) for part in parts]
        result = (answers[0] if len(answers) == 1 else pd.concat(answers, ignore_index=True)).iloc[places]
    elif name == "replace":
        result = column._unlabelled(0, None)
        for part in parts:
            replaced = call_rows(part)
            if result.dtype != replaced.dtype:
                return None
            result.iloc[part] = replaced.array
    else:
        lists = np.fromiter(map(list, repeat((), rows)), object, rows)
        for part in parts:
            lists[part] = call_rows(part).to_numpy(object)
        if verdicts.null_count:
            lists[~backend.as_bits(verdicts).view(np.bool_)] = missing
        result = pd.Series(lists)
    LOGGER.debug("%s: codes, %d rows that may match", name, numbers.size)
    result.index = column._index.shared(backend)
    if isinstance(result, pd.Series) and name != "extract":
        result.name = column._name
    return result


def _machine(
    column: ColumnSource, name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> automata.RowAutomaton | None:
    """The automaton that tells which rows may match; None: there is none, or none for such arguments."""
    names = _PARAMETERS[name]
    if len(args) > len(names) or not {*options} <= {*names[len(args) :]}:
        return None
    python = has_python_strings(column.dtype)
    if (name == "replace" and not python) or (name == "findall" and isinstance(column.dtype, pd.ArrowDtype)):
        return None  # the type of Arrow's lists depends on what is in them
    if name == "extract" and python and not is_object(column.dtype):
        return None  # pandas makes arrays of such strings that it takes no rows of
    arguments = {**dict(zip(names, args, strict=False)), **options}
    pattern, flags, case = arguments.get("pat"), arguments.get("flags", 0), arguments.get("case")
    regex = arguments.get("regex", name != "replace")
    if any(map(callable, arguments.values())) or type(flags) is not int or case not in (None, True, False):
        return None
    if regex is not True:
        return None
    if isinstance(pattern, re.Pattern):
        if flags or case is not None:
            return None
        flags, pattern = pattern.flags & ~re.UNICODE, pattern.pattern
    if type(pattern) is not str or not pattern:
        return None
    all_flags = flags | (re.IGNORECASE if case is False else 0)
    return automata.compile_pattern(pattern, int(all_flags), "contains", automata.PYTHON if python else automata.EITHER)
