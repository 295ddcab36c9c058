"""Compression on the GPU: columns, how they are cut, and their room in the workspace.

A call plans its columns, and lets those share a workspace that the memory rule has room for. What is counted of them on
the way through the stages has its classes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from ...device.memory import ALIGNMENT, Lane, Workspace, current_device, device_attributes
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..table import Table
from . import launch as text_launch
from . import plan
from .cuda_task import TextTask, TileEncoder, TrainingNbytes, TrainingRoom, chars_of
from .layout import ROW_BLOCK, TILE_BLOCK, TILE_SIZES, SegmentLayout
from .segment import Segment
from .views import WORD, ColumnView, CountPlaces, PackView, ScopeView, WaveView, count_places

_SLACK = 32  # a segment may be 1/32 longer than planned, for its last row, before it is encoded in two passes
# Segments whose codes have room in the workspace. With plan.segment_size they keep the memory rule: at most 64 MiB or
# an eighth of the input. TPC-H l_comment on an H200, stages 2 to 5: 2 segments of 1/16 of the column 667 GB/s, of 1/20
# 623, of 1/28 570; 3 of 1/28 606 (3 of 1/20 672, but they break the rule); 1 of 1/12 537.
SLOTS = 2
# Where codes take less than half of the characters, each slot serves as so many. l_comment on an H200, all stages, with
# slots of whole segments that break the rule: 2 of them 515 GB/s, 3 543, 4 540, 6 540.
PARTS = 2
# Bytes of workspace of a column whose segments are encoded at once, with what others need beside it. And the most
# characters for a byte of room: codes of text take a third to a half of it.
_AT_ONCE_ROUND, _OTHERS = 64 << 20, 1 << 20
_CHARS_PER_BYTE = 2
# Bytes of workspace in which scopes of short columns take turns to be trained.
_TRAINING_AT_ONCE = 16 << 20
# Bytes of workspace that short columns share; that longer ones share for tables and row lengths, beside their slots.
_SHORT_ROUND = 40 << 20
_LONG_ROUND, _LONG_ROUND_SHARE = 4 << 20, 128
_COLUMN_NBYTES, _SCOPE_NBYTES, _WAVE_NBYTES, _PACK_NBYTES = (
    WORD * len(view._fields) for view in (ColumnView, ScopeView, WaveView, PackView)
)
_MANY_SCOPES = 1 << 16
_NO_TRAINING = TrainingRoom((), TrainingNbytes(), 0, 0, 0, 0, 0, 0, 0, 0, 0)
# Blocks of rows are rounded up to what the workspace is aligned to, and characters to blocks of tiles: columns of about
# the same size have the same layout, which is kept.
_ROW_BLOCKS = ALIGNMENT // 4


class RoomColumn(NamedTuple):
    """What is known of a column before the GPU has looked at it.

    Attributes
    ----------
    number : int
        Of its task.
    encoder : TileEncoder
        What trains its tables, and encodes its tiles.
    chars_limit : int
        Characters, or more.
    segment_size, segments : int
        Characters of a segment, and segments, at most.
    per_table, scopes : int
        Segments of a table's scope, and tables to train; 0: they were given.
    tile_limit : int
        Tiles of a segment, whole blocks of them, that a slot has room for.
    row_blocks : int
        That its segments may have: see first_row_block in row_lengths.cu.
    pool : int
        Bytes that the codes of its segments share, which are all encoded at once then, as far as they fit. 0: the codes
        of one have as much room as its characters take.
    """

    number: int
    task: TextTask
    encoder: TileEncoder
    chars_limit: int
    tile_size: int
    segment_size: int
    segments: int
    per_table: int
    scopes: int
    tile_limit: int
    row_blocks: int
    pool: int = 0

    @property
    def at_once(self) -> bool:
        """Whether all of it is encoded before its size is known."""
        return self.segments == 1 or self.pool > 0

    @property
    def slot_nbytes(self) -> tuple[int, int, int]:
        """Bytes of a slot, of its bundles' lengths (and places, in a pool) and of its tiles' lengths."""
        tiles = self.tile_limit
        bundles, tile_lengths = tiles // text_launch.BUNDLE_TILES, tiles * (1 if self.tile_size <= 256 else 2)
        return self.pool or tiles * self.tile_size, (8 if self.pool else 4) * bundles, tile_lengths

    @property
    def nbytes(self) -> int:
        """Bytes that it takes of a round's workspace, about."""
        a_table = sum(self.encoder.training_nbytes(_MANY_SCOPES, self.chars_limit)._replace(in_turns=0))
        return self.scopes * a_table + 4 * self.row_blocks + (sum(self.slot_nbytes) if self.segments == 1 else 0)


class Slot(NamedTuple):
    """Addresses of a slot for the codes of a segment, of its bundles' lengths and its tiles' lengths."""

    codes: int
    bundle_lengths: int
    tile_lengths: int


class Room(NamedTuple):
    """Columns that go through the stages together, and their room in the workspace.

    Attributes
    ----------
    lane, side
        The caller's stream, and the round's own. Tables are trained in the first. Where segments take turns, every slot
        has one, and every part, and the rows have the last.
    count_places : list of CountPlaces
        Of every column, places in the array of numbers that the GPU finds.
    row_words : list of int
        Of every column, address.
    first_scope, first_slot : list of int
        Of every column, among all whose tables are trained, and among `slots` where all are encoded at once.
    slots : list of Slot
        Of every segment, one column's after another's, where all are encoded at once; else those that segments take
        turns in, each followed by its further parts.
    part_nbytes : int
        Bytes of a part's codes; 0 where a slot is not used in parts.
    """

    lane: Lane
    side: Sequence[Lane]
    work: Workspace
    columns: Sequence[RoomColumn]
    count_places: Sequence[CountPlaces]
    counts_at: int
    views_at: int
    row_words: Sequence[int]
    first_scope: Sequence[int]
    first_slot: Sequence[int]
    training: TrainingRoom
    slots: Sequence[Slot]
    part_nbytes: int
    waves_at: int
    packs_at: int
    encoder: TileEncoder  # of all of the columns
    scopes: int  # tables to train

    @property
    def host_lookup(self) -> bool:
        """Whether the host makes what is read of the tables when they are trained."""
        return self.scopes > 0 and self.encoder.host_lookup

    def number(self, place: int) -> int:
        """Address of a number that the GPU finds."""
        return self.counts_at + WORD * place


class ColumnTables(NamedTuple):
    """Tables of a column's scopes.

    Attributes
    ----------
    place : callable
        Of a scope's number: where the encoder finds the table, and its bytes there.
    """

    place: Callable[[int], tuple[int, int]]
    of_host: Sequence[Table] = ()  # those that are encoded with before the host has them come later
    owner: Any = None


class Cut(NamedTuple):
    """A segment, as the GPU found it; segments without rows are left out."""

    column: RoomColumn
    planned: int  # its number in the plan
    table: int  # the scope it belongs to
    rows_begin: int
    rows: int
    chars_begin: int
    chars: int
    nulls: int
    words: int
    layout: SegmentLayout


class Results:
    """What a call has made: buffers, then segments by task."""

    def __init__(self, tasks: int) -> None:
        self.segments: list[list[Segment]] = [[] for _ in range(tasks)]
        self.buffers: list[Any] = []

    def allocate(self, lane: Lane, nbytes: int) -> int:
        """Take a buffer; its number."""
        self.buffers.append(lane.allocate(nbytes))
        return len(self.buffers) - 1

    def allocate_all(self, lane: Lane, sizes: Sequence[int]) -> range:
        """Take buffers; their numbers."""
        first = len(self.buffers)
        self.buffers += lane.allocate_all(sizes)
        return range(first, len(self.buffers))

    def send(self, number: int, outbox: Outbox, lane: Lane) -> None:
        """Bring a buffer to where it belongs."""
        self.buffers[number] = outbox.send(self.buffers[number], lane)

    def add(self, cut: Cut, table: Table, meta: int, codes: int, codes_nbytes: int) -> None:
        """Make a segment of two buffers, where they belong; no traceback's frame keeps it."""
        segment = Segment(cut.layout, cut.nulls, table, self.buffers[meta], self.buffers[codes], codes_nbytes)
        self.segments[cut.column.number].append(segment)

    def forget(self, numbers: Sequence[int]) -> None:
        """Give buffers back that nothing came of."""
        for number in numbers:
            self.buffers[number] = None

    def drop(self) -> None:
        """Let go of all, whoever still holds this object (a traceback, say)."""
        self.segments.clear()
        self.buffers.clear()


def tile_size_of(task: TextTask, encoder: TileEncoder) -> int:
    """Bytes of a tile that a column is to have, which may be none of those that there are."""
    return encoder.tile_size if task.tile_size == "auto" else int(task.tile_size)


def _plan(number: int, task: TextTask, chars_limit: int, *, one_scope: bool) -> RoomColumn:
    """Plan a column that has at most so many characters."""
    encoder = task.encoder
    assert encoder is not None
    tile_size = tile_size_of(task, encoder)
    if tile_size not in TILE_SIZES:
        raise ValueError(f"tile_size must be one of {TILE_SIZES}, not {task.tile_size!r}")
    segment_size, block = plan.segment_size(chars_limit), tile_size * TILE_BLOCK
    segments = max(-(-chars_limit // segment_size), 1)
    given = task.table is not None or bool(task.tables)
    per_table = segments if one_scope or task.table is not None else plan.segments_per_table(chars_limit)
    chars_limit = min(-(-chars_limit // block) * block, segments * segment_size)
    longest = min(chars_limit, segment_size + segment_size // _SLACK)
    row_blocks = task.strings.rows // ROW_BLOCK + segments
    return RoomColumn(
        number,
        task,
        encoder,
        chars_limit,
        tile_size,
        segment_size,
        segments,
        per_table,
        0 if given else -(-segments // per_table),
        max(-(-longest // block), 1) * TILE_BLOCK,
        -(-row_blocks // _ROW_BLOCKS) * _ROW_BLOCKS,
    )


def plan_columns(tasks: Sequence[TextTask], lane: Lane, *, one_scope: bool = False) -> Steps:
    """Plan all columns that have rows; waits where it is not known how many characters they have."""
    unknown = [task.strings for task in tasks if task.chars is None]
    chars = iter((yield from chars_of(unknown, lane)) if unknown else ())
    limits = [next(chars) if task.chars is None else task.chars for task in tasks]
    return [
        _plan(i, task, limits[i], one_scope=one_scope)
        for i, task in enumerate(tasks)
        if task.strings.rows and limits[i] is not None
    ]


def with_pool(column: RoomColumn) -> RoomColumn:
    """A column of several segments that may be encoded at once, with room for its codes; others as they are."""
    several = column.scopes > 1 or len(column.task.tables) > 1
    if column.segments == 1 or column.segments > column.encoder.group or several:
        return column
    pool = _pool(column[2:], current_device())
    return RoomColumn._make((*column[:-1], pool)) if column.chars_limit <= _CHARS_PER_BYTE * pool else column


@lru_cache(64)
def _pool(shape: tuple[Any, ...], _device: int) -> int:
    """Bytes for the codes of a column of several segments; of `_layout`'s shape and device."""
    column = RoomColumn._make((0, None, *shape))
    _, bundles, tiles = column._replace(pool=1).slot_nbytes
    room = _AT_ONCE_ROUND - _OTHERS - column.nbytes - column.segments * (bundles + tiles)
    return room // ALIGNMENT * ALIGNMENT


def rounds(columns: Sequence[RoomColumn]) -> Iterator[list[RoomColumn]]:
    """Columns that share a workspace within the memory rule, and an encoder; short ones, then longer ones."""
    if len(columns) == 1:
        yield list(columns)
        return
    for encoder, short in dict.fromkeys((column.encoder, short) for short in (True, False) for column in columns):
        together: list[RoomColumn] = []
        nbytes = chars = 0
        for column in columns:
            if (column.segments == 1) != short or column.encoder is not encoder:
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


class _Layout(NamedTuple):
    """Where a round's things lie in its workspace: offsets of what `Room` has addresses of; see there."""

    work: Workspace  # in which they are reserved
    count_places: Sequence[CountPlaces]
    first_scope: Sequence[int]
    first_slot: Sequence[int]
    chars_limits: Sequence[int]
    training_nbytes: TrainingNbytes
    offsets: Sequence[int]  # of counts, views, row words, and the three of each slot
    scopes_place: int  # behind the first view, as are the next two
    waves_place: int
    packs_place: int
    training_at: Sequence[int]
    turns_at: int
    turns_nbytes: int
    part_nbytes: int


@lru_cache(64)
def _layout(shapes: tuple[tuple[Any, ...], ...], encode: bool, _device: int) -> _Layout:
    """Lay out the workspace of columns, of which all is given but number and task, on a device: they differ."""
    columns = [RoomColumn._make((0, None, *shape)) for shape in shapes]
    work = Workspace()
    places, first_scope, chars_limits, numbers = [], [], list[int](), 0
    *first_slot, segments = accumulate((column.segments for column in columns), initial=0)
    for column in columns:
        places.append(count_places(numbers, column.segments))
        numbers = places[-1].end
        first_scope.append(len(chars_limits))
        chars_limits += [column.chars_limit] * column.scopes
    scopes, encoder = len(chars_limits), columns[0].encoder
    at_once = columns[0].at_once and encode
    of_columns = [encoder.training_nbytes(scopes, column.chars_limit) for column in columns if column.scopes]
    each = of_columns[0] if of_columns else TrainingNbytes()
    reserve = work.reserve
    counts_at = reserve(WORD * numbers)
    # Waves lie behind these views and before packs, for uploads that bring several kinds. Of long columns the first are
    # described before the others, and then all, as they are encoded in a slot and in a part of one.
    scopes_place = _COLUMN_NBYTES * len(columns)
    waves_place = scopes_place + _SCOPE_NBYTES * scopes
    waves = 0 if not encode else segments if at_once else SLOTS + 2 * segments
    packs_place = waves_place + _WAVE_NBYTES * waves
    views_at = reserve(packs_place + (_PACK_NBYTES * segments if encode else 0))
    row_words = [reserve(4 * column.row_blocks) for column in columns]
    training_at = [reserve(scopes * nbytes) for nbytes in each[:-1]] if scopes else []
    in_turns = max((nbytes.in_turns for nbytes in of_columns), default=0)
    turns_at = turns_nbytes = 0
    if in_turns and at_once:
        turns_nbytes = min(scopes * in_turns, max(in_turns, _TRAINING_AT_ONCE))
        turns_at = reserve(turns_nbytes)
    sizes = [column.slot_nbytes for column in columns] if encode else []
    slots: list[int] = []
    part_nbytes = 0
    if at_once:
        for column, (codes, *lengths) in zip(columns, sizes, strict=True):
            codes_at = reserve(codes)
            for _ in range(column.segments):
                slots += codes_at, *map(reserve, lengths)
    elif encode:
        codes, bundles, tiles = map(max, zip(*sizes, strict=True))
        # A part has room for a block of tiles at least, whatever their codes take.
        divided = len(columns) == 1 and not encoder.whole_slots and columns[0].tile_limit >= PARTS * TILE_BLOCK
        part_nbytes = codes // PARTS // ALIGNMENT * ALIGNMENT if divided else 0
        # Tables are trained where the segments' codes go then.
        count = min(SLOTS, segments)
        every_code = reserve(max(count * codes, in_turns))
        if in_turns:
            turns_at, turns_nbytes = every_code, max(count * codes, in_turns)
        for number in range(count):
            codes_at = every_code + number * codes
            for part in range(PARTS if divided else 1):
                slots += codes_at + part * part_nbytes, reserve(2 * bundles), reserve(tiles)
    return _Layout(
        work,
        places,
        first_scope,
        first_slot,
        chars_limits,
        each,
        [counts_at, views_at, *row_words, *slots],
        scopes_place,
        waves_place if encode else 0,
        packs_place if encode else 0,
        training_at,
        turns_at,
        turns_nbytes,
        part_nbytes,
    )


def make_room(
    columns: Sequence[RoomColumn],
    lane: Lane,
    side: Sequence[Lane],
    work: Workspace,
    *,
    encode: bool,
    more: Callable[[Workspace], None] | None = None,
) -> Room:
    """Take the workspace of a round, laid out as it was for columns of these sizes; `more` reserves more there."""
    layout = _layout(tuple([column[2:] for column in columns]), encode, current_device())
    work.like(layout.work)
    if more is not None:
        more(work)
    work.take(lane)
    each, scopes, training = layout.training_nbytes, len(layout.chars_limits), _NO_TRAINING
    counts, views, *others = work.addresses(layout.offsets)
    row_words, slots = others[: len(columns)], others[len(columns) :]
    if scopes:
        # What has no bytes lies nowhere.
        places = [work[place] if nbytes else 0 for place, nbytes in zip(layout.training_at, each, strict=False)]
        turns = work[layout.turns_at] if layout.turns_nbytes else 0
        rest = turns, layout.turns_nbytes, device_attributes()["multiprocessors"]
        training = TrainingRoom._make((layout.chars_limits, each, views + layout.scopes_place, *places, *rest))
    return Room(
        lane,
        side,
        work,
        columns,
        layout.count_places,
        counts,
        views,
        row_words,
        layout.first_scope,
        layout.first_slot,
        training,
        [Slot(*slots[i : i + 3]) for i in range(0, len(slots), 3)],
        layout.part_nbytes,
        views + layout.waves_place,
        views + layout.packs_place,
        columns[0].encoder,
        scopes,
    )
