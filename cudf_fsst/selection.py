"""Row selections, checked: what ``c[...]``, ``take`` and ``filter`` accept, as row numbers.

The same code serves NumPy and CuPy arrays; a selection that is on the GPU stays there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def row_number(key: int, length: int) -> int:
    """One row's number, counted from the front."""
    if not -length <= key < length:
        raise IndexError(f"row {key} is out of range for a column of {length} rows")
    return key + length if key < 0 else key


def row_numbers(values: Any, length: int) -> Any:
    """Row numbers as int64, counted from the front.

    Parameters
    ----------
    values : ndarray of integers, one dimension
        Negative ones count from the end. An empty array may have any type.
    length : int
        Rows of the column.

    Raises
    ------
    TypeError
        No integers.
    IndexError
        A row that is not there: the message names it.
    """
    if values.ndim == 0:
        raise TypeError(
            f"rows are selected by position: an int, a slice, integers or a mask, not {_shown(values.item())}"
        )
    if values.ndim != 1:
        raise TypeError(f"rows must be selected by one dimension of integers, not {values.ndim}")
    if values.size == 0:
        return np.empty(0, np.int64)
    # Python's integers are objects where 64 bits do not hold them.
    if values.dtype.kind not in "iu" and not _holds_integers(values):
        missing = values.dtype.kind in "Of" and bool(_missing(values).any())
        what = "missing values" if missing else values.dtype
        raise TypeError(f"rows must be selected by integers, not {what}")
    lowest, highest = int(values.min()), int(values.max())
    if lowest < -length or highest >= length:
        wrong = lowest if lowest < -length else highest
        raise IndexError(f"row {wrong} is out of range for a column of {length} rows")
    rows = values.astype(np.int64, copy=False)
    return rows if lowest >= 0 else np.where(rows < 0, rows + length, rows)


def mask_rows(values: Any, length: int) -> Any:
    """Numbers of the rows where a mask is true; IndexError where it has another length than the column."""
    if values.dtype.kind == "O" and bool(_missing(values).all()):
        values = np.zeros(values.shape, bool)  # missing ones are False; nothing else says that they are booleans
    if values.ndim != 1 or (values.dtype.kind != "b" and values.size):
        raise TypeError(f"a mask must be one dimension of booleans, not {values.ndim} of {values.dtype}")
    if values.size != length:
        raise IndexError(f"a mask of {values.size} rows does not fit a column of {length} rows")
    return values.nonzero()[0].astype(np.int64, copy=False)


def _holds_integers(values: Any) -> bool:
    return values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=False) == "integer"


def _missing(values: Any) -> Any:
    return pd.isna(values) if values.dtype.kind == "O" else values != values


def _shown(value: Any) -> str:
    """A value in a message: itself where that is short, else its type."""
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
