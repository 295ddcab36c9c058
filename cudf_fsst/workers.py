"""The threads of this process: one pool of them, for all calls.

A call cuts its work into items (`map_items`), or gives one task after another to a `TaskGroup`. Threads take them from
there. They are started when there are too few of them for what is asked for, and stay.

*Interrupts.* Python raises KeyboardInterrupt in the main thread, between any two steps of its code, and inside of what
waits for a lock. So the main thread waits here, and threads of the pool, which nothing interrupts, do all that must be
done to its end: they note that they are at work, take an item, and say that they have ended. What the main thread does
beside them is one step in C each time, which is done or not done. It takes no lock that a thread of the pool waits for.
Whoever leaves a call, by an error or an interrupt, drops the items that have not begun and waits for the others. An
interrupt of this waiting is kept until it is over. One that comes on the way into or out of the waiting finds another
one behind it: that is why a call is its own context several times over.

Even so an item holds the arrays that it writes. Where it has an address alone, whoever leaves could free them.

*Forks.* A forked process has none of its parent's threads, and starts its own.

*The end of Python.* Threads begin nothing new, and what they are at is waited for.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
#: Starts a thread or raises RuntimeError, in one step. `threading.Thread.start` has several, with locks between them.
_start_thread: Callable[..., Any] = _thread.start_new_thread


def num_threads() -> int:
    """Threads a call may use: environment variable CUDF_FSST_NUM_THREADS, else the CPUs this process may run on.

    Raises
    ------
    ValueError
        The variable is neither empty nor a positive number.
    """
    text = os.environ.get("CUDF_FSST_NUM_THREADS", "")
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"CUDF_FSST_NUM_THREADS must be a positive number, not {text!r}")
    return int(text)


class _ThreadState(threading.local):
    """What this thread is and does.

    Attributes
    ----------
    of_pool : bool
    spare : deque or None
        Of the call whose item it is at: an entry for each thread that this may have besides those it has.
    work : _Work or None
        What a thread of the pool is at.
    """

    of_pool = False
    spare: deque[None] | None = None
    work: _Work | None = None


_thread_state = _ThreadState()


class _Work:
    """Items that threads take and do.

    Parameters
    ----------
    most : int
        Threads that may be at work at the same time.
    """

    def __init__(self, limit: int) -> None:
        #: A thread has one of these while it is at work.
        self.slots: deque[None] = deque([None] * limit)
        #: What has not begun.
        self.items: deque[Any] = deque()
        #: Whether somebody waits for the end, and what the threads then say it by.
        self.closing, self.ended = False, SimpleQueue[None]()
        #: Whether nobody wants what comes of it any more.
        self.dropped = False

    @abstractmethod
    def take(self) -> None:
        """Take items and do them until there are none; raises nothing."""

    def on_idle(self) -> None:
        """Called by a thread that found no more items."""

    def settle(self) -> BaseException | None:
        """Drop what has not begun, and wait for the rest, however often that is interrupted.

        Returns
        -------
        BaseException or None
            The last interrupt.
        """
        interrupt: BaseException | None = None
        self.closing = self.dropped = True
        self.items.clear()
        while self in _pool.busy:
            try:
                self.ended.get()
            except BaseException as error:  # of whatever kind the user's handlers of signals raise
                interrupt = error
        while self in _pool.wanted:
            _pool.forget(self)
        return interrupt

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        interrupt = self.settle()
        if interrupt is not None and (error_type is None or issubclass(error_type, Exception)):
            raise interrupt


class _Pool:
    """The threads.

    Attributes
    ----------
    threads : list
        An entry for each thread that has begun.
    wanted : list of _Work
        As often as each wants a thread, or has one.
    busy : list of _Work
        As often as each has a thread at work.
    stopped : bool
        Python ends.
    """

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.wanted: list[_Work] = []
        self.busy: list[_Work] = []
        self.stopped = False
        self._calls: SimpleQueue[_Work] = SimpleQueue()

    def send(self, work: _Work, count: int) -> bool:
        """Send threads to some work; False where not so many can be started."""
        if self.stopped:
            return False
        self.wanted.extend([work] * count)
        for _ in range(count):
            self._calls.put(work)
        try:
            if not self.threads:  # late: what is registered last is called first, and libraries must still be there
                atexit.register(_stop)
            while len(self.threads) < len(self.wanted):
                started: SimpleQueue[None] = SimpleQueue()
                _start_thread(self._run, (started,))
                started.get()
        except (RuntimeError, MemoryError):  # there are as many as the system allows, or Python ends
            return False
        return True

    def forget(self, work: _Work) -> None:
        """Want one thread less for some work."""
        with suppress(ValueError):
            self.wanted.remove(work)

    def _run(self, started: SimpleQueue[None]) -> None:
        """The loop of a thread, as long as the process lives."""
        _thread_state.of_pool = True
        threading.current_thread().name = f"cudf-fsst-{len(self.threads)}"
        self.threads.append(threading.get_ident())
        started.put(None)
        del started
        while True:
            work = self._calls.get()
            self._serve(work)
            del work  # and what it holds, while this thread has nothing to do

    def _serve(self, work: _Work) -> None:
        while True:
            self._help(work)
            self.forget(work)
            # More may have come just now, from somebody who saw that there is a thread.
            if self.stopped or not (work.items and work.slots):
                break
            self.wanted.append(work)
        work.on_idle()

    def _help(self, work: _Work) -> None:
        while work.items:
            self.busy.append(work)
            try:
                if self.stopped:
                    return
                try:
                    work.slots.pop()
                except IndexError:  # as many as may be are at work, and look for more when they have ended
                    return
                try:
                    _thread_state.work = work
                    work.take()
                finally:
                    _thread_state.work = None
                    work.slots.append(None)
            finally:
                self.busy.remove(work)
                if work.closing:
                    work.ended.put(None)

    def stop(self) -> None:
        """Begin nothing new, and wait for what is under way."""
        self.stopped = True
        while self.busy:
            time.sleep(0.001)


_pool = _Pool()


def _start_anew() -> None:
    """In a forked process: it has this one thread."""
    global _pool
    _pool = _Pool()
    _thread_state.of_pool, _thread_state.spare, _thread_state.work = False, None, None


def _stop() -> None:
    _pool.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


class _ItemsCall(_Work, Generic[_T, _R]):
    """Items of `map_items`."""

    def __init__(self, function: Callable[[_T], _R], of: Sequence[_T], most: int, spare: deque[None]) -> None:
        super().__init__(most)
        self._function, self._of, self._spare = function, of, spare
        self._results: list[Any] = [None] * len(of)
        self._errors: dict[int, BaseException] = {}
        self.items.extend(range(len(of)))
        self.closing = True

    def take(self) -> None:
        """Take items and do them until there are none, or one fails."""
        outer, _thread_state.spare = _thread_state.spare, self._spare
        try:
            while True:
                try:
                    number = self.items.popleft()
                except IndexError:
                    return
                try:
                    self._results[number] = self._function(self._of[number])
                except BaseException as error:  # raised by who called
                    self._errors[number] = error
                    self.items.clear()
        finally:
            _thread_state.spare = outer

    def on_idle(self) -> None:
        """Lend the thread to calls that an item makes."""
        self._spare.append(None)

    def wait(self) -> None:
        """Wait until all items have ended."""
        while self.items or self in _pool.busy:
            self.ended.get()

    def results(self) -> list[_R]:
        """The results of all items, in order; raises the error of the first one that failed."""
        results, errors = self._results, self._errors
        # A thread that comes late, or an error's traceback, need not hold what has been done.
        del self._function, self._of, self._results, self._errors
        if not errors:
            return results
        try:
            # Items begin in their order. So this one does not depend on the threads, unless it is an interrupt.
            raise errors[min(errors, key=lambda number: (isinstance(errors[number], Exception), number))]
        finally:
            errors.clear()
            results.clear()


def map_items(function: Callable[[_T], _R], items: Sequence[_T], threads: int | None = None) -> list[_R]:
    """``[function(item) for item in items]`` in threads.

    Parameters
    ----------
    function : callable
        It and the items hold the arrays that they work with: addresses alone do not keep them.
    items : sequence
    threads : int, optional
        How many at most; by default `num_threads`. An item of a call that calls this again has no more than its call
        has.

    Returns
    -------
    list

    Raises
    ------
    BaseException
        What the first item that failed raised, after all that had begun have ended; those behind it do not begin. Or
        KeyboardInterrupt, in the same way.
    """
    asked = num_threads() if threads is None else threads
    count, spare = min(asked, len(items)), _thread_state.spare
    nested = spare is not None
    if spare is None:
        spare = deque([None] * (asked - count))
    else:
        count = _taken(spare, count - 1)  # besides this one
    if count + nested <= 1:
        return [function(item) for item in items]
    call = _ItemsCall(function, items, count, spare)
    with call, call, call:  # see the top
        enough = _pool.send(call, count)
        if nested or (not enough and _taken(call.slots, 1)):  # there may be no other thread
            call.take()
        call.wait()
    return call.results()


def _taken(of: deque[None], most: int) -> int:
    """Take so many, or as many as there are; how many these were."""
    for taken in range(most):
        try:
            of.pop()
        except IndexError:
            return taken
    return max(most, 0)


class TaskGroup(_Work):
    """Tasks that are given one after another to threads of the process; use it as a context, several times over.

    Who leaves it drops those that have not begun, and waits for the others.

    Parameters
    ----------
    threads : int
        How many of them are done at the same time, at most.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._most = threads

    def begin(self, task: Callable[[], object]) -> None:
        """Have something done, which raises nothing, in the order in which it comes here.

        Raises
        ------
        RuntimeError
            There is no thread, and none can be started. It will not be done.
        """
        self.dropped = False
        self.items.append(task)
        if _pool.wanted.count(self) >= self._most:
            return
        if not _pool.send(self, 1) and (_pool.stopped or not _pool.threads) and self.withdraw(task):
            _pool.forget(self)
            raise RuntimeError("can't start new thread")

    def withdraw(self, task: Callable[[], object]) -> bool:
        """Take a task back; False if it has begun."""
        try:
            self.items.remove(task)
        except ValueError:
            return False
        return True

    def take(self) -> None:
        """Take tasks and do them until there are none."""
        while not _pool.stopped:
            try:
                task = self.items.popleft()
            except IndexError:
                return
            with suppress(BaseException):
                task()
            del task

    def close(self) -> None:
        """Drop what has not begun, and wait for the rest."""
        with self, self, self:
            pass


class Promise(Generic[_T]):
    """A value that a thread of a group makes, for all who wait for it.

    Parameters
    ----------
    group : TaskGroup
        Open until nobody asks any more.
    call : callable
        Makes it.
    """

    def __init__(self, group: TaskGroup, call: Callable[[], _T]) -> None:
        self._call, self._group = call, group
        self._ended = False
        self._error: BaseException | None = None
        self._waiting: list[SimpleQueue[None]] = []
        self._sent = True
        try:
            group.begin(self._make)
        except RuntimeError:  # there is no thread but this one
            self._sent = False

    def _make(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # raised by who asks
            self._error = error
        self._ended = True
        for queue in self._waiting:
            queue.put(None)
        del self  # which holds the error, and so this frame

    def result(self) -> _T:
        """The value; raises the error with which making it failed."""
        # A thread does not wait for another one, of which there may be none.
        if not self._ended and (not self._sent or (_thread_state.of_pool and self._group.withdraw(self._make))):
            self._make()
        # Everybody waits by an object of his own: an interrupt breaks nobody else's.
        own: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(own)
        while not self._ended:
            own.get()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self
        return self._value


def at_work() -> int:
    """Threads that are at work now."""
    return len(_pool.busy)


def dropped() -> bool:
    """Whether this is a thread of the pool at work that nobody wants any more: what may take long should end."""
    return _thread_state.work is not None and _thread_state.work.dropped
