"""The longest symbol that begins some bytes, by bisection on its length: what a GPU's encoder looks up.

Is there a symbol that begins with the next 9 bytes? With 5, or 13? Each answer is a look-up in a hash table. It has at
most four entries for a symbol: of those of its prefixes that the bisection meets on the way to it. So a missing entry
is a certain no. The last one found is compared with a symbol that begins with that prefix, for other strings may have
the same hash. A prefix's level says which step of the bisection meets it: of a symbol there is one a level at most.
``kernels/onpair_encode.cu`` does this, with this table (``kernels/onpair.cuh``, OnpairLookup). The host has another way
(``patricia.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from .patricia import records_of

#: Of hashes of prefixes: multipliers of the first byte, of each 4 bytes behind it, and of the length.
MULTIPLIERS = (0x2545F491, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
LENGTH_MULTIPLIER = 0x165667B1
_M0, _M1, _M2, _M3, _M4 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_LENGTH = np.uint64(LENGTH_MULTIPLIER)

_BYTE, _WORD = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
#: Buckets, by the bits of a code: as many as there is room for in a GPU's shared memory beside 32 rows of codes a warp.
BUCKETS = {10: 4096, 11: 8000, 12: 8192}
#: Steps of the bisection, by level.
STEPS = 8, 4, 2, 1
_CODE, _MORE = np.uint64(4095), np.uint64(1 << 12)
_LEVEL, _HASH = np.uint64(13), np.uint64(15)  # bits of an entry below those of the level, and of the hash
_NONE = np.uint64(0)
#: Of strings of 0 to 16 bytes: what their two words may have.
LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(17)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(17)], np.uint64)


class Lookup(NamedTuple):
    """A table of prefixes.

    Attributes
    ----------
    buckets : ndarray of uint32, shape (buckets, 2) in one row
        Two entries each: 17 bits of the hash, 2 of the level, a bit that says of the first that others lie behind the
        bucket, 12 bits of a code whose symbol has the prefix. 0: none.
    longest : ndarray of uint16, shape (codes, 4) in one row
        Of each symbol's prefixes, by level, the longest symbol that begins the prefix: ``code | (length - 1) << 12``.
    """

    buckets: npt.NDArray[np.uint32]
    longest: npt.NDArray[np.uint16]


@njit()
def _hash_of(low: Any, high: Any, length: int) -> Any:
    """The hash of the first `length` bytes of a string."""
    low, high = low & LOW_MASKS[length], high & HIGH_MASKS[length]
    mixed = (low & _BYTE) * _M0 + ((low >> np.uint64(8)) & _WORD) * _M1
    mixed += ((low >> np.uint64(40) | high << np.uint64(24)) & _WORD) * _M2
    mixed += ((high >> np.uint64(8)) & _WORD) * _M3 + (high >> np.uint64(40)) * _M4
    return (mixed + np.uint64(length) * _LENGTH) & _WORD


@njit()
def _fill(words: Any, lengths: Any, count: int, records: Any, buckets: Any, best: Any) -> None:
    for code in range(256, count):
        more = np.int64(lengths[code]) - 1
        for level, step in enumerate(STEPS):
            if more & step == 0:
                continue
            length = 1 + (more & -step)
            best[4 * code + level] = records[code, 7 + length]
            hashed = _hash_of(words[code, 0], words[code, 1], length)
            wanted = (hashed << _HASH | np.uint64(level) << _LEVEL) & _WORD
            at: Any = np.int64(hashed * np.uint64(buckets.size // 2) >> np.uint64(32))
            looking = True
            while looking:
                for i in range(2):
                    entry = np.uint64(buckets[2 * at + i])
                    other = np.int64(entry & _CODE)
                    if other == 0:
                        buckets[2 * at + i] = np.uint32(wanted | np.uint64(code))
                        looking = False
                        break
                    differ = (words[other, 0] ^ words[code, 0]) & LOW_MASKS[length]
                    differ |= (words[other, 1] ^ words[code, 1]) & HIGH_MASKS[length]
                    same = (entry ^ wanted) >> _LEVEL == _NONE and differ == _NONE
                    if same and 1 + (np.int64(lengths[other]) - 1 & -step) == length:
                        looking = False
                        break
                if looking:
                    buckets[2 * at] |= np.uint32(_MORE)
                    at = at + 1 if 2 * at + 2 < buckets.size else 0


def build(words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int, bits: int) -> Lookup:
    """The prefixes of the first `count` symbols, which ascend in length. There is room for four of every code."""
    lookup = Lookup(np.zeros(2 * BUCKETS[bits], np.uint32), np.zeros(4 << bits, np.uint16))
    records, _ = records_of(words, lengths, count, sizes=True)
    _fill(words, lengths, count, records, *lookup)
    return lookup
