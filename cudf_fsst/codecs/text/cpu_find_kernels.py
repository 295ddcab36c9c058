"""Numba kernels that find rows that are one of some values, of lengths that many rows have.

Two ways. Rows are looked at one after another, where they lie in the codes, at a place that few of them have in common
with a value. Or, of a single value, codes of a tile are searched for some that are in it, whatever is before and behind
(`CodeComparer.may_have`): then tiles that cannot have it are not opened, and of their rows only that which goes on in
the next tile is looked at. A tile is searched in half the time that it takes to open it, without one step for a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import njit
from ..unaligned import load8, load64, prefetch, store8, store64, trailing_zeros
from .cpu_compare_kernels import BEHIND, MOST_SKIPPED
from .cpu_places_kernels import (
    AHEAD,
    BEFORE,
    MARKS,
    SECOND,
    SLOTS,
    CodeComparer,
    filter_by_values,
    hashed,
    low_bits,
    tile_length,
)
from .layout import TILE_BLOCK
from .row_lengths import number_at

#: Values of at most so many bytes are told by their ends: rows of them have few tiles.
_TOLD_BY_ENDS = 512


def finders(open_tiles: Any, is_at: Any, codes_of: CodeComparer) -> tuple[Any, Any, Any]:
    """The functions `mark_values`, `find_values` and `find_value`; see `cpu_compare_kernels.edge_comparer`."""
    _, mark, mark_second, same, _, may_have, may_end = codes_of

    @njit()
    def mark_values(values: Any, choice: int, table: Any, marks: int) -> tuple[bool, int, int]:
        """Have `marks` say what values have where rows are looked at; returns `probe` of `filter_by_values`."""
        sizes, firsts, words, word_starts = values
        least, longest = sizes[0], sizes[-1]
        words_at = np.int64(words.ctypes.data)
        behind = min(np.int64(BEHIND[min(choice, len(BEHIND) - 1)]), least)
        from_end = choice < len(BEHIND) and longest <= _TOLD_BY_ENDS
        distance: Any = np.int64(0)
        if from_end:
            distance = -behind
        elif choice < len(BEHIND):
            distance = min(least, MOST_SKIPPED) - behind
        else:
            behind = min(least, 8)
        mask = low_bits(behind) if behind < 8 else ~np.uint64(0)
        for word in range(-BEFORE, SECOND + 8 * MARKS - BEFORE, 8):
            store64(marks + word, np.uint64(0))
        for group in range(sizes.size):
            skip = (sizes[group] if from_end else 0) + distance
            for value in range(firsts[group], firsts[group + 1]):
                bit = np.uint64(1) << np.uint64(value)
                value_at = words_at + 8 * word_starts[value] + skip
                mark(value_at, sizes[group] - skip, bit, bit, marks, table)
                mark_second(value_at, sizes[group] - skip, bit, bit, bit, marks + SECOND, table)
                at = marks - BEFORE + 8 * MARKS + 8 * hashed(load64(value_at) & mask)
                store64(at, load64(at) | bit)
        return from_end, distance, behind

    @njit()
    def find_values(
        tiles: Any,
        table: Any,
        ends: int,
        number: int,
        probe: Any,
        size_bits: Any,
        values: Any,
        marks: int,
        scratch: int,
        flags: int,
        bits: int,
        out: int,
    ) -> tuple[int, int]:
        """Tell of rows with a byte 1 in `flags` whether they are one of some values, of which there are at most 64.

        What is looked at first of a row is what `filter_by_values` takes as `probe`, and `size_bits`; `bits` is the
        address of a word for each row, and `flags` may have any value afterwards. Returns -1 or a damaged tile, and how
        many rows had to be looked at twice.
        """
        tile_size, chars_end = tiles[5], tiles[4]
        shift = trailing_zeros(np.uint64(tile_size))
        _, _, words, word_starts = values
        words_at = np.int64(words.ctypes.data)
        from_end, distance, _ = probe
        at_once = SLOTS if number_at(ends + 8 * number) - number_at(ends) <= number * tile_size else 2
        row: Any = np.int64(0)
        twice: Any = np.int64(0)
        while row < number:
            flagged = load64(flags + row)
            if flagged == np.uint64(0):
                row += 8
                continue
            row += trailing_zeros(flagged) >> 3
            if row >= number:
                break
            begin = number_at(ends + 8 * row)
            at = (number_at(ends + 8 * row + 8) if from_end else begin) + distance
            first = begin >> shift
            last = min(first + at_once, ((number_at(ends + 8 * number) - 1) >> shift) + 1)
            last = max(last, (at >> shift) + 1)
            with_chars: Any = open_tiles(tiles, table, first, last, 0, AHEAD, scratch)
            if with_chars < 0:
                return -1 - with_chars, 0
            base = first << shift
            stop = min((last - first) << shift, chars_end - base)
            candidate = row
            row = filter_by_values(
                ends, base, row, number, probe, stop, tile_size, with_chars, size_bits, marks, scratch, bits, flags
            )
            while candidate < row:
                flagged = load64(flags + candidate)
                if flagged == np.uint64(0):
                    candidate += 8
                    continue
                candidate += trailing_zeros(flagged) >> 3
                if candidate >= row:
                    break
                begin = number_at(ends + 8 * candidate)
                slot = (begin - base) >> shift
                size = number_at(ends + 8 * candidate + 8) - begin
                value_bits = load64(bits + 8 * candidate)
                while value_bits != np.uint64(0):
                    value = trailing_zeros(value_bits)
                    value_bits &= value_bits - np.uint64(1)
                    value_at = words_at + 8 * word_starts[value]
                    verdict = is_at(tiles, table, first + slot, slot, begin & (tile_size - 1), value_at, size, scratch)
                    if verdict < 0:
                        return -1 - verdict, 0
                    if verdict:
                        store8(out + candidate, np.uint8(1))
                        break
                twice += 1
                candidate += 1
        return -1, twice

    @njit()
    def code_starts(tiles: Any, first: int, last: int, positions: Any) -> int:
        """Find where the codes of tiles begin, and where those of the last one end; -1, or a damaged tile."""
        codes_nbytes, block_starts, lengths, chars, tile_size = tiles[1:]
        for block in range(first // TILE_BLOCK, (last + TILE_BLOCK - 1) // TILE_BLOCK):
            position = number_at(block_starts + 8 * block)
            tile, stop = block * TILE_BLOCK, min((block + 1) * TILE_BLOCK, last)
            if position < 0 or position > codes_nbytes:
                return tile
            while tile < min(first, stop):
                position += tile_length(lengths, tile_size, tile)
                tile += 1
            while tile < stop:
                positions[tile - first] = position
                position += tile_length(lengths, tile_size, tile)
                tile += 1
            if position > codes_nbytes:
                return tile - 1
            if (tile % TILE_BLOCK == 0 or tile * tile_size >= chars) and position != number_at(
                block_starts + 8 * block + 8
            ):
                return tile - 1
            positions[tile - first] = position
        return -1

    @njit()
    def tile_may_have(
        tiles: Any, table: Any, tile: int, begin: int, end: int, plan: int, value: int, nbytes: int
    ) -> bool:
        """Whether a tile may have all of a value, by its codes, which lie from `begin` to `end`."""
        raw = end - begin >= min(tiles[5], tiles[4] - tile * tiles[5])  # or damaged
        return raw or may_have(tiles[0] + begin, tiles[0] + end, tiles[0] + tiles[1], plan, value, nbytes, table)

    @njit()
    def may_cross(tiles: Any, table: Any, tile: int, place: Any, nbytes: int, value: int, positions: Any) -> bool:
        """Whether the first `nbytes` of a value may end a tile, and the others, of `value`, begin the next one.

        `place`: number of the tile in `positions`, and bytes of the value behind the first ones.
        """
        number, rest = place
        codes, tile_size = tiles[0], tiles[5]
        before, begin, end = positions[number], positions[number + 1], positions[number + 2]
        raw = end - begin >= min(tile_size, tiles[4] - (tile + 1) * tile_size)  # or damaged
        if not raw and same(codes + begin, codes + end, 0, value + nbytes, rest, table) < 0:
            return False
        return begin - before >= tile_size or may_end(codes + before, codes + begin, value, nbytes, table)

    @njit()
    def find_value(
        tiles: Any,
        table: Any,
        ends: int,
        number: int,
        rare: bool,
        finding: Any,
        candidates: Any,
        count: int,
        positions: Any,
        plan: int,
        flags: int,
        bits: int,
        out: int,
    ) -> int:
        """Find one value of no more bytes than a tile, as `find_values` does; tiles that cannot have it are not opened.

        `rare`: only rows with flags are looked at, which are the `count` candidates; `finding`: `probe`, `size_bits`,
        `values`, `marks` and `scratch` of `find_values`.
        """
        probe, size_bits, values, marks, scratch = finding
        shift = trailing_zeros(np.uint64(tiles[5]))
        value, nbytes = np.int64(values[2].ctypes.data), values[0][0]
        first, last = number_at(ends) >> shift, ((number_at(ends + 8 * number) - 1) >> shift) + 1
        bad = code_starts(tiles, first, last, positions)
        if bad >= 0:
            return bad
        row: Any = np.int64(0)
        known, has = np.int64(-1), np.bool_(False)
        if rare:
            for i in range(count):
                tile = (number_at(ends + 8 * candidates[i]) >> shift) - first
                prefetch(tiles[0] + positions[tile])
                prefetch(tiles[0] + positions[tile] + 64)
                prefetch(tiles[0] + positions[tile + 1] - 1)
            for i in range(count):
                row = candidates[i]
                begin = number_at(ends + 8 * row)
                tile = begin >> shift
                inside = ((tile + 1) << shift) - begin
                if inside < nbytes:
                    place = tile - first, nbytes - inside
                    may = may_cross(tiles, table, tile, place, inside, value, positions)
                else:
                    if tile != known:
                        has = tile_may_have(
                            tiles,
                            table,
                            tile,
                            positions[tile - first],
                            positions[tile - first + 1],
                            plan,
                            value,
                            nbytes,
                        )
                        known = tile
                    may = has
                if may:
                    store8(flags + row, np.uint8(1))
                    bad, _ = find_values(
                        tiles,
                        table,
                        ends + 8 * row,
                        1,
                        probe,
                        size_bits,
                        values,
                        marks,
                        scratch,
                        flags + row,
                        bits,
                        out + row,
                    )
                    if bad >= 0:
                        return bad
            return -1
        for tile in range(first, last):
            begin, end = positions[tile - first], positions[tile - first + 1]
            for line in range(0, end - begin, 64):
                prefetch(tiles[0] + begin + AHEAD + line)
            stop, first_row = (tile + 1) << shift, row
            if count == number:
                row = min((stop - number_at(ends)) // nbytes, number)
            else:
                while row + 8 <= number and number_at(ends + 8 * row + 64) <= stop:
                    row += 8
                while row < number and number_at(ends + 8 * row + 8) <= stop:
                    row += 1
            has = row > first_row and tile_may_have(tiles, table, tile, begin, end, plan, value, nbytes)
            last_row = row if has else first_row
            if row < number and number_at(ends + 8 * row) < stop:
                inside = stop - number_at(ends + 8 * row)
                if load8(flags + row) and may_cross(
                    tiles, table, tile, (tile - first, nbytes - inside), inside, value, positions
                ):
                    first_row = row if last_row == first_row else first_row
                    last_row = row + 1
                row += 1
            if last_row > first_row:
                bad, _ = find_values(
                    tiles,
                    table,
                    ends + 8 * first_row,
                    last_row - first_row,
                    probe,
                    size_bits,
                    values,
                    marks,
                    scratch,
                    flags + first_row,
                    bits,
                    out + first_row,
                )
                if bad >= 0:
                    return bad
        return -1

    return mark_values, find_values, find_value
