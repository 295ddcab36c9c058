"""Compressed parts of columns between GPU memory and pinned host memory, beside other work on the GPU.

Small buffers of a call travel together, as one: a copy of its own costs each of them more than its bytes do. They share
memory then: on the way out one pinned buffer of the host, on the way in one of the GPU, of exactly their bytes and what
aligns them, at most `memory.TOGETHER`. It is let go of with the last of them. Large buffers have memory of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .kernels import Kernel
from .memory import ALIGNMENT, SMALL, TOGETHER, Lane, Slice, current_device, side_streams
from .pinned import host_buffer, host_buffers, is_pinned, keep

#: A dataclass with the buffers ``meta`` and ``codes``: a segment, or packed values.
Part = TypeVar("Part", bound=Any)
# Compression has the first five side streams of a thread.
_COPY_STREAM = 5
# The GPU has one engine for a direction: sizes and descriptors that the host waits for get in between two of these.
_PIECE = 4 << 20
# Threads of a block that gathers, and what a block copies at most.
_THREADS, _PER_BLOCK = 256, 64 << 10


def with_buffers(part: Part, meta: Any, codes: Any) -> Part:
    """A part with other buffers; `dataclasses.replace` takes four times as long, and frames have many parts."""
    copied = object.__new__(type(part))
    copied.__dict__.update(part.__dict__)
    copied.__dict__["meta"], copied.__dict__["codes"] = meta, codes
    return copied


def _copy_lane() -> Lane:
    return Lane(side_streams(_COPY_STREAM + 1)[_COPY_STREAM])


@cache
def _gather_kernel_on(_device: int) -> Any:
    return Kernel("gather_buffers", "gather_buffers", {})


class _Together:
    """Small buffers that travel as one.

    Attributes
    ----------
    numbers : list of int
        Which of a call's buffers.
    offsets : list of int
        Where each lies, aligned as if it was allocated.
    nbytes : int
    host : array or None
        The host's memory that holds all of them just so.
    """

    def __init__(self) -> None:
        self.host: Any = None
        self.numbers: list[int] = []
        self.offsets: list[int] = []
        self.nbytes = 0

    def add(self, number: int, nbytes: int) -> None:
        self.numbers.append(number)
        offset = -(-self.nbytes // ALIGNMENT) * ALIGNMENT
        self.offsets.append(offset)
        self.nbytes = offset + nbytes


def _grouped(arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[int], list[_Together]]:
    """Numbers of the host's arrays that travel by themselves, and groups of all others.

    What lies together goes together, in whatever order: it need not be copied on the host.
    """
    alone: list[int] = []
    lying: dict[int, list[int]] = {}  # by what the arrays are based on
    for number, array in enumerate(arrays):
        if 0 < array.size <= SMALL:
            lying.setdefault(id(array.base), []).append(number)
        else:
            alone.append(number)
    groups: list[_Together] = []
    ungrouped: list[int] = []
    for numbers in lying.values():
        group = _lying_together(arrays, numbers) if len(numbers) > 1 else None
        if group is None:
            ungrouped += numbers
        else:
            groups.append(group)
    gathered = [_Together()]
    for number in sorted(ungrouped):
        if gathered[-1].nbytes + arrays[number].size > TOGETHER:
            gathered.append(_Together())
        gathered[-1].add(number, arrays[number].size)
    for group in gathered:
        if len(group.numbers) == 1:
            alone += group.numbers
    return alone, [*groups, *(group for group in gathered if len(group.numbers) > 1)]


def _lying_together(arrays: Sequence[npt.NDArray[Any]], numbers: Sequence[int]) -> _Together | None:
    """Some arrays of the same base as a group, if they lie in it just as they are to travel."""
    base = arrays[numbers[0]].base
    if not isinstance(base, np.ndarray) or base.dtype != np.uint8 or not base.flags.c_contiguous:
        return None
    placed = sorted((arrays[number].__array_interface__["data"][0], number) for number in numbers)
    first, group = placed[0][0], _Together()
    for address, number in placed:
        group.add(number, arrays[number].size)
        if address - first != group.offsets[-1] or arrays[number].strides != (1,):
            return None
    if group.nbytes > TOGETHER:
        return None
    start = first - base.__array_interface__["data"][0]
    group.host = base.reshape(-1)[start : start + group.nbytes]
    return group


class _Parcel(_Together):
    """Small buffers that leave the GPU as one, while they are collected.

    Attributes
    ----------
    host : array
        As large as a parcel can be, of the pinned pool; what is not needed goes back to it.
    buffers : list
        Device buffers.
    lanes : list of Lane
        Where each is made.
    """

    def __init__(self, host: npt.NDArray[np.uint8]) -> None:
        super().__init__()
        self.host = host
        self.buffers: list[Any] = []
        self.lanes: list[Lane] = []


class Outbox:
    """Copy buffers to pinned host memory in a stream of its own; each is let go of when its copy has ended.

    Use it as a context: what `send` gave is there at the end of it. Small buffers are collected first, whoever sends
    them.
    """

    def __init__(self) -> None:
        self._lane = _copy_lane()
        self._under_way: deque[tuple[Any, Any, Sequence[tuple[Any, Lane]]]] = deque()
        self._parcel: _Parcel | None = None
        #: Events behind the copies into arrays, and these, by their ids, which none may have after one of them.
        self._copied: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> Outbox:
        self._lane.__enter__()
        return self

    def __exit__(self, error: object, *more: Any) -> None:
        try:
            if error is None:
                self._dispatch()
        finally:
            self._lane.synchronize()
            self._under_way.clear()
            self._copied.clear()
            self._parcel = None
            self._lane.__exit__(error, *more)

    def send(self, buffer: Any, after: Lane) -> npt.NDArray[np.uint8]:
        """Start to copy a device buffer, behind what is enqueued in the lane `after`."""
        return self.send_all([buffer], after)[0]

    def send_parts(self, parts: Sequence[Part], after: Lane) -> list[Part]:
        """Start to copy the buffers of parts."""
        sent = iter(self.send_all([buffer for part in parts for buffer in (part.meta, part.codes)], after))
        return [with_buffers(part, next(sent), next(sent)) for part in parts]

    def send_in_order(self, parts: Sequence[Part], after: Lane) -> list[Part]:
        """Start to copy all there is to send: what files have first is there first. See `wait`."""
        sent = []
        for buffers in ([part.meta for part in parts], [part.codes for part in parts]):
            sent.append(self.send_all(buffers, after))
            self._dispatch()
            event = self._lane.event()
            for array in sent[-1]:
                self._copied.setdefault(id(array), (event, array))
        return [with_buffers(part, meta, codes) for part, meta, codes in zip(parts, *sent, strict=True)]

    def wait(self, sent: Any) -> None:
        """Wait until an array that `send_in_order` gave is there, in any thread; of any other one, until all are."""
        copied = self._copied.get(id(sent))
        (self._lane.stream if copied is None else copied[0]).synchronize()

    def send_all(self, buffers: Sequence[Any], after: Lane) -> list[npt.NDArray[np.uint8]]:
        """Start to copy device buffers; pinned memory for them is taken at once."""
        sent: list[Any] = [self._collect(buffer, after) if 0 < buffer.size <= SMALL else None for buffer in buffers]
        alone = [number for number, host in enumerate(sent) if host is None]
        if alone:
            self._lane.follow(after)
            hosts = host_buffers([buffers[number].size for number in alone])
            for number, host in zip(alone, hosts, strict=True):
                sent[number] = host
                for start in range(0, host.size, _PIECE):
                    self._lane.download(host[start : start + _PIECE], buffers[number].ptr + start)
                self._copied[id(host)] = self._keep(host, [(buffers[number], after)]), host
        return sent

    def _collect(self, buffer: Any, after: Lane) -> npt.NDArray[np.uint8] | None:
        """The host array of a small buffer, filled in later; None if there is no pinned memory for a parcel."""
        if self._parcel is not None and self._parcel.nbytes + ALIGNMENT + buffer.size > TOGETHER:
            self._dispatch()
        if self._parcel is None:
            host = host_buffer(TOGETHER)
            if not is_pinned(host):
                return None
            self._parcel = _Parcel(host)
        parcel = self._parcel
        parcel.add(len(parcel.buffers), buffer.size)
        parcel.buffers.append(buffer)
        parcel.lanes.append(after)
        return parcel.host[parcel.offsets[-1] : parcel.nbytes]

    def _dispatch(self) -> None:
        """Start to copy what is collected."""
        parcel, self._parcel = self._parcel, None
        if parcel is None:
            return
        for lane in {id(lane): lane for lane in parcel.lanes}.values():
            self._lane.follow(lane)
        host = keep(parcel.host, parcel.nbytes)
        try:
            gathered = self._gather(parcel) if len(parcel.buffers) > 1 else None
        except MemoryError:  # what leaves a GPU may leave it because it is full
            gathered = None
        copied = list(zip(parcel.buffers, parcel.lanes, strict=True))
        if gathered is not None:
            self._lane.download(host, gathered.ptr)
            copied.append((gathered.buffer, self._lane))
        else:
            for buffer, offset in zip(parcel.buffers, parcel.offsets, strict=True):
                self._lane.download(host[offset : offset + buffer.size], buffer.ptr)
        self._keep(host, copied)

    def _gather(self, parcel: _Parcel) -> Slice:
        """One device buffer of all."""
        places = zip(parcel.offsets, parcel.buffers, strict=True)
        jobs = np.array([(buffer.ptr, offset, buffer.size) for offset, buffer in places], np.uint64)
        head = -(-jobs.nbytes // ALIGNMENT) * ALIGNMENT
        memory = self._lane.allocate(head + parcel.nbytes)
        self._lane.upload(memory.ptr, jobs)
        grid = -(-int(jobs[:, 2].max()) // _PER_BLOCK), len(jobs)
        arguments = np.uint64(memory.ptr), np.uint64(memory.ptr + head)
        self._lane.launch(_gather_kernel_on(current_device()), grid, _THREADS, arguments)
        return Slice(memory, head, parcel.nbytes)

    def _keep(self, host: Any, copied: Sequence[tuple[Any, Lane]]) -> Any:
        """Hold device buffers, and the lanes that made them, until they have been copied: until the event returned."""
        # With the host's buffer, too: who asked for it may fail, and its memory must not go to someone else before.
        event = self._lane.event()
        self._under_way.append((event, host, copied))
        while self._under_way and self._under_way[0][0].done:
            _, _, sent = self._under_way.popleft()
            for buffer, lane in sent:
                lane.let_go(buffer)
        return event


class Inbox:
    """Copy buffers to the GPU in a stream of its own."""

    def __init__(self, lane: Lane) -> None:
        self._lane, self._into = _copy_lane(), lane
        self._staged: list[Any] = []

    def __enter__(self) -> Inbox:
        self._lane.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._into.follow(self._lane)
        self._lane.synchronize()  # the host's buffers may be let go of then
        self._staged.clear()
        self._lane.__exit__(*error)

    def receive_parts(self, parts: Sequence[Part]) -> list[Part]:
        """Take memory for parts, and start to copy what is small; `fill` starts to copy the rest.

        The more parts at once, the more small buffers travel together. They are there behind any later `fill`.
        """
        arrays = [array for part in parts for array in (part.meta, part.codes)]
        sizes = [array.size for array in arrays]
        alone, groups = _grouped(arrays)
        received: dict[int, Any] = {number: self._into.allocate(sizes[number]) for number in alone}
        together = [self._into.allocate(group.nbytes) for group in groups]
        self._lane.follow(self._into)
        for group, memory in zip(groups, together, strict=True):
            self._lane.upload(memory.ptr, self._staging([arrays[number] for number in group.numbers], group))
            for number, offset in zip(group.numbers, group.offsets, strict=True):
                received[number] = Slice(memory, offset, sizes[number])
        buffers = (received[number] for number in range(len(arrays)))
        return [with_buffers(part, next(buffers), next(buffers)) for part in parts]

    def _staging(self, arrays: Sequence[npt.NDArray[Any]], group: _Together) -> npt.NDArray[np.uint8]:
        """One pinned host array of all; where they lie already if they came out together."""
        host = group.host
        if host is None:
            host = host_buffer(group.nbytes)
            for array, offset in zip(arrays, group.offsets, strict=True):
                host[offset : offset + array.size] = array
        self._staged.append(host)
        return host

    def fill(self, targets: Sequence[Part], parts: Sequence[Part]) -> Any:
        """Start to copy parts; an event behind them."""
        for target, part in zip(targets, parts, strict=True):
            for buffer, array in ((target.meta, part.meta), (target.codes, part.codes)):
                if isinstance(buffer, Slice):
                    continue  # on its way since there is memory for it
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
