"""Dictionaries of short columns, along with all other leaves of a call: as many waits as the call has without them.

The host's time is what such a call takes. So nothing of a dictionary has a round of its own:

1. All columns are sampled, in one launch, while the host describes the call's values (`Short.steps`).
2. The values of those that repeat are found, numbered, and codes made of all rows, in one launch each for all columns.
   Codes are measured as if they were wanted, in the launches that measure the call's values (`Short.tasks`).
3. After a wait for all of that it is known which columns have a dictionary. Their codes are packed with the call's
   values (`Short.are_packed`), and their values are compressed as text, with the columns that have none.

Where nothing repeats, text begins after step 1, or before it where rows are long, as those seldom repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ...device.memory import Lane
from ...device.transfer import Outbox
from ...device.waits import Steps, together
from ..cuda_tables import JobTables
from ..node import Parts
from ..task import ColumnTask
from ..text import cuda as text
from ..text import plan as text_plan
from ..text.choose import codec_of
from ..text.cuda_compress import TextRound
from ..text.cuda_task import TextTask
from ..values import cuda as fixed
from . import cuda_choose, cuda_find
from .cuda_compress import DictColumn, DictionaryScope, dictionaries, gather_values, plain_tasks, seldom
from .cuda_pack import code_tasks, pack, validity_task

#: Uncompressed bytes of a call all of whose columns are short: its work fits the memory rule as it is.
_NBYTES = 32 << 20
#: Bytes for what is found of all columns; columns beyond that are looked at afterwards.
_SEARCH_NBYTES = 8 << 20


def limits_of(tasks: Sequence[ColumnTask], others_nbytes: int) -> list[int] | None:
    """Characters of each column, at most, if all are short; else None.

    Parameters
    ----------
    tasks
    others_nbytes
        Uncompressed bytes of the call's other columns.
    """
    nbytes, limits = others_nbytes, list[int]()
    for task in tasks:
        limit = task.strings.chars_limit if task.strings.rows else 0
        if limit is None or text_plan.segment_count(limit) > 1:
            return None
        nbytes += limit + 4 * task.strings.rows
        limits.append(limit)
    return limits if nbytes <= _NBYTES else None


class Short:
    """Short columns of strings on their way: `steps`, beside `fixed.compress`, which asks for `tasks` and `are_packed`.

    Parameters
    ----------
    tasks
        Of columns of one scope each, some of which may have a dictionary.
    limits
        What `limits_of` has found.
    lane
        What the work runs on.
    outbox
        Where parts go as soon as they are made.
    others_nbytes
        Uncompressed bytes of the call's other columns.

    Attributes
    ----------
    columns : list of DictColumn
    """

    def __init__(
        self, tasks: Sequence[ColumnTask], limits: Sequence[int], lane: Lane, outbox: Outbox | None, others_nbytes: int
    ) -> None:
        self.columns = [DictColumn(task, limit) for task, limit in zip(tasks, limits, strict=True)]
        self._lane, self._outbox, self._others_nbytes = lane, outbox, others_nbytes
        self._candidates = [column for column in self.columns if column.task.may_have]
        self._samples: cuda_choose.Samples | None = None
        self._first: TextRound | None = None  # of text, launched as if none had a dictionary
        self._opened = ExitStack()
        self._searches: list[cuda_find.Numbered] = []
        self._searched_columns: list[DictColumn] = []  # whose searches they are
        self._downloads: Any = ()  # what is downloaded of them
        self._buffers: list[Any] = []  # of codes
        self._decided: dict[cuda_find.Numbered, DictionaryScope] = {}  # those with a dictionary
        self._owners: list[tuple[cuda_find.Numbered, bool]] = []  # of `tasks`; whether it is validity

    def steps(self) -> Steps:
        """Compress all columns but for codes of dictionaries, which `take` gets; returns segments of `plain_tasks`."""
        try:
            with self._opened:
                self._samples = cuda_choose.Samples([column.task.strings for column in self._candidates], self._lane)
                if seldom([column.task for column in self.columns], [column.chars for column in self.columns]):
                    self._begin()
                yield
                if self._first is not None and not any(column.most for column in self.columns):
                    return (yield from self._text(plain_tasks(self.columns), self._first))
            self._first = None  # in vain
            return (yield from self._finish())
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        self._buffers.clear()
        for search in self._searches[:1]:  # they share memory
            search.release()

    def _begin(self) -> None:
        """Start all columns as text, as if none had a dictionary."""
        first = text.first_round(plain_tasks(self.columns), lane=self._lane, outbox=self._outbox)
        if first is not None:
            self._first = self._opened.enter_context(first)

    def _text(self, tasks: Sequence[TextTask], first: TextRound | None = None) -> Steps:
        return text.steps((codec_of(),), tasks, lane=self._lane, outbox=self._outbox, first=first)

    def tasks(self) -> Sequence[fixed.StreamTask]:
        """Codes and validity of columns that are expected to have a dictionary."""
        assert self._samples is not None
        for column, scope in zip(self._candidates, self._samples.scopes(), strict=True):
            column.take([scope])
        if self._first is None:
            if any(column.most for column in self.columns):
                return self._search()
            self._begin()
        return ()  # long rows that repeat are searched when text has let go of its memory

    def _search(self) -> Sequence[fixed.StreamTask]:
        """Find the values of columns, and number the codes of those of which it is known how many bytes they have."""
        requests, budget = [], _SEARCH_NBYTES
        for column in self.columns:
            for number in column.most:
                scope = column.search(number)
                if scope.most_nbytes <= budget:
                    budget -= scope.most_nbytes
                    self._searched_columns.append(column)
                    requests.append((scope, cuda_find.slots_of(scope)[0], True))
        if not requests:
            return ()
        self._searches = cuda_find.searches_of(requests, self._lane)
        tables, jobs = JobTables(), cuda_find.Jobs()
        tasks: list[fixed.StreamTask] = []
        for search in self._searches:
            search.find(jobs)
            if not search.itemsize_known:
                continue
            search.null_count = search.scope.strings.null_count
            if search.null_count:
                tasks.append(validity_task(search))
                self._owners.append((search, True))
            codes = code_tasks(search, search.codes(jobs, self._buffers))
            tasks += codes
            self._owners += [(search, False)] * len(codes)
        jobs.place(tables)
        tables.launch(self._lane)
        self._downloads = cuda_find.download(self._searches, self._lane)
        return tasks

    def _finish(self) -> Steps:
        """Decide, and compress values along with what has no dictionary."""
        decided: list[tuple[DictColumn, DictionaryScope]] = []
        later: list[tuple[cuda_find.Numbered, DictionaryScope]] = []
        for column, search, numbers in zip(self._searched_columns, self._searches, self._downloads, strict=True):
            if not search.complete(numbers.tolist()):
                column.scopes[0] = column.scopes[0]._replace(different=search.slots)  # a larger table is next
                continue
            del column.most[0]
            if (scope := column.decide(0, search)) is None:
                continue
            decided.append((column, scope))
            self._decided[search] = scope
            if not search.itemsize_known:
                later.append((search, scope))
        undecided = [column for column in self.columns if column.most]
        yield from dictionaries(undecided, lane=self._lane, outbox=self._outbox, others_nbytes=self._others_nbytes)
        plain = plain_tasks(self.columns)
        tasks = [*plain, *gather_values(decided, self._lane)]
        compressed, packed = yield from together(
            self._text(tasks),
            pack([search for search, _ in later], self._lane, self._outbox),
        )
        for (_, scope), parts in zip(later, packed, strict=True):
            scope.validity, scope.codes = parts
        for (_, scope), segments in zip(decided, compressed[len(plain) :], strict=True):
            scope.segments = segments
        return compressed[: len(plain)]

    def are_packed(self) -> Sequence[bool]:
        """Whether the column of each of `tasks` has a dictionary."""
        return [search in self._decided for search, _ in self._owners]

    def take(self, parts: Sequence[Parts]) -> None:
        """Take what has become of `tasks`, when all is done."""
        for (search, validity), stream in zip(self._owners, parts, strict=True):
            if (scope := self._decided.get(search)) is None:
                continue
            if validity:
                scope.validity = stream
            else:
                scope.codes += stream
        self._release()
