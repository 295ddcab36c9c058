"""FSST on the host: what differs from other codecs of text (`contract.HostTextCodec`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...workers import map_items
from ..jit import njit
from ..text import plan
from ..text.cpu_decode import decoder
from ..text.cpu_match_kernels import Search, match_rows
from ..text.cpu_places_kernels import CodeComparer
from ..text.cpu_rows_kernels import row_answerer
from ..text.layout import TILE_BLOCK
from ..text.search import Automaton as ByteAutomaton
from ..text.segment import Segment
from ..unaligned import address
from ..work import cut
from . import cpu_compare_kernels as comparing
from . import cpu_kernels as kernels
from . import cpu_rows_kernels as rows
from .automaton import automaton
from .symbols import SymbolTable
from .train import train_table
from .train_max import train_table_max

__all__ = ["DECODER", "REASONS", "SEARCH", "check_codes", "encoder", "train"]

#: Tiles whose codes a thread checks at once, a multiple of `TILE_BLOCK`.
_CHECKED_TILES = 2**14
#: What `_check_codes`, or fsst_check.cu, may find wrong in a tile.
REASONS = {
    1: "tile {} has a code that its symbol table lacks",
    2: "tile {} ends inside an escape",
    3: "tile {} does not decode to its bytes",
}


def train(chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str) -> SymbolTable:
    """Train the table of a scope; see `contract.HostTextCodec`."""

    def sample(level: str, draw: int = 0) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        starts, _ = plan.sample_positions(start, nbytes, level, draw)
        return plan.joined_chunks(chars, starts, start + nbytes)

    table = train_table(*sample("default"))
    if level == "default":
        return table
    drawn = nbytes > plan.SAMPLE_CHUNK * plan.SAMPLE_CHUNKS[level]
    return train_table_max(*sample(level), table, sample(level, 1) if drawn else None)


def encoder(table: SymbolTable, level: str, tile_size: int) -> Callable[..., int]:
    """What encodes tiles; see `contract.HostTextCodec`."""
    parser = automaton(table) if level == "max" else None

    def encode(
        chars: npt.NDArray[np.uint8],
        first: int,
        last: int,
        codes: npt.NDArray[np.uint8],
        tile_lengths: npt.NDArray[Any],
        block_ends: npt.NDArray[np.uint64],
    ) -> int:
        begin = address(chars)
        tiles = begin, begin + chars.size, tile_size, first, last
        to = address(codes), address(tile_lengths), block_ends
        if parser is not None:
            return int(kernels.encode_tiles_max(*tiles, *parser, table.decode_lengths, *to))
        scratch = np.empty(kernels.encode_scratch(tile_size), np.uint8)
        nbytes = kernels.encode_tiles(
            *tiles,
            table.hash_symbols,
            table.hash_meta,
            table.pair_codes,
            table.byte_codes,
            table.two_byte_limit,
            *to,
            address(scratch),
        )
        return int(nbytes)

    return encode


def _symbols(table: SymbolTable) -> tuple[npt.NDArray[Any], ...]:
    return table.decode_symbols, table.decode_lengths, table.length_limits


_COMPARER = CodeComparer(
    comparing.place_codes,
    comparing.mark_codes,
    comparing.mark_second,
    comparing.same_codes,
    comparing.plan_value,
    comparing.may_have,
    comparing.may_end,
)
DECODER = decoder(kernels.decode_tile, _symbols, _COMPARER)


def _lift(machine: ByteAutomaton, table: SymbolTable) -> npt.NDArray[np.uint64]:
    entries = np.empty((3 * machine.states, 256), np.uint64)
    of_bytes = machine.following, machine.accepts, machine.classes
    kernels.lift_codes(*of_bytes, table.decode_symbols, table.decode_lengths, entries)
    return entries


SEARCH: Search | None = Search(
    _lift,
    match_rows,
    rows.row_symbols,
    row_answerer(rows.CODES, kernels.decode_tile, _COMPARER),
    _COMPARER.plan,
)


def check_codes(segment: Segment) -> None:
    layout, table = segment.layout, segment.table
    assert isinstance(table, SymbolTable)
    arguments = segment.codes, segment.section("tile_lengths"), table.decode_lengths, layout.chars, layout.tile_size
    starts = segment.section("block_starts")

    def check(tiles: tuple[int, int]) -> tuple[int, int]:
        return _check_codes(*arguments, *tiles, int(starts[tiles[0] // TILE_BLOCK]))

    for reason, tile in map_items(check, cut(0, layout.tiles, _CHECKED_TILES)):
        if reason:
            raise ValueError(REASONS[reason].format(tile))


@njit()
def _check_codes(
    codes: npt.NDArray[np.uint8],
    tile_lengths: npt.NDArray[Any],
    decode_lengths: npt.NDArray[np.uint8],
    chars: int,
    tile_size: int,
    first: int,
    last: int,
    position: int,
) -> tuple[int, int]:
    """Codes of tiles `first` to ``last - 1``, from `position` on, against their bytes; their lengths were checked."""
    for tile in range(first, last):
        end: Any = position + np.int64(tile_lengths[tile]) + 1
        expected = min(tile_size, chars - tile * tile_size)
        if end - position == expected:  # raw
            position = end
            continue
        decoded = 0
        while position < end:
            code = codes[position]
            if code == 255:
                if position + 1 == end:
                    return 2, tile
                decoded += 1
                position += 2
            else:
                length: Any = np.int64(decode_lengths[code])
                if length == 0:
                    return 1, tile
                decoded += length
                position += 1
        if decoded != expected:
            return 3, tile
    return 0, 0
