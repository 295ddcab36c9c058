"""Decompression and random access on the GPU: many segments in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device.memory import Lane, device_attributes, pinned
from ...device.transfer import Inbox
from . import launch
from .cuda_kernels import blocks, choices, get_kernel
from .layout import ROW_BLOCK, TILE_BLOCK
from .segment import Segment
from .symbols import SymbolTable

_u32, _u64 = np.uint32, np.uint64


class _Selection:
    """Descriptors and decode tables of segments, uploaded together: the small workspace of a reading call."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.view = launch.describe(segments)
        place_of: dict[SymbolTable, int] = {}
        self.view["table"] = [
            place_of.setdefault(segment.table, launch.DECODE_TABLE_NBYTES * len(place_of)) for segment in segments
        ]
        self.tables = np.concatenate([launch.decode_table(table) for table in place_of])
        rows = self.view["rows"]
        self.view["first_row"] = np.cumsum(rows) - rows
        self.view["row_end"] = rows
        self.view["char_end"] = self.view["chars"]

    def upload(self, lane: Lane) -> None:
        buffer = self.buffer = lane.allocate(self.tables.nbytes + self.view.nbytes)
        self.view["table"] += np.uint64(buffer.ptr)
        packed = np.concatenate([self.tables, self.view.view(np.uint8)])
        lane.upload(buffer.ptr, packed)
        self.address = buffer.ptr + self.tables.nbytes

    def __enter__(self) -> _Selection:
        return self

    def __exit__(self, *_: object) -> None:
        self.buffer = None  # the memory goes back, whoever still holds this object

    @property
    def arguments(self) -> tuple[Any, Any]:
        return _u64(self.address), _u32(len(self.view))


def decompress(segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
    """Decompress all rows of segments in GPU memory.

    Returns
    -------
    DeviceStrings
        ``owners`` are the buffers of offsets, characters and validity (None without nulls); offsets are int32, or int64
        from 2^31 characters on.
    """
    with Lane(stream) as lane:
        if not segments:
            return _empty(lane)
        with _Selection(segments) as selection:
            return _read(selection, lane)


#: Groups of segments that are decoded as they arrive.
_GROUPS = 8


def receive(segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
    """Decompress segments in host memory into the current GPU's, each while the next ones arrive; see `decompress`."""
    with Lane(stream) as lane:
        if not segments:
            return _empty(lane)
        with Inbox(lane) as inbox:
            moved = inbox.receive_parts(segments)
            with _Selection(moved) as selection:
                bounds = np.linspace(0, len(moved), min(_GROUPS, len(moved)) + 1).astype(int)
                groups = [slice(start, stop) for start, stop in pairwise(bounds)]
                return _read(
                    selection, lane, [(group, partial(inbox.fill, moved[group], segments[group])) for group in groups]
                )


def _empty(lane: Lane) -> DeviceStrings:
    offsets, chars = lane.allocate(4), lane.allocate(0)
    lane.zero(offsets.ptr, 4)
    return DeviceStrings(0, chars.ptr, offsets.ptr, 4, owners=(offsets, chars, None))


#: Segments, and what starts to bring them and gives an event behind that.
_Arrivals = Sequence[tuple[slice, Callable[[], Any]]]


def _read(selection: _Selection, lane: Lane, arrivals: _Arrivals = ()) -> DeviceStrings:
    """Read the rows ``row_begin:row_end`` and characters ``char_begin:char_end`` of every segment.

    Segments of `arrivals` are not there yet; whole ones are wanted then.
    """
    view = selection.view
    rows = view["row_end"] - view["row_begin"]
    chars = view["char_end"] - view["char_begin"]
    view["out_row"] = np.cumsum(rows) - rows
    view["out_char"] = np.cumsum(chars) - chars
    total_rows, total_chars = int(rows.sum()), int(chars.sum())

    # Segments in order of tile size, so that each launch of the decoder has one; the row kernels do not mind.
    attributes = device_attributes()
    launches = []
    tile_shifts = view["tile_shift"]
    for shift in sorted({int(shift) for shift in tile_shifts}):
        chosen = np.flatnonzero((tile_shifts == shift) & (chars > 0))
        tiles = int((-(-view["chars"][chosen].astype(np.int64) >> shift)).sum())
        how = choices(1 << shift)
        codes_nbytes = int(view["codes_nbytes"][chosen].sum())
        shape = launch.decode_shape(
            1 << shift,
            launch.decode_codes_capacity(1 << shift, codes_nbytes, tiles, how.decode_capacity),
            attributes["shared_per_block"],
            attributes["shared_per_multiprocessor"],
            how.decode_warps,
        )
        block_chars = TILE_BLOCK << shift
        first = view["char_begin"][chosen] // block_chars * block_chars
        wanted = (view["char_end"][chosen] - first).astype(np.int64)
        pieces = launch.decode_pieces(
            int(wanted.sum()) // (launch.PIECE_TILES << shift), attributes["multiprocessors"] * shape.resident
        )
        launches.append((shift, shape, pieces, chosen, -(-wanted // (shape.threads * pieces << shift))))
    row_blocks = -(-view["row_end"].astype(np.int64) // ROW_BLOCK) - (view["row_begin"] // ROW_BLOCK).astype(np.int64)
    view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
    for *_, chosen, units in launches:
        view["first_unit"][chosen] = np.cumsum(units) - units
    one_size = len(launches) == 1 and launches[0][3].size == view.size
    if not one_size:
        for _, arrive in arrivals:
            lane.stream.wait_event(arrive())
        return _read_mixed(selection, lane, launches, total_rows, total_chars, int(row_blocks.sum()))
    shift, shape, pieces, _, units = launches[0]
    for group, _ in arrivals:
        view["first_unit"][group] = np.cumsum(units[group]) - units[group]
    selection.upload(lane)
    result = _allocate(lane, selection, total_rows, total_chars)
    events = [arrive() for _, arrive in arrivals]
    for (group, _), event in zip(arrivals, events, strict=True):
        lane.stream.wait_event(event)
        part = view[group]
        arguments = (_u64(selection.address + group.start * view.itemsize), _u32(part.size))
        _decode(lane, arguments, (shift, shape, pieces, group, units[group]), result)
    if not arrivals:
        _decode(lane, selection.arguments, launches[0], result)
    _read_rows(lane, selection, result, total_rows, total_chars, int(row_blocks.sum()))
    return result


def _read_mixed(
    selection: _Selection, lane: Lane, launches: list[Any], total_rows: int, total_chars: int, row_blocks: int
) -> DeviceStrings:
    """As `_read`, where segments have no characters or several tile sizes: one descriptor array a launch."""
    whole = selection.view
    parts = [whole[chosen] for *_, chosen, _ in launches]
    selection.view = np.concatenate([whole, *parts])
    selection.upload(lane)
    result = _allocate(lane, selection, total_rows, total_chars)
    at = selection.address + whole.nbytes
    for part, one in zip(parts, launches, strict=True):
        if part.size:
            _decode(lane, (_u64(at), _u32(part.size)), one, result)
        at += part.nbytes
    selection.view = whole
    _read_rows(lane, selection, result, total_rows, total_chars, row_blocks)
    return result


def _allocate(lane: Lane, selection: _Selection, rows: int, chars: int) -> DeviceStrings:
    itemsize = 4 if chars < 2**31 else 8
    offsets = lane.allocate(itemsize * (rows + 1))
    characters = lane.allocate(chars)
    validity = None
    if any(segment.null_count for segment in selection.segments):
        validity = lane.allocate(-(-rows // 512) * 64)  # cuDF wants masks of whole 64 bytes
        lane.zero(validity.ptr, validity.size)
    return DeviceStrings(
        rows,
        characters.ptr,
        offsets.ptr,
        itemsize,
        validity.ptr if validity is not None else 0,
        owners=(offsets, characters, validity),
    )


def _decode(
    lane: Lane, arguments: tuple[Any, Any], one: tuple[int, launch.Shape, int, Any, Any], result: DeviceStrings
) -> None:
    shift, shape, pieces, _, units = one
    lane.launch(
        get_kernel("fsst_decode", "fsst_decode", 1 << shift),
        int(units.sum()),
        shape.threads,
        (*arguments, _u32(shape.codes_capacity), _u32(pieces), _u64(result.chars)),
        shape.shared,
    )


def _read_rows(
    lane: Lane, selection: _Selection, result: DeviceStrings, total_rows: int, total_chars: int, row_blocks: int
) -> None:
    """Offsets and validity of `_read`'s result."""
    lane.launch(
        get_kernel("row_lengths", "row_lengths_unpack"),
        launch.row_grid(row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (
            *selection.arguments,
            _u64(row_blocks),
            _u64(result.offsets),
            _u32(result.offsets_itemsize == 8),
            _u64(total_rows),
            _u64(total_chars),
        ),
    )
    if result.validity:
        lane.launch(
            get_kernel("row_lengths", "gather_validity"),
            blocks(total_rows, 32 * 256),
            256,
            (*selection.arguments, _u64(total_rows), _u64(result.validity)),
        )
        whole = selection.view["row_end"] - selection.view["row_begin"] == selection.view["rows"]
        if whole.all():
            result.null_count = sum(segment.null_count for segment in selection.segments)
        else:
            words = lane.read(result.validity, -(-total_rows // 32), np.uint32)
            result.null_count = total_rows - int(np.bitwise_count(words).sum())


def take_range(segments: Sequence[Segment], start: int, stop: int, *, stream: Any = None) -> DeviceStrings:
    """Rows ``start:stop`` (``0 <= start <= stop <= rows``); only the tiles they touch are decoded."""
    ends = np.cumsum([segment.rows for segment in segments])
    with Lane(stream) as lane:
        if start >= stop:
            return _empty(lane)
        first, last = (int(i) for i in np.searchsorted(ends, [start, stop - 1], side="right"))
        skipped = int(ends[first]) - segments[first].rows
        with _Selection(segments[first : last + 1]) as selection:
            selection.upload(lane)
            edges = np.array([start - skipped, stop - 1 - skipped], np.uint64)
            _, starts, lengths, _ = _locate(lane, selection, edges)
            view = selection.view
            view["row_begin"][0] = start - skipped
            view["char_begin"][0] = starts[0]
            view["row_end"][-1] = stop - skipped - int(view["first_row"][-1])
            view["char_end"][-1] = starts[1] + lengths[1]
            if len(view) == 1 and view["char_end"][0] < view["char_begin"][0]:
                raise ValueError(f"damaged row lengths: rows {start} to {stop} end before they begin")
            view["table"] -= np.uint64(selection.buffer.ptr)
            return _read(selection, lane)


def _locate(lane: Lane, selection: _Selection, rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Segments, starts, lengths and numbers of tiles of a few rows, on the host."""
    buffer = lane.allocate(rows.nbytes * 5)
    lane.upload(buffer.ptr, rows)
    _launch_locate(lane, selection, buffer.ptr, rows.size, buffer.ptr + rows.nbytes)
    return lane.read(buffer.ptr + rows.nbytes, 4 * rows.size, np.uint64).reshape(4, rows.size)


def _launch_locate(lane: Lane, selection: _Selection, rows: int, count: int, places: int) -> None:
    """Fill the four arrays of `count` entries at `places`."""
    lane.launch(
        get_kernel("row_lengths", "locate_rows"),
        blocks(count, 256 // launch.LOCATE_LANES),
        256,
        (*selection.arguments, _u64(rows), _u64(count), *(_u64(places + 8 * count * i) for i in range(4))),
    )


def take(segments: Sequence[Segment], rows: Any, *, stream: Any = None) -> DeviceStrings:
    """Rows by number, in any order, repeated or not.

    Parameters
    ----------
    rows
        int64 row numbers within bounds: a numpy array, or anything on the GPU that CuPy can see.
    """
    import cupy

    with Lane(stream) as lane, lane.stream:
        index = cupy.ascontiguousarray(cupy.asarray(rows, dtype=cupy.int64))
        count = index.size
        if count == 0:
            return _empty(lane)
        with _Selection(segments) as selection:
            selection.upload(lane)
            places = lane.allocate(32 * count)
            _launch_locate(lane, selection, index.data.ptr, count, places.ptr)
            _, starts, lengths, tiles = cupy.asarray(_Array(places, count * 4)).reshape(4, count)
            char_ends, item_ends = cupy.cumsum(lengths), cupy.cumsum(tiles)
            totals = pinned(2, np.int64)
            lane.download(totals[:1], char_ends[-1:].data.ptr)
            lane.download(totals[1:], item_ends[-1:].data.ptr)
            lane.synchronize()
            total_chars, total_items = (int(total) for total in totals)
            result = _allocate(lane, selection, count, total_chars)
            offsets = cupy.asarray(_Array(result.owners[0], count + 1, f"<i{result.offsets_itemsize}"))
            offsets[0] = 0
            offsets[1:] = char_ends
            lane.launch(
                get_kernel("fsst_take", "fsst_take"),
                blocks(total_items, 256),
                256,
                (
                    selection.arguments[0],
                    _u64(places.ptr),
                    _u64(starts.data.ptr),
                    _u64(char_ends.data.ptr),
                    _u64(item_ends.data.ptr),
                    _u64(count),
                    _u64(total_items),
                    _u64(result.chars),
                ),
            )
            if result.validity:
                nulls = lane.allocate(8)
                lane.zero(nulls.ptr, 8)
                lane.launch(
                    get_kernel("row_lengths", "take_validity"),
                    blocks(count, 256),
                    256,
                    (*selection.arguments, _u64(index.data.ptr), _u64(count), _u64(result.validity), _u64(nulls.ptr)),
                )
                result.null_count = int(lane.read(nulls.ptr, 1, np.int64)[0])
            return result


class _Array:
    """An RMM buffer seen as an array by CuPy."""

    def __init__(self, buffer: Any, count: int, typestr: str = "<i8") -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "data": (buffer.ptr, False),
            "shape": (count,),
            "typestr": typestr,
            "version": 3,
        }
