"""What users ask of each row, as automata of rows: regular expressions, order, many beginnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from .. import automata
from ..automata import Meaning, RowAutomaton
from ..interop.like import ANY, ONE, tokens_of
from .asked import PARAMETERS, encoded
from .source import ColumnSource
from .text import has_python_strings


class RowRequest(NamedTuple):
    """A call that an automaton of rows may answer.

    Attributes
    ----------
    machine : RowAutomaton
    example : callable
        A call, of a Series, whose result has the same dtype and missing values.
    key : hashable
        What these depend on.
    check : callable
        The call itself, of a Series, with booleans.
    warns : bool
        Whether the library warns of the call.
    counts : bool
        Answers are numbers, 0 of rows that do not count: of the others the library is asked.
    by_content : bool
        The library looks at all rows to choose how it answers, so no rows can be asked by themselves: pandas takes RE2
        or Python's `re`, as rows have newlines or characters beyond ASCII.
    """

    machine: RowAutomaton
    example: Callable[[Any], Any]
    key: Hashable
    check: Callable[[Any], Any]
    warns: bool = False
    counts: bool = False
    by_content: bool = False


#: Which part of a row a regular expression is to match, by method.
_EXPRESSIONS = ("contains", "match", "fullmatch", "count")
#: Flags of a compiled expression that one without any has.
_NO_FLAGS = re.UNICODE


def of_method(
    column: ColumnSource, name: str, call: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> RowRequest | None:
    """The request of a method of strings; None: no automaton is known to answer it.

    Parameters
    ----------
    column
    name : str
    call : callable
        The library's method, which takes a Series and the arguments.
    args, options
        The arguments.
    """
    names = PARAMETERS.get(name)
    if names is None or len(args) > len(names) or not set(options) <= set(names[len(args) :]):
        return None
    arguments = {**dict(zip(names, args, strict=False)), **options}
    pattern = arguments.get("pat")
    example: Any = "a"
    machine, warns, by_content = None, False, False
    if name in _EXPRESSIONS:
        by_content = arguments.get("regex", True) is True and _meaning(column, 0) is automata.EITHER
        machine = _expression(column, name, arguments)
        warns = name == "contains" and arguments.get("regex", True) is True and _has_groups(pattern)
        if isinstance(pattern, re.Pattern):
            example = re.compile("a", pattern.flags & ~_NO_FLAGS)
    elif name == "like":
        machine = _like(column, pattern, arguments.get("esc"))
    elif name in ("startswith", "endswith") and type(pattern) is tuple:
        machine, example = _edges(name, pattern), ("a",)
    if machine is None:
        return None
    example_arguments = {**arguments, names[0]: example}
    key = name, *((argument, type(value), repr(value)) for argument, value in example_arguments.items())
    checked_arguments = {
        argument: value for argument, value in arguments.items() if argument != "na"
    }  # candidates are not missing
    return RowRequest(
        machine,
        lambda series: call(series, **example_arguments),
        key,
        lambda series: call(series, **checked_arguments),
        warns,
        name == "count",
        by_content,
    )


def _expression(column: ColumnSource, name: str, arguments: Mapping[str, Any]) -> RowAutomaton | None:
    pattern, flags, case = arguments["pat"], arguments.get("flags", 0), arguments.get("case", True)
    regex = arguments.get("regex", True)
    if type(case) is not bool or type(regex) is not bool or not isinstance(flags, int) or isinstance(flags, bool):
        return None
    if not regex:
        if type(pattern) is not str or case or flags:
            return None
        return automata.compile_literal(pattern, _meaning(column, 0))
    if isinstance(pattern, re.Pattern):
        if not case and _meaning(column, 0) is automata.EITHER:
            return None  # where pandas takes `re`, which depends on all rows, that is an error
        flags |= pattern.flags & ~_NO_FLAGS
        pattern = pattern.pattern
    if type(pattern) is not str:
        return None
    meaning = _meaning(column, flags)
    if meaning.portable and name == "fullmatch" and (pattern.startswith("^") or pattern.endswith("$")):
        return None  # pandas takes these off, and what is left may be another pattern
    how = "contains" if name == "count" else name
    return automata.compile_pattern(pattern, int(flags) | (0 if case else re.IGNORECASE), how, meaning)


def _has_groups(pattern: Any) -> bool:
    try:
        return re.compile(pattern).groups > 0
    except (re.error, TypeError):  # what is no pattern
        return False


def _meaning(column: ColumnSource, flags: int) -> Meaning:
    """The meaning of patterns in the library of a column."""
    if column._backend.device != "cpu":
        return automata.CUDF
    if has_python_strings(column.dtype):
        return automata.PYTHON
    return automata.ARROW if isinstance(column.dtype, pd.ArrowDtype) and not flags else automata.EITHER


def _like(column: ColumnSource, pattern: Any, escape: Any) -> RowAutomaton | None:
    try:
        tokens = tokens_of(pattern, escape)
    except (TypeError, ValueError):
        return None
    if "\0" in pattern or not (escape or "").isascii() or encoded(pattern) is None:
        return None
    parts = tuple(None if token is ANY else "" if token is ONE else token for token in tokens)
    return automata.compile_like(parts, _meaning(column, 0))


def _edges(name: str, values: tuple[Any, ...]) -> RowAutomaton | None:
    """The automaton that finds one of several beginnings or ends; None where there is none."""
    texts = [encoded(value) for value in values]
    if not texts or None in texts:
        return None
    make = automata.starts_with if name == "startswith" else automata.ends_with
    try:
        return make(tuple(value for value in texts if value is not None))
    except automata.TooLarge:
        return None


def of_order(value: Any, sign: str, compare: Callable[[Any, Any], Any]) -> RowRequest | None:
    """The request of ``<``, ``<=``, ``>`` or ``>=``."""
    bound = _bound(value)
    if bound is None:
        return None
    equal = sign.endswith("=")
    bounds = (None, bound) if sign.startswith("<") else (bound, None)
    machine = automata.between(*bounds, with_left=equal, with_right=equal)
    return RowRequest(machine, lambda series: compare(series, "a"), (sign,), lambda series: compare(series, value))


_INCLUSIVE = {"both": (True, True), "left": (True, False), "right": (False, True), "neither": (False, False)}


def of_between(left: Any, right: Any, inclusive: Any) -> RowRequest | None:
    """The request of `between`, of two strings."""
    low, high = _bound(left), _bound(right)
    if low is None or high is None or type(inclusive) is not str or inclusive not in _INCLUSIVE:
        return None
    with_left, with_right = _INCLUSIVE[inclusive]
    return RowRequest(
        automata.between(low, high, with_left=with_left, with_right=with_right),
        lambda series: series.between("a", "b", inclusive=inclusive),
        ("between", inclusive),
        lambda series: series.between(left, right, inclusive=inclusive),
    )


def _bound(value: Any) -> bytes | None:
    text = encoded(value)
    return None if text is None or text.endswith(b"\0") else text  # which NumPy drops
