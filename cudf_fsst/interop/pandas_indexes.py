"""Indexes of pandas, and their labels; `indexes` has what a stored index says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


def labels(data: Any) -> tuple[Any, Any]:
    if isinstance(data, pd.Index):
        return data.name, pd.RangeIndex(len(data))
    return data.name, data.index


def view(index: Any) -> Any:
    return index.view()


def nbytes(data: Any, **options: bool) -> int:
    """Bytes that an Index or a Series takes, Python's strings included; `options` are those of ``memory_usage``."""
    try:
        return int(data.memory_usage(deep=True, **options))
    except NotImplementedError:  # pandas cannot count string views deeply
        return int(data.nbytes)


def with_names(index: Any, names: Sequence[Any]) -> Any:
    """An index with these labels and other names."""
    return index.set_names(names)


def with_level_dtypes(index: Any, dtypes: Sequence[Any]) -> Any:
    if index.nlevels == 1:
        return index if dtypes[0] is None else index.astype(dtypes[0])
    levels = [index.get_level_values(number) for number in range(index.nlevels)]
    cast = [level if dtype is None else level.astype(dtype) for level, dtype in zip(levels, dtypes, strict=True)]
    return pd.MultiIndex.from_arrays(cast, names=index.names)


def take_labels(index: Any, rows: npt.NDArray[np.int64]) -> Any:
    return index.take(rows)


def concat_labels(names: Sequence[Any], indexes: Sequence[Any]) -> tuple[Any, Any]:
    """Name and index of ``pandas.concat`` of Series with these names and indexes."""
    # pandas itself decides, on rows of one byte.
    parts = [
        pd.Series(np.zeros(len(index), np.int8), index=index, name=name)
        for name, index in zip(names, indexes, strict=True)
    ]
    joined = pd.concat(parts)
    return joined.name, joined.index
