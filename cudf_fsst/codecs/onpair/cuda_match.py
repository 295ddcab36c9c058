"""How OnPair's codes are searched, and rows are read, on the GPU: what `text.cuda_search` and `text.cuda_rows` ask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...automata import RowAutomaton
from ...device.memory import Lane, device_attributes
from ..cuda_kernels import get_kernel
from ..text import cuda_rows, cuda_search
from ..text.cuda_reading import Reading
from ..text.launch import BUNDLE_TILES, SearchShape, values_defines
from ..text.search import Plan
from . import launch
from .symbols import BITS


class OnPairSearcher:
    """See `text.cuda_match_layout.Searcher`; of tables whose codes have at most so many bits."""

    #: Of codes alone: every byte is one, so no literals follow.
    BLOCKS = launch.AUTOMATA_PARTS

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def automaton_nbytes(self, states: int) -> int:
        return launch.automaton_nbytes(states, self._bits)

    def automata_kernel(self) -> Any:
        return get_kernel("onpair_automata", "onpair_automata", launch.AUTOMATA_DEFINES)

    def more_of_automata(self) -> tuple[Any, ...]:
        return (np.uint32(self._bits),)

    def shape(self, tile_size: int, codes_nbytes: int, tiles: int, states: int, planes: int) -> SearchShape:
        attributes = device_attributes()
        limits = attributes["shared_per_block"], attributes["shared_per_multiprocessor"]
        of_bundle = BUNDLE_TILES * codes_nbytes // max(tiles, 1)
        return launch.search_shape(tile_size, of_bundle, states, planes, self._bits, limits)

    def search_kernel(self, tile_size: int, states: int, planes: int, staged: int) -> Any:
        alone = states == planes == 1 and staged == 4 << self._bits  # with the ends
        name = "onpair_search" + ("_alone" if alone else "" if staged else "_large")
        return get_kernel("onpair_search", name, launch.search_defines(tile_size), shared=True)

    def more_of_search(self, states: int, planes: int, staged: int) -> tuple[Any, ...]:
        return np.uint32(planes), np.uint32(staged), np.uint64(self.automaton_nbytes(states))

    def edges(self, rows: int, chars: int, codes_nbytes: int, most: int, length: int) -> None:
        return None

    def values_kernel(self, name: str) -> Any:
        return get_kernel("onpair_values", f"onpair_{name}", values_defines())


class OnPairRunner:
    """See `text.cuda_rows.RowRunner`; of tables whose codes have at most so many bits."""

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def resident(self, architecture: int, staged: bool) -> int:
        return launch.ROWS_RESIDENT

    def automaton_nbytes(self, states: int) -> int:
        return launch.rows_automaton_nbytes(states, self._bits)

    def staged_nbytes(self, states: int) -> int:
        return 0

    def lift(self, states: int, staged: bool) -> cuda_rows.Lift:
        kernel = get_kernel("onpair_rows_lift", "onpair_rows_lift", launch.lift_defines())
        return cuda_rows.Lift(kernel, (1 << self._bits) // launch.LIFT_CODES, 8 * launch.LIFT_CODES, self.more())

    def kernel(self, tile_size: int, staged: bool) -> Any:
        return get_kernel("onpair_rows", "onpair_rows", launch.rows_defines(tile_size), shared=True)

    def more(self) -> tuple[Any, ...]:
        return (np.uint32(self._bits),)


def match(reading: Reading, plan: Plan, *, kept: bool, lane: Lane) -> tuple[Any, bool] | None:
    return cuda_search.match(reading, plan, OnPairSearcher(_bits_of(reading)), kept=kept, lane=lane)


def answer(reading: Reading, machine: RowAutomaton, *, lane: Lane) -> Any:
    return cuda_rows.answer(reading, machine, OnPairRunner(_bits_of(reading)), lane=lane)


def _bits_of(reading: Reading) -> int:
    """The fewest bits that the codes of all its tables have at most."""
    return next(bits for bits in BITS if launch.table_nbytes(bits) >= reading.table_nbytes)
