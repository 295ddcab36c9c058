"""Decompression on the GPU: all segments of many columns in one launch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane, device_attributes
from ...device.transfer import Inbox
from ..cuda_kernels import blocks
from . import cuda_take, launch
from .cuda_kernels import get_kernel
from .cuda_reading import FIELDS, ReadColumn, Reading, ReadPlan, decode, empty, new_mask, plan_of
from .cuda_readings import reading_of
from .segment import Segment

_u32, _u64 = np.uint32, np.uint64

#: Groups of segments that are decoded as they arrive.
_GROUPS = 8


def read(
    columns: Sequence[Sequence[Segment]],
    *,
    lane: Lane,
    start: int = 0,
    stop: int | None = None,
    spare: int = 0,
    chars: bool = True,
) -> list[DeviceStrings]:
    """Rows ``start:stop`` of columns of strings in GPU memory; only the tiles they touch are decoded.

    Whole columns, and whole segments of one, are read without waiting for the GPU. Other ranges wait for it once.

    Parameters
    ----------
    columns
        Segments of each column. Those of a `Segments` are looked at once for all calls.
    lane
    start, stop : int
        ``0 <= start``; `stop` is at most the number of rows, or None for all.
    spare : int
        Bytes that the buffers of characters have behind these.
    chars : bool
        False: without the characters.

    Returns
    -------
    list of DeviceStrings
        ``owners`` are the buffers of offsets, characters and validity (None without nulls); offsets are int32, or int64
        from 2^31 characters on. Of many rows ``chars_limit`` is how many characters they have.

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
            results[i] = empty(lane)
    readings = [reading_of(columns[i]) for i in wanted]
    whole = [start == 0 and stop in (None, reading.column.rows) for reading in readings]
    if not readings:
        return [result for result in results if result is not None]
    if all(whole):
        found = _run(readings[0].whole(*readings[1:]), lane, spare=spare, chars=chars)
    else:
        few = None if spare or not chars else _read_few(readings, lane, start, stop)
        if few is not None:
            found = few
        else:
            plan, masks = _plan_segments(readings, start, stop) or _plan_ranges(readings, lane, start, stop)
            found = _run(plan, lane, masks=masks, spare=spare, chars=chars)
    for i, result in zip(wanted, found, strict=True):
        results[i] = result
    return [result for result in results if result is not None]


def validity(segments: Sequence[Segment], *, lane: Lane) -> Any:
    """The validity of all rows, a buffer as cuDF has it, or None without nulls. Nothing is decoded or waited for."""
    if not segments or not (reading := reading_of(segments)).column.masked:
        return None
    plan = reading.whole()
    mask = new_mask(lane, reading.column.rows)
    words = plan.view.copy().view(_u64).reshape(plan.count, len(FIELDS))
    words[:, FIELDS["validity_to"]] = mask.ptr
    buffer = lane.allocate(words.nbytes)
    lane.upload(buffer.ptr, words)
    _gather_validity(lane, buffer.ptr, plan.count, plan.mask_words)
    return mask


def read_into(
    segments: Sequence[Segment], offsets: int, itemsize: int, first_char: int, chars: int, *, lane: Lane
) -> None:
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
    words[:, FIELDS["table"]] += _u64(buffer.ptr)
    words[:, FIELDS["offsets_to"]] = offsets
    words[:, FIELDS["wide_offsets"]] = itemsize == 8
    # Characters are counted from the column's first, offsets say so, and the address is what it would have.
    words[:, FIELDS["out_char"]] += _u64(first_char)
    words[:, FIELDS["chars_to"]] = _u64((chars - first_char) % 2**64)
    lane.upload(buffer.ptr, image)
    decode(plan.decodes, lane, buffer.ptr, buffer.ptr + plan.place)
    _read_rows(plan, lane, buffer.ptr + plan.place)


def receive(segments: Sequence[Segment], *, stream: Any = None) -> DeviceStrings:
    """Decompress segments in host memory into the current GPU's, each while the next ones arrive; see `read`."""
    with Lane(stream) as lane:
        if not segments:
            return empty(lane)
        with Inbox(lane) as inbox:
            moved = inbox.receive_parts(segments)
            bounds = np.linspace(0, len(moved), min(_GROUPS, len(moved)) + 1).astype(int)
            groups = [slice(int(start), int(stop)) for start, stop in pairwise(bounds)]
            arrivals = [partial(inbox.fill, moved[group], segments[group]) for group in groups]
            return _run(plan_of([reading_of(moved)], groups), lane, list(zip(groups, arrivals, strict=True)))[0]


def _run(
    plan: ReadPlan,
    lane: Lane,
    arrivals: Sequence[tuple[slice, Callable[[], Any]]] = (),
    masks: Sequence[Any] | None = None,
    spare: int = 0,
    chars: bool = True,
) -> list[DeviceStrings]:
    """Read what a plan says; `spare` and `chars` as of `read`.

    `arrivals`: groups of segments that are not there yet, and what starts to bring them and gives an event behind that.
    `masks`: validity bitmaps that are there already.
    """
    image = plan.image.copy()
    buffer = lane.allocate(image.nbytes)
    words = plan.words(image)
    words[:, FIELDS["table"]] += _u64(buffer.ptr)
    results = []
    for i, (column, first_bit) in enumerate(zip(plan.columns, plan.first_bits, strict=True)):
        offsets = lane.allocate(column.itemsize * (column.rows + 1))
        out = lane.allocate(column.chars + spare if chars else 0)
        validity = masks[i] if masks is not None else new_mask(lane, column.rows) if column.masked else None
        part = words[column.group]
        part[:, FIELDS["offsets_to"]] = offsets.ptr
        part[:, FIELDS["chars_to"]] = out.ptr
        if validity is not None:
            part[:, FIELDS["validity_to"]] = _before(validity, first_bit)
        results.append(
            DeviceStrings(
                column.rows,
                out.ptr,
                offsets.ptr,
                column.itemsize,
                validity.ptr if validity is not None else 0,
                null_count=column.null_count,
                owners=(offsets, out, validity),
                chars_limit=column.chars,
            )
        )
    lane.upload(buffer.ptr, image)
    address = buffer.ptr + plan.place
    events = [arrive() for _, arrive in arrivals]
    if not arrivals and chars:
        decode(plan.decodes, lane, buffer.ptr, address)
    for (group, _), event in zip(arrivals, events, strict=True):
        lane.stream.wait_event(event)
        decode([step for step in plan.decodes if step.group == group], lane, buffer.ptr, address)
    _read_rows(plan, lane, address)
    if plan.mask_words and masks is None:
        _gather_validity(lane, address, plan.count, plan.mask_words)
    return results


def _before(validity: Any, first_bit: int) -> np.uint64:
    """Address of bit 0, modulo 2^64, if the masks of all columns lay behind each other and this one at `first_bit`."""
    return _u64((validity.ptr - first_bit // 8) % 2**64)


def _read_rows(plan: ReadPlan, lane: Lane, address: int) -> None:
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
    if not cuda_take.one_takes(readings) or count > launch.TAKE_ROWS or 4 * count * most > cuda_take.FEW_CHARS * every:
        return None
    return cuda_take.Take(readings, np.arange(start, start + count), lane).few()


def _plan_segments(readings: Sequence[Reading], start: int, stop: int | None) -> tuple[ReadPlan, None] | None:
    """Rows ``start:stop`` of a column where they are whole segments, whose sizes are known; else None."""
    reading, *others = readings
    end = reading.column.rows if stop is None else stop
    first, last = bisect_right(reading._ends, start), bisect_left(reading._ends, end) + 1
    if others or reading._ends[last - 1] != end or (reading._ends[first - 1] if first else 0) != start:
        return None
    return reading.whole().part(first, last, end - start, int(reading.null_counts[first:last].sum())), None


def _plan_ranges(readings: Sequence[Reading], lane: Lane, start: int, stop: int | None) -> tuple[ReadPlan, list[Any]]:
    """Rows ``start:stop`` of columns, at least one of each, and their validity; the GPU is waited for."""
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
        columns.append(ReadColumn(slice(at, at + view.size), int(rows.sum()), 0, 0, nulls > 0))
        at += view.size

    # What the host has to wait for: characters where the rows begin and end, and nulls.
    plan = ReadPlan(views, columns)
    firsts = np.array([column.group.start for column in columns])
    lasts = np.array([column.group.stop for column in columns]) - 1
    edges = np.stack(
        [firsts.astype(_u64), plan.view["row_begin"][firsts], lasts.astype(_u64), plan.view["row_end"][lasts]], 1
    )
    masks = [new_mask(lane, column.rows) if column.masked else None for column in columns]
    words = plan.view.copy().view(_u64).reshape(plan.count, len(FIELDS))
    found = 16 * len(columns)  # bytes of the edges' characters; the nulls follow
    buffer = lane.allocate(found + 8 * len(columns) + edges.nbytes + words.nbytes)  # zeros first
    edges_at = buffer.ptr + found + 8 * len(columns)
    for i, (column, mask, first_bit) in enumerate(zip(columns, masks, plan.first_bits, strict=True)):
        if mask is not None:
            words[column.group, FIELDS["validity_to"]] = _before(mask, first_bit)
            words[column.group, FIELDS["nulls_to"]] = buffer.ptr + found + 8 * i
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
    return plan.complete(readings), masks
