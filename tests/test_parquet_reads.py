"""What read_parquet reads together, and how much of it at the same time."""

from __future__ import annotations

import _thread
import gc
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudf_fsst import workers
from cudf_fsst.parquet import reads, sources
from cudf_fsst.parquet.reads import Ahead, Read, read_ahead

ROWS = 10_000


def sizes_of(table: pa.Table, path: Path, names: list[str] | None = None) -> dict[str, reads.Sizes] | None:
    pq.write_table(table, path, compression="snappy")
    found = sources.find(sources.locate(path), None, None)
    return reads.sizes(found.pieces[0], table.column_names if names is None else names)


def test_sizes(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 2**62, ROWS)
    table = pa.table(
        {
            "few": pa.array(np.zeros(ROWS, np.int64)),
            "many": numbers,
            "text": pa.array(["x" * 100 + str(number) for number in numbers]),
            "repeated": pa.array(["some text"] * ROWS),
            "a.b": numbers.astype("int32"),
            "a": [{"b": number, "c": "x"} for number in range(ROWS)],
            "list": [[number] for number in range(ROWS)],
        }
    )
    found = sizes_of(table, tmp_path / "in.parquet")
    assert found is not None
    assert list(found) == table.column_names
    assert found["few"].table == 8  # in memory they take as much as any
    assert found["few"].encoded < 1
    assert found["many"].table == pytest.approx(8, rel=0.5)
    assert found["many"].encoded > 12
    assert found["text"].table == pytest.approx(123, rel=0.1)
    assert found["repeated"].table == 20
    assert 4 <= found["a.b"].table < 8
    assert found["a"].table > 25
    assert found["list"].table >= 8
    assert sizes_of(table, tmp_path / "in.parquet", ["few", "other"]) is None
    assert sizes_of(table, tmp_path / "in.parquet", table.column_names[:-1]) is None


def test_shares() -> None:
    found = {name: reads.Sizes(nbytes, 0) for name, nbytes in (("a", 50), ("b", 50), ("c", 30), ("d", 250), ("e", 1))}
    rows = reads._SHARE_NBYTES // 100
    assert reads.shares("abcde", found, rows) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert reads.shares("abcde", found, 1) == [list("abcde")]
    assert reads.shares("abcde", None, rows) == [list("abcde")]
    assert reads.shares("", found, rows) == [[]]


class Reading:
    """Reads that end when they are told to, and notes of those under way."""

    def __init__(self, sizes: list[int]) -> None:
        self.began = [threading.Event() for _ in sizes]
        self.may_end = [threading.Event() for _ in sizes]
        self._ended: set[int] = set()
        self.reads = [Read(number, 0, nbytes, self._call(number)) for number, nbytes in enumerate(sizes)]

    def _call(self, number: int) -> Callable[[], str]:
        def call() -> str:
            self.began[number].set()
            assert self.may_end[number].wait(300)
            self._ended.add(number)
            return f"table {number}"

        return call

    def end(self, *numbers: int) -> None:
        for number in numbers:
            self.may_end[number].set()

    def ended(self, *numbers: int) -> bool:
        return self._ended >= set(numbers)

    def begun(self, *numbers: int) -> None:
        """These begin, and no others."""
        for number in numbers:
            assert self.began[number].wait(300)
        assert [number for number, event in enumerate(self.began) if event.is_set()] == list(numbers)


def given(found: list[tuple[Read, Any]]) -> list[str]:
    return [data for _, data in found]


def test_as_many_bytes_as_there_is_room_for() -> None:
    some = Reading([40, 40, 40, 300, 10])
    found = read_ahead(some.reads, Ahead(8, 100, 1), nullcontext)
    some.end(1)
    assert next(found) == [(some.reads[1], "table 1")]
    some.begun(0, 1)  # what is being used counts
    some.end(0)
    assert given(next(found)) == ["table 0"]
    some.begun(0, 1, 2)
    some.end(2)
    assert given(next(found)) == ["table 2"]
    some.begun(0, 1, 2)  # the large one waits until there is nothing else
    some.end(3, 4)
    assert given(next(found)) == ["table 3"]
    some.begun(0, 1, 2, 3)
    assert [given(one) for one in found] == [["table 4"]]


def test_as_many_threads_as_there_are() -> None:
    some = Reading([1] * 5)
    found = read_ahead(some.reads, Ahead(2, 100, 1), nullcontext)
    some.end(0)
    assert given(next(found)) == ["table 0"]
    some.begun(0, 1, 2)
    some.end(1, 2, 3, 4)
    assert sorted(data for one in found for data in given(one)) == [f"table {number}" for number in (1, 2, 3, 4)]


def test_what_has_ended_is_given_together() -> None:
    some = Reading([1] * 4)
    found = read_ahead(some.reads, Ahead(3, 4, 2), nullcontext)
    some.end(0)
    assert given(next(found)) == ["table 0"]
    some.end(1, 2)
    some.begun(0, 1, 2, 3)
    some.may_end[3].set()
    while not some.ended(1, 2, 3):
        time.sleep(0.001)
    assert given(next(found)) == ["table 1", "table 2"]
    assert given(next(found)) == ["table 3"]


def test_several_are_waited_for_as_long_as_others_are_under_way() -> None:
    some = Reading([40, 40, 60])
    found = read_ahead(some.reads, Ahead(3, 100, 3, 2), nullcontext)
    some.end(0)
    threading.Timer(0.1, some.end, (1,)).start()
    assert given(next(found)) == ["table 0", "table 1"]
    some.end(2)
    assert given(next(found)) == ["table 2"]
    others = Reading([60, 60])
    found = read_ahead(others.reads, Ahead(3, 100, 3, 2), nullcontext)
    others.end(0, 1)
    assert [given(one) for one in found] == [["table 0"], ["table 1"]]  # the second has no room before


def test_more_is_read_ahead_in_the_beginning() -> None:
    some = Reading([60] * 4)
    found = read_ahead(some.reads, Ahead(4, 100, 1, 1, 80), nullcontext)
    some.end(0)
    assert given(next(found)) == ["table 0"]
    some.begun(0, 1, 2)
    some.end(1)
    assert given(next(found)) == ["table 1"]
    some.begun(0, 1, 2)
    some.end(2)
    assert given(next(found)) == ["table 2"]
    some.begun(0, 1, 2, 3)
    some.end(3)
    assert [given(one) for one in found] == [["table 3"]]


def test_nothing_is_held_that_was_used() -> None:
    class Table:
        pass

    made: list[Any] = []

    def call() -> Table:
        table = Table()
        made.append(weakref.ref(table))
        return table

    gc.disable()
    try:
        for number, found in enumerate(
            read_ahead([Read(i, 0, 1, call) for i in range(4)], Ahead(1, 1, 1), nullcontext)
        ):
            assert [one() is not None for one in made] == [False] * number + [True]
            assert len(found) == 1
            del found
    finally:
        gc.enable()


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_end_all_threads(threads: int) -> None:
    def fail() -> None:
        raise OSError("in.parquet: it is damaged")

    calls: list[Callable[[], Any]] = [lambda: 1, fail, lambda: 2, lambda: 3]
    with pytest.raises(OSError, match=r"in\.parquet"):
        list(read_ahead([Read(i, 0, 1, call) for i, call in enumerate(calls)], Ahead(threads, 4, 9), nullcontext))
    found = read_ahead([Read(i, 0, 1, calls[0]) for i in range(9)], Ahead(threads, 4, 9), nullcontext)
    next(found)
    found.close()
    assert workers.at_work() == 0


@pytest.mark.parametrize("started", [0, 1])
def test_threads_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, started: int) -> None:
    """Without any it is an error, else there are fewer; nobody waits for ever."""
    start, ended, made = _thread.start_new_thread, threading.Event(), list[Any]()

    def refuse(*args: Any) -> None:
        if len(workers._pool.threads) == started:
            raise RuntimeError("can't start new thread")
        start(*args)

    def read() -> None:
        first = Read(0, 0, 9, lambda: 0, 1)  # alone; who has read it begins the next ones
        others = [Read(i, 0, 1, lambda: 1) for i in range(1, 6)]
        try:
            made.extend(data for some in read_ahead([first, *others], Ahead(4, 9, 2), nullcontext) for _, data in some)
        except RuntimeError as error:
            made.append(str(error))
        ended.set()

    monkeypatch.setattr(workers, "_pool", workers._Pool())
    monkeypatch.setattr(workers, "_start_thread", refuse)
    threading.Thread(target=read, daemon=True).start()
    assert ended.wait(300)
    assert made == ([0, 1, 1, 1, 1, 1] if started else ["can't start new thread"])
