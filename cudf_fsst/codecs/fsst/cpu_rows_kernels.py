"""Codes of a symbol table as the numbers that automata of rows read (`text.cpu_rows_kernels`)."""

from __future__ import annotations

import numpy as np

from ..jit import njit
from ..text.cpu_rows_lift import BYTES, RowSymbols
from ..unaligned import load8, store16, widen64
from .cpu_compare_kernels import place_codes
from .symbols import ESCAPE, SymbolTable


def row_symbols(table: SymbolTable) -> RowSymbols:
    """What codes stand for, and behind them escapes, each with the byte that it is before."""
    words = np.concatenate([table.decode_symbols[:, None], BYTES.words])
    return RowSymbols(words, np.concatenate([table.decode_lengths, BYTES.lengths]), 256)


@njit()
def unpack(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: tuple[int, int, int]) -> int:
    """The codes of a tile; see `text.cpu_rows_kernels.row_answerer`.

    A byte behind an escape is written in its place, and the escape, which stands for no bytes, behind it.
    """
    known = place_codes(at, end, limit, nbytes, places, table)
    if known <= 0:
        return known
    count, before = end - at, np.int64(0)
    if at + known < limit:
        for i in range(0, known, 64):
            widen64(at + i, before, numbers + 2 * i)
            before = np.int64(load8(at + i + 63))
        return count
    escaped = False
    for i in range(count):
        code = np.int64(load8(at + i))
        store16(numbers + 2 * i, np.uint16(ESCAPE if escaped else code))
        if escaped:
            store16(numbers + 2 * i - 2, np.uint16(256 | code))
        escaped = code == ESCAPE
    return count
