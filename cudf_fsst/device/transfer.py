"""Compressed parts of columns between GPU memory and pinned host memory, beside other work on the GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .memory import Lane, side_streams
from .pinned import host_buffer

#: A dataclass with the buffers ``meta`` and ``codes``: a segment, or packed values.
Part = TypeVar("Part", bound=Any)
# Compression has the first two side streams of a thread.
_COPY_STREAM = 2
# The GPU has one engine for a direction: sizes and descriptors that the host waits for get in between two of these.
_PIECE = 4 << 20


def _copy_lane() -> Lane:
    return Lane(side_streams(_COPY_STREAM + 1)[_COPY_STREAM])


class Outbox:
    """Copy buffers to pinned host memory in a stream of its own; each is let go of when its copy has ended.

    Use it as a context: what `send` gave is there at the end of it.
    """

    def __init__(self) -> None:
        self._lane = _copy_lane()
        self._under_way: deque[tuple[Any, Any, Any, Lane]] = deque()

    def __enter__(self) -> Outbox:
        self._lane.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lane.synchronize()
        self._under_way.clear()
        self._lane.__exit__(*error)

    def send(self, buffer: Any, after: Lane) -> npt.NDArray[np.uint8]:
        """Start to copy a device buffer, behind what is enqueued in the lane `after`."""
        self._lane.follow(after)
        host = host_buffer(buffer.size)
        for start in range(0, host.size, _PIECE):
            self._lane.download(host[start : start + _PIECE], buffer.ptr + start)
        # With the host's buffer, too: who asked for it may fail, and its memory must not go to someone else before.
        self._under_way.append((self._lane.event(), buffer, host, after))
        while self._under_way and self._under_way[0][0].done:
            _, sent, _, lane = self._under_way.popleft()
            lane.let_go(sent)
        return host

    def send_parts(self, parts: Sequence[Part], after: Lane) -> list[Part]:
        """Start to copy parts."""
        return [replace(part, meta=self.send(part.meta, after), codes=self.send(part.codes, after)) for part in parts]


class Inbox:
    """Copy buffers to the GPU in a stream of its own."""

    def __init__(self, lane: Lane) -> None:
        self._lane, self._into = _copy_lane(), lane

    def __enter__(self) -> Inbox:
        self._lane.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._into.follow(self._lane)
        self._lane.synchronize()  # the host's buffers may be let go of then
        self._lane.__exit__(*error)

    def receive_parts(self, parts: Sequence[Part]) -> list[Part]:
        """Take memory for parts; `fill` starts to copy them."""
        moved = []
        for part in parts:
            meta, codes = self._into.allocate(part.meta.size), self._into.allocate(part.codes.size)
            moved.append(replace(part, meta=meta, codes=codes))
        self._lane.follow(self._into)
        return moved

    def fill(self, targets: Sequence[Part], parts: Sequence[Part]) -> Any:
        """Start to copy parts; an event behind them."""
        for target, part in zip(targets, parts, strict=True):
            for buffer, array in ((target.meta, part.meta), (target.codes, part.codes)):
                contiguous = np.ascontiguousarray(array)
                for start in range(0, contiguous.size, _PIECE):
                    self._lane.upload(buffer.ptr + start, contiguous[start : start + _PIECE])
        return self._lane.event()


def to_host(parts: Sequence[Part], *, stream: Any = None) -> list[Part]:
    """Copy parts to pinned host memory."""
    with Lane(stream) as lane, Outbox() as outbox:
        return outbox.send_parts(parts, lane)


def to_device(parts: Sequence[Part], *, stream: Any = None) -> list[Part]:
    """Copy parts from host memory to the current device."""
    with Lane(stream) as lane, Inbox(lane) as inbox:
        moved = inbox.receive_parts(parts)
        inbox.fill(moved, parts)
        return moved
