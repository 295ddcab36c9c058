"""Which scopes of strings in GPU memory may have a dictionary: where they begin, and their samples."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...buffers import DeviceStrings
from ...device.memory import Lane, Workspace, pinned
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Tables
from ..fsst import plan as fsst_plan
from . import launch

_WORD = 8
_SET_NBYTES = 2 * launch.SAMPLE_ROWS * _WORD
#: Samples that are looked at together.
_TOGETHER = 64


class Wished(NamedTuple):
    """A column that may have dictionaries; `named`: the user wants them; `chars`: of ``fsst.cuda_room.chars_of``."""

    strings: DeviceStrings
    named: bool
    chars: int


class Found(NamedTuple):
    """A scope: its first row, rows, characters, and of its sample the rows that are not null and different hashes."""

    first: int
    rows: int
    chars: int
    sampled: int = 0
    different: int = 0


def scopes(columns: Sequence[Wished], lane: Lane) -> Generator[None, None, list[list[Found]]]:
    """The scopes of columns of at least one row (docs/format.md, section 7).

    Of columns that `named` dictionaries nothing is sampled.
    """
    chars = [column.chars for column in columns]
    counts = [fsst_plan.segment_count(one) for one in chars]
    with Workspace() as work:
        # Rows at which segments begin, and the characters before them.
        begins_at = [work.reserve(2 * _WORD * (count + 1)) for count in counts]
        work.take(lane)
        begins = [work[offset] for offset in begins_at]
        _find_begins(columns, chars, counts, begins, lane)
        downloaded = []
        for count, address in zip(counts, begins, strict=True):
            downloaded.append(pinned(2 * (count + 1), np.int64))
            lane.download(downloaded[-1], address)
        # As if no segment were without rows, which is seen below.
        edges = [
            list(pairwise([*range(0, count, fsst_plan.segments_per_table(nbytes)), count]))
            for nbytes, count in zip(chars, counts, strict=True)
        ]
        places = [
            [] if column.named else [(address + _WORD * a, address + _WORD * b) for a, b in of_column]
            for column, of_column, address in zip(columns, edges, begins, strict=True)
        ]
        samples = yield from _sample(columns, places, lane)
        found, again = [], []
        for i, (column, nbytes, count) in enumerate(zip(columns, chars, counts, strict=True)):
            rows, starts = downloaded[i][: count + 1].tolist(), downloaded[i][count + 1 :].tolist()
            segments = [k for k in range(count) if rows[k] < rows[k + 1]]
            each = fsst_plan.segments_per_table(nbytes)
            ends = [*(segments[k] for k in range(0, len(segments), each)), count]
            own = [Found(rows[a], rows[b] - rows[a], starts[b] - starts[a]) for a, b in pairwise(ends)]
            sampled = dict(zip([(rows[a], rows[b] - rows[a]) for a, b in edges[i]], samples[i], strict=False))
            if all((one.first, one.rows) in sampled for one in own):
                own = [Found(*one[:3], *sampled[one.first, one.rows]) for one in own]
            elif not column.named:
                again.append(i)
            found.append(own)
        if again:
            yield from _sample_again(columns, found, again, lane)
        return found


def _kernel(name: str) -> Any:
    return get_kernel("dict_find", name, launch.FIND_DEFINES)


def _find_begins(
    columns: Sequence[Wished], chars: Sequence[int], counts: Sequence[int], begins: Sequence[int], lane: Lane
) -> None:
    tables, grids, fields = Tables(), [], []
    for (strings, *_), nbytes, count, address in zip(columns, chars, counts, begins, strict=True):
        wide, size = strings.offsets_itemsize == 8, fsst_plan.segment_size(nbytes)
        fields += [strings.offsets, wide, strings.rows, size, count + 1, address, address + _WORD * (count + 1)]
        grids.append(blocks(count + 1, launch.FIND_THREADS // 32))
    tables.add_jobs(_kernel("dict_begins"), launch.FIND_THREADS, grids, fields)
    tables.launch(lane)


def _sample(
    columns: Sequence[Wished], edges: Sequence[Sequence[tuple[int, int]]], lane: Lane
) -> Generator[None, None, list[list[tuple[int, int]]]]:
    """Of every column, of every scope: rows of the sample that are not null, and different hashes.

    `edges`: addresses of the numbers of its first row, and of the one behind its last.
    """
    flat = [(i, *ends) for i, of_column in enumerate(edges) for ends in of_column]
    found = pinned(2 * max(len(flat), 1), np.int64)
    together = min(len(flat), _TOGETHER)
    with Workspace() as work:
        counts_at = work.reserve(2 * _WORD * len(flat))
        sets_at = work.reserve(_SET_NBYTES * together)
        if flat:
            work.take(lane)
            lane.zero(work[counts_at], 2 * _WORD * len(flat))
        for start in range(0, len(flat), _TOGETHER):
            some = flat[start : start + _TOGETHER]
            lane.zero(work[sets_at], _SET_NBYTES * len(some))
            tables, fields = Tables(), []
            for k, (i, begin, end) in enumerate(some):
                strings = columns[i].strings
                validity = strings.validity if strings.null_count else 0
                fields += [strings.chars, strings.offsets, strings.offsets_itemsize == 8, validity]
                fields += [strings.validity_offset, begin, end, work[sets_at] + _SET_NBYTES * k]
                fields.append(work[counts_at] + 2 * _WORD * (start + k))
            grid = launch.SAMPLE_ROWS // launch.FIND_THREADS
            tables.add_jobs(_kernel("dict_sample"), launch.FIND_THREADS, [grid] * len(some), fields)
            tables.launch(lane)
        if flat:
            lane.download(found[: 2 * len(flat)], work[counts_at])
        yield
    results: list[list[tuple[int, int]]] = [[] for _ in columns]
    for (i, *_), own in zip(flat, found.reshape(-1, 2).tolist(), strict=False):
        results[i].append((own[0], own[1]))
    return results


def _sample_again(
    columns: Sequence[Wished], found: list[list[Found]], numbers: Sequence[int], lane: Lane
) -> Generator[None, None, None]:
    """Sample the scopes of columns some of whose segments have no rows."""
    every = [[(one.first, one.first + one.rows) for one in found[i]] for i in numbers]
    words = np.array([end for of_column in every for ends in of_column for end in ends], np.int64)
    with Workspace() as work:
        place = work.reserve(words.nbytes)
        work.take(lane)
        lane.upload(work[place], words)
        at, edges = work[place], []
        for of_column in every:
            edges.append([(at + 2 * _WORD * k, at + 2 * _WORD * k + _WORD) for k in range(len(of_column))])
            at += 2 * _WORD * len(of_column)
        samples = yield from _sample([columns[i] for i in numbers], edges, lane)
    for i, own in zip(numbers, samples, strict=True):
        found[i] = [one._replace(sampled=v, different=d) for one, (v, d) in zip(found[i], own, strict=True)]
