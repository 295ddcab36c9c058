"""Compression on the GPU, stages 2 to 5: encode, transpose and gather in one kernel, then compact.

Here is what launches them, and the way of columns that are encoded at once; `cuda_long` has that of longer ones.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane
from ...device.transfer import Outbox
from ...profiling import COMPACT, ENCODE
from ..cuda_kernels import blocks
from .cuda_kernels import get_kernel
from .cuda_room import ColumnTables, Cut, Results, Room, RoomColumn, Slot
from .cuda_tables import Exported, download_counts, find_cuts, host_tables, pack_rows, packs
from .cuda_task import TileEncoder
from .launch import BUNDLE_TILES, COMPACT_BUNDLES
from .layout import SECTIONS, TILE_BLOCK
from .views import WORD, WaveView, words

_BLOCK_STARTS, _TILE_LENGTHS = SECTIONS.index("block_starts"), SECTIONS.index("tile_lengths")
_WAVE_WORDS = len(WaveView._fields)
_KNOWN = WaveView._fields.index("tiles")  # fields of a wave that are known before its segment is cut


class WaveSetup(NamedTuple):
    """What all waves of a launch share; `tables_nbytes`: of the lookup tables of one."""

    encoder: TileEncoder
    tile_size: int
    tables_nbytes: int


def make_wave(
    room: Room, i: int, planned: int, tables: ColumnTables, table: int, slot: Slot, capacity: int = 0
) -> WaveView:
    """The first tiles of a segment of column `i`; `capacity`: of a slot that is smaller than they may need."""
    column, places, at = room.columns[i], room.count_places[i], room.counts_at
    address, nbytes = tables.place(table)
    return WaveView(
        at + WORD * places.first_char,
        at + WORD * (places.chars_begin + planned),
        address,
        column.encoder.staged(column.tile_size, nbytes),
        0,
        column.tile_limit,
        *slot,
        at + WORD * (places.codes_nbytes + planned),
        column.pool or capacity,
        at + WORD * (places.used + (planned if capacity else 0)),
        at + WORD * (places.taken + planned),
    )


def setup_of(column: RoomColumn, tables: ColumnTables, table: int) -> WaveSetup:
    return WaveSetup(column.encoder, column.tile_size, tables.place(table)[1])


@ENCODE
def encode(lane: Lane, setup: WaveSetup, waves_at: int, groups: int, most_tiles: int, per_group: int = 1) -> None:
    """Stages 2 to 4 of groups of so many waves each, the longest of which has at most so many tiles."""
    encoder, tile_size, tables_nbytes = setup
    encoder.encode(lane, tile_size, tables_nbytes, waves_at, groups, most_tiles, per_group)


@COMPACT
def compact(lane: Lane, setup: WaveSetup, waves_at: int, count: int, most_tiles: int, codes: int = 0) -> None:
    """Stage 5 of waves; `codes`: of one wave, where it was not known when the wave was uploaded."""
    kernel = get_kernel("text_compact", "text_compact", setup.tile_size)
    grid = blocks(most_tiles, BUNDLE_TILES * COMPACT_BUNDLES)
    lane.launch(kernel, (grid, count), 256, (waves_at, codes))


def with_places(wave: WaveView, cut: Cut, tiles: int, before: int, meta: int, codes: int = 0) -> WaveView:
    """A wave as text_compact needs it: with where its tiles go in ``meta`` and codes at these addresses."""
    layout, first = cut.layout, wave.tile_begin
    block_starts = meta + layout.places[_BLOCK_STARTS] + 8 * (first // TILE_BLOCK)
    lengths = meta + layout.places[_TILE_LENGTHS] + layout.tile_length_itemsize * first
    return WaveView._make((*wave[:_KNOWN], tiles, before, block_starts, lengths, codes))


class _Run(NamedTuple):
    """Waves of one launch: all those of some columns of one setup, each column a group."""

    setup: WaveSetup
    waves_at: int
    columns: Sequence[int]
    per_group: int


class Waves(NamedTuple):
    """The waves of columns that are encoded at once, in the order of `runs`, and the segments that they are of."""

    runs: Sequence[_Run]
    views: Sequence[WaveView]
    order: Mapping[tuple[int, int], int]  # number of a wave, by column and the segment's number in its plan


def waves_at_once(room: Room, tables: Sequence[ColumnTables]) -> Waves:
    """What encodes columns at once; to be uploaded to ``waves_at``."""
    by_setup: dict[tuple[int, int, int], list[int]] = {}
    for i, column in enumerate(room.columns):
        key = column.tile_size, tables[i].place(0)[1], column.segments
        by_setup.setdefault(key, []).append(i)
    runs: list[_Run] = []
    order: dict[tuple[int, int], int] = {}
    for (tile_size, nbytes, segments), columns in by_setup.items():
        setup = WaveSetup(room.encoder, tile_size, nbytes)
        runs.append(_Run(setup, room.waves_at + WORD * _WAVE_WORDS * len(order), columns, segments))
        for i in columns:
            for planned in range(segments):
                order[i, planned] = len(order)
    first = room.first_slot
    views = [make_wave(room, i, planned, tables[i], 0, room.slots[first[i] + planned]) for i, planned in order]
    return Waves(runs, views, order)


def encode_at_once(room: Room, waves: Waves) -> npt.NDArray[np.int64]:
    """Stages 2 to 4 of columns that are encoded at once; what is counted of them, when it has been waited for."""
    lane = _encoded_beside(room) or room.lane
    if room.scopes:  # else the columns brought them along
        lane.send(room.waves_at, words(waves.views))
    for setup, waves_at, of_run, per_group in waves.runs:
        most_tiles = per_group * max([room.columns[i].tile_limit for i in of_run])
        encode(lane, setup, waves_at, len(of_run), most_tiles, per_group)
    return download_counts(room, room.lane)


def _encoded_beside(room: Room) -> Lane | None:
    """The side stream in which columns are encoded at once, if there is one: the rows are known before."""
    return room.side[0] if room.side and not room.host_lookup else None


def finish_at_once(
    room: Room,
    tables: Sequence[ColumnTables],
    waves: Waves,
    counts: npt.NDArray[np.int64],
    exported: Exported,
    results: Results,
    outbox: Outbox | None,
) -> Generator[Any, None, bool]:
    """Stage 5 of columns that are encoded at once.

    Where they are encoded in a side stream, rows are packed meanwhile, and there is a wait for the sizes of codes.

    Returns
    -------
    bool
        False, and nothing is kept, where codes are more than have room.
    """
    lane, side = room.lane, _encoded_beside(room)
    numbers = counts.tolist()
    cuts = [(i, cut) for i, of_column in enumerate(find_cuts(room, numbers)) for cut in of_column]
    if [cut for _, cut in cuts if cut.layout.tiles > cut.column.tile_limit]:
        room.side[0].synchronize()  # copies to the host may be under way
        return False
    sizes = _sizes(room, cuts, numbers) if side is None else []
    if min(sizes, default=0) < 0:
        return False
    buffers = results.allocate_all(lane, [*[cut.layout.meta_nbytes for _, cut in cuts], *sizes])
    metas, codes = buffers[: len(cuts)], buffers[len(cuts) :]
    addresses = [results.buffers[number].ptr for number in buffers]
    metas_at, codes_at = addresses[: len(cuts)], addresses[len(cuts) :]
    rows = packs(room, cuts, metas_at)
    alone = len(waves.views) == 1
    if side is None:  # the waves lie before the rows
        lane.send(room.waves_at, words([*_complete(waves, cuts, metas_at, codes_at), *rows]))
        pack_rows(room, rows, lane)
    else:
        lane.send(room.packs_at, words(rows))
        pack_rows(room, rows, lane)
        placed = _complete(waves, cuts, metas_at, [0] * len(cuts))
        if alone:  # the launch says where the codes go
            side.send(room.waves_at, words(placed))
        counts = download_counts(room, side)
        lane.follow(side)
        yield side  # rows may be packed when the encoder has left the multiprocessors, and nobody waits for them
        if min(sizes := _sizes(room, cuts, counts.tolist())) < 0:
            results.forget(metas)
            return False
        codes = results.allocate_all(lane, sizes)
        codes_at = [results.buffers[number].ptr for number in codes]
        if not alone:
            for (i, cut), to in zip(cuts, codes_at, strict=True):
                number = waves.order[i, cut.planned]
                placed[number] = WaveView._make((*placed[number][:-1], to))
            lane.send(room.waves_at, words(placed))
    longest = [0] * len(room.columns)
    for i, cut in cuts:
        longest[i] = max(longest[i], cut.layout.tiles)
    for setup, waves_at, of_run, per_group in waves.runs:
        most_tiles = max([longest[i] for i in of_run])
        to = codes_at[0] if alone else 0
        compact(lane, setup, waves_at, len(of_run) * per_group, most_tiles, to)
    of_host = host_tables(room, tables, exported)
    for (i, cut), meta, of_cut, size in zip(cuts, metas, codes, sizes, strict=True):
        if outbox is not None:
            results.send(meta, outbox, lane)
            results.send(of_cut, outbox, lane)
        results.add(cut, of_host[i][cut.table], meta, of_cut, size)
    return True


def _sizes(room: Room, cuts: Sequence[tuple[int, Cut]], numbers: Sequence[int]) -> list[int]:
    """Bytes of the codes of segments, each with its column's number."""
    return [numbers[room.count_places[i].codes_nbytes + cut.planned] for i, cut in cuts]


def _complete(
    waves: Waves, cuts: Sequence[tuple[int, Cut]], metas: Sequence[int], codes: Sequence[int]
) -> list[WaveView]:
    """Waves as text_compact needs them, by addresses of each segment; those of segments without rows as they are."""
    placed = list(waves.views)
    for (i, cut), meta, to in zip(cuts, metas, codes, strict=True):
        number = waves.order[i, cut.planned]
        placed[number] = with_places(placed[number], cut, cut.layout.tiles, 0, meta, to)
    return placed
