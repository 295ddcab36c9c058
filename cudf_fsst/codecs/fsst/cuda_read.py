"""Decompression and random access on the GPU: all segments of many columns in one launch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings, HostStrings
from ...device.memory import Lane, current_device, device_attributes
from ...device.transfer import Inbox
from ...lazy import lazy
from ..part import align
from . import launch
from .cuda_kernels import blocks, choices, get_kernel
from .layout import ROW_BLOCK, TILE_BLOCK
from .segment import Segment, Segments
from .symbols import SymbolTable

_u32, _u64 = np.uint32, np.uint64
_Words = npt.NDArray[np.uint64]
_Views = npt.NDArray[np.void]

#: Groups of segments that are decoded as they arrive.
_GROUPS = 8
#: cuDF wants masks of whole 64 bytes.
_MASK_BITS = 512

_FIELDS = {name: i for i, name in enumerate(launch.DESCRIPTOR.names or ())}
#: What follows from a segment's place in its column.
_OF_COLUMN = [_FIELDS[name] for name in ("table", "first_row", "out_row", "out_char", "row_end", "char_end")]


def _joined(views: Sequence[_Views]) -> _Views:
    """Descriptors one after another; NumPy compares the fields of all when it joins records, which takes longer."""
    return np.concatenate([view.view(_u64) for view in views]).view(launch.DESCRIPTOR)


class _Decode(NamedTuple):
    """A launch of the decoder: consecutive descriptors, and where in the image it says who works on them."""

    shift: int
    shape: launch.Shape
    pieces: int
    group: slice
    first_units: int
    units: int


class _Column(NamedTuple):
    """A column of a plan: its descriptors, and what it becomes."""

    group: slice
    rows: int
    chars: int
    null_count: int
    masked: bool

    @property
    def itemsize(self) -> int:
        return 4 if self.chars < 2**31 else 8


class _Plan:
    """What a call launches, and the image of the small workspace that the kernels read: all but the addresses.

    Parameters
    ----------
    views
        Descriptors of every column, with the rows that are wanted.
    columns
        Of the same columns.
    """

    def __init__(self, views: Sequence[_Views], columns: Sequence[_Column]) -> None:
        self.columns = columns
        view = self.view = views[0].copy() if len(views) == 1 else _joined(views)
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
                bit += -(-column.rows // _MASK_BITS) * _MASK_BITS
        self.mask_words = bit // 32

    def complete(self, tables: Sequence[npt.NDArray[np.uint8]], groups: Sequence[slice] | None = None) -> _Plan:
        """Now that ``columns`` and the characters of the descriptors are known.

        `tables`: decode tables of every column; ``table`` of its descriptors is a place in them. `groups`: descriptors
        that arrive together.
        """
        view, place = self.view, 0
        for column, own in zip(self.columns, tables, strict=True):
            part = view[column.group]
            part["table"] += _u64(place)
            part["wide_offsets"] = column.itemsize == 8
            place += own.nbytes
        self.place = place
        self.decodes, units = _decodes(view, groups or [slice(0, view.size)], place + view.nbytes)
        self.image = np.concatenate([*tables, view.view(np.uint8), *(one.view(np.uint8) for one in units)])
        return self

    def moved(self, meta: _Words, codes: _Words) -> _Plan:
        """The same where the buffers of each descriptor lie so many bytes further on."""
        made = copy(self)
        made.image = self.image.copy()
        words = made.words(made.image)
        launch.move(words, meta, codes)
        made.view = words.view(launch.DESCRIPTOR).ravel()
        return made

    def words(self, image: npt.NDArray[np.uint8]) -> _Words:
        """The descriptors of a copy of the image, a row each."""
        end = self.place + self.count * launch.DESCRIPTOR.itemsize
        return image[self.place : end].view(_u64).reshape(self.count, len(_FIELDS))


def _decodes(view: _Views, groups: Sequence[slice], place: int) -> tuple[list[_Decode], list[npt.NDArray[np.uint32]]]:
    """Launches of the decoder, one for each tile size and group, and what is at `place` of the image for them."""
    attributes = device_attributes()
    decodes, arrays = [], []
    begin, end, shifts = (view[name].astype(np.int64) for name in ("char_begin", "char_end", "tile_shift"))
    for shift in sorted(set(shifts.tolist())):
        mine = (shifts == shift) & (end > begin)
        if not mine.any():
            continue
        tiles = int((-(-view["chars"][mine].astype(np.int64) >> shift)).sum())
        how = choices(1 << shift)
        codes_nbytes = int(view["codes_nbytes"][mine].sum())
        shape = launch.decode_shape(
            1 << shift,
            launch.decode_codes_capacity(1 << shift, codes_nbytes, tiles, how.decode_capacity),
            attributes["shared_per_block"],
            attributes["shared_per_multiprocessor"],
            how.decode_warps,
        )
        block_chars = TILE_BLOCK << shift
        wanted = np.where(mine, end - begin // block_chars * block_chars, 0)
        pieces = launch.decode_pieces(
            int(wanted.sum()) // (launch.PIECE_TILES << shift), attributes["multiprocessors"] * shape.resident
        )
        units = -(-wanted // (shape.threads * pieces << shift))
        for group in groups:
            some = units[group]
            total = int(some.sum())
            if total:
                decodes.append(_Decode(shift, shape, pieces, group, place, total))
                arrays.append((np.cumsum(some) - some).astype(_u32))
                place += arrays[-1].nbytes
    return decodes, arrays


class Reading:
    """What reading a column needs and no call changes. In host memory; it keeps addresses of segments, not segments.

    Uploaded, it takes 4.1 KB for every symbol table and 232 bytes for every segment. To keep it on the GPU would save a
    copy of some microseconds a call, and make every column larger than its parts.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.buffers = _buffers(segments)
        #: Of a copy: what it is made of, and by how many bytes the buffers of each segment lie further on.
        self._first: tuple[Reading, _Words] | None = None
        view = launch.describe(segments)
        words = view.view(_u64).reshape(view.size, len(_FIELDS))
        self.__dict__.update(words=words, view=view)
        place_of: dict[SymbolTable, int] = {}
        self._table_places = [
            place_of.setdefault(segment.table, launch.DECODE_TABLE_NBYTES * len(place_of)) for segment in segments
        ]
        tables = [launch.decode_table(table) for table in place_of]
        self.tables = tables[0] if len(tables) == 1 else np.concatenate(tables)
        rows, chars = [segment.rows for segment in segments], [segment.chars for segment in segments]
        row_ends, char_ends = list(accumulate(rows)), list(accumulate(chars))
        self.row_ends, self._ends = np.array(row_ends), row_ends
        first_rows, first_chars = [0, *row_ends[:-1]], [0, *char_ends[:-1]]
        words[:, _OF_COLUMN] = np.array([self._table_places, first_rows, first_rows, first_chars, rows, chars], _u64).T
        self.null_counts = np.array([segment.null_count for segment in segments], np.int64)
        nulls = int(self.null_counts.sum())
        self.column = _Column(slice(0, view.size), row_ends[-1], char_ends[-1], nulls, nulls > 0)
        self.shifts = sorted({segment.layout.tile_size.bit_length() - 1 for segment in segments})
        self._whole: tuple[tuple[Reading, ...], Any, _Plan] | None = None
        #: What cuda_match.py keeps of the column.
        self.matching: Any = None

    def of_copy(self, segments: Sequence[Segment]) -> Reading:
        """The same for another copy of the segments."""
        for segment in segments:
            segment.check_buffers()
        made = copy(self)
        made.buffers = _buffers(segments)
        shifts = made.buffers - self.buffers
        made._first, made._whole, made.matching = (self, shifts), None, None
        del made.__dict__["words"], made.__dict__["view"]
        return made

    @lazy
    def words(self) -> _Words:
        """Descriptors, a row of words each. Of a copy made when they are asked for: a plan for all rows needs none."""
        assert self._first is not None
        first, shifts = self._first
        words = first.words.copy()
        launch.move(words, *shifts)
        return words

    @lazy
    def view(self) -> _Views:
        """The same as records."""
        return self.words.view(launch.DESCRIPTOR).ravel()

    def part(self, rows: npt.NDArray[np.int64]) -> tuple[_Words, npt.NDArray[np.uint8]]:
        """Descriptors and decode tables of the segments from the first to the last one that has some of a few rows."""
        if len(self._ends) == 1:
            return self.words, self.tables
        numbers = rows.tolist()
        first, last = bisect_right(self._ends, min(numbers)), bisect_right(self._ends, max(numbers)) + 1
        places = self._table_places[first:last]
        begin, end = min(places), max(places) + launch.DECODE_TABLE_NBYTES
        words = self.words[first:last]
        if begin:
            words = words.copy()
            words[:, _FIELDS["table"]] -= _u64(begin)
        return words, self.tables[begin:end]

    def whole(self, *others: Reading) -> _Plan:
        """The plan for all rows of this column and others: kept, until others, a device or launch choices differ."""
        firsts = [one._first for one in (self, *others) if one._first is not None]
        if len(firsts) == 1 + len(others):
            first, *more = (one for one, _ in firsts)
            return first.whole(*more).moved(*np.concatenate([shifts for _, shifts in firsts], axis=1))
        shifts = self.shifts if not others else sorted({shift for one in (self, *others) for shift in one.shifts})
        key = current_device(), *(choices(1 << shift) for shift in shifts)
        made = self._whole
        if made is None or made[0] != others or made[1] != key:
            made = self._whole = others, key, _plan_of([self, *others])
        return made[2]


def reading_of(segments: Sequence[Segment]) -> Reading:
    """Made once for `Segments`, and once a call for others."""
    if not isinstance(segments, Segments):
        return Reading(segments)
    if segments.reading is None:
        source = segments.source
        if source is None:
            segments.reading = Reading(segments)
        elif source.copied is None:
            segments.reading = source.copied = Reading(segments)
        else:
            segments.reading = source.copied.of_copy(segments)
    reading: Reading = segments.reading
    return reading


def _buffers(segments: Sequence[Segment]) -> _Words:
    """Addresses of what is stored beside the codes of each, and of the codes."""
    return np.array([[one.meta.ptr for one in segments], [one.codes.ptr for one in segments]], _u64)


def read(
    columns: Sequence[Sequence[Segment]], *, lane: Lane, start: int = 0, stop: int | None = None
) -> list[DeviceStrings]:
    """Rows ``start:stop`` of columns of strings in GPU memory; only the tiles they touch are decoded.

    Whole columns and whole segments are read without waiting for the GPU; for other ranges it is waited for once.

    Parameters
    ----------
    columns
        Segments of each column. Those of a `Segments` are looked at once for all calls.
    lane
    start, stop : int
        ``0 <= start``; `stop` is at most the number of rows, or None for all.

    Returns
    -------
    list of DeviceStrings
        ``owners`` are the buffers of offsets, characters and validity (None without nulls); offsets are int32, or int64
        from 2^31 characters on.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states, or row lengths are so damaged that a range has no place.
    """
    results: list[DeviceStrings | None] = [None] * len(columns)
    wanted: list[int] = []
    for i, segments in enumerate(columns):
        if segments and (stop is None or start < stop):
            wanted.append(i)
        else:
            results[i] = _empty(lane)
    readings = [reading_of(columns[i]) for i in wanted]
    whole = [start == 0 and stop in (None, reading.column.rows) for reading in readings]
    if not readings:
        return [result for result in results if result is not None]
    if all(whole):
        found = _run(readings[0].whole(*readings[1:]), lane)
    else:
        found = (
            _read_few(readings, lane, start, stop)
            or _read_segments(readings, lane, start, stop)
            or _read_ranges(readings, lane, start, stop)
        )
    for i, result in zip(wanted, found, strict=True):
        results[i] = result
    return [result for result in results if result is not None]


def _plan_of(readings: Sequence[Reading], groups: Sequence[slice] | None = None) -> _Plan:
    """Of all rows of columns."""
    columns, at = [], 0
    for reading in readings:
        columns.append(reading.column._replace(group=slice(at, at + reading.view.size)))
        at += reading.view.size
    plan = _Plan([reading.view for reading in readings], columns)
    return plan.complete([reading.tables for reading in readings], groups)


def validity(segments: Sequence[Segment], *, lane: Lane) -> Any:
    """The validity of all rows, a buffer as cuDF has it, or None without nulls. Nothing is decoded or waited for."""
    if not segments or not (reading := reading_of(segments)).column.masked:
        return None
    plan = reading.whole()
    mask = _mask(lane, reading.column.rows)
    words = plan.view.copy().view(_u64).reshape(plan.count, len(_FIELDS))
    words[:, _FIELDS["validity_to"]] = mask.ptr
    buffer = lane.allocate(words.nbytes)
    lane.upload(buffer.ptr, words)
    _gather_validity(lane, buffer.ptr, plan.count, plan.mask_words)
    return mask


def read_into(segments: Segments, offsets: int, itemsize: int, first_char: int, chars: int, *, lane: Lane) -> None:
    """Write all rows behind others of a column, but for their validity. Nothing is waited for.

    Parameters
    ----------
    offsets, itemsize : int
        Address of the first row's, bytes of an offset.
    first_char : int
        What these offsets begin with.
    chars : int
        Address of the first row's characters.
    """
    plan = reading_of(segments).whole()
    image = plan.image.copy()
    buffer = lane.allocate(image.nbytes)
    words = plan.words(image)
    words[:, _FIELDS["table"]] += _u64(buffer.ptr)
    words[:, _FIELDS["offsets_to"]] = offsets
    words[:, _FIELDS["wide_offsets"]] = itemsize == 8
    # Characters are counted from the column's first, offsets say so, and the address is what it would have.
    words[:, _FIELDS["out_char"]] += _u64(first_char)
    words[:, _FIELDS["chars_to"]] = _u64((chars - first_char) % 2**64)
    lane.upload(buffer.ptr, image)
    _decode(plan.decodes, lane, buffer.ptr, buffer.ptr + plan.place)
    _read_rows(plan, lane, buffer.ptr + plan.place)


def scratch_limit(plain: int) -> int:
    """Bytes that a call may need beside its result, for so many uncompressed bytes."""
    return max(_SCRATCH, plain // _SCRATCH_PART)


def receive(segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
    """Decompress segments in host memory into the current GPU's, each while the next ones arrive; see `read`."""
    with Lane(stream) as lane:
        if not segments:
            return _empty(lane)
        with Inbox(lane) as inbox:
            moved = inbox.receive_parts(segments)
            bounds = np.linspace(0, len(moved), min(_GROUPS, len(moved)) + 1).astype(int)
            groups = [slice(int(start), int(stop)) for start, stop in pairwise(bounds)]
            arrivals = [partial(inbox.fill, moved[group], segments[group]) for group in groups]
            return _run(_plan_of([Reading(moved)], groups), lane, list(zip(groups, arrivals, strict=True)))[0]


def _empty(lane: Lane) -> DeviceStrings:
    offsets, chars = lane.allocate(4), lane.allocate(0)
    lane.zero(offsets.ptr, 4)
    return DeviceStrings(0, chars.ptr, offsets.ptr, 4, owners=(offsets, chars, None))


def _run(
    plan: _Plan,
    lane: Lane,
    arrivals: Sequence[tuple[slice, Callable[[], Any]]] = (),
    masks: Sequence[Any] | None = None,
) -> list[DeviceStrings]:
    """Read what a plan says.

    `arrivals`: groups of segments that are not there yet, and what starts to bring them and gives an event behind that.
    `masks`: validity bitmaps that are there already.
    """
    image = plan.image.copy()
    buffer = lane.allocate(image.nbytes)
    words = plan.words(image)
    words[:, _FIELDS["table"]] += _u64(buffer.ptr)
    results = []
    for i, (column, first_bit) in enumerate(zip(plan.columns, plan.first_bits, strict=True)):
        offsets = lane.allocate(column.itemsize * (column.rows + 1))
        chars = lane.allocate(column.chars)
        validity = masks[i] if masks is not None else _mask(lane, column.rows) if column.masked else None
        part = words[column.group]
        part[:, _FIELDS["offsets_to"]] = offsets.ptr
        part[:, _FIELDS["chars_to"]] = chars.ptr
        if validity is not None:
            part[:, _FIELDS["validity_to"]] = _before(validity, first_bit)
        results.append(
            DeviceStrings(
                column.rows,
                chars.ptr,
                offsets.ptr,
                column.itemsize,
                validity.ptr if validity is not None else 0,
                null_count=column.null_count,
                owners=(offsets, chars, validity),
            )
        )
    lane.upload(buffer.ptr, image)
    address = buffer.ptr + plan.place
    events = [arrive() for _, arrive in arrivals]
    if not arrivals:
        _decode(plan.decodes, lane, buffer.ptr, address)
    for (group, _), event in zip(arrivals, events, strict=True):
        lane.stream.wait_event(event)
        _decode([one for one in plan.decodes if one.group == group], lane, buffer.ptr, address)
    _read_rows(plan, lane, address)
    if plan.mask_words and masks is None:
        _gather_validity(lane, address, plan.count, plan.mask_words)
    return results


def _mask(lane: Lane, rows: int) -> Any:
    return lane.allocate(-(-rows // _MASK_BITS) * (_MASK_BITS // 8))


def _before(validity: Any, first_bit: int) -> np.uint64:
    """Where the validity of all columns would begin, if the one at `first_bit` of it lay behind the ones before."""
    return _u64((validity.ptr - first_bit // 8) % 2**64)


def _decode(decodes: Sequence[_Decode], lane: Lane, image: int, address: int) -> None:
    for one in decodes:
        lane.launch(
            get_kernel("fsst_decode", "fsst_decode", 1 << one.shift),
            one.units,
            one.shape.threads,
            (
                _u64(address + one.group.start * launch.DESCRIPTOR.itemsize),
                _u64(image + one.first_units),
                _u32(one.group.stop - one.group.start),
                _u32(one.shape.codes_capacity),
                _u32(one.pieces),
            ),
            one.shape.shared,
        )


def _read_rows(plan: _Plan, lane: Lane, address: int) -> None:
    """Offsets of all columns."""
    lane.launch(
        get_kernel("row_lengths", "row_lengths_unpack"),
        launch.row_grid(plan.row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (_u64(address), _u32(plan.count), _u64(plan.row_blocks)),
    )


def _gather_validity(lane: Lane, address: int, count: int, words: int) -> None:
    lane.launch(
        get_kernel("row_lengths", "gather_validity"),
        blocks(words, 256),
        256,
        (_u64(address), _u32(count), _u64(words)),
    )


def _read_few(readings: Sequence[Reading], lane: Lane, start: int, stop: int | None) -> list[DeviceStrings] | None:
    """Rows that are so few, and will have so few characters, that one launch does for all; None for others."""
    every = readings[0].column.rows
    count = (every if stop is None else stop) - start
    most = max(reading.column.chars for reading in readings)
    if count > launch.TAKE_ROWS or 4 * count * most > _FEW_CHARS * every:
        return None
    return _Take(readings, np.arange(start, start + count), lane).few()


def _read_segments(readings: Sequence[Reading], lane: Lane, start: int, stop: int | None) -> list[DeviceStrings] | None:
    """Rows ``start:stop`` of columns where they are whole segments of each, whose sizes are known; else None."""
    views, columns, at = [], [], 0
    for reading in readings:
        end = reading.column.rows if stop is None else stop
        first, last = bisect_right(reading._ends, start), bisect_left(reading._ends, end)
        if reading._ends[last] != end or int(reading.view["first_row"][first]) != start:
            return None
        view = reading.view[first : last + 1].copy()
        view["out_row"] -= view["out_row"][0]
        view["out_char"] -= view["out_char"][0]
        nulls = int(reading.null_counts[first : last + 1].sum())
        views.append(view)
        columns.append(
            _Column(slice(at, at + view.size), end - start, int(view["chars"].astype(np.int64).sum()), nulls, nulls > 0)
        )
        at += view.size
    return _run(_Plan(views, columns).complete([reading.tables for reading in readings]), lane)


def _read_ranges(readings: Sequence[Reading], lane: Lane, start: int, stop: int | None) -> list[DeviceStrings]:
    """Rows ``start:stop`` of columns, at least one of each."""
    views, columns, at = [], [], 0
    for reading in readings:
        first, last = (int(i) for i in np.searchsorted(reading.row_ends, [start, (stop or 2**63) - 1], side="right"))
        last = min(last, reading.view.size - 1)
        view = reading.view[first : last + 1].copy()
        view["row_begin"][0] = start - int(view["first_row"][0])
        if stop is not None:
            view["row_end"][-1] = stop - int(view["first_row"][-1])
        rows = (view["row_end"] - view["row_begin"]).astype(np.int64)
        view["out_row"] = np.cumsum(rows) - rows
        nulls = int(reading.null_counts[first : last + 1].sum())
        views.append(view)
        columns.append(_Column(slice(at, at + view.size), int(rows.sum()), 0, 0, nulls > 0))
        at += view.size

    # What the host has to wait for: characters where the rows begin and end, and nulls.
    plan = _Plan(views, columns)
    firsts = np.array([column.group.start for column in columns])
    lasts = np.array([column.group.stop for column in columns]) - 1
    edges = np.stack(
        [firsts.astype(_u64), plan.view["row_begin"][firsts], lasts.astype(_u64), plan.view["row_end"][lasts]], 1
    )
    masks = [_mask(lane, column.rows) if column.masked else None for column in columns]
    words = plan.view.copy().view(_u64).reshape(plan.count, len(_FIELDS))
    found = 16 * len(columns)  # bytes of the edges' characters; the nulls follow
    buffer = lane.allocate(found + 8 * len(columns) + edges.nbytes + words.nbytes)  # zeros first
    edges_at = buffer.ptr + found + 8 * len(columns)
    for i, (column, mask, first_bit) in enumerate(zip(columns, masks, plan.first_bits, strict=True)):
        if mask is not None:
            words[column.group, _FIELDS["validity_to"]] = _before(mask, first_bit)
            words[column.group, _FIELDS["nulls_to"]] = buffer.ptr + found + 8 * i
    nothing = np.zeros(found // 8 + len(columns), _u64)
    lane.upload(buffer.ptr, np.concatenate([nothing, edges.ravel(), words.ravel()]))
    address = edges_at + edges.nbytes
    lane.launch(
        get_kernel("row_lengths", "locate_edges"),
        blocks(2 * len(columns), 256 // launch.LOCATE_LANES),
        256,
        (_u64(address), _u64(edges_at), _u64(2 * len(columns)), _u64(buffer.ptr)),
    )
    if plan.mask_words:
        _gather_validity(lane, address, plan.count, plan.mask_words)
    answer = lane.read(buffer.ptr, nothing.size, np.int64)
    places, null_counts = answer[: 2 * len(columns)].reshape(-1, 2), answer[2 * len(columns) :]

    view = plan.view
    view["char_begin"][firsts], view["char_end"][lasts] = places.T
    if (view["char_end"] < view["char_begin"]).any():
        raise ValueError(f"damaged row lengths: rows {start} to {stop} end before they begin")
    chars = (view["char_end"] - view["char_begin"]).astype(np.int64)
    known = []
    for i, (column, nulls) in enumerate(zip(columns, null_counts, strict=True)):
        own = chars[column.group]
        view["out_char"][column.group] = np.cumsum(own) - own
        known.append(column._replace(chars=int(own.sum()), null_count=int(nulls)))
        if nulls == 0:
            masks[i] = None
    plan.columns = known
    return _run(plan.complete([reading.tables for reading in readings]), lane, masks=masks)


#: Characters of a column that `take_few` has room for, and that `fetch` brings to the host.
_FEW_CHARS = 16384
#: Scratch memory of a call: so much, or this part of the uncompressed bytes.
_SCRATCH = 64 << 20
_SCRATCH_PART = 8
#: What decides between two ways to take rows: seconds for a tile of 256 bytes decoded by itself, for a character
#: decoded with all others, for one copied, and for the launches of a window.
_TILE_COST = 0.25e-9
_CHAR_COST = 0.75e-12
_COPY_COST = 2e-12
_WINDOW_COST = 20e-6


def take(columns: Sequence[Sequence[Segment]], rows: Any, *, lane: Lane) -> list[DeviceStrings]:
    """Rows of columns of strings in GPU memory by number, in any order, repeated or not. The GPU is waited for once.

    Parameters
    ----------
    columns
        As in `read`; all have the same rows.
    rows
        int64 row numbers within bounds: a numpy array, or anything on the GPU that CuPy can see.
    lane
    """
    if not isinstance(rows, np.ndarray):
        import cupy

        with lane.stream:
            rows = cupy.ascontiguousarray(cupy.asarray(rows, dtype=cupy.int64))
    if rows.size == 0 or not columns:
        return [_empty(lane) for _ in columns]
    call = _Take([reading_of(segments) for segments in columns], rows, lane)
    return (call.few() if rows.size <= launch.TAKE_ROWS else None) or call.many()


def fetch(columns: Sequence[Sequence[Segment]], rows: Sequence[int], *, lane: Lane) -> list[HostStrings] | None:
    """As `take`, into host memory, of some rows; None where they are none, or so many that `take` serves better."""
    if not columns or not 0 < len(rows) <= launch.TAKE_ROWS:
        return None
    return _Take([reading_of(segments) for segments in columns], np.array(rows, np.int64), lane).fetch()


class _Take:
    """Rows of columns by number: one small upload, and one wait.

    The upload has decode tables, descriptors, a `TAKE_COLUMN` and a `TAKE_TOTALS` for each column, and rows that are on
    the host.
    """

    def __init__(self, readings: Sequence[Reading], rows: Any, lane: Lane) -> None:
        self.readings, self.lane, self.count = readings, lane, int(rows.size)
        on_host = isinstance(rows, np.ndarray)
        if on_host:
            rows = np.ascontiguousarray(rows, np.int64)
        if on_host and self.count <= launch.TAKE_ROWS:
            parts = [reading.part(rows) for reading in readings]
        else:
            parts = [(reading.words, reading.tables) for reading in readings]
        self._parts, self._rows = parts, rows
        tables_nbytes = sum(tables.nbytes for _, tables in parts)
        self._columns_at = tables_nbytes + sum(words.nbytes for words, _ in parts)
        self._totals_at = self._columns_at + len(parts) * launch.TAKE_COLUMN.itemsize
        rows_at = self._totals_at + len(parts) * launch.TAKE_TOTALS.itemsize
        self.buffer = lane.allocate(rows_at + (rows.nbytes if on_host else 0))
        address = int(self.buffer.ptr)
        self.rows = address + rows_at if on_host else int(rows.data.ptr)
        tables_at, view_at, self.columns = address, address + tables_nbytes, []
        for i, (words, tables) in enumerate(parts):
            own = dict.fromkeys(launch.TAKE_COLUMN.names or (), 0)
            own["segments"], own["segment_count"], own["tables"] = view_at, len(words), tables_at
            own["totals"] = address + self._totals_at + i * launch.TAKE_TOTALS.itemsize
            self.columns.append(own)
            tables_at += tables.nbytes
            view_at += words.nbytes

    def _upload(self) -> None:
        words, at = np.concatenate([words for words, _ in self._parts]), 0
        for (own_words, _), own in zip(self._parts, self.columns, strict=True):
            words[at : at + len(own_words), _FIELDS["table"]] += _u64(own["tables"])
            at += len(own_words)
        columns = [field for own in self.columns for field in own.values()]
        totals = [0] * (len(self._parts) * len(launch.TAKE_TOTALS.names or ()))
        rows = [self._rows.view(_u64)] if isinstance(self._rows, np.ndarray) else []
        tables = (tables.view(_u64) for _, tables in self._parts)
        every = [*tables, words.ravel(), np.array(columns + totals, _u64), *rows]
        self.lane.upload(self.buffer.ptr, np.concatenate(every))

    def _upload_columns(self, columns: Sequence[Mapping[str, int]]) -> int:
        # Nobody reads what is there any more.
        at = int(self.buffer.ptr) + self._columns_at
        self.lane.upload(at, np.array([[*own.values()] for own in columns], _u64))
        return at

    def _launch(self, name: str, grid: tuple[int, ...], *more: Any) -> None:
        arguments = _u64(self.buffer.ptr + self._columns_at), _u64(self.rows), _u64(self.count), *more
        self.lane.launch(get_kernel("fsst_take", name), grid, launch.TAKE_THREADS, arguments)

    def _totals(self) -> list[dict[str, int]]:
        """What the kernels counted for each column; waits for them."""
        names = launch.TAKE_TOTALS.names or ()
        words = self.lane.read(self.buffer.ptr + self._totals_at, len(names) * len(self.readings), _u64)
        return [dict(zip(names, own, strict=True)) for own in words.reshape(-1, len(names)).tolist()]

    def _masks(self) -> list[Any]:
        masks = [_mask(self.lane, self.count) if reading.column.masked else None for reading in self.readings]
        for own, mask in zip(self.columns, masks, strict=True):
            own["validity_to"] = 0 if mask is None else mask.ptr
        return masks

    def few(self) -> list[DeviceStrings] | None:
        """Of one group of rows; None where a column needs more room than there is."""
        lane, several = self.lane, len(self.readings)
        masks = self._masks()
        room = lane.allocate(_FEW_CHARS * several)
        offsets = [lane.allocate(4 * (self.count + 1)) for _ in self.readings]
        for i, own in enumerate(self.columns):
            own["offsets_to"], own["chars_to"] = offsets[i].ptr, room.ptr + _FEW_CHARS * i
        self._upload()
        self._launch("take_few", (1, several), _u64(_FEW_CHARS))
        totals = self._totals()
        if max(own["chars"] for own in totals) > _FEW_CHARS:
            return None
        results = []
        for i, total in enumerate(totals):
            chars = lane.allocate(total["chars"])
            lane.copy(chars.ptr, room.ptr + _FEW_CHARS * i, chars.size)
            results.append(self._result(offsets[i], chars, masks[i], 4, total["nulls"]))
        return results

    def fetch(self) -> list[HostStrings] | None:
        """As `few`, in host memory: one copy brings all."""
        lane, several, count = self.lane, len(self.readings), self.count
        offsets_nbytes, mask_nbytes = align(4 * (count + 1)), -(-count // _MASK_BITS) * (_MASK_BITS // 8)
        totals_nbytes = align(launch.TAKE_TOTALS.itemsize)
        mask_at = totals_nbytes + offsets_nbytes
        each = mask_at + mask_nbytes + _FEW_CHARS
        room = lane.allocate(each * several)
        for i, (own, reading) in enumerate(zip(self.columns, self.readings, strict=True)):
            at = room.ptr + each * i
            own["totals"], own["offsets_to"], own["chars_to"] = at, at + totals_nbytes, at + mask_at + mask_nbytes
            own["validity_to"] = at + mask_at if reading.column.masked else 0
        self._upload()
        self._launch("take_few", (1, several), _u64(_FEW_CHARS))
        results = []
        for found in lane.read(room.ptr, room.size, np.uint8).reshape(several, each):
            chars, nulls = found[:16].view(np.int64).tolist()
            if chars > _FEW_CHARS:
                return None
            mask = found[mask_at : mask_at + mask_nbytes] if nulls else None
            offsets = found[totals_nbytes : totals_nbytes + 4 * (count + 1)].view(np.int32)
            results.append(HostStrings(count, found[mask_at + mask_nbytes :][:chars], offsets, mask, 0, nulls))
        return results

    def many(self) -> list[DeviceStrings]:
        """Of any number of rows."""
        lane, count, several = self.lane, self.count, len(self.readings)
        groups = -(-count // launch.TAKE_ROWS)
        plain = sum(reading.column.chars + 4 * reading.column.rows for reading in self.readings)
        scratch = scratch_limit(plain)
        kept = 2 * 8 * count * several <= scratch and all(
            reading.column.chars < 1 << launch.PLACE_BITS for reading in self.readings
        )
        work = lane.allocate(8 * several * (groups + count * kept))
        for i, own in enumerate(self.columns):
            own["groups"] = work.ptr + 8 * groups * i
            own["places"] = work.ptr + 8 * (groups * several + count * i) if kept else 0
        masks = self._masks()
        self._upload()
        self._launch("take_measure", (groups, several))
        totals = self._totals()

        results: list[DeviceStrings] = []
        dense: list[tuple[Reading, dict[str, int]]] = []
        sparse: list[tuple[Reading, dict[str, int]]] = []
        left = max(scratch - work.size, _SCRATCH // 4)
        for own, reading, mask, total in zip(self.columns, self.readings, masks, totals, strict=True):
            column = reading.column._replace(rows=count, chars=total["chars"])
            chars, offsets = lane.allocate(column.chars), lane.allocate(column.itemsize * (count + 1))
            own["offsets_to"], own["chars_to"], own["wide_offsets"] = offsets.ptr, chars.ptr, column.itemsize == 8
            results.append(self._result(offsets, chars, mask, column.itemsize, total["nulls"]))
            (dense if self._is_dense(reading, total, left) else sparse).append((reading, own))
        shares = _shares(max(own["most_tiles"] for own in totals), groups * several)
        if sparse:
            self._upload_columns([own for _, own in sparse])
            self._launch("fsst_take", (groups, len(sparse), shares))
        for reading, own in dense:
            self._copy(reading, own, (groups, 1, shares), left)
        return results

    def _result(self, offsets: Any, chars: Any, mask: Any, itemsize: int, nulls: int) -> DeviceStrings:
        return DeviceStrings(
            self.count,
            chars.ptr,
            offsets.ptr,
            itemsize,
            0 if mask is None else mask.ptr,
            null_count=nulls,
            owners=(offsets, chars, mask),
        )

    def _is_dense(self, reading: Reading, total: Mapping[str, int], scratch: int) -> bool:
        """Whether to decode the whole column costs less than to decode the tiles of every row by themselves."""
        whole = reading.column.chars
        alone = total["tiles"] * _TILE_COST * (1 << reading.shifts[-1]) / 256
        windows = -(-whole // scratch)
        return alone > whole * _CHAR_COST + total["chars"] * _COPY_COST + windows * _WINDOW_COST

    def _copy(self, reading: Reading, own: Mapping[str, int], grid: tuple[int, ...], scratch: int) -> None:
        """Decode a column, in windows of so many bytes, and copy what is wanted of each."""
        lane, whole = self.lane, reading.column.chars
        room = lane.allocate(min(scratch, whole) + 16)
        for begin in range(0, whole, scratch):
            end = min(begin + scratch, whole)
            plan = reading.whole() if end - begin == whole else _window(reading, begin, end)
            image = plan.image.copy()
            buffer = lane.allocate(image.nbytes)
            words = plan.words(image)
            words[:, _FIELDS["table"]] += _u64(buffer.ptr)
            words[:, _FIELDS["chars_to"]] = room.ptr
            lane.upload(buffer.ptr, image)
            _decode(plan.decodes, lane, buffer.ptr, buffer.ptr + plan.place)
            self._upload_columns([{**own, "plain": room.ptr, "plain_begin": begin, "plain_end": end}])
            self._launch("take_copy", grid)


def _shares(tiles: int, blocks_there: int) -> int:
    """Thread blocks for each group of rows, of which one has so many tiles: groups of giant rows need many."""
    threads = launch.TAKE_THREADS
    shares = -(-tiles // (16 * threads))
    wanted = -(-4 * device_attributes()["multiprocessors"] // blocks_there)
    return max(1, min(max(shares, wanted), -(-tiles // threads), 65535))


def _window(reading: Reading, begin: int, end: int) -> _Plan:
    """What decodes characters ``begin:end`` of a column."""
    view = reading.view.copy()
    first = view["out_char"].astype(np.int64)
    chars = view["chars"].astype(np.int64)
    view["char_begin"], view["char_end"] = np.clip(begin - first, 0, chars), np.clip(end - first, 0, chars)
    view["out_char"] = np.maximum(first - begin, 0)
    return _Plan([view], [reading.column]).complete([reading.tables])
