"""Rows of strings on the GPU by number, of a column of which most is wanted: it is decoded, some of it at a time.

`cuda_take` decodes the tiles of every row by themselves, and finds each row by itself, which is better for few.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane, device_attributes
from ..cuda_kernels import blocks
from ..scratch import scratch_limit
from . import cuda_read, cuda_take, launch
from .cuda_kernels import get_kernel
from .cuda_reading import Reading, empty, new_mask
from .cuda_readings import reading_of
from .layout import ROW_BLOCK
from .segment import Segment

_u32, _u64 = np.uint32, np.uint64

#: What decides between two ways to take rows: seconds for a tile of 256 bytes decoded by itself and the row found; for
#: a character decoded with all others; for a row, and a character of it, that are copied; for a row in no order that a
#: piece does not have; for a piece that is read.
_TILE_COST = 0.34e-9
_CHAR_COST = 0.75e-12
_ROW_COST = 0.05e-9
_COPY_COST = 2e-12
_PASS_COST = 25e-12
_PIECE_COST = 120e-6
#: Bytes that a call takes beside a piece, where there is as much.
_LEFT = 1 << 20
#: Bytes behind the characters of a piece that are read, and not used.
_SPARE = 16
#: Characters of a piece: its offsets have 32 bits.
_PIECE_CHARS = 2**31 - 1
#: As much memory as it takes.
_ANY_LIMIT = 2**62
#: Characters of GATHER_ROWS rows from which on several thread blocks share them.
_SHARED_CHARS = 64 << 10
_TOTALS = 4


class Numbers(NamedTuple):
    """Rows that are wanted: ``Numbers`` of kernels/text_gather.cu.

    Attributes
    ----------
    address, nbytes, rows : int
        Numbers in GPU memory of 1, 2, 4 or 8 bytes each, within bounds; how many.
    validity : int
        Address of a bitmap: a number whose bit is 0 means nothing, and its row is empty. 0: there is none.
    order : int
        As `chosen.Ordered` has it, of numbers of 8 bytes.
    """

    address: int
    nbytes: int
    rows: int
    validity: int = 0
    order: int = 0


def take(
    columns: Sequence[Sequence[Segment]], rows: Any, *, lane: Lane, scratch_nbytes: int = 0, order: int = 0
) -> list[DeviceStrings]:
    """Rows of columns of strings in GPU memory by number, in any order, repeated or not.

    The GPU is waited for once, or once for each column of which most is wanted.

    Parameters
    ----------
    columns
        As in `cuda_read.read`; all have the same rows.
    rows
        int64 row numbers within bounds: a numpy array, or anything on the GPU that CuPy can see.
    lane
    scratch_nbytes : int
        Bytes that the call may take beside its result, if they are more than for these columns.
    order : int
        As `chosen.Ordered` has it.
    """
    count = int(rows.size)
    whole = [bool(segments) and reads_all(segments, count, scratch_nbytes, order) for segments in columns]
    if not any(whole):
        return cuda_take.take(columns, rows, lane=lane)
    address, _keep = numbers_there(rows, lane)
    few = [segments for segments, is_whole in zip(columns, whole, strict=True) if not is_whole]
    rest = iter(cuda_take.take(few, rows, lane=lane) if few else ())
    numbers = Numbers(address, 8, count, 0, order)
    return [
        gather(segments, numbers, lane=lane, scratch_nbytes=scratch_nbytes) if is_whole else next(rest)
        for segments, is_whole in zip(columns, whole, strict=True)
    ]


def numbers_there(rows: Any, lane: Lane) -> tuple[int, Any]:
    """The address of row numbers in GPU memory, as int64, and what keeps them there."""
    if isinstance(rows, np.ndarray):
        there = lane.allocate(8 * rows.size)
        lane.upload(there.ptr, np.ascontiguousarray(rows, np.int64))
        return int(there.ptr), there
    import cupy

    with lane.stream:
        rows = cupy.ascontiguousarray(cupy.asarray(rows, dtype=cupy.int64))
    return int(rows.data.ptr), rows


def reads_all(segments: Sequence[Segment], count: int, scratch_nbytes: int = 0, order: int = 0) -> bool:
    """Whether to decode all of a column, to take so many rows of it, costs less than to decode what they touch."""
    reading = reading_of(segments)
    if reading.taker is None:
        return True
    if count <= launch.TAKE_ROWS:
        return False
    column = reading.column
    if not column.chars:
        return True
    pieces = _pieces(reading, _limit(reading, count, scratch_nbytes))
    if pieces is None:
        return False
    chars, tile = column.chars / column.rows, 1 << reading.shifts[-1]
    alone = count * (1 + chars / tile) * tile / 256 * _TILE_COST
    row = _ROW_COST + chars * _COPY_COST + (0 if order else (len(pieces) - 1) * _PASS_COST)
    return alone > column.chars * _CHAR_COST + count * row + len(pieces) * _PIECE_COST


def _limit(reading: Reading, count: int, scratch_nbytes: int) -> int:
    """Bytes that a decoded piece may take, beside what gathering so many rows (`count`) takes."""
    limit = max(scratch_nbytes, scratch_limit(reading.column.chars + 4 * reading.column.rows))
    return max(limit - 8 * blocks(count, launch.GATHER_ROWS) - _LEFT, limit // 2)


def _pieces(reading: Reading, limit: int) -> list[tuple[int, int]] | None:
    """Ranges of rows that have at most `limit` bytes decoded: whole segments, or rows of one. None: one has more."""
    ranges: list[tuple[int, int]] = []
    start = first = chars = 0
    for rows, nbytes in zip(reading.view["rows"].tolist(), reading.view["chars"].tolist(), strict=True):
        fits = (limit - nbytes - _SPARE) // 5 // ROW_BLOCK * ROW_BLOCK  # rows of 4 bytes for an offset, and a bit
        if fits <= 0 or nbytes > _PIECE_CHARS:
            return None
        together = chars + nbytes
        if start > first and (together + 5 * (start + rows - first) > limit - _SPARE or together > _PIECE_CHARS):
            ranges.append((first, start))
            first, together = start, nbytes
        if rows > fits:
            cut = range(start + fits, start + rows, fits)
            ranges += zip([first, *cut], [*cut, start + rows], strict=True)
            first, together = start + rows, 0
        start, chars = start + rows, together
    return [*ranges, (first, start)] if start > first else ranges


def gather(segments: Sequence[Segment], numbers: Numbers, *, lane: Lane, scratch_nbytes: int = 0) -> DeviceStrings:
    """Rows of strings by numbers that are on the GPU, by decoding pieces of the column. The GPU is waited for."""
    if not numbers.rows:
        return empty(lane)
    reading = reading_of(segments)
    pieces = _pieces(reading, _limit(reading, numbers.rows, scratch_nbytes))
    if pieces is None and reading.column.chars:  # a segment is larger, and its codec takes no rows one by one
        pieces = _pieces(reading, _ANY_LIMIT)
    if pieces is None:
        raise ValueError(f"a segment has more than the {_PIECE_CHARS} characters that are decoded at once")
    count, groups = numbers.rows, blocks(numbers.rows, launch.GATHER_ROWS)
    lengths = lane.allocate(4 * (count + 1))
    lane.zero(lengths.ptr, lengths.size)
    mask = new_mask(lane, count) if reading.column.masked else None
    if mask is not None:
        lane.zero(mask.ptr, mask.size)
    work = lane.allocate(8 * (_TOTALS + groups))
    totals, sums = int(work.ptr), int(work.ptr) + 8 * _TOTALS
    lane.zero(totals, 8 * _TOTALS)
    nulls = totals + 8 * (_TOTALS - 1)
    places = _places(numbers, pieces, lane)
    once = len(pieces) == 1
    there: _Part | None = None
    for piece, place in zip(pieces, places, strict=True):
        there = None  # before the next one is read
        there = _Part(segments, numbers, piece, place, lane, chars=once)
        there.launch("gather_lengths", 1, _u64(lengths.ptr), _u64(0 if mask is None else mask.ptr), _u64(nulls))
    if not once:
        there = None
    _launch("gather_sums", groups, (_u64(lengths.ptr), _u64(count), _u64(sums), _u64(totals)), lane)
    chars, longest, _, null_count = lane.read(totals, _TOTALS, _u64).tolist()
    wide = chars >= 2**31
    offsets = lane.allocate(8 * (count + 1)) if wide else lengths
    _launch("gather_offsets", groups, (_u64(lengths.ptr), _u64(count), _u64(sums), _u64(offsets.ptr), _u32(wide)), lane)
    del lengths
    out = lane.allocate(chars)
    # Rows in no order that several pieces have are copied row by row, unless some are long.
    by_rows = not once and not numbers.order and longest <= _SHARED_CHARS
    shares = 1 if by_rows else _shares(longest, groups)
    for piece, place in zip(pieces, places, strict=True):
        if not once:
            there = None
            there = _Part(segments, numbers, piece, place, lane)
        assert there is not None
        kernel = "gather_rows" if by_rows else "gather_chars"
        there.launch(kernel, shares, _u64(offsets.ptr), _u32(wide), _u64(out.ptr))
    if null_count == 0:
        mask = None
    return DeviceStrings(
        count,
        out.ptr,
        offsets.ptr,
        8 if wide else 4,
        0 if mask is None else mask.ptr,
        null_count=null_count,
        owners=(offsets, out, mask),
    )


def _launch(name: str, grid: int | tuple[int, ...], arguments: tuple[Any, ...], lane: Lane) -> None:
    lane.launch(get_kernel("text_gather", name), grid, launch.GATHER_ROWS, arguments)


class _Part:
    """A piece of a column, decoded, and the job of the kernels, uploaded. Without `chars` the characters are not there.

    `place`: which of the wanted rows may be in it.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        numbers: Numbers,
        piece: tuple[int, int],
        place: tuple[int, int],
        lane: Lane,
        *,
        chars: bool = True,
    ) -> None:
        start, stop = piece
        first = place[0] // launch.GATHER_ROWS
        self._lane, self._groups = lane, blocks(place[1], launch.GATHER_ROWS) - first if place[0] < place[1] else 0
        if not self._groups:
            return
        (self._read,) = (read,) = cuda_read.read(
            [segments], lane=lane, start=start, stop=stop, spare=_SPARE, chars=chars
        )
        wide, limit = read.offsets_itemsize == 8, read.chars_limit or 0
        job = launch.GatherRowsJob(
            *(numbers.address, numbers.nbytes, numbers.rows, numbers.validity, first),
            *(start, stop - start, read.offsets, wide, read.chars, limit, read.validity),
        )
        self._job = lane.allocate(8 * len(job))
        lane.send(self._job.ptr, array("Q", job))

    def launch(self, name: str, shares: int, *arguments: Any) -> None:
        """A kernel on groups of rows, some thread blocks each."""
        if self._groups:
            _launch(name, (self._groups, shares), (_u64(self._job.ptr), *arguments), self._lane)


def _places(numbers: Numbers, pieces: Sequence[tuple[int, int]], lane: Lane) -> list[tuple[int, int]]:
    """First and last (exclusive) place in `numbers` of the rows of each piece.

    Numbers in no order have all places for every piece. For those in order the GPU looks, and is waited for.
    """
    if not numbers.order or len(pieces) == 1:
        return [(0, numbers.rows)] * len(pieces)
    edges = np.array([start for start, _ in pieces] + [pieces[-1][1]], _u64)
    there = lane.allocate(2 * edges.nbytes)
    lane.upload(there.ptr, edges)
    places_at = there.ptr + edges.nbytes
    of = _u64(numbers.address), _u64(numbers.rows), _u32(numbers.order < 0)
    arguments = *of, _u64(there.ptr), _u32(edges.size), _u64(places_at)
    _launch("gather_edges", blocks(edges.size, launch.GATHER_ROWS), arguments, lane)
    places = lane.read(places_at, edges.size, np.int64).tolist()
    return [(min(a, b), max(a, b)) for a, b in pairwise(places)]


def _shares(longest: int, groups: int) -> int:
    """Thread blocks for each group of rows, of which one has so many characters."""
    enough = -(-4 * device_attributes()["multiprocessors"] // groups)
    return max(1, min(max(enough, longest // _SHARED_CHARS), longest // (8 * launch.GATHER_ROWS) + 1, 65535))
