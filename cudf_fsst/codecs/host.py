"""Columns of any type on the host: compress their buffers, and get them back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..buffers import ColumnBuffers, HostStrings
from .fsst import cpu as fsst
from .fsst.segment import Segment
from .node import Node, Parts, Wanted, has_offsets, is_signed, is_strings
from .values import cpu as fixed


def compress(columns: Sequence[Wanted]) -> list[Node]:
    """Compress columns."""
    return [Compressor(one.codec, one.strings).node(one.column) for one in columns]


def read(nodes: Sequence[Node], start: int = 0, stop: int | None = None) -> list[ColumnBuffers]:
    """Rows ``start:stop`` of columns; all without a `stop`."""
    from ..interop import arrow_columns

    made = []
    for node in nodes:
        if start == 0 and stop is None:
            made.append(decompress(node))
        elif node.segments and stop is not None and start < stop:
            strings = fsst.take_range(node.segments, start, stop)
            made.append(ColumnBuffers(node.type, strings.rows, strings.null_count, strings=strings))
        else:
            whole = arrow_columns.rebuild(decompress(node), node.type)
            made.append(
                arrow_columns.describe(whole.take(pa.array(range(*slice(start, stop).indices(node.rows)), pa.int64())))
            )
    return made


def take(nodes: Sequence[Node], rows: Any) -> list[ColumnBuffers]:
    """Rows by number."""
    from ..interop import arrow_columns

    made = []
    for node in nodes:
        if node.segments and rows.size:
            strings = fsst.take(node.segments, rows)
            made.append(ColumnBuffers(node.type, strings.rows, strings.null_count, strings=strings))
        else:
            whole = arrow_columns.rebuild(decompress(node), node.type)
            made.append(arrow_columns.describe(whole.take(pa.array(rows))))
    return made


class Compressor:
    """Compress `ColumnBuffers` on the host.

    Parameters
    ----------
    codec
        What the user wants for the leaves (of categoricals the codes), or None.
    strings
        Options of the FSST codec: ``tile_size``, ``level``.
    """

    def __init__(self, codec: str | None, strings: Mapping[str, Any]) -> None:
        self.codec, self.strings = codec, strings

    def node(self, column: ColumnBuffers) -> Node:
        """Compress a column."""
        validity: Parts = ()
        values: tuple[Parts, ...] = ()
        segments: tuple[Segment, ...] = ()
        inner = self
        if pa.types.is_dictionary(column.type):
            inner = copy.copy(self)
            inner.codec = None  # what the user wants is for the codes
        if column.strings is not None:
            if self.codec not in (None, "fsst"):
                raise ValueError(f"codec {self.codec!r} does not take strings, only 'fsst' does")
            segments = tuple(self.compress_strings(column.strings))
        elif column.null_count and not pa.types.is_null(column.type):
            validity = self.compress_validity(column)
        if column.itemsize and column.rows:
            values = self.compress_values(column)
        return Node(
            column.type,
            column.rows,
            column.null_count,
            validity,
            values,
            segments,
            tuple(map(inner.node, column.children)),
        )

    def wanted(self, column: ColumnBuffers) -> dict[str, Any]:
        """Options of `values.cpu.compress` for a column's values."""
        nested = has_offsets(column.type)  # a codec that the user names is for the leaves
        if self.codec == "fsst" and not nested:
            raise ValueError(f"codec 'fsst' takes strings, not {column.type}")
        floats = pa.types.is_floating(column.type)
        return {"floats": floats, "signed": is_signed(column.type), "codec": None if nested else self.codec}

    def compress_strings(self, strings: Any) -> list[Segment]:
        return fsst.compress(strings, **self.strings)

    def compress_validity(self, column: ColumnBuffers) -> Parts:
        return fixed.compress(_rebased(column.validity, column.validity_offset, column.rows))

    def compress_values(self, column: ColumnBuffers) -> tuple[Parts, ...]:
        options = self.wanted(column)
        halves = [column.values]
        if column.itemsize == 16:
            halves = [np.ascontiguousarray(column.values[:, half]) for half in range(2)]
        if column.null_count and not has_offsets(column.type):
            halves = [fixed.fill_nulls(half, column.validity, column.validity_offset) for half in halves]
        return tuple(
            fixed.compress(half, **{**options, "signed": options["signed"] and i == len(halves) - 1})
            for i, half in enumerate(halves)
        )


def _rebased(validity: npt.NDArray[np.uint8], offset: int, rows: int) -> npt.NDArray[np.uint8]:
    """A bitmap's bytes with row 0 at bit 0 and zeros past the last row."""
    first = offset // 8
    bits = np.unpackbits(validity[first : (offset + rows + 7) // 8], bitorder="little")
    return np.packbits(bits[offset - 8 * first :][:rows], bitorder="little")


def decompress(node: Node) -> ColumnBuffers:
    """Buffers of a column on the host."""
    validity = values = None
    itemsize = 0
    strings: HostStrings | None = None
    if is_strings(node.type):
        strings = fsst.decompress(node.segments)
    if node.validity:
        validity = fixed.decompress(node.validity, 1)
    if node.values:
        itemsize = node.values[0][0].itemsize * len(node.values)
        halves = [fixed.decompress(parts, parts[0].itemsize) for parts in node.values]
        values = halves[0] if len(halves) == 1 else np.stack(halves, axis=1)
    return ColumnBuffers(
        node.type,
        node.rows,
        node.null_count,
        validity,
        0,
        values,
        itemsize,
        strings,
        tuple(map(decompress, node.children)),
    )
