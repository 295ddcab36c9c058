"""Columns of strings that Parquet files keep with dictionaries, read as these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrow_types import is_any_text
from ..buffers import HostStrings
from ..codecs.dict.cpu_kernels import take_codes
from ..codecs.dict.distinct import DictionaryRows
from ..interop import arrow_columns
from .sources import Piece

#: Bytes of Parquet's encodings for a value, below which a column is sure to have dictionaries nearly everywhere: each
#: length of a string without one takes 4.
_CODE_NBYTES = 3


@dataclass(frozen=True)
class CodedColumn:
    """Rows of a column that were read with a dictionary.

    Attributes
    ----------
    coded : DictionaryRows
    type : pyarrow.DataType
        Of the strings.
    column : pyarrow.ChunkedArray
        The same as Arrow has it.
    """

    coded: DictionaryRows
    type: Any
    column: Any

    def strings(self) -> Any:
        """The rows, decoded."""
        return self.column.cast(self.column.type.value_type).cast(self.type)


def coded_columns(piece: Piece, names: Sequence[str], schema: Any) -> dict[str, CodedColumn]:
    """The columns of a piece that its row groups keep with dictionaries, by name.

    Raises
    ------
    ValueError
        A row has a code that no value of the dictionary has.
    """
    names_with_dictionaries = _with_dictionaries(piece, names, schema)
    columns: dict[str, CodedColumn] = {}
    if names_with_dictionaries:
        import pyarrow.parquet as pq

        with pq.ParquetFile(
            piece.open(), metadata=piece.fragment.metadata, read_dictionary=names_with_dictionaries
        ) as file:
            table = file.read_row_groups(piece.groups, columns=names_with_dictionaries)
        for name in names_with_dictionaries:
            coded = _coded(table[name])
            if coded is not None:
                columns[name] = CodedColumn(coded, schema.field(name).type, table[name])
    return columns


def _with_dictionaries(piece: Piece, names: Sequence[str], schema: Any) -> list[str]:
    """Columns of strings of which all row groups of a piece have dictionaries."""
    string_names = [name for name in names if name not in piece.keys and is_any_text(schema.field(name).type)]
    if not string_names:
        return []
    file_schema, metadata = piece.fragment.physical_schema, piece.fragment.metadata
    places = {metadata.row_group(0).column(i).path_in_schema: i for i in range(metadata.num_columns)}
    names_with_dictionaries = []
    for name in string_names:
        # A path with a dot may be that of a struct's field.
        if "." not in name and name in places and is_any_text(file_schema.field(name).type):
            chunks = [metadata.row_group(group).column(places[name]) for group in piece.groups]
            if all(
                chunk.has_dictionary_page and chunk.total_uncompressed_size < _CODE_NBYTES * chunk.num_values
                for chunk in chunks
            ):
                names_with_dictionaries.append(name)
    return names_with_dictionaries


def _coded(column: Any) -> DictionaryRows | None:
    """A column with a dictionary in each chunk, for the codec `dict`; None: it is read as strings."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    dictionaries = [chunk.dictionary for chunk in chunks]
    if sum(array.nbytes for array in dictionaries) >= 2**31 or any(array.null_count for array in dictionaries):
        return None
    values = arrow_columns.describe(pa.chunked_array(dictionaries, column.type.value_type).combine_chunks()).strings
    if values is None or not values.rows:
        return None
    assert isinstance(values, HostStrings)
    sizes = np.diff(values.offsets)
    codes = np.empty(len(column), np.int32)
    row = base = chars = 0
    for chunk, dictionary in zip(chunks, dictionaries, strict=True):
        counts = np.zeros(len(dictionary), np.int64)
        bits, plain = _buffers(chunk.indices)
        if not take_codes(plain, bits, chunk.indices.offset, base, counts, codes[row : row + len(chunk)]):
            raise ValueError(f"a row has a code that none of the {len(dictionary)} values of its dictionary has")
        chars += int((counts * sizes[base : base + len(dictionary)]).sum())
        row += len(chunk)
        base += len(dictionary)
    validity = np.frombuffer(column.is_valid().combine_chunks().buffers()[1], np.uint8) if column.null_count else None
    return DictionaryRows(codes, values, chars, validity, column.null_count)


def _buffers(indices: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The validity, which is empty without nulls and begins where the array's offset says, and the numbers."""
    bits, data = indices.buffers()
    valid = np.frombuffer(bits, np.uint8) if indices.null_count else np.empty(0, np.uint8)
    return valid, np.frombuffer(data, np.int32, len(indices), 4 * indices.offset)
