"""Errors that say what they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_KINDS = (TypeError, MemoryError, ValueError)


@contextmanager
def naming(what: str | None) -> Iterator[None]:
    """Errors name the column or index that they are about; None: they stay as they are.

    What pandas and Arrow raise of values that Python's types do not have, as dates of the year 10,000, are ValueErrors.
    """
    if what is None:
        yield
        return
    try:
        yield
    except UnicodeDecodeError as error:
        reason = f"{error.reason}, {what}"
        raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from error
    except (*_KINDS, pa.ArrowException, ArithmeticError, LookupError, NotImplementedError) as error:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), ValueError)
        raise kind(f"{what}: {error}") from error
