"""How OnPair samples a scope, and what its tables would make of it (docs/format.md, section 23)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..text.plan import SAMPLE_CHUNK, scramble
from ..unaligned import address
from .symbols import OnPairTable
from .trie import edge_shift, longest

#: Bits of the codes at level ``default``. Of tables trained on half a MiB of 512, 11 bits are the smallest on all but
#: Chinese and hexadecimal digits (2 to 4 %), and their table takes 32 KiB of a GPU's shared memory.
BITS = 11
#: Bytes of the sample: this part of the scope, between these bounds, at level ``default``; at ``max`` the largest.
SAMPLE_PART = 128
SAMPLE_MIN, SAMPLE_MAX = 1 << 17, 1 << 20


def sample_nbytes(nbytes: int, level: str) -> int:
    """Bytes that the sample of a scope of `nbytes` has at most, a multiple of a chunk's."""
    if level == "max":
        return SAMPLE_MAX
    return min(max(nbytes // SAMPLE_PART // SAMPLE_CHUNK * SAMPLE_CHUNK, SAMPLE_MIN), SAMPLE_MAX)


def sample_positions(start: int, nbytes: int, level: str, draw: int = 0) -> npt.NDArray[np.int64]:
    """Where the chunks of a sample begin, ascending; the last one ends with the scope, where that comes first.

    A scope that is no larger than its sample is cut into chunks. A larger one is divided into as many equal parts as
    there are chunks, with one chunk at a pseudo-random place in each (`scramble`).
    """
    most = sample_nbytes(nbytes, level)
    if nbytes <= most:
        return np.arange(start, start + nbytes, SAMPLE_CHUNK, dtype=np.int64)
    chunks = most // SAMPLE_CHUNK
    starts = np.empty(chunks, np.int64)
    for i in range(chunks):
        first = i * nbytes // chunks
        room = (i + 1) * nbytes // chunks - first - SAMPLE_CHUNK + 1
        starts[i] = start + first + (scramble(draw * chunks + i) * room >> 32)
    return starts


def sample(
    chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str, draw: int = 0
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The chunks of a sample, one after another, and where each begins there."""
    starts = sample_positions(start, nbytes, level, draw)
    ends = np.minimum(starts + SAMPLE_CHUNK, start + nbytes)
    chunks = np.concatenate([chars[a:b] for a, b in zip(starts, ends, strict=True)] or [chars[:0]])
    return chunks, np.concatenate([[0], np.cumsum(ends - starts)[:-1]]).astype(np.int64)[: starts.size]


def estimate(table: OnPairTable, chunks: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], nbytes: int) -> int:
    """Bytes that a scope of `nbytes` would take with a table: codes as its sample's, tiles of half chunks, and it."""
    pairs, edges = table.trie
    ends = np.append(starts[1:], chunks.size)
    where = address(chunks), starts, ends, SAMPLE_CHUNK // 2
    found = int(_codes_nbytes(*where, pairs, edges, table.lengths, table.bits))
    return (found * nbytes // chunks.size if chunks.size else 0) + table.nbytes


@njit()
def _codes_nbytes(
    chunks: int, starts: Any, ends: Any, tile_size: int, pairs: Any, edges: Any, lengths: Any, bits: int
) -> int:
    shift = edge_shift(edges)
    total = 0
    for chunk in range(starts.size):
        for begin in range(starts[chunk], ends[chunk], tile_size):
            end = min(begin + tile_size, ends[chunk])
            at: Any = begin
            codes = 0
            while at < end:
                code = longest(chunks + at, end - at, pairs, edges, shift)
                at += np.int64(lengths[np.int64(code)])
                codes += 1
            total += min((codes * bits + 7) >> 3, end - begin)
    return total
