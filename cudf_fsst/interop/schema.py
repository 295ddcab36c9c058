"""What a stored column knows besides its rows: name, exact dtype and index, as bytes and back.

Two blobs. The *schema* is an Arrow schema (IPC message): the column's field first, then the index's columns, with the
``pandas`` metadata that pyarrow writes, so that any Arrow reader understands it, and a ``cudf_fsst`` entry (JSON) for
what Arrow does not keep: the exact dtypes, names that are no strings, a DatetimeIndex's frequency. The *index* is an
Arrow IPC stream with one column a level; a RangeIndex is three numbers in the JSON and has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from . import index_stream
from .dtypes import arrow_type, decode_string_dtype, encode_dtype
from .indexes import check_exact, check_index, encode_index, index_table
from .labels import decode_labels, encode_labels
from .names import decode_name, encode_name
from .pandas_columns import try_dtype

_KEY = b"cudf_fsst"


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
    notes = {"name": encode_name(name), "dtype": encode_dtype(dtype), "index": encode_index(index)}
    table = index_table(index)
    field = _field("None" if name is None else str(name), arrow_type(dtype))
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
    check_exact(index, notes["index"], lambda: index_stream.read(stored).columns)
    return schema.serialize().to_pybytes(), stored.to_pybytes()


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
        return decode_name(notes["name"]), decode_string_dtype(notes["dtype"]), dict(index)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the column's schema cannot be read: {type(error).__name__}: {error}") from error


def of_fields(fields: Iterable[tuple[str, Any]]) -> Any:
    """An Arrow schema of names and types; TypeError where Arrow cannot hold a name, which has a lone surrogate."""
    return pa.schema([_field(name, kind) for name, kind in fields])


def with_labels(fields: Iterable[tuple[str, Any]], labels: Any, rows: int) -> Any:
    """The schema that `of_fields` makes, with labels in its metadata where they can be said there.

    Without fields it says how many rows there are, which nothing else does.
    """
    schema = of_fields(fields)
    notes: dict[str, Any] = {} if len(schema) else {"rows": rows}
    with suppress(TypeError):
        notes["labels"] = encode_labels(labels)
    return schema.with_metadata({_KEY: json.dumps(notes).encode()}) if notes else schema


def labels_of(schema: Any) -> tuple[Any, int]:
    """The labels that `with_labels` wrote, or None, and the rows, or 0; ValueError where they cannot be read."""
    notes = (schema.metadata or {}).get(_KEY)
    if notes is None:
        return None, 0
    try:
        read = json.loads(notes)
        labels, rows = read.get("labels"), read.get("rows", 0)
        if type(rows) is not int or not 0 <= rows < 2**63:
            raise ValueError(f"{rows!r:.50} rows")
        return None if labels is None else decode_labels(labels), rows
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the labels in the schema cannot be read: {type(error).__name__}: {error}") from error


def frame_to_bytes(fields: Iterable[tuple[str, Any]], notes: dict[str, Any]) -> bytes:
    """Describe a frame: the Arrow schema that `of_fields` makes, with `notes` in its metadata.

    Raises
    ------
    TypeError
        Arrow would not read it again: a type of too many levels.
    """
    schema = of_fields(fields).with_metadata({_KEY: json.dumps({"frame": notes}).encode()})
    serialized = schema.serialize()
    try:
        pa.ipc.read_schema(serialized)
    except (pa.ArrowException, OSError) as error:
        raise TypeError(f"the types of the columns cannot be stored: {error}") from error
    return bytes(serialized.to_pybytes())


def frame_from_bytes(schema: Any) -> tuple[list[Any], dict[str, Any]]:
    """Types of the fields and notes that `frame_to_bytes` wrote; ValueError where they cannot be read."""
    try:
        arrow_schema = pa.ipc.read_schema(pa.py_buffer(schema))
        return list(arrow_schema.types), json.loads((arrow_schema.metadata or {})[_KEY])["frame"]
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the frame's schema cannot be read: {type(error).__name__}: {error}") from error


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


def check_dtypes(columns: Sequence[tuple[Any, Any]], index: dict[str, Any], levels: Sequence[Any]) -> None:
    """Raise ValueError where columns (type and dtype's description) or an index could not be decoded."""
    tried = set()
    for number, (kind, stored) in enumerate(columns):
        try:
            key = kind, json.dumps(stored)
            if key not in tried:
                tried.add(key)
                try_dtype(kind, stored)
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
