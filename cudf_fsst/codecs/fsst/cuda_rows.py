"""Automata of rows, run over the codes of a column in GPU memory: nothing is decoded, and the GPU is not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ...device.memory import Lane, Workspace, current_device, device_attributes
from ..part import align
from ..scratch import scratch_limit
from ..text import launch as text_launch
from ..text.cuda_match_layout import rounds
from ..text.layout import ROW_BLOCK
from . import launch
from .cuda_kernels import get_kernel

if TYPE_CHECKING:  # its readers ask the registry for this codec
    from ..text.cuda_reading import Reading

_u32, _u64 = np.uint32, np.uint64
_TABLE = (text_launch.SEGMENT_VIEW.names or ()).index("table")

#: Automata whose launches are kept with a column.
_KEPT = 8
#: Bytes for each tile: where its first row is.
_FIRST_ROW_NBYTES = 8
#: Rows that a segment has at most: their numbers, and one more, have 32 bits.
_ROWS_MAX = 2**32 - 2
#: What else a call allocates: small things, and what alignment takes.
_SPARE = 16 << 10


class _Launch(NamedTuple):
    """A launch of fsst_rows for the segments of a round that have one tile size."""

    tile_size: int
    shape: text_launch.SearchShape
    pieces: int
    first_units: int
    units: int


class _Round(NamedTuple):
    """Consecutive segments that are answered together. `tables` is a place in the image."""

    group: slice
    row_blocks: int
    tiles: int
    tables: int
    table_count: int
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
    lane.zero(answers.ptr, answers.size)
    _run(prepared, answers.ptr, lane)
    return answers


class _Prepared:
    """An automaton for a column: all but the addresses, which count from the first byte of the call's workspace.

    Attributes
    ----------
    rounds : list of _Round
        None where a segment alone needs more memory than a call may take.
    image : ndarray of uint8
        Decode tables, descriptors, a `ROWS_VIEW` for each segment, addresses of each round's tables, where the
        segments begin among thread blocks, and the automaton of bytes.
    """

    def __init__(self, reading: Reading, machine: RowAutomaton) -> None:
        self.machine = machine
        view = self.view = reading.view.copy()
        row_blocks = -(-view["rows"].astype(np.int64) // ROW_BLOCK)
        view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
        shifts = view["tile_shift"].astype(np.int64)
        tiles = -(-view["chars"].astype(np.int64) >> shifts)
        tables = reading.tables
        following, verdicts = machine.following, machine.verdicts
        small = tables.nbytes + 2 * view.nbytes + following.nbytes + verdicts.nbytes + _SPARE
        column = reading.column
        room = scratch_limit(column.chars + column.itemsize * column.rows) - small
        groups = self._groups(tiles, room)
        self.rounds: list[_Round] | None = None
        if groups is None or int(view["rows"].max()) > _ROWS_MAX:
            return
        self.views_at = tables.nbytes
        self.rows_views_at = self.views_at + view.nbytes
        self.tables_at = place = self.rows_views_at + launch.ROWS_VIEW.itemsize * view.size
        rows_views = np.zeros(view.size, launch.ROWS_VIEW)
        lists = []
        for group in groups:
            some = tiles[group]
            rows_views["first_tile"][group] = np.cumsum(some) - some
            own, rows_views["automaton"][group] = np.unique(view["table"][group], return_inverse=True)
            lists.append(own)
        units_at = self.tables_end = place + 8 * sum(own.size for own in lists)
        arrays: list[npt.NDArray[np.uint32]] = []
        self.rounds = []
        for group, own in zip(groups, lists, strict=True):
            launches, units = self._launches(group, tiles, shifts, units_at)
            arrays += units
            units_at += sum(array.nbytes for array in units)
            count = int(row_blocks[group].sum())
            self.rounds.append(_Round(group, count, int(tiles[group].sum()), place, own.size, launches))
            place += own.nbytes
        self.following_at = align(units_at)
        self.verdicts_at = self.following_at + following.nbytes
        size = align(self.verdicts_at + verdicts.nbytes)
        self.image = np.zeros(size, np.uint8)
        at = 0
        for part in (tables, view, rows_views, *lists, *arrays):
            self.image[at : at + part.nbytes] = part.view(np.uint8)
            at += part.nbytes
        self.image[self.following_at : self.verdicts_at] = following.ravel().view(np.uint8)
        self.image[self.verdicts_at : self.verdicts_at + verdicts.nbytes] = verdicts
        work = self.work = Workspace()
        work.reserve(size)
        most = max(own.size for own in lists)
        self.entries = work.reserve(launch.ROWS_NBYTES * machine.states * most)
        self.restarts = work.reserve(launch.RESTARTS_NBYTES * most)
        self.first_rows = work.reserve(_FIRST_ROW_NBYTES * max(one.tiles for one in self.rounds))
        addresses = [
            np.arange(self.tables_at, self.tables_end, 8),
            self.views_at + text_launch.SEGMENT_VIEW.itemsize * np.arange(view.size) + 8 * _TABLE,
        ]
        self._addresses = np.concatenate(addresses) // 8

    def _groups(self, tiles: npt.NDArray[np.int64], room: int) -> list[slice] | None:
        """Rounds of segments that need at most `room` bytes, or None."""
        automaton = launch.ROWS_NBYTES * self.machine.states + launch.RESTARTS_NBYTES
        return rounds(self.view["table"], _FIRST_ROW_NBYTES * tiles, automaton, room)

    def _launches(
        self, group: slice, all_tiles: npt.NDArray[np.int64], shifts: npt.NDArray[np.int64], place: int
    ) -> tuple[tuple[_Launch, ...], list[npt.NDArray[np.uint32]]]:
        """The launches for a group, and what is at `place` of the image for them."""
        attributes = device_attributes()
        launches, arrays = [], []
        for shift in sorted(set(shifts[group].tolist())):
            tiles = np.where(shifts[group] == shift, all_tiles[group], 0)
            total = int(tiles.sum())
            if not total:
                continue
            codes_nbytes = int(self.view["codes_nbytes"][group][tiles > 0].sum())
            shape = launch.rows_shape(
                1 << shift,
                text_launch.decode_codes_capacity(1 << shift, codes_nbytes, total),
                self.machine.states,
                attributes["shared_per_block"],
                attributes["shared_per_multiprocessor"],
            )
            warps = attributes["multiprocessors"] * shape.resident
            pieces = text_launch.decode_pieces(total // text_launch.PIECE_TILES, warps)
            units = -(-tiles // (shape.threads * pieces))
            launches.append(_Launch(1 << shift, shape, pieces, place, int(units.sum())))
            arrays.append((np.cumsum(units) - units).astype(_u32))
            place += arrays[-1].nbytes
        return tuple(launches), arrays

    def image_at(self, address: int) -> npt.NDArray[np.uint8]:
        """What is uploaded to a workspace at an address."""
        made = self.image.copy()
        made.view(_u64)[self._addresses] += _u64(address)
        return made


def _run(prepared: _Prepared, answers: int, lane: Lane) -> None:
    """Launch the search of all rounds; `answers` is the address of the rows' verdicts."""
    machine, work = prepared.machine, lane.allocate(prepared.work.nbytes)
    image = int(work.ptr)
    lane.upload(image, prepared.image_at(image))
    first_rows, entries, restarts = (image + at for at in (prepared.first_rows, prepared.entries, prepared.restarts))
    for one in prepared.rounds or ():
        first, count = one.group.start, _u32(one.group.stop - one.group.start)
        views = _u64(image + prepared.views_at + first * text_launch.SEGMENT_VIEW.itemsize)
        rows_views = _u64(image + prepared.rows_views_at + first * launch.ROWS_VIEW.itemsize)
        lane.zero(first_rows, _FIRST_ROW_NBYTES * one.tiles)
        lane.launch(
            get_kernel("fsst_rows_lift", "fsst_rows_lift"),
            (2 * machine.states + 1, one.table_count),
            256,
            (
                _u64(image + prepared.following_at),
                _u64(image + prepared.verdicts_at),
                _u32(machine.states),
                _u64(image + one.tables),
                _u64(entries),
                _u64(restarts),
            ),
        )
        lane.launch(
            get_kernel("fsst_rows_lift", "fsst_rows_starts"),
            text_launch.row_grid(one.row_blocks, device_attributes()["multiprocessors"]),
            text_launch.ROW_THREADS,
            (
                views,
                rows_views,
                count,
                _u64(one.row_blocks),
                _u64(first_rows),
                _u64(answers),
                _u32(int(machine.verdicts[0])),
            ),
        )
        for each in one.launches:
            lane.launch(
                get_kernel("fsst_rows", "fsst_rows" if each.shape.staged else "fsst_rows_large", each.tile_size),
                each.units,
                each.shape.threads,
                (
                    views,
                    rows_views,
                    _u64(image + each.first_units),
                    count,
                    _u64(entries),
                    _u64(restarts),
                    _u32(machine.states),
                    _u32(each.shape.codes_capacity),
                    _u32(each.pieces),
                    _u64(first_rows),
                    _u64(answers),
                ),
                each.shape.shared,
            )
