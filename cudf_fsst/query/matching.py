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
#: Rows that may match, of all, up to which they are taken by themselves: one in so many.
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
    found, _ = accepted
    wanted = backend.as_array(found).view(np.uint8) != automata.NO
    if found.null_count:  # what was found of them means nothing
        wanted &= backend.as_bits(found).view(np.bool_)
    numbers = selection.mask_rows(wanted, rows)
    if not 0 < numbers.size <= rows // _FEW:
        return None
    if name == "findall":
        meaning = meaning_of(column, lambda some: call(some, *args, **options), (name, *map(repr, (args, options))))
        if meaning is None or meaning.dtype != object:
            return None
        missing = meaning.missing
    # Rows of a piece at a time, so that what is taken of them is bounded. Pieces without such a row are not asked.
    stops = np.array([stop for _, stop in column._default_pieces()][:-1], np.int64)
    parts = [part for part in np.split(numbers, np.searchsorted(numbers, stops)) if part.size]
    if name == "extract":
        # One of the other rows shows what all of them become, and one that is null.
        present = backend.as_bits(found).view(np.bool_) if found.null_count else np.ones(rows, np.bool_)
        others, nulls = np.flatnonzero(present & ~wanted)[:1], np.flatnonzero(~present)[:1]
        places = np.full(rows, numbers.size)
        places[numbers] = np.arange(numbers.size)
        places[~present] = numbers.size + others.size
        parts[-1] = np.concatenate([parts[-1], others, nulls])

    def asked(part: npt.NDArray[np.int64]) -> Any:
        (taken,) = backend.take([column._content.node], part)
        return call(column._series_of(taken), *args, **options)

    if name == "extract":
        answers = [asked(part) for part in parts]
        made = (answers[0] if len(answers) == 1 else pd.concat(answers, ignore_index=True)).iloc[places]
    elif name == "replace":
        made = column._unlabelled(0, None)
        for part in parts:
            replaced = asked(part)
            if made.dtype != replaced.dtype:
                return None
            made.iloc[part] = replaced.array
    else:
        lists = np.fromiter(map(list, repeat((), rows)), object, rows)
        for part in parts:
            lists[part] = asked(part).to_numpy(object)
        if found.null_count:
            lists[~backend.as_bits(found).view(np.bool_)] = missing
        made = pd.Series(lists)
    LOGGER.debug("%s: codes, %d rows that may match", name, numbers.size)
    made.index = column._index.shared(backend)
    if isinstance(made, pd.Series) and name != "extract":
        made.name = column._name
    return made


def _machine(
    column: ColumnSource, name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> automata.RowAutomaton | None:
    """What says whether a row may match; None: nothing is known to, or the call is another one."""
    names = _PARAMETERS[name]
    if len(args) > len(names) or not {*options} <= {*names[len(args) :]}:
        return None
    python = has_python_strings(column.dtype)
    if (name == "replace" and not python) or (name == "findall" and isinstance(column.dtype, pd.ArrowDtype)):
        return None  # the type of Arrow's lists depends on what is in them
    if name == "extract" and python and not is_object(column.dtype):
        return None  # pandas makes arrays of such strings that it takes no rows of
    given = {**dict(zip(names, args, strict=False)), **options}
    pattern, flags, case = given.get("pat"), given.get("flags", 0), given.get("case")
    regex = given.get("regex", name != "replace")
    if any(map(callable, given.values())) or type(flags) is not int or case not in (None, True, False):
        return None
    if regex is not True:
        return None
    if isinstance(pattern, re.Pattern):
        if flags or case is not None:
            return None
        flags, pattern = pattern.flags & ~re.UNICODE, pattern.pattern
    if type(pattern) is not str or not pattern:
        return None
    how = flags | (re.IGNORECASE if case is False else 0)
    return automata.compile_pattern(pattern, int(how), "contains", automata.PYTHON if python else automata.EITHER)
