"""What a stored column knows besides its rows: name, exact dtype and index, as bytes and back.

Two blobs. The *schema* is an Arrow schema (IPC message): the column's field first, then the index's columns, with the
``pandas`` metadata that pyarrow writes, so that any Arrow reader understands it, and a ``cudf_fsst`` entry (JSON) for
what Arrow does not keep: the exact dtypes, names that are no strings, a DatetimeIndex's frequency. The *index* is an
Arrow IPC stream with one column a level; a RangeIndex is three numbers in the JSON and has none.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pandas.core.arrays.arrow.extension_types
import pyarrow as pa

from ..arrow_types import is_view, within
from . import index_stream
from .arrow import decoding
from .arrow_columns import holds_dictionary, no_rows, one_row

# `extension_types` registers pandas' Arrow types, of periods and intervals; pandas imports it when it first makes an
# array of one. Before that Arrow reads such columns as the integers and structs that they are stored as. (Making an
# array here would not do: under cudf.pandas it is a proxy, which Arrow does not take.)

_KEY = b"cudf_fsst"
_WITH_FREQUENCY = (pd.DatetimeIndex, pd.TimedeltaIndex)
#: Objects that Arrow gives back as they were, unless it has been given others as well.
_EXACT = frozenset([str, bytes, int, bool, dt.date])
#: Arrow types of columns that are stored as another one.
_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
#: Objects that it may give back changed though they are of the same type.
_COMPARED = frozenset([decimal.Decimal, pd.Timestamp, pd.Timedelta, dt.datetime, dt.time, list, dict])
#: What the libraries raise on values that Arrow has no form of.
_NO_FORM = (pa.ArrowException, OverflowError, TypeError, ValueError, decimal.InvalidOperation)
#: Categories that version 1 of the format does not know.
_FRAMES_ONLY = (pd.IntervalDtype, pd.PeriodDtype)
_ARROW_TYPES = {"string": pa.string(), "large_string": pa.large_string()}
#: pandas' nullable dtypes, which pyarrow keeps for columns but not for an index.
_MASKED = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "boolean")

#: What pandas can read Arrow's types as, where there are nulls, without making floats or objects of them.
NULLABLE: dict[Any, Any] = {
    pa.bool_(): pd.BooleanDtype(),
    **{
        getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name)
        for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    },
}


def to_bytes(name: Any, dtype: Any, index: Any) -> tuple[bytes, bytes | None]:
    """Describe a column.

    Parameters
    ----------
    name : hashable
        The column's name: None, a string, number, Timestamp, or a tuple of these. NumPy's numbers become Python's.
    dtype : pandas dtype
        One that `cudf_fsst.interop.pandas.is_string_dtype` accepts.
    index : pandas.Index
        One that version 1 of the format knows (`in_version_1`).

    Returns
    -------
    schema : bytes
    index : bytes or None
        None for a RangeIndex, which the schema describes.

    Raises
    ------
    TypeError
        A name or an index that `from_bytes` would not give back: one without an Arrow form (say, an object index of
        mixed types), or with a form that makes other labels of it (1 and 2.5 as objects would become 1.0 and 2.5).
        Missing labels of an object index count as the same, and become None.
    """
    notes = {"name": encode_name(name), "dtype": _encode_dtype(dtype), "index": _encode_index(index)}
    table = _index_table(index)
    field = _field("None" if name is None else str(name), _arrow_type(dtype))
    pandas_notes = json.loads(table.schema.metadata[b"pandas"])
    pandas_notes["columns"].insert(0, _pandas_column(field.name, dtype))
    metadata = {b"pandas": json.dumps(pandas_notes).encode(), _KEY: json.dumps(notes).encode()}
    schema = pa.schema([field, *table.schema], metadata=metadata)
    if isinstance(index, pd.RangeIndex):
        return schema.serialize().to_pybytes(), None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        if table.num_rows:
            writer.write_table(table)
        else:  # a table without rows would be written without its dictionaries
            empty = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(empty, schema=table.schema))
    stored = sink.getvalue()
    _check_index(index, notes["index"], lambda: index_stream.read(stored).columns)
    return schema.serialize().to_pybytes(), stored.to_pybytes()


def in_version_1(index: Any) -> bool:
    """Whether version 1 of the format has what an index' categories need, if it can be stored at all."""
    return not any(
        isinstance(level.dtype, pd.CategoricalDtype) and isinstance(level.categories.dtype, _FRAMES_ONLY)
        for level in _levels(index)
    )


def has_integers(kind: Any) -> bool:
    """Whether pandas, left alone, makes floats or objects of such a column's values where some are missing."""
    return kind in NULLABLE or (_is_interval(kind) and pa.types.is_integer(kind.subtype))


def from_bytes(schema: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Read the schema that `to_bytes` wrote.

    Parameters
    ----------
    schema : bytes-like

    Returns
    -------
    name, dtype
    index : dict
        What `assemble_index` wants to know.

    Raises
    ------
    ValueError
        Damaged or foreign bytes.
    """
    try:
        arrow_schema = pa.ipc.read_schema(pa.py_buffer(schema))
        notes = json.loads((arrow_schema.metadata or {})[_KEY])
        index = notes["index"]
        return decode_name(notes["name"]), _decode_dtype(notes["dtype"]), dict(index)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the column's schema cannot be read: {type(error).__name__}: {error}") from error


def of_fields(fields: Iterable[tuple[str, Any]]) -> Any:
    """An Arrow schema of names and types; TypeError where Arrow cannot hold a name, which has a lone surrogate."""
    return pa.schema([_field(name, kind) for name, kind in fields])


def frame_to_bytes(fields: Iterable[tuple[str, Any]], notes: dict[str, Any]) -> bytes:
    """Describe a frame: the Arrow schema that `of_fields` makes, with `notes` in its metadata."""
    schema = of_fields(fields)
    return schema.with_metadata({_KEY: json.dumps({"frame": notes}).encode()}).serialize().to_pybytes()


def frame_from_bytes(schema: Any) -> tuple[list[Any], dict[str, Any]]:
    """Types of the fields and notes that `frame_to_bytes` wrote; ValueError where they cannot be read."""
    try:
        arrow_schema = pa.ipc.read_schema(pa.py_buffer(schema))
        return list(arrow_schema.types), json.loads((arrow_schema.metadata or {})[_KEY])["frame"]
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the frame's schema cannot be read: {type(error).__name__}: {error}") from error


def _check_index(index: Any, notes: dict[str, Any], columns: Callable[[], Sequence[Any]]) -> None:
    """Raise TypeError where an index would not come back: what Arrow makes of it depends on versions of libraries."""
    try:
        found = assemble_index(notes, columns())
        wanted = _one_missing(index) if index.dtype == np.dtype(object) and index.nlevels == 1 else index
        equal = found.equals(wanted)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on an index they cannot hold
        raise TypeError(f"{_described(index)} cannot be stored: {_why(error, index)}; reset_index first") from error
    if (
        not equal
        or list(map(_dtypes, _levels(found))) != list(map(_dtypes, _levels(index)))
        or not all(map(_same_objects, _objects(found), _objects(index)))
    ):
        raise TypeError(f"{_described(index)} cannot be stored exactly; reset_index first")


def describe_index(index: Any) -> tuple[dict[str, Any], list[Any]]:
    """What `assemble_index` makes an index of: JSON, and an Arrow column for each level (none for a RangeIndex).

    Raises
    ------
    TypeError
        See `to_bytes`.
    """
    notes = _encode_index(index)
    columns = [] if isinstance(index, pd.RangeIndex) else list(map(_plain_categories, _index_table(index).columns))
    if columns:
        _check_index(index, notes, lambda: columns)
    return notes, columns


def _levels(index: Any) -> Any:
    return index.levels if isinstance(index, pd.MultiIndex) else [index]


def _dtypes(level: Any) -> Any:
    """The dtype, and its text, which tells apart time zones that pandas calls equal; of categories the text too."""
    values = level.categories if isinstance(level.dtype, pd.CategoricalDtype) else level
    return level.dtype, str(values.dtype)


def _described(index: Any) -> str:
    """An index as messages call it."""
    dtypes = ", ".join(str(level.dtype) for level in _levels(index))
    return f"a MultiIndex of dtypes {dtypes}" if isinstance(index, pd.MultiIndex) else f"an index of dtype {dtypes}"


def _objects(index: Any) -> Iterator[Any]:
    """An index' labels and categories that are objects."""
    index = index.set_names([None] * index.nlevels)  # a level is found by its name first, which may be a number
    for number, level in enumerate(_levels(index)):
        if level.dtype == np.dtype(object):
            yield index.get_level_values(number)
        elif isinstance(level.dtype, pd.CategoricalDtype) and level.categories.dtype == np.dtype(object):
            yield level.categories


def _same_objects(found: Any, wanted: Any) -> bool:
    """Whether objects, missing ones aside, came back from Arrow the same; 1 equals 1.0, but has another type."""
    return not _changed_objects(found, wanted)


def _changed_objects(found: Any, wanted: Any) -> list[Any]:
    """The first of the objects, missing ones aside, that did not come back from Arrow the same; [] if all did."""
    found, wanted = _one_missing(found), _one_missing(wanted)
    types = list(map(type, wanted))
    if list(map(type, found)) == types and not _COMPARED.intersection(types):
        return []
    return [other for label, other in zip(found, wanted, strict=True) if not _same(label, other)][:1]


def _why(error: Exception, index: Any) -> str:
    """What is wrong with labels or values that raised this; the libraries do not name decimals that are no numbers."""
    for values in _objects(index):
        for value in values:
            # A quiet NaN is a missing value.
            if isinstance(value, decimal.Decimal) and (value.is_infinite() or value.is_snan()):
                return f"Arrow has no {value!r}"
    # Arrow's errors collect what they happened in.
    return "; ".join(error.args) if all(isinstance(part, str) for part in error.args) else str(error)


def _index_table(index: Any) -> Any:
    plain = index.set_names([str(level) for level in range(index.nlevels)])
    try:
        # A RangeIndex must not become a column, one that is a level of a MultiIndex must.
        preserve = True if isinstance(index, pd.MultiIndex) else None
        table = pa.Table.from_pandas(pd.DataFrame(index=plain), preserve_index=preserve)
    except _NO_FORM as error:
        raise TypeError(f"{_described(index)} cannot be stored: {_why(error, index)}; reset_index first") from error
    # Equal columns are stored as equal bytes, whatever versions of the libraries wrote them.
    pandas_notes = json.loads(table.schema.metadata[b"pandas"])
    for key in ("creator", "pandas_version"):
        pandas_notes.pop(key, None)
    # And however their values are cut.
    return table.replace_schema_metadata({b"pandas": json.dumps(pandas_notes).encode()}).combine_chunks()


def _field(name: str, kind: Any) -> Any:
    try:
        return pa.field(name, kind)
    except UnicodeEncodeError as error:  # a lone surrogate
        raise TypeError(f"the name {name!a} cannot be stored: {error}") from error


def _pandas_column(name: str, dtype: Any) -> dict[str, Any]:
    numpy_type = "object" if dtype == np.dtype(object) else str(dtype)
    return {
        "name": name,
        "field_name": name,
        "pandas_type": "unicode",
        "numpy_type": numpy_type,
        "metadata": None,
    }


def _arrow_type(dtype: Any) -> Any:
    return dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else pa.large_string()


# Names ------------------------------------------------------------------------------------------------------------


def encode_name(name: Any) -> Any:
    """A name as JSON; TypeError where it would not come back."""
    plain = _plain(name)
    try:
        stored = _encode_plain(plain)
        # What a time zone's name means depends on the libraries, so it is tried.
        found = decode_name(json.loads(json.dumps(stored)))
    except (ValueError, OverflowError, KeyError) as error:
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored: {error}") from error
    if not _same(found, plain):
        raise TypeError(f"a name of type {type(name).__name__} cannot be stored exactly: {name!r} would be {found!r}")
    return stored


def _plain(name: Any) -> Any:
    """A name with Python's numbers and strings instead of NumPy's."""
    if type(name) is tuple:
        return tuple(_plain(part) for part in name)
    return name.item() if isinstance(name, np.generic) and name.dtype.kind in "biufU" else name


def _encode_plain(name: Any) -> Any:
    if name is None or isinstance(name, (str, bool, int, float)):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_encode_plain(part) for part in name]}
    if isinstance(name, pd.Timestamp):
        if str(name.tz) == "tzlocal()":
            raise TypeError(f"a name in this machine's time zone cannot be stored: {name!r}")
        return {"timestamp": name.isoformat(), "unit": name.unit, "tz": None if name.tz is None else str(name.tz)}
    raise TypeError(f"a name of type {type(name).__name__} cannot be stored: {name!r}")


def _same(found: Any, wanted: Any) -> bool:
    """Whether names, labels or objects are equal and of the same type; of times also unit and time zone."""
    if found is wanted:
        return True
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, (tuple, list)):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, decimal.Decimal):
        return bool(found.as_tuple() == wanted.as_tuple())  # 1.0 equals 1.00, and 0 equals -0
    if isinstance(wanted, (dt.datetime, dt.time)) and found.fold != wanted.fold:
        return False
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(map(_same, found.values(), wanted.values()))
    if type(wanted) is dt.datetime and str(found.tzinfo) != str(wanted.tzinfo):
        # Names of fixed offsets have several forms.
        return isinstance(wanted.tzinfo, dt.timezone) and found == wanted and found.utcoffset() == wanted.utcoffset()
    if isinstance(wanted, (pd.Timestamp, pd.Timedelta)) and found.unit != wanted.unit:
        return False
    if isinstance(wanted, pd.Timestamp):
        if (found.tz is None) != (wanted.tz is None):
            return False
        # Fixed offsets with different names are equal, and zones of the same name need not be.
        if wanted.tz is not None and (
            str(found.tz) != str(wanted.tz) or pd.DatetimeTZDtype(tz=found.tz) != pd.DatetimeTZDtype(tz=wanted.tz)
        ):
            return False
    return bool(found == wanted) or (found != found and wanted != wanted)  # NaN


def decode_name(stored: Any) -> Any:
    if stored is None or isinstance(stored, (str, bool, int, float)):
        return stored
    if "tuple" in stored:
        return tuple(decode_name(part) for part in stored["tuple"])
    stamp = pd.Timestamp(stored["timestamp"]).as_unit(stored["unit"])
    return stamp if stored["tz"] is None else stamp.tz_convert(stored["tz"])


# Dtypes -----------------------------------------------------------------------------------------------------------


def _encode_dtype(dtype: Any) -> Any:
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
        return {"kind": "category", "categories": _encode_dtype(categories)}
    if str(dtype) in _MASKED:
        return {"kind": "masked", "type": str(dtype)}
    return {"kind": "object"} if dtype == np.dtype(object) else None


def _decode_dtype(stored: Any) -> Any:
    """The string dtype that `_encode_dtype` wrote."""
    if stored["kind"] == "arrow":
        return pd.ArrowDtype(_ARROW_TYPES[stored["type"]])
    if stored["kind"] == "string":
        return pd.StringDtype(stored["storage"], na_value=np.nan if stored["na"] == "nan" else pd.NA)
    if stored["kind"] == "object":
        return np.dtype(object)
    raise ValueError(f"unknown dtype {stored!r}")


def encode_column(series: Any) -> tuple[Any, dict[str, Any] | None]:
    """A pandas Series as an Arrow array, and its dtype as `decode_column` wants it.

    Raises
    ------
    TypeError
        It has no Arrow form that would give back the same values.
    """
    dtype = series.dtype
    try:
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            return pa.array(series.to_numpy(), from_pandas=False), None  # a NaN is a value
        array = pa.array(series, from_pandas=True)
        plain = dtype != np.dtype(object) or _of_one_exact_type(series, array.type)
    except _NO_FORM as error:
        raise TypeError(f"dtype {dtype} cannot be compressed: {_why(error, pd.Index(series))}") from error
    stored = _encode_dtype(dtype)
    array = _without_views(array)
    array = column = _plain_categories(pa.chunked_array([array]) if isinstance(array, pa.Array) else array)
    found = decode_column(column[:0] if plain else column, stored)
    if str(found.dtype) != str(dtype) or found.dtype != dtype:
        raise TypeError(f"dtype {dtype} cannot be compressed: it would come back as {found.dtype}")
    changed: list[Any] = []
    if not plain:
        changed, values = _changed_objects(pd.Index(found, dtype=object), pd.Index(series, dtype=object)), series
    elif isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype == np.dtype(object):
        changed, values = _changed_objects(found.cat.categories, dtype.categories), dtype.categories
    if changed:
        what = f"dtype {dtype} holding {pd.api.types.infer_dtype(values, skipna=True)} values cannot be compressed"
        raise TypeError(f"{what}: as {array.type} they would change; the first is {changed[0]!r:.100}")
    return array, stored


def encode_arrow(column: Any, dtype: Any) -> tuple[Any, dict[str, Any] | None]:
    """`encode_column` for a ChunkedArray that pandas would read as `dtype`; values stay exactly Arrow's.

    Raises
    ------
    TypeError
        It could not be read again.
    """
    column = _plain_categories(_without_views(column))
    strings = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    stored = _encode_dtype(dtype) if strings or dtype != np.dtype(object) else None
    try:
        decode_column(pa.chunked_array([no_rows(column.type)]), stored)
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(f"Arrow type {column.type} cannot be compressed: {error}") from error
    return column, stored


def _without_views(array: Any) -> Any:
    """Views of strings as the strings that columns of them are stored as; those inside others stay."""
    wanted = _VIEWS.get(str(array.type))
    return array if wanted is None else array.cast(wanted)


def natural_dtype(kind: Any) -> Any:
    """The dtype that pandas gives a column of this Arrow type; of one that it does not take, ArrowDtype."""
    if any(map(is_view, within(kind))):
        return pd.ArrowDtype(kind)
    try:
        return pa.table({"": pa.chunked_array([one_row(kind)])}).to_pandas().dtypes.iloc[0]
    except NotImplementedError:  # Arrow's way to say so
        return pd.ArrowDtype(kind)


def _of_one_exact_type(series: Any, kind: Any) -> bool:
    """Whether objects, missing ones aside, are all of one type whose values this Arrow type gives back as they are."""
    values = series.to_numpy()
    values = values[~pd.isna(values)]
    types = set(map(type, values))
    if types == {decimal.Decimal}:  # Arrow has one exponent for all, and no sign of a zero
        alike = decimal.Decimal((0, (1,), -kind.scale)).same_quantum
        return all(map(alike, values)) and not any(value.is_signed() for value in values if not value)
    return len(types) <= 1 and types <= _EXACT


def _plain_categories(column: Any) -> Any:
    """A ChunkedArray whose dictionaries are no extension types: as such Arrow's files do not keep them."""
    kind = column.type
    if not (pa.types.is_dictionary(kind) and isinstance(kind.value_type, pa.BaseExtensionType)):
        return column
    kind = pa.dictionary(kind.index_type, kind.value_type.storage_type, ordered=kind.ordered)
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.storage, ordered=kind.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, kind)


def decode_column(column: Any, stored: dict[str, Any] | None) -> Any:
    """A pandas Series, without name and labels, of an Arrow ChunkedArray and what `encode_column` says of its dtype.

    Raises
    ------
    UnicodeDecodeError
        The dtype or its categories hold Python's strings, and some bytes are not UTF-8.
    """
    with decoding(column):
        return _decode_column(column, stored)


def _decode_column(column: Any, stored: dict[str, Any] | None) -> Any:
    if stored is None or stored["kind"] == "cudf":
        return pd.Series(_zoned_intervals(column), copy=False) if _has_zoned_intervals(column) else column.to_pandas()
    if stored["kind"] == "object":
        values = np.empty(len(column), object)
        values[:] = column.to_pylist()
        return pd.Series(values, dtype=object, copy=False)
    if stored["kind"] == "string":
        return pd.Series(_decode_dtype(stored).__from_arrow__(column), copy=False)
    return pd.Series(_exact(column, stored), copy=False)


def check_dtypes(columns: Sequence[tuple[Any, Any]], index: dict[str, Any], levels: Sequence[Any]) -> None:
    """Raise ValueError where columns (type and dtype's description) or an index could not be decoded."""
    tried = set()
    for number, (kind, stored) in enumerate(columns):
        try:
            key = kind, json.dumps(stored)
            if key not in tried:
                tried.add(key)
                _try_dtype(kind, stored)
        except MemoryError:
            raise
        except Exception as error:  # whatever the libraries raise of types that do not go together
            raise ValueError(f"column {number}: dtype {stored!r} does not fit Arrow type {kind}: {error}") from error
    try:
        check_index(index, levels)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the frame's schema cannot be read: {type(error).__name__}: {error}") from error


def _try_dtype(kind: Any, stored: dict[str, Any] | None) -> None:
    """Decode a row of zeros: reading no rows says nothing of how values are converted."""
    if stored is not None and stored["kind"] in ("object", "string") and holds_dictionary(kind):
        raise ValueError("each row would be a copy of its category")
    if (stored is None or stored["kind"] != "arrow") and any(map(is_view, within(kind))):
        raise ValueError("only ArrowDtype has views")
    found = decode_column(pa.chunked_array([one_row(kind)]), stored)
    if stored is not None and stored["kind"] == "masked" and str(found.dtype) != stored["type"]:
        raise ValueError(f"it would be {found.dtype}")


def check_values(kind: Any, stored: dict[str, Any] | None, survey: Callable[[Callable[[Any], None]], Any]) -> None:
    """Raise ValueError where numbers of this Arrow type cannot be of a nullable dtype, which is of another type.

    Parameters
    ----------
    survey
        Calls what it is given with all the values, as unsigned integers, some at a time.
    """
    if stored is None or stored["kind"] != "masked":
        return
    dtype = pd.api.types.pandas_dtype(stored["type"])
    if pa.types.is_null(kind) or kind == pa.from_numpy_dtype(dtype.numpy_dtype):
        return

    def convert(values: Any) -> None:
        decode_column(pa.chunked_array([pa.array(values.view(kind.to_pandas_dtype()))]), stored)

    try:
        survey(convert)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"values of Arrow type {kind} do not fit dtype {dtype}: {error}") from error


def check_index(index: dict[str, Any], levels: Sequence[Any]) -> Any:
    """The index that `assemble_index` makes of levels of these types, without rows (but for a RangeIndex)."""
    return assemble_index(index, [pa.chunked_array([no_rows(kind)]) for kind in levels])


def decode_any_dtype(stored: dict[str, Any], kind: Any) -> Any:
    """The dtype of a column of this Arrow type that `encode_dtype` described."""
    if stored["kind"] == "arrow":
        return pd.ArrowDtype(kind)
    return pd.api.types.pandas_dtype(stored["type"]) if stored["kind"] == "masked" else _decode_dtype(stored)


def arrow_type(dtype: Any) -> Any:
    """The Arrow type of the field of a column of strings."""
    return _arrow_type(dtype)


def decode_string_dtype(stored: dict[str, Any]) -> Any:
    """The dtype of a column of strings that `encode_column` described."""
    return _decode_dtype(stored)


def encode_dtype(dtype: Any) -> dict[str, Any] | None:
    """What `decode_column` wants to know of a dtype that pandas and cuDF share, and of a column of strings."""
    return _encode_dtype(dtype)


def encode_labels(labels: Any) -> dict[str, Any]:
    """The labels of a frame's columns as JSON; TypeError where they would not come back exactly."""
    names = [encode_name(name) for name in labels.names]
    if isinstance(labels, pd.RangeIndex):
        return {"names": names, "range": [labels.start, labels.stop, labels.step]}
    multi = isinstance(labels, pd.MultiIndex)
    dtypes = [str(level.dtype) for level in _levels(labels)]
    freqs = [None if multi else _encode_frequency(labels)]
    encoded = [encode_name(label) for label in labels]
    stored = {"names": names, "multi": multi, "dtypes": dtypes, "freqs": freqs, "labels": encoded}
    try:
        found = decode_labels(stored)
    except Exception as error:  # whatever pandas raises on dtypes that are not for such labels
        raise TypeError(f"labels of dtypes {', '.join(dtypes)} cannot be stored: {error}") from error
    _check_labels(found, labels)
    return stored


def describe_labels(labels: Any) -> tuple[dict[str, Any], list[Any]]:
    """As `describe_index`, of labels that `encode_labels` refuses; all of them come back exactly, or TypeError."""
    notes, columns = describe_index(labels)
    _check_labels(assemble_index(notes, columns), labels)
    return notes, columns


def _check_labels(found: Any, wanted: Any) -> None:
    """Raise TypeError where labels of columns are not the same; objects of NumPy's numbers become Python's."""
    same = (
        type(found) is type(wanted)
        and list(map(_dtypes, _levels(found))) == list(map(_dtypes, _levels(wanted)))
        and list(map(_encode_frequency, _levels(found))) == list(map(_encode_frequency, _levels(wanted)))
        and all(_same(_plain(label), _plain(other)) for label, other in zip(found, wanted, strict=True))
    )
    if not same:
        raise TypeError(f"{_described(wanted)} cannot be stored exactly")


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
        found = pd.Index(labels, dtype=dtypes[0], tupleize_cols=False)
        return _with_frequency(found, stored["freqs"][0]).set_names(names)
    if any(type(label) is not tuple or len(label) != len(names) for label in labels) or len(dtypes) != len(names):
        raise ValueError(f"labels of {len(names)} levels, with dtypes {stored['dtypes']!r}")
    index = pd.MultiIndex.from_tuples(labels, names=names)
    for number, dtype in enumerate(dtypes):
        if dtype is not None and index.levels[number].dtype != dtype:
            index = index.set_levels(index.levels[number].astype(dtype), level=number)
    return index


def _label_dtype(text: Any) -> Any:
    """The dtype that a file names for labels, each of which is a name; ValueError for any other."""
    found = inside = pd.api.types.pandas_dtype(text) if isinstance(text, str) else None
    if isinstance(inside, pd.SparseDtype):
        inside = inside.subtype
    of_names = (pd.StringDtype, pd.ArrowDtype, pd.DatetimeTZDtype)
    if not (
        isinstance(inside, of_names)
        or (isinstance(inside, np.dtype) and inside.kind in "iufbOM")
        or str(inside) in _MASKED
    ):
        raise ValueError(f"labels of dtype {text!r}")
    return found


def range_length(stored: dict[str, Any]) -> int:
    """How many labels a RangeIndex has that a file describes; ValueError where it describes none.

    More than `len` could say, if need be.
    """
    numbers = stored["range"]
    if len(numbers) != 3 or any(type(number) is not int for number in numbers) or numbers[2] == 0:
        raise ValueError(f"a range index of {numbers!r}")
    start, stop, step = numbers
    return max(0, -((start - stop) // step))


# Indexes ----------------------------------------------------------------------------------------------------------


def _encode_index(index: Any) -> dict[str, Any]:
    names = [encode_name(name) for name in index.names]
    if isinstance(index, pd.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}
    multi = isinstance(index, pd.MultiIndex)
    levels = index.levels if multi else [index]
    return {
        "names": names,
        "multi": multi,
        "dtypes": [
            _encode_dtype(level.dtype) or (_encode_beside_missing(level, codes) if multi else None)
            for level, codes in zip(levels, index.codes if multi else [None], strict=True)
        ],
        "freqs": [_encode_frequency(level) for level in levels],
    }


def _encode_beside_missing(level: Any, codes: Any) -> dict[str, str] | None:
    """A level of numbers that some rows have no label of: as a column its dtype is one that knows missing values."""
    if level.dtype.kind in "iub" and (codes < 0).any():
        return {"kind": "numpy", "type": str(level.dtype)}
    return None


def _encode_frequency(level: Any) -> str | None:
    return frequency_name(level.freq) if isinstance(level, _WITH_FREQUENCY) else None


def frequency_name(freq: Any) -> str | None:
    """A frequency's name, where the name says all of it (that of a calendar with holidays does not)."""
    if freq is None:
        return None
    name = str(freq.freqstr)
    try:
        told = pd.tseries.frequencies.to_offset(name) == freq
    except ValueError:  # "<DateOffset: months=1>", say
        told = False
    return name if told else None


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
            levels.append(_exact(column, dtype))
    if not stored["multi"]:
        return _with_frequency(levels[0], freqs[0]).set_names(names)
    index = pd.MultiIndex.from_arrays(levels, names=names)
    for number, dtype in enumerate(dtypes):
        if dtype is not None and dtype["kind"] == "numpy":
            index = index.set_levels(index.levels[number].astype(np.dtype(dtype["type"])), level=number)
    for number, freq in enumerate(freqs):
        if freq is not None:
            index = index.set_levels(_with_frequency(index.levels[number], freq), level=number)
    return index


def _with_frequency(values: Any, freq: str | None) -> Any:
    if freq is None:
        return values
    values = values.copy()
    # A level that had labels which no row uses has lost them, and may no longer be regular.
    with suppress(ValueError):
        values.freq = pd.tseries.frequencies.to_offset(freq)
    return values


def _exact(column: Any, stored: Any) -> Any:
    """Make an Arrow column an Index of exactly the dtype that `_encode_dtype` wrote."""
    kind = None if stored is None else stored["kind"]
    if kind == "arrow":
        if stored["type"] in _VIEWS:
            column = column.cast(getattr(pa, stored["type"])())
        return pd.Index(pd.arrays.ArrowExtensionArray(column))
    if kind == "masked":
        if stored["type"] not in _MASKED:
            raise ValueError(f"unknown dtype {stored!r}")
        dtype = pd.api.types.pandas_dtype(stored["type"])
        if dtype.kind == "f":  # by itself pandas makes NaN, which is a value here, a missing one
            missing = column.is_null().to_numpy()
            return pd.Index(pd.arrays.FloatingArray(column.fill_null(1).to_numpy(), missing))
        return pd.Index(dtype.__from_arrow__(column))
    if kind == "category":
        # Not by pyarrow's own conversion, which drops the categories' time zone.
        joined = column.unify_dictionaries().combine_chunks()
        joined = joined if isinstance(joined, pa.Array) else joined.chunk(0)
        categories = _exact(pa.chunked_array([joined.dictionary]), stored["categories"])
        codes = joined.indices  # not all cast, which would take eight bytes a row for one
        codes = codes if pa.types.is_signed_integer(codes.type) else codes.cast(pa.int64())
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        return pd.CategoricalIndex(pd.Categorical.from_codes(codes, categories, ordered=joined.type.ordered))
    if kind == "interval":
        return _intervals(column, stored["closed"])
    if kind == "period":
        if column.type != pa.int64():
            raise ValueError(f"ordinals of periods of Arrow type {column.type}")
        return pd.PeriodIndex.from_ordinals(column.to_numpy(), freq=stored["freq"])
    natural = kind in (None, "cudf")
    if natural and column.null_count and column.type in NULLABLE:
        return pd.Index(NULLABLE[column.type].__from_arrow__(column))
    if natural and _has_zoned_intervals(column):
        return _zoned_intervals(column)
    values = column.to_pandas()
    if natural or kind == "numpy":
        return pd.Index(values, dtype=values.dtype)
    dtype = _decode_dtype(stored)
    if dtype == np.dtype(object):
        return _one_missing(values)
    return pd.Index(values.astype(dtype), dtype=dtype)


def _intervals(column: Any, closed: str) -> Any:
    left, right = (pd.Index(end.to_pandas()) for end in column.combine_chunks().flatten())
    return pd.IntervalIndex.from_arrays(left, right, closed=closed)


def _has_zoned_intervals(column: Any) -> bool:
    """Whether a column holds intervals of times with a zone, of which pandas makes an error if there are no rows."""
    return _is_interval(column.type) and getattr(column.type.subtype, "tz", None) is not None


def _is_interval(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == "pandas.interval"


def _zoned_intervals(column: Any) -> Any:
    kind = column.type
    return _intervals(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type), kind.closed)


def _one_missing(values: Any) -> Any:
    """Objects as an Index whose missing labels are None, all of them."""
    objects = values.to_numpy(dtype=object, copy=True)
    objects[pd.isna(objects)] = None
    return pd.Index(objects, dtype=object)
