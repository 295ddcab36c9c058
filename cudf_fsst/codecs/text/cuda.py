"""Columns of text to GPU memory, by any codec: what `cpu` does for host memory, with the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np

from ...buffers import DeviceStrings
from ...device import waits
from ...device.kernels import Kernel
from ...device.memory import Lane
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..contract import TextCodec
from ..table import Table
from . import cuda_choice, cuda_compress, cuda_on_host
from .choose import codec_of
from .cuda_choice import ChosenTable
from .cuda_compress import BesideRound, TextRound
from .cuda_kernels import get_kernel
from .cuda_task import TextTask, TileEncoder
from .layout import check_options
from .segment import Segment


def steps(
    codecs: Sequence[TextCodec],
    tasks: Sequence[TextTask],
    *,
    lane: Lane,
    outbox: Outbox | None = None,
    first: TextRound | None = None,
) -> Steps:
    """Compress columns, on the host where a codec has no kernels to encode.

    Parameters
    ----------
    codecs
        One; or several, of which each scope gets the one with which it is expected to be smallest (`choose.train`).
    tasks, lane, outbox
        See `cuda_compress.compress`.
    first
        What `first_round` has made of the same; the lane has been waited for.
    """
    if first is not None:
        return (yield from cuda_compress.compress(tasks, lane=lane, outbox=outbox, first=first))
    every = [_encoders(tuple(codecs), task.level) for task in tasks]
    if not all(every):
        return (yield from cuda_on_host.compress(codecs, tasks, lane=lane, outbox=outbox))
    ready = [TextTask(*task[:-1], encoders[0]) for task, encoders in zip(tasks, every, strict=True)]
    compared = [i for i, task in enumerate(tasks) if len(every[i]) > 1 and task.table is None and not task.tables]
    if compared:
        chosen = yield from cuda_choice.tables(every[compared[0]], [ready[i] for i in compared], lane=lane)
        if len(codecs) > 1:
            return (yield from _by_codecs(codecs, ready, chosen, lane, outbox))
        for i, choices in zip(compared, chosen, strict=True):
            ready[i] = _with_tables(ready[i], choices)
    return (yield from cuda_compress.compress(ready, lane=lane, outbox=outbox))


def first_round(
    tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None, beside: BesideRound | None = None
) -> TextRound | None:
    """What `steps` does before its first wait, by the first codec of text; see `cuda_compress.first_round`.

    None as well where that codec has other encoders than one, of which some scopes get each.
    """
    every = [_encoders((codec_of(),), task.level) for task in tasks]
    if {len(encoders) for encoders in every} - {1}:
        return None
    ready = [TextTask(*task[:-1], encoder) for task, (encoder,) in zip(tasks, every, strict=True)]
    return cuda_compress.first_round(ready, lane=lane, outbox=outbox, beside=beside)


@cache
def _encoders(codecs: tuple[TextCodec, ...], level: str) -> list[TileEncoder]:
    """The encoders of codecs; none if one of them has none."""
    check_options("auto", level)
    every = [codec.device().encoders(level) for codec in codecs]
    return list(chain(*every)) if all(every) else []


def _with_tables(task: TextTask, choices: Sequence[ChosenTable | None]) -> TextTask:
    """A task with the tables that were chosen; None where nobody wants the scope."""
    tables = tuple(None if choice is None else choice.table for choice in choices)
    return task._replace(tables=tables, lookups=tuple(None if choice is None else choice.lookup for choice in choices))


def _by_codecs(
    codecs: Sequence[TextCodec],
    tasks: Sequence[TextTask],
    chosen: Sequence[Sequence[ChosenTable]],
    lane: Lane,
    outbox: Outbox | None,
) -> Steps:
    """Compress columns with the tables that were chosen for their scopes, those of one codec together."""
    compressed: list[dict[int, list[Segment]]] = [{} for _ in tasks]
    for codec in codecs:
        numbers, own_tasks = [], []
        for i, task in enumerate(tasks):
            own = {k for k, choice in enumerate(chosen[i]) if choice.table.codec == codec.NAME}
            own = own if task.only is None else own & task.only
            if own:
                only = frozenset(own) if len(own) < len(chosen[i]) else None
                numbers.append((i, sorted(own)))
                choices = [choice if k in own else None for k, choice in enumerate(chosen[i])]
                own_tasks.append(_with_tables(task, choices)._replace(only=only))
        if not own_tasks:
            continue
        found = yield from steps((codec,), own_tasks, lane=lane, outbox=outbox)
        for (i, wanted), segments in zip(numbers, found, strict=True):
            rest = iter(segments)
            for k in wanted:
                compressed[i][k] = [next(rest) for _ in range(chosen[i][k].segments)]
    return [[segment for k in sorted(own) for segment in own[k]] for own in compressed]


def train(strings: DeviceStrings, codec: str | None = None, *, level: str = "default", stream: Any = None) -> Table:
    """Train one table on a whole column."""
    check_options("auto", level)
    of = codec_of(codec)
    encoders = of.device().encoders(level)
    if not encoders:
        return cuda_on_host.train(of, strings, level=level, stream=stream)
    table: Table
    if strings.rows == 0:  # such a column may have no offsets
        table = of.host().train(np.empty(0, np.uint8), 0, 0, level)
        return table
    with Lane(stream) as lane:
        steps = cuda_choice.tables(encoders, [TextTask(strings, level=level)], lane=lane, one_scope=True)
        ((((table, *_),),),) = waits.run(lane, steps)
        return table


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    """What makes the kernels that usual calls need in a step of `ahead.NEEDS`, whatever the codec."""
    lengths = ("pack", "measure", "scan")
    steps: dict[str, tuple[tuple[Any, ...], ...]] = {
        "compress": (
            *(("row_lengths", f"row_lengths_{name}") for name in lengths),
            ("row_lengths", "segment_begins"),
            ("text_compact", "text_compact", codec_of().TILE_SIZE),
        ),
        "compress short": (("row_lengths", "row_lengths_look"),),
        "match": (("text_match", "match_contains"),),
        "match more": (
            ("text_match", "match_edge"),
            ("row_lengths", "gather_validity"),
            ("text_answers", "answers_have"),
        ),
        "read": (("row_lengths", "row_lengths_unpack"),),
    }
    yield from (partial(get_kernel, *named) for named in steps.get(step, ()))
