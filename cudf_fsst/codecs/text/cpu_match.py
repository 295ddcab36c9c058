"""Questions about the rows of a column of text on the host, answered on its codes (`search`), in threads.

Tiles of a codec that lifts no automata are decoded, and searched as raw ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import HostTextCodec
from ..part import edges_of
from ..registry import of_text
from ..table import Table
from ..unaligned import address
from ..work import cut, run
from . import cpu_compare
from . import cpu_match_kernels as kernels
from . import cpu_search_kernels as searching
from .cpu_read import SegmentReader, validity
from .layout import ROW_BLOCK, TILE_BLOCK
from .search import Automaton, Count, Find, Length, Like, Plan, answer_dtype, values_of
from .segment import Segment, Segments

__all__ = ["match", "validity"]

#: Characters of the row blocks that a thread answers at once, and how many these are at most.
_CHUNK_CHARS, _CHUNK_ROW_BLOCKS = 2**22, 1024
#: Bits of a window's planes together, and characters that it has at least. With them the planes stay in the L2 cache.
_WINDOW_BITS, _WINDOW_CHARS = 2**18, 2**15


def match(segments: Sequence[Segment], plan: Plan) -> npt.NDArray[np.bool_] | npt.NDArray[np.int32]:
    """Answer a question for every row.

    Parameters
    ----------
    segments
        Host segments. A `Segments` keeps what is found of it: whether bytes continue a character.
    plan
        Of the question. Where it is not exact, more rows may be true than are, unless it is about whole values.

    Returns
    -------
    ndarray of bool or int32, shape (rows,)
        bool for `Like` and `IsIn`. 0 for null rows.

    Raises
    ------
    OverflowError
        An answer is larger than int32.
    ValueError
        A segment is damaged, as far as was looked at: lengths of row blocks without a match are not.
    """
    values = values_of(plan.question)
    if values is not None:
        return cpu_compare.equal(segments, values)
    if isinstance(plan.question, Like) and plan.exact and len(plan.question.parts) == 2:
        least = sum(map(len, plan.question.parts)) + plan.question.more
        return cpu_compare.begin_and_end(segments, *plan.question.parts, least)
    edges = edges_of(segments)
    answers: npt.NDArray[np.bool_] | npt.NDArray[np.int32] = np.zeros(int(edges[-1]), answer_dtype(plan.question))
    question, numbers, parts = _parameters(plan)
    asked = isinstance(plan.question, Length)
    continued = segments.continued if isinstance(segments, Segments) else None
    seen = np.zeros(len(segments), np.bool_)
    whole, plain = _searches(plan), _searches(plan, continued=False)
    work: list[Callable[[], None]] = []
    automata: _Automata | None = None
    for number, segment in enumerate(segments):
        reader = SegmentReader(segment)
        searches = plain if continued is not None and not continued[number] else whole
        if automata is None or automata.searches is not searches or automata.table != segment.table:
            automata = _Automata(searches, segment.table)
        base = int(edges[number])
        layout = segment.layout
        step = min(max(1, _CHUNK_CHARS * layout.row_blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, layout.row_blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            automata.uses += 1
            args = reader, first, last, question, numbers, parts, automata, seen[number : number + 1], out
            work.append(partial(_match_blocks, *args))
    run(work, answers.size, sum(segment.chars for segment in segments))
    if asked and isinstance(segments, Segments):
        segments.continued = tuple(seen.tolist())
    return answers


def _parameters(plan: Plan) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A question and what `kernels.match_rows` is told of it."""
    question = plan.question
    numbers: Sequence[int] = ()
    parts: Sequence[tuple[int, int]] = ()
    if isinstance(question, Like):
        kind, test = kernels.LIKE, plan.test
        assert test is not None
        parts = list(zip(test.planes, test.lengths, strict=True))
        numbers = [test.prefix, test.suffix, test.least]
    elif isinstance(question, Count):
        kind, numbers = kernels.COUNT, [len(question.pattern)]
    elif isinstance(question, Find):
        kind = kernels.FIND
        numbers = [len(question.pattern), sum(byte >> 6 == 2 for byte in question.pattern)]
    else:
        kind = kernels.LENGTH
    return kind, np.array(numbers, np.int64), np.array(parts, np.int64).reshape(-1, 2)


def _searches(plan: Plan, *, continued: bool = True) -> tuple[tuple[Automaton, int], ...]:
    """Automata, each with its planes; the plane of bytes that continue a character only where there are any."""
    searches = tuple(zip(plan.searches, plan.counts, strict=True))
    if continued or not isinstance(plan.question, Find | Length):
        return searches
    none = np.zeros(256, np.uint8)
    return tuple((machine._replace(classes=none), count - 1) for machine, count in searches if count > 1)


class _Automata:
    """Automata that read the codes of a table, or bytes, kept while there are threads to use them.

    Attributes
    ----------
    searches : tuple of (Automaton, int)
        Those that read bytes, each with its planes.
    table : Table
    uses : int
        How often they are still to be taken.
    """

    def __init__(self, searches: tuple[tuple[Automaton, int], ...], table: Table) -> None:
        self.searches, self.table, self.uses = searches, table, 0
        self._side: HostTextCodec = of_text(table.codec).host()
        self._lock = threading.Lock()
        self._lifted: list[npt.NDArray[np.uint64]] = []

    def take(self) -> list[npt.NDArray[np.uint64]]:
        """Take them, made on the first call and forgotten with the last one."""
        with self._lock:
            if len(self._lifted) < len(self.searches):
                self._lifted = [self._make(machine) for machine, _ in self.searches]
            lifted = self._lifted
            self.uses -= 1
            if self.uses == 0:
                self._lifted = []
            return lifted

    @property
    def match_rows(self) -> Any:
        """The function that answers a question for rows."""
        return kernels.match_rows if self._side.SEARCH is None else self._side.SEARCH.match_rows

    @property
    def decodes(self) -> bool:
        """Whether tiles are to be decoded before they are searched."""
        return self._side.SEARCH is None

    def _make(self, machine: Automaton) -> npt.NDArray[np.uint64]:
        if self._side.SEARCH is not None:
            return self._side.SEARCH.lift(machine, self.table)
        entries = np.zeros((3 * machine.states, 256), np.uint64)
        searching.lift_bytes(machine.following, machine.accepts, machine.classes, entries)
        return entries


class Decoded:
    """The tiles that rows of some row blocks lie in, decoded: as raw ones, where these would lie in the segment.

    Attributes
    ----------
    tiles : tuple of int
        As `SegmentReader.tiles`.
    """

    def __init__(self, reader: SegmentReader, first: int, last: int) -> None:
        layout = reader.segment.layout
        size, chars = layout.tile_size, layout.chars
        starts = reader.segment.section("row_starts")
        begin, end = int(starts[first]), int(starts[last])
        if not 0 <= begin <= end <= chars:
            reader.damaged_rows(first)
        block = begin // (size * TILE_BLOCK)
        low, high = block * size * TILE_BLOCK, min(-(-end // size) * size, chars)
        self._chars = np.empty(high - low, np.uint8)
        reader.decode(low, high, self._chars)
        tiles = -(-high // size) - block * TILE_BLOCK
        self._lengths = np.full(tiles, size - 1, f"<u{layout.tile_length_itemsize}")
        if tiles:
            self._lengths[-1] = high - low - (tiles - 1) * size - 1
        ends = np.arange(block, block + -(-tiles // TILE_BLOCK) + 1, dtype=np.uint64) * np.uint64(size * TILE_BLOCK)
        self._block_starts = np.minimum(ends, np.uint64(chars))
        self.tiles = (
            address(self._chars) - low,
            chars,
            address(self._block_starts) - 8 * block,
            address(self._lengths) - self._lengths.itemsize * block * TILE_BLOCK,
            chars,
            size,
        )


def _match_blocks(
    reader: SegmentReader,
    first: int,
    last: int,
    question: int,
    numbers: npt.NDArray[np.int64],
    parts: npt.NDArray[np.int64],
    automata: _Automata,
    seen: npt.NDArray[np.bool_],
    answers: npt.NDArray[np.bool_] | npt.NDArray[np.int32],
) -> None:
    """Answer a question for the rows of row blocks `first` to ``last - 1``; `seen`: whether a search found anything."""
    segment = reader.segment
    tile_size = segment.layout.tile_size
    lifted = automata.take()
    decoded = Decoded(reader, first, last) if automata.decodes and lifted else None
    searches = np.array(
        [
            (address(entries), machine.states, max(machine.longest - 1, 0), count)
            for entries, (machine, count) in zip(lifted, automata.searches, strict=True)
        ],
        np.int64,
    ).reshape(-1, 4)
    planes = sum(count for _, count in automata.searches)
    tiles = min(max(_WINDOW_CHARS, _WINDOW_BITS // max(1, planes)) // tile_size, segment.layout.tiles)
    window = np.zeros(searching.KEPT + 2 * len(lifted), np.int64)
    reason, where = automata.match_rows(
        reader.tiles if decoded is None else decoded.tiles,
        reader.rows,
        first,
        last,
        question,
        numbers,
        parts,
        searches,
        np.empty(tiles + 1, np.int64),
        np.empty((searching.LANES, max(searching.BATCH, tile_size) + 2), np.uint64),
        np.empty(planes * (tiles * tile_size // 8 + 8), np.uint8),
        window,
        address(answers),
    )
    if reason == kernels.BAD_TILE:
        reader.damaged_tile(where)
    if reason == kernels.BAD_ROWS:
        reader.damaged_rows(where)
    if reason == kernels.TOO_LARGE:
        raise OverflowError(f"the answer for row {where} of a segment is larger than int32")
    if window[searching.KEPT + 1 :: 2].any():
        seen[0] = True
    if segment.null_count:
        bits = segment.section("validity")[first * ROW_BLOCK // 8 :]
        answers *= np.unpackbits(bits, count=answers.size, bitorder="little").view(np.bool_)
