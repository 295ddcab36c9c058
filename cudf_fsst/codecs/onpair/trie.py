"""The longest symbol that begins some bytes, on the host: a trie whose edges lie in a hash table.

Nodes 0 to 255 are the single bytes. ``pairs[b0 | b1 << 8]`` is the entry of the node that two bytes lead to; the entry
of what a byte leads to from a node is in `edges`, with the key ``node << 8 | byte``. An entry is ``node << 13 | code``,
where the code is that of the longest symbol that the bytes so far begin with; 0: there is no such node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import load8

_MULTIPLIER = np.uint32(0x9E3779B1)
#: Bits of an entry below its node, and of an edge below its key.
_CODE_BITS = np.uint32(13)  # while tables are trained there are some more than 4096 codes
_CODE_MASK = np.uint32(8191)
_ENTRY_MASK = np.uint64(0xFFFFFFFF)


@njit(inline="always")
def find_edge(edges: Any, shift: Any, node: Any, byte: Any) -> Any:
    """The entry that `byte` leads to from `node`, or 0. At least half of `edges` is empty."""
    key = node << np.uint32(8) | byte
    slot: Any = np.int64(np.uint32(key * _MULTIPLIER) >> shift)
    while True:
        edge = edges[slot]
        if edge == np.uint64(0):
            return np.uint32(0)
        if np.uint32(edge >> np.uint64(32)) == key:
            return np.uint32(edge & _ENTRY_MASK)
        slot += 1
        if slot == edges.size:
            slot = 0


@njit(inline="always")
def edge_shift(edges: Any) -> Any:
    """By how many bits a hash is shifted to the right."""
    bits = 0
    while (1 << bits) < edges.size:
        bits += 1
    return np.uint32(32 - bits)


@njit(inline="always")
def longest(at: int, left: int, pairs: Any, edges: Any, shift: Any) -> Any:
    """The code of the longest symbol that the `left` bytes at an address begin with."""
    first = np.uint32(load8(at))
    if left < 2:
        return first
    entry = pairs[np.int64(first | np.uint32(load8(at + 1)) << np.uint32(8))]
    code = first
    i = 2
    while entry != np.uint32(0):
        code = entry & _CODE_MASK
        if i >= left:
            break
        entry = find_edge(edges, shift, entry >> _CODE_BITS, np.uint32(load8(at + i)))
        i += 1
    return code


@njit()
def _fill(words: Any, lengths: Any, count: int, pairs: Any, edges: Any) -> None:
    """Symbols come by ascending length, so that the symbols that begin one are there before it."""
    shift = edge_shift(edges)
    nodes = np.uint32(256)
    for code in range(256, count):
        size = np.int64(lengths[code])
        first = np.uint32(words[code, 0] & np.uint64(255))
        best = first
        node = first
        for i in range(1, size):
            byte = np.uint32((words[code, i >> 3] >> np.uint64(8 * (i & 7))) & np.uint64(255))
            if i == 1:
                entry = pairs[np.int64(first | byte << np.uint32(8))]
            else:
                entry = find_edge(edges, shift, node, byte)
            own = entry & _CODE_MASK if entry != np.uint32(0) else best
            if i == size - 1 and (entry == np.uint32(0) or lengths[np.int64(own)] != size):
                own = np.uint32(code)  # of equal symbols the one with the smallest code
            if entry == np.uint32(0) or own != entry & _CODE_MASK:
                target = entry >> _CODE_BITS
                if entry == np.uint32(0):
                    target = nodes
                    nodes += np.uint32(1)
                changed = target << _CODE_BITS | own
                if i == 1:
                    pairs[np.int64(first | byte << np.uint32(8))] = changed
                else:
                    key = node << np.uint32(8) | byte
                    slot: Any = np.int64(np.uint32(key * _MULTIPLIER) >> shift)
                    while edges[slot] != np.uint64(0) and np.uint32(edges[slot] >> np.uint64(32)) != key:
                        slot += 1
                        if slot == edges.size:
                            slot = 0
                    edges[slot] = np.uint64(key) << np.uint64(32) | np.uint64(changed)
                entry = changed
            node = entry >> _CODE_BITS
            best = entry & _CODE_MASK


def build(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    """Make ``pairs`` and ``edges`` of the first `count` symbols, which ascend in length.

    Parameters
    ----------
    words : ndarray of uint64, shape (at least count, 2)
    lengths : ndarray of uint8

    Returns
    -------
    pairs : ndarray of uint32, shape (65536,)
    edges : ndarray of uint64
        Twice as many as there are bytes of symbols, or more; a power of two.
    """
    nbytes = int(lengths[:count].sum(dtype=np.int64))
    pairs = np.zeros(65536, np.uint32)
    edges = np.zeros(1 << max(8, (2 * nbytes - 1).bit_length()), np.uint64)
    _fill(words, lengths, count, pairs, edges)
    return pairs, edges
