"""The longest symbol that begins some bytes: what the host's encoder looks up.

Symbols that begin with the same 4 bytes are a group, and those of 8 bytes and more that begin with the same 8 bytes are
another one. A group is found in a hash table by these bytes. It is a chain of its symbols, the longest first, which are
compared 8 bytes at a time. Symbols of 2 and 3 bytes have tables of their own.

Of FSST's speed, one core, eight texts of 0.3 to 4 MB: 0.19 (a genome) to 0.34, of l_comment 0.26. The bisection that a
GPU uses (``prefixes.py``), four tiles in turns and without branches, took 0.15 to 0.25; a trie 0.10. Branches that no
processor foresees take the time: is there a symbol of 8 bytes, and which one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, load32, load64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_HALF, _WORD, _THREE = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFF)
#: Of an entry of `fours`, below its key: the first symbol of the chain, whether there are symbols of 8 bytes.
_CODE, _LONG, _USED = np.uint64(0xFFFF), np.uint64(1 << 16), np.uint64(1 << 17)
#: Of an entry of `pairs`: symbols of 3 bytes begin so.
_MORE = np.uint32(1 << 16)
_SLOTS = 4  # of a hash table, for each entry, at least


class SymbolGroups(NamedTuple):
    """Symbols by their first bytes. A found symbol is ``code | (length - 1) << 12``.

    Attributes
    ----------
    eights : ndarray of uint64, shape (n, 2)
        8 bytes, and the first symbol of their chain; 0: none.
    fours : ndarray of uint64
        4 bytes, above what `_CODE`, `_LONG` and `_USED` say.
    threes : ndarray of uint64
        3 bytes, below what is found.
    pairs : ndarray of uint32, shape (65536,)
        What is found of at most two bytes, and `_MORE`.
    chains : ndarray of uint64, shape (codes, 4)
        Of a symbol of 4 bytes and more: its bytes, those from the eighth on if it has as many; which of them count;
        what is found; the code of the next symbol of the chain, or 0.
    """

    eights: npt.NDArray[np.uint64]
    fours: npt.NDArray[np.uint64]
    threes: npt.NDArray[np.uint64]
    pairs: npt.NDArray[np.uint32]
    chains: npt.NDArray[np.uint64]

    @property
    def places(self) -> tuple[Any, ...]:
        """As `find_longest` takes them: addresses, and of hash tables what hashes are shifted by, and the last slot."""
        hashed: list[Any] = []
        for table in (self.eights, self.fours, self.threes):
            hashed += address(table), _shift(len(table)), np.uint64(len(table) - 1)
        return *hashed, address(self.pairs), address(self.chains)


def _shift(slots: int) -> np.uint64:
    return np.uint64(65 - slots.bit_length())


@njit(inline="always")
def _longest_of(chains: int, code: Any, word: Any, left: Any, ends: bool) -> Any:
    """The first symbol of a chain that `word` begins with, as `find_longest` has it; `_NONE` without one."""
    answer = _NONE
    while code != _NONE:
        at = chains + np.int64(code << np.uint64(5))
        found = load64(at + 16)
        if (word ^ load64(at)) & load64(at + 8) == _NONE and (not ends or found >> np.uint64(12) < left):
            answer = found
            break
        code = load64(at + 24)
    return answer


@njit(inline="always")
def find_longest(
    low: Any,
    high: Any,
    left: Any,
    ends: bool,
    eights: int,
    shift8: Any,
    last8: Any,
    fours: int,
    shift4: Any,
    last4: Any,
    threes: int,
    shift3: Any,
    last3: Any,
    pairs: int,
    chains: int,
) -> Any:
    """The longest symbol that begins 16 bytes, ``code | (length - 1) << 12``; if `ends`, of at most `left` bytes."""
    key = low & _WORD
    slot = (key * _MULTIPLIER) >> shift4
    while True:
        entry = load64(fours + np.int64(slot << np.uint64(3)))
        if entry == _NONE:
            break
        if entry >> np.uint64(32) == key:
            if entry & _LONG != _NONE:
                slot = (low * _MULTIPLIER) >> shift8
                while True:
                    place = eights + np.int64(slot << np.uint64(4))
                    code = load64(place + 8)
                    if code == _NONE:
                        break
                    if load64(place) == low:
                        found = _longest_of(chains, code, high, left, ends)
                        if found != _NONE:
                            return found
                        break
                    slot = (slot + _ONE) & last8
            found = _longest_of(chains, entry & _CODE, low, left, ends)
            if found != _NONE:
                return found
            break
        slot = (slot + _ONE) & last4
    pair = np.uint64(load32(pairs + 4 * np.int64(low & _HALF)))
    if pair > _HALF and (not ends or left > np.uint64(2)):
        key = low & _THREE
        slot = (key * _MULTIPLIER) >> shift3
        while True:
            entry = load64(threes + np.int64(slot << np.uint64(3)))
            if entry == _NONE:
                break
            if entry >> np.uint64(32) == key:
                return entry & _WORD
            slot = (slot + _ONE) & last3
    if ends and left < np.uint64(2):
        return low & np.uint64(0xFF)
    return pair & _HALF


@njit(inline="always")
def _masked(length: int) -> Any:
    """Which of 8 bytes the first `length` are."""
    return ~_NONE if length >= 8 else (_ONE << np.uint64(8 * length)) - _ONE


@njit()
def _fill(
    words: Any, lengths: Any, count: int, shifts: Any, eights: Any, fours: Any, threes: Any, pairs: Any, chains: Any
) -> None:
    for pair in range(65536):
        pairs[pair] = np.uint32(pair & 255)
    for code in range(256, count):  # by ascending length: the longest is the last to be put before the others
        low, high, size = words[code, 0], words[code, 1], np.int64(lengths[code])
        found = np.uint64(code | (size - 1) << 12)
        if size == 2:
            if pairs[np.int64(low)] & np.uint32(0xFFFF) < np.uint32(256):
                pairs[np.int64(low)] = np.uint32(found) | pairs[np.int64(low)] & _MORE
            continue
        if size == 3:
            at: Any = np.int64((low * _MULTIPLIER) >> shifts[2])
            while threes[at] != _NONE and threes[at] >> np.uint64(32) != low:
                at = at + 1 if at + 1 < threes.size else 0
            if threes[at] == _NONE:
                threes[at] = low << np.uint64(32) | found
                pairs[np.int64(low & _HALF)] |= _MORE
            continue
        key = low & _WORD
        at = np.int64((key * _MULTIPLIER) >> shifts[1])
        while fours[at] != _NONE and fours[at] >> np.uint64(32) != key:
            at = at + 1 if at + 1 < fours.size else 0
        fours[at] |= key << np.uint64(32) | _USED
        value, mask = low, _masked(size)
        head = fours[at] & _CODE
        eight: Any = 0
        if size >= 8:
            fours[at] |= _LONG
            value, mask = high, _masked(size - 8)
            eight = np.int64((low * _MULTIPLIER) >> shifts[0])
            while eights[eight, 1] != _NONE and eights[eight, 0] != low:
                eight = eight + 1 if eight + 1 < eights.shape[0] else 0
            eights[eight, 0] = low
            head = eights[eight, 1]
        other = np.int64(head)
        while other != 0 and not (chains[other, 0] == value and chains[other, 1] == mask):
            other = np.int64(chains[other, 3])
        if other != 0:
            continue  # of equal symbols the one with the smaller code
        chains[code, 0], chains[code, 1], chains[code, 2], chains[code, 3] = value, mask, found, head
        if size >= 8:
            eights[eight, 1] = np.uint64(code)
        else:
            fours[at] = fours[at] & ~_CODE | np.uint64(code)


def build(words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int) -> SymbolGroups:
    """The groups of the first `count` symbols, which ascend in length.

    Parameters
    ----------
    words : ndarray of uint64, shape (at least count, 2)
    lengths : ndarray of uint8
    """
    sizes = lengths[256:count]
    slots = [
        1 << max(4, (_SLOTS * int(np.count_nonzero(some)) - 1).bit_length())
        for some in (sizes >= 8, sizes >= 4, sizes == 3)
    ]
    made = SymbolGroups(
        np.zeros((slots[0], 2), np.uint64),
        np.zeros(slots[1], np.uint64),
        np.zeros(slots[2], np.uint64),
        np.empty(65536, np.uint32),
        np.zeros((count, 4), np.uint64),
    )
    _fill(words, lengths, count, np.array([_shift(n) for n in slots], np.uint64), *made)
    return made
