"""Tables of OnPair: codes of 10, 11 or 12 bits, symbols of 1 to 16 bytes (docs/format.md, section 23)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...lazy import lazy
from . import patricia, prefixes

#: Bits that a code may have.
BITS = (10, 11, 12)
#: Bytes of a symbol at most.
MAX_SYMBOL_LENGTH = 16
#: Bytes of a tile unless the user says how many.
TILE_SIZE = 256
#: Codes that are single bytes: code b is byte b.
BYTES = 256
_MAGIC = b"OnPt"
_HEADER = struct.Struct("<4sBxxx15H")
HEADER_NBYTES = _HEADER.size


@dataclass(frozen=True, eq=False)
class OnPairTable:
    """Symbols of a column and the bits of their codes. Immutable; equal to tables of the same bits, symbols and order.

    Parameters
    ----------
    bits : int
        Of a code: 10, 11 or 12.
    symbols : tuple of bytes
        Symbols of codes 256 and up, by ascending length, each of 2 to 16 bytes. Codes 0 to 255 are the single bytes.

    Raises
    ------
    ValueError
        Other bits, more symbols than there are codes, or symbols of another length or order.
    """

    bits: int
    symbols: tuple[bytes, ...]

    #: The codec that the table is of.
    codec = "onpair"
    #: Code of the first of the symbols.
    first_code = BYTES

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise ValueError(f"codes have one of {BITS} bits, not {self.bits!r}")
        most = (1 << self.bits) - BYTES
        if len(self.symbols) > most:
            raise ValueError(f"{len(self.symbols)} symbols are too many for codes of {self.bits} bits, with {most}")
        before = 2
        for symbol in self.symbols:
            if not before <= len(symbol) <= MAX_SYMBOL_LENGTH:
                raise ValueError(
                    f"symbol {symbol!r} has {len(symbol)} bytes; symbols have 2 to {MAX_SYMBOL_LENGTH}, ascending"
                )
            before = len(symbol)

    @classmethod
    def from_symbols(cls, bits: int, symbols: Iterable[bytes]) -> OnPairTable:
        """Make a table of symbols in any order: they are sorted by length, then by their bytes.

        Parameters
        ----------
        bits : int
            Of a code: 10, 11 or 12.
        symbols : iterable of bytes
            Each of 2 to 16 bytes.

        Returns
        -------
        OnPairTable

        Raises
        ------
        ValueError
            As the constructor.
        TypeError
            A symbol is not of bytes.
        """
        listed = [bytes(memoryview(symbol)) for symbol in symbols]  # bytes(3) would be three zero bytes
        return cls(bits, tuple(sorted(listed, key=lambda symbol: (len(symbol), symbol))))

    @classmethod
    def of_arrays(cls, bits: int, words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8]) -> OnPairTable:
        """Make the table that has these `words` and `lengths`, of codes 0 and up, as training finds them.

        Its symbols are made when they are asked for: that takes longer than to compress a small column.
        """
        table = object.__new__(cls)
        of_words, of_lengths = np.zeros((1 << bits, 2), np.uint64), np.zeros(1 << bits, np.uint8)
        of_words[: lengths.size], of_lengths[: lengths.size] = words, lengths
        table.__dict__.update(bits=bits, words=_read_only(of_words), lengths=_read_only(of_lengths))
        return table

    def __getattr__(self, name: str) -> Any:
        """The symbols of a table that was made of arrays."""
        if name != "symbols" or "words" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        lengths = self.lengths[BYTES : len(self)].tolist()
        data = self.words[BYTES:].astype("<u8").tobytes()
        symbols = tuple(data[MAX_SYMBOL_LENGTH * i : MAX_SYMBOL_LENGTH * i + n] for i, n in enumerate(lengths))
        self.__dict__["symbols"] = symbols
        return symbols

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> OnPairTable:
        """Read a table as `to_bytes` writes it.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
            All of the table, and nothing behind it.

        Returns
        -------
        OnPairTable

        Raises
        ------
        ValueError
            The bytes are truncated or too long, or no table.
        TypeError
            `data` is not of bytes.
        """
        data = bytes(memoryview(data))
        if len(data) < HEADER_NBYTES:
            raise ValueError(f"table is truncated: {len(data)} bytes, its header has {HEADER_NBYTES}")
        magic, bits, *counts = _HEADER.unpack_from(data)
        if magic != _MAGIC or data[5:8] != b"\0\0\0":
            raise ValueError(f"table begins with {data[:8]!r}, not with {_MAGIC!r}, bits and zeros")
        if bits not in BITS:
            raise ValueError(f"table has codes of {bits} bits, expected one of {BITS}")
        if sum(counts) > (1 << bits) - BYTES:
            raise ValueError(f"table names {sum(counts)} symbols, too many for codes of {bits} bits")
        nbytes = HEADER_NBYTES + sum((i + 2) * n for i, n in enumerate(counts))
        if len(data) != nbytes:
            what = "truncated" if len(data) < nbytes else "too long"
            raise ValueError(f"table is {what}: {len(data)} bytes, its symbols need {nbytes}")
        symbols = []
        at = HEADER_NBYTES
        for length, count in enumerate(counts, 2):
            symbols += [data[at + i * length : at + (i + 1) * length] for i in range(count)]
            at += count * length
        return cls(bits, tuple(symbols))

    def to_bytes(self) -> bytes:
        """Write the table as docs/format.md, section 23, says."""
        counts = [0] * (MAX_SYMBOL_LENGTH - 1)
        for symbol in self.symbols:
            counts[len(symbol) - 2] += 1
        return _HEADER.pack(_MAGIC, self.bits, *counts) + b"".join(self.symbols)

    def expand(self, codes: bytes) -> bytes:
        """See `table.Table`."""
        window, mask = int.from_bytes(codes, "little"), (1 << self.bits) - 1
        numbers = (window >> place & mask for place in range(0, 8 * len(codes) - self.bits + 1, self.bits))
        return b"".join(self.symbols[code - BYTES] if code >= BYTES else bytes((code,)) for code in numbers)

    @lazy
    def nbytes(self) -> int:
        """Bytes that `to_bytes` gives."""
        return HEADER_NBYTES + int(self.lengths[BYTES:].sum(dtype=np.int64))

    @lazy
    def words(self) -> npt.NDArray[np.uint64]:
        """Code -> its symbol as two little-endian numbers, zeros behind it; uint64[2^bits, 2], 0 for unused codes."""
        joined = b"".join(symbol.ljust(MAX_SYMBOL_LENGTH, b"\0") for symbol in self.symbols)
        array = np.zeros((1 << self.bits, 2), np.uint64)
        array[:BYTES, 0] = np.arange(BYTES)
        array[BYTES : BYTES + len(self.symbols)] = np.frombuffer(joined, "<u8").reshape(-1, 2)
        return _read_only(array)

    @lazy
    def lengths(self) -> npt.NDArray[np.uint8]:
        """Code -> bytes of its symbol, uint8[2^bits]; 0 for unused codes."""
        array = np.zeros(1 << self.bits, np.uint8)
        array[:BYTES] = 1
        array[BYTES : BYTES + len(self.symbols)] = [len(symbol) for symbol in self.symbols]
        return _read_only(array)

    @lazy
    def patricia(self) -> patricia.PatriciaTrie:
        """What the host finds the longest symbol with (``patricia.py``)."""
        trie = patricia.build(self.words, self.lengths, len(self), sizes=True)
        for array in trie:
            array.flags.writeable = False
        return trie

    @lazy
    def prefixes(self) -> prefixes.Lookup:
        """What a GPU's encoder finds the longest symbol with (``prefixes.py``)."""
        lookup = prefixes.build(self.words, self.lengths, len(self), self.bits)
        return prefixes.Lookup(_read_only(lookup.buckets), _read_only(lookup.longest))

    @lazy
    def head(self) -> npt.NDArray[np.uint64]:
        """The bits of a code, for kernels that take addresses; uint64[1]."""
        return _read_only(np.array([self.bits], np.uint64))

    @lazy
    def _hash(self) -> int:
        return hash((self.bits, self.words.tobytes(), self.lengths.tobytes()))

    @lazy
    def _count(self) -> int:
        return int(np.count_nonzero(self.lengths))

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, OnPairTable):
            return NotImplemented
        if self.bits != other.bits:
            return False
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.words, other.words)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return OnPairTable, (self.bits, self.symbols)

    def __repr__(self) -> str:
        return f"<OnPairTable: {len(self)} symbols, codes of {self.bits} bits, {self.nbytes} bytes>"


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
