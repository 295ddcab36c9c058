"""Codes of a symbol table as the numbers that automata of rows read (`text.cpu_rows_kernels`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.cpu_rows_lift import BYTES, RowSymbols
from ..text.cpu_rows_runs import RowCodes
from ..unaligned import load8, store16, widen64
from .cpu_compare_kernels import place_codes
from .symbols import ESCAPE, SymbolTable


def row_symbols(table: SymbolTable) -> RowSymbols:
    """What codes stand for, and behind them escapes, each with the byte that it is before."""
    words = np.concatenate([table.decode_symbols[:, None], BYTES.words])
    return RowSymbols(words, np.concatenate([table.decode_lengths, BYTES.lengths]), 256)


@njit()
def unpack(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: tuple[int, int, int]) -> int:
    """The codes of a tile; see `text.cpu_rows_runs.RowCodes`.

    A byte behind an escape is written in its place, and the escape, which stands for no bytes, behind it.
    """
    count = place_codes(at, end, limit, nbytes, places, table)
    if count <= 0:
        return count
    if at + 256 < limit:
        widen64(at, np.int64(0), numbers)
        widen64(at + 64, np.int64(load8(at + 63)), numbers + 128)
        if count > 128:
            widen64(at + 128, np.int64(load8(at + 127)), numbers + 256)
            widen64(at + 192, np.int64(load8(at + 191)), numbers + 384)
        return count
    escaped = False
    for i in range(count):
        code = np.int64(load8(at + i))
        store16(numbers + 2 * i, np.uint16(ESCAPE if escaped else code))
        if escaped:
            store16(numbers + 2 * i - 2, np.uint16(256 | code))
        escaped = code == ESCAPE
    return count


@njit()
def _reading(table: tuple[int, int, int]) -> int:
    return 0


@njit(inline="always")
def _code(at: int, limit: int, index: Any, reading: int) -> Any:
    """A code of a tile, and where the next one is; a byte behind an escape is 256 more."""
    code = np.int64(load8(at + index))
    escaped = np.int64(code == ESCAPE)
    literal = np.int64(load8(at + index + escaped))
    return (literal | 256) if escaped else code, index + 1 + escaped


#: What reads the codes of a tile.
CODES = RowCodes(unpack, place_codes, _reading, _code)
