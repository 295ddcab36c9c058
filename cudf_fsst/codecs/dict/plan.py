"""Which strings get a dictionary (docs/format.md, section 19): integers only, so every device decides the same."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..bitpack import NAME as BITPACK
from ..text.plan import scramble
from ..values.plan import Choice

#: Codes in one `Packed`, at most: the codes of a scope need not all be held at once.
PIECE_CODES = 1 << 24
#: What packs them. They are small and have no common divisor that would pay for looking.
CODES = Choice(BITPACK)
#: Columns of fewer rows have no dictionary, unless it is asked for. Less than a kilobyte is to be won there, and a GPU
#: would take some steps more.
LEAST_ROWS = 1 << 12
#: Scopes of fewer rows neither.
_LEAST_SCOPE_ROWS = 1024
#: Rows are counted with 31 bits.
_MAX_ROWS = 2**31 - 1
#: The sample that is looked at first: this many runs of consecutive rows, evenly spread.
SAMPLE_RUNS = 2048
RUN_ROWS = 8
#: Rows of more bytes take part in the sample with so many at their beginning and at their end.
SAMPLE_ENDS = 64
#: Of the sample's rows, one of so many has to repeat another.
_REPEATS = 32
#: What the hash of a sampled row is made with.
HASH_MULTIPLIERS = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD
#: Distinct values for which there is always memory, and bytes of the column that allow one more.
_MIN_MOST, _NBYTES_PER_VALUE = 2**20, 256
#: Characters of distinct values for which there is always memory.
MOST_CHARS = 24 << 20
#: What FSST is taken to make of a byte, in sixteenths. It makes less, but of distinct values, too. Of 82 columns of
#: made-up names, numbers, paths and times one is a fifth larger than it could be, another a tenth. With 5 some are
#: twice as large.
_FSST_SIXTEENTHS = 12
#: Bytes that a dictionary takes beside codes and values.
_OVERHEAD = 128
#: Characters of all rows of a merged scope are fewer.
_MOST_MERGED_CHARS = 2**31


def eligible(rows: int, *, named: bool = False) -> bool:
    """Whether a column of so many rows may have dictionaries; `named`: the user wants them."""
    return (1 if named else LEAST_ROWS) <= rows


def has_rows(rows: int, *, named: bool = False) -> bool:
    """Whether a scope of such a column has rows enough for a dictionary, and not too many."""
    return (1 if named else _LEAST_SCOPE_ROWS) <= rows <= _MAX_ROWS


def sample_runs(rows: int) -> tuple[npt.NDArray[np.int64], int]:
    """First rows of the runs of the sample, ascending, and rows of a run: all rows in one where they are few."""
    if rows <= SAMPLE_RUNS * RUN_ROWS:
        return np.zeros(1, np.int64), rows
    edges = np.arange(SAMPLE_RUNS + 1, dtype=np.int64) * rows // SAMPLE_RUNS
    rooms = np.diff(edges) - (RUN_ROWS - 1)
    return edges[:-1] + (_scrambled() * rooms >> 32), RUN_ROWS


@cache
def _scrambled() -> npt.NDArray[np.int64]:
    return np.array([scramble(i) for i in range(SAMPLE_RUNS)], np.int64)


def repeats(rows: int, distinct: int) -> bool:
    """Whether a sample of so many rows that are not null, with so many different hashes, is worth a closer look."""
    return rows > 0 and (rows - distinct) * _REPEATS >= rows


def least_chars(values: int) -> int:
    """Characters that so many different strings have at least."""
    chars, size = 0, 0
    while values > 0:
        chars += min(values, 256**size) * size
        values -= 256**size
        size += 1
    return chars


def itemsize(values: int) -> int:
    """Bytes of a code before it is packed."""
    return 1 if values <= 2**8 else 2 if values <= 2**16 else 4


def most_values(rows: int, chars: int, *, named: bool = False) -> int:
    """Distinct values from which on a scope has no dictionary; 0: it cannot pay.

    Parameters
    ----------
    rows, chars
        Of the scope, the rows with their nulls.
    named
        The user wants a dictionary; then memory alone sets the limit.
    """
    most = max(_MIN_MOST, (chars + 4 * rows) // _NBYTES_PER_VALUE)
    if named:
        return most
    # The largest number that pays with values of no characters, by the bits of a code.
    for bits in range((most - 1).bit_length(), -1, -1):
        low = (1 << bits - 1) + 1 if bits else 1
        high = min(1 << bits, most, _values_bound(rows, chars, bits))
        if high >= low:
            return high
    return 0


def accepts(rows: int, chars: int, values: int, values_chars: int, *, named: bool = False) -> bool:
    """Whether a scope with so many distinct values, at most `most_values`, has a dictionary; see `pays`."""
    return values_chars <= MOST_CHARS and (named or pays(rows, chars, values, values_chars))


def pays(rows: int, chars: int, values: int, values_chars: int) -> bool:
    """Whether a dictionary of so many distinct values, with so many characters together, is smaller than FSST alone.

    Both are estimates: FSST's of what it makes of characters, and without what it takes for the lengths of rows; of a
    code, the bits that the number of values needs.
    """
    if not values:
        return (chars - values_chars) * _FSST_SIXTEENTHS // 16 > _OVERHEAD
    return values <= _values_bound(rows, chars - values_chars, (values - 1).bit_length())


def _values_bound(rows: int, chars: int, bits: int) -> int:
    """Values up to which codes of so many bits are smaller than FSST of so many characters."""
    return chars * _FSST_SIXTEENTHS // 16 - -(-rows * bits // 8) - _OVERHEAD - 1


def merges(first: Size, second: Size, rows: int, chars: int, union: Size) -> bool:
    """Whether two consecutive scopes with dictionaries become one.

    Parameters
    ----------
    first, second, union : Size
        Of the two scopes, and of one that has the values of both, each once.
    rows, chars
        Of both together.
    """
    return (
        rows <= _MAX_ROWS
        and chars < _MOST_MERGED_CHARS
        and union.values <= max(_MIN_MOST, (chars + 4 * rows) // _NBYTES_PER_VALUE)
        and union.chars <= MOST_CHARS
        and union.nbytes <= first.nbytes + second.nbytes
    )


class Size(NamedTuple):
    """A scope with a dictionary: its rows, its distinct values, and the characters of these."""

    rows: int
    values: int
    chars: int

    @property
    def nbytes(self) -> int:
        """Bytes that the scope takes, by the estimates of `pays`."""
        bits = max(self.values - 1, 0).bit_length()
        return -(-self.rows * bits // 8) + self.values + self.chars * _FSST_SIXTEENTHS // 16 + _OVERHEAD
