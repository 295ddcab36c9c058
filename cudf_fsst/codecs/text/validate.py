"""Whether a segment's bytes are consistent (docs/format.md, section 9), so that a decoder need not look at bounds.

Checksums find damage; this finds bytes that lie although their checksums hold. It reads everything once and decodes
nothing: of the codes only the lengths of their symbols matter.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ...workers import map_items
from ..jit import njit
from ..registry import of_text
from ..work import cut
from .layout import ROW_BLOCK, TILE_BLOCK, TILE_SIZES
from .segment import Segment

#: Row blocks that a thread checks at once.
_BLOCKS = 2**10
#: What the compiled checks return where they find nothing wrong; otherwise a reason and where it was found.
_FINE = (0, 0)
_REASONS = {
    1: "tile {} has a length outside its bytes",
    2: "block_starts disagrees with the tile lengths at block {}",
    6: "row_words does not grow by a multiple of 8 at row block {}",
    7: "row block {} has lengths of more than 63 bits",
    8: "row_starts disagrees with the row lengths at row block {}",
    9: "row block {} holds more than the characters of the segment",
    10: "null row {} has characters",
    11: "row block {} has differences past the last row",
}


@njit()
def _check_tiles(
    tile_lengths: npt.NDArray[Any], block_starts: npt.NDArray[np.uint64], chars: int, tile_size: int, codes_nbytes: int
) -> tuple[int, int]:
    """Tile lengths against the tiles' bytes and `block_starts`; `start` never passes `chars`."""
    tiles = tile_lengths.size
    start = 0
    for block in range(block_starts.size - 1):
        if block_starts[block] != np.uint64(start):
            return 2, block
        for tile in range(block * TILE_BLOCK, min((block + 1) * TILE_BLOCK, tiles)):
            length: Any = np.int64(tile_lengths[tile]) + 1
            if length > min(tile_size, chars - tile * tile_size):
                return 1, tile
            start += length
    if block_starts[block_starts.size - 1] != np.uint64(start) or start != codes_nbytes:
        return 2, block_starts.size - 1
    return 0, 0


@njit()
def _check_rows(
    row_starts: npt.NDArray[np.uint64],
    row_minima: npt.NDArray[np.uint32],
    row_words: npt.NDArray[np.uint32],
    row_bits: npt.NDArray[np.uint32],
    validity: npt.NDArray[np.uint8],
    rows: int,
    chars: int,
    first: int,
    last: int,
) -> tuple[int, int]:
    """Row lengths of blocks `first` to ``last - 1`` against `row_starts`, `chars` and the nulls.

    Where a block begins is believed: whoever checks the blocks before finds it out.
    """
    if first == 0 and (row_words[0] != 0 or row_starts[0] != 0):
        return (6 if row_words[0] != 0 else 8), 0
    position = row_starts[first]
    for block in range(first, last):
        if row_starts[block] != position:
            return 8, block
        first_word = np.int64(row_words[block])
        words = np.int64(row_words[block + 1]) - first_word
        if words < 0 or words % 8 != 0 or row_words[block + 1] > row_bits.size:
            return 6, block
        width = words // 8
        if width > 63:
            return 7, block
        minimum = np.uint64(row_minima[block])
        for i in range(ROW_BLOCK):
            difference = np.uint64(0)
            if width > 0:
                bit = i * width
                word = first_word + bit // 32
                shift = np.uint64(bit % 32)
                difference = np.uint64(row_bits[word]) >> shift
                have = 32 - bit % 32
                if have < width:
                    difference |= np.uint64(row_bits[word + 1]) << np.uint64(have)
                    if have + 32 < width:
                        difference |= np.uint64(row_bits[word + 2]) << np.uint64(have + 32)
                difference &= (np.uint64(1) << np.uint64(width)) - np.uint64(1)
            row = block * ROW_BLOCK + i
            if row >= rows:
                if difference != 0:
                    return 11, block
                continue
            length = minimum + difference
            if length > np.uint64(chars) - position:
                return 9, block
            if length != 0 and validity.size > 0 and not (validity[row >> 3] >> (row & 7)) & 1:
                return 10, row
            position += length
    if last < row_minima.size:
        return (0, 0) if row_starts[last] == position else (8, last)
    if row_words[row_words.size - 1] != row_bits.size:
        return 6, row_minima.size
    if row_starts[row_starts.size - 1] != position or position != np.uint64(chars):
        return 8, row_minima.size
    return 0, 0


def _wrong(part: str, message: str) -> NoReturn:
    raise ValueError(f"{part}: {message}")


def check(segment: Segment, *, codes: bool = True) -> None:
    """Check that a host segment is consistent, so that decoding it stays inside its buffers.

    Parameters
    ----------
    segment
        In host memory.
    codes
        False: whether codes decode to the bytes of their tiles is left to who checks it on a GPU.

    Raises
    ------
    ValueError
        Naming the buffer (``meta`` or ``codes``) and what is wrong in it.
    """
    layout = segment.layout
    if layout.tile_size not in TILE_SIZES:
        _wrong("segment", f"tile size {layout.tile_size} is not one of {TILE_SIZES}")
    if not 1 <= layout.rows < 2**63 or not 0 <= layout.chars < 2**63:
        _wrong("segment", f"{layout.rows} rows with {layout.chars} characters are not possible")
    if not 0 <= segment.null_count <= layout.rows or (segment.null_count > 0) != layout.has_nulls:
        _wrong("segment", f"{segment.null_count} nulls in {layout.rows} rows are not possible")
    if segment.meta.nbytes != layout.meta_nbytes:
        _wrong("meta", f"has {segment.meta.nbytes} bytes, its segment needs {layout.meta_nbytes}")
    if segment.codes.nbytes != segment.codes_nbytes:
        _wrong("codes", f"has {segment.codes.nbytes} bytes, its segment needs {segment.codes_nbytes}")

    sections = list(layout.sections.values())
    next_starts = [section.offset for section in sections[1:]] + [layout.meta_nbytes]
    for name, section, next_start in zip(layout.sections, sections, next_starts, strict=True):
        if segment.meta[section.offset + section.nbytes : next_start].any():
            _wrong("meta", f"the bytes after {name} are not zero")

    view = segment.section
    tile_lengths = view("tile_lengths")
    mistake = _check_tiles(tile_lengths, view("block_starts"), layout.chars, layout.tile_size, segment.codes_nbytes)
    if mistake == _FINE:
        _check_validity(segment)
        names = ("row_starts", "row_minima", "row_words", "row_bits", "validity")
        arguments = *(view(name) for name in names), layout.rows, layout.chars
        blocks = cut(0, view("row_minima").size, _BLOCKS)
        mistakes = map_items(lambda row_range: _check_rows(*arguments, *row_range), blocks or [(0, 0)])
        mistake = next((result for result in mistakes if result != _FINE), _FINE)
    if mistake != _FINE:
        _wrong("meta", _REASONS[mistake[0]].format(mistake[1]))
    if not codes:
        return
    try:
        of_text(segment.codec).host().check_codes(segment)
    except ValueError as error:
        _wrong("codes", str(error))


def _check_validity(segment: Segment) -> None:
    if segment.null_count == 0:
        return
    validity = segment.section("validity")
    past = segment.rows % 8
    if past and validity[-1] >> past:
        _wrong("meta", "validity has bits past the last row")
    nulls = segment.rows - int(np.bitwise_count(validity).sum(dtype=np.int64))
    if nulls != segment.null_count:
        _wrong("meta", f"validity has {nulls} nulls, not {segment.null_count}")
