"""Calls that pandas answers in one of two ways, by the content of all rows, where it is shown some of them at a time.

For dtypes of strings that Arrow holds pandas takes RE2, or Python's `re` where rows have characters beyond ASCII or
newlines that make a difference for the pattern. So what it is shown, a piece or distinct values, gets *witnesses*: rows
with such characters, if the column has any, whose answers are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import automata
from .source import ColumnSource

#: Methods that look at all rows first.
_METHODS = frozenset(["contains", "match", "fullmatch", "count", "replace", "find"])
#: What rows may have, and a row that has it.
_CONTENTS = (r"[^\x00-\x7f]", "\u00e9"), (r"\n", "\n")


def witnesses(
    column: ColumnSource, name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[str], bool]:
    """Rows to be shown with others, and whether values of dictionaries can be shown instead of rows.

    Parameters
    ----------
    column
    name : str
        The method.
    args, options
        Its arguments.
    """
    if column._backend.device != "cpu" or column._proxied or not _looks(column, name, args, options):
        return [], True
    nodes = [column._content.node]
    if len(column._default_pieces()) < 2 and not nodes[0].coded:
        return [], True
    present = [_has(column, nodes, pattern) for pattern, _ in _CONTENTS]
    rows = [row for (_, row), there in zip(_CONTENTS, present, strict=True) if there]
    values = [part.values for part in nodes[0].segments if part.children]
    # No row need have what a value has.
    return rows, all(
        there or not _has(column, values, pattern) for (pattern, _), there in zip(_CONTENTS, present, strict=True)
    )


def with_witnesses(column: ColumnSource, ask: Callable[[Any], Any], rows: Sequence[str]) -> Callable[[Any], Any]:
    """A function that asks `ask` of a Series with some more rows, whose answers are dropped."""
    if not rows:
        return ask
    interop = column._backend.interop
    shown = interop.sample(rows, column.dtype, column._content.type, column._content.stored)
    return lambda series: ask(interop.concat_values([series, shown.rename(series.name)])).iloc[: -len(rows)]


def _looks(column: ColumnSource, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Whether pandas may look at all rows before it answers a call."""
    if not isinstance(column.dtype, pd.StringDtype) or column.dtype.storage != "pyarrow" or name not in _METHODS:
        return False
    pattern = args[0] if args else options.get("pat", options.get("sub"))
    if isinstance(pattern, re.Pattern):
        pattern = pattern.pattern
    if any(map(callable, (*args, *options.values()))):
        return False  # that is for `re` alone
    if name == "replace" and isinstance(pattern, dict):
        return True
    # Classes and edges of words, and the end, make a difference; with "find" characters do.
    return name == "find" or (isinstance(pattern, str) and ("\\" in pattern or "$" in pattern))


def _has(column: ColumnSource, nodes: Iterable[Any], pattern: str) -> bool:
    """Whether any row, or distinct value, has a match."""
    backend = column._backend
    machine = automata.compile_pattern(pattern, 0, "contains", automata.PYTHON)
    assert machine is not None
    for node in nodes:
        accepted = backend.accept(node, machine)
        assert accepted is not None
        found, _ = accepted
        yes = backend.as_array(found).view(np.uint8) == automata.YES
        if found.null_count:  # what was found of them means nothing
            yes &= backend.as_bits(found).view(np.bool_)
        if yes.any():
            return True
    return False
