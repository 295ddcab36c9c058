"""Names of columns, levels and labels as JSON, and back (docs/format.md, section 10)."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import numpy as np
import pandas as pd


def encode_name(name: Any) -> Any:
    """A name as JSON; TypeError where it would not come back."""
    plain = plain_name(name)
    try:
        stored = _encode_plain(plain)
        # What a time zone's name means depends on the libraries, so it is tried.
        decoded = decode_name(json.loads(json.dumps(stored)))
    except (ValueError, OverflowError, KeyError) as error:
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored: {error}") from error
    if not same_value(decoded, plain):
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored exactly: {name!r} would be {decoded!r}")
    return stored


def plain_name(name: Any) -> Any:
    """A name with Python's numbers and strings instead of NumPy's."""
    if type(name) is tuple:
        return tuple(plain_name(part) for part in name)
    return name.item() if isinstance(name, np.generic) and name.dtype.kind in "biufU" else name


def _encode_plain(name: Any) -> Any:
    if name is None or isinstance(name, (str, bool, int, float)):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_encode_plain(part) for part in name]}
    if isinstance(name, pd.Timestamp):
        if str(name.tz) == "tzlocal()":
            raise TypeError(f"a name in this machine's time zone cannot be stored: {name!r}")
        return {"timestamp": name.isoformat(), "unit": name.unit, "tz": None if name.tz is None else str(name.tz)}
    raise TypeError(f"a name of type {type(name).__name__} cannot be stored: {name!r}")


def same_value(value: Any, expected: Any) -> bool:
    """Whether names, labels or objects are equal and of the same type; of times also unit and time zone."""
    if value is expected:
        return True
    if type(value) is not type(expected):
        return False
    if isinstance(expected, (tuple, list)):
        return len(value) == len(expected) and all(map(same_value, value, expected))
    if isinstance(expected, decimal.Decimal):
        return bool(value.as_tuple() == expected.as_tuple())  # 1.0 equals 1.00, and 0 equals -0
    if isinstance(expected, (dt.datetime, dt.time)) and value.fold != expected.fold:
        return False
    if isinstance(expected, dict):
        return list(value) == list(expected) and all(map(same_value, value.values(), expected.values()))
    if type(expected) is dt.datetime and str(value.tzinfo) != str(expected.tzinfo):
        # Names of fixed offsets have several forms.
        return (
            isinstance(expected.tzinfo, dt.timezone) and value == expected and value.utcoffset() == expected.utcoffset()
        )
    if isinstance(expected, (pd.Timestamp, pd.Timedelta)) and value.unit != expected.unit:
        return False
    if isinstance(expected, pd.Timestamp):
        if (value.tz is None) != (expected.tz is None):
            return False
        # Fixed offsets with different names are equal, and zones of the same name need not be.
        if expected.tz is not None and (
            str(value.tz) != str(expected.tz) or pd.DatetimeTZDtype(tz=value.tz) != pd.DatetimeTZDtype(tz=expected.tz)
        ):
            return False
    return bool(value == expected) or (value != value and expected != expected)  # NaN


def decode_name(stored: Any) -> Any:
    if stored is None or isinstance(stored, (str, bool, int, float)):
        return stored
    if "tuple" in stored:
        return tuple(decode_name(part) for part in stored["tuple"])
    stamp = pd.Timestamp(stored["timestamp"]).as_unit(stored["unit"])
    return stamp if stored["tz"] is None else stamp.tz_convert(stored["tz"])
