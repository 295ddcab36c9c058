"""Distinct strings and their numbers, strings of numbers: emulated under the sanitizers, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cudf_fsst.codecs.dict import launch, plan
from dict_gpu import Gpu, expected, gpu, some_rows
from emulation.conftest import emulator
from emulation.emulator import SCHEDULES

__all__ = ["emulator", "gpu"]

pytestmark = pytest.mark.usefixtures("automatic")


def check(found: Any, rows: Sequence[bytes | None]) -> None:
    firsts, codes = expected(rows)
    assert found is not None
    assert found[0] == firsts
    assert [code if row is not None else None for code, row in zip(found[1], rows, strict=True)] == codes


#: Values of lengths around those of words, of what is kept in shared memory, and of what a thread block does.
EDGES = [
    b"x" * n + t for n in (0, 1, 7, 8, 16, 22, 23, 32, 33, 53, 54, 55, 128, 511, 512, 5000) for t in (b"", b"a", b"\0")
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("room", [0, 1 << 30])
def test_numbers(schedule: str, room: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """By first appearance, whatever the order in which rows are looked at."""
    gpu.emulator.schedule = schedule
    for wide, shift, bit, nulls in ((False, 0, 0, 0.0), (True, 3, 5, 0.2), (False, 13, 0, 0.0)):
        rows = some_rows(rng, 900, EDGES, nulls)
        check(gpu.number(rows, wide=wide, shift=shift, bit=bit, room=room), rows)


@pytest.fixture
def large(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of all columns are those of long ones: with the bytes of values."""
    monkeypatch.setattr(
        gpu.find, "_stride", lambda scope, slots: launch.SLOT_WORDS if slots > launch.FIND_THREADS else 1
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("room", [0, 1 << 30])
def test_numbers_of_long_columns(room: int, schedule: str, gpu: Gpu, large: None, rng: np.random.Generator) -> None:
    """Words of a key that would be 0 are not one."""
    gpu.emulator.schedule = schedule
    zero = plan.HASH_MULTIPLIERS[0].to_bytes(8, "little")
    values = [*EDGES, zero, zero + b"x" * 15, b"x" * 24 + zero, b"y" * 16 + zero[:7], zero * 5]
    for wide, shift, bit, nulls in ((False, 0, 0, 0.0), (True, 3, 5, 0.2), (False, 13, 0, 0.0)):
        rows = some_rows(rng, 900, values, nulls)
        check(gpu.number(rows, guess=500, wide=wide, shift=shift, bit=bit, room=room), rows)
        assert {"dict_find", "dict_number"} <= set(gpu.device.launches)


@pytest.mark.parametrize("room", [0, 1 << 30])
def test_hashes_that_are_equal(room: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values of a length have the same hash: rows are compared wherever they are looked up."""
    monkeypatch.setitem(launch.FIND_DEFINES, "HASH_NEXT", 0)
    values = [*EDGES, *(b"%03d" % i for i in range(60))]
    for wide in (False, True):
        monkeypatch.setattr(gpu.find, "_stride", lambda scope, slots, wide=wide: launch.SLOT_WORDS if wide else 1)
        rows = some_rows(rng, 700, values, 0.1)
        check(gpu.number(rows, guess=500, room=room), rows)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("guess", [1, 500])
def test_tables_that_are_too_small(schedule: str, guess: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Are followed by larger ones; more values than the limit are none."""
    gpu.emulator.schedule = schedule
    rows = some_rows(rng, 700, [b"%d" % (i * i) for i in range(300)])
    check(gpu.number(rows, guess=guess), rows)
    different = len(set(rows))
    check(gpu.number(rows, guess=guess, limit=different), rows)
    assert gpu.number(rows, guess=guess, limit=different - 1) is None


def test_many_values(gpu: Gpu, rng: np.random.Generator) -> None:
    """Numbers of two bytes, and firsts in several chunks of rows."""
    rows = some_rows(rng, 3 * launch.RANK_CHUNK, [b"value %d" % i for i in range(2000)])
    check(gpu.number(rows, guess=1000), rows)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("longest", [3, 8, 20, 40])
def test_few_values(longest: int, schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of as many words as are kept in shared memory, or more; some values come late, so they are taken in later."""
    gpu.emulator.schedule = schedule
    values = [bytes([65 + n]) * (n % longest) + t for n in range(longest + 1) for t in (b"", b"\0")]
    early = launch.FIND_THREADS * launch.FEW_ROWS * 3
    late = launch.FIND_THREADS * launch.FEW_ROWS * launch.FEW_TURNS
    rows = some_rows(rng, early, values[:3]) + some_rows(rng, late, values, 0.05 if longest == 8 else 0)
    check(gpu.number(rows, shift=5, bit=3, wide=longest == 20, room=0 if longest == 3 else 1 << 30), rows)


def test_no_values(gpu: Gpu) -> None:
    """Of nulls alone, and of rows without characters."""
    rows: list[bytes | None] = [None] * 40
    found = gpu.number(rows)
    assert found is not None
    assert found[0] == []
    check(gpu.number([b""] * 40), [b""] * 40)


def test_characters_under_nulls(gpu: Gpu) -> None:
    from cudf_fsst.buffers import CharactersUnderNulls

    rows = [b"a", b"b", b"c"] * 30
    strings = gpu.upload(rows)
    mask = gpu.emulator.buffer(np.full(12, 0xFD, np.uint8))
    strings.validity, strings.null_count = mask.address, 12
    with gpu.memory.Lane() as lane, pytest.raises(CharactersUnderNulls):
        gpu.waits.run(lane, gpu.find.number([gpu.find.ScopeRange(strings, 0, 90, 90, 9, 3)], lane, scratch_nbytes=90))


def code_array(rng: np.random.Generator, count: int, values: int, itemsize: int) -> Any:
    return rng.integers(0, values, count).astype(f"u{itemsize}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_strings(itemsize: int, schedule: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of short values and of long ones, of any number of rows, wherever they begin."""
    gpu.emulator.schedule = schedule
    short = [b"", b"a", b"REG AIR", b"TRUCK", b"0123456789abcdef", b"x" * 64]
    for values in (short, [*short, b"y" * 65, b"z" * (2 * launch.CHARS_STRETCH + 1)]):
        for rows in (1, 7, 8, launch.READ_TILE + 3):
            codes = code_array(rng, rows if values is short else min(rows, 40), len(values), itemsize)
            for valid, wide, shift in ((None, False, 0), (rng.random(codes.size) < 0.8, True, 5)):
                found = gpu.write(codes, values, valid=valid, wide=wide, shift=shift)
                there = np.ones(codes.size, bool) if valid is None else valid
                assert found == [values[c] if ok else b"" for c, ok in zip(codes.tolist(), there, strict=True)]


def test_strings_of_many_values(gpu: Gpu, rng: np.random.Generator) -> None:
    """Whose image, and lengths, a thread block does not keep."""
    values = [b"Clerk#%09d" % i for i in range(launch.READ_KEPT + 200)]
    codes = code_array(rng, launch.READ_TILE + 100, len(values), 2)
    assert gpu.write(codes, values) == [values[c] for c in codes.tolist()]
