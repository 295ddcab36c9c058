"""Columns of text to GPU memory, by any codec: what `cpu` does for host memory, with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...buffers import DeviceStrings
from ...device.memory import Lane
from ...device.transfer import Outbox
from ...device.waits import Steps
from ..contract import Table, TextCodec
from . import cuda_on_host, cuda_sample, plan
from .choose import codec_of
from .choose import smallest as smallest_of
from .cuda_task import TextTask
from .segment import Segment


def steps(codec: TextCodec, tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None) -> Steps:
    """Compress columns by a codec, on the host if it has no kernels to encode; see `contract.DeviceTextCodec`."""
    side: Any = codec.device()
    if side.ENCODES:
        made: Steps = side.compress(tasks, lane=lane, outbox=outbox)
        return made
    return cuda_on_host.compress([codec], tasks, lane=lane, outbox=outbox)


def smallest(
    codecs: Sequence[TextCodec], tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None
) -> Steps:
    """Compress columns, each scope by the codec with which it is expected to be smallest (`choose.train`)."""
    sides: list[Any] = [codec.device() for codec in codecs]
    if not all(side.ENCODES for side in sides):
        return (yield from cuda_on_host.compress(codecs, tasks, lane=lane, outbox=outbox))
    trained = []
    for side in sides:
        trained.append((yield from side.tables(tasks, lane=lane)))
    scopes = yield from cuda_sample.spans(tasks, lane=lane)
    samples = [[cuda_sample.fetch(span, plan.choice_positions(0, span.nbytes), lane) for span in own] for own in scopes]
    yield
    chosen = [
        [
            smallest_of([of_codec[i][k] for of_codec in trained], sample, span.nbytes, task.level)
            for k, (span, sample) in enumerate(zip(scopes[i], samples[i], strict=True))
        ]
        for i, task in enumerate(tasks)
    ]
    made: list[dict[int, list[Segment]]] = [{} for _ in tasks]
    for codec, side in zip(codecs, sides, strict=True):
        numbers, own_tasks = [], []
        for i, task in enumerate(tasks):
            own = {k for k, table in enumerate(chosen[i]) if table.codec == codec.NAME}
            own = own if task.only is None else own & task.only
            if own:
                given = tuple(table if k in own else None for k, table in enumerate(chosen[i]))
                numbers.append((i, sorted(own)))
                own_tasks.append(task._replace(only=frozenset(own) if len(own) < len(given) else None, tables=given))
        if not own_tasks:
            continue
        found = yield from side.compress(own_tasks, lane=lane, outbox=outbox)
        for (i, wanted), segments in zip(numbers, found, strict=True):
            rest = iter(segments)
            for k in wanted:
                made[i][k] = [next(rest) for _ in range(scopes[i][k].segments)]
    return [[segment for k in sorted(own) for segment in own[k]] for own in made]


def train(strings: DeviceStrings, codec: str | None = None, *, level: str = "default", stream: Any = None) -> Table:
    """Train one table on a whole column."""
    of = codec_of(codec)
    side: Any = of.device()
    if not side.ENCODES:
        return cuda_on_host.train(of, strings, level=level, stream=stream)
    made: Table = side.train(strings, level=level, stream=stream)
    return made
