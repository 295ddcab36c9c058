"""What the library makes of an answer: the dtype of its Series, and what stands where a value is missing.

The library itself says it, for a Series of one value and one missing one. That is asked once for each kind of call,
since it takes a GPU as many launches as a long Series does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from .source import ColumnSource


class CallMeaning(NamedTuple):
    """Dtype of an answer's Series, and its missing value."""

    dtype: Any
    missing: Any


#: By kind of call. What the library refuses is not kept: it may have been the moment, as where a GPU had no memory.
_meanings: dict[Hashable, CallMeaning] = {}
_MOST = 1000


def meaning_of(
    column: ColumnSource, ask: Callable[[Any], Any], key: Hashable, sample: Callable[[], Any] | None = None
) -> CallMeaning | None:
    """Dtype and missing value that the library gives the answers of a call on a column.

    Parameters
    ----------
    column
    ask
        The call, of a Series of the library.
    key
        What the result of `ask` depends on, beside the Series.
    sample
        Makes the Series, whose last value is missing if the column has nulls. None: of a string.

    Returns
    -------
    Meaning or None
        None: the library raises an error, which it shall raise on the column itself.
    """
    backend, dtype, content = column._backend, column.dtype, column._content
    nulls = column.null_count > 0
    key = (backend.device == "cpu", backend.interop.mode(), type(dtype), repr(dtype), nulls, key)
    try:
        return _meanings[key]
    except KeyError:
        pass
    except TypeError:  # an argument that has no hash
        return None
    try:
        texts = ["a", None] if nulls else ["a"]
        series = backend.interop.sample(texts, dtype, content.type, content.stored) if sample is None else sample()
        result = ask(series)
        meaning = CallMeaning(result.dtype, backend.interop.scalars(result)[-1] if nulls else None)
    except MemoryError:
        raise
    except Exception:  # whatever the library raises, the column is decoded, and it raises that again
        return None
    if len(_meanings) >= _MOST:
        _meanings.clear()
    _meanings[key] = meaning
    return meaning
