"""Strings to segments on the host, in Numba without the GIL, for every codec of text; back by `cpu_read`, `cpu_take`.

Work is cut into chunks of whole blocks of tiles, for the threads of the process (Numba's own thread pools must not be
entered from several Python threads at once; plain threads over nogil kernels may). What is stored does not depend on
the number of threads.

Kernels take addresses: one compiled version serves every kind of array. Addresses are taken where a kernel is called,
of arrays that the work item holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...workers import map_items
from ..bitmap import rebased
from ..contract import TextCodec
from ..registry import of_text
from ..table import Table
from ..unaligned import address
from ..work import cut
from . import choose, cpu_read, plan
from . import cpu_kernels as kernels
from .choose import codec_of
from .cpu_read import read, row_ends, validity
from .cpu_take import gather, take
from .layout import TILE_BLOCK, SegmentLayout, check_options
from .row_lengths import check_ascending, measure, pack
from .segment import Segment
from .validate import check

__all__ = ["check", "compress", "gather", "read", "row_ends", "take", "train", "validity"]


def checked(strings: HostStrings) -> HostStrings:
    """Check bounds of a column, drop characters under its nulls; without nulls, drop its validity."""
    offsets = np.ascontiguousarray(strings.offsets[: strings.rows + 1])
    if offsets.size != strings.rows + 1 or offsets.dtype not in (np.int32, np.int64):
        raise ValueError(f"{strings.rows} rows need as many offsets and one more, int32 or int64")
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= strings.chars.size:
        raise ValueError(f"offsets {first} to {last} are outside the {strings.chars.size} characters")
    check_ascending(offsets)
    if strings.null_count == 0 or strings.validity is None:
        return HostStrings(strings.rows, strings.chars, offsets)
    validity = np.ascontiguousarray(strings.validity).view(np.uint8)
    if strings.validity_offset < 0 or 8 * validity.size < strings.validity_offset + strings.rows:
        raise ValueError(f"validity has {validity.size} bytes for {strings.rows} rows from {strings.validity_offset}")
    chars = strings.chars
    where = address(offsets), offsets.itemsize, strings.rows, address(validity), strings.validity_offset
    if kernels.nulls_have_chars(*where):
        kept = np.empty(strings.rows + 1, np.int64)
        chars = np.ascontiguousarray(chars)
        compact = np.empty(kernels.drop_null_chars(*where, address(chars), kept, 0), np.uint8)
        if compact.size:
            kernels.drop_null_chars(*where, address(chars), kept, address(compact))
        chars, offsets = compact, kept
    return HostStrings(strings.rows, chars, offsets, validity, strings.validity_offset, strings.null_count)


#: Writes tiles of a segment's characters; see `contract.HostTextCodec.encoder`.
Encoder = Callable[..., int]
#: Segments that share a table: their row ranges.
Scope = list[tuple[int, int]]


def scopes_of(offsets: npt.NDArray[Any]) -> list[Scope]:
    """Segments that have rows, as they share tables (docs/format.md, section 7)."""
    rows = offsets.size - 1
    base, chars = int(offsets[0]), int(offsets[-1] - offsets[0])
    size = plan.segment_size(chars)
    cuts = [base + k * size for k in range(1, plan.segment_count(chars))]
    edges = [0, *np.searchsorted(offsets[:-1], np.array(cuts, offsets.dtype)).tolist(), rows]
    parts = [(first, last) for first, last in pairwise(edges) if first < last]
    per_table = plan.segments_per_table(chars)
    return [parts[i : i + per_table] for i in range(0, len(parts), per_table)]


def train(strings: HostStrings, codec: TextCodec | None = None, *, level: str = "default") -> Table:
    """Train one table on all the characters of a column, for one of `LEVELS`.

    Raises
    ------
    ValueError
        An unknown level, or offsets that decrease or lie outside the characters.
    """
    check_options("auto", level)
    strings = checked(strings)
    chars = strings.chars[int(strings.offsets[0]) : int(strings.offsets[-1])]
    return (codec or codec_of()).host().train(chars, 0, chars.size, level)


def compress(
    strings: HostStrings,
    *codecs: TextCodec,
    table: Table | None = None,
    tile_size: int | Literal["auto"] = "auto",
    level: str = "default",
) -> list[Segment]:
    """Compress a column.

    Parameters
    ----------
    strings
        The column; its characters under nulls are dropped.
    *codecs
        Of several, each scope gets the one with which it is expected to be smallest. None: that of the table, or the
        one that is taken at level ``default``.
    table
        One of the codec's, used for all segments; None trains tables on the column.
    tile_size
        One of `TILE_SIZES`, or ``"auto"``.
    level
        One of `LEVELS`.

    Returns
    -------
    list of Segment
        Host segments; none for a column without rows.

    Raises
    ------
    ValueError
        A wrong argument, or offsets that decrease or lie outside the characters.
    """
    check_options(tile_size, level)
    if strings.rows == 0:
        return []
    strings = checked(strings)
    codecs = codecs or (codec_of(table=table),)
    return encode(strings, scopes_of(strings.offsets), codecs, table=table, tile_size=tile_size, level=level)


def encode(
    strings: HostStrings,
    scopes: Sequence[Scope],
    codecs: Sequence[TextCodec],
    *,
    table: Table | None = None,
    tile_size: int | Literal["auto"] = "auto",
    level: str = "default",
) -> list[Segment]:
    """Compress some of the `scopes_of` a column that was `checked`; see `compress`."""
    offsets = strings.offsets
    base, nbytes = int(offsets[0]), int(offsets[-1] - offsets[0])
    chars = np.ascontiguousarray(strings.chars[base : base + nbytes])
    if table is None:
        spans = [(int(offsets[scope[0][0]]) - base, int(offsets[scope[-1][1]]) - base) for scope in scopes]
        tables = map_items(lambda span: choose.train(codecs, chars, span[0], span[1] - span[0], level), spans)
    else:
        tables = [table] * len(scopes)
    encoders = {own: _encoder(own, level, tile_size) for own in tables}
    return [
        _compress_segment(strings, chars, base, first, last, own, *encoders[own])
        for scope, own in zip(scopes, tables, strict=True)
        for first, last in scope
    ]


def _encoder(table: Table, level: str, tile_size: int | Literal["auto"]) -> tuple[int, Encoder]:
    """The tile size, and what encodes such tiles."""
    codec = of_text(table.codec)
    tile = codec.TILE_SIZE if tile_size == "auto" else int(tile_size)
    return tile, codec.host().encoder(table, level, tile)


def _compress_segment(
    strings: HostStrings,
    chars: npt.NDArray[np.uint8],
    base: int,
    first: int,
    last: int,
    table: Table,
    tile_size: int,
    encoder: Encoder,
) -> Segment:
    rows = last - first
    offsets = strings.offsets[first : last + 1]
    start, end = int(offsets[0]) - base, int(offsets[-1]) - base
    lengths = measure(offsets)
    null_count = 0
    if strings.validity is not None:
        validity = rebased(strings.validity, strings.validity_offset + first, rows)
        null_count = rows - int(np.bitwise_count(validity).sum(dtype=np.int64))
    layout = SegmentLayout(rows, end - start, tile_size, null_count > 0, lengths.words)
    meta = np.zeros(layout.meta_nbytes, np.uint8)
    segment = Segment(layout, null_count, table, meta, np.empty(0, np.uint8), 0)  # gives views of the sections
    segment.section("row_starts")[:] = lengths.row_starts
    segment.section("row_minima")[:] = lengths.row_minima
    segment.section("row_words")[:] = lengths.row_words
    pack(offsets, lengths, segment.section("row_bits"))
    if null_count:
        segment.section("validity")[:] = validity

    block_starts = segment.section("block_starts")
    tiles = layout.tiles
    own_chars, tile_lengths = chars[start:end], segment.section("tile_lengths")

    def encode(chunk: tuple[int, int]) -> npt.NDArray[np.uint8]:
        tile_first, tile_last = chunk[0] * TILE_BLOCK, min(chunk[1] * TILE_BLOCK, tiles)
        codes = np.empty((tile_last - tile_first) * tile_size, np.uint8)
        nbytes = encoder(own_chars, tile_first, tile_last, codes, tile_lengths, block_starts[1:])
        return codes[:nbytes].copy()

    chunks = cut(0, layout.blocks, cpu_read.CHUNK_BLOCKS)
    pieces = map_items(encode, chunks)
    for (first_block, last_block), before in zip(chunks, accumulate([0, *map(len, pieces)]), strict=False):
        block_starts[1:][first_block:last_block] += np.uint64(before)
    codes = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
    return Segment(layout, null_count, table, meta, codes, codes.size)
