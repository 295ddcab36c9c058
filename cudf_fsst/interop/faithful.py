"""What a pandas object is besides its values: kept beside its compressed form, or a reason not to compress it.

``decompress`` gives back values, labels and dtypes. Whoever hands an object on compressed that was not asked to be (a
`SpillPool`, Dask's serializers) has to give back the rest as well: `extras` and `restore` do, and `check` tells what
would not be the same in spite of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .indexes import describe_index


def is_pandas(data: Any) -> bool:
    """Whether this is a DataFrame or Series of pandas, or of a subclass."""
    return isinstance(data, (pd.DataFrame, pd.Series))


def extras(data: Any) -> dict[str, Any]:
    """Notes for `restore` on a pandas object: flags, ``attrs``, labels of columns or the name, the index' names.

    It shares with the object what that has.
    """
    return {
        "attrs": data.attrs,
        "duplicates": data.flags.allows_duplicate_labels,
        "labels": data.columns if isinstance(data, pd.DataFrame) else data.name,
        "index_names": list(data.index.names),
        "freq": getattr(data.index, "freq", None),
    }


def restore(data: Any, notes: dict[str, Any]) -> Any:
    """The decompressed object with what `extras` found; the labels are its own, ``attrs`` is shared."""
    index = data.index.set_names(notes["index_names"])
    if notes["freq"] != getattr(index, "freq", None):
        index.freq = notes["freq"]
    data.index = index
    if isinstance(data, pd.DataFrame):
        data.columns = notes["labels"].view()
    else:
        data.name = notes["labels"]
    data.attrs = notes["attrs"]
    if not notes["duplicates"]:
        data.flags.allows_duplicate_labels = False
    return data


def check(data: Any) -> None:
    """Raise TypeError, saying why, where a pandas object would come back as another, though `restore` helped.

    That is where it is of a subclass, and where objects would change: missing ones that are not None would become None,
    strings of a subclass plain ones. What cannot be compressed at all is found by compressing it.
    """
    if type(data) not in (pd.DataFrame, pd.Series):
        raise TypeError(f"a {type(data).__name__} would come back as a {'DataFrame' if _is_frame(data) else 'Series'}")
    check_index(data.index)
    if not _is_frame(data):
        _check_values(data, "the values")
        return
    for number, label in enumerate(data.columns):
        _check_values(data.iloc[:, number], f"column {label!r}")


def check_index(index: Any) -> None:
    """TypeError where the labels of an index would not come back as they are."""
    if type(index).__module__.partition(".")[0] != "pandas":
        raise TypeError(f"the index: a {type(index).__name__} would come back as an index of pandas")
    for level in index.levels if isinstance(index, pd.MultiIndex) else [index]:
        _check_values(level, "the index")


def _is_frame(data: Any) -> bool:
    return isinstance(data, pd.DataFrame)


def _check_values(values: Any, what: str) -> None:
    if isinstance(values.dtype, pd.CategoricalDtype):
        _check_categories(values.dtype.categories, what)
    elif values.dtype == np.dtype(object):
        objects = values.to_numpy()
        try:
            missing = objects[pd.isna(objects)]
        except ArithmeticError:  # pandas compares decimals, also such as signal; compressing refuses these by name
            return
        if any(value is not None for value in missing):
            raise TypeError(f"{what}: objects with missing values other than None, which they would become")
        names = {cls.__name__ for cls in set(map(type, objects)) if issubclass(cls, str) and cls is not str}
        if names:
            raise TypeError(f"{what}: strings of type {', '.join(sorted(names))}, which would become plain ones")


def _check_categories(categories: Any, what: str) -> None:
    if categories.name is not None:
        raise TypeError(f"{what}: categories with a name, {categories.name!r}, which they would lose")
    if isinstance(categories, (pd.DatetimeIndex, pd.TimedeltaIndex)) and categories.freq is not None:
        raise TypeError(f"{what}: categories with a frequency, {categories.freqstr!r}, which they would lose")
    if categories.dtype == np.dtype(object):
        try:
            describe_index(categories)
        except TypeError as error:
            raise TypeError(f"{what}: categories that would change: {error}") from error
