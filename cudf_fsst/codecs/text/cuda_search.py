"""Questions about rows, answered on the GPU from the codes: nothing is decoded, and the GPU is not waited for.

A codec says how its codes are searched (`cuda_match_layout.Searcher`); the rest is the same for all codecs of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...device.memory import Coming, Lane, current_device, device_attributes
from ..cuda_kernels import blocks
from ..cuda_tables import KeptLaunch
from . import launch
from .cuda_kernels import get_kernel
from .cuda_match_layout import SPARE, MatchLayout, Prepared, Round, Searcher
from .cuda_reading import Reading
from .layout import ROW_BLOCK
from .search import (
    Automaton,
    ByteCount,
    Count,
    Find,
    IsIn,
    Length,
    Like,
    Plan,
    Sets,
    answer_dtype,
    without_states,
)
from .values import LONGEST, words_of

_u32, _u64 = np.uint32, np.uint64

#: Layouts, and questions of few bytes, that are kept with a column.
_KEPT = 8
_KEPT_NBYTES = 1 << 17
#: Words that a block of a kernel that makes automata sets to zero, four at a time.
_ZERO_STOPS = 1024
#: Rows are told by their lengths alone where values have one of 2 ** so many lengths that the bits could say; where
#: a search alone answers, or values have more than so many lengths, fewer. TPC-H SF 10 on an H200: l_comment (6 bits)
#: ``== value`` 0.38 ms by lengths and 0.57 by a search, ten values 1.64 and 1.15; o_orderpriority (4 bits) ``== value``
#: 0.34 and 0.11. Lines of Chinese (7 bits, many of one length), ten values of 5 lengths: 1.29 and 0.90.
_WIDTH_BITS, _EXACT_BITS, _FEW_LENGTHS = 3, 5, 4


class _Matching:
    """What is kept with a column: layouts, and whether it has bytes that continue a character of UTF-8."""

    def __init__(self) -> None:
        self._layouts: dict[Any, MatchLayout] = {}
        self.prepared: dict[Any, Prepared] = {}
        self._asked: Coming | None = None

    def layout(
        self,
        reading: Reading,
        searcher: Searcher,
        searches: Sequence[Automaton],
        counts: tuple[int, ...],
        decodes: bool,
    ) -> MatchLayout:
        states = tuple(machine.states for machine in searches)
        key = current_device(), states, counts, decodes
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _KEPT:
                self._layouts.clear()
            layout = self._layouts[key] = MatchLayout(reading, searcher, states, counts, decodes)
        return layout

    @property
    def continuing(self) -> bool | None:
        """Whether there are such bytes; None: nobody has asked, or the GPU has not answered yet."""
        found = None if self._asked is None else self._asked.array
        return None if found is None else bool(found[0])

    def ask(self, lane: Lane, address: int) -> None:
        """The GPU will say it in the word at an address."""
        if self._asked is None:
            self._asked = Coming(lane, address, 1, _u32)


def match(reading: Reading, plan: Plan, searcher: Searcher, *, kept: bool, lane: Lane) -> tuple[Any, bool] | None:
    """Answers for all rows of a column in GPU memory.

    Parameters
    ----------
    reading
        Of a column that has rows, all of one codec.
    plan
    searcher
        Of that codec; equal in all calls with a reading.
    kept : bool
        Whether later calls have the same reading.
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
    if reading.matching is None:
        reading.matching = _Matching()
    matching: _Matching = reading.matching
    continuing = matching.continuing if isinstance(plan.question, Length | Find) else False
    ask = kept and continuing is None
    key = current_device(), plan.question, continuing
    prepared = matching.prepared.get(key)
    if prepared is None:
        prepared = _prepare(reading, searcher, matching, plan, ask=ask, continuing=continuing is not False)
        if prepared is None:
            return None
        if prepared.image.nbytes <= _KEPT_NBYTES:
            if len(matching.prepared) >= _KEPT:
                matching.prepared.clear()
            matching.prepared[key] = prepared
    compared = prepared.kernel.startswith("match_values")
    work = lane.allocate(prepared.work.nbytes)
    address = int(work.ptr)
    lane.upload(address, prepared.image_at(address))
    if ask:
        lane.zero(address + prepared.seen, 4)
    answers: Any = None  # their memory is taken while the GPU is at work
    for searches, answering in prepared.steps:
        for step in searches:
            step.launch(lane, address)
        if answers is None:
            answers = lane.allocate(np.dtype(answer_dtype(plan.question)).itemsize * reading.column.rows)
            if compared:
                lane.zero(answers.ptr, answers.size)
        answering.launch(lane, address, _u64(answers.ptr))
    if ask:
        matching.ask(lane, address + prepared.seen)
    return answers, plan.exact or compared


def _prepare(
    reading: Reading, searcher: Searcher, matching: _Matching, plan: Plan, *, ask: bool, continuing: bool
) -> Prepared | None:
    """What a question needs; None where decoding has to answer it. `continuing`: bytes may continue a character."""
    searches, counts = plan.searches, plan.counts
    if isinstance(plan.question, Length | Find) and not continuing:
        searches, counts = _without_continuing(plan)
    values = _values_of(plan)
    wide = plan.exact or len(plan.lengths) > _FEW_LENGTHS
    few = values is not None and _few_are_as_long(reading, values, _EXACT_BITS if wide else _WIDTH_BITS)
    if values is None or (plan.exact and not few):
        if isinstance(plan.question, IsIn) and not searches:
            return None
        kernel, numbers = _row_test(plan, sum(counts))
        test: npt.NDArray[Any] = np.array(numbers, _u32)
        by_edges = _prepare_edges(reading, searcher, matching, plan) if kernel == "match_edge" and searches else None
        if by_edges is not None:
            return by_edges
    else:
        if few or values.nbytes > SPARE // 2:
            searches, counts = (), ()
        kernel, test = "match_values_searched" if searches else "match_values", values
    searches = tuple(map(without_states, searches))
    layout = matching.layout(reading, searcher, searches, counts, kernel.startswith("match_values"))
    if layout.rounds is None:
        return None
    prepared = Prepared(layout, searches, counts, kernel, test)
    prepared.steps = [_steps(prepared, search_round, ask=ask) for search_round in layout.rounds]
    return prepared


def _prepare_edges(reading: Reading, searcher: Searcher, matching: _Matching, plan: Plan) -> Prepared | None:
    """What a `Like` of one part at an edge of rows needs where one kernel answers it, as fsst_edges.cu says."""
    question, edge, column, view = plan.question, plan.test, reading.column, reading.view
    assert isinstance(question, Like)
    assert edge is not None
    codes_nbytes, most = int(view["codes_nbytes"].sum()), int(view["chars"].max())
    found = searcher.edges(column.rows, column.chars, codes_nbytes, most, edge.lengths[0])
    layout = None if found is None else matching.layout(reading, searcher, (), (), True)
    if found is None or layout is None or layout.rounds is None:
        return None
    kernel, shape = found
    from_start, length, limit = edge.prefix and not edge.suffix, edge.lengths[0], 2**32 - 1
    pattern = question.parts[0][:length] if from_start else question.parts[-1][-length:]
    words = np.frombuffer(pattern.ljust(launch.EDGE_NBYTES, b"\0"), np.uint8)
    least = min(edge.least, limit)
    row_blocks = -(-layout.view["rows"].astype(np.int64) // ROW_BLOCK)
    units = -(-row_blocks // shape.unit)
    begins = np.cumsum(units) - units
    # A thread block has the table of consecutive segments, and its warps take their units one after another.
    tables = layout.view["table"]
    firsts = np.flatnonzero(np.append(True, tables[1:] != tables[:-1]))
    counts = np.add.reduceat(units, firsts)
    resident = device_attributes()["multiprocessors"] * shape.blocks
    shares = np.maximum(np.rint(resident * counts / max(units.sum(), 1)), 1).astype(np.int64)
    grid = np.minimum(shares, -(-counts // (shape.threads // launch.BUNDLE_TILES)))
    groups = np.concatenate([np.cumsum(grid) - grid, begins[firsts] + counts, begins[firsts], begins])
    test = np.concatenate([words, groups.astype(_u32).view(np.uint8)])
    prepared = Prepared(layout, (), (), "edges", test)
    arguments = (
        layout.views_at,
        prepared.test + words.nbytes,
        *map(
            _u32, (firsts.size, units.size, shape.unit, least, limit if edge.equal < 0 else least, from_start, length)
        ),
        words.view(_u64)[0],
        prepared.test,
    )
    prepared.steps = [([], KeptLaunch(kernel, int(grid.sum()), shape.threads, arguments, shape.shared))]
    return prepared


def _values_of(plan: Plan) -> npt.NDArray[np.uint64] | None:
    """Values that rows are compared with, as the kernel reads them; None where a search alone answers."""
    question = plan.question
    if isinstance(question, IsIn):
        return words_of(question.values, plan.beginning)
    if isinstance(question, Like) and len(question.parts) == 1:
        return words_of(question.parts)
    return None


def _few_are_as_long(reading: Reading, values: npt.NDArray[np.uint64], bits: int) -> bool:
    """Whether so few rows can be as long as a value that these are decoded sooner than all codes are searched.

    That is told by the bits that row lengths take: values have one of 2 ** `bits` of the lengths that these could say.
    """
    lengths = int(np.unpackbits(values[1 : 2 + LONGEST // 64].view(np.uint8)).sum())
    width = 32 * int(reading.view["row_bits_words"].sum()) // reading.column.rows
    return lengths << bits <= 1 << width


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
        if parts == 1 and not (test.prefix or test.suffix or question.more):
            return "match_contains", [test.lengths[0]]
        if parts == 0 or (parts == 1 and (test.prefix or test.suffix)):
            from_start = test.prefix and not test.suffix
            return "match_edge", [least, test.equal >= 0, parts, from_start, *(test.lengths or (0,))]
        pairs = [number for pair in zip(test.planes, test.lengths, strict=True) for number in pair]
        return "match_like", [least, parts, test.prefix, test.suffix, *pairs]
    if isinstance(question, Sets):
        return "match_contains", [len(question.sets)]
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


def _steps(prepared: Prepared, search_round: Round, *, ask: bool) -> tuple[list[KeptLaunch], KeptLaunch]:
    """The launches that fill the planes of a round, and the one that looks at them for its rows.

    `ask`: the last search says whether its last plane has a bit.
    """
    layout, first, steps = prepared.layout, search_round.group.start, list[KeptLaunch]()
    segments = (
        layout.views_at + first * launch.SEGMENT_VIEW.itemsize,
        layout.search_views_at + first * launch.SEARCH_VIEW.itemsize,
        _u32(search_round.group.stop - search_round.group.start),
    )
    if prepared.searches and layout.plane_words:
        steps.append(_automata_step(prepared, search_round))
        steps += _search_steps(prepared, search_round, segments, ask=ask)
    kernel = prepared.kernel
    compares = kernel.startswith("match_values")
    answering = KeptLaunch(
        layout.searcher.values_kernel(kernel) if compares else get_kernel("text_match", kernel),
        launch.row_grid(search_round.row_blocks, device_attributes()["multiprocessors"]),
        launch.ROW_THREADS,
        (*segments, _u64(search_round.row_blocks), prepared.planes, _u64(layout.plane_words), prepared.test),
    )
    return steps, answering


def _automata_step(prepared: Prepared, search_round: Round) -> KeptLaunch:
    layout, searches, searcher = prepared.layout, prepared.searches, prepared.layout.searcher
    stops = layout.planes * layout.plane_words // search_round.stride
    zero_blocks = min(blocks(stops, _ZERO_STOPS), _ZERO_STOPS)
    states = searcher.BLOCKS * max(machine.states for machine in searches)
    return KeptLaunch(
        searcher.automata_kernel(),
        (states + zero_blocks, search_round.table_count, len(searches)),
        256,
        (
            prepared.machines,
            search_round.tables,
            _u32(zero_blocks),
            prepared.planes,
            _u64(stops),
            _u64(search_round.stride),
            *searcher.more_of_automata(),
        ),
    )


def _search_steps(
    prepared: Prepared, search_round: Round, segments: tuple[Any, ...], *, ask: bool
) -> Iterator[KeptLaunch]:
    layout, searches, searcher = prepared.layout, prepared.searches, prepared.layout.searcher
    to = prepared.planes
    for i, (machine, count, launches) in enumerate(zip(searches, prepared.counts, search_round.searches, strict=True)):
        for each in launches:
            yield KeptLaunch(
                searcher.search_kernel(each.tile_size, machine.states, count, each.shape.staged),
                each.units,
                each.shape.threads,
                (
                    *segments[:2],
                    each.first_units,
                    segments[2],
                    prepared.automata[i],
                    _u32(machine.states),
                    _u32(max(machine.longest - 1, 0)),
                    _u32(each.shape.codes_capacity),
                    _u32(each.bundles),
                    to,
                    _u64(layout.plane_words),
                    prepared.seen if ask and i == len(searches) - 1 else _u64(0),
                    *searcher.more_of_search(machine.states, count, each.shape.staged),
                ),
                each.shape.shared,
            )
        to += 4 * count * layout.plane_words
