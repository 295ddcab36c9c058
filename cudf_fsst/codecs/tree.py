"""A column of any type, compressed: a tree of nodes as its Arrow type has them, whose buffers the codecs made."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..buffers import ColumnBuffers, DeviceStrings, HostStrings
from .fsst.segment import Segment
from .packed import Packed
from .values import plan
from .values.plan import CODECS

Stream = tuple[Packed, ...]
Moved = Packed | Segment
#: What `codecs=` may name for a column.
NAMES = ("fsst", *CODECS)


@dataclass(frozen=True, eq=False)
class Node:
    """A column, or a part of a nested one. Immutable; equal to itself alone.

    Attributes
    ----------
    type : pyarrow.DataType
    rows, null_count : int
    validity : tuple of Packed
        Arrow validity bitmap, row 0 at bit 0, as bytes; () without nulls, and for strings, whose segments have it.
    streams : tuple of tuple of Packed
        One, of the values (`ColumnBuffers.values`); two of numbers of 16 bytes, the low halves and the high ones; none
        of strings, structs and nulls.
    segments : tuple of Segment
        Of strings.
    children : tuple of Node
    """

    type: Any
    rows: int
    null_count: int
    validity: Stream = ()
    streams: tuple[Stream, ...] = ()
    segments: tuple[Segment, ...] = ()
    children: tuple[Node, ...] = ()

    @property
    def parts(self) -> Iterator[Moved]:
        """Everything that has buffers, in stored order."""
        yield from self.validity
        for stream in self.streams:
            yield from stream
        yield from self.segments
        for child in self.children:
            yield from child.parts

    def with_parts(self, parts: Iterator[Moved]) -> Node:
        """The same with other parts, taken in the order of `parts`."""

        def some(old: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(next(parts) for _ in old)

        return replace(
            self,
            validity=some(self.validity),
            streams=tuple(some(stream) for stream in self.streams),
            segments=some(self.segments),
            children=tuple(child.with_parts(parts) for child in self.children),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers and symbol tables."""
        parts = list(self.parts)
        tables = {part.table for part in parts if isinstance(part, Segment)}
        return sum(part.nbytes for part in parts) + sum(table.nbytes for table in tables)

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of the column in Arrow (cuDF's booleans take 8 times what these do).

        Nulls without a type, and structs without fields, have no buffers in Arrow, but pandas and cuDF make some. They
        count as strings that are all null, which is what cuDF makes of nulls.
        """
        if pa.types.is_null(self.type) or (pa.types.is_struct(self.type) and not self.children):
            return -(-self.rows // 8) + (self.rows + 1) * 4
        mask = -(-self.rows // 8) if self.null_count else 0
        if self.segments:
            chars = sum(segment.chars for segment in self.segments)
            return mask + chars + (self.rows + 1) * (4 if chars < 2**31 else 8)
        values = sum(piece.values_nbytes for stream in self.streams for piece in stream)
        if pa.types.is_boolean(self.type):
            values = -(-values // 8)
        return mask + values + sum(child.uncompressed_nbytes for child in self.children)

    @property
    def codec(self) -> str:
        """The codec of its values; of a nested column, of its leaves."""
        if is_strings(self.type):
            return "fsst"
        own = [stream[0].codec for stream in self.streams if stream]
        return ", ".join(dict.fromkeys([*own, *(child.codec for child in self.children if child.rows)])) or "raw"


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
        validity: Stream = ()
        streams: tuple[Stream, ...] = ()
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
            streams = self.compress_values(column)
        return Node(
            column.type,
            column.rows,
            column.null_count,
            validity,
            streams,
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
        from .fsst import cpu

        return cpu.compress(strings, **self.strings)

    def compress_validity(self, column: ColumnBuffers) -> Stream:
        from .values import cpu

        return cpu.compress(_rebased(column.validity, column.validity_offset, column.rows))

    def compress_values(self, column: ColumnBuffers) -> tuple[Stream, ...]:
        from .values import cpu

        options = self.wanted(column)
        halves = [column.values]
        if column.itemsize == 16:
            halves = [np.ascontiguousarray(column.values[:, half]) for half in range(2)]
        if column.null_count and not has_offsets(column.type):
            halves = [cpu.fill_nulls(half, column.validity, column.validity_offset) for half in halves]
        return tuple(
            cpu.compress(half, **{**options, "signed": options["signed"] and i == len(halves) - 1})
            for i, half in enumerate(halves)
        )


def has_offsets(arrow_type: Any) -> bool:
    """Whether a column's values are offsets: one more than rows, and none of them null."""
    return bool(pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type))


def is_signed(arrow_type: Any) -> bool:
    """Whether values, as integers, have a sign."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return bool(types.is_signed_integer(arrow_type.index_type))
    return bool(types.is_signed_integer(arrow_type) or types.is_temporal(arrow_type) or types.is_decimal(arrow_type))


def _rebased(validity: npt.NDArray[np.uint8], offset: int, rows: int) -> npt.NDArray[np.uint8]:
    """A bitmap's bytes with row 0 at bit 0 and zeros past the last row."""
    first = offset // 8
    bits = np.unpackbits(validity[first : (offset + rows + 7) // 8], bitorder="little")
    return np.packbits(bits[offset - 8 * first :][:rows], bitorder="little")


def decompress(node: Node) -> ColumnBuffers:
    """Buffers of a column on the host."""
    from .fsst import cpu as fsst
    from .values import cpu

    validity = values = None
    itemsize = 0
    strings: HostStrings | None = None
    if is_strings(node.type):
        strings = fsst.decompress(node.segments)
    if node.validity:
        validity = cpu.decompress(node.validity, 1)
    if node.streams:
        itemsize = node.streams[0][0].itemsize * len(node.streams)
        halves = [cpu.decompress(stream, stream[0].itemsize) for stream in node.streams]
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


def is_strings(arrow_type: Any) -> bool:
    """Whether a column's values are strings of bytes."""
    types = pa.types
    return any(
        kind(arrow_type) for kind in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )


class DeviceCompressor(Compressor):
    """Compress `ColumnBuffers` in GPU memory, with the same bytes."""

    def __init__(self, codec: str | None, strings: Mapping[str, Any], lane: Any, outbox: Any = None) -> None:
        super().__init__(codec, strings)
        self.lane, self.outbox = lane, outbox

    def compress_strings(self, strings: Any) -> list[Segment]:
        from .fsst import cuda

        return cuda.compress(strings, stream=self.lane.given, outbox=self.outbox, **self.strings)

    def _sent(self, stream: Stream) -> Stream:
        """What is in GPU memory, or on its way to the host if there is an outbox."""
        return stream if self.outbox is None else tuple(self.outbox.send_parts(stream, self.lane))

    def compress_validity(self, column: ColumnBuffers) -> Stream:
        from .values import cuda

        bitmap = self.lane.allocate(-(-column.rows // 32) * 4)
        cuda.copy_bits(column.validity, column.validity_offset, column.rows, out=bitmap.ptr, lane=self.lane)
        return self._sent(cuda.compress(cuda.Source(bitmap.ptr, -(-column.rows // 8), 1), lane=self.lane))

    def compress_values(self, column: ColumnBuffers) -> tuple[Stream, ...]:
        from .values import cuda

        options, wide = self.wanted(column), column.itemsize == 16
        offsets = has_offsets(column.type)
        nulls = (column.validity, column.validity_offset) if column.null_count and not offsets else (0, 0)
        streams = []
        for half in (0, 1) if wide else (None,):
            source = cuda.Source(column.values, column.rows + offsets, 8 if wide else column.itemsize, half, *nulls)
            signed = options["signed"] and half != 0
            stream = cuda.compress(source, **{**options, "signed": signed}, lane=self.lane)
            streams.append(self._sent(stream))
        return tuple(streams)


def decompress_on_device(node: Node, lane: Any) -> ColumnBuffers:
    """Buffers of a column in GPU memory: ``owners`` are validity and values, `rmm.DeviceBuffer` each or None."""
    from .fsst import cuda as fsst
    from .values import cuda

    validity = values = None
    itemsize = 0
    strings: DeviceStrings | None = None
    if is_strings(node.type):
        strings = fsst.decompress(node.segments, stream=lane.given)
    if node.validity:
        # cuDF's masks are padded to 64 bytes.
        validity = lane.allocate(-(-node.rows // 512) * 64)
        lane.zero(validity.ptr, validity.size)
        cuda.decompress(node.validity, validity.ptr, lane=lane)
    if node.streams:
        rows = plan.pieces_rows(node.streams[0])
        width = node.streams[0][0].itemsize
        itemsize = width * len(node.streams)
        values = lane.allocate(rows * itemsize)
        if len(node.streams) == 1:
            cuda.decompress(node.streams[0], values.ptr, lane=lane)
        else:
            low, high = node.streams
            cuda.decompress_wide(low, high, values.ptr, lane=lane)
    return ColumnBuffers(
        node.type,
        node.rows,
        node.null_count,
        None if validity is None else validity.ptr,
        0,
        None if values is None else values.ptr,
        itemsize,
        strings,
        tuple(decompress_on_device(child, lane) for child in node.children),
        (validity, values),
    )
