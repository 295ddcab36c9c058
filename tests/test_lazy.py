"""What is kept with an object, and for how long."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from cudf_fsst.lazy import lazy, weakly_cached


class Thing:
    pass


def test_threads_that_make_the_same_get_the_one_that_is_kept() -> None:
    both = Barrier(2)

    class Owner:
        @lazy
        def made(self) -> object:
            both.wait(60)  # both are making it
            return object()

    owner = Owner()
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: owner.made, range(2))
    assert one is other is owner.made


def test_kept_as_long_as_the_object() -> None:
    results: list[weakref.ref[Thing]] = []

    @weakly_cached(3)
    def made(_of: Thing) -> Thing:
        result = Thing()
        results.append(weakref.ref(result))
        return result

    one, other = Thing(), Thing()
    assert made(one) is made(one)
    assert made(other) is not made(one)
    assert len(results) == 2
    del one
    gc.collect()
    assert [result() is None for result in results] == [True, False]
    assert made(other) is results[1]()


def test_only_the_last_are_kept() -> None:
    calls: list[Thing] = []

    @weakly_cached(3)
    def made(of: Thing) -> int:
        calls.append(of)
        return len(calls)

    things = [Thing() for _ in range(4)]
    assert [made(thing) for thing in things] == [1, 2, 3, 4]
    assert [made(thing) for thing in things[1:]] == [2, 3, 4]
    assert made(things[0]) == 5, "the first was forgotten"
    assert made(things[1]) == 6, "and then the second"
