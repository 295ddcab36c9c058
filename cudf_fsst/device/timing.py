"""Times of kernel launches, by CUDA events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy

from .memory import Lane

#: Name, start and end (milliseconds from one moment on) of a launch.
Launches = list[tuple[str, float, float]]


@contextmanager
def recorded_launches(into: Launches) -> Iterator[None]:
    """Collect every launch made inside, by whatever thread; all have ended when this has."""
    events: list[tuple[str, Any, Any]] = []
    launch = Lane.launch
    zero = cupy.cuda.Event()
    zero.record()

    def timed(self: Lane, kernel: Any, *args: Any, **kwargs: Any) -> None:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(self.stream)
        launch(self, kernel, *args, **kwargs)
        end.record(self.stream)
        events.append((kernel.name, begin, end))

    Lane.launch = timed  # type: ignore[method-assign]  # for a while
    try:
        yield
    finally:
        Lane.launch = launch  # type: ignore[method-assign]  # as it was
        cupy.cuda.runtime.deviceSynchronize()
        elapsed = cupy.cuda.get_elapsed_time
        into.extend((name, elapsed(zero, begin), elapsed(zero, end)) for name, begin, end in events)


def span(launches: Launches, prefix: str) -> float:
    """Milliseconds from the first start to the last end of the kernels so named, gaps between them included."""
    wanted = [launch for launch in launches if launch[0].startswith(prefix)]
    return max(end for _, _, end in wanted) - min(begin for _, begin, _ in wanted)


def median_span(call: Callable[[], Any], prefix: str, repeat: int) -> float:
    """Median `span` of a call, after one that does not count."""
    spans = []
    for _ in range(1 + repeat):
        launches: Launches = []
        with recorded_launches(launches):
            call()
        spans.append(span(launches, prefix))
    return statistics.median(spans[1:])
