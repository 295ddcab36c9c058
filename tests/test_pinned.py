"""Pinned host memory: one limit and one count for all of it, of small buffers and across changes of the limit."""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock, mock_open

import numpy as np
import pytest

import cudf_fsst.device
from cudf_fsst import workers
from cudf_fsst.device import host_pool, pages
from cudf_fsst.device.host_pool import HostPool

SMALL, LARGE = 1000, 9 << 20


class System:
    """Where pinned memory comes from; `failing`: there is none."""

    def __init__(self) -> None:
        self.pinned: list[int] = []
        self.released: list[int] = []
        self.failing = False

    def pin(self, nbytes: int) -> Any:
        if self.failing:
            raise MemoryError("no more")
        nbytes = -(-nbytes // 4096) * 4096
        self.pinned.append(nbytes)
        area = np.zeros(nbytes + 4096, np.uint8)
        release = partial(self.released.append, nbytes)
        address = -(-area.ctypes.data // 4096) * 4096
        return SimpleNamespace(address=address, nbytes=nbytes, area=area, release=release)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(host_pool, "pin", made.pin)
    return made


@pytest.fixture
def pinned(system: System, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, as if it was just imported."""
    name = "cudf_fsst.device.pinned"
    with monkeypatch.context() as patched:
        patched.setattr(cudf_fsst.device, "pinned", None, raising=False)
        patched.delitem(sys.modules, name, raising=False)
        yield importlib.import_module(name)


def test_small_and_large_buffers_count(pinned: ModuleType, system: System) -> None:
    held = [pinned.host_buffer(size) for size in (SMALL, LARGE, 1, 256)]
    assert [one.size for one in held] == [SMALL, LARGE, 1, 256]
    assert pinned.pinned_nbytes() == 1024 + LARGE + 256 + 256
    del held[1]
    gc.collect()
    assert pinned.pinned_nbytes() == 1024 + 256 + 256
    view = held[0][10:20]
    del held
    gc.collect()
    assert pinned.pinned_nbytes() == 1024
    view[:] = 7
    del view
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_past_the_limit_memory_is_pageable(pinned: ModuleType) -> None:
    pinned.set_pinned_limit(10 * 1024)
    held = [pinned.host_buffer(SMALL) for _ in range(12)]
    assert [pinned.is_pinned(one) for one in held] == [True] * 10 + [False] * 2
    assert pinned.pinned_nbytes() == 10 * 1024
    for number, one in enumerate(held):
        one[:] = number
    assert [(one.min(), one.max()) for one in held] == [(number, number) for number in range(12)]
    del held[3]
    gc.collect()
    again = pinned.host_buffer(SMALL)
    assert pinned.is_pinned(again)
    pageable = pinned.host_buffer(1)
    assert pageable.size == 1
    assert not pinned.is_pinned(pageable)
    del held, again
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_what_is_in_use_counts_when_the_limit_changes(pinned: ModuleType, system: System) -> None:
    pinned.set_pinned_limit("20 MiB")
    first = pinned.host_buffer(LARGE)
    pinned.set_pinned_limit("12 MiB")
    assert pinned.pinned_nbytes() == LARGE
    pageable = pinned.host_buffer(LARGE)  # together they would pass the new limit
    assert not pinned.is_pinned(pageable)
    small = pinned.host_buffer(SMALL)
    assert pinned.is_pinned(small)
    assert pinned.pinned_nbytes() == LARGE + 1024
    pinned.set_pinned_limit(0)
    assert not pinned.is_pinned(pinned.host_buffer(SMALL))
    pinned.set_pinned_limit("20 MiB")
    del first
    gc.collect()
    before = list(system.pinned)
    more = pinned.host_buffer(LARGE)
    assert pinned.is_pinned(more)
    assert system.pinned == before  # what is pinned is used again
    del pageable, small, more
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_nothing_is_pinned_before_it_is_needed(pinned: ModuleType, system: System) -> None:
    assert pinned.host_buffer(0).size == 0
    pinned.set_pinned_limit(100)
    assert pinned.host_buffer(SMALL).size == SMALL
    assert system.pinned == []
    pinned.set_pinned_limit(1000 * 1000)
    pinned.host_buffer(SMALL)
    assert system.pinned == [-(-1000 * 1000 // 4096) * 4096]
    assert pinned.pinned_nbytes() == 0


def test_the_pool_grows_once_for_several(pinned: ModuleType, system: System) -> None:
    """Exactly as large as all of them, if that is much."""
    one = pinned.host_buffer(SMALL)
    system.pinned.clear()
    sizes = [LARGE, 0, SMALL, 3 * LARGE, 5 << 20]
    made = pinned.host_buffers(sizes)
    assert [array.size for array in made] == sizes
    assert system.pinned == [4 * LARGE + (5 << 20)]  # the small one had room beside the first
    for number, array in enumerate([one, *made]):
        array[:] = number
    assert [set(np.unique(array)) for array in [one, *made]] == [{0}, {1}, set(), {3}, {4}, {5}]
    assert pinned.pinned_nbytes() == 2 * 1024 + 4 * LARGE + (5 << 20)
    system.pinned.clear()
    del made, array
    again = pinned.host_buffers(sizes[::-1])
    assert system.pinned == []
    del again


def test_some_at_once_pass_the_limit(pinned: ModuleType) -> None:
    pinned.set_pinned_limit("10 MiB")
    made = pinned.host_buffers([SMALL, LARGE, 2 << 20, SMALL])
    assert [pinned.is_pinned(one) for one in made] == [True, True, False, True]
    assert pinned.pinned_nbytes() == LARGE + 2 * 1024


def test_no_memory_is_no_error_and_counts_nothing(pinned: ModuleType, system: System) -> None:
    system.failing = True
    held = [pinned.host_buffer(size) for size in (SMALL, LARGE)]
    assert not any(map(pinned.is_pinned, held))
    assert pinned.pinned_nbytes() == 0
    system.failing = False
    held.append(pinned.host_buffer(SMALL))
    assert pinned.pinned_nbytes() == 1024
    system.failing = True
    held += pinned.host_buffers([SMALL, LARGE])
    assert [pinned.is_pinned(one) for one in held[-2:]] == [True, False]
    assert pinned.pinned_nbytes() == 2 * 1024


def test_given_back_while_it_is_counted(pinned: ModuleType) -> None:
    """Memory goes back wherever Python collects garbage, also in a thread that is counting."""
    held = pinned.host_buffer(SMALL)
    with pinned._lock:
        del held
        gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_the_end_of_an_array_can_be_given_back(pinned: ModuleType, system: System) -> None:
    large = pinned.host_buffer(LARGE)
    large[:300] = 7
    front = pinned.keep(large, 300)
    assert front.size == 300
    assert pinned.pinned_nbytes() == 512
    del large
    gc.collect()
    before = list(system.pinned)
    other = pinned.host_buffer(LARGE - 512)
    assert system.pinned == before  # in the place of the end
    other[:] = 1
    assert set(front) == {7}
    assert pinned.keep(front.base, 0).size == 0
    assert pinned.pinned_nbytes() == 256 + LARGE - 512
    del front, other
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_threads(pinned: ModuleType) -> None:
    pinned.set_pinned_limit(200 * 1024)

    def work() -> None:
        rng = np.random.default_rng()
        held: list[Any] = []
        for _ in range(500):
            held.append(pinned.host_buffer(int(rng.integers(1, 5000))))
            if len(held) > 20:
                held.pop(int(rng.integers(20)))
            assert pinned.pinned_nbytes() <= 200 * 1024

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert pinned.pinned_nbytes() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_pool_of_its_own(pinned: ModuleType, system: System) -> None:
    """Even if a thread of the parent held the lock; what the parent pinned is there to be read, and is not reused."""
    held = pinned.host_buffer(SMALL)
    held[:] = 7
    address = held.ctypes.data
    with pinned._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            system.failing = True  # CUDA does not work in forked processes
            right = [pinned.pinned_nbytes() == 0, bool((held == 7).all())]
            del held
            gc.collect()
            mine = pinned.host_buffer(SMALL)
            right += [not pinned.is_pinned(mine), mine.ctypes.data != address, pinned.pinned_nbytes() == 0]
            os._exit(0 if all(right) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pinned.pinned_nbytes() == 1024
    assert set(held) == {7}


# The pool --------------------------------------------------------------------------------------------------------


def test_ranges_never_overlap_and_join_again(system: System) -> None:
    pool = HostPool()
    rng = np.random.default_rng(0)
    held: list[tuple[int, Any, int]] = []
    for _ in range(2000):
        if held and rng.random() < 0.5:
            pool.give(*held.pop(int(rng.integers(len(held)))))
        else:
            sizes = [int(size) * 256 for size in rng.integers(1, rng.choice([4, 40, 40_000]), rng.integers(1, 4))]
            for size, taken in zip(sizes, pool.take(sizes, 1 << 30), strict=True):
                assert taken is not None
                held.append((*taken, size))
        held.sort(key=lambda one: one[0])
        for (address, piece, size), (after, _, _) in pairwise(held):
            assert piece.address <= address
            assert address + size <= min(after, piece.address + piece.nbytes)
        assert pool.nbytes == sum(system.pinned) - sum(system.released)
    for one in held:
        pool.give(*one)
    assert len(pool._free) == len(system.pinned) - len(system.released)


def test_neighbours_of_different_origin_do_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    area = np.zeros(64 << 20, np.uint8)
    places = iter(range(area.ctypes.data, area.ctypes.data + area.size, 10 << 20))
    monkeypatch.setattr(host_pool, "pin", lambda nbytes: SimpleNamespace(address=next(places), nbytes=nbytes))
    pool = HostPool()
    size = 10 << 20
    one, two = pool.take([size], 1 << 30)[0], pool.take([size], 1 << 30)[0]
    assert one is not None
    assert two is not None
    pool.give(*one, size)
    pool.give(*two, size)
    both = pool.take([2 * size], 1 << 30)[0]
    assert both is not None
    assert both[0] == area.ctypes.data + 2 * size


def test_what_is_too_small_goes_back_to_the_system(system: System) -> None:
    """When the pool would hold more than twice what was ever in use, or than the limit."""
    pool = HostPool()
    unit = 10 << 20

    def use(size: int, limit: int) -> None:
        taken = pool.take([size], limit)[0]
        assert taken is not None
        pool.give(*taken, size)

    use(unit, 1 << 30)
    use(2 * unit, 1 << 30)
    assert system.released == []
    use(3 * unit, 1 << 30)
    assert system.released == []
    use(4 * unit, 1 << 30)
    assert system.released == [unit, 2 * unit]
    assert pool.nbytes == 7 * unit
    use(5 * unit, 6 * unit)
    assert system.released == [unit, 2 * unit, 3 * unit, 4 * unit]
    assert pool.nbytes == 5 * unit


# Fresh memory ----------------------------------------------------------------------------------------------------


class Runtime:
    """What CUDA is asked for; `refused`: names that fail."""

    class CUDARuntimeError(RuntimeError):
        pass

    def __init__(self, *refused: str) -> None:
        self.refused, self.done = refused, Counter[str]()
        self.registered: dict[int, int] = {}
        self.allocated: dict[int, Any] = {}

    def _do(self, name: str) -> None:
        self.done[name] += 1
        if name in self.refused:
            raise self.CUDARuntimeError(name)

    def hostRegister(self, address: int, nbytes: int, flags: int) -> None:
        self._do("hostRegister")
        assert address not in self.registered
        self.registered[address] = nbytes

    def hostUnregister(self, address: int) -> None:
        del self.registered[address]

    def hostAlloc(self, nbytes: int, flags: int) -> int:
        self._do("hostAlloc")
        area = np.zeros(nbytes, np.uint8)
        self.allocated[area.ctypes.data] = area
        return int(area.ctypes.data)

    def freeHost(self, address: int) -> None:
        del self.allocated[address]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runtime]:
    def install(*refused: str) -> Runtime:
        made = Runtime(*refused)
        module = ModuleType("cupy.cuda")
        module.runtime = made  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
        monkeypatch.setitem(sys.modules, "cupy.cuda", module)
        monkeypatch.setattr(pages, "_own_pages", True)
        return made

    return install


def _write(made: pages.Pages) -> None:
    array = np.ctypeslib.as_array((ctypes.c_uint8 * made.nbytes).from_address(made.address))
    array[:] = 1
    assert int(array.sum(dtype=np.int64)) == made.nbytes


@pytest.mark.parametrize("nbytes", [1, 4096, 5000, 2 << 20, (2 << 20) + 1, 40 << 20])
def test_pages_of_our_own_are_registered_once(cuda: Callable[..., Runtime], nbytes: int) -> None:
    runtime = cuda("hostAlloc")
    made = [pages.pin(nbytes) for _ in range(2)]
    for one in made:
        assert nbytes <= one.nbytes < nbytes + (2 << 20)
        assert one.address % (2 << 20) == 0
        _write(one)
    assert runtime.registered == {one.address: one.nbytes for one in made}
    for one in made:
        one.release()
    assert runtime.registered == {}


@pytest.mark.parametrize("step", ["map", "fill in", "register"])
def test_cuda_allocates_where_a_step_is_refused(
    cuda: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """And is asked at once the next time."""
    runtime = cuda(*["hostRegister"] * (step == "register"))
    if step == "map":
        monkeypatch.setattr(pages.mmap, "mmap", Mock(side_effect=OSError("refused")))
    elif step == "fill in":
        real = pages._madvise
        refused = lambda address, nbytes, advice: errno.EINVAL if advice == 23 else real(address, nbytes, advice)  # noqa: E731
        monkeypatch.setattr(pages, "_madvise", refused)
    made = [pages.pin(20 << 20) for _ in range(2)]
    assert runtime.done == {"hostAlloc": 2} | ({"hostRegister": 1} if step == "register" else {})
    for one in made:
        _write(one)
        one.release()
    assert runtime.allocated == runtime.registered == {}


def test_no_threads_to_fill_in_pages(cuda: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cuda("hostAlloc")
    monkeypatch.setattr(workers, "_pool", workers._Pool())
    monkeypatch.setattr(workers, "_start_thread", Mock(side_effect=RuntimeError))
    made = pages.pin(40 << 20)
    _write(made)
    assert runtime.registered == {made.address: made.nbytes}


def test_no_pinned_memory_at_all(cuda: Callable[..., Runtime]) -> None:
    runtime = cuda("hostRegister", "hostAlloc")
    with pytest.raises(MemoryError, match="no 4096 bytes of pinned memory: hostAlloc"):
        pages.pin(1)
    assert runtime.registered == runtime.allocated == {}


def test_what_madvise_refuses_is_said() -> None:
    assert pages._madvise(0, 4096, 23) == errno.ENOMEM
    assert pages._madvise(1, 4096, 14) == errno.EINVAL


def test_a_container_may_have_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for text, found in (("1048576\n", 1 << 20), ("max\n", whole), (str(1 << 60), whole)):
        monkeypatch.setattr("builtins.open", mock_open(read_data=text))
        assert pages.memory_nbytes() == found


# On a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_columns_of_all_sizes_count_and_keep_to_the_limit() -> None:
    import cudf

    from cudf_fsst.device import pinned

    gc.collect()
    before = pinned.pinned_nbytes()
    small = cudf.DataFrame({"a": range(3000), "b": ["a few words"] * 3000})
    large = cudf.DataFrame({"noise": np.random.default_rng(0).normal(size=400_000)})
    try:
        held = [frame.fsst.to_host() for frame in (small, large) for _ in range(3)]
        counted = pinned.pinned_nbytes() - before
        sizes = [
            buffer.nbytes
            for frame in held
            for column in frame._everything
            for part in column.node.parts
            for buffer in (part.meta, part.codes)
        ]
        assert sum(sizes) <= counted <= sum(size + 256 for size in sizes)
        cudf_fsst.set_pinned_limit(before + counted + 4096)
        assert pinned.pinned_nbytes() == before + counted
        held += [frame.fsst.to_host() for frame in (small, large) for _ in range(10)]
        assert pinned.pinned_nbytes() <= before + counted + 4096
        for frame in held:
            wanted = small if "a" in frame.columns else large
            cudf.testing.assert_frame_equal(frame.to_cudf(), wanted)
        del held, frame
        gc.collect()
        assert pinned.pinned_nbytes() == before
    finally:
        cudf_fsst.set_pinned_limit(None)
