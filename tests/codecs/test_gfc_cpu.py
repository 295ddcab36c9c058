"""The codec gfc on the CPU: round trips, sizes, damage."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_gfc
from cudf_fsst.codecs.gfc import cpu, launch
from cudf_fsst.codecs.part import Packed
from gfc_cases import CASES, CHUNK, DIMS, cases


def decompressed(packed: Packed) -> npt.NDArray[np.uint8]:
    out = np.full(packed.values_nbytes, 0xA5, np.uint8)
    cpu.decode(packed, out)
    return out


def checked(values: npt.NDArray[Any], **options: int) -> Packed:
    """Compressed, and read again by all readers."""
    packed = cpu.encode(values, **options)
    assert cpu.measure(values, **options) == packed.nbytes == packed.meta.size + packed.codes.size
    cpu.check(packed)
    np.testing.assert_array_equal(decompressed(packed), values.view(np.uint8))
    buffers = packed.meta.tobytes(), packed.codes.tobytes()
    reference = reference_gfc.values(packed.rows, packed.itemsize, packed.parameters, *buffers)
    assert reference == values.view(f"<u{values.itemsize}").tolist()
    return packed


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str) -> None:
    values = cases()[case]
    for dim in DIMS:
        checked(values, dim=dim, chunk=CHUNK)
    checked(values)


@given(
    data=st.lists(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 300), st.integers(2**63, 2**63 + 9)), min_size=1),
    copies=st.integers(1, 5),
    dtype=st.sampled_from(["<u8", "<u4", "<f8", "<f4"]),
    dim=st.integers(1, 32),
    chunk=st.sampled_from([0, 32, 64, 96, 65536]),
)
def test_any_values(data: list[int], copies: int, dtype: str, dim: int, chunk: int) -> None:
    values = np.array(data * copies, np.uint64).astype(f"<u{dtype[2]}").view(dtype)
    checked(values, dim=dim, chunk=chunk)


def test_bytes_of_a_subchunk() -> None:
    """Docs/format.md, section 12, by hand."""
    values = np.array([0x1234, 0x1234 - 1, 2**56, 0, 2**64 - 1] + [0] * 27, np.uint64)
    packed = cpu.encode(values, chunk=32)
    assert packed.parameters == (1, 32)
    assert packed.meta.view("<u8").tolist() == [0, packed.codes_nbytes]
    # 5 (for 6) leading zero bytes twice; none; all; one byte and a sign; all.
    expected = bytes([0x55, 0x70, 0x7E, *[0x77] * 13]) + bytes.fromhex("341200 331200 0000000000000001 01")
    assert packed.codes.tobytes() == expected


def test_best_and_worst_case(rng: np.random.Generator) -> None:
    zeros = cpu.encode(np.zeros(65536), chunk=65536)
    assert zeros.codes_nbytes * 16 == zeros.values_nbytes
    noise = rng.integers(0, 2**64, 65536, dtype=np.uint64)
    assert cpu.measure(noise) < 1.065 * noise.nbytes


def test_dimensions(rng: np.random.Generator) -> None:
    """Of three interleaved series each is predicted by itself."""
    values = np.column_stack([np.cumsum(rng.integers(0, 9, 5000)) + 10**k for k in (3, 9, 15)]).ravel()
    measured = {dim: cpu.measure(values, dim=dim) for dim in launch.DIMS}
    assert min(measured, key=lambda dim: measured[dim]) == 3
    assert measured[3] * 1.5 < measured[1]


def test_chunk_follows_from_rows() -> None:
    sizes = [launch.layout(rows, 8).chunk for rows in (1, 2**21 - 1, 2**21, 2**22 - 1, 2**22, 2**25)]
    assert sizes == [1024, 1024, 2048, 2048, 4096, 4096]


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (np.zeros(3, np.int16), {}, "values of 4 or 8 bytes, not 2"),
        (np.zeros(0), {}, "at least one value"),
        (np.zeros(3), {"dim": 33}, "dim must be 1 to 32, not 33"),
        (np.zeros(3), {"dim": 0}, "dim must be 1 to 32, not 0"),
        (np.zeros(3), {"chunk": 48}, "multiple of 32 up to 65536, not 48"),
        (np.zeros(3), {"chunk": 65568}, "not 65568"),
    ],
)
def test_refused(values: npt.NDArray[Any], options: dict[str, int], message: str) -> None:
    for function in (cpu.encode, cpu.measure):
        with pytest.raises(ValueError, match=message):
            function(values, **options)


def test_read_only_and_unaligned_values(rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, 8 * 100 + 3, dtype=np.uint8)
    values = data[3:].view(np.float64)
    values.setflags(write=False)
    checked(values, chunk=64)


# ------------------------------------------------------------------------------------------------------------ damage


def damaged(packed: Packed, **changes: Any) -> Packed:
    return dataclasses.replace(packed, **changes)


def with_starts(packed: Packed, starts: list[int]) -> Packed:
    meta = packed.meta.copy()
    meta.view("<u8")[: len(starts)] = starts
    return damaged(packed, meta=meta)


def test_check_names_what_is_wrong(rng: np.random.Generator) -> None:
    packed = cpu.encode(rng.integers(0, 2**32, 70, dtype=np.uint32), chunk=32)
    starts = packed.meta.view("<u8").tolist()[:4]
    codes = packed.codes.copy()
    codes[starts[1]] = 0x16
    padded = packed.codes.copy()
    padded[starts[2] + 15] = 0xC4
    wrong = {
        "parameters dim and chunk": damaged(packed, parameters=(1,)),
        "dim must be 1 to 32, not 0": damaged(packed, parameters=(0, 32)),
        "parameters dim and chunk, not \\(1, 0\\)": damaged(packed, parameters=(1, 0)),
        "of 2 gfc chunks has 32 bytes, not 48": damaged(packed, parameters=(1, 64), meta_nbytes=48),
        "meta has 32 bytes, not 16": damaged(packed, parameters=(1, 96), meta_nbytes=16),
        "codes has": damaged(packed, codes=packed.codes[:-1]),
        "chunk 0: starts are not in order": with_starts(packed, [1]),
        "chunk 1: starts are not in order": with_starts(packed, [*starts[:2], starts[1] - 1]),
        "chunk 2: starts are not in order": with_starts(packed, [*starts[:3], starts[3] + 1]),
        "chunk 0: its codes do not take": with_starts(packed, [0, starts[1] + 1]),
        "chunk 2: its codes do not take": with_starts(packed, [*starts[:3], starts[3] - 1]),
        "chunk 1: a value of 4 bytes": damaged(packed, codes=codes),
        "chunk 2: a value behind the last": damaged(packed, codes=padded),
    }
    for message, one in wrong.items():
        with pytest.raises(ValueError, match=message):
            cpu.check(one)
    odd = cpu.encode(np.zeros(70), chunk=64)
    meta = odd.meta.copy()
    meta[-1] = 1
    with pytest.raises(ValueError, match="behind the starts"):
        cpu.check(damaged(odd, meta=meta))
    with pytest.raises(ValueError, match="560 bytes of values do not go into 8"):
        cpu.decode(odd, np.zeros(8, np.uint8))


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_damage_in_many_places(dtype: Any, rng: np.random.Generator) -> None:
    """Whatever the bytes: values or ValueError, and the same verdict as the reference reader's."""
    packed = cpu.encode((1000 * np.cumsum(rng.normal(0, 1, 300))).astype(dtype), chunk=64)
    fine = 0
    for _ in range(300):
        meta, codes = packed.meta.copy(), packed.codes.copy()
        target = meta if rng.random() < 0.3 else codes
        target[rng.integers(target.size)] ^= 1 << rng.integers(8)
        if rng.random() < 0.3:
            codes = codes[: rng.integers(codes.size)].copy()
        one = damaged(packed, meta=meta, codes=codes, codes_nbytes=codes.size)
        try:
            reference = reference_gfc.values(one.rows, one.itemsize, one.parameters, meta.tobytes(), codes.tobytes())
        except ValueError:
            with pytest.raises(ValueError, match="gfc"):
                cpu.check(one)
            with contextlib.suppress(ValueError):  # it may not see all
                decompressed(one)
        else:
            cpu.check(one)
            assert decompressed(one).view(f"<u{one.itemsize}").tolist() == reference
            fine += 1
    assert 0 < fine < 300
