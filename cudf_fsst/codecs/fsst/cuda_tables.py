"""Compression on the GPU, stage 1: tables; and beside it the rows: where segments begin, and what is stored of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ...buffers import CharactersUnderNulls
from ...device.memory import Lane, current_device, device_attributes, pinned
from ...device.waits import Steps
from . import launch, plan
from .cpu import num_threads
from .cuda_kernels import blocks, get_kernel
from .cuda_room import Column, Cut, Room, Tables
from .launch import WORD, ColumnView, PackView, ScopeView, WaveView
from .layout import ROW_BLOCK, SegmentLayout
from .symbols import SymbolTable
from .train_max import train_table_max

_u32, _u64 = np.uint32, np.uint64
_SCAN_THREADS = 1024
_CLEARED = 16 << 10  # bytes that a block clears

#: What fsst_train exports of its tables, on its way to the host; None without any.
Exported = npt.NDArray[np.void] | None


def _mixed(column: Column) -> bool:
    return launch.pairs_in_shared(column.tile_size, device_attributes()["shared_per_block"])


def _describe(room: Room, waves: Sequence[WaveView]) -> int:
    """Upload what the first kernels have to know, and waves; the number of row blocks."""
    columns, scopes, row_blocks = [], [], 0
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
        if column.source == "gpu":
            each, mixed = column.per_table, _mixed(column)
            scopes += [ScopeView(at, column.segments, each * i, each, mixed) for i in range(column.scopes)]
    room.lane.upload(room.views_at, launch.words(chain(columns, scopes, waves)))
    return row_blocks


def look(room: Room, waves: Sequence[WaveView] = ()) -> Exported:
    """Start to cut all columns, to train their tables (stage 1), and to measure their rows; what training exports.

    `waves`: those that are known already, which are uploaded along with the columns.
    """
    lane, columns = room.lane, len(room.columns)
    row_blocks = _describe(room, waves)
    most = max(column.segments for column in room.columns)
    views = _u64(room.views_at)
    if not room.scopes_gpu and most == 1 and all(one.task.strings.rows <= launch.LOOK_ROWS for one in room.columns):
        lane.launch(get_kernel("row_lengths", "row_lengths_look"), columns, _SCAN_THREADS, (views,))
        return None
    # Training needs no more than where segments begin, so it need not wait for the rest.
    counts_nbytes = launch.TRAIN_COUNTS_NBYTES * room.scopes_gpu
    lane.launch(
        get_kernel("row_lengths", "segment_begins"),
        (max(blocks(most + 1, 128), blocks(counts_nbytes, _CLEARED * columns)), columns),
        128,
        (views, _u64(room.pair_counts_at), _u64(counts_nbytes)),
    )
    exported = _train_on_gpu(room) if room.scopes_gpu else None
    lane.launch(
        get_kernel("row_lengths", "row_lengths_measure"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (views, _u32(columns), _u64(row_blocks)),
    )
    lane.launch(get_kernel("row_lengths", "row_lengths_scan"), (most, columns), _SCAN_THREADS, (views,))
    return exported


def _train_on_gpu(room: Room) -> npt.NDArray[np.void]:
    """Stage 1: start training a table for every scope, in the side stream."""
    lane = room.side[0]
    lane.follow(room.lane)
    lane.launch(
        get_kernel("fsst_train", "fsst_train"),
        room.scopes_gpu,
        launch.TRAIN_THREADS,
        (
            _u64(room.views_at + WORD * len(ColumnView._fields) * len(room.columns)),
            _u64(room.pair_counts_at),
            _u64(room.scratch_at),
            _u64(room.trained_at),
            _u64(room.exported_at),
        ),
        launch.train_places(device_attributes()["shared_per_block"]).shared,
    )
    exported = pinned(room.scopes_gpu, launch.TRAINED_TABLE)
    lane.download(exported, room.exported_at)
    return exported


def download_found(room: Room) -> npt.NDArray[np.int64]:
    numbers = pinned(room.found[-1].end, np.int64)
    room.lane.download(numbers, room.found_at)
    return numbers


def find_cuts(room: Room, numbers: Sequence[int]) -> list[list[Cut]]:
    """Segments of every column."""
    every = []
    for column, found in zip(room.columns, room.found, strict=True):
        if numbers[found.null_chars]:
            raise CharactersUnderNulls(f"{numbers[found.null_chars]} characters under nulls")
        cuts: list[Cut] = []
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
            table = len(cuts) // column.per_table
            cuts.append(Cut(column, k, table, row, rows, char, chars, nulls, words, layout))
        every.append(cuts)
    return every


def _samples(room: Room, cuts: Sequence[Sequence[Cut]]) -> Steps:
    """Gather the samples of all scopes that are trained on the CPU: of every column, characters and chunk starts."""
    lane, begins, ends, firsts, scopes = room.lane, [], [], [], []
    chunk = plan.SAMPLE_CHUNK
    for i, column in enumerate(room.columns):
        if column.source != "cpu":
            continue
        of_column = cuts[i]
        for first in range(0, len(of_column), column.per_table):
            scope = of_column[first : first + column.per_table]
            start, stop = scope[0].chars_begin, scope[-1].chars_begin + scope[-1].chars
            starts, chunk = plan.sample_positions(start, stop - start, "max")
            begins.append(starts)
            ends.append(np.minimum(starts + chunk, stop))
            firsts.append(np.full(starts.size, room.number(room.found[i].first_char), np.int64))
            scopes.append(i)
    bounds = np.concatenate([*begins, *ends, *firsts])
    count = bounds.size // 3
    if count:
        lane.upload(room.chunk_bounds_at, bounds)
    lane.launch(
        get_kernel("fsst_take", "fsst_sample"),
        count,
        256,
        (_u64(room.chunk_bounds_at), _u64(count), _u64(chunk), _u64(room.sample_at)),
    )
    gathered = pinned(count * chunk, np.uint8)
    lane.download(gathered, room.sample_at)
    yield
    samples: dict[int, list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]] = {i: [] for i in scopes}
    for i, begin, end in zip(scopes, begins, ends, strict=True):
        # Only a scope's last chunk can be short, so its chunks are contiguous in the gathered array.
        nbytes = int((end - begin).sum())
        samples[i].append((gathered[:nbytes], chunk * np.arange(begin.size, dtype=np.int64)))
        gathered = gathered[chunk * begin.size :]
    return samples


def train_on_cpu(room: Room, cuts: Sequence[Sequence[Cut]]) -> Steps:
    """Stage 1 of level ``"max"``: tables of the columns whose tables are trained in threads of the CPU."""
    samples = yield from _samples(room, cuts)
    with ThreadPoolExecutor(num_threads(), "cudf_fsst-train") as threads:
        trained = threads.map(lambda sample: train_table_max(*sample), chain.from_iterable(samples.values()))
        return {i: [next(trained) for _ in of_column] for i, of_column in samples.items()}


#: Of a table: by device and kind of the lookup tables, the copy there, an event behind its upload, and its bytes.
_copies: WeakKeyDictionary[SymbolTable, dict[tuple[Any, ...], tuple[Any, Any, int]]] = WeakKeyDictionary()


def _device_copy(table: SymbolTable, column: Column, lane: Lane) -> Tables:
    """The lookup tables of a given table; they stay on the GPU as long as it lives."""
    mixed = column.task.level != "max" and _mixed(column)
    key, of_table = (current_device(), column.task.level, mixed), _copies.setdefault(table, {})
    if key not in of_table:
        made = launch.max_tables(table) if column.task.level == "max" else launch.encode_tables(table, mixed)
        buffer = lane.allocate(made.nbytes)
        lane.upload(buffer.ptr, made)
        of_table[key] = buffer, lane.event(), made.nbytes
    buffer, uploaded, nbytes = of_table[key]
    lane.stream.wait_event(uploaded)
    return Tables([buffer.ptr], [nbytes], [table], buffer)


def place_tables(room: Room, trained: dict[int, list[SymbolTable]]) -> list[Tables]:
    """Where the encoder finds the tables of every column. `trained`: by the CPU."""
    every = []
    for i, (column, first) in enumerate(zip(room.columns, room.first_scope, strict=True)):
        if column.task.table is not None:
            every.append(_device_copy(column.task.table, column, room.lane))
        elif column.source == "gpu":
            each = launch.ENCODE_TABLES_NBYTES
            every.append(
                Tables([room.trained_at + each * (first + k) for k in range(column.scopes)], [0] * column.scopes)
            )
        else:
            addresses, nbytes = [], []
            for k, table in enumerate(trained[i]):
                made = launch.max_tables(table)
                addresses.append(room.uploaded_at + launch.MAX_TABLES_NBYTES * (first + k))
                nbytes.append(made.nbytes)
                room.lane.upload(addresses[-1], made)
            every.append(Tables(addresses, nbytes, trained[i]))
    return every


def host_tables(room: Room, tables: Sequence[Tables], exported: Exported) -> list[Sequence[SymbolTable]]:
    """The tables of every column, when training has ended."""
    made = [] if exported is None else launch.trained_tables(exported)
    return [
        made[first : first + column.scopes] if column.source == "gpu" else there.of_host
        for column, first, there in zip(room.columns, room.first_scope, tables, strict=True)
    ]


def packs(room: Room, cuts: Sequence[Sequence[Cut]], metas: Sequence[Sequence[int]]) -> list[PackView]:
    """What writes row lengths and validity of all segments to `metas`, addresses; to be uploaded to ``packs_at``."""
    views, row_blocks = [], 0
    for i, of_column in enumerate(cuts):
        strings, row_words = room.columns[i].task.strings, room.row_words[i]
        itemsize = strings.offsets_itemsize
        for cut, meta in zip(of_column, metas[i], strict=True):
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


def pack_rows(room: Room, views: Sequence[PackView]) -> None:
    """Launch what `packs` describes."""
    row_blocks = views[-1].first_row_block + blocks(views[-1].rows, ROW_BLOCK)
    room.lane.launch(
        get_kernel("row_lengths", "row_lengths_pack"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (_u64(room.packs_at), _u32(len(views)), _u64(row_blocks)),
    )
