"""Many columns compressed in one call, on an emulated GPU: the same bytes as one by one on the CPU, in as few waits."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst.buffers import CharactersUnderNulls, DeviceStrings, HostStrings
from cudf_fsst.codecs.fsst import train_max
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.choose import codec_of
from emulation.conftest import emulator
from emulation.device import ORDERS, FakeDevice, emulated, failing_every_allocation
from emulation.emulator import Emulator
from fsst_gpu import SEGMENT, WORDS, Gpu, column, same_segments, text

__all__ = ["emulator"]

Options = dict[str, Any]


class Batch(Gpu):
    """`compress` for many columns, with its waits counted."""

    waits = 0

    def __init__(self, device: FakeDevice) -> None:
        from cudf_fsst.codecs.text import cuda_room, cuda_task

        super().__init__(device)
        self.room: Any = cuda_room
        self.task: Any = cuda_task

    def tasks(self, wanted: list[tuple[HostStrings, Options]]) -> list[Any]:
        return [self.task.TextTask(self.upload(strings), **options) for strings, options in wanted]

    def run(self, tasks: list[Any], *, stream: Any = None, outbox: Any = None) -> list[list[Any]]:
        from cudf_fsst.device import waits
        from cudf_fsst.device.memory import Lane

        self.waits = 0
        with Lane(stream) as lane:
            (found,) = waits.run(lane, self.counted(self.cuda.steps([codec_of()], tasks, lane=lane, outbox=outbox)))
            return list(found)

    def counted(self, steps: Any) -> Any:
        """The same steps; each adds to the waits."""
        try:
            while True:
                next(steps)
                self.waits += 1
                yield
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def check(self, wanted: list[tuple[HostStrings, Options]], found: list[list[Any]]) -> None:
        for (strings, options), segments in zip(wanted, found, strict=True):
            same_segments(self.cuda.to_host(segments), cpu.compress(strings, **options))


@pytest.fixture
def gpu(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batch]:
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 2 * SEGMENT)
    monkeypatch.setattr(train_max, "ROUNDS", (96, 8))  # a round is six launches, which take their time here
    device = FakeDevice(emulator)
    with emulated(device, "text"):
        yield Batch(device)


def sliced(whole: HostStrings, first: int, rows: int) -> HostStrings:
    assert whole.validity is not None
    valid = np.unpackbits(whole.validity, bitorder="little")[first : first + rows]
    return dataclasses.replace(
        whole,
        rows=rows,
        offsets=whole.offsets[first : first + rows + 1],
        validity_offset=first,
        null_count=rows - int(valid.sum()),
    )


def frame(rng: np.random.Generator) -> list[tuple[HostStrings, Options]]:
    """Columns of all kinds."""
    words = text(rng, 9000)
    nulls: list[bytes | None] = [None if rng.random() < 0.3 else row for row in words]
    table = SymbolTable.from_symbols([b"th", b"the", b" ", b"e", b"deposits"])
    long = text(rng, SEGMENT + 20_000)
    giant: list[bytes | None] = [b"a", None, b" ".join(text(rng, 3 * SEGMENT)), b"b"]
    flags = column([bytes([65 + i % 3]) for i in range(2000)])
    return [
        (column(list(words)), {}),
        (column([]), {}),
        (column(nulls, np.int64), {"tile_size": 128}),
        (column(list(long)), {}),
        (column([None] * 700), {}),
        (column([b""] * 300), {"level": "max"}),
        (column(list(words[:100])), {"level": "max", "tile_size": 512}),
        (flags, {"table": table}),
        (column(list(words[50:200])), {"table": table, "level": "max"}),
        (column(giant), {"tile_size": 1024}),
        (column(list(long[::-1])), {"level": "max"}),
        (sliced(column(nulls), 33, 100), {"tile_size": 512}),
        (flags, {}),
        (column(list(long[1:])), {"table": table, "tile_size": 128}),
    ]


@pytest.mark.trains
@pytest.mark.sampled(1)
@pytest.mark.covering(1)
@pytest.mark.parametrize("own_stream", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_columns_of_all_kinds(order: str, own_stream: bool, gpu: Batch, rng: np.random.Generator) -> None:
    gpu.device.order = order
    wanted = frame(rng)
    stream = gpu.device.stream() if own_stream else None
    gpu.check(wanted, gpu.run(gpu.tasks(wanted), stream=stream))


def test_no_columns(gpu: Batch) -> None:
    assert gpu.run([]) == []
    assert gpu.run(gpu.tasks([(column([]), {})] * 3)) == [[], [], []]
    assert gpu.waits == 0
    assert gpu.device.launches == []


def test_through_host_memory(gpu: Batch, rng: np.random.Generator) -> None:
    from cudf_fsst.device.transfer import Outbox

    gpu.device.order = "random"
    wanted = frame(rng)
    tasks = gpu.tasks(wanted)
    with Outbox() as outbox:
        found = gpu.run(tasks, outbox=outbox)
    for (strings, options), segments in zip(wanted, found, strict=True):
        same_segments(segments, cpu.compress(strings, **options))


@pytest.mark.slow
def test_rounds(gpu: Batch, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that do not fit one workspace go one after another, and take no more of it."""
    wanted = frame(rng)
    tasks = gpu.tasks(wanted)
    gpu.check(wanted, gpu.run(tasks))
    waits = gpu.waits
    for name in ("_SHORT_ROUND", "_LONG_ROUND"):
        monkeypatch.setattr(gpu.room, name, 1)
    for stream in (None, gpu.device.stream()):
        gpu.check(wanted, gpu.run(tasks, stream=stream))
        assert gpu.waits > waits


@pytest.mark.parametrize("known", [False, True])
def test_a_plan_that_depends_on_the_size(
    known: bool, gpu: Batch, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the characters is not enough for a column whose segments may be larger."""
    monkeypatch.setattr(plan, "segment_size", lambda chars: SEGMENT // 2 if chars < 10_000 else SEGMENT)
    wanted: list[tuple[HostStrings, Options]] = [
        (column(list(text(rng, size))), {}) for size in (3000, 9000, 12_000, 2 * SEGMENT)
    ]
    tasks = gpu.tasks(wanted)
    for task in tasks:
        task.strings.chars_limit = task.strings.chars_limit + 5000 if known else None
    gpu.check(wanted, gpu.run(tasks))


@pytest.mark.parametrize("spare", [0, 1, SEGMENT - 1, 3 * SEGMENT])
def test_a_limit_that_is_not_reached(spare: int, gpu: Batch, rng: np.random.Generator) -> None:
    """More segments are planned than there are, whatever empty rows stand at the end."""
    chars = b"".join(text(rng, 2 * SEGMENT))[: 2 * SEGMENT]
    rows = [chars[i : i + 100] for i in range(0, len(chars), 100)]
    wanted: list[tuple[HostStrings, Options]] = [
        (column([*rows, *[b""] * 9]), {}),
        (column([*rows[: SEGMENT // 100], b"", b""]), {}),
        (column([b"", b""]), {}),
    ]
    tasks = gpu.tasks(wanted)
    for task in tasks:
        task.strings.chars_limit += spare
    gpu.check(wanted, gpu.run(tasks))


def numbered(count: int, rows: int, rng: np.random.Generator) -> list[tuple[HostStrings, Options]]:
    words: list[list[bytes | None]] = [
        [None if nulls and row % 7 == 0 else WORDS[(row + i) % 14] for row in range(rows)]
        for i, nulls in enumerate(rng.random(count) < 0.5)
    ]
    return [(column(one), {}) for one in words]


#: What one column of one segment takes, and so do twelve; and what twenty take: more than there are clusters.
LAUNCHES = ["row_lengths_look", "fsst_train_cluster", "fsst_encode", "row_lengths_pack", "text_compact"]
LAUNCHES_BESIDE = ["segment_begins", "fsst_train", "row_lengths_measure", "row_lengths_scan", *LAUNCHES[2:]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("count", [1, 12, 20])
def test_launches_and_waits(count: int, known: bool, gpu: Batch, rng: np.random.Generator) -> None:
    wanted = numbered(count, 600, rng)
    tasks = gpu.tasks(wanted)
    for task in tasks:
        task.strings.chars_limit = task.strings.chars_limit if known else None
    gpu.device.allocations.clear()
    found = gpu.run(tasks)
    assert gpu.device.launches == (LAUNCHES_BESIDE if count > 12 else LAUNCHES)
    # For sizes; for the rows while tables are trained; and for the codes.
    assert gpu.waits == (not known) + (count in (1, 20)) + 1
    gpu.check(wanted, found)


def test_launches_with_a_given_table(gpu: Batch, rng: np.random.Generator) -> None:
    """Its copy stays on the GPU, one for each kind of lookup, as long as the table does."""
    table = SymbolTable.from_symbols([b"the", b"deposits", b"re"])
    wanted: list[tuple[HostStrings, Options]] = [(one, {"table": table}) for one, _ in numbered(3, 200, rng)]
    before, taken = set(gpu.device.live), []
    tasks = gpu.tasks(wanted)
    for _ in range(3):
        gpu.device.launches.clear()
        gpu.device.allocations.clear()
        found = gpu.run(tasks)
        assert gpu.device.launches == ["row_lengths_look", *LAUNCHES[-3:]]
        assert gpu.waits == 1
        taken.append(len(gpu.device.allocations))
        gpu.check(wanted, found)
        del found
    assert taken[0] - 1 == taken[1] == taken[2]
    assert len(gpu.device.live - before) == 1
    gpu.run(gpu.tasks([(one, {"table": table, "level": "max"}) for one, _ in wanted]))
    assert len(gpu.device.live - before) == 2
    tasks.clear()
    del table, wanted
    gc.collect()
    assert gpu.device.live == before


def test_two_tables_that_are_equal(gpu: Batch, rng: np.random.Generator) -> None:
    """One of them may go while the other is in use."""
    symbols = [b"the", b"deposits"]
    first, second = SymbolTable.from_symbols(symbols), SymbolTable.from_symbols(symbols)
    ((strings, _),) = numbered(1, 300, rng)
    gpu.run(gpu.tasks([(strings, {"table": first})]))
    del first
    gc.collect()
    wanted: list[tuple[HostStrings, Options]] = [(strings, {"table": second})]
    gpu.check(wanted, gpu.run(gpu.tasks(wanted)))


@pytest.mark.slow
@pytest.mark.parametrize("own_stream", [False, True])
def test_out_of_memory(own_stream: bool, gpu: Batch, rng: np.random.Generator) -> None:
    """Whichever allocation fails, nothing stays behind and nothing else suffers."""
    gpu.device.order = "random"
    wanted = [one for one in frame(rng) if one[1].get("table") is None][:7]
    tasks, stream = gpu.tasks(wanted), gpu.device.stream() if own_stream else None

    def look(left: set[int]) -> None:
        assert len(left) <= 1, "the traceback keeps what has been made"

    failing_every_allocation(gpu.device, lambda: gpu.run(tasks, stream=stream), look)
    gpu.check(wanted, gpu.run(tasks, stream=stream))


@pytest.mark.slow
@pytest.mark.parametrize("own_stream", [False, True])
def test_given_up(own_stream: bool, gpu: Batch, rng: np.random.Generator) -> None:
    """By another's failure, at any wait: nothing stays behind."""
    from cudf_fsst.device.memory import Lane

    gpu.device.order = "random"
    wanted = [one for one in frame(rng) if one[1].get("table") is None]
    tasks, stream = gpu.tasks(wanted), gpu.device.stream() if own_stream else None
    found = gpu.run(tasks, stream=stream)
    before, waits = set(gpu.device.live), gpu.waits
    for until in range(waits):
        with Lane(stream) as lane:
            steps = gpu.cuda.steps([codec_of()], tasks, lane=lane)
            for _ in range(until + 1):
                next(steps)
                lane.synchronize()
            steps.close()
        del steps
        gc.collect()
        assert gpu.device.live == before
    gpu.check(wanted, found)


def with_null_chars(row: int) -> Callable[[HostStrings], HostStrings]:
    def change(strings: HostStrings) -> HostStrings:
        valid: npt.NDArray[np.uint8] = np.ones(strings.rows, np.uint8)
        valid[row] = 0
        return dataclasses.replace(strings, validity=np.packbits(valid, bitorder="little"), null_count=1)

    return change


def test_characters_under_nulls(gpu: Batch, rng: np.random.Generator) -> None:
    """In any of the columns, any segment; and no more is kept of the others."""
    rows = [row for row in text(rng, 2 * SEGMENT) if row]
    short, long = column(list(rows[:50])), column(list(rows))
    whole: list[tuple[HostStrings, Options]] = [(short, {}), (long, {}), (short, {"level": "max"})]
    before = set(gpu.device.live)
    for number, row in ((0, 49), (1, len(rows) - 1), (2, 0)):
        strings, options = whole[number]
        damaged = list(whole)
        damaged[number] = with_null_chars(row)(strings), options
        with pytest.raises(CharactersUnderNulls, match=f"^{len(rows[row])} characters under nulls"):
            gpu.run(gpu.tasks(damaged))
        gc.collect()
        assert gpu.device.live == before


def test_unknown_options(gpu: Batch, rng: np.random.Generator) -> None:
    ((strings, _),) = numbered(1, 10, rng)
    for options, message in (
        ({"level": "min"}, "level must be one of"),
        ({"tile_size": 200}, "tile_size must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            gpu.run(gpu.tasks([(strings, {}), (strings, options)]))
    assert gpu.device.launches == []


def test_who_takes_all_the_room(gpu: Batch) -> None:
    """Columns of several segments do, in calls that are not so large that an eighth of them has room for others."""

    def takes_all(*limits: int | None) -> bool:
        strings = [DeviceStrings(5, 0, 0, 4, chars_limit=limit) for limit in limits]
        return bool(gpu.task.takes_all([gpu.task.TextTask(one) for one in strings]))

    assert not takes_all()
    assert not takes_all(SEGMENT, 0, 5)
    assert takes_all(5, SEGMENT + 1)
    assert takes_all(5, None)
    assert not takes_all(5, 10 * SEGMENT, 640 << 20)
    assert not gpu.task.takes_all([gpu.task.TextTask(DeviceStrings(0, 0, 0, 4))])
