"""The longest symbol that begins some bytes, by bisection on its length: what encoders look up, on the host and a GPU.

Is there a symbol that begins with the next 9 bytes? With 5, or 13? Each answer is a look-up in a hash table. It has at
most four entries for a symbol: of those of its prefixes that the bisection meets on the way to it. So a missing entry
is a certain no. The last one found is compared with a symbol that begins with that prefix, for other strings may have
the same hash. ``kernels/onpair_encode.cu`` does the same with the same table (``kernels/onpair.cuh``, OnpairLookup).

On the host a trie alone, byte by byte, encodes at a fourth of this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, load16, load64
from .trie import edge_shift, longest

#: Of hashes of prefixes: multipliers of the first byte, of each 4 bytes behind it, and of the length.
MULTIPLIERS = (0x2545F491, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)
LENGTH_MULTIPLIER = 0x165667B1
_M0, _M1, _M2, _M3, _M4 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_LENGTH = np.uint64(LENGTH_MULTIPLIER)

_BYTE, _HALF, _WORD = np.uint64(0xFF), np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_CODE, _MORE = np.uint64(4095), np.uint64(4096)
_SAME = np.uint64(8192)  # bits of an entry below those of the hash
_NONE, _ONE = np.uint64(0), np.uint64(1)
#: Of strings of 0 to 16 bytes: what their two words may have.
LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(17)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(17)], np.uint64)
#: What `find_longest` returns where another string has the same hash.
OTHER = np.uint64(1 << 16)


class Lookup(NamedTuple):
    """A table of prefixes.

    Attributes
    ----------
    buckets : ndarray of uint32, shape (2, 2^(bits + 1)) in one row
        Two entries each: 19 bits of the hash, a bit that says of the first that others lie behind the bucket, 12 bits
        of a code whose symbol begins with the prefix. 0: none.
    longest : ndarray of uint16
        Of each entry the longest symbol that begins the prefix: ``code | (length - 1) << 12``.
    """

    buckets: npt.NDArray[np.uint32]
    longest: npt.NDArray[np.uint16]


@njit(inline="always")
def _if(mask: Any, yes: Any, no: Any) -> Any:
    """`yes` where a mask has all bits, `no` where it has none. Of conditions the compiler makes branches."""
    return no ^ (no ^ yes) & mask


@njit(inline="always")
def _mask(bit: Any) -> Any:
    """All bits if the lowest bit of a number is 1, and no other; none if it is 0."""
    return _NONE - bit


@njit(inline="always")
def _probe(buckets: int, shift: Any, mask: Any, hashed: Any, length: Any, left: Any) -> tuple[Any, Any]:
    """Whether there is a prefix, as a mask, and its entry's place and code, ``place << 12 | code``."""
    mixed = (hashed + length * _LENGTH) & _WORD
    wanted = (mixed << np.uint64(13)) & _WORD
    at = mixed >> shift
    pair = load64(buckets + np.int64(at << np.uint64(3)))
    first = (((pair & _WORD) ^ wanted) >> np.uint64(13)) - _ONE  # the highest bit: they are the same
    second = ((pair >> np.uint64(32) ^ wanted) >> np.uint64(13)) - _ONE
    while (pair & _MORE) << np.uint64(51) & ~(first | second) != _NONE:
        at = (at + _ONE) & mask
        pair = load64(buckets + np.int64(at << np.uint64(3)))
        first = (((pair & _WORD) ^ wanted) >> np.uint64(13)) - _ONE
        second = ((pair >> np.uint64(32) ^ wanted) >> np.uint64(13)) - _ONE
    is_first = _mask(first >> np.uint64(63))
    fits = ~(left - length) >> np.uint64(63)
    entry = _if(is_first, pair, pair >> np.uint64(32)) & _CODE
    place = at << _ONE | (~is_first & _ONE)
    return _mask((first | second) >> np.uint64(63) & fits), place << np.uint64(12) | entry


# The bisection in four steps, so that an encoder can take each for several places before the next: the look-ups of one
# place wait for each other.


@njit(inline="always")
def try_nine(low: Any, high: Any, left: Any, buckets: int, shift: Any, mask: Any) -> tuple[Any, Any]:
    """9 bytes? A mask, and what was found."""
    hashed = (low & _BYTE) * _M0 + ((low >> np.uint64(8)) & _WORD) * _M1
    hashed += ((low >> np.uint64(40) | high << np.uint64(24)) & _WORD) * _M2
    nine, found = _probe(buckets, shift, mask, hashed, np.uint64(9), left)
    return nine, found & nine


@njit(inline="always")
def try_four(
    low: Any, high: Any, nine: Any, found: Any, left: Any, buckets: int, shift: Any, mask: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """5 or 13? What was found, its length, and of the 4 bytes behind it: hash before, bytes, multiplier."""
    w0 = (low >> np.uint64(8)) & _WORD
    w1 = (low >> np.uint64(40) | high << np.uint64(24)) & _WORD
    w2 = (high >> np.uint64(8)) & _WORD
    h0 = (low & _BYTE) * _M0
    h1 = h0 + w0 * _M1
    h2 = h1 + w1 * _M2
    h3 = h2 + w2 * _M3
    length = _ONE + (np.uint64(8) & nine)
    four, entry = _probe(buckets, shift, mask, _if(nine, h3, h1), length + np.uint64(4), left)
    base = _if(nine, _if(four, h3, h2), _if(four, h1, h0))
    word = _if(nine, _if(four, high >> np.uint64(40), w2), _if(four, w1, w0))
    multiplier = _if(nine, _if(four, _M4, _M3), _if(four, _M2, _M1))
    return _if(four, entry, found), length + (np.uint64(4) & four), base, word, multiplier


@njit(inline="always")
def try_two(
    found: Any, length: Any, base: Any, word: Any, multiplier: Any, left: Any, buckets: int, shift: Any, mask: Any
) -> tuple[Any, Any, Any]:
    """2 more? What was found, its length, and the hash of one more."""
    hashed = base + (word & _HALF) * multiplier
    two, entry = _probe(buckets, shift, mask, hashed, length + np.uint64(2), left)
    following = word & (_BYTE | np.uint64(0xFFFF00) & two)
    return _if(two, entry, found), length + (np.uint64(2) & two), base + following * multiplier


@njit(inline="always")
def try_one(
    low: Any,
    high: Any,
    found: Any,
    length: Any,
    hashed: Any,
    left: Any,
    words: int,
    buckets: int,
    longest_of: int,
    shift: Any,
    mask: Any,
) -> Any:
    """1 more? The longest symbol, ``code | (length - 1) << 12``, or `OTHER`."""
    one, entry = _probe(buckets, shift, mask, hashed, length + _ONE, left)
    found = _if(one, entry, found)
    length += _ONE & one
    some = _mask((_ONE - length) >> np.uint64(63))
    code = np.int64(_if(some, found & _CODE, low & _BYTE))
    size = np.int64(length)
    differ = (low ^ load64(words + 16 * code)) & LOW_MASKS[size]
    differ |= (high ^ load64(words + 16 * code + 8)) & HIGH_MASKS[size]
    best = _if(some, np.uint64(load16(longest_of + 2 * np.int64(found >> np.uint64(12)))), low & _BYTE)
    return best if differ == _NONE else OTHER


@njit(inline="always")
def find_longest(at: int, left: Any, words: int, buckets: int, longest_of: int, shift: Any, mask: Any) -> Any:
    """The longest symbol that the `left` bytes at an address begin with; ``code | (length - 1) << 12``, or `OTHER`.

    16 bytes can be read there. `words`, `buckets`, `longest_of`: addresses.
    """
    rest = np.uint64(left)
    low, high = load64(at), load64(at + 8)
    nine, found = try_nine(low, high, rest, buckets, shift, mask)
    found, length, base, word, multiplier = try_four(low, high, nine, found, rest, buckets, shift, mask)
    found, length, hashed = try_two(found, length, base, word, multiplier, rest, buckets, shift, mask)
    return try_one(low, high, found, length, hashed, rest, words, buckets, longest_of, shift, mask)


@njit()
def find_by_trie(at: int, left: int, pairs: Any, edges: Any) -> Any:
    """The same, byte by byte: nothing behind the `left` bytes is read."""
    code = np.uint64(longest(at, left, pairs, edges, edge_shift(edges)))
    if code < np.uint64(256):
        return code
    # Its length is that of the last step that led to it.
    length = 2
    while np.uint64(longest(at, length, pairs, edges, edge_shift(edges))) != code:
        length += 1
    return code | np.uint64(length - 1) << np.uint64(12)


@njit()
def _hash_of(low: Any, high: Any, length: int) -> Any:
    """The hash of the first `length` bytes of a string."""
    low, high = low & LOW_MASKS[length], high & HIGH_MASKS[length]
    made = (low & _BYTE) * _M0 + ((low >> np.uint64(8)) & _WORD) * _M1
    made += ((low >> np.uint64(40) | high << np.uint64(24)) & _WORD) * _M2
    made += ((high >> np.uint64(8)) & _WORD) * _M3 + (high >> np.uint64(40)) * _M4
    return (made + np.uint64(length) * _LENGTH) & _WORD


@njit()
def _fill(
    words: Any, words_at: int, lengths: Any, count: int, pairs: Any, edges: Any, shift: Any, buckets: Any, best: Any
) -> None:
    trie_shift = edge_shift(edges)
    for code in range(256, count):
        length = 1
        for step in (8, 4, 2, 1):
            if length + step > np.int64(lengths[code]):
                continue
            length += step
            made = _hash_of(words[code, 0], words[code, 1], length)
            wanted = (made << np.uint64(13)) & _WORD
            at: Any = np.int64(made >> shift)
            looking = True
            while looking:
                for i in range(2):
                    entry = np.uint64(buckets[2 * at + i])
                    other = np.int64(entry & _CODE)
                    if other == 0:
                        buckets[2 * at + i] = np.uint32(wanted | entry & _MORE | np.uint64(code))
                        found = np.int64(longest(words_at + 16 * code, length, pairs, edges, trie_shift))
                        best[2 * at + i] = np.uint16(found | (np.int64(lengths[found]) - 1) << 12)
                        looking = False
                        break
                    differ = (words[other, 0] ^ words[code, 0]) & LOW_MASKS[length]
                    differ |= (words[other, 1] ^ words[code, 1]) & HIGH_MASKS[length]
                    if (entry ^ wanted) < _SAME and differ == _NONE and np.int64(lengths[other]) >= length:
                        looking = False
                        break
                if looking:
                    buckets[2 * at] |= np.uint32(_MORE)
                    at = at + 1 if 2 * at + 2 < buckets.size else 0


def bucket_shift(bits: int) -> int:
    """What a hash is shifted by, to its bucket, where codes have so many bits."""
    return 31 - bits


def build(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int, bits: int, trie: tuple[Any, Any]
) -> Lookup:
    """The prefixes of the first `count` symbols. There is room for four of every code."""
    made = Lookup(np.zeros(4 << bits, np.uint32), np.zeros(4 << bits, np.uint16))
    _fill(words, address(words), lengths, count, *trie, np.uint64(bucket_shift(bits)), *made)
    return made
