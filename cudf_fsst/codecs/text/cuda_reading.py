"""What reading strings on the GPU needs of a column: descriptors of its segments, decode tables, plans of launches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import accumulate, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device.memory import Lane, current_device, device_attributes
from ...lazy import lazy
from ..contract import DeviceTextCodec
from . import launch
from .layout import ROW_BLOCK, TILE_BLOCK
from .segment import Segment

_u32, _u64 = np.uint32, np.uint64
Words = npt.NDArray[np.uint64]
Views = npt.NDArray[np.void]

#: Plans for some segments that are kept, and the most bytes of such an image.
_KEPT, _KEPT_NBYTES = 8, 1 << 20
#: cuDF wants masks of whole 64 bytes.
MASK_BITS = 512

FIELDS = {name: i for i, name in enumerate(launch.SEGMENT_VIEW.names or ())}
#: What follows from a segment's place in its column.
_OF_COLUMN = [FIELDS[name] for name in ("table", "first_row", "out_row", "out_char", "row_end", "char_end")]


def _joined(views: Sequence[Views]) -> Views:
    """Descriptors one after another; NumPy compares the fields of all when it joins records, which takes longer."""
    return np.concatenate([view.view(_u64) for view in views]).view(launch.SEGMENT_VIEW)


class Decode(NamedTuple):
    """A launch of a decoder: consecutive descriptors, and where in the image it says who works on them."""

    side: DeviceTextCodec
    shift: int
    shape: launch.Shape
    bundles: int
    group: slice
    first_units: int
    units: int


class ReadColumn(NamedTuple):
    """A column of a plan: its descriptors, and what it becomes."""

    group: slice
    rows: int
    chars: int
    null_count: int
    masked: bool

    @property
    def itemsize(self) -> int:
        return 4 if self.chars < 2**31 else 8


class ReadPlan:
    """What a call launches, and the image of the small workspace that the kernels read: all but the addresses.

    Parameters
    ----------
    views
        Descriptors of every column, with the rows that are wanted.
    columns
        Of the same columns.
    """

    def __init__(self, views: Sequence[Views], columns: Sequence[ReadColumn]) -> None:
        self.columns = columns
        #: Of all rows of a column: what `part` has made.
        self._parts: dict[tuple[int, int], ReadPlan] = {}
        view = self.view = _joined(views)
        self.count = view.size
        ends, begins = view["row_end"].astype(np.int64), view["row_begin"].astype(np.int64)
        row_blocks = -(-ends // ROW_BLOCK) - begins // ROW_BLOCK
        view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
        self.row_blocks = int(row_blocks.sum())
        self.first_bits, bit = [], 0
        for column in columns:
            part = view[column.group]
            part["last"][-1] = 1
            part["out_bit"] = bit
            self.first_bits.append(bit)
            if column.masked:
                part["out_bit"] += part["out_row"]
                bit += -(-column.rows // MASK_BITS) * MASK_BITS
        self.mask_words = bit // 32

    def complete(self, readings: Sequence[Reading], groups: Sequence[slice] | None = None) -> ReadPlan:
        """Now that ``columns`` and the characters of the descriptors are known.

        `readings`: of every column; ``table`` of its descriptors is a place in its decode tables. `groups`: descriptors
        that arrive together.
        """
        view, place = self.view, 0
        sides = {name: side for reading in readings for name, side in reading.sides.items()}
        of_codecs = np.zeros(view.size, np.intp)
        for column, reading in zip(self.columns, readings, strict=True):
            part = view[column.group]
            if len(sides) > 1:
                of_codecs[column.group] = reading.numbers_of(part["table"], list(sides))
            part["table"] += _u64(place)
            part["wide_offsets"] = column.itemsize == 8
            place += reading.tables.nbytes
        self.place = place
        units_at = place + view.nbytes
        largest = max((reading.table_nbytes for reading in readings), default=0)
        self.decodes, units = _decodes(
            view, groups or [slice(0, view.size)], units_at, [*sides.values()], of_codecs, largest
        )
        tables = (reading.tables for reading in readings)
        self.image = np.concatenate([*tables, view.view(np.uint8), *(array.view(np.uint8) for array in units)])
        return self

    def part(self, first: int, last: int, rows: int, nulls: int) -> ReadPlan:
        """The plan that reads only these segments of all of a column, which have so many rows; some are kept."""
        if (kept := self._parts.get((first, last))) is not None:
            return kept
        plan, view = copy(self), _joined([self.view[first:last]])
        column = ReadColumn(slice(0, last - first), rows, int(view["chars"].sum()), nulls, nulls > 0)
        plan.view, plan.count, plan.columns, plan._parts = view, last - first, [column], {}
        view["last"][-1], view["wide_offsets"] = 1, column.itemsize == 8
        ends = [*self.view["first_row_block"].tolist(), self.row_blocks]
        plan.row_blocks, plan.decodes = ends[last] - ends[first], []
        plan.mask_words = -(-column.rows // MASK_BITS) * MASK_BITS // 32 if column.masked else 0
        for name in ("out_row", "out_char", "out_bit", "first_row_block"):
            view[name] -= view[name][0]
        arrays = [self.image[: self.place], view.view(np.uint8)]
        place = self.place + view.nbytes
        for step in self.decodes:
            begins = self.image[step.first_units :][: 4 * self.count].view(_u32)
            units = (int(begins[last]) if last < self.count else step.units) - int(begins[first])
            if units:
                arrays.append((begins[first:last] - begins[first]).view(np.uint8))
                plan.decodes.append(step._replace(group=column.group, first_units=place, units=units))
                place += arrays[-1].nbytes
        plan.image = np.concatenate(arrays)
        if plan.image.nbytes <= _KEPT_NBYTES:
            if len(self._parts) >= _KEPT:
                self._parts.clear()
            self._parts[first, last] = plan
        return plan

    def moved(self, meta: Words, codes: Words) -> ReadPlan:
        """A copy of the plan for buffers that lie so many bytes further on, a number for each descriptor."""
        plan = copy(self)
        plan._parts = {}
        plan.image = self.image.copy()
        words = plan.words(plan.image)
        launch.move(words, meta, codes)
        plan.view = words.view(launch.SEGMENT_VIEW).ravel()
        return plan

    def words(self, image: npt.NDArray[np.uint8]) -> Words:
        """The descriptors of a copy of the image, a row each."""
        end = self.place + self.count * launch.SEGMENT_VIEW.itemsize
        return image[self.place : end].view(_u64).reshape(self.count, len(FIELDS))


def _decodes(
    view: Views,
    groups: Sequence[slice],
    place: int,
    sides: Sequence[DeviceTextCodec],
    of_codecs: npt.NDArray[np.intp],
    table_nbytes: int,
) -> tuple[list[Decode], list[npt.NDArray[np.uint32]]]:
    """Launches of decoders, one for each codec, tile size and group, and what is at `place` of the image for them.

    `of_codecs`: for each descriptor, which of `sides` made its segment. `table_nbytes`: of the largest decode table.
    """
    attributes = device_attributes()
    decodes, arrays = [], []
    begin, end, shifts = (view[name].astype(np.int64) for name in ("char_begin", "char_end", "tile_shift"))
    for number, shift in product(range(len(sides)), sorted(set(shifts.tolist()))):
        mine = (shifts == shift) & (end > begin) & (of_codecs == number)
        if not mine.any():
            continue
        tiles = int((-(-view["chars"][mine].astype(np.int64) >> shift)).sum())
        codes_nbytes = int(view["codes_nbytes"][mine].sum())
        side = sides[number]
        shape = side.decode_shape(1 << shift, codes_nbytes, tiles, table_nbytes)
        block_chars = TILE_BLOCK << shift
        wanted = np.where(mine, end - begin // block_chars * block_chars, 0)
        bundles = launch.decode_bundles(
            int(wanted.sum()) // (launch.BUNDLE_TILES << shift), attributes["multiprocessors"] * shape.resident
        )
        units = -(-wanted // (shape.threads * bundles << shift))
        for group in groups:
            group_units = units[group]
            total = int(group_units.sum())
            if total:
                decodes.append(Decode(side, shift, shape, bundles, group, place, total))
                arrays.append((np.cumsum(group_units) - group_units).astype(_u32))
                place += arrays[-1].nbytes
    return decodes, arrays


class Reading:
    """What reading a column needs and no call changes. In host memory; it keeps addresses of segments, not segments.

    Uploaded, it takes 4.1 KB for every symbol table and 232 bytes for every segment. To keep it on the GPU would save a
    copy of some microseconds a call, and make every column larger than its parts.

    Parameters
    ----------
    segments
    sides
        By the name of each codec that made some of them.
    """

    def __init__(self, segments: Sequence[Segment], sides: Mapping[str, DeviceTextCodec]) -> None:
        self.sides = sides
        self.buffers = _buffers(segments)
        #: Of a copy: what it is made of, and by how many bytes the buffers of each segment lie further on.
        self._first: tuple[Reading, Words] | None = None
        view = launch.describe(segments)
        words = view.view(_u64).reshape(view.size, len(FIELDS))
        self.__dict__.update(words=words, view=view)
        place_of: dict[Any, int] = {}
        tables: list[npt.NDArray[np.uint8]] = []
        #: Where the decode table of each symbol table begins, and the last one ends, and whose it is.
        self._table_edges, self._table_codecs = [0], list[str]()
        for segment in segments:
            if segment.table not in place_of:
                place_of[segment.table] = self._table_edges[-1]
                tables.append(sides[segment.codec].decode_table(segment.table))
                self._table_edges.append(self._table_edges[-1] + tables[-1].nbytes)
                self._table_codecs.append(segment.codec)
        self._table_places = [place_of[segment.table] for segment in segments]
        first, *others = sides.values()
        #: The codec whose kernels take rows of all segments one by one, or None.
        self.taker: Any = first if not others and first.TAKES else None
        #: Likewise, the codec that answers questions on the codes.
        self.matcher: Any = first if not others and first.MATCHES else None
        #: Bytes of the largest decode table.
        self.table_nbytes = max((table.nbytes for table in tables), default=0)
        self.tables = tables[0] if len(tables) == 1 else np.concatenate(tables)
        rows, chars = [segment.rows for segment in segments], [segment.chars for segment in segments]
        row_ends, char_ends = list(accumulate(rows)), list(accumulate(chars))
        self.row_ends, self._ends = np.array(row_ends), row_ends
        first_rows, first_chars = [0, *row_ends[:-1]], [0, *char_ends[:-1]]
        words[:, _OF_COLUMN] = np.array([self._table_places, first_rows, first_rows, first_chars, rows, chars], _u64).T
        self.null_counts = np.array([segment.null_count for segment in segments], np.int64)
        nulls = int(self.null_counts.sum())
        self.column = ReadColumn(slice(0, view.size), row_ends[-1], char_ends[-1], nulls, nulls > 0)
        self.shifts = sorted({segment.layout.tile_size.bit_length() - 1 for segment in segments})
        self._whole: tuple[tuple[Reading, ...], Any, ReadPlan] | None = None
        #: What the codec's ``match`` keeps of the column; `cuda_match`, of a column of several codecs.
        self.matching: Any = None
        #: What its ``answer`` keeps of it.
        self.running: Any = None
        #: Whether all bytes are ASCII and none is NUL, as `cuda_match` found out; None: not yet.
        self.plain: bool | None = None
        #: Likewise, whether automata of rows read all rows to their ends.
        self.short: bool | None = None

    def of_copy(self, segments: Sequence[Segment]) -> Reading:
        """What is known of these segments, for another copy of their buffers."""
        for segment in segments:
            segment.check_buffers()
        reading = copy(self)
        reading.buffers = _buffers(segments)
        shifts = reading.buffers - self.buffers
        reading._first, reading._whole, reading.matching, reading.running = (self, shifts), None, None, None
        del reading.__dict__["words"], reading.__dict__["view"]
        return reading

    @lazy
    def words(self) -> Words:
        """Descriptors, a row of words each. Of a copy made when they are asked for: a plan for all rows needs none."""
        assert self._first is not None
        first, shifts = self._first
        words = first.words.copy()
        launch.move(words, *shifts)
        return words

    @lazy
    def view(self) -> Views:
        """The descriptors as records of `launch.SEGMENT_VIEW`."""
        return self.words.view(launch.SEGMENT_VIEW).ravel()

    def numbers_of(self, places: npt.NDArray[Any], codecs: Sequence[str]) -> npt.NDArray[np.intp]:
        """The number in `codecs` of the codec whose decode table is at each of some places."""
        numbers = np.array([codecs.index(name) for name in self._table_codecs])
        return numbers[np.searchsorted(self._table_edges, places, side="right") - 1]

    def part(self, rows: npt.NDArray[np.int64]) -> tuple[Words, npt.NDArray[np.uint8]]:
        """Descriptors and decode tables of the segments from the first to the last one that has some of a few rows."""
        if len(self._ends) == 1:
            return self.words, self.tables
        numbers = rows.tolist()
        first, last = bisect_right(self._ends, min(numbers)), bisect_right(self._ends, max(numbers)) + 1
        places = self._table_places[first:last]
        begin, end = min(places), self._table_edges[bisect_right(self._table_edges, max(places))]
        words = self.words[first:last]
        if begin:
            words = words.copy()
            words[:, FIELDS["table"]] -= _u64(begin)
        return words, self.tables[begin:end]

    def whole(self, *others: Reading) -> ReadPlan:
        """The plan for all rows of this column and others: kept, until others, a device or launch choices differ."""
        readings = (self, *others)
        firsts = [reading._first for reading in readings if reading._first is not None]
        if len(firsts) == 1 + len(others):
            first, *more = (reading for reading, _ in firsts)
            return first.whole(*more).moved(*np.concatenate([shifts for _, shifts in firsts], axis=1))
        shifts = self.shifts if not others else sorted({shift for reading in readings for shift in reading.shifts})
        sides = {name: side for reading in readings for name, side in reading.sides.items()}
        key = current_device(), *(side.choices(1 << shift) for side in sides.values() for shift in shifts)
        known = self._whole
        if known is None or known[0] != others or known[1] != key:
            known = self._whole = others, key, plan_of([self, *others])
        return known[2]


def _buffers(segments: Sequence[Segment]) -> Words:
    """Addresses of what is stored beside the codes of each, and of the codes."""
    return np.array([[segment.meta.ptr for segment in segments], [segment.codes.ptr for segment in segments]], _u64)


def plan_of(readings: Sequence[Reading], groups: Sequence[slice] | None = None) -> ReadPlan:
    """The plan that reads all rows of columns."""
    columns, at = [], 0
    for reading in readings:
        columns.append(reading.column._replace(group=slice(at, at + reading.view.size)))
        at += reading.view.size
    plan = ReadPlan([reading.view for reading in readings], columns)
    return plan.complete(readings, groups)


def decode(decodes: Sequence[Decode], lane: Lane, image: int, address: int) -> None:
    for step in decodes:
        lane.launch(
            step.side.decode_kernel(1 << step.shift),
            step.units,
            step.shape.threads,
            (
                _u64(address + step.group.start * launch.SEGMENT_VIEW.itemsize),
                _u64(image + step.first_units),
                _u32(step.group.stop - step.group.start),
                _u32(step.shape.codes_capacity),
                _u32(step.bundles),
            ),
            step.shape.shared,
        )


def new_mask(lane: Lane, rows: int) -> Any:
    return lane.allocate(-(-rows // MASK_BITS) * (MASK_BITS // 8))


def empty(lane: Lane) -> DeviceStrings:
    offsets, chars = lane.allocate(4), lane.allocate(0)
    lane.zero(offsets.ptr, 4)
    return DeviceStrings(0, chars.ptr, offsets.ptr, 4, owners=(offsets, chars, None))
