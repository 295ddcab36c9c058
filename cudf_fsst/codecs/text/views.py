"""What the host writes for kernels of compression to read: views, as words, and places of what they find."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate, chain
from typing import NamedTuple


class ColumnView(NamedTuple):
    """A column to compress."""

    chars: int
    offsets: int
    wide: int
    rows: int
    validity: int
    validity_offset: int
    segment_chars: int
    segments: int
    found: int
    row_words: int
    first_row_block: int


class ScopeView(NamedTuple):
    """The scope of a table that is trained."""

    found: int
    segments: int
    first: int
    most: int
    tables_form: int


class SampleView(NamedTuple):
    """A scope, and where its sample goes; see kernels/text_sample.cu."""

    scope: int
    sample: int
    first_char: int
    bounds: int


class WaveView(NamedTuple):
    """Tiles that are encoded together; what text_compact needs besides is known later."""

    first_char: int
    bounds: int
    tables: int
    staged: int
    tile_begin: int
    tile_limit: int
    slot: int
    bundle_lengths: int
    tile_lengths: int
    codes_nbytes: int
    capacity: int
    used: int
    taken: int
    tiles: int = 0
    before: int = 0
    block_starts: int = 0
    stored_lengths: int = 0
    codes: int = 0


class PackView(NamedTuple):
    """A segment whose row lengths are packed."""

    offsets: int
    wide: int
    rows: int
    chars: int
    words: int
    first_row_block: int
    validity: int
    validity_offset: int
    tile_shift: int
    row_bits_words: int
    block_starts: int
    row_starts: int
    row_minima: int
    row_words: int
    tile_lengths: int
    row_bits: int
    stored_validity: int


#: Bytes of a word of a view.
WORD = 8


def words(views: Iterable[tuple[int, ...]]) -> array[int]:
    """Views one after another, as kernels read them."""
    return array("Q", list(chain.from_iterable(views)))  # of a list, for its size is known


class CountPlaces(NamedTuple):
    """Where the numbers that the GPU counts of a column lie, counted in numbers; as in kernels/text_compress.cuh."""

    rows_begin: int
    chars_begin: int
    nulls: int
    words: int
    codes_nbytes: int
    used: int
    taken: int
    null_chars: int
    first_char: int
    end: int


def count_places(begin: int, segments: int) -> CountPlaces:
    """Places of a column's numbers, whose first is number `begin`."""
    counts = (segments + 1, segments + 1, segments, segments, segments, segments, segments, 1, 1)
    return CountPlaces(*accumulate(counts, initial=begin))
