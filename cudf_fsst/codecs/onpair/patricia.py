"""The longest symbol that begins some bytes: what the host's encoder and the training look up.

All symbols are in a Patricia trie: a node names the first byte by which the symbols below it differ, and has an edge
for each value of that byte. Bytes between are not looked at on the way. Where no edge leads on, a symbol from below is
compared with the bytes: of all symbols it has the most bytes in common with them. So the longest symbol that begins
the bytes is the longest that begins these common ones. A row of codes says which, for each number of them.

A way begins at the node that the first 2 bytes lead to, or the first 4 or 8 where a hash table knows these: it may
forget some. Its first steps are made without a branch, so a processor goes several ways at once. Edges are a double
array: that of byte b is entry ``base ^ b``, if that is the node's. A node that finds no room there is crowded: its
symbols are found by bisection.

Of FSST's speed the encoder reaches 0.66 to 0.76 on l_comment, prose and Chinese. It had 0.24 to 0.28 with hash tables
of the first 8, 4 and 3 bytes and chains of symbols behind them: branches that no processor foresees took the time. The
bisection on lengths that a GPU uses (``prefixes.py``) took as long, a trie of single bytes twice as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..unaligned import address, load8, load16, load32, load64, trailing_zeros

#: Steps without a branch beside the last two, where many symbols have more than 8 bytes.
LONG_STEPS = 2
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_WORD = np.uint64(0xFFFFFFFF)
# A node: the byte that it looks at (4 bits), its base (15 bits; 0: a leaf), the code of a symbol (13 bits).
_PLACE, _BASE = np.uint64(15), np.uint64(0x7FFF)
_BASE_AT, _CODE_AT, _OWNER_AT = np.uint64(4), np.uint64(19), np.uint64(32)
_INNER = _BASE << _BASE_AT
#: Bases of crowded nodes: all edges of the one lead to the other. The entries before them are nobody's, for leaves.
_CROWDED, _CROWDED_TOO = 256, 512
_FIRST_BASE = 768
_CROWDED_NODE, _CROWDED_NODE_TOO = np.uint64(_CROWDED) << _BASE_AT, np.uint64(_CROWDED_TOO) << _BASE_AT
#: Entries of the double array: so many for each edge, at most that many.
_ENTRIES, _MOST_ENTRIES = 2, 1 << 15
#: Bytes of a symbol's record: its two words, and its row of 16 codes.
_RECORD = 48


class PatriciaTrie(NamedTuple):
    """Symbols of a table.

    Attributes
    ----------
    pairs : ndarray of uint32, shape (65536,)
        The nodes that 2 bytes lead to.
    fours : ndarray of uint64
        4 bytes, above the node that they lead to.
    eights : ndarray of uint64, shape (n, 2)
        8 bytes, and the node that they lead to; of one entry: not to be looked at.
    edges : ndarray of uint64
        The base of the node whose edge it is, above the node that it leads to.
    records : ndarray of uint16, shape (codes, 24)
        Of each code the symbol's bytes, and by how many of them are common the longest symbol that begins with no more.
    order : ndarray of uint16
        The codes of all symbols, ascending by their bytes.
    """

    pairs: npt.NDArray[np.uint32]
    fours: npt.NDArray[np.uint64]
    eights: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.uint64]
    records: npt.NDArray[np.uint16]
    order: npt.NDArray[np.uint16]

    @property
    def places(self) -> tuple[Any, ...]:
        """Addresses of the tables, and numbers of them, in the order of the arguments of `find_longest`."""
        fours, eights = (np.uint64(65 - len(table).bit_length()) for table in (self.fours, self.eights))
        at = (address(table) for table in (self.pairs, self.fours, self.eights, self.edges, self.records, self.order))
        return *at, fours, eights, len(self.eights) > 1, len(self.order)


@njit(inline="always")
def _common(low: Any, high: Any, record: int) -> Any:
    """How many of 16 bytes are those of a record."""
    low, high = low ^ load64(record), high ^ load64(record + 8)
    same = trailing_zeros(low) >> 3
    return same + ((trailing_zeros(high) >> 3) & -(same >> 3))  # a condition would become a branch


@njit(inline="always")
def step(at: int, node: Any, edges: int) -> Any:
    """The edge that leads on; `node` if there is none."""
    base = node >> _BASE_AT & _BASE
    edge = load64(edges + 8 * np.int64(base ^ np.uint64(load8(at + np.int64(node & _PLACE)))))
    return edge if edge >> _OWNER_AT == base else node


@njit(inline="always")
def is_open(before: Any, node: Any) -> Any:
    """Whether a way may go on, whose last step led from a node to another one."""
    return (node != before) & (node & _INNER != _NONE)


@njit()
def go_on(at: int, before: Any, node: Any, trie: Any) -> Any:
    """Where a way ends, whose last step led from a node to another one."""
    edges, records, order, symbols = trie[3], trie[4], trie[5], trie[9]
    while is_open(before, node):
        if node & _INNER == _CROWDED_NODE or node & _INNER == _CROWDED_NODE_TOO:
            return np.uint64(_bisect(at, records, order, symbols)) << _CODE_AT
        before = node
        node = step(at, node, edges)
    return node


@njit()
def _bisect(at: int, records: int, order: int, symbols: int) -> Any:
    """The code of the last symbol that does not come behind the bytes at an address, or of the first byte."""
    low, high = load64(at), load64(at + 8)
    first, last = 0, symbols
    while first < last:
        middle = (first + last) >> 1
        record = records + _RECORD * np.int64(load16(order + 2 * middle))
        common = _common(low, high, record)
        if common < 16 and load8(record + common) > load8(at + common):
            last = middle
        else:
            first = middle + 1
    code = np.int64(load16(order + 2 * (first - 1))) if first else 0
    return code if _common(low, high, records + _RECORD * code) else np.int64(load8(at))


@njit(inline="always")
def enter(at: int, trie: Any) -> Any:
    """The node that a way begins at, of the 16 bytes at an address. `trie`: `PatriciaTrie.places`."""
    pairs, fours, eights, _, _, _, shift4, shift8, long, _ = trie
    low = load64(at)
    node = np.uint64(load32(pairs + 4 * np.int64(low & np.uint64(0xFFFF))))
    key = low & _WORD
    known = load64(fours + 8 * np.int64((key * _MULTIPLIER) >> shift4))
    node = known & _WORD if known >> np.uint64(32) == key else node
    if long:
        place = eights + 16 * np.int64((low * _MULTIPLIER) >> shift8)
        known = load64(place + 8)
        # What is added is 0. It has `known` read in any case: else this would become a branch.
        node = known if load64(place) + (known >> np.uint64(32)) == low else node
    return node


@njit(inline="always")
def leave(at: int, left: Any, node: Any, records: int) -> Any:
    """What the records say of the longest symbol of at most `left` bytes, where a way ends."""
    record = records + _RECORD * np.int64((node & _WORD) >> _CODE_AT)
    return np.uint64(load16(record + 14 + 2 * min(_common(load64(at), load64(at + 8), record), left)))


@njit(inline="always")
def find_longest(at: int, left: Any, trie: Any) -> Any:
    """What the records say of the longest symbol of at most `left` bytes that begins the 16 at an address."""
    edges, records, long = trie[3], trie[4], trie[8]
    node = enter(at, trie)
    if long:
        for _ in range(LONG_STEPS):
            node = step(at, node, edges)
    before = step(at, node, edges)
    node = step(at, before, edges)
    if is_open(before, node):
        node = go_on(at, before, node, trie)
    return leave(at, left, node, records)


# The same for four places at once, step by step: one alone waits for what it looks up.


@njit(inline="always")
def enter_all(at: Any, trie: Any) -> Any:
    a, b, c, d = at
    return enter(a, trie), enter(b, trie), enter(c, trie), enter(d, trie)


@njit(inline="always")
def step_all(at: Any, nodes: Any, edges: int) -> Any:
    (a, b, c, d), (i, j, k, m) = at, nodes
    return step(a, i, edges), step(b, j, edges), step(c, k, edges), step(d, m, edges)


@njit(inline="always")
def is_open_all(before: Any, nodes: Any) -> Any:
    (a, b, c, d), (i, j, k, m) = before, nodes
    return is_open(a, i) | is_open(b, j) | is_open(c, k) | is_open(d, m)


@njit()
def go_on_all(at: Any, before: Any, nodes: Any, trie: Any) -> Any:
    (a, b, c, d), (e, f, g, h), (i, j, k, m) = at, before, nodes
    return go_on(a, e, i, trie), go_on(b, f, j, trie), go_on(c, g, k, trie), go_on(d, h, m, trie)


@njit(inline="always")
def find_longest_of_four(at: Any, end: int, trie: Any) -> Any:
    """`find_longest` of four places, where no symbol crosses `end`; of a place from there on: anything."""
    edges, records, long = trie[3], trie[4], trie[8]
    nodes = enter_all(at, trie)
    if long:
        for _ in range(LONG_STEPS):
            nodes = step_all(at, nodes, edges)
    before = step_all(at, nodes, edges)
    nodes = step_all(at, before, edges)
    if is_open_all(before, nodes):
        nodes = go_on_all(at, before, nodes, trie)
    (a, b, c, d), (i, j, k, m) = at, nodes
    return (
        leave(a, end - a, i, records),
        leave(b, max(end - b, 1), j, records),
        leave(c, max(end - c, 1), k, records),
        leave(d, max(end - d, 1), m, records),
    )


@njit(inline="always")
def _byte(words: Any, code: Any, place: Any) -> Any:
    return np.int64(words[code, place >> 3] >> np.uint64(8 * (place & 7)) & np.uint64(255))


@njit(inline="always")
def _shared(words: Any, lengths: Any, a: Any, b: Any) -> Any:
    """Bytes with which two symbols begin alike."""
    low, high = words[a, 0] ^ words[b, 0], words[a, 1] ^ words[b, 1]
    same = (trailing_zeros(low) >> 3) if low != _NONE else 8 + (trailing_zeros(high) >> 3)
    return min(same, np.int64(lengths[a]), np.int64(lengths[b]))


@njit()
def _fill_records(words: Any, lengths: Any, count: int, order: Any, sizes: bool, records: Any, distinct: Any) -> int:
    """Write records, and the symbols of `order` to `distinct`, of equal ones the first; how many these are."""
    wide = records.view(np.uint64)
    for symbol in range(count):
        wide[symbol, 0], wide[symbol, 1] = words[symbol, 0], words[symbol, 1]
    for byte in range(256):
        records[byte, 8:] = byte
    parents = np.empty(17, np.int64)  # that begin the last symbol, the shorter ones first
    depth = 0
    total = 0
    for ordered in order:
        code = np.int64(ordered)
        size = np.int64(lengths[code])
        while depth and _shared(words, lengths, parents[depth - 1], code) < lengths[parents[depth - 1]]:
            depth -= 1
        parent = parents[depth - 1] if depth else np.int64(words[code, 0] & np.uint64(255))
        records[code, 8:] = records[parent, 8:]
        if depth and np.int64(lengths[parent]) == size:
            continue
        records[code, 7 + size :] = code | (size - 1) << 12 if sizes else code
        parents[depth] = code
        depth += 1
        distinct[total] = code
        total += 1
    return total


@njit()
def _find_nodes(words: Any, lengths: Any, order: Any, nodes: Any, edges: Any, starts: Any) -> tuple[int, int, int]:
    """Find nodes, edges and where ways start; how many there are of each.

    `nodes`: the place, a symbol, the first edge, edges. `edges`: the byte, the node or ``-1 - code``. `starts`: bytes,
    a symbol that begins with them, the node or ``-1 - code``.
    """
    node_count: Any = 0
    linked: Any = 0
    started: Any = 0
    # Ranges of symbols: first, last, depth that is known to be shared, the edge that leads there (-1: 2 bytes).
    stack = np.empty((order.size + 1, 4), np.int64)
    end = order.size
    while end > 0:
        first = end - 1
        pair = words[np.int64(order[first]), 0] & np.uint64(0xFFFF)
        while first > 0 and words[np.int64(order[first - 1]), 0] & np.uint64(0xFFFF) == pair:
            first -= 1
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = first, end, 2, -1
        end = first
        top = 1
        while top:
            top -= 1
            a, b, known, edge = stack[top]
            last = np.int64(order[b - 1])
            # Symbols that begin all others of the range are no branches.
            shared = np.int64(16)
            while b - a > 1:
                shared = _shared(words, lengths, np.int64(order[a]), last)
                if np.int64(lengths[np.int64(order[a])]) > shared:
                    break
                a += 1
            if b - a == 1:
                target = -1 - last
                shared = np.int64(lengths[last])
            else:
                target = node_count
                nodes[node_count, 0], nodes[node_count, 1], nodes[node_count, 2] = shared, last, linked
                at = a
                while at < b:
                    byte = _byte(words, np.int64(order[at]), shared)
                    begin = at
                    while at < b and _byte(words, np.int64(order[at]), shared) == byte:
                        at += 1
                    edges[linked, 0] = byte
                    stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = begin, at, shared + 1, linked
                    top += 1
                    linked += 1
                nodes[node_count, 3] = linked - nodes[node_count, 2]
                node_count += 1
            if edge >= 0:
                edges[edge, 1] = target
            # So many bytes lead here, and fewer lead elsewhere.
            size = 2 if edge < 0 else 4 if known <= 4 <= shared else 8 if 4 < known <= 8 <= shared else 0
            if size:
                starts[started, 0], starts[started, 1], starts[started, 2] = size, last, target
                started += 1
    return node_count, linked, started


@njit()
def _place_nodes(nodes: Any, edges: Any, node_count: int, to: Any, bases: Any) -> None:
    """Find bases of nodes, those of most edges first, and mark the entries of `to` that they take."""
    entries = to.size
    taken = np.zeros(entries, np.uint8)  # bases
    by_edges = np.zeros(258, np.int64)
    for i in range(node_count):
        by_edges[257 - nodes[i, 3]] += 1
    for i in range(1, 258):
        by_edges[i] += by_edges[i - 1]
    ranked = np.empty(node_count, np.int64)
    for i in range(node_count - 1, -1, -1):
        by_edges[257 - nodes[i, 3]] -= 1
        ranked[by_edges[257 - nodes[i, 3]]] = i
    begin = _FIRST_BASE
    for rank in range(node_count):
        node = ranked[rank]
        first, count = nodes[node, 2], nodes[node, 3]
        bases[node] = _CROWDED
        if rank and count != nodes[ranked[rank - 1], 3]:
            begin = _FIRST_BASE
        for attempt in range(entries - _FIRST_BASE):
            base = begin + attempt
            if base >= entries:
                base -= entries - _FIRST_BASE
            free = taken[base] == 0
            for i in range(first, first + count):
                if not free:
                    break
                free = to[base ^ edges[i, 0]] == ~_NONE
            if free:
                bases[node] = base
                taken[base] = 1
                for i in range(first, first + count):
                    to[base ^ edges[i, 0]] = _NONE
                begin = base + 1
                break


@njit(inline="always")
def _node_of(target: Any, nodes: Any, bases: Any) -> Any:
    if target < 0:
        return np.uint64(-1 - target) << _CODE_AT
    return np.uint64(nodes[target, 0] | bases[target] << 4 | nodes[target, 1] << 19)


@njit()
def _fill(
    words: Any, nodes: Any, edges: Any, starts: Any, pairs: Any, fours: Any, eights: Any, to: Any, shifts: Any
) -> None:
    bases = np.empty(nodes.shape[0], np.int64)
    _place_nodes(nodes, edges, nodes.shape[0], to, bases)
    for byte in range(256):
        to[_CROWDED ^ byte] = np.uint64(_CROWDED) << _OWNER_AT | _CROWDED_NODE_TOO
        to[_CROWDED_TOO ^ byte] = np.uint64(_CROWDED_TOO) << _OWNER_AT | _CROWDED_NODE
    for node in range(nodes.shape[0]):
        if bases[node] == _CROWDED:
            continue
        for i in range(nodes[node, 2], nodes[node, 2] + nodes[node, 3]):
            to[bases[node] ^ edges[i, 0]] = np.uint64(bases[node]) << _OWNER_AT | _node_of(edges[i, 1], nodes, bases)
    for pair in range(65536):
        pairs[pair] = np.uint32(pair & 255) << np.uint32(_CODE_AT)
    for i in range(starts.shape[0]):
        low = words[starts[i, 1], 0]
        node = _node_of(starts[i, 2], nodes, bases)
        if starts[i, 0] == 2:
            pairs[np.int64(low & np.uint64(0xFFFF))] = np.uint32(node)
        elif starts[i, 0] == 4:
            fours[np.int64(((low & _WORD) * _MULTIPLIER) >> shifts[0])] = (low & _WORD) << np.uint64(32) | node
        elif eights.shape[0] > 1:
            slot = np.int64((low * _MULTIPLIER) >> shifts[1])
            eights[slot, 0], eights[slot, 1] = low, node


def records_of(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int, *, sizes: bool
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """``records`` and ``order`` of a `PatriciaTrie`; the arguments are those of `build`."""
    ordered = np.lexsort((lengths[256:count], words[256:count, 1].byteswap(), words[256:count, 0].byteswap())) + 256
    records, order = np.empty((count, _RECORD // 2), np.uint16), np.empty(count - 256, np.uint16)
    return records, order[: _fill_records(words, lengths, count, ordered, sizes, records, order)]


def build(
    words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8], count: int, *, sizes: bool, entries: int = 0
) -> PatriciaTrie:
    """The trie of the first `count` symbols, which ascend in length.

    Parameters
    ----------
    words : ndarray of uint64, shape (at least count, 2)
    lengths : ndarray of uint8
    count : int
    sizes : bool
        Records have ``code | (length - 1) << 12``, else codes alone.
    entries : int
        Of the double array; 0: as many as are good.
    """
    records, order = records_of(words, lengths, count, sizes=sizes)
    room = order.size + 1
    nodes, edges, starts = (np.empty((times * room, fields), np.int64) for times, fields in ((1, 4), (2, 2), (3, 3)))
    node_count, linked, started = _find_nodes(words, lengths, order, nodes, edges, starts)
    starts = starts[:started]
    slots = [1 << max(4, (4 * int(np.count_nonzero(starts[:, 0] == size)) - 1).bit_length()) for size in (4, 8)]
    long = int(np.count_nonzero(lengths[256:count] > 8)) * 8 > count
    entries = entries or min(_MOST_ENTRIES, 1 << max(10, (_ENTRIES * linked + _FIRST_BASE - 1).bit_length()))
    trie = PatriciaTrie(
        np.empty(65536, np.uint32),
        np.zeros(slots[0], np.uint64),
        np.zeros((slots[1] if long else 1, 2), np.uint64),
        np.full(entries, ~_NONE, np.uint64),
        records,
        order,
    )
    trie.fours[0], trie.eights[0, 0] = 1 << 32, 1  # so that zeros do not find what is empty
    shifts = np.array([65 - slot.bit_length() for slot in slots], np.uint64)
    _fill(words, nodes[:node_count], edges[:linked], starts, *trie[:4], shifts)
    return trie
