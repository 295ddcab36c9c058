"""Codes of a table of pairs as the numbers that automata of rows read (`text.cpu_rows_kernels`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..text.cpu_rows_lift import RowSymbols
from ..text.cpu_rows_runs import RowCodes
from ..unaligned import fill64, load8, load16, load64, store8, sum64
from .cpu_compare_kernels import code_at_bit
from .cpu_search_kernels import codes_of
from .cpu_search_kernels import unpack as unpack_codes
from .symbols import OnPairTable


def row_symbols(table: OnPairTable) -> RowSymbols:
    """What codes stand for, those of bytes first."""
    return RowSymbols(table.words, table.lengths)


@njit()
def _sum_lengths(count: int, nbytes: int, places: int) -> int:
    """Make the lengths of the symbols of a tile, in `places`, where they end; `count`, or -1: they do not fit."""
    total: Any = sum64(places, count, np.int64(0), places)
    total = sum64(places + 64, max(count - 64, 0), total, places + 64)
    if count > 128:
        total = sum64(places + 128, count - 128, total, places + 128)
        total = sum64(places + 192, max(count - 192, 0), total, places + 192)
    else:
        fill64(places + 128)
        fill64(places + 192)
    return count if total == nbytes and count > 0 else -1


@njit()
def unpack(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: tuple[int, int, int]) -> int:
    """The codes of a tile; see `text.cpu_rows_runs.RowCodes`."""
    lengths, bits = table[1], np.int64(load64(table[2]))
    count = codes_of(end - at, nbytes, bits)
    unpack_codes(at, end - at, nbytes, limit, bits, numbers)
    for i in range(count):
        store8(places + i, load8(lengths + np.int64(load16(numbers + 2 * i))))
    return _sum_lengths(count, nbytes, places)


@njit(inline="always")
def _store_lengths(window: Any, wide: Any, mask: Any, lengths: int, to: int) -> None:
    """Write the lengths of four codes, the lowest bits of a word."""
    store8(to, load8(lengths + np.int64(window & mask)))
    store8(to + 1, load8(lengths + np.int64(window >> wide & mask)))
    store8(to + 2, load8(lengths + np.int64(window >> (wide + wide) & mask)))
    store8(to + 3, load8(lengths + np.int64(window >> (wide + wide + wide) & mask)))


@njit()
def _place(at: int, end: int, limit: int, nbytes: int, places: int, table: tuple[int, int, int]) -> int:
    """Where the symbols of the codes of a tile end; see `text.cpu_places_kernels.CodeComparer`."""
    lengths, bits = table[1], np.int64(load64(table[2]))
    count = codes_of(end - at, nbytes, bits)
    wide, half, shift = np.uint64(bits), bits >> 1, np.uint64(4 * bits & 7)
    mask = (np.uint64(1) << wide) - np.uint64(1)
    i: Any = np.int64(0)
    where: Any = at
    while i < count and where + half + 8 <= limit:  # eight codes are `bits` bytes
        _store_lengths(load64(where), wide, mask, lengths, places + i)
        _store_lengths(load64(where + half) >> shift, wide, mask, lengths, places + i + 4)
        where += bits
        i += 8
    while i < count:
        store8(places + i, load8(lengths + code_at_bit(at, end, i * bits, mask)))
        i += 1
    return _sum_lengths(count, nbytes, places)


@njit()
def _reading(table: tuple[int, int, int]) -> tuple[Any, Any]:
    """The bits of a code, as a number and a mask."""
    bits = np.int64(load64(table[2]))
    return bits, (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@njit(inline="always")
def _code(at: int, limit: int, index: Any, reading: tuple[Any, Any]) -> Any:
    """A code of a tile, and where the next one is."""
    bits, mask = reading
    return code_at_bit(at, limit, index * bits, mask), index + 1


#: What reads the codes of a tile.
CODES = RowCodes(unpack, _place, _reading, _code)
