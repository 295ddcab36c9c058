"""Columns of any type on the host: compress their buffers, and get them back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrow_types import has_offsets, is_strings, list_size
from ..buffers import ColumnBuffers, HostStrings
from ..naming import What
from . import host_strings as strings
from .bitmap import rebased
from .chosen import Chosen, Selected, chosen, row_array
from .node import Node, Parts, is_signed, of_validity
from .registry import string_names
from .span import Span
from .task import ColumnTask
from .values import cpu as fixed

#: Rows from which on it is found out how much memory a call that takes them may need beside its result, and which part
#: of the uncompressed bytes that is.
_MANY_ROWS = 1 << 16
_ROOM_DIVISOR = 8
#: Rows that are decoded to be compared: what the cache of a core holds.
_COMPARED_ROWS = 1 << 17


def compress(columns: Sequence[ColumnTask]) -> list[Node]:
    """Compress columns."""
    return [HostCompressor(task.codec, task.options, task.what).node(task.column) for task in columns]


def read(nodes: Sequence[Node], start: int = 0, stop: int | None = None) -> list[ColumnBuffers]:
    """Rows `start` to ``stop - 1`` (default: all) of columns, decoding only the blocks they lie in.

    Parameters
    ----------
    nodes
        Of the same number of rows.

    Returns
    -------
    list of ColumnBuffers
        Validity only where there are nulls among these rows, from bit 0; offsets of lists from 0; categories whole.

    Raises
    ------
    IndexError
        The rows are not there.
    ValueError
        A part is damaged.
    """
    return [_range(node, start, node.rows if stop is None else stop) for node in nodes]


def take(nodes: Sequence[Node], rows: Selected) -> list[ColumnBuffers]:
    """Rows of columns in any order, repeated or not, decoding only the blocks they lie in, each once.

    Parameters
    ----------
    nodes
        Of the same number of rows.
    rows : ndarray of int64, or range
        A range is of rows that are there.

    Returns
    -------
    list of ColumnBuffers
        As `read` gives.

    Raises
    ------
    IndexError
        A row is not there.
    OverflowError
        The rows of lists have more values than the type's offsets can count.
    ValueError
        A part is damaged.
    """
    if not nodes:
        return []
    selected = rows if isinstance(rows, range) else chosen(rows, nodes[0].rows)
    if isinstance(selected, Chosen) and selected.a_range:
        return read(nodes, selected.lowest, selected.highest + 1)
    scratch_nbytes = fixed.ROOM_NBYTES
    if _count(selected) >= _MANY_ROWS:
        scratch_nbytes = max(scratch_nbytes, sum(node.uncompressed_nbytes for node in nodes) // _ROOM_DIVISOR)
    return [_rows(node, selected, scratch_nbytes) for node in nodes]


def validity(node: Node) -> ColumnBuffers:
    """Which rows of a column are null: its buffers but for the values, which are not read."""
    column = ColumnBuffers(node.type, node.rows)
    if not node.null_count:
        return column
    if is_strings(node.type):
        column.validity, column.null_count = strings.validity(node)
    else:
        bits = fixed.read(node.validity, 1, 0, -(-node.rows // 8), edges=node.validity_edges)
        _set_validity(column, rebased(bits, 0, node.rows))
    return column


def compare(node: Node, span: Span) -> npt.NDArray[np.bool_]:
    """Whether each row of a column of numbers lies in a range; of null rows any."""
    answers = np.empty(node.rows, np.bool_)
    for start in range(0, node.rows, _COMPARED_ROWS):
        stop = min(start + _COMPARED_ROWS, node.rows)
        (parts,), (edges,) = node.values, node.values_edges
        values = fixed.read(parts, parts[0].itemsize, start, stop, edges=edges)
        answers[start:stop] = span.of(values.view(f"u{values.itemsize}"))
    return answers


class HostCompressor:
    """Compress `ColumnBuffers` on the host.

    Parameters
    ----------
    codec
        What the user wants for the leaves (of categoricals the codes), or None.
    strings
        Options of strings: ``table``, ``tile_size``, ``level``.
    what
        What the log calls the column: a text, or what makes one.
    """

    def __init__(self, codec: str | None, strings: Mapping[str, Any], what: What = None) -> None:
        self.codec, self.strings, self.what = codec, strings, what

    def node(self, column: ColumnBuffers) -> Node:
        """Compress a column."""
        validity: Parts = ()
        values: tuple[Parts, ...] = ()
        inner = self
        if pa.types.is_dictionary(column.type):
            inner = copy.copy(self)
            inner.codec = None  # what the user wants is for the codes
        if column.strings is not None:
            return self.compress_strings(column)
        if column.null_count and not pa.types.is_null(column.type):
            validity = self.compress_validity(column)
        if column.itemsize and column.rows:
            values = self.compress_values(column)
        return Node(
            column.type,
            column.rows,
            column.null_count,
            validity,
            values,
            children=tuple(map(inner.node, column.children)),
        )

    def values_options(self, column: ColumnBuffers) -> dict[str, Any]:
        """Options of `values.cpu.compress` for a column's values."""
        nested = has_offsets(column.type)  # a codec that the user names is for the leaves
        if self.codec in string_names() and not nested:
            raise ValueError(f"codec {self.codec!r} takes strings, not {column.type}")
        floats = pa.types.is_floating(column.type)
        codec = None if nested else self.codec
        return {"floats": floats, "signed": is_signed(column.type), "codec": codec, "what": self.what}

    def compress_strings(self, column: ColumnBuffers) -> Node:
        if self.codec not in (None, *string_names()):
            raise ValueError(f"codec {self.codec!r} does not take strings, only {string_names()} do")
        assert isinstance(column.strings, HostStrings)
        return strings.compress(column.strings, column.type, codec=self.codec, what=self.what, **self.strings)

    def compress_validity(self, column: ColumnBuffers) -> Parts:
        bits = rebased(column.validity, column.validity_offset, column.rows)
        return fixed.compress(bits, what=of_validity(self.what))

    def compress_values(self, column: ColumnBuffers) -> tuple[Parts, ...]:
        options = self.values_options(column)
        halves = [column.values]
        if column.itemsize > 8:
            halves = [np.ascontiguousarray(column.values[:, half]) for half in range(column.itemsize // 8)]
        if column.null_count and not has_offsets(column.type):
            halves = [fixed.fill_nulls(half, column.validity, column.validity_offset) for half in halves]
        return tuple(
            fixed.compress(half, **{**options, "signed": options["signed"] and i == len(halves) - 1})
            for i, half in enumerate(halves)
        )


def _range(node: Node, start: int, stop: int) -> ColumnBuffers:
    if not 0 <= start <= stop <= node.rows:
        raise IndexError(f"rows {start} to {stop} of {node.rows}")
    kind, rows = node.type, stop - start
    if is_strings(kind):
        return _of_strings(kind, strings.read(node, start, stop))
    if pa.types.is_null(kind):
        return ColumnBuffers(kind, rows, rows)
    column = ColumnBuffers(kind, rows)
    if node.validity:
        bits = fixed.read(node.validity, 1, start // 8, -(-stop // 8), edges=node.validity_edges)
        _set_validity(column, rebased(bits, start % 8, rows))
    end = stop + has_offsets(kind)
    _set_values(
        column,
        [
            fixed.read(parts, parts[0].itemsize, start, end, edges=edges)
            for parts, edges in zip(node.values, node.values_edges, strict=True)
        ],
    )
    size = list_size(kind)
    first, last = (start, stop) if size is None else (size * start, size * stop)
    if pa.types.is_dictionary(kind):
        first, last = 0, node.children[0].rows
    elif has_offsets(kind) and node.values:
        first, last = int(column.values[0]), int(column.values[-1])
        column.values -= column.values[0]
    column.children = tuple(_range(child, first, last) for child in node.children)
    return column


def _count(rows: Selected) -> int:
    return len(row_array(rows)) if isinstance(rows, Chosen) else len(rows)


def _rows(node: Node, selected: Selected, scratch_nbytes: int) -> ColumnBuffers:
    kind, count = node.type, _count(selected)
    if is_strings(kind):
        return _of_strings(kind, strings.take(node, selected, scratch_nbytes=scratch_nbytes))
    if pa.types.is_null(kind):
        return ColumnBuffers(kind, count, count)
    if count == 0:  # of a list, one offset all the same
        return _range(node, 0, 0)
    column = ColumnBuffers(kind, count)
    if node.validity:
        _set_validity(column, fixed.take_bits(node.validity, selected, edges=node.validity_edges))
    if pa.types.is_dictionary(kind):
        column.children = (_range(node.children[0], 0, node.children[0].rows),)
    values = selected
    if has_offsets(kind):
        values = np.repeat(row_array(selected), 2)
        values[1::2] += 1
    _set_values(
        column,
        [
            fixed.take(parts, parts[0].itemsize, values, edges=edges, scratch_nbytes=scratch_nbytes)
            for parts, edges in zip(node.values, node.values_edges, strict=True)
        ],
    )
    if has_offsets(kind):
        column.values, selected = _lists(kind, column.values[::2], column.values[1::2])
    if (size := list_size(kind)) is not None:
        selected = (row_array(selected)[:, np.newaxis] * size + np.arange(size, dtype=np.int64)).ravel()
    if not column.children:
        column.children = tuple(_rows(child, selected, scratch_nbytes) for child in node.children)
    return column


def _of_strings(kind: Any, strings: HostStrings) -> ColumnBuffers:
    return ColumnBuffers(kind, strings.rows, strings.null_count, strings=strings)


def _set_validity(column: ColumnBuffers, bits: npt.NDArray[np.uint8]) -> None:
    """Give a column a bitmap that begins at bit 0, zeros past its last row, if any of its rows are null."""
    column.null_count = column.rows - int(np.bitwise_count(bits).sum(dtype=np.int64))
    column.validity = bits if column.null_count else None


def _set_values(column: ColumnBuffers, halves: Sequence[npt.NDArray[Any]]) -> None:
    """Give a column its values, which numbers of 16 bytes have in two halves, those of 32 bytes in four parts."""
    if halves:
        column.itemsize = halves[0].itemsize * len(halves)
        column.values = halves[0] if len(halves) == 1 else np.stack(halves, axis=1)


def _lists(kind: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Offsets of lists that follow each other, and the rows of their values."""
    starts = starts.astype(np.int64)
    lengths = ends.astype(np.int64) - starts
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if total >= 2 ** (8 * ends.itemsize - 1):
        raise OverflowError(f"these rows have {total} values in their lists, more than {kind} can count")
    rows = np.repeat(starts - offsets[:-1], lengths)
    rows += np.arange(total, dtype=np.int64)
    return offsets.astype(ends.dtype), rows
