"""Questions about rows of a column in GPU memory, answered on the codes where the codec of its segments does that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ...automata import NOT_PLAIN, UNDECIDED, YES, RowAutomaton
from ...device.memory import Lane, device_attributes
from . import search
from .cuda_kernels import get_kernel
from .cuda_reading import Reading
from .cuda_readings import reading_of
from .search import Plan, Sets, answer_dtype
from .segment import Segment, Segments

_u32, _u64 = np.uint32, np.uint64

#: Runs of segments of one codec in a column that is asked run by run.
_MOST_RUNS = 16


def match(segments: Sequence[Segment], plan: Plan, *, lane: Lane) -> tuple[Any, bool] | None:
    """Answers for all rows of a column.

    Parameters
    ----------
    segments
        Those of a `Segments` are looked at once for all calls.
    plan
    lane

    Returns
    -------
    (rmm.DeviceBuffer, bool) or None
        ``answer_dtype(plan.question)`` for each row, 0 for nulls; exactly as large. And whether that is the answer:
        else the rows found are candidates. None: decode.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states.
    """
    if not segments:
        return lane.allocate(0), True
    reading, kept = reading_of(segments), isinstance(segments, Segments)
    if reading.matcher is not None:
        return reading.matcher.match(reading, plan, kept=kept, lane=lane)
    if reading.matching is None:
        reading.matching = _runs(segments)
    runs: list[Reading] = reading.matching
    if not runs:
        return None
    answers, at, exact = lane.allocate(np.dtype(answer_dtype(plan.question)).itemsize * reading.column.rows), 0, True
    for run in runs:
        own = run.matcher.match(run, plan, kept=kept, lane=lane)
        if own is None:
            return None
        lane.copy(answers.ptr + at, own[0].ptr, own[0].size)
        at, exact = at + own[0].size, exact and own[1]
    return answers, exact


def _runs(segments: Sequence[Segment]) -> list[Reading]:
    """Segments next to each other that one codec answers for; none where they are many, or one does not answer."""
    runs = [reading_of(list(run)) for _, run in groupby(segments, key=lambda segment: segment.codec)]
    if len(runs) > _MOST_RUNS or any(run.matcher is None for run in runs):
        return []
    return [run for run in runs if run.column.rows]


def answer(segments: Sequence[Segment], machine: RowAutomaton, *, lane: Lane) -> tuple[Any, bool] | None:
    """What an automaton says of all rows of a column.

    Parameters
    ----------
    segments
        As in `match`.
    machine
    lane

    Returns
    -------
    (rmm.DeviceBuffer, bool) or None
        `automata.NO`, `YES` or `UNDECIDED` for each row, a byte each. Of nulls it means nothing. And whether it is
        known that none is undecided: of a column that is asked by an automaton that decides, the first such call
        waits for the GPU, and finds out that its rows are short enough for it. Most automata decide for rows of ASCII
        without a NUL; whether there are others, the first call finds out that wants to know. None: decode.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states.
    """
    if not segments:
        return lane.allocate(0), True
    reading = reading_of(segments)
    if reading.matcher is None:
        return None
    if (machine.sets or not machine.decides) and isinstance(segments, Segments) and _is_plain(reading, lane):
        # To search the codes as if rows had no ends takes half as long, and finds what has one length.
        found = _find_sets(reading, machine.sets, lane) if machine.sets else None
        if found is not None:
            return found
        machine = machine.of_plain_rows
    found = reading.matcher.answer(reading, machine, lane=lane)
    if found is None or not machine.decides or not isinstance(segments, Segments):
        return None if found is None else (found, False)
    if reading.short is None:
        reading.short = not undecided(found.ptr, reading.column.rows, lane=lane)
    return found, reading.short


def _find_sets(reading: Reading, sets: tuple[bytes, ...], lane: Lane) -> tuple[Any, bool] | None:
    plan = search.plan(Sets(sets))
    found: tuple[Any, bool] | None = None
    if plan is not None:
        found = reading.matcher.match(reading, plan, kept=True, lane=lane)
    return found


def _is_plain(reading: Reading, lane: Lane) -> bool:
    """Whether all bytes of a column are ASCII and none is NUL. The first time the GPU is waited for."""
    if reading.plain is None:
        found = _find_sets(reading, (NOT_PLAIN,), lane)
        reading.plain = found is not None and not _has(YES, found[0].ptr, reading.column.rows, lane)
    return reading.plain


def undecided(answers: int, rows: int, *, lane: Lane) -> bool:
    """Whether one of the answers at an address is `automata.UNDECIDED`. Waits for the GPU."""
    return bool(rows) and _has(UNDECIDED, answers, rows, lane)


def _has(answer: int, answers: int, rows: int, lane: Lane) -> bool:
    seen = lane.allocate(4)
    lane.zero(seen.ptr, 4)
    grid = min(-(-rows // 4096), 8 * device_attributes()["multiprocessors"])
    kernel = get_kernel("text_answers", "answers_have")
    lane.launch(kernel, grid, 256, (_u64(answers), _u64(rows), _u32(answer), _u64(seen.ptr)))
    return bool(lane.read(seen.ptr, 1, _u32)[0])
