"""Whether a column's bytes are UTF-8, where the library would raise an error if they were not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd
import pyarrow as pa

from ..codecs.node import Node
from ..codecs.text import search
from ..interop.arrow import decoding, to_arrow
from ..interop.pandas import is_object
from ..lazy import WeakCache
from .source import ColumnSource

_P = ParamSpec("_P")
_T = TypeVar("_T")
#: Columns that were looked at.
_known: WeakCache[Node, bool] = WeakCache()


def has_python_strings(dtype: Any) -> bool:
    """Whether a Series of this dtype is made of Python's strings."""
    return is_object(dtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage == "python")


def made_of_text(node: Node, dtype: Any) -> None:
    """Note of a column that was compressed from a Series of pandas what needs no look at it any more."""
    if has_python_strings(dtype):
        _known.put(node, True)


def must_be_text(column: ColumnSource, question: search.Question) -> bool:
    """Whether the library raises an error on bytes that are not UTF-8: it makes Python's strings of them."""
    return column._backend.device == "cpu" and (has_python_strings(column.dtype) or isinstance(question, search.Find))


def is_text(column: ColumnSource) -> bool:
    """Whether all strings of a column in host memory are UTF-8. Decodes it the first time, piece by piece."""
    node = column._content.node
    known = _known.get(node)
    if known is None:
        known = _known.put(node, all(_is_text(column, start, stop) for start, stop in column._default_pieces()))
    return known


def bytes_named(function: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Have a function of a column say which row it is where bytes are not UTF-8, as `naming_bytes` does."""

    @wraps(function)
    def call(column: Any, /, *args: _P.args, **options: _P.kwargs) -> _T:
        with naming_bytes(column):
            return function(column, *args, **options)

    return call


@contextmanager
def naming_bytes(column: ColumnSource) -> Iterator[None]:
    """Raise UnicodeDecodeError, which names the row, where Arrow makes Python's strings of bytes that are not UTF-8."""
    try:
        yield
    except pa.ArrowException:
        if column._is_text:
            for start, stop in column._default_pieces():
                strings = column._backend.host_strings(column._content.node, start, stop)
                array = to_arrow(strings, pa.large_string())
                with decoding(array, partial(_in_row, start)):
                    array.validate(full=True)
        raise


def _in_row(start: int, row: int) -> str:
    return f"in row {start + row}"


def _is_text(column: ColumnSource, start: int, stop: int) -> bool:
    strings = column._backend.host_strings(column._content.node, start, stop)
    try:
        to_arrow(strings, pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
