"""How a call's characters are cut into segments, table scopes and samples (docs/format.md, section 7).

Integer arithmetic on sizes only: every device makes the same plan, so every device stores the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..table import Table
from .layout import TILE_BLOCK

MIB = 2**20
#: Bounds of a segment's size in characters.
SEGMENT_MIN = 28 * MIB
SEGMENT_MAX = 256 * MIB
#: Characters of a call up to which its segments have the least size.
SEGMENT_MIN_CHARS = 18 * SEGMENT_MIN
#: Characters that share a symbol table, about.
TABLE_SCOPE = 512 * MIB
#: Bytes of a chunk of the training sample.
SAMPLE_CHUNK = 512
#: Chunks of the training sample at most, by level.
SAMPLE_CHUNKS = {"default": 64, "max": 256}
#: Chunks at most of the sample on which tables of several codecs are compared.
CHOICE_CHUNKS = 2048
#: The tiles in which they are compared, two to a chunk.
COMPARED_TILE = SAMPLE_CHUNK // 2


def segment_size(chars: int) -> int:
    """Characters of a segment when a call has `chars` of them."""
    return min(max(-(-chars // (18 * MIB)) * MIB, SEGMENT_MIN), SEGMENT_MAX)


def segment_count(chars: int) -> int:
    """Segments a call with `chars` characters is cut into, those without rows included."""
    return max(1, -(-chars // segment_size(chars)))


def segments_per_table(chars: int) -> int:
    """Consecutive segments (those without rows are not counted) that share a symbol table."""
    return max(1, TABLE_SCOPE // segment_size(chars))


def scramble(index: int) -> int:
    """Pseudo-random 32 bits for the chunk `index` (the finalizer of MurmurHash3 on a Weyl sequence)."""
    x = (index + 1) * 0x9E3779B9 & 0xFFFFFFFF
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)


def sample_positions(
    start: int, chars: int, level: str = "default", draw: int = 0
) -> tuple[npt.NDArray[np.int64], int]:
    """Where the training sample of a table's scope lies.

    Parameters
    ----------
    start
        First character of the scope, counted from the call's first character.
    chars
        Characters of the scope.
    level
        One of `SAMPLE_CHUNKS`.
    draw
        Which sample: 0, or 1 for another one of the same strata.

    Returns
    -------
    starts : ndarray of int64
        Ascending starts of the chunks, counted from the call's first character; chunks do not overlap.
    length : int
        Bytes of a chunk. The last chunk ends with the scope, where that comes first.

    Notes
    -----
    A scope of at most ``SAMPLE_CHUNKS[level] * SAMPLE_CHUNK`` characters is its own sample. A larger one is cut into as
    many strata of equal size as there are chunks, with one chunk at a pseudo-random place in each.
    """
    return chunk_positions(start, chars, SAMPLE_CHUNKS[level], draw), SAMPLE_CHUNK


def chunk_positions(start: int, chars: int, chunks: int, draw: int = 0) -> npt.NDArray[np.int64]:
    """Where chunks of a sample begin, at most `chunks` of `SAMPLE_CHUNK` characters; see `sample_positions`."""
    if chars <= chunks * SAMPLE_CHUNK:
        return np.arange(start, start + chars, SAMPLE_CHUNK, dtype=np.int64)
    starts = np.empty(chunks, np.int64)
    for i in range(chunks):
        first = i * chars // chunks
        room = (i + 1) * chars // chunks - first - SAMPLE_CHUNK + 1
        starts[i] = start + first + (scramble(draw * chunks + i) * room >> 32)
    return starts


def choice_positions(start: int, nbytes: int) -> npt.NDArray[np.int64]:
    """Where the chunks begin on which tables for a scope of `nbytes` characters are compared.

    Of a scope that is longer they are not those of any training.
    """
    return chunk_positions(start, nbytes, CHOICE_CHUNKS, 1)


def choice_sample(chars: npt.NDArray[np.uint8], start: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """The characters on which tables for a scope are compared: the chunks at `choice_positions`, joined."""
    return joined_chunks(chars, choice_positions(start, nbytes), start + nbytes)[0]


def joined_chunks(
    chars: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], end: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The chunks of a sample that begin at `positions`, joined, and where each begins there; the last ends at `end`."""
    ends = np.minimum(positions + SAMPLE_CHUNK, end)
    chunks = np.concatenate([chars[:0], *(chars[a:b] for a, b in zip(positions, ends, strict=True))])
    return chunks, np.cumsum([0, *(ends - positions)], dtype=np.int64)[:-1]


def scope_nbytes(encode: Callable[..., int], table: Table, sample: npt.NDArray[np.uint8], nbytes: int) -> int:
    """Bytes that a scope of `nbytes` would take with a table: codes as a sample's, in tiles of half chunks, and it."""
    tiles = -(-sample.size // COMPARED_TILE)
    lengths, ends = np.empty(tiles, np.uint8), np.empty(-(-tiles // TILE_BLOCK), np.uint64)
    found = encode(sample, 0, tiles, np.empty(sample.size, np.uint8), lengths, ends) if tiles else 0
    return estimated_nbytes(found, table.nbytes, nbytes)


def estimated_nbytes(codes: int, table: int, nbytes: int) -> int:
    """Bytes that a scope of `nbytes` would take with a table of so many, by the bytes of a sample's codes."""
    return codes * nbytes // max(min(nbytes, CHOICE_CHUNKS * SAMPLE_CHUNK), 1) + table
