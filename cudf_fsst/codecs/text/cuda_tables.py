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
from ...lazy import kept_with
from ...profiling import MEASURE
from ..fsst import kernel_tables, launch, train_max
from ..fsst.cuda_kernels import blocks, get_kernel
from ..fsst.symbols import SymbolTable
from . import launch as text_launch
from .cuda_room import ColumnTables, Cut, Room, RoomColumn
from .cuda_task import TileEncoder, TrainingScope
from .layout import ROW_BLOCK, SegmentLayout
from .views import WORD, ColumnView, FoundPlaces, PackView, ScopeView, TableSearchView, WaveView, words

_u32, _u64 = np.uint32, np.uint64
_SCAN_THREADS = 1024
_CLEARED = 16 << 10  # bytes that a block clears

#: What fsst_train exports of its tables, on its way to the host; None without any.
Exported = npt.NDArray[np.void] | None


def _mixed(column: RoomColumn) -> bool:
    return launch.pairs_in_shared(column.tile_size, device_attributes()["shared_per_block"])


def _scopes_at(room: Room) -> int:
    return room.views_at + WORD * len(ColumnView._fields) * len(room.columns)


def _describe(room: Room, waves: Sequence[WaveView]) -> int:
    """Upload what the first kernels have to know, and waves; the number of row blocks."""
    columns: list[ColumnView] = []
    scopes: list[ScopeView] = []
    searches: list[int] = []
    row_blocks = 0
    for column, found, row_words in zip(room.columns, room.found, room.row_words, strict=True):
        strings, at = column.task.strings, room.number(found.rows_begin)
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
        each, mixed = column.per_table, _mixed(column)
        if column.source == "searched":
            searches += range(len(scopes), len(scopes) + column.scopes)
        scopes += [ScopeView(at, column.segments, each * i, each, mixed) for i in range(column.scopes)]
    views = [
        TableSearchView(
            _scopes_at(room) + WORD * len(ScopeView._fields) * scope,
            room.exported_at + kernel_tables.TRAINED_TABLE.itemsize * scope,
            room.searches_at + launch.SEARCH_NBYTES * number,
        )
        for number, scope in enumerate(searches)
    ]
    room.lane.send(room.views_at, words(chain(columns, scopes, views, waves)))
    return row_blocks


@MEASURE
def look(room: Room, waves: Sequence[WaveView] = ()) -> Exported:
    """Start to cut all columns, to train their tables (stage 1), and to measure their rows; what training exports.

    `waves`: those that are known already, which are uploaded along with the columns.
    """
    lane, columns = room.lane, len(room.columns)
    row_blocks = _describe(room, waves)
    most = max(column.segments for column in room.columns)
    views, counts_nbytes = _u64(room.views_at), room.pair_counts_nbytes
    few_rows = most == 1 and all(one.task.strings.rows <= launch.LOOK_ROWS for one in room.columns)
    if few_rows and not counts_nbytes:
        lane.launch(get_kernel("row_lengths", "row_lengths_look"), columns, _SCAN_THREADS, (views,))
        _let_go(room)
        return _train(room) if room.scopes else None
    # Training needs no more than where segments begin, so in a side stream it need not wait for the rest.
    lane.launch(
        get_kernel("row_lengths", "segment_begins"),
        (max(blocks(most + 1, 128 // 32), blocks(counts_nbytes, _CLEARED * columns)), columns),
        128,
        (views, _u64(room.pair_counts_at), _u64(counts_nbytes)),
    )
    _let_go(room)
    exported = _train(room) if room.scopes else None
    lane.launch(
        get_kernel("row_lengths", "row_lengths_measure"),
        text_launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        text_launch.ROW_THREADS,
        (views, _u32(columns), _u64(row_blocks)),
    )
    lane.launch(get_kernel("row_lengths", "row_lengths_scan"), (most, columns), _SCAN_THREADS, (views,))
    return exported


def _let_go(room: Room) -> None:
    """Have the first and the last side stream go on as soon as it is known where segments begin."""
    for lane in (*room.side[:1], *room.side[1:][-1:]):
        lane.follow(room.lane)


def _train_for(encoder: TileEncoder, room: Room, lane: Lane) -> npt.NDArray[np.void]:
    """Stage 1 of another codec; the bytes that it exports."""
    scopes: list[TrainingScope] = []
    sizes = encoder.training_nbytes(0)
    for column in room.columns:
        for _ in range(column.scopes):
            number = len(scopes)
            view = _scopes_at(room) + WORD * len(ScopeView._fields) * number
            lookup, exported = room.trained_at + sizes.lookup * number, room.exported_at + sizes.exported * number
            scopes.append(TrainingScope(view, lookup, exported, column.chars_limit))
    encoder.train(lane, scopes, room.training_views_at, room.training_at, room.training_nbytes)
    return lane.fetch(room.exported_at, sizes.exported * len(scopes), np.uint8)


def _train(room: Room) -> npt.NDArray[np.void]:
    """Stage 1: start training a table for every scope, in the side stream if there is one."""
    lane = room.side[0] if room.side else room.lane
    if room.columns[0].task.encoder is not None:
        return _train_for(room.columns[0].task.encoder, room, lane)
    scopes_at, shared = _scopes_at(room), device_attributes()["shared_per_block"]
    made = _u64(room.trained_at), _u64(room.exported_at)
    if launch.train_in_clusters(room.scopes, shared):
        lane.launch(
            get_kernel("fsst_train_cluster", "fsst_train_cluster"),
            launch.TRAIN_CLUSTER * room.scopes,
            launch.TRAIN_THREADS,
            (_u64(scopes_at), *made),
            launch.TRAIN_CLUSTER_NBYTES,
        )
    else:
        lane.launch(
            get_kernel("fsst_train", "fsst_train"),
            room.scopes,
            launch.TRAIN_THREADS,
            (_u64(scopes_at), _u64(room.pair_counts_at), _u64(room.scratch_at), *made),
            launch.train_places(shared).shared,
        )
    if room.searches:
        views_at = _u64(scopes_at + WORD * len(ScopeView._fields) * room.scopes)
        limit = max(column.chars_limit for column in room.columns if column.source == "searched")
        for step in launch.search_steps(room.searches, limit, train_max.ROUNDS):
            kernel = get_kernel("fsst_train_max", step.kernel)
            lane.launch(kernel, step.grid, step.threads, (views_at, *step.arguments))
    return lane.fetch(room.exported_at, room.scopes, kernel_tables.TRAINED_TABLE)


def download_found(room: Room) -> npt.NDArray[np.int64]:
    return room.lane.fetch(room.found_at, room.found[-1].end, np.int64)


def find_cuts(room: Room, numbers: Sequence[int]) -> list[Iterator[Cut]]:
    """Segments of every column."""
    for found in room.found:
        if numbers[found.null_chars]:
            raise CharactersUnderNulls(f"{numbers[found.null_chars]} characters under nulls")
    return [_cuts(column, found, numbers) for column, found in zip(room.columns, room.found, strict=True)]


def _cuts(column: RoomColumn, found: FoundPlaces, numbers: Sequence[int]) -> Iterator[Cut]:
    made = 0
    for k in range(column.segments):
        row, next_row = numbers[found.rows_begin + k : found.rows_begin + k + 2]
        if row == next_row:
            continue
        char, next_char = numbers[found.chars_begin + k : found.chars_begin + k + 2]
        rows, chars, nulls, words = (
            next_row - row,
            next_char - char,
            numbers[found.nulls + k],
            numbers[found.words + k],
        )
        layout = SegmentLayout(rows, chars, column.tile_size, nulls > 0, words)
        yield Cut(column, k, made // column.per_table, row, rows, char, chars, nulls, words, layout)
        made += 1


@kept_with()
def _copies(_table: SymbolTable) -> dict[tuple[Any, ...], tuple[Any, Any, int]]:
    """By device and kind of the lookup tables: the copy there, an event behind its upload, and its bytes."""
    return {}


def _device_copy(table: Any, column: RoomColumn, lane: Lane) -> tuple[tuple[int, int], Any]:
    """Where the lookup tables of a given table are, and what owns them; they stay on the GPU as long as it lives."""
    level, encoder = column.task.level, column.task.encoder
    mixed = level != "max" and encoder is None and _mixed(column)
    key, of_table = (current_device(), "" if encoder is not None else level, mixed), _copies(table)
    if key not in of_table:
        if encoder is not None:
            made = encoder.lookup(table)
        else:
            made = kernel_tables.max_tables(table) if level == "max" else kernel_tables.encode_tables(table, mixed)
        buffer = lane.allocate(made.nbytes)
        lane.upload(buffer.ptr, made)
        of_table[key] = buffer, lane.event(), made.nbytes
    buffer, uploaded, nbytes = of_table[key]
    lane.stream.wait_event(uploaded)
    return (buffer.ptr, nbytes if column.whole_slots else 0), buffer


def _given(column: RoomColumn, lane: Lane) -> ColumnTables:
    """Tables that were given: one for all scopes, or one for each, of which those that nobody wants are None."""
    task = column.task
    tables = [task.table] if task.table is not None else task.tables
    found = [((0, 0), None) if table is None else _device_copy(table, column, lane) for table in tables]
    return ColumnTables(lambda number: found[number][0], tables, [owner for _, owner in found])


def _trained(at: int, each: int = kernel_tables.ENCODE_TABLES_NBYTES, nbytes: int = 0) -> ColumnTables:
    """Tables whose lookup tables lie one behind another, `each` bytes apart; `nbytes`: see `ColumnTables.place`."""
    return ColumnTables(lambda number: (at + each * number, nbytes))


def _searched(room: Room, first: int, tables: Sequence[SymbolTable]) -> ColumnTables:
    """Tables that have been searched, the first of them number `first` of the round.

    The lookup tables are made and uploaded when they are asked for: those of the first segments, and while the GPU
    encodes these, those of the others.
    """

    @cache
    def place(number: int) -> tuple[int, int]:
        made = kernel_tables.max_tables(tables[number])
        address = room.uploaded_at + kernel_tables.MAX_TABLES_NBYTES * (first + number)
        room.lane.upload(address, made)
        return address, made.nbytes

    return ColumnTables(place, tables)


def place_tables(room: Room, exported: Exported = None) -> list[ColumnTables]:
    """Where the encoder finds the tables of every column. `exported`: those that have been searched are there."""
    every = []
    for i, (column, first) in enumerate(zip(room.columns, room.first_scope, strict=True)):
        if column.source == "given":
            every.append(_given(column, room.lane))
        elif column.task.encoder is not None:
            nbytes = column.task.encoder.training_nbytes(0).lookup
            every.append(_trained(room.trained_at + nbytes * first, nbytes, nbytes))
        elif column.source == "trained":
            every.append(_trained(room.trained_at + kernel_tables.ENCODE_TABLES_NBYTES * first))
        else:
            assert exported is not None
            found = kernel_tables.searched_tables(exported[first : first + column.scopes])
            every.append(_searched(room, room.first_search[i], found))
    return every


def exported_tables(room: Room, exported: npt.NDArray[Any]) -> list[Any]:
    """All tables that were trained, when training has ended."""
    encoder = room.columns[0].task.encoder
    return kernel_tables.trained_tables(exported) if encoder is None else encoder.tables(exported, room.scopes)


def host_tables(room: Room, tables: Sequence[ColumnTables], exported: Exported) -> list[Sequence[SymbolTable]]:
    """The tables of every column, when training has ended."""
    made = [] if exported is None else exported_tables(room, exported)
    return [
        made[first : first + column.scopes] if column.source == "trained" else there.of_host
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
        text_launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        text_launch.ROW_THREADS,
        (_u64(room.packs_at), _u32(len(views)), _u64(row_blocks)),
    )
