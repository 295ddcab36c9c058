"""Numba kernels that find where rows begin in the codes of a segment, without decoding it.

Tiles are looked at a few at a time, so that the CPU need not wait for one row to look at the next. Tiles of which a
codec cannot tell where its codes' symbols end are decoded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit import njit
from ..unaligned import count_below, load8, load16, load64, prefetch, store8, store64, trailing_zeros
from .layout import TILE_BLOCK
from .row_lengths import number_at


@njit(inline="always")
def tile_length(lengths: int, tile_size: int, tile: int) -> Any:
    """Bytes of a tile's codes, as stored."""
    if tile_size <= 256:
        return np.int64(load8(lengths + tile)) + 1
    return np.int64(load16(lengths + 2 * tile)) + 1


@njit()
def same_bytes(row: int, value: int, nbytes: int) -> bool:
    """Whether bytes are the same. Eight bytes from any of the value can be read, and none behind the others."""
    while nbytes >= 8:
        if load64(row) != load64(value):
            return False
        row += 8
        value += 8
        nbytes -= 8
    different = np.uint8(0)
    for i in range(nbytes):
        different |= load8(row + i) ^ load8(value + i)
    return different == 0


@njit(inline="always")
def low_bits(nbytes: int) -> Any:
    """The bits of the first bytes of a word, fewer than eight."""
    return (np.uint64(1) << np.uint64(8 * nbytes)) - np.uint64(1)


class CodeComparer(NamedTuple):
    """How characters of a tile of at most 256 bytes are compared without decoding it, by compiled functions.

    Attributes
    ----------
    place
        ``place(at, end, limit, nbytes, places, table) -> int``: where the symbols of the codes at addresses `at` to
        `end` end, of a tile of `nbytes` bytes that is not raw. To `places` go 256 bytes, for each code the place of its
        symbol's last byte in the tile; behind them what is not less than the last one. Returns how many codes there
        are; 0: the codec cannot tell; -1: the codes are damaged. It reads nothing from `limit` on.
    mark
        ``mark(value, nbytes, yes, maybe, out, table)``: which codes may begin a value. `out` is the address of a word
        for each code and number of last bytes of its symbol, from 1 to 8. Where these are all of the value, or more,
        the bits `yes` are set, and where they begin it, `maybe`.
    mark_second
        ``mark_second(value, nbytes, yes, maybe, escaped, out, table)``: which codes may be behind one that has so many
        last bytes of its symbol for the value's first ones, and not all of them; as `mark` does. The bits `escaped` are
        set for a code behind an escape that stands for the first byte.
    same
        ``same(at, end, have, value, nbytes, table) -> int``: how many characters of codes, from the last `have` bytes
        of the first one's symbol on, are those of a value, or -1: some are others. Fewer than `nbytes` where the codes
        end, or the codec cannot tell. `have` is 0: the whole symbol. Up to eight bytes from any of the value are read.
    plan
        ``plan(value, nbytes, tiles, out, table) -> float``: what `may_have` looks for, to the `PLAN_NBYTES` bytes at
        `out`. `tiles` is of a segment whose codes are looked at. Returns what it costs a tile, about, in ns; more than
        all else: the codec cannot tell.
    may_have
        ``may_have(at, end, limit, plan, value, nbytes, table) -> bool``: whether codes of a tile that is not raw may
        have all of a value.
    may_end
        ``may_end(at, end, value, nbytes, table) -> bool``: whether the last of some codes may be the end of a value,
        or all of it and more before it.
    """

    place: Any
    mark: Any
    mark_second: Any
    same: Any
    plan: Any
    may_have: Any
    may_end: Any


@njit()
def _place_none(at: int, end: int, limit: int, nbytes: int, places: int, table: Any) -> int:
    return 0


@njit()
def _mark_none(value: int, nbytes: int, yes: Any, maybe: Any, out: int, table: Any) -> None:
    return


@njit()
def _mark_no_second(value: int, nbytes: int, yes: Any, maybe: Any, escaped: Any, out: int, table: Any) -> None:
    return


@njit()
def _same_none(at: int, end: int, have: int, value: int, nbytes: int, table: Any) -> int:
    return 0


@njit()
def _plan_none(value: int, nbytes: int, tiles: Any, out: int, table: Any) -> Any:
    return np.inf


@njit()
def _may_have(at: int, end: int, limit: int, plan: int, value: int, nbytes: int, table: Any) -> bool:
    return True


@njit()
def _may_end(at: int, end: int, value: int, nbytes: int, table: Any) -> bool:
    return True


#: Of a codec whose tiles are decoded to be compared.
NO_CODES = CodeComparer(_place_none, _mark_none, _mark_no_second, _same_none, _plan_none, _may_have, _may_end)

#: Bytes of a plan.
PLAN_NBYTES = 2**14 + 64

#: Tiles that are open at the same time, one in each slot.
SLOTS = 8
#: How far ahead codes are had on their way where all tiles are looked at: twice as fast as none where they lie in no L2
#: cache. Any distance from 1 to 8 KiB does as well.
AHEAD = 2048
#: Words of what `CodeComparer.mark` writes, and more before and behind them, for places of damaged tiles.
MARKS = 256 + 256 * 8 + 256
BEFORE = 8 * 256
#: Words behind them, for what characters are hashed to, and where, from those, there are words that
#: `CodeComparer.mark_second` writes.
HASHES = 1024
SECOND = 8 * (MARKS + HASHES)
_HASH_SHIFT = np.uint64(54)
# Of each slot, by place in a word: where the tile's codes begin and end, and where its characters are, or 0.
SLOT_NBYTES = 32
AT, _END, CHARS = 0, 8, 16
# Behind the slots: the first tile behind the last one, and where its codes begin; then places of each slot's codes,
# and room for a tile and 64 bytes.
_FOLLOWING = SLOTS * SLOT_NBYTES
_POSITION = _FOLLOWING + 8
PLACES = _FOLLOWING + 64
DECODED = PLACES + SLOTS * 256


@njit()
def scratch_nbytes(tile_size: int) -> int:
    """Bytes that what `comparers` makes needs to look at tiles."""
    return 64 + DECODED + (SLOTS + 1) * (tile_size + 64)


@njit(inline="always")
def aligned(scratch: Any) -> Any:
    """The address of a scratch buffer, so that places fill whole cache lines."""
    return (np.int64(scratch.ctypes.data) + 63) & ~63


@njit()
def open_none(scratch: Any) -> Any:
    """Have no tile open in a scratch buffer; returns its address."""
    at = aligned(scratch)
    store64(at + _FOLLOWING, np.uint64(1 << 62))
    return at


@njit(inline="always")
def code_at(places: int, begin: int) -> Any:
    """Which code's symbol has the byte at place `begin` of a tile."""
    part = np.int64(np.int64(load8(places + 63)) < begin) + np.int64(np.int64(load8(places + 127)) < begin)
    part = 64 * (part + np.int64(np.int64(load8(places + 191)) < begin))
    return part + count_below(places + part, begin)


@njit()
def fetch(tiles: Any, starts: Any, sizes: Any, count: int) -> None:
    """Have the codes of all tiles in which rows begin on their way before the first is looked at."""
    codes, _, block_starts, lengths, _, tile_size = tiles
    shift = trailing_zeros(np.uint64(tile_size))
    following, position = np.int64(0), np.int64(-1)
    for i in range(count):
        tile = starts[i] >> shift
        if sizes[i] == 0 or (tile < following and position >= 0):
            continue
        block = tile // TILE_BLOCK
        if position < 0 or block != following // TILE_BLOCK:
            following, position = block * TILE_BLOCK, number_at(block_starts + 8 * block)
        while following < tile:
            position += tile_length(lengths, tile_size, following)
            following += 1
        for line in range(0, tile_length(lengths, tile_size, tile), 64):
            prefetch(codes + position + line)


# Filters of the rows of open tiles. `ends`: address of where rows begin, or end; `less`: subtracted from that for a
# place in these tiles; `row` to ``number - 1``: the rows; `stop`: where the tiles end.
# A row whose byte in `out` is 1 gets there 1 if it has the value, 2 if it may have it, and 0 if not.
# A filter returns the first row that begins behind the tiles.


@njit()
def filter_by_code(
    ends: int,
    less: int,
    row: int,
    number: int,
    stop: int,
    tile_size: int,
    marks: int,
    scratch: int,
    out: int,
) -> int:
    """Filter rows by the marks of the codes where they begin; all their tiles have places."""
    shift, inside = trailing_zeros(np.uint64(tile_size)), tile_size - 1
    while row < number:
        begin = number_at(ends + 8 * row) - less
        if begin >= stop:
            break
        slot = begin >> shift
        begin &= inside
        places = scratch + PLACES + 256 * slot
        index = code_at(places, begin)
        code = np.int64(load8(number_at(scratch + AT + SLOT_NBYTES * slot) + index))
        bytes_before_end = np.int64(load8(places + index)) - begin
        verdict = load64(marks + 64 * code + 8 * bytes_before_end) & (np.uint64(0) - np.uint64(load8(out + row)))
        store8(out + row, np.uint8(verdict))
        row += 1
    return row


@njit()
def look_behind(places: int, codes: int, begin: int, last: int, nbytes: int, marks: int) -> Any:
    """What is marked of the code behind that at place `begin` of a tile; 2 where that is an escape, or all there is.

    `places`, `codes`: addresses of those of the tile; `last`: its last byte; `nbytes`: bytes of the value from that
    place on; `marks`: what `mark_second` wrote.
    """
    index = code_at(places, begin)
    place = np.int64(load8(places + index))
    if load8(codes + index) == 255 or place >= last or place - begin + 1 >= nbytes:
        return np.uint64(2)
    return load64(marks + 64 * np.int64(load8(codes + index + 1)) + 8 * (place - begin))


@njit()
def filter_by_chars(
    ends: int,
    less: int,
    row: int,
    number: int,
    stop: int,
    tile_size: int,
    word: Any,
    nbytes: int,
    surely: bool,
    marks: int,
    scratch: int,
    out: int,
) -> int:
    """Filter rows, some of whose tiles have characters; `word`: the first eight of the `nbytes` of the value."""
    shift, inside = trailing_zeros(np.uint64(tile_size)), tile_size - 1
    compared = min(nbytes, 8)
    mask = low_bits(compared) if compared < 8 else ~np.uint64(0)
    yes = np.uint64(1 if surely and compared == nbytes else 2)
    while row < number:
        begin = number_at(ends + 8 * row) - less
        if begin >= stop:
            break
        slot = begin >> shift
        begin &= inside
        chars = number_at(scratch + CHARS + SLOT_NBYTES * slot)
        verdict = np.uint64(0)
        if chars:
            verdict = yes if ((load64(chars + begin) ^ word) & mask) == np.uint64(0) else np.uint64(0)
            verdict = np.uint64(2) if begin > tile_size - compared else verdict  # they go on in the next tile
        else:
            places = scratch + PLACES + 256 * slot
            index = code_at(places, begin)
            code = np.int64(load8(number_at(scratch + AT + SLOT_NBYTES * slot) + index))
            verdict = load64(marks + 64 * code + 8 * (np.int64(load8(places + index)) - begin))
        store8(out + row, np.uint8(verdict & (np.uint64(0) - np.uint64(load8(out + row)))))
        row += 1
    return row


@njit(inline="always")
def hashed(word: Any) -> Any:
    """A number below `HASHES` for a word."""
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> _HASH_SHIFT)


@njit()
def filter_by_values(
    ends: int,
    base: int,
    row: int,
    number: int,
    probe: Any,
    stop: int,
    tile_size: int,
    with_chars: int,
    size_bits: Any,
    marks: int,
    scratch: int,
    bits: int,
    out: int,
) -> int:
    """Filter rows by the values that they may be; to `bits` goes a word for each row, a bit for each of these.

    `base`: where the open tiles begin; `with_chars`: whether one of them has characters; `probe`: whether it is from
    a row's end that the place is counted where it is looked at, how many bytes the place is behind that, and how many
    bytes are hashed there, of characters; `size_bits`: the smallest size, the largest, the address of a word for each
    size from one to the other, or 0, and the bits of all values. What `out` says of a row stays there, or is 0.
    """
    shift, inside = trailing_zeros(np.uint64(tile_size)), tile_size - 1
    from_end, distance, hashed_nbytes = probe
    least, most, of_sizes, every = size_bits
    mask = low_bits(hashed_nbytes) if hashed_nbytes < 8 else ~np.uint64(0)
    less = base - distance
    while row < number:
        start, end = number_at(ends + 8 * row), number_at(ends + 8 * row + 8)
        at = max((end if from_end else start) - less, 0)
        if at >= stop:
            break
        slot, behind = at >> shift, end - base - at
        at &= inside
        possible = every
        chars = number_at(scratch + CHARS + SLOT_NBYTES * slot) if with_chars else 0
        if chars:
            if at + hashed_nbytes <= tile_size:
                possible = load64(marks - BEFORE + 8 * MARKS + 8 * hashed(load64(chars + at) & mask))
        else:
            places = scratch + PLACES + 256 * slot
            index = code_at(places, at)
            codes_at = number_at(scratch + AT + SLOT_NBYTES * slot)
            code = np.int64(load8(codes_at + index))
            place = np.int64(load8(places + index))
            which = 8 * (place - at)
            possible = load64(marks + 64 * code + which)
            # The next code, unless it is another tile's, or the row is over.
            more = np.int64(place != inside) & np.int64(place - at + 1 < behind)
            code = np.int64(load8(codes_at + index + more))
            possible &= load64(marks + SECOND + 64 * code + which) | np.uint64(more - 1)
        if of_sizes:
            possible &= load64(of_sizes + 8 * (min(max(end - start, least), most) - least))
        possible &= np.uint64(0) - np.uint64(load8(out + row))
        store64(bits + 8 * row, possible)
        store8(out + row, np.uint8(possible != np.uint64(0)))
        row += 1
    return row


def openers(decode_any: Any, codes_of: CodeComparer) -> tuple[Any, Any]:
    """Functions that open tiles of a codec, and that compare what is at a place in one; see `comparers`."""
    place, same = codes_of.place, codes_of.same

    @njit()
    def open_tiles(tiles: Any, table: Any, first: int, last: int, slot: int, ahead: int, scratch: int) -> int:
        """Find the places of the codes of tiles `first` to ``last - 1``, or decode these, in slots from `slot` on.

        Codes that are `ahead` bytes behind theirs are had on their way, unless that is 0.
        Returns 1 where one of them has characters, else 0, or ``-1 - tile`` of one that is damaged.
        """
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        following, position = number_at(scratch + _FOLLOWING), number_at(scratch + _POSITION)
        if first < following or first // TILE_BLOCK != following // TILE_BLOCK:
            following = first // TILE_BLOCK * TILE_BLOCK
            position = number_at(block_starts + 8 * (first // TILE_BLOCK))
            if position < 0 or position > codes_nbytes:
                return -1 - first
        while following < first:
            length = tile_length(lengths, tile_size, following)
            if length > tile_size or length > codes_nbytes - position:
                return -1 - first
            position += length
            following += 1
        with_chars: Any = np.int64(0)
        limit = codes + codes_nbytes
        for tile in range(first, last):
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return -1 - tile
            nbytes = min(tile_size, chars - tile * tile_size)
            length = tile_length(lengths, tile_size, tile)
            if length > nbytes or length > codes_nbytes - position:
                return -1 - tile
            codes_at = codes + position
            if ahead:
                for line in range(0, length, 64):
                    prefetch(codes_at + ahead + line)
            position += length
            slot_at = scratch + SLOT_NBYTES * (slot + tile - first)
            store64(slot_at + AT, np.uint64(codes_at))
            store64(slot_at + _END, np.uint64(codes_at + length))
            store64(slot_at + CHARS, np.uint64(0))
            counted: Any = np.int64(0)
            if length < nbytes and tile_size <= 256:
                to = scratch + PLACES + 256 * (slot + tile - first)
                counted = place(codes_at, codes_at + length, limit, nbytes, to, table)
                if counted < 0:
                    return -1 - tile
            if counted == 0:
                to = codes_at
                if length < nbytes or codes_at + nbytes + 8 > limit:
                    buffer_nbytes = tile_size + 64
                    to = scratch + DECODED + (slot + tile - first) * buffer_nbytes
                    if not decode_any(codes_at, codes_at + length, to, nbytes, to + buffer_nbytes, table):
                        return -1 - tile
                store64(slot_at + CHARS, np.uint64(to))
                with_chars = np.int64(1)
        if last % TILE_BLOCK == 0 or last * tile_size >= chars:
            block = (last + TILE_BLOCK - 1) // TILE_BLOCK
            if position != number_at(block_starts + 8 * block):
                return -last
        store64(scratch + _FOLLOWING, np.uint64(last))
        store64(scratch + _POSITION, np.uint64(position))
        return with_chars

    @njit()
    def goes_on(tiles: Any, table: Any, tile: int, position: int, value: int, nbytes: int, scratch: int) -> int:
        """Whether characters from the beginning of a tile on are a value's: 1, 0, or ``-1 - tile`` of a damaged one.

        `position`: where the codes of this tile begin.
        """
        codes, codes_nbytes, _, lengths, chars, tile_size = tiles
        while nbytes > 0:
            if tile * tile_size >= chars:
                return 0
            tile_nbytes = min(tile_size, chars - tile * tile_size)
            length = tile_length(lengths, tile_size, tile)
            if length > tile_nbytes or length > codes_nbytes - position:
                return -1 - tile
            codes_at, compared = codes + position, min(tile_nbytes, nbytes)
            same_nbytes: Any = np.int64(0)
            if length < tile_nbytes:
                same_nbytes = same(codes_at, codes_at + length, 0, value, compared, table)
            else:
                same_nbytes = compared if same_bytes(codes_at, value, compared) else -1
            if 0 <= same_nbytes < compared:
                buffer_nbytes = tile_size + 64
                to = scratch + DECODED + SLOTS * buffer_nbytes
                if not decode_any(codes_at, codes_at + length, to, tile_nbytes, to + buffer_nbytes, table):
                    return -1 - tile
                same_nbytes = compared if same_bytes(to, value, compared) else -1
            if same_nbytes < 0:
                return 0
            value += compared
            nbytes -= compared
            position += length
            tile += 1
        return 1

    @njit()
    def is_at(tiles: Any, table: Any, tile: int, slot: int, begin: int, value: int, nbytes: int, scratch: int) -> int:
        """Whether a value goes on from place `begin` of a tile that is open; returns what `goes_on` does."""
        slot_at = scratch + SLOT_NBYTES * slot
        chars, codes_at, end = number_at(slot_at + CHARS), number_at(slot_at + AT), number_at(slot_at + _END)
        same_nbytes: Any = min(min(tiles[5], tiles[4] - tile * tiles[5]) - begin, nbytes)
        if chars:
            if not same_bytes(chars + begin, value, same_nbytes):
                return 0
        else:
            # First the last bytes that are in the tile: values of a length are often alike in their first ones.
            places = scratch + PLACES + 256 * slot
            stop = begin + same_nbytes - 1
            index = code_at(places, stop)
            first: Any = np.int64(load8(places + index - 1)) + 1 if index else np.int64(0)
            if first > begin and same(codes_at + index, end, 0, value + first - begin, stop + 1 - first, table) < 0:
                return 0
            index = code_at(places, begin)
            symbol_nbytes = np.int64(load8(places + index)) + 1 - begin
            same_nbytes = same(codes_at + index, end, symbol_nbytes, value, nbytes, table)
            if same_nbytes < 0:
                return 0
        if same_nbytes == nbytes:
            return 1
        return goes_on(tiles, table, tile + 1, end - tiles[0], value + same_nbytes, nbytes - same_nbytes, scratch)

    return open_tiles, is_at
