"""Attributes that a DataFrame or a Series has, and what is compressed has not."""

from __future__ import annotations

from typing import Any


def no_attribute(data: Any, name: str, library: type, way: str) -> AttributeError:
    """The error for an attribute that is not there.

    Parameters
    ----------
    data
        What was asked.
    name : str
    library : type
        ``pandas.DataFrame`` or ``pandas.Series``.
    way : str
        What to call instead of a method that the library has.
    """
    kind = type(data).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    if not name.startswith("_") and hasattr(library, name):
        said += f"; a {library.__name__} has: {way}"
    return AttributeError(said, name=name, obj=data)
