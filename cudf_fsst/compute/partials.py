"""Aggregates of groups, piece by piece, by the library: of the pieces' aggregates those of all rows are made.

On a GPU this is the way of keys that are no few codes (``few_groups.py``). Keys are decoded piece by piece as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from .pieces import WantedColumn

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


def can(frame: Any, wanted: WantedColumn) -> bool:
    """Whether `aggregate` gives this."""
    kind = frame._columns[wanted.place].type
    return wanted.how in PARTS and (pa.types.is_integer(kind) or pa.types.is_floating(kind))


def aggregate(
    frame: Any,
    pieces: Sequence[tuple[int, int]],
    keys: Sequence[int],
    wanted: Sequence[WantedColumn],
    options: Mapping[str, Any],
) -> Any:
    """A DataFrame of the library, whose index are the keys, with a column for each of what is wanted.

    Parameters
    ----------
    frame : CompressedFrame
        Of keys and values.
    pieces
        Rows to decode at a time, one piece or more.
    keys
        Places of columns.
    wanted
        See `can`.
    options
        Of ``groupby``.
    """
    concat = frame._backend.interop.concat_values
    called = [f"c{place}" for place in range(len(frame._columns))]
    by = [called[place] for place in keys]
    asked: dict[str, list[str]] = {}
    for one in wanted:
        asked.setdefault(called[one.place], []).extend(PARTS[one.how])
    asked = {label: list(dict.fromkeys(names)) for label, names in asked.items()}
    again = {f"{label} {name}": _AGAIN[name] for label, names in asked.items() for name in names}
    inner = {"dropna": options.get("dropna", True), "sort": False, "observed": True}
    kept: Any = None
    for start, stop in pieces:
        rows = frame._range(start, stop)
        rows.columns = called
        made = rows.groupby(by, **inner).agg(asked)
        del rows
        made.columns = list(again)
        if kept is not None:
            made = concat([kept, made.reset_index()]).groupby(by, **inner).agg(again)
        kept = made.reset_index()
    found = kept.groupby(by, **options).agg(again)
    found.index.names = [frame.columns[place] for place in keys]
    for number, one in enumerate(wanted):
        label = called[one.place]
        if one.how != "mean":
            found[f"r{number}"] = found[f"{label} {one.how}"]
            continue
        counts = found[f"{label} count"]
        # cuDF cannot divide by a column of zeros alone where the quotients are missing.
        found[f"r{number}"] = found[f"{label} sum"] / counts.where(counts > 0)
    made = found[[f"r{number}" for number in range(len(wanted))]]
    made.columns = range(len(wanted))
    return made
