"""Automata of rows, run over the codes of a column in GPU memory: nothing is decoded, and the GPU is not waited for.

A codec says how its codes are read (`RowRunner`); the rest is the same for all codecs of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...automata import NO, RowAutomaton
from ...device.memory import Lane, Workspace, current_device, device_attributes
from ..cuda_tables import KeptLaunch
from ..part import align
from ..scratch import scratch_limit
from . import launch
from .cuda_match_layout import SPARE, ImageAt, addresses_of_tables, rounds
from .cuda_reading import Reading

_u32, _u64 = np.uint32, np.uint64

#: Automata whose launches are kept with a column.
_KEPT = 8
#: Rows that a segment has at most: their numbers, and one more, have 32 bits.
_ROWS_MAX = 2**32 - 2
#: Bytes of the number of an automaton.
_NUMBER_NBYTES = 8


class Lift(NamedTuple):
    """A launch that makes automata of codes: ``kernel(following, verdicts, states, tables, automata, *more)``.

    `grid` is the first dimension; the second one is the tables.
    """

    kernel: Any
    grid: int
    threads: int
    more: tuple[Any, ...]


class RowRunner(Protocol):
    """How a codec's kernels run automata of rows over its codes."""

    def resident(self, architecture: int, staged: bool) -> int:
        """Warps of a multiprocessor that a `kernel` is compiled for on an architecture, 90 for ``sm_90``."""

    def automaton_nbytes(self, states: int) -> int:
        """Bytes of an automaton of codes, at most, of so many states of bytes; a multiple of 16."""

    def staged_nbytes(self, states: int) -> int:
        """Bytes of it that may lie in shared memory, 0: none, and `lift` makes another one."""

    def lift(self, states: int, staged: bool) -> Lift:
        """The function that makes automata of row automata."""

    def kernel(self, tile_size: int, staged: bool) -> Any:
        """What runs them, launched as `_Prepared` does it."""

    def more(self) -> tuple[Any, ...]:
        """Arguments of the kernel behind those that all have."""


class _RowsLaunch(NamedTuple):
    """A launch for the segments of a round that have one tile size. `first_units` is a place in the image."""

    tile_size: int
    shape: launch.SearchShape
    said: int
    bundles: int
    first_units: int
    units: int


class _RowsRound(NamedTuple):
    """Consecutive segments that are answered together. `tables` is a place in the image."""

    group: slice
    tables: int
    table_count: int
    staged: bool
    launches: list[_RowsLaunch]


def answer(reading: Reading, machine: RowAutomaton, runner: RowRunner, *, lane: Lane) -> Any:
    """What an automaton says of all rows of a column in GPU memory.

    Parameters
    ----------
    reading
        Of a column that has rows, all of one codec.
    machine
    runner
        Of that codec; equal in all calls with a reading.
    lane

    Returns
    -------
    rmm.DeviceBuffer or None
        `automata.NO`, `YES` or `UNDECIDED` for each row, a byte each, `UNDECIDED` where the automaton says so and for
        rows of more than `launch.MOST_ROW` bytes. Of nulls it means nothing. None where a segment has too many
        rows, or what is made of it takes more memory than a call may: then decode.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states.
    """
    if reading.running is None:
        reading.running = {}
    kept: dict[Any, _Prepared] = reading.running
    key = current_device(), machine
    prepared = kept.get(key)
    if prepared is None:
        if len(kept) >= _KEPT:
            kept.clear()
        prepared = kept[key] = _Prepared(reading, machine, runner)
    if prepared.rounds is None:
        return None
    answers = lane.allocate(reading.column.rows)
    lane.fill(answers.ptr, answers.size, int(machine.verdicts[0]))  # rows without bytes are not written
    prepared.run(answers.ptr, lane)
    return answers


class _Prepared:
    """An automaton for a column: all but the addresses, which count from the first byte of the call's workspace.

    Parameters
    ----------
    reading
    machine
    runner

    Attributes
    ----------
    rounds : list of list of KeptLaunch
        Of each round what makes automata, and then what runs them. None where a segment alone needs more memory than a
        call may take.
    """

    def __init__(self, reading: Reading, machine: RowAutomaton, runner: RowRunner) -> None:
        self._runner = runner
        view = self._view = reading.view
        self._shifts = view["tile_shift"].astype(np.int64)
        tables, column = reading.tables, reading.column
        # The state of rows that are none of a lane's comes last.
        states = self._states = machine.states + 1
        following = np.full((states, 256), machine.states, np.uint16)
        following[:-1] = machine.following
        verdicts = np.append(machine.verdicts, np.uint8(NO))
        small = tables.nbytes + 2 * view.nbytes + following.nbytes + verdicts.nbytes + SPARE
        room = scratch_limit(column.chars + column.itemsize * column.rows) - small
        automaton = runner.automaton_nbytes(states)
        groups = rounds(view["table"], np.zeros(view.size, np.int64), automaton, room)
        self.rounds: list[list[KeptLaunch]] | None = None
        if groups is None or int(view["rows"].max()) > _ROWS_MAX:
            return
        self._views_at = tables.nbytes
        self._numbers_at = self._views_at + view.nbytes
        tables_at = place = self._numbers_at + _NUMBER_NBYTES * view.size
        numbers = np.zeros(view.size, _u64)
        lists = []
        for group in groups:
            own, numbers[group] = np.unique(view["table"][group], return_inverse=True)
            lists.append(own)
        tables_end = units_at = place + 8 * sum(own.size for own in lists)
        arrays: list[npt.NDArray[np.uint32]] = []
        planned = []
        for group, own in zip(groups, lists, strict=True):
            launches = self._launches(group, units_at, arrays)
            units_at = tables_end + sum(array.nbytes for array in arrays)
            staged = all(each.shape.staged for each in launches)
            planned.append(_RowsRound(group, place, own.size, staged, launches))
            place += own.nbytes
        self._following_at = align(units_at)
        self._verdicts_at = self._following_at + following.nbytes
        size = align(self._verdicts_at + verdicts.nbytes)
        parts = [tables, view, numbers, *lists, *arrays, np.zeros(self._following_at - units_at, np.uint8)]
        parts += [following.ravel(), verdicts, np.zeros(size - self._verdicts_at - verdicts.nbytes, np.uint8)]
        image = np.concatenate([part.view(np.uint8) for part in parts])
        self._image_at = ImageAt(
            image, [np.arange(tables_at, tables_end, 8), addresses_of_tables(self._views_at, view)]
        )
        self._work = Workspace()
        self._work.reserve(size)
        self._automata = self._work.reserve(automaton * max(own.size for own in lists))
        self.rounds = [list(self._steps(rows_round)) for rows_round in planned]

    def _launches(self, group: slice, place: int, arrays: list[npt.NDArray[np.uint32]]) -> list[_RowsLaunch]:
        """The launches for a group; `arrays` get what is at `place` of the image for them."""
        attributes = device_attributes()
        limits = attributes["shared_per_block"], attributes["shared_per_multiprocessor"]
        view, runner = self._view[group], self._runner
        resident = [runner.resident(attributes["architecture"], staged) for staged in (False, True)]
        chosen = []
        for shift in sorted(set(self._shifts[group].tolist())):
            own = self._shifts[group] == shift
            codes_nbytes, rows, chars = (int(view[name][own].sum()) for name in ("codes_nbytes", "rows", "chars"))
            tiles = -(-view["chars"].astype(np.int64) >> shift) * own
            if chars:
                capacity = launch.decode_codes_capacity(1 << shift, codes_nbytes, int(tiles.sum()))
                chosen.append((1 << shift, capacity, launch.said_capacity(1 << shift, rows, chars), tiles))

        def shapes(automaton: int) -> list[launch.SearchShape]:
            return [launch.rows_shape(*shape[:3], automaton, *resident, *limits) for shape in chosen]

        found = shapes(runner.staged_nbytes(self._states))
        if not all(shape.staged for shape in found):  # one automaton serves all
            found = shapes(0)
        launches = []
        for (tile_size, _, said, tiles), shape in zip(chosen, found, strict=True):
            warps = attributes["multiprocessors"] * shape.resident
            bundles = launch.decode_bundles(int(tiles.sum()) // launch.BUNDLE_TILES, warps)
            units = -(-tiles // (shape.threads * bundles))
            launches.append(_RowsLaunch(tile_size, shape, said, bundles, place, int(units.sum())))
            arrays.append((np.cumsum(units) - units).astype(_u32))
            place += arrays[-1].nbytes
        return launches

    def _steps(self, rows_round: _RowsRound) -> Iterator[KeptLaunch]:
        """The launches of a round: what makes automata, and what runs them, which is told more."""
        runner, states, automata = self._runner, self._states, self._automata
        lift = runner.lift(states, rows_round.staged)
        yield KeptLaunch(
            lift.kernel,
            (lift.grid, rows_round.table_count),
            lift.threads,
            (self._following_at, self._verdicts_at, _u32(states), rows_round.tables, automata, *lift.more),
        )
        first, count = rows_round.group.start, _u32(rows_round.group.stop - rows_round.group.start)
        for each in rows_round.launches:
            yield KeptLaunch(
                runner.kernel(each.tile_size, rows_round.staged),
                each.units,
                each.shape.threads,
                (
                    self._views_at + first * launch.SEGMENT_VIEW.itemsize,
                    self._numbers_at + first * _NUMBER_NBYTES,
                    each.first_units,
                    count,
                    automata,
                    _u32(states),
                    _u32(each.shape.codes_capacity),
                    _u32(each.said),
                    _u32(each.bundles),
                ),
                each.shape.shared,
            )

    def run(self, answers: int, lane: Lane) -> None:
        """Launch all rounds; `answers` is the address of the rows' verdicts."""
        work = lane.allocate(self._work.nbytes)
        address = int(work.ptr)
        lane.upload(address, self._image_at(address))
        for lift, *runs in self.rounds or ():
            lift.launch(lane, address)
            for run in runs:
                run.launch(lane, address, _u64(answers), *self._runner.more())
