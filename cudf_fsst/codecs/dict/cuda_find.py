"""Different values of strings in GPU memory, numbered by first appearance: dict_find.cu, dict_few.cu, dict_rank.cu."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...buffers import CharactersUnderNulls, DeviceStrings
from ...device.memory import ALIGNMENT, Lane, Workspace, device_attributes
from ...naming import What
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..part import align
from . import launch, plan
from .cuda import find_kernel

_WORD = 8
#: Numbers that the kernels find, `FOUND_...` of dict_table.cuh.
_VALUES, _TOO_MANY, _LONG, _NULLS, _NULL_CHARS, _VALUE_CHARS, _LONGEST, _CLASHES, _COUNT = range(9)
#: Slots of a table: a byte says which; values have two bytes; the more are free, the sooner a value is found.
_FEW, _MORE, _MANY = 256, 65536, 1 << 18
#: Different rows of a sample up to which a table of so few slots is tried.
_GUESSES = {_FEW: 160, _MORE: 8192, _MANY: 16384}
#: Rows from which on a larger table, with the bytes of values, takes less time than it takes to clear it.
_LARGE_ROWS = 1 << 20


class ScopeRange(NamedTuple):
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
        """Bytes of memory that finding its values takes, if all codes are kept with the first table that is tried."""
        slots = slots_of(self)[0]
        return _table_nbytes(self, slots) + self.rows * _nbytes(slots)


def slots_of(scope: ScopeRange) -> list[int]:
    """Slots of the tables that are tried one after another."""
    most = max(1 << (4 * min(scope.limit, scope.rows) // 3).bit_length(), _FEW)  # a quarter of them stays empty
    return [
        slots
        for slots, guess in _GUESSES.items()
        if scope.guess <= guess and slots < most and not (slots == _MORE and scope.rows >= _LARGE_ROWS)
    ] + [most]


def _nbytes(slots: int) -> int:
    """Bytes that a code will most likely have, where the table has so many slots: 1 or 2."""
    return 1 if slots <= _FEW else 2


def _stride(scope: ScopeRange, slots: int) -> int:
    """Words of 8 bytes of a slot. It has its value's bytes too where so many rows look them up that this pays."""
    return launch.SLOT_WORDS if _MORE < slots <= _MANY and scope.rows >= _LARGE_ROWS else 1


def _table_nbytes(scope: ScopeRange, slots: int) -> int:
    """Bytes of memory for a table, and for what makes numbers of its slots."""
    rows = 0 if slots == _FEW else scope.rows // 8 + scope.rows // (launch.RANK_CHUNK // 4)
    of_slot = 8 * _stride(scope, slots) + 8
    return of_slot * slots + 4 * min(scope.limit, slots) + rows + scope.chars // (launch.FIND_LONG // 4)


class Jobs:
    """Jobs of several scopes on their way to `JobTables`: those of one kernel are one launch."""

    def __init__(self) -> None:
        self._launches: dict[tuple[int, str, int], tuple[list[int], list[int]]] = {}

    def add(self, turn: int, kernel: str, threads: int, grid: int, fields: Sequence[int]) -> None:
        """A job of so many thread blocks; kernels come in the order of their turns."""
        grids, all_fields = self._launches.setdefault((turn, kernel, threads), ([], []))
        grids.append(grid)
        all_fields += fields

    def place(self, tables: JobTables) -> None:
        """Add the launches to `tables`."""
        for (_, kernel, threads), (grids, fields) in sorted(self._launches.items()):
            tables.add_jobs(find_kernel(kernel), threads, grids, fields)


class Numbered:
    """The values of a scope, numbered in a hash table, by which the codes of its rows are looked up.

    Attributes
    ----------
    scope : ScopeRange
    values, chars, longest, null_count : int
        How many values, their characters, the longest's, and rows that are null.
    slots : int
        Of the table.
    kept : bool
        Whether the codes of all rows are in memory at once.
    firsts : int
        Address of u32: first row of each value, counted from the scope's.
    """

    def __init__(self, scope: ScopeRange, slots: int, keeps_codes: bool, lane: Lane) -> None:
        self.scope, self.keeps_codes, self.slots, self._lane = scope, keeps_codes, slots, lane
        self._few, self._renumbered = slots == _FEW, False
        self._stride = _stride(scope, slots)
        self._limit = min(scope.limit, slots - slots // 4)
        self.values = self.chars = self.longest = self.null_count = 0
        self._simple = False
        chunks = blocks(scope.rows, launch.RANK_CHUNK)
        self._zeros = _WORD * self._stride * slots, 0 if self._few else launch.RANK_CHUNK // 8 * chunks
        # Memory for finding values, then memory that is needed until codes are packed.
        self._sizes = (
            *(0 if self._few else 4 * chunks, 4 * (scope.chars // launch.FIND_LONG + 1)),
            *(_WORD * slots, 4 * self._limit, scope.rows if keeps_codes and self._few else 0),
        )
        self._finding: Workspace | None = None
        self._staying: Workspace | None = None

    @property
    def zeros_nbytes(self) -> int:
        """Bytes that have to be zeros before `find`."""
        return sum(align(nbytes, ALIGNMENT) for nbytes in self._zeros)

    def reserve(self, finding: Workspace, staying: Workspace) -> None:
        """Ask for the other memory."""
        self._finding, self._staying = finding, staying
        self._places = [
            work.reserve(nbytes)
            for work, nbytes in zip((finding, finding, staying, staying, staying), self._sizes, strict=True)
        ]

    def place(self, numbers_at: int, zeros_at: int) -> None:
        """Call when the memory has been taken; `numbers_at`: address of zeros for `_COUNT` numbers."""
        finding, staying = self._finding, self._staying
        assert finding is not None
        assert staying is not None
        self.numbers_at, self._table = numbers_at, zeros_at
        self._marks = zeros_at + align(self._zeros[0], ALIGNMENT)
        self._before, self._long, self._map, self.firsts, self._codes = (
            work[place] if nbytes else 0
            for work, place, nbytes in zip(
                (finding, finding, staying, staying, staying), self._places, self._sizes, strict=True
            )
        )

    @property
    def rows(self) -> int:
        return self.scope.rows

    @property
    def validity(self) -> tuple[int, int]:
        return self.scope.validity

    def _find_job(self, first: int, rows: int, out: int, nbytes: int, number: bool) -> launch.FindJob:
        scope, strings = self.scope, self.scope.strings
        return launch.FindJob(
            *(strings.chars, scope.offsets, strings.offsets_itemsize == 8, scope.rows, first, rows, *scope.validity),
            *(self._table, self.slots, self._stride, self._limit, self.numbers_at, self._long),
            *(out, nbytes, self._map if number else 0, 0),
        )

    def _find(self, jobs: Jobs, turn: int, job: launch.FindJob, kernel: str, of_block: int, resident: int) -> None:
        multiprocessors = device_attributes()["multiprocessors"]
        grid = min(blocks(job.rows, launch.FIND_THREADS * of_block), resident * multiprocessors)
        jobs.add(turn, kernel, launch.FIND_THREADS, grid, job._replace(blocks=grid))
        grid = 0 if self._simple else min(self.scope.chars // launch.FIND_LONG, launch.FIND_BLOCKS * multiprocessors)
        if grid:
            jobs.add(turn + 1, "dict_find_long", launch.FIND_THREADS, grid, job._replace(blocks=grid))

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
        strings, rows = self.scope.strings, self.scope.rows
        job = self._find_job(0, rows, self._codes, 1, False)
        ranked = launch.RankJob(
            *(
                self._table,
                self.slots,
                self._stride,
                self.numbers_at,
                self.scope.offsets,
                strings.offsets_itemsize == 8,
            ),
            *(rows, self._marks, self._before, self._map, self.firsts),
        )
        if self._few:
            self._find(jobs, 0, job, "dict_find_few", launch.FEW_ROWS, launch.FEW_BLOCKS)
            jobs.add(2, "dict_rank_few", launch.FIND_THREADS, 1, ranked)
            return
        self._find(jobs, 0, job, "dict_find", 1, launch.FIND_BLOCKS)
        of_slots = blocks(self.slots, launch.FIND_THREADS)
        jobs.add(2, "dict_mark", launch.FIND_THREADS, of_slots, ranked)
        chunks = blocks(rows, launch.RANK_CHUNK)
        jobs.add(3, "dict_count_marks", launch.FIND_THREADS, blocks(chunks, launch.FIND_THREADS // 32), ranked)
        jobs.add(4, "dict_scan", launch.SCAN_THREADS, 1, ranked)
        jobs.add(5, "dict_rank", launch.FIND_THREADS, of_slots, ranked)

    def complete(self, numbers: Sequence[int]) -> bool:
        """Take the numbers; False: there are too many values."""
        if numbers[_TOO_MANY]:
            return False
        if numbers[_NULL_CHARS]:
            raise CharactersUnderNulls(f"{numbers[_NULL_CHARS]} characters under nulls")
        self.values, self.chars, self.longest = numbers[_VALUES], numbers[_VALUE_CHARS], numbers[_LONGEST]
        self.null_count = numbers[_NULLS]
        if not (self._few or numbers[_CLASHES] or numbers[_LONG]) and self._finding is not self._staying:
            self._simple = True  # numbers are all that is needed
            assert self._finding is not None
            self._finding.release()
        return True

    def look_up(self, tables: JobTables, first: int, rows: int, out: int) -> None:
        """Write the codes of rows `first` to ``first + rows - 1``; those of null rows mean nothing."""
        if self._few:  # which finds long rows again
            self._lane.zero(self.numbers_at, _WORD * _COUNT)
        jobs = Jobs()
        self._look_up(jobs, first, rows, out)
        jobs.place(tables)

    def _look_up(self, jobs: Jobs, first: int, rows: int, out: int) -> None:
        job = self._find_job(first, rows, out, self.itemsize, True)
        if self._few:
            self._find(jobs, 6, job, "dict_find_few", launch.FEW_ROWS, launch.FEW_BLOCKS)
        else:
            self._find(jobs, 6, job, "dict_number", launch.NUMBER_ROWS, launch.NUMBER_BLOCKS)

    def codes(self, jobs: Jobs, buffers: list[Any]) -> int:
        """Address of the codes of all rows, once `jobs` are done; they lie in a new one of `buffers`, or here.

        Where the bytes of a code are known, this may be called before it is known what the values are.
        """
        rows = self.scope.rows
        if self._few and self._renumbered:
            return self._codes
        if not self._few:
            buffers.append(self._lane.allocate(rows * self.itemsize))
            self._look_up(jobs, 0, rows, int(buffers[-1].ptr))
            return int(buffers[-1].ptr)
        self._renumbered = True
        grid = min(blocks(rows, 4096), 8 * device_attributes()["multiprocessors"])
        jobs.add(6, "dict_renumber", launch.FIND_THREADS, grid, launch.RenumberJob(self._codes, rows, self._map, grid))
        return self._codes

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it has, and of those that its codes will have."""
        works = {self._finding, self._staying} - {None}
        held = sum(work.nbytes for work in works if work is not None and work.buffer is not None)
        return held + (0 if self._few or not self.keeps_codes else self.scope.rows * self.itemsize)

    def release(self) -> None:
        """Give the memory back, of all that share it."""
        for work in (self._finding, self._staying):
            if work is not None:
                work.release()


def searches_of(scopes: Sequence[tuple[ScopeRange, int, bool]], lane: Lane) -> list[Numbered]:
    """Allocate the tables by which values of scopes are found, in memory that they share.

    `scopes`: each with the slots of its table, and whether codes of all rows are in memory at once.
    """
    searches, staying = [Numbered(*search, lane) for search in scopes], Workspace()
    finding = staying if len(searches) > 1 else Workspace()
    found_nbytes, zeros_nbytes = _WORD * _COUNT * len(searches), sum(search.zeros_nbytes for search in searches)
    numbers, zeros = staying.reserve(found_nbytes), finding.reserve(zeros_nbytes)
    for search in searches:
        search.reserve(finding, staying)
    staying.take(lane)
    if finding is not staying:
        finding.take(lane)
    lane.zero(staying[numbers], found_nbytes)
    lane.zero(finding[zeros], zeros_nbytes)
    numbers_at, search_zeros = staying[numbers], finding[zeros]
    for search in searches:
        search.place(numbers_at, search_zeros)
        numbers_at += _WORD * _COUNT
        search_zeros += search.zeros_nbytes
    return searches


def download(searches: Sequence[Numbered], lane: Lane) -> Any:
    """Numbers that were found of scopes that share memory, all of them, an array of rows; they arrive with a wait."""
    return lane.fetch(searches[0].numbers_at, _COUNT * len(searches), np.uint64).reshape(-1, _COUNT)


def number(
    scopes: Sequence[ScopeRange], lane: Lane, *, scratch_nbytes: int
) -> Generator[None, None, list[Numbered | None]]:
    """Number the values of scopes; None for a scope that has more values than its limit.

    Parameters
    ----------
    scopes
    lane
        Waited for at each yield.
    scratch_nbytes
        Bytes that may be used for the codes of all rows.
    """
    results: list[Numbered | None] = [None] * len(scopes)
    pending = [(i, slots_of(scope)) for i, scope in enumerate(scopes)]
    scratch_nbytes -= sum(_table_nbytes(scopes[i], sizes[0]) for i, sizes in pending)
    while pending:
        tables, jobs, tried = JobTables(), Jobs(), []
        for i, sizes in pending:
            scope = scopes[i]
            nbytes = scope.rows * _nbytes(sizes[0])
            keeps_codes = nbytes <= scratch_nbytes
            (search,) = searches_of([(scope, sizes[0], keeps_codes)], lane)
            if search.itemsize_known:
                scratch_nbytes -= nbytes * keeps_codes
            else:
                search.keeps_codes = False
            search.find(jobs)
            tried.append((i, sizes[1:], search))
        jobs.place(tables)
        tables.launch(lane)
        downloads = [download([search], lane)[0] for _, _, search in tried]
        yield
        pending = []
        for (i, larger, search), numbers in zip(tried, downloads, strict=True):
            if search.complete(numbers.tolist()):
                results[i] = search
                nbytes = scopes[i].rows * search.itemsize
                if not search.itemsize_known and nbytes <= scratch_nbytes:
                    scratch_nbytes -= nbytes
                    search.keeps_codes = True
            else:
                search.release()
                if larger:
                    pending.append((i, larger))
                    scratch_nbytes -= _table_nbytes(scopes[i], larger[0])
    return results
