"""Codes of dictionaries on the GPU, packed: of rows whose slots were kept at once, of others window by window."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from ...device.memory import Lane, Workspace
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..bitpack import cuda as bitpack
from ..cuda_kernels import get_kernel
from ..cuda_tables import Tables
from ..node import Parts, of_validity
from ..part import Packed
from ..values import cuda as fixed
from ..values.launch import DEFINES, FILL_BLOCK
from . import cuda_find, plan

#: Bytes for codes that are looked up at once, where there is no room for all: those of a whole piece of two bytes each.
_WINDOW_NBYTES = 32 << 20


def validity_task(one: cuda_find.Numbered) -> fixed.Task:
    """Which rows of a scope are not null."""
    validity, offset = one.scope.validity
    return fixed.Task(fixed.Source.bitmap(validity, offset, one.scope.rows), what=of_validity(one.scope.what))


def code_tasks(one: cuda_find.Numbered, address: int) -> list[fixed.Task]:
    """Codes of all rows of a scope, which lie at an address, as they are cut."""
    return [fixed.Task(source, choice=plan.CODES) for source in _sources(one, address, 0, one.scope.rows)]


def pack(made: Sequence[cuda_find.Numbered], lane: Lane, outbox: Outbox | None) -> Steps:
    """Validity and codes of scopes: those that are kept together, others piece by piece; a list of pairs of parts."""
    tasks: list[fixed.Task] = []
    owners: list[tuple[int, int]] = []
    buffers: list[Any] = []
    tables, jobs = Tables(), cuda_find.Jobs()
    results: list[list[Parts]] = [[(), ()] for _ in made]

    def keep(owners: Sequence[tuple[int, int]], parts: Sequence[Parts]) -> None:
        for (number, place), own in zip(owners, parts, strict=True):
            results[number][place] += own

    for number, one in enumerate(made):
        if one.null_count:
            tasks.append(validity_task(one))
            owners.append((number, 0))
        if one.kept:
            own = code_tasks(one, one.renumbered(jobs, buffers))
            tasks += own
            owners += [(number, 1)] * len(own)
    jobs.place(tables)
    tables.launch(lane)
    if tasks:
        keep(owners, (yield from fixed.compress(tasks, lane=lane, outbox=outbox)))
    buffers.clear()
    for one in made:
        if one.kept:
            one.release()
    for number, one in enumerate(made):
        if one.kept:
            continue
        for first in range(0, one.scope.rows, plan.PIECE_CODES):
            rows = min(plan.PIECE_CODES, one.scope.rows - first)
            part = yield from _pack_piece(one, first, rows, lane)
            keep([(number, 1)], [(part,) if outbox is None else tuple(outbox.send_parts([part], lane))])
        one.release()
    return [(validity, codes) for validity, codes in results]


def _pack_piece(one: cuda_find.Numbered, first: int, rows: int, lane: Lane) -> Generator[None, None, Packed]:
    """Codes of rows from `first` on, which are looked up as they are measured and as they are packed, window by window.

    What is looked up and measured is still there to be packed if it is one window.
    """
    itemsize, work = plan.itemsize(one.values), Workspace()
    step = _WINDOW_NBYTES // (itemsize * (2 if one.null_count else 1)) // FILL_BLOCK * FILL_BLOCK
    windows = [(start, min(step, rows - start)) for start in range(0, rows, step)]
    job = bitpack.Job(rows, itemsize, False, work)
    totals, room = work.reserve(24), work.reserve(min(step, rows) * itemsize)
    filled = work.reserve(min(step, rows) * itemsize if one.null_count else 0)
    with work:
        work.take(lane)
        job.place(work, work[totals])
        values = work[filled] if one.null_count else work[room]

        def look_up(tables: Tables, start: int, count: int) -> None:
            one.look_up(tables, first + start, count, work[room])
            if one.null_count:
                (source,) = _sources(one, work[room], first + start, count)
                grid, fields = source.gather(0, count, values)
                tables.add_jobs(get_kernel("values", "gather_values", DEFINES), bitpack.THREADS, [grid], fields)

        def add(tables: Tables, kernel: Any, work_of: tuple[int, tuple[int, ...]]) -> None:
            tables.add_jobs(kernel, bitpack.THREADS, [work_of[0]], work_of[1])

        tables = Tables()
        for start, count in windows:
            look_up(tables, start, count)
            add(tables, bitpack.measure_kernel(itemsize), job.measure(values, start, count))
        tables.add_jobs(bitpack.scan_kernel(), bitpack.SCAN_THREADS, [1], job.scan())
        tables.launch(lane)
        found = lane.fetch(work[totals], 3, np.uint64)
        yield
        job.measured(*found.tolist())
        meta, codes = lane.allocate(job.meta_nbytes), lane.allocate(job.codes_nbytes)
        tables = Tables()
        for start, count in windows:
            if len(windows) > 1:
                look_up(tables, start, count)
            add(tables, bitpack.pack_kernel(itemsize), job.pack(values, start, count, int(meta.ptr), int(codes.ptr)))
        tables.launch(lane)
        return job.packed(meta, codes)


def _sources(one: cuda_find.Numbered, address: int, first: int, rows: int) -> Iterator[fixed.Source]:
    """Codes of rows from `first` on, which lie at an address, as they are cut."""
    itemsize = one.itemsize
    validity, offset = one.scope.validity if one.null_count else (0, 0)
    for start in range(0, rows, plan.PIECE_CODES):
        count = min(plan.PIECE_CODES, rows - start)
        yield fixed.Source(address + start * itemsize, count, itemsize, None, validity, offset + first + start)
