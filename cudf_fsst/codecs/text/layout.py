"""The layout of a segment's bytes (docs/format.md, sections 2-4).

Shared by every codec side: host arrays and device buffers have the same bytes, so moving a segment is two copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...lazy import lazy
from ..part import ALIGNMENT

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
#: Sections of ``meta`` in stored order.
SECTIONS = ("block_starts", "row_starts", "row_minima", "row_words", "tile_lengths", "row_bits", "validity")


def check_options(tile_size: int | str, level: str) -> None:
    """Raise ValueError for a tile size or a level that there is not."""
    if isinstance(tile_size, bool) or tile_size not in ("auto", *TILE_SIZES):
        raise ValueError(f"tile_size must be 'auto' or one of {TILE_SIZES}, not {tile_size!r}")
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")


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

    @lazy
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
    def places(self) -> tuple[int, ...]:
        """Offsets of the sections of ``meta``, in stored order, and its bytes."""
        places, end = [], 0
        for itemsize, count in self._sizes:
            places.append(end)
            end += itemsize * count
            end += -end % ALIGNMENT
        return (*places, end)

    @property
    def _sizes(self) -> tuple[tuple[int, int], ...]:
        """Bytes of an entry, and entries, of every section."""
        row_blocks, tiles = self.row_blocks, self.tiles
        return (
            (8, -(-tiles // TILE_BLOCK) + 1),
            (8, row_blocks + 1),
            (4, row_blocks),
            (4, row_blocks + 1),
            (self.tile_length_itemsize, tiles),
            (4, self.row_bits_words),
            (1, -(-self.rows // 8) if self.has_nulls else 0),
        )

    @lazy
    def sections(self) -> dict[str, Section]:
        """Section name -> place, in stored order."""
        stored = zip(SECTIONS, self.places, self._sizes, strict=False)
        return {name: Section(place, itemsize, count) for name, place, (itemsize, count) in stored}

    @property
    def meta_nbytes(self) -> int:
        return self.places[-1]
