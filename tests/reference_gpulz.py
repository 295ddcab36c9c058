"""Codec gpulz (docs/format.md, section 13) in plain Python, from the text alone: a decoder, and the encoder's rule."""

from __future__ import annotations

import struct


def _align(nbytes: int) -> int:
    return -(-nbytes // 16) * 16


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def decode(meta: bytes, codes: bytes, nbytes: int, symbol: int, chunk: int) -> bytes:
    _need(symbol in (1, 2, 4, 8) and chunk in (2048, 4096, 8192, 16384), "parameters")
    chunks = -(-nbytes // chunk)
    blocks = -(-chunks // 32)
    counts_at = _align(8 * (blocks + 1))
    _need(len(meta) == counts_at + _align(4 * chunks), "size of meta")
    _need(len(codes) <= -(-nbytes // 4) * 4, "size of codes")
    _need(not any(meta[8 * (blocks + 1) : counts_at] + meta[counts_at + 4 * chunks :]), "gaps of meta")
    starts = struct.unpack_from(f"<{blocks + 1}Q", meta)
    counts = struct.unpack_from(f"<{chunks}I", meta, counts_at)
    out = bytearray()
    at = 0
    for c, count in enumerate(counts):
        if c % 32 == 0:
            _need(starts[c // 32] == at, "starts")
        here = min(chunk, nbytes - c * chunk)
        tokens, matches = count % 65536, count // 65536
        if tokens == 0:
            _need(matches == 0, "counts")
            values, end = codes[at : at + here], at + here
        else:
            _need(matches <= tokens, "counts")
            literals = tokens - matches
            lengths = at + symbol * literals
            flags = lengths + 2 * matches
            end = flags + -(-tokens // 8)
            _need(end <= len(codes), "size of a chunk")
            bits = [codes[flags + i // 8] >> i % 8 & 1 for i in range(8 * (end - flags))]
            _need(sum(bits) == matches and not any(bits[tokens:]), "flags")
            made: list[bytes] = []
            match = 0
            for i in range(tokens):
                if bits[i]:
                    length, offset = codes[lengths + match], codes[lengths + matches + match]
                    match += 1
                    _need(1 <= length <= offset <= len(made), "match")
                    made += made[len(made) - offset : len(made) - offset + length]
                else:
                    first = at + symbol * (i - match)
                    made.append(codes[first : first + symbol])
            _need(len(made) == -(-here // symbol), "symbols")
            values = b"".join(made)
            _need(not any(values[here:]), "last symbol")
            values = values[:here]
        _need(len(values) == here, "size of a chunk")
        at_end = -(-end // 4) * 4
        _need(at_end <= len(codes) and not any(codes[end:at_end]), "padding")
        at = at_end
        out += values
    _need(at == len(codes) == starts[-1], "starts")
    return bytes(out)


def parse(symbols: list[int], size: int, window: int) -> list[tuple[int, int]]:
    """(length, offset) of each token of a chunk; (0, 0) is a literal."""
    tokens = []
    p = 0
    while p < len(symbols):
        best = (0, 0)
        for d in range(1, min(window, p) + 1):
            run = 0
            while run < min(d, len(symbols) - p) and symbols[p + run] == symbols[p + run - d]:
                run += 1
            if run > best[0]:
                best = (run, d)
        if best[0] < (2 if size <= 2 else 1):
            best = (0, 0)
        tokens.append(best)
        p += max(best[0], 1)
    return tokens
