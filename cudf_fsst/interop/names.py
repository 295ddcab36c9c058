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
        found = decode_name(json.loads(json.dumps(stored)))
    except (ValueError, OverflowError, KeyError) as error:
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored: {error}") from error
    if not same_value(found, plain):
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored exactly: {name!r} would be {found!r}")
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


def same_value(found: Any, wanted: Any) -> bool:
    """Whether names, labels or objects are equal and of the same type; of times also unit and time zone."""
    if found is wanted:
        return True
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, (tuple, list)):
        return len(found) == len(wanted) and all(map(same_value, found, wanted))
    if isinstance(wanted, decimal.Decimal):
        return bool(found.as_tuple() == wanted.as_tuple())  # 1.0 equals 1.00, and 0 equals -0
    if isinstance(wanted, (dt.datetime, dt.time)) and found.fold != wanted.fold:
        return False
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(map(same_value, found.values(), wanted.values()))
    if type(wanted) is dt.datetime and str(found.tzinfo) != str(wanted.tzinfo):
        # Names of fixed offsets have several forms.
        return isinstance(wanted.tzinfo, dt.timezone) and found == wanted and found.utcoffset() == wanted.utcoffset()
    if isinstance(wanted, (pd.Timestamp, pd.Timedelta)) and found.unit != wanted.unit:
        return False
    if isinstance(wanted, pd.Timestamp):
        if (found.tz is None) != (wanted.tz is None):
            return False
        # Fixed offsets with different names are equal, and zones of the same name need not be.
        if wanted.tz is not None and (
            str(found.tz) != str(wanted.tz) or pd.DatetimeTZDtype(tz=found.tz) != pd.DatetimeTZDtype(tz=wanted.tz)
        ):
            return False
    return bool(found == wanted) or (found != found and wanted != wanted)  # NaN


def decode_name(stored: Any) -> Any:
    if stored is None or isinstance(stored, (str, bool, int, float)):
        return stored
    if "tuple" in stored:
        return tuple(decode_name(part) for part in stored["tuple"])
    stamp = pd.Timestamp(stored["timestamp"]).as_unit(stored["unit"])
    return stamp if stored["tz"] is None else stamp.tz_convert(stored["tz"])
