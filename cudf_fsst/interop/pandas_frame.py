"""pandas DataFrames <-> buffers of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from ..buffers import ColumnBuffers
from . import arrow_columns, schema


def describe(series: Any) -> tuple[ColumnBuffers, Any, dict[str, Any] | None]:
    """Buffers of a Series, its Arrow type and what says its dtype.

    Raises
    ------
    TypeError
        It cannot be compressed so that the same values come back.
    """
    array, stored = schema.encode_column(series)
    return arrow_columns.describe(array), array.type, stored


def build(column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None) -> Any:
    """A Series of what `describe` gave, without name and labels."""
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if stored is None and plain and column.values is not None and not column.null_count:
        # Not through Arrow, whose arrays cannot be written to.
        return pd.Series(column.values.view(kind.to_pandas_dtype()), copy=False)
    made = schema.decode_column(to_arrow(column, kind), stored)
    behind = getattr(made.array, "_ndarray", None)
    return made if behind is None or behind.flags.writeable else made.copy()


def to_arrow(column: ColumnBuffers, kind: Any) -> Any:
    """A ChunkedArray of what `describe` gave."""
    array = arrow_columns.rebuild(column, kind)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def describe_index(index: Any) -> tuple[dict[str, Any], list[tuple[ColumnBuffers, Any, Any]]]:
    """What says an index' kind, names and dtypes, and its levels as `describe` gives columns (none of a RangeIndex)."""
    notes, columns = schema.describe_index(index)
    return notes, [(arrow_columns.describe(column), column.type, None) for column in columns]


def build_index(notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, Any]]) -> Any:
    """An index of what `describe_index` gave."""
    return schema.assemble_index(notes, [to_arrow(column, kind) for column, kind, _ in levels])


def frame(columns: Sequence[Any], labels: Any, index: Any) -> Any:
    """A DataFrame of Series, the labels of its columns, and an index."""
    for series in columns:
        series.index = index
    # By number, lest two columns of the same name become one.
    made = pd.DataFrame(dict(enumerate(columns)), index=index, copy=False)
    made.columns = labels
    return made


def series(values: Any, name: Any, index: Any) -> Any:
    """Give a Series its name and labels."""
    values.index = index
    return values.rename(name)


def columns(data: Any) -> list[Any]:
    """The columns of a DataFrame."""
    return [data.iloc[:, i] for i in range(data.shape[1])]
