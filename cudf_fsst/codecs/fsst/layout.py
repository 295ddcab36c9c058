"""The layout of an FSST segment's bytes (docs/format.md, sections 2-4).

Shared by every codec side: host arrays and device buffers have the same bytes, so moving a segment is two copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...lazy import lazy
from ..part import align

#: Tile sizes (uncompressed bytes) the format allows.
TILE_SIZES = (128, 256, 512, 1024)
#: Compression levels there are; each writes this format.
LEVELS = ("default", "max")
#: Tiles per block of tiles.
TILE_BLOCK = 128
#: Rows per block of packed row lengths.
ROW_BLOCK = 256
#: Largest ``minimum`` a row block can store.
ROW_MINIMUM_LIMIT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Section:
    """Where one section of ``meta`` lies."""

    offset: int
    itemsize: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.itemsize * self.count


@dataclass(frozen=True)
class SegmentLayout:
    """Sizes of a segment and the sections of its ``meta`` buffer.

    Parameters
    ----------
    rows, chars
        Rows and uncompressed bytes of the segment.
    tile_size
        Uncompressed bytes of a tile, one of `TILE_SIZES`.
    has_nulls
        Whether a validity bitmap is stored.
    row_bits_words
        32-bit words of packed row lengths.
    """

    rows: int
    chars: int
    tile_size: int
    has_nulls: bool
    row_bits_words: int

    @property
    def tiles(self) -> int:
        return -(-self.chars // self.tile_size)

    @property
    def blocks(self) -> int:
        return -(-self.tiles // TILE_BLOCK)

    @property
    def row_blocks(self) -> int:
        return -(-self.rows // ROW_BLOCK)

    @property
    def tile_length_itemsize(self) -> int:
        return 1 if self.tile_size <= 256 else 2

    @lazy
    def sections(self) -> dict[str, Section]:
        """Section name -> place, in stored order."""
        wanted = (
            ("block_starts", 8, self.blocks + 1),
            ("row_starts", 8, self.row_blocks + 1),
            ("row_minima", 4, self.row_blocks),
            ("row_words", 4, self.row_blocks + 1),
            ("tile_lengths", self.tile_length_itemsize, self.tiles),
            ("row_bits", 4, self.row_bits_words),
            ("validity", 1, -(-self.rows // 8) if self.has_nulls else 0),
        )
        sections = {}
        offset = 0
        for name, itemsize, count in wanted:
            sections[name] = Section(offset, itemsize, count)
            offset = align(offset + itemsize * count)
        return sections

    @lazy
    def meta_nbytes(self) -> int:
        last = self.sections["validity"]
        return align(last.offset + last.nbytes)
