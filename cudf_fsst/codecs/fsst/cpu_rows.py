"""Automata of rows, run over the codes of an FSST column on the host, in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ..part import edges_of
from ..text.cpu import Reader, cut, run
from ..text.layout import ROW_BLOCK
from ..text.segment import Segment
from ..unaligned import address
from . import cpu_rows_kernels as kernels
from .rows import Lifted, lift
from .symbols import SymbolTable

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
    lifted: dict[SymbolTable, Lifted] = {}
    for segment, base in zip(segments, edges.tolist(), strict=False):
        reader, blocks = Reader(segment), segment.layout.row_blocks
        if segment.table not in lifted:
            lifted[segment.table] = lift(machine, segment.table)
        step = min(max(1, _CHUNK_CHARS * blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            work.append(partial(_answer_blocks, reader, first, last, machine, lifted[segment.table], out))
    run(work, answers.size, sum(segment.chars for segment in segments))
    return answers


def _answer_blocks(
    reader: Reader, first: int, last: int, machine: RowAutomaton, lifted: Lifted, out: npt.NDArray[np.uint8]
) -> None:
    """Answer for the rows of row blocks `first` to ``last - 1``."""
    reason, where = kernels.answer_rows(
        reader.tiles,
        reader.rows,
        first,
        last,
        address(lifted.entries),
        machine.states,
        address(lifted.restarts),
        reader.segment.table.decode_symbols,
        int(machine.verdicts[0]),
        address(out),
    )
    if reason == kernels.BAD_TILE:
        reader.damaged_tile(where)
    if reason == kernels.BAD_ROWS:
        reader.damaged_rows(where)
