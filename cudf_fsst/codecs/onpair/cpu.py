"""OnPair on the host: what differs from other codecs of text (`contract.HostTextCodec`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...workers import map_items
from ..text.cpu_decode import decoder
from ..text.cpu_match_kernels import Search, matcher
from ..text.cpu_places_kernels import NO_CODES
from ..text.cpu_rows_kernels import row_answerer
from ..text.plan import COMPARED_TILE, choice_sample, scope_nbytes
from ..text.search import Automaton
from ..text.segment import Segment
from ..unaligned import address
from . import cpu_compare_kernels as comparing
from . import cpu_kernels as kernels
from . import cpu_rows_kernels as rows
from . import cpu_search_kernels as searching
from . import plan
from .symbols import BITS, OnPairTable
from .train import train_table

__all__ = ["DECODER", "REASONS", "SEARCH", "check_codes", "encoder", "train"]

#: What `kernels.find_damage` may find wrong in a tile.
REASONS = {
    1: "tile {} has a length that no number of its codes has",
    2: "tile {} has a code that its table lacks",
    3: "tile {} has bits behind its last code",
    4: "tile {} does not decode to its bytes",
}


def train(chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str) -> OnPairTable:
    """Train the table of a scope, `nbytes` characters from `start` on (docs/format.md, section 23).

    At level ``max`` tables of 10, 11 and 12 bits are compared on another sample: the one with which the scope would be
    smallest is taken.
    """
    sample = plan.sample(chars, start, nbytes, level)
    return trained(*sample, choice_sample(chars, start, nbytes) if level == "max" else sample[0], nbytes, level)


def trained(
    sample: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    other: npt.NDArray[np.uint8],
    nbytes: int,
    level: str,
) -> OnPairTable:
    """The table of a scope, by its sample, and another one for level ``max``."""
    if level == "default":
        return train_table(sample, starts, nbytes, plan.BITS)
    return smallest(map_items(lambda bits: train_table(sample, starts, nbytes, bits), BITS), other, nbytes)


def smallest(tables: Sequence[OnPairTable], sample: npt.NDArray[np.uint8], nbytes: int) -> OnPairTable:
    """The table with which a scope of `nbytes` is expected to be smallest, by a sample of it."""
    sizes = [scope_nbytes(encoder(table, "max", COMPARED_TILE), table, sample, nbytes) for table in tables]
    return tables[sizes.index(min(sizes))]  # of equal ones that with fewer bits


def encoder(table: OnPairTable, level: str, tile_size: int) -> Callable[..., int]:
    """What encodes tiles; see `contract.HostTextCodec`. Levels do not differ here."""
    trie = table.patricia.places

    def encode(
        chars: npt.NDArray[np.uint8],
        first: int,
        last: int,
        codes: npt.NDArray[np.uint8],
        tile_lengths: npt.NDArray[Any],
        block_ends: npt.NDArray[np.uint64],
    ) -> int:
        scratch = np.empty(kernels.encode_scratch(tile_size), np.uint8)
        tiles = address(chars), chars.size, tile_size, first, last
        to = address(codes), address(tile_lengths), block_ends, address(scratch)
        return int(kernels.encode_tiles(*tiles, trie, table.bits, *to))

    return encode


def _decoding(table: OnPairTable) -> tuple[npt.NDArray[Any], ...]:
    return table.words, table.lengths, table.head


DECODER = decoder(
    kernels.decode_tile,
    _decoding,
    NO_CODES._replace(
        same=comparing.same_codes, plan=comparing.plan_value, may_have=comparing.may_have, may_end=comparing.may_end
    ),
)


def _lift(machine: Automaton, table: OnPairTable) -> npt.NDArray[np.uint64]:
    lifted = np.empty(1 + 3 * (machine.states << table.bits) // 2, np.uint64)
    of_bytes = machine.following, machine.accepts, machine.classes
    searching.lift_codes(*of_bytes, table.words, table.lengths, table.bits, lifted)
    return lifted


SEARCH: Search | None = Search(
    _lift,
    matcher(searching.search_window),
    rows.row_symbols,
    row_answerer(rows.CODES, kernels.decode_tile),
)


def check_codes(segment: Segment) -> None:
    layout, lengths = segment.layout, segment.section("tile_lengths")
    where = DECODER.addresses(segment.table), layout.chars, layout.tile_size
    reason, tile = kernels.find_damage(address(segment.codes), lengths, *where)
    if reason:
        raise ValueError(REASONS[reason].format(tile))
