"""bitpack on the host: round trips, the definition, damage."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import reference_bitpack
from bitpack_cases import BLOCK, cases
from cudf_fsst.codecs.bitpack import cpu, launch
from cudf_fsst.codecs.part import Packed

CASES = [pytest.param(size, name, id=f"{8 * size}: {name}") for size in launch.ITEMSIZES for name in cases(size)]


def decompressed(packed: Packed) -> bytes:
    out = np.full(packed.values_nbytes, 0xA5, np.uint8)
    cpu.decode(packed, out)
    return out.tobytes()


def round_trip(values: npt.NDArray[Any], signed: bool) -> Packed:
    packed = cpu.encode(values, signed=signed, divide=1)
    assert (packed.meta.size, packed.codes.size) == (packed.meta_nbytes, packed.codes_nbytes)
    assert cpu.measure(values, signed=signed, divide=1) == packed.nbytes
    cpu.check(packed)
    assert decompressed(packed) == values.tobytes()
    return packed


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("itemsize", "name"), CASES)
def test_cases(itemsize: int, name: str) -> None:
    values, signed = cases(itemsize)[name]
    packed = round_trip(values, signed)
    meta, codes = packed.meta.tobytes(), packed.codes.tobytes()
    assert reference_bitpack.decode(packed.rows, itemsize, packed.parameters, meta, codes) == values.tobytes()
    # The definition, by other means.
    numbers = values.view(f"{'i' if signed else 'u'}{itemsize}").tolist()
    blocks = [numbers[start : start + BLOCK] for start in range(0, len(numbers), BLOCK)]
    divisor = divisor_of(blocks, itemsize)
    starts = packed.meta[: 4 * (len(blocks) + 1)].view(np.uint32)
    widths = np.diff(starts & 0x3FFFFFFF).tolist()
    for width, start, block in zip(widths, starts.tolist(), blocks, strict=False):
        whole, divided = width_of(block, itemsize), divided_width_of(block, itemsize, divisor)
        assert width == min(whole, divided)
        assert start >> 30 & 1 == (divided < whole)
    low, high = packed.parameters[2:]
    assert low + 2**32 * high == (divisor if (starts & 2**30).any() else 0)
    # And where no divisor is looked for.
    plain = cpu.encode(values, signed=signed)
    assert plain.parameters[2:] == (0, 0)
    assert cpu.measure(values, signed=signed) == plain.nbytes
    starts = plain.meta[: 4 * (len(blocks) + 1)].view(np.uint32)
    assert np.diff(starts & 0x7FFFFFFF).tolist() == [width_of(block, itemsize) for block in blocks]
    assert decompressed(plain) == values.tobytes()


def width_of(block: list[int], itemsize: int) -> int:
    """Bits that a block needs, plain or as differences."""
    plain = (max(block) - min(block)).bit_length()
    half = 2 ** (8 * itemsize - 1)
    steps = [(b - a + half) % (2 * half) - half for a, b in pairwise(block)]
    return min(plain, (max(steps) - min(steps)).bit_length() if len(block) == BLOCK else plain)


def divided_width_of(block: list[int], itemsize: int, divisor: int) -> int:
    """The same of its quotients (docs/format.md, section 18); 99 where it cannot be divided."""
    size, power = 2 ** (8 * itemsize), divisor & -divisor
    if divisor == 1 or any((value - block[0]) % power for value in block):
        return 99
    products = [(value - block[0]) * pow(divisor // power, -1, size) % size for value in block]
    signed = [product - size if product >= size // 2 else product for product in products]
    return width_of([product // power for product in signed], itemsize)


def divisor_of(blocks: list[list[int]], itemsize: int) -> int:
    """The divisor of a piece, from the sample (docs/format.md, section 18)."""
    step = max(1, len(blocks) // 16)

    def away(value: int, start: int) -> int:
        return abs(value - start) if itemsize < 8 else min((value - start) % 2**64, (start - value) % 2**64)

    found = [math.gcd(*(away(value, block[0]) for value in block)) for block in blocks[: 16 * step : step]]
    varied = [one for one in found if one]
    best, most = 1, 0
    for one in (math.gcd(*found), *found):
        fits = sum(one > 1 and other % one == 0 for other in varied)
        if 4 * fits >= len(varied) and fits * (one.bit_length() - 1) > most:
            best, most = one, fits * (one.bit_length() - 1)
    return best


@given(
    arrays.arrays(
        st.sampled_from(["u1", "u2", "u4", "u8"]),
        st.integers(1, 40) | st.integers(BLOCK - 2, BLOCK + 2),
        fill=st.just(0),
    ),
    st.booleans(),
)
def test_round_trip(values: npt.NDArray[Any], signed: bool) -> None:
    packed = round_trip(values, signed)
    for dtype in {1: "i1", 2: "f2", 4: "f4", 8: "M8[us]"}[values.itemsize], f"i{values.itemsize}":
        assert round_trip(values.view(dtype), signed).codes.tobytes() == packed.codes.tobytes()


@given(st.integers(1, 4000), st.integers(1, 64), st.integers(0, 2**64 - 1), st.booleans(), st.integers(0, 2**32 - 1))
def test_round_trip_of_widths(rows: int, width: int, base: int, delta: bool, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 2**width - 1, rows, np.uint64, endpoint=True)
    values = np.cumsum(codes, dtype=np.uint64) if delta else codes
    packed = round_trip(values + np.uint64(base), bool(base % 2))
    assert packed.codes_nbytes <= 128 * -(-rows // BLOCK) * 64


def test_sizes() -> None:
    """What must stand in front costs little."""
    rng = np.random.default_rng(1)
    packed = round_trip(rng.integers(0, 256, 100 * BLOCK), True)
    assert packed.codes_nbytes == 100 * BLOCK
    assert packed.meta_nbytes <= 0.02 * packed.codes_nbytes
    assert round_trip(np.arange(100 * BLOCK), True).codes_nbytes == 0
    assert round_trip(rng.integers(0, 2, 100 * BLOCK).astype(bool), False).nbytes < 100 * BLOCK / 7.5


def test_read_only_and_unaligned() -> None:
    values = np.arange(3000, dtype=np.int64) ** 2
    values.flags.writeable = False
    expected = round_trip(values, True)
    room = np.zeros(values.nbytes + 1, np.uint8)
    room[1:] = values.view(np.uint8)
    shifted = round_trip(room[1:].view(np.int64), True)
    assert shifted.codes.tobytes() == expected.codes.tobytes()


@pytest.mark.parametrize(
    "values", [np.zeros(0, np.int32), np.zeros((2, 2), np.int32), np.zeros(3, "S3"), np.zeros(2, "c16")]
)
def test_wrong_values(values: npt.NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="no values to compress"):
        cpu.encode(values)


def test_strided_values() -> None:
    with pytest.raises(ValueError, match="not contiguous"):
        cpu.encode(np.arange(100)[::2])


def changed(packed: Packed, name: str, at: int, value: int) -> Packed:
    array = getattr(packed, name).copy()
    array[at] = value
    return dataclasses.replace(packed, **{name: array})


def test_check_says_what_is_wrong() -> None:
    rng = np.random.default_rng(2)
    plain = cpu.encode(rng.integers(0, 100, 2 * BLOCK + 9).astype(np.int32))
    delta = cpu.encode(np.cumsum(rng.integers(0, 100, 3 * BLOCK)).astype(np.int32))
    divided = cpu.encode(86400 * rng.integers(0, 100, 2 * BLOCK), divide=1)
    assert plain.parameters == (0, 0, 0, 0)
    assert delta.parameters == (0, 1, 0, 0)
    assert divided.parameters == (0, 0, 86400, 0)
    replace = dataclasses.replace
    wrong = [
        (replace(plain, codec="gfc"), "codec 'gfc'"),
        (replace(plain, rows=0), "0 values"),
        (replace(plain, itemsize=3), "of 3 bytes"),
        (replace(plain, parameters=(2, 0, 0, 0)), "parameters"),
        (replace(plain, parameters=(0, 0)), "parameters"),
        (replace(plain, parameters=(0, 1, 0, 0)), "meta has"),
        (replace(plain, parameters=(0, 0, 1, 0)), "1 as a divisor of values of 4 bytes"),
        (replace(plain, parameters=(0, 0, 0, 1)), "4294967296 as a divisor of values of 4 bytes"),
        (replace(plain, parameters=(0, 0, 7, 0)), "do not fit the blocks' kinds"),
        (replace(divided, parameters=(0, 0, 0, 0)), "do not fit the blocks' kinds"),
        (changed(divided, "meta", 11, 0x40), "starts go from"),
        (changed(plain, "meta", 7, 0x40), "do not fit the blocks' kinds"),
        (replace(plain, rows=4 * BLOCK), "meta has"),
        (replace(plain, meta=plain.meta[:-1]), "meta has"),
        (replace(plain, codes=plain.codes[:-1]), "codes has"),
        (replace(plain, codes_nbytes=plain.codes_nbytes - 1), "codes of"),
        (replace(plain, codes_nbytes=128 * 99), "codes of"),
        (changed(plain, "meta", 0, 1), "starts go from"),
        (changed(plain, "meta", 12, 1), "starts go from"),
        (changed(plain, "meta", 15, 0x80), "starts go from"),
        (changed(plain, "meta", 4, 250), "bits for the values of block 0"),
        (changed(plain, "meta", 4, 22), "bits for the values of block 1"),
        (changed(plain, "meta", 7, 0x80), "do not fit the blocks' kinds"),
        (changed(plain, "meta", 30, 1), "bytes 28 to 32 of meta"),
        (changed(delta, "meta", 47, 1), "bytes 44 to 48 of meta"),
    ]
    for packed, message in wrong:
        with pytest.raises(ValueError, match=message):
            cpu.check(packed)
    for packed in (plain, delta, divided):
        cpu.check(packed)
        with pytest.raises(ValueError, match="the values need"):
            cpu.decode(packed, np.empty(packed.values_nbytes - 1, np.uint8))


@given(st.data())
def test_damage(data: st.DataObject) -> None:
    """Any bytes: a ValueError or some values, and nothing outside the buffers (the guards around them hold)."""
    itemsize = data.draw(st.sampled_from(launch.ITEMSIZES))
    values, signed = cases(itemsize)[data.draw(st.sampled_from(["kinds of blocks", "steps of 3", "multiples of 10"]))]
    packed = cpu.encode(values, signed=signed, divide=1)
    guarded = {}
    for name in ("meta", "codes"):
        array = getattr(packed, name)
        guarded[name] = np.full(array.size + 256, 0xA5, np.uint8)
        guarded[name][128:-128] = array
    for _ in range(data.draw(st.integers(1, 8))):
        body = guarded[data.draw(st.sampled_from(["meta", "meta", "codes"]))][128:-128]
        body[data.draw(st.integers(0, min(body.size, 100) - 1))] = data.draw(st.integers(0, 255))
    damaged = dataclasses.replace(packed, **{name: room[128:-128] for name, room in guarded.items()})
    try:
        cpu.check(damaged)
        fine = True
    except ValueError:
        fine = False
    out = np.full(packed.values_nbytes + 256, 0xA5, np.uint8)
    try:
        cpu.decode(damaged, out[128:-128])
    except ValueError:
        assert not fine
    if fine:
        stored = (damaged.meta.tobytes(), damaged.codes.tobytes())
        expected = reference_bitpack.decode(packed.rows, itemsize, packed.parameters, *stored)
        assert out[128:-128].tobytes() == expected
    for room in (*guarded.values(), out):
        assert (room[:128] == 0xA5).all()
        assert (room[-128:] == 0xA5).all()
