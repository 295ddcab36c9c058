"""Compression on the GPU, stages 2 to 5 of columns whose segments take turns in a few slots of the workspace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane, pinned
from ...device.transfer import Outbox
from .cuda_encode import WaveSetup, compact, encode, make_wave, setup_of, with_places
from .cuda_room import PARTS, ColumnTables, Cut, Results, Room
from .cuda_tables import Exported, host_tables, pack_rows, packs
from .layout import TILE_BLOCK
from .views import WORD, WaveView, words

#: Segments that are described in a turn, beside the first ones: more than a turn begins to encode.
_PREPARED = 2


class _Encoding(NamedTuple):
    """What it takes to encode a segment of a long column, and where the size of its codes arrives.

    Attributes
    ----------
    waves : tuple of WaveView
        In a slot, and in a part of one, where there are parts.
    """

    cut: Cut
    setup: WaveSetup
    waves: tuple[WaveView, ...]
    size: npt.NDArray[np.int64]


class _Slots:
    """Slots that the segments of long columns are encoded in by turns, and their parts, each with a stream.

    The first segments have whole slots. If their codes turn out to be so few, the others have parts of slots, from
    where the first slot is free again on. A part is too small for a segment whose codes are more than those before.
    """

    def __init__(self, room: Room, segments: int) -> None:
        self.room, self.segments = room, segments
        self.parts = PARTS if room.part_nbytes else 1
        self.count = len(room.slots) // self.parts
        self.divided = False

    def divide(self, size: int, cut: Cut) -> None:
        """Use parts from now on, if segments whose codes are as many as those of the first one fit them, and more."""
        longest = cut.column.segment_size * size
        self.divided = 9 * longest <= 8 * self.room.part_nbytes * max(cut.chars, 1)

    def _whole(self, number: int) -> bool:
        return number < self.count or not self.divided

    def _place(self, number: int) -> int:
        if self._whole(number):
            return number % self.count * self.parts
        return (number - self.count) % (self.count * self.parts)

    def lane(self, number: int) -> Lane:
        """The stream of the segment `number` of the round."""
        return self.room.side[self._place(number)]

    def wave(self, number: int, encoding: _Encoding) -> WaveView:
        return encoding.waves[0 if self._whole(number) else 1]

    def wave_at(self, number: int) -> int:
        """Where a wave is described, all of it; as it is encoded in slots, then as in parts."""
        return self.first_at(self.count + number + (0 if self._whole(number) else self.segments))

    def first_at(self, number: int) -> int:
        """Where the first waves are described before they are complete."""
        return self.room.waves_at + WORD * len(WaveView._fields) * number

    def free(self, done: int) -> int:
        """How many segments may have been started when so many are done with."""
        if not self.divided:
            return done + self.count
        return self.count + self.parts * done if done <= self.count else done + self.count * self.parts

    def follow(self, number: int) -> None:
        """Let the first work in a part wait for its slot's, as far as that is enqueued."""
        if number >= self.count and not self._whole(number) and number < self.count * (1 + self.parts):
            place = self._place(number)
            self.room.side[place].follow(self.room.side[place // self.parts * self.parts])

    def waves_of(self, number: int, i: int, planned: int, tables: ColumnTables, table: int) -> tuple[WaveView, ...]:
        room, whole = self.room, number % self.count * self.parts
        waves = (make_wave(room, i, planned, tables, table, room.slots[whole]),)
        if self.parts == 1:
            return waves
        part = room.slots[(number - self.count) % len(room.slots)]
        return *waves, make_wave(room, i, planned, tables, table, part, room.part_nbytes)


@dataclass(frozen=True)
class First:
    """The first segments of a long column, which are encoded before it is known which rows they have.

    Attributes
    ----------
    waves : sequence of WaveView
        To be uploaded to ``waves_at``. None where the first segment may be none of those that are wanted.
    under_way : list
        Of each the size of its codes, and an event behind that.
    """

    waves: Sequence[WaveView]
    under_way: list[tuple[npt.NDArray[np.int64], Any]]


def first_waves(room: Room, tables: Sequence[ColumnTables]) -> First:
    """What encodes the first segments, as many as there are slots."""
    column, slots = room.columns[0], _Slots(room, 0)
    if column.task.only is not None or column.per_table < min(slots.count, column.segments):
        return First((), [])
    return First([slots.waves_of(number, 0, number, tables[0], 0)[0] for number in range(slots.count)], [])


def encode_first(room: Room, tables: Sequence[ColumnTables], first: First) -> None:
    """Stages 2 to 4 of the first segments; tables are trained in the first of the side streams.

    They begin behind all that the host waits for before it knows the rows, which would have to wait for them else.
    """
    column, slots = room.columns[0], _Slots(room, 0)
    for number, wave in enumerate(first.waves):
        lane = slots.lane(number)
        lane.follow(room.side[0] if number else room.lane)
        encode(lane, setup_of(column, tables[0], 0), slots.first_at(number), 1, wave.tile_limit)
        first.under_way.append((lane.fetch(wave.codes_nbytes, 1, np.int64), lane.event()))


def _forget_first(room: Room, first: First) -> None:
    """Undo `encode_first`: some of its segments have no rows, so that others come first. The GPU is waited for."""
    places = room.count_places[0]
    for _, event in first.under_way:
        event.synchronize()
    room.lane.zero(room.number(places.codes_nbytes), WORD * (places.null_chars - places.codes_nbytes))


def _start(slots: _Slots, number: int, encoding: _Encoding) -> Any:
    """Stages 2 to 4 of a segment, or of what a slot has room for; an event behind the size of its codes."""
    lane, wave = slots.lane(number), slots.wave(number, encoding)
    encode(lane, encoding.setup, slots.wave_at(number), 1, min(encoding.cut.layout.tiles, wave.tile_limit))
    lane.download(encoding.size, wave.codes_nbytes)
    return lane.event()


def _finish(
    slots: _Slots, number: int, encoding: _Encoding, meta: int, results: Results, outbox: Outbox | None
) -> tuple[int, int]:
    """Compact the codes of a segment, whose size is known; the number of the buffer they are in, and their size."""
    lane, at, size = slots.lane(number), slots.wave_at(number), int(encoding.size[0])
    wave, tiles = slots.wave(number, encoding), encoding.cut.layout.tiles
    if size >= 0 and tiles <= wave.tile_limit:
        codes = results.allocate(lane, size)
        compact(lane, encoding.setup, at, 1, tiles, results.buffers[codes].ptr)
    else:
        codes, size = _in_steps(lane, encoding, wave, at, meta, results)
    if outbox is not None:
        results.send(codes, outbox, lane)
    return codes, size


def _in_steps(lane: Lane, encoding: _Encoding, wave: WaveView, at: int, meta: int, results: Results) -> tuple[int, int]:
    """Encode a segment that a slot, or a part of one, has no room for (a giant row, or more codes than expected).

    It is encoded wave by wave, once for its size, once more to keep the codes. `at` is where waves are described.
    """
    setup, tiles, size = encoding.setup, encoding.cut.layout.tiles, encoding.size
    limit = wave.tile_limit
    if wave.capacity:
        limit = wave.capacity // setup.tile_size // TILE_BLOCK * TILE_BLOCK
        wave = wave._replace(capacity=0, tile_limit=limit)
    firsts = range(0, tiles, limit)

    def again(described: WaveView) -> int:
        lane.send(at, words([described]))
        lane.zero(wave.taken, WORD)
        of_wave = min(limit, tiles - described.tile_begin)
        encode(lane, setup, at, 1, of_wave)
        return of_wave

    lane.zero(wave.codes_nbytes, WORD)
    before = [0]
    for first in firsts:
        again(wave._replace(tile_begin=first))
        lane.download(size, wave.codes_nbytes)
        lane.synchronize()
        before.append(int(size[0]))
    codes = results.allocate(lane, before[-1])
    for first, bytes_before in zip(firsts, before, strict=False):
        of_wave = min(limit, tiles - first)
        placed = with_places(wave._replace(tile_begin=first), encoding.cut, of_wave, bytes_before, meta)
        again(placed)
        compact(lane, setup, at, 1, of_wave, results.buffers[codes].ptr)
    return codes, before[-1]


def _complete(slots: _Slots, encodings: Sequence[_Encoding], start: int, results: Results) -> list[int]:
    """Take memory for what is stored beside the codes of segments, from number `start` on; numbers of the buffers.

    And describe their waves, all there is to say.
    """
    lane = slots.room.lane
    metas = [results.allocate(lane, encoding.cut.layout.meta_nbytes) for encoding in encodings]
    for form in range(slots.parts):
        waves = [
            with_places(encoding.waves[form], encoding.cut, encoding.cut.layout.tiles, 0, results.buffers[meta].ptr)
            for encoding, meta in zip(encodings, metas, strict=True)
        ]
        lane.send(slots.first_at(slots.count + start + form * slots.segments), words(waves))
    uploaded = lane.event()
    for slot_lane in slots.room.side[:-1]:
        slot_lane.stream.wait_event(uploaded)
    return metas


def _pack(room: Room, cuts: Sequence[tuple[int, Cut]], metas: Sequence[int]) -> None:
    """Pack the rows of all segments, each with its column's number, to these addresses.

    In a stream of its own: what is done for codes would wait, as memory for it is taken in the default stream's order.
    """
    rows, lane = packs(room, cuts, metas), room.side[-1]
    lane.follow(room.lane)
    lane.send(room.packs_at, words(rows))
    pack_rows(room, rows, lane)


def compress_long(
    room: Room,
    cuts: Sequence[Iterator[Cut]],
    tables: Sequence[ColumnTables],
    results: Results,
    outbox: Outbox | None,
    exported: Exported,
    first: First,
) -> None:
    """Stages 2 to 5 of columns of several segments.

    Each slot has a stream of its own, so that the compaction of one segment, and the last bundles of its encoding, run
    beside the encoding of the next. The first are under way before the host knows the rows. So what the host does
    beside that, it does while the GPU encodes: it takes memory for a few segments first, and for some of the others
    whenever the next are under way, and has rows packed when there is memory for all.
    """
    lane, every = room.lane, ((i, cut) for i, of_column in enumerate(cuts) for cut in of_column)
    segments = sum(column.segments for column in room.columns)
    slots, sizes = _Slots(room, segments), pinned(segments, np.int64)
    flat: list[tuple[int, Cut]] = []
    encodings: list[_Encoding] = []
    metas: list[int] = []

    def prepare(cuts: Iterable[tuple[int, Cut]]) -> int:
        """Describe segments and take memory for them; how many."""
        start = len(flat)
        flat.extend(cuts)
        for number, (i, cut) in enumerate(flat[start:], start):
            waves = slots.waves_of(number, i, cut.planned, tables[i], cut.table)
            setup, size = setup_of(cut.column, tables[i], cut.table), sizes[number : number + 1]
            encodings.append(_Encoding(cut, setup, waves, size))
        if len(flat) > start:
            metas.extend(_complete(slots, encodings[start:], start, results))
        return len(flat) - start

    early = slots.count * (1 + slots.parts)  # what is encoded before the first is done with, and after
    ahead = list(islice(every, early))
    count = min(slots.count, len(ahead))
    begun = bool(first.waves) and [(i, cut.planned) for i, cut in ahead[:count]] == [(0, k) for k in range(slots.count)]
    if first.waves and not begun:
        _forget_first(room, first)
    prepare(ahead)
    under_way: deque[Any] = deque()
    if begun:
        for number, (size, event) in enumerate(first.under_way):
            encodings[number] = encodings[number]._replace(size=size)
            under_way.append(event)
    else:
        for number in range(count):
            slots.lane(number).follow(lane)
            slots.lane(number).follow(room.side[0])  # where tables are trained
            under_way.append(_start(slots, number, encodings[number]))
    started = count
    # When as many segments are under way as can be, a few of the others are prepared a turn: for all of them the GPU
    # would have to wait. Where things are sent, a segment's rows are needed with its codes.
    rest_after, at_a_time = (count - 1, _PREPARED) if outbox is None else (0, segments)
    packed = False
    for number, (i, cut) in enumerate(flat):  # which that turn completes
        under_way.popleft().synchronize()
        meta = results.buffers[metas[number]].ptr
        codes, codes_nbytes = _finish(slots, number, encodings[number], meta, results, outbox)
        if number == 0 and slots.parts > 1:
            slots.divide(codes_nbytes, cut)
        now = range(started, min(slots.free(number + 1), len(flat)))
        for following in now:
            slots.follow(following)
        under_way += [_start(slots, following, encodings[following]) for following in now]
        started += len(now)
        if number == 0:
            of_host = host_tables(room, tables, exported)  # of what has been encoded, training has ended
        if number >= rest_after and not packed and prepare(islice(every, at_a_time)) < at_a_time:
            _pack(room, flat, [results.buffers[meta].ptr for meta in metas])
            packed = True
        if outbox is not None:
            lane.follow(room.side[-1])
            lane.follow(slots.lane(number))
            results.send(metas[number], outbox, lane)
        results.add(cut, of_host[i][cut.table], metas[number], codes, codes_nbytes)
    for slot_lane in room.side:
        lane.follow(slot_lane)
