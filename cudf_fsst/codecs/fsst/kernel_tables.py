"""Symbol tables as FSST's kernels read and write them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...lazy import weakly_cached
from ..part import align
from . import train_max
from .automaton import MAX_STATES, automaton
from .symbols import ESCAPE, HASH_SLOTS, SymbolTable

#: Spreads pairs of bytes over the banks of shared memory: of 65 odd numbers tried, the one with the fewest conflicts on
#: the ten files of the FSST paper.
PAIR_MULTIPLIER = 0x6BFF
#: Bytes of the codes of pairs of bytes.
PAIRS_NBYTES = 65536
#: The tables the kernels read.
ENCODE_TABLES = np.dtype(
    [
        *(("symbols", "<u8", HASH_SLOTS), ("meta", "<u2", HASH_SLOTS), ("singles", "u1", 256)),
        *(("pairs", "u1", PAIRS_NBYTES), ("two_byte_limit", "<u8")),
    ]
)
DECODE_TABLE = np.dtype([("entries", "<u8", 512), ("first_eight", "<u4"), ("eights", "<u4"), ("unused", "<u8")])
MAX_TABLES = np.dtype(
    [
        *(("states", "<u4"), ("classes", "<u4"), ("unused", "<u4", 2)),
        *(("lengths", "u1", 256), ("class_of", "u1", 256)),
    ]
)
ENCODE_TABLES_NBYTES, DECODE_TABLE_NBYTES = ENCODE_TABLES.itemsize, DECODE_TABLE.itemsize
MAX_TABLES_NBYTES = MAX_TABLES.itemsize + MAX_STATES * (8 + 256) * 2
#: What training exports of a table.
TRAINED_TABLE = np.dtype([("symbols", "<u8", 256), ("lengths", "u1", 256), ("count", "<u8")])


@lru_cache(1)
def pair_places() -> npt.NDArray[np.uint16]:
    """Where fsst_encode.cu looks up each pair of bytes, b0 | b1 << 8, in a mixed table of pairs."""
    return (np.arange(65536, dtype=np.uint16) * np.uint16(PAIR_MULTIPLIER)).byteswap()


def encode_tables(table: SymbolTable, mixed: bool) -> npt.NDArray[np.uint8]:
    """`EncodeTables` of fsst_encode.cu, as bytes; `mixed` where the pairs will lie in shared memory."""
    pairs = table.pair_codes
    if mixed:
        pairs = np.empty_like(pairs)
        pairs[pair_places()] = table.pair_codes
    unused = 64 - 8 * (table.hash_meta & 0xFF)
    tables = np.zeros(1, ENCODE_TABLES)
    tables["symbols"] = table.hash_symbols << unused.astype(np.uint64)
    tables["meta"] = table.hash_meta >> 8 | unused << 8
    tables["singles"], tables["pairs"], tables["two_byte_limit"] = table.byte_codes, pairs, table.two_byte_limit
    return tables.view(np.uint8)


def trained_tables(exported: npt.NDArray[np.void]) -> list[SymbolTable]:
    """The tables that fsst_train exported, an array of `TRAINED_TABLE`."""
    counts, data, lengths = exported["count"].tolist(), exported.tobytes(), TRAINED_TABLE["symbols"].itemsize
    tables = []
    for i, count in enumerate(counts):
        at = i * TRAINED_TABLE.itemsize
        tables.append(SymbolTable._of_words(data[at : at + 8 * count], data[at + lengths : at + lengths + count]))
    return tables


def searched_tables(exported: npt.NDArray[np.void]) -> list[SymbolTable]:
    """The tables that fsst_train_max.cu exported, an array of `TRAINED_TABLE`, symbols in any order."""
    counts = exported["count"].tolist()
    return [
        train_max.in_order(trained["symbols"][:count], trained["lengths"][:count])
        for trained, count in zip(exported, counts, strict=True)
    ]


def max_tables(table: SymbolTable) -> npt.NDArray[np.uint8]:
    """`MaxTables` of fsst_encode_max.cu and what follows it, as bytes; at most `MAX_TABLES_NBYTES`."""
    classes, following, entries = automaton(table)
    header = np.zeros(1, MAX_TABLES)
    header["states"], header["classes"] = following.shape
    header["lengths"] = table.decode_lengths
    header["lengths"][0, ESCAPE] = 1
    header["class_of"] = classes
    parts = [part.view(np.uint8).ravel() for part in (header, entries, following)]
    nbytes = sum(part.size for part in parts)
    return np.concatenate([*parts, np.zeros(align(nbytes) - nbytes, np.uint8)])


@weakly_cached(256)
def decode_table(table: SymbolTable) -> npt.NDArray[np.uint8]:
    """`DecodeTable` of fsst_decode.cu, as bytes: entries 256 and up are the literal bytes."""
    lengths = np.concatenate([table.decode_lengths, np.ones(256, np.uint8)])
    entries = np.concatenate([table.decode_symbols, np.arange(256, dtype=np.uint64)])
    eights = np.flatnonzero(lengths == 8)
    short = lengths < 8
    entries[short] |= lengths[short].astype(np.uint64) << np.uint64(59)
    record = np.zeros(1, DECODE_TABLE)
    record["entries"], record["first_eight"], record["eights"] = entries, eights[0] if eights.size else 0, eights.size
    return record.view(np.uint8)
