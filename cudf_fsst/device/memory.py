"""Device memory from RMM, pinned host memory, and the streams that order them.

What `Lane.allocate` gives is allocated (and so freed) in the order of the default stream, whatever stream the work runs
on: a lane makes the work's stream wait for an allocation, and the default stream wait for the work. So a buffer can be
used and dropped anywhere else without further events.
"""

from __future__ import annotations

import os
import sys
import threading
from array import array as Words
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import cupy
import numpy as np
import numpy.typing as npt
import rmm
from cupy.cuda import driver, runtime
from rmm.pylibrmm.stream import DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream

ALIGNMENT = 256
#: Bytes of a buffer that shares memory with others of its call, and of all that share.
SMALL, TOGETHER = 256 << 10, 4 << 20
_of_thread = threading.local()


def default_stream() -> tuple[Any, Any]:
    """The stream that orders this thread's work, as CuPy's and as RMM's object: cuDF's, or that of `Apart.work`."""
    return _of_thread.__dict__.get("apart") or _cudf_stream()


@cache
def _cudf_stream() -> tuple[Any, Any]:
    if os.environ.get("CUDF_PER_THREAD_STREAM") == "1":
        return cupy.cuda.Stream.ptds, PER_THREAD_DEFAULT_STREAM
    return cupy.cuda.Stream.null, DEFAULT_STREAM


def hand_over() -> None:
    """Call where another thread goes on with what this one has made, or may free it.

    All threads work on one default stream, in which each comes after the others, unless each has its own
    (``CUDF_PER_THREAD_STREAM=1``). Then nothing of another thread waits for this one's, and this waits for it.
    """
    default, _ = default_stream()
    if default.ptr != cupy.cuda.Stream.null.ptr:
        default.synchronize()


def _event(stream: Any) -> Any:
    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    return event


class Lane:
    """The stream one call runs on.

    Parameters
    ----------
    stream
        None: cuDF's default stream. Else anything that has ``__cuda_stream__`` (CuPy, RMM, cuda.core streams).
    """

    def __init__(self, stream: Any = None) -> None:
        self.default, self._rmm_default = default_stream()
        self.given = stream
        if stream is None:
            self.stream = self.default
        elif isinstance(stream, cupy.cuda.Stream):
            self.stream = stream
        elif hasattr(stream, "__cuda_stream__"):
            self.stream = cupy.cuda.Stream.from_external(stream)
        else:
            raise TypeError(f"stream must be a CUDA stream or None, not {type(stream).__name__}")
        self._forked = stream is not None and self.stream.ptr != self.default.ptr
        self._held: dict[int, Any] = {}  # by id, until the default stream waits for the work that uses them
        self._ordered = True  # whether it does
        #: What the host does before it waits for this lane the next time.
        self.meanwhile: Callable[[], None] | None = None

    def __enter__(self) -> Lane:
        if self._forked:
            self._ordered = False
            self._follow_default()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        try:
            if error is None and self._forked:
                self.rejoin()
            self._ordered = error is None
        finally:
            if not self._ordered or error is not None:
                # Copies into pinned arrays may be under way; in other streams too, where an interrupt came on the way
                # into what would have waited for them.
                runtime.deviceSynchronize()
                self._ordered = True
        self._held.clear()

    def __del__(self) -> None:
        # An interrupt came on the way out. (Or on the way in: then there is not even this.)
        if not getattr(self, "_ordered", True) and not sys.is_finalizing():
            self.stream.synchronize()

    def rejoin(self) -> None:
        """Make the default stream wait for what is enqueued here until now, for whatever works or frees there next."""
        if self._forked:
            self.default.wait_event(self.event())
            # A buffer that somebody still has may be used here again, so it is held until the next time.
            for key in [key for key in self._held if sys.getrefcount(self._held[key]) <= 2]:
                del self._held[key]

    def follow(self, other: Lane) -> None:
        """What is enqueued here from now on waits for what was enqueued there until now."""
        if other.stream.ptr != self.stream.ptr:
            self.stream.wait_event(other.event())

    def _follow_default(self) -> None:
        self.stream.wait_event(_event(self.default))

    def allocate(self, nbytes: int) -> Any:
        """An `rmm.DeviceBuffer` of exactly `nbytes`, ready to use on this stream."""
        buffer = rmm.DeviceBuffer(size=nbytes, stream=self._rmm_default)
        if self._forked:
            self._held[id(buffer)] = buffer
            self._follow_default()
        return buffer

    def allocate_all(self, sizes: Sequence[int]) -> list[Any]:
        """A buffer of each size; small ones share memory, of `TOGETHER` bytes at most, which they let go of together.

        An allocation takes the host longer than all that else has to be done for a small part of a column.
        """
        buffers: list[Any] = []
        groups: list[list[tuple[int, int, int]]] = []  # number, offset and size of each buffer
        end = 0
        try:
            for number, nbytes in enumerate(sizes):
                if nbytes > SMALL:
                    buffers.append(self.allocate(nbytes))
                    continue
                if not groups or end + nbytes > TOGETHER:
                    groups.append([])
                    end = 0
                groups[-1].append((number, end, nbytes))
                buffers.append(None)
                end += -(-nbytes // ALIGNMENT) * ALIGNMENT
            for group in groups:
                _, last, nbytes = group[-1]
                memory = self.allocate(last + nbytes)
                for number, offset, nbytes in group:
                    buffers[number] = memory if len(group) == 1 else Slice(memory, offset, nbytes)
        except BaseException:
            buffers.clear()  # a traceback keeps this frame
            raise
        return buffers

    def fill(self, address: int, nbytes: int, byte: int) -> None:
        """Set bytes to one value."""
        if nbytes:
            runtime.memsetAsync(address, byte, nbytes, self.stream.ptr)

    def zero(self, address: int, nbytes: int) -> None:
        self.fill(address, nbytes, 0)

    def release(self) -> None:
        """Forget all buffers that `allocate` gave: the default stream waits for the work with them, or it has ended."""
        self._held.clear()

    def let_go(self, buffer: Any) -> None:
        """Forget a buffer that `allocate` gave: the host knows that all work with it has ended."""
        self._held.pop(id(buffer), None)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy bytes within the GPU's memory."""
        if nbytes:
            runtime.memcpyAsync(to, source, nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr)

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a contiguous host array to the device. A pageable `array` may be reused as soon as this returns."""
        if array.nbytes:
            runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice, self.stream.ptr)

    def send(self, address: int, words: Words[int]) -> None:
        """Copy numbers of 64 bits to the device, in less of the host's time than `upload` takes.

        They may be reused as soon as this returns.
        """
        begin, count = words.buffer_info()
        if count:
            runtime.memcpyAsync(address, begin, 8 * count, runtime.memcpyHostToDevice, self.stream.ptr)

    def download(self, array: npt.NDArray[Any], address: int) -> None:
        """Start copying into a (pinned) host array; valid after `synchronize`."""
        if array.nbytes:
            runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr)

    def fetch(self, address: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Start copying `count` values into a new pinned array; valid after `synchronize`."""
        array, begin = _pinned(count, dtype)
        if count:
            runtime.memcpyAsync(begin, address, array.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr)
        return array

    def read(self, address: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Copy `count` values from the device and wait for them."""
        array = self.fetch(address, count, dtype)
        self.synchronize()
        return array

    def event(self) -> Any:
        """An event behind everything enqueued here until now."""
        return _event(self.stream)

    def synchronize(self) -> None:
        self.do_meanwhile()
        self.stream.synchronize()

    def do_meanwhile(self) -> None:
        """Do what the host has to do while the GPU is at work, unless that is done."""
        if self.meanwhile is not None:
            work, self.meanwhile = self.meanwhile, None
            work()

    def launch(
        self,
        kernel: Any,
        grid: int | tuple[int, ...],
        block: int,
        args: tuple[Any, ...],
        shared: int = 0,
        *,
        together: bool = False,
    ) -> None:
        """Launch a `kernels.Kernel` on this stream; a grid of no blocks is no launch.

        Parameters
        ----------
        args
            Integers, none below 0. One of Python's has 64 bits.
        together
            Its blocks wait for each other, so the GPU has to run all of them at the same time.
        """
        grid = (grid,) if isinstance(grid, int) else grid
        if 0 in grid:
            return
        run, of_thread = kernel.run, _of_thread.__dict__
        if together or "launched" not in of_thread or not hasattr(run, "ptr"):
            run(grid, (block,), args, shared, self.stream, together)  # which sees to it that the thread has a context
            of_thread["launched"] = True
            return
        # What the driver takes: where each argument is. CuPy looks at the type of each, and makes an object of it.
        words = Words("Q", args)  # of a smaller one the bytes come first in memory
        begin, count = words.buffer_info()
        places = Words("Q", range(begin, begin + 8 * count, 8))
        x, y, z = (*grid, 1, 1)[:3]
        driver.launchKernel(run.ptr, x, y, z, block, 1, 1, shared, self.stream.ptr, places.buffer_info()[0], 0)


class Coming:
    """Numbers on their way to the host, for which nobody waits: see `Lane.fetch`.

    Whoever asked for them may be gone before they are there.
    """

    _all: ClassVar[deque[Coming]] = deque()
    _lock = threading.Lock()

    def __init__(self, lane: Lane, address: int, count: int, dtype: npt.DTypeLike) -> None:
        try:
            self._array = lane.fetch(address, count, dtype)
            self._event = lane.event()
            with self._lock:
                while self._all and self._all[0]._event.done:
                    self._all.popleft()
                self._all.append(self)
        except BaseException:  # the copy may be under way
            lane.synchronize()
            raise

    @property
    def array(self) -> npt.NDArray[Any] | None:
        """The numbers, once they are there."""
        return self._array if self._event.done else None


# Small pinned arrays are cut from areas of so much, one after another. An area is free again when none of them is left.
_AREA = 64 << 10


def pinned(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array in pinned host memory, from CuPy's pool of it; made for what the host waits for."""
    return _pinned(count, dtype)[0]


def _pinned(count: int, dtype: npt.DTypeLike) -> tuple[npt.NDArray[Any], int]:
    """The array, and its address, which takes NumPy longer to find than the array."""
    dtype = np.dtype(dtype)
    nbytes = count * dtype.itemsize
    if nbytes >= _AREA // 4:
        area = _pinned_area(nbytes)
        return area[:nbytes].view(dtype), area.ctypes.data
    area, begin, used = _of_thread.__dict__.get("area", (None, 0, _AREA))
    if area is None or used + nbytes > _AREA:
        area, used = _pinned_area(_AREA), 0
        begin = area.ctypes.data
    _of_thread.area = area, begin, used + -(-nbytes // 64) * 64
    return np.frombuffer(area, dtype, count, used), begin + used


def _pinned_area(nbytes: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(max(nbytes, 1)), np.uint8)


def side_streams(count: int) -> list[Any]:
    """Streams of this thread's own on the current device, made once."""
    streams: list[Any] = _of_thread.__dict__.setdefault(f"device {current_device()}", [])
    while len(streams) < count:
        streams.append(cupy.cuda.Stream(non_blocking=True))
    return list(streams[:count])


class SideLanes:
    """Lanes on side streams, for work beside that of another lane; use it as a context.

    What runs there follows `lane` first, and `lane` follows it last: so nothing is ordered here unless there is an
    error. Then the streams have ended when memory is given back.
    """

    def __init__(self, lane: Lane, count: int) -> None:
        self._lane = lane
        self.lanes = [Lane(stream) for stream in side_streams(count)] if count else []

    def __enter__(self) -> list[Lane]:
        return self.lanes

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            for lane in self.lanes:
                lane.synchronize()
        else:
            self._lane.rejoin()
        for lane in self.lanes:
            lane.release()


class Slice:
    """Some bytes of a device buffer, which stays as long as this."""

    __slots__ = ("buffer", "ptr", "size")

    def __init__(self, buffer: Any, offset: int, nbytes: int) -> None:
        self.buffer = buffer
        self.ptr, self.size = buffer.ptr + offset, nbytes

    @property
    def nbytes(self) -> int:
        return self.size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        place = (self.ptr, False)
        return {"shape": (self.size,), "strides": None, "typestr": "|u1", "data": place, "version": 0}


class DeviceInts(Slice):
    """Numbers of 8 bytes in a device buffer, as CuPy takes them; the buffer stays as long as this."""

    __slots__ = ()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        place = (int(self.ptr), False)
        return {"shape": (self.size // 8,), "strides": None, "typestr": "<i8", "data": place, "version": 3}


class _Kept(Slice):
    """A buffer that was allocated apart and is used in cuDF's default stream."""

    __slots__ = ("_stream",)

    def __init__(self, buffer: Any, stream: Any) -> None:
        super().__init__(buffer, 0, buffer.size)
        self._stream = stream

    def __del__(self) -> None:
        # Its memory goes back in the order of the stream apart, behind all that has used it in the default stream.
        if not sys.is_finalizing():
            self._stream.wait_event(_event(_cudf_stream()[0]))


@cache
def _streams_apart(_device: int) -> deque[Any]:
    """Streams that nobody uses at the moment."""
    return deque()


class Apart:
    """A stream of its own, for work beside libcudf's in other threads; use it as a context.

    libcudf's own streams wait for cuDF's default stream, and that waits for them. So a thread whose work is ordered by
    the default stream, however little it is, waits for the kernels of all others.
    """

    def __enter__(self) -> Apart:
        free = _streams_apart(current_device())
        try:
            self._stream = free.pop()
        except IndexError:
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self._free, self._pair = free, (self._stream, Stream(self._stream))
        return self

    def __exit__(self, *_: object) -> None:
        _of_thread.apart = None  # that may have been interrupted
        _cudf_stream()[0].wait_event(_event(self._stream))
        self._free.append(self._stream)

    @contextmanager
    def work(self, *, beside: bool) -> Iterator[None]:
        """What this thread does is ordered by the stream; not `beside` cuDF's default stream, but between its work."""
        default, _ = _cudf_stream()
        if not beside:
            self._stream.wait_event(_event(default))
        _of_thread.apart = self._pair
        try:
            yield
        finally:
            if _of_thread.apart is self._pair:  # else an interrupt came before, and this is what clears up
                _of_thread.apart = None
            if not beside:
                default.wait_event(_event(self._stream))

    def keep(self, buffer: Any) -> Any:
        """A buffer that was made here, for use in the default stream when this has ended."""
        return _Kept(buffer, self._stream)


class Workspace:
    """The one temporary buffer of a call, handed out front to back.

    Sizes are asked for first (`reserve`), then the buffer is taken from RMM in one piece (`take`).
    """

    def __init__(self) -> None:
        self.nbytes = self._begin = 0
        self.buffer: Any = None

    def reserve(self, nbytes: int) -> int:
        """Ask for `nbytes`; returns their offset."""
        offset = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def like(self, other: Workspace) -> None:
        """Ask for what has been asked for of another one, at the same offsets."""
        self.nbytes = other.nbytes

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, lane: Lane) -> None:
        self.buffer = lane.allocate(self.nbytes)
        self._begin = int(self.buffer.ptr)

    def release(self) -> None:
        """Give the memory back, whoever still holds this object (a traceback, say)."""
        self.buffer = None

    def __getitem__(self, offset: int) -> int:
        """Address of an offset."""
        return self._begin + offset

    def addresses(self, offsets: Iterable[int]) -> list[int]:
        """Addresses of offsets."""
        return [self._begin + offset for offset in offsets]


#: Number of the current device.
current_device: Callable[[], int] = runtime.getDevice


def gpu_model() -> str:
    """Name and compute capability of the current device: ``"NVIDIA H200 sm_90"``."""
    properties = runtime.getDeviceProperties(current_device())
    return f"{properties['name'].decode()} sm_{properties['major']}{properties['minor']}"


def free_memory() -> int:
    """Bytes of the current device that nobody has taken."""
    return int(runtime.memGetInfo()[0])


def share_of_memory(most: int) -> int:
    """Bytes of a piece of rows: `most`, or a fortieth of the current device's memory where that is less."""
    return min(most, int(runtime.memGetInfo()[1]) // 40)


def device_attributes() -> dict[str, int]:
    """What launch shapes depend on, of the current device."""
    return _attributes(current_device())


@cache
def _attributes(device: int) -> dict[str, int]:
    of_device = cupy.cuda.Device(device)
    every = of_device.attributes
    return {
        "multiprocessors": every["MultiProcessorCount"],
        "shared_per_block": every["MaxSharedMemoryPerBlockOptin"],
        "shared_per_multiprocessor": every["MaxSharedMemoryPerMultiprocessor"],
        "architecture": int(of_device.compute_capability),
    }
