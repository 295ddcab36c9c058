"""Many streams of fixed-width values in GPU memory, compressed at once: the same bytes as by `cpu`.

A stream of few values is measured as a whole with every codec that may do, of a longer one its sample; then the parts
of longer streams are measured with the codec chosen. Launches cover all streams: a kernel gets an array of jobs, and
all arrays of a step come to the GPU in one copy. So launches and waits do not grow with the number of streams.

Values that do not lie in memory as codecs want them (with nulls, a half of each number, bitmaps) are gathered into a
room of limited size before they are measured, and once more before they are packed, unless all fit at once.

A NaN is looked for where floating point numbers are measured. Where there is one, they are measured once more, with
what stands in for it, and there is a wait more. Such values are gathered, too.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

from ...device.memory import Lane
from ...device.transfer import Outbox
from ..cuda_tables import JobTables
from ..part import Packed
from ..registry import on_device
from . import plan
from .cuda_batch import StreamBatch, StreamItem, StreamSource, StreamTask, gather


class BesideStreams(Protocol):
    """Has more streams, which are not known when the call begins."""

    def tasks(self) -> Sequence[StreamTask]:
        """The streams, each with its choice of a codec; asked for once, before anything is launched."""

    def are_packed(self) -> Sequence[bool]:
        """Whether each of the streams is packed; asked for once, when all are measured."""


def compress(
    tasks: Sequence[StreamTask], *, lane: Lane, outbox: Outbox | None = None, beside: BesideStreams | None = None
) -> Generator[None, None, list[tuple[Packed, ...]]]:
    """Compress streams of values.

    Parameters
    ----------
    tasks
    lane
        What the work runs on, and has to be waited for at each yield: at most twice, but where there is a NaN, and for
        codecs that compress one part at a time.
    outbox
        Where parts go as soon as they are made.
    beside
        Whose streams are compressed along, behind the tasks.

    Returns
    -------
    list
        Of each task the parts of its stream: the bytes of `cpu.compress`. Those that are not wanted have none.

    Raises
    ------
    ValueError
        A codec does not take such values; nothing has been done then.
    """
    choices_of = [task.choices for task in tasks]
    parts_of: list[list[Packed]] = [[] for _ in tasks]

    def collect(number: int, part: Packed) -> None:
        parts_of[number] += [part] if outbox is None else outbox.send_parts([part], lane)

    def pack(batch: StreamBatch, whole: Sequence[tuple[int, StreamItem]], *, chosen: bool = False) -> None:
        for number, item in whole:
            task = tasks[number]
            item.choose(item.choices[0].codec if chosen or task.known else task.codec, task.what)
        for own in (batch, tried):
            items = [
                (number, item.replacement) for number, item in whole if (item.replacement is item) == (own is batch)
            ]
            for (number, _), part in zip(items, own.pack([item for _, item in items], lane), strict=True):
                collect(number, part)

    with StreamBatch() as batch, StreamBatch() as tried:
        whole, samples = [], []
        for number, (task, choices) in enumerate(zip(tasks, choices_of, strict=True)):
            rows, known = task.source.rows, task.known
            cut, runs = plan.part_rows(rows, task.source.itemsize), plan.sample_runs(rows)
            if _is_alone(task.codec) or not rows:
                continue
            if known or len(cut) == len(runs) == 1:
                whole += [(number, batch.add(task, choices, *rows_of_part)) for rows_of_part in cut]
            else:
                sample = (runs[0][1], runs[1][0]) if len(runs) > 1 else ()
                samples.append((number, batch.add(task, choices, 0, runs[-1][1], *sample)))
        if beside is not None:
            beside_tasks = beside.tasks()
            tasks = [*tasks, *beside_tasks]
            for number, task in enumerate(beside_tasks, len(parts_of)):
                parts_of.append([])
                for rows_of_part in plan.part_rows(task.source.rows, task.source.itemsize):
                    whole.append((number, batch.add(task, task.choices, *rows_of_part)))
        yield from batch.measure(lane)
        if beside is not None and not all(packed := beside.are_packed()):
            whole = [
                (number, item) for number, item in whole if number < len(choices_of) or packed[number - len(choices_of)]
            ]
        for number, item in (*whole, *samples):
            task = tasks[number]
            for choice in plan.with_nan(item.itemsize, floats=task.floats, codec=task.codec, nan=item.least_nan):
                item.replaced[choice] = tried.add(task, (choice,), *item.place)
        yield from tried.measure(lane)
        later = [(number, item.choose(tasks[number].codec, tasks[number].what)) for number, item in samples]
        pack(batch, whole)
    with StreamBatch() as batch:
        whole = []
        for number, choice in later:
            source = tasks[number].source
            for rows_of_part in plan.part_rows(source.rows, source.itemsize):
                whole.append((number, batch.add(tasks[number], (choice,), *rows_of_part)))
        yield from batch.measure(lane)
        pack(batch, whole, chosen=True)
    for number, task in enumerate(tasks):
        if task.codec is not None and _is_alone(task.codec):
            for start, stop in plan.part_rows(task.source.rows, task.source.itemsize):
                collect(number, (yield from _alone(task.codec, task.source, start, stop, lane)))
    return [tuple(parts) for parts in parts_of]


def compress_as(
    source: StreamSource, choice: plan.Choice, *, signed: bool = False, lane: Lane
) -> Generator[None, None, Packed]:
    """Compress values as one part, by a codec and any options that it has."""
    if _is_alone(choice.codec):
        return (yield from _alone(choice.codec, source, 0, source.rows, lane, **dict(choice.options)))
    with StreamBatch() as batch:
        item = batch.add(StreamTask(source, signed=signed), (choice,), 0, source.rows)
        yield from batch.measure(lane)
        item.choose(choice.codec)
        (part,) = batch.pack([item], lane)
    return part


def _is_alone(codec: str | None) -> bool:
    """Whether a codec that the user names compresses one part at a time."""
    return codec is not None and bool(on_device(codec).ALONE)


def _alone(
    codec: str, source: StreamSource, start: int, stop: int, lane: Lane, **options: Any
) -> Generator[None, None, Packed]:
    """A part by such a codec."""
    rows, itemsize = stop - start, source.itemsize
    address = source.address + start * itemsize
    if not source.in_place:
        buffer = lane.allocate(rows * itemsize)
        address = int(buffer.ptr)
        tables = JobTables()
        gather(tables, [source.gather(start, stop, address)])
        tables.launch(lane)
    return (yield from on_device(codec).compress(address, rows, itemsize, lane=lane, **options))
