"""How FSST's codes are searched, and rows are read, on the GPU: what `text.cuda_search` and `text.cuda_rows` ask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...automata import RowAutomaton
from ...device.memory import Lane, device_attributes
from ..text import cuda_rows, cuda_search
from ..text.cuda_reading import Reading
from ..text.launch import EdgesShape, SearchShape, decode_codes_capacity
from ..text.search import Plan
from . import launch
from .cuda_kernels import get_kernel


class FsstSearcher:
    """See `text.cuda_match_layout.Searcher`."""

    #: Of codes, and of literal bytes.
    BLOCKS = 2

    def automaton_nbytes(self, states: int) -> int:
        return launch.AUTOMATON_NBYTES * states

    def automata_kernel(self) -> Any:
        return get_kernel("fsst_automata", "fsst_automata")

    def more_of_automata(self) -> tuple[()]:
        return ()

    def shape(self, tile_size: int, codes_nbytes: int, tiles: int, states: int, planes: int) -> SearchShape:
        attributes = device_attributes()
        return launch.search_shape(
            tile_size,
            decode_codes_capacity(tile_size, codes_nbytes, tiles),
            states,
            planes,
            attributes["shared_per_block"],
            attributes["shared_per_multiprocessor"],
        )

    def search_kernel(self, tile_size: int, states: int, planes: int, staged: int) -> Any:
        name = "fsst_search" + ("_two" if planes == 2 else "")
        name += "_large" if not staged else "_alone" if states == planes == 1 else ""
        return get_kernel("fsst_search", name, tile_size)

    def more_of_search(self, states: int, planes: int, staged: int) -> tuple[()]:
        return ()

    def edges(self, rows: int, chars: int, codes_nbytes: int, most: int, length: int) -> tuple[Any, EdgesShape] | None:
        shape = launch.edges_shape(rows, chars, codes_nbytes, most, length, device_attributes()["shared_per_block"])
        return None if shape is None else (get_kernel("fsst_edges", "fsst_edges"), shape)

    def values_kernel(self, name: str) -> Any:
        return get_kernel("fsst_values", name)


class FsstRunner:
    """See `text.cuda_rows.RowRunner`."""

    def resident(self, architecture: int, staged: bool) -> int:
        return launch.rows_resident(architecture, staged)

    def automaton_nbytes(self, states: int) -> int:
        return launch.ROWS_NBYTES * states + launch.RESTARTS_NBYTES

    def staged_nbytes(self, states: int) -> int:
        return self.automaton_nbytes(states) if states <= launch.NARROW_STATES else 0

    def lift(self, states: int, staged: bool) -> cuda_rows.Lift:
        kernel, place = get_kernel("fsst_rows_lift", "fsst_rows_lift"), np.uint32(launch.ROWS_PLACES[staged])
        return cuda_rows.Lift(kernel, 2 * states + 1, 256, (place,))

    def kernel(self, tile_size: int, staged: bool) -> Any:
        return get_kernel("fsst_rows", "fsst_rows" if staged else "fsst_rows_large", tile_size)

    def more(self) -> tuple[()]:
        return ()


_SEARCHER, _RUNNER = FsstSearcher(), FsstRunner()


def match(reading: Reading, plan: Plan, *, kept: bool, lane: Lane) -> tuple[Any, bool] | None:
    return cuda_search.match(reading, plan, _SEARCHER, kept=kept, lane=lane)


def answer(reading: Reading, machine: RowAutomaton, *, lane: Lane) -> Any:
    return cuda_rows.answer(reading, machine, _RUNNER, lane=lane)
