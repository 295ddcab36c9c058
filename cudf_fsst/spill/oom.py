"""RMM has no memory left: a pool makes room, and the allocation is tried again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..interop import cudf as interop_cudf
from ..sizes import parse_bytes
from .pool import SpillPool

#: What a thread waits at most for another's answer (seconds). It never should: who answers waits for nothing.
_PATIENCE = 10.0
#: The resources that are in use now.
_installed: list[Any] = []


@contextmanager
def spilling(pool: SpillPool, *, reserve: int | str = "256 MiB") -> Iterator[SpillPool]:
    """Answer RMM's out-of-memory by making room in a pool.

    Inside the block, an allocation on the current GPU that finds no memory makes entries of the pool give way. Then it
    is tried again. This holds for allocations of cuDF, CuPy and RMM, in all threads. MemoryError is raised when nothing
    is left to move.

    Parameters
    ----------
    pool : SpillPool
        With a `device_limit` or without.
    reserve : int or str
        Bytes of GPU memory that are set aside at the start, so that entries can be compressed when there is no memory.
        It should be a little more than the largest entry takes compressed.

    Yields
    ------
    SpillPool
        The same pool.

    Raises
    ------
    RuntimeError
        cuDF's own spilling on demand is active. It answers out-of-memory too, and RMM asks only one of them. Or the
        pool belongs to a process that this one was forked from. Or, at the end of the block, RMM's resource was
        changed inside it and not changed back.
    ImportError
        There is no cuDF. The message says what to install.

    Notes
    -----
    The least recently used entry gives way first. What lies elsewhere as well is dropped. What is compressed moves to
    the host. The rest is compressed and, if that is not enough, moved. What the block itself holds, or another thread
    is reading, stays.
    """
    nbytes = parse_bytes("reserve", reserve)
    if not isinstance(pool, SpillPool):
        raise TypeError(f"pool must be a SpillPool, not {type(pool).__name__}")
    pool._check_owner()
    cudf = interop_cudf.cudf_module()
    import rmm

    upstream = rmm.mr.get_current_device_resource()
    _check_alone(cudf, rmm, upstream)
    answer = Answer(pool, nbytes, lambda size: rmm.DeviceBuffer(size=size, mr=upstream), interop_cudf.current_device())
    adaptor = rmm.mr.FailureCallbackResourceAdaptor(upstream, answer)
    _installed.append(adaptor)
    rmm.mr.set_current_device_resource(adaptor)
    try:
        answer.fill_reserve()
        yield pool
    except BaseException:
        _remove(rmm, adaptor, upstream, answer)
        raise
    if not _remove(rmm, adaptor, upstream, answer):
        raise RuntimeError("RMM's memory resource was changed inside spilling() and not changed back")


def _check_alone(cudf: Any, rmm: Any, resource: Any) -> None:
    """Raise RuntimeError where something else than a pool answers out-of-memory, or will."""
    spills = cudf.get_option("spill") and cudf.get_option("spill_on_demand")
    while resource is not None and not spills:
        is_callback = isinstance(resource, rmm.mr.FailureCallbackResourceAdaptor)
        spills = is_callback and not any(resource is adaptor for adaptor in _installed)
        resource = getattr(resource, "upstream_mr", None)
    if spills:
        raise RuntimeError(
            "cuDF's own spilling on demand (or another callback of RMM's) answers out-of-memory already; "
            'switch it off, cudf.set_option("spill", False) before any data is on the GPU, or do without spilling()'
        )


def _remove(rmm: Any, adaptor: Any, upstream: Any, answer: Answer) -> bool:
    """Take the resource away; False if something else lies on top of it, then it stays but does nothing."""
    answer.stop()
    _installed[:] = [installed for installed in _installed if installed is not adaptor]
    if rmm.mr.get_current_device_resource() is not adaptor:
        return False
    rmm.mr.set_current_device_resource(upstream)
    return True


class Answer:
    """The callback of RMM when it has no memory: makes room, and returns whether to try again.

    Parameters
    ----------
    pool
        Where the room comes from.
    reserve
        Bytes to keep in reserve.
    allocate
        Takes memory without asking this object.
    device
        The GPU that this is about.
    """

    def __init__(self, pool: SpillPool, reserve: int, allocate: Any, device: str) -> None:
        self._pool: SpillPool | None = pool
        self._reserve_nbytes = reserve
        self._allocate = allocate
        self._device = device
        self._reserve: Any = None
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._owner = os.getpid()

    def fill_reserve(self) -> None:
        """Set the reserve aside, if there is memory for it."""
        if self._reserve is None and self._reserve_nbytes:
            with suppress(MemoryError):  # tried again when entries have left
                self._reserve = self._allocate(self._reserve_nbytes)

    def stop(self) -> None:
        """Do nothing from now on."""
        self._pool = self._reserve = None

    def __call__(self, nbytes: int) -> bool:
        """Whether an allocation that failed is to be tried again."""
        if os.getpid() != self._owner:  # a fork: the pool is not its own, and locks may be held for ever
            return False
        # Compressing allocates, too, and must not come back here: it fails, and the next entry is tried.
        if self._thread == threading.get_ident():
            return False
        held: list[bool] = []
        try:
            # One step, so that no interrupt comes between the lock and the note of it.
            held.extend(map(self._lock.acquire, (True,), (_PATIENCE,)))
            if not held[0]:
                return False
            self._thread = threading.get_ident()
            return self._make_room(nbytes)
        finally:
            if True in held:
                self._thread = None
                self._lock.release()

    def _make_room(self, nbytes: int) -> bool:
        pool = self._pool
        if pool is None:
            return False
        freed = pool.make_room(nbytes, device=self._device, compress=False)
        if freed >= nbytes:
            return True
        # More is needed than what is compressed already: give the reserve to those who compress the rest.
        had_reserve, self._reserve = self._reserve is not None, None
        wanted = nbytes + self._reserve_nbytes
        freed += pool.make_room(wanted - freed, device=self._device)
        if freed >= wanted:
            self.fill_reserve()
        return freed > 0 or (had_reserve and self._reserve is None)
