"""What the host must know to launch the kernels of text: constants, descriptors of segments, shapes of launches.

Needs no GPU and no CuPy, so that the emulated kernels are launched by the same rules.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..part import ALIGNMENT, align
from . import values
from .layout import ROW_BLOCK, SECTIONS, TILE_BLOCK, TILE_SIZES, SegmentLayout
from .plan import SAMPLE_CHUNK
from .segment import Segment

#: Threads that sum up the lengths before a row.
LOCATE_LANES = 8
#: Rows of a thread block that takes rows tile by tile, and its threads; bits of a place.
TAKE_ROWS, TAKE_THREADS = 224, 256
PLACE_BITS = 40
#: Rows of a thread block of text_gather.cu, and as many threads.
GATHER_ROWS = 256
#: Bundles a thread block of text_compact copies: 8, 16 or 32.
COMPACT_BUNDLES = 16
#: Rows of a column that one thread block of row_lengths_look looks at: 32 warps have 8 row blocks each.
LOOK_ROWS = 1 << 16
#: Constants compiled into the kernels.
DEFINES = {
    "TILE_BLOCK": TILE_BLOCK,
    "ROW_BLOCK": ROW_BLOCK,
    "LOCATE_LANES": LOCATE_LANES,
    "GATHER_ROWS": GATHER_ROWS,
    "SECTION_ALIGNMENT": ALIGNMENT,
}
#: Constants of kernels that include text_take.cuh.
TAKE_DEFINES = {**DEFINES, "TAKE_ROWS": TAKE_ROWS, "TAKE_THREADS": TAKE_THREADS, "PLACE_BITS": PLACE_BITS}
#: Threads of a block that checks whether codes decode.
CHECK_THREADS = 256
#: Constants of kernels that include text_check.cuh.
CHECK_DEFINES = {**DEFINES, "CHECK_THREADS": CHECK_THREADS}
#: Threads of a block of text_sample, and its constants.
SAMPLE_THREADS = 256
SAMPLE_DEFINES = {**DEFINES, "SAMPLE_CHUNK": SAMPLE_CHUNK, "SAMPLE_THREADS": SAMPLE_THREADS}
#: Rows of more bytes are the work of a whole warp of text_match.cu.
_LONG_ROW = 1024
#: Threads of a block of the row length kernels and of text_match.cu, and blocks a multiprocessor: warps have runs of
#: row blocks.
ROW_THREADS = 256
_ROW_GRID = 16
#: Constants of text_match.cu, and of kernels that include its headers.
MATCH_DEFINES = {**DEFINES, "LONG_ROW": _LONG_ROW, "MATCH_THREADS": ROW_THREADS}
#: A match of the longest pattern that begins in a tile runs on into the next for so many bytes of codes at most, two
#: for every character but the first and the last; its bits, and those of the symbols that are looked at with its end,
#: fill so many words.
RUN_ON_NBYTES = 128
OVERHANG_WORDS = 4
#: Bytes of the pattern of a question about edges, and of what may be read behind it.
EDGE_NBYTES = 48
#: Words behind the planes that text_match.cu may read: of a window of three that begins where the last row ends, or of
#: the longest pattern behind its start.
PLANE_SPARE = 4
#: Bytes of a row that an automaton of rows answers for. A lane alone runs over them: 32 KiB take about a millisecond.
MOST_ROW = 1 << 15
#: Bytes of what a warp says of rows that those may take which no lane has: of a step that runs on, and to align it.
_SAID_SPARE = 36


class CheckJob(NamedTuple):
    """A segment whose codes are checked."""

    codes: int
    codes_nbytes: int
    block_starts: int
    tile_lengths: int
    tiles: int
    chars: int
    tile_size: int
    table: int
    found: int


def values_defines() -> dict[str, int]:
    """Constants of kernels that include text_values.cuh."""
    return {**MATCH_DEFINES, "VALUES_LONGEST": values.LONGEST, "VALUES_MULTIPLIER": values.MULTIPLIER}


def search_defines(tile_size: int) -> dict[str, int]:
    """Constants of kernels that search codes, compiled for a tile size."""
    return {**MATCH_DEFINES, "TILE": tile_size, "RUN_ON_NBYTES": RUN_ON_NBYTES, "OVERHANG_WORDS": OVERHANG_WORDS}


def rows_defines(tile_size: int) -> dict[str, int]:
    """Constants of kernels that run automata of rows over codes, compiled for a tile size."""
    more = {"RUN_ON_NBYTES": RUN_ON_NBYTES, "MOST_ROW": MOST_ROW, "SAID_SPARE": _SAID_SPARE}
    return {**defines(tile_size), **more}


def defines(tile_size: int) -> dict[str, int]:
    """Constants of kernels that are compiled for a tile size."""
    return {**DEFINES, "TILE": tile_size}


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    files = ("row_lengths", "text_answers", "text_case", "text_gather", "text_match", "text_sample")
    every = {file: [file_defines(file)] for file in files}
    return every | {"text_compact": [file_defines("text_compact", tile_size) for tile_size in TILE_SIZES]}


def file_defines(file: str, tile_size: int = 0) -> dict[str, int]:
    """Constants that a file of all codecs of text is compiled with; `tile_size` 0: one that is for all tile sizes."""
    if tile_size:
        return {**defines(tile_size), "COMPACT_BUNDLES": COMPACT_BUNDLES}
    return {"text_match": MATCH_DEFINES, "text_sample": SAMPLE_DEFINES}.get(file, DEFINES)


# Structs of the kernels, with the names that these have there. Addresses are fields like others.
SEGMENT_VIEW = np.dtype(
    [
        (name, "<u8")
        for name in (
            "codes",
            "codes_nbytes",
            "chars",
            "rows",
            "block_starts",
            "tile_lengths",
            "row_starts",
            "row_minima",
            "row_words",
            "row_bits",
            "row_bits_words",
            "validity",
            "table",
            "tile_shift",
            "first_row",
            "char_begin",
            "char_end",
            "row_begin",
            "row_end",
            "out_char",
            "out_row",
            "out_bit",
            "chars_to",
            "offsets_to",
            "validity_to",
            "nulls_to",
            "wide_offsets",
            "last",
            "first_row_block",
        )
    ]
)


def all_u64(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, "<u8") for name in names])


TAKE_COLUMN = all_u64(
    *("segments", "segment_count", "tables", "offsets_to", "wide_offsets", "chars_to", "validity_to"),
    *("places", "groups", "totals"),
)
TAKE_TOTALS = all_u64("chars", "nulls", "tiles", "most_tiles", "groups_done")

SEARCH_VIEW = all_u64("first_word", "automaton")


class Machine(NamedTuple):
    """An automaton of bytes, and where those of codes belong."""

    states: int
    following: int
    accepts: int
    classes: int
    automata: int


class SearchShape(NamedTuple):
    """A `Shape` for a search, and how many bytes of its automaton are staged in shared memory."""

    threads: int
    shared: int
    codes_capacity: int
    resident: int
    staged: int


class EdgesShape(NamedTuple):
    """A `Shape` of a kernel that answers for edges: row blocks of a unit, and thread blocks of a multiprocessor."""

    threads: int
    shared: int
    unit: int
    blocks: int


def shape_with(
    automaton: int, warp: int, codes_capacity: int, most: tuple[int, int], block_limit: int, multiprocessor_limit: int
) -> SearchShape:
    """The shape of a search with most resident warps; of equal ones that of the largest blocks.

    Warps of a block share its automaton, so large blocks need less memory.

    Parameters
    ----------
    automaton, warp
        Bytes of shared memory of a block, 0 where the automaton is in global memory, and of each of its warps.
    codes_capacity
        Bytes of codes that a warp stages, counted in `warp`.
    most
        Warps of a block, and of a multiprocessor, as registers allow.
    block_limit, multiprocessor_limit
        Bytes of shared memory.

    Returns
    -------
    SearchShape
        No warp is resident where a block has too little memory. ``staged`` is `automaton`.
    """
    best = SearchShape(0, 0, codes_capacity, 0, automaton)
    for warps in range(1, most[0] + 1):
        shared = automaton + warps * warp
        if shared <= block_limit:
            resident = warps * min(multiprocessor_limit // (shared + 1024), most[1] // warps)
            if resident >= best.resident:
                best = SearchShape(32 * warps, shared, codes_capacity, resident, automaton)
    return best


@lru_cache(256)
def staging_shape(
    tile_size: int, codes_capacity: int, automaton: int, eighths: int, beside: int, most: tuple[int, int], *limits: int
) -> SearchShape:
    """The most warps that fit a multiprocessor; less `codes_capacity` where not even one does.

    The automaton is staged if so many eighths of the warps still fit, of those that would without. `beside`: bytes of a
    warp beside its codes; `most` and `limits` are those of `shape_with`.
    """
    while codes_capacity >= tile_size + 16:
        warp = beside + codes_capacity + RUN_ON_NBYTES + 16
        staged, large = (shape_with(nbytes, warp, codes_capacity, most, *limits) for nbytes in (automaton, 0))
        if staged.resident and 8 * staged.resident >= eighths * large.resident:
            return staged
        if large.resident:
            return large
        codes_capacity = align(codes_capacity // 2)
    raise ValueError(f"tile_size {tile_size} needs more shared memory than this GPU's {limits[0]} bytes")


def said_capacity(tile_size: int, rows: int, chars: int) -> int:
    """Bytes in which a warp says something of rows: of those of most bundles of a column, and of any tile."""
    per_bundle = -(-rows * BUNDLE_TILES * tile_size // max(chars, 1))
    return align(min(5 * per_bundle // 4, BUNDLE_TILES * tile_size) + tile_size + _SAID_SPARE)


def rows_shape(
    tile_size: int, codes_capacity: int, said: int, automaton: int, resident: int, staged_resident: int, *limits: int
) -> SearchShape:
    """Shape of a kernel that runs automata of rows; of one whose automaton is in global memory where it has 0 bytes.

    `resident` and `staged_resident`: warps of a multiprocessor, as registers allow, without and with one there. The
    automaton lies in shared memory where nearly as many warps fit as without. Two blocks end sooner than one: TPC-H
    SF 10 l_comment on an H200, 1.43 ms with two of 16 warps, 1.55 with one of 32.
    """
    beside = 4 * (33 * (tile_size // 32 + 1) + 3) + said
    for warps in (staged_resident // 2, staged_resident) if automaton else ():
        shape = staging_shape(tile_size, codes_capacity, automaton, 7, beside, (warps, staged_resident), *limits)
        if shape.staged:
            return shape
    return staging_shape(tile_size, codes_capacity, 0, 7, beside, (resident // 2, resident), *limits)


GatherRowsJob = namedtuple(
    "GatherRowsJob",
    "numbers nbytes count numbers_validity first_group first rows offsets wide chars limit piece_validity",
)


_FIELDS = SEGMENT_VIEW.names or ()
_ADDRESSES = [_FIELDS.index(name) for name in SECTIONS if name != "validity"]
_CODES, _CODES_NBYTES, _VALIDITY = (_FIELDS.index(name) for name in ("codes", "codes_nbytes", "validity"))

# Of every field, whether it is an address in a segment's buffers.
_IN_META = np.array([i in (*_ADDRESSES, _VALIDITY) for i in range(len(_FIELDS))], np.uint64)
_IN_CODES = np.array([i == _CODES for i in range(len(_FIELDS))], np.uint64)

#: Tiles of a bundle, on which a warp works together: one a lane.
BUNDLE_TILES = 32


class Shape(NamedTuple):
    """Threads of a block, its bytes of dynamic shared memory; decode only: bytes of codes a warp stages.

    And, decode only, how many warps are resident on a multiprocessor.
    """

    threads: int
    shared: int
    codes_capacity: int = 0
    resident: int = 0


def row_grid(row_blocks: int, multiprocessors: int) -> int:
    """Thread blocks of the row length kernels: few enough for runs, enough for all to end at about the same time."""
    return min(-(-row_blocks // (ROW_THREADS // 32)), _ROW_GRID * multiprocessors)


def decode_bundles(bundles: int, warps: int) -> int:
    """Bundles that a warp of fsst_decode decodes one after another, when `warps` of them run at a time."""
    return next(each for each in (4, 2, 1) if each == 1 or bundles >= 4 * each * warps)


def decode_codes_capacity(tile_size: int, codes_nbytes: int, tiles: int, share: float = 7 / 6) -> int:
    """Bytes of codes a warp of a decoder stages at once: `share` times what its 32 tiles have on average.

    Bundles that have more are staged in several rounds, with fewer lanes at work.
    """
    whole = BUNDLE_TILES * tile_size + 16
    wanted = int(BUNDLE_TILES * codes_nbytes / max(tiles, 1) * share)
    return align(min(max(wanted, 2 * tile_size), whole), 256)


@lru_cache(4096)
def _layout_words(layout: SegmentLayout) -> npt.NDArray[np.uint64]:
    """A descriptor's fields that follow from the layout; addresses are offsets in ``meta``."""
    known = dict(zip(SECTIONS, layout.places, strict=False))
    known |= {"chars": layout.chars, "rows": layout.rows, "row_bits_words": layout.row_bits_words}
    known["tile_shift"] = layout.tile_size.bit_length() - 1
    return np.array([known.get(name, 0) for name in _FIELDS], np.uint64)


def describe(segments: Sequence[Segment]) -> npt.NDArray[np.void]:
    """Descriptors of segments in GPU memory, without what depends on the call.

    Raises
    ------
    ValueError
        A buffer has not the size that its segment states.
    """
    for segment in segments:
        segment.check_buffers()
    words = np.array([_layout_words(segment.layout) for segment in segments])
    known = [(part.meta.ptr, part.codes.ptr, part.codes_nbytes, part.layout.has_nulls) for part in segments]
    meta, codes, codes_nbytes, has_nulls = np.array(known, np.uint64).T
    words[:, _ADDRESSES] += meta[:, None]
    words[:, _VALIDITY] = (words[:, _VALIDITY] + meta) * has_nulls
    words[:, _CODES], words[:, _CODES_NBYTES] = codes, codes_nbytes
    return words.view(SEGMENT_VIEW).ravel()


def move(words: npt.NDArray[np.uint64], meta: npt.NDArray[np.uint64], codes: npt.NDArray[np.uint64]) -> None:
    """Have descriptors, a row of words each, say that buffers lie so many bytes further on, modulo 2^64."""
    steps = meta[:, None] * _IN_META + codes[:, None] * _IN_CODES
    steps[:, _VALIDITY] *= words[:, _VALIDITY] != 0
    words += steps
