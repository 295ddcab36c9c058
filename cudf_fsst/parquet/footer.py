"""What a Parquet file's footer says of its column chunks, looked at before pyarrow is asked.

pyarrow's ``RowGroupMetaData.column``, and filters of its datasets, end the process where Arrow's C++ code refuses what
a column chunk says of itself: sizes of levels that do not fit the schema, a chunk that is encrypted. And a row group of
more columns than the schema has is read out of bounds. So the footer is walked through here first. It is a struct of
Thrift's compact protocol (https://github.com/apache/parquet-format, ``parquet.thrift``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..codecs.jit import njit
from ..remote import FileObject, Ranges

_MAGIC = b"PAR1"
#: Kinds of values.
_I32, _I64, _BINARY, _LIST, _SET, _MAP, _STRUCT = 5, 6, 8, 9, 10, 11, 12
#: Physical types, by their numbers.
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_BYTE_ARRAY = _TYPES.index("BYTE_ARRAY")
#: Roles of values that are checked; others have role 0.
_FILE, _GROUPS, _GROUP, _CHUNKS, _CHUNK, _COLUMN, _SIZES, _REPEATED, _DEFINED = range(1, 10)
#: Structs within structs, as Thrift's own readers allow them.
_DEPTH = 64
#: Results of `_walk`.
_FINE, _BROKEN, _UNUSUAL, _COLUMNS, _LEVELS, _ENCRYPTED, _TYPE = range(7)
_REASONS = {
    _BROKEN: "its footer is damaged",
    _UNUSUAL: "its footer is damaged: fields of another kind, or in another order, than Parquet's",
    _COLUMNS: "row group {group} has not the {leaves} columns of the schema",
    _LEVELS: "row group {group}: sizes of column {column} do not fit the schema",
    _ENCRYPTED: "row group {group}: column {column} is encrypted",
    _TYPE: "row group {group}: column {column} is not of the schema's type",
}


def check(path: str | Ranges, metadata: Any) -> None:
    """Raise ValueError where a file's column chunks are not such that pyarrow can be asked of them.

    Parameters
    ----------
    path
        Of the file, or what it is read by.
    metadata : pyarrow.parquet.FileMetaData
        Of the same file.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    footer = read(path)
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    repeated = np.array([leaf.max_repetition_level for leaf in leaves], np.int64)
    defined = np.array([leaf.max_definition_level for leaf in leaves], np.int64)
    types = np.array([_TYPES.index(leaf.physical_type) for leaf in leaves], np.int64)
    problem, group, column = _walk(np.frombuffer(footer, np.uint8), repeated, defined, types)
    if problem != _FINE:
        raise ValueError(_REASONS[problem].format(group=group, column=column, leaves=len(leaves)))


def read(path: str | Ranges) -> bytes:
    """The footer, which lies before its length and the magic bytes at the end."""
    if not isinstance(path, str):
        return _tail(path)
    with open(path, "rb") as file:
        return _tail(FileObject(file))


def _tail(file: Ranges) -> bytes:
    end = file.size
    (tail,) = file.read([(max(end - 8, 0), end)])
    nbytes = int.from_bytes(tail[:4], "little")
    if bytes(tail[4:]) != _MAGIC or nbytes > end - 8:
        raise ValueError("it does not end as a Parquet file does")
    (footer,) = file.read([(end - 8 - nbytes, end - 8)])
    return bytes(footer)


@njit()
def _number(data: npt.NDArray[np.uint8], position: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where it ends: -1, it does not, or it is too large for a length."""
    value = shift = 0
    while position < data.size and shift < 70:
        byte = int(data[position])
        position += 1
        if shift < 56:
            value |= (byte & 127) << shift
        elif byte & 127:
            value = -1  # no length
        if byte < 128:
            return value, position
        shift += 7
    return -1, -1


@njit()
def _walk(data: Any, repeated: Any, defined: Any, types: Any) -> tuple[int, int, int]:
    """`_FINE`, or what is wrong with the footer (`_BROKEN`, ...), and the row group and column that it is about.

    `repeated`, `defined`, `types`: highest levels and physical types of the schema's columns.
    """
    size, leaves = data.size, repeated.size
    # Of each open struct, list or map: its kind, remaining elements, their kinds (of a map two), last field, role.
    kinds, remaining, element_kind, next_kind, last_field, roles = np.zeros((6, _DEPTH + 1), np.int64)
    kinds[0], roles[0] = _STRUCT, _FILE
    top = position = 0
    group = column = -1
    typed = False  # the column says its type
    while top >= 0:
        role, inner_role = roles[top], 0
        if kinds[top] == _STRUCT:
            if position >= size:
                return _BROKEN, group, column
            header = int(data[position])
            position += 1
            if header == 0:
                if role == _GROUP and column + 1 != leaves:
                    return _COLUMNS, group, column
                if role == _CHUNK and not typed:
                    return _TYPE, group, column
                top -= 1
                continue
            kind, field = header & 15, int(last_field[top]) + (header >> 4)
            if header < 16:
                value, position = _number(data, position)
                if position < 0:
                    return _BROKEN, group, column
                field = (value >> 1) ^ -(value & 1)
            if role != 0:
                if field <= last_field[top]:
                    return _UNUSUAL, group, column
                expected = 0
                if role == _FILE and field == 4:
                    expected, inner_role = _LIST, _GROUPS
                elif role == _GROUP and field == 1:
                    expected, inner_role = _LIST, _CHUNKS
                elif role == _CHUNK and field == 3:
                    expected, inner_role = _STRUCT, _COLUMN
                elif role == _CHUNK and field == 8:
                    return _ENCRYPTED, group, column
                elif role == _COLUMN and field == 1:
                    expected = _I32
                    value, _ = _number(data, position)
                    if value != 2 * types[column]:  # signed numbers are twice as large
                        return _TYPE, group, column
                    typed = True
                elif role == _COLUMN and field == 16:
                    expected, inner_role = _STRUCT, _SIZES
                elif role == _SIZES and field == 1:
                    expected = _I64
                    if types[column] != _BYTE_ARRAY:
                        return _LEVELS, group, column
                elif role == _SIZES and field == 2:
                    expected, inner_role = _LIST, _REPEATED
                elif role == _SIZES and field == 3:
                    expected, inner_role = _LIST, _DEFINED
                if expected not in (0, kind):
                    return _UNUSUAL, group, column
            last_field[top] = field
            if kind in (1, 2):  # a truth value, which the kind says
                continue
        else:
            if remaining[top] == 0:
                top -= 1
                continue
            remaining[top] -= 1
            kind = element_kind[top]
            element_kind[top], next_kind[top] = next_kind[top], element_kind[top]  # keys and values of maps
            if role in (_GROUPS, _CHUNKS):
                if kind != _STRUCT:
                    return _UNUSUAL, group, column
                if role == _GROUPS:
                    group, column, inner_role = group + 1, -1, _GROUP
                else:
                    column, inner_role, typed = column + 1, _CHUNK, False
                    if column >= leaves:
                        return _COLUMNS, group, column
        if kind in (1, 2, 3):
            position += 1
        elif kind in (4, _I32, _I64):
            _, position = _number(data, position)
        elif kind == 7:
            position += 8
        elif kind == _BINARY:
            value, position = _number(data, position)
            if value < 0 or value > size - position:
                return _BROKEN, group, column
            position += value
        elif kind in (_LIST, _SET, _MAP, _STRUCT):
            if top == _DEPTH:
                return _BROKEN, group, column
            top += 1
            kinds[top], roles[top], last_field[top], remaining[top] = kind, inner_role, 0, 0
            if kind == _MAP:
                value, position = _number(data, position)
                if value < 0 or value > size - position:
                    return _BROKEN, group, column
                if value:
                    if position >= size:
                        return _BROKEN, group, column
                    element_kind[top], next_kind[top], remaining[top] = (
                        data[position] >> 4,
                        data[position] & 15,
                        2 * value,
                    )
                    position += 1
            elif kind != _STRUCT:
                if position >= size:
                    return _BROKEN, group, column
                value, element = int(data[position]) >> 4, data[position] & 15
                position += 1
                if value == 15:
                    value, position = _number(data, position)
                if value < 0 or value > size - position:  # an element has a byte at least
                    return _BROKEN, group, column
                element_kind[top], next_kind[top], remaining[top] = element, element, value
                if inner_role in (_REPEATED, _DEFINED) and value:
                    if element != _I64:
                        return _UNUSUAL, group, column
                    if value != 1 + (repeated[column] if inner_role == _REPEATED else defined[column]):
                        return _LEVELS, group, column
        else:
            return _BROKEN, group, column
        if position < 0 or position > size:
            return _BROKEN, group, column
    return _FINE, group, column
