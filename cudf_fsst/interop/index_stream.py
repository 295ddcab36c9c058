"""The Arrow IPC stream of an index: what it holds, found out in memory in proportion to its bytes."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

# The fields of Arrow's flatbuffers that are looked at (format/Message.fbs), by number.
_HEADER_TYPE, _HEADER = 1, 2
_LENGTH, _COMPRESSION = 0, 3
_DATA, _IS_DELTA = 1, 2
#: Header types.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def look_at(stream: Any) -> tuple[list[Any], int, bool]:
    """What an index' stream says of itself.

    Parameters
    ----------
    stream : bytes-like

    Returns
    -------
    types : list of pyarrow.DataType
        Of its columns.
    rows : int
        Of all its record batches.
    plain : bool
        Whether reading it takes memory in proportion to its bytes. Compressed buffers may hold any number of bytes, and
        a dictionary that grows is copied for each batch behind it.

    Raises
    ------
    ValueError, struct.error, pyarrow.ArrowException
        Damaged bytes.
    """
    buffer = pa.py_buffer(stream)
    with pa.ipc.open_stream(buffer) as reader:
        types = list(reader.schema.types)
    rows, plain = 0, True
    for message in pa.ipc.MessageReader.open_stream(buffer):
        table = _Table.root(message.metadata.to_pybytes())
        kind, header = table.byte(_HEADER_TYPE), table.table(_HEADER)
        if kind == _DICTIONARY_BATCH:
            plain &= not header.byte(_IS_DELTA)
            header = header.table(_DATA)
        elif kind != _RECORD_BATCH:
            continue
        plain &= not header.place(_COMPRESSION)
        if kind == _RECORD_BATCH:
            length = header.number(_LENGTH)
            if length < 0:
                raise ValueError(f"a record batch of {length} rows")
            rows += length
    return types, rows, plain


def read(stream: Any) -> Any:
    """Its columns as a pyarrow.Table, checked; buffers that are not compressed are views."""
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


class _Table:
    """A table of a flatbuffer, which Arrow has verified."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        self._fields = start - self._unpack("<i", start)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, *struct.unpack_from("<I", data))

    def place(self, number: int) -> int:
        """Where a field is, 0 if it is left out."""
        if 4 + 2 * number >= self._unpack("<H", self._fields):
            return 0
        offset = self._unpack("<H", self._fields + 4 + 2 * number)
        return self._start + offset if offset else 0

    def byte(self, number: int) -> int:
        place = self.place(number)
        return self._unpack("<B", place) if place else 0

    def number(self, number: int) -> int:
        place = self.place(number)
        return self._unpack("<q", place) if place else 0

    def table(self, number: int) -> _Table:
        place = self.place(number)
        if not place:
            raise ValueError("a message without its header")
        return _Table(self._data, place + self._unpack("<I", place))

    def _unpack(self, code: str, place: int) -> int:
        (found,) = struct.unpack_from(code, self._data, place)
        return int(found)
