"""What is asked of groups, and the shape of the answer: what a call can be known by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import pieces


class AnswerShape(NamedTuple):
    """Shape, labels and dtypes of an answer.

    Attributes
    ----------
    ndim : int
    columns : Index or None
    dtypes : list
        Dtypes.
    name : label
        Of a Series.
    """

    ndim: int
    columns: Any
    dtypes: list[Any]
    name: Any


#: Of calls on a GPU, by the dtypes of the columns and what was asked.
KNOWN: dict[Any, AnswerShape] = {}
_MOST_KNOWN = 256


def keep(key: Any, shape: AnswerShape) -> None:
    """Note a shape that need not be asked for again."""
    if len(KNOWN) >= _MOST_KNOWN:
        KNOWN.clear()
    KNOWN[key] = shape


def frozen(spec: Any) -> Any:
    """A hashable key of names, and of lists and dicts of them; those of 1 and True differ."""
    if isinstance(spec, Mapping):
        return tuple((frozen(label), frozen(value)) for label, value in spec.items())
    return tuple(map(frozen, spec)) if isinstance(spec, (list, tuple)) else (type(spec), spec)


def aggregate_spec(method: str, args: Any, options: Mapping[str, Any]) -> Any:
    """The names of the aggregates of a call: one, a list, or a dict by label; None where some are no such names.

    A user's functions may see labels and values of any kind.
    """
    if method != "agg":
        return method
    if len(args) + bool(options) != 1:
        return None
    spec = args[0] if args else options
    names = list(spec.values()) if isinstance(spec, Mapping) else [spec]
    if options:
        names = [entry[1] if isinstance(entry, tuple) and len(entry) == 2 else entry for entry in names]
    aggregate_names = [name for entry in names for name in (entry if isinstance(entry, list) else [entry])]
    return (
        spec
        if aggregate_names and all(isinstance(name, str) and name in pieces.NAMES for name in aggregate_names)
        else None
    )


def can_be_columns(shape: Any, keys: list[Any]) -> bool:
    """Whether an answer stands beside its keys by plain labels of its own."""
    return bool(shape.ndim == 1 or (shape.columns.nlevels == 1 and not any(key in shape.columns for key in keys)))
