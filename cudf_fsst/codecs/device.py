"""Columns of any type in GPU memory: compress their buffers, and get them back; the same bytes as `host`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..arrow_types import has_offsets
from ..buffers import ColumnBuffers, DeviceStrings
from ..device import waits
from ..device.memory import Lane
from ..device.transfer import Outbox
from .contract import TextCodec
from .device_read import read, receive, take
from .device_strings import accept, match, validity
from .device_values import in_other_case, spread, values_of
from .dict import cuda_answer, cuda_merge
from .dict import cuda_compress as dictionary
from .dict import cuda_short as short
from .node import DictPart, Node, Parts, is_signed, of_validity
from .part import Part
from .registry import string_names, texts
from .span import Span
from .task import ColumnTask
from .text import cuda as text
from .text.cuda_compress import TextRound
from .text.cuda_row import read_row
from .text.cuda_task import chars_of, takes_all
from .text.segment import Segment
from .values import cuda as fixed
from .values import cuda_read as fixed_read
from .values import plan

__all__ = [
    "accept",
    "compare",
    "compress",
    "count",
    "in_other_case",
    "is_in",
    "match",
    "merge",
    "read",
    "read_row",
    "receive",
    "remap",
    "spread",
    "take",
    "validity",
    "values_of",
]


def compress(columns: Sequence[ColumnTask], *, lane: Lane, outbox: Outbox | None = None) -> list[Node]:
    """Compress columns, all at once.

    Parameters
    ----------
    columns
        Their buffers are in GPU memory.
    lane
        What the work runs on; it is waited for where sizes are measured, for all columns together.
    outbox
        Where their parts go as soon as they are made.

    Raises
    ------
    ValueError
        A codec that a column wants does not take its values. Nothing has been done then. Its attribute ``column`` is
        the number of the column.
    """
    values: list[fixed.StreamTask] = []
    strings: list[ColumnTask] = []
    for number, task in enumerate(columns):
        try:
            _collect(task, values, strings)
        except ValueError as error:
            error.column = number  # type: ignore[attr-defined]  # for whoever names the column
            raise
    # Columns that other codecs of text than the first one may take are compressed by themselves, unless all are alike.
    codecs, usual = [task.texts for task in strings], texts()[:1]
    eligible = {i for i, task in enumerate(strings) if task.may_have}
    if len(set(codecs)) == 1 and not (values or eligible):
        usual = codecs[0]
    apart = {i: task for i, task in enumerate(strings) if codecs[i] != usual}
    asked = [task for i, task in enumerate(strings) if i not in apart] if apart else strings
    may_have = bool(eligible - apart.keys())
    others = sum([task.source.rows * task.source.itemsize for task in values])
    limits = short.limits_of(asked, others) if may_have else None
    # Without values there are no launches to share: where all is expected to be text, it carries the samples along.
    if limits is not None and (values or not dictionary.seldom(asked, limits)):
        together = short.Short(asked, limits, lane, outbox, others)
        steps = together.steps(), fixed.compress(values, lane=lane, outbox=outbox, beside=together)
        plain, streams = waits.run(lane, *steps)
        together.take(streams[len(values) :])
        found = together.columns
    elif may_have:
        found, plain, streams = _compress_long(asked, values, others, lane, outbox)
    else:
        found = [dictionary.DictColumn(task) for task in asked]
        found, plain, streams = _compress_text(found, values, lane, outbox, codecs=usual)
    every: Iterator[Node] = dictionary.nodes(found, iter(plain))
    if apart:
        rest, nodes = every, _compress_apart(apart, others, lane, outbox)
        every = (nodes[i] if i in nodes else next(rest) for i in range(len(strings)))
    of_values = iter(streams)
    return [_build(task.column, of_values, every) for task in columns]


def _compress_apart(tasks: Mapping[int, ColumnTask], others: int, lane: Lane, outbox: Outbox | None) -> dict[int, Node]:
    """Columns of strings, those for which the same codecs compete together; a scope may have a dictionary."""
    nodes: dict[int, Node] = {}
    for codecs in dict.fromkeys(task.texts for task in tasks.values()):
        own = {i: task for i, task in tasks.items() if task.texts == codecs}
        wanted = list(own.values())
        (chars,) = waits.run(lane, chars_of([task.strings for task in wanted], lane))
        (columns,) = waits.run(lane, dictionary.choose(wanted, chars, lane))
        waits.run(lane, dictionary.dictionaries(columns, lane=lane, outbox=outbox, others_nbytes=others))
        plain = dictionary.plain_tasks(columns)
        (segments,) = waits.run(lane, text.steps(codecs, plain, lane=lane, outbox=outbox)) if plain else ((),)
        nodes |= zip(own, dictionary.nodes(columns, iter(segments)), strict=True)
    return nodes


def _compress_long(
    asked: Sequence[ColumnTask],
    values: Sequence[fixed.StreamTask],
    others: int,
    lane: Lane,
    outbox: Outbox | None,
) -> tuple[list[dictionary.DictColumn], Sequence[Sequence[Segment]], Sequence[Parts]]:
    """Columns of strings, the segments of those without a dictionary, and streams of values."""
    (chars,) = waits.run(lane, chars_of([task.strings for task in asked], lane))
    scopes = None
    if (samples := dictionary.round_samples(asked, chars)) is not None:
        found = [dictionary.DictColumn(task, nbytes) for task, nbytes in zip(asked, chars, strict=True)]
        first = text.first_round(dictionary.plain_tasks(found), lane=lane, outbox=outbox, beside=samples)
        with first or nullcontext():
            lane.synchronize()
            scopes = None if first is None else samples.scopes(first.counts.tolist())
            if scopes is not None:
                for number, of_column in scopes.items():
                    found[number].take(of_column)
                if not any(column.most for column in found):
                    return _compress_text(found, values, lane, outbox, first)
    if scopes is None:
        (found,) = waits.run(lane, dictionary.choose(asked, chars, lane))
    # Dictionaries take all the workspace that the memory rule allows.
    waits.run(lane, dictionary.dictionaries(found, lane=lane, outbox=outbox, others_nbytes=others))
    return _compress_text(found, values, lane, outbox)


def _compress_text(
    columns: list[dictionary.DictColumn],
    values: Sequence[fixed.StreamTask],
    lane: Lane,
    outbox: Outbox | None,
    first: TextRound | None = None,
    codecs: Sequence[TextCodec] = texts()[:1],
) -> tuple[list[dictionary.DictColumn], Sequence[Sequence[Segment]], Sequence[Parts]]:
    """What has no dictionary, and streams of values; `first`: of the strings, if it was launched before."""
    strings = dictionary.plain_tasks(columns)
    # Strings first: their tables are trained meanwhile.
    steps: list[waits.Steps] = []
    if strings:
        steps.append(text.steps(codecs, strings, lane=lane, outbox=outbox, first=first))
    if values:
        steps.append(fixed.compress(values, lane=lane, outbox=outbox))
    # Strings that are too long to be compressed together take all the workspace that the memory rule allows.
    if len(steps) == 2 and takes_all(strings):
        results = [waits.run(lane, step)[0] for step in steps]
    else:
        results = waits.run(lane, *steps)
    return columns, results[0] if strings else (), results[-1] if values else ()


def compare(node: Node, span: Span, *, lane: Lane) -> Any:
    """For each row of a column of numbers whether it lies in a range, a buffer of a byte each; of null rows any.

    None: the rows have to be decoded.
    """
    if not _answers(node):
        return None
    out = lane.allocate(node.rows)
    fixed_read.compare(node.values[0], span, out.ptr, lane=lane)
    return out


def is_in(node: Node, values: int, count: int, *, lane: Lane) -> Any:
    """A byte for each row: whether it is one of `count` values of the same type at an address; None as `compare`."""
    if not _answers(node):
        return None
    out = lane.allocate(node.rows)
    return out if fixed_read.is_in(node.values[0], values, count, out.ptr, lane=lane) else None


def _answers(node: Node) -> bool:
    return len(node.values) == 1 and not node.children and bool(node.rows) and fixed_read.answers(node.values[0])


def count(part: DictPart, *, lane: Lane) -> Any:
    return cuda_answer.count(part, lane=lane)


def remap(part: DictPart, table: int, itemsize: int, *, lane: Lane, start: int = 0, stop: int | None = None) -> Any:
    """For each row of a part with a dictionary the entry of a table for its value, in a buffer; any for null rows.

    Parameters
    ----------
    table, itemsize : int
        Address, and bytes of an entry.
    """
    stop = part.rows if stop is None else stop
    out = lane.allocate((stop - start) * itemsize)
    cuda_answer.remap(part, table, itemsize, out.ptr, lane=lane, start=start, stop=stop)
    return out


def merge(columns: Sequence[Sequence[Part]], *, lane: Lane) -> list[list[Part]]:
    """Parts of columns of strings; neighbours with dictionaries are one where that is smaller (`plan.merges`)."""
    return cuda_merge.merge(columns, lane=lane)


def _has_validity(column: ColumnBuffers) -> bool:
    return bool(column.strings is None and column.null_count and not pa.types.is_null(column.type))


def _halves(column: ColumnBuffers) -> tuple[int | None, ...]:
    """For each stream of a column's values which half of them it has: None, or 0 and 1 of values of 16 bytes."""
    if not column.itemsize or not column.rows:
        return ()
    return (0, 1) if column.itemsize == 16 else (None,)


def _collect(task: ColumnTask, values: list[fixed.StreamTask], strings: list[ColumnTask]) -> None:
    """Everything that a column consists of, in the order in which `_build` takes it."""
    column, codec = task.column, task.codec
    if column.strings is not None:
        if codec is not None and codec not in string_names():
            raise ValueError(f"codec {codec!r} does not take strings, only {string_names()} do")
        # Without rows there are no buffers, wherever they would be.
        if not isinstance(column.strings, DeviceStrings):
            task = task._replace(column=replace(column, strings=DeviceStrings(0, 0, 0, 4)))
        strings.append(task)
        return
    if _has_validity(column):
        bits = fixed.StreamSource.bitmap(column.validity, column.validity_offset, column.rows)
        values.append(fixed.StreamTask(bits, what=of_validity(task.what)))
    if halves := _halves(column):
        nested = has_offsets(column.type)  # a codec that the user names is for the leaves
        if codec in string_names() and not nested:
            raise ValueError(f"codec {codec!r} takes strings, not {column.type}")
        nulls = (column.validity, column.validity_offset) if column.null_count and not nested else (0, 0)
        itemsize = 8 if len(halves) == 2 else column.itemsize
        floats, signed = bool(pa.types.is_floating(column.type)), is_signed(column.type)
        own = None if nested else codec
        plan.candidates(itemsize, floats=floats, codec=own)  # refuses what does not fit
        for half in halves:
            source = fixed.StreamSource(column.values, column.rows + nested, itemsize, half, *nulls)
            values.append(fixed.StreamTask(source, floats, signed and half != 0, own, task.what))
    inner = None if pa.types.is_dictionary(column.type) else codec  # what the user wants is for the codes
    for child in column.children:
        _collect(task._replace(column=child, codec=inner), values, strings)


def _build(column: ColumnBuffers, streams: Iterator[Parts], strings: Iterator[Node]) -> Node:
    """The node of a column, by what has become of what `_collect` found."""
    if column.strings is not None:
        return next(strings)
    validity = next(streams) if _has_validity(column) else ()
    values = tuple(next(streams) for _ in _halves(column))
    children = tuple(_build(child, streams, strings) for child in column.children)
    return Node(column.type, column.rows, column.null_count, validity, values, (), children)
