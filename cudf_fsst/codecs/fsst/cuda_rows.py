"""Automata of rows, run over the codes of a column in GPU memory: nothing is decoded, and the GPU is not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import NO, RowAutomaton
from ...device.memory import Lane, Workspace, current_device, device_attributes
from ..part import align
from ..scratch import scratch_limit
from ..text import launch as text_launch
from ..text.cuda_match_layout import rounds
from . import launch
from .cuda_kernels import get_kernel

if TYPE_CHECKING:  # its readers ask the registry for this codec
    from ..text.cuda_reading import Reading

_u32, _u64 = np.uint32, np.uint64
_TABLE = (text_launch.SEGMENT_VIEW.names or ()).index("table")

#: Automata whose launches are kept with a column.
_KEPT = 8
#: Rows that a segment has at most: their numbers, and one more, have 32 bits.
_ROWS_MAX = 2**32 - 2
#: Bytes of the number of an automaton.
_NUMBER_NBYTES = 8
#: What else a call allocates: small things, and what alignment takes.
_SPARE = 16 << 10


class _Launch(NamedTuple):
    """A launch of fsst_rows for the segments of a round that have one tile size."""

    tile_size: int
    shape: text_launch.SearchShape
    said: int
    pieces: int
    first_units: int
    units: int


class _Round(NamedTuple):
    """Consecutive segments that are answered together. `tables` is a place in the image.

    `staged`: the automata lie in shared memory.
    """

    group: slice
    tables: int
    table_count: int
    staged: bool
    launches: tuple[_Launch, ...]


def answer(reading: Reading, machine: RowAutomaton, *, lane: Lane) -> Any:
    """What an automaton says of all rows of a column in GPU memory.

    Parameters
    ----------
    reading
        Of a column that has rows, all of this codec.
    machine
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
        prepared = kept[key] = _Prepared(reading, machine)
    if prepared.rounds is None:
        return None
    answers = lane.allocate(reading.column.rows)
    lane.fill(answers.ptr, answers.size, int(machine.verdicts[0]))  # rows without bytes are not written
    _run(prepared, answers.ptr, lane)
    return answers


class _Prepared:
    """An automaton for a column: all but the addresses, which count from the first byte of the call's workspace.

    Attributes
    ----------
    rounds : list of _Round
        None where a segment alone needs more memory than a call may take.
    image : ndarray of uint8
        Decode tables, descriptors, the number of each segment's automaton, addresses of each round's tables, where the
        segments begin among thread blocks, and the automaton of bytes.
    """

    def __init__(self, reading: Reading, machine: RowAutomaton) -> None:
        view = self.view = reading.view
        shifts = view["tile_shift"].astype(np.int64)
        tiles = -(-view["chars"].astype(np.int64) >> shifts)
        tables = reading.tables
        # The state of rows that are none of a lane's comes last.
        states = self.states = machine.states + 1
        following = np.full((states, 256), machine.states, np.uint16)
        following[:-1] = machine.following
        verdicts = np.append(machine.verdicts, np.uint8(NO))
        small = tables.nbytes + 2 * view.nbytes + following.nbytes + verdicts.nbytes + _SPARE
        column = reading.column
        room = scratch_limit(column.chars + column.itemsize * column.rows) - small
        automaton = launch.ROWS_NBYTES * states + launch.RESTARTS_NBYTES
        groups = rounds(view["table"], np.zeros(view.size, np.int64), automaton, room)
        self.rounds: list[_Round] | None = None
        if groups is None or int(view["rows"].max()) > _ROWS_MAX:
            return
        self.views_at = tables.nbytes
        self.numbers_at = self.views_at + view.nbytes
        self.tables_at = place = self.numbers_at + _NUMBER_NBYTES * view.size
        numbers = np.zeros(view.size, _u64)
        lists = []
        for group in groups:
            own, numbers[group] = np.unique(view["table"][group], return_inverse=True)
            lists.append(own)
        units_at = self.tables_end = place + 8 * sum(own.size for own in lists)
        arrays: list[npt.NDArray[np.uint32]] = []
        self.rounds = []
        for group, own in zip(groups, lists, strict=True):
            launches, units = self._launches(group, tiles, shifts, units_at)
            arrays += units
            units_at += sum(array.nbytes for array in units)
            staged = all(one.shape.staged for one in launches)
            self.rounds.append(_Round(group, place, own.size, staged, launches))
            place += own.nbytes
        self.following_at = align(units_at)
        self.verdicts_at = self.following_at + following.nbytes
        size = align(self.verdicts_at + verdicts.nbytes)
        self.image = np.zeros(size, np.uint8)
        at = 0
        for part in (tables, view, numbers, *lists, *arrays):
            self.image[at : at + part.nbytes] = part.view(np.uint8)
            at += part.nbytes
        self.image[self.following_at : self.verdicts_at] = following.ravel().view(np.uint8)
        self.image[self.verdicts_at : self.verdicts_at + verdicts.nbytes] = verdicts
        work = self.work = Workspace()
        work.reserve(size)
        most = max(own.size for own in lists)
        self.automata = work.reserve(automaton * most)
        addresses = [
            np.arange(self.tables_at, self.tables_end, 8),
            self.views_at + text_launch.SEGMENT_VIEW.itemsize * np.arange(view.size) + 8 * _TABLE,
        ]
        self._addresses = np.concatenate(addresses) // 8

    def _launches(
        self, group: slice, all_tiles: npt.NDArray[np.int64], shifts: npt.NDArray[np.int64], place: int
    ) -> tuple[tuple[_Launch, ...], list[npt.NDArray[np.uint32]]]:
        """The launches for a group, and what is at `place` of the image for them."""
        attributes = device_attributes()
        limits = attributes["shared_per_block"], attributes["shared_per_multiprocessor"]
        chosen = []
        for shift in sorted(set(shifts[group].tolist())):
            tiles = np.where(shifts[group] == shift, all_tiles[group], 0)
            total = int(tiles.sum())
            if total:
                codes_nbytes = int(self.view["codes_nbytes"][group][tiles > 0].sum())
                rows, chars = (int(self.view[name][group][tiles > 0].sum()) for name in ("rows", "chars"))
                capacity = text_launch.decode_codes_capacity(1 << shift, codes_nbytes, total)
                chosen.append((1 << shift, tiles, capacity, launch.said_capacity(1 << shift, rows, chars)))

        def shapes_for(states: int) -> list[text_launch.SearchShape]:
            return [launch.rows_shape(size, capacity, said, states, *limits) for size, _, capacity, said in chosen]

        shapes = shapes_for(self.states)
        if not all(shape.staged for shape in shapes):  # one automaton serves all
            shapes = shapes_for(0)
        launches, arrays = [], []
        for (tile_size, tiles, _, said), shape in zip(chosen, shapes, strict=True):
            warps = attributes["multiprocessors"] * shape.resident
            pieces = text_launch.decode_pieces(int(tiles.sum()) // text_launch.PIECE_TILES, warps)
            units = -(-tiles // (shape.threads * pieces))
            launches.append(_Launch(tile_size, shape, said, pieces, place, int(units.sum())))
            arrays.append((np.cumsum(units) - units).astype(_u32))
            place += arrays[-1].nbytes
        return tuple(launches), arrays

    def image_at(self, address: int) -> npt.NDArray[np.uint8]:
        """What is uploaded to a workspace at an address."""
        made = self.image.copy()
        made.view(_u64)[self._addresses] += _u64(address)
        return made


def _run(prepared: _Prepared, answers: int, lane: Lane) -> None:
    """Launch all rounds; `answers` is the address of the rows' verdicts."""
    work = lane.allocate(prepared.work.nbytes)
    image = int(work.ptr)
    lane.upload(image, prepared.image_at(image))
    automata, states = _u64(image + prepared.automata), _u32(prepared.states)
    for one in prepared.rounds or ():
        first, count = one.group.start, _u32(one.group.stop - one.group.start)
        views = _u64(image + prepared.views_at + first * text_launch.SEGMENT_VIEW.itemsize)
        numbers = _u64(image + prepared.numbers_at + first * _NUMBER_NBYTES)
        lane.launch(
            get_kernel("fsst_rows_lift", "fsst_rows_lift"),
            (2 * prepared.states + 1, one.table_count),
            256,
            (
                _u64(image + prepared.following_at),
                _u64(image + prepared.verdicts_at),
                states,
                _u32(launch.ROWS_PLACES[one.staged]),
                _u64(image + one.tables),
                automata,
            ),
        )
        for each in one.launches:
            lane.launch(
                get_kernel("fsst_rows", "fsst_rows" if one.staged else "fsst_rows_large", each.tile_size),
                each.units,
                each.shape.threads,
                (
                    views,
                    numbers,
                    _u64(image + each.first_units),
                    count,
                    automata,
                    states,
                    _u32(each.shape.codes_capacity),
                    _u32(each.said),
                    _u32(each.pieces),
                    _u64(answers),
                ),
                each.shape.shared,
            )
