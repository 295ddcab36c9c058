"""Dtypes of pandas as JSON, and back (docs/format.md, section 10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pandas.core.arrays.arrow.extension_types
import pyarrow as pa

from ..arrow_types import is_view, within
from .arrow_columns import one_row

# `extension_types` registers pandas' Arrow types, of periods and intervals; pandas imports it when it first makes an
# array of one. Before that Arrow reads such columns as the integers and structs that they are stored as. (Making an
# array here would not do: under cudf.pandas it is a proxy, which Arrow does not take.)


#: Arrow types of columns that are stored as another one.
VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_ARROW_TYPES = {"string": pa.string(), "large_string": pa.large_string()}
#: pandas' nullable dtypes, which pyarrow keeps for columns but not for an index.
MASKED = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "boolean")


#: What pandas can read Arrow's types as, where there are nulls, without making floats or objects of them.
NULLABLE: dict[Any, Any] = {
    pa.bool_(): pd.BooleanDtype(),
    **{
        getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name)
        for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    },
}


def has_integers(kind: Any) -> bool:
    """Whether pandas, left alone, makes floats or objects of such a column's values where some are missing."""
    return kind in NULLABLE or (is_interval(kind) and pa.types.is_integer(kind.subtype))


def arrow_type(dtype: Any) -> Any:
    return dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else pa.large_string()


def encode_dtype(dtype: Any) -> Any:
    """A dtype as JSON; None for one that pyarrow makes of the Arrow type by itself."""
    if isinstance(dtype, pd.ArrowDtype):
        return {"kind": "arrow", "type": str(dtype.pyarrow_dtype)}
    if isinstance(dtype, pd.StringDtype):
        return {"kind": "string", "storage": dtype.storage, "na": "nan" if dtype.na_value is np.nan else "NA"}
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories.dtype
        if isinstance(categories, pd.IntervalDtype):
            return {"kind": "category", "categories": {"kind": "interval", "closed": categories.closed}}
        if isinstance(categories, pd.PeriodDtype):
            return {"kind": "category", "categories": {"kind": "period", "freq": categories.name[len("period[") : -1]}}
        return {"kind": "category", "categories": encode_dtype(categories)}
    if str(dtype) in MASKED:
        return {"kind": "masked", "type": str(dtype)}
    return {"kind": "object"} if dtype == np.dtype(object) else None


def decode_string_dtype(stored: Any) -> Any:
    """The string dtype that `encode_dtype` wrote."""
    if stored["kind"] == "arrow":
        return pd.ArrowDtype(_ARROW_TYPES[stored["type"]])
    if stored["kind"] == "string":
        return pd.StringDtype(stored["storage"], na_value=np.nan if stored["na"] == "nan" else pd.NA)
    if stored["kind"] == "object":
        return np.dtype(object)
    raise ValueError(f"unknown dtype {stored!r}")


def natural_dtype(kind: Any) -> Any:
    """The dtype that pandas gives a column of this Arrow type; of one that it does not take, ArrowDtype."""
    if any(map(is_view, within(kind))):
        return pd.ArrowDtype(kind)
    try:
        return pa.table({"": pa.chunked_array([one_row(kind)])}).to_pandas().dtypes.iloc[0]
    except NotImplementedError:  # Arrow's way to say so
        return pd.ArrowDtype(kind)


def decode_any_dtype(stored: dict[str, Any], kind: Any) -> Any:
    """The dtype of a column of this Arrow type that `encode_dtype` described."""
    if stored["kind"] == "arrow":
        return pd.ArrowDtype(kind)
    return pd.api.types.pandas_dtype(stored["type"]) if stored["kind"] == "masked" else decode_string_dtype(stored)


def is_interval(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == "pandas.interval"
