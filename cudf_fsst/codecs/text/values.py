"""Values that rows are compared with, as ``kernels/text_values.cuh`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

#: Values of more bytes are not compared so: a thread decodes a row.
LONGEST = 1024
#: Nor are values that have more bytes together: they are hashed one after another.
MOST_NBYTES = 1 << 16
#: Of the hash: an odd number whose bits are mixed.
MULTIPLIER = 0x9E3779B97F4A7C15
_ALL = 2**64 - 1
#: `Values` of the kernel.
VALUES = np.dtype(
    [("count", "<u8"), ("lengths", "<u8", LONGEST // 64 + 1), ("beginnings", "<u8", 64), ("beginning", "<u8")]
)
#: Bytes of values whose words are kept.
_KEPT_NBYTES = 4096


def hash_of(value: bytes, most: int | None = None) -> int:
    """The hash of a value, 64 bits: of its length and its bytes, eight at a time, the last ones filled up with zeros.

    `most`: of its first bytes.
    """
    hashed = len(value)
    for at in range(0, len(value) if most is None else min(most, len(value)), 8):
        hashed = (hashed ^ int.from_bytes(value[at : at + 8], "little")) * MULTIPLIER & _ALL
        hashed ^= hashed >> 32
    return hashed


def words_of(values: Sequence[bytes], beginning: int = 0) -> npt.NDArray[np.uint64] | None:
    """`Values` of the kernel and what follows it; None where the values are too long.

    `beginning`: see `search.Plan`.
    """
    values = tuple(dict.fromkeys(values))
    nbytes = sum(map(len, values))
    if nbytes > MOST_NBYTES or max(map(len, values), default=0) > LONGEST:
        return None
    return _kept(values, beginning) if nbytes <= _KEPT_NBYTES else _made(values, beginning)


def _made(values: tuple[bytes, ...], beginning: int) -> npt.NDArray[np.uint64]:
    pairs = sorted((hash_of(value), value) for value in values)
    header = np.zeros(1, VALUES)
    header["beginning"] = beginning
    header["count"], lengths, beginnings = len(values), header["lengths"][0], header["beginnings"][0]
    for value in values:
        lengths[len(value) // 64] |= np.uint64(1 << len(value) % 64)
        first = hash_of(value, 8)
        beginnings[first >> 58] |= np.uint64(1 << (first >> 52 & 63))
    keys = [*(key for key, _ in pairs), *(len(value) for _, value in pairs)]
    place, places, padded = VALUES.itemsize // 8 + len(keys) + len(pairs), [], []
    for _, value in pairs:
        places.append(place)
        padded.append(value + bytes(-len(value) % 8))
        place += len(padded[-1]) // 8
    words = np.array([*keys, *places], np.uint64)
    return np.concatenate([header.view(np.uint64), words, np.frombuffer(b"".join(padded), np.uint64)])


_kept = lru_cache(64)(_made)
