"""A slow reader of the codec gfc, written from docs/format.md, section 12, alone."""

from __future__ import annotations


def values(rows: int, itemsize: int, parameters: tuple[int, ...], meta: bytes, codes: bytes) -> list[int]:
    """All values, as unsigned numbers."""
    need(itemsize in (4, 8) and rows >= 1, "sizes")
    dim, chunk = parameters
    need(1 <= dim <= 32 and chunk % 32 == 0 and 32 <= chunk <= 65536, "parameters")
    chunks = -(-rows // chunk)
    used = 8 * (chunks + 1)
    need(len(meta) == -(-used // 16) * 16 and not any(meta[used:]), "size of meta")
    starts = [int.from_bytes(meta[at : at + 8], "little") for at in range(0, used, 8)]
    need(starts[0] == 0 and starts[-1] == len(codes), "ends of the starts")
    modulus = 1 << 8 * itemsize
    result = []
    for number in range(chunks):
        at = starts[number]
        need(at <= starts[number + 1] <= len(codes), "order of the starts")
        left = min(chunk, rows - number * chunk)
        before = [0] * 32
        while left > 0:
            header = codes[at : at + 16]
            need(len(header) == 16, "end of the codes")
            at += 16
            subchunk = []
            for i in range(32):
                half_byte = header[i // 2] >> 4 * (i % 2) & 15
                k = half_byte % 8
                need(itemsize == 8 or k <= 4, "leading zero bytes")
                nbytes = itemsize - (k if k < 6 else k + 1)
                magnitude = int.from_bytes(codes[at : at + nbytes], "little")
                need(at + nbytes <= len(codes), "end of the codes")
                at += nbytes
                if i >= left:
                    need(nbytes == 0 and half_byte < 8, "values behind the last")
                predicted = before[32 - dim + i % dim]
                subchunk.append((predicted - magnitude if half_byte >= 8 else predicted + magnitude) % modulus)
            result += subchunk[:left]
            left -= 32
            before = subchunk
        need(at == starts[number + 1], "end of a chunk")
    return result


def need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"wrong: {what}")
