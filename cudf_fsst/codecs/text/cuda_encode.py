"""Compression on the GPU, stages 2 to 5: encode, transpose and gather in one kernel, then compact.

Here is what launches them, and the way of columns that are encoded at once; `cuda_long` has that of longer ones.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from ...device.memory import Lane
from ...device.transfer import Outbox
from ...profiling import COMPACT, ENCODE
from ..cuda_kernels import blocks
from .cuda_kernels import get_kernel
from .cuda_room import ColumnTables, Cut, Results, Room, RoomColumn, Slot
from .cuda_tables import Exported, download_found, find_cuts, host_tables, pack_rows, packs
from .cuda_task import TileEncoder
from .launch import COMPACT_PIECES, PIECE_TILES
from .layout import SECTIONS, TILE_BLOCK
from .views import WORD, WaveView, words

_u64 = np.uint64
_BLOCK_STARTS, _TILE_LENGTHS = SECTIONS.index("block_starts"), SECTIONS.index("tile_lengths")
_KNOWN = WaveView._fields.index("tiles")  # fields of a wave that are known before its segment is cut


class Kind(NamedTuple):
    """What all waves of a launch share; `tables_nbytes`: of the lookup tables of one."""

    encoder: TileEncoder
    tile_size: int
    tables_nbytes: int


def make_wave(
    room: Room, i: int, planned: int, tables: ColumnTables, table: int, slot: Slot, capacity: int = 0
) -> WaveView:
    """The first tiles of a segment of column `i`; `capacity`: of a slot that is smaller than they may need."""
    column, found, number = room.columns[i], room.found[i], room.number
    address, nbytes = tables.place(table)
    return WaveView(
        number(found.first_char),
        number(found.chars_begin + planned),
        address,
        column.encoder.staged(column.tile_size, nbytes),
        0,
        column.tile_limit,
        *slot,
        number(found.codes_nbytes + planned),
        column.pool or capacity,
        number(found.used + (planned if capacity else 0)),
        number(found.taken + planned),
    )


def kind_of(column: RoomColumn, tables: ColumnTables, table: int) -> Kind:
    return Kind(column.encoder, column.tile_size, tables.place(table)[1])


@ENCODE
def encode(lane: Lane, kind: Kind, waves_at: int, groups: int, most_tiles: int, per_group: int = 1) -> None:
    """Stages 2 to 4 of groups of so many waves each, the longest of which has at most so many tiles."""
    encoder, tile_size, tables_nbytes = kind
    encoder.encode(lane, tile_size, tables_nbytes, waves_at, groups, most_tiles, per_group)


@COMPACT
def compact(lane: Lane, kind: Kind, waves_at: int, count: int, most_tiles: int, codes: int = 0) -> None:
    """Stage 5 of waves; `codes`: of one wave, where it was not known when the wave was uploaded."""
    kernel = get_kernel("text_compact", "text_compact", kind.tile_size)
    grid = blocks(blocks(most_tiles, PIECE_TILES), COMPACT_PIECES)
    lane.launch(kernel, (grid, count), 256, (_u64(waves_at), _u64(codes)))


def with_places(wave: WaveView, cut: Cut, tiles: int, before: int, meta: int, codes: int = 0) -> WaveView:
    """A wave as text_compact needs it: with where its tiles go in ``meta`` and codes at these addresses."""
    layout, first = cut.layout, wave.tile_begin
    block_starts = meta + layout.places[_BLOCK_STARTS] + 8 * (first // TILE_BLOCK)
    lengths = meta + layout.places[_TILE_LENGTHS] + layout.tile_length_itemsize * first
    return WaveView._make((*wave[:_KNOWN], tiles, before, block_starts, lengths, codes))


class _Run(NamedTuple):
    """Waves of one launch: all those of some columns of a kind, each column a group."""

    kind: Kind
    waves_at: int
    columns: Sequence[int]
    per_group: int


@dataclass(frozen=True, eq=False)
class Waves:
    """The waves of columns that are encoded at once, in the order of `runs`, and the segments that they are of."""

    runs: Sequence[_Run]
    views: Sequence[WaveView]
    order: Sequence[tuple[int, int]]  # column, and the segment's number in its plan


def waves_at_once(room: Room, tables: Sequence[ColumnTables]) -> Waves:
    """What encodes columns at once; to be uploaded to ``waves_at``."""
    kinds: dict[tuple[int, int, int], list[int]] = {}
    for i, column in enumerate(room.columns):
        key = column.tile_size, tables[i].place(0)[1], column.segments
        kinds.setdefault(key, []).append(i)
    first_slot = list(accumulate((column.segments for column in room.columns), initial=0))
    runs: list[_Run] = []
    order: list[tuple[int, int]] = []
    for (*_, segments), columns in kinds.items():
        kind = kind_of(room.columns[columns[0]], tables[columns[0]], 0)
        runs.append(_Run(kind, room.waves_at + WORD * len(WaveView._fields) * len(order), columns, segments))
        order += ((i, planned) for i in columns for planned in range(segments))
    views = [make_wave(room, i, planned, tables[i], 0, room.slots[first_slot[i] + planned]) for i, planned in order]
    return Waves(runs, views, order)


def compress_at_once(
    room: Room,
    tables: Sequence[ColumnTables],
    waves: Waves,
    results: Results,
    outbox: Outbox | None,
    exported: Exported,
) -> Generator[None, None, bool]:
    """Stages 2 to 5 of columns that are encoded at once, before and after the wait for the sizes of codes.

    While work goes on in the side stream, there is a wait before it, for the rows: they are packed meanwhile.

    Returns
    -------
    bool
        False, and nothing is kept, where codes are more than have room.
    """
    lane, beside = room.lane, bool(room.side and not room.host_lookup)
    for kind, waves_at, of_kind, per_group in waves.runs:
        most_tiles = per_group * max(room.columns[i].tile_limit for i in of_kind)
        encode(room.side[0] if beside else lane, kind, waves_at, len(of_kind), most_tiles, per_group)
    found = download_found(room)
    yield
    numbers = found.tolist()
    cuts = [(i, cut) for i, of_column in enumerate(find_cuts(room, numbers)) for cut in of_column]
    if any(cut.layout.tiles > cut.column.tile_limit for _, cut in cuts):
        room.side[0].synchronize()  # copies to the host may be under way
        return False
    metas = results.allocate_all(lane, [cut.layout.meta_nbytes for _, cut in cuts])
    addresses = [results.buffers[meta].ptr for meta in metas]
    rows = packs(room, cuts, addresses)
    numbers_of = {(i, cut.planned): number for number, (i, cut) in enumerate(cuts)}
    of_waves = [numbers_of.get(place) for place in waves.order]  # None: a segment that got no rows
    complete = [
        wave if n is None else with_places(wave, cuts[n][1], cuts[n][1].layout.tiles, 0, addresses[n])
        for wave, n in zip(waves.views, of_waves, strict=True)
    ]
    alone = len(complete) == 1  # then the launch says where the codes go, and the wave is complete without
    if beside:
        lane.send(room.packs_at, words(rows))
        pack_rows(room, rows, lane)
        if alone:
            room.side[0].send(room.waves_at, words(complete))
        lane.follow(room.side[0])
        found = download_found(room)
        yield
        numbers = found.tolist()
    sizes = [numbers[room.found[i].codes_nbytes + cut.planned] for i, cut in cuts]
    if min(sizes) < 0:
        results.forget(metas)
        return False
    codes = results.allocate_all(lane, sizes)
    if not (beside and alone):
        complete = [
            wave if n is None else wave._replace(codes=results.buffers[codes[n]].ptr)
            for wave, n in zip(complete, of_waves, strict=True)
        ]
        lane.send(room.waves_at, words(chain(complete, () if beside else rows)))
    if not beside:
        pack_rows(room, rows, lane)
    longest = [0] * len(room.columns)
    for i, cut in cuts:
        longest[i] = max(longest[i], cut.layout.tiles)
    for kind, waves_at, of_kind, per_group in waves.runs:
        most_tiles = max(longest[i] for i in of_kind)
        to = results.buffers[codes[0]].ptr if alone else 0
        compact(lane, kind, waves_at, len(of_kind) * per_group, most_tiles, to)
    of_host = host_tables(room, tables, exported)
    for (i, cut), meta, made, size in zip(cuts, metas, codes, sizes, strict=True):
        for number in (meta, made):
            results.send(number, outbox, lane)
        results.add(cut, of_host[i][cut.table], meta, made, size)
    return True
