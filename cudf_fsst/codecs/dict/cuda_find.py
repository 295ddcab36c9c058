"""Different values of strings in GPU memory, numbered by first appearance: kernels/dict_find.cu."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...buffers import CharactersUnderNulls, DeviceStrings
from ...device.memory import ALIGNMENT, Lane, Workspace, device_attributes
from ...naming import What
from ..cuda_kernels import blocks, get_kernel
from ..cuda_tables import Tables
from ..part import align
from . import launch, plan

_WORD = 8
#: Numbers that the kernels find, `FOUND_...` of dict_find.cu.
_VALUES, _TOO_MANY, _LONG, _NULLS, _NULL_CHARS, _VALUE_CHARS, _LONGEST, _COUNT = range(8)
#: Slots of a table: a byte says which, two bytes do, four do.
_FEW, _MORE, _MANY = 256, 65536, 1 << 18
#: Different rows of a sample up to which a table of so few slots is tried.
_GUESSES = {_FEW: 160, _MORE: 8192, _MANY: 16384}


class Scope(NamedTuple):
    """Consecutive rows whose values are wanted.

    Attributes
    ----------
    strings : DeviceStrings
        The column.
    first, rows, chars : int
        Its first row, how many, and their characters.
    limit : int
        Values, at most.
    guess : int
        How many there may be; larger tables are tried if there are more.
    what : str, callable or None
        What the log calls the column.
    """

    strings: DeviceStrings
    first: int
    rows: int
    chars: int
    limit: int
    guess: int
    what: What = None

    @property
    def offsets(self) -> int:
        """Address of the first row's."""
        return self.strings.offsets + self.first * self.strings.offsets_itemsize

    @property
    def validity(self) -> tuple[int, int]:
        strings = self.strings
        return (strings.validity, strings.validity_offset + self.first) if strings.null_count else (0, 0)

    @property
    def most_nbytes(self) -> int:
        """Bytes of memory that finding its values takes, if all rows are kept with the first table that is tried."""
        slots = slots_of(self)[0]
        return _table_nbytes(self, slots) + self.rows * _nbytes(slots)


def slots_of(scope: Scope) -> list[int]:
    """Slots of the tables that are tried one after another."""
    most = max(1 << (4 * min(scope.limit, scope.rows) // 3).bit_length(), _FEW)  # a quarter of them stays empty
    return [slots for slots, guess in _GUESSES.items() if scope.guess <= guess and slots < most] + [most]


def _nbytes(slots: int) -> int:
    """Bytes of a slot's number."""
    return 1 if slots <= _FEW else 2 if slots <= _MORE else 4


def _table_nbytes(scope: Scope, slots: int) -> int:
    """Bytes of memory for a table, and for what makes numbers of its slots."""
    rows = 0 if slots == _FEW else scope.rows // 8 + scope.rows // (launch.RANK_CHUNK // 4)
    return 12 * slots + 4 * min(scope.limit, slots) + rows + scope.chars // (launch.FIND_LONG // 4)


class Jobs:
    """Jobs of several scopes, one launch for each kernel."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str, int], tuple[list[int], list[int]]] = {}

    def add(self, turn: int, kernel: str, threads: int, grid: int, fields: Sequence[int]) -> None:
        """A job of so many thread blocks; kernels come in the order of their turns."""
        grids, every = self._found.setdefault((turn, kernel, threads), ([], []))
        grids.append(grid)
        every += fields

    def place(self, tables: Tables) -> None:
        """Add the launches to `tables`."""
        for (_, kernel, threads), (grids, fields) in sorted(self._found.items()):
            tables.add_jobs(_kernel(kernel), threads, grids, fields)


class Numbered:
    """Values of a scope, numbered, and what looks up the codes of its rows.

    Attributes
    ----------
    scope : Scope
    values, chars, longest, null_count : int
        How many values, their characters, the longest's, and rows that are null.
    slots : int
        Of the table.
    kept : bool
        Whether the slot of every row is there.
    firsts : int
        Address of u32: first row of each value, counted from the scope's.
    """

    def __init__(self, scope: Scope, slots: int, keep: bool, lane: Lane) -> None:
        self.scope, self.kept, self.slots, self._lane = scope, keep, slots, lane
        self._few, self._renumbered = slots == _FEW, False
        self._limit = min(scope.limit, slots - slots // 4)
        self.values = self.chars = self.longest = self.null_count = 0
        chunks = blocks(scope.rows, launch.RANK_CHUNK)
        self._zeros = _WORD * slots, 0 if self._few else launch.RANK_CHUNK // 8 * chunks
        self._rest = (
            *(0 if self._few else 4 * chunks, 4 * slots, 4 * self._limit, 4 * (scope.chars // launch.FIND_LONG + 1)),
            scope.rows * _nbytes(slots) if keep else 0,
        )
        self._work: Workspace | None = None

    @property
    def zeros_nbytes(self) -> int:
        """Bytes that have to be zeros before `find`."""
        return sum(align(nbytes, ALIGNMENT) for nbytes in self._zeros)

    def reserve(self, work: Workspace) -> None:
        """Ask for the other memory."""
        self._work, self._places = work, [work.reserve(nbytes) for nbytes in self._rest]

    def place(self, found_at: int, zeros_at: int) -> None:
        """Call when the memory has been taken; `found_at`: address of zeros for `_COUNT` numbers."""
        assert self._work is not None
        self.found_at, self._table = found_at, zeros_at
        self._marks = zeros_at + align(self._zeros[0], ALIGNMENT)
        self._before, self._map, self.firsts, self._long, self._kept = (
            self._work[place] if nbytes else 0 for place, nbytes in zip(self._places, self._rest, strict=True)
        )

    def _find(self, jobs: Jobs, first: int, rows: int, out: int, nbytes: int, number: bool) -> None:
        scope, strings = self.scope, self.scope.strings
        multiprocessors = device_attributes()["multiprocessors"]
        resident = launch.FIND_BLOCKS * multiprocessors
        grid_long = min(scope.chars // launch.FIND_LONG, resident)
        fields = (
            *(strings.chars, scope.offsets, strings.offsets_itemsize == 8, scope.rows, first, rows, *scope.validity),
            *(self._table, self.slots, self._limit, self.found_at, self._long),
            *(out, nbytes, self._map if number else 0),
        )
        if self._few:
            kernel, of_block, most = "dict_find_few", launch.FEW_ROWS, launch.FEW_BLOCKS * multiprocessors
        else:
            kernel, of_block, most = "dict_find", 1, resident
        grid = min(blocks(rows, launch.FIND_THREADS * of_block), most)
        jobs.add(0, kernel, launch.FIND_THREADS, grid, (*fields, grid))
        if grid_long:
            jobs.add(1, "dict_find_long", launch.FIND_THREADS, grid_long, (*fields, grid_long))

    @property
    def itemsize_known(self) -> bool:
        """Whether it is known how many bytes codes have, however many values there will be."""
        return self._few or (self.slots <= _MORE and self.scope.guess > _FEW)

    @property
    def itemsize(self) -> int:
        """Bytes of a code."""
        return plan.itemsize(self.values) if self.values or not self.itemsize_known else _nbytes(self.slots)

    def find(self, jobs: Jobs) -> None:
        """Fill the table, and number the values."""
        strings, rows, nbytes = self.scope.strings, self.scope.rows, _nbytes(self.slots)
        self._find(jobs, 0, rows, self._kept, nbytes, False)
        fields = (
            *(self._table, self.slots, self.found_at, self.scope.offsets, strings.offsets_itemsize == 8, rows),
            *(self._marks, self._before, self._map, self.firsts),
        )
        of_slots = blocks(self.slots, launch.FIND_THREADS)
        if self._few:
            jobs.add(2, "dict_rank_few", launch.FIND_THREADS, 1, fields)
            return
        jobs.add(2, "dict_mark", launch.FIND_THREADS, of_slots, fields)
        chunks = blocks(rows, launch.RANK_CHUNK)
        jobs.add(3, "dict_count", launch.FIND_THREADS, blocks(chunks, launch.FIND_THREADS // 32), fields)
        jobs.add(4, "dict_scan", launch.SCAN_THREADS, 1, fields)
        jobs.add(5, "dict_rank", launch.FIND_THREADS, of_slots, fields)

    def complete(self, found: Sequence[int]) -> bool:
        """Take the numbers; False: there are too many values."""
        if found[_TOO_MANY]:
            return False
        if found[_NULL_CHARS]:
            raise CharactersUnderNulls(f"{found[_NULL_CHARS]} characters under nulls")
        self.values, self.chars, self.longest = found[_VALUES], found[_VALUE_CHARS], found[_LONGEST]
        self.null_count = found[_NULLS]
        return True

    def look_up(self, tables: Tables, first: int, rows: int, out: int) -> None:
        """Write the codes of some rows; of null rows, anything."""
        self._lane.zero(self.found_at, _WORD * _COUNT)
        jobs = Jobs()
        self._find(jobs, first, rows, out, plan.itemsize(self.values), True)
        jobs.place(tables)

    def renumbered(self, jobs: Jobs, buffers: list[Any]) -> int:
        """Address of the codes of all rows, once `jobs` are done; they lie in a new one of `buffers`, or here.

        Where the bytes of a code are known, this may be called before it is known what the values are.
        """
        rows, old, new = self.scope.rows, _nbytes(self.slots), self.itemsize
        out = self._kept
        if self._renumbered:
            return out
        self._renumbered = new == old
        if new != old:
            buffers.append(self._lane.allocate(rows * new))
            out = buffers[-1].ptr
        grid = min(blocks(rows, 4096), 8 * device_attributes()["multiprocessors"])
        fields = self._kept, old, rows, self._map, out, new, grid
        jobs.add(0, "dict_renumber", launch.FIND_THREADS, grid, fields)
        return out

    def release(self) -> None:
        """Give the memory back, of all that share it."""
        if self._work is not None:
            self._work.release()


def _kernel(name: str) -> Any:
    return get_kernel("dict_find", name, launch.FIND_DEFINES)


def searches_of(scopes: Sequence[tuple[Scope, int, bool]], lane: Lane) -> list[Numbered]:
    """Make ready to find the values of scopes: with tables of so many slots, to be kept or not; they share memory."""
    made, work = [Numbered(*one, lane) for one in scopes], Workspace()
    found_nbytes = align(_WORD * _COUNT * len(made), ALIGNMENT)
    nbytes = found_nbytes + sum(one.zeros_nbytes for one in made)
    zeros = work.reserve(nbytes)
    for one in made:
        one.reserve(work)
    work.take(lane)
    begin = work[zeros]
    lane.zero(begin, nbytes)
    at = begin + found_nbytes
    for i, one in enumerate(made):
        one.place(begin + _WORD * _COUNT * i, at)
        at += one.zeros_nbytes
    return made


def download(together: Sequence[Numbered], lane: Lane) -> Any:
    """Numbers that were found of scopes that share memory, all of them, an array of rows; they arrive with a wait."""
    return lane.fetch(together[0].found_at, _COUNT * len(together), np.uint64).reshape(-1, _COUNT)


def number(
    scopes: Sequence[Scope], lane: Lane, *, room: int, beside: Callable[[Sequence[Numbered]], None] | None = None
) -> Generator[None, None, list[Numbered | None]]:
    """Number the values of scopes. None: there are more than its limit.

    Parameters
    ----------
    scopes
    lane
        Waited for at each yield.
    room
        Bytes that may be used to keep what is found of every row.
    beside
        Is called before the first wait, to launch more work on the same scopes, as if their numbers were known. That
        wait is no yield, and ends before this work does.
    """
    results: list[Numbered | None] = [None] * len(scopes)
    left = [(i, slots_of(scope)) for i, scope in enumerate(scopes)]
    room -= sum(_table_nbytes(scopes[i], sizes[0]) for i, sizes in left)
    while left:
        tables, jobs, tried = Tables(), Jobs(), []
        for i, sizes in left:
            scope = scopes[i]
            # Numbers of fewer bytes than slots have are written beside these.
            nbytes = scope.rows * (_nbytes(sizes[0]) + (_nbytes(sizes[0]) > 1) * plan.itemsize(scope.guess))
            keep = nbytes <= room
            room -= nbytes * keep
            (one,) = searches_of([(scope, sizes[0], keep)], lane)
            one.find(jobs)
            tried.append((i, sizes[1:], one))
        jobs.place(tables)
        tables.launch(lane)
        found = [download([one], lane)[0] for _, _, one in tried]
        if beside is None:
            yield
        else:  # What is launched there is not waited for.
            downloaded = lane.event()
            beside([one for _, _, one in tried])
            beside = None
            downloaded.synchronize()
        left = []
        for (i, rest, one), numbers in zip(tried, found, strict=True):
            if one.complete(numbers.tolist()):
                results[i] = one
            else:
                one.release()
                if rest:
                    left.append((i, rest))
                    room -= _table_nbytes(scopes[i], rest[0])
    return results
