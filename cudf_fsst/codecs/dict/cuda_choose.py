"""Which scopes of strings in GPU memory may have a dictionary: where they begin, and their samples."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device.memory import Lane, Workspace
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..text import plan as text_plan
from ..text.cuda_room import Room
from . import launch, plan
from .cuda import find_kernel

_WORD = 8
#: Numbers that are found of a scope: rows of the sample that are not null, different hashes, characters of the scope.
_COUNTS = 3
_SET_NBYTES = 2 * launch.SAMPLE_ROWS * _WORD
#: Samples that are looked at together.
_TOGETHER = 64
#: Words that the kernels read of a job, or more.
_JOB_WORDS = 10


class SampledColumn(NamedTuple):
    """A column that may have dictionaries; `named`: the user wants them; `chars`: of ``text.cuda_task.chars_of``."""

    strings: DeviceStrings
    named: bool
    chars: int


class SampledScope(NamedTuple):
    """A scope: its first row, rows, characters, and of its sample the rows that are not null and different hashes."""

    first: int
    rows: int
    chars: int
    sampled: int = 0
    different: int = 0


class _Cuts(NamedTuple):
    """How a column is cut: segments at most, those of a scope, and addresses of their first rows and of its end."""

    segments: int
    per_scope: int
    rows_at: int

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Segments that scopes begin and end with, as if none were without rows."""
        return list(pairwise([*range(0, self.segments, self.per_scope), self.segments]))

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield, for each scope, where the GPU finds its first row and the row behind its last: two addresses."""
        for begin, end in self.edges:
            yield self.rows_at + _WORD * begin, self.rows_at + _WORD * end

    def scopes(
        self, rows: Sequence[int], chars: Sequence[int], counts: Sequence[int]
    ) -> tuple[list[SampledScope], bool]:
        """The scopes, by first rows and characters of segments; whether the samples' `counts` are theirs."""
        segments = [k for k in range(self.segments) if rows[k] < rows[k + 1]]
        if len(segments) < self.segments:
            ends = [*(segments[k] for k in range(0, len(segments), self.per_scope)), self.segments]
            return [SampledScope(rows[a], rows[b] - rows[a], chars[b] - chars[a]) for a, b in pairwise(ends)], False
        return [
            SampledScope(rows[a], rows[b] - rows[a], chars[b] - chars[a], *counts[_COUNTS * k : _COUNTS * k + 2])
            for k, (a, b) in enumerate(self.edges)
        ], True


class _Sampling:
    """Samples of scopes, `most` of them, which are counted by `launch` and known after a wait."""

    def __init__(self, work: Workspace, limit: int) -> None:
        self._work, self._together = work, min(limit, _TOGETHER)
        self._counts_nbytes = _COUNTS * _WORD * limit
        self._zeros = work.reserve(self._counts_nbytes + _SET_NBYTES * self._together)
        #: Of each scope `_COUNTS` numbers.
        self.counts: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def clear(self, lane: Lane) -> None:
        """Set counters and sets of hashes to zero."""
        if self._together:
            lane.zero(self._work[self._zeros], self._counts_nbytes + _SET_NBYTES * self._together)

    def launch(
        self, scopes: Sequence[tuple[DeviceStrings, tuple[int, int]]], lane: Lane, tables: JobTables, tables_at: int
    ) -> None:
        """Count distinct hashes of samples. `tables`: jobs to launch before; `tables_at`: memory for them."""
        counts_at = self._work[self._zeros]
        sets_at = counts_at + self._counts_nbytes
        for start in range(0, len(scopes), self._together or 1):
            batch = scopes[start : start + self._together]
            if start:
                lane.zero(sets_at, _SET_NBYTES * len(batch))
                tables = JobTables()
            fields: list[int] = []
            for k, (strings, edges) in enumerate(batch):
                validity = strings.validity if strings.null_count else 0
                wide, count_at = strings.offsets_itemsize == 8, counts_at + _COUNTS * _WORD * (start + k)
                source = strings.chars, strings.offsets, wide, validity, strings.validity_offset
                fields += launch.SampleJob(*source, *edges, sets_at + _SET_NBYTES * k, count_at)
            grid = launch.SAMPLE_ROWS // launch.FIND_THREADS
            tables.add_jobs(find_kernel("dict_sample"), launch.FIND_THREADS, [grid] * len(batch), fields)
            tables.launch(lane, tables_at)
        if not scopes:
            tables.launch(lane, tables_at)
        self.counts = lane.fetch(counts_at, _COUNTS * len(scopes), np.int64)


def scopes(columns: Sequence[SampledColumn], lane: Lane) -> Generator[None, None, list[list[SampledScope]]]:
    """The scopes of columns of at least one row (docs/format.md, section 7).

    Of columns that `named` dictionaries nothing is sampled.
    """
    segments = [text_plan.segment_count(column.chars) for column in columns]
    segments_per_scope = [text_plan.segments_per_table(column.chars) for column in columns]
    sampled = [
        0 if column.named else blocks(*two) for column, *two in zip(columns, segments, segments_per_scope, strict=True)
    ]
    with Workspace() as work:
        sampling = _Sampling(work, sum(sampled))
        # Of all columns rows at which segments begin, then the characters before them.
        begins_at = work.reserve(2 * _WORD * sum(count + 1 for count in segments))
        tables_at = work.reserve(_WORD * _JOB_WORDS * (len(columns) + sum(sampled)))
        work.take(lane)
        sampling.clear(lane)
        cuts, begin_at = [], work[begins_at]
        for count, per_scope in zip(segments, segments_per_scope, strict=True):
            cuts.append(_Cuts(count, per_scope, begin_at))
            begin_at += 2 * _WORD * (count + 1)
        tables = JobTables()
        _find_begins(columns, cuts, tables)
        samples = [
            (column.strings, edges)
            for column, cut in zip(columns, cuts, strict=True)
            if not column.named
            for edges in cut.places()
        ]
        sampling.launch(samples, lane, tables, work[tables_at])
        begins = lane.fetch(work[begins_at], (begin_at - work[begins_at]) // _WORD, np.int64)
        yield
        numbers, counts, first = begins.tolist(), sampling.counts.tolist(), 0
        scopes_of: list[list[SampledScope]] = []
        resampled: list[int] = []
        for i, (column, cut) in enumerate(zip(columns, cuts, strict=True)):
            rows, chars = numbers[first : first + cut.segments + 1], numbers[first + cut.segments + 1 :]
            first += 2 * (cut.segments + 1)
            of_column, is_sampled = cut.scopes(rows, chars, [0] * _COUNTS * cut.segments if column.named else counts)
            counts = counts[_COUNTS * sampled[i] :]
            scopes_of.append(of_column)
            if not (is_sampled or column.named):
                resampled.append(i)
        if resampled:
            yield from _sample_again(columns, scopes_of, resampled, lane)
        return scopes_of


class Samples:
    """Samples of columns of one scope each, which are under way; the columns are looked at in the order given."""

    def __init__(self, columns: Sequence[DeviceStrings], lane: Lane) -> None:
        self._columns = columns
        with Workspace() as work:
            self._sampling = _Sampling(work, len(columns))
            tables_at = work.reserve(_WORD * _JOB_WORDS * len(columns))
            work.take(lane)
            self._sampling.clear(lane)
            samples = [(strings, (0, strings.rows)) for strings in columns]
            self._sampling.launch(samples, lane, JobTables(), work[tables_at])
        self._event = lane.event()

    def scopes(self) -> list[SampledScope]:
        """The only scope of each column; waits for the samples, and for nothing behind them."""
        self._event.synchronize()
        counts = self._sampling.counts.reshape(-1, _COUNTS).tolist()
        return [
            SampledScope(0, strings.rows, chars, sampled, different)
            for strings, (sampled, different, chars) in zip(self._columns, counts, strict=True)
        ]


class RoundSamples:
    """Samples of the scopes of columns, counted while the codec of text looks at all their rows, with its wait.

    Looked at by themselves they cost a wait more: of l_comment on an H200, 1 MB takes 0.50 ms instead of 0.39, 100,000
    rows 0.49 instead of 0.41, 100 MB 0.67 instead of 0.56.

    Parameters
    ----------
    columns : sequence of (int, DeviceStrings, int)
        Each with its number among the tasks of text, and its characters.
    """

    def __init__(self, columns: Sequence[tuple[int, DeviceStrings, int]]) -> None:
        self._columns = {number: strings for number, strings, _ in columns}
        self._scopes = sum(
            blocks(text_plan.segment_count(chars), text_plan.segments_per_table(chars)) for *_, chars in columns
        )
        self._found: list[tuple[int, _Cuts]] = []

    def reserve(self, work: Workspace) -> None:
        """Ask for room, in the round's own workspace: what is taken later is ready only behind all of its work."""
        self._sampling = _Sampling(work, self._scopes)
        self._tables_at = work.reserve(_WORD * _JOB_WORDS * self._scopes)

    def launch(self, room: Room) -> None:
        """Launch the sampling, beside what the round has in the lane; nothing where the round lacks a column."""
        if len(room.columns) < len(self._columns):
            return
        samples = [
            (self._columns[column.number], edges)
            for column, places in zip(room.columns, room.count_places, strict=True)
            for edges in _Cuts(column.segments, column.per_table, room.number(places.rows_begin)).places()
        ]
        lane = room.side[-1] if len(room.side) > 1 else room.lane  # in the first tables are trained
        self._sampling.clear(lane)
        self._sampling.launch(samples, lane, JobTables(), room.work[self._tables_at])
        self._found = [
            (column.number, _Cuts(column.segments, column.per_table, places.rows_begin))
            for column, places in zip(room.columns, room.count_places, strict=True)
        ]
        room.lane.follow(lane)

    def scopes(self, numbers: Sequence[int]) -> dict[int, list[SampledScope]] | None:
        """After the wait: the scopes of columns, of none if none may have a dictionary. None: they are not known.

        `numbers`: what the round has found.
        """
        if not self._found:
            return None
        counts = self._sampling.counts.tolist()
        # Numbers of each: first rows of segments and their end, then as many of characters.
        begins = [numbers[cuts.rows_at : cuts.rows_at + 2 * (cuts.segments + 1)] for _, cuts in self._found]
        if not any(map(plan.repeats, counts[::_COUNTS], counts[1::_COUNTS])) and all(
            row < following
            for (_, cuts), begins_of_column in zip(self._found, begins, strict=True)
            for row, following in pairwise(begins_of_column[: cuts.segments + 1])
        ):
            return {}
        scopes: dict[int, list[SampledScope]] = {}
        for (number, cuts), begins_of_column in zip(self._found, begins, strict=True):
            scopes[number], is_sampled = cuts.scopes(begins_of_column, begins_of_column[cuts.segments + 1 :], counts)
            if not is_sampled:
                return None
            counts = counts[_COUNTS * len(scopes[number]) :]
        return scopes


def _find_begins(columns: Sequence[SampledColumn], cuts: Sequence[_Cuts], tables: JobTables) -> None:
    grids, fields = list[int](), list[int]()
    for (strings, _, nbytes), cut in zip(columns, cuts, strict=True):
        wide, size, count = strings.offsets_itemsize == 8, text_plan.segment_size(nbytes), cut.segments + 1
        places = cut.rows_at, cut.rows_at + _WORD * count
        fields += launch.BeginsJob(strings.offsets, wide, strings.rows, size, count, *places)
        grids.append(blocks(count, launch.FIND_THREADS // 32))
    tables.add_jobs(find_kernel("dict_begins"), launch.FIND_THREADS, grids, fields)


def _sample_again(
    columns: Sequence[SampledColumn], scopes_of: list[list[SampledScope]], numbers: Sequence[int], lane: Lane
) -> Generator[None, None, None]:
    """Sample the scopes of columns some of whose segments have no rows."""
    scopes = [(i, k) for i in numbers for k in range(len(scopes_of[i]))]
    ends = [(scopes_of[i][k].first, scopes_of[i][k].first + scopes_of[i][k].rows) for i, k in scopes]
    words = np.array(ends, np.int64)
    with Workspace() as work:
        sampling = _Sampling(work, len(scopes))
        place, tables_at = work.reserve(words.nbytes), work.reserve(_WORD * _JOB_WORDS * len(scopes))
        work.take(lane)
        sampling.clear(lane)
        lane.upload(work[place], words)
        edges = [(work[place] + 2 * _WORD * n, work[place] + 2 * _WORD * n + _WORD) for n in range(len(scopes))]
        samples = [(columns[i].strings, ends_at) for (i, _), ends_at in zip(scopes, edges, strict=True)]
        sampling.launch(samples, lane, JobTables(), work[tables_at])
        yield
        for (i, k), counts in zip(scopes, sampling.counts.reshape(-1, _COUNTS).tolist(), strict=True):
            scopes_of[i][k] = scopes_of[i][k]._replace(sampled=counts[0], different=counts[1])
