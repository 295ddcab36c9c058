"""The GPU side of the FSST codec: same bytes as `cpu`, made and read on the device.

Compression runs in five stages (ADMS 2025), all in one workspace:

1. *tables*: sample gathered on the GPU, tables trained on CPU threads, uploaded;
2. *encode* a tile per lane, 3. *transpose* to tile order and 4. *gather* into blocks, in one kernel, ``fsst_encode``;
5. *compact*: ``fsst_compact`` into the exact-size result.

Two halves of the workspace, each with a stream, take turns: while the host waits for the size of one segment's codes
and the GPU compacts them, it encodes the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import CharactersUnderNulls, DeviceStrings
from ...device.kernels import kernel
from ...device.memory import Lane, Workspace, current_device, device_attributes, pinned, side_streams
from ...format import LEVELS, ROW_BLOCK, TILE_BLOCK, TILE_SIZES, SegmentLayout
from . import launch, plan
from .cpu import num_threads
from .segment import Segment
from .symbols import SymbolTable
from .train import train_table

_u32, _u64 = np.uint32, np.uint64
_SCAN_THREADS = 1024
_SLACK = 16  # a segment may be 1/16 longer than planned, for its last row, before it is encoded in two passes


@cache
def _kernel_on(device: int, file: str, name: str, tile_size: int) -> Any:
    # CuPy's kernel objects belong to the device that is current when they are asked for.
    shared_per_block = device_attributes()["shared_per_block"]
    if file == "fsst_encode":
        defines = launch.encode_defines(tile_size, shared_per_block)
    else:
        defines = launch.defines(tile_size) if tile_size else launch.DEFINES
    made = kernel(file, name, defines)
    if name in ("fsst_encode", "fsst_decode"):
        # Once, to the most there is: threads that launch with different amounts share the kernel.
        made.max_dynamic_shared_size_bytes = shared_per_block
    return made


def _kernel(file: str, name: str, tile_size: int = 0) -> Any:
    """A kernel for the current device; with a tile size, compiled for it."""
    return _kernel_on(current_device(), file, name, tile_size)


@cache
def _trainers() -> ThreadPoolExecutor:
    """Threads that train tables while the GPU encodes with earlier ones."""
    return ThreadPoolExecutor(num_threads(), "cudf_fsst-train")


def _train(sample: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]) -> SymbolTable:
    """Train, and make the encoder's lookup tables, which are cached."""
    table = train_table(*sample)
    launch.encode_tables(table)
    return table


def _blocks(count: int, per_block: int) -> int:
    return -(-count // per_block)


class _Compression:
    """One call of `compress`: its plan, its workspace, its stages. `sample_only`: one scope, and nothing is encoded."""

    def __init__(
        self,
        strings: DeviceStrings,
        table: SymbolTable | None,
        tile_size: int | str,
        lane: Lane,
        *,
        sample_only: bool = False,
    ) -> None:
        self.strings = strings
        self.lane = lane
        self.wide = _u32(strings.offsets_itemsize == 8)
        ends = pinned(2, f"<u{strings.offsets_itemsize}")
        itemsize = strings.offsets_itemsize
        lane.download(ends[:1], strings.offsets)
        lane.download(ends[1:], strings.offsets + strings.rows * itemsize)
        lane.synchronize()
        first, last = (int(end) for end in ends)
        self.chars = strings.chars + first
        self.chars_nbytes = last - first
        self.tile_size = plan.auto_tile_size(self.chars_nbytes) if tile_size == "auto" else int(tile_size)
        if self.tile_size not in TILE_SIZES:
            raise ValueError(f"tile_size must be one of {TILE_SIZES}, not {tile_size!r}")
        self.segment_size = plan.segment_size(self.chars_nbytes)
        self.planned = plan.segment_count(self.chars_nbytes)
        self.metas: list[Any] = []
        self.segments: list[Segment] = []
        self._reserve(table, sample_only)

    def _reserve(self, table: SymbolTable | None, sample_only: bool) -> None:
        """Lay out and take the workspace."""
        block_chars = self.tile_size * TILE_BLOCK
        wanted = min(self.chars_nbytes, self.segment_size + self.segment_size // _SLACK)
        self.capacity = max(_blocks(wanted, block_chars), 1) * block_chars
        self.halves = 0 if sample_only else 1 if self.planned == 1 else 2
        pieces = self.capacity // (self.tile_size * launch.PIECE_TILES)
        scopes = _blocks(self.planned, plan.segments_per_table(self.chars_nbytes))
        self.tables_limit = 1 if sample_only or table is not None else scopes
        self.sample_nbytes = 0 if table is not None else plan.SAMPLE_CHUNKS * plan.SAMPLE_CHUNK * self.tables_limit

        work = self.work = Workspace()
        self.slots = [work.reserve(self.capacity) for _ in range(self.halves)]
        self.piece_lengths = [work.reserve(4 * pieces) for _ in range(self.halves)]
        self.begins = work.reserve(8 * (3 * self.planned + 3))  # rows_begin, chars_begin, null counts, null characters
        self.totals = work.reserve(8 * self.planned)
        self.descriptors = work.reserve(launch.DESCRIPTOR.itemsize * self.planned)
        row_blocks = 0 if sample_only else _blocks(self.strings.rows, ROW_BLOCK) + self.planned
        self.row_words = work.reserve(4 * row_blocks)
        self.tables_at = work.reserve(launch.ENCODE_TABLES_NBYTES * self.tables_limit)
        chunks = plan.SAMPLE_CHUNKS * self.tables_limit
        self.chunk_bounds = work.reserve(16 * chunks)
        self.sample_at = work.reserve(self.sample_nbytes)
        work.take(self.lane)

    def cut(self) -> None:
        """Find the rows and characters of every segment, and its nulls."""
        strings, lane, work = self.strings, self.lane, self.work
        count = self.planned
        rows_begin, chars_begin = work[self.begins], work[self.begins + 8 * (count + 1)]
        nulls, null_chars = work[self.begins + 16 * (count + 1)], work[self.begins + 16 * (count + 1) + 8 * count]
        lane.zero(nulls, 8 * (count + 1))
        offsets = _u64(strings.offsets)
        lane.launch(
            _kernel("bitpack", "segment_begins"),
            _blocks(count + 1, 128),
            128,
            (
                offsets,
                self.wide,
                _u64(strings.rows),
                _u64(self.segment_size),
                _u32(count),
                _u64(rows_begin),
                _u64(chars_begin),
            ),
        )
        if strings.null_count:
            lane.launch(
                _kernel("bitpack", "count_nulls"),
                (min(_blocks(_blocks(strings.rows, count), 256), 1024), count),
                256,
                (
                    offsets,
                    self.wide,
                    _u64(strings.validity),
                    _u64(strings.validity_offset),
                    _u64(rows_begin),
                    _u64(nulls),
                    _u64(null_chars),
                ),
            )
        found = lane.read(rows_begin, 3 * count + 3, np.int64)
        if found[-1]:
            raise CharactersUnderNulls(f"{found[-1]} characters under nulls")
        rows, chars = found[: count + 1], found[count + 1 : 2 * count + 2]
        kept = np.flatnonzero(np.diff(rows))
        self.rows_begin, self.rows = rows[kept], np.diff(rows)[kept]
        self.chars_begin, self.chars_count = chars[kept], np.diff(chars)[kept]
        self.null_counts = found[2 * count + 2 : -1][kept]

    def sample(self, scopes: list[slice]) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """Stage 1, on the GPU: gather the samples of all scopes; characters and chunk starts of each."""
        lane, work = self.lane, self.work
        begins, ends, chunk = [], [], plan.SAMPLE_CHUNK
        for scope in scopes:
            start = int(self.chars_begin[scope][0])
            stop = int(self.chars_begin[scope][-1] + self.chars_count[scope][-1])
            starts, chunk = plan.sample_positions(start, stop - start)
            begins.append(starts)
            ends.append(np.minimum(starts + chunk, stop))
        bounds = np.concatenate([*begins, *ends])
        count = bounds.size // 2
        lane.upload(work[self.chunk_bounds], bounds)
        lane.launch(
            _kernel("fsst_take", "fsst_sample"),
            count,
            256,
            (
                _u64(self.chars),
                _u64(work[self.chunk_bounds]),
                _u64(work[self.chunk_bounds] + 8 * count),
                _u64(chunk),
                _u64(work[self.sample_at]),
            ),
        )
        gathered = lane.read(work[self.sample_at], count * chunk, np.uint8)
        samples = []
        for begin, end in zip(begins, ends, strict=True):
            # Only a scope's last chunk can be short, so its chunks are contiguous in the gathered array.
            nbytes = int((end - begin).sum())
            samples.append((gathered[:nbytes], chunk * np.arange(begin.size, dtype=np.int64)))
            gathered = gathered[chunk * begin.size :]
        return samples

    def train(self, table: SymbolTable | None) -> None:
        """Stage 1: start training one table for every scope of segments; `table_of` waits for it."""
        segments = self.rows.size
        if table is not None:
            self.per_table = segments
            self.trained: list[Any] = [table]
        else:
            self.per_table = plan.segments_per_table(self.chars_nbytes)
            scopes = [slice(i, min(i + self.per_table, segments)) for i in range(0, segments, self.per_table)]
            samples = self.sample(scopes)
            if len(samples) == 1:
                self.trained = [_train(samples[0])]
            else:
                self.trained = [_trainers().submit(_train, sample) for sample in samples]
        self.uploaded = 0

    def table_of(self, k: int) -> SymbolTable:
        """The table of segment `k`, uploaded when it is first asked for."""
        number = k // self.per_table
        table = self.trained[number]
        if isinstance(table, Future):
            table = self.trained[number] = table.result()
        if number == self.uploaded:
            self.lane.upload(self.table_place(k), launch.encode_tables(table))
            self.uploaded += 1
            for half in self.half_lanes:
                half.follow(self.lane)
        return table

    def table_place(self, k: int) -> int:
        return self.work[self.tables_at + launch.ENCODE_TABLES_NBYTES * (k // self.per_table)]

    def measure_rows(self) -> None:
        """Start measuring how many words every segment's packed row lengths take."""
        self.view = np.zeros(self.rows.size, launch.DESCRIPTOR)
        self.view["rows"], self.view["chars"] = self.rows, self.chars_count
        self.view["first_row"] = self.rows_begin
        row_blocks = -(-self.rows // ROW_BLOCK)
        self.view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
        self.row_blocks = int(row_blocks.sum())
        lane, work = self.lane, self.work
        lane.upload(work[self.descriptors], self.view)
        lane.launch(
            _kernel("bitpack", "row_lengths_measure"),
            _blocks(self.row_blocks, launch.ROW_UNITS),
            launch.ROW_THREADS,
            (*self._row_arguments(), _u64(work[self.row_words])),
        )
        lane.launch(
            _kernel("bitpack", "row_lengths_scan"),
            self.rows.size,
            _SCAN_THREADS,
            (_u64(work[self.descriptors]), _u64(work[self.row_words]), _u64(work[self.totals])),
        )
        self.words = pinned(self.rows.size, np.int64)
        lane.download(self.words, work[self.totals])
        self.words_ready = lane.event()

    def _row_arguments(self) -> tuple[Any, ...]:
        return (
            _u64(self.strings.offsets),
            self.wide,
            _u64(self.work[self.descriptors]),
            _u32(self.rows.size),
            _u64(self.row_blocks),
        )

    def pack_rows(self) -> None:
        """Allocate every segment's ``meta`` and write row lengths and validity into it."""
        lane, strings = self.lane, self.strings
        self.words_ready.synchronize()
        self.layouts = []
        for k in range(self.rows.size):
            layout = SegmentLayout(
                int(self.rows[k]),
                int(self.chars_count[k]),
                self.tile_size,
                bool(self.null_counts[k]),
                int(self.words[k]),
            )
            meta = lane.allocate(layout.meta_nbytes)
            self.layouts.append(layout)
            self.metas.append(meta)
            lane.zero(meta.ptr, layout.meta_nbytes)
            for name in ("row_starts", "row_minima", "row_words", "row_bits"):
                self.view[k][name] = meta.ptr + layout.sections[name].offset
            if layout.has_nulls:
                lane.launch(
                    _kernel("bitpack", "copy_bits"),
                    _blocks(layout.rows, 32 * 256),
                    256,
                    (
                        _u64(strings.validity),
                        _u64(strings.validity_offset + int(self.rows_begin[k])),
                        _u64(layout.rows),
                        _u64(meta.ptr + layout.sections["validity"].offset),
                    ),
                )
        lane.upload(self.work[self.descriptors], self.view)
        lane.launch(
            _kernel("bitpack", "row_lengths_pack"),
            _blocks(self.row_blocks, launch.ROW_UNITS),
            launch.ROW_THREADS,
            (*self._row_arguments(), _u64(self.work[self.row_words])),
        )

    def encode_wave(self, k: int, tile_begin: int) -> int:
        """Stages 2 to 4 for as many tiles from `tile_begin` on as a half holds; returns their number."""
        layout, meta, work, half = self.layouts[k], self.metas[k].ptr, self.work, k % self.halves
        tiles = min(layout.tiles - tile_begin, self.capacity // self.tile_size)
        pieces = _blocks(tiles, launch.PIECE_TILES)
        attributes = device_attributes()
        shape = launch.encode_shape(self.tile_size, attributes["shared_per_block"])
        table = self.table_of(k)
        self.half_lanes[half].launch(
            _kernel("fsst_encode", "fsst_encode", self.tile_size),
            min(attributes["multiprocessors"], _blocks(pieces, shape.threads // 32)),
            shape.threads,
            (
                _u64(self.chars + int(self.chars_begin[k])),
                _u64(layout.chars),
                _u64(tile_begin),
                _u64(tiles),
                _u64(self.table_place(k)),
                _u32(table.two_byte_limit),
                _u64(work[self.slots[half]]),
                _u64(work[self.piece_lengths[half]]),
                _u64(work[self.totals] + 8 * k),
                _u64(meta + layout.sections["tile_lengths"].offset),
            ),
            shape.shared,
        )
        return tiles

    def compact_wave(self, k: int, tile_begin: int, before: int, codes: Any) -> None:
        """Stage 5: the wave's codes to their places, `before` bytes behind the start of the segment's codes."""
        layout, meta, work, half = self.layouts[k], self.metas[k].ptr, self.work, k % self.halves
        tiles = min(layout.tiles - tile_begin, self.capacity // self.tile_size)
        pieces = _blocks(tiles, launch.PIECE_TILES)
        block_starts = meta + layout.sections["block_starts"].offset + 8 * (tile_begin // TILE_BLOCK)
        self.half_lanes[half].launch(
            _kernel("fsst_encode", "fsst_compact", self.tile_size),
            _blocks(pieces, 8),
            256,
            (
                _u64(work[self.slots[half]]),
                _u64(work[self.piece_lengths[half]]),
                _u64(pieces),
                _u64(before),
                _u64(block_starts),
                _u64(codes.ptr),
            ),
        )

    def encode(self) -> list[Segment]:
        """Stages 2 to 5 for all segments.

        Each half of the workspace has a stream of its own, so that the compaction of one segment, and the last pieces
        of its encoding, run beside the encoding of the next.
        """
        self.lane.zero(self.work[self.totals], 8 * self.rows.size)
        sizes = pinned(self.rows.size, np.int64)
        waiting: tuple[int, Any] | None = None
        with ExitStack() as stack:
            if self.halves == 1:
                self.half_lanes = [self.lane]
            else:
                self.half_lanes = [stack.enter_context(Lane(stream)) for stream in side_streams(self.halves)]
            for half in self.half_lanes:
                half.follow(self.lane)
            for k in range(self.rows.size):
                if self.layouts[k].chars > self.capacity:
                    self._finish(waiting, sizes)
                    waiting = None
                    self._encode_long(k, sizes)
                    continue
                lane = self.half_lanes[k % self.halves]
                self.encode_wave(k, 0)
                lane.download(sizes[k : k + 1], self.work[self.totals] + 8 * k)
                ready = lane.event()
                self._finish(waiting, sizes)
                waiting = (k, ready)
            self._finish(waiting, sizes)
        return self.segments

    def drop(self) -> None:
        """Let go of what has been made, whoever still holds this object (a traceback, say)."""
        self.metas.clear()
        self.segments.clear()

    def _finish(self, wave: tuple[int, Any] | None, sizes: npt.NDArray[np.int64]) -> None:
        if wave is None:
            return
        k, ready = wave
        ready.synchronize()
        codes = self.half_lanes[k % self.halves].allocate(int(sizes[k]))
        self.compact_wave(k, 0, 0, codes)
        self.segments.append(self._segment(k, codes))

    def _encode_long(self, k: int, sizes: npt.NDArray[np.int64]) -> None:
        """A segment longer than a half (a giant row): once for its size, once more to keep the codes."""
        lane = self.half_lanes[k % self.halves]
        waves = []  # first tile, bytes before it
        tile = 0
        sizes[k] = 0
        while tile < self.layouts[k].tiles:
            waves.append((tile, int(sizes[k])))
            tile += self.encode_wave(k, tile)
            lane.download(sizes[k : k + 1], self.work[self.totals] + 8 * k)
            lane.synchronize()
        codes = lane.allocate(int(sizes[k]))
        for tile, before in waves:
            self.encode_wave(k, tile)
            self.compact_wave(k, tile, before, codes)
        self.segments.append(self._segment(k, codes))

    def _segment(self, k: int, codes: Any) -> Segment:
        return Segment(self.layouts[k], int(self.null_counts[k]), self.table_of(k), self.metas[k], codes, codes.size)


def compress(
    strings: DeviceStrings,
    *,
    table: SymbolTable | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
) -> list[Segment]:
    """Compress a column in GPU memory.

    Parameters
    ----------
    strings
        Read in place.
    table
        Symbol table for all segments; None trains one for every scope (docs/format.md, section 7).
    tile_size
        One of `cudf_fsst.format.TILE_SIZES`, or ``"auto"``.
    level
        ``"default"``, the only one so far.
    stream
        CUDA stream to work on; None: cuDF's default stream.

    Returns
    -------
    list of Segment
        In GPU memory, stream-ordered. Empty for zero rows.

    Raises
    ------
    CharactersUnderNulls
        Null rows have characters.
    MemoryError
        From RMM; nothing is kept.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    if strings.rows == 0:
        return []
    with Lane(stream) as lane:
        call = _Compression(strings, table, tile_size, lane)
        try:
            call.cut()
            call.measure_rows()
            call.train(table)
            call.pack_rows()
            return call.encode()
        except BaseException:
            call.drop()
            raise
        finally:
            call.work.release()


def train(strings: DeviceStrings, *, stream: Any = None) -> SymbolTable:
    """Train one table on a whole column.

    Raises
    ------
    CharactersUnderNulls
        Null rows have characters.
    """
    if strings.rows == 0:  # such a column may have no offsets
        return train_table(np.empty(0, np.uint8), np.empty(0, np.int64))
    with Lane(stream) as lane:
        call = _Compression(strings, None, "auto", lane, sample_only=True)
        try:
            call.cut()
            return _train(call.sample([slice(0, call.rows.size)])[0])
        finally:
            call.work.release()


class _Selection:
    """Descriptors and decode tables of segments, uploaded together: the small workspace of a reading call."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.view = np.zeros(len(segments), launch.DESCRIPTOR)
        tables = list(dict.fromkeys(segment.table for segment in segments))
        self.tables = np.concatenate([launch.decode_table(table) for table in tables])
        table_of = {table: launch.DECODE_TABLE_NBYTES * i for i, table in enumerate(tables)}
        for segment, into in zip(segments, self.view, strict=True):
            launch.describe(segment, segment.meta.ptr, segment.codes.ptr, into)
            into["table"] = table_of[segment.table]
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


def _empty(lane: Lane) -> DeviceStrings:
    offsets, chars = lane.allocate(4), lane.allocate(0)
    lane.zero(offsets.ptr, 4)
    return DeviceStrings(0, chars.ptr, offsets.ptr, 4, owners=(offsets, chars, None))


def _read(selection: _Selection, lane: Lane) -> DeviceStrings:
    """Read the rows ``row_begin:row_end`` and characters ``char_begin:char_end`` of every segment."""
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
        shape = launch.decode_shape(
            1 << shift,
            launch.decode_codes_capacity(1 << shift, int(view["codes_nbytes"][chosen].sum()), tiles),
            attributes["shared_per_block"],
            attributes["shared_per_multiprocessor"],
        )
        block_chars = TILE_BLOCK << shift
        first = view["char_begin"][chosen] // block_chars * block_chars
        units = -(-(view["char_end"][chosen] - first).astype(np.int64) // (shape.threads << shift))
        launches.append((shift, shape, chosen, units))
    row_blocks = -(-view["row_end"].astype(np.int64) // ROW_BLOCK) - (view["row_begin"] // ROW_BLOCK).astype(np.int64)
    view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
    for _, _, chosen, units in launches:
        view["first_unit"][chosen] = np.cumsum(units) - units
    one_size = len(launches) == 1 and launches[0][2].size == view.size
    if not one_size:
        return _read_mixed(selection, lane, launches, total_rows, total_chars, int(row_blocks.sum()))
    selection.upload(lane)
    result = _allocate(lane, selection, total_rows, total_chars)
    _decode(lane, selection.arguments, launches[0], result)
    _read_rows(lane, selection, result, total_rows, total_chars, int(row_blocks.sum()))
    return result


def _read_mixed(
    selection: _Selection, lane: Lane, launches: list[Any], total_rows: int, total_chars: int, row_blocks: int
) -> DeviceStrings:
    """As `_read`, where segments have no characters or several tile sizes: one descriptor array a launch."""
    whole = selection.view
    parts = [whole[chosen] for _, _, chosen, _ in launches]
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
    lane: Lane, arguments: tuple[Any, Any], one: tuple[int, launch.Shape, Any, Any], result: DeviceStrings
) -> None:
    shift, shape, _, units = one
    lane.launch(
        _kernel("fsst_decode", "fsst_decode", 1 << shift),
        int(units.sum()),
        shape.threads,
        (*arguments, _u32(shape.codes_capacity), _u64(result.chars)),
        shape.shared,
    )


def _read_rows(
    lane: Lane, selection: _Selection, result: DeviceStrings, total_rows: int, total_chars: int, row_blocks: int
) -> None:
    """Offsets and validity of `_read`'s result."""
    lane.launch(
        _kernel("bitpack", "row_lengths_unpack"),
        _blocks(row_blocks, launch.ROW_UNITS),
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
            _kernel("bitpack", "gather_validity"),
            _blocks(total_rows, 32 * 256),
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
            places = _locate(lane, selection, edges).reshape(2, 4)
            view = selection.view
            view["row_begin"][0] = start - skipped
            view["char_begin"][0] = places[0, 1]
            view["row_end"][-1] = stop - skipped - int(view["first_row"][-1])
            view["char_end"][-1] = places[1, 1] + places[1, 2]
            if len(view) == 1 and view["char_end"][0] < view["char_begin"][0]:
                raise ValueError(f"damaged row lengths: rows {start} to {stop} end before they begin")
            view["table"] -= np.uint64(selection.buffer.ptr)
            return _read(selection, lane)


def _locate(lane: Lane, selection: _Selection, rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Places of a few rows, on the host."""
    buffer = lane.allocate(rows.nbytes * 5)
    lane.upload(buffer.ptr, rows)
    _launch_locate(lane, selection, buffer.ptr, rows.size, buffer.ptr + rows.nbytes)
    return lane.read(buffer.ptr + rows.nbytes, 4 * rows.size, np.uint64)


def _launch_locate(lane: Lane, selection: _Selection, rows: int, count: int, places: int) -> None:
    lane.launch(
        _kernel("bitpack", "locate_rows"),
        _blocks(count, 256),
        256,
        (*selection.arguments, _u64(rows), _u64(count), _u64(places)),
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
            columns = cupy.asarray(_Array(places, count * 4)).reshape(count, 4)
            ends = cupy.cumsum(columns[:, 2:], axis=0, dtype=cupy.int64).T.copy()  # characters, tiles
            total_chars, total_items = (int(value) for value in ends[:, -1].get())
            result = _allocate(lane, selection, count, total_chars)
            dtype = cupy.int32 if result.offsets_itemsize == 4 else cupy.int64
            offsets = cupy.asarray(_Array(result.owners[0], count + 1, f"<i{result.offsets_itemsize}"))
            offsets[0] = 0
            offsets[1:] = ends[0].astype(dtype, copy=False)
            lane.launch(
                _kernel("fsst_take", "fsst_take"),
                _blocks(total_items, 256),
                256,
                (
                    selection.arguments[0],
                    _u64(places.ptr),
                    _u64(ends[1].data.ptr),
                    _u64(ends[0].data.ptr),
                    _u64(count),
                    _u64(total_items),
                    _u64(result.chars),
                ),
            )
            if result.validity:
                nulls = lane.allocate(8)
                lane.zero(nulls.ptr, 8)
                lane.launch(
                    _kernel("bitpack", "take_validity"),
                    _blocks(count, 256),
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


def to_host(segments: Sequence[Segment], *, stream: Any = None) -> list[Segment]:
    """Copy segments to pinned host memory."""
    with Lane(stream) as lane:
        moved = []
        for segment in segments:
            meta, codes = pinned(segment.meta.size, np.uint8), pinned(segment.codes.size, np.uint8)
            lane.download(meta, segment.meta.ptr)
            lane.download(codes, segment.codes.ptr)
            moved.append(Segment(segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes))
        lane.synchronize()
        return moved


def to_device(segments: Sequence[Segment], *, stream: Any = None) -> list[Segment]:
    """Copy segments from host memory to the current device."""
    with Lane(stream) as lane:
        moved = []
        for segment in segments:
            meta, codes = lane.allocate(segment.meta.size), lane.allocate(segment.codes.size)
            lane.upload(meta.ptr, np.ascontiguousarray(segment.meta))
            lane.upload(codes.ptr, np.ascontiguousarray(segment.codes))
            moved.append(Segment(segment.layout, segment.null_count, segment.table, meta, codes, segment.codes_nbytes))
        lane.synchronize()
        return moved
