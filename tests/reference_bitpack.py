"""A slow decoder of bitpack, from docs/format.md (sections 11 and 18) alone; it shares nothing with the package."""

from __future__ import annotations


def decode(rows: int, itemsize: int, parameters: tuple[int, ...], meta: bytes, codes: bytes) -> bytes:
    """The values' bytes."""
    bits = 8 * itemsize
    blocks = -(-rows // 1024)
    _, has_delta, low, high = parameters
    divisor = low + 2**32 * high
    need(set(parameters[:2]) <= {0, 1} and divisor != 1 and divisor < 2**bits, "parameters")
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
            values.append(value % 2**bits)
    return b"".join(value.to_bytes(itemsize, "little") for value in values)


def need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"wrong: {what}")
