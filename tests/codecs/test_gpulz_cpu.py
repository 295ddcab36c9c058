"""Codec gpulz on the host, against the plain-Python reader of the format."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import gpulz_cases
import reference_gpulz
from cudf_fsst.codecs.gpulz import cpu, launch
from cudf_fsst.codecs.part import Packed

CASES = list(gpulz_cases.columns(np.random.default_rng(0)))
by_options = pytest.mark.parametrize("options", gpulz_cases.OPTIONS, ids=str)


def roundtrip(values: npt.NDArray[Any], **options: int) -> Packed:
    """Compress and read back, by our decoder and the reference; the result."""
    packed = cpu.encode(values, **options)
    assert cpu.measure(values, **options) == packed.nbytes
    assert (packed.meta.size, packed.codes.size) == (packed.meta_nbytes, packed.codes_nbytes)
    cpu.check(packed)
    out = np.full(values.nbytes, 0xEE, np.uint8)
    cpu.decode(packed, out)
    assert out.tobytes() == values.tobytes()
    meta, codes = packed.meta.tobytes(), packed.codes.tobytes()
    assert reference_gpulz.decode(meta, codes, values.nbytes, *packed.parameters) == values.tobytes()
    return packed


@by_options
@pytest.mark.parametrize("case", CASES)
def test_roundtrip(case: str, options: dict[str, int], rng: np.random.Generator) -> None:
    values = gpulz_cases.columns(rng)[case]
    packed = roundtrip(values, **options)
    chunk = packed.parameters[1]
    assert packed.nbytes <= values.nbytes + 3 + launch.GpulzLayout(values.nbytes, chunk).meta_nbytes


def tokens_of(packed: Packed) -> list[tuple[int, int]]:
    """(length, offset) of the tokens of a segment of one chunk that is not raw."""
    count = int(packed.meta[16:20].view("<u4")[0])
    tokens, matches = count % 65536, count // 65536
    lengths = packed.parameters[0] * (tokens - matches)
    flags = np.unpackbits(packed.codes[lengths + 2 * matches :], bitorder="little")[:tokens]
    found = iter(zip(packed.codes[lengths:].tolist(), packed.codes[lengths + matches :].tolist(), strict=False))
    return [next(found) if flag else (0, 0) for flag in flags]


@pytest.mark.parametrize("symbol", launch.SYMBOLS)
@pytest.mark.parametrize("window", launch.WINDOWS)
def test_the_rule(symbol: int, window: int, rng: np.random.Generator) -> None:
    count = 1600 // symbol
    symbols = rng.integers(0, 3, count)
    symbols[count // 2 :] = symbols[: count - count // 2]
    values = symbols.astype(f"<u{symbol}")
    packed = cpu.encode(values, symbol=symbol, window=window)
    assert tokens_of(packed) == reference_gpulz.parse(values.tolist(), symbol, window)


def test_longest_then_nearest() -> None:
    values = np.array([1, 2, 9, 1, 2, 8, 1, 2, 7, 1, 7, 1, 2, 9, 1, 3], np.int32)
    packed = cpu.encode(values, symbol=4)
    assert tokens_of(packed) == reference_gpulz.parse(values.tolist(), 4, 32)


def test_bytes_where_symbols_are_not_worth_it(rng: np.random.Generator) -> None:
    values = rng.integers(0, 4, 3000)  # of eight bytes, the upper ones zero
    narrow = (values + (rng.integers(0, 200, 3000) << 32)).astype(np.int64)
    assert roundtrip(np.zeros(3000, np.int64)).parameters == (8, 2048)
    assert roundtrip(narrow).parameters == (1, 2048)
    assert roundtrip(narrow, symbol=8).parameters == (8, 2048)
    assert roundtrip(values.astype(np.uint8)).parameters == (1, 2048)


def test_levels_are_windows(rng: np.random.Generator) -> None:
    values = np.tile(rng.integers(0, 2**31, 100), 50).astype(np.int32)
    sizes = []
    for level, window in enumerate(launch.WINDOWS, 1):
        packed = cpu.encode(values, symbol=4, level=level)
        assert packed.codes.tobytes() == cpu.encode(values, symbol=4, window=window).codes.tobytes()
        sizes.append(packed.nbytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[3] < sizes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"symbol": 3}, r"symbol must be one of \(1, 2, 4, 8\), not 3"),
        ({"chunk": 1024}, "chunk must be one of .*, not 1024"),
        ({"window": 256}, "window must be one of .*, not 256"),
        ({"level": 0}, "level must be 1 to 4, not 0"),
        ({"level": 1, "window": 32}, "give one of them"),
    ],
)
def test_wrong_options(options: dict[str, int], message: str) -> None:
    for call in (cpu.encode, cpu.measure):
        with pytest.raises(ValueError, match=message):
            call(np.zeros(9), **options)


def test_wrong_values() -> None:
    for values in (np.zeros(0), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="one dimension of at least one value"):
            cpu.encode(values)
    packed = cpu.encode(np.zeros(9))
    with pytest.raises(ValueError, match="72 bytes, out has 71"):
        cpu.decode(packed, np.zeros(71, np.uint8))


@given(
    values=arrays.arrays(st.sampled_from(["<i1", "<u2", "<i4", "<f8"]), st.integers(1, 3000)),
    options=st.sampled_from(gpulz_cases.OPTIONS),
)
def test_any_values(values: npt.NDArray[Any], options: dict[str, int]) -> None:
    roundtrip(values, **options)


@given(data=st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 60)), min_size=1, max_size=60))
def test_repetitions(data: list[tuple[bytes, int]]) -> None:
    whole = b"".join(piece * times for piece, times in data)
    for options in gpulz_cases.OPTIONS[1:]:
        roundtrip(np.frombuffer(whole, np.uint8), **options)


# ------------------------------------------------------------------------------------------------------ damaged input


def refused(packed: Packed, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cpu.check(packed)
    with pytest.raises(ValueError, match=message):
        cpu.decode(packed, np.empty(packed.values_nbytes, np.uint8))


def test_wrong_sizes(rng: np.random.Generator) -> None:
    packed = cpu.encode(rng.integers(0, 9, 3000), symbol=8)
    for change, message in (
        ({"parameters": (8,)}, "2 parameters"),
        ({"parameters": (3, 2048)}, "symbols of 3 bytes"),
        ({"parameters": (8, 100)}, "in chunks of 100"),
        ({"rows": 2000}, "meta has"),
        ({"meta": packed.meta[:-1]}, "meta has"),
        ({"codes": packed.codes[:-1]}, "codes has"),
        ({"codes_nbytes": 10**9}, "cannot be more"),
        ({"rows": 0}, "0 rows"),
    ):
        refused(dataclasses.replace(packed, **change), message)


@by_options
def test_damage(options: dict[str, int], rng: np.random.Generator) -> None:
    """Our decoder refuses what the reference refuses, and else both read the same."""
    values = np.concatenate([np.sort(rng.integers(0, 99, 2100)), rng.integers(0, 2**40, 301)])
    packed = cpu.encode(values, **options)
    refusals = 0
    for round_ in range(60):
        meta, codes = packed.meta.copy(), packed.codes.copy()
        target = (meta, codes)[round_ % 2]
        hit = rng.integers(0, target.size, 1 + round_ // 8)
        target[hit] ^= rng.integers(1, 256, hit.size).astype(np.uint8)
        damaged = dataclasses.replace(packed, meta=meta, codes=codes)
        out = np.zeros(values.nbytes, np.uint8)
        try:
            expected = reference_gpulz.decode(meta.tobytes(), codes.tobytes(), values.nbytes, *packed.parameters)
        except ValueError:
            refused(damaged, "damaged gpulz")
            refusals += 1
        else:
            cpu.check(damaged)
            cpu.decode(damaged, out)
            assert out.tobytes() == expected
    assert refusals >= 30
