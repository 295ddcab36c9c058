"""Compression on the GPU: same bytes as `cpu`.

It runs in five stages (ADMS 2025), all in one workspace:

1. *tables*: ``fsst_train`` trains those of all scopes, and makes the encoder's lookup tables (level ``"max"``: samples
   gathered on the GPU, tables trained on CPU threads, uploaded);
2. *encode* a tile per lane, 3. *transpose* to tile order and 4. *gather* into blocks, in one kernel, ``fsst_encode``
   (level ``"max"``: ``fsst_encode_max``);
5. *compact*: ``fsst_compact`` into the exact-size result.

The workspace has two slots for the codes of a segment, each with a stream, which take turns: while the host
waits for the size of one segment's codes and the GPU compacts them, it encodes the next. Tables are trained in a side
stream as well, beside the work on row lengths.

The host waits for the ends of the characters, for the cut into segments with the size of their row lengths, and for the
size of every segment's codes; not for the tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...buffers import CharactersUnderNulls, DeviceStrings
from ...device.memory import Lane, Workspace, device_attributes, pinned, side_streams
from ...device.transfer import Outbox
from . import launch, plan
from .cpu import num_threads
from .cuda_kernels import blocks, choices, get_kernel
from .layout import LEVELS, ROW_BLOCK, TILE_BLOCK, TILE_SIZES, SegmentLayout
from .segment import Segment
from .symbols import SymbolTable
from .train import train_table
from .train_max import train_table_max

_u32, _u64 = np.uint32, np.uint64
_SCAN_THREADS = 1024
_SLACK = 32  # a segment may be 1/32 longer than planned, for its last row, before it is encoded in two passes
# Segments whose codes have room in the workspace. With plan.segment_size they keep the memory rule: at most 64 MiB or
# an eighth of the input. TPC-H l_comment on an H200, stages 2 to 5: 2 segments of 1/16 of the column 667 GB/s, of 1/20
# 623, of 1/28 570; 3 of 1/28 606 (3 of 1/20 672, but they break the rule); 1 of 1/12 537.
_SLOTS = 2


class _Compression:
    """One call of `compress`: its plan, its workspace, its stages. `train_only`: one scope, and nothing is encoded."""

    def __init__(
        self,
        strings: DeviceStrings,
        table: SymbolTable | None,
        tile_size: int | str,
        level: str,
        lane: Lane,
        *,
        train_only: bool = False,
        outbox: Outbox | None = None,
    ) -> None:
        self.strings = strings
        self.outbox = outbox
        self.level = level
        #: Where tables come from: "given", trained on the "gpu", or (level max) trained on the "cpu".
        self.source = "given" if table is not None else "cpu" if level == "max" else "gpu"
        self.tables = [] if table is None else [table]  # on the GPU's way until `table_of` is asked
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
        self.choices = choices(self.tile_size)  # once: what one stage leaves behind, the next has to find
        self.segment_size = plan.segment_size(self.chars_nbytes)
        self.planned = plan.segment_count(self.chars_nbytes)
        self.metas: list[Any] = []
        self.layouts: list[SegmentLayout] = []
        self.codes: dict[int, Any] = {}
        self.packed = False
        self.train_only = train_only
        self._reserve()

    def _reserve(self) -> None:
        """Lay out and take the workspace."""
        block_chars = self.tile_size * TILE_BLOCK
        wanted = min(self.chars_nbytes, self.segment_size + self.segment_size // _SLACK)
        self.capacity = max(blocks(wanted, block_chars), 1) * block_chars
        self.slot_count = 0 if self.train_only else 1 if self.planned == 1 else _SLOTS
        pieces = self.capacity // (self.tile_size * launch.PIECE_TILES)
        one_table = self.train_only or self.source == "given"
        self.per_table = self.planned if one_table else plan.segments_per_table(self.chars_nbytes)
        scopes = self.scopes = blocks(self.planned, self.per_table)
        on_gpu = scopes if self.source == "gpu" else 0
        chunks = scopes * plan.SAMPLE_CHUNKS[self.level] if self.source == "cpu" else 0
        self.tables_nbytes = launch.MAX_TABLES_NBYTES if self.level == "max" else launch.ENCODE_TABLES_NBYTES
        self.side_count = self.slot_count if self.slot_count > 1 else min(on_gpu, 1)

        work = self.work = Workspace()
        self.slots = [work.reserve(self.capacity) for _ in range(self.slot_count)]
        self.piece_lengths = [work.reserve(4 * pieces) for _ in range(self.slot_count)]
        self.begins = work.reserve(8 * (3 * self.planned + 3))  # rows_begin, chars_begin, null counts, null characters
        self.totals = work.reserve(8 * self.planned)
        self.descriptors = work.reserve(launch.DESCRIPTOR.itemsize * self.planned)
        row_blocks = 0 if self.train_only else blocks(self.strings.rows, ROW_BLOCK) + self.planned
        self.row_words = work.reserve(4 * row_blocks)
        self.tables_at = work.reserve(0 if self.train_only and not on_gpu else self.tables_nbytes * scopes)
        self.chunk_bounds = work.reserve(16 * chunks)
        self.sample_at = work.reserve(plan.SAMPLE_CHUNK * chunks)
        self.exported_at = work.reserve(launch.TRAINED_TABLE.itemsize * on_gpu)
        self.pair_counts = work.reserve(launch.TRAIN_COUNTS_NBYTES * on_gpu)
        shared_per_block = device_attributes()["shared_per_block"]
        self.pairs_mixed = launch.pairs_in_shared(self.tile_size, shared_per_block)
        self.places = launch.train_places(shared_per_block)
        self.train_scratch = work.reserve(self.places.scratch * on_gpu)
        work.take(self.lane)

    @contextmanager
    def side_lanes(self) -> Iterator[None]:
        """The other streams of the call: each slot has one (if there are several), and the first trains before that."""
        with ExitStack() as stack:
            self.side = [stack.enter_context(Lane(stream)) for stream in side_streams(self.side_count)]
            self.slot_lanes = self.side if self.slot_count > 1 else [self.lane]
            yield
            for side in self.side:
                self.lane.follow(side)  # the caller orders further work by this stream

    def cut(self) -> None:
        """Start to find the rows and characters of every segment."""
        strings, count = self.strings, self.planned
        self.rows_begin_at, self.chars_begin_at = self.work[self.begins], self.work[self.begins + 8 * (count + 1)]
        self.lane.launch(
            get_kernel("row_lengths", "segment_begins"),
            blocks(count + 1, 128),
            128,
            (
                _u64(strings.offsets),
                self.wide,
                _u64(strings.rows),
                _u64(self.segment_size),
                _u32(count),
                _u64(self.rows_begin_at),
                _u64(self.chars_begin_at),
            ),
        )

    def measure_rows(self) -> None:
        """Start measuring how many words every segment's packed row lengths take: the GPU knows the cut already."""
        lane, work = self.lane, self.work
        self.row_blocks = self.strings.rows // ROW_BLOCK + self.planned  # see first_row_block in row_lengths.cu
        lane.launch(
            get_kernel("row_lengths", "row_lengths_measure"),
            launch.row_grid(self.row_blocks, device_attributes()["multiprocessors"]),
            launch.ROW_THREADS,
            (
                _u64(self.strings.offsets),
                self.wide,
                _u64(self.rows_begin_at),
                _u32(self.planned),
                _u64(self.row_blocks),
                _u64(work[self.row_words]),
            ),
        )
        lane.launch(
            get_kernel("row_lengths", "row_lengths_scan"),
            self.planned,
            _SCAN_THREADS,
            (_u64(self.rows_begin_at), _u64(work[self.row_words]), _u64(work[self.totals])),
        )

    def read_cut(self) -> None:
        """Wait for the rows, characters and words of every segment, and count its nulls."""
        strings, lane, count = self.strings, self.lane, self.planned
        words = pinned(count, np.int64)
        if self.train_only:
            words[:] = 0
        else:
            lane.download(words, self.work[self.totals])
        if count == 1 and not strings.null_count:
            found = np.array([0, strings.rows, 0, self.chars_nbytes, 0, 0], np.int64)
        else:
            nulls = self.chars_begin_at + 8 * (count + 1)
            lane.zero(nulls, 8 * (count + 1))
            self._count_nulls(nulls)
            found = pinned(3 * count + 3, np.int64)
            lane.download(found, self.rows_begin_at)
        lane.synchronize()
        if found[-1]:
            raise CharactersUnderNulls(f"{found[-1]} characters under nulls")
        rows, chars = found[: count + 1], found[count + 1 : 2 * count + 2]
        kept = np.flatnonzero(np.diff(rows))
        self.rows_begin, self.rows = rows[kept], np.diff(rows)[kept]
        self.chars_begin, self.chars_count = chars[kept], np.diff(chars)[kept]
        self.null_counts = found[2 * count + 2 : -1][kept]
        self.words = words[kept]
        self.first_row_blocks = self.rows_begin // ROW_BLOCK + kept

    def _count_nulls(self, nulls: int) -> None:
        """Every segment's nulls to the address `nulls`, and behind them the characters of all nulls."""
        strings, lane, count = self.strings, self.lane, self.planned
        if strings.null_count:
            lane.launch(
                get_kernel("row_lengths", "count_nulls"),
                (min(blocks(blocks(strings.rows, count), 256), 1024), count),
                256,
                (
                    _u64(strings.offsets),
                    self.wide,
                    _u64(strings.validity),
                    _u64(strings.validity_offset),
                    _u64(self.rows_begin_at),
                    _u64(nulls),
                    _u64(nulls + 8 * count),
                ),
            )

    def make_tables(self) -> None:
        """Cut into segments; stage 1 for every table scope, beside the start of the work on row lengths."""
        self.cut()
        if self.source == "gpu":
            self.train_on_gpu()
        if not self.train_only:
            self.measure_rows()
        self.read_cut()
        if self.source == "cpu":
            self.train_on_cpu()

    def train_on_gpu(self) -> None:
        """Stage 1: start training one table for every scope of segments."""
        work = self.work
        lane = self.side[0]
        lane.follow(self.lane)
        lane.zero(work[self.pair_counts], launch.TRAIN_COUNTS_NBYTES * self.scopes)
        lane.launch(
            get_kernel("fsst_train", "fsst_train"),
            self.scopes,
            launch.TRAIN_THREADS,
            (
                _u64(self.chars),
                _u64(self.rows_begin_at),
                _u64(self.chars_begin_at),
                _u32(self.planned),
                _u32(self.per_table),
                _u64(work[self.pair_counts]),
                _u64(work[self.train_scratch]),
                _u64(work[self.tables_at]),
                _u64(work[self.exported_at]),
                _u32(self.pairs_mixed),
            ),
            self.places.shared,
        )
        self.exported = pinned(self.scopes, launch.TRAINED_TABLE)
        lane.download(self.exported, work[self.exported_at])
        self.trained = lane.event()

    def train_on_cpu(self) -> None:
        """Stage 1 of level ``"max"``: the same, in threads of the CPU."""
        segments = self.rows.size
        scopes = [slice(i, min(i + self.per_table, segments)) for i in range(0, segments, self.per_table)]
        with ThreadPoolExecutor(num_threads(), "cudf_fsst-train") as threads:
            self.tables = list(threads.map(lambda sample: train_table_max(*sample), self._samples(scopes)))

    def _samples(self, scopes: list[slice]) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """Gather the samples of all scopes; characters and chunk starts of each."""
        lane, work = self.lane, self.work
        begins, ends, chunk = [], [], plan.SAMPLE_CHUNK
        for scope in scopes:
            start = int(self.chars_begin[scope][0])
            stop = int(self.chars_begin[scope][-1] + self.chars_count[scope][-1])
            starts, chunk = plan.sample_positions(start, stop - start, self.level)
            begins.append(starts)
            ends.append(np.minimum(starts + chunk, stop))
        bounds = np.concatenate([*begins, *ends])
        count = bounds.size // 2
        lane.upload(work[self.chunk_bounds], bounds)
        lane.launch(
            get_kernel("fsst_take", "fsst_sample"),
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

    def upload_tables(self) -> None:
        """Upload what the encoder looks up, of tables that the GPU has not made itself."""
        self.made_nbytes = []
        for i, table in enumerate(self.tables):
            made = launch.max_tables(table) if self.level == "max" else launch.encode_tables(table, self.pairs_mixed)
            self.lane.upload(self.work[self.tables_at + self.tables_nbytes * i], made)
            self.made_nbytes.append(made.nbytes)

    def table_of(self, k: int) -> SymbolTable:
        """The table of segment `k`; waits for the training."""
        if not self.tables:
            self.trained.synchronize()
            self.tables = [launch.trained_table(exported) for exported in self.exported]
        return self.tables[k // self.per_table]

    def table_place(self, k: int) -> int:
        return self.work[self.tables_at + self.tables_nbytes * (k // self.per_table)]

    def lay_out_next(self) -> None:
        """Allocate the ``meta`` of the next segment."""
        k = len(self.layouts)
        layout = SegmentLayout(
            int(self.rows[k]),
            int(self.chars_count[k]),
            self.tile_size,
            bool(self.null_counts[k]),
            int(self.words[k]),
        )
        meta = self.lane.allocate(layout.meta_nbytes)
        self.layouts.append(layout)
        self.metas.append(meta)
        self.lane.zero(meta.ptr, layout.meta_nbytes)
        self.slot_lanes[k % self.slot_count].follow(self.lane)

    def pack_rows(self) -> None:
        """Lay out what is not yet, and write row lengths and validity of all segments."""
        lane, strings, view = self.lane, self.strings, np.zeros(self.rows.size, launch.DESCRIPTOR)
        while len(self.layouts) < self.rows.size:
            self.lay_out_next()
        view["rows"], view["chars"] = self.rows, self.chars_count
        view["first_row"], view["first_row_block"] = self.rows_begin, self.first_row_blocks
        metas = np.array([meta.ptr for meta in self.metas], np.uint64)
        for name in ("row_starts", "row_minima", "row_words", "row_bits"):
            offsets = [layout.sections[name].offset for layout in self.layouts]
            view[name] = metas + np.array(offsets, np.uint64)
        for k, layout in enumerate(self.layouts):
            if layout.has_nulls:
                lane.launch(
                    get_kernel("row_lengths", "copy_bits"),
                    blocks(layout.rows, 32 * 256),
                    256,
                    (
                        _u64(strings.validity),
                        _u64(strings.validity_offset + int(self.rows_begin[k])),
                        _u64(layout.rows),
                        _u64(int(metas[k]) + layout.sections["validity"].offset),
                    ),
                )
        lane.upload(self.work[self.descriptors], view)
        lane.launch(
            get_kernel("row_lengths", "row_lengths_pack"),
            launch.row_grid(self.row_blocks, device_attributes()["multiprocessors"]),
            launch.ROW_THREADS,
            (
                _u64(strings.offsets),
                self.wide,
                _u64(self.work[self.descriptors]),
                _u32(self.rows.size),
                _u64(self.row_blocks),
                _u64(self.work[self.row_words]),
            ),
        )
        self.packed = True

    def encode_wave(self, k: int, tile_begin: int) -> tuple[int, Callable[[], None]]:
        """Stages 2 to 4 for as many tiles from `tile_begin` on as a slot holds: their number, and what launches it."""
        layout, meta, work, slot = self.layouts[k], self.metas[k].ptr, self.work, k % self.slot_count
        tiles = min(layout.tiles - tile_begin, self.capacity // self.tile_size)
        pieces = blocks(tiles, launch.PIECE_TILES)
        attributes = device_attributes()
        shared_per_block, chosen = attributes["shared_per_block"], self.choices
        grid = attributes["multiprocessors"]
        arguments: tuple[Any, ...] = ()
        if self.level == "max":
            kernel = get_kernel("fsst_encode_max", "fsst_encode_max", self.tile_size)
            nbytes = self.made_nbytes[k // self.per_table]
            threads, shared, staged = launch.encode_max_shape(self.tile_size, shared_per_block, nbytes)
            arguments = (_u32(staged),)
        else:
            kernel = get_kernel("fsst_encode", "fsst_encode", self.tile_size, chosen.encode_warps)
            threads, shared, *_ = launch.encode_shape(self.tile_size, shared_per_block, chosen.encode_warps)
            grid = max(1, round(chosen.encode_blocks * grid))
        arguments = (
            _u64(self.chars + int(self.chars_begin[k])),
            _u64(layout.chars),
            _u64(tile_begin),
            _u64(tiles),
            _u64(self.table_place(k)),
            *arguments,
            _u64(work[self.slots[slot]]),
            _u64(work[self.piece_lengths[slot]]),
            _u64(work[self.totals] + 8 * k),
            _u64(meta + layout.sections["tile_lengths"].offset),
        )
        grid = min(grid, blocks(pieces, threads // 32))
        return tiles, partial(self.slot_lanes[slot].launch, kernel, grid, threads, arguments, shared)

    def compact_wave(self, k: int, tile_begin: int, before: int) -> Callable[[Any], None]:
        """Stage 5: what launches, with a buffer of codes, that the wave's codes get to their places in it.

        `before`: bytes of the segment's earlier waves.
        """
        layout, meta, work, slot = self.layouts[k], self.metas[k].ptr, self.work, k % self.slot_count
        tiles = min(layout.tiles - tile_begin, self.capacity // self.tile_size)
        pieces = blocks(tiles, launch.PIECE_TILES)
        kernel = get_kernel("fsst_encode", "fsst_compact", self.tile_size, self.choices.encode_warps)
        grid = blocks(pieces, launch.COMPACT_PIECES)
        arguments = (
            _u64(work[self.slots[slot]]),
            _u64(work[self.piece_lengths[slot]]),
            _u64(pieces),
            _u64(before),
            _u64(meta + layout.sections["block_starts"].offset + 8 * (tile_begin // TILE_BLOCK)),
        )
        return lambda codes: self.slot_lanes[slot].launch(kernel, grid, 256, (*arguments, _u64(codes.ptr)))

    def encode(self) -> list[Segment]:
        """Stages 2 to 5 for all segments.

        Each slot of the workspace has a stream of its own, so that the compaction of one segment, and the last pieces
        of its encoding, run beside the encoding of the next. What the host does between two segments is what the GPU
        may have to wait for, so it makes launches ready before, segments after, and all else while it would only wait.
        """
        count = self.rows.size
        self.lane.zero(self.work[self.totals], 8 * count)
        sizes = self.sizes = pinned(count, np.int64)
        if not self.layouts:
            self.lay_out_next()
        for slot_lane in self.slot_lanes:
            slot_lane.follow(self.lane)
            if self.side:
                slot_lane.follow(self.side[0])  # the tables
        short = self.chars_count <= self.capacity
        run = self.encode_wave(0, 0)[1] if short[0] else None
        under_way: deque[tuple[int, Any, Callable[[Any], None]]] = deque()  # segment, its event, its compaction
        for k in range(count):
            if run is not None:
                run()
                lane = self.slot_lanes[k % self.slot_count]
                lane.download(sizes[k : k + 1], self.work[self.totals] + 8 * k)
                under_way.append((k, lane.event(), self.compact_wave(k, 0, 0)))
            if len(self.layouts) < min(k + 2, count):
                self.lay_out_next()
            next_run = self.encode_wave(k + 1, 0)[1] if k + 1 < count and short[k + 1] else None
            while len(under_way) >= (self.slot_count if run is not None else 1):
                self._finish(*under_way.popleft())
            if run is None:
                self._encode_long(k)
            run = next_run
        for unfinished in under_way:
            self._finish(*unfinished)
        if not self.packed:
            self.pack_rows()
        if self.outbox is not None:
            for slot_lane in self.slot_lanes:
                self.lane.follow(slot_lane)
            self.metas = [self.outbox.send(meta, self.lane) for meta in self.metas]
        return [
            Segment(layout, int(self.null_counts[k]), self.table_of(k), self.metas[k], self.codes[k], int(sizes[k]))
            for k, layout in enumerate(self.layouts)
        ]

    def _finish(self, k: int, ready: Any, compact: Callable[[Any], None]) -> None:
        """Wait for the size of a segment's codes, and start to compact them."""
        self._while_the_gpu_works(ready)
        ready.synchronize()
        lane = self.slot_lanes[k % self.slot_count]
        self.codes[k] = lane.allocate(int(self.sizes[k]))
        compact(self.codes[k])
        if self.outbox is not None:
            self.codes[k] = self.outbox.send(self.codes[k], lane)

    def _while_the_gpu_works(self, ready: Any) -> None:
        """Until `ready`: what the host has to do at some time."""
        while not ready.done:
            if not self.tables and self.trained.done:
                self.table_of(0)
            elif len(self.layouts) < self.rows.size:
                self.lay_out_next()
            elif not self.packed:
                self.pack_rows()
            elif not self.tables:
                self.table_of(0)  # waits for the training; the GPU encodes then
            else:
                break

    def _encode_long(self, k: int) -> None:
        """A segment longer than a slot (a giant row): once for its size, once more to keep the codes."""
        lane, sizes = self.slot_lanes[k % self.slot_count], self.sizes
        waves = []  # first tile, bytes before it
        tile = 0
        sizes[k] = 0
        while tile < self.layouts[k].tiles:
            waves.append((tile, int(sizes[k])))
            tiles, run = self.encode_wave(k, tile)
            run()
            tile += tiles
            lane.download(sizes[k : k + 1], self.work[self.totals] + 8 * k)
            lane.synchronize()
        self.codes[k] = lane.allocate(int(sizes[k]))
        for tile, before in waves:
            self.encode_wave(k, tile)[1]()
            self.compact_wave(k, tile, before)(self.codes[k])
        if self.outbox is not None:
            self.codes[k] = self.outbox.send(self.codes[k], lane)

    def drop(self) -> None:
        """Let go of what has been made, whoever still holds this object (a traceback, say)."""
        self.metas.clear()
        self.codes.clear()


def compress(
    strings: DeviceStrings,
    *,
    table: SymbolTable | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
    outbox: Outbox | None = None,
) -> list[Segment]:
    """Compress a column in GPU memory.

    Parameters
    ----------
    strings
        Read in place.
    table
        Symbol table for all segments; None trains one for every scope (docs/format.md, section 7).
    tile_size
        One of `cudf_fsst.codecs.fsst.layout.TILE_SIZES`, or ``"auto"``.
    level
        One of `cudf_fsst.codecs.fsst.layout.LEVELS`.
    stream
        CUDA stream to work on; None: cuDF's default stream.
    outbox
        Where every segment goes as soon as it is made; it is in host memory then, when the outbox is closed.

    Returns
    -------
    list of Segment
        In GPU memory, stream-ordered; or where `outbox` brings it. Empty for zero rows.

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
        call = _Compression(strings, table, tile_size, level, lane, outbox=outbox)
        try:
            with call.side_lanes():
                call.make_tables()
                if call.source != "gpu":
                    call.upload_tables()
                return call.encode()
        except BaseException:
            call.drop()
            raise
        finally:
            call.work.release()


def train(strings: DeviceStrings, *, level: str = "default", stream: Any = None) -> SymbolTable:
    """Train one table on a whole column.

    Raises
    ------
    ValueError
        An unknown level.
    CharactersUnderNulls
        Null rows have characters.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    if strings.rows == 0:  # such a column may have no offsets
        return train_table(np.empty(0, np.uint8), np.empty(0, np.int64))
    with Lane(stream) as lane:
        call = _Compression(strings, None, "auto", level, lane, train_only=True)
        try:
            with call.side_lanes():
                call.make_tables()
                return call.table_of(0)
        finally:
            call.work.release()
