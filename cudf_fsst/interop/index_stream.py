"""The Arrow IPC stream of an index: what it holds, found out in memory in proportion to its bytes."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

# The fields of Arrow's flatbuffers that are looked at (format/Message.fbs), by number.
_HEADER_TYPE, _HEADER = 1, 2
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_DATA, _IS_DELTA = 1, 2
#: Header types.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
#: Bytes that compressed buffers may state for each byte of the stream, and besides for each label of a buffer.
_EXPANSION, _LABEL_NBYTES = 1024, 32


def inspect(stream: Any) -> tuple[list[Any], int, bool]:
    """Types and rows of an index' stream, and whether its size bounds what reading it takes.

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
        Damaged bytes. Or compressed buffers that say they hold far more than such a stream and so many labels need.
    """
    buffer = pa.py_buffer(stream)
    with pa.ipc.open_stream(buffer) as reader:
        types = list(reader.schema.types)
    rows, stated, buffers, plain = 0, 0, 0, True
    for message in pa.ipc.MessageReader.open_stream(buffer):
        table = _Table.root(message.metadata.to_pybytes())
        kind, header = table.byte(_HEADER_TYPE), table.table(_HEADER)
        if kind == _DICTIONARY_BATCH:
            plain &= not header.byte(_IS_DELTA)
            header = header.table(_DATA)
        elif kind != _RECORD_BATCH:
            continue
        if header.place(_COMPRESSION):
            plain = False
            sizes = _stated(header, message.body)
            stated += sum(sizes)
            buffers += len(sizes)
        if kind == _RECORD_BATCH:
            length = header.number(_LENGTH)
            if length < 0:
                raise ValueError(f"a record batch of {length} rows")
            rows += length
    most = _EXPANSION * len(buffer) + _LABEL_NBYTES * rows * buffers
    if stated > most:
        raise ValueError(f"buffers of {stated} bytes, in a stream of {len(buffer)} with {rows} labels at most {most}")
    return types, rows, plain


def _stated(header: _Table, body: Any) -> list[int]:
    """The bytes that the compressed buffers of a record batch say they hold."""
    sizes = []
    for offset, length in header.pairs(_BUFFERS):
        if length == 0:
            continue
        if not 0 <= offset <= body.size or not 8 <= length <= body.size - offset:
            raise ValueError(f"a buffer of {length} bytes at {offset} of {body.size}")
        (nbytes,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
        if nbytes < -1:
            raise ValueError(f"a buffer of {nbytes} bytes")
        sizes.append(max(nbytes, 0))  # -1: it is not compressed
    return sizes


def read(stream: Any) -> Any:
    """The columns of an Arrow stream as a pyarrow.Table, checked; buffers that are not compressed are views."""
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

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of pairs of numbers."""
        place = self.place(number)
        if not place:
            return []
        begin = place + self._unpack("<I", place)
        return list(struct.iter_unpack("<qq", self._data[begin + 4 :][: 16 * self._unpack("<I", begin)]))

    def table(self, number: int) -> _Table:
        place = self.place(number)
        if not place:
            raise ValueError("a message without its header")
        return _Table(self._data, place + self._unpack("<I", place))

    def _unpack(self, code: str, place: int) -> int:
        (value,) = struct.unpack_from(code, self._data, place)
        return int(value)
