"""A slow decoder of bitpack, from docs/format.md (sections 11, 18 and 24) alone; it shares nothing with the package."""

from __future__ import annotations


def decode(rows: int, itemsize: int, parameters: tuple[int, ...], meta: bytes, codes: bytes) -> bytes:
    """The values' bytes."""
    bits = 8 * itemsize
    blocks = -(-rows // 1024)
    signed, kinds, low, high = parameters
    has_delta, has_nan = kinds & 1, kinds & 2
    divisor = low + 2**32 * high
    need(signed < 2 and kinds < 4 and divisor != 1 and divisor < 2**bits, "parameters")
    need(not has_nan or itemsize in (4, 8), "a NaN of such values")
    at = 0

    def section(size: int, count: int) -> list[int]:
        nonlocal at
        need(at + size * count <= len(meta), "size of meta")
        values = [int.from_bytes(meta[i : i + size], "little") for i in range(at, at + size * count, size)]
        end = at + size * count
        at = -(-end // 16) * 16
        need(not any(meta[end:at]), "gaps of meta")
        return values

    starts, bases = section(4, blocks + 1), section(itemsize, blocks)
    slopes = section(itemsize, blocks) if has_delta else [0] * blocks
    nan, stand_ins = 0, [0] * blocks
    if has_nan:
        nan, *zeros = section(itemsize, 16 // itemsize)
        exponent, mantissa = divmod(nan % 2 ** (bits - 1), 2 ** (23 if bits == 32 else 52))
        need(exponent == (255 if bits == 32 else 2047) and mantissa > 0 and not any(zeros), "the NaN")
        stand_ins = section(itemsize, blocks)
    need(at == len(meta), "size of meta")
    places = [start & 0x3FFFFFFF for start in starts]
    divided = [start >> 30 & 1 for start in starts]
    deltas = [start >> 31 for start in starts]
    need(places[0] == 0 and 128 * places[-1] == len(codes), "ends of starts")
    need(deltas[-1] == 0 and any(deltas) == bool(has_delta), "delta blocks")
    need(divided[-1] == 0 and any(divided) == bool(divisor), "divided blocks")

    values: list[int] = []
    for block in range(blocks):
        width = places[block + 1] - places[block]
        need(0 <= width <= bits, "width")
        here = codes[128 * places[block] : 128 * places[block + 1]]
        words = [int.from_bytes(here[i : i + 4], "little") for i in range(0, len(here), 4)]
        lanes = [sum(word << 32 * j for j, word in enumerate(words[lane::32])) for lane in range(32)]
        total = 0
        for i in range(min(1024, rows - 1024 * block)):
            vector = 16 // itemsize
            k, lane = i // (32 * vector) * vector + i % vector, i // vector % 32
            code = (lanes[lane] >> k * width & (1 << width) - 1) * (divisor if divided[block] else 1)
            total += code
            value = bases[block] + i * slopes[block] + total if deltas[block] else bases[block] + code
            value %= 2**bits
            values.append(nan if has_nan and value == stand_ins[block] else value)
    return b"".join(value.to_bytes(itemsize, "little") for value in values)


def need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"wrong: {what}")
