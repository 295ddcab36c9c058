"""Columns of any type in GPU memory: compress their buffers, and get them back; the same bytes as `host`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..buffers import ColumnBuffers, DeviceStrings
from ..device.memory import Lane
from ..device.transfer import Outbox
from .fsst import cuda as fsst
from .fsst.segment import Segment
from .host import Compressor
from .node import Node, Parts, Wanted, has_offsets, is_strings
from .values import cuda as fixed
from .values import plan


def compress(columns: Sequence[Wanted], *, lane: Lane, outbox: Outbox | None = None) -> list[Node]:
    """Compress columns; `outbox`: where their parts go as soon as they are made."""
    return [DeviceCompressor(one.codec, one.strings, lane, outbox).node(one.column) for one in columns]


def read(nodes: Sequence[Node], *, lane: Lane, start: int = 0, stop: int | None = None) -> list[ColumnBuffers]:
    """Rows ``start:stop`` of columns; all without a `stop`."""
    return [decompress(node, lane) for node in nodes]


class DeviceCompressor(Compressor):
    """Compress `ColumnBuffers` in GPU memory, with the same bytes."""

    def __init__(self, codec: str | None, strings: Mapping[str, Any], lane: Any, outbox: Any = None) -> None:
        super().__init__(codec, strings)
        self.lane, self.outbox = lane, outbox

    def compress_strings(self, strings: Any) -> list[Segment]:
        return fsst.compress(strings, stream=self.lane.given, outbox=self.outbox, **self.strings)

    def _sent(self, stream: Parts) -> Parts:
        """What is in GPU memory, or on its way to the host if there is an outbox."""
        return stream if self.outbox is None else tuple(self.outbox.send_parts(stream, self.lane))

    def compress_validity(self, column: ColumnBuffers) -> Parts:
        bitmap = self.lane.allocate(-(-column.rows // 32) * 4)
        fixed.copy_bits(column.validity, column.validity_offset, column.rows, out=bitmap.ptr, lane=self.lane)
        return self._sent(fixed.compress(fixed.Source(bitmap.ptr, -(-column.rows // 8), 1), lane=self.lane))

    def compress_values(self, column: ColumnBuffers) -> tuple[Parts, ...]:
        options, wide = self.wanted(column), column.itemsize == 16
        offsets = has_offsets(column.type)
        nulls = (column.validity, column.validity_offset) if column.null_count and not offsets else (0, 0)
        streams = []
        for half in (0, 1) if wide else (None,):
            source = fixed.Source(column.values, column.rows + offsets, 8 if wide else column.itemsize, half, *nulls)
            signed = options["signed"] and half != 0
            stream = fixed.compress(source, **{**options, "signed": signed}, lane=self.lane)
            streams.append(self._sent(stream))
        return tuple(streams)


def decompress(node: Node, lane: Any) -> ColumnBuffers:
    """Buffers of a column in GPU memory: ``owners`` are validity and values, `rmm.DeviceBuffer` each or None."""
    validity = values = None
    itemsize = 0
    strings: DeviceStrings | None = None
    if is_strings(node.type):
        strings = fsst.decompress(node.segments, stream=lane.given)
    if node.validity:
        # cuDF's masks are padded to 64 bytes.
        validity = lane.allocate(-(-node.rows // 512) * 64)
        lane.zero(validity.ptr, validity.size)
        fixed.decompress(node.validity, validity.ptr, lane=lane)
    if node.values:
        rows = plan.pieces_rows(node.values[0])
        width = node.values[0][0].itemsize
        itemsize = width * len(node.values)
        values = lane.allocate(rows * itemsize)
        if len(node.values) == 1:
            fixed.decompress(node.values[0], values.ptr, lane=lane)
        else:
            low, high = node.values
            fixed.decompress_wide(low, high, values.ptr, lane=lane)
    return ColumnBuffers(
        node.type,
        node.rows,
        node.null_count,
        None if validity is None else validity.ptr,
        0,
        None if values is None else values.ptr,
        itemsize,
        strings,
        tuple(decompress(child, lane) for child in node.children),
        (validity, values),
    )
