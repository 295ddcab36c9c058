"""What bitpack computes on the host, block by block: measure, pack and unpack (docs/format.md, sections 11 and 18).

Kernels compute in 64 bits and take addresses, so that one compiled version serves all values, read-only or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import copy, load8, load16, load32, load64, store8, store16, store32, store64
from . import launch

_BLOCK = launch.BLOCK
_SAMPLE = launch.SAMPLE_BLOCKS
_DELTA = launch.DELTA
_DIVIDED = launch.DIVIDED
_PLACE = launch.PLACE
#: In a block's kind, beside its width.
KIND_DELTA, KIND_DIVIDED = 128, 256
WIDTH = 127
_LOW = np.uint64(0xFFFFFFFF)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit()
def _read(values: int, itemsize: int, first: int, count: int, x: Any) -> None:
    if itemsize == 8:
        for i in range(count):
            x[i] = load64(values + 8 * (first + i))
    elif itemsize == 4:
        for i in range(count):
            x[i] = load32(values + 4 * (first + i))
    elif itemsize == 2:
        for i in range(count):
            x[i] = load16(values + 2 * (first + i))
    else:
        for i in range(count):
            x[i] = load8(values + first + i)


@njit()
def _write(values: int, itemsize: int, first: int, count: int, x: Any) -> None:
    if itemsize == 8:
        for i in range(count):
            store64(values + 8 * (first + i), x[i])
    elif itemsize == 4:
        for i in range(count):
            store32(values + 4 * (first + i), np.uint32(x[i] & _LOW))
    elif itemsize == 2:
        for i in range(count):
            store16(values + 2 * (first + i), np.uint16(x[i] & np.uint64(0xFFFF)))
    else:
        for i in range(count):
            store8(values + first + i, np.uint8(x[i] & np.uint64(0xFF)))


@njit()
def _bits(x: np.uint64) -> int:
    width = 0
    while x != 0:
        x >>= np.uint64(1)
        width += 1
    return width


@njit()
def _gcd(a: np.uint64, b: np.uint64) -> np.uint64:
    while b != 0:
        a, b = b, a % b
    return a


@njit()
def find_divisor(values: int, itemsize: int, rows: int, signed: bool) -> np.uint64:
    """A divisor of the codes of a part, found on some of its blocks; 1: none is worth it."""
    flip = np.uint64(1) << np.uint64(8 * itemsize - 1) if signed else np.uint64(0)
    blocks = (rows + _BLOCK - 1) // _BLOCK
    step = max(1, blocks // _SAMPLE)
    divisors = np.zeros(min(blocks, _SAMPLE), np.uint64)
    x = np.empty(_BLOCK, np.uint64)
    everything, varied = np.uint64(0), 0
    for i in range(divisors.size):
        first = i * step * _BLOCK
        count = min(_BLOCK, rows - first)
        _read(values, itemsize, first, count, x)
        start, common = x[0] ^ flip, np.uint64(0)
        for j in range(1, count):
            key = x[j] ^ flip
            away = max(key, start) - min(key, start)
            if itemsize == 8:
                away = min(away, np.uint64(0) - away)  # low halves of negative numbers of 16 bytes
            common = _gcd(away, common)
            if common == 1:
                break
        divisors[i] = common
        everything = _gcd(everything, common)
        varied += common != 0
    best, most = np.uint64(1), 0
    for i in range(-1, divisors.size):
        divisor = everything if i < 0 else divisors[i]
        if divisor < 2:
            continue
        fits = 0
        for other in divisors:
            fits += other != 0 and other % divisor == 0
        saved = fits * (_bits(divisor) - 1)
        if saved > most and 4 * fits >= varied:
            best, most = divisor, saved
    return best


@njit()
def _inverse(divisor: np.uint64) -> tuple[np.uint64, np.uint64]:
    """How often a divisor can be halved, and what is the inverse of the odd rest modulo 2^64."""
    shift = np.uint64(0)
    while divisor & np.uint64(1) == 0:
        divisor >>= np.uint64(1)
        shift += np.uint64(1)
    inverse = divisor  # right in 3 bits, and then in twice as many each time
    for _ in range(5):
        inverse *= np.uint64(2) - divisor * inverse
    return inverse, shift


@njit()
def _ranges(x: Any, count: int, flip: np.uint64, sign: np.uint64, mask: np.uint64) -> tuple[int, Any, int, Any]:
    """Width and least value of a block, and of the differences of neighbours."""
    low, high = _ONES, np.uint64(0)
    for i in range(count):
        key = x[i] ^ flip
        low = min(low, key)
        high = max(high, key)
    width, base = _bits(high - low), low ^ flip
    if count < _BLOCK:
        return width, base, width, base
    low, high = _ONES, np.uint64(0)
    for i in range(1, _BLOCK):
        key = ((x[i] - x[i - 1]) ^ sign) & mask
        low = min(low, key)
        high = max(high, key)
    return width, base, _bits(high - low), low ^ sign


@njit()
def measure_blocks(
    values: int, itemsize: int, rows: int, signed: bool, divisor: np.uint64, kinds: Any, bases: Any, slopes: Any
) -> None:
    """Width, kind, base and slope of every block."""
    bits = np.uint64(8 * itemsize)
    mask = _ONES >> (np.uint64(64) - bits)
    sign = np.uint64(1) << (bits - np.uint64(1))
    flip = sign if signed else np.uint64(0)
    inverse, shift = _inverse(divisor)
    rest, up = (np.uint64(1) << shift) - np.uint64(1), np.uint64(64) - bits
    x, quotients = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    for block in range(kinds.size):
        first = block * _BLOCK
        count = min(_BLOCK, rows - first)
        _read(values, itemsize, first, count, x)
        width, base, delta_width, slope = _ranges(x, count, flip, sign, mask)
        kinds[block], bases[block], slopes[block] = width, base, 0
        if delta_width < width:
            width = delta_width
            kinds[block], bases[block], slopes[block] = width | KIND_DELTA, x[0], slope
        if divisor == 1 or width == 0:
            continue
        # Of the differences from the first value, as signed numbers; those that are no multiples give large ones.
        start, remains = x[0], np.uint64(0)
        for i in range(count):
            away = x[i] - start
            remains |= away
            quotients[i] = np.uint64(np.int64((away * inverse) << up) >> np.int64(up + shift)) & mask
        if remains & rest:
            continue
        plain_width, base, delta_width, slope = _ranges(quotients, count, sign, sign, mask)
        if min(plain_width, delta_width) >= width:
            continue
        if delta_width < plain_width:
            kinds[block], bases[block], slopes[block] = delta_width | KIND_DELTA, start, divisor * slope
        else:
            kinds[block], bases[block], slopes[block] = plain_width, start + divisor * base, 0
        kinds[block] |= KIND_DIVIDED


@njit()
def _spread(numbers: Any, width: int, skip: int, words: Any) -> None:
    """Or bits `skip` to `skip` + `width` - 1 of a lane's codes, number 32 * k + lane, into its words."""
    whole = words.size // 32
    bits = min(width - skip, 32)
    for k in range(32):
        bit = k * width + skip
        to, shift = bit // 32, np.uint64(bit % 32)
        part = words[32 * to : 32 * to + 32]
        code = numbers[32 * k : 32 * k + 32]
        for lane in range(32):
            part[lane] |= np.uint32((((code[lane] >> np.uint64(skip)) & _LOW) << shift) & _LOW)
        if bit % 32 + bits > 32 and to + 1 < whole:
            part = words[32 * to + 32 : 32 * to + 64]
            for lane in range(32):
                part[lane] |= np.uint32((((code[lane] >> np.uint64(skip)) & _LOW) << shift) >> np.uint64(32))


@njit()
def _gather(words: Any, width: int, skip: int, numbers: Any) -> None:
    """The inverse of `_spread`: numbers are read out of words, and or-ed into `numbers`."""
    bits = min(width - skip, 32)
    mask = _LOW >> np.uint64(32 - bits)
    for k in range(32):
        bit = k * width + skip
        first, last, shift = bit // 32, (bit + bits - 1) // 32, np.uint64(bit % 32)
        low = words[32 * first : 32 * first + 32]
        high = words[32 * last : 32 * last + 32]
        code = numbers[32 * k : 32 * k + 32]
        for lane in range(32):
            both = np.uint64(low[lane]) | np.uint64(high[lane]) << np.uint64(32)
            code[lane] |= ((both >> shift) & mask) << np.uint64(skip)


@njit()
def _unpack_bytes(words: Any, width: int, base: np.uint64, values: int) -> None:
    """Write a whole plain block of bytes, of 1 to 8 bits each: eight that follow each other are spread in one word."""
    by_four, by_two, by_one = (np.uint64(32 - 4 * width), np.uint64(16 - 2 * width), np.uint64(8 - width))
    low_four = _LOW >> by_four
    low_two = (np.uint64(0xFFFF) >> by_two) * np.uint64(0x0000000100000001)
    low_one = (np.uint64(0xFF) >> by_one) * np.uint64(0x0001000100010001)
    tops, bases = np.uint64(0x8080808080808080), (base & np.uint64(0xFF)) * np.uint64(0x0101010101010101)
    for part in range(4):
        bit = 8 * width * part
        first, shift = 32 * (bit // 32), np.uint64(bit % 32)
        to = values + part // 2 * 512 + part % 2 * 8
        for lane in range(32):
            # What lies behind the block's words is cut off.
            x = (np.uint64(words[first + lane]) | np.uint64(words[first + 32 + lane]) << np.uint64(32)) >> shift
            x |= (np.uint64(words[first + 64 + lane]) << np.uint64(1)) << (np.uint64(63) - shift)
            x = x & low_four | x << by_four & low_four << np.uint64(32)
            x = x & low_two | x << by_two & low_two << np.uint64(16)
            x = x & low_one | x << by_one & low_one << np.uint64(8)
            store64(to + 16 * lane, ((x & ~tops) + (bases & ~tops)) ^ ((x ^ bases) & tops))


@njit()
def pack(
    values: int, itemsize: int, rows: int, divisor: np.uint64, kinds: Any, bases: Any, slopes: Any, codes: int
) -> None:
    inverse, shift = _inverse(divisor)
    mask = _ONES >> np.uint64(64 - 8 * itemsize)
    vector = 16 // itemsize
    x, numbers = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    words = np.empty(64 * 32, np.uint32)
    for block in range(kinds.size):
        width = kinds[block] & WIDTH
        if width == 0:
            continue
        count = min(_BLOCK, rows - block * _BLOCK)
        _read(values, itemsize, block * _BLOCK, count, x)
        base = bases[block]
        if kinds[block] & KIND_DELTA:
            slope = slopes[block]
            before = base - slope
            for i in range(count):
                value = x[i]
                x[i] = (value - before - slope) & mask
                before = value
        else:
            for i in range(count):
                x[i] = (x[i] - base) & mask
            x[count:] = 0
        if kinds[block] & KIND_DIVIDED:
            for i in range(count):
                x[i] = ((x[i] * inverse) & mask) >> shift
        for k in range(32):
            at = k // vector * 32 * vector + k % vector
            for lane in range(32):
                numbers[32 * k + lane] = x[at + lane * vector]
        used = words[: 32 * width]
        used[:] = 0
        _spread(numbers, width, 0, used)
        if width > 32:
            _spread(numbers, width, 32, used)
        copy(codes, used.ctypes.data, 128 * width)
        codes += 128 * width


@njit()
def unpack(
    blocks: Any,
    begins: Any,
    ends: Any,
    bases: Any,
    slopes: Any,
    nan: np.uint64,
    stand_ins: Any,
    divisor: np.uint64,
    itemsize: int,
    rows: int,
    codes: int,
    units: int,
    values: int,
) -> int:
    """Write the values of `blocks`, one block after another; -1, or a block that is damaged.

    `begins` and `ends` are their entries of ``starts`` and the following ones; `rows` is where the last block ends.
    There are `slopes` and `stand_ins` of no block, or of each.
    """
    mask = _ONES >> np.uint64(64 - 8 * itemsize)
    vector = 16 // itemsize
    x, numbers = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    words = np.empty(64 * 32, np.uint32)
    for i in range(blocks.size):
        begin, end = np.int64(begins[i]) & _PLACE, np.int64(ends[i]) & _PLACE
        width = end - begin
        delta, divided = begins[i] >= _DELTA, (np.int64(begins[i]) & _DIVIDED) != 0
        if width < 0 or width > 8 * itemsize or end > units or (delta and slopes.size == 0):
            return blocks[i]
        if divided and divisor == 1:
            return blocks[i]
        base = bases[i]
        count = min(_BLOCK, rows - blocks[i] * _BLOCK)
        if width == 0:
            x[:] = 0
        else:
            copy(words.ctypes.data, codes + 128 * begin, 128 * width)
            if itemsize == 1 and count == _BLOCK and not (delta or divided):
                _unpack_bytes(words, width, base, values + i * _BLOCK)
                continue
            numbers[:] = 0
            _gather(words, width, 0, numbers)
            if width > 32:
                _gather(words, width, 32, numbers)
            for k in range(32):
                at = k // vector * 32 * vector + k % vector
                for lane in range(32):
                    x[at + lane * vector] = numbers[32 * k + lane]
        if divided:
            for k in range(count):
                x[k] *= divisor
        if delta:
            slope = slopes[i]
            total = base - slope
            for k in range(count):
                total += x[k] + slope
                x[k] = total
        else:
            for k in range(count):
                x[k] += base
        if stand_ins.size != 0 and stand_ins[i] != nan:
            for k in range(count):
                if x[k] & mask == stand_ins[i]:
                    x[k] = nan
        _write(values, itemsize, i * _BLOCK, count, x)
    return -1


@njit()
def stand_in(values: int, itemsize: int, rows: int, nan: np.uint64, stand_ins: Any) -> None:
    """Put stand-ins in the place of a NaN, and say which: of a block that has none, or nothing else, the NaN."""
    mask = _ONES >> np.uint64(64 - 8 * itemsize)
    x = np.empty(_BLOCK, np.uint64)
    for block in range(stand_ins.size):
        first = block * _BLOCK
        count = min(_BLOCK, rows - first)
        _read(values, itemsize, first, count, x)
        most, bits, nans = np.uint64(0), np.uint64(0), 0
        for i in range(count):
            if x[i] == nan:
                nans += 1
            else:
                most = max(most, x[i])
                bits |= x[i]
        step = max(bits & (~bits + np.uint64(1)), np.uint64(1))
        stand_ins[block] = most + step if 0 < nans < count and most <= mask - step else nan
        if stand_ins[block] != nan:
            for i in range(count):
                if x[i] == nan:
                    x[i] = stand_ins[block]
            _write(values, itemsize, first, count, x)
