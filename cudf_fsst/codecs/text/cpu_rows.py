"""Automata of rows, run over the codes of a column of text on the host, in threads.

Tiles of a codec that lifts no automata are decoded, and read as raw ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..part import edges_of
from ..registry import of_text
from ..table import Table
from ..unaligned import address
from ..work import cut, run
from . import cpu_rows_kernels as kernels
from . import cpu_rows_lift as lifting
from .cpu_match import Decoded
from .cpu_places_kernels import PLAN_NBYTES
from .cpu_read import SegmentReader
from .cpu_rows_runs import BAD_ROWS, BAD_TILE
from .layout import ROW_BLOCK
from .segment import Segment

#: Answers for row blocks of a segment, the first and behind the last one, at an address; what is wrong, and where.
_Answer = Callable[[SegmentReader, int, int, int], tuple[int, int]]

#: Characters of the row blocks that a thread answers at once, and how many these are at most.
_CHUNK_CHARS, _CHUNK_ROW_BLOCKS = 2**22, 1024


def answer(segments: Sequence[Segment], machine: RowAutomaton) -> npt.NDArray[np.uint8]:
    """The verdict of an automaton on every row.

    Parameters
    ----------
    segments
        Host segments.
    machine

    Returns
    -------
    ndarray of uint8, shape (rows,)
        `automata.NO`, `YES` or `UNDECIDED`. Of null rows it means nothing.

    Raises
    ------
    ValueError
        A segment is damaged, as far as was looked at.
    """
    edges = edges_of(segments)
    answers = np.empty(int(edges[-1]), np.uint8)
    work: list[Callable[[], None]] = []
    by_table: dict[Table, _Answer] = {}
    for segment, base in zip(segments, edges.tolist(), strict=False):
        reader, blocks = SegmentReader(segment), segment.layout.row_blocks
        if segment.table not in by_table:
            by_table[segment.table] = _answer_of(machine, reader)
        step = min(max(1, _CHUNK_CHARS * blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            work.append(partial(_answer_blocks, reader, first, last, by_table[segment.table], out))
    run(work, answers.size, sum(segment.chars for segment in segments))
    return answers


@lru_cache(8)
def _lifted(machine: RowAutomaton, table: Table) -> tuple[lifting.RowSymbols, lifting.LiftedRows]:
    """An automaton that reads codes of a table, or bytes; kept for calls that ask the same again."""
    search = of_text(table.codec).host().SEARCH
    symbols = lifting.BYTES if search is None else search.row_symbols(table)
    return symbols, lifting.lift(machine, symbols)


def _answer_of(machine: RowAutomaton, sample: SegmentReader) -> _Answer:
    """The function that answers for row blocks of segments with a table, of which one is given."""
    table = sample.segment.table
    search = of_text(table.codec).host().SEARCH
    answerer = kernels.answer_bytes if search is None else search.row_answerer
    symbols, lifted = _lifted(machine, table)
    # Up to eight bytes from any of the text are read.
    text, plan = np.frombuffer(machine.text.ljust(16, b"\0"), np.uint8), np.zeros(PLAN_NBYTES, np.uint8)
    finding = 0, address(text), len(machine.text)
    if search is not None and search.plan is not None and len(machine.text) > 1 and not lifted.early:
        looked_at = search.plan(*finding[1:], sample.tiles, address(plan), sample.table)
        if np.isfinite(looked_at):  # else codes do not say which tiles lack the text
            finding = address(plan), *finding[1:]

    def answer(reader: SegmentReader, first: int, last: int, out: int) -> tuple[int, int]:
        # These hold what is read.
        decoded, _ = Decoded(reader, first, last) if search is None else reader, (text, plan)
        how = answerer, lifted, machine, symbols, finding
        return kernels.answer(*how, (decoded.tiles, reader.rows, reader.table), (first, last), out)

    return answer


def _answer_blocks(reader: SegmentReader, first: int, last: int, answer: _Answer, out: npt.NDArray[np.uint8]) -> None:
    """Answer for the rows of row blocks `first` to ``last - 1``."""
    reason, where = answer(reader, first, last, address(out))
    if reason == BAD_TILE:
        reader.damaged_tile(where)
    if reason == BAD_ROWS:
        reader.damaged_rows(where)
