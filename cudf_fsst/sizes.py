"""Numbers of bytes as people write and read them."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}b"] = 1000**_power
    _UNITS[f"{_letter}i"] = _UNITS[f"{_letter}ib"] = 1024**_power
_WRITTEN = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(what: str, value: Any) -> int:
    """A number of bytes: an int, or a string such as ``"4 GiB"``, ``"500MB"``, ``"1.5e9"``.

    Parameters
    ----------
    what : str
        Name of the argument, for the errors.
    value : int or str
        As Dask has it: ``kB`` is 1000 bytes, ``KiB`` (and ``Ki``) 1024; capital letters mean the same as small ones.

    Raises
    ------
    ValueError
        A string that says no size, or a negative number.
    TypeError
        Something else.
    """
    if isinstance(value, str):
        match = _WRITTEN.fullmatch(value)
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            raise ValueError(f'{what} must be a number of bytes or a string such as "4 GiB", not {value!r}')
        scaled = float(match[1]) * unit
        if not math.isfinite(scaled):
            raise ValueError(f"{what} is too large: {value!r}")
        return int(scaled)
    try:
        nbytes = operator.index(value)
    except TypeError:
        shown = type(value).__name__
        raise TypeError(f'{what} must be a number of bytes or a string such as "4 GiB", not {shown}') from None
    if nbytes < 0:
        raise ValueError(f"{what} must not be negative, it is {nbytes}")
    return nbytes


def parse_limit(what: str, value: Any) -> int | None:
    """`parse_bytes`, with None for no limit."""
    return None if value is None else parse_bytes(what, value)


def format_bytes(nbytes: float) -> str:
    """``"1.2 GiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"
