"""Arrow arrays of any type <-> `ColumnBuffers` on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..arrow_types import (
    MOST_VALUES,
    child_types,
    entries,
    has_offsets,
    is_strings,
    is_view,
    list_size,
    offset_width,
    plain,
    values_of_a_row,
    within,
)
from ..buffers import ColumnBuffers, HostStrings
from .arrow import from_arrow, to_arrow

_types = pa.types


def fixed_width(arrow_type: Any) -> int:
    """Bytes of a value of a type whose values all have the same number of whole bytes; 0: another kind of type."""
    if _types.is_boolean(arrow_type):
        return 1
    if _types.is_dictionary(arrow_type):
        return fixed_width(arrow_type.index_type)
    fixed = (_types.is_integer, _types.is_floating, _types.is_temporal, _types.is_decimal)
    if any(kind(arrow_type) for kind in fixed):
        nbytes = int(arrow_type.bit_width) // 8
        return nbytes if not _types.is_interval(arrow_type) else 0
    return 0


def describe(array: Any) -> ColumnBuffers:
    """Buffers of an Arrow array; views of its own where Arrow keeps them as `ColumnBuffers` does.

    Raises
    ------
    TypeError
        A type that cannot be compressed.
    ValueError
        Buffers that are too short, offsets that decrease, or indices of a dictionary that lie outside it.
    """
    check(array)
    if isinstance(array, pa.ChunkedArray):
        if is_view(array.type):
            return describe(pa.chunked_array(map(_without_view, array.chunks or [no_rows(array.type)])))
        if is_strings(array.type):  # which may be more characters than the type's offsets can count
            return ColumnBuffers(array.type, len(array), array.null_count, strings=from_arrow(array))
        array = without_null_values(array)
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [no_rows(array.type)])
    return _described(array)


def check(array: Any) -> None:
    """Raise ValueError where an array refers to values that are not there; who made it need not have looked.

    All that comes from Arrow goes through this before anything looks at its values. Offsets of strings between the
    first and the last are for the codec to check, which reads them anyway. So a column of strings takes some
    microseconds, one of dictionaries a look at its indices, views as long as pyarrow takes to look at each.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
    """
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            check(chunk)
        return
    try:
        array.validate(full=is_view(array.type))  # sizes of buffers and children; what a view refers to
    except pa.ArrowIndexError as error:  # which is no ValueError
        raise ValueError(str(error)) from error
    if isinstance(array.type, pa.BaseExtensionType):
        check(array.storage)
        return
    kind = array.type
    validity = array.buffers()[0] if array.null_count else None
    if validity is not None:
        nulls = len(array) - _bits_set(np.frombuffer(validity, np.uint8), array.offset, len(array))
        if nulls != array.null_count:
            raise ValueError(f"an array with {nulls} missing values says that it has {array.null_count}")
    if _types.is_dictionary(kind):
        codes = _values(array.indices)
        if codes.size and int(codes.max()) >= len(array.dictionary):  # perhaps of a null row, where any will do
            codes = codes[array.indices.is_valid().to_numpy(zero_copy_only=False)]
            if codes.size and int(codes.max()) >= len(array.dictionary):
                raise ValueError(f"an index of a dictionary of {len(array.dictionary)} values lies outside it")
        check(array.dictionary)
    elif has_offsets(kind):
        offsets = _offsets(array)
        if (offsets[1:] < offsets[:-1]).any():  # differences could wrap
            raise ValueError("offsets of lists decrease")
        check(_inside(array))
    elif _types.is_fixed_size_list(kind):
        check(array.values)
    elif _types.is_struct(kind):
        for i in range(kind.num_fields):
            check(array.field(i))


def _bits_set(bits: npt.NDArray[np.uint8], first: int, count: int) -> int:
    """How many of some bits are set."""
    inside = bits[first // 8 : (first + count + 7) // 8].copy()
    if count:
        inside[0] &= 0xFF << first % 8 & 0xFF
        inside[-1] &= 0xFF >> -(first + count) % 8
    return int(np.bitwise_count(inside).sum(dtype=np.int64))


def _offsets(array: Any) -> npt.NDArray[Any]:
    """Offsets of an array of lists."""
    rows, width = len(array), offset_width(array.type)
    if rows == 0:
        return np.zeros(1, f"<i{width}")
    return np.frombuffer(array.buffers()[1], f"<i{width}", rows + 1, width * array.offset)


def _inside(array: Any) -> Any:
    """The values of lists, of all rows that the buffers have."""
    if not _types.is_map(array.type):
        return array.values
    return pa.StructArray.from_arrays([array.keys, array.items], fields=list(entries(array.type)))


def cast_views(array: Any, kind: Any) -> Any:
    """Views of strings, which are checked, as strings of a type.

    pyarrow looks at views of null rows too, which may be anything.
    """
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([cast_views(chunk, kind) for chunk in array.chunks], kind)
    if array.null_count:
        buffers, first, rows = array.buffers(), array.offset, len(array)
        views = np.frombuffer(buffers[1], np.uint64, 2 * rows, 16 * first).reshape(rows, 2)
        null = array.is_null().to_numpy(zero_copy_only=False)
        if views[null].any():
            validity = pa.py_buffer(np.packbits(~null, bitorder="little"))
            buffers[:2] = [validity, pa.py_buffer(np.where(null[:, None], np.uint64(0), views))]
            array = pa.Array.from_buffers(array.type, rows, buffers, array.null_count)
    return array.cast(kind)


def _without_view(array: Any) -> Any:
    """An array of equal values in the layout of `plain`, without views or runs."""
    kind = array.type
    if _types.is_run_end_encoded(kind):
        return pc.run_end_decode(array)
    if not (_types.is_list_view(kind) or _types.is_large_list_view(kind)):
        return cast_views(array, plain(kind))
    # pyarrow's own cast was seen to make arrays that are not valid.
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(valid, array.sizes.to_numpy(), 0).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    wide = _types.is_large_list_view(kind)
    if not wide and ends[-1] >= 2**31:  # rows may share values
        raise ValueError(f"rows of {kind} have {ends[-1]} values together, more than offsets of 32 bits can count")
    rows = np.repeat(array.offsets.to_numpy().astype(np.int64) - ends[:-1], sizes) + np.arange(ends[-1])
    offsets = pa.py_buffer(ends.astype("<i8" if wide else "<i4"))
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if array.null_count else None
    values = _without_view(array.values) if is_view(kind.value_type) else array.values
    if not np.array_equal(rows, np.arange(rows.size)):
        values = _taken(values, rows)
    of_lists = pa.large_list(values.type) if wide else pa.list_(values.type)
    return pa.Array.from_buffers(of_lists, len(array), [validity, offsets], array.null_count, children=[values])


def _taken(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Values by number, of any type."""
    try:
        return values.take(pa.array(rows))
    except NotImplementedError:  # Arrow's way to say that it takes none of values with views within
        begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        counts = np.diff(begins, append=rows.size)
        runs = zip(rows[begins].tolist(), counts.tolist(), strict=True)
        return pa.concat_arrays([values.slice(0, 0), *(values.slice(first, count) for first, count in runs)])


def without_null_values(array: Any) -> Any:
    """Dictionaries, which are checked, without nulls among their values: rows that have one are null instead.

    Arrow allows both, and counts the nulls of rows alone. Whoever asks what is null should not have to look twice.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        Of any type; one of no dictionaries comes back as it is.
    """
    kind = array.type
    if not _types.is_dictionary(kind):
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array(map(without_null_values, array.chunks), kind)
    dictionary = without_null_values(array.dictionary)
    valid_values = dictionary.is_valid().to_numpy(zero_copy_only=False)
    if valid_values.all():
        return array
    valid = array.indices.is_valid().to_numpy(zero_copy_only=False)
    codes = np.where(valid, _values(array.indices), 0)
    null = ~(valid & valid_values[codes])
    numbers = np.where(null, 0, (np.cumsum(valid_values) - 1)[codes]).astype(kind.index_type.to_pandas_dtype())
    gaps = np.flatnonzero(~valid_values)
    runs = zip([0, *gaps + 1], [*gaps, len(valid_values)], strict=True)
    dense = pa.concat_arrays([dictionary.slice(first, end - first) for first, end in runs])  # filters take no views
    return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=null), dense, ordered=kind.ordered, safe=False)


def _described(array: Any) -> ColumnBuffers:
    if isinstance(array.type, pa.BaseExtensionType):
        return _described(array.storage)
    if is_view(array.type):
        return _described(_without_view(array))
    array = without_null_values(array)
    kind, rows = array.type, len(array)
    if values_of_a_row(kind) > MOST_VALUES:
        raise TypeError(f"a row of Arrow type {kind} has more than {MOST_VALUES} values")
    nulls = int(array.null_count)
    if _types.is_null(kind):
        return ColumnBuffers(kind, rows, rows)
    if is_strings(kind):
        return ColumnBuffers(kind, rows, nulls, strings=from_arrow(array))
    validity = np.frombuffer(array.buffers()[0], np.uint8) if nulls else None
    common = ColumnBuffers(kind, rows, nulls, validity, array.offset if nulls else 0, owners=(array,))
    if _types.is_dictionary(kind):
        common.values, common.itemsize = _values(array.indices), fixed_width(kind)
        common.children = (_described(array.dictionary),)
    elif fixed_width(kind):
        common.values, common.itemsize = _values(array), fixed_width(kind)
    elif has_offsets(kind):
        offsets = _offsets(array)
        first, last, width = int(offsets[0]), int(offsets[-1]), offsets.itemsize
        common.values, common.itemsize = (offsets - offsets[0]).view(f"<u{width}"), width
        common.children = (_described(_inside(array).slice(first, last - first)),)
    elif _types.is_fixed_size_list(kind):
        size = kind.list_size
        common.children = (_described(array.values.slice(array.offset * size, rows * size)),)
    elif _types.is_fixed_size_binary(kind):
        common.children = (_bytes_of(array),)
    elif _types.is_struct(kind):
        common.children = tuple(_described(array.field(i)) for i in range(kind.num_fields))
    else:
        raise TypeError(f"Arrow type {kind} cannot be compressed")
    return common


def _bytes_of(array: Any) -> ColumnBuffers:
    """All bytes of binary values of a fixed size; zeros where they are null."""
    size, rows, buffer = array.type.byte_width, len(array), array.buffers()[1]
    values = np.empty(0, np.uint8)
    if rows and size:
        values = np.frombuffer(buffer, np.uint8)[array.offset * size : (array.offset + rows) * size]
    if array.null_count and size:
        values = values.copy()
        values.reshape(rows, size)[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return ColumnBuffers(pa.uint8(), rows * size, values=values, itemsize=1, owners=(array,))


def no_rows(kind: Any) -> Any:
    """An array of a type, without rows; ``pa.array([], kind)`` knows only some types."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, no_rows(kind.storage_type))
    if _types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            no_rows(kind.index_type), no_rows(kind.value_type), ordered=kind.ordered, safe=False
        )
    if _types.is_nested(kind) and any(map(_is_unknown_within, within(kind))):
        return one_row(kind)[:0]
    return pa.nulls(0, kind) if holds_dictionary(kind) else pa.array([], kind)


def _is_unknown_within(kind: Any) -> bool:
    """Whether pyarrow makes no array, or none that is valid, of a type that has such a part."""
    return isinstance(kind, pa.BaseExtensionType) or _types.is_run_end_encoded(kind)


def one_null(kind: Any) -> ColumnBuffers:
    """A column of one row, which is null."""
    if not _types.is_nested(kind):
        return describe(pa.nulls(1, kind))
    column = describe(one_row(kind))
    column.validity, column.null_count = np.zeros(1, np.uint8), 1
    return column


def one_row(kind: Any) -> Any:
    """An array of one row whose values, and those of its children, are 0 or empty."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, one_row(kind.storage_type))
    if is_view(kind):
        return _with_view(one_row(_inner(kind)), kind)
    if _types.is_null(kind):
        return pa.nulls(1)
    if is_strings(kind):
        return pa.array([b""], pa.binary()).cast(kind)
    if _types.is_dictionary(kind):
        codes, dictionary = one_row(kind.index_type), one_row(kind.value_type)
        if _types.is_null(kind.value_type):  # categories of no type, so there are none
            codes, dictionary = pa.nulls(1, kind.index_type), dictionary[:0]
        return pa.DictionaryArray.from_arrays(codes, dictionary, ordered=kind.ordered)
    if _types.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(kind.byte_width))])
    children = [one_row(child) for child in child_types(kind)]
    if has_offsets(kind):
        values: Any = np.array([0, 1], f"<i{offset_width(kind)}")
    elif _types.is_fixed_size_list(kind):
        size = int(kind.list_size)
        inside = pa.concat_arrays(children * size) if size else children[0][:0]
        return pa.Array.from_buffers(kind, 1, [None], children=[inside])
    elif _types.is_struct(kind):
        return pa.Array.from_buffers(kind, 1, [None], children=children)
    else:
        values = bytes(fixed_width(kind))
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(values)], children=children)


def holds_dictionary(kind: Any) -> bool:
    """Whether a type is one of dictionaries, or has such a part."""
    return any(_types.is_dictionary(inner) for inner in within(kind))


def _values(array: Any) -> npt.NDArray[Any]:
    """Values of fixed width, as unsigned integers."""
    rows = len(array)
    buffer = array.buffers()[1]
    if _types.is_boolean(array.type):
        first = array.offset // 8
        bits = np.frombuffer(buffer, np.uint8)[first : (array.offset + rows + 7) // 8] if rows else np.empty(0, "u1")
        return np.unpackbits(bits, bitorder="little")[array.offset - 8 * first :][:rows]
    width = fixed_width(array.type)
    parts = width // 8
    if rows == 0:
        return np.empty((0, parts) if parts > 1 else 0, np.uint64 if parts > 1 else f"<u{width}")
    if parts > 1:
        return np.frombuffer(buffer, np.uint64, parts * rows, width * array.offset).reshape(rows, parts)
    return np.frombuffer(buffer, f"<u{width}", rows, width * array.offset)  # a buffer may end anywhere behind these


def rebuild(column: ColumnBuffers, kind: Any = None) -> Any:
    """An Arrow array around buffers.

    Parameters
    ----------
    column
        As `decompress` made it: validity from bit 0.
    kind : pyarrow.DataType, optional
        The type wanted, if it is an extension type whose storage the column is, or has such children.

    Returns
    -------
    pyarrow.Array or pyarrow.ChunkedArray
        A ChunkedArray only of strings with more characters than the type's offsets can count.
    """
    kind = column.type if kind is None else kind
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, rebuild(column, kind.storage_type))
    if is_view(kind):
        return _with_view(rebuild(column, _inner(kind)), kind)
    rows, nulls = column.rows, column.null_count
    if _types.is_null(kind):
        return pa.nulls(rows)
    if column.strings is not None:
        assert isinstance(column.strings, HostStrings)
        return _strings(column.strings, kind)
    if rows == 0 and not holds_dictionary(kind):
        return no_rows(kind)
    validity = pa.py_buffer(column.validity) if nulls else None
    if _types.is_dictionary(kind):
        values = np.empty(0, f"<u{fixed_width(kind)}") if column.values is None else column.values
        codes = pa.Array.from_buffers(kind.index_type, rows, [validity, pa.py_buffer(values)], null_count=nulls)
        dictionary = rebuild(column.children[0], kind.value_type)
        return pa.DictionaryArray.from_arrays(codes, dictionary, ordered=kind.ordered, safe=False)
    if _types.is_struct(kind):
        children = [rebuild(child, kind.field(i).type) for i, child in enumerate(column.children)]
        return pa.Array.from_buffers(kind, rows, [validity], null_count=nulls, children=children)
    if list_size(kind) is not None:
        child = rebuild(column.children[0], child_types(kind)[0])
        if _types.is_fixed_size_binary(kind):
            return pa.Array.from_buffers(kind, rows, [validity, child.buffers()[1]], null_count=nulls)
        return pa.Array.from_buffers(kind, rows, [validity], null_count=nulls, children=[child])
    values = column.values
    if has_offsets(kind):
        if values is None:  # without rows
            values = np.zeros(1, f"<u{offset_width(kind)}")
        child = rebuild(column.children[0], child_types(kind)[0])
        return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(values)], null_count=nulls, children=[child])
    if _types.is_boolean(kind):
        values = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(np.ascontiguousarray(values))], null_count=nulls)


def _inner(kind: Any) -> Any:
    """The type that a view's, or runs', values are of."""
    return kind.value_type if _types.is_run_end_encoded(kind) else plain(kind)


def _with_view(array: Any, kind: Any) -> Any:
    """Values of the type `_inner` as views or runs: an array; a ChunkedArray for more rows than ends of runs count."""
    if _types.is_run_end_encoded(kind):
        most = (1 << kind.run_end_type.bit_width - 1) - 1
        chunks = [
            pc.run_end_encode(array.slice(start, most), run_end_type=kind.run_end_type)
            for start in range(0, max(len(array), 1), most)
        ]
        return chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, kind)
    if not (_types.is_list_view(kind) or _types.is_large_list_view(kind)):
        return array.cast(kind)
    offsets = _offsets(array)
    buffers = [array.buffers()[0], pa.py_buffer(offsets[:-1].copy()), pa.py_buffer(np.diff(offsets))]
    return pa.Array.from_buffers(kind, len(array), buffers, null_count=array.null_count, children=[array.values])


def _strings(strings: HostStrings, kind: Any) -> Any:
    if strings.rows == 0:
        return pa.array([], kind)
    if _types.is_binary(kind) or _types.is_large_binary(kind):
        array = to_arrow(strings, pa.large_string() if _types.is_large_binary(kind) else pa.string())
        if isinstance(array, pa.ChunkedArray):
            return pa.chunked_array([chunk.view(kind) for chunk in array.chunks], kind)
        return array.view(kind)
    return to_arrow(strings, kind)
