"""What users ask of strings, as questions that the codec knows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like, Question
from ..interop.like import ANY, ONE, tokens_of

#: Values of `isin` that are looked at.
MOST_VALUES = 1000
#: Values of a tuple of beginnings or ends that are searched, one after another.
_MOST_ENDS = 8
#: What a regular expression does not take for itself. NUL is none of them, but cuDF's own expressions end there.
_SPECIAL = frozenset(".^$*+?{}[]\\|()\0")


class Request(NamedTuple):
    """A call that the codec may answer.

    Attributes
    ----------
    questions : tuple of Question
        A row counts if one of them says so.
    example : callable
        A call, of a Series, whose result has the same dtype and missing values.
    key : hashable
        What these depend on.
    check : callable
        The call itself, of a Series, with booleans: says which of the candidates count.
    exact : bool
        False: rows found are candidates.
    negated : bool
        Rows found are those that do not count.
    """

    questions: tuple[Question, ...]
    example: Callable[[Any], Any]
    key: Hashable
    check: Callable[[Any], Any]
    exact: bool = True
    negated: bool = False


def encoded(value: Any) -> bytes | None:
    """A string as the column has it; None for what is no string, or none that UTF-8 has."""
    if type(value) not in (str, np.str_):
        return None
    try:
        return value.encode()
    except UnicodeEncodeError:
        return None


def literal(value: Any) -> bytes | None:
    """A string of at least a byte that means itself as a regular expression, too."""
    text = encoded(value)
    return text if text and _SPECIAL.isdisjoint(value) else None


#: Arguments of methods as both libraries have them, in order. A call with others is decoded, and the library looks at
#: them.
PARAMETERS = {
    "contains": ("pat", "case", "flags", "na", "regex"),
    "match": ("pat", "case", "flags", "na"),
    "fullmatch": ("pat", "case", "flags", "na"),
    "startswith": ("pat", "na"),
    "endswith": ("pat", "na"),
    "count": ("pat", "flags"),
    "find": ("sub", "start", "end"),
    "len": (),
    "like": ("pat", "esc"),
    "byte_count": (),
}


def of_method(name: str, call: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Request | None:
    """The request of a method of strings; None: it wants more than a search of literals.

    Parameters
    ----------
    name : str
    call : callable
        The library's method, which takes a Series and the arguments.
    args, options
        The arguments.
    """
    cacheable = type(args[0]) is str and len(args[0]) <= _CACHED_LENGTH if args else not options
    try:
        parsed = (_cached_literal if cacheable else _literal)(name, len(args), *args, *options, *options.values())
    except TypeError:  # an argument that has no hash
        parsed = _literal(name, len(args), *args, *options, *options.values())
    if parsed is None:
        return None
    questions, exact, example, key = parsed
    arguments = {**dict(zip(PARAMETERS[name], args, strict=False)), **options}
    arguments.pop("na", None)  # candidates are not missing
    return Request(
        questions, lambda series: call(series, **example), key, lambda series: call(series, **arguments), exact
    )


#: Characters of the longest pattern whose questions are cached.
_CACHED_LENGTH = 100


def _literal(name: str, count: int, *flat: Any) -> tuple[tuple[Question, ...], bool, dict[str, Any], Hashable] | None:
    """Questions of a method of strings, whether they are the whole answer, arguments of an example, and a key of these.

    `flat`: `count` arguments, then the names of options, then their values.
    """
    args, option_items = flat[:count], flat[count:]
    options = dict(zip(option_items[: len(option_items) // 2], option_items[len(option_items) // 2 :], strict=True))
    names = PARAMETERS.get(name)
    if names is None or len(args) > len(names) or not set(options) <= set(names[len(args) :]):
        return None
    arguments = {**dict(zip(names, args, strict=False)), **options}
    if (names and not _is_str(arguments.get(names[0]))) or not _is_plain(arguments):
        return None
    questions, exact = _questions(name, arguments)
    if not questions:
        return None
    example = {**arguments, **({names[0]: "a"} if names else {})}
    if name == "contains" and arguments.keys() <= {"pat", "na", "regex"}:
        example["regex"] = False  # which makes no difference, but for 40 ms that cuDF's first expression takes
    key = name, *((key, type(value), repr(value)) for key, value in example.items())
    return tuple(questions), exact, example, key


#: As all arguments are arguments here, those of different types count as different.
_cached_literal = lru_cache(128, typed=True)(_literal)


def _is_str(pattern: Any) -> bool:
    """Whether a pattern is of Python's strings; what else there is, the library takes or refuses."""
    return all(type(text) is str for text in pattern) if type(pattern) is tuple else type(pattern) is str


def _is_plain(arguments: Mapping[str, Any]) -> bool:
    """Whether arguments ask for nothing but a search of the whole string, byte by byte."""
    return (
        arguments.get("case", True) is True
        and _is_zero(arguments.get("flags", 0))
        and _is_zero(arguments.get("start", 0))
        and arguments.get("end") is None
        and type(arguments.get("regex", True)) is bool
    )


def _is_zero(value: Any) -> bool:
    return type(value) is int and value == 0


def _questions(name: str, arguments: Mapping[str, Any]) -> tuple[list[Question], bool]:
    """Questions, one of which a row has to answer with yes, and whether that is all; none where it is more."""
    if name == "len":
        return [Length()], True
    if name == "byte_count":
        return [ByteCount()], True
    if name == "like":
        return _like(arguments["pat"], arguments.get("esc"))
    if name in ("startswith", "endswith"):
        return _ends(name, arguments["pat"]), True
    if name == "find":
        text = encoded(arguments["sub"])
        return [Find(text)] if text else [], True
    is_expression = name != "contains" or arguments.get("regex", True)
    text = literal(arguments["pat"]) if is_expression else encoded(arguments["pat"])
    if not text:
        return [], True
    parts = {"contains": (b"", text, b""), "match": (text, b""), "fullmatch": (text,)}
    return [Count(text) if name == "count" else Like(parts[name])], True


def _ends(name: str, pattern: Any) -> list[Question]:
    """The questions for a beginning or an end, or for a tuple of them; none where the codec cannot answer."""
    values = list(pattern) if type(pattern) is tuple else [pattern]
    texts = [encoded(value) for value in values]
    if not 0 < len(texts) <= _MOST_ENDS or not all(texts):
        return []
    return [Like((value, b"") if name == "startswith" else (b"", value)) for value in dict.fromkeys(texts) if value]


def _like(pattern: Any, escape: Any) -> tuple[list[Question], bool]:
    try:
        tokens = tokens_of(pattern, escape)
    except (TypeError, ValueError):
        return [], True
    # In cuDF NUL is the escape where none is given, and escapes of several bytes are those of one.
    if "\0" in pattern or not (escape or "").isascii():
        return [], True
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token is ANY or token is ONE:
            # At least one character: what is found without that is a candidate. Only "%" is between parts.
            parts.append([])
        else:
            parts[-1].append(token)
    texts = [encoded("".join(part)) for part in parts]
    if not all(part is not None for part in texts):
        return [], True
    inner = [part for part in texts[1:-1] if part]
    pieces = (texts[0] or b"", *inner, texts[-1] or b"") if len(texts) > 1 else (texts[0] or b"",)
    ones = tokens.count(ONE)
    return [Like(pieces, ones)], ones == 0


def of_value(value: Any, *, negated: bool, compare: Callable[[Any, Any], Any]) -> Request | None:
    """The request of ``==`` or ``!=`` with a string."""
    text = encoded(value)
    if text is None or text.endswith(b"\0"):  # which NumPy drops
        return None
    return Request(
        (Like((text,)),),
        lambda series: compare(series, "a"),
        ("!=" if negated else "==",),
        lambda series: series == value,
        negated=negated,
    )


def of_values(values: Sequence[Any], argument: Any) -> Request | None:
    """The request of ``isin``. `values`: strings, and missing values; `argument`: the argument that has them."""
    texts = [encoded(value) for value in values]
    missing = [value for value, text in zip(values, texts, strict=True) if text is None]
    if len(missing) == len(texts) or not all(_is_missing(value) for value in missing):
        return None
    example = ["a", *missing[:1]]
    distinct = {(type(value), repr(value)) for value in missing}
    if len(distinct) > 1:
        return None
    return Request(
        (IsIn(tuple(value for value in texts if value is not None)),),
        lambda series: series.isin(example),
        ("isin", *distinct),
        lambda series: series.isin(argument),
    )


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (type(value) is float and value != value)
