"""Symbol tables: order, stored form, lookup tables."""

from __future__ import annotations

import copy
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst.codecs.fsst import kernel_tables
from cudf_fsst.codecs.fsst.symbols import SymbolTable, hash_slot

symbol_lists = st.lists(st.binary(min_size=1, max_size=8), max_size=255)


def test_code_order() -> None:
    table = SymbolTable.from_symbols([b"b", b"ab", b"abc", b"cd", b"12345678", b"a", b"xyz"])
    assert table.symbols == (b"cd", b"ab", b"abc", b"xyz", b"12345678", b"b", b"a")
    assert table.two_byte_limit == 2
    assert len(table) == 7


def test_export_layout() -> None:
    data = SymbolTable.from_symbols([b"a", b"cd", b"ab", b"abc"]).to_bytes()
    # One of the two two-byte symbols begins no longer one: suffix limit 1.
    assert (
        data
        == struct.pack("<QB", 20190218 << 32 | 1 << 24 | 4 << 8 | 1, 0) + bytes([1, 2, 1, 0, 0, 0, 0, 0]) + b"cdababca"
    )


@given(symbol_lists)
def test_bytes_round_trip(symbols: list[bytes]) -> None:
    table = SymbolTable.from_symbols(symbols)
    data = table.to_bytes()
    assert len(data) == table.nbytes
    again = SymbolTable.from_bytes(data)
    assert again == table
    assert hash(again) == hash(table)
    assert again.to_bytes() == data
    assert pickle.loads(pickle.dumps(table)) == table


@given(symbol_lists)
def test_lookup_tables(symbols: list[bytes]) -> None:
    table = SymbolTable.from_symbols(symbols)
    for code, symbol in enumerate(table.symbols):
        assert table.decode_symbols[code] == int.from_bytes(symbol, "little")
        assert table.decode_lengths[code] == len(symbol)
    assert not table.decode_lengths[len(symbols) :].any()
    assert not table.decode_symbols[len(symbols) :].any()

    first = {symbol: code for code, symbol in reversed(list(enumerate(table.symbols)))}
    for byte in range(256):
        assert table.byte_codes[byte] == first.get(bytes([byte]), 255)
    for pair in {symbol[:2].ljust(2, b"\0") for symbol in symbols} | {b"\0\0", b"ab"}:
        expected = first.get(pair, first.get(pair[:1], 255))
        assert table.pair_codes[pair[0] | pair[1] << 8] == expected

    slots: dict[int, bytes] = {}
    for symbol in table.symbols:
        slot = hash_slot(int.from_bytes(symbol[:3], "little"))
        if len(symbol) > max(2, len(slots.get(slot, b""))):
            slots[slot] = symbol
    for slot in range(1024):
        meta, held = int(table.hash_meta[slot]), int(table.hash_symbols[slot])
        if slot in slots:
            assert held == int.from_bytes(slots[slot], "little")
            assert meta == len(slots[slot]) | first[slots[slot]] << 8
        else:
            assert meta == 3 | 255 << 8
            assert hash_slot(held) != slot


def test_lookup_tables_are_read_only() -> None:
    table = SymbolTable.from_symbols([b"abc"])
    for array in (
        table.decode_symbols,
        table.decode_lengths,
        table.pair_codes,
        table.byte_codes,
        table.hash_symbols,
        table.hash_meta,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_immutable() -> None:
    table = SymbolTable.from_symbols([b"abc"])
    with pytest.raises(AttributeError, match="symbols"):
        table.symbols = ()
    with pytest.raises(AttributeError, match="symbols"):
        del table.symbols


def test_equality() -> None:
    assert SymbolTable.from_symbols([b"ab", b"c"]) == SymbolTable.from_symbols([b"c", b"ab"])
    assert SymbolTable.from_symbols([b"ab"]) != SymbolTable.from_symbols([b"ac"])
    assert SymbolTable.from_symbols([b"ab"]) != "ab"


def test_repr_says_how_many() -> None:
    assert repr(SymbolTable.from_symbols([b"ab", b"c"])) == "<SymbolTable: 2 symbols, 20 bytes>"


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([b"ab"] * 256, "at most 255 symbols, not 256"),
        ([b""], "not 0"),
        ([b"123456789"], "not 9"),
    ],
)
def test_wrong_symbols(symbols: list[bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SymbolTable.from_symbols(symbols)


def test_constructor_wants_code_order() -> None:
    with pytest.raises(ValueError, match="out of code order"):
        SymbolTable((b"a", b"ab"))


@given(symbol_lists)
def test_as_the_gpu_exports_it(symbols: list[bytes]) -> None:
    """A table of words is the table of its symbols, whatever is asked of it first."""
    table = SymbolTable.from_symbols(symbols)
    exported = np.zeros(1, kernel_tables.TRAINED_TABLE)
    exported["symbols"], exported["lengths"] = table.decode_symbols, table.decode_lengths
    exported["count"] = len(table)
    for ask in (hash, len, repr, SymbolTable.to_bytes, copy.deepcopy, lambda one: one.decode_lengths.tobytes()):
        (found,) = kernel_tables.trained_tables(exported)
        assert ask(found) == ask(table)
        assert found == table
        assert found.symbols == table.symbols
    exported["symbols"] = 0  # the pinned array is used again
    assert found == table
    with pytest.raises(AttributeError, match="immutable"):
        kernel_tables.trained_tables(exported)[0].symbols = ()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:16], "truncated: 16 bytes"),
        (lambda data: data[:-1], "truncated"),
        (lambda data: data + b"x", "too long"),
        (lambda data: b"\0" + data[1:], "byte order mark 0"),
        (lambda data: data[:4] + b"\0" + data[5:], "version"),
        (lambda data: data[:8] + b"\1" + data[9:], "zero-terminated"),
        (lambda data: data[:1] + b"\7" + data[2:], "names 7 symbols"),
        (lambda data: data[:9] + b"\2" + data[10:], "sum to 5"),
    ],
)
def test_damaged_bytes(damage, message) -> None:
    data = SymbolTable.from_symbols([b"a", b"cd", b"ab", b"abc"]).to_bytes()
    with pytest.raises(ValueError, match=message):
        SymbolTable.from_bytes(damage(data))


@given(st.binary(max_size=80))
def test_any_bytes(data: bytes) -> None:
    try:
        table = SymbolTable.from_bytes(data)
    except ValueError:
        return
    assert table.nbytes == len(data)


@pytest.mark.parametrize("symbols", [[b"ab"], b"ab", ("ab",), (7,), (bytearray(b"ab"),), None], ids=repr)
def test_wants_a_tuple_of_bytes(symbols: object) -> None:
    with pytest.raises(TypeError, match=r"^(symbols must be a tuple in code order|a symbol must be bytes), not "):
        SymbolTable(symbols)


def test_accepts_buffers() -> None:
    table = SymbolTable.from_symbols([b"a", b"cd"])
    data = table.to_bytes()
    assert SymbolTable.from_bytes(bytearray(data)) == table
    for other in (50, "text"):  # bytes(50) is fifty zero bytes
        with pytest.raises(TypeError, match="bytes-like"):
            SymbolTable.from_bytes(other)
        with pytest.raises(TypeError, match="bytes-like"):
            SymbolTable.from_symbols([other])
    assert SymbolTable.from_bytes(memoryview(np.frombuffer(data, np.uint8))) == table
