"""What questions launch and allocate for a column in GPU memory, and the images of what their kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...device.memory import Workspace, device_attributes
from ..cuda_tables import KeptLaunch
from ..part import align
from ..scratch import scratch_limit
from . import launch
from .cuda_reading import Reading
from .layout import ROW_BLOCK
from .search import Automaton

_u32, _u64 = np.uint32, np.uint64
_TABLE = (launch.SEGMENT_VIEW.names or ()).index("table")

#: Tables of a round: what the second dimension of a grid may be.
_TABLES_MAX = 65535
#: Bytes of a word of a `Machine`.
_WORD = 8
#: What else a call allocates: small things, and what alignment takes.
SPARE = 16 << 10


class Searcher(Protocol):
    """How a codec's kernels search its codes."""

    @property
    def BLOCKS(self) -> int:
        """Thread blocks that make what an automaton of codes has for each state of the automaton of bytes."""

    def automaton_nbytes(self, states: int) -> int:
        """Bytes of an automaton of codes, at most, of so many states of bytes; a multiple of 16."""

    def automata_kernel(self) -> Any:
        """``automata(machines, tables, zero_blocks, zeros_to, zero_stops, stride, *more_of_automata())``.

        It makes them, as text_match.cuh and `cuda_search` say.
        """

    def more_of_automata(self) -> tuple[Any, ...]:
        """Arguments of the kernel behind those that all have."""

    def shape(self, tile_size: int, codes_nbytes: int, tiles: int, states: int, planes: int) -> launch.SearchShape:
        """Shape of a launch of a search; `codes_nbytes` and `tiles` are those of its segments."""

    def search_kernel(self, tile_size: int, states: int, planes: int, staged: int) -> Any:
        """The kernel that searches, launched as `cuda_search` says; `staged`: of the shape."""

    def more_of_search(self, states: int, planes: int, staged: int) -> tuple[Any, ...]:
        """Arguments of the kernel behind those that all have."""

    def edges(
        self, rows: int, chars: int, codes_nbytes: int, most: int, length: int
    ) -> tuple[Any, launch.EdgesShape] | None:
        """A kernel that looks where rows begin or end, launched as `cuda_search` says, and its shape.

        None where a search answers sooner. `most`: the most characters of a segment; `length`: bytes of the pattern.
        """

    def values_kernel(self, name: str) -> Any:
        """What compares rows with values; named ``match_values`` or ``match_values_searched``."""


class Launch(NamedTuple):
    """A launch of a search for the segments of a round that have one tile size."""

    tile_size: int
    shape: launch.SearchShape
    bundles: int
    first_units: int
    units: int


class Round(NamedTuple):
    """Consecutive segments whose planes are made together. `first_units` and `tables` are places in the image."""

    group: slice
    row_blocks: int
    tables: int
    table_count: int
    stride: int
    searches: tuple[tuple[Launch, ...], ...]


class MatchLayout:
    """What a call launches and allocates for automata of some sizes, whatever they search.

    Parameters
    ----------
    reading
    searcher
        Of the codec of all its segments.
    states, counts
        Of each search.
    decodes
        Whether rows are decoded.

    Attributes
    ----------
    rounds : list of Round
        None where a segment alone needs more memory than a call may take.
    image : ndarray of uint8
        Decode tables, descriptors, a `SEARCH_VIEW` for each segment, addresses of each round's tables (counted from the
        image), and where the searches' segments begin among thread blocks.
    plane_words : int
        Words of a plane.
    tables_most : int
        Tables of a round, at most.
    """

    def __init__(
        self, reading: Reading, searcher: Searcher, states: tuple[int, ...], counts: tuple[int, ...], decodes: bool
    ) -> None:
        self.searcher = searcher
        view = reading.view.copy()
        row_blocks = -(-view["rows"].astype(np.int64) // ROW_BLOCK)
        view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
        chars, self.shifts = view["chars"].astype(np.int64), view["tile_shift"].astype(np.int64)
        self.tiles = -(-chars >> self.shifts)
        self.words = -(-self.tiles // launch.BUNDLE_TILES) << self.shifts
        self.view, self.planes = view, sum(counts)
        tables = reading.tables if states or decodes else reading.tables[:0]
        small = tables.nbytes + view.nbytes + (24 + 4 * len(states) * len(reading.shifts)) * view.size
        small += 256 * sum(states) + 512 * len(states) + SPARE
        column = reading.column
        room = scratch_limit(column.chars + column.itemsize * column.rows) - small
        groups = self._groups(sum(map(searcher.automaton_nbytes, states)), room) if states else [slice(0, view.size)]
        self.rounds: list[Round] | None = None
        if groups is None:
            return
        self.views_at = tables.nbytes
        self.search_views_at = self.views_at + view.nbytes
        self.tables_at = place = self.search_views_at + launch.SEARCH_VIEW.itemsize * view.size
        search_views = np.zeros(view.size, launch.SEARCH_VIEW)
        lists = []
        for group in groups:
            words = self.words[group]
            search_views["first_word"][group] = np.cumsum(words) - words
            own, search_views["automaton"][group] = np.unique(view["table"][group], return_inverse=True)
            lists.append(own)
        self.plane_words = max(int(self.words[group].sum()) for group in groups)
        self.tables_most = max(own.size for own in lists)
        self.tables_end = place + 8 * sum(own.size for own in lists)
        arrays: list[npt.NDArray[np.uint32]] = []
        self.rounds, units_at = [], self.tables_end
        for group, own in zip(groups, lists, strict=True):
            searches = []
            for state_count, planes in zip(states, counts, strict=True):
                launches, unit_arrays = self._launches(group, state_count, planes, units_at)
                searches.append(launches)
                arrays += unit_arrays
                units_at += sum(array.nbytes for array in unit_arrays)
            stride = 1 << int(self.shifts[group].min())
            self.rounds.append(Round(group, int(row_blocks[group].sum()), place, own.size, stride, tuple(searches)))
            place += own.nbytes
        parts = [tables, view, search_views, *lists, *arrays, np.zeros(-units_at % 16, np.uint8)]
        self.image = np.concatenate([part.view(np.uint8) for part in parts])

    def _groups(self, automata: int, room: int) -> list[slice] | None:
        """Rounds of segments that need at most `room` bytes, or None. A symbol table's automata take `automata`."""
        return rounds(self.view["table"], 4 * self.planes * self.words, automata, room)

    def _launches(
        self, group: slice, states: int, planes: int, place: int
    ) -> tuple[tuple[Launch, ...], list[npt.NDArray[np.uint32]]]:
        """A search's launches for a group, and what is at `place` of the image for them."""
        multiprocessors = device_attributes()["multiprocessors"]
        launches, arrays = [], []
        for shift in sorted(set(self.shifts[group].tolist())):
            tiles = np.where(self.shifts[group] == shift, self.tiles[group], 0)
            total = int(tiles.sum())
            if not total:
                continue
            codes_nbytes = int(self.view["codes_nbytes"][group][tiles > 0].sum())
            shape = self.searcher.shape(1 << shift, codes_nbytes, total, states, planes)
            warps = multiprocessors * shape.resident
            bundles = launch.decode_bundles(total // launch.BUNDLE_TILES, warps)
            units = -(-tiles // (shape.threads * bundles))
            launches.append(Launch(1 << shift, shape, bundles, place, int(units.sum())))
            arrays.append((np.cumsum(units) - units).astype(_u32))
            place += arrays[-1].nbytes
        return tuple(launches), arrays


class ImageAt:
    """What is uploaded to a workspace: an image, in which addresses count from its first byte.

    Parameters
    ----------
    image : ndarray of uint8
    places
        Where addresses are in it.
    """

    def __init__(self, image: npt.NDArray[np.uint8], places: Sequence[npt.NDArray[Any]]) -> None:
        self._image, self._words = image, np.concatenate(places) // 8
        self._made: tuple[int, npt.NDArray[np.uint8]] = 0, image

    def __call__(self, address: int) -> npt.NDArray[np.uint8]:
        """The image for a workspace at an address."""
        at, image = self._made
        if at != address:  # the same memory is there again for most calls
            image = self._image.copy()
            image.view(_u64)[self._words] += _u64(address)
            self._made = address, image
        return image


def addresses_of_tables(place: int, view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Where, in descriptors at a place, the addresses of their tables are."""
    return place + launch.SEGMENT_VIEW.itemsize * np.arange(view.size) + 8 * _TABLE


class Prepared:
    """A question to a layout: all but the addresses, which count from the first byte of the call's workspace.

    Parameters
    ----------
    layout
    searches, counts
        Automata, and planes of each.
    kernel : str
        That answers for rows.
    test : ndarray
        What it is told.

    Attributes
    ----------
    image : ndarray of uint8
        What the kernels read, the first thing in the workspace.
    work : Workspace
        Places; the memory is a call's own.
    automata : list of int
    planes, seen, machines, test : int
        Offsets.
    steps : list
        Of each round its searches, and what answers for its rows.
    """

    steps: Sequence[tuple[Sequence[KeptLaunch], KeptLaunch]]

    def __init__(
        self,
        layout: MatchLayout,
        searches: Sequence[Automaton],
        counts: Sequence[int],
        kernel: str,
        test: npt.NDArray[Any],
    ) -> None:
        self.layout, self.searches, self.counts, self.kernel = layout, tuple(searches), tuple(counts), kernel
        tables = [
            table.ravel() for machine in searches for table in (machine.following, machine.accepts, machine.classes)
        ]
        self.machines = layout.image.nbytes
        tables_at = self.machines + _WORD * len(launch.Machine._fields) * len(searches)
        places = list(accumulate((table.size for table in tables), initial=tables_at))
        self.test = align(places[-1])
        size = self.test + align(test.nbytes)
        work = self.work = Workspace()
        work.reserve(size)
        self.automata = [
            work.reserve(layout.searcher.automaton_nbytes(machine.states) * layout.tables_most) for machine in searches
        ]
        self.planes = work.reserve(4 * (layout.planes * layout.plane_words + launch.PLANE_SPARE))
        self.seen = work.reserve(4)
        machines = []
        for i, machine in enumerate(searches):
            following, accepts, classes = places[3 * i : 3 * i + 3]
            machines.append(launch.Machine(machine.states, following, accepts, classes, self.automata[i]))
        image = self.image = np.zeros(size, np.uint8)
        for at, part in (
            (0, layout.image),
            (self.machines, np.array(machines, _u64).view(np.uint8).ravel()),
            *zip(places, tables, strict=False),
            (self.test, test.view(np.uint8)),
        ):
            image[at : at + part.nbytes] = part
        fields = len(launch.Machine._fields)
        of_machines = (
            self.machines + _WORD * np.arange(fields * i + 1, fields * (i + 1)) for i in range(len(machines))
        )
        of_tables = np.arange(layout.tables_at, layout.tables_end, 8)
        self._image_at = ImageAt(image, [of_tables, addresses_of_tables(layout.views_at, layout.view), *of_machines])

    def image_at(self, address: int) -> npt.NDArray[np.uint8]:
        """What is uploaded to a workspace at an address."""
        return self._image_at(address)


def rounds(
    tables: npt.NDArray[np.uint64], needs: npt.NDArray[np.int64], automata: int, room: int
) -> list[slice] | None:
    """Rounds of segments that need at most `room` bytes; None where one alone needs more.

    Parameters
    ----------
    tables : ndarray of uint64, shape (segments,)
        Addresses of their tables.
    needs : ndarray of int64, shape (segments,)
        Bytes that each needs.
    automata : int
        Bytes that a table of a round needs besides.
    room : int
    """
    groups, begin, used, seen = [], 0, 0, set[int]()
    for i, (table, need) in enumerate(zip(tables.tolist(), needs.tolist(), strict=True)):
        more = need + (0 if table in seen else automata)
        if i > begin and (used + more > room or len(seen) == _TABLES_MAX):
            groups.append(slice(begin, i))
            begin, used, seen, more = i, 0, set(), need + automata
        if more > room:
            return None
        used += more
        seen.add(table)
    return [*groups, slice(begin, len(needs))]
