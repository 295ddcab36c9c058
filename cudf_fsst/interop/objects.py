"""Python's objects in columns and indexes: whether Arrow gave back the same ones."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from .names import same_value

#: Objects that Arrow may give back changed though they are of the same type.
_COMPARED = frozenset([decimal.Decimal, pd.Timestamp, pd.Timedelta, dt.datetime, dt.time, list, dict])


def levels_of(index: Any) -> Any:
    return index.levels if isinstance(index, pd.MultiIndex) else [index]


def objects_of(index: Any) -> Iterator[Any]:
    """An index' labels and categories that are objects."""
    index = index.set_names([None] * index.nlevels)  # a level is found by its name first, which may be a number
    for number, level in enumerate(levels_of(index)):
        if level.dtype == np.dtype(object):
            yield index.get_level_values(number)
        elif isinstance(level.dtype, pd.CategoricalDtype) and level.categories.dtype == np.dtype(object):
            yield level.categories


def changed_objects(values: Any, expected: Any) -> list[Any]:
    """The first of the objects, missing ones aside, that did not come back from Arrow the same; [] if all did.

    1 equals 1.0, but has another type.
    """
    values, expected = one_missing(values), one_missing(expected)
    types = list(map(type, expected))
    if list(map(type, values)) == types and not _COMPARED.intersection(types):
        return []
    return [other for label, other in zip(values, expected, strict=True) if not same_value(label, other)][:1]


def reason(error: Exception, index: Any) -> str:
    """The reason why labels or values raised an error; the libraries do not name decimals that are no numbers."""
    for values in objects_of(index):
        for value in values:
            # A quiet NaN is a missing value.
            if isinstance(value, decimal.Decimal) and (value.is_infinite() or value.is_snan()):
                return f"Arrow has no {value!r}"
    # Arrow's errors collect what they happened in.
    return "; ".join(error.args) if all(isinstance(part, str) for part in error.args) else str(error)


def one_missing(values: Any) -> Any:
    """Objects as an Index whose missing labels are None, all of them."""
    objects = values.to_numpy(dtype=object, copy=True)
    objects[pd.isna(objects)] = None
    return pd.Index(objects, dtype=object)
