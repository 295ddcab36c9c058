"""Codes of dictionaries on the GPU, packed: of rows whose slots were kept at once, of others window by window."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ...device.memory import Lane, Workspace
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..bitpack import cuda as bitpack
from ..cuda_tables import JobTables
from ..node import Parts, of_validity
from ..part import Packed
from ..values import cuda as fixed
from ..values.cuda_batch import gather_kernel
from ..values.launch import FILL_BLOCK
from . import cuda_find, plan

#: Bytes for codes that are looked up at once, where there is no room for all: those of a whole piece of two bytes each.
_WINDOW_NBYTES = 32 << 20
#: Bytes that measuring a piece takes beside them.
_PIECE_NBYTES = 1 << 20


class CodedRows(Protocol):
    """Rows whose codes are looked up where they are needed, and not held."""

    @property
    def rows(self) -> int: ...

    @property
    def null_count(self) -> int: ...

    @property
    def itemsize(self) -> int:
        """Bytes of a code."""

    @property
    def validity(self) -> tuple[int, int]:
        """Address of a bitmap, the bit of the first row; 0: no nulls."""

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows, now or when `tables` are launched; those of null rows mean nothing."""


def validity_task(numbering: cuda_find.Numbered) -> fixed.StreamTask:
    """The task that compresses a scope's validity, a bitmap."""
    validity, offset = numbering.validity
    return fixed.StreamTask(
        fixed.StreamSource.bitmap(validity, offset, numbering.rows), what=of_validity(numbering.scope.what)
    )


def code_tasks(coded: CodedRows, address: int) -> list[fixed.StreamTask]:
    """The tasks that compress a scope's codes, which lie at an address: one for each piece of rows."""
    return [fixed.StreamTask(source, choice=plan.CODES) for source in _sources(coded, address, 0, coded.rows)]


def pack(
    numberings: Sequence[cuda_find.Numbered], lane: Lane, outbox: Outbox | None, *, scratch_nbytes: int = 0
) -> Steps:
    """Validity and codes of scopes: those that are kept together, others piece by piece.

    Parameters
    ----------
    numberings
        Their memory is given back.
    lane
        Waited for at each yield.
    outbox
        Where parts go as soon as they are made.
    scratch_nbytes
        Bytes that may be used for pieces.

    Returns
    -------
    list of (Parts, Parts)
    """
    tasks: list[fixed.StreamTask] = []
    owners: list[tuple[int, int]] = []
    buffers: list[Any] = []
    tables, jobs = JobTables(), cuda_find.Jobs()
    results: list[list[Parts]] = [[(), ()] for _ in numberings]

    def collect(owners: Sequence[tuple[int, int]], parts: Sequence[Parts]) -> None:
        for (number, place), streams in zip(owners, parts, strict=True):
            results[number][place] += streams

    for number, numbering in enumerate(numberings):
        if numbering.null_count:
            tasks.append(validity_task(numbering))
            owners.append((number, 0))
        if numbering.keeps_codes:
            streams = code_tasks(numbering, numbering.codes(jobs, buffers))
            tasks += streams
            owners += [(number, 1)] * len(streams)
    jobs.place(tables)
    tables.launch(lane)
    if tasks:
        collect(owners, (yield from fixed.compress(tasks, lane=lane, outbox=outbox)))
    buffers.clear()
    for numbering in numberings:
        if numbering.keeps_codes:
            numbering.release()
    for number, numbering in enumerate(numberings):
        if numbering.keeps_codes:
            continue
        for part in (yield from pack_pieces(numbering, scratch_nbytes, lane)):
            collect([(number, 1)], [(part,) if outbox is None else tuple(outbox.send_parts([part], lane))])
        numbering.release()
    return [(validity, codes) for validity, codes in results]


class _CodedPiece:
    """Codes of rows from `first` on, which are looked up as they are measured and as they are packed, window by window.

    What is looked up and measured is still there to be packed if it is one window.
    """

    def __init__(self, coded: CodedRows, first: int, rows: int, lane: Lane) -> None:
        self._coded, self._first, self._lane = coded, first, lane
        itemsize, step = coded.itemsize, _step(coded)
        self._windows = [(start, min(step, rows - start)) for start in range(0, rows, step)]
        work = self._work = Workspace()
        self._job = bitpack.BitpackJob(rows, itemsize, False, work)
        totals, window = work.reserve(24), work.reserve(min(step, rows) * itemsize)
        filled = work.reserve(min(step, rows) * itemsize if coded.null_count else 0)
        work.take(lane)
        self._window, self._values = work[window], work[filled] if coded.null_count else work[window]
        self._job.place(work, work[totals])
        tables = JobTables()
        for start, count in self._windows:
            tables.launch(lane)
            tables = JobTables()
            self._look_up(tables, start, count)
            self._add(tables, bitpack.measure_kernel(itemsize), self._job.measure(self._values, start, count))
        tables.add_jobs(bitpack.scan_kernel(), bitpack.SCAN_THREADS, [1], self._job.scan())
        tables.launch(lane)
        self._totals = lane.fetch(work[totals], 3, np.uint64)
        self._measured = lane.event()

    def _look_up(self, tables: JobTables, start: int, count: int) -> None:
        coded, first = self._coded, self._first + start
        coded.look_up(tables, first, count, self._window)
        if coded.null_count:
            (source,) = _sources(coded, self._window, first, count)
            grid, fields = source.gather(0, count, self._values)
            tables.add_jobs(gather_kernel(), bitpack.THREADS, [grid], fields)

    def _add(self, tables: JobTables, kernel: Any, work_of: tuple[int, tuple[int, ...]]) -> None:
        tables.add_jobs(kernel, bitpack.THREADS, [work_of[0]], work_of[1])

    def packed(self) -> Packed:
        """Wait until it is measured, and pack it."""
        self._measured.synchronize()
        job, lane, tables = self._job, self._lane, JobTables()
        job.measured(*self._totals.tolist())
        meta, codes = lane.allocate(job.meta_nbytes), lane.allocate(job.codes_nbytes)
        for start, count in self._windows:
            if len(self._windows) > 1:
                tables.launch(lane)
                tables = JobTables()
                self._look_up(tables, start, count)
            to = int(meta.ptr), int(codes.ptr)
            self._add(tables, bitpack.pack_kernel(self._coded.itemsize), job.pack(self._values, start, count, *to))
        tables.launch(lane)
        return job.packed(meta, codes)

    def release(self) -> None:
        """Give the memory back."""
        self._work.release()


def _step(coded: CodedRows) -> int:
    """Rows of a window."""
    return _WINDOW_NBYTES // (coded.itemsize * (2 if coded.null_count else 1)) // FILL_BLOCK * FILL_BLOCK


def pack_pieces(coded: CodedRows, scratch_nbytes: int, lane: Lane) -> Generator[None, None, list[Packed]]:
    """Codes of a scope, a piece at a time; two where there is room, so that the GPU works while the host waits."""
    pieces: deque[_CodedPiece] = deque()
    parts: list[Packed] = []
    limit = 2 if scratch_nbytes >= 2 * (_WINDOW_NBYTES + _PIECE_NBYTES) else 1

    def pack_first() -> None:
        piece = pieces.popleft()
        try:
            parts.append(piece.packed())
        finally:
            piece.release()

    try:
        for first in range(0, coded.rows, plan.PIECE_CODES):
            pieces.append(_CodedPiece(coded, first, min(plan.PIECE_CODES, coded.rows - first), lane))
            if len(pieces) == limit:
                if not parts:
                    yield  # for others, whose work is beside it
                pack_first()
        while pieces:
            if not parts:
                yield
            pack_first()
        return parts
    finally:
        for piece in pieces:
            piece.release()


def _sources(coded: CodedRows, address: int, first: int, rows: int) -> Iterator[fixed.StreamSource]:
    """Codes of rows from `first` on, which lie at an address, as they are cut."""
    itemsize = coded.itemsize
    validity, offset = coded.validity if coded.null_count else (0, 0)
    for start in range(0, rows, plan.PIECE_CODES):
        count = min(plan.PIECE_CODES, rows - start)
        yield fixed.StreamSource(address + start * itemsize, count, itemsize, None, validity, offset + first + start)
