"""GFC on the host, in Numba without the GIL (docs/format.md, section 12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import units
from ..jit import njit
from ..part import Packed
from ..unaligned import address, load8, load32, load64, store8, store32, store64
from .launch import GfcLayout, layout

_SLACK = 8  # bytes that a store of eight may touch behind the last code

# What is wrong with a chunk.
_STARTS, _LENGTH, _HALF_BYTE, _PADDING = 1, 2, 3, 4
_REASONS = {
    _STARTS: "starts are not in order",
    _LENGTH: "its codes do not take its bytes",
    _HALF_BYTE: "a value of 4 bytes has more than 4 leading zero bytes",
    _PADDING: "a value behind the last is not as predicted",
}


@njit(inline="always")
def _magnitude_length(magnitude: Any, wide: bool) -> int:
    """Bytes that are written of a magnitude."""
    length = 0
    while length < 8 and magnitude >> np.uint64(8 * length) != 0:
        length += 1
    return 3 if wide and length == 2 else length


@njit(inline="always")
def _half_byte_length(half_byte: int, wide: bool) -> int:
    """Bytes of a magnitude, as its half-byte says; negative if the half-byte means nothing."""
    zeros = half_byte & 7
    if not wide:
        return 4 - zeros
    return 8 - zeros if zeros < 6 else 7 - zeros


@njit(inline="always")
def _load_value(values: int, row: int, wide: bool) -> Any:
    return load64(values + 8 * row) if wide else np.uint64(load32(values + 4 * row))


@njit(inline="always")
def _split(value: Any, predicted: Any, wide: bool) -> tuple[Any, Any]:
    """Sign and magnitude of the difference."""
    difference = value - predicted
    if not wide:
        difference &= np.uint64(0xFFFFFFFF)
    sign = difference >> np.uint64(63 if wide else 31) != 0
    if sign:
        difference = np.uint64(0) - difference
        if not wide:
            difference &= np.uint64(0xFFFFFFFF)
    return np.int64(sign), difference


@njit()
def _measure(values: int, wide: bool, rows: int, dim: int, chunk: int, starts: Any) -> None:
    """Fill `starts` with the byte at which the codes of each chunk begin, and last the bytes of all."""
    at = 0
    predicted = np.zeros(32, np.uint64)
    for number in range(starts.size - 1):
        starts[number] = at
        predicted[:] = 0
        last = min(rows, (number + 1) * chunk)
        for first in range(number * chunk, last, 32):
            at += 16
            count = min(32, last - first)
            for i in range(count):
                _, magnitude = _split(_load_value(values, first + i, wide), predicted[i], wide)
                at += _magnitude_length(magnitude, wide)
            if count == 32:
                for i in range(32):
                    predicted[i] = _load_value(values, first + 32 - dim + i % dim, wide)
    starts[starts.size - 1] = at


@njit()
def _encode(values: int, wide: bool, rows: int, dim: int, chunk: int, codes: int) -> int:
    """Write all codes; returns where they end. Touches up to seven bytes more."""
    at = codes
    predicted = np.zeros(32, np.uint64)
    for chunk_first in range(0, rows, chunk):
        predicted[:] = 0
        last = min(rows, chunk_first + chunk)
        for first in range(chunk_first, last, 32):
            header = at
            at += 16
            count = min(32, last - first)
            low = 0
            for i in range(32):
                sign, magnitude = 0, np.uint64(0)
                if i < count:
                    sign, magnitude = _split(_load_value(values, first + i, wide), predicted[i], wide)
                length = _magnitude_length(magnitude, wide)
                store64(at, magnitude)
                at += length
                half_byte = 8 * sign + (4 - length if not wide else 8 - length if length > 2 else 7 - length)
                if i % 2 == 0:
                    low = half_byte
                else:
                    store8(header + i // 2, np.uint8(low + 16 * half_byte))
            if count == 32:
                for i in range(32):
                    predicted[i] = _load_value(values, first + 32 - dim + i % dim, wide)
    return at - codes


@njit()
def _check(starts: Any, wide: bool, rows: int, chunk: int, codes: int, codes_nbytes: int) -> tuple[int, int]:
    """The number of a mistake and its chunk; (0, 0): there is none."""
    chunks = starts.size - 1
    if starts[0] != 0:
        return _STARTS, 0
    for number in range(chunks):
        at, end = np.int64(starts[number]), np.int64(starts[number + 1])
        if end < at or end > codes_nbytes:
            return _STARTS, number
        last = min(rows, (number + 1) * chunk)
        for first in range(number * chunk, last, 32):
            if end - at < 16:
                return _LENGTH, number
            length = 0
            for i in range(32):
                half_byte = np.int64(load8(codes + at + i // 2)) >> 4 * (i % 2) & 15
                nbytes = _half_byte_length(half_byte, wide)
                if nbytes < 0:
                    return _HALF_BYTE, number
                if first + i >= last and (nbytes > 0 or half_byte > 7):
                    return _PADDING, number
                length += nbytes
            at += 16 + length
            if at > end:
                return _LENGTH, number
        if at != end:
            return _LENGTH, number
    if np.int64(starts[chunks]) != codes_nbytes:
        return _LENGTH, chunks - 1
    return 0, 0


@njit()
def _decode(
    chunks: Any, starts: Any, ends: Any, wide: bool, rows: int, dim: int, chunk: int, codes: int, nbytes: int, out: int
) -> int:
    """Write the values of `chunks`, one chunk after another; -1, or a chunk that is damaged."""
    predicted = np.zeros(32, np.uint64)
    value = np.zeros(32, np.uint64)
    for i in range(chunks.size):
        number = chunks[i]
        if starts[i] > np.uint64(nbytes):
            return number
        at = np.int64(starts[i])
        behind = (i - number) * chunk
        predicted[:] = 0
        last = min(rows, (number + 1) * chunk)
        for first in range(number * chunk, last, 32):
            if nbytes - at < 16:
                return number
            header = codes + at
            at += 16
            for k in range(32):
                half_byte = np.int64(load8(header + k // 2)) >> 4 * (k % 2) & 15
                length = _half_byte_length(half_byte, wide)
                if length < 0 or length > nbytes - at:
                    return number
                magnitude = np.uint64(0)
                if nbytes - at >= 8:
                    if length > 0:
                        magnitude = load64(codes + at) & (~np.uint64(0) >> np.uint64(64 - 8 * length))
                else:
                    for byte in range(length):
                        magnitude |= np.uint64(load8(codes + at + byte)) << np.uint64(8 * byte)
                at += length
                value[k] = predicted[k] - magnitude if half_byte > 7 else predicted[k] + magnitude
            to = behind + first
            for k in range(min(32, last - first)):
                if wide:
                    store64(out + 8 * (to + k), value[k])
                else:
                    store32(out + 4 * (to + k), np.uint32(value[k] & np.uint64(0xFFFFFFFF)))
            for k in range(32):
                predicted[k] = value[32 - dim + k % dim]
        if np.uint64(at) != ends[i]:
            return number
    return -1


def _starts(values: npt.NDArray[Any], plan: GfcLayout) -> npt.NDArray[np.uint64]:
    starts = np.empty(plan.chunks + 1, np.uint64)
    _measure(address(values), plan.itemsize == 8, plan.rows, plan.dim, plan.chunk, starts)
    return starts


def encode(values: npt.NDArray[Any], *, signed: bool = False, dim: int = 1, chunk: int = 0) -> Packed:
    """Compress values of 4 or 8 bytes.

    Parameters
    ----------
    values : ndarray, shape (rows,)
        Contiguous, of any dtype; only the bits count.
    signed
        Makes no difference to this codec.
    dim, chunk
        See `launch.layout`.

    Raises
    ------
    ValueError
        No values, or of another size; a `dim` or `chunk` that there is not.
    """
    plan = layout(values.size, values.itemsize, dim, chunk)
    starts = _starts(values, plan)
    meta = np.zeros(plan.meta_nbytes, np.uint8)
    meta[: starts.nbytes] = starts.view(np.uint8)
    nbytes = int(starts[-1])
    codes = np.empty(nbytes + _SLACK, np.uint8)
    _encode(address(values), plan.itemsize == 8, plan.rows, plan.dim, plan.chunk, address(codes))
    return Packed("gfc", plan.rows, plan.itemsize, (plan.dim, plan.chunk), meta, codes[:nbytes], meta.size, nbytes)


def measure(values: npt.NDArray[Any], *, signed: bool = False, dim: int = 1, chunk: int = 0) -> int:
    plan = layout(values.size, values.itemsize, dim, chunk)
    return plan.meta_nbytes + int(_starts(values, plan)[-1])


def packed_layout(packed: Packed) -> GfcLayout:
    """Sizes that a `Packed` states, in host or GPU memory.

    Raises
    ------
    ValueError
        They are impossible, or disagree.
    """
    if len(packed.parameters) != 2 or packed.parameters[1] == 0:
        raise ValueError(f"gfc has the parameters dim and chunk, not {packed.parameters}")
    plan = layout(packed.rows, packed.itemsize, *packed.parameters)
    if packed.meta_nbytes != plan.meta_nbytes:
        raise ValueError(f"meta of {plan.chunks} gfc chunks has {plan.meta_nbytes} bytes, not {packed.meta_nbytes}")
    packed.check_buffers()
    return plan


def _stored_starts(packed: Packed, plan: GfcLayout) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(packed.meta)[: 8 * (plan.chunks + 1)].view("<u8")


def check(packed: Packed) -> None:
    """Check all that section 12 of docs/format.md says a reader checks.

    Raises
    ------
    ValueError
        Something is wrong; the message says what.
    """
    plan = packed_layout(packed)
    starts = _stored_starts(packed, plan)
    if packed.meta[starts.nbytes :].any():
        raise ValueError("the bytes behind the starts of gfc chunks are not 0")
    wide, codes = packed.itemsize == 8, np.ascontiguousarray(packed.codes)
    reason, number = _check(starts.copy(), wide, plan.rows, plan.chunk, address(codes), codes.size)
    if reason:
        raise ValueError(f"gfc chunk {number}: {_REASONS[reason]}")


def unit(packed: Packed) -> int:
    return packed_layout(packed).chunk


def decode(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    plan = packed_layout(packed)
    last = plan.rows if last is None else last
    if out.size != (last - first) * packed.itemsize:
        raise ValueError(f"{(last - first) * packed.itemsize} bytes of values do not go into {out.size}")
    _decode_chunks(packed, plan, np.arange(first // plan.chunk, -(-last // plan.chunk)), out)


def take(packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write values `rows` to `out`; see `contract.Host`.

    Raises
    ------
    ValueError
        The bytes are damaged so that they cannot be decoded.
    """
    plan = packed_layout(packed)
    units.take(rows, plan.chunk, out, lambda chunks, room: _decode_chunks(packed, plan, chunks, room))


def _decode_chunks(packed: Packed, plan: GfcLayout, chunks: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write the values of chunks, one chunk after another."""
    starts = _stored_starts(packed, plan)
    wide, codes = packed.itemsize == 8, np.ascontiguousarray(packed.codes)
    ends = starts[chunks], starts[chunks + 1]
    bad = _decode(chunks, *ends, wide, plan.rows, plan.dim, plan.chunk, address(codes), codes.size, address(out))
    if bad >= 0:
        raise ValueError(f"gfc chunk {bad} is damaged")
