"""The Arrow extension type `cudf_fsst.column`: each value is a whole column, compressed, as its file has it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa


class ColumnType(pa.ExtensionType):
    """A type whose values are compressed columns: the bytes of a file of docs/format.md each.

    Programs that do not know it see binary values.

    Parameters
    ----------
    storage : pyarrow.DataType
        ``large_binary``, or ``binary`` where another program has made that of it.
    """

    def __init__(self, storage: Any = None) -> None:
        storage = pa.large_binary() if storage is None else storage
        if not is_binary(storage):
            raise TypeError(f"cudf_fsst.column is kept as binary values, not as {storage}")
        super().__init__(storage, "cudf_fsst.column")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> ColumnType:
        del serialized
        return cls(storage_type)


def is_binary(kind: Any) -> bool:
    """Whether a type's values are bytes, of any number."""
    types = pa.types
    return any(is_kind(kind) for is_kind in (types.is_binary, types.is_large_binary, types.is_binary_view))


def register() -> None:
    """Let Arrow make values of this type of what it reads; the first of several versions of this module does."""
    with suppress(pa.ArrowKeyError):
        pa.register_extension_type(ColumnType())


def array_of(values: list[bytes]) -> Any:
    """An array of columns' bytes."""
    return pa.ExtensionArray.from_storage(ColumnType(), pa.array(values, pa.large_binary()))


def values_of(array: Any) -> list[Any] | None:
    """The bytes of each value of an array, without a copy; None of an array that cannot hold columns.

    Raises
    ------
    ValueError
        Offsets, or views, that point outside the array's buffers.
    """
    if isinstance(array.type, ColumnType):
        chunks = [chunk.storage for chunk in array.chunks] if isinstance(array, pa.ChunkedArray) else [array.storage]
    elif is_binary(array.type):
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    else:
        return None
    for chunk in chunks:
        chunk.validate(full=True)
    return [value.as_buffer() for chunk in chunks for value in chunk]
