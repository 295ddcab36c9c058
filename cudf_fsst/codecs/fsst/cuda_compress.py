"""Compression on the GPU: same bytes as `cpu`, many columns a call.

The five stages (ADMS 2025), each a launch for all columns of a round:

1. *tables*: ``fsst_train`` trains those of all scopes, and makes the encoder's lookup tables (level ``"max"``: samples
   gathered on the GPU, tables trained on CPU threads, uploaded; a given table keeps its copy on the GPU);
2. *encode* a tile per lane, 3. *transpose* to tile order and 4. *gather* into a slot of the workspace, in one kernel,
   ``fsst_encode`` (level ``"max"``: ``fsst_encode_max``);
5. *compact*: ``fsst_compact`` into the exact-size result.

Beside them the columns are cut into segments and their row lengths measured, then packed.

What the host hands from one stage to the next: `_Column` (what is known beforehand), `_Room` (columns that go through
the stages together, and their room), `_Tables`, `_Cut` (a segment, as the GPU found it), and segments.

A column of one segment is encoded before its size is known, into room for all that it may have. So all such columns of
a round share one wait, for rows, nulls, tables and codes. Longer columns have two slots for the codes of a segment,
each with a stream, which take turns: while the host waits for the size of one segment's codes and the GPU compacts
them, it encodes the next, be it of this column or of another. Tables are trained in a side stream, beside the work on
row lengths.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ...buffers import CharactersUnderNulls, DeviceStrings
from ...device import waits
from ...device.memory import Lane, Workspace, current_device, device_attributes, pinned, side_streams
from ...device.transfer import Outbox
from ...device.waits import Steps
from . import launch, plan
from .cpu import num_threads
from .cuda_kernels import blocks, choices, get_kernel
from .launch import WORD, ColumnView, Found, PackView, ScopeView, WaveView
from .layout import LEVELS, ROW_BLOCK, SECTIONS, TILE_BLOCK, TILE_SIZES, SegmentLayout
from .segment import Segment
from .symbols import SymbolTable
from .train import train_table
from .train_max import train_table_max
from .tuning import Choices

_u32, _u64 = np.uint32, np.uint64
_SCAN_THREADS = 1024
_SLACK = 32  # a segment may be 1/32 longer than planned, for its last row, before it is encoded in two passes
# Segments whose codes have room in the workspace. With plan.segment_size they keep the memory rule: at most 64 MiB or
# an eighth of the input. TPC-H l_comment on an H200, stages 2 to 5: 2 segments of 1/16 of the column 667 GB/s, of 1/20
# 623, of 1/28 570; 3 of 1/28 606 (3 of 1/20 672, but they break the rule); 1 of 1/12 537.
_SLOTS = 2
# Bytes of workspace that short columns share; that longer ones share for tables and row lengths, beside their slots.
_SHORT_ROUND = 40 << 20
_LONG_ROUND, _LONG_ROUND_SHARE = 4 << 20, 128
# Characters of a call whose eighth has room for the slots of long columns and for 16 MiB of others.
_ROOM_FOR_OTHERS = 8 * (80 << 20)

#: What fsst_train exports of its tables, on its way to the host; None without any.
Exported = npt.NDArray[np.void] | None


@dataclass(frozen=True)
class Task:
    """A column to compress, and how: see `compress_one`."""

    strings: DeviceStrings
    table: SymbolTable | None = None
    tile_size: int | str = "auto"
    level: str = "default"


@dataclass(frozen=True)
class _Column:
    """What is known of a column before the GPU has looked at it.

    Attributes
    ----------
    number : int
        Of its task.
    chars_limit : int
        Characters, or more.
    segment_size, segments : int
        Characters of a segment, and segments, at most.
    source : str
        Where tables come from: "given", trained on the "gpu", or (level max) trained on the "cpu".
    per_table, scopes : int
        Segments of a table's scope, and tables to train.
    tile_limit : int
        Tiles of a segment, whole blocks of them, that a slot has room for.
    row_blocks : int
        That its segments may have: see first_row_block in row_lengths.cu.
    """

    number: int
    task: Task
    chars_limit: int
    tile_size: int
    segment_size: int
    segments: int
    source: str
    per_table: int
    scopes: int
    tile_limit: int
    row_blocks: int
    choices: Choices  # once: what one stage leaves behind, the next has to find

    @property
    def short(self) -> bool:
        return self.segments == 1

    @property
    def slot_nbytes(self) -> tuple[int, int, int]:
        """Bytes of a slot, of its pieces' lengths and of its tiles' lengths."""
        tiles = self.tile_limit
        return tiles * self.tile_size, 4 * (tiles // launch.PIECE_TILES), tiles * (1 if self.tile_size <= 256 else 2)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes of a round's workspace, about."""
        a_table = launch.MAX_TABLES_NBYTES + plan.SAMPLE_CHUNK * plan.SAMPLE_CHUNKS["max"]
        if self.source == "gpu":
            a_table = launch.ENCODE_TABLES_NBYTES + launch.TRAIN_COUNTS_NBYTES
        return self.scopes * a_table + 4 * self.row_blocks + (sum(self.slot_nbytes) if self.short else 0)


class _Slot(NamedTuple):
    """Addresses of a slot for the codes of a segment, of its pieces' lengths and its tiles' lengths."""

    codes: int
    piece_lengths: int
    tile_lengths: int


@dataclass(frozen=True)
class _Room:
    """Columns that go through the stages together, and their room in the workspace.

    Attributes
    ----------
    lane, side
        The caller's stream, and the round's own: long columns have one for every slot, and the first trains.
    found : list of Found
        Of every column, places in the array of numbers that the GPU finds.
    row_words : list of int
        Of every column, address.
    first_scope : list of int
        Of every column, among those whose tables are trained on the same side.
    slots : list of _Slot
        Of every column; none of long ones.
    """

    lane: Lane
    side: Sequence[Lane]
    work: Workspace
    columns: Sequence[_Column]
    found: Sequence[Found]
    found_at: int
    views_at: int
    row_words: Sequence[int]
    first_scope: Sequence[int]
    trained_at: int  # tables from the GPU
    uploaded_at: int  # and from the CPU
    exported_at: int
    pair_counts_at: int
    scratch_at: int
    chunk_bounds_at: int
    sample_at: int
    slots: Sequence[_Slot]
    waves_at: int
    packs_at: int
    scopes_gpu: int
    scopes_cpu: int

    def number(self, place: int) -> int:
        """Address of a number that the GPU finds."""
        return self.found_at + WORD * place


@dataclass(frozen=True)
class _Tables:
    """Tables of a column's scopes: where the encoder finds them, and their bytes there (level max)."""

    addresses: Sequence[int]
    nbytes: Sequence[int]
    of_host: Sequence[SymbolTable] = ()  # those that the GPU trains come later
    owner: Any = None


@dataclass(frozen=True)
class _Cut:
    """A segment, as the GPU found it; segments without rows are left out."""

    column: _Column
    planned: int  # its number in the plan
    table: int  # the scope it belongs to
    rows_begin: int
    rows: int
    chars_begin: int
    chars: int
    nulls: int
    words: int
    layout: SegmentLayout


class _Results:
    """What a call has made: buffers, then segments by task."""

    def __init__(self, tasks: int) -> None:
        self.segments: list[list[Segment]] = [[] for _ in range(tasks)]
        self.buffers: list[Any] = []

    def allocate(self, lane: Lane, nbytes: int) -> int:
        """Take a buffer; its number."""
        self.buffers.append(lane.allocate(nbytes))
        return len(self.buffers) - 1

    def send(self, number: int, outbox: Outbox | None, lane: Lane) -> None:
        """Bring a buffer to where it belongs."""
        if outbox is not None:
            self.buffers[number] = outbox.send(self.buffers[number], lane)

    def drop(self) -> None:
        """Let go of all, whoever still holds this object (a traceback, say)."""
        self.segments.clear()
        self.buffers.clear()


# ------------------------------------------------------------------------------------------------------------- planning


def _plan(number: int, task: Task, chars_limit: int, *, one_scope: bool) -> _Column:
    """Plan a column that has at most so many characters."""
    tile_size = plan.auto_tile_size(chars_limit) if task.tile_size == "auto" else int(task.tile_size)
    if tile_size not in TILE_SIZES:
        raise ValueError(f"tile_size must be one of {TILE_SIZES}, not {task.tile_size!r}")
    segment_size, segments = plan.segment_size(chars_limit), plan.segment_count(chars_limit)
    longest = min(chars_limit, segment_size + segment_size // _SLACK)
    source = "given" if task.table is not None else "cpu" if task.level == "max" else "gpu"
    per_table = segments if one_scope or source == "given" else plan.segments_per_table(chars_limit)
    return _Column(
        number,
        task,
        chars_limit,
        tile_size,
        segment_size,
        segments,
        source,
        per_table,
        0 if source == "given" else blocks(segments, per_table),
        max(blocks(longest, tile_size * TILE_BLOCK), 1) * TILE_BLOCK,
        task.strings.rows // ROW_BLOCK + segments,
        choices(tile_size),
    )


def _plans(tasks: Sequence[Task], lane: Lane, *, one_scope: bool = False) -> Steps:
    """Plan all columns that have rows; waits for the ends of the characters, unless their limits say enough."""
    limits = [task.strings.chars_limit for task in tasks]
    # Sizes up to a limit share a plan where they share the size of a segment: then there are just fewer segments.
    unknown = [
        i
        for i, (task, limit) in enumerate(zip(tasks, limits, strict=True))
        if task.strings.rows and (limit is None or plan.segment_size(limit) != plan.segment_size(0))
    ]
    if unknown:
        ends = pinned(2 * len(unknown), np.uint64)
        ends[:] = 0
        for place, i in enumerate(unknown):
            strings = tasks[i].strings
            for k, row in ((2 * place, 0), (2 * place + 1, strings.rows)):
                itemsize = strings.offsets_itemsize
                lane.download(ends[k : k + 1].view(np.uint8)[:itemsize], strings.offsets + row * itemsize)
        yield
        for place, i in enumerate(unknown):
            limits[i] = int(ends[2 * place + 1]) - int(ends[2 * place])
    return [
        _plan(i, task, limit, one_scope=one_scope)
        for i, (task, limit) in enumerate(zip(tasks, limits, strict=True))
        if task.strings.rows and limit is not None
    ]


def _rounds(columns: Sequence[_Column]) -> Iterator[list[_Column]]:
    """Columns that share a workspace within the memory rule; short ones, then longer ones."""
    for short in (True, False):
        together: list[_Column] = []
        nbytes = chars = 0
        for column in columns:
            if column.short != short:
                continue
            chars += column.chars_limit
            nbytes += column.nbytes
            limit = _SHORT_ROUND if short else max(_LONG_ROUND, chars // _LONG_ROUND_SHARE)
            if together and nbytes > limit:
                yield together
                together, nbytes, chars = [], column.nbytes, column.chars_limit
            together.append(column)
        if together:
            yield together


def _make_room(
    columns: Sequence[_Column], lane: Lane, side: Sequence[Lane], memory: ExitStack, *, encode: bool
) -> _Room:
    """Lay out and take the workspace of a round; `memory` gives it back."""
    work = Workspace()
    memory.callback(work.release)
    found, first_scope, numbers, scopes = [], [], 0, {"gpu": 0, "cpu": 0, "given": 0}
    for column in columns:
        found.append(launch.found_places(numbers, column.segments))
        numbers = found[-1].end
        first_scope.append(scopes[column.source])
        scopes[column.source] += column.scopes
    on_gpu, on_cpu = scopes["gpu"], scopes["cpu"]
    segments = sum(column.segments for column in columns)
    short = columns[0].short and encode
    chunks = on_cpu * plan.SAMPLE_CHUNKS["max"]
    places = launch.train_places(device_attributes()["shared_per_block"])
    found_at = work.reserve(WORD * numbers)
    views_at = work.reserve(WORD * (len(columns) * len(ColumnView._fields) + on_gpu * len(ScopeView._fields)))
    row_words = [work.reserve(4 * column.row_blocks) for column in columns]
    trained_at = work.reserve(launch.ENCODE_TABLES_NBYTES * on_gpu)
    uploaded_at = work.reserve(launch.MAX_TABLES_NBYTES * on_cpu if encode else 0)
    exported_at = work.reserve(launch.TRAINED_TABLE.itemsize * on_gpu)
    pair_counts_at = work.reserve(launch.TRAIN_COUNTS_NBYTES * on_gpu)
    scratch_at = work.reserve(places.scratch * on_gpu)
    chunk_bounds_at = work.reserve(3 * WORD * chunks)
    sample_at = work.reserve(plan.SAMPLE_CHUNK * chunks)
    slots = [[work.reserve(nbytes) for nbytes in column.slot_nbytes] for column in columns] if short else []
    waves_at = work.reserve(WORD * len(WaveView._fields) * len(columns) if short else 0)
    packs_at = work.reserve(WORD * len(PackView._fields) * segments if encode else 0)
    work.take(lane)
    # Parts that have no bytes lie nowhere.
    return _Room(
        lane,
        side,
        work,
        columns,
        found,
        work[found_at],
        work[views_at],
        [work[offset] for offset in row_words],
        first_scope,
        work[trained_at] if on_gpu else 0,
        work[uploaded_at] if on_cpu and encode else 0,
        work[exported_at] if on_gpu else 0,
        work[pair_counts_at] if on_gpu else 0,
        work[scratch_at] if on_gpu and places.scratch else 0,
        work[chunk_bounds_at] if on_cpu else 0,
        work[sample_at] if on_cpu else 0,
        [_Slot(*(work[offset] for offset in slot)) for slot in slots],
        work[waves_at] if short else 0,
        work[packs_at] if encode else 0,
        on_gpu,
        on_cpu,
    )


# ----------------------------------------------------------------------------------------------------- rows and tables


def _mixed(column: _Column) -> bool:
    return launch.pairs_in_shared(column.tile_size, device_attributes()["shared_per_block"])


def _describe(room: _Room) -> int:
    """Upload what the first kernels have to know; the number of row blocks."""
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
    room.lane.upload(room.views_at, launch.words(chain(columns, scopes)))
    return row_blocks


def _look(room: _Room) -> Exported:
    """Start to cut all columns, to train their tables (stage 1), and to measure their rows; what training exports."""
    lane, columns = room.lane, len(room.columns)
    row_blocks = _describe(room)
    most = max(column.segments for column in room.columns)
    views = _u64(room.views_at)
    lane.launch(get_kernel("row_lengths", "segment_begins"), (blocks(most + 1, 128), columns), 128, (views,))
    exported = _train_on_gpu(room) if room.scopes_gpu else None
    lane.launch(
        get_kernel("row_lengths", "row_lengths_measure"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (views, _u32(columns), _u64(row_blocks)),
    )
    lane.launch(get_kernel("row_lengths", "row_lengths_scan"), (most, columns), _SCAN_THREADS, (views,))
    return exported


def _train_on_gpu(room: _Room) -> npt.NDArray[np.void]:
    """Stage 1: start training a table for every scope, in the side stream."""
    lane = room.side[0]
    lane.follow(room.lane)
    lane.zero(room.pair_counts_at, launch.TRAIN_COUNTS_NBYTES * room.scopes_gpu)
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


def _download_found(room: _Room) -> npt.NDArray[np.int64]:
    numbers = pinned(room.found[-1].end, np.int64)
    room.lane.download(numbers, room.found_at)
    return numbers


def _cuts(room: _Room, numbers: Sequence[int]) -> list[list[_Cut]]:
    """Segments of every column."""
    every = []
    for column, found in zip(room.columns, room.found, strict=True):
        if numbers[found.null_chars]:
            raise CharactersUnderNulls(f"{numbers[found.null_chars]} characters under nulls")
        cuts: list[_Cut] = []
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
            cuts.append(_Cut(column, k, table, row, rows, char, chars, nulls, words, layout))
        every.append(cuts)
    return every


def _samples(room: _Room, cuts: Sequence[Sequence[_Cut]]) -> Steps:
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


def _train_on_cpu(room: _Room, cuts: Sequence[Sequence[_Cut]]) -> Steps:
    """Stage 1 of level ``"max"``: tables of the columns whose tables are trained in threads of the CPU."""
    samples = yield from _samples(room, cuts)
    with ThreadPoolExecutor(num_threads(), "cudf_fsst-train") as threads:
        trained = threads.map(lambda sample: train_table_max(*sample), chain.from_iterable(samples.values()))
        return {i: [next(trained) for _ in of_column] for i, of_column in samples.items()}


#: Of a table: by device and kind of the lookup tables, the copy there, an event behind its upload, and its bytes.
_copies: WeakKeyDictionary[SymbolTable, dict[tuple[Any, ...], tuple[Any, Any, int]]] = WeakKeyDictionary()


def _device_copy(table: SymbolTable, column: _Column, lane: Lane) -> _Tables:
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
    return _Tables([buffer.ptr], [nbytes], [table], buffer)


def _tables(room: _Room, trained: dict[int, list[SymbolTable]]) -> list[_Tables]:
    """Where the encoder finds the tables of every column. `trained`: by the CPU."""
    every = []
    for i, (column, first) in enumerate(zip(room.columns, room.first_scope, strict=True)):
        if column.task.table is not None:
            every.append(_device_copy(column.task.table, column, room.lane))
        elif column.source == "gpu":
            each = launch.ENCODE_TABLES_NBYTES
            every.append(
                _Tables([room.trained_at + each * (first + k) for k in range(column.scopes)], [0] * column.scopes)
            )
        else:
            addresses, nbytes = [], []
            for k, table in enumerate(trained[i]):
                made = launch.max_tables(table)
                addresses.append(room.uploaded_at + launch.MAX_TABLES_NBYTES * (first + k))
                nbytes.append(made.nbytes)
                room.lane.upload(addresses[-1], made)
            every.append(_Tables(addresses, nbytes, trained[i]))
    return every


def _of_host(room: _Room, tables: Sequence[_Tables], exported: Exported) -> list[Sequence[SymbolTable]]:
    """The tables of every column, when training has ended."""
    made = [] if exported is None else launch.trained_tables(exported)
    return [
        made[first : first + column.scopes] if column.source == "gpu" else there.of_host
        for column, first, there in zip(room.columns, room.first_scope, tables, strict=True)
    ]


# ----------------------------------------------------------------------------------------------------- stages 2 to 5


class _Kind(NamedTuple):
    """What waves of one launch have in common."""

    level: str
    tile_size: int
    tables_nbytes: int  # level max: of the lookup tables
    choices: Choices


def _wave(room: _Room, i: int, planned: int, tables: _Tables, table: int, slot: _Slot) -> WaveView:
    """The first tiles of a segment of column `i`."""
    column, found = room.columns[i], room.found[i]
    staged = 0
    if column.task.level == "max":
        shared = device_attributes()["shared_per_block"]
        staged = launch.encode_max_shape(column.tile_size, shared, tables.nbytes[table]).staged
    return WaveView(
        room.number(found.first_char),
        room.number(found.chars_begin + planned),
        tables.addresses[table],
        staged,
        0,
        column.tile_limit,
        *slot,
        room.number(found.codes_nbytes + planned),
    )


def _kind(column: _Column, tables: _Tables, table: int) -> _Kind:
    nbytes = tables.nbytes[table] if column.task.level == "max" else 0
    return _Kind(column.task.level, column.tile_size, nbytes, column.choices)


def _encode(lane: Lane, kind: _Kind, waves_at: int, count: int, most_tiles: int) -> None:
    """Stages 2 to 4 of waves, the longest of which has at most so many tiles."""
    attributes = device_attributes()
    shared_per_block, multiprocessors = attributes["shared_per_block"], attributes["multiprocessors"]
    if kind.level == "max":
        kernel = get_kernel("fsst_encode_max", "fsst_encode_max", kind.tile_size)
        threads, shared, _ = launch.encode_max_shape(kind.tile_size, shared_per_block, kind.tables_nbytes)
        grid = multiprocessors
    else:
        warps = kind.choices.encode_warps
        kernel = get_kernel("fsst_encode", "fsst_encode", kind.tile_size, warps)
        threads, shared, *_ = launch.encode_shape(kind.tile_size, shared_per_block, warps)
        grid = max(1, round(kind.choices.encode_blocks * multiprocessors))
    grid = min(grid, blocks(blocks(most_tiles, launch.PIECE_TILES), threads // 32))
    lane.launch(kernel, (grid, count), threads, (_u64(waves_at),), shared)


def _compact(lane: Lane, kind: _Kind, waves_at: int, count: int, most_tiles: int) -> None:
    """Stage 5 of waves."""
    kernel = get_kernel("fsst_encode", "fsst_compact", kind.tile_size, kind.choices.encode_warps)
    grid = blocks(blocks(most_tiles, launch.PIECE_TILES), launch.COMPACT_PIECES)
    lane.launch(kernel, (grid, count), 256, (_u64(waves_at),))


def _with_places(wave: WaveView, cut: _Cut, tiles: int, before: int, meta: int, codes: int) -> WaveView:
    """A wave as fsst_compact needs it: with where its tiles go in ``meta`` and codes at these addresses."""
    layout, first = cut.layout, wave.tile_begin
    block_starts = meta + layout.places[SECTIONS.index("block_starts")] + 8 * (first // TILE_BLOCK)
    lengths = meta + layout.places[SECTIONS.index("tile_lengths")] + layout.tile_length_itemsize * first
    return wave._replace(tiles=tiles, before=before, block_starts=block_starts, stored_lengths=lengths, codes=codes)


def _pack(room: _Room, cuts: Sequence[Sequence[_Cut]], metas: Sequence[Sequence[int]]) -> None:
    """Write row lengths and validity of all segments to `metas`, addresses."""
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
    room.lane.upload(room.packs_at, launch.words(views))
    room.lane.launch(
        get_kernel("row_lengths", "row_lengths_pack"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (_u64(room.packs_at), _u32(len(views)), _u64(row_blocks)),
    )


def _compress_short(
    room: _Room, tables: Sequence[_Tables], results: _Results, outbox: Outbox | None, exported: Exported
) -> Steps:
    """Stages 2 to 5 of columns of one segment each, before and after the wait that they share."""
    lane = room.lane
    waves = [_wave(room, i, 0, tables[i], 0, slot) for i, slot in enumerate(room.slots)]
    kinds: dict[_Kind, list[int]] = {}
    for i, column in enumerate(room.columns):
        kinds.setdefault(_kind(column, tables[i], 0), []).append(i)
    order = list(chain.from_iterable(kinds.values()))
    begins = accumulate((len(of_kind) for of_kind in kinds.values()), initial=0)
    runs = [
        (kind, room.waves_at + WORD * len(WaveView._fields) * begin, of_kind)
        for (kind, of_kind), begin in zip(kinds.items(), begins, strict=False)
    ]
    lane.upload(room.waves_at, launch.words(waves[i] for i in order))
    if room.side:
        lane.follow(room.side[0])
    for kind, waves_at, of_kind in runs:
        _encode(lane, kind, waves_at, len(of_kind), max(room.columns[i].tile_limit for i in of_kind))
    found = _download_found(room)
    yield
    numbers = found.tolist()
    cuts = _cuts(room, numbers)
    sizes = [numbers[place.codes_nbytes] for place in room.found]
    metas = [results.allocate(lane, cut.layout.meta_nbytes) for (cut,) in cuts]
    codes = [results.allocate(lane, size) for size in sizes]
    addresses = [results.buffers[meta].ptr for meta in metas]
    for i, (cut,) in enumerate(cuts):
        waves[i] = _with_places(waves[i], cut, cut.layout.tiles, 0, addresses[i], results.buffers[codes[i]].ptr)
    lane.upload(room.waves_at, launch.words(waves[i] for i in order))
    for kind, waves_at, of_kind in runs:
        _compact(lane, kind, waves_at, len(of_kind), max(waves[i].tiles for i in of_kind))
    _pack(room, cuts, [[address] for address in addresses])
    of_host = _of_host(room, tables, exported)
    for i, (cut,) in enumerate(cuts):
        for number in (metas[i], codes[i]):
            results.send(number, outbox, lane)
        meta, made = results.buffers[metas[i]], results.buffers[codes[i]]
        segment = Segment(cut.layout, cut.nulls, of_host[i][0], meta, made, sizes[i])
        results.segments[room.columns[i].number].append(segment)


class _Slots:
    """Slots that the segments of long columns are encoded in by turns, each with a stream."""

    def __init__(self, room: _Room, cuts: Sequence[_Cut], memory: ExitStack) -> None:
        self.lanes = list(room.side[: min(_SLOTS, len(cuts))])
        columns = {cut.column.number: cut.column for cut in cuts}.values()
        sizes = [max(nbytes) for nbytes in zip(*(column.slot_nbytes for column in columns), strict=True)]
        work = self.work = Workspace()
        memory.callback(work.release)
        slots = [[work.reserve(nbytes) for nbytes in sizes] for _ in self.lanes]
        self._waves_at = work.reserve(WORD * len(WaveView._fields) * len(cuts))
        work.take(room.lane)
        self.slots = [_Slot(*(work[offset] for offset in slot)) for slot in slots]

    def lane(self, number: int) -> Lane:
        """The stream of the segment `number` of the round."""
        return self.lanes[number % len(self.lanes)]

    def slot(self, number: int) -> _Slot:
        return self.slots[number % len(self.slots)]

    def wave_at(self, number: int) -> int:
        """Where the wave of a segment is described."""
        return self.work[self._waves_at] + WORD * len(WaveView._fields) * number


@dataclass(frozen=True)
class _Encoding:
    """What it takes to encode a segment of a long column: its wave, and where the size of its codes arrives."""

    number: int  # of the round
    cut: _Cut
    kind: _Kind
    wave: WaveView
    meta: int
    size: npt.NDArray[np.int64]


def _encode_long(
    room: _Room, slots: _Slots, encodings: Sequence[_Encoding], results: _Results, outbox: Outbox | None
) -> list[int]:
    """Stages 2 to 5 for the segments of long columns; numbers of the buffers with their codes.

    Each slot has a stream of its own, so that the compaction of one segment, and the last pieces of its encoding, run
    beside the encoding of the next.
    """
    codes: list[int] = []
    under_way: list[Any] = []  # events behind the sizes of codes
    count = len(slots.lanes)
    for one in range(len(encodings) + count):
        if one >= count:
            under_way[one - count].synchronize()
            codes.append(_finish(slots, encodings[one - count], results, outbox))
        if one < len(encodings):
            encoding, lane = encodings[one], slots.lane(one)
            _encode(
                lane, encoding.kind, slots.wave_at(one), 1, min(encoding.cut.layout.tiles, encoding.wave.tile_limit)
            )
            lane.download(encoding.size, encoding.wave.codes_nbytes)
            under_way.append(lane.event())
    for lane in slots.lanes:
        room.lane.follow(lane)
    return codes


def _finish(slots: _Slots, encoding: _Encoding, results: _Results, outbox: Outbox | None) -> int:
    """Compact the codes of a segment, whose size is known; the number of the buffer they are in.

    A segment longer than a slot (a giant row) is encoded wave by wave, once for its size, once more to keep the codes.
    """
    lane, at, size, wave = slots.lane(encoding.number), slots.wave_at(encoding.number), encoding.size, encoding.wave
    kind, tiles, limit = encoding.kind, encoding.cut.layout.tiles, wave.tile_limit
    waves, before = [wave], [0]
    for first in range(limit, tiles, limit):
        before.append(int(size[0]))
        waves.append(wave._replace(tile_begin=first))
        lane.upload(at, launch.words(waves[-1:]))
        _encode(lane, kind, at, 1, min(limit, tiles - first))
        lane.download(size, wave.codes_nbytes)
        lane.synchronize()
    codes = results.allocate(lane, int(size[0]))
    for one, bytes_before in zip(waves, before, strict=True):
        of_wave, address = min(limit, tiles - one.tile_begin), results.buffers[codes].ptr
        described = _with_places(one, encoding.cut, of_wave, bytes_before, encoding.meta, address)
        lane.upload(at, launch.words([described]))
        if len(waves) > 1:
            _encode(lane, kind, at, 1, of_wave)
        _compact(lane, kind, at, 1, of_wave)
    results.send(codes, outbox, lane)
    return codes


def _compress_long(
    room: _Room,
    cuts: Sequence[Sequence[_Cut]],
    tables: Sequence[_Tables],
    results: _Results,
    outbox: Outbox | None,
    exported: Exported,
    memory: ExitStack,
) -> None:
    """Stages 2 to 5 of columns of several segments."""
    lane, flat = room.lane, [(i, cut) for i, of_column in enumerate(cuts) for cut in of_column]
    metas = [[results.allocate(lane, cut.layout.meta_nbytes) for cut in of_column] for of_column in cuts]
    slots = _Slots(room, [cut for _, cut in flat], memory)
    sizes = pinned(len(flat), np.int64)
    encodings = []
    for number, ((i, cut), meta) in enumerate(zip(flat, chain.from_iterable(metas), strict=True)):
        wave = _wave(room, i, cut.planned, tables[i], cut.table, slots.slot(number))
        address, kind = results.buffers[meta].ptr, _kind(cut.column, tables[i], cut.table)
        encodings.append(_Encoding(number, cut, kind, wave, address, sizes[number : number + 1]))
    lane.upload(slots.wave_at(0), launch.words(encoding.wave for encoding in encodings))
    for slot_lane in slots.lanes:
        slot_lane.follow(lane)
        slot_lane.follow(room.side[0])  # the tables
    _pack(room, cuts, [[results.buffers[meta].ptr for meta in of_column] for of_column in metas])
    codes = _encode_long(room, slots, encodings, results, outbox)
    of_host = _of_host(room, tables, exported)
    for encoding, meta, made in zip(encodings, chain.from_iterable(metas), codes, strict=True):
        cut = encoding.cut
        results.send(meta, outbox, lane)
        segment = Segment(
            cut.layout,
            cut.nulls,
            of_host[flat[encoding.number][0]][cut.table],
            results.buffers[meta],
            results.buffers[made],
            int(encoding.size[0]),
        )
        results.segments[cut.column.number].append(segment)


def _compress_round(columns: Sequence[_Column], lane: Lane, results: _Results, outbox: Outbox | None) -> Steps:
    """Compress columns that share a workspace."""
    short, on_gpu = columns[0].short, any(column.source == "gpu" for column in columns)
    with ExitStack() as memory, ExitStack() as streams:  # all streams have ended, or joined, when memory is given back
        side_count = int(on_gpu) if short else _SLOTS
        side = [streams.enter_context(Lane(stream)) for stream in side_streams(side_count)]
        room = _make_room(columns, lane, side, memory, encode=True)
        exported = _look(room)
        trained: dict[int, list[SymbolTable]] = {}
        cuts: list[list[_Cut]] = []
        on_cpu = any(column.source == "cpu" for column in columns)
        if on_cpu or not short:
            found = _download_found(room)
            yield
            cuts = _cuts(room, found.tolist())
        if on_cpu:
            trained = yield from _train_on_cpu(room, cuts)
        tables = _tables(room, trained)
        if short:
            yield from _compress_short(room, tables, results, outbox, exported)
        else:
            _compress_long(room, cuts, tables, results, outbox, exported, memory)
        for one in side:
            lane.follow(one)
        lane.rejoin()


def takes_all(tasks: Sequence[Task]) -> bool:
    """Whether compression of columns takes all the workspace that the memory rule allows, beside what others do.

    A column of several segments has two slots of a segment's size at least, which only larger calls have room for.
    """
    limits = [task.strings.chars_limit for task in tasks if task.strings.rows]
    known = [limit for limit in limits if limit is not None]
    short = len(known) == len(limits) and all(plan.segment_count(limit) == 1 for limit in known)
    return not short and sum(known) < _ROOM_FOR_OTHERS


def compress(
    tasks: Sequence[Task], *, lane: Lane, outbox: Outbox | None = None
) -> Generator[None, None, list[list[Segment]]]:
    """Compress columns in GPU memory.

    Parameters
    ----------
    tasks
        Read in place.
    lane
        Where the caller works, and waits at every yield.
    outbox
        Where every segment goes as soon as it is made; it is in host memory then, when the outbox is closed.

    Returns
    -------
    list of list of Segment
        Of every column, in GPU memory, stream-ordered; or where `outbox` brings them. Empty for zero rows.

    Raises
    ------
    ValueError
        An unknown level or tile size.
    CharactersUnderNulls
        Null rows have characters.
    MemoryError
        From RMM; nothing is kept.
    """
    for task in tasks:
        check_level(task.level)
    results = _Results(len(tasks))
    try:
        columns = yield from _plans(tasks, lane)
        for together in _rounds(columns):
            yield from _compress_round(together, lane, results, outbox)
    except BaseException:
        lane.synchronize()
        results.drop()
        raise
    return results.segments


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")


def compress_one(
    strings: DeviceStrings,
    *,
    table: SymbolTable | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
    outbox: Outbox | None = None,
) -> list[Segment]:
    """Compress one column in GPU memory: `compress`, and its waits.

    Parameters
    ----------
    strings
        Read in place.
    table
        Symbol table for all segments; None trains one for every scope (docs/format.md, section 7).
    tile_size
        One of `cudf_fsst.codecs.fsst.layout.TILE_SIZES`, or ``"auto"``.
    level
        One of `cudf_fsst.codecs.fsst.layout.LEVELS`.
    stream
        CUDA stream to work on; None: cuDF's default stream.
    outbox
        See `compress`.
    """
    with Lane(stream) as lane:
        steps = compress([Task(strings, table, tile_size, level)], lane=lane, outbox=outbox)
        ((segments,),) = waits.run(lane, steps)
        return list(segments)


def _train(task: Task, lane: Lane) -> Steps:
    """Stage 1 for one column with one scope."""
    columns = yield from _plans([task], lane, one_scope=True)
    with ExitStack() as memory, ExitStack() as streams:
        side = [streams.enter_context(Lane(stream)) for stream in side_streams(1)]
        room = _make_room(columns, lane, side, memory, encode=False)
        exported = _look(room)
        found = _download_found(room)
        lane.follow(side[0])
        yield
        cuts = _cuts(room, found.tolist())
        trained = {} if exported is not None else (yield from _train_on_cpu(room, cuts))
        return trained[0][0] if exported is None else launch.trained_tables(exported)[0]


def train(strings: DeviceStrings, *, level: str = "default", stream: Any = None) -> SymbolTable:
    """Train one table on a whole column.

    Raises
    ------
    ValueError
        An unknown level.
    CharactersUnderNulls
        Null rows have characters.
    """
    check_level(level)
    if strings.rows == 0:  # such a column may have no offsets
        return train_table(np.empty(0, np.uint8), np.empty(0, np.int64))
    with Lane(stream) as lane:
        table: SymbolTable
        (table,) = waits.run(lane, _train(Task(strings, level=level), lane))
        return table
