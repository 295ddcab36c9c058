"""The distinct strings of a column on the host, numbered by first appearance, in Numba without the GIL.

They are found in threads that each look at rows of their own, whose values are then put together in the order of these
rows. Codes are made after that, piece by piece, so that they are never all held.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...workers import num_threads
from ..bitmap import bits_at
from ..text import cpu as text
from ..unaligned import address
from ..work import cut, run
from . import cpu_kernels as kernels
from . import plan

#: Rows that a thread looks at before what it found is put together with what others did.
_CHUNK_ROWS = 2**18
#: Codes of all rows are kept while values are looked for, where they take no more than this, or a sixteenth of the
#: column.
_HELD_NBYTES = 2**25
_SLOTS = 2**12
_NONE: npt.NDArray[Any] = np.empty(0, np.uint8)
_ALL: npt.NDArray[np.int64] = np.empty(0, np.int64)
Codes = npt.NDArray[Any]


class ValueTable:
    """Distinct values of rows of a scope, in order of first appearance."""

    def __init__(self, strings: HostStrings) -> None:
        validity = _NONE if strings.validity is None else strings.validity
        chars = address(strings.chars)
        self._strings = strings  # holds what `of` has addresses of
        self.of = chars, chars + strings.chars.size, strings.offsets, validity, strings.validity_offset
        self.table = np.zeros(_SLOTS, np.uint32)
        self.facts, self.rows = np.empty((_SLOTS // 2, 4), np.uint64), np.empty(_SLOTS // 2, np.int64)
        self.count = 0

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """The row where each value is first."""
        return self.rows[: self.count]

    def insert(self, first: int, last: int, most: int, rows: npt.NDArray[np.int64] = _ALL) -> Codes | None:
        """Put rows `first` to ``last - 1``, or of `rows` these, into the table.

        Returns
        -------
        ndarray or None
            Numbers of their values. None: there are more than `most` values.
        """
        out = np.empty(last - first, np.uint32)
        while True:
            state = self.table, self.facts, self.rows, self.count, most, out
            first, self.count = kernels.insert(*self.of, rows, first, last, *state)
            if first == last:
                return out
            if self.count >= most:
                return None
            slots = 2 * self.table.size
            self.table = np.zeros(slots, np.uint32)
            self.facts, self.rows = np.resize(self.facts, (slots // 2, 4)), np.resize(self.rows, slots // 2)
            kernels.rehash(self.facts, self.count, self.table)

    def look_up(self, first: int, last: int, out: Codes) -> None:
        """Write numbers of the values of rows `first` to ``last - 1``."""
        kernels.look_up(*self.of, first, last, self.table, self.facts, out)


class _Chunk(NamedTuple):
    """Rows whose values were numbered by themselves, in a thread.

    Attributes
    ----------
    first, last : int
    firsts : ndarray of int64
        The row where each of their values is first.
    codes : ndarray or None
        Of each row the number of its value among these; None: the memory rule has no place for them.
    """

    first: int
    last: int
    firsts: npt.NDArray[np.int64]
    codes: Codes | None


class _FirstRows:
    """Distinct values by the rows where they are first."""

    _strings: HostStrings
    firsts: npt.NDArray[np.int64]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each value."""
        offsets, firsts = self._strings.offsets, self.firsts
        return offsets[firsts + 1].astype(np.int64) - offsets[firsts]

    def values(self) -> HostStrings:
        """The values."""
        strings = self._strings
        return text.gather(HostStrings(strings.rows, strings.chars, strings.offsets), self.firsts)


class Distinct(_FirstRows):
    """Distinct values of a scope, by first appearance, and the codes of its rows.

    Parameters
    ----------
    strings
        The scope.
    most
        Distinct values from which on there is no dictionary.
    """

    def __init__(self, strings: HostStrings, most: int) -> None:
        self._strings = strings
        self._table = ValueTable(strings)
        self._chunks: list[tuple[_Chunk, Codes]] = []  # with the numbers of their values among all
        rows, chars = strings.rows, int(strings.offsets[-1] - strings.offsets[0])
        self._code_nbytes = max(_HELD_NBYTES, (chars + 4 * rows) // 16) // rows  # bytes of a code
        threads = num_threads()
        chunks = cut(0, rows, _CHUNK_ROWS)
        #: Whether there are at most so many.
        self.complete = False
        for i in range(0, len(chunks), threads):
            work = [partial(self._number_chunk, strings, *chunk, most) for chunk in chunks[i : i + threads]]
            for chunk_values in run(work, rows, 0):
                numbers = (
                    None
                    if chunk_values is None
                    else self._table.insert(0, chunk_values.firsts.size, most, chunk_values.firsts)
                )
                if chunk_values is None or numbers is None:
                    return
                self._chunks.append((chunk_values, numbers))
        self.firsts, self.complete = self._table.firsts, True

    def _number_chunk(self, strings: HostStrings, first: int, last: int, most: int) -> _Chunk | None:
        table = ValueTable(strings)
        codes = table.insert(first, last, most)
        if codes is None:
            return None
        itemsize = plan.itemsize(table.count)
        return _Chunk(
            first, last, table.firsts, codes.astype(f"<u{itemsize}") if itemsize <= self._code_nbytes else None
        )

    def codes(self, first: int, last: int) -> Codes:
        """Codes of rows, which begin and end with chunks; 0 of null ones."""
        out = np.empty(last - first, f"<u{plan.itemsize(self._table.count)}")
        work = [
            partial(self._write, chunk, numbers, out[chunk.first - first : chunk.last - first])
            for chunk, numbers in self._chunks
            if first <= chunk.first < last
        ]
        run(work, last - first, 0)
        return out

    def _write(self, chunk: _Chunk, numbers: Codes, out: Codes) -> None:
        if chunk.codes is None:
            self._table.look_up(chunk.first, chunk.last, out)
        elif numbers.size:
            kernels.renumber(chunk.codes, numbers, out)
        else:  # nulls alone
            out[:] = 0


def sampled(strings: HostStrings | DictionaryRows) -> tuple[int, int]:
    """Rows of the sample of a scope that are not null, and how many different hashes they have."""
    starts, run_rows = plan.sample_runs(strings.rows)
    if isinstance(strings, DictionaryRows):
        strings = strings.strings((starts[:, None] + np.arange(run_rows)).ravel())
        starts, run_rows = np.zeros(1, np.int64), strings.rows
    table = np.zeros(2 * plan.SAMPLE_RUNS * plan.RUN_ROWS, np.uint64)
    rows, distinct = kernels.sample(*ValueTable(strings).of, starts, run_rows, table)
    return rows, distinct


class DictionaryRows:
    """Rows of strings that come with a dictionary, which may have values twice, and values that no row has.

    Parameters
    ----------
    codes : ndarray of int32
        Of each row the number of its value, which is below ``values.rows``; of a null one anything below.
    values : HostStrings
        At least one, none of them null.
    chars_nbytes : int
        Of all rows.
    validity : ndarray of uint8 or None
        A bitmap, from bit 0; None: no nulls.
    null_count : int
    """

    validity_offset = 0

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        values: HostStrings,
        chars_nbytes: int,
        validity: npt.NDArray[np.uint8] | None = None,
        null_count: int = 0,
    ) -> None:
        self.rows, self.validity, self.null_count = codes.size, validity if null_count else None, null_count
        self.all_codes, self.all_values, self.chars_nbytes = codes, values, chars_nbytes

    def strings(self, rows: npt.NDArray[np.int64]) -> HostStrings:
        """Some rows, without the null ones."""
        if self.validity is not None:
            rows = rows[bits_at(self.validity, rows).view(np.bool_)]
        return text.gather(self.all_values, self.all_codes[rows].astype(np.int64))


class CodedDistinct(_FirstRows):
    """Distinct values of rows that come with codes, with the members of `Distinct`: the codes tell equal rows."""

    def __init__(self, coded: DictionaryRows, most: int) -> None:
        values = self._strings = coded.all_values
        self._codes = coded.all_codes
        table = ValueTable(values)
        same = table.insert(0, values.rows, values.rows + 1)
        assert same is not None
        #: Number + 1 of each distinct value, 0 of one that no row has; the values by their numbers.
        numbers, order = np.zeros(table.count, np.uint32), np.empty(min(table.count, most), np.int64)
        validity = _NONE if coded.validity is None else coded.validity
        count = kernels.number_by_first_row(self._codes, validity, same, numbers, order)
        self.complete = count >= 0
        self.firsts = table.firsts[order[: max(count, 0)]]
        self._numbers = np.maximum(numbers, 1)[same] - 1  # of each value of the dictionary

    def codes(self, first: int, last: int) -> Codes:
        out = np.empty(last - first, f"<u{plan.itemsize(self.firsts.size)}")
        kernels.renumber(self._codes[first:last], self._numbers, out)
        return out
