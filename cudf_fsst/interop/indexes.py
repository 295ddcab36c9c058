"""Indexes of pandas as JSON and columns of Arrow, and back (docs/format.md, section 10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from .arrow import decoding
from .arrow_columns import no_rows
from .dtypes import encode_dtype
from .names import decode_name, encode_name
from .objects import changed_objects, levels_of, objects_of, one_missing, reason
from .pandas_columns import NO_FORM, exact_index, plain_categories

_WITH_FREQUENCY = (pd.DatetimeIndex, pd.TimedeltaIndex)
#: Categories that version 1 of the format does not know.
_FRAMES_ONLY = (pd.IntervalDtype, pd.PeriodDtype)


def in_version_1(index: Any) -> bool:
    """Whether version 1 of the format has what an index' categories need, if it can be stored at all."""
    return not any(
        isinstance(level.dtype, pd.CategoricalDtype) and isinstance(level.categories.dtype, _FRAMES_ONLY)
        for level in levels_of(index)
    )


def check_exact(index: Any, notes: dict[str, Any], columns: Callable[[], Sequence[Any]]) -> None:
    """Raise TypeError where an index would not come back: what Arrow makes of it depends on versions of libraries."""
    try:
        rebuilt = assemble_index(notes, columns())
        expected = one_missing(index) if index.dtype == np.dtype(object) and index.nlevels == 1 else index
        equal = rebuilt.equals(expected)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on an index they cannot hold
        raise TypeError(f"{in_words(index)} cannot be stored: {reason(error, index)}; reset_index first") from error
    if (
        not equal
        or list(map(dtype_of_level, levels_of(rebuilt))) != list(map(dtype_of_level, levels_of(index)))
        or any(map(changed_objects, objects_of(rebuilt), objects_of(index)))
    ):
        raise TypeError(f"{in_words(index)} cannot be stored exactly; reset_index first")


def describe_index(index: Any) -> tuple[dict[str, Any], list[Any]]:
    """An index as `assemble_index` takes it: JSON notes, and an Arrow column for each level (none for a RangeIndex).

    Raises
    ------
    TypeError
        See `schema.to_bytes`.
    """
    notes = encode_index(index)
    columns = [] if isinstance(index, pd.RangeIndex) else list(map(plain_categories, index_table(index).columns))
    if columns:
        check_exact(index, notes, lambda: columns)
    return notes, columns


def dtype_of_level(level: Any) -> Any:
    """The dtype, and its text, which tells apart time zones that pandas calls equal; of categories the text too."""
    values = level.categories if isinstance(level.dtype, pd.CategoricalDtype) else level
    return level.dtype, str(values.dtype)


def in_words(index: Any) -> str:
    """An index as messages call it."""
    dtypes = ", ".join(str(level.dtype) for level in levels_of(index))
    return f"a MultiIndex of dtypes {dtypes}" if isinstance(index, pd.MultiIndex) else f"an index of dtype {dtypes}"


def index_table(index: Any) -> Any:
    plain = index.set_names([str(level) for level in range(index.nlevels)])
    try:
        # A RangeIndex must not become a column, one that is a level of a MultiIndex must.
        preserve = True if isinstance(index, pd.MultiIndex) else None
        table = pa.Table.from_pandas(pd.DataFrame(index=plain), preserve_index=preserve)
    except NO_FORM as error:
        raise TypeError(f"{in_words(index)} cannot be stored: {reason(error, index)}; reset_index first") from error
    # Equal columns are stored as equal bytes, whatever versions of the libraries wrote them.
    pandas_notes = json.loads(table.schema.metadata[b"pandas"])
    for key in ("creator", "pandas_version"):
        pandas_notes.pop(key, None)
    # And however their values are cut.
    return table.replace_schema_metadata({b"pandas": json.dumps(pandas_notes).encode()}).combine_chunks()


def check_index(index: dict[str, Any], levels: Sequence[Any]) -> Any:
    """The index that `assemble_index` makes of levels of these types, without rows (but for a RangeIndex)."""
    return assemble_index(index, [pa.chunked_array([no_rows(kind)]) for kind in levels])


def range_length(stored: dict[str, Any]) -> int:
    """How many labels a RangeIndex has that a file describes; ValueError where it describes none.

    More than `len` could say, if need be.
    """
    numbers = stored["range"]
    if len(numbers) != 3 or any(type(number) is not int for number in numbers) or numbers[2] == 0:
        raise ValueError(f"a range index of {numbers!r}")
    start, stop, step = numbers
    return max(0, -((start - stop) // step))


def encode_index(index: Any) -> dict[str, Any]:
    names = [encode_name(name) for name in index.names]
    if isinstance(index, pd.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}
    multi = isinstance(index, pd.MultiIndex)
    levels = index.levels if multi else [index]
    return {
        "names": names,
        "multi": multi,
        "dtypes": [
            encode_dtype(level.dtype) or (_encode_beside_missing(level, codes) if multi else None)
            for level, codes in zip(levels, index.codes if multi else [None], strict=True)
        ],
        "freqs": [encode_frequency(level) for level in levels],
    }


def _encode_beside_missing(level: Any, codes: Any) -> dict[str, str] | None:
    """A level of numbers that some rows have no label of: as a column its dtype is one that knows missing values."""
    if level.dtype.kind in "iub" and (codes < 0).any():
        return {"kind": "numpy", "type": str(level.dtype)}
    return None


def encode_frequency(level: Any) -> str | None:
    return frequency_name(level.freq) if isinstance(level, _WITH_FREQUENCY) else None


def frequency_name(freq: Any) -> str | None:
    """A frequency's name, where the name says all of it (that of a calendar with holidays does not)."""
    if freq is None:
        return None
    name = str(freq.freqstr)
    try:
        comes_back = pd.tseries.frequencies.to_offset(name) == freq
    except ValueError:  # "<DateOffset: months=1>", say
        comes_back = False
    return name if comes_back else None


def assemble_index(stored: dict[str, Any], columns: Sequence[Any]) -> Any:
    """An index of what `describe_index` says and the Arrow columns of its levels.

    Integers and booleans with nulls, which only cuDF has without a dtype for them, get pandas' nullable dtypes.
    """
    names = [decode_name(name) for name in stored["names"]]
    if "range" in stored:
        return pd.RangeIndex(*stored["range"], name=names[0])
    dtypes, freqs = stored["dtypes"], stored["freqs"]
    if not len(dtypes) == len(freqs) == len(names) == len(columns) or not (stored["multi"] or len(names) == 1):
        raise ValueError(f"{len(columns)} index levels instead of {len(names)}")
    levels = []
    for column, dtype in zip(columns, dtypes, strict=True):
        with decoding(column):
            levels.append(exact_index(column, dtype))
    if not stored["multi"]:
        return with_frequency(levels[0], freqs[0]).set_names(names)
    index = pd.MultiIndex.from_arrays(levels)  # names come last: a level named 0 would be taken for the first one
    for number, dtype in enumerate(dtypes):
        if dtype is not None and dtype["kind"] == "numpy":
            index = index.set_levels(index.levels[number].astype(np.dtype(dtype["type"])), level=number)
    for number, freq in enumerate(freqs):
        if freq is not None:
            index = index.set_levels(with_frequency(index.levels[number], freq), level=number)
    return index.set_names(names)


def with_frequency(values: Any, freq: str | None) -> Any:
    if freq is None:
        return values
    values = values.copy()
    # A level that had labels which no row uses has lost them, and may no longer be regular.
    with suppress(ValueError):
        values.freq = pd.tseries.frequencies.to_offset(freq)
    return values
