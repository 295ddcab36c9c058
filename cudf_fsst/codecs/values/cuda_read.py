"""Fixed-width values in GPU memory: decompress parts of many columns, or take rows of them, in few launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ...device.memory import Lane
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import JobTables, PartRange, RowNumbers, Taking
from ..node import Parts
from ..part import Packed, align, edges_of
from ..registry import PLAIN, of_values, on_device
from ..span import Span
from . import plan
from .launch import DEFINES

_u32, _u64 = np.uint32, np.uint64
_THREADS = 256
#: Bytes of values that are decompressed at once where a codec takes no rows by itself.
ROOM_NBYTES = 48 << 20
#: As much where the call may take more. Each time takes the host about 50 us, however many columns there are.
_LATE_NBYTES = 256 << 20
#: So few rows are looked up one by one, whatever it costs.
_FEW_ROWS = 4096
#: Two ways to take rows, on an H200: the codec says what it takes to look one up. Seconds for a byte that is
#: decompressed with all others; for a row for each time that some are; and to pick it from these, of rows in no order
#: and in order.
_DECODE_COST = 0.42e-12
_WINDOW_COST = 6e-12
_PICK_COST = 12e-12, 5e-12
#: Values that are decompressed together are a multiple of this; bytes that a call takes beside them.
_STEP_ROWS = 1024
_ROOM_LEFT = 8 << 20
#: Bytes of the bits of values that others are looked for among, at most.
_MEMBERS_NBYTES = 32 << 20


@dataclass(frozen=True)
class ReadRequest:
    """Values to read, and the address where they go.

    Attributes
    ----------
    streams : tuple of tuple of Packed
        One, or the low and the high halves of numbers of 16 bytes.
    address : int
        Where the first value goes, a multiple of the size of a value.
    start, stop : int
        Rows, for `decompress`; `stop` None: all from `start` on.
    nulls : int
        For `take`. Not 0: the stream is a bitmap, the values are bits, to whole 64 bytes of which the rest is zero, and
        the rows whose bit is 0 are added to the u64 at this address.
    """

    streams: tuple[Parts, ...]
    address: int
    start: int = 0
    stop: int | None = None
    nulls: int = 0


def _ranges(parts: Parts, start: int, stop: int, address: int, stride: int) -> Iterator[PartRange]:
    """Rows ``start:stop`` of a stream."""
    first = 0
    for packed in parts:
        begin, end = max(start - first, 0), min(stop - first, packed.rows)
        if begin < end:
            yield PartRange(packed, begin, end, address + (first + begin - start) * stride, stride)
        first += packed.rows


def decompress(jobs: Sequence[ReadRequest], *, lane: Lane) -> None:
    """Write values; does not wait.

    Raises
    ------
    ValueError
        The sizes of a part do not fit together. What its bytes say is not checked: damage makes wrong values.
    """
    by_codec: dict[str, list[PartRange]] = {}
    pairs: list[tuple[PartRange, PartRange]] = []
    for job in jobs:
        stop = plan.stream_rows(job.streams[0]) if job.stop is None else job.stop
        stride = job.streams[0][0].itemsize * len(job.streams)
        streams = [list(_ranges(parts, job.start, stop, job.address, stride)) for parts in job.streams]
        if len(streams) == 2:
            low, high = streams
            if _alike(low, high):
                pairs += zip(low, high, strict=True)
                continue
            streams[1] = [part._replace(address=part.address + 8) for part in high]
        for stream in streams:
            for part in stream:
                by_codec.setdefault(part.packed.codec, []).append(part)
    tables = JobTables()
    if pairs:
        for name in dict.fromkeys(low.packed.codec for low, _ in pairs):
            on_device(name).decompress_wide([pair for pair in pairs if pair[0].packed.codec == name], tables)
    for codec, ranges in by_codec.items():
        on_device(codec).decompress(ranges, tables, lane)
    tables.launch(lane)


def _alike(low: Sequence[PartRange], high: Sequence[PartRange]) -> bool:
    """Whether halves are cut at the same rows, as this package cuts them, and one kernel decodes both."""
    return len(low) == len(high) and all(
        low_piece.packed.codec == high_piece.packed.codec
        and low_piece.output == high_piece.output
        and on_device(low_piece.packed.codec).READS_WIDE
        for low_piece, high_piece in zip(low, high, strict=True)
    )


def answers(parts: Parts) -> bool:
    """Whether one kernel compares the packed values of all parts with a range, as `compare` does."""
    codecs = {packed.codec for packed in parts}
    return len(codecs) == 1 and on_device(*codecs).COMPARES


def compare(parts: Parts, span: Span, address: int, *, lane: Lane) -> None:
    """Write for each value whether it lies in a range, a byte each; of parts that `answers`. Does not wait.

    Raises
    ------
    ValueError
        As `decompress`.
    """
    tables = JobTables()
    ranges = list(_ranges(parts, 0, plan.stream_rows(parts), address, 1))
    on_device(parts[0].codec).compare(ranges, span, tables)
    tables.launch(lane)


def is_in(parts: Parts, values: int, count: int, address: int, *, lane: Lane) -> bool:
    """Write for each value whether it is among others, a byte each; of parts that `answers`.

    It waits where it is not known yet between which values they lie.

    Parameters
    ----------
    values, count : int
        Address and number of the others, of the same type.
    address : int
        Where the answers go.

    Returns
    -------
    bool
        False: their range is so wide that a bit for each value in it would take too much memory. Nothing is written.

    Raises
    ------
    ValueError
        As `decompress`.
    """
    device = on_device(parts[0].codec)
    spans = [device.bounds(packed) for packed in parts]
    span = Span(min(bounds.low for bounds in spans), max(bounds.high for bounds in spans))
    nbytes = (span.high - span.low) // 32 * 4 + 4
    if nbytes > _MEMBERS_NBYTES:
        return False
    bits = lane.allocate(nbytes)
    lane.zero(bits.ptr, nbytes)
    device.set_members(values, count, parts[0].itemsize, span, bits.ptr, lane)
    tables = JobTables()
    ranges = list(_ranges(parts, 0, plan.stream_rows(parts), address, 1))
    device.compare(ranges, span, tables, bits=bits.ptr)
    tables.launch(lane)
    return True


def take(jobs: Sequence[ReadRequest], rows: RowNumbers, *, lane: Lane, scratch_nbytes: int = 0) -> None:
    """Write rows by number, in any order, repeated or not; does not wait.

    Parameters
    ----------
    jobs, rows, lane
    scratch_nbytes : int
        Bytes that the call may take, if they are more than `ROOM_NBYTES`.

    Raises
    ------
    ValueError
        As `decompress`.
    """
    if rows.count == 0:
        return
    scratch_nbytes = max(scratch_nbytes - _ROOM_LEFT, ROOM_NBYTES)
    if read_whole := [job for job in jobs if _reads_all(job, rows, scratch_nbytes)]:
        _take_whole(read_whole, rows, scratch_nbytes, lane)
        jobs = [job for job in jobs if job not in read_whole]
    names = {packed.codec for job in jobs for parts in job.streams for packed in parts}
    taking = {name for name in names if rows.count <= on_device(name).TAKES}
    columns: dict[tuple[str, int, bool], list[Taking]] = {}
    keep: list[Any] = []
    chunked: list[tuple[int, Packed, int, int]] = []
    for job in jobs:
        streams, bits = job.streams, job.nulls != 0
        codecs = {packed.codec for parts in streams for packed in parts}
        if bits and (len(codecs) > 1 or not on_device(*codecs).TAKES_BITS):
            nbytes = plan.stream_rows(streams[0])
            keep.append(lane.allocate(nbytes))
            decompress([ReadRequest(streams, keep[-1].ptr)], lane=lane)
            column = Taking([(keep[-1].ptr, 0, nbytes)], job.address, 0, 1, nulls=job.nulls)
            columns.setdefault((PLAIN.NAME, 1, True), []).append(column)
            continue
        itemsize = streams[0][0].itemsize
        stride = itemsize * len(streams)
        if len(streams) == 2 and len(codecs) == 1 and on_device(*codecs).READS_WIDE:
            (codec,) = codecs
            low, high = (_described(parts, codec) for parts in streams)
            columns.setdefault((codec, itemsize, False), []).append(Taking(low, job.address, stride, itemsize, high))
            continue
        for half, parts in enumerate(streams):
            address = job.address + half * itemsize
            for codec in codecs.intersection(taking):
                if described := _described(parts, codec):
                    key = codec, 1 if codec == PLAIN.NAME else itemsize, bits
                    column = Taking(described, address, stride, itemsize, nulls=job.nulls, nan=_nan_parts(parts, codec))
                    columns.setdefault(key, []).append(column)
            if not codecs.issubset(taking):
                firsts = accumulate((packed.rows for packed in parts), initial=0)
                chunked += (
                    (first, packed, address, stride)
                    for first, packed in zip(firsts, parts, strict=False)
                    if packed.codec not in taking
                )
    tables = JobTables()
    for (codec, itemsize, bits), group in columns.items():
        if codec == PLAIN.NAME:
            _take_plain(group, rows, tables, bits=bits)
        else:
            on_device(codec).take(group, itemsize, rows, tables, bits=bits)
    # What takes the GPU longest comes first.
    _take_chunked(chunked, rows, min(scratch_nbytes, max(_LATE_NBYTES, ROOM_NBYTES)), lane)
    tables.launch(lane)


def _reads_all(job: ReadRequest, rows: RowNumbers, scratch_nbytes: int) -> bool:
    """Whether to decompress all values, to take so many rows, costs less than to look each of them up."""
    if rows.count <= _FEW_ROWS or job.nulls:
        return False
    parts = [packed for stream in job.streams for packed in stream]
    total = sum(packed.rows for packed in parts)
    ordered = int(rows.order != 0)
    devices = {name: on_device(name) for name in {packed.codec for packed in parts}}
    lookup_seconds = sum(devices[packed.codec].row_costs(packed)[ordered] * packed.rows for packed in parts) / total
    nbytes = total * job.streams[0][0].itemsize
    windows = -(-nbytes // scratch_nbytes)
    return rows.count * lookup_seconds > nbytes * _DECODE_COST + rows.count * (
        windows * _WINDOW_COST + _PICK_COST[ordered]
    )


def _take_whole(jobs: Sequence[ReadRequest], rows: RowNumbers, scratch_nbytes: int, lane: Lane) -> None:
    """Decompress all values and take rows of them, `scratch_nbytes` at a time."""
    turns: list[list[tuple[Parts, int, int, int, int]]] = [[]]
    used = 0
    for job in jobs:
        itemsize, stride = job.streams[0][0].itemsize, job.streams[0][0].itemsize * len(job.streams)
        for half, parts in enumerate(job.streams):
            total = plan.stream_rows(parts)
            step = max(scratch_nbytes // itemsize // _STEP_ROWS, 1) * _STEP_ROWS
            for begin in range(0, total, step):
                end = min(begin + step, total)
                nbytes = align((end - begin) * itemsize)
                if used + nbytes > scratch_nbytes:
                    turns.append([])
                    used = 0
                turns[-1].append((parts, begin, end, job.address + half * itemsize, stride))
                used += nbytes
    sizes = [[align((end - begin) * parts[0].itemsize) for parts, begin, end, *_ in turn] for turn in turns]
    scratch = lane.allocate(max(map(sum, sizes)))
    for turn, window_sizes in zip(turns, sizes, strict=True):
        addresses = list(accumulate(window_sizes, initial=int(scratch.ptr)))
        decompress(
            [
                ReadRequest((parts,), address_of, begin, end)
                for (parts, begin, end, *_), address_of in zip(turn, addresses, strict=False)
            ],
            lane=lane,
        )
        columns = [
            Taking([(address_of, begin, end - begin)], address, stride, parts[0].itemsize)
            for (parts, begin, end, address, stride), address_of in zip(turn, addresses, strict=False)
        ]
        tables = JobTables()
        _take_plain(columns, rows, tables)
        tables.launch(lane)


def _described(parts: Parts, codec: str) -> list[tuple[int, ...]]:
    """The parts of a codec as kernels read them, each with its first row in the column and its rows."""
    described, first, device = [], 0, on_device(codec)
    for packed in parts:
        if packed.codec == codec:
            described.append(device.Part(*device.describe(packed), first, packed.rows))
        first += packed.rows
    return described


def _nan_parts(parts: Parts, codec: str) -> list[tuple[int, ...]]:
    """The NaNs of the parts of a codec, for `Taking.nan`."""
    of_floats = of_values(codec).of_floats
    if not any(of_floats(packed.parameters) for packed in parts if packed.codec == codec):
        return []
    firsts = edges_of(parts).tolist()
    of_codec = [(packed, first) for packed, first in zip(parts, firsts, strict=False) if packed.codec == codec]
    return [on_device(codec).nan_part(packed, first) for packed, first in of_codec]


def _take_plain(columns: Sequence[Taking], rows: RowNumbers, tables: JobTables, *, bits: bool = False) -> None:
    kernel = get_kernel("values", "take_plain_bits" if bits else "take_plain", DEFINES)
    tables.add_taken(kernel, _THREADS, columns, rows, bits=bits)


class _RowsWindow(NamedTuple):
    """Rows `begin` to ``end - 1`` of a part, which are decompressed into a scratch buffer, from its byte `at` on.

    Attributes
    ----------
    first : int
        The part's first row in its column.
    packed : Packed
    address, stride : int
        Where the column's values go.
    begin, end, at : int
    """

    first: int
    packed: Packed
    address: int
    stride: int
    begin: int
    end: int
    at: int

    @property
    def nbytes(self) -> int:
        """Bytes that it takes of the scratch buffer."""
        return align((self.end - self.begin) * self.packed.itemsize)


def _take_chunked(
    parts: Sequence[tuple[int, Packed, int, int]], rows: RowNumbers, scratch_nbytes: int, lane: Lane
) -> None:
    """Take rows of parts of codecs that decompress whole chunks: some chunks at a time, only those that have such rows.

    `parts`: first row of each in its column, the part, where the column's values go and their stride; those of a column
    one after another. `scratch_nbytes`: bytes for chunks.
    """
    turns: list[list[_RowsWindow]] = [[]]
    used = 0
    for first, packed, address, stride in parts:
        chunk = on_device(packed.codec).chunk_rows(packed)
        step = max(scratch_nbytes // (packed.itemsize * chunk), 1) * chunk
        for begin in range(0, packed.rows, step):
            window = _RowsWindow(first, packed, address, stride, begin, min(begin + step, packed.rows), 0)
            if used and used + window.nbytes > scratch_nbytes:
                turns.append([])
                used = 0
            turns[-1].append(window._replace(at=used))
            used += window.nbytes
    if not turns[0]:
        return
    touched, marks = _marked(parts, rows, lane)
    scratch = lane.allocate(max(turn[-1].at + turn[-1].nbytes for turn in turns))
    for turn in turns:
        by_codec: dict[str, tuple[list[PartRange], list[int]]] = {}
        columns: dict[int, Taking] = {}
        for part_window in turn:
            packed, target, begin = (
                part_window.packed,
                int(scratch.ptr) + part_window.at,
                part_window.first + part_window.begin,
            )
            chunk = on_device(packed.codec).chunk_rows(packed)
            ranges, touched_chunks = by_codec.setdefault(packed.codec, ([], []))
            ranges.append(PartRange(packed, part_window.begin, part_window.end, target, packed.itemsize))
            touched_chunks.append(touched[chunk, part_window.first % chunk] + begin // chunk)
            column = columns.get(
                part_window.address, Taking((), part_window.address, part_window.stride, packed.itemsize)
            )
            columns[part_window.address] = column._replace(
                parts=(*column.parts, (target, begin, part_window.end - part_window.begin))
            )
        tables = JobTables()
        for codec, (ranges, touched_chunks) in by_codec.items():
            on_device(codec).decompress(ranges, tables, lane, touched=touched_chunks)
        _take_plain(list(columns.values()), rows, tables)
        tables.launch(lane)
    del marks


def _marked(
    parts: Sequence[tuple[int, Packed, int, int]], rows: RowNumbers, lane: Lane
) -> tuple[dict[tuple[int, int], int], Any]:
    """Addresses of marks, a byte for each chunk that says whether it has some of the rows; and their buffer.

    By the rows of a chunk and how many lie before the first whole one, so that columns that are cut alike share them.
    """
    ends: dict[tuple[int, int], int] = {}
    for first, packed, *_ in parts:
        chunk = on_device(packed.codec).chunk_rows(packed)
        key = chunk, first % chunk
        ends[key] = max(ends.get(key, 0), first + packed.rows)
    begins = list(accumulate((blocks(end, chunk) for (chunk, _), end in ends.items()), initial=0))
    marks = lane.allocate(begins[-1])
    lane.zero(marks.ptr, begins[-1])
    kernel = get_kernel("values", "mark_chunks", DEFINES)
    marks_of = {}
    for ((chunk, before), end), begin in zip(ends.items(), begins, strict=False):
        marks_of[chunk, before] = at = int(marks.ptr) + begin
        edges = _u64(before), _u64(end), _u32(chunk)
        lane.launch(kernel, blocks(rows.count, _THREADS), _THREADS, (*rows.arguments, *edges, _u64(at)))
    return marks_of, marks
