"""Times without a zone in the footer of a Parquet file that libcudf's chunked writer has written.

pylibcudf (26.10) cannot tell that writer that times are local, so it notes all of them as UTC. The note is one bit of
each column in the file's schema, ``TimestampType.isAdjustedToUTC``: the type of a field of Thrift's compact protocol
(https://github.com/apache/parquet-format, ``parquet.thrift``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

_MAGIC = b"PAR1"
#: Kinds of Thrift's fields.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
#: Fields: of the file its schema; of an element of it the name and the logical type; of that the timestamp.
_SCHEMA, _NAME, _LOGICAL, _TIMESTAMP, _ADJUSTED = 2, 4, 10, 8, 1


class _Thrift:
    """Fields of structs, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; who gets them reads the values."""
        number = 0
        while (head := self.data[self.at]) != 0:
            self.at += 1
            step = head >> 4
            if step:
                number += step
            else:
                wide = self.varint()
                number = (wide >> 1) ^ -(wide & 1)
            yield number, head & 15
        self.at += 1

    def items(self) -> tuple[int, int]:
        """How many items a list has, and their type."""
        head = self.data[self.at]
        self.at += 1
        return (head >> 4 if head >> 4 < 15 else self.varint()), head & 15

    def skip(self, field_type: int) -> None:
        """Leave a value out."""
        if field_type in (_I16, _I32, _I64):
            self.varint()
        elif field_type in (_BYTE, _DOUBLE):
            self.at += 1 if field_type == _BYTE else 8
        elif field_type == _BINARY:
            nbytes = self.varint()
            self.at += nbytes
        elif field_type in (_LIST, _SET):
            count, of = self.items()
            for _ in range(count):
                self.skip(_BYTE if of in (_TRUE, _FALSE) else of)
        elif field_type == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif field_type not in (_TRUE, _FALSE):
            raise ValueError(f"Thrift has no field of type {field_type} in a schema")

    def name(self) -> str:
        nbytes = self.varint()
        self.at += nbytes
        return self.data[self.at - nbytes : self.at].decode()


def _adjusted(footer: bytes, is_local: Callable[[str], bool]) -> list[int]:
    """Places in a footer of the bytes that say, of local columns, that times are adjusted to UTC."""
    all_places: list[int] = []
    thrift = _Thrift(footer)
    for number, field_type in thrift.fields():
        if number != _SCHEMA:
            thrift.skip(field_type)
            continue
        for _ in range(thrift.items()[0]):
            name, places = "", []
            for field, inner in thrift.fields():
                if field == _NAME:
                    name = thrift.name()
                elif field == _LOGICAL:
                    places = _adjusted_here(thrift)
                else:
                    thrift.skip(inner)
            all_places += places if is_local(name) else []
        break
    return all_places


def _adjusted_here(thrift: _Thrift) -> list[int]:
    """Places of such bytes in one logical type, which `thrift` stands before."""
    places = []
    for logical_type, field_type in thrift.fields():
        if logical_type != _TIMESTAMP:
            thrift.skip(field_type)
            continue
        for field, inner in thrift.fields():
            if field == _ADJUSTED and inner == _TRUE:
                places.append(thrift.at - 1)
            thrift.skip(inner)
    return places


def make_local(file: BinaryIO, is_local: Callable[[str], bool]) -> int:
    """Note in a Parquet file that times of some columns are local; how many there were.

    Parameters
    ----------
    file
        To be read and written; complete.
    is_local
        Whether a column of this name has no zone.

    Raises
    ------
    ValueError
        It is no Parquet file.
    """
    nbytes = file.seek(0, os.SEEK_END)
    file.seek(max(nbytes - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > nbytes - 12:
        raise ValueError(f"no Parquet file: it ends with {tail!r}")
    begin = nbytes - 8 - length
    file.seek(begin)
    footer = file.read(length)
    try:
        places = _adjusted(footer, is_local)
    except IndexError as error:
        raise ValueError("the footer of the Parquet file ends within a field") from error
    for place in places:
        file.seek(begin + place)
        file.write(bytes([footer[place] & 0xF0 | _FALSE]))
    file.flush()
    return len(places)
