"""Automata of rows on an emulated GPU, against what they say of plain bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst import automata
from cudf_fsst.automata import UNDECIDED, RowAutomaton
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, launch
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment, Segments
from emulation.conftest import emulator
from emulation.device import GPUS
from fsst_gpu import SEGMENT, Gpu, column, damaged_in_many_places, forked, gpu, text
from handmade import handmade_segment
from test_match_emulated import mixed

__all__ = ["emulator", "forked", "gpu"]

Rows = Sequence[bytes | None]


def machines() -> list[RowAutomaton]:
    patterns = ("f.*l", "^[a-e]", "s$", r"\bfinal\b", "", "[à-ü]", "(ab)+c?$", "[aeiou]{3}")
    made = [automata.compile_pattern(one, 0, "contains", automata.PYTHON) for one in patterns]
    made += [automata.compile_pattern("final|quick", 2, "contains", automata.CUDF)]
    made += [automata.compile_literal("FINAL d", automata.CUDF)]
    made += [
        automata.between(b"b", b"final"),
        automata.ends_with(
            (
                b"s",
                b"ab",
                b"",
            )
        ),
    ]
    return [one for one in made if one is not None]


def answers(gpu: Gpu, segments: Sequence[Segment], machine: RowAutomaton) -> npt.NDArray[np.uint8]:
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    with Lane(None) as lane:
        answered = cuda_match.answer(segments, machine, lane=lane)
        assert answered is not None
        found, sure = answered
        seen = cuda_match.undecided(found.ptr, found.size, lane=lane)
        lane.synchronize()
    made = np.frombuffer(gpu.emulator.read(found.ptr, found.size), np.uint8)
    assert seen == (made == UNDECIDED).any()
    assert not (sure and seen)
    return made


def check(gpu: Gpu, rows: Rows, segments: Sequence[Segment], machine: RowAutomaton) -> None:
    found = answers(gpu, segments, machine)
    wanted = [UNDECIDED if len(row or b"") > launch.MOST_ROW else machine.verdict(row or b"") for row in rows]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_rows(tile_size: int, level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Several segments and tables, nulls, raw tiles, rows over tiles, rows of nothing, a row that is too long."""
    rows = mixed(rng, 3 * SEGMENT, nulls=True)
    rows[40] = b" ".join(text(rng, 900))
    rows[60] = b" ".join(text(rng, 9000))[: launch.MOST_ROW + 1]
    rows += [b""] * 700 + [b"final"] + [b""]
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size, level=level)))
    assert len(there) > 2
    for machine in machines():
        check(gpu, rows, there, machine)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("gpu", GPUS, indirect=True)
@pytest.mark.parametrize("rows", [[b""], [b"", b""], [b"a"], [b"final deposits"] * 300, [b"ab"] * 5000, [None] * 300])
def test_few_rows(rows: list[bytes | None], gpu: Gpu) -> None:
    """On small GPUs large automata do not fit shared memory."""
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    large = automata.ends_with(tuple([b"final deposits"[:i] + b"ab" * 60 for i in range(3)]))
    for machine in (*machines()[:3], large):
        check(gpu, rows, there, machine)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("symbols", [[], [b"a"], [b"ab", b"b", b"final de", b"fin", b"al", b"\x80\x81", b"s"]])
def test_any_parse(symbols: list[bytes], tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Not only the parse that our encoder writes; escapes, also where rows begin; tiles of any kind."""
    table = SymbolTable.from_symbols(symbols)
    rows = mixed(rng, 12_000, nulls=True)
    segments = [
        handmade_segment(rows[begin : begin + 150], table, tile_size=tile_size, choose=rng.choice, spare=begin % 3)
        for begin in range(0, len(rows), 150)
    ]
    there = Segments(gpu.cuda.to_device(segments))
    for machine in machines():
        check(gpu, rows, there, machine)


def test_kept_with_a_column(gpu: Gpu, rng: np.random.Generator) -> None:
    rows = text(rng, SEGMENT)
    there = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)))))
    for machine in [*machines(), *machines()]:
        for _ in range(2):
            check(gpu, rows, there, machine)
    assert there.reading.short
    launches = len(gpu.device.launches)
    check(gpu, rows, there, machines()[0])
    assert gpu.device.launches[launches:].count("answers_have") == 1  # the test's own
    assert answers(gpu, [], machines()[0]).size == 0


def test_rows_of_ascii(gpu: Gpu, rng: np.random.Generator) -> None:
    """Once a column is known to have no others, no automaton leaves one undecided, and nothing is waited for."""
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    machine = automata.compile_pattern(r"\bfinal\b", 0, "contains", automata.CUDF)
    assert machine is not None
    rows = text(rng, SEGMENT)
    for some, plain in ((rows, True), ([*rows, "final é".encode()], False)):
        there = Segments(gpu.cuda.to_device(cpu.compress(column(list(some)))))
        for _ in range(2):
            check(gpu, some, there, machine)
        waits = gpu.device.waits
        with Lane(None) as lane:
            answered = cuda_match.answer(there, machine, lane=lane)
            assert answered is not None
            assert answered[1] == plain
            assert gpu.device.waits == waits


def test_rounds(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is short, segments are answered one after another, or not at all."""
    from cudf_fsst.codecs import scratch
    from cudf_fsst.codecs.text import cuda_match

    rows = mixed(rng, 5 * SEGMENT)
    machine = machines()[0]
    for room, rounds in ((1 << 20, 1), (80_000, 3)):
        monkeypatch.setattr(scratch, "SCRATCH", room)
        there = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
        check(gpu, rows, there, machine)
        (prepared,) = there.reading.running.values()
        assert (len(prepared.rounds) == 1) == (rounds == 1)
    monkeypatch.setattr(scratch, "SCRATCH", 1000)
    monkeypatch.setattr(scratch, "SCRATCH_PART", 1 << 30)
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    from cudf_fsst.device.memory import Lane

    with Lane(None) as lane:
        assert cuda_match.answer(there, machine, lane=lane) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_damaged(seed: int, gpu: Gpu) -> None:
    """Whatever the bytes, nothing outside is read or written (the sanitizer sees it), and neighbours are right."""
    rng = np.random.default_rng(seed)
    rows = mixed(rng, 9000, nulls=True)
    if seed % 2:
        rows = [row and row[:40] for row in rows]
    (whole,) = cpu.compress(column(rows), tile_size=int(rng.choice(TILE_SIZES)))
    (other,) = cpu.compress(column(list(text(rng, 3000))), tile_size=int(rng.choice(TILE_SIZES)))
    for _ in range(3):
        damaged = damaged_in_many_places(whole, rng, spared=0.5)
        segments = Segments(gpu.cuda.to_device([other, damaged, other]))
        for machine in machines()[::2]:
            found, alone = answers(gpu, segments, machine), answers(gpu, segments[:1], machine)
            np.testing.assert_array_equal(found[: other.rows], alone)
            np.testing.assert_array_equal(found[other.rows + damaged.rows :], alone)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["codes", "block_starts", "row_starts", "row_minima", "row_words", "tile_lengths"])
def test_sections_of_one_value(part: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """The largest, the smallest, and noise."""
    (segment,) = cpu.compress(column(mixed(rng, 9000)))
    for value in (0, 127, 255, None):
        damaged = dataclasses.replace(segment, meta=segment.meta.copy(), codes=segment.codes.copy())
        target = (damaged.codes if part == "codes" else damaged.section(part)).view(np.uint8)
        target[:] = rng.integers(0, 256, target.size) if value is None else value
        there = gpu.cuda.to_device([damaged, segment])
        for machine in machines()[::2]:
            answers(gpu, there, machine)
