"""Pinned host memory: one limit and one count for all of it, of small buffers and across changes of the limit."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cudf_fsst.device

SMALL, LARGE = 1000, 3 << 20


class Rmm:
    """RMM with pinned memory of NumPy's; `failing`: there is none."""

    def __init__(self) -> None:
        self.pools: list[int] = []
        self.given = 0
        self.failing = False
        self.mr = SimpleNamespace(
            PinnedHostMemoryResource=lambda: "pinned",
            PoolMemoryResource=lambda upstream, initial_pool_size: self.pools.append(initial_pool_size) or "pool",
        )

    def DeviceBuffer(self, *, size: int, stream: Any, mr: Any) -> Any:
        assert (stream, mr) == ("rmm's stream", "pool")
        if self.failing:
            raise MemoryError("std::bad_alloc")
        self.given += 1
        area = np.zeros(size, np.uint8)
        return SimpleNamespace(ptr=area.ctypes.data, size=size, area=area)


@pytest.fixture
def rmm(monkeypatch: pytest.MonkeyPatch) -> Rmm:
    made = Rmm()
    monkeypatch.setitem(sys.modules, "rmm", made)
    monkeypatch.setitem(sys.modules, "rmm.mr", made.mr)
    memory = SimpleNamespace(default_stream=lambda: ("CuPy's stream", "rmm's stream"))
    monkeypatch.setitem(sys.modules, "cudf_fsst.device.memory", memory)
    return made


@pytest.fixture
def pinned(rmm: Rmm, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, as if it was just imported."""
    name = "cudf_fsst.device.pinned"
    with monkeypatch.context() as patched:
        patched.setattr(cudf_fsst.device, "pinned", None, raising=False)
        patched.delitem(sys.modules, name, raising=False)
        yield importlib.import_module(name)


def test_small_and_large_buffers_count(pinned: ModuleType, rmm: Rmm) -> None:
    held = [pinned.host_buffer(size) for size in (SMALL, LARGE, 1, 256)]
    assert [one.size for one in held] == [SMALL, LARGE, 1, 256]
    assert pinned.pinned_nbytes() == 1024 + LARGE + 256 + 256
    assert rmm.given == 4
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


def test_past_the_limit_memory_is_pageable(pinned: ModuleType, rmm: Rmm) -> None:
    pinned.set_pinned_limit(10 * 1024)
    held = [pinned.host_buffer(SMALL) for _ in range(12)]
    assert rmm.given == 10
    assert pinned.pinned_nbytes() == 10 * 1024
    for number, one in enumerate(held):
        one[:] = number
    assert [one[-1] for one in held] == list(range(12))
    del held[3]
    gc.collect()
    again = pinned.host_buffer(SMALL)
    assert rmm.given == 11
    assert pinned.host_buffer(1).size == 1
    assert rmm.given == 11
    del held, again
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_what_is_in_use_counts_when_the_limit_changes(pinned: ModuleType, rmm: Rmm) -> None:
    pinned.set_pinned_limit("8 MiB")
    first = pinned.host_buffer(LARGE)
    pinned.set_pinned_limit("4 MiB")
    assert pinned.pinned_nbytes() == LARGE
    pageable = pinned.host_buffer(LARGE)  # together they would pass the new limit
    assert rmm.given == 1
    small = pinned.host_buffer(SMALL)
    assert rmm.given == 2
    assert pinned.pinned_nbytes() == LARGE + 1024
    pinned.set_pinned_limit(0)
    assert pinned.host_buffer(SMALL).size == SMALL
    assert rmm.given == 2
    pinned.set_pinned_limit("7 MiB")
    more = pinned.host_buffer(LARGE)
    assert rmm.given == 3
    assert len(rmm.pools) == 1  # what is pinned is used again
    del first, pageable, small, more
    gc.collect()
    assert pinned.pinned_nbytes() == 0


def test_nothing_is_pinned_before_it_is_needed(pinned: ModuleType, rmm: Rmm) -> None:
    assert pinned.host_buffer(0).size == 0
    pinned.set_pinned_limit(100)
    assert pinned.host_buffer(SMALL).size == SMALL
    assert rmm.pools == []
    pinned.set_pinned_limit(1000 * 1000)
    pinned.host_buffer(SMALL)
    assert rmm.pools == [1000 * 1000 // 256 * 256]
    assert pinned.pinned_nbytes() == 0


def test_no_memory_is_no_error_and_counts_nothing(pinned: ModuleType, rmm: Rmm) -> None:
    rmm.failing = True
    held = [pinned.host_buffer(size) for size in (SMALL, LARGE)]
    assert pinned.pinned_nbytes() == 0
    rmm.failing = False
    held.append(pinned.host_buffer(SMALL))
    assert pinned.pinned_nbytes() == 1024


def test_given_back_while_it_is_counted(pinned: ModuleType) -> None:
    """Memory goes back wherever Python collects garbage, also in a thread that is counting."""
    held = pinned.host_buffer(SMALL)
    with pinned._lock:
        del held
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
