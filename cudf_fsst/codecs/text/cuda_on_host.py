"""Text in GPU memory that the host compresses: the way of codecs that have no kernels to encode.

What is stored is the same. It takes as long as on the host, and two copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...buffers import CharactersUnderNulls, DeviceStrings, HostStrings
from ...device.memory import Lane
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..contract import TextCodec
from ..table import Table
from . import cpu, cpu_kernels
from .layout import check_options
from .segment import Segment


def compress(codecs: Sequence[TextCodec], tasks: Sequence[Any], *, lane: Lane, outbox: Outbox | None = None) -> Steps:
    """Compress columns, each scope by the codec with which it is expected to be smallest.

    See `contract.DeviceTextCodec`.

    Raises
    ------
    ValueError
        A wrong argument.
    CharactersUnderNulls
        Null rows have characters.
    """
    columns: list[list[Segment]] = []
    for task in tasks:
        check_options(task.tile_size, task.level)
        strings = cpu.checked(fetch(task.strings, lane))
        scopes = enumerate(cpu.scopes_of(strings.offsets) if strings.rows else ())
        wanted = [scope for i, scope in scopes if task.only is None or i in task.only]
        options = {"table": task.table, "tile_size": task.tile_size, "level": task.level}
        segments = cpu.encode(strings, wanted, codecs, **options)
        columns.append(segments if outbox is not None else [_to_device(segment, lane) for segment in segments])
    yield  # uploads may be under way
    return columns


def train(codec: TextCodec, strings: DeviceStrings, *, level: str, stream: Any) -> Table:
    """Train one table on a whole column."""
    with Lane(stream) as lane:
        return cpu.train(fetch(strings, lane), codec, level=level)


def fetch(strings: DeviceStrings, lane: Lane) -> HostStrings:
    """A column in host memory, which is waited for; CharactersUnderNulls where null rows have characters."""
    if not strings.rows:  # such a column may have no offsets
        return HostStrings(0, np.empty(0, np.uint8), np.zeros(1, np.int32))
    offsets = lane.read(strings.offsets, strings.rows + 1, f"<i{strings.offsets_itemsize}")
    first, last = int(offsets[0]), int(offsets[-1])
    chars = lane.read(strings.chars + first, last - first, np.uint8) if last > first else np.empty(0, np.uint8)
    host = HostStrings(strings.rows, chars, offsets - offsets[0])
    if strings.null_count:
        nbytes = -(-(strings.validity_offset + strings.rows) // 8)
        host.validity, host.validity_offset = lane.read(strings.validity, nbytes, np.uint8), strings.validity_offset
        host.null_count = strings.null_count
        where = host.offsets.ctypes.data, host.offsets.itemsize, host.rows
        if cpu_kernels.nulls_have_chars(*where, host.validity.ctypes.data, host.validity_offset):
            raise CharactersUnderNulls
    return host


def _to_device(segment: Segment, lane: Lane) -> Segment:
    meta, codes = lane.allocate(segment.meta.size), lane.allocate(segment.codes.size)
    lane.upload(meta.ptr, segment.meta)
    lane.upload(codes.ptr, segment.codes)
    return Segment(segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes)
