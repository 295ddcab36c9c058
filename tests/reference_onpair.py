"""OnPair in plain Python, from docs/format.md, section 23, alone: reads tables and tiles, and parses greedily."""

from __future__ import annotations


class Table:
    """The symbols of a stored table."""

    def __init__(self, data: bytes) -> None:
        assert data[:4] == b"OnPt"
        self.bits = data[4]
        assert self.bits in (10, 11, 12)
        assert data[5:8] == b"\0\0\0"
        counts = [int.from_bytes(data[8 + 2 * i : 10 + 2 * i], "little") for i in range(15)]
        self.symbols = [bytes([byte]) for byte in range(256)]
        at = 38
        for length, count in enumerate(counts, 2):
            for _ in range(count):
                self.symbols.append(data[at : at + length])
                at += length
        assert at == len(data)
        assert len(self.symbols) <= 1 << self.bits

    def decode(self, codes: bytes, nbytes: int) -> bytes:
        """The characters of a tile of so many bytes."""
        if len(codes) == nbytes:
            return codes
        number = int.from_bytes(codes, "little")
        count = 8 * len(codes) // self.bits
        assert len(codes) == -(-count * self.bits // 8)
        assert number >> count * self.bits == 0
        mask = (1 << self.bits) - 1
        text = b"".join(self.symbols[number >> i * self.bits & mask] for i in range(count))
        assert len(text) == nbytes
        return text

    def encode(self, text: bytes) -> bytes:
        """What ours writes of a tile."""
        codes: dict[bytes, int] = {}
        for code, symbol in enumerate(self.symbols):
            codes.setdefault(symbol, code)
        number = count = at = 0
        while at < len(text):
            size = next(n for n in range(min(16, len(text) - at), 0, -1) if text[at : at + n] in codes)
            number |= codes[text[at : at + size]] << count * self.bits
            count += 1
            at += size
        nbytes = -(-count * self.bits // 8)
        return text if nbytes >= len(text) else number.to_bytes(nbytes, "little")
