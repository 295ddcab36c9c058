"""Vector intrinsics of the CPU kernels give what a plain loop does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs import unaligned
from cudf_fsst.codecs.fsst.symbols import ESCAPE, SymbolTable
from cudf_fsst.codecs.jit import njit
from cudf_fsst.codecs.unaligned import address


@njit()
def place64(at: int, left: int, before: int, limits: int, base: int, out: int) -> Any:
    return unaligned.place64(at, left, before, limits, base, out)


@njit()
def sum64(at: int, left: int, base: int, out: int) -> Any:
    return unaligned.sum64(at, left, base, out)


@njit()
def widen64(at: int, before: int, out: int) -> None:
    unaligned.widen64(at, before, out)


@njit()
def scale64(at: int, factor: int, out: int) -> None:
    unaligned.scale64(at, factor, out)


@njit()
def count_below(at: int, value: int) -> Any:
    return unaligned.count_below(at, value)


@njit()
def ends8(low: Any, high: Any, width: Any, minimum: Any, base: Any, out: int) -> Any:
    return unaligned.ends8(low, high, width, minimum, base, out)


@njit()
def within8(ends: int, least: int, most: int, out: int) -> None:
    unaligned.within8(ends, least, most, out)


def places(codes: list[int], before: int, table: SymbolTable, base: int) -> tuple[list[int], int]:
    """Where each code's symbol ends, less one, and the bytes of all; -1: an escape is behind an escape."""
    made, fine = [], True
    for code in codes:
        fine &= (code, before) != (ESCAPE, ESCAPE)
        symbol = table.symbols[code] if code < len(table.symbols) else b""
        base += 0 if before == ESCAPE else 1 if code == ESCAPE else len(symbol)
        made.append((base - 1) % 256)
        before = code
    return made, base if fine else -1


def test_place64(rng: np.random.Generator) -> None:
    for _ in range(200):
        words = {rng.integers(0, 256, rng.integers(1, 9), np.uint8).tobytes() for _ in range(rng.integers(1, 256))}
        table = SymbolTable.from_symbols(words)
        codes = rng.choice(np.array([*range(len(table.symbols) + rng.integers(0, 2)), *[ESCAPE] * 2]), 64)
        if rng.random() < 0.8:  # most have no escape behind an escape
            codes[1:][(codes[1:] == ESCAPE) & (codes[:-1] == ESCAPE)] = 0
        left, before, base = int(rng.integers(0, 130)), int(rng.choice([0, ESCAPE])), int(rng.integers(0, 200))
        some, out = codes.astype(np.uint8), np.zeros(64, np.uint8)
        found = place64(address(some), left, before, address(table.length_limits), base, address(out))
        wanted, total = places(some[:left].tolist(), before, table, base)
        assert found == total
        assert out[:left].tolist() == wanted
        assert set(out[left:]) <= {wanted[-1] if left else (base - 1) % 256}, "nothing is behind them"


def test_sum64(rng: np.random.Generator) -> None:
    for left in (0, 1, 37, 63, 64, 90):
        sizes, out, base = rng.integers(0, 32, 64, np.uint8), np.zeros(64, np.uint8), int(rng.integers(0, 300))
        sizes[:8] = 31
        wanted = base + np.cumsum(np.where(np.arange(64) < left, sizes, 0).astype(np.int64))
        assert sum64(address(sizes), left, base, address(out)) == wanted[-1]
        assert out.tolist() == ((wanted - 1) % 256).tolist()


def test_widen64_and_scale64(rng: np.random.Generator) -> None:
    for _ in range(50):
        some = rng.choice(np.array([7, 200, ESCAPE], np.uint8), 65, p=(0.5, 0.3, 0.2))
        some[1:][(some[1:] == ESCAPE) & (some[:-1] == ESCAPE)] = 7
        out, scaled = np.zeros(65, np.uint16), list[int]()
        before = int(rng.choice([0, ESCAPE])) if some[0] != ESCAPE else 0
        widen64(address(some), before, address(out))
        codes = [before, *some.tolist()]
        for last, code, following in zip(codes, codes[1:65], codes[2:], strict=False):
            scaled.append(ESCAPE if last == ESCAPE else 256 + following if code == ESCAPE else code)
        assert out.tolist() == [*scaled, 0]
        steps = np.zeros(64, np.uint32)
        scale64(address(out), 12_345, address(steps))
        assert steps.tolist() == [12_345 * one for one in scaled]


def test_count_below(rng: np.random.Generator) -> None:
    some = rng.integers(0, 256, 65, np.uint8)
    for at, value in [(0, 0), (1, 255), *rng.integers((0, 0), (2, 256), (50, 2)).tolist()]:
        assert count_below(address(some) + at, value) == sum(int(one) < value for one in some[at : at + 64])


def test_ends8(rng: np.random.Generator) -> None:
    for width in range(16):
        more, minimum, base = rng.integers(0, 1 << width, 8).tolist(), int(rng.integers(0, 2**32)), int(rng.integers(9))
        halves = [sum(more[k + i] << width * i for i in range(4)) | (7 << 4 * width) % 2**64 for k in (0, 4)]
        out = np.zeros(9, np.int64)
        arguments = map(np.uint64, (*halves, width, minimum, base))
        wanted = (base + np.cumsum(np.array(more) + minimum)).tolist()
        assert int(ends8(*arguments, address(out))) == wanted[-1]
        assert out.tolist() == [*wanted, 0]


def test_within8(rng: np.random.Generator) -> None:
    for _ in range(50):
        sizes = rng.integers(0, 20, 8)
        ends: npt.NDArray[np.int64] = np.cumsum([5, *sizes])
        least, most = np.sort(rng.integers(0, 22, 2)).tolist()
        out = np.full(9, 9, np.uint8)
        within8(address(ends), least, most, address(out))
        assert out.tolist() == [*(int(least <= size <= most) for size in sizes.tolist()), 9]
