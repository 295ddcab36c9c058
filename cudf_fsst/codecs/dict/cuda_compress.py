"""Compression of strings on the GPU, by dictionaries where they pay, else as text: the bytes of `cpu.compress`.

Scopes are cut and sampled (`cuda_choose`), and the values of those that repeat are found and numbered (`cuda_find`),
together as far as the memory rule allows. Codes are packed at once, so that they are not kept longer than needed. Then
the values of all dictionaries are gathered and compressed as text, as are the scopes without a dictionary.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...buffers import DeviceStrings
from ...device.memory import Lane
from ...device.transfer import Outbox
from ...device.waits import Steps, together
from ..node import Node, Parts, dict_part, of_parts
from ..part import Part
from ..scratch import scratch_limit
from ..task import ColumnTask
from ..text import cuda as text
from ..text.choose import codec_of
from ..text.cuda_task import TextTask
from ..text.segment import Segment
from . import cuda_choose, cuda_find, cuda_text, plan
from .cuda_pack import pack

#: What packing takes of it, for all that is packed at once; with nulls, which are filled in. And rows for each byte of
#: what is measured of their codes.
_PACKING, _PACKING_NULLS = 2 << 20, 20 << 20
_ROWS_PER_BYTE = 32
#: Bytes of values that are gathered before they are compressed; so few that they are while codes are packed.
_VALUES_NBYTES, _FEW_VALUES_NBYTES = plan.MOST_CHARS, 2 << 20
#: Characters a row from which on no dictionary is expected: the first work on text is not put off then.
_LONG_ROWS = 24


@dataclass
class DictionaryScope:
    """Rows with a dictionary, as it is made.

    Attributes
    ----------
    found : cuda_choose.SampledScope
    firsts : int
        Address of the first row of each value.
    held : rmm.DeviceBuffer, optional
        Where they lie, if they were copied.
    values, values_chars, longest, null_count : int
    codes, validity : tuple of Packed
    segments : sequence of Segment
        Of the values.
    """

    found: cuda_choose.SampledScope
    firsts: int = 0
    values: int = 0
    values_chars: int = 0
    longest: int = 0
    null_count: int = 0
    codes: Parts = ()
    validity: Parts = ()
    segments: Sequence[Segment] = ()
    held: Any = None


@dataclass
class DictColumn:
    """A column on its way: its scopes, of which those without a dictionary are text.

    Attributes
    ----------
    task : ColumnTask
    chars : int or None
        Its characters, or a limit.
    scopes : list of cuda_choose.SampledScope
    most : dict
        Of scopes, by number, that may have a dictionary: how many values at most.
    dictionaries : dict
        Of those that have one.
    """

    task: ColumnTask
    chars: int | None = None
    scopes: list[cuda_choose.SampledScope] = field(default_factory=list)
    most: dict[int, int] = field(default_factory=dict)
    dictionaries: dict[int, DictionaryScope] = field(default_factory=dict)

    def take(self, scopes: list[cuda_choose.SampledScope]) -> None:
        """Take the scopes, with their samples, and see which may have a dictionary."""
        self.scopes, named = scopes, self.task.named
        for number, scope in enumerate(scopes):
            if not plan.has_rows(scope.rows, named=named):
                continue
            if not (named or plan.repeats(scope.sampled, scope.different)):
                continue
            if limit := plan.most_values(scope.rows, scope.chars, named=named):
                self.most[number] = limit

    def search(self, number: int) -> cuda_find.ScopeRange:
        """A scope that may have a dictionary, for its values to be found."""
        scope, strings = self.scopes[number], self.task.strings
        what = self.task.what
        return cuda_find.ScopeRange(
            strings, scope.first, scope.rows, scope.chars, self.most[number], scope.different, what
        )

    def decide(self, number: int, numbered: cuda_find.Numbered) -> DictionaryScope | None:
        """The scope, if it has a dictionary, now that its values are found."""
        sampled = self.scopes[number]
        if not plan.accepts(sampled.rows, sampled.chars, numbered.values, numbered.chars, named=self.task.named):
            return None
        scope = DictionaryScope(
            sampled, numbered.firsts, numbered.values, numbered.chars, numbered.longest, numbered.null_count
        )
        self.dictionaries[number] = scope
        return scope


def scratch(tasks: Sequence[ColumnTask], others_nbytes: int) -> int:
    """Bytes of memory that a call may use beside its input and its result.

    `others_nbytes`: uncompressed bytes of its columns that are not in `tasks`.
    """
    nbytes = others_nbytes + sum((task.strings.chars_limit or 0) + 4 * task.strings.rows for task in tasks)
    return scratch_limit(nbytes)


def choose(tasks: Sequence[ColumnTask], chars: Sequence[int | None], lane: Lane) -> Steps:
    """Cut columns into scopes, and find those that may have a dictionary, by their samples.

    Parameters
    ----------
    tasks
    chars
        Of each, what ``text.cuda_task.chars_of`` has found.
    lane
        Waited for at each yield.

    Returns
    -------
    list of DictColumn
    """
    columns = [DictColumn(task, nbytes) for task, nbytes in zip(tasks, chars, strict=True)]
    candidates = [column for column in columns if column.task.may_have]
    if not candidates:
        return columns
    scopes_of_columns = yield from cuda_choose.scopes(
        [cuda_choose.SampledColumn(column.task.strings, column.task.named, column.chars or 0) for column in candidates],
        lane,
    )
    for column, scopes in zip(candidates, scopes_of_columns, strict=True):
        column.take(scopes)
    return columns


def round_samples(tasks: Sequence[ColumnTask], chars: Sequence[int | None]) -> cuda_choose.RoundSamples | None:
    """Samples of columns for a round to carry along, before it begins; None where they are better looked at alone.

    That is so unless it is likely that no column has a dictionary: long rows seldom repeat.
    """
    columns = [
        (number, task.strings, nbytes)
        for number, (task, nbytes) in enumerate(zip(tasks, chars, strict=True))
        if task.strings.rows and nbytes is not None
    ]
    return cuda_choose.RoundSamples(columns) if columns and seldom(tasks, chars) else None


def seldom(tasks: Sequence[ColumnTask], chars: Sequence[int | None]) -> bool:
    """Whether it is likely that no column has a dictionary."""
    return all(
        task.may_have and not task.named and nbytes >= _LONG_ROWS * task.strings.rows
        for task, nbytes in zip(tasks, chars, strict=True)
        if task.strings.rows and nbytes is not None
    )


def dictionaries(columns: Sequence[DictColumn], *, lane: Lane, outbox: Outbox | None, others_nbytes: int = 0) -> Steps:
    """Compress the scopes of columns for which a dictionary pays.

    Parameters
    ----------
    columns
        What `choose` has found. Their dictionaries are set.
    lane
        Waited for at each yield.
    outbox
        Where parts go as soon as they are made.
    others_nbytes
        Uncompressed bytes of the call's other columns.
    """
    candidates = [(column, number) for column in columns for number in column.most]
    searches = [column.search(number) for column, number in candidates]
    if not candidates:
        return
    tasks = [column.task for column in columns]
    scratch_nbytes = scratch(tasks, others_nbytes)
    waiting: list[tuple[DictColumn, DictionaryScope]] = []
    for first, last in _rounds(searches, scratch_nbytes):
        yield from _round(searches[first:last], candidates[first:last], scratch_nbytes, waiting, lane, outbox)
    for group in _groups(waiting):
        yield from _compress_values(group, lane, outbox)


def _rounds(searches: Sequence[cuda_find.ScopeRange], scratch_nbytes: int) -> Iterator[tuple[int, int]]:
    """Searches that share the room: the first and, exclusive, the last."""
    start, nbytes = 0, _PACKING_NULLS
    for i, search in enumerate(searches):
        search_nbytes = search.most_nbytes + search.rows // _ROWS_PER_BYTE
        if i > start and nbytes + search_nbytes > scratch_nbytes:
            yield start, i
            start, nbytes = i, _PACKING_NULLS
        nbytes += search_nbytes
    if searches:
        yield start, len(searches)


def _round(
    searches: Sequence[cuda_find.ScopeRange],
    candidates: Sequence[tuple[DictColumn, int]],
    scratch_nbytes: int,
    waiting: list[tuple[DictColumn, DictionaryScope]],
    lane: Lane,
    outbox: Outbox | None,
) -> Steps:
    """Number the values of some scopes, and pack the codes where a dictionary pays.

    Codes and values are measured together, with one wait for both.
    """
    packing = _PACKING_NULLS if any(numbering.strings.null_count for numbering in searches) else _PACKING
    numbered = yield from cuda_find.number(searches, lane, scratch_nbytes=scratch_nbytes - packing)
    coded: list[tuple[cuda_find.Numbered, DictionaryScope]] = []
    decided: list[tuple[DictColumn, DictionaryScope]] = []
    try:
        for (column, number), numbering in zip(candidates, numbered, strict=True):
            if numbering is None:
                continue
            if (scope := column.decide(number, numbering)) is None:
                numbering.release()
                continue
            decided.append((column, scope))
            coded.append((numbering, scope))
        values_nbytes = sum(scope.values_chars + 4 * scope.values for _, scope in decided)
        few = values_nbytes <= _FEW_VALUES_NBYTES
        spare = scratch_nbytes - packing - sum(numbering.nbytes for numbering, _ in coded) - 4 * values_nbytes * few
        packing_steps = pack([numbering for numbering, _ in coded], lane, outbox, scratch_nbytes=spare)
        values = _compress_values(decided if few else [], lane, outbox)
        if not few:
            for numbering, scope in coded:  # they are wanted when the rest has been given back
                scope.held = lane.allocate(4 * numbering.values)
                lane.copy(scope.held.ptr, numbering.firsts, 4 * numbering.values)
                scope.firsts = int(scope.held.ptr)
            waiting += decided
        packed, _ = yield from together(packing_steps, values)
        for (_, scope), (validity, codes) in zip(coded, packed, strict=True):
            scope.validity, scope.codes = validity, codes
    finally:
        for numbering in numbered:
            if numbering is not None:
                numbering.release()


def _groups(
    waiting: Sequence[tuple[DictColumn, DictionaryScope]],
) -> Iterator[list[tuple[DictColumn, DictionaryScope]]]:
    """Dictionaries whose values are in memory together."""
    group: list[tuple[DictColumn, DictionaryScope]] = []
    nbytes = 0
    for column, scope in waiting:
        if group and nbytes + scope.values_chars > _VALUES_NBYTES:
            yield group
            group, nbytes = [], 0
        group.append((column, scope))
        nbytes += scope.values_chars + 4 * scope.values
    if group:
        yield group


def gather_values(group: Sequence[tuple[DictColumn, DictionaryScope]], lane: Lane) -> list[TextTask]:
    """Gather the values of dictionaries, to be compressed as text."""
    tasks, gatherings = [], []
    sizes = [nbytes for _, scope in group for nbytes in (4 * (scope.values + 1), scope.values_chars)]
    allocated = iter(lane.allocate_all(sizes))
    for column, scope in group:
        strings, rows, nbytes = column.task.strings, scope.values, scope.values_chars
        offsets, chars = next(allocated), next(allocated)
        itemsize = strings.offsets_itemsize
        first = strings.offsets + scope.found.first * itemsize
        source = cuda_text.Dictionary(strings.chars, first, itemsize, scope.found.rows, 0)
        if rows:
            gatherings.append(cuda_text.Gathering(source, scope.firsts, rows, offsets.ptr, chars.ptr, nbytes))
        gathered = DeviceStrings(rows, chars.ptr, offsets.ptr, 4, owners=(offsets, chars, None), chars_limit=nbytes)
        options = {name: value for name, value in column.task.options.items() if name != "table"}
        tasks.append(TextTask(gathered, **options))
    cuda_text.gather(gatherings, lane)
    return tasks


def _compress_values(group: Sequence[tuple[DictColumn, DictionaryScope]], lane: Lane, outbox: Outbox | None) -> Steps:
    """Gather the values of dictionaries, and compress them."""
    if not group:
        return
    compressed = yield from text.steps([codec_of()], gather_values(group, lane), lane=lane, outbox=outbox)
    for (_, scope), segments in zip(group, compressed, strict=True):
        scope.segments, scope.held = segments, None


def plain_tasks(columns: Sequence[DictColumn]) -> list[TextTask]:
    """The tasks of text: columns without dictionaries, and of others the scopes without one."""
    tasks = []
    for column in columns:
        task = TextTask(column.task.strings, **column.task.options, chars=column.chars)
        if column.dictionaries:
            if len(column.dictionaries) == len(column.scopes):
                continue
            task = task._replace(only=frozenset(range(len(column.scopes))) - column.dictionaries.keys())
        tasks.append(task)
    return tasks


def nodes(columns: Sequence[DictColumn], plain: Iterator[Sequence[Segment]]) -> Generator[Node, None, None]:
    """The nodes of columns; `plain`: what has become of `plain_tasks`."""
    for column in columns:
        kind = column.task.column.type
        if not column.dictionaries:
            yield of_parts(kind, next(plain))
            continue
        text_segments = iter(() if len(column.dictionaries) == len(column.scopes) else next(plain))
        parts: list[Part] = []
        for number, sampled in enumerate(column.scopes):
            scope = column.dictionaries.get(number)
            if scope is None:
                parts += _of_rows(sampled.rows, text_segments)
                continue
            values = of_parts(kind, scope.segments)
            fields = values, scope.codes, scope.validity, scope.null_count, sampled.chars
            parts.append(dict_part(*fields, longest=scope.longest))
        yield of_parts(kind, parts)


def _of_rows(rows: int, segments: Iterator[Segment]) -> Iterator[Segment]:
    """The next segments, which have so many rows."""
    while rows > 0:
        segment = next(segments)
        rows -= segment.rows
        yield segment
