"""Whether codes in GPU memory decode to the bytes of their tiles: what `validate.check` may leave out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ...device.memory import Lane
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..registry import of_text
from .launch import CHECK_THREADS, CheckJob
from .layout import TILE_BLOCK
from .segment import Segment


def check_codes(segments: Sequence[tuple[str, Segment]], *, lane: Lane) -> None:
    """Raise ValueError where codes do not decode to the bytes of their tiles, as the host's `check_codes` does.

    Parameters
    ----------
    segments
        In GPU memory, of which all else was checked; and what errors call them.
    """
    segments = [(name, segment) for name, segment in segments if segment.layout.tiles]
    if not segments:
        return
    found = lane.allocate(8 * len(segments))
    lane.zero(found.ptr, found.size)
    tables, lengths = JobTables(), {}
    numbered = sorted(enumerate(segments), key=lambda item: item[1][1].codec)
    for codec, group in groupby(numbered, key=lambda item: item[1][1].codec):
        device, grids, fields, data = of_text(codec).device(), list[int](), list[int](), []
        for number, (_, segment) in group:
            layout, table = segment.layout, segment.table
            if table not in lengths:
                lengths[table] = device.check_table(table)
            data.append((len(fields) + CheckJob._fields.index("table"), lengths[table]))
            places = (segment.meta.ptr + layout.sections[name].offset for name in ("block_starts", "tile_lengths"))
            sizes = layout.tiles, layout.chars, layout.tile_size, 0, found.ptr + 8 * number
            fields += CheckJob._make((segment.codes.ptr, segment.codes_nbytes, *places, *sizes))
            grids.append(blocks(layout.tiles, TILE_BLOCK * CHECK_THREADS // 32))
        tables.add_jobs(device.check_kernel(), CHECK_THREADS, grids, fields, data=data)
    tables.launch(lane)
    for (name, segment), damage in zip(segments, lane.read(found.ptr, len(segments), np.uint64).tolist(), strict=True):
        if damage:
            tile, reason = divmod(~damage & 2**64 - 1, 8)
            raise ValueError(f"{name}: {of_text(segment.codec).host().REASONS[reason].format(tile)}")
