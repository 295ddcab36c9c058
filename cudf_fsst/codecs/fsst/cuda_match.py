"""How FSST's codes are searched on the GPU: what `text.cuda_search` asks of a codec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...device.memory import Lane, device_attributes
from ..text import cuda_search
from ..text.launch import SearchShape, decode_codes_capacity
from ..text.search import Plan
from . import launch
from .cuda_kernels import get_kernel

if TYPE_CHECKING:  # its readers ask the registry for this codec
    from ..text.cuda_reading import Reading


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
        del states, planes, staged
        return ()

    def values_kernel(self, name: str) -> Any:
        return get_kernel("fsst_values", name)


_SEARCHER = FsstSearcher()


def match(reading: Reading, plan: Plan, *, kept: bool, lane: Lane) -> tuple[Any, bool] | None:
    """See `contract.DeviceTextCodec`."""
    return cuda_search.match(reading, plan, _SEARCHER, kept=kept, lane=lane)
