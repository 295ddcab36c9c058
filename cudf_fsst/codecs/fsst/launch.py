"""What the host must know to launch the FSST kernels: constants, sizes, launch shapes.

Needs no GPU and no CuPy, so that the emulated kernels are launched by the same rules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..part import align
from ..text import launch as text
from ..text.launch import BUNDLE_TILES, SearchShape, Shape
from ..text.layout import ROW_BLOCK, TILE_SIZES
from ..text.plan import SAMPLE_CHUNK, SAMPLE_CHUNKS
from . import train, train_max
from .automaton import COST_SHIFT
from .kernel_tables import DECODE_TABLE_NBYTES, MAX_TABLES, PAIR_MULTIPLIER, PAIRS_NBYTES
from .symbols import HASH_MULTIPLIER, HASH_SHIFT, HASH_SLOTS


class TableSearchView(NamedTuple):
    """The scope of a table that fsst_train_max.cu searches; addresses of its view, its `TRAINED_TABLE` and its room."""

    scope: int
    trained: int
    search: int


#: Symbol tables that a thread block of fsst_take.cu keeps in shared memory.
TAKE_TABLES = 4
#: Constants compiled into the kernels.
DEFINES = {
    **text.TAKE_DEFINES,
    "HASH_SLOTS": HASH_SLOTS,
    "HASH_SHIFT": HASH_SHIFT,
    "HASH_MULTIPLIER": HASH_MULTIPLIER,
    "PAIR_MULTIPLIER": PAIR_MULTIPLIER,
    "TAKE_TABLES": TAKE_TABLES,
}


def defines(tile_size: int) -> dict[str, int]:
    """Constants of fsst_decode.cu for a tile size."""
    return {**DEFINES, "TILE": tile_size, "DECODE_ROW_EXTRA_NBYTES": _ROW_NBYTES_EXTRA}


def match_defines(tile_size: int = 0) -> dict[str, int]:
    """Constants of fsst_automata.cu and fsst_values.cu and, with a tile size, of fsst_search.cu."""
    return {
        **(defines(tile_size) if tile_size else DEFINES),
        **(text.search_defines(tile_size) if tile_size else text.values_defines()),
        "SEARCH_THREADS": 32 * _SEARCH_WARPS_MAX,
    }


def edges_defines(shared_per_block: int) -> dict[str, int]:
    """Constants of fsst_edges.cu for a GPU."""
    return {
        **DEFINES,
        "EDGES_THREADS": 32 * edges_warps(shared_per_block),
        "EDGES_BLOCKS": EDGES_BLOCKS,
        "EDGES_STEPS": EDGES_STEPS,
        "EDGES_WARP_WORDS": _edges_warp_words(),
    }


def rows_defines(tile_size: int = 0) -> dict[str, int]:
    """Constants of fsst_rows_lift.cu and, with a tile size, of fsst_rows.cu."""
    return {
        **DEFINES,
        **(text.rows_defines(tile_size) if tile_size else {}),
        "ROWS_THREADS": 32 * _ROWS_RESIDENT,
        "ROWS_THREADS_90": 32 * _ROWS_RESIDENT_90,
        "WIDE_SHIFT": ROWS_PLACES[0],
        "NARROW_SHIFT": ROWS_PLACES[1],
    }


def encode_defines(tile_size: int, shared_per_block: int, most_warps: int | None = None) -> dict[str, int]:
    """Constants of fsst_encode.cu for a tile size, a GPU, and `encode_shape`'s `most_warps`."""
    return {
        **defines(tile_size),
        "ENCODE_ROW_EXTRA_WORDS": _ROW_EXTRA_WORDS,
        "ENCODE_KEPT_NBYTES": _ENCODE_KEPT_NBYTES,
        "ENCODE_GROUP": ENCODE_GROUP,
        "PAIRS_IN_SHARED": int(pairs_in_shared(tile_size, shared_per_block)),
        "ENCODE_THREADS": encode_shape(tile_size, shared_per_block, most_warps).threads,
    }


def train_defines(shared_per_block: int) -> dict[str, int]:
    """Constants of fsst_train.cu for a GPU."""
    places = train_places(shared_per_block)
    return {
        **DEFINES,
        "SAMPLE_CHUNK": SAMPLE_CHUNK,
        "SAMPLE_CHUNKS": SAMPLE_CHUNKS["default"],
        "TRAIN_GENERATIONS": len(train.GENERATIONS),
        "TRAIN_PARTS": int.from_bytes(bytes(train.GENERATIONS), "little"),
        "TRAIN_SPREAD": int(train.SPREAD),
        "TRAIN_MIN_COUNT": train.MIN_COUNT,
        "TRAIN_BYTE_WEIGHT": train.BYTE_WEIGHT,
        "TRAIN_THREADS": TRAIN_THREADS,
        "TRAIN_TABLES_NBYTES": _TRAIN_TABLES_NBYTES,
        "TRAIN_MATCHES_NBYTES": _TRAIN_MATCHES_NBYTES,
        "TRAIN_CANDIDATES_NBYTES": _TRAIN_CANDIDATES_NBYTES,
        "TRAIN_MATCHES_IN_SHARED": int(places.matches_in_shared),
        "TRAIN_CANDIDATES_IN_SHARED": int(places.candidates_in_shared),
        "TRAIN_SCRATCH_NBYTES": places.scratch,
        "TRAIN_CLUSTER_NBYTES": TRAIN_CLUSTER_NBYTES,
        "CLUSTER_BLOCKS": TRAIN_CLUSTER,
    }


def train_max_defines() -> dict[str, int]:
    """Constants of fsst_train_max.cu."""
    return {
        **DEFINES,
        "SAMPLE_CHUNK": SAMPLE_CHUNK,
        "MAX_SAMPLE_CHUNKS": SAMPLE_CHUNKS["max"],
        "STRETCH": train_max.STRETCH,
        "SHARE_CHUNKS": train_max.SHARE // SAMPLE_CHUNK,
        "MOST_SYMBOLS": train_max.MOST_SYMBOLS,
        "BUCKET_BITS": train_max.BUCKET_BITS,
        "MOST_BUCKETS": train_max.MOST_BUCKETS,
        "MOST_STRINGS": train_max.MOST_STRINGS,
        "STRING_SLOTS": train_max.STRING_SLOTS,
        "CHECK_MARGIN": train_max.CHECK_MARGIN,
        "SEARCH_THREADS": _SEARCH_THREADS,
        "PARSE_THREADS": _PARSE_THREADS,
        "SELECT_THREADS": _SELECT_THREADS,
        "BLOCK_CHUNKS": _PARSE_CHUNKS,
        "SEARCH_NBYTES": SEARCH_NBYTES,
    }


def encode_max_defines(tile_size: int, shared_per_block: int) -> dict[str, int]:
    """Constants of fsst_encode_max.cu for a tile size and a GPU."""
    threads = encode_max_shape(tile_size, shared_per_block, 0).threads
    return {**defines(tile_size), "COST_SHIFT": COST_SHIFT, "ENCODE_MAX_THREADS": threads}


def file_defines(file: str, tile_size: int, shared_per_block: int, encode_warps: int | None = None) -> dict[str, int]:
    """Constants that one of the codec's files is compiled with; `tile_size` 0: those of a file for all tile sizes."""
    if file == "fsst_encode":
        return encode_defines(tile_size, shared_per_block, encode_warps)
    if file == "fsst_encode_max":
        return encode_max_defines(tile_size, shared_per_block)
    if file in ("fsst_train", "fsst_train_cluster"):
        return train_defines(shared_per_block)
    if file == "fsst_train_max":
        return train_max_defines()
    if file in ("fsst_automata", "fsst_search", "fsst_values"):
        return match_defines(tile_size)
    if file == "fsst_edges":
        return edges_defines(shared_per_block)
    if file == "fsst_check":
        return text.CHECK_DEFINES
    if file in ("fsst_rows", "fsst_rows_lift"):
        return rows_defines(tile_size)
    return defines(tile_size) if tile_size else DEFINES


_TILED = ("fsst_decode", "fsst_encode", "fsst_encode_max", "fsst_rows", "fsst_search")
_FOR_ALL_TILES = (
    "fsst_automata",
    "fsst_check",
    "fsst_edges",
    "fsst_rows_lift",
    "fsst_take",
    "fsst_train",
    "fsst_train_max",
    "fsst_values",
)


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    clusters = ("fsst_train_cluster",) if train_in_clusters(1, shared_per_block) else ()
    return {
        **{file: [file_defines(file, size, shared_per_block) for size in TILE_SIZES] for file in _TILED},
        **{file: [file_defines(file, 0, shared_per_block)] for file in (*_FOR_ALL_TILES, *clusters)},
    }


@lru_cache(64)
def pairs_in_shared(tile_size: int, shared_per_block: int) -> bool:
    """Whether four warps fit beside the table of two-byte symbols."""
    return shared_per_block >= _SHARED_ENCODE_NBYTES + PAIRS_NBYTES + 4 * _encode_warp_nbytes(tile_size)


def _encode_warp_nbytes(tile_size: int) -> int:
    return BUNDLE_TILES * 4 * (tile_size // 4 + _ROW_EXTRA_WORDS)


#: Warps of a block that fsst_decode is compiled for.
DECODE_WARPS_MAX = 8

#: Bytes of an automaton of codes, for each state of that of bytes.
AUTOMATON_NBYTES = 2 * 256 * 4
#: Steps of 1,024 codes that a warp of fsst_edges adds up at a time, and warps of its blocks at most, and blocks.
EDGES_STEPS, EDGES_WARPS, EDGES_BLOCKS = 3, 32, 1
_EDGES_TABLES_NBYTES = 256 * (4 * 32 + 8)
#: Characters that a warp of fsst_edges has at a time, about.
EDGES_UNIT_CHARS = 48 << 10
#: Bytes that rows have at least and at most, on average, where it answers; fewer are enough where nearly all tiles are
#: raw, or for patterns of at most so many bytes, of which a row's first code often says enough. Characters that a
#: segment has at most there.
EDGES_LEAST_ROW, EDGES_LEAST_RAW, EDGES_MOST_ROW = 80, 40, 512
EDGES_LEAST_SHORT, EDGES_SHORT = 45, 8
EDGES_MOST_CHARS = (1 << 29) - 1
#: Warps of a block that fsst_search is compiled for, and of a multiprocessor, as its registers allow.
_SEARCH_WARPS_MAX = 20
_SEARCH_RESIDENT = 40
#: Bytes of an automaton of rows that reads codes, for each state of that of bytes, and of its restarts.
ROWS_NBYTES, RESTARTS_NBYTES = 2 * 256 * 4, 256 * 8 * 2
#: Where its entries have a state: wide ones, and narrow ones, which have room for so many.
ROWS_PLACES, NARROW_STATES = (5, 8), 128
#: Warps of a block that fsst_rows.cu is compiled for, and of a multiprocessor, as registers allow; fsst_rows on sm_90.
_ROWS_RESIDENT, _ROWS_RESIDENT_90 = 24, 32

#: Waves that fsst_encode takes together at most, as if they were one.
ENCODE_GROUP = 8
# What fsst_encode always keeps in shared memory: of the tables, and of its waves.
_ENCODE_KEPT_NBYTES = 24 + (16 + 32) * ENCODE_GROUP
_SHARED_ENCODE_NBYTES = HASH_SLOTS * 10 + 256 + _ENCODE_KEPT_NBYTES

#: Threads of a block of fsst_train.
TRAIN_THREADS = 1024
#: Bytes of the counts of pairs that fsst_train needs for a table, and of what it exports of it.
TRAIN_COUNTS_NBYTES = 512 * 512 * 2
_TRAIN_TABLES_NBYTES = 62 * 1024
_TRAIN_CANDIDATE_SLOTS = 8192
_TRAIN_MATCHES_NBYTES = 2 * (SAMPLE_CHUNKS["default"] * (SAMPLE_CHUNK + 10) + _TRAIN_CANDIDATE_SLOTS)
_TRAIN_CANDIDATES_NBYTES = 8 * _TRAIN_CANDIDATE_SLOTS
#: Blocks of a cluster of fsst_train_cluster, shared memory of each, and clusters that an H200 runs at a time.
TRAIN_CLUSTER = 8
TRAIN_CLUSTER_NBYTES = align(
    _TRAIN_TABLES_NBYTES
    + _TRAIN_CANDIDATES_NBYTES
    + TRAIN_COUNTS_NBYTES // TRAIN_CLUSTER
    + 2 * 2 * (SAMPLE_CHUNKS["default"] // TRAIN_CLUSTER * (SAMPLE_CHUNK + 10))
    + 2 * _TRAIN_CANDIDATE_SLOTS
)
_TRAIN_CLUSTERS = 14

# Threads of a block of fsst_train_max.cu, of most kernels, of a parse and of the selection; chunks of the sample that a
# block parses; blocks for a scope of the kernel that counts classes.
_SEARCH_THREADS, _PARSE_THREADS, _SELECT_THREADS = 256, 512, 1024
_PARSE_CHUNKS = 8
_CLASSES_BLOCKS = 16
_SAMPLE_NBYTES = SAMPLE_CHUNK * SAMPLE_CHUNKS["max"]
_LIST_NBYTES = 9 * (train_max.MOST_SYMBOLS + 1)
#: Bytes that it needs for a table.
SEARCH_NBYTES = align(
    2 * (_SAMPLE_NBYTES + 16)
    + 4 * _LIST_NBYTES
    + 2 * train_max.SHARE
    + 16
    + 4 * (1 << train_max.BUCKET_BITS)
    + 8 * train_max.STRING_SLOTS
    + 4 * 256
    + 4 * 4 * (train_max.MOST_SYMBOLS + 1)
    + 16
)

# Of a lane's row in shared memory, beyond the tile.
_ROW_EXTRA_WORDS = 3
_ROW_NBYTES_EXTRA = 16


class MaxShape(NamedTuple):
    """Threads of a block, bytes of its shared memory, and bytes of the tables that are staged there."""

    threads: int
    shared: int
    staged: int


@lru_cache(64)
def encode_shape(tile_size: int, shared_per_block: int, most_warps: int | None = None) -> Shape:
    """Shape of fsst_encode: as many warps as the shared memory of one block holds, at most 32 or `most_warps`."""
    tables = _SHARED_ENCODE_NBYTES + (PAIRS_NBYTES if pairs_in_shared(tile_size, shared_per_block) else 0)
    warp = _encode_warp_nbytes(tile_size)
    warps = min(most_warps or 32, (shared_per_block - tables) // warp)
    if warps < 1:
        raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {shared_per_block} bytes")
    return Shape(32 * warps, tables + warps * warp)


@lru_cache(64)
def encode_max_shape(tile_size: int, shared_per_block: int, tables_nbytes: int) -> MaxShape:
    """Shape of fsst_encode_max for `max_tables` of so many bytes.

    The tables are staged in shared memory if half of the warps still fit, of those that would without. Else only their
    beginning is, and a third of the shared memory is left to the L1, for the rest of them.
    """
    warp, header = BUNDLE_TILES * (tile_size + 4), MAX_TABLES.itemsize
    if shared_per_block < header + warp:
        raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {shared_per_block} bytes")
    most = min(32, (shared_per_block - header) // warp)
    staged = max(tables_nbytes, header)
    warps = min(32, (shared_per_block - staged) // warp)
    if 2 * warps < most:
        staged, warps = header, max(1, min(32, (shared_per_block * 2 // 3 - header) // warp))
    return MaxShape(32 * warps, staged + warps * warp, staged)


class SearchStep(NamedTuple):
    """A launch of a kernel of fsst_train_max.cu; `arguments` follow the views."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: tuple[np.generic, ...]


@lru_cache(16)
def search_steps(scopes: int, chars_limit: int, rounds: tuple[int, ...]) -> tuple[SearchStep, ...]:
    """The launches that search the tables of scopes, of at most so many characters each, one after another.

    `rounds`: see `train_max.ROUNDS`.
    """
    sample = min(chars_limit, _SAMPLE_NBYTES)
    parse_blocks = max(1, -(-sample // (_PARSE_CHUNKS * SAMPLE_CHUNK)))
    collect_blocks = max(1, -(-min(sample, train_max.SHARE) // _SEARCH_THREADS))
    steps = []

    def step(name: str, blocks: int, threads: int, *arguments: np.generic, tables: int = 1) -> None:
        steps.append(SearchStep(f"fsst_max_{name}", (blocks, scopes, tables), threads, arguments))

    def parse(stage: int, number: int, part: int = -1) -> None:
        numbers = np.uint32(stage), np.uint32(number), np.uint32(part % 2**32)
        step("parse", parse_blocks, _PARSE_THREADS, *numbers, tables=2 if stage == check else 1)

    joined, thinned, of_round, check = range(4)
    step("begin", parse_blocks, _SEARCH_THREADS)
    for i, joining in enumerate(rounds):
        parse(of_round, 3 * i, i)
        step("classes", _CLASSES_BLOCKS, _SEARCH_THREADS)
        step("collect", collect_blocks, _SEARCH_THREADS, np.uint32(i))
        step("select", 1, _SELECT_THREADS, np.uint32(3 * i), np.uint32(joining))
        parse(joined, 3 * i + 1)
        parse(thinned, 3 * i + 2)
    last = 3 * len(rounds)
    parse(of_round, last)
    step("select", 1, _SELECT_THREADS, np.uint32(last), np.uint32(0))
    parse(check, last + 1)
    step("choose", 1, _SEARCH_THREADS)
    return tuple(steps)


class TrainPlaces(NamedTuple):
    """Where fsst_train keeps its two large arrays; bytes of dynamic shared memory, of global memory for a table."""

    matches_in_shared: bool
    candidates_in_shared: bool
    shared: int
    scratch: int


@lru_cache(64)
def train_places(shared_per_block: int) -> TrainPlaces:
    """Shared memory for both arrays, for the first alone, or for none."""
    large = _TRAIN_MATCHES_NBYTES + _TRAIN_CANDIDATES_NBYTES
    for shared in (large, _TRAIN_MATCHES_NBYTES, 0):
        if _TRAIN_TABLES_NBYTES + shared <= shared_per_block:
            return TrainPlaces(shared > 0, shared == large, _TRAIN_TABLES_NBYTES + shared, large - shared)
    raise ValueError(f"training needs more shared memory than this GPU's {shared_per_block} bytes")


def train_in_clusters(scopes: int, shared_per_block: int) -> bool:
    """Whether clusters of blocks train the tables: GPUs with so much shared memory have clusters, too.

    Where not all clusters run at a time, a block a table is faster.
    """
    return shared_per_block >= TRAIN_CLUSTER_NBYTES and scopes <= _TRAIN_CLUSTERS


@lru_cache(64)
def decode_shape(
    tile_size: int,
    codes_capacity: int,
    shared_per_block: int,
    shared_per_multiprocessor: int,
    most_warps: int | None = None,
) -> Shape:
    """Shape of fsst_decode: the most warps that fit a multiprocessor; less `codes_capacity` where not even one does.

    With `most_warps` a block has that many, or as many as fit it.
    """
    while codes_capacity >= tile_size + 16:
        per_warp = BUNDLE_TILES * (tile_size + _ROW_NBYTES_EXTRA) + 32 + codes_capacity
        best, most = Shape(0, 0), 0
        for warps in range(1, (most_warps or DECODE_WARPS_MAX) + 1):
            shared = DECODE_TABLE_NBYTES + warps * per_warp
            resident = warps * (shared_per_multiprocessor // (shared + 1024))
            score = warps if most_warps else resident
            if shared <= shared_per_block and score >= most:
                best, most = Shape(32 * warps, shared, codes_capacity, resident), score
        if most:
            return best
        codes_capacity = align(codes_capacity // 2)
    raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {shared_per_block} bytes")


@lru_cache(256)
def search_shape(
    tile_size: int, codes_capacity: int, states: int, planes: int, shared_per_block: int, shared_per_multiprocessor: int
) -> SearchShape:
    """Shape of fsst_search. The automaton is in shared memory if half of the warps fit of those that would without."""
    beside = 4 * planes * (BUNDLE_TILES * (tile_size // 32 + 1) + text.OVERHANG_WORDS)
    most = _SEARCH_WARPS_MAX, _SEARCH_RESIDENT
    limits = shared_per_block, shared_per_multiprocessor
    return text.staging_shape(tile_size, codes_capacity, AUTOMATON_NBYTES * states, 4, beside, most, *limits)


def _edges_warp_words() -> int:
    """Words that a warp of fsst_edges has in shared memory."""
    return 32 * EDGES_STEPS * (2 + 8) + 64 + 24 + 128 + ROW_BLOCK + 32


def edges_warps(shared_per_block: int) -> int:
    """Warps of a block of fsst_edges, as its shared memory allows."""
    return min(EDGES_WARPS, (shared_per_block - _EDGES_TABLES_NBYTES) // (4 * _edges_warp_words()))


def edges_shape(
    rows: int, chars: int, codes_nbytes: int, most: int, length: int, shared_per_block: int
) -> text.EdgesShape | None:
    """Shape of fsst_edges; None where a search answers sooner.

    `most`: the most characters of a segment; `length`: bytes of the pattern.
    """
    least = EDGES_LEAST_ROW
    if length <= EDGES_SHORT:
        least = min(least, EDGES_LEAST_SHORT)
    if codes_nbytes > 0.95 * chars:
        least = min(least, EDGES_LEAST_RAW)
    if not least * rows <= chars <= EDGES_MOST_ROW * rows or most > EDGES_MOST_CHARS:
        return None
    unit = EDGES_UNIT_CHARS * rows // (ROW_BLOCK * max(chars, 1))
    warps = edges_warps(shared_per_block)
    shared = _EDGES_TABLES_NBYTES + warps * 4 * _edges_warp_words()
    return text.EdgesShape(32 * warps, shared, min(max(unit, 1), 8), EDGES_BLOCKS)


def rows_resident(architecture: int, staged: bool) -> int:
    """Warps of a multiprocessor that fsst_rows is compiled for, or fsst_rows_large."""
    return _ROWS_RESIDENT_90 if architecture == 90 and staged else _ROWS_RESIDENT
