"""The part of CuPy and RMM that this package uses, over an emulated device.

`emulated` imports a codec's own GPU side (``cudf_fsst.codecs.NAME.cuda`` and ``cudf_fsst.device``) on top of it, so
that the real launches run: the real sizes, grids, workspaces and orders, with these rules made strict:

* every allocation, and every part of a workspace, has red zones of its own and starts as garbage;
* freed memory is gone at once;
* work in a stream runs when the host, or another stream that has to, waits for it; or earlier, see `ORDERS`;
* what the default stream did before an allocation may still be under way there: until then the memory changes;
* pinned host memory must outlive the copies to and from it;
* a kernel gets more than 48 KiB of shared memory only after asking for it;
* of the legacy default stream and the thread's own, nothing works on the one that is not cuDF's default.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import random
import re
import sys
import types
import weakref
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs import registry

from . import trained
from .emulator import Buffer, Emulator, EmulatorError

#: Shared memory (bytes of one block, of a multiprocessor) by compute capability.
GPUS = {
    "sm_70": (96 << 10, 96 << 10),
    "sm_75": (64 << 10, 64 << 10),
    "sm_89": (99 << 10, 100 << 10),
    "sm_90": (227 << 10, 228 << 10),
}
_DEFAULT_SHARED = 48 << 10
#: What it calls itself.
GPU_NAME = "Emulated GPU"


#: When the work of streams runs if nobody waits for it: never (lazy), at once (eager), at once in the default stream
#: only, at once in all others only, or when dice say so.
ORDERS = ("lazy", "eager", "default first", "default last", "random")


class _Stream:
    """A queue of work."""

    def __init__(self, device: FakeDevice, ptr: int) -> None:
        self.ptr = ptr
        self._device = device
        self._queue: deque[Callable[[], None]] = deque()
        self._enqueued = self._done = 0

    def enqueue(self, work: Callable[[], None]) -> None:
        self._queue.append(work)
        self._enqueued += 1
        self._device.after_enqueue(self)

    def run_to(self, number: int) -> None:
        while self._done < number:
            self._done += 1
            self._queue.popleft()()

    def run_some(self, share: float) -> None:
        self.run_to(self._done + round(share * (self._enqueued - self._done)))

    def record(self) -> _Event:
        event = _Event()
        event.record(self)
        return event

    def wait_event(self, event: _Event) -> None:
        self.enqueue(event.synchronize)

    def synchronize(self) -> None:
        self._device.waits += 1
        self.run_to(self._enqueued)

    def __enter__(self) -> _Stream:
        self._device.current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._device.current.pop()


class _OtherDefault(_Stream):
    """The default stream that is not cuDF's."""

    def enqueue(self, work: Callable[[], None]) -> None:
        raise AssertionError("work on a default stream that is not cuDF's")

    def synchronize(self) -> None:
        raise AssertionError("waiting for a default stream that is not cuDF's")


class _Event:
    def __init__(self, **_: object) -> None:
        self._stream: _Stream | None = None
        self._number = 0

    def record(self, stream: _Stream) -> None:
        self._stream, self._number = stream, stream._enqueued

    @property
    def done(self) -> bool:
        return self._stream is None or self._stream._done >= self._number

    def synchronize(self) -> None:
        if self._stream is not None:
            self._stream.run_to(self._number)


class _DeviceArray:
    """A small part of `cupy.ndarray`: computes on the host, lives on the device once its address is asked for."""

    def __init__(self, device: FakeDevice, host: npt.NDArray[Any], address: int | None = None) -> None:
        self._device, self._host, self._address = device, host, address
        self._buffer: Buffer | None = None

    @property
    def data(self) -> Any:
        if self._address is None:
            memory, start = self._host, 0
            if not memory.flags.c_contiguous:  # a view: its address lies in the memory of what it is a view of
                memory = memory.base
                start = self._host.ctypes.data - memory.ctypes.data
            self._buffer = self._device.emulator.buffer(memory)
            self._address = self._buffer.address + start
        return types.SimpleNamespace(ptr=self._address)

    def _like(self, host: npt.NDArray[Any]) -> _DeviceArray:
        return _DeviceArray(self._device, host)

    size = property(lambda self: self._host.size)
    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    T = property(lambda self: self._like(self._host.T))

    def copy(self) -> _DeviceArray:
        return self._like(self._host.copy())

    def reshape(self, *shape: int) -> _DeviceArray:
        return self._like(self._host.reshape(*shape))

    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> _DeviceArray:
        return self._like(self._host.astype(dtype, copy=copy))

    def get(self) -> npt.NDArray[Any]:
        return self._host.copy()

    def __getitem__(self, key: Any) -> _DeviceArray:
        return self._like(self._host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[key] = value._host if isinstance(value, _DeviceArray) else value
        if self._address is not None:
            self._device.current[-1].synchronize()
            self._device.emulator.write(self._address, self._host.tobytes())


class _DeviceBuffer:
    """`rmm.DeviceBuffer`."""

    def __init__(self, device: FakeDevice, size: int, stream: Any) -> None:
        own = isinstance(stream, _Stream)
        assert own or stream == device.rmm_default, (
            "memory is allocated and freed in the order of cuDF's default stream"
        )
        self._device, self._stream = device, stream if own else device.default
        self.size = int(size)
        device.allocations.append(self.size)
        if len(device.allocations) == device.fail_at:
            raise MemoryError("asked to fail")
        try:
            self._buffer = device.emulator.buffer(self.size)
        except EmulatorError as error:
            raise MemoryError(str(error)) from None
        self.ptr = self._buffer.address
        device.live.add(self.ptr)
        # What had this memory before may still be at work in the stream.
        self._stream.enqueue(partial(device.emulator.write, self.ptr, b"\x5a" * self.size))

    def __del__(self) -> None:
        if hasattr(self, "_buffer") and self._device.emulator.alive:
            self._device.live.discard(self.ptr)
            self._stream.enqueue(self._buffer.free)


class _HostPool:
    """`HostPool` whose ranges are allocations of their own."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self.areas: dict[int, npt.NDArray[np.uint8]] = {}

    def take(self, sizes: Sequence[int], limit: int) -> list[tuple[int, None]]:
        areas = [self._device._alloc_pinned(size) for size in sizes]
        self.areas.update((area.ctypes.data, area) for area in areas)
        return [(area.ctypes.data, None) for area in areas]

    def give(self, address: int, pages: None, nbytes: int) -> None:
        pass

    def restore(self, taken: Iterable[tuple[int, None, int]]) -> None:
        left = {address for address, _, _ in taken}
        self.areas = {address: area for address, area in self.areas.items() if address in left}


class _Returned(deque[tuple[int, None, int]]):
    """What was given back is gone at once."""

    def __init__(self, pool: _HostPool) -> None:
        super().__init__()
        self._pool = pool

    def append(self, given: tuple[int, None, int]) -> None:
        self._pool.areas.pop(given[0], None)  # None: the end of a range whose front is kept
        super().append(given)


class _Kernel:
    """A `cudf_fsst.device.kernels.Kernel`."""

    def __init__(self, device: FakeDevice, file: str, name: str, defines: Mapping[str, int], shared: int) -> None:
        self._device, self.name, self._shared = device, name, shared
        macros = {key: f"{value}u" for key, value in defines.items()}
        self._module = device.emulator.load(f"{file}.cu", macros)

    def run(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        shared_mem: int,
        stream: _Stream,
        enable_cooperative_groups: bool = False,
    ) -> None:
        asked = max(self._shared, _DEFAULT_SHARED)
        assert shared_mem <= asked, f"{self.name}: {shared_mem} bytes of shared memory without asking"
        assert asked <= self._device.shared_per_block, f"{self.name}: {asked} bytes of shared memory on this GPU"
        self._device.launches.append(self.name)
        self._device.shapes[self.name].add((grid, block))
        if self.name in trained.KERNELS and trained.on_host():
            stream.enqueue(partial(trained.train, self._device.emulator, self.name, grid[0], args))
        else:
            how = {"shared_mem": shared_mem, "together": enable_cooperative_groups}
            stream.enqueue(partial(self._module.launch, self.name, grid, block, args, **how))


class FakeDevice:
    """An emulated GPU and the modules ``cupy`` and ``rmm`` for it.

    Parameters
    ----------
    emulator
    gpu
        A key of `GPUS`.
    multiprocessors
        Few, so that blocks have to loop.
    order
        One of `ORDERS`.
    per_thread
        Whether cuDF's default stream is the thread's own, as ``CUDF_PER_THREAD_STREAM=1`` wants it.

    Attributes
    ----------
    launches : list of str
        Names of the kernels launched so far.
    shapes : dict of set
        Grids and blocks that they were launched with.
    waits : int
        How often the host waited for a stream.
    live : set of int
        Addresses of the buffers from RMM that are in use.
    allocations : list of int
        Sizes of all buffers that were asked for.
    fail_at : int
        The first allocation is number 1; this one fails.
    """

    def __init__(
        self,
        emulator: Emulator,
        gpu: str = "sm_90",
        multiprocessors: int = 2,
        order: str = "lazy",
        *,
        per_thread: bool = False,
    ) -> None:
        self.emulator = emulator
        self.shared_per_block, shared_per_multiprocessor = GPUS[gpu]
        self.launches: list[str] = []
        self.waits = 0
        self.shapes: defaultdict[str, set[tuple[tuple[int, ...], tuple[int, ...]]]] = defaultdict(set)
        self._kernels: dict[tuple[Any, ...], _Kernel] = {}
        self.live: set[int] = set()
        self.allocations: list[int] = []
        self.fail_at = 0
        self.order = order
        self._dice = random.Random(1)
        self._pinned: dict[int, Any] = {}  # address -> weak reference
        self._pinned_at: list[int] = []  # the addresses, in order
        legacy, own = 0, 2  # CUDA's numbers of the two
        self.default = _Stream(self, own if per_thread else legacy)
        self.rmm_default = "per thread" if per_thread else "default"
        other = _OtherDefault(self, legacy if per_thread else own)
        self._streams = {stream.ptr: stream for stream in (self.default, other)}
        self.current = [self._streams[legacy]]  # CuPy's current stream is the last
        self.modules = self._make_modules(
            {
                "MultiProcessorCount": multiprocessors,
                "MaxSharedMemoryPerBlockOptin": self.shared_per_block,
                "MaxSharedMemoryPerMultiprocessor": shared_per_multiprocessor,
            },
            gpu[3:],
        )

    def kernel(self, file: str, name: str, defines: Mapping[str, int], shared: int = 0) -> _Kernel:
        """Stands for `cudf_fsst.device.kernels.Kernel`."""
        key = file, name, tuple(sorted(defines.items())), shared
        if key not in self._kernels:
            self._kernels[key] = _Kernel(self, file, name, defines, shared)
        return self._kernels[key]

    def stream(self) -> _Stream:
        """A stream as the caller of a codec may have one."""
        made: _Stream = self.modules["cupy"].cuda.Stream(non_blocking=True)
        return made

    def array(self, values: npt.NDArray[Any]) -> _DeviceArray:
        """A CuPy array; with the strides of `values`."""
        return _DeviceArray(self, values)

    def after_enqueue(self, stream: _Stream) -> None:
        if self.order == "random":
            for one in self._streams.values():
                one.run_some(self._dice.choice((0, 0, 0.5, 1)))
        elif self.order == "eager" or self.order == ("default first" if stream is self.default else "default last"):
            stream.synchronize()

    # -- cupy.cuda.runtime

    def _synchronize(self) -> None:
        for stream in self._streams.values():
            if not isinstance(stream, _OtherDefault):
                stream.synchronize()

    def _memcpy(self, to: int, source: int, nbytes: int, kind: str, stream: int) -> None:
        emulator, queue = self.emulator, self._streams[stream]
        if kind == "to device":
            area = self._pinned_area(source)
            if area is None:
                data = ctypes.string_at(source, nbytes)  # pageable: staged before the call returns
                queue.enqueue(lambda: emulator.write(to, data))
            else:
                queue.enqueue(lambda: emulator.write(to, ctypes.string_at(self._alive(area, source), nbytes)))
        elif kind == "on device":
            queue.enqueue(lambda: emulator.write(to, emulator.read(source, nbytes)))
        else:
            area = self._pinned_area(to)

            def arrive() -> None:
                ctypes.memmove(self._alive(area, to), emulator.read(source, nbytes), nbytes)

            queue.enqueue(arrive)
            if area is None:
                queue.synchronize()  # pageable: the call waits

    def _memset(self, address: int, value: int, nbytes: int, stream: int) -> None:
        self._streams[stream].enqueue(partial(self.emulator.write, address, bytes([value]) * nbytes))

    def _alloc_pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        area = np.full(nbytes, 0xA5, np.uint8)
        address = area.ctypes.data
        self._pinned[address] = weakref.ref(area, lambda _: self._forget_pinned(address))
        insort(self._pinned_at, address)
        return area

    def _forget_pinned(self, address: int) -> None:
        del self._pinned[address]
        self._pinned_at.remove(address)

    def _pinned_area(self, address: int) -> Any:
        place = bisect_right(self._pinned_at, address)
        area = self._pinned[self._pinned_at[place - 1]] if place else None
        array = None if area is None else area()
        return area if array is not None and address < array.ctypes.data + array.size else None

    def _alive(self, area: Any, address: int) -> int:
        assert area is None or area() is not None, "a copy to or from pinned memory that was given back"
        return address

    def _asarray(self, value: Any, dtype: npt.DTypeLike | None = None) -> _DeviceArray:
        if isinstance(value, _DeviceArray):
            return value if dtype is None else value.astype(dtype, copy=False)
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            return _DeviceArray(self, np.asarray(value, dtype))
        element, count = np.dtype(interface["typestr"]), interface["shape"][0]
        address = interface["data"][0]
        self.current[-1].synchronize()
        data = bytearray(self.emulator.read(address, element.itemsize * count))
        return _DeviceArray(self, np.frombuffer(data, element), address)

    def _ascontiguousarray(self, array: _DeviceArray) -> _DeviceArray:
        assert isinstance(array, _DeviceArray), "CuPy takes its own arrays only"
        return array if array._host.flags.c_contiguous else array.copy()

    def _make_modules(self, attributes: Mapping[str, int], capability: str) -> dict[str, types.ModuleType]:
        def module(name: str, **content: Any) -> types.ModuleType:
            made = types.ModuleType(name)
            made.__dict__.update(content)
            return made

        runtime = module(
            "cupy.cuda.runtime",
            getDevice=lambda: 0,
            getDeviceProperties=lambda device: {"name": GPU_NAME.encode(), "major": 0, "minor": 0},
            deviceSynchronize=self._synchronize,
            memcpyAsync=self._memcpy,
            memsetAsync=self._memset,
            memcpyHostToDevice="to device",
            memcpyDeviceToHost="to host",
            memcpyDeviceToDevice="on device",
        )
        streams, device = self._streams, self

        class Stream(_Stream):
            ptds: _Stream

            def __init__(self, *, non_blocking: bool) -> None:
                assert non_blocking, "streams of our own must not wait for the legacy default stream"
                super().__init__(device, 100 + len(streams))
                streams[self.ptr] = self

        Stream.null, Stream.ptds = streams[0], streams[2]  # type: ignore[attr-defined]
        cuda = module(
            "cupy.cuda",
            runtime=runtime,
            driver=module("cupy.cuda.driver"),
            Stream=Stream,
            Event=_Event,
            Device=lambda number=0: types.SimpleNamespace(
                id=number, attributes=attributes, compute_capability=capability
            ),
            alloc_pinned_memory=self._alloc_pinned,
        )
        cupy = module(
            "cupy",
            cuda=cuda,
            asarray=self._asarray,
            ascontiguousarray=self._ascontiguousarray,
            cumsum=lambda a, axis=None, dtype=None: _DeviceArray(self, np.cumsum(a._host, axis=axis, dtype=dtype)),
            int32=np.int32,
            int64=np.int64,
        )
        rmm_stream = module(
            "rmm.pylibrmm.stream",
            DEFAULT_STREAM="default",
            PER_THREAD_DEFAULT_STREAM="per thread",
            Stream=lambda stream: stream,
        )

        def rmm_buffer(*, size: int, stream: Any = "default") -> _DeviceBuffer:
            return _DeviceBuffer(self, size, stream)

        rmm = module("rmm", DeviceBuffer=rmm_buffer)
        every = (cupy, cuda, runtime, rmm, module("rmm.pylibrmm", stream=rmm_stream), rmm_stream)
        return {made.__name__: made for made in every}


def _strict_workspace(workspace: type[Any]) -> type[Any]:
    """A `Workspace` whose parts are allocations of their own."""

    class Workspace(workspace):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._parts: list[tuple[int, int]] = []

        def reserve(self, nbytes: int) -> int:
            offset: int = super().reserve(nbytes)
            # A part without bytes would share its offset with the next.
            if nbytes:
                self._parts.append((offset, nbytes))
            return offset

        def like(self, other: Any) -> None:
            super().like(other)
            self._parts = list(other._parts)

        def take(self, lane: Any) -> None:
            self._buffers = [lane.allocate(nbytes) for _, nbytes in self._parts]

        def release(self) -> None:
            super().release()
            self._buffers = []

        def __getitem__(self, offset: int) -> int:
            part = bisect_right(self._parts, (offset, sys.maxsize)) - 1
            return int(self._buffers[part].ptr) + offset - self._parts[part][0]

        def addresses(self, offsets: Iterable[int]) -> list[int]:
            return [self[offset] for offset in offsets]

    return Workspace


_MEMORY, _PINNED = "cudf_fsst.device.memory", "cudf_fsst.device.pinned"
#: What imports one of these has to do with the GPU; the last one is replaced.
_ROOTS = (_MEMORY, _PINNED, "cudf_fsst.device.kernels.Kernel")
_IMPORT = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def _imports(name: str, path: Path) -> set[str]:
    """Modules that one may mean by what it imports at its top."""
    found = set()
    for dots, source, names in _IMPORT.findall(path.read_text()):
        base = ".".join([*(name.split(".")[: -len(dots)] if dots else ()), *([source] if source else ())])
        found |= {base, *(f"{base}.{one}" for one in re.findall(r"\w+", names))}
    return found


@cache
def _gpu_modules(packages: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that the GPU sides of these codecs consist of, and of all in the package."""
    imports = {}
    for package in ("cudf_fsst.device", "cudf_fsst.codecs", *packages):
        folder = Path(*importlib.import_module(package).__path__)
        for path in sorted(folder.rglob("*.py")):
            name = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
            imports[name] = _imports(name, path)
    found, more = set[str](), set(_ROOTS)
    while more:
        found |= more
        more = {name for name, imported in imports.items() if name not in found and imported & found}
    return (_MEMORY, *(name for name in imports if name in found and name != _MEMORY))


class _Loader(SourceFileLoader):
    """Compiles no source twice: Python may have no place to keep what it compiled."""

    _codes: ClassVar[dict[str, types.CodeType]] = {}

    def get_code(self, fullname: str) -> types.CodeType:
        if fullname not in self._codes:
            code = super().get_code(fullname)
            assert code is not None
            self._codes[fullname] = code
        return self._codes[fullname]


class _Finder:
    """Finds modules of these names, for `sys.meta_path`."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self._names else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


@contextmanager
def emulated(device: FakeDevice, codec: str) -> Iterator[types.ModuleType]:
    """``cudf_fsst.codecs.{codec}.cuda``, imported anew for `device`; everything is as before at the end.

    So are the GPU sides of all codecs that are registered now, in the package or not.
    """
    codecs: Any = (*registry.values(), *registry.texts())
    packages = (one.__name__ for one in codecs)
    own = _gpu_modules(tuple(name for name in packages if not name.startswith("cudf_fsst.")))
    parents = [(importlib.import_module(parent), child) for parent, _, child in (name.rpartition(".") for name in own)]
    missing = object()
    attributes = [(parent, child, getattr(parent, child, missing)) for parent, child in parents]
    names = {*own, *device.modules, *(name for name in sys.modules if name.startswith(("cupy.", "rmm.")))}
    saved = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    finder = _Finder(own)
    sys.meta_path.insert(0, finder)
    backend: Any = importlib.import_module("cudf_fsst.backend.device")
    backend._gpu.cache_clear()
    try:
        sys.modules.update(device.modules)
        for name in own:
            module: Any = importlib.import_module(name)
            if hasattr(module, "Kernel"):
                module.Kernel = device.kernel
            if hasattr(module, "HostPool"):
                module._pool = _HostPool(device)
                module._returned = _Returned(module._pool)
            if name == _MEMORY:
                module._AREA = 0  # every pinned array is an allocation of its own
            if hasattr(module, "SMALL"):
                module.SMALL = 0  # every buffer has memory, and red zones, of its own
            if name == "cudf_fsst.codecs.ahead":
                module.start = lambda need: None  # kernels are built when they are asked for
            if name != _MEMORY and hasattr(module, "Workspace"):
                module.Workspace = _strict_workspace(module.Workspace)
        yield sys.modules[f"cudf_fsst.codecs.{codec}.cuda"]
        if device.emulator.alive:
            device.default.synchronize()  # what nobody waited for
    finally:
        sys.meta_path.remove(finder)
        backend._gpu.cache_clear()
        for name in (*own, *device.modules):
            sys.modules.pop(name, None)
        sys.modules.update(saved)
        for parent, child, value in attributes:
            if value is not missing:
                setattr(parent, child, value)
            elif hasattr(parent, child):
                delattr(parent, child)


def compress_as(
    codec: str, address: int, values: npt.NDArray[Any], *, signed: bool = False, lane: Any, **options: int
) -> Any:
    """`values`, a copy of which lies at an address of the emulated GPU, compressed by a codec."""
    cuda: Any = sys.modules["cudf_fsst.codecs.values.cuda"]
    waits: Any = sys.modules["cudf_fsst.device.waits"]
    plan: Any = importlib.import_module("cudf_fsst.codecs.values.plan")
    source = cuda.StreamSource(address, values.size, values.itemsize)
    choice = plan.Choice(codec, tuple(options.items()))
    (packed,) = waits.run(lane, cuda.compress_as(source, choice, signed=signed, lane=lane))
    return packed


def failing_every_allocation(
    device: FakeDevice, call: Callable[[], Any], look: Callable[[set[int]], None] = lambda _left: None
) -> None:
    """Call until no allocation is left to fail, each once; nothing may stay behind, then or after the call that works.

    `look` gets what the error's traceback still keeps.
    """
    before = set(device.live)
    failures, done = 0, None
    gc.collect()
    gc.freeze()  # as before the first test (conftest.py), for the many times that follow
    while done is None:
        device.allocations.clear()
        device.fail_at = failures + 1
        try:
            done = call()
        except MemoryError:
            failures += 1
            look(device.live - before)
        gc.collect()
        assert done is not None or device.live == before
    device.fail_at = 0
    assert failures == len(device.allocations) > 0
    done = None
    gc.collect()
    assert device.live == before
