"""How OnPair samples a scope (docs/format.md, section 23)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..text.plan import SAMPLE_CHUNK, chunk_positions, joined_chunks

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
    """Where the chunks of a sample begin, ascending; see `text.plan.sample_positions`."""
    return chunk_positions(start, nbytes, sample_nbytes(nbytes, level) // SAMPLE_CHUNK, draw)


def sample(
    chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str, draw: int = 0
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The chunks of a sample, one after another, and where each begins there."""
    return joined_chunks(chars, sample_positions(start, nbytes, level, draw), start + nbytes)
