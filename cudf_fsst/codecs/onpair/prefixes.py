"""The longest symbol that begins some bytes, by bisection on its length: what a GPU's encoder looks up.

Is there a symbol that begins with the next 9 bytes? With 5, or 13? Each answer is a look-up in a hash table. It has at
most four entries for a symbol: of those of its prefixes that the bisection meets on the way to it. So a missing entry
is a certain no. The last one found is compared with a symbol that begins with that prefix, for other strings may have
the same hash. ``kernels/onpair_encode.cu`` does this, with this table (``kernels/onpair.cuh``, OnpairLookup). The host
has another way (``patricia.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address
from .trie import edge_shift, longest

#: Of hashes of prefixes: multipliers of the first byte, of each 4 bytes behind it, and of the length.
MULTIPLIERS = (0x2545F491, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
LENGTH_MULTIPLIER = 0x165667B1
_M0, _M1, _M2, _M3, _M4 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_LENGTH = np.uint64(LENGTH_MULTIPLIER)

_BYTE, _WORD = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
_CODE, _SECOND, _MORE = np.uint64(4095), np.uint64(1 << 12), np.uint64(1 << 13)
_SAME, _HASH = np.uint64(1 << 14), np.uint64(14)  # what is above the bits of an entry below those of the hash
_NONE = np.uint64(0)
#: Of strings of 0 to 16 bytes: what their two words may have.
LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(17)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(17)], np.uint64)


class Lookup(NamedTuple):
    """A table of prefixes.

    Attributes
    ----------
    buckets : ndarray of uint32, shape (`bucket_count`, 2) in one row
        Two entries each: 18 bits of the hash, a bit that says of the first that others lie behind the bucket, a bit
        that second entries have, 12 bits of a code whose symbol begins with the prefix. 0: none.
    longest : ndarray of uint16
        Of each entry the longest symbol that begins the prefix: ``code | (length - 1) << 12``.
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
def _fill(words: Any, words_at: int, lengths: Any, count: int, pairs: Any, edges: Any, buckets: Any, best: Any) -> None:
    trie_shift = edge_shift(edges)
    for code in range(256, count):
        length = 1
        for step in (8, 4, 2, 1):
            if length + step > np.int64(lengths[code]):
                continue
            length += step
            mixed = _hash_of(words[code, 0], words[code, 1], length)
            hash_bits = (mixed << _HASH) & _WORD
            at: Any = np.int64(mixed * np.uint64(buckets.size // 2) >> np.uint64(32))
            looking = True
            while looking:
                for i in range(2):
                    entry = np.uint64(buckets[2 * at + i])
                    other = np.int64(entry & _CODE)
                    if other == 0:
                        buckets[2 * at + i] = np.uint32(hash_bits | np.uint64(i) * _SECOND | np.uint64(code))
                        best_code = np.int64(longest(words_at + 16 * code, length, pairs, edges, trie_shift))
                        best[2 * at + i] = np.uint16(best_code | (np.int64(lengths[best_code]) - 1) << 12)
                        looking = False
                        break
                    differ = (words[other, 0] ^ words[code, 0]) & LOW_MASKS[length]
                    differ |= (words[other, 1] ^ words[code, 1]) & HIGH_MASKS[length]
                    if (entry ^ hash_bits) < _SAME and differ == _NONE and np.int64(lengths[other]) >= length:
                        looking = False
                        break
                if looking:
                    buckets[2 * at] |= np.uint32(_MORE)
                    at = at + 1 if 2 * at + 2 < buckets.size else 0


def bucket_count(bits: int) -> int:
    """Buckets for codes of so many bits: more where there is room for them in a GPU's shared memory."""
    return (3 if bits < 12 else 2) << bits


def build(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int, bits: int, trie: tuple[Any, Any]
) -> Lookup:
    """The prefixes of the first `count` symbols. There is room for four of every code."""
    entries = 2 * bucket_count(bits)
    made = Lookup(np.zeros(entries, np.uint32), np.zeros(entries, np.uint16))
    _fill(words, address(words), lengths, count, *trie, *made)
    return made
