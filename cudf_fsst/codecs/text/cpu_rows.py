"""Automata of rows, run over the codes of a column of text on the host, in threads.

Tiles of a codec that lifts no automata are decoded, and read as raw ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..contract import Table
from ..part import edges_of
from ..registry import of_text
from ..unaligned import address
from ..work import cut, run
from . import cpu_rows_kernels as kernels
from .cpu import SegmentReader
from .cpu_match import Decoded
from .layout import ROW_BLOCK
from .rows import Lifted, lift_bytes
from .segment import Segment

#: Characters of the row blocks that a thread answers at once, and how many these are at most.
_CHUNK_CHARS, _CHUNK_ROW_BLOCKS = 2**22, 1024


def answer(segments: Sequence[Segment], machine: RowAutomaton) -> npt.NDArray[np.uint8]:
    """What an automaton says of every row.

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
    lifted: dict[Table, Lifted] = {}
    for segment, base in zip(segments, edges.tolist(), strict=False):
        reader, blocks = SegmentReader(segment), segment.layout.row_blocks
        if segment.table not in lifted:
            search = of_text(segment.codec).host().SEARCH
            lifted[segment.table] = lift_bytes(machine) if search is None else search.lift_rows(machine, segment.table)
        step = min(max(1, _CHUNK_CHARS * blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            work.append(partial(_answer_blocks, reader, first, last, machine, lifted[segment.table], out))
    run(work, answers.size, sum(segment.chars for segment in segments))
    return answers


def _answer_blocks(
    reader: SegmentReader, first: int, last: int, machine: RowAutomaton, lifted: Lifted, out: npt.NDArray[np.uint8]
) -> None:
    """Answer for the rows of row blocks `first` to ``last - 1``."""
    decodes = of_text(reader.segment.codec).host().SEARCH is None
    decoded = Decoded(reader, first, last) if decodes else None  # which holds what is read
    reason, where = kernels.answer_rows(
        reader.tiles if decoded is None else decoded.tiles,
        reader.rows,
        first,
        last,
        address(lifted.entries),
        machine.states,
        address(lifted.restarts),
        lifted.symbols,
        address(lifted.lengths),
        lifted.escape,
        int(machine.verdicts[0]),
        address(out),
    )
    if reason == kernels.BAD_TILE:
        reader.damaged_tile(where)
    if reason == kernels.BAD_ROWS:
        reader.damaged_rows(where)
