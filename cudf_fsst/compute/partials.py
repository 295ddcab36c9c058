"""Aggregates of groups, piece by piece, by the library: of the pieces' aggregates those of all rows are made.

On a GPU this is the way of keys that are no few codes (``few_groups.py``). Keys are decoded piece by piece as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from .pieces import Aggregate
from .source import FrameSource

#: What `aggregate` knows: and which aggregates of pieces these are made of.
PARTS = {
    "sum": ("sum",),
    "count": ("count",),
    "mean": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
}
#: Which aggregate of the pieces' aggregates.
_AGAIN = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}


def supports(frame: FrameSource, column_aggregate: Aggregate) -> bool:
    """Whether `aggregate` makes an aggregate."""
    kind = frame._columns[column_aggregate.place].type
    return column_aggregate.how in PARTS and (pa.types.is_integer(kind) or pa.types.is_floating(kind))


def aggregate(
    frame: FrameSource,
    pieces: Sequence[tuple[int, int]],
    keys: Sequence[int],
    aggregates: Sequence[Aggregate],
    options: Mapping[str, Any],
) -> Any:
    """Aggregates of groups, a DataFrame of the library: the keys as index, a column for each aggregate.

    Parameters
    ----------
    frame : CompressedFrame
        Of keys and values.
    pieces
        Rows to decode at a time, one piece or more.
    keys
        Places of columns.
    aggregates
        See `supports`.
    options
        Of ``groupby``.
    """
    concat = frame._backend.interop.concat_values
    labels = [f"c{place}" for place in range(len(frame._columns))]
    by = [labels[place] for place in keys]
    partial_names: dict[str, list[str]] = {}
    for column_aggregate in aggregates:
        partial_names.setdefault(labels[column_aggregate.place], []).extend(PARTS[column_aggregate.how])
    partial_names = {label: list(dict.fromkeys(names)) for label, names in partial_names.items()}
    combining = {f"{label} {name}": _AGAIN[name] for label, names in partial_names.items() for name in names}
    inner = {"dropna": options.get("dropna", True), "sort": False, "observed": True}
    combined: Any = None
    for start, stop in pieces:
        rows = frame._range(start, stop)
        rows.columns = labels
        piece = rows.groupby(by, **inner).agg(partial_names)
        del rows
        piece.columns = list(combining)
        if combined is not None:
            piece = concat([combined, piece.reset_index()]).groupby(by, **inner).agg(combining)
        combined = piece.reset_index()
    result = combined.groupby(by, **options).agg(combining)
    result.index.names = [frame.columns[place] for place in keys]
    for number, column_aggregate in enumerate(aggregates):
        label = labels[column_aggregate.place]
        if column_aggregate.how != "mean":
            result[f"r{number}"] = result[f"{label} {column_aggregate.how}"]
            continue
        counts = result[f"{label} count"]
        # cuDF cannot divide by a column of zeros alone where the quotients are missing.
        result[f"r{number}"] = result[f"{label} sum"] / counts.where(counts > 0)
    piece = result[[f"r{number}" for number in range(len(aggregates))]]
    piece.columns = range(len(aggregates))
    return piece
