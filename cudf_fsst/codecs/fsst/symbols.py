"""Symbol tables: at most 255 symbols of 1 to 8 bytes, and the lookup tables made from them.

The stored form is the export layout of the original FSST library (docs/format.md, section 5), the encoder's
lookup tables follow section 6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...lazy import lazy

#: Code that says: the next byte stands for itself.
ESCAPE = 255
MAX_SYMBOLS = 255
MAX_SYMBOL_LENGTH = 8
# Bytes of a tile unless the user says how many. TPC-H l_comment on an H200: 128 decodes a tenth faster and has a 2 %
# lower ratio; 512 decodes a tenth slower and has a 1 % higher one. At 128 the ratio on genome falls below 0.99 of the
# original library's.
TILE_SIZE = 256
#: Slots of the encoder's table of symbols of three or more bytes.
HASH_SLOTS = 1024
# Of 1,827 random multipliers that lead the 64 three-letter words over acgt (and over ACGT) to 64 slots each, one of the
# ten with the best ratios on the ten files of the FSST paper, and of these the steadiest over sample sizes.
HASH_MULTIPLIER = 0xDDB001B7
HASH_SHIFT = 22

_VERSION = 20190218
_ENDIAN_MARKER = 1
_HEADER_NBYTES = 17


def hash_slot(prefix: int) -> int:
    """Slot of a symbol whose first three bytes are `prefix` (little-endian)."""
    return (prefix * HASH_MULTIPLIER & 0xFFFFFFFF) >> HASH_SHIFT


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


class SymbolTable:
    """At most 255 symbols of 1 to 8 bytes, each of which a code of one byte stands for.

    A table does not change. Tables with equal symbols are equal, and have equal hashes.

    Attributes
    ----------
    symbols : tuple of bytes
        Symbols in code order: all of length 2 first, then 3, ... 8, then 1.
    """

    #: Whose tables these are.
    codec = "fsst"
    _words: tuple[bytes, bytes]  # where `symbols` are still to be made of them

    def __init__(self, symbols: tuple[bytes, ...]) -> None:
        """Take symbols that are in code order already; see `from_symbols` for any other order."""
        if not isinstance(symbols, tuple):
            raise TypeError(
                f"symbols must be a tuple in code order, not {type(symbols).__name__}; from_symbols() takes any order"
            )
        if len(symbols) > MAX_SYMBOLS:
            raise ValueError(f"a symbol table holds at most {MAX_SYMBOLS} symbols, not {len(symbols)}")
        previous = 0
        for symbol in symbols:
            if not isinstance(symbol, bytes):
                raise TypeError(f"a symbol must be bytes, not {type(symbol).__name__}: {symbol!r}")
            if not 1 <= len(symbol) <= MAX_SYMBOL_LENGTH:
                raise ValueError(f"a symbol has 1 to {MAX_SYMBOL_LENGTH} bytes, not {len(symbol)}: {symbol!r}")
            rank = _length_rank(symbol)
            if rank < previous:
                raise ValueError(f"symbol {symbol!r} is out of code order")
            previous = rank
        self.__dict__["symbols"] = symbols

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a SymbolTable is immutable, cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SymbolTable is immutable, cannot delete {name!r}")

    @classmethod
    def _of_words(cls, words: bytes, lengths: bytes) -> SymbolTable:
        """Take 8 bytes and a length for every symbol, right and in code order; look at them when they are asked for.

        A column is compressed before that, so that making 255 objects need not delay it.
        """
        table = object.__new__(cls)
        table.__dict__["_words"] = words, lengths
        return table

    @lazy
    def symbols(self) -> tuple[bytes, ...]:
        words, lengths = self._words
        return tuple([words[8 * i : 8 * i + length] for i, length in enumerate(lengths)])

    @lazy
    def _hash(self) -> int:
        return hash(self.symbols)

    @classmethod
    def from_symbols(cls, symbols: Iterable[bytes]) -> SymbolTable:
        """Make a table from symbols in any order.

        Parameters
        ----------
        symbols : iterable of bytes
            They are sorted into code order: by length (2, 3, ... 8, 1), and among those of two bytes, first those that
            begin no longer symbol.

        Returns
        -------
        SymbolTable

        Raises
        ------
        ValueError
            There are more than 255 symbols, or one is empty or longer than 8 bytes.
        TypeError
            A symbol is not of bytes.
        """
        listed = [bytes(memoryview(symbol)) for symbol in symbols]  # bytes(3) would be three zero bytes
        beginnings = {symbol[:2] for symbol in listed if len(symbol) > 2}
        return cls(tuple(sorted(listed, key=lambda s: (_length_rank(s), len(s) == 2 and s in beginnings))))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> SymbolTable:
        """Read a table from the export layout of the original FSST library.

        Code order is kept. The suffix limit and the terminator are not, because a decoder needs neither.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
            All of the table, and nothing behind it.

        Returns
        -------
        SymbolTable

        Raises
        ------
        ValueError
            The bytes are truncated or too long, the version is unknown, counts do not add up, or the table is for
            zero-terminated strings.
        TypeError
            `data` is not of bytes.
        """
        data = bytes(memoryview(data))
        if len(data) < _HEADER_NBYTES:
            raise ValueError(f"symbol table is truncated: {len(data)} bytes, its header has {_HEADER_NBYTES}")
        (word,) = struct.unpack_from("<Q", data)
        if word & 0xFF != _ENDIAN_MARKER:
            raise ValueError(f"symbol table has byte order mark {word & 0xFF}, expected {_ENDIAN_MARKER}")
        if word >> 32 != _VERSION:
            raise ValueError(f"symbol table has version {word >> 32}, expected {_VERSION}")
        if data[8] != 0:
            raise ValueError(f"symbol table is for zero-terminated strings (flag {data[8]}), which is not supported")
        count = word >> 8 & 0xFF
        lengths = data[9:_HEADER_NBYTES]
        if sum(lengths) != count:
            raise ValueError(f"symbol table names {count} symbols, but its counts by length sum to {sum(lengths)}")
        nbytes = _HEADER_NBYTES + sum((i + 1) * n for i, n in enumerate(lengths))
        if len(data) != nbytes:
            what = "truncated" if len(data) < nbytes else "too long"
            raise ValueError(f"symbol table is {what}: {len(data)} bytes, its symbols need {nbytes}")
        symbols = []
        at = _HEADER_NBYTES
        for length in (2, 3, 4, 5, 6, 7, 8, 1):
            for _ in range(lengths[length - 1]):
                symbols.append(data[at : at + length])
                at += length
        return cls(tuple(symbols))

    def to_bytes(self) -> bytes:
        """Write the table in the export layout of the original FSST library (terminator 0)."""
        beginnings = {symbol[:2] for symbol in self.symbols if len(symbol) > 2}
        suffix_limit = 0
        while suffix_limit < self.two_byte_limit and self.symbols[suffix_limit] not in beginnings:
            suffix_limit += 1
        word = _VERSION << 32 | suffix_limit << 24 | len(self.symbols) << 8 | _ENDIAN_MARKER
        lengths = bytearray(MAX_SYMBOL_LENGTH)
        for symbol in self.symbols:
            lengths[len(symbol) - 1] += 1
        return struct.pack("<QB", word, 0) + lengths + b"".join(self.symbols)

    def expand(self, codes: bytes) -> bytes:
        """See `table.Table`."""
        expanded, symbols, place = bytearray(), self.symbols, 0
        while place < len(codes):
            if codes[place] == ESCAPE:
                place += 1
                expanded.append(codes[place])
            else:
                expanded += symbols[codes[place]]
            place += 1
        return bytes(expanded)

    @lazy
    def nbytes(self) -> int:
        """Bytes that `to_bytes` gives."""
        return _HEADER_NBYTES + int(self.decode_lengths.sum())

    @lazy
    def two_byte_limit(self) -> int:
        """Codes below it stand for two-byte symbols."""
        return sum(len(symbol) == 2 for symbol in self.symbols)

    @lazy
    def decode_symbols(self) -> npt.NDArray[np.uint64]:
        """Code -> its symbol as a little-endian number, uint64[256]; 0 for 255 and unused codes."""
        if "_words" in self.__dict__:
            joined, _ = self._words
        else:
            joined = b"".join(symbol.ljust(MAX_SYMBOL_LENGTH, b"\0") for symbol in self.symbols)
        array = np.zeros(256, np.uint64)
        array[: len(self)] = np.frombuffer(joined, "<u8")
        return _read_only(array)

    @lazy
    def decode_lengths(self) -> npt.NDArray[np.uint8]:
        """Code -> length of its symbol, uint8[256]; 0 for 255 and unused codes."""
        lengths = self._words[1] if "_words" in self.__dict__ else bytes(map(len, self.symbols))
        array = np.zeros(256, np.uint8)
        array[: len(lengths)] = np.frombuffer(lengths, np.uint8)
        return _read_only(array)

    @lazy
    def length_limits(self) -> npt.NDArray[np.uint8]:
        """The first code with a symbol of 3, 4, ... 8 bytes, or more, of 1, and without one; uint8[8]."""
        ranks = [_length_rank(symbol) for symbol in self.symbols]
        return _read_only(np.array([sum(rank < limit for rank in ranks) for limit in range(3, 11)], np.uint8))

    @lazy
    def byte_codes(self) -> npt.NDArray[np.uint8]:
        """Byte -> code of the one-byte symbol, or 255; uint8[256]."""
        array = np.full(256, ESCAPE, np.uint8)
        for code in range(len(self.symbols) - 1, -1, -1):
            symbol = self.symbols[code]
            if len(symbol) != 1:
                break
            array[symbol[0]] = code
        return _read_only(array)

    @lazy
    def pair_codes(self) -> npt.NDArray[np.uint8]:
        """Index ``b0 | b1 << 8`` -> code of the symbol ``b0 b1``, else of ``b0``, else 255; uint8[65536]."""
        array = np.tile(self.byte_codes, 256)
        for code in range(self.two_byte_limit - 1, -1, -1):
            symbol = self.symbols[code]
            array[symbol[0] | symbol[1] << 8] = code
        return _read_only(array)

    @lazy
    def _hash_tables(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        symbols = np.zeros(HASH_SLOTS, np.uint64)
        # An empty slot holds a symbol that no text leads to it: b"\0\0\0" belongs to slot 0, b"\1\0\0" does not.
        symbols[0] = 1
        meta = np.full(HASH_SLOTS, 3 | ESCAPE << 8, np.uint32)
        filled: dict[int, int] = {}
        for code in range(self.two_byte_limit, len(self.symbols)):
            symbol = self.symbols[code]
            if len(symbol) == 1:
                break
            slot = hash_slot(int.from_bytes(symbol[:3], "little"))
            if len(symbol) > filled.get(slot, 0):  # ascending codes: the first of the longest stays
                filled[slot] = len(symbol)
                symbols[slot] = int.from_bytes(symbol, "little")
                meta[slot] = len(symbol) | code << 8
        return _read_only(symbols), _read_only(meta)

    @property
    def hash_symbols(self) -> npt.NDArray[np.uint64]:
        """Slot -> symbol of three or more bytes as a little-endian number, uint64[1024]."""
        return self._hash_tables[0]

    @property
    def hash_meta(self) -> npt.NDArray[np.uint32]:
        """Slot -> ``length | code << 8`` of its symbol, uint32[1024].

        An empty slot has a three-byte symbol that belongs to another slot, so that no test for empty is needed.
        """
        return self._hash_tables[1]

    def __len__(self) -> int:
        return len(self._words[1]) if "_words" in self.__dict__ else len(self.symbols)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, SymbolTable):
            return NotImplemented
        return self._hash == other._hash and self.symbols == other.symbols

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return SymbolTable, (self.symbols,)

    def __repr__(self) -> str:
        return f"<SymbolTable: {len(self.symbols)} symbols, {self.nbytes} bytes>"


def _length_rank(symbol: bytes) -> int:
    """Place of a symbol's length in code order."""
    return len(symbol) if len(symbol) > 1 else MAX_SYMBOL_LENGTH + 1
