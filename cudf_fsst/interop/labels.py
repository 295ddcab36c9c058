"""Labels of a frame's columns as JSON or columns of Arrow, and back (docs/format.md, sections 16 and 17)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .dtypes import MASKED
from .indexes import (
    assemble_index,
    describe_index,
    dtype_of_level,
    encode_frequency,
    in_words,
    range_length,
    with_frequency,
)
from .names import decode_name, encode_name, plain_name, same_value
from .objects import levels_of


def encode_labels(labels: Any) -> dict[str, Any]:
    """The labels of a frame's columns as JSON; TypeError where they would not come back exactly."""
    names = [encode_name(name) for name in labels.names]
    if isinstance(labels, pd.RangeIndex):
        return {"names": names, "range": [labels.start, labels.stop, labels.step]}
    multi = isinstance(labels, pd.MultiIndex)
    dtypes = [str(level.dtype) for level in levels_of(labels)]
    freqs = [None if multi else encode_frequency(labels)]
    encoded = [encode_name(label) for label in labels]
    stored = {"names": names, "multi": multi, "dtypes": dtypes, "freqs": freqs, "labels": encoded}
    try:
        decoded = decode_labels(stored)
    except Exception as error:  # whatever pandas raises on dtypes that are not for such labels
        raise TypeError(f"labels of dtypes {', '.join(dtypes)} cannot be stored: {error}") from error
    _check_labels(decoded, labels)
    return stored


def describe_labels(labels: Any) -> tuple[dict[str, Any], list[Any]]:
    """Notes and levels, as `describe_index` gives them, of labels that JSON cannot say; TypeError if they change."""
    notes, columns = describe_index(labels)
    _check_labels(assemble_index(notes, columns), labels)
    return notes, columns


def _check_labels(decoded: Any, labels: Any) -> None:
    """Raise TypeError where labels of columns are not the same; objects of NumPy's numbers become Python's."""
    same = (
        type(decoded) is type(labels)
        and list(map(dtype_of_level, levels_of(decoded))) == list(map(dtype_of_level, levels_of(labels)))
        and list(map(encode_frequency, levels_of(decoded))) == list(map(encode_frequency, levels_of(labels)))
        and all(
            same_value(plain_name(label), plain_name(expected)) for label, expected in zip(decoded, labels, strict=True)
        )
    )
    if not same:
        raise TypeError(f"{in_words(labels)} cannot be stored exactly")


def decode_labels(stored: dict[str, Any]) -> Any:
    """Labels of a frame's columns that `encode_labels` wrote."""
    names = [decode_name(name) for name in stored["names"]]
    if "range" in stored:
        range_length(stored)
        return pd.RangeIndex(*stored["range"], name=names[0])
    labels = [decode_name(label) for label in stored["labels"]]
    # No label says nothing against a dtype.
    read = _label_dtype if labels else pd.api.types.pandas_dtype
    dtypes = [None if text == "category" else read(text) for text in stored["dtypes"]]
    if not stored["multi"]:
        index_alone = pd.Index(labels, dtype=dtypes[0], tupleize_cols=False)
        return with_frequency(index_alone, stored["freqs"][0]).set_names(names)
    if any(type(label) is not tuple or len(label) != len(names) for label in labels) or len(dtypes) != len(names):
        raise ValueError(f"labels of {len(names)} levels, with dtypes {stored['dtypes']!r}")
    index = pd.MultiIndex.from_tuples(labels, names=names)
    for number, dtype in enumerate(dtypes):
        if dtype is not None and index.levels[number].dtype != dtype:
            index = index.set_levels(index.levels[number].astype(dtype), level=number)
    return index


def _label_dtype(text: Any) -> Any:
    """The dtype that a file names for labels, each of which is a name; ValueError for any other."""
    dtype = value_dtype = pd.api.types.pandas_dtype(text) if isinstance(text, str) else None
    if isinstance(value_dtype, pd.SparseDtype):
        value_dtype = value_dtype.subtype
    of_names = (pd.StringDtype, pd.ArrowDtype, pd.DatetimeTZDtype)
    if not (
        isinstance(value_dtype, of_names)
        or (isinstance(value_dtype, np.dtype) and value_dtype.kind in "iufbOM")
        or str(value_dtype) in MASKED
    ):
        raise ValueError(f"labels of dtype {text!r}")
    return dtype
