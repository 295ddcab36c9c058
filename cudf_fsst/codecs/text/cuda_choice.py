"""Tables of scopes on the GPU, where several encoders train one: each scope gets the one that makes it smallest.

A sample of each scope is encoded with each table, and the host chooses by the sizes, as `choose.smallest` does. That
takes a wait, or two where the host makes what an encoder reads of its tables: these are trained first, beside others,
and the host does so while the others are trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...device.memory import ALIGNMENT, Lane, SideLanes, Workspace, device_attributes
from ...device.waits import Steps
from ..cuda_kernels import blocks
from ..part import align
from ..scratch import scratch_limit
from ..table import Table
from . import launch, plan
from .choose import smallest_of
from .cuda_encode import WaveSetup, encode
from .cuda_kernels import get_kernel
from .cuda_room import RoomColumn, Slot, make_room, plan_columns, tile_size_of
from .cuda_tables import check_nulls, download_counts, launch_first_stage, scope_views
from .cuda_task import TextTask, TileEncoder, TrainingRoom
from .layout import TILE_BLOCK
from .plan import COMPARED_TILE, SAMPLE_CHUNK
from .views import WORD, CountPlaces, SampleView, ScopeView, WaveView, words

#: Bytes of workspace in which tables take turns to be trained, at least, and that columns share beside that: so many,
#: or this part of the characters.
_TRAINING, _BESIDE, _BESIDE_PART = 36 << 20, 24 << 20, 64
#: Of a GPU's multiprocessors this part is left to the tables that the host waits for first, which others are trained
#: beside.
_FIRST_PART = 4
_MANY_SCOPES = 1 << 16
_SCOPE_NBYTES, _SAMPLE_NBYTES, _WAVE_NBYTES = (WORD * len(view._fields) for view in (ScopeView, SampleView, WaveView))


class ChosenTable(NamedTuple):
    """What a scope gets.

    Attributes
    ----------
    table : Table
    lookup : buffer or None
        What the encoder reads of it, unless the host has to make that again.
    segments : int
        Of the scope.
    """

    table: Table
    lookup: Any
    segments: int


class _DrawnSample(NamedTuple):
    """The sample of a scope: address, tiles at most, and what it is encoded to."""

    at: int
    tiles: int
    slot: Slot


def _most_tiles(column: RoomColumn) -> int:
    """Tiles of the sample of a scope at most, whole blocks of them."""
    nbytes = min(column.chars_limit, plan.CHOICE_CHUNKS * SAMPLE_CHUNK)
    return max(blocks(nbytes, COMPARED_TILE * TILE_BLOCK), 1) * TILE_BLOCK


def _slot_nbytes(tiles: int) -> tuple[int, int, int]:
    """Bytes of a slot's codes, of its bundles' lengths and its tiles' lengths."""
    codes, bundles = tiles * COMPARED_TILE, 4 * (tiles // launch.BUNDLE_TILES)
    return align(codes, ALIGNMENT), align(bundles, ALIGNMENT), align(tiles, ALIGNMENT)


class _Candidate:
    """An encoder, and the tables that it trains for the scopes of a round.

    Attributes
    ----------
    encoder : TileEncoder
    room : TrainingRoom
    tables : list of Table
    tables_nbytes : list of int
    lookups : list of tuple of int
        Where the encoder finds the tables, and their bytes there.
    """

    room: TrainingRoom
    tables: list[Table]
    tables_nbytes: list[int]
    lookups: list[tuple[int, int]]

    def __init__(self, encoder: TileEncoder, limits: Sequence[int]) -> None:
        every = [encoder.training_nbytes(len(limits), limit) for limit in dict.fromkeys(limits)]
        self.encoder, self._limits, self._each = encoder, limits, every[0]
        self.in_turns = max(nbytes.in_turns for nbytes in every)
        self._trained: Any = None

    def reserve(self, work: Workspace) -> None:
        self._places = [work.reserve(len(self._limits) * nbytes) for nbytes in self._each[:-1]]

    def take(self, work: Workspace, scopes: int, turns: int, turns_nbytes: int, multiprocessors: int) -> None:
        """`scopes`: address of the ScopeViews; `turns`: of room in which they take turns."""
        each, count = self._each, len(self._limits)
        places = [work[place] if nbytes else 0 for place, nbytes in zip(self._places, each, strict=False)]
        rest = turns, turns_nbytes, multiprocessors
        self.room = TrainingRoom._make((self._limits, each, scopes, *places, *rest))
        self.lookups = [(self.room.lookup + each.lookup * i, each.lookup) for i in range(count)]

    def train(self, lane: Lane) -> None:
        room, count = self.room, len(self._limits)
        lane.zero(room.cleared, room.each.cleared * count)
        self.encoder.train(lane, room)
        self._exported = lane.fetch(room.exported, room.each.exported * count, np.uint8)
        self._trained = lane.event()

    def export(self) -> None:
        """Have the tables, when training has ended."""
        if self._trained is not None:
            self._trained.synchronize()
            self._trained = None
            self.tables = self.encoder.tables(self._exported, len(self._limits))
            self.tables_nbytes = [table.nbytes for table in self.tables]

    def upload(self, lane: Lane) -> None:
        """Make what the encoder reads of the tables, where the host does that."""
        lookups = [self.encoder.lookup(table, 0) for table in self.tables]
        self.lookups = [(at, lookup.nbytes) for (at, _), lookup in zip(self.lookups, lookups, strict=True)]
        for (at, _), lookup in zip(self.lookups, lookups, strict=True):
            lane.upload(at, lookup)


class _Round:
    """Columns that share a workspace while their tables are trained and compared.

    Parameters
    ----------
    encoders : sequence of TileEncoder
    columns : sequence of RoomColumn
    lane : Lane
    sides : sequence of Lane
        Two, in which tables are trained side by side.
    work : Workspace
    """

    def __init__(
        self,
        encoders: Sequence[TileEncoder],
        columns: Sequence[RoomColumn],
        lane: Lane,
        sides: Sequence[Lane],
        work: Workspace,
    ) -> None:
        self.columns, self.lane, self.sides = columns, lane, sides
        limits = [column.chars_limit for column in columns for _ in range(column.scopes)]
        self.candidates = [_Candidate(encoder, limits) for encoder in encoders]
        compared = len(encoders) > 1
        self.first = [candidate for candidate in self.candidates if candidate.encoder.host_lookup and compared]
        self._tiles = [_most_tiles(column) for column in columns for _ in range(column.scopes)]
        plain = sum(column.chars_limit + column.task.strings.rows * 4 for column in columns)
        room = scratch_limit(plain) - sum(_nbytes(encoders, column, len(limits)) for column in columns)
        self.groups = self._grouped([candidate for candidate in self.candidates if candidate not in self.first], room)
        at_a_time = max([sum(nbytes for _, nbytes in group) for group in self.groups], default=0)
        self._turns_nbytes = at_a_time + sum(candidate.in_turns for candidate in self.first)
        given = [column._replace(scopes=0) for column in columns]  # nothing is trained but here
        self.room = make_room(given, lane, sides[:1], work, encode=False, more=self._reserve)
        self._take(work)

    def _grouped(self, candidates: Sequence[_Candidate], room: int) -> list[list[tuple[_Candidate, int]]]:
        """Candidates that are trained side by side, two where there is the room for all of their tables at a time.

        And the bytes in which those of each take turns.
        """
        scopes, groups = len(self._tiles), list[list[tuple[_Candidate, int]]]()
        for candidate in candidates:
            wanted = scopes * candidate.in_turns
            if groups and len(groups[-1]) == 1 and groups[-1][0][1] + wanted <= room:
                groups[-1].append((candidate, wanted))
            else:
                groups.append([(candidate, min(wanted, max(candidate.in_turns, _TRAINING, room)))])
        return groups

    def _reserve(self, work: Workspace) -> None:
        """Ask for room for trainings, samples and, where tables were trained, what these are encoded to."""
        scopes, count = len(self._tiles), len(self.candidates)
        for candidate in self.candidates:
            candidate.reserve(work)
        self._places = [work.reserve(COMPARED_TILE * tiles if count > 1 else 0) for tiles in self._tiles]
        slots_nbytes = sum(map(sum, map(_slot_nbytes, self._tiles))) if count > 1 else 0
        self._turns = work.reserve(max(self._turns_nbytes, slots_nbytes))
        self._views = work.reserve(scopes * (count * (_SCOPE_NBYTES + _WAVE_NBYTES) + _SAMPLE_NBYTES))
        self._numbers = work.reserve(WORD * scopes * (3 + 2 * count))

    def _take(self, work: Workspace) -> None:
        """See where all that lies."""
        scopes = len(self._tiles)
        self._views, self._numbers, turns = work[self._views], work[self._numbers], work[self._turns]
        every = device_attributes()["multiprocessors"]
        shared = every - every // _FIRST_PART if self.first else every
        trained, at = [], turns
        for candidate in self.first:
            trained.append((candidate, at, candidate.in_turns, every))
            at += candidate.in_turns
        first_at = at
        for group in self.groups:
            at = first_at
            for candidate, nbytes in group:
                trained.append((candidate, at, nbytes, max(1, shared // len(group))))
                at += nbytes
        for candidate, *where in trained:
            candidate.take(work, self._views + self.candidates.index(candidate) * scopes * _SCOPE_NBYTES, *where)
        self._samples_at = self._views + len(self.candidates) * scopes * _SCOPE_NBYTES
        self.samples: list[_DrawnSample] = []
        for place, tiles in zip(self._places, self._tiles, strict=True):
            codes, bundles, lengths = _slot_nbytes(tiles)
            self.samples.append(_DrawnSample(work[place], tiles, Slot(turns, turns + codes, turns + codes + bundles)))
            turns += codes + bundles + lengths

    def _number(self, place: int) -> int:
        return self._numbers + WORD * place

    def _codes(self, number: int, scope: int) -> int:
        """Where the bytes of codes are counted that a candidate makes of a sample, and behind it the bundles taken."""
        return 3 * len(self.samples) + 2 * (number * len(self.samples) + scope)

    def steps(self, *, one_scope: bool) -> Steps:
        """Train and compare; of each column the choices for its scopes. With `one_scope` without lookups."""
        lane, side, candidates, first = self.lane, self.sides[0], self.candidates, self.first
        launch_first_stage(self.room, rows=one_scope)
        self._describe()
        for beside in self.sides:
            beside.follow(lane)
        for candidate in first:
            candidate.train(lane)
        later = self._train_groups()
        if len(candidates) > 1:
            self._draw(side)
            self._encode(later)
        counts = download_counts(self.room, self.lane)
        if first:
            yield
            for candidate in first:
                candidate.export()
                candidate.upload(lane)
            side.follow(lane)
            self._encode(first)
        lane.follow(side)
        count = len(self.samples)
        numbers = lane.fetch(self._numbers, count * (3 + 2 * len(candidates)), np.int64)
        if lane.meanwhile is None:
            lane.meanwhile = self._export_early
        yield
        for candidate in later:
            candidate.export()
        check_nulls(self.room, (of_gpu := counts.tolist()))
        return self._choose(of_gpu, numbers.tolist(), lookups=len(candidates) > 1 and not one_scope)

    def _export_early(self) -> None:
        """Have all tables but those of the last group, while that is trained."""
        for group in self.groups[:-1]:
            for candidate, _ in group:
                candidate.export()

    def _train_groups(self) -> list[_Candidate]:
        """Start to train tables, group after group; the first of the side streams follows all of them."""
        side, other = self.sides
        for number, group in enumerate(self.groups):
            for (candidate, _), lane in zip(group, self.sides, strict=False):
                candidate.train(lane)
            if len(group) > 1:
                side.follow(other)
            if number + 1 < len(self.groups):
                other.follow(side)
        return [candidate for group in self.groups for candidate, _ in group]

    def _describe(self) -> None:
        views: list[tuple[int, ...]] = []
        for candidate in self.candidates:
            form = candidate.encoder.tables_form(COMPARED_TILE)
            for column, places in zip(self.columns, self.room.count_places, strict=True):
                views += scope_views(column, self.room.number(places.rows_begin), form)
        for i, sample in enumerate(self.samples):
            scope = self._views + i * _SCOPE_NBYTES
            views.append(SampleView(scope, sample.at, self._number(3 * i), self._number(3 * i + 1)))
        self.lane.send(self._views, words(views))

    def _draw(self, lane: Lane) -> None:
        """Draw the samples."""
        chunks = plan.CHOICE_CHUNKS
        lane.zero(self._numbers, WORD * len(self.samples) * (3 + 2 * len(self.candidates)))
        most = max(sample.tiles for sample in self.samples) * COMPARED_TILE // SAMPLE_CHUNK
        grid = blocks(most, launch.SAMPLE_THREADS // 32), len(self.samples)
        arguments = np.uint64(self._samples_at), np.uint32(chunks)
        lane.launch(get_kernel("text_sample", "text_sample"), grid, launch.SAMPLE_THREADS, arguments)

    def _encode(self, candidates: Sequence[_Candidate]) -> None:
        """Encode all samples with the tables of candidates; those whose lookups have the same size together."""
        side, count = self.sides[0], len(self.samples)
        for candidate in candidates:
            number = self.candidates.index(candidate)
            at = self._samples_at + count * (_SAMPLE_NBYTES + number * _WAVE_NBYTES)
            by_size: dict[int, list[WaveView]] = {}
            for i, (sample, (lookup, nbytes)) in enumerate(zip(self.samples, candidate.lookups, strict=True)):
                codes = self._number(self._codes(number, i))
                staged = candidate.encoder.staged(COMPARED_TILE, nbytes)
                from_sample = self._number(3 * i), self._number(3 * i + 1), lookup, staged, 0, sample.tiles
                wave = WaveView(*from_sample, *sample.slot, codes, 0, codes + WORD, codes + WORD)
                by_size.setdefault(nbytes, []).append(wave)
            side.send(at, words([wave for waves in by_size.values() for wave in waves]))
            for nbytes, waves in by_size.items():
                setup = WaveSetup(candidate.encoder, COMPARED_TILE, nbytes)
                encode(side, setup, at, len(waves), max(wave.tile_limit for wave in waves))
                at += _WAVE_NBYTES * len(waves)

    def _choose(self, counts: Sequence[int], numbers: Sequence[int], *, lookups: bool) -> list[list[ChosenTable]]:
        """The smallest table of each scope; copies of what encoders read of these, if wanted."""
        candidates = self.candidates
        chosen: list[list[ChosenTable]] = []
        kept: list[tuple[int, int, int, int]] = []  # column, scope, where the lookup is, and its bytes
        first = 0
        for column, places in zip(self.columns, self.room.count_places, strict=True):
            of_column: list[ChosenTable] = []
            for k, (nbytes, segments) in enumerate(_spans(column, places, counts)):
                tables = [candidate.tables[first + k] for candidate in candidates]
                best = 0
                if len(tables) > 1:
                    sizes = [
                        plan.estimated_nbytes(numbers[self._codes(i, first + k)], each.tables_nbytes[first + k], nbytes)
                        for i, each in enumerate(candidates)
                    ]
                    best = smallest_of(tables, sizes, nbytes)
                encoder = candidates[best].encoder
                form = encoder.tables_form(tile_size_of(column.task, encoder))
                if lookups and form == encoder.tables_form(COMPARED_TILE):
                    kept.append((len(chosen), k, *candidates[best].lookups[first + k]))
                of_column.append(ChosenTable(tables[best], None, segments))
            chosen.append(of_column)
            first += column.scopes
        buffers = self.lane.allocate_all([nbytes for *_, nbytes in kept])
        for (i, k, at, nbytes), buffer in zip(kept, buffers, strict=True):
            self.lane.copy(buffer.ptr, at, nbytes)
            chosen[i][k] = chosen[i][k]._replace(lookup=buffer)
        return chosen


def _spans(column: RoomColumn, places: CountPlaces, counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Characters and segments of the scopes of a column."""
    rows = counts[places.rows_begin : places.rows_begin + column.segments + 1]
    with_rows = [k for k in range(column.segments) if rows[k] < rows[k + 1]]
    for first in range(0, len(with_rows), column.per_table):
        own = with_rows[first : first + column.per_table]
        begin = places.chars_begin
        yield sum(counts[begin + k + 1] - counts[begin + k] for k in own), len(own)


def _nbytes(encoders: Sequence[TileEncoder], column: RoomColumn, scopes: int = _MANY_SCOPES) -> int:
    """Bytes that a column takes of a round of so many scopes, beside the room in which tables take turns; about."""
    each = [encoder.training_nbytes(scopes, column.chars_limit)._replace(in_turns=0) for encoder in encoders]
    return column.scopes * (sum(map(sum, each)) + 2 * COMPARED_TILE * _most_tiles(column)) + 4 * column.row_blocks


def _rounds(encoders: Sequence[TileEncoder], columns: Sequence[RoomColumn]) -> Iterator[list[RoomColumn]]:
    """Columns that share a workspace within the memory rule."""
    together: list[RoomColumn] = []
    nbytes = chars = 0
    for column in columns:
        nbytes, chars = nbytes + _nbytes(encoders, column), chars + column.chars_limit
        if together and nbytes > max(_BESIDE, chars // _BESIDE_PART):
            yield together
            together, nbytes, chars = [], _nbytes(encoders, column), column.chars_limit
        together.append(column)
    if together:
        yield together


def tables(encoders: Sequence[TileEncoder], tasks: Sequence[TextTask], *, lane: Lane, one_scope: bool = False) -> Steps:
    """Train the tables of all scopes of columns with each encoder, and take the smallest of each scope.

    With `one_scope` a column is one scope, however large it is, and its table is all that is wanted.

    Returns
    -------
    list of list of ChosenTable
        For every task.

    Raises
    ------
    CharactersUnderNulls
        With `one_scope`: null rows have characters.
    """
    of_columns: list[list[ChosenTable]] = [[] for _ in tasks]
    planned = [task._replace(encoder=encoders[0], table=None, tables=()) for task in tasks]
    columns = yield from plan_columns(planned, lane, one_scope=one_scope)

    for together in _rounds(encoders, columns):
        with Workspace() as work, SideLanes(lane, 2) as sides:
            chosen = yield from _Round(encoders, together, lane, sides, work).steps(one_scope=one_scope)
        for column, choices in zip(together, chosen, strict=True):
            of_columns[column.number] = choices
    return of_columns
