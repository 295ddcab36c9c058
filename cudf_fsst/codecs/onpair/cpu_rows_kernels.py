"""Codes of a table of pairs as the numbers that automata of rows read (`text.cpu_rows_kernels`)."""

from __future__ import annotations

import numpy as np

from ..jit import njit
from ..text.cpu_rows_lift import RowSymbols
from ..unaligned import fill64, load8, load16, load64, store8
from .cpu_search_kernels import codes_of
from .cpu_search_kernels import unpack as unpack_codes
from .symbols import OnPairTable


def row_symbols(table: OnPairTable) -> RowSymbols:
    """What codes stand for, those of bytes first."""
    return RowSymbols(table.words, table.lengths)


@njit()
def unpack(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: tuple[int, int, int]) -> int:
    """The codes of a tile; see `text.cpu_rows_kernels.row_answerer`."""
    lengths, bits = table[1], np.int64(load64(table[2]))
    count = codes_of(end - at, nbytes, bits)
    unpack_codes(at, end - at, nbytes, limit, bits, numbers)
    for i in range(0, 256, 64):
        fill64(places + i)
    done = np.int64(0)
    for i in range(count):
        done += np.int64(load8(lengths + np.int64(load16(numbers + 2 * i))))
        store8(places + i, np.uint8((done - 1) & 255))
    return count if done == nbytes and count > 0 else -1
