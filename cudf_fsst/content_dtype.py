"""The dtype that a compressed column has when it is decompressed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .backend import Backend
from .codecs.node import Content
from .interop import arrow_columns, dtypes
from .interop import cudf as interop_cudf

_TEXT_IDS = frozenset(kind.id for kind in (pa.string(), pa.large_string()))


def holds_text(content: Content) -> bool:
    """Whether a column's values are strings of a dtype of strings."""
    kind, stored = content.type, content.stored
    if kind.id not in _TEXT_IDS or stored is None:
        return False
    return stored["kind"] in ("string", "object") or (
        stored["kind"] == "arrow" and stored["type"] in ("string", "large_string")
    )


def dtype_of(content: Content, backend: Backend, *, categories: bool = True) -> Any:
    """Dtype of a column, as decompressing gives it; without `categories`, those of categories have none."""
    kind, node = content.type, content.node
    if holds_text(content):
        return dtypes.decode_string_dtype(content.stored)
    is_dictionary = pa.types.is_dictionary(kind)
    if backend.device != "cpu" and not is_dictionary:
        return interop_cudf.plain_dtype(kind, content.stored)
    # pandas' dtype of integers depends on whether there are nulls.
    nulls = node.null_count > 0 and backend.device == "cpu" and not is_dictionary
    buffers = arrow_columns.one_null(kind) if nulls else arrow_columns.describe(arrow_columns.no_rows(kind))
    if is_dictionary and categories:  # they are part of the dtype
        buffers.children = tuple(backend.read(node.children))
    return backend.interop.build(buffers, kind, content.stored).dtype
