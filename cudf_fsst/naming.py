"""Errors that say what they are about."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_KINDS = (TypeError, MemoryError, ValueError)
_OTHERS = (pa.ArrowException, ArithmeticError, LookupError, NotImplementedError)


#: What a column or index is called: a text, what makes one, or None.
What = str | Callable[[], str] | None


def named(what: What) -> str:
    """The text; of None, ``"column"``."""
    return what if isinstance(what, str) else "column" if what is None else what()


class naming:
    """A context in which errors name the column or index that they are about.

    What pandas and Arrow raise of values that Python's types do not have, as dates of the year 10,000, are ValueErrors.

    Parameters
    ----------
    what : str, callable or None
        The name, or what makes it where there is an error; None: errors stay as they are.
    """

    __slots__ = ("_what",)

    def __init__(self, what: What) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or self._what is None:
            return
        what = named(self._what)
        if isinstance(error, UnicodeDecodeError):
            reason = f"{error.reason}, {what}"
            raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from error
        if isinstance(error, (*_KINDS, *_OTHERS)):
            kind = next((kind for kind in _KINDS if isinstance(error, kind)), ValueError)
            raise kind(f"{what}: {error}") from error
