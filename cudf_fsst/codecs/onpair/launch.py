"""What OnPair's kernels must be told: constants, layouts of tables, launch shapes. Needs no GPU."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...lazy import weakly_cached
from ..part import align
from ..text import launch as text
from ..text.layout import TILE_SIZES
from ..text.plan import SAMPLE_CHUNK
from . import plan, prefixes, train
from .symbols import BITS, BYTES, OnPairTable

#: Threads of a block of onpair_encode at most, and where a block has less than so many bytes of shared memory.
ENCODE_THREADS, FEW_ENCODE_THREADS, _ENCODE_SHARED = 896, 512, 160 << 10
#: Of a GPU's multiprocessors so many 128ths have no block of onpair_encode, but text_compact of the segment before.
COMPACT_SHARE = 2
#: Threads of a block of onpair_encode_few, and bundles of its launches for each multiprocessor at most.
ENCODE_FEW_THREADS, FEW_BUNDLES = 1024, 3
#: Threads of a block of onpair_decode at most, and of a multiprocessor, as its registers allow.
DECODE_THREADS, _DECODE_RESIDENT = 512, 768
#: Bytes of a lane's row of onpair_decode beside its tile: its misalignment, and what four steps may write past it.
_ROW_NBYTES_EXTRA = 48
#: Threads of a block of onpair_train; of those that count in a chunk, at least; shared memory, without the table.
TRAIN_THREADS, _LEAST_CHUNK_THREADS, _TRAIN_SHARED = 1024, 128, 37 << 10
#: Chunks of a sample for each block of onpair_train, at least.
BLOCK_CHUNKS = 2
#: Warps of a block of onpair_search, and of a multiprocessor, as registers allow. One block may have all of them where
#: it may have so many bytes of shared memory.
_SEARCH_WARPS, _SEARCH_RESIDENT, _SEARCH_ALONE = 14, 28, 160 << 10
#: Bytes of a warp behind its staged codes: what the last tile runs on into, and what is read with the last codes.
_SEARCH_SPARE_NBYTES = text.RUN_ON_NBYTES + 48
#: Blocks of onpair_automata that share the codes of a state, and its constants.
AUTOMATA_PARTS = 8
AUTOMATA_DEFINES = {**text.MATCH_DEFINES, "AUTOMATA_PARTS": AUTOMATA_PARTS}
#: Codes of a block of onpair_rows_lift.
LIFT_CODES = 32
#: Warps of a multiprocessor that onpair_rows is compiled for, in blocks of half as many, as its registers allow.
ROWS_RESIDENT = 24
#: Of kernels/onpair.cuh: what the entries and buckets follow.
ONPAIR_TABLE = np.dtype(
    [(name, "<u4") for name in ("bits", "codes", "first_eight", "first_long", "first_full", "nbytes", "one", "unused")]
)
ONPAIR_LOOKUP = np.dtype([(name, "<u4") for name in ("bits", "count", "unused", "nbytes")])
_u64 = np.uint64
_HASHES = {
    **{f"HASH_{i}": multiplier for i, multiplier in enumerate(prefixes.MULTIPLIERS)},
    "HASH_LENGTH": prefixes.LENGTH_MULTIPLIER,
}


def defines(tile_size: int, staged: bool = True) -> dict[str, int]:
    """Constants of onpair_encode.cu and onpair_decode.cu for a tile size; `staged`: tables lie in shared memory."""
    return {
        **text.DEFINES,
        "TILE": tile_size,
        "STAGED": int(staged),
        "ENCODE_THREADS": ENCODE_THREADS,
        "FEW_ENCODE_THREADS": FEW_ENCODE_THREADS,
        "ENCODE_FEW_THREADS": ENCODE_FEW_THREADS,
        "DECODE_THREADS": DECODE_THREADS,
        "DECODE_ROW_EXTRA_NBYTES": _ROW_NBYTES_EXTRA,
        **_HASHES,
    }


def search_defines(tile_size: int) -> dict[str, int]:
    """Constants of onpair_search.cu for a tile size."""
    more = {"SEARCH_THREADS": 32 * _SEARCH_RESIDENT, "SEARCH_SPARE_NBYTES": _SEARCH_SPARE_NBYTES}
    return {**text.search_defines(tile_size), **more}


def rows_defines(tile_size: int) -> dict[str, int]:
    """Constants of onpair_rows.cu for a tile size."""
    return {**text.rows_defines(tile_size), "ROWS_THREADS": 32 * ROWS_RESIDENT // 2}


def lift_defines() -> dict[str, int]:
    """Constants of onpair_rows_lift.cu."""
    return {**text.DEFINES, "LIFT_CODES": LIFT_CODES}


def train_in_shared(bits: int, shared_per_block: int) -> bool:
    """Whether each block of onpair_train has the table in training in its shared memory."""
    return shared_per_block >= train_shared(bits, True)


def train_shared(bits: int, in_shared: bool) -> int:
    """Bytes of shared memory of a block of onpair_train."""
    return _TRAIN_SHARED + (_growing_nbytes(bits) if in_shared else 0)


def train_defines(bits: int, in_shared: bool) -> dict[str, int]:
    """Constants of onpair_train.cu; `in_shared`: the table in training lies in shared memory."""
    return {
        **text.DEFINES,
        "SAMPLE_CHUNK": SAMPLE_CHUNK,
        "TRAIN_SPARE": train.SPARE,
        "TRAIN_HASH_LOW": train.HASH_LOW,
        "TRAIN_HASH_HIGH": train.HASH_HIGH,
        "TRAIN_PART": plan.SAMPLE_PART,
        "TRAIN_MIN_CHUNKS": plan.SAMPLE_MIN // SAMPLE_CHUNK,
        "TRAIN_MAX_CHUNKS": plan.SAMPLE_MAX // SAMPLE_CHUNK,
        "TRAIN_ROUNDS": len(train.ROUNDS),
        "TRAIN_THREADS": TRAIN_THREADS,
        "LEAST_CHUNK_THREADS": _LEAST_CHUNK_THREADS,
        "TRAIN_SHARED": _TRAIN_SHARED,
        "TRAIN_BITS": max(bits, 11),
        "TRAIN_IN_SHARED": int(in_shared),
        "GROWING_NBYTES": _growing_nbytes(bits),
        **_HASHES,
    }


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    trained = [train_defines(bits, train_in_shared(bits, shared_per_block)) for bits in (11, 12)]
    tiled = [defines(tile_size, staged) for tile_size in TILE_SIZES for staged in (True, False)]
    alone = {
        "onpair_automata": [AUTOMATA_DEFINES],
        "onpair_rows_lift": [lift_defines()],
        "onpair_check": [text.CHECK_DEFINES],
        "onpair_take": [text.TAKE_DEFINES],
        "onpair_train": trained,
        "onpair_values": [text.values_defines()],
    }
    searched = [search_defines(tile_size) for tile_size in TILE_SIZES]
    rows = [rows_defines(tile_size) for tile_size in TILE_SIZES]
    return {"onpair_encode": tiled, "onpair_decode": tiled, "onpair_search": searched, "onpair_rows": rows, **alone}


def table_nbytes(bits: int = max(BITS)) -> int:
    """Bytes of `decode_table` for codes of so many bits, at most."""
    return ONPAIR_TABLE.itemsize + 8 * ((2 << bits) - BYTES)


def lookup_nbytes(bits: int = max(BITS)) -> int:
    """Bytes of `lookup` for codes of so many bits."""
    return ONPAIR_LOOKUP.itemsize + 8 * prefixes.BUCKETS[bits] + (8 << bits) + (16 << bits)


@weakly_cached()
def decode_table(table: OnPairTable) -> npt.NDArray[np.uint8]:
    """An ``OnpairTable`` of kernels/onpair.cuh, its entries and its seconds."""
    codes, lengths = 1 << table.bits, table.lengths.astype(np.uint64)
    eight, longer, full = (int(i) for i in np.searchsorted(table.lengths[: len(table)], [8, 9, 16]))
    header = ONPAIR_TABLE.itemsize
    decoding = np.zeros(align(header + 8 * (2 * codes - longer), 16), np.uint8)
    decoding[:header].view(np.uint32)[:] = table.bits, codes, eight, longer, full, decoding.size, 1, 0
    entries, seconds = np.split(decoding[header:].view(np.uint64)[: 2 * codes - longer], [codes])
    entries[:] = table.words[:, 0]
    entries[:eight] |= lengths[:eight] << _u64(59)
    seconds[:] = table.words[longer:, 1][::-1]
    seconds[codes - full :] |= (lengths[longer:full] - _u64(8))[::-1] << _u64(59)
    return decoding


@weakly_cached()
def lookup(table: OnPairTable) -> npt.NDArray[np.uint8]:
    """An ``OnpairLookup`` of kernels/onpair.cuh, with buckets, longest symbols of prefixes, and symbols."""
    codes = 1 << table.bits
    rows = table.words.view(np.uint8).reshape(codes, 16)
    # Bytes 1 to 15, then byte 0.
    turned = np.roll(rows, -1, axis=1)
    bits = table.bits
    header = np.array([bits, prefixes.BUCKETS[bits], 0, lookup_nbytes(bits)], np.uint32)
    parts = header, *table.prefixes, np.ascontiguousarray(turned)
    return np.concatenate([part.view(np.uint8).ravel() for part in parts])


class TrainView(NamedTuple):
    """``TrainView`` of kernels/onpair_train.cu: a scope whose table is trained, and addresses of its room."""

    scope: int
    state: int
    sample: int
    extended: int
    pairs: int
    strings: int
    keys: int
    sources: int
    bits: int
    buckets: int
    draw_chunks: int
    most_chunks: int
    exported: int
    lookup: int
    arrived: int


class TrainRoom(NamedTuple):
    """Where the parts of a scope's room lie, and its bytes."""

    state: int
    sample: int
    extended: int
    pairs: int
    strings: int
    keys: int
    sources: int
    nbytes: int
    most_chunks: int


#: What onpair_train.cu exports of a table.
ONPAIR_TRAINED = np.dtype([("words", "<u8", 8192), ("lengths", "u1", 4096), ("count", "<u8")])
_BINS = 1 << 11


def _most_codes(bits: int) -> int:
    """Codes of a table in training at most; one kernel is for 10 and 11 bits."""
    return train.SPARE << max(bits, 11) >> 6


def _growing_nbytes(bits: int) -> int:
    """Bytes of the kernel's `Growing`."""
    return 17 * _most_codes(bits) + 4 * ((1 << 13) + (7 << max(bits, 11) >> 1) + 2)


def _state_nbytes(bits: int) -> int:
    """Bytes of the kernel's `TrainState`, which has a table where that is not in shared memory."""
    return align(_growing_nbytes(bits) + 8 + 4 * 4 + 8 * _most_codes(bits) + 4 * _BINS)


def _places_for(most: int) -> int:
    return (most + most // 4) // 1024 * 1024 + 1024


@lru_cache(64)
def train_room(chars: int, level: str, bits: int) -> TrainRoom:
    """Room for a scope of at most so many characters, and codes of so many bits."""
    chunks = -(-min(chars, plan.sample_nbytes(chars, level)) // SAMPLE_CHUNK)
    part = chunks * SAMPLE_CHUNK
    listed = part - part // 4 + _most_codes(bits)
    sizes = (
        *(_state_nbytes(bits), part, 16 * train.SPARE << bits, 8 * _places_for(part), 8 * _places_for(listed)),
        *(8 * listed, 4 * listed),
    )
    places = list(accumulate(map(align, sizes), initial=0))
    return TrainRoom._make((*places, chunks))


def train_view(room: TrainRoom, at: int, scope: int, bits: int, level: str, exported: int, lookup: int) -> TrainView:
    """The view of a scope whose room begins at an address; where its table goes, and the encoder's."""
    most = plan.SAMPLE_MAX // SAMPLE_CHUNK if level == "max" else 0
    places = [at + place for place in room[:7]]
    buckets = prefixes.BUCKETS[bits]
    return TrainView._make((scope, *places, bits, buckets, most, room.most_chunks, exported, lookup, 0))


#: Of the rounds, two words: a byte a round.
TRAIN_PARTS = tuple(
    np.uint64(sum((step | first << 4) << 8 * i for i, (step, first) in enumerate(rounds)))
    for rounds in (train.ROUNDS[:8], train.ROUNDS[8:])
)


def trained_tables(exported: npt.NDArray[np.uint8], scopes: int, bits: int) -> list[OnPairTable]:
    """The tables that were exported, bytes of `ONPAIR_TRAINED`."""
    return [trained_table(trained, bits) for trained in exported.view(ONPAIR_TRAINED)[:scopes]]


def trained_table(exported: np.void, bits: int) -> OnPairTable:
    """The table that was exported, one of `ONPAIR_TRAINED`."""
    count = int(exported["count"])
    return OnPairTable.of_arrays(bits, exported["words"][: 2 * count].reshape(-1, 2), exported["lengths"][:count])


class OnPairShape(NamedTuple):
    """Threads of a block, its shared memory, and what of that is for the table; 0: it is not staged."""

    threads: int
    shared: int
    table: int


def _shape(most_threads: int, shared_per_block: int, table: int, warp: int, name: str) -> OnPairShape:
    """With the table in shared memory, if half of the warps still fit of those that would without."""
    most = min(most_threads // 32, shared_per_block // warp)
    if most < 1:
        raise ValueError(f"{name} needs more shared memory than this GPU's {shared_per_block} bytes")
    warps = min(most, max(0, shared_per_block - table) // warp)
    if 2 * warps >= most:
        return OnPairShape(32 * warps, table + warps * warp, table)
    return OnPairShape(32 * most, most * warp, 0)


def encode_shape(tile_size: int, shared_per_block: int, bits: int) -> OnPairShape:
    """OnPairShape of onpair_encode."""
    threads = ENCODE_THREADS if shared_per_block >= _ENCODE_SHARED else FEW_ENCODE_THREADS
    warp = 32 * 4 * (tile_size // 8 - 3)
    shape = _shape(threads, shared_per_block, lookup_nbytes(bits), warp, "encoding")
    if shape.table:
        return shape
    threads = min(shape.threads, FEW_ENCODE_THREADS)
    return OnPairShape(threads, threads // 32 * warp, 0)


def encode_few_shape(tile_size: int, shared_per_block: int, bits: int) -> OnPairShape | None:
    """OnPairShape of onpair_encode_few; None where it has no room."""
    table = lookup_nbytes(bits)
    shared = table + 32 * (tile_size + 4 + 2 * (tile_size + 2))
    return OnPairShape(ENCODE_FEW_THREADS, shared, table) if shared <= shared_per_block else None


def automaton_nbytes(states: int, bits: int) -> int:
    """Bytes of an automaton of codes of so many bits: entries, and ends of two planes."""
    return 6 * states << bits


@lru_cache(256)
def search_shape(
    tile_size: int, codes_nbytes: int, states: int, planes: int, bits: int, limits: tuple[int, int]
) -> text.SearchShape:
    """Shape of onpair_search: the most warps that fit a multiprocessor, as `fsst.launch.search_shape` has them.

    `codes_nbytes`: of 32 tiles, on average; `limits`: shared memory of a block and of a multiprocessor. Ends lie beside
    the entries in shared memory where nearly as many warps fit. TPC-H SF 10 l_comment on an H200, as two blocks and as
    one: "special" 0.42 and 0.44 ms, "quickly final deposits" 0.45 and 0.35.
    """
    words = text.BUNDLE_TILES * (tile_size // 32 + 1) + text.OVERHANG_WORDS
    most = text.BUNDLE_TILES * tile_size + 16
    capacity = align(min(max(codes_nbytes + codes_nbytes // 8, 2 * tile_size), most), 256)
    entries = 2 * states << bits
    share = 4 if states == planes == 1 else 7  # onpair_search_alone, which wants the ends there, takes half as long
    while capacity >= tile_size + 16:
        warp = 4 * planes * words + capacity + _SEARCH_SPARE_NBYTES
        with_ends, without, large, alone = (
            text.shape_with(table, warp, capacity, (warps, _SEARCH_RESIDENT), *limits)
            for table, warps in (
                ((1 + planes) * entries, _SEARCH_WARPS),
                (entries, _SEARCH_WARPS),
                (0, _SEARCH_WARPS),
                (entries, _SEARCH_RESIDENT if limits[0] >= _SEARCH_ALONE else _SEARCH_WARPS),
            )
        )
        without = max(without, alone, key=lambda shape: shape.resident)
        if with_ends.resident and 8 * with_ends.resident >= share * max(without.resident, large.resident):
            return with_ends
        if without.resident and 2 * without.resident >= large.resident:
            return without
        if large.resident:
            return large
        capacity = align(capacity // 2)
    raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {limits[0]} bytes")


def rows_automaton_nbytes(states: int, bits: int) -> int:
    """Bytes of an automaton of rows that reads codes of so many bits: entries, and restarts."""
    return 4 * states + 32 << bits


@lru_cache(64)
def decode_shape(
    tile_size: int, codes_capacity: int, table: int, shared_per_block: int, shared_per_multiprocessor: int
) -> text.SearchShape:
    """Shape of onpair_decode, with as many bytes of codes for a warp as fit; `table`: bytes of it, if it is staged.

    Two blocks of a multiprocessor or more where these have three quarters of the warps of one: a block begins, and ends
    with its slowest warp, while the other works.
    """
    most = DECODE_THREADS // 32, _DECODE_RESIDENT // 32
    half = min(shared_per_block, shared_per_multiprocessor // 2 - 1024)
    while codes_capacity >= tile_size + 16:
        warp = text.BUNDLE_TILES * (tile_size + _ROW_NBYTES_EXTRA) + codes_capacity + 32
        single, double = (
            text.shape_with(table, warp, codes_capacity, most, limit, shared_per_multiprocessor)
            for limit in (shared_per_block, half)
        )
        if single.resident:
            return double if 4 * double.resident >= 3 * single.resident else single
        codes_capacity = align(codes_capacity // 2)
    raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {shared_per_block} bytes")


@lru_cache(8)
def decode_staged(tile_size: int, shared_per_block: int, shared_per_multiprocessor: int) -> bool:
    """Whether onpair_decode has tables in shared memory: where the largest leaves a quarter of the warps."""
    limits = shared_per_block, shared_per_multiprocessor
    without = decode_shape(tile_size, 2 * tile_size, 0, *limits)
    try:
        return 4 * decode_shape(tile_size, 2 * tile_size, table_nbytes(), *limits).resident >= without.resident
    except ValueError:
        return False
