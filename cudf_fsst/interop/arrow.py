"""Arrow arrays <-> `HostStrings`, without copying characters.

Layout: an Arrow string array is ``[validity bitmap, offsets, characters]`` and a start row (``array.offset``) that
applies to the first two. Bytes are not checked to be UTF-8: whatever the buffers hold survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrow_types import is_string_type
from ..buffers import HostStrings

#: More characters than 32-bit offsets can address.
LARGE = 2**31

_SMALL_TYPES = (pa.string(), pa.binary())
_LARGE_TYPES = (pa.large_string(), pa.large_binary())


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def from_arrow(array: Any) -> HostStrings:
    """Describe an Arrow array's buffers.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        Of type string, large_string, binary or large_binary; sliced or not. Several chunks are joined (a copy).

    Returns
    -------
    HostStrings
        Views of the array's buffers, which they keep alive.

    Raises
    ------
    TypeError
        Any other type.
    ValueError
        Buffers that are too short.
    """
    if array.type not in _SMALL_TYPES + _LARGE_TYPES:
        raise TypeError(f"expected an Arrow array of strings, got {array.type}")
    array.validate()  # the offsets between the first and the last are for the codec to check
    if isinstance(array, pa.ChunkedArray):
        array = _join(array)
    rows = len(array)
    validity, offsets, chars = array.buffers()
    offset_dtype = np.dtype(np.int32 if array.type in _SMALL_TYPES else np.int64)
    if rows == 0:
        # Arrow allows an empty array to have no offsets at all.
        return HostStrings(0, np.empty(0, np.uint8), np.zeros(1, offset_dtype))
    null_count = int(array.null_count)
    return HostStrings(
        rows=rows,
        chars=np.empty(0, np.uint8) if chars is None else np.frombuffer(chars, np.uint8),
        offsets=np.frombuffer(offsets, offset_dtype, count=rows + 1, offset=array.offset * offset_dtype.itemsize),
        validity=np.frombuffer(validity, np.uint8) if null_count else None,
        validity_offset=array.offset if null_count else 0,
        null_count=null_count,
    )


def to_arrow(strings: HostStrings, arrow_type: Any = None) -> Any:
    """Wrap host buffers as an Arrow array.

    Parameters
    ----------
    strings : HostStrings
    arrow_type : pyarrow.DataType, optional
        ``string`` or ``large_string``; default: ``string`` where 32-bit offsets suffice, else ``large_string``.

    Returns
    -------
    pyarrow.Array or pyarrow.ChunkedArray
        A ChunkedArray only where ``string`` is asked for and 32-bit offsets do not suffice.
    """
    total = int(strings.offsets[-1])
    if arrow_type is None:
        arrow_type = pa.string() if total < LARGE else pa.large_string()
    if pa.types.is_large_string(arrow_type):
        return _wrap(strings, strings.offsets.astype(np.int64, copy=False), arrow_type)
    if total < LARGE:
        return _wrap(strings, strings.offsets.astype(np.int32, copy=False), arrow_type)
    return pa.chunked_array(_wrap_pieces(strings, arrow_type), type=arrow_type)


@contextmanager
def decoding(array: Any, where: Callable[[int], str] = "in row {}".format) -> Iterator[None]:
    """Python strings are made of an Arrow array here: bytes that are not UTF-8 raise an error that says so.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        Of any type.
    where : callable
        What the message says of a row's number.

    Raises
    ------
    UnicodeDecodeError
        Instead of Arrow's own error, which is no ValueError. Inside dictionaries and nested types it names no row.
    """
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        for strings in _strings_in(array):
            row = _first_undecodable(strings)
            if row is None:
                continue
            value = strings[row].cast(_LARGE_TYPES[1]).as_py()
            try:
                value.decode()
            except UnicodeDecodeError as wrong:
                place = where(row) if strings is array else ""
                reason = f"{wrong.reason}, {place}" if place else wrong.reason
                raise UnicodeDecodeError(wrong.encoding, value, wrong.start, wrong.end, reason) from error
        raise


def _strings_in(array: Any) -> Iterator[Any]:
    """Arrays of the strings that an array consists of."""
    if is_string_type(array.type):
        yield array
        return
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        if pa.types.is_dictionary(chunk.type):
            yield from _strings_in(chunk.dictionary)
        elif pa.types.is_struct(chunk.type):
            for field in chunk.flatten():
                yield from _strings_in(field)
        elif pa.types.is_map(chunk.type):
            yield from _strings_in(chunk.keys)
            yield from _strings_in(chunk.items)
        elif any(is_kind(chunk.type) for is_kind in _LISTS):
            yield from _strings_in(chunk.flatten())


def table_of(arrays: Sequence[Any], fields: Any, rows: int) -> Any:
    """A pyarrow.Table, which has its rows without any column, too.

    Parameters
    ----------
    arrays : sequence of pyarrow.Array or pyarrow.ChunkedArray
    fields : pyarrow.Schema
    rows : int
    """
    if arrays:
        return pa.Table.from_arrays(arrays, schema=fields)
    structs = pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])


def _first_undecodable(strings: Any) -> int | None:
    """Number of the first string that is not UTF-8."""
    values = strings.cast(_LARGE_TYPES[1])

    def all_decode(start: int, stop: int) -> bool:
        try:
            values.slice(start, stop - start).cast(_LARGE_TYPES[0])
        except pa.ArrowInvalid:
            return False
        return True

    if all_decode(0, len(values)):
        return None
    first, end = 0, len(values)  # it is among these
    while end - first > 1:
        middle = (first + end) // 2
        if all_decode(first, middle):
            first = middle
        else:
            end = middle
    return first


def _join(array: Any) -> Any:
    if array.num_chunks == 1:
        return array.chunk(0)
    if array.num_chunks == 0:
        return pa.array([], type=array.type)
    if array.type in _SMALL_TYPES and sum(_chars(chunk) for chunk in array.chunks) >= LARGE:
        array = array.cast(_LARGE_TYPES[_SMALL_TYPES.index(array.type)])
    return pa.concat_arrays(array.chunks)


def _chars(chunk: Any) -> int:
    offsets = from_arrow(chunk).offsets
    return int(offsets[-1]) - int(offsets[0])


def _wrap(strings: HostStrings, offsets: npt.NDArray[Any], arrow_type: Any) -> Any:
    validity = _validity(strings)
    buffers = [
        None if validity is None else pa.py_buffer(validity),
        pa.py_buffer(np.ascontiguousarray(offsets)),
        pa.py_buffer(strings.chars),
    ]
    return pa.Array.from_buffers(arrow_type, strings.rows, buffers, null_count=strings.null_count)


def _wrap_pieces(strings: HostStrings, arrow_type: Any) -> list[Any]:
    """Cut a column at row ends so that each piece's characters fit 32-bit offsets."""
    offsets = strings.offsets
    validity = None if strings.null_count == 0 else unpack_validity(strings)
    pieces = []
    start = 0
    while start < strings.rows:
        begin = int(offsets[start])
        stop = int(np.searchsorted(offsets, begin + LARGE, side="left")) - 1
        if stop <= start:
            raise pa.ArrowInvalid(f"row {start} is longer than an Arrow {arrow_type} can hold; use large_string")
        nulls = 0
        mask = None
        if validity is not None:
            part = validity[start:stop]
            nulls = int(part.size - np.count_nonzero(part))
            mask = np.packbits(part, bitorder="little")
        piece = HostStrings(
            rows=stop - start,
            chars=strings.chars[begin : int(offsets[stop])],
            offsets=(offsets[start : stop + 1] - begin).astype(np.int32),
            validity=mask if nulls else None,
            null_count=nulls,
        )
        pieces.append(_wrap(piece, piece.offsets, arrow_type))
        start = stop
    return pieces


def _validity(strings: HostStrings) -> npt.NDArray[np.uint8] | None:
    if strings.null_count == 0 or strings.validity is None:
        return None
    if strings.validity_offset == 0:
        return strings.validity
    return np.packbits(unpack_validity(strings), bitorder="little")


def unpack_validity(strings: HostStrings) -> npt.NDArray[np.uint8]:
    """One byte a row: 1 where the row is not null."""
    if strings.validity is None:
        return np.ones(strings.rows, np.uint8)
    start = strings.validity_offset
    first = start // 8
    packed = strings.validity[first : (start + strings.rows + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")
    return bits[start - 8 * first :][: strings.rows]
