"""Compression on the GPU, stages 2 to 5: encode, transpose and gather in one kernel, then compact."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane, device_attributes, pinned
from ...device.transfer import Outbox
from ...profiling import COMPACT, ENCODE
from . import launch
from .cuda_kernels import blocks, get_kernel
from .cuda_room import Column, Cut, Results, Room, Slot, Tables
from .cuda_tables import Exported, download_found, find_cuts, host_tables, pack_rows, packs
from .launch import WORD, WaveView
from .layout import SECTIONS, TILE_BLOCK
from .tuning import Choices

_u32, _u64 = np.uint32, np.uint64
_BLOCK_STARTS, _TILE_LENGTHS = SECTIONS.index("block_starts"), SECTIONS.index("tile_lengths")
_KNOWN = WaveView._fields.index("tiles")  # fields of a wave that are known before its segment is cut


class _Kind(NamedTuple):
    """What waves of one launch have in common."""

    level: str
    tile_size: int
    tables_nbytes: int  # level max: of the lookup tables
    choices: Choices


def _wave(room: Room, i: int, planned: int, tables: Tables, table: int, slot: Slot) -> WaveView:
    """The first tiles of a segment of column `i`."""
    column, found = room.columns[i], room.found[i]
    address, nbytes = tables.place(table)
    staged = 0
    if column.task.level == "max":
        shared = device_attributes()["shared_per_block"]
        staged = launch.encode_max_shape(column.tile_size, shared, nbytes).staged
    return WaveView(
        room.number(found.first_char),
        room.number(found.chars_begin + planned),
        address,
        staged,
        0,
        column.tile_limit,
        *slot,
        room.number(found.codes_nbytes + planned),
        column.pool,
        room.number(found.used),
        room.number(found.taken + planned),
    )


def _kind(column: Column, tables: Tables, table: int) -> _Kind:
    return _Kind(column.task.level, column.tile_size, tables.place(table)[1], column.choices)


@ENCODE
def _encode(lane: Lane, kind: _Kind, waves_at: int, groups: int, most_tiles: int, per_group: int = 1) -> None:
    """Stages 2 to 4 of groups of so many waves each, the longest of which has at most so many tiles."""
    attributes = device_attributes()
    shared_per_block, multiprocessors = attributes["shared_per_block"], attributes["multiprocessors"]
    arguments: tuple[Any, ...] = (_u64(waves_at),)
    if kind.level == "max":
        kernel = get_kernel("fsst_encode_max", "fsst_encode_max", kind.tile_size)
        threads, shared, _ = launch.encode_max_shape(kind.tile_size, shared_per_block, kind.tables_nbytes)
        grid = multiprocessors
    else:
        warps = kind.choices.encode_warps
        kernel = get_kernel("fsst_encode", "fsst_encode", kind.tile_size, warps)
        threads, shared, *_ = launch.encode_shape(kind.tile_size, shared_per_block, warps)
        grid = max(1, round(kind.choices.encode_blocks * multiprocessors))
        arguments = *arguments, _u32(per_group)
    pieces = blocks(most_tiles, launch.PIECE_TILES)
    # One group may have a block a piece; of several, blocks that find no multiprocessor free would load tables in vain.
    grid = min(grid, pieces, max(blocks(pieces, threads // 32), multiprocessors // groups))
    lane.launch(kernel, (grid, groups), threads, arguments, shared)


@COMPACT
def _compact(lane: Lane, kind: _Kind, waves_at: int, count: int, most_tiles: int, codes: int = 0) -> None:
    """Stage 5 of waves; `codes`: of one wave, where it was not known when the wave was uploaded."""
    kernel = get_kernel("fsst_encode", "fsst_compact", kind.tile_size, kind.choices.encode_warps)
    grid = blocks(blocks(most_tiles, launch.PIECE_TILES), launch.COMPACT_PIECES)
    lane.launch(kernel, (grid, count), 256, (_u64(waves_at), _u64(codes)))


def _with_places(wave: WaveView, cut: Cut, tiles: int, before: int, meta: int, codes: int = 0) -> WaveView:
    """A wave as fsst_compact needs it: with where its tiles go in ``meta`` and codes at these addresses."""
    layout, first = cut.layout, wave.tile_begin
    block_starts = meta + layout.places[_BLOCK_STARTS] + 8 * (first // TILE_BLOCK)
    lengths = meta + layout.places[_TILE_LENGTHS] + layout.tile_length_itemsize * first
    return WaveView._make((*wave[:_KNOWN], tiles, before, block_starts, lengths, codes))


class _Run(NamedTuple):
    """Waves of one launch: all those of some columns of a kind, each column a group."""

    kind: _Kind
    waves_at: int
    columns: Sequence[int]
    per_group: int


@dataclass(frozen=True)
class Waves:
    """The waves of columns that are encoded at once, in the order of `runs`, and the segments that they are of."""

    runs: Sequence[_Run]
    views: Sequence[WaveView]
    order: Sequence[tuple[int, int]]  # column, and the segment's number in its plan


def waves_at_once(room: Room, tables: Sequence[Tables]) -> Waves:
    """What encodes columns at once; to be uploaded to ``waves_at``."""
    kinds: dict[tuple[_Kind, int], list[int]] = {}
    for i, column in enumerate(room.columns):
        kinds.setdefault((_kind(column, tables[i], 0), column.segments), []).append(i)
    first_slot = list(accumulate((column.segments for column in room.columns), initial=0))
    runs: list[_Run] = []
    order: list[tuple[int, int]] = []
    for (kind, segments), columns in kinds.items():
        runs.append(_Run(kind, room.waves_at + WORD * len(WaveView._fields) * len(order), columns, segments))
        order += ((i, planned) for i in columns for planned in range(segments))
    views = [_wave(room, i, planned, tables[i], 0, room.slots[first_slot[i] + planned]) for i, planned in order]
    return Waves(runs, views, order)


def compress_at_once(
    room: Room,
    tables: Sequence[Tables],
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
    lane, beside = room.lane, bool(room.side and not room.searches)
    for kind, waves_at, of_kind, per_group in waves.runs:
        most_tiles = per_group * max(room.columns[i].tile_limit for i in of_kind)
        _encode(room.side[0] if beside else lane, kind, waves_at, len(of_kind), most_tiles, per_group)
    found = download_found(room)
    yield
    numbers = found.tolist()
    cuts = [(i, cut) for i, of_column in enumerate(find_cuts(room, numbers)) for cut in of_column]
    if any(cut.layout.tiles > cut.column.tile_limit for _, cut in cuts):
        room.side[0].synchronize()  # copies to the host may be under way
        return False
    metas = [results.allocate(lane, cut.layout.meta_nbytes) for _, cut in cuts]
    addresses = [results.buffers[meta].ptr for meta in metas]
    rows = packs(room, cuts, addresses)
    places = {(i, cut.planned): number for number, (i, cut) in enumerate(cuts)}

    def with_places(wave: WaveView, number: int | None, codes: int) -> WaveView:
        if number is None:  # a segment that got no rows
            return wave
        cut = cuts[number][1]
        return _with_places(wave, cut, cut.layout.tiles, 0, addresses[number], codes)

    alone = len(waves.order) == 1  # then the launch says where the codes go, and the wave is complete without
    if beside:
        lane.upload(room.packs_at, launch.words(rows))
        pack_rows(room, rows)
        if alone:
            room.side[0].upload(room.waves_at, launch.words([with_places(waves.views[0], 0, 0)]))
        lane.follow(room.side[0])
        found = download_found(room)
        yield
        numbers = found.tolist()
    if any(0 < column.pool < numbers[place.used] for column, place in zip(room.columns, room.found, strict=True)):
        results.forget(metas)
        return False
    sizes = [numbers[room.found[i].codes_nbytes + cut.planned] for i, cut in cuts]
    codes = [results.allocate(lane, size) for size in sizes]
    if not (beside and alone):
        complete = []
        for wave, place in zip(waves.views, waves.order, strict=True):
            number = places.get(place)
            complete.append(with_places(wave, number, 0 if number is None else results.buffers[codes[number]].ptr))
        lane.upload(room.waves_at, launch.words(chain(complete, () if beside else rows)))
    if not beside:
        pack_rows(room, rows)
    longest = [0] * len(room.columns)
    for i, cut in cuts:
        longest[i] = max(longest[i], cut.layout.tiles)
    for kind, waves_at, of_kind, per_group in waves.runs:
        most_tiles = max(longest[i] for i in of_kind)
        to = results.buffers[codes[0]].ptr if alone else 0
        _compact(lane, kind, waves_at, len(of_kind) * per_group, most_tiles, to)
    of_host = host_tables(room, tables, exported)
    for (i, cut), meta, made, size in zip(cuts, metas, codes, sizes, strict=True):
        for number in (meta, made):
            results.send(number, outbox, lane)
        results.add(cut, of_host[i][cut.table], meta, made, size)
    return True


class _Slots:
    """Slots that the segments of long columns are encoded in by turns, each with a stream.

    A wave is described where the GPU finds it for encoding, and for compaction. These are two places for the first
    segments, which are encoded before there is memory that their codes go to.
    """

    def __init__(self, room: Room, segments: int) -> None:
        self.slots = room.slots[:segments]
        self.lanes = list(room.side[: len(self.slots)])
        self.segments, self._waves_at = segments, room.waves_at

    def lane(self, number: int) -> Lane:
        """The stream of the segment `number` of the round."""
        return self.lanes[number % len(self.lanes)]

    def slot(self, number: int) -> Slot:
        return self.slots[number % len(self.slots)]

    def wave_at(self, number: int) -> int:
        """Where the wave of a segment is described for encoding; of all segments one after another."""
        return self._waves_at + WORD * len(WaveView._fields) * number

    def complete_at(self, number: int) -> int:
        """Where it is described for compaction: behind all others, of those that are encoded first."""
        return self.wave_at(number if number >= len(self.slots) else self.segments + number)


class _Encoding(NamedTuple):
    """What it takes to encode a segment of a long column: its wave, and where the size of its codes arrives."""

    number: int  # of the round
    column: int  # likewise
    cut: Cut
    kind: _Kind
    wave: WaveView
    size: npt.NDArray[np.int64]


def _start(slots: _Slots, encoding: _Encoding) -> Any:
    """Stages 2 to 4 of a segment, or of what a slot has room for; an event behind the size of its codes."""
    lane, wave = slots.lane(encoding.number), encoding.wave
    _encode(lane, encoding.kind, slots.wave_at(encoding.number), 1, min(encoding.cut.layout.tiles, wave.tile_limit))
    lane.download(encoding.size, wave.codes_nbytes)
    return lane.event()


def _finish(slots: _Slots, encoding: _Encoding, meta: int, results: Results, outbox: Outbox | None) -> int:
    """Compact the codes of a segment, whose size is known; the number of the buffer they are in.

    A segment longer than a slot (a giant row) is encoded wave by wave, once for its size, once more to keep the codes.
    """
    lane, at, size = slots.lane(encoding.number), slots.complete_at(encoding.number), encoding.size
    kind, wave, tiles = encoding.kind, encoding.wave, encoding.cut.layout.tiles
    limit = wave.tile_limit
    waves, before = [wave], [0]
    for first in range(limit, tiles, limit):
        before.append(int(size[0]))
        waves.append(wave._replace(tile_begin=first))
        lane.upload(at, launch.words(waves[-1:]))
        lane.zero(wave.taken, WORD)
        _encode(lane, kind, at, 1, min(limit, tiles - first))
        lane.download(size, wave.codes_nbytes)
        lane.synchronize()
    codes = results.allocate(lane, int(size[0]))
    address = results.buffers[codes].ptr
    if len(waves) == 1:
        _compact(lane, kind, at, 1, tiles, address)
    else:
        for one, bytes_before in zip(waves, before, strict=True):
            of_wave = min(limit, tiles - one.tile_begin)
            described = _with_places(one, encoding.cut, of_wave, bytes_before, meta)
            lane.upload(at, launch.words([described]))
            lane.zero(wave.taken, WORD)
            _encode(lane, kind, at, 1, of_wave)
            _compact(lane, kind, at, 1, of_wave, address)
    results.send(codes, outbox, lane)
    return codes


def _take_metas(room: Room, slots: _Slots, encodings: Sequence[_Encoding], results: Results) -> list[int]:
    """Take memory for what is stored beside the codes, and complete all waves; numbers of the buffers."""
    lane, count = room.lane, len(slots.lanes)
    metas = [results.allocate(lane, encoding.cut.layout.meta_nbytes) for encoding in encodings]
    complete = [
        _with_places(encoding.wave, encoding.cut, encoding.cut.layout.tiles, 0, results.buffers[meta].ptr)
        for encoding, meta in zip(encodings, metas, strict=True)
    ]
    lane.upload(slots.wave_at(count), launch.words((*complete[count:], *complete[:count])))
    uploaded = lane.event()
    for slot_lane in slots.lanes:
        slot_lane.stream.wait_event(uploaded)
    return metas


def _pack(room: Room, cuts: Sequence[tuple[int, Cut]], metas: Sequence[int]) -> None:
    """Pack the rows of all segments, each with its column's number, to these addresses."""
    rows = packs(room, cuts, metas)
    room.lane.upload(room.packs_at, launch.words(rows))
    pack_rows(room, rows)


def compress_long(
    room: Room,
    cuts: Sequence[Iterator[Cut]],
    tables: Sequence[Tables],
    results: Results,
    outbox: Outbox | None,
    exported: Exported,
) -> None:
    """Stages 2 to 5 of columns of several segments.

    Each slot has a stream of its own, so that the compaction of one segment, and the last pieces of its encoding, run
    beside the encoding of the next. What the host does beside that, it does while the GPU encodes: it cuts the others
    and takes memory when the first segments are under way, has rows packed when the slots are filled again, and makes a
    segment when the next one is encoded.

    TPC-H l_comment on an H200, medians of calls by turns in one process each, against 3.02-3.14 ms of this way: the
    first segments encoded before the host knows the rows, and memory taken for all while the GPU encodes the next two,
    3.40-3.55 ms; the same with memory and rows of two segments at a time, 3.17-3.25 ms.
    """
    lane, every = room.lane, ((i, cut) for i, of_column in enumerate(cuts) for cut in of_column)
    flat = list(islice(every, len(room.slots)))
    slots = _Slots(room, len(flat))
    count, sizes = len(slots.lanes), pinned(sum(column.segments for column in room.columns), np.int64)

    def planned(number: int) -> _Encoding:
        i, cut = flat[number]
        wave = _wave(room, i, cut.planned, tables[i], cut.table, slots.slot(number))
        return _Encoding(number, i, cut, _kind(cut.column, tables[i], cut.table), wave, sizes[number : number + 1])

    encodings = [planned(number) for number in range(count)]
    lane.upload(slots.wave_at(0), launch.words(encoding.wave for encoding in encodings))
    for before, after in pairwise((lane, *slots.lanes)):  # tables are trained in the first of those
        after.follow(before)
    under_way = deque(_start(slots, encoding) for encoding in encodings)
    flat += every
    slots.segments = len(flat)
    encodings += [planned(number) for number in range(count, len(flat))]
    metas = _take_metas(room, slots, encodings, results)
    for encoding, meta in zip(encodings, metas, strict=True):
        number, i, cut = encoding.number, encoding.column, encoding.cut
        under_way.popleft().synchronize()
        codes = _finish(slots, encoding, results.buffers[meta].ptr, results, outbox)
        if number + count < len(flat):
            under_way.append(_start(slots, encodings[number + count]))
        if number == 0:
            _pack(room, flat, [results.buffers[one].ptr for one in metas])
            of_host = host_tables(room, tables, exported)  # of what has been encoded, training has ended
        if outbox is not None:
            lane.follow(slots.lane(number))
            results.send(meta, outbox, lane)
        results.add(cut, of_host[i][cut.table], meta, codes, int(encoding.size[0]))
    for slot_lane in slots.lanes:
        lane.follow(slot_lane)
