"""Questions about rows, answered on the GPU from the codes: nothing is decoded, and the GPU is not waited for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane, Workspace, current_device, device_attributes, pinned
from ..part import align
from . import cuda_read, launch
from .cuda_kernels import blocks, get_kernel
from .cuda_read import Reading, reading_of
from .layout import ROW_BLOCK
from .search import Automaton, ByteCount, Count, Find, IsIn, Length, Like, Plan, Question, answer_dtype
from .segment import Segment, Segments
from .values import LONGEST, words_of

_u32, _u64 = np.uint32, np.uint64

#: Layouts of calls that are kept with a column.
_KEPT = 8
#: Tables of a round: what the second dimension of a grid may be.
_TABLES_MAX = 65535
#: Words that a block of fsst_match_automata sets to zero, four at a time.
_ZERO_STOPS = 1024
#: Rows are told by their lengths alone where values have at most so few lengths, of those that the bits could say.
_WIDTH_BITS = 3
_TABLE = (launch.DESCRIPTOR.names or ()).index("table")
# What else a call allocates: small things, and what alignment takes.
_SPARE = 16 << 10


class _Launch(NamedTuple):
    """A launch of a search for the segments of a round that have one tile size."""

    kernel: str
    tile_size: int
    shape: launch.SearchShape
    pieces: int
    first_units: int
    units: int


class _Round(NamedTuple):
    """Consecutive segments whose planes are made together. `first_units` and `tables` are places in the image."""

    group: slice
    row_blocks: int
    tables: int
    table_count: int
    stride: int
    searches: tuple[tuple[_Launch, ...], ...]


class _Layout:
    """What a call launches and allocates for automata of some sizes, whatever they search.

    Parameters
    ----------
    reading
    states, counts
        Of each search.
    decodes
        Whether rows are decoded.

    Attributes
    ----------
    rounds : list of _Round
        None where a segment alone needs more memory than a call may take.
    image : ndarray of uint8
        Decode tables, descriptors, a `SEARCH_VIEW` for each segment, addresses of each round's tables (counted from the
        image), and where the searches' segments begin among thread blocks.
    plane_words : int
        Words of a plane.
    tables_most : int
        Tables of a round, at most.
    """

    def __init__(self, reading: Reading, states: tuple[int, ...], counts: tuple[int, ...], decodes: bool) -> None:
        view = reading.view.copy()
        row_blocks = -(-view["rows"].astype(np.int64) // ROW_BLOCK)
        view["first_row_block"] = np.cumsum(row_blocks) - row_blocks
        chars, self.shifts = view["chars"].astype(np.int64), view["tile_shift"].astype(np.int64)
        self.tiles = -(-chars >> self.shifts)
        self.words = -(-self.tiles // launch.PIECE_TILES) << self.shifts
        self.view, self.planes = view, sum(counts)
        tables = reading.tables if states or decodes else reading.tables[:0]
        small = tables.nbytes + view.nbytes + (24 + 4 * len(states) * len(reading.shifts)) * view.size
        small += 256 * sum(states) + 512 * len(states) + _SPARE
        column = reading.column
        room = cuda_read.scratch_limit(column.chars + column.itemsize * column.rows) - small
        groups = self._groups(launch.AUTOMATON_NBYTES * sum(states), room) if states else [slice(0, view.size)]
        self.rounds: list[_Round] | None = None
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
            for one, planes in zip(states, counts, strict=True):
                launches, some = self._launches(group, one, planes, units_at)
                searches.append(launches)
                arrays += some
                units_at += sum(array.nbytes for array in some)
            stride = 1 << int(self.shifts[group].min())
            self.rounds.append(_Round(group, int(row_blocks[group].sum()), place, own.size, stride, tuple(searches)))
            place += own.nbytes
        parts = [tables, view, search_views, *lists, *arrays, np.zeros(-units_at % 16, np.uint8)]
        self.image = np.concatenate([part.view(np.uint8) for part in parts])

    def _groups(self, automata: int, room: int) -> list[slice] | None:
        """Rounds of segments that need at most `room` bytes, or None. A symbol table's automata take `automata`."""
        needs = (4 * self.planes * self.words).tolist()
        groups, begin, used, seen = [], 0, 0, set[int]()
        for i, (table, need) in enumerate(zip(self.view["table"].tolist(), needs, strict=True)):
            more = need + (0 if table in seen else automata)
            if i > begin and (used + more > room or len(seen) == _TABLES_MAX):
                groups.append(slice(begin, i))
                begin, used, seen, more = i, 0, set(), need + automata
            if more > room:
                return None
            used += more
            seen.add(table)
        return [*groups, slice(begin, len(needs))]

    def _launches(
        self, group: slice, states: int, planes: int, place: int
    ) -> tuple[tuple[_Launch, ...], list[npt.NDArray[np.uint32]]]:
        """A search's launches for a group, and what is at `place` of the image for them."""
        attributes = device_attributes()
        launches, arrays = [], []
        for shift in sorted(set(self.shifts[group].tolist())):
            tiles = np.where(self.shifts[group] == shift, self.tiles[group], 0)
            total = int(tiles.sum())
            if not total:
                continue
            codes_nbytes = int(self.view["codes_nbytes"][group][tiles > 0].sum())
            shape = launch.search_shape(
                1 << shift,
                launch.decode_codes_capacity(1 << shift, codes_nbytes, total),
                states,
                planes,
                attributes["shared_per_block"],
                attributes["shared_per_multiprocessor"],
            )
            warps = attributes["multiprocessors"] * shape.resident
            pieces = launch.decode_pieces(total // launch.PIECE_TILES, warps)
            units = -(-tiles // (shape.threads * pieces))
            name = "fsst_search" + ("_two" if planes == 2 else "") + ("" if shape.staged else "_large")
            launches.append(_Launch(name, 1 << shift, shape, pieces, place, int(units.sum())))
            arrays.append((np.cumsum(units) - units).astype(_u32))
            place += arrays[-1].nbytes
        return tuple(launches), arrays


class _Matching:
    """What is kept with a column: layouts, and whether it has bytes that continue a character of UTF-8."""

    def __init__(self) -> None:
        self._layouts: dict[Any, _Layout] = {}
        self._asked: tuple[Any, npt.NDArray[np.uint32]] | None = None

    def layout(
        self, reading: Reading, searches: Sequence[Automaton], counts: tuple[int, ...], decodes: bool
    ) -> _Layout:
        states = tuple(machine.states for machine in searches)
        key = current_device(), states, counts, decodes
        made = self._layouts.get(key)
        if made is None:
            if len(self._layouts) >= _KEPT:
                self._layouts.clear()
            made = self._layouts[key] = _Layout(reading, states, counts, decodes)
        return made

    @property
    def continuing(self) -> bool | None:
        """Whether there are such bytes; None: nobody has asked, or the GPU has not answered yet."""
        if self._asked is None or not self._asked[0].done:
            return None
        return bool(self._asked[1][0])

    def ask(self, lane: Lane, address: int) -> None:
        """The GPU will say it in the word at an address."""
        if self._asked is None:
            answer = pinned(1, _u32)
            lane.download(answer, address)
            self._asked = lane.event(), answer
            with _under_way_lock:
                while _under_way and _under_way[0][0].done:
                    _under_way.popleft()
                _under_way.append(self._asked)


#: Pinned memory that copies are under way to, with events behind them: columns may be gone before.
_under_way: deque[tuple[Any, npt.NDArray[np.uint32]]] = deque()
_under_way_lock = threading.Lock()


def match(segments: Sequence[Segment], plan: Plan, *, lane: Lane) -> tuple[Any, bool] | None:
    """Answers for all rows of a column in GPU memory.

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
        else the rows found are candidates. None where a segment is so large that its planes and automata would take
        more memory than a call may, or the question has nothing to search: then decode.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states.
    """
    itemsize = np.dtype(answer_dtype(plan.question)).itemsize
    if not segments:
        return lane.allocate(0), True
    reading = reading_of(segments)
    if reading.matching is None:
        reading.matching = _Matching()
    matching: _Matching = reading.matching
    searches, counts, ask = plan.searches, plan.counts, False
    if isinstance(plan.question, Length | Find):
        continuing = matching.continuing
        ask = continuing is None and isinstance(segments, Segments)
        if continuing is False:
            searches, counts = _without_continuing(plan)
    values = _values_of(plan.question)
    if values is None and isinstance(plan.question, IsIn) and not searches:
        return None
    if values is not None and (_few_are_as_long(reading, values) or values.nbytes > _SPARE // 2):
        searches, counts = (), ()
    layout = matching.layout(reading, searches, counts, values is not None)
    if layout.rounds is None:
        return None
    answers = lane.allocate(itemsize * reading.column.rows)
    if values is None:
        kernel, test = _row_test(plan, sum(counts))
        numbers: npt.NDArray[Any] = np.array(test, _u32)
    else:
        kernel, numbers = "match_values_searched" if searches else "match_values", values
        lane.zero(answers.ptr, answers.size)
    call = _Call(layout, searches, counts, numbers, lane)
    if ask:
        lane.zero(call.seen, 4)
    for one in layout.rounds:
        call.search(one, ask)
        call.answer(one, kernel, answers.ptr)
    if ask:
        matching.ask(lane, call.seen)
    return answers, plan.exact or values is not None


def _values_of(question: Question) -> npt.NDArray[np.uint64] | None:
    """Values that rows are compared with, as the kernel reads them; None where a search alone answers."""
    if isinstance(question, IsIn):
        return words_of(question.values)
    if isinstance(question, Like) and len(question.parts) == 1:
        return words_of(question.parts)
    return None


def _few_are_as_long(reading: Reading, values: npt.NDArray[np.uint64]) -> bool:
    """Whether so few rows can be as long as a value that these are decoded sooner than all codes are searched.

    That is told by the bits that row lengths take.
    """
    lengths = int(np.unpackbits(values[1 : 2 + LONGEST // 64].view(np.uint8)).sum())
    width = 32 * int(reading.view["row_bits_words"].sum()) // reading.column.rows
    return lengths << _WIDTH_BITS <= 1 << width


def _without_continuing(plan: Plan) -> tuple[tuple[Automaton, ...], tuple[int, ...]]:
    """The searches of a `Length` or `Find` where no byte continues a character."""
    if isinstance(plan.question, Length):
        return (), ()
    return tuple(machine._replace(classes=np.zeros_like(machine.classes)) for machine in plan.searches), (1,)


def _row_test(plan: Plan, planes: int) -> tuple[str, list[int]]:
    """The kernel that answers a question for rows, and its `test`."""
    question = plan.question
    if isinstance(question, Like):
        test = plan.test
        assert test is not None
        parts, least = len(test.planes), min(test.least, 2**32 - 1)
        if parts == 1 and not (test.prefix or test.suffix):
            return "match_contains", [test.lengths[0]]
        if parts <= 1:
            from_start = test.prefix and not test.suffix
            return "match_edge", [least, test.equal >= 0, parts, from_start, *(test.lengths or (0,))]
        pairs = [number for pair in zip(test.planes, test.lengths, strict=True) for number in pair]
        return "match_like", [least, parts, test.prefix, test.suffix, *pairs]
    if isinstance(question, IsIn):
        lengths = [length for length in plan.lengths if length < 2**32]
        return "match_is_in", [len(lengths), *lengths]
    if isinstance(question, Count):
        pattern = question.pattern
        overlaps = any(pattern.endswith(pattern[:i]) for i in range(1, len(pattern)))
        return "match_count", [len(pattern), overlaps]
    if isinstance(question, Find):
        return "match_find", [len(question.pattern), planes == 2]
    assert isinstance(question, Length | ByteCount)
    return "match_length" if planes else "match_byte_count", []


class _Call:
    """The memory of a call, and its launches."""

    def __init__(
        self,
        layout: _Layout,
        searches: Sequence[Automaton],
        counts: Sequence[int],
        test: npt.NDArray[Any],
        lane: Lane,
    ) -> None:
        self.layout, self.searches, self.counts, self.lane = layout, searches, counts, lane
        work = self.work = Workspace()
        automata = [work.reserve(launch.AUTOMATON_NBYTES * machine.states * layout.tables_most) for machine in searches]
        tables = [
            table.ravel() for machine in searches for table in (machine.following, machine.accepts, machine.classes)
        ]
        self.machines_at = layout.image.nbytes
        tables_at = self.machines_at + launch.WORD * len(launch.Machine._fields) * len(searches)
        places = list(accumulate((table.size for table in tables), initial=tables_at))
        self.test_at = align(places[-1])
        image_at = work.reserve(self.test_at + test.nbytes)
        planes_at = work.reserve(4 * (layout.planes * layout.plane_words + launch.PLANE_SPARE))
        seen_at = work.reserve(4)
        work.take(lane)
        self.image, self.planes, self.seen = work[image_at], work[planes_at], work[seen_at]
        self.automata = [work[at] for at in automata]
        machines = []
        for i, machine in enumerate(searches):
            following, accepts, classes = (self.image + place for place in places[3 * i : 3 * i + 3])
            machines.append(launch.Machine(machine.states, following, accepts, classes, self.automata[i]))
        gap = np.zeros(self.test_at - places[-1], np.uint8)
        parts = [layout.image, launch.words(machines).view(np.uint8), *tables, gap, test.view(np.uint8)]
        image = np.concatenate(parts)
        image[layout.tables_at : layout.tables_end].view(_u64)[:] += _u64(self.image)
        views = image[layout.views_at : layout.search_views_at].view(_u64).reshape(layout.view.size, -1)
        views[:, _TABLE] += _u64(self.image)
        lane.upload(self.image, image)

    def _segments(self, one: _Round) -> tuple[Any, Any]:
        """Addresses of a round's descriptors."""
        layout, first = self.layout, one.group.start
        return (
            _u64(self.image + layout.views_at + first * launch.DESCRIPTOR.itemsize),
            _u64(self.image + layout.search_views_at + first * launch.SEARCH_VIEW.itemsize),
        )

    def search(self, one: _Round, ask: bool) -> None:
        """Fill the planes of a round; `ask`: and say whether the last has a bit."""
        layout, lane = self.layout, self.lane
        if not self.searches or not layout.plane_words:
            return
        stops = layout.planes * layout.plane_words // one.stride
        zero_blocks = min(blocks(stops, _ZERO_STOPS), _ZERO_STOPS)
        states = 2 * max(machine.states for machine in self.searches)
        lane.launch(
            get_kernel("fsst_match", "fsst_match_automata"),
            (states + zero_blocks, one.table_count, len(self.searches)),
            256,
            (
                _u64(self.image + self.machines_at),
                _u64(self.image + one.tables),
                _u32(zero_blocks),
                _u64(self.planes),
                _u64(stops),
                _u64(one.stride),
            ),
        )
        views, search_views = self._segments(one)
        to = self.planes
        for i, (machine, count, launches) in enumerate(zip(self.searches, self.counts, one.searches, strict=True)):
            for each in launches:
                lane.launch(
                    get_kernel("fsst_search", each.kernel, each.tile_size),
                    each.units,
                    each.shape.threads,
                    (
                        views,
                        search_views,
                        _u64(self.image + each.first_units),
                        _u32(one.group.stop - one.group.start),
                        _u64(self.automata[i]),
                        _u32(machine.states),
                        _u32(max(machine.longest - 1, 0)),
                        _u32(each.shape.codes_capacity),
                        _u32(each.pieces),
                        _u64(to),
                        _u64(layout.plane_words),
                        _u64(self.seen if ask and i == len(self.searches) - 1 else 0),
                    ),
                    each.shape.shared,
                )
            to += 4 * count * layout.plane_words

    def answer(self, one: _Round, kernel: str, answers: int) -> None:
        """Look at the planes of a round for its rows."""
        views, search_views = self._segments(one)
        self.lane.launch(
            get_kernel("fsst_values" if kernel.startswith("match_values") else "fsst_match", kernel),
            launch.row_grid(one.row_blocks, device_attributes()["multiprocessors"]),
            launch.ROW_THREADS,
            (
                views,
                search_views,
                _u32(one.group.stop - one.group.start),
                _u64(one.row_blocks),
                _u64(self.planes),
                _u64(self.layout.plane_words),
                _u64(self.image + self.test_at),
                _u64(answers),
            ),
        )
