"""Compression on the GPU, stage 1: tables; and beside it the rows: where segments begin, and what is stored of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import CharactersUnderNulls
from ...device.memory import Lane, current_device, device_attributes
from ...lazy import weakly_cached
from ...profiling import MEASURE
from ..cuda_kernels import blocks
from ..table import Table
from . import launch
from .cuda_kernels import get_kernel
from .cuda_room import ColumnTables, Cut, Room, RoomColumn
from .layout import ROW_BLOCK, SegmentLayout
from .views import WORD, ColumnView, CountPlaces, PackView, ScopeView, WaveView, words

_u32 = np.uint32
_SCAN_THREADS = 1024
_CLEARED = 16 << 10  # bytes that a block clears
_MANY_ROW_BLOCKS = 1 << 15

#: What training exports of tables, on its way to the host; None without any.
Exported = npt.NDArray[np.uint8] | None


def _describe(room: Room, waves: Sequence[WaveView]) -> int:
    """Upload what the first kernels have to know, and waves; the number of row blocks."""
    columns: list[ColumnView] = []
    scopes: list[ScopeView] = []
    row_blocks = 0
    for column, places, row_words in zip(room.columns, room.count_places, room.row_words, strict=True):
        strings, at = column.task.strings, room.counts_at + WORD * places.rows_begin
        columns.append(
            ColumnView(
                strings.chars,
                strings.offsets,
                strings.offsets_itemsize == 8,
                strings.rows,
                strings.validity if strings.null_count else 0,
                strings.validity_offset,
                column.segment_size,
                column.segments,
                at,
                row_words,
                row_blocks,
            )
        )
        row_blocks += column.row_blocks
        if column.scopes:
            scopes += scope_views(column, at, column.encoder.tables_form(column.tile_size))
    room.lane.send(room.views_at, words(chain(columns, scopes, waves)))
    return row_blocks


def scope_views(column: RoomColumn, counts: int, form: int) -> list[ScopeView]:
    """The scopes of a column, whose rows are counted at address `counts`; `form`: see `TileEncoder.tables_form`."""
    each = column.per_table
    return [ScopeView(counts, column.segments, each * i, each, form) for i in range(column.scopes)]


@MEASURE
def launch_first_stage(room: Room, waves: Sequence[WaveView] = (), *, rows: bool = True) -> Exported:
    """Start to cut all columns, to train their tables (stage 1), and to measure their `rows`; what training exports.

    `waves`: those that are known already, which are uploaded along with the columns.
    """
    lane, columns = room.lane, len(room.columns)
    row_blocks = _describe(room, waves)
    most = max([column.segments for column in room.columns])
    views, cleared_nbytes = room.views_at, room.training.each.cleared * room.scopes
    few_rows = most == 1 and max([column.task.strings.rows for column in room.columns]) <= launch.LOOK_ROWS
    if few_rows and not cleared_nbytes:
        lane.launch(get_kernel("row_lengths", "row_lengths_look"), columns, _SCAN_THREADS, (views,))
        _let_go(room)
        return _train(room) if room.scopes else None
    # Training needs no more than where segments begin, so in a side stream it need not wait for the rest.
    lane.launch(
        get_kernel("row_lengths", "segment_begins"),
        (max(blocks(most + 1, 128 // 32), blocks(cleared_nbytes, _CLEARED * columns)), columns),
        128,
        (views, room.training.cleared, cleared_nbytes),
    )
    _let_go(room)

    def measure() -> None:
        lane.launch(
            get_kernel("row_lengths", "row_lengths_measure"),
            launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
            launch.ROW_THREADS,
            (views, _u32(columns), row_blocks),
        )
        lane.launch(get_kernel("row_lengths", "row_lengths_scan"), (most, columns), _SCAN_THREADS, (views,))

    # Many rows are measured while the host prepares training that takes the whole GPU, or they would wait for it.
    first = rows and room.encoder.trains_everywhere and row_blocks > _MANY_ROW_BLOCKS
    if first:
        measure()
    exported = _train(room) if room.scopes else None
    if rows and not first:
        measure()
    return exported


def _let_go(room: Room) -> None:
    """Have the first and the last side stream go on as soon as it is known where segments begin."""
    if room.side:
        for lane in (*room.side[:1], *room.side[1:][-1:]):
            lane.follow(room.lane)


def _train(room: Room) -> npt.NDArray[np.uint8]:
    """Stage 1: start training a table for every scope, in the side stream if there is one."""
    lane, training = room.side[0] if room.side else room.lane, room.training
    room.encoder.train(lane, training)
    return lane.fetch(training.exported, training.each.exported * room.scopes, np.uint8)


def download_counts(room: Room, lane: Lane) -> npt.NDArray[np.int64]:
    return lane.fetch(room.counts_at, room.count_places[-1].end, np.int64)


def check_nulls(room: Room, numbers: Sequence[int]) -> None:
    """Raise CharactersUnderNulls where null rows have characters."""
    for places in room.count_places:
        if numbers[places.null_chars]:
            raise CharactersUnderNulls(f"{numbers[places.null_chars]} characters under nulls")


def find_cuts(room: Room, numbers: Sequence[int]) -> list[Iterator[Cut]]:
    """Segments of every column."""
    check_nulls(room, numbers)
    return [_cuts(column, places, numbers) for column, places in zip(room.columns, room.count_places, strict=True)]


def _cuts(column: RoomColumn, places: CountPlaces, numbers: Sequence[int]) -> Iterator[Cut]:
    count = 0
    for k in range(column.segments):
        row, next_row = numbers[places.rows_begin + k : places.rows_begin + k + 2]
        if row == next_row:
            continue
        char, next_char = numbers[places.chars_begin + k : places.chars_begin + k + 2]
        rows, chars, nulls, words = (
            next_row - row,
            next_char - char,
            numbers[places.nulls + k],
            numbers[places.words + k],
        )
        layout = SegmentLayout(rows, chars, column.tile_size, nulls > 0, words)
        yield Cut(column, k, count // column.per_table, row, rows, char, chars, nulls, words, layout)
        count += 1


@weakly_cached()
def _copies(_table: Table) -> dict[tuple[Any, ...], tuple[Any, Any, int]]:
    """By device, encoder and tile size: the lookup tables' copy there, an event behind its upload, and its bytes."""
    return {}


def _device_copy(table: Table, column: RoomColumn, lane: Lane) -> tuple[tuple[int, int], Any]:
    """Where the lookup tables of a given table are, and what owns them; they stay on the GPU as long as it lives."""
    encoder = column.encoder
    key, of_table = (current_device(), encoder, column.tile_size), _copies(table)
    if key not in of_table:
        image = encoder.lookup(table, encoder.tables_form(column.tile_size))
        buffer = lane.allocate(image.nbytes)
        lane.upload(buffer.ptr, image)
        of_table[key] = buffer, lane.event(), image.nbytes
    buffer, uploaded, nbytes = of_table[key]
    if uploaded is not None:
        lane.stream.wait_event(uploaded)
        if uploaded.done:
            of_table[key] = buffer, None, nbytes
    return (buffer.ptr, nbytes), buffer


def _given(column: RoomColumn, lane: Lane) -> ColumnTables:
    """Tables that were given: one for all scopes, or one for each, of which those that nobody wants are None."""
    task = column.task
    tables = [task.table] if task.table is not None else task.tables
    lookups = task.lookups or [None] * len(tables)
    placed = [
        ((0, 0), None)
        if table is None
        else _device_copy(table, column, lane)
        if lookup is None
        else ((lookup.ptr, lookup.size), lookup)
        for table, lookup in zip(tables, lookups, strict=True)
    ]
    return ColumnTables([place for place, _ in placed].__getitem__, tables, [owner for _, owner in placed])


def _trained(at: int, each: int) -> ColumnTables:
    """Tables whose lookup tables lie one behind another, `each` bytes apart."""
    return ColumnTables(lambda number: (at + each * number, each))


def _looked_up_by_host(at: int, room: Room, column: RoomColumn, tables: Sequence[Table]) -> ColumnTables:
    """Tables whose lookup tables the host makes, and uploads to that address.

    It does so when they are asked for: those of the first segments, and while the GPU encodes these, those of the
    others.
    """

    @cache
    def place(number: int) -> tuple[int, int]:
        image = column.encoder.lookup(tables[number], column.encoder.tables_form(column.tile_size))
        address = at + room.training.each.lookup * number
        room.lane.upload(address, image)
        return address, image.nbytes

    return ColumnTables(place, tables)


def place_tables(room: Room, exported: Exported = None) -> list[ColumnTables]:
    """Where the encoder finds the tables of every column. `exported`: of those that the host looks symbols up in."""
    trained = [] if exported is None else room.encoder.tables(exported, room.scopes)
    each, every = room.training.each.lookup, []
    for column, first in zip(room.columns, room.first_scope, strict=True):
        at = room.training.lookup + each * first
        if not column.scopes:
            every.append(_given(column, room.lane))
        elif room.host_lookup:
            every.append(_looked_up_by_host(at, room, column, trained[first : first + column.scopes]))
        else:
            every.append(_trained(at, each))
    return every


def host_tables(room: Room, tables: Sequence[ColumnTables], exported: Exported) -> list[Sequence[Table]]:
    """The tables of every column, when training has ended."""
    trained = [] if exported is None or room.host_lookup else room.encoder.tables(exported, room.scopes)
    return [
        there.of_host or trained[first : first + column.scopes]
        for column, first, there in zip(room.columns, room.first_scope, tables, strict=True)
    ]


def packs(room: Room, cuts: Sequence[tuple[int, Cut]], metas: Sequence[int]) -> list[PackView]:
    """What writes row lengths and validity of segments, each with its column's number, to `metas`, addresses.

    To be uploaded to ``packs_at``.
    """
    views, row_blocks = [], 0
    for (i, cut), meta in zip(cuts, metas, strict=True):
        strings, row_words = room.columns[i].task.strings, room.row_words[i]
        itemsize = strings.offsets_itemsize
        places = [meta + place for place in cut.layout.places[:-1]]
        views.append(
            PackView(
                strings.offsets + itemsize * cut.rows_begin,
                itemsize == 8,
                cut.rows,
                cut.chars,
                row_words + 4 * (cut.rows_begin // ROW_BLOCK + cut.planned),
                row_blocks,
                strings.validity if cut.nulls else 0,
                strings.validity_offset + cut.rows_begin,
                cut.column.tile_size.bit_length() - 1,
                cut.words,
                *places,
            )
        )
        row_blocks += cut.layout.row_blocks
    return views


def pack_rows(room: Room, views: Sequence[PackView], lane: Lane) -> None:
    """Launch what `packs` describes."""
    row_blocks = views[-1].first_row_block + blocks(views[-1].rows, ROW_BLOCK)
    lane.launch(
        get_kernel("row_lengths", "row_lengths_pack"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (room.packs_at, _u32(len(views)), row_blocks),
    )
