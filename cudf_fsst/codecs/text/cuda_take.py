"""Rows of strings on the GPU by number: of many columns in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...buffers import DeviceStrings, HostStrings
from ...device.memory import Lane, device_attributes
from ..part import align
from ..scratch import scratch_limit
from . import launch
from .cuda_reading import FIELDS, MASK_BITS, Reading, empty, new_mask
from .cuda_readings import reading_of
from .segment import Segment

_u64 = np.uint64

#: Characters of a column that `take_few` has room for, and that `fetch` brings to the host.
FEW_CHARS = 16384


def take(columns: Sequence[Sequence[Segment]], rows: Any, *, lane: Lane) -> list[DeviceStrings]:
    """Rows of columns of strings in GPU memory by number, in any order, repeated or not. The GPU is waited for once.

    Parameters
    ----------
    columns
        As in `read`; all have the same rows, and of each a codec takes rows.
    rows
        int64 row numbers within bounds: a numpy array, or anything on the GPU that CuPy can see.
    lane
    """
    if not isinstance(rows, np.ndarray):
        import cupy

        with lane.stream:
            rows = cupy.ascontiguousarray(cupy.asarray(rows, dtype=cupy.int64))
    if rows.size == 0 or not columns:
        return [empty(lane) for _ in columns]
    readings = [reading_of(segments) for segments in columns]
    results: dict[int, DeviceStrings] = {}
    for taker in dict.fromkeys(reading.taker for reading in readings):
        places = [i for i, reading in enumerate(readings) if reading.taker is taker]
        call = Take([readings[i] for i in places], rows, lane)
        taken = (call.few() if rows.size <= launch.TAKE_ROWS else None) or call.many()
        results |= zip(places, taken, strict=True)
    return [results[i] for i in range(len(readings))]


def one_takes(readings: Sequence[Reading]) -> bool:
    """Whether one codec takes the rows of all columns."""
    return len({reading.taker for reading in readings}) == 1 and readings[0].taker is not None


def fetch(columns: Sequence[Sequence[Segment]], rows: Sequence[int], *, lane: Lane) -> list[HostStrings] | None:
    """A few rows of columns by number, in host memory; None without rows, and for so many that `take` is faster."""
    if not columns or not 0 < len(rows) <= launch.TAKE_ROWS:
        return None
    readings = [reading_of(segments) for segments in columns]
    return Take(readings, np.array(rows, np.int64), lane).fetch() if one_takes(readings) else None


class Take:
    """Rows of columns by number, all of whose rows one codec takes: one small upload, and one wait.

    The upload has decode tables, descriptors, a `TAKE_COLUMN` and a `TAKE_TOTALS` for each column, and rows that are on
    the host.
    """

    def __init__(self, readings: Sequence[Reading], rows: Any, lane: Lane) -> None:
        self.readings, self.lane, self.count = readings, lane, int(rows.size)
        self._taker = readings[0].taker
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
            fields = dict.fromkeys(launch.TAKE_COLUMN.names or (), 0)
            fields["segments"], fields["segment_count"], fields["tables"] = view_at, len(words), tables_at
            fields["totals"] = address + self._totals_at + i * launch.TAKE_TOTALS.itemsize
            self.columns.append(fields)
            tables_at += tables.nbytes
            view_at += words.nbytes

    def _upload(self) -> None:
        words, at = np.concatenate([words for words, _ in self._parts]), 0
        for (own_words, _), fields in zip(self._parts, self.columns, strict=True):
            words[at : at + len(own_words), FIELDS["table"]] += _u64(fields["tables"])
            at += len(own_words)
        columns = [field for fields in self.columns for field in fields.values()]
        totals = [0] * (len(self._parts) * len(launch.TAKE_TOTALS.names or ()))
        rows = [self._rows.view(_u64)] if isinstance(self._rows, np.ndarray) else []
        tables = (tables.view(_u64) for _, tables in self._parts)
        every = [*tables, words.ravel(), np.array(columns + totals, _u64), *rows]
        self.lane.upload(self.buffer.ptr, np.concatenate(every))

    def _upload_columns(self) -> None:
        # Nobody reads what is there any more.
        at = int(self.buffer.ptr) + self._columns_at
        self.lane.upload(at, np.array([[*fields.values()] for fields in self.columns], _u64))

    def _launch(self, name: str, grid: tuple[int, ...], *more: Any) -> None:
        arguments = _u64(self.buffer.ptr + self._columns_at), _u64(self.rows), _u64(self.count), *more
        self.lane.launch(self._taker.take_kernel(name), grid, launch.TAKE_THREADS, arguments)

    def _totals(self) -> list[dict[str, int]]:
        """What the kernels counted for each column; waits for them."""
        names = launch.TAKE_TOTALS.names or ()
        words = self.lane.read(self.buffer.ptr + self._totals_at, len(names) * len(self.readings), _u64)
        return [dict(zip(names, numbers, strict=True)) for numbers in words.reshape(-1, len(names)).tolist()]

    def _masks(self) -> list[Any]:
        masks = [new_mask(self.lane, self.count) if reading.column.masked else None for reading in self.readings]
        for fields, mask in zip(self.columns, masks, strict=True):
            fields["validity_to"] = 0 if mask is None else mask.ptr
        return masks

    def few(self) -> list[DeviceStrings] | None:
        """Rows of one group, at most `launch.TAKE_ROWS`; None where a column needs more room than there is."""
        lane, several = self.lane, len(self.readings)
        masks = self._masks()
        room = lane.allocate(FEW_CHARS * several)
        offsets = [lane.allocate(4 * (self.count + 1)) for _ in self.readings]
        for i, fields in enumerate(self.columns):
            fields.update(offsets_to=offsets[i].ptr, chars_to=room.ptr + FEW_CHARS * i)
        self._upload()
        self._launch("take_few", (1, several), _u64(FEW_CHARS))
        totals = self._totals()
        if max(total["chars"] for total in totals) > FEW_CHARS:
            return None
        results = []
        for i, total in enumerate(totals):
            chars = lane.allocate(total["chars"])
            lane.copy(chars.ptr, room.ptr + FEW_CHARS * i, chars.size)
            results.append(self._result(offsets[i], chars, masks[i], 4, total["nulls"]))
        return results

    def fetch(self) -> list[HostStrings] | None:
        """The rows of `few` in host memory, brought by one copy; None where a column needs more room than there is."""
        lane, several, count = self.lane, len(self.readings), self.count
        offsets_nbytes, mask_nbytes = align(4 * (count + 1)), -(-count // MASK_BITS) * (MASK_BITS // 8)
        totals_nbytes = align(launch.TAKE_TOTALS.itemsize)
        mask_at = totals_nbytes + offsets_nbytes
        each = mask_at + mask_nbytes + FEW_CHARS
        room = lane.allocate(each * several)
        for i, (fields, reading) in enumerate(zip(self.columns, self.readings, strict=True)):
            at = room.ptr + each * i
            fields.update(totals=at, offsets_to=at + totals_nbytes, chars_to=at + mask_at + mask_nbytes)
            fields["validity_to"] = at + mask_at if reading.column.masked else 0
        self._upload()
        self._launch("take_few", (1, several), _u64(FEW_CHARS))
        results = []
        for answer in lane.read(room.ptr, room.size, np.uint8).reshape(several, each):
            chars, nulls = answer[:16].view(np.int64).tolist()
            if chars > FEW_CHARS:
                return None
            mask = answer[mask_at : mask_at + mask_nbytes] if nulls else None
            offsets = answer[totals_nbytes : totals_nbytes + 4 * (count + 1)].view(np.int32)
            results.append(HostStrings(count, answer[mask_at + mask_nbytes :][:chars], offsets, mask, 0, nulls))
        return results

    def many(self) -> list[DeviceStrings]:
        """Any number of rows, with one wait for their sizes."""
        lane, count, several = self.lane, self.count, len(self.readings)
        groups = -(-count // launch.TAKE_ROWS)
        plain = sum(reading.column.chars + 4 * reading.column.rows for reading in self.readings)
        scratch = scratch_limit(plain)
        keeps_places = 2 * 8 * count * several <= scratch and all(
            reading.column.chars < 1 << launch.PLACE_BITS for reading in self.readings
        )
        work = lane.allocate(8 * several * (groups + count * keeps_places))
        for i, fields in enumerate(self.columns):
            fields["groups"] = work.ptr + 8 * groups * i
            fields["places"] = work.ptr + 8 * (groups * several + count * i) if keeps_places else 0
        masks = self._masks()
        self._upload()
        self._launch("take_measure", (groups, several))
        totals = self._totals()

        results: list[DeviceStrings] = []
        for fields, reading, mask, total in zip(self.columns, self.readings, masks, totals, strict=True):
            column = reading.column._replace(rows=count, chars=total["chars"])
            chars, offsets = lane.allocate(column.chars), lane.allocate(column.itemsize * (count + 1))
            fields.update(offsets_to=offsets.ptr, chars_to=chars.ptr, wide_offsets=column.itemsize == 8)
            results.append(self._result(offsets, chars, mask, column.itemsize, total["nulls"]))
        shares = _shares(max(total["most_tiles"] for total in totals), groups * several)
        self._upload_columns()
        self._launch("take_many", (groups, several, shares))
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


def _shares(tiles: int, blocks_there: int) -> int:
    """Thread blocks for each group of rows, of which one has so many tiles: groups of giant rows need many."""
    threads = launch.TAKE_THREADS
    shares = -(-tiles // (16 * threads))
    enough = -(-4 * device_attributes()["multiprocessors"] // blocks_there)
    return max(1, min(max(shares, enough), -(-tiles // threads), 65535))
